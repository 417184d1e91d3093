"""What finished runs say of the user's texts: accuracies, what probes found, and the models.

Letters: N test texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import numpy as np
import torch

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Texts, batches_for
from whenpool.corpora.filler import find_filler
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.explain.checkpoint import Checkpoint
from whenpool.explain.diagnosis.evidence import evidence_place
from whenpool.explain.diagnosis.plan import Plan
from whenpool.explain.diagnosis.scores import Difference, Score, differences, interval_of, learnt_among
from whenpool.explain.explanation import as_checkpoint
from whenpool.models.registry import POOLING_NAMES
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.compute import standing
from whenpool.runs.execute_training import trained
from whenpool.runs.probe_run import Probe
from whenpool.runs.training_run import Place, Training
from whenpool.training.loop import EVALUATION_WORDS

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Findings:
    """All that the page shows of the runs.

    Attributes:
        scores: of the poolings that could be trained, the most accurate first.
        failed: what the runs said that failed, by what they were.
        majority: % of the test texts in the class that is most frequent there.
        train, validation, test: texts.
        vocabulary: words that the models know.
        gradients, sweeps, importance: rows of each probe by pooling; those that failed are missing.
        thirds: mean importance in the "left", "middle" and "right" third of the texts, by pooling.
        swept: test texts that were read with filler.
        filler: what was added in the sweeps; "" for invented sentences.
        where: the place of the evidence, as `whenpool.book.report.advice` names it.
        judges: names of the models that it was read from.
        models: of each pooling the one that did best on the validation texts.
    """

    scores: tuple[Score, ...]
    failed: dict[str, str]
    majority: float
    train: int
    validation: int
    test: int
    vocabulary: int
    gradients: dict[str, Rows]
    ratios: dict[str, float]
    sweeps: dict[str, Rows]
    importance: dict[str, Rows]
    thirds: dict[str, dict[str, float]]
    swept: int
    filler: str
    where: str
    judges: tuple[str, ...]
    models: dict[str, Checkpoint] = field(default_factory=dict, compare=False, repr=False)

    @property
    def differences(self) -> list[Difference]:
        """Of the best pooling from each other one."""
        return differences(self.scores)

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

    def kept(self, pooling: str) -> float | None:
        """Mean accuracy over all places and shares of added filler, in %."""
        found = [row["accuracy"] for row in self.sweeps.get(pooling, []) if row["share_added"] > 0]
        return mean(found) if found else None


def find(plan: Plan, place: Place) -> Findings:
    """Read the finished runs of a plan.

    Raises:
        InputError: when not one pooling could be trained.
    """
    stand = standing(plan.runs, place)
    failed = {str(run): said for run, said in stand.failed.items()}
    scores, facts, models = list[Score](), dict[str, Any](), dict[str, Checkpoint]()
    for pooling, runs in plan.trainings.items():
        done = [run for run in runs if run in stand.done]
        if done:
            results = [_stored(run, stand.done[run], place)["result"] for run in done]
            facts = results[0]
            score, models[pooling] = _score(pooling, done, results, place)
            scores.append(score)
    if not scores:
        raise InputError(f"no pooling could be trained: {next(iter(failed.values()), 'no run ended')}")
    scores.sort(key=lambda score: -score.accuracy)

    def measured(probes: dict[str, Probe]) -> dict[str, dict[str, Any]]:
        return {
            pooling: _stored(probe, stand.done[probe], place)
            for pooling, probe in probes.items()
            if probe in stand.done
        }

    gradients, sweeps, importance = map(measured, (plan.gradients, plan.sweeps, plan.importance))
    thirds = {pooling: row["result"] for pooling, row in importance.items()}
    learnt = [score.pooling for score in learnt_among(scores, facts["majority_accuracy"])]
    judges = [pooling for pooling in learnt if pooling in thirds and pooling != "last"]
    return Findings(
        tuple(scores),
        failed,
        facts["majority_accuracy"],
        facts["train_texts"],
        facts["validation_texts"],
        facts["test_texts"],
        facts["vocabulary"],
        {pooling: row["history"] for pooling, row in gradients.items()},
        {pooling: row["result"]["ratio"] for pooling, row in gradients.items()},
        {pooling: row["history"] for pooling, row in sweeps.items()},
        {pooling: row["history"] for pooling, row in importance.items()},
        thirds,
        max((row["result"]["texts_probed"] for row in sweeps.values()), default=0),
        _filler(place),
        evidence_place([thirds[pooling] for pooling in judges]),
        tuple(POOLING_NAMES[pooling] for pooling in judges),
        models,
    )


def _filler(place: Place) -> str:
    try:
        return find_filler(place.data).name
    except InputError:
        return ""


def _stored(run: Any, key: str, place: Place) -> dict[str, Any]:
    row = place.store.get(key)
    assert row is not None, run
    return row


def _score(
    pooling: str, runs: Sequence[Training], results: Sequence[dict[str, Any]], place: Place
) -> tuple[Score, Checkpoint]:
    """With the model that did best on the validation texts; each is loaded once."""
    every, models = [], []
    for run in runs:
        found = trained(run, place)
        every.append(right_on(found.model, found.dataset.test))
        models.append(as_checkpoint(run, found, place))
    right = np.mean(every, axis=0)
    score = Score(
        pooling,
        tuple(result["test_accuracy"] for result in results),
        *interval_of(right),
        right,
        sum(result["seconds"] for result in results),
    )
    best = max(range(len(runs)), key=lambda number: results[number]["validation_accuracy"])
    return score, models[best]


@torch.inference_mode()
def right_on(model: TextClassifier, texts: Texts) -> np.ndarray:
    """Which texts a model puts into their class, (N,) of 0 and 1."""
    model.eval()
    right = torch.zeros(len(texts))
    for part in batches_for(model, texts.ids.lengths, EVALUATION_WORDS):
        batch = texts.batch(part, PADDING_INDEX)
        right[part] = (model(batch.ids, batch.lengths).argmax(1) == batch.labels).float()
    return right.numpy()
