"""Which device and how many processors there are."""

import os
import re

from whenpool.base.errors import check


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


def processors() -> int:
    """How many processors this process may use, which a container can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
