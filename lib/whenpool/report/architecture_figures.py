"""The drawing of "Other architectures" (thesis §1.3.3, §1.11.1)."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from whenpool.report.drawings import FONT, INK, QUIET, SIGNAL, WIDTH, arrow

if TYPE_CHECKING:
    pass


def draw_paths() -> Figure:
    """How a state comes to know of other words: through the states between, or by looking at each.

    On the right the scores that this takes, a square for every two words.
    """
    figure, panels = plt.subplots(
        1, 3, figsize=(WIDTH, 2.5), width_ratios=[1.2, 1.2, 0.9], layout="none"
    )
    figure.subplots_adjust(0.01, 0.02, 0.99, 0.88, wspace=0.04)
    titles = ("a recurrence", "self-attention", "its scores")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, size=FONT + 3, color=INK, pad=2)
        axes.set(xlim=(0, 3.0), ylim=(0, 2.6), aspect="equal")
        axes.axis("off")
    count, last = 5, 4
    places = np.linspace(0.3, 2.7, count)
    for axes in panels[:2]:
        for place, x in enumerate(places):
            axes.add_patch(Circle((x, 0.4), 0.17, facecolor=QUIET, lw=0))
            axes.text(x, 0.4, f"$x_{place + 1}$", size=FONT, color=INK, ha="center", va="center")
            lit = place == last
            axes.add_patch(Circle((x, 2.0), 0.2, facecolor=SIGNAL if lit else "#bdbdbd", lw=0))
            ink = "white" if lit else INK
            axes.text(x, 2.0, f"$h_{place + 1}$", size=FONT, color=ink, ha="center", va="center")
    for place, x in enumerate(places):
        arrow(panels[0], (x, 0.6), (x, 1.78), "#8a8a8a", 0.9)
        if place < last:
            arrow(panels[0], (x + 0.21, 2.0), (places[place + 1] - 0.21, 2.0), SIGNAL, 2.0)
        end = (places[last] - 0.05 * (last - place), 1.78)
        arrow(panels[1], (x, 0.6), end, SIGNAL, 2.0)
    side = 0.4
    for row in range(count):
        for column in range(count):
            face = SIGNAL if row == last else QUIET
            corner = (0.6 + side * column, 2.3 - side * (row + 1))
            panels[2].add_patch(Rectangle(corner, side - 0.04, side - 0.04, facecolor=face, lw=0))
    label = f"{count} words, {count * count} scores"
    panels[2].text(1.58, 0.1, label, size=FONT, color=INK, ha="center", va="center")
    return figure
