"""Padding of data whose levels do not include 0: pads get the nearest level, and sums are corrected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.convolution import Geometry
from irrun.limits import check_allocation

__all__ = ["PadCorrection", "may_pad"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Maximum size of a correction for all images: 16 MiB.
MAX_SIZE = 1 << 22


def may_pad(attributes: Mapping[str, Any], kernel: Sequence[int]) -> bool:
    """Return whether windows may exceed the data.

    Args:
        attributes: The attributes of Convolution.
        kernel: The size of a window.
    """
    if attributes.get("auto_pad", "explicit") in ("same_upper", "same_lower"):
        return max(kernel) > 1
    return any(pad > 0 for name in ("pads_begin", "pads_end") for pad in attributes.get(name, ()))


class PadCorrection:
    """The products of weights and pads, subtracted from the results of a convolution.

    Args:
        codes: The codes of the weights, shape [GROUPS, CO, CI, KH, KW].
        values: The value of a pad times the scale of the weights: f64, shape [GROUPS * CO].
    """

    def __init__(self, codes: Array, values: Array) -> None:
        self._sums = codes.sum(axis=2, dtype=np.int64).reshape(-1, *codes.shape[3:]).astype(np.float64)
        self._values = values

    def compute(self, geometry: Geometry, batch: int) -> Array:
        """Return the correction of each result: f32, shape [GROUPS * CO, OH, OW].

        Args:
            geometry: The windows.
            batch: The number of images; the correction is repeated for each.

        Raises:
            NoKernelError: The correction takes too much memory.
        """
        g = geometry
        shape = (len(self._sums), *g.output)
        if batch * math.prod(shape) > MAX_SIZE:
            raise NoKernelError("the maps are too large")
        check_allocation(shape, np.dtype(np.float64))
        rows, columns = (
            _mark_data(length, count, size, stride, dilation, begin)
            for length, count, size, stride, dilation, begin in zip(
                g.size, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True
            )
        )
        inside = rows @ self._sums @ columns.T
        total = self._sums.sum(axis=(1, 2), keepdims=True)
        return np.asarray((inside - total) * self._values[:, np.newaxis, np.newaxis], F32)


def _mark_data(length: int, count: int, size: int, stride: int, dilation: int, begin: int) -> Array:
    """Return 1 where an element of a window along an axis is data, and 0 where it is a pad, [windows, size]."""
    positions = np.arange(count)[:, np.newaxis] * stride + np.arange(size) * dilation - begin
    return ((positions >= 0) & (positions < length)).astype(np.float64)
