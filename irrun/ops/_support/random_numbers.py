"""The random number generators of OpenVINO, reproduced bit for bit."""

from __future__ import annotations

import secrets
from typing import Any, Literal

import ml_dtypes
import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array, is_integer, upcast

__all__ = ["Alignment", "draw_uniform", "generate_mersenne_twister", "generate_philox"]

#: The framework to match.
Alignment = Literal["tensorflow", "pytorch"]

#: The supported types and their number of mantissa bits, 0 for integers.
MANTISSA_BITS = {
    np.dtype(np.float16): 10,
    np.dtype(ml_dtypes.bfloat16): 7,
    np.dtype(np.float32): 23,
    np.dtype(np.float64): 52,
    np.dtype(np.int32): 0,
    np.dtype(np.int64): 0,
}

#: Number of blocks of numbers that TensorFlow reserves for each block that it uses.
RESERVED_BLOCKS = 256

PHILOX_ROUNDS = 10
LOW_32_BITS = np.uint64(0xFFFFFFFF)
SHIFT_32 = np.uint64(32)


def generate_philox(count: int, key: int, counter: int, start: int) -> Array:
    """Generate blocks of four numbers by Philox 4x32 with ten rounds.

    Args:
        count: Number of blocks.
        key: The seed, 64 bits.
        counter: Upper 64 bits of the index of the first block.
        start: Lower 64 bits of the index of the first block.

    Returns:
        Shape [count, 4], u32.
    """
    blocks = np.arange(count, dtype=np.uint64) + np.uint64(start)
    # Where the lower half wraps around, one is carried into the upper half.
    upper = np.uint64(counter) + (blocks < np.uint64(start)).astype(np.uint64)
    state = [blocks & LOW_32_BITS, blocks >> SHIFT_32, upper & LOW_32_BITS, upper >> SHIFT_32]
    key_low, key_high = key & 0xFFFFFFFF, key >> 32
    for _ in range(PHILOX_ROUNDS):
        first = state[0] * np.uint64(0xD2511F53)
        second = state[2] * np.uint64(0xCD9E8D57)
        state = [
            (second >> SHIFT_32) ^ state[1] ^ np.uint64(key_low),
            second & LOW_32_BITS,
            (first >> SHIFT_32) ^ state[3] ^ np.uint64(key_high),
            first & LOW_32_BITS,
        ]
        key_low = (key_low + 0x9E3779B9) & 0xFFFFFFFF
        key_high = (key_high + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(state, axis=-1).astype(np.uint32)


def generate_mersenne_twister(count: int, seed: int) -> Array:
    """Generate the first `count` numbers of MT19937, seeded as in PyTorch.

    Args:
        count: Number of elements.
        seed: The seed; its lower 32 bits are used.

    Returns:
        Shape [count], u32.
    """
    # The full range of u32 is drawn without rejection, so these are the raw numbers of the generator.
    generator: Any = np.random.RandomState(seed & 0xFFFFFFFF)
    numbers: Array = generator.randint(0, 2**32, count, dtype=np.uint32)
    return numbers


def draw_uniform(
    count: int,
    low: Array,
    high: Array,
    global_seed: int,
    op_seed: int,
    alignment: Alignment = "tensorflow",
    position: tuple[int, int] = (0, 0),
) -> tuple[Array, tuple[int, int]]:
    """Draw uniformly distributed numbers.

    Args:
        count: Number of elements.
        low: Scalar of type f16, bf16, f32, f64, i32 or i64; the lower bound, included.
        high: Scalar of the type of `low`; the upper bound, excluded.
        global_seed: First seed. If both seeds are 0, the numbers are not reproducible.
        op_seed: Second seed, ignored for "pytorch".
        alignment: The framework to match.
        position: Lower and upper half of the index of the first block of numbers, for "tensorflow".

    Returns:
        The numbers, shape [count], in the type of `low`; and the position for the next call.

    Raises:
        InputError: The type is unsupported, or the range of integers is empty.
    """
    dtype = low.dtype
    if dtype not in MANTISSA_BITS:
        raise InputError(f"random numbers of type {dtype} are undefined")
    if is_integer(dtype) and not low < high:
        raise InputError(f"the range [{low}, {high}) contains no integer")
    if global_seed == 0 and op_seed == 0:
        global_seed = secrets.randbits(64)
    is_pytorch = alignment == "pytorch"
    # 64-bit types take two numbers per element, except that PyTorch takes one if the bounds fit into 32 bits.
    is_short = dtype.itemsize <= 4 or (is_pytorch and is_integer(dtype) and low < 2**32 and high < 2**32)
    number_count = count if is_short else 2 * count
    if is_pytorch:
        numbers = generate_mersenne_twister(number_count, global_seed)
    else:
        start, upper = position
        block_count = -(-number_count // 4)
        blocks = generate_philox(block_count, global_seed % 2**64, upper or op_seed % 2**64, start)
        numbers = blocks.reshape(-1)[:number_count]
        position = _advance(position, block_count * RESERVED_BLOCKS)
    numbers = numbers.astype(np.uint64)
    if not is_short:
        first, second = numbers.reshape(-1, 2).T
        is_swapped = is_integer(dtype) and not is_pytorch
        numbers = (second << SHIFT_32) + first if is_swapped else (first << SHIFT_32) + second
    if is_integer(dtype):
        return _scale_to_integers(numbers, low, high), position
    return _scale_to_floats(numbers, low, high, is_pytorch), position


def _advance(position: tuple[int, int], blocks: int) -> tuple[int, int]:
    carry, lower = divmod(position[0] + blocks, 2**64)
    return lower, position[1] + carry


def _scale_to_integers(numbers: Array, low: Array, high: Array) -> Array:
    """Return `low` plus the numbers modulo the size of the range. 64-bit sums wrap as in C."""
    span = np.uint64(int(high) - int(low))
    result: Array = numbers % span + np.uint64(int(low) % 2**64)
    return result.astype(low.dtype)


def _scale_to_floats(numbers: Array, low: Array, high: Array, is_pytorch: bool) -> Array:
    """Scale the lowest bits of the numbers, as fractions of 1, to the range.

    TensorFlow uses as many bits as the mantissa stores and rounds after each step. PyTorch uses one more, the
    implicit one, and computes low-precision types in f32.
    """
    dtype = low.dtype
    bits = MANTISSA_BITS[dtype] + is_pytorch
    low, high = upcast(low), upcast(high)
    fractions = ((numbers & np.uint64(2**bits - 1)).astype(np.float64) * 2.0**-bits).astype(low.dtype)
    result: Array = fractions * upcast(_round_as_reference(high - low, dtype))
    if not is_pytorch:
        result = upcast(_round_as_reference(result, dtype))
    return _round_as_reference(result + low, dtype)


def _round_as_reference(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert `x` to `dtype`. For bf16, the reference rounds up only if that makes the last bit even."""
    if dtype != ml_dtypes.bfloat16:
        return x.astype(dtype, copy=False)
    bits = np.asarray(x).view(np.uint32)
    return ((bits + ((bits & 0x10000) >> 1)) >> 16).astype(np.uint16).view(dtype)
