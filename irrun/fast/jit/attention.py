"""Attention: the scores of a block of queries stay in the processor's cache until they are multiplied by the values."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.convolution import get_epilogue_address
from irrun.fast.jit.elementwise import make_contiguous
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.products import compile_product, count_packed, get_tile_size, make_packing_calls
from irrun.fast.jit.reductions import compile_softmax
from irrun.fast.jit.tasks import SCRATCH, Call, Task, align_size, make_base
from irrun.limits import check_allocation
from irrun.threads import copy_unaligned

__all__ = ["attend", "prepare_attention"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Scores of a block: 384 KiB.
BLOCK_SIZE = 96 << 10
#: Multiplications of a part that a thread computes at least.
MIN_PART_WORK = 1 << 20

SCALE = Expression(("scalar",), (Step("Multiply", (0, 1)),))


def _make_mask_expression(kind: str) -> Expression:
    return Expression(("scalar", kind), (Step("Multiply", (0, 1)), Step("Add", (3, 2))))


def prepare_attention(has_mask: bool) -> None:
    """Compile the kernels."""
    compile_product()
    compile_softmax()
    expressions = [_make_mask_expression("full"), _make_mask_expression("column")] if has_mask else [SCALE]
    for expression in (*expressions, Expression()):
        get_epilogue_address(expression)


def attend(query: Array, key: Array, value: Array, mask: Array | None, factor: float) -> Array:
    """Compute `softmax(query * key^T * factor + mask) * value`.

    Args:
        query: f32, shape [B..., L, E].
        key: f32, shape [B..., S, E].
        value: f32, shape [B..., S, Ev].
        mask: Boolean or f32, broadcast to [B..., L, S], or None.
        factor: The scale.

    Returns:
        Shape [B..., L, Ev].

    Raises:
        ValueError: The types or shapes are others.
    """
    lead, (length, size) = query.shape[:-2], query.shape[-2:]
    key_length, value_size = value.shape[-2:]
    if key.shape != (*lead, key_length, size) or value.shape[:-2] != lead or not query.size * value.size:
        raise ValueError("the shapes do not match")
    if not query.dtype == key.dtype == value.dtype == F32:
        raise ValueError("expected f32")
    heads = math.prod(lead)
    queries = make_contiguous(query)
    keys = copy_unaligned(key.reshape(heads, key_length, size))
    values = copy_unaligned(value.reshape(heads, key_length, value_size))
    masks = None if mask is None else _expand_mask(mask, (*lead, length, key_length))
    check_allocation((*lead, length, value_size), F32)
    result = np.empty((*lead, length, value_size), F32)
    kind = "" if masks is None else "full" if masks.shape[-2] > 1 else "column"
    plan = _make_plan(heads, (length, key_length, size, value_size), keys.strides, values.strides, kind)
    packed_keys, packed_values = (np.empty(heads * n, F32) for n in plan.packed_sizes)
    plan.packing.run(*map(get_address, (keys, values, packed_keys, packed_values)))
    scale = np.array([factor], F32)
    table = np.full((heads, plan.block_count, 2), get_address(scale), np.int64)
    if masks is not None:
        numbers = np.broadcast_to(np.arange(math.prod(masks.shape[:-2])).reshape(masks.shape[:-2]), lead)
        table[..., 1] = get_address(masks) + numbers.reshape(heads, 1) * (4 * math.prod(masks.shape[-2:]))
        if kind == "full":
            table[..., 1] += np.arange(plan.block_count) * (4 * plan.rows * key_length)
    plan.products.run(*map(get_address, (queries, packed_keys, packed_values, result, table)))
    return result


class _Plan(NamedTuple):
    """How attention is computed for values of some shapes.

    Attributes:
        packing: The task for the keys and the values, and for their packed copies.
        packed_sizes: Elements of the packed keys and of the packed values of a head.
        products: The task for the queries, the packed keys and values, the result, and a table that contains the
            addresses of the scale and of the mask for each head and block.
        rows: Queries of a block.
        block_count: Blocks of a head.
    """

    packing: Task
    packed_sizes: tuple[int, int]
    products: Task
    rows: int
    block_count: int


@functools.lru_cache(maxsize=64)
def _make_plan(
    heads: int,
    sizes: tuple[int, int, int, int],
    key_strides: tuple[int, int, int],
    value_strides: tuple[int, int, int],
    mask_kind: str,
) -> _Plan:
    length, key_length, size, value_size = sizes
    packed_sizes = count_packed(size, key_length), count_packed(key_length, value_size)
    packing = []
    for head in range(heads):
        keys, values, packed_keys, packed_values = (
            make_base(i).move(head * step)
            for i, step in enumerate((key_strides[0], value_strides[0], *(4 * n for n in packed_sizes)))
        )
        strides = key_strides[2] // 4, key_strides[1] // 4
        own_strides = value_strides[1] // 4, value_strides[2] // 4
        own = make_packing_calls((size, key_length), strides, keys, packed_keys)
        packing.append([*own, *make_packing_calls((key_length, value_size), own_strides, values, packed_values)])
    rows = max(1, min(length, -(-BLOCK_SIZE // key_length)))
    rows = min(length, rows + -rows % 8)
    blocks = -(-length // rows)
    step = max(1, MIN_PART_WORK // max(1, rows * key_length * (size + value_size)))
    expression = _make_mask_expression(mask_kind) if mask_kind else SCALE
    scores = SCRATCH.move(align_size(4 * get_tile_size()))
    calls: list[list[Call]] = []
    for number in range(heads * blocks):
        head, block = divmod(number, blocks)
        first = block * rows
        count = min(rows, length - first)
        row = head * length + first
        table = make_base(4).move(16 * number)
        queries, result = make_base(0).move(4 * row * size), make_base(3).move(4 * row * value_size)
        left, right = (make_base(1 + i).move(4 * head * n) for i, n in enumerate(packed_sizes))
        places = (queries, left, SCRATCH, scores, table, get_epilogue_address(expression))
        calls.append(
            [
                Call(compile_product(), (*places, count, size, size, key_length, 0, key_length)),
                Call(compile_softmax(), (scores, scores, 0, count, key_length)),
                Call(
                    compile_product(),
                    (
                        *(scores, right, SCRATCH, result, table, get_epilogue_address(Expression())),
                        *(count, key_length, key_length, value_size, 0, value_size),
                    ),
                ),
            ]
        )
    parts = [itertools.chain.from_iterable(calls[i : i + step]) for i in range(0, len(calls), step)]
    products = Task(parts, scores.offset + 4 * rows * key_length)
    return _Plan(Task(packing), packed_sizes, products, rows, blocks)


def _expand_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """Return a mask in f32 with all dimensions, of which only the last must not be 1."""
    if mask.dtype == np.bool_:
        mask = np.where(mask, F32.type(0), F32.type(-np.inf))
    if mask.dtype != F32 or np.broadcast_shapes(mask.shape, shape) != shape:
        raise ValueError("the mask does not match")
    full = mask.reshape((1,) * (len(shape) - mask.ndim) + mask.shape)
    return make_contiguous(np.broadcast_to(full, (*full.shape[:-1], shape[-1])))
