"""Runtime information: `RTMap` and `OVAny`, and their conversion from and to `rt_info` elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["OVAny", "RTMap", "format_rt_info", "parse_rt_info", "unwrap"]

_TRUE = ("true", "yes", "1", "on")


class OVAny:
    """A value of any type.

    Args:
        value: The value.

    Attributes:
        value: The value.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = unwrap(value)

    def __repr__(self) -> str:
        return "<OVAny class>"

    def __eq__(self, other: object) -> bool:
        return bool(self.value == unwrap(other))

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value[key] = value

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __contains__(self, key: object) -> bool:
        return key in self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def get(self) -> Any:
        """Return the value."""
        return self.value

    def set(self, value: Any) -> None:
        """Replace the value."""
        self.value = unwrap(value)

    def astype(self, dtype: type) -> Any:
        """Return the value converted to bool, int, float, str or dict.

        Raises:
            TypeError: `dtype` is none of them.
            ValueError: The value cannot be converted.
        """
        if dtype not in (bool, int, float, str, dict):
            raise TypeError(f"Unsupported data type : '{dtype}'")
        if dtype is bool and isinstance(self.value, str):
            return self.value.strip().lower() in _TRUE
        if dtype is str:
            return _format(self.value)
        return dict(self.value) if dtype is dict else dtype(self.value)

    def aslist(self, dtype: type | None = None) -> list[Any]:
        """Return the value, or the words of a text, as a list of bool, int, float or str."""
        values = self.value.split() if isinstance(self.value, str) else list(self.value)
        return [OVAny(value).astype(dtype) for value in values] if dtype else values


def unwrap(value: Any) -> Any:
    """Return the value of an `OVAny`, and other values unchanged."""
    return value.value if isinstance(value, OVAny) else value


def _wrap(value: Any) -> Any:
    value = unwrap(value)
    if isinstance(value, Mapping):
        return {name: _wrap(item) for name, item in value.items()}
    return OVAny(value)


class RTMap(MutableMapping[str, Any]):
    """A mapping from names to values. It returns `OVAny`, or dictionaries of `OVAny` for nested values.

    Args:
        values: The values, which the mapping refers to.
    """

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {} if values is None else values

    def __repr__(self) -> str:
        return "<RTMap>"

    def __getitem__(self, key: str) -> Any:
        return _wrap(self._values[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = unwrap(value)

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def parse_rt_info(text: str | None) -> dict[str, Any]:
    """Return the values of an `rt_info` element of a model.

    Args:
        text: The element as text, or None.

    Returns:
        Texts by name; nested elements are dictionaries.
    """
    if not text:
        return {}
    from irrun.ir.xml import parse_bytes

    return _parse_children(parse_bytes(text.encode()))


def _parse_children(element: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for child in element:
        name = child.get("name") if child.tag == "info" and child.get("name") else child.tag
        values[name] = child.get("value") if child.get("value") is not None else _parse_children(child)
    return values


def format_rt_info(values: Mapping[str, Any]) -> str | None:
    """Return the `rt_info` element of a model as text; None if there are no values."""
    if not values:
        return None
    from lxml import etree

    root = etree.Element("rt_info")
    _append_children(root, values)
    return str(etree.tostring(root, encoding="unicode"))


def _append_children(parent: Any, values: Mapping[str, Any]) -> None:
    from lxml import etree

    for name, value in values.items():
        value = unwrap(value)
        try:
            child = etree.SubElement(parent, name)
        except ValueError:  # not a name in XML
            child = etree.SubElement(parent, "info", name=name)
        if isinstance(value, Mapping):
            _append_children(child, value)
        else:
            child.set("value", _format(value))


def _format(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(map(_format, value))
    return str(value)
