"""Softmax and its logarithm."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array, compute_in_float32, reduce_along
from irrun.ops._support.registry import op

__all__ = ["log_softmax_5", "softmax_1", "softmax_8"]


@op("Softmax", since=1, kind="rowwise", shape="infer_along_axis", is_overwritable=True, folding="linear", flops=5)
def softmax_1(data: Array, *, axis: int = 1) -> Array:
    """Divide `exp(data)` by its sum along `axis`.

    Args:
        data: Floating-point, any shape.
        axis: Not negative; 0 for a scalar. The default follows the specification; OpenVINO uses 0.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `axis` is out of range.

    Spec:
        SoftMax-1
    """
    if axis < 0:
        raise InputError(f"axis {axis} is negative, which Softmax-1 does not support")
    return softmax_8(data, axis=axis)


@op("Softmax", since=8, kind="rowwise", shape="infer_along_axis", is_overwritable=True, folding="linear", flops=5)
@compute_in_float32
@describes_like(softmax_1)
def softmax_8(data: Array, *, axis: int = 1) -> Array:
    """Divide `exp(data)` by its sum along `axis`.

    Args:
        data: Floating-point, any shape. A scalar is treated as [1].
        axis: Negative values count from the end.

    Spec:
        SoftMax-8
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


@op("LogSoftmax", since=5, scratch=1.75, kind="rowwise", shape="infer_along_axis", folding="linear", flops=5)
@compute_in_float32
@describes_like(softmax_8)
def log_softmax_5(data: Array, *, axis: int = 1) -> Array:
    """Compute the logarithm of Softmax along `axis`, without its loss of precision.

    Spec:
        LogSoftmax-5
    """
    if data.ndim == 0:
        return log_softmax_5(data.reshape(1), axis=axis).reshape(())
    axis = normalize_axis(axis, data.ndim)
    if data.size == 0:
        return data
    shifted = data - reduce_along(np.maximum, data, axis)
    return np.asarray(shifted - np.log(reduce_along(np.add, np.exp(shifted), axis)))
