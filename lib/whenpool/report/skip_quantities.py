"""The numbers that decide claims on training to skip words (thesis §1.8), one for every seed."""

from collections.abc import Callable

from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.quantities import POOLED, chosen, minus


def trained_accuracy(
    evidence: Evidence, size: int, model: str, setting: str, corpus: str = "imdb", length: str = "long"
) -> PerSeed:
    """Test accuracy in %."""
    return evidence.accuracies(model, size=size, setting=setting, corpus=corpus, length=length)


def trained_lead(evidence: Evidence, size: int, model: str, setting: str) -> PerSeed:
    """Test accuracy of a model minus that of the best of the others, the BiLSTM among them."""
    others = [name for name in ("last", *POOLED) if name != model]
    best = chosen([trained_accuracy(evidence, size, name, setting) for name in others], "max")
    return minus(trained_accuracy(evidence, size, model, setting), best)


def trained_both_ends_against_one(evidence: Evidence, size: int, model: str) -> PerSeed:
    """Test accuracy with filler on the worse single end minus that with it on both."""
    one = [trained_accuracy(evidence, size, model, setting) for setting in ("left", "right")]
    return minus(chosen(one, "min"), trained_accuracy(evidence, size, model, "mid"))


QUANTITIES: dict[str, Callable[..., PerSeed]] = {
    f.__name__: f for f in (trained_accuracy, trained_lead, trained_both_ends_against_one)
}
