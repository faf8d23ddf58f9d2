"""Attributes of layers in which every floating-point type is replaced by f64."""

from __future__ import annotations

from irrun.element_types import ElementType
from irrun.ir.graph import Layer

__all__ = ["widen_attributes"]

#: Layers whose types are part of the computation: the random numbers and the rounding depend on them.
KEPT_TYPES = ("FakeConvert", "RandomUniform")


def widen_attributes(layer: Layer) -> dict[str, object]:
    """Return the attributes of a layer with floating-point types replaced by f64.

    Args:
        layer: The layer.
    """
    if layer.type in KEPT_TYPES:
        return dict(layer.attributes)
    return {name: "f64" if _is_float_type(name, value) else value for name, value in layer.attributes.items()}


def _is_float_type(name: str, value: object) -> bool:
    if not name.endswith("type"):
        return False
    try:
        element_type = value if isinstance(value, ElementType) else ElementType.parse(str(value))
    except ValueError:
        return False
    return element_type.is_float
