"""Resizing and resampling of images."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, LegacyLayer, Value

__all__: list[str] = []

#: The most pixels of an image that SpatialTransformer may transform: its sampling positions are stored as a Constant.
_LARGEST_GRID = 1 << 24


def _resize(builder: Builder, layer: LegacyLayer, value: Value, attributes: dict[str, object]) -> Value:
    """Add an Interpolate to the declared size; files state factors, sizes or both, with varying rounding."""
    in_shape, out_shape = value.shape or layer.in_shape(), layer.out_shape()
    if len(in_shape) != len(out_shape) or len(out_shape) < 3:
        raise layer.error(
            f"input {list(in_shape)} and output {list(out_shape)} have ranks {len(in_shape)} and {len(out_shape)}, "
            "expected images of the same rank"
        )
    axes = list(range(2, len(out_shape)))
    inputs = [
        value,
        builder.constant([out_shape[axis] for axis in axes], name="sizes"),
        builder.constant([out_shape[axis] / max(in_shape[axis], 1) for axis in axes], F32, "scales"),
        builder.constant(axes, name="axes"),
    ]
    attributes = {
        "shape_calculation_mode": "sizes",
        "antialias": False,
        "nearest_mode": "floor",
        "pads_begin": [0],
        "pads_end": [0],
        "cube_coeff": -0.75,
        **attributes,
    }
    return builder.op("Interpolate", inputs, attributes, shape=out_shape, version="opset4")


@converts("Interp")
def convert_interp(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a bilinear Interpolate. Negative pads crop the border first, positive ones extend it with zeros."""
    value = builder.floating(layer.input(0))
    begin, end = layer.integer("pad_beg", default=0), layer.integer("pad_end", default=0)
    shape = layer.in_shape()
    axes = list(range(2, len(shape)))
    if begin > 0 or end > 0:
        pads = [builder.constant([0, 0, *[max(pad, 0)] * len(axes)], name="pads") for pad in (begin, end)]
        padded_shape = (*shape[:2], *(size + max(begin, 0) + max(end, 0) for size in shape[2:]))
        zero = builder.constant(0.0, F32, "zero")
        value = builder.op("Pad", [value, *pads, zero], {"pad_mode": "constant"}, shape=padded_shape)
    if begin < 0 or end < 0:
        sizes = (value.shape or shape)[2:]
        value = builder.slice(value, axes, [max(-begin, 0)] * len(axes), [size - max(-end, 0) for size in sizes])
    align_corners = layer.flag("align_corners", default=True)
    mode = "align_corners" if align_corners else "asymmetric"
    return _resize(builder, layer, value, {"mode": "linear_onnx", "coordinate_transformation_mode": mode})


@converts("Resample", "Upsampling")
def convert_resample(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to an Interpolate whose mode is `type`.

    The nearest pixel is the one with the nearest center in the engines of IR v2 to v6. In most engines of IR v7 it is
    the one that begins at or before the output pixel. Both agree if the scale is an integer.
    """
    value = builder.floating(layer.input(0))
    method = layer.text("type", "sample_type", default="nearest").rpartition(".")[2].lower()
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
            "antialias": layer.flag("antialias"),
        }
    elif method == "cubic":
        attributes = {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"}
    else:
        raise layer.error(f"type is {layer.text('type', 'sample_type')!r}, expected NEAREST, LINEAR or CUBIC")
    return _resize(builder, layer, value, attributes)


@converts("SpatialTransformer")
def convert_spatial_transformer(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a GridSample at the positions theta @ (y, x, 1).

    The coordinates are -1 at the first pixel and 1 one pixel after the last.
    """
    value, theta = (builder.floating(layer.input(i)) for i in (0, 1))
    batch, _, height, width = layer.in_shape()
    if height * width > _LARGEST_GRID:
        raise layer.error(f"the images have {height} x {width} pixels, expected at most {_LARGEST_GRID}")
    ys, xs = ([2 * i / size - 1 for i in range(size)] for size in (height, width))
    positions = builder.constant([[y, x, 1.0] for y in ys for x in xs], F32, "places")
    theta = builder.reshape(theta, (batch, 2, 3))
    attributes: dict[str, object] = {"transpose_a": False, "transpose_b": True}
    grid = builder.op("MatMul", [positions, theta], attributes, shape=(batch, height * width, 2))
    x_first = [builder.constant([1, 0], name="x_first"), builder.constant(2, name="axis")]
    grid = builder.op("Gather", [grid, *x_first], shape=grid.shape)
    grid = builder.reshape(grid, (batch, height, width, 2))
    # GridSample measures from the edges of pixels rather than from their centers.
    grid = builder.binary("Add", grid, builder.constant([1 / width, 1 / height], F32, "half_pixel"))
    attributes = {"align_corners": False, "mode": "bilinear", "padding_mode": "zeros"}
    return builder.op("GridSample", [value, grid], attributes, shape=layer.out_shape(), version="opset9")
