"""The four corpora of the thesis, in the formats of their publishers (§1.4.1): archives are read
where they lie."""

import csv
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError
from whenpool.base.files import json_lines
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
YAHOO_TOPICS = (  # in the order of their numbers
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
# Reviews of a category that are read: some have tens of millions, of which 2,500 are needed
AMAZON_REVIEWS_READ = 100_000
# Letters of a field in a table; the longest text of the corpora has 70 thousand
LARGEST_TEXT = 2**24


@dataclass(frozen=True)
class Publication:
    """What is taken of a corpus, as the thesis says for its own, and how its files are found and
    read."""

    # where it may lie under the data directory, first the publisher's archive
    files: tuple[str, ...]
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
        raise InputError(
            f"{path} is damaged or not the publisher's file ({error!s:.200})"
            f"; move it away and run `whenpool data fetch {name}`"
        ) from None
    splits = (len(corpus.train), len(corpus.test), len(corpus.validation))
    # the thesis has no sizes for others
    enough = length not in publication.sizes or splits == sizes
    if total >= publication.texts and len(corpus.classes) == publication.classes and enough:
        return replace(corpus, name=name, complete=True)
    classes = f" in {len(corpus.classes)} classes" if name == "amazon" else ""
    note = (
        f"The {name} files hold {total:,} texts{classes}, fewer than the publisher's: they are a "
        "part or a stand-in, and their accuracies are not compared with the thesis's."
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


def allow_long_texts() -> None:
    """Let the reader of tables take any text, and no fewer letters than it took before."""
    csv.field_size_limit(max(LARGEST_TEXT, csv.field_size_limit()))


def _read_zhang(path: Path, classes: tuple[str, ...]) -> Iterator[Raw]:
    """``train.csv`` and ``test.csv`` of Zhang et al. (2015): class first, text last, of Yahoo the
    answer."""
    allow_long_texts()
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
