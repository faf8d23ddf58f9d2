"""The budget of passes: memory for new constants, and work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Budget"]

#: Number of bytes of new constants after which the memory of their originals is released.
RELEASE_INTERVAL = 1 << 24


@dataclass(eq=False, repr=False)
class Budget:
    """The memory and work that passes may still use.

    Attributes:
        memory: Number of bytes of new constants.
        release: Releases the memory that a mapped file took when it was read.
        work: Number of bytes that may be read and written to compute them.
    """

    memory: int
    release: Callable[[], None]
    work: int = 0
    _unreleased: int = 0

    def spend_memory(self, size: int) -> None:
        """Subtract the bytes of a new constant."""
        self.memory -= size
        self._unreleased += size
        if self._unreleased >= RELEASE_INTERVAL:
            self.finish()

    def finish(self) -> None:
        """Release the originals of new constants."""
        if self._unreleased:
            self.release()
            self._unreleased = 0
