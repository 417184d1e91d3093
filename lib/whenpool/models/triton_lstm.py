"""LSTM recurrences on a GPU, each as one kernel for all of its words, in Triton.

The loops of `whenpool.models.batched_lstm` ask the GPU for several kernels at every word, which take
longer to start than to compute. Here a program runs the whole time loop of one recurrence for a block of
its texts, and the programs of all recurrences run side by side. The recurrent weights, too many for the
registers, come tile by tile from the second-level cache at each word; gates, cells and sums are float32.

A kernel that was never tried makes no number: one is used only on a GPU on which `try_out` found it right
with the versions that are here, see `passed`. The module needs Triton (``pip install 'whenpool[triton]'``).

Letters: R recurrences, T words, B texts, H units of a state, 4H gates in torch's order.
"""

import copy
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.base.paths import cache_directory
from whenpool.models.batched_lstm import Loops, run_batched
from whenpool.models.precision import precision, precision_used

WARPS = 8
FORWARD = {"UNITS": 64, "DEPTH": 32, "STAGES": 3}
BACKWARD = {"UNITS": 64, "DEPTH": 64, "STAGES": 4}
"""Of a tile of weights, and of the pipeline that brings tiles: 72 KB of shared memory where weights are
float32, and no register spilled to memory, as compiled for an A100 and an H100."""
LARGEST_ERROR = {"tf32x3": 1e-5, "tf32": 1e-3, "bfloat16": 1e-2}
"""‖Δ‖ / ‖reference‖ of states and of each gradient, in the precisions for which there are kernels; a run
in float32 takes the loop of torch, and is the same whether a kernel was tried out or not."""

_kernel = triton.jit(do_not_specialize=["B"], do_not_specialize_on_alignment=["places", "words"])
"""Compiled once for all numbers of texts, and wherever the rows' numbers lie."""


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@_kernel
def _read(
    gates, states, cells, across, places, words, B,
    H: tl.constexpr, TEXTS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
    STAGES: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """States and cells, (rows, B, H), of one recurrence and block of texts; the gates, (rows, B, 4H), hold
    what comes from the inputs, and are replaced by their values."""
    r = tl.program_id(0)
    b = tl.program_id(1) * TEXTS + tl.arange(0, TEXTS)[:, None]  # (TEXTS, 1)
    across += r.to(tl.int64) * 4 * H * H  # (4H, H)
    before = tl.zeros((), tl.int64)  # where the row of the word before starts in states and cells
    for t in range(tl.load(words + r)):
        now = (tl.load(places + t) + r) * B * H  # four times that in the gates
        reach = tl.where(t > 0, H, 0)  # there is no state before the first word
        for first in range(0, H, UNITS):
            unit = first + tl.arange(0, UNITS)[None, :]  # (1, UNITS)
            into = tl.zeros((TEXTS, UNITS), tl.float32)
            forget = tl.zeros((TEXTS, UNITS), tl.float32)
            candidate = tl.zeros((TEXTS, UNITS), tl.float32)
            out = tl.zeros((TEXTS, UNITS), tl.float32)
            for start in tl.range(0, reach, DEPTH, num_stages=STAGES):
                k = start + tl.arange(0, DEPTH)
                row, column = k[None, :], k[:, None]
                state = tl.load(states + before + (b * H + row), (b < B) & (row < H), 0.0)
                state = state.to(across.dtype.element_ty)  # (TEXTS, DEPTH)
                weight, inside = across + (unit * H + column), (unit < H) & (column < H)
                into = tl.dot(state, tl.load(weight, inside, 0.0), into, DOT)
                forget = tl.dot(state, tl.load(weight + H * H, inside, 0.0), forget, DOT)
                candidate = tl.dot(state, tl.load(weight + 2 * H * H, inside, 0.0), candidate, DOT)
                out = tl.dot(state, tl.load(weight + 3 * H * H, inside, 0.0), out, DOT)
            here, place = (b < B) & (unit < H), b * H + unit
            gate = gates + 4 * now + (b * 4 * H + unit)
            into = tl.sigmoid(into + tl.load(gate, here, 0.0))
            forget = tl.sigmoid(forget + tl.load(gate + H, here, 0.0))
            candidate = _tanh(candidate + tl.load(gate + 2 * H, here, 0.0))
            out = tl.sigmoid(out + tl.load(gate + 3 * H, here, 0.0))
            cell = tl.load(cells + before + place, (b < B) & (unit < reach), 0.0)
            cell = into * candidate + forget * cell
            tl.store(gate, into, here)
            tl.store(gate + H, forget, here)
            tl.store(gate + 2 * H, candidate, here)
            tl.store(gate + 3 * H, out, here)
            tl.store(cells + now + place, cell, here)
            tl.store(states + now + place, out * _tanh(cell), here)
        before = now
        tl.debug_barrier()  # the next word reads what other threads wrote


@_kernel
def _read_back(
    grad_gates, grad_states, grad_cell, gates, cells, across, places, words, B,
    H: tl.constexpr, TEXTS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
    STAGES: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """The gradient before the gates' nonlinearities, (rows, B, 4H), of one recurrence and block of texts;
    ``grad_cell``, (R, B, H), holds what comes back from the next word: zeros at first."""
    r = tl.program_id(0)
    b = tl.program_id(1) * TEXTS + tl.arange(0, TEXTS)[:, None]
    across += r.to(tl.int64) * 4 * H * H
    grad_cell += r.to(tl.int64) * B * H
    count = tl.load(words + r)
    later = tl.zeros((), tl.int64)  # where the row of the next word starts
    for back in range(count):
        t = count - 1 - back
        now = (tl.load(places + t) + r) * B * H
        before = (tl.load(places + tl.maximum(t - 1, 0)) + r) * B * H
        reach = tl.where(back > 0, 4 * H, 0)  # nothing comes back to the last word
        met = tl.where(t > 0, H, 0)  # the first one met no cell
        for first in range(0, H, UNITS):
            unit = first + tl.arange(0, UNITS)[None, :]
            grad = tl.zeros((TEXTS, UNITS), tl.float32)  # of the state
            for start in tl.range(0, reach, DEPTH, num_stages=STAGES):
                k = start + tl.arange(0, DEPTH)
                row, column = k[None, :], k[:, None]
                above = grad_gates + 4 * later + (b * 4 * H + row)
                above = tl.load(above, (b < B) & (row < 4 * H), 0.0)  # (TEXTS, DEPTH)
                weight = tl.load(across + (column * H + unit), (unit < H) & (column < 4 * H), 0.0)
                grad = tl.dot(above.to(across.dtype.element_ty), weight, grad, DOT)
            here, place, gate = (b < B) & (unit < H), b * H + unit, b * 4 * H + unit
            grad += tl.load(grad_states + now + place, here, 0.0)
            value = gates + 4 * now + gate
            into, forget = tl.load(value, here, 0.0), tl.load(value + H, here, 0.0)
            candidate, out = tl.load(value + 2 * H, here, 0.0), tl.load(value + 3 * H, here, 0.0)
            cell = tl.load(cells + before + place, (b < B) & (unit < met), 0.0)
            squashed = _tanh(tl.load(cells + now + place, here, 0.0))
            to_cell = tl.load(grad_cell + place, here, 0.0) + grad * out * (1 - squashed * squashed)
            tl.store(grad_cell + place, to_cell * forget, here)
            out_of = grad_gates + 4 * now + gate
            tl.store(out_of, to_cell * candidate * into * (1 - into), here)
            tl.store(out_of + H, to_cell * cell * forget * (1 - forget), here)
            tl.store(out_of + 2 * H, to_cell * into * (1 - candidate * candidate), here)
            tl.store(out_of + 3 * H, grad * squashed * out * (1 - out), here)
        later = now
        tl.debug_barrier()


def forward(gates: Tensor, across: Tensor, rows: Any) -> tuple[Tensor, Tensor]:
    """As the loop of `whenpool.models.batched_lstm`: gates (rows, B, 4H), weights (R, 4H, H)."""
    H = across.shape[-1]
    states, cells = (gates.new_empty(*gates.shape[:2], H) for _ in range(2))
    _launch(_read, FORWARD, (gates, states, cells), across, rows)
    return states, cells


def backward(grad_states: Tensor, gates: Tensor, cells: Tensor, across: Tensor, rows: Any) -> Tensor:
    """As the loop of `whenpool.models.batched_lstm`: (rows, B, H) -> (rows, B, 4H)."""
    grad_gates = torch.empty_like(gates)
    grad_cell = cells.new_zeros(len(across), *cells.shape[1:])
    _launch(_read_back, BACKWARD, (grad_gates, grad_states, grad_cell, gates, cells), across, rows)
    return grad_gates


def _launch(
    kernel: Any, tiles: dict[str, int], values: Sequence[Tensor], across: Tensor, rows: Any
) -> None:
    """One program for each recurrence and block of texts, on the device of the values."""
    R, B, H = len(across), values[0].shape[1], across.shape[-1]
    settings = settings_of(tiles, B, H, precision_used())
    weights = across.bfloat16() if precision_used() == "bfloat16" else across
    with torch.cuda.device_of(across):  # Triton itself takes the current one
        kernel[(R, triton.cdiv(B, settings["TEXTS"]))](
            *values, weights, rows.places, rows.words, B, **settings, num_warps=WARPS
        )


def settings_of(tiles: dict[str, int], B: int, H: int, name: str) -> dict[str, Any]:
    """What a kernel is compiled for; tiles have at least 16 rows and columns."""
    return {
        **tiles,
        "H": H,
        "TEXTS": min(32, max(16, triton.next_power_of_2(B))),
        "UNITS": min(tiles["UNITS"], max(16, triton.next_power_of_2(H))),
        "DOT": name if name.startswith("tf32") else "ieee",
    }


LOOPS: Loops = forward, backward


def largest_errors(
    device: str, H: int = 256, shapes: Sequence[tuple[int, int]] = ((32, 40), (5, 1), (33, 17))
) -> dict[str, float]:
    """For each precision the largest ‖Δ‖ / ‖reference‖ of states (B, T, H) and of gradients that the kernels
    compute, beside LSTMs of torch's in float64 on the processor; ``shapes``: B and T of each recurrence."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        lstms = [nn.LSTM(24, H, batch_first=True) for _ in shapes]
        inputs = [torch.randn(B, T, 24) for B, T in shapes]

    def computed(run: Any, **where: Any) -> list[Tensor]:
        modules = [copy.deepcopy(lstm).to(**where) for lstm in lstms]
        fed = [x.to(**where, copy=True).requires_grad_() for x in inputs]
        states = run(modules, fed)
        torch.autograd.backward([of.square().sum() for of in states])
        leaves = [*fed, *(parameter for module in modules for parameter in module.parameters())]
        return [value.detach().double().cpu() for value in (*states, *(leaf.grad for leaf in leaves))]

    def alone(modules: Sequence[nn.LSTM], fed: Sequence[Tensor]) -> list[Tensor]:
        return [module(x)[0] for module, x in zip(modules, fed, strict=True)]

    exact, errors = computed(alone, dtype=torch.float64), {}
    for name in LARGEST_ERROR:
        with precision(name):
            values = computed(partial(run_batched, loops=LOOPS), device=device)
        pairs = zip(values, exact, strict=True)
        apart = [(mine - right).norm() / right.norm().clamp(min=1e-30) for mine, right in pairs]
        errors[name] = torch.stack(apart).max().item()  # NaN if any is; some references are zeros
    return errors


def try_out(device: str) -> tuple[bool, str]:
    """Whether the kernels are right on a GPU, which the cache folder remembers, and what was found."""
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


def passed(device: torch.device | str) -> bool:
    """Whether `try_out` found the kernels right on a GPU of this name, with these versions."""
    return _mark(device).is_file()


def _mark(device: torch.device | str) -> Path:
    files = (Path(__file__).with_name(f"{name}.py") for name in ("triton_lstm", "batched_lstm"))
    versions = torch.__version__, triton.__version__, *map(code_fingerprint, files)
    return cache_directory() / "kernels" / hash_of(torch.cuda.get_device_name(device), *versions)
