"""Attributes with the value of a getter: OpenVINO's classes have both, such as `shape` and `get_shape`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["from_getter"]

_T = TypeVar("_T")


def from_getter(getter: Callable[[Any], _T], setter: Callable[[Any, Any], None] | None = None) -> _T:
    """Return a property that calls the methods, for type checkers an attribute of the type of its value."""
    return cast(_T, property(getter, setter))
