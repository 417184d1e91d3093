"""A corpus of the user's own: a CSV, TSV or JSON-lines file with a text and a label column."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
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
        few = f"class {_clipped(rare)} of {len(counts)} classes has {counts[rare]} different texts"
        note = f" ({several} texts have several labels, of which the first counts)" if several else ""
        advice = f"each class needs {FEWEST}: merge or leave out rare classes"
        raise InputError(f"{path}: {few}; {advice}{note}")


def read_own(
    path: Path, text_column: str, label_column: str, gaps: list[str] | None = None
) -> Iterator[Raw]:
    """The rows of a file, as they come; a row that cannot be read is named by its line. Those without text or
    label are left out and named in the list of ``gaps``, where there is such a list."""
    check(path.suffix.lower() in SUFFIXES, f"{path} is not a {FORMATS} file")
    same = f"{path}: text and label are both in column {text_column!r}; name two columns"
    check(text_column != label_column, same)
    read = _read_jsonl if path.suffix.lower() == ".jsonl" else _read_table
    for where, text, label in read(path, text_column, label_column):
        gap = ""
        if text is None or (isinstance(text, str) and not text.strip()):
            gap = f"{where}: column {text_column!r} has no text; fill it or delete the row"
        elif not isinstance(text, str) or isinstance(label, list | dict):
            kinds = f"column {text_column!r} must hold a text, and {label_column!r} a word or a number"
            raise InputError(f"{where}: {kinds}, not {text!r:.40} and {label!r:.40}")
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
    within them; or a backslash is before each; or, in a table of tabs, they are letters like others."""
    csv.field_size_limit(LARGEST_TEXT)
    lines = list(lines_of(path))
    header = lines[0] if lines else ""
    check(header.strip(), f"{path} has no header; write the names of its columns into the first line")
    wanted = [text_column.strip(), label_column.strip()]

    def columns(mark: str) -> list[str]:
        return [name.strip() for name in next(csv.reader([header], delimiter=mark))]

    # Other marks than commas may separate a .csv: the one by which the header has the columns asked for
    mark = max(",;\t|", key=lambda mark: (set(wanted) <= set(columns(mark)), len(columns(mark))))
    mark = "\t" if path.suffix.lower() == ".tsv" else mark
    shown = ", ".join(map(_clipped, columns(mark)[:20])) + " …" * (len(columns(mark)) > 20)
    for column in wanted:
        check(column in columns(mark), f"{path} has no column {column!r}; name one of {shown}")
    escaped = [re.sub(r'(?<!\\)((?:\\\\)*)\\"', r'\1""', line) for line in lines]
    ways = [(lines, csv.QUOTE_MINIMAL), (escaped, csv.QUOTE_MINIMAL)]
    ways += [(lines, csv.QUOTE_NONE)] * (mark == "\t")
    errors = []
    for way in ways:
        try:
            return _rows_of(path, *way, mark, [columns(mark).index(column) for column in wanted])
        except InputError as error:
            errors.append(error)
    raise errors[0]


def _rows_of(path: Path, lines: list[str], quoting: Any, mark: str, places: list[int]) -> list[Row]:
    """Where each row stands, and its fields at the ``places`` of text and label."""
    reader = csv.reader(lines, delimiter=mark, strict=True, quoting=quoting)
    rows, spans, where = list[Row](), list[list[str]](), f"{path}, line 1"
    advice = "end each quoted field with a quote, and write a quote within it twice"
    try:
        width, end = len(next(reader)), reader.line_num
        where = f"{path}, line {end + 1}"
        for row in reader:
            if any(row[width:]) or (quoting == csv.QUOTE_NONE and 0 < len(row) < width):
                wrong = f"the line has {len(row)} fields, but the header has {width}"
                raise InputError(f"{where}: {wrong}; put fields that hold {mark!r} in quotes")
            if row:
                text, label = (row[place] if place < len(row) else None for place in places)
                rows.append((where, text, label))
                spans.append([line for line in lines[end : reader.line_num] if line.strip()])
            end = reader.line_num
            where = f"{path}, line {end + 1}"
    except csv.Error as error:
        raise InputError(f"{where}: {error}; {advice}") from None

    # A quote that is never closed joins rows: then each line of a row looks like a row by itself. The place
    # of the label is counted from the end where the text, which may hold marks, stands before it.
    labels = {row[2].strip() for row, span in zip(rows, spans, strict=True) if row[2] and len(span) == 1}
    last = places[1] - width * (places[0] < places[1])

    def is_row(line: str) -> bool:
        cells = line.rstrip("\r\n").split(mark)
        return len(cells) >= width and cells[last].strip(' "') in labels

    for (where, _, _), span in zip(rows, spans, strict=True):
        joined = len(span) > 1 and all(map(is_row, span))
        check(not joined, f"{where}: a quote joins the row with those below; {advice}")
    return rows


def _read_jsonl(path: Path, text_column: str, label_column: str) -> Iterator[Row]:
    for number, (where, row) in enumerate(json_lines(path, f"a JSON object with {text_column!r}")):
        for column in (text_column, label_column) if not number else ():
            have = ", ".join(map(_clipped, row)) or "none"
            check(column in row, f"{where} has no {column!r}; its columns are {have}")
        yield where, row.get(text_column), row.get(label_column)


def _clipped(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:60] + "…")
