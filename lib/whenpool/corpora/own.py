"""A corpus of the user's own: a CSV or JSON-lines file with a text and a label column."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from whenpool.corpora.corpus import Corpus, Raw, SplitSizes, has_length, select_and_split
from whenpool.errors import InputError

SUFFIXES = (".csv", ".jsonl")
FEWEST = 10
"""Texts of the rarest class."""


def load_own(
    path: Path, text_column: str = "text", label_column: str = "label", length: str = "any"
) -> Corpus:
    """Read a file and split it by a hash of the text: 60 % training, 20 % validation, 20 % test.

    Repeated texts count once, and each class gives as many texts as the rarest one has.

    Raises:
        InputError: for a missing file or column, a row without text or label, named by its line, or
            a class with fewer than `FEWEST` texts.
    """
    if not path.is_file():
        raise InputError(f"corpus file {path} is not there")
    read = _read_csv if path.suffix.lower() == ".csv" else _read_jsonl
    try:
        rows = [row for row in read(path, text_column, label_column) if has_length(row.text, length)]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    texts: dict[str, str] = {}
    several = {row.text for row in rows if texts.setdefault(row.text, row.label) != row.label}
    counts = Counter(texts.values())
    if len(counts) > 1 and min(counts.values()) < FEWEST:
        rare = min(counts, key=lambda label: counts[label])
        raise InputError(
            f"{path}: class {rare!r} has {counts[rare]} different texts, {len(counts)} classes were "
            f"found; at least {FEWEST} texts are needed in each class: merge or leave out rare labels"
            + (f" ({len(several)} texts carry several labels, the first counts)" if several else "")
        )
    used = len(counts) * min(counts.values(), default=0)
    corpus = select_and_split(rows, _sizes(used), str(path))
    note = f"{path.name}: {len(rows):,} rows, {used:,} used, as many of each class as of the rarest"
    if several:
        note += f"; {len(several):,} texts carry several labels, of which the first counts"
    return replace(corpus, name=str(path), notes=(note + ".",))


def _sizes(texts: int) -> SplitSizes:
    fifth = max(1, texts // 5)
    return SplitSizes(train=max(1, texts - 2 * fifth), test=fifth, validation=fifth)


def _read_csv(path: Path, text_column: str, label_column: str) -> Iterator[Raw]:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        for column in (text_column, label_column):
            if column not in columns:
                have = ", ".join(map(repr, columns)) or "none"
                raise InputError(f"{path} has no column {column!r}; it has {have}")
        try:
            for row in reader:
                yield _row(row, text_column, label_column, f"{path}, line {reader.line_num}")
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: {error}") from None


def _read_jsonl(path: Path, text_column: str, label_column: str) -> Iterator[Raw]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"{where}: not JSON ({error.msg})") from None
            if not isinstance(row, dict):
                raise InputError(f"{where}: expected an object with {text_column!r}, found {row!r:.40}")
            yield _row(row, text_column, label_column, where)


def _row(row: dict, text_column: str, label_column: str, where: str) -> Raw:
    text, label = row.get(text_column), row.get(label_column)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: no text in column {text_column!r}; fill it or delete the row")
    if isinstance(label, list | dict):
        raise InputError(f"{where}: a label is a word or a number, not {label!r:.40}")
    if label is None or not str(label).strip():
        raise InputError(f"{where}: no label in column {label_column!r}; fill it or delete the row")
    return Raw(text, str(label).strip())
