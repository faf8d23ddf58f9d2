"""Bitwise operations."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.axes import AutoBroadcast
from irrun.ops._support.elementwise import binary, unary
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = [
    "bitwise_and_13",
    "bitwise_left_shift_15",
    "bitwise_not_13",
    "bitwise_or_13",
    "bitwise_right_shift_15",
    "bitwise_xor_13",
]


@op("BitwiseAnd", since=13, folding="elementwise")
def bitwise_and_13(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """The bits set in both.

    a, b: integer or boolean, the same type for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: BitwiseAnd-13.
    """
    return binary(np.bitwise_and, a, b, auto_broadcast, auto_broadcast_axis)


@op("BitwiseOr", since=13, folding="elementwise")
def bitwise_or_13(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """The bits set in one of both, or in both.

    a, b: integer or boolean, the same type for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: BitwiseOr-13.
    """
    return binary(np.bitwise_or, a, b, auto_broadcast, auto_broadcast_axis)


@op("BitwiseXor", since=13, folding="elementwise")
def bitwise_xor_13(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """The bits set in exactly one of both.

    a, b: integer or boolean, the same type for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: BitwiseXor-13.
    """
    return binary(np.bitwise_xor, a, b, auto_broadcast, auto_broadcast_axis)


@op("BitwiseLeftShift", since=15, folding="elementwise")
def bitwise_left_shift_15(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """The bits of `a` moved up by `b`; those that leave the type are lost.

    a, b: integer, the same type for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: BitwiseLeftShift-15.
    """
    return binary(np.left_shift, a, b, auto_broadcast, auto_broadcast_axis)


@op("BitwiseRightShift", since=15, folding="elementwise")
def bitwise_right_shift_15(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """The bits of `a` moved down by `b`; the sign is kept.

    a, b: integer, the same type for both; shapes as auto_broadcast wants them.
    Returns the broadcast shape, the type of a.
    Raises InputError where the shapes do not fit.
    Spec: BitwiseRightShift-15.
    """
    return binary(np.right_shift, a, b, auto_broadcast, auto_broadcast_axis)


@op("BitwiseNot", since=13, folding="elementwise")
def bitwise_not_13(data: Array) -> Array:
    """All bits turned over; of boolean, the opposite.

    data: integer or boolean, any shape.
    Returns the shape and type of data.
    Spec: BitwiseNot-13.
    """
    return unary(np.invert, data)
