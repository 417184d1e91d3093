"""The same trainings in two stores: alone and together, in two precisions, on two machines."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.base.paths import project_root
from whenpool.models.precision import PRECISIONS
from whenpool.book.report.comparisons import (
    CELL,
    CIRCUMSTANCES,
    COMPARISONS_OF_RECORD,
    SIDES,
    meaning,
    read_comparisons,
    table_of,
)
from whenpool.runs.store import Store, key_of

if TYPE_CHECKING:
    from pandas import DataFrame

RECORD = "record"
"""Stands for the runs of record where a folder is asked for."""
_RESULTS = ("test_accuracy", "test_loss", "validation_accuracy", "best_epoch")
_EARLIER: dict[str, Any] = {"precision": "float32", "together": 1, "engine": "local"}
"""What rows are that are older than a column."""


def compare_folders(
    first: str,
    second: str,
    results: Path | None = None,
    record: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Hold two folders of runs, or one and the runs of record, against each other, and tell what was
    found.

    Args:
        results: the folder of the runs of record; None: that of the clone.
        record: whether what was found is put there.

    Raises:
        InputError: see `open_side`, `compare` and `put_on_record`.
    """
    root = project_root()
    results = results or (root / "data" / "results" if root else None)
    cells = compare(open_side(first, results), open_side(second, results))
    say(table_of(cells).to_string(index=False))
    say(meaning(cells))
    if record:
        if results is None:
            raise InputError("comparisons of record live in the repository: run this inside a clone")
        put_on_record(cells, results)
        say(f"{len(cells)} rows of {results / COMPARISONS_OF_RECORD} were written")


def open_side(name: str, records: Path | None) -> Store:
    """A store by its folder, or the runs of record by the name `RECORD`.

    Args:
        records: the folder of the runs of record, None outside of a clone.

    Raises:
        InputError: when the folder is not there.
    """
    if name == RECORD:
        if records is None:
            raise InputError("runs of record live in the repository: run this inside a clone")
        return Store(records, records)
    if not Path(name).is_dir():
        raise InputError(f"folder {name} is not there; give a folder of runs, or the word {RECORD}")
    return Store(Path(name))


def compare(first: Store, second: Store) -> "DataFrame":
    """A row for each cell of the grid and pair of circumstances, from the trainings that both stores
    hold under the same key.

    Of two computations the plainer one stands first, whichever store it is in: float32, the processor,
    alone, the local engine. A training that diverged has no accuracy to compare and is left out.

    Returns:
        `CELL`, `SIDES` and: ``pairs``; ``identical``, those among them that agree in every result that
        does not depend on time, epoch by epoch, and bit for bit in their weights where both stores have
        them; ``with_weights``, the pairs where they do; mean and standard deviation of second minus
        first test accuracy in points; the largest absolute differences of test accuracy (points), test
        loss and any weight; commits, the newest date, and ``key``, the same for the same cell and
        circumstances.

    Raises:
        InputError: when no training is in both.
    """
    import pandas as pd

    tables = [_with_all_columns(store.trainings()) for store in (first, second)]
    rows = [table.set_index("key") for table in tables]
    common = [key for key in rows[0].index if key in rows[1].index]
    if not common:
        raise InputError(
            f"no finished training is in both: {len(rows[0])} in {_name(first)}, "
            f"{len(rows[1])} in {_name(second)}"
        )
    epochs = [_epochs(store) for store in (first, second)]
    pairs = []
    for key in common:
        sides = [(rows[n].loc[key], epochs[n].get(key), (first, second)[n]) for n in (0, 1)]
        if all(np.isfinite(row["test_accuracy"]) for row, _, _ in sides):
            pairs.append(_pair(key, *sorted(sides, key=lambda side: _plainness(side[0]))))
    if not pairs:
        raise InputError(f"all {len(common)} trainings that are in both diverged")
    groups = pd.DataFrame(pairs).groupby([*CELL, *SIDES], sort=True, dropna=False)
    return pd.DataFrame([_summary(values, group) for values, group in groups])


def put_on_record(cells: "DataFrame", folder: Path) -> None:
    """Write comparisons into a folder of results; older rows of the same cells and circumstances are
    replaced, others stay.

    Raises:
        InputError: when the file cannot be read or written.
    """
    import pandas as pd

    older = read_comparisons(folder)
    older = older[~older["key"].isin(cells["key"])]
    table = pd.concat([part for part in (older, cells) if len(part)], ignore_index=True)
    table = table.sort_values([*CELL, *SIDES], kind="stable")
    write_atomically(folder / COMPARISONS_OF_RECORD, table.to_csv(index=False, lineterminator="\n"))


def _name(store: Store) -> str:
    return "the runs of record" if store.records else str(store.directory)


def _with_all_columns(table: "DataFrame") -> "DataFrame":
    for name, value in _EARLIER.items():
        known = table[name] if name in table else [None] * len(table)
        table = table.assign(**{name: [value if v is None or v != v else v for v in known]})
    return table


def _plainness(row: Any) -> tuple[Any, ...]:
    kind, _, name = str(row["device"]).partition(":")
    precision = str(row["precision"])
    exactness = PRECISIONS.index(precision) if precision in PRECISIONS else len(PRECISIONS)
    return exactness, kind != "cpu", int(row["together"]), row["engine"] != "local", name


def _epochs(store: Store) -> "dict[Any, DataFrame]":
    history = store.histories()
    return dict(iter(history.groupby("key"))) if len(history) else {}


def _pair(key: str, first: Any, second: Any) -> dict[str, Any]:
    """Two computations of one training, each its row, epochs and store."""
    (row, epochs, store), (other, other_epochs, other_store) = first, second
    weights = _largest_weight(store.weights_file(key), other_store.weights_file(key))
    same = all(row[name] == other[name] for name in _RESULTS) and _same_epochs(epochs, other_epochs)
    return {
        **{name: _plain(row[name]) for name in (*CELL, *CIRCUMSTANCES)},
        **{f"{name}_other": _plain(other[name]) for name in CIRCUMSTANCES},
        "identical": same and weights in (None, 0),
        "accuracy": other["test_accuracy"] - row["test_accuracy"],
        "loss": abs(other["test_loss"] - row["test_loss"]),
        "weight": np.nan if weights is None else weights,
        "commit": row.get("commit"),
        "commit_other": other.get("commit"),
        "finished": max(str(row["finished"]), str(other["finished"])),
    }


def _plain(value: Any) -> Any:
    """A value as it was before a table made a fraction of it."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _same_epochs(first: "DataFrame | None", second: "DataFrame | None") -> bool:
    """Whether two histories agree in all that both have but the time."""
    if first is None or second is None:
        return first is second
    names = [name for name in first if name in second and name not in ("key", "seconds")]
    one, two = (part.sort_values("epoch")[names].to_numpy(float) for part in (first, second))
    return np.array_equal(one, two, equal_nan=True)


def _largest_weight(first: Path, second: Path) -> float | None:
    """The largest absolute difference of any weight; None where a store has none."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (first.exists() and second.exists()):
        return None
    loaded = []
    for file in (first, second):
        try:
            loaded.append(load_file(file))
        except (OSError, SafetensorError) as error:
            raise InputError(f"weights {file} cannot be read: {error}; delete the file") from None
    if {name: value.shape for name, value in loaded[0].items()} != {
        name: value.shape for name, value in loaded[1].items()
    }:
        raise InputError(f"weights {first} and {second} are not of one model; delete the wrong file")
    differences = [(loaded[1][name] - value).abs().max().item() for name, value in loaded[0].items()]
    return float(max(differences, default=0.0))


def _summary(values: tuple[Any, ...], pairs: "DataFrame") -> dict[str, Any]:
    group = dict(zip((*CELL, *SIDES), values, strict=True))
    identity = {name: str(value) for name, value in group.items()}
    commits = {
        name: " ".join(sorted({str(value) for value in pairs[name].dropna() if value}))
        for name in ("commit", "commit_other")
    }
    return {
        "key": key_of(identity),
        **group,
        "pairs": len(pairs),
        "identical": int(pairs["identical"].sum()),
        "with_weights": int(pairs["weight"].notna().sum()),
        "mean_difference": pairs["accuracy"].mean(),
        "std_difference": pairs["accuracy"].std(ddof=1),
        "largest_accuracy": pairs["accuracy"].abs().max(),
        "largest_loss": pairs["loss"].max(),
        "largest_weight": pairs["weight"].max(),
        **commits,
        "finished": pairs["finished"].max(),
    }
