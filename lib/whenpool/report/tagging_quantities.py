"""The numbers that decide claims on sequence labelling, one for every seed."""

from collections.abc import Callable
from typing import Any

from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.quantities import minus


def tagging_result(
    evidence: Evidence,
    corpus: str,
    measure: str,
    bidirectional: bool = True,
    encoding: str | None = None,
    cell: str = "lstm",
) -> PerSeed:
    """A column of the tagging runs of one model, such as "test_accuracy" or "entity_f1", in %."""
    runs = evidence.taggings
    if runs is None or runs.empty:
        return {}
    wanted: dict[str, Any] = {"corpus": corpus, "bidirectional": bidirectional, "cell": cell}
    mine = runs["encoding"].isna() if encoding is None else runs["encoding"] == encoding
    for name, value in wanted.items():
        mine &= runs[name] == value
    own = runs[mine]
    return {int(seed): float(value) for seed, value in zip(own["seed"], own[measure], strict=True)}


def tagging_gain_by_both_directions(evidence: Evidence, corpus: str, measure: str) -> PerSeed:
    """Points of the bidirectional tagger above the one that reads from left to right."""
    both, one = (tagging_result(evidence, corpus, measure, way) for way in (True, False))
    return minus(both, one)


def tagging_distance_of_encodings(
    evidence: Evidence, corpus: str, encoding: str, measure: str = "entity_f1"
) -> PerSeed:
    """Points between taggers trained in the file's own encoding and in another, without sign."""
    own, other = (tagging_result(evidence, corpus, measure, encoding=e) for e in (None, encoding))
    return {seed: abs(value) for seed, value in minus(own, other).items()}


def tagging_share_of_boundary_errors(evidence: Evidence, corpus: str) -> PerSeed:
    """Of all entities that the bidirectional tagger finds, those that overlap a true one in other
    borders, in %."""
    wrong, found = (
        tagging_result(evidence, corpus, f"entities_{name}") for name in ("boundary", "predicted")
    )
    return {seed: 100 * wrong[seed] / found[seed] for seed in wrong if found[seed]}


def tagging_accuracy_above_f1(evidence: Evidence, corpus: str) -> PerSeed:
    """Points of the accuracy over words above the F1 of entities, of the bidirectional tagger."""
    words, entities = (tagging_result(evidence, corpus, name) for name in ("test_accuracy", "entity_f1"))
    return minus(words, entities)


def tagging_gradient(evidence: Evidence, corpus: str, what: str) -> PerSeed:
    """Before training, of the bidirectional tagger: "evenness", the lowest gradient of all words' losses
    over the highest, or "reach", that of one word's loss at the ends over that at the word."""
    return tagging_result(evidence, corpus, f"gradient_{what}")


QUANTITIES: dict[str, Callable[..., PerSeed]] = {
    f.__name__: f
    for f in (
        tagging_gain_by_both_directions,
        tagging_distance_of_encodings,
        tagging_share_of_boundary_errors,
        tagging_accuracy_above_f1,
        tagging_gradient,
    )
}
