"""The scripts: a bag of words, and what a GPU machine runs."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import bag_of_words as bag
import pandas as pd
import pytest
from clones import CAPTURED, ROOT

from paper.runs.kinds.training import Training, prepare
from paper.runs.store import Store

SCRIPT = ROOT / "scripts" / "gpu_runner.sh"
SMALL = "synthetic:train=60,validation=20,test=40,shortest=8,longest=12"


@pytest.mark.parametrize("setting", ["standard", "mid"])
def test_a_bag_of_words_counts_the_texts_of_a_training_and_learns_from_them(place, setting):
    easy = (
        "synthetic:train=200,validation=40,test=80,shortest=30,longest=40,density=0.2,agreement=1"
    )
    run = Training(easy, setting, 150, "last", max_words=32, test=60)
    given, read = prepare(run, place).dataset, bag.read_texts(run, place)
    texts = {
        split: getattr(given, split).ids.to_lists() for split in ("train", "validation", "test")
    }
    found = bag.measure(read)
    for split, rows in texts.items():  # measuring has left them as they were
        counted = bag.counts(getattr(read, split), len(read.vocabulary)).toarray()
        expected = [[row.count(word) for word in range(len(given.vocabulary))] for row in rows]
        assert counted.tolist() == expected
        assert getattr(read, split).labels.tolist() == getattr(given, split).labels.tolist()
    assert found["test_accuracy"] >= 90
    assert (found["test_texts"], found["C"] in bag.STRENGTHS) == (60, True)


def run(**options):
    """The script with nothing of this environment's own options."""
    environment = {
        name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ
    }
    environment |= {"OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    environment |= {name: str(value) for name, value in options.items()}
    return subprocess.run(["bash", SCRIPT], env=environment, **CAPTURED)


def test_what_was_asked_for_is_computed_twice_compared_and_packed(tmp_path):
    """The script as it is, in folders of its own, without the book."""
    done = run(
        PROFILE="smoke",
        DEVICE="cpu",
        CORPUS=SMALL,
        SETTINGS="mid",
        POOLINGS="max,last",
        DEADLINE="10m",
        WORKERS=1,
        BOOK=0,
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
    assert "== no book was asked for" in done.stdout
    record = ROOT / "data" / "results" / "comparisons.csv"  # nothing smoke-sized is put on record
    assert not record.exists() or "synthetic" not in record.read_text()
