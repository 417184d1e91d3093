"""Which runs a diagnosis is made of: a small training of each pooling, and probes on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whenpool.corpora.tokens import load_vectors
from whenpool.explain.diagnosis.data import Survey
from whenpool.runs.probe_run import GradientProfile, PaddingSweep, Probe, WordImportance
from whenpool.runs.training_run import Place, Run, Training

HIDDEN = 64
"""Units per direction, those of the quick profile on real texts."""
SWEPT, LOOKED_AT, OCCLUDED = 300, 300, 100
"""Texts of the padding sweep, of the gradient profile, and of word importance, at most."""
LEAST_WINDOWS = 3
"""Of a text whose word importance is looked at: one in each third."""


@dataclass(frozen=True)
class Plan:
    """The runs of a diagnosis.

    Attributes:
        trainings: by pooling, a seed each.
        gradients, sweeps, importance: by pooling, on the training of the first seed; there is no
            ``importance`` where most texts are too short for it.
        window: words that are replaced at once where the importance of words is measured.
    """

    trainings: dict[str, tuple[Training, ...]]
    gradients: dict[str, Probe]
    sweeps: dict[str, Probe]
    importance: dict[str, Probe]
    window: int

    @property
    def runs(self) -> list[Run]:
        every: list[Run] = [run for runs in self.trainings.values() for run in runs]
        for probes in (self.gradients, self.importance, self.sweeps):
            every += probes.values()
        return every

    @property
    def training(self) -> Training:
        """One of them: all differ in pooling and seed alone."""
        return next(iter(self.trainings.values()))[0]


def make_plan(
    survey: Survey,
    place: Place,
    poolings: Sequence[str],
    seeds: int,
    epochs: int,
    words: int,
    vectors: str | None = None,
) -> Plan:
    """The runs on the texts of a survey.

    Raises:
        InputError: for word vectors that are not there or cannot be read.
    """
    corpus = f"{survey.file.resolve()}:balanced=no"
    base = Training(
        corpus,
        "standard",
        1,
        poolings[0],
        length="any",
        max_words=words,
        hidden_size=HIDDEN,
        epochs=epochs,
    )
    base = replace(base, size=len(place.source(base).load("any").train))
    if vectors:
        size = load_vectors(place.vectors_file(vectors), place.cache).size
        base = replace(base, vectors=vectors, embedding_size=size)
    # as in the thesis, windows of 5 words in long texts and of 3 in short ones (§1.9)
    middle = min(survey.middle, words)
    k = 5 if middle >= 50 else 3 if middle >= 15 else 1
    shortest = LEAST_WINDOWS * k
    trainings = {
        pooling: tuple(replace(base, pooling=pooling, seed=seed) for seed in range(seeds))
        for pooling in poolings
    }
    firsts = {pooling: runs[0] for pooling, runs in trainings.items()}
    return Plan(
        trainings,
        {pooling: GradientProfile(run, texts=LOOKED_AT) for pooling, run in firsts.items()},
        {pooling: PaddingSweep(run, texts=SWEPT) for pooling, run in firsts.items()},
        {
            pooling: WordImportance(run, texts=OCCLUDED, k=k, shortest=shortest)
            for pooling, run in (firsts if middle >= shortest else {}).items()
        },
        k,
    )
