"""The numbers that decide claims on theory (thesis §2.1). They need no runs of record: they are computed
when they are asked for, where `Evidence.live` allows it, in some seconds.
"""

from collections.abc import Callable, Sequence

from whenpool.report.evidence import Evidence, PerSeed

SEEDS = 3


def largest_change(
    evidence: Evidence,
    models: Sequence[str],
    hidden_size: int = 128,
    input_variance: float = 1.0,
    first: int = 10,
    last: int = 30,
) -> PerSeed:
    """By how many % the gradient norm changes with each step from the last state, before training; the
    largest of some models, for each drawn network (`whenpool.theory.comparison.MODELS`)."""
    if not evidence.live:
        return {}
    from whenpool.theory.comparison import MODELS
    from whenpool.theory.shrinkage import factor_of, measured_shrinkage

    def change(name: str, seed: int) -> float:
        cell, bias = MODELS[name]
        norms = measured_shrinkage(cell, hidden_size, 100, bias, input_variance, last, seed)
        return 100 * (factor_of(norms, first, last) - 1)

    return {seed: max(change(name, seed) for name in models) for seed in range(SEEDS)}


def max_pooling_error(evidence: Evidence, units: int, words: int, precision: float) -> PerSeed:
    """The largest difference between the max-pooled states of a random LSTM and the last state of the
    two-layer LSTM that is built from it, over its precision."""
    if not evidence.live:
        return {}
    import torch

    from whenpool.pooling import MaxPool
    from whenpool.theory.constructions import max_pooled_by_a_layer, read_running_max

    found = {}
    for seed in range(SEEDS):
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            lstm = torch.nn.LSTM(8, units, batch_first=True).double()
            texts = torch.randn(8, words, 8).double()
            pooled = MaxPool()(lstm(texts)[0], torch.ones(8, words))[0]
            last = max_pooled_by_a_layer(lstm, precision, words)(texts)[0][:, -1]
            error = (read_running_max(last, precision) - pooled).abs().max()
        found[seed] = error.item() / precision
    return found


def parity_out_of_reach(evidence: Evidence, states: int, values: Sequence[int]) -> PerSeed:
    """On how many of the texts 1, 11, 111, … the last value of the best machine tells parity, over that
    of the best max-pooled one; a number for each number of values of a unit."""
    if not evidence.live:
        return {}
    from whenpool.theory.lattice import longest_parity_of_machines

    reach = {v: longest_parity_of_machines(states, 1, v) for v in values}
    return {v: last / pooled for v, (pooled, last) in reach.items()}


QUANTITIES: dict[str, Callable[..., PerSeed]] = {
    f.__name__: f for f in (largest_change, max_pooling_error, parity_out_of_reach)
}
