"""Matrix products of every element type: floats by BLAS, integers exact and wrapping."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.numerics import Array, is_low_precision, upcast

__all__ = ["matmul"]


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """`a @ b` in their common type, written to `out` where that is given.

    Narrow floats are multiplied and summed in f32 and rounded once; integers wrap as in C. Integers are multiplied in
    f64, by BLAS, where no sum can leave the range in which f64 is exact.
    """
    if is_low_precision(a.dtype):
        product = (upcast(a) @ upcast(b)).astype(a.dtype)
    elif a.dtype.kind in "iu" and _greatest(a) * _greatest(b) * a.shape[-1] < 1 << 53:
        product = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(a.dtype)
    elif a.dtype.kind == "V":  # integers of ml_dtypes
        product = (a.astype(np.int64) @ b.astype(np.int64)).astype(a.dtype)
    else:
        return np.matmul(a, b, out=out)
    if out is not None:
        out[...] = product
        return out
    return product


def _greatest(x: Array) -> int:
    """The greatest absolute value in an array of integers."""
    return max(int(x.max()), -int(x.min())) if x.size else 0
