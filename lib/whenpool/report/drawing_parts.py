"""What drawings are put together from: panels whose unit is the inch, words, arrows."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from whenpool.report.drawings import FONT, INK


def panel(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes without frame whose unit is the inch."""
    whole_width, whole_height = figure.get_size_inches()
    box = (left / whole_width, bottom / whole_height, width / whole_width, height / whole_height)
    axes = figure.add_axes(box)
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return axes


def write(axes: Axes, x: float, y: float, words: str, larger: float, **look: Any) -> None:
    """Text centred at a point, ``larger`` points larger than `FONT`."""
    defaults: dict[str, Any] = {"color": INK, "ha": "center", "va": "center"}
    axes.text(x, y, words, size=FONT + larger, **(defaults | look))


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, thick: float
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=7 + 2.2 * thick, color=colour, lw=thick,
            shrinkA=0, shrinkB=0, capstyle="butt", joinstyle="miter",
        )
    )  # fmt: skip
