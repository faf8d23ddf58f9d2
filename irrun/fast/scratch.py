"""Temporary memory of threads, kept between calls, since the system would clear new memory each time."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from irrun.fast.packing import allocate_kept

__all__ = ["get_scratch", "reserve"]

Array = np.ndarray[Any, Any]


class _Buffers(threading.local):
    """The buffers of the calling thread, by purpose."""

    def __init__(self) -> None:
        self.by_purpose: dict[str | int, Array] = {}


_buffers = _Buffers()


def get_scratch(purpose: str, *shape: int) -> Array:
    """Return uninitialized f32 memory for the calling thread, until it asks for the same purpose again.

    Args:
        purpose: A name; arrays of different purposes do not overlap.
        shape: The shape.
    """
    size = math.prod(shape)
    return reserve(purpose, size)[:size].reshape(shape)


def reserve(purpose: str | int, size: int) -> Array:
    """Return a vector of at least `size` elements; see `get_scratch`.

    Args:
        purpose: A name, or the number of a thread that computes for the calling thread.
        size: The number of elements.
    """
    buffers = _buffers.by_purpose
    buffer = buffers.get(purpose)
    if buffer is None or buffer.size < size:
        buffer = None
        buffers.pop(purpose, None)  # before more memory is requested
        buffer = buffers[purpose] = allocate_kept((size,))
    return buffer
