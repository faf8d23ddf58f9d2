"""Conversion between arrays and the contents of a `.bin` file.

Types of whole bytes are stored contiguously, little-endian, at any offset. Sub-byte types are packed:

    u1                    8 elements per byte, the first in the highest bit
    u2                    4 elements per byte, the first in the lowest bits
    u4, i4, nf4, f4e2m1   2 elements per byte, the first in the low nibble
    u3                    8 elements per 3 bytes: the low two bits in two bytes, the high bits in the third
    u6                    4 elements per 3 bytes: the low nibbles in two bytes, the high two bits in the third

u3 and u6 fill each byte from its highest bits down. A string constant is `int32 count, int32 begin,
int32 end[count]`, followed by the UTF-8 text of all strings without separators, to which `begin` and `end` are offsets.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.forks import make_lock
from irrun.threads import run_parallel

__all__ = ["PostponedNibbles", "pack", "unpack", "unpack_nibbles"]

Array = np.ndarray[Any, Any]

#: Bytes that are unpacked at a time, so that they stay in the processor's cache, and that a thread unpacks at a time.
BLOCK_SIZE, PART_SIZE = 1 << 16, 1 << 20


def unpack(element_type: ElementType, buffer: Any, shape: Sequence[int]) -> Array:
    """Read a tensor from the start of a buffer.

    Args:
        element_type: The type of the elements.
        buffer: Bytes, a memoryview, a memory-mapped file or a contiguous array. Bytes after the last element are
            ignored.
        shape: A static shape.

    Returns:
        An array of `element_type.dtype` that is not writable. For types of whole bytes it is a view of `buffer`,
        which may be unaligned.

    Raises:
        ValueError: The buffer is too short, or the offsets of its strings are out of range.
    """
    raw = _view_bytes(buffer)
    shape = tuple(int(n) for n in shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"shape {list(shape)} has a negative dimension")
    count = math.prod(shape)
    if element_type.name == "string":
        return _unpack_strings(raw, count).reshape(shape)
    size = element_type.get_byte_size(count)
    if raw.size < size:
        raise ValueError(f"{element_type} of shape {list(shape)} takes {size} bytes, the buffer has {raw.size}")
    raw = raw[:size]
    if element_type.is_packed:
        values = _UNPACKERS[element_type.name](raw)[:count].view(element_type.dtype)
    elif element_type.name == "boolean":
        # Every byte other than 0 is true in OpenVINO, but NumPy's booleans must be 0 or 1.
        values = (raw if count == 0 or raw.max() <= 1 else raw != 0).view(np.bool_)
    else:
        values = raw.view(element_type.dtype)
        if sys.byteorder == "big" and element_type.bits > 8:
            values = values.view(f"u{element_type.bits // 8}").byteswap().view(element_type.dtype)
    values = values.reshape(shape)
    values.flags.writeable = False
    return values


def pack(element_type: ElementType, array: Array) -> bytes:
    """Return the contents of a `.bin` file for an array.

    Args:
        element_type: The type of the elements.
        array: An array of `element_type.dtype` in any byte order, or of strings.

    Raises:
        ValueError: The array is of another type, or its strings exceed 2 GiB.
    """
    array = np.asarray(array)
    if element_type.name == "string":
        return _pack_strings(array)
    if array.dtype.newbyteorder("=") != element_type.dtype:
        raise ValueError(f"expected an array of {element_type.dtype} for {element_type}, found {array.dtype}")
    array = np.ascontiguousarray(array, element_type.dtype).reshape(-1)
    if element_type.is_packed:
        codes = array.view(np.uint8) & np.uint8((1 << element_type.bits) - 1)
        return _PACKERS[element_type.name](codes).tobytes()
    if sys.byteorder == "big" and element_type.bits > 8:
        array = array.view(f"u{element_type.bits // 8}").byteswap()
    return array.tobytes()


def _view_bytes(buffer: Any) -> Array:
    view = memoryview(buffer).cast("B") if not isinstance(buffer, np.ndarray) else buffer.reshape(-1).view(np.uint8)
    return np.frombuffer(view, np.uint8) if len(view) else np.zeros(0, np.uint8)


def _split_bytes(raw: Array, shifts: Sequence[int]) -> Array:
    """Split each byte into fields of equal width, one for each shift."""
    mask = np.uint8((1 << (8 // len(shifts))) - 1)
    fields = (raw[..., None] >> np.array(shifts, np.uint8)) & mask
    return np.asarray(fields.reshape(*raw.shape[:-1], raw.shape[-1] * len(shifts)))


def _join_fields(codes: Array, shifts: Sequence[int]) -> Array:
    """Invert `_split_bytes`; the last byte is padded with zeros."""
    padding = -codes.shape[-1] % len(shifts)
    if padding:
        codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, padding)])
    fields = codes.reshape(*codes.shape[:-1], codes.shape[-1] // len(shifts), len(shifts))
    return np.asarray(np.bitwise_or.reduce(fields << np.array(shifts, np.uint8), axis=-1))


class PostponedNibbles:
    """Elements of u4 or i4 that are unpacked when they are needed. Until then, they take no memory.

    Args:
        element_type: u4 or i4.
        buffer: Their bytes.
        shape: Their shape.

    Attributes:
        array: The elements, not writable. Their values are undefined until `fill` is called.
    """

    def __init__(self, element_type: ElementType, buffer: Any, shape: Sequence[int]) -> None:
        count = math.prod(shape)
        self._raw: Array | None = _view_bytes(buffer)[: element_type.get_byte_size(count)]
        self._codes = np.empty(2 * self._raw.size, np.uint8)
        self._lock = make_lock()
        self.array: Array = self._codes[:count].view(element_type.dtype).reshape(shape)
        self.array.flags.writeable = False

    def fill(self) -> None:
        """Unpack the elements, unless they are."""
        with self._lock:
            if self._raw is not None:
                unpack_nibbles(self._raw, self._codes)
                self._raw = None


def unpack_nibbles(raw: Array, out: Array | None = None) -> Array:
    """Return the codes of bytes with two nibbles each, the low one first.

    Args:
        raw: u8, shape [N].
        out: Where to store them: u8, shape [2 N], contiguous.
    """
    pairs = np.empty(raw.size, "<u2") if out is None else out.view("<u2")

    def split_part(part: int) -> None:
        for start in range(part * PART_SIZE, min((part + 1) * PART_SIZE, raw.size), BLOCK_SIZE):
            block = pairs[start : min(start + BLOCK_SIZE, (part + 1) * PART_SIZE)]
            np.copyto(block, raw[start : start + block.size])
            shifted = block << np.uint16(4)
            np.bitwise_or(block, shifted, out=block)
            np.bitwise_and(block, np.uint16(0x0F0F), out=block)

    run_parallel(split_part, -(-raw.size // PART_SIZE))
    return pairs.view(np.uint8)


# Shifts of the fields of a byte, in the order of the elements.
_BITS = range(7, -1, -1)
_PAIRS = (6, 4, 2, 0)
_PAIRS_FROM_LOW = (0, 2, 4, 6)
_NIBBLES = (4, 0)
_NIBBLES_FROM_LOW = (0, 4)


def _split_groups(raw: Array, low_shifts: Sequence[int], high_shifts: Sequence[int]) -> Array:
    """Unpack groups of three bytes: two of low bits and one of high bits."""
    groups = raw.reshape(-1, 3)
    low, high = _split_bytes(groups[:, :2], low_shifts), _split_bytes(groups[:, 2:], high_shifts)
    return np.asarray(low | high << np.uint8(8 // len(low_shifts))).reshape(-1)


def _join_groups(codes: Array, low_shifts: Sequence[int], high_shifts: Sequence[int]) -> Array:
    """Invert `_split_groups`; the last group is padded with zeros."""
    group_size, width = 2 * len(low_shifts), np.uint8(8 // len(low_shifts))
    codes = np.pad(codes, (0, -codes.size % group_size))
    codes = codes.reshape(codes.size // group_size, group_size)
    low, high = codes & ((np.uint8(1) << width) - np.uint8(1)), codes >> width
    return np.concatenate([_join_fields(low, low_shifts), _join_fields(high, high_shifts)], axis=1)


_UNPACKERS: dict[str, Callable[[Array], Array]] = {
    "u1": np.unpackbits,
    "u2": lambda raw: _split_bytes(raw, _PAIRS_FROM_LOW),
    "u3": lambda raw: _split_groups(raw, _PAIRS, _BITS),
    "u6": lambda raw: _split_groups(raw, _NIBBLES, _PAIRS),
    **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), unpack_nibbles),
}
_PACKERS: dict[str, Callable[[Array], Array]] = {
    "u1": np.packbits,
    "u2": lambda codes: _join_fields(codes, _PAIRS_FROM_LOW),
    "u3": lambda codes: _join_groups(codes, _PAIRS, _BITS),
    "u6": lambda codes: _join_groups(codes, _NIBBLES, _PAIRS),
    **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), lambda codes: _join_fields(codes, _NIBBLES_FROM_LOW)),
}


def _unpack_strings(raw: Array, count: int) -> Array:
    header_size = 4 * (count + 2)
    if raw.size < header_size:
        raise ValueError(f"{count} strings require a header of {header_size} bytes, the buffer has {raw.size}")
    header = raw[:header_size].view("<i4")
    if header[0] != count:
        raise ValueError(f"expected {count} strings, the buffer states {header[0]}")
    offsets = header[1:]
    if offsets[0] < 0 or (np.diff(offsets.astype(np.int64)) < 0).any() or offsets[-1] > raw.size - header_size:
        raise ValueError(f"offsets of strings are out of range for {raw.size - header_size} bytes of text")
    text = raw[header_size : header_size + int(offsets[-1])].tobytes()
    strings = np.empty(count, object)
    # Bytes that are not UTF-8 become lone surrogates, so that `_pack_strings` restores them.
    strings[:] = [text[begin:end].decode("utf-8", "surrogateescape") for begin, end in pairwise(offsets.tolist())]
    return strings


def _pack_strings(array: Array) -> bytes:
    encoded = [
        s if isinstance(s, bytes) else str(s).encode("utf-8", "surrogateescape") for s in array.reshape(-1).tolist()
    ]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"strings take {ends[-1]} bytes, expected at most 2 GiB")
    return np.array([len(encoded), *ends], "<i4").tobytes() + b"".join(encoded)
