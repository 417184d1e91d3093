"""The experiments of the book: what each chapter runs, `plan`, and measures, in a module of its
name with ``plan`` and ``MEASURES``."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

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
from paper.runs.plans import smoke_sized
from paper.runs.request import Request
from paper.runs.run import Place, Run
from whenpool.base.errors import check, check_known

PLANS: dict[str, Callable[[Request, Place], Iterable[Run]]] = {
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

    runs = PLANS[chapter](replace(request, profile="quick") if smoke else request, place)
    planned = filter(is_asked_for, dict.fromkeys(runs))
    return list(dict.fromkeys(smoke_sized(run, request) for run in planned) if smoke else planned)


def chapter_named(name: str, names: Collection[str]) -> str:
    """The one of some chapters that is meant by its name, or a part that no other has."""
    name = Path(name).stem.replace("-", "_")
    containing = [chapter for chapter in names if name and name in chapter]
    matching = [name] if name in names else containing
    several = f"chapter {name!r} is ambiguous; choose one of {', '.join(matching)}"
    check(len(matching) < 2, several)
    check_known("chapter", matching[0] if matching else name, names)
    return matching[0]
