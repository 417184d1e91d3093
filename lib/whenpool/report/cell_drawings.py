"""Drawings of one step of each cell: which gates read what, and what happens to the memory.

All lengths are in inches, so that words keep their size. The thick line is the memory, from s_{t-1} to
s_t; thin lines are what is read. A dot on a line below says that it is read at that place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from whenpool.errors import InputError
from whenpool.report.drawing_parts import arrow, panel, write
from whenpool.report.drawings import FONT, INK, QUIET, WIDTH, box

MEMORY, GATE, PROPOSAL, READ = "#009e73", "#56b4e9", "#e69f00", "#8a8a8a"
GATED = ("prototype", "lstm", "gru", "mingru")
"""The cells that `draw_gated_cell` knows."""
_THICK, _RADIUS, _TALL = 3.0, 0.15, 0.36
_WORDS_AT, _STATES_AT = 0.3, 0.68  # the lines that words and states are read from
_BOXES_AT, _WRITE_AT, _MEMORY_AT = 1.38, 2.05, 2.75
Point = tuple[float, float]


@dataclass(frozen=True)
class Board:
    """One panel to draw upon."""

    axes: Axes

    def box(self, x: float, y: float, words: str, colour: str, width: float = 0.5) -> None:
        """A map with something to learn, or a nonlinearity, around a point."""
        self.axes.add_patch(box(x - width / 2, y - _TALL / 2, width, _TALL, colour))
        write(self.axes, x, y, words, 2.5)

    def dot(self, x: float, y: float, words: str) -> None:
        """An operation on two vectors, unit by unit."""
        self.axes.add_patch(Circle((x, y), _RADIUS, facecolor="white", edgecolor=INK, lw=1.2, zorder=3))
        write(self.axes, x, y, words, 3, zorder=4)

    def wire(self, *points: Point, colour: str = READ, thick: float = 1.2, arrowed: bool = True) -> None:
        """A line through some points, which ends in an arrow."""
        xs, ys = zip(*points, strict=True)
        if len(points) > 2 or not arrowed:
            stop = len(points) - (1 if arrowed else 0)
            self.axes.plot(
                xs[:stop], ys[:stop], color=colour, lw=thick, solid_joinstyle="round", zorder=1
            )
        if arrowed:
            arrow(self.axes, points[-2], points[-1], colour, thick)

    def memory(self, start: float, end: float, y: float, names: Sequence[str]) -> None:
        """The thick line, and what it is called at both ends."""
        self.wire((start, y), (end, y), colour=MEMORY, thick=_THICK)
        write(self.axes, start - 0.08, y, names[0], 4, ha="right")
        write(self.axes, end + 0.08, y, names[1], 4, ha="left")

    def reads(self, x: float, top: float, word: bool = True, state: bool = True) -> None:
        """A riser to something that reads the word, the state before, or both."""
        lines = [y for y, read in ((_WORDS_AT, word), (_STATES_AT, state)) if read]
        self.wire((x, lines[0]), (x, top))
        self.axes.plot([x] * len(lines), lines, "o", color=INK, ms=4.5, zorder=5)


def draw_plain_cells() -> Figure:
    """The slides' two suggestions and Elman's cell: the whole memory goes through each step."""
    height = 2.35
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    for place, title in enumerate(("suggestion 1", "suggestion 2", "Elman")):
        axes = panel(figure, place * WIDTH / 3, 0, WIDTH / 3, height)
        write(axes, WIDTH / 6, 2.12, title, 3, weight="bold")
        board, y, plus = Board(axes), 1.45, 1.1
        board.memory(0.58, 1.9, y, ("$s_{t-1}$", "$s_t$"))
        board.dot(plus, y, "+")
        board.wire((plus, 0.48), (plus, y - _RADIUS))
        write(axes, plus, 0.3, "$x_t$", 4)
        if title != "suggestion 1":
            board.box(1.52, y, "tanh", PROPOSAL, 0.42)
            board.wire((0.72, 0.98), (0.72, 1.12), (1.0, y - _RADIUS + 0.04), arrowed=False)
            write(axes, 0.72, 0.85, "$b$", 3)
        if title == "Elman":
            board.box(0.75, y, "$W^s$", QUIET, 0.36)
            board.box(plus, 0.85, "$W^x$", QUIET, 0.36)
    return figure


def draw_gated_cell(cell: str) -> Figure:
    """One step of a cell whose gates decide what of the memory is kept and what is written.

    Args:
        cell: a name in `GATED`; "gru" as the slides have it.

    Raises:
        InputError: for another.
    """
    if cell not in GATED:
        raise InputError(f"there is no drawing of {cell!r}; choose one of {', '.join(GATED)}")
    height = 3.05
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    board = Board(panel(figure, 0, 0, WIDTH, height))
    if cell in ("prototype", "lstm"):
        _draw_two_gates(board, split=cell == "lstm")
    else:
        _draw_coupled(board, selective=cell == "gru")
    return figure


def draw_gate_functions() -> Figure:
    """A gate of 0 and 1, a soft one, and the slope of each: nothing can be learnt where it is zero."""
    x = np.linspace(-6, 6, 241)
    soft = 1 / (1 + np.exp(-x))
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 2.4), layout="constrained")
    curves = ((np.heaviside(x, 1.0), soft), (np.zeros_like(x), soft * (1 - soft)))
    for axes, title, (hard, smooth) in zip(panels, ("the gate", "its slope"), curves, strict=True):
        axes.plot(x, hard, color=PROPOSAL, lw=2.2, ls="--", label="0 or 1")
        axes.plot(x, smooth, color=GATE, lw=2.6, label=r"soft, $\sigma$")
        axes.set_title(title, size=FONT + 3, color=INK)
        axes.set_xlabel("$W s_{t-1} + W' x_t + b$", size=FONT + 2, color=INK)
        axes.tick_params(labelsize=FONT + 1)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=FONT + 1)
    return figure


def _draw_two_gates(board: Board, split: bool) -> None:
    """Prototype LSTM; or ``split`` into a memory c and an output h, an LSTM."""
    forget, write_in, proposal = (1.75, 2.95, 4.25) if split else (2.0, 3.4, 4.8)
    middle, end = (write_in + proposal) / 2, 6.3
    state = "c" if split else "s"
    board.memory(0.8, end, _MEMORY_AT, (f"${state}_{{t-1}}$", f"${state}_t$"))
    _lines(board, proposal, "h" if split else None)
    board.box(forget, _BOXES_AT, r"$\sigma$", GATE)
    board.box(write_in, _BOXES_AT, r"$\sigma$", GATE)
    board.box(proposal, _BOXES_AT, "tanh", PROPOSAL, 0.56)
    for x in (forget, write_in, proposal):
        board.reads(x, _BOXES_AT - _TALL / 2)
    board.wire((forget, _BOXES_AT + _TALL / 2), (forget, _MEMORY_AT - _RADIUS))
    write(board.axes, forget - 0.2, _WRITE_AT, "$f_t$", 4)
    board.dot(forget, _MEMORY_AT, "⊙")
    _draw_writing(board, write_in, proposal, middle, "$i_t$", rf"$\tilde {state}_t$")
    if not split:
        return
    show, out = 5.2, 5.85
    board.box(show, _BOXES_AT, r"$\sigma$", GATE)
    _extend(board, proposal, show)
    board.reads(show, _BOXES_AT - _TALL / 2)
    board.wire((out, _MEMORY_AT), (out, _WRITE_AT + _TALL / 2))
    board.box(out, _WRITE_AT, "tanh", PROPOSAL, 0.56)
    board.wire((out, _WRITE_AT - _TALL / 2), (out, _BOXES_AT + _RADIUS))
    board.wire((show + 0.25, _BOXES_AT), (out - _RADIUS, _BOXES_AT))
    write(board.axes, show + 0.1, _BOXES_AT + 0.36, "$o_t$", 4)
    board.dot(out, _BOXES_AT, "⊙")
    board.wire((out + _RADIUS, _BOXES_AT), (6.3, _BOXES_AT))
    write(board.axes, 6.38, _BOXES_AT, "$h_t$", 4, ha="left")


def _draw_coupled(board: Board, selective: bool) -> None:
    """Cells that overwrite: what is kept and what is written sum to one. ``selective``: a GRU, which
    also chooses what its proposal reads of the memory; else minGRU, where nothing reads it."""
    keep, z, proposal = 1.75, 2.55, 5.0
    board.memory(0.8, 6.3, _MEMORY_AT, ("$s_{t-1}$", "$s_t$"))
    _lines(board, proposal, None if selective else "", 4.25)
    board.box(z, _BOXES_AT, r"$\sigma$", GATE)
    board.box(proposal, _BOXES_AT, "tanh" if selective else r"$W x$", PROPOSAL, 0.56)
    board.reads(z, _BOXES_AT - _TALL / 2, state=selective)
    board.reads(proposal, _BOXES_AT - _TALL / 2, state=False)
    board.wire((z, _WRITE_AT), (keep, _WRITE_AT), (keep, _MEMORY_AT - _RADIUS))
    board.box((keep + z) / 2, _WRITE_AT, "1 –", QUIET, 0.36)
    board.dot(keep, _MEMORY_AT, "⊙")
    _draw_writing(board, z, proposal, 3.9, "$z_t$", r"$\tilde s_t$")
    if not selective:
        return
    r, chosen = 3.5, 4.25
    board.box(r, _BOXES_AT, r"$\sigma$", GATE)
    board.reads(r, _BOXES_AT - _TALL / 2)
    board.reads(chosen, _BOXES_AT - _RADIUS, word=False)
    board.wire((r + 0.25, _BOXES_AT), (chosen - _RADIUS, _BOXES_AT))
    write(board.axes, r + 0.38, _BOXES_AT + 0.2, "$r_t$", 4)
    board.dot(chosen, _BOXES_AT, "⊙")
    board.wire((chosen + _RADIUS, _BOXES_AT), (proposal - 0.28, _BOXES_AT))


def _draw_writing(
    board: Board, gate: float, proposal: float, middle: float, name: str, proposed: str
) -> None:
    """A gate and a proposal that meet, and are added to the memory."""
    top = _BOXES_AT + _TALL / 2
    board.wire((gate, top), (gate, _WRITE_AT), (middle - _RADIUS, _WRITE_AT))
    board.wire((proposal, top), (proposal, _WRITE_AT), (middle + _RADIUS, _WRITE_AT))
    write(board.axes, gate + 0.22, _WRITE_AT - 0.2, name, 4)
    write(board.axes, proposal + 0.24, _WRITE_AT - 0.2, proposed, 4)
    board.dot(middle, _WRITE_AT, "⊙")
    board.wire((middle, _WRITE_AT + _RADIUS), (middle, _MEMORY_AT - _RADIUS))
    board.dot(middle, _MEMORY_AT, "+")


def _lines(board: Board, end: float, output: str | None, states_end: float | None = None) -> None:
    """The lines that are read from: words, and the state before, which is the memory itself or, by its
    name, an output of its own; "" for cells that read words alone."""
    last = end if states_end is None else states_end
    board.wire((0.8, _WORDS_AT), (end, _WORDS_AT), arrowed=False)
    write(board.axes, 0.72, _WORDS_AT, "$x_t$", 4, ha="right")
    if output:
        board.wire((0.8, _STATES_AT), (last, _STATES_AT), arrowed=False)
        write(board.axes, 0.72, _STATES_AT, f"${output}_{{t-1}}$", 4, ha="right")
    elif output is None:
        start = 1.15
        board.wire((start, _MEMORY_AT), (start, _STATES_AT), (last, _STATES_AT), arrowed=False)


def _extend(board: Board, start: float, end: float) -> None:
    """Both lines a bit further."""
    for y in (_WORDS_AT, _STATES_AT):
        board.wire((start, y), (end, y), arrowed=False)
