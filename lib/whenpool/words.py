"""Weights of words, such as attention or importance, shown on the words themselves.

`strip` and `strips` make HTML without style sheet or script, which looks the same in the book, in a
notebook and in an editor, on light and on dark backgrounds.

Letters: B texts, T words of a text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import torch
from torch import Tensor, nn

from whenpool.base.errors import check
from whenpool.models.encoder import word_mask
from whenpool.models.pooling import Pooling
from whenpool.probes.protocol import check_steps, checked_batch, evaluating

__all__ = ["attention_weights", "per_word", "strip", "strips"]
# Of Okabe and Ito (2008), which the colour-blind see as well
COLOUR, AGAINST = ("#d55e00", "#0072b2")
DEEPEST = (
    0.5  # Opacity of the largest weight: text in the page's own colour keeps a contrast of 4.5
)
THICKEST = 4  # Pixels of the line below that word, for those who see no colour
Weights = Sequence[float] | Tensor | np.ndarray


@dataclass(frozen=True, repr=False)
class WordStrip:
    """One text, each word as deep in colour and as heavily underlined as its weight. A notebook
    shows it as HTML, a terminal as words with their weights in brackets."""

    words: tuple[str, ...]
    weights: tuple[float, ...]
    title: str
    scale: float  #: the weight, of either sign, that is shown deepest; larger ones look the same

    def _repr_html_(self) -> str:
        lowest = f"−{self.scale:.2g} to " if any(value < 0 for value in self.weights) else "0–"
        span, title = f"{lowest}{self.scale:.2g}", escape(self.title)
        words = " ".join(map(self._word_html, self.words, self.weights))
        label = (
            f'<span style="flex:1 0 11em"><b>{title}</b> '
            f'<small style="opacity:0.8;white-space:nowrap">{span}</small></span>'
        )
        return (
            f'<div role="group" aria-label="{title or "Words"}, marked by weight, {span}" style="'
            "display:flex;flex-wrap:wrap;align-items:baseline;margin:0.3em 0;column-gap:0.8em;"
            'line-height:1.9">'
            f'{label if title else ""}<span dir="auto" style="flex:999 1 18em;min-width:0;'
            f'overflow-wrap:anywhere">{words}</span></div>'
        )

    def _word_html(self, word: str, value: float) -> str:
        share = 0.0 if math.isnan(value) or not self.scale else min(abs(value) / self.scale, 1.0)
        colour, line = (AGAINST, "dashed") if value < 0 else (COLOUR, "solid")
        look = (  # whole pixels, since a browser draws a part of one as one
            f' style="background:{colour}{round(255 * DEEPEST * share):02x};'
            f"border-bottom:{round(THICKEST * share)}px {line} {colour};"
            'border-radius:2px;padding:0 1px"'
        )
        hint = "no weight" if math.isnan(value) else f"{value:.3g}"
        return f'<span title="{hint}"{look if share else ""}>{escape(word)}</span>'

    def __repr__(self) -> str:
        pairs = zip(self.words, self.weights, strict=True)
        words = " ".join(w if math.isnan(value) else f"{w}({value:.2g})" for w, value in pairs)
        return f"{self.title}: {words}" if self.title else words


class WordStrips(tuple[WordStrip, ...]):
    """Several strips one below the other, their titles in a column of their own."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return f'<div style="margin:0.4em 0">{"".join(row._repr_html_() for row in self)}</div>'


def strip(
    words: Sequence[str], weights: Weights, title: str = "", scale: float | None = None
) -> WordStrip:
    """A text of T words with its T weights, to be shown by a notebook: those below zero in blue,
    NaN without colour. The ``scale`` is the weight to show deepest, by default the largest one;
    give several strips the same one to compare their colours. Raises `InputError` for words and
    weights that do not fit.

    Examples:
        >>> print(strip(["what", "a", "film"], [0.1, 0.0, 0.9], "MaxAtt"))
        MaxAtt: what(0.1) a(0) film(0.9)
    """
    check(
        not isinstance(words, str),
        "words must be a list, not one string; split it as the model does",
    )
    names, values = tuple(map(str, words)), tuple(_floats(weights))
    counts = f"there are {len(names)} words and {len(values)} weights; give each word one"
    check(len(names) == len(values) > 0, counts)
    check(
        not any(map(math.isinf, values)), "a weight is infinite; give a finite one, or NaN for none"
    )
    check(scale is None or 0 < scale < math.inf, f"scale must be above 0, not {scale}")
    if scale is None:
        scale = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
    return WordStrip(names, values, title, scale)


def strips(rows: Sequence[WordStrip]) -> WordStrips:
    """Several strips, one below the other, each with its own scale.

    Examples:
        >>> strips([strip(["a", "film"], [0.1, 0.9], "MaxAtt")])
        MaxAtt: a(0.1) film(0.9)
    """
    return WordStrips(rows)


def per_word(window_weights: Weights, words: int, k: int) -> list[float]:
    """The importance of the window of k words that each word is in: T numbers for as many
    ``words``, NaN after the last full window. There is one weight for each of the ⌊words/k⌋ full
    windows, as `whenpool.probes.nwi` cuts them (§1.9.3); NaN may follow, where a batch had longer
    texts. Raises `InputError` for another number of windows.

    Examples:
        >>> per_word([0.5, 0.1], words=5, k=2)
        [0.5, 0.5, 0.1, 0.1, nan]
    """
    check(k >= 1, f"k, the words of a window, must be at least 1, not {k}")
    values, full = _floats(window_weights), words // k
    check(
        len(values) >= full and all(map(math.isnan, values[full:])),
        f"{words} words need {full} weights for windows of {k}, not {len(values)}",
    )
    return [*np.repeat(values[:full], k).tolist(), *[math.nan] * (words - full * k)]


@torch.no_grad()
def attention_weights(model: nn.Module, ids: Tensor, lengths: Tensor) -> list[Tensor]:
    """The weight that a classifier's pooling gives to each word: a tensor for each text, as long as
    the text, on the CPU; it sums to 1, or less where the model also pools padding
    (``masked=False``). The model is a `whenpool.TextClassifier`, or any module with its methods
    ``embed``, ``encode`` and ``pool``, which may be one of `whenpool.POOLINGS`; ids (B, T) are
    right-padded, lengths (B,). Raises `InputError` for a pooling without weights, or a bad batch.

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> weights = attention_weights(model, torch.randint(50, (2, 7)), torch.tensor([7, 4]))
        >>> [len(row) for row in weights]
        [7, 4]
    """
    check_steps(model, "attention_weights", ("embed", "encode", "pool"))
    ids, lengths, _ = checked_batch(model, ids, lengths)
    with evaluating(model):
        states: Tensor = model.encode(model.embed(ids), lengths)  # type: ignore[operator]
        words = word_mask(lengths, states.shape[1]) if isinstance(model.pool, Pooling) else lengths
        weights = model.pool(states, words)[1]  # type: ignore[operator]
    check(
        weights is not None,
        f"{type(getattr(model, 'pooling', model)).__name__} has no weights for words"
        "; choose mean, attention, max_attention or last_attention",
    )
    return [row[:n] for row, n in zip(weights.cpu(), lengths.tolist(), strict=True)]


def _floats(weights: Weights) -> list[float]:
    if isinstance(weights, Tensor):
        weights = weights.detach().cpu().double().numpy()
    return np.asarray(weights, dtype=float).reshape(-1).tolist()
