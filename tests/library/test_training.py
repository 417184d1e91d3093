"""The training loop; and models trained at once, against each trained alone."""

import copy
import math
import pickle
from dataclasses import replace

import pytest
import torch
from called import refused
from small_models import close, model_of, numbered
from torch.nn import functional

from whenpool import TextClassifier
from whenpool.corpora.batches import PADDING_INDEX, Ragged, Texts
from whenpool.models import batched_lstm
from whenpool.models.batched_lstm import place_bytes
from whenpool.probes.memory import LiveBytes
from whenpool.training import batched
from whenpool.training.batched import train_together
from whenpool.training.loop import DivergenceError, Objective, Recipe, Student, evaluate, train


@pytest.fixture(scope="module")
def dataset():
    return numbered()


def test_learns_and_keeps_the_first_best_epoch(dataset):
    outcome = train(model_of(dataset), dataset, Recipe(epochs=8, learning_rate=2e-2), seed=0)
    accuracies = [epoch.validation_accuracy for epoch in outcome.history]
    assert outcome.best_epoch == 1 + accuracies.index(max(accuracies))
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
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)  # of a worker
    expected = train(model_of(dataset), dataset, replace(recipe, epochs=2), 0)
    *before, diverged = left.history
    untimed = ([replace(e, seconds=0) for e in of] for of in (before, expected.history))
    assert next(untimed) == next(untimed)
    assert math.isfinite(diverged.train_loss) == (what == "validation loss")
    assert math.isnan(left.test.loss)
    assert left.best_epoch == expected.best_epoch
    assert left.words == 3 * int(dataset.train.ids.lengths.sum())


SMALL = "synthetic:train=30,validation=20,test=30,shortest=10,longest=14"
OTHER = "synthetic:train=13,validation=20,test=30,shortest=25,longest=40"
POOLINGS = ("last", "mean", "max", "attention", "max_attention", "last_attention")
UNLIKE = [
    {"batch_size": 5},
    {"batch_size": 6, "spec": OTHER},
    {"batch_size": 7, "spec": SMALL.replace("train=30", "train=50"), "epochs": 1},
    {"forget_bias": "chrono"},
]
GROUPS = {
    "poolings": [{"pooling": pooling, "seed": seed} for seed, pooling in enumerate(POOLINGS)],
    "data, epochs and start": UNLIKE,
    "pooling of the gradient": [
        {"pooling": read, "through": learn}
        for read, learn in (("max", "last"), ("last", "max"), ("mean", "attention"))
    ],
    "encoders that are held": [{"pooling": name, "held": True} for name in ("mean", "attention")],
    "way back": [{"pooling": name, "backward": "even", "spec": OTHER} for name in ("last", "max")],
    "clipped steps": [
        {"pooling": name, "clip": 0.2, "layers": 2, "backward": "open"} for name in ("last", "mean")
    ],
    "directions and decay": [
        {"pooling": name, "bidirectional": False, "layers": 2, "weight_decay": 1e-3}
        for name in ("last", "max_attention")
    ],
}


def student(
    pooling="max", spec=SMALL, seed=0, dtype=torch.float64, held=False, hidden_size=6, **options
):
    names = "epochs batch_size weight_decay clip".split()
    how = {"epochs": 2, "batch_size": 8} | {n: options.pop(n) for n in names if n in options}
    data = numbered(spec)
    torch.manual_seed(seed)
    sizes = {"embedding_size": 8, "hidden_size": hidden_size, "padding_index": PADDING_INDEX}
    model = TextClassifier(len(data.vocabulary), 2, pooling, **sizes, **options).to(dtype)
    for part in (model.embedding, model.encoder) if held else ():
        part.requires_grad_(False)
    return Student(model, data, Recipe(**how), seed)


def each_alone(students):
    return [train(copy.deepcopy(s.model), s.dataset, s.recipe, s.seed) for s in students]


def together(students):
    outcomes = {}
    train_together(students, "cpu", outcomes.__setitem__)
    return outcomes


def check_equal(outcomes, expected, tolerance=1e-9):
    for mine, theirs in zip(outcomes, expected, strict=True):
        assert (mine.best_epoch, mine.words) == (theirs.best_epoch, theirs.words)
        close(mine.weights, theirs.weights, atol=tolerance, rtol=tolerance)
        losses = [[of.test.loss, *(e.train_loss for e in of.history)] for of in (mine, theirs)]
        assert losses[0] == pytest.approx(losses[1], rel=tolerance)


@pytest.mark.parametrize("group", GROUPS)
def test_models_trained_together_equal_those_trained_alone(group):
    students = [student(**options) for options in GROUPS[group]]
    expected = each_alone(students)  # before they learn
    outcomes = together(students)
    check_equal([outcomes[number] for number in range(len(students))], expected)


def test_one_that_was_stopped_goes_on_among_others_as_if_it_had_not_been():
    expected, states = each_alone([student(), student("mean")]), []

    def stop(state):
        states.append(copy.deepcopy(state))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together([replace(student(), save=stop)])
    outcomes = together([replace(student(), saved=states[0]), student("mean")])
    check_equal([outcomes[0], outcomes[1]], expected)
    assert outcomes[0].seconds > states[0]["seconds"]


@pytest.mark.parametrize("clip", [0.05, 0.4, None])
def test_a_clipped_step_is_one_of_a_gradient_scaled_by_hand(dataset, clip):
    model = model_of(dataset).double()
    steps = copy.deepcopy(model)
    batch = dataset.train.batch(torch.arange(len(dataset.train)), PADDING_INDEX)
    adam = torch.optim.Adam(steps.parameters(), 2e-3)
    for _ in range(3):  # of which Adam remembers the size
        adam.zero_grad()
        functional.cross_entropy(steps(batch.ids, batch.lengths), batch.labels).backward()
        norm = sum(float(weights.grad.square().sum()) for weights in steps.parameters()) ** 0.5
        assert 0.05 < norm < 0.4
        for weights in steps.parameters() if clip == 0.05 else ():
            weights.grad *= clip / norm
        adam.step()
    train(model, dataset, Recipe(1, len(dataset.train), passes=3, clip=clip), 0)
    close([*model.parameters()], [*steps.parameters()], atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("group", ["poolings", "data, epochs and start"])
def test_batches_cut_to_fit_into_memory_and_loops_cut_into_blocks_change_nothing(
    monkeypatch, group
):
    monkeypatch.setattr(batched_lstm, "_STEPS", 5)
    students = [student(**options) for options in GROUPS[group]]
    expected = each_alone(students)
    monkeypatch.setattr(batched, "MEMORY", 1e5)  # a few texts at a time
    cuts, batches = [], batched._batches

    def counted(*asked):
        cuts.append(len(made := [*batches(*asked)]))
        return made

    monkeypatch.setattr(batched, "_batches", counted)
    outcomes = together(students)
    assert cuts[0] > 1  # of a step of training
    check_equal([outcomes[number] for number in range(len(students))], expected)


@pytest.mark.parametrize("E, H, layers", [(100, 32, 1), (8, 32, 2)])
def test_a_step_takes_no_more_memory_than_was_reckoned(E, H, layers):
    count, words = 8, 200
    ids = torch.randint(2, 50, (count, words)).tolist()
    texts = Texts(Ragged.of(ids), torch.zeros(count, dtype=torch.int64))
    shape = {"embedding_size": E, "hidden_size": H, "layers": layers}
    models = [TextClassifier(50, 2, pooling, **shape) for pooling in POOLINGS]
    weights = [p for model in models for p in model.parameters()]
    with LiveBytes(weights) as counted:
        batched.judge(models, [(texts, torch.arange(count))] * len(models), room=10**6)
    most = place_bytes(E, 2 * H, layers, 4) * count * words * len(models)
    assert 0.7 * most < counted.most < most + sum(values.nbytes for values in weights)


def test_one_that_diverges_does_not_stop_the_others():
    students = [student(seed=seed, dtype=torch.float32) for seed in range(3)]
    students[1].model.classifier.bias.data.fill_(math.nan)
    alone, outcomes = each_alone(students[::2]), together(students)
    assert isinstance(outcomes[1], DivergenceError)
    assert next(iter(outcomes)) == 1  # at once
    check_equal([outcomes[0], outcomes[2]], alone, 1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"cell": "gru"},
        {"drop_connect": 0.5},
        {"masked": False},
        {"hidden_size": 8},
        {"backward": "open"},
    ],
    ids=str,
)
def test_what_cannot_be_trained_together_is_named(change):
    refused(
        "only masked LSTMs of one shape and learning rate", together, [student(), student(**change)]
    )
