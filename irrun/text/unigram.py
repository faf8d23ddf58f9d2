"""Unigram language models, as in the operation UnigramTokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from irrun.deadlines import check_time
from irrun.errors import InputError
from irrun.text.words import WordEncoder

__all__ = ["UnigramEncoder"]

_FLOAT = Struct("f")
#: The difference between the score of the worst token and the score of an unknown character.
_PENALTY = 10.0
#: Numbers with a larger relative difference stay different when rounded to f32.
_CLOSE = 2.0**-22
#: Size of a character in bytes, by the upper half of its first byte.
_LENGTHS = (1,) * 12 + (2, 2, 3, 4)


class UnigramEncoder(WordEncoder):
    """Splits words into the tokens with the largest sum of scores, in f32.

    Args:
        tokens: The tokens; ids are positions. If tokens are equal, the first one counts.
        scores: Their scores, numbers of f32.
        unknown: The id of characters without a token. Consecutive unknown characters form one token.

    Raises:
        InputError: A token is empty.
    """

    def __init__(self, tokens: Sequence[bytes], scores: Sequence[float], unknown: int) -> None:
        super().__init__()
        self._ids: dict[bytes, int] = {}
        # Tokens end at the first zero byte. If that makes tokens equal, the first one counts.
        zeros = sorted((token, i) for i, token in enumerate(tokens) if b"\0" in token)
        for i in range(len(tokens) - 1, -1, -1):
            self._ids[tokens[i]] = i
        for token, _ in zeros:
            self._ids.setdefault(token.partition(b"\0")[0], self._ids.pop(token, -1))
        if b"" in self._ids:
            raise InputError(f"the token {self._ids[b'']} of the vocabulary is empty")
        self._scores = scores
        self._unknown = unknown
        self._unknown_score = _round(min(scores, default=0.0) - _PENALTY)
        lengths: dict[bytes, set[int]] = {}
        for start, length in {(token[:3], len(token)) for token in self._ids}:
            lengths.setdefault(start, set()).add(length)
        # Tokens that begin with the same bytes, including shorter tokens.
        self._lengths = {
            start: tuple(sorted(found.union(*(lengths.get(start[:n], ()) for n in range(1, len(start))))))
            for start, found in lengths.items()
        }

    def encode(self, word: bytes) -> tuple[int, ...]:
        """Return the ids of the tokens of a word."""
        size = len(word)
        if not size:
            return ()
        get, get_lengths, scores = self._ids.get, self._lengths.get, self._scores
        best, starts, tokens = [0.0] * (size + 1), [-1] * (size + 1), [self._unknown] * (size + 1)
        start = 0
        while start < size:
            if not start & 0xFF:
                check_time()
            so_far = _round(best[start])
            step = min(_LENGTHS[word[start] >> 4], size - start)
            lengths = get_lengths(word[start : start + 3]) or get_lengths(word[start : start + 2]) or ()
            lengths = lengths or get_lengths(word[start : start + 1]) or ()
            has_character = False
            for length in lengths:
                end = start + length
                if end > size:
                    break
                token = get(word[start:end])
                if token is None:
                    continue
                score = scores[token] + so_far
                if length == step:
                    has_character = True
                if starts[end] < 0 or _is_greater(score, best[end]):
                    best[end], starts[end], tokens[end] = score, start, token
            if not has_character:
                end = start + step
                score = self._unknown_score + so_far
                if starts[end] < 0 or _is_greater(score, best[end]):
                    best[end], starts[end], tokens[end] = score, start, self._unknown
            start += step
        return self._collect(starts, tokens)

    def _collect(self, starts: list[int], tokens: list[int]) -> tuple[int, ...]:
        """Return the best tokens, from the end to the beginning and reversed."""
        unknown, end, previous, found = self._unknown, len(starts) - 1, -1, []
        while end > 0:
            token, end = tokens[end], starts[end]
            if not (token == previous == unknown):
                found.append(token)
                previous = token
        return tuple(reversed(found))


def _round(value: float) -> float:
    """Round a number to f32."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _is_greater(a: float, b: float) -> bool:
    """Return whether a number is greater than another after rounding to f32."""
    return a > b and (a - b > _CLOSE * max(abs(a), abs(b)) or _round(a) > _round(b))
