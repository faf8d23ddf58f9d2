"""Normalization operations."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.ops._support.axes import normalize_axes, to_int_list
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call
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


@op("BatchNormInference", since=1, kind="elementwise", shape="infer_batch_normalization", channel_axis=1, flops=2)
def batch_norm_inference_1(
    gamma: Array, beta: Array, data: Array, mean: Array, variance: Array, *, epsilon: float
) -> Array:
    """Compute `gamma * (data - mean) / sqrt(variance + epsilon) + beta` per channel, with `data` as the third input.

    The specification describes version 5, where `data` is the first input. In OpenVINO, it is the third.

    Args:
        gamma: The type of `data`, shape [C].
        beta: The type of `data`, shape [C].
        data: Floating-point, shape [N, C, ...].
        mean: The type of `data`, shape [C].
        variance: The type of `data`, shape [C].
        epsilon: Added to the variance.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: The numbers of channels differ.

    Spec:
        BatchNormInference-1
    """
    return batch_norm_inference_5(data, gamma, beta, mean, variance, epsilon=epsilon)


@op("BatchNormInference", since=5, kind="elementwise", shape="infer_batch_normalization", channel_axis=1, flops=2)
@compute_in_float32
@describes_like(batch_norm_inference_1)
def batch_norm_inference_5(
    data: Array, gamma: Array, beta: Array, mean: Array, variance: Array, *, epsilon: float
) -> Array:
    """Compute `gamma * (data - mean) / sqrt(variance + epsilon) + beta` per channel.

    Spec:
        BatchNormInference-5
    """
    if data.ndim < 2:
        raise InputError(f"data has shape {list(data.shape)}, expected [N, C, ...]")
    channels = data.shape[1]
    _check_channels(channels, gamma=gamma, beta=beta, mean=mean, variance=variance)
    per_channel = (channels, *[1] * (data.ndim - 2))
    scale = gamma / np.sqrt(variance + data.dtype.type(epsilon))
    result: Array = data - mean.reshape(per_channel)
    result *= scale.reshape(per_channel)
    result += beta.reshape(per_channel)
    return result


def _check_channels(channels: int, **inputs: Array) -> None:
    for name, x in inputs.items():
        if x.shape != (channels,):
            raise InputError(f"{name} has shape {list(x.shape)}, expected [{channels}], the channels of data")


def _count_mvn(call: Call) -> int:
    """Count the mean and its subtraction, and the variance and the division by its root."""
    return call.outputs[0].size * (5 if call.attributes["normalize_variance"] else 2)


@op("MVN", since=2, scratch=1.75, kind="rowwise", is_overwritable=True, channel_axis=1, flops=_count_mvn)
def mvn_2(
    data: Array,
    *,
    eps: float,
    across_channels: bool = True,
    reduction_axes: list[int] | None = None,
    normalize_variance: bool = True,
) -> Array:
    """Subtract the mean of `data` and divide by its standard deviation.

    Args:
        data: Floating-point, shape [N, C, ...].
        eps: Added to the variance.
        across_channels: Whether the mean is computed per batch element instead of per channel. Ignored if
            `reduction_axes` is not empty.
        reduction_axes: The axes along which the mean is computed.
        normalize_variance: Whether to divide by the standard deviation.

    Returns:
        The shape and type of `data`.

    Spec:
        MVN-1
    """
    axes = np.array(reduction_axes) if reduction_axes else np.arange(1 if across_channels else 2, data.ndim)
    return mvn_6(data, axes, eps=eps, normalize_variance=normalize_variance, eps_mode="inside_sqrt")


@op("MVN", since=6, scratch=1.75, kind="rowwise", is_overwritable=True, channel_axis=1, flops=_count_mvn)
@compute_in_float32
def mvn_6(
    data: Array,
    axes: Array,
    *,
    normalize_variance: bool,
    eps: float,
    eps_mode: Literal["inside_sqrt", "outside_sqrt"],
) -> Array:
    """Subtract the mean of `data` along `axes` and divide by its standard deviation.

    Args:
        data: Floating-point, any shape.
        axes: i32 or i64, scalar or 1D. Negative values count from the end.
        normalize_variance: Whether to divide by the standard deviation.
        eps: Added to the variance or the standard deviation.
        eps_mode: "inside_sqrt" adds eps to the variance, "outside_sqrt" to the standard deviation.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An axis is out of range or repeated.

    Spec:
        MVN-6
    """
    reduced_axes = normalize_axes(to_int_list(axes), data.ndim)
    if not data.size:
        return data
    groups = math.prod(n for axis, n in enumerate(data.shape) if axis not in reduced_axes)
    check_scratch(3 * (data.size + groups) * data.itemsize)
    centered: Array = data - data.mean(axis=reduced_axes, keepdims=True)
    if not normalize_variance:
        return centered
    variance = np.square(centered).mean(axis=reduced_axes, keepdims=True)
    epsilon = data.dtype.type(eps)
    deviation = np.sqrt(variance + epsilon) if eps_mode == "inside_sqrt" else np.sqrt(variance) + epsilon
    centered /= deviation
    return centered


@op("GRN", since=1, scratch=2.25, kind="rowwise", flops=3)
def grn_1(data: Array, *, bias: float) -> Array:
    """Divide `data` by its Euclidean norm along the channels.

    Args:
        data: Floating-point, shape [N, C, ...].
        bias: Added to the sum of squares.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `data` does not have a channel axis.

    Spec:
        GRN-1
    """
    return normalize_l2_1(data, np.array([1]), eps=bias, eps_mode="add")


@op("NormalizeL2", since=1, kind="rowwise", is_overwritable=True, flops=3)
@compute_in_float32
def normalize_l2_1(data: Array, axes: Array, *, eps: float, eps_mode: Literal["add", "max"]) -> Array:
    """Divide `data` by its Euclidean norm along `axes`.

    Args:
        data: Floating-point, any shape.
        axes: Integer, scalar or 1D. Negative values count from the end. If empty, every element is divided by itself:
            the result is 1, or 0 where `data` is 0.
        eps: Added to the sum of squares, or its lower limit.
        eps_mode: "add" adds eps to the sum of squares, "max" limits the sum to at least eps.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An axis is out of range or repeated.

    Spec:
        NormalizeL2-1
    """
    reduced_axes = normalize_axes(to_int_list(axes), data.ndim)
    if not reduced_axes:
        ones: Array = (data != 0).astype(data.dtype)
        return ones
    squares = np.square(data).sum(axis=reduced_axes, keepdims=True)
    epsilon = data.dtype.type(eps)
    norm: Array = np.sqrt(squares + epsilon if eps_mode == "add" else np.maximum(squares, epsilon))
    result: Array = data / norm
    return result


def _count_lrn(call: Call) -> int:
    """Count squares, their sum over a window along each axis, and the division by a power."""
    return call.outputs[0].size * int(call.attributes["size"] ** math.prod(call.get_shape(1)) + 5)


@op("LRN", since=1, scratch=2, kind="rowwise", flops=_count_lrn)
@compute_in_float32
def lrn_1(data: Array, axes: Array, *, alpha: float, beta: float, bias: float, size: int) -> Array:
    """Compute `data / (bias + alpha / size**len(axes) * s)**beta`, where s is the sum of squares in a window.

    The window reaches (size - 1) // 2 elements to either side along `axes`, as in the reference implementation. The
    specification's size / 2 is the same for odd sizes.

    Args:
        data: Floating-point, any shape.
        axes: Integer, scalar or 1D. Negative values count from the end.
        alpha: Scale of the mean square.
        beta: Exponent of the divisor.
        bias: Added to the scaled mean square.
        size: Size of the window along each axis.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: An axis is out of range or repeated, or size is not positive.

    Spec:
        LRN-1
    """
    window_axes = normalize_axes(to_int_list(axes), data.ndim)
    if size < 1:
        raise InputError(f"size is {size}, expected a positive number")
    squares = np.square(data)
    for axis in window_axes:
        squares = _sum_windows(squares, axis, (size - 1) // 2)
    scalar = data.dtype.type
    scale = scalar(alpha) / scalar(size ** len(window_axes))
    result: Array = data / np.power(scalar(bias) + scale * squares, scalar(beta))
    return result


def _sum_windows(x: Array, axis: int, half: int) -> Array:
    """Add to each element up to `half` neighbors on either side along `axis`."""
    length = x.shape[axis]
    half = min(half, length)
    before = (slice(None),) * axis
    result = np.zeros_like(x)
    for shift in within_time(range(-half, half + 1)):
        target = (*before, slice(max(0, -shift), length - max(0, shift)))
        source = (*before, slice(max(0, shift), length - max(0, -shift)))
        result[target] += x[source]
    return result


@op(
    "GroupNormalization",
    since=12,
    scratch=1.75,
    kind="rowwise",
    shape="infer_group_normalization",
    is_overwritable=True,
    flops=7,
)
@compute_in_float32
def group_normalization_12(data: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float) -> Array:
    """Normalize each group of channels to mean 0 and variance 1, then scale and shift each channel.

    Args:
        data: Floating-point, shape [N, C, ...].
        scale: The type of `data`, shape [C].
        bias: The type of `data`, shape [C].
        num_groups: Number of groups, a divisor of C.
        epsilon: Added to the variance.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: The channels cannot be divided into the groups, or `scale` or `bias` is not [C].

    Spec:
        GroupNormalization-12
    """
    channels = data.shape[1] if data.ndim > 1 else 0
    if data.ndim < 2 or num_groups < 1 or channels % num_groups:
        raise InputError(f"data of shape {list(data.shape)} cannot be divided into {num_groups} groups of channels")
    per_channel = (channels, *[1] * (data.ndim - 2))
    _check_channels(channels, scale=scale, bias=bias)
    grouped = data.reshape(data.shape[0], num_groups, channels // num_groups, *data.shape[2:])
    axes = np.arange(2, grouped.ndim)
    standardized = mvn_6(grouped, axes, normalize_variance=True, eps=epsilon, eps_mode="inside_sqrt")
    result: Array = standardized.reshape(data.shape) * scale.reshape(per_channel)
    result += bias.reshape(per_channel)
    return result
