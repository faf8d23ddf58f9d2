"""The two generators of random 32-bit numbers that OpenVINO has."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.ops._support.numerics import Array

__all__ = ["mersenne_twister", "philox"]

ROUNDS = 10
MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(count: int, key: int, counter: int, start: int) -> Array:
    """`count` blocks of four numbers of Philox 4x32 with ten rounds: u32 [count, 4].

    key: the seed; counter, start: the upper and the lower half of the number of the first block.
    """
    blocks = np.arange(count, dtype=np.uint64) + np.uint64(start)
    # Where the lower half wraps around, the upper half goes on.
    upper = np.uint64(counter) + (blocks < np.uint64(start)).astype(np.uint64)
    state = [blocks & MASK, blocks >> HALF, upper & MASK, upper >> HALF]
    key_low, key_high = key & 0xFFFFFFFF, key >> 32
    for _ in range(ROUNDS):
        first = state[0] * np.uint64(0xD2511F53)
        second = state[2] * np.uint64(0xCD9E8D57)
        state = [
            (second >> HALF) ^ state[1] ^ np.uint64(key_low),
            second & MASK,
            (first >> HALF) ^ state[3] ^ np.uint64(key_high),
            first & MASK,
        ]
        key_low = (key_low + 0x9E3779B9) & 0xFFFFFFFF
        key_high = (key_high + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(state, axis=-1).astype(np.uint32)


def mersenne_twister(count: int, seed: int) -> Array:
    """The first `count` numbers of MT19937, seeded as PyTorch seeds it: u32 [count]."""
    # The whole range of u32 is drawn without rejection: these are the generator's own numbers.
    generator: Any = np.random.RandomState(seed & 0xFFFFFFFF)
    numbers: Array = generator.randint(0, 2**32, count, dtype=np.uint32)
    return numbers
