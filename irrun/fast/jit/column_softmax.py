"""Softmax along an axis other than the last: a vector computes neighboring columns, from data with any strides."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import RESULT, Binding, Layout, get_layout, get_strides
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import Call, Task, make_base
from irrun.fast.jit.vectors import Vectors
from irrun.limits import check_allocation
from irrun.threads import copy_unaligned

__all__ = ["MAX_LENGTH", "ColumnSoftmaxKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Maximum number of elements in a column; they are added one after another.
MAX_LENGTH = 256
#: Minimum number of elements per part, and maximum number of runs of columns: each needs its own arguments.
MIN_PART_SIZE, MAX_RUNS = 1 << 13, 1 << 10


@cache_kernel
def compile_column_softmax() -> Kernel:
    """Return the kernel that computes the softmax of neighboring columns."""
    integers = ("length", "step", "result_step", "columns")  # steps are elements between rows
    f = Function("column_softmax", [("data", "ptr"), ("result", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    largest, total = f.variable(f.vector, 0.0), f.variable(f.vector, 0.0)

    def compute_columns(column: Value, mask: Value | None) -> None:
        def load(row: Value) -> Value:
            return f.load(f.offset(p["data"], row * p["step"] + column), f.vector, mask)

        def locate(row: Value) -> Value:
            return f.offset(p["result"], row * p["result_step"] + column)

        largest.set(-np.inf)
        with f.loop(0, p["length"]) as row:
            value = load(row)
            largest.set(f.select(f.compare("ogt", value, largest.get()), value, largest.get()))
        total.set(0.0)
        with f.loop(0, p["length"]) as row:
            value = Vectors(f).exp(load(row) - largest.get())
            total.add(value)
            f.store(value, locate(row), mask)
        factor = 1.0 / total.get()
        with f.loop(0, p["length"]) as row:
            place = locate(row)
            f.store(f.load(place, f.vector, mask) * factor, place, mask)

    apply_to_row(f, p["columns"], compute_columns)
    return compile_function(f)


class ColumnSoftmaxKernel(CompiledKernel):
    """The kernel of Softmax along an axis that is not the last one.

    Args:
        rank: The declared rank of the data.
        axis: The axis, which is not negative.
    """

    description = "compiled: softmax, vectors of neighboring columns"
    reads_layouts = True

    def __init__(self, rank: int, axis: int) -> None:
        self._rank, self._axis = rank, axis
        compile_column_softmax()

    def __call__(self, data: Array) -> Array:
        """Compute the softmax."""
        if data.dtype != F32:
            raise NoKernelError("expected f32")
        check_allocation(data.shape, F32)
        data = copy_unaligned(data)
        return self.bind([get_layout(data)]).run([data])

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the softmax of data of a layout.

        Raises:
            NoKernelError: No kernel supports this layout.
        """
        (layout,) = layouts
        if len(layout.shape) != self._rank:
            raise NoKernelError("expected data of the declared rank")
        return Binding(layout.shape, [_make_task(layout, self._axis)], (0, RESULT))


@functools.lru_cache(maxsize=256)
def _make_task(layout: Layout, axis: int) -> Task:
    """Return the task for the addresses of the data and of the result."""
    (shape, strides), result_strides = layout, get_strides(layout.shape)
    if not math.prod(shape) or shape[axis] > MAX_LENGTH or any(stride % F32.itemsize for stride in strides):
        raise NoKernelError("expected aligned data with short columns")
    # Contiguous trailing axes form one run of columns.
    first, columns = len(shape), 1
    while first - 1 > axis and (shape[first - 1] == 1 or strides[first - 1] == F32.itemsize * columns):
        first -= 1
        columns *= shape[first]
    outer = [i for i in range(first) if i != axis]
    runs = math.prod(shape[i] for i in outer)
    if columns < get_lanes() or runs > MAX_RUNS:
        raise NoKernelError("the runs of columns are too short")
    size = shape[axis] * columns
    piece = columns if size < 2 * MIN_PART_SIZE else max(get_lanes(), MIN_PART_SIZE // shape[axis] & -get_lanes())
    steps = (strides[axis] // F32.itemsize, result_strides[axis] // F32.itemsize)
    parts: list[list[Call]] = []
    for index in itertools.product(*(range(shape[i]) for i in outer)):
        source, target = (
            make_base(number).move(sum(n * own[i] for n, i in zip(index, outer, strict=True)))
            for number, own in enumerate((strides, result_strides))
        )
        for start in range(0, columns, piece):
            places = source.move(F32.itemsize * start), target.move(F32.itemsize * start)
            arguments = (*places, shape[axis], *steps, min(piece, columns - start))
            parts.append([Call(compile_column_softmax(), arguments)])
    count = max(1, min(len(parts), math.prod(shape) // MIN_PART_SIZE))
    bounds = [len(parts) * i // count for i in range(count + 1)]
    return Task(list(itertools.chain.from_iterable(parts[a:b])) for a, b in itertools.pairwise(bounds))
