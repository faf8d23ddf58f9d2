"""Settings of the C library's memory allocator.

A run allocates and frees large arrays all the time. By default, glibc requests each array from the system and returns
it when it is freed, so that the system clears the same pages again and again, which takes 5 to 13 % of a network's run
time. Once a large block has been freed, however, glibc keeps blocks up to that size for later use (mallopt(3), "dynamic
mmap threshold"). It is enough to allocate and free one block of the largest such size; since it is never written to, it
does not take memory. Other C libraries are not affected.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools

import numpy as np

__all__ = ["keep_freed_blocks", "override_thresholds"]

#: Just below glibc's largest dynamic threshold, 32 MB on 64-bit systems.
BLOCK_SIZE = (32 << 20) - (1 << 16)


@functools.cache
def keep_freed_blocks() -> None:
    """Let the C library keep freed memory for later arrays; effective once per process."""
    with contextlib.suppress(MemoryError):
        np.empty(BLOCK_SIZE, np.uint8)


#: Parameters of mallopt(3).
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@functools.cache
def override_thresholds() -> None:
    """Let glibc keep freed memory although an environment variable such as MALLOC_TRIM_THRESHOLD_ fixes a threshold.

    Dask sets that variable for its workers to return memory early, which takes up to twice the time of a network.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, BLOCK_SIZE)
        mallopt(M_TRIM_THRESHOLD, 2 * BLOCK_SIZE)
