"""CumSum: cumulative sums along one axis."""

from __future__ import annotations

import numpy as np

from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.numerics import (
    Array,
    compute_in_native_type,
)
from irrun.ops._support.registry import op

__all__ = ["cum_sum_3"]


@op("CumSum", since=3, kind="rowwise", shape="infer_along_axes", folding="linear", flops=1)
@compute_in_native_type
def cum_sum_3(data: Array, axis: Array | None = None, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """Compute cumulative sums along `axis`; integers wrap.

    Args:
        data: Numeric, any shape. A scalar is treated as [1].
        axis: i32 or i64 scalar. 0 if omitted.
        exclusive: Whether each sum excludes the element at its own position.
        reverse: Whether sums start at the end of the axis.

    Returns:
        The shape and type of `data`.

    Raises:
        InputError: `axis` is out of range.

    Spec:
        CumSum-3
    """
    index = normalize_axis(0 if axis is None else to_scalar(axis, "axis"), max(1, data.ndim))
    values = np.moveaxis(np.atleast_1d(data), index, 0)
    if reverse:
        values = values[::-1]
    sums = np.cumsum(values, axis=0, dtype=values.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    if reverse:
        sums = sums[::-1]
    return np.asarray(np.moveaxis(sums, 0, index).reshape(data.shape))
