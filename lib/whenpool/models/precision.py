"""How exactly recurrences are computed: float32 unless something faster is asked for.

On a processor torch's LSTM in bfloat16 rounds its memory cell, too, at every word: a start with a
long memory, such as "chrono", needs float32 there. Our kernels for a GPU keep cells in float32.

Only the recurrences and the products that feed them, where nearly all of the time goes, ever use
less than float32. Precision is part of a result's provenance, not of what a run is.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from whenpool.base.errors import check, check_known

PRECISIONS = ("float32", "bfloat16")
_used = ContextVar("precision", default="float32")


def precision_used() -> str:
    """The one in use: a name in `PRECISIONS`; what a compiler records is in float32."""
    return "float32" if torch.compiler.is_compiling() else _used.get()


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Compute recurrences so for a while. In both precisions products in float32 are exact ones,
    also those of cuDNN, which outside takes TF32 where nobody has said otherwise."""
    check_known("precision", name, PRECISIONS)
    cudnn = torch.backends.cudnn
    before, allowed = _used.set(name), cudnn.allow_tf32
    try:
        cudnn.allow_tf32 = False
        yield
    finally:
        _used.reset(before)
        cudnn.allow_tf32 = allowed


def run_recurrence(
    recurrence: nn.Module, inputs: Tensor, changed: Mapping[str, Tensor] | None = None
) -> Tensor:
    """The states (B, T, H) of inputs (B, T, E); weights that are ``changed`` stand in for its
    own."""
    weights, words = dict(changed or {}), inputs
    rounding: AbstractContextManager[object] = nullcontext()
    if precision_used() == "float32":
        pass
    elif inputs.device.type == "cpu":
        rounding = torch.autocast("cpu", torch.bfloat16)
    else:  # autocast would make float16 of it there
        words = inputs.bfloat16()
        if exact := {**dict(recurrence.named_parameters()), **weights}:
            # in one piece for cuDNN: torch flattens the weights of other precisions alone
            flat = torch.cat([weight.flatten() for weight in exact.values()]).bfloat16()
            pieces = torch._utils._unflatten_dense_tensors(flat, [*exact.values()])
            weights = dict(zip(exact, pieces, strict=True))
    arguments: tuple[Any, ...] = (words,)
    # within `torch.func` zeros of torch's own are not of each text; a compiler cannot look for that
    compiling, functorch = torch.compiler.is_compiling(), torch._C._functorch
    wrapped = not compiling and functorch.is_functorch_wrapped_tensor(words)
    if wrapped and isinstance(recurrence, nn.RNNBase):
        start = words.new_zeros(1, len(words), recurrence.hidden_size)
        arguments = words, (start, start) if isinstance(recurrence, nn.LSTM) else start
    try:
        with rounding:
            if weights:
                states = torch.func.functional_call(recurrence, weights, arguments)[0]
            else:
                states = recurrence(*arguments)[0]
    except RuntimeError as error:
        check(
            "Batching rule" not in str(error),
            f"torch.vmap has no rule for {type(recurrence).__name__} without gradients"
            "; give the model the whole batch",
        )
        raise
    return states.to(inputs.dtype)


@cache
def processor_has_bfloat16() -> bool:
    """Whether this processor runs torch's LSTM in bfloat16; most that do have AVX-512."""
    try:
        with (
            torch.random.fork_rng(devices=[]),
            torch.no_grad(),
            torch.autocast("cpu", torch.bfloat16),
        ):
            nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
    except RuntimeError:
        return False
    return True
