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
from whenpool.probing import PROBES
from whenpool.report import (
    few_shot_quantities,
    quantities,
    skip_quantities,
    theory_quantities,
    trick_quantities,
)
from whenpool.report.few_shot_rules import indicating, of_thesis
from whenpool.report.quantities import Evidence, PerSeed
from whenpool.report.tricks import finished, small_runs, with_variant
from whenpool.report.verdicts import SEEDS_NEEDED, as_plain, of_one_kind, of_record, probes_of_record

if TYPE_CHECKING:
    from pandas import DataFrame

    from whenpool.store import Store

QUANTITIES = (
    quantities.QUANTITIES
    | skip_quantities.QUANTITIES
    | few_shot_quantities.QUANTITIES
    | trick_quantities.QUANTITIES
    | theory_quantities.QUANTITIES
)
"""Every quantity that ``data/paper/claims.yml`` may name."""
READS = (
    quantities.READS
    | dict.fromkeys(skip_quantities.QUANTITIES, "trainings")
    | dict.fromkeys(few_shot_quantities.QUANTITIES, "few_shots")
    | dict.fromkeys(trick_quantities.QUANTITIES, "variants")
    | dict.fromkeys(theory_quantities.QUANTITIES, "networks")
)
"""What each quantity is measured on: a kind of probe, trainings or variants of them, few-shot runs, or
networks that are drawn or built for it."""
OURS = "ours"
"""The section of a claim that the thesis does not make."""
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
    try:
        QUANTITIES[claim.quantity](_no_evidence(), **claim.arguments)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{where} does not fit {claim.quantity}: {error}") from None
    return claim


def _no_evidence() -> Evidence:
    import pandas as pd

    return Evidence(pd.DataFrame(), dict.fromkeys(PROBES, pd.DataFrame()))


def evidence_of(
    store: "Store",
    trainings: "DataFrame",
    probes: "DataFrame",
    few_shots: "DataFrame | None" = None,
) -> Evidence:
    """The runs of record among finished ones, which alone decide.

    Where some were trained from other word vectors, those of the most runs count: numbers of two
    kinds are not compared.

    Args:
        trainings, probes, few_shots: rows of `Store.trainings`, `Store.probes`, `Store.few_shots`.
    """
    variants = trainings
    if len(trainings):
        variants = with_variant(finished(of_one_kind(trainings[of_record(as_plain(trainings))])))
        variants = variants[variants["masked"].astype(bool) & (variants["length"] == "long")]
        variants = variants[variants["corpus"] == "imdb"]
        trainings = of_one_kind(trainings[of_record(trainings)])
    if len(probes):
        probes = probes[probes_of_record(probes)]
    measured = {}
    for kind in PROBES:
        own = probes[probes["probe"] == kind] if len(probes) else probes
        measured[kind] = store.measured_on(of_one_kind(own), kind)
    few_shots = None if few_shots is None else of_thesis(few_shots)
    return Evidence(trainings, measured, variants, store.histories(), few_shots, live=True)


def small_evidence(store: "Store", trainings: "DataFrame", size: int) -> Evidence:
    """Small runs in the place of runs of record, which indicate and never decide (§2.2 alone).

    Args:
        trainings: rows of `Store.trainings`.
        size: training texts.
    """
    variants = finished(small_runs(trainings, size))
    return replace(_no_evidence(), variants=variants, epochs=store.histories())


def few_shot_evidence(few_shots: "DataFrame") -> Evidence:
    """Few-shot runs with MiniLM in the place of those with the thesis's encoder: they indicate and never
    decide (§1.10 alone).

    Args:
        few_shots: rows of `Store.few_shots`.
    """
    return replace(_no_evidence(), few_shots=indicating(few_shots))


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
            "verdict": f"**{d.verdict}**" + (f" ({len(d.values)})" if d.values else ""),
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


def number_text(value: float) -> str:
    """A number as a reader sees it: 0.0003 -> 3·10⁻⁴, 12.34 -> 12.3, 100 -> 100."""
    if math.isinf(value):
        return "∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        mantissa, exponent = f"{value:.1e}".split("e")
        raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        mantissa = mantissa.removesuffix(".0")
        return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"
    if value == round(value):
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"
