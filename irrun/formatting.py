"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["format_count", "format_number"]

#: Whole numbers below this are written with all digits.
MAX_WHOLE = 1_000_000


def format_number(number: float | int) -> str:
    """Return a number with four significant digits; integers and small whole numbers keep all digits.

    More digits of floating-point values would differ between processors.

    Args:
        number: The number; an integer, or a float of any precision.
    """
    if isinstance(number, int):
        return str(number)
    value = float(number)
    return f"{value:.0f}" if value.is_integer() and abs(value) < MAX_WHOLE else f"{value:.4g}"


def format_count(number: int, noun: str) -> str:
    """Return a number and a noun, which gets an "s" unless the number is 1."""
    return f"{number} {noun}{'s' * (number != 1)}"
