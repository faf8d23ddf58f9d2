"""Limits on memory that everything else asks before it allocates."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from irrun.errors import InputError

__all__ = ["allocation_limit", "check_allocation", "default_limit"]

#: The limit where the size of the machine's memory is unknown.
FALLBACK_LIMIT = 8 << 30

_limit: ContextVar[int | None] = ContextVar("limit", default=None)


@functools.lru_cache(maxsize=1)
def default_limit() -> int:
    """Return the number of bytes that one array may take: half of the machine's memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return FALLBACK_LIMIT


@contextmanager
def allocation_limit(limit: int) -> Iterator[None]:
    """Lower the limit of `check_allocation` inside a `with` block.

    Args:
        limit: Bytes that one array may take. A value above `default_limit()` has no effect.
    """
    token = _limit.set(min(limit, default_limit()))
    try:
        yield
    finally:
        _limit.reset(token)


def check_allocation(shape: Iterable[int], dtype: np.dtype[Any]) -> None:
    """Refuse an array that is too large before it is allocated.

    Kernels call this where the size of a result depends on values or attributes, which a file may set to anything.

    Args:
        shape: Dimensions of the array. Negative ones count as 0.
        dtype: Type of its elements.

    Raises:
        InputError: The array exceeds the current limit.
    """
    sizes = [max(0, int(n)) for n in shape]
    required = math.prod(sizes) * dtype.itemsize
    limit = _limit.get() or default_limit()
    if required > limit:
        raise InputError(
            f"the result would take {dtype.itemsize} * {' * '.join(map(str, sizes))} bytes, "
            f"expected at most {limit / 2**30:.3g} GiB"
        )
