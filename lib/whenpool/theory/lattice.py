"""What max-pooling cannot represent at finite precision: a bound, and searches for it (thesis §2.1.3).

The task is parity: is the number of ones read so far odd? It is asked of the prefixes of 1, 1, 1, ...
by a label that depends on the embedding alone. The thesis cites Chowdhury (2020) for the limits of
MaxPool; bound and searches here are our own.

Letters: T prefixes looked at, H units that are pooled, V values that a unit can take, N machines.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from whenpool.base.errors import InputError


def longest_chain(units: int, values: int) -> int:
    """H(V - 1) + 1: how many different embeddings max-pooling can give one after another, since each of the
    H units can only rise, and V - 1 times at most (§2.1.3)."""
    return units * (values - 1) + 1


def parity_told(embeddings: np.ndarray) -> np.ndarray:
    """On how many prefixes some label of the embedding is right about parity, (N,) (§2.1.3): as long as no
    embedding, a number of ``embeddings`` (T, N), belongs to an odd and to an even one."""
    T, N = embeddings.shape
    first_clash = np.full(N, T)
    for t in reversed(range(T)):  # so that the first one is what stays
        for other in range(t - 1, -1, -2):  # the prefixes before of the other parity
            first_clash[embeddings[t] == embeddings[other]] = t
    return first_clash


def longest_parity_of_machines(states: int, units: int, values: int) -> tuple[int, float]:
    """The longest n such that the best of *all* finite machines tells parity on the prefixes of 1 to n
    ones, max-pooled and by the last value (§2.1.3); ``math.inf`` where it tells it on all.

    A machine has Q ``states`` after a word, a transition for the word "1" from each, and pooled ``values``
    in {0 .. V-1}^H, H ``units``, for each. It moves to new states, 0, 1, ... k-1 as they are met, until it
    returns to one of them, and goes round from there: all such walks are tried, with all values. After 2Q
    words each state has been met with each parity that it will ever be met with.

    Raises `InputError` for more than a million assignments.
    """
    if values ** (units * states) > 10**6:
        raise InputError(f"{values}^({units}·{states}) assignments are too many; take fewer states")
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


def longest_parity_of_lstms(grid: Sequence[float], values: int, longest: int) -> tuple[int, int]:
    """As `longest_parity_of_machines`, of all LSTMs with one unit and weights on a grid (§2.1.3); T where
    parity was told on all T = ``longest`` prefixes tried, which are more than V.

    The word is always the same, so that an LSTM is eight numbers of the grid: for each gate a bias, W +
    b, and a weight U of the state. States are rounded to V ``values`` from -1 to 1, evenly spaced, and
    the next step reads them rounded; the cell is not rounded.
    """
    bias, weight = np.array(np.meshgrid(*[grid] * 8)).reshape(2, 4, -1)  # (4, N) each
    h = c = np.zeros(bias.shape[1])
    steps = np.empty((longest, len(h)), dtype=np.int16)
    for t in range(longest):
        i, f, g, o = bias + weight * h
        c = expit(f) * c + expit(i) * np.tanh(g)
        steps[t] = np.rint((expit(o) * np.tanh(c) + 1) / 2 * (values - 1))
        h = steps[t] * 2 / (values - 1) - 1
    pooled = np.maximum.accumulate(steps, axis=0)
    return int(parity_told(pooled).max()), int(parity_told(steps).max())
