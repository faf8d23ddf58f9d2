"""ReduceMean along the last axes, such as the pooling of whole maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import RESULT, Binding, Layout, make_layout
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.reductions import make_row_task, sum_row

__all__ = ["MeanKernel", "compile_means"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


@cache_kernel
def compile_means() -> Kernel:
    """Return the kernel that computes the means of rows."""
    integers = ("first", "last", "length")
    f = Function("average", [("data", "ptr"), ("result", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    length = p["length"]
    count = f.convert("sitofp", length, "float")
    with f.loop(p["first"], p["last"]) as row:
        source = f.offset(p["data"], row * length)

        def load(position: Value, mask: Value | None, source: Value = source) -> Value:
            return f.load(f.offset(source, position), f.vector, mask)

        f.store(sum_row(f, length, load) / count, f.offset(p["result"], row))
    return compile_function(f)


class MeanKernel(CompiledKernel):
    """The kernel of ReduceMean along the last axes.

    Args:
        rank: The rank of the data.
        count: The number of axes.
        keeps_dimensions: Whether the axes are kept with size 1.
    """

    description = "compiled: means of rows"

    def __init__(self, rank: int, count: int, keeps_dimensions: bool) -> None:
        self._rank, self._count = rank, count
        self._kept = (1,) * count if keeps_dimensions else ()
        compile_means()

    def __call__(self, data: Array) -> Array:
        """Compute the means."""
        if data.dtype != F32:
            raise NoKernelError("expected f32 of the declared rank")
        return self.bind([make_layout(data.shape)]).run([make_contiguous(data)])

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the means of data of a shape.

        Raises:
            NoKernelError: The data is empty or has another rank.
        """
        ((shape, _),) = layouts
        lead = shape[: self._rank - self._count]
        if len(shape) != self._rank or not math.prod(shape):
            raise NoKernelError("expected f32 of the declared rank")
        rows = math.prod(lead)
        task = make_row_task(compile_means(), 2, rows, math.prod(shape) // rows)
        return Binding((*lead, *self._kept), [task], (0, RESULT))
