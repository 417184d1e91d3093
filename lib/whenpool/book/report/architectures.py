"""The tables of "Other architectures" (thesis §1.3.3, §1.11.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whenpool.runs.plans.other_architectures import ARCHITECTURES, TRANSFORMER_RATE, TRIED
from whenpool.models.registry import COLOURS, LISTED_CELLS, POOLING_NAMES
from whenpool.book.report.skip import MAJORITY, settings_of
from whenpool.book.report.tables import grid, mean_text
from whenpool.book.report.verdicts import SMALL_MODEL, Cell, has, memory_of_record, of_one_kind

if TYPE_CHECKING:
    from pandas import DataFrame

    from whenpool.book.report.evidence import Evidence
    from whenpool.runs.store import Store

WITHOUT = "none"
"""How the pooling "last" is called here, where most models are no BiLSTM."""
MEMORY_NAMES = {
    ("lstm", "fused"): "BiLSTM",
    ("transformer", "plain"): "Transformer, scores kept",
    ("transformer", "fused"): "Transformer, fused",
}
"""What the memory of a training step was measured of, by cell and attention."""
_POOLINGS = {**POOLING_NAMES, "last": WITHOUT}
PALETTE = {title: COLOURS[name] for name, title in _POOLINGS.items()}
"""A colour for each pooling, by what this chapter calls it."""
CELL_COLOURS = {listed.title: listed.colour for listed in LISTED_CELLS.values()}
CELL_SHAPES = {listed.title: listed.marker for listed in LISTED_CELLS.values()}


def in_order(runs: "DataFrame") -> "DataFrame":
    """The runs of the cells that are compared, in their order."""
    if runs.empty:
        return runs
    mine = runs[runs["cell"].isin(ARCHITECTURES)]  # of trainings, or what was measured on them
    places = {"cell": list(ARCHITECTURES), "pooling": list(POOLING_NAMES)}
    return mine.sort_values(
        ["cell", "pooling", "seed"],
        key=lambda values: values.map(places[values.name].index) if values.name in places else values,
        kind="stable",
    )


def named(rows: "DataFrame") -> "DataFrame":
    """Some rows with ``cell`` and ``pooling`` as figures call and order them.

    Args:
        rows: from `in_order`, of trainings or of what was measured on them.
    """
    import pandas as pd

    if rows.empty:
        return rows
    poolings = [name for name in _POOLINGS if name in set(rows["pooling"])]
    cells = [LISTED_CELLS[cell].title for cell in dict.fromkeys(rows["cell"])]
    return rows.assign(
        cell=pd.Categorical([LISTED_CELLS[cell].title for cell in rows["cell"]], cells),
        pooling=pd.Categorical(rows["pooling"].map(_POOLINGS), [_POOLINGS[name] for name in poolings]),
    )


def small_runs(evidence: "Evidence") -> "DataFrame":
    """The small models on IMDb that are compared, which decide claims of their scale alone."""
    runs = evidence.small
    if runs is None or runs.empty:
        return _none()
    return in_order(runs[_compared(runs)])


def small_measured(evidence: "Evidence", kind: str) -> "DataFrame":
    """What one kind of probe measured on them."""
    rows = evidence.small_measured.get(kind)
    if rows is None or rows.empty:
        return _none()
    return in_order(rows[_compared(rows)])


def tried(evidence: "Evidence") -> "DataFrame":
    """The small Transformers on IMDb of the first seed, max-attention on unmixed texts, whatever way
    they were trained."""
    runs = evidence.small
    if runs is None or runs.empty:
        return _none()
    same = {name: value for name, value in SMALL_MODEL.items() if name not in _TUNED}
    same |= {"cell": "transformer", "pooling": "max_attention", "setting": "standard", "seed": 0}
    wanted = {tuple((_PLAIN | way).values()) for way in ({}, *TRIED)}
    mine = runs[has(runs, same)]
    ways = mine[list(_PLAIN)].itertuples(index=False, name=None)
    asked = [row for row, way in zip(mine.index, ways, strict=True) if way in wanted]
    return mine.loc[asked].sort_values(list(_PLAIN))


def accuracy_table(runs: "DataFrame") -> "DataFrame":
    """Test accuracy of each cell and pooling (rows) in each setting (columns), mean ± deviation (seeds).

    Args:
        runs: from `in_order`, one corpus and training size.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    settings = settings_of(runs)
    cells: list[dict[str, Any]] = []
    for (cell, pooling, setting), rows in runs.groupby(["cell", "pooling", "setting"], sort=False):
        values = rows["test_accuracy"]
        text = mean_text(Cell(values.mean(), values.std(ddof=1), len(rows), ""))
        size = f"{rows['encoder_parameters'].iloc[0] / 1e3:,.0f}K"
        cells.append(
            {"cell": cell, "pooling": pooling, "weights": size, "setting": setting, "text": text}
        )
    for setting, rows in runs.groupby("setting", sort=False):
        guess = f"{rows['majority_accuracy'].mean():.1f}"
        cells.append({"cell": MAJORITY, "pooling": "", "weights": "", "setting": setting, "text": guess})
    heads = {
        "cell": lambda name: LISTED_CELLS[str(name)].title if name in LISTED_CELLS else str(name),
        "pooling": lambda name: _POOLINGS.get(str(name), str(name)),
    }
    rows = ["cell", "pooling", "weights"]
    table = grid(pd.DataFrame(cells), rows, ["setting"], lambda row: row["text"], heads)
    table["weights"] = table["weights"].where(table["cell"] != "", "")
    return table[[*rows, *settings]]


def tried_table(runs: "DataFrame") -> "DataFrame":
    """Accuracies by learning rate, layers and epochs.

    Args:
        runs: from `tried`.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    return pd.DataFrame(
        {
            "learning rate": f"{row['learning_rate']:g}",
            "layers": str(row["layers"]),
            "epochs": str(row["epochs"]),
            "validation, %": f"{row['validation_accuracy']:.1f}",
            "test, %": f"{row['test_accuracy']:.1f}",
        }
        for _, row in runs.iterrows()
    )


def memory_of(measured: "DataFrame") -> "DataFrame":
    """What the probe "memory" measured, with a column ``model``, a row for each length; the first
    seed's, since none differs."""
    if measured.empty:
        return measured.assign(model=[])
    models = [MEMORY_NAMES[pair] for pair in zip(measured["cell"], measured["attention"], strict=True)]
    rows = measured.assign(model=models)
    order = list(MEMORY_NAMES.values())
    return rows[rows["seed"] == rows["seed"].min()].sort_values(
        ["model", "words"], key=lambda v: v.map(order.index) if v.name == "model" else v
    )


def memory_record(store: "Store", probes: "DataFrame") -> "DataFrame":
    """The same of record, at the thesis's width.

    Args:
        probes: rows of `Store.probes`.
    """
    chosen = of_one_kind(probes[memory_of_record(probes)]) if len(probes) else probes
    return memory_of(store.measured_on(chosen, "memory"))


def memory_table(rows: "DataFrame") -> "DataFrame":
    """Megabytes of each model by the number of words, and the exponent of the words by which they grow.

    Args:
        rows: from `memory_of`.
    """
    import pandas as pd

    if rows.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    lines = [
        {
            "model": model,
            **{
                f"{n:,} words": f"{m:,.0f}"
                for n, m in zip(part["words"], part["megabytes"], strict=True)
            },
            "exponent": f"{part['exponent'].iloc[0]:.2f}",
        }
        for model, part in rows.groupby("model", sort=False)
    ]
    return pd.DataFrame(lines)


def together(parts: Sequence["DataFrame"]) -> "DataFrame":
    """The rows of several tables."""
    import pandas as pd

    return pd.concat([part for part in parts if len(part)] or [_none()])


def facts(runs: "DataFrame") -> dict[str, str]:
    """What the text names: points that max-attention gains in mid over no pooling, by cell, as
    ``gain_<cell>``."""
    found = {f"gain_{cell}": "not run" for cell in ARCHITECTURES}
    if runs.empty:
        return found
    means = runs.groupby(["cell", "pooling", "setting"])["test_accuracy"].mean()
    for cell in ARCHITECTURES:
        pooled, bare = (cell, "max_attention", "mid"), (cell, "last", "mid")
        if pooled in means and bare in means:
            found[f"gain_{cell}"] = f"{means[pooled] - means[bare]:+.1f}"
    return found


_PLAIN: dict[str, Any] = {
    "learning_rate": TRANSFORMER_RATE, "layers": 1, "epochs": SMALL_MODEL["epochs"],
}  # fmt: skip
_TUNED = (*_PLAIN, "cell")


def _compared(runs: "DataFrame") -> Any:
    return has(runs, {name: value for name, value in SMALL_MODEL.items() if name != "cell"})


def _none() -> "DataFrame":
    import pandas as pd

    return pd.DataFrame()
