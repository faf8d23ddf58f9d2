"""Normalizations and softmax."""

from __future__ import annotations

from irrun.ir.legacy.arithmetic import get_channel_blob
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import LegacyLayer, Value

__all__: list[str] = []


@converts("BatchNormalization")
def convert_batch_normalization(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to BatchNormInference; `weights` holds the variance and `biases` the mean."""
    value = builder.floating(layer.input(0))
    shape = layer.in_shape()
    channels = shape[1] if len(shape) > 1 else 1
    gamma, beta = (builder.filled(number, (channels,)) for number in (1, 0))
    mean, variance = (builder.blob(layer, name, [channels]) for name in ("biases", "weights"))
    return builder.op(
        "BatchNormInference",
        [value, gamma, beta, mean, variance],
        {"epsilon": layer.number("epsilon", "eps")},
        shape=value.shape,
        version="opset5",
    )


@converts("Norm", "LRN")
def convert_norm(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to LRN over channels (`region` "across") or over the axes of the image ("same")."""
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
def convert_normalize(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to NormalizeL2 over channels, or all axes but the first (`across_spatial`), and Multiply by weights."""
    value = builder.floating(layer.input(0))
    rank = len(layer.in_shape())
    axes = list(range(1, rank)) if layer.flag("across_spatial") else [1]
    attributes = {"eps": layer.number("eps", default=1e-10), "eps_mode": "add"}
    value = builder.op("NormalizeL2", [value, builder.constant(axes, name="axes")], attributes, shape=value.shape)
    if "weights" not in layer.blobs:
        return value
    return builder.binary("Multiply", value, get_channel_blob(builder, layer, "weights"))


@converts("GRN")
def convert_grn(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to GRN."""
    return builder.unary("GRN", builder.floating(layer.input(0)), {"bias": layer.number("bias", default=0.0)})


@converts("MVN")
def convert_mvn(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to MVN over the image, or over channels too (`across_channels`).

    The plugins of IR v2 and v3 added eps to the standard deviation, those of later versions to the variance.
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
def convert_softmax(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to SoftMax."""
    axis = layer.axis(len(layer.in_shape()), default=1 if len(layer.in_shape()) > 1 else 0)
    return builder.unary("SoftMax", builder.floating(layer.input(0)), {"axis": axis})


@converts("LogSoftmax")
def convert_log_softmax(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to LogSoftmax."""
    axis = layer.axis(len(layer.in_shape()), default=-1)
    return builder.unary("LogSoftmax", builder.floating(layer.input(0)), {"axis": axis}, version="opset5")
