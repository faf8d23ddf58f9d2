"""Products with constant weights by the kernels of OpenBLAS for small matrices.

BLAS copies both matrices of a product to the order in which its kernels read them, which takes as long as to multiply
a few dozen rows. On processors with AVX-512, OpenBLAS multiplies matrices without copies if there are at most a million
multiplications. Products are therefore divided into blocks of so many: some rows, and a panel of a few columns of the
weights. Large weights are kept in panels, whose elements are consecutive in memory.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from irrun.blas import has_small_kernels
from irrun.fast.packing import PackedMemory, allocate_kept
from irrun.fast.support import freeze
from irrun.threads import FinishPart, count_parts, get_thread_count, map_parallel, run_parallel, split_range

__all__ = ["PanelProduct", "make_panel_product"]

Array = np.ndarray[Any, Any]

#: Multiplications of a product without copies at most.
MAX_MULTIPLICATIONS = 1_000_000
#: Columns of a panel, the most efficient first. Rows are multiplied in groups of so many.
WIDTHS, ROW_GROUP = (64, 32), 4
#: Multiplications per nanosecond, for estimates.
MULTIPLICATION_RATE = 50
#: Weights of up to so many bytes are not copied to panels: their rows are read as fast from the cache.
MAX_VIEWED_BYTES = 1 << 20
#: Elements of the rows that are multiplied by all panels before the next rows are, so that they stay in the cache.
MAX_ROW_ELEMENTS = 1 << 17
#: Products with so many elements in the inner dimension take much longer than copying their results.
MIN_COPIED_INNER = 256
#: Elements of a column that are copied at a time when panels are made.
COPIED_ELEMENTS = 1 << 10


#: Products by the memory, shape and strides of their weights, as long as something uses them.
_products: weakref.WeakValueDictionary[tuple[Any, ...], PanelProduct] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def make_panel_product(weights: Array, memory: PackedMemory) -> PanelProduct | None:
    """Return the product with weights in panels, or None if other methods are faster or memory does not suffice.

    Products with the same weights share their panels.

    Args:
        weights: f32, shape [K, N], in any layout and alignment. They never change.
        memory: What panels may take.
    """
    width = _choose_width(weights.shape[0])
    if width is None or weights.shape[1] < width or not has_small_kernels():
        return None
    key = (weights.__array_interface__["data"][0], weights.shape, weights.strides)
    with _lock:
        product = _products.get(key)
        if product is None:
            is_large = weights.nbytes > MAX_VIEWED_BYTES
            if is_large and not memory.reserve_panels(weights.nbytes):
                return None
            product = _products[key] = PanelProduct(weights, width, memory if is_large else None)
    return product


def _choose_width(inner: int) -> int | None:
    """Return the columns of panels whose products with a group of rows need no copies, or None."""
    return next((width for width in WIDTHS if 0 < ROW_GROUP * width * inner <= MAX_MULTIPLICATIONS), None)


class PanelProduct:
    """Multiplies matrices by constant weights.

    Args:
        weights: f32, shape [K, N].
        width: Columns of a panel.
        memory: Counts the panels, which are copies of the weights that are made when they are first used. None: panels
            are views of the weights, which are few.

    Attributes:
        shape: The shape of the weights.
        width: See above.
    """

    def __init__(self, weights: Array, width: int, memory: PackedMemory | None) -> None:
        self.shape, self.width = (weights.shape[0], weights.shape[1]), width
        self._original, self._memory = weights, memory
        inner, columns = self.shape
        #: Rows of a block at most, a multiple of the groups.
        self._block = MAX_MULTIPLICATIONS // (inner * width) // ROW_GROUP * ROW_GROUP
        #: Rows that are multiplied by all panels, a multiple of the blocks.
        self._row_step = max(1, MAX_ROW_ELEMENTS // inner // self._block) * self._block
        self._lock = threading.Lock()
        #: The panels [panels, K, width] and the remaining columns [K, N % width].
        self._panels: tuple[Array, Array] | None = None
        #: The weights, contiguous, if panels are views of them.
        self._viewed: Array | None = None
        if memory is None:
            is_usable = weights.flags.c_contiguous and weights.flags.aligned
            self._viewed = viewed = weights if is_usable else freeze(weights.copy("C"))
            covered = columns // width * width
            self._panels = viewed[:, :covered].reshape(inner, -1, width).swapaxes(0, 1), viewed[:, covered:]

    def multiply(self, rows: Array, finish: FinishPart | None = None) -> Array:
        """Return the product [M, N].

        Args:
            rows: f32, shape [M, K].
            finish: What is applied to parts of the product.
        """
        panels, tail = self._panels or self._make_panels()
        count, (inner, columns) = rows.shape[0], self.shape
        is_small = finish is None and count * inner * columns <= MAX_MULTIPLICATIONS
        if is_small and self._viewed is not None:
            product: Array = rows.dot(self._viewed)
            return product
        result = np.empty((count, columns), rows.dtype)
        if is_small:
            self._multiply_block(rows, panels, tail, result)
            return result
        rows = np.ascontiguousarray(rows)
        parts = self._divide(count, len(panels) + bool(tail.size))

        def multiply_part(part: int, out: Array | None = None) -> Array:
            lines, section, numbers = parts[part]
            product = np.empty(result[lines, section].shape, rows.dtype) if out is None else out
            part_tail = tail if numbers.stop > len(panels) else tail[:, :0]
            for start in range(0, len(product), self._row_step):
                target = product[start : start + self._row_step]
                covered = slice(lines.start + start, lines.start + start + len(target))
                self._multiply_blocks(rows[covered], panels[numbers], part_tail, target)
                if finish is not None:
                    finish(target, covered, section)
            return product

        def store_part(part: int, product: Array) -> None:
            lines, section, _ = parts[part]
            result[lines, section] = product

        if inner < MIN_COPIED_INNER or get_thread_count() == 1:
            run_parallel(lambda part: multiply_part(part, result[parts[part][:2]]), len(parts))
        else:
            map_parallel(multiply_part, store_part, len(parts))
        return result

    def _make_panels(self) -> tuple[Array, Array]:
        with self._lock:
            if self._panels is None:
                self._panels = _copy_to_panels(self._original, self.width)
                if self._memory is not None:
                    self._memory.count_copy(self._original.nbytes, self._original)
        return self._panels

    def _divide(self, count: int, panel_count: int) -> list[tuple[slice, slice, slice]]:
        """Return the rows, the columns and the panels of each part; the tail counts as the last panel."""
        (inner, columns), width = self.shape, self.width
        parts = count_parts(count, inner * columns, MULTIPLICATION_RATE)
        if count > columns:
            rows = split_range(count, parts, self._block)
            return [(section, slice(0, columns), slice(0, panel_count)) for section in rows]
        panels = split_range(panel_count, parts)
        return [(slice(0, count), slice(p.start * width, min(p.stop * width, columns)), p) for p in panels]

    def _multiply_blocks(self, rows: Array, panels: Array, tail: Array, out: Array) -> None:
        """Multiply rows by panels, block by block."""
        full = len(rows) // self._block * self._block
        covered = len(panels) * self.width
        if full > self._block:
            blocks = rows[:full].reshape(1, -1, self._block, rows.shape[1])
            target = out[:full, :covered].reshape(*blocks.shape[1:3], len(panels), self.width)
            np.matmul(blocks, panels[:, np.newaxis], out=target.transpose(2, 0, 1, 3))
            for start in range(0, full if tail.size else 0, self._block):
                np.matmul(rows[start : start + self._block], tail, out=out[start : start + self._block, covered:])
        elif full:
            self._multiply_block(rows[:full], panels, tail, out[:full])
        if full < len(rows):
            self._multiply_block(rows[full:], panels, tail, out[full:])

    def _multiply_block(self, rows: Array, panels: Array, tail: Array, out: Array) -> None:
        """Multiply the rows of one block by panels."""
        covered = len(panels) * self.width
        if covered:
            np.matmul(rows, panels, out=out[:, :covered].reshape(len(rows), -1, self.width).swapaxes(0, 1))
        if tail.size:
            np.matmul(rows, tail, out=out[:, covered:])


def _copy_to_panels(weights: Array, width: int) -> tuple[Array, Array]:
    """Return the panels of weights and the remaining columns, as consecutive parts of one array."""
    inner, columns = weights.shape
    count = columns // width
    values = allocate_kept((weights.size,))
    panels = values[: count * inner * width].reshape(count, inner, width)
    tail = values[panels.size :].reshape(inner, -1)
    if weights.strides[0] > weights.strides[1]:
        np.copyto(panels, weights[:, : count * width].reshape(inner, count, width).swapaxes(0, 1))
    else:
        # Elements of a column are consecutive. Columns whose distance is a power of two would replace each other in
        # the cache, so they are copied to columns of another distance first.
        buffer = np.empty((width, COPIED_ELEMENTS + 4), np.float32)
        for number in range(count):
            for start in range(0, inner, COPIED_ELEMENTS):
                lines = slice(start, min(start + COPIED_ELEMENTS, inner))
                part = buffer[:, : lines.stop - start]
                np.copyto(part, weights[lines, number * width : (number + 1) * width].T)
                np.copyto(panels[number, lines], part.T)
    np.copyto(tail, weights[:, count * width :])
    return panels, tail
