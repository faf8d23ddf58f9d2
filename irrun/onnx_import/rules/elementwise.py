"""Rules for elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import ModelError
from irrun.onnx_import.graph import Value, cast, check_axis, constant, op
from irrun.onnx_import.node import Node, Rule, translate
from irrun.onnx_import.rules.helpers import get_lengths, reshape, scalar, shape_of, where

#: Operators of one input with a matching operation.
_UNARY = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "BitwiseNot": "BitwiseNot",
    "Ceil": "Ceiling",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "HardSwish": "HSwish",
    "IsNaN": "IsNaN",
    "Log": "Log",
    "Mish": "Mish",
    "Neg": "Negative",
    "Not": "LogicalNot",
    "Relu": "Relu",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Softplus": "SoftPlus",
    "Softsign": "SoftSign",
    "Sqrt": "Sqrt",
    "Tan": "Tan",
    "Tanh": "Tanh",
}

#: Operators of two inputs with a matching operation.
_BINARY = {
    "Add": "Add",
    "And": "LogicalAnd",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterOrEqual": "GreaterEqual",
    "Less": "Less",
    "LessOrEqual": "LessEqual",
    "Mul": "Multiply",
    "Or": "LogicalOr",
    "Sub": "Subtract",
    "Xor": "LogicalXor",
}


def _make_unary(operation: str) -> Rule:
    return lambda node: op(operation, node[0])


def _make_binary(operation: str) -> Rule:
    return lambda node: op(operation, *align(node))


for _operator, _operation in _UNARY.items():
    translate(_operator)(_make_unary(_operation))
for _operator, _operation in _BINARY.items():
    translate(_operator)(_make_binary(_operation))


def align(node: Node) -> tuple[Value, Value]:
    """Return both inputs of an operator, ready for NumPy's broadcasting; opsets below 7 have an axis attribute."""
    a, b = node[0], node[1]
    if node.version < 7 and node.get_int("broadcast", 0) and node.has("axis"):
        axis = node.get_axis("axis", None, a.get_rank())
        missing = a.get_rank() - axis - b.get_rank()
        b = reshape(b, [*[0] * b.get_rank(), *[1] * missing])
    return a, b


@translate("Identity")
def translate_identity(node: Node) -> list[Value | list[Value] | None]:
    """Return the value itself."""
    return node.items[:1]


@translate("Div")
def translate_div(node: Node) -> Value:
    """Division, of integers toward zero."""
    return op("Divide", *align(node), m_pythondiv=False)


@translate("Pow")
def translate_pow(node: Node) -> Value:
    """Power, in the type of the base."""
    a, b = align(node)
    if a.type is b.type:
        return op("Power", a, b)
    if a.type.is_integer and b.type.is_float:
        return cast(op("Power", cast(a, b.type), b), a.type)
    return op("Power", a, cast(b, a.type))


@translate("Mod")
def translate_mod(node: Node) -> Value:
    """Return the remainder, with the sign of the dividend for fmod, else of the divisor."""
    return op("Mod" if node.get_int("fmod", 0) else "FloorMod", node[0], node[1])


def _fold_left(operation: str) -> Callable[[Node], Value]:
    def rule(node: Node) -> Value:
        return reduce(lambda a, b: op(operation, a, b), node.inputs)

    return rule


translate("Max")(_fold_left("Maximum"))
translate("Min")(_fold_left("Minimum"))
translate("Sum")(_fold_left("Add"))


@translate("Mean")
def translate_mean(node: Node) -> Value:
    """Return the mean of all inputs."""
    return reduce(lambda a, b: a + b, node.inputs) / len(node)


@translate("BitShift")
def translate_bit_shift(node: Node) -> Value:
    """Shifts."""
    direction = node.get_text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise ModelError(f"the attribute direction is {direction!r}, expected LEFT or RIGHT")
    return op(f"Bitwise{direction.capitalize()}Shift", node[0], node[1])


@translate("Where")
def translate_where(node: Node) -> Value:
    """Select."""
    return where(node[0], node[1], node[2])


@translate("Reciprocal")
def translate_reciprocal(node: Node) -> Value:
    """1 / x."""
    return 1.0 / node[0]


@translate("Round")
def translate_round(node: Node) -> Value:
    """Round half to even."""
    return op("Round", node[0], mode="half_to_even")


@translate("IsInf")
def translate_is_inf(node: Node) -> Value:
    """IsInf."""
    return op(
        "IsInf",
        node[0],
        detect_negative=bool(node.get_int("detect_negative", 1)),
        detect_positive=bool(node.get_int("detect_positive", 1)),
    )


@translate("Clip")
def translate_clip(node: Node) -> Value:
    """Maximum and minimum; Clamp for constants."""
    x = node[0]
    low, high = node.get(1), node.get(2)
    if node.has("min"):
        low = scalar(node.get_float("min"), x)
    if node.has("max"):
        high = scalar(node.get_float("max"), x)
    bounds = [None if v is None or not v.is_constant else v.read() for v in (low, high)]
    if x.type.name in ("f32", "f16") and all(b is not None and b.size == 1 and np.isfinite(b) for b in bounds):
        minimum, maximum = (float(b.reshape(-1)[0]) for b in bounds if b is not None)
        if minimum <= maximum:
            return op("Clamp", x, min=minimum, max=maximum)
    if low is not None:
        x = op("Maximum", x, low)
    return x if high is None else op("Minimum", x, high)


@translate("Elu")
def translate_elu(node: Node) -> Value:
    """Elu."""
    return op("Elu", node[0], alpha=node.get_float("alpha", 1.0))


@translate("Celu")
def translate_celu(node: Node) -> Value:
    """Elu of x / alpha, times alpha."""
    alpha = node.get_float("alpha", 1.0)
    return op("Elu", node[0] / alpha, alpha=1.0) * alpha


@translate("Selu")
def translate_selu(node: Node) -> Value:
    """Selu."""
    x = node[0]
    alpha = node.get_float("alpha", 1.67326319217681884765625 if node.version >= 6 else 1.6732)
    gamma = node.get_float("gamma", 1.05070102214813232421875 if node.version >= 6 else 1.0507)
    return op("Selu", x, scalar(alpha, x), scalar(gamma, x))


@translate("LeakyRelu")
def translate_leaky_relu(node: Node) -> Value:
    """PRelu of a constant slope."""
    x = node[0]
    return op("PRelu", x, constant([node.get_float("alpha", 0.01)], x.type))


@translate("PRelu")
def translate_prelu(node: Node) -> Value:
    """PRelu for slopes of channels, else Select."""
    x, slope = node[0], node[1]
    shape = slope.get_static_shape()
    if shape is not None and x.rank is not None and x.type.is_float:
        is_single = set(shape) <= {1} and x.rank > 0
        is_channels = len(shape) == x.rank - 1 and shape.count(1) == len(shape) - 1 and shape[0] != 1
        if is_single or is_channels or (node.version < 7 and len(shape) == 1):
            return op("PRelu", x, reshape(slope, [-1]))
    return where(x < 0, x * slope, x)


@translate("ThresholdedRelu")
def translate_thresholded_relu(node: Node) -> Value:
    """X where it is greater than alpha, else 0."""
    return where(node[0] > node.get_float("alpha", 1.0), node[0], 0)


@translate("HardSigmoid")
def translate_hard_sigmoid(node: Node) -> Value:
    """HardSigmoid."""
    x = node[0]
    return op("HardSigmoid", x, scalar(node.get_float("alpha", 0.2), x), scalar(node.get_float("beta", 0.5), x))


@translate("Shrink")
def translate_shrink(node: Node) -> Value:
    """X - bias above lambd, x + bias below -lambd, else 0."""
    x, threshold, bias = node[0], node.get_float("lambd", 0.5), node.get_float("bias", 0.0)
    return where(x < constant(-threshold, x.type), x + scalar(bias, x), where(x > threshold, x - scalar(bias, x), 0))


@translate("Gelu")
@translate("Gelu", domain="com.microsoft")
def translate_gelu(node: Node) -> Value:
    """Gelu."""
    mode = "tanh" if node.get_text("approximate", "none") == "tanh" else "erf"
    return op("Gelu", node[0], approximation_mode=mode)


@translate("Swish")
def translate_swish(node: Node) -> Value:
    """Swish."""
    x = node[0]
    return op("Swish", x, scalar(node.get_float("alpha", 1.0), x))


@translate("QuickGelu", domain="com.microsoft")
def translate_quick_gelu(node: Node) -> Value:
    """Swish with another factor."""
    x = node[0]
    return op("Swish", x, scalar(node.get_float("alpha", 1.702), x))


@translate("FastGelu", domain="com.microsoft")
def translate_fast_gelu(node: Node) -> Value:
    """Gelu by tanh, after an optional bias."""
    bias = node.get(1)
    return op("Gelu", node[0] if bias is None else node[0] + bias, approximation_mode="tanh")


@translate("BiasGelu", domain="com.microsoft")
def translate_bias_gelu(node: Node) -> Value:
    """Gelu after a bias."""
    return op("Gelu", node[0] + node[1], approximation_mode="erf")


@translate("Softmax", "LogSoftmax")
def translate_softmax(node: Node) -> Value:
    """Softmax and LogSoftmax; before opset 13 over all axes from `axis` on."""
    x = node[0]
    if node.version >= 13:
        return op(node.type, x, axis=node.get_int("axis", -1))
    shape, flat = shape_of(x), flatten(x, node.get_axis("axis", 1, x.get_rank()))
    return op("Reshape", op(node.type, flat, axis=1), shape, special_zero=False)


def flatten(x: Value, axis: int) -> Value:
    """Return a value as a matrix, with the axes before `axis` as rows."""
    rank = x.get_rank()
    axis = rank if axis == rank else check_axis(axis, rank)
    shape = x.get_static_shape()
    if shape is not None:
        lengths = [int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis:], dtype=np.int64))]
        return op("Reshape", x, constant(lengths), special_zero=False)
    if axis == 0:
        return op("Reshape", x, constant([1, -1]), special_zero=False)
    if axis == 1 < rank:
        return reshape(x, [0, -1])
    head = op("ReduceProd", get_lengths(x, *range(axis)), constant([0]), keep_dims=True)
    return op("Reshape", x, op("Concat", head, constant([-1]), axis=0), special_zero=False)


@translate("Flatten")
def translate_flatten(node: Node) -> Value:
    """Reshape to a matrix."""
    return flatten(node[0], node.get_int("axis", 1))


@translate("Cast")
def translate_cast(node: Node) -> Value:
    """Convert."""
    if isinstance(node.attributes.get("to"), str):  # before opset 6
        import onnx

        return cast(node[0], _get_type(onnx.TensorProto.DataType.Value(node.get_text("to"))))
    return cast_value(node, node.get_type("to").name)


def _get_type(number: int) -> str:
    from irrun.onnx_import.types import get_element_type

    return get_element_type(number).name


@translate("CastLike")
def translate_cast_like(node: Node) -> Value:
    """Convert to the type of the second input."""
    return cast_value(node, node[1].type.name)


#: The largest numbers of types with saturating conversion.
_LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0}


def cast_value(node: Node, target: str) -> Value:
    """Convert the first input to another type, limited to its range if the attribute `saturate` is set."""
    x = node[0]
    if target == x.type.name:
        return x
    if "string" in (target, x.type.name):
        raise node.refuse(f"conversion from {x.type} to {target}")
    if target == "boolean":
        return (
            op("NotEqual", x, constant(0, x.type))
            if x.type.bits >= 8 and not x.type.name.startswith("f8")
            else cast(x, target)
        )
    limit = _LARGEST.get(target)
    if limit is not None and x.type.is_float and node.get_int("saturate", 1):
        wide = cast(x, "f32") if x.type.bits < 16 else x
        if limit <= 65504:
            # Clamp would replace NaN.
            wide = where(wide > limit, limit, where(wide < constant(-limit, wide.type), -limit, wide))
        x = wide
    return cast(x, ELEMENT_TYPES[target])


@translate("Hardmax")
def translate_hardmax(node: Node) -> Value:
    """OneHot of the index of the first maximum."""
    x = node[0]
    if node.version < 13:
        shape, x = shape_of(x), flatten(x, node.get_axis("axis", 1, x.get_rank()))
        return op("Reshape", _hardmax(x, 1), shape, special_zero=False)
    return _hardmax(x, node.get_axis("axis", -1, x.get_rank()))


def _hardmax(x: Value, axis: int) -> Value:
    depth = reshape(get_lengths(x, axis), constant(np.zeros(0, np.int64)))
    from irrun.onnx_import.rules.selection import find_extreme

    index = find_extreme(x, axis, "max", keep=False, last=False)
    return op("OneHot", index, depth, constant(1, x.type), constant(0, x.type), axis=axis)


@translate("Dropout")
def translate_dropout(node: Node) -> list[Value | None]:
    """Return the value itself, as in inference."""
    x = node[0]
    training = node.get(2)
    if training is not None:
        mode = node.read(2)
        ratio = node.read(1) if node.get(1) is not None else np.array(0.5)
        assert mode is not None
        assert ratio is not None
        if bool(mode) and float(ratio) != 0:
            raise node.refuse("training_mode of Dropout with a ratio other than 0")
    mask = None
    if node.has_output(1):
        kind = "boolean" if node.version >= 10 else x.type.name
        mask = op("Broadcast", constant(True if kind == "boolean" else 1, kind), shape_of(x), mode="numpy")
    return [x, mask]
