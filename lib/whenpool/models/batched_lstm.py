"""Many LSTM recurrences as one: the weights of several models in one batch of matrices.

A batch of 32 texts fills neither a GPU nor, where a model is small, the vector units of a
processor. Recurrences of one shape that belong to different models, and the two directions of one,
can take each step together: a product of R pairs of matrices instead of R products. Results differ
in the order of sums alone.

Each text is read where it stands, from right to left too, so that a batch is not copied into the
order of reading. Behind each text at least one place is without a word.

Letters: M models, d directions, R = M·d recurrences, B texts of a batch, T places of a text, E
units of an input, H of a state, D = d·H.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from whenpool.models.precision import precision, precision_used

# Words whose derivatives of gates are computed at once: all would take much more memory
_STEPS = 16
LARGEST_ERROR = 1e-2
"""‖Δ‖ / ‖reference‖ of states and of each gradient, up to which the kernels are right."""


def run_layer(
    x: Tensor,
    lengths: Tensor,
    into: Tensor,
    across: Tensor,
    bias: Tensor,
    loops: Any = None,
    backward: str | None = None,
) -> Tensor:
    """The states (M, B, T, D) that a layer makes of (M, B, T, E) and lengths (M, B) below T. After
    a text's end inputs must be zeros, states are, and their gradient must be, as poolings leave it.
    Weights (R, 4H, E) and (R, 4H, H), biases (R, 4H): gates are input, forget, candidate, output.
    ``loops``: `TORCH`, or `kernels`, by default those of `loops_for`; with ``backward``, see
    `whenpool.Encoder`, torch's."""
    if more := -x.shape[-1] % 8:  # tensor cores want rows of a multiple of 16 bytes
        x, into = pad(x, (0, more)), pad(into, (0, more))
    if backward:
        loops = TorchLoops(backward)
    keep = torch.is_grad_enabled()  # what the way back needs
    weights = into, across, bias
    states: Tensor = _Recurrences.apply(loops or loops_for(across), keep, lengths, x, *weights)
    return states


def place_bytes(E: int, D: int, layers: int, itemsize: int = 4) -> int:
    """The most bytes that a step of training takes for each place of a padded batch of one model,
    its states in float32 and its gates with ``itemsize`` bytes."""
    rest = 4 * 6  # of a unit: cells, states, gradients, what poolings keep
    return layers * D * (4 * itemsize + rest) + 4 * 3 * E


def models_that_fill(device: str) -> int:
    """How many bidirectional models keep a GPU busy: so many that each block of 16 of the 32 texts
    of a batch has one of its processors."""
    return max(1, int(torch.cuda.get_device_properties(device).multi_processor_count) // 4)


def loops_for(weights: Tensor) -> Any:
    """Triton's kernels on a GPU in bfloat16 if there are `kernels_on` it, else torch's loops."""
    usable = weights.is_cuda and weights.dtype == torch.float32 and precision_used() == "bfloat16"
    return kernels() if usable and kernels_on(weights.device) else TORCH


def kernels() -> Any:
    """The module with the loops as kernels; raises `ModuleNotFoundError` without Triton."""
    return import_module("whenpool.models.triton_lstm")


@cache
def kernels_on(device: torch.device | str) -> bool:
    """Whether models that are trained together on a device in bfloat16 compute by Triton's kernels:
    on a GPU, where Triton is installed, and each process has tried once that they are right."""
    if torch.device(device).type != "cuda" or find_spec("triton") is None:
        return False
    try:
        return kernel_error(device) <= LARGEST_ERROR
    except Exception:  # of Triton's compiler, the driver or memory: torch's loops need none of them
        return False


def kernel_error(
    device: torch.device | str,
    H: int = 256,
    shapes: Sequence[tuple[int, int]] = ((32, 40), (5, 1), (33, 17)),
) -> float:
    """The largest ‖Δ‖ / ‖reference‖ of the states and of the gradients that the kernels compute,
    beside torch's loops in float64 on the processor, of models that read in one direction and in
    both; ``shapes``: of each model B and the words of the longest text."""
    M, B, longest = len(shapes), *map(max, zip(*shapes, strict=True))
    lengths = torch.ones(M, B, dtype=torch.int64)
    for row, (texts, words) in zip(lengths, shapes, strict=True):
        row[:texts] = words - torch.arange(texts) % words
    random = torch.Generator().manual_seed(0)
    sizes = (2 * M, 4 * H, 20), (2 * M, 4 * H, H), (2 * M, 4 * H)
    weights = [(2 * torch.rand(size, generator=random) - 1) * H**-0.5 for size in sizes]
    is_word = torch.arange(longest + 1) < lengths.unsqueeze(-1)
    inputs = 2 * torch.rand(M, B, longest + 1, 20, generator=random) - 1
    inputs *= is_word.unsqueeze(-1)

    def computed(loops: Any, **where: Any) -> list[Tensor]:
        values: list[Tensor] = []
        for R in (M, 2 * M):  # recurrences in one direction, and in both
            leaves = [inputs, *(of[:R] for of in weights)]
            leaves = [of.to(**where, copy=True).requires_grad_() for of in leaves]
            arguments = leaves[0], lengths.to(leaves[0].device), *leaves[1:], loops
            with torch.inference_mode():  # nothing is kept
                values.append(run_layer(*arguments))
            values.append(run_layer(*arguments))
            values += torch.autograd.grad(values[-1].square().sum(), leaves)
        return [part.detach().double().cpu() for of in values for part in of]  # a model's

    exact = computed(TORCH, dtype=torch.float64)
    with precision("bfloat16"):
        pairs = zip(computed(kernels(), device=device), exact, strict=True)
    # NaN if any is; some references are zeros
    errors = [(mine - right).norm() / right.norm().clamp(min=1e-30) for mine, right in pairs]
    return torch.stack(errors).max().item()


class _Recurrences(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loops: Any, keep: bool, lengths: Tensor, *inputs: Tensor) -> Tensor:
        fed, into, across, bias = inputs
        (M, B, T, E), dtype = fed.shape, fed.dtype
        if precision_used() == "bfloat16" and across.dtype == torch.float32:
            across = across.bfloat16()  # once, and not at every word
            dtype = dtype if isinstance(loops, TorchLoops) else across.dtype
        fed, into = fed.to(dtype), into.view(M, -1, E).to(dtype)  # (M, B, T, E), (M, d·4H, E)
        gates = torch.bmm(fed.flatten(1, 2), into.transpose(1, 2))
        gates = gates.view(M, B, T, -1, bias.shape[1])
        states, cells = loops.forward(gates, across, bias, lengths, keep)
        ctx.loops = loops
        ctx.save_for_backward(lengths, fed, gates, states, cells, into, across, bias)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        lengths, fed, gates, states, cells, into, across, bias = ctx.saved_tensors
        grad_states = grad_states.contiguous()
        gates = ctx.loops.backward(grad_states, gates, cells, across, bias, lengths)
        torch.autograd.graph.increment_version(gates)  # which are gone
        each = gates.flatten(1, 2)  # (M, B·T, d, 4H)
        grads, met = each.flatten(2), states.to(gates.dtype).view(*each.shape[:3], -1)
        grad_fed = torch.bmm(grads, into).view_as(fed)
        grad_into = torch.bmm(grads.transpose(1, 2), fed.flatten(1, 2))
        # each word met the state of the place before it, or behind it in the other direction;
        # where no word stands, gradients or states are zeros
        pairs = (each[:, 1:, 0], met[:, :-1, 0]), (each[:, :-1, -1], met[:, 1:, -1])
        ways = [torch.bmm(g.transpose(1, 2), h) for g, h in pairs[: each.shape[2]]]
        exact = bias.dtype
        return (
            None,
            None,
            None,
            grad_fed.to(exact),
            grad_into.to(exact).view(*bias.shape, -1),
            torch.stack(ways, 1).to(exact).view_as(across),
            grads.sum(1, dtype=exact).view_as(bias),
        )


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Products of pairs of matrices in the precision of ``right``; the result is as exact as
    ``left``."""
    return torch.bmm(left.to(right.dtype), right).to(left.dtype)


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """Some rows of (·, N), (..., N)."""
    return values.index_select(0, rows.flatten()).view(*rows.shape, values.shape[-1])


def _rows(lengths: Tensor, T: int, d: int) -> Tensor:
    """What each recurrence reads at each of T - 1 steps, (T - 1, R, B), as rows of (M, B, T, d);
    after the end of a text its last place, which has no word."""
    M, B = lengths.shape
    step, words = torch.arange(T - 1, device=lengths.device), lengths.unsqueeze(-1)
    places = torch.stack([step.expand(M, B, -1), words - 1 - step][:d], -1)  # (M, B, T - 1, d)
    places = places.masked_fill((step >= words).unsqueeze(-1), T - 1)
    text = torch.arange(M * B, device=lengths.device).view(M, B, 1, 1)
    rows = (text * T + places) * d + torch.arange(d, device=lengths.device)
    return rows.permute(2, 0, 3, 1).flatten(1, 2)


class TorchLoops(NamedTuple):
    """The loops in torch; `whenpool.models.triton_lstm` has the same two as kernels."""

    way: str | None = None  # back: "open" or "even"; None: the gradient's

    def forward(
        self, gates: Tensor, across: Tensor, bias: Tensor, lengths: Tensor, keep: bool
    ) -> tuple[Tensor, Tensor]:
        """States (M, B, T, D) and cells (M·B·T·d, H). In the place of what comes from the inputs,
        gates (M, B, T, d, 4H), stand the values of the gates. Only states are written unless the
        rest is to be kept."""
        (M, B, T, d, _), (R, _, H) = gates.shape, across.shape
        states = gates.new_zeros(M * B * T * d, H)
        cells = gates.new_empty(len(states) if keep else 0, H)
        flat, bias = gates.view(-1, 4 * H), bias.unsqueeze(1)
        across = across.transpose(1, 2).contiguous()
        state = cell = gates.new_zeros(R, B, H)
        for rows in _rows(lengths, T, d):
            now = _take(flat, rows).add_(bias).add_(_product(state, across))
            now[..., : 2 * H].sigmoid_()
            now[..., 2 * H : 3 * H].tanh_()
            now[..., 3 * H :].sigmoid_()
            enter, forget, candidate, out = now.split(H, dim=-1)
            cell = (forget * cell).addcmul_(enter, candidate)
            state = out * cell.tanh()
            written = [(states, state), (flat, now), (cells, cell)] if keep else [(states, state)]
            for table, values in written:
                table.index_copy_(0, rows.flatten(), values.flatten(0, 1))
        states = states.view(M, B, T, -1)
        states[:, :, -1] = 0  # the place where steps after the end have written
        return states, cells

    def backward(
        self,
        grad_states: Tensor,
        gates: Tensor,
        cells: Tensor,
        across: Tensor,
        bias: Tensor,
        lengths: Tensor,
    ) -> Tensor:
        """The gradient before the gates' nonlinearities, which takes the place of their values; or
        what takes its place in another ``way``."""
        (M, B, T, d, _), (R, _, H) = gates.shape, across.shape
        rows, flat = _rows(lengths, T, d), gates.view(-1, 4 * H)
        even = _Even(grad_states.view(M, B, T, d, H), lengths) if self.way == "even" else None
        grad_states = grad_states.view(-1, H)
        # what comes back from the next word
        from_later, grad_cell = cells.new_zeros(R, B, H), cells.new_zeros(R, B, H)
        for stop in range(len(rows), 0, -_STEPS):
            start = max(stop - _STEPS, 0)
            some = rows[start:stop]
            enter, forget, candidate, out = _take(flat, some).split(H, dim=-1)  # (steps, R, B, H)
            met = _take(cells, rows[max(start - 1, 0) : stop - 1])
            met = met if start else pad(met, (0, 0, 0, 0, 0, 0, 1, 0))
            squashed, above = _take(cells, some).tanh(), _take(grad_states, some)
            through = out * (1 - squashed.square())  # what a state passes on to its cell
            # what a gate passes on of the gradient of the cell, or of the state; of a sigmoid s,
            # s (1 - s)
            slopes = (
                enter * (1 - enter) * candidate,
                forget * (1 - forget) * met,
                enter * (1 - candidate**2),
            )
            of_cell, of_state = torch.stack(slopes, 3), out * (1 - out) * squashed
            grads = of_cell.new_empty(*some.shape, 4, H)
            if even:
                even.enter(above, from_later, grad_cell)
            for t in reversed(range(stop - start)):
                grad = above[t].add_(from_later)
                grad_cell.addcmul_(grad, through[t])
                torch.mul(grad_cell.unsqueeze(2), of_cell[t], out=grads[t, ..., :3, :])
                torch.mul(grad, of_state[t], out=grads[t, ..., 3, :])
                from_later = _product(grads[t].flatten(-2), across)
                if self.way != "open":
                    grad_cell *= forget[t]
            if even:
                even.leave(above, from_later, grad_cell, grads)
            flat.index_copy_(0, some.flatten(), grads.view(-1, 4 * H))
        return gates


TORCH = TorchLoops()


class _Even:
    """What makes a gradient even: all words have an equal share of the gradient ``above``, which
    states (M, B, T, d, H) have from above. What comes back from the next word is kept near 1 and
    its size as a logarithm, since it would soon be too small for float32."""

    def __init__(self, above: Tensor, lengths: Tensor) -> None:
        norms = torch.linalg.vector_norm(above, dim=-1, dtype=torch.float64).sum(2)  # (M, B, d)
        share = norms / lengths.unsqueeze(-1)
        self._share = share.transpose(1, 2).reshape(-1, len(lengths[0]), 1)  # (R, B, 1)
        self._least = torch.finfo(above.dtype).tiny
        self._size = self._share.clamp(min=self._least).log()  # of what comes back, (R, B, 1)

    def enter(self, above: Tensor, *later: Tensor) -> None:
        """Before some steps: bring ``above`` (steps, R, B, H) and what comes back to one size, in
        place."""
        most = above.abs().amax((0, -1)).unsqueeze(-1)
        log = most.double().log()
        size = torch.maximum(self._size, log)
        above.div_(most.clamp(min=self._least)).mul_((log - size).exp())
        for values in later:
            values.mul_((self._size - size).exp())
        self._size = size

    def leave(self, totals: Tensor, from_later: Tensor, grad_cell: Tensor, grads: Tensor) -> None:
        """After them: the total gradients of states, (steps, R, B, H), say what those before the
        gates, (steps, R, B, 4, H), are divided by."""
        norms = torch.linalg.vector_norm(totals, dim=-1, keepdim=True, dtype=torch.float64)
        factors = (self._share / norms).masked_fill(norms < self._least, 0).to(grads.dtype)
        grads.mul_(factors.unsqueeze(-1))
        most = torch.maximum(from_later.abs(), grad_cell.abs()).amax(-1, keepdim=True)
        most.masked_fill_(most == 0, 1)
        for values in (from_later, grad_cell):
            values.div_(most)
        self._size += most.double().log()
