"""Condition operations: Bucketize, If, NonZero, Select."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import AutoBroadcast, apply_auto_broadcast, to_scalar
from irrun.ops._support.context import BodyRunner
from irrun.ops._support.numerics import Array, is_float, is_integer, upcast
from irrun.ops._support.registry import op

__all__ = ["bucketize_3", "if_8", "non_zero_3", "select_1"]


@op("Bucketize", since=3)
def bucketize_3(
    data: Array,
    buckets: Array,
    *,
    output_type: ElementType = ELEMENT_TYPES["i64"],
    with_right_bound: bool = True,
) -> Array:
    """For each element of `data` the number of the bucket it falls into, between two of the boundaries `buckets`.

    data: any numeric type and shape; buckets: any numeric type [n], ascending.
    Returns `output_type`, the shape of data: how many boundaries are less than the element, or with
    `with_right_bound` false, less or equal. NaN falls into the first bucket, or without right bound into
    the last.
    Spec: Bucketize-3.
    """
    if buckets.ndim != 1:
        raise InputError(f"buckets have shape {list(buckets.shape)}, expected one dimension")
    common = _comparable(data.dtype, buckets.dtype)
    values = data.astype(common)
    found = np.searchsorted(buckets.astype(common), values, side="left" if with_right_bound else "right")
    if common.kind == "f" and with_right_bound:
        found = np.where(np.isnan(values), 0, found)
    return np.asarray(found, output_type.dtype)


def _comparable(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which C compares the two: f64 or f32 if one is a float, else an integer type."""
    for x in (a, b):
        if not (is_float(x) or is_integer(x) or x == np.bool_):
            raise InputError(f"{x} is no numeric type")
    if np.float64 in (a, b):
        return np.dtype(np.float64)
    if is_float(a) or is_float(b):
        return np.dtype(np.float32)
    return np.dtype(np.uint64 if np.uint64 in (a, b) else np.int64)


@op("NonZero", since=3)
def non_zero_3(data: Array, *, output_type: ElementType = ELEMENT_TYPES["i64"]) -> Array:
    """The coordinates of the elements that are not zero, in row-major order.

    data: any type and shape; a string is zero if it is empty.
    Returns `output_type` [rank of data, number of elements that are not zero]; for a scalar [1, 1] or, if
    it is zero, [0, 0], as the reference implementation has it.
    Spec: NonZero-3.
    """
    if data.dtype.names:
        data = data[data.dtype.names[0]]
    if data.ndim == 0:
        return np.zeros((1, 1) if data else (0, 0), output_type.dtype)
    return np.stack(np.nonzero(upcast(data))).astype(output_type.dtype)


@op("Select", since=1, folding="elementwise")
def select_1(
    cond: Array,
    then: Array,
    else_: Array,
    *,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_axis: int = 0,
) -> Array:
    """Elements of `then` where `cond` is true, of `else` where it is not.

    cond: boolean; then, else: any one type; shapes as `auto_broadcast` admits: "none" wants all equal,
    "numpy" broadcasts all three, "pdpd" places cond and else into the shape of
    then, from the axis `auto_broadcast_axis` on.
    Returns the type of then.
    Raises InputError where the shapes do not fit.
    Spec: Select-1.
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
            f"cond {list(cond.shape)}, then {list(then.shape)} and else {list(else_.shape)} do not broadcast"
        ) from None


@op("If", since=8)
def if_8(cond: Array, *inputs: Array, then_body: BodyRunner, else_body: BodyRunner) -> tuple[Array, ...]:
    """Runs one of two bodies.

    cond: boolean, one element. inputs: any types and shapes; the port maps say which Parameter of which
    body each one feeds, and their positions count from cond, which is 0.
    Returns the outputs of the body that ran, whose types and shapes may differ from those of the other; only a
    scalar gets one dimension where the other body and the layer declare one, as OpenVINO's shape inference has it
    unless cond is constant.
    Raises InputError where cond has more than one element.
    Spec: If-8.
    """
    body, other = (then_body, else_body) if to_scalar(cond, "cond") else (else_body, then_body)
    otherwise = {out.port: other.result_shapes[out.result] for out in other.outputs}
    everything = (cond, *inputs)
    arguments: list[Array | None] = [None] * body.parameter_count
    for entry in body.inputs:
        if entry.port >= 0:
            arguments[entry.parameter] = everything[entry.port]
    results = body.run(arguments, 0)
    outputs: list[Array] = [np.empty(0)] * body.output_count
    for out in body.outputs:
        if out.port >= 0:
            value = results[out.result]
            declared = (otherwise.get(out.port), body.output_shapes[out.port])
            is_vector = all(shape is not None and len(shape) == 1 for shape in declared)
            outputs[out.port] = value.reshape(1) if is_vector and not value.ndim else value
    return tuple(outputs)
