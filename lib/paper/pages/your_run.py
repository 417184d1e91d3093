"""What the runs of a reader's own request gave (another corpus, profile, cell or pooling, or fewer
runs): a figure and a table for each kind of result."""

from typing import NamedTuple

import matplotlib.pyplot as plt
import seaborn as sns
from IPython.display import display
from matplotlib.figure import Figure
from pandas import DataFrame

from paper.chapter import Chapter
from paper.pages.drawing import PALETTE
from paper.pages.tabling import corpus_name
from paper.tables import number_text, spread
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import POOLING_NAMES


class Kind(NamedTuple):
    """What is shown of a kind of result: ``y`` over ``x``, with a panel for each value of
    ``panel``."""

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
"""Kinds of results in the order in which they are shown; some probes are left out."""
VARIED = """cell layers bidirectional masked untrained epochs drop_connect weight_decay
    learning_rate clip
    filters"""
"""What is named of models that differ in it."""


def prepared(rows: DataFrame, kind: Kind) -> DataFrame:
    """The rows in order, with ``model`` as figures call it, and ``texts``, what it learnt from."""
    model = rows[next(name for name in ("model", "system", "encoding") if name in rows)]
    model = model.fillna("as they are").replace(POOLING_NAMES).astype(str).str.replace("_", " ")
    for name in VARIED.split():
        if name in rows and rows[name].nunique() > 1:
            model = model + f", {name.replace('_', ' ')} " + rows[name].astype(str)
    corpus = rows["corpus"].map(lambda name: corpus_name(name.partition(":")[0]))
    texts = corpus + rows["size"].map(", {:,.0f} training texts".format)
    rows = rows.assign(model=model, texts=texts, **{kind.panel: rows[kind.panel].fillna("any")})
    order = [*SETTINGS, *PALETTE]  # other values come behind, by alphabet
    place = lambda value: (order.index(value) if value in order else 99, str(value))  # noqa: E731
    return rows.sort_values(["texts", kind.panel, "model"], key=lambda column: column.map(place))


def figure(kind: Kind, rows: DataFrame) -> Figure:
    """Lines of means over seeds, or a dot for each run."""
    rows = prepared(rows, kind)
    look = {"data": rows, "row": "texts", "col": kind.panel, "height": 2.6}
    names = rows["model"].unique()
    look |= {
        "hue": "model",
        "palette": {n: PALETTE.get(n, f"C{i % 10}") for i, n in enumerate(names)},
    }
    if kind.x:
        grid = sns.relplot(**look, x=kind.x, y=kind.y, kind="line", errorbar=None)
        grid.set(yscale="log" if kind.log else "linear")
    else:
        grid = sns.catplot(**look, x=kind.y, y="model", kind="strip", jitter=False, legend=False)
    labels = (kind.x.replace("_", " "), kind.label) if kind.x else (kind.label, "")
    return grid.set_axis_labels(*labels).set_titles("{row_name}\n{col_name}").figure


def table(kind: Kind, rows: DataFrame) -> DataFrame:
    """By model the mean ± standard deviation (seeds); of lines the means at five places of
    ``x``."""
    rows, columns = prepared(rows, kind), kind.x or kind.panel
    if kind.x:
        values = sorted(set(rows[kind.x]))
        rows = rows[rows[kind.x].isin([values[(len(values) - 1) * part // 4] for part in range(5)])]
    heads = [name for name in ("texts", kind.panel, "model") if name != columns]
    cells = rows.groupby([*heads, columns], sort=False)[kind.y]
    texts = cells.agg((lambda each: number_text(each.mean())) if kind.x else spread)
    wide = texts.unstack(columns, sort=False).fillna("").reset_index()
    return wide.rename(columns=lambda name: str(name).replace("_", " ")).rename_axis(columns=None)


def show(chapter: Chapter) -> None:
    """A figure and a table for each kind of result of the request; nothing for the usual
    request."""
    kinds = {getattr(run, "probe", run.kind) for run in chapter.runs}
    for name, kind in KINDS.items():
        rows = chapter.results(name, "yours").dropna(subset=[kind.y]) if name in kinds else ()
        if len(rows):
            display(figure(kind, rows))
            plt.close()
            caption = f"Your run. {kind.title}: {kind.label}."
            label = f"tab-yours-{chapter.name}-{name}".replace("_", "-")
            display(chapter.table(table(kind, rows), caption, label, rows))
