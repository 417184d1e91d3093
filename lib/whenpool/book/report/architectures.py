"""The tables of "Other architectures" (thesis §1.3.3, §1.11.1).

Rows are of trainings, or of what was measured on them; what is shown of them comes from `compared`.
"""

from typing import Any

import pandas as pd

from whenpool.book.report import accuracies
from whenpool.book.report.accuracies import NOTHING_YET, in_order
from whenpool.book.report.evidence import Evidence
from whenpool.book.report.verdicts import SMALL_MODEL, has, memory_of_record, of_one_kind
from whenpool.models.registry import COLOURS, LISTED_CELLS, POOLING_NAMES
from whenpool.runs.plans.networks import ARCHITECTURES, TRANSFORMER_RATE, TRIED
from whenpool.runs.store import Store

MEMORY_NAMES = {
    ("lstm", "fused"): "BiLSTM",
    ("transformer", "plain"): "Transformer, scores kept",
    ("transformer", "fused"): "Transformer, fused",
}
"""What the memory of a training step was measured of, by cell and attention."""
_POOLINGS = {**POOLING_NAMES, "last": "none"}  # most of these models are no BiLSTM
_CELLS = {name: listed.title for name, listed in LISTED_CELLS.items()}
_TITLES = {"cell": _CELLS, "pooling": _POOLINGS}
PALETTE = {title: COLOURS[name] for name, title in _POOLINGS.items()}
"""A colour for each pooling, by what this chapter calls it."""
CELL_COLOURS = {listed.title: listed.colour for listed in LISTED_CELLS.values()}
CELL_SHAPES = {listed.title: listed.marker for listed in LISTED_CELLS.values()}
_PLAIN: dict[str, Any] = {
    "learning_rate": TRANSFORMER_RATE, "layers": 1, "epochs": SMALL_MODEL["epochs"],
}  # fmt: skip


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the cells that are compared, in their order: of trainings, or of what was measured on
    them."""
    if rows.empty:
        return rows
    return in_order(rows.sort_values("seed", kind="stable"), cell=ARCHITECTURES, pooling=POOLING_NAMES)


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Some rows with ``cell`` and ``pooling`` as figures call and order them."""
    if rows.empty:
        return rows
    drawn = {}
    for name, titles in _TITLES.items():
        called = rows[name].map(titles)
        drawn[name] = pd.Categorical(called, [own for own in titles.values() if own in set(called)])
    return rows.assign(**drawn)


def small(rows: pd.DataFrame) -> pd.DataFrame:
    """The small models on IMDb that are compared, which decide claims of their scale alone."""
    if rows.empty:
        return rows
    return compared(rows[has(rows, {k: v for k, v in SMALL_MODEL.items() if k != "cell"})])


def tried(evidence: Evidence) -> pd.DataFrame:
    """The small Transformers on IMDb of the first seed, max-attention on unmixed texts, whatever way
    they were trained."""
    runs = evidence.small
    if runs is None or runs.empty:
        return pd.DataFrame()
    same = {name: value for name, value in SMALL_MODEL.items() if name not in _PLAIN}
    same |= {"cell": "transformer", "pooling": "max_attention", "setting": "standard", "seed": 0}
    ways = pd.DataFrame([_PLAIN | way for way in ({}, *TRIED)]).drop_duplicates()
    return runs[has(runs, same)].merge(ways, on=list(_PLAIN)).sort_values(list(_PLAIN))


def accuracy_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy of each cell and pooling (rows) in each setting (columns), mean ± deviation (seeds)."""
    if runs.empty:
        return NOTHING_YET
    weights = runs.groupby("cell")["encoder_parameters"].transform("first") / 1e3
    heads = {name: lambda own, to=to: to.get(own, own) for name, to in _TITLES.items()}
    table = accuracies.accuracy_table(
        runs.assign(weights=weights.map("{:,.0f}K".format)), ["cell", "pooling", "weights"], heads=heads
    )
    return table.assign(weights=table["weights"].where(table["cell"] != "", ""))


def tried_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Accuracies by learning rate, layers and epochs."""
    if runs.empty:
        return NOTHING_YET
    percent, number = "{:.1f}".format, "{:g}".format
    told = {
        "learning_rate": number, "layers": number, "epochs": number, "validation_accuracy": percent,
        "test_accuracy": percent,
    }  # fmt: skip
    names = {"validation_accuracy": "validation, %", "test_accuracy": "test, %"}
    table = pd.DataFrame({name: runs[name].map(write) for name, write in told.items()})
    return table.rename(columns=names | {"learning_rate": "learning rate"})


def memory_of(measured: pd.DataFrame) -> pd.DataFrame:
    """What the probe "memory" measured, with a column ``model``, a row for each length; the first
    seed's, since none differs."""
    if measured.empty:
        return measured.assign(model=[])
    models = [MEMORY_NAMES[pair] for pair in zip(measured["cell"], measured["attention"], strict=True)]
    first = measured.assign(model=models)[measured["seed"] == measured["seed"].min()]
    return in_order(first.sort_values("words"), model=MEMORY_NAMES.values())


def memory_record(store: Store, probes: pd.DataFrame) -> pd.DataFrame:
    """The same of record, at the thesis's width."""
    chosen = of_one_kind(probes[memory_of_record(probes)]) if len(probes) else probes
    return memory_of(store.measured_on(chosen, "memory"))


def memory_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Megabytes of each model by the number of words, and the exponent of the words by which they grow."""
    if rows.empty:
        return NOTHING_YET
    wide = rows.pivot_table("megabytes", ["model", "exponent"], "words", sort=False).map(
        "{:,.0f}".format
    )
    wide = wide.rename(columns="{:,} words".format).rename_axis(columns=None).reset_index("exponent")
    return wide.assign(exponent=wide.pop("exponent").map("{:.2f}".format)).reset_index()


def facts(runs: pd.DataFrame) -> dict[str, str]:
    """What the text names: points that max-attention gains in mid over no pooling, by cell, as
    ``gain_<cell>``."""
    gains = pd.Series(dtype=float)
    if len(runs):
        mid = runs[runs["setting"] == "mid"].pivot_table("test_accuracy", "cell", "pooling")
        mid = mid.reindex(columns=["last", "max_attention"])
        gains = (mid["max_attention"] - mid["last"]).dropna()
    told = gains.map("{:+.1f}".format)
    return {f"gain_{cell}": told.get(cell, "not run") for cell in ARCHITECTURES}
