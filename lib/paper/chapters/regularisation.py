"""Regularisation and tuning (§1.4.2): what the chapter runs and measures."""

from collections.abc import Iterable
from dataclasses import replace

from pandas import DataFrame

from paper.chapters.shared import Measure, epochs, trainings, with_numbers
from paper.runs.kinds import Training
from paper.runs.plans import TABLES, WITH_AND_WITHOUT, Study, each
from paper.verdicts.results import Runs, has

TIMED_SEEDS = (5, 6, 7)  # Of trainings to be timed, all poolings in turn with nothing else running


def plan(study: Study) -> Iterable[Training]:
    """What decides claims: plain texts, and in the middle of filler models without pooling and
    with."""
    request = study.request
    sustained = TABLES["sustained"]
    for base in study.bases():
        for plain in each(base, seed=study.seeds()):
            if not request.is_whole:  # what two processors do in minutes
                for run in each(plain, pooling=request.poolings or WITH_AND_WITHOUT):
                    yield from each(run, *TABLES["brief_grid"])
                continue
            for run in each(plain, pooling=study.poolings):
                yield from each(run, *TABLES["grid"])
            for run in each(plain, pooling=WITH_AND_WITHOUT):
                yield from each(run, sustained | {"drop_connect": 0.0}, sustained)
            middle = replace(plain, setting="mid")
            yield from each(middle, pooling=WITH_AND_WITHOUT)
            yield replace(middle, pooling="last", **sustained)
        if study.compact and not request.seeds:
            yield from each(base, seed=TIMED_SEEDS, pooling=study.poolings)


def epoch_seconds(runs: Runs) -> DataFrame:
    """Of trainings with nothing else running, their fastest epoch."""
    rows = runs.table(trainings)
    alone = has(rows, {"together": [None, 1], "threads": [None, 1], "seed": [*TIMED_SEEDS]})
    return with_numbers(rows[alone], value=runs.table(epochs).groupby("key")["seconds"].min())


MEASURES = {"epoch_seconds": Measure(epoch_seconds, ratio=True)}
