"""The ledger: every claim with its rule, what the thesis's own numbers say to it, and our verdicts at both
scales, as a page, as text, JSON and CSV."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from whenpool.base.errors import InputError
from whenpool.base.paths import project_root
from whenpool.book.report.claims import (
    OURS,
    VERDICTS,
    Claim,
    Decision,
    Finding,
    claims,
    decisions,
    rule_text,
    source_text,
)
from whenpool.book.report.measures import SCALES, Runs
from collections import Counter
from collections.abc import Mapping
from typing import Any
from whenpool.book.report import few_shot, tricks
from whenpool.book.report.claims import sample_of
from whenpool.book.report.corpora import FIGURES, recorded_statistics
from whenpool.book.report.measures import Runs
from whenpool.book.report.verdicts import MARKS as CELL_MARKS
from whenpool.book.report.verdicts import published
from whenpool.book.report.tables import judged

if TYPE_CHECKING:
    from pandas import DataFrame
    from whenpool.runs.run import Place



NO_RULE = "no rule"
"""Of a cell with a number of ours where the rule for accuracies does not apply."""
JUDGED = ("reproduced", "differs", "undecided")
SHARES_LEGEND = (
    "Of judged: the share reproduced of the cells that are reproduced, differ or are undecided. No "
    "rule: ours stands beside the thesis's number in its chapter, and the rule is for test accuracies. "
    "Compact: cells with a number of the compact replication beside. "
    "Tables 1.3 and 1.4 repeat cells of the tables after them, so that the rows do not add up."
)
"""What `whenpool.book.report.ledger.shares_frame` shows."""


@dataclass(frozen=True)
class About:
    """What a table of the thesis shows, and where the book does."""

    chapter: str
    shows: str


TABLES = {
    "1.1": About("corpora", "statistics of long texts"),
    "1.2": About("gradient_propagation", "vanishing ratio, validation accuracy"),
    "1.3": About("training_to_skip", "accuracy, long texts, in brief"),
    "1.4": About("training_to_skip", "accuracy, short texts, in brief"),
    "1.5": About("training_to_skip", "accuracy, long texts, Yahoo and Amazon"),
    "1.6": About("training_to_skip", "accuracy, long texts, IMDb and Yelp"),
    "1.7": About("corpora", "statistics of short texts"),
    "1.8": About("training_to_skip", "accuracy, short texts"),
    "1.9": About("few_shot", "accuracy, 10 labels of each class"),
    "2.1": About("learnability", "accuracy with tricks"),
}


@dataclass(frozen=True)
class Share:
    """How a table of the thesis stands.

    Attributes:
        verdicts: how many cells have each verdict of `MARKS`, or `NO_RULE`.
        compact: how many have a number of the compact replication beside.
    """

    table: str
    verdicts: Mapping[str, int]
    compact: int = 0

    @property
    def chapter(self) -> str:
        return TABLES[self.table].chapter

    @property
    def cells(self) -> int:
        return sum(self.verdicts.values())

    @property
    def judged(self) -> int:
        """Cells that runs by the thesis's protocol, three seeds or more, say something about."""
        return sum(self.verdicts.get(name, 0) for name in JUDGED)

    @property
    def of_judged(self) -> float | None:
        """The share reproduced of what was judged, or None where nothing was."""
        return self.verdicts.get("reproduced", 0) / self.judged if self.judged else None

    @property
    def of_all(self) -> float:
        return self.verdicts.get("reproduced", 0) / self.cells

    def row(self) -> dict[str, Any]:
        """The table as plain data."""
        about = TABLES[self.table]
        each = {name: self.verdicts.get(name, 0) for name in (*CELL_MARKS, NO_RULE)}
        shares = {"reproduced_of_judged": self.of_judged, "reproduced_of_all": self.of_all}
        named = {"table": self.table, "chapter": about.chapter, "shows": about.shows}
        return named | {"cells": self.cells} | each | shares | {"compact": self.compact}

    def shown(self) -> dict[str, str]:
        """The table as texts for a reader."""
        row = self.row()
        part = "" if self.of_judged is None else _percent(self.of_judged)
        each = {name: str(row[name] or "") for name in (*CELL_MARKS, NO_RULE)}
        named = {"table": self.table, "shows": row["shows"], "cells": str(self.cells)}
        first = {"reproduced": each["reproduced"], "of judged": part}
        last = {
            "of all": _percent(self.of_all) if self.judged else "",
            "compact": str(self.compact or ""),
        }
        return named | first | last | each


def shares(runs: Runs) -> list[Share]:
    """All tables of the thesis; a cell can stand in two of them."""
    stored = runs.trainings
    cells = {
        table: judged(stored, rows) for table, rows in published("accuracy").groupby("table", sort=False)
    }
    tricked = tricks.thesis_cells(stored)
    cells["2.1"] = tricked[tricked["table"] == "2.1"]
    cells["1.9"] = few_shot.thesis_cells(runs.few_shots)
    found = {table: Counter(part["verdict"]) for table, part in cells.items()}
    compact = {table: int((part["compact"] != "").sum()) for table, part in cells.items()}
    found["1.2"], compact["1.2"] = _ratios(runs)
    found |= _statistics()
    return [Share(table, found[table], compact.get(table, 0)) for table in TABLES]


def _ratios(runs: Runs) -> tuple[Counter[str], int]:
    """Table 1.2: ratios and validation accuracies, which the rule for test accuracies does not judge; and
    how many the compact replication has."""
    theirs = published("vanishing")
    found: Counter[str] = Counter()
    compact = 0
    for row in theirs[theirs["source"] == "thesis"].itertuples():
        for measure in ("ratio_at_95", "validation_accuracy"):
            wanted = {"model": row.pooling, "size": row.size}
            found.update([_seen(sample_of(runs, measure, "thesis", **wanted) is not None)])
            compact += sample_of(runs, measure, "compact", **wanted) is not None
    return found, compact


def _statistics() -> dict[str, Counter[str]]:
    """Tables 1.1 and 1.7: statistics of corpora, as the record has them."""
    recorded = recorded_statistics()
    seen = set(zip(recorded["corpus"], recorded["length"], strict=True))
    found: dict[str, Counter[str]] = {}
    for row in published("corpora").itertuples():
        ours = _seen((row.corpus, row.length) in seen)
        found.setdefault(str(row.table), Counter()).update([ours] * len(FIGURES))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _seen(ours: bool) -> str:
    return NO_RULE if ours else "not run"


FORMATS = ("table", "json", "csv")
SCALE_NAMES = {"thesis": "thesis's scale", "compact": "compact"}
"""How a reader sees the scales."""
MARKS = {
    "holds": "✓", "does not hold": "✗", "undecided": "?", "so far holds": "✓",
    "so far does not hold": "✗", "not run": "–", "": "",
}  # fmt: skip
"""A sign for each verdict, so that none is told by colour alone."""
SOURCES = {"thesis": "thesis, blog and slides", OURS: "ours"}
"""Who claims it, as the filter names them."""
COLUMNS = (
    "Claim",
    "The thesis",
    "Thesis's scale",
    "Compact",
    "Rule",
    "Registered",
    "Source",
    "Shown in",
)
LEGEND = (
    "Each verdict with the quantity, its 95 % interval and n, the seeds (the fewest of what is compared). "
    "The thesis: what the rule says of its own published numbers. Pilots are runs that began before the rule "
    "was registered: they are shown in small type and decide nothing."
)


def ledger(runs: Runs, chapter: str | None = None, verdict: str | None = None) -> list[Decision]:
    """The verdicts on all claims, in the order of ``data/paper/claims.yml``.

    Args:
        chapter: of its claims alone; no other is computed.
        verdict: only claims with this one of `VERDICTS`, at either scale.

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
    found = decisions(runs, chapter)
    return [d for d in found if verdict is None or verdict in map(d.verdict, SCALES)]


def of_the_thesis(decided: Sequence[Decision]) -> list[Decision]:
    """Those on claims of the thesis, its blog post or slides; the others are ours."""
    return [decision for decision in decided if decision.claim.of_thesis]


def counts(decided: Sequence[Decision], scale: str) -> dict[str, int]:
    """How many claims have each of `VERDICTS` at a scale, those that none has included."""
    return {name: sum(d.verdict(scale) == name for d in decided) for name in VERDICTS}


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
    return f"{claim.chapter}.html#{claim.evidence}"


def row_of(decision: Decision) -> dict[str, Any]:
    """A claim as plain data. A verdict is null at a scale that does not decide the claim, and ``thesis``
    where the thesis published no number."""
    claim = decision.claim

    def at(scale: str) -> dict[str, Any] | None:
        return decision.at[scale].as_data() if scale in decision.at else None

    return {
        "id": claim.id,
        "chapter": claim.chapter,
        "section": claim.section,
        "statement": claim.statement,
        "registered": claim.registered.date().isoformat(),
        "registered_at": claim.registered.isoformat(),
        "rule": claim.rule,
        "unit": claim.unit,
        "verdict": at("thesis"),
        "compact": at("compact"),
        "thesis": decision.thesis.as_data() if decision.thesis else None,
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
    for decision in decided:
        row = row_of(decision)
        for name in ("verdict", "compact", "thesis"):
            found = row.pop(name)
            row[name] = found["verdict"] if found else ""
            low, high = (found and found["interval"]) or ("", "")
            values = {
                "value": found and found["value"],
                "low": low,
                "high": high,
                "n": found and found["n"],
            }
            row |= {f"{name}_{key}": "" if value is None else value for key, value in values.items()}
        rows.append({k: v for k, v in row.items() if not isinstance(v, dict) and k != "registered_at"})
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["id"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def as_text(decided: Sequence[Decision], tables: Sequence[Share]) -> str:
    """The same for a terminal, and the shares of the thesis's tables."""
    parts = []
    for chapter in dict.fromkeys(decision.claim.chapter for decision in decided):
        own = [decision for decision in decided if decision.claim.chapter == chapter]
        parts.append(f"{title_of(chapter)}\n" + _left_aligned(_brief(own)))
    parts.append(summary(decided))
    if tables:
        parts.append(_left_aligned(shares_frame(tables)))
    return "\n\n".join(parts)


def summary(decided: Sequence[Decision]) -> str:
    """How many claims have which verdict at each scale, and how many are ours, in a line."""
    own = len(decided) - len(of_the_thesis(decided))
    told = f"{len(decided)} claims" + (f" ({own} of them ours)" if own else "")
    for scale, name in SCALE_NAMES.items():
        each = [f"{count} {verdict}" for verdict, count in counts(decided, scale).items() if count]
        told += f"; {name}: {', '.join(each)}" if each else ""
    return told


def shares_frame(tables: Sequence[Share]) -> "DataFrame":
    """The share of each table of the thesis that was reproduced, as a table."""
    import pandas as pd

    return pd.DataFrame(share.shown() for share in tables)


def written(
    place: "Place", style: str = "table", chapter: str | None = None, verdict: str | None = None
) -> str:
    """The ledger in one of `FORMATS`.

    Raises:
        InputError: for a chapter, verdict or format that there is not, or outside a clone.
    """
    if style not in FORMATS:
        raise InputError(f"there is no format {style!r}; choose one of {', '.join(FORMATS)}")
    runs = Runs(place)
    decided = ledger(runs, chapter, verdict)
    if style == "json":
        return as_json(decided)
    if style == "csv":
        return as_csv(decided)
    return as_text(decided, [] if verdict else [s for s in shares(runs) if chapter in (None, s.chapter)])


def _brief(decided: Sequence[Decision]) -> "DataFrame":
    import pandas as pd

    def told(finding: Finding | None) -> str:
        if finding is None:
            return ""
        return f"{finding.verdict} {finding.measured}" + (f" n={finding.n}" if finding.n else "")

    return pd.DataFrame(
        {
            "claim": d.claim.id,
            "source": d.claim.section,
            "rule": d.claim.rule,
            "thesis by its rule": told(d.thesis),
            "thesis's scale": told(d.at.get("thesis")),
            "compact": told(d.at.get("compact")),
        }
        for d in decided
    )


def _left_aligned(frame: "DataFrame") -> str:
    texts = frame.astype(str)
    widths = [max([len(str(name)), *map(len, texts[name])]) for name in texts]
    rows = [list(map(str, texts)), *texts.to_numpy().tolist()]
    lines = [" ".join(["", *map(str.ljust, row, widths)]) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


# The page, which ``book/_static/ledger.js`` sorts and filters.


@dataclass(frozen=True)
class LedgerTable:
    """The claims with their verdicts, for a page of the book to show."""

    decided: Sequence[Decision]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": ledger_html(self.decided), "text/plain": f"{len(self.decided)} claims"}


def ledger_html(decided: Sequence[Decision]) -> str:
    """A form that is hidden until a script works it, and the table of all claims.

    Each row has the id ``claim-<id>``; a cell that does not sort by its text has ``data-sort``.
    """
    chapters = dict.fromkeys(decision.claim.chapter for decision in decided)

    def verdicts(scale: str) -> list[tuple[str, str]]:
        return [(name, name) for name, count in counts(decided, scale).items() if count]

    form = (
        '<form id="ledger-filters" class="ledger-filters" hidden>'
        + _choice("chapter", ((name, title_of(name)) for name in chapters))
        + _choice("verdict", verdicts("thesis"), "Thesis's scale")
        + _choice("compact", verdicts("compact"))
        + _choice("source", SOURCES.items())
        + '<label>Text <input type="search" name="text" autocomplete="off"></label>'
        + '<button type="reset">Show all</button>'
        + '<output aria-live="polite" name="count"></output></form>'
    )
    order = {name: place for place, name in enumerate(chapters)}
    rows = "\n".join(_row(decision, order[decision.claim.chapter]) for decision in decided)
    heads = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    return (
        f'<div class="ledger">{form}\n'
        '<div class="pst-scrollable-table-container" role="region" tabindex="0" '
        'aria-label="All claims">\n<table class="table ledger-table" id="ledger">\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>\n"
        f'<div class="legend">{LEGEND}</div></div>'
    )


def ledger_link(count: int, **filters: str) -> str:
    """A number of claims as a link to them in the ledger, filtered so."""
    return f'<a href="ledger.html#{escape(urlencode(filters))}">{count}</a>'


def _choice(name: str, values: Iterable[tuple[str, str]], label: str = "") -> str:
    options = "".join(f'<option value="{escape(v)}">{escape(text)}</option>' for v, text in values)
    label = label or name.capitalize()
    return (
        f'<label>{label} <select name="{name}"><option value="">all</option>{options}</select></label>'
    )


def _row(decision: Decision, chapter: int) -> str:
    claim = decision.claim
    section = {"slides": "9", "blog": "9", OURS: "99"}.get(claim.section, claim.section.split(",")[0])
    sort = "§" + ".".join(part.zfill(2) for part in section.split("."))
    notes = {
        "The thesis contradicts itself: ": claim.contradiction,
        "": claim.remark,
        "Needs ": claim.needs,
    }
    said = "".join(
        f'<small class="ledger-note">{escape(head + note)}</small>'
        for head, note in notes.items()
        if note
    )
    cells = [
        f'<th scope="row">{escape(claim.statement)} '
        f'<a class="ledger-id" href="#claim-{escape(claim.id)}">{escape(claim.id)}</a>{said}</th>',
        _finding(decision.thesis),
        *(_finding(decision.at.get(scale), decision.pilots.get(scale)) for scale in SCALES),
        _cell(_rules(claim)),
        _cell(claim.registered.date().isoformat(), claim.registered.isoformat()),
        _cell(source_text(claim.section), sort),
        f'<td data-sort="{chapter}"><a href="{escape(link_of(claim))}">'
        f"{escape(title_of(claim.chapter))}</a></td>",
    ]
    return (
        f'<tr id="claim-{escape(claim.id)}" data-chapter="{escape(claim.chapter)}" '
        f'data-verdict="{decision.verdict("thesis")}" data-compact="{decision.verdict("compact")}" '
        f'data-source="{OURS if not claim.of_thesis else "thesis"}">{"".join(cells)}</tr>'
    )


def _rules(claim: Claim) -> str:
    """The rule, and what the compact replication changes of it."""
    text = f"{claim.unit} {rule_text(claim.rule)}"
    if "compact" not in claim.scales or not claim.compact:
        return text
    changed = []
    if "rule" in claim.compact:
        changed.append(rule_text(claim.compact["rule"]))
    changed += [f"{name} {_plainly(value)}" for name, value in claim.compact.get("of", {}).items()]
    changed += [f"{name} {_plainly(value)}" for name, value in claim.compact.get("with", {}).items()]
    return f"{text}. Compact: {', '.join(changed)}, since {claim.compact['why']}"


def _plainly(value: Any) -> str:
    return ", ".join(map(_plainly, value)) if isinstance(value, list) else f"{value:,}"


def _finding(finding: Finding | None, pilots: Finding | None = None) -> str:
    """A verdict with its numbers; sorted by verdict, then value."""
    verdict = finding.verdict if finding else ""
    place = VERDICTS.index(verdict) if verdict else len(VERDICTS)
    text = f'<span aria-hidden="true">{MARKS[verdict]}</span> {escape(verdict)}'
    if finding and finding.n:
        text += f"<small>{escape(finding.measured)}, n = {finding.n}</small>"
        text += "<small>part of the corpus</small>" if finding.part else ""
    if pilots and pilots.n:
        text += f'<small class="ledger-pilot">pilots: {escape(pilots.measured)}, n = {pilots.n}</small>'
    return f'<td data-sort="{place}">{text}</td>'


def _cell(text: str, sort: str | None = None) -> str:
    order = "" if sort is None else f' data-sort="{escape(sort)}"'
    return f"<td{order}>{escape(text)}</td>"
