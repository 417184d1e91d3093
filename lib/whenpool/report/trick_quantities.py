"""The numbers that decide claims on the learnability of LSTMs (thesis §2.2), one for every seed.

Names of models are variants, see `whenpool.runs.variant_of`; a seed that diverged has no number.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.quantities import chosen, minus
from whenpool.report.trick_epochs import cost_of_ending, mass_before_the_end, mean_squared_error
from whenpool.runs import TRICKS

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def trick_accuracy(evidence: Evidence, size: int, variant: str, setting: str) -> PerSeed:
    """Test accuracy in %."""
    rows = _runs(evidence, size, variant, setting)
    return dict(zip(rows["seed"], rows["test_accuracy"], strict=True)) if len(rows) else {}


def trick_gain(
    evidence: Evidence, size: int, variant: str, over: str, settings: Sequence[str], choose: str = "min"
) -> PerSeed:
    """Test accuracy of a variant minus that of another, the lowest or highest of some settings."""
    gains = [
        minus(trick_accuracy(evidence, size, variant, s), trick_accuracy(evidence, size, over, s))
        for s in settings
    ]
    return chosen(gains, choose)


def best_trick_gain(evidence: Evidence, size: int, over: str, settings: Sequence[str]) -> PerSeed:
    """The same for whichever trick is best, the highest of some settings; for seeds of which every trick
    has its numbers."""
    gains = [trick_gain(evidence, size, trick, over, settings, "max") for trick in TRICKS]
    return chosen(gains, "max")


def teacher_error(evidence: Evidence, size: int, setting: str) -> PerSeed:
    """Mean squared error that teacher forcing reaches."""
    return _of_epochs(evidence, size, "teacher_forcing", setting, mean_squared_error)


def attention_left(evidence: Evidence, size: int, variant: str, setting: str) -> PerSeed:
    """Attention on other states in the last epoch before the curriculum ends."""
    return _of_epochs(evidence, size, variant, setting, mass_before_the_end)


def ending_cost(evidence: Evidence, size: int, variant: str, setting: str) -> PerSeed:
    """Points of validation accuracy lost as attention goes."""
    return _of_epochs(evidence, size, variant, setting, cost_of_ending)


QUANTITIES: dict[str, Callable[..., PerSeed]] = {
    f.__name__: f
    for f in (trick_accuracy, trick_gain, best_trick_gain, teacher_error, attention_left, ending_cost)
}


def _runs(evidence: Evidence, size: int, variant: str, setting: str) -> "DataFrame":
    rows = evidence.variants
    if rows is None or rows.empty:
        return evidence.trainings.head(0)
    mine = (rows["size"] == size) & (rows["variant"] == variant) & (rows["setting"] == setting)
    return rows[mine].drop_duplicates("seed", keep="last")


def _of_epochs(
    evidence: Evidence,
    size: int,
    variant: str,
    setting: str,
    read: "Callable[[DataFrame], Series]",
) -> PerSeed:
    rows = _runs(evidence, size, variant, setting)
    if rows.empty or evidence.epochs is None:
        return {}
    found = read(evidence.epochs[evidence.epochs["key"].isin(rows["key"])])
    seeds = rows.set_index("key")["seed"].sort_values()
    return {int(seed): float(found[key]) for key, seed in seeds.items() if key in found}
