"""The figures of gradient propagation, natural positional bias and word importance (§1.5 to 1.9)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.report.figures import (
    CHANCE_COLOUR,
    COLOURS,
    MARKERS,
    finish,
    legend_of,
    make_panels,
    nothing_yet,
)
from whenpool.report.gradients import LOW
from whenpool.report.importance import text_span
from whenpool.report.tables import POOLING_NAMES, size_text

if TYPE_CHECKING:
    from pandas import DataFrame

SEPARATOR_COLOUR = "#b2182b"


def draw_profiles(profiles: "DataFrame") -> Figure:
    """Gradient norm over the position in the text, on a logarithmic scale, a line for each model.

    Args:
        profiles: rows of the probe "gradients" with a column ``model``; the mean over seeds is drawn.
    """
    if profiles.empty:
        return nothing_yet()
    figure, axes = plt.subplots(figsize=(6.6, 3.6))
    names = {**POOLING_NAMES, LOW: "BiLSTM, low forget gate"}
    for model, name in names.items():
        rows = profiles[profiles["model"] == model]
        if rows.empty:
            continue
        means = rows.groupby("position")["mean"].mean()
        colour, style = (COLOURS["last"], "--") if model == LOW else (COLOURS[model], "-")
        axes.plot(means.index, means, style, color=colour, label=name)
    axes.set_yscale("log")
    axes.set(xlabel="position in the text, %", ylabel="‖∂L/∂h‖", xlim=(1, 100))
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_traces(traces: "DataFrame") -> Figure:
    """The vanishing ratio over training, above the accuracies, a column for each training size.

    Args:
        traces: rows of the probe "trace"; the mean over seeds is drawn.
    """
    if traces.empty:
        return nothing_yet()
    sizes = sorted(traces["size"].unique())
    figure, grid = plt.subplots(
        2, len(sizes), figsize=(3.4 * max(len(sizes), 2), 5.2), sharex="col", sharey="row", squeeze=False
    )
    for column, size in enumerate(sizes):
        above, below = grid[0, column], grid[1, column]
        for pooling, name in POOLING_NAMES.items():
            rows = traces[(traces["size"] == size) & (traces["pooling"] == pooling)]
            if rows.empty:
                continue
            means = rows.groupby("examples")[["ratio", "train_accuracy", "validation_accuracy"]].mean()
            batches, colour = means.index / 64, COLOURS[pooling]
            above.plot(batches, means["ratio"], color=colour, label=name)
            below.plot(batches, means["validation_accuracy"], color=colour)
            below.plot(batches, means["train_accuracy"], "--", color=colour, lw=0.9)
        above.set_yscale("log")
        above.set_title(f"{size_text(size)} training texts")
        below.set_xlabel("batches of 64 texts")
    grid[0, 0].set_ylabel("vanishing ratio")
    grid[1, 0].set_ylabel("accuracy, %")
    _legend(figure, grid[0])
    return figure


def draw_sweeps(sweeps: "DataFrame", by: str = "pooling") -> Figure:
    """Accuracy over the share of filler, a panel for each place of the text.

    Args:
        sweeps: rows of the probe "sweep"; the mean over seeds is drawn.
        by: the column that tells the lines apart, "pooling", "size" or "masked".
    """
    if sweeps.empty:
        return nothing_yet()
    places = [place for place in ("left", "mid", "right") if place in set(sweeps["setting_added"])]
    figure, row = plt.subplots(1, len(places), figsize=(7.4, 3.2), sharey=True, squeeze=False)
    for axes, place in zip(row[0], places, strict=True):
        rows = sweeps[sweeps["setting_added"] == place]
        for value, label, look in _lines(rows, by):
            means = rows[rows[by] == value].groupby("share_added")["accuracy"].mean()
            axes.plot(100 * means.index, means, label=label, **look)
        axes.set_title(f"text kept {'in the middle' if place == 'mid' else place}")
    row[0][0].set_ylabel("test accuracy, %")
    row[0][len(places) // 2].set_xlabel("filler, % of all words")
    _legend(figure, row[0])
    return figure


def draw_importance(measured: "DataFrame", settings: Sequence[str]) -> Figure:
    """NWI over the position in the text, a panel for each setting, a line for each pooling.

    Red lines stand where the text ends and the filler begins, by construction.

    Args:
        measured: rows of the probe "nwi"; the mean over seeds is drawn.
    """
    if measured.empty or not settings:
        return nothing_yet()
    figure, found = make_panels(len(settings))
    for axes, setting in zip(found, settings, strict=True):
        rows = measured[measured["setting"] == setting]
        for pooling, name in POOLING_NAMES.items():
            own = rows[rows["pooling"] == pooling]
            if len(own):
                means = own.groupby("position")["mean"].mean()
                axes.plot(means.index, means, color=COLOURS[pooling], label=name, lw=1.3)
        for border in text_span(setting, rows["share"].iloc[0]):
            if 0 < border < 1:
                axes.axvline(1 + 99 * border, color=SEPARATOR_COLOUR, lw=1.4)
        axes.set_title(setting)
        axes.set(xlim=(1, 100), ylim=(0, None))
    finish(figure, found, "normalised word importance", "position in the text, %")
    return figure


def draw_answers(answers: "DataFrame") -> Figure:
    """The probability of the right class over the share of filler around one text, a line a model.

    Args:
        answers: columns ``pooling``, ``share`` and ``probability``; no rows where no model is here.
    """
    if answers.empty:
        return nothing_yet()
    figure, axes = plt.subplots(figsize=(6.2, 3.2))
    for pooling, name in POOLING_NAMES.items():
        rows = answers[answers["pooling"] == pooling]
        if len(rows):
            axes.plot(
                100 * rows["share"], rows["probability"], marker=MARKERS[pooling], ms=5,
                color=COLOURS[pooling], label=name,
            )  # fmt: skip
    axes.axhline(0.5, color=CHANCE_COLOUR, ls=":", lw=1.2)
    axes.set(xlabel="filler, % of all words", ylabel="probability of the right class", ylim=(0, 1.02))
    _legend(figure, [axes])
    return figure


def _lines(rows: "DataFrame", by: str) -> list[tuple[object, str, dict[str, object]]]:
    """What tells the lines of a sweep apart: value, label and look."""
    found = set(rows[by])
    if by == "pooling":
        return [
            (p, name, {"color": COLOURS[p], "marker": MARKERS[p], "ms": 4})
            for p, name in POOLING_NAMES.items()
            if p in found
        ]
    if by == "masked":
        looks = {True: ("padding masked", "-"), False: ("padding let in", "--")}
        return [
            (value, label, {"color": COLOURS["last"], "ls": style})
            for value, (label, style) in looks.items()
            if value in found
        ]
    shades = sns.color_palette("viridis_r", len(found))
    values = sorted(found)
    return [
        (value, f"{size_text(value)} training texts", {"color": shade, "marker": "o", "ms": 4})
        for value, shade in zip(values, np.array(shades), strict=True)
    ]


def _legend(figure: Figure, panels: Iterable[Axes]) -> None:
    handles, labels = legend_of(panels)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False)
