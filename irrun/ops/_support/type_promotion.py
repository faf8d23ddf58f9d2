"""The common type of two element types, by the rules of ConvertPromoteTypes."""

from __future__ import annotations

from irrun.element_types import ELEMENT_TYPES, ElementType

__all__ = ["find_common_type"]

#: Element types that ConvertPromoteTypes accepts.
PROMOTABLE = frozenset(
    (
        *("boolean", "f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64"),
        *("i4", "i8", "i16", "i32", "i64"),
        *("u1", "u4", "u8", "u16", "u32", "u64"),
    )
)
#: The common types of different floats of equal width.
COMMON_FLOATS = {frozenset(("f8e4m3", "f8e5m2")): "f16", frozenset(("bf16", "f16")): "f32"}


def find_common_type(
    a: ElementType, b: ElementType, scalars: tuple[bool, bool], u64_target: ElementType, *, unsafe: bool
) -> ElementType | None:
    """Return the type that ConvertPromoteTypes converts `a` and `b` to, or None.

    Args:
        a: The type of the first input.
        b: The type of the second input.
        scalars: Which of the inputs are scalars that adopt the type of a tensor.
        u64_target: The common type of u64 and a signed integer.
        unsafe: Whether the common type may lose values or precision.
    """
    if a.name not in PROMOTABLE or b.name not in PROMOTABLE:
        return None
    if a == b or b.kind == "boolean":
        return a
    if a.kind == "boolean":
        return b
    if a.is_float != b.is_float:
        floating, integer = (a, b) if a.is_float else (b, a)
        return floating if unsafe or floating.bits >= 2 * integer.bits else None
    if scalars[0] != scalars[1]:
        tensor, scalar = (b, a) if scalars[0] else (a, b)
        return tensor if unsafe or _can_hold(tensor, scalar) else None
    if (a.kind == "uint") != (b.kind == "uint"):
        unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
        return _find_common_integer(unsigned, signed, u64_target, unsafe=unsafe)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    name = COMMON_FLOATS.get(frozenset((a.name, b.name)))
    return ELEMENT_TYPES[name] if unsafe and name else None


def _can_hold(tensor: ElementType, scalar: ElementType) -> bool:
    """Return whether a scalar may safely adopt the type of a tensor; both are floats or both are integers."""
    if tensor.kind == scalar.kind:
        return tensor.bits >= scalar.bits
    return tensor.kind == "int" and scalar.kind == "uint" and tensor.bits * 2 >= scalar.bits


def _find_common_integer(
    unsigned: ElementType, signed: ElementType, u64_target: ElementType, *, unsafe: bool
) -> ElementType | None:
    if unsigned.bits <= 32 and (unsafe or unsigned.bits * 2 <= signed.bits):
        return ELEMENT_TYPES[f"i{max(2 * unsigned.bits, signed.bits)}"]
    return u64_target if unsafe else None
