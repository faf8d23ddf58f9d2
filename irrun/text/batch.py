"""Strings of valid UTF-8 as one text."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from irrun.deadlines import check_time
from irrun.text.patterns import prepare
from irrun.text.ragged import gather_ranges

__all__ = ["Batch", "join_batch"]

Array = np.ndarray[Any, Any]

#: Up to this many strings and bytes, processing strings one by one is faster.
FEW, SHORT = 4, 512


class Batch:
    """Contiguous strings of valid UTF-8.

    Args:
        chars: The bytes of all strings, u8 [bytes].
        text: The text of all strings.
        byte_bounds: The start of each string in `chars`, then the end, i64 [strings + 1].
    """

    def __init__(self, chars: Array, text: str, byte_bounds: Array) -> None:
        self.chars = chars
        self.text = text
        self.byte_bounds = byte_bounds
        self.is_ascii = text.isascii()

    @cached_property
    def codes(self) -> Array:
        """The code points, u8 if all are ASCII, else u32."""
        return self.chars if self.is_ascii else np.frombuffer(self.text.encode("utf-32-le"), np.uint32)

    @cached_property
    def widths(self) -> Array:
        """The bytes of each character, i64."""
        codes = self.codes
        widths: Array = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
        return widths

    @cached_property
    def offsets(self) -> Array:
        """The start of each character in `chars`, then the end, i64 [characters + 1]."""
        if self.is_ascii:
            return np.arange(self.chars.size + 1)
        offsets = np.zeros(self.codes.size + 1, np.int64)
        np.cumsum(self.widths, out=offsets[1:])
        return offsets

    @cached_property
    def bounds(self) -> Array:
        """The start of each string in characters, then the end, i64 [strings + 1]."""
        return self.byte_bounds if self.is_ascii else np.searchsorted(self.offsets, self.byte_bounds)

    @cached_property
    def prepared(self) -> str:
        """The text without characters that are not in Unicode 17."""
        return prepare(self.text)

    def to_bytes(self, positions: Array) -> Array:
        """Convert positions of characters to positions of bytes."""
        return positions if self.is_ascii else self.offsets[positions]


def join_batch(begins: Array, ends: Array, chars: Array) -> Batch | None:
    """Return strings as one text; None if a string is not valid UTF-8, or if strings are few and short.

    Args:
        begins: The start of each string in `chars`, any shape.
        ends: The end of each string.
        chars: u8 [bytes].

    Raises:
        InputError: The text exceeds the memory limit.
        TimeLimitError: The run exceeds its time limit.
    """
    if begins.size <= FEW and chars.size <= SHORT:
        return None
    check_time()
    joined = gather_ranges(begins, ends, chars)
    bounds = np.zeros(begins.size + 1, np.int64)
    np.cumsum(ends.reshape(-1) - begins.reshape(-1), out=bounds[1:])
    firsts = joined[bounds[:-1][bounds[:-1] < joined.size]]
    if ((firsts & 0xC0) == 0x80).any():  # a string begins inside a character
        return None
    try:
        return Batch(joined, joined.tobytes().decode(), bounds)
    except UnicodeDecodeError:
        return None
