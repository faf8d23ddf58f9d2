"""Normalization operations."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops.common import Array, in_f32, int_list, normalize_axes
from irrun.ops.registry import op

__all__ = ["batch_norm_inference_1", "batch_norm_inference_5", "mvn_2", "mvn_6"]


@op("BatchNormInference", since=1)
def batch_norm_inference_1(
    gamma: Array, beta: Array, data: Array, mean: Array, variance: Array, *, epsilon: float
) -> Array:
    """`gamma * (data - mean) / sqrt(variance + epsilon) + beta` for each channel; data is the third input.

    gamma, beta, mean, variance: floating point [C]; data: the same type, [N, C, ...].
    Returns the shape and type of data.
    Raises InputError where the number of channels differs.
    Spec: BatchNormInference-1.
    """
    return batch_norm_inference_5(data, gamma, beta, mean, variance, epsilon=epsilon)


@op("BatchNormInference", since=5)
@in_f32
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
    normalize_variance: bool = True,
) -> Array:
    """`data` minus its mean, over its standard deviation, for each batch or each channel.

    data: floating point [N, C, ...].
    Returns the shape and type of data.
    Spec: MVN-1.
    """
    axes = np.arange(1 if across_channels else 2, data.ndim)
    return mvn_6(data, axes, eps=eps, normalize_variance=normalize_variance, eps_mode="inside_sqrt")


@op("MVN", since=6)
@in_f32
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
    along = normalize_axes(int_list(axes), data.ndim)
    centered: Array = data - data.mean(axis=along, keepdims=True)
    if not normalize_variance:
        return centered
    variance = np.square(centered).mean(axis=along, keepdims=True)
    small = data.dtype.type(eps)
    deviation = np.sqrt(variance + small) if eps_mode == "inside_sqrt" else np.sqrt(variance) + small
    centered /= deviation
    return centered
