"""Tagged sentences, and files of them: CoNLL-U, and any in which a line is a word and its tag."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from whenpool.base.errors import InputError
from whenpool.base.files import is_file, lines_of


@dataclass(frozen=True)
class Tagged:
    """A sentence: as many words as tags.

    Attributes:
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

Row = tuple[int, str, str] | None
"""The number of a line, its word and its tag; None between two sentences."""


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
    found: list[Tagged] = []
    pairs: list[tuple[str, str]] = []
    begun = 0
    for row in chain(_conllu(path, COLUMNS[column]) if is_conllu(path) else _columns(path), [None]):
        if row is not None:
            number, word, tag = row
            if not (word and tag):
                missing = "tag" if word else "word"
                raise InputError(
                    f"{path}, line {number}: the {missing} is missing; every word has a tag"
                )
            begun = begun if pairs else number
            pairs.append((word, tag))
        elif pairs:
            words, tags = zip(*pairs, strict=True)
            found.append(Tagged(words, tags, begun))
            pairs = []
    if not found:
        raise InputError(f"{path} has no sentence: a line must be a word and its tag")
    return found


def _conllu(path: Path, column: int) -> Iterator[Row]:
    expected = 1
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            expected = 1
            yield None
            continue
        where, cells = f"{path}, line {number}", line.rstrip("\r\n").split("\t")
        if line.startswith("#"):
            continue
        if len(cells) != 10:
            raise InputError(f"{where}: {len(cells)} columns, CoNLL-U has 10, separated by tabs")
        if re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0]):  # several words in one, or one that was left out
            continue
        if not re.fullmatch(r"[1-9][0-9]*", cells[0]):
            raise InputError(f"{where}: {cells[0]!r:.40} numbers no word; write 1, 2, 3, ...")
        if cells[0] != str(expected):
            raise InputError(
                f"{where}: word {cells[0]:.20} where number {expected} should stand; put a blank line "
                "between sentences"
            )
        expected += 1
        yield number, cells[1].strip(), "" if cells[column] == "_" else cells[column].strip()


def _columns(path: Path) -> Iterator[Row]:
    width, first = 0, 0
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            yield None
            continue
        cells = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        if len(cells) < 2:
            raise InputError(f"{path}, line {number}: a word without a tag; write both, or a blank line")
        width, first = width or len(cells), first or number
        if len(cells) != width:
            raise InputError(
                f"{path}, line {number}: {len(cells)} columns, line {first} has {width}; give each line "
                "as many"
            )
        yield number, cells[0].strip(), cells[-1].strip()
