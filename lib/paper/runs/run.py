"""What a run is, where its data and results lie, and where a result comes from.

A new kind of run is one file in ``paper/runs/kinds``, with a frozen dataclass that derives from
`Run`, and one line in ``paper/runs/kinds/__init__.py``.
"""

import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import safetensors.torch
import torch

from paper.runs.store import Facts, Store, key_of
from whenpool.base.files import fingerprint
from whenpool.base.paths import cache_directory, data_directory, project_root, store_directory
from whenpool.corpora import CorpusSource, find
from whenpool.corpora.tokens import WordVectors, load_vectors, vectors_file
from whenpool.models.precision import precision_used

if TYPE_CHECKING:
    from paper.runs.kinds.training import Training


@dataclass(frozen=True)
class Place:
    """Where runs find their data and leave their results."""

    store: Store
    data: Path
    cache: Path
    engine: str = "local"  # that executes them here, see `paper.runs.engine.Workforce`

    @classmethod
    def default(
        cls, data: Path | None = None, store: Path | None = None, smoke: bool = False
    ) -> Self:
        """The folders of `whenpool.base.paths`; runs of the profile "smoke" lie apart."""
        directory, root = store or store_directory(), project_root()
        published = root / "data" / "results" if root else None
        results = Store(directory / "smoke") if smoke else Store(directory, published)
        return cls(results, data or data_directory(), cache_directory())

    def source(self, run: Any) -> CorpusSource:
        """The corpus that a run reads."""
        return find(run.corpus, self.data)

    def vectors_file(self, name: str) -> Path:
        """See `whenpool.corpora.tokens.vectors_file`."""
        return vectors_file(name, self.data)

    def vectors(self, name: str | None) -> WordVectors | None:
        """Some word vectors by name."""
        return load_vectors(self.vectors_file(name), self.cache) if name else None


class Run:
    """What can be asked for, stored and looked up: a frozen dataclass of its configuration. It has
    a field ``corpus`` and a field ``seed``; a probe has a training instead. The default of a field
    must never change: fields at their default do not enter the key of a run, so that a field added
    later leaves older runs valid."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    # A subclass sets these without an annotation, which would make them fields
    kind: ClassVar[str]  # its name in `KINDS`; it is written into each stored file
    table: ClassVar[str]  # published in <table>.csv, its histories in <table>_<history>.csv
    protocol: ClassVar[int] = 1  # raised by hand when the meaning of a result changes
    # of each history a column that no other has; a row is an epoch or position
    histories: ClassVar[Mapping[str, str]] = {"history": "epoch"}
    order: ClassVar[Sequence[str]] = ("corpus", "seed", "key")  # columns that sort published rows

    training: "Training | None" = None  # the run itself, or that whose model is probed
    vectors: str | None  # the name of word vectors, of most kinds

    @property
    def cost(self) -> float:
        """Words that are read; those that nothing is learnt from count a third."""
        raise NotImplementedError

    @property
    def needs(self) -> "Training | None":
        """The training whose weights must be here before."""
        return None

    @property
    def about(self) -> Any:
        """What has data, a seed and a model: the run itself, of a probe the training."""
        return self.training or self

    @property
    def recurrent(self) -> bool:
        """Whether its model has a recurrence, which alone may be computed in less than float32."""
        return getattr(self.about, "cell", "lstm") != "transformer"

    @property
    def long_memory(self) -> bool:
        """Whether its forget gates start so open that its cells remember many words."""
        start = getattr(self.about, "forget_bias", None)
        drawn = start in ("chrono", "chrono forget")
        return drawn or (not isinstance(start, str | None) and start > 2)

    @property
    def phase(self) -> float:
        """When it is executed among other runs: after what it needs."""
        return 1.0 + self.needs.phase if self.needs else 0.0

    @property
    def named(self) -> Self:
        """The run with its files by their names, without folders."""
        return self

    @property
    def shape(self) -> Self:
        """The run without its vectors and folders: a published one like it counts where they are
        not here."""
        return replace(self.named, vectors=None) if hasattr(self, "vectors") else self

    def rank(self) -> tuple[int, int]:
        """A sort key: wherever a list is cut, what comes before is a grid with fewer seeds, then
        sizes."""
        return getattr(self.about, "seed", 0), getattr(self.about, "size", 0)

    @classmethod
    def columns(cls) -> list[Field[Any]]:
        """Its fields and those of its parts, side by side as tables have them."""
        return [*fields(cls)]

    def changed(self) -> Facts:
        """The columns that are not at their default."""
        defaults = {column.name: column.default for column in self.columns()}
        values = {name: getattr(self, name) for name in defaults}
        return {name: value for name, value in values.items() if value != defaults[name]}

    def values(self, names: str) -> Facts:
        """Some of its fields."""
        return {name: getattr(self, name) for name in names.split()}

    def row(self) -> Facts:
        """The configuration, as it is stored."""
        named = self.named
        return {column.name: getattr(named, column.name) for column in self.columns()}

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.changed().items())])

    @classmethod
    def of_row(cls, row: Any) -> Self:
        """The configuration of a row of `Store.rows`: numbers may be fractions, and columns
        missing."""
        return cls(**cls.options_of(row))

    @classmethod
    def options_of(cls, row: Any) -> Facts:
        """What a row has of the columns."""
        return {column.name: _value_of(row, column) for column in cls.columns()}

    def identity(self, place: Place) -> Facts:
        """What makes a run this run: configuration, data, protocol. Raises `InputError` for a
        configuration that cannot be run, or data that are not there."""
        raise NotImplementedError

    def identified(self, place: Place, label: str, **data: str) -> Facts:
        """An identity: the ``label`` of the corpus, the fingerprints of ``data``, and that of the
        vectors."""
        if self.vectors:
            data["vectors"] = fingerprint(place.vectors_file(self.vectors))
        return {
            "run": self.named.changed() | {"corpus": label},
            "data": data,
            "protocol": self.protocol,
        }

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        """Execute and store the run; returns its key. Raises `InputError` for data that cannot be
        read, a loss that diverges, or weights that are needed and not here."""
        raise NotImplementedError

    def put(
        self,
        place: Place,
        result: Facts,
        made: Facts,
        history: Iterable[Facts] = (),
        weights: Any = None,
    ) -> str:
        """Store a result and its history, with the `provenance` and maybe weights; returns the
        key."""
        kept = safetensors.torch.save(weights) if weights else None
        identity, made = self.identity(place), {**made, "engine": place.engine}
        return place.store.put(identity, self.row(), result, made, history, kept, self.kind)

    @classmethod
    def is_current(cls, rows: Any) -> Any:
        """Which rows are under the protocol of this version, as a boolean series."""
        return rows["protocol"] == cls.protocol

    @classmethod
    def points_of(cls, history: str, row: Facts) -> list[Facts]:
        """What a stored run has of one of its histories."""
        return [point for point in row["history"] if cls.histories[history] in point]


def key(run: Run, place: Place) -> str:
    """The key under which a run is stored."""
    return key_of(run.identity(place))


def _value_of(row: Any, column: Field[Any]) -> Any:
    """What a row of a table has of a column, see `Run.of_row`."""
    types, default = str(column.type), column.default
    value = row[column.name] if default is MISSING else row.get(column.name)
    if value is None or value != value:  # NaN stands for None in tables
        return None if "None" in types or default is MISSING else default
    if isinstance(default, bool | int | float):
        return type(default)(value)
    if "int" in types or "float" in types:
        with suppress(ValueError):  # it may be a name
            return int(value) if "int" in types else float(value)
    return value


# where a result comes from: code, versions, machine, time; no part of the key of a run


def provenance(device: str, together: int = 1, group: str = "") -> Facts:
    """What is stored beside a result computed now on a device, ``together`` with a ``group`` of
    models."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    return {
        "commit": commit(),
        "device": f"{device.split(':')[0]}: {name}",
        "threads": torch.get_num_threads(),
        "precision": precision_used(),
        "together": together,
        "group": group,
        "engine": "local",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": kind_of_processor(),
    }


@cache
def commit() -> str:
    """That of the clone whose code this process has loaded; "" where it is in none."""
    folder = Path(__file__).resolve().parents[3]
    return commit_of(folder) if (folder / "_toc.yml").is_file() else ""


def commit_of(clone: Path, digits: int = 12) -> str:
    """The commit of a clone, with "+" where its files differ from it; "" where there is none."""
    git = ["git", "describe", "--always", "--exclude=*", f"--abbrev={digits}", "--dirty=+"]
    done = subprocess.run(git, cwd=clone, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@cache
def kind_of_processor() -> str:
    """What several processors of one name differ in: family and model, and the instruction sets
    that torch uses there, such as "family 25, model 1, AVX2"; the order of sums depends on them."""
    about = _about_processor()
    kind = [f"{n.removeprefix('cpu ')} {about[n]}" for n in ("cpu family", "model") if n in about]
    tests = {"bfloat16": "_is_avx512_bf16_supported", "AMX": "_is_amx_tile_supported"}
    kind.append(torch.backends.cpu.get_cpu_capability())
    kind += [name for name, test in tests.items() if getattr(torch.cpu, test, lambda: False)()]
    return ", ".join(kind)


@cache
def _about_processor() -> dict[str, str]:
    """What Linux says of this machine's first processor; elsewhere nothing."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        parts = (line.partition(":") for line in lines)
        return {name.strip(): value.strip() for name, _, value in parts}
    return {}


def processor() -> str:
    """The name of this machine's processor."""
    name = _about_processor().get("model name")
    return name or platform.processor() or platform.machine()
