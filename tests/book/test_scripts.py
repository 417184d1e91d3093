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

from paper.runs.kinds.training import Training, prepare
from paper.runs.store import Store

SMALL = "synthetic:train=60,validation=20,test=40,shortest=8,longest=12"


@pytest.mark.parametrize("setting", ["standard", "mid"])
def test_a_bag_of_words_counts_the_texts_of_a_training_and_learns_from_them(place, setting):
    easy = (
        "synthetic:train=200,validation=40,test=80,shortest=30,longest=40,density=0.2,agreement=1"
    )
    run = Training(easy, setting, 150, "last", max_words=32, test=60)
    dataset = prepare(run, place).dataset
    rows, words = dataset.test.ids.to_lists(), range(len(dataset.vocabulary))
    found = bag.measure(dataset)  # which leaves the texts as they were
    counted = bag.counts(dataset.test, len(words)).toarray()
    assert counted.tolist() == [[row.count(word) for word in words] for row in rows]
    assert found["test_accuracy"] >= 90
    assert (found["test_texts"], found["C"] in bag.STRENGTHS) == (60, True)


def run(script, **options):
    """The script with nothing of this environment's own options."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    environment |= {"PYTHONPATH": str(ROOT / "lib")}
    environment |= {name: str(value) for name, value in options.items()}
    return subprocess.run(["bash", script], env=environment, **CAPTURED)


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
