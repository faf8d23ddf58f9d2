"""Runtime information: `RTMap` and `OVAny`, and their conversion from and to `rt_info` elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

__all__ = ["OVAny", "RTMap", "format_rt_info", "parse_meta_data", "parse_rt_info", "unwrap"]

_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0", "")


class OVAny:
    """A value of any type.

    Args:
        value: The value.

    Attributes:
        value: The value.
    """

    def __init__(self, value: Any) -> None:
        self.value = unwrap(value)

    def __repr__(self) -> str:
        return "<OVAny class>"

    def __eq__(self, other: object) -> bool:
        return bool(self.value == unwrap(other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __getitem__(self, key: Any) -> Any:
        return self._get_container()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._get_container()[key] = value

    def __len__(self) -> int:
        return len(self._get_container())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._get_container())

    def __contains__(self, key: object) -> bool:
        return key in self._get_container()

    def __bool__(self) -> bool:
        return bool(self.value)

    def _get_container(self) -> Any:
        """Return the value.

        Raises:
            AttributeError: It is a number or None.
        """
        if self.value is None or isinstance(self.value, (bool, int, float)):
            raise AttributeError(f"{type(self.value).__name__} has no elements")
        return self.value

    def get(self) -> Any:
        """Return the value."""
        return self.value

    def set(self, value: Any) -> None:
        """Replace the value."""
        self.value = unwrap(value)

    def astype(self, dtype: type) -> Any:
        """Return the value converted to bool, int, float, str or dict.

        Raises:
            RuntimeError: `dtype` is none of them, or the value cannot be converted.
        """
        value, text = self.value, None
        if isinstance(value, str) and dtype is not str:
            value = text = value.split()[0] if value.split() else ""
        if dtype is str:
            return _format(value)
        if dtype is bool and (isinstance(value, bool) or (text is not None and text.lower() in _TRUE + _FALSE)):
            return value if text is None else text.lower() in _TRUE
        if dtype is dict and isinstance(value, Mapping):
            return _wrap(value)
        is_number = isinstance(value, (int, float, str)) and not isinstance(value, bool)
        with suppress(ValueError):
            if dtype in (int, float) and is_number:
                return int(float(value)) if dtype is int else float(value)
        raise RuntimeError(f"Bad cast from: {type(value).__name__} to: {dtype}")

    def aslist(self, dtype: type | None = None) -> list[Any]:
        """Return the elements of a list, or the words of a text as bool, int, float or str; without a type, none.

        Raises:
            RuntimeError: The value has no elements, or they cannot be converted.
        """
        if dtype is None:
            return []
        if not isinstance(self.value, (str, list, tuple)):
            raise RuntimeError(f"Bad cast from: {type(self.value).__name__} to: list of {dtype}")
        if not isinstance(self.value, str):
            return list(self.value)
        return [OVAny(word).astype(dtype) for word in self.value.split()]


def unwrap(value: Any) -> Any:
    """Return the value of an `OVAny`, and other values unchanged."""
    return value.value if isinstance(value, OVAny) else value


def _wrap(value: Any) -> Any:
    value = unwrap(value)
    if isinstance(value, Mapping):
        return {name: _wrap(item) for name, item in sorted(value.items())}
    return OVAny(value)


class RTMap(MutableMapping[str, Any]):
    """A mapping from names, in their order, to values: `OVAny`, or dictionaries of `OVAny` for nested values.

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
        return iter(sorted(self._values))

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


def parse_meta_data(text: str | None) -> dict[str, Any]:
    """Return the values of the `meta_data` element that files had before `rt_info`, under the names of today.

    Args:
        text: The element as text, or None.
    """
    values = parse_rt_info(text)
    if "cli_parameters" in values:
        values["conversion_parameters"] = values.pop("cli_parameters")
    return values


def _parse_children(element: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for child in element:
        name = child.get("name") if child.tag == "info" and child.get("name") else child.tag
        value = child.get("value", child.get("unset_cli_parameters"))
        values[name] = _parse_children(child) if value is None else value
    return values


def format_rt_info(values: Mapping[str, Any]) -> str | None:
    """Return the `rt_info` element of a model as text; None if there are no values.

    The version of the file that a model was read from is left out.
    """
    values = {name: value for name, value in values.items() if name != "version"}
    if not values:
        return None
    from lxml import etree

    root = etree.Element("rt_info")
    _append_children(root, values)
    return str(etree.tostring(root, encoding="unicode"))


def _append_children(parent: Any, values: Mapping[str, Any]) -> None:
    from lxml import etree

    for name, value in sorted(values.items()):
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
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{_format(item)}' for name, item in value.items())}}}"
    if value is None:
        return ""
    return ("NO", "YES")[value] if isinstance(value, bool) else str(value)
