"""The expected shrinkage of a gradient beside the measured one, as rows for figures (thesis §2.1.3).

A row is one number: ``kind`` says whether it is "expected", "independent" (expected, had each step
recurrent weights of its own) or "measured" (then ``seed`` says with which one).

Letters: H units of a state, K steps away from the last state.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from pandas import DataFrame
from torch import Tensor

from whenpool.models.encoder import ForgetBias
from whenpool.probes.gradients import DIRECT_PATHS
from whenpool.theory.shrinkage import direct_gain, expected_shrinkage, factor_of, measured_shrinkage

Setup = tuple[str, int, int, ForgetBias, float, int]
"""The first arguments of `expected_shrinkage`, in order."""
MODELS: dict[str, tuple[str, ForgetBias]] = {
    "basic RNN": ("elman", None),
    "LSTM": ("lstm", None),
    "GRU": ("gru", None),
    "LSTM, forget bias 1": ("lstm", 1.0),
    "LSTM, forget bias 2": ("lstm", 2.0),
    "LSTM, chrono": ("lstm", "chrono"),
}
"""Cell and forget bias of each model that is compared."""


def _orthogonal(weights: Tensor) -> Tensor:
    """Orthogonal, with the same mean square."""
    drawn = torch.nn.init.orthogonal_(torch.empty_like(weights))
    return drawn * (weights.norm() / drawn.norm())


CHANGES: dict[str, dict[str, Any]] = {
    "as assumed": {},
    "one word, repeated": {"repeated": True},
    "orthogonal, same size": {"change": _orthogonal},
    "orthogonal, as `Encoder`": {"change": lambda U: torch.nn.init.orthogonal_(torch.empty_like(U))},
    "symmetric weights": {"change": lambda U: (U + U.T) / 2**0.5},
    "weights of mean 1/H": {"change": lambda U: U + 1 / len(U)},
    "weights twice as large": {"change": lambda U: 2 * U},
}
"""What each assumption is broken by. Mean and variance of the weights stay, but for those of mean 1/H,
those twice as large, and an orthogonal start as `whenpool.Encoder` has it, whose variance is three times
that of torch's."""


def curves(hidden_size: int, seeds: int, distance: int, input_size: int = 100) -> DataFrame:
    """The gradient norm over the distance from the last state: columns ``model``, ``kind``, ``seed``,
    ``distance`` and ``norm``.

    Args:
        hidden_size, distance, input_size: see `expected_shrinkage`.
        seeds: how many networks are drawn for each model.
    """
    rows = []
    for model, (cell, forget_bias) in MODELS.items():
        setup = (cell, hidden_size, input_size, forget_bias, 1.0, distance)
        for row in _compared(seeds, setup, model=model):
            curve = row.pop("curve")
            rows += [{**row, "distance": k, "norm": norm} for k, norm in enumerate(curve.tolist())]
    return DataFrame(rows)


def factors_by_size(
    sizes: Sequence[int], seeds: int, first: int, last: int, input_size: int = 100
) -> DataFrame:
    """The factor per step over H: columns ``model``, ``kind``, ``seed``, ``hidden_size``, ``factor``.

    Args:
        sizes: values of H.
        seeds: how many networks are drawn for each model and size.
        first, last: the distances between which the factor is read, in texts of 1.25 · last words, so
            that these distances are not those of their first words.
        input_size: E.
    """
    rows = []
    for model, (cell, forget_bias) in MODELS.items():
        for H in sizes:
            setup = (cell, H, input_size, forget_bias, 1.0, last + last // 4)
            rows += _compared(seeds, setup, model=model, hidden_size=H)
    return _factors(rows, first, last)


def factors_by_forget_bias(
    biases: Sequence[float],
    variances: Sequence[float],
    hidden_size: int,
    seeds: int,
    first: int,
    last: int,
) -> DataFrame:
    """The factor of an LSTM over its forget bias: columns ``input_variance``, ``forget_bias``, ``kind``,
    ``seed`` and ``factor``; H units and inputs, the rest as for `factors_by_size`."""
    rows = []
    for variance in variances:
        for bias in biases:
            setup = ("lstm", hidden_size, hidden_size, bias, variance, last + last // 4)
            rows += _compared(seeds, setup, input_variance=variance, forget_bias=bias)
    return _factors(rows, first, last)


def factors_by_change(
    hidden_size: int, seeds: int, first: int, last: int, input_size: int = 100
) -> DataFrame:
    """The factor where an assumption does not hold: columns ``model``, ``change``, ``kind``, ``seed``
    and ``factor``. What is expected knows nothing of the change; the rest as for `factors_by_size`."""
    rows = []
    for model, (cell, forget_bias) in MODELS.items():
        for change, options in CHANGES.items():
            setup = (cell, hidden_size, input_size, forget_bias, 1.0, last + last // 4)
            rows += _compared(seeds, setup, options, model=model, change=change)
    return _factors(rows, first, last)


def direct_gains(words: int, size: int, seed: int = 0, hidden_size: int = 128) -> DataFrame:
    """How much of a gradient each word gets past the recurrence, on random states (§1.3.1): columns
    ``pooling``, ``position`` (from 1) and ``gain``, see `direct_gain`.

    States are uniform in ±1, the range of an LSTM's, and the query of attention has the length 1. The
    pooling "recurrence" is what an untrained BiLSTM without pooling is expected to pass on in all.

    Args:
        words: T.
        size: D.
        seed: of states and query.
        hidden_size: H of that BiLSTM, whose inputs have as many units.
    """
    random = torch.Generator().manual_seed(seed)
    states = 2 * torch.rand(words, size, generator=random, dtype=torch.float64) - 1  # (T, D)
    query = torch.randn(size, generator=random, dtype=torch.float64)
    gains = {
        pooling: direct_gain(path(states, query / query.norm()))
        for pooling, path in DIRECT_PATHS.items()
    }
    curve = expected_shrinkage("lstm", hidden_size, hidden_size, 1.0, distance=words - 1)  # (T,)
    gains["recurrence"] = ((curve.square() + curve.flip(0).square()) / 2).sqrt()  # of both directions
    return DataFrame(
        [
            {"pooling": pooling, "position": position, "gain": gain}
            for pooling, found in gains.items()
            for position, gain in enumerate(found.tolist(), 1)
        ]
    )


def _compared(
    seeds: int, setup: Setup, options: dict[str, Any] | None = None, **columns: Any
) -> list[dict[str, Any]]:
    """A row for each curve of one network: expected, independent, and measured with each seed."""
    expected = {
        "expected": expected_shrinkage(*setup),
        "independent": expected_shrinkage(*setup, tied=False),
    }
    rows: list[dict[str, Any]] = []
    rows += [{"kind": kind, "seed": None, "curve": curve} for kind, curve in expected.items()]
    for seed in range(seeds):
        measured = measured_shrinkage(*setup, seed, **options or {})
        rows.append({"kind": "measured", "seed": seed, "curve": measured})
    return [columns | row for row in rows]


def _factors(rows: list[dict[str, Any]], first: int, last: int) -> DataFrame:
    return DataFrame([row | {"factor": factor_of(row.pop("curve"), first, last)} for row in rows])


@lru_cache(maxsize=32)
def step_changes(
    network: str, hidden_size: int, input_variance: float, first: int, last: int, draws: int = 5
) -> list[float]:
    """By how many % the gradient norm of drawn networks changes with each step from the last state,
    before training; between two distances from it, a number for each draw.

    Args:
        network: a name in `MODELS`.
    """
    cell, bias = MODELS[network]
    setup = (cell, hidden_size, 100, bias, input_variance, last)
    curves = (measured_shrinkage(*setup, seed) for seed in range(draws))
    return [100 * (factor_of(curve, first, last) - 1) for curve in curves]
