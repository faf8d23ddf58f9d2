"""Activation functions that are computed element by element."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.broadcasting import apply_auto_broadcast
from irrun.ops._support.docstrings import describes_unary
from irrun.ops._support.numerics import (
    Array,
    apply_in_float64,
    compute_in_float64,
    compute_in_native_type,
    evaluate_polynomial,
    get_integer_limits,
    is_float,
    to_native,
)
from irrun.ops._support.registry import op
from irrun.ops._support.special_functions import erfc_tail, sigmoid
from irrun.shapes import get_broadcast_shape

__all__ = [
    "clamp_1",
    "elu_1",
    "exp_1",
    "gelu_7",
    "h_sigmoid_5",
    "h_swish_4",
    "hard_sigmoid_1",
    "identity_16",
    "mish_4",
    "p_relu_1",
    "relu_1",
    "selu_1",
    "sigmoid_1",
    "soft_plus_4",
    "soft_sign_9",
    "swish_4",
]


@op("Relu", since=1, kind="elementwise", extremes="ends", channel_axis=1, flops=1)
@compute_in_native_type
@describes_unary("Numeric")
def relu_1(data: Array) -> Array:
    """Replace negative values by zero; NaN is unchanged.

    Spec:
        ReLU-1
    """
    return np.asarray(np.maximum(data, data.dtype.type(0)))


@op("PRelu", since=1, scratch=1, kind="elementwise", shape="infer_prelu", channel_axis=1, flops=2)
@compute_in_native_type
def p_relu_1(data: Array, slope: Array) -> Array:
    """Multiply negative values by `slope`.

    Args:
        data: Floating-point, any shape.
        slope: The type of `data`. One value per channel (the second dimension of `data`, or its only dimension), or any
            shape that broadcasts to `data`. Its rank may be higher than the rank of `data` if it begins with ones.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `slope` does not broadcast to `data`.

    Spec:
        PReLU-1
    """
    channel_axis = 1 if data.ndim > 1 else 0
    extra_rank = max(0, slope.ndim - data.ndim)
    if data.ndim and slope.ndim == 1 and slope.shape[0] == data.shape[channel_axis]:
        slope = slope.reshape(-1, *[1] * (data.ndim - channel_axis - 1))
    elif slope.shape[:extra_rank] == (1,) * extra_rank:
        slope = slope.reshape(slope.shape[extra_rank:])
    apply_auto_broadcast(data, slope)
    if get_broadcast_shape(data.shape, slope.shape) != data.shape:
        raise InputError(f"slope of shape {list(slope.shape)} does not broadcast to data of shape {list(data.shape)}")
    if not np.isfinite(slope).all():
        return np.where(data < 0, slope * data, data)
    # One of the terms is zero, so that the sum is exact; it is faster than selecting one of them.
    return np.asarray(np.maximum(data, 0) + np.minimum(data, 0) * slope)


@op("Clamp", since=1, kind="elementwise", extremes="ends", shape="infer_clamp", channel_axis=1, flops=2)
def clamp_1(data: Array, *, min: float, max: float) -> Array:
    """Limit values to [min, max]; NaN is unchanged.

    Args:
        data: Numeric, any shape.
        min: Lower limit; rounded up for integers.
        max: Upper limit; rounded down for integers.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: min is greater than max.

    Spec:
        Clamp-1
    """
    if min > max:
        raise InputError(f"min {min} is greater than max {max}")
    low, high = (min, max) if is_float(data.dtype) else _round_limits(min, max, *get_integer_limits(data.dtype))
    return _clip(data, low=low, high=high)


@compute_in_native_type
def _clip(data: Array, *, low: float, high: float) -> Array:
    return np.clip(data, data.dtype.type(low), data.dtype.type(high))


def _round_limits(low: float, high: float, lowest: int, greatest: int) -> tuple[int, int]:
    """Round [low, high] inward to integers in [lowest, greatest]."""
    return math.ceil(min(max(low, lowest), greatest)), math.floor(min(max(high, lowest), greatest))


@op("Elu", since=1, kind="elementwise", channel_axis=1, flops=3)
def elu_1(data: Array, *, alpha: float) -> Array:
    """Replace negative values by `alpha * (exp(data) - 1)`.

    Args:
        data: Floating-point, any shape.
        alpha: Scale of negative values.

    Returns:
        The shape and type of `data`.

    Spec:
        Elu-1
    """
    single = data.dtype != np.float64
    return apply_in_float64(partial(_compute_elu, alpha=alpha, single=single), data, integers="truncate")


def _compute_elu(x: Array, alpha: float, *, single: bool) -> Array:
    """Compute Elu of an f64 array; `single` is faster, for results that are rounded to f32."""
    magnitude = np.abs(x)
    if single:
        negative = np.where(magnitude < 1e-8, -magnitude, np.exp(-magnitude) - 1)
    else:
        negative = np.asarray(np.expm1(-magnitude))
    if not math.isfinite(alpha):
        return np.where(x < 0, alpha * negative, x)
    return np.maximum(x, 0) + alpha * negative * (x < 0)


@op("Selu", since=1, scratch=3.25, kind="elementwise", shape="keep_shape", scalars=(1, 2), flops=4)
def selu_1(data: Array, alpha: Array, lambda_: Array) -> Array:
    """Compute `lambda * data`, or `lambda * alpha * (exp(data) - 1)` where `data` is negative.

    Args:
        data: Floating-point, any shape.
        alpha: The type of `data`, scalar.
        lambda_: The type of `data`, scalar.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `alpha` or `lambda` has more than one element.

    Spec:
        Selu-1
    """
    scale, slope = to_scalar(lambda_, "lambda"), to_scalar(alpha, "alpha")
    single = data.dtype != np.float64
    return apply_in_float64(lambda x: scale * _compute_elu(x, slope, single=single), data)


@op("Exp", since=1, kind="elementwise", flops=1)
@compute_in_float64(integers="truncate")
@describes_unary("Numeric", integers="truncated")
def exp_1(data: Array) -> Array:
    """Compute e to the power of `data`.

    Spec:
        Exp-1
    """
    return np.asarray(np.exp(data))


@op("Gelu", since=2, kind="elementwise", channel_axis=1, flops=5)
@op("Gelu", since=7, kind="elementwise", channel_axis=1, flops=5)
def gelu_7(data: Array, *, approximation_mode: Literal["ERF", "TANH"] = "ERF") -> Array:
    """Multiply `data` by the probability that a standard normal variable is less.

    Args:
        data: Floating-point, any shape.
        approximation_mode: Whether the probability is computed exactly or approximated by tanh.

    Returns:
        The shape and type of `data`.

    Spec:
        Gelu-2, Gelu-7
    """
    if approximation_mode == "TANH":
        return apply_in_float64(_compute_gelu_tanh, data)
    return apply_in_float64(partial(_compute_gelu_erf, single=data.dtype != np.float64), data)


def _compute_gelu_erf(x: Array, *, single: bool) -> Array:
    tail = erfc_tail(np.abs(x) * math.sqrt(0.5), single=single)
    tail *= 0.5
    return np.asarray(x * ((x >= 0) - np.copysign(tail, x)))


def _compute_gelu_tanh(x: Array) -> Array:
    # 0.5 * (1 + tanh(z)) equals sigmoid(2z), which stays accurate where tanh is close to -1.
    z = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return np.asarray(x / (1 + np.exp(-2 * z)))


@op("Sigmoid", since=1, kind="elementwise", channel_axis=1, flops=1)
@describes_unary("Numeric")
def sigmoid_1(data: Array) -> Array:
    """Compute `1 / (1 + exp(-data))`.

    For integers, the result is 1 for positive values and 0 for all others. As in the reference implementation, unsigned
    values are reinterpreted as signed, and the negation wraps.

    Spec:
        Sigmoid-1
    """
    if is_float(data.dtype):
        return apply_in_float64(sigmoid, data)
    native = to_native(data)
    signed = native.view(f"i{native.itemsize}")
    return np.asarray(-signed < 0).astype(data.dtype)


@op("Swish", since=4, kind="elementwise", shape="keep_shape", scalars=(1,), channel_axis=1, flops=2)
@compute_in_float64()
def swish_4(data: Array, beta: Array | None = None) -> Array:
    """Compute `data * sigmoid(beta * data)`.

    Args:
        data: Floating-point, any shape.
        beta: The type of `data`, scalar. 1 if omitted.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `beta` has more than one element.

    Spec:
        Swish-4
    """
    factor = 1.0 if beta is None else to_scalar(beta, "beta")
    return np.asarray(data * sigmoid(factor * data))


@op("Mish", since=4, kind="elementwise", flops=5)
@compute_in_float64()
@describes_unary("Floating-point")
def mish_4(data: Array) -> Array:
    """Compute `data * tanh(log(1 + exp(data)))`.

    Spec:
        Mish-4
    """
    # With e = exp(x), tanh(log(1 + e)) equals e (e + 2) / (e (e + 2) + 2), which is 1 from x = 40 on.
    e = np.exp(np.minimum(data, 40))
    product = e * (e + 2)
    return np.asarray(data * (product / (product + 2)))


#: log(1 + x) equals 2 atanh(s) with s = x / (2 + x); 2 atanh(s) / s as a polynomial in s^2, for s^2 up to 1/9.
ATANH_SERIES = (2.0000000079210207, 0.666663146827188, 0.40024910249062445, 0.27960603229125613, 0.281783327745312)


@op("SoftPlus", since=4, kind="elementwise", flops=3)
@describes_unary("Floating-point")
def soft_plus_4(data: Array) -> Array:
    """Compute `log(1 + exp(data))`.

    Spec:
        SoftPlus-4
    """
    log1p = np.log1p if data.dtype == np.float64 else _approximate_log1p
    return apply_in_float64(lambda x: np.maximum(x, 0) + log1p(np.exp(-np.abs(x))), data)


def _approximate_log1p(x: Array) -> Array:
    """Compute log(1 + x) of an f64 array in [0, 1], for results that are rounded to f32."""
    s = x / (x + 2)
    return np.asarray(s * evaluate_polynomial(ATANH_SERIES, s * s))


@op("SoftSign", since=9, scratch=1.25, kind="elementwise", flops=3)
@compute_in_native_type
@describes_unary("Floating-point")
def soft_sign_9(data: Array) -> Array:
    """Compute `data / (1 + |data|)`; infinities become NaN.

    Spec:
        SoftSign-9
    """
    return np.asarray(data / (1 + np.abs(data)))


@op("HSigmoid", since=5, scratch=1.25, kind="elementwise", flops=4)
@compute_in_native_type
@describes_unary("Floating-point")
def h_sigmoid_5(data: Array) -> Array:
    """Compute `min(max(data + 3, 0), 6) / 6`.

    Spec:
        HSigmoid-5
    """
    return np.asarray(np.clip(data + 3, 0, 6) / 6)


@op("HSwish", since=4, kind="elementwise", channel_axis=1, flops=5)
@compute_in_float64()
@describes_unary("Floating-point")
def h_swish_4(data: Array) -> Array:
    """Compute `data * min(max(data + 3, 0), 6) / 6`.

    Spec:
        HSwish-4
    """
    return np.asarray(data * np.clip(data + 3, 0, 6) / 6)


@op("HardSigmoid", since=1, kind="elementwise", shape="keep_shape", scalars=(1, 2), flops=4)
@compute_in_float64()
def hard_sigmoid_1(data: Array, alpha: Array, beta: Array) -> Array:
    """Compute `min(max(alpha * data + beta, 0), 1)`; NaN becomes 1, as in the reference implementation.

    Args:
        data: Floating-point, any shape.
        alpha: The type of `data`, scalar.
        beta: The type of `data`, scalar.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `alpha` or `beta` has more than one element.

    Spec:
        HardSigmoid-1
    """
    slope, offset = to_scalar(alpha, "alpha"), to_scalar(beta, "beta")
    return np.asarray(np.maximum(np.fmin(slope * data + offset, 1), 0))


@op("Identity", since=16, kind="view", shape="keep_shape", folding="linear", flops=0)
def identity_16(data: Array) -> Array:
    """Return `data` itself.

    Args:
        data: Any type, any shape.

    Returns:
        `data`.

    Spec:
        Identity-16
    """
    return data
