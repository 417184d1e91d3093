"""The ledger: every claim with its rule, what the thesis's own numbers say to it, and our verdicts at both
scales, as a page, as text, JSON and CSV."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlencode

import pandas as pd
from pandas import DataFrame

from whenpool.base.errors import check_known
from whenpool.book.claims import DECIDED, VERDICTS, Decision, Finding, claims, decisions
from whenpool.book.results import SCALES, Runs, paper_file
from whenpool.runs.plans import chapter_named
from whenpool.runs.run import Place

FORMATS = ("table", "json", "csv")
SCALE_NAMES = {"thesis": "thesis's scale", "compact": "compact"}  # How a reader sees the scales
SCALE_TEXTS = {"thesis": "at the thesis's scale", "compact": "in the compact replication"}
JUDGED = ["reproduced", "differs", "undecided"]
"""Verdicts on a cell that at least three seeds by the thesis's protocol lead to."""


def ledger(runs: Runs, chapter: str | None = None, verdict: str | None = None) -> list[Decision]:
    """The verdicts on all claims, in the order of their file, or on those of one chapter, or with one of
    `VERDICTS` at either scale. Raises `InputError` for a verdict that there is not."""
    if verdict is not None:
        check_known("verdict", verdict, VERDICTS)
    decided = decisions(runs, chapter)
    return [d for d in decided if verdict is None or verdict in map(d.verdict, SCALES)]


def of_the_thesis(decided: Sequence[Decision]) -> list[Decision]:
    """Those on claims of the thesis, its blog post or slides; the others are ours."""
    return [decision for decision in decided if decision.claim.of_thesis]


def counts(decided: Sequence[Decision], scale: str) -> dict[str, int]:
    """How many claims have each of `VERDICTS` at a scale, those that none has included."""
    return {name: sum(d.verdict(scale) == name for d in decided) for name in VERDICTS}


def firm(decided: Sequence[Decision], scale: str) -> tuple[int, int]:
    """How many verdicts at a scale are firm, see `whenpool.book.claims`, and how many there are."""
    there = [d.at[scale].firmness == "firm" for d in decided if d.verdict(scale) in DECIDED]
    return sum(there), len(there)


def lacking(decided: Sequence[Decision]) -> int:
    """How many claims are not run at the thesis's scale for want of data."""
    return sum(d.verdict("thesis") == "not run" and bool(d.claim.needs) for d in decided)


def title_of(chapter: str) -> str:
    """The heading of a chapter's page."""
    lines = (paper_file("").parents[1] / "book" / f"{chapter}.md").read_text("utf-8").splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# "))


def row_of(decision: Decision) -> dict[str, Any]:
    """A claim as plain data, with null for a verdict or number that there is not."""
    claim, at = decision.claim, decision.at
    findings = {"verdict": at.get("thesis"), "compact": at.get("compact"), "thesis": decision.thesis}
    return {
        **{name: getattr(claim, name) for name in ("id", "chapter", "section", "statement")},
        "registered": claim.registered.date().isoformat(),
        "registered_at": claim.registered.isoformat(),
        **{name: getattr(claim, name) for name in ("rule", "unit")},
        **{name: finding and finding.as_data() for name, finding in findings.items()},
        "pilots": {scale: finding.as_data() for scale, finding in decision.pilots.items() if finding.n},
        **{name: getattr(claim, name) for name in ("contradiction", "remark", "needs")},
        "reduced": dict(claim.compact),
        "evidence": f"book/{claim.chapter}.html#{claim.evidence}",
    }


def as_text(decided: Sequence[Decision]) -> str:
    """The claims for a terminal, and how many have which verdict."""

    def text(finding: Finding | None) -> str:
        if finding is None:
            return ""
        return f"{finding.verdict} {finding.measured}" + (f" n={finding.n}" if finding.n else "")

    rows = [
        (d.claim.id, d.claim.section, d.claim.rule, *map(text, (d.thesis, *map(d.at.get, SCALES))))
        for d in decided
    ]
    frame = DataFrame(
        rows, columns=["claim", "source", "rule", "thesis by its rule", *SCALE_NAMES.values()]
    )
    left = frame.apply(lambda cells: cells.str.ljust(cells.str.len().max()))
    lines = [left.to_string(index=False, justify="left"), f"{len(decided)} claims"]
    for scale, name in SCALE_NAMES.items():
        each = [f"{count} {verdict}" for verdict, count in counts(decided, scale).items() if count]
        lines.append(f"{name}: {', '.join(each)} ({firm(decided, scale)[0]} firm)")
    return "\n".join(lines)


def written(
    place: Place, style: str = "table", chapter: str | None = None, verdict: str | None = None
) -> str:
    """The ledger in one of `FORMATS`; ``chapter`` may be a part of a name. Raises `InputError` for
    a format, chapter or verdict that there is not."""
    check_known("format", style, FORMATS)
    if chapter is not None:
        chapter = chapter_named(chapter, dict.fromkeys(claim.chapter for claim in claims()))
    decided = ledger(Runs(place), chapter, verdict)
    if style == "table":
        return as_text(decided)
    rows = [row_of(decision) for decision in decided]
    if style == "json":
        return json.dumps(rows, ensure_ascii=False, indent=1, allow_nan=False)
    # a line for each claim, with columns such as compact.value
    return pd.json_normalize(rows).to_csv(index=False, lineterminator="\n").rstrip("\n")


@dataclass(frozen=True)
class VerdictBars:
    """A bar for each scale: how many claims of the thesis have which verdict, each part a link to them."""

    decided: Sequence[Decision]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        claims, bars, lines = of_the_thesis(self.decided), [], []
        for scale, key in (("thesis", "verdict"), ("compact", "compact")):
            numbers, title, parts, words = counts(claims, scale), SCALE_TEXTS[scale], [], []
            for name, n in numbers.items():
                if n:
                    plural = name if n == 1 else name.replace("does", "do").replace("holds", "hold")
                    words.append(f"{n} {plural}")
                    parts.append(
                        f'<a class="{name.replace(" ", "-")}" style="flex-grow:{n}" title="{words[-1]}" '
                        f'href="ledger.html#{escape(urlencode({key: name, "source": "thesis"}))}">'
                        f"{n if n < len(claims) / 20 else words[-1]}</a>"  # where the name would not fit
                    )
            testable = f"{sum(numbers.values())} of the {len(claims)} claims can be tested {title}:"
            bars.append(f'<p>{testable}</p><div class="verdicts">{"".join(parts)}</div>')
            lines.append(f"{title}: {', '.join(words)}")
        text = f"{len(claims)} claims; {'; '.join(lines)}"
        bars.append(
            '<div class="legend">Green: the claim holds. Orange: it does not. Yellow: undecided. '
            f"Grey: not run (for lack of data: {lacking(claims)}). "
            "Hatched: fewer than three seeds. Some claims are about one scale alone.</div>"
        )
        return {"text/markdown": "".join(bars), "text/html": f"<p>{text}</p>", "text/plain": text}
