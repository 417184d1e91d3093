"""Which finished runs the figures of record draw: by the rules of `whenpool.book.report.verdicts`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from whenpool.runs.probe_run import PROBES
from whenpool.book.report.evidence import Evidence
from whenpool.book.report.tagging_rules import on_record as taggings_on_record
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
    from pandas import DataFrame, Series

    from whenpool.runs.store import Store


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
