"""Runs of record: finished runs by the thesis's protocol, copied to where the book keeps them."""

from pathlib import Path

from whenpool.files import write_atomically
from whenpool.report.corpora import STATISTICS_OF_RECORD, measured
from whenpool.report.verdicts import of_record
from whenpool.results import current_trainings
from whenpool.runs import Place
from whenpool.store import HISTORY_OF_RECORD, RUNS_OF_RECORD

_ORDER = ["corpus", "length", "size", "setting", "masked", "pooling", "seed", "key"]


def export_runs(place: Place, folder: Path) -> int:
    """Write the finished runs on whole published corpora that follow the thesis's protocol, padding
    masked or let in; those that are on record already stay. Returns how many there are now."""
    table = current_trainings(place)
    if table.empty:
        return 0
    table = table[of_record(table)].sort_values(_ORDER)
    epochs = place.store.histories()
    epochs = epochs[epochs["key"].isin(table["key"])].sort_values(["key", "epoch"])
    for name, rows in ((RUNS_OF_RECORD, table), (HISTORY_OF_RECORD, epochs)):
        write_atomically(folder / name, rows.to_csv(index=False, lineterminator="\n"))
    return len(table)


def export_statistics(place: Place, folder: Path) -> int:
    """Write the statistics of whole corpora that are here or on record. Returns how many."""
    table = measured(place)
    if "complete" not in table:  # none was seen
        return 0
    table = table[table["complete"].eq(True)]
    if len(table):
        text = table.drop(columns="source").to_csv(index=False, lineterminator="\n")
        write_atomically(folder / STATISTICS_OF_RECORD, text)
    return len(table)
