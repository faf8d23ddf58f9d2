"""Products with compressed weights, and rows of compressed weights, without decompressing all of them.

Weights are decompressed tile by tile into a buffer that stays in the processor's cache. Since reading codes of
8 bits takes a quarter of the time of reading f32 from memory, products of few rows are faster than with decompressed
weights; products of many rows are slightly slower.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.fast.errors import NoKernelError
from irrun.fast.panels import multiply_in_blocks
from irrun.fast.scratch import reserve
from irrun.limits import check_allocation
from irrun.ops._support.conversion import convert
from irrun.packing import unpack_nibbles
from irrun.threads import count_parts, map_parallel, run_parallel

__all__ = [
    "CompressedWeights",
    "decode",
    "gather_rows",
    "get_buffer",
    "is_compressed_type",
    "multiply_by_weights",
    "to_rows",
]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Elements of a tile for products of few rows, 4 MiB as f32: threads seldom need the interpreter's lock.
TILE_SIZE = 1 << 20
#: The same for products of more rows, which take longer.
SMALL_TILE_SIZE = 1 << 18
#: For at most this many rows, the products of the groups are scaled instead of the weights.
MAX_SCALED_ROWS = 8
#: Types that NumPy converts to f32 fast.
NATIVE_CODES = ("i8", "u8")
#: Types of up to 8 bits, converted by a table of f32.
TABLE_CODES = ("u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1", "f8e4m3", "f8e5m2", "f8e8m0")
#: 2 ** 112: the ratio of f16 values to f32 values after the bits of f16 are moved to their positions in f32.
F16_FACTOR = np.float32(2.0**112)


def is_compressed_type(dtype: np.dtype[Any]) -> bool:
    """Return whether weights of a type can stay compressed."""
    try:
        return ElementType.of(dtype).name in (*NATIVE_CODES, *TABLE_CODES, "f16")
    except ValueError:
        return False


@dataclass(eq=False, repr=False)
class CompressedWeights:
    """A matrix of weights `(codes - zero_point) * scale`. Groups of columns share zero points and scales.

    Attributes:
        codes: Codes of an element type that `is_compressed_type` accepts, shape [N, K].
        zero_point: f32, shape [N, G] or [1, 1], or None. Columns should be contiguous.
        scale: f32, shape [N, G] or [1, 1], or None. Columns should be contiguous.
        groups: G, the number of groups in a row.
        nibbles: The codes of u4 and i4 as they are stored, u8 of shape [N, K / 2], the first code in the low nibble; or
            None.
    """

    codes: Array
    zero_point: Array | None
    scale: Array | None
    groups: int
    nibbles: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of the weights."""
        rows, columns = self.codes.shape
        return rows, columns

    def decompress(self) -> Array:
        """Return the weights in f32, bit-identical to the operations of the model."""
        rows, columns = self.shape
        result = np.empty((rows, columns), F32)
        step = max(1, SMALL_TILE_SIZE // columns)
        parts = count_parts(1, result.size)
        tiles = -(-rows // step)

        def decompress_part(part: int) -> None:
            for tile in range(tiles * part // parts, tiles * (part + 1) // parts):
                section = slice(tile * step, (tile + 1) * step)
                self.decompress_rows(section, result[section])

        run_parallel(decompress_part, parts)
        return result

    def decompress_rows(self, rows: Any, out: Array) -> None:
        """Decompress some rows.

        Args:
            rows: A slice, or an array of valid indices.
            out: f32, shape [number of rows, K], contiguous.
        """
        decode(self._read_codes(rows), out)
        grouped = out.reshape(out.shape[0], self.groups, out.shape[1] // self.groups)
        if self.zero_point is not None:
            grouped -= _select_rows(self.zero_point, rows)[:, :, np.newaxis]
        if self.scale is not None:
            grouped *= _select_rows(self.scale, rows)[:, :, np.newaxis]

    def _read_codes(self, rows: Any) -> Array:
        """Return the codes of some rows; those of indices from their stored form, if there is one."""
        if self.nibbles is None or isinstance(rows, slice):
            return np.asarray(self.codes[rows])
        stored = self.nibbles[rows]
        return np.asarray(unpack_nibbles(stored.reshape(-1)).reshape(len(stored), -1).view(self.codes.dtype))


def _select_rows(x: Array, rows: Any) -> Array:
    return x if x.shape[0] == 1 else x[rows]


@functools.cache
def _get_table(dtype: np.dtype[Any]) -> Array:
    """Return the f32 values of all bytes of a type of at most 8 bits."""
    codes = np.arange(256, dtype=np.uint8) & np.uint8((1 << ElementType.of(dtype).bits) - 1)
    return convert(codes.view(dtype), ELEMENT_TYPES["f32"])


def decode(codes: Array, out: Array) -> None:
    """Convert codes to f32.

    Args:
        codes: Codes of an element type that `is_compressed_type` accepts.
        out: f32, the shape of `codes`, contiguous.
    """
    dtype = codes.dtype
    if dtype == np.int8 or dtype == np.uint8:
        np.copyto(out, codes)
    elif dtype == np.float16:
        _decode_f16(codes, out)
    else:
        name = ElementType.of(dtype).name
        raw = codes.view(np.uint8)
        if name in ("u2", "u3", "u4", "u6"):
            np.copyto(out, raw)
        elif name == "i4":
            np.copyto(out, np.subtract(raw ^ np.uint8(8), np.uint8(8)).view(np.int8))
        else:
            np.take(_get_table(dtype), raw, out=out, mode="clip")


def _decode_f16(codes: Array, out: Array) -> None:
    """Convert f16 to f32 by moving bits, five times as fast as NumPy. Infinities and NaN are not supported."""
    bits = out.view(np.int32)
    np.copyto(bits, codes.view(np.int16))  # the high half is filled with copies of the sign
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, -0x70000001, out=bits)
    np.multiply(out, F16_FACTOR, out=out)


def has_only_finite_values(codes: Array) -> bool:
    """Return whether an array of f16 contains neither infinities nor NaN."""
    limit = np.int16(0x7C00)
    magnitudes = codes.view(np.int16).reshape(-1)
    step = 1 << 20
    return all(int((magnitudes[i : i + step] & limit).max()) < 0x7C00 for i in range(0, magnitudes.size, step))


def get_buffer(size: int) -> Array:
    """Return a buffer of f32 that belongs to the current thread."""
    return reserve("decompressed weights", max(size, TILE_SIZE))[:size]


def to_rows(data: Array, inner: int) -> Array:
    """Return data of shape [..., K] as contiguous rows, shape [M, K].

    Raises:
        NoKernelError: The data is empty or not f32, or its last dimension is not K.
    """
    if data.dtype != F32 or data.ndim < 1 or data.shape[-1] != inner or not data.size:
        raise NoKernelError("expected f32 of shape [..., K]")
    return np.ascontiguousarray(data.reshape(-1, inner))


def multiply_by_weights(data: Array, *, weights: CompressedWeights) -> Array:
    """Compute `data @ weights.T`.

    Args:
        data: f32, shape [..., K].
        weights: Weights of shape [N, K].

    Raises:
        NoKernelError: `data` has another type, or its last dimension is not K.
    """
    count, inner = weights.shape
    rows = to_rows(data, inner)
    multiply_tile = _choose_method(rows, weights)
    check_allocation((count, len(rows)), F32)
    result = np.empty((count, len(rows)), F32)
    tile_size = TILE_SIZE if len(rows) <= MAX_SCALED_ROWS else SMALL_TILE_SIZE
    step = max(1, min(tile_size // inner, count))
    tiles = -(-count // step)
    parts = min(tiles, count_parts(len(rows), weights.codes.size))

    def select_part(part: int) -> slice:
        return slice(tiles * part // parts * step, min(tiles * (part + 1) // parts * step, count))

    def multiply_part(part: int) -> Array:
        section = select_part(part)
        product = np.empty((section.stop - section.start, len(rows)), F32)
        for start in range(section.start, section.stop, step):
            stop = min(start + step, section.stop)
            multiply_tile(slice(start, stop), product[start - section.start : stop - section.start])
        return product

    def store_part(part: int, product: Array) -> None:
        result[select_part(part)] = product

    map_parallel(multiply_part, store_part, parts)
    if len(rows) == 1:
        return result.reshape(*data.shape[:-1], count)
    return np.ascontiguousarray(result.T).reshape(*data.shape[:-1], count)


def _choose_method(rows: Array, weights: CompressedWeights) -> Any:
    """Return the function that multiplies one tile of the weights by the rows."""
    groups, zero_point, scale = weights.groups, weights.zero_point, weights.scale
    inner = rows.shape[1]
    columns = np.ascontiguousarray(rows.T)
    grouped = columns.reshape(groups, -1, len(rows))  # [G, K/G, M]
    sums = grouped.sum(axis=1)  # [G, M]
    is_finite = bool(np.isfinite(sums).all())

    def multiply_decompressed(section: slice, out: Array) -> None:
        tile = get_buffer(len(out) * inner).reshape(len(out), inner)
        weights.decompress_rows(section, tile)
        multiply_in_blocks(tile, columns, out)

    def multiply_codes(section: slice, out: Array) -> None:
        """Apply zero points and scales to the product: one group."""
        tile = get_buffer(len(out) * inner).reshape(len(out), inner)
        decode(weights.codes[section], tile)
        multiply_in_blocks(tile, columns, out)
        if zero_point is not None:
            out -= _select_rows(zero_point, section) * sums
        if scale is not None:
            out *= _select_rows(scale, section)

    def multiply_groups(section: slice, out: Array) -> None:
        """Apply zero points and scales to the products of the groups."""
        tile = get_buffer(len(out) * inner).reshape(len(out), inner)
        decode(weights.codes[section], tile)
        products = np.matmul(tile.reshape(len(out), groups, -1).swapaxes(0, 1), grouped)  # [G, n, M]
        if zero_point is not None:
            products -= _select_rows(zero_point, section).T[:, :, np.newaxis] * sums[:, np.newaxis]
        if scale is not None:
            products *= _select_rows(scale, section).T[:, :, np.newaxis]
        np.add.reduce(products, axis=0, out=out)

    if not is_finite or (zero_point is None and scale is None):
        return multiply_decompressed
    if groups == 1:
        return multiply_codes
    return multiply_groups if len(rows) <= MAX_SCALED_ROWS else multiply_decompressed


def gather_rows(indices: Array, *, weights: CompressedWeights) -> Array:
    """Return rows of the weights, like Gather along axis 0.

    Args:
        indices: Integers, any shape.
        weights: Weights of shape [N, K].

    Raises:
        NoKernelError: An index is out of range.
    """
    count, inner = weights.shape
    if indices.dtype.kind not in "iu":
        raise NoKernelError("expected integers")
    check_allocation((*indices.shape, inner), F32)
    flat = indices.reshape(-1).astype(np.int64)
    flat[flat < 0] += count
    if flat.size and (int(flat.min()) < 0 or int(flat.max()) >= count):
        raise NoKernelError("an index is out of range")
    result = np.empty((flat.size, inner), F32)
    weights.decompress_rows(flat, result)
    return result.reshape(*indices.shape, inner)
