"""The scripts: the authors' code as a witness, and what a GPU machine runs."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from clones import ROOT

from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.corpora.tokens import tokenize
from whenpool.runs.store import Store

script = importlib.import_module("authors_code")


def test_the_files_hold_the_words_and_labels_that_our_model_reads(place, tmp_path):
    words = ["dull", "fine", "Dull;", "FINE"]
    rows = [f'"The film {i // 4} was {words[i % 4]}\u2028, {i}!",{i % 2}\n' for i in range(240)]
    (tmp_path / "films.csv").write_text("".join(["text,label\n", *rows]), "utf-8")
    rows = [f"{word} {'0.5 ' * 99}{number}\n" for number, word in enumerate(("film", "was"))]
    (place.data / "glove.6B.100d.txt").write_text("".join(rows))
    (asked,) = script.planned(["att_max"], seeds=1, epochs=6, size=100)
    run = replace(asked.ours, corpus=str(tmp_path / "films.csv"), length="any")
    encoded, dataset = script.read_texts(run, place)
    script.write_texts(encoded, dataset, tmp_path / "texts")
    corpus = place.source(run).load("any")
    number = {word: index for index, word in enumerate(dataset.vocabulary)}
    for split, name in script.FILES.items():
        with (tmp_path / "texts" / f"{name}.json").open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        ours, published = getattr(dataset, split), getattr(corpus, split)[: len(rows)]
        read = [(row["s"].split(), row["class"]) for row in rows]
        assert read == [(tokenize(text), label) for text, label in published]
        assert [label for _, label in read] == ours.labels.tolist()
        numbers = [[number.get(word, UNKNOWN_INDEX) for word in words] for words, _ in read]
        assert numbers == ours.ids.to_lists()


def test_mistakes_are_one_line(tmp_path, capsys):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    given = [str(tmp_path / "clone"), "--data", str(tmp_path), "--work", str(tmp_path / "work")]
    assert script.main(given) == 2
    assert "is no clone of the authors' code; git clone https" in capsys.readouterr().err
    git = ["git", "-C", tmp_path / "clone", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", tmp_path / "clone"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], check=True)
    (tmp_path / "clone" / "train.py").touch()
    for option, message in {
        f"--data={tmp_path / 'none'}": "data folder",
        "--poolings=first": "'first' is unknown",
        f"--output={tmp_path / 'new.csv'}": "aclImdb_v1.tar.gz is not in",
        f"--output={tmp_path / 'other.csv'}": "name another output",
    }.items():
        assert script.main([*given, option]) == 2
        said = capsys.readouterr().err
        assert (message in said, said.count("\n")) == (True, 1)


SCRIPT = ROOT / "scripts" / "gpu_runner.sh"
SMALL = "synthetic:train=60,validation=20,test=40,shortest=8,longest=12"


def run(script=SCRIPT, **options):
    """The script with nothing of this environment's own options."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    environment |= {name: str(value) for name, value in options.items()}
    return subprocess.run(["bash", script], capture_output=True, text=True, check=False, env=environment)


def test_what_was_asked_for_is_computed_twice_compared_and_packed(tmp_path):
    done = run(
        PROFILE="smoke", DEVICE="cpu", CORPUS=SMALL, ONLY="setting=mid,pooling=max+last",
        DEADLINE="10m", WORKERS=1, BOOK=0,
        STORE=tmp_path / "runs", OUT=tmp_path / "out", DATA=tmp_path, WHENPOOL_CACHE=tmp_path / "cache",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "unpacked"
    with tarfile.open(tmp_path / "out" / "whenpool-results.tar.gz") as archive:
        archive.extractall(folder)
        assert all(name in done.stdout for name in archive.getnames() if "." in Path(name).name)
    trainings = Store(folder / "runs").rows("training")
    assert set(trainings["setting"]) == {"mid"}
    assert sorted(trainings["pooling"]) == ["last", "max"]
    cells = pd.read_csv(folder / "results" / "comparisons.csv")
    assert cells["pairs"].sum() == cells["identical"].sum() == cells["with_weights"].sum() == 4
    for name, words in {"twice": "4 are identical", "check": "device cpu:", "status": "_skip"}.items():
        assert words in (folder / f"{name}.txt").read_text()
    assert "== no book was asked for" in done.stdout
    record = ROOT / "data" / "results" / "comparisons.csv"  # nothing smoke-sized is put on record
    assert not record.exists() or "synthetic" not in record.read_text()


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
def test_a_missing_gpu_ends_it_at_once_with_one_line(tmp_path):
    done = run(PROFILE="smoke", OUT=tmp_path / "out", STORE=tmp_path / "runs")
    assert done.returncode == 2
    [line] = done.stderr.strip().splitlines()
    assert line.startswith("gpu_runner: device cuda: torch")
    assert "sees no GPU" in line
    assert not (tmp_path / "out" / "whenpool-results.tar.gz").exists()


STAND_IN = """#!/usr/bin/env bash
[ "$1" = -c ] && exit "${NO_BOOK:-0}"
shift 2
echo "$@" >> "$CALLS"
case $1 in
    check) printf 'note    corpus imdb: not there; fetch it\\nok      corpus yelp: whole\\n' ;;
    run) mkdir -p "$WHENPOOL_STORE"; echo '{}' > "$WHENPOOL_STORE/abc.json" ;;
    book) mkdir -p _build/stage/book; echo '{}' > _build/stage/book/chapter.ipynb ;;
esac
[ "$1" != "${FAILING:-}" ] || exit 2
"""


@pytest.fixture
def clone(tmp_path):
    """A clone whose `whenpool` only notes what it is told."""
    folder = tmp_path / "clone"
    (folder / "scripts").mkdir(parents=True)
    (folder / "data" / "results").mkdir(parents=True)
    (folder / "data" / "results" / "trainings.csv").write_text("key\n")
    shutil.copy(SCRIPT, folder / "scripts")
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)

    def go(**options):
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        script = folder / "scripts" / SCRIPT.name
        done = run(script, PYTHON=stand_in, CALLS=calls, **options)
        return done, [line.split() for line in calls.read_text().splitlines()], folder

    return go


@pytest.mark.parametrize("verb", ["run", "compare", "record", "book", "status"])
def test_what_there_is_is_packed_though_something_failed(clone, verb):
    done, calls, folder = clone(FAILING=verb)
    assert done.returncode == 2
    assert [words[0] for words in calls][4:] == ["run", "record", "book", "status"]
    assert (folder / "_build" / "runner" / "whenpool-results.tar.gz").exists()


def test_without_jupyter_book_or_a_machine_that_is_ready_it_says_so(clone):
    done, calls, _ = clone(NO_BOOK=1, TWICE=0)
    assert done.returncode == 0
    assert "== no book: jupyter-book, jupytext or papermill is not installed" in done.stdout
    assert [words[0] for words in calls] == ["check", "run", "record", "status"]
    done, calls, _ = clone(FAILING="check")
    assert (done.returncode, [words[0] for words in calls]) == (2, ["check"])
