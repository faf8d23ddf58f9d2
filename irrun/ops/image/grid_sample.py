"""GridSample: values of an image at given places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.cubic_interpolation import cubic_weights
from irrun.ops._support.numerics import Array, is_integer, truncate_to, upcast
from irrun.ops._support.registry import op

__all__ = ["grid_sample_9"]

PaddingMode = Literal["zeros", "border", "reflection"]

#: Where a tap reads, and its weight.
Taps = Sequence[tuple[Array, Array]]


@op("GridSample", since=9)
def grid_sample_9(
    data: Array,
    grid: Array,
    *,
    align_corners: bool = False,
    mode: Literal["bilinear", "bicubic", "nearest"] = "bilinear",
    padding_mode: PaddingMode = "zeros",
) -> Array:
    """Values of `data` at the places in `grid`, interpolated.

    data: any numeric type or boolean, [N, C, H, W]; grid: float [N, H_out, W_out, 2], pairs (x, y) that run
    from -1 to 1 over the image.
    Returns [N, C, H_out, W_out] of the type of data; fractions are cut off for integers and for booleans.
    Raises InputError where the shapes do not fit, or data has no pixels and what is outside is not zero.
    Spec: GridSample-9.
    """
    if data.ndim != 4 or grid.ndim != 4 or grid.shape[3] != 2 or data.shape[0] != grid.shape[0]:
        raise InputError(
            f"data has shape {list(data.shape)} and grid {list(grid.shape)}, "
            "expected [N, C, H, W] and [N, H_out, W_out, 2]"
        )
    if data.dtype == np.bool_:
        numbers = grid_sample_9(
            data.view(np.int8), grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode
        )
        return numbers.astype(np.bool_)
    n, channels, height, width = data.shape
    shape = (n, channels, *grid.shape[1:3])
    if 0 in shape or (0 in (height, width) and padding_mode == "zeros"):
        return np.zeros(shape, data.dtype)
    if 0 in (height, width):
        raise InputError(f"there is nothing to sample in data of shape {list(data.shape)}")
    places = upcast(grid).reshape(n, -1, 2)
    x = _denormalized(places[..., 0], width, align_corners)
    y = _denormalized(places[..., 1], height, align_corners)
    sample = _sampler(data, padding_mode, align_corners)
    if mode == "nearest":
        return sample(_whole(np.rint(y)), _whole(np.rint(x))).reshape(shape)
    taps = _linear_taps if mode == "bilinear" else _cubic_taps
    columns = taps(x)
    lines = [(_weighted([(sample(row, column), w) for column, w in columns]), w_y) for row, w_y in taps(y)]
    return truncate_to(_weighted(lines), data.dtype).reshape(shape)


def _denormalized(place: Array, size: int, align_corners: bool) -> Array:
    """Places from -1 to 1 as coordinates of pixels."""
    one, two, pixels = (place.dtype.type(x) for x in (1, 2, size))
    if align_corners:
        place = (place + one) * (pixels - one) / two
    else:
        place = ((place + one) * pixels - one) / two
    return place


def _sampler(data: Array, padding_mode: PaddingMode, align_corners: bool) -> Callable[[Array, Array], Array]:
    """A function that reads pixels [N, C, P] at whole rows and columns [N, P], inside the image or not."""
    n, channels, height, width = data.shape
    flat = data.reshape(n, channels, height * width)

    def inner(place: Array, size: int) -> Array:
        if padding_mode == "reflection":
            return _reflected(place, size, align_corners)
        return np.clip(place, 0, size - 1)

    def sample(rows: Array, columns: Array) -> Array:
        index = inner(rows, height) * width + inner(columns, width)
        value = np.take_along_axis(flat, index[:, None], axis=2)
        if padding_mode == "zeros":
            outside = (rows < 0) | (rows >= height) | (columns < 0) | (columns >= width)
            value[np.broadcast_to(outside[:, None], value.shape)] = 0
        return value

    return sample


def _reflected(place: Array, size: int, align_corners: bool) -> Array:
    """Whole coordinates mirrored into the image: at the edges' pixels or, not aligned, between pixels."""
    if align_corners:
        period = max(1, 2 * (size - 1))
        place = np.abs(place) % period
        return np.where(place >= size, period - place, place)
    place = place % (2 * size)
    return np.where(place >= size, 2 * size - 1 - place, place)


def _linear_taps(x: Array) -> Taps:
    start = np.floor(x)
    d = x - start
    one = x.dtype.type(1)
    return [(_whole(start), one - d), (_whole(start + one), d)]


def _cubic_taps(x: Array) -> Taps:
    start = np.floor(x)
    first = _whole(start - x.dtype.type(1))
    return [(first + i, weight) for i, weight in enumerate(cubic_weights(x - start, -0.75))]


def _whole(x: Array) -> Array:
    return x.astype(np.int64)


def _weighted(terms: Sequence[tuple[Array, Array]]) -> Array:
    """The sum of values [N, C, P] times weights [N, P], in the order given."""
    total: Array | None = None
    for value, weight in terms:
        wide = value.astype(np.float32) if is_integer(value.dtype) else upcast(value)
        term = weight[:, None].astype(wide.dtype, copy=False) * wide
        total = term if total is None else total + term
    assert total is not None
    return total
