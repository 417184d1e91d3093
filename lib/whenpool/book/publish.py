"""Runs of record: finished runs by the thesis's protocol, copied to where the book keeps them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from whenpool.corpora.published import PUBLICATIONS
from whenpool.base.files import write_atomically
from whenpool.book.compare import admitted, read_comparisons
from whenpool.book.report.corpora import STATISTICS_OF_RECORD, measured
from whenpool.book.report.tagging import of_record as taggings_of_record
from whenpool.book.report.verdicts import (
    memory_of_record,
    of_breadth,
    of_either_scale,
    probes_of_breadth,
    probes_of_either_scale,
)
from whenpool.runs.rows import current_few_shots, current_probes, current_taggings, current_trainings
from whenpool.runs.run import Place
from whenpool.runs.store import (
    FEW_SHOTS_OF_RECORD,
    HISTORY_OF_RECORD,
    LOOKS_OF_RECORD,
    PROBES_OF_RECORD,
    RUNS_OF_RECORD,
    TAGGED_EPOCHS_OF_RECORD,
    TAGGING_GRADIENTS_OF_RECORD,
    TAGGINGS_OF_RECORD,
    measured_file,
)

if TYPE_CHECKING:
    from pandas import DataFrame

TESTED = 1_000
"""Test texts of a few-shot run of record, at least."""
_ORDER = ["corpus", "length", "size", "setting", "masked", "pooling", "seed", "key"]


def export_runs(place: Place, folder: Path, say: Callable[[str], None] = print) -> int:
    """Write the finished trainings at the thesis's scale and of the compact replication, and those of
    breadth, which are compact but for their cell or regularisation; those that are there already stay.
    Returns how many there are now.

    Args:
        say: told of the runs that are left out for their precision, see
            `whenpool.book.compare.admission`.
    """
    table = current_trainings(place)
    if table.empty:
        return 0
    chosen = table[of_either_scale(table) | of_breadth(table)]
    chosen = _exact(chosen, place.store.recorded, folder, say)
    table = _keeping(place.store.recorded, chosen).sort_values(_ORDER)
    epochs = _keeping(place.store.read_record(HISTORY_OF_RECORD), place.store.histories())
    epochs = epochs[epochs["key"].isin(table["key"])].sort_values(["key", "epoch"])
    for name, rows in ((RUNS_OF_RECORD, table), (HISTORY_OF_RECORD, epochs)):
        _write(folder / name, rows)
    return len(table)


def export_probes(place: Place, folder: Path, say: Callable[[str], None] = print) -> int:
    """Write the probe runs on such models, the memory of steps at the thesis's width, and what they
    measured; those that are there already stay. Returns how many there are now."""
    table = current_probes(place)
    if table.empty:
        return 0
    wanted = probes_of_either_scale(table) | probes_of_breadth(table)
    chosen = table[wanted | memory_of_record(table)]
    chosen = _exact(chosen, place.store.recorded_probes, folder, say)
    table = _keeping(place.store.recorded_probes, chosen)
    table = table.sort_values(["probe", *_ORDER])
    if len(table):
        _write(folder / PROBES_OF_RECORD, table)
    for kind, probes in table.groupby("probe"):
        name = measured_file(str(kind))
        measured = _keeping(place.store.read_record(name), place.store.measured(str(kind)))
        rows = measured[measured["key"].isin(probes["key"])]
        order = [name for name in ("key", "examples", "position") if name in rows]
        _write(folder / name, rows.sort_values(order, kind="stable"))
    return len(table)


def export_few_shots(place: Place, folder: Path, say: Callable[[str], None] = print) -> int:
    """Write the few-shot runs on published corpora, with whatever encoder, that were tested on at least
    `TESTED` texts; those that are on record already stay. Returns how many there are now."""
    table = current_few_shots(place)
    if table.empty:
        return 0
    chosen = table[table["corpus"].isin(PUBLICATIONS) & (table["test_texts"] >= TESTED)]
    chosen = _exact(chosen, place.store.recorded_few_shots, folder, say)
    table = _keeping(place.store.recorded_few_shots, chosen)
    table = table.sort_values(["corpus", "per_class", "system", "seed", "key"])
    looks = _keeping(place.store.read_record(LOOKS_OF_RECORD), place.store.few_shot_histories())
    looks = looks[looks["key"].isin(table["key"])].sort_values(["key", "epoch"])
    if len(table):
        for name, rows in ((FEW_SHOTS_OF_RECORD, table), (LOOKS_OF_RECORD, looks)):
            _write(folder / name, rows)
    return len(table)


def export_taggings(place: Place, folder: Path, say: Callable[[str], None] = print) -> int:
    """Write the tagging runs on whole published corpora that claims may rest on, their epochs, and the
    gradients that they measured; those that are on record already stay. Returns how many there are
    now."""
    table = current_taggings(place)
    if table.empty:
        return 0
    store = place.store
    chosen = _exact(table[taggings_of_record(table)], store.recorded_taggings, folder, say)
    table = _keeping(store.recorded_taggings, chosen)
    if table.empty:
        return 0
    _write(folder / TAGGINGS_OF_RECORD, table.sort_values(["corpus", "cell", "seed", "key"]))
    for name, rows, order in (
        (TAGGED_EPOCHS_OF_RECORD, store.tagging_histories(), ["key", "epoch"]),
        (TAGGING_GRADIENTS_OF_RECORD, store.tagging_gradients(), ["key", "stage", "position"]),
    ):
        rows = _keeping(store.read_record(name), rows)
        _write(folder / name, rows[rows["key"].isin(table["key"])].sort_values(order))
    return len(table)


def export_statistics(place: Place, folder: Path) -> int:
    """Write the statistics of whole corpora that are here or on record. Returns how many."""
    table = measured(place)
    if "complete" not in table:  # none was seen
        return 0
    table = table[table["complete"].eq(True)]
    if len(table):
        _write(folder / STATISTICS_OF_RECORD, table.drop(columns="source"))
    return len(table)


def _exact(
    found: "DataFrame", recorded: "DataFrame", folder: Path, say: Callable[[str], None]
) -> "DataFrame":
    """The rows that are on record already, and those whose precision may be."""
    here = found["key"].isin(recorded["key"])
    allowed, lines = admitted(found[~here], read_comparisons(folder))
    for line in lines:
        say(line)
    return found[here | allowed.reindex(found.index, fill_value=False)]


def _keeping(recorded: "DataFrame", found: "DataFrame") -> "DataFrame":
    """What was found, with the rows that are of record already as they are there."""
    import pandas as pd

    kept = recorded[recorded["key"].isin(found["key"])]
    new = found[~found["key"].isin(kept["key"])]
    return pd.concat([part for part in (kept, new) if len(part)] or [found], ignore_index=True)


def _write(file: Path, rows: "DataFrame") -> None:
    write_atomically(file, rows.to_csv(index=False, lineterminator="\n"))
