"""What can be represented (§2.1.3): LSTMs built by hand, and the bound on max-pooled parity, by loops."""

import math
from itertools import product

import pytest
import torch
from torch import nn

from whenpool import InputError
from whenpool.models.pooling import LastState, MaxPool
from whenpool.theory.constructions import (
    last_state_by_pooling,
    last_state_scale,
    max_pooled_by_a_layer,
    max_pooled_by_an_end_token,
    parity_lstm,
    read_running_max,
    running_max_lstm,
    running_max_slopes,
)
from whenpool.theory.lattice import (
    longest_chain,
    longest_parity_of_lstms,
    longest_parity_of_machines,
    walks,
)

LONGEST = 10_000


def farthest(sign, caution):
    """Where d·σ(±b - d) is largest, found by looking."""
    d = torch.linspace(0, 30, 3_000_001).double()
    return d[(d * torch.sigmoid(sign * caution - d)).argmax()].item()


def worst_words(K, b, s, longest=LONGEST, first=None):
    """A first word missed by as much as can be, then always the word that lowers the maximum most."""
    away, h, c, words = farthest(-1, b) / K, 0.0, 0.0, []
    for t in range(longest):
        y = max(h / s - away, 0) if t else (farthest(1, b) / K if first is None else first)
        i = 1 / (1 + math.exp(min(b - K * (y - h / s), 700)))
        c += i * math.tanh(s * y - h)
        h = math.tanh(c)
        words.append(y)
    return torch.tensor(words).double() - 1, max(words) - h / s


def texts_of(precision):
    """(B, T) words in [-1, 1] that are hard in one way each."""
    K, b, s = running_max_slopes(precision, LONGEST)
    word, draw = torch.arange(LONGEST).double(), torch.Generator().manual_seed(0)
    texts = [torch.full_like(word, value) for value in (-1, -0.999, 0, 1)]
    texts += [-1 + slope / K * word for slope in (0.2, 1, 1.28, 3, farthest(1, b))]
    texts += [1 - slope / K * word for slope in (0.2, 1, 1.28, 3)]
    texts += [2 * torch.rand(LONGEST, generator=draw).double() - 1]
    texts += [torch.randn(LONGEST, generator=draw).double().cumsum(0) / K]
    texts += [torch.where(word % 2 == 0, -1, word / LONGEST)]
    texts += [worst_words(K, b, s)[0], worst_words(K, b, s, first=1.0)[0]]
    return torch.stack(texts).clamp(-1, 1)


@pytest.mark.parametrize("precision", [0.1, 1e-3, 1e-6])
def test_the_running_maximum_is_within_its_precision_on_hard_texts(precision):
    texts, lstm = texts_of(precision), running_max_lstm(1, precision, LONGEST)
    with torch.no_grad():
        read = read_running_max(lstm(texts.unsqueeze(2))[0], precision).squeeze(2)
    error = texts.cummax(1).values - read
    assert error.max() <= precision
    assert error.min() > -1e-12  # never too high
    assert error.max() > precision * 0.6  # and not more exact than was asked


def given_lstm(E, H, scale, **options):
    torch.manual_seed(E * H)
    lstm = nn.LSTM(E, H, **({"batch_first": True} | options)).double()
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.mul_(scale)
    return lstm


def pooled(pooling, lstm, texts):
    with torch.no_grad():
        states = lstm(texts)[0]
        pool = pooling(bidirectional=lstm.bidirectional)
        return pool(states, torch.ones(states.shape[:2]))[0]


GIVEN = [(1, 1, 1), (3, 5, 1), (4, 16, 8), (2, 3, 40)]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("length", [1, 2, 17, 300])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_max_pooling_by_a_second_layer(given, length, bidirectional):
    lstm, texts = (
        given_lstm(*given, bidirectional=bidirectional),
        torch.randn(5, length, given[0]).double(),
    )
    stack = max_pooled_by_a_layer(lstm, 1e-4, length)
    read = read_running_max(pooled(LastState, stack, texts), 1e-4)
    assert (read - pooled(MaxPool, lstm, texts)).abs().max() <= 1e-4


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("length", [1, 2, 17, 300])
def test_max_pooling_by_an_end_token(given, length):
    (E, H, _), lstm = given, given_lstm(*given)
    texts, end = torch.randn(5, length, E).double(), 100 * torch.randn(5, 1, E).double()
    wide = max_pooled_by_an_end_token(lstm, 1e-4, length)
    with torch.no_grad():
        states = wide(torch.cat([texts, end], 1))[0]
        assert torch.allclose(states[:, :-1, :H], lstm(texts)[0], atol=1e-12)
    read = read_running_max(states[:, -1, H : 2 * H], 1e-4)
    assert (read - pooled(MaxPool, lstm, texts)).abs().max() <= 1e-4


def test_the_state_before_the_first_word_is_no_state():
    """All states are below 0, so that h_0 = 0 would be the largest."""
    lstm = given_lstm(1, 1, 0.0)
    with torch.no_grad():
        lstm.bias_ih_l0[:] = torch.tensor([5.0, 5.0, -5.0, 5.0])
    texts = torch.zeros(1, 4, 1).double()
    largest = pooled(MaxPool, lstm, texts[:, :3])
    assert largest < -0.7
    states = max_pooled_by_an_end_token(lstm, 1e-4, 3)(texts)[0]
    assert (read_running_max(states[:, -1, 1:2], 1e-4) - largest).abs() <= 1e-4


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("length", [1, 17])
def test_a_last_state_by_max_pooling_where_the_end_can_be_told(given, length):
    (E, H, _), lstm = given, given_lstm(*given)
    texts = torch.randn(5, length, E).double()
    marked = torch.zeros(5, length + 1, E + 1).double()
    marked[:, :-1, :-1], marked[:, -1] = texts, torch.randn(5, E + 1).double()
    marked[:, -1, -1] = 1
    found = pooled(MaxPool, last_state_by_pooling(lstm, 1e-4), marked)[:, H:] / last_state_scale(1e-4)
    assert (found - pooled(LastState, lstm, texts)).abs().max() <= 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parity_is_exact_from_each_of_its_three_states(dtype):
    """The three cells are closed under both words, hence the answer is right for every length."""
    lstm = parity_lstm().to(dtype)
    for cell, odd in ((0, False), (-1, False), (1, True)):
        c = torch.full((1, 1, 1), cell, dtype=dtype)
        for word in (0, 1):
            h, (_, after) = lstm(torch.full((1, 1, 1), word, dtype=dtype), (c.tanh(), c))
            assert (h > 0) == (odd != bool(word))
            assert after == (c if word == 0 else (-1 if odd else 1))
            assert h == after.tanh()


LSTM = nn.LSTM(2, 3)
MISTAKES = {
    "precision is an error between 0 and 1, not 0": lambda: running_max_slopes(0, 10),
    "longest counts words, at least 1, not 0": lambda: max_pooled_by_a_layer(LSTM, 0.1, 0),
    "one layer": lambda: max_pooled_by_a_layer(nn.LSTM(2, 3, 2), 0.1, 10),
    "without projection": lambda: max_pooled_by_an_end_token(nn.LSTM(2, 3, proj_size=2), 0.1, 10),
    "must be an LSTM": lambda: last_state_by_pooling(nn.GRU(2, 3), 0.1),
    "left to right only": lambda: max_pooled_by_an_end_token(nn.LSTM(2, 3, bidirectional=True), 0.1, 9),
    "take fewer states": lambda: longest_parity_of_machines(20, 1, 4),
    "a grid of 0 numbers": lambda: longest_parity_of_lstms([], 3, 8),
}


def labelled(embeddings):
    """The longest n on which one of all labels of the embeddings is right, by trying all."""
    kinds = sorted(set(embeddings))
    best = 0
    for labels in product([0, 1], repeat=len(kinds)):
        label = dict(zip(kinds, labels, strict=True))
        right = [label[s] == n % 2 for n, s in enumerate(embeddings, 1)]
        best = max(best, [*right, False].index(False))
    return best


def max_pooled(steps):
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
            best = [max(best[0], labelled(max_pooled(steps))), max(best[1], labelled(steps))]
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
        best = (max(best[0], labelled(max_pooled(steps))), max(best[1], labelled(steps)))
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


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_named(words):
    with pytest.raises(InputError, match=words):
        MISTAKES[words]()
