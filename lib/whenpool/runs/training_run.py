"""What a training is: its configuration, its data, and where both come from."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

from whenpool.base.errors import InputError
from whenpool.base.files import fingerprint
from whenpool.base.paths import cache_directory, data_directory, project_root, store_directory
from whenpool.corpora import CorpusSource, find
from whenpool.corpora.corpus import check_length
from whenpool.corpora.settings import SHARE, check_setting
from whenpool.models.registry import LISTED_CELLS
from whenpool.runs.store import Store, key_of

PROTOCOL = 1
"""Raised by hand when the meaning of a result changes, so that older results are not read as new."""

TRICKS = ("teacher_forcing", "penalty_attention", "dropout_attention", "gradient_directed")
"""The training-time modifications of §2.2, see `whenpool.learnability`."""

VECTORS = ("glove.6B.100d", "wiki-reviews.100d")
"""Word vectors that the paper's protocol looks for, best first (§1.4.2)."""


def variant_of(
    pooling: str, forget_bias: Any = "thesis", orthogonal: Any = False, trick: Any = None
) -> str:
    """What sets a training apart: its trick or pooling, and what is special about its start.

    A model without pooling goes by its start alone: "orthogonal", "chrono", "low" or "forget 2". What a
    table leaves empty counts as not given.
    """
    base = trick if isinstance(trick, str) else pooling
    starts = ["orthogonal"] if orthogonal in (True, 1) else []
    if forget_bias in ("chrono", "low"):
        starts.append(forget_bias)
    elif forget_bias != "thesis" and forget_bias is not None and forget_bias == forget_bias:
        starts.append(f"forget {float(forget_bias):g}")
    return ", ".join(starts if starts and base == "last" else [base, *starts])


@dataclass(frozen=True)
class Training:
    """One training and the test of its best epoch. The defaults are the thesis's (§1.4.2).

    A default must never change: fields at their default do not enter the key, so that a field
    added later leaves older runs valid.
    """

    corpus: str  # a name for `whenpool.corpora.load`
    setting: str  # "standard", "left", "mid" or "right" (§1.8)
    size: int  # training texts
    pooling: str  # a name in `whenpool.POOLINGS`
    seed: int = 0  # of initialisation and order of batches
    length: str = "long"  # of the original texts: "long", "short" or "any"
    share: float = SHARE  # filler's part of all words
    max_words: int | None = None  # cuts each original text before composing
    validation: int | None = None  # texts; None: as many as training texts
    test: int | None = None  # texts; None: all
    vectors: str | None = None  # name of a file of word vectors, or None: random ones
    cell: str = "lstm"  # a name in `whenpool.models.encoder.CELLS`, or "transformer"
    layers: int = 1
    bidirectional: bool = True
    embedding_size: int = 100
    hidden_size: int = 256  # per direction
    forget_bias: float | str | None = "thesis"  # see `whenpool.TextClassifier`
    drop_connect: float = 0.0
    masked: bool = True  # False: padding enters
    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    orthogonal: bool = False  # recurrent weights at the start
    trick: str | None = None  # one of `TRICKS`
    strength: float = 0.3  # of "gradient_directed": λ of the first epoch
    divergence: str = "forward"  # of "gradient_directed", see `whenpool.learnability`

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}

    @property
    def variant(self) -> str:
        """What a table calls it, see `variant_of`."""
        return variant_of(self.pooling, self.forget_bias, self.orthogonal, self.trick)

    @property
    def training(self) -> "Training":
        """Itself: see `Run`."""
        return self

    @property
    def needs(self) -> "Training | None":
        """The training of the teacher (§2.2.4): a max-pooled model as the thesis trains it."""
        if self.trick != "teacher_forcing":
            return None
        return replace(self, pooling="max", forget_bias="thesis", orthogonal=False, trick=None)

    @property
    def cost(self) -> float:
        """Words read in training, roughly: what one run takes beside another."""
        if self.trick == "gradient_directed":  # three times as much, in half of the epochs
            return 2 * replace(self, trick=None).cost
        words = 250 if self.max_words is None else min(self.max_words, 250)
        words = 40 if self.length == "short" else words
        return self.size * self.epochs * words / (1 if self.setting == "standard" else 1 - self.share)

    def identity(self, place: "Place") -> dict[str, Any]:
        """What makes a training this one: configuration, data, protocol.

        Raises:
            InputError: for an unknown corpus, setting or length, or data that are not there.
        """
        check_setting(self.setting)
        check_length(self.length)
        self._check_model()
        self._check_trick()
        source = place.source(self)
        data = {"corpus": source.fingerprint(self.length)}
        if self.setting != "standard":
            data["filler"] = source.filler_fingerprint()
        if self.vectors:
            data["vectors"] = fingerprint(place.vectors_file(self.vectors))
        return {"run": self.changed() | {"corpus": source.label}, "data": data, "protocol": PROTOCOL}

    def _check_model(self) -> None:
        cell = LISTED_CELLS.get(self.cell)
        if cell is None:
            raise InputError(f"cell {self.cell!r} is unknown; choose one of {', '.join(LISTED_CELLS)}")
        if self.layers < 1:
            raise InputError(f"layers is how many are stacked, at least 1, not {self.layers}")
        if cell.adds and self.embedding_size != self.hidden_size:
            raise InputError(
                f"cell {self.cell!r} adds words to the state: embedding_size={self.embedding_size} must "
                f"equal hidden_size={self.hidden_size}"
            )
        if cell.adds and self.layers > 1 and self.bidirectional:
            raise InputError(
                f"cell {self.cell!r} adds the states of both directions below to those of one: "
                "set layers=1 or bidirectional=False"
            )
        lacking = {
            "a forget gate to set forget_bias of": self.forget_bias not in ("thesis", None)
            and not cell.forgets,
            "recurrent weights that could be orthogonal": self.orthogonal and not cell.remembers,
            "recurrent weights for drop_connect": self.drop_connect and not cell.remembers,
            "a recurrence that padding could enter": not self.masked and not cell.recurrent,
        }
        for what, asked in lacking.items():
            if asked:
                raise InputError(f"cell {self.cell!r} lacks {what}: leave it out or choose another cell")

    def _check_trick(self) -> None:
        if self.trick != "gradient_directed" and (
            self.strength != Training.strength or self.divergence != Training.divergence
        ):
            raise InputError("strength and divergence are of gradient_directed alone; leave them out")
        if not 0 <= self.strength < math.inf:
            raise InputError(f"strength is λ of the first epoch, at least 0, not {self.strength}")
        if self.divergence not in ("forward", "reverse"):
            raise InputError(f"divergence {self.divergence!r} is unknown; choose forward or reverse")
        if self.trick is None:
            return
        if self.trick not in TRICKS:
            raise InputError(f"trick {self.trick!r} is unknown; choose one of {', '.join(TRICKS)}")
        if self.cell == "transformer":
            raise InputError(f"{self.trick} teaches a recurrence: choose another cell than transformer")
        if self.pooling != "last" or not self.masked or self.drop_connect:
            raise InputError(
                f"{self.trick} trains a model without pooling, padding masked and no weight dropped: "
                "set pooling='last', masked=True and drop_connect=0"
            )

    def __str__(self) -> str:
        words = [self.corpus, self.length, self.setting, str(self.size), self.variant]
        return " ".join(words) + ("" if self.masked else " unmasked") + f" seed {self.seed}"


@dataclass(frozen=True)
class Place:
    """Where runs find their data and leave their results."""

    store: Store
    data: Path
    cache: Path

    @classmethod
    def default(
        cls, data: Path | None = None, store: Path | None = None, smoke: bool = False
    ) -> "Place":
        """The folders that the environment or the clone names, see `whenpool.base.paths`.

        Runs of the profile "smoke" lie apart, where nothing that is published reads them.
        """
        directory = store or store_directory()
        if smoke:
            return cls(Store(directory / "smoke"), data or data_directory(), cache_directory())
        root = project_root()
        records = root / "data" / "results" if root else None
        return cls(Store(directory, records), data or data_directory(), cache_directory())

    def source(self, run: "HasCorpus") -> CorpusSource:
        return find(run.corpus, self.data)

    def vectors_file(self, name: str) -> Path:
        """Raises `InputError` when the vectors are not there."""
        for suffix in (".txt", ".txt.gz"):
            for folder in (self.data, self.data / "vectors"):
                if (folder / f"{name}{suffix}").is_file():
                    return folder / f"{name}{suffix}"
        raise InputError(
            f"word vectors {name}.txt are not in {self.data}; `whenpool data fetch glove` brings GloVe's"
        )


def find_vectors(place: Place) -> str | None:
    """The first of `VECTORS` that is there."""
    for name in VECTORS:
        try:
            place.vectors_file(name)
        except InputError:
            continue
        return name
    return None


class HasCorpus(Protocol):
    """What names its corpus."""

    @property
    def corpus(self) -> str:
        """A name for `whenpool.corpora.load`."""


class Run(Hashable, Protocol):
    """A training, a probe on one, or a few-shot run: what can be asked for, stored and looked up."""

    @property
    def training(self) -> Training | None:
        """The training itself, or that whose model is probed."""

    @property
    def needs(self) -> "Training | None":
        """The training whose weights must be here before."""

    @property
    def epochs(self) -> int:
        """Parts of the work that progress is told in."""

    @property
    def cost(self) -> float:
        """Words read, roughly: what one run takes beside another."""

    def identity(self, place: "Place") -> dict[str, Any]:
        """What makes a run this run: configuration, data, protocol.

        Raises:
            InputError: for an unknown corpus, setting or length, or data that are not there.
        """

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default."""


def key(run: Run, place: Place) -> str:
    """The key under which a run is stored."""
    return key_of(run.identity(place))
