"""Kernels of elementwise functions on values of any strides: nested loops with a vectorized innermost loop.

A kernel is compiled for the function, the types and the number of axes; shapes and strides are its arguments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import Shape
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import apply_to_row
from irrun.fast.jit.tasks import Call, Task, make_base
from irrun.fast.support import merge_axes

__all__ = ["LLVM_TYPES", "Copy", "Elementwise", "StridedLayout", "make_nest"]

F32 = np.dtype(np.float32)

#: Types in memory. Booleans are bytes of 0 and 1.
LLVM_TYPES = {F32: "float", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64", np.dtype(np.bool_): "i8"}
_COPY_TYPES = {1: np.dtype(np.bool_), 4: F32, 8: np.dtype(np.int64)}

#: Minimum number of elements for dividing the outermost axis between threads, and maximum number of parts.
MIN_SHARED_SIZE, MAX_PARTS = 1 << 16, 16


class Elementwise(Hashable, Protocol):
    """An elementwise function. Equal functions have equal code, and equal hashes."""

    @property
    def result_count(self) -> int:
        """Return the number of results."""

    @property
    def is_vector(self) -> bool:
        """Return whether it computes vectors of f32; otherwise it computes scalars of any types."""

    def emit(self, function: Function, values: Sequence[Value]) -> Sequence[Value]:
        """Append the instructions that compute the results from the operands; booleans are values of type i1."""


class StridedLayout(NamedTuple):
    """The layout of a value.

    Attributes:
        shape: Its shape.
        strides: Its strides in bytes, of any sign.
        dtype: Its type.
    """

    shape: Shape
    strides: Shape
    dtype: np.dtype[Any]


class Copy(NamedTuple):
    """The function that returns its operand."""

    result_count: int = 1
    is_vector: bool = True

    def emit(self, function: Function, values: Sequence[Value]) -> Sequence[Value]:
        """Return the operand."""
        return values


def make_nest(
    element: Elementwise, shape: Shape, results: Sequence[StridedLayout], operands: Sequence[StridedLayout]
) -> Task:
    """Return the task that computes a function, for the addresses of the results and of the operands.

    Args:
        element: The function.
        shape: The shape to which the operands broadcast. It is not empty.
        results: The layouts of the results. They have this shape.
        operands: The layouts of the operands.

    Raises:
        NoKernelError: A value has a type or strides that kernels do not support.
    """
    if not math.prod(shape):
        raise NoKernelError("a value is empty")
    layouts = [*results, *operands]
    if isinstance(element, Copy):
        layouts = [_get_bits(layout) for layout in layouts]
    for layout in layouts:
        if layout.dtype not in LLVM_TYPES:
            raise NoKernelError(f"kernels do not compute values of type {layout.dtype}")
        if any(stride % layout.dtype.itemsize for stride in layout.strides):
            raise NoKernelError("the elements are not aligned")
    sizes, steps = merge_axes(shape, [_broadcast(layout, shape) for layout in layouts])
    types = tuple(LLVM_TYPES[layout.dtype] for layout in layouts)
    is_vector = element.is_vector and set(types) == {"float"} and all(s[-1] == 1 for s in steps[: len(results)])
    if element.is_vector and not is_vector and not isinstance(element, Copy):
        raise NoKernelError("expected results whose rows are contiguous")
    kinds = tuple(min(max(s[-1], -1), 2) if is_vector else 2 for s in steps)
    kernel = _compile_nest(element, len(sizes), types, tuple(2 if kind < 0 else kind for kind in kinds), is_vector)
    return Task([[Call(kernel, arguments)] for arguments in _divide(sizes, steps, layouts)])


def _divide(sizes: Sequence[int], steps: Sequence[Sequence[int]], layouts: Sequence[StridedLayout]) -> list[list[Any]]:
    """Return the arguments of the kernel for each part of the outermost axis."""
    count = 1
    if math.prod(sizes) >= MIN_SHARED_SIZE and len(sizes) > 1:
        count = min(MAX_PARTS, sizes[0])
    bounds = [sizes[0] * i // count for i in range(count + 1)]
    numbers = [step for own in steps for step in own]
    calls = []
    for first, last in itertools.pairwise(bounds):
        places = [
            make_base(i).move(first * own[0] * layout.dtype.itemsize)
            for i, (own, layout) in enumerate(zip(steps, layouts, strict=True))
        ]
        calls.append([*places, last - first, *sizes[1:], *numbers])
    return calls


def _get_bits(layout: StridedLayout) -> StridedLayout:
    """Return a layout with a type of the same size that kernels can copy."""
    if layout.dtype.kind == "O" or layout.dtype.itemsize not in _COPY_TYPES:
        raise NoKernelError(f"kernels do not copy values of type {layout.dtype}")
    return layout._replace(dtype=_COPY_TYPES[layout.dtype.itemsize])


def _broadcast(layout: StridedLayout, shape: Shape) -> tuple[int, ...]:
    """Return the strides of a value in elements, 0 along axes where it repeats."""
    missing = len(shape) - len(layout.shape)
    own = (1,) * missing + layout.shape
    if missing < 0 or any(d not in (1, n) for d, n in zip(own, shape, strict=True)):
        raise NoKernelError("an operand does not broadcast to the result")
    strides = (0,) * missing + layout.strides
    return tuple(0 if d == 1 else s // layout.dtype.itemsize for d, s in zip(own, strides, strict=True))


@cache_kernel
def _compile_nest(
    element: Elementwise, rank: int, types: tuple[str, ...], kinds: tuple[int, ...], is_vector: bool
) -> Kernel:
    """Return the kernel of a function.

    Args:
        element: The function.
        rank: The number of axes.
        types: The types of the results and of the operands.
        kinds: For each value, 0 if it is constant along the innermost axis, 1 if it is contiguous, else 2.
        is_vector: Whether the innermost loop computes vectors.
    """
    count = len(types)
    integers = [f"size{axis}" for axis in range(rank)]
    integers += [f"step{i}_{axis}" for i in range(count) for axis in range(rank)]
    parameters = [*((f"array{i}", "ptr") for i in range(count)), *((name, "i64") for name in integers)]
    f = Function("nest", parameters, get_lanes())
    p = f.parameters
    result_count = element.result_count

    def move(pointers: Sequence[Value], index: Value, axis: int) -> list[Value]:
        return [
            f.offset(pointer, index * p[f"step{i}_{axis}"], type_)
            for i, (pointer, type_) in enumerate(zip(pointers, types, strict=True))
        ]

    def compute_scalars(pointers: Sequence[Value]) -> None:
        with f.loop(0, p[f"size{rank - 1}"]) as index:
            places = move(pointers, index, rank - 1)
            values = [f.load(places[i], types[i]) for i in range(result_count, count)]
            if not isinstance(element, Copy):
                values = [f.compare("ne", value, 0) if value.type == "i8" else value for value in values]
            for q, value in zip(places, element.emit(f, values), strict=False):
                f.store(f.convert("zext", value, "i8") if value.type == "i1" else value, q)

    def compute_vectors(pointers: Sequence[Value]) -> None:
        length = p[f"size{rank - 1}"]
        splats = [f.splat(f.load(q), f.vector) if kind == 0 else None for q, kind in zip(pointers, kinds, strict=True)]
        lanes = f.convert("sext", f.lane_numbers(), f.integers(64)) if 2 in kinds else None

        def load(i: int, position: Value, mask: Value | None) -> Value:
            splat = splats[i]
            if splat is not None:
                return splat
            if lanes is None or kinds[i] == 1:
                return f.load(f.offset(pointers[i], position), f.vector, mask)
            step = p[f"step{i}_{rank - 1}"]
            everything = Value(f, f"<{f.lanes} x i1>", "<" + ", ".join(["i1 true"] * f.lanes) + ">")
            base = f.offset(pointers[i], position * step)
            return f.gather(base, lanes * f.splat(step, f.integers(64)), everything if mask is None else mask)

        def compute(position: Value, mask: Value | None) -> None:
            values = [load(i, position, mask) for i in range(result_count, count)]
            for q, value in zip(pointers, element.emit(f, values), strict=False):
                f.store(value, f.offset(q, position), mask)

        apply_to_row(f, length, compute)

    def walk(axis: int, pointers: Sequence[Value]) -> None:
        if axis == rank - 1:
            (compute_vectors if is_vector else compute_scalars)(pointers)
            return
        with f.loop(0, p[f"size{axis}"]) as index:
            walk(axis + 1, move(pointers, index, axis))

    walk(0, [p[f"array{i}"] for i in range(count)])
    return compile_function(f)
