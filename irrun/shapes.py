"""Partial shapes: tuples of static and dynamic dimensions, after OpenVINO's `Dimension` and `PartialShape`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import Any, SupportsIndex

from irrun.arguments import describe_value
from irrun.errors import InputError
from irrun.numerals import is_decimal, parse_integer

__all__ = [
    "MAX_RANK",
    "Dimension",
    "DynamicDimension",
    "PartialShape",
    "StaticDimension",
    "get_broadcast_shape",
    "parse_dimension",
    "parse_shape",
]

#: Maximum number of digits of a dimension in a file, as in the largest 64-bit integer.
MAX_DIGITS = 19
#: Maximum length of texts with kept shapes, since most constants of a model have one of a few shapes.
MAX_CACHED = 64
#: Most dimensions of a shape in a file; NumPy supports 64.
MAX_RANK = 64


class StaticDimension(int):
    """A known dimension: an integer with the methods of OpenVINO's `Dimension`.

    Attributes:
        is_static: Always True.
        is_dynamic: Always False.
    """

    __slots__ = ()

    is_static = True
    is_dynamic = False

    def get_length(self) -> int:
        """Return the dimension as an integer."""
        return int(self)

    get_min_length = get_max_length = get_length

    @property
    def min_length(self) -> int:
        """The lower bound: the dimension itself."""
        return int(self)

    @property
    def max_length(self) -> int:
        """The upper bound: the dimension itself."""
        return int(self)


@dataclass(frozen=True, slots=True, eq=False)
class DynamicDimension:
    """A dimension that is known only at run time, possibly within bounds.

    Two dynamic dimensions are equal if their bounds are. An unbounded one also equals -1, as in OpenVINO.

    Attributes:
        minimum: The lower inclusive bound.
        maximum: The upper inclusive bound; None if the dimension is unbounded.
    """

    minimum: int = 0
    maximum: int | None = None

    @property
    def is_static(self) -> bool:
        """Always False."""
        return False

    @property
    def is_dynamic(self) -> bool:
        """Always True."""
        return True

    @property
    def min_length(self) -> int:
        """The lower bound."""
        return self.minimum

    @property
    def max_length(self) -> int:
        """The upper bound; -1 if the dimension is unbounded, as in OpenVINO."""
        return -1 if self.maximum is None else self.maximum

    def get_min_length(self) -> int:
        """Return the lower bound."""
        return self.min_length

    def get_max_length(self) -> int:
        """Return the upper bound, or -1 if the dimension is unbounded."""
        return self.max_length

    def get_length(self) -> int:
        """Raise an error, because only a static dimension has a length.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"dimension {self} is dynamic, it has no length")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DynamicDimension):
            return (self.minimum, self.maximum) == (other.minimum, other.maximum)
        return other == -1 and (self.minimum, self.maximum) == (0, None)

    def __hash__(self) -> int:
        return hash(-1 if (self.minimum, self.maximum) == (0, None) else (self.minimum, self.maximum))

    def __str__(self) -> str:
        if self.minimum == 0 and self.maximum is None:
            return "?"
        return f"{self.minimum or ''}..{'' if self.maximum is None else self.maximum}"


#: A static or a dynamic dimension. A `PartialShape` converts its integers to `StaticDimension`.
Dimension = int | DynamicDimension

UNBOUNDED = DynamicDimension()


class PartialShape(tuple[StaticDimension | DynamicDimension, ...]):
    """A shape of static rank with possibly dynamic dimensions. None represents a shape of dynamic rank.

    A partial shape is a tuple of its dimensions. It equals a list or tuple of the same dimensions, where -1
    means an unbounded dynamic dimension.

    Args:
        dimensions: Integers (-1 for an unbounded dynamic dimension), instances of
            `DynamicDimension`, or texts such as "?" and "1..8" (see `parse_dimension`).

    Raises:
        InputError: A text is not a dimension, or a number is less than -1.
        TypeError: A dimension is of another type.
    """

    __slots__ = ()

    def __new__(cls, dimensions: Iterable[SupportsIndex | DynamicDimension | str] = ()) -> PartialShape:
        """Convert `dimensions`; see the class."""
        try:
            return tuple.__new__(cls, map(_to_dimension, dimensions))  # type: ignore[arg-type]
        except TypeError:
            found = describe_value(dimensions)
            raise TypeError(
                f"the shape is {found}, expected integers, texts such as '1..8' or DynamicDimension"
            ) from None

    @property
    def is_static(self) -> bool:
        """Whether all dimensions are static."""
        return all(d.is_static for d in self)

    @property
    def is_dynamic(self) -> bool:
        """Whether at least one dimension is dynamic."""
        return not self.is_static

    def get_min_shape(self) -> tuple[int, ...]:
        """Return the lower bounds of the dimensions."""
        return tuple(d.min_length for d in self)

    def get_max_shape(self) -> tuple[int, ...]:
        """Return the upper bounds of the dimensions, -1 for unbounded ones."""
        return tuple(d.max_length for d in self)

    def is_compatible(self, shape: Sequence[int]) -> bool:
        """Return whether `shape` has the rank of this partial shape and all its dimensions are within the bounds.

        Args:
            shape: A static shape.
        """
        try:
            if len(shape) != len(self):
                return False
            return all(
                d == n if isinstance(d, int) else d.minimum <= n and (d.maximum is None or n <= d.maximum)
                for d, n in zip(self, shape, strict=True)
            )
        except TypeError:
            raise TypeError(f"the shape is {describe_value(shape)}, expected a list of integers") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, list)) and tuple.__eq__(self, tuple(other))

    __hash__ = tuple.__hash__

    def __str__(self) -> str:
        return "[" + ",".join(map(str, self)) + "]"

    def __repr__(self) -> str:
        return f"<PartialShape: {self}>"


@lru_cache(maxsize=4096)
def _to_dimension(value: Any) -> StaticDimension | DynamicDimension:
    if isinstance(value, DynamicDimension):
        return value
    if isinstance(value, str):
        value = parse_dimension(value)
        return value if isinstance(value, DynamicDimension) else StaticDimension(value)
    length = StaticDimension(index(value))
    if length < -1:
        raise InputError(f"dimension {length} is out of range, expected at least -1")
    return length if length >= 0 else UNBOUNDED


def parse_dimension(text: str) -> Dimension:
    """Parse a dimension as written in files: `5`, `-1`, `?`, `1..8`, `..8` or `1..`.

    Args:
        text: The text. Both bounds of a range are inclusive and may be omitted.

    Returns:
        An integer for a static dimension, which includes ranges of one value such as `4..4`.

    Raises:
        InputError: The text is not a dimension, a number has more than 19 digits, or a range is empty.
    """
    text = text.strip()
    if text in ("?", "-1"):
        return UNBOUNDED
    lower, dots, upper = (part.strip() for part in text.partition(".."))
    try:
        if max(len(lower), len(upper)) > MAX_DIGITS or not (dots or is_decimal(lower)):
            raise ValueError
        if not dots:
            return int(lower)
        minimum, maximum = parse_integer(lower or "0"), parse_integer(upper) if upper else None
    except ValueError:
        shown = repr(text) if len(text) <= 60 else f"{text[:40]!r}... of {len(text)} characters"
        raise InputError(
            f"invalid dimension {shown}, expected a number of up to {MAX_DIGITS} digits, -1, ? or a range such as 1..8"
        ) from None
    if minimum < 0 or (maximum is not None and maximum < minimum):
        raise InputError(f"invalid dimension {text!r}, expected a range of non-negative numbers that is not empty")
    return minimum if minimum == maximum else DynamicDimension(minimum, maximum)


def parse_shape(text: str) -> PartialShape | None:
    """Parse a shape as written in `shape` attributes, such as `1,3,?,2..8` or `[1,3]`.

    Args:
        text: Dimensions separated by commas. An empty text denotes a scalar, and `...` a dynamic rank.

    Returns:
        The shape, or None if its rank is dynamic.

    Raises:
        InputError: One of the dimensions is invalid; see `parse_dimension`.
    """
    return _parse_short_shape(text) if len(text) <= MAX_CACHED else _parse_shape(text)


def get_broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that arrays of some shapes are broadcast to, as `np.broadcast_shapes` for up to 32 dimensions.

    Args:
        shapes: The shapes, of any number of dimensions.

    Raises:
        ValueError: They cannot be broadcast to one shape.
    """
    result: list[int] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i, size in enumerate(shape, len(result) - len(shape)):
            if result[i] == 1:
                result[i] = int(size)
            elif size not in (1, result[i]):
                raise ValueError(f"shapes {', '.join(str(list(s)) for s in shapes)} cannot be broadcast")
    return tuple(result)


def _parse_shape(text: str) -> PartialShape | None:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if text.strip() == "...":
        return None
    if text.count(",") >= MAX_RANK:
        raise InputError(f"expected at most {MAX_RANK} dimensions, found {text.count(',') + 1}")
    return PartialShape(parse_dimension(d) for d in text.split(",")) if text.strip() else PartialShape()


_parse_short_shape = lru_cache(maxsize=4096)(_parse_shape)
