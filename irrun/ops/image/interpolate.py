"""Interpolate: resizing along any axes.

Along each axis, every element of the result is a weighted sum of a few input elements, its taps. The modes differ in
the indices and weights of the taps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import count_interpolation
from irrun.ops._support.numerics import Array, compute_in_float32, is_integer, round_half_away, truncate_to
from irrun.ops._support.padding import pad_with_constant
from irrun.ops._support.registry import op
from irrun.ops._support.resize_taps import (
    CoordinateMode,
    NearestMode,
    ResizeAxis,
    Taps,
    compute_cubic_taps,
    compute_linear_onnx_taps,
    compute_linear_taps,
    compute_nearest_index,
    compute_pillow_taps,
    normalize_weights,
)

__all__ = ["interpolate_1", "interpolate_4", "interpolate_11"]

ShapeMode = Literal["sizes", "scales"]

F32 = np.float32

#: Added to a scale before the size is rounded down, so that 1 / 3 * 3 is 1.
EPSILON = F32(1e-6)

#: The bytes that coordinates, indices and weights take for each element along an axis of the result.
TAP_BYTES = 136
#: Elements of the result that are computed at a time, few enough for intermediate results to stay in the cache.
BLOCK_SIZE = 1 << 15

_interpolate = partial(
    op, "Interpolate", scratch=2.25, kind="window", shape="infer_interpolation", flops=count_interpolation
)


@_interpolate(since=1, shaped_by=(1,))
def interpolate_1(
    image: Array,
    target_spatial_shape: Array,
    *,
    axes: list[int],
    mode: Literal["nearest", "linear", "linear_onnx", "cubic"],
    align_corners: bool = True,
    antialias: bool = False,
    pads_begin: list[int] = [],
    pads_end: list[int] = [],
) -> Array:
    """Resize `image` to `target_spatial_shape` along `axes`.

    The specification leaves undefined which coordinates "linear" uses and what "area" means. The reference
    implementation decides on the coordinates and does not support "area". It assigns the sizes to the axes in
    ascending order, where the specification assigns them in the order of `axes`.

    Args:
        image: Numeric, any shape.
        target_spatial_shape: Integer, shape [number of axes].
        axes: Axes to resize, in [-rank, rank).
        mode: Interpolation method.
        align_corners: Whether the centers of the corner elements of input and result coincide.
        antialias: Whether "linear" averages over more elements when it reduces the size.
        pads_begin: Padding before each dimension. A single value applies to all of `axes`, as the specification says.
            Values for other dimensions are ignored.
        pads_end: Padding after each dimension, as `pads_begin`.

    Returns:
        The shape of `image` after padding, with the new sizes along `axes`; the type of `image`.

    Raises:
        InputError: An axis is out of range or repeated, or the sizes do not match.

    Spec:
        Interpolate-1
    """
    # The reference implementation stores the axes in a set, so the sizes belong to them in ascending order.
    resized_axes = sorted(normalize_axes(axes, image.ndim))
    begin, end = (_expand_pads(pads, resized_axes, image.ndim) for pads in (pads_begin, pads_end))
    is_padded = any(begin) or any(end)
    method: str = mode
    if mode == "linear" and image.ndim < 5:
        method = "linear_onnx"
    coordinates: CoordinateMode = "asymmetric"
    if align_corners:
        coordinates = "align_corners"
    elif mode.startswith("linear") and not is_padded and not (image.ndim == 4 and resized_axes == [2, 3]):
        coordinates = "half_pixel"
    data = _pad(image, begin, end)
    axes_to_resize = _create_axes_from_sizes(data.shape, resized_axes, to_int_list(target_spatial_shape))
    return _resize(data, axes_to_resize, method, coordinates, "simple", antialias, -0.75)


def _expand_pads(pads: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    """Return one pad per dimension, 0 for dimensions that are not in `axes`."""
    expanded = [*pads] * rank if len(pads) == 1 else [*pads, *[0] * rank]
    return [expanded[axis] if axis in axes else 0 for axis in range(rank)]


@_interpolate(since=4, shaped_by=(1, 2, 3))
def interpolate_4(
    data: Array,
    sizes: Array,
    scales: Array,
    axes: Array | None = None,
    *,
    mode: Literal["nearest", "linear", "linear_onnx", "cubic"],
    shape_calculation_mode: ShapeMode,
    coordinate_transformation_mode: CoordinateMode = "half_pixel",
    nearest_mode: NearestMode = "round_prefer_floor",
    antialias: bool = False,
    pads_begin: list[int] = [],
    pads_end: list[int] = [],
    cube_coeff: float = -0.75,
) -> Array:
    """Resize `data` along `axes`, to `sizes` or by `scales`.

    For integers, "linear" rounds halves away from zero, and "linear_onnx" and "cubic" truncate, as the reference
    implementation does.

    Args:
        data: Numeric, any shape.
        sizes: Integer, shape [number of axes]. Used if `shape_calculation_mode` is "sizes".
        scales: Floating-point, shape [number of axes]. Used if `shape_calculation_mode` is "scales".
        axes: Integer, 1D. All axes if omitted.
        mode: Interpolation method.
        shape_calculation_mode: Whether `sizes` or `scales` determines the shape of the result.
        coordinate_transformation_mode: How coordinates of the result are mapped to the input.
        nearest_mode: How "nearest" rounds coordinates.
        antialias: Whether "linear" averages over more elements when it reduces the size.
        pads_begin: Padding before each dimension. Missing values are 0, values beyond the rank are ignored.
        pads_end: Padding after each dimension, as `pads_begin`.
        cube_coeff: The coefficient a of cubic interpolation.

    Returns:
        The shape of `data` after padding, with the new sizes along `axes`; the type of `data`.

    Raises:
        InputError: An axis is out of range or repeated, or the sizes, scales or pads are invalid.

    Spec:
        Interpolate-4
    """
    return interpolate_11(
        data,
        sizes if shape_calculation_mode == "sizes" else scales,
        axes,
        mode=mode,
        shape_calculation_mode=shape_calculation_mode,
        coordinate_transformation_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode,
        antialias=antialias,
        pads_begin=pads_begin,
        pads_end=pads_end,
        cube_coeff=cube_coeff,
    )


@_interpolate(since=11, shaped_by=(1, 2))
@describes_like(interpolate_1)
def interpolate_11(
    image: Array,
    scales_or_sizes: Array,
    axes: Array | None = None,
    *,
    mode: Literal["nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"],
    shape_calculation_mode: ShapeMode,
    coordinate_transformation_mode: CoordinateMode = "half_pixel",
    nearest_mode: NearestMode = "round_prefer_floor",
    antialias: bool = False,
    pads_begin: list[int] = [],
    pads_end: list[int] = [],
    cube_coeff: float = -0.75,
) -> Array:
    """Resize `image` along `axes`, to sizes or by scales.

    For integers, "linear" and the pillow modes round halves away from zero, and "linear_onnx" and "cubic" truncate,
    as the reference implementation does.

    Args:
        scales_or_sizes: Floating-point or integer, shape [number of axes].
        axes: Integer, 1D. All axes if omitted. The pillow modes require two axes.
        shape_calculation_mode: Whether `scales_or_sizes` holds sizes or scales.
        coordinate_transformation_mode: How coordinates of the result are mapped to the input.
        nearest_mode: How "nearest" rounds coordinates.
        pads_begin: Padding before each dimension. Missing values are 0, values beyond the rank are ignored.
        cube_coeff: The coefficient a of cubic interpolation.

    Raises:
        InputError: An axis is out of range or repeated, the sizes, scales or pads are invalid, or a pillow mode does
            not resize two axes.

    Spec:
        Interpolate-11
    """
    data = _pad(image, pads_begin, pads_end)
    resized_axes = range(data.ndim) if axes is None else normalize_axes(to_int_list(axes), data.ndim)
    if shape_calculation_mode == "sizes":
        axes_to_resize = _create_axes_from_sizes(data.shape, resized_axes, to_int_list(scales_or_sizes))
    else:
        axes_to_resize = _create_axes_from_scales(data.shape, resized_axes, scales_or_sizes.reshape(-1).astype(F32))
    return _resize(data, axes_to_resize, mode, coordinate_transformation_mode, nearest_mode, antialias, cube_coeff)


def _create_axes_from_sizes(shape: Sequence[int], axes: Sequence[int], sizes: Sequence[int]) -> list[ResizeAxis]:
    _check_count("sizes", len(sizes), len(axes))
    if sizes and min(sizes) < 0:
        raise InputError(f"sizes is {list(sizes)}, expected non-negative numbers")
    return [
        ResizeAxis(axis, shape[axis], size, F32(size) / F32(shape[axis] or 1))
        for axis, size in zip(axes, sizes, strict=False)
    ]


def _create_axes_from_scales(shape: Sequence[int], axes: Sequence[int], scales: Array) -> list[ResizeAxis]:
    _check_count("scales", len(scales), len(axes))
    if not np.all(np.isfinite(scales) & (scales >= 0)):
        raise InputError(f"scales is {scales.tolist()}, expected finite non-negative numbers")
    return [
        ResizeAxis(axis, shape[axis], math.floor(F32(shape[axis]) * (scale + EPSILON)), scale)
        for axis, scale in zip(axes, scales, strict=False)
    ]


def _check_count(name: str, count: int, axis_count: int) -> None:
    if count < axis_count:
        raise InputError(f"found {count} {name} for {axis_count} axes, expected one for each axis")


def _pad(x: Array, pads_begin: Sequence[int], pads_end: Sequence[int]) -> Array:
    """Pad `x` with zeros. Missing pads are 0, those beyond the rank are ignored."""
    begin, end = ((*pads, *[0] * x.ndim)[: x.ndim] for pads in (pads_begin, pads_end))
    if not any(begin) and not any(end):
        return x
    if min(*begin, *end) < 0:
        raise InputError(f"pads_begin and pads_end are {list(begin)} and {list(end)}, expected non-negative numbers")
    return pad_with_constant(x, begin, [b + size + e for b, size, e in zip(begin, x.shape, end, strict=True)])


def _resize(
    data: Array,
    axes: Sequence[ResizeAxis],
    mode: str,
    coordinates: CoordinateMode,
    nearest_mode: NearestMode,
    antialias: bool,
    cube_coeff: float,
) -> Array:
    sizes = dict(enumerate(data.shape)) | {axis.number: axis.target for axis in axes}
    check_allocation(sizes.values(), np.dtype(np.float32))
    if 0 in sizes.values():
        return np.empty(tuple(sizes.values()), data.dtype)
    empty = [axis for axis in axes if axis.size == 0]
    if empty:
        raise InputError(f"axis {empty[0].number} is empty and cannot be resized to {empty[0].target}")
    if mode == "nearest":
        for axis in axes:
            data = data.take(compute_nearest_index(axis, coordinates, nearest_mode), axis.number)
        return data
    if mode.endswith("_pillow"):
        if len(axes) != 2:
            raise InputError(f"mode {mode} requires two axes, found {len(axes)}")
        return _resize_as_pillow(data, axes=axes, is_cubic=mode == "bicubic_pillow", cube_coeff=cube_coeff)
    check_scratch(TAP_BYTES * max((axis.target for axis in axes), default=0))
    taps = _compute_taps(axes, mode, coordinates, antialias, cube_coeff)
    if is_integer(data.dtype):
        return _sum_jointly(data, taps, normalize=mode == "linear")
    if mode == "linear":
        taps = [normalize_weights(t) for t in taps]
    return _sum_by_axis(data, taps, list(sizes.values()))


def _compute_taps(
    axes: Sequence[ResizeAxis], mode: str, coordinates: CoordinateMode, antialias: bool, cube_coeff: float
) -> list[Taps]:
    if mode == "linear":
        antialias = antialias and any(axis.scale < 1 for axis in axes)
        return [compute_linear_taps(axis, coordinates, antialias) for axis in axes]
    if mode == "linear_onnx":
        return [compute_linear_onnx_taps(axis, coordinates) for axis in axes]
    return [compute_cubic_taps(axis, coordinates, cube_coeff) for axis in axes]


def _sum_by_axis(data: Array, taps: Sequence[Taps], shape: Sequence[int]) -> Array:
    """Compute weighted sums along one axis after the other, in blocks of the dimensions before the first axis."""
    first_axis = min((t.axis for t in taps), default=0)
    rows = data.reshape(math.prod(data.shape[:first_axis]), *data.shape[first_axis:])
    result = np.empty((len(rows), *shape[first_axis:]), data.dtype)
    row_taps = [Taps(t.axis - first_axis + 1, t.index, t.weight) for t in taps]
    step = max(1, BLOCK_SIZE // max(1, math.prod(shape[first_axis:])))
    _check_blocks((min(step, len(rows)), *rows.shape[1:]), row_taps, result.nbytes)
    for start in within_time(range(0, len(rows), step)):
        result[start : start + step] = _sum_block(rows[start : start + step], taps=row_taps)
    return result.reshape(shape)


def _check_blocks(shape: Sequence[int], taps: Sequence[Taps], result_bytes: int) -> None:
    """Check the memory of sums along one axis after the other.

    Args:
        shape: The shape of a block.
        taps: The weighted elements along each axis.
        result_bytes: The bytes of the result.
    """
    size, largest = math.prod(shape), 0
    for t in taps:
        resized = size // max(shape[t.axis], 1) * t.index.shape[1]
        largest = max(largest, size + 3 * resized)  # elements times weights, and their sum
        size = resized
    check_scratch(result_bytes + np.dtype(F32).itemsize * largest + sum(t.index.nbytes + t.weight.nbytes for t in taps))


@compute_in_float32
def _sum_block(block: Array, *, taps: Sequence[Taps]) -> Array:
    for t in taps:
        block = _compute_weighted_sum(block, t)
    return block


def _compute_weighted_sum(x: Array, taps: Taps) -> Array:
    """Compute the weighted sum along one axis, in the wider type of `x` and the weights."""
    dtype = np.result_type(x.dtype, taps.weight.dtype)
    total = np.zeros((*x.shape[: taps.axis], taps.index.shape[1], *x.shape[taps.axis + 1 :]), dtype)
    for index, weight in within_time(zip(taps.index, taps.weight, strict=True)):
        total += _take_or_zero(x, taps.axis, index) * _align(weight, taps.axis, x.ndim)
    return total


def _take_or_zero(x: Array, axis: int, index: Array) -> Array:
    """Take the elements of `x` at `index` along `axis`, zeros where the index is -1."""
    values = x.take(index, axis)
    outside = np.flatnonzero(index < 0)  # their weights are 0, but 0 times infinity would be NaN
    if outside.size:
        values[(slice(None),) * axis + (outside,)] = 0
    return values


def _align(weight: Array, axis: int, rank: int) -> Array:
    """Reshape weights [n] so that they broadcast along `axis`."""
    return weight.reshape([-1 if a == axis else 1 for a in range(rank)])


def _sum_jointly(data: Array, taps: Sequence[Taps], normalize: bool) -> Array:
    """Compute the sum over all combinations of taps, in f32 and in the order of the reference implementation.

    For integers, a difference in the last place of a sum may change the result by one. They are therefore not summed
    axis by axis.
    """
    sizes = dict(enumerate(data.shape)) | {t.axis: t.index.shape[1] for t in taps}
    check_scratch(np.dtype(F32).itemsize * (data.size + 8 * math.prod(sizes.values())))
    x = data.astype(F32)
    total: Array | None = None
    total_weight: Array | None = None
    for combination in within_time(itertools.product(*(range(len(t.index)) for t in taps))):
        value = x
        weight = np.ones((1,) * x.ndim, F32)
        for t, i in zip(taps, combination, strict=True):
            value = _take_or_zero(value, t.axis, t.index[i])
            weight = weight * _align(t.weight[i], t.axis, x.ndim)
        total = weight * value if total is None else total + weight * value
        total_weight = weight if total_weight is None else total_weight + weight
    assert total is not None
    assert total_weight is not None
    if normalize:
        total = round_half_away(np.where(total_weight == 0, F32(0), total / total_weight))
    return truncate_to(total, data.dtype)


@compute_in_float32
def _resize_as_pillow(data: Array, *, axes: Sequence[ResizeAxis], is_cubic: bool, cube_coeff: float) -> Array:
    """Resize as Pillow does: always with antialias, the second axis first, and with rounding after each axis."""
    for axis in reversed(axes):
        if axis.size == axis.target:
            continue
        total = _compute_weighted_sum(data, compute_pillow_taps(axis, is_cubic, cube_coeff))
        if is_integer(data.dtype):
            limits = np.iinfo(data.dtype)
            total = np.clip(np.trunc(total + np.copysign(0.5, total)), limits.min, limits.max)
        data = truncate_to(total, data.dtype)
    return data
