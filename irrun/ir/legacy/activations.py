"""Functions of one value: activations, with and without parameters."""

from __future__ import annotations

import math

from irrun.ir.legacy.builder import CONVERSIONS, Builder, Conversion, converts, unknown
from irrun.ir.legacy.layer import BOOLEAN, F32, LegacyLayer, Value

__all__ = ["SIMPLE"]

#: Types of layers without attributes -> operation and opset.
SIMPLE = {
    "Abs": ("Abs", "opset1"),
    "Acos": ("Acos", "opset1"),
    "Acosh": ("Acosh", "opset4"),
    "Asin": ("Asin", "opset1"),
    "Asinh": ("Asinh", "opset4"),
    "Atan": ("Atan", "opset1"),
    "Atanh": ("Atanh", "opset4"),
    "Ceil": ("Ceiling", "opset1"),
    "Ceiling": ("Ceiling", "opset1"),
    "Cos": ("Cos", "opset1"),
    "Cosh": ("Cosh", "opset1"),
    "Erf": ("Erf", "opset1"),
    "Exp": ("Exp", "opset1"),
    "Floor": ("Floor", "opset1"),
    "HSwish": ("HSwish", "opset4"),
    "HSigmoid": ("HSigmoid", "opset5"),
    "Log": ("Log", "opset1"),
    "Mish": ("Mish", "opset4"),
    "Neg": ("Negative", "opset1"),
    "Negative": ("Negative", "opset1"),
    "Sigmoid": ("Sigmoid", "opset1"),
    "Logistic": ("Sigmoid", "opset1"),
    "Sign": ("Sign", "opset1"),
    "Sin": ("Sin", "opset1"),
    "Sinh": ("Sinh", "opset1"),
    "SoftPlus": ("SoftPlus", "opset4"),
    "Sqrt": ("Sqrt", "opset1"),
    "Tan": ("Tan", "opset1"),
    "TanH": ("Tanh", "opset1"),
}

#: Those that do arithmetic on integers as they are.
_ON_INTEGERS = frozenset({"Abs", "Ceil", "Ceiling", "Floor", "Neg", "Negative", "Sign"})


def _simple(name: str, type: str, version: str) -> Conversion:
    def convert(builder: Builder, layer: LegacyLayer) -> Value:
        value = layer.input(0)
        value = value if name in _ON_INTEGERS else builder.floating(value)
        return builder.unary(type, value, version=version)

    return convert


for _name, (_type, _version) in SIMPLE.items():
    converts(_name)(_simple(_name, _type, _version))


@converts("ReLU")
def relu(builder: Builder, layer: LegacyLayer) -> Value:
    value = builder.floating(layer.input(0))
    slope = layer.number("negative_slope", default=0.0)
    if not slope:
        return builder.unary("Relu", value)
    return builder.op("PRelu", [value, builder.constant([slope], F32, "slope")], shape=value.shape)


@converts("PReLU")
def prelu(builder: Builder, layer: LegacyLayer) -> Value:
    """One slope per channel, or one for all."""
    value = builder.floating(layer.input(0))
    if "weights" in layer.blobs:
        slope = builder.blob(layer, "weights", [layer.blobs["weights"].count])
    elif len(layer.inputs) > 1:
        slope = layer.inputs[1]
    else:
        raise layer.error("needs the blob weights")
    return builder.op("PRelu", [value, slope], shape=value.shape)


def _clamp(builder: Builder, layer: LegacyLayer, low: float, high: float) -> Value:
    return builder.unary("Clamp", builder.floating(layer.input(0)), {"min": low, "max": high})


@converts("Clamp")
def clamp(builder: Builder, layer: LegacyLayer) -> Value:
    return _clamp(builder, layer, layer.number("min"), layer.number("max"))


@converts("ReLU6")
def relu6(builder: Builder, layer: LegacyLayer) -> Value:
    return _clamp(builder, layer, 0.0, layer.number("n", default=6.0))


@converts("ELU")
def elu(builder: Builder, layer: LegacyLayer) -> Value:
    return builder.unary("Elu", builder.floating(layer.input(0)), {"alpha": layer.number("alpha", default=1.0)})


@converts("GELU")
def gelu(builder: Builder, layer: LegacyLayer) -> Value:
    return builder.unary("Gelu", builder.floating(layer.input(0)), version="opset2")


def _with_scalars(
    builder: Builder, layer: LegacyLayer, type: str, version: str, *parameters: tuple[str, float]
) -> Value:
    value = builder.floating(layer.input(0))
    scalars = [builder.constant(layer.number(name, default=d), F32, name) for name, d in parameters]
    return builder.op(type, [value, *scalars], shape=value.shape, version=version)


@converts("HardSigmoid")
def hard_sigmoid(builder: Builder, layer: LegacyLayer) -> Value:
    return _with_scalars(builder, layer, "HardSigmoid", "opset1", ("alpha", 0.2), ("beta", 0.5))


@converts("Selu")
def selu(builder: Builder, layer: LegacyLayer) -> Value:
    return _with_scalars(
        builder, layer, "Selu", "opset1", ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)
    )


@converts("Swish")
def swish(builder: Builder, layer: LegacyLayer) -> Value:
    return _with_scalars(builder, layer, "Swish", "opset4", ("alpha", layer.number("beta", default=1.0)))


@converts("Softsign")
def softsign(builder: Builder, layer: LegacyLayer) -> Value:
    """x / (1 + |x|)"""
    value = builder.floating(layer.input(0))
    below = builder.binary("Add", builder.unary("Abs", value), builder.constant(1.0, F32, "one"))
    return builder.binary("Divide", value, below)


@converts("Reciprocal")
def reciprocal(builder: Builder, layer: LegacyLayer) -> Value:
    value = builder.floating(layer.input(0))
    return builder.binary("Power", value, builder.constant(-1.0, F32, "exponent"))


@converts("Square")
def square(builder: Builder, layer: LegacyLayer) -> Value:
    value = builder.floating(layer.input(0))
    return builder.binary("Multiply", value, value)


@converts("Round")
def rounded(builder: Builder, layer: LegacyLayer) -> Value:
    mode = layer.text("mode", default="half_to_even")
    return builder.unary("Round", builder.floating(layer.input(0)), {"mode": mode}, version="opset5")


@converts("Not", "LogicalNot")
def logical_not(builder: Builder, layer: LegacyLayer) -> Value:
    value = builder.convert(layer.input(0), BOOLEAN)
    return builder.unary("LogicalNot", value)


def _of_activation_only(builder: Builder, layer: LegacyLayer, kind: str) -> Value | None:
    """What Activation names that is no type of layer."""
    if kind == "bounded_relu":
        return _clamp(builder, layer, 0.0, layer.number("alpha", default=0.0))
    if kind == "soft_relu":
        return builder.unary("SoftPlus", builder.floating(layer.input(0)), version="opset4")
    if kind == "linear":
        alpha, beta = (builder.constant(layer.number(n, default=d), F32, n) for n, d in (("alpha", 1.0), ("beta", 0.0)))
        value = builder.binary("Multiply", builder.floating(layer.input(0)), alpha)
        return builder.binary("Add", value, beta)
    return None


@converts("Activation")
def activation(builder: Builder, layer: LegacyLayer) -> Value:
    """The layer whose type the attribute `type`, in any case, names."""
    kind = layer.text(next((name for name in layer.attributes if name.lower() == "type"), "type"))
    only = _of_activation_only(builder, layer, kind.lower())
    if only is not None:
        return only
    conversion = CONVERSIONS.get(kind.lower())
    if conversion is None or conversion is activation:
        layer.kind = f"Activation:{kind}"
        return unknown(builder, layer)[0]
    result = conversion(builder, layer)
    return result if isinstance(result, Value) else result[0]


@converts("Quantize", "FakeQuantize")
def fake_quantize(builder: Builder, layer: LegacyLayer) -> Value:
    inputs = [builder.floating(layer.input(i)) for i in range(5)]
    attributes = {"levels": layer.integer("levels"), "auto_broadcast": "numpy"}
    return builder.op("FakeQuantize", inputs, attributes, shape=inputs[0].shape)


@converts("Power")
def power(builder: Builder, layer: LegacyLayer) -> Value:
    """(scale * x + shift) ** power; steps that change nothing are left out."""
    value = layer.input(0)
    parameters = [layer.number(name, default=d) for name, d in (("scale", 1.0), ("shift", 0.0), ("power", 1.0))]
    element = value.type
    if element is None or element.is_float or any(p != int(p) for p in parameters) or parameters[2] < 0:
        value = builder.floating(value)
        element = value.type or F32
    steps = zip(("Multiply", "Add", "Power"), parameters, (1.0, 0.0, 1.0), ("scale", "shift", "power"), strict=True)
    for type, parameter, neutral, name in steps:
        if parameter != neutral:
            number = parameter if element.is_float else int(parameter)
            value = builder.binary(type, value, builder.constant(number, element, name))
    return value


@converts("PowerFile")
def power_file(builder: Builder, layer: LegacyLayer) -> Value:
    """Adds 1, 0, 0, 0, 1, 0 over and over: the affine map that changes nothing, as every plugin had it built in."""
    value = builder.floating(layer.input(0))
    shape = layer.in_shape()
    rows = builder.reshape(value, (math.prod(shape) // 6, 6))
    map = builder.constant([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], F32, "map")
    return builder.reshape(builder.binary("Add", rows, map), shape)
