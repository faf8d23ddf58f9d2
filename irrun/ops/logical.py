"""Logical operations."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.axes import AutoBroadcast
from irrun.ops._support.elementwise import binary, unary
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["logical_and_1", "logical_not_1", "logical_or_1", "logical_xor_1"]


@op("LogicalAnd", since=1, folding="elementwise")
def logical_and_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Whether both are true.

    a, b: boolean; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: LogicalAnd-1.
    """
    return binary(np.logical_and, a, b, auto_broadcast, auto_broadcast_axis)


@op("LogicalOr", since=1, folding="elementwise")
def logical_or_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Whether one of both is true, or both are.

    a, b: boolean; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: LogicalOr-1.
    """
    return binary(np.logical_or, a, b, auto_broadcast, auto_broadcast_axis)


@op("LogicalXor", since=1, folding="elementwise")
@op("Xor", since=1, folding="elementwise")
def logical_xor_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Whether exactly one of both is true.

    a, b: boolean; shapes as auto_broadcast wants them.
    Returns boolean, the broadcast shape.
    Raises InputError where the shapes do not fit.
    Spec: LogicalXor-1, Xor-1.
    """
    return binary(np.logical_xor, a, b, auto_broadcast, auto_broadcast_axis)


@op("LogicalNot", since=1, folding="elementwise")
def logical_not_1(data: Array) -> Array:
    """Whether `data` is false.

    data: boolean, any shape; numbers are taken too, as in the reference.
    Returns the shape and type of data.
    Spec: LogicalNot-1.
    """
    return unary(np.logical_not, data)
