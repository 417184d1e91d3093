"""Editing: chapters by short names, cells linted where they stand, pages that follow."""

import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from clones import HEAD, ROOT, clone

from whenpool import InputError
from whenpool.book.build import chapter_named
from whenpool.book.launch import as_python, chapters, lint

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
def test_an_unknown_or_ambiguous_name_is_told_in_one_line_with_all_names(given):
    with pytest.raises(InputError) as told:
        chapter_named(given, NAMES)
    assert "\n" not in str(told.value)
    assert f"there is no chapter {given!r}" in str(told.value)
    assert ", ".join(NAMES) in str(told.value)


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


class Said:
    """The lines of a process as they come."""

    def __init__(self, process):
        self.lines, self.seen = queue.Queue(), []
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            self.lines.put(line.rstrip("\n"))

    def wait(self, pattern):
        """The next line that matches; `queue.Empty` where none comes for 90 seconds."""
        while not self.seen or not re.search(pattern, self.seen[-1]):
            self.seen.append(self.lines.get(timeout=90))
        return self.seen.pop()


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
    """A book of one chapter, served: its source, what is said, and the port."""
    cell = "```{code-cell} ipython3\nprint('the first words')\n```\n"
    folder = clone(tmp_path / "clone", {"index": HEAD + cell})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "whenpool.book.live", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--profile", "smoke"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lib")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield folder / "book" / "index.md", Said(process), port
    process.terminate()
    process.wait(20)


def test_the_page_follows_an_edit_and_a_mistake_is_one_line(live):
    source, said, port = live
    said.wait(f"The book is at http://127.0.0.1:{port}/")
    assert "the first words" in page(port)
    assert "livereload.js" in page(port)  # what makes the browser reload
    text = source.read_text()
    source.write_text(text.replace("print('the first words')", "nothing"))
    told = said.wait("^whenpool: ")
    assert told.startswith("whenpool: chapter index, cell 2 (nothing): NameError: ")
    assert "the first words" in page(port)  # the page stays as it was
    assert not any("Traceback" in line for line in said.seen)
    source.write_text(text.replace("the first words", "other words"))
    said.wait("index is up to date")
    assert "other words" in page(port)
