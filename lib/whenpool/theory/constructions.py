"""LSTMs built by hand: what the last state of an LSTM can represent (thesis §2.1.3, LSTM equivalence).

The thesis cites Chowdhury (2020) for this; the constructions here are our own. Nothing is trained, all
is float64. Gates are in torch's order i, f, g, o, and b_hh is zero:

    c' = f·c + i·g,  h' = o·tanh(c');  i, f, o = σ(W x + U h + b),  g = tanh(W x + U h + b)

Letters: B texts, T words, E features of a word, H units of the given LSTM.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from scipy.special import lambertw
from torch import Tensor, nn

from whenpool.base.errors import check
from whenpool.models.pooling import MaxPool

OPEN = 40.0  # σ(40) is 1 in float64: a gate that is held open loses nothing
SWITCH = 800.0  # σ(±800) and tanh(±800) are 0, 1 and ±1 in float64, and in float32


class Gate(NamedTuple):
    """The parameters of one gate, views into those of the LSTM."""

    inputs: Tensor  # W, (H, E)
    states: Tensor  # U, (H, H)
    bias: Tensor  # b, (H,)


class Slopes(NamedTuple):
    """The three numbers of a running maximum, see `running_max_lstm`."""

    gate: float  # K, how sharply the input gate tells a new maximum
    caution: float  # b, how far it is shut where input and maximum are equal
    scale: float  # s, the cell holds s times the maximum, where tanh is nearly linear


def running_max_slopes(precision: float, longest: int) -> Slopes:
    """K, b and s for an error of at most ``precision`` after up to ``longest`` words (§2.1.3). Raises
    `InputError` for a precision that is not between 0 and 1."""
    check(0 < precision < 1, f"precision must be between 0 and 1, such as 1e-3, not {precision}")
    missed = lambertw(longest / math.e).real  # e^b = longest: W(e^(b-1)), once
    lost = lambertw(1 / (longest * math.e)).real  # W(e^(-b-1)), at each word
    gate = (missed + longest * lost) / (precision * 2 / 3)
    return Slopes(float(gate), math.log(longest), precision**0.5 / 4)


def running_max_lstm(size: int, precision: float, longest: int) -> nn.LSTM:
    """An LSTM whose last state tells the largest value of each input so far (§2.1.3).

    One unit, with y = x + 1 in [0, 2], and u = h/s, which is to follow the maximum of y from u = 0:

        f = o = 1,  i = σ(K(y - u) - b),  g = tanh(s(y - u)),  hence  h' = tanh(atanh(h) + i·g)

    It is never too high, and too low by at most (W(e^(b-1)) + longest·W(e^(-b-1)))/K + (16/3)s², with
    Lambert's W (book/theory.md has the proof); b = log(longest), K and s are such that this is
    ``precision``: a third of it for s, as this makes K/s, the largest weight, smallest.

    It has ``size`` units, each with its own input in [-1, 1], and reads (B, T, size); `read_running_max`
    turns its states into maxima, right to ``precision`` in texts of up to ``longest`` words.
    """
    slopes = running_max_slopes(precision, longest)
    lstm = _blank(size, size)
    _put_running_max(_gates(lstm), "inputs", slice(0, size), slice(0, size), slopes)
    return lstm


def read_running_max(states: Tensor, precision: float) -> Tensor:
    """h/s - 1 (..., H): maxima from the states of units built for a ``precision`` (§2.1.3)."""
    return states / running_max_slopes(precision, 1).scale - 1


def max_pooled_by_a_layer(lstm: nn.LSTM, precision: float, longest: int) -> nn.LSTM:
    """Two layers of H units in each direction: below the given LSTM, of one layer and one or two
    directions, above the running maximum of its states (§2.1.3). `read_running_max` of its last state,
    [→h_n ; ←h_1] of two directions, is the max-pooled state of ``lstm``, right to ``precision`` in
    texts of up to ``longest`` words. Raises `InputError` for another kind of LSTM."""
    given, slopes = _checked(lstm, directions=2), running_max_slopes(precision, longest)
    H = given.hidden_size
    both = _blank(given.input_size, H, layers=2, bidirectional=given.bidirectional)
    for number, way in enumerate(["", "_reverse"] if given.bidirectional else [""]):
        states = slice(number * H, (number + 1) * H)  # of this direction
        _put_lstm(_gates(both, 0, way), given, way)
        _put_running_max(_gates(both, 1, way), "inputs", states, slice(0, H), slopes)
    return both


def max_pooled_by_an_end_token(lstm: nn.LSTM, precision: float, longest: int) -> nn.LSTM:
    """The running maximum within one layer of 2H + 1 units, for texts with one more word at the end
    (§2.1.3).

    A unit sees the other units' states one word late, so the last state comes in with the end token,
    whatever its vector is. At the first word all see h_0 = 0, which is no state: the last unit, 0 until
    then and tanh(1) ever after, keeps the input gates shut for this word. `read_running_max` of the units
    H to 2H after the end token is the max-pooled state of ``lstm``.
    """
    given, slopes = _checked(lstm), running_max_slopes(precision, longest)
    H = given.hidden_size
    wide = _blank(given.input_size, 2 * H + 1)
    gates, maxima = _gates(wide), slice(H, 2 * H)
    _put_lstm(gates, given)
    _put_running_max(gates, "states", slice(0, H), maxima, slopes)
    shut = slopes.gate + OPEN
    gates["i"].bias[maxima] -= shut
    gates["i"].states[maxima, -1] = shut / torch.tensor(1.0).double().tanh()
    for gate, bias in {"i": OPEN, "f": -OPEN, "g": OPEN, "o": OPEN}.items():
        gates[gate].bias[-1] = bias
    return wide


def last_state_by_pooling(lstm: nn.LSTM, precision: float) -> nn.LSTM:
    """The reverse: max-pooling that gives a last state, where an end token can be told (§2.1.3).

    One layer of 2H units and E + 1 inputs, of which the last is 0 at words and 1 at the end token. The
    second H units are -tanh(1) at every word. At the end token they are tanh(tanh(s·h)) of the state h
    before, s² = 3/2·precision, which is larger, so that max-pooling finds it: divided by s, they are
    the last state of ``lstm``, since tanh(tanh(s·h)) is s·h to within 2/3·s³.
    """
    given, scale = _checked(lstm), (precision * 3 / 2) ** 0.5
    H = given.hidden_size
    wide = _blank(given.input_size + 1, 2 * H)
    gates = _gates(wide)
    _put_lstm(gates, given)
    for gate, bias in {"i": OPEN, "f": -OPEN, "g": -OPEN, "o": OPEN}.items():
        gates[gate].bias[H:] = bias
    gates["g"].inputs[H:, -1] = OPEN
    gates["g"].states[H:, :H] = scale * torch.eye(H)
    return wide


def parity_lstm() -> nn.LSTM:
    """One unit that tells whether the number of ones so far is odd: then h > 0 (§2.1.3).

    A zero keeps the cell (f = 1, i = 0), a one replaces it (f = 0, i = 1) by -1 where h > 0 and by 1
    elsewhere. In float32 as in float64 all gates are exactly 0, 1 or -1, so that the cell is exactly
    0, 1 or -1: what is true of these three is true for texts of every length. It reads (B, T, 1).
    """
    lstm = _blank(1, 1)
    gates = _gates(lstm)
    for gate, bias in {"i": -SWITCH, "f": SWITCH, "g": SWITCH / 2, "o": SWITCH}.items():
        gates[gate].bias[:] = bias
    gates["i"].inputs[:], gates["f"].inputs[:] = 2 * SWITCH, -2 * SWITCH
    gates["g"].states[:] = -3 * SWITCH  # tanh(1) > 0.7, so that a positive h outweighs the bias
    return lstm


def _blank(inputs: int, units: int, layers: int = 1, bidirectional: bool = False) -> nn.LSTM:
    """All parameters zero, in float64; it reads (B, T, inputs)."""
    lstm = nn.LSTM(inputs, units, layers, batch_first=True, bidirectional=bidirectional).double()
    for parameter in lstm.parameters():
        nn.init.zeros_(parameter)
    return lstm


def _gates(lstm: nn.LSTM, layer: int = 0, way: str = "") -> dict[str, Gate]:
    """Each gate of a layer by its letter; ``way`` is "_reverse" for right to left, as in torch."""
    names = ("weight_ih", "weight_hh", "bias_ih")
    parts = (getattr(lstm, f"{name}_l{layer}{way}").detach().chunk(4) for name in names)
    return {letter: Gate(*part) for letter, *part in zip("ifgo", *parts, strict=True)}


def _put_lstm(gates: dict[str, Gate], given: nn.LSTM, way: str = "") -> None:
    """The given LSTM as the first H units, reading the first E inputs."""
    H, E = given.hidden_size, given.input_size
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    W, U, b_ih, b_hh = (getattr(given, f"{name}_l0{way}").detach().double() for name in names)
    for letter, *part in zip("ifgo", W.chunk(4), U.chunk(4), (b_ih + b_hh).chunk(4), strict=True):
        gates[letter].inputs[:H, :E], gates[letter].states[:H, :H], gates[letter].bias[:H] = part


def _put_running_max(
    gates: dict[str, Gate], read: str, source: slice, units: slice, slopes: Slopes
) -> None:
    """Let ``units`` keep the running maximum of ``source``, among the "inputs" or the "states"."""
    K, b, s = slopes
    one_each = torch.eye(units.stop - units.start).double()
    gates["f"].bias[units] = gates["o"].bias[units] = OPEN
    for letter, slope, offset in (("i", K, K - b), ("g", s, s)):  # slope·(y - u), with y = x + 1
        getattr(gates[letter], read)[units, source] = slope * one_each
        gates[letter].bias[units] = offset
        gates[letter].states[units, units] = -slope / s * one_each


def _checked(lstm: nn.LSTM, directions: int = 1) -> nn.LSTM:
    plain = isinstance(lstm, nn.LSTM) and lstm.num_layers == 1 and not lstm.proj_size
    check(plain, "lstm must be an LSTM of one layer without projection: nn.LSTM(E, H)")
    one_way = not lstm.bidirectional or directions == 2
    check(one_way, "lstm must read left to right only: nn.LSTM(E, H), not bidirectional")
    return lstm


@lru_cache(maxsize=1)
def largest_error() -> float:
    """The largest error of the two-layer LSTM built from a random one, over its precision."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        lstm, texts = nn.LSTM(8, 16, batch_first=True).double(), torch.randn(8, 200, 8).double()
        pooled = MaxPool()(lstm(texts)[0], torch.ones(8, 200))[0]
        last = max_pooled_by_a_layer(lstm, 1e-4, 200)(texts)[0][:, -1]
        error = (read_running_max(last, 1e-4) - pooled).abs().max()
    return error.item() / 1e-4
