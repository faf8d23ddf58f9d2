"""Partial shapes: dimensions that are known, open (`?`, -1) or bounded (`1..8`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Dimension", "Interval", "PartialShape"]


class Interval(NamedTuple):
    """A dimension known only to lie between `minimum` and `maximum` (None: no bound)."""

    minimum: int = 0
    maximum: int | None = None

    def __str__(self) -> str:
        if self.minimum == 0 and self.maximum is None:
            return "?"
        return f"{self.minimum or ''}..{'' if self.maximum is None else self.maximum}"


Dimension = int | Interval
ANY = Interval()


class PartialShape(tuple[Dimension, ...]):
    """A shape of known rank: a tuple of integers and intervals. A shape of unknown rank is None elsewhere."""

    __slots__ = ()

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return all(type(d) is int for d in self)

    def __str__(self) -> str:
        return "[" + ",".join(map(str, self)) + "]"

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether an array of `shape` is one of those that this partial shape stands for."""
        if len(shape) != len(self):
            return False
        return all(
            d == n if isinstance(d, int) else d.minimum <= n and (d.maximum is None or n <= d.maximum)
            for d, n in zip(self, shape, strict=True)
        )


def parse_dimension(text: str) -> Dimension:
    """A dimension as files write it: `5`, `-1`, `?`, `1..8`, `..8`, `1..`.

    Raises:
        ValueError: the text is none of these.
    """
    text = text.strip()
    if text.isdecimal():
        return int(text)
    if text in ("?", "-1"):
        return ANY
    low, dots, high = text.partition("..")
    if not dots:
        raise ValueError(f"dimension {text!r} is no number, -1, ? or range such as 1..8")
    minimum, maximum = (int(low) if low.strip() else 0), (int(high) if high.strip() else None)
    if minimum < 0 or (maximum is not None and maximum < minimum):
        raise ValueError(f"dimension {text!r} is an empty range")
    return minimum if minimum == maximum else Interval(minimum, maximum)


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
