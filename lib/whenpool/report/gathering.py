"""Which finished runs are evidence, and for what: by the rules of `whenpool.report.verdicts`."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from whenpool.probing import PROBES
from whenpool.report.evidence import Evidence
from whenpool.report.few_shot_rules import indicating, of_thesis
from whenpool.report.tagging_rules import on_record as taggings_on_record
from whenpool.report.tricks import finished, small_runs, with_variant
from whenpool.report.verdicts import (
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

    from whenpool.store import Store


def no_evidence() -> Evidence:
    """That of no run at all."""
    import pandas as pd

    return Evidence(pd.DataFrame(), dict.fromkeys(PROBES, pd.DataFrame()))


def evidence_of(
    store: "Store",
    trainings: "DataFrame",
    probes: "DataFrame",
    few_shots: "DataFrame | None" = None,
    taggings: "DataFrame | None" = None,
) -> Evidence:
    """The runs of record among finished ones, which alone decide.

    Where some were trained from other word vectors, those of the most runs count: numbers of two
    kinds are not compared.

    Args:
        trainings, probes, few_shots, taggings: rows of `Store.trainings`, `Store.probes`,
            `Store.few_shots`, `Store.taggings`.
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
        None if few_shots is None else of_thesis(few_shots),
        live=True,
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


def small_evidence(store: "Store", trainings: "DataFrame", size: int) -> Evidence:
    """Small runs in the place of runs of record, which indicate and never decide (§2.2 alone).

    Args:
        trainings: rows of `Store.trainings`.
        size: training texts.
    """
    variants = finished(small_runs(trainings, size))
    return replace(no_evidence(), variants=variants, epochs=store.histories())


def few_shot_evidence(few_shots: "DataFrame") -> Evidence:
    """Few-shot runs with MiniLM in the place of those with the thesis's encoder: they indicate and never
    decide (§1.10 alone).

    Args:
        few_shots: rows of `Store.few_shots`.
    """
    return replace(no_evidence(), few_shots=indicating(few_shots))
