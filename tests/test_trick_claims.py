"""What runs of "Learnability tricks" decide: the record, Table 2.1, and the claims of both sections."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_probe_runs import record_probe
from test_trick_reports import (
    AGAIN,
    CHANGES,
    DIVERGED,
    NEVER_FULL,
    PENALTY,
    SMALL,
    TEACHER,
    THESIS,
    of,
    put,
    put_all,
)

from whenpool.chapter import Chapter
from whenpool.choice import Choice
from whenpool.probing import PROBES, GradientProfile, GradientTrace, PaddingSweep
from whenpool.record import export_probes, export_runs
from whenpool.report import paper, theory_quantities, trick_quantities, tricks
from whenpool.report.claims import claims, claims_table, decide
from whenpool.report.evidence import Evidence
from whenpool.report.gathering import evidence_of, small_evidence
from whenpool.report.tables import judged
from whenpool.report.verdicts import as_plain, follows_protocol, is_plain, of_learnability, of_record
from whenpool.rows import current_probes, current_trainings, probe_of, training_of
from whenpool.runs import TRICKS
from whenpool.store import Store
from whenpool.theory.comparison import MODELS

PAPER = Path(__file__).parents[1] / "data" / "paper"
LEDGER = {claim.id: claim for claim in claims()}
SMALL_MODEL = {name: getattr(SMALL, name) for name in ("hidden_size", "epochs", "max_words", "test")}

# which runs are of which kind

KINDS = [  # of record, of Table 2.1's kind, plain
    ({}, (True, True, True)),
    *(({"trick": trick}, (False, True, False)) for trick in TRICKS),
    ({"trick": "gradient_directed", "strength": 10.0}, (False, True, False)),
    ({"orthogonal": True}, (False, True, False)),
    ({"forget_bias": 2.0}, (False, True, False)),
    ({"forget_bias": "chrono"}, (False, True, False)),
    ({"forget_bias": "low"}, (False, False, True)),
    ({"pooling": "max"}, (True, True, True)),
    ({"pooling": "max", "forget_bias": 2.0}, (False, False, False)),
    ({"pooling": "mean"}, (True, False, True)),
    ({"pooling": "attention", "size": 1000}, (True, False, True)),
    ({"setting": "left"}, (True, False, True)),
    ({"setting": "standard", "size": 1000}, (True, True, True)),
    ({"masked": False}, (True, False, True)),
    ({"corpus": "yelp"}, (True, False, True)),
    ({"vectors": None}, (False, False, True)),
    ({"vectors": None, "trick": "dropout_attention"}, (False, False, False)),
    ({"hidden_size": 64, "trick": "dropout_attention"}, (False, False, False)),
    ({"test": 2000, "trick": "dropout_attention"}, (False, False, False)),
    (SMALL_MODEL, (False, True, True)),
    (SMALL_MODEL | {"size": 500, "pooling": "max_attention"}, (False, True, True)),
    (SMALL_MODEL | {"trick": "penalty_attention"}, (False, True, False)),
    (SMALL_MODEL | {"orthogonal": True}, (False, True, False)),
    (SMALL_MODEL | {"test": None}, (False, False, True)),
    (SMALL_MODEL | {"masked": False}, (False, False, True)),
    (SMALL_MODEL | {"setting": "right"}, (False, False, True)),
    (SMALL_MODEL | {"pooling": "mean"}, (False, False, True)),
    (SMALL_MODEL | {"share": 0.5}, (False, False, True)),
    (SMALL_MODEL | {"max_words": 100}, (False, False, True)),
    (SMALL_MODEL | {"cell": "gru"}, (False, False, True)),
    (SMALL_MODEL | {"batch_size": 64}, (False, False, True)),
    (SMALL_MODEL | {"forget_bias": "low"}, (False, False, True)),
    ({"pooling": "max", "orthogonal": True}, (False, False, False)),
]


@pytest.mark.parametrize(("changes", "expected"), KINDS, ids=str)
def test_of_which_kind_a_run_is(place, changes, expected):
    put(place, of("teacher_forcing", seed=8))  # other rows, so that columns are mixed
    put(place, of("forget 2", seed=9))
    key = put(place, replace(THESIS, **changes))
    table = place.store.trainings()
    kinds = [kind(table)[table["key"] == key].item() for kind in (of_record, of_learnability, is_plain)]
    assert kinds == list(expected)
    incomplete = table.assign(corpus_complete=False)
    assert not (of_record(incomplete) | of_learnability(incomplete)).any()


@pytest.mark.parametrize("variant", CHANGES)
def test_as_plain_a_variant_follows_the_protocol_and_keeps_its_results(place, variant):
    run = of(variant, base=THESIS)
    put_all(place, variant, "mid", [60.0, 70.0], base=THESIS)  # numbers alone where it has a forget bias
    table = place.store.trainings()
    assert follows_protocol(table).all() == (variant in ("last", "max", "max_attention"))
    plain = as_plain(table)
    assert follows_protocol(plain).all()
    assert not follows_protocol(as_plain(table.assign(hidden_size=64))).any()
    kept = [name for name in table if name not in ("trick", "orthogonal", "forget_bias")]
    pd.testing.assert_frame_equal(plain[kept], table[kept])
    older = table.drop(columns=["trick", "orthogonal"])
    assert follows_protocol(as_plain(older)).all()
    assert training_of(table.iloc[0]) in (run, replace(run, seed=1))  # as_plain leaves it as it was


FIRST = ("1.3", "1.6")


@pytest.mark.parametrize("base", [THESIS, replace(THESIS, **SMALL_MODEL)], ids=["thesis", "small"])
@pytest.mark.parametrize("variant", [*TRICKS, "orthogonal"])
def test_tables_of_the_first_chapter_never_count_a_trick(place, variant, base):
    cells = paper.published("accuracy")
    cells = cells[cells["table"].isin(FIRST) & (cells["corpus"] == "imdb") & (cells["size"] == 10_000)]
    put_all(place, variant, "mid", [90.0] * 4, base=base)
    alone = judged(current_trainings(place), cells)
    assert len(alone) == 5 * (3 + 4)
    assert set(alone["verdict"]) == {"not run"}
    put_all(place, "last", "mid", [50.0, 50.5, 51.0], base=base)
    found = judged(current_trainings(place), cells)
    found = found[found["n"] > 0]
    assert set(found["pooling"]) == {"last"}
    assert found["n"].tolist() == [3, 3]
    assert found["ours"].tolist() == [50.5, 50.5]


# the record

EPOCH = [{"train_loss": 0.5}]
PROFILE = [{"position": place, "mean": 0.1 * place, "median": 0.25} for place in (1, 2, 3)]
KEPT = {
    of("dropout_attention", seed=0): PENALTY,
    of("gradient_directed", strength=10.0): [{"factor": 10.0, "divergence": 0.5}, {"factor": 0.0}],
    of("orthogonal", "standard", size=500): EPOCH,
    of("last"): [{"train_loss": 0.25}],
    of("teacher_forcing", base=THESIS): TEACHER,
    of("penalty_attention", base=THESIS): AGAIN,
    of("forget 2", base=THESIS): [{"train_loss": 0.75}],
    replace(THESIS, pooling="mean", size=1000, setting="left"): [{"train_loss": 1.5}],
}
SYNTHETIC = of("dropout_attention", corpus="synthetic", length="any")
PROBED = [
    GradientProfile(of("last"), untrained=True),
    GradientProfile(of("last", base=THESIS), untrained=True),
    *(GradientProfile(of(variant)) for variant in ("last", *TRICKS)),
    *(GradientProfile(of(variant, base=THESIS)) for variant in ("last", *TRICKS)),
]
NOT_PROBED = [
    GradientProfile(SYNTHETIC),
    GradientProfile(of("dropout_attention", hidden_size=48)),
    GradientProfile(of("last", pooling="mean", size=2_000)),
    GradientTrace(of("dropout_attention", base=THESIS)),
    PaddingSweep(of("last", size=2_000)),
    PaddingSweep(of("orthogonal", base=THESIS)),
]


def folder_of(place):
    return place.store.directory.with_name("results")


def on_record(place):
    """The place with an empty store beside its record."""
    return replace(place, store=Store(place.store.directory.with_name("empty"), folder_of(place)))


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_trainings_of_tricks_are_put_on_record_and_read_back(place):
    keys = {put(place, run, history=history): run for run, history in KEPT.items()}
    put(place, SYNTHETIC, history=EPOCH)
    put(place, of("penalty_attention", seed=1, epochs=4), history=EPOCH)
    put(place, of("dropout_attention", seed=1), history=EPOCH, complete=False)
    put(place, of("teacher_forcing", seed=1, base=THESIS), history=EPOCH, complete=False)
    diverged = of("gradient_directed", seed=2, base=THESIS)
    keys[put(place, diverged, DIVERGED)] = diverged
    assert export_runs(place, folder_of(place)) == len(keys) == 9
    elsewhere = on_record(place)
    table = current_trainings(elsewhere)
    assert {row["key"]: training_of(row) for row in table.to_dict("records")} == keys
    by_key = table.set_index("key")
    assert by_key["diverged"].eq(True).sum() == 1
    assert by_key["test_accuracy"].isna().sum() == 1
    stored = place.store.trainings().set_index("key").loc[by_key.index]
    assert by_key["majority_accuracy"].equals(stored["majority_accuracy"])
    epochs = elsewhere.store.histories()
    assert set(epochs["key"]) == {key for key, run in keys.items() if run != diverged}
    for key, run in keys.items():
        rows = epochs[epochs["key"] == key].drop(columns="key").to_dict("records")
        known = [{name: value for name, value in row.items() if value == value} for row in rows]
        expected = [{"epoch": number, **epoch} for number, epoch in enumerate(KEPT.get(run, ()), 1)]
        assert known == [{n: v for n, v in epoch.items() if v == v} for epoch in expected]


def test_a_record_that_is_written_again_stays_as_it_is(place):
    for run, history in KEPT.items():
        put(place, run, history=history)
    for probe in PROBED:
        record_probe(place, probe, PROFILE)
    folder = folder_of(place)
    for exported in (export_runs, export_probes):
        exported(place, folder)
    before = content(folder)
    assert set(before) == {
        "trainings.csv", "trainings_history.csv", "probes.csv", "probes_gradients.csv"
    }  # fmt: skip
    beside = replace(place, store=Store(place.store.directory, folder))
    for run in KEPT:
        put(beside, run, 12.5, history=EPOCH)  # of record are the runs as they were
    for again in (on_record(place), beside):
        assert export_runs(again, folder) == len(KEPT)
        assert export_probes(again, folder) == len(PROBED)
        assert content(folder) == before
    for seed in range(1, 5):
        put(beside, of("chrono", seed=seed), history=[{"train_loss": 0.125}, {"train_loss": 0.25}])
    assert export_runs(beside, folder) == len(KEPT) + 4
    for name in ("trainings.csv", "trainings_history.csv"):
        assert set(before[name].splitlines()) < set(content(folder)[name].splitlines())
    epochs = pd.read_csv(folder / "trainings_history.csv")
    assert epochs[["key", "epoch"]].equals(epochs[["key", "epoch"]].sort_values(["key", "epoch"]))


def test_a_record_that_is_older_than_tricks_is_kept_beside_them(place):
    old, folder = of("last", base=THESIS), folder_of(place)
    put(place, old, history=EPOCH)
    export_runs(place, folder)
    table = pd.read_csv(folder / "trainings.csv")
    older = table.drop(columns=["trick", "orthogonal", "strength", "divergence"])
    older.to_csv(folder / "trainings.csv", index=False)
    elsewhere = on_record(place)
    new = of("dropout_attention", base=THESIS)
    put(elsewhere, new)
    assert export_runs(elsewhere, folder) == 2
    again = current_trainings(on_record(place))
    assert {training_of(row) for row in again.to_dict("records")} == {old, new}
    assert tricks.with_variant(again)["variant"].tolist() == ["last", "dropout_attention"]


def test_gradient_profiles_of_tricks_are_put_on_record_and_no_other_probe_of_them(place):
    keys = {record_probe(place, probe, PROFILE): probe for probe in PROBED}
    for probe in NOT_PROBED:
        record_probe(place, probe, PROFILE)
    record_probe(place, GradientProfile(of("dropout_attention", seed=1)), PROFILE, complete=False)
    assert export_probes(place, folder_of(place)) == len(keys) == 12
    elsewhere = on_record(place)
    table = current_probes(elsewhere)
    assert {row["key"]: probe_of(row) for row in table.to_dict("records")} == keys
    measured = elsewhere.store.measured("gradients")
    expected = pd.DataFrame([{"key": key, **row} for key in sorted(keys) for row in PROFILE])
    pd.testing.assert_frame_equal(measured, expected)
    profiles = tricks.small_profiles(elsewhere.store, table, 1000)
    assert profiles.groupby(["variant", "untrained"]).size().to_dict() == {
        ("last", True): 3, **{(variant, False): 3 for variant in ("last", *TRICKS)}
    }  # fmt: skip


def test_where_no_run_is_of_record_none_is_exported(place):
    put(place, SYNTHETIC, history=EPOCH)
    put(place, of("last"), history=EPOCH, complete=False)
    record_probe(place, GradientProfile(SYNTHETIC), PROFILE)
    assert export_runs(place, folder_of(place)) == 0
    assert export_probes(place, folder_of(place)) == 0
    assert len(current_trainings(on_record(place))) == 0


# Table 2.1


def published(name, **wanted):
    with open(PAPER / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


NUMBERS = {(r["method"], r["setting"]): float(r["accuracy"]) for r in published("learnability")}
BEST = {
    row["setting"]: f"{float(row['mean']):.1f} ± {float(row['std']):.1f}"
    for row in published("accuracy", table="1.3", corpus="imdb", size="10000", pooling="max_attention")
}


def thesis_cells(place):
    cells = tricks.thesis_cells(place.store.trainings())
    return cells.set_index(["variant", "setting"])


def test_table_2_1_without_runs_has_the_numbers_of_the_thesis_alone(place):
    table = tricks.thesis_table(place.store.trainings())
    names = ["last", "max", *TRICKS]
    expected = [
        [tricks.VARIANTS[name], *(f"{NUMBERS[name, s]:.1f}" for s in ("standard", "mid"))]
        for name in names
    ]
    assert len(NUMBERS) == 12
    assert table.frame.to_numpy().tolist() == [*expected, ["MaxAtt", BEST["standard"], BEST["mid"]]]
    assert table.provenance == "Provenance: the thesis alone; none of it has been run here."
    put(place, of("last"))
    put(place, of("last", base=THESIS, corpus="yelp"))
    assert tricks.thesis_table(place.store.trainings()).frame.equals(table.frame)


@pytest.mark.parametrize("variant", ["last", "max", *TRICKS])
@pytest.mark.parametrize(
    ("off", "changes", "seeds", "verdict"),
    [
        (0.5, {}, 3, "reproduced"),
        (-6.0, {}, 3, "differs"),
        (0.5, {}, 2, "indicative"),
        (0.5, {"hidden_size": 64, "epochs": 8, "max_words": 140, "test": 2000}, 3, "indicative"),
    ],
)
def test_ours_stand_above_with_a_verdict(place, variant, off, changes, seeds, verdict):
    number = NUMBERS[variant, "mid"]
    ours = [number + off + spread for spread in (-0.2, 0.0, 0.2)[:seeds]]
    put_all(place, variant, "mid", ours, base=replace(THESIS, **changes))
    put(place, of(variant, "mid", 5, THESIS, size=5000), 1.0)
    cells = thesis_cells(place)
    cell = cells.loc[(variant, "mid")]
    assert (cell["verdict"], cell["n"]) == (verdict, seeds)
    assert cell["ours"] == pytest.approx(np.mean(ours))
    assert cells.drop(index=(variant, "mid"))["n"].eq(0).all()
    table = tricks.thesis_table(place.store.trainings())
    mark = {"reproduced": "✓", "differs": "✗", "indicative": "~"}[verdict]
    spread = "0.2" if seeds == 3 else "0.1"
    text = f"**{np.mean(ours):.1f} ± {spread} ({seeds})** {mark}<br>{number:.1f}"
    assert text in table.frame["mid"].tolist()
    assert f"{seeds} runs; corpus imdb; 10,000 training texts" in table.provenance


def test_max_attention_is_judged_by_the_interval_of_table_1_3(place):
    mean, std = map(float, BEST["standard"].split(" ± "))
    put_all(place, "max_attention", "standard", [mean - 0.5, mean, mean + 0.5], base=THESIS)
    cell = thesis_cells(place).loc[("max_attention", "standard")]
    assert (cell["verdict"], cell["n"], cell["table"], cell["std"]) == ("reproduced", 3, "1.3", std)
    text = tricks.thesis_table(place.store.trainings()).frame["standard"].iloc[-1]
    assert text == f"**{mean:.1f} ± 0.5 (3)** ✓<br>{BEST['standard']}"


BESIDE = [
    ("last", {"orthogonal": True}),
    ("last", {"forget_bias": 2.0}),
    ("last", {"forget_bias": "chrono"}),
    ("last", {"masked": False}),
    ("last", {"hidden_size": 64}),
    ("gradient_directed", {"strength": 1.0}),
    ("gradient_directed", {"divergence": "reverse"}),
    ("gradient_directed", {"forget_bias": "chrono"}),
]


@pytest.mark.parametrize(("variant", "changes"), BESIDE, ids=str)
def test_other_starts_and_strengths_do_not_count_into_a_cell(place, variant, changes):
    put_all(place, variant, "mid", [80.0, 80.5, 81.0], base=THESIS)
    alone = thesis_cells(place).loc[(variant, "mid")]
    for seed in range(5):
        put(place, of(variant, "mid", seed, replace(THESIS, **changes)), 20.0)
    beside = thesis_cells(place).loc[(variant, "mid")]
    assert alone["n"] == 3
    assert beside.equals(alone)


def test_a_seed_that_diverged_has_no_part_in_a_verdict(place):
    put_all(place, "gradient_directed", "mid", [80.0, DIVERGED, 80.5, DIVERGED, 81.0], base=THESIS)
    cell = thesis_cells(place).loc[("gradient_directed", "mid")]
    assert (cell["n"], cell["ours"], cell["verdict"]) == (3, 80.5, "reproduced")
    put_all(place, "penalty_attention", "mid", [DIVERGED] * 3, base=THESIS)
    assert thesis_cells(place).loc[("penalty_attention", "mid"), "verdict"] == "not run"


def test_our_own_deviation_stays_where_it_is_nothing(place):
    put_all(place, "last", "mid", [50.0] * 3, base=THESIS)
    frame = tricks.thesis_table(place.store.trainings()).frame
    assert frame["mid"].iloc[0] == "**50.0 ± 0.0 (3)** ✓<br>50.1"


# quantities

ACCURACIES = {  # of three seeds
    ("last", "standard"): (86.0, 87.0, 85.0),
    ("last", "mid"): (50.0, 51.0, 52.0),
    ("max", "standard"): (88.0, 86.0),
    ("max", "mid"): (80.0, 83.0, 79.0),
    ("teacher_forcing", "standard"): (87.0, 89.0, 84.0),
    ("teacher_forcing", "mid"): (50.0, 49.0, DIVERGED),
    ("penalty_attention", "standard"): (85.0, 86.0, 87.0),
    ("penalty_attention", "mid"): (70.0, 72.0, DIVERGED),
    ("dropout_attention", "standard"): (86.0, 86.5, 88.0),
    ("dropout_attention", "mid"): (74.0, 71.0, 75.0),
    ("gradient_directed", "standard"): (88.0, 90.0, 87.0),
    ("gradient_directed", "mid"): (84.0, 80.0, 81.0),
    ("max_attention", "standard"): (90.0, 91.0, 92.0),
    ("max_attention", "mid"): (85.0, 86.0, 87.0),
    ("chrono", "mid"): (55.0,),
}
MIMICKED = [{"train_loss": 4e-6}, {"train_loss": 2e-6}]
HISTORIES = {
    ("teacher_forcing", "standard"): (MIMICKED, TEACHER, TEACHER[:1]),
    ("teacher_forcing", "mid"): (TEACHER, [{"train_loss": 1.5}], TEACHER),
    ("penalty_attention", "mid"): (PENALTY, AGAIN, PENALTY),
    ("dropout_attention", "mid"): (PENALTY, NEVER_FULL, AGAIN),
}
EXAMPLES = [
    ("trick_accuracy", {"variant": "last", "setting": "mid"}, {0: 50.0, 1: 51.0, 2: 52.0}),
    ("trick_accuracy", {"variant": "teacher_forcing", "setting": "mid"}, {0: 50.0, 1: 49.0}),
    ("trick_accuracy", {"variant": "chrono", "setting": "mid"}, {0: 55.0}),
    ("trick_accuracy", {"variant": "orthogonal", "setting": "mid"}, {}),
    ("trick_gain", {"variant": "penalty_attention", "over": "last", "settings": ["mid"]},
     {0: 20.0, 1: 21.0}),
    ("trick_gain", {"variant": "gradient_directed", "over": "max", "settings": ["standard", "mid"]},
     {0: 0.0, 1: -3.0}),
    ("trick_gain", {"variant": "gradient_directed", "over": "max", "settings": ["standard", "mid"],
                    "choose": "max"}, {0: 4.0, 1: 4.0}),
    ("trick_gain", {"variant": "last", "over": "chrono", "settings": ["mid"]}, {0: -5.0}),
    ("best_trick_gain", {"over": "max_attention", "settings": ["standard"]},
     {0: -2.0, 1: -1.0, 2: -4.0}),
    ("best_trick_gain", {"over": "max_attention", "settings": ["standard", "mid"]}, {0: -1.0, 1: -1.0}),
    ("teacher_error", {"setting": "standard"}, {0: 2e-6, 1: 0.125, 2: 0.5}),
    ("teacher_error", {"setting": "mid"}, {0: 0.125, 1: 1.5}),
    ("attention_left", {"variant": "dropout_attention", "setting": "mid"}, {0: 0.01, 1: 0.2, 2: 0.02}),
    ("attention_left", {"variant": "penalty_attention", "setting": "mid"}, {0: 0.01, 1: 0.02}),
    ("ending_cost", {"variant": "dropout_attention", "setting": "mid"}, {0: 4.0, 2: 3.0}),
    ("ending_cost", {"variant": "penalty_attention", "setting": "standard"}, {}),
]  # fmt: skip
BY_EXAMPLE = pytest.mark.parametrize(("name", "arguments", "expected"), EXAMPLES, ids=str)
WORSE = [{"factor": 0.5, "mass_left": 0.9, "attention_accuracy": 99.0, "train_loss": 1e-9}]
WORSE += [{"factor": 1.0, "validation_accuracy": 1.0}]


def fill(place, base, off=0.0):
    """The accuracies above, so many points higher."""
    for (variant, setting), accuracies in ACCURACIES.items():
        histories = HISTORIES.get((variant, setting), ([],) * 3)
        for seed, accuracy in enumerate(accuracies):
            put(place, of(variant, setting, seed, base), accuracy + off, histories[seed])


@pytest.fixture(scope="module")
def ours(shared):
    """Small runs of 1K texts, and runs of the thesis's of 10K whose maxima are 3 points better."""
    fill(shared, replace(THESIS, **SMALL_MODEL, size=1000))
    fill(shared, THESIS, off=3.0)
    for variant, setting in ACCURACIES:  # what none of the numbers may come from
        for base in (THESIS, SMALL):
            for number, changes in enumerate(({"corpus": "yelp"}, {"size": 5000}, {"hidden_size": 48})):
                run = of(variant, setting, base=replace(base, **changes), seed=number)
                put(shared, run, 1.0, WORSE)
            put(shared, of(variant, setting, 2, base), 2.0, WORSE, complete=False)
    for changes in ({"forget_bias": "low"}, {"forget_bias": 1.5}, {"setting": "left"}):
        put(shared, replace(THESIS, **changes), 1.0, WORSE)
        put(shared, replace(SMALL, **changes), 1.0, WORSE)
    for base in (THESIS, SMALL):
        put(shared, of("gradient_directed", base=base, strength=1.0), 1.0, WORSE)
    put(shared, replace(THESIS, masked=False), 1.0, WORSE)
    return shared


@pytest.fixture(scope="module")
def thesis_evidence(ours):
    return evidence_of(ours.store, current_trainings(ours), current_probes(ours))


@pytest.fixture(scope="module")
def indications(ours):
    return small_evidence(ours.store, current_trainings(ours), 1000)


def quantity(name, evidence, size, arguments):
    return trick_quantities.QUANTITIES[name](evidence, size=size, **arguments)


@BY_EXAMPLE
def test_a_quantity_is_what_was_computed_by_hand(name, arguments, expected, indications):
    assert quantity(name, indications, 1000, arguments) == pytest.approx(expected)
    for other in (500, 5000, 10_000):
        assert quantity(name, indications, other, arguments) == {}


@BY_EXAMPLE
def test_runs_of_record_decide_and_small_ones_do_not(name, arguments, expected, thesis_evidence):
    off = 3.0 if name == "trick_accuracy" else 0.0
    shifted = {seed: value + off for seed, value in expected.items()}
    assert quantity(name, thesis_evidence, 10_000, arguments) == pytest.approx(shifted)
    assert quantity(name, thesis_evidence, 1000, arguments) == {}


@BY_EXAMPLE
def test_without_runs_there_is_no_number(name, arguments, expected, place, indications):
    nothing = small_evidence(place.store, current_trainings(place), 1000)
    assert quantity(name, nothing, 1000, arguments) == {}
    assert quantity(name, Evidence(pd.DataFrame(), {}), 1000, arguments) == {}
    without_epochs = quantity(name, replace(indications, epochs=None), 1000, arguments)
    reads_epochs = name in ("teacher_error", "attention_left", "ending_cost")
    assert without_epochs == ({} if reads_epochs else pytest.approx(expected))


def test_every_quantity_has_an_example_and_small_runs_have_nothing_else(indications):
    assert {name for name, _, _ in EXAMPLES} == set(trick_quantities.QUANTITIES)
    assert indications.trainings.empty
    assert all(rows.empty for rows in indications.measured.values())
    assert not indications.live


def test_a_size_of_the_protocol_is_not_small(ours):
    """10K is small on the quick profile's model alone."""
    assert small_evidence(ours.store, current_trainings(ours), 10_000).variants.empty


@pytest.mark.parametrize(
    "small",
    [
        False,
        True,
    ],
)
def test_numbers_from_two_kinds_of_vectors_are_not_compared(place, small):
    base = SMALL if small else THESIS
    put_all(place, "last", "mid", [50.0, 51.0], base=base)
    put_all(place, "max", "mid", [80.0, 80.0], base=replace(base, vectors="glove.6B.100d"))
    put_all(place, "max", "mid", [71.0], base=base)
    table = current_trainings(place)
    if small:
        made = small_evidence(place.store, table, 1000)
    else:
        made = evidence_of(place.store, table, current_probes(place))
    arguments = {"variant": "max", "over": "last", "settings": ["mid"]}
    assert quantity("trick_gain", made, base.size, arguments) == {0: 21.0}


# claims


def open_learnability(place):
    return Chapter("learnability", Choice("smoke"), place)


def test_claims_are_decided_by_the_thesiss_runs_and_indicated_by_small_ones(ours, monkeypatch):
    glued = {}
    monkeypatch.setattr("whenpool.chapter.glue", glued.__setitem__)
    chapter = open_learnability(ours)
    decided, indicated = chapter.claims(), chapter.small_claims(1000)
    verdicts = {d.claim.id: (d.verdict, d.measured) for d in decided}
    assert list(verdicts) == [name for name, c in LEDGER.items() if c.chapter == "learnability"]
    assert verdicts["bilstm-guesses-in-the-middle-10k"] == ("undecided", "53, 54, 55")
    assert verdicts["teacher-forcing-mimics-standard"][0] == "undecided"
    assert verdicts["teacher-forcing-guesses-in-the-middle"] == ("so far holds", "53, 52")
    assert verdicts["penalty-attention-finds-the-middle"] == ("so far holds", "20, 21")
    assert verdicts["dropout-leaves-little-attention"][0] == "does not hold"
    assert verdicts["dropout-drops-at-the-end"][0] == "so far holds"
    assert verdicts["gradient-directed-beats-max"] == ("so far does not hold", "0, -3")
    assert verdicts["tricks-stay-below-max-attention"] == ("so far holds", "-1, -1")
    assert glued["claim_dropout-drops-at-the-end"] == "so far holds"
    small = {d.claim.id: d for d in indicated}
    assert list(small) == list(verdicts)
    assert {d.claim.arguments["size"] for d in indicated} == {1000}
    assert small["bilstm-guesses-in-the-middle-10k"].measured == "50, 51, 52"
    table = claims_table(decided, indicated, "small models, 1K")
    assert list(table) == ["claim", "rule", "ours", "verdict", "small models, 1K"]
    rows = dict(zip(verdicts, table.to_dict("records"), strict=True))
    column = {name: row["small models, 1K"] for name, row in rows.items()}
    assert column["bilstm-guesses-in-the-middle-10k"] == "50, 51, 52 (obeyed by 3 of 3)"
    assert column["gradient-directed-beats-max"] == "0, -3 (obeyed by 0 of 2)"
    assert column["teacher-forcing-mimics-standard"].endswith(" (obeyed by 1 of 3)")
    assert rows["dropout-drops-at-the-end"]["verdict"] == "**so far holds** (2)"
    assert list(claims_table(decided)) == ["claim", "rule", "ours", "verdict"]


def test_the_runs_behind_the_verdicts_are_those_of_record_that_did_not_diverge(ours, monkeypatch):
    monkeypatch.setattr("whenpool.chapter.glue", lambda name, value: None)
    chapter = open_learnability(ours)
    runs = chapter.evidence_runs(chapter.claims())
    assert runs["test_accuracy"].notna().all()
    assert runs["hidden_size"].eq(256).all()
    assert runs["corpus_complete"].all()
    decisive = runs[runs["size"] == 10_000]
    assert len(decisive) == sum(map(len, ACCURACIES.values())) - 2


def test_small_runs_alone_decide_nothing(place, monkeypatch):
    monkeypatch.setattr("whenpool.chapter.glue", lambda name, value: None)
    fill(place, SMALL)
    chapter = open_learnability(place)
    decided, indicated = chapter.claims(), chapter.small_claims(1000)
    assert {d.verdict for d in decided} == {"not run"}
    assert sum(bool(d.values) for d in indicated) == len(indicated)
    assert chapter.evidence_runs(decided).empty
    column = claims_table(decided, chapter.small_claims(500), "none")["none"]
    assert column.tolist() == [""] * len(decided)


def test_numbers_come_in_the_order_of_the_seeds(indications):
    found = [list(quantity(name, indications, 1000, arguments)) for name, arguments, _ in EXAMPLES]
    assert found == [sorted(seeds) for seeds in found]


@pytest.mark.parametrize("name", [name for name, c in LEDGER.items() if c.chapter == "learnability"])
def test_a_claim_names_variants_and_settings_that_there_are(name):
    arguments = LEDGER[name].arguments
    named = {arguments[key] for key in ("variant", "over") if key in arguments}
    settings = [arguments["setting"]] if "setting" in arguments else arguments["settings"]
    assert named <= set(tricks.VARIANTS)
    assert settings
    assert set(settings) <= set(tricks.SETTINGS)
    assert arguments["size"] == 10_000


# theory

LIVE = Evidence(pd.DataFrame(), dict.fromkeys(PROBES, pd.DataFrame()), live=True)
THEORY = [claim for claim in LEDGER.values() if claim.chapter == "theory"]


@pytest.mark.parametrize("claim", THEORY, ids=lambda claim: claim.id)
def test_a_claim_on_theory_has_three_numbers_and_always_the_same(claim):
    measure = theory_quantities.QUANTITIES[claim.quantity]
    assert set(claim.arguments.get("models", MODELS)) <= set(MODELS)
    found = measure(LIVE, **claim.arguments)
    assert len(found) == 3
    again = decide(claim, LIVE)
    assert again.values == found
    assert not any(math.isnan(value) for value in found.values())
    infinite = claim.quantity == "parity_out_of_reach"
    assert all(math.isinf(value) == infinite for value in found.values())
    assert again.verdict in ("holds", "does not hold", "undecided")
    not_live = replace(LIVE, live=False)
    assert measure(not_live, **claim.arguments) == {}
    assert decide(claim, not_live).verdict == "not run"
