"""How well each pooling, and each simple classifier, did on labelled texts, and what it comes to.

Letters: N texts, E numbers of a word's vector.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from whenpool.corpora.tokens import WordVectors
from whenpool.explain.estimator import PoolingClassifier
from whenpool.probes.position import mean_interval, regression, tuned

LEVEL = 0.95
PLACES = {"left": "text at the start", "mid": "text in the middle", "right": "text at the end"}
UNEVEN = 0.8  # From this share of the largest class on, macro F1 is compared instead of accuracy


@dataclass(frozen=True, eq=False)
class Task:
    """Labelled texts, and how they are tested."""

    raw: np.ndarray  # (N,), the texts as they are written
    texts: np.ndarray  # (N,), their words with spaces between them
    labels: np.ndarray  # (N,)
    folds: Sequence[tuple[np.ndarray, np.ndarray]]  # texts to learn from, and to test
    filler: list[str]  # sentences
    classifier: PoolingClassifier  # our own model, with MaxAtt
    workers: int
    say: Callable[[str], None]
    notes: list[str] = field(default_factory=list)  # what of the texts was cut or left out

    def announce(self, *notes: str) -> None:
        """Note and say what was cut or left out, without letters that cannot be printed, which a
        label may hold."""
        self.notes.extend(notes)
        for note in notes:
            self.say("".join(letter for letter in note if letter.isprintable()))


@dataclass(frozen=True, eq=False)
class Score:
    """How well one pooling, or a baseline, did."""

    pooling: str  # its name as an option; "" of a baseline
    name: str
    predicted: np.ndarray  # (N,), the classes that it named
    labels: np.ndarray  # (N,), those of the texts
    filled: float = 0.0  # mean accuracy over all places and shares of added filler, in %

    @property
    def accuracy(self) -> float:
        return 100 * float((self.predicted == self.labels).mean())

    @cached_property
    def credit(self) -> np.ndarray:
        """(N,) what each text adds to what is compared, accuracy or macro F1."""
        if weights_for(self.labels):
            return f1_parts(self.labels, self.predicted)
        return (self.predicted == self.labels).astype(float)

    @property
    def value(self) -> float:
        """What is compared, in %."""
        return 100 * float(self.credit.mean())


def weights_for(labels: np.ndarray) -> str | None:
    """The ``class_weight`` of every training: "balanced" where the largest class has so many of the
    texts that accuracy says little about the others, and macro F1 is compared."""
    largest = pd.Series(labels).value_counts(normalize=True).max()
    return "balanced" if largest > UNEVEN else None


def f1_parts(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """What each text adds to macro F1, (N,): the mean is macro F1, and the spread says how far the
    choice of the texts moves it, to first order (the delta method)."""
    is_class, said = (each[:, None] == np.unique(labels) for each in (labels, predicted))  # (N, C)
    either, hit = is_class + 1.0 * said, 2 * is_class * said
    f1 = hit.mean(0) / either.mean(0)  # (C,)
    return (f1 + (hit - f1 * either) / either.mean(0)).mean(1)


def majority_of(labels: np.ndarray) -> list[Score]:
    """The score of each class that no other outnumbers, when it is always named."""
    return [
        Score("", "most frequent class", np.full_like(labels, name), labels)
        for name in pd.Series(labels).mode()
    ]


def baselines(
    texts: np.ndarray, labels: np.ndarray, folds: Any, vectors: WordVectors | None
) -> list[Score]:
    """Where a simple classifier does as well, no network is needed."""
    weight = weights_for(labels)
    ways: dict[str, Any] = {"TF-IDF": (bag_of_words(weight), texts)}
    if vectors:
        row_of, none = {word: row for row, word in enumerate(vectors.words)}, np.zeros(vectors.size)
        rows = [[row_of[word] for word in text.split() if word in row_of] for text in texts]
        # N of E numbers
        means = [vectors.matrix[row].numpy().mean(0) if row else none for row in rows]
        ways["mean of vectors"] = (regression(weight), np.stack(means))
    return [
        Score(
            "",
            f"{name} with logistic regression",
            cross_val_predict(model, data, labels, cv=folds),
            labels,
        )
        for name, (model, data) in ways.items()
    ]


def bag_of_words(class_weight: str | None = None) -> Any:
    """A logistic regression on the words and pairs of words of texts, with spaces between them
    (TF-IDF with 1 + log of a count), that is still to be fitted."""
    tf_idf = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)  # noqa: S106
    strengths = [0.01, 0.1, 1.0, 10.0, 100.0]
    return make_pipeline(tf_idf, tuned("passthrough", strengths, class_weight))


def ranked(scores: Iterable[Score]) -> list[Score]:
    """The best first, by accuracy or macro F1."""
    return sorted(scores, key=lambda score: -score.value)


def difference(best: Score, other: Score, tests: int = 1) -> tuple[float, float, float]:
    """By how many points one score is better than another, and the ends of its interval: Student's,
    text by text; several ``tests`` hold at 95 % together (Bonferroni's)."""
    return mean_interval(100 * (best.credit - other.credit), 1 - (1 - LEVEL) / tests)


def differences(scores: Sequence[Score]) -> dict[str, tuple[float, float, float]]:
    """Of the best from each other one, by pooling, for all pairs at once."""
    best, *rest = ranked(scores)
    return {other.pooling: difference(best, other, math.comb(len(scores), 2)) for other in rest}


def verdict_on(
    scores: Sequence[Score],
    simple: Sequence[Score],
    majority: Sequence[Score],
    more: str,
) -> tuple[str, str, list[str]]:
    """The pooling to take, or "", a title, and sentences that say why. A baseline is recommended
    where no pooling is better beyond chance; else of the poolings that beat the most frequent
    class, and may be the best as far as chance goes, the one that does best on the texts as they
    are and under added filler taken together, each counting half. Macro F1 takes the place of
    accuracy where the classes are uneven. ``majority`` has each class that no other outnumbers, and
    ``more`` what may help where nothing was learnt."""

    def learnt(among: Sequence[Score]) -> list[Score]:
        return [
            score
            for score in ranked(among)
            if all(difference(score, chance, len(among))[1] > 0 for chance in majority)
        ]

    best, gaps, uneven = ranked(scores)[0], differences(scores), weights_for(scores[0].labels)
    has, of = ("has a macro F1 of", "on") if uneven else ("is right on", "of")
    sentences = [
        f"{best.name} {has} {best.value:.1f} % {of} {len(best.labels):,} texts, and the most "
        f"frequent class {has} {majority[0].value:.1f} %. Chance in the choice of texts counts, "
        "that in training does not."
    ]
    if uneven:
        sentences.append(
            f"The largest class has {majority[0].accuracy:.1f} % of the texts, so that a model "
            "that always names it is right that often. Therefore models are compared by macro F1, "
            "the mean of the F1 of all classes, and all classes weigh alike in training "
            '(class_weight="balanced").'
        )
    tied = [score for score in learnt(scores) if score is best or gaps[score.pooling][1] <= 0]
    if tied:
        chosen = max(tied, key=lambda score: score.value + score.filled)
        pooling, title = chosen.pooling, f"Take {chosen.name} ({chosen.pooling})"
    else:
        pooling, title = "", "No pooling learnt enough to be recommended"
        sentences.append(more)
    if len(tied) > 1:
        title += ", though others may do as well"
        names = ", ".join(score.name for score in tied)
        sentences.append(
            f"These texts cannot tell {names} apart; of them, {chosen.name} does best on the "
            "texts as they are and among filler taken together."
        )
    for base in learnt(simple)[:1]:
        if difference(best, base, len(simple))[1] <= 0:
            first = f"It {has} {base.value:.1f} %, and is faster and simpler than a pooling."
            then = f"{'If you still want a pooling: ' if pooling else ''}{title}."
            return pooling, f"Use {base.name}", [first, then, *sentences]
    return pooling, title, sentences


def tables_of(
    scores: Sequence[Score], others: Sequence[Score], shown: Score
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Of the poolings, then of the others, the best first, accuracy and F1 as texts, and the F1 of
    each class in %, the largest class first; and how many texts of each class one of them takes for
    which."""
    gaps, rows = differences(scores), []
    by_class = pd.Series(shown.labels, name="class").value_counts().reset_index(name="texts")
    classes = by_class["class"]
    for score in ranked(scores) + ranked(others):
        gap = gaps.get(score.pooling)
        f1 = 100 * f1_score(score.labels, score.predicted, labels=classes, average=None)
        by_class[score.name] = f1
        rows.append(
            {
                "model": score.name,
                "option": score.pooling,
                "accuracy, %": f"{score.accuracy:.1f}",
                "macro F1, %": f"{f1.mean():.1f}",
                "behind the best, points": "{:.1f} ({:.1f} to {:.1f})".format(*gap) if gap else "",
                "among filler, %": f"{score.filled:.1f}" if score.pooling else "",
            }
        )
    counts = confusion_matrix(shown.labels, shown.predicted, labels=classes)
    confusion = pd.DataFrame(counts, columns=[*classes])
    confusion.insert(0, "class", classes, allow_duplicates=True)
    return pd.DataFrame(rows), by_class, confusion
