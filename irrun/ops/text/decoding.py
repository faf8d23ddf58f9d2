"""Operations between tokens and the bytes of text."""

from __future__ import annotations

import functools

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.checks import check_rank
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.text.ragged import (
    check_integers,
    check_ranges,
    check_strings,
    expand_ranges,
    gather_ranges,
    get_flags,
    make_bounds,
)

__all__ = ["byte_fallback", "bytes_to_chars", "chars_to_bytes", "vocab_decoder"]

#: The bytes "<" and ">".
_OPENING, _CLOSING = ord("<"), ord(">")


@op(
    "VocabDecoder",
    opset="extension",
    scratch=1,
    shape="infer_decoded_tokens",
    flops=0,
    output_types=("i32", "i32", "i32", "i32", "u8"),
)
def vocab_decoder(
    ids: Array,
    begins: Array,
    ends: Array,
    chars: Array,
    skips: Array | None = None,
    *,
    skip_tokens: list[int] = [],
) -> tuple[Array, ...]:
    """Return the texts of tokens.

    Args:
        ids: i32 [batch, tokens]. Tokens that are not in the vocabulary have no text.
        begins: i32 [vocabulary].
        ends: i32 [vocabulary].
        chars: u8 [bytes].
        skips: i32 [n]: tokens without text. It replaces `skip_tokens`.
        skip_tokens: Tokens without text.

    Returns:
        Rows of strings, one per token. A row without tokens has one empty string.

    Raises:
        InputError: A token exceeds the text of the vocabulary.

    Spec:
        Defined by vocab_decoder.cpp of OpenVINO Tokenizers
    """
    check_rank("ids", ids, 2)
    for name, numbers in (("ids", ids), ("begins", begins), ("ends", ends), ("skips", skips)):
        if numbers is not None:
            check_integers(name, numbers)
    if begins.shape != ends.shape:
        raise InputError(f"the vocabulary has shapes {list(begins.shape)} and {list(ends.shape)}, expected equal ones")
    batch, count = ids.shape
    width = max(count, 1)
    check_allocation((batch, width), np.dtype(np.int64))
    tokens = ids.reshape(-1).astype(np.int64)
    known = (tokens >= 0) & (tokens < begins.size)
    skipped = np.asarray(skip_tokens if skips is None else skips, np.int64)
    if skipped.size:
        known &= ~np.isin(tokens, skipped)
    first, last = np.zeros(batch * width, np.int32), np.zeros(batch * width, np.int32)
    if count:
        first[known], last[known] = begins.reshape(-1)[tokens[known]], ends.reshape(-1)[tokens[known]]
    check_strings(first, last, chars)
    rows = make_bounds(np.full(batch, width), (batch,))
    return *rows, *make_bounds(last - first, first.shape), gather_ranges(first[known], last[known], chars)


@op(
    "ByteFallback",
    opset="extension",
    scratch=1,
    shape="infer_normalized_strings",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
def byte_fallback(begins: Array, ends: Array, chars: Array) -> tuple[Array, ...]:
    """Replace strings such as `<0x0A>` by the byte that they name.

    Other strings of six bytes in angle brackets become the byte 255.

    Args:
        begins: i32, any shape.
        ends: i32, the shape of `begins`.
        chars: u8 [bytes].

    Returns:
        The strings without gaps.

    Raises:
        InputError: The strings exceed the text.

    Spec:
        Defined by byte_fallback.cpp of OpenVINO Tokenizers
    """
    check_strings(begins, ends, chars)
    first, last = begins.reshape(-1).copy(), ends.reshape(-1).copy()
    named = np.flatnonzero(last - first == 6)
    named = named[(chars[first[named]] == _OPENING) & (chars[last[named] - 1] == _CLOSING)]
    words = chars[first[named][:, None] + np.arange(6)]
    is_bracketed = ~(words[:, 1:] == _OPENING).any(axis=1)
    named, words = named[is_bracketed], words[is_bracketed]
    last[named] = first[named] + 1
    results = make_bounds(last - first, begins.shape)
    text = gather_ranges(first, last, chars)
    if named.size:
        text = text.copy()
        text[results[0].reshape(-1)[named]] = [_BYTES.get(word.tobytes(), 255) for word in words]
    return *results, text


_BYTES = {f"<0x{code:02X}>".encode(): code for code in range(256)}


@functools.cache
def _make_byte_table() -> tuple[Array, Array]:
    """Return the characters of bytes in UTF-8, u8 [256, 2], and their sizes, [256]."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    chars = [chr(code if code in printable else next(others)).encode() for code in range(256)]
    table = np.frombuffer(b"".join(char.ljust(2, b"\0") for char in chars), np.uint8).reshape(256, 2)
    return table, np.array([len(char) for char in chars])


@op(
    "BytesToChars",
    opset="extension",
    scratch=6,
    shape="infer_ragged_strings",
    flops=0,
    output_types=("i32", "i32", "i32", "i32", "u8"),
)
def bytes_to_chars(
    row_begins: Array, row_ends: Array, begins: Array, ends: Array, chars: Array, skips: Array | None = None
) -> tuple[Array, ...]:
    """Replace each byte by the character that represents it in vocabularies of bytes.

    Args:
        row_begins: i32, any shape: where each row of strings begins.
        row_ends: i32, the shape of `row_begins`.
        begins: i32 [strings].
        ends: i32 [strings].
        chars: u8 [bytes].
        skips: Which strings stay unchanged, boolean [strings].

    Returns:
        The rows and their strings without gaps, and `skips` if it is an input. Strings outside of all rows are empty.

    Raises:
        InputError: Rows or strings are out of range.

    Spec:
        Defined by bytes_to_chars.cpp of OpenVINO Tokenizers
    """
    check_ranges(row_begins, row_ends, begins.size)
    check_strings(begins, ends, chars)
    order = expand_ranges(row_begins, row_ends)
    first, last = begins.reshape(-1)[order], ends.reshape(-1)[order]
    source = gather_ranges(first, last, chars)
    table, sizes = _make_byte_table()
    widths, pairs = sizes[source], table[source]
    if skips is not None:
        kept = np.repeat(get_flags(skips, begins.size)[order], last - first)
        widths = np.where(kept, 1, widths)
        pairs = np.where(kept[:, None], source[:, None], pairs)
    stops = np.concatenate([[0], np.cumsum(widths)])
    bounds = np.concatenate([[0], np.cumsum(last - first, dtype=np.int64)])
    strings = make_bounds(np.diff(stops[bounds]), first.shape)
    new_begins, new_ends = np.zeros(begins.size, np.int32), np.zeros(begins.size, np.int32)
    new_begins[order], new_ends[order] = strings
    text = pairs[np.arange(2) < widths[:, None]]
    results = (row_begins, row_ends, new_begins.reshape(begins.shape), new_ends.reshape(begins.shape), text)
    return results if skips is None else (*results, skips)


@functools.cache
def _make_char_table() -> Array:
    """Return the bytes of characters by the two bytes of their UTF-8; -1 for other characters."""
    codes = np.full((256, 256), -1)
    table, sizes = _make_byte_table()
    for code in np.flatnonzero(sizes == 2).tolist():
        codes[table[code, 0], table[code, 1]] = code
    return codes


@op(
    "CharsToBytes",
    opset="extension",
    scratch=7,
    shape="infer_normalized_strings",
    flops=0,
    output_types=("i32", "i32", "u8"),
)
@describes_like(bytes_to_chars)
def chars_to_bytes(
    row_begins: Array, row_ends: Array, begins: Array, ends: Array, chars: Array
) -> tuple[Array, Array, Array]:
    """Replace each character by the byte that it represents in vocabularies of bytes, and join the strings of rows.

    Returns:
        A string for each row, without gaps.

    Raises:
        InputError: Rows or strings are out of range, or a character does not represent a byte.

    Spec:
        Defined by chars_to_bytes.cpp of OpenVINO Tokenizers
    """
    check_ranges(row_begins, row_ends, begins.size)
    check_strings(begins, ends, chars)
    order = expand_ranges(row_begins, row_ends)
    first, last = begins.reshape(-1)[order], ends.reshape(-1)[order]
    source = gather_ranges(first, last, chars)
    following = np.append(source[1:], np.uint8(0))
    is_second = (source & 0xC0) == 0x80
    codes = np.where(source < 0x80, source, _make_char_table()[source, following])
    expected = np.concatenate([[False], source[:-1] >= 0xC0]) if source.size else is_second
    if (is_second != expected).any() or (codes[~is_second] < 0).any():
        raise InputError("a string has a character that does not represent a byte")
    stops = np.concatenate([[0], np.cumsum(~is_second)])
    bounds = np.concatenate([[0], np.cumsum(last - first, dtype=np.int64)])
    rows = np.concatenate([[0], np.cumsum((row_ends - row_begins).reshape(-1))])
    strings = make_bounds(np.diff(stops[bounds[rows]]), row_begins.shape)
    return *strings, codes[~is_second].astype(np.uint8)
