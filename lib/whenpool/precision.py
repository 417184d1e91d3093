"""How exactly recurrences are computed: float32 unless something faster is asked for.

Only the recurrences and the products that feed them, where nearly all of the time goes, ever use
less than float32; embeddings, poolings, the classifier, the loss and Adam stay in float32. Precision
is part of a result's provenance, not of what a run is.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from whenpool.errors import InputError

PRECISIONS = ("float32", "tf32", "bfloat16")
"""TF32 is a GPU's: on a processor it is float32."""

_used = "float32"


def check_precision(name: str) -> None:
    """Raises `InputError` for a name that is not in `PRECISIONS`."""
    if name not in PRECISIONS:
        raise InputError(f"precision {name!r} is unknown; choose one of {', '.join(PRECISIONS)}")


def precision_used() -> str:
    """The one in use: a name in `PRECISIONS`."""
    return _used


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Compute recurrences so for a while, in all threads of this process.

    cuDNN takes TF32 by itself unless it is told not to, so float32 is set as well as the others.

    Raises:
        InputError: for a name that is not in `PRECISIONS`.
    """
    global _used
    check_precision(name)
    backends: tuple[Any, Any] = torch.backends.cudnn, torch.backends.cuda.matmul
    before, flags = _used, [backend.allow_tf32 for backend in backends]
    _used = name
    for backend in backends:
        backend.allow_tf32 = name == "tf32"
    try:
        yield
    finally:
        _used = before
        for backend, flag in zip(backends, flags, strict=True):
            backend.allow_tf32 = flag


def recurrence_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which a recurrence on a device is computed in the precision in use."""
    return torch.autocast(device.type, torch.bfloat16) if _used == "bfloat16" else nullcontext()
