"""Products of the inputs of recurrent sequences with constant weights, read where they are, in any order of axes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.expressions.table import Step
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.products import Product
from irrun.fast.jit.tasks import Task
from irrun.limits import check_allocation

__all__ = ["Projection"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)
#: Minimum number of consecutive steps of a sequence that are multiplied together. Shorter parts of several sequences
#: are copied to contiguous rows, so that tiles have more rows.
MIN_GROUP_ROWS = 16
#: Maximum number of layouts of inputs for which a projection keeps its tasks.
MAX_TASKS = 64


class Projection:
    """The product of all rows of a sequence with the weights of its inputs.

    Args:
        weights: f32, shape [input, columns].
        bias: f32, shape [columns]; None for zeros.
    """

    def __init__(self, weights: Array, bias: Array | None) -> None:
        self._product = Product(weights)
        self._bias = bias
        has_bias = bias is not None
        self._expression = Expression(("column",) * has_bias, (Step("Add", (0, 1)),) * has_bias)
        self._table = np.array([0 if bias is None else get_address(bias)], np.int64)
        self._make_task = functools.lru_cache(MAX_TASKS)(self._create_task)

    def __call__(self, x: Array) -> Array:
        """Return the products, [time, batch, columns].

        Args:
            x: f32, shape [time, batch, input].

        Raises:
            NoKernelError: x has another shape or type.
        """
        if x.ndim != 3 or x.dtype != F32 or x.shape[2] != self._product.inner or not x.size:
            raise NoKernelError(f"the input has shape {x.shape} and type {x.dtype}")
        if x.strides[2] != F32.itemsize or any(s % F32.itemsize for s in x.strides) or not x.flags.aligned:
            x = np.array(x, order="C")
        time, batch, _ = x.shape
        if 1 < time < MIN_GROUP_ROWS and batch > 1:
            x = np.ascontiguousarray(x)
        check_allocation((time, batch, self._product.columns), F32)
        result = np.empty((time, batch, self._product.columns), F32)
        task = self._make_task(time, batch, x.strides[0] // F32.itemsize, x.strides[1] // F32.itemsize)
        task.run(get_address(x), get_address(result), get_address(self._table))
        return result

    def _create_task(self, time: int, batch: int, time_stride: int, batch_stride: int) -> Task:
        """Return the task for X of some strides, in elements."""
        return self._product.make_rows_task(_list_rows(time, batch, time_stride, batch_stride), self._expression)


def _list_rows(time: int, batch: int, time_stride: int, batch_stride: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield groups of rows; see `Product.make_rows_task`."""
    if time == 1:
        yield batch, 0, batch_stride, 0, 1
    elif batch == 1 or time_stride == batch * batch_stride:
        yield time * batch, 0, time_stride if batch == 1 else batch_stride, 0, 1
    else:
        for number in range(batch):
            yield time, number * batch_stride, time_stride, number, batch
