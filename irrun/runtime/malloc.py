"""Settings of the C library's memory allocator.

A run allocates and frees large arrays all the time. By default glibc requests each of them from the system and
returns it when it is freed, so that the system clears the same pages again and again: 5 to 13 % of a network's run
time. Once a large block has been freed, however, glibc keeps blocks up to that size for later use (mallopt(3),
"dynamic mmap threshold"). Allocating and freeing one block of the largest such size is enough; since it is never
written to, it takes no memory. Other C libraries ignore it.
"""

from __future__ import annotations

import contextlib
import functools

import numpy as np

__all__ = ["keep_freed_blocks"]

#: Just below glibc's largest dynamic threshold, 32 MB on 64-bit systems.
BLOCK_SIZE = (32 << 20) - (1 << 16)


@functools.cache
def keep_freed_blocks() -> None:
    """Let the C library keep freed memory for later arrays; effective once per process."""
    with contextlib.suppress(MemoryError):
        np.empty(BLOCK_SIZE, np.uint8)
