"""SegmentMax: maxima of segments along the first axis."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.flops import Call, count_inputs
from irrun.ops._support.index_range import IndexRange
from irrun.ops._support.numerics import (
    Array,
    compute_in_native_type,
    get_integer_limits,
    get_lowest_float,
    is_float,
)
from irrun.ops._support.registry import op

__all__ = ["segment_max_16"]


def _get_index_range(call: Call) -> IndexRange | None:
    ids = call.inputs[1]
    count = call.inputs[2] if call.has_input(2) else None
    if ids is None or count is None:
        return None
    return IndexRange(ids, 0, int(to_scalar(count, "num_segments")) - 1, "the data there are ignored", is_intended=True)


@op(
    "SegmentMax",
    since=16,
    scratch=1,
    kind="reduction",
    shape="infer_segment_max",
    shaped_by=(1, 2),
    folding="linear",
    flops=count_inputs(1),
    index_range=_get_index_range,
)
def segment_max_16(
    data: Array,
    segment_ids: Array,
    num_segments: Array | None = None,
    *,
    fill_mode: Literal["ZERO", "LOWEST"] | None = None,
    empty_segment_value: Literal["ZERO", "LOWEST"] = "ZERO",
) -> Array:
    """Compute the maximum of the slices of each segment along the first axis.

    Args:
        data: Numeric, rank >= 1.
        segment_ids: i32 or i64, shape [first dimension of `data`]. Sorted, not negative.
        num_segments: i32 or i64 scalar. One more than the last id if omitted. Slices of segments with an id >=
            num_segments are ignored.
        fill_mode: The name of `empty_segment_value` in OpenVINO and its files; takes precedence.
        empty_segment_value: Whether segments without slices are zero or the lowest finite value.

    Returns:
        Shape [num_segments, ...] with the remaining dimensions of `data`, the type of `data`. NaN is ignored.

    Raises:
        InputError: `segment_ids` do not match `data`, are not sorted, or are negative, or `num_segments` is negative.

    Spec:
        SegmentMax-16
    """
    if data.ndim == 0 or segment_ids.shape != data.shape[:1]:
        raise InputError(
            f"segment_ids has shape {list(segment_ids.shape)}, expected the first dimension of {list(data.shape)}"
        )
    ids = segment_ids.astype(np.int64)
    if ids.size and (ids[0] < 0 or (ids[1:] < ids[:-1]).any()):
        raise InputError("segment_ids are negative or not sorted")
    default_count = int(ids[-1]) + 1 if ids.size else 0
    count = default_count if num_segments is None else to_scalar(num_segments, "num_segments")
    if count < 0:
        raise InputError(f"num_segments is {count}, expected at least 0")
    check_allocation((count, *data.shape[1:]), data.dtype)
    lowest = get_lowest_float(data.dtype) if is_float(data.dtype) else get_integer_limits(data.dtype)[0]
    fill_value = 0 if (fill_mode or empty_segment_value) == "ZERO" else lowest
    return _reduce_segments(data, ids, count=count, lowest=lowest, fill_value=fill_value)


@compute_in_native_type
def _reduce_segments(data: Array, ids: Array, *, count: int, lowest: float, fill_value: float) -> Array:
    result = np.full((count, *data.shape[1:]), fill_value, data.dtype)
    slice_count = int(np.searchsorted(ids, count))
    if slice_count:
        segments, starts = np.unique(ids[:slice_count], return_index=True)
        maxima = np.fmax.reduceat(data[:slice_count], starts, axis=0)
        result[segments] = np.fmax(maxima, np.asarray(lowest, data.dtype))
    return result
