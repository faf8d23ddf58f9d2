"""Rules for operators that move data."""

from __future__ import annotations

import math

import numpy as np

from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.onnx_import.graph import Value, cast, constant, op, ops
from irrun.onnx_import.node import Node, translate
from irrun.onnx_import.rules.helpers import (
    broadcast,
    concat,
    gather,
    get_lengths,
    integers,
    reshape,
    shape_of,
    slice_axis,
    split,
    squeeze,
    to_vector,
    transpose,
    unsqueeze,
    where,
)


@translate("Constant")
def translate_constant(node: Node) -> Value:
    """Return a Constant."""
    for name, value in node.attributes.items():
        if isinstance(value, Constant):
            return constant(value)
        if name in ("value_float", "value_floats"):
            return constant(np.array(value, np.float32))
        if name in ("value_int", "value_ints"):
            return constant(np.array(value, np.int64))
        if name in ("value_string", "value_strings"):
            return constant(np.array(value, object), "string")
    raise ModelError("expected an attribute that holds the value")


@translate("ConstantOfShape")
def translate_constant_of_shape(node: Node) -> Value:
    """Broadcast of a scalar."""
    value = node.attributes.get("value")
    element = constant(0.0, "f32") if value is None else reshape(constant(value), constant(np.zeros(0, np.int64)))
    return broadcast(element, node[0])


@translate("Concat")
def translate_concat(node: Node) -> Value:
    """Concat."""
    return concat(node.inputs, node.get_int("axis", 1 if node.version < 4 else None))


@translate("Split")
def translate_split(node: Node) -> list[Value]:
    """Split and VariadicSplit."""
    x, axis = node[0], node.get_int("axis", 0)
    lengths = constant(np.array(node.get_ints("split"), np.int64)) if node.has("split") else node.get(1)
    count = node.output_count
    if lengths is not None:
        return ops("VariadicSplit", x, constant(axis), lengths, outputs=count)
    length = x.get_dimension(axis)
    if length is None and node.has("num_outputs"):  # the last part may be smaller
        sizes = [(get_lengths(x, axis) + (count - 1)) / count] * (count - 1)
        return ops("VariadicSplit", x, constant(axis), concat([*sizes, integers(-1)]), outputs=count)
    if length is None or length % count == 0:
        return split(x, count, axis)
    size = -(-length // count)
    return ops("VariadicSplit", x, constant(axis), constant([size] * (count - 1) + [-1]), outputs=count)


@translate("Reshape")
def translate_reshape(node: Node) -> Value:
    """Reshape."""
    shape = integers(*node.get_ints("shape")) if node.has("shape") else node[1]
    return op("Reshape", node[0], shape, special_zero=not node.get_int("allowzero", 0))


@translate("Transpose")
def translate_transpose(node: Node) -> Value:
    """Transpose."""
    x = node[0]
    order = node.get_ints("perm") if node.has("perm") else list(reversed(range(x.get_rank())))
    return transpose(x, order) if len(order) > 1 else x


@translate("Squeeze")
def translate_squeeze(node: Node) -> Value:
    """Squeeze."""
    axes = node.get_axes(1)
    return op("Squeeze", node[0]) if axes is None else op("Squeeze", node[0], axes)


@translate("Unsqueeze")
def translate_unsqueeze(node: Node) -> Value:
    """Unsqueeze."""
    axes = node.get_axes(1)
    if axes is None:
        raise ModelError("the axes are missing")
    return op("Unsqueeze", node[0], axes)


@translate("Shape")
def translate_shape(node: Node) -> Value:
    """ShapeOf, and a slice of it."""
    shape = shape_of(node[0])
    start, end = node.get_int("start", 0), node.get_int("end", 2**31 - 1)
    return shape if start == 0 and end == 2**31 - 1 else slice_axis(shape, start, end)


@translate("Size")
def translate_size(node: Node) -> Value:
    """Return the product of the dimensions."""
    return op("ReduceProd", shape_of(node[0]), constant([0]), keep_dims=False)


@translate("Gather")
def translate_gather(node: Node) -> Value:
    """Gather."""
    return gather(node[0], node[1], node.get_int("axis", 0))


def make_nonnegative(indices: Value, length: Value) -> Value:
    """Convert negative indices to non-negative ones."""
    array = indices.read()
    if array is not None and (array >= 0).all():
        return indices
    return where(indices < 0, indices + cast(length, indices.type), indices)


@translate("GatherElements")
def translate_gather_elements(node: Node) -> Value:
    """GatherElements with non-negative indices."""
    x, axis = node[0], node.get_int("axis", 0)
    return op("GatherElements", x, make_nonnegative(node[1], get_lengths(x, axis)), axis=axis)


@translate("GatherND")
def translate_gather_nd(node: Node) -> Value:
    """GatherND with non-negative indices."""
    x, indices, batch = node[0], node[1], node.get_int("batch_dims", 0)
    count = indices.get_dimension(-1)
    if count is None:
        lengths = slice_axis(shape_of(x), batch, reshape(slice_axis(shape_of(indices), -1, 2**31 - 1), [1]) + batch)
    else:
        lengths = get_lengths(x, *range(batch, batch + count))
    return op("GatherND", x, make_nonnegative(indices, lengths), batch_dims=batch)


_REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _read_reduction(node: Node) -> str:
    reduction = node.get_text("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise ModelError(f"the attribute reduction is {reduction!r}, expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[reduction]


@translate("ScatterElements", "Scatter")
def translate_scatter_elements(node: Node) -> Value:
    """ScatterElementsUpdate."""
    axis = constant(node.get_int("axis", 0))
    reduction = _read_reduction(node)
    return op("ScatterElementsUpdate", node[0], node[1], node[2], axis, reduction=reduction, use_init_val=True)


@translate("ScatterND")
def translate_scatter_nd(node: Node) -> Value:
    """ScatterNDUpdate; like onnxruntime, accept updates of another shape with as many elements."""
    x, indices, updates = node[0], node[1], node[2]
    shapes = [value.get_static_shape() for value in (x, indices, updates)]
    if all(shape is not None for shape in shapes) and shapes[1]:
        data, index, found = (shape or () for shape in shapes)
        expected = (*index[:-1], *data[index[-1] :])
        if found != expected and math.prod(found) == math.prod(expected):
            updates = reshape(updates, expected)
    return op("ScatterNDUpdate", x, indices, updates, reduction=_read_reduction(node))


@translate("Slice")
def translate_slice(node: Node) -> Value:
    """Slice."""
    if node.version < 10:
        starts, ends = integers(*node.get_ints("starts")), integers(*node.get_ints("ends"))
        count = len(node.get_ints("starts"))
        numbers = integers(*node.get_ints("axes", list(range(count))))
        return op("Slice", node[0], starts, ends, integers(*[1] * count), numbers)
    x, starts, ends, axes, steps = node[0], node[1], node[2], node.get(3), node.get(4)
    if steps is None:
        steps = broadcast(constant(1, starts.type), shape_of(starts))
    if axes is None and starts.get_dimension(0) is not None:
        axes = constant(np.arange(starts.get_dimension(0) or 0), starts.type)
    return op("Slice", x, starts, ends, steps, axes)


@translate("Expand")
def translate_expand(node: Node) -> Value:
    """Broadcast in both directions."""
    if node[0].type.kind == "string":
        return op("Broadcast", node[0], node[1], mode="numpy")
    return op("Broadcast", node[0], node[1], mode="bidirectional")


@translate("Tile")
def translate_tile(node: Node) -> Value:
    """Tile."""
    if node.version < 6:
        axis, rank = node.read_integers(2), node[0].get_rank()
        assert axis is not None
        before, after = [1] * axis[0], [1] * (rank - axis[0] - 1)
        return op("Tile", node[0], concat([integers(*before), cast(to_vector(node[1]), "i64"), integers(*after)]))
    return op("Tile", node[0], node[1])


@translate("Pad")
def translate_pad(node: Node) -> Value:
    """Pad. Amounts may be negative."""
    x, mode = node[0], node.get_text("mode", "constant")
    fill: Value | None
    if node.version < 11:
        pads: Value = integers(*node.get_ints("pads" if node.version >= 2 else "paddings"))
        fill, axes = constant(node.get_float("value", 0.0), x.type), node.get(len(node))
    else:
        pads, fill, axes = node[1], node.get(2), node.get(3)
    begin, end = split(pads, 2, 0)
    if axes is not None:
        rank = x.get_rank()
        zeros = constant(np.zeros(rank), pads.type)
        axes = make_nonnegative(axes, constant([rank], axes.type))
        begin, end = (
            op("ScatterElementsUpdate", zeros, axes, p, constant(0), reduction="none", use_init_val=True)
            for p in (begin, end)
        )
    if fill is not None and fill.rank != 0:
        fill = reshape(fill, constant(np.zeros(0, np.int64)))
    if mode == "wrap":
        return _wrap(x, begin, end)
    if mode == "constant":
        return op("Pad", x, begin, end, constant(0, x.type) if fill is None else fill, pad_mode="constant")
    modes = {"edge": "edge", "reflect": "reflect"}
    if mode not in modes:
        raise ModelError(f"the attribute mode is {mode!r}, expected constant, reflect, edge or wrap")
    return op("Pad", x, begin, end, pad_mode=modes[mode])


def _wrap(x: Value, begin: Value, end: Value) -> Value:
    """Repeat the data from the other side, by indices on each axis."""
    for axis in range(x.get_rank()):
        first, last = (cast(gather(p, [axis]), "i64") for p in (begin, end))
        if all(p.read() is not None and not p.read().any() for p in (first, last)):  # type: ignore[union-attr]
            continue
        length = get_lengths(x, axis)
        bounds = [reshape(b, constant(np.zeros(0, np.int64))) for b in (-first, length + last)]
        indices = op("Range", *bounds, constant(1), output_type="i64")
        x = gather(x, op("FloorMod", indices, length), axis)
    return x


@translate("DepthToSpace")
def translate_depth_to_space(node: Node) -> Value:
    """DepthToSpace."""
    mode = {"DCR": "blocks_first", "CRD": "depth_first"}.get(node.get_text("mode", "DCR"))
    if mode is None:
        raise ModelError(f"the attribute mode is {node.get_text('mode')!r}, expected DCR or CRD")
    return op("DepthToSpace", node[0], mode=mode, block_size=node.get_int("blocksize"))


@translate("SpaceToDepth")
def translate_space_to_depth(node: Node) -> Value:
    """SpaceToDepth."""
    mode = {"DCR": "blocks_first", "CRD": "depth_first"}.get(node.get_text("mode", "DCR"))
    if mode is None:
        raise ModelError(f"the attribute mode is {node.get_text('mode')!r}, expected DCR or CRD")
    return op("SpaceToDepth", node[0], mode=mode, block_size=node.get_int("blocksize"))


@translate("ReverseSequence")
def translate_reverse_sequence(node: Node) -> Value:
    """ReverseSequence."""
    return op(
        "ReverseSequence",
        node[0],
        node[1],
        batch_axis=node.get_int("batch_axis", 1),
        seq_axis=node.get_int("time_axis", 0),
    )


@translate("Range")
def translate_range(node: Node) -> Value:
    """Range."""
    bounds = [reshape(v, constant(np.zeros(0, np.int64))) if v.rank != 0 else v for v in node.inputs]
    return op("Range", *bounds, output_type=bounds[0].type)


@translate("EyeLike")
def translate_eye_like(node: Node) -> Value:
    """Eye."""
    lengths = shape_of(node[0])
    rows, columns = (gather(lengths, i) for i in (0, 1))
    kind = node.get_type("dtype", node[0].type)
    return op("Eye", rows, columns, constant(node.get_int("k", 0)), output_type=kind)


@translate("Trilu")
def translate_trilu(node: Node) -> Value:
    """Select by a comparison of the numbers of rows and columns."""
    x, k = node[0], node.get(1)
    rows, columns = (_enumerate(x, axis) for axis in (-2, -1))
    limit = unsqueeze(rows, 1)
    if k is not None:
        limit = limit + reshape(cast(k, "i64"), [1, 1])
    upper = bool(node.get_int("upper", 1))
    kept = columns >= limit if upper else columns <= limit
    return where(kept, x, constant(0, x.type))


def _enumerate(x: Value, axis: int) -> Value:
    length = reshape(get_lengths(x, axis), constant(np.zeros(0, np.int64)))
    return op("Range", constant(0), length, constant(1), output_type="i64")


@translate("Compress")
def translate_compress(node: Node) -> Value:
    """Gather at the numbers of true conditions."""
    x, condition = node[0], node[1]
    axis = node.get_int("axis", 0)
    if not node.has("axis"):
        x = reshape(x, [-1])
    indices = squeeze(op("NonZero", condition, output_type="i64"), 0)
    return gather(x, indices, axis)


@translate("Col2Im")
def translate_col2im(node: Node) -> Value:
    """Col2Im of two spatial axes."""
    count = node[1].get_dimension(0)
    if count != 2:
        raise node.refuse(f"Col2Im of {'an unknown number of' if count is None else count} spatial axes")
    pads = node.get_ints("pads", [0, 0, 0, 0])
    return op(
        "Col2Im",
        node[0],
        node[1],
        node[2],
        strides=node.get_ints("strides", [1, 1]),
        dilations=node.get_ints("dilations", [1, 1]),
        pads_begin=pads[:2],
        pads_end=pads[2:],
    )


@translate("TensorScatter")
def translate_tensor_scatter(node: Node) -> Value:
    """ScatterElementsUpdate at consecutive positions of an axis."""
    cache, update, first = node[0], node[1], node.get(2)
    rank = cache.get_rank()
    axis = node.get_axis("axis", -2, rank)
    steps = reshape(_enumerate(update, axis), [-1 if i == axis else 1 for i in range(rank)])
    if first is not None:
        steps = steps + reshape(cast(first, "i64"), [-1, *[1] * (rank - 1)])
    length = get_lengths(cache, axis)
    if node.get_text("mode", "linear") == "circular":
        steps = op("FloorMod", steps, length)
    indices = op("Broadcast", steps, shape_of(update), mode="numpy")
    return op("ScatterElementsUpdate", cache, indices, update, constant(axis), reduction="none", use_init_val=True)
