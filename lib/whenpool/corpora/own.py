"""A corpus of the user's own: a CSV, TSV or JSON-lines file with a text and a label column."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError, check
from whenpool.base.files import json_lines, lines_of
from whenpool.corpora.corpus import Corpus, Raw, SplitSizes, has_length, select_and_split, split_classes
from whenpool.corpora.published import LARGEST_TEXT

SUFFIXES = (".csv", ".tsv", ".jsonl")
FORMATS = ".csv, .tsv or .jsonl"
FEWEST = 10  # Texts of the rarest class
Row = tuple[str, Any, Any]  # Where a row stands, its text and its label


def load_own(
    path: Path,
    text_column: str = "text",
    label_column: str = "label",
    balanced: str | bool = "yes",
    length: str = "any",
) -> Corpus:
    """Read a file and split it by a hash of the text: 60 % training, 20 % validation, 20 % test. Repeated
    texts count once, and each class gives as many as the rarest one has, unless ``balanced="no"``."""
    check(balanced in ("yes", "no", True, False), f"option balanced must be yes or no, not {balanced!r}")
    rows = [row for row in read_own(path, text_column, label_column) if has_length(row.text, length)]
    check(rows or length == "any", f"{path} has no {length} texts; see whenpool.corpora.load")
    texts: dict[str, str] = {}
    several = {row.text for row in rows if texts.setdefault(row.text, row.label) != row.label}
    counts = Counter(texts.values())
    check_classes(counts, path, len(several))
    if balanced in ("no", False):
        corpus, used = split_classes(rows, str(path)), len(texts)
        note = f"{path.name}: {used:,} of {len(rows):,} rows are used" if used < len(rows) else ""
    else:
        used = len(counts) * min(counts.values(), default=0)
        fifth = max(1, used // 5)
        corpus = select_and_split(rows, SplitSizes(max(1, used - 2 * fifth), fifth, fifth), str(path))
        note = f"{path.name}: {used:,} of {len(rows):,} rows are used, equally many of each class"
    if several:
        note += f"; {len(several):,} texts have several labels, of which the first counts"
    return replace(corpus, name=str(path), notes=(note + ".",) if note else ())


def check_classes(counts: Counter[str], path: Path, several: int = 0) -> None:
    """Raises `InputError` for a class with fewer than `FEWEST` different texts."""
    if len(counts) > 1 and min(counts.values()) < FEWEST:
        rare = min(counts, key=lambda label: counts[label])
        found = f"class {_clipped(rare)} of {len(counts)} classes has {counts[rare]} different texts"
        note = f" ({several} texts have several labels, of which the first counts)" if several else ""
        advice = f"each class needs {FEWEST}: merge or leave out rare classes"
        raise InputError(f"{path}: {found}; {advice}{note}")


def read_own(
    path: Path, text_column: str, label_column: str, gaps: list[str] | None = None
) -> Iterator[Raw]:
    """The rows of a file, as they come; one that cannot be read is named by its line. Those without text or
    label are left out and named in the list of ``gaps``, where there is one."""
    check(path.suffix.lower() in SUFFIXES, f"{path} is not a {FORMATS} file")
    if text_column == label_column:
        raise InputError(f"{path}: text and label are both in column {text_column!r}; name two columns")
    read = _read_jsonl if path.suffix.lower() == ".jsonl" else _read_table
    for where, text, label in read(path, text_column, label_column):
        gap = ""
        if text is None or (isinstance(text, str) and not text.strip()):
            gap = f"{where}: column {text_column!r} has no text; fill it or delete the row"
        elif not isinstance(text, str):
            raise InputError(f"{where}: column {text_column!r} must hold a text, not {text!r:.40}")
        elif isinstance(label, list | dict):
            raise InputError(f"{where}: a label must be a word or a number, not {label!r:.40}")
        elif label is None or label != label or not str(label).strip():
            gap = f"{where}: column {label_column!r} has no label; fill it or delete the row"
        if not gap:  # without halves of characters, which JSON may hold
            pair = text, str(label).strip()
            yield Raw(*(re.sub("[\ud800-\udfff]", "\ufffd", part) for part in pair))
        elif gaps is None:
            raise InputError(gap)
        else:
            gaps.append(gap)


def _read_table(path: Path, text_column: str, label_column: str) -> list[Row]:
    """The rows by the first way of writing quotes that gives a table: quotes enclose fields and are doubled
    within them; there a backslash is before each; in a table of tabs they are letters like others."""
    csv.field_size_limit(LARGEST_TEXT)
    lines = list(lines_of(path))
    header = lines[0] if lines else ""
    check(header.strip(), f"{path} has no header; write the names of its columns into the first line")
    wanted = [text_column.strip(), label_column.strip()]

    def fit(mark: str) -> tuple[bool, int]:
        columns = [name.strip() for name in next(csv.reader([header], delimiter=mark), [])]
        return set(wanted) <= set(columns), len(columns)

    # Other marks than commas may separate a .csv: the one by which the header has the columns asked for
    mark = "\t" if path.suffix.lower() == ".tsv" else max(",;\t|", key=fit)
    try:
        return _rows_of(path, lines, mark, wanted)
    except InputError:
        escaped = [re.sub(r'(?<!\\)((?:\\\\)*)\\"', r'\1""', line) for line in lines]
        with suppress(InputError):
            return _rows_of(path, escaped, mark, wanted)
        with suppress(InputError):
            check(mark == "\t", "commas are in most texts")
            return _rows_of(path, lines, mark, wanted, csv.QUOTE_NONE)
        raise


def _rows_of(
    path: Path, lines: list[str], mark: str, wanted: list[str], quoting: Any = csv.QUOTE_MINIMAL
) -> list[Row]:
    reader = csv.reader(lines, delimiter=mark, strict=True, quoting=quoting)
    start, rows, taken = 1, list[Row](), list[list[str]]()
    advice = "end each quoted field with a quote, and write a quote within it twice"
    try:
        columns = [name.strip() for name in next(reader, [])]
        for column in wanted:
            if column not in columns:
                shown = ", ".join(map(_clipped, columns[:20])) + (" …" if len(columns) > 20 else "")
                raise InputError(f"{path} has no column {column!r}; name one of {shown}")
            if (count := columns.count(column)) > 1:
                raise InputError(f"{path} has {count} columns {column!r}; rename all but one")
        places = [columns.index(column) for column in wanted]
        start = reader.line_num + 1
        for row in reader:
            where, own, start = (
                f"{path}, line {start}",
                lines[start - 1 : reader.line_num],
                reader.line_num + 1,
            )
            few = quoting == csv.QUOTE_NONE and 0 < len(row) < len(columns)
            if few or any(row[len(columns) :]):
                found = f"the line has {len(row)} fields, but the header has {len(columns)}"
                raise InputError(f"{where}: {found}; put fields that hold {mark!r} in quotes")
            if row:
                text, label = (row[place] if place < len(row) else None for place in places)
                rows.append((where, text, label))
                taken.append(own)
    except csv.Error as error:
        raise InputError(f"{path}, line {start}: {error}; {advice}") from None
    # a quote too many joins rows in silence: then lines of a field have a known label, or just enough tabs
    labels = {row[2].strip() for row, own in zip(rows, taken, strict=True) if row[2] and len(own) == 1}
    before = places[0] < places[1]  # so that the first line of such a row has its label, not the last

    def is_row(line: str) -> bool:
        cells = line.strip("\r\n").split(mark)
        known = (
            len(cells) >= len(columns) and cells[places[1] - before * len(columns)].strip(' "') in labels
        )
        return known or (mark == "\t" and len(cells) == len(columns))

    for (where, _, _), own in zip(rows, taken, strict=True):
        inner = [line for line in (own[:-1] if before else own[1:]) if line.strip()]
        if inner and all(map(is_row, inner)):
            raise InputError(f"{where}: a quote joins the row with those below; {advice}")
    return rows


def _read_jsonl(path: Path, text_column: str, label_column: str) -> Iterator[Row]:
    for number, (where, row) in enumerate(json_lines(path, f"a JSON object with {text_column!r}")):
        for column in (text_column, label_column) if not number else ():
            if column not in row:
                have = ", ".join(map(_clipped, row)) or "none"
                raise InputError(f"{where} has no {column!r}; its columns are {have}")
        yield where, row.get(text_column), row.get(label_column)


def _clipped(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:60] + "…")
