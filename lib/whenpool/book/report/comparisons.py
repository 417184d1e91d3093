"""Trainings that were run twice: what was found, and the rule on precision that rests on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whenpool.corpora.published import PUBLICATIONS
from whenpool.book.report.literal import corpus_name
from whenpool.book.report.verdicts import THESIS_MODEL
from whenpool.corpora.settings import SETTINGS
from whenpool.runs.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame, Series

COMPARISONS_OF_RECORD = "comparisons.csv"
CIRCUMSTANCES = ("device", "precision", "together", "engine")
"""What can differ between two computations of one training; of the second one, with ``_other``."""
SIDES = (*CIRCUMSTANCES, *(f"{name}_other" for name in CIRCUMSTANCES))
CELL = ("corpus", "length", "size", "setting", "masked", "hidden_size", "epochs")
"""A row of the file is one cell of the grid, all poolings and seeds, in two circumstances."""
MODEL = ("corpus", "length", "masked", "hidden_size", "epochs")

PAIRS_NEEDED = 25
LARGEST_MEAN = 0.3
"""Points of test accuracy: a precision whose mean difference from float32 is below may be of record."""
COMMAND = "whenpool compare FOLDER OTHER --record"


def read_comparisons(folder: Path | None) -> "DataFrame":
    """The rows of ``comparisons.csv`` in a folder of results, see `whenpool.book.compare.compare`; none
    where there is no such file.

    Raises:
        InputError: when it cannot be read.
    """
    return Store(folder or Path(), folder).read_record(COMPARISONS_OF_RECORD)


def pooled(cells: "DataFrame", by: Sequence[str]) -> "DataFrame":
    """Rows for several cells made one: counts are added, means and deviations are those of all pairs
    together, exactly, and the largest differences are the largest of all.

    Args:
        by: the columns whose values stay apart.
    """
    import pandas as pd

    rows = []
    for values, group in cells.groupby(list(by), sort=False, dropna=False):
        n, means = group["pairs"].to_numpy(float), group["mean_difference"].to_numpy(float)
        mean = float((n * means).sum() / n.sum())
        within = ((n - 1) * group["std_difference"].fillna(0).to_numpy(float) ** 2).sum()
        squares = within + (n * (means - mean) ** 2).sum()
        rows.append(
            dict(zip(by, values, strict=True))
            | {
                "size": ", ".join(f"{int(size):,}" for size in sorted(set(group["size"]))),
                "setting": ", ".join(name for name in SETTINGS if name in set(group["setting"])),
                **{name: int(group[name].sum()) for name in ("pairs", "identical", "with_weights")},
                "mean_difference": mean,
                "std_difference": float(squares / (n.sum() - 1)) ** 0.5 if n.sum() > 1 else np.nan,
                **{name: group[name].max() for name in group if name.startswith("largest")},
            }
        )
    return pd.DataFrame(rows)


def table_of(cells: "DataFrame") -> "DataFrame":
    """Comparisons in a reader's words, those of one corpus and model in the same two circumstances in
    one row; a row that says so where there are none."""
    import pandas as pd

    if cells.empty:
        return pd.DataFrame({"trainings": ["not measured yet"]})
    rows = [
        {
            "trainings": _trainings(row),
            "computed": _circumstances(row),
            "pairs": str(row["pairs"]),
            "identical": str(row["identical"]),
            "mean difference (points)": mean_text(row),
            "largest difference": _largest(row),
        }
        for _, row in pooled(cells, [*MODEL, *SIDES]).iterrows()
    ]
    return pd.DataFrame(rows)


def meaning(cells: "DataFrame") -> str:
    """What the comparisons say, in a sentence or two; how to make them where there are none."""
    if cells.empty:
        return f"No training was run twice yet; `{COMMAND}` holds two stores against each other."
    same = _same_circumstances(cells)
    parts = []
    for chosen, how in ((cells[same], "in the same way"), (cells[~same], "in another way")):
        if len(chosen):
            whole = pooled(chosen.assign(all="all"), ["all"]).iloc[0]
            parts.append(
                f"Of {whole['pairs']} trainings that were run twice {how}, {whole['identical']} are "
                "identical in every result that does not depend on time; the test accuracies differ by "
                f"{mean_text(whole)} points in the mean and {whole['largest_accuracy']:.2f} at most."
            )
    return " ".join(parts) + " After ± stands the 95 % t-interval over pairs."


def mean_text(row: Any) -> str:
    """A mean difference with its 95 % t-interval, which a single pair does not have."""
    from scipy import stats

    if row["pairs"] < 2:
        return f"{row['mean_difference']:+.3f}"
    reach = stats.t.ppf(0.975, row["pairs"] - 1) * row["std_difference"] / row["pairs"] ** 0.5
    return f"{row['mean_difference']:+.3f} ± {reach:.3f}"


@dataclass(frozen=True)
class Admission:
    """What is known of a precision on a kind of device, beside float32.

    Attributes:
        pairs: of trainings on published corpora by a model at least as large as the thesis's.
        mean: of their differences of test accuracy in points; NaN without pairs.
    """

    precision: str
    device: str
    pairs: int
    mean: float

    @property
    def allowed(self) -> bool:
        """Whether runs in this precision may be runs of record."""
        if self.precision == "float32":
            return True
        return self.pairs >= PAIRS_NEEDED and abs(self.mean) < LARGEST_MEAN

    def __str__(self) -> str:
        known = f"there are {self.pairs}" + (f", {self.mean:+.2f} points apart" if self.pairs else "")
        return (
            f"{self.precision} on {self.device} needs {PAIRS_NEEDED} pairs with float32 on published "
            f"corpora, at the thesis's size and less than {LARGEST_MEAN} points apart in the mean; "
            f"{known} (`{COMMAND}` adds some)"
        )


def admission(cells: "DataFrame", precision: str, device: str, fused: bool = False) -> Admission:
    """The rule on precision.

    Args:
        cells: rows of ``comparisons.csv``.
        precision: a name in `whenpool.models.precision.PRECISIONS`.
        device: "cpu" or "cuda".
        fused: of models trained together, whose recurrences round at other places.
    """
    if cells.empty:
        return Admission(precision, device, 0, np.nan)
    exact, other = _exact_and_other(cells)
    kind = cells["device_other"].where(exact, cells["device"]).map(_kind)
    large = (cells["hidden_size"] >= THESIS_MODEL["hidden_size"]) & (
        cells["epochs"] >= THESIS_MODEL["epochs"]
    )
    together = cells["together_other"].where(exact, cells["together"])
    counted = cells[
        (other == precision)
        & (kind == device)
        & ((together > 1) == fused)
        & large
        & cells["corpus"].isin(list(PUBLICATIONS))
    ]
    if counted.empty:
        return Admission(precision, device, 0, np.nan)
    whole = pooled(counted.assign(all="all"), ["all"]).iloc[0]
    return Admission(precision, device, int(whole["pairs"]), float(whole["mean_difference"]))


def admitted(runs: "DataFrame", cells: "DataFrame") -> tuple["Series", list[str]]:
    """Which of some runs have a precision that runs of record may have, and for each one that they may
    not have yet a line with what is known of it.

    Args:
        runs: rows of `Store.trainings`, `Store.probes` or `Store.few_shots`.
        cells: rows of ``comparisons.csv``.
    """
    import pandas as pd

    known = runs["precision"] if "precision" in runs else pd.Series(None, index=runs.index, dtype=object)
    together = runs["together"].fillna(1) if "together" in runs else pd.Series(1, index=runs.index)
    ways = pd.Series(
        list(zip(known.fillna("float32"), runs["device"].map(_kind), together > 1, strict=True)),
        index=runs.index,
        dtype=object,
    )
    found = {way: admission(cells, *way) for way in dict.fromkeys(ways)}
    allowed = ways.map(lambda way: found[way].allowed).astype(bool)
    lines = [
        f"{int((ways == way).sum())} runs are left out: {known}"
        for way, known in found.items()
        if not known.allowed
    ]
    return allowed, lines


def _exact_and_other(cells: "DataFrame") -> tuple["Series", "Series"]:
    """Where the first side is float32, and the other side's precision; "" where neither is."""
    first, second = cells["precision"] == "float32", cells["precision_other"] == "float32"
    other = cells["precision_other"].where(first, cells["precision"])
    return first, other.where(first | second, "")


def _same_circumstances(cells: "DataFrame") -> "Series":
    same = cells["device"] == cells["device_other"]
    for name in CIRCUMSTANCES[1:]:
        same &= cells[name] == cells[f"{name}_other"]
    return same


def _kind(device: Any) -> str:
    return str(device).partition(":")[0]


def _trainings(row: Any) -> str:
    name = corpus_name(str(row["corpus"]).partition(":")[0]) + ("" if row["masked"] else ", unmasked")
    length = "" if row["length"] == "any" else f", {row['length']}"
    model = f"{row['hidden_size']} units, {row['epochs']} epochs"
    return f"{name}{length}; {row['size']} texts; {row['setting']}; {model}"


def _circumstances(row: Any) -> str:
    """What both sides have in common, and what differs."""
    words: dict[str, Callable[[Any], str]] = {
        "device": str,
        "precision": str,
        "together": lambda count: "alone" if int(count) == 1 else f"{int(count)} together",
        "engine": lambda name: f"engine {name}",
    }
    pairs = [(write(row[name]), write(row[f"{name}_other"])) for name, write in words.items()]
    pairs = [pair for pair in pairs if pair != ("engine local", "engine local")]  # goes without saying
    common = ", ".join(first for first, second in pairs if first == second)
    differing = "; ".join(f"{first} against {second}" for first, second in pairs if first != second)
    return "; ".join(part for part in (differing or "twice the same", common) if part)


def _largest(row: Any) -> str:
    weight = f"; weights {row['largest_weight']:.1e}" if row["with_weights"] else ""
    return f"accuracy {row['largest_accuracy']:.2f}; loss {row['largest_loss']:.1e}{weight}"
