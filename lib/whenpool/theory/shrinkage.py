"""How a gradient shrinks on its way back: what is expected, and what is measured (thesis §2.1.3, §1.3.1).

Rows of a Jacobian belong to what comes out, columns to what goes in.

Letters: E units of an input, H units of a state, T words, K steps back, D units of a state of both
directions; i, f, g, o are the gates in torch's order, of which g is the candidate.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from whenpool.models.encoder import ForgetBias
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes import gradient_norms
from whenpool.theory import moments
from whenpool.theory.moments import COUPLING, Array, LeakySum, Steps


def full_jacobian(x: Tensor, c: Tensor, o: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """∂c_t/∂c_{t-1} with gates that see h_{t-1} = o_{t-1} ⊙ tanh(c_{t-1}) (§2.1.3).

    diag(f_t) + [diag(c_{t-1} ⊙ f_t') U_f + diag(g_t ⊙ i_t') U_i + diag(i_t ⊙ g_t') U_g] · diag(o_{t-1} ⊙
    (1 - tanh²(c_{t-1}))), where ' is the derivative of a gate at what it sees; diag(f_t) alone, whose norm
    is below 1, were the gates blind to h_{t-1}. ``x`` is the word at t, ``c`` and ``o`` are the cell and the
    output gate before it, of which o does not depend on c; the ``weights`` are those of an ``nn.LSTM``:
    (4H, E), (4H, H), (4H,) and (4H,). Its norm may exceed 1.
    """
    W, U, *biases = weights
    at_i, at_f, at_g, _ = (W @ x + U @ (o * c.tanh()) + sum(biases)).chunk(4)
    i, f, g = at_i.sigmoid(), at_f.sigmoid(), at_g.tanh()
    U_i, U_f, U_g, _ = U.chunk(4)
    slopes = c * f * (1 - f), g * i * (1 - i), i * (1 - g**2)
    through_gates = sum(slope[:, None] * U for slope, U in zip(slopes, (U_f, U_i, U_g), strict=True))
    return torch.diag(f) + through_gates * (o * (1 - c.tanh() ** 2))


def direct_gain(path: Tensor) -> Tensor:
    """‖∂s/∂h_t‖_F / √D: by how much a direct path (T, D, D) of `whenpool.probes.gradients` shrinks a
    gradient at the embedding s that points anywhere (root mean square): (T,)."""
    return torch.linalg.matrix_norm(path) / path.shape[-1] ** 0.5


def expected_shrinkage(
    cell: str, hidden_size: int, input_size: int, forget_bias: ForgetBias = None, input_variance: float = 1.0,
    distance: int = 40, *, tied: bool = True,
) -> Tensor:  # fmt: skip
    """√E‖∂L/∂h‖² over the distance from the last state, relative to that at the last state (§2.1.3):
    (K + 1,) float64, the first 1.

    A text has K + 1 words and starts from h_0 = 0. ``cell``, sizes and biases are those of
    `whenpool.Encoder`; ``input_variance`` is that of each entry of an input, ``distance`` is K. Without
    ``tied`` recurrent weights are drawn anew for every step, as the usual argument assumes without
    saying so; gradients of different steps are then uncorrelated.
    """
    words, bias = distance + 1, 1 / (3 * hidden_size)  # the variance of each weight and each bias
    noise = input_size * input_variance * bias
    keeping = moments.keeping_biases(hidden_size, forget_bias)
    if cell == "elman":
        steps = moments.elman_steps(words, noise, bias, tied)
    elif cell == "gru":
        steps = moments.gru_steps(words, noise, bias, tied, keeping)
    else:
        into = -keeping if forget_bias == "chrono" else None
        steps = moments.lstm_steps(words, noise, bias, tied, keeping, into)
    squares = gradient_moments(steps)
    return torch.from_numpy(np.sqrt(squares / squares[0]))


def gradient_moments(steps: Steps) -> Array:
    """E‖∂L/∂h‖²/H over the distance k from the last state, where it is 1: (T,); j is the distance of
    another step."""
    enter, enter2 = steps.enter[::-1], steps.enter2[::-1]
    keep, keep2 = (np.roll(m[::-1], 1, axis=0) for m in (steps.keep, steps.keep2))  # of the step after
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


def independent_factor(A: float, B: float, C: float, F: float) -> float:
    """The factor of a step where recurrent weights are drawn anew for each, and units are alike.

    Δ = E[ξ²] and Γ = E[y²] become AΓ + BΔ and C(AΓ + BΔ) + FΓ, with C = E[κ²] and F = E[λ²]: the
    factor is the root of the spectral radius of that matrix.
    """
    matrix = np.array([[B, A], [C * B, C * A + F]])
    return float(np.sqrt(np.abs(np.linalg.eigvals(matrix)).max()))


def quiet_factor(forget_bias: float) -> float:
    """The factor of an LSTM of many units whose inputs and state are all but zero: f + 1/(4√3).

    There i = o = 1/2 and f = σ(forget_bias), so that a step back is f·I + U_g/4, the same at every
    step; the eigenvalues of U_g fill a disc of radius √(1/3).
    """
    return float(1 / (1 + np.exp(-forget_bias)) + COUPLING**0.5 / 4)


def measured_shrinkage(
    cell: str, hidden_size: int, input_size: int, forget_bias: ForgetBias = None, input_variance: float = 1.0,
    distance: int = 40, seed: int = 0, texts: int = 8, *, repeated: bool = False,
    change: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """The same, (K + 1,), by `whenpool.probes.gradient_norms`: the root mean square over B ``texts``.

    The network is drawn with ``seed``, which leaves the global random state as it was. It reads from left
    to right and classifies from its last state at random, so that the loss's gradient there points
    anywhere. Where ``repeated``, a text is one word over and over; ``change`` replaces the recurrent
    weights (H, H) of each gate. The other arguments are those of `expected_shrinkage`.
    """
    T, classes = distance + 1, 10
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = TextClassifier(
            texts * T, classes, "last", cell, input_size, hidden_size, 1, False, forget_bias
        ).double()
        model.embedding.weight *= input_variance**0.5
        recurrent = model.encoder.layers[0][0].weight_hh_l0
        if change:
            for weights in recurrent.split(hidden_size):
                weights.copy_(change(weights))
        labels = torch.randint(classes, (texts,))
    ids = torch.arange(texts * T).view(texts, T)  # every word another vector
    if repeated:
        ids = ids[:, :1].expand(texts, T)
    norms = gradient_norms(model, ids, torch.full((texts,), T), labels)  # (B, T)
    curve = norms.square().mean(0).sqrt().flip(0)
    return curve / curve[0]


def factor_of(curve: Tensor, first: int, last: int) -> float:
    """The factor per step between two distances of a curve (K + 1,): its geometric mean."""
    return float((curve[last] / curve[first]) ** (1 / (last - first)))


MODELS: dict[str, tuple[str, ForgetBias]] = {
    "basic RNN": ("elman", None),
    "LSTM": ("lstm", None),
    "GRU": ("gru", None),
    "LSTM, forget bias 1": ("lstm", 1.0),
    "LSTM, forget bias 2": ("lstm", 2.0),
    "LSTM, chrono": ("lstm", "chrono"),
}
"""Cell and forget bias of each model that is compared."""


@lru_cache(maxsize=32)
def step_changes(
    network: str, hidden_size: int, input_variance: float, first: int, last: int
) -> list[float]:
    """By how many % the gradient norm of drawn networks changes with each step from the last state,
    before training, between two distances from it: a number for each draw of a network of `MODELS`."""
    cell, bias = MODELS[network]
    setup = (cell, hidden_size, 100, bias, input_variance, last)
    curves = (measured_shrinkage(*setup, seed) for seed in range(5))
    return [100 * (factor_of(curve, first, last) - 1) for curve in curves]
