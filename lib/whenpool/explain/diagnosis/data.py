"""The user's own texts: read, looked over, and written down in the one form that runs read."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.corpora.corpus import Raw, shuffled
from whenpool.corpora.own import FEWEST, check_classes, read_own
from whenpool.corpora.tokens import tokenize

TEXTS_FILE = "texts.jsonl"
LETTERS = 100
"""Of a text so many are kept for each word that is read: more is no word."""
MANY = 0.1
"""The part of all texts that may be cut and the place of the evidence still be one in the texts."""


@dataclass(frozen=True)
class Survey:
    """What a file of labelled texts holds, and what of it is used.

    Attributes:
        file: the texts that are used, as `whenpool.corpora` reads them.
        name, text_column, label_column: of the user's file.
        rows: rows with a text and a label.
        gaps: what was said of the rows without.
        repeated: rows whose text stood there before, as far as it is read.
        several: texts that came with several labels, of which the first counts.
        unused: other texts beyond the number that was asked for.
        classes: texts used of each class, from frequent to rare.
        shortest, middle, longest: words and punctuation marks of the texts used, as the models count
            them, before they are cut; ``middle`` is the median.
        cut: texts used that have more words than are read.
    """

    file: Path
    name: str
    text_column: str
    label_column: str
    rows: int
    gaps: tuple[str, ...]
    repeated: int
    several: int
    unused: int
    classes: dict[str, int]
    shortest: int
    middle: float
    longest: int
    cut: int

    @property
    def texts(self) -> int:
        return sum(self.classes.values())

    @property
    def much_cut(self) -> bool:
        """Whether so many texts are cut that where their evidence stands cannot be told."""
        return self.cut > MANY * self.texts


def survey(
    path: Path, text_column: str, label_column: str, limit: int, words: int, folder: Path
) -> Survey:
    """Read a file, choose at most about ``limit`` of its texts, and write those into a folder.

    Texts are cut first, to what the models read of them: texts that are then the same are one text,
    so that none is in two splits. Which are chosen depends on nothing but the texts; each class keeps
    its share, and at least `FEWEST` texts.

    Args:
        words: how many of a text's words will be read.

    Raises:
        InputError: for a file that cannot be read, fewer than two classes, or a class with too few
            texts.
    """
    gaps = list[str]()
    labels, lengths = dict[str, str](), dict[str, int]()
    several, cut = set[str](), set[str]()
    rows = 0
    for whole, label, _ in read_own(path, text_column, label_column, gaps):
        text, length, longer = _read_of(whole, words)
        if not text:
            gaps.append(f"{path}: no words in column {text_column!r}, but {whole!r:.40}")
            continue
        rows += 1
        if labels.setdefault(text, label) != label:
            several.add(text)
        lengths.setdefault(text, length)
        if longer:
            cut.add(text)
    if not labels:
        more = f"; {gaps[0]}" if gaps else ""
        raise InputError(f"{path}: no row has a text and a label{more}")
    counts = Counter(labels.values())
    if len(counts) < 2:
        only = next(iter(counts))
        raise InputError(
            f"{path}: column {label_column!r} has one class, {only!r:.60}; classification needs two"
        )
    try:
        check_classes(counts, path, len(several))
    except InputError as error:
        if not cut:
            raise
        raise InputError(f"{error}; of a text the first {words} words are read (--words)") from None
    chosen = _chosen(labels, counts, limit)
    used = sorted(lengths[text] for text in chosen)
    lines = (json.dumps({"text": text, "label": label}) + "\n" for text, label in chosen.items())
    content, file = "".join(lines), folder / TEXTS_FILE
    if not (file.is_file() and file.read_bytes() == content.encode()):  # its time is its identity
        write_atomically(file, content)
    return Survey(
        file,
        path.name,
        text_column,
        label_column,
        rows,
        tuple(gaps),
        rows - len(labels),
        len(several),
        len(labels) - len(chosen),
        dict(Counter(chosen.values()).most_common()),
        used[0],
        median(used),
        used[-1],
        sum(text in cut for text in chosen),
    )


def _read_of(text: str, words: int) -> tuple[str, int, bool]:
    """What models read of a text, how many words it has, and whether it has more than they read."""
    every = tokenize(text)
    plain = " ".join(text.split())
    read = " ".join(tokenize(plain[: words * LETTERS])[:words])
    while (again := " ".join(tokenize(read))) != read:  # parts of "<br />" that came to stand together
        read = again
    return read, len(every), len(every) > words or len(plain) > words * LETTERS


def _chosen(labels: Mapping[str, str], counts: Mapping[str, int], limit: int) -> dict[str, str]:
    if len(labels) <= limit:
        return dict(labels)
    left = {label: max(FEWEST, limit * count // len(labels)) for label, count in counts.items()}
    chosen = {}
    for text, label, _ in shuffled((Raw(*pair) for pair in labels.items()), "diagnose"):
        if left[label]:
            left[label] -= 1
            chosen[text] = label
    return chosen
