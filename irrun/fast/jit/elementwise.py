"""Kernels of expressions on arrays: one pass over rows, with any broadcasting."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.expressions import Expression, Step, evaluate
from irrun.fast.jit.tasks import Call, Task, make_base, make_range_task
from irrun.fast.jit.transposition import copy_transposed

__all__ = ["apply_to_row", "compile_rows", "make_contiguous", "make_row_task", "plan_rows"]

Array = np.ndarray[Any, Any]

#: Elements per part: tens of microseconds for cheap expressions.
PART_SIZE = 1 << 15
MAX_PARTS = 16
#: Maximum number of rows in a plan, since its table has an entry per row and operand.
MAX_ROWS = 1 << 17


def make_contiguous(array: Array) -> Array:
    """Return an array, or a copy if it is not aligned and contiguous.

    Unlike `np.ascontiguousarray`, it keeps 0D arrays 0D and copies unaligned data.
    """
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        return array
    copied = copy_transposed(array)
    return np.array(array, order="C") if copied is None else copied


@cache_kernel
def compile_rows(expression: Expression) -> Kernel:
    """Return the kernel of an expression on rows.

    "row" operands have one element per element of a row, "scalar" operands one per row.
    The parameters of the kernel are the addresses of the operands, of the result, and of a table that gives the
    first element of each operand for each row.
    """
    lanes = get_lanes()
    parameters = [("result", "ptr"), ("data", "ptr"), ("operands", "ptr"), ("offsets", "ptr")]
    f = Function("rows", [*parameters, ("first", "i64"), ("last", "i64"), ("length", "i64")], lanes)
    p = f.parameters
    count = len(expression.kinds)
    pointers = [f.load(f.offset(p["operands"], i, "ptr"), "ptr") for i in range(count)]
    with f.loop(p["first"], p["last"]) as row:
        start = row * p["length"]
        table = f.offset(p["offsets"], row * count, "i64")
        bases = [f.offset(q, f.load(f.offset(table, i, "i64"), "i64")) for i, q in enumerate(pointers)]
        scalars = [
            f.splat(f.load(base), f.vector) if kind == "scalar" else None
            for base, kind in zip(bases, expression.kinds, strict=True)
        ]

        def compute_vector(position: Value, mask: Value | None) -> None:
            value = f.load(f.offset(p["data"], start + position), f.vector, mask)
            operands = [
                f.load(f.offset(base, position), f.vector, mask) if scalar is None else scalar
                for base, scalar in zip(bases, scalars, strict=True)
            ]
            result = evaluate(f, expression, value, operands)
            f.store(result, f.offset(p["result"], start + position), mask)

        apply_to_row(f, p["length"], compute_vector)
    return compile_function(f)


def apply_to_row(f: Function, length: Value, function: Callable[[Value, Value | None], None]) -> None:
    """Append a loop over the vectors of a row; the last may be incomplete and has a mask."""
    whole = length & -f.lanes
    with f.loop(0, whole, f.lanes) as position:
        function(position, None)
    with f.when(f.compare("slt", whole, length)):
        function(whole, f.mask_range(0, length - whole))


@functools.lru_cache(maxsize=256)
def plan_rows(
    shape: tuple[int, ...], layouts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
) -> tuple[tuple[str, ...], Array, int]:
    """Return the kinds of operands, the table of their offsets, and the length of a row.

    Args:
        shape: Shape of the result.
        layouts: Shape and strides in bytes of each operand. Operands broadcast to `shape`.

    Raises:
        NoKernelError: An operand does not broadcast to the shape or is not aligned, or there are too many rows.
    """
    views = []
    for operand_shape, strides in layouts:
        if len(operand_shape) > len(shape):
            raise NoKernelError("an operand has more dimensions than the result")
        if any(stride % 4 for stride in strides):
            raise NoKernelError("the elements of an operand are not aligned")
        full = (0,) * (len(shape) - len(operand_shape)) + tuple(
            0 if d == 1 else s for d, s in zip(operand_shape, strides, strict=True)
        )
        padded = (1,) * (len(shape) - len(operand_shape)) + operand_shape
        if any(d not in (1, n) for d, n in zip(padded, shape, strict=True)):
            raise NoKernelError("an operand does not broadcast to the result")
        views.append(full)
    # Trailing axes that all operands have, or along which they are constant, form one row.
    axis = len(shape)
    length = 1
    kinds: list[set[str]] = [set() for _ in views]
    while axis:
        size = shape[axis - 1]
        if size != 1:
            steps = [("scalar" if s[axis - 1] == 0 else "row" if s[axis - 1] == 4 * length else "") for s in views]
            if any(not step or kind - {step} for step, kind in zip(steps, kinds, strict=True)):
                break
            for step, kind in zip(steps, kinds, strict=True):
                kind.add(step)
        length *= size
        axis -= 1
    outer = shape[:axis]
    if math.prod(outer) > MAX_ROWS and views:
        raise NoKernelError("the rows are too short")
    offsets = np.zeros((math.prod(outer), len(views)), np.int64)
    for i, strides in enumerate(views):
        grid = np.zeros(outer, np.int64)
        for a in range(axis):
            index = np.arange(outer[a], dtype=np.int64) * (strides[a] // 4)
            grid += index.reshape((-1,) + (1,) * (axis - a - 1))
        offsets[:, i] = grid.reshape(-1)
    return tuple(next(iter(kind), "scalar") for kind in kinds), offsets, length


def make_row_task(
    steps: tuple[Step, ...], shape: tuple[int, ...], layouts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
) -> Task:
    """Return the task that computes steps.

    Args:
        steps: The steps.
        shape: The shape of the running value, which is contiguous f32.
        layouts: Shape and strides in bytes of each operand. Operands broadcast to `shape`.

    Returns:
        The task for the addresses of the result, of the running value, and of a table of operand addresses.

    Raises:
        NoKernelError: The layout of an operand does not allow it.
    """
    kinds, offsets, length = plan_rows(shape, layouts)
    kernel = compile_rows(Expression(kinds, steps))
    rows, size = len(offsets), len(offsets) * length
    count = min(MAX_PARTS, max(1, size // PART_SIZE))
    result, data, table = (make_base(i) for i in range(3))
    if rows >= count:
        task = make_range_task(kernel, (result, data, table, get_address(offsets)), rows, count, (length,))
        task.keep(offsets)
        return task
    # Few long rows: each is divided.
    step = -(-length // max(1, count // rows))
    step += -step % 64
    is_row = np.array([kind == "row" for kind in kinds], np.int64)
    parts, tables = [], []
    for row, start in itertools.product(range(rows), range(0, length, step)):
        tables.append(np.array(offsets[row] + start * is_row, np.int64))
        first = 4 * (row * length + start)
        addresses = (result.move(first), data.move(first), table, get_address(tables[-1]))
        parts.append([Call(kernel, (*addresses, 0, 1, min(step, length - start)))])
    task = Task(parts)
    task.keep(*tables)
    return task
