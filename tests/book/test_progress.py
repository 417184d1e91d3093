"""The status table: what is done, missing and cannot be done; and how long it takes, on made-up
stores and on the reference runs with one left out."""

from dataclasses import replace

import pytest
from small_runs import TINY, record

from paper.pages.progress import ALL, status_table
from paper.runs import compute as estimates
from paper.runs.compute import Pace
from paper.runs.engine import Workforce
from paper.runs.kinds.few_shot import FewShot
from paper.runs.kinds.probe import PaddingSweep
from paper.runs.kinds.training import Training

COUNTS = ["done", "missing", "no data", "all"]
IMDB = Training("imdb", "mid", 1_000, "max", vectors="glove.6B.100d")
SWEEP = PaddingSweep(IMDB)
BERT = FewShot("imdb", "bert", steps=100)
TEXTS = 20_000 + (20_000 + 10_000) / 3  # 20 epochs of 1,000 to learn and to validate, and the test


@pytest.fixture(autouse=True)
def this_machine(monkeypatch):
    monkeypatch.setattr(estimates, "processor", lambda: "this one")


def status(chapters, place, **workforce):
    """The table by its first column, and the notes."""
    if isinstance(chapters, list):
        chapters = {"mine": chapters}
    progress = status_table(chapters, place, Workforce(**{"workers": 1} | workforce))
    return progress.table.set_index("runs of"), [*progress.notes, *progress.times]


def done(place, run, seconds, identity=None):
    """As if a run had been made here and had taken so long, weights apart."""
    made = {"device": "cpu: this one", "precision": "float32"}
    identity = identity or {
        "run": run.changed(),
        "data": {},
        "protocol": run.protocol,
        "made": seconds,
    }
    record(place, run, made=made, identity=identity, seconds=seconds)


def test_the_time_is_that_of_the_missing_runs_for_these_workers(place):
    runs, other = [replace(TINY, seed=seed) for seed in range(6)], replace(TINY, cell="gru")
    table, notes = status([TINY, other], place)
    assert table.loc["mine", ["time left", "time of all"]].tolist() == ["?", "?"]
    assert notes == ["? means that no similar run is stored (2 runs)"]
    for run in runs[:2]:
        done(place, run, 60.0, run.identity(place))
    table, notes = status([*runs, other], place)
    assert table.loc["mine", [*COUNTS, "time left"]].tolist() == [2, 5, 0, 7, "4 min 0 s + ?"]
    assert notes[-1] == "? means that no similar run is stored (1 runs)"
    # no shorter than one run
    for workers, *times in (3, "1 min 20 s", "2 min 0 s"), (100, "1 min 0 s", "1 min 0 s"):
        table, notes = status(runs, place, workers=workers)
        assert table.loc[ALL, ["time left", "time of all"]].tolist() == times
        assert notes == [
            f"Times are for {workers} workers on cpu, estimated from the most similar runs"
        ]


def seconds(place, run, **workforce):
    return Pace(place, Workforce(**workforce)).seconds(run)


def test_a_time_is_in_proportion_to_the_words_of_runs_with_the_same_network(place):
    for time_taken in (None, float("nan"), 0.0):
        done(place, IMDB, time_taken)
    assert seconds(place, IMDB) is None
    for seed in range(3):
        done(place, replace(IMDB, seed=seed), 10.0 + seed)
    done(place, replace(IMDB, hidden_size=64), 1e5)
    done(place, SWEEP, 8.0)
    done(place, BERT, 100.0)
    for asked, expected in {
        replace(IMDB, seed=7, vectors=None): 11.0,  # the median
        replace(IMDB, size=2_000): 11 * (40_000 + (40_000 + 10_000) / 3) / TEXTS,
        replace(IMDB, setting="standard"): 11 * 0.34,  # two thirds of the words were filler
        replace(SWEEP, training=replace(IMDB, seed=3), texts=500): 4.0,
        replace(BERT, seed=4, per_class=100): 100.0,
        replace(BERT, encoder="another"): None,
        replace(IMDB, cell="gru"): None,
    }.items():
        assert seconds(place, asked) == (expected and pytest.approx(expected)), asked
