"""Normalised word importance: against a loop over windows, by reuse and without."""

import re
from itertools import product

import numpy as np
import pytest
import torch
from called import refused
from small_models import close
from torch import nn

from whenpool import POOLINGS, TextClassifier
from whenpool.models.precision import precision
from whenpool.probes import nwi, window_importance
from whenpool.probes.word_importance import can_reuse

WORDS, CLASSES, UNKNOWN = 30, 3, 4
# one window of 5; not divisible; within a segment; long
LENGTHS = torch.tensor([5, 37, 12, 64, 23])
LABELS = torch.tensor([0, 1, 2, 0, 1])
PAIRS = [*product(POOLINGS, ["lstm"]), *product(["last", "attention"], ["gru", "elman"])]
MODELS = [
    {"pooling": p, "cell": c, "bidirectional": both} for p, c in PAIRS for both in (True, False)
]


def batch():
    torch.manual_seed(1)
    return torch.randint(0, WORDS, (5, 67)), LENGTHS, LABELS


def classifier(pooling="max_attention", cell="lstm", dtype=torch.float64, **others):
    torch.manual_seed(0)
    model = TextClassifier(WORDS, CLASSES, pooling, cell, embedding_size=6, hidden_size=5, **others)
    for parameter in model.parameters():
        parameter.data *= 3  # as sure of itself as a trained one
    return model.to(dtype).eval()


@torch.no_grad()
def importance_by_loop(model, ids, lengths, labels, k):
    """Algorithm 1 up to δ, one text without padding and one window at a time."""

    def log_probability(words, label, hidden=()):
        words = torch.tensor(
            [UNKNOWN if t in hidden else word for t, word in enumerate(words.tolist())]
        )
        return (
            model(words.unsqueeze(0), torch.tensor([len(words)])).log_softmax(-1)[0, label].item()
        )

    found = []
    for text, n, label in zip(ids, lengths.tolist(), labels, strict=True):
        plain = log_probability(text[:n], label)
        windows = (range(k * t, k * t + k) for t in range(n // k))
        found.append([abs(log_probability(text[:n], label, window) - plain) for window in windows])
    return found


def profile_by_numpy(importance, points):
    quotients = np.array(importance) / max(importance)
    places = np.linspace(0, len(importance) - 1, points)
    return np.interp(places, np.arange(len(importance)), quotients - quotients.min())


class Bag(nn.Module):
    """Only ``forward``, and nothing recurrent."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, CLASSES)

    def forward(self, ids, lengths):
        inside = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        return (self.words(ids) * inside.unsqueeze(-1)).sum(1)


@pytest.mark.parametrize("options", [*MODELS, {"pooling": "max", "layers": 2}, {}], ids=str)
def test_the_thesis_algorithm(options):
    model = classifier(**options) if options else Bag().double().eval()
    assert can_reuse(model) == (options in MODELS)
    for k in (2, 5):
        expected = importance_by_loop(model, *batch(), k)
        profiles = nwi(model, *batch(), k, UNKNOWN, points=17)
        for profile, values in zip(profiles, expected, strict=True):
            np.testing.assert_allclose(profile, profile_by_numpy(values, 17), atol=1e-9)
    padded = np.full((5, 64 // k), np.nan)
    for row, values in enumerate(expected):
        padded[row, : len(values)] = values
    for megabytes, reuse in ((1e-9, False), (0.2, True)):
        importance = window_importance(model, *batch(), k, UNKNOWN, megabytes, reuse)
        close(importance, torch.from_numpy(padded), atol=1e-10, equal_nan=True)


def test_a_model_that_reads_padding_is_given_all_of_it():
    model, (ids, lengths, labels) = classifier("mean", masked=False), batch()
    found = window_importance(model, ids, lengths, labels, 5, UNKNOWN)
    hidden = torch.cat([torch.full((5, 5), UNKNOWN), ids[:, 5:]], 1)
    with torch.no_grad():
        logits = [model(read, lengths) for read in (hidden, ids)]
    without, plain = (each.log_softmax(1)[range(5), labels] for each in logits)
    close(found[:, 0], (without - plain).abs(), atol=1e-10)


def test_in_bfloat16_every_text_is_read_in_full():
    model = classifier(pooling="last", cell="gru").float()
    with precision("bfloat16"):
        importance = window_importance(model, *batch(), 5, UNKNOWN)
        in_full = window_importance(model, *batch(), 5, UNKNOWN, reuse=False)
    close(importance, in_full, atol=0, equal_nan=True)


def test_what_is_not_known_to_split_is_not_reused():
    hooked = classifier()
    hooked.encoder.register_forward_hook(lambda _, inputs, states: states.square())
    expected = importance_by_loop(hooked, *batch(), 5)
    importance = window_importance(hooked, *batch(), 5, UNKNOWN)
    np.testing.assert_allclose(importance[3, :12], expected[3], atol=1e-10)
    changed = type("Changed", (TextClassifier,), {})(WORDS, CLASSES)
    hooked_before, replaced = classifier(), classifier()
    hooked_before.encoder.register_forward_pre_hook(lambda _, inputs: (3 * inputs[0], inputs[1]))
    replaced.forward = lambda ids, lengths: TextClassifier.forward(replaced, ids.flip(1), lengths)
    for model in (changed, hooked, hooked_before, replaced, classifier(layers=2)):
        assert not can_reuse(model)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("pooling", ["last", "mean", "max_attention"])
def test_equal_importance_is_no_importance(pooling, dtype):
    _, lengths, labels = batch()
    ids = torch.full((5, 64), UNKNOWN)  # nothing changes when a window is replaced
    assert (nwi(classifier(pooling, dtype=dtype), ids, lengths, labels, 5, UNKNOWN) == 0).all()
    bag = Bag().to(dtype)
    bag.words.weight.data *= 0.01
    ids = torch.full((5, 64), UNKNOWN + 1)  # each window changes the same
    assert (nwi(bag, ids, lengths, labels, 5, UNKNOWN) == 0).all()
    assert (window_importance(bag, ids, lengths, labels, 5, UNKNOWN)[:, 0] > 1e-3).all()


@pytest.mark.parametrize(
    "message, changes",
    {
        "k, the words of a window, must be a whole number from 1, not 0": {"k": 0},
        "k, the words of a window, must be a whole number from 1, not 2.5": {"k": 2.5},
        "TextClassifier gives logits": {
            "model": classifier(vectors=torch.full((WORDS, 6), torch.nan))
        },
        "text 0 has 5 words, fewer than one window of k=9; leave such texts out, or take k=": {
            "k": 9
        },
        "points must be at least 1, not 0": {"points": 0},
        "unknown_index is -1, but the model's embedding has 30": {"unknown_index": -1},
        "unknown_index is 30, but the model's embedding has 30": {"unknown_index": 30},
        "text 2 has the label 3, but the model has 3 classes": {
            "labels": torch.tensor([0, 1, 3, 0, 1])
        },
    }.items(),
)
@pytest.mark.parametrize("layers", [1, 2])  # by reuse and plainly
def test_what_cannot_be_used_is_named(changes, message, layers):
    given = dict(zip(("ids", "lengths", "labels"), batch(), strict=True)) | {"k": 5}
    refused(f"^{re.escape(message)}", nwi, **{"model": classifier(layers=layers)} | given | changes)
