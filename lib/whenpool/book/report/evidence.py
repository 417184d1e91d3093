"""Runs of record, sorted by what draws them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from whenpool.book.report.tricks import finished
from whenpool.book.report.verdicts import (
    memory_of_record,
    of_breadth,
    of_one_kind,
    of_record,
    probes_of_breadth,
    probes_of_record,
)
from whenpool.runs.kinds.probe import PROBES
from whenpool.runs.store import Store


@dataclass(frozen=True)
class Evidence:
    """Runs of record.

    Attributes:
        trainings: rows of `whenpool.runs.store.Store.rows`.
        measured: for each kind of probe, its rows beside the configuration of the training.
        small: the trainings that `whenpool.book.report.verdicts.of_breadth` lets in.
        small_measured: the same of probes, as `measured` is of those of record.
    """

    trainings: pd.DataFrame
    measured: Mapping[str, pd.DataFrame]
    small: pd.DataFrame = field(default_factory=pd.DataFrame)
    small_measured: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def on_imdb(self, kind: str, masked: bool | None = None) -> pd.DataFrame:
        """What one kind of probe measured on long IMDb reviews, on models whose padding is masked, let in,
        or either; word importance only on texts of the thesis's lengths."""
        rows = self.measured[kind]
        if rows.empty:
            return rows
        rows = rows[(rows["corpus"] == "imdb") & (rows["length"] == "long")]
        if kind == "nwi":
            rows = rows[rows["shortest"] == 400] if "shortest" in rows else rows.head(0)
        return rows if masked is None else rows[rows["masked"] == masked]


def evidence_of(store: Store) -> Evidence:
    """The finished runs that figures and tables of record draw.

    Where some were trained from other word vectors, those of the most runs count: numbers of two
    kinds are not compared.
    """
    trainings, probes = store.current("training"), store.current("probe")
    small = trainings
    if len(trainings):
        small = of_one_kind(trainings[of_breadth(trainings)])
        trainings = of_one_kind(trainings[of_record(trainings)])
    return Evidence(
        trainings,
        _measured(store, probes, lambda rows: probes_of_record(rows) | memory_of_record(rows)),
        finished(small),
        _measured(store, probes, probes_of_breadth),
    )


def _measured(
    store: Store, probes: pd.DataFrame, chosen: Callable[[pd.DataFrame], pd.Series]
) -> dict[str, pd.DataFrame]:
    if len(probes):
        probes = probes[chosen(probes)]
    found = {}
    for kind in PROBES:
        own = probes[probes["probe"] == kind] if len(probes) else probes
        found[kind] = store.measured_on(of_one_kind(own), kind)
    return found
