"""How tags mark entities: IO, IOB1 and IOB2, from one to another, and scores of those found.

An entity is a run of words of one type. In *IO* each of its words has ``I-TYPE``, so two entities of one type
that touch become one. *IOB1* writes ``B-TYPE`` on the first word of an entity only where one of the same type
ends right before, *IOB2* (BIO) on the first word of every entity. `entities` reads all three as conlleval and
``seqeval`` do: an ``I-`` after ``O``, or after another type, begins an entity.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from whenpool.base.errors import InputError, check_known

ENCODINGS = ("io", "iob1", "iob2")
OUTSIDE = "O"


class Entity(NamedTuple):
    """Words ``start`` to ``stop``, the latter not among them.

    Examples:
        >>> Entity("PER", 3, 5) in entities(["O", "O", "O", "B-PER", "I-PER"])
        True
    """

    type: str
    start: int
    stop: int


class Encoding(NamedTuple):
    """What the tags of some sentences look like: one of `ENCODINGS` or "mixed", the number of entities, and
    how many of them begin with ``I-``. Where several encodings fit, it is the first of iob2, iob1, io.

    Examples:
        >>> encoding_of([["B-PER", "I-PER", "O"]]).name
        'iob2'
    """

    name: str
    entities: int
    begun_inside: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, from left to right. Raises `InputError` for a tag that is none of "O",
    "B-TYPE" and "I-TYPE".

    Examples:
        >>> entities(["B-PER", "O", "I-ORG", "I-ORG"])
        [Entity(type='PER', start=0, stop=1), Entity(type='ORG', start=2, stop=4)]
    """
    found: list[Entity] = []
    kind, start = "", 0
    for place, tag in enumerate((*tags, OUTSIDE)):
        type_ = tag[2:]
        if tag != OUTSIDE and not (type_ and tag.startswith(("B-", "I-"))):
            raise InputError(f"word {place + 1}: the tag {tag!r:.60} is none of O, B-TYPE and I-TYPE")
        if kind and (tag[0] != "I" or type_ != kind):
            found.append(Entity(kind, start, place))
            kind = ""
        if type_ and not kind:
            kind, start = type_, place
    return found


def convert(tags: Sequence[str], target: str) -> list[str]:
    """The tags of one sentence in another of the `ENCODINGS`; their own is found out. Raises `InputError` for
    an unknown encoding, or a tag that is none of them.

    Examples:
        >>> convert(["I-PER", "I-PER", "B-PER", "O"], "iob2")  # from IOB1
        ['B-PER', 'I-PER', 'B-PER', 'O']
        >>> convert(["B-PER", "I-PER", "B-PER", "O"], "io")  # the border between two is lost
        ['I-PER', 'I-PER', 'I-PER', 'O']
    """
    check_known("encoding", target, ENCODINGS)
    written = _in_iob2(entities(tags), len(tags))
    for entity, touches in _with_touching(tags):
        if target == "io" or (target == "iob1" and not touches):
            written[entity.start] = f"I-{entity.type}"
    return written


def _in_iob2(found: Iterable[Entity], words: int) -> list[str]:
    """The tags of a sentence of so many words."""
    tags = [OUTSIDE] * words
    for kind, start, stop in found:
        tags[start:stop] = [f"B-{kind}", *[f"I-{kind}"] * (stop - start - 1)]
    return tags


def encoding_of(sentences: Iterable[Sequence[str]]) -> Encoding:
    """Which encoding the tags of some sentences have: "mixed" when some entities begin with ``I-`` as in IOB1
    and others, which touch none of their type, with ``B-`` as in IOB2. Raises `InputError` for a tag that is
    none of the encodings'.

    Examples:
        >>> encoding_of([["I-PER", "O", "I-PER", "B-PER"]])
        Encoding(name='iob1', entities=3, begun_inside=2)
    """
    seen: Counter[str] = Counter()
    for tags in sentences:
        for entity, touches in _with_touching(tags):
            inside = tags[entity.start].startswith("I")
            seen["inside" if inside else "needed" if touches else "begun"] += 1
    name = "mixed" if seen["begun"] else "iob1" if seen["needed"] else "io"
    return Encoding(name if seen["inside"] else "iob2", seen.total(), seen["inside"])


def _with_touching(tags: Sequence[str]) -> Iterator[tuple[Entity, bool]]:
    """Each entity, and whether one of the same type ends right before it."""
    before = Entity("", 0, 0)
    for entity in entities(tags):
        yield entity, (before.type, before.stop) == (entity.type, entity.start)
        before = entity


COUNTED = ("true", "predicted", "right", "boundary", "mistyped", "spurious", "missed")


@dataclass(frozen=True)
class EntityScores:
    """The entities that a tagger found, compared with the true ones; the three scores in %.

    An entity is right when its first word, its last word and its type are. Of those that are wrong,
    ``boundary`` overlap a true entity in other borders, whatever its type, ``mistyped`` have the
    borders of one and another type, and ``spurious`` overlap none; ``missed`` are the true ones that no
    predicted one overlaps. ``by_type`` has the F1 of each type that a true entity has.

    Examples:
        >>> found = entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "B-ORG"]])
        >>> found.recall, found.mistyped
        (50.0, 1)
    """

    precision: float
    recall: float
    f1: float
    true: int
    predicted: int
    right: int
    boundary: int
    mistyped: int
    spurious: int
    missed: int
    by_type: Mapping[str, float] = field(default_factory=dict)


def entity_scores(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], strict: bool = False
) -> EntityScores:
    """Scores of some sentences together (micro-averaged), by ``seqeval``.

    Args:
        true, predicted: tags of each sentence, in any encoding, not necessarily the same: a tagger that was
            trained in IO is compared with the true entities.
        strict: read entities as ``seqeval``'s ``mode="strict"`` with IOB2 does: what does not begin with
            ``B-`` is none. By default an ``I-`` may begin one, as for conlleval.

    Raises:
        InputError: for other numbers of sentences or words, a tag that is none, or without seqeval.

    Examples:
        >>> true = [["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"]]  # First Bank of Chicago announced
        >>> cut = [["O", "B-ORG", "I-ORG", "I-ORG", "O"]]  # Bank of Chicago
        >>> scores = entity_scores(true, cut)
        >>> scores.f1, scores.boundary
        (0.0, 1)
    """
    try:
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    except ImportError:
        raise InputError("entity scores need seqeval: pip install 'whenpool[tagging]'") from None
    if len(true) != len(predicted):
        raise InputError(f"{len(true)} sentences have tags, {len(predicted)} were tagged")
    counts = Counter(dict.fromkeys(COUNTED, 0))
    written: tuple[list[list[str]], list[list[str]]] = [], []  # in IOB2, which seqeval reads in one way
    for number, pair in enumerate(zip(true, predicted, strict=True), 1):
        words = len(pair[0])
        if len(pair[1]) != words:
            raise InputError(f"sentence {number} has {words} words, {len(pair[1])} were tagged")
        there, found = (
            [entity for entity in entities(tags) if not strict or tags[entity.start].startswith("B")]
            for tags in pair
        )
        counts.update(_kind(entity, there) for entity in found)
        missed = sum(_kind(entity, found) == "spurious" for entity in there)
        counts.update(true=len(there), predicted=len(found), missed=missed)
        written[0].append(_in_iob2(there, words))
        written[1].append(_in_iob2(found, words))
    *overall, _ = precision_recall_fscore_support(*written, average="micro", zero_division=0)
    precision, recall, f1 = (100 * float(value) for value in overall)
    types = sorted({tag[2:] for tags in chain(*written) for tag in tags if tag != OUTSIDE})
    *_, of_types, support = precision_recall_fscore_support(*written, zero_division=0)
    rows = zip(types, of_types, support, strict=True)
    by_type = {name: 100 * float(value) for name, value, count in rows if count}
    return EntityScores(precision, recall, f1, **counts, by_type=by_type)


def _kind(entity: Entity, others: Sequence[Entity]) -> str:
    if entity in others:
        return "right"
    if any((entity.start, entity.stop) == (other.start, other.stop) for other in others):
        return "mistyped"
    overlaps = any(entity.start < other.stop and other.start < entity.stop for other in others)
    return "boundary" if overlaps else "spurious"
