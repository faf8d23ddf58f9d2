"""Element types of the results of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.ops._support.card import Card
from irrun.ops._support.type_promotion import find_common_type

__all__ = ["get_output_types"]

#: Attributes that determine the types of all results, unless the card of the operation states another source.
_TYPE_ATTRIBUTES = ("destination_type", "output_type")


def get_output_types(
    node_type: str, card: Card, attributes: Mapping[str, Any], inputs: Sequence[ElementType | None], count: int
) -> list[ElementType | None]:
    """Return the element types of the results of a node; None where they are unknown.

    Args:
        node_type: The type of the node.
        card: The card of its operation.
        attributes: The attributes, with their defaults.
        inputs: The type of each input; None for an unknown one, or an input that is not connected.
        count: The number of results.
    """
    default = inputs[0] if inputs else None
    for name in _TYPE_ATTRIBUTES:
        if attributes.get(name) not in (None, "dynamic", "undefined"):
            default = _to_type(attributes[name])
    if node_type == "ConvertPromoteTypes" and len(inputs) == 2:
        default = _promote(*inputs)
    results = [_find_type(source, inputs, attributes, default) for source in card.output_types]
    return (results + [default] * count)[:count]


def _promote(first: ElementType | None, second: ElementType | None) -> ElementType | None:
    """Return the common type of two inputs; None if there is none."""
    if first is None or second is None:
        return None
    return find_common_type(first, second, (False, False), ELEMENT_TYPES["f32"], unsafe=True)


def _find_type(
    source: int | str, types: Sequence[ElementType | None], attributes: Mapping[str, Any], default: ElementType | None
) -> ElementType | None:
    if isinstance(source, int):
        return types[source] if source < len(types) else None
    if "type" in source:
        return _to_type(attributes[source]) if attributes.get(source) is not None else default
    return ElementType.parse(source)


def _to_type(value: Any) -> ElementType:
    return value if isinstance(value, ElementType) else ElementType.parse(str(value))
