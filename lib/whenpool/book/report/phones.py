"""A second layout of each figure, for a phone: its panels below each other, or two beside each other.

A figure carries it in its metadata; a drawing made by hand names its panels, ``data-phone="x y width height;
..."``. `whenpool.book.pages` makes a file of it, which a narrow screen shows; a notebook shows the wide one.
"""

import math
import re
import textwrap
from html import escape, unescape
from itertools import groupby, pairwise

from matplotlib.artist import getp
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

PHONE = "-phone"  # What is appended to the name of the narrow file
_OPEN, _CLOSE = '<metadata id="phone">', "</metadata></svg>"
_WIDTH = 3.7  # Inches: what 390 pixels hold at the size of type that the wide figure has
_PIXELS = 342  # What they hold of drawings made by hand
_TALLEST = 2.6  # Inches of a panel


def drawn_twice(figure: Figure) -> str | None:
    """A figure as SVG, with its layout for a phone in the metadata, in which the figure is left."""
    from IPython.core.pylabtools import print_figure

    wide = print_figure(figure, "svg")
    if wide is None or not all(axes.get_subplotspec() for axes in figure.axes):
        return wide
    stack(figure)
    before, _, after = wide.rpartition("</svg>")
    return before + _OPEN + escape(print_figure(figure, "svg"), quote=False) + _CLOSE + after


def parted(svg: str) -> tuple[str, str | None]:
    """A drawing as it is wide, and its layout for a phone, None where there is none."""
    wide, _, rest = svg.partition(_OPEN)
    narrow, _, end = rest.partition(_CLOSE)
    return (f"{wide}</svg>{end}", unescape(narrow)) if narrow else (svg, _panels_in_lines(svg))


def _panels_in_lines(svg: str) -> str | None:
    """The panels that a drawing names, in lines as wide as a phone, each as large as it is in the whole."""
    whole = r'<svg(.*?)( width="\d+")? viewBox="\d+ \d+ (\d+) \d+" data-phone="(.*?)"(.*?)>(.*)</svg>'
    if not (match := re.search(whole, svg, re.DOTALL)):
        return None
    before, shown, units, boxes, after, content = match.groups()
    scale = int(shown[8:-1]) / int(units) if shown else 1
    x, y, line, widest, parts = 0, 0, 0, 0, []
    for left, top, width, height in (map(int, box.split()) for box in boxes.split(";")):
        if x and (x + width) * scale > _PIXELS:
            x, y = 0, line
        view = f'viewBox="{left} {top} {width} {height}"'
        parts.append(f'<svg x="{x}" y="{y}" width="{width}" height="{height}" {view}>{content}</svg>')
        x, line, widest = x + width, max(line, y + height), max(widest, x + width)
    before += f' width="{widest * scale:.0f}"' * bool(shown)
    return f'<svg{before} viewBox="0 0 {widest} {line}"{after}>{"".join(parts)}</svg>'


def stack(figure: Figure) -> None:
    """Lay a figure out for a phone: legends above, panels in one column, or in two that share an axis."""
    panels = sorted(figure.axes, key=_place)
    rows = [list(row) for _, row in groupby(panels, key=lambda axes: _place(axes)[0])]
    outside = list(figure.legends)
    for axes in panels:
        if legend := axes.get_legend():  # beside its panel or above
            box, panel = legend.get_window_extent(), axes.get_window_extent()
            outside += [legend] if box.x0 >= panel.x1 or box.y0 >= panel.y1 else []
    heights = {axes: min(_TALLEST, axes.get_window_extent().height / figure.dpi) for axes in panels}
    labels = {axes: _labels(axes, rows) for axes in panels}
    share_y = all(rows[0][0].get_shared_y_axes().joined(rows[0][0], axes) for axes in rows[0])
    columns = 2 if len(panels) % 2 == 0 and len(panels) > 2 and share_y else 1
    if len(rows) == 2 < len(rows[0]) == len(rows[1]):  # two rows of many panels become two columns
        panels = [axes for pair in zip(*rows, strict=True) for axes in pair]
        columns = 2
    lines = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    tall = [max(heights[axes] for axes in line) for line in lines]
    figure.set_size_inches(_WIDTH, sum(tall) + 0.6 + 0.35 * len(lines))
    figure.set_layout_engine("constrained")
    grid = figure.add_gridspec(len(lines), columns, height_ratios=tall)
    for number, axes in enumerate(panels):
        line, column = divmod(number, columns)
        axes.set_subplotspec(grid[line, column])
        below = panels[number + columns] if number + columns < len(panels) else None
        has_x = below is None or not axes.get_shared_x_axes().joined(axes, below)
        has_y = column == 0 or not axes.get_shared_y_axes().joined(axes, panels[number - 1])
        axes.tick_params(which="both", labelbottom=has_x, labelleft=has_y)
        xlabel, ylabel = labels[axes]
        axes.set_xlabel("" if not has_x or (below and labels[below][0] == xlabel) else xlabel)
        axes.set_ylabel(ylabel if has_y else "")
        axes.xaxis.label.set_visible(True)
        axes.yaxis.label.set_visible(True)
    _put_above(figure, outside)
    for text in figure.texts:
        text.set_text(textwrap.fill(text.get_text(), 42))
    figure.canvas.draw()
    inside = [(legend, axes) for axes in panels if (legend := axes.get_legend())]
    wide = [
        legend for legend, axes in inside if legend.get_window_extent().width > 0.7 * axes.bbox.width
    ]
    _put_above(figure, wide)  # they hide too much
    figure.canvas.draw()
    for axes in panels:
        _fit(axes)


def _place(axes: Axes) -> tuple[int, int]:
    """The row and column of a panel in the wide figure."""
    place = axes.get_subplotspec()
    return (place.rowspan.start, place.colspan.start) if place else (0, 0)


def _labels(axes: Axes, rows: list[list[Axes]]) -> tuple[str, str]:
    """The labels of both axes of a panel, also where the lowest or the leftmost panel has them for it."""
    row, column = _place(axes)
    column_of = [other for line in reversed(rows) for other in line if _place(other)[1] == column]
    row_of = next(line for line in rows if _place(line[0])[0] == row)
    shared_x, shared_y = axes.get_shared_x_axes(), axes.get_shared_y_axes()
    xlabels = [axes.get_xlabel(), *(o.get_xlabel() for o in column_of if shared_x.joined(axes, o))]
    ylabels = [axes.get_ylabel(), *(o.get_ylabel() for o in row_of[:1] if shared_y.joined(axes, o))]
    return next(filter(None, xlabels), ""), next(filter(None, ylabels), "")


def _put_above(figure: Figure, legends: list[Legend]) -> None:
    """Put legends above the panels, in as few lines as fit, without heads of their entries."""
    for legend in legends:
        entries = zip(
            legend.legend_handles, [text.get_text() for text in legend.get_texts()], strict=True
        )
        shown = [(mark, name) for mark, name in entries if mark and getp(mark, "linewidth") != 0]
        legend.remove()
        for lines in range(1, len(shown) + 1):
            above = figure.legend(
                *zip(*shown, strict=True), loc="outside upper center", ncols=math.ceil(len(shown) / lines),
                frameon=False, columnspacing=1, handlelength=2.5,
            )  # fmt: skip
            if lines == len(shown) or above.get_window_extent().width < figure.bbox.width:
                break
            above.remove()


def _fit(axes: Axes) -> None:
    """Break titles and labels that are longer than a panel, and names beside it that take half of the
    screen. Turn words below an axis that run into each other, and leave out every other of such numbers."""
    box = axes.get_window_extent()
    titles = [text for text in axes.get_children() if isinstance(text, Text) and text not in axes.texts]
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
        if max(len(label.get_text()) for label in shown) > 4:
            axes.tick_params("x", rotation=90)
        else:
            for label in shown[1::2]:
                label.set_visible(False)
