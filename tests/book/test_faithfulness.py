"""Whether words that an importance names are those that a prediction rests on."""

import math
import sys

import pytest
import torch
from called import refused

from paper.faithfulness import faithfulness
from whenpool.corpora.batches import Ragged, Texts


class OneWord(torch.nn.Module):
    """P(class 1) is the sigmoid of 4 for a text with word 7, and 1/2 for others."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding.from_pretrained(torch.eye(9)[7].mul(4).unsqueeze(1))

    def forward(self, ids, lengths):
        is_word = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        score = (self.embedding(ids).squeeze(2) * is_word).sum(1, keepdim=True)
        return torch.nn.functional.pad(score, (1, 0))


def test_a_faithful_importance_names_the_one_word_that_counts(monkeypatch):
    ids, sure = [[2, 3, 4, 5, 6, 8, 2, 7, 3, 4], [*[3] * 9, 7, 3]], 1 / (1 + math.exp(-4))
    texts = Texts(Ragged.of(ids), torch.tensor([1, 0]))
    rows = {row.pop("method"): row for row in faithfulness(OneWord(), texts)}
    for name in ("occlusion", "integrated_gradients"):
        scores = [rows[name][part] for part in ("confidence", "without", "kept")]
        assert scores == pytest.approx([sure, 0.5, sure])
        assert [rows[name][f"accuracy{part}"] for part in ("", "_without", "_kept")] == [50.0] * 3
    # all words of the window matter alike, so that the first of them is taken
    assert [rows["nwi"][part] for part in ("without", "kept")] == pytest.approx([sure, 0.5])
    assert rows["signed_windows"]["agreement"] == pytest.approx(1)
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    refused("faithfulness needs captum: pip install", faithfulness, OneWord(), texts)
