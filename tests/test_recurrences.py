"""Many recurrences as one, against each alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from whenpool.models.batched_lstm import _STEPS, run_together
from whenpool.models.precision import precision

E, H = 5, 4


def lstms(count, dtype=torch.float64):
    torch.manual_seed(count)
    return [nn.LSTM(E, H, batch_first=True).to(dtype) for _ in range(count)]


def inputs_of(shapes, dtype=torch.float64):
    torch.manual_seed(1)
    return [torch.randn(B, T, E, dtype=dtype, requires_grad=True) for B, T in shapes]


def states_and_gradients(run, modules, inputs):
    states = run(modules, inputs)
    torch.manual_seed(2)
    sum((found * torch.randn_like(found)).sum() for found in states).backward()
    tensors = [*inputs, *(p for module in modules for p in module.parameters())]
    found = [*states, *(tensor.grad.clone() for tensor in tensors)]
    for tensor in tensors:
        tensor.grad = None
    return found


def alone(modules, inputs):
    return [module(x)[0] for module, x in zip(modules, inputs, strict=True)]


shapes = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2 * _STEPS + 3)), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(shapes)
def test_states_and_all_gradients_equal_those_of_each_alone(shapes):
    modules, inputs = lstms(len(shapes)), inputs_of(shapes)
    expected = states_and_gradients(alone, modules, inputs)
    found = states_and_gradients(run_together, modules, inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_not_a_number_stays_with_its_recurrence():
    modules, inputs = lstms(2), inputs_of([(2, 9), (2, 40)])
    with torch.no_grad():
        inputs[1][0, 0, 0] = float("nan")
    states = run_together(modules, inputs)
    states[0].sum().backward()
    assert torch.isfinite(states[0]).all()
    assert torch.isfinite(inputs[0].grad).all()
    assert all(torch.isfinite(p.grad).all() for p in modules[0].parameters())


def test_bfloat16_is_near():
    modules, inputs = lstms(2, torch.float32), inputs_of([(2, 9), (3, 20)], torch.float32)
    exact = states_and_gradients(run_together, modules, inputs)
    with precision("bfloat16"):
        rounded = states_and_gradients(run_together, modules, inputs)
    for one, other in zip(rounded, exact, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).abs().max() < 0.05 * other.abs().max().clamp(min=1)
    assert any(not torch.equal(one, other) for one, other in zip(rounded, exact, strict=True))


def test_gradients_of_gradients_are_refused():
    (module,), (x,) = lstms(1), inputs_of([(2, 5)])
    (first,) = torch.autograd.grad(run_together([module], [x])[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):  # better than wrong ones
        first.sum().backward()
