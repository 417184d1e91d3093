"""Accuracy as filler is added at test time, and the memory of a training step."""

from itertools import cycle, product

import numpy as np
import pytest
import torch
from torch import nn

from whenpool import POOLINGS, InputError, TextClassifier
from whenpool.corpora.settings import compose
from whenpool.probes import step_megabytes
from whenpool.probes.sweep import padding_sweep
from whenpool.runs.kinds.probe import growth

WORDS = 40
DRAW = torch.Generator().manual_seed(0)
TEXTS = [torch.randint(10, WORDS, (n,), generator=DRAW).tolist() for n in (7, 3, 12, 1, 30, 9, 20)]
LABELS = [0, 1, 2, 1, 0, 2, 1]
FILLER = [[2, 3, 4], [5, 6], [7, 8, 9, 2, 3], [4]]


class Foreign(nn.Module):
    """A bag of words that keeps what it was fed."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.table = nn.Embedding(WORDS, 3).double()
        self.dropout = nn.Dropout(0.5)
        self.fed = []

    def forward(self, ids, lengths):
        rows = [row[:n] for row, n in zip(ids, lengths.tolist(), strict=True)]
        self.fed += [row.tolist() for row in rows]
        return torch.stack([self.dropout(self.table(row)).mean(0) for row in rows])


def by_hand(model, setting, share):
    """One text at a time, as the definition reads: accuracy, loss and words."""
    stream, found = cycle(FILLER), []
    for text, label in zip(TEXTS, LABELS, strict=True):
        whole = compose(text, stream, setting, share)
        logits = model(torch.tensor([whole]), torch.tensor([len(whole)]))[0].detach()
        found.append((100 * (logits.argmax() == label), -logits.log_softmax(0)[label], len(whole)))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_agrees_with_one_text_at_a_time(pooling):
    torch.manual_seed(1)
    model = TextClassifier(WORDS, 3, pooling, embedding_size=5, hidden_size=4, padding_index=1).double()
    points = padding_sweep(model, TEXTS, LABELS, FILLER, shares=(0, 0.3, 0.66), max_words=64)
    model.eval()
    asked = product(("left", "mid", "right"), (0, 0.3, 0.66))
    for point, (setting, share) in zip(points, asked, strict=True):
        assert (point.setting, point.share) == (setting, share)
        assert (point.accuracy, point.loss, point.words) == pytest.approx(by_hand(model, setting, share))


@pytest.mark.parametrize(("changes", "message"), [
    ({"texts": [], "labels": []}, "there is no text; give"),
    ({"texts": [[3], []]}, "text 1 must be a sequence of word numbers; drop it"),
    ({"labels": [0, 1, 1]}, r"2 texts need 2 labels, not \(3,\)"),
    ({"labels": [0, -1]}, "text 1 has the label -1, but the model has 3 classes, 0 to 2"),
    ({"filler": []}, "there is no filler sentence"),
    ({"shares": (0.5, 1.0)}, r"in \[0, 1\), not 1.0"),
    ({"settings": ("left", "top")}, "swept setting 'top' is unknown; choose one of left, mid, right"),
])  # fmt: skip
def test_what_cannot_be_used_is_told_in_one_line(changes, message):
    given = {"model": Foreign(), "texts": [[3, 4], [5]], "labels": [0, 1], "filler": FILLER}
    with pytest.raises(InputError, match=message):
        padding_sweep(**given | changes)
    assert given["model"].training


class Known(nn.Embedding):
    """Holds what can be told by hand: the logits are means of squares of its rows."""

    def forward(self, ids, lengths):
        return self.weight[ids].square().mean(1)[:, :2]


def step(model, words):
    ids = torch.arange(words)[None] % 10
    return step_megabytes(model, ids, torch.tensor([words]), torch.tensor([1]))


def test_counts_what_is_alive_together_and_no_more():
    words, units = 4_000, 50
    rows = words * units * 4 / 1e6  # MB of one (1, T, D)
    found = step(Known(10, units), words)
    assert found >= 2 * rows  # the rows and their squares
    assert found <= 5.1 * rows  # the rows, and their gradient in the four steps that torch takes to it


@pytest.mark.parametrize(
    ("cell", "plain"), [("transformer", True), ("transformer", False), ("lstm", False)]
)
def test_scores_that_are_kept_grow_with_the_square_and_nothing_else_does(cell, plain):
    model = TextClassifier(10, 2, cell=cell, embedding_size=6, hidden_size=8)
    if plain:
        model.encoder.attention = "plain"
    exponent = growth([{"words": n, "megabytes": step(model, n)} for n in (512, 1_024, 2_048)])
    assert exponent > 1.9 if plain else exponent < 1.1
