"""Drawings that explain how something is computed: word importance, and the paths of gradients.

All lengths are in inches, so that words keep their size whatever the drawing holds.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from whenpool.errors import InputError
from whenpool.report.figures import COLOURS

WIDTH = 7.0
FONT = 9.5
"""Points: still read on a phone, where a drawing is shown at about half its width."""
SIGNAL, QUIET, INK = COLOURS["max_attention"], "#e4e4e4", "#333333"
POINTS = 100
_MARGIN, _GAP, _PAD, _LINE = 0.1, 0.11, 0.035, 0.34
_PLAIN: dict[str, Any] = {"size": FONT, "color": INK, "va": "center", "parse_math": False}


def draw_nwi(words: Sequence[str], importance: Sequence[float], k: int) -> Figure:
    """How normalised word importance comes about, on one text (§1.9, Algorithm 1).

    From top to bottom: the text cut into windows; the same with one window replaced by UNK, three
    times, the first, the most important and the last window among them; what that does to the
    prediction, a bar for each window; and the profile read from the bars.

    Args:
        words: the text, short enough for one line.
        importance: |change of log P| in nats for each full window of ``k`` words, as
            `whenpool.probes.window_importance` gives it; NaN may stand behind.
        k: words of a window.

    Raises:
        InputError: for k below 1, another number of windows than ⌊words/k⌋, none at all, values that
            are negative or infinite, or a text longer than a line.
    """
    deltas = _checked_importance(words, importance, k)
    shown = {0, int(deltas.argmax()), len(deltas) - 1}
    if len(shown) < 3:
        shown.add(len(deltas) // 2)
    height = (7.5 + len(shown)) * _LINE + 2.0
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    starts = _columns(axes, words, k, len(deltas))  # left edge of each word, and of one more
    windows = [(starts[t * k] - _PAD, starts[(t + 1) * k] - _GAP + _PAD) for t in range(len(deltas))]

    rest = "; what is left over has none" if len(words) % k else ""
    y = _heading(axes, 0.0, f"a text in windows of k = {k}{rest}")
    for left, right in windows:
        axes.add_patch(box(left, y - 0.13, right - left, 0.26, QUIET))
    _write(axes, y, words, starts)
    numbers = ", ".join(str(t + 1) for t in sorted(shown))
    y = _heading(axes, y + _LINE / 2, f"one window at a time replaced by UNK, here number {numbers}")
    for t in sorted(shown):
        _write(axes, y, words, starts, leave_out=range(t * k, (t + 1) * k))
        left, right = windows[t]
        cell = (right - left + 0.05) / k
        for start in left + cell * np.arange(k):
            axes.add_patch(box(start, y - 0.13, cell - 0.05, 0.26, SIGNAL))
            look = _PLAIN | {"color": "white", "ha": "center"}
            axes.text(start + (cell - 0.05) / 2, y, "UNK", **look)
        y += _LINE
    y = _heading(axes, y - _LINE / 2, "how far that moves log P(label), in nats")
    _bars(axes, y + 0.75, windows, deltas)
    y = _heading(axes, y + 0.8, "the profile: divided by the largest, less the smallest")
    _profile(figure, y - 0.1, height, deltas)
    return figure


def draw_gradient_paths() -> Figure:
    """Which states the loss reaches without passing through other states (§1.5).

    Thick arrows are direct paths of the gradient, thin ones those from state to state. Without
    pooling each direction is read off at its own end, so only the two ends are reached directly.
    """
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 2.5), layout="none")
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.9, wspace=0.06)
    names = ["$h_1$", "$h_2$", "…", "$h_{n-1}$", "$h_n$"]
    places = np.linspace(0.35, 3.05, len(names))
    reached = {"no pooling: only the ends": (0, 4), "pooling: every state": range(5)}
    for axes, (title, direct) in zip(panels, reached.items(), strict=True):
        axes.set_title(title, size=FONT + 3, color=INK, pad=4)
        axes.set(xlim=(0, 3.4), ylim=(0, 2.2), aspect="equal")
        axes.axis("off")
        axes.add_patch(box(1.35, 1.8, 0.7, 0.34, INK))
        axes.text(1.7, 1.97, "loss", size=FONT + 3, color="white", ha="center", va="center")
        for place, (name, x) in enumerate(zip(names, places, strict=True)):
            lit = place in direct
            if name != "…":
                axes.add_patch(Circle((x, 0.5), 0.26, facecolor=SIGNAL if lit else QUIET, lw=0))
            ink = "white" if lit and name != "…" else INK
            axes.text(x, 0.5, name, size=FONT + 3, color=ink, ha="center", va="center")
            if lit:
                arrow(axes, (1.7 + 0.2 * (x - 1.7), 1.78), (x, 0.8), SIGNAL, 2.4)
        for x, following in pairwise(places):
            arrow(axes, (x + 0.28, 0.58), (following - 0.28, 0.58), "#8a8a8a", 0.9)
            arrow(axes, (following - 0.28, 0.42), (x + 0.28, 0.42), "#8a8a8a", 0.9)
        axes.text(1.7, 0.06, "from state to state", size=FONT + 2, color=INK, ha="center", va="center")
    return figure


def _checked_importance(words: Sequence[str], importance: Sequence[float], k: int) -> np.ndarray:
    if k < 1:
        raise InputError(f"a window has at least one word, not k={k}")
    values, full = np.asarray(importance, dtype=float).reshape(-1), len(words) // k
    if not full:
        raise InputError(f"a text of {len(words)} words has no window of k={k}; take a smaller k")
    if len(values) < full or not np.isnan(values[full:]).all():
        raise InputError(f"{len(words)} words have {full} full windows of {k}, not {len(values)}")
    if not (np.isfinite(values[:full]) & (values[:full] >= 0)).all():
        raise InputError("importance is |change of log P| of each window: finite and not negative")
    return values[:full]


def _columns(axes: Axes, words: Sequence[str], k: int, windows: int) -> list[float]:
    """Where each word begins, and where one more would: a window has room for k times UNK."""
    unknown = _width(axes, "UNK") + 0.04
    widths = [_width(axes, word) for word in words]
    for t in range(windows):
        window = slice(t * k, (t + 1) * k)
        missing = max(0.0, k * unknown - sum(widths[window])) / k
        widths[window] = [width + missing for width in widths[window]]
    starts = [_MARGIN + 0.04]
    for width in widths:
        starts.append(starts[-1] + width + _GAP)
    if starts[-1] > WIDTH:
        plt.close()  # the current figure, which is this one
        raise InputError(
            f"the text takes {starts[-1]:.1f} inches, the drawing has {WIDTH:g}: choose a shorter text"
        )
    return starts


def _width(axes: Axes, word: str) -> float:
    text = axes.text(0, 0, word, **_PLAIN)
    width = text.get_window_extent().width / axes.figure.dpi
    text.remove()
    return width


def _heading(axes: Axes, top: float, words: str) -> float:
    """Write a line below ``top``; -> the middle of the line after it."""
    axes.text(_MARGIN, top + 0.26, words, **(_PLAIN | {"weight": "bold"}))
    return top + 0.26 + _LINE


def _write(
    axes: Axes, y: float, words: Sequence[str], starts: Sequence[float], leave_out: Sequence[int] = ()
) -> None:
    for place, (word, left, following) in enumerate(zip(words, starts, starts[1:], strict=False)):
        if place not in leave_out:
            axes.text((left + following - _GAP) / 2, y, word, ha="center", **_PLAIN)


def _bars(axes: Axes, floor: float, windows: list[tuple[float, float]], deltas: np.ndarray) -> None:
    highest = deltas.max() or 1.0
    for (left, right), delta in zip(windows, deltas, strict=True):
        tall = 0.65 * delta / highest
        axes.add_patch(Rectangle((left, floor - tall), right - left, tall, facecolor=SIGNAL, lw=0))
        label = _PLAIN | {"ha": "center", "size": FONT - 0.5}
        axes.text((left + right) / 2, floor - tall - 0.1, f"{delta:.2g}", **label)
    axes.plot([_MARGIN, windows[-1][1]], [floor, floor], color=INK, lw=0.8)


def _profile(figure: Figure, top: float, height: float, deltas: np.ndarray) -> None:
    """The bars, rescaled, at even distances, and the line that is read between them."""
    scaled = (deltas - deltas.min()) / (deltas.max() or 1.0)
    below, left = 0.48, 0.45
    box = (left / WIDTH, below / height, 1 - (left + 0.15) / WIDTH, (height - top - below) / height)
    axes = figure.add_axes(box)
    points = np.arange(1, POINTS + 1)
    places = np.linspace(1, POINTS, len(deltas)) if len(deltas) > 1 else np.array([POINTS / 2])
    axes.plot(points, np.interp(points, places, scaled), color=SIGNAL, lw=1.6)
    axes.plot(places, scaled, "o", color=SIGNAL, ms=6, markeredgecolor="white", clip_on=False)
    axes.set(xlim=(0, POINTS + 1), ylim=(-0.05, 1.05), yticks=(0, 1), xticks=(1, 25, 50, 75, POINTS))
    axes.tick_params(labelsize=FONT - 0.5, colors=INK)
    axes.set_xlabel("point read, from the first window to the last", size=FONT, color=INK, labelpad=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", visible=False)


def box(
    x: float, y: float, width: float, height: float, colour: str, edge: str = "none"
) -> FancyBboxPatch:
    """A rectangle with round corners, its lower left one at (x, y)."""
    style = "round,pad=0,rounding_size=0.05"
    return FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor=edge)


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, thick: float
) -> None:
    """An arrow from point to point."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=6 + 3 * thick, color=colour, lw=thick,
            shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
