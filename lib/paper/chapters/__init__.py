"""The experiments of the book: what each chapter runs, `plan`, and measures, in a module of its
name with ``plan`` and ``MEASURES``."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from paper.chapters import (
    few_shot,
    gradient_propagation,
    last_state,
    learnability,
    natural_bias,
    other_architectures,
    recurrent_networks,
    regularisation,
    sequence_labelling,
    training_to_skip,
    word_importance,
)
from paper.runs.plans import Study, smoke_sized
from paper.runs.request import Request
from paper.runs.run import Place, Run

PLANS: dict[str, Callable[[Study], Iterable[Run]]] = {
    "gradient_propagation": gradient_propagation.plan,
    "natural_bias": natural_bias.plan,
    "training_to_skip": training_to_skip.plan,
    "word_importance": word_importance.plan,
    "few_shot": few_shot.plan,
    "learnability": learnability.plan,
    "last_state": last_state.plan,
    "recurrent_networks": recurrent_networks.plan,
    "sequence_labelling": sequence_labelling.plan,
    "other_architectures": other_architectures.plan,
    "regularisation": regularisation.plan,
}
"""The runs of each chapter that needs some, in the order of the book."""


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
