"""Conversion of results to the type that an attribute of an internal operation names."""

from __future__ import annotations

from irrun.element_types import ElementType
from irrun.ops._support.conversion import convert
from irrun.ops._support.numerics import Array

__all__ = ["convert_to_output_type", "parse_optional_type"]


def parse_optional_type(name: str) -> ElementType | None:
    """Return the element type of a name; None for "", "dynamic" and "undefined", which leave the type open."""
    name = name.strip().lower()
    return None if name in ("", "dynamic", "undefined", "undef") else ElementType.parse(name)


def convert_to_output_type(result: Array, output_type: str, default: Array) -> Array:
    """Convert a result to the type that an attribute names.

    Args:
        result: The result, any type and shape.
        output_type: Name of the type; see `parse_optional_type`.
        default: An array of the type that the result has if the attribute names none.
    """
    return convert(result, parse_optional_type(output_type) or ElementType.of(default.dtype))
