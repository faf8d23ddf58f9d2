"""Layers that move, cut, join and repeat data, and those that make it."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.element_types import ElementType
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I32, LegacyLayer, Value

__all__: list[str] = []


@converts("Const")
def const(builder: Builder, layer: LegacyLayer) -> Value:
    """The one blob of the layer, which most files call "custom"."""
    if len(layer.blobs) != 1:
        raise layer.error(f"has {len(layer.blobs)} blobs, expected one")
    return builder.blob(layer, next(iter(layer.blobs)), layer.out_shape())


@converts("Copy")
def copy(builder: Builder, layer: LegacyLayer) -> Value:
    """The input itself: a name more for it."""
    return layer.input(0)


@converts("Convert")
def convert(builder: Builder, layer: LegacyLayer) -> Value:
    """To the type of the output; to FP16 means to the f32 that stands for it."""
    stated = layer.text("precision", default="")
    try:
        element = ElementType.parse(stated) if stated else layer.out_type()
    except ValueError as error:
        raise layer.error(str(error)) from None
    return builder.convert(layer.input(0), F32 if element.name == "f16" else element)


@converts("Concat")
def concat(builder: Builder, layer: LegacyLayer) -> Value:
    axis = layer.axis(len(layer.out_shape()), default=1 if len(layer.out_shape()) > 1 else 0)
    if not layer.inputs:
        raise layer.error("has no inputs")
    return builder.concat(layer.inputs, axis)


@converts("Split", "Slice")
def split(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Into parts of the sizes that the outputs declare."""
    axis = layer.axis(len(layer.in_shape()), default=1)
    return builder.split(layer.input(0), axis, [layer.out_shape(i)[axis] for i in range(len(layer.outputs))])


@converts("Crop")
def crop(builder: Builder, layer: LegacyLayer) -> Value:
    """From `offset` on, as much as `dim`, `crop_end`, the second input or the output says."""
    value, shape = layer.input(0), layer.in_shape()
    axes = [a % len(shape) for a in layer.integers("axis") if -len(shape) <= a < len(shape)]
    starts = layer.integers("crop_begin", "offset", default=[0] * len(axes))
    if len(axes) != len(layer.integers("axis")) or len(starts) != len(axes):
        raise layer.error(f"axis={layer.text('axis')} and its offsets {starts} do not fit rank {len(shape)}")
    if len(layer.inputs) > 1:
        sizes = [layer.in_shape(1)[a] for a in axes]
    elif layer.has("crop_end"):
        ends = layer.integers("crop_end")
        sizes = [shape[a] - s - e for a, s, e in zip(axes, starts, ends, strict=True)]
    elif layer.has("dim"):
        sizes = layer.integers("dim")
    else:
        sizes = [layer.out_shape()[a] for a in axes]
    if len(sizes) != len(axes):
        raise layer.error(f"gives {len(sizes)} sizes for {len(axes)} axes")
    stops = [s + n for s, n in zip(starts, sizes, strict=True)]
    for a, start, stop in zip(axes, starts, stops, strict=True):
        if not 0 <= start <= stop <= shape[a]:
            raise layer.error(f"cuts {start} to {stop} of axis {a}, which has {shape[a]}")
    return builder.slice(value, axes, starts, stops)


@converts("Pad")
def pad(builder: Builder, layer: LegacyLayer) -> Value:
    value = layer.input(0)
    mode = layer.text("pad_mode", default="constant").lower()
    begin, end = (builder.constant(layer.integers(name), name=name) for name in ("pads_begin", "pads_end"))
    inputs = [value, begin, end]
    if mode == "constant":
        number = layer.number("pad_value", default=0.0)
        element = value.type or F32
        inputs.append(builder.constant(number if element.is_float else int(number), element, "pad_value"))
    return builder.op("Pad", inputs, {"pad_mode": mode}, shape=layer.out_shape())


@converts("Permute")
def permute(builder: Builder, layer: LegacyLayer) -> Value:
    return builder.transpose(layer.input(0), layer.integers("order"))


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


def _reshape(builder: Builder, layer: LegacyLayer, pattern: Sequence[int]) -> Value:
    """By the pattern where it gives the declared shape, else to that shape."""
    shape = layer.out_shape()
    if _resolved(layer.in_shape(), pattern) != shape:
        return builder.reshape(layer.input(0), shape)
    target = builder.constant(list(pattern), name="shape")
    return builder.op("Reshape", [layer.input(0), target], {"special_zero": True}, shape=shape)


@converts("Reshape")
def reshape(builder: Builder, layer: LegacyLayer) -> Value:
    """By the attribute `dim` or a second input; Caffe's `axis` and `num_axes` are in the declared shape."""
    if len(layer.inputs) > 1:
        target = builder.target(layer, 1)
        return builder.op("Reshape", [layer.input(0), target], {"special_zero": True}, shape=layer.out_shape())
    return _reshape(builder, layer, layer.integers("dim", default=list(layer.out_shape())))


@converts("Flatten")
def flatten(builder: Builder, layer: LegacyLayer) -> Value:
    axis, last = layer.integer("axis", default=1), layer.integer("end_axis", default=-1)
    rank = len(layer.in_shape())
    if last in (-1, rank - 1) and 0 <= axis < rank:
        return _reshape(builder, layer, [*[0] * axis, -1])
    return builder.reshape(layer.input(0), layer.out_shape())


@converts("Squeeze", "Unsqueeze")
def squeeze(builder: Builder, layer: LegacyLayer) -> Value:
    if len(layer.inputs) < 2:
        return builder.reshape(layer.input(0), layer.out_shape())
    axes = builder.integral(layer.inputs[1])
    type = "Squeeze" if layer.kind.lower() == "squeeze" else "Unsqueeze"
    return builder.op(type, [layer.input(0), axes], shape=layer.out_shape())


@converts("Tile")
def tile(builder: Builder, layer: LegacyLayer) -> Value:
    rank = len(layer.in_shape())
    axis, tiles = layer.axis(rank), layer.integer("tiles")
    repeats = builder.constant([tiles if i == axis else 1 for i in range(rank)], name="repeats")
    return builder.op("Tile", [layer.input(0), repeats], shape=layer.out_shape())


@converts("Broadcast")
def broadcasting(builder: Builder, layer: LegacyLayer) -> Value:
    """To the shape that the second input holds."""
    inputs = [layer.input(0), builder.target(layer, 1)]
    if len(layer.inputs) > 2:
        inputs.append(builder.integral(layer.inputs[2]))
    attributes = {"mode": "explicit" if len(inputs) > 2 else "numpy"}
    return builder.op("Broadcast", inputs, attributes, shape=layer.out_shape())


@converts("Fill")
def fill(builder: Builder, layer: LegacyLayer) -> Value:
    """The second input, a scalar, in the shape that the first one holds."""
    value = builder.scalar(layer.input(1))
    inputs = [value, builder.target(layer, 0)]
    return builder.op("Broadcast", inputs, {"mode": "numpy"}, shape=layer.out_shape())


@converts("Range")
def arange(builder: Builder, layer: LegacyLayer) -> Value:
    start, stop, step = builder.same_type([builder.scalar(layer.input(i)) for i in range(3)])
    element = start.type or F32
    attributes = {"output_type": element.name}
    return builder.op("Range", [start, stop, step], attributes, shape=layer.out_shape(), version="opset4")


@converts("ShapeOf", "Shape")
def shape_of(builder: Builder, layer: LegacyLayer) -> Value:
    element = layer.out_type() if layer.out_type().name in ("i32", "i64") else I32
    attributes = {"output_type": element.name}
    shape = layer.out_shape()
    return builder.op("ShapeOf", [layer.input(0)], attributes, shape=shape, element=element, version="opset3")


@converts("ReverseSequence")
def reverse_sequence(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {
        "seq_axis": layer.axis(len(layer.in_shape()), "seq_axis", default=1),
        "batch_axis": layer.axis(len(layer.in_shape()), "batch_axis", default=0),
    }
    inputs = [layer.input(0), builder.integral(layer.input(1))]
    return builder.op("ReverseSequence", inputs, attributes, shape=layer.out_shape())


@converts("ShuffleChannels")
def shuffle_channels(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {"axis": layer.axis(len(layer.in_shape()), default=1), "group": layer.integer("group", default=1)}
    return builder.unary("ShuffleChannels", layer.input(0), attributes, version="opset3")


@converts("DepthToSpace")
def depth_to_space(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {
        "block_size": layer.integer("block_size", default=1),
        "mode": layer.text("mode", default="blocks_first"),
    }
    return builder.op("DepthToSpace", [layer.input(0)], attributes, shape=layer.out_shape())


@converts("SpaceToDepth")
def space_to_depth(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {
        "block_size": layer.integer("block_size", default=1),
        "mode": layer.text("mode", default="blocks_first"),
    }
    return builder.op("SpaceToDepth", [layer.input(0)], attributes, shape=layer.out_shape())


@converts("SpaceToBatch", "BatchToSpace")
def space_to_batch(builder: Builder, layer: LegacyLayer) -> Value:
    inputs = [layer.input(0), *(builder.integral(layer.input(i)) for i in (1, 2, 3))]
    return builder.op(layer.kind, inputs, shape=layer.out_shape(), version="opset2")


@converts("ExtractImagePatches")
def extract_image_patches(builder: Builder, layer: LegacyLayer) -> Value:
    attributes = {name: layer.integers(name) for name in ("sizes", "strides", "rates")}
    attributes_and_pad = {**attributes, "auto_pad": layer.text("auto_pad")}
    return builder.op(
        "ExtractImagePatches", [layer.input(0)], attributes_and_pad, shape=layer.out_shape(), version="opset3"
    )
