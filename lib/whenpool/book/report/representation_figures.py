"""The figures of what LSTMs and max-pooled LSTMs can represent (§2.1.3)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from whenpool.base.errors import InputError
from whenpool.book.report.figures import CHANCE_COLOUR, COLOURS, legend_of


def draw_running_maximum(
    words: Sequence[float],
    largest: Sequence[float],
    read: Sequence[float],
    errors: Sequence[float],
    precision: float,
) -> Figure:
    """One input of a running-maximum LSTM, its maximum, and what the state says; below, the error.

    Args:
        words: T values, one a word.
        largest: T, the largest so far.
        read: T, what is read from the state.
        errors: T, largest less read.
        precision: the error that the LSTM was built for.

    Raises:
        InputError: when these are not equally many, or none.
    """
    if not len(words) == len(largest) == len(read) == len(errors) > 0:
        raise InputError("words, largest, read and errors need one number for each word")
    word = np.arange(1, len(words) + 1)
    figure, (above, below) = plt.subplots(2, figsize=(6.6, 4.2), sharex=True, height_ratios=(3, 1.2))
    above.plot(word, words, "o-", color=CHANCE_COLOUR, lw=0.7, ms=2.5, label="word")
    above.step(word, largest, where="post", color=COLOURS["last"], lw=1.8, label="largest so far")
    above.step(
        word,
        read,
        "--",
        where="post",
        color=COLOURS["max_attention"],
        lw=1.8,
        label="read from the state",
    )
    below.step(word, errors, where="post", color=COLOURS["max_attention"], lw=1.3)
    below.axhline(precision, color=CHANCE_COLOUR, ls=":", lw=1.5, label="precision asked for")
    below.set(ylabel="error", ylim=(0, 1.2 * precision), xlim=(1, len(words)), xlabel="word")
    handles, labels = legend_of([above, below])
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_parity_reach(
    values: Sequence[int], bound: Sequence[int], machines: Sequence[int], lstms: Sequence[int]
) -> Figure:
    """On how many prefixes of 1, 1, 1, ... parity can be told, over the values a unit can take.

    Bars are the longest found with max-pooling; the bars of the last state have no upper end.

    Args:
        values: V, in rising order.
        bound: for each V what max-pooling cannot exceed.
        machines: for each V the best of all finite machines, max-pooled.
        lstms: for each V the best of all small LSTMs, max-pooled.

    Raises:
        InputError: when these are not equally many, or none.
    """
    if not len(values) == len(bound) == len(machines) == len(lstms) > 0:
        raise InputError("bound, machines and lstms need one number for each of values")
    place, width, top = np.arange(len(values)), 0.26, max(bound) + 2
    figure, axes = plt.subplots(figsize=(6.6, 3.4))
    axes.bar(place - width, machines, width, color=COLOURS["max"], label="MaxPool, best machine")
    axes.bar(place, lstms, width, color=COLOURS["max"], alpha=0.45, label="MaxPool, best small LSTM")
    axes.bar(
        place + width, top - 0.7, width, color="#f0f0f0", edgecolor=COLOURS["last"], hatch="//", lw=0,
        label="last state: no limit",
    )  # fmt: skip
    axes.plot(place + width, np.full(len(place), top - 0.45), "^", color=COLOURS["last"], ms=9)
    axes.hlines(
        bound, place - 1.5 * width, place + 0.5 * width, color=COLOURS["max_attention"], lw=2.5,
        label="bound",
    )  # fmt: skip
    axes.set_xticks(place, [str(value) for value in values])
    axes.set(ylim=(0, top), xlabel="values that a unit can take", ylabel="prefixes told rightly")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="x", visible=False)
    handles, labels = legend_of([axes])
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure
