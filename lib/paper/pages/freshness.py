"""What each chapter is made from, compared by content. Nothing here needs torch.

A chapter is made from its text, the modules and scripts beside it that it names, the packages that
it imports and the tables of ``data`` that it reads: all of them where it asks for runs or claims,
else those that it names. A change of a docstring executes more than is needed.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

STATUS = "status"  # The page that reports on the other chapters
LOG = "executed.json"  # Beside the executed notebooks: what each was made from, and when
_IMPORT = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
_ASKS = re.compile(r"\bpaper\.(?:chapter|pages|verdicts)\b")  # for runs, claims or tables


def is_notebook(source: Path) -> bool:
    """Whether a page has cells to execute."""
    return "\nkernelspec:" in source.read_text("utf-8")


def pages_of(root: Path) -> list[str]:
    """The pages of a clone in the order of its contents, by name."""
    toc = (root / "_toc.yml").read_text("utf-8")
    return re.findall(r"(?:root|file): book/(\w+)", toc)


def text_digest(source: Path) -> str:
    """The SHA-256 of a chapter's text, whatever ends its lines."""
    return hashlib.sha256(source.read_text("utf-8").encode()).hexdigest()


def inputs(root: Path, name: str, stores: Iterable[Path], data: Path) -> dict[str, str]:
    """Digests of what a chapter is made from, by what it is called in a sentence. Stored runs and
    corpora count by name and size, runs by the date of the last one as well: a run's name says what
    it is, and corpora are large."""
    book = root / "book"
    text = (book / f"{name}.md").read_text("utf-8")
    imported = set(_IMPORT.findall(text))
    beside = [file for file in book.glob("*.py") if file.stem in imported]
    for file in beside:
        imported |= set(_IMPORT.findall(file.read_text("utf-8")))
    folders = ["whenpool"] if imported & {"whenpool", "paper"} else []
    folders += ["paper"] if "paper" in imported else []
    asks = bool(_ASKS.search(text))
    tables = [
        file for part in ("paper", "results") for file in (root / "data" / part).glob("[!.]*")
    ]
    static = (book / "_static").rglob("*.*")
    scripts = [file for file in static if file.suffix in (".html", ".js") and file.name in text]
    if "try_it" in text:
        scripts += (book / "_static" / "try_it").glob("*.js")
    made = {
        "text": text_digest(book / f"{name}.md"),
        "modules and scripts": contents_digest([*beside, *scripts]),
        "versions": contents_digest([root / "requirements.txt"]) + sys.version,
        "tables": contents_digest(file for file in tables if asks or file.stem in text),
    }
    for folder in folders:
        files = (root / "lib" / folder).rglob("[!.]*.*")
        made[f"package {folder}"] = contents_digest(
            f for f in files if f.suffix in (".py", ".toml")
        )
    if asks:
        made["titles and address"] = titles_and_address(root)
        runs = [file for store in stores for file in store.glob("*.json")]
        last = max((file.stat().st_mtime for file in runs), default=0)
        made["stored runs"] = f"{_sizes(runs)}, the last one of {last}"
        made["corpora"] = _sizes(data.rglob("*"))
    return made


def titles_and_address(root: Path) -> str:
    """A digest of what chapters say of each other and of the clone: the first heading of each, and
    the settings with the address that links below figures lead to."""
    texts = [(root / "book" / f"{name}.md").read_text("utf-8") for name in pages_of(root)]
    headings = [found[0] for text in texts if (found := re.search("(?m)^# .*", text))]
    config, fork = (root / "_config.yml").read_text("utf-8"), os.environ.get("GITHUB_REPOSITORY")
    return hashlib.sha256("\n".join([*headings, config, fork or ""]).encode()).hexdigest()


def changed(now: Mapping[str, str], before: Mapping[str, Any]) -> str:
    """Why a chapter has to be executed again, given its record; nothing where it is fresh."""
    if not before:
        return "it has not been executed yet"
    names = [
        name for name in {**now, **before["inputs"]} if now.get(name) != before["inputs"].get(name)
    ]
    return f"its {names[0]} changed" if names else ""


def read_log(stage: Path) -> dict[str, dict[str, Any]]:
    """What is known of the executed chapters, by name."""
    file = stage / LOG
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def contents_digest(files: Iterable[Path]) -> str:
    """The SHA-256 of the names and contents of files."""
    whole = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        state = file.stat()
        digest = _digest(file, state.st_size, state.st_mtime_ns)
        whole.update(f"{file.name} {digest}\n".encode())
    return whole.hexdigest()


@cache
def _digest(file: Path, size: int, changed: int) -> str:
    """The SHA-256 of a file of this size and time of change, which several chapters may read."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _sizes(files: Iterable[Path]) -> str:
    """The SHA-256 of the names and sizes of files; hidden files do not count."""
    lines = [f"{f} {f.stat().st_size}\n" for f in files if f.is_file() and f.name[0] != "."]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
