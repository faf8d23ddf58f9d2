"""How element values lie in a `.bin` file.

Types of whole bytes lie one after another, little-endian, at any offset. Narrower ones share bytes:

    u1                    eight to a byte, the first in the highest bit
    u2                    four to a byte, the first in the lowest bits
    u4, i4, nf4, f4e2m1   two to a byte, the first in the low nibble
    u3                    eight to three bytes: their low two bits fill two bytes, their high bits the third
    u6                    four to three bytes: their low nibbles fill two bytes, their high two bits the third

where u3 and u6 fill each byte from its highest bits down. A string constant is `int32 count, int32 begin,
int32 end[count]`, then the UTF-8 text of all strings without separators; `begin` and `end` count from there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from irrun.element_types import ElementType

__all__ = ["pack", "unpack"]

Array = np.ndarray[Any, Any]


def unpack(element: ElementType, buffer: Any, shape: Sequence[int]) -> Array:
    """The tensor of `shape` that begins where `buffer` begins.

    Types of whole bytes come as a view of `buffer`, not aligned and not writable. What follows the last
    element is ignored.

    Args:
        element: the type of the elements.
        buffer: bytes, a memoryview, a mapped file or a contiguous array.
        shape: the dimensions, all known.

    Raises:
        ValueError: the buffer is too short, or the offsets of its strings do not fit into it.
    """
    raw = _raw(buffer)
    shape = tuple(int(n) for n in shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"shape {list(shape)} has a negative dimension")
    count = math.prod(shape)
    if element.name == "string":
        return _unpack_strings(raw, count).reshape(shape)
    size = element.byte_size(count)
    if raw.size < size:
        raise ValueError(
            f"{count} elements of {element} in shape {list(shape)} take {size} bytes, the buffer has {raw.size}"
        )
    raw = raw[:size]
    if element.is_packed:
        values = _FROM_BITS[element.name](raw)[:count].view(element.dtype)
    elif element.name == "boolean":
        # OpenVINO takes every byte but 0 for true; NumPy's bool must be 0 or 1.
        values = (raw if count == 0 or raw.max() <= 1 else raw != 0).view(np.bool_)
    else:
        values = raw.view(element.dtype)
        if sys.byteorder == "big" and element.bits > 8:
            values = values.view(f"u{element.bits // 8}").byteswap().view(element.dtype)
    values = values.reshape(shape)
    values.flags.writeable = False
    return values


def pack(element: ElementType, array: Array) -> bytes:
    """The bytes that hold `array` in a `.bin` file.

    Args:
        element: the type of the elements.
        array: of NumPy's type for `element`.

    Raises:
        ValueError: the array is of another type, or its strings exceed 2 GiB.
    """
    array = np.asarray(array)
    if element.name == "string":
        return _pack_strings(array)
    if array.dtype.newbyteorder("=") != element.dtype:
        raise ValueError(f"an array of {array.dtype} does not hold {element}")
    array = np.ascontiguousarray(array, element.dtype).reshape(-1)
    if element.is_packed:
        return _TO_BITS[element.name](array.view(np.uint8) & np.uint8((1 << element.bits) - 1)).tobytes()
    if sys.byteorder == "big" and element.bits > 8:
        array = array.view(f"u{element.bits // 8}").byteswap()
    return array.tobytes()


def _raw(buffer: Any) -> Array:
    view = memoryview(buffer).cast("B") if not isinstance(buffer, np.ndarray) else buffer.reshape(-1).view(np.uint8)
    return np.frombuffer(view, np.uint8) if len(view) else np.zeros(0, np.uint8)


def _split(raw: Array, shifts: Sequence[int]) -> Array:
    """Every byte cut into as many fields as there are `shifts`, in their order; fields are of equal width."""
    mask = np.uint8((1 << (8 // len(shifts))) - 1)
    fields = (raw[..., None] >> np.array(shifts, np.uint8)) & mask
    split: Array = fields.reshape(*raw.shape[:-1], raw.shape[-1] * len(shifts))
    return split


def _join(codes: Array, shifts: Sequence[int]) -> Array:
    """The inverse of `_split`; the last byte is filled up with zeros."""
    missing = -codes.shape[-1] % len(shifts)
    if missing:
        codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, missing)])
    fields = codes.reshape(*codes.shape[:-1], codes.shape[-1] // len(shifts), len(shifts))
    joined: Array = np.bitwise_or.reduce(fields << np.array(shifts, np.uint8), axis=-1)
    return joined


_BITS = range(7, -1, -1)
_PAIRS = (6, 4, 2, 0)
_PAIRS_UP = (0, 2, 4, 6)
_NIBBLES = (4, 0)
_NIBBLES_UP = (0, 4)


def _split_groups(raw: Array, low: Sequence[int], high: Sequence[int]) -> Array:
    groups = raw.reshape(-1, 3)
    codes: Array = _split(groups[:, :2], low) | _split(groups[:, 2:], high) << np.uint8(8 // len(low))
    return codes.reshape(-1)


def _join_groups(codes: Array, low: Sequence[int], high: Sequence[int]) -> Array:
    per_group, width = 2 * len(low), np.uint8(8 // len(low))
    codes = np.pad(codes, (0, -codes.size % per_group))
    codes = codes.reshape(codes.size // per_group, per_group)
    low_part = codes & ((np.uint8(1) << width) - np.uint8(1))
    return np.concatenate([_join(low_part, low), _join(codes >> width, high)], axis=1)


_FROM_BITS: dict[str, Callable[[Array], Array]] = {
    "u1": np.unpackbits,
    "u2": lambda raw: _split(raw, _PAIRS_UP),
    "u3": lambda raw: _split_groups(raw, _PAIRS, _BITS),
    "u6": lambda raw: _split_groups(raw, _NIBBLES, _PAIRS),
    **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), lambda raw: _split(raw, _NIBBLES_UP)),
}
_TO_BITS: dict[str, Callable[[Array], Array]] = {
    "u1": np.packbits,
    "u2": lambda codes: _join(codes, _PAIRS_UP),
    "u3": lambda codes: _join_groups(codes, _PAIRS, _BITS),
    "u6": lambda codes: _join_groups(codes, _NIBBLES, _PAIRS),
    **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), lambda codes: _join(codes, _NIBBLES_UP)),
}


def _unpack_strings(raw: Array, count: int) -> Array:
    header = 4 * (count + 2)
    if raw.size < header:
        raise ValueError(f"{count} strings need a header of {header} bytes, the buffer has {raw.size}")
    numbers = raw[:header].view("<i4")
    if numbers[0] != count:
        raise ValueError(f"the buffer says it holds {numbers[0]} strings, the shape says {count}")
    offsets = numbers[1:]
    if offsets[0] < 0 or (np.diff(offsets.astype(np.int64)) < 0).any() or offsets[-1] > raw.size - header:
        raise ValueError(f"offsets of strings do not fit into {raw.size - header} bytes of text")
    text = raw[header : header + int(offsets[-1])].tobytes()
    bounds = offsets.tolist()
    found = np.empty(count, object)
    # Bytes that are no UTF-8 survive a round trip as lone surrogates.
    found[:] = [text[begin:end].decode("utf-8", "surrogateescape") for begin, end in pairwise(bounds)]
    return found


def _pack_strings(array: Array) -> bytes:
    encoded = [
        s if isinstance(s, bytes) else str(s).encode("utf-8", "surrogateescape") for s in array.reshape(-1).tolist()
    ]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"strings of {ends[-1]} bytes exceed what a string constant can hold")
    return np.array([len(encoded), *ends], "<i4").tobytes() + b"".join(encoded)
