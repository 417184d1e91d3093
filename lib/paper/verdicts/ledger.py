"""The ledger: every claim with its rule, what the thesis's own numbers say to it, and our verdicts
at each scale, as text, JSON and CSV."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pandas import DataFrame
from scipy.stats import false_discovery_control

from paper import chapter_named
from paper.runs.run import Place
from paper.verdicts.claims import (
    DECIDED,
    SCALE_NAMES,
    VERDICTS,
    Decision,
    Finding,
    claims,
    decisions,
)
from paper.verdicts.results import Runs
from whenpool.base.errors import check_known

ALPHA = 0.05  # The part of intervals that miss what they are of
FORMATS = ("table", "json", "csv")


def counts(decided: Sequence[Decision], scale: str) -> dict[str, int]:
    """How many claims have each of `VERDICTS` at a scale, those that none has included."""
    return {name: sum(d.verdict(scale) == name for d in decided) for name in VERDICTS}


def firm(decided: Sequence[Decision], scale: str) -> tuple[int, int]:
    """How many verdicts at a scale are firm, see `paper.verdicts.claims`, and how many there
    are."""
    there = [d.at[scale].firmness == "firm" for d in decided if d.verdict(scale) in DECIDED]
    return sum(there), len(there)


def tested(decided: Sequence[Decision], scale: str) -> dict[str, float]:
    """Of each claim that its seeds have tested at a scale, undecided or not, the smallest α at
    which its verdict stands, the lowest first."""
    levels = {d.claim.id: d.at[scale].p for d in decided if scale in d.at}
    reached = [name for name, p in levels.items() if not math.isnan(p)]
    return {name: levels[name] for name in sorted(reached, key=levels.__getitem__)}


def surviving_holm(decided: Sequence[Decision], scale: str) -> set[str]:
    """The claims whose verdicts at a scale stand although so many are tested there (Holm 1979)."""
    names, count = set(), len(levels := tested(decided, scale))
    for rank, (name, p) in enumerate(levels.items()):
        if p > ALPHA / (count - rank):
            break
        names.add(name)
    return names


def surviving_fdr(decided: Sequence[Decision], scale: str) -> set[str]:
    """The claims that stay when a share of 0.05 of them may be wrong (Benjamini and Hochberg
    1995)."""
    levels = tested(decided, scale)
    adjusted = false_discovery_control([*levels.values()])
    return {name for name, p in zip(levels, adjusted, strict=True) if p <= ALPHA}


def wrong_at_most(decided: Sequence[Decision]) -> float:
    """How many verdicts at all scales are expected to be wrong at most: each of the claims tested
    is decided wrongly with a chance of half of 0.05, since a wrong verdict lies beyond one end of
    its interval."""
    return ALPHA / 2 * sum(len(tested(decided, scale)) for scale in SCALE_NAMES)


def row_of(decision: Decision) -> dict[str, Any]:
    """A claim as plain data, with null for a verdict or number that there is not."""
    claim, at = decision.claim, decision.at
    findings = {
        "verdict": at.get("thesis"),
        "compact": at.get("compact"),
        "pretrained": at.get("pretrained"),
        "thesis": decision.thesis,
    }
    return {
        **{name: getattr(claim, name) for name in ("id", "chapter", "section", "statement")},
        "registered": claim.registered.date().isoformat(),
        "registered_at": claim.registered.isoformat(),
        **{name: getattr(claim, name) for name in ("rule", "unit")},
        **{name: finding and finding.as_data() for name, finding in findings.items()},
        "seeds": {scale: [*seeds] for scale, seeds in claim.seeds.items()},
        "later": {scale: finding.as_data() for scale, finding in decision.later.items()},
        "pilots": {
            scale: finding.as_data() for scale, finding in decision.pilots.items() if finding.n
        },
        **{name: getattr(claim, name) for name in ("contradiction", "remark", "needs")},
        "reduced": dict(claim.compact),
        "evidence": f"book/{claim.shown_at}",
    }


def as_text(decided: Sequence[Decision]) -> str:
    """The claims for a terminal, and how many have which verdict."""

    def text(finding: Finding | None) -> str:
        if finding is None:
            return ""
        return f"{finding.verdict} {finding.measured}" + (f" n={finding.n}" if finding.n else "")

    rows = [
        (
            *(d.claim.id, d.claim.section, d.claim.rule),
            *map(text, (d.thesis, *map(d.at.get, SCALE_NAMES))),
        )
        for d in decided
    ]
    columns = ["claim", "source", "rule", "thesis by its rule", *SCALE_NAMES.values()]
    frame = DataFrame(rows, columns=columns)
    left = frame.apply(lambda cells: cells.str.ljust(cells.str.len().max()))
    lines = [left.to_string(index=False, justify="left"), f"{len(decided)} claims"]
    for scale, name in SCALE_NAMES.items():
        each = [f"{count} {verdict}" for verdict, count in counts(decided, scale).items() if count]
        stand = (
            f"{firm(decided, scale)[0]} firm, {len(surviving_holm(decided, scale))} survive Holm"
        )
        lines.append(f"{name}: {', '.join(each)} ({stand})")
    return "\n".join(lines)


def written(
    place: Place, style: str = "table", chapter: str | None = None, verdict: str | None = None
) -> str:
    """The ledger in one of `FORMATS`, or what it has of one ``chapter``, which may be a part of a
    name, or with one of `VERDICTS` at any scale. Raises `InputError` for any of these that there
    is not."""
    check_known("format", style, FORMATS)
    if verdict is not None:
        check_known("verdict", verdict, VERDICTS)
    if chapter is not None:
        chapter = chapter_named(chapter, dict.fromkeys(claim.chapter for claim in claims()))
    decided = decisions(Runs(place), chapter)
    decided = [d for d in decided if verdict is None or verdict in map(d.verdict, SCALE_NAMES)]
    if style == "table":
        return as_text(decided)
    rows = [row_of(decision) for decision in decided]
    if style == "json":
        return json.dumps(rows, ensure_ascii=False, indent=1, allow_nan=False)
    # a line for each claim, with columns such as compact.value
    return pd.json_normalize(rows).to_csv(index=False, lineterminator="\n").rstrip("\n")
