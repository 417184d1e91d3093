"""Chapters are executed again when something that they are made from has changed, and only then."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import nbformat
import pytest
from called import python
from clones import HEAD, ROOT, builder, clone, code_cell, first_page
from small_runs import alive, wait_for

from paper.pages import builder as building
from paper.pages.freshness import inputs
from whenpool.base.errors import BookError

CHAPTERS = {
    "index": HEAD + code_cell("from paper.chapter import open_chapter"),
    "alone": HEAD + code_cell("import beside"),
    "words": HEAD + code_cell("from whenpool import words\nread_csv('authors.csv')"),
    "status": HEAD,
}
UNCHANGED = dict.fromkeys(CHAPTERS, "unchanged")
FIRST, ASKED = "executing, since it has not been executed yet", "executing, since it was asked for"
STATUS = {"status": "executing, since its list of chapters changed"}


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of four chapters, and a build that executes and renders nothing but says what it
    would."""
    folder = clone(tmp_path, CHAPTERS)
    for file in ("lib/whenpool/tiny.py", "lib/paper/tiny.toml", "book/beside.py"):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("VALUE = 1\n")
    (folder / "data" / "runs" / "smoke").mkdir(parents=True)
    rendered = Mock(side_effect=first_page)

    def execute(source, target, parameters, **about):
        cell = nbformat.v4.new_markdown_cell(f"executed {time.time()}")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), target)

    def build(only=(), force=False):
        """What is said of each chapter, and whether the pages are rendered."""
        said = []
        rendered.reset_mock()
        builder(folder, said).build(only, force)
        return dict(re.findall(r"^\[.*?\] (.*?): (.*)$", "\n".join(said), re.M)), rendered.called

    monkeypatch.setattr("paper.pages.finish.render", rendered)
    monkeypatch.setattr(building, "execute", execute)
    return folder, build


def edit(file, text="\n"):
    file.write_text((file.read_text() if file.exists() else "") + text)
    os.utime(file, (1, 1))  # as if it had been edited long ago: the content counts


@pytest.mark.parametrize(
    "file, chapters, what",
    [
        ("book/index.md", "index", "text"),
        ("book/beside.py", "alone", "modules and scripts"),
        ("lib/whenpool/tiny.py", "index words", "package whenpool"),
        ("lib/paper/tiny.toml", "index", "package paper"),
        ("data/results/trainings.csv", "index", "tables"),
        ("data/results/authors.csv", "index words", "tables"),
        ("data/runs/smoke/new.json", "index", "stored runs"),
        ("data/corpora/reviews.csv", "index", "corpora"),
        ("_config.yml", "index", "titles and address"),
    ],
)
def test_what_changed_is_executed_again_and_the_rest_stays(book, file, chapters, what):
    folder, build = book
    assert build() == (dict.fromkeys(CHAPTERS, FIRST), True)
    assert build() == (UNCHANGED, False)
    (folder / file).parent.mkdir(exist_ok=True)
    edit(folder / file)
    again = dict.fromkeys(chapters.split(), f"executing, since its {what} changed")
    assert build() == (UNCHANGED | again | STATUS, True)
    assert build() == (UNCHANGED, False)


def test_a_run_that_was_computed_again_is_another_one_of_whatever_size(tmp_path):
    (tmp_path / "a.json").write_text("71.25")
    os.utime(tmp_path / "a.json", (1, 1))
    before = inputs(ROOT, "index", [tmp_path], tmp_path / "data")
    assert inputs(ROOT, "index", [tmp_path], tmp_path / "data") == before
    (tmp_path / "a.json").write_text("52.75")
    assert inputs(ROOT, "index", [tmp_path], tmp_path / "data") != before


def test_what_no_chapter_is_made_from_executes_none_and_one_may_be_asked_for(book):
    folder, build = book
    build()
    (folder / "data/runs/smoke/.lock").write_text("")
    (folder / "book" / "references.bib").write_text("")
    assert build() == (UNCHANGED, True)
    assert build(["alone"]) == ({"alone": ASKED}, True)  # the status waits for the whole book
    assert build() == (UNCHANGED | STATUS, True)
    assert build(force=True) == (dict.fromkeys(CHAPTERS, ASKED), True)


def test_beside_a_chapter_that_is_asked_for_the_others_are_those_of_the_usual_book(book):
    folder, build = book
    usual = building.Builder(folder, say=[].append)  # which has other parameters
    usual.build()
    assert build(["alone"]) == ({"alone": ASKED, "status": FIRST}, True)
    here = builder(folder, []).stage
    for name in CHAPTERS:
        cells = nbformat.read(here / "book" / f"{name}.ipynb", 4).cells
        theirs = nbformat.read(usual.stage / "book" / f"{name}.ipynb", 4).cells[0]
        is_borrowed = name not in ("alone", "status")
        assert (cells[0].source == theirs.source) == is_borrowed
        assert ("that of the usual book" in cells[-1].source) == is_borrowed
    executed = {name for name, said in build()[0].items() if said != "unchanged"}
    assert executed == {*CHAPTERS} - {"alone"}


def test_a_chapter_that_was_interrupted_is_executed_again(book, monkeypatch):
    folder, build = book
    build()
    execute = building.execute

    def interrupted(*words, **about):
        execute(*words, **about)
        raise KeyboardInterrupt

    edit(folder / "book" / "index.md", "Some text.\n")
    monkeypatch.setattr(building, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build()
    monkeypatch.setattr(building, "execute", execute)
    assert build()[0]["index"] == FIRST


def test_the_paper_in_one_file_depends_on_that_file_and_the_builder_needs_no_torch(tmp_path):
    made = inputs(ROOT, "minimal", [tmp_path], tmp_path)
    assert list(made) == ["text", "modules and scripts", "versions", "tables"]
    nothing = inputs(clone(tmp_path, {"minimal": HEAD}), "minimal", [tmp_path], tmp_path)
    assert made["tables"] == nothing["tables"]
    assert made["modules and scripts"] != nothing["modules and scripts"]
    program = "import sys, paper.pages.builder; sys.exit('torch' in sys.modules)"
    assert python(program).returncode == 0


def test_a_failing_chapter_is_never_fresh_and_the_folder_of_all_threads_stays(tmp_path):
    folder, here = clone(tmp_path, {"index": HEAD + code_cell("1 / 0")}), os.getcwd()
    failed = r"book/index.md, the cell at line \d+ \(1 / 0\): ZeroDivisionError: division"
    for _ in range(2):
        with pytest.raises(BookError, match=failed):
            builder(folder, []).build()
    assert os.getcwd() == here
    assert "WHENPOOL_COMPUTED" not in os.environ
    assert json.loads((folder / "_build/smoke/_build/stage/executed.json").read_text()) == {}


@pytest.mark.slow
def test_an_interrupted_build_leaves_no_kernel(tmp_path):
    """Ctrl-C ends the kernels of both chapters, which would go on for an hour."""
    wait = HEAD + code_cell(
        "import os, time\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(3600)"
    )
    folder = clone(tmp_path, {"index": wait, "other": wait})
    program = (
        "import signal, sys; from pathlib import Path; from clones import builder; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # also started by a shell's &
        "builder(Path(sys.argv[1]), []).build()"
    )
    with subprocess.Popen([sys.executable, "-c", program, folder], cwd=ROOT / "tests") as build:
        at_once = min(2, building.kernels_at_once())
        wait_for(lambda: build.poll() is not None or len([*folder.rglob("*.pid")]) >= at_once)
        build.send_signal(signal.SIGINT)
        assert build.wait(600) != 0
    kernels = [int(file.stem) for file in folder.rglob("*.pid")]
    assert len(kernels) >= at_once
    wait_for(lambda: not any(map(alive, kernels)))
