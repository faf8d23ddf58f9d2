"""Resizing of images."""

from __future__ import annotations

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, LegacyLayer, Value

__all__: list[str] = []

LARGEST_GRID = 1 << 24


def _resize(builder: Builder, layer: LegacyLayer, value: Value, attributes: dict[str, object]) -> Value:
    """To the size of the output: files give factors, sizes or both, and rounded their own way."""
    before, after = value.shape or layer.in_shape(), layer.out_shape()
    if len(before) != len(after) or len(after) < 3:
        raise layer.error(f"resizes {list(before)} to {list(after)}, expected images of one rank")
    axes = list(range(2, len(after)))
    inputs = [
        value,
        builder.constant([after[a] for a in axes], name="sizes"),
        builder.constant([after[a] / max(before[a], 1) for a in axes], F32, "scales"),
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
    return builder.op("Interpolate", inputs, attributes, shape=after, version="opset4")


@converts("Interp")
def interp(builder: Builder, layer: LegacyLayer) -> Value:
    """Bilinear; pads below zero cut the border off before."""
    value = builder.floating(layer.input(0))
    begin, end = layer.integer("pad_beg", default=0), layer.integer("pad_end", default=0)
    shape = layer.in_shape()
    if begin or end:
        axes = list(range(2, len(shape)))
        if begin > 0 or end > 0:
            pads = [builder.constant([0, 0, *[max(p, 0)] * len(axes)], name="pads") for p in (begin, end)]
            grown = (*shape[:2], *(n + max(begin, 0) + max(end, 0) for n in shape[2:]))
            zero = builder.constant(0.0, F32, "zero")
            value = builder.op("Pad", [value, *pads, zero], {"pad_mode": "constant"}, shape=grown)
        if begin < 0 or end < 0:
            sizes = (value.shape or shape)[2:]
            value = builder.slice(value, axes, [max(-begin, 0)] * len(axes), [n - max(-end, 0) for n in sizes])
    aligned = layer.flag("align_corners", default=True)
    mode = "align_corners" if aligned else "asymmetric"
    return _resize(builder, layer, value, {"mode": "linear_onnx", "coordinate_transformation_mode": mode})


@converts("Resample", "Upsampling")
def resample(builder: Builder, layer: LegacyLayer) -> Value:
    """By `type`.

    For the engines that IR v2 to v6 were made for, the nearest pixel is the one whose centre is nearest; for most of
    those of IR v7, the one that begins at or before the pixel that is made. Whole factors of growth give the same.
    """
    value = builder.floating(layer.input(0))
    method = layer.text("type", "sample_type", default="nearest").rpartition(".")[2].lower()
    if method == "nearest":
        centred = layer.version < 7
        attributes: dict[str, object] = {
            "mode": "nearest",
            "coordinate_transformation_mode": "half_pixel" if centred else "asymmetric",
            "nearest_mode": "round_prefer_ceil" if centred else "floor",
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
        raise layer.error(f"type={layer.text('type')!r}, expected NEAREST, LINEAR or CUBIC")
    return _resize(builder, layer, value, attributes)


@converts("SpatialTransformer")
def spatial_transformer(builder: Builder, layer: LegacyLayer) -> Value:
    """Bilinear samples at theta (y, x, 1), in a system where -1 is the first pixel and 1 is one past the last."""
    value, theta = (builder.floating(layer.input(i)) for i in (0, 1))
    batch, _, height, width = layer.in_shape()
    if height * width > LARGEST_GRID:
        raise layer.error(f"transforms images of {height} x {width} pixels, more than {LARGEST_GRID}")
    ys, xs = ([2 * i / n - 1 for i in range(n)] for n in (height, width))
    places = builder.constant([[y, x, 1.0] for y in ys for x in xs], F32, "places")
    theta = builder.reshape(theta, (batch, 2, 3))
    attributes: dict[str, object] = {"transpose_a": False, "transpose_b": True}
    grid = builder.op("MatMul", [places, theta], attributes, shape=(batch, height * width, 2))
    order = [builder.constant([1, 0], name="x_first"), builder.constant(2, name="axis")]
    grid = builder.op("Gather", [grid, *order], shape=grid.shape)
    grid = builder.reshape(grid, (batch, height, width, 2))
    # GridSample counts from the edges of pixels, not from their centres.
    grid = builder.binary("Add", grid, builder.constant([1 / width, 1 / height], F32, "half_pixel"))
    attributes = {"align_corners": False, "mode": "bilinear", "padding_mode": "zeros"}
    return builder.op("GridSample", [value, grid], attributes, shape=layer.out_shape(), version="opset9")
