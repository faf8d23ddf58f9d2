"""The memory of weights that are kept in another form for speed."""

from __future__ import annotations

import threading

__all__ = ["PackedMemory"]


class PackedMemory:
    """Counts the bytes of weights that the kernels of a model keep in addition to the constants of its program.

    Args:
        limit: The maximum number of bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def fits(self, size: int) -> bool:
        """Return whether `size` more bytes are within the limit."""
        return self.used + size <= self.limit

    def reserve(self, size: int) -> None:
        """Count `size` more bytes."""
        with self._lock:
            self.used += size

    def release(self, size: int) -> None:
        """Count `size` bytes less."""
        self.reserve(-size)
