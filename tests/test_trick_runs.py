"""Runs with a trick or another start: what they are, what they need, and what is stored."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
import test_probe_runs
import torch
from small_models import logits_by_torch
from test_probe_runs import ask, has_weights, record_probe
from test_probing import TINY
from test_results import on_record, record_run

from whenpool import InputError, LastState
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.runs.compute import compute, standing
from whenpool.runs.engine import Workforce
from whenpool.runs.kinds.probe import GradientProfile, GradientTrace, Probe
from whenpool.runs.kinds.training import TRICKS, Training, prepare, trained, variant_of
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store, key_of

executed = test_probe_runs.executed  # a fixture
RECORDS = Path(__file__).parents[1] / "data" / "results"
STUDENT = replace(TINY, trick="teacher_forcing", forget_bias=2.0)
TEACHER = replace(TINY, pooling="max")
OTHERS = [replace(TINY, trick=trick) for trick in TRICKS[1:]]
PROFILE = GradientProfile(TINY, texts=8)


def result_of(run, place):
    return place.store.get(key(run, place))["result"]


def fresh(place, name):
    return Place(Store(place.store.directory.with_name(name)), place.data, place.cache)


def test_what_makes_a_plain_training_is_what_it_was_before_there_were_tricks(place):
    source = place.source(TINY)
    configuration = {
        "corpus": source.label, "setting": "standard", "size": 60, "pooling": "last", "length": "any",
        "embedding_size": 8, "hidden_size": 6, "epochs": 2,
    }  # fmt: skip
    identity = {"run": configuration, "data": {"corpus": source.fingerprint("any")}, "protocol": 1}
    assert TINY.identity(place) == identity
    assert key(TINY, place) == key_of(identity)
    probe = identity | {"probe": {"probe": "gradients", "texts": 8, "protocol": 1}}
    assert PROFILE.identity(place) == probe


def test_trainings_of_record_still_have_their_keys():
    rows = pd.read_csv(RECORDS / "trainings.csv").to_dict("records")
    for row in rows:
        data = {
            name.removeprefix("data_"): value
            for name, value in row.items()
            if name.startswith("data_") and value == value
        }
        run = Training.of_row(row).changed()
        assert key_of({"run": run, "data": data, "protocol": row["protocol"]}) == row["key"]
    assert len(rows) > 30


def test_every_trick_start_and_option_has_a_key_of_its_own(place):
    directed = replace(TINY, trick="gradient_directed")
    runs = [
        TINY, replace(TINY, orthogonal=True), *(replace(TINY, trick=trick) for trick in TRICKS),
        replace(directed, strength=0.5), replace(directed, divergence="reverse"),
        replace(TINY, forget_bias=2.0), replace(TINY, forget_bias="chrono"),
        PROFILE, replace(PROFILE, untrained=True),
    ]  # fmt: skip
    assert len({key(run, place) for run in runs}) == len(runs)


def test_a_student_needs_a_max_pooled_model_as_the_thesis_trains_it():
    assert STUDENT.needs == TEACHER
    assert replace(STUDENT, orthogonal=True, seed=3, setting="mid").needs == replace(
        TEACHER, seed=3, setting="mid"
    )
    assert all(run.needs is None for run in (TINY, TEACHER, *OTHERS))
    assert GradientProfile(STUDENT).needs == STUDENT
    assert GradientTrace(STUDENT).needs == TEACHER  # the trace trains the student itself
    assert GradientTrace(TINY).needs is None
    assert GradientProfile(STUDENT, untrained=True).needs is None


@pytest.mark.parametrize(
    ("changes", "variant"),
    [
        ({}, "last"),
        ({"pooling": "max"}, "max"),
        ({"forget_bias": None}, "last"),
        ({"forget_bias": 2.0}, "forget 2"),
        ({"forget_bias": 1.5}, "forget 1.5"),
        ({"forget_bias": "low"}, "low"),
        ({"forget_bias": "chrono"}, "chrono"),
        ({"orthogonal": True}, "orthogonal"),
        *(({"trick": trick}, trick) for trick in TRICKS),
        ({"trick": TRICKS[0], "orthogonal": True}, f"{TRICKS[0]}, orthogonal"),
        ({"pooling": "max", "forget_bias": 2.0}, "max, forget 2"),
    ],
)
def test_a_variant_is_what_sets_a_training_apart(changes, variant):
    run = replace(TINY, **changes)
    assert run.variant == variant
    assert f" {variant} seed 0" in str(run)
    assert variant_of(run.pooling, run.forget_bias, run.orthogonal, run.trick) == variant


@pytest.mark.parametrize(
    ("cells", "variant"),
    [
        (("max", "thesis", math.nan, math.nan), "max"),  # of a row that is older than the columns
        (("last", "2.0", 0.0, None), "forget 2"),  # as a CSV file has it
        (("last", "thesis", 1.0, math.nan), "orthogonal"),
        (("last", "thesis", False, "dropout_attention"), "dropout_attention"),
        (("max", math.nan, False, None), "max"),
    ],
)  # fmt: skip
def test_variants_can_be_told_from_the_cells_of_a_table(cells, variant):
    assert variant_of(*cells) == variant


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trick": "teaching"}, "trick 'teaching' is unknown; choose one of teacher_forcing, penalty_"),
        ({"trick": TRICKS[1], "pooling": "max"}, "penalty_attention trains a model without pooling"),
        ({"trick": TRICKS[2], "masked": False}, "padding masked .* masked=True"),
        ({"trick": TRICKS[3], "drop_connect": 0.1}, "no weight dropped.* drop_connect=0$"),
    ],
)
def test_what_a_trick_cannot_be_trained_on_is_one_clear_line(place, changes, message):
    run = replace(TINY, **changes)
    for asked in (run, GradientProfile(run)):
        for ask_for in (asked.identity, lambda place, asked=asked: compute([asked], place)):
            with pytest.raises(InputError, match=message) as raised:
                ask_for(place)
            assert "\n" not in str(raised.value)
    with pytest.raises(InputError):
        run.execute(place)
    assert place.store.keys() == set()


def test_unknown_divergences_are_named(place):
    run = replace(TINY, trick="gradient_directed", divergence="both")
    with pytest.raises(InputError, match="divergence 'both' is unknown; choose forward or reverse"):
        run.execute(place)


def test_an_orthogonal_start_is_had_for_the_asking(place):
    for run in (TINY, replace(TINY, orthogonal=True)):
        for module in prepare(run, place).model.encoder.layers[0]:
            gates = module.weight_hh_l0.split(6)
            off = [(Q @ Q.T - torch.eye(6)).abs().max().item() for Q in gates]
            assert (max(off) < 1e-5) == run.orthogonal


NEW = [
    TINY, STUDENT, replace(TINY, orthogonal=True), replace(TINY, trick=TRICKS[3], strength=0.5),
    replace(TINY, trick=TRICKS[3], divergence="reverse", seed=1),
]  # fmt: skip


def test_configurations_come_back_from_tables_with_and_without_the_columns(place, tmp_path):
    for run in NEW:
        record_run(place, run)
    old = asdict(replace(TINY, seed=9))
    for name in ("orthogonal", "trick", "strength", "divergence"):
        del old[name]
    identity = {"run": replace(TINY, seed=9).changed(), "data": {}, "protocol": 1}
    place.store.put(identity, old, {}, {})
    table = place.store.rows("training")
    assert table["strength"].isna().sum() == 1
    expected = {*NEW, replace(TINY, seed=9)}
    assert {Training.of_row(row) for row in table.to_dict("records")} == expected
    table.to_csv(tmp_path / "t.csv", index=False)
    assert {
        Training.of_row(row) for row in pd.read_csv(tmp_path / "t.csv").to_dict("records")
    } == expected
    only_old = pd.DataFrame([old])
    assert Training.of_row(only_old.iloc[0]) == replace(TINY, seed=9)


def test_probes_come_back_from_tables_with_and_without_the_column(place):
    before = replace(PROFILE, untrained=True)
    for probe in (PROFILE, before):
        record_probe(place, probe)
    table = place.store.rows("probe")
    assert {Probe.of_row(row) for row in table.to_dict("records")} == {PROFILE, before}
    older = table.assign(untrained=table["untrained"].mask(~table["untrained"]))
    assert {Probe.of_row(row) for row in older.to_dict("records")} == {PROFILE, before}
    assert {Probe.of_row(row) for _, row in table.drop(columns="untrained").iterrows()} == {PROFILE}


def test_a_trick_of_record_counts_where_its_data_are_absent(place):
    run = Training("imdb", "mid", 10_000, "last", vectors="wiki-reviews.100d", trick=TRICKS[1])
    record_run(place, run)
    table = place.store.rows("training")
    place.store.directory.with_name("results").mkdir()
    table.to_csv(place.store.directory.with_name("results") / "trainings.csv", index=False)
    elsewhere = on_record(place)
    assert list(standing([run, replace(run, trick=None)], elsewhere).done) == [run]


def test_the_teacher_is_computed_first_once_and_with_weights(place, executed):
    again = replace(STUDENT, forget_bias="thesis")
    said, report = ask([STUDENT, again, TEACHER, PROFILE], place)
    assert said == []
    assert report.done == 5
    assert set(executed[:2]) == {TEACHER, TINY}
    assert executed.count(TEACHER) == 1
    assert set(executed[2:4]) == {STUDENT, again}
    assert has_weights(TEACHER, place)
    assert not has_weights(STUDENT, place)
    assert "diverged" not in result_of(TEACHER, place)
    assert result_of(STUDENT, place)["diverged"] is False


def test_a_probe_on_a_student_brings_student_and_teacher(place, executed):
    ask([GradientProfile(STUDENT, texts=8)], place)
    assert executed == [TEACHER, STUDENT, GradientProfile(STUDENT, texts=8)]
    assert has_weights(STUDENT, place)


def test_a_trace_of_a_student_brings_the_teacher(place, executed):
    trace = GradientTrace(STUDENT, texts=8, sample=16)
    ask([trace], place)
    assert executed == [TEACHER, trace]
    assert has_weights(STUDENT, place)


def test_a_teacher_that_is_there_is_not_trained_again_unless_its_weights_are_gone(place, executed):
    ask([TEACHER], place)
    ask([STUDENT], place)
    assert executed == [TEACHER, TEACHER, STUDENT]  # the first time nobody wanted its weights
    ask([replace(STUDENT, orthogonal=True)], place)
    assert executed[3:] == [replace(STUDENT, orthogonal=True)]
    ask([STUDENT, GradientProfile(STUDENT, texts=8)], place)
    assert executed[4:] == [STUDENT, GradientProfile(STUDENT, texts=8)]


def test_weights_of_a_finished_student_are_had_even_where_the_teachers_are_gone(place, executed):
    ask([STUDENT], place)
    place.store.weights_file(key(TEACHER, place)).unlink()
    said, _ = ask([STUDENT], place, keep_weights=lambda run: True)
    assert said == []
    assert has_weights(STUDENT, place)


def test_a_student_whose_teacher_failed_fails_with_its_message(place, executed):
    bad = replace(STUDENT, learning_rate=3e38)
    probe = GradientProfile(bad, texts=8)
    said, report = ask([PROFILE, bad, probe], place)
    assert executed == [bad.needs, TINY, PROFILE] or executed == [TINY, bad.needs, PROFILE]
    assert set(report.failed) == {bad.needs, bad, probe}
    assert len(set(report.failed.values())) == 1
    assert "the loss became" in report.failed[bad]
    assert place.store.failures()[key(bad, place)] == report.failed[bad.needs]
    assert len(said) == 1
    assert "and 2 others like it" in said[0]


def test_a_student_alone_without_its_teacher_is_one_line(place):
    with pytest.raises(InputError, match=f"the weights of {TEACHER} are not here; run it again with"):
        STUDENT.execute(place)


DIVERGING = replace(TINY, trick="penalty_attention", learning_rate=3e38)


def test_a_trick_that_diverges_is_a_result_and_is_not_run_again(place, executed):
    said, report = ask([DIVERGING], place, keep_weights=lambda run: True)
    assert (said, report.done, report.failed) == ([], 1, {})
    result = result_of(DIVERGING, place)
    assert result["diverged"] is True
    assert math.isnan(result["test_accuracy"])
    assert math.isnan(result["test_loss"])
    history = place.store.get(key(DIVERGING, place))["history"]
    assert not math.isfinite(history[-1]["train_loss"] + history[-1]["validation_loss"])
    assert has_weights(DIVERGING, place)
    assert isinstance(trained(DIVERGING, place).model.pooling, LastState)
    ask([DIVERGING], place)
    assert executed == [DIVERGING]
    assert list(standing([DIVERGING], place).done) == [DIVERGING]
    row = place.store.rows("training").iloc[0]
    assert row["diverged"]
    assert math.isnan(row["test_accuracy"])


def test_plain_training_that_diverges_still_fails(place, executed):
    run = replace(TINY, learning_rate=3e38)
    _, report = ask([run, PROFILE], place)
    assert list(report.failed) == [run]
    assert not place.store.has(key(run, place))


def test_a_model_is_looked_at_before_training_without_any_training(place, executed):
    before = replace(PROFILE, untrained=True)
    ask([before], place)
    assert executed == [before]
    ask([PROFILE], place)
    first, last = (place.store.get(key(probe, place)) for probe in (before, PROFILE))
    assert first["result"]["ratio"] != last["result"]["ratio"]
    assert first["history"] != last["history"]
    other = replace(before, training=replace(TINY, trick=TRICKS[1], epochs=7))
    ask([other], place)  # before training all models without pooling are alike
    assert place.store.get(key(other, place))["history"] == first["history"]


@pytest.fixture(scope="module")
def by_one(tmp_path_factory):
    """A place where one worker has trained with every trick."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "data").mkdir()
    place = Place(Store(folder / "store"), folder / "data", folder / "cache")
    runs = [STUDENT, *OTHERS]
    assert compute(runs, place, Workforce(workers=1), keep_weights=lambda run: True).done == 5
    return place


def test_numbers_do_not_depend_on_the_number_of_workers(by_one):
    two = fresh(by_one, "two")
    assert compute([*OTHERS, STUDENT], two, Workforce(workers=2)).done == 5
    for run in (TEACHER, STUDENT, *OTHERS):
        mine, theirs = (place.store.get(key(run, place)) for place in (by_one, two))
        for epoch in (*mine["history"], *theirs["history"], mine["result"], theirs["result"]):
            del epoch["seconds"]
        assert mine["history"] == theirs["history"]
        assert mine["result"] == theirs["result"]


@pytest.mark.parametrize("run", [STUDENT, *OTHERS], ids=lambda run: run.trick)
def test_what_is_stored_of_a_trick_is_an_ordinary_lstm(run, by_one):
    prepared = trained(run, by_one)
    model, test = prepared.model, prepared.dataset.test
    assert type(model.pooling) is LastState
    batch = test.batch(torch.arange(len(test)), PADDING_INDEX)
    expected = logits_by_torch(model.state_dict(), batch)
    with torch.no_grad():
        torch.testing.assert_close(model(batch.ids, batch.lengths), expected, rtol=0, atol=1e-5)
    right = (expected.argmax(1) == test.labels).double().mean().item()
    assert result_of(run, by_one)["test_accuracy"] == pytest.approx(100 * right)
    assert result_of(run, by_one)["test_loss"] == pytest.approx(
        torch.nn.functional.cross_entropy(expected, test.labels).item(), rel=1e-4
    )


def test_a_student_has_the_classifier_of_its_teacher(by_one):
    student, teacher = (trained(run, by_one).model.state_dict() for run in (STUDENT, TEACHER))
    for name, value in student.items():
        assert torch.equal(value, teacher[name]) == name.startswith("classifier")


def test_each_run_is_trained_by_its_own_trick_with_its_own_options(by_one, place, executed):
    """A trick at nothing is plain training to the last digit, any other is not."""
    directed = replace(TINY, trick="gradient_directed")
    reverse, off = replace(directed, divergence="reverse"), replace(directed, strength=0.0)
    once = replace(TINY, epochs=1)
    dropped, penalised = (replace(once, trick=f"{name}_attention") for name in ("dropout", "penalty"))
    ask([TINY, off, reverse, once, dropped, penalised], place)

    def train_loss(run, place=place):
        return place.store.get(key(run, place))["history"][0]["train_loss"]

    plain = train_loss(TINY)
    assert train_loss(off) == plain
    assert train_loss(directed, by_one) > plain
    assert train_loss(reverse) not in (plain, train_loss(directed, by_one))
    assert train_loss(dropped) == train_loss(once)  # of one epoch that is the last: p is 1
    assert train_loss(penalised) > train_loss(once)
    columns = {run.trick: set(by_one.store.get(key(run, by_one))["history"][0]) for run in OTHERS}
    assert {"attention_accuracy", "mass_left"} <= columns["penalty_attention"]
    assert {"attention_accuracy", "mass_left"} <= columns["dropout_attention"]
    assert "divergence" in columns["gradient_directed"]
    history = by_one.store.history("training")
    assert history["mass_left"].notna().sum() == 4  # two runs of two epochs
