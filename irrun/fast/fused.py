"""Kernels of several instructions: an operation and the elementwise operations that follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.elementwise import ElementwiseChain

__all__ = ["FusedKernel"]

Array = np.ndarray[Any, Any]


class FusedKernel:
    """Applies a chain in place to the result of a kernel.

    Args:
        kernel: A kernel that returns a new array.
        input_count: The number of its inputs, which precede the inputs of the chain.
        chain: The operations that follow.
    """

    def __init__(self, kernel: Callable[..., Any], input_count: int, chain: ElementwiseChain) -> None:
        self.kernel, self.input_count, self.chain = kernel, input_count, chain

    def __call__(self, *inputs: Array) -> Array:
        """Compute the result of the kernel and what follows.

        Args:
            inputs: The inputs of the kernel, and of the chain apart from the running value.
        """
        count = self.input_count
        return self.chain(self.kernel(*inputs[:count]), *inputs[count:], may_overwrite=True)
