"""Layers that move, crop, join and repeat data, and layers that create it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.element_types import ElementType
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, I32, LegacyLayer, Value

__all__: list[str] = []


@converts("Const")
def convert_const(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Constant. The layer has a single blob, which most files call "custom"."""
    if len(layer.blobs) != 1:
        raise layer.make_error(f"has {len(layer.blobs)} blobs, expected one")
    return builder.add_blob(layer, next(iter(layer.blobs)), layer.get_output_shape())


@converts("Copy")
def convert_copy(builder: Builder, layer: LegacyLayer) -> Value:
    """Return the input, which gets the name of the layer as an additional name."""
    return layer.get_input()


@converts("Convert")
def convert_convert(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a Convert to the output type (f32 for FP16)."""
    precision = layer.get_text("precision", default="")
    try:
        element_type = ElementType.parse(precision) if precision else layer.get_output_type()
    except ValueError as error:
        raise layer.make_error(str(error)) from None
    return builder.convert(layer.get_input(), F32 if element_type.name == "f16" else element_type)


@converts("Concat")
def convert_concat(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Concat."""
    axis = layer.get_axis(len(layer.get_output_shape()), default=1 if len(layer.get_output_shape()) > 1 else 0)
    if not layer.inputs:
        raise layer.make_error("has no inputs")
    return builder.concat(layer.inputs, axis)


@converts("Split", "Slice")
def convert_split(builder: Builder, layer: LegacyLayer) -> Sequence[Value]:
    """Convert to VariadicSplit into the sizes that the outputs declare."""
    axis = layer.get_axis(len(layer.get_input_shape()), default=1)
    return builder.split(layer.get_input(), axis, [layer.get_output_shape(i)[axis] for i in range(len(layer.outputs))])


@converts("Crop")
def convert_crop(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Slice. The sizes come from the second input, `crop_end`, `dim` or the output."""
    value, shape = layer.get_input(), layer.get_input_shape()
    axes = [axis % len(shape) for axis in layer.get_ints("axis") if -len(shape) <= axis < len(shape)]
    starts = layer.get_ints("crop_begin", "offset", default=[0] * len(axes))
    if len(axes) != len(layer.get_ints("axis")) or len(starts) != len(axes):
        raise layer.make_error(f"axis={layer.get_text('axis')} with offsets {starts} does not match rank {len(shape)}")
    if len(layer.inputs) > 1:
        sizes = [layer.get_input_shape(1)[axis] for axis in axes]
    elif layer.has_attribute("crop_end"):
        ends = layer.get_ints("crop_end")
        sizes = [shape[axis] - start - end for axis, start, end in zip(axes, starts, ends, strict=True)]
    elif layer.has_attribute("dim"):
        sizes = layer.get_ints("dim")
    else:
        sizes = [layer.get_output_shape()[axis] for axis in axes]
    if len(sizes) != len(axes):
        raise layer.make_error(f"has {len(sizes)} sizes for {len(axes)} axes")
    stops = [start + size for start, size in zip(starts, sizes, strict=True)]
    for axis, start, stop in zip(axes, starts, stops, strict=True):
        if not 0 <= start <= stop <= shape[axis]:
            raise layer.make_error(f"the range [{start}, {stop}) is outside of axis {axis} of size {shape[axis]}")
    return builder.slice(value, axes, starts, stops)


@converts("Pad")
def convert_pad(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Pad."""
    value = layer.get_input()
    mode = layer.get_text("pad_mode", default="constant").lower()
    begin, end = (builder.add_constant(layer.get_ints(name), name=name) for name in ("pads_begin", "pads_end"))
    inputs = [value, begin, end]
    if mode == "constant":
        number = layer.get_float("pad_value", default=0.0)
        element_type = value.element_type or F32
        inputs.append(builder.add_constant(number if element_type.is_float else int(number), element_type, "pad_value"))
    return builder.add_op("Pad", inputs, {"pad_mode": mode}, shape=layer.get_output_shape())


@converts("Permute")
def convert_permute(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Transpose."""
    return builder.transpose(layer.get_input(), layer.get_ints("order"))


def _resolve_shape(shape: Sequence[int], pattern: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape for a pattern of Reshape: 0 copies a dimension, and -1 is inferred.

    Return None if a dimension that it copies does not exist. Other invalid patterns yield shapes that no file declares.
    """
    if any(size == 0 and i >= len(shape) for i, size in enumerate(pattern)):
        return None
    resolved = [shape[i] if size == 0 else size for i, size in enumerate(pattern)]
    known = math.prod(size for size in resolved if size != -1)
    inferred = math.prod(shape) // known if known else -1
    return tuple(inferred if size == -1 else size for size in resolved)


def _reshape(builder: Builder, layer: LegacyLayer, pattern: Sequence[int]) -> Value:
    """Reshape by a pattern if it yields the declared shape, or else to that shape."""
    shape = layer.get_output_shape()
    if _resolve_shape(layer.get_input_shape(), pattern) != shape:
        return builder.reshape(layer.get_input(), shape)
    target = builder.add_constant(list(pattern), name="shape")
    return builder.add_op("Reshape", [layer.get_input(), target], {"special_zero": True}, shape=shape)


@converts("Reshape")
def convert_reshape(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Reshape by the attribute `dim` or the second input.

    The effect of `axis` and `num_axes`, which come from Caffe, is part of the declared shape.
    """
    if len(layer.inputs) > 1:
        target = builder.get_target_shape(layer, 1)
        return builder.add_op(
            "Reshape", [layer.get_input(), target], {"special_zero": True}, shape=layer.get_output_shape()
        )
    return _reshape(builder, layer, layer.get_ints("dim", default=list(layer.get_output_shape())))


@converts("Flatten")
def convert_flatten(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Reshape."""
    axis, end_axis = layer.get_int("axis", default=1), layer.get_int("end_axis", default=-1)
    rank = len(layer.get_input_shape())
    if end_axis in (-1, rank - 1) and 0 <= axis < rank:
        return _reshape(builder, layer, [*[0] * axis, -1])
    return builder.reshape(layer.get_input(), layer.get_output_shape())


@converts("Squeeze", "Unsqueeze")
def convert_squeeze(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to the operation of the same name, or to Reshape if the axes are omitted."""
    if len(layer.inputs) < 2:
        return builder.reshape(layer.get_input(), layer.get_output_shape())
    axes = builder.to_int(layer.inputs[1])
    operation = "Squeeze" if layer.type.lower() == "squeeze" else "Unsqueeze"
    return builder.add_op(operation, [layer.get_input(), axes], shape=layer.get_output_shape())


@converts("Tile")
def convert_tile(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Tile."""
    rank = len(layer.get_input_shape())
    axis, tiles = layer.get_axis(rank), layer.get_int("tiles")
    repeats = builder.add_constant([tiles if i == axis else 1 for i in range(rank)], name="repeats")
    return builder.add_op("Tile", [layer.get_input(), repeats], shape=layer.get_output_shape())


@converts("Broadcast")
def convert_broadcast(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Broadcast."""
    inputs = [layer.get_input(), builder.get_target_shape(layer, 1)]
    if len(layer.inputs) > 2:
        inputs.append(builder.to_int(layer.inputs[2]))
    attributes = {"mode": "explicit" if len(inputs) > 2 else "numpy"}
    return builder.add_op("Broadcast", inputs, attributes, shape=layer.get_output_shape())


@converts("Fill")
def convert_fill(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Broadcast of the second input, a scalar, to the shape that the first one holds."""
    value = builder.to_scalar(layer.get_input(1))
    inputs = [value, builder.get_target_shape(layer, 0)]
    return builder.add_op("Broadcast", inputs, {"mode": "numpy"}, shape=layer.get_output_shape())


@converts("Range")
def convert_range(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Range."""
    start, stop, step = builder.unify_types([builder.to_scalar(layer.get_input(i)) for i in range(3)])
    attributes = {"output_type": start.element_type or F32}
    return builder.add_op("Range", [start, stop, step], attributes, shape=layer.get_output_shape(), version="opset4")


@converts("ShapeOf", "Shape")
def convert_shape_of(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ShapeOf."""
    element_type = layer.get_output_type() if layer.get_output_type().name in ("i32", "i64") else I32
    attributes = {"output_type": element_type}
    shape = layer.get_output_shape()
    return builder.add_op(
        "ShapeOf", [layer.get_input()], attributes, shape=shape, element_type=element_type, version="opset3"
    )


@converts("ReverseSequence")
def convert_reverse_sequence(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ReverseSequence."""
    attributes = {
        "seq_axis": layer.get_axis(len(layer.get_input_shape()), "seq_axis", default=1),
        "batch_axis": layer.get_axis(len(layer.get_input_shape()), "batch_axis", default=0),
    }
    inputs = [layer.get_input(), builder.to_int(layer.get_input(1))]
    return builder.add_op("ReverseSequence", inputs, attributes, shape=layer.get_output_shape())


@converts("ShuffleChannels")
def convert_shuffle_channels(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ShuffleChannels."""
    attributes = {
        "axis": layer.get_axis(len(layer.get_input_shape()), default=1),
        "group": layer.get_int("group", default=1),
    }
    return builder.add_unary("ShuffleChannels", layer.get_input(), attributes, version="opset3")


@converts("DepthToSpace", "SpaceToDepth")
def convert_depth_to_space(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to the operation of the same name."""
    attributes = layer.read(block_size=1, mode="blocks_first")
    return builder.add_op(layer.type, [layer.get_input()], attributes, shape=layer.get_output_shape())


@converts("SpaceToBatch", "BatchToSpace")
def convert_space_to_batch(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to the operation of the same name."""
    inputs = [layer.get_input(), *(builder.to_int(layer.get_input(i)) for i in (1, 2, 3))]
    return builder.add_op(layer.type, inputs, shape=layer.get_output_shape(), version="opset2")


@converts("ExtractImagePatches")
def convert_extract_image_patches(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ExtractImagePatches."""
    attributes: dict[str, object] = {name: layer.get_ints(name) for name in ("sizes", "strides", "rates")}
    attributes["auto_pad"] = layer.get_text("auto_pad")
    shape = layer.get_output_shape()
    return builder.add_op("ExtractImagePatches", [layer.get_input()], attributes, shape=shape, version="opset3")
