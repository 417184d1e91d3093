"""Comparisons of trainings that were run twice: alone and together, in two precisions, on two machines. The
script ``scripts/compare.py`` makes them; here they are read, shown, and decide which precisions count."""

from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame, Series

from whenpool.base.files import write_atomically
from whenpool.book.report.tables import corpus_name, signed
from whenpool.book.report.verdicts import THESIS_MODEL, Sample, column, estimate
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.settings import SETTINGS
from whenpool.runs.store import NO_FOLDER, Store

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
COMMAND = "python scripts/compare.py FOLDER OTHER --record"


def write_table(file: Path, rows: DataFrame) -> None:
    """A published table, in the same bytes on every machine."""
    write_atomically(file, rows.to_csv(index=False, lineterminator="\n"))


def read_comparisons(folder: Path | None) -> DataFrame:
    """The rows of ``comparisons.csv`` in a folder of results, see `COMMAND`."""
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
        differing = [f"{first} against {second}" for first, second in sides if first != second]
        common = ", ".join(side for side, other in sides if side == other != "engine local")
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
    for (precision, device, fused), group in runs.groupby(ways, sort=False):
        pairs, mean = beside_float32(cells, precision, device, fused)
        if precision == "float32" or (pairs >= PAIRS_NEEDED and abs(mean) < LARGEST_MEAN):
            continue
        allowed[group.index] = False
        apart = f", {mean:+.2f} points apart" if pairs else ""
        lines.append(
            f"{len(group)} runs are left out: {precision} on {device} needs {PAIRS_NEEDED} pairs with "
            f"float32 on published corpora, at the thesis's size and less than {LARGEST_MEAN} points "
            f"apart in the mean, but there are {pairs}{apart} (`{COMMAND}` adds some)"
        )
    return allowed, lines
