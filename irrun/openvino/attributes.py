"""The attributes of nodes as Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.openvino.element_type import to_element_type
from irrun.openvino.inference import find_operation
from irrun.openvino.ports import NodeData
from irrun.openvino.shape import PartialShape as OpenVINOShape
from irrun.ops._support.attributes import Attribute
from irrun.ops._support.operation import Operation
from irrun.shapes import DynamicDimension, PartialShape

__all__ = ["convert_attributes", "get_attributes"]


def get_attributes(node: NodeData) -> dict[str, Any]:
    """Return the attributes of a node by name, as numbers, texts and lists."""
    if node._type == "Parameter":
        port = node._ports[0]
        return {
            "shape": [] if port.shape is None else _simplify(port.shape),
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
        elif declared and isinstance(value, str):  # which the file has, and the operation does not
            continue
        values[name] = _simplify(value)
    for name, default in _get_defaults(declared).items():
        values.setdefault(name, _simplify(default))
    if values.get("auto_broadcast") != "pdpd":
        values.pop("auto_broadcast_axis", None)
    for name in _UNLISTED.get((node._type, node._version), ()):
        values.pop(name, None)
    if node._type == "MVN" and "eps_mode" in values:
        values["eps_mode"] = values["eps_mode"].upper()
    return {name: _MISSING.get(name) if value is None else value for name, value in values.items()}


#: Attributes that OpenVINO does not return.
_UNLISTED = {
    ("Broadcast", "opset1"): ("axis",),
    ("Broadcast", "opset3"): ("axis",),
    ("LSTMCell", "opset4"): ("input_forget", "weights_format"),
    ("LSTMSequence", "opset5"): ("input_forget", "weights_format"),
}

#: The values of attributes that are missing in the file.
_MISSING: dict[str, Any] = {"variable_shape": [], "variable_type": "dynamic"}


def _simplify(value: Any) -> Any:
    if isinstance(value, ElementType):
        return value.name
    if isinstance(value, PartialShape):
        return [-1 if isinstance(d, DynamicDimension) else int(d) for d in value]
    if isinstance(value, list):
        return [float(np.float32(item)) if isinstance(item, float) else item for item in value]
    return value


#: Attributes that files spell differently from the parameters of the kernels.
_SPELLINGS = {"exclude_pad": "exclude-pad"}


def convert_attributes(operation: Operation, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with the types and names of an operation, and with its defaults.

    Args:
        operation: The operation.
        attributes: The attributes; None is replaced by the default.

    Raises:
        RuntimeError: A text does not denote a value of the type of its attribute.
    """
    declared = {attribute.name: attribute for attribute in operation.attributes}
    converted = {}
    for name, value in attributes.items():
        if value is None:
            continue
        attribute = declared.get(name) or declared.get(name.replace("-", "_"))
        if attribute is not None:
            value = _convert_attribute(attribute, value)
        converted[_SPELLINGS.get(name, name)] = value
    for name, default in _get_defaults(declared).items():
        converted.setdefault(name, default)
    return converted


def _get_defaults(declared: Mapping[str, Attribute]) -> dict[str, Any]:
    """Return the default values of attributes by their names in files."""
    defaults = {_SPELLINGS.get(a.name, a.name): a.default for a in declared.values() if not a.required}
    return {
        name: list(default) if isinstance(default, tuple) else default
        for name, default in defaults.items()
        if default is not None
    }


def _convert_attribute(attribute: Attribute, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if attribute.type_name.startswith("element type"):
        return to_element_type(value)
    if attribute.type_name.startswith("shape"):
        return OpenVINOShape(value)._to_irrun()
    if isinstance(value, str):
        try:
            return attribute.convert(value)
        except ValueError as error:
            raise RuntimeError(
                f"attribute {attribute.name}={value!r}: {error}, expected {attribute.type_name}"
            ) from None
    if attribute.type_name.startswith("list") and isinstance(value, Iterable):
        return list(value)
    return int(value) if isinstance(value, bool) and attribute.type_name.startswith("int") else value
