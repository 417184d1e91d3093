"""Memory that this process keeps for itself."""

import ctypes
import os
from contextlib import suppress
from functools import cache


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed memory, which takes a fifth off the time of a model with 256 units."""
    settings = ("MMAP", -3, 2**30), ("TRIM", -1, 2**31 - 1)  # of glibc's malloc.h
    with suppress(OSError, AttributeError, TypeError):  # where there is no glibc
        for name, parameter, value in settings:
            if f"MALLOC_{name}_THRESHOLD_" not in os.environ:
                ctypes.CDLL(None).mallopt(parameter, value)


def give_back_freed_memory() -> None:
    """Ask glibc for it: batches of ever new shapes leave freed memory in pieces, which add up."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
