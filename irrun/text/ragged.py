"""Strings and ragged tensors as arrays.

Strings are ranges `begins`, `ends` of the bytes `chars`; rows of a ragged tensor are ranges of its elements. Ranges may
overlap, leave gaps and be in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.limits import LARGE, check_allocation

__all__ = [
    "check_integers",
    "check_ranges",
    "check_size",
    "check_strings",
    "expand_ranges",
    "gather_ranges",
    "get_flags",
    "join_strings",
    "list_strings",
    "make_bounds",
    "read_flag",
    "read_size",
    "read_text",
]

Array = np.ndarray[Any, Any]

#: Size of an empty string object in a list, in bytes.
STRING_BYTES = 48
#: Maximum size of `chars` that an i32 can address.
MAX_BYTES = (1 << 31) - 1
#: Up to this many ranges, checking one by one is faster.
FEW = 8


def check_ranges(begins: Array, ends: Array, size: int, kind: str = "row") -> None:
    """Check that ranges are within the elements that they refer to.

    Args:
        begins: Integer, any shape.
        ends: Integer, the shape of `begins`.
        size: The number of elements that the ranges refer to.
        kind: The name of a range in error messages: "row" or "string".

    Raises:
        InputError: The shapes differ, or a range is reversed or out of bounds.
    """
    if begins.dtype.kind not in "iu" or ends.dtype.kind not in "iu":
        raise InputError(f"the bounds of {kind}s are {begins.dtype} and {ends.dtype}, expected integers")
    if begins.shape != ends.shape:
        raise InputError(
            f"the bounds of {kind}s have shapes {list(begins.shape)} and {list(ends.shape)}, expected equal shapes"
        )
    if begins.size <= FEW:
        pairs = zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)
        if all(0 <= begin <= end <= size for begin, end in pairs):
            return
    elif begins.min() >= 0 and ends.max() <= size and (begins <= ends).all():
        return
    wrong = (begins < 0) | (ends < begins) | (ends > size)
    position = int(np.flatnonzero(wrong)[0])
    begin, end = int(begins.reshape(-1)[position]), int(ends.reshape(-1)[position])
    raise InputError(f"{kind} {position} is the range [{begin}, {end}), expected one within {size} elements")


def check_strings(begins: Array, ends: Array, chars: Array) -> None:
    """Check that strings are ranges of bytes.

    Raises:
        InputError: The strings are not ranges of bytes.
    """
    if chars.dtype != np.uint8 or chars.ndim != 1:
        raise InputError(f"the text is {chars.dtype} {list(chars.shape)}, expected bytes of shape [n]")
    check_ranges(begins, ends, chars.size, "string")


def make_bounds(lengths: Iterable[int], shape: Sequence[int]) -> tuple[Array, Array]:
    """Return the bounds of strings or rows that follow each other without gaps.

    Args:
        lengths: The length of each.
        shape: The shape of the results.

    Returns:
        The begins and ends, i32 of the shape `shape`.

    Raises:
        InputError: There are more than 2^31 - 1 elements.
    """
    if isinstance(lengths, np.ndarray):
        bounds = np.zeros(lengths.size + 1, np.int64)
        np.cumsum(lengths.reshape(-1), out=bounds[1:])
    else:
        bounds = np.array(list(accumulate(lengths, initial=0)), np.int64)
    if bounds[-1] > MAX_BYTES:
        raise InputError(f"the result has {bounds[-1]} elements, expected at most {MAX_BYTES}")
    bounds = bounds.astype(np.int32)
    return bounds[:-1].reshape(shape), bounds[1:].reshape(shape)


def list_strings(begins: Array, ends: Array, chars: Array) -> list[bytes]:
    """Return strings as bytes. The bounds must have been checked.

    Raises:
        InputError: The strings exceed the memory limit; they may overlap.
    """
    check_size(begins, ends, chars)
    text = chars.tobytes()
    return [text[a:b] for a, b in zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True)]


def check_size(begins: Array, ends: Array, chars: Array) -> None:
    """Check that strings as bytes fit in memory.

    Raises:
        InputError: The strings exceed the memory limit.
    """
    if begins.size * (chars.size + STRING_BYTES) > LARGE:
        total = int(ends.sum(dtype=np.int64) - begins.sum(dtype=np.int64))
        check_allocation((total + STRING_BYTES * begins.size,), np.dtype(np.uint8))


def join_strings(strings: Sequence[bytes], shape: Sequence[int]) -> tuple[Array, Array, Array]:
    """Return bytes as strings without gaps.

    Args:
        strings: The strings.
        shape: The shape of the bounds.

    Returns:
        Where each string begins and where it ends, i32 of the shape `shape`, and the text, u8 [number of bytes].

    Raises:
        InputError: There are more than 2^31 - 1 bytes.
    """
    begins, ends = make_bounds(map(len, strings), shape)
    return begins, ends, np.frombuffer(b"".join(strings), np.uint8)


def expand_ranges(begins: Array, ends: Array) -> Array:
    """Return the positions of all elements of ranges, one range after the other, i64.

    Raises:
        InputError: The positions exceed the memory limit.
    """
    if begins.size == 1:
        return np.arange(begins.item(), ends.item())
    first = begins.reshape(-1).astype(np.int64)
    lengths = ends.reshape(-1) - first
    stops = np.cumsum(lengths)
    total = int(stops[-1]) if stops.size else 0
    check_allocation((total,), np.dtype(np.int64))
    positions = np.arange(total, dtype=np.int64)
    positions += np.repeat(first - stops + lengths, lengths)
    return positions


def gather_ranges(begins: Array, ends: Array, values: Array) -> Array:
    """Return the elements of ranges, one range after the other.

    Args:
        begins: Where each range begins, any shape.
        ends: Where each range ends, the shape of `begins`.
        values: Any type, shape [n, ...].

    Returns:
        Shape [total length of the ranges, ...], the type of `values`; a view if the ranges have no gaps.

    Raises:
        InputError: The result exceeds the memory limit.
    """
    if begins.size < 2:
        return values[begins.item() : ends.item()] if begins.size else values[:0]
    first, last = begins.reshape(-1), ends.reshape(-1)
    if (first[1:] == last[:-1]).all():
        return values[int(first[0]) : int(last[-1])]
    return values[expand_ranges(first, last)]


def check_integers(name: str, value: Array) -> None:
    """Check that an input holds integers.

    Raises:
        InputError: The input holds other values.
    """
    if value.dtype.kind not in "iu":
        raise InputError(f"{name} is {value.dtype} {list(value.shape)}, expected integers")


def read_size(name: str, value: Array) -> int:
    """Return the size in the only element of an input.

    Raises:
        InputError: The input is anything else.
    """
    check_integers(name, value)
    if value.size != 1:
        raise InputError(f"{name} has shape {list(value.shape)}, expected one number")
    size = int(value.reshape(-1)[0])
    if size < 0:
        raise InputError(f"{name} is {size}, expected at least 0")
    return size


def get_flags(flags: Array, count: int) -> Array:
    """Return which strings an operation leaves unchanged.

    Args:
        flags: Boolean, any shape.
        count: The number of strings.

    Returns:
        Boolean [strings].

    Raises:
        InputError: The number of flags differs from the number of strings.
    """
    if flags.size != count:
        raise InputError(f"found {flags.size} flags for {count} strings")
    return flags.reshape(-1).astype(bool)


def read_text(name: str, value: Array) -> bytes:
    """Return the bytes of a text in an input, such as a pattern.

    Args:
        name: The name of the text in error messages.
        value: u8, any shape, or one string.

    Raises:
        InputError: The input holds neither.
    """
    if value.dtype == object and value.size == 1:
        return str(value.reshape(-1)[0]).encode("utf-8", "surrogateescape")
    if value.dtype != np.uint8:
        raise InputError(f"{name} is {value.dtype} {list(value.shape)}, expected bytes")
    return value.tobytes()


def read_flag(name: str, value: Array) -> bool:
    """Return the flag in the only element of an input.

    Raises:
        InputError: The input does not have one element.
    """
    if value.size != 1:
        raise InputError(f"{name} has shape {list(value.shape)}, expected one element")
    return bool(value.reshape(-1)[0])
