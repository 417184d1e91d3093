"""Models trained at once, against each trained alone."""

import copy
from dataclasses import replace

import pytest
import torch
from small_runs import SMALL

from whenpool import InputError, TextClassifier
from whenpool.corpora.batches import Ragged, Splits, Texts
from whenpool.models.batched_lstm import place_bytes
from whenpool.probes.memory import LiveBytes
from whenpool.runs.kinds.training import prepare
from whenpool.training import batched
from whenpool.training.batched import train_together
from whenpool.training.loop import DivergenceError, Recipe, Student, train

SHORT = replace(SMALL, epochs=3, batch_size=8)
POOLINGS = ("last", "mean", "max", "attention", "max_attention", "last_attention")
FAMILY = [replace(SHORT, pooling=pooling, seed=seed) for pooling in POOLINGS for seed in (0, 1)]
OTHERS = [{"masked": False}, {"bidirectional": False}, {"layers": 2}, {"weight_decay": 1e-3}]
UNLIKE = [{}, {"size": 13, "setting": "mid"}, {"size": 50, "epochs": 1}, {"forget_bias": "chrono"}]
BOTH = [[replace(SHORT, pooling=name, **one) for name in ("last", "max_attention")] for one in OTHERS]
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
        mine, theirs = ([own.test.loss, *(e.train_loss for e in own.history)] for own in (one, other))
        assert mine == pytest.approx(theirs, rel=tolerance)


@pytest.mark.parametrize("runs", [FAMILY, *BOTH, UNLIKE_RUNS])
def test_models_trained_together_equal_those_trained_alone(place, runs):
    students = students_of(runs, place)
    expected = each_alone(students)  # before they learn
    found = {}
    train_together(students, "cpu", found.__setitem__)
    check_equal([found[number] for number in range(len(students))], expected, 1e-9)


@pytest.mark.parametrize("runs", [FAMILY[:4], UNLIKE_RUNS, BOTH[0]])
def test_batches_that_are_cut_to_fit_into_memory_change_nothing(place, monkeypatch, runs):
    students = students_of(runs, place)
    expected, found = each_alone(students), {}
    monkeypatch.setattr(batched, "MEMORY", 1e6)  # a few texts at a time
    train_together(students, "cpu", found.__setitem__)
    check_equal([found[number] for number in range(len(students))], expected, 1e-9)


@pytest.mark.parametrize(("E", "H", "layers"), [(100, 32, 1), (8, 32, 2)])
def test_a_step_takes_no_more_memory_than_was_reckoned(E, H, layers):
    count, words = 8, 200
    ids = torch.randint(2, 50, (count, words)).tolist()
    texts = Texts(Ragged.of(ids), torch.zeros(count, dtype=torch.int64))
    shape = {"embedding_size": E, "hidden_size": H, "layers": layers}
    models = [TextClassifier(50, 2, pooling, **shape) for pooling in POOLINGS]
    students = [Student(model, Splits(texts, texts, texts), Recipe(), 0) for model in models]
    together = batched._Models(students, "cpu")
    together.start()
    weights = [stack.values for stack, _ in together._stacks]
    with LiveBytes(weights) as counted:
        together.learn(range(len(models)), [(texts, torch.arange(count))] * len(models))
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


def test_models_of_the_same_texts_share_one_copy_on_a_device(place):
    mine, yours = (student.dataset.train for student in students_of(FAMILY[:3:2], place))
    assert mine.to("meta").ids.flat is yours.to("meta").ids.flat
    assert mine.to("meta").ids.flat is not mine.to("cpu").ids.flat


def test_what_cannot_be_trained_together_is_named(place):
    lstms = "only LSTMs without DropConnect can train together"
    for message, one, other in (
        ("models trained together must have one shape, not", {}, {"hidden_size": 8}),
        *((lstms, change, change) for change in ({"cell": "gru"}, {"drop_connect": 0.5})),
    ):
        students = students_of([replace(SHORT, **one), replace(SHORT, **other)], place)
        with pytest.raises(InputError, match=message):
            train_together(students, "cpu", {}.__setitem__)
