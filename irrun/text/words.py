"""Words that tokenizers encode one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import le
from typing import Any, Generic, TypeVar

import numpy as np

from irrun.deadlines import check_time
from irrun.limits import check_allocation
from irrun.text.ragged import check_ranges, check_size, check_strings, expand_ranges, make_bounds

__all__ = ["Memo", "WordEncoder", "encode_rows", "read_vocabulary", "shorten"]

Array = np.ndarray[Any, Any]
T = TypeVar("T")

#: Maximum number of words with kept results.
MAX_WORDS = 1 << 17
#: Maximum size of a word whose result is kept, in bytes.
MAX_KEPT_BYTES = 1 << 10
#: Number of words encoded at once.
BLOCK = 1 << 16
#: Up to this many words, encoding does not use NumPy for each step.
FEW = 64
#: Memory per vocabulary token besides its text, in bytes.
TOKEN_BYTES = 160


class Memo(Generic[T]):
    """Results of a function of words. The latest results are kept."""

    def __init__(self) -> None:
        self._results: dict[bytes, T] = {}

    def look_up(self, words: Sequence[bytes], encode: Callable[[bytes], T]) -> list[T]:
        """Return the result of each word.

        Args:
            words: The words.
            encode: The function of a word.
        """
        results = self._results
        found = list(map(results.get, words))
        if None not in found:
            return found  # type: ignore[return-value]
        computed = {}
        for word in {word for word, result in zip(words, found, strict=True) if result is None}:
            if len(word) > MAX_KEPT_BYTES:
                check_time()
            computed[word] = encode(word)
        if len(results) + len(computed) > MAX_WORDS:
            self._results = results = {}
        results.update((word, result) for word, result in computed.items() if len(word) <= MAX_KEPT_BYTES)
        return [computed[word] if result is None else result for word, result in zip(words, found, strict=True)]


class WordEncoder(ABC):
    """Encodes words. A word has the same tokens everywhere."""

    def __init__(self) -> None:
        self._words: Memo[tuple[int, ...]] = Memo()

    @abstractmethod
    def encode(self, word: bytes) -> tuple[int, ...]:
        """Return the ids of the tokens of a word."""

    def encode_all(self, words: Sequence[bytes]) -> list[tuple[int, ...]]:
        """Return the ids of the tokens of each word."""
        return self._words.look_up(words, self.encode)


def encode_rows(
    encoder: WordEncoder, row_begins: Array, row_ends: Array, begins: Array, ends: Array, chars: Array
) -> tuple[Array, Array, Array]:
    """Return the tokens of rows of words.

    Args:
        encoder: Encodes words.
        row_begins: The first word of each row, i32, any shape.
        row_ends: The end of each row, the shape of `row_begins`.
        begins: The start of each word in the text, i32 of any shape.
        ends: The end of each word, the shape of `begins`.
        chars: The text, u8 [bytes].

    Returns:
        The begins and ends of each row's tokens, i32 of the shape of `row_begins`, and the tokens, i32 [number].

    Raises:
        InputError: The rows exceed the words, or the words exceed the text.
    """
    if begins.size <= FEW and row_begins.size <= FEW and begins.ndim == row_begins.ndim == 1:
        few = _encode_few(encoder, row_begins, row_ends, begins, ends, chars)
        if few is not None:
            return few
    check_strings(begins, ends, chars)
    check_ranges(row_begins, row_ends, begins.size)
    flat_begins, flat_ends = begins.reshape(-1), ends.reshape(-1)
    first, last = row_begins.reshape(-1), row_ends.reshape(-1)
    if not (first.size and first[0] == 0 and last[-1] == begins.size and (first[1:] == last[:-1]).all()):
        selected = expand_ranges(first, last)
        flat_begins, flat_ends = flat_begins[selected], flat_ends[selected]
    text, counts, tokens = chars.tobytes(), [np.zeros(1, np.int64)], []
    for start in range(0, flat_begins.size, BLOCK):
        check_time()
        block = slice(start, start + BLOCK)
        check_size(flat_begins[block], flat_ends[block], chars)
        words = [text[a:b] for a, b in zip(flat_begins[block].tolist(), flat_ends[block].tolist(), strict=True)]
        encoded = encoder.encode_all(words)
        counts.append(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        tokens.append(np.fromiter(chain.from_iterable(encoded), np.int32, int(counts[-1].sum())))
    totals = np.cumsum(np.concatenate(counts))
    stops = np.cumsum(last.astype(np.int64) - first)
    row_counts = totals[stops] - totals[stops - (last - first)]
    bounds = make_bounds(row_counts, row_begins.shape)
    return *bounds, np.concatenate(tokens) if tokens else np.empty(0, np.int32)


def _encode_few(
    encoder: WordEncoder, row_begins: Array, row_ends: Array, begins: Array, ends: Array, chars: Array
) -> tuple[Array, Array, Array] | None:
    """Return the tokens of a few words without NumPy calls in each step; None if the rows are not in order."""
    stops, count = row_ends.tolist(), len(begins)
    if not stops or row_begins.tolist() != [0, *stops[:-1]] or stops[-1] != count or stops != sorted(stops):
        return None
    first, last = begins.tolist(), ends.tolist()
    if chars.dtype != np.uint8 or chars.ndim != 1 or ends.shape != begins.shape or not all(map(le, first, last)):
        return None
    if count and (min(first) < 0 or max(last) > chars.size):
        return None
    text = chars.tobytes()
    encoded = encoder.encode_all([text[a:b] for a, b in zip(first, last, strict=True)])
    totals = list(accumulate(map(len, encoded), initial=0))
    bounds = np.array([0, *[totals[stop] for stop in stops]], np.int32)
    return bounds[:-1], bounds[1:], np.array(list(chain.from_iterable(encoded)), np.int32)


def read_vocabulary(begins: Array, ends: Array, chars: Array) -> list[bytes]:
    """Return the tokens of a vocabulary.

    Args:
        begins: The start of each token, i32.
        ends: The end of each token, the shape of `begins`.
        chars: The text, u8 [bytes].

    Raises:
        InputError: The tokens exceed the text, or the memory limit.
    """
    check_strings(begins, ends, chars)
    total = int(ends.sum(dtype=np.int64) - begins.sum(dtype=np.int64))
    check_allocation((total + TOKEN_BYTES * begins.size,), np.dtype(np.uint8))
    text = chars.tobytes()
    return [text[a:b] for a, b in zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)]


def shorten(text: bytes) -> str:
    """Return a token for messages."""
    try:
        shown = text.decode()
    except UnicodeDecodeError:
        return repr(text if len(text) <= 40 else text[:37] + b"...")
    return repr(shown if len(shown) <= 40 else shown[:37] + "...")
