"""The numbers that decide claims on few labelled texts (thesis §1.10), one for every seed.

A seed draws the labelled texts as well, so what it compares has learnt from the same ones.
"""

from collections.abc import Callable, Sequence

from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.few_shot_rules import PER_CLASS
from whenpool.report.quantities import chosen, minus


def few_shot_accuracy(
    evidence: Evidence, corpus: str, system: str, per_class: int = PER_CLASS
) -> PerSeed:
    """Test accuracy in %."""
    runs = evidence.few_shots
    if runs is None or runs.empty:
        return {}
    mine = (runs["corpus"] == corpus) & (runs["system"] == system) & (runs["per_class"] == per_class)
    own = runs[mine].sort_values("seed")
    return {
        int(seed): float(value) for seed, value in zip(own["seed"], own["test_accuracy"], strict=True)
    }


def few_shot_gain(
    evidence: Evidence, corpus: str, systems: Sequence[str], over: Sequence[str], against: str = "best"
) -> PerSeed:
    """Points of the lowest of some systems above the best, or the lowest, of others; for seeds of which
    all have a number."""
    mine = [few_shot_accuracy(evidence, corpus, system) for system in systems]
    others = [few_shot_accuracy(evidence, corpus, system) for system in over]
    return minus(chosen(mine, "min"), chosen(others, {"best": "max", "lowest": "min"}[against]))


QUANTITIES: dict[str, Callable[..., PerSeed]] = {"few_shot_gain": few_shot_gain}
