"""Runs of record, sorted by what draws them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from whenpool.book.report.verdicts import SMALL_MODEL, has
from collections.abc import Callable
from typing import TYPE_CHECKING
from whenpool.runs.kinds.probe import PROBES
from whenpool.book.report.tagging import on_record as taggings_on_record
from whenpool.book.report.tricks import finished, with_variant
from whenpool.book.report.verdicts import (
    as_plain,
    memory_of_record,
    of_breadth,
    of_one_kind,
    of_record,
    probes_of_breadth,
    probes_of_record,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from pandas import DataFrame, Series
    from whenpool.runs.store import Store



PerSeed = dict[int, float]
"""A number for each seed."""


@dataclass(frozen=True)
class Evidence:
    """Runs of record.

    Attributes:
        trainings: rows of `Store.trainings`.
        measured: for each kind of probe, its rows beside the configuration of the training.
        variants: the trainings of chapter 2 and those beside them, with a column ``variant``.
        epochs: rows of `Store.histories`.
        small: the trainings that `whenpool.book.report.verdicts.of_breadth` lets in.
        small_measured: the same of probes, as `measured` is of those of record.
        taggings: tagging runs on whole corpora, see `whenpool.book.report.tagging`.
    """

    trainings: "DataFrame"
    measured: Mapping[str, "DataFrame"]
    variants: "DataFrame | None" = None
    epochs: "DataFrame | None" = None
    small: "DataFrame | None" = None
    small_measured: Mapping[str, "DataFrame"] = field(default_factory=dict)
    taggings: "DataFrame | None" = None

    def rows(self, kind: str, model: str, **wanted: Any) -> dict[int, "DataFrame"]:
        """What one kind of probe measured on one model, by seed."""
        wanted = {"corpus": "imdb", "length": "long", "setting": "standard", "masked": True, **wanted}
        return {int(seed): rows for seed, rows in self._select(self.in_bins(kind), model, wanted)}

    def in_bins(self, kind: str) -> "DataFrame":
        """What one kind of probe measured; word importance only on texts of the thesis's lengths."""
        rows = self.measured[kind]
        if kind != "nwi" or rows.empty:
            return rows
        shortest = rows["length"].map({"long": 400, "short": 50})
        return rows[rows["shortest"] == shortest] if "shortest" in rows else rows.head(0)

    def on_imdb(self, kind: str, masked: bool | None = None) -> "DataFrame":
        """What one kind of probe measured on long IMDb reviews, on models whose padding is masked,
        let in, or either."""
        rows = self.in_bins(kind)
        if rows.empty:
            return rows
        rows = rows[(rows["corpus"] == "imdb") & (rows["length"] == "long")]
        return rows if masked is None else rows[rows["masked"] == masked]

    def accuracies(self, model: str, **wanted: Any) -> PerSeed:
        """Test accuracy in % of a model's trainings, by seed."""
        wanted = {"corpus": "imdb", "length": "long", "masked": True, **wanted}
        selected = self._select(self.trainings, model, wanted)
        return {int(seed): float(rows["test_accuracy"].iloc[-1]) for seed, rows in selected}

    def small_runs(self, model: str, **wanted: Any) -> dict[int, "DataFrame"]:
        """The small trainings of a model, by seed: of the small model but for what is wanted.

        Args:
            model: a pooling.
            wanted: values of columns, such as ``cell="gru"`` or ``setting="mid"``.
        """
        wanted = {"setting": "standard", **SMALL_MODEL, **wanted}
        if self.small is None or self.small.empty:
            return {}
        runs = self.small[has(self.small, wanted)]
        return {int(seed): rows for seed, rows in self._select(runs, model, {})}

    def small_values(self, model: str, column: str = "test_accuracy", **wanted: Any) -> PerSeed:
        """A number of each small training, the test accuracy in % unless another column is named."""
        found = self.small_runs(model, **wanted)
        return {seed: float(rows[column].iloc[-1]) for seed, rows in found.items()}

    @staticmethod
    def _select(table: "DataFrame", model: str, wanted: dict[str, Any]) -> list[tuple[Any, "DataFrame"]]:
        if table.empty:
            return []
        pooling, bias = ("last", "low") if model == "low" else (model, "thesis")
        mine = (table["pooling"] == pooling) & (table["forget_bias"] == bias)
        for name, value in wanted.items():
            mine &= table[name] == value
        return list(table[mine].groupby("seed"))


def evidence_of(
    store: "Store",
    trainings: "DataFrame",
    probes: "DataFrame",
    taggings: "DataFrame | None" = None,
) -> Evidence:
    """The finished runs that figures and tables of record draw.

    Where some were trained from other word vectors, those of the most runs count: numbers of two
    kinds are not compared.

    Args:
        trainings, probes, taggings: rows of `Store.trainings`, `Store.probes`, `Store.taggings`.
    """
    small = of_one_kind(trainings[of_breadth(trainings)]) if len(trainings) else trainings
    small_measured = _measured(store, probes, probes_of_breadth)
    variants = trainings
    if len(trainings):
        variants = with_variant(finished(of_one_kind(trainings[of_record(as_plain(trainings))])))
        variants = variants[variants["masked"].astype(bool) & (variants["length"] == "long")]
        variants = variants[variants["corpus"] == "imdb"]
        trainings = of_one_kind(trainings[of_record(trainings)])
    return Evidence(
        trainings,
        _measured(store, probes, lambda rows: probes_of_record(rows) | memory_of_record(rows)),
        variants,
        store.histories(),
        small=finished(small),
        small_measured=small_measured,
        taggings=None if taggings is None else taggings_on_record(taggings),
    )


def _measured(
    store: "Store", probes: "DataFrame", chosen: "Callable[[DataFrame], Series]"
) -> "dict[str, DataFrame]":
    if len(probes):
        probes = probes[chosen(probes)]
    found = {}
    for kind in PROBES:
        own = probes[probes["probe"] == kind] if len(probes) else probes
        found[kind] = store.measured_on(of_one_kind(own), kind)
    return found
