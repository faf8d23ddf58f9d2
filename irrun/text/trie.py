"""Search for the longest token at a position of a text."""

from __future__ import annotations

from collections.abc import Mapping

from irrun.deadlines import check_time
from irrun.errors import InputError
from irrun.text.words import WordEncoder, shorten

__all__ = ["LongestMatcher", "TrieEncoder"]


class LongestMatcher:
    """Finds the longest token at a position of a text.

    Args:
        values: The values of the tokens. Empty tokens and tokens with the value -1 are never found.

    Attributes:
        values: The values of the tokens.
    """

    def __init__(self, values: Mapping[bytes, int]) -> None:
        self.values = values
        # One lookup finds the tokens of a length that begin with the same two bytes.
        lengths: dict[bytes, set[int]] = {}
        for start, length in {(token[:2], len(token)) for token in values}:
            lengths.setdefault(start, set()).add(length)
        self._longer = {start: sorted(found, reverse=True) for start, found in lengths.items() if len(start) == 2}
        self._single = {start for start in lengths if len(start) == 1}

    def find(self, text: bytes, position: int) -> tuple[int, int]:
        """Return the value and the end of the longest token at a position.

        Args:
            text: The text.
            position: The start of the token, below the length of the text.

        Returns:
            The value and the end; -1 and `position` if there is no token.
        """
        start = text[position : position + 2]
        lengths = self._longer.get(start)
        if lengths is not None:
            values, remaining = self.values, len(text) - position
            for length in lengths:
                if length <= remaining:
                    value = values.get(text[position : position + length], -1)
                    if value != -1:
                        return value, position + length
        start = start[:1]
        if start in self._single:
            value = self.values[start]
            if value != -1:
                return value, position + 1
        return -1, position


class TrieEncoder(WordEncoder):
    """Splits strings into the longest tokens from left to right.

    Args:
        values: The values of the tokens.
    """

    def __init__(self, values: Mapping[bytes, int]) -> None:
        super().__init__()
        self._matcher = LongestMatcher(values)

    def encode(self, word: bytes) -> tuple[int, ...]:
        """Return the values of the tokens of a string.

        Raises:
            InputError: No token begins at a position.
        """
        position, found = 0, []
        while position < len(word):
            if not position & 0xFF:
                check_time()
            value, end = self._matcher.find(word, position)
            if end == position:
                raise InputError(f"no token of the vocabulary begins at byte {position} of {shorten(word)}")
            found.append(value)
            position = end
        return tuple(found)
