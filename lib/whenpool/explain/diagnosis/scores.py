"""How well each pooling did, and which differences are more than chance.

Letters: N test texts, S seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np
from scipy.stats import binomtest, t

from whenpool.models.registry import POOLING_NAMES

LEVEL = 0.95
FEW = 30
"""Test texts below which nothing is called surer than chance."""
SEEDS = 3
"""From so many on, the spread of the seeds is known well enough to count beside that of the texts."""


@dataclass(frozen=True)
class Score:
    """How well one pooling did; accuracies in %.

    Attributes:
        accuracies: of the test texts, one for each seed.
        low, high: the 95 % interval of their mean, as far as the choice of test texts goes.
        right: (N,) the share of seeds that got each test text right.
        seconds: of all its trainings, as each took alone.
    """

    pooling: str
    accuracies: tuple[float, ...]
    low: float
    high: float
    right: np.ndarray
    seconds: float

    @property
    def name(self) -> str:
        return POOLING_NAMES[self.pooling]

    @property
    def accuracy(self) -> float:
        return mean(self.accuracies)

    @property
    def deviation(self) -> float | None:
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None


@dataclass(frozen=True)
class Difference:
    """By how many points the best pooling is better than another.

    Attributes:
        interval: that holds for all pairs of poolings at once, at 95 %; None where the test texts are
            too few, or the two are right on the same ones.
    """

    pooling: str
    points: float
    interval: tuple[float, float] | None
    may_be_chance: bool


def interval_of(right: np.ndarray) -> tuple[float, float]:
    """Wilson's 95 % interval of an accuracy, in %, by the choice of test texts."""
    found = binomtest(round(right.sum()), len(right)).proportion_ci(LEVEL, "wilson")
    return 100 * float(found.low), 100 * float(found.high)


def learnt_among(scores: Sequence[Score], majority: float) -> list[Score]:
    """The poolings that are better than the most frequent class, ``majority`` % of the test texts,
    beyond chance: by a one-sided binomial test at 2.5 % for all of them together (Bonferroni's)."""
    least = (1 - LEVEL) / (2 * len(scores))
    return [
        score
        for score in scores
        if (size := len(score.right)) >= FEW
        and binomtest(round(score.right.sum()), size, majority / 100, "greater").pvalue < least
    ]


def differences(scores: Sequence[Score]) -> list[Difference]:
    """Of the first, the best pooling, from each other one; since any of them may have come out best,
    each is held against a share of the 5 % for all pairs (Bonferroni's)."""
    best, *others = scores
    least = (1 - LEVEL) / max(1, math.comb(len(scores), 2))
    return [_difference(best, other, least) for other in others]


def _difference(best: Score, other: Score, least: float) -> Difference:
    points = 100 * (best.right - other.right).astype(float)  # (N,), text by text
    size, gap = len(points), float(points.mean())
    if size < FEW or not points.any():
        return Difference(other.pooling, gap, None, True)
    error = float(points.std(ddof=1)) / math.sqrt(size)
    seeds = (len(best.accuracies), len(other.accuracies))
    if min(seeds) >= SEEDS:  # whichever moves the difference more, the texts or the seeds
        spread = [stdev(score.accuracies) for score in (best, other)]
        error = max(error, math.hypot(*(s / math.sqrt(n) for s, n in zip(spread, seeds, strict=True))))
    half = float(t.ppf(1 - least / 2, size - 1)) * error
    if seeds == (1, 1):  # on the texts that one of them alone gets right, exactly
        won, lost = int((points > 0).sum()), int((points < 0).sum())
        chance = binomtest(won, won + lost).pvalue >= least
    else:
        chance = gap <= half
    return Difference(other.pooling, gap, (gap - half, gap + half), bool(chance))
