"""Numbers as text: only ASCII digits, and no underscores, which Python also accepts."""

from __future__ import annotations

__all__ = ["is_decimal", "parse_float", "parse_integer"]


def parse_integer(text: str) -> int:
    """Parse a decimal integer, with or without a sign and surrounding blanks.

    Raises:
        ValueError: The text is not one.
    """
    return int(_check(text))


def parse_float(text: str) -> float:
    """Parse a number such as "1", "-2.5e3", "nan" or "inf", with or without surrounding blanks.

    Raises:
        ValueError: The text is not one.
    """
    return float(_check(text))


def is_decimal(text: str) -> bool:
    """Return whether a text consists of digits."""
    return text.isascii() and text.isdigit()


def _check(text: str) -> str:
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return text
