"""WordPiece, as in the operation WordpieceTokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from irrun.deadlines import check_time
from irrun.text.trie import LongestMatcher
from irrun.text.words import WordEncoder

__all__ = ["WordPieceEncoder"]


class WordPieceEncoder(WordEncoder):
    """Splits words into the longest tokens from left to right.

    Args:
        tokens: The tokens; ids are positions.
        prefix: The prefix of tokens inside words.
        max_bytes: Maximum size of a word that is split, in bytes.
        unknown: The id of words that cannot be split.
    """

    def __init__(self, tokens: Sequence[bytes], prefix: bytes, max_bytes: int, unknown: int) -> None:
        super().__init__()
        size = len(prefix)
        inner = {token[size:]: i for i, token in enumerate(tokens) if token.startswith(prefix)}
        self._first = LongestMatcher({token: i for i, token in enumerate(tokens) if not token.startswith(prefix)})
        self._inner = LongestMatcher(inner)
        self._max_bytes = max_bytes
        self._unknown = (unknown,)

    def encode(self, word: bytes) -> tuple[int, ...]:
        """Return the ids of the tokens of a word."""
        if len(word) > self._max_bytes or not word:
            return self._unknown
        token, position = self._first.find(word, 0)
        if token == -1:
            return self._unknown
        tokens = [token]
        while position < len(word):
            if not position & 0xFF:
                check_time()
            token, position = self._inner.find(word, position)
            if token == -1:
                return self._unknown
            tokens.append(token)
        return tuple(tokens)
