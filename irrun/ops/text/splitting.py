"""Operations that split strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.text.batch import join_batch
from irrun.text.ragged import (
    check_ranges,
    check_strings,
    expand_ranges,
    get_flags,
    list_strings,
    read_text,
)
from irrun.text.splitting import Parts, get_special_token_splitter, get_splitter

__all__ = ["regex_split", "special_tokens_split"]

#: What happens to the matches of a pattern.
Behaviour = Literal["remove", "isolate", "contiguous", "mergedwithprevious", "mergedwithnext"]


@op(
    "SpecialTokensSplit",
    opset="extension",
    scratch=8,
    shape="infer_ragged_strings",
    flops=0,
    output_types=("i32", "i32", "i32", "i32", "u8", "boolean"),
)
def special_tokens_split(
    row_begins: Array, row_ends: Array, begins: Array, ends: Array, chars: Array, *rest: Array
) -> tuple[Array, ...]:
    """Split strings at special tokens.

    Args:
        row_begins: i32, any shape: where each row of strings begins.
        row_ends: i32, the shape of `row_begins`.
        begins: i32 [strings].
        ends: i32 [strings].
        chars: u8 [bytes].
        rest: Which strings are tokens already, boolean [strings], if there are seven inputs; and a pattern, u8 [bytes],
            in which each alternative has a group that matches the token without space around it.

    Returns:
        The rows of the parts, the parts as ranges of `chars`, `chars`, and which parts are tokens, boolean [parts].

    Raises:
        InputError: Rows or strings are out of range, there are not six or seven inputs, or a search takes too long.

    Spec:
        Defined by special_tokens_split.cpp of OpenVINO Tokenizers
    """
    if len(rest) not in (1, 2):
        raise InputError(f"found {5 + len(rest)} inputs, expected 6 or 7")
    splitter = get_special_token_splitter(read_text("the pattern", rest[-1]))
    order = _order_strings(row_begins, row_ends, begins, ends, chars)
    first, last = begins.reshape(-1)[order], ends.reshape(-1)[order]
    skips = get_flags(rest[0], begins.size)[order] if len(rest) == 2 else np.zeros(order.size, bool)
    text = chars.tobytes()
    plain = skips | ~splitter.find_candidates(first, last, text)
    if plain.all() and (skips | (first < last)).all():
        return *_bound_rows(row_begins, row_ends, np.ones(order.size, np.int64)), first, last, chars, skips
    parts = [
        splitter.split(text[a:b]) if not is_plain else _keep(b - a, skip) if skip or a < b else _NOTHING
        for a, b, is_plain, skip in within_time(_zip_lists(first, last, plain, skips))
    ]
    return _assemble(row_begins, row_ends, first, chars, parts)


@op(
    "RegexSplit",
    opset="extension",
    scratch=10,
    shape="infer_ragged_strings",
    flops=0,
    output_types=("i32", "i32", "i32", "i32", "u8"),
)
def regex_split(
    row_begins: Array,
    row_ends: Array,
    begins: Array,
    ends: Array,
    chars: Array,
    *rest: Array,
    behaviour: Behaviour = "remove",
    invert: bool = False,
    max_splits: int = -1,
) -> tuple[Array, ...]:
    """Split strings at what a pattern matches.

    A pattern that PCRE2 does not compile matches nothing, and the first empty match ends the search in a string. If
    there is no text at all, the strings are returned in one row, which is empty.

    Args:
        row_begins: i32, any shape: where each row of strings begins.
        row_ends: i32, the shape of `row_begins`.
        begins: i32 [strings].
        ends: i32 [strings].
        chars: u8 [bytes].
        rest: With six inputs the pattern, u8 [bytes]. With seven, which strings are not split, boolean [strings], and
            the pattern. With nine, the pattern and strings that are not split.
        behaviour: What happens to matches.
        invert: Whether to swap the roles of matches and of the text between them.
        max_splits: The part with this number, counted from 0, extends to the end of its string; -1 for none.

    Returns:
        The rows of the parts, the parts as ranges of `chars`, `chars`, and with seven inputs which parts are not split,
        boolean [parts].

    Raises:
        InputError: Rows or strings are out of range, there is another number of inputs, or a search takes too long.

    Spec:
        Defined by regex_split.cpp of OpenVINO Tokenizers
    """
    if len(rest) not in (1, 2, 4):
        raise InputError(f"found {5 + len(rest)} inputs, expected 6, 7 or 9")
    if max_splits != -1 and max_splits <= 0:
        raise InputError(f"max_splits is {max_splits}, expected -1 or at least 1")
    has_flags = len(rest) == 2
    if not chars.size:
        zero = np.zeros(1, np.int32)
        return zero, zero, begins, ends, chars, *rest[:has_flags]
    splitter = get_splitter(read_text("the pattern", rest[has_flags]), behaviour, invert, max_splits)
    order = _order_strings(row_begins, row_ends, begins, ends, chars)
    first, last = begins.reshape(-1)[order], ends.reshape(-1)[order]
    skips = np.zeros(order.size, bool)
    if has_flags:
        skips = get_flags(rest[0], begins.size)[order]
    elif len(rest) == 4:
        check_strings(*rest[1:])
        tokens = frozenset(list_strings(*rest[1:]))
        skips = np.array([text in tokens for text in list_strings(first, last, chars)], bool)
    batch = join_batch(first, last, chars)
    found = splitter.split_all(batch, skips) if batch is not None else None
    if batch is not None and found is not None:
        counts, part_begins, part_ends, flags = found
        shifts = np.repeat(first - batch.byte_bounds[:-1], counts)
        bounds = [(edges + shifts).astype(np.int32) for edges in (part_begins, part_ends)]
        strings = [*_bound_rows(row_begins, row_ends, counts), *bounds, chars]
    else:
        split = splitter.split
        pairs = within_time(zip(list_strings(first, last, chars), skips.tolist(), strict=True))
        parts = [_keep(len(text), True) if skip else split(text) for text, skip in pairs]
        *strings, flags = _assemble(row_begins, row_ends, first, chars, parts)
    return (*strings, flags) if has_flags else tuple(strings)


_NOTHING = Parts([], [], [])


def _keep(size: int, flag: bool) -> Parts:
    """Return a string as its only part."""
    return Parts([0], [size], [flag])


def _zip_lists(*arrays: Array) -> Iterator[tuple[Any, ...]]:
    """Yield the elements of arrays that have the same position."""
    return zip(*(array.tolist() for array in arrays), strict=True)


def _order_strings(row_begins: Array, row_ends: Array, begins: Array, ends: Array, chars: Array) -> Array:
    """Return the numbers of the strings of all rows, row by row.

    Raises:
        InputError: Rows or strings are out of range.
    """
    check_ranges(row_begins, row_ends, begins.size)
    check_strings(begins, ends, chars)
    return expand_ranges(row_begins, row_ends)


def _assemble(
    row_begins: Array, row_ends: Array, first: Array, chars: Array, parts: Sequence[Parts]
) -> tuple[Array, ...]:
    """Return the parts of all strings as ragged strings, and their flags.

    Args:
        row_begins: Where the rows of strings begin.
        row_ends: Where they end.
        first: Where each string of the rows begins in `chars`.
        chars: The text.
        parts: The parts of each string.
    """
    counts = np.array([len(part.begins) for part in parts], np.int64)
    pairs = list(zip(first.tolist(), parts, strict=True))
    begins, ends = (np.array([base + edge for base, part in pairs for edge in part[i]], np.int32) for i in range(2))
    flags = np.array([flag for part in parts for flag in part.flags], bool)
    return *_bound_rows(row_begins, row_ends, counts), begins, ends, chars, flags


def _bound_rows(row_begins: Array, row_ends: Array, counts: Array) -> tuple[Array, Array]:
    """Return where rows of parts begin and end, by the number of parts of each string of the rows."""
    stops = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=stops[1:])
    ends = stops[np.cumsum((row_ends - row_begins).reshape(-1))].astype(np.int32)
    begins = np.zeros_like(ends)
    begins[1:] = ends[:-1]
    return begins.reshape(row_begins.shape), ends.reshape(row_begins.shape)
