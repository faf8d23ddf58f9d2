"""Attributes of operations: their types, and the conversion of the text of files to them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Union

from irrun.element_types import ElementType
from irrun.numerals import parse_float, parse_integer
from irrun.shapes import PartialShape, parse_shape

__all__ = ["Attribute", "to_parameter_name"]

#: Largest signed 64-bit integer.
MAX_INTEGER = (1 << 63) - 1

#: Types of attributes other than Literal and lists.
ATTRIBUTE_TYPES = (bool, int, float, str, ElementType, PartialShape)

#: Attribute names of the specification -> names that OpenVINO writes instead.
ATTRIBUTE_ALIASES = {"right": "right_mode", "sort_result": "sort_result_type"}

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class Attribute(NamedTuple):
    """An attribute of an operation.

    Attributes:
        name: The name in the specification.
        type: The annotation of the kernel's parameter.
        default: The default value; `inspect.Parameter.empty` for a required attribute.
    """

    name: str
    type: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Whether the attribute is required."""
        return self.default is inspect.Parameter.empty

    @property
    def is_supported(self) -> bool:
        """Whether texts can be converted to the type."""
        inner, _ = _split_optional(self.type)
        if typing.get_origin(inner) is list:
            (inner,) = typing.get_args(inner)
        return inner in ATTRIBUTE_TYPES or typing.get_origin(inner) is Literal

    @property
    def type_name(self) -> str:
        """The type as users read it, such as "list of int" or "one of 'floor', 'ceil'"."""
        inner, optional = _split_optional(self.type)
        if typing.get_origin(inner) is Literal:
            name = "one of " + ", ".join(repr(choice) for choice in typing.get_args(inner))
        elif typing.get_origin(inner) is list:
            name = f"list of {typing.get_args(inner)[0].__name__}"
        else:
            name = {ElementType: "element type", PartialShape: "shape"}.get(inner) or inner.__name__
        return name + (" (optional)" if optional else "")

    def convert(self, value: Any) -> Any:
        """Convert the text of an XML attribute to the attribute's type; other values are returned unchanged.

        Raises:
            ValueError: The text does not denote a value of that type.
        """
        if not isinstance(value, str):
            return value
        inner, optional = _split_optional(self.type)
        if inner is PartialShape:
            return parse_shape(value)
        if optional and (not value.strip() or (inner is ElementType and value.strip() in ("dynamic", "undefined"))):
            return None
        return _convert_text(value, inner)


def to_parameter_name(attribute: str) -> str:
    """Return the parameter of an attribute with a name that is not a Python identifier.

    "exclude-pad" becomes exclude_pad, "auto_broadcast.auto_broadcast_axis" becomes auto_broadcast_axis.
    """
    name = attribute.rpartition(".")[2].replace("-", "_")
    return ATTRIBUTE_ALIASES.get(name, name)


def _split_optional(annotation: Any) -> tuple[Any, bool]:
    """Return an annotation without `| None`, and whether it had that."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        alternatives = [a for a in typing.get_args(annotation) if a is not type(None)]
        return alternatives[0], len(alternatives) < len(typing.get_args(annotation))
    return annotation, False


def _convert_text(text: str, kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is Literal:
        return _choose(text, typing.get_args(kind))
    if origin is list:
        (inner,) = typing.get_args(kind)
        text = text.strip().removesuffix(",")  # OpenVINO ignores a trailing comma
        values = [_convert_text(part.strip(), inner) for part in text.split(",")] if text else []
        if inner is int and any(value > MAX_INTEGER for value in values):  # only seeds are unsigned
            raise ValueError("not signed 64-bit integers")
        return values
    if kind is bool:
        return _parse_bool(text)
    if kind is int:
        return _parse_int(text)
    if kind is float:
        return _parse_float(text)
    if kind is ElementType:
        return ElementType.parse(text)
    return text


def _parse_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("not a boolean")


def _parse_float(text: str) -> float:
    try:
        return parse_float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _parse_int(text: str) -> int:
    try:
        value = parse_integer(text)
    except ValueError:
        number = _parse_float(text)  # "1.0" and "1e3" occur in files of old converters
        if not number.is_integer():
            raise ValueError("not an integer") from None
        value = int(number)
    if not -MAX_INTEGER - 1 <= value <= 2 * MAX_INTEGER + 1:  # seeds are unsigned
        raise ValueError("not a 64-bit integer")
    return value


def _choose(text: str, choices: Sequence[Any]) -> Any:
    if text in choices:
        return text
    by_lower = {str(choice).lower(): choice for choice in choices}
    try:
        return by_lower[text.strip().lower()]
    except KeyError:
        raise ValueError("unknown value") from None
