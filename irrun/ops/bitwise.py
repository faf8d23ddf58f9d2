"""Bitwise operations."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.broadcasting import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.docstrings import describes_binary, describes_unary
from irrun.ops._support.numerics import Array, compute_in_native_type
from irrun.ops._support.registry import op

__all__ = [
    "bitwise_and_13",
    "bitwise_left_shift_15",
    "bitwise_not_13",
    "bitwise_or_13",
    "bitwise_right_shift_15",
    "bitwise_xor_13",
]


@op("BitwiseAnd", since=13, kind="elementwise", flops=1)
@compute_in_native_type
@describes_binary("Integer or boolean")
def bitwise_and_13(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Compute the bitwise AND of two tensors.

    Spec:
        BitwiseAnd-13
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a & b)


@op("BitwiseOr", since=13, kind="elementwise", flops=1)
@compute_in_native_type
@describes_binary("Integer or boolean")
def bitwise_or_13(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Compute the bitwise OR of two tensors.

    Spec:
        BitwiseOr-13
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a | b)


@op("BitwiseXor", since=13, kind="elementwise", flops=1)
@compute_in_native_type
@describes_binary("Integer or boolean")
def bitwise_xor_13(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Compute the bitwise exclusive OR of two tensors.

    Spec:
        BitwiseXor-13
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(a ^ b)


@op("BitwiseLeftShift", since=15, kind="elementwise", flops=1)
@compute_in_native_type
@describes_binary("Integer")
def bitwise_left_shift_15(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Shift the bits of `a` left by `b`; bits that leave the type are lost.

    Spec:
        BitwiseLeftShift-15
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(np.left_shift(a, b))


@op("BitwiseRightShift", since=15, kind="elementwise", flops=1)
@compute_in_native_type
@describes_binary("Integer")
def bitwise_right_shift_15(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Shift the bits of `a` right by `b`; the sign is kept.

    Spec:
        BitwiseRightShift-15
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(np.right_shift(a, b))


@op("BitwiseNot", since=13, kind="elementwise", flops=1)
@compute_in_native_type
@describes_unary("Integer or boolean")
def bitwise_not_13(data: Array) -> Array:
    """Invert all bits; boolean values are negated.

    Spec:
        BitwiseNot-13
    """
    return np.asarray(np.invert(data))
