"""The readable cells against their formulas, and in the encoder."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid

from whenpool import Encoder, InputError
from whenpool.models import cells
from whenpool.models.cells import (
    CELLS,
    LRU,
    SSM,
    TORCH_CELLS,
    MinGRU,
    MinLSTM,
    PrototypeLSTM,
    linear_recurrence,
)

LENGTHS = torch.tensor([9, 4, 1, 7])
OURS = tuple(name for name in CELLS if name not in TORCH_CELLS)
OWN = (cells.Sum, cells.TanhSum, PrototypeLSTM, MinGRU, MinLSTM, SSM, LRU)


@pytest.fixture
def inputs():
    return torch.randn(4, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def made(kind):
    torch.manual_seed(2)
    return kind(6, 6, batch_first=True).double()


def by_formula(kind, cell, words):
    """What a cell returns of one text by the formulas in numpy, (T, E) -> (T, H)."""
    weights = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    s, states = np.zeros(cell.hidden_size), []
    b = weights.get("bias_ih_l0", 0) + weights.get("bias_hh_l0", 0)
    W, U, H = weights.get("weight_ih_l0"), weights.get("weight_hh_l0"), cell.hidden_size
    for x in words.numpy():
        y = None
        if kind is cells.Sum:
            s = s + x
        elif kind is cells.TanhSum:
            s = np.tanh(s + x + weights["bias_l0"])
        elif kind is PrototypeLSTM:
            i, f, new = np.split(W @ x + U @ s + b, 3)
            s = s * sigmoid(f) + np.tanh(new) * sigmoid(i)
        elif kind is MinGRU:
            z, new = np.split(W @ x + b, 2)
            s = (1 - sigmoid(z)) * s + sigmoid(z) * new
        elif kind is MinLSTM:
            f, i, new = np.split(W @ x + b, 3)
            s = (sigmoid(f) * s + sigmoid(i) * new) / (sigmoid(f) + sigmoid(i))
        elif kind is SSM:
            u, at_step, B, C = np.split(W @ x + b, [H, 2 * H, 2 * H + cell.N])
            step = np.log1p(np.exp(at_step))[:, None]
            s = s if s.ndim == 2 else s[:, None]  # (H, N)
            s = np.exp(-step * np.exp(weights["log_A"])) * s + step * np.outer(u, B)
            y = s @ C + weights["D"] * u
        else:
            turn = np.exp(-np.exp(weights["nu"]) + 1j * np.exp(weights["theta"]))
            s = turn * s + np.exp(weights["log_gamma"]) * ((W[:H] + 1j * W[H:]) @ x)
            C = weights["weight_out"][:, :H] + 1j * weights["weight_out"][:, H:]
            y = (C @ s).real + weights["D"] @ x
        states.append(s if y is None else y)
    return torch.from_numpy(np.stack(states))


@pytest.mark.parametrize("kind", OWN)
def test_others_are_their_formulas(kind, inputs):
    cell = made(kind)
    expected = torch.stack([by_formula(kind, cell, text) for text in inputs])
    torch.testing.assert_close(cell(inputs)[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [MinLSTM, SSM, LRU])
def test_gradients_of_linear_cells_are_finite_differences(kind, inputs):
    cell, words = made(kind), inputs[:2, :4].clone().requires_grad_()
    weights = dict(cell.named_parameters())

    def read(words, *values):
        changed = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(cell, changed, (words,))[0]

    assert torch.autograd.gradcheck(read, (words, *weights.values()))


def test_they_start_as_their_papers_say():
    torch.manual_seed(4)
    ssm, lru = SSM(6, 2_000), LRU(6, 2_000)
    steps = torch.nn.functional.softplus(ssm.bias_ih_l0[2_000:4_000])
    assert 1e-3 * 0.999 < steps.min() < 0.0011
    assert 0.09 < steps.max() < 0.1001
    assert steps.log10().mean().item() == pytest.approx(-2, abs=0.05)
    assert ssm.log_A[7].exp().tolist() == pytest.approx([1, 2, 3, 4])
    kept, _ = lru.terms(torch.zeros(6))
    assert 0.9 < kept.abs().min() < 0.91
    assert 0.998 < kept.abs().max() < 0.999
    assert 0 < kept.angle().min() < kept.angle().max() < np.pi / 10
    torch.testing.assert_close(lru.log_gamma.exp() ** 2, 1 - kept.abs() ** 2)


@pytest.mark.parametrize("T", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.float32])
@pytest.mark.parametrize("from_the_end", [False, True])
def test_a_scan_is_the_loop_over_words(T, dtype, from_the_end, monkeypatch):
    generator = torch.Generator().manual_seed(T)
    a, b = (torch.randn(2, T, 3, dtype=dtype, generator=generator) for _ in range(2))
    a[0, T // 2] = 0  # which no division survives
    state, expected = torch.zeros(2, 3, dtype=dtype), torch.empty_like(b)
    for t in reversed(range(T)) if from_the_end else range(T):
        expected[:, t] = state = a[:, t] * state + b[:, t]
    for run in (cells.steps, cells.scan):
        monkeypatch.setattr(cells, "steps", run)
        torch.testing.assert_close(linear_recurrence(a, b, from_the_end), expected)
        if dtype != torch.float32 and T < 8:
            leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
            both_ways = partial(linear_recurrence, from_the_end=from_the_end)
            assert torch.autograd.gradcheck(both_ways, leaves)
            assert torch.autograd.gradgradcheck(both_ways, leaves)


@pytest.mark.parametrize("cell", OURS)
def test_an_encoder_reads_each_text_alone_from_both_ends(cell, inputs):
    torch.manual_seed(3)
    encoder = Encoder(6, 6, cell).double()
    states = encoder(inputs, LENGTHS)
    for text, n in enumerate(LENGTHS.tolist()):
        words, (ahead, back) = inputs[text, :n], encoder.layers[0]
        forward = by_formula(CELLS[cell], ahead, words)
        backward = by_formula(CELLS[cell], back, words.flip(0)).flip(0)
        both = torch.cat([forward, backward], 1)
        torch.testing.assert_close(states[text, :n], both, rtol=0, atol=1e-13)
        assert (states[text, n:] == 0).all()


@pytest.mark.parametrize(
    "cell, options, message",
    [
        ("mingru", {"orthogonal": True}, "has no recurrent weights"),
        ("minlstm", {"forget_bias": 1.0}, "forget_bias cannot start .*choose one of lstm, gru"),
        ("gru", {"forget_bias": "chrono input"}, "make forget_bias a number or 'chrono'"),
        ("sum", {"hidden_size": 5}, "must equal hidden_size=5"),
    ],
)
def test_options_that_need_weights_are_refused_without_them(cell, options, message):
    with pytest.raises(InputError, match=message):
        Encoder(**{"input_size": 6, "hidden_size": 6, "cell": cell} | options)
    bias = Encoder(6, 6, "prototype", forget_bias=2.0).layers[0][0]
    assert (bias.bias_ih_l0 + bias.bias_hh_l0)[6:12].tolist() == [2.0] * 6
