"""Sums of four products of 8-bit integers, the innermost operation of quantized convolutions and products.

A vector of i32 holds four codes in each element: unsigned data, or signed weights. Each form adds the four products of
each element to an accumulator of i32, without rounding or saturation, so that all forms have the same result.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import get_lanes, has_feature, verify_text

__all__ = [
    "MAX_PRODUCTS",
    "PORTABLE",
    "DotProduct",
    "find_saturating",
    "get_dot_product",
    "use_form",
    "widen_weights",
]

Array = np.ndarray[Any, Any]

#: Maximum number of products per sum, so that it fits in i32: codes are less than 2^8 and weights within 2^7.
MAX_PRODUCTS = (1 << 31) // (255 * 128) - 1

#: Maximum sum of two weights, so that with data of 255 the sum of two products fits in i16.
MAX_PAIR = ((1 << 15) - 1) // 255

_forced = ""


class DotProduct:
    """A form of the operation.

    Attributes:
        name: Its name.
    """

    name = "portable"
    #: Whether sums of two products saturate in i16: see `find_saturating`.
    saturates = False
    #: The offset that products subtract from the data. Sums start with the products of this number and the weights.
    offset = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"  # kernels are cached by it

    def prepare_data(self, f: Function, data: Value) -> tuple[Value, ...]:
        """Return the form of a data vector that its products use."""
        low = data & 0x00FF00FF
        halves = f"<{2 * data.lanes} x i16>"
        # One instruction, while shifts of i32 need a mask too.
        high = f.convert("bitcast", f.convert("bitcast", data, halves) >> 8, data.type)
        return low, high

    def prepare_weights(self, f: Function, weights: Value) -> tuple[Value, ...]:
        """Return the form of a weight vector that its products use: pairs of i16 in each i32."""
        shifted = f.emit(weights.type, f"shl {weights.type} {weights}, {f.coerce(8, weights.type)}")
        return self._extend(f, shifted), self._extend(f, weights)

    def _extend(self, f: Function, value: Value) -> Value:
        """Sign-extend the upper byte of each half of an i32."""
        halves = f"<{2 * value.lanes} x i16>"
        split = f.convert("bitcast", value, halves)
        moved = f.emit(halves, f"ashr {halves} {split}, {f.coerce(8, halves)}")
        return f.convert("bitcast", moved, value.type)

    def add(self, f: Function, sum_: Value, data: tuple[Value, ...], weights: tuple[Value, ...]) -> Value:
        """Return the sum plus the products of prepared data and weights."""
        for left, right in zip(data, weights, strict=True):
            sum_ = sum_ + _multiply_pairs(f, left, right)
        return sum_


def _multiply_pairs(f: Function, a: Value, b: Value) -> Value:
    """Return the sums of two products of i16 in each i32: one instruction on most processors."""
    count = 2 * a.lanes
    halves, words = f"<{count} x i16>", f"<{count} x i32>"
    wide = [f.convert("sext", f.convert("bitcast", x, halves), words) for x in (a, b)]
    product = wide[0] * wide[1]
    parts = []
    for first in range(2):
        numbers = ", ".join(f"i32 {i}" for i in range(first, count, 2))
        mask = f"<{a.lanes} x i32> <{numbers}>"
        parts.append(f.emit(a.type, f"shufflevector {words} {product}, {words} poison, {mask}"))
    return parts[0] + parts[1]


class _Vnni(DotProduct):
    """One instruction of the processor.

    Args:
        has_byte_operands: Whether the operands of LLVM's function are vectors of i8, as in newer versions.
    """

    name = "VNNI"

    def __init__(self, has_byte_operands: bool) -> None:
        self._has_byte_operands = has_byte_operands

    def prepare_data(self, f: Function, data: Value) -> tuple[Value, ...]:
        """Return the operand."""
        return (self._convert(f, data),)

    def prepare_weights(self, f: Function, weights: Value) -> tuple[Value, ...]:
        """Return the operand."""
        return (self._convert(f, weights),)

    def _convert(self, f: Function, value: Value) -> Value:
        return f.convert("bitcast", value, f"<{4 * value.lanes} x i8>") if self._has_byte_operands else value

    def add(self, f: Function, sum_: Value, data: tuple[Value, ...], weights: tuple[Value, ...]) -> Value:
        """Return the sum plus the products."""
        return f.call(f"llvm.x86.avx512.vpdpbusd.{32 * sum_.lanes}", sum_.type, sum_, data[0], weights[0])


class _Neon(DotProduct):
    """One instruction of ARM processors, whose operands are both signed."""

    name = "NEON"
    offset = 128

    def prepare_data(self, f: Function, data: Value) -> tuple[Value, ...]:
        """Return the operand, less the offset."""
        return self.prepare_weights(f, data ^ -0x7F7F7F80)

    def prepare_weights(self, f: Function, weights: Value) -> tuple[Value, ...]:
        """Return the operand."""
        return (f.convert("bitcast", weights, f"<{4 * weights.lanes} x i8>"),)

    def add(self, f: Function, sum_: Value, data: tuple[Value, ...], weights: tuple[Value, ...]) -> Value:
        """Return the sum plus the products."""
        return f.call("llvm.aarch64.neon.sdot.v4i32.v16i8", sum_.type, sum_, data[0], weights[0])


class _Pairs(DotProduct):
    """Products of bytes with saturating i16 sums of two: half as many instructions as the portable form."""

    name = "pairs"
    saturates = True

    def prepare_data(self, f: Function, data: Value) -> tuple[Value, ...]:
        """Return the operand."""
        return (f.convert("bitcast", data, f"<{4 * data.lanes} x i8>"),)

    def prepare_weights(self, f: Function, weights: Value) -> tuple[Value, ...]:
        """Return the operand."""
        return self.prepare_data(f, weights)

    def add(self, f: Function, sum_: Value, data: tuple[Value, ...], weights: tuple[Value, ...]) -> Value:
        """Return the sum plus the products."""
        halves = f"<{2 * sum_.lanes} x i16>"
        names = (
            ("avx512.pmaddubs.w.512", "avx512.pmaddw.d.512")
            if sum_.lanes == 16
            else ("avx2.pmadd.ub.sw", "avx2.pmadd.wd")
        )
        pairs = f.call(f"llvm.x86.{names[0]}", halves, *data, *weights)
        return sum_ + f.call(f"llvm.x86.{names[1]}", sum_.type, pairs, f.coerce(1, halves))


#: The form for all processors and weights.
PORTABLE = DotProduct()


def find_saturating(codes: Array) -> Array:
    """Return for which weights the sum of two products may exceed i16, so that they need the portable form.

    Args:
        codes: i8, shape [..., 4].
    """
    sums = codes.reshape(*codes.shape[:-1], 2, 2).sum(-1, dtype=np.int16)
    return np.asarray((np.abs(sums) > MAX_PAIR).any(-1))


def widen_weights(codes: Array) -> Array:
    """Return weights as the portable form uses them: pairs of i16 in each i32.

    Args:
        codes: i8, shape [..., 4].

    Returns:
        i32, shape [..., 2].
    """
    pairs = codes[..., [0, 2, 1, 3]].astype(np.int16, order="C")
    return pairs.view(np.int32)


def _is_accepted(form: DotProduct) -> bool:
    """Return whether this version of LLVM has the instructions of a form."""
    f = Function("probe", [("p", "ptr")], get_lanes())
    value = f.load(f.parameters["p"], f.integers())
    f.store(form.add(f, value, form.prepare_data(f, value), form.prepare_weights(f, value)), f.parameters["p"])
    return verify_text(f.get_text())


@functools.cache
def _find_vnni() -> DotProduct | None:
    """Return the form that the processor and this version of LLVM support, or None."""
    lanes = get_lanes()
    if not (has_feature("avx512vnni") if lanes == 16 else lanes == 8 and has_feature("avxvnni")):
        return None
    return next(filter(_is_accepted, (_Vnni(True), _Vnni(False))), None)


@functools.cache
def _find_neon() -> DotProduct | None:
    """Return the form that the processor and this version of LLVM support, or None."""
    form = _Neon()
    return form if has_feature("dotprod") and _is_accepted(form) else None


@functools.cache
def _find_pairs() -> DotProduct | None:
    """Return the form that the processor and this version of LLVM support, or None."""
    form = _Pairs()
    has_bytes = has_feature("avx512bw") if get_lanes() == 16 else has_feature("avx2")
    return form if has_bytes and _is_accepted(form) else None


@contextmanager
def use_form(name: str) -> Iterator[None]:
    """Use one form for all kernels compiled in this context, for tests.

    Args:
        name: "portable", or "pairs" where it is possible and the processor supports it.
    """
    global _forced
    previous, _forced = _forced, name
    try:
        yield
    finally:
        _forced = previous


def get_dot_product(can_saturate: bool) -> DotProduct:
    """Return the best form for this processor.

    Args:
        can_saturate: Whether the portable form can be used for some of the weights.
    """
    form = None if _forced else _find_vnni() or _find_neon()
    if form is None and can_saturate and _forced != "portable":
        form = _find_pairs()
    return form or PORTABLE
