"""Elementwise layers with several inputs, and layers that scale and shift channels."""

from __future__ import annotations

from functools import reduce

from irrun.ir.legacy.blobs import get_channel_blob
from irrun.ir.legacy.builder import Builder, broadcast_shapes, converts
from irrun.ir.legacy.layer import BOOLEAN, F32, LegacyLayer, Value

__all__ = ["TYPES"]

#: The values of `operation` that compute numbers, and their operations.
_ARITHMETIC = {
    "sum": "Add",
    "sub": "Subtract",
    "mul": "Multiply",
    "prod": "Multiply",
    "div": "Divide",
    "max": "Maximum",
    "min": "Minimum",
    "squared_diff": "SquaredDifference",
    "floor_mod": "FloorMod",
    "mod": "Mod",
    "pow": "Power",
    "mean": "Add",
    "": "Add",
}

_COMPARISONS = {
    "equal": "Equal",
    "not_equal": "NotEqual",
    "less": "Less",
    "less_equal": "LessEqual",
    "greater": "Greater",
    "greater_equal": "GreaterEqual",
}

_LOGICAL = {"logical_and": "LogicalAnd", "logical_or": "LogicalOr", "logical_xor": "LogicalXor"}

#: The layer types of late IR v7 -> the value of the attribute `operation` that they replace. "Power" is another layer.
TYPES = {name: operation for operation, name in reversed({**_ARITHMETIC, **_COMPARISONS, **_LOGICAL}.items())}
TYPES |= {"Sub": "sub", "Mul": "mul", "Div": "div", "Pow": TYPES.pop("Power")}


@converts("Eltwise", *TYPES)
def convert_eltwise(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to binary operations that combine two or more inputs from left to right.

    `coeff` multiplies the terms of a sum. Booleans count as 1 and 0 in the type of the output. Integer division
    truncates towards zero, as the legacy plugins did.
    """
    operation = TYPES.get(layer.type) or layer.get_text("operation", default="sum").lower()
    if not layer.inputs:
        raise layer.make_error("has no inputs")
    if operation == "logical_not":
        return builder.add_unary("LogicalNot", builder.convert(layer.get_input(), BOOLEAN))
    if operation in _LOGICAL:
        values = [builder.convert(value, BOOLEAN) for value in layer.inputs]
        return reduce(lambda a, b: builder.add_binary(_LOGICAL[operation], a, b), values)
    values = builder.unify_types(layer.inputs)
    if operation in _COMPARISONS:
        if len(values) != 2:
            raise layer.make_error(f"operation={operation} requires two inputs, found {len(values)}")
        return builder.add_binary(_COMPARISONS[operation], *values, element_type=BOOLEAN)
    if operation not in _ARITHMETIC:
        known = ", ".join([*filter(None, _ARITHMETIC), *_COMPARISONS, *_LOGICAL, "logical_not"])
        raise layer.make_error(f"operation is {operation!r}, expected one of {known}")
    if operation in ("", "sum"):
        values = _apply_coefficients(builder, layer, values)
    value = reduce(lambda a, b: builder.add_binary(_ARITHMETIC[operation], a, b), values)
    if operation == "mean":
        count = builder.add_constant(float(len(values)), F32, "count")
        value = builder.add_binary("Divide", builder.to_float(value), count)
    return value


def _apply_coefficients(builder: Builder, layer: LegacyLayer, values: list[Value]) -> list[Value]:
    """Multiply the terms of a sum by `coeff`."""
    coefficients = layer.get_floats("coeff", default=[])
    if not coefficients:
        return values
    if len(coefficients) != len(values):
        raise layer.make_error(f"coeff has {len(coefficients)} entries, expected one for each of {len(values)} inputs")
    terms = [
        v if c == 1 else builder.add_binary("Multiply", builder.to_float(v), builder.add_constant(c, F32, "coeff"))
        for v, c in zip(values, coefficients, strict=True)
    ]
    return builder.unify_types(terms)


@converts("ScaleShift")
def convert_scale_shift(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Multiply by the weights and Add of the biases.

    Both are blobs, or inputs in IR v7, with one number per channel or a single number.
    """
    value = builder.to_float(layer.get_input())
    rank = len(layer.get_input_shape())
    for operation, blob, position in (("Multiply", "weights", 1), ("Add", "biases", 2)):
        if blob in layer.blobs:
            value = builder.add_binary(operation, value, get_channel_blob(builder, layer, blob))
        elif len(layer.inputs) > position:
            operand = builder.to_float(layer.inputs[position])
            shape = operand.shape or ()
            if len(shape) == 1:
                operand = builder.reshape(operand, (*shape, *[1] * (rank - 2)))
            value = builder.add_binary(operation, value, operand)
    return value


@converts("Select")
def convert_select(builder: Builder, layer: LegacyLayer) -> Value:
    """Convert to Select."""
    condition = builder.convert(layer.get_input(), BOOLEAN)
    then_value, else_value = builder.unify_types([layer.get_input(1), layer.get_input(2)])
    shape = broadcast_shapes(condition.shape, then_value.shape, else_value.shape)
    attributes = {"auto_broadcast": "numpy"}
    inputs = [condition, then_value, else_value]
    return builder.add_op("Select", inputs, attributes, shape=shape, element_type=then_value.element_type)
