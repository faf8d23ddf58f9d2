"""Elementwise layers of several inputs, and those with weights."""

from __future__ import annotations

import math
from functools import reduce

from irrun.ir.legacy.builder import Builder, broadcast, converts
from irrun.ir.legacy.layer import BOOLEAN, F32, LegacyLayer, Value

__all__ = ["COMPARISONS", "LOGICAL"]

ARITHMETIC = {
    "": "Add",
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
}
COMPARISONS = {
    "equal": "Equal",
    "not_equal": "NotEqual",
    "less": "Less",
    "less_equal": "LessEqual",
    "greater": "Greater",
    "greater_equal": "GreaterEqual",
}
LOGICAL = {"logical_and": "LogicalAnd", "logical_or": "LogicalOr", "logical_xor": "LogicalXor"}


#: Layers of late files of IR v7 that state the operation by their type.
TYPES = {
    "Add": "sum",
    "Sub": "sub",
    "Subtract": "sub",
    "Mul": "mul",
    "Multiply": "mul",
    "Div": "div",
    "Divide": "div",
    "Maximum": "max",
    "Minimum": "min",
    "SquaredDifference": "squared_diff",
    "FloorMod": "floor_mod",
    "Mod": "mod",
    "Pow": "pow",
    "Equal": "equal",
    "NotEqual": "not_equal",
    "Less": "less",
    "LessEqual": "less_equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
    "LogicalXor": "logical_xor",
}


@converts("Eltwise", *TYPES)
def eltwise(builder: Builder, layer: LegacyLayer) -> Value:
    """Two inputs or more, from left to right; `coeff` multiplies the terms of a sum.

    Truth values count as 1 and 0 in the type of the output. Quotients of integers are cut off towards zero, as
    the plugins did.
    """
    operation = TYPES.get(layer.kind) or layer.text("operation", default="sum").lower()
    if not layer.inputs:
        raise layer.error("has no inputs")
    if operation == "logical_not":
        return builder.unary("LogicalNot", builder.convert(layer.input(0), BOOLEAN))
    if operation in LOGICAL:
        values = [builder.convert(v, BOOLEAN) for v in layer.inputs]
        return reduce(lambda a, b: builder.binary(LOGICAL[operation], a, b), values)
    values = builder.same_type(layer.inputs)
    if operation in COMPARISONS:
        if len(values) != 2:
            raise layer.error(f"operation={operation} takes two inputs, found {len(values)}")
        return builder.binary(COMPARISONS[operation], *values, element=BOOLEAN)
    if operation not in ARITHMETIC:
        known = ", ".join([*filter(None, ARITHMETIC), *COMPARISONS, *LOGICAL, "logical_not"])
        raise layer.error(f"operation={operation!r}, expected one of {known}")
    coefficients = layer.numbers("coeff", default=[])
    if coefficients and operation in ("", "sum"):
        if len(coefficients) != len(values):
            raise layer.error(f"coeff has {len(coefficients)} entries, there are {len(values)} inputs")
        values = [
            v if c == 1 else builder.binary("Multiply", builder.floating(v), builder.constant(c, F32, "coeff"))
            for v, c in zip(values, coefficients, strict=True)
        ]
        values = builder.same_type(values)
    value = reduce(lambda a, b: builder.binary(ARITHMETIC[operation], a, b), values)
    if operation == "mean":
        count = builder.constant(float(len(values)), F32, "count")
        value = builder.binary("Divide", builder.floating(value), count)
    return value


def along_channels(builder: Builder, layer: LegacyLayer, blob: str) -> Value:
    """A blob with one number per channel, one for all, or one per element of a sample, ready to be broadcast."""
    shape = layer.in_shape()
    count = layer.blobs[blob].count if blob in layer.blobs else 0
    axis = 0 if len(shape) == 1 else 1
    if count == 1:
        return builder.blob(layer, blob, [1] * len(shape))
    if shape and count == shape[axis]:
        return builder.blob(layer, blob, [count if i == axis else 1 for i in range(len(shape))])
    if count == math.prod(shape[1:]):
        return builder.blob(layer, blob, (1, *shape[1:]))
    channels = shape[axis] if shape else 1
    if blob not in layer.blobs:
        raise layer.error(f"needs the blob {blob}")
    raise layer.error(f"the blob {blob} has {count} numbers, the input {channels} channels")


@converts("ScaleShift")
def scale_shift(builder: Builder, layer: LegacyLayer) -> Value:
    """weights * x + biases, per channel or for all; in IR v7 they may be inputs."""
    value = builder.floating(layer.input(0))
    rank = len(layer.in_shape())
    for type, blob, position in (("Multiply", "weights", 1), ("Add", "biases", 2)):
        if blob in layer.blobs:
            value = builder.binary(type, value, along_channels(builder, layer, blob))
        elif len(layer.inputs) > position:
            operand = builder.floating(layer.inputs[position])
            shape = operand.shape or ()
            if len(shape) == 1 and rank > 1 and shape[0] != 1:
                operand = builder.reshape(operand, (1, shape[0], *[1] * (rank - 2)))
            value = builder.binary(type, value, operand)
    return value


@converts("Select")
def select(builder: Builder, layer: LegacyLayer) -> Value:
    condition = builder.convert(layer.input(0), BOOLEAN)
    chosen, other = builder.same_type([layer.input(1), layer.input(2)])
    shape = broadcast(condition.shape, chosen.shape, other.shape)
    attributes = {"auto_broadcast": "numpy"}
    return builder.op("Select", [condition, chosen, other], attributes, shape=shape, element=chosen.type)
