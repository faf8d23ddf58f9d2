"""Concat with transposed inputs; NumPy copies contiguous inputs as fast as memory allows.

In sequences of kernels, tasks copy contiguous inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import RESULT, Binding
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import Call, Task, make_base, make_range_task
from irrun.fast.jit.transposition import copy_transposed, is_transposed
from irrun.limits import check_allocation

__all__ = ["ConcatKernel", "bind_copy"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of elements per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 15, 8


@cache_kernel
def compile_copy() -> Kernel:
    """Return the kernel that copies rows to rows with another distance."""
    integers = ("first", "last", "length", "step")
    f = Function("copy_rows", [("source", "ptr"), ("target", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    with f.loop(p["first"], p["last"]) as row:
        source, target = f.offset(p["source"], row * p["length"]), f.offset(p["target"], row * p["step"])

        def copy(position: Value, mask: Value | None, source: Value = source, target: Value = target) -> None:
            f.store(f.load(f.offset(source, position), f.vector, mask), f.offset(target, position), mask)

        apply_to_row(f, p["length"], copy)
    return compile_function(f)


def bind_copy(rows: int, length: int, step: int) -> Binding:
    """Return the copy of contiguous rows to the first elements of other rows.

    Args:
        rows: The number of rows.
        length: The number of elements per row.
        step: The elements between rows of the result.
    """
    count = max(1, min(MAX_PARTS, rows * length // MIN_PART_SIZE))
    source, target = make_base(0), make_base(1)
    if rows > 1:
        task = make_range_task(compile_copy(), (source, target), rows, min(rows, count), (length, step))
    else:
        bounds = [length * i // count for i in range(count + 1)]
        task = Task(
            [Call(compile_copy(), (source.move(4 * a), target.move(4 * a), 0, 1, b - a, step))]
            for a, b in itertools.pairwise(bounds)
        )
    return Binding((rows, step), [task], (0, RESULT))


class ConcatKernel(CompiledKernel):
    """The kernel of Concat.

    Args:
        axis: The attribute.
        constants: The value of each input if it is constant, or None.
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
        if any(x.dtype is not arrays[0].dtype for x in arrays):
            raise NoKernelError("expected inputs of one type")
        # f16 graphs compute in f32, but values that the model itself converts to f16 stay f16.
        if arrays[0].dtype is not F32 or not any(map(is_transposed, arrays)):
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
                raise NoKernelError("the shapes do not match")
            if not part.flags.c_contiguous or copy_transposed(x, part) is None:
                part[...] = x
        return result
