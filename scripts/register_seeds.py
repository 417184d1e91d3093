"""Writes into each claim of data/paper/claims.yml which seeds decide it, by scale. Used once, on 2026-11-29.

A list has five seeds (`SEEDS` of the plans), or three (`FEWER_SEEDS`) where neither the plan of the claim's
chapter asks for these five of each of its runs nor they are on record. It begins with the first seed that
the plan asks for: 0, and `SEEDS_FROM` for rules of 2026-11-27 and later. A seed whose run began before the
rule is a pilot, and left out. Where nothing of the first plan was run, the seeds are those of the plan whose
runs are on record. No accuracy is read.
"""

import re
from itertools import count, islice
from pathlib import Path

import pandas as pd
from pandas import DataFrame

from whenpool.book.claims import Claim, claims
from whenpool.book.measures import MEASURES, numbers
from whenpool.book.results import Runs, has, paper_file, with_model
from whenpool.runs.plans import (
    DRAWS,
    FEWER_SEEDS,
    LATER_SEEDS,
    PLANS,
    SEEDS,
    SEEDS_FROM,
    TIMED_SEEDS,
    plan,
)
from whenpool.runs.request import Request
from whenpool.runs.run import Place

PROFILES = {"thesis": "paper", "compact": "compact"}
PROBES = {
    "gradients": "early_gradient early_middle_to_ends",
    "first_steps": "first_middle_to_ends",
    "trace": """ratio_at_95 band_ratio_at_95 ratio_after train_accuracy_after low_ratio ratio_recovery dip
        median_recovery ratio_over_chrono""",
    "states": "held",
    "sweep": "swept_accuracy swept_loss sweep_asymmetry both_ends_cost",
    "directions": "direction_gap",
    "nwi": "ends_to_middle text_to_filler text_to_filler_by_code end_peaks",
    "faithfulness": "comprehensiveness sufficiency rank_agreement_with_nwi seconds_of_importance",
    "few-shot": "few_shot_accuracy",
    "tagging": " ".join(name for name in MEASURES if name.startswith("tagging")),
}
KINDS = {measure: kind for kind, names in PROBES.items() for measure in names.split()}
OF_STARTS = ("rank_agreement", "reach")  # Measures over all starts of a seed
SPECIAL = {  # Claims whose plan has seeds of their own, and draws, which are counted from 1
    "training-adds-to-memory": LATER_SEEDS,
    "epoch-time-varies-marginally": TIMED_SEEDS,
    "a-large-forget-bias-keeps-its-ratio": range(SEEDS_FROM + 1, SEEDS_FROM + 4),
    "a-large-forget-bias-guesses": range(SEEDS_FROM + 3, SEEDS_FROM + 6),
    "the-gap-is-not-of-one-draw": range(1, DRAWS + 1),
}


def planned(place: Place) -> dict[tuple[str, str, str], DataFrame]:
    """The runs that plans ask for, by scale, kind and chapter."""
    rows: dict[tuple[str, str, str], list[dict[str, object]]] = {}
    for scale, profile in PROFILES.items():
        for chapter in PLANS:
            for run in plan(chapter, Request(profile), place):
                row = run.row()
                kind = str(row.get("probe") or run.kind)
                rows.setdefault((scale, kind, chapter), []).append(row)
    tables = {where: DataFrame(each) for where, each in rows.items()}
    return {where: with_model(table) if "pooling" in table else table for where, table in tables.items()}


def seeds_planned(plans: dict[tuple[str, str, str], DataFrame], claim: Claim, scale: str) -> set[int]:
    """The seeds that the plan of the claim's chapter, or else any plan, asks for of each of its runs."""
    kind, common = KINDS.get(claim.measure, "training"), None
    skipped = {"forget_bias", "test", "vectors"}
    for selection in ways(claim, scale):
        if claim.measure in OF_STARTS:
            selection = selection | {"model": "forget 5, input -5"}
        asked: dict[str, set[int]] = {}
        for (at, of, chapter), table in plans.items():
            if (at, of) == (scale, kind):
                known = {
                    name: v for name, v in selection.items() if name in table and name not in skipped
                }
                asked[chapter] = set(table[has(table, known)]["seed"])
        seeds = asked.get(claim.chapter) or set().union(*asked.values())
        common = seeds if common is None else common & seeds
    return common or set()


def ways(claim: Claim, scale: str) -> list[dict[str, object]]:
    """Each selection of runs that a claim reads."""
    terms = [selection for terms in claim.comparisons(scale) for _, selection in terms]
    return [
        {name: value for name, value in {**selection, **way}.items() if name != "best_of"}
        for selection in terms for way in selection.get("best_of", [{}])
    ]  # fmt: skip


def recorded(runs: Runs, claim: Claim, scale: str) -> tuple[set[int], set[int]]:
    """The seeds on record of each run that a claim reads, and those whose runs are older than its rule."""
    table = numbers(runs, claim.measure)
    seed, began = table.column("seed"), table.column("began")
    whole = table.column("corpus_complete")
    common, pilots = None, set[int]()
    for selection in ways(claim, scale):
        places = [at for at in table.places(selection) if scale == "compact" or whole[at] is True]
        older = {
            int(seed[at]) for at in places if began[at] is not None and began[at] <= claim.registered
        }
        younger = {int(seed[at]) for at in places if began[at] is None or began[at] > claim.registered}
        common, pilots = (younger if common is None else common & younger), pilots | (older - younger)
    return common or set(), pilots


def seeds_of(
    claim: Claim, scale: str, plans: dict[tuple[str, str, str], DataFrame], runs: Runs
) -> list[int]:
    if claim.id in SPECIAL:
        return list(SPECIAL[claim.id])[:SEEDS]
    asked, (there, pilots) = seeds_planned(plans, claim, scale), recorded(runs, claim, scale)
    late = claim.registered >= pd.Timestamp("2026-11-27", tz="UTC")
    first = SEEDS_FROM if late and (not asked or max(asked) >= SEEDS_FROM) else 0
    if there and not {seed for seed in there if first <= seed < first + SEEDS_FROM}:
        first = min(there)  # another plan's
    asked = {seed for seed in asked if seed >= first}
    deciding = [*islice((seed for seed in count(first) if seed not in pilots), SEEDS)]
    enough = any({*deciding} <= seeds for seeds in (asked, there))
    n = SEEDS if enough else FEWER_SEEDS
    if claim.measure == "rank_agreement" and scale == "thesis":
        n = FEWER_SEEDS  # of the trainings; the states have five
    return deciding[:n]


def main() -> None:
    place, file = Place.default(), paper_file("claims.yml")
    plans, runs, text = planned(place), Runs(place), Path(file).read_text("utf-8")
    for claim in claims():
        measure = MEASURES[claim.measure]
        if measure.exact or measure.drawn:
            continue
        by_scale = {scale: seeds_of(claim.at(scale), scale, plans, runs) for scale in claim.scales}
        lists = list(by_scale.values())
        same = all(each == lists[0] for each in lists)
        body = str(lists[0]) if same else "{" + ", ".join(f"{s}: {v}" for s, v in by_scale.items()) + "}"
        pattern = rf"(- id: {re.escape(claim.id)}\n(?:  .*\n)*?  registered: .*\n)"
        text, replaced = re.subn(pattern, rf"\1  seeds: {body}\n", text)
        assert replaced == 1, claim.id
    Path(file).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
