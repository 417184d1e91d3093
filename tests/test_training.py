"""The training loop."""

import math
from dataclasses import replace

import pytest
import torch
from small_models import SPEC, logits_by_torch, model_of
from torch.nn import functional

from whenpool import corpora, learnability
from whenpool.corpora.batches import PADDING_INDEX
from whenpool.corpora.dataset import encode, make_dataset
from whenpool.training.loop import DivergenceError, Objective, Recipe, evaluate, train

RECIPE = Recipe(epochs=4, learning_rate=1e-2)
TRICKS = {
    "penalty_attention": lambda dataset: learnability.PenaltyAttention(RECIPE.epochs),
    "dropout_attention": lambda dataset: learnability.DropoutAttention(RECIPE.epochs),
    "gradient_directed": lambda dataset: learnability.GradientDirected(RECIPE.epochs, strength=0.8),
    "teacher_forcing": lambda dataset: learnability.TeacherForcing(model_of(dataset, "max", seed=3)),
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(encode(corpora.find(SPEC), "any", tmp_path_factory.mktemp("cache")), size=120)


def test_learns_and_keeps_the_first_best_epoch(dataset):
    outcome = train(model_of(dataset), dataset, Recipe(epochs=8, learning_rate=2e-2), seed=0)
    accuracies = [epoch.validation_accuracy for epoch in outcome.history]
    assert outcome.best_epoch == 1 + accuracies.index(max(accuracies))
    assert outcome.validation_accuracy == max(accuracies)
    assert outcome.test.accuracy > 85
    assert outcome.words == 8 * int(dataset.train.ids.lengths.sum())


@pytest.mark.parametrize("masked", [True, False])
def test_evaluation_is_the_mean_over_texts(dataset, masked):
    model = model_of(dataset, masked=masked)
    score, loss, right = evaluate(model, dataset.test), 0.0, 0
    together = 1 if masked else 32  # one by one there is no padding; unmasked it changes the logits
    for indices in torch.argsort(dataset.test.ids.lengths, stable=True).split(together):
        ids, lengths, labels = dataset.test.batch(indices, PADDING_INDEX)
        logits = model(ids, lengths)
        loss += functional.cross_entropy(logits, labels, reduction="sum").item()
        right += int((logits.argmax(1) == labels).sum())
    assert score.accuracy == pytest.approx(100 * right / len(dataset.test))
    assert score.loss == pytest.approx(loss / len(dataset.test), rel=1e-5)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_is_validated_as_it_will_be_used_and_leaves_an_ordinary_lstm(trick, dataset):
    model, judged = model_of(dataset, "last"), []
    names = set(model.state_dict())

    def judge(_):
        with_attention = evaluate(learnability.AttentionForm(model), dataset.validation).accuracy
        judged.append((evaluate(model, dataset.validation), with_attention))

    outcome = train(model, dataset, RECIPE, 0, objective=TRICKS[trick](dataset), save=judge)
    assert set(outcome.weights) == names  # nothing was added
    batch = dataset.test.batch(torch.arange(len(dataset.test)), PADDING_INDEX)
    expected = logits_by_torch(outcome.weights, batch)
    with torch.no_grad():
        logits = model(batch.ids, batch.lengths)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    right = (expected.argmax(1) == dataset.test.labels).double().mean().item()
    assert outcome.test.accuracy == pytest.approx(100 * right)
    for epoch, (plain, with_attention) in zip(outcome.history, judged, strict=True):
        assert (epoch.validation_loss, epoch.validation_accuracy) == (plain.loss, plain.accuracy)
        if trick.endswith("attention"):
            assert epoch.more["attention_accuracy"] == with_attention
    if trick.endswith("attention"):  # else the two could not be told apart
        assert any(plain.accuracy != attended for plain, attended in judged)


class Breaking(Objective):
    """In the third epoch its loss is not a number, or its gradients alone are not."""

    def __init__(self, what):
        self.what = what

    def start_epoch(self, epoch):
        self.breaks = epoch == 2

    def backward(self, model, batch, indices):
        loss, logits = super().backward(model, batch, indices)
        if self.breaks and self.what == "validation loss":
            for parameter in model.parameters():
                parameter.grad.fill_(math.nan)
        return (loss * math.nan if self.breaks and self.what == "loss" else loss), logits


@pytest.mark.parametrize("what", ["loss", "validation loss"])
def test_what_was_before_a_divergence_is_handed_over(what, dataset):
    recipe = Recipe(epochs=5, batch_size=len(dataset.train))  # one step an epoch
    with pytest.raises(DivergenceError, match="the loss became nan in epoch 3; lower") as raised:
        train(model_of(dataset), dataset, recipe, 0, objective=Breaking(what))
    left = raised.value.left
    expected = train(model_of(dataset), dataset, replace(recipe, epochs=2), 0)
    *before, diverged = left.history
    assert [replace(e, seconds=0) for e in before] == [replace(e, seconds=0) for e in expected.history]
    assert math.isfinite(diverged.train_loss) == (what == "validation loss")
    assert math.isnan(left.test.loss)
    assert left.best_epoch == expected.best_epoch
    broken = any(value.isnan().any() for value in left.weights.values())
    assert broken == (what == "validation loss")  # as they were left
    assert left.words == 3 * int(dataset.train.ids.lengths.sum())
