"""Accuracy of a trained model as filler is added to its test texts (thesis §1.7.1).

Letters: N texts, B of them in a batch, T words of the longest in the batch, C classes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, product

import numpy as np
import torch
from torch import Tensor, nn

from whenpool.base.errors import check, check_known
from whenpool.corpora.batches import Ragged, Texts
from whenpool.corpora.settings import compose, filler_lengths
from whenpool.probes.protocol import check_labels, checked_batch, evaluating, whole_numbers
from whenpool.training.loop import Score, evaluate

SHARES = tuple(tenth / 10 for tenth in range(10))  # As on the axis of the thesis's Figure 1.4
SWEPT = ("left", "mid", "right")  # Where the original can stand


@dataclass(frozen=True)
class SweepPoint:
    """How a model does on texts with one share of filler."""

    setting: str  # where the original stands: "left", "mid" or "right"
    share: float  # filler's part of all words, in [0, 1)
    accuracy: float  # in %
    loss: float  # mean cross-entropy, in nats
    words: float  # mean length of the texts, filler counted


def padding_sweep(
    model: nn.Module,
    texts: Sequence[Sequence[int]],
    labels: Sequence[int] | Tensor,
    filler: Iterable[Sequence[int]],
    shares: Sequence[float] = SHARES,
    settings: Sequence[str] = SWEPT,
    *,
    padding_index: int = 1,
    max_words: int = 32_768,
) -> list[SweepPoint]:
    """The accuracy of a trained model on test texts as more and more filler is added to them
    (§1.7.1).

    Each pair of a setting and a share takes the filler sentences from the first one on, text after
    text, and starts over when they run out. So every model reads the same, whichever other settings
    and shares are asked for. Raises `InputError` for what cannot be read or does not fit, naming
    it.

    Args:
        model: maps ids (B, T) int64, right-padded, and lengths (B,) to logits (B, C). If its
            attribute ``masked`` is False it gets batches of 32 texts, as in training.
        texts, labels: N originals, each a sequence of word numbers; their classes.
        filler: sentences, each a sequence of word numbers.
        shares: filler's parts of all words; 0 is computed once and reported for each setting.
        settings: where the original stands, see `whenpool.corpora.settings.compose`.
        padding_index: the word number that stands after the end of a text.
        max_words: padded words in a batch (B x T), unless a single text has more.

    Returns:
        A `SweepPoint` for each setting and share, settings in the outer loop, both in the order
        given.

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> texts, filler = [[5, 6, 7], [8, 9]], [[2, 3, 4, 2]]
        >>> shares, settings = (0.0, 0.5), ("mid",)
        >>> points = padding_sweep(model, texts, [0, 1], filler, shares=shares, settings=settings)
        >>> [(point.setting, point.share, point.words) for point in points]
        [('mid', 0.0, 2.5), ('mid', 0.5, 5.0)]
    """
    rows, sentences = _numbers(texts, "text"), _numbers(filler, "filler sentence")
    classes = whole_numbers("labels", labels).cpu().long()
    check(
        classes.shape == (len(rows),),
        f"{len(rows)} texts need {len(rows)} labels, not {tuple(classes.shape)}",
    )
    for setting in settings:
        check_known("swept setting", setting, SWEPT)
        for share in shares:
            filler_lengths(1, setting, share)  # refuses a wrong share before anything is computed

    @cache
    def point(setting: str, share: float) -> SweepPoint:
        stream = cycle(sentences)
        ids = Ragged.of(compose(row, stream, setting, share) for row in rows)
        score = _score(model, Texts(ids, classes), padding_index, max_words)
        words = ids.lengths.double().mean().item()
        return SweepPoint(setting, share, score.accuracy, score.loss, words)

    return [  # without filler the texts are the same in each setting
        replace(point(setting if share else SWEPT[0], share), setting=setting, share=share)
        for setting, share in product(settings, shares)
    ]


def _score(model: nn.Module, texts: Texts, padding_index: int, max_words: int) -> Score:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    moved = texts.to(device)
    # of all words
    checked_batch(model, torch.stack(moved.ids.flat.aminmax())[None], torch.tensor([2]))
    with evaluating(model), torch.inference_mode():
        first = moved.batch(torch.tensor([0]), padding_index)
        check_labels(texts.labels, model(first.ids, first.lengths))
        score = evaluate(model, moved, padding_index, max_words)
    nan = f"{type(model).__name__} gives logits that are no numbers (NaN)"
    check(not math.isnan(score.loss), nan)
    return score


def _numbers(rows: Iterable[Sequence[int]], name: str) -> list[list[int]]:
    """The rows as lists; an empty one, or one of anything but whole numbers, is named."""
    arrays = [np.asarray(row) for row in rows]
    check(arrays, f"there is no {name}; give at least one")
    for number, numbers in enumerate(arrays):
        check(
            numbers.ndim == 1 and numbers.dtype.kind in "iu",
            f"{name} {number} must be a sequence of word numbers; drop it where it is empty",
        )
    return [numbers.tolist() for numbers in arrays]
