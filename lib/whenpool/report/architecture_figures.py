"""The figures of "Other architectures" (thesis §1.3.3, §1.11.1)."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.registry import COLOURS, LISTED_CELLS, POOLING_NAMES
from whenpool.report.architectures import MEMORY_NAMES, WITHOUT
from whenpool.report.figures import CHANCE_COLOUR, finish, legend_of, make_panels, nothing_yet
from whenpool.report.skip import settings_of

if TYPE_CHECKING:
    from pandas import DataFrame

TITLES = {"last": "no pooling", "max_attention": "max-attention"}
_MEMORY_LOOKS = {
    "BiLSTM": (LISTED_CELLS["lstm"].colour, "s", "-"),
    "Transformer, scores kept": (LISTED_CELLS["transformer"].colour, "h", "--"),
    "Transformer, fused": (LISTED_CELLS["transformer"].colour, "o", "-"),
}


def draw_accuracies(runs: "DataFrame") -> Figure:
    """A panel for each setting, for each cell a bar for each pooling: test accuracy, a point a seed.

    Args:
        runs: from `whenpool.report.architectures.in_order`.
    """
    if runs.empty:
        return nothing_yet()
    figure, panels = make_panels(len(settings_of(runs)))
    cells = list(dict.fromkeys(runs["cell"]))
    for pooling in (name for name in POOLING_NAMES if name in set(runs["pooling"])):
        label = WITHOUT if pooling == "last" else POOLING_NAMES[pooling]
        panels[0].bar(0, 0, color=COLOURS[pooling], label=label)  # the legend, in their order
    for axes, setting in zip(panels, settings_of(runs), strict=True):
        own = runs[runs["setting"] == setting]
        for place, cell in enumerate(cells):
            poolings = dict.fromkeys(own.loc[own["cell"] == cell, "pooling"])
            for number, pooling in enumerate(poolings):
                values = own[(own["cell"] == cell) & (own["pooling"] == pooling)]["test_accuracy"]
                wide = 0.8 / max(len(poolings), 2)
                at = place + (number - (len(poolings) - 1) / 2) * wide
                axes.bar(at, values.mean(), wide * 0.92, color=COLOURS[pooling], zorder=2)
                axes.plot(
                    np.full(len(values), at), values, "o", color="white", markeredgecolor="#222222",
                    ms=3.5, zorder=3,
                )  # fmt: skip
        axes.axhline(own["majority_accuracy"].mean(), color=CHANCE_COLOUR, ls=":", lw=1.2, zorder=1)
        axes.set_title(setting)
        axes.set_xticks(
            range(len(cells)), [LISTED_CELLS[c].title for c in cells], rotation=40, ha="right"
        )
        axes.grid(axis="x", visible=False)
    lowest = min(runs["test_accuracy"].min(), runs["majority_accuracy"].min())
    panels[0].set_ylim(max(0, lowest - 6), min(100, runs["test_accuracy"].max() + 4))
    finish(figure, panels, "test accuracy, %", "")
    return figure


def draw_sweeps(sweeps: "DataFrame") -> Figure:
    """Accuracy over the share of filler, a column for each place of the text, a line for each cell;
    above without pooling, below with max-attention.

    Args:
        sweeps: rows of the probe "sweep"; the mean over seeds is drawn.
    """
    if sweeps.empty:
        return nothing_yet()
    places = [place for place in ("left", "mid", "right") if place in set(sweeps["setting_added"])]
    figure, grid = plt.subplots(
        2, len(places), figsize=(7.2, 5.0), sharex=True, sharey=True, squeeze=False
    )
    for row, (pooling, title) in zip(grid, TITLES.items(), strict=True):
        for axes, place in zip(row, places, strict=True):
            rows = sweeps[(sweeps["setting_added"] == place) & (sweeps["pooling"] == pooling)]
            for cell, part in rows.groupby("cell", sort=False):
                means = part.groupby("share_added")["accuracy"].mean()
                _line(axes, 100 * means.index.to_numpy(), means.to_numpy(), str(cell), marked=True)
        row[0].set_ylabel(f"{title}\ntest accuracy, %")
    for axes, place in zip(grid[0], places, strict=True):
        axes.set_title(f"text kept {'in the middle' if place == 'mid' else place}")
    grid[1, len(places) // 2].set_xlabel("filler, % of all words")
    handles, labels = legend_of(grid.flat)
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def draw_importance(measured: "DataFrame") -> Figure:
    """NWI over the position in the text, without pooling and with max-attention, a line for each cell.

    Args:
        measured: rows of the probe "nwi"; the mean over seeds is drawn.
    """
    if measured.empty:
        return nothing_yet()
    figure, panels = make_panels(2)
    for axes, (pooling, title) in zip(panels, TITLES.items(), strict=True):
        for cell, part in measured[measured["pooling"] == pooling].groupby("cell", sort=False):
            means = part.groupby("position")["mean"].mean()
            _line(axes, means.index.to_numpy(), means.to_numpy(), str(cell))
        axes.set(title=title, xlim=(1, 100), ylim=(0, None))
    finish(figure, panels, "normalised word importance", "position in the text, %")
    return figure


def draw_memory(rows: "DataFrame") -> Figure:
    """Megabytes of a training step over the number of words, both logarithmic; the exponents are named.

    Args:
        rows: from `whenpool.report.architectures.memory_of`.
    """
    if rows.empty:
        return nothing_yet()
    figure, axes = plt.subplots(figsize=(5.6, 3.6))
    for model in MEMORY_NAMES.values():
        part = rows[rows["model"] == model].sort_values("words")
        if part.empty:
            continue
        colour, marker, style = _MEMORY_LOOKS[model]
        label = rf"{model}: $n^{{{part['exponent'].iloc[0]:.2f}}}$"
        axes.plot(
            part["words"], part["megabytes"], style, color=colour, marker=marker, ms=5, label=label
        )
    lengths = sorted(set(rows["words"]))
    axes.set(xscale="log", yscale="log", xlabel="words", ylabel="MB of a training step")
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.minorticks_off()
    axes.legend(frameon=False)
    return figure


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, cell: str, marked: bool = False) -> None:
    look = LISTED_CELLS[cell]
    axes.plot(
        x, y, color=look.colour, label=look.title, lw=1.3, marker=look.marker if marked else None, ms=4
    )
