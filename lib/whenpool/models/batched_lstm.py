"""Many LSTM recurrences as one: the weights of several models in one batch of matrices.

A batch of 32 texts fills neither a GPU nor, where a model is small, the vector units of a processor.
Recurrences of one shape that belong to different models, and the two directions of one, can take each step
together: a product of R pairs of matrices instead of R products. Results differ in the order of sums alone.

Letters: M models, d directions, R = M·d recurrences, B texts of a batch, T words of the longest, E units
of an input, H of a state, D = d·H.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.base.paths import cache_directory
from whenpool.models.encoder import Reading
from whenpool.models.precision import precision, precision_used, product_precision

_STEPS = 16  # Words whose derivatives of gates are computed at once: all would take much more memory
KERNELS = "whenpool.models.triton_lstm"
LARGEST_ERROR = {"tf32x3": 1e-5, "tf32": 1e-3, "bfloat16": 1e-2}
"""‖Δ‖ / ‖reference‖ of states and of each gradient, in the precisions for which there are kernels; a run
in float32 takes the loop of torch, and is the same whether a kernel was tried out or not."""


def run_layer(
    x: Tensor, lengths: Tensor, into: Tensor, across: Tensor, bias: Tensor, loops: Any = None
) -> Tensor:
    """The states (M, B, T, D) that a layer makes of (M, B, T, E) and lengths (M, B), zeros after each text's
    end. Weights (R, 4H, E) and (R, 4H, H), biases (R, 4H): gates are input, forget, candidate, output.
    ``loops``: by default those of `loops_for`."""
    (M, B, T, E), d = x.shape, len(into) // len(x)
    plan = Reading.of(lengths.flatten(), T, d)
    fed = torch.stack(plan.fed(x.flatten(0, 1) * plan.mask)).view(d, M, B, T, E)
    # all texts of a step stand together: (R, T, B, E)
    fed = fed.permute(1, 0, 3, 2, 4).reshape(M * d, T, B, E)
    words = lengths.amax(1).repeat_interleave(d)  # (R,), steps of each recurrence
    states: Tensor = _Recurrences.apply(loops or loops_for(across), words, fed, into, across, bias)
    halves = states.view(M, d, T, B, -1).permute(1, 0, 3, 2, 4).flatten(1, 2)  # (d, M·B, T, H)
    return plan.joined(halves.unbind()).view(M, B, T, -1)


def place_bytes(E: int, D: int, layers: int, itemsize: int = 4) -> int:
    """The most bytes that a step of training takes for each word of a padded batch of one model, its states
    in float32 and its gates with ``itemsize`` bytes."""
    others = 4 * 7  # of a unit: cells, states in two orders, gradients, what poolings keep
    return layers * D * (4 * itemsize + others) + 4 * 6 * E


def models_that_fill(device: str) -> int:
    """How many bidirectional models keep a GPU busy: so many that each block of 16 of the 32 texts of a batch
    has one of its processors."""
    return max(1, int(torch.cuda.get_device_properties(device).multi_processor_count) // 4)


def loops_for(weights: Tensor) -> Any:
    """On a GPU with `kernels_on` it, and less exact than float32, the kernels; else torch's loops."""
    usable = weights.is_cuda and weights.dtype == torch.float32 and precision_used() != "float32"
    return import_module(KERNELS) if usable and kernels_on(weights.device) else TORCH


class _Recurrences(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loops: Any, words: Tensor, fed: Tensor, into: Tensor, across: Tensor, bias: Tensor
    ) -> Tensor:
        if precision_used() == "bfloat16" and across.dtype == torch.float32:
            across = across.bfloat16()  # once, and not at every word
        with product_precision():
            gates, states, cells = loops.forward(fed, into, across, bias, words)
        ctx.loops = loops
        ctx.save_for_backward(words, fed, gates, states, cells, into, across, bias)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        words, fed, gates, states, cells, into, across, bias = ctx.saved_tensors
        with product_precision():
            grad_states = grad_states.contiguous()
            grad_gates = ctx.loops.backward(grad_states, gates, cells, across, bias, words)
            grads, later = grad_gates.flatten(1, 2), grad_gates[:, 1:].flatten(1, 2)  # (R, T·B, 4H)
            grad_fed = torch.bmm(grads, into.to(grads.dtype)).view_as(fed)
            grad_into = torch.bmm(grads.transpose(1, 2), fed.flatten(1, 2).to(grads.dtype))
            before = states[:, :-1].flatten(1, 2).to(grads.dtype)  # what each word but the first met
            grad_across = torch.bmm(later.transpose(1, 2), before)
        found = grad_fed, grad_into, grad_across, grads.sum(1, dtype=bias.dtype)
        return None, None, *(grad.to(bias.dtype) for grad in found)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Products of pairs of matrices in the precision of ``right``; the result is as exact as ``left``."""
    return torch.bmm(left.to(right.dtype), right).to(left.dtype)


def _forward(
    fed: Tensor, into: Tensor, across: Tensor, bias: Tensor, words: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Values of the gates (R, T, B, 4H), states and cells (R, T, B, H) of inputs (R, T, B, E), which are
    zeros behind the last of the ``words`` (R,) of a recurrence; there they may be anything finite."""
    (R, T, B, _), H = fed.shape, across.shape[-1]
    gates = torch.baddbmm(bias.unsqueeze(1), fed.flatten(1, 2), into.transpose(1, 2)).view(R, T, B, -1)
    across = across.transpose(1, 2).contiguous()  # (R, H, 4H)
    states, cells = (gates.new_empty(R, T, B, H) for _ in range(2))
    for t in range(T):
        now = gates[:, t]
        if t:
            now += _product(states[:, t - 1], across)
        now[..., : 2 * H].sigmoid_()
        now[..., 2 * H : 3 * H].tanh_()
        now[..., 3 * H :].sigmoid_()
        enter, forget, candidate, out = now.split(H, dim=-1)
        cell = cells[:, t]
        torch.mul(enter, candidate, out=cell)
        if t:
            cell.addcmul_(forget, cells[:, t - 1])
        torch.mul(cell.tanh(), out, out=states[:, t])
    return gates, states, cells


def _backward(
    grad_states: Tensor, gates: Tensor, cells: Tensor, across: Tensor, bias: Tensor, words: Tensor
) -> Tensor:
    """The gradient before the gates' nonlinearities, which takes the place of their values."""
    R, T, B, H = cells.shape
    grad_cell = cells.new_zeros(R, B, H)  # what comes back from the next word
    for stop in range(T, 0, -_STEPS):
        start = max(stop - _STEPS, 0)
        enter, forget, candidate, out = gates[:, start:stop].clone().split(H, dim=-1)
        met = cells[:, start - 1 : stop - 1] if start else pad(cells[:, : stop - 1], (0, 0, 0, 0, 1, 0))
        squashed = cells[:, start:stop].tanh()
        through = out * (1 - squashed.square())  # what a state passes on to its cell
        # what a gate passes on of the gradient of the cell, or of the state; of a sigmoid s, s (1 - s)
        slopes = enter * (1 - enter) * candidate, forget * (1 - forget) * met, enter * (1 - candidate**2)
        of_cell, of_state = torch.stack(slopes, 3), out * (1 - out) * squashed
        for t in reversed(range(start, stop)):
            grad = grad_states[:, t]
            if t + 1 < T:
                grad = grad + _product(gates[:, t + 1], across)
            grad_cell.addcmul_(grad, through[:, t - start])
            now = gates[:, t].view(R, B, 4, H)
            torch.mul(grad_cell.unsqueeze(2), of_cell[:, t - start], out=now[..., :3, :])
            torch.mul(grad, of_state[:, t - start], out=now[..., 3, :])
            grad_cell *= forget[:, t - start]
    return gates


TORCH = SimpleNamespace(forward=_forward, backward=_backward)
"""The loops in torch; `whenpool.models.triton_lstm` has the same two as kernels."""

# A kernel that was never tried makes no number: one is used only on a GPU on which `try_out` found it right.


def largest_errors(
    device: str, H: int = 256, shapes: Sequence[tuple[int, int]] = ((32, 40), (5, 1), (33, 17))
) -> dict[str, float]:
    """For each precision the largest ‖Δ‖ / ‖reference‖ of the states and of the gradients that the kernels
    compute, beside torch's loops in float64 on the processor; ``shapes``: B and T of each recurrence."""
    R, B, T = len(shapes), *map(max, zip(*shapes, strict=True))
    lengths = torch.ones(R, B, dtype=torch.int64)
    for row, (texts, words) in zip(lengths, shapes, strict=True):
        row[:texts] = words
    random, sizes = torch.Generator().manual_seed(0), ((R, 4 * H, 24), (R, 4 * H, H), (R, 4 * H))
    drawn = [(2 * torch.rand(size, generator=random) - 1) * H**-0.5 for size in sizes]
    inputs = 2 * torch.rand(R, B, T, 24, generator=random) - 1

    def computed(loops: Any, **where: Any) -> list[Tensor]:
        leaves = [values.to(**where, copy=True).requires_grad_() for values in (inputs, *drawn)]
        x, into, across, bias = leaves
        states = run_layer(x, lengths.to(x.device), into, across, bias, loops)
        found = states, *torch.autograd.grad(states.square().sum(), leaves)
        return [of.detach().double().cpu() for values in found for of in values]  # of each recurrence

    exact, errors = computed(TORCH, dtype=torch.float64), {}
    for name in LARGEST_ERROR:
        with precision(name):
            values = computed(import_module(KERNELS), device=device)
        pairs = zip(values, exact, strict=True)
        apart = [(mine - right).norm() / right.norm().clamp(min=1e-30) for mine, right in pairs]
        errors[name] = torch.stack(apart).max().item()  # NaN if any is; some references are zeros
    return errors


def try_out(device: str) -> tuple[bool, str]:
    """Whether the kernels are right on a GPU, which the cache folder remembers, and what was found. Raises
    `ModuleNotFoundError` without Triton."""
    mark = _mark(device)
    try:
        errors = [largest_errors(device, H) for H in (256, 64)]
        text = ", ".join(f"{max(of[name] for of in errors):.0e} in {name}" for name in LARGEST_ERROR)
        message = f"they differ from float64 by {text}"
        if all(of[name] <= most for of in errors for name, most in LARGEST_ERROR.items()):
            write_atomically(mark, text)
            return True, message
    except torch.OutOfMemoryError:
        return False, "the GPU has too little memory to test them; the earlier result is kept"
    except Exception as error:  # of Triton's compiler, the driver, memory or disk
        message = f"they cannot be used ({str(error).partition(chr(10))[0] or type(error).__name__})"
    mark.unlink(missing_ok=True)
    return False, message


def kernels_on(device: torch.device | str) -> bool:
    """Whether Triton is here, and `try_out` found its kernels right on a GPU of this name, with these
    versions."""
    on_gpu = torch.device(device).type == "cuda"
    return on_gpu and find_spec("triton") is not None and _mark(device).is_file()


def _mark(device: torch.device | str) -> Path:
    import triton

    files = (Path(__file__).with_name(f"{name}.py") for name in ("triton_lstm", "batched_lstm"))
    versions = torch.__version__, triton.__version__, *map(code_fingerprint, files)
    return cache_directory() / "kernels" / hash_of(torch.cuda.get_device_name(device), *versions)
