"""Figures in one style: a colour for each pooling throughout the book, safe for the colour-blind."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from whenpool.registry import COLOURS, MARKERS, POOLING_NAMES
from whenpool.report.tables import size_text
from whenpool.settings import SHARE

if TYPE_CHECKING:
    from pandas import DataFrame

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


def draw_accuracy_by_setting(runs: "DataFrame", settings: Sequence[str]) -> Figure:
    """A panel for each setting, a point for each run: test accuracy by pooling.

    Args:
        runs: rows of `Store.trainings`, one training size.
    """
    if not settings:
        return nothing_yet()
    poolings = [name for name in POOLING_NAMES if name in set(runs["pooling"])]
    figure, panels = make_panels(len(settings))
    for axes, setting in zip(panels, settings, strict=True):
        for place, pooling in enumerate(poolings):
            values = runs.query("setting == @setting and pooling == @pooling")["test_accuracy"]
            axes.bar(place, values.mean(), color=COLOURS[pooling], alpha=0.85, width=0.75, zorder=2)
            axes.plot(
                np.full(len(values), place),
                values,
                "o",
                color="white",
                markeredgecolor="#222222",
                ms=4.5,
                zorder=3,
            )
        _draw_chance(axes, runs)
        axes.set_title(setting)
        axes.set_xticks(
            range(len(poolings)), [POOLING_NAMES[p] for p in poolings], rotation=60, ha="right"
        )
        axes.grid(axis="x", visible=False)
    lowest = min(runs["test_accuracy"].min(), runs["majority_accuracy"].min())
    panels[0].set_ylim(max(0, lowest - 8), min(100, runs["test_accuracy"].max() + 4))
    figure.supylabel("test accuracy, %", fontsize="medium")
    return figure


def draw_accuracy_by_size(cells: "DataFrame", settings: Sequence[str]) -> Figure:
    """A panel for each setting, a line for each pooling: accuracy over the training size.

    The thesis's means are lines with a band of one standard deviation; ours are large points with
    bars.

    Args:
        cells: judged cells of one corpus and length.
    """
    if not settings:
        return nothing_yet()
    figure, panels = make_panels(len(settings))
    poolings = [name for name in POOLING_NAMES if name in set(cells["pooling"])]
    for axes, setting in zip(panels, settings, strict=True):
        for place, pooling in enumerate(poolings):
            rows = cells.query("setting == @setting and pooling == @pooling").sort_values("size")
            colour = COLOURS[pooling]
            axes.plot(
                rows["size"], rows["mean"], "-", color=colour, lw=1.3, label=POOLING_NAMES[pooling]
            )
            axes.fill_between(
                rows["size"],
                rows["mean"] - rows["std"],
                rows["mean"] + rows["std"],
                color=colour,
                alpha=0.12,
                lw=0,
            )
            ours = rows[rows["n"] > 0]
            axes.errorbar(
                ours["size"] * 1.05 ** (place - 2), ours["ours"], yerr=ours["ours_std"].fillna(0),
                fmt=MARKERS[pooling], color=colour, ms=6, markeredgecolor="white", capsize=2, zorder=4,
            )  # fmt: skip
        axes.set_xscale("log")
        sizes = sorted(cells["size"].unique())
        axes.set_xticks(sizes, [size_text(size) for size in sizes])
        axes.minorticks_off()
        axes.set_title(setting)
    finish(figure, panels, "test accuracy, %", "training texts")
    return figure


def draw_learning_curves(histories: "DataFrame", settings: Sequence[str]) -> Figure:
    """Training (dashed) and validation (solid) accuracy over epochs, the mean over seeds.

    Args:
        histories: rows of `Store.histories` with the columns ``setting`` and ``pooling``.
    """
    if not settings:
        return nothing_yet()
    figure, panels = make_panels(len(settings))
    poolings = [name for name in POOLING_NAMES if name in set(histories["pooling"])]
    for axes, setting in zip(panels, settings, strict=True):
        for pooling in poolings:
            rows = histories.query("setting == @setting and pooling == @pooling")
            means = rows.groupby("epoch")[["train_accuracy", "validation_accuracy"]].mean()
            axes.plot(
                means.index,
                means["validation_accuracy"],
                color=COLOURS[pooling],
                label=POOLING_NAMES[pooling],
            )
            axes.plot(means.index, means["train_accuracy"], "--", color=COLOURS[pooling], lw=0.9)
        axes.set_title(setting)
    finish(figure, panels, "accuracy, %", "epoch")
    return figure


def draw_evidence(runs: "DataFrame") -> Figure:
    """Accuracy over the density of evidence, a panel for each length of text, a line a pooling.

    Args:
        runs: rows of `Store.trainings` with the columns ``words`` (as written in the title) and
            ``density``.
    """
    if runs.empty:
        return nothing_yet()
    lengths = list(dict.fromkeys(runs["words"]))
    figure, panels = make_panels(len(lengths))
    poolings = [name for name in POOLING_NAMES if name in set(runs["pooling"])]
    for axes, words in zip(panels, lengths, strict=True):
        for pooling in poolings:
            rows = runs.query("words == @words and pooling == @pooling").sort_values("density")
            axes.plot(
                100 * rows["density"], rows["test_accuracy"], marker=MARKERS[pooling], ms=6,
                color=COLOURS[pooling], label=POOLING_NAMES[pooling],
            )  # fmt: skip
        _draw_chance(axes, runs)
        axes.set_title(f"texts of {words} words")
    finish(figure, panels, "test accuracy, %", "words that are evidence, %")
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


def _draw_chance(axes: Axes, runs: "DataFrame") -> None:
    axes.axhline(runs["majority_accuracy"].mean(), color=CHANCE_COLOUR, ls=":", lw=1.2, zorder=1)


def nothing_yet() -> Figure:
    """A figure for runs that are still to be done."""
    figure, axes = plt.subplots(figsize=(6, 1))
    axes.text(0.5, 0.5, "no such runs yet", ha="center", va="center", color=CHANCE_COLOUR)
    axes.axis("off")
    return figure
