"""From the name of a corpus to its texts; and how a file of the user's own is read, a table with a
text and a label column."""

import csv
import io
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import chain, takewhile, zip_longest
from os.path import isfile
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import (
    code_fingerprint,
    fingerprint,
    hash_of,
    json_lines,
    lines_of,
    remembered,
    stream_of,
)
from whenpool.base.paths import data_directory
from whenpool.corpora import synthetic
from whenpool.corpora.corpus import LENGTHS, Corpus, Raw, SplitSizes, has_length, select_and_split
from whenpool.corpora.published import PUBLICATIONS, allow_long_texts, load_published
from whenpool.corpora.settings import FILES, SHARES, find_filler, load_filler
from whenpool.corpora.tokens import without_spaces

NAMES = ("synthetic", *PUBLICATIONS)
SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".parquet")
FORMATS = ".csv, .tsv, .jsonl, .json, .xlsx or .parquet (also .gz)"
FEWEST = 10  # Texts of the rarest class
NOTHING = {"", "nan", "null", "n/a", "#n/a", "<na>", "\\n"}  # How programs write that there is none
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Reading:
    """How a file of the user's own is read."""

    text_column: str = "text"
    label_column: str = "label"
    encoding: str = ""  # of a file without a byte order mark; "": UTF-8
    merge_case: bool = False  # whether spellings of one label, see `folded`, are one class
    drop_rare: bool = False  # whether classes of fewer than `FEWEST` different texts are left out


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
        """The corpus with texts of one ``length``; generated texts of all lengths. Raises as
        `load`."""
        check_known("length", length, LENGTHS)
        if self.path is None:
            return synthetic.make_corpus(synthetic.Grammar(**dict(self.options)))
        if self.is_own:
            return load_own(self.path, Reading(**dict(self.options)), length)
        return load_published(self.name, self.path, length)

    def load_filler(self) -> dict[str, list[str]]:
        """By split: Wikipedia's sentences, or invented ones; raises where a published corpus has
        none."""
        if file := self.filler_file:
            return load_filler(file)
        return {split: synthetic.encyclopedia(split) for split in SHARES}

    def fingerprint(self, length: str) -> str:
        """A hash of the selected texts, their order, splits and labels."""

        def compute() -> str:
            corpus = self.load(length)
            splits = corpus.splits.values()
            parts = [
                part for split in splits for text, label in split for part in (str(label), text)
            ]
            return hash_of(*corpus.classes, *(str(len(split)) for split in splits), *parts)

        # the name of a file says how it is read
        origin = [self.path.name, fingerprint(self.path)] if self.path else ["synthetic"]
        identity = hash_of("texts", *origin, repr(self.options), length, code_fingerprint(_HERE))
        return remembered(identity, compute)

    def filler_fingerprint(self) -> str:
        """A hash of the filler sentences and their splits; raises as `load_filler`."""
        file = self.filler_file
        # the name says how it is parsed
        which = [file.name, fingerprint(file)] if file else []
        identity = hash_of("filler", *which, code_fingerprint(_HERE))
        return remembered(identity, lambda: hash_of(*map(repr, sorted(self.load_filler().items()))))

    @property
    def filler_name(self) -> str:
        """What a line of provenance calls the filler."""
        return file.name if (file := self.filler_file) else "invented encyclopedia"

    @property
    def filler_file(self) -> Path | None:
        """Where filler sentences lie; None where invented ones are taken. Raises as
        `load_filler`."""
        invents = self.is_own and not any((self.folder / name).is_file() for name in FILES)
        return find_filler(self.folder) if self.path and not invents else None


def load(
    name: str | Path, directory: str | Path | None = None, length: str | None = None, **options: Any
) -> Corpus:
    """Load a corpus by name. Raises `InputError` for an unknown name or option, or files that are
    missing or cannot be read.

    Args:
        name: "synthetic", "imdb", "yahoo", "amazon", "yelp", or the path of a ``.csv``, ``.tsv``,
            ``.jsonl``, ``.json``, ``.xlsx`` or ``.parquet`` file. Options may follow a colon,
            ``synthetic:classes=10,density=0.1`` or
            ``reviews.csv:text_column=body,label_column=stars``, or be given as arguments; those of
            a file are those of `Reading`.
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
    """Resolve a corpus name, with its options, to its source. Raises `InputError` for an unknown
    name or option, or files that are not there.

    Examples:
        >>> find("synthetic", options={"density": 0.1}).options
        (('density', 0.1),)
    """
    name, chosen = parsed(name)
    chosen |= options or {}
    folder = Path(directory) if directory is not None else data_directory()
    if name == "synthetic":
        return CorpusSource(
            name, checked(synthetic.Grammar, chosen, "synthetic corpus"), None, folder
        )
    if name in PUBLICATIONS:
        check(not chosen, f"corpus {name!r} takes no options; leave out {', '.join(chosen)}")
        path = PUBLICATIONS[name].find(folder)
        check(
            path,
            f"corpus {name!r}: {PUBLICATIONS[name].files[0]} is not in {folder}; "
            f"run `whenpool data fetch {name}`, or name its folder with --data or WHENPOOL_DATA",
        )
        return CorpusSource(name, (), path, folder)
    path = Path(os.path.expanduser(name))  # which leaves alone what names nobody
    if suffix_of(path) not in SUFFIXES:
        check(
            not isfile(path),
            f"{path} is not a {FORMATS} file of texts; "
            "if it holds tagged words, add --chapter sequence_labelling",
        )
        check_known("corpus", name, [*NAMES, f"the path of a {FORMATS} file"])
    what = "is a folder" if path.is_dir() else "does not exist"
    check(isfile(path), f"corpus file {path} {what}; check its path")
    return CorpusSource(name, checked(Reading, chosen, f"file {path}"), path, folder)


def suffix_of(path: str | Path) -> str:
    """The format of a file by its name; one that ends in ``.gz`` is unpacked when it is read."""
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def parsed(spec: str) -> tuple[str, dict[str, Any]]:
    """The name of a corpus, and the options after it; raises `InputError` for another form."""
    match = re.fullmatch(r"(.+?)(?::(\w+=[^,=]*(?:,\w+=[^,=]*)*))?", spec)
    check(match, f"corpus {spec!r:.200} must be written as name:option=value,option=value")
    name, options = match.groups()  # type: ignore[union-attr]
    return name, dict(item.split("=", 1) for item in options.split(",")) if options else {}


def checked(grammar: Any, chosen: Mapping[str, Any], what: str) -> tuple[tuple[str, Any], ...]:
    """The options of a dataclass, such as `synthetic.Grammar`, in their own types and in one
    order."""
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(grammar)}
    options = {}
    for key, value in chosen.items():
        check_known(f"option of the {what}", key, kinds)
        kind = kinds[key]
        try:
            known = {"true": True, "false": False}
            options[key] = known[str(value).lower()] if kind is bool else kind(value)
        except (ValueError, KeyError):
            names = "true or false" if kind is bool else "a number"
            raise InputError(
                f"option {key} of the {what} must be {names}, not {value!r:.60}"
            ) from None
    grammar(**options)  # raises where a value is out of range
    return tuple(sorted(options.items()))


def label_of(name: str, options: tuple[tuple[str, Any], ...]) -> str:
    """See `CorpusSource.label`."""
    written = ",".join(f"{key}={value}" for key, value in options)
    return ":".join(filter(None, (Path(name).name, written)))


# Files of the user's own


def load_own(path: Path, reading: Reading, length: str) -> Corpus:
    """Read a file and split it by a hash of the text: 60 % training, 20 % validation, 20 % test.
    Repeated texts count once, with their first label, and each class gives as many as the rarest
    one has. Raises `InputError` as `read_own` and `check_classes`."""
    read, gaps, notes = read_own(path, reading)
    rows = [row for row in read if has_length(row.text, length)]
    check(rows or length == "any", f"{path} has no {length} texts; see whenpool.corpora.load")
    label_of_text = {row.text: row.label for row in reversed(rows)}
    counts = dict.fromkeys((row.label for row in rows), 0) | Counter(label_of_text.values())
    rare = check_classes(counts, path, reading.drop_rare)
    kept = [row for row in rows if label_of_text[row.text] not in rare]
    if rare:
        notes.append(f"{len(rows) - len(kept):,} rows of {len(rare)} rare classes were left out.")
    classes = counts.keys() - rare
    used = len(classes) * min(counts[label] for label in classes)
    fifth = max(1, used // 5)
    corpus = select_and_split(kept, SplitSizes(max(1, used - 2 * fifth), fifth, fifth), str(path))
    note = f"{path.name}: {used:,} of {len(rows) + len(gaps):,} rows are used, equally many of each"
    return replace(corpus, name=str(path), notes=(f"{note} class.", *notes))


def folded(label: str) -> str:
    """What spellings of one label have in common: case, white space, composed letters, and zeros at
    the end of a decimal fraction do not count."""
    words = " ".join(unicodedata.normalize("NFC", label).casefold().split())
    return words.rstrip("0").rstrip(".") if re.fullmatch(r"-?\d+\.\d*", words) else words


def usual_spellings(counts: Mapping[str, int]) -> dict[str, str]:
    """The most frequent of the labels that are one when they are `folded`."""
    return {folded(label): label for label in sorted(counts, key=lambda name: (counts[name], name))}


def check_classes(counts: Mapping[str, int], path: Path, drop_rare: bool) -> list[str]:
    """The classes to leave out: with ``drop_rare`` those of fewer than `FEWEST` different texts,
    else none.
    Raises `InputError` for fewer than two classes, and with a list of all classes that are rare or
    another spelling of one. ``counts`` has the texts of each class; a text with several labels is
    of the first."""
    only = (
        f"{path}: there is one class, {min(counts, default='')!r:.60}; give texts of at least two"
    )
    check(len(counts) > 1, only)
    usual = usual_spellings(counts)
    again = [label for label in counts if usual[folded(label)] != label]
    rare = [label for label in counts if counts[label] < FEWEST and label not in again]
    wrong, described = again + (rare if not drop_rare else []), []
    for label in wrong[:8]:
        rest = [name for name, best in usual.items() if best != label]
        near = [f", like {usual[name]!r:.30}" for name in get_close_matches(folded(label), rest, 1)]
        size = f"{counts[label]} different texts"
        size = size if counts[label] else "its texts have another label before"
        described.append(f"{label!r:.30} ({size}{''.join(near)})")
    check(
        not wrong,
        f"{path}: {len(wrong)} of {len(counts)} classes are not usable: {'; '.join(described)}"
        f"{'; …' * (len(wrong) > 8)}. Add texts, correct labels, or give --merge-case to merge "
        f"spellings and --drop-rare to leave out those of fewer than {FEWEST} texts (in Python "
        "merge_case, drop_rare)",
    )
    enough = f"{path}: fewer than two classes have {FEWEST} different texts; add texts"
    check(len(counts) - len(rare) > 1, enough)
    return rare


def read_own(path: Path, reading: Reading) -> tuple[list[Raw], list[str], list[str]]:
    """The rows of a file, a line for each row that has no text or no label and is left out, and a
    sentence for each thing that was read in another way than it may be meant. Raises `InputError`
    for a row that cannot be read, named by its line, columns that hold no texts or no classes, or
    where no row is left."""
    columns = reading.text_column.strip(), reading.label_column.strip()
    same = f"{path}: text and label are both in column {columns[0]!r}; name two columns"
    check(columns[0] != columns[1], same)
    rows, notes = _rows(path, columns, reading.encoding)
    read, gaps, named = list[Raw](), list[str](), dict[str, None]()
    for where, row in rows:
        named |= dict.fromkeys(row)
        text, label = values = [*map(row.get, columns)]
        empty = [value is None or str(value).strip().lower() in NOTHING for value in values]
        if any(empty):
            place = empty.index(True)
            gaps.append(f"{where}: column {columns[place]!r} holds nothing: {values[place]!r}")
            continue
        check(
            isinstance(text, str) and isinstance(label, Hashable),
            f"{where}: column {columns[0]!r} must hold a text, and {columns[1]!r} a word or a "
            f"number, not {text!r:.40} and {label!r:.40}",
        )
        read.append(Raw(whole_characters(str(text)), whole_characters(str(label).strip())))
    for column, option in zip(columns, ("text", "label"), strict=True):
        how = f", as {path.name}:{option}_column=…; diagnose has --{option}-column"
        check_column(path, column, named or columns, how)
    check(read, "; ".join([f"{path}: no row has a text and a label", *gaps[:1]]))
    labels = Counter(row.label for row in read)
    check(
        len(labels) <= max(20, len(read) / 2),
        f"{path}: column {columns[1]!r} has {len(labels):,} different labels in {len(read):,} rows"
        ", as a text, an id or a measured number; name the classes with --label-column",
    )
    for label in sorted(labels):
        if folded(label) in ("none", "na"):
            count = f"{labels[label]:,} rows are of a class {label!r}"
            notes.append(f"{count}; empty the field if it means no class.")
    if reading.merge_case:
        usual = usual_spellings(labels)
        merged = sorted(label for label in labels if usual[folded(label)] != label)
        if merged:
            count = (
                f"{sum(labels[label] for label in merged):,} rows spell their class in a rarer way"
            )
            notes.append(f"{count} and were merged: {merged!r:.200}.")
        read = [row._replace(label=usual[folded(row.label)]) for row in read]
    check(
        not without_spaces(row.text for row in read),
        f"{path}: the texts have no spaces between words; add them with a segmenter",
    )
    return read, gaps, notes


def whole_characters(text: str) -> str:
    """A text without halves of characters, which JSON may hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def check_column(path: Path, column: str, named: Collection[str], how: str) -> None:
    """Raises `InputError` for a column that is not among those named, with one that is alike."""
    names = {name.casefold(): name for name in named}
    near = get_close_matches(column.casefold(), names, 1)
    guess = f"did you mean {names[near[0]]!r}? N" if near else "n"
    check(
        column in named,
        f"{path} has no column {column!r}; {guess}ame one of {[*named]!r:.300}{how}",
    )


def _rows(
    path: Path, names: Sequence[str], encoding: str | None
) -> tuple[Iterable[tuple[str, Mapping[str, Any]]], list[str]]:
    """Where each row of a file stands, with its fields by their names, and notes as `read_own` has
    them."""
    suffix, expected = suffix_of(path), f"a JSON object with {names[0]!r}"
    check(suffix in SUFFIXES, f"{path} is not a {FORMATS} file")
    if suffix in (".csv", ".tsv"):
        return _table(path, names, encoding)
    if suffix == ".jsonl":
        return json_lines(path, expected, encoding), []
    if suffix == ".json":
        text = "".join(lines_of(path, encoding))
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):  # several objects, as in JSON lines
            return json_lines(path, expected, encoding), []
        if isinstance(content, dict) and all(
            isinstance(part, list | dict) for part in content.values()
        ):
            import pandas as pd

            columns = {name: pd.Series(part, dtype=object) for name, part in content.items()}
            content = pd.DataFrame(columns).to_dict("records")
        rows = content if isinstance(content, list) else [content]
        for number, row in enumerate(rows, 1):
            check(
                isinstance(row, dict),
                f"{path}, entry {number}: expected {expected}, not {row!r:.40}",
            )
        return [(f"{path}, entry {number}", row) for number, row in enumerate(rows, 1)], []
    return _workbook(path, names), []


def _workbook(path: Path, names: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """As `_rows`, of a file that pandas reads: of Excel all sheets that have the columns, which may
    stand below other lines, and cells as texts. Raises `InputError` where pandas cannot, or needs a
    package."""
    import pandas as pd

    is_excel = suffix_of(path) == ".xlsx"
    how: Any = {"sheet_name": None, "header": None, "dtype": object, "keep_default_na": False}
    try:
        with stream_of(path) as stream:
            content = io.BytesIO(stream.read())
        if is_excel:
            sheets = pd.read_excel(content, engine="openpyxl", **how)
        else:
            table = pd.read_parquet(content, dtype_backend="numpy_nullable")
    except ImportError:
        package = "openpyxl" if is_excel else "pyarrow"
        raise InputError(
            f"{path} needs a package: pip install {package}; or save it as .csv"
        ) from None
    except Exception as error:  # each reader has errors of its own
        raise InputError(f"{path} cannot be read ({error!s:.200}); save it as .csv") from None
    if not is_excel:
        records = table.astype(object).where(table.notna(), None).to_dict("records")
        return [(f"{path}, row {number}", row) for number, row in enumerate(records, 1)]
    rows, top = list[tuple[str, Mapping[str, Any]]](), list[str]()
    for name, sheet in sheets.items():
        header: list[str] = []
        for number, cells in enumerate(sheet.astype(str).to_numpy().tolist(), 1):
            top = top or cells
            if header:
                rows.append(
                    (f"{path}, sheet {name}, row {number}", dict(zip(header, cells, strict=True)))
                )
            elif {*names} <= {*map(str.strip, cells)}:
                header = [*map(str.strip, cells)]
    return rows or [(str(path), dict.fromkeys(top))]  # of which the names are told


def read_texts(path: Path, text_column: str = "text") -> list[str]:
    """The texts of a file without labels, "" where a row has none. Raises `InputError` for a file
    that cannot be read, or has no such column or no row."""
    column = text_column.strip()
    fields = [row for _, row in _rows(path, (column,), None)[0]]
    check(fields, f"{path} has no rows; give at least one text")
    check_column(path, column, dict.fromkeys(chain(*fields)), " with --text-column")
    texts = (row.get(column) for row in fields)
    # of a table in JSON a gap may be NaN, which is not equal to itself
    return ["" if text is None or text != text else whole_characters(str(text)) for text in texts]


def _table(
    path: Path, names: Sequence[str], encoding: str | None, quoting: Any = csv.QUOTE_MINIMAL
) -> tuple[list[tuple[str, Mapping[str, Any]]], list[str]]:
    """As `_rows`, of a table in text; quotes enclose fields, and between tabs, or where rows would
    vanish between them, they may be letters like others."""
    allow_long_texts()
    lines = list(lines_of(path, encoding))
    # blank lines, comments and the line by which Excel names the separator may stand above the
    # header
    above = [*takewhile(re.compile(r'\s*($|#|"?sep=)', re.IGNORECASE).match, lines)]
    # other marks than commas may separate a .csv: the one by which the header has the columns that
    # are wanted, or most columns
    heads = {
        (number, mark): [*map(str.strip, next(csv.reader([line], delimiter=mark)))]
        for number, line in enumerate(lines[: len(above) + 1])
        if line.strip()
        for mark in ("\t" if suffix_of(path) == ".tsv" else ",;\t|")
    }
    check(heads, f"{path} has no header; write the names of its columns into the first line")
    start, mark = max(heads, key=lambda key: ({*names} <= {*heads[key]}, len(heads[key]), key[0]))
    reader = csv.reader(lines[start:], delimiter=mark, strict=True, quoting=quoting)
    read, last = list[tuple[int, int, list[str]]](), start  # lines before and up to it, and a row
    try:
        for row in reader:
            first, last = last, start + reader.line_num
            read.append((first, last, row))
    except csv.Error as error:
        if mark == "\t" and quoting == csv.QUOTE_MINIMAL:
            return _table(path, names, encoding, csv.QUOTE_NONE)
        raise InputError(
            f"{path}, line {last + 1}: a quote is not closed ({error}); "
            "end each quoted field with a quote, and write a quote within it twice"
        ) from None
    header = [*map(str.strip, read.pop(0)[2])]
    header = header if quoting == csv.QUOTE_MINIMAL else heads[start, mark]
    rows, joined = list[tuple[str, Mapping[str, Any]]](), list[str]()
    for first, last, row in read:
        where = f"{path}, line {first + 1}"
        check(
            not any(row[len(header) :]),
            f"{where}: the line has {len(row)} fields, but the header has {len(header)}"
            f"; put fields that hold {mark!r} in quotes",
        )
        if any(row):
            fields: dict[str, str] = {}
            for name, value in zip_longest(header, row[: len(header)], fillvalue=""):
                fields.setdefault(name, value)  # of two columns of one name the first
            rows.append((where, fields))
            if last > first + 1 and any(mark in field for field in row):
                joined.append(f"{first + 1} to {last}")
    if not joined:
        return rows, []
    # between the quotes may be a text of several lines, or rows: then every line of the table has
    # all fields
    spans = ", ".join(joined[:5]) + " …" * (len(joined) > 5)
    plain = (line.split(mark) for line in lines[start + 1 :] if line.strip())
    if mark == "\t" and all(len(row) == len(header) for row in plain):
        said = f"Quotes are read as letters, since they would make one row of lines {spans}."
        return _table(path, names, encoding, csv.QUOTE_NONE)[0], [said]
    several = f"{len(joined):,} rows span several lines between quotes, with {mark!r} in them"
    return rows, [f"{several}: lines {spans}."]
