"""Borders of merges: pairs of symbols between which no merge can join a word, so that its parts are independent."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

__all__ = ["can_separate", "find_borders", "find_equal_symbols"]

Array = np.ndarray[Any, Any]

#: Maximum number of distinct pairs of symbols at the borders of merges.
MAX_BORDERS = 1 << 22
#: The character that separates words in vocabularies of SentencePiece.
SEPARATOR = "\u2581".encode()
#: A word with the separators before it; the first one may have none.
BETWEEN_WORDS = re.compile(
    rb"(?:(?:\xe2\x96\x81)+[^\xe2]*|[^\xe2]+|\xe2(?!\x96\x81)[^\xe2]*)(?:\xe2(?!\x96\x81)[^\xe2]*)*"
)


def find_borders(
    lefts: Array, rights: Array, merged: Array, vocabulary: dict[bytes, int], unknown: int | None
) -> Array | None:
    """Return the pairs of symbols that meet where two tokens merge, one i64 each; None if there are too many."""
    ids = np.array([*vocabulary.values(), *([] if unknown is None else [unknown])], np.int64)
    every = np.concatenate([ids, lefts, rights, merged])
    if not every.size or every.min() < 0 or every.max() > 2 * every.size + 1000:
        return None
    count = int(every.max()) + 1
    made = np.zeros(count, bool)
    made[merged] = True
    if made[ids].any():
        return None
    first, last = np.arange(count), np.arange(count)
    first[merged], last[merged] = lefts, rights
    for symbols in (first, last):
        for _ in range(count.bit_length() + 1):
            next_symbols = symbols[symbols]
            if (next_symbols == symbols).all():
                break
            symbols[:] = next_symbols
        else:
            return None  # tokens contain each other, since some have the same id
    # A token that several pairs create may begin with several symbols, which count as equal.
    first_groups, last_groups = (
        find_equal_symbols(first[merged], first[lefts]),
        find_equal_symbols(last[merged], last[rights]),
    )
    pairs = np.unique((last[lefts] << 32) + first[rights])
    grouped = np.isin(pairs >> 32, list(last_groups)) | np.isin(pairs & 0xFFFFFFFF, list(first_groups))
    expanded = set(pairs[~grouped].tolist())
    for pair in pairs[grouped].tolist():
        left, right = pair >> 32, pair & 0xFFFFFFFF
        ends, begins = last_groups.get(left, (left,)), first_groups.get(right, (right,))
        if len(expanded) + len(ends) * len(begins) > MAX_BORDERS:
            return None
        expanded.update((end << 32) + begin for end in ends for begin in begins)
    return np.array(list(expanded), np.int64)


def find_equal_symbols(symbols: Array, others: Array) -> dict[int, list[int]]:
    """Return the symbols that are equal to others, directly or transitively, each with all equal symbols."""
    groups: dict[int, list[int]] = {}
    differ = symbols != others
    for pair in set(zip(symbols[differ].tolist(), others[differ].tolist(), strict=True)):
        a, b = (groups.setdefault(symbol, [symbol]) for symbol in pair)
        if a is not b:
            small, large = sorted((a, b), key=len)
            large += small
            groups.update((symbol, large) for symbol in small)
    return groups


def can_separate(borders: Array, vocabulary: dict[bytes, int]) -> bool:
    """Return whether the word separator begins symbols and no merge joins it with preceding symbols."""
    if SEPARATOR not in vocabulary:
        return False
    begins, ends = [], []
    for token, value in vocabulary.items():
        if token.endswith((SEPARATOR[:1], SEPARATOR[:2])):
            return False
        if SEPARATOR in token:
            if BETWEEN_WORDS.fullmatch(token) is None or not token.startswith(SEPARATOR):
                return False
            begins.append(value)
            if token.endswith(SEPARATOR):
                ends.append(value)
    return not (np.isin(borders & 0xFFFFFFFF, begins) & ~np.isin(borders >> 32, ends)).any()
