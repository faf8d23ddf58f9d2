"""Resizing and resampling of images."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, LegacyLayer, Value

__all__: list[str] = []

#: Maximum number of pixels of an image for SpatialTransformer, whose sampling positions are stored as a Constant.
_LARGEST_GRID = 1 << 24


def _resize(builder: Builder, layer: LegacyLayer, value: Value, attributes: dict[str, object]) -> Value:
    """Add an Interpolate to the declared size; files state factors, sizes or both, with varying rounding."""
    in_shape, out_shape = layer.get_input_shape(), layer.get_output_shape()
    if len(in_shape) != len(out_shape) or len(out_shape) < 3:
        raise layer.make_error(
            f"input {list(in_shape)} and output {list(out_shape)} have ranks {len(in_shape)} and {len(out_shape)}, "
            "expected images of the same rank"
        )
    inputs = [
        value,
        builder.add_constant(out_shape[2:], name="sizes"),
        builder.add_constant(list(range(2, len(out_shape))), name="axes"),
    ]
    attributes = {"shape_calculation_mode": "sizes", **attributes}
    return builder.add_op("Interpolate", inputs, attributes, shape=out_shape, version="opset11")


@converts("Interp")
def convert_interp(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a bilinear Interpolate. First, negative pads crop the border, and positive pads add zeros."""
    value = builder.to_float(layer.get_input())
    begin, end = layer.get_int("pad_beg", default=0), layer.get_int("pad_end", default=0)
    shape = layer.get_input_shape()
    axes = list(range(2, len(shape)))
    if begin > 0 or end > 0:
        pads = [builder.add_constant([0, 0, *[max(pad, 0)] * len(axes)], name="pads") for pad in (begin, end)]
        padded_shape = (*shape[:2], *(size + max(begin, 0) + max(end, 0) for size in shape[2:]))
        zero = builder.add_constant(0.0, F32, "zero")
        value = builder.add_op("Pad", [value, *pads, zero], {"pad_mode": "constant"}, shape=padded_shape)
    if begin < 0 or end < 0:
        sizes = (value.shape or shape)[2:]
        value = builder.slice(value, axes, [max(-begin, 0)] * len(axes), [size - max(-end, 0) for size in sizes])
    align_corners = layer.get_bool("align_corners", default=True)
    mode = "align_corners" if align_corners else "asymmetric"
    return _resize(builder, layer, value, {"mode": "linear_onnx", "coordinate_transformation_mode": mode})


@converts("Resample", "Upsampling")
def convert_resample(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to an Interpolate with `type` as its mode.

    The nearest pixel is the one with the nearest center in the engines of IR v2 to v6. In most engines of IR v7 it is
    the one that begins at or before the output pixel. Both agree if the scale is an integer.
    """
    value = builder.to_float(layer.get_input())
    method = layer.get_text("type", "sample_type", default="nearest").rpartition(".")[2].lower()
    if method == "nearest":
        uses_centers = layer.version < 7
        attributes: dict[str, object] = {
            "mode": "nearest",
            "coordinate_transformation_mode": "half_pixel" if uses_centers else "asymmetric",
            "nearest_mode": "round_prefer_ceil" if uses_centers else "floor",
        }
    elif method in ("linear", "bilinear"):
        attributes = {
            "mode": "linear",
            "coordinate_transformation_mode": "half_pixel",
            "antialias": layer.get_bool("antialias"),
        }
    elif method == "cubic":
        attributes = {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"}
    else:
        raise layer.make_error(f"type is {layer.get_text('type', 'sample_type')!r}, expected NEAREST, LINEAR or CUBIC")
    return _resize(builder, layer, value, attributes)


@converts("SpatialTransformer")
def convert_spatial_transformer(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a GridSample at the positions theta @ (y, x, 1).

    The coordinates are -1 at the first pixel and 1 one pixel after the last.
    """
    value, theta = (builder.to_float(layer.get_input(i)) for i in (0, 1))
    batch, _, height, width = layer.get_input_shape()
    if height * width > _LARGEST_GRID:
        raise layer.make_error(f"the images have {height} x {width} pixels, expected at most {_LARGEST_GRID}")
    ys, xs = ([2 * i / size - 1 for i in range(size)] for size in (height, width))
    positions = builder.add_constant([[y, x, 1.0] for y in ys for x in xs], F32, "places")
    theta = builder.reshape(theta, (batch, 2, 3))
    attributes: dict[str, object] = {"transpose_a": False, "transpose_b": True}
    grid = builder.add_op("MatMul", [positions, theta], attributes, shape=(batch, height * width, 2))
    x_first = [builder.add_constant([1, 0], name="x_first"), builder.add_constant(2, name="axis")]
    grid = builder.add_op("Gather", [grid, *x_first], shape=grid.shape)
    grid = builder.reshape(grid, (batch, height, width, 2))
    # GridSample measures from the edges of pixels rather than from their centers.
    grid = builder.add_binary("Add", grid, builder.add_constant([1 / width, 1 / height], F32, "half_pixel"))
    attributes = {"align_corners": False, "mode": "bilinear", "padding_mode": "zeros"}
    return builder.add_op("GridSample", [value, grid], attributes, shape=layer.get_output_shape(), version="opset9")
