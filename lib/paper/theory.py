"""What can be said of recurrences and poolings without training them (thesis §2.1.3): how a
gradient shrinks in drawn networks, an LSTM built by hand that does what max-pooling does, and a
search for machines whose max-pooled states tell parity.

The thesis cites Chowdhury (2020) for this; constructions and search are our own, in float64. Gates
are in torch's order i, f, g, o, and b_hh is zero:

    c' = f·c + i·g,  h' = o·tanh(c');  i, f, o = σ(W x + U h + b),  g = tanh(W x + U h + b)

Letters: B texts, T words, E features of a word, H units, V values of a unit, N machines.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import lambertw
from torch import Tensor, nn

from whenpool.base.devices import seeded
from whenpool.models.encoder import ForgetBias
from whenpool.models.pooling import MaxPool
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes import gradient_norms

MODELS: dict[str, tuple[str, ForgetBias]] = {
    "basic RNN": ("elman", None),
    "LSTM": ("lstm", None),
    "GRU": ("gru", None),
    "LSTM, forget bias 1": ("lstm", 1.0),
    "LSTM, forget bias 2": ("lstm", 2.0),
    "LSTM, chrono": ("lstm", "chrono"),
}
"""Cell and forget bias of each model that is compared."""


def measured_shrinkage(
    cell: str,
    hidden_size: int,
    input_size: int,
    forget_bias: ForgetBias = None,
    input_variance: float = 1.0,
    distance: int = 40,
    seed: int = 0,
    texts: int = 8,
    *,
    repeated: bool = False,
    change: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """√E‖∂L/∂h‖² over the distance from the last state, relative to that there, (K + 1,) for a
    ``distance``
    K: by `whenpool.probes.gradient_norms`, the root mean square over B ``texts``.

    The network, drawn with ``seed``, reads from left to right and classifies from its last state at
    random, so that the loss's gradient there points anywhere. Where ``repeated``, a text is the
    same word over and over; ``change`` replaces the recurrent weights (H, H) of each gate.
    """
    T, classes = distance + 1, 10
    with seeded(seed), torch.no_grad():
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


@lru_cache(maxsize=32)
def step_changes(
    network: str, hidden_size: int, input_variance: float, first: int, last: int
) -> list[float]:
    """By how many % the gradient norm of a network of `MODELS` changes with each step, of each
    draw."""
    cell, bias = MODELS[network]
    setup = (cell, hidden_size, 100, bias, input_variance, last)
    curves = (measured_shrinkage(*setup, seed) for seed in range(5))
    return [100 * (factor_of(curve, first, last) - 1) for curve in curves]


class Gate(NamedTuple):
    """The parameters of one gate, views into those of the LSTM."""

    inputs: Tensor  # W, (H, E)
    states: Tensor  # U, (H, H)
    bias: Tensor  # b, (H,)


class Slopes(NamedTuple):
    """The three numbers of a unit that keeps the largest of its inputs x in [-1, 1] (§2.1.3). With
    y = x + 1, and u = h/a, which is to follow the maximum of y from u = 0:

        f = o = 1,  i = σ(K(y - u) - b),  g = tanh(a(y - u)),  hence  h' = tanh(atanh(h) + i·g)

    It is never too high, and too low by at most (W(e^(b-1)) + longest·W(e^(-b-1)))/K + (16/3)a²,
    with Lambert's W (book/theory.md has the proof).
    """

    gate: float  # K, how sharply the input gate tells a new maximum
    caution: float  # b, how far it is shut where input and maximum are equal
    scale: float  # a, the cell holds a times the maximum, where tanh is nearly linear


def running_max_slopes(precision: float, longest: int) -> Slopes:
    """K, b and a for an error of at most ``precision`` after up to ``longest`` words: a third of it
    for a, as this makes K/a, the largest weight, smallest."""
    missed = lambertw(longest / math.e).real  # e^b = longest: W(e^(b-1)), once
    lost = lambertw(1 / (longest * math.e)).real  # W(e^(-b-1)), at each word
    gate = (missed + longest * lost) / (precision * 2 / 3)
    return Slopes(float(gate), math.log(longest), precision**0.5 / 4)


def read_running_max(states: Tensor, precision: float) -> Tensor:
    """h/a - 1 (..., H): maxima from the states of units built for a ``precision`` (§2.1.3)."""
    return states / running_max_slopes(precision, 1).scale - 1


def max_pooled_by_a_layer(lstm: nn.LSTM, precision: float, longest: int) -> nn.LSTM:
    """Two layers of H units in each direction: below the given LSTM, of one layer and one or two
    directions, above the running maximum of its states (§2.1.3). `read_running_max` of its last
    state, [→h_n ; ←h_1] of two directions, is the max-pooled state of ``lstm``, right to
    ``precision`` in texts of up to ``longest`` words."""
    H, slopes = lstm.hidden_size, running_max_slopes(precision, longest)
    both = blank_lstm(lstm.input_size, H, layers=2, bidirectional=lstm.bidirectional)
    for number, way in enumerate(["", "_reverse"] if lstm.bidirectional else [""]):
        states = slice(number * H, (number + 1) * H)  # of this direction
        put_lstm(gates_of(both, 0, way), lstm, way)
        put_running_max(gates_of(both, 1, way), "inputs", states, slice(0, H), slopes)
    return both


def blank_lstm(inputs: int, units: int, layers: int = 1, bidirectional: bool = False) -> nn.LSTM:
    """All parameters zero, in float64; it reads (B, T, inputs)."""
    lstm = nn.LSTM(inputs, units, layers, batch_first=True, bidirectional=bidirectional).double()
    for parameter in lstm.parameters():
        nn.init.zeros_(parameter)
    return lstm


def gates_of(lstm: nn.LSTM, layer: int = 0, way: str = "") -> dict[str, Gate]:
    """Each gate of a layer by its letter; ``way`` is "_reverse" for right to left, as in torch."""
    names = ("weight_ih", "weight_hh", "bias_ih")
    parts = (getattr(lstm, f"{name}_l{layer}{way}").detach().chunk(4) for name in names)
    return {letter: Gate(*part) for letter, *part in zip("ifgo", *parts, strict=True)}


def put_lstm(gates: dict[str, Gate], given: nn.LSTM, way: str = "") -> None:
    """The given LSTM as the first H units, reading the first E inputs."""
    H, E = given.hidden_size, given.input_size
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    W, U, b_ih, b_hh = (getattr(given, f"{name}_l0{way}").detach().double() for name in names)
    for letter, *part in zip("ifgo", W.chunk(4), U.chunk(4), (b_ih + b_hh).chunk(4), strict=True):
        gates[letter].inputs[:H, :E], gates[letter].states[:H, :H], gates[letter].bias[:H] = part


def put_running_max(
    gates: dict[str, Gate], read: str, source: slice, units: slice, slopes: Slopes
) -> None:
    """Let ``units`` keep the running maximum of ``source``, among the "inputs" or the "states"."""
    K, b, s = slopes
    one_each = torch.eye(units.stop - units.start).double()
    gates["f"].bias[units] = gates["o"].bias[units] = 40  # held open: σ(40) is 1 in float64
    for letter, slope, offset in (("i", K, K - b), ("g", s, s)):  # slope·(y - u), with y = x + 1
        getattr(gates[letter], read)[units, source] = slope * one_each
        gates[letter].bias[units] = offset
        gates[letter].states[units, units] = -slope / s * one_each


@lru_cache(maxsize=1)
def largest_error() -> float:
    """The largest error of the two-layer LSTM built from a random one, over its precision."""
    with seeded(0), torch.no_grad():
        lstm, texts = nn.LSTM(8, 16, batch_first=True).double(), torch.randn(8, 200, 8).double()
        pooled = MaxPool()(lstm(texts)[0], torch.ones(8, 200))[0]
        last = max_pooled_by_a_layer(lstm, 1e-4, 200)(texts)[0][:, -1]
        error = (read_running_max(last, 1e-4) - pooled).abs().max()
    return error.item() / 1e-4


def parity_told(embeddings: np.ndarray) -> np.ndarray:
    """On how many prefixes of 1, 1, 1, ... some label of the embedding tells whether the number of
    ones is odd, (N,) (§2.1.3): as long as no number of ``embeddings`` (T, N) belongs to an odd and
    an even one."""
    T, N = embeddings.shape
    first_clash = np.full(N, T)
    for t in reversed(range(T)):  # so that the first one is what stays
        for other in range(t - 1, -1, -2):  # the prefixes before of the other parity
            first_clash[embeddings[t] == embeddings[other]] = t
    return first_clash


def longest_parity_of_machines(states: int, units: int, values: int) -> tuple[int, float]:
    """The longest n such that the best of *all* finite machines tells parity on the prefixes of 1
    to n ones, max-pooled and by the last value (§2.1.3); ``math.inf`` where it tells it on all.

    A machine has Q ``states`` after a word, a transition for the word "1" from each, and pooled
    ``values`` in {0 .. V-1}^H, H ``units``, for each. It moves to new states, 0, 1, ... k-1 as they
    are met, until it returns to one of them, and goes round from there: all such walks are tried,
    with all V^(HQ) assignments. After 2Q words each state has been met with each parity that it
    will ever be met with.
    """
    digits = values ** np.arange(units)  # an embedding as one number
    word, pooled, last = np.arange(2 * states), 0, 0.0
    for visited, back in ((k, to) for k in range(1, states + 1) for to in range(k)):
        walk = np.where(word < visited, word, back + (word - back) % (visited - back))  # (T,)
        assigned = np.indices((values,) * (visited * units), dtype=np.int8)
        steps = assigned.reshape(visited, units, -1)[walk]  # (T, H, N)
        largest = np.maximum.accumulate(steps, axis=0)
        pooled = max(pooled, int(parity_told(np.einsum("thn,h->tn", largest, digits)).max()))
        reach = int(parity_told(np.einsum("thn,h->tn", steps, digits)).max())
        last = max(last, math.inf if reach == 2 * states else reach)
    return pooled, last
