"""Matrix operations."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.ops.common import Array
from irrun.ops.products import matmul
from irrun.ops.registry import op

__all__ = ["mat_mul_1"]


@op("MatMul", since=1)
def mat_mul_1(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """The matrix product of the last two axes, the axes before them broadcast.

    a: numeric [..., M, K] or [K]; b: the same type, [..., K, N] or [K]. A transposed input has its last two
    axes swapped; one of rank 1 is taken as a row (a) or a column (b), and its axis of length 1 is left out of
    the result.
    Returns [..., M, N], the type of a.
    Raises InputError where the inner dimensions differ, shapes do not broadcast, or an input is a scalar.
    Spec: MatMul-1.
    """
    if a.ndim == 0 or b.ndim == 0:
        raise InputError(f"shapes are {list(a.shape)} and {list(b.shape)}, expected at least rank 1")
    left = a.swapaxes(-1, -2) if transpose_a and a.ndim > 1 else a
    right = b.swapaxes(-1, -2) if transpose_b and b.ndim > 1 else b
    inner = right.shape[-2] if right.ndim > 1 else right.shape[0]
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        batch = None
    if left.shape[-1] != inner or batch is None:
        raise InputError(
            f"cannot multiply {_described(a, transpose_a)} by {_described(b, transpose_b)}: "
            + ("the batch axes do not broadcast" if batch is None else "the inner dimensions differ")
        )
    if right.ndim == 2 and left.ndim > 2:  # one product of many rows instead of many products
        rows = matmul(left.reshape(-1, inner), right)
        return rows.reshape(*left.shape[:-1], right.shape[1])
    return matmul(left, right)


def _described(x: Array, transposed: bool) -> str:
    return f"{list(x.shape)}{' transposed' if transposed else ''}"
