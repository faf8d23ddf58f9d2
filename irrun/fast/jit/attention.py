"""Attention: the scores of a block of queries stay in the processor's cache until they are multiplied by the values."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import (
    BUFFER,
    CONSTANT,
    MAX_BINDINGS,
    RESULT,
    TABLE,
    Binding,
    Layout,
    Operand,
    Shape,
    get_layout,
    keep_binding,
)
from irrun.fast.jit.convolution import get_epilogue_address
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.products import compile_product, count_packed, get_tile_size, make_packing_calls
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.reductions import compile_softmax
from irrun.fast.jit.tasks import SCRATCH, Address, Call, Task, align_size, make_base
from irrun.limits import check_allocation
from irrun.threads import copy_unaligned

__all__ = ["AttentionKernel", "convert_mask"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Scores of a block: 384 KiB.
BLOCK_SIZE = 96 << 10
#: Minimum number of multiplications per part, and number of parts below which heads are divided into more blocks.
MIN_PART_WORK, MIN_PARTS = 1 << 20, 8


class AttentionKernel(CompiledKernel):
    """The kernel of ScaledDotProductAttention without a sink.

    Args:
        constants: The value of each input if it is constant, or None. The scale must be constant.
        is_causal: The attribute.
        is_boolean: Whether the mask is a boolean.
    """

    description = "compiled: attention, blocks of scores"
    reads_layouts = True

    def __init__(self, constants: Sequence[Array | None], is_causal: bool, is_boolean: bool) -> None:
        self._scale = constants[4] if len(constants) > 4 else None
        self._is_causal = is_causal
        self._mask_step = "Mask" if is_boolean or is_causal else "Add"
        self._has_mask = len(constants) > 3 and not is_causal
        self._mask = constants[3] if self._has_mask else None
        #: Attention with a constant mask.
        self._bindings: dict[tuple[Layout, ...], Binding] = {}

    def __call__(self, query: Array, key: Array, value: Array, *others: Array) -> Array:
        """Attend.

        Raises:
            NoKernelError: The types or shapes are unsupported.
        """
        if not query.dtype == key.dtype == value.dtype == F32 or not query.ndim == key.ndim == value.ndim >= 2:
            raise NoKernelError("expected queries, keys and values in f32")
        if query.strides[-1] != F32.itemsize:
            query = make_contiguous(query)
        inputs = [copy_unaligned(query), copy_unaligned(key), copy_unaligned(value)]
        if self._has_mask and self._mask is None:
            inputs.append(_expand_mask(others[0], key.shape[-2]))
        layouts = tuple([get_layout(x) for x in inputs])
        binding = self._bindings.get(layouts) or self.bind(layouts)
        check_allocation(binding.shape, F32)
        return binding.run(inputs)

    def prepare(self, shapes: Sequence[Shape]) -> None:
        """Compile the kernels."""
        compile_product()
        compile_softmax(keeps_subnormal=False)
        kinds = ("full", "column") if self._has_mask or self._is_causal else ("",)
        for expression in (*[_make_expression(kind, self._mask_step) for kind in kinds], Expression()):
            get_epilogue_address(expression, "any")

    def bind(self, layouts: Sequence[Layout]) -> Binding:
        """Return attention for queries, keys, values and a mask in f32 of certain layouts.

        Raises:
            NoKernelError: The shapes do not match, or an input has to be copied.
        """
        query, key, value = layouts[:3]
        factor = 1 / math.sqrt(query.shape[-1]) if self._scale is None else float(self._scale.item())
        if self._mask is None:
            added = layouts[3] if self._has_mask else None
            return _bind(query, key, value, added, factor, self._is_causal, self._mask_step)
        mask = _expand_mask(self._mask, key.shape[-2])
        binding = _Plan(query, key, value, mask, factor, self._mask_step).make_binding()
        return keep_binding(self._bindings, (query, key, value), binding)


@functools.lru_cache(maxsize=MAX_BINDINGS)
def _bind(
    query: Layout, key: Layout, value: Layout, mask: Layout | None, factor: float, is_causal: bool, mask_step: str
) -> Binding:
    """Return attention without a constant mask, shared by layers."""
    if not is_causal:
        return _Plan(query, key, value, mask, factor, mask_step).make_binding()
    added = convert_mask(np.arange(key.shape[-2]) <= np.arange(query.shape[-2])[:, np.newaxis])
    return _Plan(query, key, value, added, factor, mask_step).make_binding()


def convert_mask(mask: Array) -> Array:
    """Return the f32 values that a mask adds to the scores.

    Raises:
        NoKernelError: The mask has another type.
    """
    if mask.dtype == np.bool_:
        added: Array = np.where(mask, F32.type(0), F32.type(-np.inf))
        return added
    if mask.dtype != F32:
        raise NoKernelError("expected a boolean or f32 mask")
    return mask


def _expand_mask(mask: Array, columns: int) -> Array:
    """Return a mask in contiguous f32 with the given number of columns."""
    mask = convert_mask(mask)
    if mask.shape[-1:] != (columns,):
        mask = np.broadcast_to(mask, (*mask.shape[:-1], columns))
    return make_contiguous(mask)


def _make_expression(mask_kind: str, mask_step: str) -> Expression:
    """Return the expression of the scores: multiply by a factor, and add the mask, if any."""
    scale = Step("Multiply", (0, 1))
    if not mask_kind:
        return Expression(("scalar",), (scale,))
    return Expression(("scalar", mask_kind), (scale, Step(mask_step, (3, 2))))


class _Plan:
    """The computation of attention for inputs of some layouts.

    Args:
        query: The layout of the queries, [B..., L, E].
        key: The layout of the keys, [B..., S, E]. Dimensions B of size 1 belong to several heads of queries.
        value: The layout of the values, [B..., S, Ev], likewise.
        mask: The mask or its layout, which broadcasts to [B..., L, S] and has S columns, or None.
        factor: The scale.
        mask_step: The expression of the scores and the mask.

    Raises:
        NoKernelError: The shapes do not match, or an input has to be copied.
    """

    def __init__(
        self, query: Layout, key: Layout, value: Layout, mask: Array | Layout | None, factor: float, mask_step: str
    ) -> None:
        self.mask_step = mask_step
        self.mask = mask
        self.lead, (self.length, self.size) = query.shape[:-2], query.shape[-2:]
        self.key_length, self.value_size = value.shape[-2:]
        self.inputs = query, _repeat_heads(key, self.lead), _repeat_heads(value, self.lead)
        if key.shape[-2:] != (self.key_length, self.size):
            raise NoKernelError("the shapes do not match")
        if not math.prod(query.shape) * math.prod(value.shape):
            raise NoKernelError("a value is empty")
        if query.strides[-1] != F32.itemsize or any(s % F32.itemsize for x in self.inputs for s in x.strides):
            raise NoKernelError("expected queries of contiguous rows, and aligned values")
        self.shape = (*self.lead, self.length, self.value_size)
        self.strides = arrange_like(self.shape, query.strides)
        self.mask_shape = () if mask is None else self.expand_mask_shape(mask)
        self.scale = np.array([factor], F32)
        rows = max(1, min(self.length, -(-BLOCK_SIZE // self.key_length)))
        heads = math.prod(self.lead)
        work = heads * self.length * self.key_length * (self.size + self.value_size)
        part_count = min(MIN_PARTS, work // MIN_PART_WORK)
        if heads * -(-self.length // rows) < part_count:
            rows = -(-self.length // -(-part_count // heads))
        self.rows = min(self.length, rows + -rows % 8)
        self.packed_sizes = count_packed(self.size, self.key_length), count_packed(self.key_length, self.value_size)

    def expand_mask_shape(self, mask: Array | Layout) -> Shape:
        """Return the shape of the mask with all dimensions."""
        scores = (*self.lead, self.length, self.key_length)
        full = (1,) * (len(scores) - len(mask.shape)) + tuple(mask.shape)
        if len(full) > len(scores) or any(d not in (1, n) for d, n in zip(full, scores, strict=True)):
            raise NoKernelError("the mask does not match")
        if full[-1] != self.key_length or not Layout(mask.shape, mask.strides).is_contiguous:
            raise NoKernelError("expected a contiguous mask with as many columns as keys")
        return full

    def make_binding(self) -> Binding:
        """Return the binding. Its inputs are the queries, the keys, the values, and the mask unless it is constant.

        If the queries of a head are one block, and no other head has the same keys and values, the thread that computes
        the block packs them.
        """
        blocks = range(0, self.length, self.rows)
        scores = SCRATCH.move(align_size(4 * get_tile_size()))
        scratch_size = scores.offset + align_size(4 * self.rows * self.key_length)
        heads = list(np.ndindex(*self.lead))
        places = [tuple(_locate(index, x.strides) for x in self.inputs[1:]) for index in heads]
        sources = {place: number for number, place in enumerate(dict.fromkeys(places))}
        is_packed_before = len(blocks) > 1 or len(sources) < len(heads)
        packing: list[list[Call]] = []
        parts: list[list[Call]] = []
        operands: list[Operand] = []
        for index, place in zip(heads, places, strict=True):
            number = sources[place]
            if is_packed_before:
                memory = make_base(5).move(4 * number * sum(self.packed_sizes))
            else:
                memory = SCRATCH.move(scratch_size)
            packed = memory, memory.move(4 * self.packed_sizes[0])
            calls: list[Call] = []
            if not is_packed_before:
                calls = self.pack(index, packed)
            elif number == len(packing):
                packing.append(self.pack(index, packed))
            for first in blocks:
                table = make_base(4).move(8 * len(operands))
                operands += self.list_operands(index, first)
                parts.append([*calls, *self.attend(index, first, packed, scores, table)])
        if not is_packed_before:
            scratch_size += 4 * sum(self.packed_sizes)
        work = self.rows * self.key_length * (self.size + self.value_size)
        step = max(1, MIN_PART_WORK // work)
        joined = [itertools.chain.from_iterable(parts[i : i + step]) for i in range(0, len(parts), step)]
        tasks = [Task(packing)] if is_packed_before else []
        return Binding(
            self.shape,
            [*tasks, Task(joined, scratch_size)],
            (0, 1, 2, RESULT, TABLE, *([BUFFER] if is_packed_before else [])),
            operands,
            len(sources) * sum(self.packed_sizes) if is_packed_before else 0,
            [self.scale, self.mask if isinstance(self.mask, np.ndarray) else None],
            self.strides,
        )

    def pack(self, index: Shape, packed: tuple[Address, Address]) -> list[Call]:
        """Return the calls that pack the keys and the values of a head."""
        keys, values = (make_base(i).move(_locate(index, self.inputs[i].strides)) for i in (1, 2))
        key_strides, value_strides = ([s // F32.itemsize for s in self.inputs[i].strides[-2:]] for i in (1, 2))
        key_shape, value_shape = (self.size, self.key_length), (self.key_length, self.value_size)
        calls = make_packing_calls(key_shape, (key_strides[1], key_strides[0]), keys, packed[0])
        return [*calls, *make_packing_calls(value_shape, (value_strides[0], value_strides[1]), values, packed[1])]

    def list_operands(self, index: Shape, first: int) -> list[Operand]:
        """Return the addresses of the scale and of the mask for a block of queries."""
        operands = [(CONSTANT, get_address(self.scale))]
        if self.mask is not None:
            steps = [0 if d == 1 else math.prod(self.mask_shape[i + 1 :]) for i, d in enumerate(self.mask_shape)]
            offset = F32.itemsize * _locate((*index, first), steps)
            if isinstance(self.mask, np.ndarray):
                operands.append((CONSTANT, get_address(self.mask) + offset))
            else:
                operands.append((3, offset))
        return operands

    def attend(
        self, index: Shape, first: int, packed: tuple[Address, Address], scores: Address, table: Address
    ) -> list[Call]:
        """Return the calls that compute a block of queries, given the number of its first query."""
        query = self.inputs[0]
        place = (*index, first)
        rows = min(self.rows, self.length - first)
        mask_kind = "" if self.mask is None else "full" if self.mask_shape[-2] > 1 else "column"
        queries = make_base(0).move(_locate(place, query.strides))
        result = make_base(3).move(_locate(place, self.strides))
        row_sizes = query.strides[-2] // F32.itemsize, self.strides[-2] // F32.itemsize
        epilogues = (
            get_epilogue_address(_make_expression(mask_kind, self.mask_step), "any"),
            get_epilogue_address(Expression(), "any"),
        )
        columns, size = self.key_length, self.value_size
        places = queries, packed[0], SCRATCH, scores, table, epilogues[0]
        result_places = scores, packed[1], SCRATCH, result, table, epilogues[1]
        return [
            Call(compile_product(), (*places, rows, self.size, row_sizes[0], columns, columns, 0, columns)),
            Call(compile_softmax(keeps_subnormal=False), (scores, scores, 0, rows, columns)),
            Call(compile_product(), (*result_places, rows, columns, columns, size, row_sizes[1], 0, size)),
        ]


def _repeat_heads(layout: Layout, lead: Shape) -> Layout:
    """Return the layout of keys or values for all heads of queries.

    Args:
        layout: The layout, [B..., S, E].
        lead: The dimensions B... of the queries. Those of size 1 in the layout are repeated.

    Raises:
        NoKernelError: The dimensions do not match.
    """
    shape = (*lead, *layout.shape[-2:])
    if len(layout.shape) != len(shape) or any(a not in (1, b) for a, b in zip(layout.shape, shape, strict=True)):
        raise NoKernelError("the shapes do not match")
    return Layout(shape, tuple(s if a == b else 0 for s, a, b in zip(layout.strides, layout.shape, shape, strict=True)))


def arrange_like(shape: Shape, strides: Shape) -> Shape:
    """Return the strides in bytes of a new value whose axes have the same order in memory as in another value.

    Args:
        shape: The shape of the new value. Its last axis is contiguous.
        strides: The strides of the other value.
    """
    result = [F32.itemsize] * len(shape)
    step = F32.itemsize * shape[-1]
    for axis in sorted(range(len(shape) - 1), key=lambda i: (strides[i], -i)):
        result[axis] = step
        step *= shape[axis]
    return tuple(result)


def _locate(index: Sequence[int], steps: Sequence[int]) -> int:
    """Return the distance of an element from the first one, for indices along the first axes."""
    return sum(i * step for i, step in zip(index, steps, strict=False))
