"""A drawing of what each system of Table 1.9 learns from (thesis §1.10.2).

All lengths are in inches, so that words keep their size.
"""

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.report.drawings import FONT, INK, QUIET, WIDTH, box

TRAINED, EDGE = "#cfe7f7", "#5a8fb0"
"""A part that the labelled texts train."""
LABELLED, CHANGED = "#333333", "white"
TEXTS = {"labelled": LABELLED, "unlabelled": QUIET, "reworded": CHANGED}
_ROW, _TOP, _BELOW = 0.56, 0.42, 0.5
_COLUMNS = {"texts": 0.98, "read by": 3.82, "classified by": 5.44}
"""Left edges."""
_TEXT_WIDTH, _WIDE, _TALL = 0.82, 1.36, 0.36


@dataclass(frozen=True)
class Row:
    """One system.

    Attributes:
        texts: which of `TEXTS` it reads.
        reader, frozen: what turns texts into vectors, and whether labels leave it as it is.
        head: what classifies these.
    """

    name: str
    texts: tuple[str, ...]
    reader: str
    frozen: bool
    head: str


ROWS = (
    Row("VAMPIRE", ("labelled", "unlabelled"), "topics (VAE)", True, "classifier"),
    Row("BERT", ("labelled",), "encoder", False, "classifier"),
    Row("TMix", ("labelled",), "encoder, mixing", False, "classifier"),
    Row("MaxAtt", ("labelled",), "encoder", True, "BiLSTM, MaxAtt"),
    Row("UDA", ("labelled", "unlabelled", "reworded"), "encoder", False, "classifier"),
    Row("MixText", ("labelled", "unlabelled", "reworded"), "encoder, mixing", False, "classifier"),
)


def draw_sources() -> Figure:
    """Which texts each system reads, what reads them, and what classifies; dashed is what labelled texts
    leave as it is."""
    height = _TOP + _ROW * len(ROWS) + _BELOW
    figure = plt.figure(figsize=(WIDTH, height), layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    for heading, left in _COLUMNS.items():
        _write(axes, left, _TOP - 0.18, heading, weight="bold")
    for number, row in enumerate(ROWS):
        _draw_row(axes, _TOP + _ROW * (number + 0.5), row)
    _draw_key(axes, height - 0.26)
    return figure


def _draw_row(axes: Axes, y: float, row: Row) -> None:
    _write(axes, 0.06, y, row.name, size=FONT + 1.5, weight="bold" if row.name == "MaxAtt" else "normal")
    left = _COLUMNS["texts"]
    for kind in row.texts:
        _box(axes, left, y, _TEXT_WIDTH, kind, TEXTS[kind])
        left += _TEXT_WIDTH + 0.04
    reader, head = _COLUMNS["read by"], _COLUMNS["classified by"]
    _arrow(axes, left, reader - 0.04, y)
    _box(axes, reader, y, _WIDE, row.reader, "white" if row.frozen else TRAINED, row.frozen)
    _arrow(axes, reader + _WIDE + 0.03, head - 0.04, y)
    _box(axes, head, y, _WIDE + 0.12, row.head, TRAINED)


def _draw_key(axes: Axes, y: float) -> None:
    keys = ((0.98, False, "trained to classify"), (3.82, True, "left as it was pretrained"))
    for left, frozen, words in keys:
        _box(axes, left, y, 0.34, "", "white" if frozen else TRAINED, frozen, tall=0.22)
        _write(axes, left + 0.42, y, words)


def _box(
    axes: Axes, left: float, y: float, width: float, words: str, face: str, frozen: bool = False,
    tall: float = _TALL,
) -> None:  # fmt: skip
    edge = {TRAINED: EDGE, LABELLED: LABELLED, QUIET: QUIET}.get(face, INK)
    patch = box(left, y - tall / 2, width, tall, face, edge=edge)
    if frozen:
        patch.set_linestyle((0, (4, 2)))
    axes.add_patch(patch)
    ink = "white" if face == LABELLED else INK
    _write(axes, left + width / 2, y, words, ha="center", color=ink)


def _arrow(axes: Axes, start: float, end: float, y: float) -> None:
    arrow = {"arrowstyle": "-|>", "color": "#8a8a8a", "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (end, y), (start, y), arrowprops=arrow)


def _write(axes: Axes, x: float, y: float, words: str, **look: Any) -> None:
    defaults: dict[str, Any] = {"size": FONT, "color": INK, "va": "center"}
    axes.text(x, y, words, **(defaults | look))
