"""Finished runs, one file each, and the tables made of them.

A run is stored under a key that is the hash of its *identity*: its configuration, the fingerprints
of its data, and the version of the protocol. A file that is damaged or does not belong here does
not count, which a line says. Published runs are the same rows in CSV files of the repository, read
only.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from whenpool.base.files import write_atomically
from whenpool.base.paths import project_root

Facts = dict[str, Any]
"""Values by name: what a run is, what came out of it, and where it comes from."""
NO_FOLDER = Path(os.devnull)  # Of a store without runs
MADE = ("seconds", "together", "device", "corpus_complete", "commit", "torch", "finished")
"""Columns of every kind."""
NO_ROWS = pd.DataFrame(columns=["key"])


@dataclass
class Store:
    """A folder of finished runs, and maybe a folder of published ones beside it."""

    directory: Path
    published: Path | None = None
    damaged: list[str] = field(default_factory=list)  # a line for each damaged file that was met

    def put(
        self,
        identity: Facts,
        run: Facts,
        result: Facts,
        provenance: Facts,
        history: Iterable[Facts] = (),
        weights: bytes | None = None,
        kind: str = "training",
    ) -> str:
        """Store a finished run of a kind and return its key."""
        key = key_of(identity)
        parts = {"identity": identity, "run": run, "result": result, "provenance": provenance}
        row = {"kind": kind, **parts, "history": list(history)}
        self.write(key, json.dumps(row, indent=1), weights)
        return key

    def write(self, key: str, content: bytes | str, weights: bytes | None = None) -> None:
        """Store what `put` makes of a run, maybe elsewhere."""
        if weights is not None:  # first, so that a run whose file is there has its weights too
            write_atomically(self.weights_file(key), weights)
        write_atomically(self._file(key), content)

    def check_writable(self) -> None:
        """Raises `InputError` when the store cannot be written, before work is done for it."""
        probe = self.directory / ".writable"
        write_atomically(probe, b"")
        probe.unlink(missing_ok=True)  # another command may look at the same moment

    def get(self, key: str) -> Facts | None:
        """A stored run, or None where there is none, or its file is damaged."""
        file = self._file(key)
        if not file.exists():
            return None
        state = file.stat()
        row = _read_run(file, state.st_mtime_ns, state.st_size, state.st_ino)
        line = f"{file} is not counted: it is damaged, or another version of whenpool made it"
        if row is None and line not in self.damaged:
            self.damaged.append(line)
        return row

    def keys(self) -> set[str]:
        """The keys of all runs here, the published ones included."""
        return {key for key, _ in self._rows()} | self._published_keys()

    def has(self, key: str, with_weights: bool = False) -> bool:
        """Whether a run is done, and its weights are here if they are asked for."""
        if self.get(key):
            return not with_weights or self.weights_file(key).exists()
        return not with_weights and key in self._published_keys()

    def weights_file(self, key: str) -> Path:
        """Where the weights of a run's best epoch lie, as safetensors."""
        return self.directory / f"{key}.safetensors"

    def rows(self, kind: str) -> pd.DataFrame:
        """A row for each run of a kind, the published ones included: configuration, result,
        provenance."""
        rows = []
        for key, row in self._rows(kind):
            data = {
                f"data_{name}": value for name, value in row["identity"].get("data", {}).items()
            }
            facts = {"key": key, "protocol": row["identity"].get("protocol")}
            rows.append(facts | row["run"] | row["result"] | data | row["provenance"])
        return self._with_published(rows, _kinds()[kind].table)

    def current(self, kind: str) -> pd.DataFrame:
        """The same of runs under the protocol of this version, with every column of their kind."""
        about, table = _kinds()[kind], self.rows(kind)
        if len(table):
            table = table[about.is_current(table)].reset_index(drop=True)
        names = {*MADE, *recorded_columns(about.table), *(item.name for item in about.columns())}
        empty = pd.Series(None, table.index, object)
        return table.assign(**dict.fromkeys(sorted(names - {*table}), empty))

    def history(self, kind: str, name: str = "history") -> pd.DataFrame:
        """A row for each point of a history, such as an epoch, and the run's ``key``."""
        about = _kinds()[kind]
        runs = self._rows(kind)
        rows = [{"key": key, **point} for key, row in runs for point in about.points_of(name, row)]
        return self._with_published(rows, f"{about.table}_{name}")

    def read_published(self, name: str) -> pd.DataFrame:
        """A published file, ``<name>.csv``, or no rows."""
        file = self.published / f"{name}.csv" if self.published else NO_FOLDER
        # a copy, since pages change tables
        return _read_table(file, file.stat().st_mtime_ns).copy() if file.is_file() else NO_ROWS

    def _published_keys(self) -> set[str]:
        return {key for kind in _kinds().values() for key in self.read_published(kind.table)["key"]}

    def _with_published(self, rows: list[Facts], name: str) -> pd.DataFrame:
        """The rows that are stored here, and the published ones of other runs."""
        here, published = pd.DataFrame(rows), self.read_published(name)
        # NaN, as in a CSV file: None would make objects of published numbers
        here = here.astype(dict.fromkeys(here.columns[here.isna().all()], float))
        if len(here):
            known = {*published["key"]}  # the others come last
            here = here.sort_values("key", key=lambda keys: ~keys.isin(known), kind="stable")
            published = published[~published["key"].isin(set(here["key"]))]
        parts = [part for part in (published, here) if len(part)]
        return pd.concat(parts or [published], ignore_index=True)

    def _rows(self, kind: str | None = None) -> list[tuple[str, Facts]]:
        """The keys and contents of the runs stored here, of one kind or of all."""
        keys = sorted(file.stem for file in self.directory.glob("*.json"))
        rows = [(key, row) for key in keys if (row := self.get(key))]
        return [(key, row) for key, row in rows if kind in (None, kind_of(row))]

    def _file(self, key: str) -> Path:
        return self.directory / f"{key}.json"


def _kinds() -> Facts:
    """Every kind of run by its name; they are made of what is here, so that they come later."""
    from paper.runs.kinds import KINDS

    return KINDS


@cache
def recorded_columns(name: str) -> tuple[str, ...]:
    """The columns of a table in the repository's ``data/results``, which each like it has."""
    root = project_root()
    file = root / "data" / "results" / f"{name}.csv" if root else NO_FOLDER
    return tuple(pd.read_csv(file, nrows=0)) if file.is_file() else ()


def key_of(identity: Facts) -> str:
    """20 hexadecimal digits that depend on every value of the identity."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def kind_of(row: Facts) -> str:
    """The kind of a stored run; older files, which do not say it, are known by what they hold."""
    if "kind" in row:
        return str(row["kind"])
    marks = {"probe": "probe", "system": "few-shot", "encoding": "tagging"}
    return next((kind for name, kind in marks.items() if name in row["run"]), "training")


@cache
def _read_run(file: Path, *state: int) -> Facts | None:
    """A stored run, or None for what is none; the file is read anew when its ``state`` has
    changed."""
    try:
        row = json.loads(file.read_bytes())
        return row if key_of(row["identity"]) == file.stem and kind_of(row) in _kinds() else None
    except (ValueError, TypeError, KeyError):
        return None


@lru_cache(maxsize=64)
def _read_table(file: Path, changed: int) -> pd.DataFrame:
    """A published file, read anew when it has changed."""
    return pd.read_csv(file, dtype={"key": str})
