"""Figures of the gradients of cells over a sequence."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from whenpool.registry import LISTED_CELLS
from whenpool.report.figures import nothing_yet
from whenpool.report.recurrent import with_title

if TYPE_CHECKING:
    from pandas import DataFrame

FLOOR = 1e-12
"""Below this a line ends: float32 keeps no more of a sum."""
_LINES = ("-", "--", ":", "-.")


def draw_cell_profiles(profiles: "DataFrame") -> Figure:
    """‖∂L/∂h_t‖ over the text relative to the last word's, before and after training, a line a model.

    Models of one cell have its colour and differ in their line.

    Args:
        profiles: what `whenpool.probing.GradientProfile` measured on models without pooling.
    """
    if profiles.empty:
        return nothing_yet()
    named = with_title(profiles.assign(untrained=profiles["untrained"].eq(True)))
    figure, panels = plt.subplots(1, 2, figsize=(7, 4.4), sharey=True)
    for axes, untrained in zip(panels, (True, False), strict=True):
        seen: dict[str, int] = {}
        for model, rows in named[named["untrained"] == untrained].groupby("model", sort=False):
            cell = LISTED_CELLS[rows["cell"].iloc[0]]
            style = seen[cell.title] = seen.get(cell.title, -1) + 1
            mean = rows.groupby("position")["mean"].mean()
            relative = (mean / mean.iloc[-1]).to_numpy()
            relative = np.where(relative > FLOOR, relative, np.nan)
            axes.plot(
                np.linspace(0, 100, len(relative)), relative, _LINES[style % len(_LINES)],
                color=cell.colour, marker=cell.marker, markevery=(style * 5, 20), ms=6, lw=1.8,
                markeredgecolor="white", markeredgewidth=0.6, label=model,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_title("before training" if untrained else "after training")
        axes.set_xlabel("place in the text, %")
    panels[0].set_ylabel("gradient norm, last word = 1")
    handles, labels = max((axes.get_legend_handles_labels() for axes in panels), key=lambda p: len(p[0]))
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize="medium")
    return figure
