"""Export of embeddings, segments, sparse matrices and strings."""

from __future__ import annotations

from irrun.export.graph import Value, cast, constant, op, ops
from irrun.export.rules.conversion import get_limits
from irrun.export.rules.helpers import (
    concat,
    expand,
    flatten,
    gather,
    reshape,
    scalar_like,
    slice_axis,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports
from irrun.ops._support.numerics import get_lowest_float

__all__: list[str] = []


def _reduce_bags(
    site: Site, indices: Value, bags: Value, count: Value, default: Value | None, weights: Value | None
) -> Value:
    """Combine rows into bags.

    Args:
        site: The layer.
        indices: The indices of rows, 1D.
        bags: The bag of each index; -1 for no bag.
        count: The number of bags, i64 of shape [1].
        default: The row for an empty bag.
        weights: Factors of the rows.
    """
    table = site[0]
    narrow = table.type
    if narrow.is_float and narrow.bits < 32:
        table = cast(table, "f32")
    elif narrow.is_integer:
        table = cast(table, "i64")
    rank = site.get_rank(0)
    rows = gather(table, cast(indices, "i64"))
    column = [-1, *[1] * (rank - 1)]
    if weights is not None:
        rows = rows * reshape(cast(weights, table.type), column)
    is_used = bags >= 0
    rows = where(reshape(is_used, column), rows, scalar_like(rows, 0))
    place = unsqueeze(op("Max", bags, constant(0)), [1])
    shape = concat([count, op("Shape", table, result="i64", start=1)]) if rank > 1 else count
    sums = op("ScatterND", expand(scalar_like(table, 0), shape), place, rows, reduction="add")
    counts = op("ScatterND", expand(constant(0), count), place, cast(is_used, "i64"), reduction="add")
    if site.attributes.get("reduction") == "mean":
        sums = sums / reshape(cast(op("Max", counts, constant(1)), table.type), column)
    if default is not None:
        number = cast(reshape(default, []), "i64")
        row = gather(table, op("Max", number, constant(0)))
        is_default = reshape(op("Equal", counts, 0), column) & (number >= 0)
        sums = where(is_default, row, sums)
    return cast(sums, narrow)


@exports("EmbeddingBagOffsetsSum-3", "EmbeddingBagOffsets-15")
def export_embedding_bag(site: Site) -> Value:
    """Export EmbeddingBagOffsets: a row is added to the last bag that begins before it."""
    indices, offsets = flatten(site[1]), flatten(site[2])
    positions = op("Range", constant(0), reshape(op("Shape", indices, result="i64"), []), constant(1))
    begun = cast(unsqueeze(offsets, [0]) <= unsqueeze(positions, [1]), "i64")
    bags = op("ReduceSum", begun, constant([1]), keepdims=0) - 1
    return _reduce_bags(site, indices, bags, op("Shape", offsets, result="i64"), site.get(3), site.get(4))


@exports("EmbeddingBagPackedSum-3", "EmbeddingBagPacked-15")
def export_packed_embedding_bag(site: Site) -> Value:
    """Export EmbeddingBagPacked: each row of indices is a bag."""
    indices, weights = site[1], site.get(2)
    count = op("Shape", indices, result="i64", start=0, end=1)
    numbers = op("Range", constant(0), reshape(count, []), constant(1))
    bags = reshape(expand(unsqueeze(numbers, [1]), op("Shape", indices, result="i64")), [-1])
    weights = None if weights is None else reshape(weights, [-1])
    return _reduce_bags(site, flatten(indices), bags, count, None, weights)


@exports("EmbeddingSegmentsSum-3")
def export_embedding_segments(site: Site) -> Value:
    """Export EmbeddingSegmentsSum."""
    count = flatten(site[3])
    return _reduce_bags(site, flatten(site[1]), flatten(site[2]), count, site.get(4), site.get(5))


@exports("SegmentMax-16")
def export_segment_max(site: Site) -> Value:
    """Export SegmentMax: empty segments get the lowest value of the type, or zeros."""
    data, segments = site[0], flatten(site[1])
    narrow = data.type
    wide = cast(data, "f32") if narrow.is_float and narrow.bits < 32 else data
    if narrow.is_integer and narrow.bits < 32:
        wide = cast(data, "i32")
    if site.get(2) is not None:
        count = flatten(site[2])
    else:
        count = slice_axis(segments, -1, (1 << 63) - 1) + 1
    rest = op("Shape", wide, result="i64", start=1)
    shape = concat([count, rest]) if site.get_rank(0) > 1 else count
    mode = site.attributes.get("fill_mode") or site.attributes.get("empty_segment_value", "ZERO")
    lowest = float(get_lowest_float(narrow.dtype)) if narrow.is_float else get_limits(narrow)[0]
    start = expand(constant(lowest, wide.type), shape)
    used = where(segments < count, segments, 0)
    keep = reshape(segments < count, [-1, *[1] * (site.get_rank(0) - 1)])
    rows = where(keep, wide, constant(lowest, wide.type))
    result = op("ScatterND", start, unsqueeze(used, [1]), rows, reduction="max")
    if mode == "ZERO":
        counts = op(
            "ScatterND", expand(constant(0), count), unsqueeze(used, [1]), cast(segments < count, "i64"),
            reduction="add",
        )  # fmt: skip
        is_empty = reshape(op("Equal", counts, 0), [-1, *[1] * (site.get_rank(0) - 1)])
        result = where(is_empty, scalar_like(result, 0), result)
    return cast(result, narrow)


@exports("SparseFillEmptyRows-16")
def export_fill_empty_rows(site: Site) -> list[Value]:
    """Export SparseFillEmptyRows: indices are sorted by row and column."""
    values, dense_shape, indices, default = site[0], flatten(site[1]), cast(site[2], "i64"), site[3]
    rows, columns = slice_axis(dense_shape, 0, 1), slice_axis(dense_shape, 1, 2)
    used = slice_axis(indices, 0, 1, 1)
    ones = op("Expand", constant(1), op("Shape", values, result="i64"))
    counts = op("ScatterND", expand(constant(0), rows), used, ones, reduction="add")
    is_empty = op("Equal", counts, 0)
    empty = op("Transpose", op("NonZero", is_empty, result="i64"), perm=[1, 0])
    added = concat([empty, empty - empty], 1)
    joined = concat([indices, added], 0)
    filling = expand(reshape(default, [1]), op("Shape", empty, result="i64", start=0, end=1))
    all_values = concat([values, cast(filling, values.type)], 0)
    keys = reshape(slice_axis(joined, 0, 1, 1) * op("Max", columns, constant(1)) + slice_axis(joined, 1, 2, 1), [-1])
    size = op("Shape", keys, result="i64")
    _, order = ops("TopK", keys, size, outputs=2, axis=0, largest=0, sorted=1, result="i64")
    return [cast(gather(joined, order), site[2].type), gather(all_values, order), is_empty]
