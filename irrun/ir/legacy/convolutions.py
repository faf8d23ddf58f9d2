"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ir.legacy.blobs import add_biases, get_weights
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, Blob, LegacyLayer, Value
from irrun.ir.legacy.window import Window

__all__: list[str] = []


def _add_channel_biases(builder: Builder, layer: LegacyLayer, value: Value, channels: int, position: int = 2) -> Value:
    """Add one bias per output channel of a convolution."""
    shape = (1, channels, *[1] * (len(layer.get_input_shape()) - 2))
    return add_biases(builder, layer, value, shape, position)


def _read_channels(layer: LegacyLayer) -> tuple[int, int, int]:
    """Return the numbers of groups, input channels and output channels."""
    shape = layer.get_input_shape()
    groups, out_channels = layer.get_int("group", default=1), layer.get_int("output")
    if len(shape) < 3 or groups < 1 or shape[1] % groups or out_channels % groups:
        raise layer.make_error(f"group={groups} and output={out_channels} do not match an input of shape {list(shape)}")
    return groups, shape[1], out_channels


@converts("Convolution")
def convert_convolution(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Convolution or GroupConvolution."""
    window = Window.read(layer)
    groups, in_channels, out_channels = _read_channels(layer)
    shape = [out_channels, in_channels // groups, *window.kernel]
    if groups > 1:
        shape = [groups, out_channels // groups, *shape[1:]]
    value = builder.add_op(
        "GroupConvolution" if groups > 1 else "Convolution",
        [builder.to_float(layer.get_input()), get_weights(builder, layer, shape)],
        window.attributes,
        shape=layer.get_output_shape(),
    )
    return _add_channel_biases(builder, layer, value, out_channels)


@converts("Deconvolution")
def convert_deconvolution(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to ConvolutionBackpropData or GroupConvolutionBackpropData.

    The declared output shape determines how many elements are cropped, and `auto_pad` how they are divided between
    the beginning and the end. With "same_upper", legacy plugins cropped an odd element at the end, whereas
    ConvolutionBackpropData crops it at the beginning. The converted padding is therefore explicit.
    """
    window = Window.read(layer)
    groups, in_channels, out_channels = _read_channels(layer)
    shape = [in_channels // groups, out_channels // groups, *window.kernel]
    if groups > 1:
        shape = [groups, *shape]
    pads_begin, pads_end, output_padding = [], [], []
    for axis, (size, out_size) in enumerate(
        zip(layer.get_input_shape()[2:], layer.get_output_shape()[2:], strict=True)
    ):
        total = window.strides[axis] * (size - 1) + window.compute_extent(axis) - out_size
        cropped = max(total, 0)
        begin = {"same_upper": cropped // 2, "same_lower": (cropped + 1) // 2, "valid": 0}.get(
            window.auto_pad, window.pads_begin[axis]
        )
        pads_begin.append(begin)
        pads_end.append(max(total - begin, 0))
        output_padding.append(max(begin - total, 0))
    attributes = {
        "strides": window.strides,
        "dilations": window.dilations,
        "pads_begin": pads_begin,
        "pads_end": pads_end,
        "output_padding": output_padding,
        "auto_pad": "explicit",
    }
    value = builder.add_op(
        "GroupConvolutionBackpropData" if groups > 1 else "ConvolutionBackpropData",
        [builder.to_float(layer.get_input()), get_weights(builder, layer, shape)],
        attributes,
        shape=layer.get_output_shape(),
    )
    return _add_channel_biases(builder, layer, value, out_channels)


@converts("DeformableConvolution")
def convert_deformable_convolution(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to DeformableConvolution."""
    window = Window.read(layer)
    groups, in_channels, out_channels = _read_channels(layer)
    weights = get_weights(builder, layer, [out_channels, in_channels // groups, *window.kernel], 2)
    attributes = {
        **window.attributes,
        "group": groups,
        "deformable_group": layer.get_int("deformable_group", default=1),
    }
    inputs = [builder.to_float(layer.get_input()), builder.to_float(layer.get_input(1)), weights]
    value = builder.add_op("DeformableConvolution", inputs, attributes, shape=layer.get_output_shape())
    return _add_channel_biases(builder, layer, value, out_channels, 3)


@converts("BinaryConvolution")
def convert_binary_convolution(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a Convolution of signs, where a bit of 0 means -1 in data and weights.

    `pad_value` is not a bit: the padding is its sign. BinaryConvolution is not used because the kernels of OpenVINO
    disagree about the order of bits in a u1 Constant.
    """
    import numpy as np

    window = Window.read(layer)
    groups, in_channels, out_channels = _read_channels(layer)
    mode = layer.get_text("mode", default="xnor-popcount")
    if groups > 1 or mode != "xnor-popcount":
        raise layer.make_error(
            f"group={groups} and mode={mode} are unsupported, expected group=1 and mode=xnor-popcount"
        )
    weights = _get_binary_weights(builder, layer, (out_channels, in_channels, *window.kernel))
    two, minus_one = builder.add_constant(2.0, F32, "two"), builder.add_constant(-1.0, F32, "minus_one")
    value = builder.add_binary("Multiply", builder.to_float(layer.get_input()), two)
    value = builder.add_binary("Add", value, minus_one)
    pads_begin, pads_end = window.compute_pads(layer.get_input_shape()[2:], layer.get_output_shape()[2:])
    if any(pads_begin) or any(pads_end):
        fill = builder.add_constant(np.sign(layer.get_float("pad_value", default=0.0)), F32, "pad_value")
        pads = [builder.add_constant([0, 0, *pad], name="pads") for pad in (pads_begin, pads_end)]
        in_shape = layer.get_input_shape()
        padded_sizes = (n + a + b for n, a, b in zip(in_shape[2:], pads_begin, pads_end, strict=True))
        shape = (*in_shape[:2], *padded_sizes)
        value = builder.add_op("Pad", [value, *pads, fill], {"pad_mode": "constant"}, shape=shape)
    no_pads = [0] * len(window.kernel)
    attributes = {**window.attributes, "pads_begin": no_pads, "pads_end": no_pads, "auto_pad": "explicit"}
    value = builder.add_op("Convolution", [value, weights], attributes, shape=layer.get_output_shape())
    return _add_channel_biases(builder, layer, value, out_channels)


def _get_binary_weights(builder: Builder, layer: LegacyLayer, shape: Sequence[int]) -> Value:
    """Return the bits of the blob `weights`, the first one in the lowest bit of a byte, as -1 and 1."""
    import numpy as np

    blob = layer.blobs.get("weights")
    if blob is None:
        raise layer.make_error("requires the blob weights")
    count = math.prod(shape)
    if blob.size * 8 < count:
        raise layer.make_error(f"the blob weights has {blob.size} bytes, expected {count} bits")
    if not len(layer.weights):
        # Without its .bin a file can still be inspected. Running it reports that these bytes are missing.
        return builder.add_stored_constant(Blob(F32, blob.offset, F32.get_byte_size(count)), shape, "weights")
    packed = np.frombuffer(layer.weights.view(blob.offset, blob.size), np.uint8)
    bits = np.unpackbits(packed, count=count, bitorder="little").reshape(shape)
    return builder.add_constant(bits.astype(np.float32) * 2 - 1, F32, "weights")
