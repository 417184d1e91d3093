"""What every kind of run offers: one interface, and the table of kinds.

A new kind is one file, with a frozen dataclass that derives from `Run`, and one line in
``whenpool/runs/kinds/__init__.py``.
"""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from whenpool.base.files import fingerprint
from whenpool.base.tables import Columns
from whenpool.corpora.tokens import load_vectors

if TYPE_CHECKING:
    from whenpool.runs.kinds.training import Training
    from whenpool.runs.run import Place

KINDS: dict[str, "type[Run]"] = {}  # Every kind of run by its name
OnEpoch = Callable[[], None] | None  # Called at the end of each epoch of a run


class Run:
    """What can be asked for, stored and looked up: a frozen dataclass of its configuration. It has a field
    ``corpus`` and a field ``seed``; a probe has a training instead. The default of a field must never
    change: fields at their default do not enter the key of a run, so that a field added later leaves
    older runs valid."""

    # A subclass sets these without an annotation, which would make them fields
    kind: ClassVar[str]  # its name in `KINDS`; it is written into each stored file
    table: ClassVar[str]  # published in <table>.csv, its histories in <table>_<history>.csv
    protocol: ClassVar[int] = 1  # raised by hand when the meaning of a result changes
    required: ClassVar[str] = ""  # columns of the published file that have a value in each row
    present: ClassVar[str] = ""  # columns that are there besides, and may have gaps
    results: ClassVar[str] = ""  # numbers of a result
    flags: ClassVar[str] = "corpus_complete"  # results that are true or false
    # columns of each history, of which the first is no other's; a row is an epoch or position
    histories: ClassVar[Mapping[str, str]] = {}
    points: ClassVar[str] = ""  # all numbers that such a row can have
    order: ClassVar[Sequence[str]] = ("corpus", "seed", "key")  # columns that sort published rows

    training: "Training | None" = None  # the training itself, or that whose model is probed

    if TYPE_CHECKING:  # fields of most kinds
        vectors: str | None  # the name of word vectors

        @property
        def epochs(self) -> int: ...  # parts of the work that progress counts

        @property
        def cost(self) -> float: ...  # words read in training, roughly

    @property
    def needs(self) -> "Training | None":
        """The training whose weights must be here before."""
        return None

    @property
    def phase(self) -> tuple[int, str]:
        """When it is executed among other runs, and what they are called."""
        return 9, self.kind

    @property
    def work(self) -> float:
        """`cost`, and what is read without learning from it."""
        return self.cost

    @property
    def shape(self) -> Self:
        """The run without its vectors and folders: a published one like it counts where they are not here."""
        return replace(self, vectors=None) if hasattr(self, "vectors") else self  # type: ignore[type-var]

    def alike(self) -> Iterable[tuple[Hashable, float]]:
        """Groups of runs less and less like this one, with its work in their unit; its time is theirs."""
        yield ("the same", self.shape), 1.0
        yield (self.kind,), self.work

    def rank(self) -> tuple[Any, ...]:
        """A sort key, the most informative runs first, so that wherever a list is cut, what comes before is a
        grid with fewer seeds, then sizes, settings, lengths, corpora and poolings."""
        return (getattr(self, "seed", 0), (False, 0), 0, (0, ""), (0, ""), (0, ""), True, 0, repr(self))

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}  # type: ignore[arg-type]

    def row(self) -> dict[str, Any]:
        """The configuration, as it is stored."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def of_row(cls, row: Any) -> Self:
        """The configuration of a row of `Store.rows`: numbers may be fractions, and fields missing."""
        return cls(**values_of(row, cls))

    def identity(self, place: "Place") -> dict[str, Any]:
        """What makes a run this run: configuration, data, protocol. Raises `InputError` for a configuration
        that cannot be run, or data that are not there."""
        raise NotImplementedError

    def identified(self, place: "Place", label: str, **data: str) -> dict[str, Any]:
        """An identity: the ``label`` of the corpus, the fingerprints of ``data``, and that of the vectors."""
        if self.vectors:
            data["vectors"] = fingerprint(place.vectors_file(self.vectors))
        return {"run": self.changed() | {"corpus": label}, "data": data, "protocol": self.protocol}

    def execute(
        self, place: "Place", device: str = "cpu", keep_weights: bool = False, on_epoch: OnEpoch = None
    ) -> str:
        """Execute and store the run; returns its key. Raises `InputError` for data that cannot be read, a
        loss that diverges, or weights that are needed and not here."""
        raise NotImplementedError

    @classmethod
    def read_ahead(cls, runs: Sequence[Any], place: "Place", device: str) -> Iterable[str]:
        """Read once what runs of this kind share; returns notes on their corpora, a sentence each."""
        for name in {run.vectors for run in runs if getattr(run, "vectors", None)}:
            load_vectors(place.vectors_file(name), place.cache)
        return ()

    @classmethod
    def is_current(cls, rows: Any) -> Any:
        """Which rows are under the protocol of this version, as a boolean series."""
        return rows["protocol"] == cls.protocol

    @classmethod
    def points_of(cls, history: str, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What a stored run has of one of its histories."""
        first = cls.histories[history].split()[0]
        return [point for point in row["history"] if first in point]

    @classmethod
    def configured(cls) -> list[type]:
        """The dataclasses whose fields its columns hold."""
        return [cls]

    @classmethod
    @cache
    def columns(cls) -> Columns:
        """What the columns of its published file, and of a stored run, hold."""
        numbers = f"protocol seconds threads together {cls.results}"
        flags = cls.flags
        for field in (field for part in cls.configured() for field in fields(part)):
            kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
            holds = set(kind.split(" | ")) - {"None"}
            if holds <= {"int", "float"}:
                numbers += f" {field.name}"
            elif holds == {"bool"}:
                flags += f" {field.name}"
        present = f"seconds commit device torch finished {cls.present}"
        return Columns(f"key protocol {cls.required}", present, numbers, flags, "key")

    @classmethod
    @cache
    def names(cls) -> frozenset[str]:
        """Every column that a row of this kind can have, except what its data and its making add."""
        known = cls.columns()
        own = {field.name for part in cls.configured() for field in fields(part)}
        return (known.required | known.present | known.numbers | known.flags | own) - {"training"}

    @classmethod
    @cache
    def point_columns(cls, history: str | None = None) -> Columns:
        """`columns` of a history's file, or without a name of the points of a stored run."""
        return Columns(f"key {cls.histories[history]}" if history else "", numbers=cls.points)


def scores_of(outcome: Any, labels: Any = None) -> dict[str, Any]:
    """What every training stores of its outcome; with test labels how often the commonest is right."""
    scores = {
        "test_accuracy": outcome.test.accuracy,
        "test_loss": outcome.test.loss,
        "validation_accuracy": outcome.validation_accuracy,
        "best_epoch": outcome.best_epoch,
    }
    if labels is not None:
        scores["majority_accuracy"] = 100 * int(labels.bincount().max()) / len(labels)
    return scores


def values_of(row: Any, kind: Any) -> dict[str, Any]:
    """The values of a dataclass's fields from a row of a table, see `Run.of_row`."""
    values: dict[str, Any] = {}
    for field in fields(kind):
        value, text = row.get(field.name), str(field.type)
        if value != value or value is None:  # NaN stands for None in tables
            value = None if "None" in text or field.default is MISSING else field.default
        elif isinstance(field.default, bool | int | float):
            value = type(field.default)(value)
        elif "int" in text:
            value = int(value)
        elif "float" in text:  # or a name
            with suppress(ValueError):
                value = float(value)
        values[field.name] = value
    return values


def key_of(identity: Mapping[str, Any]) -> str:
    """20 hexadecimal digits that depend on every value of the identity."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]
