"""Batched products of two variable matrices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.convolution import get_epilogue_address
from irrun.fast.jit.expressions import Expression
from irrun.fast.jit.products import compile_product, count_packed, get_tile_size, make_packing_calls
from irrun.fast.jit.tasks import SCRATCH, Call, Task, align_size, make_base
from irrun.shapes import get_broadcast_shape

__all__ = ["MAX_PACKED_SIZE", "MIN_ROWS", "ProductLayout", "bind_products", "describe_products"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

F32 = np.dtype(np.float32)

#: Maximum size of a right-hand matrix, so that it stays in the cache, and minimum number of rows for packing to pay.
MAX_PACKED_SIZE, MIN_ROWS = 1 << 16, 16
#: Maximum number of products: each needs its own arguments.
MAX_ITEMS = 1 << 11
#: Minimum number of multiplications per part, maximum number of parts, and minimum number of rows per block.
MIN_PART_WORK, MAX_PARTS, MIN_BLOCK_ROWS = 1 << 19, 16, 64


class ProductLayout(NamedTuple):
    """The layout of products.

    Attributes:
        shape: The shape of the result, [LEAD..., M, N].
        inner: K.
        steps: For both values, the bytes between items along each leading axis.
        row_stride: Elements between the rows of the left-hand value.
        right_strides: Elements between the rows and between the columns of the right-hand value.
    """

    shape: Shape
    inner: int
    steps: tuple[Shape, Shape]
    row_stride: int
    right_strides: tuple[int, int]


def describe_products(left: Shape, left_strides: Shape, right: Shape, right_strides: Shape) -> ProductLayout:
    """Return the layout of the products of two f32 values, given their strides in bytes.

    Raises:
        NoKernelError: The shapes do not match, or another method is faster.
    """
    if min(len(left), len(right)) < 2 or left[-1] != right[-2]:
        raise NoKernelError("the shapes do not match")
    if left[-1] > 1 and left_strides[-1] != F32.itemsize:
        raise NoKernelError("expected contiguous rows")
    if any(stride % F32.itemsize for stride in (*left_strides, *right_strides)):
        raise NoKernelError("the elements are not aligned")
    lead = get_broadcast_shape(left[:-2], right[:-2])
    rows, inner, columns = left[-2], left[-1], right[-1]
    if not math.prod(lead) * rows * inner * columns or math.prod(lead) > MAX_ITEMS:
        raise NoKernelError("the matrices are empty, or the products are too many")
    if rows < MIN_ROWS or inner * columns > MAX_PACKED_SIZE:
        raise NoKernelError("the rows are too few, or the matrices are too large")
    steps = [
        (0,) * (len(lead) - len(shape) + 2)
        + tuple(0 if d == 1 else s for d, s in zip(shape[:-2], strides, strict=False))
        for shape, strides in ((left, left_strides), (right, right_strides))
    ]
    return ProductLayout(
        (*lead, rows, columns),
        inner,
        (steps[0], steps[1]),
        left_strides[-2] // F32.itemsize,
        (right_strides[-2] // F32.itemsize, right_strides[-1] // F32.itemsize),
    )


def bind_products(
    layout: ProductLayout, expression: Expression, operand_steps: Sequence[tuple[Shape, int]]
) -> tuple[Task, Array]:
    """Return the task of products, and the offsets of the operands for each block.

    Args:
        layout: The layout of the values.
        expression: The epilogue. Its operands are "column", "full" or "scalar" for each item.
        operand_steps: For each operand, the bytes between items along each leading axis, and between rows.

    Returns:
        The task, for the addresses of the values, of the result, and of a table with the operand addresses of each
        block; and the offsets of the operands in bytes, [BLOCKS, OPERANDS].
    """
    *lead, rows, columns = layout.shape
    inner = layout.inner
    part_count = max(1, min(MAX_PARTS, math.prod(layout.shape) * inner // MIN_PART_WORK))
    items = math.prod(lead)
    per_item = max(1, min(-(-part_count // items), rows // MIN_BLOCK_ROWS))
    height = -(-rows // per_item)
    height += -height % 8
    panel = SCRATCH.move(align_size(4 * get_tile_size()))
    blocks: list[list[Call]] = []
    offsets: list[list[int]] = []
    for number, index in enumerate(itertools.product(*map(range, lead))):
        left, right = (make_base(i).move(_locate(index, steps)) for i, steps in enumerate(layout.steps))
        packing = make_packing_calls((inner, columns), layout.right_strides, right, panel)
        for first in range(0, rows, height):
            result = make_base(2).move(4 * (number * rows + first) * columns)
            table = make_base(3).move(8 * len(offsets) * max(1, len(operand_steps)))
            places = (left.move(4 * first * layout.row_stride), panel, SCRATCH, result, table)
            sizes = (min(height, rows - first), inner, layout.row_stride, columns, columns, 0, columns)
            epilogue = get_epilogue_address(expression, "any")
            blocks.append([*packing, Call(compile_product(), (*places, epilogue, *sizes))])
            offsets.append([_locate(index, steps) + first * step for steps, step in operand_steps] or [0])
    count = max(1, min(part_count, len(blocks)))
    bounds = [len(blocks) * i // count for i in range(count + 1)]
    parts = [itertools.chain.from_iterable(blocks[i:j]) for i, j in itertools.pairwise(bounds)]
    return Task(parts, panel.offset + 4 * count_packed(inner, columns)), np.array(offsets, np.int64)


def _locate(index: Sequence[int], steps: Sequence[int]) -> int:
    return sum(i * step for i, step in zip(index, steps, strict=True))
