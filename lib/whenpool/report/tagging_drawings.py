"""Drawings that explain sequence labelling: a transducer, and a tagger that reads both ways.

All lengths are in inches, so that words keep their size.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.report.drawing_parts import arrow, panel, write
from whenpool.report.drawings import INK, QUIET, SIGNAL, WIDTH, box
from whenpool.report.figures import COLOURS

GREY = "#8a8a8a"
BACKWARD = COLOURS["max"]
BACK = (("the", "DET"), ("back", "?"), ("door", "NOUN"), ("broke", "VERB"))
LENGTH = (("the", "O"), ("length", "TIME"), ("is", "O"), ("6", "TIME"), ("hours", "TIME"))
"""The slide's example, with the words that only the last one decides."""
_WIDE, _TALL = 0.92, 0.34
_HALF, _ASIDE = 0.56, 0.14
"""Width of a state of one direction, and how far it stands beside its word."""


def draw_transducer() -> Figure:
    """A recurrence that gives one output for each input, and the tags that it gives.

    It has read "the back" when it must tag "back": whether a door or a verb follows it cannot know.
    """
    height = 2.75
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    axes = panel(figure, 0, 0, WIDTH, height)
    places = np.linspace(2.3, WIDTH - 0.6, len(BACK))
    _rows(axes, {0.3: "words $x_t$", 1.2: "states $s_t$", 2.1: "tags $y_t$"})
    for number, (x, (word, tag)) in enumerate(zip(places, BACK, strict=True), 1):
        unsure = tag == "?"
        _cell(axes, x, 0.3, word, QUIET)
        _cell(axes, x, 1.2, rf"$s_{number}$", SIGNAL, "white")
        _cell(axes, x, 2.1, "ADJ or NOUN" if unsure else tag, "white" if unsure else QUIET, edge=INK)
        arrow(axes, (x, 0.5), (x, 1.0), GREY, 1.2)
        arrow(axes, (x, 1.4), (x, 1.9), GREY, 1.2)
    for left, right in pairwise([places[0] - 1.3, *places]):
        arrow(axes, (left + _WIDE / 2 + 0.03, 1.2), (right - _WIDE / 2 - 0.03, 1.2), SIGNAL, 2.0)
    write(axes, places[1] + 0.12, 0.75, "$R$", 1, ha="left")
    write(axes, places[1] + 0.12, 1.65, "$O$", 1, ha="left")
    write(axes, places[0] - 0.98, 1.2, "$s_0$", 1)
    return figure


def draw_both_ways() -> Figure:
    """The slide's example: two recurrences read the sentence, one from either end, and what they have
    read is joined at each word. "hours" reaches "length" from right to left alone."""
    height = 3.3
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    axes = panel(figure, 0, 0, WIDTH, height)
    places = np.linspace(1.75, WIDTH - 0.6, len(LENGTH))
    rows = {0.3: "words", 1.15: "left to right", 1.85: "right to left", 2.75: "tags"}
    _rows(axes, rows)
    for x, (word, tag) in zip(places, LENGTH, strict=True):
        decided = tag != "O"
        _cell(axes, x, 0.3, word, QUIET)
        _cell(axes, x - _ASIDE, 1.15, "", COLOURS["attention"], wide=_HALF)
        _cell(axes, x + _ASIDE, 1.85, "", BACKWARD, wide=_HALF)
        _cell(axes, x, 2.75, tag, SIGNAL if decided else QUIET, "white" if decided else INK)
        for side, there in ((-1, 1.15), (1, 1.85)):  # each recurrence reads the word, and is read
            beside = x + side * 2.2 * _ASIDE
            arrow(axes, (beside, 0.5), (beside, there - 0.2), GREY, 1.2)
            arrow(axes, (beside, there + 0.2), (beside, 2.55), GREY, 1.2)
    for left, right in pairwise(places):
        ends = left - _ASIDE + _HALF / 2, right - _ASIDE - _HALF / 2
        arrow(axes, (ends[0] + 0.02, 1.15), (ends[1] - 0.02, 1.15), GREY, 1.2)
        ends = right + _ASIDE - _HALF / 2, left + _ASIDE + _HALF / 2
        look = (BACKWARD, 3.0) if left > places[0] else (GREY, 1.2)
        arrow(axes, (ends[0] - 0.02, 1.85), (ends[1] + 0.02, 1.85), *look)
    return figure


def _rows(axes: Axes, rows: dict[float, str]) -> None:
    for y, name in rows.items():
        write(axes, 0.06, y, name, 1, ha="left")


def _cell(
    axes: Axes,
    x: float,
    y: float,
    words: str,
    colour: str,
    ink: str = INK,
    edge: str = "none",
    wide: float = _WIDE,
) -> None:
    lines = words.split(" or ")
    tall = _TALL if len(lines) == 1 else _TALL + 0.16
    axes.add_patch(box(x - wide / 2, y - tall / 2, wide, tall, colour, edge))
    if words:
        write(axes, x, y, "\nor ".join(lines), 0, color=ink, linespacing=1.1)
