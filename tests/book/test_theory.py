"""Theory: LSTMs built by hand and the bound on max-pooled parity, by loops (§2.1.3); how a gradient
shrinks, against autograd, sampling, loops over steps and the probe."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from clones import defined
from expected_gradient import (
    LeakySum,
    expected_shrinkage,
    gradient_moments,
    keeping_biases,
    lstm_steps,
)
from scipy.special import lambertw
from small_models import close
from torch import nn
from torch.autograd.functional import jacobian

from paper import theory
from paper.theory import factor_of, longest_parity_of_machines, read_running_max
from whenpool.models.pooling import LastState, MaxPool

LONGEST = 10_000
H, E, K = 128, 128, 40
NAMES = {"torch": torch, "np": np, "math": math, "theory": theory}
PAGE = defined("theory", r"^def \w+\(.*?(?=^\S)", NAMES)


def texts_of(precision):
    """(B, T) words in [-1, 1] that are hard in one way each: after the largest miss always down,
    slopes at which the gate is half open, and noise."""
    K, _, _ = theory.running_max_slopes(precision, LONGEST)
    word, draw = torch.arange(LONGEST).double(), torch.Generator().manual_seed(0)
    missed = (1 + lambertw(LONGEST / math.e).real) / K - 1
    texts = [torch.where(word == 0, missed, -1), torch.full_like(word, -1), torch.ones_like(word)]
    texts += [sign * (slope / K * word - 1) for slope in (0.2, 1, 1.28, 3) for sign in (1, -1)]
    texts += [2 * torch.rand(LONGEST, generator=draw).double() - 1]
    return torch.stack(texts).clamp(-1, 1)


@pytest.mark.parametrize("precision", [0.1, 1e-3, 1e-6])
def test_the_running_maximum_is_within_its_precision_on_hard_texts(precision):
    texts, lstm = texts_of(precision), PAGE["running_max_lstm"](1, precision, LONGEST)
    with torch.no_grad():
        read = read_running_max(lstm(texts.unsqueeze(2))[0], precision).squeeze(2)
    error = texts.cummax(1).values - read
    assert error.min() > -1e-12  # never too high
    assert precision * 0.3 < error.max() <= precision  # and not much more exact than was asked


def given_lstm(E, H, scale, **options):
    torch.manual_seed(E * H)
    lstm = nn.LSTM(E, H, **({"batch_first": True} | options)).double()
    for parameter in lstm.parameters():
        parameter.data *= scale
    return lstm


@torch.no_grad()
def pooled(pooling, lstm, texts):
    states = lstm(texts)[0]
    return pooling(bidirectional=lstm.bidirectional)(states, torch.ones(states.shape[:2]))[0]


@pytest.mark.parametrize("given", [(1, 1, 1), (3, 5, 1), (4, 16, 8), (2, 3, 40)])
@pytest.mark.parametrize("length", [1, 2, 17, 300])
def test_max_pooling_by_a_layer_and_by_an_end_token_and_a_last_state_by_max_pooling(given, length):
    E, H, _ = given
    texts, end = torch.randn(5, length, E).double(), 100 * torch.randn(5, 1, E).double()
    for lstm in (given_lstm(*given, bidirectional=True), given_lstm(*given)):
        expected = pooled(MaxPool, lstm, texts)
        last = pooled(LastState, theory.max_pooled_by_a_layer(lstm, 1e-4, length), texts)
        assert (read_running_max(last, 1e-4) - expected).abs().max() <= 1e-4
    wide = PAGE["max_pooled_by_an_end_token"](lstm, 1e-4, length)
    with torch.no_grad():
        states = wide(torch.cat([texts, end], 1))[0]
        assert torch.allclose(states[:, :-1, :H], lstm(texts)[0], atol=1e-12)
    assert (read_running_max(states[:, -1, H : 2 * H], 1e-4) - expected).abs().max() <= 1e-4
    # where the end is
    told = torch.arange(length + 1).eq(length).double().expand(5, -1).unsqueeze(2)
    marked = torch.cat([torch.cat([texts, end], 1), told], 2)
    found = pooled(MaxPool, PAGE["last_state_by_pooling"](lstm, 1e-4), marked)[:, H:]
    assert (found / (1e-4 * 3 / 2) ** 0.5 - pooled(LastState, lstm, texts)).abs().max() <= 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parity_is_exact_from_each_of_its_three_states(dtype):
    lstm = PAGE["parity_lstm"]().to(dtype)
    for cell, odd in ((0, False), (-1, False), (1, True)):
        c = torch.full((1, 1, 1), cell, dtype=dtype)
        for word in (0, 1):
            h, (_, after) = lstm(torch.full((1, 1, 1), word, dtype=dtype), (c.tanh(), c))
            assert (h > 0) == (odd != bool(word))
            assert after == (c if word == 0 else (-1 if odd else 1))
            assert h == after.tanh()


def parity_by_loops(states, units, values):
    """The longest n such that some machine tells parity on 1 to n ones, max-pooled: every
    transition table, and every assignment of values; far more words than any cycle."""
    best = 0
    for table in product(range(states), repeat=states):
        walk = [0]
        for _ in range(6 * states - 1):
            walk.append(table[walk[-1]])
        for flat in product(range(values), repeat=units * states):
            labels, pooled = {}, (-1,) * units
            for n, q in enumerate(walk):
                pooled = tuple(map(max, pooled, flat[q * units : (q + 1) * units]))
                if labels.setdefault(pooled, n % 2) != n % 2:
                    best = max(best, n)
                    break
    return best


def test_all_machines_by_loops_and_max_pooled_ones_reach_the_bound_and_no_more():
    for sizes in ((1, 1, 1), (1, 1, 3), (2, 1, 2), (3, 1, 1), (3, 1, 2), (2, 2, 2)):
        assert longest_parity_of_machines(*sizes)[0] == parity_by_loops(*sizes)
    for Q, H, V in ((3, 1, 3), (6, 1, 2), (6, 1, 4), (2, 1, 4), (4, 2, 2), (5, 2, 3), (5, 3, 2)):
        assert longest_parity_of_machines(Q, H, V) == (min(Q, H * (V - 1) + 1), math.inf)


def test_the_full_jacobian_is_that_of_torchs_lstm_by_autograd():
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 5).double()
    x, c, o = torch.randn(4).double(), torch.randn(5).double(), torch.rand(5).double()

    def step(cell):
        return lstm(x[None], ((o * cell.tanh())[None], cell[None]))[1][1][0]

    weights = [parameter.detach() for parameter in lstm.parameters()]
    close(PAGE["full_jacobian"](x, c, o, weights), jacobian(step, c))


def test_a_leaky_sum_has_the_moments_of_all_its_cases():
    """Each keep and each enter is one of two values: all 4^4 cases are summed up."""
    rng, T = np.random.default_rng(0), 4
    keep, enter = rng.random((T, 2)), rng.random((T, 2))
    source, reference = np.cov(rng.standard_normal((T, 9))), np.zeros((T, T))
    for picks in product((0, 1), repeat=2 * T):
        lam, kap = keep[range(T), picks[:T]], enter[range(T), picks[T:]]
        y = np.diag(kap)  # y_k as a sum of the ξ_j
        for k in range(1, T):
            y[k] += lam[k] * y[k - 1]
        reference += y @ source @ y.T / 4**T
    sums = LeakySum(T, 1)
    for k in range(T):
        means = [np.array([v]) for m in (keep[k], enter[k]) for v in (m.mean(), (m**2).mean())]
        found = sums.add(*means, source[k, : k + 1, None])[:, 0]
        np.testing.assert_allclose(found, reference[k, : k + 1])


@pytest.mark.parametrize("model", theory.MODELS)
def test_the_probe_finds_what_is_expected(model):
    cell, bias = theory.MODELS[model]
    setup = (cell, H, E, bias, 1.0, K)
    expected = expected_shrinkage(*setup)
    curves = [theory.measured_shrinkage(*setup, seed=seed) for seed in range(4)]
    measured = torch.stack(curves).square().mean(0).sqrt()
    assert expected[0] == measured[0] == 1
    for first, last, tolerance in ((0, 5, 0.05), (5, 20, 0.03), (20, 40, 0.03)):
        found, wanted = (factor_of(curve, first, last) for curve in (measured, expected))
        assert found == pytest.approx(wanted, rel=tolerance)


@pytest.mark.parametrize("forget_bias", [0.0, 1.0, 2.0])
def test_the_factor_of_independent_steps_is_the_spectral_radius_of_two_numbers(forget_bias):
    variance, t = 1 / (3 * H), 80  # of each weight and each bias; where moments no longer change
    keeping = keeping_biases(H, forget_bias)
    steps = lstm_steps(161, E * variance, variance, False, keeping, None)
    A, B = steps.back[t, t, 0], steps.aside[t, t, 0]
    factor = PAGE["independent_factor"](A, B, steps.enter2[t, 0], steps.keep2[t, 0])
    found = factor_of(torch.from_numpy(np.sqrt(gradient_moments(steps))), 40, 100)
    assert found == pytest.approx(factor, rel=1e-4)
