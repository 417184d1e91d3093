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
    """A bar for each scale, with a part for each verdict, which is a link to its claims in the
    ledger."""

    claims: Sequence[Decision]  # of the thesis

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bars, lines = [], []
        for scale, key, title in (
            ("thesis", "verdict", "at the thesis's scale"),
            ("compact", "compact", "in the compact replication"),
        ):
            numbers, parts, words = counts(self.claims, scale), [], []
            for name, n in numbers.items():
                if n:
                    plural = name if n == 1 else name.replace("does", "do").replace("holds", "hold")
                    words.append(f"{n} {plural}")
                    parts.append(
                        f'<a class="{name.replace(" ", "-")}" style="flex-grow:{n}" '
                        f'title="{words[-1]}" '
                        f'href="ledger.html#{escape(urlencode({key: name, "source": "thesis"}))}">'
                        # where the name would not fit, the number alone
                        f"{n if n < len(self.claims) / 20 else words[-1]}</a>"
                    )
            testable = (
                f"{sum(numbers.values())} of the {len(self.claims)} claims can be tested {title}:"
            )
            bars.append(f'<p>{testable}</p><div class="verdicts">{"".join(parts)}</div>')
            lines.append(f"{title}: {', '.join(words)}")
        text = f"{len(self.claims)} claims; {'; '.join(lines)}"
        bars.append(
            '<div class="legend">Green: the claim holds. Orange: it does not. Yellow: undecided. '
            f"Grey: not run (for lack of data: {lacking(self.claims)}). "
            "Hatched: some of its seeds are not run yet. Some claims are about one scale "
            "alone.</div>"
        )
        return {"text/markdown": "".join(bars), "text/html": f"<p>{text}</p>", "text/plain": text}
