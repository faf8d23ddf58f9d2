"""Export of operations that select or count elements, and that generate values."""

from __future__ import annotations

from irrun.export.graph import Value, cast, constant, op, ops
from irrun.export.rules.helpers import (
    concat,
    expand,
    flatten,
    reshape,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports
from irrun.shapes import PartialShape


@exports("Unique-10")
def export_unique(site: Site) -> list[Value]:
    """Export Unique."""
    axis = None
    data = site[0]
    if site.get(1) is not None:
        axis = site.read_integers(1)[0] % max(1, site.get_rank(0))
    if site.get_rank(0) == 0:
        data, axis = reshape(data, [1]), None
    values, first, inverse, counts = ops("Unique", data, outputs=4, axis=axis, sorted=int(site.sorted), result="i64")
    index = site.index_element_type
    return [values, cast(first, index), cast(inverse, index), cast(counts, site.count_element_type)]


@exports("TopK-1", "TopK-3", "TopK-11")
def export_topk(site: Site) -> list[Value]:
    """Export TopK. Results in the order of indices are sorted again."""
    axis = int(site.axis)
    count = flatten(site[1])
    data = site[0]
    values, indices = ops(
        "TopK", data, count, outputs=2, axis=axis, largest=int(site.mode == "max"), sorted=1, result="i64"
    )
    if site.sort == "index":
        indices, order = ops("TopK", indices, count, outputs=2, axis=axis, largest=0, sorted=1, result="i64")
        values = op("GatherElements", values, order, axis=axis)
    return [values, cast(indices, site.attributes.get("index_element_type", "i32"))]


@exports("NonZero-3")
def export_nonzero(site: Site) -> Value:
    """Export NonZero."""
    data = site[0]
    if data.type.kind != "boolean":
        data = ~op("Equal", data, 0)
    if site.get_rank(0) == 0:
        return cast(op("NonZero", reshape(data, [1]), result="i64"), site.output_type)
    return cast(op("NonZero", data, result="i64"), site.output_type)


@exports("OneHot-1", "OneHot-16")
def export_one_hot(site: Site) -> Value:
    """Export OneHot: indices are compared with the positions of the new axis."""
    indices = cast(site[0], "i64")
    rank = site.get_rank(0)
    axis = site.axis % (rank + 1)
    depth = cast(reshape(site[1], []), "i64")
    if site.attributes.get("negative_indices_mode") == "normalize":
        indices = where(indices < 0, indices + depth, indices)
    positions = op("Range", constant(0), depth, constant(1))
    shape = [1] * (rank + 1)
    shape[axis] = -1
    hit = op("Equal", unsqueeze(indices, [axis]), reshape(positions, shape))
    on, off = (reshape(site[i], []) if site[i].rank != 0 else site[i] for i in (2, 3))
    return where(hit, on, off)


@exports("Range-1", "Range-4")
def export_range(site: Site) -> Value:
    """Export Range."""
    target = site.attributes.get("output_type") or site[0].type
    scalars = [site[i] if site[i].rank == 0 else reshape(site[i], []) for i in range(3)]
    if target.is_integer:
        scalars = [cast(s, "i64") for s in scalars]
    wide = "i64" if target.is_integer else target if target.bits >= 32 else "f32"
    start, stop, step = (cast(s, wide) for s in scalars)
    return cast(op("Range", start, stop, step), target)


@exports("Eye-9")
def export_eye(site: Site) -> Value:
    """Export Eye: the positions of rows and columns are compared."""
    rows, columns, diagonal = (cast(reshape(site[i], []), "i64") for i in range(3))
    row = op("Range", constant(0), rows, constant(1))
    column = op("Range", constant(0), columns, constant(1))
    hit = op("Equal", unsqueeze(column, [0]), unsqueeze(row + diagonal, [1]))
    result = cast(hit, site.output_type)
    batch = None
    if site.get(3) is None or site[3].rank is not None:
        (batch,) = site.get_shape(3) if site.get(3) is not None else (0,)
    if batch is not None and site.outputs[:1] == [None]:
        site.outputs[0] = PartialShape([-1] * (batch + 2))
    if site.get(3) is not None:
        shape = concat([flatten(site[3]), reshape(rows, [1]), reshape(columns, [1])])
        result = cast(expand(cast(hit, "i32"), shape), site.output_type)
    return result


@exports("Bucketize-3")
def export_bucketize(site: Site) -> Value:
    """Export Bucketize: the number of buckets below each element."""
    data, buckets = site[0], site[1]
    kind = "f64" if data.type.is_float or buckets.type.is_float else "i64"
    element = unsqueeze(cast(data, kind), [-1])
    edges = cast(buckets, kind)
    is_below = edges < element if site.with_right_bound else edges <= element
    return cast(op("ReduceSum", cast(is_below, "i64"), constant([-1]), keepdims=0), site.output_type)


@exports("SearchSorted-15")
def export_search_sorted(site: Site) -> Value:
    """Export SearchSorted: the number of elements of the sequence below each value."""
    sequence, values = site[0], site[1]
    values = unsqueeze(values, [-1])
    if site.get_rank(0) > 1:
        sequence = unsqueeze(sequence, [-2])
    is_below = ~(sequence > values) if site.right_mode else sequence < values
    return cast(op("ReduceSum", cast(is_below, "i64"), constant([-1]), keepdims=0), site.output_type)
