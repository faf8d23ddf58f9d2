"""Sparse operations: the EmbeddingBag family, EmbeddingSegmentsSum, SparseFillEmptyRows."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list, to_scalar
from irrun.ops._support.numerics import Array, upcast_for_accumulation
from irrun.ops._support.registry import op

__all__ = [
    "embedding_bag_offsets_15",
    "embedding_bag_offsets_sum_3",
    "embedding_bag_packed_15",
    "embedding_bag_packed_sum_3",
    "embedding_segments_sum_3",
    "sparse_fill_empty_rows_16",
]

Reduction = Literal["sum", "mean"]


@op("EmbeddingBagOffsetsSum", since=3)
def embedding_bag_offsets_sum_3(
    emb_table: Array,
    indices: Array,
    offsets: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
) -> Array:
    """The sums of bags of rows of `emb_table`; bag i holds the indices from `offsets[i]` to `offsets[i + 1]`.

    Inputs and result as in EmbeddingBagOffsets-15 with reduction "sum".
    Returns `[bags, *emb_table.shape[1:]]`, the type of emb_table.
    Raises InputError where an index or offset is out of range, or shapes do not fit.
    Spec: EmbeddingBagOffsetsSum-3.
    """
    return embedding_bag_offsets_15(emb_table, indices, offsets, default_index, per_sample_weights)


@op("EmbeddingBagOffsets", since=15)
def embedding_bag_offsets_15(
    emb_table: Array,
    indices: Array,
    offsets: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
    *,
    reduction: Reduction = "sum",
) -> Array:
    """The sums or means of bags of rows of `emb_table`; bag i holds the indices `offsets[i]` to `offsets[i + 1]`.

    emb_table: any numeric type, rank >= 1; indices: integer [n]; offsets: integer [bags], ascending;
    default_index: integer scalar, the row that stands for an empty bag (-1 or left out: zeros);
    per_sample_weights: the type of emb_table, [n], factors of the rows (not of the default one), for
    reduction "sum" only.
    Returns `[bags, *emb_table.shape[1:]]`, the type of emb_table.
    Raises InputError where an index or offset is out of range, or shapes do not fit. An offset may equal
    n, which makes an empty bag.
    Spec: EmbeddingBagOffsets-15.
    """
    starts = to_int_list(offsets)
    bounds = [*starts, indices.size]
    if min(np.diff(bounds), default=0) < 0 or bounds[0] < 0:
        raise InputError(f"offsets {starts} must ascend, from at least 0 to at most {indices.size}")
    if starts and starts[0] > 0:  # indices before the first bag belong to none
        indices = indices[starts[0] :]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[starts[0] :]
    if not starts:
        indices = indices[:0]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[:0]
    bags = np.repeat(np.arange(len(starts)), np.diff(bounds))
    return _embed(emb_table, indices, bags, len(starts), default_index, per_sample_weights, reduction)


@op("EmbeddingBagPackedSum", since=3)
def embedding_bag_packed_sum_3(emb_table: Array, indices: Array, per_sample_weights: Array | None = None) -> Array:
    """The sums of bags of rows of `emb_table`, one bag for each row of `indices`.

    Inputs and result as in EmbeddingBagPacked-15 with reduction "sum".
    Returns `[bags, *emb_table.shape[1:]]`, the type of emb_table.
    Raises InputError where an index is out of range or shapes do not fit.
    Spec: EmbeddingBagPackedSum-3.
    """
    return embedding_bag_packed_15(emb_table, indices, per_sample_weights)


@op("EmbeddingBagPacked", since=15)
def embedding_bag_packed_15(
    emb_table: Array,
    indices: Array,
    per_sample_weights: Array | None = None,
    *,
    reduction: Reduction = "sum",
) -> Array:
    """The sums or means of bags of rows of `emb_table`, one bag for each row of `indices`.

    emb_table: any numeric type, rank >= 1; indices: integer [bags, n]; per_sample_weights: the type of
    emb_table, [bags, n], factors of the rows, for reduction "sum" only.
    Returns `[bags, *emb_table.shape[1:]]`, the type of emb_table.
    Raises InputError where an index is out of range or shapes do not fit.
    Spec: EmbeddingBagPacked-15.
    """
    if indices.ndim != 2:
        raise InputError(f"indices have shape {list(indices.shape)}, expected [bags, n]")
    if per_sample_weights is not None and per_sample_weights.shape != indices.shape:
        raise InputError(
            f"per_sample_weights have shape {list(per_sample_weights.shape)}, expected {list(indices.shape)}"
        )
    bags = np.repeat(np.arange(indices.shape[0]), indices.shape[1])
    weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    return _embed(emb_table, indices.reshape(-1), bags, indices.shape[0], None, weights, reduction)


@op("EmbeddingSegmentsSum", since=3)
def embedding_segments_sum_3(
    emb_table: Array,
    indices: Array,
    segment_ids: Array,
    num_segments: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
) -> Array:
    """The sums of segments of rows of `emb_table`; `segment_ids` says which segment each index belongs to.

    emb_table: any numeric type, rank >= 1; indices, segment_ids: integer [n]; num_segments: integer scalar;
    default_index: integer scalar, the row that stands for an empty segment (left out, or -1 as for the bags:
    zeros); per_sample_weights: the type of emb_table, [n], factors of the rows (not of the default one).
    Returns `[num_segments, *emb_table.shape[1:]]`, the type of emb_table.
    Raises InputError where an index or a segment is out of range, or shapes do not fit.
    Spec: EmbeddingSegmentsSum-3.
    """
    count = int(to_scalar(num_segments, "num_segments"))
    segments = segment_ids.astype(np.int64).reshape(-1)
    if segments.size and (segments.min() < 0 or segments.max() >= count):
        raise InputError(f"segment_ids {segments.tolist()} must lie in 0 to {count - 1}")
    return _embed(emb_table, indices, segments, max(0, count), default_index, per_sample_weights, "sum")


def _embed(
    table: Array,
    indices: Array,
    bags: Array,
    count: int,
    default_index: Array | None,
    weights: Array | None,
    reduction: Reduction,
) -> Array:
    """Row b of the result: the rows `table[indices[i]] * weights[i]` of all i with `bags[i] == b`, combined."""
    if reduction == "mean" and weights is not None:
        raise InputError("per_sample_weights are given with reduction 'mean', expected with 'sum' only")
    if indices.shape != bags.shape or (weights is not None and weights.shape != indices.shape):
        shapes = [list(x.shape) for x in (indices, bags, weights) if x is not None]
        raise InputError(f"indices, bags and weights have shapes {shapes}, expected the same")
    order = np.argsort(bags, kind="stable")  # bags of EmbeddingSegmentsSum may come in any order
    indices, bags = indices[order], bags[order]
    rows = upcast_for_accumulation(table[_checked(indices, len(table))])
    if weights is not None:
        rows = rows * upcast_for_accumulation(weights[order]).reshape([-1, *[1] * (table.ndim - 1)])
    result: Array = _combined(rows, bags, count, reduction).astype(table.dtype, copy=False)
    default = -1 if default_index is None else int(to_scalar(default_index, "default_index"))
    if default != -1:
        result[np.bincount(bags, minlength=count) == 0] = table[_checked(np.array(default), len(table))]
    return result


def _combined(rows: Array, bags: Array, count: int, reduction: Reduction) -> Array:
    """The sum or mean of the rows of each bag, bags in ascending order; zeros for a bag without rows."""
    filled, starts, counts = np.unique(bags, return_index=True, return_counts=True)
    check_allocation([count, *rows.shape[1:]], rows.dtype)
    result = np.zeros([count, *rows.shape[1:]], rows.dtype)
    if len(filled):
        sums = np.add.reduceat(rows, starts, axis=0, dtype=rows.dtype)
        if reduction == "mean":
            n = counts.reshape([-1, *[1] * (rows.ndim - 1)]).astype(rows.dtype)
            # Integers are divided as in C: towards zero.
            sums = sums / n if rows.dtype.kind == "f" else np.sign(sums) * (np.abs(sums) // n)
        result[filled] = sums
    return result


def _checked(indices: Array, size: int) -> Array:
    index = indices.astype(np.int64)
    if index.size and (index.min() < 0 or index.max() >= size):
        raise InputError(f"indices must lie in 0 to {size - 1}, found {index.min()} to {index.max()}")
    return index


@op("SparseFillEmptyRows", since=16)
def sparse_fill_empty_rows_16(
    values: Array, dense_shape: Array, indices: Array, default_value: Array
) -> tuple[Array, Array, Array]:
    """A sparse matrix with `default_value` at column 0 of each row that had no element.

    values: any type, [n]; dense_shape: integer [2]; indices: integer [n, 2], row and column of each value;
    default_value: the type of values, scalar.
    Returns the indices [m, 2], sorted by row and column; the values in that order [m]; which rows were empty,
    boolean [dense_shape[0]].
    Raises InputError where a row is out of range or shapes do not fit.
    Spec: SparseFillEmptyRows-16.
    """
    rows = to_int_list(dense_shape)[0]
    if dense_shape.size != 2 or indices.shape != (values.size, 2) or default_value.size != 1 or rows < 0:
        raise InputError(
            f"values {list(values.shape)}, dense_shape {to_int_list(dense_shape)}, indices {list(indices.shape)} and"
            f" default_value {list(default_value.shape)} do not fit, expected [n], two sizes, [n, 2], a scalar"
        )
    taken = indices[:, 0]
    if taken.size and (taken.min() < 0 or taken.max() >= rows):
        raise InputError(f"the rows {taken.tolist()} of indices must lie in 0 to {rows - 1}")
    check_allocation([rows, 2], indices.dtype)
    empty = np.ones(rows, np.bool_)
    empty[taken] = False
    added = np.nonzero(empty)[0]
    places = np.zeros((len(indices) + len(added), 2), indices.dtype)
    places[: len(indices)] = indices
    places[len(indices) :, 0] = added
    filled = np.concatenate([values.reshape(-1), np.repeat(default_value.reshape(1), len(added))])
    order = np.lexsort((places[:, 1], places[:, 0]))
    return places[order], filled[order], empty
