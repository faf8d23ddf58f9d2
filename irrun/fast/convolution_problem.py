"""The problem of a convolution, and the interface of the methods that solve it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from irrun.ops._support.windows import Windows
from irrun.threads import divide_time

__all__ = ["Finish", "Method", "Problem", "count_products"]

Array = np.ndarray[Any, Any]

#: Called for each block of the result [N, channels, positions] once its sums are complete.
Finish = Callable[[int, slice, slice], None]

#: Multiplications per nanosecond of a matrix product, for estimates.
MULTIPLICATION_RATE = 35


@dataclass(eq=False, repr=False)
class Problem:
    """The shapes of a convolution.

    Attributes:
        batch: Number of images.
        groups: Number of groups of channels.
        c_in: Input channels of a group.
        c_out: Output channels of a group.
        spatial: Spatial shape of the data.
        windows: The windows over the data.
    """

    batch: int
    groups: int
    c_in: int
    c_out: int
    spatial: tuple[int, ...]
    windows: Windows

    @cached_property
    def positions(self) -> int:
        """The number of windows of an image."""
        return math.prod(self.windows.output_shape)

    @property
    def is_depthwise(self) -> bool:
        """Whether each group has a single input and output channel."""
        return self.c_in == 1 and self.c_out == 1 and self.groups > 1


class Method(Protocol):
    """A way to compute a convolution for one shape of the data."""

    def __call__(self, data: Array, result: Array, finish: Finish) -> None:
        """Compute the convolution.

        Args:
            data: f32, contiguous, shape [N, GROUPS * C_IN, spatial...].
            result: f32, contiguous, shape [N, GROUPS * C_OUT, positions]; it is written to.
            finish: Called exactly once for each block of the result.
        """


def count_products(multiplications: int) -> int:
    """Return the number of parts of a product. It does not depend on the number of threads.

    Args:
        multiplications: The number of multiplications of all products.
    """
    return divide_time(multiplications // MULTIPLICATION_RATE)
