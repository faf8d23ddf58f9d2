"""Codes of compressed weights in compiled kernels: loading and scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.compressed import CompressedWeights
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Operand, Value, format_float
from irrun.fast.jit.compiler import get_lanes

__all__ = ["WeightAddresses", "get_width", "has_tables", "load_codes", "make_table", "separate_pairs", "supports"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Kinds of two codes in a byte -> the kind of the codes.
NIBBLES = {"i4 nibbles": "i4", "u4 nibbles": "u4"}


class WeightAddresses:
    """The arguments of compiled kernels for some weights, prepared once.

    Args:
        weights: Weights that `supports` accepts, shape [N, K].

    Attributes:
        weights: The weights, kept in memory.
        variant: The parameters of the compiled kernels: the kind of the codes ("i8", "u8", "i4" or one of `NIBBLES`),
            and whether there are zero points and scales.
        has_nibbles: Whether a byte holds two codes, so that the data needs the order of `separate_pairs`.
        rows: N.
        inner: K.
        size: The number of columns of a group.
        pointers: The addresses of the codes, zero points and scales; 0 if there are none.
        strides: Strides of zero points and of scales along rows and along groups, in elements.
    """

    def __init__(self, weights: CompressedWeights) -> None:
        self.weights = weights
        self.rows, self.inner = weights.shape
        self.size = self.inner // weights.groups
        kind = {"int8": "i8", "int4": "i4"}.get(weights.codes.dtype.name, "u8")
        codes = weights.codes
        self.has_nibbles = weights.nibbles is not None and self.size % (2 * get_lanes()) == 0
        if weights.nibbles is not None and self.has_nibbles:
            kind, codes = f"{'i4' if kind == 'i4' else 'u4'} nibbles", weights.nibbles
        self.variant = kind, weights.zero_point is not None, weights.scale is not None
        # Kernels read the groups of a row one after another.
        parameters = [None if a is None else np.ascontiguousarray(a) for a in (weights.zero_point, weights.scale)]
        self._parameters = parameters
        self.pointers: tuple[int, ...] = tuple(0 if a is None else get_address(a) for a in (codes, *parameters))
        self.strides: tuple[int, ...] = ()
        for a in parameters:
            self.strides += (0, 0) if a is None or a.size == 1 else (weights.groups, 1)


def supports(weights: CompressedWeights) -> bool:
    """Return whether compiled kernels support some weights."""
    codes = weights.codes
    size = weights.shape[1] // weights.groups
    parameters = [a for a in (weights.scale, weights.zero_point) if a is not None]
    if any(a.dtype != F32 or (a.size != 1 and a.shape != (weights.shape[0], weights.groups)) for a in parameters):
        return False
    if any(a.size != 1 and a.shape[1] == 1 and a.strides[0] % 4 for a in parameters):
        return False
    is_byte = codes.dtype in (np.int8, np.uint8) or codes.dtype.name in ("int4", "uint4")
    return is_byte and codes.flags.c_contiguous and size % get_lanes() == 0


def get_width(kind: str) -> int:
    """Return the number of vectors that `load_codes` loads."""
    return 2 if kind in NIBBLES else 1


def separate_pairs(rows: Array) -> Array:
    """Return rows in the order in which `load_codes` loads nibbles.

    Args:
        rows: f32, shape [M, K]. Two vectors divide K.
    """
    lanes = get_lanes()
    pairs = rows.reshape(len(rows), -1, lanes, 2)
    return np.ascontiguousarray(pairs.swapaxes(2, 3)).reshape(*rows.shape)


def load_codes(
    f: Function, kind: str, codes: Value, index: Operand, distance: Operand | None, table: Value | None = None
) -> list[Value]:
    """Return vectors of codes in f32, and prefetch codes further ahead.

    Of two vectors, the first has the codes with even numbers, in the low nibbles, and the second the others.

    Args:
        f: The function.
        kind: The kind of the codes; see `WeightAddresses`.
        codes: The address of all codes.
        index: The number of the first code.
        distance: How far ahead to prefetch, in codes, or None. Rows are too short for the hardware prefetcher.
        table: The values of nibbles, if `has_tables` of the kind; by default the codes.
    """
    width = get_width(kind)
    source = f.offset(codes, _to_bytes(index, width), "i8")
    if distance is not None:
        f.prefetch(f.offset(source, _to_bytes(distance, width), "i8"))
    values = f.load(source, f.integers(8))
    own = NIBBLES.get(kind, kind)
    if width == 1:
        wide = f.convert("sext" if kind == "i8" else "zext", values, f.integers())
        return [_decode_nibbles(f, wide) if kind == "i4" else f.convert("sitofp", wide, f.vector)]
    if f.lanes == 16:  # AVX-512 looks up the low four bits
        wide = f.convert("zext", values, f.integers())
        return [_look_up(f, table or make_table(f, own), vector) for vector in (wide, wide >> 4)]
    if own == "u4":
        wide = f.convert("zext", values, f.integers())
        parts = [wide & 15, wide >> 4]
    else:
        wide = f.convert("sext", values, f.integers())
        parts = [_shift_signed(f, wide << 28, 28), _shift_signed(f, wide, 4)]
    return [f.convert("sitofp", part, f.vector) for part in parts]


def _to_bytes(number: Operand, width: int) -> Operand:
    """Return the number of bytes of some codes."""
    if width == 1:
        return number
    return number >> 1 if isinstance(number, Value) else number // 2


def _decode_nibbles(f: Function, codes: Value) -> Value:
    """Return codes of i4, which are stored as 0 to 15, in f32."""
    if f.lanes == 16:
        return _look_up(f, make_table(f, "i4"), codes)
    return f.convert("sitofp", (codes ^ 8) - 8, f.vector)


def has_tables(kind: str) -> bool:
    """Return whether `load_codes` looks up the values of codes."""
    return kind in NIBBLES and get_lanes() == 16


def make_table(f: Function, kind: str) -> Value:
    """Return the values of 16 codes."""
    own = NIBBLES.get(kind, kind)
    table = ", ".join(f"float {format_float((i ^ 8) - 8 if own == 'i4' else i)}" for i in range(16))
    return Value(f, f.vector, f"<{table}>")


def _look_up(f: Function, table: Value, codes: Value) -> Value:
    """Return the elements of a table that the low four bits of 16 codes select."""
    return f.call("llvm.x86.avx512.permvar.sf.512", f.vector, table, codes)


def _shift_signed(f: Function, value: Value, count: int) -> Value:
    """Return integers shifted right, with copies of the sign."""
    return f.emit(value.type, f"ashr {value.type} {value}, {f.coerce(count, value.type)}")
