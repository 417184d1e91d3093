"""What the pages say in words is what the claims say in numbers."""

import re

from whenpool.base.paths import project_root

PAGES = sorted((project_root() / "book").glob("*.md"))
SAID = re.compile(r"^% (holds|fails): (.+)$", re.MULTILINE)
VERDICT = {"holds": "holds", "fails": "does not hold"}


def test_sentences_that_rest_on_claims_agree_with_their_verdicts(decided):
    """A line ``% holds: id`` or ``% fails: id`` above a sentence names the claims it rests on."""
    found = {decision.claim.id: decision.best.verdict for decision in decided}
    said = [(page.stem, *match) for page in PAGES for match in SAID.findall(page.read_text())]
    assert said
    wrong = [
        f"{page}: {name} is said as {VERDICT[kind]!r}, and is {found[name]!r}"
        for page, kind, names in said
        for name in names.split()
        if found[name] != VERDICT[kind]
    ]
    assert not wrong
