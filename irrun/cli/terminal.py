"""The terminal: its width, its character set, and how texts are shortened to fit."""

from __future__ import annotations

import os
import unicodedata
from typing import TextIO

from irrun.numerals import is_decimal

__all__ = ["can_encode", "find_width", "measure_width", "shorten_middle"]

#: Width of a terminal that does not report its size.
DEFAULT_WIDTH = 80
#: Non-ASCII characters that irrun draws on terminals.
SYMBOLS = "━╸─…"


def find_width(stream: TextIO) -> int:
    """Return the number of columns of a terminal: the variable COLUMNS, or the width it reports.

    Args:
        stream: A stream to the terminal.
    """
    text = os.environ.get("COLUMNS", "")
    if is_decimal(text) and int(text) > 0:
        return int(text)
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError, AttributeError):  # io.UnsupportedOperation is a ValueError
        return DEFAULT_WIDTH


def can_encode(stream: TextIO) -> bool:
    """Return whether a stream can encode the symbols that irrun draws on terminals.

    Args:
        stream: The stream.
    """
    try:
        SYMBOLS.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True


def measure_width(text: str) -> int:
    """Return the number of columns a text takes on a terminal.

    Args:
        text: One line of printable characters.
    """
    if text.isascii():
        return len(text)
    return sum(map(_measure_character, text))


def shorten_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Shorten a text in the middle, since the ends of a name are the most distinctive.

    Args:
        text: The text.
        width: Maximum width of the result in columns.
        ellipsis: The text that replaces the middle.
    """
    if measure_width(text) <= width:
        return text
    room = max(width - len(ellipsis), 0)
    return f"{_cut(text, room - room // 2)}{ellipsis}{_cut(text[::-1], room // 2)[::-1]}"[: max(width, 1)]


def _cut(text: str, width: int) -> str:
    """Return as many characters from the start of a text as fit."""
    if text.isascii():
        return text[:width]
    position = 0
    for character in text:
        width -= _measure_character(character)
        if width < 0:
            break
        position += 1
    return text[:position]


def _measure_character(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
