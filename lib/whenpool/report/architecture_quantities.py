"""The numbers that decide claims on other architectures (thesis §1.3.3, §1.11.1), one for every seed.

Names of models are cells, each without pooling or with one.
"""

from collections.abc import Callable, Sequence

from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.quantities import chosen, minus

TRANSFORMER_POOLINGS = ("last", "mean", "max", "max_attention")


def best_transformer(evidence: Evidence, setting: str) -> PerSeed:
    """Test accuracy in % of the Transformer with whichever pooling validates best, for seeds that have
    all of them."""
    judged = [
        evidence.small_values(pooling, "validation_accuracy", cell="transformer", setting=setting)
        for pooling in TRANSFORMER_POOLINGS
    ]
    tested = [
        evidence.small_values(pooling, cell="transformer", setting=setting)
        for pooling in TRANSFORMER_POOLINGS
    ]
    seeds = set.intersection(*map(set, judged))
    best = {
        seed: max(range(len(judged)), key=lambda place: judged[place][seed]) for seed in sorted(seeds)
    }
    return {seed: tested[place][seed] for seed, place in best.items()}


def transformer_gap(evidence: Evidence, over: str, setting: str) -> PerSeed:
    """Test accuracy of a BiLSTM with some pooling minus that of the best Transformer."""
    return minus(evidence.small_values(over, setting=setting), best_transformer(evidence, setting))


def pooling_gain(
    evidence: Evidence, cells: Sequence[str], pooling: str, over: str, settings: Sequence[str]
) -> PerSeed:
    """Test accuracy with a pooling minus that with another, the lowest of some cells and settings."""
    gains = [
        minus(
            evidence.small_values(pooling, cell=cell, setting=setting),
            evidence.small_values(over, cell=cell, setting=setting),
        )
        for cell in cells
        for setting in settings
    ]
    return chosen(gains, "min")


def memory_growth(evidence: Evidence, cell: str, attention: str = "fused") -> PerSeed:
    """The exponent of the number of words by which the memory of a training step grows."""
    rows = evidence.measured.get("memory")
    if rows is None or rows.empty:
        return {}
    mine = rows[(rows["cell"] == cell) & (rows["attention"] == attention)]
    return {int(seed): float(part["exponent"].iloc[0]) for seed, part in mine.groupby("seed")}


QUANTITIES: dict[str, Callable[..., PerSeed]] = {
    f.__name__: f for f in (transformer_gap, pooling_gain, memory_growth)
}
READS = {"transformer_gap": "small", "pooling_gain": "small", "memory_growth": "memory"}
"""What each quantity is measured on."""
