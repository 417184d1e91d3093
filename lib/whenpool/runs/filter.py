"""Picking runs out of a plan: ``--only table=1.3,corpus=imdb,size=1000+2000``."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import LISTED
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS, FewShot
from whenpool.runs.kinds.probe import PROBES, Probe
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import TRICKS, Training, variant_of
from whenpool.runs.plans.chapters import OTHER_STARTS, PLANS, plan, thesis_table
from whenpool.runs.request import Choice
from whenpool.runs.run import Place, Run

TABLES = ("1.3", "1.4", "1.5", "1.6", "1.8", "1.9", "2.1")
"""The tables of the thesis that runs stand in, see `whenpool.runs.plans.chapters.thesis_table`."""
LENGTHS = ("long", "short", "any")
DEFAULT_CHAPTER = "training_to_skip"
EXAMPLE = "table=1.3,corpus=imdb,size=1000+2000"


def _corpus(run: Run) -> Iterable[str]:
    own = isinstance(run, FewShot | Tagging)
    name = run.corpus if own else run.training.corpus  # type: ignore[attr-defined,union-attr]
    path = name.partition(":")[0]
    return name, path, Path(path).name


def _of_training(attribute: str) -> Callable[[Run], Iterable[str]]:
    """The value of a training's attribute, of a probe that of its training, of others none."""
    return lambda run: [str(getattr(run.training, attribute))] if run.training else []


def _of_few_shot(attribute: str) -> Callable[[Run], Iterable[str]]:
    return lambda run: [str(getattr(run, attribute))] if isinstance(run, FewShot) else []


def _of_both(attribute: str) -> Callable[[Run], Iterable[str]]:
    def values(run: Run) -> list[str]:
        value = getattr(run.training or run, attribute, None)
        return [] if value is None else [str(value)]  # a tagging run has no length

    return values


_VALUES: dict[str, Callable[[Run], Iterable[str]]] = {
    "table": thesis_table,
    "corpus": _corpus,
    "length": _of_both("length"),
    "size": _of_training("size"),
    "setting": _of_training("setting"),
    # "last" is the model without pooling alone, not every trick on it
    "pooling": lambda run: run.training.variant.split(", ") if run.training else [],
    "seed": _of_both("seed"),
    "system": _of_few_shot("system"),
    "labels": _of_few_shot("per_class"),
}
"""What each key says of a run."""
NUMBERS = ("size", "seed", "labels")
LONGEST_NUMBER = 18


def _choices(key: str) -> Sequence[str] | None:
    """What a key can be, or None where it is open."""
    if key == "pooling":
        return *LISTED, *TRICKS, "low", *(variant_of("last", **start) for start in OTHER_STARTS)
    closed = {
        "table": TABLES, "length": LENGTHS, "setting": SETTINGS, "system": (*SYSTEMS, *CONTRAST),
    }  # fmt: skip
    return closed.get(key)


@dataclass(frozen=True)
class Only:
    """Some runs of a plan: those that have, for each key, one of its values; without keys all."""

    wanted: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> "Only":
        """From ``key=value,key=value+value``; None admits every run.

        Raises:
            InputError: for a text of another form, an unknown key or value, or a key given twice.
        """
        if text is None:
            return cls()
        wanted: dict[str, tuple[str, ...]] = {}
        for part in text.split(","):
            key, equals, values = (word.strip() for word in part.partition("="))
            if not equals or not key:
                raise InputError(f"--only {part.strip()!r} is not key=value, such as {EXAMPLE}")
            if key not in _VALUES:
                raise InputError(f"--only {key!r} is unknown; choose among {', '.join(_VALUES)}")
            if key in wanted:
                raise InputError(
                    f"--only {key} is given twice; several values are joined by +, such as {EXAMPLE}"
                )
            wanted[key] = tuple(_checked(key, value.strip()) for value in values.split("+"))
        return cls(tuple(wanted.items()))

    def __bool__(self) -> bool:
        return bool(self.wanted)

    @property
    def names_table(self) -> bool:
        return any(key == "table" for key, _ in self.wanted)

    def admits(self, run: Run) -> bool:
        """Whether a run is among them. A run that has no such thing, as a few-shot run has no size,
        is not; a probe has what its training has, but stands in no table."""
        return all(not set(values).isdisjoint(_VALUES[key](run)) for key, values in self.wanted)

    def why_empty(self, runs: Sequence[Run]) -> str:
        """Why none of some runs is among them, in a sentence."""
        for key, values in self.wanted:
            brief = slice(-1, None) if key == "corpus" else slice(None)  # without options and folders
            there = {value: None for run in runs for value in list(_VALUES[key](run))[brief]}
            alone = Only(((key, values),))
            if not any(alone.admits(run) for run in runs):
                has = (
                    f"there are {', '.join(sorted(there, key=_by_number))}"
                    if there
                    else "there are none"
                )
                return f"no run has {key}={'+'.join(values)}; {has}"
        return "no run has all of it at once"

    def __str__(self) -> str:
        return ",".join(f"{key}={'+'.join(values)}" for key, values in self.wanted)


def _checked(key: str, value: str) -> str:
    """A value in the form in which runs have it."""
    if not value:
        raise InputError(f"--only {key} is given no value; write {EXAMPLE}")
    if key in NUMBERS:
        if not (value.isascii() and value.isdigit() and len(value) < LONGEST_NUMBER):
            raise InputError(f"--only {key} takes whole numbers such as 1000+2000, not {value!r:.60}")
        return str(int(value))
    choices = _choices(key)
    if choices is not None and value not in choices:
        raise InputError(f"--only {key}={value} is unknown; choose among {', '.join(choices)}")
    return value


def _by_number(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdigit() else (0, value)


def planned(
    choice: Choice, place: Place, only: Only, chapters: Iterable[str] = ()
) -> dict[str, list[Run]]:
    """The runs of some chapters that are among the wanted ones, by chapter; one can be in several.

    Args:
        chapters: their names; none: all that need runs.

    Raises:
        InputError: for an unknown chapter, a table outside the profile "paper", or when no run is left.
    """
    if only.names_table and choice.profile != "paper":
        raise InputError(
            f"--only table is of the thesis's runs: add --profile paper to it (the profile is "
            f"{choice.profile})"
        )
    every = {chapter: plan(chapter, choice, place) for chapter in chapters or PLANS}
    found = {
        chapter: admitted
        for chapter, runs in every.items()
        if (admitted := [run for run in runs if only.admits(run)])
    }
    if not found:
        why = only.why_empty([run for runs in every.values() for run in runs])
        raise InputError(f"--only {only} leaves nothing of {', '.join(every)}: {why}")
    return found


def chapters_of(only: Only, chapter: str | None) -> tuple[str, ...]:
    """The chapters that a choice of runs is made from: the named one, or where none is named "Training
    to skip", or every one where tables are named."""
    if chapter is not None:
        return (chapter,)
    return () if only.names_table else (DEFAULT_CHAPTER,)


def each_once(chapters: dict[str, list[Run]]) -> list[Run]:
    """The runs of several chapters, none twice."""
    return list({run: None for runs in chapters.values() for run in runs})


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
