"""Compares the same trainings in two folders of runs: alone and together, in two precisions, on two
machines.

    whenpool compare exact fast                  # prints a table
    whenpool compare exact record --record       # and adds it to
    data/results/comparisons.csv

"record" in the place of a folder means the reference runs in data/results.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series
from safetensors.torch import load_file

from paper.runs.store import Store, key_of
from paper.verdicts.record import CIRCUMSTANCES, read_comparisons, write_table
from paper.verdicts.results import column
from whenpool.base.errors import check
from whenpool.models.precision import PRECISIONS

SIDES = (*CIRCUMSTANCES, *(f"{name}_other" for name in CIRCUMSTANCES))
CELL = ("corpus", "length", "size", "setting", "masked", "hidden_size", "epochs")
"""A row of the file is one cell of the grid, all poolings and seeds, in two circumstances."""
# Of runs older than these columns
USUAL = {"precision": "float32", "together": 1, "engine": "local"}
SCORES = ["test_accuracy", "test_loss", "validation_accuracy", "best_epoch"]


def compare(first: Store, second: Store) -> DataFrame:
    """A row for each cell of the grid and pair of circumstances, from the trainings that both
    stores hold under the same key, but for those that diverged; raises `InputError` when there is
    none.

    Of two computations the plainer one comes first: float32, the processor, alone, the local
    engine. ``identical`` counts the pairs that agree in every result that does not depend on time,
    epoch by epoch, and in their weights; differences are second minus first, in points of test
    accuracy.
    """
    sides = []
    for store in (first, second):
        runs = store.current("training").set_index("key")
        usual = {
            name: column(runs, name).astype(object).fillna(value) for name, value in USUAL.items()
        }
        history = store.history("training")
        epochs = dict(iter(history.groupby("key"))) if len(history) else {}
        sides.append((store, runs.assign(**usual).astype({"together": int}), epochs))
    common = sides[0][1].index.intersection(sides[1][1].index, sort=False)
    places = [f"{len(runs)} in {store.published or store.directory}" for store, runs, _ in sides]
    check(len(common), f"no training is finished in both folders: there are {', '.join(places)}")
    pairs = []
    for key in common:
        both = [
            (runs.loc[key], rows.get(key, DataFrame()), store.weights_file(key))
            for store, runs, rows in sides
        ]
        if all(np.isfinite(row["test_accuracy"]) for row, _, _ in both):
            pairs.append(_pair(*sorted(both, key=lambda side: _plainness(side[0]))))
    check(pairs, f"all {len(common)} trainings that both folders have diverged; compare others")
    grouped = DataFrame(pairs).groupby([*CELL, *SIDES], dropna=False)
    cells = grouped.agg(
        pairs=("difference", "size"),
        identical=("identical", "sum"),
        with_weights=("weight", "count"),
        mean_difference=("difference", "mean"),
        std_difference=("difference", "std"),
        largest_accuracy=("accuracy", "max"),
        largest_loss=("loss", "max"),
        largest_weight=("weight", "max"),
        commit=("commit", _each_once),
        commit_other=("commit_other", _each_once),
        finished=("finished", "max"),
    ).reset_index()
    rows = cells[[*CELL, *SIDES]].astype(object).to_dict("records")
    cells.insert(
        0, "key", [key_of({name: str(value) for name, value in row.items()}) for row in rows]
    )
    return cells


def _each_once(commits: Series) -> str:
    return " ".join(sorted({str(commit) for commit in commits.dropna() if commit}))


def _plainness(row: Series) -> tuple[Any, ...]:
    """What sorts the plainer of two computations before the other."""
    kind, _, name = str(row["device"]).partition(":")
    exactness = [*PRECISIONS, row["precision"]].index(row["precision"])
    return exactness, kind != "cpu", int(row["together"]), row["engine"] != "local", name


def _pair(first: Any, second: Any) -> dict[str, Any]:
    """Two computations of one training, each its row, epochs and file of weights."""
    (row, epochs, file), (other, other_epochs, other_file) = first, second
    names = epochs.columns.intersection(other_epochs.columns).difference(["key", "seconds"])
    history, other_history = epochs[names].to_numpy(float), other_epochs[names].to_numpy(float)
    same = np.array_equal(history, other_history, equal_nan=True)
    difference, weight = other["test_accuracy"] - row["test_accuracy"], np.nan
    if file.exists() and other_file.exists():
        weights, other_weights = load_file(file), load_file(other_file)
        weight = max(
            float((other_weights[name] - value).abs().max()) for name, value in weights.items()
        )
    return {
        **row[[*CELL, *CIRCUMSTANCES]],
        **other[[*CIRCUMSTANCES]].add_suffix("_other"),
        "identical": same and row[SCORES].equals(other[SCORES]) and not weight > 0,
        "difference": difference,
        "accuracy": abs(difference),
        "loss": abs(other["test_loss"] - row["test_loss"]),
        "weight": weight,
        "commit": row.get("commit"),
        "commit_other": other.get("commit"),
        "finished": max(str(row["finished"]), str(other["finished"])),
    }


def put_on_record(cells: DataFrame, folder: Path) -> None:
    """Write comparisons into a folder of results, in the place of older rows with their keys.
    Raises `InputError` where an older one is of more pairs."""
    older = read_comparisons(folder)
    known = older.set_index("key").get("pairs", {})
    pairs = dict(zip(cells["key"], cells["pairs"], strict=True))
    lost = sum(known.get(key, 0) > count for key, count in pairs.items())
    more = f"the record has more pairs of {lost} of these cells; compare folders that hold them all"
    check(not lost, more)
    parts = [part for part in (older[~older["key"].isin(cells["key"])], cells) if len(part)]
    table = pd.concat(parts, ignore_index=True).sort_values([*CELL, *SIDES], kind="stable")
    write_table(folder / "comparisons.csv", table)


def report(folders: Sequence[str], record: bool, results: Path) -> Iterator[str]:
    """The lines of `whenpool compare` for two folders of runs, of which one may be "record", the
    published runs."""
    records = {"record": Store(results, results)}
    cells = compare(*(records.get(name) or Store(Path(name)) for name in folders))
    shown = [*SIDES, "pairs", "identical", "mean_difference", "largest_accuracy", "largest_loss"]
    yield cells[[*CELL, *shown]].T.to_string(header=False)
    if record:
        put_on_record(cells, results)
        yield f"{len(cells)} rows were written into {results / 'comparisons.csv'}"
