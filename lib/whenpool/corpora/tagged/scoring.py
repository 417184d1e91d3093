"""How well a tagger finds entities: precision, recall and F1 by ``seqeval``, and what kind its errors
are."""

from collections.abc import Sequence
from dataclasses import dataclass

from whenpool.base.errors import InputError
from whenpool.corpora.tagged.encodings import Entity, convert, entities

Tags = Sequence[Sequence[str]]
"""Of each sentence."""


COUNTED = ("true", "predicted", "right", "boundary", "mistyped", "spurious", "missed")
"""What is counted of entities, see `EntityScores`."""


@dataclass(frozen=True)
class EntityScores:
    """Entities found beside those that are there; the three scores in %.

    An entity is right when its first word, its last word and its type are. Of those that are wrong,
    ``boundary`` overlap a true entity in other borders, whatever its type, ``mistyped`` have the
    borders of one and another type, and ``spurious`` overlap none; ``missed`` are the true ones that no
    predicted one overlaps.

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


def entity_scores(true: Tags, predicted: Tags, strict: bool = False) -> EntityScores:
    """Scores of some sentences together (micro-averaged), as ``seqeval`` computes them.

    Both may be in any encoding of `whenpool.corpora.tagged.encodings`, not necessarily the same: a tagger
    that was trained in IO is held against the true entities.

    Args:
        true, predicted: tags of each sentence.
        strict: read entities as ``seqeval``'s ``mode="strict"`` with IOB2 does: what does not begin with
            ``B-`` is none. By default an ``I-`` may begin one, as for conlleval.

    Raises:
        InputError: for other numbers of sentences or words, a tag that is none, or where the package
            seqeval is missing.

    Examples:
        >>> true = [["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"]]  # First Bank of Chicago announced
        >>> cut = [["O", "B-ORG", "I-ORG", "I-ORG", "O"]]  # Bank of Chicago
        >>> scores = entity_scores(true, cut)
        >>> scores.f1, scores.boundary
        (0.0, 1)
    """
    _check(true, predicted)
    for_seqeval = [[list(tags) for tags in part] for part in (true, predicted)]
    if strict:
        true, predicted = (_strictly(part) for part in (true, predicted))
    else:  # so that seqeval reads IO as it reads the others
        for_seqeval = [[convert(tags, "iob2") for tags in part] for part in for_seqeval]
    precision, recall, f1 = _by_seqeval(for_seqeval[0], for_seqeval[1], strict)
    counts = dict.fromkeys(COUNTED, 0)
    for theirs, ours in zip(true, predicted, strict=True):
        there, found = entities(theirs), entities(ours)
        counts["true"] += len(there)
        counts["predicted"] += len(found)
        for entity in found:
            counts[_kind(entity, there)] += 1
        counts["missed"] += sum(_kind(entity, found) == "spurious" for entity in there)
    return EntityScores(100 * precision, 100 * recall, 100 * f1, **counts)


def _by_seqeval(true: list[list[str]], predicted: list[list[str]], strict: bool) -> tuple[float, ...]:
    try:
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
        from seqeval.scheme import IOB2
    except ImportError:
        raise InputError(
            "entity scores need the package seqeval: pip install 'whenpool[tagging]'"
        ) from None
    if strict:
        from seqeval.metrics.v1 import precision_recall_fscore_support as strictly

        found = strictly(true, predicted, average="micro", scheme=IOB2, zero_division=0)
    else:
        found = precision_recall_fscore_support(true, predicted, average="micro", zero_division=0)
    return tuple(float(value) for value in found[:3])


def _strictly(sentences: Tags) -> list[list[str]]:
    """Without what begins with ``I-``, in IOB2."""
    kept = []
    for tags in sentences:
        row = ["O"] * len(tags)
        for entity in entities(tags):
            if tags[entity.start].startswith("B"):
                row[entity.start : entity.stop] = tags[entity.start : entity.stop]
        kept.append(row)
    return kept


def _kind(entity: Entity, others: Sequence[Entity]) -> str:
    if entity in others:
        return "right"
    if any((entity.start, entity.stop) == (other.start, other.stop) for other in others):
        return "mistyped"
    overlaps = any(entity.start < other.stop and other.start < entity.stop for other in others)
    return "boundary" if overlaps else "spurious"


def _check(true: Tags, predicted: Tags) -> None:
    if len(true) != len(predicted):
        raise InputError(f"{len(true)} sentences have tags, {len(predicted)} were tagged")
    for number, (theirs, ours) in enumerate(zip(true, predicted, strict=True), 1):
        if len(theirs) != len(ours):
            raise InputError(f"sentence {number} has {len(theirs)} words, {len(ours)} were tagged")
