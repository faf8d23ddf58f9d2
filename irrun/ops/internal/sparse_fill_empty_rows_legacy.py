"""SparseFillEmptyRows of IR v7."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["sparse_fill_empty_rows_legacy"]


@op(
    "SparseFillEmptyRows",
    opset="legacy",
    kind="selection",
    shape="infer_filled_rows",
    shaped_by=(0, 1, 2),
    flops=0,
    output_types=(2, 0, "boolean"),
)
def sparse_fill_empty_rows_legacy(
    indices: Array, values: Array, dense_shape: Array, default_value: Array, *, count: int
) -> tuple[Array, Array, Array]:
    """Insert a default value into the first column of each empty row of a sparse matrix.

    Args:
        indices: Floating-point, shape [N, 2]: rows and columns. Indices from the first one outside of the matrix on are
            ignored.
        values: Floating-point, shape [N].
        dense_shape: Floating-point, shape [2]: the number of rows and columns.
        default_value: Floating-point scalar.
        count: Length of the first two outputs.

    Returns:
        Float indices, shape [count, 2], sorted by row, with -1, -1 after the last one; the values, shape [count], with
        zeros after the last one; and flags, shape [rows], 1 for rows that were empty and 0 for all others.

    Raises:
        InputError: `count` is too small.

    Spec:
        SparseFillEmptyRows of IR v7
    """
    rows, columns = (int(n) for n in dense_shape.reshape(-1)[:2])
    check_allocation([max(rows, count), 2], indices.dtype)
    is_outside = (indices < 0).any(axis=1) | (indices >= np.array([rows, columns])).any(axis=1)
    length = int(np.argmax(is_outside)) if is_outside.any() else len(indices)
    empty_rows = np.setdiff1d(np.arange(rows), indices[:length, 0].astype(np.int64))
    total = length + len(empty_rows)
    if total > count:
        raise InputError(f"found {length} values and {len(empty_rows)} empty rows, expected at most {count} in total")
    inserted = np.zeros((len(empty_rows), 2), indices.dtype)
    inserted[:, 0] = empty_rows
    merged = np.concatenate([indices[:length], inserted])
    order = np.argsort(merged[:, 0], kind="stable")
    output_indices, output_values = np.zeros((count, 2), indices.dtype), np.zeros(count, values.dtype)
    output_indices[:total] = merged[order]
    output_indices[total : total + 1] = -1
    defaults = np.full(len(empty_rows), default_value.reshape(-1)[0], values.dtype)
    output_values[:total] = np.concatenate([values[:length], defaults])[order]
    flags = np.zeros(rows, indices.dtype)
    flags[empty_rows] = 1
    return output_indices, output_values, flags
