"""Activations and other functions of one value."""

from __future__ import annotations

import math

from irrun.ir.legacy.builder import CONVERSIONS, Builder, Conversion, Result, convert_unknown, converts
from irrun.ir.legacy.layer import BOOLEAN, F32, LegacyLayer, Value

__all__ = ["SIMPLE"]

#: The operation and opset of each type of layer without attributes.
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

#: Types that keep integers, whereas the others convert them to f32.
_KEEPS_INTEGERS = frozenset({"Abs", "Ceil", "Ceiling", "Floor", "Neg", "Negative", "Sign"})


def _define_simple_conversion(name: str, operation: str, version: str) -> Conversion:
    def convert_simple(builder: Builder, layer: LegacyLayer) -> Value:
        value = layer.get_input()
        value = value if name in _KEEPS_INTEGERS else builder.to_float(value)
        return builder.add_unary(operation, value, version=version)

    return convert_simple


for _name, (_operation, _version) in SIMPLE.items():
    converts(_name)(_define_simple_conversion(_name, _operation, _version))


@converts("ReLU")
def convert_relu(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Relu, or to PRelu if `negative_slope` is not 0."""
    value = builder.to_float(layer.get_input())
    slope = layer.get_float("negative_slope", default=0.0)
    if not slope:
        return builder.add_unary("Relu", value)
    return builder.add_op("PRelu", [value, builder.add_constant([slope], F32, "slope")], shape=value.shape)


@converts("PReLU")
def convert_prelu(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to PRelu with one slope per channel, or a single slope."""
    value = builder.to_float(layer.get_input())
    if "weights" in layer.blobs:
        slope = builder.add_blob(layer, "weights", [layer.blobs["weights"].count])
    elif len(layer.inputs) > 1:
        slope = layer.inputs[1]
    else:
        raise layer.make_error("requires the blob weights")
    return builder.add_op("PRelu", [value, slope], shape=value.shape)


def _clamp(builder: Builder, layer: LegacyLayer, minimum: float, maximum: float) -> Value:
    return builder.add_unary("Clamp", builder.to_float(layer.get_input()), {"min": minimum, "max": maximum})


@converts("Clamp")
def convert_clamp(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Clamp."""
    return _clamp(builder, layer, layer.get_float("min"), layer.get_float("max"))


@converts("ReLU6")
def convert_relu6(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Clamp between 0 and `n`."""
    return _clamp(builder, layer, 0.0, layer.get_float("n", default=6.0))


@converts("ELU")
def convert_elu(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Elu."""
    return builder.add_unary(
        "Elu", builder.to_float(layer.get_input()), {"alpha": layer.get_float("alpha", default=1.0)}
    )


@converts("GELU")
def convert_gelu(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Gelu-2."""
    return builder.add_unary("Gelu", builder.to_float(layer.get_input()), version="opset2")


def _apply_with_scalars(
    builder: Builder, layer: LegacyLayer, operation: str, version: str, *parameters: tuple[str, float]
) -> Value:
    """Apply an operation that takes attributes of the layer as scalar inputs; `parameters` holds names and defaults."""
    value = builder.to_float(layer.get_input())
    scalars = [builder.add_constant(layer.get_float(name, default=default), F32, name) for name, default in parameters]
    return builder.add_op(operation, [value, *scalars], shape=value.shape, version=version)


@converts("HardSigmoid")
def convert_hard_sigmoid(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to HardSigmoid."""
    return _apply_with_scalars(builder, layer, "HardSigmoid", "opset1", ("alpha", 0.2), ("beta", 0.5))


@converts("Selu")
def convert_selu(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Selu."""
    parameters = (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875))
    return _apply_with_scalars(builder, layer, "Selu", "opset1", *parameters)


@converts("Swish")
def convert_swish(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Swish; its coefficient is named `alpha` or `beta`."""
    beta = layer.get_float("beta", default=1.0)
    return _apply_with_scalars(builder, layer, "Swish", "opset4", ("alpha", beta))


@converts("Softsign")
def convert_softsign(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to operations that compute x / (1 + |x|)."""
    value = builder.to_float(layer.get_input())
    denominator = builder.add_binary("Add", builder.add_unary("Abs", value), builder.add_constant(1.0, F32, "one"))
    return builder.add_binary("Divide", value, denominator)


@converts("Reciprocal")
def convert_reciprocal(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a Power of -1."""
    value = builder.to_float(layer.get_input())
    return builder.add_binary("Power", value, builder.add_constant(-1.0, F32, "exponent"))


@converts("Square")
def convert_square(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to a Multiply of the input by itself."""
    value = builder.to_float(layer.get_input())
    return builder.add_binary("Multiply", value, value)


@converts("Round")
def convert_round(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Round."""
    mode = layer.get_text("mode", default="half_to_even")
    return builder.add_unary("Round", builder.to_float(layer.get_input()), {"mode": mode}, version="opset5")


@converts("Not", "LogicalNot")
def convert_logical_not(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to LogicalNot."""
    return builder.add_unary("LogicalNot", builder.convert(layer.get_input(), BOOLEAN))


@converts("Activation")
def convert_activation(builder: Builder, layer: LegacyLayer) -> Result:
    """Convert as a layer of the type that the attribute `type` names, regardless of case.

    Three names of the attribute are not types of layers: "bounded_relu", "soft_relu" and "linear".
    """
    kind = layer.get_text(next((name for name in layer.attributes if name.lower() == "type"), "type"))
    value = _convert_special_activation(builder, layer, kind.lower())
    if value is not None:
        return value
    conversion = CONVERSIONS.get(kind.lower())
    if conversion is None or conversion is convert_activation:
        layer.type = f"Activation:{kind}"
        return convert_unknown(builder, layer)
    return conversion(builder, layer)


def _convert_special_activation(builder: Builder, layer: LegacyLayer, kind: str) -> Value | None:
    """Convert an Activation with a `type` that is not a layer type; return None for any other."""
    if kind == "bounded_relu":
        return _clamp(builder, layer, 0.0, layer.get_float("alpha", default=0.0))
    if kind == "soft_relu":
        return builder.add_unary("SoftPlus", builder.to_float(layer.get_input()), version="opset4")
    if kind == "linear":
        alpha = builder.add_constant(layer.get_float("alpha", default=1.0), F32, "alpha")
        beta = builder.add_constant(layer.get_float("beta", default=0.0), F32, "beta")
        return builder.add_binary(
            "Add", builder.add_binary("Multiply", builder.to_float(layer.get_input()), alpha), beta
        )
    return None


@converts("Quantize", "FakeQuantize")
def convert_fake_quantize(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to FakeQuantize."""
    inputs = [builder.to_float(layer.get_input(i)) for i in range(5)]
    attributes = {"levels": layer.get_int("levels"), "auto_broadcast": "numpy"}
    return builder.add_op("FakeQuantize", inputs, attributes, shape=inputs[0].shape)


@converts("Power")
def convert_power(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to operations that compute (scale * x + shift) ** power, and omit operations without effect."""
    value = layer.get_input()
    scale, shift = layer.get_float("scale", default=1.0), layer.get_float("shift", default=0.0)
    power = layer.get_float("power", default=1.0)
    element_type = value.element_type
    # Integers stay integers if all parameters are integers too.
    if element_type is None or element_type.is_float or any(p != int(p) for p in (scale, shift, power)) or power < 0:
        value = builder.to_float(value)
        element_type = value.element_type or F32
    steps = (("Multiply", "scale", scale, 1.0), ("Add", "shift", shift, 0.0), ("Power", "power", power, 1.0))
    for operation, name, parameter, neutral in steps:
        if parameter != neutral:
            number = parameter if element_type.is_float else int(parameter)
            value = builder.add_binary(operation, value, builder.add_constant(number, element_type, name))
    return value


@converts("PowerFile")
def convert_power_file(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to an Add of the identity transform [1, 0, 0, 0, 1, 0] to every six elements.

    The transform was built into the legacy plugins.
    """
    value = builder.to_float(layer.get_input())
    shape = layer.get_input_shape()
    rows = builder.reshape(value, (math.prod(shape) // 6, 6))
    transform = builder.add_constant([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], F32, "map")
    return builder.reshape(builder.add_binary("Add", rows, transform), shape)
