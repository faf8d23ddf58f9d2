"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, LegacyLayer, Value
from irrun.ir.legacy.window import Window

__all__: list[str] = []


@converts("Pooling")
def convert_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to MaxPool or AvgPool.

    The declared shape determines the rounding, which the oldest files do not state. Where a window extends beyond the
    padding, its mean is over the part inside data and padding, as in Caffe.
    """
    window = Window.read(layer)
    value = builder.to_float(layer.get_input())
    in_shape, out_shape = layer.get_input_shape()[2:], layer.get_output_shape()[2:]
    if len(in_shape) != len(window.kernel):
        raise layer.make_error(
            f"kernel has {len(window.kernel)} entries, but the input has {len(in_shape)} spatial axes"
        )
    method = _read_pooling_method(layer)
    if layer.get_bool("global_pool", "global_pooling"):
        ones, zeros = [1] * len(in_shape), [0] * len(in_shape)
        window = Window(list(in_shape), ones, zeros, zeros, [], "explicit")
    attributes: dict[str, object] = {
        "strides": window.strides,
        "pads_begin": window.pads_begin,
        "pads_end": window.pads_end,
        "kernel": window.kernel,
        "rounding_type": _infer_rounding(layer, window),
        "auto_pad": window.auto_pad,
    }
    if method == "max":
        return builder.add_op("MaxPool", [value], attributes, shape=layer.get_output_shape())
    attributes["exclude-pad"] = layer.get_bool("exclude-pad", "exclude_pad")
    value = builder.add_op("AvgPool", [value], attributes, shape=layer.get_output_shape())
    if attributes["exclude-pad"] or window.auto_pad != "explicit" or not any(window.pads_begin + window.pads_end):
        return value
    return _exclude_overhang(builder, value, window, in_shape, out_shape)


def _read_pooling_method(layer: LegacyLayer) -> str:
    method = layer.get_text("pool-method", default="max").lower()
    if layer.has_attribute("pool"):
        method = "max" if layer.get_text("pool").upper().endswith("MAX") else "avg"
    if method not in ("max", "avg"):
        raise layer.make_error(f"pool-method is {method!r}, expected max or avg")
    return method


def _infer_rounding(layer: LegacyLayer, window: Window) -> str:
    """Return the rounding that gives the declared shape; if none does, the rounding in the file."""
    rounding = layer.get_text("rounding_type", "rounding-type", default="floor").lower()
    if window.auto_pad == "explicit":
        in_shape, out_shape = layer.get_input_shape()[2:], layer.get_output_shape()[2:]
        ranges = [
            size + begin + end - kernel
            for size, begin, end, kernel in zip(
                in_shape, window.pads_begin, window.pads_end, window.kernel, strict=True
            )
        ]
        shapes = {
            "floor": tuple(n // stride + 1 for n, stride in zip(ranges, window.strides, strict=True)),
            "ceil": tuple(-(-n // stride) + 1 for n, stride in zip(ranges, window.strides, strict=True)),
        }
        if shapes.get(rounding) != out_shape:
            rounding = next((name for name, shape in shapes.items() if shape == out_shape), rounding)
    return "ceil" if rounding.startswith("ceil") else "floor"


def _exclude_overhang(
    builder: Builder, value: Value, window: Window, in_shape: Sequence[int], out_shape: Sequence[int]
) -> Value:
    """Rescale means over the whole of the last windows to means over their part inside data and padding."""
    for axis, (size, out_size) in enumerate(zip(in_shape, out_shape, strict=True)):
        kernel = window.kernel[axis]
        end = size + window.pads_begin[axis] + window.pads_end[axis]
        overhang = (out_size - 1) * window.strides[axis] + kernel - end
        if 0 < overhang < min(kernel, window.strides[axis]):
            last = builder.add_constant([kernel / (kernel - overhang)], F32, "last")
            factors = builder.concat([builder.fill(1, (out_size - 1,)), last], 0)
            shape = [out_size if i == axis else 1 for i in range(len(out_shape))]
            value = builder.add_binary("Multiply", value, builder.reshape(factors, (1, 1, *shape)))
    return value
