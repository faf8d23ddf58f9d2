"""Views of arrays that are created again without the calls that determined their shapes.

Creating a view by slicing, reshaping and moving axes takes 5 to 20 microseconds in NumPy and in the kernels of these
operations, longer than a few iterations of a small loop. For inputs of known shapes, a view is a number of elements
from a position on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["View", "find_view", "get_root"]

Array = np.ndarray[Any, Any]


class View(NamedTuple):
    """A view of an array.

    Attributes:
        shape: The shape of the view.
        dtype: Its type.
        offset: Its first byte in the array.
        strides: Its strides in bytes.
        root_shape: The shape of the array.
        is_writeable: Whether the view may be written to.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    strides: tuple[int, ...]
    root_shape: tuple[int, ...]
    is_writeable: bool

    def fits(self, root: Array) -> bool:
        """Return whether an array has the expected layout."""
        return root.shape == self.root_shape and root.dtype == self.dtype and root.flags.c_contiguous

    def create(self, root: Array) -> Array:
        """Return the view of an array that fits."""
        view: Array = np.ndarray(self.shape, self.dtype, root, self.offset, self.strides)
        if not self.is_writeable:
            view.flags.writeable = False
        return view


def get_root(value: Array) -> Array:
    """Return the array that owns the elements of a value, if the value shows all of them, or the value itself."""
    base = value.base
    is_whole = type(base) is np.ndarray and base.size == value.size and base.dtype == value.dtype
    return base if is_whole and base.flags.c_contiguous else value  # type: ignore[union-attr, return-value]


def find_view(value: Array, root: Array) -> View | None:
    """Return how a value is a view of an array; None if it is not, or only in part."""
    if type(root) is not np.ndarray or not root.flags.c_contiguous or value.dtype != root.dtype or not value.size:
        return None
    offset = value.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    spans = [(length - 1) * stride for length, stride in zip(value.shape, value.strides, strict=True)]
    last = offset + sum(span for span in spans if span > 0) + value.itemsize
    if offset + sum(span for span in spans if span < 0) < 0 or last > root.nbytes:
        return None
    return View(value.shape, value.dtype, offset, value.strides, root.shape, value.flags.writeable)
