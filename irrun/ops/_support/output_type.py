"""What the internal operations share."""

from __future__ import annotations

from irrun.element_types import ElementType
from irrun.ops._support.conversion import convert
from irrun.ops._support.numerics import Array

__all__ = ["convert_to_output_type"]


def convert_to_output_type(result: Array, output_type: str, default: Array) -> Array:
    """`result` in the type that an attribute names, or in that of `default` where it names none."""
    if output_type.strip().lower() in ("", "dynamic", "undefined", "undef"):
        return convert(result, ElementType.of(default.dtype))
    return convert(result, ElementType.parse(output_type))
