"""LSTM recurrences on a GPU, each as one kernel for all of its words, in Triton.

The loops of `whenpool.models.batched_lstm` ask the GPU for several kernels at every word, which take
longer to start than to compute. Here a program runs the whole time loop of one recurrence for a block of
its texts, and the programs of all recurrences run side by side. The recurrent weights, too many for the
registers, come tile by tile from the second-level cache at each word; sums, states and cells are float32.

Kept for the way back is what each gate squashes, without its bias: in bfloat16 that costs some thousandths
of the distance of a gate from 0 or 1, while a forget gate near 1 would itself be rounded to 1.

The module needs Triton (``pip install 'whenpool[triton]'``).

Letters: R recurrences, T words, B texts, E units of an input, H of a state, 4H gates in torch's order.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from whenpool.models.precision import precision_used

WARPS = 8
_kernel = triton.jit(do_not_specialize=["T", "B"], do_not_specialize_on_alignment=["words"])
"""Compiled once for all numbers of words and texts."""


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@_kernel
def _read(
    gates, states, cells, across, bias, words, T, B,
    H: tl.constexpr, TEXTS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
    STAGES: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """States and cells, (R, T, B, H), of one recurrence and block of texts; the gates, (R, T, B, 4H), hold
    what comes from the inputs, to which that of the states is added."""
    r = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * TEXTS + tl.arange(0, TEXTS)[:, None]  # (TEXTS, 1)
    across += r * 4 * H * H  # (4H, H)
    bias += r * 4 * H
    now = r * T * B * H  # where the row of a word starts in states and cells; in gates four times that
    for t in range(tl.load(words + r)):
        before = now - B * H
        reach = tl.where(t > 0, H, 0)  # there is no state before the first word
        for first in range(0, H, UNITS):
            unit = first + tl.arange(0, UNITS)[None, :]  # (1, UNITS)
            enter = tl.zeros((TEXTS, UNITS), tl.float32)
            forget = tl.zeros((TEXTS, UNITS), tl.float32)
            candidate = tl.zeros((TEXTS, UNITS), tl.float32)
            out = tl.zeros((TEXTS, UNITS), tl.float32)
            for start in tl.range(0, reach, DEPTH, num_stages=STAGES):
                k = start + tl.arange(0, DEPTH)
                row, column = k[None, :], k[:, None]
                state = tl.load(states + before + (b * H + row), (b < B) & (row < H), 0.0)
                state = state.to(across.dtype.element_ty)  # (TEXTS, DEPTH)
                weight, inside = across + (unit * H + column), (unit < H) & (column < H)
                enter = tl.dot(state, tl.load(weight, inside, 0.0), enter, DOT)
                forget = tl.dot(state, tl.load(weight + H * H, inside, 0.0), forget, DOT)
                candidate = tl.dot(state, tl.load(weight + 2 * H * H, inside, 0.0), candidate, DOT)
                out = tl.dot(state, tl.load(weight + 3 * H * H, inside, 0.0), out, DOT)
            here, place = (b < B) & (unit < H), b * H + unit
            gate, shift = gates + 4 * now + (b * 4 * H + unit), bias + unit
            enter += tl.load(gate, here, 0.0)
            forget += tl.load(gate + H, here, 0.0)
            candidate += tl.load(gate + 2 * H, here, 0.0)
            out += tl.load(gate + 3 * H, here, 0.0)
            tl.store(gate, enter, here)
            tl.store(gate + H, forget, here)
            tl.store(gate + 2 * H, candidate, here)
            tl.store(gate + 3 * H, out, here)
            enter = tl.sigmoid(enter + tl.load(shift, unit < H, 0.0))
            forget = tl.sigmoid(forget + tl.load(shift + H, unit < H, 0.0))
            candidate = _tanh(candidate + tl.load(shift + 2 * H, unit < H, 0.0))
            out = tl.sigmoid(out + tl.load(shift + 3 * H, unit < H, 0.0))
            cell = tl.load(cells + before + place, (b < B) & (unit < reach), 0.0)
            cell = enter * candidate + forget * cell
            tl.store(cells + now + place, cell, here)
            tl.store(states + now + place, out * _tanh(cell), here)
        now += B * H
        tl.debug_barrier()  # the next word reads what other threads wrote


@_kernel
def _read_back(
    gates, grad_states, grad_cell, cells, across, bias, words, T, B,
    H: tl.constexpr, TEXTS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
    STAGES: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """The gradient before the gates' nonlinearities, in place of what they squash, (R, T, B, 4H), of one
    recurrence and block of texts; zeros behind its last word. ``grad_cell``, (R, B, H), holds what comes back
    from the next word: zeros at first."""
    r = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * TEXTS + tl.arange(0, TEXTS)[:, None]
    across += r * 4 * H * H
    bias += r * 4 * H
    grad_cell += r * B * H
    count = tl.load(words + r)
    now = r * T * B * H + count * B * H
    for _ in range(count, T):
        for first in range(0, 4 * H, UNITS):
            column = first + tl.arange(0, UNITS)[None, :]
            nothing = tl.zeros((TEXTS, UNITS), tl.float32)
            tl.store(gates + 4 * now + (b * 4 * H + column), nothing, (b < B) & (column < 4 * H))
        now += B * H
    now = r * T * B * H + (count - 1) * B * H
    for back in range(count):
        later = now + B * H
        reach = tl.where(back > 0, 4 * H, 0)  # nothing comes back to the last word
        met = tl.where(back < count - 1, H, 0)  # the first one met no cell
        for first in range(0, H, UNITS):
            unit = first + tl.arange(0, UNITS)[None, :]
            grad = tl.zeros((TEXTS, UNITS), tl.float32)  # of the state
            for start in tl.range(0, reach, DEPTH, num_stages=STAGES):
                k = start + tl.arange(0, DEPTH)
                row, column = k[None, :], k[:, None]
                above = gates + 4 * later + (b * 4 * H + row)
                above = tl.load(above, (b < B) & (row < 4 * H), 0.0)  # (TEXTS, DEPTH)
                weight = tl.load(across + (column * H + unit), (unit < H) & (column < 4 * H), 0.0)
                grad = tl.dot(above.to(across.dtype.element_ty), weight, grad, DOT)
            here, place = (b < B) & (unit < H), b * H + unit
            grad += tl.load(grad_states + now + place, here, 0.0)
            gate, shift = gates + 4 * now + (b * 4 * H + unit), bias + unit
            enter = tl.sigmoid(tl.load(gate, here, 0.0) + tl.load(shift, unit < H, 0.0))
            forget = tl.sigmoid(tl.load(gate + H, here, 0.0) + tl.load(shift + H, unit < H, 0.0))
            candidate = tl.load(gate + 2 * H, here, 0.0) + tl.load(shift + 2 * H, unit < H, 0.0)
            candidate = _tanh(candidate)
            out = tl.sigmoid(tl.load(gate + 3 * H, here, 0.0) + tl.load(shift + 3 * H, unit < H, 0.0))
            cell = tl.load(cells + (now - B * H) + place, (b < B) & (unit < met), 0.0)
            squashed = _tanh(tl.load(cells + now + place, here, 0.0))
            to_cell = tl.load(grad_cell + place, here, 0.0) + grad * out * (1 - squashed * squashed)
            tl.store(grad_cell + place, to_cell * forget, here)
            tl.store(gate, to_cell * candidate * enter * (1 - enter), here)
            tl.store(gate + H, to_cell * cell * forget * (1 - forget), here)
            tl.store(gate + 2 * H, to_cell * enter * (1 - candidate * candidate), here)
            tl.store(gate + 3 * H, grad * squashed * out * (1 - out), here)
        now -= B * H
        tl.debug_barrier()


def forward(
    fed: Tensor, into: Tensor, across: Tensor, bias: Tensor, words: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As the loop of `whenpool.models.batched_lstm`, but the gates are those before they squash, without
    their biases, and in bfloat16 where that is in use."""
    (R, T, B, _), H = fed.shape, across.shape[-1]
    dtype = torch.bfloat16 if precision_used() == "bfloat16" else fed.dtype
    gates = torch.bmm(fed.flatten(1, 2).to(dtype), into.to(dtype).transpose(1, 2)).view(R, T, B, 4 * H)
    states, cells = (fed.new_zeros(R, T, B, H) for _ in range(2))
    _launch(_read, "forward", (gates, states, cells), across, bias, words)
    return gates, states, cells


def backward(
    grad_states: Tensor, gates: Tensor, cells: Tensor, across: Tensor, bias: Tensor, words: Tensor
) -> Tensor:
    """As the loop of `whenpool.models.batched_lstm`."""
    grad_cell = cells.new_zeros(len(across), *cells.shape[2:])
    _launch(_read_back, "backward", (gates, grad_states, grad_cell, cells), across, bias, words)
    return gates


def _launch(
    kernel: Any, way: str, values: tuple[Tensor, ...], across: Tensor, bias: Tensor, words: Tensor
) -> None:
    """One program for each recurrence and block of texts, on the device of the values."""
    R, T, B = values[0].shape[:3]
    programs = 132
    if across.is_cuda:
        programs = torch.cuda.get_device_properties(across.device).multi_processor_count
    settings = settings_of(way, R, B, across.shape[-1], precision_used(), programs)
    weights = across.bfloat16() if precision_used() == "bfloat16" else across
    with torch.cuda.device_of(across):  # Triton itself takes the current one
        kernel[(R, triton.cdiv(B, settings["TEXTS"]))](
            *values, weights, bias, words, T, B, **settings, num_warps=WARPS
        )


def settings_of(way: str, R: int, B: int, H: int, name: str, programs: int) -> dict[str, Any]:
    """What a kernel is compiled for; tiles have at least 16 rows and columns. Measured on an H200: a program
    for 16 texts takes about half of the time of one for 32; a GPU executes as many at once as it has
    processors."""
    short, long = (triton.cdiv(R * triton.cdiv(B, block), programs) for block in (16, 32))
    if 11 * short <= 20 * long:
        UNITS, DEPTH, STAGES = (256 if name == "bfloat16" else 128), 32, 3
        texts = 16
    else:
        UNITS, DEPTH, STAGES = 64, *((32, 3) if way == "forward" else (64, 4))
        texts = min(32, max(16, triton.next_power_of_2(B)))
    return {
        "H": H, "TEXTS": texts, "UNITS": min(UNITS, max(16, triton.next_power_of_2(H))),
        "DEPTH": DEPTH, "STAGES": STAGES, "DOT": name if name.startswith("tf32") else "ieee",
    }  # fmt: skip
