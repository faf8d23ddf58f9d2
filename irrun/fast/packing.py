"""The memory of weights that are kept in another form for speed."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["RELEASE_INTERVAL", "PackedMemory"]

#: Number of bytes of new weights after which the memory of their originals is released.
RELEASE_INTERVAL = 1 << 24


class PackedMemory:
    """Counts the bytes of weights that the kernels of a model keep in addition to the constants of its program.

    Args:
        limit: The maximum number of bytes.
        release_originals: Releases the memory that a mapped file took when it was read, so that the originals do not
            stay in memory as well; called repeatedly.
    """

    def __init__(self, limit: int, release_originals: Callable[[], None] | None = None) -> None:
        self.limit = limit
        self.used = 0
        self._release_originals = release_originals
        self._unreleased = 0
        self._lock = threading.Lock()

    def fits(self, size: int) -> bool:
        """Return whether `size` more bytes are within the limit."""
        return self.used + size <= self.limit

    def reserve(self, size: int) -> None:
        """Count `size` more bytes."""
        with self._lock:
            self.used += size
        self.count_copy(size)

    def release(self, size: int) -> None:
        """Count `size` bytes less."""
        with self._lock:
            self.used -= size

    def count_copy(self, size: int) -> None:
        """Count a copy of weights that does not take part in the limit, whose originals need not stay in memory."""
        with self._lock:
            self._unreleased += size
            is_due = self._unreleased >= RELEASE_INTERVAL
            if is_due:
                self._unreleased = 0
        if is_due and self._release_originals is not None:
            self._release_originals()
