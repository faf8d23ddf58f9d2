"""The memory that kernels keep between runs: weights in another form, and temporary memory."""

from __future__ import annotations

import contextlib
import math
import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.forks import make_lock

__all__ = ["MAX_PANEL_BYTES", "RELEASE_INTERVAL", "MemoryCount", "Originals", "PackedMemory", "allocate_kept"]

Array = np.ndarray[Any, Any]

#: Number of bytes of new weights after which the memory of their originals is released.
RELEASE_INTERVAL = 1 << 22
#: Maximum size of a model's weights in panels, in bytes; see `irrun.fast.panels`.
MAX_PANEL_BYTES = 1 << 30
#: Size of a cache line in bytes.
LINE_SIZE = 64
#: Arrays of at least this many bytes have their own pages, and huge pages if the system supports them.
MIN_OWN_PAGES, MIN_HUGE_PAGES = 1 << 16, 1 << 21


def allocate_kept(shape: tuple[int, ...]) -> Array:
    """Return f32 zeros for data that is kept between runs, such as prepared weights.

    Large arrays have their own pages: among the values of a run, they would fragment the memory that is free between
    runs, so later runs would need more memory.
    """
    size = 4 * math.prod(shape)
    if size < MIN_OWN_PAGES or sys.platform == "win32":
        memory = np.zeros(size + LINE_SIZE, np.uint8)
        start = -memory.__array_interface__["data"][0] % LINE_SIZE  # vectors within cache lines
        return memory[start : start + size].view(np.float32).reshape(shape)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"cannot allocate {size} bytes") from error
    if size >= MIN_HUGE_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.float32).reshape(shape)


class MemoryCount:
    """Counts bytes up to a limit. Any thread may use it.

    Args:
        limit: The maximum number of bytes.

    Attributes:
        limit: The maximum number of bytes.
        used: The number of reserved bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = make_lock()

    def fits(self, size: int) -> bool:
        """Return whether `size` more bytes are within the limit."""
        return self.used + size <= self.limit

    def reserve(self, size: int) -> None:
        """Count `size` more bytes, even if they exceed the limit."""
        with self._lock:
            self.used += size

    def reserve_if_fits(self, size: int) -> bool:
        """Count `size` more bytes if they are within the limit, and return whether they are."""
        with self._lock:
            is_reserved = self.fits(size)
            self.used += size if is_reserved else 0
        return is_reserved

    def release(self, size: int) -> None:
        """Release `size` bytes."""
        with self._lock:
            self.used -= size


class Originals:
    """The weights that kernels copy. If a mapped file contains them, the copies replace them in memory.

    Args:
        release: Releases the memory of an array in a mapped file, or of the whole file, after it was read. Called
            repeatedly.
        is_mapped: Returns whether an array is part of a mapped file. By default, all are.
    """

    def __init__(
        self,
        release: Callable[[Array | None], None] | None = None,
        is_mapped: Callable[[Array], bool] = lambda weights: True,
    ) -> None:
        self.is_mapped = is_mapped
        self._release = release
        self._unreleased = 0
        self._lock = make_lock()

    def count_copy(self, size: int, original: Array | None = None) -> None:
        """Count a copy of weights. The original need not stay in memory.

        Args:
            size: The number of bytes.
            original: The weights; their memory is released. If it is None, the memory of the whole file is released
                after every `RELEASE_INTERVAL` bytes.
        """
        if self._release is None:
            return
        if original is not None:
            self._release(original)
            return
        with self._lock:
            self._unreleased += size
            is_due = self._unreleased >= RELEASE_INTERVAL
            if is_due:
                self._unreleased = 0
        if is_due:
            self._release(None)


class PackedMemory(MemoryCount):
    """Counts the weights that the kernels of a model keep in addition to the constants of its program.

    Args:
        limit: The maximum number of bytes.
        release_originals: See `Originals`.
        panel_limit: The maximum number of bytes of panels that replace the weights of a mapped file.
        is_mapped: See `Originals`.

    Attributes:
        originals: The weights that are copied.
        panels: The panels that replace the weights of a mapped file.
    """

    def __init__(
        self,
        limit: int,
        release_originals: Callable[[Array | None], None] | None = None,
        panel_limit: int | None = None,
        is_mapped: Callable[[Array], bool] = lambda weights: True,
    ) -> None:
        super().__init__(limit)
        self.originals = Originals(release_originals, is_mapped)
        self.panels = MemoryCount(limit if panel_limit is None else panel_limit)

    def reserve(self, size: int, original: Array | None = None) -> None:
        """Count a copy of `size` bytes; see `Originals.count_copy`."""
        super().reserve(size)
        self.originals.count_copy(size, original)
