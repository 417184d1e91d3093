"""Copies finished runs on published corpora to data/results, where the pages read them, and the
statistics of whole corpora: what `whenpool record` does.

A run in less than float32 is copied once enough trainings were computed both ways and agree in the
mean; ``whenpool compare`` compares them and keeps the differences in
``data/results/comparisons.csv``.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from paper.corpora.statistics import statistics_of
from paper.corpora.tagged import PUBLISHED
from paper.runs.kinds import KINDS
from paper.runs.kinds.training import ModelSpec
from paper.runs.plans import COMPACT
from paper.runs.run import Place
from paper.runs.store import NO_FOLDER, Store
from paper.verdicts.results import column, published
from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS, THESIS_CORPORA
from whenpool.training.loop import Recipe

PAIRS_NEEDED, LARGEST_MEAN = 25, 0.3
"""Runs in less than float32 may be reference runs once so many pairs of trainings, in both
precisions, differ by fewer than so many points of test accuracy in the mean."""
# Columns that say where in a history a point is
POSITIONS = ("stage", "epoch", "examples", "position")
# of a compact model; some cells need as many as a word vector has, or as both directions have
COMPACT_UNITS = (COMPACT["hidden_size"], 100, 128)
CIRCUMSTANCES = ("device", "precision", "together", "engine")
"""What can differ between two computations of one training; of the second one, with ``_other``."""


def at_a_scale(rows: DataFrame) -> Series:
    """Which trainings and probes have the size of one of the two scales, whatever else they vary:
    the thesis's on a whole corpus of its, or the compact replication's on any part of one."""
    whole = rows["corpus_complete"].eq(True) & rows["vectors"].notna() & rows["max_words"].isna()
    compact = rows["hidden_size"].isin(COMPACT_UNITS) & rows["max_words"].eq(COMPACT["max_words"])
    sized = (whole & rows["hidden_size"].eq(ModelSpec.hidden_size)) | compact
    sized &= rows["embedding_size"].eq(ModelSpec.embedding_size)
    return sized & rows["corpus"].isin(THESIS_CORPORA)


OF_RECORD: dict[str, Callable[[DataFrame], Series]] = {
    "training": lambda rows: at_a_scale(rows) & rows["epochs"].gt(1),  # fewer: for a probe alone
    "probe": at_a_scale,
    "few-shot": lambda rows: rows["corpus"].isin(PUBLICATIONS) & (rows["test_texts"] >= 1_000),
    "frozen": lambda rows: rows["corpus"].isin(PUBLICATIONS) & (rows["texts"] >= 1_000),
    "tagging": lambda rows: rows["corpus"].isin(PUBLISHED) & rows["corpus_complete"].eq(True),
}
"""Which runs are reference runs; of another kind all are."""


def write_table(file: Path, rows: DataFrame) -> None:
    """A published table, in the same bytes on every machine."""
    write_atomically(file, rows.to_csv(index=False, lineterminator="\n"))


def export(kind: str, place: Place, folder: Path, say: Callable[[str], None] = print) -> int:
    """Write the finished reference runs of a kind, and their histories, beside those that are
    there; returns how many there are now. ``say`` is called with a line for those that are left out
    for their precision."""
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
    for history in about.histories:
        name = f"{about.table}_{history}"
        rows = _keeping(store.read_published(name), store.history(kind, history))
        rows = rows[rows["key"].isin(table["key"])]
        if len(rows):
            order = ["key", *(name for name in POSITIONS if name in rows)]
            write_table(folder / f"{name}.csv", rows.sort_values(order, kind="stable"))
    return len(table)


def _keeping(recorded: DataFrame, rows: DataFrame) -> DataFrame:
    """Some rows, with those that are published already as they are there."""
    kept = recorded[recorded["key"].isin(rows["key"])]
    new = rows[~rows["key"].isin(kept["key"])]
    return pd.concat([part for part in (kept, new) if len(part)] or [rows], ignore_index=True)


def read_comparisons(folder: Path | None) -> DataFrame:
    """The rows of ``comparisons.csv`` in a folder of results, a row for each cell of the grid and
    pair of `CIRCUMSTANCES`."""
    return Store(NO_FOLDER, folder).read_published("comparisons")


def admitted(runs: DataFrame, cells: DataFrame) -> tuple[Series, list[str]]:
    """Which runs may become reference runs by the rule on precision, and lines on those that may
    not: enough pairs on published corpora and at the thesis's size differ little in the mean from
    float32, which is the first side of a comparison. Models trained together count apart: they
    round at other places."""
    kinds = runs["device"].str.split(":").str[0]
    ways = [column(runs, "precision").fillna("float32"), kinds, runs["together"].fillna(1) > 1]
    allowed, lines = Series(True, index=runs.index), []
    if len(cells):
        large = (cells["hidden_size"] >= ModelSpec.hidden_size) & (cells["epochs"] >= Recipe.epochs)
        cells = cells[
            large & cells["precision"].eq("float32") & cells["corpus"].isin(list(PUBLICATIONS))
        ]
    for (precision, device, fused), group in runs.groupby(ways, sort=False):
        if precision == "float32":
            continue
        pairs, mean = 0, np.nan
        if len(cells):
            same = cells["precision_other"].eq(precision) & cells["together_other"].gt(1).eq(fused)
            same &= cells["device_other"].str.split(":").str[0].eq(device)
            n = cells["pairs"][same]
            pairs, mean = n.sum(), (n * cells["mean_difference"][same]).sum() / max(n.sum(), 1)
        if pairs >= PAIRS_NEEDED and abs(mean) < LARGEST_MEAN:
            continue
        allowed[group.index] = False
        lines.append(
            f"{len(group)} runs are left out: {precision} on {device} needs {PAIRS_NEEDED} "
            "pairs with "
            "float32 on published corpora, at the thesis's size and less than "
            f"{LARGEST_MEAN} points apart "
            f"in the mean, but there are {pairs} (whenpool compare adds some)"
        )
    return allowed, lines


def statistics(place: Place) -> DataFrame:
    """Of the thesis's corpora, a row for each corpus and length; ``source`` is "here", "record", or
    that no files are here."""
    stored, rows = Place.default().store.read_published("corpora").assign(source="record"), []
    recorded = {(row["corpus"], row["length"]): row for row in stored.to_dict("records")}
    for corpus, length in published("corpora")[["corpus", "length"]].itertuples(index=False):
        row: dict[Any, Any] = recorded.get((corpus, length), {"source": "no files here"})
        if PUBLICATIONS[corpus].find(place.data) is not None:
            with suppress(InputError):  # a part of a corpus may have no texts of this length
                row = statistics_of(find(corpus, place.data), length) | {"source": "here"}
        rows.append({"corpus": corpus, "length": length} | row)
    return DataFrame(rows)


def export_statistics(place: Place, folder: Path) -> int:
    """Write the statistics of whole corpora that are here or were published. Returns how many."""
    table = statistics(place)
    if "complete" not in table:  # none was seen
        return 0
    table = table[table["complete"].eq(True)]
    counts = [name for name in table if name == "classes" or name.endswith(("_size", "max_length"))]
    table = table.astype(
        dict.fromkeys(counts, int)
    )  # which rows without values have made fractions
    if len(table):
        write_table(folder / "corpora.csv", table.drop(columns="source"))
    return len(table)


def record(data: Path | None, store: Path | None, folder: Path) -> str:
    """Copy the runs of all kinds, and the statistics; returns a line on what is there now."""
    place = Place.default(data, store)
    counts = [f"{export(kind, place, folder)} {kind} runs" for kind in KINDS]
    corpora = export_statistics(place, folder)
    return f"{', '.join(counts)} and the statistics of {corpora} corpora are now in {folder}"
