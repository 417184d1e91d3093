"""What the thesis claims, decided by our runs: ``data/paper/claims.yml``."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whenpool.documents import check_once, listed, shown
from whenpool.errors import InputError
from whenpool.places import project_root
from whenpool.report import (
    architecture_quantities,
    background_quantities,
    few_shot_quantities,
    quantities,
    regularisation_quantities,
    skip_quantities,
    tagging_quantities,
    theory_quantities,
    trick_quantities,
)
from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.gathering import no_evidence
from whenpool.report.verdicts import SEEDS_NEEDED
from whenpool.report.wording import number_text

if TYPE_CHECKING:
    from pandas import DataFrame

QUANTITIES = (
    quantities.QUANTITIES
    | skip_quantities.QUANTITIES
    | few_shot_quantities.QUANTITIES
    | tagging_quantities.QUANTITIES
    | trick_quantities.QUANTITIES
    | regularisation_quantities.QUANTITIES
    | architecture_quantities.QUANTITIES
    | background_quantities.QUANTITIES
    | theory_quantities.QUANTITIES
)
"""Every quantity that ``data/paper/claims.yml`` may name."""
READS = (
    quantities.READS
    | dict.fromkeys(skip_quantities.QUANTITIES, "trainings")
    | dict.fromkeys(few_shot_quantities.QUANTITIES, "few_shots")
    | dict.fromkeys(tagging_quantities.QUANTITIES, "taggings")
    | dict.fromkeys(trick_quantities.QUANTITIES, "variants")
    | dict.fromkeys(regularisation_quantities.QUANTITIES, "small")
    | architecture_quantities.READS
    | dict.fromkeys(background_quantities.QUANTITIES, "small")
    | dict.fromkeys(theory_quantities.QUANTITIES, "networks")
)
"""What each quantity is measured on: a kind of probe, trainings or variants of them, few-shot runs,
`READ_SMALL`, or networks that are drawn or built for it."""
SMALL = "small models"
"""How a verdict that small models gave is marked."""
OURS = "ours"
"""The section of a claim that the thesis does not make."""
SCALES = ("thesis", "small")
"""Of the runs that decide a claim: the thesis's models, or the quick profile's on whole real corpora,
whose verdicts are always marked and never counted among the others."""
READ_SMALL = ("small", "taggings")
"""What is measured on small models."""
WRITTEN = ("before", "later")
"""When a rule was written: before the runs, or when some of its runs, or numbers, were known."""
VERDICTS = ("holds", "does not hold", "undecided", "so far holds", "so far does not hold", "not run")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """One claim and the rule that decides it.

    Attributes:
        section: of the thesis, or "slides", or `OURS`.
        quantity, arguments: a function of `whenpool.report.quantities` and what it is given.
        rule: a comparison and a number, ">= 10".
        unit: what the number is.
        evidence: the name of the figure or table of the chapter that shows it.
        written: when the rule was, one of `WRITTEN`.
        scale: of the runs that decide it, one of `SCALES`.
    """

    id: str
    chapter: str
    section: str
    statement: str
    quantity: str
    rule: str
    unit: str
    arguments: dict[str, Any] = field(default_factory=dict)
    evidence: str = ""
    written: str = "before"
    scale: str = "thesis"

    def satisfied(self, value: float) -> bool:
        """Whether a number obeys the rule."""
        sign, threshold = self.rule.split()
        return _COMPARE[sign](value, float(threshold))


@dataclass(frozen=True)
class Decision:
    """A claim, the number of each seed, and the verdict."""

    claim: Claim
    values: PerSeed
    verdict: str

    @property
    def told(self) -> str:
        """The verdict as a reader sees it, who is told of small models."""
        return self.verdict + (f" ({SMALL})" if self.claim.scale == "small" else "")

    @property
    def measured(self) -> str:
        """The numbers as a text, in the order of the seeds."""
        return ", ".join(number_text(value) for value in self.values.values())


def claims(file: Path | None = None) -> list[Claim]:
    """All claims of the ledger.

    Raises:
        InputError: outside a clone, or for an entry that is not whole, naming it.
    """
    if file is None:
        root = project_root()
        if root is None:
            raise InputError("the claims are in the clone of the book: run this inside it")
        file = root / "data" / "paper" / "claims.yml"
    found = [_claim(entry, file) for entry in listed(file, "claims")]
    check_once(file, "claim", [claim.id for claim in found])
    return found


def _claim(entry: Any, file: Path) -> Claim:
    if not isinstance(entry, dict):
        raise InputError(f"{file}: {shown(entry)} is no claim, which has an id and more")
    where = f"{file}: the claim {shown(entry.get('id', 'without id'))}"
    values = {key: value for key, value in entry.items() if key != "with"}
    for key, value in values.items():
        if not isinstance(value, str):
            text = f"{key!s:.60}: {shown(value)}"
            raise InputError(f"{where} has {text}, which is no text; put it in quotes")
    try:
        claim = Claim(**values, arguments=entry.get("with", {}))
    except TypeError as error:
        raise InputError(f"{where} is not whole: {error}") from None
    if claim.written not in WRITTEN:
        raise InputError(f"{where} has written: {claim.written}; write one of {', '.join(WRITTEN)}")
    try:
        claim.satisfied(0.0)
        if not math.isfinite(float(claim.rule.split()[1])):
            raise ValueError("no number is compared with it")
    except (ValueError, KeyError):
        raise InputError(f"{where} has the rule {claim.rule!r}; write one like '>= 10'") from None
    if claim.quantity not in QUANTITIES:
        raise InputError(f"{where} names an unknown quantity {claim.quantity!r}")
    if claim.scale not in SCALES:
        raise InputError(f"{where} has scale: {claim.scale}; write one of {', '.join(SCALES)}")
    kind = READS[claim.quantity]
    if (claim.scale == "small") != (kind in READ_SMALL):
        fit = "small" if kind in READ_SMALL else "thesis"
        raise InputError(f"{where} has scale: {claim.scale}; what {claim.quantity} reads is {fit}")
    try:
        QUANTITIES[claim.quantity](no_evidence(), **claim.arguments)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{where} does not fit {claim.quantity}: {error}") from None
    return claim


def at_size(claim: Claim, size: int) -> Claim:
    """The same claim about another number of training texts."""
    return replace(claim, arguments=claim.arguments | {"size": size})


def decide(claim: Claim, evidence: Evidence) -> Decision:
    """The verdict on a claim: it holds when it holds for every seed, and from three seeds on.

    A seed whose number is 0 / 0 decides nothing.
    """
    found = QUANTITIES[claim.quantity](evidence, **claim.arguments)
    values = {seed: value for seed, value in found.items() if not math.isnan(value)}
    if not values:
        return Decision(claim, {}, "not run")
    satisfied = {claim.satisfied(value) for value in values.values()}
    if len(satisfied) == 2:
        return Decision(claim, values, "undecided")
    verdict = "holds" if satisfied.pop() else "does not hold"
    return Decision(claim, values, verdict if len(values) >= SEEDS_NEEDED else f"so far {verdict}")


def decisions(evidence: Evidence, chapter: str | None = None) -> list[Decision]:
    """The verdicts on all claims, or those of one chapter."""
    wanted = [claim for claim in claims() if chapter in (None, claim.chapter)]
    return [decide(claim, evidence) for claim in wanted]


def claims_table(
    decided: Sequence[Decision], indicated: Sequence[Decision] = (), heading: str = ""
) -> "DataFrame":
    """A row for each claim: what it says, the rule, what we measured, the verdict.

    Args:
        indicated: what small runs would say to the same rules, in the same order; without verdict.
        heading: of the column for that.
    """
    import pandas as pd

    table = pd.DataFrame(
        {
            "claim": f"{d.claim.statement} ({source_text(d.claim.section)})",
            "rule": f"{d.claim.unit} {rule_text(d.claim.rule)}",
            "ours": d.measured,
            "verdict": f"**{d.verdict}**"
            + (f" ({len(d.values)})" if d.values else "")
            + (f"<br>{SMALL}" if d.claim.scale == "small" else ""),
        }
        for d in decided
    )
    return table.assign(**{heading: indications(indicated)}) if indicated else table


def indications(decided: Sequence[Decision]) -> list[str]:
    """The numbers that small runs give to some claims, and how many obey the rule."""
    return [_indication(decision) for decision in decided]


def _indication(decision: Decision) -> str:
    obeyed = sum(map(decision.claim.satisfied, decision.values.values()))
    count = len(decision.values)
    return f"{decision.measured} (obeyed by {obeyed} of {count})" if count else ""


def source_text(section: str) -> str:
    """Where a claim stands: §1.5, in the slides, or with us alone."""
    return section if section in ("slides", OURS) else f"§{section}"


def rule_text(rule: str) -> str:
    """A rule as a reader sees it: ">= 10" is ≥ 10."""
    sign, number = rule.split()
    return f"{ {'<=': '≤', '>=': '≥'}.get(sign, sign) } {number_text(float(number))}"
