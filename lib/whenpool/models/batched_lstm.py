"""Many LSTM recurrences as one: the weights of several models in one batch of matrices.

A batch of 32 texts fills neither a GPU nor, where a model is small, the vector units of a processor.
Recurrences of one shape that belong to different models, and the two directions of one, are
independent, so they can take each step together: a product of R pairs of matrices instead of R
products. Each result equals that of the recurrence run alone but for the order of sums.

Letters: M models, d directions, R = M·d recurrences, B texts of a batch, T words of the longest, E units
of an input, H of a state, D = d·H.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.base.paths import cache_directory
from whenpool.models.encoder import Reading
from whenpool.models.precision import precision, precision_used, product_precision

_STEPS = 64  # Words whose derivatives of gates are computed at once: all would take much more memory
LARGEST_ERROR = {"tf32x3": 1e-5, "tf32": 1e-3, "bfloat16": 1e-2}
"""‖Δ‖ / ‖reference‖ of states and of each gradient, in the precisions for which there are kernels; a run
in float32 takes the loop of torch, and is the same whether a kernel was tried out or not."""


class Loops(NamedTuple):
    """The time loops: `_forward` and `_backward`, or the same as kernels."""

    forward: Callable[..., tuple[Tensor, Tensor, Tensor]]
    backward: Callable[..., Tensor]


class Order(NamedTuple):
    """How R recurrences read a batch of M models. Rows of a batch are numbered (M, B, T), those of states
    (M, d, T, B): all texts of a step stand together. A recurrence from right to left reads each text
    reversed within its length, and pads where they stand."""

    directions: int
    rows: Tensor  # (M·d·T·B,), the row of the batch that each step reads
    back: Tensor  # (M·B·T·d,), the row of the states that belongs to each word and direction
    is_word: Tensor  # (M, B, T)
    words: Tensor  # (R,), steps of each recurrence

    @classmethod
    def of(cls, lengths: Tensor, longest: int, directions: int) -> "Order":
        """For (M, B) lengths on their device, T = ``longest``."""
        (M, B), T = lengths.shape, longest
        reading = Reading.of(lengths.flatten(), T, directions)
        forward = torch.arange(T, device=lengths.device).expand(M * B, T)
        each: list[Any] = [forward, reading.places][:directions]
        # twice reversed is as before: the word at a place is read at the step that the place gives
        steps = torch.stack(each, -1).view(M, B, T, directions)
        places = steps.permute(0, 3, 2, 1)  # (M, d, T, B), a word's place
        text = torch.arange(M * B, device=lengths.device)
        recurrence = torch.arange(M * directions, device=lengths.device).view(M, 1, 1, directions)
        return cls(
            directions,
            (text.view(M, 1, 1, B) * T + places).flatten(),
            ((recurrence * T + steps) * B + text[:B].view(1, B, 1, 1)).flatten(),
            reading.mask.view(M, B, T),
            lengths.amax(1).repeat_interleave(directions),
        )


def run_layer(
    x: Tensor, order: Order, into: Tensor, across: Tensor, bias: Tensor, loops: Loops | None = None
) -> Tensor:
    """The states (M, B, T, D) that a layer makes of (M, B, T, E), zeros after each text's end. Weights
    (R, 4H, E) and (R, 4H, H), biases (R, 4H): gates are input, forget, candidate, output. ``loops``: default:
    those of `loops_for`."""
    states: Tensor = _Layer.apply(loops or loops_for(across), order, into, across, bias, x)
    return states


def place_bytes(E: int, D: int, layers: int, itemsize: int) -> int:
    """The most bytes that a step of training takes for each word of a padded batch of one model, its states
    in float32 and its gates with ``itemsize`` bytes."""
    others = 4 * 7  # of a unit: cells, states in two orders, gradients, what poolings keep
    return layers * D * (4 * itemsize + others) + 4 * 6 * E


def gate_bytes(weights: Tensor) -> int:
    """How many bytes a gate takes."""
    short = loops_for(weights) is not TORCH and precision_used() == "bfloat16"
    return 2 if short else weights.element_size()


def models_that_fill(device: str) -> int:
    """How many bidirectional models keep a GPU busy: so many that each block of 16 of the 32 texts of a batch
    has one of its processors."""
    processors: int = torch.cuda.get_device_properties(device).multi_processor_count
    return max(1, processors // 4)


def loops_for(weights: Tensor) -> Loops:
    """On a GPU with `kernels_on` it, and less exact than float32, the kernels; else torch's loops."""
    usable = weights.is_cuda and weights.dtype == torch.float32 and precision_used() != "float32"
    return _kernels() if usable and kernels_on(weights.device) else TORCH


def _kernels() -> Loops:
    from whenpool.models.triton_lstm import backward, forward

    return Loops(forward, backward)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loops: Loops, order: Order, into: Tensor, across: Tensor, bias: Tensor, x: Tensor
    ) -> Tensor:
        (M, B, T, E), R = x.shape, len(into)
        fed = x.flatten(0, 2).index_select(0, order.rows).view(R, T, B, E)
        with product_precision():
            gates, states, cells = loops.forward(fed, into, across, bias, order.words)
        ctx.loops, ctx.order, ctx.words = loops, order, (M, B, T)
        ctx.save_for_backward(fed, gates, states, cells, into, across, bias)
        found = states.flatten(0, 2).index_select(0, order.back).view(M, B, T, -1)
        return found.masked_fill_(~order.is_word.unsqueeze(-1), 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        fed, gates, states, cells, into, across, bias = ctx.saved_tensors
        order, (M, B, T), (R, H) = ctx.order, ctx.words, (len(across), across.shape[-1])
        d = order.directions
        # row by row as in `forward`, which is undone: a word and direction -> a state
        direction = torch.arange(d, device=grad.device).view(1, d, 1)
        source = (order.rows.view(M, d, T * B) * d + direction).flatten()
        grad_states = grad.reshape(-1, H).index_select(0, source).view(M, d, T, B, H)
        grad_states.masked_fill_(~order.is_word.transpose(1, 2).view(M, 1, T, B, 1), 0)
        with product_precision():
            grad_states = grad_states.view(R, T, B, H)
            grad_gates = ctx.loops.backward(grad_states, gates, cells, across, bias, order.words)
            del grad_states
            words, later = grad_gates.flatten(1, 2), grad_gates[:, 1:].flatten(1, 2)  # (R, T·B, 4H)
            grad_fed = torch.bmm(words, into.to(words.dtype)).flatten(0, 1)
            grad_into = torch.bmm(words.transpose(1, 2), fed.flatten(1, 2).to(words.dtype))
            before = states[:, :-1].flatten(1, 2).to(words.dtype)  # what each word but the first met
            grad_across = torch.bmm(later.transpose(1, 2), before)
        grad_x = grad_fed.index_select(0, order.back).view(M, B, T, d, -1).sum(3)
        grads = grad_into, grad_across, words.sum(1, dtype=bias.dtype)
        return None, None, *(g.to(bias.dtype) for g in (*grads, grad_x))


def _rounded(weights: Tensor) -> Tensor:
    """Weights in the precision in use, rounded once and not at every word."""
    to_round = precision_used() == "bfloat16" and weights.dtype == torch.float32
    return weights.bfloat16() if to_round else weights


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Products of pairs of matrices in the precision of ``right``; the result is as exact as ``left``."""
    return torch.bmm(left.to(right.dtype), right).to(left.dtype)


def _forward(
    fed: Tensor, into: Tensor, across: Tensor, bias: Tensor, words: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Values of the gates (R, T, B, 4H), states and cells (R, T, B, H) of inputs (R, T, B, E); behind the
    last word of a recurrence stands anything finite."""
    (R, T, B, _), H = fed.shape, across.shape[-1]
    gates = torch.baddbmm(bias.unsqueeze(1), fed.flatten(1, 2), into.transpose(1, 2)).view(R, T, B, -1)
    across = _rounded(across.transpose(1, 2).contiguous())  # (R, H, 4H)
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
    (R, T, B, H), across = cells.shape, _rounded(across)
    grad_cell = cells.new_zeros(R, B, H)  # what comes back from the next word
    for stop in range(T, 0, -_STEPS):
        start = max(stop - _STEPS, 0)
        slopes, through = _slopes(gates, cells, start, stop)
        for t in reversed(range(start, stop)):
            grad = grad_states[:, t]
            if t + 1 < T:
                grad += _product(gates[:, t + 1], across)
            grad_cell.addcmul_(grad, through[:, t - start])
            forget = gates[:, t, :, H : 2 * H].clone()
            now = gates[:, t].view(R, B, 4, H)
            slope = slopes[:, t - start]
            torch.mul(grad_cell.unsqueeze(2), slope[..., :3, :], out=now[..., :3, :])
            torch.mul(grad, slope[..., 3, :], out=now[..., 3, :])
            grad_cell *= forget
    return gates


def _slopes(gates: Tensor, cells: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """For a block of words: what each gate passes on of the gradient of the cell, or of the state where
    it is the output gate, (R, words, B, 4, H); and what a state passes on to its cell, (R, words, B, H)."""
    H = cells.shape[-1]
    enter, forget, candidate, out = gates[:, start:stop].split(H, dim=-1)
    squashed, met = cells[:, start:stop].tanh(), cells[:, max(start - 1, 0) : stop - 1]
    if start == 0:  # no word stands before the first ones
        met = pad(met, (0, 0, 0, 0, 1, 0))
    slopes = gates.new_empty(*enter.shape[:3], 4, H)
    for place, gate, factor in ((0, enter, candidate), (1, forget, met), (3, out, squashed)):
        slope = slopes[..., place, :]  # of a sigmoid, s (1 - s), times what it multiplies
        torch.mul(gate, gate, out=slope).neg_().add_(gate).mul_(factor)
    # of the candidate, a tanh: (1 - g²) i
    torch.mul(candidate, candidate, out=slopes[..., 2, :]).neg_().add_(1).mul_(enter)
    return slopes, torch.addcmul(out, out, squashed * squashed, value=-1)


TORCH = Loops(_forward, _backward)

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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = (R, B, T, 24), (R, 4 * H, 24), (R, 4 * H, H), (R, 4 * H)
        drawn = [torch.empty(size).uniform_(-(H**-0.5), H**-0.5) for size in sizes]
    drawn[0] = drawn[0] * H**0.5  # inputs are larger than weights

    def computed(loops: Loops, **where: Any) -> list[Tensor]:
        leaves = [values.to(**where, copy=True).requires_grad_() for values in drawn]
        x, into, across, bias = leaves
        states = run_layer(x, Order.of(lengths.to(x.device), T, 1), into, across, bias, loops)
        found = states, *torch.autograd.grad(states.square().sum(), leaves)
        return [
            part.detach().double().cpu() for values in found for part in values
        ]  # of each recurrence

    exact, errors = computed(TORCH, dtype=torch.float64), {}
    for name in LARGEST_ERROR:
        with precision(name):
            values = computed(_kernels(), device=device)
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
    if torch.device(device).type != "cuda" or find_spec("triton") is None:
        return False
    return _mark(device).is_file()


def _mark(device: torch.device | str) -> Path:
    import triton

    files = (Path(__file__).with_name(f"{name}.py") for name in ("triton_lstm", "batched_lstm"))
    versions = torch.__version__, triton.__version__, *map(code_fingerprint, files)
    return cache_directory() / "kernels" / hash_of(torch.cuda.get_device_name(device), *versions)
