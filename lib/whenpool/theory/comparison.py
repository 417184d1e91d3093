"""The expected shrinkage of a gradient beside the measured one, as rows for figures (thesis §2.1.3).

A row is one number: ``kind`` says whether it is "expected", "independent" (expected, had each step
recurrent weights of its own) or "measured" (then ``seed`` says with which one).

Letters: H units of a state, K steps away from the last state.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whenpool.models.encoder import ForgetBias
from whenpool.probes.gradients import DIRECT_PATHS
from whenpool.theory.shrinkage import direct_gain, expected_shrinkage, factor_of, measured_shrinkage

if TYPE_CHECKING:
    from pandas import DataFrame

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


def curves(hidden_size: int, seeds: int, distance: int, input_size: int = 100) -> "DataFrame":
    """The gradient norm over the distance from the last state: columns ``model``, ``kind``, ``seed``,
    ``distance`` and ``norm``.

    Args:
        hidden_size, distance, input_size: see `expected_shrinkage`.
        seeds: how many networks are drawn for each model.
    """
    rows = []
    for model, (cell, forget_bias) in MODELS.items():
        found = _each(seeds, (cell, hidden_size, input_size, forget_bias, 1.0, distance))
        rows += [
            {"model": model, "kind": kind, "seed": seed, "distance": k, "norm": norm}
            for kind, seed, curve in found
            for k, norm in enumerate(curve.tolist())
        ]
    return _frame(rows)


def factors_by_size(
    sizes: Sequence[int], seeds: int, first: int, last: int, input_size: int = 100
) -> "DataFrame":
    """The factor per step over H: columns ``model``, ``kind``, ``seed``, ``hidden_size``, ``factor``.

    Args:
        sizes: values of H.
        seeds: how many networks are drawn for each model and size.
        first, last: the distances between which the factor is read, in texts of 1.25 · last words.
        input_size: E.
    """
    rows = []
    for model, (cell, forget_bias) in MODELS.items():
        for H in sizes:
            found = _each(seeds, (cell, H, input_size, forget_bias, 1.0, _text(last)))
            rows += [
                {"model": model, "hidden_size": H, **row} for row in _factor_rows(found, first, last)
            ]
    return _frame(rows)


def factors_by_forget_bias(
    biases: Sequence[float],
    variances: Sequence[float],
    hidden_size: int,
    seeds: int,
    first: int,
    last: int,
) -> "DataFrame":
    """The factor of an LSTM over its forget bias: columns ``input_variance``, ``forget_bias``, ``kind``,
    ``seed`` and ``factor``.

    Args:
        biases: of the forget gate.
        variances: of the inputs.
        hidden_size: H, also the size of the inputs.
        seeds, first, last: as for `factors_by_size`.
    """
    rows = []
    for variance in variances:
        for bias in biases:
            found = _each(seeds, ("lstm", hidden_size, hidden_size, bias, variance, _text(last)))
            rows += [
                {"input_variance": variance, "forget_bias": bias, **row}
                for row in _factor_rows(found, first, last)
            ]
    return _frame(rows)


def factors_by_change(
    hidden_size: int, seeds: int, first: int, last: int, input_size: int = 100
) -> "DataFrame":
    """The factor where an assumption does not hold: columns ``model``, ``change``, ``kind``, ``seed``
    and ``factor``. What is expected knows nothing of the change.

    Args:
        hidden_size, input_size: H and E.
        seeds, first, last: as for `factors_by_size`.
    """
    rows = []
    for model, (cell, forget_bias) in MODELS.items():
        for change, options in CHANGES.items():
            setup = (cell, hidden_size, input_size, forget_bias, 1.0, _text(last))
            found = _each(seeds, setup, **options)
            rows += [
                {"model": model, "change": change, **row} for row in _factor_rows(found, first, last)
            ]
    return _frame(rows)


def direct_gains(words: int, size: int, seed: int = 0, hidden_size: int = 128) -> "DataFrame":
    """How much of a gradient each word gets past the recurrence, on random states (§1.3.1).

    States are uniform in ±1, the range of an LSTM's, and the query of attention has the length 1. The
    pooling "recurrence" is what an untrained BiLSTM without pooling is expected to pass on in all.

    Args:
        words: T.
        size: D.
        seed: of states and query.
        hidden_size: H of that BiLSTM, whose inputs have as many units.

    Returns:
        Columns ``pooling``, ``position`` (from 1) and ``gain``, see `direct_gain`.
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
    return _frame(
        [
            {"pooling": pooling, "position": position, "gain": gain}
            for pooling, found in gains.items()
            for position, gain in enumerate(found.tolist(), 1)
        ]
    )


def _each(seeds: int, setup: Setup, **options: Any) -> list[tuple[str, int | None, Tensor]]:
    """Kind, seed and curve of all that is compared for one network."""
    found: list[tuple[str, int | None, Tensor]] = [
        ("expected", None, expected_shrinkage(*setup)),
        ("independent", None, expected_shrinkage(*setup, tied=False)),
    ]
    return found + [
        ("measured", seed, measured_shrinkage(*setup, seed, **options)) for seed in range(seeds)
    ]


def _factor_rows(
    found: list[tuple[str, int | None, Tensor]], first: int, last: int
) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "seed": seed, "factor": factor_of(curve, first, last)}
        for kind, seed, curve in found
    ]


def _text(last: int) -> int:
    """How far texts reach, so that the distances looked at are not those of their first words."""
    return last + last // 4


def _frame(rows: list[dict[str, Any]]) -> "DataFrame":
    import pandas as pd

    return pd.DataFrame(rows)


@lru_cache(maxsize=32)
def step_changes(
    network: str, hidden_size: int, input_variance: float, first: int, last: int, draws: int = 5
) -> list[float]:
    """By how many % the gradient norm of drawn networks changes with each step from the last state, before
    training; between two distances from it, a number for each draw.

    Args:
        network: a name in `MODELS`.
    """
    cell, bias = MODELS[network]
    found = []
    for seed in range(draws):
        curve = measured_shrinkage(cell, hidden_size, 100, bias, input_variance, last, seed)
        found.append(100 * (factor_of(curve, first, last) - 1))
    return found
