"""`Property`, the names of properties."""

from __future__ import annotations

from typing import Any

from irrun.openvino.runtime_info import OVAny

__all__ = ["Property"]


class Property(str):
    """The name of a property. It returns itself, or a pair of name and value, when it is called.

    Args:
        name: The name.
        writable: Whether it can be called with a value.
    """

    _writable: bool

    def __new__(cls, name: str, writable: bool = True) -> Property:
        """Create a property; see the class."""
        instance = super().__new__(cls, name)
        instance._writable = writable
        return instance

    @property
    def name(self) -> str:
        """The name."""
        return str(self)

    def __call__(self, *value: Any) -> Any:
        """Return the name, or with a value, the pair of name and value."""
        if not value:
            return str(self)
        if not self._writable or len(value) > 1:
            raise TypeError(f"{self}(): incompatible function arguments. Invoked with: {value}")
        return str(self), OVAny(value[0])
