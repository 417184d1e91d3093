"""What the measures of several chapters share: `Measure`, and the numbers of tested trainings.

A measure is a column of a table that has a row for each number: the configuration of the run
(columns of `paper.runs.store.Store.rows`; ``model`` is its name, see
`paper.verdicts.results.variant_of`), ``seed``, ``key`` and ``began``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from paper.runs.kinds.training import Training
from paper.runs.plans import COMPACT, COMPACT_TEST
from paper.runs.store import recorded_columns
from paper.verdicts.results import SCALES, Runs, Sample, Selection, has, published
from whenpool.corpora.published import THESIS_CORPORA

SEEDS_NEEDED = 3  # for a verdict
RUNS_PER_CELL = 5  # Seeds behind each mean and standard deviation of the thesis (§1.4.2)
LAMBDA_IN_USE = {name: [None, getattr(Training, name)] for name in ("strength", "divergence")}
"""The strength of gradient-directed training and the divergence that it lowers; other trainings
have none."""


@dataclass(frozen=True)
class Measure:
    """How one number of a run is read."""

    rows: Callable[[Runs], DataFrame]  # gives the table, see the module
    column: str = "value"  # of the numbers in it
    ratio: bool = False  # whether it is one, compared on a log scale
    # what a run has where a claim does not say otherwise, by scale
    fixed: Mapping[str, Selection] = field(default_factory=lambda: SCALES)
    # the thesis's numbers: what they are of, mean, std and n
    thesis: Callable[[], DataFrame] | None = None
    drawn: bool = False  # whether it needs no stored runs
    exact: bool = False  # whether one number is all there is: nothing in it is drawn at random
    paired: bool = False  # whether means are compared seed by seed, which draws the same texts
    most: float | None = None  # the most that it can be, where rules are near to it

    def published(self, selection: Selection) -> Sample | None:
        """The thesis's own number, from its tables."""
        if self.thesis is None:
            return None
        rows, usual = self.thesis(), self.fixed["thesis"]
        in_table = {name: value for name, value in selection.items() if name in rows}
        unlike = (usual.get(n) != value for n, value in selection.items() if n not in rows)
        numbers = rows.loc[has(rows, in_table), ["mean", "std", "n"]]
        if numbers.empty or any(unlike):
            return None
        mean, std, n = numbers.iloc[0]
        return Sample(mean, std, int(n))


def scales_with(**values: Any) -> dict[str, Selection]:
    """What runs have at each scale, where some of it is as this measure needs it."""
    return {name: scale | values for name, scale in SCALES.items()}


def with_numbers(points: DataFrame, **numbers: Series) -> DataFrame:
    """The first row of each run, with numbers by its key; in the order of the table, which has
    published runs first."""
    rows = points.drop_duplicates("key").sort_index()
    return rows.assign(**{name: rows["key"].map(values) for name, values in numbers.items()})


def tested(rows: DataFrame) -> DataFrame:
    """Those that were tested on as many texts as their scale says, with the λ that is in use."""
    compact = rows["max_words"].eq(COMPACT["max_words"])
    texts = rows["corpus"].map(COMPACT_TEST).where(compact)
    as_said = (rows["test"].isna() & texts.isna()) | (rows["test"] == texts)
    rows = rows[as_said | ~rows["corpus"].isin(THESIS_CORPORA)]  # of others it says nothing
    return rows[has(rows, LAMBDA_IN_USE)].dropna(subset=["test_accuracy"])


def trainings(runs: Runs) -> DataFrame:
    """A row for each that was tested."""
    rows = tested(runs.table("training"))
    return rows.assign(above_chance=rows["test_accuracy"] - rows["majority_accuracy"])


def epochs(runs: Runs) -> DataFrame:
    """The epochs of all trainings in their order."""
    columns = recorded_columns("trainings_history")
    return runs.table("epochs").reindex(columns=columns).sort_values(["key", "epoch"])


@lru_cache
def thesis_accuracy(chapter: str = "chapter 1") -> DataFrame:
    """Of all tables of chapter 1, and of Table 2.1, which has other numbers for MaxPool than Table
    1.6: the chapter whose number counts comes first."""
    usual = published("accuracy").rename(columns={"pooling": "model"}).assign(n=RUNS_PER_CELL)
    tricks = published("learnability").rename(columns={"method": "model", "accuracy": "mean"})
    tricks = tricks.assign(length="long", std=np.nan, n=1)
    return pd.concat([usual, tricks] if chapter == "chapter 1" else [tricks, usual])


@lru_cache
def thesis_lead() -> DataFrame:
    """The same above the accuracy of always guessing the largest class, in % (§1.8.2)."""
    rows = thesis_accuracy()
    largest_class = {"imdb": 50.0, "yelp": 50.0, "yahoo": 12.0, "amazon": 5.0}
    return rows.assign(mean=rows["mean"] - rows["corpus"].map(largest_class))


@lru_cache
def thesis_numbers(file: str, column: str, ratio: bool = False) -> DataFrame:
    """Single numbers from a column of a file of ``data/paper``, with the names that columns of runs
    have."""
    table = published(file).rename(columns={"pooling": "model", "model": "system"})
    table = table[table["source"] == "thesis"] if "source" in table else table
    return table.assign(mean=np.log(table[column]) if ratio else table[column], std=np.nan, n=1)


MEASURES = {
    "accuracy": Measure(trainings, "test_accuracy", thesis=thesis_accuracy),
    "above_chance": Measure(trainings, "above_chance", thesis=thesis_lead),
    "validation_accuracy": Measure(
        trainings,
        "validation_accuracy",
        thesis=partial(thesis_numbers, "vanishing", "validation_accuracy"),
    ),
}
"""What several chapters claim something about."""
