"""Logical operations."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.broadcasting import AutoBroadcast, apply_auto_broadcast
from irrun.ops._support.docstrings import describes_binary, describes_unary
from irrun.ops._support.numerics import Array, compute_in_native_type
from irrun.ops._support.registry import op

__all__ = [
    "logical_and_1",
    "logical_not_1",
    "logical_or_1",
    "logical_xor_1",
]


@op("LogicalAnd", since=1, kind="elementwise", commutative=True, extremes="ends", flops=1, output_types=("boolean",))
@compute_in_native_type
@describes_binary("Boolean", "boolean")
def logical_and_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Compute the logical AND of two tensors.

    Spec:
        LogicalAnd-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(np.logical_and(a, b))


@op("LogicalOr", since=1, kind="elementwise", commutative=True, extremes="ends", flops=1, output_types=("boolean",))
@compute_in_native_type
@describes_binary("Boolean", "boolean")
def logical_or_1(a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0) -> Array:
    """Compute the logical OR of two tensors.

    Spec:
        LogicalOr-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(np.logical_or(a, b))


@op("LogicalXor", since=1, kind="elementwise", commutative=True, flops=1, output_types=("boolean",))
@op("Xor", since=1, kind="elementwise", flops=1, output_types=("boolean",))
@compute_in_native_type
@describes_binary("Boolean", "boolean")
def logical_xor_1(
    a: Array, b: Array, *, auto_broadcast: AutoBroadcast = "numpy", auto_broadcast_axis: int = 0
) -> Array:
    """Compute the logical exclusive OR of two tensors.

    Spec:
        LogicalXor-1, Xor-1
    """
    a, b = apply_auto_broadcast(a, b, auto_broadcast, auto_broadcast_axis)
    return np.asarray(np.logical_xor(a, b))


@op("LogicalNot", since=1, scratch=1.25, kind="elementwise", extremes="ends", flops=1)
@compute_in_native_type
@describes_unary("Boolean, or numeric as in the reference implementation")
def logical_not_1(data: Array) -> Array:
    """Negate `data`.

    Spec:
        LogicalNot-1
    """
    return np.asarray(np.logical_not(data))
