"""What tests of runs share: small runs, ways to make and to watch them, and results that were made
up."""

import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from paper.runs.compute import compute
from paper.runs.engine import Workforce
from paper.runs.kinds.probe import PROBE_PROTOCOL
from paper.runs.kinds.training import PROTOCOL, Training
from paper.runs.run import key
from paper.runs.store import Store

RECORDS = Path(__file__).parents[1] / "data" / "results"
SMALL = Training(
    "synthetic:train=60,validation=20,test=30,shortest=10,longest=14",
    "standard",
    30,
    "max",
    length="any",
    embedding_size=8,
    hidden_size=6,
    epochs=2,
)
GRID = [
    replace(SMALL, pooling=pooling, setting=setting, seed=seed)
    for pooling in ("last", "max_attention")
    for setting in ("standard", "mid")
    for seed in (0, 1)
]
TINY = replace(
    SMALL,
    corpus="synthetic:train=60,validation=20,test=40,shortest=10,longest=20,density=0.2",
    size=60,
    pooling="last",
)
STUDENT = replace(TINY, trick="teacher_forcing", forget_bias=2.0)
TEACHER = replace(TINY, pooling="max")  # as the thesis trains it
MADE = {"commit": "abc", "device": "cpu", "torch": "2", "finished": "2026-01-02T03:04:05"}
SCRIPT = """
import signal, sys
# where tests run in the background it is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
from small_runs import *
from paper.runs import engine
from paper.runs.engine import run_all
from paper.runs.run import Place
engine.WORKER = "from paper.runs.kinds import training; training.EVERY = 0.2" + engine.WORKER
if __name__ == "__main__":
    place = Place(Store(Path({store!r})), Path({data!r}), Path({cache!r}))
    try:
        report = run_all({runs}, place, {workforce!r})
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        sys.exit(str(error))
    print(report.done, report.shared, len(report.failed))
"""


def fresh(place, name):
    """The same place with an empty store."""
    return replace(place, store=Store(place.store.directory.with_name(name)))


def result_of(run, place):
    return place.store.get(key(run, place))["result"]


def left_by(run, place):
    """All that a run has stored but for times and where it was made: result, history, weights."""
    row, weights = place.store.get(key(run, place)), place.store.weights_file(key(run, place))
    parts = [{**part, "seconds": 0} for part in (row["result"], *row["history"])]
    return parts, weights.exists() and weights.read_bytes()


def same(runs, place, other):
    """Whether some runs have left the same in two places."""
    return all(left_by(run, place) == left_by(run, other) for run in runs)


def has_weights(training, place):
    return place.store.weights_file(key(training, place)).exists()


def stored(place):
    """When each finished run was written."""
    return {file: file.stat().st_mtime_ns for file in place.store.directory.glob("*.json")}


def ask(runs, place, **options):
    """What `compute` says, apart from notes on corpora, and its report."""
    said = []
    report = compute(runs, place, say=said.append, **options)
    return [line for line in said if not line.startswith("note: ")], report


def record(
    place,
    run,
    history=(),
    complete=True,
    accuracy=70.0,
    protocol=PROTOCOL,
    made=None,
    identity=None,
    **result,
):
    """Put a training or probe into the store that nobody has computed, and return its key."""
    data = {"run": (run.training or run).changed(), "data": {"corpus": "c"}, "protocol": protocol}
    identity = identity or data
    values = {"corpus_complete": complete, "seconds": 1.0, "probe_protocol": PROBE_PROTOCOL}
    values |= result
    if run.kind == "probe":
        identity["probe"] = run.changed() | {"protocol": values["probe_protocol"]}
    else:
        values |= {"test_accuracy": accuracy, "validation_accuracy": accuracy, "best_epoch": 1}
    return place.store.put(identity, run.row(), values, MADE | (made or {}), history, kind=run.kind)


def on_record(place, kind="training"):
    """The place with its finished runs put on record, and an empty store."""
    from paper.verdicts.record import export  # which is where pytest looks, but not a new process

    folder = place.store.directory.with_name("results")
    export(kind, place, folder)
    return replace(place, store=Store(place.store.directory.with_name("empty"), folder))


def command(place, file, runs, workforce=None):
    """A command that executes some runs, given as an expression of the names in this module."""
    text = SCRIPT.format(
        tests=str(Path(__file__).parent),
        store=str(place.store.directory),
        data=str(place.data),
        cache=str(place.cache),
        runs=runs,
        workforce=workforce or Workforce(workers=2),
    )
    Path(file).write_text(text)
    return [sys.executable, str(file)]


def processes(parents, words):
    """Processes that some others have started, and whose command line has some words."""
    found = []
    for process in psutil.process_iter(["ppid", "cmdline"]):
        if process.info["ppid"] in parents and words in " ".join(process.info["cmdline"] or ()):
            found.append(process.pid)
    return found


def children(pid):
    return processes([pid], "begin_work")


def alive(pid):
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(condition):
    """What it gives at last; for ten minutes at most, so that a test fails that would never end."""
    deadline = time.monotonic() + 600
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found
