"""What is kept of runs of "Learnability tricks", and Table 2.1."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_runs import record_probe
from test_trick_reports import (
    AGAIN,
    CHANGES,
    DIVERGED,
    PENALTY,
    SMALL,
    TEACHER,
    THESIS,
    of,
    put,
    put_all,
)

from whenpool.book.publish import export_probes, export_runs
from whenpool.book.report import tricks, verdicts
from whenpool.book.report.tables import judged
from whenpool.book.report.verdicts import (
    as_plain,
    follows_protocol,
    is_plain,
    of_either_scale,
    of_learnability,
    of_record,
)
from whenpool.runs.kinds.probe import GradientProfile, GradientTrace, PaddingSweep
from whenpool.runs.kinds.training import TRICKS
from whenpool.runs.rows import current_probes, current_trainings, probe_of, training_of
from whenpool.runs.store import Store

PAPER = Path(__file__).parents[1] / "data" / "paper"
SMALL_MODEL = {name: getattr(SMALL, name) for name in ("hidden_size", "epochs", "max_words", "test")}

# which runs are of which kind

KINDS = [  # of record, of Table 2.1's kind, plain, kept
    ({}, "rlpk"),
    *(({"trick": trick}, "lk") for trick in TRICKS),
    ({"trick": "gradient_directed", "strength": 10.0}, "lk"),
    ({"orthogonal": True}, "lk"),
    ({"forget_bias": 2.0}, "lk"),
    ({"forget_bias": "chrono"}, "lk"),
    ({"forget_bias": "low"}, "pk"),
    ({"pooling": "max"}, "rlpk"),
    ({"pooling": "max", "forget_bias": 2.0}, "k"),
    ({"pooling": "max", "orthogonal": True}, "k"),
    ({"pooling": "mean"}, "rpk"),
    ({"pooling": "attention", "size": 1000}, "rpk"),
    ({"setting": "left"}, "rpk"),
    ({"setting": "standard", "size": 1000}, "rlpk"),
    ({"masked": False}, "rpk"),
    ({"corpus": "yelp"}, "rpk"),
    ({"vectors": None}, "p"),
    ({"vectors": None, "trick": "dropout_attention"}, ""),
    ({"hidden_size": 64, "trick": "dropout_attention"}, ""),
    ({"test": 2000, "trick": "dropout_attention"}, "k"),
    (SMALL_MODEL, "lpk"),
    (SMALL_MODEL | {"size": 500, "pooling": "max_attention"}, "lpk"),
    (SMALL_MODEL | {"trick": "penalty_attention"}, "lk"),
    (SMALL_MODEL | {"orthogonal": True}, "lk"),
    (SMALL_MODEL | {"test": None}, "pk"),
    (SMALL_MODEL | {"masked": False}, "pk"),
    (SMALL_MODEL | {"setting": "right"}, "pk"),
    (SMALL_MODEL | {"pooling": "mean"}, "pk"),
    (SMALL_MODEL | {"forget_bias": "low"}, "pk"),
    (SMALL_MODEL | {"vectors": None}, "pk"),
    (SMALL_MODEL | {"corpus": "yahoo", "length": "short"}, "pk"),
    (SMALL_MODEL | {"share": 0.5}, "p"),
    (SMALL_MODEL | {"max_words": 100}, "p"),
    (SMALL_MODEL | {"cell": "gru"}, "p"),
    (SMALL_MODEL | {"batch_size": 64}, "p"),
]


@pytest.mark.parametrize(("changes", "expected"), KINDS, ids=str)
def test_of_which_kind_a_run_is(place, changes, expected):
    put(place, of("teacher_forcing", seed=8))  # other rows, so that columns are mixed
    put(place, of("forget 2", seed=9))
    key = put(place, replace(THESIS, **changes))
    table = place.store.trainings()
    kinds = {"r": of_record, "l": of_learnability, "p": is_plain, "k": of_either_scale}
    found = {name for name, kind in kinds.items() if kind(table)[table["key"] == key].item()}
    assert found == set(expected)
    part = table.assign(corpus_complete=False)
    assert not (of_record(part) | of_learnability(part)).any()
    compact = set(SMALL_MODEL) <= set(changes)
    assert of_either_scale(part)[part["key"] == key].item() == ("k" in expected and compact)


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
    cells = verdicts.published("accuracy")
    cells = cells[cells["table"].isin(FIRST) & (cells["corpus"] == "imdb") & (cells["size"] == 10_000)]
    put_all(place, variant, "mid", [90.0] * 4, base=base)
    alone = judged(current_trainings(place), cells)
    assert len(alone) == 5 * (3 + 4)
    assert set(alone["verdict"]) == {"not run"}
    assert set(alone["compact"]) == {""}
    put_all(place, "last", "mid", [50.0, 50.5, 51.0], base=base)
    found = judged(current_trainings(place), cells)
    ours = found[(found["pooling"] == "last") & (found["setting"] == "mid")]
    rest = found.drop(ours.index)
    assert rest["n"].eq(0).all()
    assert rest["compact"].eq("").all()
    small = base != THESIS
    assert ours["n"].tolist() == [0 if small else 3] * 2
    assert ours["compact"].tolist() == ["50.5 ± 0.5 (3)" if small else ""] * 2
    if not small:
        assert ours["ours"].tolist() == [50.5, 50.5]


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
OTHERWISE = [
    GradientTrace(of("dropout_attention", base=THESIS)),
    PaddingSweep(of("last", size=2_000)),
    PaddingSweep(of("orthogonal", base=THESIS)),
]
NOT_PROBED = [
    GradientProfile(SYNTHETIC),
    GradientProfile(of("dropout_attention", hidden_size=48)),
    GradientTrace(of("dropout_attention", base=THESIS, epochs=2)),
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
    part = of("dropout_attention", seed=1)  # which is enough for the compact replication alone
    keys[put(place, part, history=EPOCH, complete=False)] = part
    put(place, of("teacher_forcing", seed=1, base=THESIS), history=EPOCH, complete=False)
    diverged = of("gradient_directed", seed=2, base=THESIS)
    keys[put(place, diverged, DIVERGED)] = diverged
    assert export_runs(place, folder_of(place)) == len(keys) == 10
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
    histories = KEPT | {part: EPOCH}
    for key, run in keys.items():
        rows = epochs[epochs["key"] == key].drop(columns="key").to_dict("records")
        known = [{name: value for name, value in row.items() if value == value} for row in rows]
        expected = [{"epoch": number, **epoch} for number, epoch in enumerate(histories.get(run, ()), 1)]
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


def test_probes_of_tricks_are_put_on_record_and_read_back(place):
    keys = {record_probe(place, probe, PROFILE): probe for probe in (*PROBED, *OTHERWISE)}
    for probe in NOT_PROBED:
        record_probe(place, probe, PROFILE)
    record_probe(
        place, GradientProfile(of("dropout_attention", seed=1, base=THESIS)), PROFILE, complete=False
    )
    assert export_probes(place, folder_of(place)) == len(keys) == 15
    elsewhere = on_record(place)
    table = current_probes(elsewhere)
    assert {row["key"]: probe_of(row) for row in table.to_dict("records")} == keys
    measured = elsewhere.store.measured("gradients")
    profiled = sorted(key for key, probe in keys.items() if probe in PROBED)
    expected = pd.DataFrame([{"key": key, **row} for key in profiled for row in PROFILE])
    pd.testing.assert_frame_equal(measured, expected)
    profiles = tricks.small_profiles(elsewhere.store, table, 1000)
    assert profiles.groupby(["variant", "untrained"]).size().to_dict() == {
        ("last", True): 3, **{(variant, False): 3 for variant in ("last", *TRICKS)}
    }  # fmt: skip


def test_where_no_run_is_of_record_none_is_exported(place):
    put(place, SYNTHETIC, history=EPOCH)
    put(place, of("last", base=THESIS), history=EPOCH, complete=False)
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
        (0.5, {}, 2, "so far"),
        (0.5, {"vectors": "wiki-reviews.100d"}, 3, "pilot"),
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
    mark = {"reproduced": "✓", "differs": "✗", "so far": "…", "pilot": "~"}[verdict]
    spread = "0.2" if seeds == 3 else "0.1"
    text = f"**{np.mean(ours):.1f} ± {spread} ({seeds})** {mark}<br>{number:.1f}"
    assert text in table.frame["mid"].tolist()
    assert f"{seeds} runs; corpus imdb; 10,000 training texts" in table.provenance


@pytest.mark.parametrize("variant", ["max", *TRICKS])
def test_the_compact_replication_stands_above_the_thesis_and_has_no_verdict(place, variant):
    put_all(place, variant, "mid", [60.0, 61.0, 62.0], base=replace(THESIS, **SMALL_MODEL))
    cell = thesis_cells(place).loc[(variant, "mid")]
    assert (cell["verdict"], cell["n"], len(cell["keys"])) == ("not run", 0, 3)
    table = tricks.thesis_table(place.store.trainings())
    assert f"compact 61.0 ± 1.0 (3)<br>{NUMBERS[variant, 'mid']:.1f}" in table.frame["mid"].tolist()
    assert "3 runs; corpus imdb; 10,000 training texts" in table.provenance


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
