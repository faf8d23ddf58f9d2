"""Operations along one axis: running sums, and maxima of segments."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.numerics import Array, get_integer_limits, get_lowest_float, is_float, to_native
from irrun.ops._support.registry import op

__all__ = ["cum_sum_3", "segment_max_16"]


@op("CumSum", since=3, folding="elementwise")
def cum_sum_3(data: Array, axis: Array | None = None, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running sums along `axis`, from its end with `reverse`; with `exclusive` each leaves its own element out.

    data: any numeric type and shape, a scalar being a list of one; axis: i32 or i64 scalar, 0 where it is left out.
    Returns the shape and type of data. Integers wrap.
    Raises InputError where axis is out of range.
    Spec: CumSum-3.
    """
    along = normalize_axis(0 if axis is None else to_scalar(axis, "axis"), max(1, data.ndim))
    values = np.moveaxis(np.atleast_1d(to_native(data)), along, 0)
    if reverse:
        values = values[::-1]
    sums = np.cumsum(values, axis=0, dtype=values.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    if reverse:
        sums = sums[::-1]
    return np.asarray(np.moveaxis(sums, 0, along).astype(data.dtype, copy=False).reshape(data.shape))


@op("SegmentMax", since=16, folding="elementwise")
def segment_max_16(
    data: Array,
    segment_ids: Array,
    num_segments: Array | None = None,
    *,
    fill_mode: Literal["ZERO", "LOWEST"] | None = None,
    empty_segment_value: Literal["ZERO", "LOWEST"] = "ZERO",
) -> Array:
    """The greatest of those slices of `data` along the first axis that share a segment.

    data: any numeric type, rank >= 1; segment_ids: i32 or i64 [first dimension of data], sorted, not negative;
    num_segments: i32 or i64 scalar, by default one more than the last id. Slices from the first id on that is not
    below it are dropped. What the specification calls empty_segment_value is fill_mode in OpenVINO and its files.
    Returns [num_segments, ...rest of data], the type of data; a segment without slices is zero or, with
    fill_mode LOWEST, the lowest finite value. NaN is never the greatest.
    Raises InputError where segment_ids do not fit data, are not sorted, or are negative.
    Spec: SegmentMax-16.
    """
    if data.ndim == 0 or segment_ids.shape != data.shape[:1]:
        raise InputError(
            f"segment_ids have shape {list(segment_ids.shape)}, expected the first dimension of {list(data.shape)}"
        )
    ids = segment_ids.astype(np.int64)
    if ids.size and (ids[0] < 0 or (np.diff(ids) < 0).any()):
        raise InputError("segment_ids are negative or not sorted")
    default = int(ids[-1]) + 1 if ids.size else 0
    count = default if num_segments is None else to_scalar(num_segments, "num_segments")
    if count < 0:
        raise InputError(f"num_segments is {count}, expected none or more")
    check_allocation((count, *data.shape[1:]), data.dtype)
    values = to_native(data)
    if is_float(data.dtype):
        lowest = get_lowest_float(data.dtype)
    else:
        lowest = get_integer_limits(data.dtype)[0]
    fill = 0 if (fill_mode or empty_segment_value) == "ZERO" else lowest
    result = np.full((count, *data.shape[1:]), fill, values.dtype)
    kept = int(np.searchsorted(ids, count))
    if kept:
        segments, starts = np.unique(ids[:kept], return_index=True)
        greatest = np.fmax.reduceat(values[:kept], starts, axis=0)
        result[segments] = np.fmax(greatest, np.asarray(lowest, values.dtype))
    return result.astype(data.dtype, copy=False)
