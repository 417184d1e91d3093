"""The status table: what is done, missing and cannot be done, and how long it takes."""

import time
from dataclasses import asdict, replace

import pytest
from small_runs import HERE_NAME, TINY, on_record, record_run, store

from whenpool.book.progress import ALL, NEEDED, status_table
from whenpool.runs import estimates
from whenpool.runs.engine import Workforce, processors
from whenpool.runs.filter import Only, planned
from whenpool.runs.kinds.probe import GradientProfile, GradientTrace, PaddingSweep
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import PLANS, plan
from whenpool.runs.request import Choice
from whenpool.runs.run import key

PAPER, SMOKE = Choice("paper", ("imdb",)), Choice("smoke")
ONE = Workforce(workers=1)
COUNTS = ["done", "missing", "failed", "no data", "all"]


@pytest.fixture(autouse=True)
def this_machine(monkeypatch):
    monkeypatch.setattr(estimates, "processor", lambda: "this one")


def status(chapters, place, choice=SMOKE, workforce=ONE):
    """The table by its first column, and the notes."""
    if isinstance(chapters, list):
        chapters = {"mine": chapters}
    progress = status_table(chapters, choice, place, workforce)
    return progress.table.set_index("runs of"), [*progress.notes, *progress.times]


def done(place, run, seconds):
    """As if a training had been made here, weights apart."""
    provenance = {"device": HERE_NAME, "precision": "float32"}
    return place.store.put(run.identity(place), asdict(run), {"seconds": seconds}, provenance)


def test_counts_per_table(place):
    record_run(place, Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d"))
    place = on_record(place)
    table, notes = status(planned(PAPER, place, Only()), place, PAPER)
    assert table.loc["Table 1.3", COUNTS].tolist() == [1, 0, 0, 224, 225]
    assert table.loc["Table 1.6", "all"] == 500
    assert table.loc["Table 1.9", "all"] == 30
    assert table.loc[ALL, "done"] == 1
    assert NEEDED not in table.index
    assert "aclImdb_v1.tar.gz is not in" in notes[0]


def test_each_run_counts_once_in_the_last_row(place):
    chapters = planned(PAPER, place, Only.parse("table=1.3+1.6,size=1000,seed=0"))
    table, _ = status(chapters, place, PAPER)
    assert table["all"].to_dict() == {"Table 1.3": 15, "Table 1.6": 20, ALL: 20}


def test_probes_are_counted_with_their_chapter(place):
    choice = Choice("smoke", (TINY.corpus,), poolings=("last", "max"))
    runs = plan("natural_bias", choice, place)
    place.store.fail(key(runs[1], place), {}, "no luck")
    table, notes = status(planned(choice, place, Only()), place, choice)
    assert set(table.index) == {*PLANS, NEEDED, ALL}
    assert table.loc["natural_bias", COUNTS].tolist() == [0, 4, 1, 0, 5]
    assert table.loc["word_importance", COUNTS].tolist() == [0, 8, 0, 0, 8]
    assert notes[0] == f"failed: {runs[1]}: no luck"
    columns = table.loc[ALL, COUNTS].tolist()
    assert sum(columns[:-1]) == columns[-1]


def test_the_time_is_that_of_the_missing_runs_for_these_workers(place):
    runs = [replace(TINY, seed=seed) for seed in range(6)]
    done(place, runs[0], 60.0)
    done(place, runs[1], 60.0)
    table, notes = status(runs, place)
    assert table.loc["mine", [*COUNTS, "time left", "time of all"]].tolist() == [
        2, 4, 0, 0, 6, "4 min 0 s", "6 min 0 s",
    ]  # fmt: skip
    assert notes == [
        "Times are for 1 worker on cpu and rest on 2 stored runs: of 6 times 6 are those of the same run, "
        "seed apart"
    ]
    table, notes = status(runs, place, workforce=Workforce(workers=3))
    assert table.loc[ALL, ["time left", "time of all"]].tolist() == ["1 min 20 s", "2 min 0 s"]
    assert notes[0].startswith("Times are for 3 workers on cpu")
    table, _ = status(runs, place, workforce=Workforce(workers=100))
    assert table.loc[ALL, "time left"] == "1 min 0 s"  # no shorter than one run


@pytest.mark.parametrize(
    ("workforce", "workers"),
    [(Workforce(), processors()), (Workforce("ray"), processors()), (Workforce("ray", "far:6379"), 1)],
)
def test_as_many_workers_as_processors_unless_said_otherwise(place, workforce, workers):
    done(place, TINY, 60.0)
    _, notes = status([replace(TINY, seed=1)], place, workforce=workforce)
    assert notes[0].startswith(f"Times are for {workers} worker")


def test_nothing_comparable_is_a_question_mark(place):
    other = replace(TINY, cell="gru")
    table, notes = status([TINY, other], place)
    assert table.loc["mine", ["time left", "time of all"]].tolist() == ["?", "?"]
    assert notes == ["?: nothing like 2 runs was run yet"]
    done(place, TINY, 60.0)
    table, notes = status([replace(TINY, seed=1), other], place)
    assert table.loc["mine", "time left"] == "1 min 0 s + ?"
    assert notes[-1] == "?: nothing like 1 runs was run yet"


def test_what_lacks_its_data_has_a_time_in_all(place):
    run = Training("imdb", "mid", 1_000, "max")
    store(place, run, 100_000.0)
    table, _ = status([replace(run, seed=seed) for seed in range(40)], place)
    assert table.loc[ALL, ["no data", "time left", "time of all"]].tolist() == [40, "0 s", "46 days 7 h"]


@pytest.mark.parametrize(
    ("made", "together", "told"),
    [
        ({"device": "cpu: another"}, 1, "1 of the times are those of another machine, cpu: another"),
        ({"precision": "bfloat16"}, 1, "1 of the times are those of another precision on this"),
        ({}, 4, "1 of the times are those of runs made one by one"),
    ],
)
def test_what_the_times_rest_on_is_told(place, made, together, told):
    store(place, TINY, 60.0, **made)
    _, notes = status([TINY], place, workforce=Workforce(together=together))
    assert notes[-1].startswith(told)


def test_models_that_probes_read_are_part_of_what_is_left(place):
    done(place, TINY, 60.0)  # without its weights
    store(place, PaddingSweep(TINY), 5.0)
    sweep = PaddingSweep(replace(TINY, seed=1))
    table, _ = status([sweep], place)
    assert table.loc[NEEDED, [*COUNTS, "time left"]].tolist() == [0, 1, 0, 0, 1, "1 min 0 s"]
    assert table.loc[ALL, [*COUNTS, "time left"]].tolist() == [0, 2, 0, 0, 2, "1 min 5 s"]


def test_a_training_that_is_stored_without_the_weights_is_done_again(place):
    runs = [TINY, PaddingSweep(TINY)]
    done(place, TINY, 60.0)
    table, _ = status(runs, place)
    counts = {"mine": [1, 1, 0, 0, 2], NEEDED: [0, 1, 0, 0, 1], ALL: [0, 2, 0, 0, 2]}
    assert dict(zip(table.index, table[COUNTS].values.tolist(), strict=True)) == counts
    place.store.weights_file(key(TINY, place)).write_bytes(b"")
    table, _ = status(runs, place)
    assert NEEDED not in table.index
    assert table.loc[ALL, COUNTS].tolist() == [1, 1, 0, 0, 2]


def test_what_a_trace_does_on_its_way_is_counted_once(place):
    trace = GradientTrace(TINY)
    store(place, trace, 60.0)
    store(place, replace(TINY, seed=3), 40.0)
    store(place, GradientProfile(TINY), 1.0)
    runs = [trace, TINY, GradientProfile(TINY)]  # the trace leaves the training with its weights
    table, _ = status(runs, place)
    assert NEEDED not in table.index
    assert table.loc[ALL, "time left"] == "1 min 1 s"


def test_before_a_deadline_what_fits_is_told(place):
    runs = [replace(TINY, seed=seed) for seed in range(5)]
    done(place, runs[0], 60.0)

    def said(seconds, workers):
        workforce = Workforce(workers=workers, until=time.monotonic() + seconds)
        return status(runs, place, workforce=workforce)[1][-1]

    assert said(150, 1) == "About 2 of the 4 runs that are left will be done before the deadline"
    assert said(150, 2).startswith("About 4 of the 4 runs")
    assert said(90, 3).startswith("About 3 of the 4 runs")
    assert said(30, 3).startswith("About 0 of the 4 runs")
