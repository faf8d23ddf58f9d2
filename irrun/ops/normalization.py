"""Normalization operations."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = [
    "batch_norm_inference_1",
    "batch_norm_inference_5",
    "grn_1",
    "group_normalization_12",
    "lrn_1",
    "mvn_2",
    "mvn_6",
    "normalize_l2_1",
]


@op("BatchNormInference", since=1)
def batch_norm_inference_1(
    gamma: Array, beta: Array, data: Array, mean: Array, variance: Array, *, epsilon: float
) -> Array:
    """`gamma * (data - mean) / sqrt(variance + epsilon) + beta` for each channel; data is the third input.

    gamma, beta, mean, variance: floating point [C]; data: the same type, [N, C, ...]. The specification's page is
    that of version 5, which has data first; OpenVINO takes it third.
    Returns the shape and type of data.
    Raises InputError where the number of channels differs.
    Spec: BatchNormInference-1.
    """
    return batch_norm_inference_5(data, gamma, beta, mean, variance, epsilon=epsilon)


@op("BatchNormInference", since=5)
@compute_in_float32
def batch_norm_inference_5(
    data: Array, gamma: Array, beta: Array, mean: Array, variance: Array, *, epsilon: float
) -> Array:
    """`gamma * (data - mean) / sqrt(variance + epsilon) + beta` for each channel.

    data: floating point [N, C, ...]; gamma, beta, mean, variance: the same type, [C].
    Returns the shape and type of data.
    Raises InputError where the number of channels differs.
    Spec: BatchNormInference-5.
    """
    if data.ndim < 2:
        raise InputError(f"data has shape {list(data.shape)}, expected [N, C, ...]")
    channels = data.shape[1]
    for name, x in (("gamma", gamma), ("beta", beta), ("mean", mean), ("variance", variance)):
        if x.shape != (channels,):
            raise InputError(f"{name} has shape {list(x.shape)}, expected [{channels}], the channels of data")
    column = (channels, *[1] * (data.ndim - 2))
    scale = gamma / np.sqrt(variance + data.dtype.type(epsilon))
    result: Array = data - mean.reshape(column)
    result *= scale.reshape(column)
    result += beta.reshape(column)
    return result


@op("MVN", since=2)
def mvn_2(
    data: Array,
    *,
    eps: float,
    across_channels: bool = True,
    reduction_axes: list[int] | None = None,
    normalize_variance: bool = True,
) -> Array:
    """`data` minus its mean, over its standard deviation, for each batch, each channel, or along `reduction_axes`.

    data: floating point [N, C, ...]. Where `reduction_axes` are given, `across_channels` has no meaning.
    Returns the shape and type of data.
    Spec: MVN-1.
    """
    axes = np.array(reduction_axes) if reduction_axes else np.arange(1 if across_channels else 2, data.ndim)
    return mvn_6(data, axes, eps=eps, normalize_variance=normalize_variance, eps_mode="inside_sqrt")


@op("MVN", since=6)
@compute_in_float32
def mvn_6(
    data: Array,
    axes: Array,
    *,
    normalize_variance: bool,
    eps: float,
    eps_mode: Literal["inside_sqrt", "outside_sqrt"],
) -> Array:
    """`data` minus its mean, over its standard deviation, both along `axes`.

    data: floating point, any shape; axes: i32 or i64, scalar or a list, negative ones count from the end.
    `eps` is added to the variance (inside_sqrt) or to the standard deviation (outside_sqrt).
    Returns the shape and type of data.
    Raises InputError where an axis is out of range or occurs twice.
    Spec: MVN-6.
    """
    along = normalize_axes(to_int_list(axes), data.ndim)
    centered: Array = data - data.mean(axis=along, keepdims=True)
    if not normalize_variance:
        return centered
    variance = np.square(centered).mean(axis=along, keepdims=True)
    small = data.dtype.type(eps)
    deviation = np.sqrt(variance + small) if eps_mode == "inside_sqrt" else np.sqrt(variance) + small
    centered /= deviation
    return centered


@op("GRN", since=1)
def grn_1(data: Array, *, bias: float) -> Array:
    """`data` over its Euclidean length along the channels, `bias` added to the square.

    data: floating point [N, C, ...].
    Returns the shape and type of data.
    Raises InputError where data has no channels.
    Spec: GRN-1.
    """
    return normalize_l2_1(data, np.array([1]), eps=bias, eps_mode="add")


@op("NormalizeL2", since=1)
@compute_in_float32
def normalize_l2_1(data: Array, axes: Array, *, eps: float, eps_mode: Literal["add", "max"]) -> Array:
    """`data` over its Euclidean length along `axes`.

    data: floating point, any shape; axes: integer, scalar or a list, negative ones count from the end.
    `eps` is added to the sum of squares (add), or is the least that it counts as (max). Without axes every element
    is divided by itself: 1, or 0 where it is 0.
    Returns the shape and type of data.
    Raises InputError where an axis is out of range or occurs twice.
    Spec: NormalizeL2-1.
    """
    along = normalize_axes(to_int_list(axes), data.ndim)
    if not along:
        ones: Array = (data != 0).astype(data.dtype)
        return ones
    squares = np.square(data).sum(axis=along, keepdims=True)
    small = data.dtype.type(eps)
    length: Array = np.sqrt(squares + small if eps_mode == "add" else np.maximum(squares, small))
    result: Array = data / length
    return result


@op("LRN", since=1)
@compute_in_float32
def lrn_1(data: Array, axes: Array, *, alpha: float, beta: float, bias: float, size: int) -> Array:
    """`data / (bias + alpha / size**len(axes) * s)**beta`, s being the sum of squares in a window along `axes`.

    data: floating point, any shape; axes: integer, scalar or a list. The window reaches (size - 1) // 2 elements
    to either side; the specification's size / 2 is the same for odd sizes, and for even ones the reference wins.
    Returns the shape and type of data.
    Raises InputError where an axis is out of range or occurs twice, or size is not positive.
    Spec: LRN-1.
    """
    along = normalize_axes(to_int_list(axes), data.ndim)
    if size < 1:
        raise InputError(f"size is {size}, expected a positive number")
    squares = np.square(data)
    for axis in along:
        squares = _windowed_sum(squares, axis, (size - 1) // 2)
    kind = data.dtype.type
    scale = kind(alpha) / kind(size ** len(along))
    result: Array = data / np.power(kind(bias) + scale * squares, kind(beta))
    return result


def _windowed_sum(x: Array, axis: int, half: int) -> Array:
    """Each element plus up to `half` neighbours on either side of it along `axis`."""
    length = x.shape[axis]
    half = min(half, length)
    before = (slice(None),) * axis
    result = np.zeros_like(x)
    for shift in range(-half, half + 1):
        target = (*before, slice(max(0, -shift), length - max(0, shift)))
        source = (*before, slice(max(0, shift), length - max(0, -shift)))
        result[target] += x[source]
    return result


@op("GroupNormalization", since=12)
@compute_in_float32
def group_normalization_12(data: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float) -> Array:
    """Each group of channels minus its mean, over its standard deviation; then `scale` and `bias` for each channel.

    data: floating point [N, C, ...]; scale, bias: the same type, [C].
    Returns the shape and type of data.
    Raises InputError where the channels do not split into the groups, or scale or bias have another number of them.
    Spec: GroupNormalization-12.
    """
    channels = data.shape[1] if data.ndim > 1 else 0
    if data.ndim < 2 or num_groups < 1 or channels % num_groups:
        raise InputError(f"data of shape {list(data.shape)} does not split into {num_groups} groups of channels")
    column = (channels, *[1] * (data.ndim - 2))
    for name, x in (("scale", scale), ("bias", bias)):
        if x.shape != (channels,):
            raise InputError(f"{name} has shape {list(x.shape)}, expected [{channels}], the channels of data")
    grouped = data.reshape(data.shape[0], num_groups, channels // num_groups, *data.shape[2:])
    along = np.arange(2, grouped.ndim)
    normal = mvn_6(grouped, along, normalize_variance=True, eps=epsilon, eps_mode="inside_sqrt")
    result: Array = normal.reshape(data.shape) * scale.reshape(column)
    result += bias.reshape(column)
    return result
