"""Recurrences in less than float32."""

import pytest
import torch

from whenpool import Encoder, InputError
from whenpool.models.precision import precision, precision_used, product_precision
from whenpool.runs.provenance import provenance

LENGTHS = torch.tensor([9, 5])


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return Encoder(6, 8)


def test_bfloat16_is_near_float32_and_gives_float32_states(encoder):
    inputs = torch.randn(2, 9, 6, requires_grad=True)
    exact = encoder(inputs, LENGTHS)
    with precision("bfloat16"):
        rounded = encoder(inputs, LENGTHS)
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 2e-2
    (gradient,) = torch.autograd.grad(rounded.sum(), inputs)
    assert gradient.dtype == torch.float32
    assert torch.equal(encoder(inputs, LENGTHS), exact)  # afterwards as before


def test_on_a_gpu_weights_and_inputs_are_rounded_without_autocast(encoder, monkeypatch):
    """As cuDNN's recurrences need it; the arithmetic is tried here on a processor."""
    inputs = torch.randn(2, 9, 6)
    exact, seen = encoder(inputs, LENGTHS), []
    monkeypatch.setattr("whenpool.models.encoder.cast_on_gpu", lambda device: True)
    for module in encoder.modules():
        if isinstance(module, torch.nn.LSTM):
            module.register_forward_pre_hook(lambda _, fed: seen.append(fed[0].dtype))
    rounded = encoder(inputs, LENGTHS)
    assert seen == [torch.bfloat16] * 2
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 2e-2
    rounded.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in encoder.parameters())


def test_products_of_recurrences_alone_take_tf32():
    matmul = torch.backends.cuda.matmul
    with precision("tf32"):
        assert not matmul.allow_tf32
        with product_precision():
            assert matmul.allow_tf32
        assert not matmul.allow_tf32
    with product_precision():
        assert not matmul.allow_tf32


def test_it_is_told_beside_results_and_set_back():
    assert provenance("cpu")["precision"] == "float32"
    before = torch.backends.cudnn.allow_tf32
    with precision("tf32"):
        assert torch.backends.cudnn.allow_tf32
        assert provenance("cpu")["precision"] == "tf32"
    assert precision_used() == "float32"
    assert torch.backends.cudnn.allow_tf32 == before


def test_an_unknown_one_is_named():
    with (
        pytest.raises(InputError, match="precision 'fp8' is unknown; choose one of float32, tf32"),
        precision("fp8"),
    ):
        pass
