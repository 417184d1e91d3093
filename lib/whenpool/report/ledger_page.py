"""The ledger as a table of HTML, which ``book/_static/ledger.js`` sorts and filters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlencode

from whenpool.report.claims import OURS, SMALL, VERDICTS, Decision, rule_text, source_text
from whenpool.report.ledger import LATER, LEGEND, link_of, middle_of, title_of

MARKS = {
    "holds": "✓", "does not hold": "✗", "undecided": "?", "so far holds": "✓",
    "so far does not hold": "✗", "not run": "–",
}  # fmt: skip
"""A sign for each verdict, so that none is told by colour alone."""
SOURCES = {"thesis": "thesis and slides", OURS: "ours"}
"""Who claims it, as the filter names them."""
SCALE_NAMES = {"thesis": "of the thesis's size", "small": SMALL}
"""Which models decide it, the same way."""
COLUMNS = ("Claim", "Verdict", "Measured", "Seeds", "Rule", "Thesis", "Shown in")


@dataclass(frozen=True)
class LedgerTable:
    """The claims of the thesis with their verdicts, for a page of the book to show."""

    decided: Sequence[Decision]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": ledger_html(self.decided), "text/plain": f"{len(self.decided)} claims"}


def ledger_html(decided: Sequence[Decision]) -> str:
    """A form that is hidden until a script works it, and the table of all claims.

    Each row has the id ``claim-<id>``; a cell that does not sort by its text has ``data-sort``.
    """
    chapters = dict.fromkeys(decision.claim.chapter for decision in decided)
    verdicts = [name for name in VERDICTS if any(d.verdict == name for d in decided)]
    form = (
        '<form id="ledger-filters" class="ledger-filters" hidden>'
        + _choice("chapter", ((name, title_of(name)) for name in chapters))
        + _choice("verdict", ((name, name) for name in verdicts))
        + _choice("source", SOURCES.items())
        + _choice("scale", SCALE_NAMES.items(), "Models")
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


def thesis_link(count: int, verdict: str = "", scale: str = "thesis") -> str:
    """A number of claims of the thesis at a scale, all or those with a verdict, as a link to them."""
    query = urlencode(({"verdict": verdict} if verdict else {}) | {"source": "thesis", "scale": scale})
    return f'<a href="ledger.html#{escape(query)}">{count}</a>'


def _choice(name: str, values: Iterable[tuple[str, str]], label: str = "") -> str:
    options = "".join(f'<option value="{escape(v)}">{escape(text)}</option>' for v, text in values)
    label = label or name.capitalize()
    return (
        f'<label>{label} <select name="{name}"><option value="">all</option>{options}</select></label>'
    )


def _row(decision: Decision, chapter: int) -> str:
    claim, middle = decision.claim, middle_of(decision)
    section = {"slides": "9", OURS: "99"}.get(claim.section, claim.section)
    sort = "§" + ".".join(part.zfill(2) for part in section.split("."))
    seeds = len(decision.values)
    later = f" {LATER}" if claim.written == "later" else ""
    cells = [
        f'<th scope="row">{escape(claim.statement)} '
        f'<a class="ledger-id" href="#claim-{escape(claim.id)}">{escape(claim.id)}</a></th>',
        f'<td data-sort="{VERDICTS.index(decision.verdict)}">'
        f'<span aria-hidden="true">{MARKS[decision.verdict]}</span> {escape(decision.told)}</td>',
        _cell(decision.measured, "" if middle is None else f"{middle!r}"),
        _cell(str(seeds or ""), str(seeds)),
        _cell(f"{claim.unit} {rule_text(claim.rule)}{later}"),
        _cell(source_text(claim.section), sort),
        f'<td data-sort="{chapter}"><a href="{escape(link_of(claim))}">'
        f"{escape(title_of(claim.chapter))}</a></td>",
    ]
    return (
        f'<tr id="claim-{escape(claim.id)}" data-chapter="{escape(claim.chapter)}" '
        f'data-verdict="{escape(decision.verdict)}" '
        f'data-source="{OURS if claim.section == OURS else "thesis"}" '
        f'data-scale="{escape(claim.scale)}">{"".join(cells)}</tr>'
    )


def _cell(text: str, sort: str | None = None) -> str:
    order = "" if sort is None else f' data-sort="{escape(sort)}"'
    return f"<td{order}>{escape(text)}</td>"
