"""What the thesis claims, decided by our runs: ``data/paper/claims.yml``.

A claim names a quantity and a rule. The quantity is a number of a run (`paper.verdicts.measures`),
or the difference of two means over seeds, or their ratio; the rule is a threshold or a band. A
claim may ask for k comparisons. It *holds* when the 95 % interval of each satisfies the rule. It
*does not hold* when the interval of at least one, at level 1 - 0.05 / k, lies wholly outside
(Bonferroni). Else it is *undecided*; until the seeds that decide it are run the means say *so far*.
The same rule is applied to runs at the thesis's scale, to the compact replication, to encoders that
others have trained, and to the thesis's own numbers. A verdict is *firm* when it stays the same
with thresholds that are a quarter stricter or laxer, and without any one of the seeds.

Verdicts read only runs that began after the rule was registered; what older runs say is a pilot. A
claim names the seeds that decide it, since 2026-11-29 before they are run: a verdict that is looked
at again with each new seed is wrong more often than its interval says. Later seeds are shown beside
the verdict and decide nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.special import stdtr

from paper.chapters.shared import SEEDS_NEEDED, Measure
from paper.runs.store import Facts
from paper.tables import number_text, spoken_number
from paper.verdicts.measures import MEASURES, numbers
from paper.verdicts.results import (
    SCALES,
    Numbers,
    Runs,
    Sample,
    Selection,
    estimate,
    paper_file,
    spread,
)
from whenpool.base.errors import InputError, check, check_known
from whenpool.corpora.tokens import VECTORS

OTHER_ENCODER = "not tested: other encoder"
"""Of claims whose runs read another encoder, or trained other baselines, than the thesis's."""
DECIDED = ("holds", "does not hold")
SO_FAR = {verdict: f"so far {verdict}" for verdict in DECIDED}  # Of fewer seeds than decide it
VERDICTS = (*DECIDED, "undecided", *SO_FAR.values(), OTHER_ENCODER, "not run")
LEVEL = 0.95  # of intervals
# How a reader sees the scales; the last one is of encoders that others have trained
SCALE_NAMES = {"thesis": "thesis's scale", "compact": "compact", "pretrained": "pretrained"}
LENIENCE = 0.25  # By which part of itself a threshold is moved to see whether a verdict is firm
_SIGNS = {"<=": "≤", ">=": "≥", "<": "<", ">": ">"}
Term = tuple[int, Sample | None]  # A mean and its sign
Terms = Sequence[Term]  # of a sum


@dataclass(frozen=True)
class Rule:
    """Where a quantity must lie, such as ">= 10" or "-3 to 3"."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Raises `ValueError` or `KeyError` for a text that is no rule."""
        if " to " in text:
            return cls(*map(float, text.split(" to ")))
        sign, number = text.split()
        end = float(number)
        if "=" not in sign:  # the end itself violates the rule
            end = math.nextafter(end, {"<": -math.inf, ">": math.inf}[sign])
        return cls(end, math.inf) if _SIGNS[sign] in "≥>" else cls(-math.inf, end)

    def in_logs(self) -> "Rule":
        """The same of the logarithm of a ratio."""
        return Rule(*(math.log(end) if end > 0 else -math.inf for end in (self.low, self.high)))

    def slack(self, value: float) -> float:
        """How far inside a value lies, negative outside."""
        below = math.inf if self.low == -math.inf else value - self.low
        return min(below, math.inf if self.high == math.inf else self.high - value)

    def moved(self, part: float, measure: Measure) -> "Rule":
        """The same a part stricter, or laxer where it is negative: a threshold is moved by a part
        of itself, or of its distance from the most that the quantity can be; the ends of a band by
        a part of half its width, of ratios on a log scale. A threshold of 0 stays as it is."""
        low, high = self.low, self.high
        if math.isinf(high):
            return Rule(low + part * abs(low - (measure.most or 0)), high)
        if math.isinf(low):
            return Rule(low, high - part * abs(high))
        if measure.ratio:
            step = (high / low) ** (part / 2)
            return Rule(low * step, high / step)
        step = part * (high - low) / 2
        return Rule(low + step, high - step)

    def verdict(self, low: float, high: float) -> str:
        """Of an interval."""
        if min(self.slack(low), self.slack(high)) >= 0:
            return "holds"
        return "does not hold" if high < self.low or low > self.high else "undecided"


@dataclass(frozen=True)
class Finding:
    """What some runs say of a claim."""

    verdict: str = "not run"  # one of `VERDICTS`
    value: float = math.nan  # the quantity; of several comparisons the one that decides
    low: float = math.nan  # its interval at `level`; none with a single seed
    high: float = math.nan
    n: int = 0  # seeds, the fewest of what is compared
    level: float = LEVEL  # higher where one of several comparisons speaks against the claim
    firmness: str = ""  # of a verdict "firm", see the module, or what it hangs on
    part: bool = False  # whether some of the runs read a part of a corpus, or a stand-in
    keys: tuple[str, ...] = ()  # of the runs
    # the smallest α at which the verdict stands; of an undecided one the likelier's
    p: float = math.nan

    @classmethod
    def of(cls, *terms: Term, ratio: bool = False, level: float = LEVEL) -> "Finding":
        """A sum of means and its interval, without a verdict; ``ratio``: the samples are of
        logarithms. Empty where a sample is missing."""
        there = [(sign, sample) for sign, sample in terms if sample is not None]
        if len(there) < len(terms):
            return cls()
        finding = cls("", *estimate(there, level), min(sample.n for _, sample in there), level)
        return finding.of_ratio() if ratio else finding

    def of_ratio(self) -> "Finding":
        """The same of a ratio whose logarithm this is; past 690 it is as good as infinite."""
        ends = (self.value, self.low, self.high)
        value, low, high = (math.inf if end > 690 else math.exp(end) for end in ends)
        return replace(self, value=value, low=low, high=high)

    @property
    def measured(self) -> str:
        """The quantity with its interval, as a table has it."""
        if not self.n:
            return ""
        if not self.low < self.high:
            return number_text(self.value)
        level = f"{100 * self.level:.3g} % interval: " if self.level > LEVEL else ""
        interval = f"{level}{number_text(self.low)} to {number_text(self.high)}"
        return f"{number_text(self.value)} ({interval})"

    @property
    def spoken(self) -> str:
        """The same as a sentence has it, see `noted`."""
        return self.noted()

    def noted(self, *more: str) -> str:
        """The quantity in two digits, and in brackets what a page shows as the note of that number:
        its interval, how many seeds it rests on, and ``more``."""
        if not self.n:
            return ""
        note = [f"n = {self.n}", *more]
        if self.low < self.high:
            ends = f"{spoken_number(self.low)} to {spoken_number(self.high)}"
            note.insert(0, f"{100 * self.level:.3g} % interval {ends}")
        return f"{spoken_number(self.value)} ({', '.join(note)})"

    def as_data(self) -> Facts:
        """As JSON has it."""
        ends = (self.value, self.low, self.high)
        value, *interval = (end if math.isfinite(end) else None for end in ends)
        data: Facts = {"verdict": self.verdict, "value": value}
        data |= {"interval": None if None in interval else interval, "n": self.n}
        data |= {"level": self.level} if self.level > LEVEL else {}
        data |= {"p": self.p} if math.isfinite(self.p) else {}
        if self.firmness:
            data["firm"] = self.firmness == "firm"
            data |= {} if data["firm"] else {"hangs_on": self.firmness.split(" and ")}
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
    of: Selection = field(default_factory=dict)
    against: Selection | None = None
    versus: Selection | None = None
    scales: tuple[str, ...] = tuple(SCALES)
    untested: Sequence[str] = ()
    compact: Selection = field(default_factory=dict)
    published: float | None = None
    contradiction: str = ""
    remark: str = ""
    needs: str = ""
    again: str = ""
    # by scale, those that decide it; without them every seed does, once there are `SEEDS_NEEDED`
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def shown_at(self) -> str:
        """Its evidence, as a link between pages: on the page of its chapter, or of another that it
        names."""
        page, _, name = self.evidence.rpartition("#")
        return f"{page or self.chapter}.html#{name}"

    @classmethod
    def read(cls, entry: Facts) -> "Claim":
        """From an entry of the file; an error says what is wrong with it."""
        check_known("measure", entry["measure"], MEASURES)
        written = datetime.fromisoformat(entry["registered"])
        check(written.tzinfo, f"registered needs an offset, such as {written}+00:00")
        registered = written.astimezone(UTC)
        scales, seeds = tuple(entry.get("scales", SCALES)), entry.get("seeds", {})
        by_scale: Facts = seeds if isinstance(seeds, dict) else dict.fromkeys(scales, seeds)
        for scale in by_scale:
            check_known("scale", scale, scales)
        if n := entry.get("n", 0):
            advice = f"name at least as many seeds, such as seeds: {[*range(30, 30 + n)]}"
            enough = min(map(len, by_scale.values()), default=0) >= n
            check(enough, f"it names n: {n}; {advice}")
        deciding = {scale: tuple(each[: n or None]) for scale, each in by_scale.items()}
        entry = {name: value for name, value in entry.items() if name != "n"}
        claim = cls(**entry | {"registered": registered, "scales": scales, "seeds": deciding})
        for scale in claim.scales:
            Rule.parse(claim.at(scale).rule)
            claim.at(scale).comparisons(scale)
        return claim

    def at(self, scale: str) -> "Claim":
        """As it is read at a scale: the compact replication may need other texts, or another
        threshold."""
        changed = self.compact if scale == "compact" else {}
        of = {**self.of, **changed.get("of", {})}
        return replace(self, of=of, rule=changed.get("rule", self.rule))

    def comparisons(self, scale: str) -> list[list[tuple[int, Selection]]]:
        """What each comparison adds (1) and subtracts (-1); each combination of several values has
        one."""
        fixed = MEASURES[self.measure].fixed.get(scale, {})
        return compared({**fixed, **self.of}, self.against, self.versus)

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
        names = {**_SIGNS, "to": "to"}
        words = [names.get(word) or number_text(float(word)) for word in self.rule.split()]
        return "from " * ("to" in words) + " ".join(words)

    @property
    def ruled(self) -> str:
        """The quantity and its rule, and what the compact replication changes of them."""
        text = f"{self.unit} {self.rule_text}"
        if "compact" not in self.scales or not self.compact:
            return text
        changed = [self.at("compact").rule_text] if "rule" in self.compact else []
        for name, value in self.compact.get("of", {}).items():
            values = value if isinstance(value, list) else [value]
            changed.append(f"{name} {', '.join(f'{each:,}' for each in values)}")
        return f"{text}. Compact: {', '.join(changed)}, since {self.compact['why']}"


@dataclass(frozen=True)
class Decision:
    """A claim and what is said of it: by our runs at both scales, by pilots, and by the thesis
    itself."""

    claim: Claim
    at: Mapping[str, Finding]  # by scale; without those that do not decide the claim
    # the same by runs older than the rule
    pilots: Mapping[str, Finding] = field(default_factory=dict)
    thesis: Finding | None = None  # by the thesis's own numbers, none where it published none
    # of all seeds, where later ones were run
    later: Mapping[str, Finding] = field(default_factory=dict)

    def verdict(self, scale: str) -> str:
        """At a scale, or nothing where it does not decide the claim."""
        return self.at[scale].verdict if scale in self.at else ""

    @property
    def scale(self) -> str:
        """The scale that a sentence quotes: compact where only that is decided, or run at all."""
        run = [scale for scale in self.at if self.at[scale].n]
        open_yet = (*SO_FAR.values(), OTHER_ENCODER)
        decided = [scale for scale in run if self.at[scale].verdict not in open_yet]
        return (decided or run or ["thesis"])[0]

    @property
    def best(self) -> Finding:
        """What the runs at this scale say."""
        return self.at.get(self.scale, Finding())

    def spoken(self, scale: str) -> str:
        """What runs at a scale measured, as a sentence has it, with their verdict and what it hangs
        on in the note; of pilots, and it says so, where there is no younger run."""
        finding, pilots = (by.get(scale, Finding()) for by in (self.at, self.pilots))
        hangs_on = finding.firmness.removeprefix("firm")
        verdict = finding.verdict + f", which hangs on {hangs_on}" * bool(hangs_on)
        about = [SCALE_NAMES[scale], f"claim {self.claim.id}: {verdict}"]
        if pilots.n and not finding.n:
            finding, about = pilots, [SCALE_NAMES[scale], "pilots"]
        return finding.noted(*about) or "not run"

    @property
    def in_short(self) -> str:
        """Their verdict, which names another scale than the thesis's."""
        return self.best.verdict + f" ({self.scale})" * (self.scale != "thesis")

    @property
    def as_verb(self) -> str:
        """The same as the verb of a sentence whose subject is the claim; its note has what was
        measured."""
        verbs = {"undecided": "is undecided", "not run": "has not been tested yet"}
        verbs |= {OTHER_ENCODER: "is not tested, since another encoder was run"}
        verbs |= {early: f"{verdict} so far" for verdict, early in SO_FAR.items()}
        note = self.spoken(self.scale).partition(" (")[2]
        return verbs.get(self.best.verdict, self.best.verdict) + f" ({note}" * bool(note)


def claims(file: Path | None = None) -> list[Claim]:
    """All claims of the ledger. Raises `InputError` outside a clone, or for an incomplete entry,
    named."""
    return entries_of(file or paper_file("claims.yml"), Claim.read)


def entries_of(file: Path, make: Callable[[Facts], Any]) -> list[Any]:
    """What ``make`` gives of each entry of a YAML file; a fault is named by the entry's id."""
    entries: Facts = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built
    for entry in loader(file.read_text("utf-8")).get_single_data() or ():
        try:
            check(entry["id"] not in entries, "its id occurs twice; rename one")
            entries[entry["id"]] = make(entry)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"{file}: correct the entry {entry!r:.60}: {error}") from None
    return [*entries.values()]


def compared(
    first: Selection,
    against: Selection | None = None,
    versus: Selection | None = None,
) -> list[list[tuple[int, Selection]]]:
    """A selection, minus the same with other values, and that once more with others: for each
    combination of several values what is added (1) and subtracted (-1)."""
    comparisons = []
    for selection, rival, change in product(*map(_each, (first, against or {}, versus or {}))):
        terms = [(1, selection)]
        if against is not None:
            if selection == selection | rival:  # it would be compared with itself
                continue
            terms.append((-1, selection | rival))
        if versus is not None:
            terms += [(-sign, each | change) for sign, each in terms]
        comparisons.append(terms)
    return comparisons


def _each(selection: Selection) -> list[Selection]:
    """A selection for each combination of several values; ``best_of`` stays as it is."""
    lists = [
        value if isinstance(value, list | tuple) and name != "best_of" else [value]
        for name, value in selection.items()
    ]
    return [dict(zip(selection, values, strict=True)) for values in product(*lists)]


def sample_of(table: Numbers, positions: Iterable[int], measure: Measure) -> Sample | None:
    """Of some numbers of a measure, those on the same data as the first, the last of each seed; of
    ratios the logarithms."""
    last = _last_of_each_seed(table, positions)
    if measure.exact:
        last = dict(islice(last.items(), 1))
    if not last:
        return None
    value, key, complete = map(table.column, ("value", "key", "corpus_complete"))
    values = np.array([value[row] for row in last.values()], float)
    if measure.ratio:
        values = np.log(np.maximum(values, np.finfo(float).tiny))
    by_seed = dict(zip(last, values.tolist(), strict=True))
    if measure.drawn:
        return Sample.of(by_seed)
    keys = tuple(key[row] for row in last.values())
    return Sample.of(by_seed, keys, all(complete[row] is True for row in last.values()))


def _last_of_each_seed(table: Numbers, positions: Iterable[int]) -> dict[int, int]:
    """Where the last number of each seed is, in their order, of runs on the same data as the first,
    which is a published one where any is."""
    rows = [*positions]
    for data in map(table.column, ("data_corpus", "data_filler", "data_vectors")):
        rows = [row for row in rows if data[row] == data[rows[0]]]
    seed, last = table.column("seed"), dict[int, int]()
    for row in rows:
        last.pop(seed[row], None)
        last[seed[row]] = row
    return last


def _sample(
    table: Numbers, selection: Selection, measure: Measure, admits: Callable[[int], bool]
) -> Sample | None:
    """Of the admitted runs of a selection; of several ways those that validate best, where all were
    tried."""
    plain = {name: value for name, value in selection.items() if name != "best_of"}
    ways = ({**plain, **way} for way in selection.get("best_of", [{}]))
    tried = [[*filter(admits, table.positions(way))] for way in ways]
    if not all(tried):
        return None

    def validated(rows: list[int]) -> Any:
        accuracy = table.column("validation_accuracy")
        values = [accuracy[row] for row in _last_of_each_seed(table, rows).values()]
        return np.nanmean(np.array(values, float))

    best = tried[0] if len(tried) == 1 else max(tried, key=validated)
    return sample_of(table, best, measure)


def paired(terms: Terms) -> Terms:
    """A sum of means as the mean of the sums of each seed that all terms have; the terms as they
    are where one is missing."""
    there = [(sign, sample) for sign, sample in terms if sample]
    seeds = set.intersection(*({*sample.values} for _, sample in there)) if there else set()
    if not seeds or len(there) < len(terms):
        return terms
    sums = {
        seed: sum(sign * sample.values[seed] for sign, sample in there) for seed in sorted(seeds)
    }
    keys = dict.fromkeys(key for _, sample in there for key in sample.keys)
    return [(1, Sample.of(sums, tuple(keys), all(sample.whole for _, sample in there)))]


def judge(claim: Claim, terms: Sequence[Terms], enough: int = SEEDS_NEEDED) -> Finding:
    """The verdict on a claim from every comparison that it asks for; ``enough`` seeds make one."""
    samples = [sample for each in terms for _, sample in each if sample]
    if not samples or len(samples) < sum(map(len, terms)):
        return Finding()
    rule, measure = Rule.parse(claim.rule), MEASURES[claim.measure]
    finding = _decided(rule, terms, measure, enough)
    if finding.verdict in DECIDED:
        moved = [rule.moved(part, measure) for part in (LENIENCE, -LENIENCE)]
        changed = {"the threshold": [_decided(each, terms, measure, enough) for each in moved]}
        changed["one seed"] = [
            _decided(rule, _without(seed, terms), measure, enough - 1)
            for seed in {seed for sample in samples if sample.n > 1 for seed in sample.values}
        ]
        hangs = [
            name
            for name, findings in changed.items()
            if any(each.verdict != finding.verdict for each in findings)
        ]
        finding = replace(finding, firmness=" and ".join(hangs) or "firm")
    if finding.verdict in (*DECIDED, "undecided") and not measure.exact:
        finding = replace(finding, p=_smallest_level(rule, terms, measure, finding.verdict))
    finding = finding.of_ratio() if measure.ratio else finding
    if measure.most is not None and all(len(each) == 1 for each in terms):  # such as a correlation
        finding = replace(finding, high=min(finding.high, measure.most))
    keys = tuple(dict.fromkeys(key for sample in samples for key in sample.keys))
    return replace(finding, part=not all(sample.whole for sample in samples), keys=keys)


def _without(seed: int, terms: Sequence[Terms]) -> list[Terms]:
    return [[(sign, sample and sample.without(seed)) for sign, sample in each] for each in terms]


def _decided(rule: Rule, terms: Any, measure: Measure, enough: int = SEEDS_NEEDED) -> Finding:
    """What a rule says of all comparisons, of ratios in logarithms, with the one that decides;
    ``enough`` seeds make a verdict."""
    rule = rule.in_logs() if measure.ratio else rule

    def at(level: float) -> list[Finding]:
        findings = []
        for each in terms:
            finding = Finding.of(*each, level=level)
            if measure.exact:
                finding = replace(finding, low=finding.value, high=finding.value)
            few = not measure.exact and (finding.n < enough or math.isnan(finding.low))
            ends = (finding.value, finding.value) if few else (finding.low, finding.high)
            verdict = rule.verdict(*ends)
            findings.append(replace(finding, verdict=SO_FAR[verdict] if few else verdict))
        return findings

    def slack(finding: Finding) -> list[float]:
        """How far inside the ends are, first that which is less so."""
        return sorted((rule.slack(finding.low), rule.slack(finding.high)))

    usual, wide = at(LEVEL), at(1 - (1 - LEVEL) / len(terms))
    if against := [each for each in wide if each.verdict == "does not hold"]:
        return min(against, key=lambda each: slack(each)[1])
    if any(each.verdict in SO_FAR.values() for each in usual):
        worst = min(usual, key=lambda each: rule.slack(each.value))
        verdict = SO_FAR[rule.verdict(worst.value, worst.value)]
        return replace(worst, verdict=verdict, n=min(each.n for each in usual))
    worst, wider = min(zip(usual, wide, strict=True), key=lambda pair: slack(pair[0])[0])
    if worst.verdict == "does not hold":  # at the usual level, not at that of several comparisons
        worst = wider
    return worst if worst.verdict == "holds" else replace(worst, verdict="undecided")


def _smallest_level(rule: Rule, terms: Any, measure: Measure, verdict: str) -> float:
    """The smallest α at which an interval of level 1 - α gives a verdict: of k comparisons the
    largest where all must hold, k times the smallest where any may speak against the claim;
    undecided, the lower one."""
    rule = rule.in_logs() if measure.ratio else rule
    inside, outside = [], []
    for each in terms:
        value = sum(sign * sample.mean for sign, sample in each)
        error, freedom = spread(each)
        slack = rule.slack(value)
        steps = slack / error if error else math.copysign(math.inf, slack)
        inside.append(2 * float(stdtr(freedom, -steps)))
        outside.append(2 * float(stdtr(freedom, steps)))
    # one seed alone has no interval: it can speak neither for a claim nor against it
    known = [p for p in outside if not math.isnan(p)]
    holds = fails = math.nan
    if verdict == "does not hold" or len(known) == len(outside):
        holds, fails = min(1.0, max(inside)), min(1.0, len(terms) * min(known))
    return {"holds": holds, "does not hold": fails}.get(verdict, min(holds, fails))


def by_runs(
    claim: Claim, runs: Runs, scale: str, pilots: bool = False, later: bool = False
) -> Finding:
    """What runs at a scale say of a claim: those of the seeds that decide it which began after its
    rule was registered; with ``later`` those of all seeds; or pilots, which began before."""
    claim, measure = claim.at(scale), MEASURES[claim.measure]
    if measure.drawn and pilots:
        return Finding()
    table = numbers(runs, claim.measure)
    began, complete, seed = map(table.column, ("began", "corpus_complete", "seed"))
    part_will_do = measure.drawn or measure.exact or scale != "thesis"
    deciding = () if pilots or later else claim.seeds.get(scale, ())
    # pilots may have other vectors where there are none with the usual ones
    named = {*claim.of, *(claim.against or ()), *(claim.versus or ())}
    others = (*VECTORS[1:], "random") if pilots and "vectors" not in named else ()

    def admits(row: int) -> bool:
        older = began[row] is not None and began[row] <= claim.registered
        in_time = older == pilots and (not deciding or seed[row] in deciding)
        return in_time and (part_will_do or complete[row] is True)

    def terms_with(changed: Selection) -> list[Terms]:
        return [
            [(sign, _sample(table, each | changed, measure, admits)) for sign, each in comparison]
            for comparison in claim.comparisons(scale)
        ]

    ways = map(terms_with, [{}, *({"vectors": name} for name in others)])
    whole = (terms for terms in ways if all(sample for each in terms for _, sample in each))
    terms = next(whole, [])
    terms = [paired(each) for each in terms] if measure.paired else terms
    finding = judge(claim, terms, len(deciding) or SEEDS_NEEDED)
    if finding.n and scale in claim.untested:
        return replace(finding, verdict=OTHER_ENCODER, firmness="", p=math.nan)
    return finding


def by_the_thesis(claim: Claim) -> Finding | None:
    """What the same rule says of the thesis's own numbers, where it published them."""
    measure, terms = MEASURES[claim.measure], list[Terms]()
    if claim.published is not None:
        number = math.log(claim.published) if measure.ratio else claim.published
        terms = [[(1, Sample(number, math.nan, 1))]]
    elif claim.of_thesis and "thesis" in claim.scales:  # of several ways it has no number
        for each in claim.comparisons("thesis"):
            terms.append([(sign, measure.published(selection)) for sign, selection in each])
    finding = judge(claim, terms)
    return replace(finding, firmness="") if finding.n else None  # of single numbers no seed can go


def decide(claim: Claim, runs: Runs) -> Decision:
    """All that is said of a claim."""
    at = {scale: by_runs(claim, runs, scale) for scale in claim.scales}
    later = {scale: by_runs(claim, runs, scale, later=True) for scale in claim.seeds}
    later = {name: each for name, each in later.items() if {*each.keys} - {*at[name].keys}}
    pilots = {scale: by_runs(claim, runs, scale, pilots=True) for scale in claim.scales}
    return Decision(claim, at, pilots, by_the_thesis(claim), later)


def decisions(runs: Runs, chapter: str | None = None) -> list[Decision]:
    """The verdicts on all claims, or those of one chapter."""
    return [decide(claim, runs) for claim in claims() if chapter in (None, claim.chapter)]
