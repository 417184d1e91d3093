"""LSTM recurrences on a GPU, each as one kernel for all of its words, in Triton.

The loops of `whenpool.models.batched_lstm` ask the GPU for several kernels at every word, which
take longer to start than to compute. Here a program runs the whole time loop of one recurrence for
a block of its texts, and the programs of all recurrences run side by side. The recurrent weights,
too many for the registers, come tile by tile from the second-level cache at each word; sums, states
and cells are float32.

Kept for the way back is what each gate squashes, without its bias: in bfloat16 that costs some
thousandths of the distance of a gate from 0 or 1, while a forget gate near 1 would itself be
rounded to 1.

Rows are those of (M, B, T, d): a row has the gates, the state and the cell of one place of one
direction.

Letters: M models, d directions, R = M·d recurrences, B texts, T places of a text, H units of a
state, 4H gates in torch's order.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from whenpool.base.errors import check

WARPS = 8
_kernel = triton.jit(do_not_specialize=["T", "B", "d"], do_not_specialize_on_alignment=["lengths"])
"""Compiled once for all numbers of places and texts."""


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _load(pointer, mask, apart, dtype: tl.constexpr):
    """A tile of each gate; they stand ``apart`` from each other."""
    enter = tl.load(pointer, mask, 0.0).to(dtype)
    forget = tl.load(pointer + apart, mask, 0.0).to(dtype)
    candidate = tl.load(pointer + 2 * apart, mask, 0.0).to(dtype)
    return enter, forget, candidate, tl.load(pointer + 3 * apart, mask, 0.0).to(dtype)


@triton.jit
def _store(pointer, mask, apart, values):
    for gate in tl.static_range(4):
        tl.store(pointer + gate * apart, values[gate], mask)


@triton.jit
def _squash(values, bias, mask, H):
    """The values of the gates, to which their biases are added."""
    enter, forget, candidate, out = _load(bias, mask, H, tl.float32)
    enter, forget = tl.sigmoid(values[0] + enter), tl.sigmoid(values[1] + forget)
    return enter, forget, _tanh(values[2] + candidate), tl.sigmoid(values[3] + out)


@triton.jit
def _texts(lengths, T, B, d, TEXTS: tl.constexpr):
    """Of a program its recurrence, its first text, and the row where that begins; of each text,
    (TEXTS, 1), its words, and the first row that is read, counted from there in 32 bits; and how
    far the next one is."""
    r, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * TEXTS
    model, way = r // d, tl.program_id(0) % d
    i = tl.arange(0, TEXTS)[:, None]
    words = tl.load(lengths + (model * B + first) + i, first + i < B, 0).to(tl.int32)
    row = (i * T + way * (words - 1)) * d + way
    return r, first, (model * B + first) * T * d, words, row, d - 2 * d * way


@_kernel
def _read(
    gates,
    states,
    cells,
    across,
    bias,
    lengths,
    T,
    B,
    d,
    H: tl.constexpr,
    TEXTS: tl.constexpr,
    UNITS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP: tl.constexpr,
):
    """States and cells of one recurrence and block of texts, rows of H units; the gates, rows of
    4H, hold what comes from the inputs, to which that of the states is added. Unless this is kept,
    gates stay as they are, and only the last cell of each text remains, (R, B, H)."""
    r, text, start, words, row, step = _texts(lengths, T, B, d, TEXTS)
    across += r * 4 * H * H  # (4H, H)
    bias += r * 4 * H
    gates += start * 4 * H
    states += start * H
    cells += start * H if KEEP else (r * B + text) * H
    last = tl.arange(0, TEXTS)[:, None]
    for t in range(tl.max(words)):
        now, before = row if KEEP else last, row - step if KEEP else last  # rows of cells
        for first in range(0, H, UNITS):
            unit = first + tl.arange(0, UNITS)[None, :]  # (1, UNITS)
            here = (t < words) & (unit < H)
            gate = gates + (4 * row * H + unit)
            enter, forget, candidate, out = _load(gate, here, H, tl.float32)
            for depth in tl.range(0, H, DEPTH, num_stages=STAGES):
                k = depth + tl.arange(0, DEPTH)
                of, column = k[None, :], k[:, None]
                # there is no state before the first word
                state = tl.load(
                    states + ((row - step) * H + of), (t > 0) & (t < words) & (of < H), 0.0
                )
                state = state.to(across.dtype.element_ty)  # (TEXTS, DEPTH)
                weight, inside = across + (unit * H + column), (unit < H) & (column < H)
                w_enter, w_forget, w_candidate, w_out = _load(weight, inside, H * H, state.dtype)
                enter = tl.dot(state, w_enter, enter)
                forget = tl.dot(state, w_forget, forget)
                candidate = tl.dot(state, w_candidate, candidate)
                out = tl.dot(state, w_out, out)
            values = enter, forget, candidate, out
            if KEEP:
                _store(gate, here, H, values)
            enter, forget, candidate, out = _squash(values, bias + unit, unit < H, H)
            cell = tl.load(cells + (before * H + unit), (t > 0) & here, 0.0)
            cell = enter * candidate + forget * cell
            tl.store(cells + (now * H + unit), cell, here)
            tl.store(states + (row * H + unit), out * _tanh(cell), here)
        row += step
        tl.debug_barrier()  # the next word reads what other threads wrote


@_kernel
def _read_back(
    gates,
    grad_states,
    grad_cell,
    cells,
    across,
    bias,
    lengths,
    T,
    B,
    d,
    H: tl.constexpr,
    TEXTS: tl.constexpr,
    UNITS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The gradient before the gates' nonlinearities, in place of what they squash, of one
    recurrence and block of texts; where no word stands are the zeros of the inputs. ``grad_cell``,
    (R, B, H), holds what comes back from the next word: zeros at first."""
    r, text, start, words, row, step = _texts(lengths, T, B, d, TEXTS)
    across += r * 4 * H * H
    bias += r * 4 * H
    gates += start * 4 * H
    grad_states += start * H
    cells += start * H
    grad_cell += (r * B + text) * H
    most = tl.max(words)
    row += (most - 1) * step
    for back in range(most):
        t = most - 1 - back
        met = tl.where(back < most - 1, H, 0)  # the first word met no cell
        for first in range(0, H, UNITS):
            unit = first + tl.arange(0, UNITS)[None, :]
            here, passed = (t < words) & (unit < H), tl.arange(0, TEXTS)[:, None] * H + unit
            grad = tl.load(grad_states + (row * H + unit), here, 0.0)
            for depth in tl.range(0, 4 * H, DEPTH, num_stages=STAGES):
                k = depth + tl.arange(0, DEPTH)
                of, column = k[None, :], k[:, None]
                # nothing comes back to the last word
                above = gates + (4 * (row + step) * H + of)
                above = tl.load(above, (t + 1 < words) & (of < 4 * H), 0.0)  # (TEXTS, DEPTH)
                weight = tl.load(across + (column * H + unit), (unit < H) & (column < 4 * H), 0.0)
                grad = tl.dot(above.to(across.dtype.element_ty), weight, grad)
            gate = gates + (4 * row * H + unit)
            values = _load(gate, here, H, tl.float32)
            enter, forget, candidate, out = _squash(values, bias + unit, unit < H, H)
            cell = tl.load(cells + ((row - step) * H + unit), (t < words) & (unit < met), 0.0)
            squashed = _tanh(tl.load(cells + (row * H + unit), here, 0.0))
            to_cell = tl.load(grad_cell + passed, here, 0.0) + grad * out * (
                1 - squashed * squashed
            )
            tl.store(grad_cell + passed, to_cell * forget, here)
            to_enter = to_cell * candidate * enter * (1 - enter)
            to_forget = to_cell * cell * forget * (1 - forget)
            to_candidate = to_cell * enter * (1 - candidate * candidate)
            values = to_enter, to_forget, to_candidate, grad * squashed * out * (1 - out)
            _store(gate, here, H, values)
        row -= step
        tl.debug_barrier()


def forward(
    gates: Tensor, across: Tensor, bias: Tensor, lengths: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    """As the loop of `whenpool.models.batched_lstm`, but gates keep their sums before they are
    squashed, without biases. Without ``keep`` gates do not change, and only the last cells
    remain."""
    (M, B, T, d, _), H = gates.shape, across.shape[-1]
    states, cells = bias.new_zeros(M, B, T, d * H), bias.new_empty(M, B, T if keep else 1, d, H)
    _launch(_read, "forward", (gates, states, cells), across, bias, lengths, KEEP=keep)
    return states, cells


def backward(
    grad_states: Tensor, gates: Tensor, cells: Tensor, across: Tensor, bias: Tensor, lengths: Tensor
) -> Tensor:
    """As the loop of `whenpool.models.batched_lstm`."""
    grad_cell = cells.new_zeros(len(across), gates.shape[1], across.shape[-1])
    _launch(_read_back, "backward", (gates, grad_states, grad_cell, cells), across, bias, lengths)
    return gates


def _launch(
    kernel: Any,
    way: str,
    values: tuple[Tensor, ...],
    across: Tensor,
    bias: Tensor,
    lengths: Tensor,
    **more: bool,
) -> None:
    """One program for each recurrence and block of texts, on the device of the values."""
    R, (_, B, T, d, _) = len(across), values[0].shape
    card = torch.cuda.get_device_properties(across.device) if across.is_cuda else None
    programs = card.multi_processor_count if card else 132
    settings = settings_of(way, R, B, across.shape[-1], programs)
    near = settings["TEXTS"] * T * d * 4 * across.shape[-1] < 2**31  # see `_texts`
    check(near, f"texts of {T - 1} words are too long for the kernels; use --precision float32")
    with torch.cuda.device_of(across):  # Triton itself takes the current one
        kernel[(R, triton.cdiv(B, settings["TEXTS"]))](
            *values, across, bias, lengths, T, B, d, **settings, **more, num_warps=WARPS
        )


def settings_of(way: str, R: int, B: int, H: int, programs: int) -> dict[str, Any]:
    """What a kernel is compiled for; tiles have at least 16 rows and columns. Measured on an H200:
    a program for 16 texts takes about half of the time of one for 32; a GPU executes as many at
    once as it has processors."""
    short, long = (triton.cdiv(R * triton.cdiv(B, block), programs) for block in (16, 32))
    texts, units, depth, stages = 16, 256, 32, 3
    if 11 * short > 20 * long:
        texts, units = min(32, max(16, triton.next_power_of_2(B))), 64
        depth, stages = (32, 3) if way == "forward" else (64, 4)
    return {
        "H": H,
        "TEXTS": texts,
        "UNITS": min(units, max(16, triton.next_power_of_2(H))),
        "DEPTH": depth,
        "STAGES": stages,
    }
