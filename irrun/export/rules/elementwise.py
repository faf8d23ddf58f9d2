"""Export of elementwise operations."""

from __future__ import annotations

import math
from functools import partial

from irrun.element_types import ELEMENT_TYPES
from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.conversion import convert, get_limits
from irrun.export.rules.helpers import align, logical_or, where
from irrun.export.site import RULES, Site, exports, round_to

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
        return data
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
        return data
    if site.mode == "half_to_even":
        return op("Round", data)
    magnitude = op("Abs", data)
    floor = op("Floor", magnitude)
    up = cast(magnitude - floor >= 0.5, data.type)
    return op("Sign", data) * (floor + up)


@exports("PowerStatic-cpu_plugin_opset", compute="f32")
def export_power_static(site: Site) -> Value:
    """Export PowerStatic, which computes integers in f32 and may return another type."""
    data = site[0] if site[0].type.is_float else cast(site[0], "f32")
    result = op("Pow", data * float(site.scale) + float(site.shift), constant(float(site.power), data.type))
    return convert(result, site.types[0] or site[0].type)
