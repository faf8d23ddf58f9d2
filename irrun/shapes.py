"""Partial shapes: dimensions that are known, open (`?`, -1) or bounded (`1..8`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import Any, SupportsIndex

__all__ = ["Dimension", "DynamicDimension", "PartialShape", "StaticDimension"]


class StaticDimension(int):
    """A dimension that is known: an integer that also answers what OpenVINO's `Dimension` does."""

    __slots__ = ()

    is_static = True
    is_dynamic = False

    def get_length(self) -> int:
        """The dimension."""
        return int(self)

    get_min_length = get_max_length = get_length

    @property
    def min_length(self) -> int:
        return int(self)

    @property
    def max_length(self) -> int:
        return int(self)


@dataclass(frozen=True, slots=True, eq=False)
class DynamicDimension:
    """A dimension known only to lie between `minimum` and `maximum` (None: no bound)."""

    minimum: int = 0
    maximum: int | None = None

    @property
    def is_static(self) -> bool:
        return False

    @property
    def is_dynamic(self) -> bool:
        return True

    @property
    def min_length(self) -> int:
        return self.minimum

    @property
    def max_length(self) -> int:
        """The upper bound; -1 where there is none, as in OpenVINO."""
        return -1 if self.maximum is None else self.maximum

    def get_min_length(self) -> int:
        """The lower bound."""
        return self.min_length

    def get_max_length(self) -> int:
        """The upper bound; -1 where there is none."""
        return self.max_length

    def get_length(self) -> int:
        """There is none.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"the dimension {self} is dynamic, it has no length")

    def __eq__(self, other: object) -> bool:
        """Whether `other` has the same bounds; -1 stands for none, as in OpenVINO."""
        if isinstance(other, DynamicDimension):
            return (self.minimum, self.maximum) == (other.minimum, other.maximum)
        return other == -1 and (self.minimum, self.maximum) == (0, None)

    def __hash__(self) -> int:
        return hash(-1 if (self.minimum, self.maximum) == (0, None) else (self.minimum, self.maximum))

    def __str__(self) -> str:
        if self.minimum == 0 and self.maximum is None:
            return "?"
        return f"{self.minimum or ''}..{'' if self.maximum is None else self.maximum}"


#: A dimension as one writes it; a PartialShape holds its integers as `Length`.
Dimension = int | DynamicDimension
ANY = DynamicDimension()


class PartialShape(tuple[StaticDimension | DynamicDimension, ...]):
    """A shape of known rank: a tuple of lengths and intervals. A shape of unknown rank is None elsewhere.

    Args:
        dimensions: integers (-1: open), intervals, or texts as files write them ("?", "1..8").

    Raises:
        ValueError: a text is no dimension, or a number is below -1.
    """

    __slots__ = ()

    def __new__(cls, dimensions: Iterable[SupportsIndex | DynamicDimension | str] = ()) -> PartialShape:
        return tuple.__new__(cls, map(_dimension, dimensions))  # type: ignore[arg-type]

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return all(d.is_static for d in self)

    @property
    def is_dynamic(self) -> bool:
        """Whether a dimension is open."""
        return not self.is_static

    def get_min_shape(self) -> tuple[int, ...]:
        """The lower bound of each dimension."""
        return tuple(d.min_length for d in self)

    def get_max_shape(self) -> tuple[int, ...]:
        """The upper bound of each dimension; -1 where there is none."""
        return tuple(d.max_length for d in self)

    def __eq__(self, other: object) -> bool:
        """Whether the dimensions are the same; lists and tuples count, with -1 for an open dimension."""
        return isinstance(other, (tuple, list)) and tuple.__eq__(self, tuple(other))

    __hash__ = tuple.__hash__

    def __str__(self) -> str:
        return "[" + ",".join(map(str, self)) + "]"

    def __repr__(self) -> str:
        return f"<PartialShape: {self}>"

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether an array of `shape` is one of those that this partial shape stands for."""
        if len(shape) != len(self):
            return False
        return all(
            d == n if isinstance(d, int) else d.minimum <= n and (d.maximum is None or n <= d.maximum)
            for d, n in zip(self, shape, strict=True)
        )


@lru_cache(maxsize=4096)
def _dimension(value: Any) -> StaticDimension | DynamicDimension:
    if isinstance(value, DynamicDimension):
        return value
    if isinstance(value, str):
        value = parse_dimension(value)
        return value if isinstance(value, DynamicDimension) else StaticDimension(value)
    length = StaticDimension(index(value))
    if length < -1:
        raise ValueError(f"a dimension of {length} is neither a length nor -1")
    return length if length >= 0 else ANY


def parse_dimension(text: str) -> Dimension:
    """A dimension as files write it: `5`, `-1`, `?`, `1..8`, `..8`, `1..`.

    Raises:
        ValueError: the text is none of these.
    """
    text = text.strip()
    if text in ("?", "-1"):
        return ANY
    low, dots, high = text.partition("..")
    try:
        if not dots:
            if not text.isdecimal():
                raise ValueError
            return int(text)
        minimum, maximum = (int(low) if low.strip() else 0), (int(high) if high.strip() else None)
    except ValueError:  # one of thousands of digits is none for Python either
        raise ValueError(f"dimension {text!r} is no number, -1, ? or range such as 1..8") from None
    if minimum < 0 or (maximum is not None and maximum < minimum):
        raise ValueError(f"dimension {text!r} is an empty range")
    return minimum if minimum == maximum else DynamicDimension(minimum, maximum)


def parse_shape(text: str) -> PartialShape | None:
    """A shape as `shape` attributes write it: `1,3,?,2..8`, empty for a scalar, `...` for an unknown rank.

    Raises:
        ValueError: one of the dimensions cannot be read.
    """
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if text.strip() == "...":
        return None
    return PartialShape(parse_dimension(d) for d in text.split(",")) if text.strip() else PartialShape()
