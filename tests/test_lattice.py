"""The bound on max-pooled parity against plain loops over all labels, machines and small LSTMs."""

import math
from itertools import product

import pytest

from whenpool import InputError
from whenpool.theory.lattice import (
    longest_chain,
    longest_parity_of_lstms,
    longest_parity_of_machines,
    walks,
)


def labelled(embeddings):
    """The longest n on which one of all labels of the embeddings is right, by trying all."""
    kinds = sorted(set(embeddings))
    best = 0
    for labels in product([0, 1], repeat=len(kinds)):
        label = dict(zip(kinds, labels, strict=True))
        right = [label[s] == n % 2 for n, s in enumerate(embeddings, 1)]
        best = max(best, [*right, False].index(False))
    return best


def pooled(steps):
    """[(H values), ...] -> what max-pooling has after each."""
    return [tuple(map(max, zip(*steps[: t + 1], strict=True))) for t in range(len(steps))]


def machines_by_loops(states, units, values):
    """Every transition table and every assignment of values; far more words than any cycle."""
    words, best = 6 * states, [0, 0]
    for table in product(range(states), repeat=states):
        walk = [0]
        for _ in range(words - 1):
            walk.append(table[walk[-1]])
        for flat in product(range(values), repeat=units * states):
            steps = [flat[q * units : (q + 1) * units] for q in walk]
            best = [max(best[0], labelled(pooled(steps))), max(best[1], labelled(steps))]
    return best[0], math.inf if best[1] == words else best[1]


def lstms_by_loops(grid, values, longest):
    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    best = (0, 0)
    for b_i, b_f, b_g, b_o, u_i, u_f, u_g, u_o in product(grid, repeat=8):
        h, c, steps = 0.0, 0.0, []
        for _ in range(longest):
            c = sigmoid(b_f + u_f * h) * c + sigmoid(b_i + u_i * h) * math.tanh(b_g + u_g * h)
            h = sigmoid(b_o + u_o * h) * math.tanh(c)
            steps.append((min(range(values), key=lambda k: abs(2 * k / (values - 1) - 1 - h)),))
            h = 2 * steps[-1][0] / (values - 1) - 1
        best = (max(best[0], labelled(pooled(steps))), max(best[1], labelled(steps)))
    return best


@pytest.mark.parametrize("states", [1, 2, 4])
def test_walks_are_those_of_all_transition_tables(states):
    seen = set()
    for table in product(range(states), repeat=states):
        walk, names = [0], {}
        for _ in range(8):
            walk.append(table[walk[-1]])
        seen.add(tuple(names.setdefault(q, len(names)) for q in walk))
    found = [tuple(walk) for walk in walks(states, 9).tolist()]
    assert len(found) == len(set(found))
    assert set(found) == seen


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 3), (2, 1, 2), (3, 1, 1), (3, 1, 2), (2, 2, 2)])
def test_all_machines_by_loops(sizes):
    assert longest_parity_of_machines(*sizes) == machines_by_loops(*sizes)


@pytest.mark.parametrize(
    "sizes", [(3, 1, 3), (6, 1, 2), (6, 1, 4), (2, 1, 4), (4, 2, 2), (3, 2, 3), (5, 2, 3), (5, 3, 2)]
)
def test_max_pooled_machines_reach_the_bound_and_no_more(sizes):
    best, last = longest_parity_of_machines(*sizes)
    assert best == min(sizes[0], longest_chain(*sizes[1:]))
    assert last == math.inf


@pytest.mark.parametrize(("grid", "values"), [((-8, 8), 2), ((-8, 2), 3), ((2, 8), 5), ((-3, 0.5), 4)])
def test_small_lstms_by_loops(grid, values):
    assert longest_parity_of_lstms(grid, values, 8) == lstms_by_loops(grid, values, 8)


@pytest.mark.parametrize("values", [2, 3, 4, 5, 6])
def test_max_pooled_lstms_keep_to_the_bound(values):
    best, last = longest_parity_of_lstms((-8, 0, 2, 8), values, 12)
    assert 2 <= best <= longest_chain(1, values)
    assert last == 12


MISTAKES = {
    "units=2 and values=0 must be": lambda: longest_chain(2, 0),
    "states=2, units=0 and values=2 must be": lambda: longest_parity_of_machines(2, 0, 2),
    "take fewer states": lambda: longest_parity_of_machines(20, 1, 4),
    "longest above it, not 3 and 3": lambda: longest_parity_of_lstms([0, 1], 3, 3),
    "2 or more": lambda: longest_parity_of_lstms([0, 1], 1, 3),
    "a grid of 0 numbers": lambda: longest_parity_of_lstms([], 3, 8),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_named(words):
    with pytest.raises(InputError, match=words):
        MISTAKES[words]()
