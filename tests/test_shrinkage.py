"""How a gradient shrinks: formulas against autograd, sampling, loops over steps, and the probe."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian

from whenpool import POOLINGS, Encoder
from whenpool.theory import moments
from whenpool.theory.moments import LeakySum
from whenpool.theory.shrinkage import (
    MODELS,
    direct_gain,
    expected_shrinkage,
    factor_of,
    full_jacobian,
    gradient_moments,
    independent_factor,
    lstm_gates,
    measured_shrinkage,
    quiet_factor,
)

H, E, K = 128, 128, 40
SPANS = [(5, 20), (20, 40)]
TOLERANCE = 0.03  # of a factor per step


def near(found, expected, tolerance):
    return abs(found / expected - 1) < tolerance


# one step of an LSTM


def test_the_gates_are_those_of_torch():
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 5).double()
    x, h, c = torch.randn(4).double(), torch.randn(5).double(), torch.randn(5).double()
    i, f, g, o = lstm_gates(x, h, list(lstm.parameters()))
    _, (state, cell) = lstm(x[None], (h[None], c[None]))
    torch.testing.assert_close(cell[0], f * c + i * g)
    torch.testing.assert_close(state[0], o * (f * c + i * g).tanh())


def test_the_full_jacobian_is_that_of_autograd():
    torch.manual_seed(0)
    weights = [parameter.detach().double() for parameter in nn.LSTM(4, 5).parameters()]
    x, c, o = torch.randn(4).double(), torch.randn(5).double(), torch.rand(5).double()

    def step(cell):
        i, f, g, _ = lstm_gates(x, o * cell.tanh(), weights)
        return f * cell + i * g

    torch.testing.assert_close(full_jacobian(x, c, o, weights), jacobian(step, c))


# moments of gates and states


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.3), (2.0, 0.7), (-1.0, 26.0)])
def test_moments_of_gates_are_those_of_samples(mean, variance):
    samples = mean + math.sqrt(variance) * np.random.default_rng(0).standard_normal(400_000)
    gate, slope = 1 / (1 + np.exp(-samples)), np.exp(-samples) / (1 + np.exp(-samples)) ** 2
    found = moments.sigmoid(mean, variance)
    reference = [gate.mean(), (gate**2).mean(), slope.mean(), (slope**2).mean()]
    np.testing.assert_allclose(np.concatenate(found), reference, rtol=0.006)
    value = np.tanh(samples - mean)
    reference = [(value**2).mean(), (1 - value**2).mean(), ((1 - value**2) ** 2).mean()]
    np.testing.assert_allclose(np.concatenate(moments.tanh(variance)[1:]), reference, rtol=0.006)


@pytest.mark.parametrize("forget_bias", [None, "low", "chrono", 1.5])
def test_forget_biases_are_those_of_the_encoder(forget_bias):
    size = 2000
    torch.manual_seed(0)
    lstm = Encoder(1, size, bidirectional=False, forget_bias=forget_bias).layers[0][0]
    drawn = (lstm.bias_ih_l0 + lstm.bias_hh_l0).detach()[size : 2 * size].numpy()
    ours = moments.keeping_biases(size, forget_bias, 400)
    share = (np.arange(len(ours)) + 0.5) / len(ours)
    theirs = np.quantile(drawn, share)
    if forget_bias == "chrono":  # drawn evenly on this scale
        ours, theirs = np.exp(ours), np.exp(theirs)
    np.testing.assert_allclose(ours, theirs, atol=0.1 * drawn.std() if forget_bias != "chrono" else 10)


def test_a_leaky_sum_has_the_moments_of_all_its_cases():
    """Each keep and each enter is one of two values: all 4^4 cases are summed up."""
    rng = np.random.default_rng(0)
    T = 4
    keep, enter = rng.random((T, 2)), rng.random((T, 2))
    root = rng.standard_normal((T, T))
    source = root @ root.T
    reference = np.zeros((T, T))
    for picks in itertools.product((0, 1), repeat=2 * T):
        lam, kap = keep[range(T), picks[:T]], enter[range(T), picks[T:]]
        y = np.zeros((T, T))  # y_k as a sum of the ξ_j
        for k in range(T):
            y[k] = lam[k] * y[k - 1] if k else 0
            y[k, k] += kap[k]
        reference += y @ source @ y.T / 4**T
    sums = LeakySum(T, 1)
    for k in range(T):
        means = [np.array([v]) for m in (keep[k], enter[k]) for v in (m.mean(), (m**2).mean())]
        row = sums.add(*means, source[k, : k + 1, None])
        np.testing.assert_allclose(row[:, 0], reference[k, : k + 1])


# expected against measured


@pytest.mark.parametrize("model", MODELS)
def test_the_probe_finds_what_is_expected(model):
    cell, bias = MODELS[model]
    setup = (cell, H, E, bias, 1.0, K)
    expected = expected_shrinkage(*setup)
    curves = [measured_shrinkage(*setup, seed=seed) for seed in range(4)]
    measured = torch.stack(curves).square().mean(0).sqrt()
    assert expected[0] == measured[0] == 1
    assert expected.shape == measured.shape == (K + 1,)
    assert near(factor_of(measured, 0, 5), factor_of(expected, 0, 5), 0.05)  # units differ by chance
    for span in SPANS:
        assert near(factor_of(measured, *span), factor_of(expected, *span), TOLERANCE)


# weights that are drawn anew for each step


def untied_curve(size, inputs, forget_bias, words, seed, texts=4):
    """An LSTM whose recurrent weights are drawn anew for each step, by autograd."""
    torch.manual_seed(seed)
    lstm = Encoder(inputs, size, bidirectional=False, forget_bias=forget_bias).double().layers[0][0]
    W, _, *biases = [p.detach() for p in lstm.parameters()]
    h = c = torch.zeros(texts, size).double()
    states = []
    for x in torch.randn(words, texts, inputs).double():
        U = torch.empty(4 * size, size).double().uniform_(-(size**-0.5), size**-0.5)
        i, f, g, o = (x @ W.T + h @ U.T + sum(biases)).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = (o.sigmoid() * c.tanh()).requires_grad_()
        states.append(h)
    grads = torch.autograd.grad((h * torch.randn(texts, size)).sum(), states)
    norms = torch.stack([grad.norm() for grad in grads]).flip(0)
    return norms / norms[0]


@pytest.mark.parametrize("forget_bias", [None, 1.0])
def test_steps_with_weights_of_their_own_shrink_as_the_independent_steps_do(forget_bias):
    curves = [untied_curve(H, E, forget_bias, 31, seed) for seed in range(4)]
    measured = torch.stack(curves).square().mean(0).sqrt()
    expected = expected_shrinkage("lstm", H, E, forget_bias, distance=30, tied=False)
    tied = expected_shrinkage("lstm", H, E, forget_bias, distance=30)
    assert near(factor_of(measured, 5, 25), factor_of(expected, 5, 25), 0.02)
    assert not near(factor_of(measured, 5, 25), factor_of(tied, 5, 25), 0.05)


@pytest.mark.parametrize("forget_bias", [0.0, 1.0, 2.0])
def test_the_factor_of_independent_steps_is_the_spectral_radius_of_two_numbers(forget_bias):
    variance = 1 / (3 * H)  # of each weight and each bias
    keeping = moments.keeping_biases(H, forget_bias, 400)
    steps = moments.lstm_steps(161, E * variance, variance, False, keeping, None)
    squares = gradient_moments(steps)
    t = 80  # where moments no longer change
    A, B = steps.back[t, t, 0], steps.aside[t, t, 0]
    factor = independent_factor(A, B, steps.enter2[t, 0], steps.keep2[t, 0])
    found = factor_of(torch.from_numpy(np.sqrt(squares)), 40, 100)
    assert found == pytest.approx(factor, rel=1e-4)


# the same weights at every step


def test_with_constant_gates_paths_that_jump_equally_often_add_up():
    """E‖(f·I + rG)^k‖² = Σ_j binom(k, j)² f^(2k-2j) r^(2j), G with variances 1/H, H large."""
    f, kappa, a, T = 0.5, 0.4, 0.7, 12
    steps = moments.Steps(
        keep=np.full((T, 1), f),
        keep2=np.full((T, 1), f**2),
        enter=np.full((T, 1), kappa),
        enter2=np.full((T, 1), kappa**2),
        back=np.full((T, T, 1), a**2 / 3),
        aside=np.zeros((T, T, 1)),
        state_is_kept=True,
        tied=True,
    )
    r = kappa * a / 3**0.5
    jumps = [
        sum(math.comb(k, j) ** 2 * f ** (2 * k - 2 * j) * r ** (2 * j) for j in range(k + 1))
        for k in range(T)
    ]
    np.testing.assert_allclose(gradient_moments(steps) / kappa**2, jumps)
    alone = gradient_moments(replace(steps, tied=False)) / kappa**2
    np.testing.assert_allclose(alone, [(f**2 + r**2) ** k for k in range(T)])
    torch.manual_seed(0)
    G = torch.randn(12, 200, 200).double() / 200**0.5  # of 12 draws
    power = torch.linalg.matrix_power(f * torch.eye(200).double() + r * G, T - 1)
    assert near(power.square().sum().item() / 12 / 200, jumps[-1], 0.06)
    assert not near(alone[-1], jumps[-1], 0.3)


@pytest.mark.parametrize("forget_bias", [0.0, 1.78, 3.0])
def test_the_quiet_factor_is_the_largest_eigenvalue_of_a_step(forget_bias):
    size = 500
    torch.manual_seed(0)
    lstm = Encoder(1, size, bidirectional=False, forget_bias=forget_bias).double().layers[0][0]
    W, U, b, _ = [p.detach() for p in lstm.parameters()]
    b = torch.zeros_like(b)
    b[size : 2 * size] = forget_bias
    half, nothing = torch.full((size,), 0.5).double(), torch.zeros(size).double()
    step = full_jacobian(nothing[:1], nothing, half, (W, U, b, nothing.repeat(4)))
    largest = torch.linalg.eigvals(step).abs().max().item()
    assert largest == pytest.approx(quiet_factor(forget_bias), abs=0.01)


# direct paths


@pytest.mark.parametrize("name", ["last", "attention", "max_attention"])
def test_a_direct_gain_is_what_happens_to_a_random_gradient(name):
    T, D = 5, 6
    torch.manual_seed(0)
    states, mask = torch.randn(1, T, D).double().requires_grad_(), torch.ones(1, T, dtype=torch.bool)
    pool = POOLINGS[name](D).double()
    embedding = pool(states, mask)[0][0]  # (D,)
    pulls = torch.randn(4000, D).double()
    (grads,) = torch.autograd.grad(embedding, states, pulls, is_grads_batched=True)
    measured = (grads[:, 0].square().sum(-1).mean(0) / D).sqrt()  # (T,)
    path = jacobian(lambda h: pool(h, mask)[0][0], states)[:, 0].transpose(0, 1)  # (T, D, D)
    torch.testing.assert_close(direct_gain(path), measured, rtol=0.05, atol=1e-9)
