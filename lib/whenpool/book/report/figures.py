"""Figures in one style: a colour for each pooling throughout the book, safe for the colour-blind."""

import warnings

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure
from seaborn.axisgrid import Grid

from whenpool.book.report.phones import drawn_twice
from whenpool.models.registry import COLOURS

TRICK_COLOURS = {
    "teacher_forcing": "#0072b2",
    "penalty_attention": COLOURS["last_attention"],
    "dropout_attention": "#002d5a",
    "gradient_directed": "#692d0f",
}
"""For what is no pooling."""
CHANCE_COLOUR = "#767676"
START_COLOURS = {"forget 2": "#000000", "chrono": "#7b3294", "orthogonal": CHANCE_COLOUR}
"""For other initialisations of the BiLSTM."""


def use_style() -> None:
    """Set the style, and sharp drawings where a notebook shows them, with a layout for phones."""
    sns.set_theme(context="notebook", style="whitegrid", font_scale=0.85)
    plt.rcParams |= {"figure.constrained_layout.use": True, "svg.hashsalt": "whenpool"}
    warnings.filterwarnings("ignore", "The figure layout has changed")  # by seaborn's grids, on purpose
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg")
        if shell := get_ipython():
            shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, drawn_twice)
    except ImportError:  # outside a notebook
        pass


def legend_above(grid: Grid, columns: int = 5) -> None:
    """Put the legend of seaborn's panels above them, so that they have the whole width of a page."""
    place = {"loc": "lower center", "bbox_to_anchor": (0.45, 1)}
    sns.move_legend(grid, **place, ncols=columns, title=None, frameon=False)


def nothing_yet() -> Figure:
    """A figure for runs that are still to be done."""
    figure, axes = plt.subplots(figsize=(6, 1))
    axes.text(0.5, 0.5, "no such runs yet", ha="center", va="center", color=CHANCE_COLOUR)
    axes.axis("off")
    return figure
