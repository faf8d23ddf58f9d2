"""Conformance cases for the bitwise operations."""

from __future__ import annotations

import numpy as np

from irrun.conformance.cases import Case, register_cases
from irrun.conformance.generators.elementwise import INTEGERS, SHAPES, create_sampler, generate_binary_cases

BOOL = np.dtype(bool)


def sample_bits(rng, shape, dtype):
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    # The CPU plugin computes 64-bit types in 32 bits.
    bits = rng.integers(0, 1 << 7, shape, np.uint64)
    return (bits.astype(dtype) * (np.array(-1, np.int8).astype(dtype) if dtype.kind == "i" else 1)).astype(dtype)


def register_bitwise(type, types, pdpd):
    """Register the cases of a binary bitwise operation."""

    @register_cases(type, since=13)
    def generate(rng):
        yield from generate_binary_cases(rng, sample_bits, sample_bits, first=np.dtype("i4"), types=types, pdpd=pdpd)
        a = rng.integers(-128, 128, (16, 1)).astype(np.int8)
        yield Case([a, np.arange(-128, 128, 8, dtype=np.int8)])

    return generate


register_bitwise("BitwiseAnd", [*INTEGERS, BOOL], np.bitwise_and)
register_bitwise("BitwiseOr", [*INTEGERS, BOOL], np.bitwise_or)
register_bitwise("BitwiseXor", [*INTEGERS, BOOL], np.bitwise_xor)


def register_shift(type, pdpd):
    """Register the cases of a shift by less than the width of the type."""

    @register_cases(type, since=15)
    def generate(rng):
        yield from generate_binary_cases(
            rng, sample_bits, create_sampler(0, 7), first=np.dtype("i4"), types=INTEGERS, pdpd=pdpd
        )
        for dtype in INTEGERS:
            values = np.array([1, 2, 3, 5, 100, 127, 0], np.int64).astype(dtype)
            yield Case([values, np.arange(7).astype(dtype).reshape(-1, 1)])
        signed = np.array([-1, -2, -100, 77], np.int32)
        yield Case([signed, np.array([[0], [1], [8], [24]], np.int32)])

    return generate


register_shift("BitwiseLeftShift", np.left_shift)
register_shift("BitwiseRightShift", np.right_shift)


@register_cases("BitwiseNot", since=13)
def bitwise_not_13(rng):
    for shape in SHAPES:
        yield Case([rng.integers(-100, 100, shape).astype(np.int32)])
    yield Case([rng.integers(-100, 100, (2, 3)).astype(np.int32)], dynamic=(0,))
    for dtype in [*INTEGERS, BOOL]:
        yield Case([sample_bits(rng, (3, 4), dtype)])
