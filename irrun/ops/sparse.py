"""Sparse operations: the EmbeddingBag family, EmbeddingSegmentsSum, SparseFillEmptyRows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from irrun.deadlines import check_time
from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.axes import to_int_list, to_scalar
from irrun.ops._support.blocks import BLOCK_ELEMENTS
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.flops import Call, Counter
from irrun.ops._support.indexing import normalize_indices
from irrun.ops._support.numerics import Array, divide_toward_zero, is_float, upcast_for_accumulation
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

#: Bytes that are allocated for each index: its bag, its place in the order of bags, and copies of these.
INDEX_BYTES = 80


def _count_bags(weights: int) -> Counter:
    """Return a counter of the sums of rows, which may be multiplied by weights before."""

    def count(call: Call) -> int:
        row = math.prod(call.get_shape(0)[1:])
        return math.prod(call.get_shape(1)) * row * (1 + call.has_input(weights))

    return count


@op("EmbeddingBagOffsetsSum", since=3, kind="reduction", shape="infer_embedding_bag", flops=_count_bags(4))
def embedding_bag_offsets_sum_3(
    emb_table: Array,
    indices: Array,
    offsets: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
) -> Array:
    """Compute sums of bags of rows of `emb_table`, where each bag is a range of `indices`.

    Args:
        emb_table: Numeric, rank >= 1.
        indices: Integer, shape [n].
        offsets: Integer, shape [bags], ascending. Bag i holds the indices from offsets[i] to offsets[i + 1], the last
            one all that follow.
        default_index: Integer scalar, the row that is the result of an empty bag. Zeros if omitted or -1.
        per_sample_weights: The type of `emb_table`, shape [n]. Factors of the rows, except for the default one.

    Returns:
        Shape [bags, *emb_table.shape[1:]], the type of `emb_table`.

    Raises:
        InputError: An index or offset is out of range, or the shapes do not match.

    Spec:
        EmbeddingBagOffsetsSum-3
    """
    return embedding_bag_offsets_15(emb_table, indices, offsets, default_index, per_sample_weights)


@op("EmbeddingBagOffsets", since=15, kind="reduction", shape="infer_embedding_bag", flops=_count_bags(4))
@describes_like(embedding_bag_offsets_sum_3)
def embedding_bag_offsets_15(
    emb_table: Array,
    indices: Array,
    offsets: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
    *,
    reduction: Reduction = "sum",
) -> Array:
    """Compute sums or means of bags of rows of `emb_table`, where each bag is a range of `indices`.

    Args:
        offsets: Integer, shape [bags], ascending. Bag i holds the indices from offsets[i] to offsets[i + 1], the last
            one all that follow. An offset may be n, which results in an empty bag.
        per_sample_weights: The type of `emb_table`, shape [n], for reduction "sum" only. Factors of the rows, except
            for the default one.
        reduction: How the rows of a bag are combined.

    Spec:
        EmbeddingBagOffsets-15
    """
    check_scratch(INDEX_BYTES * (indices.size + offsets.size))
    bounds = np.append(offsets.astype(np.int64), indices.size)
    sizes = np.diff(bounds)
    if min(sizes.min(initial=0), bounds[0]) < 0:
        raise InputError(f"offsets is {bounds[:-1].tolist()}, expected ascending numbers from 0 to {indices.size}")
    first = bounds[0]
    if first > 0:  # indices before the first bag are not used
        indices = indices[first:]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[first:]
    bags = np.repeat(np.arange(offsets.size), sizes)
    return _reduce_bags(emb_table, indices, bags, offsets.size, default_index, per_sample_weights, reduction)


@op("EmbeddingBagPackedSum", since=3, kind="reduction", shape="infer_packed_embedding_bag", flops=_count_bags(2))
def embedding_bag_packed_sum_3(emb_table: Array, indices: Array, per_sample_weights: Array | None = None) -> Array:
    """Compute sums of bags of rows of `emb_table`, where each bag is a row of `indices`.

    Args:
        emb_table: Numeric, rank >= 1.
        indices: Integer, shape [bags, n].
        per_sample_weights: The type of `emb_table`, shape [bags, n]. Factors of the rows.

    Returns:
        Shape [bags, *emb_table.shape[1:]], the type of `emb_table`.

    Raises:
        InputError: An index is out of range, or the shapes do not match.

    Spec:
        EmbeddingBagPackedSum-3
    """
    return embedding_bag_packed_15(emb_table, indices, per_sample_weights)


@op("EmbeddingBagPacked", since=15, kind="reduction", shape="infer_packed_embedding_bag", flops=_count_bags(2))
@describes_like(embedding_bag_packed_sum_3)
def embedding_bag_packed_15(
    emb_table: Array,
    indices: Array,
    per_sample_weights: Array | None = None,
    *,
    reduction: Reduction = "sum",
) -> Array:
    """Compute sums or means of bags of rows of `emb_table`, where each bag is a row of `indices`.

    Args:
        per_sample_weights: The type of `emb_table`, shape [bags, n], for reduction "sum" only. Factors of the rows.
        reduction: How the rows of a bag are combined.

    Spec:
        EmbeddingBagPacked-15
    """
    if indices.ndim != 2:
        raise InputError(f"indices has shape {list(indices.shape)}, expected [bags, n]")
    if per_sample_weights is not None and per_sample_weights.shape != indices.shape:
        raise InputError(
            f"per_sample_weights has shape {list(per_sample_weights.shape)}, expected {list(indices.shape)}"
        )
    check_scratch(INDEX_BYTES * indices.size)
    bags = np.repeat(np.arange(indices.shape[0]), indices.shape[1])
    weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    return _reduce_bags(emb_table, indices.reshape(-1), bags, indices.shape[0], None, weights, reduction)


@op(
    "EmbeddingSegmentsSum",
    since=3,
    kind="reduction",
    shape="infer_embedding_segments",
    shaped_by=(3,),
    flops=_count_bags(5),
)
def embedding_segments_sum_3(
    emb_table: Array,
    indices: Array,
    segment_ids: Array,
    num_segments: Array,
    default_index: Array | None = None,
    per_sample_weights: Array | None = None,
) -> Array:
    """Compute sums of segments of rows of `emb_table`, where `segment_ids` assigns each index to a segment.

    Args:
        emb_table: Numeric, rank >= 1.
        indices: Integer, shape [n].
        segment_ids: Integer, shape [n], in [0, num_segments), in any order.
        num_segments: Integer scalar.
        default_index: Integer scalar, the row that is the result of an empty segment. Zeros if omitted, or -1 as for
            bags.
        per_sample_weights: The type of `emb_table`, shape [n]. Factors of the rows, except for the default one.

    Returns:
        Shape [num_segments, *emb_table.shape[1:]], the type of `emb_table`.

    Raises:
        InputError: An index or segment is out of range, or the shapes do not match.

    Spec:
        EmbeddingSegmentsSum-3
    """
    check_scratch(INDEX_BYTES * indices.size)
    count = int(to_scalar(num_segments, "num_segments"))
    segments = segment_ids.astype(np.int64).reshape(-1)
    if segments.size and (segments.min() < 0 or segments.max() >= count):
        raise InputError(f"segment_ids is {segments.tolist()}, expected numbers from 0 to {count - 1}")
    return _reduce_bags(emb_table, indices, segments, max(0, count), default_index, per_sample_weights, "sum")


def _reduce_bags(
    table: Array,
    indices: Array,
    bags: Array,
    count: int,
    default_index: Array | None,
    weights: Array | None,
    reduction: Reduction,
) -> Array:
    """Combine the rows `table[indices[i]] * weights[i]` of all i with `bags[i] == b` into row b of the result."""
    if reduction == "mean" and weights is not None:
        raise InputError('per_sample_weights require reduction "sum", found "mean"')
    if not table.ndim:
        raise InputError("the table of embeddings is a scalar, expected rank of at least 1")
    if indices.shape != bags.shape or (weights is not None and weights.shape != indices.shape):
        shapes = [list(x.shape) for x in (indices, bags, weights) if x is not None]
        raise InputError(f"indices, bags and weights have shapes {shapes}, expected the same shape")
    order = np.argsort(bags, kind="stable")  # the segments of EmbeddingSegmentsSum may be in any order
    indices, bags = indices[order], bags[order]
    indices = normalize_indices(indices, len(table), allow_negative=False)

    def compute_rows(part: slice) -> Array:
        rows = upcast_for_accumulation(table[indices[part]])
        if weights is not None:
            rows = rows * upcast_for_accumulation(weights[order[part]]).reshape([-1, *[1] * (table.ndim - 1)])
        return rows

    shape = (count, *table.shape[1:])
    result: Array = _reduce_rows(compute_rows, bags, shape, reduction).astype(table.dtype, copy=False)
    default = -1 if default_index is None else int(to_scalar(default_index, "default_index"))
    if default != -1:
        default_row = normalize_indices(np.array(default), len(table), allow_negative=False)
        result[np.bincount(bags, minlength=count) == 0] = table[default_row]
    return result


def _reduce_rows(
    compute_rows: Callable[[slice], Array], bags: Array, shape: Sequence[int], reduction: Reduction
) -> Array:
    """Compute the sum or mean of the rows of each bag, zeros for empty bags.

    Args:
        compute_rows: Returns the rows of a range.
        bags: The bag of each row, in ascending order.
        shape: The shape of the result.
        reduction: "sum" or "mean".
    """
    non_empty, starts, counts = np.unique(bags, return_index=True, return_counts=True)
    dtype = compute_rows(slice(0)).dtype
    check_allocation(shape, dtype)
    check_scratch(dtype.itemsize * math.prod(shape) + 2 * dtype.itemsize * math.prod(shape[1:]) * counts.max(initial=0))
    result = np.zeros(shape, dtype)
    ends = starts + counts
    first = 0
    while first < len(non_empty):  # as many bags as fit into a block, at least one
        check_time()
        limit = starts[first] + BLOCK_ELEMENTS // max(1, math.prod(shape[1:]))
        last = max(first + 1, int(np.searchsorted(ends, limit, "right")))
        rows = compute_rows(slice(starts[first], ends[last - 1]))
        sums = np.add.reduceat(rows, starts[first:last] - starts[first], axis=0, dtype=dtype)
        if reduction == "mean":
            divisor = counts[first:last].reshape([-1, *[1] * (rows.ndim - 1)]).astype(dtype)
            sums = sums / divisor if is_float(dtype) else divide_toward_zero(sums, divisor)
        result[non_empty[first:last]] = sums
        first = last
    return result


@op(
    "SparseFillEmptyRows",
    since=16,
    scratch=2,
    kind="selection",
    shape="infer_filled_rows",
    shaped_by=(0, 1, 2),
    flops=0,
    output_types=(2, 0, "boolean"),
)
def sparse_fill_empty_rows_16(
    values: Array, dense_shape: Array, indices: Array, default_value: Array
) -> tuple[Array, Array, Array]:
    """Insert `default_value` at column 0 of each empty row of a sparse matrix.

    Args:
        values: Any type, shape [n].
        dense_shape: Integer, shape [2], the shape of the matrix.
        indices: Integer, shape [n, 2], the row and column of each value.
        default_value: The type of `values`, scalar.

    Returns:
        Three tensors: the indices [m, 2], sorted by row and column; the values [m] in this order; and whether each row
        was empty, boolean [dense_shape[0]].

    Raises:
        InputError: A row is out of range, or the shapes do not match.

    Spec:
        SparseFillEmptyRows-16
    """
    rows = to_int_list(dense_shape)[0] if dense_shape.size == 2 else -1
    if rows < 0 or indices.shape != (values.size, 2) or default_value.size != 1:
        raise InputError(
            f"values {list(values.shape)}, dense_shape {to_int_list(dense_shape)}, indices {list(indices.shape)} and"
            f" default_value {list(default_value.shape)} do not match, expected [n], two sizes, [n, 2] and a scalar"
        )
    used_rows = indices[:, 0]
    if used_rows.size and (used_rows.min() < 0 or used_rows.max() >= rows):
        raise InputError(f"the rows in indices are {used_rows.tolist()}, expected numbers from 0 to {rows - 1}")
    check_allocation([rows, 2], indices.dtype)
    is_empty = np.ones(rows, np.bool_)
    is_empty[used_rows] = False
    empty_rows = np.nonzero(is_empty)[0]
    new_indices = np.zeros((len(indices) + len(empty_rows), 2), indices.dtype)
    new_indices[: len(indices)] = indices
    new_indices[len(indices) :, 0] = empty_rows
    new_values = np.concatenate([values.reshape(-1), np.repeat(default_value.reshape(1), len(empty_rows))])
    order = np.lexsort((new_indices[:, 1], new_indices[:, 0]))
    return new_indices[order], new_values[order], is_empty
