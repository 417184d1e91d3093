"""The expected shrinkage of a gradient beside the measured one, as rows for figures (thesis §2.1.3)."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import torch
from pandas import DataFrame
from torch import Tensor

from whenpool.models.encoder import ForgetBias
from whenpool.theory.shrinkage import expected_shrinkage, factor_of, measured_shrinkage

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


def compared(cases: Iterable[Mapping[str, Any]], seeds: int, distance: int) -> list[dict[str, Any]]:
    """Rows for each case: its own columns, ``kind``, ``seed`` and ``curve`` (K + 1,), the gradient norm
    over the distance from the last state.

    The kinds are "expected", "independent" (expected, had each step recurrent weights of its own) and
    "measured", once with each seed. What is expected knows nothing of a change.

    Args:
        cases: each has a ``model`` of `MODELS` (default: the LSTM), a ``change`` of `CHANGES`, and
            ``hidden_size``, ``input_size``, ``forget_bias`` and ``input_variance`` where they are not
            128, 100, the model's own and 1.
        seeds: how many networks are drawn for each case.
        distance: K, see `expected_shrinkage`.
    """
    rows = []
    for case in cases:
        cell, forget_bias = MODELS[case.get("model", "LSTM")]
        setup = (
            cell,
            case.get("hidden_size", 128),
            case.get("input_size", 100),
            case.get("forget_bias", forget_bias),
            case.get("input_variance", 1.0),
            distance,
        )
        options = CHANGES[case.get("change", "as assumed")]
        curves: list[tuple[str, int | None, Tensor]] = [("expected", None, expected_shrinkage(*setup))]
        curves += [("independent", None, expected_shrinkage(*setup, tied=False))]
        curves += [("measured", s, measured_shrinkage(*setup, s, **options)) for s in range(seeds)]
        rows += [{**case, "kind": kind, "seed": seed, "curve": curve} for kind, seed, curve in curves]
    return rows


def factors(cases: Iterable[Mapping[str, Any]], seeds: int, first: int, last: int) -> DataFrame:
    """The same rows with ``factor``, per step between two distances, in place of ``curve``; in texts of
    1.25 · ``last`` words, so that these distances are not those of their first words."""
    rows = compared(cases, seeds, last + last // 4)
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
