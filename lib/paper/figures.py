"""Figures in one style, and a second layout of each for a phone: its panels below each other, or
two in a line.

A figure carries it in its metadata; a drawing made by hand names its panels, ``data-phone="x y
width height;
..."``. ``lib/paper/pages/finish.py`` makes a file of it for narrow screens; a notebook shows the
wide one.
"""

import math
import textwrap
import warnings
from html import escape
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns
from IPython import get_ipython
from matplotlib.artist import getp
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib_inline.backend_inline import set_matplotlib_formats

from paper import CLOSE, OPEN

_WIDTH = 3.7  # Inches: what 390 pixels hold at the size of type that the wide figure has
_TALLEST = 2.6  # Inches of a panel


def use_style() -> None:
    """Set the style, and sharp drawings where a notebook shows them, with a layout for phones."""
    sns.set_theme(context="notebook", style="whitegrid", font_scale=0.85)
    plt.rcParams |= {"figure.constrained_layout.use": True, "svg.hashsalt": "whenpool"}
    warnings.filterwarnings(
        "ignore", "The figure layout has changed"
    )  # by seaborn's grids, on purpose
    if shell := get_ipython():
        set_matplotlib_formats("svg")
        shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, drawn_twice)


def drawn_twice(figure: Figure) -> str | None:
    """A figure as SVG, with its layout for a phone in the metadata, in which the figure is left."""
    from IPython.core.pylabtools import print_figure

    wide = print_figure(figure, "svg")
    if wide is None or not all(axes.get_subplotspec() for axes in figure.axes):
        return wide
    stack(figure)
    before, _, after = wide.rpartition("</svg>")
    return before + OPEN + escape(print_figure(figure, "svg"), quote=False) + CLOSE + after


def stack(figure: Figure) -> None:
    """Lay a figure out for a phone: legends above, panels in one column, or an even number of more
    in two. Of two rows of many panels each becomes a column."""
    places: dict[Axes, Any] = {axes: axes.get_subplotspec() for axes in figure.axes}
    rows, wide = places[figure.axes[0]].get_gridspec().get_geometry()
    by_column = rows == 2 < wide
    numbers = {axes: place.num1 for axes, place in places.items()}
    panels = sorted(numbers, key=lambda axes: (numbers[axes] % wide * by_column, numbers[axes]))
    columns = 2 if len(panels) % 2 == 0 and len(panels) > 2 else 1
    if wide == 3 and rows > 2:  # a column for each setting stays one
        columns = 3
    lines = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    tall = [min(_TALLEST, max(axes.bbox.height for axes in line) / figure.dpi) for line in lines]
    labels = {axes: (_label(axes, "x"), _label(axes, "y")) for axes in panels}
    figure.set_size_inches(_WIDTH, sum(tall) + 0.6 + 0.35 * len(lines))
    figure.set_layout_engine("constrained")
    grid = figure.add_gridspec(len(lines), columns, height_ratios=tall)
    for number, axes in enumerate(panels):
        axes.set_subplotspec(grid[divmod(number, columns)])
        below, beside = panels[number + columns : number + columns + 1], panels[number - 1 : number]
        has_x = not below or not axes.get_shared_x_axes().joined(axes, below[0])
        has_y = number % columns == 0 or not axes.get_shared_y_axes().joined(axes, beside[0])
        axes.tick_params(which="both", labelbottom=has_x, labelleft=has_y)
        xlabel, ylabel = labels[axes]
        axes.set_xlabel(xlabel if has_x and not (below and labels[below[0]][0] == xlabel) else "")
        axes.set_ylabel(ylabel if has_y else "")
        axes.xaxis.label.set_visible(True)
        axes.yaxis.label.set_visible(True)
    for legend in [*figure.legends, *filter(None, (axes.get_legend() for axes in panels))]:
        _put_above(figure, legend)
    for text in figure.texts:
        text.set_text(textwrap.fill(text.get_text(), 42))
    figure.canvas.draw()
    for axes in panels:
        _fit(axes)


def _label(axes: Axes, name: str) -> str:
    """The label of an axis of a panel, also where another panel that shares it has it."""
    shared = getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)
    return next(filter(None, (getattr(each, f"get_{name}label")() for each in [axes, *shared])), "")


def _put_above(figure: Figure, legend: Legend) -> None:
    """Put a legend above the panels, in as few lines as fit, without heads of its entries."""
    entries = zip(
        legend.legend_handles, (text.get_text() for text in legend.get_texts()), strict=True
    )
    shown = [(mark, name) for mark, name in entries if mark and getp(mark, "linewidth") != 0]
    legend.remove()
    look: dict[str, Any] = {"frameon": False, "columnspacing": 1, "handlelength": 2.5}
    look["loc"] = "outside upper center"
    for lines in range(1, len(shown) + 1):
        above = figure.legend(
            *zip(*shown, strict=True), ncols=math.ceil(len(shown) / lines), **look
        )
        if lines == len(shown) or above.get_window_extent().width < figure.bbox.width:
            break
        above.remove()


def _fit(axes: Axes) -> None:
    """Break titles and labels that are longer than a panel, and names beside it that take half of
    the screen; turn what is below an axis and runs into each other."""
    box = axes.get_window_extent()
    titles = [
        text for text in axes.get_children() if isinstance(text, Text) and text not in axes.texts
    ]
    rooms = dict.fromkeys([*titles, axes.xaxis.label], box.width) | {axes.yaxis.label: box.height}
    for text, room in rooms.items():
        extent, words = text.get_window_extent(), text.get_text()
        long = max(extent.width, extent.height)
        if words and long > 1.05 * room and "\n" not in words:
            text.set_text(textwrap.fill(words, max(8, len(words) // math.ceil(long / room) + 4)))
    names = axes.get_yticklabels()
    widest = max((name.get_window_extent().width for name in names), default=0)
    if widest > 0.45 * axes.figure.bbox.width:
        axes.set_yticks(axes.get_yticks(), [textwrap.fill(name.get_text(), 22) for name in names])
    shown = [label for label in axes.get_xticklabels() if label.get_text() and label.get_visible()]
    boxes = [label.get_window_extent() for label in shown]
    if any(box.x1 + 4 > following.x0 for box, following in pairwise(boxes)):
        axes.tick_params("x", rotation=90)
