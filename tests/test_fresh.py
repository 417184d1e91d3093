"""Chapters are executed again when something that they depend on has changed, and only then."""

import json
import os
import time
from pathlib import Path

import pytest
from clones import HEAD, builder, clone, code_cell

from whenpool.base.errors import BookError
from whenpool.book import build as building
from whenpool.book import fresh

EXECUTE = building.execute
CELL = """import sys
from pathlib import Path
root = Path.cwd().parents[4]
sys.path.insert(0, str(root / "lib" / "whenpool"))
import tiny
(root / "data" / "paper" / "accuracy.csv").read_text()"""
OPENED = {
    "index": ("lib/whenpool/tiny.py", "data/paper/accuracy.csv"),
    "runs": ("data/runs/smoke",),
    "status": (),
}


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of three chapters, and a build that executes and renders nothing but says what it would."""
    folder = clone(tmp_path, {"index": HEAD + code_cell(CELL), "runs": HEAD, "status": HEAD})
    (folder / "lib" / "whenpool" / "tiny.py").write_text("VALUE = 1\n")
    (folder / "data" / "runs" / "smoke").mkdir(parents=True)
    monkeypatch.setattr(fresh, "LIBRARY", folder / "lib" / "whenpool")
    rendered = []

    def execute(source, target, parameters, environment):
        opened = [str(folder / name) for name in OPENED[source.stem]]
        Path(environment[fresh.NOTES]).write_text("\n".join(opened))
        target.write_text(f"executed {time.time()}")

    def render(stage, output):
        page = output / "_build" / "html" / "index.html"
        page.parent.mkdir(exist_ok=True)
        page.touch()
        rendered.append(page)
        return page

    def build(only=(), force=False):
        said = []
        rendered.clear()
        builder(folder, said).build(only, force)
        lines = [line.split("] ")[1] for line in said if line.startswith("[")]
        return dict(line.split(": ", 1) for line in lines), bool(rendered)

    monkeypatch.setattr(building, "render", render)
    monkeypatch.setattr(building, "execute", execute)
    return folder, build


AS_BEFORE = dict.fromkeys(("index", "runs", "status"), "as before")
STATUS = {"status": "executed: it reports on the others"}


def edit(file, text):
    file.write_text(file.read_text() + text)
    os.utime(file, (1, 1))  # as if it had been edited long ago: the content counts


def test_what_changed_is_executed_again_and_the_rest_stays(book):
    folder, build = book
    first = "executed: it was not executed yet"
    assert build() == ({"index": first, "runs": first} | STATUS, True)
    assert build() == (AS_BEFORE, False)
    for file, chapter, reason in (
        ("book/index.md", "index", "its text changed"),
        ("lib/whenpool/tiny.py", "index", "the library's tiny.py changed"),
        ("data/paper/accuracy.csv", "index", "data/paper/accuracy.csv changed"),
    ):
        edit(folder / file, "\n")
        assert build() == (AS_BEFORE | {chapter: f"executed: {reason}"} | STATUS, True)
    (folder / "data" / "runs" / "smoke" / "new.json").touch()
    assert build() == (AS_BEFORE | {"runs": "executed: its runs changed"} | STATUS, True)
    for unread in ("data/paper/vanishing.csv", "data/runs/smoke/.lock", "lib/whenpool/other.py"):
        (folder / unread).write_text("")
    assert build() == (AS_BEFORE, False)
    (folder / "book" / "references.bib").write_text("")
    assert build() == (AS_BEFORE, True)
    asked = "executed: it was asked for"
    assert build(["runs"]) == ({"runs": asked} | STATUS, True)
    assert build(force=True) == ({"index": asked, "runs": asked} | STATUS, True)


def test_a_chapter_that_was_interrupted_or_edited_meanwhile_is_executed_again(book, monkeypatch):
    folder, build = book
    build()
    execute = building.execute

    def interrupted(*given):
        execute(*given)
        raise KeyboardInterrupt

    def edited(*given):
        execute(*given)
        (folder / "lib" / "whenpool" / "tiny.py").write_text("VALUE = 2\n")

    edit(folder / "book" / "index.md", "Some text.\n")
    monkeypatch.setattr(building, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build()
    monkeypatch.setattr(building, "execute", edited)
    assert build()[0]["index"] == "executed: it was not executed yet"
    monkeypatch.setattr(building, "execute", execute)
    assert build()[0]["index"] == "executed: the library's tiny.py changed"


def test_a_kernel_notes_what_it_opens_and_a_failing_chapter_is_never_fresh(book, monkeypatch):
    folder, build = book
    monkeypatch.setattr(building, "execute", EXECUTE)
    build()
    log = json.loads((folder / "_build/smoke/_build/stage/executed.json").read_text())
    assert set(log["index"]["files"]) == {str(folder / name) for name in OPENED["index"]}
    assert log["runs"]["files"] == {}
    edit(folder / "book" / "index.md", code_cell("1 / 0"))
    for _ in range(2):
        with pytest.raises(BookError, match="ZeroDivisionError"):
            build()
    (folder / "book" / "index.md").write_text(HEAD + code_cell(CELL))
    assert build()[0]["index"] == "executed: it was not executed yet"
