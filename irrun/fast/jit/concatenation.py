"""Concat of inputs of which some are transposed; NumPy copies contiguous ones as fast as memory allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.jit.transposition import copy_transposed, is_transposed
from irrun.limits import check_allocation

__all__ = ["ConcatKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


class ConcatKernel:
    """The kernel of Concat.

    Args:
        axis: The attribute.
        constants: For each input, its value if it is constant.
    """

    description = "compiled: copies of transposed inputs into the result"

    def __init__(self, axis: int, constants: Sequence[Array | None]) -> None:
        self._axis = axis
        self._constants = list(constants)
        self._has_constants = any(x is not None for x in constants)

    def __call__(self, *variables: Array) -> Array:
        """Concatenate."""
        arrays = variables
        if self._has_constants:
            remaining = iter(variables)
            arrays = tuple(next(remaining) if x is None else x for x in self._constants)
        is_contiguous = True
        for x in arrays:
            if x.dtype is not F32:
                raise ValueError("expected f32")
            is_contiguous = is_contiguous and x.flags.c_contiguous
        if is_contiguous or not any(map(is_transposed, arrays)):
            return np.concatenate(arrays, self._axis)
        first = arrays[0].shape
        axis = range(len(first))[self._axis]
        shape = (*first[:axis], sum(x.shape[axis] for x in arrays), *first[axis + 1 :])
        check_allocation(shape, F32)
        result = np.empty(shape, F32)
        start = 0
        for x in arrays:
            part = result[(slice(None),) * axis + (slice(start, start + x.shape[axis]),)]
            start += x.shape[axis]
            if x.shape != part.shape:
                raise ValueError("the shapes do not match")
            if not part.flags.c_contiguous or copy_transposed(x, part) is None:
                part[...] = x
        return result
