"""What the findings come to, in sentences: the recommendation, and how sure it is."""

import math
from dataclasses import dataclass

from whenpool.base.errors import InputError
from whenpool.book.report.advice import Advice, advice_for, support
from whenpool.book.report.tables import join_names
from whenpool.explain.diagnosis.findings import FEW, SEEDS, Findings, Score


@dataclass(frozen=True)
class Verdict:
    """A recommendation."""

    pooling: str  # the name of the pooling to take, or "" where none can be recommended
    title: str  # one line
    sentences: tuple[str, ...]  # why, and how sure


def verdict_on(found: Findings) -> Verdict:
    """The recommendation: a baseline, where no pooling is better beyond chance, else a pooling."""
    verdict, simple, best = _of_poolings(found), found.simple, found.scores[0]
    if simple is None or found.test < FEW:
        return verdict
    gap = simple.accuracy - best.accuracy
    than = "more than" if gap > 0.05 else "as many as" if gap > -0.05 else "not clearly fewer than"
    first = (
        f"It is right on {simple.accuracy:.1f} % of {found.test:,} test texts, {than} {best.name}, the "
        f"best pooling ({best.accuracy:.1f} %), and it is faster and simpler."
    )
    then = f"If you still want a pooling: {verdict.title}."
    return Verdict(verdict.pooling, f"Use {simple.name}", (first, then, *verdict.sentences))


def _of_poolings(found: Findings) -> Verdict:
    """Of the poolings that have learnt, and may be the best as far as chance goes, the one that does best
    on the texts as they are and under added filler taken together, each counting half."""
    best, size, tied = found.scores[0], f"{found.test:,} test texts", found.tied
    if found.test < FEW:
        advice = f"give {5 * FEW + 10} texts or more, since a fifth is for the test"
        said = f"{size} cannot tell poolings apart; {advice}."
        return Verdict("", "Too few texts to recommend a pooling", (said,))
    if not tied:
        sentences = [
            f"The best, {best.name}, is right on {best.accuracy:.1f} % of {size}, which is not clearly "
            f"more than always answering with the most frequent class ({found.majority:.1f} %).",
            f"{found.train:,} training texts may be too few; give more, add word vectors (--vectors), or "
            "train longer (--epochs).",
        ]
        return Verdict("", "No pooling learnt enough to be recommended", tuple(sentences))
    left = [score.name for score in found.near if score not in tied]
    chosen, doubt = best, ""
    if len(tied) == 1:
        sentences = [_alone(found, best, size)]
    else:
        chosen, why = _chosen(found, tied)
        names = join_names([score.name for score in tied])
        right = f"is right on {best.accuracy:.1f} % of them, and its lead may be chance"
        if all(math.isclose(score.accuracy, best.accuracy) for score in tied):
            right = f"and the others are right on {best.accuracy:.1f} % of them"
        sentences = [f"{names} cannot be told apart by {size}: {best.name} {right}.", *why]
        any_may = f"any {'that has learnt ' if left else ''}may do"
        doubt = f", though {any_may if len(tied) == len(found.learnt) else 'others may do as well'}"
    if left:
        near = f"The most frequent class is not clearly worse than {join_names(left)}"
        sentences.append(f"{near}, whose distance from {best.name} may be chance.")
    worse = [score.name for score in found.scores if score not in found.near]
    if worse and len(found.near) > 1:
        sentences.append(f"Chance does not explain why {best.name} beats {join_names(worse)}.")
    if len(tied) == 1:
        sentences += _robust(found)
    seeds = min(len(score.accuracies) for score in found.scores)
    if seeds < SEEDS and len(found.scores) > 1:
        made = f"{'One training' if seeds == 1 else 'Two trainings'} of each pooling"
        sentences.append(f"{made} cannot show the effect of chance in training; --seeds 3 can.")
    return Verdict(chosen.pooling, f"Take {chosen.name} ({chosen.pooling}){doubt}", tuple(sentences))


def _alone(found: Findings, best: Score, size: str) -> str:
    """Why the best pooling is better than the others."""
    right = f"It is right on {best.accuracy:.1f} % of {size}"
    far = [difference for difference in found.differences if not difference.may_be_chance]
    if len(found.scores) == 1:
        return f"{right}; no other pooling was trained."
    if not far:
        return f"{right}, and it alone clearly beats the most frequent class ({found.majority:.1f} %)."
    least = min(far, key=lambda difference: difference.points)
    low, high = least.interval or (math.nan, math.nan)
    others = "each of the others" if len(far) == len(found.scores) - 1 else "others"
    return (
        f"{right}, and more accurate than {others} beyond what chance explains: the nearest of these is "
        f"{least.points:.1f} points behind (95 % interval {low:.1f} to {high:.1f})."
    )


def _chosen(found: Findings, tied: list[Score]) -> tuple[Score, list[str]]:
    """One of the poolings that are tied, and the sentence that says why it."""
    kept = {s.pooling: value for s in tied if (value := found.kept(s.pooling)) is not None}
    if not kept:
        return tied[0], []
    if missing := join_names([score.name for score in tied if score.pooling not in kept]):
        return tied[0], [f"Filler does not decide, since {missing} could not be tested with it."]
    chosen = max(tied, key=lambda score: score.accuracy + kept[score.pooling])
    return chosen, [
        f"Among those, {chosen.name} does best on the texts as they are ({chosen.accuracy:.1f} %) and with "
        f"{_filler(found)} around them ({kept[chosen.pooling]:.1f} % on average) taken together."
    ]


def _robust(found: Findings) -> list[str]:
    """What filler does to the pooling that is best without it, beyond two standard errors."""
    kept = {s.name: value for s in found.learnt if (value := found.kept(s.pooling)) is not None}
    mine = kept.pop(found.scores[0].name, None)
    if mine is None or not kept:
        return []
    name, most = max(kept.items(), key=lambda pair: pair[1])
    error = math.sqrt(sum(part * (100 - part) for part in (mine, most)) / max(1, found.swept))
    if abs(mine - most) <= 2 * error:
        return []
    if mine > most:
        return [f"It is also the best when {_filler(found)} is added ({mine:.1f} % on average)."]
    return [
        f"When {_filler(found)} is added around the texts, {name} is more accurate ({most:.1f} % on average, "
        f"not {mine:.1f} %); prefer it where texts are longer or noisier than these."
    ]


def _filler(found: Findings) -> str:
    return "filler" if found.filler else "filler of invented words"


def advice_on(words: float, texts: int, where: str) -> list[Advice]:
    """What the book advises for such texts; nothing outside its clone, or where it cannot be read."""
    try:
        return [one for one in advice_for(words, texts, where) if support(one) != "untested"]
    except InputError:  # the diagnosis does without it
        return []
