"""RandomUniform: random numbers, bit for bit those of OpenVINO."""

from __future__ import annotations

import math
import secrets
from typing import Any, Literal

import ml_dtypes
import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.context import State
from irrun.ops._support.numerics import Array, is_integer, upcast
from irrun.ops._support.random_bits import mersenne_twister, philox
from irrun.ops._support.registry import op

__all__ = ["Alignment", "random_uniform_8", "uniform"]

Alignment = Literal["tensorflow", "pytorch"]

#: The types that can be drawn, with the number of bits that a fraction has; 0 for integers.
TYPES = {
    np.dtype(np.float16): 10,
    np.dtype(ml_dtypes.bfloat16): 7,
    np.dtype(np.float32): 23,
    np.dtype(np.float64): 52,
    np.dtype(np.int32): 0,
    np.dtype(np.int64): 0,
}

HALF = np.uint64(32)

#: What `random_uniform_8` keeps between runs: the lower and the upper half of the next block's number.
POSITION = "position"

#: How many blocks of numbers TensorFlow reserves for each that it uses.
RESERVED = 256


@op("RandomUniform", since=8, folding="never")
def random_uniform_8(
    shape: Array,
    minval: Array,
    maxval: Array,
    *,
    output_type: ElementType,
    global_seed: int = 0,
    op_seed: int = 0,
    alignment: Alignment = "tensorflow",
    state: State,
) -> Array:
    """Random numbers, uniformly distributed from `minval` (included) to `maxval` (excluded).

    shape: integer 1D; minval, maxval: one element each, of type output_type: f16, bf16, f32, f64, i32 or i64.
    With seeds the numbers are those of OpenVINO: each run of one request goes on where the last one ended, and
    a new request starts again; alignment "pytorch" gives the same numbers in each run. With both seeds 0 they
    cannot be foreseen.
    Returns `shape` of type output_type.
    Raises InputError where the bounds are no scalars of that type, or the range of integers is empty.
    Spec: RandomUniform-8.
    """
    bounds = minval, maxval
    for name, bound in (("minval", minval), ("maxval", maxval)):
        if bound.size != 1 or bound.dtype != output_type.dtype:
            raise InputError(
                f"{name} is {bound.dtype} {list(bound.shape)}, expected one element of {output_type.dtype}"
            )
    low, high = (bound.reshape(()) for bound in bounds)
    dimensions = to_int_list(shape)
    if dimensions and min(dimensions) < 0:
        raise InputError(f"the shape {dimensions} has a negative dimension")
    check_allocation((*dimensions, 2), np.dtype(np.uint64))  # what it is drawn in
    position = state.get(POSITION, (0, 0))
    values, state[POSITION] = uniform(math.prod(dimensions), low, high, global_seed, op_seed, alignment, position)
    return values.reshape(dimensions)


def uniform(
    count: int,
    low: Array,
    high: Array,
    global_seed: int,
    op_seed: int,
    alignment: Alignment = "tensorflow",
    position: tuple[int, int] = (0, 0),
) -> tuple[Array, tuple[int, int]]:
    """`count` numbers from `low` to `high` in their type, and the position for the next run.

    Raises:
        InputError: the type is none that OpenVINO draws, or the range of integers is empty.
    """
    dtype = low.dtype
    if dtype not in TYPES:
        raise InputError(f"random numbers of type {dtype} are not defined")
    if is_integer(dtype) and not low < high:
        raise InputError(f"there is no integer from {low} to {high}, the latter excluded")
    if global_seed == 0 and op_seed == 0:
        global_seed = secrets.randbits(64)
    pytorch = alignment == "pytorch"
    # 64 bits are made of two numbers, but PyTorch saves one where the bounds fit into 32 bits.
    short = dtype.itemsize <= 4 or (pytorch and is_integer(dtype) and low < 2**32 and high < 2**32)
    needed = count if short else 2 * count
    if pytorch:
        numbers = mersenne_twister(needed, global_seed)
        following = position
    else:
        start, upper = position
        blocks = -(-needed // 4)
        numbers = philox(blocks, global_seed % 2**64, upper or op_seed % 2**64, start).reshape(-1)[:needed]
        following = _advanced(position, blocks * RESERVED)
    numbers = numbers.astype(np.uint64)
    if not short:
        first, second = numbers.reshape(-1, 2).T
        swapped = is_integer(dtype) and not pytorch
        numbers = (second << HALF) + first if swapped else (first << HALF) + second
    if is_integer(dtype):
        return _integers(numbers, low, high), following
    return _fractions(numbers, low, high, pytorch), following


def _advanced(position: tuple[int, int], blocks: int) -> tuple[int, int]:
    lower, carry = (position[0] + blocks) % 2**64, (position[0] + blocks) // 2**64
    return lower, position[1] + carry


def _integers(numbers: Array, low: Array, high: Array) -> Array:
    """The rest of the division by the size of the range; 64 bits wrap around as in C."""
    spread = np.uint64(int(high) - int(low))
    result: Array = numbers % spread + np.uint64(int(low) % 2**64)
    return result.astype(low.dtype)


def _fractions(numbers: Array, low: Array, high: Array, pytorch: bool) -> Array:
    """The lowest bits as a fraction of 1, times the range.

    TensorFlow takes as many bits as the type stores and rounds each step; PyTorch takes one more, the implicit
    one, and computes narrow types in f32.
    """
    dtype = low.dtype
    bits = TYPES[dtype] + pytorch
    fraction = (numbers & np.uint64(2**bits - 1)).astype(np.float64) * 2.0**-bits
    low, spread = (upcast(x) for x in (low, _rounded(upcast(high) - upcast(low), dtype)))
    result: Array = fraction.astype(low.dtype) * spread
    if not pytorch:
        result = upcast(_rounded(result, dtype))
    return _rounded(result + low, dtype)


def _rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x` in `dtype`, bf16 as OpenVINO's reference rounds it: up to an even last bit, never to an odd one."""
    if dtype != ml_dtypes.bfloat16:
        return x.astype(dtype, copy=False)
    bits = np.asarray(x).view(np.uint32)
    return ((bits + ((bits & 0x10000) >> 1)) >> 16).astype(np.uint16).view(dtype)
