"""Which device and how many processors there are."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whenpool.base.errors import check

if TYPE_CHECKING:
    import torch  # commands without a device do without


def check_device(device: str, here: bool = True) -> None:
    """Raises `InputError` for an unknown device, or for CUDA that is needed ``here`` and is not."""
    on_gpu = re.fullmatch(r"cuda(:\d+)?", device)
    check(on_gpu or device == "cpu", f"device {device!r} is unknown; choose cpu or cuda")
    import torch  # commands without a device do without

    check(
        not (on_gpu and here) or torch.cuda.is_available(),
        "device cuda was asked for, but torch sees no GPU; "
        'use --device cpu, in Python device="cpu"',
    )


@contextmanager
def seeded(seed: int, device: "str | torch.device" = "cpu") -> Iterator[None]:
    """Draw from torch's generators, of the processor and the device, as this seed has it, and leave
    them as they were, unless several threads do so at once; those of GPUs that are not the
    device's may change where it is one."""
    import torch

    on_gpu = str(device) != "cpu"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        (torch.manual_seed if on_gpu else torch.default_generator.manual_seed)(seed)
        yield


def processors() -> int:
    """How many processors this process may use, which a container can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
