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

from whenpool.base.errors import InputError, check
from whenpool.probes.protocol import check_steps, checked_batch, evaluating

__all__ = ["WordStrip", "WordStrips", "attention_weights", "per_word", "strip", "strips"]
COLOUR, AGAINST = "#d55e00", "#0072b2"
"""Vermilion, and blue for weights below zero, of the palette of Okabe and Ito (2008), which the colour-blind
see as well."""
DEEPEST = 0.5
"""Opacity of the largest weight: text in the page's own colour keeps a contrast of 4.5 on it."""
THICKEST = 4  # Pixels of the line below the word with the largest weight, for those who see no colour
Weights = Sequence[float] | Tensor | np.ndarray


@dataclass(frozen=True, repr=False)
class WordStrip:
    """One text, each word as deep in colour and as heavily underlined as its weight. A notebook shows it as
    HTML, a terminal as words with their weights in brackets.

    Attributes:
        scale: the weight, of either sign, that is shown deepest; larger ones look the same. 0 shows none.

    Examples:
        >>> strip(["what", "a", "film"], [0.1, 0.0, 0.9]).scale
        0.9
    """

    words: tuple[str, ...]
    weights: tuple[float, ...]
    title: str
    scale: float

    @property
    def html(self) -> str:
        return WordStrips((self,)).html

    def __repr__(self) -> str:
        pairs = zip(self.words, self.weights, strict=True)
        words = " ".join(w if math.isnan(value) else f"{w}({value:.2g})" for w, value in pairs)
        return f"{self.title}: {words}" if self.title else words

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True, repr=False)
class WordStrips:
    """Several strips one below the other, their titles in a column of their own.

    Examples:
        >>> len(strips([strip(["a", "film"], [0.1, 0.9], "MaxAtt")]).rows)
        1
    """

    rows: tuple[WordStrip, ...]

    @property
    def html(self) -> str:
        widths = [0.6 * len(row.title) + 0.5 * len(_span(row)) for row in self.rows]
        column = min(max(*widths, 4.5), 12)
        rows = "".join(_row_html(row, column) for row in self.rows)
        return f'<div style="margin:0.4em 0;line-height:1.9">{rows}</div>'

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.rows))

    def _repr_html_(self) -> str:
        return self.html


def strip(
    words: Sequence[str], weights: Weights, title: str = "", scale: float | None = None
) -> WordStrip:
    """A text with its weights, to be shown by a notebook. Raises `InputError` for no words, one string
    instead of words, another number of weights than of words, a weight that is infinite, or a scale that
    is not positive.

    Args:
        words: T words.
        weights: T numbers, those below zero in blue; NaN for a word without weight, which stays uncoloured.
        title: stands before the words.
        scale: the weight to show deepest; default: the largest one. Give several strips the same
            one to compare their colours.

    Examples:
        >>> print(strip(["what", "a", "film"], [0.1, 0.0, 0.9], "MaxAtt"))
        MaxAtt: what(0.1) a(0) film(0.9)
    """
    if isinstance(words, str):
        raise InputError("words must be a list, not one string; split it as the model's text was")
    names, values = tuple(map(str, words)), tuple(_floats(weights))
    check(names, "there are no words to show; give at least one")
    if len(names) != len(values):
        raise InputError(f"there are {len(names)} words and {len(values)} weights; give each word one")
    for place, value in enumerate(values):
        if math.isinf(value):
            where = f"word {place}, {names[place]!r},"
            raise InputError(f"{where} has the weight {value:g}; give a finite one, or NaN for none")
    if scale is None:
        scale = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
    elif not 0 < scale < math.inf:
        raise InputError(f"scale, the weight with the deepest colour, must be above 0, not {scale}")
    return WordStrip(names, values, title, scale)


def strips(rows: Sequence[WordStrip]) -> WordStrips:
    """Several strips, one below the other, each with its own scale. Raises `InputError` for no strips.

    Examples:
        >>> [row.title for row in strips([strip(["film"], [0.9], "MaxPool")]).rows]
        ['MaxPool']
    """
    check(rows, "there are no strips to show; give at least one, strip(words, weights)")
    return WordStrips(tuple(rows))


def _span(row: WordStrip) -> str:
    """The smallest and the largest weight that a strip can show."""
    lowest = "−" + f"{row.scale:.2g} to " if any(value < 0 for value in row.weights) else "0–"
    return f"{lowest}{row.scale:.2g}"


def _row_html(row: WordStrip, column: float) -> str:
    """A strip whose title has a column so many em wide."""
    words = []
    for word, value in zip(row.words, row.weights, strict=True):
        share = 0.0 if math.isnan(value) or not row.scale else min(abs(value) / row.scale, 1.0)
        colour = AGAINST if value < 0 else COLOUR
        hint = "no weight" if math.isnan(value) else f"{value:.3g}"
        line = round(THICKEST * share)  # whole, since a browser draws a part of a pixel as one
        look = (
            f' style="background:{colour}{round(255 * DEEPEST * share):02x};'
            f"border-bottom:{line}px {'dashed' if value < 0 else 'solid'} {colour};"
            'border-radius:2px;padding:0 1px"'
        )
        words.append(f'<span title="{hint}"{look if share else ""}>{escape(word)}</span>')
    title, span = escape(row.title), _span(row)
    label = (
        f'<span style="flex:1 0 {column:.1f}em"><b>{title}</b> '
        f'<small style="opacity:0.8;white-space:nowrap">{span}</small></span>'
    )
    return (
        f'<div role="group" aria-label="{title or "Words"}, marked by weight, {span}" style="'
        'display:flex;flex-wrap:wrap;align-items:baseline;margin:0.3em 0;column-gap:0.8em">'
        f'{label if title else ""}<span dir="auto" style="flex:999 1 18em;min-width:0;'
        f'overflow-wrap:anywhere">{" ".join(words)}</span></div>'
    )


def per_word(window_weights: Weights, words: int, k: int) -> list[float]:
    """Each word's share in the importance of windows of k words: that of its window. Raises `InputError`
    for k below 1, or another number of windows.

    Args:
        window_weights: one for each of the ⌊words/k⌋ full windows, as `whenpool.probes.nwi` cuts
            them (§1.9.3); NaN may follow them, where a batch had longer texts.

    Returns:
        T numbers for as many ``words``, NaN for those after the last full window.

    Examples:
        >>> per_word([0.5, 0.1], words=5, k=2)
        [0.5, 0.5, 0.1, 0.1, nan]
    """
    check(k >= 1, f"k, the words of a window, must be at least 1, not {k}")
    values = _floats(window_weights)
    full = words // k
    if len(values) < full or not all(math.isnan(value) for value in values[full:]):
        raise InputError(f"{words} words need {full} weights for windows of {k}, not {len(values)}")
    return [*np.repeat(values[:full], k).tolist(), *[math.nan] * (words - full * k)]


@torch.no_grad()
def attention_weights(model: nn.Module, ids: Tensor, lengths: Tensor) -> list[Tensor]:
    """The weight that a classifier's pooling gives to each word. Raises `InputError` for a model that
    lacks a method or whose pooling has no weights, and for ids and lengths that do not fit.

    Args:
        model: a `whenpool.TextClassifier`, or any module with its methods ``embed``, ``encode`` and
            ``pool``.
        ids: (B, T) word numbers, right-padded.
        lengths: (B,) words of each text.

    Returns:
        A tensor for each text, as long as the text, on the CPU; it sums to 1, or less where the
        model also pools padding (``masked=False``).

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> weights = attention_weights(model, torch.randint(50, (2, 7)), torch.tensor([7, 4]))
        >>> [len(row) for row in weights]
        [7, 4]
    """
    check_steps(model, "attention_weights", ("embed", "encode", "pool"))
    ids, lengths, _ = checked_batch(model, ids, lengths)
    with evaluating(model):
        weights = model.pool(model.encode(model.embed(ids), lengths), lengths)[1]  # type: ignore[operator]
    if weights is None:
        without = f"{type(getattr(model, 'pooling', model)).__name__} has no weights for words"
        raise InputError(f"{without}; choose mean, attention, max_attention or last_attention")
    return [row[:n] for row, n in zip(weights.cpu(), lengths.tolist(), strict=True)]


def _floats(weights: Weights) -> list[float]:
    if isinstance(weights, Tensor):
        weights = weights.detach().cpu().double().numpy()
    return np.asarray(weights, dtype=float).reshape(-1).tolist()
