"""From sources to pages, in a small copy of the clone; and editing, with pages that follow."""

import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress

import nbformat
import pytest
from called import refused
from clones import HEAD, ROOT, builder, clone, code_cell, first_page, place_of
from small_runs import wait_for

from paper.chapters import plan
from paper.pages.builder import Asked, Builder, execute
from paper.runs.engine import Workforce
from paper.runs.request import Request
from whenpool.base.errors import BookError

CHAPTERS = ("few_shot", "gradient_propagation", "sequence_labelling", "status")


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Some chapters from smoke-sized runs. They refer to others, so that no page is rendered."""
    folder, said = clone(tmp_path_factory.mktemp("clone")), []
    pages = [f"- file: book/{name}" for name in CHAPTERS[1:]]
    (folder / "_toc.yml").write_text("\n".join([f"root: book/{CHAPTERS[0]}", "chapters:", *pages]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paper.pages.finish.render", first_page)
        return folder, builder(folder, said).build(), said


def test_chapters_are_executed_once_away_from_the_published_place(executed, monkeypatch):
    monkeypatch.setattr("paper.pages.finish.render", first_page)
    folder, page, lines = executed
    assert page == folder / "_build/smoke/_build/html/index.html"
    assert (page.exists(), (folder / "_build" / "html").exists()) == (True, False)
    assert any(line.startswith("[1/") for line in lines)
    runs = {file: file.stat().st_mtime_ns for file in (folder / "data/runs/smoke").glob("*.json")}
    place, said = place_of(folder), []
    wanted = {run for name in CHAPTERS[:-1] for run in plan(name, Request("smoke"), place)}
    trained = {run.training for run in wanted if getattr(run, "on_trained", False)}
    assert len(runs) == len(wanted | trained)
    for name in CHAPTERS[:-1]:
        notebook = (folder / "_build/smoke/_build/stage/book" / f"{name}.ipynb").read_text("utf-8")
        assert "Figures and tables are of this execution" in notebook
        assert "This execution: " in notebook  # what these runs gave is shown
    assert builder(folder, said).build() == page  # again, and nothing is computed or executed
    chapters = [line.split("]")[-1] for line in said if line.startswith("[")]
    assert chapters == [f" {name}: unchanged" for name in CHAPTERS]
    assert {file: file.stat().st_mtime_ns for file in runs} == runs


@pytest.mark.parametrize(
    "text, message",
    [
        (
            HEAD + "```{code-cell} ipython3\n:tags: [a\n\n1\n```\n",
            r"index.md has YAML that .* valid: [^\n]+$",
        ),
        ("# Front\n\nSee {ref}`nowhere`.\n", r"could not be rendered(?s:.*)nowhere"),
    ],
    ids=["tags that do not end", "a broken reference"],
)
def test_a_mistake_in_a_chapter_fails_the_build_and_is_reported(tmp_path, text, message):
    with pytest.raises(BookError, match=message):
        builder(clone(tmp_path, {"index": text}), []).build()


def test_failed_runs_fail_the_build_after_the_pages_are_there(executed, monkeypatch):
    folder, page, _ = executed
    monkeypatch.setattr("paper.pages.finish.render", first_page)
    monkeypatch.setattr(Asked, "compute", lambda *_: 1)
    with pytest.raises(BookError, match="1 runs failed and are not in the pages"):
        builder(folder, []).build(["status"])
    assert page.exists()


def test_missing_data_are_reported_before_anything_is_executed(tmp_path):
    folder, said = clone(tmp_path), []
    asked = Asked(Request("quick", ("imdb",)), place_of(folder), Workforce(workers=1))
    refused(r"aclImdb_v1.tar.gz is not in", Builder(folder, asked, said.append).build)
    assert (said, (folder / "_build").exists()) == ([], False)


def test_a_kernel_that_dies_is_reported_with_its_cell(tmp_path):
    source, kill = tmp_path / "sums.md", "import os, signal\nos.kill(os.getpid(), 9)"
    source.write_text(HEAD + code_cell("1 + 1") + code_cell(kill))
    line = source.read_text().split("\n").index("import os, signal") + 1
    cell = rf"sums.md, the cell at line {line} \(import os, signal\): DeadKernelError: Kernel died"
    with pytest.raises(BookError, match=cell):
        execute(source, tmp_path / "sums.ipynb", {})


MADE = """:tags: [parameters]

profile = "quick"
```

```{code-cell} ipython3
from pathlib import Path
Path("rows").mkdir(exist_ok=True)
Path("rows/some.csv").write_text(profile)
print("made with", profile)"""


def test_pages_are_rendered_from_exactly_the_notebooks_that_were_executed_elsewhere(tmp_path):
    """Executed in one clone, as on a GPU machine, handed on, and rendered in another."""
    chapters = {"index": HEAD + code_cell(MADE) + "{download}`rows <rows/some.csv>`\n"}
    there, here = clone(tmp_path / "there", chapters), clone(tmp_path / "here", chapters)
    handed = tmp_path / "notebooks"
    elsewhere = builder(there, [])
    assert elsewhere.execute() == 0
    elsewhere.hand_on(handed)
    assert not (there / "_build/smoke/_build/html").exists()  # it need not render
    refused(
        r"index.ipynb is smoke-sized and is not published", Builder(here).build_executed, handed
    )
    page = builder(here, []).build_executed(handed)
    text = (page.parent / "book" / "index.html").read_text("utf-8")
    about = nbformat.read(handed / "index.ipynb", 4).metadata["whenpool"]
    assert about["device"].startswith("cpu: ")
    assert f"Executed on {about['device']}, commit {about['commit']}, profile smoke." in text
    assert "made with smoke" in text
    assert [file.read_text() for file in page.parent.rglob("some.csv")] == ["smoke"]
    (here / "book" / "index.md").write_text(HEAD + code_cell("1 + 1"))
    refused(
        "index.ipynb has another text than here; execute the ch",
        builder(here, []).build_executed,
        handed,
    )
    (handed / "index.ipynb").unlink()
    refused(
        "index.ipynb is not there; execute the chapter index",
        builder(here, []).build_executed,
        handed,
    )
    assert "executing, since it has not" in executed_again(here)  # the log begins anew


def test_a_request_shows_the_usual_book_where_nothing_was_asked_and_says_so(tmp_path):
    named = HEAD + code_cell(MADE) + "{download}`rows <rows/some.csv>`\n"
    other = HEAD + code_cell("print('the first words')")
    folder = clone(tmp_path, {"index": named, "other": other})
    usual, request = Builder(folder, say=print), builder(folder, said := [])
    stage = request.stage / "book"
    for words in ("the first words", "other words"):
        text = other.replace("the first words", words)
        (folder / "book" / "other.md").write_text(text)
        usual.execute()
        request.execute(["index"])
        borrowed = nbformat.read(stage / "other.ipynb", 4)
        assert "that of the usual book" in borrowed.cells[1].source
        assert words in (stage / "other.ipynb").read_text()
        assert (stage / "rows" / "some.csv").read_text() == "smoke"  # the request's own
    assert said.count("Not asked for, so as in the usual book: other") == 2
    request.execute()  # asked for at last
    assert "usual book" not in (stage / "other.ipynb").read_text()


def executed_again(folder):
    """What a build says after that."""
    builder(folder, said := []).build()
    return "\n".join(said)


@pytest.fixture
def live(tmp_path):
    """A book of one chapter, served: its source, the page, and a wait for what is printed next."""
    folder = clone(tmp_path / "clone", {"index": HEAD + code_cell("print('the first words')")})
    (folder / "lib" / "whenpool" / "words.py").write_text("VALUE = 0\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-u", ROOT / "scripts" / "live.py", "--profile", "smoke", "--port"]
    output, read, path = tmp_path / "said", 0, {"PYTHONPATH": str(ROOT / "lib")}
    with output.open("w") as stream:
        where = {"cwd": folder, "env": os.environ | path, "stdout": stream, "stderr": stream}
        process = subprocess.Popen([*command, str(port)], **where)

    def wait(pattern):
        nonlocal read
        match = wait_for(lambda: re.search(pattern, output.read_text()[read:], re.MULTILINE))
        read += match.end()
        assert "Traceback" not in output.read_text()
        return match[0]

    def page():
        with suppress(
            urllib.error.URLError
        ):  # the address is printed just before the server listens
            address = f"http://127.0.0.1:{port}/book/index.html"
            return urllib.request.urlopen(address, timeout=600).read().decode()

    wait(f"The book is at http://127.0.0.1:{port}/")
    yield folder / "book" / "index.md", lambda: wait_for(page), wait
    process.terminate()
    process.wait(timeout=600)


def test_the_page_follows_an_edit_and_a_mistake_is_one_line(live):
    source, page, wait = live
    assert "the first words" in page()
    assert "livereload.js" in page()  # what makes the browser reload
    text = source.read_text()
    source.write_text(text.replace("print('the first words')", "nothing"))
    line = 1 + text[: text.index("print('the first words')")].count("\n")
    message = f"whenpool: book/index.md, the cell at line {line} (nothing): NameError: "
    assert wait("^whenpool: .*").startswith(message)
    assert "the first words" in page()  # the page stays as it was
    source.write_text(text.replace("the first words", "other words"))
    wait("index is up to date")
    assert "other words" in page()
    module = source.parents[1] / "lib" / "whenpool" / "words.py"
    module.write_text("VALUE = 1\n")
    wait("index is up to date")


def test_a_work_that_an_edit_cites_is_in_the_bibliography(tmp_path):
    pages = {"index": "# A page\n", "works": "# Works\n\n```{bibliography}\n```\n"}
    folder = clone(tmp_path, pages)
    builder(folder, []).build()
    (folder / "book" / "index.md").write_text("# A page\n\nSee {cite:p}`elman1990`.\n")
    page = builder(folder, []).build()
    assert "Finding structure in time" in (page.parent / "book" / "works.html").read_text("utf-8")
