"""Files written so that a crash leaves none half done, and files read so that a mistake is told in a line."""

import hashlib
import math
import os
import reprlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from whenpool.base.errors import InputError, StorageError
from whenpool.base.paths import cache_directory

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write beside ``path``, then move there in one step.

    After a crash at any moment there is either the whole new file or what was there before.

    Raises:
        StorageError: when the disk is full or the folder read-only.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    with whole_file(path) as scratch:
        scratch.write(data)


@contextmanager
def whole_file(
    path: Path, what: str = "", mend: str = "what is finished stays finished"
) -> Iterator[BinaryIO]:
    """A stream to a file that gets its name when all is written; otherwise nothing is left.

    Args:
        what: stands before the file's name when it cannot be written.
        mend: ends that line.

    Raises:
        StorageError: when the disk is full or the folder read-only.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise StorageError(
            f"cannot write {what}{path}: {error.strerror or error}; free or unlock the place, {mend}"
        ) from None


def is_file(path: Path) -> bool:
    """Whether there is such a file; what cannot be a name, since it is too long, names none."""
    try:
        return path.is_file()
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file, or of the names and hashes of a folder's files.

    Remembered by name, size and time of change, since corpora can be large.
    """
    if path.is_dir():
        parts = [f"{file.name} {fingerprint(file)}" for file in sorted(path.iterdir()) if file.is_file()]
        return hash_of(*parts)
    stamp = path.stat()
    identity = hash_of(str(path.resolve()), str(stamp.st_size), str(stamp.st_mtime_ns))
    return remembered(identity, lambda: sha256_of(path))


def remembered(identity: str, compute: Callable[[], str]) -> str:
    """A short text that depends on nothing but its identity, computed once and kept in the cache."""
    memory = cache_directory() / "fingerprints" / identity
    if not memory.exists():
        write_atomically(memory, compute())
    return memory.read_text("utf-8")


def hash_of(*parts: str) -> str:
    """The SHA-256 of some texts, their borders included."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return digest.hexdigest()


@cache
def code_fingerprint(folder_or_file: Path) -> str:
    """The SHA-256 of Python sources: what was made by other code must not be taken for its like."""
    files = sorted(folder_or_file.glob("*.py")) if folder_or_file.is_dir() else [folder_or_file]
    return hash_of(*(file.read_text("utf-8") for file in files))


@dataclass(frozen=True)
class Columns:
    """What a table must be like.

    Attributes:
        required: columns that are there and have a value in each row; a number among them is finite.
        present: columns that are there besides, and may have gaps.
        numbers, flags: columns that hold numbers, or True and False, where they are there.
        unique: a column without repeated values; empty for none.
    """

    required: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    unique: str = ""

    def fault_in(self, row: Mapping[str, Any]) -> str:
        """What is wrong with a row that came from JSON, or nothing; it may lack any column."""
        for name, value in row.items():
            if not isinstance(value, str | int | float | bool | None):
                return f"{name:.40} is no plain value"
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and name in self.numbers and not is_number:
                return f"{name} is no number but {value!r:.40}"
            if value is not None and name in self.flags and not isinstance(value, bool):
                return f"{name} is neither true nor false but {value!r:.40}"
        return ""


def listed(file: Path, what: str) -> list[Any]:
    """The items of a YAML file that is one list.

    Args:
        what: the items, as a message calls them.

    Raises:
        InputError: for a file that cannot be read, or holds something else.
    """
    import yaml

    try:
        found = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"the {what} {file} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise InputError(f"{file} is not YAML of ours: brackets in too many brackets") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # the parser lets the mistakes of dates, numbers and marked types through as they come
        raise InputError(f"{file} is not YAML: {error!s:.300}") from None
    if found is None:
        return []
    if not isinstance(found, list):
        raise InputError(f"{file} is not a list of {what}")
    return found


def check_once(file: Path, what: str, ids: Sequence[str]) -> None:
    """Raises `InputError` for an id that two entries of a file have."""
    for name in ids:
        if ids.count(name) > 1:
            raise InputError(f"{file}: the {what} {name!r} stands there twice")


def shown(value: Any) -> str:
    """A value from such a file in few letters, however deep or repeated its parts are."""
    return reprlib.repr(value)


def checked_table(file: Path, what: str, columns: Columns, **text: type) -> "DataFrame":
    """A CSV file with its columns checked.

    Args:
        what: what it holds, as a message calls it.
        text: columns that are read as `str`, whatever they look like.

    Raises:
        InputError: for a file that cannot be read, a column that is missing, or a value that cannot be,
            named by its row (the first below the header is row 1) and column.
    """
    import pandas as pd

    try:
        found = pd.read_csv(file, dtype=text)
    except OSError as error:
        raise InputError(f"{what} {file} cannot be read: {error.strerror or error}") from None
    except (ValueError, OverflowError) as error:
        raise InputError(f"{what} {file} cannot be read: {error!s:.300}") from None
    for name in sorted(columns.required | columns.present, key=lambda name: (name != "key", name)):
        if name not in found:
            raise InputError(f"{what} {file} cannot be read: there is no column {name!r}")
    for name in found:
        if fault := _fault(found[name], columns):
            row, reason = fault
            raise InputError(f"{what} {file}, row {row + 1}, column {str(name)!r:.60}: {reason}")
    return found


def _fault(values: "Series", columns: Columns) -> tuple[int, str] | None:
    """The first row that is wrong, and why."""
    import pandas as pd

    name, missing = values.name, values.isna()
    wrong, reason = missing & False, ""
    if name in columns.required:
        wrong, reason = missing, "there is no value"
    if name in columns.numbers and not wrong.any():
        numbers = pd.to_numeric(values, errors="coerce") if values.dtype.kind not in "if" else values
        wrong, reason = numbers.isna() & ~missing, "it is no number"
        if values.dtype.kind == "b":
            wrong = ~missing
        elif name in columns.required and not wrong.any():
            wrong, reason = ~numbers.map(math.isfinite), "it is not finite"
    if name in columns.flags and not wrong.any():
        wrong = ~(missing | values.isin([True, False, "True", "False"]))
        reason = "it is not True or False"
        if values.dtype.kind in "if":
            wrong = ~missing
    if name == columns.unique and not wrong.any():
        wrong, reason = values.duplicated(), "it stands there twice"
    if not wrong.any():
        return None
    row = int(wrong.to_numpy().argmax())
    return row, f"{reason}, {str(values.iloc[row])!r:.60}" if not missing.iloc[row] else reason
