"""The figures of "Sequence labelling" that show runs."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from whenpool.report.figures import CHANCE_COLOUR, COLOURS, legend_of, nothing_yet

if TYPE_CHECKING:
    from pandas import DataFrame

LOOKS: dict[tuple[str, bool], dict[str, Any]] = {
    ("lstm", True): {"color": COLOURS["max_attention"], "marker": "o"},
    ("lstm", False): {"color": COLOURS["max_attention"], "marker": "o", "mfc": "white"},
    ("elman", True): {"color": COLOURS["last"], "marker": "s"},
    ("elman", False): {"color": COLOURS["last"], "marker": "s", "mfc": "white"},
}
"""By cell and whether both directions are read; filled for both."""
_OTHER: dict[str, Any] = {"color": COLOURS["mean"], "marker": "^"}
_LOSSES = {
    "mean": ("every word's loss", COLOURS["max_attention"]),
    "single": ("the middle word's loss", COLOURS["last"]),
}
_STAGES = {"before training": "-", "after training": ":"}


def model_name(cell: str, bidirectional: bool) -> str:
    """What a page calls a tagger."""
    cells = {"lstm": "LSTM", "gru": "GRU", "elman": "Elman"}
    return f"{cells.get(cell, cell)}, {'both directions' if bidirectional else 'left to right'}"


def draw_later(runs: "DataFrame") -> Figure:
    """Accuracy on the words whose tag only a later word decides, and on all others: a row for each
    model, a point for each seed.

    Args:
        runs: from `whenpool.report.tagging_rules.arranged`; those with such words are drawn, and none
            that were trained in another encoding than the file's.
    """
    runs = runs[runs["later_accuracy"].notna() & runs["encoding"].isna()]
    if runs.empty:
        return nothing_yet()
    share = runs["later_words"] / (runs["test_words"])
    others = (runs["test_accuracy"] - share * runs["later_accuracy"]) / (1 - share)
    shown = {"decided by a later word": runs["later_accuracy"], "all other words": others}
    corpora = list(dict.fromkeys(runs["corpus"]))
    models = list(dict.fromkeys(zip(runs["cell"], runs["bidirectional"].eq(True), strict=True)))
    rows = [(corpus, model) for corpus in corpora for model in models]
    rows = [row for row in rows if _of(runs, *row).any()]
    figure, panels = plt.subplots(1, 2, figsize=(7, 1.2 + 0.34 * len(rows)), sharex=True, sharey=True)
    for axes, (title, values) in zip(panels, shown.items(), strict=True):
        for place, (corpus, model) in enumerate(rows):
            own = values[_of(runs, corpus, model)]
            look = LOOKS.get(model, _OTHER)
            axes.plot(own, [place] * len(own), ls="", ms=8, mew=1.4, zorder=3, **look)
        axes.set(title=title, xlabel="accuracy, %", ylim=(len(rows) - 0.4, -0.6), xlim=(0, 105))
        axes.grid(axis="y", visible=False)
    panels[0].axvline(50, color=CHANCE_COLOUR, ls=":", lw=1.2, zorder=1)
    names = [f"{task_name(corpus)}: {model_name(*model)}" for corpus, model in rows]
    panels[0].set_yticks(range(len(rows)), names)
    return figure


def task_name(corpus: str) -> str:
    """What is tagged in the embedded corpus, in a word."""
    return "parts of speech" if "task=pos" in corpus else "entities"


def draw_gradients(points: "DataFrame") -> Figure:
    """Gradients along sentences, a panel for each direction of reading: of the sum of all words' losses,
    and of the loss of the word in the middle; before training and after.

    Args:
        points: rows of `Store.tagging_gradients` with a column ``bidirectional``; the mean over runs is
            drawn.
    """
    if points.empty:
        return nothing_yet()
    titles = {True: "both directions", False: "left to right"}
    ways = [way for way in titles if points["bidirectional"].eq(way).any()]
    figure, panels = plt.subplots(
        1, len(ways), figsize=(3.5 * len(ways), 3.4), sharey=True, squeeze=False
    )
    for axes, way in zip(panels.flat, ways, strict=True):
        for stage, line in _STAGES.items():
            own = points[points["bidirectional"].eq(way) & (points["stage"] == stage)]
            means = own.groupby("position")[list(_LOSSES)].mean()
            place = means.index / max(means.index.max(), 1)
            for column, (label, colour) in _LOSSES.items():
                values = means[column].where(means[column] > 0)  # nothing flows there
                axes.plot(place, values, line, color=colour, lw=1.8, label=f"{label}, {stage}")
        axes.set_yscale("log")
        axes.set(title=titles[way], xlabel="place in the sentence", xlim=(-0.02, 1.02))
        axes.set_xticks([0, 0.5, 1], ["first", "middle", "last"])
    panels.flat[0].set_ylabel("mean ‖∂L/∂h‖")
    handles, labels = legend_of(panels.flat)
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _of(runs: "DataFrame", corpus: str, model: tuple[str, bool]) -> Any:
    cell, way = model
    return (runs["corpus"] == corpus) & (runs["cell"] == cell) & (runs["bidirectional"].eq(way))
