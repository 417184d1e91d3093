"""A recurrence as one node of a recorded graph: for ``torch.compile``, ``torch.export`` and ONNX.

Torch can put its recurrences into a graph only step by step, for one number of words. Here the graph
calls an operator of ours instead, which runs the cell as it is run without a graph, whatever B and T
are. An exported program therefore needs ``import whenpool.models.recorded`` where it is loaded. A file
for ONNX needs nothing of ours: it has ONNX's own LSTM, GRU or RNN.

Letters: B texts, T words of the longest, E units of an input, H units of a state.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from whenpool.base.errors import check
from whenpool.models.cells import CELLS
from whenpool.models.precision import cast_on_gpu, precision_used

# For each cell ONNX's name of it, and where its gates stand among torch's
_ONNX_GATES = {"lstm": ("LSTM", (0, 3, 1, 2)), "gru": ("GRU", (1, 0, 2)), "elman": ("RNN", (0,))}


def run_recurrence(
    module: nn.Module, inputs: Tensor, weights: Mapping[str, Tensor] | None = None
) -> Tensor:
    """The states (B, T, H) that a recurrence makes of inputs (B, T, E) in the precision in use, with other
    ``weights`` than its own where some are given, by the names of its parameters."""
    given, fed = dict(weights or {}), inputs
    rounding: AbstractContextManager[object] = nullcontext()
    if cast_on_gpu(inputs.device):
        fed = inputs.bfloat16()
        masks = {name: of for name, of in module.named_buffers() if name.endswith("_mask")}  # if pruned
        if own := {**dict(module.named_parameters()), **given, **masks}:
            # in one piece for cuDNN: torch flattens the weights of other precisions alone
            flat = torch.cat([of.flatten() for of in own.values()]).bfloat16()
            pieces = torch._utils._unflatten_dense_tensors(flat, [*own.values()])
            given = dict(zip(own, pieces, strict=True))
    elif precision_used() == "bfloat16":
        rounding = torch.autocast("cpu", torch.bfloat16)
    with rounding:
        states = torch.func.functional_call(module, given, (fed,))[0] if given else module(fed)[0]
    return states.to(inputs.dtype)


def record_recurrence(inputs: Tensor, weights: Sequence[Tensor], cell: str, hidden_size: int) -> Tensor:
    """The same as a node of the graph that is being recorded."""
    if not torch.onnx.is_in_onnx_export():
        return _recurrence(inputs, list(weights), cell, hidden_size)
    check(cell in _ONNX_GATES, f"ONNX has no cell {cell!r}; export one of {', '.join(_ONNX_GATES)}")
    name, order = _ONNX_GATES[cell]

    def reordered(weight: Tensor) -> Tensor:
        gates = weight.chunk(len(order))
        return torch.cat([gates[place] for place in order]).unsqueeze(0)  # (1, gates · H, ·)

    into, across, *biases = (reordered(weight) for weight in weights)
    B, T, _ = inputs.shape
    attributes: dict[str, Any] = {"hidden_size": hidden_size}
    if cell == "gru":
        attributes["linear_before_reset"] = 1  # as torch computes it
    states = torch.onnx.ops.symbolic(
        name, (inputs.transpose(0, 1), into, across, torch.cat(biases, dim=1)), attrs=attributes,
        dtype=inputs.dtype, shape=(T, 1, B, hidden_size),
    )  # fmt: skip
    return states.squeeze(1).transpose(0, 1)  # (B, T, H)


@cache
def _empty(cell: str, input_size: int, hidden_size: int) -> nn.Module:
    with torch.device("meta"):
        return CELLS[cell](input_size, hidden_size, batch_first=True)


def _run(cell: str, hidden_size: int, inputs: Tensor, *weights: Tensor) -> Tensor:
    module = _empty(cell, inputs.shape[-1], hidden_size)
    return run_recurrence(module, inputs, dict(zip(module._parameters, weights, strict=True)))


@torch.library.custom_op("whenpool::recurrence", mutates_args=())
def _recurrence(inputs: Tensor, weights: list[Tensor], cell: str, hidden_size: int) -> Tensor:
    return _run(cell, hidden_size, inputs, *weights).contiguous()


@torch.library.custom_op("whenpool::recurrence_backward", mutates_args=())
def _backward(
    grad: Tensor, inputs: Tensor, weights: list[Tensor], cell: str, hidden_size: int
) -> list[Tensor]:
    """It runs the recurrence again; oneDNN's fused one cannot be differentiated here."""
    with warnings.catch_warnings(), torch.backends.mkldnn.flags(enabled=False):
        warnings.simplefilter("ignore")  # torch's, about an accelerator that nobody asked for
        pull = torch.func.vjp(partial(_run, cell, hidden_size), inputs, *weights)[1]
        return [part.contiguous() for part in pull(grad)]


@_recurrence.register_fake
def _(inputs: Tensor, weights: list[Tensor], cell: str, hidden_size: int) -> Tensor:
    return inputs.new_empty(*inputs.shape[:2], hidden_size)


@_backward.register_fake
def _(grad: Tensor, inputs: Tensor, weights: list[Tensor], cell: str, hidden_size: int) -> list[Tensor]:
    return [torch.empty_like(of, memory_format=torch.contiguous_format) for of in (inputs, *weights)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weights, *ctx.kind = inputs
    ctx.save_for_backward(x, *weights)


def _pull(ctx: Any, grad: Tensor) -> tuple[Tensor, list[Tensor], None, None]:
    x, *weights = ctx.saved_tensors
    of_inputs, *of_weights = _backward(grad.contiguous(), x, weights, *ctx.kind)
    return of_inputs, of_weights, None, None


_recurrence.register_autograd(_pull, setup_context=_keep)
