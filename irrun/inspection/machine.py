"""The measured speed of a machine: computation and data movement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from irrun.threads import multiply_matrices, run_parallel, use_threads

__all__ = ["Machine", "measure_machine"]

#: Sizes of the multiplied matrices: large ones, and stacks of small ones, for which BLAS has other
#: kernels on some processors.
MATRIX_SIZE, SMALL_SIZE, STACK_SIZE = 1024, 96, 16
#: Size of each copied array in bytes, more than the caches of most processors.
COPY_SIZE = 64 << 20
#: Number of parts of the copy, and number of stacks.
PARTS = 16
REPEATS = 5


@dataclass(frozen=True)
class Machine:
    """The speed of a machine with a number of threads.

    Attributes:
        threads: The number of threads.
        flops_per_second: Operations per second in f32 matrix products, two per multiply-add.
        bytes_per_second: Bytes read and written per second when copying a large array.
    """

    threads: int
    flops_per_second: float
    bytes_per_second: float

    def get_bound(self, flops: int | None, size: int) -> float:
        """Return the minimum time of a computation in seconds, for its operations or for moving its data.

        Args:
            flops: The number of operations, or None if it is unknown.
            size: The bytes that are read and written.
        """
        return max((flops or 0) / self.flops_per_second, size / self.bytes_per_second)

    def to_dict(self) -> dict[str, float]:
        """Return the fields by name."""
        return dict(vars(self))


def measure_machine(threads: int) -> Machine:
    """Measure the machine; this takes about half a second.

    Args:
        threads: The number of threads.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((MATRIX_SIZE, MATRIX_SIZE), np.float32) for _ in range(2))
    source = np.zeros((PARTS, COPY_SIZE // PARTS), np.uint8)
    target = np.ones_like(source)

    small = rng.standard_normal((PARTS, STACK_SIZE, SMALL_SIZE, SMALL_SIZE), np.float32)
    products = np.empty_like(small)

    def multiply(part: int) -> None:
        np.matmul(small[part], small[part], out=products[part])

    def copy(part: int) -> None:
        np.copyto(target[part], source[part])

    # Kernels of BLAS for ARM set flags of errors without errors.
    with use_threads(threads), np.errstate(all="ignore"):
        product_time = _measure(lambda: multiply_matrices(a, b))
        stacks_time = _measure(lambda: run_parallel(multiply, PARTS))
        copy_time = _measure(lambda: run_parallel(copy, PARTS))
    flops_per_second = max(2 * MATRIX_SIZE**3 / product_time, 2 * PARTS * STACK_SIZE * SMALL_SIZE**3 / stacks_time)
    return Machine(threads, flops_per_second, 2 * COPY_SIZE / copy_time)


def _measure(run: Callable[[], Any]) -> float:
    """Return the shortest time of several runs in seconds."""
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return min(times)
