"""Helpers of specialized kernels: dtypes, scalar operands, and computation in tiles.

NumPy's dtypes are singletons, so that `x.dtype is F32` is the fastest check of a type. An array whose dtype is equal
but not identical (with metadata, or in another byte order) fails it, and the plain kernel runs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite
from irrun.limits import LARGE
from irrun.processor import allows_feature, find_features
from irrun.shapes import MAX_RANK
from irrun.threads import run_parallel

try:  # np.clip adds microseconds of checks
    from numpy._core.umath import clip  # type: ignore[attr-defined]
except ImportError:  # NumPy 1
    from numpy.core.umath import clip  # type: ignore[no-redef]

__all__ = [
    "BLOCK",
    "BOOL",
    "F32",
    "F64",
    "HAS_AVX512",
    "I32",
    "I64",
    "MAX_BYTES",
    "NATIVE",
    "NATIVE_FLOATS",
    "NATIVE_INTEGERS",
    "ONE",
    "TILE",
    "ZERO",
    "Array",
    "Memo",
    "apply_in_tiles",
    "call_by_rows",
    "clip",
    "count_blocks",
    "find_contiguous_order",
    "freeze",
    "get_axis",
    "has_nan",
    "make_placeholder",
    "merge_axes",
    "to_int_tuple",
    "to_operand",
]

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

BOOL = np.dtype(np.bool_)
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
I32 = np.dtype(np.int32)
I64 = np.dtype(np.int64)
NATIVE_FLOATS: frozenset[Dtype] = frozenset((F32, F64))
NATIVE_INTEGERS: frozenset[Dtype] = frozenset(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8))
#: Types with the same arithmetic in NumPy and in the plain kernels.
NATIVE: frozenset[Dtype] = NATIVE_FLOATS | NATIVE_INTEGERS

#: Arrays of more elements are computed by blocks.
TILE = 1 << 16
#: Elements that a function of several passes computes at a time: few enough for the processor's cache, enough that
#: each of NumPy's calls takes so long that two threads rarely wait for the interpreter's lock.
BLOCK = 1 << 18
#: Results of unknown size beyond this are left to the plain kernel, which checks them against the memory limit.
MAX_BYTES = LARGE


#: Whether NumPy computes functions of f32 with AVX-512, as its builds for Linux do, and IRRUN_CPU allows that.
HAS_AVX512 = sys.platform == "linux" and bool(find_features().get("AVX512_SKX")) and allows_feature("avx512f")

#: Maximum number of entries of a `Memo`.
MAX_ENTRIES = 4


class Memo(dict[Any, Any]):
    """A table with entries computed at the first lookup, such as indices for inputs of one shape.

    Use it as the decorator of a function of one hashable key, and look entries up with brackets, without a Python
    call::

        @Memo
        def targets(shape): ...

        data.reshape(targets[data.shape])

    Threads may look up entries concurrently. Only a few entries are kept.

    Args:
        compute: Returns the entry of a key.
    """

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: Any) -> Any:
        if len(self) >= MAX_ENTRIES:
            self.clear()
        value = self[key] = self._compute(key)
        return value


def make_placeholder(shape: tuple[int, ...]) -> Array:
    """Return an array of a shape without memory, for plain kernels where only the shapes of results matter."""
    return np.broadcast_to(ZERO, shape)


#: NumPy's settings of ufuncs in the current context, and settings with the smallest buffers.
_settings: Any = None
with contextlib.suppress(ImportError, TypeError, ValueError), np.errstate(all="ignore"):  # other versions of NumPy
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _SMALL_BUFFERS = _make_extobj(bufsize=16)
    _settings = _extobj_contextvar
#: Rows of at least this many elements are faster to compute one by one than to copy to buffers.
MIN_ROW = 400


def call_by_rows(length: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; its ufuncs compute row by row if rows are long.

    NumPy copies operands with rows that are not adjacent, such as a value per row, to buffers of 8,192 elements, which
    takes longer than the operation itself. With the smallest buffers, it computes each row in place.

    Args:
        length: Elements of a row.
        function: The function.
        arguments: Its arguments.
    """
    if length < MIN_ROW or _settings is None:
        return function(*arguments)
    token = _settings.set(_SMALL_BUFFERS)
    try:
        return function(*arguments)
    finally:
        _settings.reset(token)


def freeze(value: Array) -> Array:
    """Return `value`, made read-only because several runs share it."""
    value.flags.writeable = False
    return value


#: Scalars of f32. NumPy converts other numbers in every call.
ZERO = freeze(np.zeros((), np.float32))
ONE = freeze(np.ones((), np.float32))


def to_operand(value: Array | None) -> Array | None:
    """Return a constant as the operand of a ufunc. A single element has no dimensions, which is much faster.

    The result has the shape that broadcasting would produce only if the other operand has at least the rank of
    `value`.
    """
    return value.reshape(()) if value is not None and value.size == 1 else value


def to_int_tuple(value: Array) -> tuple[int, ...]:
    """Return the elements of a constant as Python integers."""
    return tuple(int(v) for v in value.reshape(-1).tolist())


def get_axis(site: CallSite, position: int) -> int | None:
    """Return a constant axis, or None if the input is not a constant of one element in the range of all ranks."""
    value = site.get_constant(position)
    if value is None or value.size != 1 or value.ndim > 1 or value.dtype.kind not in "iu":
        return None
    axis = int(value.item())
    return axis if -MAX_RANK <= axis < MAX_RANK else None


def has_nan(x: Array) -> bool:
    """Return whether a floating-point array contains NaN."""
    total = np.vdot(x, x)  # squares cannot cancel: the sum is NaN if and only if an element is
    return bool(total != total)


def merge_axes(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Drop axes of one element, merge axes where all arrays allow it, and return the sizes and strides.

    Args:
        shape: The shape of all arrays.
        strides: The strides of each array, in any unit. An axis over which an array repeats has the stride 0.
    """
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(own[-1] == all_[axis] * size for own, all_ in zip(steps, strides, strict=True)):
            sizes[-1] *= size
            for own, all_ in zip(steps, strides, strict=True):
                own[-1] = all_[axis]
        else:
            sizes.append(size)
            for own, all_ in zip(steps, strides, strict=True):
                own.append(all_[axis])
    if not sizes:
        return [1], [[1] for _ in strides]
    return sizes, steps


def find_contiguous_order(x: Array) -> tuple[tuple[int, ...], Array] | None:
    """Return an order of axes that makes an array contiguous, and the array in this order, or None."""
    order = tuple(sorted(range(x.ndim), key=lambda axis: (-x.strides[axis], axis)))
    transposed = x.transpose(order)
    return (order, transposed) if transposed.flags.c_contiguous else None


def count_blocks(size: int) -> int:
    """Return the number of blocks that elements are divided into: even if there are several."""
    return 1 if size < BLOCK else 2 * -(-size // (2 * BLOCK))


def apply_in_tiles(function: Callable[[Array, Array], object], x: Array) -> Array:
    """Compute an elementwise function of several passes block by block.

    Args:
        function: Takes an array of f32, and the array that it writes its result to.
        x: f32, any shape.
    """
    if not x.flags.c_contiguous and x.size > TILE:
        transposed = find_contiguous_order(x)
        if transposed is not None:
            order, contiguous = transposed
            computed: Array = apply_in_tiles(function, contiguous).transpose(np.argsort(order))
            return computed
    result = np.empty(x.shape, F32)
    if x.size < BLOCK or not x.flags.c_contiguous:
        function(x, result)
        return result
    source, target = x.reshape(-1), result.reshape(-1)

    count = count_blocks(x.size)
    length = -(-x.size // count)

    def compute_block(number: int) -> None:
        block = slice(number * length, (number + 1) * length)
        function(source[block], target[block])

    run_parallel(compute_block, count)
    return result
