"""Normalizations and softmax."""

from __future__ import annotations

from irrun.ir.legacy.arithmetic import along_channels
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import LegacyLayer, Value

__all__: list[str] = []


@converts("BatchNormalization")
def batch_normalization(builder: Builder, layer: LegacyLayer) -> Value:
    """(x - mean) / sqrt(variance + epsilon): `weights` holds the variance, `biases` the mean."""
    value = builder.floating(layer.input(0))
    shape = layer.in_shape()
    channels = shape[1] if len(shape) > 1 else 1
    ones, zeros = (builder.filled(n, (channels,)) for n in (1, 0))
    mean, variance = (builder.blob(layer, name, [channels]) for name in ("biases", "weights"))
    return builder.op(
        "BatchNormInference",
        [value, ones, zeros, mean, variance],
        {"epsilon": layer.number("epsilon", "eps")},
        shape=value.shape,
        version="opset5",
    )


@converts("Norm", "LRN")
def norm(builder: Builder, layer: LegacyLayer) -> Value:
    """Local response normalization over channels (`region` "across") or over the axes of the image ("same")."""
    value = builder.floating(layer.input(0))
    rank = len(layer.in_shape())
    across = layer.text("region", default="across").lower() == "across"
    axes = [1] if across else list(range(2, rank))
    attributes = {
        "alpha": layer.number("alpha"),
        "beta": layer.number("beta"),
        "bias": layer.number("k", "bias", default=1.0),
        "size": layer.integer("local-size", "local_size"),
    }
    return builder.op("LRN", [value, builder.constant(axes, name="axes")], attributes, shape=value.shape)


@converts("Normalize")
def normalize(builder: Builder, layer: LegacyLayer) -> Value:
    """Division by the L2 norm over channels (and places, where `across_spatial`), times weights."""
    value = builder.floating(layer.input(0))
    rank = len(layer.in_shape())
    axes = list(range(1, rank)) if layer.flag("across_spatial") else [1]
    attributes = {"eps": layer.number("eps", default=1e-10), "eps_mode": "add"}
    value = builder.op("NormalizeL2", [value, builder.constant(axes, name="axes")], attributes, shape=value.shape)
    if "weights" not in layer.blobs:
        return value
    return builder.binary("Multiply", value, along_channels(builder, layer, "weights"))


@converts("GRN")
def grn(builder: Builder, layer: LegacyLayer) -> Value:
    return builder.unary("GRN", builder.floating(layer.input(0)), {"bias": layer.number("bias", default=0.0)})


@converts("MVN")
def mvn(builder: Builder, layer: LegacyLayer) -> Value:
    """Mean and variance over the image, or over channels too.

    The engines that IR v2 and v3 were made for added eps to the deviation, those since to the variance.
    """
    value = builder.floating(layer.input(0))
    axes = list(range(1 if layer.flag("across_channels") else 2, len(layer.in_shape())))
    attributes = {
        "normalize_variance": layer.flag("normalize_variance", default=True),
        "eps": layer.number("eps", default=1e-9),
        "eps_mode": "inside_sqrt" if layer.version > 3 else "outside_sqrt",
    }
    inputs = [value, builder.constant(axes, name="axes")]
    return builder.op("MVN", inputs, attributes, shape=value.shape, version="opset6")


@converts("SoftMax")
def softmax(builder: Builder, layer: LegacyLayer) -> Value:
    axis = layer.axis(len(layer.in_shape()), default=1 if len(layer.in_shape()) > 1 else 0)
    return builder.unary("SoftMax", builder.floating(layer.input(0)), {"axis": axis})


@converts("LogSoftmax")
def log_softmax(builder: Builder, layer: LegacyLayer) -> Value:
    axis = layer.axis(len(layer.in_shape()), default=-1)
    return builder.unary("LogSoftmax", builder.floating(layer.input(0)), {"axis": axis}, version="opset5")
