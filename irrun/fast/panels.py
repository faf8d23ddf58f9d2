"""Matrix products with OpenBLAS's kernels for small matrices.

BLAS copies both matrices of a product into the order that its kernels read, which takes as long as multiplying
a few dozen rows. On processors with AVX-512, OpenBLAS multiplies matrices without copies if there are at most a million
multiplications. Products are therefore divided into blocks of that size: some rows of the left matrix, and a panel of a
few columns of the right one. Large constant weights are kept in panels of consecutive memory.
On processors with AMX, the copies do not matter in products of a hundred rows and more, so BLAS computes them at once.
"""

from __future__ import annotations

import math
import weakref
from functools import cache
from typing import Any

import numpy as np

from irrun.blas import get_kernel_name, has_small_kernels
from irrun.deadlines import within_time
from irrun.fast.packing import PackedMemory, allocate_kept
from irrun.fast.scratch import get_scratch
from irrun.fast.support import freeze
from irrun.fast.transposition import make_contiguous
from irrun.forks import make_lock
from irrun.threads import (
    FinishPart,
    copy_unaligned,
    count_parts,
    get_thread_count,
    map_parallel,
    run_parallel,
    split_range,
)

__all__ = ["PanelProduct", "count_panel_bytes", "make_panel_product", "multiply_in_blocks", "suits_panels"]

Array = np.ndarray[Any, Any]

#: Maximum number of multiplications in a product without copies.
MAX_MULTIPLICATIONS = 1_000_000
#: Minimum number of multiplications for dividing a product of two variable matrices, because of the NumPy calls.
MIN_DIVIDED = 6_000_000
#: Columns per panel. Rows are multiplied in groups of the second number.
WIDTH, ROW_GROUP = 64, 4
#: Maximum length of rows. Longer rows are divided: with fewer rows in a block, reading the panel takes longer than
#: multiplying by it.
MAX_INNER = 1024
#: Weights of up to this many bytes are not copied to panels: their rows are read as fast from the cache.
MAX_VIEWED_BYTES = 1 << 20
#: Number of elements in the rows that are multiplied by all panels at a time, so that they stay in the cache.
MAX_ROW_ELEMENTS = 1 << 17
#: From this size of the inner dimension on, products take much longer than copying their results.
MIN_COPIED_INNER = 256
#: From this many rows and multiplications on, copies in BLAS take less time than dividing the product, with its kernels
#: of these names. On others, such as Zen 4, products of 128 to 1,500 rows in panels take 0.77 to 0.96 times as long.
MIN_WHOLE_ROWS, MIN_WHOLE_WORK, WHOLE_KERNELS = 96, 8_000_000, frozenset({"SapphireRapids"})
#: The same for two variable matrices: minimum size of the inner dimension, and of rows and columns.
MIN_WHOLE_INNER, MIN_WHOLE_SIDE = 256, 48
#: Maximum number of parts of such products; BLAS copies one of the matrices for each part.
MAX_WHOLE_PARTS = 4
#: Number of column elements copied at a time when panels are created.
COPIED_ELEMENTS = 1 << 10


#: Maps the memory, shape and strides of weights to their products, while something uses the products.
_products: weakref.WeakValueDictionary[tuple[Any, ...], PanelProduct] = weakref.WeakValueDictionary()
_lock = make_lock()


def suits_panels(weights: Array) -> bool:
    """Return whether products with weights [K, N] are faster in panels than by other methods."""
    return bool(weights.shape[0]) and weights.shape[1] >= WIDTH and has_small_kernels()


@cache
def computes_whole_products() -> bool:
    """Return whether BLAS computes products of many rows at once in less time than by panels."""
    return get_kernel_name() in WHOLE_KERNELS


def count_panel_bytes(weights: Array) -> int:
    """Return the additional memory that panels of weights take."""
    return weights.nbytes if weights.nbytes > MAX_VIEWED_BYTES else 0


def make_panel_product(weights: Array, memory: PackedMemory) -> PanelProduct | None:
    """Return the product with weights in panels, or None if other methods are faster or there is not enough memory.

    Products with the same weights share their panels.

    Args:
        weights: f32, shape [K, N], in any layout and alignment. They never change.
        memory: The memory limit for panels.
    """
    if not suits_panels(weights):
        return None
    key = (weights.__array_interface__["data"][0], weights.shape, weights.strides)
    with _lock:
        product = _products.get(key)
        if product is None:
            is_large = count_panel_bytes(weights) > 0
            if is_large and not _reserve(memory, weights):
                return None
            product = _products[key] = PanelProduct(weights, memory if is_large else None)
    return product


def _reserve(memory: PackedMemory, weights: Array) -> bool:
    """Count the panels of weights, and return whether they are within the limits.

    Weights that are not in a mapped file, such as decompressed weights, are kept in addition to their panels, which
    count like other copies. If panels are disabled, such weights do not get panels either.
    """
    if memory.originals.is_mapped(weights):
        return memory.panels.reserve_if_fits(weights.nbytes)
    return memory.panels.limit > 0 and memory.reserve_if_fits(weights.nbytes)


def multiply_in_blocks(a: Array, b: Array, out: Array) -> None:
    """Compute `np.matmul(a, b, out)` by small products, if BLAS has kernels for them.

    Args:
        a: f32, shape [..., M, K].
        b: f32, shape [..., K, N], with the leading dimensions of `a`.
        out: Array that the result is written to.
    """
    work = a.shape[-2] * b.shape[-2] * b.shape[-1]
    is_whole = work <= MAX_MULTIPLICATIONS or work * math.prod(a.shape[:-2]) < MIN_DIVIDED
    is_whole |= a.shape[-1] >= MIN_WHOLE_INNER and min(out.shape[-2:]) >= MIN_WHOLE_SIDE
    has_rows = a.strides[-1] == b.strides[-1] == out.strides[-1] == a.itemsize
    if is_whole or not has_rows or not has_small_kernels():
        np.matmul(a, b, out=out)
    else:
        _multiply_by_panels(a, *_view_panels(b, min(WIDTH, b.shape[-1])), out)


def _view_panels(b: Array, width: int) -> tuple[Array, Array]:
    """Return a view of matrices [..., K, N] as panels [..., panels, K, width], and the remaining columns."""
    count = b.shape[-1] // width
    return b[..., : count * width].reshape(*b.shape[:-1], count, width).swapaxes(-2, -3), b[..., count * width :]


def _multiply_by_panels(a: Array, panels: Array, tail: Array, out: Array) -> None:
    """Multiply matrices [..., M, K] by panels [..., panels, K, width] and the remaining columns [..., K, columns]."""
    inner, width = a.shape[-1], panels.shape[-1]
    covered = panels.shape[-3] * width
    block = _count_block_rows(inner, width)

    def multiply_section(section: slice, out: Array) -> None:
        if covered:
            _multiply_blocks(a[..., section], panels[..., section, :], out[..., :covered], block)
        if tail.size:
            _multiply_blocks(a[..., section], tail[..., np.newaxis, section, :], out[..., covered:], block)

    first, *others = _divide_inner(inner)
    multiply_section(first, out)
    if others:
        product = get_scratch("partial product", *out.shape)
        for section in others:
            multiply_section(section, product)
            np.add(out, product, out)


def _multiply_blocks(a: Array, panels: Array, out: Array, block: int) -> None:
    """Multiply matrices by panels, in blocks of rows. The last block may have fewer."""
    *batch, rows, inner = a.shape
    count, _, width = panels.shape[-3:]
    full = rows // block * block if rows > block else 0
    target = out.reshape(*batch, rows, count, width)
    if full:
        blocks = a[..., :full, :].reshape(*batch, 1, full // block, block, inner)
        parts = target[..., :full, :, :].reshape(*batch, full // block, block, count, width)
        np.matmul(blocks, panels[..., np.newaxis, :, :], out=np.moveaxis(parts, -2, -4))
    if full < rows:
        np.matmul(a[..., np.newaxis, full:, :], panels, out=target[..., full:, :, :].swapaxes(-2, -3))


def _divide_inner(inner: int) -> list[slice]:
    return split_range(inner, -(-inner // MAX_INNER))


def _count_block_rows(inner: int, width: int) -> int:
    """Return the number of rows (a multiple of the groups) for a product with some columns without copies."""
    longest: int = _divide_inner(inner)[0].stop
    return MAX_MULTIPLICATIONS // (longest * width) // ROW_GROUP * ROW_GROUP


class PanelProduct:
    """Multiplies matrices by constant weights.

    Args:
        weights: f32, shape [K, N].
        memory: Counts the panels. The second call copies the weights to panels; the first call copies one panel after
            another into the cache, because allocating memory takes longer than the product of a few rows. None for
            small weights, whose panels are views.

    Attributes:
        shape: The shape of the weights.
    """

    def __init__(self, weights: Array, memory: PackedMemory | None) -> None:
        inner, columns = weights.shape
        self.shape = (inner, columns)
        self._original, self._memory = weights, memory
        #: Rows per block, and rows that are multiplied by all panels at a time.
        self._block = _count_block_rows(inner, WIDTH)
        self._row_step = max(1, MAX_ROW_ELEMENTS // inner // self._block) * self._block
        #: Whether BLAS computes large products at once, from the weights if they are aligned.
        self._is_readable = 4 in weights.strides and computes_whole_products()
        self._lock = make_lock()
        self._is_used = False
        #: The panels [panels, K, width] and the remaining columns [K, N % width].
        self._panels: tuple[Array, Array] | None = None
        #: The weights, contiguous, if panels are views of them.
        self._viewed: Array | None = None
        if memory is None:
            is_usable = weights.flags.c_contiguous and weights.flags.aligned
            self._viewed = viewed = weights if is_usable else freeze(weights.copy("C"))
            self._panels = _view_panels(viewed, WIDTH)

    def multiply(self, rows: Array, finish: FinishPart | None = None) -> Array:
        """Return the product [M, N].

        Args:
            rows: f32, shape [M, K].
            finish: The function to apply to parts of the product.
        """
        count, (inner, columns) = rows.shape[0], self.shape
        is_small = finish is None and count * inner * columns <= MAX_MULTIPLICATIONS
        if is_small and self._viewed is not None:
            product: Array = rows.dot(self._viewed)
            return product
        is_whole = self._is_readable and count >= MIN_WHOLE_ROWS and count * inner * columns >= MIN_WHOLE_WORK
        panels = self._panels
        if panels is None and self._is_used and not is_whole:
            panels = self._make_panels()
        self._is_used = True
        result = np.empty((count, columns), rows.dtype)
        if is_small and panels is not None and count <= self._block and inner <= MAX_INNER:
            _multiply_small(rows, *panels, result)
            return result
        rows = make_contiguous(rows)
        weights = self._original if self._viewed is None else self._viewed
        parts = self._divide_whole(count) if is_whole else self._divide(count, panels is None)
        step = count if panels is None or is_whole else self._row_step

        def multiply_part(part: int, out: Array | None = None) -> Array:
            lines, section = parts[part]
            product = np.empty(result[lines, section].shape, rows.dtype) if out is None else out
            for start in within_time(range(0, len(product), step)):
                target = product[start : start + step]
                covered = slice(lines.start + start, lines.start + start + len(target))
                if is_whole:
                    np.matmul(rows[covered], copy_unaligned(weights[:, section]), out=target)
                elif panels is None:
                    self._multiply_by_copies(rows[covered], section, target)
                else:
                    numbers = slice(section.start // WIDTH, section.stop // WIDTH)
                    tail = panels[1] if section.stop == columns else panels[1][:, :0]
                    _multiply_by_panels(rows[covered], panels[0][numbers], tail, target)
                if finish is not None:
                    finish(target, covered, section)
            return product

        def store_part(part: int, product: Array) -> None:
            result[parts[part]] = product

        if inner < MIN_COPIED_INNER or get_thread_count() == 1:
            run_parallel(lambda part: multiply_part(part, result[parts[part]]), len(parts))
        else:
            map_parallel(multiply_part, store_part, len(parts))
        return result

    def _multiply_by_copies(self, rows: Array, columns: slice, out: Array) -> None:
        """Multiply rows by some columns, copying their panels one by one."""
        inner = self.shape[0]
        for start in within_time(range(columns.start, columns.stop, WIDTH)):
            section = slice(start, min(start + WIDTH, columns.stop))
            panel = get_scratch("panel", inner, section.stop - start)
            _copy_columns(self._original[:, section], panel)
            target = out[:, start - columns.start : section.stop - columns.start]
            # The last panel may have fewer columns than the others. Its blocks have as many rows as all others.
            _multiply_by_panels(rows, *_view_panels(panel, WIDTH), target)

    def _make_panels(self) -> tuple[Array, Array]:
        with self._lock:
            if self._panels is None:
                self._panels = _copy_to_panels(self._original)
                if self._memory is not None:
                    self._memory.originals.count_copy(self._original.nbytes, self._original)
        return self._panels

    def _divide_whole(self, count: int) -> list[tuple[slice, slice]]:
        """Return the rows and the columns of each part that BLAS multiplies at once."""
        inner, columns = self.shape
        parts = min(count_parts(count, inner * columns), MAX_WHOLE_PARTS)
        if count > columns:
            return [(rows, slice(0, columns)) for rows in split_range(count, parts, WIDTH)]
        return [(slice(0, count), section) for section in split_range(columns, parts, WIDTH)]

    def _divide(self, count: int, by_columns: bool) -> list[tuple[slice, slice]]:
        """Return the rows and the columns of each part."""
        inner, columns = self.shape
        parts = count_parts(count, inner * columns)
        if count > columns and not by_columns:
            return [(rows, slice(0, columns)) for rows in split_range(count, parts, self._block)]
        # Later operations take less time for long rows. Blocks and results do not depend on the division.
        parts = min(parts, get_thread_count())
        return [(slice(0, count), section) for section in split_range(columns, parts, WIDTH)]


def _multiply_small(rows: Array, panels: Array, tail: Array, out: Array) -> None:
    """Multiply few rows by panels, in as few calls as possible."""
    covered = len(panels) * WIDTH
    np.matmul(rows, panels, out=out[:, :covered].reshape(len(rows), -1, WIDTH).swapaxes(0, 1))
    if tail.size:
        np.matmul(rows, tail, out=out[:, covered:])


def _copy_to_panels(weights: Array) -> tuple[Array, Array]:
    """Return the panels of weights and the remaining columns, as consecutive parts of one array."""
    inner, columns = weights.shape
    count = columns // WIDTH
    values = allocate_kept((weights.size,))
    panels = values[: count * inner * WIDTH].reshape(count, inner, WIDTH)
    tail = values[panels.size :].reshape(inner, -1)
    for number, panel in enumerate(panels):
        _copy_columns(weights[:, number * WIDTH : (number + 1) * WIDTH], panel)
    np.copyto(tail, weights[:, count * WIDTH :])
    return panels, tail


def _copy_columns(weights: Array, panel: Array) -> None:
    """Copy some columns of weights to a panel."""
    if weights.strides[0] > weights.strides[1]:
        np.copyto(panel, weights)
        return
    # Elements of a column are consecutive. Columns at a distance of a power of two would evict each other from the
    # cache, so they are copied to columns of another distance first.
    buffer = get_scratch("columns of a panel", weights.shape[1], COPIED_ELEMENTS + 4)
    for start in range(0, len(weights), COPIED_ELEMENTS):
        lines = slice(start, min(start + COPIED_ELEMENTS, len(weights)))
        part = buffer[:, : lines.stop - start]
        np.copyto(part, weights[lines].T)
        np.copyto(panel[lines], part.T)
