"""Activation functions."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.elementwise import binary, reduce_along, unary
from irrun.ops._support.numerics import (
    Array,
    compute_in_float32,
    evaluate_polynomial,
    get_integer_limits,
    is_float,
    to_native,
    via_float64,
)
from irrun.ops._support.registry import op
from irrun.ops._support.special_functions import erfc_tail, sigmoid

__all__ = [
    "clamp_1",
    "elu_1",
    "exp_1",
    "gelu_7",
    "h_sigmoid_5",
    "h_swish_4",
    "hard_sigmoid_1",
    "identity_16",
    "log_softmax_5",
    "mish_4",
    "p_relu_1",
    "relu_1",
    "selu_1",
    "sigmoid_1",
    "soft_plus_4",
    "soft_sign_9",
    "softmax_1",
    "softmax_8",
    "swish_4",
]


@op("Relu", since=1, folding="elementwise")
def relu_1(data: Array) -> Array:
    """`data` where it is positive, zero elsewhere; NaN stays.

    data: any numeric type, any shape.
    Returns the shape and type of data.
    Spec: ReLU-1.
    """
    return unary(lambda x: np.maximum(x, x.dtype.type(0)), data)


@op("PRelu", since=1, folding="elementwise")
def p_relu_1(data: Array, slope: Array) -> Array:
    """`data` where it is not negative, `slope * data` elsewhere.

    data: any floating-point type, any shape; slope: the same type, one per channel (the second dimension of
    data, or its only one), or any shape that broadcasts to data, also of a higher rank if it begins with ones.
    Returns the shape and type of data.
    Raises InputError where the shapes do not fit.
    Spec: PReLU-1.
    """
    channel = 1 if data.ndim > 1 else 0
    extra = max(0, slope.ndim - data.ndim)
    if data.ndim and slope.ndim == 1 and slope.shape[0] == data.shape[channel]:
        slope = slope.reshape(-1, *[1] * (data.ndim - channel - 1))
    elif slope.shape[:extra] == (1,) * extra:
        slope = slope.reshape(slope.shape[extra:])
    result = binary(_p_relu, data, slope, "numpy", 0)
    if result.shape != data.shape:
        raise InputError(f"slope of shape {list(slope.shape)} does not broadcast to data of shape {list(data.shape)}")
    return result


def _p_relu(x: Array, slope: Array) -> Array:
    if not np.isfinite(slope).all():
        return np.where(x < 0, slope * x, x)
    # One of the terms is zero, so that this is exact; choosing between them costs more than adding them.
    return np.asarray(np.maximum(x, 0) + np.minimum(x, 0) * slope)


@op("Clamp", since=1, folding="elementwise")
def clamp_1(data: Array, *, min: float, max: float) -> Array:
    """`data` with what lies outside of [min, max] moved to the nearer end; NaN stays.

    data: any numeric type, any shape.
    Returns the shape and type of data. For integers min is rounded up and max down.
    Raises InputError where min is greater than max.
    Spec: Clamp-1.
    """
    if min > max:
        raise InputError(f"min {min} is greater than max {max}")
    if is_float(data.dtype):
        return unary(lambda x: np.clip(x, x.dtype.type(min), x.dtype.type(max)), data)
    lowest, greatest = get_integer_limits(data.dtype)
    low = lowest if min <= lowest else math.ceil(min)
    high = greatest if max >= greatest else math.floor(max)
    low, high = sorted((low, lowest, greatest))[1], sorted((high, lowest, greatest))[1]
    return unary(lambda x: np.clip(x, x.dtype.type(low), x.dtype.type(high)), data)


@op("Elu", since=1, folding="elementwise")
def elu_1(data: Array, *, alpha: float) -> Array:
    """`data` where it is not negative, `alpha * (exp(data) - 1)` elsewhere.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: Elu-1.
    """
    single = data.dtype != np.float64
    return via_float64(lambda x: _elu(x, alpha, single), data, integers="truncate")


def _elu(x: Array, alpha: float, single: bool) -> Array:
    """Elu of an f64 array; `single` is faster, and good for results that are rounded to f32."""
    size = np.abs(x)
    if single:
        below = np.where(size < 1e-8, -size, np.exp(-size) - 1)
    else:
        below = np.asarray(np.expm1(-size))
    if not math.isfinite(alpha):
        return np.where(x < 0, alpha * below, x)
    return np.maximum(x, 0) + alpha * below * (x < 0)


@op("Selu", since=1, folding="elementwise")
def selu_1(data: Array, alpha: Array, lambda_: Array) -> Array:
    """`lambda * data` where it is positive, `lambda * alpha * (exp(data) - 1)` elsewhere.

    data: any floating-point type, any shape; alpha, lambda: the same type, one element.
    Returns the shape and type of data.
    Raises InputError where alpha or lambda have more than one element.
    Spec: Selu-1.
    """
    scale, slope = to_scalar(lambda_, "lambda"), to_scalar(alpha, "alpha")
    single = data.dtype != np.float64
    return via_float64(lambda x: scale * _elu(x, slope, single), data)


@op("Exp", since=1, folding="elementwise")
def exp_1(data: Array) -> Array:
    """e to the power of `data`.

    data: any numeric type, any shape.
    Returns the shape and type of data. Results of integers are truncated, as in the reference.
    Spec: Exp-1.
    """
    return via_float64(np.exp, data, integers="truncate")


@op("Gelu", since=2, folding="elementwise")
@op("Gelu", since=7, folding="elementwise")
def gelu_7(data: Array, *, approximation_mode: Literal["ERF", "TANH"] = "ERF") -> Array:
    """`data` times the probability that a normal variable is below it, or the usual approximation of that by tanh.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: Gelu-2, Gelu-7.
    """
    if approximation_mode == "TANH":
        return via_float64(_gelu_tanh, data)
    return via_float64(partial(_gelu_erf, single=data.dtype != np.float64), data)


def _gelu_erf(x: Array, single: bool) -> Array:
    tail = erfc_tail(np.abs(x) * math.sqrt(0.5), single=single)
    tail *= 0.5
    return np.asarray(x * ((x >= 0) - np.copysign(tail, x)))


def _gelu_tanh(x: Array) -> Array:
    # 0.5 * (1 + tanh(z)) is 1 / (1 + exp(-2z)), which keeps its precision where tanh comes close to -1.
    z = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return np.asarray(x / (1 + np.exp(-2 * z)))


@op("Sigmoid", since=1, folding="elementwise")
def sigmoid_1(data: Array) -> Array:
    """`1 / (1 + exp(-data))`.

    data: any numeric type, any shape.
    Returns the shape and type of data. Of integers, positive ones give 1 and others 0, as in the reference, which
    takes unsigned ones as signed and negates them in their own width.
    Spec: Sigmoid-1.
    """
    if not is_float(data.dtype):
        values = to_native(data)
        signed = values.view(f"i{values.itemsize}")
        return np.asarray(-signed < 0).astype(data.dtype)
    return via_float64(sigmoid, data)


@op("Swish", since=4, folding="elementwise")
def swish_4(data: Array, beta: Array | None = None) -> Array:
    """`data * sigmoid(beta * data)`.

    data: any floating-point type, any shape; beta: the same type, one element, 1 where it is left out.
    Returns the shape and type of data.
    Raises InputError where beta has more than one element.
    Spec: Swish-4.
    """
    factor = 1.0 if beta is None else to_scalar(beta, "beta")
    return via_float64(lambda x: x * sigmoid(factor * x), data)


@op("Mish", since=4, folding="elementwise")
def mish_4(data: Array) -> Array:
    """`data * tanh(log(1 + exp(data)))`.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: Mish-4.
    """
    return via_float64(_mish, data)


def _mish(x: Array) -> Array:
    # With e = exp(x), tanh(log(1 + e)) is e (e + 2) / (e (e + 2) + 2); from 40 on that is 1.
    e = np.exp(np.minimum(x, 40))
    product = e * (e + 2)
    return np.asarray(x * (product / (product + 2)))


@op("SoftPlus", since=4, folding="elementwise")
def soft_plus_4(data: Array) -> Array:
    """`log(1 + exp(data))`.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: SoftPlus-4.
    """
    single = data.dtype != np.float64
    return via_float64(lambda x: np.maximum(x, 0) + _log1p(np.exp(-np.abs(x)), single), data)


#: log(1 + x) is 2 atanh(s) with s = x / (2 + x); 2 atanh(s) / s as a polynomial in s^2 up to 1/9.
ATANH = (2.0000000079210207, 0.666663146827188, 0.40024910249062445, 0.27960603229125613, 0.281783327745312)


def _log1p(x: Array, single: bool) -> Array:
    """log(1 + x) of an f64 array in [0, 1]; `single` is faster, and good for results that are rounded to f32."""
    if not single:
        return np.asarray(np.log1p(x))
    s = x / (x + 2)
    result: Array = s * evaluate_polynomial(ATANH, s * s)
    return result


@op("SoftSign", since=9, folding="elementwise")
def soft_sign_9(data: Array) -> Array:
    """`data / (1 + |data|)`; NaN for the infinities.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: SoftSign-9.
    """
    return unary(lambda x: x / (1 + np.abs(x)), data)


@op("HSigmoid", since=5, folding="elementwise")
def h_sigmoid_5(data: Array) -> Array:
    """`data + 3` clamped to [0, 6], divided by 6.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: HSigmoid-5.
    """
    return unary(lambda x: _hard(x) / 6, data)


@op("HSwish", since=4, folding="elementwise")
def h_swish_4(data: Array) -> Array:
    """`data` times `data + 3` clamped to [0, 6], divided by 6.

    data: any floating-point type, any shape.
    Returns the shape and type of data.
    Spec: HSwish-4.
    """
    return via_float64(lambda x: x * _hard(x) / 6, data)


def _hard(x: Array) -> Array:
    return np.asarray(np.clip(x + 3, 0, 6))


@op("HardSigmoid", since=1, folding="elementwise")
def hard_sigmoid_1(data: Array, alpha: Array, beta: Array) -> Array:
    """`alpha * data + beta` clamped to [0, 1]; NaN becomes 1, as in the reference.

    data: any floating-point type, any shape; alpha, beta: the same type, one element.
    Returns the shape and type of data.
    Raises InputError where alpha or beta have more than one element.
    Spec: HardSigmoid-1.
    """
    slope, offset = to_scalar(alpha, "alpha"), to_scalar(beta, "beta")
    return via_float64(lambda x: np.maximum(np.fmin(slope * x + offset, 1), 0), data)


@op("Identity", since=16, folding="elementwise")
def identity_16(data: Array) -> Array:
    """`data` itself.

    data: any type and shape.
    Returns data.
    Spec: Identity-16.
    """
    return data


@op("Softmax", since=1, folding="elementwise")
def softmax_1(data: Array, *, axis: int = 1) -> Array:
    """`exp(data)` divided by its sum along `axis`.

    data: any floating-point type; axis not negative, 0 for a scalar, 1 where it is left out (OpenVINO's own reader
    takes 0 then, against the specification).
    Returns the shape and type of data.
    Raises InputError where axis is out of range.
    Spec: SoftMax-1.
    """
    if axis < 0:
        raise InputError(f"axis is {axis}, expected none below zero")
    return softmax_8(data, axis=axis)


@op("Softmax", since=8, folding="elementwise")
@compute_in_float32
def softmax_8(data: Array, *, axis: int = 1) -> Array:
    """`exp(data)` divided by its sum along `axis`.

    data: any floating-point type; a negative axis counts from the back, and a scalar is taken for [1].
    Returns the shape and type of data.
    Raises InputError where axis is out of range.
    Spec: SoftMax-8.
    """
    if data.ndim == 0:
        return softmax_8(data.reshape(1), axis=axis).reshape(())
    axis = normalize_axis(axis, data.ndim)
    if data.size == 0:
        return data
    weights = data - reduce_along(np.maximum, data, axis)
    np.exp(weights, out=weights)
    weights /= reduce_along(np.add, weights, axis)
    return weights


@op("LogSoftmax", since=5, folding="elementwise")
@compute_in_float32
def log_softmax_5(data: Array, *, axis: int = 1) -> Array:
    """The logarithm of Softmax along `axis`, without its loss of precision.

    data: any floating-point type; a negative axis counts from the back, and a scalar is taken for [1].
    Returns the shape and type of data.
    Raises InputError where axis is out of range.
    Spec: LogSoftmax-5.
    """
    if data.ndim == 0:
        return log_softmax_5(data.reshape(1), axis=axis).reshape(())
    axis = normalize_axis(axis, data.ndim)
    if data.size == 0:
        return data
    shifted = data - reduce_along(np.maximum, data, axis)
    return np.asarray(shifted - np.log(reduce_along(np.add, np.exp(shifted), axis)))
