"""What figures of several pages share: colours and names of models, legends, and means of what is
drawn."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pandas import DataFrame, Series
from seaborn.axisgrid import Grid

from paper.pages.tabling import signed, size_text
from whenpool.models.registry import COLOURS, POOLING_NAMES, THESIS_POOLINGS

PALETTE = {title: COLOURS[name] for name, title in POOLING_NAMES.items()}  # By title
TRICK_COLOURS = {
    "teacher_forcing": "#0072b2",
    "penalty_attention": COLOURS["last_attention"],
    "dropout_attention": "#002d5a",
    "gradient_directed": "#692d0f",
}
"""For what is no pooling."""
CHANCE_COLOUR = "#767676"
START_COLOURS = {
    "forget 2": "#000000",
    "chrono": "#7b3294",
    "forget 6.5, input -6.5": "#84480a",
    "orthogonal": CHANCE_COLOUR,
    "low": COLOURS["last"],
}
"""For other initialisations of the BiLSTM."""
STARTS = {"low": "BiLSTM_LowF", "chrono": "BiLSTM, chrono"}
"""The BiLSTM whose forget gates start low and another, by what runs call their models."""
MAP_SHARES = (0.0, 0.33, 0.66, 0.9)
"""Shares of filler that the map of `weakest_gains` has a row for, with runs or without."""


def legend_above(grid: Grid, columns: int = 5) -> None:
    """Put the legend of seaborn's panels above them, so that they have the whole width of a
    page."""
    place = {"loc": "lower center", "bbox_to_anchor": (0.45, 1)}
    sns.move_legend(grid, **place, ncols=columns, title=None, frameon=False)


def panels(count: int, size: tuple[float, float], **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure of some inches with so many panels side by side, which share the axis of y."""
    figure, axes = plt.subplots(1, count, figsize=size, sharey=True, squeeze=False, **shared)
    return figure, [*axes[0]]


def titled(rows: DataFrame, text: Callable[[Any], str]) -> pd.Categorical:
    """Titles of panels, in order: of a request the corpus, then a text on the training size."""
    pairs = sorted({*zip(rows["lead"], rows["size"], strict=True)})
    titles = [lead + text(size) for lead, size in pairs]
    return pd.Categorical(rows["lead"] + rows["size"].map(text), titles)


def named(rows: DataFrame) -> DataFrame:
    """Points of probes with ``model`` as figures call it, and ``texts``, the training size, both in
    order."""
    models = rows["pooling"].map(POOLING_NAMES).mask(rows["forget_bias"] == "low", STARTS["low"])
    order = (*PALETTE, STARTS["low"])
    rows = rows if "lead" in rows else rows.assign(lead="")
    return rows.assign(
        model=pd.Categorical(models, [name for name in order if name in {*models}]),
        texts=titled(rows, lambda size: f"{size_text(size)} training texts"),
    )


def course(traces: DataFrame, by: Sequence[str]) -> DataFrame:
    """The mean course of the trainings that agree in the columns ``by``. They were looked at after
    different numbers of texts; so each is interpolated at the same ones, ``examples``, from 100 on
    to where the first training ends. The mean of the vanishing ``ratio`` is geometric, that of
    accuracies arithmetic."""
    parts, measured = [], ["ratio", "train_accuracy", "validation_accuracy"]
    traces = traces.assign(
        ratio=np.log(traces["ratio"]), log=np.log(traces["examples"].clip(lower=1))
    )
    for values, group in traces.sort_values("log").groupby(list(by), observed=True):
        runs = [run for _, run in group.groupby("key")]
        last = max(
            min(run["examples"].max() for run in runs), 1
        )  # a short one is looked at once, at 0
        at = np.log(np.geomspace(min(100, last / 2), last, 60))
        each = [[np.interp(at, run["log"], run[name]) for name in measured] for run in runs]
        means = DataFrame(np.mean(each, axis=0).T, columns=measured).assign(examples=np.exp(at))
        parts.append(
            means.assign(ratio=np.exp(means["ratio"]), **dict(zip(by, values, strict=True)))
        )
    return pd.concat(parts)


def geometric_means(rows: DataFrame) -> Series:
    """Of the values of a measure, as `paper.chapter.Chapter.results` gives them, by
    model."""
    return np.exp(np.log(rows["value"]).groupby(rows["model"]).mean())


def weakest_gains(rows: DataFrame) -> DataFrame:
    """How many points of accuracy the weakest pooling has more than the BiLSTM, of means over
    seeds: a row for each share of filler, a column for each number of training texts. NaN where a
    model of the thesis was not run. The ``rows`` are accuracies on plain texts, whose share is 0,
    and on texts in the middle of filler."""
    share = rows["share"].where(rows["setting"] != "standard", 0.0)
    means = rows.groupby([share, "size", "model"])["value"].mean().unstack()
    means = means.reindex(columns=[*THESIS_POOLINGS])
    gains = means.drop(columns="last").min(axis=1, skipna=False) - means["last"]
    gains = gains.unstack("size")
    return gains.reindex(sorted({*MAP_SHARES, *gains.index}))


def draw_gains(axes: Axes, gains: DataFrame) -> None:
    """Draw the map of `weakest_gains`: the deeper a cell, the larger the gain that is written in
    it, up to 40 points; cells without runs are hatched."""
    for (row, share), (column, size) in product(enumerate(gains.index), enumerate(gains)):
        gain = gains.loc[share, size]
        look: dict[str, Any] = {"fill": False, "hatch": "////", "ec": "#c8c8c8"}
        if gain == gain:
            look = {"fc": "#e0a800", "alpha": 0.7 * min(max(gain, 0) / 40, 1)}
            axes.text(column + 0.5, row + 0.5, signed(gain + 1e-9, 0), ha="center", va="center")
        axes.add_patch(Rectangle((column, row), 1, 1, lw=0, **look))
    columns, rows = (np.arange(n) + 0.5 for n in gains.T.shape)
    axes.set_xticks(columns, [f"{size:,}" for size in gains])
    axes.set_yticks(rows, [f"{100 * share:.0f} %" if share else "none" for share in gains.index])
    axes.set(xlim=(0, len(columns)), xlabel="training texts")
    axes.set(ylim=(0, len(rows)), ylabel="filler, of all words")
    axes.grid(False)
