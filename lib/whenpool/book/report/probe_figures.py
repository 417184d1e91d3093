"""The figures of gradient propagation, natural positional bias and word importance (§1.5 to 1.9)."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.models.registry import COLOURS, MARKERS
from whenpool.book.report.figures import (
    CHANCE_COLOUR,
    finish,
    legend_of,
    make_panels,
    nothing_yet,
)
from whenpool.book.report.gradients import LOW
from whenpool.book.report.importance import text_span
from whenpool.book.report.skip import CORPUS_NAMES
from whenpool.book.report.tables import POOLING_NAMES, size_text

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SEPARATOR_COLOUR = "#b2182b"


def groups_of(rows: "DataFrame") -> list[tuple[str, "DataFrame"]]:
    """Rows of one corpus, length of text and training size each, with a title that tells them apart;
    none where there is but one group."""
    differ = [n for n in ("corpus", "length", "size") if n in rows and rows[n].nunique() > 1]
    if not differ:
        return [("", rows)]
    several = differ != ["size"]
    return [(_title(part.iloc[0], several), part) for _, part in rows.groupby(differ, sort=False)]


def draw_profiles(profiles: "DataFrame") -> Figure:
    """Gradient norm over the position in the text, on a logarithmic scale, a line for each model.

    Args:
        profiles: rows of the probe "gradients" with a column ``model``; the mean over seeds is drawn,
            a panel for each corpus and training size.
    """
    if profiles.empty:
        return nothing_yet()
    groups = groups_of(profiles)
    figure, column = plt.subplots(
        len(groups), figsize=(6.6, 3.2 * len(groups) + 0.4), sharex=True, squeeze=False
    )
    names = {**POOLING_NAMES, LOW: "BiLSTM, low forget gate"}
    for axes, (title, part) in zip(column.flat, groups, strict=True):
        for model, name in names.items():
            rows = part[part["model"] == model]
            if rows.empty:
                continue
            means = rows.groupby("position")["mean"].mean()
            colour, style = (COLOURS["last"], "--") if model == LOW else (COLOURS[model], "-")
            axes.plot(means.index, means, style, color=colour, label=name)
        axes.set_yscale("log")
        axes.set(ylabel="‖∂L/∂h‖", xlim=(1, 100), title=title)
    column[-1, 0].set_xlabel("position in the text, %")
    _legend(figure, column.flat, columns=3)
    return figure


def draw_traces(traces: "DataFrame") -> Figure:
    """The vanishing ratio over training, above the accuracies, a column for each corpus and size.

    Args:
        traces: rows of the probe "trace"; the mean over seeds is drawn.
    """
    if traces.empty:
        return nothing_yet()
    groups = groups_of(traces.sort_values("size", kind="stable"))
    width = 3.4 * max(len(groups), 2)
    figure, grid = plt.subplots(
        2, len(groups), figsize=(width, 5.2), sharex="col", sharey="row", squeeze=False
    )
    for column, (title, part) in enumerate(groups):
        above, below = grid[0, column], grid[1, column]
        for pooling, name in POOLING_NAMES.items():
            rows = part[part["pooling"] == pooling]
            if rows.empty:
                continue
            means = rows.groupby("examples")[["ratio", "train_accuracy", "validation_accuracy"]].mean()
            batches, colour = means.index / 64, COLOURS[pooling]
            above.plot(batches, means["ratio"], color=colour, label=name)
            below.plot(batches, means["validation_accuracy"], color=colour)
            below.plot(batches, means["train_accuracy"], "--", color=colour, lw=0.9)
        above.set_yscale("log")
        above.set_title(title or _title(part.iloc[0], several=False))
        below.set_xlabel("batches of 64 texts")
    grid[0, 0].set_ylabel("vanishing ratio")
    grid[1, 0].set_ylabel("accuracy, %")
    _legend(figure, grid[0])
    return figure


def draw_sweeps(sweeps: "DataFrame", by: str = "pooling") -> Figure:
    """Accuracy over the share of filler, a panel for each place of the text.

    Args:
        sweeps: rows of the probe "sweep"; the mean over seeds is drawn, a row of panels for each
            corpus and training size, unless ``by`` tells sizes apart.
        by: the column that tells the lines apart, "pooling", "size" or "masked".
    """
    if sweeps.empty:
        return nothing_yet()
    places = [place for place in ("left", "mid", "right") if place in set(sweeps["setting_added"])]
    groups = [("", sweeps)] if by == "size" else groups_of(sweeps)
    figure, grid = plt.subplots(
        len(groups), len(places), figsize=(7.4, 2.7 * len(groups) + 0.5), sharex=True, sharey="row",
        squeeze=False,
    )  # fmt: skip
    for row, (title, part) in zip(grid, groups, strict=True):
        for axes, place in zip(row, places, strict=True):
            rows = part[part["setting_added"] == place]
            for value, label, look in _lines(rows, by):
                means = rows[rows[by] == value].groupby("share_added")["accuracy"].mean()
                axes.plot(100 * means.index, means, label=label, **look)
            axes.set_title(f"text kept {'in the middle' if place == 'mid' else place}")
        row[0].set_ylabel(f"{title}\ntest accuracy, %" if title else "test accuracy, %")
    grid[-1][len(places) // 2].set_xlabel("filler, % of all words")
    _legend(figure, grid.flat)
    return figure


def draw_importance(measured: "DataFrame", settings: Sequence[str]) -> Figure:
    """NWI over the position in the text, a panel for each setting, a line for each pooling.

    Red lines stand where the text ends and the filler begins, by construction.

    Args:
        measured: rows of the probe "nwi"; the mean over seeds is drawn, in panels of their own for
            each corpus and training size.
    """
    if measured.empty or not settings:
        return nothing_yet()
    shown = [
        (f"{title}, {setting}" if title else setting, setting, part[part["setting"] == setting])
        for title, part in groups_of(measured)
        for setting in settings
        if setting in set(part["setting"])
    ]
    figure, found = make_panels(len(shown))
    for axes, (title, setting, rows) in zip(found, shown, strict=True):
        for pooling, name in POOLING_NAMES.items():
            own = rows[rows["pooling"] == pooling]
            if len(own):
                means = own.groupby("position")["mean"].mean()
                axes.plot(means.index, means, color=COLOURS[pooling], label=name, lw=1.3)
        for border in text_span(setting, rows["share"].iloc[0]):
            if 0 < border < 1:
                axes.axvline(1 + 99 * border, color=SEPARATOR_COLOUR, lw=1.4)
        axes.set_title(title)
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


def _title(row: "Series", several: bool) -> str:
    """The training size of a run, and where there are several its corpus and length of text."""
    size = f"{size_text(row['size'])} training texts"
    if not several:
        return size
    name = Path(CORPUS_NAMES.get(row["corpus"], str(row["corpus"]).split(":")[0])).name
    name = name.replace("$", r"\$")  # which would begin a formula
    return f"{name}{', short' if row['length'] == 'short' else ''}, {size}"


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


def _legend(figure: Figure, panels: Iterable[Axes], columns: int = 5) -> None:
    handles, labels = legend_of(panels)
    ncols = min(len(labels), columns)
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, frameon=False)
