"""Sparse matrices in lists of fixed size."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["sparse_fill_empty_rows_legacy"]


@op("SparseFillEmptyRows", opset="legacy")
def sparse_fill_empty_rows_legacy(
    indices: Array, values: Array, dense_shape: Array, default_value: Array, *, count: int
) -> tuple[Array, Array, Array]:
    """Gives each row of a sparse matrix that holds nothing the default value in its first column.

    indices: float [N, 2], row and column, ended early by one that is outside of the matrix; values: float [N];
    dense_shape: float [2], rows and columns; default_value: float of one element.
    Returns float indices [count, 2] sorted by row, with -1, -1 behind the last; values [count], zero behind the
    last; and 1 for each row that was empty, else 0, [rows].
    Raises InputError where `count` places are too few.
    Spec: SparseFillEmptyRows of IR v7.
    """
    rows, columns = (int(n) for n in dense_shape.reshape(-1)[:2])
    check_allocation([max(rows, count), 2], indices.dtype)
    outside = (indices < 0).any(axis=1) | (indices >= np.array([rows, columns])).any(axis=1)
    used = int(np.argmax(outside)) if outside.any() else len(indices)
    empty = np.setdiff1d(np.arange(rows), indices[:used, 0].astype(np.int64))
    if used + len(empty) > count:
        raise InputError(f"{used} values and {len(empty)} empty rows were found, the output holds {count}")
    filled = np.zeros((len(empty), 2), indices.dtype)
    filled[:, 0] = empty
    found = np.concatenate([indices[:used], filled])
    order = np.argsort(found[:, 0], kind="stable")
    out_indices, out_values = np.zeros((count, 2), indices.dtype), np.zeros(count, values.dtype)
    out_indices[: len(found)] = found[order]
    out_indices[len(found) : len(found) + 1] = -1
    defaults = np.full(len(empty), default_value.reshape(-1)[0], values.dtype)
    out_values[: len(found)] = np.concatenate([values[:used], defaults])[order]
    flags = np.zeros(rows, indices.dtype)
    flags[empty] = 1
    return out_indices, out_values, flags
