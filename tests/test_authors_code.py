"""The witness: our texts as the authors' code reads them, runs that are not run twice, one-line errors."""

import importlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from whenpool.base.errors import InputError
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.corpora.tokens import tokenize

script = importlib.import_module("authors_code")
CLONE = os.environ.get("WHENPOOL_AUTHORS_CODE", "")


@pytest.fixture
def workplace(tmp_path, place):
    rows = [f"{word} {'0.5 ' * 99}{number}\n" for number, word in enumerate(("film", "was"))]
    (place.data / "glove.6B.100d.txt").write_text("".join(rows))
    return script.Workplace(Path(CLONE), "c0ffee", place, tmp_path / "work", tmp_path / "rows.csv")


@pytest.fixture
def runs(tmp_path):
    """Two seeds of two poolings, on a small corpus."""
    words = ["dull", "fine", "Dull;", "FINE"]
    rows = [f'"The film {i // 4} was {words[i % 4]}\u2028, {i}!",{i % 2}\n' for i in range(240)]
    (tmp_path / "films.csv").write_text("".join(["text,label\n", *rows]), "utf-8")
    asked = script.planned(["last1", "att_max"], seeds=2, epochs=6, size=100)
    data = {"corpus": str(tmp_path / "films.csv"), "length": "any"}
    return [replace(run, ours=replace(run.ours, **data)) for run in asked]


def test_the_files_hold_the_words_and_labels_that_our_model_reads(runs, workplace, tmp_path):
    encoded, dataset = script.read_texts(runs[0].ours, workplace.place)
    script.write_texts(encoded, dataset, tmp_path / "texts")
    corpus = workplace.place.source(runs[0].ours).load("any")
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


def test_runs_go_by_seed_and_stand_beside_ours():
    runs = script.planned(["last1", "att_luong"], seeds=2, epochs=20, size=1000)
    assert [str(run) for run in runs] == [
        f"{p} seed {s}" for s in (0, 1) for p in ("last1", "att_luong")
    ]
    kinds = [(run.ours.pooling, run.ours.forget_bias) for run in runs[:2]]
    assert kinds == [("last", 2.0), ("attention", None)]
    words = " ".join(script.options(runs[2]))
    assert "--pool last1 --data_size 1K --batch_size 32 --lr 0.002 --task IMDB_LONG" in words
    assert words.endswith("--epochs 20 --log 0 --customlstm 0 --mode train --seed 1")


def test_what_is_stored_is_not_run_again(runs, workplace, monkeypatch):
    def execute(run, workplace):
        if failing and run == runs[2]:
            raise InputError("as if it were killed")
        ran.append(run)
        row = dict.fromkeys(script.COLUMNS, 1) | script.identity(run, workplace)
        return row | {"test_accuracy": 81.25, "seconds": 12.5}

    monkeypatch.setattr(script, "execute", execute)
    ran, failing = [], True
    with pytest.raises(InputError, match="killed"):
        script.execute_all(runs, workplace)
    assert ran == runs[:2]
    assert [row["forget_bias"] for row in script.read_rows(workplace.output)] == ["2.0", ""]
    failing = False
    script.execute_all(script.missing(runs, workplace), workplace)
    assert ran == runs
    longer = replace(runs[0], ours=replace(runs[0].ours, epochs=7))
    assert script.missing([*runs, longer], workplace) == [longer]


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


@pytest.mark.skipif(
    not CLONE, reason="set WHENPOOL_AUTHORS_CODE to a clone of dair-iitd/PoolingAnalysis"
)
def test_their_code_learns_what_we_give_it(runs, workplace):
    row = script.execute(runs[1], workplace)
    assert row["test_accuracy"] >= 90
    assert (row["train_texts"], row["validation_texts"], row["test_texts"]) == (100, 48, 48)
    assert not list(workplace.work.rglob("*.pt"))
