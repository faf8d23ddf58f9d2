"""Convolutions, pooling, and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import F32, Blob, LegacyLayer, Value

__all__ = ["Window"]


@dataclass
class Window:
    """The window attributes of a layer, one entry per spatial axis, in the order of the axes."""

    kernel: list[int]
    strides: list[int]
    pads_begin: list[int]
    pads_end: list[int]
    dilations: list[int]
    auto_pad: str

    @staticmethod
    def of(layer: LegacyLayer) -> Window:
        """From `kernel` and the lists beside it, or from `kernel-x` and `kernel-y` of IR v2."""
        auto_pad = layer.text("auto_pad", default="").lower()
        auto_pad = auto_pad if auto_pad in ("valid", "same_upper", "same_lower") else "explicit"
        if layer.attributes.get("kernel", "").strip():
            kernel = layer.integers("kernel")
            ones, zeros = [1] * len(kernel), [0] * len(kernel)
            strides = layer.integers("strides", "stride", default=ones)
            begin = layer.integers("pads_begin", default=zeros)
            found = Window(
                kernel,
                strides,
                begin,
                layer.integers("pads_end", default=begin),
                layer.integers("dilations", default=ones),
                auto_pad,
            )
        elif layer.has("kernel-x"):
            begin = [layer.integer("pad-y", default=0), layer.integer("pad-x", default=0)]
            found = Window(
                kernel=[layer.integer("kernel-y"), layer.integer("kernel-x")],
                # Files of IR v2 say 0 where they mean 1.
                strides=[layer.integer("stride-y", default=1) or 1, layer.integer("stride-x", default=1) or 1],
                pads_begin=begin,
                pads_end=[layer.integer("pad-b", default=begin[0]), layer.integer("pad-r", default=begin[1])],
                dilations=[layer.integer("dilation-y", default=1), layer.integer("dilation-x", default=1)],
                auto_pad=auto_pad,
            )
        else:  # as Caffe spells it
            size, stride, pad = (
                layer.integer("kernel_size"),
                layer.integer("stride", default=1),
                layer.integer("pad", default=0),
            )
            begin = [layer.integer(f"pad_{a}", default=0) or pad for a in "hw"]
            found = Window(
                kernel=[layer.integer(f"kernel_{a}", default=0) or size for a in "hw"],
                strides=[layer.integer(f"stride_{a}", default=0) or stride for a in "hw"],
                pads_begin=begin,
                pads_end=[0, 0],
                dilations=[1, 1],
                auto_pad=auto_pad,
            )
        for name in ("strides", "pads_begin", "pads_end", "dilations"):
            if len(getattr(found, name)) != len(found.kernel):
                raise layer.error(f"{name} has {len(getattr(found, name))} entries, kernel {len(found.kernel)}")
        if min([*found.kernel, *found.strides, *found.dilations], default=1) < 1:
            raise layer.error("kernel, strides and dilations must be positive")
        return found

    @property
    def attributes(self) -> dict[str, object]:
        """As a convolution of today takes them."""
        return {
            "strides": self.strides,
            "dilations": self.dilations,
            "pads_begin": self.pads_begin,
            "pads_end": self.pads_end,
            "auto_pad": self.auto_pad,
        }

    def extent(self, axis: int) -> int:
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def add_biases(builder: Builder, layer: LegacyLayer, value: Value, rank: int, count: int, position: int) -> Value:
    """Adds the blob `biases`, or the input at `position`, along axis 1 (the last one of a matrix)."""
    shape = (1, count, *[1] * (rank - 2))
    if "biases" in layer.blobs:
        biases = builder.blob(layer, "biases", shape)
    elif len(layer.inputs) > position:
        biases = builder.reshape(layer.inputs[position], shape)
    else:
        return value
    return builder.binary("Add", value, builder.floating(biases))


def weights_of(builder: Builder, layer: LegacyLayer, shape: list[int]) -> Value:
    """The blob `weights`, or in IR v7 the second input, as floats of `shape`."""
    if "weights" in layer.blobs or len(layer.inputs) < 2:
        return builder.floating(builder.blob(layer, "weights", shape))
    return builder.floating(builder.reshape(layer.inputs[1], shape))


def _groups(layer: LegacyLayer) -> tuple[int, int, int]:
    """Groups, channels in, channels out."""
    shape = layer.in_shape()
    groups, outputs = layer.integer("group", default=1), layer.integer("output")
    if len(shape) < 3 or groups < 1 or shape[1] % groups or outputs % groups:
        raise layer.error(f"group={groups} and output={outputs} do not fit an input of shape {list(shape)}")
    return groups, shape[1], outputs


@converts("Convolution")
def convolution(builder: Builder, layer: LegacyLayer) -> Value:
    window = Window.of(layer)
    groups, channels, outputs = _groups(layer)
    shape = [outputs, channels // groups, *window.kernel]
    if groups > 1:
        shape = [groups, outputs // groups, *shape[1:]]
    weights = weights_of(builder, layer, shape)
    value = builder.op(
        "GroupConvolution" if groups > 1 else "Convolution",
        [builder.floating(layer.input(0)), weights],
        window.attributes,
        shape=layer.out_shape(),
    )
    return add_biases(builder, layer, value, len(layer.in_shape()), outputs, 2)


@converts("Deconvolution")
def deconvolution(builder: Builder, layer: LegacyLayer) -> Value:
    """The declared shape decides how much is cut off; `auto_pad` how that is divided.

    With "same_upper" the odd element is cut off at the end, as then; today's operation cuts it off at the beginning.
    """
    window = Window.of(layer)
    groups, channels, outputs = _groups(layer)
    shape = [channels // groups, outputs // groups, *window.kernel]
    if groups > 1:
        shape = [groups, *shape]
    weights = weights_of(builder, layer, shape)
    begin, end, extra = [], [], []
    for i, (before, after) in enumerate(zip(layer.in_shape()[2:], layer.out_shape()[2:], strict=True)):
        cut = window.strides[i] * (before - 1) + window.extent(i) - after
        first = {"same_upper": max(cut, 0) // 2, "same_lower": (max(cut, 0) + 1) // 2, "valid": 0}.get(
            window.auto_pad, window.pads_begin[i]
        )
        begin.append(first)
        end.append(max(cut - first, 0))
        extra.append(max(first - cut, 0))
    attributes = {
        "strides": window.strides,
        "dilations": window.dilations,
        "pads_begin": begin,
        "pads_end": end,
        "output_padding": extra,
        "auto_pad": "explicit",
    }
    value = builder.op(
        "GroupConvolutionBackpropData" if groups > 1 else "ConvolutionBackpropData",
        [builder.floating(layer.input(0)), weights],
        attributes,
        shape=layer.out_shape(),
    )
    return add_biases(builder, layer, value, len(layer.in_shape()), outputs, 2)


@converts("DeformableConvolution")
def deformable_convolution(builder: Builder, layer: LegacyLayer) -> Value:
    window = Window.of(layer)
    groups, channels, outputs = _groups(layer)
    shape = [outputs, channels // groups, *window.kernel]
    if "weights" in layer.blobs or len(layer.inputs) < 3:
        weights = builder.blob(layer, "weights", shape)
    else:
        weights = builder.reshape(layer.inputs[2], shape)
    attributes = {
        **window.attributes,
        "group": groups,
        "deformable_group": layer.integer("deformable_group", default=1),
    }
    inputs = [builder.floating(layer.input(0)), builder.floating(layer.input(1)), weights]
    value = builder.op("DeformableConvolution", inputs, attributes, shape=layer.out_shape())
    return add_biases(builder, layer, value, len(layer.in_shape()), outputs, 3)


@converts("BinaryConvolution")
def binary_convolution(builder: Builder, layer: LegacyLayer) -> Value:
    """A Convolution of signs: 0 stands for -1 in data and weights; of `pad_value`, which is no bit, the sign counts.

    The bits of old weights lie the first in the lowest. Today's BinaryConvolution is not used because OpenVINO's own
    kernels do not agree on the order of bits in a u1 Constant.
    """
    import numpy as np

    window = Window.of(layer)
    groups, channels, outputs = _groups(layer)
    mode = layer.text("mode", default="xnor-popcount")
    if groups > 1 or mode != "xnor-popcount":
        raise layer.error(f"group={groups} and mode={mode}, expected 1 and xnor-popcount")
    shape = (outputs, channels, *window.kernel)
    blob = layer.blobs.get("weights")
    if blob is None:
        raise layer.error("needs the blob weights")
    count = math.prod(shape)
    if blob.size * 8 < count:
        raise layer.error(f"the blob weights takes {blob.size} bytes, {count} bits were expected")
    if len(layer.weights):
        packed = np.frombuffer(layer.weights.view(blob.offset, blob.size), np.uint8)
        bits = np.unpackbits(packed, count=count, bitorder="little").reshape(shape)
        weights = builder.constant(bits.astype(np.float32) * 2 - 1, F32, "weights")
    else:  # a file can be looked at without its .bin; running it will ask for these bytes
        weights = builder.stored(Blob(F32, blob.offset, F32.byte_size(count)), shape, "weights")
    two, minus_one = builder.constant(2.0, F32, "two"), builder.constant(-1.0, F32, "minus_one")
    value = builder.binary("Multiply", builder.floating(layer.input(0)), two)
    value = builder.binary("Add", value, minus_one)
    begin, end = _pads(window, layer.in_shape()[2:], layer.out_shape()[2:])
    if any(begin) or any(end):
        fill = builder.constant(np.sign(layer.number("pad_value", default=0.0)), F32, "pad_value")
        bounds = [builder.constant([0, 0, *pads], name="pads") for pads in (begin, end)]
        before = layer.in_shape()
        grown = (*before[:2], *(n + a + b for n, a, b in zip(before[2:], begin, end, strict=True)))
        value = builder.op("Pad", [value, *bounds, fill], {"pad_mode": "constant"}, shape=grown)
    none = [0] * len(window.kernel)
    attributes = {**window.attributes, "pads_begin": none, "pads_end": none, "auto_pad": "explicit"}
    value = builder.op("Convolution", [value, weights], attributes, shape=layer.out_shape())
    return add_biases(builder, layer, value, len(layer.in_shape()), outputs, 2)


def _pads(window: Window, before: Sequence[int], after: Sequence[int]) -> tuple[list[int], list[int]]:
    """The padding in numbers, also where `auto_pad` decides it."""
    if window.auto_pad == "explicit":
        return window.pads_begin, window.pads_end
    begin, end = [], []
    for i, (n, m) in enumerate(zip(before, after, strict=True)):
        total = max((m - 1) * window.strides[i] + window.extent(i) - n, 0) if window.auto_pad != "valid" else 0
        first = (total + 1) // 2 if window.auto_pad == "same_lower" else total // 2
        begin.append(first)
        end.append(total - first)
    return begin, end


@converts("Pooling")
def pooling(builder: Builder, layer: LegacyLayer) -> Value:
    """The rounding is the one that gives the declared shape: the oldest files do not name it.

    Where a window runs over the end of the padding, a mean is over what it has of data and padding, as in Caffe.
    """
    window = Window.of(layer)
    value = builder.floating(layer.input(0))
    before, after = layer.in_shape()[2:], layer.out_shape()[2:]
    if len(before) != len(window.kernel):
        raise layer.error(f"kernel has {len(window.kernel)} entries, the input {len(before)} spatial axes")
    method = layer.text("pool-method", default="max").lower()
    if layer.has("pool"):
        method = "max" if layer.text("pool").upper().endswith("MAX") else "avg"
    if method not in ("max", "avg"):
        raise layer.error(f"pool-method={method!r}, expected max or avg")
    if layer.flag("global_pool", "global_pooling"):
        window = Window(list(before), [1] * len(before), [0] * len(before), [0] * len(before), [], "explicit")
    rounding = layer.text("rounding_type", "rounding-type", default="floor").lower()
    if window.auto_pad == "explicit":
        spaces = [
            n + first + last - k
            for n, first, last, k in zip(before, window.pads_begin, window.pads_end, window.kernel, strict=True)
        ]
        fits = {
            "floor": tuple(n // s + 1 for n, s in zip(spaces, window.strides, strict=True)),
            "ceil": tuple(-(-n // s) + 1 for n, s in zip(spaces, window.strides, strict=True)),
        }
        if fits.get(rounding) != after:
            rounding = next((name for name, shape in fits.items() if shape == after), rounding)
    attributes: dict[str, object] = {
        "strides": window.strides,
        "pads_begin": window.pads_begin,
        "pads_end": window.pads_end,
        "kernel": window.kernel,
        "rounding_type": "ceil" if rounding.startswith("ceil") else "floor",
        "auto_pad": window.auto_pad,
    }
    if method == "max":
        return builder.op("MaxPool", [value], attributes, shape=layer.out_shape())
    attributes["exclude-pad"] = layer.flag("exclude-pad", "exclude_pad")
    value = builder.op("AvgPool", [value], attributes, shape=layer.out_shape())
    if attributes["exclude-pad"] or window.auto_pad != "explicit" or not any(window.pads_begin + window.pads_end):
        return value
    return _without_beyond(builder, value, window, before, after)


def _without_beyond(
    builder: Builder, value: Value, window: Window, before: Sequence[int], after: Sequence[int]
) -> Value:
    """Means that count what the last window has beyond the padding -> means that do not."""
    for i, (n, m) in enumerate(zip(before, after, strict=True)):
        size, end = window.kernel[i], n + window.pads_begin[i] + window.pads_end[i]
        beyond = (m - 1) * window.strides[i] + size - end
        if 0 < beyond < min(size, window.strides[i]):
            last = builder.constant([size / (size - beyond)], F32, "last")
            factors = builder.concat([builder.filled(1, (m - 1,)), last], 0)
            shape = [m if axis == i else 1 for axis in range(len(after))]
            value = builder.binary("Multiply", value, builder.reshape(factors, (1, 1, *shape)))
    return value


@converts("FullyConnected", "InnerProduct")
def fully_connected(builder: Builder, layer: LegacyLayer) -> Value:
    """All axes but the first are one; an input of rank 3 with an output of rank 3 keeps its second axis."""
    value = builder.floating(layer.input(0))
    shape, outputs = layer.in_shape(), layer.integer("out-size", "out_size")
    if not shape:
        raise layer.error("needs an input that is no scalar")
    batched = len(shape) == 3 and len(layer.out_shape()) == 3
    features = shape[-1] if batched else math.prod(shape[1:])
    if len(shape) != 2 and not batched:
        pattern = builder.constant([0, -1] if features else [0, 0], name="shape")
        value = builder.op("Reshape", [value, pattern], {"special_zero": True}, shape=(shape[0], features))
    weights = weights_of(builder, layer, [outputs, features])
    made = (*shape[:2], outputs) if batched else (shape[0], outputs)
    attributes = {"transpose_a": False, "transpose_b": True}
    value = builder.op("MatMul", [value, weights], attributes, shape=made)
    if "biases" in layer.blobs or len(layer.inputs) > 2:
        of_row = (1, 1, outputs) if batched else (1, outputs)
        if "biases" in layer.blobs:
            biases = builder.blob(layer, "biases", of_row)
        else:
            biases = builder.reshape(layer.inputs[2], of_row)
        value = builder.binary("Add", value, builder.floating(biases))
    return builder.reshape(value, layer.out_shape())


@converts("Gemm")
def gemm(builder: Builder, layer: LegacyLayer) -> Value:
    """alpha * A B + beta * C."""
    left, right = (builder.floating(layer.input(i)) for i in (0, 1))
    attributes = {"transpose_a": layer.flag("transpose_a"), "transpose_b": layer.flag("transpose_b")}
    value = builder.op("MatMul", [left, right], attributes, shape=layer.out_shape())
    alpha, beta = layer.number("alpha", default=1.0), layer.number("beta", default=1.0)
    if alpha != 1:
        value = builder.binary("Multiply", value, builder.constant(alpha, F32, "alpha"))
    if len(layer.inputs) > 2:
        addend = builder.floating(layer.inputs[2])
        if beta != 1:
            addend = builder.binary("Multiply", addend, builder.constant(beta, F32, "beta"))
        value = builder.binary("Add", value, addend)
    return value
