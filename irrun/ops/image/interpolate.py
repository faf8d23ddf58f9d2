"""Interpolate: resizing along any axes.

Along each axis every output element is a weighted sum of a few input elements, its taps. A mode says which
taps and weights; the rest is the same for all modes. Coordinates and weights are f32, as in the reference, and
f64 in the pillow modes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.cubic_interpolation import cubic_weights
from irrun.ops._support.numerics import Array, is_integer, round_half_away, truncate_to, upcast
from irrun.ops._support.registry import op

__all__ = ["interpolate_1", "interpolate_4", "interpolate_11"]

ShapeMode = Literal["sizes", "scales"]
Coordinates = Literal["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"]
Nearest = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]

F = np.float32

#: Added to a scale before the size is rounded down, so that 1 / 3 * 3 is 1.
EPSILON = F(1e-6)

#: Elements of the result that are computed at a time, so that what is computed on the way stays in the caches.
BLOCK = 1 << 15


@op("Interpolate", since=1)
def interpolate_1(
    image: Array,
    target_spatial_shape: Array,
    *,
    axes: list[int],
    mode: Literal["nearest", "linear", "linear_onnx", "cubic"],
    align_corners: bool = True,
    antialias: bool = False,
    pads_begin: list[int] = [],  # noqa: B006  (never changed)
    pads_end: list[int] = [],  # noqa: B006
) -> Array:
    """`image` resized to `target_spatial_shape` along `axes`.

    image: any numeric type and shape; target_spatial_shape: integer [number of axes].
    Returns the type of image.
    Raises InputError where the shapes do not fit.
    A single pad is for each of `axes`, as the specification says; otherwise there is one for each dimension, and
    those of other dimensions have no meaning. The specification leaves open which coordinates "linear" uses and
    what "area" means; the reference decides on the first, and has no "area". It takes the sizes in the ascending
    order of the axes, where the specification pairs them as they come.
    Spec: Interpolate-1.
    """
    # The axes are a set in the reference: sizes belong to them in ascending order.
    where = sorted(normalize_axes(axes, image.ndim))
    begin, end = (_spatial_pads(pads, where, image.ndim) for pads in (pads_begin, pads_end))
    padded = any(begin) or any(end)
    method: str = mode
    if mode == "linear" and image.ndim < 5:
        method = "linear_onnx"
    coordinates: Coordinates = "asymmetric"
    if align_corners:
        coordinates = "align_corners"
    elif mode.startswith("linear") and not padded and not (image.ndim == 4 and where == [2, 3]):
        coordinates = "half_pixel"
    data = _padded(image, begin, end)
    resizing = _Resizing.to_sizes(data.shape, where, to_int_list(target_spatial_shape))
    return _resized(data, resizing, method, coordinates, "simple", antialias, -0.75)


def _spatial_pads(pads: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    """One pad for each dimension, 0 for those that are not resized."""
    each = [*pads] * rank if len(pads) == 1 else [*pads, *[0] * rank]
    return [each[axis] if axis in axes else 0 for axis in range(rank)]


@op("Interpolate", since=4)
def interpolate_4(
    data: Array,
    sizes: Array,
    scales: Array,
    axes: Array | None = None,
    *,
    mode: Literal["nearest", "linear", "linear_onnx", "cubic"],
    shape_calculation_mode: ShapeMode,
    coordinate_transformation_mode: Coordinates = "half_pixel",
    nearest_mode: Nearest = "round_prefer_floor",
    antialias: bool = False,
    pads_begin: list[int] = [],  # noqa: B006  (never changed)
    pads_end: list[int] = [],  # noqa: B006
    cube_coeff: float = -0.75,
) -> Array:
    """`data` resized along `axes`: to `sizes`, or by `scales`.

    data: any numeric type and shape; sizes: integer [number of axes]; scales: float [number of axes];
    axes: integer 1D, all axes where left out.
    Returns the type of data.
    Raises InputError where the shapes do not fit.
    Integers: "linear" rounds halves away from zero, "linear_onnx" and "cubic" cut fractions off, as the
    reference does.
    Spec: Interpolate-4.
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


@op("Interpolate", since=11)
def interpolate_11(
    image: Array,
    scales_or_sizes: Array,
    axes: Array | None = None,
    *,
    mode: Literal["nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"],
    shape_calculation_mode: ShapeMode,
    coordinate_transformation_mode: Coordinates = "half_pixel",
    nearest_mode: Nearest = "round_prefer_floor",
    antialias: bool = False,
    pads_begin: list[int] = [],  # noqa: B006  (never changed)
    pads_end: list[int] = [],  # noqa: B006
    cube_coeff: float = -0.75,
) -> Array:
    """`image` resized along `axes`: to sizes or by scales.

    image: any numeric type and shape; scales_or_sizes: float or integer [number of axes];
    axes: integer 1D, all axes where left out.
    Returns the type of image.
    Raises InputError where the shapes do not fit, or a pillow mode is asked for other than two axes.
    Integers: "linear" and the pillow modes round halves away from zero, "linear_onnx" and "cubic" cut
    fractions off, as the reference does.
    Spec: Interpolate-11.
    """
    data = _padded(image, pads_begin, pads_end)
    where = list(range(data.ndim)) if axes is None else list(normalize_axes(to_int_list(axes), data.ndim))
    if shape_calculation_mode == "sizes":
        resizing = _Resizing.to_sizes(data.shape, where, to_int_list(scales_or_sizes))
    else:
        resizing = _Resizing.by_scales(data.shape, where, scales_or_sizes.reshape(-1).astype(F))
    return _resized(data, resizing, mode, coordinate_transformation_mode, nearest_mode, antialias, cube_coeff)


@dataclass(frozen=True)
class _Axis:
    """One axis to resize: from `size` to `target` elements, by `scale` (f32)."""

    number: int
    size: int
    target: int
    scale: Any


class _Resizing(list[_Axis]):
    """The axes to resize, in the order given."""

    @classmethod
    def to_sizes(cls, shape: Sequence[int], axes: Sequence[int], sizes: Sequence[int]) -> _Resizing:
        _check_count("sizes", len(sizes), len(axes))
        if sizes and min(sizes) < 0:
            raise InputError(f"sizes {list(sizes)} are negative")
        return cls(
            _Axis(axis, shape[axis], size, F(size) / F(shape[axis] or 1))
            for axis, size in zip(axes, sizes, strict=False)
        )

    @classmethod
    def by_scales(cls, shape: Sequence[int], axes: Sequence[int], scales: Array) -> _Resizing:
        _check_count("scales", len(scales), len(axes))
        if not np.all(np.isfinite(scales) & (scales >= 0)):
            raise InputError(f"scales {scales.tolist()} are not all finite and positive")
        return cls(
            _Axis(axis, shape[axis], math.floor(F(shape[axis]) * (scale + EPSILON)), scale)
            for axis, scale in zip(axes, scales, strict=False)
        )


def _check_count(name: str, found: int, axes: int) -> None:
    if found < axes:
        raise InputError(f"{found} {name} were given for {axes} axes")


def _padded(x: Array, pads_begin: Sequence[int], pads_end: Sequence[int]) -> Array:
    """`x` with zeros around; missing pads are 0, those beyond the rank are dropped."""
    begin, end = ((*pads, *[0] * x.ndim)[: x.ndim] for pads in (pads_begin, pads_end))
    if not any(begin) and not any(end):
        return x
    if min(*begin, *end) < 0:
        raise InputError(f"pads {list(begin)} and {list(end)} must not be negative")
    sizes = [b + size + e for b, size, e in zip(begin, x.shape, end, strict=True)]
    check_allocation(sizes, x.dtype)
    result = np.zeros(sizes, x.dtype)
    result[tuple(slice(b, b + size) for b, size in zip(begin, x.shape, strict=True))] = x
    return result


@dataclass(frozen=True)
class _Taps:
    """What the elements along one axis of the result are made of.

    Attributes:
        axis: the axis.
        index: [taps, size of the result] which input elements; -1 for taps outside the input.
        weight: [taps, size of the result] how much of each; 0 for taps outside the input.
    """

    axis: int
    index: Array
    weight: Array


def _resized(
    data: Array,
    resizing: _Resizing,
    mode: str,
    coordinates: Coordinates,
    nearest_mode: Nearest,
    antialias: bool,
    cube_coeff: float,
) -> Array:
    lengths = dict(enumerate(data.shape)) | {axis.number: axis.target for axis in resizing}
    check_allocation(lengths.values(), np.dtype(np.float32))
    if 0 in lengths.values():
        return np.empty(tuple(lengths.values()), data.dtype)
    empty = [axis for axis in resizing if axis.size == 0]
    if empty:
        raise InputError(f"axis {empty[0].number} is empty, it cannot be resized to {empty[0].target}")
    if mode == "nearest":
        for axis in resizing:
            data = data.take(_nearest(axis, coordinates, nearest_mode), axis.number)
        return data
    if mode.endswith("_pillow"):
        if len(resizing) != 2:
            raise InputError(f"mode {mode} resizes two axes, not {len(resizing)}")
        return _pillow(data, resizing, mode == "bicubic_pillow", cube_coeff)
    if mode == "linear":
        antialias = antialias and any(axis.scale < 1 for axis in resizing)
        taps = [_linear(axis, coordinates, antialias) for axis in resizing]
    elif mode == "linear_onnx":
        taps = [_linear_onnx(axis, coordinates) for axis in resizing]
    else:
        taps = [_cubic(axis, coordinates, cube_coeff) for axis in resizing]
    if is_integer(data.dtype):
        return _joint_sum(data, taps, normalized=mode == "linear")
    if mode == "linear":
        taps = [_normalized(tap) for tap in taps]
    return _axis_by_axis(data, taps, list(lengths.values()))


def _normalized(taps: _Taps) -> _Taps:
    """With weights that sum up to 1, or 0 where they all are."""
    total = taps.weight.sum(axis=0)
    return _Taps(taps.axis, taps.index, np.where(total == 0, F(0), taps.weight / total))


def _axis_by_axis(data: Array, axes: Sequence[_Taps], shape: Sequence[int]) -> Array:
    """The sums over the taps along one axis after the other, of a block of the axes before the first one at a time."""
    lead = min((taps.axis for taps in axes), default=0)
    rows = data.reshape(math.prod(data.shape[:lead]), *data.shape[lead:])
    result = np.empty((len(rows), *shape[lead:]), data.dtype)
    step = max(1, BLOCK // max(1, math.prod(shape[lead:])))
    for start in range(0, len(rows), step):
        block = upcast(rows[start : start + step])
        for taps in axes:
            block = _weighted_sum(block, _Taps(taps.axis - lead + 1, taps.index, taps.weight))
        result[start : start + step] = truncate_to(block, data.dtype)
    return result.reshape(shape)


def _weighted_sum(x: Array, taps: _Taps) -> Array:
    """The sum over the taps along their axis, in the wider type of `x` and the weights."""
    dtype = np.result_type(x.dtype, taps.weight.dtype)
    total = np.zeros((*x.shape[: taps.axis], taps.index.shape[1], *x.shape[taps.axis + 1 :]), dtype)
    for index, weight in zip(taps.index, taps.weight, strict=True):
        total += _taken(x, taps.axis, index) * _along(weight, taps.axis, x.ndim)
    return total


def _taken(x: Array, axis: int, index: Array) -> Array:
    """The elements of `x` at `index` along `axis`, zeros where it is -1."""
    found = x.take(index, axis)
    outside = np.flatnonzero(index < 0)  # their weights are 0, but 0 times infinity would be NaN
    if outside.size:
        found[(slice(None),) * axis + (outside,)] = 0
    return found


def _along(weight: Array, axis: int, rank: int) -> Array:
    return weight.reshape([-1 if a == axis else 1 for a in range(rank)])


def _joint_sum(data: Array, axes: Sequence[_Taps], normalized: bool) -> Array:
    """The sum over all combinations of taps, in f32 and in the order of the reference.

    Cutting off and rounding make a difference in the last place one of a whole number, so integers cannot be
    summed axis by axis.
    """
    x = data.astype(F)
    total: Array | None = None
    weights: Array | None = None
    for combination in itertools.product(*(range(len(taps.index)) for taps in axes)):
        value = x
        weight = np.ones((1,) * x.ndim, F)
        for taps, tap in zip(axes, combination, strict=True):
            value = _taken(value, taps.axis, taps.index[tap])
            weight = weight * _along(taps.weight[tap], taps.axis, x.ndim)
        total = weight * value if total is None else total + weight * value
        weights = weight if weights is None else weights + weight
    assert total is not None
    assert weights is not None
    if normalized:
        total = round_half_away(np.where(weights == 0, F(0), total / weights))
    return truncate_to(total, data.dtype)


def _source(axis: _Axis, coordinates: Coordinates) -> Array:
    """Where in the input the elements of the result lie, in f32."""
    x: Array = np.arange(axis.target, dtype=F)
    if axis.scale == 1 or axis.target == axis.size:
        return x
    if coordinates == "asymmetric":
        x = x / axis.scale
    elif coordinates == "tf_half_pixel_for_nn":
        x = (x + F(0.5)) / axis.scale
    elif coordinates == "align_corners" and axis.target > 1:
        x = x * F(axis.size - 1) / F(axis.target - 1)
    elif coordinates == "half_pixel" or axis.target > 1:
        x = (x + F(0.5)) / axis.scale - F(0.5)
    else:  # one element, align_corners or pytorch_half_pixel
        x = np.zeros_like(x)
    return x


def _nearest(axis: _Axis, coordinates: Coordinates, mode: Nearest) -> Array:
    x = _source(axis, coordinates)
    if mode == "floor":
        x = np.floor(x)
    elif mode == "ceil":
        x = np.ceil(x)
    elif mode == "simple":
        x = np.ceil(x) if axis.scale < 1 else np.trunc(x)
    elif mode == "round_prefer_ceil":
        x = round_half_away(x)
    else:
        x = np.where(x == np.trunc(x) + F(0.5), np.floor(x), round_half_away(x))
    return np.clip(x.astype(np.int64), 0, axis.size - 1)


def _linear(axis: _Axis, coordinates: Coordinates, antialias: bool) -> _Taps:
    """A triangle around each source coordinate; with antialias as wide as the elements of the result."""
    x = _source(axis, coordinates)
    slope = axis.scale if antialias else F(1)
    reach = 2 if axis.scale > 1 else math.ceil(F(2) / slope)
    offsets = np.arange(-reach, reach + 1)[:, None]
    index = round_half_away(x).astype(np.int64) + offsets
    weight = np.maximum(F(0), F(1) - np.abs(slope * (x - index.astype(F))))
    inside = (index >= 0) & (index < axis.size)
    return _Taps(axis.number, np.where(inside, index, -1), np.where(inside, weight, F(0)))


def _linear_onnx(axis: _Axis, coordinates: Coordinates) -> _Taps:
    """The two neighbours, which are one at the edges."""
    last = axis.size - 1
    x = np.clip(_source(axis, coordinates), F(0), F(last))
    low = np.minimum(x.astype(np.int64), last)
    high = np.minimum(low + 1, last)
    distance = np.where(low == high, F(0.5), [np.abs(x - high.astype(F)), np.abs(x - low.astype(F))])
    return _Taps(axis.number, np.stack([low, high]), distance.astype(F))


def _cubic(axis: _Axis, coordinates: Coordinates, a: float) -> _Taps:
    """Four neighbours, those outside the input replaced by the edge."""
    x = _source(axis, coordinates)
    start = np.floor(x)
    index = start.astype(np.int64) + np.arange(-1, 3)[:, None]
    return _Taps(axis.number, np.clip(index, 0, axis.size - 1), cubic_weights(x - start, a))


def _pillow(data: Array, resizing: _Resizing, cubic: bool, a: float) -> Array:
    """As Pillow resizes: always with antialias, the second axis first, rounded in between."""
    result = upcast(data)
    for axis in reversed(resizing):
        if axis.size == axis.target:
            continue
        total = _weighted_sum(result, _pillow_taps(axis, cubic, a))
        if is_integer(result.dtype):
            limits = np.iinfo(result.dtype)
            total = np.clip(np.trunc(total + np.copysign(0.5, total)), limits.min, limits.max)
        result = truncate_to(total, result.dtype)
    return truncate_to(result, data.dtype)


def _pillow_taps(axis: _Axis, cubic: bool, a: float) -> _Taps:
    scale = axis.size / axis.target
    stretch = max(1.0, scale)
    support = (2.0 if cubic else 1.0) * stretch
    center = (np.arange(axis.target) + 0.5) * scale
    first = np.maximum(0, np.trunc(center - support + 0.5)).astype(np.int64)
    end = np.minimum(axis.size, np.trunc(center + support + 0.5)).astype(np.int64)
    index = first + np.arange(math.ceil(support) * 2 + 1)[:, None]
    d = np.abs((index - center + 0.5) * (1.0 / stretch))
    if cubic:
        near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1
        far = (((d - 5) * d + 8) * d - 4) * a
        weight = np.where(d < 1, near, np.where(d < 2, far, 0.0))
    else:
        weight = np.maximum(0.0, 1.0 - d)
    inside = index < end
    weight = np.where(inside, weight, 0.0)
    # Added one by one, as the reference does.
    total = np.cumsum(weight, axis=0)[-1]
    weight = np.where(total == 0, weight, weight / np.where(total == 0, 1.0, total))
    return _Taps(axis.number, np.where(inside, index, -1), weight)
