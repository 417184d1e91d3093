"""How tags mark entities: IO, IOB1 and IOB2, and from one to another.

An entity is a run of words of one type. In *IO* each of its words has ``I-TYPE``, so two entities of
one type that touch become one. *IOB1* writes ``B-TYPE`` on the first word of an entity only where one
of the same type ends right before, *IOB2* (BIO) on the first word of every entity.

`entities` reads all three, and whatever a tagger says, as conlleval does and as ``seqeval`` does by
default: an ``I-`` behind ``O``, or behind another type, begins an entity. So a file in IOB1 that is
given as IOB2 has the right entities, and a stray ``I-`` is an entity. ``seqeval`` in its strict mode
drops such entities instead; see `whenpool.corpora.tagged.entity_scores`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whenpool.base.errors import InputError
from whenpool.corpora.tagged.sentences import Tagged

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
    """What the tags of some sentences look like.

    Attributes:
        name: one of `ENCODINGS`, or "mixed"; where nothing tells them apart the first that fits of
            iob2, iob1, io.
        entities: how many there are.
        begun_inside: how many of them begin with ``I-``.

    Examples:
        >>> encoding_of([["B-PER", "I-PER", "O"]]).name
        'iob2'
    """

    name: str
    entities: int
    begun_inside: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, from left to right.

    Args:
        tags: "O", "B-TYPE" or "I-TYPE".

    Raises:
        InputError: for another tag.

    Examples:
        >>> entities(["B-PER", "O", "I-ORG", "I-ORG"])
        [Entity(type='PER', start=0, stop=1), Entity(type='ORG', start=2, stop=4)]
    """
    found: list[Entity] = []
    kind, start = "", 0
    for place, tag in enumerate((*tags, OUTSIDE)):
        mark, type_ = _parts(tag)
        if kind and (mark != "I" or type_ != kind):
            found.append(Entity(kind, start, place))
            kind = ""
        if type_ and not kind:
            kind, start = type_, place
    return found


def convert(tags: Sequence[str], target: str) -> list[str]:
    """The tags of one sentence in another encoding; what they are encoded in need not be said.

    Args:
        target: one of `ENCODINGS`.

    Raises:
        InputError: for an unknown encoding, or a tag that is none of them.

    Examples:
        >>> convert(["I-PER", "I-PER", "B-PER", "O"], "iob2")  # from IOB1
        ['B-PER', 'I-PER', 'B-PER', 'O']
        >>> convert(["B-PER", "I-PER", "B-PER", "O"], "io")  # the border between two is lost
        ['I-PER', 'I-PER', 'I-PER', 'O']
    """
    if target not in ENCODINGS:
        raise InputError(f"encoding {target!r} is unknown; choose one of {', '.join(ENCODINGS)}")
    written = [OUTSIDE] * len(tags)
    before = Entity("", 0, 0)
    for entity in entities(tags):
        for place in range(entity.start, entity.stop):
            written[place] = f"I-{entity.type}"
        touches = (before.type, before.stop) == (entity.type, entity.start)
        if target == "iob2" or (target == "iob1" and touches):
            written[entity.start] = f"B-{entity.type}"
        before = entity
    return written


def encoding_of(sentences: Iterable[Sequence[str]]) -> Encoding:
    """Which encoding the tags of some sentences have.

    A file is "mixed" when some entities begin with ``I-`` as in IOB1 and others, which touch none of
    their type, with ``B-`` as in IOB2: it was put together from both, or has stray ``I-``.

    Args:
        sentences: the tags of each.

    Raises:
        InputError: for a tag that is none of the encodings'.

    Examples:
        >>> encoding_of([["I-PER", "O", "I-PER", "B-PER"]])
        Encoding(name='iob1', entities=3, begun_inside=2)
    """
    seen: Counter[str] = Counter()
    for tags in sentences:
        before = Entity("", 0, 0)
        for entity in entities(tags):
            touches = (before.type, before.stop) == (entity.type, entity.start)
            inside = tags[entity.start].startswith("I")
            seen["inside" if inside else "needed" if touches else "begun"] += 1
            before = entity
    name = (
        "iob2" if not seen["inside"]
        else "mixed" if seen["begun"]
        else "iob1" if seen["needed"]
        else "io"
    )  # fmt: skip
    return Encoding(name, seen.total(), seen["inside"])


def mark_entities(sentences: Iterable[Tagged]) -> bool:
    """Whether some tag begins with ``B-`` or ``I-``; then all must mark entities: `check_entities`."""
    return any(tag.startswith(("B-", "I-")) for sentence in sentences for tag in sentence.tags)


def check_entities(sentences: Iterable[Tagged], where: str) -> None:
    """Check that all tags mark entities.

    Args:
        where: what a message begins with, such as the name of the file.

    Raises:
        InputError: for other tags among them, such as those of IOBES, or parts of speech.
    """
    for sentence in sentences:
        for place, tag in enumerate(sentence.tags):
            if not is_entity_tag(tag):
                line = f", sentence at line {sentence.line}, word {place + 1}" if sentence.line else ""
                raise InputError(
                    f"{where}{line}: the tag {tag!r:.60} is none of O, B-TYPE and I-TYPE, which others "
                    "are; write entities in IO, IOB1 or IOB2"
                )


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is "O", "B-TYPE" or "I-TYPE"."""
    return tag == OUTSIDE or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def _parts(tag: str) -> tuple[str, str]:
    """ "B" or "I" and the type; twice nothing outside of entities."""
    if not is_entity_tag(tag):
        raise InputError(f"the tag {tag!r:.60} is none of O, B-TYPE and I-TYPE")
    return ("", "") if tag == OUTSIDE else (tag[0], tag[2:])
