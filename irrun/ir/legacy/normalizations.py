"""Normalizations and softmax."""

from __future__ import annotations

from irrun.ir.legacy.blobs import get_channel_blob
from irrun.ir.legacy.builder import Builder, converts
from irrun.ir.legacy.layer import LegacyLayer, Value

__all__: list[str] = []


@converts("BatchNormalization")
def convert_batch_normalization(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to BatchNormInference; `weights` holds the variance and `biases` the mean."""
    value = builder.to_float(layer.get_input())
    shape = layer.get_input_shape()
    channels = shape[1] if len(shape) > 1 else 1
    gamma, beta = (builder.fill(number, (channels,)) for number in (1, 0))
    mean, variance = (builder.add_blob(layer, name, [channels]) for name in ("biases", "weights"))
    return builder.add_op(
        "BatchNormInference",
        [value, gamma, beta, mean, variance],
        {"epsilon": layer.get_float("epsilon", "eps")},
        shape=value.shape,
        version="opset5",
    )


@converts("Norm", "LRN")
def convert_norm(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to LRN over channels (`region` "across") or over the axes of the image ("same")."""
    value = builder.to_float(layer.get_input())
    rank = len(layer.get_input_shape())
    across = layer.get_text("region", default="across").lower() == "across"
    axes = [1] if across else list(range(2, rank))
    attributes = {
        "alpha": layer.get_float("alpha"),
        "beta": layer.get_float("beta"),
        "bias": layer.get_float("k", "bias", default=1.0),
        "size": layer.get_int("local-size", "local_size"),
    }
    return builder.add_op("LRN", [value, builder.add_constant(axes, name="axes")], attributes, shape=value.shape)


@converts("Normalize")
def convert_normalize(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to NormalizeL2 over channels, or all axes but the first (`across_spatial`), and Multiply by weights."""
    value = builder.to_float(layer.get_input())
    rank = len(layer.get_input_shape())
    axes = list(range(1, rank)) if layer.get_bool("across_spatial") else [1]
    attributes = {"eps": layer.get_float("eps", default=1e-10), "eps_mode": "add"}
    value = builder.add_op(
        "NormalizeL2", [value, builder.add_constant(axes, name="axes")], attributes, shape=value.shape
    )
    if "weights" not in layer.blobs:
        return value
    return builder.add_binary("Multiply", value, get_channel_blob(builder, layer, "weights"))


@converts("GRN")
def convert_grn(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to GRN."""
    return builder.add_unary("GRN", builder.to_float(layer.get_input()), {"bias": layer.get_float("bias", default=0.0)})


@converts("MVN")
def convert_mvn(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to MVN over the image, or over channels too (`across_channels`).

    The plugins of IR v2 and v3 added eps to the standard deviation, later plugins to the variance.
    """
    value = builder.to_float(layer.get_input())
    axes = list(range(1 if layer.get_bool("across_channels") else 2, len(layer.get_input_shape())))
    attributes = layer.read(normalize_variance=True, eps=1e-9)
    attributes["eps_mode"] = "inside_sqrt" if layer.version > 3 else "outside_sqrt"
    inputs = [value, builder.add_constant(axes, name="axes")]
    return builder.add_op("MVN", inputs, attributes, shape=value.shape, version="opset6")


@converts("SoftMax")
def convert_softmax(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to SoftMax."""
    axis = layer.get_axis(len(layer.get_input_shape()), default=1 if len(layer.get_input_shape()) > 1 else 0)
    return builder.add_unary("SoftMax", builder.to_float(layer.get_input()), {"axis": axis})


@converts("LogSoftmax")
def convert_log_softmax(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to LogSoftmax."""
    axis = layer.get_axis(len(layer.get_input_shape()), default=-1)
    return builder.add_unary("LogSoftmax", builder.to_float(layer.get_input()), {"axis": axis}, version="opset5")
