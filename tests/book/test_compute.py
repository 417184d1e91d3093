"""Asking for runs: what is stored is read, what is missing is computed, weights included."""

import json
import math
from dataclasses import replace
from unittest.mock import Mock

import pytest
from called import refused
from small_runs import STUDENT, TEACHER, TINY, ask, has_weights, on_record, record, result_of

from paper.runs.compute import compute, rows_of, standing
from paper.runs.kinds.probe import (
    GradientProfile,
    GradientTrace,
    PaddingSweep,
    Probe,
    WordImportance,
)
from paper.runs.kinds.training import Training, trained
from paper.runs.run import key
from whenpool import LastState
from whenpool.base.errors import StorageError

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
    probe = PaddingSweep(run)
    record(place, run)
    for vectors in ("glove.6B.100d", None):  # of several the one with GloVe stands for all
        record(place, replace(run, seed=2, vectors=vectors))
    elsewhere = on_record(place)
    record(place, probe, [{"setting_added": "mid", "share_added": 0.1}])
    on_record(place, "probe")
    here_by_name = replace(run, vectors="glove.6B.100d")
    asked = [here_by_name, replace(probe, training=here_by_name)]
    others = [replace(here_by_name, seed=1), WordImportance(here_by_name)]
    stand = standing([*asked, TINY, *others], elsewhere)
    assert (list(stand.done), stand.elsewhere, list(stand.absent)) == (asked, set(asked), others)
    assert stand.missing == [TINY]
    assert all("aclImdb_v1.tar.gz is not in" in why for why in stand.absent.values())
    (said,), report = ask([*asked, *others], elsewhere, skip_absent=lambda run: True)
    assert said.startswith("2 runs are left out: corpus 'imdb'")
    assert (report.done, here.runs) == (0, [])
    assert rows_of([replace(run, seed=2)], elsewhere)["vectors"].tolist() == ["glove.6B.100d"]
    refused("aclImdb", compute, [*asked, *others], elsewhere)


def test_storage_that_fails_is_not_taken_for_data_that_are_absent(place, monkeypatch):
    full = Mock(side_effect=StorageError("cannot write it: No space left on device"))
    monkeypatch.setattr("paper.runs.compute.key", full)
    refused("No space left on device", standing, [TINY], place)


def test_a_trace_leaves_the_training_on_record_as_it_is(place, here):
    ask([OTHER], place)
    file = place.store.directory / f"{key(OTHER, place)}.json"
    row = json.loads(file.read_text())
    row["result"]["test_accuracy"] = 12.5  # as another machine may have it
    file.write_text(json.dumps(row))
    ask([TRACE, replace(TRACE, until=40)], place)
    assert here.runs[1:] == [TRACE, replace(TRACE, until=40)]
    assert json.loads(file.read_text()) == row


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


def test_a_trace_of_a_student_brings_the_teacher_and_a_finished_student_needs_none(place, here):
    probe = GradientTrace(STUDENT, 8, 16)
    ask([probe], place)
    assert here.runs == [TEACHER, probe]
    place.store.weights_file(key(TEACHER, place)).unlink()
    assert ask([STUDENT], place, keep_weights=True) == ([], ask([], place)[1])
    refused(f"the weights of {TEACHER} are not stored; run it again with", STUDENT.execute, place)


@pytest.mark.parametrize(
    "asked, reason",
    [
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
