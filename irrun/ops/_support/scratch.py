"""Memory that a plain kernel allocates besides its results, as stated on its card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from irrun.limits import reserve_scratch
from irrun.ops._support.card import Card
from irrun.ops._support.numerics import is_low_precision

__all__ = ["check_plain_scratch", "estimate_scratch"]


class Described(Protocol):
    """An array, or what describes one."""

    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""


def estimate_scratch(card: Card, inputs: Sequence[Described], result: int = 0) -> int:
    """Return the bytes that a plain kernel allocates besides its results.

    Args:
        card: The operation.
        inputs: Its inputs.
        result: The bytes of its results, if they are known.
    """
    size = int((card.scratch or 0) * max(result, sum(x.size * max(x.itemsize, 4) for x in inputs)))
    if card.kind not in ("view", "movement", "state"):  # low-precision floats are computed in f32
        size += sum(4 * x.size for x in inputs if is_low_precision(x.dtype))
    return size


def check_plain_scratch(card: Card, inputs: Sequence[Described | None]) -> None:
    """Check the memory of a plain kernel that a fast kernel calls, and reserve it in addition to the result.

    Args:
        card: The operation.
        inputs: Its inputs; None for omitted ones.

    Raises:
        MemoryLimitError: The current run has less left.
    """
    arrays = [x for x in inputs if x is not None]
    reserve_scratch(estimate_scratch(card, arrays))
