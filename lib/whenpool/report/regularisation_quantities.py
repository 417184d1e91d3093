"""The numbers that decide claims on regularisation and tuning (thesis §1.4.2), one for every seed.

They read small trainings, which `Evidence.small` holds: LSTMs as the quick profile has them.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from whenpool.registry import COMPARED
from whenpool.regularisation_plan import GRID, LEARNING_RATES, SUSTAINED, SUSTAINED_RATE
from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.quantities import POOLED, chosen, minus
from whenpool.report.regularisation import fastest_epochs, on_record

Changes = dict[str, Any]


def regularisation_gain(
    evidence: Evidence, choose: str = "min", models: Sequence[str] = COMPARED
) -> PerSeed:
    """Points of test accuracy that the best regularisation gains over none, the lowest or highest of
    some models. Which is best the validation accuracy says, the mean over seeds."""

    def gain(model: str) -> PerSeed:
        none = evidence.small_values(model)
        return minus(_best(evidence, model, [changes for changes in GRID if changes]), none)

    return chosen([gain(model) for model in models], choose)


def sustained_gap(evidence: Evidence, over: str = "last", model: str = "max_attention") -> PerSeed:
    """Test accuracy of one model minus that of another after the longest training, each with
    DropConnect or without it, whichever its validation accuracy prefers."""
    ways: list[Changes] = [{"epochs": SUSTAINED, "drop_connect": rate} for rate in (0.0, SUSTAINED_RATE)]
    return minus(_best(evidence, model, ways), _best(evidence, over, ways))


def sustained_accuracy(evidence: Evidence, model: str, setting: str) -> PerSeed:
    """Test accuracy in % after the longest training, with DropConnect."""
    return evidence.small_values(model, setting=setting, epochs=SUSTAINED, drop_connect=SUSTAINED_RATE)


def learning_rate_lead(
    evidence: Evidence, rate: float, choose: str = "min", models: Sequence[str] = COMPARED
) -> PerSeed:
    """Points of validation accuracy with one learning rate above the better of the others, the lowest
    or highest of some models."""

    def lead(model: str) -> PerSeed:
        reached = {
            tried: evidence.small_values(model, "validation_accuracy", learning_rate=tried)
            for tried in LEARNING_RATES
        }
        others = [values for tried, values in reached.items() if tried != rate]
        return minus(reached[rate], chosen(others, "max"))

    return chosen([lead(model) for model in models], choose)


def epoch_time_ratio(evidence: Evidence, models: Sequence[str] = POOLED) -> PerSeed:
    """Seconds of the fastest epoch of the slowest model over those of the fastest model."""
    if evidence.epochs is None:
        return {}
    seconds = fastest_epochs(on_record(evidence), evidence.epochs)
    found = {}
    for seed, rows in seconds.groupby("seed"):
        own = rows.set_index("pooling")["seconds"]
        if set(models) <= set(own.index):
            found[int(seed)] = float(own[list(models)].max() / own[list(models)].min())
    return found


def _best(evidence: Evidence, model: str, ways: Iterable[Changes]) -> PerSeed:
    """Test accuracies of the way of training whose validation accuracy is highest, the mean over the
    seeds that all ways have."""
    tried = [
        (
            evidence.small_values(model, "validation_accuracy", **changes),
            evidence.small_values(model, **changes),
        )
        for changes in ways
    ]
    seeds = set.intersection(*(set(validation) for validation, _ in tried))
    if not seeds:
        return {}
    _, best = max(tried, key=lambda one: fmean(one[0][seed] for seed in seeds))
    return {seed: best[seed] for seed in sorted(seeds)}


QUANTITIES: dict[str, Callable[..., PerSeed]] = {
    f.__name__: f
    for f in (
        regularisation_gain,
        sustained_gap,
        sustained_accuracy,
        learning_rate_lead,
        epoch_time_ratio,
    )
}
