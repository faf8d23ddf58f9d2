"""Configurations for the bitwise operations."""

from __future__ import annotations

import numpy as np

from conformance.generators.elementwise import INTEGERS, SHAPES, binary_cases, uniform
from conformance.harness import Case, configurations

BOOL = np.dtype(bool)


def anything(rng, shape, dtype):
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    # The CPU plugin narrows 64 bits to 32.
    bits = rng.integers(0, 1 << 7, shape, np.uint64)
    return (bits.astype(dtype) * (np.array(-1, np.int8).astype(dtype) if dtype.kind == "i" else 1)).astype(dtype)


def bitwise(type, types, pdpd):
    """Register the configurations of a bitwise operation of two tensors."""

    @configurations(type, since=13)
    def generate(rng):
        yield from binary_cases(rng, anything, anything, first=np.dtype("i4"), types=types, pdpd=pdpd)
        a = rng.integers(-128, 128, (16, 1)).astype(np.int8)
        yield Case([a, np.arange(-128, 128, 8, dtype=np.int8)])

    return generate


bitwise("BitwiseAnd", [*INTEGERS, BOOL], np.bitwise_and)
bitwise("BitwiseOr", [*INTEGERS, BOOL], np.bitwise_or)
bitwise("BitwiseXor", [*INTEGERS, BOOL], np.bitwise_xor)


def shift(type, pdpd):
    """Register the configurations of a shift, by numbers of bits that the type has."""

    @configurations(type, since=15)
    def generate(rng):
        yield from binary_cases(rng, anything, uniform(0, 7), first=np.dtype("i4"), types=INTEGERS, pdpd=pdpd)
        for dtype in INTEGERS:
            values = np.array([1, 2, 3, 5, 100, 127, 0], np.int64).astype(dtype)
            yield Case([values, np.arange(7).astype(dtype).reshape(-1, 1)])
        signed = np.array([-1, -2, -100, 77], np.int32)
        yield Case([signed, np.array([[0], [1], [8], [24]], np.int32)], oracles=("evaluate",))

    return generate


shift("BitwiseLeftShift", np.left_shift)
shift("BitwiseRightShift", np.right_shift)


@configurations("BitwiseNot", since=13)
def bitwise_not_13(rng):
    for shape in SHAPES:
        yield Case([rng.integers(-100, 100, shape).astype(np.int32)])
    yield Case([rng.integers(-100, 100, (2, 3)).astype(np.int32)], dynamic=(0,))
    for dtype in [*INTEGERS, BOOL]:
        yield Case([anything(rng, (3, 4), dtype)])
