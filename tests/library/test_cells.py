"""The readable cells against their formulas, and in the encoder."""

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid

from whenpool import Encoder, InputError
from whenpool.models import cells
from whenpool.models.cells import CELLS, TORCH_CELLS, MinGRU, MinLSTM, PrototypeLSTM

LENGTHS = torch.tensor([9, 4, 1, 7])
OURS = tuple(name for name in CELLS if name not in TORCH_CELLS)
OWN = (cells.Sum, cells.TanhSum, PrototypeLSTM, MinGRU, MinLSTM)


@pytest.fixture
def inputs():
    return torch.randn(4, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def made(kind):
    torch.manual_seed(2)
    return kind(6, 6, batch_first=True).double()


def by_formula(kind, cell, words):
    """The states of one text by the formulas in numpy, (T, E) -> (T, H)."""
    weights = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    s, states = np.zeros(cell.hidden_size), []
    b = weights.get("bias_ih_l0", 0) + weights.get("bias_hh_l0", 0)
    W, U = weights.get("weight_ih_l0"), weights.get("weight_hh_l0")
    for x in words.numpy():
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
        else:
            f, i, new = np.split(W @ x + b, 3)
            s = (sigmoid(f) * s + sigmoid(i) * new) / (sigmoid(f) + sigmoid(i))
        states.append(s)
    return torch.from_numpy(np.stack(states))


@pytest.mark.parametrize("kind", OWN)
def test_others_are_their_formulas(kind, inputs):
    cell = made(kind)
    expected = torch.stack([by_formula(kind, cell, text) for text in inputs])
    torch.testing.assert_close(cell(inputs), (expected, expected[:, -1]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("cell", OURS)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_states_do_not_depend_on_padding_or_other_texts(cell, layers, bidirectional, inputs):
    if cell in ("sum", "tanh_sum"):  # whose inputs are as large as their states
        bidirectional = bidirectional and layers == 1
    reader = Encoder(6, 6, cell, layers, bidirectional).double()
    together = reader(inputs, LENGTHS)
    assert together.shape == (4, 9, reader.output_size)
    for text, length in enumerate(LENGTHS):
        alone = reader(inputs[text : text + 1, :length], length.unsqueeze(0))
        torch.testing.assert_close(alone[0], together[text, :length], rtol=0, atol=1e-14)
    assert (together[1, 4:] == 0).all()


@pytest.mark.parametrize(
    ("cell", "options", "message"),
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
