"""Tagged sentences, and files of them: CoNLL-U, and any in which a line is a word and its tag."""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from whenpool.base.errors import InputError
from whenpool.base.files import is_file


@dataclass(frozen=True)
class Tagged:
    """A sentence.

    Attributes:
        words, tags: as many of each.
        line: where it begins in its file, counted from 1; 0 outside of a file.
        later: places of the words whose tag only a later word decides, as far as that is known.

    Examples:
        >>> list(Tagged(("Fred", "showed"), ("B-PER", "O")))
        [('Fred', 'B-PER'), ('showed', 'O')]
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int = 0
    later: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Each word with its tag."""
        return zip(self.words, self.tags, strict=True)


@dataclass(frozen=True)
class TaggedCorpus:
    """Sentences for training, validation and test.

    Attributes:
        entities: whether tags mark entities, by an encoding of `whenpool.corpora.tagged.entities`.
        complete: whether it is the whole of a published corpus.
        notes: what a reader of results should know, a sentence each.

    Examples:
        >>> fred = Tagged(("Fred", "showed"), ("B-PER", "O"))
        >>> TaggedCorpus([fred], [fred], [fred], entities=True).tags
        ('B-PER', 'O')
    """

    train: Sequence[Tagged]
    validation: Sequence[Tagged]
    test: Sequence[Tagged]
    entities: bool
    name: str = ""
    complete: bool = False
    notes: tuple[str, ...] = ()

    @property
    def splits(self) -> dict[str, Sequence[Tagged]]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def tags(self) -> tuple[str, ...]:
        """Of the training sentences, in alphabetical order."""
        return tuple(sorted({tag for sentence in self.train for tag in sentence.tags}))


COLUMNS = {"upos": 3, "xpos": 4}
"""The columns of CoNLL-U that are read as tags, counted from 0."""
LONGEST_LINE = 2**16
"""Bytes."""
MOST_WORDS, LONGEST_SENTENCE = 20_000_000, 10_000
"""Of a file, so that a small packed one cannot fill the memory."""

_WORD, _NO_WORD = re.compile(r"[1-9][0-9]*"), re.compile(r"[0-9]+[-.][0-9]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def is_conllu(path: Path) -> bool:
    """Whether a file is CoNLL-U by its name."""
    return path.name.lower().removesuffix(".gz").endswith(".conllu")


def read_tagged(path: str | Path, column: str = "upos") -> list[Tagged]:
    """The sentences of a file.

    Args:
        path: ``.conllu`` is read as CoNLL-U, anything else as columns; ``.gz`` is unpacked.
        column: "upos" or "xpos", of CoNLL-U alone.

    Raises:
        InputError: for a file that is missing or no UTF-8, a line without word or tag or with another
            number of columns, named by its number, or a file without sentences.

    Examples:
        >>> from pathlib import Path; import tempfile
        >>> file = Path(tempfile.mkdtemp(), "two.tsv")
        >>> _ = file.write_text("Fred B-PER\\nshowed O\\n\\nSue B-PER\\n")
        >>> [sentence.words for sentence in read_tagged(file)]
        [('Fred', 'showed'), ('Sue',)]
    """
    path = Path(path)
    if column not in COLUMNS:
        raise InputError(f"column {column!r} is unknown; choose one of {', '.join(COLUMNS)}")
    if not is_file(path):
        raise InputError(f"file of tagged words {path} is not there")
    read = _conllu(path, COLUMNS[column]) if is_conllu(path) else _columns(path)
    found, count = [], 0
    try:
        for sentence in read:
            count += len(sentence)
            if count > MOST_WORDS:
                raise InputError(f"{path}: more than {MOST_WORDS:,} words; give a smaller file")
            found.append(sentence)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {reason!s:.200}; pack it anew") from None
    if not found:
        raise InputError(f"{path} has no sentence: a line must be a word and its tag")
    return found


def _conllu(path: Path, column: int) -> Iterator[Tagged]:
    collected = _Sentence(path)
    for number, line in _lines(path):
        if not line.strip():
            yield from collected.done()
            continue
        if line.startswith("#"):
            continue
        where, cells = f"{path}, line {number}", line.split("\t")
        if len(cells) != 10:
            raise InputError(f"{where}: {len(cells)} columns, CoNLL-U has 10, separated by tabs")
        if _NO_WORD.fullmatch(cells[0]):
            continue
        if not _WORD.fullmatch(cells[0]):
            raise InputError(f"{where}: {cells[0]!r:.40} numbers no word; write 1, 2, 3, ...")
        if int(cells[0][:9]) != len(collected) + 1:
            raise InputError(
                f"{where}: word {cells[0]:.20} where number {len(collected) + 1} should stand; put a "
                "blank line between sentences"
            )
        tag = "" if cells[column] == "_" else cells[column]
        collected.add(number, cells[1].strip(), tag)
    yield from collected.done()


def _columns(path: Path) -> Iterator[Tagged]:
    collected, width, first = _Sentence(path), 0, 0
    for number, line in _lines(path):
        if not line.strip() or line.startswith("-DOCSTART-"):
            yield from collected.done()
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) < 2:
            raise InputError(f"{path}, line {number}: a word without a tag; write both, or a blank line")
        width, first = width or len(cells), first or number
        if len(cells) != width:
            raise InputError(
                f"{path}, line {number}: {len(cells)} columns, line {first} has {width}; give each line "
                "as many"
            )
        collected.add(number, cells[0].strip(), cells[-1].strip())
    yield from collected.done()


class _Sentence:
    """Collects the words of one sentence after another."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._words: list[str] = []
        self._tags: list[str] = []
        self._line = 0

    def __len__(self) -> int:
        return len(self._words)

    def add(self, number: int, word: str, tag: str) -> None:
        where = f"{self._path}, line {number}"
        for what, value in (("word", word), ("tag", tag)):
            if not value:
                raise InputError(f"{where}: the {what} is missing; every word has a tag")
            if _CONTROL.search(value):
                raise InputError(
                    f"{where}: the {what} {value!r:.60} holds a control character; remove it"
                )
        if len(self._words) == LONGEST_SENTENCE:
            raise InputError(
                f"{where}: more than {LONGEST_SENTENCE:,} words in a sentence; put a blank line between "
                "sentences"
            )
        self._line = self._line or number
        self._words.append(word)
        self._tags.append(tag)

    def done(self) -> Iterator[Tagged]:
        if self._words:
            yield Tagged(tuple(self._words), tuple(self._tags), self._line)
        self._words, self._tags, self._line = [], [], 0


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, without the ends of lines."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        number = 0
        while data := file.readline(LONGEST_LINE):
            number += 1
            if len(data) == LONGEST_LINE:
                raise InputError(f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes; break it")
            try:
                line = data.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                byte = data[error.start]
                raise InputError(
                    f"{path}, line {number}: not UTF-8 text (byte 0x{byte:02x}); save the file as UTF-8"
                ) from None
            yield number, line.rstrip("\r\n")
