"""GridSample: interpolation of an image at arbitrary coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.blocks import iterate_blocks
from irrun.ops._support.cubic_interpolation import compute_cubic_weights
from irrun.ops._support.flops import Call
from irrun.ops._support.numerics import Array, cast_to_integers, is_integer, truncate_to, upcast
from irrun.ops._support.registry import op

__all__ = ["grid_sample_9"]

Mode = Literal["bilinear", "bicubic", "nearest"]
PaddingMode = Literal["zeros", "border", "reflection"]

#: Indices and weights of the samples along one axis.
Taps = Sequence[tuple[Array, Array]]


def _count_flops(call: Call) -> int:
    """Count two operations for each tap."""
    return call.outputs[0].size * {"nearest": 0, "bilinear": 8, "bicubic": 32}[call.attributes["mode"]]


@op("GridSample", since=9, kind="window", shape="infer_grid_sample", shaped_by=(), flops=_count_flops)
def grid_sample_9(
    data: Array,
    grid: Array,
    *,
    align_corners: bool = False,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
) -> Array:
    """Interpolate `data` at the coordinates in `grid`.

    Args:
        data: Numeric or boolean, shape [N, C, H, W].
        grid: Floating-point, shape [N, H_out, W_out, 2]. Pairs (x, y), where -1 and 1 are the edges of the image.
        align_corners: Whether -1 and 1 are the centers of the pixels at the edges instead of their outer sides.
        mode: Interpolation method.
        padding_mode: Values outside of the image: zeros, the nearest pixel of the edge, or the image mirrored.

    Returns:
        Shape [N, C, H_out, W_out], the type of `data`. Integers and booleans are truncated.

    Raises:
        InputError: The shapes do not match, or `data` has no pixels and `padding_mode` is not "zeros".

    Spec:
        GridSample-9
    """
    if data.ndim != 4 or grid.ndim != 4 or grid.shape[3] != 2 or data.shape[0] != grid.shape[0]:
        raise InputError(
            f"data has shape {list(data.shape)} and grid {list(grid.shape)}, "
            "expected [N, C, H, W] and [N, H_out, W_out, 2]"
        )
    n, channels, height, width = data.shape
    shape = (n, channels, *grid.shape[1:3])
    if 0 in shape or (0 in (height, width) and padding_mode == "zeros"):
        return np.zeros(shape, data.dtype)
    if 0 in (height, width):
        raise InputError(f"data has shape {list(data.shape)}, expected at least one pixel")
    pixels = data.view(np.int8) if data.dtype == np.bool_ else data
    coordinates = grid.reshape(n, -1, 2)
    result: Array = _sample(pixels, coordinates, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    return result.reshape(shape).astype(data.dtype, copy=False)


def _sample(data: Array, coordinates: Array, *, mode: Mode, padding_mode: PaddingMode, align_corners: bool) -> Array:
    """Sample `data` at coordinates [N, P, 2] in [-1, 1]. The result has shape [N, C, P]."""
    n, channels, height, width = data.shape
    wide = upcast(data)
    result = np.empty((n, channels, coordinates.shape[1]), data.dtype)
    for block in iterate_blocks(coordinates.shape[1], n * max(channels, 8)):
        points = upcast(coordinates[:, block])
        x = _denormalize(points[..., 0], width, align_corners)
        y = _denormalize(points[..., 1], height, align_corners)
        values = _interpolate(wide, x, y, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
        result[..., block] = values.astype(data.dtype, copy=False)
    return result


def _denormalize(coordinate: Array, size: int, align_corners: bool) -> Array:
    """Convert coordinates in [-1, 1] to pixels."""
    one, two, pixels = (coordinate.dtype.type(value) for value in (1, 2, size))
    scaled = (coordinate + one) * (pixels - one) if align_corners else (coordinate + one) * pixels - one
    return np.asarray(scaled / two)


def _interpolate(
    data: Array, x: Array, y: Array, *, mode: Mode, padding_mode: PaddingMode, align_corners: bool
) -> Array:
    """Interpolate `data` at the pixels (x, y), each [N, P]. The result has shape [N, C, P]."""
    n, channels, height, width = data.shape
    image = _Image(data.reshape(n, channels, height * width), height, width, padding_mode, align_corners)
    if mode == "nearest":
        return image.sample(_to_index(np.rint(y)), _to_index(np.rint(x)))
    compute_taps = _compute_linear_taps if mode == "bilinear" else _compute_cubic_taps
    columns = compute_taps(x)
    rows = [
        (_compute_weighted_sum([(image.sample(row, column), weight) for column, weight in columns]), row_weight)
        for row, row_weight in compute_taps(y)
    ]
    return truncate_to(_compute_weighted_sum(rows), data.dtype)


@dataclass(frozen=True)
class _Image:
    """An image that can be sampled anywhere.

    Attributes:
        pixels: The data [N, C, height * width].
        height: Number of rows.
        width: Number of columns.
        padding_mode: Values outside of the image.
        align_corners: Whether reflection is at the centers of the pixels at the edges.
    """

    pixels: Array
    height: int
    width: int
    padding_mode: PaddingMode
    align_corners: bool

    def sample(self, rows: Array, columns: Array) -> Array:
        """Return the pixels [N, C, P] at integer coordinates [N, P], inside or outside of the image."""
        index = self._move_inside(rows, self.height) * self.width + self._move_inside(columns, self.width)
        values = np.take_along_axis(self.pixels, index[:, None], axis=2)
        if self.padding_mode == "zeros":
            outside = (rows < 0) | (rows >= self.height) | (columns < 0) | (columns >= self.width)
            values[np.broadcast_to(outside[:, None], values.shape)] = 0
        return values

    def _move_inside(self, index: Array, size: int) -> Array:
        if self.padding_mode != "reflection":
            return np.clip(index, 0, size - 1)
        if self.align_corners:
            period = max(1, 2 * (size - 1))
            index = np.abs(index) % period
            return np.where(index >= size, period - index, index)
        index = index % (2 * size)
        return np.where(index >= size, 2 * size - 1 - index, index)


def _compute_linear_taps(x: Array) -> Taps:
    start = np.floor(x)
    distance = x - start
    one = x.dtype.type(1)
    return [(_to_index(start), one - distance), (_to_index(start + one), distance)]


def _compute_cubic_taps(x: Array) -> Taps:
    start = np.floor(x)
    first = _to_index(start - x.dtype.type(1))
    return [(first + i, weight) for i, weight in enumerate(compute_cubic_weights(x - start, -0.75))]


def _to_index(x: Array) -> Array:
    return cast_to_integers(x, np.dtype(np.int64))


def _compute_weighted_sum(terms: Sequence[tuple[Array, Array]]) -> Array:
    """Add up values [N, C, P] times weights [N, P], in order, in f32 or for f64 in f64."""
    total: Array | None = None
    for values, weight in terms:
        wide = values.astype(np.float32) if is_integer(values.dtype) else values
        term = weight[:, None].astype(wide.dtype, copy=False) * wide
        total = term if total is None else total + term
    assert total is not None
    return total
