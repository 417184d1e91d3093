"""The weight of each word: of a pooling's attention, or of the window that the word stands in.

Letters: B texts, T words of a text.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from whenpool.base.errors import InputError
from whenpool.probes.protocol import checked_batch, evaluating

Weights = Sequence[float] | Tensor | np.ndarray


def per_word(window_weights: Weights, words: int, k: int) -> list[float]:
    """Each word's share in the importance of windows of k words: that of its window.

    Args:
        window_weights: one for each of the ⌊words/k⌋ full windows, as `whenpool.probes.nwi` cuts
            them (§1.9.3); NaN may stand behind them, where a batch had longer texts.
        words: T.
        k: words of a window.

    Returns:
        T numbers, NaN for the words behind the last full window.

    Raises:
        InputError: for k below 1, or another number of windows.

    Examples:
        >>> per_word([0.5, 0.1], words=5, k=2)
        [0.5, 0.5, 0.1, 0.1, nan]
    """
    if k < 1:
        raise InputError(f"a window has at least one word, not k={k}")
    values = floats(window_weights)
    full = words // k
    if len(values) < full or not all(math.isnan(value) for value in values[full:]):
        raise InputError(f"{words} words have {full} full windows of {k}, not {len(values)}")
    spread = [value for value in values[:full] for _ in range(k)]
    return spread + [math.nan] * (words - len(spread))


@torch.no_grad()
def attention_weights(model: nn.Module, ids: Tensor, lengths: Tensor) -> list[Tensor]:
    """The weight that a classifier's pooling gives to each word.

    Args:
        model: a `whenpool.TextClassifier`, or any module with its methods ``embed``, ``encode`` and
            ``pool``.
        ids: (B, T) word numbers, right-padded.
        lengths: (B,) words of each text.

    Returns:
        A tensor for each text, as long as the text, on the CPU; it sums to 1, or less where the
        model lets padding into its pooling (``masked=False``).

    Raises:
        InputError: for a model that lacks a method or whose pooling has no weights, and for ids and
            lengths that do not fit.

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> weights = attention_weights(model, torch.randint(50, (2, 7)), torch.tensor([7, 4]))
        >>> [len(row) for row in weights]
        [7, 4]
    """
    missing = [step for step in ("embed", "encode", "pool") if not hasattr(model, step)]
    if missing:
        raise InputError(f"weights are read from a model's pool(); it lacks {', '.join(missing)}")
    nobody = torch.zeros(len(ids), dtype=torch.int64, device=ids.device)
    ids, lengths, _ = checked_batch(model, ids, lengths, nobody)
    with evaluating(model):
        weights = model.pool(model.encode(model.embed(ids), lengths), lengths)[1]  # type: ignore[operator]
    if weights is None:
        pooling = type(getattr(model, "pooling", model)).__name__
        raise InputError(
            f"{pooling} gives words no weights; choose mean, attention, max_attention or last_attention"
        )
    return [row[:n] for row, n in zip(weights.cpu(), lengths.tolist(), strict=True)]


def floats(weights: Weights) -> list[float]:
    """As plain numbers."""
    if isinstance(weights, Tensor):
        weights = weights.detach().cpu().double().numpy()
    return np.asarray(weights, dtype=float).reshape(-1).tolist()
