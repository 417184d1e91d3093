"""Memory that this process keeps for itself."""

import ctypes
import os
from contextlib import suppress
from functools import cache

_SETTINGS = {  # of glibc's malloc.h
    "MALLOC_MMAP_THRESHOLD_": (-3, 2**30),
    "MALLOC_TRIM_THRESHOLD_": (-1, 2**31 - 1),
}


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed memory instead of asking the system for it anew in each step, which takes a fifth
    of the time of a model with 256 units. What the environment sets stays, and so do other C libraries."""
    with suppress(OSError, AttributeError, TypeError):  # where there is no glibc
        for variable, (parameter, value) in _SETTINGS.items():
            if variable not in os.environ:
                ctypes.CDLL(None).mallopt(parameter, value)
