"""Functions of one value: activations, with and without parameters."""

from __future__ import annotations

import math

from irrun.ir.legacy.builder import CONVERSIONS, Builder, Conversion, converts, unknown
from irrun.ir.legacy.layer import BOOLEAN, F32, OldLayer, Value

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
    def convert(builder: Builder, old: OldLayer) -> Value:
        value = old.input(0)
        value = value if name in _ON_INTEGERS else builder.floating(value)
        return builder.unary(type, value, version=version)

    return convert


for _name, (_type, _version) in SIMPLE.items():
    converts(_name)(_simple(_name, _type, _version))


@converts("ReLU")
def relu(builder: Builder, old: OldLayer) -> Value:
    value = builder.floating(old.input(0))
    slope = old.number("negative_slope", default=0.0)
    if not slope:
        return builder.unary("Relu", value)
    return builder.op("PRelu", [value, builder.constant([slope], F32, "slope")], shape=value.shape)


@converts("PReLU")
def prelu(builder: Builder, old: OldLayer) -> Value:
    """One slope per channel, or one for all."""
    value = builder.floating(old.input(0))
    if "weights" in old.blobs:
        slope = builder.blob(old, "weights", [old.blobs["weights"].count])
    elif len(old.inputs) > 1:
        slope = old.inputs[1]
    else:
        raise old.error("needs the blob weights")
    return builder.op("PRelu", [value, slope], shape=value.shape)


def _clamp(builder: Builder, old: OldLayer, low: float, high: float) -> Value:
    return builder.unary("Clamp", builder.floating(old.input(0)), {"min": low, "max": high})


@converts("Clamp")
def clamp(builder: Builder, old: OldLayer) -> Value:
    return _clamp(builder, old, old.number("min"), old.number("max"))


@converts("ReLU6")
def relu6(builder: Builder, old: OldLayer) -> Value:
    return _clamp(builder, old, 0.0, old.number("n", default=6.0))


@converts("ELU")
def elu(builder: Builder, old: OldLayer) -> Value:
    return builder.unary("Elu", builder.floating(old.input(0)), {"alpha": old.number("alpha", default=1.0)})


@converts("GELU")
def gelu(builder: Builder, old: OldLayer) -> Value:
    return builder.unary("Gelu", builder.floating(old.input(0)), version="opset2")


def _with_scalars(builder: Builder, old: OldLayer, type: str, version: str, *parameters: tuple[str, float]) -> Value:
    value = builder.floating(old.input(0))
    scalars = [builder.constant(old.number(name, default=d), F32, name) for name, d in parameters]
    return builder.op(type, [value, *scalars], shape=value.shape, version=version)


@converts("HardSigmoid")
def hard_sigmoid(builder: Builder, old: OldLayer) -> Value:
    return _with_scalars(builder, old, "HardSigmoid", "opset1", ("alpha", 0.2), ("beta", 0.5))


@converts("Selu")
def selu(builder: Builder, old: OldLayer) -> Value:
    return _with_scalars(
        builder, old, "Selu", "opset1", ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)
    )


@converts("Swish")
def swish(builder: Builder, old: OldLayer) -> Value:
    return _with_scalars(builder, old, "Swish", "opset4", ("alpha", old.number("beta", default=1.0)))


@converts("Softsign")
def softsign(builder: Builder, old: OldLayer) -> Value:
    """x / (1 + |x|)"""
    value = builder.floating(old.input(0))
    below = builder.binary("Add", builder.unary("Abs", value), builder.constant(1.0, F32, "one"))
    return builder.binary("Divide", value, below)


@converts("Reciprocal")
def reciprocal(builder: Builder, old: OldLayer) -> Value:
    value = builder.floating(old.input(0))
    return builder.binary("Power", value, builder.constant(-1.0, F32, "exponent"))


@converts("Square")
def square(builder: Builder, old: OldLayer) -> Value:
    value = builder.floating(old.input(0))
    return builder.binary("Multiply", value, value)


@converts("Round")
def rounded(builder: Builder, old: OldLayer) -> Value:
    mode = old.text("mode", default="half_to_even")
    return builder.unary("Round", builder.floating(old.input(0)), {"mode": mode}, version="opset5")


@converts("Not", "LogicalNot")
def logical_not(builder: Builder, old: OldLayer) -> Value:
    value = builder.convert(old.input(0), BOOLEAN)
    return builder.unary("LogicalNot", value)


def _of_activation_only(builder: Builder, old: OldLayer, kind: str) -> Value | None:
    """What Activation names that is no type of layer."""
    if kind == "bounded_relu":
        return _clamp(builder, old, 0.0, old.number("alpha", default=0.0))
    if kind == "soft_relu":
        return builder.unary("SoftPlus", builder.floating(old.input(0)), version="opset4")
    if kind == "linear":
        alpha, beta = (builder.constant(old.number(n, default=d), F32, n) for n, d in (("alpha", 1.0), ("beta", 0.0)))
        value = builder.binary("Multiply", builder.floating(old.input(0)), alpha)
        return builder.binary("Add", value, beta)
    return None


@converts("Activation")
def activation(builder: Builder, old: OldLayer) -> Value:
    """The layer whose type the attribute `type`, in any case, names."""
    kind = old.text(next((name for name in old.attributes if name.lower() == "type"), "type"))
    only = _of_activation_only(builder, old, kind.lower())
    if only is not None:
        return only
    conversion = CONVERSIONS.get(kind.lower())
    if conversion is None or conversion is activation:
        old.kind = f"Activation:{kind}"
        return unknown(builder, old)[0]
    result = conversion(builder, old)
    return result if isinstance(result, Value) else result[0]


@converts("Quantize", "FakeQuantize")
def fake_quantize(builder: Builder, old: OldLayer) -> Value:
    inputs = [builder.floating(old.input(i)) for i in range(5)]
    attributes = {"levels": old.integer("levels"), "auto_broadcast": "numpy"}
    return builder.op("FakeQuantize", inputs, attributes, shape=inputs[0].shape)


@converts("Power")
def power(builder: Builder, old: OldLayer) -> Value:
    """(scale * x + shift) ** power; steps that change nothing are left out."""
    value = old.input(0)
    parameters = [old.number(name, default=d) for name, d in (("scale", 1.0), ("shift", 0.0), ("power", 1.0))]
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
def power_file(builder: Builder, old: OldLayer) -> Value:
    """Adds 1, 0, 0, 0, 1, 0 over and over: the affine map that changes nothing, as every plugin had it built in."""
    value = builder.floating(old.input(0))
    shape = old.in_shape()
    rows = builder.reshape(value, (math.prod(shape) // 6, 6))
    map = builder.constant([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], F32, "map")
    return builder.reshape(builder.binary("Add", rows, map), shape)
