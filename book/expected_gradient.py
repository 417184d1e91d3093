"""How a gradient is expected to shrink on its way back (thesis §2.1.3, §1.3.1), for the page
theory.md.

Expected is what follows from the averages of states and gates before any training. Weights are
drawn from ±1/√H, so that Var(U) = 1/(3H). A pre-activation is a sum of many terms, hence close to
Gaussian:

    a_t = W x_t + U h_{t-1} + biases,   E[a_t a_s] = 1/3 E[h_{t-1} h_{s-1}] + [t = s] E·v/(3H) +
    bias,

with v the variance of an input, inputs of different words independent, and 1/3 = H·Var(U). What two
different steps have in common is small; functions of them are taken to first order in it:

    E[φ(a_t) φ(a_s)] = E[φ(a_t)] E[φ(a_s)], or E[a_t a_s] E[φ'(a_t)] E[φ'(a_s)] where φ is odd.

Units differ by the bias of the gate that keeps the state, represented by its quantiles. Rows of a
Jacobian belong to what comes out, columns to what goes in.

Letters: E units of an input, H units of a state, T words, K steps back, U quantiles of a bias, D
units of a state of both directions; i, f, g, o are the gates in torch's order, of which g is
the candidate.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whenpool.models.encoder import ForgetBias

Array = NDArray[np.float64]
COUPLING = 1 / 3
"""H·Var(U): by how much a matrix of recurrent weights changes the mean square of a vector."""
QUANTILES = 201  # "chrono" has few units that forget at once, which matter most near the end
# in standard deviations; the trapezoid rule is all but exact here
_POINTS = np.linspace(-8, 8, 161)
_WEIGHTS = np.exp(-(_POINTS**2) / 2) / np.exp(-(_POINTS**2) / 2).sum()


class Squash(NamedTuple):
    """E[φ], E[φ²], E[φ'] and E[φ'²] of a squashing function of a Gaussian, each (U,)."""

    mean: Array
    square: Array
    slope: Array
    slope_square: Array


def sigmoid(mean: Array | float, variance: Array | float) -> Squash:
    """Of σ, a gate, at a ~ N(mean, variance), each of the two a number or (U,)."""
    points = np.atleast_1d(mean)[:, None] + np.sqrt(np.atleast_1d(variance))[:, None] * _POINTS
    value = 1 / (1 + np.exp(-points))
    return _squash(value, value / (1 + np.exp(points)))


def tanh(variance: Array | float) -> Squash:
    """Of tanh at a ~ N(0, variance), a candidate or what the output gate shows."""
    value = np.tanh(np.sqrt(np.atleast_1d(variance))[:, None] * _POINTS)
    return _squash(value, 1 - value**2)


def _squash(value: Array, slope: Array) -> Squash:
    """The means of φ and φ' at such values, and those of their squares."""
    return Squash(*(moment @ _WEIGHTS for moment in (value, value**2, slope, slope**2)))


class LeakySum:
    """E[y_k y_j] of y_k = λ_k y_{k-1} + κ_k ξ_k, y_0 = 0, from E[ξ_k ξ_j], a step at a time. The
    cell of an LSTM is such a sum over the words read, and so is, from the last word to the first,
    the gradient that it carries. λ and κ of different steps are independent of each other and of
    ξ."""

    def __init__(self, steps: int, units: int) -> None:
        self.second = np.zeros((steps + 1, steps + 1, units))  # E[y_k y_j] for j <= k
        self._past: list[tuple[Array, Array]] = []

    def add(self, keep: Array, keep2: Array, enter: Array, enter2: Array, source: Array) -> Array:
        """The next step k, from E[λ_k], E[λ_k²], E[κ_k] and E[κ_k²], each (U,), and E[ξ_k ξ_j] for
        j = 1
        ... k, (k, 1) or (k, U): E[y_k y_j] for j = 1 ... k, (k, U)."""
        y, k = self.second, len(self._past) + 1
        met = np.zeros(y.shape[2])  # E[ξ_k y_j]
        for j, (kept, entered) in enumerate(self._past, 1):
            met = kept * met + entered * source[j - 1]
            y[k, j] = keep * y[k - 1, j] + enter * met
        y[k, k] = keep2 * y[k - 1, k - 1] + 2 * keep * enter * met + enter2 * source[-1]
        self._past.append((keep, enter))
        return y[k, 1 : k + 1]


@dataclass(frozen=True)
class Steps:
    """What carries a gradient one step back, on average."""

    keep: Array  # E[λ_t] of the gate that keeps, (T, U)
    keep2: Array  # E[λ_t²]
    enter: Array  # E[κ_t] of what leads from the state to what is kept, (T, U)
    enter2: Array  # E[κ_t²]
    back: (
        Array  # A(t, s), from what is kept through recurrent weights to the state before, (T, T, U)
    )
    aside: Array  # B(t, s), from the state to the state before, past what is kept, (T, T, U)
    state_is_kept: bool  # whether the state itself is what is kept, as in a GRU
    tied: bool  # whether the recurrent weights are the same at every step


def elman_steps(words: int, noise: float, bias: float, tied: bool) -> Steps:
    """h_t = tanh(a_t): nothing is kept. Inputs add the variance ``noise``, E·v/(3H), to a
    pre-activation, each of its two biases ``bias``, 1/(3H)."""
    back, state = np.zeros((words, words, 1)), np.zeros(1)  # E[h_t²]
    for t in range(words):
        h = tanh(noise + COUPLING * state + 2 * bias)
        state, back[t, t] = h.square, COUPLING * h.slope_square
    nothing, all_of_it = np.zeros((words, 1)), np.ones((words, 1))
    return Steps(nothing, nothing, all_of_it, all_of_it, back, 0 * back, True, tied)


def lstm_steps(
    words: int, noise: float, bias: float, tied: bool, forget: Array, into: Array | None
) -> Steps:
    """c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t, h_t = o_t ⊙ tanh(c_t); the bias of the forget gate is
    ``forget`` (U,), that of the input gate ``into`` (U,), None where it is drawn as the others
    are."""
    U, free = len(forget), 2 * bias
    cell, state = LeakySum(words, U), np.zeros((words + 1, words + 1))  # E[h_{t-1} h_{s-1}]
    back, aside = np.zeros((2, words, words, U))
    i, f, g, o, c = ([] for _ in range(5))
    for t in range(words):
        a = noise + COUPLING * state[t, t]
        f.append(sigmoid(forget, a))
        i.append(sigmoid(0.0, a + free) if into is None else sigmoid(into, a))
        g.append(tanh(a + free))
        o.append(sigmoid(0.0, a + free))
        shared = tied * COUPLING * state[t, :t, None] + free  # E[a_t a_s], s < t
        candidates = _odd_row(g, shared)  # E[g_t g_s], s <= t
        back[t, : t + 1] = back[: t + 1, t] = COUPLING * (
            cell.second[t, : t + 1] * _row(f, "slope")
            + candidates * _row(i, "slope")
            + _row(i, "mean") * _row(g, "slope")
        )
        cells = cell.add(f[t].mean, f[t].square, i[t].mean, i[t].square, candidates)  # E[c_t c_s]
        c.append(tanh(cells[t]))
        squashed = _odd_row(c, cells[:t])  # E[tanh(c_t) tanh(c_s)]
        aside[t, : t + 1] = aside[: t + 1, t] = COUPLING * squashed * _row(o, "slope")
        state[t + 1, 1 : t + 2] = (_row(o, "mean") * squashed).mean(-1)
    enter = _over_time(o, "mean", U) * _over_time(c, "slope", U)
    enter2 = _over_time(o, "square", U) * _over_time(c, "slope_square", U)
    keep, keep2 = _over_time(f, "mean", U), _over_time(f, "square", U)
    return Steps(keep, keep2, enter, enter2, back, aside, state_is_kept=False, tied=tied)


def gru_steps(words: int, noise: float, bias: float, tied: bool, update: Array) -> Steps:
    """h_t = z_t ⊙ h_{t-1} + (1 - z_t) ⊙ n_t, n_t = tanh(W x_t + b + r_t ⊙ (U_n h_{t-1} + b_n)); the
    bias of z, torch's update gate, is ``update`` (U,)."""
    U = len(update)
    back, state = np.zeros((words, words, U)), np.zeros(U)  # E[h_{t-1}²]
    z, led = [], np.zeros((words, U))
    for t in range(words):
        through = COUPLING * state.mean()
        z.append(sigmoid(update, noise + through))
        r = sigmoid(0.0, noise + through + 2 * bias)
        n = tanh(noise + bias + r.square * (through + bias))
        other2 = 1 - 2 * z[t].mean + z[t].square  # E[(1 - z)²]
        led[t] = (1 - z[t].mean) * n.slope * r.mean
        back[t, : t + 1] = back[: t + 1, t] = COUPLING * led[t] * led[: t + 1]
        at_candidate = r.square + r.slope_square * (through + bias)
        back[t, t] = COUPLING * (
            (state + n.square) * z[t].slope_square + other2 * n.slope_square * at_candidate
        )
        state = z[t].square * state + other2 * n.square
    keep, keep2 = _over_time(z, "mean", U), _over_time(z, "square", U)
    all_of_it = np.ones((words, U))
    return Steps(keep, keep2, all_of_it, all_of_it, back, 0 * back, state_is_kept=True, tied=tied)


def keeping_biases(hidden_size: int, forget_bias: ForgetBias, chrono_words: int = 400) -> Array:
    """Quantiles (U,) of the bias of the gate that keeps, as `whenpool.Encoder` draws it: None and
    "low" are the sum of two numbers from ±1/√H; "chrono" is the logarithm of a memory between 1 and
    ``chrono_words`` - 1; a number is itself."""
    share = (np.arange(QUANTILES) + 0.5) / QUANTILES
    if forget_bias in (None, "low"):
        lower = np.sqrt(2 * np.minimum(share, 1 - share)) - 1
        return 2 / hidden_size**0.5 * np.where(share < 0.5, lower, -lower)
    if forget_bias == "chrono":
        return np.log(1 + share * (chrono_words - 2))
    return np.array([float(forget_bias)])


def _row(steps: list[Squash], moment: str) -> Array:
    """E[φ(a_t) φ(a_s)] for the last step t and s <= t, (t + 1, 1 or U)."""
    means = np.array([getattr(step, moment) for step in steps])
    row = means[-1] * means
    row[-1] = getattr(steps[-1], "square" if moment == "mean" else "slope_square")
    return row


def _odd_row(steps: list[Squash], shared: Array) -> Array:
    """The same where φ is odd, from E[a_t a_s] for s < t."""
    slopes = np.array([step.slope for step in steps])
    return np.concatenate([shared * slopes[-1] * slopes[:-1], steps[-1].square[None]])


def _over_time(steps: list[Squash], moment: str, units: int) -> Array:
    """(T, U)"""
    rows = np.array([getattr(step, moment) for step in steps])
    return np.broadcast_to(rows, (len(steps), units))


def expected_shrinkage(
    cell: str,
    hidden_size: int,
    input_size: int,
    forget_bias: ForgetBias = None,
    input_variance: float = 1.0,
    distance: int = 40,
    *,
    tied: bool = True,
) -> Tensor:
    """√E‖∂L/∂h‖² over the distance from the last state, relative to that at the last state
    (§2.1.3): (K + 1,) float64, the first 1.

    A text has K + 1 words and starts from h_0 = 0. ``cell``, sizes and biases are those of
    `whenpool.Encoder`; ``input_variance`` is that of each entry of an input, ``distance`` is K.
    Without ``tied`` recurrent weights are drawn anew for every step, as the usual argument silently
    assumes.
    """
    words, bias = distance + 1, 1 / (3 * hidden_size)  # the variance of each weight and each bias
    noise = input_size * input_variance * bias
    keeping = keeping_biases(hidden_size, forget_bias)
    if cell == "elman":
        steps = elman_steps(words, noise, bias, tied)
    elif cell == "gru":
        steps = gru_steps(words, noise, bias, tied, keeping)
    else:
        into = -keeping if forget_bias == "chrono" else None
        steps = lstm_steps(words, noise, bias, tied, keeping, into)
    squares = gradient_moments(steps)
    return torch.from_numpy(np.sqrt(squares / squares[0]))


def gradient_moments(steps: Steps) -> Array:
    """E‖∂L/∂h‖²/H over the distance k from the last state, where it is 1: (T,); j is the distance
    of another step."""
    enter, enter2 = steps.enter[::-1], steps.enter2[::-1]
    # of the step after
    keep, keep2 = (np.roll(m[::-1], 1, axis=0) for m in (steps.keep, steps.keep2))
    back, aside = steps.back[::-1, ::-1], steps.aside[::-1, ::-1]
    T, U = keep.shape
    y, xi = LeakySum(T, U), np.zeros((T, T))
    xi[0, 0] = 1  # the loss reaches the last state alone
    for k in range(T):
        if k:
            carried = back[k - 1, :k] * y.second[k, 1 : k + 1]
            passed = aside[k - 1, :k] * xi[k - 1, :k, None]
            xi[k, 1 : k + 1] = (carried + passed).mean(-1)
        if not steps.tied:
            xi[k, :k] = 0
        y.add(keep[k], keep2[k], enter[k], enter2[k], xi[k, : k + 1, None])
    return np.diagonal(y.second.mean(-1))[1:] if steps.state_is_kept else np.diagonal(xi)
