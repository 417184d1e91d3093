"""Which chapters are executed again: those of which something that they depend on has changed.

A chapter depends on its text and parameters, on packages and corpora, on the small tables of ``data``, on
the modules that its kernel has imported from the library or from beside it, on the runs of its request, and
on the answers that the finished runs gave to what it asked of them. Hashes of all these stay in
``executed.json`` beside the executed notebooks. The pages are rendered again when one of their sources
has changed.
"""

import functools
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from whenpool.base.files import hash_of, hash_of_states
from whenpool.book.report.claims import ask_again
from whenpool.book.report.measures import READS, Runs
from whenpool.runs.kinds import KINDS

LIBRARY = Path(__file__).resolve().parents[1]
LAST_CELL = "from whenpool.book import fresh\nprint(fresh.used())"
"""What a chapter's kernel executes last; its output is what `Freshness.record` is given."""


def used() -> str:
    """The modules that this process has imported from the library or its working directory, and what it has
    asked of finished runs, as JSON."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())} - {None}
    here = (LIBRARY, Path.cwd())
    near = sorted(str(file) for file in files if any(map(Path(str(file)).is_relative_to, here)))
    return json.dumps({"files": near, "asked": READS})


@dataclass(frozen=True)
class Freshness:
    """Compares what chapters depend on with what they depended on when they were executed."""

    root: Path  # the clone
    parameters: Mapping[str, Any]  # what is given to every chapter
    corpora: Path  # a folder in which names, sizes and times of files count
    runs: Runs  # the finished ones

    def inputs(self, source: Path, keys: Iterable[str] = ()) -> dict[str, str]:
        """Hashes of what a chapter depends on, apart from what its kernel `used`; ``keys``: of its runs."""
        return {"text": digest(source), **self._shared, "runs": hash_of(*sorted(keys))}

    @functools.cached_property
    def _shared(self) -> dict[str, str]:
        """Those that are the same for every chapter."""
        ours = {f"{kind.table}{history and '_'}{history}" for kind in KINDS.values()
                for history in ("", *kind.histories)}  # fmt: skip
        tables = [file for file in self.root.glob("data/*/*.csv") if file.stem not in ours]
        files = [*tables, *self.root.glob("data/paper/advice.yml"), *LIBRARY.rglob("*.html")]
        return {
            "parameters": hash_of(json.dumps(self.parameters, sort_keys=True)),
            "packages": hash_of(sys.version, digest(self.root / "requirements.txt")),
            "corpora": hash_of_states(self.corpora.rglob("*")),
            "tables": hash_of(*(f"{file.name} {digest(file)}" for file in sorted(files))),
        }

    @functools.cached_property
    def state(self) -> str:
        """Changes whenever a run is stored or published, or a claim is edited."""
        folder = self.root / "data"
        stored = self.runs.store.directory.glob("*.json")
        return hash_of_states([*stored, *folder.glob("*/*.csv"), *folder.glob("*/*.yml")])

    def record(self, inputs: Mapping[str, str], told: str, began: float) -> dict[str, Any]:
        """What is to be remembered of a chapter that was executed: its `inputs` before, and what its kernel
        `used`; a module that was edited since it ``began`` is not what the chapter has imported."""
        kernel, files = json.loads(told), {}
        for file in map(Path, kernel["files"]):
            edited = file.exists() and file.stat().st_mtime >= began
            files[str(file)] = "edited meanwhile" if edited else digest(file)
        return {"inputs": inputs, "files": files, "asked": kernel["asked"], "state": self.state}

    def changed(self, inputs: Mapping[str, str], record: Mapping[str, Any]) -> str:
        """Why a chapter has to be executed again, or nothing."""
        if "asked" not in record:
            return "it has not been executed yet"
        for name, value in record["inputs"].items():
            if value != inputs.get(name):
                return f"its {name} changed"
        for name, value in record["files"].items():
            if digest(Path(name)) != value:
                library = "the library's " if Path(name).is_relative_to(LIBRARY) else ""
                return f"{library}{os.path.relpath(name, LIBRARY if library else self.root)} changed"
        if record["state"] != self.state:
            new = [query for query in record["asked"] if query not in self._today]
            self._today.update(ask_again(self.runs, new))
            for query, answer in record["asked"].items():
                if answer != self._today[query]:
                    return f"its {' '.join(map(str, json.loads(query)[:2]))} changed"
        return ""

    @functools.cached_property
    def _today(self) -> dict[str, str]:
        """The answers of today to what chapters have asked, as far as they were asked for again."""
        return {}


def sources_of_pages(stage: Path) -> str:
    """The hash of everything that pages are rendered from."""
    files = [file for file in stage.rglob("*") if file.is_file() and file.name != "executed.json"]
    files = [file for file in files if file.suffix != ".pyc"]
    code = [LIBRARY / "book" / name for name in ("build.py", "pages.py")]
    return hash_of(*(f"{file} {digest(file)}" for file in sorted([*files, *code])))


def digest(file: Path) -> str:
    """The SHA-256 of a file; nothing where there is none."""
    return _digest(file, file.stat().st_mtime_ns) if file.is_file() else ""


@functools.cache
def _digest(file: Path, changed: int) -> str:
    return sha256(file.read_bytes()).hexdigest()
