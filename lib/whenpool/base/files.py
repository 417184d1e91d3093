"""Files written so that a crash leaves none half done, and read so that a mistake in one is a line."""

import gzip
import hashlib
import os
import re
import reprlib
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import yaml

from whenpool.base.errors import InputError, StorageError
from whenpool.base.paths import cache_directory

if TYPE_CHECKING:  # what needs no table starts without it
    import pandas as pd


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write beside ``path``, then move there in one step: after a crash at any moment there is either the
    whole new file or what was there before.

    Raises:
        StorageError: when the disk is full or the folder read-only.
    """
    with whole_file(path) as scratch:
        scratch.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def whole_file(
    path: Path, what: str = "", mend: str = "what is finished stays finished"
) -> Iterator[BinaryIO]:
    """A stream to a file that gets its name when all is written; otherwise nothing is left.

    Args:
        what: comes before the file's name in the message that it cannot be written, which ends with
            ``mend``.

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


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file with their ends; a name that ends with .gz is unpacked.

    Raises:
        InputError: for a file that cannot be read, or a line that is not UTF-8.
    """
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for number, line in enumerate(file, 1):
                if wrong := re.search("[\udc80-\udcff]", line):  # how Python marks what is no UTF-8
                    raise InputError(
                        f"{path}, line {number}: not UTF-8 text (byte 0x{ord(wrong[0]) - 0xDC00:02x} "
                        f"behind {line[max(0, wrong.start() - 20) : wrong.start()]!r}); save the file "
                        "as UTF-8"
                    )
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', '') or error}") from None


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file, or of the names and hashes of a folder's files; remembered by name, size and
    time of change, since corpora can be large."""
    if path.is_dir():
        parts = [f"{file.name} {fingerprint(file)}" for file in sorted(path.iterdir()) if file.is_file()]
        return hash_of(*parts)

    def compute() -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    stamp = path.stat()
    return remembered(hash_of(str(path.resolve()), str(stamp.st_size), str(stamp.st_mtime_ns)), compute)


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


def listed(file: Path, what: str) -> list[Any]:
    """The items of a YAML file that is one list, called ``what`` in messages.

    Raises:
        InputError: for a file that cannot be read, or holds something else.
    """
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built
        found = loader(file.read_text("utf-8")).get_single_data()
    except OSError as error:
        raise InputError(f"the {what} {file} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # the parser lets the mistakes of dates, numbers and types through
        raise InputError(f"{file} is not YAML: {error!s:.300}") from None
    if found is not None and not isinstance(found, list):
        raise InputError(f"{file} is not a list of {what}")
    return found or []


def check_once(file: Path, what: str, ids: Sequence[str]) -> None:
    """Raises `InputError` for an id that two entries of a file have."""
    for name in ids:
        if ids.count(name) > 1:
            raise InputError(f"{file}: the {what} {name!r} stands there twice")


def shown(value: Any) -> str:
    """A value from such a file in few letters, however deep or repeated its parts are."""
    return reprlib.repr(value)


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
            is_flag = isinstance(value, bool)
            if not isinstance(value, str | int | float | bool | None):
                return f"{name:.40} is no plain value"
            if value is None:
                continue
            if name in self.numbers and (is_flag or isinstance(value, str)):
                return f"{name} is no number but {value!r:.40}"
            if name in self.flags and not is_flag:
                return f"{name} is neither true nor false but {value!r:.40}"
        return ""


def checked_table(file: Path, what: str, columns: Columns, **text: type) -> "pd.DataFrame":
    """A CSV file with its columns checked; ``what`` it holds is said in messages.

    Args:
        text: columns that are read as `str`, whatever they look like.

    Raises:
        InputError: for a file that cannot be read, a column that is missing, or a value that cannot be,
            named by its row (the first below the header is row 1) and column.
    """
    import pandas as pd

    try:
        found = pd.read_csv(file, dtype=text)
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise InputError(f"{what} {file} cannot be read: {reason:.300}") from None
    for name in sorted(columns.required | columns.present, key=lambda name: (name != "key", name)):
        if name not in found:
            raise InputError(f"{what} {file} cannot be read: there is no column {name!r}")
    for name in found:
        for wrong, reason in _checks(found[name], columns):
            if wrong.any():
                row = int(wrong.to_numpy().argmax())
                value = found[name].iloc[row]
                raise InputError(
                    f"{what} {file}, row {row + 1}, column {str(name)!r:.60}: {reason}"
                    + ("" if pd.isna(value) else f", {str(value)!r:.60}")
                )
    return found


def _checks(values: "pd.Series", columns: Columns) -> Iterator[tuple["pd.Series", str]]:
    """Which rows of a column are wrong in one way after another, and why."""
    import pandas as pd

    name, missing, kind = values.name, values.isna(), values.dtype.kind
    if name in columns.required:
        yield missing, "there is no value"
    if name in columns.numbers:
        numbers = pd.to_numeric(values, errors="coerce")
        yield ~missing & (numbers.isna() | (kind == "b")), "it is no number"
        if name in columns.required:
            yield ~numbers.astype(float).abs().lt(float("inf")), "it is not finite"
    if name in columns.flags:
        is_flag = values.isin([True, False, "True", "False"]) & (kind not in "if")
        yield ~missing & ~is_flag, "it is not True or False"
    if name == columns.unique:
        yield values.duplicated(), "it stands there twice"
