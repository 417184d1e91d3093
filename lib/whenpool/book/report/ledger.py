"""The ledger: every claim with its rule, what the thesis's own numbers say to it, and our verdicts at both
scales, as a page, as text, JSON and CSV; and how much of each table of the thesis is reproduced."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment
from pandas import DataFrame

from whenpool.base.errors import check_known
from whenpool.base.paths import project_root
from whenpool.book.report import few_shot, tricks
from whenpool.book.report.claims import (
    DECIDED,
    VERDICTS,
    Claim,
    Decision,
    Finding,
    claims,
    decisions,
    sample_of,
)
from whenpool.book.report.corpora import FIGURES, recorded_statistics
from whenpool.book.report.measures import SCALES, Runs
from whenpool.book.report.tables import CORPUS_NAMES, judged
from whenpool.book.report.verdicts import MARKS as CELL_MARKS
from whenpool.book.report.verdicts import published
from whenpool.runs.plans import chapter_named
from whenpool.runs.run import Place

FORMATS = ("table", "json", "csv")
SCALE_NAMES = {"thesis": "thesis's scale", "compact": "compact"}  # How a reader sees the scales
MARKS = {
    "holds": "✓", "does not hold": "✗", "undecided": "?", "so far holds": "✓",
    "so far does not hold": "✗", "not run": "–", "": "",
}  # fmt: skip
"""A sign for each verdict, so that colour is not all that sets them apart."""
NO_RULE = "no rule"  # Of a cell with a number of ours where the rule for accuracies does not apply
JUDGED = ["reproduced", "differs", "undecided"]
"""Verdicts that at least three seeds by the thesis's protocol lead to."""
TABLES = {
    "1.1": ("corpora", "statistics, long texts"),
    "1.2": ("gradient_propagation", "vanishing, validation"),
    "1.3": ("training_to_skip", "accuracy, long, in brief"),
    "1.4": ("training_to_skip", "accuracy, short, in brief"),
    "1.5": ("training_to_skip", "accuracy, Yahoo, Amazon"),
    "1.6": ("training_to_skip", "accuracy, IMDb, Yelp"),
    "1.7": ("corpora", "statistics, short texts"),
    "1.8": ("training_to_skip", "accuracy, short texts"),
    "1.9": ("few_shot", "accuracy, 10 labels"),
    "2.1": ("learnability", "accuracy, tricks"),
}
"""Where the book shows each table of the thesis, and what is in it."""


def shares(runs: Runs) -> DataFrame:
    """How much of each table of the thesis is reproduced, a row each: how many cells it has, and how many
    have each verdict or `NO_RULE`, a number of the compact replication (``compact``), and one of `JUDGED`."""
    varied = dict.fromkeys(("length", "setting", "vectors"), ...)
    stored = runs.select("training", list(SCALES), corpus=list(CORPUS_NAMES), **varied)
    judged_cells = (
        judged(stored, published("accuracy")),
        tricks.thesis_cells(stored).query("table == '2.1'"),  # beside which it has cells of another
        few_shot.thesis_cells(runs.select("few-shot", corpus=list(few_shot.CORPORA))),
        _without_rule(runs),
    )
    cells = {table: own for every in judged_cells for table, own in every.groupby("table")}
    found = DataFrame(
        {"table": table, "chapter": chapter, "shows": shows, "cells": len(cells[table])}
        | dict.fromkeys((*CELL_MARKS, NO_RULE), 0)
        | cells[table]["verdict"].value_counts().to_dict()
        | {"compact": int((cells[table]["compact"] != "").sum())}
        for table, (chapter, shows) in TABLES.items()
    )
    return found.assign(judged=found[JUDGED].sum(axis=1))


def _without_rule(runs: Runs) -> DataFrame:
    """The cells of Tables 1.1, 1.2 and 1.7, which the rule for test accuracies does not judge."""
    cells = []
    theirs = published("vanishing")
    for row in theirs[theirs["source"] == "thesis"].itertuples():
        for measure in ("ratio_at_95", "validation_accuracy"):
            large, small = (
                sample_of(runs, measure, scale, model=row.pooling, size=row.size) for scale in SCALES
            )
            cells.append((row.table, NO_RULE if large else "not run", "there" if small else ""))
    seen = recorded_statistics().set_index(["corpus", "length"]).index
    for row in published("corpora").itertuples():
        verdict = NO_RULE if (row.corpus, row.length) in seen else "not run"
        cells += [(row.table, verdict, "")] * len(FIGURES)
    return DataFrame(cells, columns=["table", "verdict", "compact"])


def shares_frame(found: DataFrame) -> DataFrame:
    """What `shares` found, as texts for a reader."""

    def percent(total: str) -> Any:
        share = 100 * found["reproduced"] / found[total].clip(lower=1)
        return share.map("{:.1f} %".format).where(found["judged"] > 0, "")

    texts = found.astype(str).replace("0", "").assign(**{"of judged": percent("judged")})
    texts["of all"] = percent("cells")
    first = ["table", "shows", "cells", "reproduced", "of judged", "of all", "compact"]
    return texts[[*dict.fromkeys([*first, *CELL_MARKS, NO_RULE])]]


def ledger(runs: Runs, chapter: str | None = None, verdict: str | None = None) -> list[Decision]:
    """The verdicts on all claims, in the order of their file, or on those of one chapter, or with one of
    `VERDICTS` at either scale. Raises `InputError` for a verdict that there is not."""
    if verdict is not None:
        check_known("verdict", verdict, VERDICTS)
    found = decisions(runs, chapter)
    return [d for d in found if verdict is None or verdict in map(d.verdict, SCALES)]


def of_the_thesis(decided: Sequence[Decision]) -> list[Decision]:
    """Those on claims of the thesis, its blog post or slides; the others are ours."""
    return [decision for decision in decided if decision.claim.of_thesis]


def counts(decided: Sequence[Decision], scale: str) -> dict[str, int]:
    """How many claims have each of `VERDICTS` at a scale, those that none has included."""
    return {name: sum(d.verdict(scale) == name for d in decided) for name in VERDICTS}


def firm(decided: Sequence[Decision], scale: str) -> tuple[int, int]:
    """How many verdicts at a scale are firm, see `whenpool.book.report.claims`, and how many there are."""
    there = [bool(d.at[scale].firm) for d in decided if d.verdict(scale) in DECIDED]
    return sum(there), len(there)


def lacking(decided: Sequence[Decision]) -> int:
    """How many claims are not run at the thesis's scale for want of data."""
    return sum(d.verdict("thesis") == "not run" and bool(d.claim.needs) for d in decided)


def title_of(chapter: str) -> str:
    """The heading of a chapter's page, or its name outside a clone."""
    file = (project_root() or Path()) / "book" / f"{chapter}.md"
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), chapter)


def link_of(claim: Claim) -> str:
    """Where the evidence of a claim is shown, from another page of the book."""
    return f"{claim.chapter}.html#{claim.evidence}"


def row_of(decision: Decision) -> dict[str, Any]:
    """A claim as plain data, with null for a verdict or number that there is not."""
    claim, at = decision.claim, decision.at
    found = {"verdict": at.get("thesis"), "compact": at.get("compact"), "thesis": decision.thesis}
    return {
        **{name: getattr(claim, name) for name in ("id", "chapter", "section", "statement")},
        "registered": claim.registered.date().isoformat(),
        "registered_at": claim.registered.isoformat(),
        **{name: getattr(claim, name) for name in ("rule", "unit")},
        **{name: finding and finding.as_data() for name, finding in found.items()},
        "pilots": {scale: found.as_data() for scale, found in decision.pilots.items() if found.n},
        **{name: getattr(claim, name) for name in ("contradiction", "remark", "needs")},
        "reduced": dict(claim.compact),
        "evidence": f"book/{link_of(claim)}",
    }


def as_json(decided: Sequence[Decision]) -> str:
    """A list with an object for each claim."""
    return json.dumps([row_of(d) for d in decided], ensure_ascii=False, indent=1, allow_nan=False)


def as_csv(decided: Sequence[Decision]) -> str:
    """A line for each claim."""
    rows = []
    for row in map(row_of, decided):
        for name in ("verdict", "compact", "thesis"):
            found = row.pop(name) or {"verdict": "", "value": None, "interval": None, "n": None}
            if name != "thesis":
                row[f"{name}_firm"] = found.get("firm")
            low, high = found["interval"] or (None, None)
            row |= {name: found["verdict"], f"{name}_value": found["value"]}
            row |= {f"{name}_low": low, f"{name}_high": high, f"{name}_n": found["n"]}
        rows.append({k: v for k, v in row.items() if not isinstance(v, dict) and k != "registered_at"})
    table = DataFrame(rows, columns=list(rows[0]) if rows else ["id"], dtype=object)
    return table.to_csv(index=False, lineterminator="\n").rstrip("\n")


def as_text(decided: Sequence[Decision], tables: DataFrame | None = None) -> str:
    """The same for a terminal, how many claims have which verdict, and the shares of the thesis's tables."""

    def told(finding: Finding | None) -> str:
        if finding is None:
            return ""
        return f"{finding.verdict} {finding.measured}" + (f" n={finding.n}" if finding.n else "")

    def left_aligned(frame: DataFrame) -> str:
        rows = [list(frame), *frame.astype(str).to_numpy().tolist()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(" ".join(["", *map(str.ljust, row, widths)]).rstrip() for row in rows)

    parts = []
    for chapter in dict.fromkeys(decision.claim.chapter for decision in decided):
        brief = DataFrame(
            {
                "claim": d.claim.id,
                "source": d.claim.section,
                "rule": d.claim.rule,
                "thesis by its rule": told(d.thesis),
                "thesis's scale": told(d.at.get("thesis")),
                "compact": told(d.at.get("compact")),
            }
            for d in decided
            if d.claim.chapter == chapter
        )
        parts.append(f"{title_of(chapter)}\n{left_aligned(brief)}")
    own = len(decided) - len(of_the_thesis(decided))
    line = f"{len(decided)} claims" + (f" ({own} of them ours)" if own else "")
    for scale, name in SCALE_NAMES.items():
        each = [f"{count} {verdict}" for verdict, count in counts(decided, scale).items() if count]
        line += f"; {name}: {', '.join(each)}" if each else ""
        line += " ({} of {} verdicts are firm)".format(*firm(decided, scale)) if each else ""
    parts.append(line)
    if tables is not None and len(tables):
        parts.append(left_aligned(shares_frame(tables)))
    return "\n\n".join(parts)


def written(
    place: Place, style: str = "table", chapter: str | None = None, verdict: str | None = None
) -> str:
    """The ledger in one of `FORMATS`; ``chapter`` may be a part of a name. Raises `InputError` for
    a format, chapter or verdict that there is not."""
    check_known("format", style, FORMATS)
    if chapter is not None:
        every = [*(claim.chapter for claim in claims()), *(shown for shown, _ in TABLES.values())]
        chapter = chapter_named(chapter, dict.fromkeys(every))
    runs = Runs(place)
    decided = ledger(runs, chapter, verdict)
    if style != "table":
        return as_json(decided) if style == "json" else as_csv(decided)
    if verdict:
        return as_text(decided)
    tables = shares(runs)
    return as_text(decided, tables[tables["chapter"].eq(chapter) | (chapter is None)])


def ledger_html(decided: Sequence[Decision]) -> str:
    """The table of all claims, with ids ``claim-<id>``; those run at no scale are in a second, folded one."""
    waiting = [d for d in decided if {d.verdict(scale) for scale in SCALES} <= {"not run", ""}]
    source = Path(__file__).with_name("ledger.html").read_text("utf-8")

    def place_of(claim: Claim) -> str:
        """What the sources are sorted by: sections as numbers, then blog post and slides, then ours."""
        section = {"slides": "9", "blog": "9", "ours": "99"}.get(claim.section, claim.section)
        section = section.split(",")[0]
        return "§" + ".".join(part.zfill(2) for part in section.split("."))

    def rules(claim: Claim) -> str:
        """The rule, and what the compact replication changes of it."""
        text = f"{claim.unit} {claim.rule_text}"
        if "compact" not in claim.scales or not claim.compact:
            return text
        changed = [claim.at("compact").rule_text] if "rule" in claim.compact else []
        for name, value in (claim.compact.get("of", {}) | claim.compact.get("with", {})).items():
            values = value if isinstance(value, list) else [value]
            changed.append(f"{name} {', '.join(f'{one:,}' for one in values)}")
        return f"{text}. Compact: {', '.join(changed)}, since {claim.compact['why']}"

    return Environment(autoescape=True).from_string(source).render(
        run=[d for d in decided if d not in waiting], waiting=waiting, marks=MARKS, order=[*VERDICTS, ""],
        offered=lambda scale: [(name, name) for name, n in counts(decided, scale).items() if n],
        rules=rules, place_of=place_of, link_of=link_of,
        titles={name: title_of(name) for name in dict.fromkeys(d.claim.chapter for d in decided)},
    )  # fmt: skip
