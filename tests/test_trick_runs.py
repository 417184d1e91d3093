"""Trainings with a trick or another start: what is stored of them."""

from dataclasses import replace

import pytest
import torch
from small_runs import TINY, result_of

from whenpool import LastState
from whenpool.runs.compute import compute
from whenpool.runs.engine import Workforce
from whenpool.runs.kinds.training import TRICKS, prepare, trained
from whenpool.runs.run import key
from whenpool.training.loop import evaluate

STUDENT = replace(TINY, trick="teacher_forcing", forget_bias=2.0)
TEACHER = replace(TINY, pooling="max")
OTHERS = [replace(TINY, trick=trick) for trick in TRICKS[1:]]


@pytest.fixture(scope="module")
def by_one(shared):
    """A place where one worker has trained with every trick."""
    report = compute([STUDENT, *OTHERS], shared, Workforce(workers=1), keep_weights=lambda run: True)
    assert report.done == 5
    return shared


@pytest.mark.parametrize("run", [STUDENT, *OTHERS], ids=lambda run: run.trick)
def test_what_is_stored_of_a_trick_is_a_model_without_pooling(run, by_one):
    prepared = trained(run, by_one)
    assert type(prepared.model.pooling) is LastState
    assert prepared.model.state_dict().keys() == prepare(TINY, by_one).model.state_dict().keys()
    score, result = evaluate(prepared.model, prepared.dataset.test), result_of(run, by_one)
    assert result["test_accuracy"] == pytest.approx(score.accuracy)
    assert result["test_loss"] == pytest.approx(score.loss, rel=1e-4)


def test_a_student_has_the_classifier_of_its_teacher(by_one):
    student, teacher = (trained(run, by_one).model.state_dict() for run in (STUDENT, TEACHER))
    for name, value in student.items():
        assert torch.equal(value, teacher[name]) == name.startswith("classifier")


def test_an_orthogonal_start_is_had_for_the_asking(place):
    for run in (TINY, replace(TINY, orthogonal=True)):
        for module in prepare(run, place).model.encoder.layers[0]:
            gates = module.weight_hh_l0.split(6)
            off = [(Q @ Q.T - torch.eye(6)).abs().max().item() for Q in gates]
            assert (max(off) < 1e-5) == run.orthogonal


def test_each_run_is_trained_by_its_own_trick_with_its_own_options(by_one, place):
    """A trick at nothing is plain training to the last digit, any other is not."""

    def losses(run, where=place):
        if where is place:
            run.execute(place)
        return where.store.get(key(run, where))["history"][0]["train_loss"]

    directed, once = replace(TINY, trick="gradient_directed"), replace(TINY, epochs=1)
    plain, full = losses(TINY), losses(directed, by_one)
    assert losses(replace(directed, strength=0.0)) == plain < full
    assert losses(replace(directed, divergence="reverse")) not in (plain, full)
    assert losses(replace(once, trick="dropout_attention")) == losses(once)  # p is 1 in the last epoch
    assert losses(replace(once, trick="penalty_attention")) > losses(once)
    columns = {run.trick: set(by_one.store.get(key(run, by_one))["history"][0]) for run in OTHERS}
    assert {"attention_accuracy", "mass_left"} <= columns["penalty_attention"]
    assert {"attention_accuracy", "mass_left"} <= columns["dropout_attention"]
    assert "divergence" in columns["gradient_directed"]
