"""Sentences whose words have tags, and the splits they come in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


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
        entities: whether tags mark entities, by an encoding of `whenpool.corpora.tagged.encodings`.
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
