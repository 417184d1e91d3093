"""From the name of a corpus to its texts; and how a file of the user's own is read, a CSV, TSV or JSON-lines
file with a text and a label column."""

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import chain, zip_longest
from os.path import isfile
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import code_fingerprint, fingerprint, hash_of, json_lines, lines_of, remembered
from whenpool.base.paths import data_directory
from whenpool.corpora import synthetic
from whenpool.corpora.corpus import LENGTHS, Corpus, Raw, SplitSizes, has_length, select_and_split
from whenpool.corpora.published import LARGEST_TEXT, PUBLICATIONS, load_published, notes_on_files
from whenpool.corpora.settings import FILES, SHARES, find_filler, load_filler
from whenpool.corpora.tokens import without_spaces

NAMES = ("synthetic", *PUBLICATIONS)
SUFFIXES = (".csv", ".tsv", ".jsonl")
FORMATS = ".csv, .tsv or .jsonl (also .gz)"
FEWEST = 10  # Texts of the rarest class
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class CorpusSource:
    """Where a corpus comes from; nothing is read before it is asked for.

    Examples:
        >>> find("synthetic:classes=10").label
        'synthetic:classes=10'
    """

    name: str  #: "synthetic", one of the thesis's corpora, or the path of a file
    options: tuple[tuple[str, Any], ...]  #: of the synthetic grammar, or of a file
    path: Path | None  #: the file or folder, None for the synthetic corpus
    folder: Path  #: where filler sentences may lie

    @property
    def label(self) -> str:
        """The name and options in one way of writing them, without the folder of a file."""
        return label_of(self.name, self.options)

    @property
    def is_own(self) -> bool:
        """Whether it is a file of the user's own."""
        return self.path is not None and self.name not in PUBLICATIONS

    def load(self, length: str = "any") -> Corpus:
        """The corpus with texts of one ``length``; generated texts of all lengths. Raises as `load`."""
        check_known("length", length, LENGTHS)
        if self.path is None:
            return synthetic.make_corpus(synthetic.Grammar(**dict(self.options)))
        if self.is_own:
            return load_own(self.path, **dict(self.options), length=length)
        corpus = load_published(self.name, self.path, length)
        return replace(corpus, notes=(*notes_on_files(self.name, self.folder), *corpus.notes))

    def load_filler(self) -> dict[str, list[str]]:
        """By split: Wikipedia's sentences, or invented ones; raises where a published corpus has none."""
        file = self.filler_file
        return load_filler(file) if file else {split: synthetic.encyclopedia(split) for split in SHARES}

    def fingerprint(self, length: str) -> str:
        """A hash of the selected texts, their order, splits and labels."""

        def compute() -> str:
            corpus = self.load(length)
            splits = corpus.splits.values()
            parts = [part for split in splits for text, label in split for part in (str(label), text)]
            return hash_of(*corpus.classes, *(str(len(split)) for split in splits), *parts)

        origin = fingerprint(self.path) if self.path else "synthetic"
        identity = hash_of("texts", origin, repr(self.options), length, code_fingerprint(_HERE))
        return remembered(identity, compute)

    def filler_fingerprint(self) -> str:
        """A hash of the filler sentences and their splits; raises as `load_filler`."""
        file = self.filler_file
        identity = hash_of("filler", fingerprint(file) if file else "", code_fingerprint(_HERE))
        return remembered(identity, lambda: hash_of(*map(repr, sorted(self.load_filler().items()))))

    @property
    def filler_name(self) -> str:
        """What a line of provenance calls the filler."""
        return file.name if (file := self.filler_file) else "invented encyclopedia"

    @property
    def filler_file(self) -> Path | None:
        """Where filler sentences lie; None where invented ones are taken. Raises as `load_filler`."""
        own = self.is_own and not any((self.folder / name).is_file() for name in FILES)
        return find_filler(self.folder) if self.path and not own else None


def load(
    name: str | Path, directory: str | Path | None = None, length: str | None = None, **options: Any
) -> Corpus:
    """Load a corpus by name. Raises `InputError` for an unknown name or option, or files that are missing
    or cannot be read.

    Args:
        name: "synthetic", "imdb", "yahoo", "amazon", "yelp", or the path of a ``.csv``, ``.tsv``
            or ``.jsonl`` file. Options may follow a colon, ``synthetic:classes=10,density=0.1``
            or ``reviews.csv:text_column=body,label_column=stars``, or be given as arguments.
        directory: where the published corpora lie; default: ``WHENPOOL_DATA``.
        length: "long" (over 100 words; the default for the thesis's corpora), "short" or "any"; of
            generated texts "any" alone.

    Examples:
        >>> corpus = load("synthetic:classes=10,train=60,validation=20,test=40")
        >>> len(corpus.classes)
        10
    """
    source = find(str(name), directory, options)
    if source.name == "synthetic" and length in LENGTHS:
        check(length == "any", "length selects no generated texts; set shortest and longest")
    return source.load(length or ("long" if source.name in PUBLICATIONS else "any"))


def find(
    name: str, directory: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> CorpusSource:
    """Resolve a corpus name, with its options, to its source. Raises `InputError` for an unknown name or
    option, or files that are not there.

    Examples:
        >>> find("synthetic", options={"density": 0.1}).options
        (('density', 0.1),)
    """
    name, given = parsed(name)
    given |= options or {}
    folder = Path(directory) if directory is not None else data_directory()
    if name == "synthetic":
        return CorpusSource(name, checked(synthetic.Grammar, given, "synthetic corpus"), None, folder)
    if name in PUBLICATIONS:
        check(not given, f"corpus {name!r} takes no options; leave out {', '.join(given)}")
        path = PUBLICATIONS[name].find(folder)
        advice = f"run `whenpool data fetch {name}`, or name its folder with --data or WHENPOOL_DATA"
        check(path, f"corpus {name!r}: {PUBLICATIONS[name].files[0]} is not in {folder}; {advice}")
        return CorpusSource(name, (), path, folder)
    path = Path(os.path.expanduser(name))  # which leaves alone what names nobody
    if suffix_of(path) not in SUFFIXES:
        tagged = "if it holds tagged words, add --chapter sequence_labelling"
        check(not isfile(path), f"{path} is not a {FORMATS} file of texts; {tagged}")
        check_known("corpus", name, [*NAMES, f"the path of a {FORMATS} file"])
    what = "is a folder" if path.is_dir() else "does not exist"
    check(isfile(path), f"corpus file {path} {what}; check its path")
    for option, column in given.items():
        check_known(f"option of {path}", option, ("text_column", "label_column"))
        check(isinstance(column, str), f"{option} must be the name of a column, not {column!r}")
    return CorpusSource(name, tuple(sorted(given.items())), path, folder)


def suffix_of(path: str | Path) -> str:
    """The format of a file by its name; one that ends in ``.gz`` is unpacked when it is read."""
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def parsed(spec: str) -> tuple[str, dict[str, Any]]:
    """The name of a corpus, and the options after it; raises `InputError` for another form."""
    match = re.fullmatch(r"(.+?)(?::(\w+=[^,=]*(?:,\w+=[^,=]*)*))?", spec)
    check(match, f"corpus {spec!r:.200} must be written as name:option=value,option=value")
    name, options = match.groups()  # type: ignore[union-attr]
    return name, dict(item.split("=", 1) for item in options.split(",")) if options else {}


def checked(grammar: Any, given: Mapping[str, Any], what: str) -> tuple[tuple[str, Any], ...]:
    """The options of a grammar, such as `synthetic.Grammar`, in their own types and in one order."""
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(grammar)}
    options = {}
    for key, value in given.items():
        check(key in kinds, f"the {what} has no option {key!r:.60}; choose one of {', '.join(kinds)}")
        try:
            options[key] = kinds[key](value)
        except ValueError:
            raise InputError(f"option {key} of the {what} must be a number, not {value!r:.60}") from None
    grammar(**options)  # raises where a value is out of range
    return tuple(sorted(options.items()))


def label_of(name: str, options: tuple[tuple[str, Any], ...]) -> str:
    """See `CorpusSource.label`."""
    written = ",".join(f"{key}={value}" for key, value in options)
    return ":".join(filter(None, (Path(name).name, written)))


def statistics_of(source: CorpusSource, length: str) -> dict[str, Any]:
    """Counts of a corpus's texts and of their words between white space, remembered in the cache."""

    def measure() -> str:
        corpus = source.load(length)
        words = [len(text.split()) for split in corpus.splits.values() for text in split.texts]
        counts = {
            "classes": len(corpus.classes), "average_length": sum(words) / len(words),
            "max_length": max(words), **{f"{name}_size": len(s) for name, s in corpus.splits.items()},
        }  # fmt: skip
        return json.dumps(counts | {"complete": corpus.complete})

    identity = hash_of("statistics", source.fingerprint(length), code_fingerprint(_HERE))
    return json.loads(remembered(identity, measure))


# Files of the user's own


def load_own(
    path: Path, text_column: str = "text", label_column: str = "label", length: str = "any"
) -> Corpus:
    """Read a file and split it by a hash of the text: 60 % training, 20 % validation, 20 % test. Repeated
    texts count once, with their first label, and each class gives as many as the rarest one has."""
    read, gaps = read_own(path, text_column, label_column)
    rows = [row for row in read if has_length(row.text, length)]
    check(rows or length == "any", f"{path} has no {length} texts; see whenpool.corpora.load")
    counts = Counter({row.text: row.label for row in reversed(rows)}.values())
    check_classes(counts, path)
    used = len(counts) * min(counts.values())
    fifth = max(1, used // 5)
    corpus = select_and_split(rows, SplitSizes(max(1, used - 2 * fifth), fifth, fifth), str(path))
    note = f"{path.name}: {used:,} of {len(rows) + len(gaps):,} rows are used, equally many of each"
    return replace(corpus, name=str(path), notes=(f"{note} class.",))


def check_classes(counts: Mapping[str, int], path: Path) -> None:
    """Raises `InputError` for a single class, or one with fewer than `FEWEST` different texts."""
    rare = min(counts, key=lambda label: counts[label], default="")
    check(len(counts) > 1, f"{path}: there is one class, {rare!r:.60}; give texts of at least two")
    few = f"{path}: class {rare!r:.60} of {len(counts)} classes has {counts[rare]} different texts"
    check(counts[rare] >= FEWEST, f"{few}; each class needs {FEWEST}: merge or leave out rare classes")


def read_own(path: Path, text_column: str, label_column: str) -> tuple[list[Raw], list[str]]:
    """The rows of a file, and a line for each row that has no text or no label and is left out. Raises
    `InputError` for a row that cannot be read, named by its line, or where none is left."""
    check(suffix_of(path) in SUFFIXES, f"{path} is not a {FORMATS} file")
    same = f"{path}: text and label are both in column {text_column!r}; name two columns"
    check(text_column != label_column, same)
    wanted, is_json = (text_column.strip(), label_column.strip()), suffix_of(path) == ".jsonl"
    expected = f"a JSON object with {text_column!r}"
    rows = json_lines(path, expected) if is_json else _table(path, {*wanted})
    read, gaps, named = list[Raw](), list[str](), dict[str, None]()
    for where, row in rows:
        named |= dict.fromkeys(row)
        text, label = values = [*map(row.get, wanted)]
        empty = [value is None or value != value or not str(value).strip() for value in values]
        if any(empty):
            gaps.append(f"{where}: column {wanted[empty.index(True)]!r} is empty")
            continue
        kinds = f"column {text_column!r} must hold a text, and {label_column!r} a word or a number"
        fits = isinstance(text, str) and not isinstance(label, list | dict)
        check(fits, f"{where}: {kinds}, not {text!r:.40} and {label!r:.40}")
        # without halves of characters, which JSON may hold
        clean = (re.sub("[\ud800-\udfff]", "\ufffd", part) for part in (str(text), str(label).strip()))
        read.append(Raw(*clean))
    for column in wanted if named else ():
        option = "text" if column == wanted[0] else "label"
        how = f"{[*named]!r:.300}, as {path.name}:{option}_column=…; diagnose has --{option}-column"
        check(column in named, f"{path} has no column {column!r}; name one of {how}")
    check(read, "; ".join([f"{path}: no row has a text and a label", *gaps[:1]]))
    written: dict[Decimal | str, str] = {}
    for label in sorted({row.label for row in read}):
        is_number = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*)?", label, re.ASCII)  # others, as 01, are codes
        other = written.setdefault(Decimal(label) if is_number else label, label)
        one = f"labels {other!r} and {label!r} are one number; write it in one way"
        check(other == label, f"{path}: {one}")
    spaced = not without_spaces(row.text for row in read)
    check(spaced, f"{path}: the texts have no spaces between words; add them with a segmenter")
    return read, gaps


def read_texts(path: Path, text_column: str = "text") -> list[str]:
    """The texts of a file without labels, "" where a row has none. Raises `InputError` for a file that cannot
    be read, or has no such column or no row."""
    check(suffix_of(path) in SUFFIXES, f"{path} is not a {FORMATS} file")
    column, is_json = text_column.strip(), suffix_of(path) == ".jsonl"
    rows = json_lines(path, f"a JSON object with {column!r}") if is_json else _table(path, {column})
    fields = [row for _, row in rows]
    check(fields, f"{path} has no rows; give at least one text")
    named = list(dict.fromkeys(chain(*fields)))
    none = f"{path} has no column {column!r}; name one of {named!r:.300} with --text-column"
    check(column in named, none)
    return ["" if (text := row.get(column)) is None else str(text) for row in fields]


def _table(
    path: Path, wanted: Set[str], quoting: Any = csv.QUOTE_MINIMAL
) -> list[tuple[str, dict[str, str]]]:
    """Where each row of a table stands, and its fields by the header; quotes enclose fields, and between tabs
    they may be letters like others."""
    csv.field_size_limit(LARGEST_TEXT)
    lines = list(lines_of(path))
    named = f"{path} has no header; write the names of its columns into the first line"
    check(lines and lines[0].strip(), named)
    # other marks than commas may separate a .csv: the one by which the header has the columns that are
    # wanted, or most columns
    marks = "\t" if suffix_of(path) == ".tsv" else ",;\t|"
    heads = {mark: [*map(str.strip, next(csv.reader(lines[:1], delimiter=mark)))] for mark in marks}
    mark = max(marks, key=lambda mark: (wanted <= {*heads[mark]}, len(heads[mark])))
    reader = csv.reader(lines, delimiter=mark, strict=True, quoting=quoting)
    rows, where = list[tuple[str, dict[str, str]]](), f"{path}, line 1"
    try:
        header = [name.strip() for name in next(reader)]
        where = f"{path}, line {reader.line_num + 1}"
        for row in reader:
            wrong = f"{where}: the line has {len(row)} fields, but the header has {len(header)}"
            check(not any(row[len(header) :]), f"{wrong}; put fields that hold {mark!r} in quotes")
            if any(row):
                fields: dict[str, str] = {}
                for name, value in zip_longest(header, row[: len(header)], fillvalue=""):
                    fields.setdefault(name, value)  # of two columns of one name the first
                rows.append((where, fields))
            where = f"{path}, line {reader.line_num + 1}"
    except csv.Error as error:
        if mark == "\t" and quoting == csv.QUOTE_MINIMAL:
            return _table(path, wanted, csv.QUOTE_NONE)
        advice = "end each quoted field with a quote, and write a quote within it twice"
        raise InputError(f"{where}: a quote is not closed ({error}); {advice}") from None
    return rows
