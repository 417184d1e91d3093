"""The cells that the page on recurrent networks defines, against torch's and their formulas."""

import numpy as np
import pytest
import torch
from clones import defined
from scipy.special import expit as sigmoid
from small_models import close
from torch import nn

from whenpool.models import cells

PAGE = defined("recurrent_networks", r"^class \w+\(.*?(?=^```)", {"torch": torch, "cells": cells})
TORCH = ((PAGE["Elman"], nn.RNN), (PAGE["LSTM"], nn.LSTM), (PAGE["GRU"], nn.GRU))


@pytest.fixture
def inputs():
    return torch.randn(4, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def made(kind):
    torch.manual_seed(2)
    return kind(6, 5, batch_first=True).double()


@pytest.mark.parametrize("ours, theirs", TORCH)
def test_equals_torch_in_values_and_gradients(ours, theirs, inputs):
    mine, other = made(ours), made(theirs)  # the same seed gives the same weights
    for name, weight in other.named_parameters():
        assert torch.equal(mine.state_dict()[name], weight)
    weight, found = torch.randn(4, 9, 5).double(), []
    for cell in (mine, other):
        read = inputs.clone().requires_grad_()
        states, last = cell(read)
        last = [part.squeeze(0) for part in (last if isinstance(last, tuple) else (last,))]
        gradients = torch.autograd.grad((states * weight).sum(), [read, *cell.parameters()])
        found.append([states, *last, *gradients])
    close(*found, atol=1e-12)


def test_the_gru_of_the_slides_is_its_formula(inputs):
    cell = made(PAGE["SlidesGRU"])
    weights = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    W, U, b = weights["weight_ih_l0"], weights["weight_hh_l0"], weights["bias_ih_l0"]
    b = b + weights["bias_hh_l0"]
    for words, states in zip(inputs.numpy(), cell(inputs)[0].detach().numpy(), strict=True):
        s = np.zeros(5)
        for x, state in zip(words, states, strict=True):
            r, z = sigmoid(W[:10] @ x + U[:10] @ s + b[:10]).reshape(2, 5)
            s = (1 - z) * s + z * np.tanh(W[10:] @ x + U[10:] @ (r * s) + b[10:])
            np.testing.assert_allclose(state, s, atol=1e-13)
