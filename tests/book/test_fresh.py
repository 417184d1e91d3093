"""Chapters are executed again when something that they depend on has changed, and only then."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from unittest.mock import Mock

import psutil
import pytest
from clones import HEAD, ROOT, builder, clone, code_cell, first_page
from small_runs import SMALL

from paper.pages import builder as building
from paper.pages.builder import ask_again
from paper.runs.engine import Report
from paper.runs.run import Place
from paper.runs.store import Store
from paper.verdicts.results import Runs
from whenpool.base.errors import BookError

EXECUTE, LIBRARY = building.execute, building.LIBRARY
CELL = """import beside
from paper.chapter import open_chapter
open_chapter("index").results("training", "compact", seed=77)"""
USED = ("lib/whenpool/tiny.py", "_build/smoke/_build/stage/book/beside.py")
QUERY = "['training', None, {'seed': 77}]"
AS_BEFORE = dict.fromkeys(("index", "runs", "status"), "unchanged")
STATUS = {"status": "executing, since it reports on the other chapters"}
FIRST, ASKED = "executing, since it has not been executed yet", "executing, since it was asked for"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of three chapters, and a build that executes and renders nothing but says what it
    would."""
    folder = clone(tmp_path, {"index": HEAD + code_cell(CELL), "runs": HEAD, "status": HEAD})
    for file in ("lib/whenpool/tiny.py", "book/beside.py"):
        (folder / file).write_text("VALUE = 1\n")
    (folder / "data" / "runs" / "smoke").mkdir(parents=True)
    monkeypatch.setattr(building, "LIBRARY", folder / "lib" / "whenpool")
    rendered = Mock(side_effect=first_page)

    def execute(source, target, parameters):
        target.write_text(f"executed {time.time()}")
        files = [str(folder / name) for name in USED] if source.stem == "index" else []
        asked = ask_again(Runs(Place.default()), [QUERY]) if source.stem == "runs" else {}
        return json.dumps({"files": files, "asked": asked})

    def build(only=(), force=False):
        """What is said of each chapter, and whether the pages are rendered."""
        said = []
        rendered.reset_mock()
        builder(folder, said).build(only, force)
        return dict(re.findall(r"^\[.*?\] (.*?): (.*)$", "\n".join(said), re.M)), rendered.called

    monkeypatch.setattr(building, "render", rendered)
    monkeypatch.setattr(building, "execute", execute)
    return folder, build


def edit(file, text):
    file.write_text(file.read_text() + text)
    os.utime(file, (1, 1))  # as if it had been edited long ago: the content counts


def test_what_changed_is_executed_again_and_the_rest_stays(book):
    folder, build = book
    assert build() == ({"index": FIRST, "runs": FIRST} | STATUS, True)
    assert build() == (AS_BEFORE, False)
    for file, chapter, reason in (
        ("book/index.md", "index", "its text changed"),
        ("lib/whenpool/tiny.py", "index", "its tiny.py changed"),
        ("book/beside.py", "index", "its beside.py changed"),
    ):
        edit(folder / file, "\n")
        assert build() == (AS_BEFORE | {chapter: f"executing, since {reason}"} | STATUS, True)
    for unread in ("data/runs/smoke/.lock", "lib/whenpool/other.py"):
        (folder / unread).write_text("")
    assert build() == (AS_BEFORE, False)
    (folder / "book" / "references.bib").write_text("")
    assert build() == (AS_BEFORE, True)
    assert build(["runs"]) == ({"runs": ASKED} | STATUS, True)
    assert build(force=True) == ({"index": ASKED, "runs": ASKED} | STATUS, True)
    edit(folder / "data" / "paper" / "accuracy.csv", "\n")
    every = dict.fromkeys(("index", "runs"), "executing, since its tables changed")
    assert build() == (every | STATUS, True)


def test_new_runs_repeat_the_chapters_whose_answers_they_change(book, monkeypatch):
    """The runs of the request, and those that a chapter has asked for; the status counts all."""
    folder, build = book
    place, counted = builder(folder, []).place, {"status": "executing, since its runs changed"}
    monkeypatch.setattr(building, "planned", lambda name, *_: [SMALL] * (name == "runs"))
    monkeypatch.setattr(building, "compute", lambda *_, **__: Report())
    build()

    def store(store, run, **named):
        identity = run.identity(place) | named
        return store.put(identity, run.row() | named, {"test_accuracy": 50.0}, {"seconds": 1.0})

    store(place.store, replace(SMALL, seed=1))
    assert build()[0]["runs"] == "unchanged"
    store(place.store, SMALL)
    assert build() == (AS_BEFORE | {"runs": "executing, since its runs changed"} | STATUS, True)
    finished = Store(folder / "data" / "runs")  # the smallest profile has a folder of its own
    store(finished, replace(SMALL, seed=76))
    assert build() == (AS_BEFORE | counted, True)
    store(finished, replace(SMALL, seed=77))
    answered = {"runs": f"executing, since the answer to {QUERY} changed"}
    assert build() == (AS_BEFORE | answered | STATUS, True)
    assert build() == (AS_BEFORE, False)


def test_a_chapter_that_was_interrupted_is_executed_again(book, monkeypatch):
    folder, build = book
    build()
    execute = building.execute

    def interrupted(*given):
        execute(*given)
        raise KeyboardInterrupt

    edit(folder / "book" / "index.md", "Some text.\n")
    monkeypatch.setattr(building, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build()
    monkeypatch.setattr(building, "execute", execute)
    assert build()[0]["index"] == FIRST


def test_a_kernel_tells_what_it_used_and_a_failing_chapter_is_never_fresh(book, monkeypatch):
    folder, build = book
    noted = building.execute

    def execute(source, *given):
        """One chapter in a kernel, the others as in the tests above."""
        return (EXECUTE if source.stem == "index" else noted)(source, *given)

    monkeypatch.setattr(building, "execute", execute)
    monkeypatch.setattr(building, "LIBRARY", LIBRARY)
    here = os.getcwd()
    build()
    assert os.getcwd() == here  # which all threads share
    log = json.loads((folder / "_build/smoke/_build/stage/executed.json").read_text())
    assert {str(folder / USED[-1]), str(LIBRARY / "book" / "chapter.py")} < {*log["index"]["files"]}
    assert list(log["index"]["asked"]) == ["['training', 'compact', {'seed': 77}]"]
    notebook = (folder / "_build/smoke/_build/stage/book/index.ipynb").read_text()
    assert "print(used())" not in notebook
    (folder / "book" / "index.md").write_text(HEAD + code_cell("1 / 0"))
    for _ in range(2):
        with pytest.raises(BookError, match="ZeroDivisionError"):
            build()


def test_an_interrupted_build_leaves_no_kernel(tmp_path):
    """Ctrl-C ends the kernels of both chapters, which would go on for an hour."""
    wait = HEAD + code_cell(
        "import os, time\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(3600)"
    )
    folder = clone(tmp_path, {"index": wait, "other": wait})
    program = (
        "import signal, sys; sys.path.append('../scripts'); from clones import builder; "
        "from pathlib import Path; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # also started by a shell's &
        "builder(Path(sys.argv[1]), []).build()"
    )
    with subprocess.Popen([sys.executable, "-c", program, folder], cwd=ROOT / "tests") as build:
        while len(kernels := [int(file.stem) for file in folder.rglob("*.pid")]) < 2:
            assert build.poll() is None
            time.sleep(0.1)
        build.send_signal(signal.SIGINT)
        assert build.wait(600) != 0
    assert not any(psutil.pid_exists(kernel) for kernel in kernels)
