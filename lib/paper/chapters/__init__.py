"""The experiments of the book: what each chapter runs, `plan`, and measures, in a module of its
name with ``plan`` and ``MEASURES``."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from paper.chapters import (
    encoders_of_today,
    few_shot,
    gradient_propagation,
    last_state,
    learnability,
    natural_bias,
    recurrent_networks,
    regularisation,
    sequence_labelling,
    shared,
    theory,
    training_to_skip,
    word_importance,
)
from paper.chapters.shared import Measure
from paper.runs.plans import Study, smoke_sized
from paper.runs.request import Request
from paper.runs.run import Place, Run

CHAPTERS = {
    chapter.__name__.rpartition(".")[2]: chapter
    for chapter in (
        gradient_propagation,
        natural_bias,
        training_to_skip,
        word_importance,
        few_shot,
        learnability,
        last_state,
        recurrent_networks,
        sequence_labelling,
        encoders_of_today,
        regularisation,
        theory,
    )
}
"""What each chapter runs and measures, in the order of the book."""
PLANS: dict[str, Callable[[Study], Iterable[Run]]] = {
    name: chapter.plan for name, chapter in CHAPTERS.items() if chapter is not theory
}
"""The runs of each chapter that needs some."""
MEASURES: dict[str, Measure] = {
    name: measure
    for module in (shared, *CHAPTERS.values())
    for name, measure in module.MEASURES.items()
}
"""Every measure that ``data/paper/claims.yml`` may name."""


def plan(chapter: str, request: Request, place: Place) -> list[Run]:
    """The runs of a chapter, none twice: those with the settings and poolings that are asked for,
    and with models that can be made. There may be none: the book then shows what is recorded."""
    smoke = request.profile == "smoke"

    def is_asked_for(run: Run) -> bool:
        training = run.training
        if not training:
            return True
        settings, poolings = request.settings, request.poolings
        asked_for = not settings or training.setting in settings
        asked_for &= not poolings or training.pooling in poolings
        return asked_for and not training.fault

    study = Study(replace(request, profile="quick") if smoke else request, place)
    planned = filter(is_asked_for, dict.fromkeys(PLANS[chapter](study)))
    return list(dict.fromkeys(smoke_sized(run, request) for run in planned) if smoke else planned)
