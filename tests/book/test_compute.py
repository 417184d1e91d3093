"""Asking for runs: what is stored is read, what is missing is computed, weights included."""

import math
from dataclasses import replace

import pytest
import small_runs
from small_runs import STUDENT, TEACHER, TINY, ask, has_weights, result_of

from paper.runs.compute import compute, rows_of, standing
from paper.runs.kinds.probe import (
    GradientProfile,
    GradientTrace,
    PaddingSweep,
    Probe,
    WordImportance,
)
from paper.runs.kinds.training import TRICKS, Training, trained
from paper.runs.run import key
from whenpool import InputError, LastState

OTHER = replace(TINY, pooling="max", setting="mid")
PROFILE = GradientProfile(TINY, texts=8)
TRACE = GradientTrace(OTHER, texts=8, sample=16)
SWEEP = PaddingSweep(TINY, texts=20)
IMPORTANCE = WordImportance(OTHER, texts=4, k=2)
TOO_LARGE = replace(TINY, size=61)
DIVERGING = replace(TINY, learning_rate=3e38)
LOST = replace(STUDENT, learning_rate=3e38)  # since its teacher diverges
pytestmark = pytest.mark.usefixtures("here")


def test_a_run_of_record_counts_where_its_data_are_absent(place, here):
    run = Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d")
    trick = replace(run, pooling="last", trick=TRICKS[1])
    probes = {
        PaddingSweep(run): {"setting_added": "mid", "share_added": 0.1, "accuracy": 60.0},
        WordImportance(run, shortest=400, longest=500): {"position": 1, "mean": 0.5},
    }
    for one in (run, trick):
        small_runs.record(place, one)
    for vectors in ("glove.6B.100d", None):  # of several the one with GloVe stands for all
        small_runs.record(place, replace(run, seed=2, vectors=vectors))
    elsewhere = small_runs.on_record(place)
    for probe, point in probes.items():
        small_runs.record(place, probe, [point])
    small_runs.on_record(place, "probe")
    reference = [run, trick, *probes]
    asked = [replace(one, vectors="glove.6B.100d") for one in (run, trick)]
    asked += [replace(probe, training=asked[0]) for probe in probes]
    others = [replace(asked[0], seed=1), replace(asked[1], trick=None), WordImportance(asked[0])]
    found = standing([*asked, TINY, *others, STUDENT], elsewhere)
    assert (list(found.done), found.elsewhere, list(found.absent)) == (asked, set(asked), others)
    assert found.missing == [TINY, STUDENT]
    assert all("aclImdb_v1.tar.gz is not in" in why for why in found.absent.values())
    assert [one.shape for one in asked] == [one.shape for one in reference]
    (said,), report = ask([*asked, *others], elsewhere, skip_absent=lambda run: True)
    assert said.startswith("3 runs are left out: corpus 'imdb'")
    assert (report.done, here.runs) == (0, [])
    assert rows_of([replace(run, seed=2)], elsewhere)["vectors"].tolist() == ["glove.6B.100d"]
    assert rows_of([*asked[2:], others[2]], elsewhere)["probe"].tolist() == ["sweep", "nwi"]
    with pytest.raises(InputError, match="aclImdb"):
        compute([*asked, *others], elsewhere)


def test_what_is_traced_listed_and_probed_is_trained_once(place, here):
    _, report = ask([TINY, IMPORTANCE, OTHER, PROFILE, TRACE, SWEEP, TINY], place)
    assert here.runs[:2] == [TRACE, TINY]
    assert set(here.runs[2:]) == {IMPORTANCE, PROFILE, SWEEP}
    assert report.done == len(here.runs) == 5
    asked = [SWEEP, IMPORTANCE, PROFILE]
    assert [Probe.of_row(row) for row in rows_of(asked, place).to_dict("records")] == asked
    assert has_weights(OTHER, place)


def test_trainings_stored_without_weights_are_run_again_before_probes(place, here):
    ask([TINY, OTHER], place)
    assert not has_weights(TINY, place)
    ask([PROFILE], place)
    assert here.runs[2:] == [TINY, PROFILE]  # the other has no probe
    assert not has_weights(OTHER, place)
    place.store.weights_file(key(TINY, place)).unlink()
    assert ask([PROFILE, TINY], place)[1].done == 0  # nobody needs them now
    ask([TINY, PROFILE], place, keep_weights=True)
    assert here.runs[4:] == [TINY]


def test_the_teacher_is_computed_first_once_and_with_weights(place, here):
    again = replace(STUDENT, forget_bias="thesis")
    said, report = ask([STUDENT, again, TEACHER, PROFILE], place)
    assert (said, report.done) == ([], 5)
    assert [set(here.runs[:2]), set(here.runs[2:4])] == [{TEACHER, TINY}, {STUDENT, again}]
    assert (has_weights(TEACHER, place), has_weights(STUDENT, place)) == (True, False)
    assert "diverged" not in result_of(TEACHER, place)
    assert result_of(STUDENT, place)["diverged"] is False


@pytest.mark.parametrize("untraced", [True, False])
def test_a_probe_on_a_student_brings_student_and_teacher(place, here, untraced):
    probe = GradientProfile(STUDENT, texts=8) if untraced else GradientTrace(STUDENT, 8, 16)
    ask([probe], place)
    assert here.runs == [TEACHER, *([STUDENT] if untraced else []), probe]
    assert has_weights(STUDENT, place)
    place.store.weights_file(
        key(TEACHER, place)
    ).unlink()  # of a finished student nobody needs them
    assert ask([STUDENT], place, keep_weights=True) == ([], ask([], place)[1])
    with pytest.raises(
        InputError, match=f"the weights of {TEACHER} are not stored; run it again with"
    ):
        STUDENT.execute(place)


def test_a_model_is_looked_at_before_training_without_any_training(place, here):
    before = replace(PROFILE, untrained=True)
    other = replace(before, training=replace(TINY, trick=TRICKS[1], epochs=7))
    ask([before, other], place)
    assert set(here.runs) == {before, other}
    ask([PROFILE], place)
    runs = (before, other, PROFILE)
    first, alike, last = (place.store.get(key(one, place))["history"] for one in runs)
    assert first == alike != last  # before training all models without pooling are alike


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            [TOO_LARGE, GradientProfile(TOO_LARGE), WordImportance(TOO_LARGE)],
            "the corpus has 60 train",
        ),
        (
            [GradientProfile(TOO_LARGE), WordImportance(TOO_LARGE)],
            "the corpus has 60 train texts, but 61",
        ),
        (
            [GradientTrace(DIVERGING, texts=4), DIVERGING, GradientProfile(DIVERGING)],
            "the loss became",
        ),
        ([LOST, GradientProfile(LOST, texts=8)], "the loss became"),
    ],
)
def test_what_fails_is_told_once_with_all_that_needs_it(place, here, asked, reason):
    said, report = ask([*asked, PROFILE], place)
    lost = {*asked, asked[-1].training, asked[-1].training.needs} - {None}
    assert len(said) == 1
    assert "2 others like it" in said[0]
    assert set(report.failed) == lost
    assert all(told.startswith(reason) for told in report.failed.values())
    assert GradientProfile not in {type(run) for run in set(here.runs) & lost}  # there is no model
    assert list(standing([PROFILE], place).done) == [PROFILE]


def test_a_trick_that_diverges_is_a_result_and_is_not_run_again(place, here):
    run = replace(DIVERGING, trick="penalty_attention")
    said, report = ask([run], place, keep_weights=True)
    assert (said, report.done, report.failed) == ([], 1, {})
    result = result_of(run, place)
    assert result["diverged"] is True
    assert math.isnan(result["test_accuracy"] + result["test_loss"])
    history = place.store.get(key(run, place))["history"]
    assert not math.isfinite(history[-1]["train_loss"] + history[-1]["validation_loss"])
    assert isinstance(trained(run, place).model.pooling, LastState)
    ask([run], place)
    assert here.runs == [run]
