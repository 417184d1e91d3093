"""Files written so that a crash leaves none half done, and read so that a mistake in one is a
line."""

import gzip
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from whenpool.base.errors import InputError, StorageError, check
from whenpool.base.paths import cache_directory


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a whole file or, when anything fails, leave what was there before; see `whole_file`."""
    with whole_file(path) as stream:
        stream.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream to a file that gets its name when all is written; to a device or a pipe at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        unfinished = path.with_name(f".{path.name}.{token_hex(4)}")
        try:
            with unfinished.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; "
            "free space or unlock its folder; finished work is kept"
        ) from None


def stream_of(path: Path) -> Any:
    """The bytes of a file as a stream, unpacked where they are gzipped, whatever its name."""
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_packed else path.open("rb")


MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""The encodings of files that begin with a byte order mark."""


def lines_of(path: Path, encoding: str | None = None) -> Iterator[str]:
    """The lines of a text file with their ends, unpacked where it is gzipped: in the encoding that
    its mark names, else in the one that the user gives, "" if none, else in UTF-8; None where none
    can be given.
    Raises `InputError` for a file that is missing, or bytes that are no such text."""
    try:
        with stream_of(path) as stream:
            head = stream.peek(3)
            marked = (name for mark, name in MARKS.items() if head.startswith(mark))
            used = next(marked, encoding or "utf-8")
            text = io.TextIOWrapper(stream, used, errors="surrogateescape", newline="")
            for number, line in enumerate(text, 1):
                where = f"{path}, line {number}"
                binary = f"{where} is binary, or UTF-16 without a mark; save the file as UTF-8 text"
                check(number > 1 or "\0" not in line, binary)
                # how Python marks what it cannot decode
                if wrong := re.search("[\udc80-\udcff]", line):
                    before = line[max(wrong.start() - 20, 0) : wrong.start()]
                    other = ", or name its encoding, as --encoding cp1252" if encoding == "" else ""
                    raise InputError(
                        f"{where} is not {used.upper()} text (byte 0x{ord(wrong[0]) - 0xDC00:02x} "
                        f"after {before!r}); save it as UTF-8{other}"
                    )
                yield line.removeprefix("\ufeff") if number == 1 else line
    except LookupError:
        raise InputError(
            f"{path}: encoding {encoding!r:.60} is unknown; "
            "name one of Python's, such as cp1252 or utf-16"
        ) from None
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
    ) as error:  # the last for names with a null byte
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} cannot be read: {getattr(error, 'strerror', '') or error}"
        ) from None


def json_lines(
    path: Path, expected: str, encoding: str | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The place and the content of each object in a file of JSON lines, ``expected`` in
    messages."""
    for number, line in enumerate(lines_of(path, encoding), 1):
        if line.strip():
            where = f"{path}, line {number}"
            row = None
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
            if not isinstance(row, dict):
                raise InputError(f"{where}: expected {expected}, but found {line.strip()!r:.40}")
            yield where, row


POINTER = b"whenpool: this file stands for another one, whose SHA-256 is "
"""What files begin with that `whenpool pack` writes."""


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file, or of a folder's names and hashes; remembered, since corpora can be
    large."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return hash_of(*(f"{file.relative_to(path)} {fingerprint(file)}" for file in files))

    def compute() -> str:
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                return file.read(65).decode("ascii")
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()

    stamp = path.stat()
    # what takes a file's place may have its size and date, but not its number and time of change
    about = stamp.st_size, stamp.st_mtime_ns, stamp.st_ino, stamp.st_ctime_ns
    return remembered(hash_of(str(path.resolve()), *map(str, about)), compute)


def remembered(identity: str, compute: Callable[[], str]) -> str:
    """A short text that depends on nothing but its identity, computed once and kept in the
    cache."""
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
    """The SHA-256 of Python sources and tables: what other code has made must not be taken for its
    like."""
    inside = [*folder_or_file.glob("[!.]*.py"), *folder_or_file.glob("[!.]*.toml")]
    files = sorted(inside) or [folder_or_file]
    return hash_of(*(file.read_text("utf-8") for file in files))
