"""Regularisation and tuning (thesis §1.4.2): the runs, which of them decide, the numbers, the page."""

from collections import Counter
from dataclasses import asdict, replace

import pandas as pd
import pytest
from made_up import AFTER, runs

from whenpool.book.report.claims import by_runs, claims
from whenpool.book.report.verdicts import of_breadth, probes_of_breadth, small_trainings
from whenpool.models.registry import COMPARED, LISTED_CELLS, THESIS_POOLINGS
from whenpool.runs.kinds.probe import GradientProfile, WordImportance
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import plan
from whenpool.runs.plans.networks import DECAYS, GRID, LEARNING_RATES, MASK_RATES, SUSTAINED, TIMED_SEEDS
from whenpool.runs.request import Choice
from whenpool.runs.run import VECTORS, key
from whenpool.runs.store import Store

SMALL = Training(
    "imdb", "standard", 1_000, "last", vectors=VECTORS[0], max_words=140, hidden_size=64, epochs=8,
    test=2_000,
)  # fmt: skip
DONE = {"corpus_complete": True, "validation_accuracy": 70.0, "device": "cpu", "threads": 1}


def row(accuracy=70.0, validation=None, **changes):
    """A finished training, as a row of a table."""
    run = replace(SMALL, **changes)
    more = {"key": repr(run), "test_accuracy": accuracy}
    more |= {"validation_accuracy": accuracy if validation is None else validation}
    return asdict(run) | DONE | more


def test_on_imdb_the_grids_of_the_thesis_are_run(place):
    runs = plan("regularisation", Choice("quick", ("imdb",)), place)
    assert {run.seed for run in runs} == {0, 1, 2, *TIMED_SEEDS}
    timed = [run for run in runs if run.seed in TIMED_SEEDS]
    assert Counter(run.pooling for run in timed) == dict.fromkeys(COMPARED, len(TIMED_SEEDS))
    assert all(run == replace(plain_of(run), epochs=8, setting="standard") for run in timed)
    one = [run for run in runs if run.seed == 0]
    base = {"max_words": 140, "hidden_size": 64, "test": 2_000, "size": 1_000, "length": "long"}
    assert all(asdict(run) | base == asdict(run) for run in one)
    counted = Counter((run.setting, run.pooling, run.epochs) for run in one)
    ways = len(GRID) + len(LEARNING_RATES) - 1
    assert counted == {
        **{("standard", pooling, 8): ways for pooling in COMPARED},
        **{("standard", pooling, SUSTAINED): 2 for pooling in ("last", "max_attention")},
        **{("mid", pooling, 8): 1 for pooling in ("last", "max_attention")},
        ("mid", "last", SUSTAINED): 1,
    }
    mine = {(run.drop_connect, run.weight_decay) for run in one if run.pooling == "mean"}
    assert mine == {(0, 0), *((rate, 0) for rate in MASK_RATES), *((0, decay) for decay in DECAYS)}
    plain = [run for run in one if run.epochs == 8 and run.changed() == plain_of(run).changed()]
    assert len(plain) == len(COMPARED) + 2


def plain_of(run):
    return replace(run, drop_connect=0.0, weight_decay=0.0, learning_rate=2e-3)


def test_a_choice_narrows_the_grids(place):
    few = Choice("quick", ("imdb",), settings=("mid",), poolings=("last",), seeds=1)
    assert {run.epochs for run in plan("regularisation", few, place)} == {8, SUSTAINED}
    some = Choice("quick", ("imdb",), settings=("standard",), poolings=("mean",), seeds=1, sizes=(50,))
    runs = plan("regularisation", some, place)
    assert {(run.pooling, run.size, run.setting) for run in runs} == {("mean", 50, "standard")}
    own = plan("regularisation", Choice("quick", poolings=("max_attention",)), place)
    assert {run.pooling for run in own} == {"max_attention"}
    rest = plan(
        "regularisation", Choice("quick", ("imdb",), settings=("left",), poolings=("max",)), place
    )
    assert {(run.pooling, run.setting, run.drop_connect) for run in rest} == {("max", "left", 0)}


@pytest.mark.parametrize("cell", LISTED_CELLS)
def test_a_cell_without_recurrent_weights_has_none_dropped(cell, place):
    runs = plan("regularisation", Choice("quick", ("synthetic",), cell=cell), place)
    assert {run.cell for run in runs} == {cell}
    assert any(run.drop_connect for run in runs) == LISTED_CELLS[cell].remembers
    assert all(key(run, place) for run in runs)  # each can be trained


BREADTH = [
    {}, {"drop_connect": 0.3}, {"weight_decay": 1e-8}, {"learning_rate": 5e-3, "epochs": 50},
    {"cell": "gru", "setting": "mid"}, {"layers": 2}, {"bidirectional": False},
    {"cell": "sum", "hidden_size": 100},
    {"cell": "transformer", "hidden_size": 128, "bidirectional": False},
]  # fmt: skip
OTHERS = [
    {"corpus": "yahoo"}, {"length": "short"}, {"size": 2_000}, {"hidden_size": 128}, {"vectors": None},
    {"masked": False}, {"max_words": None}, {"test": None}, {"trick": "penalty_attention"},
    {"forget_bias": "chrono"}, {"orthogonal": True},
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "within"),
    [*((one, True) for one in BREADTH), *((one, False) for one in OTHERS)],
    ids=str,
)
def test_what_breadth_lets_in(changes, within):
    found = pd.DataFrame([row(**changes)])
    assert of_breadth(found).item() == within
    assert not of_breadth(found.assign(corpus_complete=False)).any()


def test_which_probes_are_of_breadth():
    start = replace(SMALL, size=500, epochs=1, test=1_000)
    kinds = [
        WordImportance(replace(SMALL, cell="gru")),
        GradientProfile(start),
        WordImportance(start),
        GradientProfile(SMALL, untrained=True),
        WordImportance(replace(SMALL, hidden_size=256)),
    ]
    rows = pd.DataFrame([kind.row() | {"corpus_complete": True} for kind in kinds])
    assert probes_of_breadth(rows).tolist() == [True, True, False, False, False]


def test_small_runs_are_evidence_apart_and_of_one_kind_of_vectors(tmp_path, monkeypatch):
    rows = [row(pooling=name) for name in COMPARED] + [row(vectors="other")]
    store = Store(tmp_path)
    found = {"training": pd.DataFrame(rows), "probe": pd.DataFrame()}
    monkeypatch.setattr(Store, "current", lambda self, kind: found[kind])
    small = small_trainings(store)
    assert set(small["vectors"]) == {VECTORS[0]}
    assert set(small["pooling"]) == set(COMPARED)
    found["training"] = pd.DataFrame()
    assert small_trainings(store).empty


def grid_of(model, gain, seed=0, **changes):
    """The whole grid of a model: 70 without regularisation; DropConnect 0.3 is best by validation, and
    gains; another way is better at the test alone."""
    for way in GRID:
        best = way == {"drop_connect": 0.3}
        accuracy = 70.0 if not way else 70.0 + gain if best else 99.0
        validation = 80.0 if best else 60.0
        yield row(accuracy, validation, pooling=model, seed=seed, **way, **changes)


CLAIMS = {claim.id: claim for claim in claims() if claim.chapter == "regularisation"}


def measured(name, rows, seconds=()):
    """What a claim measures of some rows: its finding."""
    made = [row | {"model": row["pooling"], "began": AFTER, "majority_accuracy": 50.0} for row in rows]
    epochs = [{"key": rows[place]["key"], "epoch": 1, "seconds": s} for place, s in seconds]
    return by_runs(CLAIMS[name], runs(made, epochs), "compact")


def test_the_gain_is_of_the_way_that_validation_prefers_for_the_model_that_gains_least():
    rows = [r for i, name in enumerate(THESIS_POOLINGS) for r in grid_of(name, i - 1.0)]
    assert measured("regularisation-never-hurts", rows).value == -1
    assert measured("regularisation-gains-at-most-two", rows).value == 3
    assert measured("regularisation-helps-throughout", rows).verdict == "so far does not hold"
    assert measured("regularisation-never-hurts", rows[:-1]).verdict == "not run"


def test_sustained_training_is_each_models_better_way():
    rows = [
        row(60.0, 50.0, epochs=50),
        row(65.0, 55.0, epochs=50, drop_connect=0.3),
        row(80.0, 90.0, epochs=50, pooling="max_attention"),
        row(85.0, 70.0, epochs=50, drop_connect=0.3, pooling="max_attention"),
        row(51.0, 50.0, epochs=50, drop_connect=0.3, setting="mid"),
        row(99.0),
    ]
    assert measured("regularised-bilstm-still-suffers", rows).value == 15
    assert measured("regularised-bilstm-guesses-in-the-middle", rows).value == 1
    assert measured("regularised-bilstm-still-suffers", rows[1:]).verdict == "not run"


def test_a_learning_rate_leads_by_validation():
    rows = [
        row(0.0, 70.0 + 10 * (rate == 2e-3) + (name == "mean") * 12 * (rate == 5e-3), pooling=name,
            learning_rate=rate)
        for name in COMPARED
        for rate in LEARNING_RATES
    ]  # fmt: skip
    assert measured("learning-rate-of-the-thesis-is-best", rows).value == -2
    assert measured("learning-rate-of-the-thesis-is-best", rows[1:]).verdict == "not run"


def test_the_time_of_a_pooling_is_its_fastest_epoch_of_comparable_trainings():
    rows = [row(pooling=name, seed=5) for name in COMPARED]
    others = [
        row(pooling="mean", seed=0),
        row(pooling="mean", seed=5, drop_connect=0.3),
        row(pooling="mean", seed=5, weight_decay=1e-6),
        row(pooling="mean", seed=5, epochs=50),
        row(pooling="mean", seed=5, setting="mid"),
        row(pooling="mean", seed=5, layers=2),
    ]
    together = row(pooling="mean", seed=5) | {"together": 4, "key": "together"}
    elsewhere = row(pooling="mean", seed=5) | {"threads": 2, "key": "elsewhere"}
    rows += [*others, together, elsewhere]
    seconds = [(0, 0.1), (1, 2.0), (1, 3.0), (2, 1.0), (2, 9.0), (3, 2.0), (4, 3.0)]
    seconds += [(place, 0.1) for place in range(5, len(rows))]
    assert measured("epoch-time-varies-marginally", rows, seconds).value == pytest.approx(3)
