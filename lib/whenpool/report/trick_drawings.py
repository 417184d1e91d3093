"""Drawings that explain the training-time tricks: last attention, dropout attention, curricula.

All lengths of the first two are in inches, so that words keep their size. n is the number of words,
h_t the state after word t, q the query, α_t the attention weight of h_t.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.ticker import MaxNLocator

from whenpool.errors import InputError
from whenpool.report.drawing_parts import arrow, panel, write
from whenpool.report.drawings import FONT, INK, QUIET, WIDTH, box
from whenpool.report.figures import COLOURS, TRICK_COLOURS

ATTENTION, CHAIN = COLOURS["last_attention"], COLOURS["mean"]
GREY = "#8a8a8a"
THICKEST = 8.0
"""Points: the arrow of a state that has the whole attention mass."""
SCORES = (1.2, -0.3, 0.7, 0.0, 1.6)
"""An invented example of ĥ_t·q; the fourth stands for the states left out. The last is the largest,
as it is for any states: ĥ_t·q is ‖q‖ cos(h_t, q), and q = h_n."""
DROPPED: dict[str, tuple[int, ...]] = {"p = 0": (), "0 < p < 1": (0, 1, 5), "p = 1": (0, 1, 2, 3, 5)}
"""Places of the dropped gates in `_CHAIN`; those of the middle panel are an invented draw."""
_SHORT, _CHAIN = ("1", "2", "3", "…", "n"), ("1", "2", "3", "4", "…", "n-1", "n")
_RADIUS = 0.23
_LOOKS = (
    (TRICK_COLOURS["penalty_attention"], "o", "-", 8.0),
    (TRICK_COLOURS["dropout_attention"], "s", "--", 4.5),
    (TRICK_COLOURS["gradient_directed"], "^", "-.", 6.5),
    (COLOURS["last"], "D", ":", 4.5),
)
"""Colour, marker, line and size of the marker: the smaller ones stay seen upon the larger."""


def draw_last_attention() -> Figure:
    """Last attention at both ends of the penalty's curriculum (§2.2.5, Figure 2.1).

    The last state is the query q, with which each state is compared; softmax makes the scores
    weights α_t, drawn as bars and as arrows of a thickness in proportion. On the right is the limit
    that the penalty drives at: all mass on h_n, so that the embedding is the last state.
    """
    height, labels = 4.75, 0.95
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    width = (WIDTH - labels) / 2
    weights = np.exp(SCORES) / np.exp(SCORES).sum()
    shown = (
        ("λ = 0", "attention wherever it likes", r"\Sigma_t\,\alpha_t h_t", weights),
        ("λ = 1", "what is left", "h_n", np.eye(len(SCORES))[-1]),
    )
    for place, (title, note, embedding, alphas) in enumerate(shown):
        axes = panel(figure, labels + place * width, 0, width, height)
        write(axes, width / 2, 4.55, title, 4, weight="bold")
        write(axes, width / 2, 4.29, note, 2)
        _draw_attention(axes, width / 2, alphas, rf"$s_\mathrm{{emb}} = {embedding}$")
    rows = {0.2: "words", 0.85: "states", 1.65: "scores", 2.62: r"weights $\alpha_t$"}
    axes = panel(figure, 0, 0, labels, height)
    for y, row in rows.items():
        write(axes, 0.06, y, row, 1.5, ha="left")
    return figure


def draw_dropout_attention() -> Figure:
    """Dropout attention at three stages of its curriculum (§2.2.6, Figure 2.2).

    Every state but the last reaches the attention through a gate, which is dropped with probability
    p. From top to bottom: no gate, some and all of them dropped. The shortest way that is left
    between h_1 and the embedding is highlighted: with p it grows into the whole chain.
    """
    tall, below, left = 1.86, 0.45, 1.6
    figure = plt.figure(figsize=(WIDTH, 3 * tall + below), layout="none")
    notes = (
        "every gate\nis open",
        "gates are dropped\nat random",
        "every gate is\ndropped: only\nthe chain is left",
    )
    for row, ((title, dropped), note) in enumerate(zip(DROPPED.items(), notes, strict=True)):
        axes = panel(figure, 0, below + (2 - row) * tall, WIDTH, tall)
        write(axes, 0.06, 1.5, title, 4, weight="bold", ha="left")
        write(axes, 0.06, 1.32, note, 0.5, ha="left", va="top", linespacing=1.35)
        _draw_gates(axes, np.linspace(left + 0.3, WIDTH - 0.4, len(_CHAIN)), dropped)
    axes = panel(figure, 0, 0, WIDTH, below)
    _gate(axes, 0.25, 0.22, dropped=False)
    _gate(axes, 1.6, 0.22, dropped=True)
    axes.plot([3.2, 3.6], [0.22, 0.22], color=CHAIN, lw=4, solid_capstyle="butt")
    keys = {0.45: "open gate", 1.8: "dropped gate", 3.7: "shortest way of gradients back to $h_1$"}
    for x, key in keys.items():
        write(axes, x, 0.22, key, 1, ha="left")
    return figure


def draw_curricula(
    curves: Mapping[str, Sequence[float]],
    eligible: range,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """The curricula over epochs, counted from 0: a line for each, a point for each epoch (§2.2.5 to 7).

    Nothing is computed here; the curves share one axis, so they should be of one size.

    Args:
        curves: the factor (λ or p) of each epoch, one value for each, by name; at most four.
        eligible: epochs whose model may be chosen, a shaded band.
        labels: what to write for a name, where the name itself will not do.

    Raises:
        InputError: for no curves or more than four, curves of different lengths or without epochs,
            values that are not finite, eligible epochs that are none, not consecutive or beyond the
            curves, or a label for no curve.
    """
    labels = labels or {}
    epochs = _checked_epochs(curves, eligible, labels)
    figure, axes = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    for (name, values), (colour, marker, style, size) in zip(curves.items(), _LOOKS, strict=False):
        axes.plot(
            range(epochs), values, style, marker=marker, ms=size, color=colour, lw=1.6,
            markeredgecolor="white", markeredgewidth=0.5, label=labels.get(name, name),
        )  # fmt: skip
    first, last = eligible[0] - 0.5, eligible[-1] + 0.5
    axes.axvspan(first, last, color=QUIET, lw=0, zorder=0, label="epochs to choose from where it rises")
    axes.set_xlim(-0.6, epochs - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True))
    axes.grid(axis="x", visible=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=FONT + 1)
    axes.set_xlabel("epoch, counted from 0", size=FONT + 2, color=INK)
    axes.set_ylabel("factor, $λ$ or $p$", size=FONT + 2, color=INK)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=FONT + 1)
    return figure


def _draw_attention(axes: Axes, middle: float, alphas: np.ndarray, embedding: str) -> None:
    """One panel of Figure 2.1, upwards: words, states, scores, softmax, weights, embedding."""
    places = middle + 0.56 * (np.arange(len(_SHORT)) - 2)
    last, floor, tallest = places[-1], 2.5, 0.75
    _draw_recurrence(axes, places, _SHORT, 0.85, lit=[len(_SHORT) - 1], colour=ATTENTION)
    write(axes, last + 0.3, 1.25, "$q$", 2.5)
    # The query runs behind all scores, so that each is seen to be a product with it.
    corner = last + 0.15
    axes.plot([corner, corner, places[0]], [1.05, 1.65, 1.65], color=ATTENTION, lw=2.2, zorder=0.5)
    axes.add_patch(box(middle - 1.4, 2.06, 2.8, 0.3, QUIET))
    write(axes, middle, 2.2, "softmax", 1.5)
    axes.plot([places[0] - 0.25, last + 0.25], [floor, floor], color=INK, lw=0.8)
    for name, x, alpha in zip(_SHORT, places, alphas, strict=True):
        if name == "…":
            write(axes, x, 1.65, name, 3, backgroundcolor="white")
            write(axes, x, floor + 0.12, name, 3)
            continue
        arrow(axes, (x, 1.1), (x, 1.5), GREY, 1.0)
        axes.add_patch(box(x - 0.235, 1.5, 0.47, 0.3, "white", edge=ATTENTION))
        write(axes, x, 1.65, rf"$\hat h_{name} \cdot q$", 0.5)
        arrow(axes, (x, 1.82), (x, 2.05), GREY, 1.0)
        if not alpha:
            write(axes, x, floor + 0.12, "0", 1.5)
            continue
        top = floor + tallest * alpha
        axes.add_patch(Rectangle((x - 0.14, floor), 0.28, top - floor, facecolor=ATTENTION, lw=0))
        end = (middle + 0.3 * (x - middle), 3.76)
        arrow(axes, (x, top + 0.06), end, ATTENTION, THICKEST * alpha)
    axes.add_patch(box(middle - 0.9, 3.78, 1.8, 0.34, INK))
    write(axes, middle, 3.94, embedding, 2.5, color="white")


def _draw_gates(axes: Axes, places: np.ndarray, dropped: Sequence[int]) -> None:
    """One panel of Figure 2.2: the chain, a gate above each state but the last, the embedding."""
    last = len(_CHAIN) - 1
    gates = [place for place, name in enumerate(_CHAIN[:last]) if name != "…"]
    reach = min({*gates, last} - {*dropped})
    _draw_recurrence(axes, places, _CHAIN, 0.68, lit=range(reach + 1), colour=CHAIN, chain=reach)
    axes.add_patch(box(places[0] - 0.3, 1.5, places[-1] - places[0] + 0.6, 0.28, INK))
    embedding = "h_n" if reach == last else r"\Sigma_t\,\alpha_t h_t"
    write(axes, places.mean(), 1.63, rf"$s_\mathrm{{emb}} = {embedding}$", 2, color="white")
    for place in (*gates, last):
        x, start, end = places[place], 0.68 + _RADIUS, 1.48
        if place in dropped:
            axes.plot([x, x], [start, end], color="#c4c4c4", lw=1.0, ls=":", zorder=0.5)
        else:
            ink, thick = (CHAIN, 3.0) if place == reach else (ATTENTION, 1.6)
            arrow(axes, (x, start), (x, end), ink, thick)
        if place != last:
            _gate(axes, x, 1.17, dropped=place in dropped)


def _draw_recurrence(
    axes: Axes,
    places: np.ndarray,
    names: Sequence[str],
    y: float,
    lit: Sequence[int],
    colour: str,
    chain: int = 0,
) -> None:
    """Words, states and the connections between states; the first ``chain`` of these highlighted."""
    for place, (name, x) in enumerate(zip(names, places, strict=True)):
        if name == "…":
            write(axes, x, y, name, 3)
            write(axes, x, 0.17, name, 3)
            continue
        axes.add_patch(Circle((x, y), _RADIUS, facecolor=colour if place in lit else QUIET, lw=0))
        write(axes, x, y, f"$h_{{{name}}}$", 2 if len(name) == 1 else 0.5)
        write(axes, x, 0.17, f"$x_{{{name}}}$", 2)
        arrow(axes, (x, 0.28), (x, y - _RADIUS - 0.01), GREY, 1.0)
    for place, (x, following) in enumerate(pairwise(places)):
        ink, thick = (colour, 3.0) if place < chain else (GREY, 1.0)
        arrow(axes, (x + _RADIUS + 0.01, y), (following - _RADIUS - 0.01, y), ink, thick)


def _gate(axes: Axes, x: float, y: float, dropped: bool) -> None:
    half = 0.12
    face, edge = ("white", GREY) if dropped else (ATTENTION, ATTENTION)
    axes.add_patch(box(x - half, y - half, 2 * half, 2 * half, face, edge=edge))
    if dropped:
        write(axes, x, y, "×", 5, color=INK)


def _checked_epochs(
    curves: Mapping[str, Sequence[float]], eligible: range, labels: Mapping[str, str]
) -> int:
    if not 1 <= len(curves) <= len(_LOOKS):
        raise InputError(f"curves: give between one and {len(_LOOKS)}, not {len(curves)}")
    lengths = {name: len(values) for name, values in curves.items()}
    epochs = next(iter(lengths.values()))
    if not epochs or set(lengths.values()) != {epochs}:
        raise InputError(f"curves: give each the same number of epochs, not {lengths}")
    for name, values in curves.items():
        if not all(math.isfinite(value) for value in values):
            raise InputError(
                f"curves: the values of {name!r} are not all finite; leave such a curve out"
            )
    if not eligible or eligible.step != 1 or eligible[0] < 0 or eligible[-1] >= epochs:
        raise InputError(f"eligible: give consecutive epochs within range(0, {epochs}), not {eligible}")
    unknown = sorted(set(labels) - set(curves))
    if unknown:
        raise InputError(f"labels: no curve is named {', '.join(unknown)}; choose from {list(curves)}")
    return epochs
