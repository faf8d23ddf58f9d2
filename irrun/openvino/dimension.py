"""`Dimension`: a dimension of a shape, which may be dynamic."""

from __future__ import annotations

from operator import index
from typing import Any

from irrun import shapes
from irrun.openvino.getters import from_getter

__all__ = ["LARGEST", "Dimension", "Rank", "Symbol", "parse_dimension"]

#: The upper bound of an unbounded dimension in a `Shape`.
LARGEST = 2**63 - 1


class Symbol:
    """A symbol that identifies equal dynamic dimensions; dimensions without a symbol have an empty one."""

    def __init__(self) -> None:
        self._is_empty = False

    def __bool__(self) -> bool:
        return not self._is_empty


class Dimension:
    """A static or dynamic dimension.

    Args:
        minimum: The length, -1 for an unbounded dimension, a text such as "2..8", or the lower bound.
        maximum: The upper bound; -1 if it is unbounded.

    Raises:
        RuntimeError: A text is not a dimension.
        TypeError: An argument is of another type.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, minimum: Any = None, maximum: int | None = None) -> None:
        self._symbol: Symbol | None = None
        self._value: shapes.StaticDimension | shapes.DynamicDimension
        if maximum is not None:
            low, high = index(minimum), index(maximum)
            bound = None if high < 0 or high >= LARGEST else high
            self._value = _make_dimension(max(low, 0), bound)
        else:
            self._value = parse_dimension(-1 if minimum is None else minimum)

    @staticmethod
    def dynamic() -> Dimension:
        """Return an unbounded dimension."""
        return Dimension()

    def __repr__(self) -> str:
        return f"<Dimension: {self}>"

    def __str__(self) -> str:
        return str(self._value)

    def __len__(self) -> int:
        return self.get_length()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dimension):
            return bool(self._value == other._value)
        return isinstance(other, int) and bool(self._value == other)

    def to_string(self) -> str:
        """Return the dimension as in `PartialShape` texts."""
        return str(self)

    @property
    def is_static(self) -> bool:
        """Whether the length is known."""
        return self._value.is_static

    @property
    def is_dynamic(self) -> bool:
        """Whether the length is unknown."""
        return self._value.is_dynamic

    def get_length(self) -> int:
        """Return the length.

        Raises:
            RuntimeError: The dimension is dynamic.
        """
        if self._value.is_dynamic:
            raise RuntimeError("Cannot get length of dynamic dimension")
        return self._value.min_length

    def get_min_length(self) -> int:
        """Return the lower bound."""
        return self._value.min_length

    min_length = from_getter(get_min_length)

    def get_max_length(self) -> int:
        """Return the upper bound; -1 if it is unbounded."""
        return self._value.max_length

    max_length = from_getter(get_max_length)

    def compatible(self, dim: Dimension) -> bool:
        """Return whether some length is within the bounds of both dimensions."""
        lower = max(self.min_length, dim.min_length)
        return lower <= min(_get_upper(self), _get_upper(dim))

    def refines(self, dim: Dimension) -> bool:
        """Return whether all lengths of this dimension are within the bounds of `dim`."""
        return dim.min_length <= self.min_length and _get_upper(self) <= _get_upper(dim)

    def relaxes(self, dim: Dimension) -> bool:
        """Return whether all lengths of `dim` are within the bounds of this dimension."""
        return dim.refines(self)

    def same_scheme(self, dim: Dimension) -> bool:
        """Return whether both are dynamic, or static and equal."""
        return (self.is_dynamic and dim.is_dynamic) or self == dim

    def has_symbol(self) -> bool:
        """Return whether the dimension has a symbol."""
        return self._symbol is not None

    def get_symbol(self) -> Symbol:
        """Return the symbol, or an empty one."""
        symbol = self._symbol or Symbol()
        symbol._is_empty = self._symbol is None
        return symbol

    def set_symbol(self, symbol: Symbol) -> None:
        """Set the symbol of this object. No shape rule reads it."""
        self._symbol = symbol


Rank = Dimension


def _get_upper(dimension: Dimension) -> int:
    return LARGEST if dimension.max_length == -1 else dimension.max_length


def _make_dimension(minimum: int, maximum: int | None) -> shapes.StaticDimension | shapes.DynamicDimension:
    if minimum == maximum:
        return shapes.StaticDimension(minimum)
    return shapes.DynamicDimension(minimum, maximum)


def parse_dimension(value: Any) -> shapes.StaticDimension | shapes.DynamicDimension:
    """Convert an element of a shape to a dimension of irrun.

    Raises:
        RuntimeError: A text is not a dimension.
        TypeError: The element is of another type.
    """
    if isinstance(value, Dimension):
        return value._value
    if isinstance(value, shapes.DynamicDimension):
        return value
    if isinstance(value, str):
        if not value.strip():
            return shapes.StaticDimension(0)
        try:
            parsed = shapes.parse_dimension(value)
        except ValueError:
            raise RuntimeError(f"Cannot parse {_find_fault(value.strip())}") from None
        return shapes.StaticDimension(parsed) if isinstance(parsed, int) else parsed
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise TypeError(
                "Two elements are expected in tuple(lower, upper) for dynamic dimension, "
                f"but {len(value)} elements were given."
            )
        return Dimension(*value)._value
    try:
        length = index(value)
    except TypeError:
        raise TypeError(
            f"Incorrect type {type(value)} for dimension. Expected types are: int, str, openvino.Dimension, "
            "list/tuple with lower and upper values for dynamic dimension."
        ) from None
    if length == -1:
        return shapes.UNBOUNDED
    return shapes.StaticDimension(max(length, 0))


def _find_fault(text: str) -> str:
    """Return the part of a text that is not a dimension, with what it should be."""
    low, dots, high = (part.strip() for part in text.partition(".."))
    if dots and low and not low.isdecimal():
        return f'min bound: "{low}"'
    if dots and high and not high.isdecimal():
        return f'max bound: "{high}"'
    return f'dimension: "{text}"'
