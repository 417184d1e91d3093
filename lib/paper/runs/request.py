"""What a reader asks for: a profile, and maybe a narrower selection.

A *profile* says how large models and training sets are: "smoke" (tests: seconds), "quick"
(minutes), "compact" (the whole paper, small models and short texts: a day) or "paper" (the thesis's
protocol, §1.4.2).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any, Self

from whenpool.base.errors import check, check_known
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import LISTED, LISTED_CELLS

Names = tuple[str, ...]
PROFILES = ("smoke", "quick", "compact", "paper")
LISTS = "sizes labels settings poolings systems"  # attributes that are tuples
NUMBERS = "sizes labels seeds unlabelled layers"


@dataclass(frozen=True)
class Request:
    """What a reader asks for; None leaves it to the profile."""

    profile: str = "quick"
    corpora: Names | None = None  # names for `whenpool.corpora.load`
    sizes: tuple[int, ...] | None = None  # training texts
    settings: Names | None = None
    poolings: Names | None = None
    seeds: int | None = None  # how many, counted from 0
    masked: bool = True  # False: padding enters, as in the authors' code
    # of the few-shot runs (§1.10)
    encoder: str | None = None  # the pretrained one
    labels: tuple[int, ...] | None = None  # labelled texts of each class
    systems: Names | None = None  # names in `paper.runs.kinds.few_shot`
    unlabelled: int | None = None  # texts
    paraphrases: str | None = None  # a file of them for the unlabelled texts
    # of every trained model that is a thesis's BiLSTM otherwise; chapters that compare cells have
    # their own
    cell: str | None = None  # a name in `whenpool.models.registry.LISTED_CELLS`
    layers: int | None = None  # how many are stacked

    def __post_init__(self) -> None:
        for name in (*LISTS.split(), *NUMBERS.split()):
            value = getattr(self, name)
            is_list, what = name in LISTS.split(), f"not {value!r:.60}"
            filled = value is None or not is_list or (isinstance(value, tuple) and value)
            check(filled, f"{name} must be a list, {what}")
            if value is not None and name in NUMBERS.split():
                numbers = value if is_list else [value]
                whole = all(type(number) is int and number > 0 for number in numbers)
                check(whole, f"{name} must be whole numbers from 1, {what}")
        check(isinstance(self.masked, bool), f"masked must be true or false, not {self.masked!r}")
        check_known("profile", self.profile, PROFILES)
        for setting in self.settings or ():
            check_known("setting", setting, SETTINGS)
        for pooling in self.poolings or ():
            check_known("pooling", pooling, LISTED)
        if self.cell is not None:
            check_known("cell", self.cell, LISTED_CELLS)
        there = not self.paraphrases or isfile(self.paraphrases)
        check(there, f"paraphrases file {self.paraphrases} does not exist; check its path")

    @classmethod
    def of(
        cls,
        profile: str = "quick",
        corpus: str | Sequence[str] | None = None,
        only: Mapping[str, Any] | None = None,
        encoder: str | None = None,
    ) -> Self:
        """What the parameters of a chapter or a command ask for, see `paper.chapter.open_chapter`.
        Raises `InputError` for a value that is unknown."""
        such = f'only must be such as {{"sizes": [1000]}}, not {only!r:.60}'
        check(isinstance(only, Mapping | None), such)
        narrow = dict[str, Any]()
        for name, value in (only or {}).items():
            check_known("only", name, NARROWING)
            narrow[name] = tuple(value) if isinstance(value, list) else value
        narrow["paraphrases"] = placed(narrow.get("paraphrases"))
        return cls(profile, corpora_named(corpus), encoder=placed(encoder), **narrow)

    @property
    def only(self) -> dict[str, Any]:
        """What it has of `NARROWING`."""
        values = {name: getattr(self, name) for name in NARROWING}
        return {name: value for name, value in values.items() if value != getattr(Request, name)}

    @property
    def is_whole(self) -> bool:
        """Whether the whole paper is asked for, at either scale."""
        return self.profile in ("compact", "paper")

    def corpora_or(self, *usual: str) -> Names:
        """The corpora that are asked for, else the usual ones of the whole paper, or the embedded
        one."""
        return self.corpora or (usual if self.is_whole else ("synthetic",))

    def leaves_out(self, run: Any) -> bool:
        """Whether a run is left out where its data are not here, since nobody named its corpus or
        encoder."""
        unnamed = self.encoder is None and getattr(run, "has_encoder", False)
        return unnamed or (self.corpora is None and self.is_whole)


NARROWING = [name for name in vars(Request()) if name not in ("profile", "corpora", "encoder")]
"""The attributes of a request that leave runs out, make them smaller, or put another model into
them."""


def corpora_named(texts: str | Sequence[str] | None) -> Names | None:
    """The names in texts, of several corpora each or one file, whose path is made absolute."""
    names: list[str] = []
    for text in [texts] if isinstance(texts, str) else texts or ():
        for name in [text] if isfile(text.partition(":")[0]) else text.split():
            file, colon, options = name.partition(":")
            names.append(f"{placed(file)}{colon}{options}" if isfile(file) else name)
    check(names or not texts, "the name of the corpus is empty; leave it out or name one")
    return tuple(names) or None


def placed(name: str | None) -> str | None:
    """A file or folder by a name that does not depend on the working directory; other names as they
    are."""
    path = os.path.expanduser(name or "")
    return str(Path(path).resolve()) if name and os.path.exists(path) else name
