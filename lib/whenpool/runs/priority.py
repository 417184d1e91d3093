"""Which runs tell most, so that a grid that was stopped half-way is a whole, thinner table."""

from typing import Any

from whenpool.models.registry import LISTED
from whenpool.runs.few_shot_run import CONTRAST, SYSTEMS, FewShot
from whenpool.runs.probe_run import PROBES, Probe
from whenpool.runs.tagging_run import Tagging
from whenpool.runs.training_run import TRICKS, Run, Training

SETTING_ORDER = ("standard", "mid", "right", "left")
"""What a reader compares first: whether filler on both sides hurts, then where else it hurts."""
_CORPORA = ("imdb", "yelp", "yahoo", "amazon")
_LENGTHS = ("long", "any", "short")


def informative(run: Run) -> tuple[Any, ...]:
    """A sort key of runs, the most informative first.

    All of seed 0 comes before seed 1, within a seed few training texts before many (of few-shot runs
    the thesis's ten of each class before other numbers), then settings, lengths, corpora, poolings.
    Wherever such a list is cut, what stands before is a grid with fewer seeds, and maybe one more seed
    with fewer sizes, and so on. A probe has the place of its training,
    though all trainings that are asked for come before the probes (`whenpool.runs.compute.compute`).
    """
    if isinstance(run, FewShot):
        labels = (run.per_class != FewShot.per_class, run.per_class)
        return (
            run.seed, labels, 0, _place(run.length, _LENGTHS), _place(run.corpus, _CORPORA),
            _place(run.system, (*SYSTEMS, *CONTRAST)), True, 0, repr(run),
        )  # fmt: skip
    if isinstance(run, Tagging):
        nowhere = (0, "")
        return (
            run.seed, (False, 0), 0, nowhere, _place(run.corpus, ()), nowhere, True, 0, repr(run),
        )  # fmt: skip
    training = run.training
    assert isinstance(training, Training)
    return (
        training.seed,
        (False, training.size),
        SETTING_ORDER.index(training.setting) if training.setting in SETTING_ORDER else 4,
        _place(training.length, _LENGTHS),
        _place(training.corpus, _CORPORA),
        _place(training.variant, (*LISTED, *TRICKS)),
        not training.masked,
        1 + list(PROBES).index(run.kind) if isinstance(run, Probe) else 0,
        repr(run),  # of what is alike otherwise, the same first in every process
    )


def _place(name: str, order: tuple[str, ...]) -> tuple[int, str]:
    """Where a name stands in an order; names that it does not have come last, by alphabet."""
    return (order.index(name), "") if name in order else (len(order), name)
