"""Interpolate of f32 along the last two axes: products with banded matrices, or copies for integer factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from irrun.fast.convolution_problem import count_products
from irrun.fast.scratch import get_scratch
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, Array, has_nan
from irrun.fast.transposition import make_contiguous
from irrun.limits import check_allocation
from irrun.threads import run_parallel, split_range

__all__ = ["MAX_LENGTH", "Interpolation"]

#: Number of results per product with a part of a banded matrix.
BAND_BLOCK = 64
#: Number of results computed at a time.
BLOCK_SIZE = 1 << 18
MAX_LENGTH = 4096
MAX_SHAPES = 16


@dataclass(frozen=True)
class _Axis:
    """The resizing of one axis.

    Attributes:
        matrix: Shape [target, size]: the weights of the elements; None if the axis does not change.
        bands: Ranges of the result with the range of elements that they depend on.
        target: The new length.
    """

    matrix: Array | None
    bands: tuple[tuple[slice, slice], ...]
    target: int


@specializes("Interpolate-4", "Interpolate-11")
def specialize_interpolate(site: CallSite) -> SpecializedKernel | None:
    """Find the weights, or the indices, of each axis by applying the plain kernel to a single axis."""
    attributes = site.attributes
    if attributes["mode"] not in ("linear", "linear_onnx", "cubic", "nearest") or attributes.get("antialias"):
        return None
    if any(attributes.get("pads_begin", ())) or any(attributes.get("pads_end", ())) or site.get_constant(0) is not None:
        return None
    return Interpolation(site)


class Interpolation:
    """Interpolate for one call site.

    Args:
        site: The call site.
    """

    def __init__(self, site: CallSite) -> None:
        self.site = site
        self.is_v4 = site.operation.since == 4
        uses_scales = site.attributes["shape_calculation_mode"] == "scales"
        self.position = 2 if self.is_v4 and uses_scales else 1
        self.axes_position = 3 if self.is_v4 else 2
        self.resizers: dict[object, Callable[[Array], Array | None] | None] = {}

    def __call__(self, *inputs: Array) -> Any:
        """Interpolate."""
        site = self.site
        arguments = list(site.constants)
        for index, value in zip(site.variable_inputs, inputs, strict=True):
            arguments[index] = value
        data, target = arguments[0], arguments[self.position]
        axes = arguments[self.axes_position] if site.has_input(self.axes_position) else None
        if data is None or target is None or data.dtype is not F32:
            return site.call_plain(*inputs)
        key = (data.shape, *target.reshape(-1).tolist(), None, *([] if axes is None else axes.reshape(-1).tolist()))
        if key not in self.resizers:
            if len(self.resizers) >= MAX_SHAPES:
                self.resizers.clear()
            self.resizers[key] = self.make_resizer(data.shape, target, axes)
        resize = self.resizers[key]
        result = None if resize is None else resize(data)
        return site.call_plain(*inputs) if result is None else result

    def make_resizer(
        self, shape: tuple[int, ...], target: Array, axes: Array | None
    ) -> Callable[[Array], Array | None] | None:
        """Return the function that resizes data of a shape, or None if the plain kernel stays."""
        rank, values = len(shape), target.reshape(-1).tolist()
        numbers = (
            list(range(rank))
            if axes is None
            else [int(a) % rank for a in axes.reshape(-1).tolist() if -rank <= a < rank]
        )
        targets = dict(zip(numbers, values, strict=False))
        is_regular = len(targets) == len(values) == (rank if axes is None else axes.size)
        if not is_regular or rank < 3 or 0 in shape or max(shape[-2:]) > MAX_LENGTH:
            return None
        for axis in range(rank - 2):
            kept = 1.0 if isinstance(values[0], float) else shape[axis]
            if targets.get(axis, kept) != kept:
                return None
        rows, columns = (self.resize_axis(n, targets.get(rank - 2 + i)) for i, n in enumerate(shape[-2:]))
        if rows is None or columns is None:
            return None
        return self.combine_axes(rows, columns)

    def combine_axes(self, rows: Array, columns: Array) -> Callable[[Array], Array | None] | None:
        """Return the function that resizes data, or None if the plain kernel stays.

        Args:
            rows: The matrix [target, size] of the resizing of the rows.
            columns: The matrix of the resizing of the columns.

        Returns:
            A function that returns None if the plain kernel gives another result.
        """
        if self.site.attributes["mode"] == "nearest":
            row_factor, column_factor = _find_factor(rows), _find_factor(columns)
            return partial(_repeat, rows=row_factor, columns=column_factor) if row_factor and column_factor else None
        return partial(_multiply, rows=_make_axis(rows), columns=_make_axis(columns))

    def resize_axis(self, size: int, value: Any) -> Array | None:
        """Return the matrix [target, size] of the resizing of an axis, or None if the axis is too long."""
        identity = np.eye(size, dtype=np.float32)
        if value is None:
            return identity
        sizes = [np.array([value])] * (2 if self.is_v4 else 1)
        matrix: Array = self.site.operation.kernel(identity, *sizes, np.array([0]), **self.site.attributes)
        return matrix if 0 < matrix.shape[0] <= MAX_LENGTH else None


def _make_axis(matrix: Array) -> _Axis:
    target, size = matrix.shape
    if target == size and np.array_equal(matrix, np.eye(size)):
        return _Axis(None, (), size)
    bands = []
    for part in split_range(target, -(-target // BAND_BLOCK)):
        used = np.flatnonzero(matrix[part].any(axis=0))
        bands.append((part, slice(int(used[0]), int(used[-1]) + 1)))
    return _Axis(np.ascontiguousarray(matrix), tuple(bands), target)


def _find_factor(matrix: Array) -> int:
    """Return the integer factor that an axis is repeated by, or 0."""
    target, size = matrix.shape
    factor = target // size
    return factor if np.array_equal(matrix, np.repeat(np.eye(size), factor, axis=0)) else 0


def _repeat(x: Array, rows: int, columns: int) -> Array:
    """Repeat the elements of the last two axes."""
    *lead, height, width = x.shape
    shape = (*lead, height, rows, width, columns)
    check_allocation(shape, F32)
    result = np.empty(shape, F32)
    for column in range(columns):
        result[..., 0, :, column] = x
    for row in range(1, rows):
        result[..., row, :, :] = result[..., 0, :, :]
    return result.reshape(*lead, height * rows, width * columns)


def _multiply(x: Array, rows: _Axis, columns: _Axis) -> Array | None:
    """Resize the last two axes, or return None if weights of 0 turned infinity into NaN."""
    *lead, height, width = x.shape
    if rows.matrix is None and columns.matrix is None:
        return x
    data = make_contiguous(x).reshape(-1, height, width)
    check_allocation((len(data), rows.target, columns.target), F32)
    result = np.empty((len(data), rows.target, columns.target), F32)
    work = sum(
        len(data) * n * (part.stop - part.start) * (used.stop - used.start)
        for axis, n in ((columns, height), (rows, columns.target))
        for part, used in axis.bands
    )
    blocks = -(-result.size // BLOCK_SIZE)
    parts = split_range(len(data), max(blocks, count_products(work)))

    def compute_part(number: int) -> None:
        part = parts[number]
        block, target = data[part], result[part]
        count = len(block)
        if columns.matrix is not None:
            out = target if rows.matrix is None else get_scratch("resized", count, height, columns.target)
            flat, flat_out = block.reshape(-1, width), out.reshape(-1, columns.target)
            for piece, used in columns.bands:
                np.matmul(flat[:, used], columns.matrix[piece, used].T, out=flat_out[:, piece])
            block = out
        if rows.matrix is not None:
            for piece, used in rows.bands:
                np.matmul(rows.matrix[piece, used], block[:, used], out=target[:, piece])

    run_parallel(compute_part, len(parts))
    return None if has_nan(result) else result.reshape(*lead, rows.target, columns.target)
