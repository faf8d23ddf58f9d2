"""Matrix products of f32 with constant weights, and of two variable matrices."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.alignment import align
from irrun.fast.elementwise import BoundChain, ElementwiseChain
from irrun.fast.errors import NoKernelError
from irrun.fast.fused import FusedKernel, fuses
from irrun.fast.methods import MethodEntry, choose_method
from irrun.fast.panels import WIDTH, PanelProduct, count_panel_bytes, make_panel_product, suits_panels
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, TILE, Array, Memo, freeze
from irrun.limits import format_size
from irrun.threads import PART_MULTIPLE, FinishPart, copy_unaligned, count_parts, multiply_matrices, run_parallel

__all__ = ["METHODS", "ProductKernel", "make_product_kernel"]

#: Weights of up to this many bytes are copied to the fastest layout for products of few rows.
MAX_COPIED_BYTES = 1 << 20
#: For these numbers of rows, BLAS is up to four times as fast with larger weights [N, K] on the left.
MIN_ROWS, MAX_ROWS = 2, 64
#: Products of at most this many multiplications are not divided between threads; see `count_parts`.
MAX_UNDIVIDED = 1 << 20


class Product(NamedTuple):
    """A product with constant weights.

    Attributes:
        kernel: The product alone.
        shape: The shape [K, N] of the weights.
        multiply: Multiplies a matrix [M, K] by the weights, and applies a function to the parts of the result. None
            if the product is not divided.
        undivided_rows: Matrices of up to this many rows are not divided.
    """

    kernel: SpecializedKernel
    shape: tuple[int, int]
    multiply: Callable[[Array, FinishPart], Array] | None
    undivided_rows: int


class _Problem:
    """A product with a chosen method.

    Args:
        site: The call site.
        weights: The constant input.
    """

    def __init__(self, site: CallSite, weights: Array) -> None:
        self.site, self.constant = site, weights
        #: f32, shape [K, N].
        self.weights = self.orient(weights)

    def orient(self, weights: Array) -> Array:
        """Return a view [K, N] of weights."""
        return weights.T if self.site.attributes.get("transpose_b", False) else weights

    @cached_property
    def panels(self) -> PanelProduct | None:
        """The product in panels, with reserved memory, or None if there is not enough memory."""
        return make_panel_product(self.weights, self.site.packed)

    def create(self) -> Product:
        """Choose the method, and return its product."""
        choice = choose_method(METHODS, self, lambda entry, size: self.panels is not None)
        self.site.set_choice(choice)
        product: Product = choice.entry.create(self)
        return product


def _create_panels(problem: _Problem) -> Product:
    product = problem.panels
    assert product is not None
    return Product(PanelKernel(problem.site, product), product.shape, product.multiply, 0)


def _create_copied(problem: _Problem) -> Product:
    """Copy the weights part by part in the first call, and as a whole in the second."""

    @Memo
    def kernels(is_aligned: bool) -> SpecializedKernel:
        prepared = align(problem.constant) if is_aligned else problem.constant
        if is_aligned:
            problem.site.packed.originals.count_copy(prepared.nbytes, problem.constant)
        return _multiply_by_weights(problem.site, _prepare_weights(problem.orient(prepared)))

    calls = itertools.count()

    def compute(a: Array) -> Any:
        return kernels[next(calls) > 0](a)

    inner, columns = problem.weights.shape
    return Product(compute, (inner, columns), None, 0)


def _create_plain(problem: _Problem) -> Product:
    prepared = _prepare_weights(problem.weights)

    def multiply(rows: Array, finish: FinishPart) -> Array:
        return multiply_matrices(rows, prepared, finish=finish)

    inner, columns = prepared.shape
    undivided_rows = 0 if prepared.flags.c_contiguous else MAX_ROWS
    is_divided = problem.weights.flags.aligned
    kernel = _multiply_by_weights(problem.site, prepared)
    return Product(kernel, (inner, columns), multiply if is_divided else None, undivided_rows)


METHODS = (
    MethodEntry[_Problem](
        f"panels of {WIDTH} columns",
        f"at least {WIDTH} columns, where BLAS multiplies small matrices without copies",
        lambda problem: suits_panels(problem.weights),
        _create_panels,
        lambda problem: count_panel_bytes(problem.weights),
    ),
    MethodEntry[_Problem](
        "aligned copies",
        "weights at unaligned places of the file; the first run copies them part by part",
        lambda problem: not problem.weights.flags.aligned and problem.site.aligns_weights,
        _create_copied,
    ),
    MethodEntry[_Problem](
        "products from the left",
        f"transposed weights of more than {format_size(MAX_COPIED_BYTES)}, if there are {MIN_ROWS} to {MAX_ROWS} rows",
        lambda problem: not problem.weights.flags.c_contiguous and problem.weights.nbytes > MAX_COPIED_BYTES,
        _create_plain,
    ),
    MethodEntry[_Problem]("products from the right", "all others", lambda problem: True, _create_plain),
)


@specializes("MatMul-1")
def specialize_matmul(site: CallSite) -> SpecializedKernel | None:
    """Prepare constant weights, or skip the shape checks."""
    transpose_a, transpose_b = site.attributes.get("transpose_a", False), site.attributes.get("transpose_b", False)
    weights = site.get_constant(1)
    if weights is not None:
        return _Problem(site, weights).create().kernel if _has_weights(site, weights) else None
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


class ProductKernel(FusedKernel):
    """A product with constant weights. The elementwise operations after it are applied to its parts.

    Args:
        product: The product.
        multiply: See `Product`.
        chain: The operations after it.
    """

    def __init__(
        self, product: Product, multiply: Callable[[Array, FinishPart], Array], chain: ElementwiseChain
    ) -> None:
        super().__init__(product.kernel, 1, chain)
        self.shape, self.multiply, self.undivided_rows = product.shape, multiply, product.undivided_rows

    def __call__(self, *inputs: Array) -> Array:
        """Compute the product and the chain; see `FusedKernel`."""
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


@fuses("MatMul-1")
def make_product_kernel(site: CallSite, chain: ElementwiseChain) -> FusedKernel | None:
    """Return the kernel of MatMul and the operations after it, or None if its weights are not a constant f32 matrix."""
    weights = site.get_constant(1)
    if weights is None or weights.dtype is not F32 or not _has_weights(site, weights):
        return None
    product = _Problem(site, weights).create()
    if product.multiply is None:
        return FusedKernel(product.kernel, 1, chain)
    return ProductKernel(product, product.multiply, chain)


def _has_weights(site: CallSite, weights: Array) -> bool:
    """Return whether the right side of the product is a constant matrix."""
    is_transposed = site.attributes.get("transpose_a", False)
    return site.variable_inputs == (0,) and weights.ndim == 2 and weights.dtype == F32 and not is_transposed


def _prepare_weights(weights: Array) -> Array:
    """Return weights [K, N], in the fastest layout for products if they are small."""
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
