"""Sentences that are made from runs, for a page of the book to show."""

import re
from dataclasses import dataclass
from typing import Any

from whenpool.book.report.literal import html_of, plain
from whenpool.book.report.tables import as_html


@dataclass(frozen=True)
class Sentences:
    """Sentences of Markdown with links to the ledger, for a page of the book. A notebook that is opened
    by itself has no ledger beside it, and shows them without links."""

    paragraphs: tuple[str, ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bare = [re.sub(r"</?a\b[^>]*>", "", text) for text in self.paragraphs]
        return {
            "text/markdown": "\n\n".join(self.paragraphs),
            "text/html": "".join(f"<p>{as_html(html_of(text))}</p>" for text in bare),
            "text/plain": plain("\n\n".join(bare)),
        }
