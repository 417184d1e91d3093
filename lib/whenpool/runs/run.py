"""Where the data and results of runs lie, and where a result comes from."""

import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch

from whenpool.base.errors import InputError
from whenpool.base.paths import cache_directory, data_directory, project_root, store_directory
from whenpool.corpora import CorpusSource, find
from whenpool.models.batched_lstm import kernels_on
from whenpool.models.precision import precision_used
from whenpool.runs.kinds.base import Run as Run
from whenpool.runs.kinds.base import key_of
from whenpool.runs.store import Store

VECTORS = ("glove.6B.100d", "wiki-reviews.100d")
"""Word vectors that the paper's protocol looks for, best first (§1.4.2)."""


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
        """The folders of `whenpool.base.paths`; runs of the profile "smoke" lie apart."""
        directory, root = store or store_directory(), project_root()
        records = root / "data" / "results" if root else None
        found = Store(directory / "smoke") if smoke else Store(directory, records)
        return cls(found, data or data_directory(), cache_directory())

    def source(self, run: Any) -> CorpusSource:
        """The corpus that a run reads."""
        return find(run.corpus, self.data)

    def vectors_file(self, name: str) -> Path:
        """The file of some word vectors, by name or full path; raises `InputError` when it is not there."""
        for folder, suffix in product((self.data, self.data / "vectors"), (".txt", ".txt.gz", "")):
            if (file := folder / f"{name}{suffix}").is_file():
                return file
        bring = "`whenpool data fetch glove` downloads GloVe's"
        raise InputError(f"found no word vectors {name}, as a file or in {self.data}; {bring}")


def find_vectors(place: Place) -> str | None:
    """The first of `VECTORS` that is there, or None."""
    for name in VECTORS:
        with suppress(InputError):
            place.vectors_file(name)
            return name
    return None


def key(run: Run, place: Place) -> str:
    """The key under which a run is stored."""
    return key_of(run.identity(place))


# where a result comes from: code, versions, machine, time; no part of the key of a run

_engine = "local"


def engine_is(name: str) -> None:
    """Say which engine this process works for."""
    global _engine
    _engine = name


def provenance(device: str, together: int = 1, group: str = "") -> dict[str, Any]:
    """What is stored beside a result computed now on a device, ``together`` with a ``group`` of models."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    precision = precision_used()
    if precision == "tf32x3" and not (together > 1 and kernels_on(device)):
        precision = "float32"  # which is computed instead
    return {
        "commit": commit(), "device": f"{device.split(':')[0]}: {name}",
        "threads": torch.get_num_threads(), "precision": precision, "together": together, "group": group,
        "engine": _engine, "torch": torch.__version__, "python": platform.python_version(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


@cache
def commit() -> str:
    """The commit of the clone, with "+" where files differ from it; "" outside a clone."""
    root = project_root()
    if root is None:
        return ""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "--short=12", "HEAD")
    return head + ("+" if head and git("status", "--porcelain", "--", "lib") else "")


@cache
def processor() -> str:
    """The name of this machine's processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
