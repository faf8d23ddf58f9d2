"""The C library's heap: what one instruction frees, the next one gets.

A run takes and frees large arrays all the time. glibc asks the system for each of them and gives it back when it is
freed, so that the system has to clear the same pages again and again: a twentieth to an eighth of the time of a
network. But once a large block has been freed, it keeps blocks up to that size for later (mallopt(3), "dynamic mmap
threshold"). So one block of the largest size for which that holds is taken and freed; nobody writes to it, so it
takes no memory. Other C libraries have other rules, and lose nothing by it.
"""

from __future__ import annotations

import contextlib
import functools

import numpy as np

__all__ = ["keep_freed_blocks"]

#: Just below the greatest threshold of glibc, which is 32 MB on 64-bit systems.
BLOCK = (32 << 20) - (1 << 16)


@functools.cache
def keep_freed_blocks() -> None:
    """Let the C library keep freed memory for later arrays; done once per process."""
    with contextlib.suppress(MemoryError):
        np.empty(BLOCK, np.uint8)
