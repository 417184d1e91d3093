"""The four corpora of the thesis, in the formats of their publishers (§1.4.1).

Archives are read where they lie; nothing is unpacked to disk.
"""

import csv
import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast

from whenpool.base.errors import InputError
from whenpool.corpora.corpus import Corpus, Raw, SplitSizes, has_length, select_and_split

AMAZON_CATEGORIES = (
    "Automotive",
    "Books",
    "Clothing_Shoes_and_Jewelry",
    "Electronics",
    "Movies_and_TV",
    "Arts_Crafts_and_Sewing",
    "Toys_and_Games",
    "Pet_Supplies",
    "Sports_and_Outdoors",
    "Grocery_and_Gourmet_Food",
    "CDs_and_Vinyl",
    "Tools_and_Home_Improvement",
    "Software",
    "Office_Products",
    "Patio_Lawn_and_Garden",
    "Home_and_Kitchen",
    "Industrial_and_Scientific",
    "Luxury_Beauty",
    "Musical_Instruments",
    "Kindle_Store",
)
YAHOO_TOPICS = (
    "Society & Culture",
    "Science & Mathematics",
    "Health",
    "Education & Reference",
    "Computers & Internet",
    "Sports",
    "Business & Finance",
    "Entertainment & Music",
    "Family & Relationships",
    "Politics & Government",
)
AMAZON_REVIEWS_READ = 100_000
"""Per category: some files hold tens of millions, of which 2,500 are needed."""


@dataclass(frozen=True)
class Publication:
    """What is taken of a corpus, as the thesis says for its own, and how its files are found and read.

    Attributes:
        files: where it may lie under the data directory, the first being the publisher's archive.
        longest: the upper bound of words of a long text.
        sizes: of the splits, by length.
        texts, classes: how many the publisher's files hold, to tell a part of them from the whole.
        table: the thesis's table of accuracies on its long texts; none for what the thesis has not.
    """

    files: tuple[str, ...]
    read: Callable[[Path], Iterator[Raw]]
    longest: int | None
    sizes: dict[str, SplitSizes]
    texts: int
    classes: int
    table: str = ""

    def find(self, directory: Path) -> Path | None:
        """The first of the files that is there."""
        return next((directory / name for name in self.files if (directory / name).exists()), None)


def load_published(name: str, path: Path, length: str) -> Corpus:
    """Read, select and split one of `PUBLICATIONS` from where it lies.

    Raises:
        InputError: for an archive or a row that cannot be read.
    """
    publication = PUBLICATIONS[name]
    total = 0

    def of_right_length() -> Iterator[Raw]:
        nonlocal total
        for item in publication.read(path):
            total += 1
            if has_length(item.text, length, publication.longest):
                yield item

    sizes = publication.sizes.get(length, SplitSizes(25_000, 12_500))
    try:
        selected = select_and_split(of_right_length(), sizes, str(path))
    except (tarfile.TarError, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is damaged or not in the publisher's format ({error!s:.200}); "
            f"move it away and run `whenpool data fetch {name}`"
        ) from None
    splits = (selected.train, selected.test, selected.validation)
    enough = length not in publication.sizes or tuple(map(len, splits)) == sizes  # the thesis has none
    complete = total >= publication.texts and len(selected.classes) == publication.classes and enough
    notes = () if complete else (_part_note(name, total, selected),)
    return Corpus(
        selected.train, selected.validation, selected.test, selected.classes, name, complete, notes
    )


def _part_note(name: str, total: int, corpus: Corpus) -> str:
    classes = f" in {len(corpus.classes)} classes" if name == "amazon" else ""
    return (
        f"The {name} files hold {total:,} texts{classes}, not all that their publisher gives: "
        "a part or a stand-in, whose accuracies are not compared with the thesis's."
    )


def _read_imdb(path: Path) -> Iterator[Raw]:
    """``aclImdb/{train,test}/{neg,pos}/ID_RATING.txt``.

    The publisher's two parts share no film, so they are kept apart.
    """
    with opened_tar(path) as archive:
        for member in archive:
            if not member.isreg():  # no link is followed
                continue
            match member.name.removeprefix("./").split("/"):
                case ["aclImdb", ("train" | "test") as part, ("neg" | "pos") as label, _]:
                    yield Raw(text_of(archive, member, str(path)), label, part)


def _read_zhang(path: Path, columns: int, classes: tuple[str, ...]) -> Iterator[Raw]:
    """``train.csv`` and ``test.csv`` of Zhang et al. (2015): class number first, text last."""
    for name, lines in _zhang_files(path):
        for number, row in _csv_rows(lines, f"{path}, {name}"):
            if len(row) != columns or not row[0].isdecimal():
                raise InputError(
                    f"{path}, {name}, row {number}: expected a class number and {columns} columns, "
                    f"found {len(row)} columns starting with {row[:1]!s:.60}"
                )
            label = int(row[0]) if len(row[0]) < 10 else 0
            if not 1 <= label <= len(classes):
                raise InputError(f"{path}, {name}, row {number}: there is no class {row[0]:.20}")
            yield Raw(row[-1].replace("\\n", " ").replace('\\"', '"'), classes[label - 1])


def _zhang_files(path: Path) -> Iterator[tuple[str, io.TextIOBase]]:
    with opened_tar(path) as archive:
        for name in ("train.csv", "test.csv"):
            regular = (m for m in archive.getmembers() if m.isreg())
            member = next((m for m in regular if m.name.endswith(f"/{name}")), None)
            file = archive.extractfile(member) if member else None
            if file is None:
                raise InputError(f"{path} holds no {name}; it is not the publisher's archive")
            yield name, io.TextIOWrapper(file, "utf-8", newline="")


def _csv_rows(lines: io.TextIOBase, source: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LARGEST_TEXT)
    reader = csv.reader(lines_of(lines, source))
    number = 0
    try:
        for number, row in enumerate(reader, 1):
            yield number, row
    except csv.Error as error:
        raise InputError(f"{source}, row {number + 1}: {error}") from None


def _read_yelp(path: Path) -> Iterator[Raw]:
    return _read_zhang(path, 2, ("negative", "positive"))


def _read_yahoo(path: Path) -> Iterator[Raw]:
    """Question title and content are left out, only the answer is read (§1.4.1)."""
    return _read_zhang(path, 4, YAHOO_TOPICS)


def _read_amazon(path: Path) -> Iterator[Raw]:
    """``<Category>_5.json.gz`` of Ni et al. (2019): a JSON object a line, text in ``reviewText``."""
    for category in AMAZON_CATEGORIES:
        file = path / f"{category}_5.json.gz"
        if not file.exists():
            continue
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            reviews = islice(lines_of(lines, str(file)), AMAZON_REVIEWS_READ)
            for number, line in enumerate(reviews, 1):
                try:
                    text = json.loads(line).get("reviewText", "")
                except (ValueError, AttributeError, RecursionError):
                    raise InputError(f"{file}, line {number}: not a JSON object") from None
                if isinstance(text, str):
                    yield Raw(text.encode("utf-8", "replace").decode(), category)


PUBLICATIONS: dict[str, Publication] = {
    "imdb": Publication(
        ("aclImdb_v1.tar.gz",),
        _read_imdb,
        None,
        {"long": SplitSizes(20_000, 9_800)},
        50_000,
        2,
        "1.6",
    ),
    "yahoo": Publication(
        ("yahoo_answers_csv.tgz", "yahoo_answers_csv.tar.gz"),
        _read_yahoo,
        1_000,
        {"long": SplitSizes(25_000, 4_800), "short": SplitSizes(25_000, 25_000)},
        1_460_000,
        10,
        "1.5",
    ),
    "amazon": Publication(
        ("amazon",),
        _read_amazon,
        500,
        {"long": SplitSizes(25_000, 12_500), "short": SplitSizes(25_000, 12_500)},
        50_000,
        20,
        "1.5",
    ),
    "yelp": Publication(
        ("yelp_review_polarity_csv.tgz", "yelp_review_polarity_csv.tar.gz"),
        _read_yelp,
        1_000,
        {"long": SplitSizes(25_000, 9_500)},
        598_000,
        2,
        "1.6",
    ),
}
"""Every corpus with a format of its own: add a function that reads it above, and a line here."""
THESIS_CORPORA = tuple(name for name, publication in PUBLICATIONS.items() if publication.table)


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
