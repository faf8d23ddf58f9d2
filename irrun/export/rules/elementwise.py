"""Export of elementwise operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import ONNX_TYPES, Value, cast, constant, get_graph, op
from irrun.export.rules.helpers import align, gather, logical_or, reshape, scalar_like, where
from irrun.export.site import RULES, Site, exports, round_to
from irrun.ops._support.conversion import convert as convert_array
from irrun.ops._support.numerics import Array
from irrun.shapes import PartialShape

#: Unary operations in ONNX -> the treatment of results for integers.
UNARY = {
    "Abs-1": ("Abs", "exact"),
    "Negative-1": ("Neg", "exact"),
    "Sign-1": ("Sign", "exact"),
    "Ceiling-1": ("Ceil", "floats"),
    "Floor-1": ("Floor", "floats"),
    "Relu-1": ("Relu", "exact"),
    "Acos-1": ("Acos", "round"),
    "Acosh-4": ("Acosh", "round"),
    "Asin-1": ("Asin", "truncate"),
    "Asinh-4": ("Asinh", "round"),
    "Atan-1": ("Atan", "round"),
    "Atanh-4": ("Atanh", "limits"),
    "Cos-1": ("Cos", "round"),
    "Cosh-1": ("Cosh", "round"),
    "Sin-1": ("Sin", "truncate"),
    "Sinh-1": ("Sinh", "round"),
    "Tan-1": ("Tan", "round"),
    "Tanh-1": ("Tanh", "round"),
    "Sqrt-1": ("Sqrt", "round"),
    "Log-1": ("Log", "truncate"),
    "Exp-1": ("Exp", "truncate"),
    "Erf-1": ("Erf", "round"),
    "SoftPlus-4": ("Softplus", "round"),
    "SoftSign-9": ("Softsign", "round"),
    "LogicalNot-1": ("Not", "boolean"),
    "IsNaN-10": ("IsNaN", "exact"),
}

#: Binary operations in ONNX.
BINARY = {
    "Add-1": "Add",
    "Subtract-1": "Sub",
    "Maximum-1": "Max",
    "Minimum-1": "Min",
    "Equal-1": "Equal",
    "Less-1": "Less",
    "LessEqual-1": "LessOrEqual",
    "Greater-1": "Greater",
    "GreaterEqual-1": "GreaterOrEqual",
    "BitwiseAnd-13": "BitwiseAnd",
    "BitwiseOr-13": "BitwiseOr",
    "BitwiseXor-13": "BitwiseXor",
    "LogicalAnd-1": "And",
    "LogicalOr-1": "Or",
    "LogicalXor-1": "Xor",
    "Xor-1": "Xor",
}

#: Logical operations on booleans that ONNX has for integers only.
BOOLEAN = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}


def _export_unary(operation: str, integers: str, site: Site) -> Value:
    data = site[0]
    if operation == "Sign" and data.type.name == "f16":  # onnxruntime's kernel returns 0 for NaN
        return cast(op(operation, cast(data, "f32")), "f16")
    if integers == "exact" or data.type.is_float:
        return op(operation, data)
    if integers == "floats":
        return op("Identity", data)
    if integers == "boolean":
        return cast(op(operation, cast(data, "boolean")), data.type)
    if integers == "limits":  # the results are 0 and the infinities
        lowest, greatest = get_limits(data.type)
        sign = cast(op("Sign", data), "i64")
        return where(
            op("Equal", sign, 0), 0, where(sign < 0, constant(lowest, data.type), constant(greatest, data.type))
        )
    result = op(operation, cast(data, "f32" if operation == "Erf" else "f64"))
    return round_to(result, data.type) if integers == "round" else cast(result, data.type)


def _export_binary(operation: str, site: Site) -> Value:
    a, b = align(site)
    if operation in ("And", "Or", "Xor"):
        a, b = cast(a, "boolean"), cast(b, "boolean")
    elif a.type.kind == "boolean":
        if operation in BOOLEAN:
            return op(BOOLEAN[operation], a, b)
        if operation in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
            a, b = cast(a, "i32"), cast(b, "i32")
    elif a.type.name in ("u64",) and operation in ("Max", "Min"):
        return op("Where", op("Greater" if operation == "Max" else "Less", a, b), a, b)
    return op(operation, a, b)


for _name, (_operation, _integers) in UNARY.items():
    RULES[_name] = partial(_export_unary, _operation, _integers)
for _name, _operation in BINARY.items():
    RULES[_name] = partial(_export_binary, _operation)


@exports("NotEqual-1")
def export_not_equal(site: Site) -> Value:
    """Export NotEqual as a negated Equal."""
    return ~op("Equal", *align(site))


@exports("Divide-1")
def export_divide(site: Site) -> Value:
    """Export Divide. Quotients of integers are rounded down by default."""
    a, b = align(site)
    if a.type.is_float:
        return a / b
    quotient = a / b
    if a.type.kind == "uint" or not site.m_pythondiv:
        return quotient
    remainder = a - quotient * b
    is_lower = ~op("Equal", remainder, 0) & op("Xor", remainder < 0, b < 0)
    return quotient - cast(is_lower, a.type)


@exports("Mod-1")
def export_mod(site: Site) -> Value:
    """Export Mod. The result has the sign of the dividend."""
    a, b = align(site)
    return op("Mod", a, b, fmod=1)


@exports("FloorMod-1", compute="f32")
def export_floor_mod(site: Site) -> Value:
    """Export FloorMod. The result has the sign of the divisor."""
    a, b = align(site)
    if not a.type.is_float:
        return op("Mod", a, b)
    remainder = op("Mod", a, b, fmod=1)
    is_other = ~op("Equal", remainder, 0.0) & op("Xor", remainder < 0.0, b < 0.0)
    result = where(is_other, remainder + b, remainder)
    return where(op("IsInf", b), math.nan, result)


@exports("Power-1")
def export_power(site: Site) -> Value:
    """Export Power. Powers of integers are computed in f64 and truncated."""
    a, b = align(site)
    if a.type.is_float:
        return op("Pow", a, b)
    return cast(op("Pow", cast(a, "f64"), cast(b, "f64")), a.type)


@exports("SquaredDifference-1", compute="f32")
def export_squared_difference(site: Site) -> Value:
    """Export SquaredDifference."""
    a, b = align(site)
    difference = a - b
    return difference * difference


@exports("Select-1")
def export_select(site: Site) -> Value:
    """Export Select."""
    condition, then, other = site[0], site[1], site[2]
    if site.auto_broadcast == "pdpd":
        shapes = Site(site.layer, [then, other], site.attributes)
        _, other = align(shapes)
        _, condition = align(Site(site.layer, [then, condition], site.attributes))
    return where(cast(condition, "boolean"), then, other)


@exports("BitwiseNot-13")
def export_bitwise_not(site: Site) -> Value:
    """Export BitwiseNot."""
    return ~site[0] if site[0].type.kind == "boolean" else op("BitwiseNot", site[0])


@exports("BitwiseLeftShift-15")
def export_left_shift(site: Site) -> Value:
    """Export BitwiseLeftShift, which ONNX has for unsigned integers."""
    a, b = align(site)
    wide = ELEMENT_TYPES["u64"]
    return cast(op("BitShift", cast(cast(a, "i64"), wide), cast(b, wide), direction="LEFT"), a.type)


@exports("BitwiseRightShift-15")
def export_right_shift(site: Site) -> Value:
    """Export BitwiseRightShift: negative integers are shifted as their complement."""
    a, b = align(site)
    if a.type.kind == "uint":
        return cast(op("BitShift", cast(a, "u64"), cast(b, "u64"), direction="RIGHT"), a.type)
    wide = cast(a, "i64")
    is_negative = wide < 0
    bits = where(is_negative, op("BitwiseNot", wide), wide)
    shifted = cast(op("BitShift", cast(bits, "u64"), cast(b, "u64"), direction="RIGHT"), "i64")
    return cast(where(is_negative, op("BitwiseNot", shifted), shifted), a.type)


@exports("IsInf-10", compute="f32")
def export_is_inf(site: Site) -> Value:
    """Export IsInf."""
    if not (site.detect_negative or site.detect_positive):
        return op("And", op("IsNaN", site[0]), constant(False))
    return op("IsInf", site[0], detect_negative=int(site.detect_negative), detect_positive=int(site.detect_positive))


@exports("IsFinite-10", compute="f32")
def export_is_finite(site: Site) -> Value:
    """Export IsFinite."""
    return ~logical_or(op("IsInf", site[0]), op("IsNaN", site[0]))


@exports("Round-5")
def export_round(site: Site) -> Value:
    """Export Round."""
    data = site[0]
    if not data.type.is_float:
        return op("Identity", data)
    if site.mode == "half_to_even":
        return op("Round", data)
    magnitude = op("Abs", data)
    floor = op("Floor", magnitude)
    up = cast(magnitude - floor >= 0.5, data.type)
    return op("Sign", data) * (floor + up)


@exports("PRelu-1")
def export_prelu(site: Site) -> Value:
    """Export PRelu: the slope has one value per channel, or broadcasts."""
    data, slope = site[0], site[1]
    rank, shape = site.get_rank(0), site.get_shape(0)
    axis = 1 if rank > 1 else 0
    slopes = site.get_shape(1)
    is_own = slopes[:1] == [shape[axis]] if rank and shape[axis] else slopes[:1] not in ([1], shape[-1:])
    if rank and len(slopes) == 1 and is_own:
        slope = reshape(slope, [-1, *[1] * (rank - axis - 1)])
    elif len(slopes) > rank:
        slope = reshape(slope, [0 if d is None else d for d in slopes[len(slopes) - rank :]])
    if data.type.is_float or data.type.name in ("i32", "i64", "u32", "u64"):
        return op("PRelu", data, slope)
    zero = scalar_like(data, 0)
    return where(data < zero, data * slope, data)


@exports("Clamp-1")
def export_clamp(site: Site) -> Value:
    """Export Clamp."""
    data, low, high = site[0], float(site.min), float(site.max)
    if low > high:
        raise UnsupportedError(f"min {low} is greater than max {high}")
    if not data.type.is_float:
        low, high = _round_limits(data.type, low, high)
        low, high = int(low), int(high)
    else:
        wide = data.type.dtype if data.type.bits >= 16 else np.float32
        with np.errstate(all="ignore"):
            low, high = float(np.asarray(low, wide)), float(np.asarray(high, wide))
    return op("Clip", data, scalar_like(data, low), scalar_like(data, high))


def get_limits(element_type: ElementType) -> tuple[int, int]:
    """Return the lowest and the greatest integer of a type."""
    lowest = -(1 << element_type.bits - 1) if element_type.kind == "int" else 0
    return lowest, lowest + (1 << element_type.bits) - 1


def _round_limits(element_type: ElementType, low: float, high: float) -> tuple[int, int]:
    lowest, greatest = get_limits(element_type)
    return math.ceil(min(max(low, lowest), greatest)), math.floor(min(max(high, lowest), greatest))


def _in_floats(function: Callable[[Value], Value], data: Value, *, truncate: bool = False) -> Value:
    """Apply a function of floats, also to integers."""
    if data.type.is_float:
        return function(data)
    result = function(cast(data, "f64"))
    return cast(result, data.type) if truncate else round_to(result, data.type)


@exports("Elu-1", compute="f32")
def export_elu(site: Site) -> Value:
    """Export Elu, which onnxruntime supports for f32."""
    return _in_floats(lambda x: op("Elu", x, alpha=float(site.alpha)), site[0], truncate=True)


@exports("Selu-1", compute="f32")
def export_selu(site: Site) -> Value:
    """Export Selu."""
    alpha, scale = site.get(1), site.get(2)
    if alpha is None or scale is None:
        raise UnsupportedError("alpha or lambda is not connected")

    def selu(x: Value) -> Value:
        low = op("Min", x, scalar_like(x, 0.0))
        return cast(flat(scale), x.type) * (op("Relu", x) + cast(flat(alpha), x.type) * (op("Exp", low) - 1.0))

    def flat(value: Value) -> Value:
        return reshape(value, [1]) if value.rank != 0 else value

    return _match(_in_floats(selu, site[0]), site)


def _match(value: Value, site: Site) -> Value:
    """Restore the shape of a scalar that was computed with values of one element."""
    return reshape(value, []) if site[0].rank == 0 else value


@exports("Gelu-2", "Gelu-7", compute="f32")
def export_gelu(site: Site) -> Value:
    """Export Gelu, which ONNX has since opset 20."""
    data, is_tanh = site[0], site.attributes.get("approximation_mode", "ERF") == "TANH"
    if get_graph().opset >= 20 and data.type.name == "f32":
        return op("Gelu", data, approximate="tanh" if is_tanh else "none")
    if is_tanh:
        z = (data + data * data * data * 0.044715) * math.sqrt(2 / math.pi)
        return data * 0.5 * (op("Tanh", z) + 1.0)
    return data * 0.5 * (op("Erf", data * math.sqrt(0.5)) + 1.0)


@exports("Sigmoid-1")
def export_sigmoid(site: Site) -> Value:
    """Export Sigmoid. Its results for integers are 0 and 1."""
    data = site[0]
    if data.type.is_float:
        return op("Sigmoid", data)
    signed = cast(data, f"i{data.type.bits}") if data.type.kind == "uint" else data
    return cast(signed > 0, data.type)


@exports("Swish-4", "SwishCPU-cpu_plugin_opset", compute="f32")
def export_swish(site: Site) -> Value:
    """Export Swish."""
    data, beta = site[0], site.get(1)
    factor = site.attributes.get("alpha", 1.0)
    if beta is not None:
        scaled = data * cast(reshape(beta, []), data.type)
    else:
        scaled = data if factor == 1.0 else data * factor
    return data * op("Sigmoid", scaled)


@exports("Mish-4", compute="f32")
def export_mish(site: Site) -> Value:
    """Export Mish."""
    return site[0] * op("Tanh", op("Softplus", site[0]))


@exports("HSigmoid-5", compute="f32")
def export_hsigmoid(site: Site) -> Value:
    """Export HSigmoid."""
    data = site[0]
    return op("Clip", data + 3.0, scalar_like(data, 0.0), scalar_like(data, 6.0)) / 6.0


@exports("HSwish-4", compute="f32")
def export_hswish(site: Site) -> Value:
    """Export HSwish."""
    data = site[0]
    return data * op("Clip", data + 3.0, scalar_like(data, 0.0), scalar_like(data, 6.0)) / 6.0


@exports("HardSigmoid-1", compute="f32")
def export_hard_sigmoid(site: Site) -> Value:
    """Export HardSigmoid. NaN becomes 1."""
    data = site[0]
    alpha, beta = (cast(reshape(site[i], []), data.type) for i in (1, 2))
    line = data * alpha + beta
    clipped = op("Clip", line, scalar_like(data, 0.0), scalar_like(data, 1.0))
    return where(op("IsNaN", line), 1.0, clipped)


@exports("ErfInv-17", compute="f32")
def export_erf_inv(site: Site) -> Value:
    """Export ErfInv: an approximation, refined by two Newton steps in f64."""
    data = site[0]
    x = cast(data, "f64")
    inside = op("Clip", x, scalar_like(x, -1 + 1e-15), scalar_like(x, 1 - 1e-15))
    w = -op("Log", (1.0 - inside) * (1.0 + inside))
    center, tail = w - 2.5, op("Sqrt", w) - 3.0
    low = _evaluate(
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
         -0.00417768164, 0.246640727, 1.50140941], center)  # fmt: skip
    high = _evaluate(
        [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
         0.00943887047, 1.00167406, 2.83297682], tail)  # fmt: skip
    result = where(w < 5.0, low, high) * inside
    magnitude = op("Abs", x)
    result = where(op("Equal", magnitude, 1.0), x * math.inf, result)
    return cast(where(magnitude > 1.0, math.nan, result), data.type)


def _evaluate(coefficients: list[float], x: Value) -> Value:
    """Evaluate a polynomial; the coefficient of the highest power is the first."""
    result: Value = constant(coefficients[0], x.type)
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


@exports("Convert-1")
def export_convert(site: Site) -> Value:
    """Export Convert. Constants of types that ONNX does not have become indices into a table of values."""
    data, target = site[0], site.destination_type
    if data.type.name not in ONNX_TYPES and data.array is not None and target.is_float:
        return _look_up(data.array, data.type, target)
    return _widen_decompression(data, target) or convert(data, target)


def _look_up(array: Array, source: ElementType, target: ElementType) -> Value:
    """Return constant codes of 8 bits or less, converted to a float."""
    codes = np.arange(1 << source.bits, dtype=np.uint8)
    wide = target if target.bits > 32 else ELEMENT_TYPES["f32"]  # rounded after the scaling, if at all
    table = constant(convert_array(codes.view(array.dtype), wide), wide)
    kind = "u4" if source.bits <= 4 and get_graph().opset >= 21 else "u8"
    stored = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
    result = gather(table, cast(constant(stored, kind), "i32"))
    result.shape = PartialShape(array.shape)
    return cast(result, target)


def _widen_decompression(data: Value, target: ElementType) -> Value | None:
    """Return weights decompressed directly in f32, instead of in f16 and then converted."""
    is_narrow = data.type.name == "f16" and target.name == "f32"
    return _widen(data, target) if is_narrow and data.is_derived else None


def _widen(value: Value, target: ElementType) -> Value | None:
    """Return a value computed in a wider type; None if a step does not belong to decompression."""
    node = value.node
    if node is None:
        return cast(value, target)
    first = node.inputs[0]
    assert first is not None
    if node.type == "Cast":
        # Integers of 16 bits or more are rounded before they are scaled.
        return cast(first if first.type.bits <= 8 or not first.is_constant else value, target)
    if node.type == "DequantizeLinear":
        inputs: list[Value | None] = [first, cast_constant(node.inputs[1], target), *node.inputs[2:]]
    elif node.type in ("Mul", "Sub", "Add"):
        inputs = [None if v is None else _widen(v, target) for v in node.inputs]
    elif node.type in ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Gather", "Identity"):
        inputs = [_widen(first, target), *node.inputs[1:]]
    else:
        return None
    if inputs[0] is None or inputs[1:2] == [None]:
        return None
    (result,) = get_graph().add(node.type, inputs, [target], node.attributes)
    result.shape = value.shape
    return result


def cast_constant(value: Value | None, target: ElementType) -> Value | None:
    """Convert a constant of any size."""
    array = None if value is None else value.read()
    return None if array is None else constant(array.astype(target.dtype), target)


@exports("ConvertLike-1")
def export_convert_like(site: Site) -> Value:
    """Export ConvertLike."""
    return convert(site[0], site[1].type)


@exports("ConvertPromoteTypes-14")
def export_promote(site: Site) -> tuple[Value, Value]:
    """Export ConvertPromoteTypes: conversions to the declared type."""
    target = site.types[0]
    if target is None:
        raise UnsupportedError("the element type of the output is dynamic")
    return convert(site[0], target), convert(site[1], target)


def convert(data: Value, target: ElementType) -> Value:
    """Convert a value, as OpenVINO's Convert does."""
    if data.type is target:
        return op("Identity", data)
    if data.type.kind == "string" or target.kind == "string":
        raise UnsupportedError(f"{data.type} cannot be converted to {target}")
    if target.kind == "boolean":
        return ~op("Equal", data, 0) if data.type.name not in ("i4", "u4") else ~op("Equal", cast(data, "i32"), 0)
    if data.type.is_float and target.is_integer and target.bits < 64:
        wide = cast(data, "i64" if target.bits == 32 else "i32")
        return cast(wide, target)
    if target.name == "f16" and data.type.name == "i32":
        return cast(op("Clip", cast(data, "f32"), constant(-65504.0), constant(65504.0)), "f16")
    if target.name in ("f8e4m3", "f8e5m2"):
        return cast(cast(data, "f16"), target)
    if target.is_packed and target.is_integer and data.type.bits > 8:
        return cast(cast(data, "u8" if target.kind == "uint" else "i8"), target)
    return cast(data, target)


@exports("PowerStatic-cpu_plugin_opset", compute="f32")
def export_power_static(site: Site) -> Value:
    """Export PowerStatic."""
    return op("Pow", site[0] * float(site.scale) + float(site.shift), constant(float(site.power), site[0].type))


@exports("LeakyRelu-cpu_plugin_opset", compute="f32")
def export_leaky_relu(site: Site) -> Value:
    """Export LeakyRelu."""
    return op("LeakyRelu", site[0], alpha=float(site.negative_slope))
