"""What the thesis claims, decided by our runs: ``data/paper/claims.yml``.

A claim names a quantity and a rule. The quantity is a number of a run (`whenpool.book.report.measures`), or
the difference of two means over seeds, or their ratio; the rule is a threshold or a band. The claim *holds*
when the whole 95 % interval of the quantity satisfies the rule. It *does not hold* when all of the interval
violates the rule, else it is *undecided*; with fewer than three seeds the mean says *so far*. The same rule
is applied to the runs at the thesis's scale, to the compact replication, and to the thesis's own numbers.

Verdicts read only runs that began after the rule was registered; what older runs say is a pilot.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame

from whenpool.base.errors import InputError, check_known
from whenpool.base.tables import check_once, listed
from whenpool.book.report.measures import MEASURES, SCALES, USED, Measure, Numbers, Runs
from whenpool.book.report.tables import number_text, spoken_number
from whenpool.book.report.verdicts import SEEDS_NEEDED, Sample, estimate, paper_file
from whenpool.runs.filter import CHOICES
from whenpool.runs.kinds.training import TRICKS

OURS = "ours"  # The section of a claim that the thesis does not make
VERDICTS = ("holds", "does not hold", "undecided", "so far holds", "so far does not hold", "not run")
_LARGEST = 690.0  # A logarithm past which a ratio is as good as infinite
_SIGNS = {"<=": "≤", ">=": "≥", "<": "<", ">": ">"}
Selection = dict[str, Any]  # Values of columns; several stand for each of them


@dataclass(frozen=True)
class Rule:
    """Where a quantity must lie.

    Examples:
        >>> Rule.parse(">= 10"), Rule.parse("-3 to 3")
        (Rule(low=10.0, high=inf, open=False), Rule(low=-3.0, high=3.0, open=False))
    """

    low: float
    high: float
    open: bool = False  # whether the ends themselves violate it

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Raises `ValueError` for a text that is no rule."""
        low, high, sign = -math.inf, math.inf, "<="
        try:
            if " to " in text:
                low, high = map(float, text.split(" to "))
            else:
                sign, number = text.split()
                low, high = (low, float(number)) if _SIGNS[sign] in "≤<" else (float(number), high)
        except (ValueError, KeyError, TypeError, AttributeError):
            low = math.nan
        if not low < high:
            raise ValueError(f"the rule {text!r} is none; write one like '>= 10' or '-3 to 3'")
        return cls(low, high, open="=" not in sign)

    def slack(self, value: float, ratio: bool = False) -> float:
        """How far inside a value lies, negative outside; of ratios on a log scale."""
        numbers: tuple[float, ...] = (value, self.low, self.high)
        if ratio:
            numbers = tuple(math.log(x) if x > 0 else -math.inf for x in numbers)
        value, low, high = numbers
        return min(value - low, high - value)

    def admits(self, value: float) -> bool:
        slack = self.slack(value)
        return slack > 0 if self.open else slack >= 0

    def verdict(self, low: float, high: float) -> str:
        """Of an interval."""
        if self.admits(low) and self.admits(high):
            return "holds"
        outside = high < self.low or low > self.high
        if self.open:
            outside = high <= self.low or low >= self.high
        return "does not hold" if outside else "undecided"


@dataclass(frozen=True)
class Finding:
    """What some runs say of a claim."""

    verdict: str = "not run"  # one of `VERDICTS`
    value: float = math.nan  # the quantity; of several comparisons the one least in favour
    low: float = math.nan  # its 95 % interval; none with a single seed
    high: float = math.nan
    n: int = 0  # seeds, the fewest of what is compared
    part: bool = False  # whether some of the runs read a part of a corpus, or a stand-in
    keys: tuple[str, ...] = ()  # of the runs

    @property
    def measured(self) -> str:
        """The quantity with its interval, as a table has it."""
        return self._written(number_text)

    @property
    def spoken(self) -> str:
        """The same as a sentence has it, in two digits."""
        return self._written(spoken_number)

    def _written(self, text: Callable[[float], str]) -> str:
        if not self.n:
            return ""
        if math.isnan(self.low) or self.low == self.high:
            return text(self.value)
        return f"{text(self.value)} ({text(self.low)} to {text(self.high)})"

    def as_data(self) -> dict[str, Any]:
        """As JSON has it."""
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return {
            "verdict": self.verdict,
            "value": self.value if math.isfinite(self.value) else None,
            "interval": [self.low, self.high] if known else None,
            "n": self.n,
            **({"part_of_corpus": True} if self.part else {}),
        }


@dataclass(frozen=True)
class Claim:
    """One claim and the rule that decides it; the file says what each attribute is."""

    id: str
    chapter: str
    section: str
    registered: datetime
    statement: str
    measure: str
    rule: str
    unit: str
    evidence: str
    options: Mapping[str, Any] = field(default_factory=dict)
    of: Mapping[str, Any] = field(default_factory=dict)
    against: Mapping[str, Any] | None = None
    versus: Mapping[str, Any] | None = None
    scales: tuple[str, ...] = tuple(SCALES)
    compact: Mapping[str, Any] = field(default_factory=dict)
    published: float | None = None
    contradiction: str = ""
    remark: str = ""
    needs: str = ""

    def at(self, scale: str) -> "Claim":
        """As it is read at a scale: the compact replication may need other texts, or another threshold."""
        if scale != "compact" or not self.compact:
            return self
        changed = self.compact
        return replace(
            self,
            of={**self.of, **changed.get("of", {})},
            options={**self.options, **changed.get("with", {})},
            rule=changed.get("rule", self.rule),
        )

    @property
    def of_thesis(self) -> bool:
        """Whether the thesis, its blog post or slides claim it."""
        return self.section != OURS


@dataclass(frozen=True)
class Decision:
    """A claim and what is said of it: by our runs at both scales, by pilots, and by the thesis itself."""

    claim: Claim
    at: Mapping[str, Finding]  # by scale; without those that do not decide the claim
    # the same by runs that began before the rule was registered
    pilots: Mapping[str, Finding] = field(default_factory=dict)
    thesis: Finding | None = None  # by the thesis's own numbers, none where it published none

    def verdict(self, scale: str) -> str:
        return self.at[scale].verdict if scale in self.at else ""

    @property
    def told(self) -> str:
        """The verdict at the thesis's scale, or where it was not run there the compact one, which says so."""
        large, small = (self.at.get(scale, Finding()) for scale in SCALES)
        return large.verdict if large.n or not small.n else f"{small.verdict} (compact)"

    @property
    def said(self) -> str:
        """The same as the verb of a sentence whose subject is the claim."""
        verdict, bracket, scale = self.told.partition(" (")
        late = verdict.startswith("so far ")
        verb = {"undecided": "is undecided", "not run": "has not been tested yet"}.get(verdict, verdict)
        return verb.removeprefix("so far ") + (" so far" if late else "") + bracket + scale

    @property
    def best(self) -> Finding:
        """At the thesis's scale where it was run there, else by the compact replication."""
        found = [finding for finding in self.at.values() if finding.n]
        return found[0] if found else Finding()

    @property
    def keys(self) -> set[str]:
        return {key for finding in self.at.values() for key in finding.keys}


def claims(file: Path | None = None) -> list[Claim]:
    """All claims of the ledger. Raises `InputError` outside a clone, or for an entry that is not whole,
    naming it."""
    return entries_of(file or paper_file("claims.yml", "the claims are"), "claims", "claim", _claim)


def entries_of(file: Path, what: str, one: str, make: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """What ``make`` gives of each entry of a YAML file with ``what``, of which each is ``one`` and has an
    ``id``. Raises `InputError` for an entry that is not whole, naming it, and for an id that two have."""
    found = []
    for entry in listed(file, what):
        if not isinstance(entry, dict):
            raise InputError(f"{file}: {entry!r:.40} is no {one}, which has an id and more")
        try:
            found.append(make(entry))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(
                f"{file}: the {one} {entry.get('id')!r:.40} cannot be used: {error}"
            ) from None
    check_once(file, one, [made.id for made in found])
    return found


def _claim(entry: dict[str, Any]) -> Claim:
    for name in ("id", "chapter", "section", "statement", "measure", "rule", "unit", "evidence"):
        if not isinstance(entry.get(name), str):
            raise ValueError(f"{name} is {entry.get(name)!r:.40}, which is no text")
    check_known("measure", entry["measure"], MEASURES)
    values = {name: value for name, value in entry.items() if name != "with"}
    values["registered"] = datetime.fromisoformat(str(entry.get("registered"))).astimezone(UTC)
    values["scales"] = tuple(entry.get("scales", SCALES))
    claim = Claim(**values, options=entry.get("with", {}))
    for scale in claim.scales:
        check_known("scale", scale, SCALES)
        Rule.parse(claim.at(scale).rule)
        _comparisons(claim.at(scale), scale)
        if not MEASURES[claim.measure].drawn:
            MEASURES[claim.measure].rows(Runs(None), **claim.at(scale).options)
    return claim


Terms = list[tuple[int, Selection]]  # What is added (1) and subtracted (-1)


def _comparisons(claim: Claim, scale: str) -> list[Terms]:
    """Every comparison that a claim asks for: one for each combination of several values."""
    fixed = (MEASURES[claim.measure].fixed or SCALES).get(scale, {})
    found = []
    for own in _each({**fixed, **claim.of}):
        for rival in _each(claim.against) if claim.against is not None else [None]:
            terms: Terms = [(1, own)]
            if rival is not None:
                other = {**own, **rival}
                if other == own:
                    continue
                terms.append((-1, other))
            for once_more in _each(claim.versus) if claim.versus is not None else []:
                terms += [(-sign, {**selection, **once_more}) for sign, selection in terms[:2]]
            found.append(terms)
    return found


def _each(selection: Mapping[str, Any]) -> Iterable[Selection]:
    """A selection for each combination of several values; ``best_of`` stays as it is."""
    lists = [
        value if isinstance(value, list) and name != "best_of" else [value]
        for name, value in selection.items()
    ]
    return [dict(zip(selection, values, strict=True)) for values in product(*lists)]


def _sample(
    numbers: Numbers, selection: Selection, measure: Measure, admits: Callable[[int], bool]
) -> Sample | None:
    """The admitted runs of a selection, the last one of each seed, or of several selections those of the one
    that validates best."""
    plain = {name: value for name, value in selection.items() if name != "best_of"}
    columns, tried = numbers.columns, []
    for way in selection.get("best_of") or [{}]:
        admitted = filter(admits, numbers.places({**plain, **way}))
        tried.append(sorted({columns["seed"][place]: place for place in admitted}.values()))
    if not all(tried):
        return None  # the best of some is not the best of all

    def read(name: str, places: list[int]) -> np.ndarray:
        return np.array([columns[name][place] for place in places], float)

    if len(tried) > 1:
        tried.sort(key=lambda places: np.nanmean(read("validation_accuracy", places)), reverse=True)
    chosen = tried[0][:1] if measure.exact else tried[0]
    values = read("value", chosen)
    if measure.ratio:
        values = np.log(np.maximum(values, np.finfo(float).tiny))
    std = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    keys = tuple(columns["key"][place] for place in chosen) if "key" in columns else ()  # none in theory
    whole = "corpus_complete" not in columns or all(
        columns["corpus_complete"][p] is True for p in chosen
    )
    return Sample(float(values.mean()), std, len(values), keys, whole)


def sample_of(runs: Runs, measure: str, scale: str, **selection: Any) -> Sample | None:
    """A measure of one model at a scale, over the seeds that were run; none where none was. ``selection``:
    what the runs have where it is not what `SCALES` says, such as ``model="last"``."""
    own = MEASURES[measure]
    fixed = (own.fixed or SCALES).get(scale)
    if fixed is None:
        return None
    return _sample(runs.numbers(measure, {}), {**fixed, **selection}, own, lambda place: True)


def rows_at(runs: Runs, measure: str, scale: str, **selection: Any) -> DataFrame:
    """The numbers of a measure at a scale, a row for each, to be drawn or tabulated; ``selection`` is as for
    `sample_of`, and a list stands for each of its values. Raises `InputError` for a measure, scale, column or
    value that there is not, naming those there are."""
    check_known("measure", measure, MEASURES)
    scales = MEASURES[measure].fixed or SCALES
    check_known("scale", scale, scales)
    for name, value in selection.items():
        check_known("column", name, sorted(USED))
        for one in value if isinstance(value, list | tuple) else [value]:
            if name in _KNOWN and isinstance(one, str):
                check_known(name, one.partition(",")[0], _KNOWN[name])  # a start comes behind a comma
    numbers = runs.numbers(measure, {})
    lists = {
        name: list(value) if isinstance(value, tuple) else value for name, value in selection.items()
    }
    found = {place for one in _each({**scales[scale], **lists}) for place in numbers.places(one)}
    return numbers.rows.iloc[sorted(found)]


_KNOWN = CHOICES | {"model": CHOICES["pooling"]}


def judge(claim: Claim, compared: Sequence[Sequence[tuple[int, Sample | None]]]) -> Finding:
    """The verdict on a claim from every comparison that it asks for, each a sum of samples."""
    measure, rule = MEASURES[claim.measure], Rule.parse(claim.rule)
    found = []
    for terms in compared:
        known = [(sign, sample) for sign, sample in terms if sample is not None]
        if len(known) < len(terms):
            return Finding()
        n = min(sample.n for _, sample in known)
        value, low, high = estimate(known)
        if measure.ratio:
            value, low, high = (math.inf if x > _LARGEST else math.exp(x) for x in (value, low, high))
        if measure.exact:
            verdict, low, high = rule.verdict(value, value), value, value
        elif n < SEEDS_NEEDED or math.isnan(low):
            verdict = f"so far {rule.verdict(value, value)}"
        else:
            verdict = rule.verdict(low, high)
        found.append(Finding(verdict, value, low, high, n))
    if not found:
        return Finding()
    samples = [sample for terms in compared for _, sample in terms if sample]
    return replace(
        min(found, key=lambda finding: rule.slack(finding.value, measure.ratio)),
        part=not all(sample.whole for sample in samples),
        keys=tuple(dict.fromkeys(key for sample in samples for key in sample.keys)),
    )


def by_runs(claim: Claim, runs: Runs, scale: str, pilots: bool = False) -> Finding:
    """What the finished runs at a scale say of a claim: those that began after its rule was registered, or
    pilots, which began before."""
    claim = claim.at(scale)
    measure = MEASURES[claim.measure]
    if measure.drawn and pilots:
        return Finding()
    numbers = runs.numbers(claim.measure, claim.options)
    if numbers.rows.empty:
        return Finding()
    began, complete = numbers.columns.get("began"), numbers.columns.get("corpus_complete")
    whole = measure.drawn or measure.exact or scale == "compact"
    free = {"vectors"} - set(claim.of) if pilots else set()  # pilots may have other vectors

    def admits(place: int) -> bool:
        if began and (began[place] is not None and began[place] <= claim.registered) != pilots:
            return False
        return whole or (complete is not None and complete[place] is True)

    def sample(selection: Selection) -> Sample | None:
        plain = {k: v for k, v in selection.items() if k not in free}
        return _sample(numbers, plain, measure, admits)

    wanted = _comparisons(claim, scale)
    return judge(claim, [[(sign, sample(one)) for sign, one in terms] for terms in wanted])


def by_the_thesis(claim: Claim) -> Finding | None:
    """What the same rule says of the thesis's own numbers, where it published them."""
    measure = MEASURES[claim.measure]
    if claim.published is not None:
        number = math.log(claim.published) if measure.ratio else claim.published
        found = judge(claim, [[(1, Sample(number, math.nan, 1))]])
    elif not claim.of_thesis or "thesis" not in claim.scales:
        return None
    else:
        compared: list[list[tuple[int, Sample | None]]] = []
        for terms in _comparisons(claim, "thesis"):
            # with tricks those of Table 2.1, which has other numbers for MaxPool than Table 1.6
            more = {"with_tricks": bool({one.get("model") for _, one in terms} & set(TRICKS))}
            numbers = (None if "best_of" in one else measure.published(one | more) for _, one in terms)
            compared.append(list(zip((sign for sign, _ in terms), numbers, strict=True)))
        found = judge(claim, compared)
    return found if found.n else None


def decide(claim: Claim, runs: Runs) -> Decision:
    """All that is said of a claim."""
    return Decision(
        claim,
        {scale: by_runs(claim, runs, scale) for scale in claim.scales},
        {scale: by_runs(claim, runs, scale, pilots=True) for scale in claim.scales},
        by_the_thesis(claim),
    )


def decisions(runs: Runs, chapter: str | None = None) -> list[Decision]:
    """The verdicts on all claims, or those of one chapter."""
    return [decide(claim, runs) for claim in claims() if chapter in (None, claim.chapter)]


def claims_table(decided: Sequence[Decision]) -> DataFrame:
    """A row for each claim: what it says, the rule, the thesis by it, and our verdicts at both scales."""
    return DataFrame(
        {
            "claim": f"{d.claim.statement} ({source_text(d.claim.section)})",
            "rule": f"{d.claim.unit} {rule_text(d.claim.rule)}",
            "the thesis": _told(d.thesis) if d.thesis else "",
            "thesis's scale": _told(d.at["thesis"]) if "thesis" in d.at else "",
            "compact": _told(d.at["compact"]) if "compact" in d.at else "",
        }
        for d in decided
    )


def _told(finding: Finding) -> str:
    text = f"**{finding.verdict}**"
    if finding.n:
        text += f"<br>{finding.measured}, n = {finding.n}"
    return text + ("<br>part of the corpus" if finding.part else "")


def source_text(section: str) -> str:
    """Where a claim stands: §1.5, in the blog post or slides, or with us alone."""
    return f"§{section}" if section[0].isdigit() else section


def rule_text(rule: str) -> str:
    """A rule as a reader sees it: ">= 10" is ≥ 10."""
    found = Rule.parse(rule)
    if math.isfinite(found.low) and math.isfinite(found.high):
        return f"from {number_text(found.low)} to {number_text(found.high)}"
    sign, number = rule.split()
    return f"{_SIGNS[sign]} {number_text(float(number))}"
