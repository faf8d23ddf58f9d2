"""MaxPool: the maxima of neighboring windows of a row are computed in one vector, without a padded copy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import RESULT, Binding, Layout, Shape
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.compiler import Kernel, cache_kernel, compile_function, get_lanes
from irrun.fast.jit.depthwise import MAX_TAPS, RowLoads
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.tasks import Task, make_base, make_range_task
from irrun.limits import check_allocation
from irrun.ops._support.windows import Windows, create_windows

__all__ = ["MaxPoolKernel"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: The maximum of an empty window.
LOWEST = float(np.finfo(F32).min)
#: Minimum number of window elements per part, and maximum number of parts.
MIN_PART_WORK, MAX_PARTS = 1 << 18, 16
#: Maximum number of shapes for which a kernel keeps its windows.
MAX_SHAPES = 64


@cache_kernel
def compile_max_pool(kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]) -> Kernel:
    """Return the kernel for a window size, strides (1 or 2 along rows) and dilations."""
    integers = ("first", "last", "height", "width", "rows", "columns", "top", "left")
    f = Function("max_pool", [("data", "ptr"), ("result", "ptr"), *((n, "i64") for n in integers)], get_lanes())
    p = f.parameters
    height, width, columns = p["height"], p["width"], p["columns"]
    maximum = f.variable(f.vector, LOWEST)
    with f.loop(p["first"], p["last"]) as channel, f.loop(0, columns, f.lanes) as column:
        source = f.offset(p["data"], channel * height * width)
        first_column = column * strides[1] - p["left"]
        loads = RowLoads(f, first_column, width, kernel[1], strides[1], dilations[1], LOWEST)
        valid = f.mask_range(0, columns - column)
        with f.loop(0, p["rows"]) as row:
            maximum.set(LOWEST)
            for y in range(kernel[0]):
                index = row * strides[0] - p["top"] + y * dilations[0]
                with f.when(f.compare("sge", index, 0) & f.compare("slt", index, height)):
                    for pixels in loads.load(f.offset(source, index * width)):
                        _raise(f, maximum, pixels)
            target = f.offset(p["result"], (channel * p["rows"] + row) * columns + column)
            f.store(loads.restore_order(maximum.get()), target, valid)
    return compile_function(f)


def _raise(f: Function, maximum: Any, value: Value) -> None:
    """Update the maximum with a greater value; NaN never counts as greater."""
    current = maximum.get()
    maximum.set(f.select(f.compare("ogt", value, current), value, current))


class MaxPoolKernel(CompiledKernel):
    """The kernel of MaxPool with two spatial axes, without indices.

    Args:
        attributes: The attributes of MaxPool.
    """

    description = "compiled: pooling, vectors of neighboring windows"

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        names = ("strides", "pads_begin", "pads_end", "auto_pad")
        self._attributes = {name: attributes[name] for name in names if name in attributes}
        self._rounding = attributes.get("rounding_type", "floor")
        self._dilations = list(attributes.get("dilations", ()))
        self._kernel = attributes["kernel"]
        self._windows: dict[tuple[int, ...], Windows] = {}
        self._tasks: dict[tuple[int, ...], Task] = {}

    def __call__(self, data: Array) -> Array:
        """Compute the maxima."""
        windows = self._windows.get(data.shape)
        if windows is None:
            windows = self._plan(data.shape)
        if data.dtype != F32:
            raise NoKernelError("expected f32")
        shape = (*data.shape[:2], *windows.output_shape)
        check_allocation(shape, F32)
        result = np.empty(shape, F32)
        task = self._tasks.get(data.shape)
        if task is None:
            task = self._make_task(data.shape, windows)
        data = make_contiguous(data)
        task.run(get_address(data), get_address(result))
        return result

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the maxima of data of a shape.

        Raises:
            NoKernelError: No kernel supports this shape.
        """
        ((shape, _),) = layouts
        windows = self._windows.get(shape) or self._plan(shape)
        task = self._tasks.get(shape) or self._make_task(shape, windows)
        return Binding((*shape[:2], *map(int, windows.output_shape)), [task], (0, RESULT))

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernel for a declared shape of the data."""
        self._compile(self._plan(shapes[0]))

    def _plan(self, shape: tuple[int, ...]) -> Windows:
        if len(shape) != 4 or len(self._kernel) != 2 or not math.prod(shape):
            raise NoKernelError("expected data with two spatial axes")
        windows = create_windows(
            shape[2:], self._kernel, dilations=self._dilations, rounding=self._rounding, **self._attributes
        )
        if 0 in windows.output_shape or windows.strides[1] > 2 or math.prod(windows.kernel) > MAX_TAPS:
            raise NoKernelError("the windows or strides are too large")
        if len(self._windows) >= MAX_SHAPES:
            self._windows.clear()
            self._tasks.clear()
        self._windows[shape] = windows
        return windows

    def _make_task(self, shape: tuple[int, ...], windows: Windows) -> Task:
        count = shape[0] * shape[1]
        work = count * math.prod(windows.output_shape) * math.prod(windows.kernel)
        parts = max(1, min(MAX_PARTS, count, work // MIN_PART_WORK))
        sizes = (*shape[2:], *windows.output_shape, *windows.pads_begin)
        task = make_range_task(self._compile(windows), (make_base(0), make_base(1)), count, parts, sizes)
        self._tasks[shape] = task
        return task

    def _compile(self, windows: Windows) -> Kernel:
        kernel, strides, dilations = (
            (int(pair[0]), int(pair[1])) for pair in (windows.kernel, windows.strides, windows.dilations)
        )
        return compile_max_pool(kernel, strides, dilations)
