"""Rules for reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irrun.onnx_import.graph import Value, cast, constant, op
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import where
from irrun.ops._support.numerics import get_lowest_float

#: Operators with a matching operation.
_REDUCTIONS = {
    "ReduceL1": "ReduceL1",
    "ReduceL2": "ReduceL2",
    "ReduceMean": "ReduceMean",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
}


def get_axes(node: Node) -> Value | None:
    """Return the axes of a reduction; None if nothing is reduced."""
    axes = node.get_axes(1)
    if axes is not None and axes.get_dimension(0) == 0:
        axes = None
    if axes is None and not node.get_int("noop_with_empty_axes", 0):
        return constant(np.arange(node[0].get_rank(), dtype=np.int64))
    return axes


def _reduce(
    node: Node,
    operation: str,
    before: Callable[[Value], Value] | None = None,
    after: Callable[[Value], Value] | None = None,
) -> Value:
    x, axes = node[0], get_axes(node)
    x = x if before is None else before(x)
    if axes is not None:
        x = op(operation, x, axes, keep_dims=bool(node.get_int("keepdims", 1)))
    elif operation in ("ReduceL1", "ReduceL2"):
        x = op("Abs", x)
    return x if after is None else after(x)


for _operator, _operation in _REDUCTIONS.items():
    translate(_operator)(lambda node, _operation=_operation: _reduce(node, _operation))  # type: ignore[misc]


@translate("ReduceMax", "ReduceMin")
def translate_extreme(node: Node) -> Value:
    """ReduceMax and ReduceMin; the logical operations for booleans."""
    x, name = node[0], node.type
    if x.type.kind == "boolean":
        return _reduce(node, "ReduceLogicalOr" if name == "ReduceMax" else "ReduceLogicalAnd")
    if node.is_in_function and name == "ReduceMax" and x.type.is_float:
        # Functions detect masked rows by a maximum of -inf; OpenVINO would return the lowest finite number.
        lowest = get_lowest_float(x.type.dtype)
        return _reduce(node, name, after=lambda m: where(op("Equal", m, lowest), -np.inf, m))
    return _reduce(node, name)


@translate("ReduceLogSum")
def translate_log_sum(node: Node) -> Value:
    """Return the logarithm of the sum."""
    return _reduce(node, "ReduceSum", after=lambda x: op("Log", x))


@translate("ReduceSumSquare")
def translate_sum_square(node: Node) -> Value:
    """Return the sum of squares."""
    return _reduce(node, "ReduceSum", before=lambda x: x * x)


@translate("ReduceLogSumExp")
def translate_log_sum_exp(node: Node) -> Value:
    """Return the logarithm of the sum of powers, relative to the maximum."""
    x, axes = node[0], get_axes(node)
    if axes is None:
        return x
    highest = op("ReduceMax", x, axes, keep_dims=True)
    kept = where(op("IsFinite", highest), highest, 0)
    result = op("Log", op("ReduceSum", op("Exp", x - kept), axes, keep_dims=True)) + kept
    return result if node.get_int("keepdims", 1) else op("Squeeze", result, cast(axes, "i64"))
