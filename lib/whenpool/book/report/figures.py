"""Figures in one style: a colour for each pooling throughout the book, safe for the colour-blind."""

import warnings
from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from whenpool.models.registry import COLOURS
from whenpool.corpora.settings import SHARE

TRICK_COLOURS = {
    "teacher_forcing": "#0072b2",
    "penalty_attention": COLOURS["last_attention"],
    "dropout_attention": "#002d5a",
    "gradient_directed": "#692d0f",
}
"""For what is no pooling."""
CHANCE_COLOUR = "#767676"


def use_style() -> None:
    """Set the style, and sharp drawings where a notebook shows them."""
    sns.set_theme(context="notebook", style="whitegrid", font_scale=0.85)
    plt.rcParams |= {"figure.constrained_layout.use": True, "svg.hashsalt": "whenpool"}
    warnings.filterwarnings("ignore", "The figure layout has changed")  # by seaborn's grids, on purpose
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg")
    except ImportError:  # outside a notebook
        pass


def draw_settings(share: float = SHARE) -> Figure:
    """What the four settings look like: where the text stands among the filler (§1.8.1)."""
    figure, axes = plt.subplots(figsize=(7, 2.3))
    text = 1 - share
    layouts = {
        "standard": [("text", text)],
        "left": [("text", text), ("filler", share)],
        "mid": [("filler", share / 2), ("text", text), ("filler", share / 2)],
        "right": [("filler", share), ("text", text)],
    }
    looks = {"text": (COLOURS["max_attention"], "white"), "filler": ("#d9d9d9", "#333333")}
    for row, (setting, pieces) in enumerate(layouts.items()):
        start = 0.0
        for kind, width in pieces:
            face, ink = looks[kind]
            box = FancyBboxPatch(
                (start + 0.004, row - 0.32), width - 0.008, 0.64, facecolor=face, edgecolor="none",
                boxstyle="round,pad=0,rounding_size=0.02", mutation_aspect=12,
            )  # fmt: skip
            axes.add_patch(box)
            label = "the review" if kind == "text" else "filler sentences"
            axes.text(start + width / 2, row, label, ha="center", va="center", color=ink, fontsize=9)
            start += width
        axes.text(-0.02, row, setting, ha="right", va="center", fontsize=10)
    axes.set(xlim=(-0.01, 1.01), ylim=(len(layouts) - 0.5, -0.5))
    axes.axis("off")
    return figure


def make_panels(count: int) -> tuple[Figure, list[Axes]]:
    """Panels two abreast, which stay legible on a phone."""
    columns = min(count, 2)
    rows = -(-count // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(3.3 * columns, 2.7 * rows + 0.4), sharex=True, sharey=True, squeeze=False
    )
    for axes in grid.flat[count:]:
        axes.remove()
    return figure, list(grid.flat[:count])


def finish(figure: Figure, panels: Sequence[Axes], vertical: str, horizontal: str) -> None:
    """One label for the vertical axes, one below each column of panels, one legend for all."""
    figure.supylabel(vertical, fontsize="medium")
    for axes in panels[-2:]:
        axes.set_xlabel(horizontal)
    handles, labels = legend_of(panels)
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def legend_of(panels: Iterable[Axes]) -> tuple[list[Artist], list[str]]:
    """Handles and labels of all lines, each label once, whichever panels it is in."""
    found: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def nothing_yet() -> Figure:
    """A figure for runs that are still to be done."""
    figure, axes = plt.subplots(figsize=(6, 1))
    axes.text(0.5, 0.5, "no such runs yet", ha="center", va="center", color=CHANCE_COLOUR)
    axes.axis("off")
    return figure
