"""Runs the paper authors' own public code on our texts, as a witness beside our own runs.

    git clone https://github.com/dair-iitd/PoolingAnalysis CLONE
    python scripts/authors_code.py CLONE --data FOLDER --work FOLDER

It reads the very texts, splits, words and word vectors that our runs read: IMDb, long, standard.
Their `train.py` runs as it is, on the processor, in a process of its own, in which stand-ins take
the place of what no longer loads; none of their code is copied. A row with the accuracies that it
writes, which are means over batches, goes to
data/results/authors.csv the moment a run ends. Runs that are there already are not run again, so
the same command goes on after a break.

`last1` is their model without pooling, its forget bias 1 in both bias vectors, 2 in sum.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import pandas as pd
import torch
import torchtext

from paper.corpora.dataset import Dataset, encode, make_dataset
from paper.runs.kinds.training import Training
from paper.runs.run import Place, commit_of, provenance
from whenpool.base.errors import InputError, check
from whenpool.base.files import write_atomically
from whenpool.corpora.tokens import load_vectors

POOLINGS: dict[str, tuple[str, float | None]] = {
    "last1": ("last", 2.0),
    "mean": ("mean", None),
    "max": ("max", None),
    "att_luong": ("attention", None),
    "att_max": ("max_attention", None),
}
"""Their names -> ours, and the sum of the forget gate's two biases, None as torch draws them."""

SEEDS, TASK, VECTORS = 3, "IMDB_LONG", "glove.6B.100d"
FILES = {"train": "train", "validation": "dev", "test": "test"}
"""Our splits -> the names of their files."""

RESULTS = Path(__file__).resolve().parents[1] / "data" / "results" / "authors.csv"
IDENTITY = ["pooling", "seed", "size", "vectors", "authors_commit", "data_corpus", "data_vectors"]
"""The columns by which a run is known to be there already."""


def clone_commit(clone: Path) -> str:
    """The commit of the clone, with "+" where its files differ from it. Raises `InputError` for a
    folder that is no clone of the authors' code."""
    address = "https://github.com/dair-iitd/PoolingAnalysis"
    advice = f"{clone} is not a clone of the authors' code; run git clone {address} {clone}"
    commit = commit_of(clone, digits=40)
    is_clone = (clone / "train.py").is_file() and (clone / ".git").exists()
    check(is_clone and commit, advice)
    return commit


def trainings() -> Iterator[tuple[str, Training]]:
    """Their names of poolings, and the training of ours that each run stands beside: those of the
    first seed first."""
    common = {"length": "long", "vectors": VECTORS, "masked": False, "epochs": 20}
    for seed in range(SEEDS):
        for pool, (ours, bias) in POOLINGS.items():
            yield pool, Training("imdb", "standard", 1_000, ours, seed, forget_bias=bias, **common)


def write_texts(run: Training, place: Place, folder: Path) -> Dataset:
    """Write the texts of a training in their format: a line of JSON each, words joined by a
    space."""
    encoded = encode(place.source(run), run.length, place.cache)
    dataset = make_dataset(encoded, size=run.size)
    for split, name in FILES.items():
        rows, labels = encoded.texts[split].ids, getattr(dataset, split).labels.tolist()
        lines = []
        for number, label in enumerate(labels):
            text = " ".join(encoded.words[word] for word in rows.row(number).tolist())
            lines.append(json.dumps({"s": text, "class": label}) + "\n")
        write_atomically(folder / f"{name}.json", "".join(lines))
    return dataset


def identity(run: Training, place: Place, commit: str) -> dict[str, Any]:
    """What makes a run this one. Raises `InputError` for data that are not there."""
    names = "pooling seed corpus length setting size vectors epochs forget_bias masked"
    data = {f"data_{name}": value for name, value in run.identity(place)["data"].items()}
    return run.values(names) | data | {"source": "authors' code", "authors_commit": commit}


def execute(pool: str, run: Training, clone: Path, place: Place, work: Path) -> dict[str, Any]:
    """Run their train.py once, in a fresh process and a folder that no other run writes to; returns
    what a row has beside its identity. Raises `InputError` when their code fails, with the last
    that it said."""
    work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{pool}-{run.seed}-", dir=work))
    dataset = write_texts(run, place, folder / "data" / TASK)
    code, log = folder / "code", folder / "said.txt"
    code.mkdir()  # its ../data and ../models are then this run's own
    paths = [str(clone), str(place.vectors_file(VECTORS)), str(place.cache.resolve())]
    options = (
        f"--pool {pool} --data_size {-(-run.size // 1000)}K --batch_size {run.batch_size} "
        f"--lr {run.learning_rate} --task {TASK} --wiki none --epochs {run.epochs} --log 0 "
        f"--customlstm 0 --mode train --seed {run.seed}"
    ).split()  # those of "Train a model" in their README, and our recipe
    here = str(Path(__file__).resolve().parent)
    variables = {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    variables |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-B", "-c", "from authors_code import drive; drive()"]
    start = time.perf_counter()
    with log.open("w", encoding="utf-8") as said:
        done = subprocess.run(
            [*command, *paths, *options],
            cwd=code,
            env=os.environ | variables,
            stdout=said,
            stderr=subprocess.STDOUT,
            check=False,
        )
    seconds = time.perf_counter() - start
    last = (log.read_text("utf-8").strip().splitlines() or ["nothing"])[-1]
    failed = f"the authors' code failed on {pool} seed {run.seed}: {last:.300}; see {log}"
    check(done.returncode == 0, failed)
    facts = {
        "test_accuracy": _numbers(folder, "test.txt")[-1],
        "validation_accuracy": max(_numbers(folder, "dev.txt")),
        **{f"{split}_texts": len(getattr(dataset, split)) for split in FILES},
        "seconds": round(seconds, 1),
    }
    shutil.rmtree(folder / "data")  # what their code said and wrote of accuracies stays
    for weights in folder.glob("models*/**/*.pt"):
        weights.unlink()
    return provenance("cpu") | facts


def _numbers(folder: Path, name: str) -> list[float]:
    """What their code wrote, a number a line."""
    files = list(folder.glob(f"models*/**/{name}"))
    numbers = [float(line) for file in files for line in file.read_text().split()]
    none = f"the authors' code wrote no accuracy into a {name} under {folder}; delete the folder"
    check(numbers, none)
    return numbers


def drive() -> None:
    """In a process of its own: run their train.py, given the clone, word vectors, cache and
    options.

    Its tokenizer splits at white space, since our words are given; its word vectors are ours; what
    it asks of a GPU by name stays on the processor. Debugger and tokenizer are imported and not
    used; dill keeps texts on disk between runs: here they stay in memory, so each run shuffles them
    by its own seed.
    """
    clone, vectors, cache, *options = sys.argv[1:]
    sys.path[:0] = [clone, f"{clone}/my_models"]
    sys.modules |= {name: ModuleType(name) for name in ("ipdb", "spacy")}
    kept: dict[str, Any] = {}
    dill: Any = SimpleNamespace(load=lambda file: kept[file.name])
    dill.dump = lambda texts, file: kept.update({file.name: texts})
    sys.modules["dill"] = dill
    if not hasattr(torch.nn, "_VF"):
        torch.nn._VF = torch._VF
    torch.Tensor.to = _never_cuda(torch.Tensor.to)
    torchtext.data.field.get_tokenizer = lambda *_: str.split
    torchtext.vocab.pretrained_aliases[VECTORS] = _vectors(Path(vectors), Path(cache))
    sys.argv = ["train.py", *options]
    runpy.run_path(f"{clone}/train.py", run_name="__main__")


def _never_cuda(to: Callable[..., Any]) -> Callable[..., Any]:
    def moved(tensor: Any, *args: Any, **named: Any) -> Any:
        if args and isinstance(args[0], str) and args[0].startswith("cuda"):
            args = ("cpu", *args[1:])
        return to(tensor, *args, **named)

    return moved


def _vectors(path: Path, cache: Path) -> Callable[..., torchtext.vocab.Vectors]:
    """What torchtext calls for word vectors; it would fetch them otherwise."""

    def loaded(unk_init: Any = None, **_: Any) -> torchtext.vocab.Vectors:
        read, vectors = load_vectors(path, cache), object.__new__(torchtext.vocab.Vectors)
        vectors.itos, vectors.vectors, vectors.dim = read.words, read.matrix, read.size
        vectors.stoi = {word: row for row, word in enumerate(read.words)}
        vectors.unk_init = unk_init or torch.Tensor.zero_
        return vectors

    return loaded


FOLDER = click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True)


@click.command(help=__doc__)
@click.argument("clone", type=FOLDER)
@click.option("--data", type=FOLDER, required=True, help="Folder with corpora and word vectors.")
@click.option("--work", type=click.Path(path_type=Path, resolve_path=True), required=True)
def main(clone: Path, data: Path, work: Path) -> None:
    try:
        commit, place = clone_commit(clone), Place.default(data)
        for pool, run in trainings():
            identical = identity(run, place, commit)
            table = pd.read_csv(RESULTS)
            same = table[IDENTITY].eq([identical[name] for name in IDENTITY])
            if same.all(axis=1).any():
                continue
            row = execute(pool, run, clone, place, work) | identical
            table.loc[len(table)] = [row[name] for name in table.columns]
            write_atomically(RESULTS, table.to_csv(index=False, lineterminator="\n"))
            print(f"{pool} seed {run.seed}: test {row['test_accuracy']:.2f}", flush=True)
    except InputError as error:
        sys.exit(f"authors_code: {error}")


if __name__ == "__main__":
    main()
