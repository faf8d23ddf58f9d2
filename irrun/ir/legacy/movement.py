"""Layers that move, cut, join and repeat data, and those that make it."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.element_types import ElementType
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I32, OldLayer, Value

__all__: list[str] = []


@converts("Const")
def const(builder: Builder, old: OldLayer) -> Value:
    """The one blob of the layer, which most files call "custom"."""
    if len(old.blobs) != 1:
        raise old.error(f"has {len(old.blobs)} blobs, expected one")
    return builder.blob(old, next(iter(old.blobs)), old.out_shape())


@converts("Copy")
def copy(builder: Builder, old: OldLayer) -> Value:
    """The input itself: a name more for it."""
    return old.input(0)


@converts("Convert")
def convert(builder: Builder, old: OldLayer) -> Value:
    """To the type of the output; to FP16 means to the f32 that stands for it."""
    stated = old.text("precision", default="")
    try:
        element = ElementType.parse(stated) if stated else old.out_type()
    except ValueError as error:
        raise old.error(str(error)) from None
    return builder.convert(old.input(0), F32 if element.name == "f16" else element)


@converts("Concat")
def concat(builder: Builder, old: OldLayer) -> Value:
    axis = old.axis(len(old.out_shape()), default=1 if len(old.out_shape()) > 1 else 0)
    if not old.inputs:
        raise old.error("has no inputs")
    return builder.concat(old.inputs, axis)


@converts("Split", "Slice")
def split(builder: Builder, old: OldLayer) -> Sequence[Value]:
    """Into parts of the sizes that the outputs declare."""
    axis = old.axis(len(old.in_shape()), default=1)
    return builder.split(old.input(0), axis, [old.out_shape(i)[axis] for i in range(len(old.outputs))])


@converts("Crop")
def crop(builder: Builder, old: OldLayer) -> Value:
    """From `offset` on, as much as `dim`, `crop_end`, the second input or the output says."""
    value, shape = old.input(0), old.in_shape()
    axes = [a % len(shape) for a in old.integers("axis") if -len(shape) <= a < len(shape)]
    starts = old.integers("crop_begin", "offset", default=[0] * len(axes))
    if len(axes) != len(old.integers("axis")) or len(starts) != len(axes):
        raise old.error(f"axis={old.text('axis')} and its offsets {starts} do not fit rank {len(shape)}")
    if len(old.inputs) > 1:
        sizes = [old.in_shape(1)[a] for a in axes]
    elif old.has("crop_end"):
        ends = old.integers("crop_end")
        sizes = [shape[a] - s - e for a, s, e in zip(axes, starts, ends, strict=True)]
    elif old.has("dim"):
        sizes = old.integers("dim")
    else:
        sizes = [old.out_shape()[a] for a in axes]
    if len(sizes) != len(axes):
        raise old.error(f"gives {len(sizes)} sizes for {len(axes)} axes")
    stops = [s + n for s, n in zip(starts, sizes, strict=True)]
    for a, start, stop in zip(axes, starts, stops, strict=True):
        if not 0 <= start <= stop <= shape[a]:
            raise old.error(f"cuts {start} to {stop} of axis {a}, which has {shape[a]}")
    return builder.slice(value, axes, starts, stops)


@converts("Pad")
def pad(builder: Builder, old: OldLayer) -> Value:
    value = old.input(0)
    mode = old.text("pad_mode", default="constant").lower()
    begin, end = (builder.constant(old.integers(name), name=name) for name in ("pads_begin", "pads_end"))
    inputs = [value, begin, end]
    if mode == "constant":
        number = old.number("pad_value", default=0.0)
        element = value.type or F32
        inputs.append(builder.constant(number if element.is_float else int(number), element, "pad_value"))
    return builder.op("Pad", inputs, {"pad_mode": mode}, shape=old.out_shape())


@converts("Permute")
def permute(builder: Builder, old: OldLayer) -> Value:
    return builder.transpose(old.input(0), old.integers("order"))


def _resolved(shape: Sequence[int], pattern: Sequence[int]) -> tuple[int, ...] | None:
    """The shape that a pattern with 0 (as in the input) and -1 (what is left) means, or None."""
    if (
        pattern.count(-1) > 1
        or any(n < -1 for n in pattern)
        or any(n == 0 and i >= len(shape) for i, n in enumerate(pattern))
    ):
        return None
    found = [shape[i] if n == 0 else n for i, n in enumerate(pattern)]
    total, known = 1, 1
    for n in shape:
        total *= n
    for n in found:
        known *= 1 if n == -1 else n
    if -1 in found:
        if not known or total % known:
            return None
        found[found.index(-1)] = total // known
    elif known != total:
        return None
    return tuple(found)


def _reshape(builder: Builder, old: OldLayer, pattern: Sequence[int]) -> Value:
    """By the pattern where it gives the declared shape, else to that shape."""
    shape = old.out_shape()
    if _resolved(old.in_shape(), pattern) != shape:
        return builder.reshape(old.input(0), shape)
    target = builder.constant(list(pattern), name="shape")
    return builder.op("Reshape", [old.input(0), target], {"special_zero": True}, shape=shape)


@converts("Reshape")
def reshape(builder: Builder, old: OldLayer) -> Value:
    """By the attribute `dim` or a second input; Caffe's `axis` and `num_axes` are in the declared shape."""
    if len(old.inputs) > 1:
        target = builder.target(old, 1)
        return builder.op("Reshape", [old.input(0), target], {"special_zero": True}, shape=old.out_shape())
    return _reshape(builder, old, old.integers("dim", default=list(old.out_shape())))


@converts("Flatten")
def flatten(builder: Builder, old: OldLayer) -> Value:
    axis, last = old.integer("axis", default=1), old.integer("end_axis", default=-1)
    rank = len(old.in_shape())
    if last in (-1, rank - 1) and 0 <= axis < rank:
        return _reshape(builder, old, [*[0] * axis, -1])
    return builder.reshape(old.input(0), old.out_shape())


@converts("Squeeze", "Unsqueeze")
def squeeze(builder: Builder, old: OldLayer) -> Value:
    if len(old.inputs) < 2:
        return builder.reshape(old.input(0), old.out_shape())
    axes = builder.integral(old.inputs[1])
    type = "Squeeze" if old.kind.lower() == "squeeze" else "Unsqueeze"
    return builder.op(type, [old.input(0), axes], shape=old.out_shape())


@converts("Tile")
def tile(builder: Builder, old: OldLayer) -> Value:
    rank = len(old.in_shape())
    axis, tiles = old.axis(rank), old.integer("tiles")
    repeats = builder.constant([tiles if i == axis else 1 for i in range(rank)], name="repeats")
    return builder.op("Tile", [old.input(0), repeats], shape=old.out_shape())


@converts("Broadcast")
def broadcasting(builder: Builder, old: OldLayer) -> Value:
    """To the shape that the second input holds."""
    inputs = [old.input(0), builder.target(old, 1)]
    if len(old.inputs) > 2:
        inputs.append(builder.integral(old.inputs[2]))
    attributes = {"mode": "explicit" if len(inputs) > 2 else "numpy"}
    return builder.op("Broadcast", inputs, attributes, shape=old.out_shape())


@converts("Fill")
def fill(builder: Builder, old: OldLayer) -> Value:
    """The second input, a scalar, in the shape that the first one holds."""
    value = builder.scalar(old.input(1))
    inputs = [value, builder.target(old, 0)]
    return builder.op("Broadcast", inputs, {"mode": "numpy"}, shape=old.out_shape())


@converts("Range")
def arange(builder: Builder, old: OldLayer) -> Value:
    start, stop, step = builder.same_type([builder.scalar(old.input(i)) for i in range(3)])
    element = start.type or F32
    attributes = {"output_type": element.name}
    return builder.op("Range", [start, stop, step], attributes, shape=old.out_shape(), version="opset4")


@converts("ShapeOf", "Shape")
def shape_of(builder: Builder, old: OldLayer) -> Value:
    element = old.out_type() if old.out_type().name in ("i32", "i64") else I32
    attributes = {"output_type": element.name}
    shape = old.out_shape()
    return builder.op("ShapeOf", [old.input(0)], attributes, shape=shape, element=element, version="opset3")


@converts("ReverseSequence")
def reverse_sequence(builder: Builder, old: OldLayer) -> Value:
    attributes = {
        "seq_axis": old.axis(len(old.in_shape()), "seq_axis", default=1),
        "batch_axis": old.axis(len(old.in_shape()), "batch_axis", default=0),
    }
    inputs = [old.input(0), builder.integral(old.input(1))]
    return builder.op("ReverseSequence", inputs, attributes, shape=old.out_shape())


@converts("ShuffleChannels")
def shuffle_channels(builder: Builder, old: OldLayer) -> Value:
    attributes = {"axis": old.axis(len(old.in_shape()), default=1), "group": old.integer("group", default=1)}
    return builder.unary("ShuffleChannels", old.input(0), attributes, version="opset3")


@converts("DepthToSpace")
def depth_to_space(builder: Builder, old: OldLayer) -> Value:
    attributes = {"block_size": old.integer("block_size", default=1), "mode": old.text("mode", default="blocks_first")}
    return builder.op("DepthToSpace", [old.input(0)], attributes, shape=old.out_shape())


@converts("SpaceToDepth")
def space_to_depth(builder: Builder, old: OldLayer) -> Value:
    attributes = {"block_size": old.integer("block_size", default=1), "mode": old.text("mode", default="blocks_first")}
    return builder.op("SpaceToDepth", [old.input(0)], attributes, shape=old.out_shape())


@converts("SpaceToBatch", "BatchToSpace")
def space_to_batch(builder: Builder, old: OldLayer) -> Value:
    inputs = [old.input(0), *(builder.integral(old.input(i)) for i in (1, 2, 3))]
    return builder.op(old.kind, inputs, shape=old.out_shape(), version="opset2")


@converts("ExtractImagePatches")
def extract_image_patches(builder: Builder, old: OldLayer) -> Value:
    attributes = {name: old.integers(name) for name in ("sizes", "strides", "rates")}
    attributes_and_pad = {**attributes, "auto_pad": old.text("auto_pad")}
    return builder.op(
        "ExtractImagePatches", [old.input(0)], attributes_and_pad, shape=old.out_shape(), version="opset3"
    )
