"""The taps of Interpolate: the input elements and weights of each element of the result, along one axis.

Coordinates and weights are computed in f32, as in the reference implementation, and in the pillow modes in f64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irrun.ops._support.cubic_interpolation import compute_cubic_weights
from irrun.ops._support.numerics import Array, round_half_away

__all__ = [
    "CoordinateMode",
    "NearestMode",
    "ResizeAxis",
    "Taps",
    "compute_cubic_taps",
    "compute_linear_onnx_taps",
    "compute_linear_taps",
    "compute_nearest_index",
    "compute_pillow_taps",
    "normalize_weights",
]

#: How the coordinates of the result are mapped to the input.
F32 = np.float32

CoordinateMode = Literal["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"]


#: How coordinates are rounded to the nearest element.
NearestMode = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]


@dataclass(frozen=True)
class ResizeAxis:
    """An axis to resize.

    Attributes:
        number: Index of the axis, in [0, rank).
        size: Number of elements of the input.
        target: Number of elements of the result.
        scale: Ratio of `target` to `size`, or the attribute that determines it, f32.
    """

    number: int
    size: int
    target: int
    scale: Any


@dataclass(frozen=True)
class Taps:
    """The input elements and weights for each element of the result, along one axis.

    Attributes:
        axis: The axis.
        index: Index of each tap, [taps, size of the result]; -1 for taps outside of the input.
        weight: Weight of each tap, [taps, size of the result]; 0 for taps outside of the input.
    """

    axis: int
    index: Array
    weight: Array


def normalize_weights(taps: Taps) -> Taps:
    """Scale weights so that they add up to 1, or to 0 if all are 0.

    Args:
        taps: The taps of an axis.
    """
    total = taps.weight.sum(axis=0)
    return Taps(taps.axis, taps.index, np.where(total == 0, F32(0), taps.weight / total))


def _compute_source_coordinates(axis: ResizeAxis, coordinates: CoordinateMode) -> Array:
    """Compute the coordinates in the input of the elements of the result, in f32."""
    x: Array = np.arange(axis.target, dtype=F32)
    if axis.scale == 1 or axis.target == axis.size:
        return x
    if coordinates == "asymmetric":
        x = x / axis.scale
    elif coordinates == "tf_half_pixel_for_nn":
        x = (x + F32(0.5)) / axis.scale
    elif coordinates == "align_corners" and axis.target > 1:
        x = x * F32(axis.size - 1) / F32(axis.target - 1)
    elif coordinates == "half_pixel" or axis.target > 1:
        x = (x + F32(0.5)) / axis.scale - F32(0.5)
    else:  # align_corners or pytorch_half_pixel with a single element
        x = np.zeros_like(x)
    return x


def compute_nearest_index(axis: ResizeAxis, coordinates: CoordinateMode, mode: NearestMode) -> Array:
    """Compute the index of the nearest input element for each element of the result.

    Args:
        axis: The axis.
        coordinates: How coordinates of the result are mapped to the input.
        mode: How coordinates are rounded.

    Returns:
        Shape [axis.target], i64.
    """
    x = _compute_source_coordinates(axis, coordinates)
    if mode == "floor":
        x = np.floor(x)
    elif mode == "ceil":
        x = np.ceil(x)
    elif mode == "simple":
        x = np.ceil(x) if axis.scale < 1 else np.trunc(x)
    elif mode == "round_prefer_ceil":
        x = round_half_away(x)
    else:
        x = np.where(x == np.trunc(x) + F32(0.5), np.floor(x), round_half_away(x))
    return np.clip(x.astype(np.int64), 0, axis.size - 1)


def compute_linear_taps(axis: ResizeAxis, coordinates: CoordinateMode, antialias: bool) -> Taps:
    """Compute the taps of "linear": triangular weights around each coordinate.

    Args:
        axis: The axis.
        coordinates: How coordinates of the result are mapped to the input.
        antialias: Whether the triangles are as wide as an element of the result.
    """
    x = _compute_source_coordinates(axis, coordinates)
    slope = axis.scale if antialias else F32(1)
    radius = 2 if axis.scale > 1 else math.ceil(F32(2) / slope)
    offsets = np.arange(-radius, radius + 1)[:, None]
    index = round_half_away(x).astype(np.int64) + offsets
    weight = np.maximum(F32(0), F32(1) - np.abs(slope * (x - index.astype(F32))))
    is_inside = (index >= 0) & (index < axis.size)
    return Taps(axis.number, np.where(is_inside, index, -1), np.where(is_inside, weight, F32(0)))


def compute_linear_onnx_taps(axis: ResizeAxis, coordinates: CoordinateMode) -> Taps:
    """Compute the taps of "linear_onnx": two neighbors, the same element at the edges.

    Args:
        axis: The axis.
        coordinates: How coordinates of the result are mapped to the input.
    """
    last = axis.size - 1
    x = np.clip(_compute_source_coordinates(axis, coordinates), F32(0), F32(last))
    low = np.minimum(x.astype(np.int64), last)
    high = np.minimum(low + 1, last)
    weight = np.where(low == high, F32(0.5), [np.abs(x - high.astype(F32)), np.abs(x - low.astype(F32))])
    return Taps(axis.number, np.stack([low, high]), weight.astype(F32))


def compute_cubic_taps(axis: ResizeAxis, coordinates: CoordinateMode, cube_coeff: float) -> Taps:
    """Compute the taps of "cubic": four neighbors. Those outside of the input are replaced by its edge.

    Args:
        axis: The axis.
        coordinates: How coordinates of the result are mapped to the input.
        cube_coeff: The coefficient a of cubic interpolation.
    """
    x = _compute_source_coordinates(axis, coordinates)
    start = np.floor(x)
    index = start.astype(np.int64) + np.arange(-1, 3)[:, None]
    return Taps(axis.number, np.clip(index, 0, axis.size - 1), compute_cubic_weights(x - start, cube_coeff))


def compute_pillow_taps(axis: ResizeAxis, is_cubic: bool, cube_coeff: float) -> Taps:
    """Compute the taps of the pillow modes, in f64.

    Args:
        axis: The axis.
        is_cubic: Whether the mode is "bicubic_pillow" instead of "bilinear_pillow".
        cube_coeff: The coefficient a of cubic interpolation.
    """
    scale = axis.size / axis.target
    stretch = max(1.0, scale)
    support = (2.0 if is_cubic else 1.0) * stretch
    center = (np.arange(axis.target) + 0.5) * scale
    first = np.maximum(0, np.trunc(center - support + 0.5)).astype(np.int64)
    end = np.minimum(axis.size, np.trunc(center + support + 0.5)).astype(np.int64)
    index = first + np.arange(math.ceil(support) * 2 + 1)[:, None]
    distance = np.abs((index - center + 0.5) * (1.0 / stretch))
    if is_cubic:
        inner = ((cube_coeff + 2.0) * distance - (cube_coeff + 3.0)) * distance * distance + 1
        outer = (((distance - 5) * distance + 8) * distance - 4) * cube_coeff
        weight = np.where(distance < 1, inner, np.where(distance < 2, outer, 0.0))
    else:
        weight = np.maximum(0.0, 1.0 - distance)
    is_inside = index < end
    weight = np.where(is_inside, weight, 0.0)
    # np.cumsum adds the weights one by one, as the reference implementation does.
    total = np.cumsum(weight, axis=0)[-1]
    weight = np.where(total == 0, weight, weight / np.where(total == 0, 1.0, total))
    return Taps(axis.number, np.where(is_inside, index, -1), weight)
