"""What a corpus is, and the rules by which texts are selected and split (thesis §1.4.1)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

from whenpool.base.errors import check

SPLITS = ("train", "validation", "test")
LENGTHS = ("long", "any", "short")  # Over 100 words, whatever, or at most 100 (§1.4.1, §1.8.5)
VALIDATION_LIMIT = 5_000


class Raw(NamedTuple):
    """A text as its publisher gives it."""

    text: str
    label: str
    part: str = ""  # The publisher's own split, where texts of different splits must not mix


@dataclass(frozen=True)
class Split:
    """Labelled texts in a fixed order: each is a text and the number of its class, from 0.

    Examples:
        >>> split = Split(["what a film", "a waste"], [1, 0])
        >>> [label for text, label in split], len(split[:1])
        ([1, 0], 1)
    """

    texts: list[str]
    labels: list[int]

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return zip(self.texts, self.labels, strict=True)

    def __getitem__(self, some: Any) -> Any:
        """One text with its label, or of a slice a `Split`."""
        texts, labels = self.texts[some], self.labels[some]
        return Split(texts, labels) if isinstance(some, slice) else (texts, labels)


@dataclass(frozen=True)
class Corpus:
    """Three splits that share no text.

    Its first n training texts are the training set of size n; validation and test texts are the
    same for every size, seed and pooling.

    Examples:
        >>> corpus = load("synthetic:train=60,validation=20,test=40")
        >>> len(corpus.train), len(corpus.validation), len(corpus.test), len(corpus.classes)
        (60, 20, 40, 2)
    """

    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]  #: names of the labels, in the order of their numbers
    name: str = ""  #: as given to `load`
    #: Whether these are the texts that the thesis drew from; only then are accuracies compared with
    #: its own.
    complete: bool = False
    notes: tuple[str, ...] = ()  #: what a reader of results should know, a sentence each

    @property
    def splits(self) -> dict[str, Split]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


class SplitSizes(NamedTuple):
    """How many texts each split gets where there are enough (Tables 1.1 and 1.7)."""

    train: int
    test: int
    validation: int = VALIDATION_LIMIT


def has_length(text: str, length: str, longest: int | None = None) -> bool:
    """Whether a text is "long" (over 100 words between white space), "short" or "any"; never
    empty."""
    words = len(text.split())
    if length == "long":
        return words > 100 and (longest is None or words <= longest)
    return 0 < words <= 100 if length == "short" else words > 0


def select_and_split(raw: Iterable[Raw], sizes: SplitSizes, source: str) -> Corpus:
    """Drop repeated texts, take equally many of each class, and split by a hash of the text. Where
    texts carry a publisher's part, training texts come from its "train" and the others from its
    "test"; where there are too few, all splits shrink alike."""
    ordered = sorted(raw, key=lambda row: row.part)  # "test" keeps a text that both have
    parts = defaultdict[str, dict[str, list[Raw]]](lambda: defaultdict(list))
    for row in {row.text: row for row in reversed(ordered)}.values():
        parts[row.part][row.label].append(row)
    labels = {label for by_class in parts.values() for label in by_class}
    for part, by_class in parts.items():
        of = f" in its part {part!r}" if len(parts) > 1 else ""
        check(
            len(by_class) >= 2,
            f"{source}: only class {min(by_class)!r} was found{of}"
            "; give texts of at least two classes",
        )
    chosen = {}
    for part, by_class in sorted(parts.items()):
        room = min(map(len, by_class.values()))
        kept = (item for group in by_class.values() for item in shuffled(group, "choose")[:room])
        chosen[part] = shuffled(kept, "split")
    if chosen.keys() == {"train", "test"}:
        train = chosen["train"][: sizes.train]
        test, validation = _cut(chosen["test"], (sizes.test, sizes.validation), source)
    else:
        every = [item for items in chosen.values() for item in items]
        test, validation, train = _cut(every, (sizes.test, sizes.validation, sizes.train), source)
    # classes are sorted by name, or as numbers
    numeric = all(label.isdecimal() for label in labels)
    classes = sorted(labels, key=(lambda name: (int(name), name)) if numeric else None)
    number = {name: index for index, name in enumerate(classes)}

    def made(items: list[Raw]) -> Split:
        return Split([item.text for item in items], [number[item.label] for item in items])

    return Corpus(made(train), made(validation), made(test), tuple(classes))


def shuffled(items: Iterable[Raw], salt: str) -> list[Raw]:
    """In an order that depends on nothing but the texts and the salt."""
    # a text may hold half of a character, as Amazon's do
    key = lambda item: sha256(f"{salt} {item.text}".encode("utf-8", "surrogatepass")).digest()  # noqa: E731
    return sorted(items, key=key)


def _cut(items: list[Raw], sizes: tuple[int, ...], source: str) -> list[list[Raw]]:
    """Consecutive pieces of the wanted sizes, all shrunk alike when there are too few items."""
    shrink, rest = min(1.0, len(items) / sum(sizes)), iter(items)
    pieces = [list(islice(rest, int(size * shrink))) for size in sizes]
    check(
        all(pieces), f"{source}: {len(items)} usable texts are too few for three splits; add some"
    )
    return pieces
