"""The status table: what is done, missing and cannot be done; and how long it takes, on made-up stores and on
the reference runs with one left out."""

import time
from dataclasses import asdict, replace
from statistics import median

import pytest
from small_runs import HERE_NAME, RECORDS, TINY, on_record, record_run, store

from whenpool.book.progress import ALL, NEEDED, status_table
from whenpool.cli.options import planned_runs
from whenpool.runs import estimates
from whenpool.runs.engine import Workforce
from whenpool.runs.estimates import ALONE, HERE, OTHER_MACHINE, Pace
from whenpool.runs.kinds.few_shot import FewShot
from whenpool.runs.kinds.probe import PaddingSweep
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import PLANS, plan
from whenpool.runs.request import Request
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store

PAPER, SMOKE = Request("paper", ("imdb",)), Request("smoke")
COUNTS = ["done", "missing", "failed", "no data", "all"]
IMDB = Training("imdb", "mid", 1_000, "max", vectors="glove.6B.100d")
OTHER_CELL = replace(IMDB, cell="gru")
SWEEP = PaddingSweep(IMDB)
BERT = FewShot("imdb", "bert", steps=100)
TEXTS = 20_000 + (20_000 + 9_800) / 3  # 20 epochs of 1,000 to learn and to validate, and the test
LOOKS = (10 * 1_000 + 12_500) / 3  # ten at the validation texts, and the test
TESTED, NARROW = replace(IMDB, test=2_000), replace(IMDB, hidden_size=64)


@pytest.fixture(autouse=True)
def this_machine(monkeypatch):
    monkeypatch.setattr(estimates, "processor", lambda: "this one")


def status(chapters, place, request=SMOKE, **workforce):
    """The table by its first column, and the notes."""
    if isinstance(chapters, list):
        chapters = {"mine": chapters}
    progress = status_table(chapters, request, place, Workforce(**{"workers": 1} | workforce))
    return progress.table.set_index("runs of"), [*progress.notes, *progress.times]


def done(place, run, seconds):
    """As if a training had been made here, weights apart."""
    provenance = {"device": HERE_NAME, "precision": "float32"}
    return place.store.put(run.identity(place), asdict(run), {"seconds": seconds}, provenance)


def test_counts_per_table(place):
    record_run(place, Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d"))
    place = on_record(place)
    table, notes = status(planned_runs(PAPER, place, ("all",))[0], place, PAPER)
    assert table.loc["Table 1.3", COUNTS].tolist() == [1, 0, 0, 224, 225]
    assert table.loc[["Table 1.6", "Table 1.9"], "all"].tolist() == [500, 30]
    assert table.loc[ALL, "done"] == 1
    assert NEEDED not in table.index
    assert "aclImdb_v1.tar.gz is not in" in notes[0]


def test_probes_are_counted_with_their_chapter(place):
    request = Request("smoke", (TINY.corpus,), poolings=("last", "max"))
    runs = plan("natural_bias", request, place)
    place.store.fail(key(runs[1], place), {}, "no luck")
    table, notes = status(planned_runs(request, place, ("all",))[0], place, request)
    assert set(table.index) == {*PLANS, NEEDED, ALL}
    assert table.loc["natural_bias", COUNTS].tolist() == [0, 4, 1, 0, 5]
    assert table.loc["word_importance", COUNTS].tolist() == [0, 8, 0, 0, 8]
    assert notes[0] == f"failed: {runs[1]}: no luck"
    *parts, whole = table.loc[ALL, COUNTS]
    assert sum(parts) == whole


def test_the_time_is_that_of_the_missing_runs_for_these_workers(place):
    runs, other = [replace(TINY, seed=seed) for seed in range(6)], replace(TINY, cell="gru")
    table, notes = status([TINY, other], place)
    assert table.loc["mine", ["time left", "time of all"]].tolist() == ["?", "?"]
    assert notes == ["? means that no similar run is stored (2 runs)"]
    done(place, runs[0], 60.0)
    done(place, runs[1], 60.0)
    table, notes = status([*runs, other], place)
    assert table.loc["mine", [*COUNTS, "time left"]].tolist() == [2, 5, 0, 0, 7, "4 min 0 s + ?"]
    assert notes[-1] == "? means that no similar run is stored (1 runs)"
    # no shorter than one run
    for workers, *times in (3, "1 min 20 s", "2 min 0 s"), (100, "1 min 0 s", "1 min 0 s"):
        table, notes = status(runs, place, workers=workers)
        assert table.loc[ALL, ["time left", "time of all"]].tolist() == times
        assert notes == [f"Times are for {workers} workers on cpu, estimated from the most similar runs"]


def test_trainings_that_probes_read_are_done_again_where_their_weights_are_not_here(place):
    done(place, TINY, 60.0)
    runs = [TINY, PaddingSweep(TINY)]
    store(place, PaddingSweep(replace(TINY, seed=1)), 5.0)
    table = status(runs, place)[0][[*COUNTS, "time left"]]
    assert table.loc["mine"].tolist() == [1, 1, 0, 0, 2, "5 s"]
    assert table.loc[NEEDED].tolist() == [0, 1, 0, 0, 1, "1 min 0 s"]
    assert table.loc[ALL].tolist() == [0, 2, 0, 0, 2, "1 min 5 s"]
    place.store.weights_file(key(TINY, place)).write_bytes(b"")
    table, _ = status(runs, place)
    assert NEEDED not in table.index
    assert table.loc[ALL, COUNTS].tolist() == [1, 1, 0, 0, 2]


@pytest.mark.parametrize(("seconds", "workers", "fit"), [(15_000, 1, 2), (15_000, 2, 4), (3_000, 1, 0)])
def test_how_many_runs_fit_before_a_deadline(place, seconds, workers, fit):
    runs = [replace(TINY, seed=seed) for seed in range(5)]
    done(place, runs[0], 6_000.0)
    line = status(runs, place, workers=workers, until=time.monotonic() + seconds)[1][-1]
    assert line == f"About {fit} of the 4 runs that are left will be done before the deadline"


def estimate(place, run, **workforce):
    return Pace.measured(place, Workforce(**workforce)).estimate(run)


def test_the_same_but_for_seed_and_vectors_counts_first(place):
    for seconds in (None, float("nan"), 0.0):
        store(place, IMDB, seconds)
    assert estimate(place, IMDB) is None  # runs without a time say nothing
    assert Pace().seconds(IMDB) is None
    for seed in range(3):
        store(place, replace(IMDB, seed=seed), 10.0 + seed)
    store(place, replace(IMDB, pooling="last"), 99.0)
    assert estimate(place, replace(IMDB, seed=7, vectors=None)) == (11.0, HERE)  # the median
    assert estimate(place, replace(IMDB, size=2_000)).seconds < 30.0  # not by another pooling
    assert estimate(place, SWEEP).seconds > 0  # a probe goes by trainings


@pytest.mark.parametrize(("stored", "asked", "ratio"), [
    # other sizes, in proportion to the work
    (IMDB, replace(IMDB, size=2_000), (40_000 + (40_000 + 9_800) / 3) / TEXTS),
    (IMDB, replace(IMDB, size=20_000), (400_000 + (20 * 5_000 + 9_800) / 3) / TEXTS),
    # other texts, by their words, two thirds of which were filler
    (TESTED, replace(TESTED, corpus="yelp"), 1),
    (TESTED, replace(TESTED, setting="standard"), 0.34),
    (TESTED, replace(TESTED, corpus="yahoo", length="short"), 40 / 250),
    # other networks, by their multiply-adds; another cell is another matter
    (NARROW, IMDB, 256 * (100 + 256) / (64 * (100 + 64))),
    (NARROW, replace(NARROW, layers=2), (164 + 192) / 164),
    (IMDB, OTHER_CELL, None),
    # probes by their own kind
    (SWEEP, replace(SWEEP, training=replace(IMDB, seed=3), texts=500), 0.5),
    # few-shot runs by their system and encoder
    (BERT, replace(BERT, seed=4, per_class=100), 1),
    (BERT, replace(BERT, steps=1_000), (8_000 + LOOKS) / (800 + LOOKS)),
    (BERT, replace(BERT, encoder="another"), None),
    (BERT, IMDB, None),
])  # fmt: skip
def test_then_runs_that_are_less_alike_in_proportion_to_their_work(place, stored, asked, ratio):
    store(place, stored, 100.0)
    found = estimate(place, asked)
    assert (found is None) == (ratio is None)
    if found:
        assert found.seconds == pytest.approx(100 * ratio)


def test_another_machine_counts_only_where_nothing_here_does(place):
    store(place, IMDB, 500.0, device="cpu: another")
    assert estimate(place, IMDB) == (500.0, OTHER_MACHINE)
    store(place, IMDB, 1.0, device="cuda: NVIDIA H200")
    assert estimate(place, IMDB).seconds == 500.0  # a GPU says nothing of a processor
    assert estimate(place, IMDB, device="cuda").distance == OTHER_MACHINE
    store(place, replace(IMDB, pooling="last", setting="standard"), 34.0)
    assert estimate(place, IMDB).distance == HERE


def test_a_few_less_similar_runs_here_do_not_outweigh_many_elsewhere(place):
    for seed in range(9):
        elsewhere = replace(SWEEP, training=replace(IMDB, seed=seed, hidden_size=128))
        store(place, elsewhere, 10.0, device="cpu: another")
    for seed in range(2):  # one of which waited
        store(place, replace(SWEEP, training=replace(IMDB, seed=seed, hidden_size=64)), 800.0)
    assert estimate(place, SWEEP).distance == OTHER_MACHINE
    for seed in range(2, 5):
        store(place, replace(SWEEP, training=replace(IMDB, seed=seed, hidden_size=64)), 5.0)
    assert estimate(place, SWEEP).distance == HERE


def test_runs_that_shared_a_process_count_only_where_several_are_asked_for(place):
    store(place, IMDB, 5.0, together=5)
    assert estimate(place, IMDB) is None
    store(place, IMDB, 50.0, together=1)
    assert estimate(place, IMDB).seconds == 50.0
    store(place, OTHER_CELL, 60.0)  # alone: it counts where none was made together
    for run, expected in ((IMDB, (5.0, HERE)), (OTHER_CELL, (60.0, ALONE))):
        found = estimate(place, run, models_per_batch=8)
        assert (found.seconds, found.distance) == expected


def test_trainings_of_record_are_foretold_by_the_others(monkeypatch, place):
    """Leave-one-out on a machine that did one run after the other: the median of |expected / measured - 1|
    is 0.02. Runs with GloVe are left out: they were timed beside other work."""
    monkeypatch.setattr(estimates, "processor", lambda: "AMD EPYC")
    published = Place(Store(place.store.directory, RECORDS), place.data, place.cache)
    seen = Pace.measured(published, Workforce()).seen
    here = [one for one in seen if one.distance == HERE and isinstance(one.run, Training)]
    here = [one for one in here if one.run.vectors != "glove.6B.100d"]
    assert len(here) >= 39
    told = [Pace([other for other in here if other is not one]).estimate(one.run) for one in here]
    ratios = [found.seconds / one.seconds for found, one in zip(told, here, strict=True)]
    assert median(abs(ratio - 1) for ratio in ratios) < 0.1
