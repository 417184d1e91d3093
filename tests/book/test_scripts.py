"""The scripts: a bag of words, and what a GPU machine runs."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import bag_of_words as bag
import pandas as pd
import pytest
from clones import CAPTURED, HEAD, ROOT, builder, clone, code_cell
from small_runs import alive, wait_for

from paper.runs.kinds.training import Training, prepare
from paper.runs.store import Store

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
SMALL = "synthetic:train=60,validation=20,test=40,shortest=8,longest=12"


@pytest.mark.parametrize("setting", ["standard", "mid"])
def test_a_bag_of_words_learns_from_the_texts_of_a_training(place, setting):
    easy = (
        "synthetic:train=200,validation=40,test=80,shortest=30,longest=40,density=0.2,agreement=1"
    )
    run = Training(easy, setting, 150, "last", max_words=32, test=60)
    dataset = prepare(run, place).dataset
    rows = dataset.test.ids.to_lists()
    found = bag.measure(dataset)
    assert dataset.test.ids.to_lists() == rows  # the texts stay as they were
    assert found["test_accuracy"] >= 90
    assert (found["test_texts"], found["C"] in bag.STRENGTHS) == (60, True)


def run(script, arguments=(), **options):
    """The script with nothing of this environment's own options."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    environment |= {"PYTHONPATH": str(ROOT / "lib")}
    environment |= {name: str(value) for name, value in options.items()}
    return subprocess.run(["bash", script, *arguments], env=environment, **CAPTURED)


@pytest.fixture
def session(tmp_path):
    """A session on a GPU that is lent, with a Python that notes what it is called with; it starts
    with a folder that an earlier call has left half unpacked."""
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "keys.txt").write_text("")
    (tmp_path / "session").mkdir()
    with tarfile.open(tmp_path / "session" / "packed.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "packed", "packed")
    (tmp_path / "work" / "packed").mkdir(parents=True)
    python = (
        'echo "$$ $@" >> "$CALLS"\ncase "$*" in *"whenpool run"*) exec sleep $SECONDS_OF_ONE; esac'
    )
    (tmp_path / "python").write_text(f"#!/bin/sh\n{python}\n")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "blocks").write_text("exact --first\n\nfast --second")
    folders = {name.upper(): tmp_path / name for name in ("session", "out", "work", "calls")}
    files = {"PYTHON": tmp_path / "python", "BLOCKS": tmp_path / "blocks"}
    return folders | files | {"DEVICE": "cpu"}


def test_each_block_of_a_session_is_run_with_what_was_packed(session):
    done = run(ROOT / "scripts" / "gpu_session.sh", ["run"], **session, SECONDS_OF_ONE=0)
    assert done.returncode == 0, done.stderr
    calls = [line for line in session["CALLS"].read_text().splitlines() if "whenpool run" in line]
    assert [line.split()[-1] for line in calls] == ["--first", "--second"]
    assert (session["WORK"] / "packed" / "keys.txt").exists()


def test_a_session_that_is_stopped_leaves_no_process_behind(session):
    script, options = ROOT / "scripts" / "gpu_session.sh", session | {"SECONDS_OF_ONE": 100_000}
    environment = os.environ | {name: str(value) for name, value in options.items()}
    process = subprocess.Popen(["bash", script, "run"], env=environment, **QUIET)
    wait_for(lambda: session["CALLS"].exists() and "--first" in session["CALLS"].read_text())
    process.terminate()
    assert process.wait(600) == 130
    pids = [int(line.split()[0]) for line in session["CALLS"].read_text().splitlines()]
    assert not any(alive(pid) for pid in pids[:1])  # the training; the last one is of the report
    assert "--second" not in session["CALLS"].read_text()


CHAPTER = """:tags: [parameters]

profile = "quick"
corpus = None
only = None
```

```{code-cell} ipython3
from paper.chapter import open_chapter

chapter = open_chapter("training_to_skip", profile, corpus, None, only)
print(len(chapter.shown("training", setting=...)), "trainings of", profile)"""


def test_a_gpu_machine_computes_executes_and_packs_and_pages_are_rendered_from_that(tmp_path):
    """The script as it is, in a small clone: runs, twice for a comparison, then the chapters, which
    are handed on to another clone."""
    chapters = {"training_to_skip": HEAD + code_cell(CHAPTER)}
    there, here = clone(tmp_path / "there", chapters), clone(tmp_path / "here", chapters)
    done = run(
        there / "scripts" / "gpu_runner.sh",
        PROFILE="smoke",
        DEVICE="cpu",
        CORPUS=SMALL,
        SETTINGS="mid",
        POOLINGS="max,last",
        SEEDS=1,
        DEADLINE="10m",
        WORKERS=1,
        STORE=tmp_path / "runs",
        OUT=tmp_path / "out",
        DATA=tmp_path,
        WHENPOOL_CACHE=tmp_path / "cache",
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "unpacked"
    with tarfile.open(tmp_path / "out" / "whenpool-results.tar.gz") as archive:
        archive.extractall(folder)
        assert all(name in done.stdout for name in archive.getnames() if "." in Path(name).name)
    trainings = Store(folder / "runs").rows("training")[["setting", "pooling"]]
    assert sorted(trainings.itertuples(index=False, name=None)) == [("mid", "last"), ("mid", "max")]
    cells = pd.read_csv(folder / "results" / "comparisons.csv")
    assert cells["pairs"].sum() == cells["identical"].sum() == cells["with_weights"].sum() == 4
    for name, words in {"twice": "identical", "check": "device cpu:", "status": "_skip"}.items():
        assert words in (folder / f"{name}.txt").read_text()
    record = there / "data" / "results" / "comparisons.csv"  # nothing smoke-sized is put on record
    assert "synthetic" not in record.read_text()
    page = builder(here, []).build_executed(folder / "notebooks")
    text = (page.parent / "book" / "training_to_skip.html").read_text("utf-8")
    assert re.search(r"[1-9]\d* trainings of smoke", text)
    banner = r"</a></h1>\n<div class=\"execution [^>]*>\n<p><strong>Figures and tables are of this"
    assert re.search(banner, text)  # below the heading that a screen shows
    assert re.search(r"Executed on cpu: .*, commit \w+\+?, profile smoke\.", text)
