"""Selecting runs from a plan: ``--only table=1.3,corpus=imdb,size=1000+2000``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from whenpool.base.errors import InputError, check, check_known
from whenpool.corpora.settings import SETTINGS
from whenpool.corpora.tagged import is_tagged
from whenpool.models.registry import LISTED
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS
from whenpool.runs.kinds.training import TRICKS, variant_of
from whenpool.runs.plans import OTHER_STARTS, PLANS, START_OPTIONS, chapter_named, plan, thesis_table
from whenpool.runs.request import Request
from whenpool.runs.run import Place, Run

STARTS = dict.fromkeys(
    variant_of("last", **own).split(", ")[0] for own in (*OTHER_STARTS, *START_OPTIONS)
)
EXAMPLE = "table=1.3,corpus=imdb,size=1000+2000"
KEYS = ("table", "corpus", "length", "size", "setting", "pooling", "seed", "system", "labels")
NUMBERS = ("size", "seed", "labels")
CHOICES: dict[str, Sequence[str]] = {
    "table": ("1.3", "1.4", "1.5", "1.6", "1.8", "1.9", "2.1"),  # of the thesis, that have runs
    "length": ("long", "short", "any"),
    "setting": SETTINGS,
    "pooling": (*LISTED, *TRICKS, "low", *STARTS),
    "system": (*SYSTEMS, *CONTRAST),
}
"""The values of keys that do not take any."""


def _values(key: str, run: Run) -> list[str]:
    """The values of a run under a key; a file of the user's goes by its path and by its name."""
    if key == "table":
        return list(thesis_table(run))
    field = {"labels": "per_class"}.get(key, key)
    run = run.training or run
    values = [str(getattr(run, field))] if hasattr(run, field) else []
    if key == "pooling" and values:
        values = run.training.variant.split(", ")
    if key == "corpus":
        paths = [value.partition(":")[0] for value in values]
        values += [*paths, *(Path(path).name for path in paths)]
    return values


@dataclass(frozen=True)
class Only:
    """Some runs of a plan: those that have, for each key, one of its values; without keys all."""

    wanted: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> "Only":
        """From ``key=value,key=value+value``; None admits every run."""
        wanted: dict[str, tuple[str, ...]] = {}
        for part in text.split(",") if text is not None else ():
            key, equals, values = (word.strip() for word in part.partition("="))
            check(equals and key, f"--only {part.strip()!r} must be key=value, such as {EXAMPLE}")
            check_known("--only", key, KEYS)
            check(key not in wanted, f"--only {key} is given twice; join several values with +")
            wanted[key] = tuple(_checked(key, value.strip()) for value in values.split("+"))
        return cls(tuple(wanted.items()))

    def __bool__(self) -> bool:
        return bool(self.wanted)

    @property
    def names_table(self) -> bool:
        return any(key == "table" for key, _ in self.wanted)

    def admits(self, run: Run) -> bool:
        """Whether a run is among them; one that has no such thing, as a few-shot run has no size, is not. A
        probe has what its training has, but is in no table."""
        return all(not set(values).isdisjoint(_values(key, run)) for key, values in self.wanted)

    def __str__(self) -> str:
        return ",".join(f"{key}={'+'.join(values)}" for key, values in self.wanted)


def _checked(key: str, value: str) -> str:
    """A value in the form that runs have."""
    check(value, f"--only {key} has no value; write, for example, {EXAMPLE}")
    if key in NUMBERS:
        if not (value.isascii() and value.isdigit() and len(value) < 18):
            raise InputError(f"--only {key} must be whole numbers such as 1000+2000, not {value!r:.60}")
        return str(int(value))
    if key in CHOICES and value not in CHOICES[key]:
        raise InputError(f"--only {key}={value} is unknown; choose one of {', '.join(CHOICES[key])}")
    return value


def planned(
    request: Request, place: Place, only: Only, chapters: Iterable[str] = ()
) -> dict[str, list[Run]]:
    """The wanted runs by chapter, of some ``chapters`` or all; one can be in several."""
    if only.names_table and request.profile != "paper":
        other = f"not those of the profile {request.profile}; add --profile paper"
        raise InputError(f"--only table selects runs of the thesis, {other}")
    chapters = list(dict.fromkeys(chapter_named(name, PLANS) for name in chapters or PLANS))
    if chapters == ["sequence_labelling"] and request.corpora:  # beside other chapters it has its own
        none = f"no tagged words are in {' '.join(request.corpora)}; name ud_ewt, wnut17 or a file with some"
        check(any(map(is_tagged, request.corpora)), none)
    every = {chapter: plan(chapter, request, place) for chapter in chapters}
    admitted = {chapter: list(filter(only.admits, runs)) for chapter, runs in every.items()}
    found = {chapter: runs for chapter, runs in admitted.items() if runs}
    if not found:
        runs = [run for runs in every.values() for run in runs]
        why = "no run has all of these values"
        for key, values in reversed(only.wanted):
            brief = slice(-1, None) if key == "corpus" else slice(None)  # without options and folders
            if not any(Only(((key, values),)).admits(run) for run in runs):
                there = {value for run in runs for value in _values(key, run)[brief]}
                ordered = sorted(there, key=lambda value: (int(value) if value.isdigit() else 0, value))
                has = f"choose one of {', '.join(ordered)}" if there else "no run has this key"
                why = f"no run has {key}={'+'.join(values)}; {has}"
        raise InputError(f"--only {only} selects no run of {', '.join(every)}: {why}")
    return found
