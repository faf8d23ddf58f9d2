"""Contiguous copies of values with other strides, and of rotated values."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import RESULT, Binding, Layout, get_layout
from irrun.fast.jit.code import Function
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import Task, make_base, make_range_task
from irrun.fast.jit.transposition import make_transposition
from irrun.threads import copy_unaligned

__all__ = ["RotationKernel", "bind_contiguous"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Minimum number of elements per part, and maximum number of parts.
MIN_PART_SIZE, MAX_PARTS = 1 << 15, 16
#: Maximum number of elements that are copied at any length of rows: a call from Python would take longer.
MAX_SMALL_SIZE = 1 << 12
#: Maximum number of rows of a copy, since its table has an entry per row.
MAX_ROWS = 1 << 17


@cache_kernel
def compile_row_copy() -> Kernel:
    """Return the kernel that copies rows; a table gives the first element of each row."""
    names = ("source", "target", "starts")
    integers = ("first", "last", "length")
    f = Function("copy_listed", [*((n, "ptr") for n in names), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    length = p["length"]
    whole = length & -f.lanes
    with f.loop(p["first"], p["last"]) as row:
        source = f.offset(p["source"], f.load(f.offset(p["starts"], row, "i64"), "i64"))
        target = f.offset(p["target"], row * length)
        with f.loop(0, whole, f.lanes) as position:
            f.store(f.load(f.offset(source, position), f.vector), f.offset(target, position))
        with f.when(f.compare("slt", whole, length)):
            mask = f.mask_range(0, length - whole)
            f.store(f.load(f.offset(source, whole), f.vector, mask), f.offset(target, whole), mask)
    return compile_function(f)


def bind_contiguous(layout: Layout) -> Binding:
    """Return the contiguous copy of a value.

    Raises:
        NoKernelError: Neither its rows nor its columns are contiguous, or they are short.
    """
    is_small = math.prod(layout.shape) <= MAX_SMALL_SIZE
    task = make_transposition(*layout, 1, is_any_side=is_small) or _make_row_task(layout)
    return Binding(layout.shape, [task], (0, RESULT))


@functools.lru_cache(maxsize=64)
def _make_row_task(layout: Layout, shifts: tuple[tuple[int, int], ...] = ()) -> Task:
    """Return the task that copies the contiguous rows of a value, rotated along some axes."""
    shape, strides = layout
    rotated = dict(shifts)
    axis, length = len(shape), 1
    while axis and axis - 1 not in rotated and (shape[axis - 1] == 1 or strides[axis - 1] == F32.itemsize * length):
        axis -= 1
        length *= shape[axis]
    rows = math.prod(shape[:axis])
    is_short = length < get_lanes() // 2 and rows * length > MAX_SMALL_SIZE
    if is_short or rows > MAX_ROWS or any(stride % F32.itemsize for stride in strides):
        raise NoKernelError("the rows are too short")
    starts = np.zeros(shape[:axis], np.int64)
    for i in range(axis):
        numbers = (np.arange(shape[i], dtype=np.int64) - rotated.get(i, 0)) % shape[i]
        starts += (numbers * (strides[i] // F32.itemsize)).reshape((-1,) + (1,) * (axis - i - 1))
    count = max(1, min(MAX_PARTS, rows, rows * length // MIN_PART_SIZE))
    places = make_base(0), make_base(1), get_address(starts)
    task = make_range_task(compile_row_copy(), places, rows, count, (length,))
    task.keep(starts)
    return task


class RotationKernel(CompiledKernel):
    """The kernel of Roll, along axes before the last ones.

    Args:
        shifts: The number of elements to rotate by, for each axis.
    """

    description = "compiled: rotation, copies of rows"
    reads_layouts = True

    def __init__(self, shifts: Mapping[int, int]) -> None:
        self._shifts = tuple(shifts.items())

    def __call__(self, data: Array) -> Array:
        """Rotate."""
        if data.dtype != F32:
            raise NoKernelError("expected f32")
        data = copy_unaligned(data)
        return self.bind([get_layout(data)]).run([data])

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the rotation of a value of a layout.

        Raises:
            NoKernelError: The value is empty, has other axes, or its rows are rotated or short.
        """
        (layout,) = layouts
        axes = [axis for axis, _ in self._shifts]
        if not math.prod(layout.shape) or any(axis >= len(layout.shape) for axis in axes):
            raise NoKernelError("the value is empty, or has fewer axes than the rotation")
        return Binding(layout.shape, [_make_row_task(layout, self._shifts)], (0, RESULT))
