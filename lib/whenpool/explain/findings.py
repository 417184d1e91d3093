"""What a diagnosis comes to: accuracies, differences beyond chance, and the recommendation in sentences.

Letters: N texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

import numpy as np
from scipy.stats import binomtest, t

from whenpool.book.tables import join_names
from whenpool.models.registry import POOLING_NAMES

LEVEL = 0.95
FEW = 30  # Texts below which nothing is called surer than chance
SEEDS = (
    3  # From so many on, the spread of the seeds is known well enough to count beside that of the texts
)
BASELINES = {
    "tfidf": "TF-IDF with logistic regression",
    "vectors": "mean of the word vectors with logistic regression",
}
Probed = dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]
"""What a probe found on the model of each pooling: its numbers, and the rows of its figure."""


@dataclass(frozen=True)
class Score:
    """How well one pooling, or a baseline, did."""

    pooling: str
    accuracies: tuple[float, ...]  # in % of the texts, one for each seed
    right: np.ndarray  # (N,) the share of seeds that got each text right
    seconds: float  # of all its trainings

    @property
    def name(self) -> str:
        return (POOLING_NAMES | BASELINES)[self.pooling]

    @property
    def accuracy(self) -> float:
        return mean(self.accuracies)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy, in %, as far as the choice of texts goes."""
        wilson = binomtest(round(self.right.sum()), len(self.right)).proportion_ci(LEVEL, "wilson")
        return 100 * float(wilson.low), 100 * float(wilson.high)

    @property
    def range(self) -> str:
        return "{:.1f} to {:.1f}".format(*self.interval)


@dataclass(frozen=True)
class Difference:
    """By how many points the best pooling is better than another. The interval holds for all pairs at once,
    at 95 %; there is none where the texts are too few, or both are right on the same ones."""

    pooling: str
    points: float
    interval: tuple[float, float] | None
    may_be_chance: bool


def learnt_among(scores: Sequence[Score], majority: float) -> list[Score]:
    """The poolings that are better than the most frequent class, ``majority`` % of the texts, beyond chance:
    by a one-sided binomial test at 2.5 % for all of them together (Bonferroni's)."""
    level = (1 - LEVEL) / (2 * max(1, len(scores)))

    def chance(score: Score) -> float:
        right, size = round(score.right.sum()), len(score.right)
        return binomtest(right, size, majority / 100, "greater").pvalue if size >= FEW else 1.0

    return [score for score in scores if chance(score) < level]


def difference(best: Score, other: Score, level: float) -> Difference:
    """Of the best from another, tested at a level such as 0.05."""
    points = 100 * (best.right - other.right).astype(float)  # (N,), text by text
    size, gap = len(points), float(points.mean())
    if size < FEW or not points.any():
        return Difference(other.pooling, gap, None, True)
    error = float(points.std(ddof=1)) / math.sqrt(size)
    if min(len(best.accuracies), len(other.accuracies)) >= SEEDS:
        # whichever moves the difference more, the texts or the seeds
        errors = (stdev(score.accuracies) / math.sqrt(len(score.accuracies)) for score in (best, other))
        error = max(error, math.hypot(*errors))
    half = float(t.ppf(1 - level / 2, size - 1)) * error
    chance = gap <= half
    if len(best.accuracies) == len(other.accuracies) == 1:
        # an exact test on the texts that one of them alone gets right
        won, lost = int((points > 0).sum()), int((points < 0).sum())
        chance = binomtest(won, won + lost).pvalue >= level
    return Difference(other.pooling, gap, (gap - half, gap + half), bool(chance))


@dataclass(frozen=True)
class Findings:
    """All that the page shows of the trainings."""

    scores: tuple[Score, ...]  # of the poolings, the most accurate first
    baselines: tuple[Score, ...]  # likewise
    majority: float  # % of the texts in the most frequent class
    texts: int  # N
    filler: str = ""  # what was added in the sweeps; "" for invented sentences
    sweeps: Probed = field(default_factory=dict)
    gradients: Probed = field(default_factory=dict)
    importance: Probed = field(default_factory=dict)  # of no pooling where most texts are too short

    @property
    def differences(self) -> list[Difference]:
        """Of the best pooling from each other one, tested for all pairs at once (Bonferroni's)."""
        best, *others = self.scores
        level = (1 - LEVEL) / max(1, math.comb(len(self.scores), 2))
        return [difference(best, other, level) for other in others]

    @property
    def learnt(self) -> list[Score]:
        """The poolings that are better than the most frequent class beyond chance."""
        return learnt_among(self.scores, self.majority)

    @property
    def near(self) -> list[Score]:
        """The best pooling, and those that it may be better than by chance alone."""
        close = {gap.pooling for gap in self.differences if gap.may_be_chance}
        return [score for score in self.scores if score is self.scores[0] or score.pooling in close]

    @property
    def tied(self) -> list[Score]:
        """Those near the best that have learnt: one of them is recommended."""
        learnt = {score.pooling for score in self.learnt}
        return [score for score in self.near if score.pooling in learnt]

    @property
    def simple(self) -> Score | None:
        """The best baseline, if it has learnt and no pooling is more accurate beyond chance."""
        learnt = learnt_among(self.baselines, self.majority)
        if not learnt:
            return None
        gap = difference(self.scores[0], learnt[0], (1 - LEVEL) / len(self.baselines))
        return learnt[0] if gap.may_be_chance or gap.points <= 0 else None

    @property
    def judges(self) -> list[Score]:
        """Those that say where the evidence is: not the last state, which reads the ends of a text."""
        return [score for score in self.learnt if score.pooling in self.importance.keys() - {"last"}]

    @property
    def where(self) -> str:
        """The place of the evidence, as `whenpool.book.advice` names it."""
        return evidence_place([self.importance[score.pooling][0] for score in self.judges])

    @property
    def filler_name(self) -> str:
        return "filler" if self.filler else "filler of invented words"

    def under_filler(self, pooling: str) -> float | None:
        """Mean accuracy over all places and shares of added filler, in %."""
        rows = self.sweeps[pooling][1] if pooling in self.sweeps else []
        accuracies = [row["accuracy"] for row in rows if row["share_added"] > 0]
        return mean(accuracies) if accuracies else None


def evidence_place(thirds: Sequence[dict[str, float]]) -> str:
    """The place of the evidence, if all models agree on the third of the texts that matters more than 1.25
    times as much as the next, or that none matters so much. ``thirds`` has their importance by model."""
    names = {"left": "start", "middle": "middle", "right": "end"}
    places = set()
    for result in thirds:
        (least, _), (second, _), (most, place) = sorted((result[name], name) for name in names)
        alike = "everywhere" if most <= 1.25 * least else "unknown"
        places.add(names[place] if most > 1.25 * second else alike)
    return places.pop() if len(places) == 1 else "unknown"


def evidence_sentence(where: str, judges: Sequence[str], cut: bool) -> str:
    """What the page says of `evidence_place`, to models called ``judges``, in texts that may be ``cut``."""
    texts = "the words that are read" if cut else "the texts"
    if not judges:
        return "No model with a pooling has learnt, so nothing shows where the deciding words are."
    if where == "unknown":
        none = f"finds no part of {texts} to matter"
        if len(judges) > 1:
            none = f"do not agree on the part of {texts} that matters"
        return f"{join_names(judges)} {none} most."
    if where == "everywhere":
        return f"To {join_names(judges)}, which learnt, all parts of {texts} matter about equally."
    place = f"{'in' if where == 'middle' else 'at'} the {where} of {texts}"
    return f"To {join_names(judges)}, which learnt, words {place} matter most."


# The recommendation


@dataclass(frozen=True)
class Verdict:
    """A recommendation."""

    pooling: str  # the name of the pooling to take, or "" where none can be recommended
    title: str  # one line
    sentences: tuple[str, ...]  # why, and how sure


def verdict_on(findings: Findings) -> Verdict:
    """The recommendation: a baseline, where no pooling is better beyond chance, else a pooling."""
    verdict, simple, best = _of_poolings(findings), findings.simple, findings.scores[0]
    if simple is None or findings.texts < FEW:
        return verdict
    gap = simple.accuracy - best.accuracy
    than = "more than" if gap > 0.05 else "as many as" if gap > -0.05 else "not clearly fewer than"
    first = (
        f"It is right on {simple.accuracy:.1f} % of {findings.texts:,} texts, {than} {best.name}, the best "
        f"pooling ({best.accuracy:.1f} %), and it is faster and simpler."
    )
    then = f"If you still want a pooling: {verdict.title}."
    return Verdict(verdict.pooling, f"Use {simple.name}", (first, then, *verdict.sentences))


def _of_poolings(findings: Findings) -> Verdict:
    """Of the poolings that have learnt, and may be the best as far as chance goes, the one that does best
    on the texts as they are and under added filler taken together, each counting half."""
    best, size, tied = findings.scores[0], f"{findings.texts:,} texts", findings.tied
    if findings.texts < FEW:
        sentence = f"{size} cannot tell poolings apart; give {FEW} texts or more."
        return Verdict("", "Too few texts to recommend a pooling", (sentence,))
    if not tied:
        reasons = (
            f"The best, {best.name}, is right on {best.accuracy:.1f} % of {size}, which is not clearly "
            f"more than always answering with the most frequent class ({findings.majority:.1f} %).",
            f"{findings.texts:,} texts may be too few; give more, add word vectors (--vectors), or train "
            "longer (--epochs).",
        )
        return Verdict("", "No pooling learnt enough to be recommended", reasons)
    chosen, doubt, left = best, "", [score.name for score in findings.near if score not in tied]
    if len(tied) == 1:
        sentences = [_alone(findings, size), *_robust(findings)]
    else:
        chosen, why = _chosen(findings, tied)
        lead = f"{best.name} is right on {best.accuracy:.1f} % of them, and its lead may be chance"
        names = join_names([score.name for score in tied])
        sentences = [f"{names} cannot be told apart by {size}: {lead}.", *why]
        any_may = f"any {'that has learnt ' if left else ''}may do"
        doubt = f", though {any_may if len(tied) == len(findings.learnt) else 'others may do as well'}"
    if left:
        near = f"The most frequent class is not clearly worse than {join_names(left)}"
        sentences.append(f"{near}, whose distance from {best.name} may be chance.")
    worse = [score.name for score in findings.scores if score not in findings.near]
    if worse and len(findings.near) > 1:
        sentences.append(f"Chance does not explain why {best.name} beats {join_names(worse)}.")
    if len(best.accuracies) < SEEDS and len(findings.scores) > 1:
        sentences.append("The effect of chance in training is not measured; --seeds 3 does it.")
    return Verdict(chosen.pooling, f"Take {chosen.name} ({chosen.pooling}){doubt}", tuple(sentences))


def _alone(findings: Findings, size: str) -> str:
    """Why the best pooling is better than the others."""
    right = f"It is right on {findings.scores[0].accuracy:.1f} % of {size}"
    far = [gap for gap in findings.differences if not gap.may_be_chance]
    if len(findings.scores) == 1:
        return f"{right}; no other pooling was trained."
    if not far:
        return (
            f"{right}, and it alone clearly beats the most frequent class ({findings.majority:.1f} %)."
        )
    least = min(far, key=lambda gap: gap.points)
    others = "each of the others" if len(far) == len(findings.scores) - 1 else "others"
    low, high = least.interval or (math.nan, math.nan)
    return (
        f"{right}, and more accurate than {others} beyond what chance explains: the nearest of these is "
        f"{least.points:.1f} points behind (95 % interval {low:.1f} to {high:.1f})."
    )


def _chosen(findings: Findings, tied: list[Score]) -> tuple[Score, list[str]]:
    """One of the poolings that are tied, and the sentence that says why it."""
    kept = {score.pooling: findings.under_filler(score.pooling) or 0.0 for score in tied}
    if not findings.sweeps:
        return tied[0], []
    chosen = max(tied, key=lambda score: score.accuracy + kept[score.pooling])
    return chosen, [
        f"Among those, {chosen.name} does best on the texts as they are ({chosen.accuracy:.1f} %) and with "
        f"{findings.filler_name} around them ({kept[chosen.pooling]:.1f} % on average) taken together."
    ]


def _robust(findings: Findings) -> list[str]:
    """What filler does to the pooling that is best without it, beyond two standard errors."""
    scores = (score for score in findings.learnt if score.pooling in findings.sweeps)
    kept = {score.name: findings.under_filler(score.pooling) or 0.0 for score in scores}
    mine = kept.pop(findings.scores[0].name, None)
    if mine is None or not kept:
        return []
    name, most = max(kept.items(), key=lambda pair: pair[1])
    texts = max(numbers["texts_probed"] for numbers, _ in findings.sweeps.values())
    error = math.sqrt(sum(part * (100 - part) for part in (mine, most)) / texts)
    if abs(mine - most) <= 2 * error:
        return []
    if mine > most:
        return [f"It is also the best when {findings.filler_name} is added ({mine:.1f} % on average)."]
    return [
        f"When {findings.filler_name} is added around the texts, {name} is more accurate ({most:.1f} % on "
        f"average, not {mine:.1f} %); prefer it where texts are longer or noisier than these."
    ]
