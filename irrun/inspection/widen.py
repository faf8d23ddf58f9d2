"""Attributes of layers with every floating-point type replaced by f64."""

from __future__ import annotations

from irrun.element_types import ElementType
from irrun.ir.graph import Layer
from irrun.ops._support import registry

__all__ = ["widen_attributes"]


def widen_attributes(layer: Layer) -> dict[str, object]:
    """Return the attributes of a layer with floating-point types replaced by f64.

    Args:
        layer: The layer.
    """
    card = registry.get_card(layer.type, layer.version)
    if card.kind == "random" or card.quantizes:  # the numbers and the rounding depend on the type
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
