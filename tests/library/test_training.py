"""The training loop; and models trained at once, against each trained alone."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from small_models import SPEC, model_of
from small_runs import SMALL
from torch.nn import functional

from paper import tricks
from paper.corpora.dataset import encode, make_dataset
from paper.runs.kinds.training import prepare
from whenpool import InputError, TextClassifier, corpora
from whenpool.corpora.batches import PADDING_INDEX, Ragged, Texts
from whenpool.models import batched_lstm
from whenpool.models.batched_lstm import place_bytes
from whenpool.probes.memory import LiveBytes
from whenpool.training import batched
from whenpool.training.batched import train_together
from whenpool.training.loop import DivergenceError, Objective, Recipe, Student, evaluate, train

RECIPE = Recipe(epochs=4, learning_rate=1e-2)
TRICKS = {
    "penalty_attention": lambda dataset: tricks.PenaltyAttention(RECIPE.epochs),
    "dropout_attention": lambda dataset: tricks.DropoutAttention(RECIPE.epochs),
    "gradient_directed": lambda dataset: tricks.GradientDirected(RECIPE.epochs, strength=0.8),
    "teacher_forcing": lambda dataset: tricks.TeacherForcing(model_of(dataset, "max", seed=3)),
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(
        encode(corpora.find(SPEC), "any", tmp_path_factory.mktemp("cache")), size=120
    )


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
        with_attention = evaluate(tricks.AttentionForm(model), dataset.validation).accuracy
        judged.append((evaluate(model, dataset.validation), with_attention))

    outcome = train(model, dataset, RECIPE, 0, objective=TRICKS[trick](dataset), save=judge)
    assert set(outcome.weights) == names  # nothing was added
    model.load_state_dict(outcome.weights)
    assert outcome.test == evaluate(model, dataset.test)
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
    assert [replace(e, seconds=0) for e in before] == [
        replace(e, seconds=0) for e in expected.history
    ]
    assert math.isfinite(diverged.train_loss) == (what == "validation loss")
    assert math.isnan(left.test.loss)
    assert left.best_epoch == expected.best_epoch
    assert left.words == 3 * int(dataset.train.ids.lengths.sum())


SHORT = replace(SMALL, epochs=2, batch_size=8)
POOLINGS = ("last", "mean", "max", "attention", "max_attention", "last_attention")
FAMILY = [replace(SHORT, pooling=pooling, seed=seed) for seed, pooling in enumerate(POOLINGS)]
OTHERS = [{"bidirectional": False}, {"layers": 2}, {"weight_decay": 1e-3}]
UNLIKE = [{}, {"size": 13, "setting": "mid"}, {"size": 50, "epochs": 1}, {"forget_bias": "chrono"}]
HELD = [replace(SHORT, pooling=pooling, held="encoder") for pooling in ("mean", "attention")]
SWAPPED = (("max", "last"), ("last", "max"), ("mean", "attention"))
BACKWARD = [
    replace(SHORT, pooling=name, backward="even", setting="mid") for name in ("last", "max")
]
CLIPPED = [
    replace(SHORT, pooling=name, clip=0.2, layers=2, backward="open") for name in ("last", "mean")
]
THROUGH = [replace(SHORT, pooling=one, through=other) for one, other in SWAPPED]
BOTH = [
    [replace(SHORT, pooling=name, **one) for name in ("last", "max_attention")] for one in OTHERS
]
UNLIKE_RUNS = [replace(SHORT, batch_size=5 + n, **one) for n, one in enumerate(UNLIKE)]


def students_of(runs, place, dtype=torch.float64):
    made = [(prepare(run, place), run) for run in runs]
    return [Student(own.model.to(dtype), own.dataset, run.recipe, run.seed) for own, run in made]


def each_alone(students):
    return [train(copy.deepcopy(own.model), own.dataset, own.recipe, own.seed) for own in students]


def check_equal(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        assert (one.best_epoch, one.words) == (other.best_epoch, other.words)
        torch.testing.assert_close(one.weights, other.weights, rtol=tolerance, atol=tolerance)
        mine, theirs = (
            [own.test.loss, *(e.train_loss for e in own.history)] for own in (one, other)
        )
        assert mine == pytest.approx(theirs, rel=tolerance)


@pytest.mark.parametrize("runs", [FAMILY, *BOTH, UNLIKE_RUNS, THROUGH, HELD, BACKWARD, CLIPPED])
def test_models_trained_together_equal_those_trained_alone(place, runs):
    students = students_of(runs, place)
    expected = each_alone(students)  # before they learn
    found = {}
    train_together(students, "cpu", found.__setitem__)
    check_equal([found[number] for number in range(len(students))], expected, 1e-9)


@pytest.mark.parametrize("clip", [0.05, 0.4, None])
def test_a_clipped_step_is_one_of_a_gradient_scaled_by_hand(dataset, clip):
    model = model_of(dataset).double()
    steps = copy.deepcopy(model)
    batch = dataset.train.batch(torch.arange(len(dataset.train)), PADDING_INDEX)
    adam = torch.optim.Adam(steps.parameters(), 2e-3)
    for _ in range(3):  # of which Adam remembers the size
        adam.zero_grad()
        functional.cross_entropy(steps(batch.ids, batch.lengths), batch.labels).backward()
        grads = [weights.grad for weights in steps.parameters()]
        norm = sum(float(grad.square().sum()) for grad in grads) ** 0.5
        assert 0.05 < norm < 0.4
        for grad in grads if clip == 0.05 else ():
            grad *= clip / norm
        adam.step()
    recipe = Recipe(epochs=1, passes=3, batch_size=len(dataset.train), clip=clip)
    train(model, dataset, recipe, 0)
    torch.testing.assert_close([*model.parameters()], [*steps.parameters()], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("runs", [FAMILY[2:5], UNLIKE_RUNS])
def test_batches_that_are_cut_to_fit_into_memory_and_loops_cut_into_blocks_change_nothing(
    place, monkeypatch, runs
):
    monkeypatch.setattr(batched_lstm, "_STEPS", 5)
    students = students_of(runs, place)
    expected, found = each_alone(students), {}
    monkeypatch.setattr(batched, "MEMORY", 1e5)  # a few texts at a time
    cuts, batches = [], batched._batches

    def counted(*asked):
        cuts.append(len(made := [*batches(*asked)]))
        return made

    monkeypatch.setattr(batched, "_batches", counted)
    train_together(students, "cpu", found.__setitem__)
    assert cuts[0] > 1  # of a step of training
    check_equal([found[number] for number in range(len(students))], expected, 1e-9)


@pytest.mark.parametrize(("E", "H", "layers"), [(100, 32, 1), (8, 32, 2)])
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


def test_one_that_diverges_does_not_stop_the_others(place):
    students = students_of([replace(SHORT, seed=seed) for seed in range(3)], place, torch.float32)
    students[1].model.classifier.bias.data.fill_(float("nan"))
    alone, found = each_alone(students[::2]), {}
    train_together(students, "cpu", found.__setitem__)
    assert isinstance(found[1], DivergenceError)
    assert next(iter(found)) == 1  # at once
    check_equal([found[0], found[2]], alone, 1e-4)


def test_what_cannot_be_trained_together_is_named(place):
    changes = {"cell": "gru"}, {"drop_connect": 0.5}, {"masked": False}, {"hidden_size": 8}
    for change in (*changes, {"backward": "open"}):
        students = students_of([SHORT, replace(SHORT, **change)], place)
        with pytest.raises(InputError, match="only masked LSTMs of one shape and learning rate"):
            train_together(students, "cpu", {}.__setitem__)
