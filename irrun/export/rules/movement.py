"""Export of operations that change shapes, join and divide arrays."""

from __future__ import annotations

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, constant, op, ops
from irrun.export.rules.helpers import (
    as_type,
    concat,
    expand,
    flatten,
    gather,
    loop,
    reshape,
    slice_axis,
    squeeze,
    to_axes,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports


@exports("Identity-16")
def export_identity(site: Site) -> Value:
    """Export Identity."""
    return site[0]


@exports("Reshape-1")
def export_reshape(site: Site) -> Value:
    """Export Reshape. A dimension of 0 is copied if `special_zero` is set."""
    return op("Reshape", site[0], flatten(site[1]), allowzero=None if site.special_zero else 1)


@exports("Squeeze-1", "Squeeze-15")
def export_squeeze(site: Site) -> Value:
    """Export Squeeze. Axes with a length other than 1 stay."""
    if site[0].rank == 0:
        return site[0]
    if site.get(1) is None:
        return op("Squeeze", site[0])
    if site[1].read() is None or site[0].rank is None:
        return op("Squeeze", site[0], flatten(site[1]))
    shape = site.get_shape(0)
    axes = [axis for axis in to_axes(site, 1, len(shape)) if shape[axis] in (1, None)]
    if not axes and site.read(1).size == 0:
        return op("Squeeze", site[0])
    return squeeze(site[0], sorted(set(axes))) if axes else site[0]


@exports("Unsqueeze-1")
def export_unsqueeze(site: Site) -> Value:
    """Export Unsqueeze. Repeated axes insert one axis."""
    rank = site[0].rank
    if site[1].read() is None or rank is None:
        return op("Unsqueeze", site[0], flatten(site[1]))
    axes = site.read_integers(1)
    normal = {a + rank + len(set(axes)) if a < 0 else a for a in axes}
    return unsqueeze(site[0], sorted(normal))


@exports("ShapeOf-1", "ShapeOf-3")
def export_shape_of(site: Site) -> Value:
    """Export ShapeOf."""
    return as_type(op("Shape", site[0], result="i64"), site.attributes.get("output_type"))


@exports("Transpose-1")
def export_transpose(site: Site) -> Value:
    """Export Transpose. An empty order reverses the axes."""
    if site[1].read() is None:
        return _transpose_dynamically(site)
    order = site.read_integers(1)
    if order:
        site.assume_rank(0, len(order))
    return op("Transpose", site[0], perm=[i % len(order) for i in order] if order else None)


def _transpose_dynamically(site: Site) -> Value:
    """Permute axes in a variable order, by gathering elements at their positions."""
    data = site[0]
    shape = op("Shape", data, result="i64")
    if data.rank is None:
        rank = op("Size", shape, result="i64")
        axes = op("Range", constant(0), rank, constant(1))
    else:
        rank, axes = constant(data.rank), constant(np.arange(data.rank))
    order = slice_axis(concat([flatten(site[1]), rank - axes - 1]), 0, rank)  # an empty order reverses the axes
    # The distance between neighbors along an axis is the product of the dimensions after it.
    is_after = unsqueeze(axes, [1]) < unsqueeze(axes, [0])
    strides = op("ReduceProd", where(is_after, shape, 1), constant([1]), keepdims=0)
    new_shape, new_strides = gather(shape, order), gather(strides, order)

    def add_axis(number: Value, states: list[Value]) -> tuple[list[Value], list[Value]]:
        length, stride = gather(new_shape, number), gather(new_strides, number)
        steps = op("Range", constant(0), reshape(length, []), constant(1)) * stride
        return [reshape(unsqueeze(states[0], [1]) + steps, [-1])], []

    (positions,), _ = loop(rank, [constant([0])], add_axis, 0)
    return op("Reshape", gather(reshape(data, [-1]), positions), new_shape, allowzero=1)


@exports("Concat-1")
def export_concat(site: Site) -> Value:
    """Export Concat."""
    return op("Concat", *[site[i] for i in range(len(site))], axis=int(site.axis))


@exports("Split-1")
def export_split(site: Site) -> list[Value]:
    """Export Split."""
    count, axis = int(site.num_splits), site.read_integers(1)[0]
    length = None if site[0].rank is None else site.get_shape(0)[axis]
    if count == 1:
        return [site[0]]
    if length is None:
        return ops("Split", site[0], outputs=count, axis=axis, num_outputs=count)
    sizes = constant(np.full(count, length // count, np.int64))
    return ops("Split", site[0], sizes, outputs=count, axis=axis)


@exports("VariadicSplit-1")
def export_variadic_split(site: Site) -> list[Value]:
    """Export VariadicSplit. A length of -1 takes the rest."""
    if site[1].read() is None:
        return _split_dynamically(site)
    axis = site.read_integers(1)[0]
    lengths = flatten(site[2])
    total = None if site[0].rank is None else site.get_shape(0)[axis]
    known = site[2].read()
    count = len(site.types)
    if known is not None and known.size == 1:
        return [site[0]]
    if known is None or (-1 in known and total is None):
        whole = gather(op("Shape", site[0], result="i64"), constant([axis]))
        rest = whole - (op("ReduceSum", lengths, keepdims=1) + 1)
        lengths = where(lengths < 0, rest, lengths)
    elif -1 in known:
        sizes = [int(n) for n in known.reshape(-1)]
        lengths = constant([total - (sum(sizes) + 1) if n == -1 else n for n in sizes if total is not None])
    return ops("Split", site[0], lengths, outputs=count, axis=axis)


def _split_dynamically(site: Site) -> list[Value]:
    """Split along a variable axis, as slices."""
    axis, lengths = flatten(site[1]), flatten(site[2])
    rest = gather(op("Shape", site[0], result="i64"), axis) - (op("ReduceSum", lengths, keepdims=1) + 1)
    lengths = where(lengths < 0, rest, lengths)
    stops = op("CumSum", lengths, constant(0))
    starts = stops - lengths
    pieces = (slice(i, i + 1) for i in range(len(site.types)))
    return [
        op("Slice", site[0], *(slice_axis(bounds, p.start, p.stop) for bounds in (starts, stops)), axis) for p in pieces
    ]


@exports("Broadcast-1", "Broadcast-3")
def export_broadcast(site: Site) -> Value:
    """Export Broadcast."""
    data, target = site[0], flatten(site[1])
    if site.mode in ("numpy", "bidirectional"):
        return expand(data, target)
    rank = site.get_shape(1)[0] if site.get_rank(1) else 1
    own = site.get_rank(0)
    if rank is None:
        raise UnsupportedError("the rank of the result is dynamic")
    is_explicit = site.mode in ("explicit", "none")
    if is_explicit:
        axes = site.read_integers(2)
    else:
        start = site.axis if site.axis >= 0 else rank - own
        axes = list(range(start, start + own))
    if is_explicit and own == 0:
        return expand(data, target)
    missing = [i for i in range(rank) if i not in axes]
    return expand(unsqueeze(data, missing) if missing else data, target)


@exports("Tile-1")
def export_tile(site: Site) -> Value:
    """Export Tile. The shorter of the shape and the repeats is extended by ones."""
    data, repeats = site[0], flatten(site[1])
    rank = site.get_rank(0)
    (count,) = site.get_shape(1) if site.get_rank(1) else (1,)
    if count is None:
        raise UnsupportedError("the number of repeats is dynamic")
    if count > rank:
        data = unsqueeze(data, list(range(count - rank)))
    elif count < rank:
        repeats = concat([constant(np.ones(rank - count, np.int64)), repeats])
    return op("Tile", data, repeats)
