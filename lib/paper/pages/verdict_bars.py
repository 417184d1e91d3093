"""How many claims of the thesis have which verdict, as bars at the top of a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlencode

from paper.verdicts.claims import Decision
from paper.verdicts.ledger import counts


def lacking(decided: Sequence[Decision]) -> int:
    """How many claims are not run at the thesis's scale for want of data."""
    return sum(d.verdict("thesis") == "not run" and bool(d.claim.needs) for d in decided)


@dataclass(frozen=True)
class VerdictBars:
    """A bar for each scale, with a part for each verdict, and below it how many claims have it,
    with a link to them in the ledger."""

    claims: Sequence[Decision]  # of the thesis

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bars, lines = [], []
        for scale, key, title in (
            ("thesis", "verdict", "at the thesis's scale"),
            ("compact", "compact", "in the compact replication"),
        ):
            numbers = {name: n for name, n in counts(self.claims, scale).items() if n}
            parts, entries, words = [], [], []
            for name, n in numbers.items():
                plural = name if n == 1 else name.replace("does", "do").replace("holds", "hold")
                words.append(f"{n} {plural}")
                mark = name.replace(" ", "-")
                parts.append(f'<span class="{mark}" style="flex-grow:{n}"></span>')
                address = f"ledger.html#{escape(urlencode({key: name, 'source': 'thesis'}))}"
                entries.append(f'<a href="{address}"><span class="{mark}"></span>{words[-1]}</a>')
            testable = f"{sum(numbers.values())} of the {len(self.claims)} claims can be tested"
            bars.append(
                f'<p>{testable} {title}:</p><div class="verdicts" aria-hidden="true">'
                f'{"".join(parts)}</div><div class="verdict-names">{" ".join(entries)}</div>'
            )
            lines.append(f"{title}: {', '.join(words)}")
        text = f"{len(self.claims)} claims; {'; '.join(lines)}"
        need = f"Of those not run at the thesis's scale {lacking(self.claims)} "
        need += "need corpora or an encoder that we lack."
        bars.append(f'<div class="legend">{need} Some claims are about one scale alone.</div>')
        return {"text/markdown": "".join(bars), "text/html": f"<p>{text}</p>", "text/plain": text}
