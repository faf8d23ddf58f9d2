"""Convolutions, pooling and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, Blob, LegacyLayer, Value

__all__ = ["Window"]


@dataclass
class Window:
    """The window attributes of a layer, one entry per spatial axis, in the order of the axes.

    Attributes:
        kernel: Sizes of the window.
        strides: Distances between windows.
        pads_begin: Padding before the first element.
        pads_end: Padding after the last element.
        dilations: Distances between the elements of a window.
        auto_pad: "explicit", "valid", "same_upper" or "same_lower".
    """

    kernel: list[int]
    strides: list[int]
    pads_begin: list[int]
    pads_end: list[int]
    dilations: list[int]
    auto_pad: str

    @staticmethod
    def read(layer: LegacyLayer) -> Window:
        """Read the window attributes of a layer, which are spelled in one of three ways.

        Args:
            layer: A convolution or a pooling.

        Returns:
            The window.

        Raises:
            ModelError: An attribute is missing, not positive, or does not have one entry per spatial axis.
        """
        if layer.attributes.get("kernel", "").strip():
            window = _read_window_lists(layer)
        elif layer.has_attribute("kernel-x"):
            window = _read_window_xy(layer)
        else:
            window = _read_window_caffe(layer)
        for name in ("strides", "pads_begin", "pads_end", "dilations"):
            count = len(getattr(window, name))
            if count != len(window.kernel):
                raise layer.make_error(f"{name} has {count} entries, but kernel has {len(window.kernel)}")
        if min([*window.kernel, *window.strides, *window.dilations], default=1) < 1:
            raise layer.make_error("kernel, strides and dilations must be positive")
        return window

    @property
    def attributes(self) -> dict[str, object]:
        """The attributes of a Convolution or GroupConvolution."""
        return {
            "strides": self.strides,
            "dilations": self.dilations,
            "pads_begin": self.pads_begin,
            "pads_end": self.pads_end,
            "auto_pad": self.auto_pad,
        }

    def compute_extent(self, axis: int) -> int:
        """Return the number of elements that the dilated window spans on a spatial axis."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def compute_pads(self, in_shape: Sequence[int], out_shape: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the padding that `auto_pad` determines, or the explicit padding.

        Args:
            in_shape: Spatial dimensions of the input.
            out_shape: Spatial dimensions of the output.

        Returns:
            The padding at the beginning and at the end of each axis.
        """
        if self.auto_pad == "explicit":
            return self.pads_begin, self.pads_end
        pads_begin, pads_end = [], []
        for axis, (size, out_size) in enumerate(zip(in_shape, out_shape, strict=True)):
            total = 0
            if self.auto_pad != "valid":
                total = max((out_size - 1) * self.strides[axis] + self.compute_extent(axis) - size, 0)
            begin = (total + 1) // 2 if self.auto_pad == "same_lower" else total // 2
            pads_begin.append(begin)
            pads_end.append(total - begin)
        return pads_begin, pads_end


def _read_auto_pad(layer: LegacyLayer) -> str:
    auto_pad = layer.get_text("auto_pad", default="").lower()
    return auto_pad if auto_pad in ("valid", "same_upper", "same_lower") else "explicit"


def _read_window_lists(layer: LegacyLayer) -> Window:
    """Read `kernel`, `strides` and the other lists of IR v3 and later."""
    kernel = layer.get_ints("kernel")
    ones, zeros = [1] * len(kernel), [0] * len(kernel)
    pads_begin = layer.get_ints("pads_begin", default=zeros)
    return Window(
        kernel=kernel,
        strides=layer.get_ints("strides", "stride", default=ones),
        pads_begin=pads_begin,
        pads_end=layer.get_ints("pads_end", default=pads_begin),
        dilations=layer.get_ints("dilations", default=ones),
        auto_pad=_read_auto_pad(layer),
    )


def _read_window_xy(layer: LegacyLayer) -> Window:
    """Read `kernel-x`, `kernel-y` and the other numbers of IR v2."""
    pads_begin = [layer.get_int("pad-y", default=0), layer.get_int("pad-x", default=0)]
    return Window(
        kernel=[layer.get_int("kernel-y"), layer.get_int("kernel-x")],
        # Files of IR v2 may state a stride of 0, which means 1.
        strides=[layer.get_int("stride-y", default=1) or 1, layer.get_int("stride-x", default=1) or 1],
        pads_begin=pads_begin,
        pads_end=[layer.get_int("pad-b", default=pads_begin[0]), layer.get_int("pad-r", default=pads_begin[1])],
        dilations=[layer.get_int("dilation-y", default=1), layer.get_int("dilation-x", default=1)],
        auto_pad=_read_auto_pad(layer),
    )


def _read_window_caffe(layer: LegacyLayer) -> Window:
    """Read `kernel_size`, `kernel_h` and the other attributes that keep Caffe's names."""
    size, stride, pad = (
        layer.get_int("kernel_size"),
        layer.get_int("stride", default=1),
        layer.get_int("pad", default=0),
    )
    return Window(
        kernel=[layer.get_int(f"kernel_{axis}", default=0) or size for axis in "hw"],
        strides=[layer.get_int(f"stride_{axis}", default=0) or stride for axis in "hw"],
        pads_begin=[layer.get_int(f"pad_{axis}", default=0) or pad for axis in "hw"],
        pads_end=[0, 0],
        dilations=[1, 1],
        auto_pad=_read_auto_pad(layer),
    )


def _add_biases(builder: Builder, layer: LegacyLayer, value: Value, shape: Sequence[int], position: int) -> Value:
    """Add the blob `biases` or the input at `position`, reshaped to `shape`, if the layer has one of them."""
    if "biases" in layer.blobs:
        biases = builder.add_blob(layer, "biases", shape)
    elif len(layer.inputs) > position:
        biases = builder.reshape(layer.inputs[position], shape)
    else:
        return value
    return builder.add_binary("Add", value, builder.to_float(biases))


def _add_channel_biases(builder: Builder, layer: LegacyLayer, value: Value, channels: int, position: int) -> Value:
    """Add one bias per output channel of a convolution."""
    shape = (1, channels, *[1] * (len(layer.get_input_shape()) - 2))
    return _add_biases(builder, layer, value, shape, position)


def _get_weights(builder: Builder, layer: LegacyLayer, shape: list[int], position: int = 1) -> Value:
    """Return the blob `weights`, or in IR v7 the input at `position`, as floats of `shape`."""
    if "weights" in layer.blobs or len(layer.inputs) <= position:
        return builder.to_float(builder.add_blob(layer, "weights", shape))
    return builder.to_float(builder.reshape(layer.inputs[position], shape))


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
        [builder.to_float(layer.get_input(0)), _get_weights(builder, layer, shape)],
        window.attributes,
        shape=layer.get_output_shape(),
    )
    return _add_channel_biases(builder, layer, value, out_channels, 2)


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
        [builder.to_float(layer.get_input(0)), _get_weights(builder, layer, shape)],
        attributes,
        shape=layer.get_output_shape(),
    )
    return _add_channel_biases(builder, layer, value, out_channels, 2)


@converts("DeformableConvolution")
def convert_deformable_convolution(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to DeformableConvolution."""
    window = Window.read(layer)
    groups, in_channels, out_channels = _read_channels(layer)
    weights = _get_weights(builder, layer, [out_channels, in_channels // groups, *window.kernel], 2)
    attributes = {
        **window.attributes,
        "group": groups,
        "deformable_group": layer.get_int("deformable_group", default=1),
    }
    inputs = [builder.to_float(layer.get_input(0)), builder.to_float(layer.get_input(1)), weights]
    value = builder.add_op("DeformableConvolution", inputs, attributes, shape=layer.get_output_shape())
    return _add_channel_biases(builder, layer, value, out_channels, 3)


@converts("BinaryConvolution")
def convert_binary_convolution(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a Convolution of signs, where a bit of 0 stands for -1 in data and weights.

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
    value = builder.add_binary("Multiply", builder.to_float(layer.get_input(0)), two)
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
    return _add_channel_biases(builder, layer, value, out_channels, 2)


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


@converts("Pooling")
def convert_pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to MaxPool or AvgPool.

    The declared shape determines the rounding, which the oldest files do not state. Where a window extends beyond the
    padding, its mean is over the part inside data and padding, as in Caffe.
    """
    window = Window.read(layer)
    value = builder.to_float(layer.get_input(0))
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
    """Return the rounding that yields the declared shape, or the stated one if none does."""
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


@converts("FullyConnected", "InnerProduct")
def convert_fully_connected(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a MatMul over all axes but the first.

    If both input and output have rank 3, the second axis is kept too.
    """
    value = builder.to_float(layer.get_input(0))
    shape, out_features = layer.get_input_shape(), layer.get_int("out-size", "out_size")
    if not shape:
        raise layer.make_error("the input is a scalar, expected rank 1 or more")
    keeps_axis = len(shape) == 3 and len(layer.get_output_shape()) == 3
    in_features = shape[-1] if keeps_axis else math.prod(shape[1:])
    if len(shape) != 2 and not keeps_axis:
        pattern = builder.add_constant([0, -1] if in_features else [0, 0], name="shape")
        value = builder.add_op("Reshape", [value, pattern], {"special_zero": True}, shape=(shape[0], in_features))
    weights = _get_weights(builder, layer, [out_features, in_features])
    product_shape = (*shape[:2], out_features) if keeps_axis else (shape[0], out_features)
    attributes = {"transpose_a": False, "transpose_b": True}
    value = builder.add_op("MatMul", [value, weights], attributes, shape=product_shape)
    value = _add_biases(builder, layer, value, (*[1] * (len(product_shape) - 1), out_features), 2)
    return builder.reshape(value, layer.get_output_shape())


@converts("Gemm")
def convert_gemm(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to operations that compute alpha * A @ B + beta * C."""
    left, right = (builder.to_float(layer.get_input(i)) for i in (0, 1))
    attributes = {"transpose_a": layer.get_bool("transpose_a"), "transpose_b": layer.get_bool("transpose_b")}
    value = builder.add_op("MatMul", [left, right], attributes, shape=layer.get_output_shape())
    alpha, beta = layer.get_float("alpha", default=1.0), layer.get_float("beta", default=1.0)
    if alpha != 1:
        value = builder.add_binary("Multiply", value, builder.add_constant(alpha, F32, "alpha"))
    if len(layer.inputs) > 2:
        addend = builder.to_float(layer.inputs[2])
        if beta != 1:
            addend = builder.add_binary("Multiply", addend, builder.add_constant(beta, F32, "beta"))
        value = builder.add_binary("Add", value, addend)
    return value
