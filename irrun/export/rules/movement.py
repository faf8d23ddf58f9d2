"""Export of operations that move elements and change shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op, ops
from irrun.export.rules.helpers import (
    as_type,
    concat,
    expand,
    gather,
    get_dimension,
    loop,
    reshape,
    shape_of,
    slice_axis,
    squeeze,
    to_axes,
    transpose,
    unsqueeze,
    where,
)
from irrun.export.site import Site, exports
from irrun.ops._support.numerics import Array
from irrun.shapes import PartialShape

#: Bounds of slices that mean the ends of an axis.
LAST, FIRST = (1 << 63) - 1, -(1 << 63)


def flatten(value: Value) -> Value:
    """Return a value as i64 of rank 1."""
    value = cast(value, "i64")
    return value if value.rank == 1 else reshape(value, [-1])


def reshape_to(value: Value, dimensions: Sequence[int | Value]) -> Value:
    """Reshape a value to dimensions, which may include values of shape [1]."""
    if all(isinstance(d, int) for d in dimensions):
        return reshape(value, [d for d in dimensions if isinstance(d, int)])
    parts = [d if isinstance(d, Value) else constant([d]) for d in dimensions]
    return op("Reshape", value, concat(parts))


def get_dimensions(site: Site, position: int) -> list[int | Value]:
    """Return the dimensions of an input; dynamic ones are values of shape [1]."""
    value = site[position]
    return [get_dimension(value, i) if d is None else d for i, d in enumerate(site.get_shape(position))]


def multiply(*dimensions: int | Value) -> int | Value:
    """Return the product of dimensions."""
    number, values = 1, []
    for d in dimensions:
        if isinstance(d, Value):
            values.append(d)
        else:
            number *= d
    result: int | Value = number
    for value in values:
        result = value if isinstance(result, int) and result == 1 else value * result
    return result


def divide(dimension: int | Value, divisor: int | Value) -> int | Value:
    """Return a dimension divided by a number."""
    if isinstance(dimension, int) and isinstance(divisor, int):
        return dimension // divisor
    return constant([dimension] if isinstance(dimension, int) else dimension) / (
        divisor if isinstance(divisor, Value) else constant([divisor])
    )


def list_entries(site: Site, position: int, count: int) -> list[int | Value]:
    """Return the entries of a 1D input, as values of shape [1] if it is not constant."""
    if site[position].read() is not None:
        return list(site.read_integers(position))
    values = flatten(site[position])
    return [slice_axis(values, i, i + 1) for i in range(count)]


@exports("Identity-16")
def export_identity(site: Site) -> Value:
    """Export Identity."""
    return op("Identity", site[0])


@exports("Reshape-1")
def export_reshape(site: Site) -> Value:
    """Export Reshape. A dimension of 0 is copied if `special_zero` is set."""
    return op("Reshape", site[0], flatten(site[1]), allowzero=None if site.special_zero else 1)


@exports("Squeeze-1", "Squeeze-15")
def export_squeeze(site: Site) -> Value:
    """Export Squeeze. Axes with a length other than 1 stay."""
    if site[0].rank == 0:
        return op("Identity", site[0])
    if site.get(1) is None:
        return op("Squeeze", site[0])
    if site[1].read() is None or site[0].rank is None:
        return op("Squeeze", site[0], flatten(site[1]))
    shape = site.get_shape(0)
    axes = [axis for axis in to_axes(site, 1, len(shape)) if shape[axis] in (1, None)]
    if not axes and site.read(1).size == 0:
        return op("Squeeze", site[0])
    return squeeze(site[0], sorted(set(axes))) if axes else op("Identity", site[0])


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
    rank = op("Size", shape, result="i64")
    axes = op("Range", constant(0), rank, constant(1))
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
        return [op("Identity", site[0])]
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
        return [op("Identity", site[0])]
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
    if axes != sorted(axes):
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        data, axes = transpose(data, order), sorted(axes)
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


@exports("Gather-1", "Gather-7", "Gather-8")
def export_gather(site: Site) -> Value:
    """Export Gather. With batch dimensions, it becomes a GatherND."""
    data, indices = site[0], site[1]
    batch = int(site.attributes.get("batch_dims", 0))
    axis = site.read_integers(2)[0]
    if batch == 0 and data.type.name != "string":
        return op("Gather", data, indices, axis=axis)
    rank, index_rank = site.get_rank(0), site.get_rank(1)
    axis = axis % rank
    batch = batch + index_rank if batch < 0 else batch
    if batch == 0 and data.type.name == "string":
        # onnxruntime only copies the first string of each slice.
        order = [*range(axis), *range(axis + 1, rank), axis]
        result = op("Gather", transpose(data, order), indices, axis=rank - 1)
        new = range(rank - 1, rank - 1 + index_rank)
        return transpose(result, [*range(axis), *new, *range(axis, rank - 1)])
    if batch == 0:
        return op("Gather", data, indices, axis=axis)
    order = [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)]
    moved = transpose(data, order)
    places = cast(indices, "i64")
    length = get_dimension(data, axis)
    is_inside = (places >= -length) & (places < length)
    result = op("GatherND", moved, unsqueeze(where(is_inside, places, 0), [-1]), batch_dims=batch)
    if data.type.name != "string":
        result = where(unsqueeze(is_inside, list(range(index_rank, index_rank + rank - batch - 1))), result, 0)
    between, inner = axis - batch, index_rank - batch
    final = [
        *range(batch),
        *range(batch + inner, batch + inner + between),
        *range(batch, batch + inner),
        *range(batch + inner + between, rank - 1 + inner),
    ]
    return transpose(result, final)


@exports("GatherElements-6")
def export_gather_elements(site: Site) -> Value:
    """Export GatherElements."""
    return op("GatherElements", site[0], site[1], axis=int(site.axis))


@exports("GatherND-5", "GatherND-8")
def export_gather_nd(site: Site) -> Value:
    """Export GatherND. Version 5 joins the batch dimensions."""
    batch = int(site.batch_dims)
    data = site[0]
    result = op("GatherND", data, cast(site[1], "i64"), batch_dims=batch)
    if batch > 1 and str(site.layer.version) in ("opset5", "opset6", "opset7"):
        shape = op("Shape", result, result="i64", start=batch)
        return op("Reshape", result, concat([constant([-1]), shape]))
    return result


def _choose_reduction(site: Site) -> str:
    reduction = str(site.attributes.get("reduction", "none"))
    return {"sum": "add", "prod": "mul"}.get(reduction, reduction)


@exports("ScatterElementsUpdate-3", "ScatterElementsUpdate-12")
def export_scatter_elements(site: Site) -> Value:
    """Export ScatterElementsUpdate."""
    data, indices, updates = site[0], site[1], site[2]
    axis = site.read_integers(3)[0]
    reduction = _choose_reduction(site)
    if data.type.kind == "boolean" and reduction not in ("none",):
        same = {"add": "max", "mul": "min"}.get(reduction, reduction)
        copy = Site(
            site.layer,
            [cast(data, "i32"), indices, cast(updates, "i32"), site[3]],
            {**site.attributes, "reduction": same},
        )
        return cast(export_scatter_elements(copy), "boolean")
    if reduction == "none":
        return op("ScatterElements", data, indices, updates, axis=axis)
    narrow = data.type
    if narrow.is_float and narrow.bits < 32:
        data, updates = cast(data, "f32"), cast(updates, "f32")
    elif narrow.is_integer and narrow.bits < 32:
        data, updates = cast(data, "i32"), cast(updates, "i32")
    initial = data
    if not site.use_init_val:
        neutral = _get_neutral(data, reduction)
        filled = expand(constant(neutral, data.type), op("Shape", updates, result="i64"))
        initial = op("ScatterElements", data, indices, filled, axis=axis)
    if reduction != "mean":
        return cast(op("ScatterElements", initial, indices, updates, axis=axis, reduction=reduction), narrow)
    sums = op("ScatterElements", initial, indices, updates, axis=axis, reduction="add")
    ones = expand(constant(1, data.type), op("Shape", updates, result="i64"))
    zeros = (
        op("Mul", data, constant(0, data.type))
        if not data.type.is_float
        else expand(constant(0.0, data.type), op("Shape", data, result="i64"))
    )
    counts = op("ScatterElements", zeros, indices, ones, axis=axis, reduction="add")
    counts = counts + 1 if site.use_init_val else op("Max", counts, constant(1, data.type))
    if data.type.is_float:
        return cast(sums / counts, narrow)
    quotient = sums / counts
    is_lower = ~op("Equal", sums - quotient * counts, 0) & (sums < 0)
    return cast(quotient - cast(is_lower, data.type), narrow)


def _get_neutral(data: Value, reduction: str) -> float | int:
    if reduction in ("add", "mean", "sub"):
        return 0
    if reduction == "mul":
        return 1
    if data.type.is_float:
        return np.inf if reduction == "min" else -np.inf
    limits = np.iinfo(data.type.dtype)
    return int(limits.max if reduction == "min" else limits.min)


@exports("ScatterNDUpdate-4", "ScatterNDUpdate-15")
def export_scatter_nd(site: Site) -> Value:
    """Export ScatterNDUpdate."""
    data, indices, updates = site[0], cast(site[1], "i64"), site[2]
    reduction = _choose_reduction(site)
    if data.type.kind == "boolean" and reduction != "none":
        if reduction == "sub":  # exclusive or: the parity of the sum
            counts = op("ScatterND", cast(data, "i32"), indices, cast(updates, "i32"), reduction="add")
            return op("Equal", op("Mod", counts, 2), 1)
        same = {"add": "max", "mul": "min"}.get(reduction, reduction)
        wide = op("ScatterND", cast(data, "i32"), indices, cast(updates, "i32"), reduction=same)
        return cast(wide, "boolean")
    depth = site.get_shape(1)[-1]
    if depth is not None and updates.rank != site.get_rank(1) - 1 + site.get_rank(0) - depth:
        lead = op("Shape", indices, result="i64", end=-1)
        updates = op("Reshape", updates, concat([lead, op("Shape", data, result="i64", start=depth)]))
    narrow = data.type
    if reduction != "none" and narrow.bits < 32 and narrow.kind != "string":
        wide_type = "f32" if narrow.is_float else "i32"
        data, updates = cast(data, wide_type), cast(updates, wide_type)
    if reduction == "sub":
        if data.type.kind == "uint":
            data, updates = cast(data, "i64"), cast(updates, "i64")
        return cast(op("ScatterND", data, indices, -updates, reduction="add"), narrow)
    return cast(op("ScatterND", data, indices, updates, reduction=reduction), narrow)


@exports("ScatterUpdate-3")
def export_scatter(site: Site) -> Value:
    """Export ScatterUpdate: the axis is moved to the front, where ScatterND writes slices."""
    data, indices, updates = site[0], site[1], site[2]
    rank, index_rank = site.get_rank(0), site.get_rank(1)
    axis = site.read_integers(3)[0] % rank
    shape = op("Shape", data, result="i64")
    parts = [op("Shape", indices, result="i64")] if index_rank else []
    if axis:
        parts.insert(0, slice_axis(shape, 0, axis))
    if axis + 1 < rank:
        parts.append(slice_axis(shape, axis + 1, LAST))
    if updates.rank != rank - 1 + index_rank:
        updates = op("Reshape", updates, concat(parts), allowzero=1) if parts else reshape(updates, [])
    order = [axis, *range(axis), *range(axis + 1, rank)]
    moved = transpose(data, order)
    update_order = [*range(axis, axis + index_rank), *range(axis), *range(axis + index_rank, rank - 1 + index_rank)]
    result = op("ScatterND", moved, unsqueeze(cast(indices, "i64"), [-1]), transpose(updates, update_order))
    return transpose(result, [int(i) for i in np.argsort(order)])


@exports("Slice-8")
def export_slice(site: Site) -> Value:
    """Export Slice."""
    axes = site.get(4)
    bounds = [flatten(site[i]) for i in (1, 2)]
    step = flatten(site[3])
    return op("Slice", site[0], *bounds, None if axes is None else flatten(axes), step)


@exports("SliceScatter-15")
def export_slice_scatter(site: Site) -> Value:
    """Export SliceScatter: the positions of the slice are scattered by ScatterND."""
    data, updates, start, stop, step = (site[i] for i in range(5))
    axes = site.get(5)
    shape = op("Shape", data, result="i64")
    positions = op("Range", constant(0), op("Size", data), constant(1))
    bounds = [flatten(start), flatten(stop)]
    taken = op(
        "Slice", op("Reshape", positions, shape, allowzero=1), *bounds, None if axes is None else flatten(axes),
        flatten(step),
    )  # fmt: skip
    flat = op("ScatterND", reshape(data, [-1]), unsqueeze(taken, [-1]), updates)
    return op("Reshape", flat, shape, allowzero=1)


@exports("StridedSlice-1")
def export_strided_slice(site: Site) -> Value:
    """Export StridedSlice: a Slice between the insertion and the removal of axes."""
    data = site[0]
    count = next((d for i in (1, 2) for d in site.get_shape(i)[:1] if d is not None), None)
    if count is None:
        raise UnsupportedError("the number of sliced axes is dynamic")
    masks = {
        name: [*(site.attributes.get(name) or []), *[0] * count][:count]
        for name in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    }
    strides = None if site.get(3) is None else flatten(site[3])
    known = np.ones(count, np.int64) if strides is None else strides.read()
    begin, end = flatten(site[1]), flatten(site[2])
    ellipsis = next((i for i, m in enumerate(masks["ellipsis_mask"]) if m), None)
    new = [i for i, m in enumerate(masks["new_axis_mask"]) if m and i != ellipsis]
    positions: list[int] = []  # entries that slice an axis
    axes: list[int] = []
    inserted, removed, axis, result_axis = [], [], 0, 0
    for i in range(count):
        if i == ellipsis:  # from here on, axes are counted from the end
            rest = range(i + 1, count)
            axis = -sum(j not in new for j in rest)
            result_axis = -sum(j in new or not masks["shrink_axis_mask"][j] for j in rest)
        elif i in new:
            inserted.append(result_axis)
            result_axis += 1
        else:
            positions.append(i)
            axes.append(axis)
            if masks["shrink_axis_mask"][i]:
                removed.append(axis)
            else:
                result_axis += 1
            axis += 1
    if positions:
        begin_ignored = [bool(masks["begin_mask"][i]) and not masks["shrink_axis_mask"][i] for i in positions]
        end_ignored = [bool(masks["end_mask"][i]) and not masks["shrink_axis_mask"][i] for i in positions]
        shrunk = [bool(masks["shrink_axis_mask"][i]) for i in positions]
        if known is not None or strides is None:
            steps = constant(np.where(shrunk, 1, np.ones(1) if known is None else known.reshape(-1)[positions]), "i64")
        else:
            steps = _select(shrunk, [1] * len(positions), _pick_entries(strides, positions))
        backward = steps < 0 if steps.array is None else constant(steps.array < 0)
        first = _pick_entries(begin, positions)
        last = _pick_entries(end, positions)
        starts = _select(begin_ignored, _choose(backward, LAST, 0), first)
        stops = _select(end_ignored, _choose(backward, FIRST, LAST), last)
        if any(shrunk):
            following = first + 1
            following = where(op("Equal", following, 0), LAST, following)
            stops = where(constant(np.array(shrunk)), following, stops) if not all(shrunk) else following
        data = op("Slice", data, starts, stops, constant(axes), steps)
    if removed:
        data = op("Squeeze", data, constant(removed))
    if inserted:
        data = op("Unsqueeze", data, constant(inserted))
    return op("Identity", data) if data is site[0] else data


def _pick_entries(value: Value, positions: Sequence[int]) -> Value:
    array = value.read()
    if array is not None:
        return constant(array.reshape(-1)[list(positions)])
    return gather(value, constant(list(positions)))


def _choose(condition: Value, then: int, other: int) -> Value:
    """Select between two numbers, directly for constants."""
    if condition.array is not None:
        return constant(np.where(condition.array, np.int64(then), np.int64(other)))
    return where(condition, constant(then), constant(other))


def _select(ignored: Sequence[bool], defaults: Value | Sequence[int], value: Value) -> Value:
    if not any(ignored):
        return value
    replacement = defaults if isinstance(defaults, Value) else constant(np.array(defaults, np.int64))
    if all(ignored):
        return replacement
    array = value.read()
    if array is not None and replacement.array is not None:
        return constant(np.where(ignored, replacement.array, array))
    return where(constant(np.array(ignored)), replacement, value)


@exports("Pad-1", "Pad-12")
def export_pad(site: Site) -> Value:
    """Export Pad. ONNX does not have symmetric padding, so reversed slices are joined."""
    data, begin, end = site[0], flatten(site[1]), flatten(site[2])
    if site.pad_mode == "symmetric":
        return _pad_symmetrically(site, begin, end)
    value = site.get(3) if site.pad_mode == "constant" else None
    if value is not None:
        value = cast(reshape(value, []) if value.rank != 0 else value, data.type)
    elif site.pad_mode == "constant" and data.type.kind == "boolean":
        value = constant(False)
    known = begin.read(), end.read()
    if known[0] is not None and known[1] is not None:
        amounts = np.concatenate([known[0].reshape(-1), known[1].reshape(-1)])
        pads = constant(amounts)
        if site.pad_mode != "constant" and amounts.min(initial=0) < 0:
            return _pad_and_crop(site, known[0].reshape(-1), known[1].reshape(-1))
    else:
        pads = concat([begin, end])
        if site.pad_mode != "constant":
            inner = op("Pad", data, op("Max", pads, constant(0)), mode=site.pad_mode)
            starts = op("Max", -begin, constant(0))
            stops = op("Shape", inner, result="i64") + op("Min", end, constant(0))
            return op("Slice", inner, starts, stops)
    return op("Pad", data, pads, value, mode=site.pad_mode)


def _pad_and_crop(site: Site, begin: Array, end: Array) -> Value:
    """Pad in modes other than "constant"; negative amounts remove elements."""
    pads = constant(np.concatenate([np.maximum(begin, 0), np.maximum(end, 0)]))
    padded = op("Pad", site[0], pads, mode=site.pad_mode)
    starts = constant(np.maximum(-begin, 0).astype(np.int64))
    stops = constant(np.where(end < 0, end, LAST).astype(np.int64))
    return op("Slice", padded, starts, stops)


def _pad_symmetrically(site: Site, begin: Value, end: Value) -> Value:
    data = site[0]
    for axis in range(site.get_rank(0)):
        before, after = slice_axis(begin, axis, axis + 1), slice_axis(end, axis, axis + 1)
        known = [v.read() for v in (begin, end)]
        if known[0] is not None and known[1] is not None:
            amounts = [int(k.reshape(-1)[axis]) for k in known if k is not None]
            if amounts == [0, 0]:
                continue
        length = op("Shape", data, result="i64", start=axis, end=axis + 1)
        head = slice_axis(data, 0, op("Max", before, constant(0)), axis)
        tail = slice_axis(data, length - op("Max", after, constant(0)), LAST, axis)
        parts = [slice_axis(p, LAST, FIRST, axis, -1) for p in (head, tail)]
        joined = concat([parts[0], data, parts[1]], axis)
        total = op("Shape", joined, result="i64", start=axis, end=axis + 1)
        data = slice_axis(joined, op("Max", -before, constant(0)), total + op("Min", after, constant(0)), axis)
    return op("Identity", data) if data is site[0] else data


@exports("Reverse-1")
def export_reverse(site: Site) -> Value:
    """Export Reverse."""
    rank = site.get_rank(0)
    if site.mode == "mask" and site[1].read() is None:
        is_reversed = reshape(site[1], [-1])
        bounds = [where(is_reversed, constant(r), constant(f)) for r, f in ((LAST, 0), (FIRST, LAST), (-1, 1))]
        return op("Slice", site[0], *bounds[:2], constant(list(range(rank))), bounds[2])
    if site[1].read() is None:
        counts = op("Shape", flatten(site[1]), result="i64")
        bounds = [expand(constant(number), counts) for number in (LAST, FIRST, -1)]
        return op("Slice", site[0], *bounds[:2], flatten(site[1]), bounds[2])
    if site.mode == "mask":
        axes = [i for i, m in enumerate(site.read(1).reshape(-1)) if m]
    else:
        axes = to_axes(site, 1, rank)
    if not axes:
        return op("Identity", site[0])
    count = len(axes)
    return op(
        "Slice", site[0], constant([LAST] * count), constant([FIRST] * count), constant(axes), constant([-1] * count)
    )


@exports("Roll-7")
def export_roll(site: Site) -> Value:
    """Export Roll: both parts of each axis are exchanged."""
    data, shifts = site[0], flatten(site[1])
    axes = to_axes(site, 2, site.get_rank(0)) if site.get_rank(0) else []
    (count,) = site.get_shape(1) or (1,)
    for i, axis in enumerate(axes):
        shift = shifts if count == 1 else slice_axis(shifts, i, i + 1)
        length = get_dimension(data if data is not site[0] else site[0], axis)
        split = length - op("Mod", shift, op("Max", length, constant(1)))
        data = concat([slice_axis(data, split, LAST, axis), slice_axis(data, 0, split, axis)], axis)
        data.shape = site[0].shape
    return op("Identity", data) if data is site[0] else data


@exports("ReverseSequence-1")
def export_reverse_sequence(site: Site) -> Value:
    """Export ReverseSequence; ONNX's axes are the first two."""
    rank = site.get_rank(0)
    batch, time = site.batch_axis % rank, site.seq_axis % rank
    order = [batch, time, *(i for i in range(rank) if i not in (batch, time))]
    result = op("ReverseSequence", transpose(site[0], order), flatten(site[1]), batch_axis=0, time_axis=1)
    return transpose(result, [int(i) for i in np.argsort(order)])


@exports("ShuffleChannels-1")
def export_shuffle_channels(site: Site) -> Value:
    """Export ShuffleChannels: groups and their members are exchanged."""
    dimensions = get_dimensions(site, 0)
    rank = len(dimensions)
    axis = site.axis % rank
    before, after = multiply(*dimensions[:axis]), multiply(*dimensions[axis + 1 :])
    split = reshape_to(site[0], [before, site.group, divide(dimensions[axis], site.group), after])
    return reshape_to(transpose(split, [0, 2, 1, 3]), dimensions)


@exports("DepthToSpace-1")
def export_depth_to_space(site: Site) -> Value:
    """Export DepthToSpace for any number of spatial axes."""
    dimensions, block = get_dimensions(site, 0), int(site.block_size)
    count = len(dimensions) - 2
    if count == 2:
        return op("DepthToSpace", site[0], blocksize=block, mode="DCR" if site.mode == "blocks_first" else "CRD")
    batch, channels, *spatial = dimensions
    depth = divide(channels, block**count)
    if site.mode == "blocks_first":
        split = reshape_to(site[0], [batch, *[block] * count, depth, *spatial])
        order = [0, 1 + count]
        blocks = range(1, 1 + count)
    else:
        split = reshape_to(site[0], [batch, depth, *[block] * count, *spatial])
        order = [0, 1]
        blocks = range(2, 2 + count)
    for i, b in enumerate(blocks):
        order += [2 + count + i, b]
    return reshape_to(transpose(split, order), [batch, depth, *(multiply(d, block) for d in spatial)])


@exports("SpaceToDepth-1")
def export_space_to_depth(site: Site) -> Value:
    """Export SpaceToDepth for any number of spatial axes."""
    dimensions, block = get_dimensions(site, 0), int(site.block_size)
    count = len(dimensions) - 2
    if count == 2 and site.mode == "blocks_first":
        return op("SpaceToDepth", site[0], blocksize=block)
    batch, channels, *spatial = dimensions
    outer = [divide(d, block) for d in spatial]
    split = reshape_to(site[0], [batch, channels, *(d for o in outer for d in (o, block))])
    blocks, places = [3 + 2 * i for i in range(count)], [2 + 2 * i for i in range(count)]
    order = [0, *blocks, 1, *places] if site.mode == "blocks_first" else [0, 1, *blocks, *places]
    return reshape_to(transpose(split, order), [batch, multiply(channels, block**count), *outer])


@exports("BatchToSpace-2")
def export_batch_to_space(site: Site) -> Value:
    """Export BatchToSpace: blocks of the batch become spatial positions, which are cropped."""
    dimensions = get_dimensions(site, 0)
    rank = len(dimensions)
    blocks = list_entries(site, 1, rank)
    batch = divide(dimensions[0], multiply(*blocks))
    split = reshape_to(site[0], [*blocks[1:], batch, *dimensions[1:]])
    order = [rank - 1]
    for i in range(1, rank):
        order += [rank - 1 + i, i - 1]
    spatial = [multiply(d, b) for d, b in zip(dimensions[1:], blocks[1:], strict=True)]
    joined = reshape_to(transpose(split, order), [batch, *spatial])
    stops = op("Shape", joined, result="i64") - flatten(site[3])
    return op("Slice", joined, flatten(site[2]), stops)


@exports("SpaceToBatch-2")
def export_space_to_batch(site: Site) -> Value:
    """Export SpaceToBatch: spatial positions of padded data become blocks of the batch."""
    dimensions = get_dimensions(site, 0)
    rank = len(dimensions)
    blocks = list_entries(site, 1, rank)
    padded = op("Pad", site[0], concat([flatten(site[2]), flatten(site[3])]))
    outer = [divide(get_dimension(padded, i), blocks[i]) for i in range(1, rank)]
    split = reshape_to(padded, [dimensions[0], *(x for o, n in zip(outer, blocks[1:], strict=True) for x in (o, n))])
    order = [*(2 * i for i in range(1, rank)), 0, *(2 * i - 1 for i in range(1, rank))]
    return reshape_to(transpose(split, order), [multiply(dimensions[0], *blocks), *outer])


@exports("ExtractImagePatches-3")
def export_patches(site: Site) -> Value:
    """Export ExtractImagePatches: a strided slice for each element of the window."""
    sizes, strides, rates = site.sizes, site.strides, site.rates
    data, pads, counts = site[0], [], []
    for length, size, stride, rate in zip(site.get_static_shape(0, 2), sizes, strides, rates, strict=True):
        extent = (size - 1) * rate + 1
        is_padded = site.auto_pad != "valid"
        count = -(-length // stride) if is_padded else max(0, (length - extent) // stride + 1)
        total = max(0, (count - 1) * stride + extent - length) if is_padded else 0
        small = total // 2
        pads.append((small, total - small) if site.auto_pad != "same_lower" else (total - small, small))
        counts.append(count)
    height, width = counts
    if any(map(any, pads)):
        data = op("Pad", data, constant([0, 0, pads[0][0], pads[1][0], 0, 0, pads[0][1], pads[1][1]]))
    parts = []
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            starts = [i * rates[0], j * rates[1]]
            stops = [s + (n - 1) * step + 1 for s, n, step in zip(starts, (height, width), strides, strict=True)]
            parts.append(op("Slice", data, constant(starts), constant(stops), constant([2, 3]), constant(strides)))
    return op("Concat", *parts, axis=1)


@exports("Col2Im-15", compute="f32")
def export_col2im(site: Site) -> Value:
    """Export Col2Im. ONNX's version requires a batch."""
    data = site[0]
    has_batch = site.get_rank(0) == 3
    wide = cast(data, "f64") if data.type.is_integer else data
    kind = wide.type
    if kind.name != "f32":
        wide = cast(wide, "f32")
    if not has_batch:
        wide = unsqueeze(wide, [0])
    result = op(
        "Col2Im", wide, flatten(site[1]), flatten(site[2]), strides=list(site.strides), dilations=list(site.dilations),
        pads=[*site.pads_begin, *site.pads_end],
    )  # fmt: skip
    return cast(result if has_batch else squeeze(result, [0]), data.type)


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


__all__ = ["LAST", "flatten", "get_dimensions", "multiply", "reshape_to", "shape_of"]
