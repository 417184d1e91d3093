"""Reference runs: finished runs by the thesis's protocol, copied to where the book keeps them."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from whenpool.book.compare import admitted, read_comparisons, write_table
from whenpool.book.report.corpora import STATISTICS_OF_RECORD, measured
from whenpool.corpora.published import PUBLICATIONS, THESIS_CORPORA
from whenpool.corpora.tagged import PUBLISHED
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans import COMPACT
from whenpool.runs.run import Place

PLACES = ("stage", "epoch", "examples", "position")  # Columns that say where in a history a point is


def at_a_scale(rows: pd.DataFrame) -> pd.Series:
    """Which trainings and probes have the size of one of the two scales, whatever else they vary: the
    thesis's on a whole corpus of its, or the compact replication's on any part of one."""
    whole = rows["corpus_complete"].eq(True) & rows["vectors"].notna() & rows["max_words"].isna()
    compact = rows["hidden_size"].isin(COMPACT_UNITS) & rows["max_words"].eq(COMPACT["max_words"])
    sized = (whole & rows["hidden_size"].eq(Training.hidden_size)) | compact
    return (
        sized & rows["corpus"].isin(THESIS_CORPORA) & rows["embedding_size"].eq(Training.embedding_size)
    )


COMPACT_UNITS = (
    COMPACT["hidden_size"],
    100,
    128,
)  # some cells need those of a word vector, or of both ways
OF_RECORD: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "training": lambda rows: at_a_scale(rows) & rows["epochs"].gt(1),  # fewer: for a probe alone
    "probe": at_a_scale,
    "few-shot": lambda rows: rows["corpus"].isin(PUBLICATIONS) & (rows["test_texts"] >= 1_000),
    "tagging": lambda rows: rows["corpus"].isin(PUBLISHED) & rows["corpus_complete"].eq(True),
}
"""Which runs are reference runs; of another kind all are."""


def export(kind: str, place: Place, folder: Path, say: Callable[[str], None] = print) -> int:
    """Write the finished reference runs of a kind, and their histories, beside those that are there; returns
    how many there are now. ``say`` is called with a line for those that are left out for their precision."""
    store, about = place.store, KINDS[kind]
    finished, recorded = store.current(kind), store.read_published(about.table)
    here = finished["key"].isin(recorded["key"])  # nothing that is published is ever withdrawn
    chosen = finished[OF_RECORD[kind](finished) | here] if kind in OF_RECORD else finished
    here = here[chosen.index]
    exact, lines = admitted(chosen[~here], read_comparisons(folder))
    for line in lines:
        say(line)
    table = _keeping(recorded, chosen[here | exact.reindex(chosen.index, fill_value=False)])
    if table.empty:
        return 0
    columns_kept = [name for name in table if name in recorded or table[name].notna().any()]
    write_table(folder / f"{about.table}.csv", table[columns_kept].sort_values(list(about.order)))
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


def _keeping(recorded: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Some rows, with those that are published already as they are there."""
    kept = recorded[recorded["key"].isin(rows["key"])]
    new = rows[~rows["key"].isin(kept["key"])]
    return pd.concat([part for part in (kept, new) if len(part)] or [rows], ignore_index=True)
