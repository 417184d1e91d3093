"""The same trainings in two stores: alone and together, in two precisions, on two machines."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series
from safetensors import SafetensorError
from safetensors.torch import load_file

from whenpool.base.errors import InputError, check
from whenpool.base.files import write_atomically
from whenpool.book.report.tables import corpus_name, signed
from whenpool.book.report.verdicts import THESIS_MODEL, Sample, column, estimate
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.settings import SETTINGS
from whenpool.models.precision import PRECISIONS
from whenpool.runs.store import NO_FOLDER, Store, key_of

RECORD = "record"  # Means the reference runs where a folder is asked for
COMPARISONS_OF_RECORD = "comparisons"  # Their file in data/results, without its ending
CIRCUMSTANCES = ("device", "precision", "together", "engine")
"""What can differ between two computations of one training; of the second one, with ``_other``."""
SIDES = (*CIRCUMSTANCES, *(f"{name}_other" for name in CIRCUMSTANCES))
MODEL = ("corpus", "length", "masked", "hidden_size", "epochs")
CELL = ("corpus", "length", "size", "setting", "masked", "hidden_size", "epochs")
"""A row of the file is one cell of the grid, all poolings and seeds, in two circumstances."""
PAIRS_NEEDED = 25
LARGEST_MEAN = 0.3
"""Points of test accuracy: a precision whose mean difference from float32 is below may be a reference run."""
COMMAND = "whenpool compare FOLDER OTHER --record"
_RESULTS = ["test_accuracy", "test_loss", "validation_accuracy", "best_epoch"]


def open_side(name: str, records: Path | None) -> Store:
    """A store by its folder, or the reference runs, in the folder ``records``, by the name `RECORD`."""
    if name == RECORD:
        if records is None:
            raise InputError("the reference runs are not here; run this inside a clone of the book")
        return Store(records, records)
    check(Path(name).is_dir(), f"folder {name} does not exist; name a folder of runs, or {RECORD}")
    return Store(Path(name))


def compare(first: Store, second: Store) -> DataFrame:
    """A row for each cell of the grid and pair of circumstances, from the trainings that both stores hold
    under the same key, but for those that diverged; raises `InputError` when there is none.

    Of two computations the plainer one comes first: float32, the processor, alone, the local engine.
    ``identical`` counts the pairs that agree in every result that does not depend on time, epoch by epoch,
    and in their weights; differences are second minus first, in points of test accuracy.
    """
    usual = {"precision": "float32", "together": 1, "engine": "local"}  # of runs older than the columns
    sides = []
    for store in (first, second):
        runs = store.current("training").set_index("key")
        known = {name: column(runs, name).astype(object).fillna(value) for name, value in usual.items()}
        runs = runs.assign(**known).astype({"together": int})
        history = store.history("training")
        sides.append((store, runs, dict(iter(history.groupby("key"))) if len(history) else {}))
    common = sides[0][1].index.intersection(sides[1][1].index, sort=False)
    if common.empty:
        names = ["the reference runs" if store.published else store.directory for store, *_ in sides]
        found = [f"{len(runs)} in {name}" for name, (_, runs, _) in zip(names, sides, strict=True)]
        raise InputError(f"no training is finished in both folders: there are {', '.join(found)}")
    pairs = []
    for key in common:
        both = [
            (runs.loc[key], epochs.get(key, DataFrame()), store.weights_file(key))
            for store, runs, epochs in sides
        ]
        if all(np.isfinite(row["test_accuracy"]) for row, _, _ in both):
            pairs.append(_pair(*sorted(both, key=lambda side: _plainness(side[0]))))
    check(pairs, f"all {len(common)} trainings that both folders have diverged; compare others")

    def once(commits: Series) -> str:
        return " ".join(sorted({str(one) for one in commits.dropna() if one}))

    grouped = DataFrame(pairs).groupby([*CELL, *SIDES], dropna=False)
    cells = grouped.agg(
        pairs=("difference", "size"), identical=("identical", "sum"), with_weights=("weight", "count"),
        mean_difference=("difference", "mean"), std_difference=("difference", "std"),
        largest_accuracy=("accuracy", "max"), largest_loss=("loss", "max"),
        largest_weight=("weight", "max"), commit=("commit", once), commit_other=("commit_other", once),
        finished=("finished", "max"),
    ).reset_index()  # fmt: skip
    rows = cells[[*CELL, *SIDES]].astype(object).to_dict("records")
    cells.insert(0, "key", [key_of({k: str(value) for k, value in row.items()}) for row in rows])
    return cells


def _plainness(row: Series) -> tuple[Any, ...]:
    """What sorts the plainer of two computations before the other."""
    kind, _, name = str(row["device"]).partition(":")
    exactness = PRECISIONS.index(row["precision"]) if row["precision"] in PRECISIONS else len(PRECISIONS)
    return exactness, kind != "cpu", int(row["together"]), row["engine"] != "local", name


def _pair(first: Any, second: Any) -> dict[str, Any]:
    """Two computations of one training, each its row, epochs and file of weights."""
    (row, epochs, file), (other, other_epochs, other_file) = first, second
    names = epochs.columns.intersection(other_epochs.columns).difference(["key", "seconds"])
    one, two = (own[names].to_numpy(float) for own in (epochs, other_epochs))
    same = np.array_equal(one, two, equal_nan=True)
    difference, weight = other["test_accuracy"] - row["test_accuracy"], np.nan
    if file.exists() and other_file.exists():
        weight = _largest_difference(file, other_file)
    return {
        **row[[*CELL, *CIRCUMSTANCES]], **other[[*CIRCUMSTANCES]].add_suffix("_other"),
        "identical": same and row[_RESULTS].equals(other[_RESULTS]) and not weight > 0,
        "difference": difference, "accuracy": abs(difference),
        "loss": abs(other["test_loss"] - row["test_loss"]), "weight": weight,
        "commit": row.get("commit"), "commit_other": other.get("commit"),
        "finished": max(str(row["finished"]), str(other["finished"])),
    }  # fmt: skip


def _largest_difference(*files: Path) -> float:
    """The largest absolute difference of any weight in two files."""
    loaded = []
    for file in files:
        try:
            loaded.append(load_file(file))
        except (OSError, SafetensorError) as error:
            raise InputError(f"weights {file} cannot be read ({error}); delete the file") from None
    one, two = loaded
    if {name: w.shape for name, w in one.items()} != {name: w.shape for name, w in two.items()}:
        raise InputError(f"weights {files[0]} and {files[1]} differ in shape; delete the wrong file")
    return max([float((two[name] - w).abs().max()) for name, w in one.items()], default=0.0)


def put_on_record(cells: DataFrame, folder: Path) -> None:
    """Write comparisons into a folder of results, in the place of older rows with their keys."""
    older = read_comparisons(folder)
    older = older[~older["key"].isin(cells["key"])]
    table = pd.concat([part for part in (older, cells) if len(part)], ignore_index=True)
    table = table.sort_values([*CELL, *SIDES], kind="stable")
    write_table(folder / f"{COMPARISONS_OF_RECORD}.csv", table)


def write_table(file: Path, rows: DataFrame) -> None:
    """A published table, in the same bytes on every machine."""
    write_atomically(file, rows.to_csv(index=False, lineterminator="\n"))


def read_comparisons(folder: Path | None) -> DataFrame:
    """The rows of ``comparisons.csv`` in a folder of results, see `compare`."""
    return Store(NO_FOLDER, folder).read_published(COMPARISONS_OF_RECORD)


def pooled(cells: DataFrame) -> dict[str, Any]:
    """Several cells made one, as if they had been compared together."""
    n, means = cells["pairs"].to_numpy(float), cells["mean_difference"].to_numpy(float)
    mean = float((n * means).sum() / n.sum())
    within = ((n - 1) * cells["std_difference"].fillna(0).to_numpy(float) ** 2).sum()
    squares = within + (n * (means - mean) ** 2).sum()
    return {
        **{name: int(cells[name].sum()) for name in ("pairs", "identical", "with_weights")},
        "mean_difference": mean,
        "std_difference": float(squares / (n.sum() - 1)) ** 0.5 if n.sum() > 1 else np.nan,
        **{name: cells[name].max() for name in cells if name.startswith("largest")},
    }


def table_of(cells: DataFrame) -> DataFrame:
    """Comparisons in a reader's words, a row for each corpus, model and pair of circumstances."""
    if cells.empty:
        return DataFrame({"trainings": ["not measured yet"]})

    def way(row: Series, end: str = "") -> list[str]:
        device, precision, together, engine = row[[f"{name}{end}" for name in CIRCUMSTANCES]]
        alone = "alone" if together == 1 else f"{together:.0f} together"
        return [device, precision, alone, f"engine {engine}"]

    rows = []
    for _, group in cells.groupby([*MODEL, *SIDES], sort=False, dropna=False):
        row, whole = group.iloc[0], pooled(group)
        name = corpus_name(str(row["corpus"]).partition(":")[0])
        name += "" if row["masked"] else ", unmasked"
        name += "" if row["length"] == "any" else f", {row['length']}"
        sizes = ", ".join(f"{int(size):,}" for size in sorted(set(group["size"])))
        settings = ", ".join(name for name in SETTINGS if name in set(group["setting"]))
        model = f"{row['hidden_size']} units, {row['epochs']} epochs"
        sides = list(zip(way(row), way(row, "_other"), strict=True))
        differing = [f"{one} against {two}" for one, two in sides if one != two]
        common = ", ".join(one for one, two in sides if one == two != "engine local")
        computed = ["; ".join(differing) or "twice the same", common]
        largest = f"accuracy {whole['largest_accuracy']:.2f}; loss {whole['largest_loss']:.1e}"
        if whole["with_weights"]:
            largest += f"; weights {whole['largest_weight']:.1e}"
        rows.append(
            {
                "trainings": f"{name}; {sizes} texts; {settings}; {model}",
                "computed": "; ".join(filter(None, computed)),
                "pairs": str(whole["pairs"]),
                "identical": str(whole["identical"]),
                "mean difference (points)": mean_text(whole),
                "largest difference": "none" if whole["identical"] == whole["pairs"] else largest,
            }
        )
    return DataFrame(rows)


def meaning(cells: DataFrame) -> str:
    """What the comparisons say, in a few sentences; how to make them where there are none."""
    if cells.empty:
        return f"No training was run twice yet; `{COMMAND}` compares two folders of runs."
    same = np.logical_and.reduce([cells[name] == cells[f"{name}_other"] for name in CIRCUMSTANCES])
    parts = []
    for chosen, how in ((cells[same], "in the same way"), (cells[~same], "in another way")):
        if len(chosen):
            whole = pooled(chosen)
            parts.append(
                f"Run twice {how}: {whole['identical']} of {whole['pairs']} pairs are identical but for "
                f"times; the mean difference of test accuracy is {mean_text(whole)} points, the largest "
                f"{whole['largest_accuracy']:.2f}."
            )
    return " ".join(parts) + " The number after ± is the 95 % t-interval over pairs."


def mean_text(row: Any) -> str:
    """A mean difference with its 95 % t-interval, which a single pair does not have."""
    mean, _, high = estimate([(1, Sample(row["mean_difference"], row["std_difference"], row["pairs"]))])
    return signed(mean, 3) + ("" if np.isnan(high) else f" ± {high - mean:.3f}")


def beside_float32(cells: DataFrame, precision: str, device: str, fused: bool) -> tuple[int, float]:
    """The pairs that compare a precision with float32, on published corpora and at the thesis's size, and
    their mean difference, or NaN. ``fused``: of models trained together, which round at other places."""
    if cells.empty:
        return 0, np.nan
    # the way of the side that is not float32, if one of them is
    exact = cells["precision"] == "float32"
    way = {name: cells[f"{name}_other"].where(exact, cells[name]) for name in CIRCUMSTANCES}
    counted = cells[
        (exact | (cells["precision_other"] == "float32"))
        & (way["precision"] == precision)
        & (way["device"].str.split(":").str[0] == device)
        & ((way["together"] > 1) == fused)
        & (cells["hidden_size"] >= THESIS_MODEL["hidden_size"])
        & (cells["epochs"] >= THESIS_MODEL["epochs"])
        & cells["corpus"].isin(list(PUBLICATIONS))
    ]
    if counted.empty:
        return 0, np.nan
    whole = pooled(counted)
    return whole["pairs"], whole["mean_difference"]


def admitted(runs: DataFrame, cells: DataFrame) -> tuple[Series, list[str]]:
    """Which runs may become reference runs by the rule on precision, and lines on those that may not."""
    kinds = runs["device"].str.split(":").str[0]
    ways = [column(runs, "precision").fillna("float32"), kinds, runs["together"].fillna(1) > 1]
    allowed, lines = Series(True, index=runs.index), []
    for (precision, device, fused), own in runs.groupby(ways, sort=False):
        pairs, mean = beside_float32(cells, precision, device, fused)
        if precision == "float32" or (pairs >= PAIRS_NEEDED and abs(mean) < LARGEST_MEAN):
            continue
        allowed[own.index] = False
        apart = f", {mean:+.2f} points apart" if pairs else ""
        lines.append(
            f"{len(own)} runs are left out: {precision} on {device} needs {PAIRS_NEEDED} pairs with float32 "
            f"on published corpora, at the thesis's size and less than {LARGEST_MEAN} points apart in the "
            f"mean, but there are {pairs}{apart} (`{COMMAND}` adds some)"
        )
    return allowed, lines
