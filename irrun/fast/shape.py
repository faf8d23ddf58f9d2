"""Shape operations with constant shapes and axes: the result's shape is computed once per shape of the input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import I64, MAX_BYTES, Array, Memo, freeze, make_placeholder, to_int_tuple
from irrun.shapes import MAX_RANK

__all__: list[str] = []

#: Results of Broadcast and Tile with at most this many elements are copied, which is faster than creating a view.
MAX_COPIED = 1 << 15


@specializes("Unsqueeze-1")
def specialize_unsqueeze(site: CallSite) -> SpecializedKernel | None:
    """Index with new axes, whose positions depend on the rank only."""
    if site.variable_inputs != (0,):
        return None

    @Memo
    def indices(rank: int) -> tuple[Any, ...]:
        shape = site.call_plain(make_placeholder((2,) * rank)).shape
        return (*[np.newaxis if n == 1 else slice(None) for n in shape], ...)

    def compute(data: Array) -> Any:
        return data[indices[data.ndim]]

    return compute


@specializes("Squeeze-1", "Squeeze-15")
def specialize_view(site: CallSite) -> SpecializedKernel | None:
    """Reshape to the shape that the plain kernel returns."""
    if site.variable_inputs != (0,):
        return None

    @Memo
    def targets(shape: tuple[int, ...]) -> Any:
        return site.call_plain(make_placeholder(shape)).shape

    def compute(data: Array) -> Any:
        return data.reshape(targets[data.shape])

    return compute


@specializes("Reshape-1")
def specialize_reshape(site: CallSite) -> SpecializedKernel | None:
    """Call `reshape` with a constant shape, or with the values of a variable one if they mean the same to NumPy."""
    pattern = site.get_constant(1)
    if site.variable_inputs == (0, 1):
        return _specialize_variable_reshape(site)
    if pattern is None or pattern.dtype.kind not in "iu":
        return None
    target = to_int_tuple(pattern)
    if not pattern.ndim or any(n < 1 for n in target):
        return specialize_view(site)

    def compute(data: Array) -> Array:
        return data.reshape(target)

    return compute


def _specialize_variable_reshape(site: CallSite) -> SpecializedKernel:
    call_plain = site.call_plain

    def compute(data: Array, pattern: Array) -> Any:
        target = pattern.tolist()
        if 0 in target or pattern.dtype.kind not in "iu" or min(target) < -1:  # min raises an error if it is empty
            return call_plain(data, pattern)
        return data.reshape(target)

    return compute


@specializes("ShapeOf-1", "ShapeOf-3")
def specialize_shape_of(site: CallSite) -> SpecializedKernel:
    """Return the same array for the same shape."""
    attribute = site.attributes.get("output_type")
    dtype = I64 if attribute is None else attribute.dtype

    @Memo
    def results(shape: tuple[int, ...]) -> Array:
        return freeze(np.array(shape, dtype))

    def compute(data: Array) -> Any:
        return results[data.shape]

    return compute


@specializes("Broadcast-1", "Broadcast-3")
def specialize_broadcast(site: CallSite) -> SpecializedKernel | None:
    """Copy `data` into a small result; larger results stay views."""
    mode = site.attributes.get("mode", "numpy")
    if mode not in ("numpy", "bidirectional") or site.has_input(2):
        return None
    if site.variable_inputs == (0,):
        return _specialize_constant_broadcast(site)
    if mode == "numpy" and site.variable_inputs in ((1,), (0, 1)):
        return _specialize_variable_broadcast(site)
    return None


def _specialize_constant_broadcast(site: CallSite) -> SpecializedKernel:
    call_plain = site.call_plain

    @Memo
    def targets(shape: tuple[int, ...]) -> Any:
        """Return the shape of a small result, or None."""
        view = call_plain(make_placeholder(shape))
        return view.shape if view.size <= MAX_COPIED else None

    def compute(data: Array) -> Any:
        target = targets[data.shape]
        if target is None:
            return call_plain(data)
        result = np.empty(target, data.dtype)
        result[...] = data
        return result

    return compute


def _specialize_variable_broadcast(site: CallSite) -> SpecializedKernel:
    call_plain = site.call_plain
    data = site.get_constant(0)

    def compute(data: Array, target_shape: Array) -> Any:
        if target_shape.dtype.kind not in "iu" or not data.ndim <= target_shape.size <= MAX_RANK:
            return call_plain(data, target_shape)
        target = target_shape.tolist()
        if math.prod(target) > MAX_COPIED:
            return call_plain(data, target_shape)
        result = np.empty(target, data.dtype)
        result[...] = data
        return result

    if data is None:
        return compute
    constant = data

    def compute_constant(target_shape: Array) -> Any:
        target = target_shape.tolist()
        if target_shape.dtype.kind not in "iu" or len(target) < constant.ndim or math.prod(target) > MAX_COPIED:
            return call_plain(target_shape)
        result = np.empty(target, constant.dtype)
        result[...] = constant
        return result

    return compute_constant


@specializes("Tile-1")
def specialize_tile(site: CallSite) -> SpecializedKernel | None:
    """Copy `data` into the repeats in one assignment, for constant repeats."""
    repeats = site.get_constant(1)
    if repeats is None or repeats.dtype.kind not in "iu":
        return None
    counts = tuple(max(0, count) for count in to_int_tuple(repeats))
    call_plain = site.call_plain

    @Memo
    def shapes(shape: tuple[int, ...]) -> Any:
        return _compute_tile_shapes(shape, counts)

    def compute(data: Array) -> Any:
        source, expanded, target = shapes[data.shape]
        if math.prod(target) * data.itemsize > MAX_BYTES:
            return call_plain(data)
        result = np.empty(expanded, data.dtype)
        result[...] = data.reshape(source)
        return result.reshape(target)

    return compute


def _compute_tile_shapes(
    shape: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of the data (with an axis of size 1 for each repeat), of the repeats, and of the result."""
    rank = max(len(shape), len(counts))
    sizes = (1,) * (rank - len(shape)) + shape
    repeats = (1,) * (rank - len(counts)) + counts
    pairs = list(zip(repeats, sizes, strict=True))
    source = tuple(d for size in sizes for d in (1, size))
    expanded = tuple(d for pair in pairs for d in pair)
    return source, expanded, tuple(count * size for count, size in pairs)


@specializes("Range-1", "Range-4")
def specialize_range(site: CallSite) -> SpecializedKernel | None:
    """Call `np.arange` for short ranges of i32 and i64."""
    attribute = site.attributes.get("output_type")
    call_plain = site.call_plain
    constants = [site.get_constant(i) for i in range(3)]
    numbers = [None if c is None else c.item() if c.size == 1 and c.dtype.kind == "i" else 0.0 for c in constants]
    if float in map(type, numbers):
        return None
    default = None if attribute is None else attribute.dtype
    if default is not None and default.kind != "i":
        return None

    def compute(*inputs: Array) -> Any:
        variable = iter(inputs)
        start, stop, step = [next(variable).item() if n is None else n for n in numbers]
        dtype: Any = default
        if dtype is None:
            dtype = inputs[0].dtype if numbers[0] is None else constants[0].dtype  # type: ignore[union-attr]
        # Values other than Python integers are floats or booleans; the plain kernel truncates them.
        if type(start) is type(stop) is type(step) is int and abs(stop - start) < 1 << 20 and dtype.kind == "i":
            return np.arange(start, stop, step, dtype=dtype)
        return call_plain(*inputs)

    return compute
