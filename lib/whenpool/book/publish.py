"""Reference runs: finished runs by the thesis's protocol, copied to where the book keeps them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from whenpool.book.compare import admitted, read_comparisons, write_table
from whenpool.book.report import verdicts
from whenpool.book.report.corpora import STATISTICS_OF_RECORD, measured
from whenpool.corpora.published import PUBLICATIONS
from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place

PLACES = ("stage", "epoch", "examples", "position")  # Columns that say where in a history a point is
OF_RECORD: dict[str, Callable[[pd.DataFrame], Any]] = {
    "training": lambda rows: verdicts.of_either_scale(rows) | verdicts.of_breadth(rows),
    "probe": lambda rows: (
        verdicts.probes_of_either_scale(rows)
        | verdicts.probes_of_breadth(rows)
        | verdicts.is_memory_reference(rows)
    ),
    "few-shot": lambda rows: rows["corpus"].isin(PUBLICATIONS) & (rows["test_texts"] >= 1_000),
    "tagging": verdicts.is_reference_tagging,
}
"""Which runs are reference runs: at the thesis's scale, of the compact replication, and compact but for their
cell or regularisation (breadth); few-shot runs on published corpora with 1,000 test texts or more; taggers
on whole ones. Of another kind all are."""


def export(kind: str, place: Place, folder: Path, say: Callable[[str], None] = print) -> int:
    """Write the finished reference runs of a kind, and their histories, beside those that are there; returns
    how many there are now. ``say`` is told of those that are left out for their precision."""
    store, about = place.store, KINDS[kind]
    found, recorded = store.current(kind), store.read_published(about.table)
    chosen = found[OF_RECORD[kind](found)] if kind in OF_RECORD else found
    here = chosen["key"].isin(recorded["key"])
    exact, lines = admitted(chosen[~here], read_comparisons(folder))
    for line in lines:
        say(line)
    table = _keeping(recorded, chosen[here | exact.reindex(chosen.index, fill_value=False)])
    if table.empty:
        return 0
    said = [name for name in table if name in recorded or table[name].notna().any()]
    write_table(folder / f"{about.table}.csv", table[said].sort_values(list(about.order)))
    for history, columns in about.histories.items():
        name = f"{about.table}_{history}"
        rows = _keeping(store.read_published(name), store.history(kind, history))
        rows = rows[rows["key"].isin(table["key"])]
        if len(rows):
            order = ["key", *(name for name in PLACES if name in columns.split())]
            write_table(folder / f"{name}.csv", rows.sort_values(order, kind="stable"))
    return len(table)


def export_statistics(place: Place, folder: Path) -> int:
    """Write the statistics of whole corpora that are here or were published. Returns how many."""
    table = measured(place)
    if "complete" not in table:  # none was seen
        return 0
    table = table[table["complete"].eq(True)]
    counts = [name for name in table if name == "classes" or name.endswith(("_size", "max_length"))]
    table = table.astype(dict.fromkeys(counts, int))  # which rows without values have made fractions
    if len(table):
        write_table(folder / STATISTICS_OF_RECORD, table.drop(columns="source"))
    return len(table)


def _keeping(recorded: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """What was found, with the rows that are published already as they are there."""
    kept = recorded[recorded["key"].isin(found["key"])]
    new = found[~found["key"].isin(kept["key"])]
    return pd.concat([part for part in (kept, new) if len(part)] or [found], ignore_index=True)
