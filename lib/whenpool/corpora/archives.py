"""Archives and packed files, read where they lie and in bounded memory: a small file may unpack to a
large one. Nothing is written, so no name in an archive leads anywhere, and links are not followed.
"""

import gzip
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from whenpool.base.errors import InputError

LARGEST_TEXT = 2**24
"""Bytes of one text, and letters of one line or field; the longest of the corpora has 70 thousand."""
LARGEST_FILE = 2**28
"""Letters of a packed file that is read as a whole."""
_GZIP = b"\x1f\x8b"


class _Bounded(io.RawIOBase):
    """A stream of which no more than `LARGEST_TEXT` is read at once, as an archive's header may ask."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= LARGEST_TEXT:
            raise tarfile.ReadError(f"a part is larger than {LARGEST_TEXT // 2**20} MB")
        return self._stream.read(size)


@contextmanager
def opened_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """An archive, gzipped or not, whose members are read one by one."""
    with path.open("rb") as packed:
        is_gzip = packed.read(2) == _GZIP
        packed.seek(0)
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=packed)) if is_gzip else packed
        with tarfile.open(fileobj=cast(IO[bytes], _Bounded(stream)), mode="r:") as archive:
            yield archive


def text_of(archive: tarfile.TarFile, member: tarfile.TarInfo, source: str) -> str:
    """A small file in an archive, which is UTF-8.

    Raises:
        InputError: for one that is larger than any text.
    """
    if member.size > LARGEST_TEXT:
        raise InputError(f"{source}: {member.name:.80} has {member.size:,} bytes, which no text has")
    file = archive.extractfile(member)
    return file.read().decode("utf-8") if file else ""


def lines_of(stream: io.TextIOBase, source: str) -> Iterator[str]:
    """The lines of a stream with their ends.

    Raises:
        InputError: for one that is longer than any text.
    """
    number = 0
    while line := stream.readline(LARGEST_TEXT):
        number += 1
        if len(line) == LARGEST_TEXT:
            raise InputError(f"{source}, line {number}: longer than {LARGEST_TEXT:,} letters")
        yield line


def whole(stream: IO[str], path: Path) -> str:
    """All of a stream.

    Raises:
        InputError: for more than `LARGEST_FILE` letters.
    """
    text = stream.read(LARGEST_FILE + 1)
    if len(text) > LARGEST_FILE:
        raise InputError(f"{path} holds over {LARGEST_FILE:,} letters; a tenth of them is enough")
    return text
