"""`Property`, the names of properties."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from irrun.openvino.properties.enumerations import Num
from irrun.openvino.runtime_info import OVAny

__all__ = ["Property"]


class Property(str):
    """The name of a property. It returns itself, or a pair of name and value, when it is called.

    Args:
        name: The name.
        kind: The type of its values; numbers are converted to it. None for any.
        minimum: The smallest number.
        writable: Whether it can be called with a value.
    """

    _kind: Any
    _minimum: int | None
    _writable: bool

    def __new__(cls, name: str, kind: Any = None, *, minimum: int | None = None, writable: bool = True) -> Property:
        """Create a property; see the class."""
        instance = super().__new__(cls, name)
        instance._kind, instance._minimum, instance._writable = kind, minimum, writable
        return instance

    @property
    def name(self) -> str:
        """The name."""
        return str(self)

    def __call__(self, *values: Any) -> Any:
        """Return the name, or with a value, the pair of name and value.

        Raises:
            TypeError: The property cannot be written, or the value has another type.
        """
        if not values:
            return str(self)
        try:
            if not self._writable:
                raise TypeError("it cannot be written")
            return str(self), OVAny(self._convert(*values))
        except TypeError as error:
            raise TypeError(f"{self}(): incompatible function arguments: {error}. Invoked with: {values}") from None

    def _convert(self, value: Any) -> Any:
        """Return a value of the type of the property."""
        kind = self._kind
        if isinstance(value, Num) and self == "NUM_STREAMS":
            return value.to_integer()
        if kind in (bool, int, float):
            is_number = isinstance(value, (int, np.number, np.bool_)) and not (kind is bool and isinstance(value, Enum))
            is_other = (value is None and kind is bool) or (isinstance(value, float) and kind is not int)
            if not (is_number or is_other):
                raise TypeError(f"expected a {kind.__name__}, found {value!r}")
            number = kind(value)
            if self._minimum is not None and number < self._minimum:
                raise TypeError(f"expected a number of at least {self._minimum}, found {number}")
            return number
        if kind is str and isinstance(value, bytes):
            return value.decode()
        if kind is not None and not isinstance(value, kind):
            raise TypeError(f"expected a {kind.__name__}, found {value!r}")
        return value
