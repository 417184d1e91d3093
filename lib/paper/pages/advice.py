"""Advice on which pooling to take, each tied to claims and their verdicts:
``data/paper/advice.yml``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from paper.runs.run import Place
from paper.verdicts.claims import OTHER_ENCODER, claims, decide, entries_of
from paper.verdicts.results import Runs, paper_file
from whenpool.base.errors import check, check_known

WHERE = ("unknown", "everywhere", "start", "middle", "end")
"""Where in a text the words stand that decide its label."""


@dataclass(frozen=True)
class Advice:
    """One advice of the file, and how far our runs support it."""

    id: str
    text: str  # what to do, in whole sentences
    claims: Sequence[str]  # ids of those that it rests on
    verdicts: Sequence[str] = ()  # on each of them, see `with_verdicts`
    hang_on: Sequence[
        str
    ] = ()  # what each verdict would change without, such as "one seed"; mostly ""
    topic: str = ""  # its heading
    when: str = ""  # the case that it is for
    words: Sequence[Any] | None = None  # from and up to how many a text has; None is open
    texts: Sequence[Any] | None = None  # likewise labelled texts
    where: Sequence[str] = ()  # a part of `WHERE`; empty: wherever

    def fits(self, words: float, texts: int, where: str) -> bool:
        """Whether it is for such texts; what is for no particular texts is not."""
        if self.words is self.texts is None and not self.where:
            return False
        spans = ((self.words or (0, None), int(words)), (self.texts or (0, None), texts))
        within = all(
            least <= value <= (inf if most is None else most) for (least, most), value in spans
        )
        return within and (not self.where or where in self.where)


def entries() -> list[Advice]:
    """All advice there is."""
    return entries_of(paper_file("advice.yml"), lambda entry: Advice(**entry))


def advice_for(words: float, texts: int, where: str = "unknown") -> list[Advice]:
    """What the book advises for texts of so many ``words`` (mean or median), of which so many
    ``texts`` are labelled, but for what our runs contradict; ``where`` is one of `WHERE`."""
    check_known("place of the evidence", where, WHERE)
    check(words >= 0 and texts >= 0, f"words and texts must be at least 0, not {words} and {texts}")
    fitting = [entry for entry in entries() if entry.fits(words, texts, where)]
    given = with_verdicts(fitting, Runs(Place.default()))
    return [advice for advice in given if support(advice) != "contradicted"]


def with_verdicts(chosen: Sequence[Advice], runs: Runs) -> list[Advice]:
    """Some advice with the verdicts on its claims, at the thesis's scale where they were run
    there."""
    wanted = {name for entry in chosen for name in entry.claims}
    decided = {claim.id: decide(claim, runs) for claim in claims() if claim.id in wanted}
    verdicts = {name: decision.in_short for name, decision in decided.items()}
    hang_on = {
        name: decision.best.firmness.removeprefix("firm") for name, decision in decided.items()
    }
    return [
        replace(
            each,
            verdicts=[verdicts[name] for name in each.claims],
            hang_on=[hang_on[name] for name in each.claims],
        )
        for each in chosen
    ]


def support(advice: Advice) -> str:
    """How far our runs support an advice; they contradict it where a claim fails and none holds.
    What rests on no claim was only measured."""
    if not advice.claims:
        return "measured"
    full = [verdict.partition(" (")[0] for verdict in advice.verdicts]  # without a scale
    bare = [verdict.removeprefix("so far ") for verdict in full]
    if all(verdict == "holds" for verdict in bare):
        return "supported" if bare == full else "supported so far"
    if "holds" in bare:
        return "supported in part"
    if "does not hold" in bare:
        return "contradicted"
    if "undecided" in bare:
        return "undecided"
    return "tested otherwise" if OTHER_ENCODER in bare else "untested"
