"""Many LSTM recurrences as one: every model's weights in one batch of matrices.

A batch of 32 texts fills neither a GPU nor, where a model is small, the vector units of a processor.
Recurrences of one shape that belong to different models, and the two directions of one, are
independent, so they can take each step together: a product of R pairs of matrices instead of R
products. Each result equals that of the recurrence run alone but for the order of sums.

Letters: R recurrences, T words of the longest text, B texts of the largest batch, E units of an
input, H of a state.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, pad

from whenpool.models.encoder import Encoder
from whenpool.models.precision import precision_used, product_precision

_STEPS = 64  # Words whose derivatives of gates are computed at once: all would take much more memory
Loops = tuple[Callable[..., tuple[Tensor, Tensor]], Callable[..., Tensor]]
"""The time loops, `_forward` and `_backward` of this module or the same as kernels."""


def encode_together(
    encoders: Sequence[Encoder], inputs: Sequence[Tensor], lengths: Sequence[Tensor]
) -> list[Tensor]:
    """What encoders of one shape, all LSTMs, make of a batch each, see `whenpool.Encoder.forward`."""
    states = list(inputs)
    pairs = zip(encoders, states, lengths, strict=True)
    plans = [encoder.reading(of, x.shape[1]) for encoder, x, of in pairs]
    for layers in zip(*(encoder.layers for encoder in encoders), strict=True):
        fed = [plan.fed(x) for plan, x in zip(plans, states, strict=True)]
        lstms = [module for layer in layers for module in layer]
        halves = iter(run_batched(lstms, [x for both in fed for x in both]))
        states = [
            plan.joined([next(halves) for _ in both]) for plan, both in zip(plans, fed, strict=True)
        ]
    return states


def run_batched(
    lstms: Sequence[nn.LSTM], inputs: Sequence[Tensor], loops: Loops | None = None
) -> list[Tensor]:
    """The states, R of (B_r, T_r, H), of one-directional LSTMs of one layer and shape, each of which
    reads a batch of its own, R of (B_r, T_r, E). ``loops``: default: those of `loops_for`."""
    order = sorted(range(len(inputs)), key=lambda r: -inputs[r].shape[1])  # longest first
    B = max(map(len, inputs))
    by_word = (pad(inputs[r].transpose(0, 1), (0, 0, 0, B - len(inputs[r]))) for r in order)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    into, across, b_in, b_state = (torch.stack([getattr(lstms[r], n) for r in order]) for n in names)
    loops = loops or loops_for(across)
    outputs = _Recurrences.apply(loops, into, across, b_in + b_state, *(x.contiguous() for x in by_word))
    states = dict(zip(order, outputs, strict=True))  # (T_r, B, H) each
    return [states[r][:, : len(x)].transpose(0, 1) for r, x in enumerate(inputs)]


def loops_for(weights: Tensor) -> Loops:
    """On a GPU with `kernels_on` it, and less exact than float32, the kernels; else torch's loops."""
    usable = weights.is_cuda and weights.dtype == torch.float32 and precision_used() != "float32"
    if usable and kernels_on(weights.device):
        from whenpool.models.triton_lstm import LOOPS

        return LOOPS
    return _forward, _backward


def kernels_on(device: torch.device | str) -> bool:
    """Whether Triton is here, and its kernels were found right on a GPU like this one."""
    if torch.device(device).type != "cuda" or find_spec("triton") is None:
        return False
    from whenpool.models.triton_lstm import passed

    return passed(device)


class _Recurrences(torch.autograd.Function):
    """The R recurrences, longest first, so that those that still have words are the first of them. What
    belongs to a word of a recurrence is a row of B texts; first words come first, then second ones, and so on
    (`_Rows`): nothing is kept for words that are not there. Gates: input, forget, candidate, output."""

    @staticmethod
    def forward(
        ctx: Any, loops: Loops, into: Tensor, across: Tensor, bias: Tensor, *x: Tensor
    ) -> tuple[Tensor, ...]:
        rows = _Rows([len(part) for part in x], across.device)
        with product_precision():
            gates = x[0].new_empty(rows.count, x[0].shape[1], across.shape[1])
            for r, part in enumerate(x):
                gates[rows.of(r)] = linear(part, into[r], bias[r])
            states, cells = loops[0](gates, across, rows)
        ctx.backward_loop, ctx.rows = loops[1], rows
        ctx.save_for_backward(gates, states, cells, across, into, *x)
        return tuple(states[rows.of(r)] for r in range(len(x)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gates, states, cells, across, into, *x = ctx.saved_tensors
        rows, grad_states = ctx.rows, torch.zeros_like(states)
        for r, grad in enumerate(grads):
            grad_states[rows.of(r)] = grad
        grad_into, grad_across, grad_inputs = torch.empty_like(into), torch.empty_like(across), []
        grad_bias = across.new_empty(across.shape[:2])  # (R, 4H)
        with product_precision():
            grad_gates = ctx.backward_loop(grad_states, gates, cells, across, rows)  # as the gates
            for r, part in enumerate(x):
                mine = rows.of(r)
                words = grad_gates[mine]  # (T_r, B, 4H), zeros behind the last text
                before = states[mine[:-1]].flatten(0, 1)  # what each word but the first met
                grad_inputs.append(words @ into[r])
                grad_into[r] = words.flatten(0, 1).t() @ part.flatten(0, 1)
                grad_across[r] = words[1:].flatten(0, 1).t() @ before
                grad_bias[r] = words.flatten(0, 1).sum(0)
        return None, grad_into, grad_across, grad_bias, *grad_inputs


class _Rows:
    """Where the row of each word of each recurrence stands; recurrences are numbered longest first: how many
    are ``active`` at each position, where its rows begin (``starts``, and their ``count`` behind), the row
    of the word ``before`` each; on the device ``places``, the starts (T,), and ``words`` of each, (R,)."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self._lengths = lengths
        self.active = [sum(length > t for length in lengths) for t in range(lengths[0])]
        self.starts = [0, *accumulate(self.active)]
        self.count = self.starts[-1]
        # Made on the processor and copied once from pinned memory, so that no GPU is waited for.
        places, sizes = torch.tensor(self.starts[:-1]), torch.tensor(self.active)
        position = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        earlier = places[(position - 1).clamp(min=0)]
        before = earlier + torch.arange(self.count) - places[position]
        parts = places, before, torch.tensor(lengths)
        packed = torch.cat(parts)
        if device.type == "cuda":
            packed = packed.pin_memory()
        packed = packed.to(device, non_blocking=True)
        self.places, self.before, self.words = packed.split([len(part) for part in parts])

    def of(self, recurrence: int) -> Tensor:
        """The rows of a recurrence, word by word."""
        return self.places[: self._lengths[recurrence]] + recurrence

    def at(self, values: Tensor, position: int, count: int | None = None) -> Tensor:
        """The rows of one position, or of its first recurrences."""
        start = self.starts[position]
        return values[start : start + (self.active[position] if count is None else count)]


def _rounded(weights: Tensor) -> Tensor:
    """Weights in the precision in use, rounded once and not at every word."""
    to_round = precision_used() == "bfloat16" and weights.dtype == torch.float32
    return weights.bfloat16() if to_round else weights


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Products of pairs of matrices in the precision of ``right``; the result is as exact as ``left``."""
    return torch.bmm(left.to(right.dtype), right).to(left.dtype)


def _forward(gates: Tensor, recurrent: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
    """The states and cells, a row of (B, H) for each row of gates, which their values replace."""
    H = recurrent.shape[-1]
    across = _rounded(recurrent.transpose(1, 2).contiguous())  # (R, H, 4H)
    states, cells = (gates.new_empty(*gates.shape[:2], H) for _ in range(2))
    for t, count in enumerate(rows.active):
        now = rows.at(gates, t)
        if t:
            now += _product(rows.at(states, t - 1, count), across[:count])
        now[..., : 2 * H].sigmoid_()
        now[..., 2 * H : 3 * H].tanh_()
        now[..., 3 * H :].sigmoid_()
        into, forget, candidate, out = now.split(H, dim=-1)
        cell = rows.at(cells, t)
        torch.mul(into, candidate, out=cell)
        if t:
            cell.addcmul_(forget, rows.at(cells, t - 1, count))
        torch.mul(cell.tanh(), out, out=rows.at(states, t))
    return states, cells


def _backward(
    grad_states: Tensor, gates: Tensor, cells: Tensor, recurrent: Tensor, rows: _Rows
) -> Tensor:
    """The gradient before the gates' nonlinearities."""
    R, H = recurrent.shape[0], recurrent.shape[-1]
    T, B = len(rows.active), gates.shape[1]
    grad_gates = torch.empty_like(gates)
    grad_cell = cells.new_zeros(R, B, H)  # what comes back from the next word
    recurrent = _rounded(recurrent)
    for stop in range(T, 0, -_STEPS):
        start = max(stop - _STEPS, 0)
        block = slice(rows.starts[start], rows.starts[stop])
        slopes, through = _slopes(gates, cells, rows, block)
        for t in reversed(range(start, stop)):
            count = rows.active[t]
            at = slice(rows.starts[t] - block.start, rows.starts[t + 1] - block.start)
            grad = rows.at(grad_states, t)
            if t + 1 < T:
                later = rows.active[t + 1]
                grad[:later] += _product(rows.at(grad_gates, t + 1), recurrent[:later])
            into_cell = grad_cell[:count]
            into_cell.addcmul_(grad, through[at])
            now = rows.at(grad_gates, t).view(count, B, 4, H)
            torch.mul(into_cell.unsqueeze(2), slopes[at][..., :3, :], out=now[..., :3, :])
            torch.mul(grad, slopes[at][..., 3, :], out=now[..., 3, :])
            into_cell *= rows.at(gates, t)[..., H : 2 * H]
    return grad_gates


def _slopes(gates: Tensor, cells: Tensor, rows: _Rows, block: slice) -> tuple[Tensor, Tensor]:
    """For a block of rows: what each gate passes on of the gradient of the cell, or of the state where
    it is the output gate, (rows, B, 4, H); and what a state passes on to its cell, (rows, B, H)."""
    H = cells.shape[-1]
    into, forget, candidate, out = gates[block].split(H, dim=-1)
    squashed, met = cells[block].tanh(), cells[rows.before[block]]
    if block.start == 0:  # no word stands before the first ones
        met[: rows.active[0]] = 0
    slopes = gates.new_empty(*into.shape[:2], 4, H)
    for place, gate, factor in ((0, into, candidate), (1, forget, met), (3, out, squashed)):
        slope = slopes[..., place, :]  # of a sigmoid, s (1 - s), times what it multiplies
        torch.mul(gate, gate, out=slope).neg_().add_(gate).mul_(factor)
    # of the candidate, a tanh: (1 - g²) i
    torch.mul(candidate, candidate, out=slopes[..., 2, :]).neg_().add_(1).mul_(into)
    return slopes, torch.addcmul(out, out, squashed * squashed, value=-1)
