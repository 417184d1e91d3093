"""Which chapters are executed again: those of which something that they depend on has changed.

While a chapter is executed, its kernel notes every file that it opens. The hashes of those that belong to the
library, to the book's data or beside the chapter (modules), and of the chapter's text, parameters, packages,
corpora and the runs that it may show, stay in ``executed.json`` beside the executed notebooks. The pages are
rendered again when one of their sources has changed.
"""

import functools
import importlib.util
import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from whenpool.base.files import hash_of, hash_of_states

LIBRARY = Path(__file__).resolve().parents[1]


def watch(notes: str) -> None:
    """Note each file that this process opens from now on, and the modules it has loaded, a line each."""
    seen: set[str] = set()
    stream = open(notes, "w", encoding="utf-8", errors="replace", buffering=1)  # noqa: SIM115
    for module in list(sys.modules.values()):
        if file := getattr(module, "__file__", None):
            stream.write(f"{file}\n")

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.scandir", "os.listdir") and isinstance(arguments[0], str | Path):
            name = os.path.abspath(arguments[0])
            if name not in seen:
                seen.add(name)
                stream.write(f"{name}\n")

    sys.addaudithook(note)


@dataclass(frozen=True)
class Freshness:
    """Compares what chapters depend on with what they depended on when they were executed."""

    root: Path  # the clone
    parameters: Mapping[str, Any]  # what is given to every chapter
    corpora: Path  # a folder in which names, sizes and times of files count; all folders are absolute
    store: Path  # likewise
    cache: Path  # its files do not count

    def inputs(self, source: Path, keys: Collection[str] | None = None) -> dict[str, str]:
        """Hashes of what a chapter depends on, apart from the files that it opens; of the stored runs only
        those with some ``keys`` count where they are given."""
        runs = [file for file in self._stored if keys is None or file.stem in keys]
        return {"text": digest(source), **self._shared, "runs": hash_of_states(runs)}

    @functools.cached_property
    def _shared(self) -> dict[str, str]:
        """Those that are the same for every chapter."""
        return {
            "parameters": hash_of(json.dumps(self.parameters, sort_keys=True)),
            "packages": hash_of(sys.version, digest(self.root / "requirements.txt")),
            "corpora": hash_of_states(self.corpora.rglob("*")),
        }

    @functools.cached_property
    def _stored(self) -> list[Path]:
        return [*self.store.glob("*.*"), *self.store.glob("smoke/*.*")]

    def record(self, inputs: Mapping[str, str], notes: Path, began: float) -> dict[str, Any]:
        """What is to be remembered of a chapter that was executed: its `inputs` before, and the files that
        its kernel has noted; one that was edited since it ``began`` is not what the chapter has read."""
        names = {Path(name) for name in notes.read_text("utf-8").splitlines()}
        opened_runs = any(name.is_relative_to(self.store) for name in names)
        files = {}
        for name in sorted(names):
            file = name
            if name.parent.name == "__pycache__":
                file = Path(importlib.util.source_from_cache(str(name)))
            # the library's own files, the book's data, and modules beside the chapter
            own = file.is_relative_to(LIBRARY) and file.suffix in (".py", ".html", ".toml")
            own |= file.is_relative_to(self.root / "data") and not file.is_dir()
            own |= file.suffix == ".py" and file.parent == notes.resolve().parent
            if own and not any(map(file.is_relative_to, (self.corpora, self.store, self.cache))):
                edited = file.exists() and file.stat().st_mtime >= began
                files[str(file)] = "edited meanwhile" if edited else digest(file)
        inputs = {name: value for name, value in inputs.items() if opened_runs or name != "runs"}
        return {"inputs": inputs, "files": files}

    def changed(self, inputs: Mapping[str, str], record: Mapping[str, Any]) -> str:
        """Why a chapter has to be executed again, or nothing."""
        if "inputs" not in record:
            return "it has not been executed yet"
        for name, value in record["inputs"].items():
            if value != inputs.get(name):
                return f"its {name} changed"
        for name, value in record["files"].items():
            if digest(Path(name)) != value:
                library = "the library's " if Path(name).is_relative_to(LIBRARY) else ""
                base = LIBRARY if library else self.root
                return f"{library}{os.path.relpath(name, base)} changed"
        return ""


def sources_of_pages(stage: Path) -> str:
    """The hash of everything that pages are rendered from."""
    files = [file for file in stage.rglob("*") if file.is_file() and file.name != "executed.json"]
    files = [file for file in files if file.suffix != ".pyc"]
    code = [LIBRARY / "book" / name for name in ("build.py", "pages.py")]
    return hash_of(*(f"{file} {digest(file)}" for file in sorted([*files, *code])))


def digest(file: Path) -> str:
    """The SHA-256 of a file; nothing where there is none."""
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
