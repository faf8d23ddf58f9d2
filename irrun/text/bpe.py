"""Byte pair encoding, as in the operation BPETokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from typing import Any

import numpy as np

from irrun.deadlines import check_time, within_time
from irrun.errors import InputError
from irrun.limits import check_scratch
from irrun.text.merge_borders import BETWEEN_WORDS, SEPARATOR, can_separate, find_borders
from irrun.text.trie import LongestMatcher
from irrun.text.words import Memo, WordEncoder, shorten

__all__ = ["BytePairEncoder"]

Array = np.ndarray[Any, Any]

#: The rank of a pair that does not merge.
_NEVER = 1 << 72
#: Number of bits for the age of a pair in a priority; the rank is above them.
_AGE_BITS = 32
#: Up to this many symbols, the next pair of a word is found by searching, not by a heap.
_MAX_SEARCHED = 48
#: Number of symbols of a long word that are merged at a time, and memory per byte of such a word.
_SEGMENT, _BYTES_PER_BYTE = 1 << 18, 32
#: Maximum number of runs of symbols with kept tokens.
MAX_RUNS = 1 << 16


class _TieError(Exception):
    """Two pairs are equal and became neighbors at the same time, so their order depends on the heap."""


class BytePairEncoder(WordEncoder):
    """Splits words into tokens by merging pairs of symbols.

    The symbols of a word are the longest tokens that no merge creates. The neighboring pair of lowest rank is merged
    next; among equal pairs, the pair that became neighbors first.

    Args:
        vocabulary: The ids of tokens, including added tokens. The encoder keeps and modifies it.
        merges: The left and the right parts of the pairs that merge, by rank.
        unknown: The token for a byte without a token. If the vocabulary does not contain it, such bytes are dropped.
        end_suffix: The suffix of each word.
        byte_fallback: Whether tokens such as `<0x0A>` represent bytes without a token.

    Raises:
        InputError: The vocabulary does not contain a part of a pair, or its merged token.
    """

    def __init__(
        self,
        vocabulary: dict[bytes, int],
        merges: tuple[Sequence[bytes], Sequence[bytes]],
        unknown: bytes = b"",
        end_suffix: bytes = b"",
        byte_fallback: bool = False,
    ) -> None:
        super().__init__()
        self._parts: Memo[tuple[int, ...]] = Memo()
        self._runs: dict[tuple[int, ...], list[int]] = {}
        lefts, rights = merges
        merged = [left + right for left, right in zip(lefts, rights, strict=True)]
        left_ids = _find_ids(vocabulary, lefts, merges)
        right_ids = _find_ids(vocabulary, rights, merges)
        merged_ids = _find_ids(vocabulary, merged, merges)
        self._unknown = _find_defined(vocabulary, unknown)
        self._end_suffix = end_suffix
        for token in set(merged):
            del vocabulary[token]
        self._merged_ids: list[int] = merged_ids.tolist()
        pairs = (left_ids << 32) + right_ids
        ranks = np.arange(pairs.size, dtype=np.int64) << _AGE_BITS
        self._ranks: dict[int, int] = dict(zip(pairs.tolist(), ranks.tolist(), strict=True))
        self._matcher = LongestMatcher(vocabulary)
        self._bytes = [_find_defined(vocabulary, b"<0x%02X>" % i) if byte_fallback else None for i in range(256)]
        self._characters, self._starts = _find_characters(vocabulary)
        codes = [_find_defined(vocabulary, bytes([code])) for code in range(256)]
        self._codes = None if None in codes else codes
        self._long_codes = frozenset(token[0] for token in vocabulary if len(token) > 1)
        borders = find_borders(left_ids, right_ids, merged_ids, vocabulary, self._unknown)
        self._borders = None if borders is None else frozenset(borders.tolist())
        drops = self._unknown is None and None in self._bytes
        self._separates = borders is not None and not drops and can_separate(borders, vocabulary)

    def encode(self, word: bytes) -> tuple[int, ...]:
        """Return the ids of the tokens of a word."""
        word += self._end_suffix
        if len(word) > _SEGMENT:
            check_scratch(_BYTES_PER_BYTE * len(word))
        try:
            if self._separates and word.find(SEPARATOR, 1) > 0:
                parts = self._parts.look_up(BETWEEN_WORDS.findall(word), self._encode_part)
                return tuple(chain.from_iterable(parts))
            return self._encode_part(word)
        except _TieError:
            return tuple(self._merge_in_order(self._find_symbols(word)))

    def _encode_part(self, part: bytes) -> tuple[int, ...]:
        return tuple(self._merge(self._find_symbols(part)))

    def _find_symbols(self, text: bytes) -> list[int]:
        """Return the ids of the symbols that a text consists of."""
        if self._codes is not None and self._long_codes.isdisjoint(text):
            return _find_each(self._codes.__getitem__, text)  # type: ignore[return-value]
        try:
            characters = text.decode()
        except UnicodeDecodeError:
            return self._find_long_symbols(text)
        if self._starts.isdisjoint(characters):
            found = _find_each(self._characters.get, characters)
            if None not in found:
                return found  # type: ignore[return-value]
        return self._find_long_symbols(text)

    def _find_long_symbols(self, text: bytes) -> list[int]:
        symbols: list[int] = []
        find, size, position = self._matcher.find, len(text), 0
        while position < size:
            if not position & 0xFF:
                check_time()
            symbol, end = find(text, position)
            if end > position:
                symbols.append(symbol)
                position = end
                continue
            fallback = self._bytes[text[position]]
            if fallback is None:
                fallback = self._unknown
            if fallback is not None:
                symbols.append(fallback)
            position += 1
        return symbols

    def _merge(self, ids: list[int]) -> list[int]:
        """Return the tokens of symbols.

        Raises:
            _TieError: Two pairs are equal and of the same age.
        """
        if len(ids) <= _MAX_SEARCHED:
            return self._merge_by_search(ids)
        if self._borders is None:
            return self._merge_by_heap(ids)
        merge = self._merge_runs if len(ids) <= _SEGMENT else self._merge_segments
        return merge(ids, self._borders)

    def _merge_segments(self, ids: list[int], borders: frozenset[int]) -> list[int]:
        """Return the tokens of a long list of symbols, cut where no merge joins neighbors."""
        tokens: list[int] = []
        start, count = 0, len(ids)
        while start < count:
            check_time()
            stop = min(start + _SEGMENT, count)
            while stop < count and (ids[stop - 1] << 32) + ids[stop] in borders:
                stop += 1
            tokens += self._merge_runs(ids[start:stop], borders)
            start = stop
        return tokens

    def _merge_runs(self, ids: list[int], borders: frozenset[int]) -> list[int]:
        """Return the tokens of symbols, run by run."""
        # If a pair is not at the border of any merge, no merge joins the symbols on its two sides.
        stops = [i for i, (left, right) in enumerate(pairwise(ids), 1) if (left << 32) + right not in borders]
        tokens: list[int] = []
        for start, stop in pairwise([0, *stops, len(ids)]):
            if stop - start == 1:
                tokens.append(ids[start])
                continue
            part = ids[start:stop]
            if len(part) > _MAX_SEARCHED:
                tokens += self._merge_by_heap(part)
                continue
            key = tuple(part)
            merged = self._runs.get(key)
            if merged is None:
                merged = self._merge_by_search(part)
                if len(self._runs) >= MAX_RUNS:
                    self._runs.clear()
                self._runs[key] = merged
            tokens += merged
        return tokens

    def _merge_by_search(self, ids: list[int]) -> list[int]:
        """Merge the pairs of a short list in place, and return it."""
        get, merged_ids = self._ranks.get, self._merged_ids
        keys = [get((left << 32) + right, _NEVER) + age for age, (left, right) in enumerate(pairwise(ids))]
        age = len(keys)
        while keys:
            lowest = min(keys)
            if lowest >= _NEVER:
                break
            i = keys.index(lowest)
            merged = ids[i] = merged_ids[lowest >> _AGE_BITS]
            del ids[i + 1], keys[i]
            age += 1
            if i:
                keys[i - 1] = get((ids[i - 1] << 32) + merged, _NEVER) + age
            if i < len(keys):
                keys[i] = get((merged << 32) + ids[i + 1], _NEVER) + age
                if i and keys[i] == keys[i - 1] < _NEVER:
                    raise _TieError
        return ids

    def _merge_by_heap(self, symbols: list[int]) -> list[int]:
        """Return the tokens of a long list of symbols."""
        get, merged_ids, ids, count = self._ranks.get, self._merged_ids, symbols.copy(), len(symbols)
        keys = [get((left << 32) + right, _NEVER) + age for age, (left, right) in enumerate(pairwise(ids))]
        # Bits below the age hold the position of the left symbol.
        heap = [(key << 32) + i for i, key in enumerate(keys) if key < _NEVER]
        heapify(heap)
        keys.append(_NEVER)
        following, previous, age = list(range(1, count + 1)), list(range(-1, count - 1)), count
        while heap:
            entry = heappop(heap)
            key, i = entry >> 32, entry & 0xFFFFFFFF
            if keys[i] != key:
                continue
            if not age & 0xFFFF:
                check_time()
            age += 1
            right = following[i]
            merged = ids[i] = merged_ids[key >> _AGE_BITS]
            ids[right] = keys[right] = -1
            after = following[i] = following[right]
            before = previous[i]
            left_key = keys[i] = _NEVER
            if before >= 0:
                left_key = keys[before] = get((ids[before] << 32) + merged, _NEVER) + age
                if left_key < _NEVER:
                    heappush(heap, (left_key << 32) + before)
            if after < count:
                previous[after] = i
                right_key = keys[i] = get((merged << 32) + ids[after], _NEVER) + age
                if right_key < _NEVER:
                    if right_key == left_key:
                        raise _TieError
                    heappush(heap, (right_key << 32) + i)
        tokens, i = [], 0
        while i < count:
            tokens.append(ids[i])
            i = following[i]
        return tokens

    def _merge_in_order(self, ids: list[int]) -> list[int]:
        """Return the tokens of symbols; equal pairs of the same age merge in the order of libstdc++'s heap."""
        get, symbols, count = self._ranks.get, ids.copy(), len(ids)
        following, previous = [*range(1, count), -1], list(range(-1, count - 1))
        heap: list[tuple[int, int, int]] = []
        for age, (left, right) in enumerate(pairwise(ids)):
            key = get((left << 32) + right, _NEVER) + age
            if key < _NEVER:
                _push(heap, (key, age, age + 1))
        alive, age = [True] * count, count
        while heap:
            key, first, second = _pop(heap)
            if not (alive[first] and alive[second]):
                continue
            if not age & 0xFFFF:
                check_time()
            age += 1
            before, after, merged = previous[first], following[second], len(symbols)
            symbols.append(self._merged_ids[key >> _AGE_BITS])
            alive[first] = alive[second] = False
            alive.append(True)
            previous.append(before)
            following.append(after)
            if before >= 0:
                following[before] = merged
            if after >= 0:
                previous[after] = merged
            for left, right in ((before, merged), (merged, after)):
                key = get((symbols[left] << 32) + symbols[right], _NEVER) + age if min(left, right) >= 0 else _NEVER
                if key < _NEVER:
                    _push(heap, (key, left, right))
        i = next((i for i in range(len(symbols)) if alive[i] and previous[i] < 0), -1)
        tokens = []
        while i >= 0:
            tokens.append(symbols[i])
            i = following[i]
        return tokens


def _find_each(find: Callable[[Any], int | None], symbols: Sequence[Any]) -> list[int | None]:
    """Return the results of a function for many bytes or characters."""
    if len(symbols) <= _SEGMENT:
        return list(map(find, symbols))
    found: list[int | None] = []
    for start in within_time(range(0, len(symbols), _SEGMENT)):
        found += map(find, symbols[start : start + _SEGMENT])
    return found


def _push(heap: list[tuple[int, int, int]], value: tuple[int, int, int], top: int = 0, hole: int | None = None) -> None:
    """Add a value to a heap as `std::push_heap` of libstdc++ does, or move it up from a hole."""
    if hole is None:
        hole = len(heap)
        heap.append(value)
    while hole > top:
        parent = (hole - 1) // 2
        if heap[parent][0] <= value[0]:
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = value


def _pop(heap: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    """Remove the first value of a heap as `std::pop_heap` of libstdc++ does."""
    lowest, value = heap[0], heap.pop()
    size, hole, child = len(heap), 0, 0
    if not size:
        return lowest
    while child < (size - 1) // 2:
        child = 2 * (child + 1)
        if heap[child][0] > heap[child - 1][0]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * (child + 1) - 1
        heap[hole] = heap[child]
        hole = child
    _push(heap, value, 0, hole)
    return lowest


def _find_ids(
    vocabulary: dict[bytes, int], tokens: Sequence[bytes], merges: tuple[Sequence[bytes], Sequence[bytes]]
) -> Array:
    """Return the ids of tokens, i64.

    Raises:
        InputError: The vocabulary does not contain a token.
    """
    ids = list(map(vocabulary.get, tokens))
    if None in ids:
        rank = ids.index(None)
        left, right = merges[0][rank], merges[1][rank]
        raise InputError(
            f"the merge {rank} of {shorten(left)} and {shorten(right)} needs the token {shorten(tokens[rank])},"
            " which is not in the vocabulary"
        )
    return np.array(ids, np.int64)


def _find_defined(vocabulary: dict[bytes, int], token: bytes) -> int | None:
    """Return the id of a token; None if the vocabulary does not contain it or its id is -1."""
    value = vocabulary.get(token, -1)
    return None if value == -1 else value


def _find_characters(vocabulary: dict[bytes, int]) -> tuple[dict[str, int], set[str]]:
    """Return the ids of single-character tokens, and the first characters of longer tokens."""
    characters, starts = {}, set()
    for token, value in vocabulary.items():
        text = token.decode("utf-8", "replace")
        if len(text) == 1 and value != -1 and text != "\ufffd":
            characters[text] = value
        elif text:
            starts.add(text[0])
    if "\ufffd" in starts or "\ufffd".encode() in vocabulary:
        # A token that is not valid UTF-8 may begin with a part of any character.
        prefixes = {token[:1] for token in vocabulary if not _is_text(token)}
        starts |= {text for text in characters if text.encode()[:1] in prefixes}
    return characters, starts


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
