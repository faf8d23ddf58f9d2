"""The attributes of nodes as Python values."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from irrun.element_types import ElementType
from irrun.shapes import DynamicDimension, PartialShape

if TYPE_CHECKING:
    from irrun.openvino.node import Node

__all__ = ["get_attributes"]


def get_attributes(node: Node) -> dict[str, Any]:
    """Return the attributes of a node by name, as numbers, texts and lists."""
    from irrun.openvino.inference import find_operation

    if node._type == "Parameter":
        port = node._ports[0]
        return {
            "shape": _simplify(port.shape),
            "element_type": port.element_type.name if port.element_type else "dynamic",
        }
    if node._constant is not None:
        return {"element_type": node._constant.element_type.name, "shape": list(node._constant.shape)}
    operation = find_operation(node)
    declared = {a.name: a for a in operation.attributes} if operation is not None else {}
    values = {}
    for name, value in node._attributes.items():
        attribute = declared.get(name) or declared.get(name.replace("-", "_"))
        if attribute is not None:
            with suppress(ValueError):
                value = attribute.convert(value)
        values[name] = _simplify(value)
    return values


def _simplify(value: Any) -> Any:
    if isinstance(value, ElementType):
        return value.name
    if isinstance(value, PartialShape):
        return [-1 if isinstance(d, DynamicDimension) else int(d) for d in value]
    return value
