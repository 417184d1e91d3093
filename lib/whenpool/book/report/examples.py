"""One text, and what trained models make of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import pandas as pd
import torch
from torch import Tensor

from whenpool.book.report.tables import POOLING_NAMES
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.corpora.dataset import Dataset
from whenpool.corpora.settings import compose
from whenpool.explain.words import WordStrip, attention_weights, per_word, strip
from whenpool.probes import window_importance
from whenpool.runs.kinds.training import Prepared

SHARES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)
SHORTEST = 10
"""Words of a text that is shown, so that it has windows."""


@dataclass(frozen=True)
class Shown:
    """A test text, and the models that read it.

    Attributes:
        models: by pooling, trained on the same unmixed texts.
        number: of the text among the test texts.
    """

    models: Mapping[str, Prepared]
    number: int

    @property
    def dataset(self) -> Dataset:
        return next(iter(self.models.values())).dataset

    @property
    def ids(self) -> Tensor:
        """Numbers of its words, (1, T)."""
        return self.dataset.test.ids.row(self.number).long().unsqueeze(0)

    @property
    def label(self) -> int:
        return int(self.dataset.test.labels[self.number])

    @property
    def words(self) -> list[str]:
        """As the vocabulary of the models knows them."""
        return [self.dataset.vocabulary[word] for word in self.ids[0].tolist()]

    def opening(self, count: int, letters: int) -> list[str]:
        """Its first words, as many as have so few letters together."""
        words = self.words[:count]
        while len(" ".join(words)) > letters:
            words.pop()
        return words

    def importance(self, pooling: str, k: int, first: int | None = None) -> Tensor:
        """|Δ log P| of each window of k of its words, or of its first words, by one model. -> (W,)"""
        ids, label = self.ids[:, :first], torch.tensor([self.label])
        lengths = torch.tensor([ids.shape[1]])
        model = self.models[pooling].model
        return window_importance(model, ids, lengths, label, k=k, unknown_index=UNKNOWN_INDEX)[0]

    def importance_strips(self, k: int = 5) -> list[WordStrip]:
        """For each model, the words coloured by what replacing them changes."""
        words = self.words
        return [
            strip(words, per_word(self.importance(pooling, k), len(words), k), POOLING_NAMES[pooling])
            for pooling in self.models
        ]

    def attention_strips(self) -> list[WordStrip]:
        """The same, coloured by the attention of the models that have one."""
        ids = self.ids
        return [
            strip(
                self.words,
                attention_weights(self.models[pooling].model, ids, torch.tensor([ids.shape[1]]))[0],
                f"{POOLING_NAMES[pooling]}, attention",
            )
            for pooling in ("attention", "max_attention")
            if pooling in self.models
        ]

    def hidden_opinion(self, shares: Iterable[float] = SHARES) -> pd.DataFrame:
        """The probability of the right class as the text disappears in the middle of filler.

        Returns:
            Columns ``pooling``, ``share``, ``probability``.
        """
        filler = self.dataset.test_filler
        sentences = filler.to_lists() if filler is not None else []
        rows = []
        for share in shares:
            text = compose(self.ids[0].tolist(), cycle(sentences), "mid", share)
            for pooling, prepared in self.models.items():
                rows.append((pooling, share, float(_answer(prepared, text)[self.label])))
        return pd.DataFrame(rows, columns=["pooling", "share", "probability"])


def understood(models: Mapping[str, Prepared]) -> Shown | None:
    """The shortest test text, of `SHORTEST` words or more, that every model classifies rightly, or
    None."""
    if not models:
        return None
    lengths = next(iter(models.values())).dataset.test.ids.lengths
    for number in torch.argsort(lengths, stable=True)[(lengths < SHORTEST).sum() :].tolist():
        shown = Shown(models, number)
        words, label = shown.ids[0].tolist(), shown.label
        if all(_answer(prepared, words).argmax() == label for prepared in models.values()):
            return shown
    return None


@torch.inference_mode()
def _answer(prepared: Prepared, words: Sequence[int]) -> Tensor:
    """The probability of each class, (C,)."""
    prepared.model.eval()
    logits = prepared.model(torch.tensor([list(words)]), torch.tensor([len(words)]))
    return logits.softmax(-1)[0]


# word pieces

_BEGINS = ("Ġ", "▁")


def whole_words(pieces: Sequence[str], weights: Sequence[float]) -> tuple[list[str], list[float]]:
    """Word pieces put together to words, their weights added. Special tokens stay as they are: the model
    reads them, and attends to them.

    Args:
        pieces: tokens of a text, those inside a word marked by "##", or those that begin one by "Ġ" or
            "▁".
        weights: one for each.
    """
    by_beginning = any(piece.startswith(_BEGINS) for piece in pieces)
    words: list[str] = []
    sums: list[float] = []
    after_special = True
    for piece, weight in zip(pieces, weights, strict=True):
        special = piece[:1] + piece[-1:] in ("[]", "<>") and len(piece) > 2
        goes_on = not piece.startswith(_BEGINS) if by_beginning else piece.startswith("##")
        if goes_on and not (special or after_special):
            words[-1] += piece.removeprefix("##")
            sums[-1] += weight
        else:
            words.append(piece.lstrip("".join(_BEGINS)) or piece)
            sums.append(weight)
        after_special = special
    return words, sums
