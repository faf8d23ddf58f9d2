"""Kernels of instructions that the pass `jit` creates."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import CONSTANT, RESULT, TABLE, Binding, Layout, Operand, Shape, keep_binding, make_layout
from irrun.fast.jit.convolution import DirectConvolution, Geometry
from irrun.fast.jit.depthwise import DepthwiseConvolution
from irrun.fast.jit.elementwise import compile_rows, make_contiguous, make_row_task, plan_rows
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.reductions import (
    compile_normalization,
    compile_softmax,
    compute_softmax,
    make_normalization_task,
    make_softmax_task,
)
from irrun.fast.jit.single_windows import SingleWindowConvolution, has_single_window
from irrun.fast.jit.small_maps import SmallMapConvolution, has_small_map
from irrun.fast.jit.tasks import Task
from irrun.fast.jit.winograd import WinogradConvolution, choose_size, count_weights
from irrun.fast.packing import PackedMemory
from irrun.forks import make_lock
from irrun.limits import check_allocation
from irrun.ops._support.windows import Windows, create_windows

__all__ = [
    "ConvolutionKernel",
    "ExpressionKernel",
    "NormalizationKernel",
    "SoftmaxKernel",
]

Array = np.ndarray[Any, Any]
_Convolution: TypeAlias = (
    "DirectConvolution | DepthwiseConvolution | SingleWindowConvolution | SmallMapConvolution | WinogradConvolution"
)

F32 = np.dtype(np.float32)

#: Maximum number of shapes for which an expression keeps its task; tasks may have large tables.
MAX_TASKS = 4
#: The keys of the convolutions with one window, and of small maps.
SINGLE_WINDOW, SMALL_MAP = -1, -2


class ExpressionKernel(CompiledKernel):
    """The kernel of an expression.

    Args:
        rank: The declared rank of the running value, which decides how some operands broadcast.
        steps: The steps.
        operands: The value of each operand after the running value if it is constant, or None.
    """

    description = "compiled: elementwise, one pass over the data"

    def __init__(self, rank: int, steps: tuple[Step, ...], operands: Sequence[Array | None]) -> None:
        self._rank = rank
        self._expression = Expression((), steps)
        self._constants = [None if x is None else make_contiguous(x) for x in operands]
        self._tasks: dict[tuple[tuple[int, ...], ...], Task] = {}

    def __call__(self, data: Array, *variables: Array) -> Array:
        """Compute the expression.

        Raises:
            NoKernelError: The data is empty or not f32, or the layout of an operand does not allow it.
        """
        if data.dtype != F32 or data.ndim != self._rank or not data.size:
            raise NoKernelError("expected f32 of the declared rank")
        data = make_contiguous(data)
        if not all(map(_has_rows, variables)):
            variables = tuple([make_contiguous(x) for x in variables])
        operands = _merge(self._constants, variables)
        key = (data.shape, *[x.shape for x in variables], *[x.strides for x in variables])
        task = self._tasks.get(key)
        if task is None:
            layouts = tuple((x.shape, x.strides) for x in operands)
            task = make_row_task(self._expression.steps, data.shape, layouts)
            keep_binding(self._tasks, key, task, MAX_TASKS)
        for x in variables:
            if x.dtype != F32 or not x.flags.aligned:
                raise NoKernelError("expected operands of aligned f32")
        result = np.empty(data.shape, F32)
        table = np.array([get_address(x) for x in operands] or [0], np.int64)
        task.run(get_address(result), get_address(data), get_address(table))
        return result

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the expression of contiguous inputs of certain shapes.

        Raises:
            NoKernelError: No kernel supports these shapes.
        """
        shape, *shapes = (layout.shape for layout in layouts)
        if len(shape) != self._rank or not math.prod(shape):
            raise NoKernelError("expected data of the declared rank")
        operands = _merge(self._constants, [make_placeholder(s) for s in shapes])
        task = make_row_task(self._expression.steps, shape, tuple((x.shape, x.strides) for x in operands))
        return Binding(shape, [task], (RESULT, 0, TABLE), list_operands(self._constants), 0, self._constants)

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernel for declared shapes of the running value and the variable operands."""
        shape = shapes[0]
        variables = [make_placeholder(s) for s in shapes[1:]]
        layouts = tuple((x.shape, x.strides) for x in _merge(self._constants, variables))
        compile_rows(Expression(plan_rows(shape, layouts)[0], self._expression.steps))


def _has_rows(operand: Array) -> bool:
    """Return whether the elements along the last axis of an operand are contiguous, or all the same."""
    return not operand.ndim or operand.shape[-1] == 1 or operand.strides[-1] in (0, F32.itemsize)


def make_placeholder(shape: tuple[int, ...]) -> Array:
    """Return an array with the shape and strides of a contiguous array, but without its memory."""
    strides = [F32.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return np.lib.stride_tricks.as_strided(np.zeros(1, F32), shape, strides)


def _merge(constants: Sequence[Array | None], variables: Sequence[Array]) -> list[Array]:
    remaining = iter(variables)
    return [next(remaining) if x is None else x for x in constants]


@dataclass(frozen=True)
class _BoundConvolution:
    """A convolution for inputs of certain shapes.

    Attributes:
        binding: The convolution of the data, with operands in the form that the epilogue reads.
        kinds: The kinds of the variable operands.
    """

    binding: Binding
    kinds: list[str]


class ConvolutionKernel(CompiledKernel):
    """The kernel of a convolution with an epilogue.

    Args:
        filters: f32, shape [GROUPS, CO, CI, kernel...], with one or two spatial axes.
        attributes: The attributes of Convolution.
        steps: The steps of the epilogue.
        operands: The value of each operand of the epilogue if it is constant, or None.
        packed: Memory limit for packed weights, unlimited by default. Weights are packed when data of a shape first
            arrives, or when the shape is declared.

    Attributes:
        description: How it is computed.
    """

    def __init__(
        self,
        filters: Array,
        attributes: Mapping[str, Any],
        steps: tuple[Step, ...],
        operands: Sequence[Array | None],
        packed: PackedMemory | None = None,
    ) -> None:
        self._attributes, self._steps = attributes, steps
        self._kernel_shape = filters.shape[3:]
        self._rank = filters.ndim - 1
        groups, out_channels, in_channels = filters.shape[:3]
        self._in_channels, self._out_channels = groups * in_channels, groups * out_channels
        self._filters = filters if self._rank == 4 else filters[:, :, :, np.newaxis]
        self._packed = PackedMemory(sys.maxsize) if packed is None else packed
        self._is_depthwise = groups > 1 and out_channels == in_channels == 1
        #: Convolutions by the size of their tiles, 0 without Winograd's algorithm, or one of the keys above.
        self._convolutions: dict[int, _Convolution] = {}
        self._lock = make_lock()
        self.description = "compiled: convolution, products of blocks of padded rows"
        if self._is_depthwise:
            self.description = "compiled: depthwise convolution, vectors of neighboring windows"
        self._constants = [None if x is None else make_contiguous(x) for x in operands]
        self._geometries: dict[tuple[int, ...], Geometry] = {}
        self._bindings: dict[tuple[tuple[int, ...], ...], _BoundConvolution] = {}

    def __call__(self, data: Array, *variables: Array) -> Array:
        """Convolve, and compute the epilogue."""
        key = (data.shape, *[x.shape for x in variables])
        bound = self._bindings.get(key)
        if bound is None:
            bound = self._bind(data.shape, key[1:])
        if data.dtype != F32 or not all(x.dtype == F32 for x in variables):
            raise NoKernelError("expected f32")
        shape = bound.binding.shape
        check_allocation(shape, F32)
        operands = [expand_operand(x, kind, shape) for x, kind in zip(variables, bound.kinds, strict=True)]
        return bound.binding.run((make_contiguous(data), *operands))

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the convolution of inputs of certain shapes.

        Raises:
            NoKernelError: No kernel supports these shapes, or an operand would be copied.
        """
        shapes = tuple(layout.shape for layout in layouts)
        bound = self._bindings.get(shapes) or self._bind(shapes[0], shapes[1:])
        shape = bound.binding.shape
        for own, kind in zip(shapes[1:], bound.kinds, strict=True):
            size = {"scalar": 1, "channel": math.prod(shape[:2]), "full": math.prod(shape)}[kind]
            if math.prod(own) != size:
                raise NoKernelError("expected an operand as the epilogue reads it")
        return bound.binding

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels for declared shapes of the data and the variable operands."""
        self._bind(shapes[0], tuple(shapes[1:]))

    def _bind(self, data_shape: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> _BoundConvolution:
        if len(data_shape) != self._rank or data_shape[1] != self._in_channels or not math.prod(data_shape):
            raise NoKernelError("expected the channels of the filters")
        geometry, shape = self._plan(data_shape)
        operands = _merge(self._constants, [make_placeholder(s) for s in shapes])
        kinds = tuple(classify_operand(x, shape) for x in operands)
        constants = [
            None if x is None else expand_operand(x, kind, shape)
            for x, kind in zip(self._constants, kinds, strict=True)
        ]
        convolution = self._get_convolution(geometry, data_shape[0])
        table = list_operands(constants)
        binding = convolution.make_binding(data_shape[0], geometry, Expression(kinds, self._steps), table)
        bound = _BoundConvolution(
            replace(binding, shape=shape, constants=constants),
            [kind for kind, x in zip(kinds, constants, strict=True) if x is None],
        )
        key = (data_shape, *shapes)
        return keep_binding(self._bindings, key, bound)

    def _get_convolution(self, geometry: Geometry, batch: int) -> _Convolution:
        """Return the convolution for some windows, with packed weights."""
        _, out_channels, in_channels = self._filters.shape[:3]
        if has_single_window(geometry, self._filters.shape):
            self.description = "compiled: convolution, a product with one window"
            return self._keep(SINGLE_WINDOW, SingleWindowConvolution)
        if has_small_map(geometry, self._filters.shape):
            self.description = "compiled: convolution, products of pixels and vectors of channels"
            return self._keep(SMALL_MAP, SmallMapConvolution)
        size = 0 if self._is_depthwise else choose_size(geometry, in_channels, out_channels)
        with self._lock:
            if size and size not in self._convolutions:
                count = F32.itemsize * count_weights(self._filters.shape, size)
                if not self._packed.fits(count):
                    size = 0
                else:
                    self._packed.reserve(count)
                    self._convolutions[size] = WinogradConvolution(self._filters, size)
            if size not in self._convolutions:
                self._packed.reserve(self._filters.nbytes)
                is_depthwise = self._is_depthwise
                self._convolutions[0] = (
                    DepthwiseConvolution(self._filters[:, 0, 0]) if is_depthwise else DirectConvolution(self._filters)
                )
            if size:
                self.description = f"compiled: Winograd F({size}x{size}, 3x3), blocks of tiles"
            return self._convolutions[size]

    def _keep(self, key: int, create: Callable[[Array], _Convolution]) -> _Convolution:
        """Return the convolution with a key, created if there is none."""
        with self._lock:
            if key not in self._convolutions:
                self._packed.reserve(self._filters.nbytes)
                self._convolutions[key] = create(self._filters)
            return self._convolutions[key]

    def _plan(self, data_shape: tuple[int, ...]) -> tuple[Geometry, tuple[int, ...]]:
        """Return the windows, and the shape of the result."""
        spatial = data_shape[2:]
        geometry = self._geometries.get(spatial)
        if geometry is None:
            windows = create_windows(spatial, self._kernel_shape, **self._attributes)
            geometry = keep_binding(self._geometries, spatial, make_geometry(spatial, windows))
        output = geometry.output if self._rank == 4 else geometry.output[1:]
        return geometry, (data_shape[0], self._out_channels, *output)


def list_operands(constants: Sequence[Array | None]) -> list[Operand]:
    """Return the addresses of operands: variable operands are inputs from number 1 on."""
    numbers = itertools.count(1)
    return [(next(numbers), 0) if x is None else (CONSTANT, get_address(x)) for x in constants]


class NormalizationKernel(CompiledKernel):
    """The kernel of MVN along the last axes, with an epilogue.

    Args:
        rank: The declared rank of the data.
        count: The number of axes.
        attributes: The attributes of MVN-6.
        steps: The steps of the epilogue.
        operands: The value of each operand of the epilogue if it is constant, or None.
        is_centered: Whether the mean is subtracted; without, rows are divided by their root mean square.
    """

    description = "compiled: normalization, one row at a time"

    def __init__(
        self,
        rank: int,
        count: int,
        attributes: Mapping[str, Any],
        steps: tuple[Step, ...],
        operands: Sequence[Array | None],
        is_centered: bool = True,
    ) -> None:
        self._rank, self._count, self._steps = rank, count, steps
        self._epsilon = float(attributes["eps"])
        is_inside = attributes["eps_mode"] == "inside_sqrt"
        self._modes = bool(attributes["normalize_variance"]), is_inside, is_centered
        self._constants = [None if x is None else make_contiguous(x) for x in operands]
        self._bindings: dict[tuple[tuple[int, ...], ...], Binding] = {}

    def __call__(self, data: Array, *variables: Array) -> Array:
        """Normalize, and compute the epilogue."""
        if data.dtype != F32 or data.ndim != self._rank or not data.size or not all(x.dtype == F32 for x in variables):
            raise NoKernelError("expected f32 of the declared rank")
        key = (data.shape, *[x.shape for x in variables])
        binding = self._bindings.get(key)
        if binding is None:
            binding = keep_binding(self._bindings, key, self.bind([make_layout(s) for s in key]))
        return binding.run([make_contiguous(x) for x in (data, *variables)])

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the normalization of contiguous inputs of certain shapes.

        Raises:
            NoKernelError: No kernel supports these shapes.
        """
        shape, *shapes = (layout.shape for layout in layouts)
        if len(shape) != self._rank or not math.prod(shape):
            raise NoKernelError("expected data of the declared rank")
        operands = _merge(self._constants, [make_placeholder(s) for s in shapes])
        length = math.prod(shape[self._rank - self._count :])
        expression = self._classify(operands, shape)
        task = make_normalization_task(math.prod(shape) // length, length, self._epsilon, expression, self._modes)
        return Binding(shape, [task], (0, RESULT, TABLE), list_operands(self._constants), 0, self._constants)

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernel for declared shapes of the data and the variable operands."""
        operands = _merge(self._constants, [make_placeholder(s) for s in shapes[1:]])
        compile_normalization(self._classify(operands, shapes[0]), *self._modes)

    def _classify(self, operands: Sequence[Array], shape: tuple[int, ...]) -> Expression:
        row = math.prod(shape[len(shape) - self._count :])
        kinds = []
        for x in operands:
            is_row = x.size == row and x.shape[-self._count :] == shape[-self._count :]
            if x.dtype != F32 or x.ndim > len(shape) or not (x.size == 1 or is_row or x.shape == shape):
                raise NoKernelError("expected a scalar, a row, or an operand with the shape of the data")
            kinds.append("scalar" if x.size == 1 else "row" if is_row else "full")
        return Expression(tuple(kinds), self._steps)


class SoftmaxKernel(CompiledKernel):
    """The kernel of Softmax along the last axis.

    Args:
        rank: The declared rank of the data.
    """

    description = "compiled: softmax, one row at a time"

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __call__(self, data: Array) -> Array:
        """Compute the softmax."""
        if data.dtype != F32 or data.ndim != self._rank:
            raise NoKernelError("expected f32 of the declared rank")
        return compute_softmax(make_contiguous(data))

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return the softmax of contiguous data of a shape.

        Raises:
            NoKernelError: The data is empty or has another rank.
        """
        ((shape, _),) = layouts
        if len(shape) != self._rank or not math.prod(shape):
            raise NoKernelError("expected data of the declared rank")
        return Binding(shape, [make_softmax_task(math.prod(shape[:-1]), shape[-1])], (0, RESULT))

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernel."""
        compile_softmax()


def make_geometry(spatial: tuple[int, ...], windows: Windows) -> Geometry:
    size, output, kernel = (_to_pair(v, 1) for v in (spatial, windows.output_shape, windows.kernel))
    strides, dilations, begin = (
        _to_pair(windows.strides, 1),
        _to_pair(windows.dilations, 1),
        _to_pair(windows.pads_begin, 0),
    )
    # The padding after the data follows from the number of windows.
    rows, columns = (
        (n - 1) * s + d * (k - 1) + 1 - before - length
        for n, s, d, k, before, length in zip(output, strides, dilations, kernel, begin, size, strict=True)
    )
    return Geometry(size, kernel, strides, dilations, begin, (rows, columns))


def _to_pair(values: Sequence[int], default: int) -> tuple[int, int]:
    """Return the values for rows and columns; 1D data counts as one row."""
    return (values[0], values[1]) if len(values) == 2 else (default, values[0])


def classify_operand(operand: Array, shape: tuple[int, ...]) -> str:
    """Return the kind of an epilogue operand for a result of a shape.

    Raises:
        NoKernelError: The operand does not broadcast to the shape.
    """
    if operand.dtype != F32:
        raise NoKernelError("expected f32")
    if operand.size == 1 and operand.ndim <= len(shape):
        return "scalar"
    own = (1,) * (len(shape) - operand.ndim) + operand.shape
    if len(own) != len(shape) or any(d not in (1, n) for d, n in zip(own, shape, strict=True)):
        raise NoKernelError("an operand does not broadcast to the result")
    return "channel" if set(own[2:]) == {1} else "full"


def expand_operand(operand: Array, kind: str, shape: tuple[int, ...]) -> Array:
    """Return an operand in the form that the epilogue reads."""
    if kind == "scalar" or operand.shape == shape:
        return make_contiguous(operand)
    if kind == "channel":
        own = ((1,) * (len(shape) - operand.ndim) + operand.shape)[:2]
        return make_contiguous(np.broadcast_to(operand.reshape(own), shape[:2]))
    return make_contiguous(np.broadcast_to(operand, shape))
