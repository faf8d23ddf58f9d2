"""OneHot."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call
from irrun.ops._support.index_range import IndexRange
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["one_hot_1", "one_hot_16"]

#: Bytes that are allocated for each index: its position and its row, and whether it is in range.
INDEX_BYTES = 28


def _get_index_range(call: Call) -> IndexRange | None:
    indices, depth = call.inputs[:2]
    if indices is None or depth is None:
        return None
    length = int(to_scalar(depth, "depth"))
    minimum = -length if call.attributes.get("negative_indices_mode") == "normalize" else 0
    return IndexRange(indices, minimum, length - 1, "the result is off_value there", is_intended=True)


@op(
    "OneHot",
    since=1,
    scratch=0,
    kind="movement",
    shape="infer_one_hot",
    shaped_by=(1,),
    flops=0,
    index_range=_get_index_range,
    output_types=(2,),
)
def one_hot_1(indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int) -> Array:
    """Encode each index as a vector along a new axis.

    Args:
        indices: Integer, any shape.
        depth: Integer scalar, the length of the new axis.
        on_value: Scalar of any type, the value at the index.
        off_value: Scalar of the type of `on_value`, the value everywhere else.
        axis: Position of the new axis.

    Returns:
        Shape indices.shape with `depth` inserted at `axis`, the type of `on_value`. A vector whose index is not in
        [0, depth) has only `off_value`.

    Raises:
        InputError: `depth` is negative, or `axis` is out of range.

    Spec:
        OneHot-1
    """
    return one_hot_16(indices, depth, on_value, off_value, axis=axis)


@op(
    "OneHot",
    since=16,
    scratch=0,
    kind="movement",
    shape="infer_one_hot",
    shaped_by=(1,),
    flops=0,
    index_range=_get_index_range,
    output_types=(2,),
)
@describes_like(one_hot_1)
def one_hot_16(
    indices: Array,
    depth: Array,
    on_value: Array,
    off_value: Array,
    *,
    axis: int,
    negative_indices_mode: Literal["ignore_negative", "ignore-negative", "normalize"] = "ignore_negative",
) -> Array:
    """Encode each index as a vector along a new axis.

    Args:
        negative_indices_mode: Whether negative indices are ignored, or with "normalize" count from the end.

    Returns:
        Shape indices.shape with `depth` inserted at `axis`, the type of `on_value`. A vector whose index is out of
        range or ignored has only `off_value`.

    Spec:
        OneHot-16
    """
    length = int(to_scalar(depth, "depth"))
    if length < 0:
        raise InputError(f"depth is {length}, expected a non-negative number")
    axis = normalize_axis(axis, indices.ndim + 1)
    for name, value in (("on_value", on_value), ("off_value", off_value)):
        if value.size != 1:
            raise InputError(f"{name} has shape {list(value.shape)}, expected a scalar")
    check_allocation((*indices.shape, length), on_value.dtype)
    check_scratch(indices.size * (length * on_value.itemsize + INDEX_BYTES))
    positions = indices.astype(np.int64)
    if negative_indices_mode == "normalize":
        positions = np.where(positions < 0, positions + length, positions)
    positions = positions.reshape(-1)
    result = np.empty((positions.size, length), on_value.dtype)
    result[...] = off_value.reshape(())
    (rows,) = np.nonzero((positions >= 0) & (positions < length))
    result[rows, positions[rows]] = on_value.reshape(())
    return np.moveaxis(result.reshape(*indices.shape, length), -1, axis)
