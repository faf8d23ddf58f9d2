"""Aligned copies of constants at unaligned offsets of a .bin file, which NumPy would copy in each call."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from irrun.forks import make_lock

__all__ = ["align"]

Array = np.ndarray[Any, Any]

#: Maps the memory, shape, strides and type of originals to their copies, while something uses the copies.
_copies: weakref.WeakValueDictionary[tuple[Any, ...], Array] = weakref.WeakValueDictionary()
_lock = make_lock()


def align(array: Array) -> Array:
    """Return a constant with aligned elements: the array itself, or a copy shared by all callers.

    Args:
        array: An array that never changes.

    Returns:
        An array of the same layout, read-only if it is a copy.
    """
    if array.flags.aligned:
        return array
    key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
    with _lock:
        copy = _copies.get(key)
        if copy is None:
            copy = array.copy("K")
            copy.flags.writeable = False
            _copies[key] = copy
            # The copy keeps the original alive, so that no other array gets its address.
            weakref.finalize(copy, _release, array).atexit = False
    return copy


def _release(original: Array) -> None:
    """Do nothing: the finalizer of a copy holds a reference to the original."""
