"""The runs of a diagnosis, and what they show: accuracies, differences beyond chance, and in which part of
the texts the words stand that decide."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest, t

from whenpool.base.errors import InputError, check
from whenpool.book.report.tables import join_names
from whenpool.corpora.batches import Texts
from whenpool.corpora.corpus import Corpus
from whenpool.corpora.settings import find_filler
from whenpool.corpora.tokens import WordVectors, load_vectors
from whenpool.explain.checkpoint import Checkpoint
from whenpool.explain.diagnosis.data import Survey, Wish
from whenpool.models.registry import POOLING_NAMES
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.compute import standing
from whenpool.runs.kinds.probe import GradientProfile, PaddingSweep, Probe, WordImportance
from whenpool.runs.kinds.training import Training, trained, vectors_of
from whenpool.runs.run import Place, Run
from whenpool.training.loop import answers

HIDDEN = 64  # Units per direction, those of the quick profile on real texts


@dataclass(frozen=True)
class Plan:
    """The runs of a diagnosis by pooling: a training for each seed, and probes of the first."""

    trainings: dict[str, tuple[Training, ...]]
    gradients: dict[str, Probe]
    sweeps: dict[str, Probe]
    importance: dict[str, Probe]  # empty where most texts are too short for it
    window: int  # words of its windows

    @property
    def runs(self) -> list[Run]:
        probes = (self.gradients, self.importance, self.sweeps)
        return [*chain(*self.trainings.values()), *chain(*(kind.values() for kind in probes))]

    @property
    def training(self) -> Training:
        """One of them: all differ in pooling and seed alone."""
        return next(iter(self.trainings.values()))[0]


def make_plan(survey: Survey, place: Place, wish: Wish, vectors: str | None = None) -> Plan:
    """The runs on the texts of a survey."""
    corpus = f"{survey.file.resolve()}:balanced=no"
    sizes: dict[str, Any] = {"max_words": survey.words, "hidden_size": HIDDEN, "epochs": wish.epochs}
    base = Training(corpus, "standard", 1, wish.poolings[0], length="any", **sizes)
    base = replace(base, size=len(place.source(base).load("any").train))
    if vectors:
        size = load_vectors(place.vectors_file(vectors), place.cache).size
        base = replace(base, vectors=vectors, embedding_size=size)
    # as in the thesis, windows of 5 words in long texts and of 3 in short ones (§1.9)
    middle = min(survey.middle, survey.words)
    k = 5 if middle >= 50 else 3 if middle >= 15 else 1
    plan = Plan({}, {}, {}, {}, k)
    for pooling in wish.poolings:
        runs = tuple(replace(base, pooling=pooling, seed=seed) for seed in range(wish.seeds))
        plan.trainings[pooling] = runs
        plan.gradients[pooling] = GradientProfile(runs[0], texts=300)
        plan.sweeps[pooling] = PaddingSweep(runs[0], texts=300)
        if middle >= 3 * k:  # a window in each third of the text
            plan.importance[pooling] = WordImportance(runs[0], texts=100, k=k, shortest=3 * k)
    return plan


def evidence_place(results: Sequence[dict[str, float]]) -> str:
    """The place of the evidence, as `whenpool.book.report.advice` names it, if all models agree on the third
    of the texts that matters more than 1.25 times as much as the next, or that none matters so much."""
    names = {"left": "start", "middle": "middle", "right": "end"}
    found = set()
    for result in results:
        (least, _), (second, _), (most, place) = sorted((result[name], name) for name in names)
        alike = "everywhere" if most <= 1.25 * least else "unknown"
        found.add(names[place] if most > 1.25 * second else alike)
    return found.pop() if len(found) == 1 else "unknown"


def evidence_sentence(where: str, judges: Sequence[str], cut: bool) -> str:
    """What the page says of `evidence_place`, to models called ``judges``, in texts that may be ``cut``."""
    texts = "the words that are read" if cut else "the texts"
    if not judges:
        return "No model with a pooling has learnt, so nothing shows where the deciding words are."
    one, several = ("the one model", "has"), ("the models", "have")
    what, learnt = one if len(judges) == 1 else several
    who = f"{join_names(judges)}, {what} with a pooling that {learnt} learnt,"
    if where == "unknown" and len(judges) > 1:
        return f"{join_names(judges)} do not agree on the part of {texts} that matters most."
    if where == "unknown":
        return f"To {who} no single part of {texts} matters most."
    if where == "everywhere":
        return f"To {who} all parts of {texts} matter about equally."
    return f"To {who} words {'in' if where == 'middle' else 'at'} the {where} of {texts} matter most."


# Baselines: where a simple classifier does as well, no network is needed

BASELINES = {
    "tfidf": "TF-IDF with logistic regression",
    "vectors": "mean of the word vectors with logistic regression",
}
"""Their names in sentences."""


def baselines(corpus: Corpus, vectors: WordVectors | None) -> dict[str, tuple[np.ndarray, float]]:
    """Which test texts each baseline puts into their class, (N,) of 0 and 1, and its seconds; none without
    scikit-learn, and no mean of vectors without pretrained ones. Texts are words with spaces between them."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler
    except ModuleNotFoundError:
        return {}
    words_and_pairs = TfidfVectorizer(
        tokenizer=str.split, token_pattern=None, lowercase=False, ngram_range=(1, 2), sublinear_tf=True
    )
    ways: dict[str, Any] = {"tfidf": words_and_pairs}
    if vectors is not None:
        means = FunctionTransformer(_means, kw_args={"vectors": vectors})
        ways["vectors"] = make_pipeline(means, StandardScaler())
    train, validation, test = corpus.train, corpus.validation, corpus.test
    found = {}
    for name, features in ways.items():
        started = time.perf_counter()
        read, held_out = features.fit_transform(train.texts), features.transform(validation.texts)
        models = [
            LogisticRegression(C=strength, max_iter=2_000).fit(read, train.labels)
            for strength in (0.01, 0.1, 1.0, 10.0, 100.0)
        ]
        best = max(models, key=lambda model: model.score(held_out, validation.labels))
        right = best.predict(features.transform(test.texts)) == np.asarray(test.labels)
        found[name] = right.astype(float), time.perf_counter() - started
    return found


def _means(texts: Sequence[str], vectors: WordVectors) -> np.ndarray:
    """The mean vector of each text, (N, E): 0 for a text without a word that has one."""
    row_of = {word: row for row, word in enumerate(vectors.words)}
    rows = [[row_of[word] for word in text.split() if word in row_of] for text in texts]
    none = np.zeros(vectors.size)
    return np.stack([vectors.matrix[row].numpy().mean(0) if row else none for row in rows])


LEVEL = 0.95
FEW = 30  # Test texts below which nothing is called surer than chance
SEEDS = 3
"""From so many on, the spread of the seeds is known well enough to count beside that of the texts."""


@dataclass(frozen=True)
class Score:
    """How well one pooling, or a baseline, did."""

    pooling: str
    accuracies: tuple[float, ...]  # in % of the test texts, one for each seed
    right: np.ndarray  # (N,) the share of seeds that got each test text right
    seconds: float  # of all its trainings

    @property
    def name(self) -> str:
        return (POOLING_NAMES | BASELINES)[self.pooling]

    @property
    def accuracy(self) -> float:
        return mean(self.accuracies)

    @property
    def deviation(self) -> float | None:
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy, in %, as far as the choice of test texts goes."""
        found = binomtest(round(self.right.sum()), len(self.right)).proportion_ci(LEVEL, "wilson")
        return 100 * float(found.low), 100 * float(found.high)

    @property
    def range(self) -> str:
        low, high = self.interval
        return f"{low:.1f} to {high:.1f}"


@dataclass(frozen=True)
class Difference:
    """By how many points the best pooling is better than another. The interval holds for all pairs at once,
    at 95 %; there is none where the test texts are too few, or both are right on the same ones."""

    pooling: str
    points: float
    interval: tuple[float, float] | None
    may_be_chance: bool


def learnt_among(scores: Sequence[Score], majority: float) -> list[Score]:
    """The poolings that are better than the most frequent class, ``majority`` % of the test texts,
    beyond chance: by a one-sided binomial test at 2.5 % for all of them together (Bonferroni's)."""
    return [
        score
        for score in scores
        if (size := len(score.right)) >= FEW
        and binomtest(round(score.right.sum()), size, majority / 100, "greater").pvalue
        < (1 - LEVEL) / (2 * len(scores))
    ]


def difference(best: Score, other: Score, least: float) -> Difference:
    """Of the best from another, tested at the level ``least``."""
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
    chance = gap <= half
    if seeds == (1, 1):  # an exact test on the texts that one of them alone gets right
        won, lost = int((points > 0).sum()), int((points < 0).sum())
        chance = binomtest(won, won + lost).pvalue >= least
    return Difference(other.pooling, gap, (gap - half, gap + half), bool(chance))


Row = dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """All that the page shows of the runs."""

    scores: tuple[Score, ...]  # of the poolings that could be trained, the most accurate first
    baselines: tuple[Score, ...]  # likewise; none without scikit-learn
    failed: dict[str, str]  # what the runs said that failed, by what they were
    majority: float  # % of the test texts in the class that is most frequent there
    train: int  # texts, as of validation and test
    validation: int
    test: int
    filler: str  # what was added in the sweeps; "" for invented sentences
    gradients: dict[str, Row]  # what is stored of the probes that did not fail, by pooling
    sweeps: dict[str, Row]
    importance: dict[str, Row]
    models: dict[str, Checkpoint] = field(default_factory=dict)  # of each pooling the best by validation

    @property
    def differences(self) -> list[Difference]:
        """Of the best pooling from each other one, tested for all pairs at once (Bonferroni's)."""
        best, *others = self.scores
        least = (1 - LEVEL) / max(1, math.comb(len(self.scores), 2))
        return [difference(best, other, least) for other in others]

    @property
    def learnt(self) -> list[Score]:
        """The poolings that are better than the most frequent class beyond chance."""
        return learnt_among(self.scores, self.majority)

    @property
    def near(self) -> list[Score]:
        """The best pooling, and those that it may be better than by chance alone."""
        close = {found.pooling for found in self.differences if found.may_be_chance}
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
        """The place of the evidence, as `whenpool.book.report.advice` names it."""
        return evidence_place([self.importance[score.pooling]["result"] for score in self.judges])

    @property
    def swept(self) -> int:
        """Test texts that were read with filler."""
        return max((row["result"]["texts_probed"] for row in self.sweeps.values()), default=0)

    def kept(self, pooling: str) -> float | None:
        """Mean accuracy over all places and shares of added filler, in %."""
        rows = self.sweeps[pooling]["history"] if pooling in self.sweeps else []
        found = [row["accuracy"] for row in rows if row["share_added"] > 0]
        return mean(found) if found else None


def find(plan: Plan, place: Place, tokenizer: str) -> Findings:
    """Read the finished runs of a plan, and train the baselines; the models read texts by the ``tokenizer``.
    Raises `InputError` when not one pooling could be trained."""
    stand = standing(plan.runs, place)
    failed = {str(run): said for run, said in stand.failed.items()}

    def stored(run: Run) -> Row:
        row = place.store.get(stand.done[run])
        assert row is not None, run
        return row

    scores, facts, models = list[Score](), Row(), dict[str, Checkpoint]()
    for pooling, runs in plan.trainings.items():
        done = [run for run in runs if run in stand.done]
        if not done:
            continue
        found = [trained(run, place) for run in done]
        results = [stored(run)["result"] for run in done]
        facts = results[0]
        right = np.mean([right_on(one.model, one.dataset.test) for one in found], axis=0)
        accuracies = tuple(result["test_accuracy"] for result in results)
        scores.append(Score(pooling, accuracies, right, sum(result["seconds"] for result in results)))
        best = max(range(len(done)), key=lambda number: results[number]["validation_accuracy"])
        told = ("test_accuracy", "validation_accuracy", "train_texts")
        about = {name: results[best][name] for name in told}
        model, data = found[best].model.eval(), found[best].dataset
        words = tuple(data.vocabulary)
        models[pooling] = Checkpoint(model, words, data.classes, about, done[best].max_words, tokenizer)
    check(scores, f"no pooling could be trained: {next(iter(failed.values()), 'no run ended')}")
    corpus = place.source(plan.training).load("any")
    simple = [
        Score(name, (100 * float(right.mean()),), right, seconds)
        for name, (right, seconds) in baselines(corpus, vectors_of(plan.training, place)).items()
    ]
    for each in (scores, simple):
        each.sort(key=lambda score: -score.accuracy)
    try:
        filler = find_filler(place.data).name
    except InputError:
        filler = ""
    gradients, sweeps, importance = (
        {pooling: stored(probe) for pooling, probe in probes.items() if probe in stand.done}
        for probes in (plan.gradients, plan.sweeps, plan.importance)
    )
    return Findings(
        tuple(scores), tuple(simple), failed, facts["majority_accuracy"], facts["train_texts"],
        facts["validation_texts"], facts["test_texts"], filler, gradients, sweeps, importance, models,
    )  # fmt: skip


def right_on(model: TextClassifier, texts: Texts) -> np.ndarray:
    """Which texts a model puts into their class, (N,) of 0 and 1."""
    right = torch.zeros(len(texts))
    for part, batch, logits in answers(model, texts):
        right[part] = (logits.argmax(1) == batch.labels).float()
    return right.numpy()
