"""What passes may spend: bytes of new constants, and work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["DEFAULT_LIMIT", "Budget"]

#: Bytes that new constants may take in all.
DEFAULT_LIMIT = 1 << 30

#: After so many bytes of new constants the memory of what they were made from is given back.
STEP = 1 << 24


def _nothing() -> None:
    pass


@dataclass
class Budget:
    """What passes may still spend.

    Attributes:
        kept: bytes of new constants.
        work: bytes that may be read and written to make them.
        release: gives back the memory that a mapped file took as it was read.
    """

    kept: int = DEFAULT_LIMIT
    work: int = 0
    release: Callable[[], None] = _nothing
    _unreleased: int = 0

    def keep(self, bytes: int) -> None:
        """Take note of a new constant."""
        self.kept -= bytes
        self._unreleased += bytes
        if self._unreleased >= STEP:
            self.finish()

    def finish(self) -> None:
        """Give back what was read, if anything was made from it."""
        if self._unreleased:
            self.release()
            self._unreleased = 0
