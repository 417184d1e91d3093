"""Drawings of recurrences over a sequence: unrolled, in both directions, stacked.

All lengths are in inches. R is the step, O what reads a state; a colour goes with each direction.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from whenpool.report.cell_drawings import GATE, MEMORY, PROPOSAL, Board
from whenpool.report.drawing_parts import panel, write
from whenpool.report.drawings import INK, QUIET, WIDTH

_HALF, _TALL = 0.21, 0.36
_NAMES = ("1", "2", "3", "4")


def draw_unrolled() -> Figure:
    """The loop, and what it is over four words: one R everywhere, a y for every beginning."""
    height = 2.5
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    board = Board(panel(figure, 0, 0, WIDTH, height))
    _draw_column(board, 1.05, "t", loop=True)
    write(board.axes, 2.15, 1.2, "=", 12)
    places = np.linspace(3.2, 6.1, len(_NAMES))
    write(board.axes, 2.52, 1.2, "$s_0$", 4)
    for number, (x, name) in enumerate(zip(places, _NAMES, strict=True)):
        _draw_column(board, x, name)
        start = 2.68 if number == 0 else places[number - 1] + _HALF
        _draw_state(board, start, x - _HALF, f"$s_{name}$", 1.2)
    _draw_state(board, places[-1] + _HALF, 6.75, "", 1.2)
    return figure


def draw_bidirectional() -> Figure:
    """Two recurrences over one text: what both have read stands side by side at every word."""
    height = 2.95
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    board = Board(panel(figure, 0, 0, WIDTH, height))
    places = np.linspace(1.9, 5.9, len(_NAMES))
    _draw_layer(board, places, 0.9, 1.75)
    for x, name in zip(places, _NAMES, strict=True):
        write(board.axes, x, 0.22, f"$x_{name}$", 4)
        board.wire((x, 0.38), (x, 0.9 - _TALL / 2))
        write(board.axes, x, 2.7, rf"$[\overrightarrow{{h}}_{name} ; \overleftarrow{{h}}_{name}]$", 2.5)
        board.wire((x, 1.75 + _TALL / 2), (x, 2.5))
    for y, words in ((0.9, "left to right"), (1.75, "right to left")):
        write(board.axes, 0.1, y, words, 2, ha="left")
    return figure


def draw_stacked() -> Figure:
    """Two layers one way, and two of both directions, where a word's two states go up together."""
    height = 4.1
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    names = _NAMES[:3]
    for place, (title, both) in enumerate((("stacked", False), ("deep, both directions", True))):
        axes = panel(figure, place * WIDTH / 2, 0, WIDTH / 2, height)
        write(axes, WIDTH / 4, 3.95, title, 3, weight="bold")
        board, places = Board(axes), np.linspace(0.75, 2.75, len(names))
        floors = ((0.85, 1.6), (2.4, 3.15)) if both else ((1.2, None), (2.4, None))
        for x, name in zip(places, names, strict=True):
            write(axes, x, 0.2, f"$x_{name}$", 4)
            board.wire((x, 0.36), (x, floors[0][0] - _TALL / 2))
            top = (floors[0][1] or floors[0][0]) + _TALL / 2
            board.wire((x, top), (x, floors[1][0] - _TALL / 2))
            top = (floors[1][1] or floors[1][0]) + _TALL / 2
            board.wire((x, top), (x, 3.78))
        for forth, back in floors:
            _draw_layer(board, places, forth, back)
    return figure


def _draw_layer(board: Board, places: np.ndarray, forth: float, back: float | None) -> None:
    """A row of steps from left to right, and maybe one above it from right to left: words are led past
    the first row, and what the first row makes past the second."""
    for x in places:
        board.box(x, forth, "$R$", GATE, 2 * _HALF)
        if back is None:
            continue
        board.box(x, back, "$R'$", PROPOSAL, 2 * _HALF)
        aside, inside, middle = 0.33, 0.1, (forth + back) / 2
        below, above = forth - _TALL / 2 - 0.13, back + _TALL / 2 + 0.13
        past = ((x, below), (x + aside, below), (x + aside, middle), (x + inside, middle))
        board.wire(*past, (x + inside, back - _TALL / 2))
        up = (
            (x - inside, forth + _TALL / 2),
            (x - inside, middle),
            (x - aside, middle),
            (x - aside, above),
        )
        board.wire(*up, (x, above), arrowed=False)
    for x, following in pairwise(places):
        board.wire((x + _HALF, forth), (following - _HALF, forth), colour=MEMORY, thick=2.2)
        if back is not None:
            board.wire((following - _HALF, back), (x + _HALF, back), colour=MEMORY, thick=2.2)


def _draw_column(board: Board, x: float, name: str, loop: bool = False) -> None:
    """A word, the step that reads it, and what is made of the state."""
    board.box(x, 1.2, "$R$", GATE, 2 * _HALF)
    board.box(x, 1.78, "$O$", QUIET, 2 * _HALF)
    write(board.axes, x, 0.45, f"$x_{name}$", 4)
    write(board.axes, x, 2.3, f"$y_{name}$", 4)
    board.wire((x, 0.6), (x, 1.2 - _TALL / 2))
    board.wire((x, 1.2 + _TALL / 2), (x, 1.78 - _TALL / 2))
    board.wire((x, 1.78 + _TALL / 2), (x, 2.16))
    if loop:
        right, left, low = x + 0.5, x - 0.5, 0.8
        corners = ((x + _HALF, 1.2), (right, 1.2), (right, low), (left, low), (left, 1.2))
        board.wire(*corners, (x - _HALF, 1.2), colour=MEMORY, thick=2.2)
        write(board.axes, right + 0.1, 1.2, "$s_t$", 4, ha="left")
        write(board.axes, left - 0.08, 1.2, "$s_{t-1}$", 4, ha="right")


def _draw_state(board: Board, start: float, end: float, name: str, y: float) -> None:
    board.wire((start, y), (end, y), colour=MEMORY, thick=2.2)
    if name:
        write(board.axes, end + 2 * _HALF + 0.27, y + 0.17, name, 2, color=INK)
