"""Matrix products of f32 with constant weights, and of two variable matrices."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.fast.alignment import align
from irrun.fast.elementwise import BoundChain, ElementwiseChain
from irrun.fast.errors import NoKernelError
from irrun.fast.fused import FusedKernel
from irrun.fast.panels import WIDTH, PanelProduct, make_panel_product
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, TILE, Array, Memo, freeze
from irrun.threads import PART_MULTIPLE, FinishPart, copy_unaligned, count_parts, multiply_matrices, run_parallel

__all__ = ["ProductKernel", "make_product_kernel"]

#: Weights of up to so many bytes are copied to the layout in which products of few rows are fastest.
MAX_COPIED_BYTES = 1 << 20
#: For so many rows, BLAS multiplies larger weights [N, K] from the left up to four times faster than from the right.
MIN_ROWS, MAX_ROWS = 2, 64
#: Products of at most so many multiplications are not divided between threads; see `count_parts`.
MAX_UNDIVIDED = 1 << 20


@specializes("MatMul-1")
def specialize_matmul(site: CallSite) -> SpecializedKernel | None:
    """Prepare constant weights, or skip the checks of shapes."""
    transpose_a, transpose_b = site.attributes.get("transpose_a", False), site.attributes.get("transpose_b", False)
    weights = site.get_constant(1)
    if weights is not None:
        if not _has_weights(site, weights):
            return None
        product = make_panel_product(weights.T if transpose_b else weights, site.packed)
        if product is not None:
            return PanelKernel(site, product)
        if weights.flags.aligned or not site.aligns_weights:
            return _multiply_by_weights(site, _prepare_weights(weights, transpose_b))
        return _multiply_by_unaligned_weights(site, weights, transpose_b)
    if site.variable_inputs != (0, 1):
        return None
    call_plain, matmul = site.call_plain, np.matmul

    def compute(a: Array, b: Array) -> Any:
        rank = b.ndim
        if a.dtype is not F32 or b.dtype is not F32 or rank < 2 or a.ndim < 2 or (rank == 2 and a.ndim > 2):
            return call_plain(a, b)
        if transpose_a:
            a = a.swapaxes(-1, -2)
        right = b.swapaxes(-1, -2) if transpose_b else b
        return matmul(a, right) if a.size * right.shape[-1] <= MAX_UNDIVIDED else multiply_matrices(a, right)

    return compute


class PanelKernel:
    """A product with constant weights that is divided into panels.

    Args:
        site: The call site.
        product: Multiplies by the weights.
    """

    def __init__(self, site: CallSite, product: PanelProduct) -> None:
        self.call_plain, self.product = site.call_plain, product
        self.inner, self.columns = product.shape

    def __call__(self, a: Array) -> Any:
        """Return the product of an array [..., K] and the weights [K, N]."""
        if a.dtype is not F32 or a.ndim < 1 or a.shape[-1] != self.inner or not a.size:
            return self.call_plain(a)
        if a.ndim == 2:
            return self.product.multiply(a)
        return self.product.multiply(a.reshape(-1, self.inner)).reshape(*a.shape[:-1], self.columns)

    def describe(self, shape: tuple[int, ...] | None) -> str:
        """Return how products are computed."""
        return f"panels of {WIDTH} columns: small products, for which BLAS does not copy its operands"


class ProductKernel(FusedKernel):
    """A product with constant weights, and the elementwise operations that follow it, which are applied to its parts.

    Args:
        kernel: The product alone, for matrices that are not divided.
        shape: The shape [K, N] of the weights.
        chain: The operations that follow.
        multiply: Multiplies a matrix [M, K] by the weights, and applies a function to the parts of the result.
        undivided_rows: Matrices of so many rows are not divided.
    """

    def __init__(
        self,
        kernel: SpecializedKernel,
        shape: tuple[int, int],
        chain: ElementwiseChain,
        multiply: Callable[[Array, FinishPart], Array],
        undivided_rows: int,
    ) -> None:
        super().__init__(kernel, 1, chain)
        self.shape, self.multiply, self.undivided_rows = shape, multiply, undivided_rows

    def __call__(self, *inputs: Array) -> Array:
        """Compute the product and what follows; see `FusedKernel`."""
        a, operands = inputs[0], inputs[1:]
        inner, columns = self.shape
        count = a.size // inner if inner else 0
        shape = (*a.shape[:-1], columns)
        is_divided = count * columns > TILE and count > self.undivided_rows
        if not is_divided or a.shape[-1] != inner or not self.chain.keeps_shape(shape, operands):
            return super().__call__(*inputs)
        if any(x.dtype is not F32 for x in inputs):
            raise NoKernelError("expected f32")
        bound = BoundChain(self.chain, [None, *operands], shape, (count, columns))
        return self.multiply(a.reshape(count, inner), bound.apply_to_rows).reshape(shape)


def make_product_kernel(site: CallSite, chain: ElementwiseChain) -> ProductKernel | None:
    """Return the kernel of MatMul and what follows, or None if its weights are not a constant matrix of f32."""
    weights = site.get_constant(1)
    if weights is None or weights.dtype is not F32 or not _has_weights(site, weights):
        return None
    is_transposed = site.attributes.get("transpose_b", False)
    product = make_panel_product(weights.T if is_transposed else weights, site.packed)
    if product is not None:
        return ProductKernel(PanelKernel(site, product), product.shape, chain, product.multiply, 0)
    if not weights.flags.aligned:
        return None
    prepared = _prepare_weights(weights, is_transposed)

    def multiply(rows: Array, finish: FinishPart) -> Array:
        return multiply_matrices(rows, prepared, finish=finish)

    inner, columns = prepared.shape
    undivided_rows = 0 if prepared.flags.c_contiguous else MAX_ROWS
    return ProductKernel(_multiply_by_weights(site, prepared), (inner, columns), chain, multiply, undivided_rows)


def _has_weights(site: CallSite, weights: Array) -> bool:
    """Return whether the product is one with a constant matrix on the right side."""
    is_transposed = site.attributes.get("transpose_a", False)
    return site.variable_inputs == (0,) and weights.ndim == 2 and weights.dtype == F32 and not is_transposed


def _prepare_weights(weights: Array, is_transposed: bool) -> Array:
    """Return weights as [K, N], in the layout in which products are fastest if they are small."""
    if is_transposed:
        weights = weights.T
    if weights.nbytes <= MAX_COPIED_BYTES and not weights.flags.c_contiguous:
        weights = freeze(np.ascontiguousarray(weights))
    return weights


def _multiply_by_weights(site: CallSite, weights: Array) -> SpecializedKernel:
    """Return a kernel for the product with weights [K, N]; see `_prepare_weights`."""
    call_plain = site.call_plain
    inner, columns = weights.shape
    transposed = None if weights.flags.c_contiguous else weights.T
    max_rows = MAX_UNDIVIDED // weights.size if weights.size else 0

    def multiply(rows: Array) -> Array:
        """Multiply a matrix, in parts if it is large."""
        count = rows.shape[0]
        if transposed is not None and MIN_ROWS <= count <= MAX_ROWS:
            return _multiply_from_left(transposed, rows)
        return rows.dot(weights) if count <= max_rows else multiply_matrices(rows, weights)

    def compute(a: Array) -> Any:
        if a.dtype is not F32 or a.ndim < 1:
            return call_plain(a)
        if a.ndim == 2 and a.shape[0] <= max_rows and transposed is None:
            return a.dot(weights)
        if a.shape[-1] != inner or not a.size:
            return call_plain(a)
        if a.ndim == 2:
            return multiply(a)
        return multiply(a.reshape(-1, inner)).reshape(*a.shape[:-1], columns)

    return compute


def _multiply_by_unaligned_weights(site: CallSite, weights: Array, is_transposed: bool) -> SpecializedKernel:
    """Return a kernel that copies the weights part by part in its first call, and as a whole in the second."""

    @Memo
    def kernels(is_aligned: bool) -> SpecializedKernel:
        prepared = align(weights) if is_aligned else weights
        if is_aligned:
            site.packed.originals.count_copy(prepared.nbytes, weights)
        return _multiply_by_weights(site, _prepare_weights(prepared, is_transposed))

    calls = itertools.count()

    def compute(a: Array) -> Any:
        return kernels[next(calls) > 0](a)

    return compute


def _multiply_from_left(transposed: Array, rows: Array) -> Array:
    """Return rows @ transposed.T, with products that have the weights [N, K] on the left side."""
    columns = transposed.shape[0]
    result = np.empty((rows.shape[0], columns), rows.dtype)
    parts = count_parts(rows.shape[0], transposed.size)
    step = -(-columns // parts)
    step += -step % PART_MULTIPLE
    vectors = rows.T

    def multiply_part(part: int) -> None:
        section = slice(part * step, (part + 1) * step)
        result[:, section] = copy_unaligned(transposed[section]).dot(vectors).T

    run_parallel(multiply_part, -(-columns // step))
    return result
