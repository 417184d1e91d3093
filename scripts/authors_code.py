"""Runs the paper authors' own public code on our texts, as a witness beside our own runs.

    git clone https://github.com/dair-iitd/PoolingAnalysis CLONE
    python scripts/authors_code.py CLONE --data FOLDER --work FOLDER

It reads the very texts, splits, words and word vectors that our runs read: IMDb, long, standard.
Their `train.py` runs as it is, on the processor, in a process of its own, in which stand-ins take
the place of what no longer loads; none of their code is copied. A row with the accuracies that it
writes, which are means over batches, goes to the output the moment a run ends. Runs that are there
already are not run again, so the same command goes on after a break.

`last1` is their model without pooling, its forget bias 1 in both bias vectors, 2 in sum; `last`
starts as torch does.
"""

import argparse
import ast
import csv
import importlib.util
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torchtext

from paper.corpora.dataset import Dataset, EncodedCorpus, encode, make_dataset
from paper.runs.kinds.training import Training
from paper.runs.run import Place, provenance
from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.corpora.tokens import load_vectors

POOLINGS: dict[str, tuple[str, float | None]] = {
    "last1": ("last", 2.0),
    "last": ("last", None),
    "mean": ("mean", None),
    "max": ("max", None),
    "att_luong": ("attention", None),
    "att_max": ("max_attention", None),
}
"""Their names -> ours, and the sum of the forget gate's two biases, None as torch draws them."""

TASK, VECTORS = "IMDB_LONG", "glove.6B.100d"
FILES = {"train": "train", "validation": "dev", "test": "test"}
"""Our splits -> the names of their files."""

IDENTITY = (
    *("pooling", "seed", "corpus", "length", "setting", "size", "vectors", "epochs", "forget_bias"),
    *("authors_commit", "data_corpus", "data_vectors"),
)
"""The columns by which a run is known to be there already."""
COLUMNS = (
    *("source", *IDENTITY[:9], "masked", "test_accuracy", "validation_accuracy"),
    *("train_texts", "validation_texts", "test_texts", "seconds", *IDENTITY[9:]),
    *("torch", "python", "device", "finished"),
)
Row = dict[str, str]


@dataclass(frozen=True)
class Run:
    """One run of their code: their name of the pooling, and the run of ours that it stands
    beside."""

    pool: str
    ours: Training

    def __str__(self) -> str:
        return f"{self.pool} seed {self.ours.seed}"


@dataclass(frozen=True)
class Workplace:
    """Where their code lies, in which commit, our data, a folder to work in, the file of
    results."""

    clone: Path
    commit: str
    place: Place
    work: Path
    output: Path

    @classmethod
    def of(cls, clone: Path, data: Path, work: Path, output: Path) -> "Workplace":
        """Raises `InputError` for a clone or data folder that is not there."""
        if not data.is_dir():
            raise InputError(
                f"the data folder {data} does not exist; `whenpool data` lists what it needs"
            )
        place = Place.default(data.resolve())
        return cls(clone.resolve(), commit_of(clone), place, work.resolve(), output.resolve())


def commit_of(clone: Path) -> str:
    """The commit of the clone, with "+" where its files differ from it.

    Raises:
        InputError: for a folder that is no clone of the authors' code.
    """
    if not (clone / "train.py").is_file() or not (clone / ".git").exists():
        raise InputError(
            f"{clone} is not a clone of the authors' code; run "
            f"git clone https://github.com/dair-iitd/PoolingAnalysis {clone}"
        )

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", clone, *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise InputError(f"git cannot find the commit of {clone}: {done.stderr}")
        return done.stdout.strip()

    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")


def planned(pools: Iterable[str], seeds: int, epochs: int, size: int) -> list[Run]:
    """All runs that are asked for: those of the first seed first.

    Raises:
        InputError: for an unknown pooling.
    """
    pools = list(pools)
    if unknown := [pool for pool in pools if pool not in POOLINGS]:
        raise InputError(f"pooling {unknown[0]!r} is unknown; choose one of {', '.join(POOLINGS)}")
    common = {"length": "long", "vectors": VECTORS, "masked": False, "epochs": epochs}
    return [
        Run(pool, Training("imdb", "standard", size, ours, seed, forget_bias=bias, **common))
        for seed in range(seeds)
        for pool, (ours, bias) in ((pool, POOLINGS[pool]) for pool in pools)
    ]


def read_texts(run: Training, place: Place) -> tuple[EncodedCorpus, Dataset]:
    """The texts of one of our runs, as its model reads them."""
    encoded = encode(place.source(run), run.length, place.cache)
    return encoded, make_dataset(encoded, size=run.size)


def write_texts(encoded: EncodedCorpus, dataset: Dataset, folder: Path) -> None:
    """Write the texts in their format: a line of JSON each, words joined by a space."""
    for split, name in FILES.items():
        rows, labels = encoded.texts[split].ids, getattr(dataset, split).labels.tolist()
        texts = (
            " ".join(encoded.words[n] for n in rows.row(i).tolist()) for i in range(len(labels))
        )
        pairs = zip(texts, labels, strict=True)
        lines = [json.dumps({"s": text, "class": label}) + "\n" for text, label in pairs]
        write_atomically(folder / f"{name}.json", "".join(lines))


def identity(run: Run, workplace: Workplace) -> Row:
    """What makes a run this one, as it stands in the output.

    Raises:
        InputError: for data that are not there.
    """
    data = run.ours.identity(workplace.place)["data"]
    values = {name: getattr(run.ours, name, None) for name in IDENTITY} | {
        "authors_commit": workplace.commit,
        "data_corpus": data["corpus"],
        "data_vectors": data["vectors"],
    }
    return {name: _cell(value) for name, value in values.items()}


def read_rows(output: Path) -> list[Row]:
    """The rows that are stored.

    Raises:
        InputError: for a file of another kind.
    """
    if not output.exists():
        return []
    with output.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise InputError(
                f"{output} is not a table of runs of the authors' code; name another --output"
            )
        return list(reader)


def missing(runs: Iterable[Run], workplace: Workplace) -> list[Run]:
    """The runs that have no row yet."""
    stored = {tuple(row[name] for name in IDENTITY) for row in read_rows(workplace.output)}
    return [run for run in runs if tuple(identity(run, workplace).values()) not in stored]


def append_row(output: Path, row: dict[str, Any]) -> None:
    """Add a row, all rows or none reaching the disk."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*read_rows(output), {name: _cell(row[name]) for name in COLUMNS}])
    write_atomically(output, text.getvalue())


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def execute(run: Run, workplace: Workplace) -> dict[str, Any]:
    """Run their code once, and return its row.

    Raises:
        InputError: when their code fails, with the last that it said.
    """
    folder = _new_folder(workplace.work, f"{run.pool}-{run.ours.seed}-")
    encoded, dataset = read_texts(run.ours, workplace.place)
    write_texts(encoded, dataset, folder / "data" / TASK)
    seconds = _train(run, workplace, folder)
    accuracies = {name: _numbers(folder, f"{name}.txt") for name in ("dev", "test")}
    _tidy(folder)
    made = {name: value for name, value in provenance("cpu").items() if name in COLUMNS}
    found = {
        "source": "authors' code",
        "masked": run.ours.masked,
        "test_accuracy": accuracies["test"][-1],
        "validation_accuracy": max(accuracies["dev"]),
        **{f"{split}_texts": len(getattr(dataset, split)) for split in FILES},
        "seconds": round(seconds, 1),
    }
    return identity(run, workplace) | made | found


def _new_folder(work: Path, prefix: str) -> Path:
    """One that no other run writes to, not even one that outlived its script."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=work))
    except OSError as error:
        raise InputError(
            f"cannot write to {work}: {error.strerror}; choose another --work"
        ) from None


def _train(run: Run, workplace: Workplace, folder: Path) -> float:
    """Run train.py in a fresh process; returns how long that took."""
    here, log, code = Path(__file__).resolve().parent, folder / "said.txt", folder / "code"
    code.mkdir(parents=True)  # its ../data and ../models are then this run's own
    place = workplace.place
    given = [str(workplace.clone), str(place.vectors_file(VECTORS)), str(place.cache.resolve())]
    variables = {
        "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    start = time.perf_counter()
    with log.open("w", encoding="utf-8") as said:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from authors_code import drive; drive()",
                *given,
                *options(run),
            ],
            cwd=code,
            env=os.environ | variables,
            stdout=said,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        last = (log.read_text("utf-8").strip().splitlines() or ["nothing"])[-1]
        raise InputError(f"the authors' code failed on {run}: {last:.300}; see {log}")
    return time.perf_counter() - start


def options(run: Run) -> list[str]:
    """The options of their train.py: those of "Train a model" in their README, and our recipe."""
    ours = run.ours
    thousands = -(-ours.size // 1000)  # they take the first so many of the texts, which are no more
    return (
        f"--pool {run.pool} --data_size {thousands}K --batch_size {ours.batch_size} "
        f"--lr {ours.learning_rate} --task {TASK} --wiki none --epochs {ours.epochs} --log 0 "
        f"--customlstm 0 --mode train --seed {ours.seed}"
    ).split()


def _numbers(folder: Path, name: str) -> list[float]:
    """What their code wrote, a number a line."""
    files = list(folder.glob(f"models*/**/{name}"))
    numbers = [float(line) for file in files for line in file.read_text().split()]
    if not numbers:
        raise InputError(
            f"the authors' code wrote no accuracy into a {name} under {folder}; delete the folder"
        )
    return numbers


def _tidy(folder: Path) -> None:
    """Delete texts and weights; what their code said and wrote of accuracies stays."""
    shutil.rmtree(folder / "data")
    for weights in folder.glob("models*/**/*.pt"):
        weights.unlink()


def drive() -> None:
    """In a process of its own: run their train.py, given the clone, word vectors, cache and
    options.

    Its tokenizer splits at white space, since our words are given; its word vectors are ours; what
    it asks of a GPU by name stays on the processor; what it imports in vain gets a stand-in.
    """
    clone, vectors, cache, *theirs = sys.argv[1:]
    sys.path[:0] = [clone, f"{clone}/my_models"]
    for name in _imported(Path(clone)):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = StandIn(name)
    if not hasattr(torch.nn, "_VF"):
        torch.nn._VF = torch._VF
    torch.Tensor.to = _never_cuda(torch.Tensor.to)
    torchtext.data.field.get_tokenizer = lambda *_: str.split
    torchtext.vocab.pretrained_aliases[VECTORS] = _vectors(Path(vectors), Path(cache))
    sys.argv = ["train.py", *theirs]
    runpy.run_path(f"{clone}/train.py", run_name="__main__")


class StandIn(ModuleType):
    """A module in place of one that is not installed.

    Debugger and tokenizer are imported by their code and not used. The one that does something
    keeps texts on disk between runs: here they stay in memory, so each run shuffles them by its own
    seed.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.kept: dict[str, Any] = {}

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    def dump(self, value: Any, file: Any) -> None:
        self.kept[file.name] = value

    def load(self, file: Any) -> Any:
        return self.kept[file.name]


def _imported(clone: Path) -> set[str]:
    """The modules that their files name in imports."""
    names: set[str] = set()
    for file in (*clone.glob("*.py"), *clone.glob("my_models/*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names


def _never_cuda(to: Callable[..., Any]) -> Callable[..., Any]:
    def moved(tensor: Any, *args: Any, **named: Any) -> Any:
        if args and isinstance(args[0], str) and args[0].startswith("cuda"):
            args = ("cpu", *args[1:])
        return to(tensor, *args, **named)

    return moved


def _vectors(path: Path, cache: Path) -> Callable[..., torchtext.vocab.Vectors]:
    """What torchtext calls for word vectors; it would fetch them otherwise."""

    def loaded(unk_init: Any = None, **_: Any) -> torchtext.vocab.Vectors:
        read, found = load_vectors(path, cache), object.__new__(torchtext.vocab.Vectors)
        found.itos, found.vectors, found.dim = read.words, read.matrix, read.size
        found.stoi = {word: row for row, word in enumerate(read.words)}
        found.unk_init = unk_init or torch.Tensor.zero_
        return found

    return loaded


def execute_all(runs: list[Run], workplace: Workplace, workers: int = 1) -> None:
    """Execute runs, and store each as it ends; once one has failed none is begun."""
    storing, broken = threading.Lock(), threading.Event()

    def one(run: Run) -> None:
        if broken.is_set():
            return
        try:
            row = execute(run, workplace)
        except BaseException:
            broken.set()
            raise
        with storing:
            append_row(workplace.output, row)
            print(f"{run}: test {row['test_accuracy']:.2f}, {row['seconds']:.0f} s", flush=True)

    print(
        f"{len(runs)} runs are missing; the authors' code is at commit {workplace.commit[:12]}",
        flush=True,
    )
    pool = ThreadPoolExecutor(workers)
    try:
        for done in as_completed([pool.submit(one, run) for run in runs]):
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clone", type=Path, help="Folder with a clone of the authors' code.")
    parser.add_argument(
        "--data", type=Path, required=True, help="Folder with corpora and word vectors."
    )
    parser.add_argument("--work", type=Path, required=True, help="Folder for the files of runs.")
    parser.add_argument(
        "--poolings",
        default="last1,mean,max,att_luong,att_max",
        help="Poolings to train, by the authors' names.",
    )
    parser.add_argument("--seeds", type=int, default=3, help="Number of seeds, counted from 0.")
    parser.add_argument("--epochs", type=int, default=20, help="Number of epochs of each training.")
    parser.add_argument("--size", type=int, default=1000, help="Number of training texts.")
    parser.add_argument(
        "--workers", type=int, default=1, choices=(1, 2), help="Number of runs at once."
    )
    results = Path(__file__).resolve().parents[1] / "data" / "results" / "authors.csv"
    parser.add_argument(
        "--output",
        type=Path,
        default=results,
        help="File to write. [default: data/results/authors.csv]",
    )
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """What the command does; a mistake of the user's is one line and exit code 2."""
    given = arguments(words)
    try:
        workplace = Workplace.of(given.clone, given.data, given.work, given.output)
        runs = planned(given.poolings.split(","), given.seeds, given.epochs, given.size)
        execute_all(missing(runs, workplace), workplace, given.workers)
    except InputError as error:
        print(f"authors_code: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "authors_code: stopped; finished runs are stored, the same command continues",
            file=sys.stderr,
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
