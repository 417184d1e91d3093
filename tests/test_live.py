"""Editing: chapters by short names, cells linted where they stand, pages that follow."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from check_pages import as_python, lint
from clones import HEAD, ROOT, clone, code_cell

from whenpool import InputError
from whenpool.book.build import chapter_named
from whenpool.book.launch import chapters

NAMES = [path.stem for path in chapters(ROOT)]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("nwi", "word_importance"),
        ("word_importance", "word_importance"),
        ("importance", "word_importance"),
        ("skip", "training_to_skip"),
        ("tricks", "learnability"),
        ("theory.md", "theory"),
    ],
)
def test_a_chapter_has_short_names(given, meant):
    assert chapter_named(given, NAMES) == meant


@pytest.mark.parametrize("given", ["others", "", "_"])
def test_an_unknown_or_ambiguous_name_is_one_line_with_all_names(given):
    with pytest.raises(InputError, match=f"^there is no chapter {given!r}.*{', '.join(NAMES)}$"):
        chapter_named(given, NAMES)


def test_cells_are_linted_by_the_lines_of_their_chapter(tmp_path):
    text = (
        HEAD
        + "```{code-cell} ipython3\n---\ntags: [hide-input]\n---\nfirst = 1\n```\n\ntext = 2\n\n"
        + "```{code-cell} ipython3\n:tags: [remove-input]\n\nprint(nothing)\n```\n\n"
        + "```python\nthird = 3\n```\n"
    )
    code = as_python(text)
    assert [line for line in code.splitlines() if line] == ["first = 1", "print(nothing)"]
    line = text.splitlines().index("print(nothing)") + 1
    folder = clone(tmp_path, {"index": text})
    assert lint(folder / "book" / "index.md", folder).startswith(f"book/index.md:{line}:7: F821 ")


def page(port):
    for _ in range(100):  # the address is said just before the server listens
        try:
            address = f"http://127.0.0.1:{port}/book/index.html"
            return urllib.request.urlopen(address, timeout=10).read().decode()
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("the book is not served")


@pytest.fixture
def live(tmp_path):
    """A book of one chapter, served: its source, the port, and a wait for what is said next."""
    folder = clone(tmp_path / "clone", {"index": HEAD + code_cell("print('the first words')")})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-u", ROOT / "scripts" / "live.py", "--port", str(port)]
    output, read = tmp_path / "said", 0
    with output.open("w") as stream:
        process = subprocess.Popen(
            [*command, "--profile", "smoke"],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT / "lib")}, stdout=stream, stderr=stream,
        )  # fmt: skip

    def wait(pattern):
        nonlocal read
        for _ in range(900):
            said = output.read_text()
            if found := re.search(pattern, said[read:], re.MULTILINE):
                assert "Traceback" not in said
                read += found.end()
                return found[0]
            time.sleep(0.1)
        raise AssertionError(output.read_text())

    yield folder / "book" / "index.md", port, wait
    process.terminate()
    process.wait(20)


def test_the_page_follows_an_edit_and_a_mistake_is_one_line(live):
    source, port, wait = live
    wait(f"The book is at http://127.0.0.1:{port}/")
    assert "the first words" in page(port)
    assert "livereload.js" in page(port)  # what makes the browser reload
    text = source.read_text()
    source.write_text(text.replace("print('the first words')", "nothing"))
    assert wait("^whenpool: .*").startswith("whenpool: chapter index, cell 2 (nothing): NameError: ")
    assert "the first words" in page(port)  # the page stays as it was
    source.write_text(text.replace("the first words", "other words"))
    wait("index is up to date")
    assert "other words" in page(port)
