"""Softmax and normalizations of f32, in place and with few passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.elementwise import BoundChain, ElementwiseChain
from irrun.fast.fused import FusedKernel, fuses
from irrun.fast.methods import Choice, MethodEntry, choose_method
from irrun.fast.reduction import SHORT_AXIS, is_short_axis
from irrun.fast.softmax import MAX_PRODUCT_LENGTH, exponentiate_rows
from irrun.fast.specialization import CallSite, SpecializedKernel, specializes
from irrun.fast.support import F32, TILE, Array, Memo, call_by_rows, freeze, to_int_tuple
from irrun.fast.transposition import copy_transposed, make_contiguous
from irrun.threads import run_parallel, split_range

__all__ = ["NormalizationKernel", "make_normalization_kernel"]

Axes = tuple[int, ...]


#: Elements per block of rows for a function and the operations after it: more than in a tile,
#: since NumPy's calls are short.
BLOCK_SIZE = 3 << 16


def apply_in_blocks(function: Callable[..., Array], x: Array, axes: Axes) -> Array:
    """Apply a function that reduces along `axes` to blocks of the first axis that stay in the processor's cache.

    Args:
        function: Takes an array, and optionally one of the same shape and type for its result.
        x: Any shape of rank >= 1.
        axes: The axes that it reduces, not negative.
    """
    if x.size <= TILE or 0 in axes or not x.flags.c_contiguous or x.shape[0] == 1:
        return function(x)
    rows = max(1, TILE // (x.size // x.shape[0]))
    if rows >= x.shape[0]:
        return function(x)
    result = np.empty(x.shape, x.dtype)

    def compute_block(number: int) -> None:
        block = slice(number * rows, (number + 1) * rows)
        function(x[block], result[block])

    run_parallel(compute_block, -(-x.shape[0] // rows), 2)
    return result


def _flatten(x: Array, axis: int) -> tuple[Array, int]:
    """Return `x` as [outer, ...], so that blocks of its first axis are small, and the axis in it."""
    if axis == 0 or not x.flags.c_contiguous:
        return x, axis
    return x.reshape(-1, *x.shape[axis:]), 1


class _SoftmaxProblem(NamedTuple):
    """The input of Softmax or LogSoftmax.

    Attributes:
        shape: Its shape.
        axis: The axis, not negative.
        is_log: Whether the logarithm is computed.
    """

    shape: tuple[int, ...]
    axis: int
    is_log: bool

    @property
    def has_rows(self) -> bool:
        """Whether the axis is the last one, but not the only one."""
        return 0 < self.axis == len(self.shape) - 1


def _is_small(problem: _SoftmaxProblem) -> bool:
    return math.prod(problem.shape) < MIN_SIZE_OF_BLOCKS


def _compute_row_blocks(problem: _SoftmaxProblem) -> Callable[[Array], Any]:
    length, axis = problem.shape[-1], problem.axis
    compute_rows = _create_row_softmax(length, True) if problem.is_log else _compute_row_softmax
    compute_others = _create_softmax(axis, problem.is_log)

    def compute(x: Array) -> Any:
        if x.ndim > 2 and not x.flags.c_contiguous:
            return compute_others(x)
        return apply_in_blocks(compute_rows, x.reshape(-1, length), (1,)).reshape(x.shape)

    return compute


def _compute_blocks(problem: _SoftmaxProblem) -> Callable[[Array], Any]:
    def compute(x: Array) -> Any:
        flat, axis = _flatten(x, problem.axis)
        return apply_in_blocks(_create_softmax(axis, problem.is_log), flat, (axis,)).reshape(x.shape)

    return compute


#: Smaller arrays are computed in one piece.
MIN_SIZE_OF_BLOCKS = 2048

SOFTMAX_METHODS = (
    MethodEntry[_SoftmaxProblem](
        "rows in one piece, summed up by products",
        f"matrices of fewer than {MIN_SIZE_OF_BLOCKS:,} elements, along their rows",
        lambda problem: _is_small(problem) and problem.has_rows and len(problem.shape) == 2,
        lambda problem: _create_row_softmax(problem.shape[1], problem.is_log),
    ),
    MethodEntry[_SoftmaxProblem](
        "in one piece",
        f"fewer than {MIN_SIZE_OF_BLOCKS:,} elements",
        _is_small,
        lambda problem: _create_softmax(problem.axis, problem.is_log),
    ),
    MethodEntry[_SoftmaxProblem](
        "plain",
        f"rows of at most {SHORT_AXIS} elements",
        lambda problem: is_short_axis(problem.shape, problem.axis),
        lambda problem: None,
    ),
    MethodEntry[_SoftmaxProblem](
        "blocks of rows, summed up by products",
        f"rows of at most {MAX_PRODUCT_LENGTH:,} elements",
        lambda problem: problem.has_rows and problem.shape[-1] <= MAX_PRODUCT_LENGTH,
        _compute_row_blocks,
    ),
    MethodEntry[_SoftmaxProblem]("blocks", "all others", lambda problem: True, _compute_blocks),
)


@specializes("Softmax-1", "Softmax-8", is_log=False)
@specializes("LogSoftmax-5", is_log=True)
def specialize_softmax(site: CallSite, is_log: bool) -> SpecializedKernel | None:
    """Compute in place."""
    axis = int(site.attributes.get("axis", 1))
    if str(site.operation) == "Softmax-1" and axis < 0:
        return None

    def choose(shape: tuple[int, ...]) -> tuple[Choice, _SoftmaxProblem] | None:
        rank = len(shape)
        if not math.prod(shape) or not -rank <= axis < rank:
            return None
        problem = _SoftmaxProblem(shape, axis % rank, is_log)
        return choose_method(SOFTMAX_METHODS, problem), problem

    return _make_kernel(site, choose)


def _make_kernel(site: CallSite, choose: Callable[[tuple[int, ...]], tuple[Choice, Any] | None]) -> SpecializedKernel:
    """Return a kernel that chooses its method by the shape of the data.

    Args:
        site: The call site.
        choose: Returns the method for a shape, and the problem that it is created for; None for the plain kernel.
    """
    call_plain = site.call_plain

    @Memo
    def functions(shape: tuple[int, ...]) -> Callable[[Array], Array] | None:
        found = choose(shape)
        return None if found is None else found[0].entry.create(found[1])

    def compute(x: Array) -> Any:
        function = functions[x.shape]
        return call_plain(x) if function is None or x.dtype is not F32 else function(x)

    found = None if site.shape is None else choose(site.shape)
    if found is not None:
        site.set_choice(found[0])
    return compute


def _create_softmax(axis: int, is_log: bool) -> Callable[..., Array]:
    """Return a function of arrays, with sums computed by NumPy."""
    find_max: Any = np.maximum.reduce
    add_up: Any = np.add.reduce

    def compute(x: Array, out: Array | None = None) -> Array:
        weights: Array = np.subtract(x, find_max(x, axis, None, None, True), out)
        np.exp(weights, weights)
        np.divide(weights, add_up(weights, axis, None, None, True), weights)
        return weights

    def compute_log(x: Array, out: Array | None = None) -> Array:
        shifted: Array = np.subtract(x, find_max(x, axis, None, None, True), out)
        total = add_up(np.exp(shifted), axis, None, None, True)
        np.log(total, total)
        np.subtract(shifted, total, shifted)
        return shifted

    return compute_log if is_log else compute


def _create_row_softmax(length: int, is_log: bool) -> Callable[..., Array]:
    """Return a function of matrices that adds up rows by a product with a vector of ones."""
    find_max: Any = np.maximum.reduce
    ones = freeze(np.ones((length, 1), np.float32))

    def compute(x: Array, out: Array | None = None) -> Array:
        weights: Array = np.subtract(x, find_max(x, 1, None, None, True), out)
        np.exp(weights, weights)
        np.divide(weights, weights.dot(ones), weights)
        return weights

    def compute_log(x: Array, out: Array | None = None) -> Array:
        shifted: Array = np.subtract(x, find_max(x, 1, None, None, True), out)
        total = np.exp(shifted).dot(ones)
        np.log(total, total)
        np.subtract(shifted, total, shifted)
        return shifted

    return compute_log if is_log else compute


def _compute_row_softmax(x: Array, out: Array | None = None) -> Array:
    """Compute Softmax of the rows of a matrix that fills the processor's cache."""
    weights = np.empty(x.shape, x.dtype) if out is None else out
    np.divide(weights, exponentiate_rows(x, weights), weights)
    return weights


def _make_positive(axes: Axes, rank: int) -> Axes | None:
    """Return the axes in [0, rank), or None if they are invalid or empty."""
    if not axes or not all(-rank <= axis < rank for axis in axes):
        return None
    positive = tuple(axis % rank for axis in axes)
    return positive if len(set(positive)) == len(positive) else None


@specializes("MVN-6")
def specialize_mvn(site: CallSite) -> SpecializedKernel | None:
    """Compute in place, with the inverse of the count computed once per shape."""
    constant = site.get_constant(1)
    if constant is None or constant.dtype.kind not in "iu":
        return None
    axes = to_int_tuple(constant)
    is_inside = site.attributes.get("eps_mode") == "inside_sqrt"
    return _specialize_mvn(site, lambda rank: axes, is_inside=is_inside)


@specializes("MVN-2")
def specialize_mvn_2(site: CallSite) -> SpecializedKernel | None:
    """Compute in place."""
    if site.attributes.get("reduction_axes"):
        fixed = tuple(site.attributes["reduction_axes"])
        return _specialize_mvn(site, lambda rank: fixed, is_inside=True)
    first = 1 if site.attributes.get("across_channels", True) else 2
    return _specialize_mvn(site, lambda rank: tuple(range(first, rank)), is_inside=True)


class NormalizationKernel(FusedKernel):
    """MVN along the last axis. The elementwise operations after it are applied to blocks of rows.

    Args:
        kernel: MVN alone, for other shapes.
        axis: The normalized axis. If it is not the last one, the kernel itself is called.
        create: Returns the function of matrices with rows of a length.
        chain: The operations after it.
    """

    def __init__(
        self,
        kernel: SpecializedKernel,
        axis: int,
        create: Callable[[int], Callable[..., Array]],
        chain: ElementwiseChain,
    ) -> None:
        super().__init__(kernel, 1, chain)
        self._axis = axis
        self._functions = Memo(create)

    def __call__(self, *inputs: Array) -> Array:
        """Normalize rows and compute the chain; see `FusedKernel`."""
        x, operands = inputs[0], inputs[1:]
        is_large = x.size > TILE and x.shape[-1] <= MAX_PRODUCT_LENGTH
        is_supported = is_large and self._axis in (-1, x.ndim - 1) and all(v.dtype is F32 for v in inputs)
        if not is_supported or not self.chain.keeps_shape(x.shape, operands):
            return super().__call__(*inputs)
        length = x.shape[-1]
        normalize, rows = self._functions[length], x.reshape(-1, length)
        result: Array = np.empty(x.shape, F32)
        targets = result.reshape(rows.shape)
        bound = BoundChain(self.chain, [None, *operands], x.shape, rows.shape)
        blocks = split_range(len(rows), -(-x.size // BLOCK_SIZE))
        is_copied = not rows.flags.c_contiguous

        def compute_block(number: int) -> None:
            block = blocks[number]
            target = targets[block]
            if is_copied:  # such as rows whose elements are channels of a convolution
                copy_transposed(rows[block], target)
            normalize(target if is_copied else rows[block], target)
            bound.apply_to_rows(target, block, slice(0, length))

        run_parallel(compute_block, len(blocks))
        return result


@fuses("MVN-6")
def make_normalization_kernel(site: CallSite, chain: ElementwiseChain) -> NormalizationKernel | None:
    """Return the kernel of MVN-6 and its chain, or None if it does not normalize a single axis."""
    axes, kernel = site.get_constant(1), specialize_mvn(site)
    if kernel is None or axes is None or axes.size != 1:
        return None
    epsilon = freeze(np.array(site.attributes["eps"], np.float32))
    is_inside = site.attributes.get("eps_mode") == "inside_sqrt"
    divides = bool(site.attributes.get("normalize_variance", True))
    return NormalizationKernel(kernel, int(axes.item()), partial(_create_row_mvn, epsilon, is_inside, divides), chain)


class _MvnProblem(NamedTuple):
    """The input of a normalization.

    Attributes:
        shape: Its shape.
        axes: The normalized axes, not negative.
        epsilon: f32, a scalar that is added to the deviation.
        is_inside: Whether epsilon is added inside the square root.
        divides: Whether the data is divided by the deviation.
    """

    shape: tuple[int, ...]
    axes: Axes
    epsilon: Array
    is_inside: bool
    divides: bool


def _normalize_last_axis(problem: _MvnProblem) -> Callable[[Array], Array]:
    length = problem.shape[-1]
    function = _create_row_mvn(problem.epsilon, problem.is_inside, problem.divides, length)
    return lambda x: apply_in_blocks(function, make_contiguous(x).reshape(-1, length), (1,)).reshape(x.shape)


def _normalize_axes(problem: _MvnProblem) -> Callable[[Array], Array]:
    function = _create_mvn(*problem)
    return lambda x: function(x) if x.size <= TILE else apply_in_blocks(function, x, problem.axes)


MVN_METHODS = (
    MethodEntry[_MvnProblem](
        "products with ones",
        f"the last axis, of at most {MAX_PRODUCT_LENGTH:,} elements",
        lambda problem: problem.axes == (len(problem.shape) - 1,) and problem.shape[-1] <= MAX_PRODUCT_LENGTH,
        _normalize_last_axis,
    ),
    MethodEntry[_MvnProblem]("sums along the axes", "all others", lambda problem: True, _normalize_axes),
)


def _specialize_mvn(site: CallSite, get_axes: Callable[[int], Axes], *, is_inside: bool) -> SpecializedKernel:
    divides = bool(site.attributes.get("normalize_variance", True))
    epsilon = freeze(np.array(site.attributes["eps"], np.float32))

    def choose(shape: tuple[int, ...]) -> tuple[Choice, _MvnProblem] | None:
        axes = _make_positive(get_axes(len(shape)), len(shape))
        if not axes or not math.prod(shape):
            return None
        problem = _MvnProblem(shape, axes, epsilon, is_inside, divides)
        return choose_method(MVN_METHODS, problem), problem

    return _make_kernel(site, choose)


def _compute_deviation(variance: Array, epsilon: Array, is_inside: bool) -> Array:
    """Return the deviation, in place. Epsilon is added inside the square root or after it."""
    if is_inside:
        np.add(variance, epsilon, variance)
    np.sqrt(variance, variance)
    if not is_inside:
        np.add(variance, epsilon, variance)
    return variance


def _create_row_mvn(epsilon: Array, is_inside: bool, divides: bool, length: int) -> Callable[..., Array]:
    """Return a function of matrices with rows of one length, added up by products."""
    weights = freeze(np.full((length, 1), 1 / length, np.float32))
    divisor = freeze(np.array(length, np.float32))

    def compute(x: Array, out: Array | None = None) -> Array:
        centered: Array = call_by_rows(length, np.subtract, x, x.dot(weights), out)
        if not divides:
            return centered
        # Squares are added up by BLAS, row by row, in half the time of einsum.
        variance: Array = np.matmul(centered[:, np.newaxis, :], centered[:, :, np.newaxis])[:, 0]
        np.divide(variance, divisor, variance)
        factor = np.reciprocal(_compute_deviation(variance, epsilon, is_inside), variance)
        product: Array = call_by_rows(length, np.multiply, centered, factor, centered)
        return product

    return compute


def _create_mvn(
    shape: tuple[int, ...], axes: Axes, epsilon: Array, is_inside: bool, divides: bool
) -> Callable[..., Array]:
    """Return a function of arrays of one shape, except for the first dimension if it is not reduced."""
    count = math.prod(shape[axis] for axis in axes)
    axis: Any = axes[0] if len(axes) == 1 else axes
    add_up: Any = np.add.reduce
    divisor = freeze(np.array(count, np.float32))

    def average(x: Array) -> Array:
        total: Array = add_up(x, axis, None, None, True)
        return np.divide(total, divisor, total)

    def compute(x: Array, out: Array | None = None) -> Array:
        centered: Array = np.subtract(x, average(x), out)
        if not divides:
            return centered
        deviation = _compute_deviation(average(np.square(centered)), epsilon, is_inside)
        return np.divide(centered, deviation, centered)

    return compute


@specializes("NormalizeL2-1")
def specialize_normalize_l2(site: CallSite) -> SpecializedKernel | None:
    """Compute in place."""
    constant = site.get_constant(1)
    if constant is None or constant.dtype.kind not in "iu":
        return None
    axes, call_plain = to_int_tuple(constant), site.call_plain
    add_up: Any = np.add.reduce
    limit = np.maximum if site.attributes["eps_mode"] == "max" else np.add
    epsilon = freeze(np.array(site.attributes["eps"], np.float32))
    if not axes:
        return None

    def compute(x: Array) -> Any:
        if x.dtype is not F32 or not x.ndim:
            return call_plain(x)
        norm = add_up(np.square(x), axes, F32, None, True)
        limit(norm, epsilon, out=norm)
        return np.divide(x, np.sqrt(norm, norm))

    return compute


@specializes("BatchNormInference-5", "BatchNormInference-1")
def specialize_batch_norm(site: CallSite) -> SpecializedKernel | None:
    """Prepare the scale of each channel."""
    position = 0 if str(site.operation) == "BatchNormInference-5" else 2
    names = [i for i in range(5) if i != position]
    constants = [site.get_constant(i) for i in names]
    if any(c is None or c.dtype != F32 or c.ndim != 1 for c in constants):
        return None
    gamma, beta, mean, variance = [c for c in constants if c is not None]
    if len({c.shape for c in (gamma, beta, mean, variance)}) != 1:
        return None
    scale = gamma / np.sqrt(variance + np.float32(site.attributes["epsilon"]))
    call_plain, channels = site.call_plain, len(gamma)

    @Memo
    def operands(rank: int) -> list[Array]:
        per_channel = (channels, *[1] * (rank - 2))
        return [freeze(c.reshape(per_channel)) for c in (mean, scale, beta.copy())]

    def compute(data: Array) -> Any:
        if data.dtype is not F32 or data.ndim < 2 or data.shape[1] != channels:
            return call_plain(data)
        shift, factor, offset = operands[data.ndim]
        result = np.subtract(data, shift)
        np.multiply(result, factor, result)
        return np.add(result, offset, result)

    return compute


@specializes("GroupNormalization-12")
def specialize_group_normalization(site: CallSite) -> SpecializedKernel | None:
    """Normalize groups in place and scale channels by prepared constants."""
    scale, bias = site.get_constant(1), site.get_constant(2)
    if scale is None or bias is None or scale.dtype != F32 or bias.dtype != F32 or scale.shape != bias.shape:
        return None
    groups, call_plain = int(site.attributes["num_groups"]), site.call_plain
    epsilon = freeze(np.array(site.attributes["epsilon"], np.float32))
    if scale.ndim != 1 or groups < 1 or len(scale) % groups:
        return None
    channels = len(scale)

    def compute(data: Array) -> Any:
        if data.dtype is not F32 or data.ndim < 2 or data.shape[1] != channels or not data.size:
            return call_plain(data)
        grouped = data.reshape(data.shape[0] * groups, -1)
        standardize = _create_mvn(grouped.shape, (1,), epsilon, True, True)
        result = apply_in_blocks(standardize, grouped, (1,)).reshape(data.shape)
        per_channel = (channels, *[1] * (data.ndim - 2))
        np.multiply(result, scale.reshape(per_channel), result)
        return np.add(result, bias.reshape(per_channel), result)

    return compute
