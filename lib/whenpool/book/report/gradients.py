"""What the figures and tables of gradient propagation show (thesis §1.5)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whenpool.book.report.paper import published
from whenpool.book.report.tables import POOLING_NAMES, grid, size_text

if TYPE_CHECKING:
    from pandas import DataFrame

LOW = "low"
"""The model BiLSTM_LowF, beside the names of poolings."""


def with_model(rows: "DataFrame") -> "DataFrame":
    """The same rows with a column ``model``: the pooling, or `LOW`."""
    if rows.empty:
        return rows.assign(model=[])
    return rows.assign(model=rows["pooling"].mask(rows["forget_bias"] == "low", LOW))


def at_start(profiles: "DataFrame") -> "DataFrame":
    """The gradient profiles of models that have seen their training texts once (Figure 1.2a)."""
    return profiles[profiles["epochs"] == 1] if len(profiles) else profiles


def at_end(profiles: "DataFrame") -> "DataFrame":
    """Those of models at their best epoch of a whole training."""
    return profiles[profiles["epochs"] > 1] if len(profiles) else profiles


def one_row_a_run(traces: "DataFrame") -> "DataFrame":
    """The numbers of each trace, from the rows that it measured beside them."""
    if traces.empty:
        return traces
    best = {"validation_accuracy": traces["validation_accuracy_of_run"]}
    return traces.assign(**best).drop_duplicates("key")


def level_table(profiles: "DataFrame") -> "DataFrame":
    """Mean gradient norm at the ends and in the middle of a text, a row for each model."""
    import pandas as pd

    names = {**POOLING_NAMES, LOW: "BiLSTM_LowF"}
    rows = []
    for model in names:
        found = profiles[profiles["model"] == model]
        if found.empty:
            continue
        profile = found.groupby("position")["mean"].mean().to_numpy()
        ends, middle = (profile[0] + profile[-1]) / 2, profile[49:51].mean()
        rows.append(
            {
                "model": names[model],
                "first and last word": f"{ends:.1e}",
                "middle": f"{middle:.1e}",
                "middle / ends": f"{middle / ends:.1e}",
                "seeds": str(found["seed"].nunique()),
            }
        )
    return pd.DataFrame(rows or [{"": "no such runs yet"}])


def ratio_table(traces: "DataFrame") -> "DataFrame":
    """Table 1.2: the vanishing ratio where training accuracy reaches 95 %, and the best validation
    accuracy, ours above the thesis's and the slides'.

    Args:
        traces: rows of `Store.probes` of the kind "trace".
    """
    theirs = published("vanishing")
    cells = []
    for _, row in theirs[theirs["source"] == "thesis"].iterrows():
        same = (theirs["pooling"] == row["pooling"]) & (theirs["size"] == row["size"])
        slides = theirs[same & (theirs["source"] == "slides")].iloc[0]
        ours = traces
        if len(traces):
            ours = traces[(traces["pooling"] == row["pooling"]) & (traces["size"] == row["size"])]
        thesis = f"{row['ratio']:g} ({slides['ratio']:g})"
        named = {"pooling": row["pooling"], "size": row["size"]}
        cells.append(named | {"kind": "ratio", "text": _above(_ratios(ours), thesis)})
        validation = f"{row['validation_accuracy']:.1f}"
        cells.append(named | {"kind": "validation, %", "text": _above(_validation(ours), validation)})
    import pandas as pd

    table = pd.DataFrame(cells).sort_values("kind", kind="stable")
    return grid(table, ["pooling"], ["kind", "size"], lambda row: row["text"])


def own_ratio_table(traces: "DataFrame") -> "DataFrame":
    """The same for runs that have no cell in the thesis, with the ratio before training."""
    import pandas as pd

    if traces.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    rows = []
    for (size, pooling), found in traces.groupby(["size", "pooling"], sort=False):
        reached = found.get("examples_at_95", pd.Series(dtype=float)).dropna()
        rows.append(
            {
                "pooling": POOLING_NAMES[str(pooling)],
                "texts": size_text(size),
                "at start": f"{found['ratio_at_start'].mean():.2g}",
                "at 95 %": _ratios(found) or "not reached",
                "after texts": f"{reached.mean():,.0f}" if len(reached) else "",
                "validation, %": _validation(found),
            }
        )
    return pd.DataFrame(rows)


def _ratios(found: "DataFrame") -> str:
    if found.empty or "ratio_at_95" not in found:
        return ""
    return _mean(found["ratio_at_95"].dropna().tolist(), lambda value: f"{value:.2g}")


def _validation(found: "DataFrame") -> str:
    if found.empty:
        return ""
    return _mean(found["validation_accuracy"].tolist(), lambda value: f"{value:.1f}")


def _mean(values: Sequence[float], write: Callable[[float], str]) -> str:
    if not values:
        return ""
    return f"{write(sum(values) / len(values))} ({len(values)})"


def _above(ours: str, theirs: str) -> str:
    return f"**{ours}**<br>{theirs}" if ours else theirs
