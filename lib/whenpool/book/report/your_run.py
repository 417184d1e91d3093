"""What the runs of a reader's own request gave (another corpus, profile, cell or pooling, or fewer runs): a
figure and a table for each kind of result."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from pandas import DataFrame

from whenpool.book.report.tables import corpus_name, in_order, number_text, spread
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import LISTED_CELLS, PALETTE, POOLING_NAMES


@dataclass(frozen=True)
class Kind:
    """What is shown of a kind of result: ``y`` over ``x``, with a panel for each value of ``panel``."""

    title: str
    y: str
    label: str  # of y
    x: str = ""  # nothing: a dot for each run, and no lines
    panel: str = "setting"
    log: bool = False


KINDS = {
    "training": Kind("Test accuracy", "test_accuracy", "test accuracy, %"),
    "few-shot": Kind("Few labels", "test_accuracy", "test accuracy, %", panel="per_class"),
    "tagging": Kind("Tagging", "test_accuracy", "accuracy over words, %", panel="encoding"),
    "gradients": Kind("Gradients", "mean", "‖∂L/∂h‖", "position", log=True),
    "first_steps": Kind("Gradients of the first steps", "mean", "‖∂L/∂h‖", "position", log=True),
    "trace": Kind("Gradients while learning", "ratio", "vanishing ratio", "examples", log=True),
    "sweep": Kind("Filler added", "accuracy", "accuracy, %", "share_added", "setting_added"),
    "nwi": Kind("Word importance", "mean", "normalised importance", "position"),
    "states": Kind("Untrained states", "accuracy", "accuracy of a probe, %", panel="readout"),
    "directions": Kind("Directions", "accuracy_forward", "accuracy of the forward half, %"),
    "memory": Kind("Memory", "exponent", "power with which memory grows"),
}
"""Every kind of result, of runs and of probes, in the order in which they are shown."""


VARIED = "layers bidirectional epochs drop_connect weight_decay learning_rate hidden_size filters"


def prepared(rows: DataFrame) -> DataFrame:
    """The rows with ``model``, as figures call it, with what else differs between the models, and ``texts``,
    what it learnt from."""
    name = next(name for name in ("model", "system", "encoding") if name in rows)
    model = (
        rows[name]
        .fillna("tags as they are")
        .map(lambda name: POOLING_NAMES.get(name, str(name).replace("_", " ")))
    )
    if "cell" in rows and rows["cell"].nunique() > 1:
        cells = rows["cell"].map(lambda name: LISTED_CELLS[name].title)
        model = cells + ", " + model.replace("BiLSTM", "no pooling")
    if "masked" in rows:
        model = model + rows["masked"].map({False: ", padding read"}).fillna("")
    if "untrained" in rows and rows["untrained"].nunique(dropna=False) > 1:
        model = model + rows["untrained"].map({True: ", untrained"}).fillna("")
    for name in VARIED.split():
        if "system" not in rows and name in rows and rows[name].nunique() > 1:
            model = model + f", {name.replace('_', ' ')} " + rows[name].astype(str)
    corpus = rows["corpus"].map(lambda name: corpus_name(name.partition(":")[0]))
    texts = corpus + rows["size"].map(", {:,.0f} training texts".format)
    panels = {name: rows[name].fillna("any") for name in ("encoding",) if name in rows}
    return rows.assign(model=model, texts=texts, **panels)


def model_order(rows: DataFrame) -> list[str]:
    """The models that occur: first those of the thesis, in its order."""
    names = set(rows["model"])
    return [name for name in PALETTE if name in names] + sorted(names - set(PALETTE))


def _place(panel: Any) -> tuple[int, Any]:
    """Settings in the order of the thesis, other panels by their value."""
    return (SETTINGS.index(panel), 0) if panel in SETTINGS else (len(SETTINGS), panel)


def figure(kind: Kind, rows: DataFrame) -> Figure:
    """Lines of means over seeds, or a dot for each run."""
    rows = prepared(rows)
    order = model_order(rows)
    colours = {name: PALETTE.get(name, f"C{place % 10}") for place, name in enumerate(order)}
    look: dict[str, Any] = {"data": rows, "hue": "model", "palette": colours, "height": 2.6}
    look |= {"row": "texts", "col": kind.panel, "col_order": sorted(set(rows[kind.panel]), key=_place)}
    if kind.x:
        grid = sns.relplot(**look, x=kind.x, y=kind.y, kind="line", errorbar=None, hue_order=order)
        grid.set(yscale="log" if kind.log else "linear").set_axis_labels(
            kind.x.replace("_", " "), kind.label
        )
    else:
        grid = sns.catplot(**look, x=kind.y, y="model", kind="strip", jitter=False, order=order)
        grid.set_axis_labels(kind.label, "")
    grid.set_titles("{row_name}\n{col_name}")
    return grid.figure


def table(kind: Kind, rows: DataFrame) -> DataFrame:
    """By model the mean ± standard deviation (seeds); of lines the means at five places of ``x``."""
    rows, columns = prepared(rows), kind.panel
    if kind.x:
        values = np.array(sorted(set(rows[kind.x])))
        places = values[np.linspace(0, len(values) - 1, 5).astype(int)]
        rows, columns = rows[rows[kind.x].isin(places)], kind.x
    heads = list(dict.fromkeys(name for name in ("texts", kind.panel, "model") if name != columns))
    write = (lambda values: number_text(values.mean())) if kind.x else spread
    cells = rows.groupby([*heads, columns], sort=False)[kind.y].agg(write).unstack(columns)
    orders = {name: sorted(set(rows[name])) for name in heads} | {"model": model_order(rows)}
    laid_out = in_order(cells.fillna("").reset_index(), **orders)
    return laid_out.rename(columns=lambda name: str(name).replace("_", " "))
