"""Convolution of f32 with constant filters: the method is chosen when data of a shape first arrives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.convolution_problem import Finish, Method, Problem
from irrun.fast.convolution_products import ColumnMethod, PointwiseMethod, VectorMethod, suits_vectors
from irrun.fast.depthwise import (
    BandedMethod,
    TapMethod,
    can_sum_taps,
    compute_segment_width,
    count_band_rows,
    make_bands,
    suits_bands,
)
from irrun.fast.depthwise_rows import (
    RowMethod,
    count_block_rows,
    count_row_filter_bytes,
    list_filter_parts,
    make_row_filters,
    suits_rows,
)
from irrun.fast.elementwise import BoundChain, ElementwiseChain, Operand
from irrun.fast.errors import NoKernelError
from irrun.fast.fused import fuses
from irrun.fast.methods import Choice, MethodEntry, choose_method
from irrun.fast.packing import PackedMemory
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import BLOCK, F32, TILE
from irrun.fast.transposition import make_contiguous
from irrun.fast.winograd import WinogradMethod, transform_filters
from irrun.limits import check_allocation
from irrun.ops._support.windows import create_windows

__all__ = ["METHODS", "ConvolutionEntry", "ConvolutionKernel"]

Array = np.ndarray[Any, Any]

#: Winograd's algorithm: minimum number of input and output channels, and minimum number of tiles per image.
MIN_WINOGRAD_CHANNELS, MIN_WINOGRAD_TILES = 16, 25
#: Maximum number of data shapes for which a kernel keeps methods.
MAX_SHAPES = 16


def _flatten(filters: Array, problem: Problem) -> Array:
    return filters.reshape(problem.groups, problem.c_out, -1)


@dataclass(frozen=True, eq=False)
class ConvolutionEntry(MethodEntry[Problem]):
    """A method of convolution, created from the prepared filters and the problem.

    Attributes:
        prepare: Returns the filters [GROUPS, C_OUT, C_IN, kernel...] in the form that the method requires.
    """

    prepare: Callable[[Array, Problem], Array] = _flatten


def _suits_winograd(problem: Problem) -> bool:
    windows = problem.windows
    if windows.kernel != (3, 3) or windows.strides != (1, 1) or windows.dilations != (1, 1) or problem.groups > 1:
        return False
    tiles = math.prod(-(-n // 2) for n in windows.output_shape)
    return min(problem.c_in, problem.c_out) >= MIN_WINOGRAD_CHANNELS and tiles >= MIN_WINOGRAD_TILES


def _count_bands(problem: Problem) -> int:
    return 4 * problem.groups * problem.windows.kernel[0] * count_band_rows(problem) * compute_segment_width(problem)


METHODS = (
    ConvolutionEntry(
        "shifted rows",
        "depthwise convolutions, windows of two or three columns, rows as long as the data divided by a stride up to 2",
        suits_rows,
        RowMethod,
        count_row_filter_bytes,
        lambda filters, problem: make_row_filters(filters.reshape(problem.groups, *problem.windows.kernel), problem),
    ),
    ConvolutionEntry(
        "banded products",
        "depthwise convolutions, small maps and windows",
        suits_bands,
        BandedMethod,
        _count_bands,
        lambda filters, problem: make_bands(filters.reshape(problem.groups, *problem.windows.kernel), problem),
    ),
    ConvolutionEntry(
        "taps",
        "depthwise convolutions along two axes with strides or dilations of 1",
        lambda problem: problem.is_depthwise and can_sum_taps(problem),
        TapMethod,
        prepare=lambda filters, problem: filters.reshape(problem.groups, *problem.windows.kernel),
    ),
    ConvolutionEntry("vector", "maps of one element", suits_vectors, VectorMethod),
    ConvolutionEntry(
        "product", "windows of one element", lambda problem: max(problem.windows.kernel) == 1, PointwiseMethod
    ),
    ConvolutionEntry(
        "Winograd F(2x2, 3x3)",
        f"3x3, stride 1, at least {MIN_WINOGRAD_CHANNELS} channels and {MIN_WINOGRAD_TILES} tiles",
        _suits_winograd,
        WinogradMethod,
        lambda problem: 16 * 4 * problem.c_in * problem.c_out,
        lambda filters, problem: transform_filters(filters[0]),
    ),
    ConvolutionEntry("columns", "all others", lambda problem: True, ColumnMethod),
)


class ConvolutionKernel:
    """A convolution with constant filters, and the elementwise operations after it.

    Args:
        filters: f32, shape [GROUPS, C_OUT, C_IN, kernel...].
        attributes: The attributes of Convolution.
        packed: The memory limit for prepared filters.
        chain: The operations after the convolution, whose result is the running value.

    Attributes:
        filters: See above.
        attributes: See above.
        chain: See above.
    """

    def __init__(
        self,
        filters: Array,
        attributes: Mapping[str, Any],
        packed: PackedMemory,
        chain: ElementwiseChain | None = None,
    ) -> None:
        self.filters, self.attributes, self.chain = filters, attributes, chain
        self._packed = packed
        self._methods: dict[tuple[int, ...], tuple[Problem, Method]] = {}
        #: Chains without other inputs, bound to the shape of a result.
        self._bound: dict[tuple[int, ...], BoundChain] = {}
        #: Filters prepared for any shape, by the name of the method and its parameters.
        self._prepared: dict[object, Array] = {}

    def __call__(self, data: Array, *operands: Array) -> Array:
        """Compute the convolution and the chain.

        Args:
            data: f32, shape [N, GROUPS * C_IN, spatial...].
            operands: The other inputs of the chain.

        Raises:
            NoKernelError: The data does not have the expected type or shape.
        """
        if data.dtype is not F32 or any(x.dtype is not F32 for x in operands):
            raise NoKernelError("expected f32")
        entry = self._methods.get(data.shape)
        if entry is None:
            if len(self._methods) >= MAX_SHAPES:
                self._methods.clear()
                self._bound.clear()
                self._packed.release(sum(filters.nbytes for filters in self._prepared.values()))
                self._prepared.clear()
            entry = self._methods[data.shape] = self._prepare(data.shape)
        problem, method = entry
        if type(method) is VectorMethod:
            product = method.multiply(data)
            return product if self.chain is None else self.chain(product, *operands, may_overwrite=True)
        channels = problem.groups * problem.c_out
        # The problem of 1D data may have a second spatial axis of length 1; see `_make_problem`.
        shape = (problem.batch, channels, *problem.windows.output_shape[-(data.ndim - 2) :])
        check_allocation(shape, F32)
        result = np.empty(shape, F32)
        blocks = result.reshape(problem.batch, channels, problem.positions)
        data = make_contiguous(data).reshape(*data.shape[:2], *problem.spatial)
        chain = self.chain
        if chain is None or result.size <= TILE or not chain.keeps_shape(shape, operands):
            method(data, blocks, _do_nothing)
            return result if chain is None else chain(result, *operands, may_overwrite=True)
        bound = self._bound.get(shape)
        if bound is None:
            bound = BoundChain(chain, [None, *operands], shape, blocks.shape)
            if not operands:
                self._bound[shape] = bound
        method(data, blocks, _make_finish(bound, blocks))
        return result

    def choose(self, shape: tuple[int, ...]) -> Choice:
        """Return the method for data of a shape.

        Raises:
            NoKernelError: The data does not match the filters.
        """
        return self._choose(self._make_problem(shape))

    def _make_problem(self, shape: tuple[int, ...]) -> Problem:
        groups, c_out, c_in = self.filters.shape[:3]
        if len(shape) != self.filters.ndim - 1 or shape[1] != groups * c_in or 0 in shape:
            raise NoKernelError("the data does not match the filters")
        spatial, kernel, attributes = shape[2:], self.filters.shape[3:], dict(self.attributes)
        if len(spatial) == 1 and c_in == c_out == 1 and groups > 1:  # depthwise methods have two spatial axes
            spatial, kernel = (1, *spatial), (1, *kernel)
            for name, value in (("strides", 1), ("dilations", 1), ("pads_begin", 0), ("pads_end", 0)):
                attributes[name] = [value, *attributes[name]] if attributes.get(name) else []
        windows = create_windows(
            spatial,
            kernel,
            attributes["strides"],
            attributes["dilations"],
            attributes["pads_begin"],
            attributes["pads_end"],
            attributes.get("auto_pad", "explicit"),
        )
        return Problem(shape[0], groups, c_in, c_out, tuple(spatial), windows)

    def _choose(self, problem: Problem) -> Choice:
        def fits(entry: MethodEntry[Problem], size: int) -> bool:
            return _make_key(entry, problem) in self._prepared or self._packed.fits(size)

        return choose_method(METHODS, problem, fits)

    def _prepare(self, shape: tuple[int, ...]) -> tuple[Problem, Method]:
        problem = self._make_problem(shape)
        entry = self._choose(problem).entry
        assert isinstance(entry, ConvolutionEntry)
        key = _make_key(entry, problem)
        filters = self._prepared.get(key)
        if filters is None:
            filters = entry.prepare(self.filters, problem)
            size = entry.count_bytes(problem)
            if size:
                self._packed.reserve(size, self.filters)
                self._prepared[key] = filters
        return problem, entry.create(filters, problem)


def _make_key(entry: MethodEntry[Problem], problem: Problem) -> tuple[str, object]:
    """Return the name of a method and the parameters of its prepared filters."""
    if entry.create is RowMethod:
        return entry.name, (count_block_rows(problem), *list_filter_parts(problem))
    return entry.name, compute_segment_width(problem) if entry.create is BandedMethod else None


def _do_nothing(image: int, channels: slice, positions: slice) -> None:
    pass


def _make_finish(bound: BoundChain, blocks: Array) -> Finish:
    """Return the function that applies a chain to blocks of a result [N, channels, positions]."""

    def finish(image: int, channels: slice, positions: slice) -> None:
        length = positions.stop - positions.start
        step = max(1, BLOCK // length)
        for start in range(channels.start, channels.stop, step):
            rows = slice(start, min(start + step, channels.stop))
            index = (slice(image, image + 1), rows, positions)
            bound.apply(blocks[index], index)

    return finish


@specializes("Convolution-1", "GroupConvolution-1")
def specialize_convolution(site: CallSite) -> SpecializedKernel | None:
    """Choose the method by the shapes."""
    return _make_kernel(site)


@fuses("Convolution-1", "GroupConvolution-1")
def fuse_convolution(site: CallSite, chain: ElementwiseChain) -> ConvolutionKernel | None:
    """Multiply the filters by the first constant factor of the result, and compute the rest of the chain by blocks."""
    scale, rest = _split_scale(chain, site)
    return _make_kernel(site, rest, scale)


def _make_kernel(
    site: CallSite, chain: ElementwiseChain | None = None, scale: Array | None = None
) -> ConvolutionKernel | None:
    """Return the kernel of Convolution or GroupConvolution, or None if its filters are not constant f32.

    Args:
        site: The call site.
        chain: See `ConvolutionKernel`.
        scale: f32, shape [GROUPS * C_OUT]. The filters are multiplied by it.
    """
    filters = site.get_constant(1)
    if filters is None or filters.dtype is not F32 or site.variable_inputs != (0,) or not filters.size:
        return None
    if not site.operation.has_groups:
        filters = filters[np.newaxis]
    if filters.ndim < 4:
        return None
    if scale is not None:
        original = filters
        filters = filters * scale.reshape(*filters.shape[:2], *[1] * (filters.ndim - 2))
        site.packed.reserve(filters.nbytes, original)
    kernel = ConvolutionKernel(filters, site.attributes, site.packed, chain)
    if site.shape is None:
        site.description = "chosen by the shape of the data"
    else:
        site.set_choice(kernel.choose(site.shape))
    return kernel


def _split_scale(chain: ElementwiseChain, site: CallSite) -> tuple[Array | None, ElementwiseChain | None]:
    """Return the first constant factor of a convolution's result, per channel, and the rest of the chain."""
    filters = site.get_constant(1)
    step = chain.steps[0]
    if filters is None or step.name != "Multiply" or Operand("input", 0) not in step.operands:
        return None, chain
    other = next((o for o in step.operands if o.kind == "constant"), None)
    uses_value_again = any(Operand("input", 0) in s.operands for s in chain.steps[1:])
    if other is None or uses_value_again:
        return None, chain
    scale = chain.constants[other.index]
    channels = filters.shape[0] * (filters.shape[1] if site.operation.has_groups else 1)
    rank = filters.ndim - (2 if site.operation.has_groups else 1)
    shape = (1,) * (rank + 1 - scale.ndim) + scale.shape
    if scale.size != 1 and shape != (1, channels, *[1] * (rank - 1)):
        return None, chain
    if not np.isfinite(scale).all():
        return None, chain
    flat = np.broadcast_to(scale.reshape(-1), (channels,))
    if len(chain.steps) == 1:
        return flat, None

    def renumber(operand: Operand) -> Operand:
        if operand.kind != "step":
            return operand
        return Operand("step", operand.index - 1) if operand.index else Operand("input", 0)

    steps = tuple(s._replace(operands=tuple(map(renumber, s.operands))) for s in chain.steps[1:])
    return flat, ElementwiseChain(steps, chain.input_count, chain.constants)
