"""Codes of compressed weights in compiled kernels: loading and scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.compressed import CompressedWeights
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.code import Function, Operand, Value, format_float
from irrun.fast.jit.compiler import get_lanes

__all__ = ["WeightAddresses", "load_codes", "supports"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


class WeightAddresses:
    """The arguments of compiled kernels for some weights, prepared once.

    Args:
        weights: Weights that `supports` accepts, shape [N, K].

    Attributes:
        weights: The weights, kept in memory.
        variant: The parameters of the compiled kernels: the kind of the codes ("i8", "u8" or "i4"), and whether
            there are zero points and scales.
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
        self.variant = kind, weights.zero_point is not None, weights.scale is not None
        # Kernels read the groups of a row one after another.
        parameters = [None if a is None else np.ascontiguousarray(a) for a in (weights.zero_point, weights.scale)]
        self._parameters = parameters
        self.pointers: tuple[int, ...] = tuple(0 if a is None else get_address(a) for a in (weights.codes, *parameters))
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


def load_codes(f: Function, kind: str, codes: Value, index: Operand, distance: Operand | None) -> Value:
    """Return a vector of codes in f32, and prefetch codes further ahead.

    Args:
        f: The function.
        kind: "i8", "u8" or "i4".
        codes: The address of all codes.
        index: The number of the first code.
        distance: How far ahead to prefetch, in codes, or None. Rows are too short for the hardware prefetcher.
    """
    source = f.offset(codes, index, "i8")
    if distance is not None:
        f.prefetch(f.offset(source, distance, "i8"))
    values = f.load(source, f.integers(8))
    wide = f.convert("sext" if kind == "i8" else "zext", values, f.integers())
    if kind == "i4":  # of 0 to 15
        if f.lanes == 16:  # AVX-512 looks the values up
            table = ", ".join(f"float {format_float((i ^ 8) - 8)}" for i in range(16))
            return f.call("llvm.x86.avx512.permvar.sf.512", f.vector, Value(f, f.vector, f"<{table}>"), wide)
        wide = (wide ^ 8) - 8
    return f.convert("sitofp", wide, f.vector)
