"""Learnability (§2.2): what the chapter runs, Table 2.1 and other starts of the model without
pooling, and what it measures."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from pandas import DataFrame

from paper.chapters.shared import Measure, epochs, thesis_accuracy, trainings, with_numbers
from paper.runs.kinds.probe import GradientProfile
from paper.runs.kinds.training import TRICKS
from paper.runs.plans import SAYING_MOST, TABLES, Study, each
from paper.runs.run import Run
from paper.verdicts.results import Runs
from whenpool.corpora.published import PUBLICATIONS


def plan(study: Study) -> Iterable[Run]:
    """Each trick beside plain trainings, and the gradients of each model without pooling."""
    settings = study.request.settings or SAYING_MOST
    for base in study.but(masked=True).bases((10_000,)):
        for plain in each(base, setting=settings, seed=study.seeds()):
            yield from each(plain, pooling=("max", "max_attention"))
            plain = replace(plain, pooling="last")
            yield GradientProfile(plain, untrained=True)
            for run in each(plain, trick=(None, *TRICKS)):
                yield from (run, GradientProfile(run))
            yield from each(plain, *TABLES["other_starts"])
            yield GradientProfile(replace(plain, forget_bias="chrono"))
            if study.request.profile == "quick" and base.corpus in PUBLICATIONS:
                directed = replace(plain, trick="gradient_directed")
                yield from each(directed, *TABLES["tried_strengths"])


def courses(runs: Runs) -> DataFrame:
    """What tricks do to a training as it goes on."""
    history = runs.table(epochs)
    by_run = history.groupby("key")
    gained = by_run["validation_accuracy"].diff()  # from one epoch to the next
    attending = history[history["factor"] < 1].groupby("key")
    ended = history[history["factor"] == 1].groupby("key")

    return with_numbers(
        runs.table(trainings),
        largest_fall=-gained.groupby(history["key"]).min().clip(upper=0),
        teacher_error=by_run["train_loss"].min(),
        # on states other than the last, just before attention goes, and the points that this costs
        attention_left=attending["mass_left"].last(),
        ending_cost=attending["attention_accuracy"].last() - ended["validation_accuracy"].first(),
    )


MEASURES = {
    "trick_accuracy": Measure(
        trainings, "test_accuracy", thesis=partial(thesis_accuracy, "chapter 2")
    ),
    "largest_fall": Measure(courses, "largest_fall"),
    "teacher_error": Measure(courses, "teacher_error", ratio=True),
    "attention_left": Measure(courses, "attention_left", ratio=True),
    "ending_cost": Measure(courses, "ending_cost"),
}
