"""The ledger: every claim of the thesis with its verdict, its numbers and a link to what shows them."""

import csv
import io
import json
import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whenpool.errors import InputError
from whenpool.places import project_root
from whenpool.report.claims import OURS, SCALES, SMALL, VERDICTS, Claim, Decision, claims, decisions
from whenpool.report.evidence import Evidence
from whenpool.report.gathering import evidence_of
from whenpool.report.shares import TABLES, Share, shares
from whenpool.rows import current_few_shots, current_probes, current_taggings, current_trainings

if TYPE_CHECKING:
    from pandas import DataFrame

    from whenpool.runs import Place

FORMATS = ("table", "json", "csv")
LATER = "†"
"""Marks a rule that was written when some of its runs, or numbers, were known."""
LEGEND = f"{LATER} the rule was written when some of its runs, or numbers, were known."


def evidence_at(place: "Place") -> Evidence:
    """The runs of record that the store and the clone have, which alone decide."""
    runs = current_trainings(place), current_probes(place), current_few_shots(place)
    return evidence_of(place.store, *runs, current_taggings(place))


def ledger(evidence: Evidence, chapter: str | None = None, verdict: str | None = None) -> list[Decision]:
    """The verdicts on all claims, in the order of ``data/paper/claims.yml``.

    Args:
        chapter: of its claims alone; no other is computed.
        verdict: only claims with this one of `VERDICTS`.

    Raises:
        InputError: for a chapter or verdict that there is not, naming those there are.
    """
    if verdict is not None and verdict not in VERDICTS:
        raise InputError(f"there is no verdict {verdict!r}; choose one of {', '.join(VERDICTS)}")
    known = dict.fromkeys(
        [*(claim.chapter for claim in claims()), *(t.chapter for t in TABLES.values())]
    )
    if chapter is not None and chapter not in known:
        raise InputError(f"the ledger has no chapter {chapter!r}; choose one of {', '.join(known)}")
    return [d for d in decisions(evidence, chapter) if verdict in (None, d.verdict)]


def of_the_thesis(decided: Sequence[Decision]) -> list[Decision]:
    """Those on claims of the thesis or its slides, by runs at its scale; the others are ours, or by
    small models."""
    return [d for d in decided if d.claim.section != OURS and d.claim.scale == "thesis"]


def on_small_models(decided: Sequence[Decision]) -> list[Decision]:
    """Those by small models, on claims of the thesis or its slides."""
    return [d for d in decided if d.claim.section != OURS and d.claim.scale == "small"]


def at_scale(decided: Sequence[Decision], scale: str) -> list[Decision]:
    """Those by runs at one of `whenpool.report.claims.SCALES`."""
    return [decision for decision in decided if decision.claim.scale == scale]


def later(decided: Sequence[Decision]) -> int:
    """How many of the rules were written when some of their runs, or numbers, were known."""
    return sum(decision.claim.written == "later" for decision in decided)


def counts(decided: Sequence[Decision]) -> dict[str, int]:
    """How many claims have each of `VERDICTS`, those that none has included."""
    return {name: sum(d.verdict == name for d in decided) for name in VERDICTS}


@lru_cache
def title_of(chapter: str) -> str:
    """The heading of a chapter's page, or its name outside a clone."""
    file = (project_root() or Path()) / "book" / f"{chapter}.md"
    if not file.is_file():
        return chapter
    lines = file.read_text("utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), chapter)


def link_of(claim: Claim) -> str:
    """Where the evidence of a claim is shown, from another page of the book."""
    return f"{claim.chapter}.html" + (f"#{claim.evidence}" if claim.evidence else "")


def row_of(decision: Decision) -> dict[str, Any]:
    """A claim as plain data. ``seeds`` of theory are drawn networks, or sizes of machine."""
    claim = decision.claim
    return {
        "id": claim.id,
        "chapter": claim.chapter,
        "section": claim.section,
        "statement": claim.statement,
        "verdict": decision.verdict,
        "scale": claim.scale,
        "measured": decision.measured,
        "values": {str(seed): _finite(value) for seed, value in decision.values.items()},
        "seeds": len(decision.values),
        "rule": claim.rule,
        "unit": claim.unit,
        "written": claim.written,
        "evidence": f"book/{link_of(claim)}",
    }


def middle_of(decision: Decision) -> float | None:
    """The median of a claim's numbers, or None where there is none."""
    return float(statistics.median(decision.values.values())) if decision.values else None


def as_json(decided: Sequence[Decision], tables: Sequence[Share]) -> str:
    """The ledger, the number of each verdict for each scale, and the shares of the tables."""
    content = {
        "claims": [row_of(decision) for decision in decided],
        "counts": {scale: counts(at_scale(decided, scale)) for scale in SCALES},
        "tables": [share.row() for share in tables],
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)


def as_csv(decided: Sequence[Decision]) -> str:
    """The ledger alone, a line for each claim."""
    names = "id chapter section statement verdict measured seeds rule unit written evidence scale"
    text = io.StringIO()
    writer = csv.DictWriter(text, names.split(), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(row_of, decided))
    return text.getvalue().rstrip("\n")


def as_text(decided: Sequence[Decision], tables: Sequence[Share]) -> str:
    """The same for a terminal."""
    parts = []
    for chapter in dict.fromkeys(decision.claim.chapter for decision in decided):
        own = [decision for decision in decided if decision.claim.chapter == chapter]
        parts.append(f"{title_of(chapter)}\n" + _left_aligned(_brief(own)))
    parts.append(summary(decided) + (f"\n{LEGEND}" if later(decided) else ""))
    if tables:
        parts.append(_left_aligned(shares_frame(tables)))
    return "\n\n".join(parts)


def summary(decided: Sequence[Decision]) -> str:
    """How many claims have which verdict, and how many are ours, in a line; those on small models
    apart."""
    large, small = at_scale(decided, "thesis"), at_scale(decided, "small")
    own = len(large) - len(of_the_thesis(large))
    told = f"{len(large)} claims" + (f" ({own} of them ours)" if own else "") + _counted(large)
    return told + (f"; {len(small)} on {SMALL}{_counted(small)}" if small else "")


def _counted(decided: Sequence[Decision]) -> str:
    told = [f"{count} {verdict}" for verdict, count in counts(decided).items() if count]
    return f": {', '.join(told)}" if told else ""


def shares_frame(tables: Sequence[Share]) -> "DataFrame":
    """The share of each table of the thesis that was reproduced, as a table."""
    import pandas as pd

    return pd.DataFrame(share.shown() for share in tables)


def written(
    place: "Place", style: str = "table", chapter: str | None = None, verdict: str | None = None
) -> str:
    """The ledger in one of `FORMATS`; the tables' shares belong to it where no verdict is asked for.

    Raises:
        InputError: for a chapter, verdict or format that there is not, or outside a clone.
    """
    if style not in FORMATS:
        raise InputError(f"there is no format {style!r}; choose one of {', '.join(FORMATS)}")
    evidence = evidence_at(place)
    decided = ledger(evidence, chapter, verdict)
    if style == "csv":
        return as_csv(decided)
    tables = [] if verdict else [s for s in shares(place, evidence) if chapter in (None, s.chapter)]
    return as_json(decided, tables) if style == "json" else as_text(decided, tables)


def _brief(decided: Sequence[Decision]) -> "DataFrame":
    import pandas as pd

    return pd.DataFrame(
        {
            "verdict": d.told,
            "claim": d.claim.id,
            "thesis": d.claim.section,
            "rule": d.claim.rule + (f" {LATER}" if d.claim.written == "later" else ""),
            "measured, a number for each seed": d.measured,
        }
        for d in decided
    )


def _left_aligned(frame: "DataFrame") -> str:
    texts = frame.astype(str)
    widths = [max([len(str(name)), *map(len, texts[name])]) for name in texts]
    rows = [list(map(str, texts)), *texts.to_numpy().tolist()]
    lines = [" ".join(["", *map(str.ljust, row, widths)]) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _finite(value: float) -> float | str:
    """A number as JSON has it, which knows no infinity."""
    return float(value) if math.isfinite(value) else str(float(value))
