"""Matrix products for all element types."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.numerics import Array, is_low_precision, upcast
from irrun.threads import multiply_matrices

__all__ = ["matmul"]


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """Compute `a @ b` for arrays of one element type.

    Low-precision floats are multiplied and summed in f32 and rounded once. Integers wrap as in C. They are multiplied
    in f64, which BLAS supports, if all sums are in the range where f64 is exact.

    Args:
        a: Numeric, shape [..., M, K] or [K].
        b: The same type, shape [..., K, N] or [K].
        out: Array that the result is written to.

    Returns:
        `out`, or a new array of the type of the inputs.
    """
    if is_low_precision(a.dtype):
        product = (upcast(a) @ upcast(b)).astype(a.dtype)
    elif a.dtype.kind in "iu" and _get_greatest_magnitude(a) * _get_greatest_magnitude(b) * a.shape[-1] < 1 << 53:
        product = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(a.dtype)
    elif a.dtype.kind == "V":  # sub-byte integers
        product = (a.astype(np.int64) @ b.astype(np.int64)).astype(a.dtype)
    else:
        return multiply_matrices(a, b, out)
    if out is not None:
        out[...] = product
        return out
    return product


def _get_greatest_magnitude(x: Array) -> int:
    """Return the greatest absolute value in an array of integers."""
    return max(int(x.max()), -int(x.min())) if x.size else 0
