"""LSTM recurrences on a GPU, each as one kernel for all of its words, in Triton.

The loops of `whenpool.models.batched_lstm` ask the GPU for several kernels at every word, which take
longer to start than to compute. Here a program runs the whole time loop of one recurrence for a block of
its texts, and the programs of all recurrences run side by side. The recurrent weights, too many for the
registers, come tile by tile from the second-level cache at each word; sums, states and cells are float32.

Kept for the way back is what each gate squashes, without its bias: in bfloat16 that costs some thousandths
of the distance of a gate from 0 or 1, while a forget gate near 1 would itself be rounded to 1.

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


@triton.jit
def _load(place, mask, apart, dtype: tl.constexpr):
    """A tile of each gate; they stand ``apart`` from each other."""
    enter = tl.load(place, mask, 0.0).to(dtype)
    forget = tl.load(place + apart, mask, 0.0).to(dtype)
    candidate = tl.load(place + 2 * apart, mask, 0.0).to(dtype)
    return enter, forget, candidate, tl.load(place + 3 * apart, mask, 0.0).to(dtype)


@triton.jit
def _store(place, mask, apart, values):
    for gate in tl.static_range(4):
        tl.store(place + gate * apart, values[gate], mask)


@triton.jit
def _squash(values, bias, mask, H):
    """The values of the gates, to which their biases are added."""
    enter, forget, candidate, out = _load(bias, mask, H, tl.float32)
    enter, forget = tl.sigmoid(values[0] + enter), tl.sigmoid(values[1] + forget)
    return enter, forget, _tanh(values[2] + candidate), tl.sigmoid(values[3] + out)


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
            here, place = (b < B) & (unit < H), b * H + unit
            gate = gates + 4 * now + (b * 4 * H + unit)
            enter, forget, candidate, out = _load(gate, here, H, tl.float32)
            for start in tl.range(0, reach, DEPTH, num_stages=STAGES):
                k = start + tl.arange(0, DEPTH)
                row, column = k[None, :], k[:, None]
                state = tl.load(states + before + (b * H + row), (b < B) & (row < H), 0.0)
                state = state.to(across.dtype.element_ty)  # (TEXTS, DEPTH)
                weight, inside = across + (unit * H + column), (unit < H) & (column < H)
                w_enter, w_forget, w_candidate, w_out = _load(weight, inside, H * H, state.dtype)
                enter = tl.dot(state, w_enter, enter, DOT)
                forget = tl.dot(state, w_forget, forget, DOT)
                candidate = tl.dot(state, w_candidate, candidate, DOT)
                out = tl.dot(state, w_out, out, DOT)
            values = enter, forget, candidate, out
            _store(gate, here, H, values)
            enter, forget, candidate, out = _squash(values, bias + unit, unit < H, H)
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
    recurrence and block of texts; behind its last word stand the zeros of the inputs. ``grad_cell``,
    (R, B, H), holds what comes back from the next word: zeros at first."""
    r = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * TEXTS + tl.arange(0, TEXTS)[:, None]
    across += r * 4 * H * H
    bias += r * 4 * H
    grad_cell += r * B * H
    count = tl.load(words + r)
    now = r * T * B * H + (count - 1) * B * H
    for back in range(count):
        later = now + B * H
        reach = tl.where(back > 0, 4 * H, 0)  # nothing comes back to the last word
        met = tl.where(back < count - 1, H, 0)  # the first one met no cell
        for first in range(0, H, UNITS):
            unit = first + tl.arange(0, UNITS)[None, :]
            here, place = (b < B) & (unit < H), b * H + unit
            grad = tl.load(grad_states + now + place, here, 0.0)
            for start in tl.range(0, reach, DEPTH, num_stages=STAGES):
                k = start + tl.arange(0, DEPTH)
                row, column = k[None, :], k[:, None]
                above = gates + 4 * later + (b * 4 * H + row)
                above = tl.load(above, (b < B) & (row < 4 * H), 0.0)  # (TEXTS, DEPTH)
                weight = tl.load(across + (column * H + unit), (unit < H) & (column < 4 * H), 0.0)
                grad = tl.dot(above.to(across.dtype.element_ty), weight, grad, DOT)
            gate = gates + 4 * now + (b * 4 * H + unit)
            values = _load(gate, here, H, tl.float32)
            enter, forget, candidate, out = _squash(values, bias + unit, unit < H, H)
            cell = tl.load(cells + (now - B * H) + place, (b < B) & (unit < met), 0.0)
            squashed = _tanh(tl.load(cells + now + place, here, 0.0))
            to_cell = tl.load(grad_cell + place, here, 0.0) + grad * out * (1 - squashed * squashed)
            tl.store(grad_cell + place, to_cell * forget, here)
            to_enter = to_cell * candidate * enter * (1 - enter)
            to_forget = to_cell * cell * forget * (1 - forget)
            to_candidate = to_cell * enter * (1 - candidate * candidate)
            values = to_enter, to_forget, to_candidate, grad * squashed * out * (1 - out)
            _store(gate, here, H, values)
        now -= B * H
        tl.debug_barrier()


def forward(
    fed: Tensor, into: Tensor, across: Tensor, bias: Tensor, words: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As the loop of `whenpool.models.batched_lstm`, but the gates are those before they squash, without
    their biases, and in the precision of ``across``."""
    (R, T, B, _), H, dtype = fed.shape, across.shape[-1], across.dtype
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
    with torch.cuda.device_of(across):  # Triton itself takes the current one
        kernel[(R, triton.cdiv(B, settings["TEXTS"]))](
            *values, across, bias, words, T, B, **settings, num_warps=WARPS
        )


def settings_of(way: str, R: int, B: int, H: int, name: str, programs: int) -> dict[str, Any]:
    """What a kernel is compiled for; tiles have at least 16 rows and columns. Measured on an H200: a program
    for 16 texts takes about half of the time of one for 32; a GPU executes as many at once as it has
    processors."""
    short, long = (triton.cdiv(R * triton.cdiv(B, block), programs) for block in (16, 32))
    texts, units, depth, stages = 16, 256 if name == "bfloat16" else 128, 32, 3
    if 11 * short > 20 * long:
        texts, units = min(32, max(16, triton.next_power_of_2(B))), 64
        depth, stages = (32, 3) if way == "forward" else (64, 4)
    return {
        "H": H, "TEXTS": texts, "UNITS": min(units, max(16, triton.next_power_of_2(H))),
        "DEPTH": depth, "STAGES": stages, "DOT": name if name.startswith("tf32") else "ieee",
    }  # fmt: skip
