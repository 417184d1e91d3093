"""One text, and what trained models make of it."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whenpool.corpora.dataset import Dataset
from whenpool.probes import window_importance
from whenpool.book.report.tables import POOLING_NAMES
from whenpool.corpora.settings import compose
from whenpool.corpora.tokens import UNKNOWN_INDEX
from whenpool.explain.words import WordStrip, attention_weights, per_word, strip

if TYPE_CHECKING:
    from pandas import DataFrame

    from whenpool.runs.kinds.training import Prepared

SHARES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)
SHORTEST = 10
"""Words of a text that is shown, so that it has windows."""


def understood(models: "Mapping[str, Prepared]") -> int | None:
    """The number of the shortest test text, of `SHORTEST` words or more, that every model classifies
    rightly, or None."""
    if not models:
        return None
    dataset = next(iter(models.values())).dataset
    lengths = dataset.test.ids.lengths
    for number in torch.argsort(lengths, stable=True)[(lengths < SHORTEST).sum() :].tolist():
        label = int(dataset.test.labels[number])
        row = dataset.test.ids.row(number).tolist()
        if all(_answer(prepared, row).argmax() == label for prepared in models.values()):
            return number
    return None


def hidden_opinion(
    models: "Mapping[str, Prepared]", number: int | None, shares: Sequence[float] = SHARES
) -> "DataFrame":
    """The probability of the right class as one test text disappears in the middle of filler.

    Args:
        models: by pooling, trained on unmixed texts of one corpus.
        number: of the test text; None where there is none.

    Returns:
        Columns ``pooling``, ``share``, ``probability``.
    """
    import pandas as pd

    columns = ["pooling", "share", "probability"]
    if number is None:
        return pd.DataFrame(columns=columns)
    rows = []
    for pooling, prepared in models.items():
        dataset = prepared.dataset
        filler = dataset.test_filler.to_lists() if dataset.test_filler is not None else []
        words, label = dataset.test.ids.row(number).tolist(), int(dataset.test.labels[number])
        for share in shares:
            text = compose(words, cycle(filler), "mid", share)
            rows.append((pooling, share, _probability(prepared, text, label)))
    return pd.DataFrame(rows, columns=columns)


def text_of(dataset: Dataset, number: int) -> list[str]:
    """The words of a test text, as the run's vocabulary knows them."""
    return [dataset.vocabulary[word] for word in dataset.test.ids.row(number).tolist()]


def opening(
    models: "Mapping[str, Prepared]", number: int | None, count: int, letters: int | None = None
) -> list[str]:
    """The first words of a test text, as many as have so few letters together; none where there is no
    such text, or no model."""
    if number is None:
        return []
    words = text_of(next(iter(models.values())).dataset, number)[:count]
    while letters and len(" ".join(words)) > letters:
        words.pop()
    return words


def opening_importance(
    models: "Mapping[str, Prepared]", number: int | None, count: int, k: int
) -> list[float]:
    """|Δ log P| of each window of the first words, by max-attention where that is among the models."""
    if number is None:
        return []
    prepared = models.get("max_attention") or next(iter(models.values()))
    return importance_of(prepared, number, k, count).tolist()


def importance_of(prepared: "Prepared", number: int, k: int, first: int | None = None) -> Tensor:
    """|Δ log P| of each window of k words of a test text, or of its first words. -> (W,)"""
    ids = prepared.dataset.test.ids.row(number)[:first].long().unsqueeze(0)
    label = prepared.dataset.test.labels[number : number + 1]
    lengths = torch.tensor([ids.shape[1]])
    return window_importance(prepared.model, ids, lengths, label, k=k, unknown_index=UNKNOWN_INDEX)[0]


def importance_strips(
    models: "Mapping[str, Prepared]", number: int | None, k: int = 5
) -> list[WordStrip]:
    """One test text for each model, its words coloured by what replacing them changes."""
    if number is None:
        return []
    found = []
    for pooling, prepared in models.items():
        words = text_of(prepared.dataset, number)
        windows = importance_of(prepared, number, k)
        found.append(strip(words, per_word(windows, len(words), k), POOLING_NAMES[pooling]))
    return found


def attention_strips(models: "Mapping[str, Prepared]", number: int | None) -> list[WordStrip]:
    """The same, coloured by the attention of the models that have one."""
    found = []
    for pooling in ("attention", "max_attention"):
        if pooling in models and number is not None:
            prepared = models[pooling]
            ids = prepared.dataset.test.ids.row(number).long().unsqueeze(0)
            weights = attention_weights(prepared.model, ids, torch.tensor([ids.shape[1]]))[0]
            words = text_of(prepared.dataset, number)
            found.append(strip(words, weights, f"{POOLING_NAMES[pooling]}, attention"))
    return found


def _probability(prepared: "Prepared", words: Sequence[int], label: int) -> float:
    return float(_answer(prepared, words)[label])


@torch.inference_mode()
def _answer(prepared: "Prepared", words: Sequence[int]) -> Tensor:
    """The probability of each class, (C,)."""
    prepared.model.eval()
    logits = prepared.model(torch.tensor([list(words)]), torch.tensor([len(words)]))
    return logits.softmax(-1)[0]
