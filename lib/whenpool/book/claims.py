"""What the thesis claims, decided by our runs: ``data/paper/claims.yml``.

A claim names a quantity and a rule. The quantity is a number of a run (`whenpool.book.measures`), or the
difference of two means over seeds, or their ratio; the rule is a threshold or a band. A claim may ask
for k comparisons. It *holds* when the 95 % interval of each satisfies the rule. It *does not hold* when
the interval of at least one, at level 1 - 0.05 / k, lies wholly outside (Bonferroni). Else it is *undecided*;
with fewer than three seeds the means say *so far*. The same rule is applied to runs at the thesis's scale, to
the compact replication, and to the thesis's own numbers. A verdict is *firm* when it stays the same with
thresholds that are a quarter stricter or laxer, and without any one of the seeds.

Verdicts read only runs that began after the rule was registered; what older runs say is a pilot.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.tables import listed
from whenpool.book.measures import MEASURES, SEEDS_NEEDED, USED, Measure, numbers
from whenpool.book.results import (
    READS,
    SCALES,
    Numbers,
    Runs,
    Sample,
    estimate,
    note,
    paper_file,
    variant_of,
)
from whenpool.book.tables import number_text, spoken_number
from whenpool.corpora.corpus import LENGTHS
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import LISTED
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS
from whenpool.runs.kinds.training import TRICKS
from whenpool.runs.plans import OTHER_STARTS, START_OPTIONS

OTHER_ENCODER = "not tested: other encoder"
"""Of claims whose runs read another encoder, or trained other baselines, than the thesis's."""
VERDICTS = (
    "holds", "does not hold", "undecided", "so far holds", "so far does not hold", OTHER_ENCODER, "not run"
)  # fmt: skip
DECIDED = VERDICTS[:2]
LEVEL = 0.95  # of intervals
LENIENCE = 0.25  # By which part of itself a threshold is moved to see whether a verdict is firm
_STARTS = [variant_of("last", **start).split(", ")[0] for start in (*OTHER_STARTS, *START_OPTIONS)]
CHOICES: dict[str, Sequence[str]] = {
    "length": LENGTHS,
    "setting": SETTINGS,
    "model": (*LISTED, *TRICKS, "low", *_STARTS),
    "system": (*SYSTEMS, *CONTRAST),
}
"""The values of columns that do not take any."""
_SIGNS = {"<=": "≤", ">=": "≥", "<": "<", ">": ">"}
Selection = dict[str, Any]  # Values of columns; several stand for each of them
Terms = Sequence[tuple[int, Sample | None]]  # A sum of means, each with its sign


@dataclass(frozen=True)
class Rule:
    """Where a quantity must lie, such as ">= 10" or "-3 to 3"."""

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
            raise ValueError(f"the rule must be like '>= 10' or '-3 to 3', not {text!r}")
        return cls(low, high, open="=" not in sign)

    @property
    def is_band(self) -> bool:
        """Whether it has two ends."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def slack(self, value: float, ratio: bool = False) -> float:
        """How far inside a value lies, negative outside; of ratios on a log scale."""
        value, low, high = (
            (math.log(x) if x > 0 else -math.inf) if ratio else x for x in (value, self.low, self.high)
        )
        below = math.inf if self.low == -math.inf else value - low
        return min(below, math.inf if self.high == math.inf else high - value)

    def moved(self, part: float, ratio: bool = False, most: float | None = None) -> "Rule":
        """The same a part stricter, or laxer where it is negative: a threshold is moved by a part of itself,
        or of its distance from the ``most`` that the quantity can be; the ends of a band by a part of half
        its width, of ratios on a log scale. A threshold of 0 stays as it is."""
        if self.is_band:
            to, back = (math.log, math.exp) if ratio else (float, float)
            step = part * (to(self.high) - to(self.low)) / 2
            return replace(self, low=back(to(self.low) + step), high=back(to(self.high) - step))
        if math.isfinite(self.low):
            distance = abs(self.low if most is None else most - self.low)
            return replace(self, low=self.low + part * distance)
        return replace(self, high=self.high - part * abs(self.high))

    def verdict(self, low: float, high: float) -> str:
        """Of an interval."""
        least = min(self.slack(low), self.slack(high))
        if least > 0 or (least == 0 and not self.open):
            return "holds"
        outside = high < self.low or low > self.high
        if self.open:
            outside = high <= self.low or low >= self.high
        return "does not hold" if outside else "undecided"


@dataclass(frozen=True)
class Finding:
    """What some runs say of a claim."""

    verdict: str = "not run"  # one of `VERDICTS`
    value: float = math.nan  # the quantity; of several comparisons the one that decides
    low: float = math.nan  # its interval at `level`; none with a single seed
    high: float = math.nan
    n: int = 0  # seeds, the fewest of what is compared
    level: float = LEVEL  # higher where one of several comparisons speaks against the claim
    hangs_on: tuple[str, ...] | None = None  # what a verdict would not survive; None: there is none
    part: bool = False  # whether some of the runs read a part of a corpus, or a stand-in
    keys: tuple[str, ...] = ()  # of the runs

    @classmethod
    def of(cls, *terms: tuple[int, Sample | None], ratio: bool = False) -> "Finding":
        """A sum of means and its interval, without a verdict; ``ratio``: the samples are of logarithms.
        Empty where a sample is missing."""
        known = [(sign, sample) for sign, sample in terms if sample is not None]
        if len(known) < len(terms):
            return cls()
        value, low, high = estimate(known)
        if ratio:
            value, low, high = map(math.exp, (value, low, high))
        return cls("", value, low, high, min(sample.n for _, sample in known))

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
        level = f"{100 * self.level:.3g} % interval: " if self.level > LEVEL else ""
        interval = f" ({level}{text(self.low)} to {text(self.high)})" if self.low < self.high else ""
        return text(self.value) + interval

    @property
    def firm(self) -> bool | None:
        """Whether the verdict is firm, see the module; None where there is no verdict yet."""
        return None if self.hangs_on is None else not self.hangs_on

    @property
    def firmness(self) -> str:
        """The same in words: "firm", or what the verdict hangs on; nothing where there is none."""
        return "" if self.hangs_on is None else " and ".join(self.hangs_on) or "firm"

    def as_data(self) -> dict[str, Any]:
        """As JSON has it."""
        known = math.isfinite(self.low) and math.isfinite(self.high)
        value = self.value if math.isfinite(self.value) else None
        data: dict[str, Any] = {"verdict": self.verdict, "value": value}
        data |= {"interval": [self.low, self.high] if known else None, "n": self.n}
        data |= {"level": self.level} if self.level > LEVEL else {}
        data |= {"firm": self.firm} if self.firm is not None else {}
        data |= {"hangs_on": self.hangs_on} if self.hangs_on else {}
        return data | ({"part_of_corpus": True} if self.part else {})


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
    untested: Sequence[str] = ()
    compact: Mapping[str, Any] = field(default_factory=dict)
    published: float | None = None
    contradiction: str = ""
    remark: str = ""
    needs: str = ""

    @classmethod
    def read(cls, entry: dict[str, Any]) -> "Claim":
        """From an entry of the file; an error says what is wrong with it."""
        check_known("measure", entry["measure"], MEASURES)
        values = {name: value for name, value in entry.items() if name != "with"}
        values["registered"] = datetime.fromisoformat(entry["registered"]).astimezone(UTC)
        values["scales"] = tuple(entry.get("scales", SCALES))
        claim = cls(**values, options=entry.get("with", {}))
        for scale in claim.scales:
            Rule.parse(claim.at(scale).rule)
            _comparisons(claim.at(scale), scale)
        return claim

    def at(self, scale: str) -> "Claim":
        """As it is read at a scale: the compact replication may need other texts, or another threshold."""
        changed = self.compact if scale == "compact" else {}
        of = {**self.of, **changed.get("of", {})}
        options = {**self.options, **changed.get("with", {})}
        return replace(self, of=of, options=options, rule=changed.get("rule", self.rule))

    @property
    def of_thesis(self) -> bool:
        """Whether the thesis, its blog post or slides claim it."""
        return self.section != "ours"

    @property
    def source(self) -> str:
        """Who claims it where: "§1.5", "blog", "slides", or "ours"."""
        return f"§{self.section}" if self.section[0].isdigit() else self.section

    @property
    def rule_text(self) -> str:
        """The rule as a reader sees it: ">= 10" is ≥ 10."""
        rule = Rule.parse(self.rule)
        if rule.is_band:
            return f"from {number_text(rule.low)} to {number_text(rule.high)}"
        sign, number = self.rule.split()
        return f"{_SIGNS[sign]} {number_text(float(number))}"


@dataclass(frozen=True)
class Decision:
    """A claim and what is said of it: by our runs at both scales, by pilots, and by the thesis itself."""

    claim: Claim
    at: Mapping[str, Finding]  # by scale; without those that do not decide the claim
    pilots: Mapping[str, Finding] = field(default_factory=dict)  # the same by runs older than the rule
    thesis: Finding | None = None  # by the thesis's own numbers, none where it published none

    def verdict(self, scale: str) -> str:
        """At a scale, or nothing where it does not decide the claim."""
        return self.at[scale].verdict if scale in self.at else ""

    @property
    def scale(self) -> str:
        """The scale that a sentence quotes: compact where only that is decided, or run at all."""
        run = [scale for scale in SCALES if self.at.get(scale, Finding()).n]
        open_yet = ("so far", OTHER_ENCODER)
        decided = [scale for scale in run if not self.at[scale].verdict.startswith(open_yet)]
        return (decided or run or ["thesis"])[0]

    @property
    def best(self) -> Finding:
        """What the runs at this scale say."""
        return self.at.get(self.scale, Finding())

    def spoken(self, scale: str) -> str:
        """What runs at a scale measured, as a sentence has it; of pilots, and it says so, where there is no
        younger run."""
        runs, pilots = self.at.get(scale, Finding()), self.pilots.get(scale, Finding())
        if runs.n or not pilots.n:
            return runs.spoken or "not run"
        text = pilots.spoken
        return f"{text[:-1]}, pilots)" if text.endswith(")") else f"{text} (pilots)"

    @property
    def in_short(self) -> str:
        """Their verdict, which says so where it is compact."""
        return self.best.verdict + " (compact)" * (self.scale == "compact")

    @property
    def as_verb(self) -> str:
        """The same as the verb of a sentence whose subject is the claim."""
        verdict, bracket, scale = self.in_short.partition(" (")
        verbs = {"undecided": "is undecided", "not run": "has not been tested yet"}
        verbs |= {OTHER_ENCODER: "is not tested, since another encoder was run"}
        verb = verbs.get(verdict, verdict)
        if verb.startswith("so far "):
            verb = f"{verb.removeprefix('so far ')} so far"
        return verb + bracket + scale

    @property
    def keys(self) -> set[str]:
        """Of the runs that decide."""
        return {key for finding in self.at.values() for key in finding.keys}


def claims(file: Path | None = None) -> list[Claim]:
    """All claims of the ledger. Raises `InputError` outside a clone, or for an incomplete entry, named."""
    return entries_of(file or paper_file("claims.yml"), "claims", Claim.read)


def entries_of(file: Path, what: str, make: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """What ``make`` gives of each entry of a YAML file with ``what``; a fault is named by the entry's id."""
    entries = []
    for entry in listed(file, what):
        check(isinstance(entry, dict), f"{file}: each entry must have an id, unlike {entry!r:.40}")
        try:
            entries.append(make(entry))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"{file}: correct the entry {entry.get('id')!r:.40}: {error}") from None
    for name, times in Counter(entry.id for entry in entries).items():
        check(times == 1, f"{file}: the id {name!r} occurs twice; rename one")
    return entries


def _comparisons(claim: Claim, scale: str) -> list[list[tuple[int, Selection]]]:
    """What each comparison adds (1) and subtracts (-1); each combination of several values has one."""
    comparisons = []
    for first in _each({**MEASURES[claim.measure].fixed.get(scale, {}), **claim.of}):
        for rival in _each(claim.against or {}):
            terms = [(1, first)]
            if claim.against is not None:
                if {**first, **rival} == first:
                    continue
                terms.append((-1, {**first, **rival}))
            for once_more in _each(claim.versus) if claim.versus is not None else []:
                terms += [(-sign, {**selection, **once_more}) for sign, selection in terms[:2]]
            comparisons.append(terms)
    return comparisons


def _each(selection: Mapping[str, Any]) -> Iterable[Selection]:
    """A selection for each combination of several values; ``best_of`` stays as it is."""
    lists = [
        value if isinstance(value, list | tuple) and name != "best_of" else [value]
        for name, value in selection.items()
    ]
    return [dict(zip(selection, values, strict=True)) for values in product(*lists)]


def _sample(
    table: Numbers,
    selection: Selection,
    measure: Measure,
    admits: Callable[[int], bool] = lambda _: True,
) -> Sample | None:
    """The admitted runs of a selection, the last of each seed; of several ways those that validate best."""
    plain = {name: value for name, value in selection.items() if name != "best_of"}
    columns, tried = table.columns, []
    for way in selection.get("best_of") or [{}]:
        admitted = filter(admits, table.places({**plain, **way}))
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
    keys = tuple(columns["key"][place] for place in chosen) if "key" in columns else ()  # none in theory
    complete = columns.get("corpus_complete")
    whole = complete is None or all(complete[place] is True for place in chosen)
    by_seed = {columns["seed"][place]: float(value) for place, value in zip(chosen, values, strict=True)}
    return Sample.of(by_seed, keys, whole)


def rows_at(runs: Runs, measure: str, scale: str, **selection: Any) -> DataFrame:
    """The numbers of a measure at a scale, a row for each; ``selection``: what the runs have where it is not
    what `SCALES` says, such as ``model="last"``; a list stands for each of its values. Raises `InputError`
    for what there is not, naming those there are. It remembers the question, see `note`."""
    check_known("measure", measure, MEASURES)
    scales = MEASURES[measure].fixed
    check_known("scale", scale, scales)
    for name, value in selection.items():
        check_known("column", name, sorted(USED))
        for choice in value if isinstance(value, list | tuple) else [value]:
            if name in CHOICES and isinstance(choice, str):
                check_known(name, choice.partition(",")[0], CHOICES[name])  # a start is behind a comma
    table = numbers(runs, measure)
    places = {at for values in _each({**scales[scale], **selection}) for at in table.places(values)}
    keys = table.columns.get("key")
    note([measure, scale, selection], (keys[at] for at in places) if keys else ())
    return table.rows.iloc[sorted(places)]


def judge(claim: Claim, compared: Sequence[Terms]) -> Finding:
    """The verdict on a claim from every comparison that it asks for."""
    samples = [sample for terms in compared for _, sample in terms if sample]
    if not samples or len(samples) < sum(map(len, compared)):
        return Finding()
    rule, measure = Rule.parse(claim.rule), MEASURES[claim.measure]
    finding = _decided(rule, compared, measure)
    if finding.verdict in DECIDED:
        others = (rule.moved(part, measure.ratio, measure.most) for part in (LENIENCE, -LENIENCE))
        changed = (_decided(other, compared, measure) for other in others)
        hangs = ["the threshold"] if any(other.verdict != finding.verdict for other in changed) else []
        seeds = {seed for sample in samples if sample.n > 1 for seed in sample.values}
        fewer = (
            [[(sign, sample and sample.without(seed)) for sign, sample in terms] for terms in compared]
            for seed in seeds
        )
        if any(_decided(rule, rest, measure, 2).verdict != finding.verdict for rest in fewer):
            hangs.append("one seed")
        finding = replace(finding, hangs_on=tuple(hangs))
    keys = tuple(dict.fromkeys(key for sample in samples for key in sample.keys))
    return replace(finding, part=not all(sample.whole for sample in samples), keys=keys)


def _decided(rule: Rule, compared: Any, measure: Measure, enough: int = SEEDS_NEEDED) -> Finding:
    """What a rule says of all comparisons, with the one that decides; ``enough`` seeds make a verdict."""
    ratio = measure.ratio

    def at(level: float) -> list[Finding]:
        findings = []
        for terms in compared:
            value, low, high = estimate(terms, level)
            if ratio:  # past 690 it is as good as infinite
                value, low, high = (math.inf if x > 690 else math.exp(x) for x in (value, low, high))
            if measure.exact:
                low = high = value
            n = min(sample.n for _, sample in terms)
            few = not measure.exact and (n < enough or math.isnan(low))
            verdict = rule.verdict(value, value) if few else rule.verdict(low, high)
            findings.append(Finding(f"so far {verdict}" if few else verdict, value, low, high, n, level))
        return findings

    def slack(finding: Finding) -> tuple[float, float]:
        return rule.slack(finding.low, ratio), rule.slack(finding.high, ratio)

    usual, wide = at(LEVEL), at(1 - (1 - LEVEL) / len(compared))
    if against := [each for each in wide if each.verdict == "does not hold"]:
        return min(against, key=lambda each: max(slack(each)))
    if any(each.verdict.startswith("so far") for each in usual):
        worst = min(usual, key=lambda each: rule.slack(each.value, ratio))
        verdict = f"so far {rule.verdict(worst.value, worst.value)}"
        return replace(worst, verdict=verdict, n=min(each.n for each in usual))
    worst, wider = min(zip(usual, wide, strict=True), key=lambda pair: min(slack(pair[0])))
    if worst.verdict == "does not hold":  # at the usual level, but not at that of several comparisons
        worst = wider
    return worst if worst.verdict == "holds" else replace(worst, verdict="undecided")


def by_runs(claim: Claim, runs: Runs, scale: str, pilots: bool = False) -> Finding:
    """What runs at a scale say of a claim: those that began after its rule was registered, or pilots."""
    claim = claim.at(scale)
    measure = MEASURES[claim.measure]
    if measure.drawn and pilots:
        return Finding()
    table = numbers(runs, claim.measure, **claim.options)
    began, complete = table.columns.get("began"), table.columns.get("corpus_complete")
    part_will_do = measure.drawn or measure.exact or scale == "compact"

    def admits(place: int) -> bool:
        if began and (began[place] is not None and began[place] <= claim.registered) != pilots:
            return False
        return part_will_do or (complete is not None and complete[place] is True)

    compared = []
    for terms in _comparisons(claim, scale):
        if pilots and "vectors" not in claim.of:  # pilots may have other vectors
            terms = [(sign, {k: v for k, v in each.items() if k != "vectors"}) for sign, each in terms]
        compared.append([(sign, _sample(table, each, measure, admits)) for sign, each in terms])
    finding = judge(claim, compared)
    if finding.n and scale in claim.untested:
        return replace(finding, verdict=OTHER_ENCODER, hangs_on=None)
    return finding


def by_the_thesis(claim: Claim) -> Finding | None:
    """What the same rule says of the thesis's own numbers, where it published them."""
    measure = MEASURES[claim.measure]
    compared: list[Terms] = []
    if claim.published is not None:
        number = math.log(claim.published) if measure.ratio else claim.published
        compared = [[(1, Sample(number, math.nan, 1))]]
    elif claim.of_thesis and "thesis" in claim.scales:
        for terms in _comparisons(claim, "thesis"):
            # with tricks those of Table 2.1, which has other numbers for MaxPool than Table 1.6
            more = {"with_tricks": any(each.get("model") in TRICKS for _, each in terms)}
            # of several ways it has no number
            compared.append([(sign, measure.published({**each, **more})) for sign, each in terms])
    finding = judge(claim, compared)
    return replace(finding, hangs_on=None) if finding.n else None  # of single numbers no seed can go


def decide(claim: Claim, runs: Runs) -> Decision:
    """All that is said of a claim."""
    decision = Decision(
        claim,
        {scale: by_runs(claim, runs, scale) for scale in claim.scales},
        {scale: by_runs(claim, runs, scale, pilots=True) for scale in claim.scales},
        by_the_thesis(claim),
    )
    note(["claim", claim.id], [repr(decision)])
    return decision


def ask_again(runs: Runs, queries: Iterable[str]) -> dict[str, str]:
    """The answers of today, as `READS` has them, to queries that a page has asked."""
    by_id, answers = {claim.id: claim for claim in claims()}, {}
    for query in queries:
        what, *asked = json.loads(query)
        if what == "claim":
            if asked[0] in by_id:
                decide(by_id[asked[0]], runs)
        else:
            scale, selection = asked
            selection = {name: ... if value == "..." else value for name, value in selection.items()}
            if what in MEASURES and scale:
                rows_at(runs, what, scale, **selection)
            else:
                runs.select(what, scale, **selection)
        answers[query] = READS.get(query, "")
    return answers


def decisions(runs: Runs, chapter: str | None = None) -> list[Decision]:
    """The verdicts on all claims, or those of one chapter."""
    return [decide(claim, runs) for claim in claims() if chapter in (None, claim.chapter)]


def claims_table(decided: Sequence[Decision]) -> DataFrame:
    """A row for each claim: what it says, the rule, its verdict on the thesis's numbers, and on ours at both
    scales; without columns that are empty throughout."""

    def text(finding: Finding | None) -> str:
        if finding is None:
            return ""
        numbers = f"<br>{finding.measured}, n = {finding.n}" if finding.n else ""
        return f"**{finding.verdict}**{numbers}" + "<br>part of the corpus" * finding.part

    table = DataFrame(
        {
            "claim": f"{d.claim.statement} ({d.claim.source})",
            "rule": f"{d.claim.unit} {d.claim.rule_text}",
            "the thesis": text(d.thesis),
            "thesis's scale": text(d.at.get("thesis")),
            "compact": text(d.at.get("compact")),
        }
        for d in decided
    )
    return table.loc[:, table.ne("").any()]
