"""Attention: the scores of a block of queries stay in the processor's cache until they are multiplied by the values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.fast.jit.convolution import get_buffer, get_epilogue_address
from irrun.fast.jit.elementwise import get_address, make_contiguous
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.products import Product, compile_product, get_tile_size
from irrun.fast.jit.reductions import compile_softmax
from irrun.limits import check_allocation
from irrun.threads import run_parallel

__all__ = ["attend", "prepare_attention"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Scores of a block: 384 KiB.
BLOCK_SIZE = 96 << 10
#: Multiplications of a part that a thread computes at least.
MIN_PART_WORK = 1 << 22

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
    keys, values = key.reshape(heads, key_length, size), value.reshape(heads, key_length, value_size)
    masks = None if mask is None else _expand_mask(mask, (*lead, length, key_length))
    check_allocation((*lead, length, value_size), F32)
    result = np.empty((*lead, length, value_size), F32)
    packed: list[tuple[Product, Product]] = [None] * heads  # type: ignore[list-item]

    def pack(head: int) -> None:
        packed[head] = Product(keys[head].T), Product(values[head])

    run_parallel(pack, heads)
    rows = max(1, min(length, -(-BLOCK_SIZE // key_length)))
    rows = min(length, rows + -rows % 8)
    blocks = -(-length // rows)
    step = max(1, MIN_PART_WORK // max(1, rows * key_length * (size + value_size)))
    scale = np.array([factor], F32)
    expression = SCALE if masks is None else _make_mask_expression("full" if masks.shape[-2] > 1 else "column")
    multiply, softmax = compile_product(), compile_softmax()
    score_epilogue, plain_epilogue = get_epilogue_address(expression), get_epilogue_address(Expression())
    source, target = get_address(queries), get_address(result)

    def compute_block(head: int, block: int) -> None:
        first = block * rows
        count = min(rows, length - first)
        tile = get_address(get_buffer("tile", get_tile_size()))
        scores = get_address(get_buffer("scores", rows * key_length))
        pointers = [get_address(scale)]
        if masks is not None:
            index = np.unravel_index(head, lead) if lead else ()
            chosen = masks[tuple(int(i) % n for i, n in zip(index, masks.shape[:-2], strict=True))]
            pointers.append(get_address(chosen) + (4 * first * key_length if chosen.shape[0] > 1 else 0))
        table = np.array(pointers, np.int64)
        left, right = packed[head]
        queries_start = source + 4 * (head * length + first) * size
        multiply(
            queries_start, get_address(left.weights), tile, scores, get_address(table), score_epilogue,
            count, size, key_length, 0, key_length,
        )  # fmt: skip
        softmax(scores, scores, 0, count, key_length)
        multiply(
            scores, get_address(right.weights), tile, target + 4 * (head * length + first) * value_size,
            get_address(table), plain_epilogue, count, key_length, value_size, 0, value_size,
        )  # fmt: skip

    total = heads * blocks

    def compute(part: int) -> None:
        for number in range(part * step, min((part + 1) * step, total)):
            compute_block(*divmod(number, blocks))

    run_parallel(compute, -(-total // step))
    return result


def _expand_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """Return a mask in f32 with all dimensions, of which only the last must not be 1."""
    if mask.dtype == np.bool_:
        mask = np.where(mask, F32.type(0), F32.type(-np.inf))
    if mask.dtype != F32 or np.broadcast_shapes(mask.shape, shape) != shape:
        raise ValueError("the mask does not match")
    full = mask.reshape((1,) * (len(shape) - mask.ndim) + mask.shape)
    return make_contiguous(np.broadcast_to(full, (*full.shape[:-1], shape[-1])))
