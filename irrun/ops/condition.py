"""Condition operations: Bucketize, If, NonZero, Select."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.broadcasting import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.context import BodyRunner
from irrun.ops._support.flops import count_inputs
from irrun.ops._support.numerics import Array, is_float, is_integer, upcast
from irrun.ops._support.registry import op

__all__ = ["bucketize_3", "if_8", "non_zero_3", "select_1"]


@op("Bucketize", since=3, scratch=3, kind="elementwise", shape="keep_shape", discontinuous=True)
def bucketize_3(
    data: Array,
    buckets: Array,
    *,
    output_type: ElementType = ELEMENT_TYPES["i64"],
    with_right_bound: bool = True,
) -> Array:
    """Return the index of the bucket that contains each element of `data`.

    Args:
        data: Numeric, any shape.
        buckets: Numeric, 1D. The boundaries between buckets, ascending.
        output_type: The type of the result, i64 or i32.
        with_right_bound: Whether buckets include their upper boundary; otherwise, they include their lower boundary.

    Returns:
        The shape of `data`, the type `output_type`: the number of boundaries that are less than the element, or less
        than or equal to it if `with_right_bound` is false. NaN is in the first bucket, or in the last one if
        `with_right_bound` is false.

    Raises:
        InputError: `buckets` is not one-dimensional, or an input is not numeric.

    Spec:
        Bucketize-3
    """
    if buckets.ndim != 1:
        raise InputError(f"buckets has shape {list(buckets.shape)}, expected one dimension")
    dtype = _get_comparison_type(data.dtype, buckets.dtype)
    values = data.astype(dtype)
    indices = np.searchsorted(buckets.astype(dtype), values, side="left" if with_right_bound else "right")
    if dtype.kind == "f" and with_right_bound:
        indices = np.where(np.isnan(values), 0, indices)
    return np.asarray(indices, output_type.dtype)


def _get_comparison_type(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a comparison of two numbers in C: f64 or f32 if one is a float, else an integer type."""
    for dtype in (a, b):
        if not (is_float(dtype) or is_integer(dtype) or dtype == np.bool_):
            raise InputError(f"expected a numeric type, found {ElementType.of(dtype)}")
    if np.float64 in (a, b):
        return np.dtype(np.float64)
    if is_float(a) or is_float(b):
        return np.dtype(np.float32)
    return np.dtype(np.uint64 if np.uint64 in (a, b) else np.int64)


@op("NonZero", since=3, kind="selection", shape="infer_non_zero", flops=count_inputs(1), output_types=("output_type",))
def non_zero_3(data: Array, *, output_type: ElementType = ELEMENT_TYPES["i64"]) -> Array:
    """Return the coordinates of the elements that are not zero, in row-major order.

    Args:
        data: Any type, any shape. Empty strings are zero.
        output_type: The type of the result, i64 or i32.

    Returns:
        Shape [rank of `data`, number of nonzero elements], the type `output_type`. For a scalar, the shape is [1, 1],
        or [0, 0] if it is zero, as in the reference implementation.

    Spec:
        NonZero-3
    """
    if data.dtype.names:
        data = data[data.dtype.names[0]]
    if data.ndim == 0:
        return np.zeros((1, 1) if data else (0, 0), output_type.dtype)
    values = upcast(data)
    positions = int(np.count_nonzero(values)) * data.ndim
    check_scratch(positions * (3 * np.dtype(np.int64).itemsize))  # of NumPy, stacked, and of the result
    return np.stack(np.nonzero(values)).astype(output_type.dtype)


@op("Select", since=1, kind="elementwise", extremes="ends", shape="infer_selection", flops=0, output_types=(1,))
def select_1(
    cond: Array,
    then: Array,
    else_: Array,
    *,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_axis: int = 0,
) -> Array:
    """Select elements of `then` where `cond` is true, and of `else` where it is false.

    Args:
        cond: Boolean, any shape.
        then: Any type, any shape.
        else_: The type of `then`, any shape.
        auto_broadcast: Broadcasting rule. "none" requires equal shapes, "numpy" broadcasts all inputs, "pdpd"
            broadcasts `cond` and `else` to `then`.
        auto_broadcast_axis: First dimension that "pdpd" matches.

    Returns:
        The broadcast shape, the type of `then`.

    Raises:
        InputError: The shapes do not match by the broadcasting rule.

    Spec:
        Select-1
    """
    if auto_broadcast == "pdpd":
        cond = apply_auto_broadcast(then, cond, auto_broadcast, auto_broadcast_axis)[1]
        else_ = apply_auto_broadcast(then, else_, auto_broadcast, auto_broadcast_axis)[1]
    elif auto_broadcast in ("none", "explicit"):
        apply_auto_broadcast(then, cond, auto_broadcast)
        apply_auto_broadcast(then, else_, auto_broadcast)
    try:
        return np.where(cond.astype(np.bool_), then, else_)
    except ValueError:
        raise InputError(
            f"shapes {list(cond.shape)}, {list(then.shape)} and {list(else_.shape)} cannot be broadcast"
        ) from None


@op("If", since=8, kind="control", flops=0)
def if_8(cond: Array, *inputs: Array, then_body: BodyRunner, else_body: BodyRunner) -> tuple[Array, ...]:
    """Run one of two bodies, depending on a condition.

    Args:
        cond: Boolean scalar.
        *inputs: Any types, any shapes. The port maps connect them to the Parameters of the bodies; their positions
            count from `cond`, which is 0.
        then_body: The body that runs if `cond` is true.
        else_body: The body that runs if `cond` is false.

    Returns:
        The outputs of the body that ran. Their types and shapes may differ from the other body. A scalar
        becomes [1] if the other body and the layer declare one dimension, which is what OpenVINO's shape inference
        declares unless `cond` is constant.

    Raises:
        InputError: `cond` does not have exactly one element.

    Spec:
        If-8
    """
    body, other = (then_body, else_body) if to_scalar(cond, "cond") else (else_body, then_body)
    other_shapes = {out.port: other.result_shapes[out.result] for out in other.outputs}
    ports = (cond, *inputs)
    arguments: list[Array | None] = [None] * body.parameter_count
    for entry in body.inputs:
        if entry.port >= 0:
            arguments[entry.parameter] = ports[entry.port]
    results = body.run(arguments, 0)
    outputs: list[Array] = [np.empty(0)] * body.output_count
    for out in body.outputs:
        if out.port >= 0:
            value = results[out.result]
            declared_shapes = (other_shapes.get(out.port), body.output_shapes[out.port])
            is_vector = all(shape is not None and len(shape) == 1 for shape in declared_shapes)
            outputs[out.port] = value.reshape(1) if is_vector and not value.ndim else value
    return tuple(outputs)
