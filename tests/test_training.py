"""The training loop."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from whenpool import TextClassifier, corpora
from whenpool.corpora.dataset import encode, make_dataset
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.training.loop import DivergenceError, Recipe, evaluate, train

SPEC = "synthetic:train=120,validation=60,test=80,shortest=8,longest=14,density=0.2,agreement=1"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    encoded = encode(corpora.find(SPEC), "any", tmp_path_factory.mktemp("cache"))
    return make_dataset(encoded, size=120)


def model_of(dataset, pooling="max_attention", seed=0, **options):
    torch.manual_seed(seed)
    return TextClassifier(
        len(dataset.vocabulary), 2, pooling, embedding_size=12, hidden_size=8,
        padding_index=PADDING_INDEX, **options,
    )  # fmt: skip


def test_learns_and_keeps_the_first_best_epoch(dataset):
    outcome = train(model_of(dataset), dataset, Recipe(epochs=8, learning_rate=2e-2), seed=0)
    accuracies = [epoch.validation_accuracy for epoch in outcome.history]
    assert outcome.best_epoch == 1 + accuracies.index(max(accuracies))
    assert outcome.validation_accuracy == max(accuracies)
    assert outcome.test.accuracy > 85
    assert [epoch.epoch for epoch in outcome.history] == list(range(1, 9))
    assert outcome.words == 8 * int(dataset.train.ids.lengths.sum())


def test_the_weights_are_those_of_the_best_epoch(dataset):
    outcome = train(model_of(dataset), dataset, Recipe(epochs=6, learning_rate=5e-2), seed=1)
    model = model_of(dataset, seed=9)
    model.load_state_dict(outcome.weights)
    assert evaluate(model, dataset.validation).accuracy == outcome.validation_accuracy
    assert evaluate(model, dataset.test) == outcome.test


def test_the_same_seed_gives_the_same_bits(dataset):
    def run(seed):
        outcome = train(model_of(dataset, seed=seed), dataset, Recipe(epochs=2), seed=seed)
        return outcome.weights, outcome.test

    (first, score), (second, again), (other, _) = run(0), run(0), run(1)
    assert score == again
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["classifier.weight"], other["classifier.weight"])


@pytest.mark.parametrize("masked", [True, False])
def test_evaluation_is_the_mean_over_texts(dataset, masked):
    model = model_of(dataset, masked=masked)
    score = evaluate(model, dataset.test, batch_size=1)  # one by one there is no padding
    losses, right = [], 0
    for index in range(len(dataset.test)):
        ids = dataset.test.ids.row(index).long().unsqueeze(0)
        logits = model(ids, torch.tensor([ids.shape[1]]))
        label = dataset.test.labels[index : index + 1]
        losses.append(functional.cross_entropy(logits, label).item())
        right += int(logits.argmax() == label)
    assert score.accuracy == pytest.approx(100 * right / len(losses))
    assert score.loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    if masked:  # the company of other texts changes nothing
        assert evaluate(model, dataset.test).loss == pytest.approx(score.loss, rel=1e-5)


def test_padding_changes_an_unmasked_model(dataset):
    model = model_of(dataset, masked=False)
    batched, alone = evaluate(model, dataset.test, 64).loss, evaluate(model, dataset.test, 1).loss
    assert batched != pytest.approx(alone, rel=1e-5)


def test_evaluation_leaves_the_mode_of_the_model(dataset):
    model = model_of(dataset)
    model.train()
    evaluate(model, dataset.test)
    assert model.training
    evaluate(model.eval(), dataset.test)
    assert not model.training


def test_weight_decay_shrinks_weights(dataset):
    plain = train(model_of(dataset), dataset, Recipe(epochs=3), seed=0).weights
    decayed = train(model_of(dataset), dataset, Recipe(epochs=3, weight_decay=0.1), seed=0).weights
    norm = "encoder.layers.0.0.weight_hh_l0"
    assert decayed[norm].norm() < plain[norm].norm()


def test_the_padding_row_is_not_trained(dataset):
    model = model_of(dataset, masked=False)
    with torch.no_grad():
        model.embedding.weight[PADDING_INDEX] = 3.0
    weights = train(model, dataset, Recipe(epochs=1), seed=0).weights
    assert (weights["embedding.weight"][PADDING_INDEX] == 3.0).all()


class Diverging(nn.Module):
    """Its loss is not a number from the second step on."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(2))
        self.steps = 0

    def forward(self, ids, lengths):
        self.steps += 1
        return (self.bias * (1.0 if self.steps == 1 else math.nan)).expand(len(ids), 2)


def test_a_loss_that_is_not_finite_stops_with_a_clear_message(dataset):
    with pytest.raises(DivergenceError, match="the loss became nan in epoch 1; lower the learning rate"):
        train(Diverging(), dataset, Recipe(epochs=3), seed=0)


def test_each_epoch_is_told(dataset):
    told = []
    train(model_of(dataset), dataset, Recipe(epochs=2), seed=0, on_epoch=told.append)
    assert [epoch.epoch for epoch in told] == [1, 2]
