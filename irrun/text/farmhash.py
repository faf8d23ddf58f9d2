"""FarmHash64 (`farmhashna::Hash64`), which TensorFlow uses to distribute strings among buckets."""

from __future__ import annotations

import struct

__all__ = ["hash_text"]

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def hash_text(text: bytes) -> int:
    """Return the hash of a text, a 64-bit integer."""
    size = len(text)
    if size <= 16:
        return _hash_up_to_16(text)
    if size <= 32:
        return _hash_up_to_32(text)
    if size <= 64:
        return _hash_up_to_64(text)
    return _hash_long(text)


def _read(text: bytes, offset: int) -> int:
    value: int = struct.unpack_from("<Q", text, offset)[0]
    return value


def _read_half(text: bytes, offset: int) -> int:
    value: int = struct.unpack_from("<I", text, offset)[0]
    return value


def _rotate(value: int, shift: int) -> int:
    value &= _MASK
    return (value >> shift | value << (64 - shift)) & _MASK


def _mix(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _combine(u: int, v: int, factor: int) -> int:
    a = _mix((u ^ v) * factor)
    return _mix((v ^ a) * factor) * factor & _MASK


def _hash_up_to_16(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _read(text, 0) + _K2, _read(text, size - 8)
        c = _rotate(b, 37) * factor + a
        d = (_rotate(a, 25) + b) * factor
        return _combine(c & _MASK, d & _MASK, factor)
    if size >= 4:
        return _combine(size + (_read_half(text, 0) << 3), _read_half(text, size - 4), factor)
    if size:
        y = text[0] + (text[size >> 1] << 8)
        z = size + (text[-1] << 2)
        return _mix(y * _K2 & _MASK ^ z * _K0 & _MASK) * _K2 & _MASK
    return _K2


def _hash_up_to_32(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    a, b = _read(text, 0) * _K1, _read(text, 8)
    c, d = _read(text, size - 8) * factor, _read(text, size - 16) * _K2
    first = _rotate(a + b, 43) + _rotate(c, 30) + d
    return _combine(first & _MASK, (a + _rotate(b + _K2, 18) + c) & _MASK, factor)


def _hash_up_to_64(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    a, b = _read(text, 0) * _K2, _read(text, 8)
    c, d = _read(text, size - 8) * factor, _read(text, size - 16) * _K2
    y = (_rotate(a + b, 43) + _rotate(c, 30) + d) & _MASK
    z = _combine(y, (a + _rotate(b + _K2, 18) + c) & _MASK, factor)
    e, f = _read(text, 16) * factor, _read(text, 24)
    g, h = (y + _read(text, size - 32)) * factor, (z + _read(text, size - 24)) * factor
    first = _rotate(e + f, 43) + _rotate(g, 30) + h
    return _combine(first & _MASK, (e + _rotate(f + a, 18) + g) & _MASK, factor)


def _hash_block(text: bytes, offset: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = struct.unpack_from("<4Q", text, offset)
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return (a + z) & _MASK, (b + c) & _MASK


def _hash_long(text: bytes) -> int:
    size, seed = len(text), 81
    x, y = seed, (seed * _K1 + 113) & _MASK
    z = _mix(y * _K2 + 113) * _K2 & _MASK
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _read(text, 0)) & _MASK
    last = (size - 1) // 64 * 64
    for offset in range(0, last, 64):
        x = _rotate(x + y + v[0] + _read(text, offset + 8), 37) * _K1 & _MASK
        y = _rotate(y + v[1] + _read(text, offset + 48), 42) * _K1 & _MASK
        x ^= w[1]
        y = (y + v[0] + _read(text, offset + 40)) & _MASK
        z = _rotate(z + w[0], 33) * _K1 & _MASK
        v = _hash_block(text, offset, v[1] * _K1, x + w[0])
        w = _hash_block(text, offset + 32, z + w[1], y + _read(text, offset + 16))
        z, x = x, z
    factor = (_K1 + ((z & 0xFF) << 1)) & _MASK
    offset = size - 64
    w0 = (w[0] + ((size - 1) & 63)) & _MASK
    v0 = (v[0] + w0) & _MASK
    w0 = (w0 + v0) & _MASK
    x = _rotate(x + y + v0 + _read(text, offset + 8), 37) * factor & _MASK
    y = _rotate(y + v[1] + _read(text, offset + 48), 42) * factor & _MASK
    x ^= w[1] * 9 & _MASK
    y = (y + v0 * 9 + _read(text, offset + 40)) & _MASK
    z = _rotate(z + w0, 33) * factor & _MASK
    v = _hash_block(text, offset, v[1] * factor, x + w0)
    w = _hash_block(text, offset + 32, z + w[1], y + _read(text, offset + 16))
    z, x = x, z
    first = _combine(v[0], w[0], factor) + _mix(y) * _K0 + z
    return _combine(first & _MASK, (_combine(v[1], w[1], factor) + x) & _MASK, factor)
