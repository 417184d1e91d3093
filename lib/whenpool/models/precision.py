"""How exactly recurrences are computed: float32 unless something faster is asked for.

Only the recurrences and the products that feed them, where nearly all of the time goes, ever use
less than float32; embeddings, poolings, the classifier, the loss and Adam stay in float32. Precision
is part of a result's provenance, not of what a run is.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from whenpool.base.errors import InputError

PRECISIONS = ("float32", "tf32", "bfloat16")  # TF32 is a GPU's: on a processor it is float32

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
    cudnn = torch.backends.cudnn
    before, flag = _used, cudnn.allow_tf32
    _used = name
    cudnn.allow_tf32 = name == "tf32"  # in backward passes as well; nothing of ours but recurrences asks
    try:
        yield
    finally:
        _used, cudnn.allow_tf32 = before, flag


def recurrence_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which a recurrence of torch's on a processor is computed in the precision in use.

    On a GPU it would not be: autocast makes float16 of a recurrence there whatever it is told, so that
    `cast_on_gpu` says where weights and inputs are rounded instead.
    """
    rounded = _used == "bfloat16" and device.type == "cpu"
    return torch.autocast(device.type, torch.bfloat16) if rounded else nullcontext()


def cast_on_gpu(device: torch.device) -> bool:
    """Whether weights and inputs of a recurrence are to be rounded to bfloat16 before it is computed."""
    return _used == "bfloat16" and device.type == "cuda"


@contextmanager
def product_precision() -> Iterator[None]:
    """A context in which products of matrices that belong to a recurrence take TF32 if that is in use;
    all others never do."""
    matmul = torch.backends.cuda.matmul
    flag = matmul.allow_tf32
    matmul.allow_tf32 = _used == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32 = flag
