"""The four corpora of the thesis, in the formats of their publishers (§1.4.1): archives are read
where they lie, and downloaded by pooch, with their checksums. A file that the user has put there is
used as it is, and `listing` says when it is not the publisher's."""

import csv
import io
import os
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from whenpool.base.errors import InputError, check_known
from whenpool.base.files import fingerprint, json_lines, whole_file
from whenpool.corpora.corpus import Corpus, Raw, SplitSizes, has_length, select_and_split

_TABLE = tomllib.loads(Path(__file__).with_name("downloads.toml").read_text("utf-8"))
AMAZON_CATEGORIES, YAHOO_TOPICS = (tuple(_TABLE.pop(name)) for name in ("categories", "topics"))
AMAZON_REVIEWS_READ = (
    100_000  # Of a category: some have tens of millions, of which 2,500 are needed
)
LARGEST_TEXT = (
    2**24
)  # Letters of a field in a table; the longest text of the corpora has 70 thousand


@dataclass(frozen=True)
class Publication:
    """What is taken of a corpus, as the thesis says for its own, and how its files are found and
    read."""

    files: tuple[
        str, ...
    ]  # where it may lie under the data directory, first the publisher's archive
    read: Callable[[Path], Iterator[Raw]]
    longest: int | None  # the upper bound of words of a long text
    sizes: dict[str, SplitSizes]  # of the splits, by length
    texts: int  # how many the publisher's files hold, to tell a part of them from the whole
    classes: int  # likewise
    table: str = ""  # the thesis's table of accuracies on its long texts, where it has the corpus

    def find(self, directory: Path) -> Path | None:
        """The first of the files that is there."""
        return next((directory / name for name in self.files if (directory / name).exists()), None)


def load_published(name: str, path: Path, length: str) -> Corpus:
    """Read, select and split one of `PUBLICATIONS` from where it lies."""
    publication, counter = PUBLICATIONS[name], count()
    read = zip(publication.read(path), counter, strict=False)  # which counts all texts
    fitting = (item for item, _ in read if has_length(item.text, length, publication.longest))
    sizes = publication.sizes.get(length, SplitSizes(25_000, 12_500))
    try:
        corpus, total = select_and_split(fitting, sizes, str(path)), next(counter)
    except InputError:
        raise
    except Exception as error:  # each kind of file has errors of its own
        wrong = f"{path} is damaged or not the publisher's file ({error!s:.200})"
        raise InputError(f"{wrong}; move it away and run `whenpool data fetch {name}`") from None
    splits = (len(corpus.train), len(corpus.test), len(corpus.validation))
    enough = (
        length not in publication.sizes or splits == sizes
    )  # the thesis has no sizes for others
    if total >= publication.texts and len(corpus.classes) == publication.classes and enough:
        return replace(corpus, name=name, complete=True)
    classes = f" in {len(corpus.classes)} classes" if name == "amazon" else ""
    note = (
        f"The {name} files hold {total:,} texts{classes}, fewer than the publisher's: they "
        "are a part or "
        "a stand-in, and their accuracies are not compared with the thesis's."
    )
    return replace(corpus, name=name, notes=(note,))


def _read_imdb(path: Path) -> Iterator[Raw]:
    """``aclImdb/{train,test}/{neg,pos}/ID_RATING.txt``; the two parts share no film and do not
    mix."""
    with tarfile.open(path) as archive:
        for member in archive:
            match member.name.removeprefix("./").split("/"):
                case ["aclImdb", ("train" | "test") as part, ("neg" | "pos") as label, _]:
                    file = archive.extractfile(member)
                    assert file is not None
                    yield Raw(file.read().decode("utf-8"), label, part)


def _read_zhang(path: Path, classes: tuple[str, ...]) -> Iterator[Raw]:
    """``train.csv`` and ``test.csv`` of Zhang et al. (2015): class first, text last, of Yahoo the
    answer."""
    csv.field_size_limit(LARGEST_TEXT)
    class_of = {str(number): name for number, name in enumerate(classes, 1)}
    with tarfile.open(path) as archive:
        for name in ("train.csv", "test.csv"):
            member = next(m for m in archive if m.isreg() and m.name.endswith(f"/{name}"))
            file: Any = archive.extractfile(member)
            for row in csv.reader(io.TextIOWrapper(file, "utf-8", newline="")):
                yield Raw(row[-1].replace("\\n", " ").replace('\\"', '"'), class_of[row[0]])


def _read_amazon(path: Path) -> Iterator[Raw]:
    """``<Category>_5.json.gz`` of Ni et al. (2019): a JSON object a line, text in
    ``reviewText``."""
    for category in AMAZON_CATEGORIES:
        file = path / f"{category}_5.json.gz"
        if not file.exists():
            continue
        for _, review in islice(json_lines(file, "a JSON object"), AMAZON_REVIEWS_READ):
            if isinstance(text := review.get("reviewText", ""), str):
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
        partial(_read_zhang, classes=YAHOO_TOPICS),
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
        partial(_read_zhang, classes=("negative", "positive")),
        1_000,
        {"long": SplitSizes(25_000, 9_500)},
        598_000,
        2,
        "1.6",
    ),
}
"""Every corpus with a format of its own: add a function that reads it above, and a line here."""
THESIS_CORPORA = tuple(name for name, publication in PUBLICATIONS.items() if publication.table)


# Downloads


@dataclass(frozen=True)
class Download:
    """One file of a publisher's."""

    file: str  # its place under the data directory
    url: str
    sha256: str | None  # of what is downloaded, where it is known
    member: str | None = None  # the file that is wanted of a zip archive

    def verdict(self, directory: Path) -> str:
        """Whether the file that is there is the publisher's."""
        if self.member:
            return "unpacked from an archive, which alone has a checksum"
        if self.sha256 is None:
            return "no checksum is published for it"
        if (sha256 := fingerprint(directory / self.file)) == self.sha256:
            return "the publisher's, checksum verified"
        return f"not the publisher's file (sha256 {sha256[:16]}...); it is used as it is"


_AMAZON = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_v2/categoryFilesSmall"
_FILES = [f"{category}_5.json.gz" for category in AMAZON_CATEGORIES]
DOWNLOADS = {name: [Download(**facts)] for name, facts in _TABLE.items()}
DOWNLOADS["amazon"] = [Download(f"amazon/{file}", f"{_AMAZON}/{file}", None) for file in _FILES]
"""What can be fetched, by name."""


def fetch(name: str, directory: Path) -> list[Path]:
    """Download what is not there yet; returns the files. Raises `InputError` where that fails."""
    check_known("download", name, DOWNLOADS)
    import pooch  # brings requests along, which takes its time

    bar = pooch.HTTPDownloader(progressbar=sys.stderr.isatty())
    mirror = os.environ.get("WHENPOOL_MIRROR")  # files are looked for right below this address
    for download in DOWNLOADS[name]:
        target = directory / download.file
        if target.is_file():
            continue
        file = download.url.rsplit("/", 1)[1]
        url = f"{mirror.rstrip('/')}/{file}" if mirror else download.url
        checksum = f"sha256:{download.sha256}" if download.sha256 else None
        try:
            folder = directory if download.member else target.parent
            archive = Path(pooch.retrieve(url, checksum, file, folder, downloader=bar))
            if download.member:
                with ZipFile(archive) as zipped, whole_file(target) as out:
                    shutil.copyfileobj(zipped.open(download.member), out)
                archive.unlink()
        except (
            Exception
        ) as error:  # whatever the network, the server, the disk or a checksum brought
            reason = f"{type(error).__name__}: {error!s:.200}"
            advice = f"try again, set WHENPOOL_MIRROR, or put {target.name} into {target.parent}"
            raise InputError(f"{url} could not be downloaded ({reason}); {advice}") from None
    return [directory / download.file for download in DOWNLOADS[name]]


def listing(directory: Path) -> Iterator[str]:
    """A line for each file that can be downloaded: whether it is there, and the publisher's."""
    yield f"Data folder: {directory}{'' if directory.is_dir() else ', which does not exist yet'}"
    for name, downloads in DOWNLOADS.items():
        here = [download for download in downloads if (directory / download.file).is_file()]
        if not here:
            yield (
                f"{name:8} not there; `whenpool data fetch {name}` downloads it from "
                f"{downloads[0].url}"
            )
        for download in here:
            yield f"{name:8} {download.file} ({download.verdict(directory)})"


def notes_on_files(name: str, directory: Path) -> tuple[str, ...]:
    """A sentence for each file of a corpus that is there but is not what its publisher gives."""
    files = (d for d in DOWNLOADS.get(name, ()) if (directory / d.file).is_file())
    verdicts = ((download.file, download.verdict(directory)) for download in files)
    return tuple(f"{file} is {verdict}." for file, verdict in verdicts if verdict.startswith("not"))
