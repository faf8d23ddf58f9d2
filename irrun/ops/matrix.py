"""Matrix operations."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.flops import Call, count_einsum, count_matmul
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.shapes import get_broadcast_shape

__all__ = ["einsum_7", "grouped_mat_mul_17", "inverse_14", "mat_mul_1"]

#: The name of an axis in an Einsum equation.
Label = str


@op(
    "MatMul",
    since=1,
    kind="product",
    shape="infer_matmul",
    multiplies_matrices=True,
    is_overwritable=True,
    shaped_by=(),
    channel_axis=1,
    flops=count_matmul,
)
def mat_mul_1(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """Compute the matrix product of the last two axes; all other axes are broadcast.

    Args:
        a: Numeric, shape [..., M, K] or [K]. A vector is a matrix of one row, and the result has no axis for it.
        b: The type of `a`, shape [..., K, N] or [K]. A vector is a matrix of one column, and the result has no axis
            for it.
        transpose_a: Whether the last two axes of `a` are swapped. Vectors are not affected.
        transpose_b: Whether the last two axes of `b` are swapped. Vectors are not affected.

    Returns:
        Shape [..., M, N], the type of `a`.

    Raises:
        InputError: The inner dimensions differ, the other axes do not broadcast, or an input is a scalar.

    Spec:
        MatMul-1
    """
    if a.ndim == 0 or b.ndim == 0:
        raise InputError(f"shapes are {list(a.shape)} and {list(b.shape)}, expected at least rank 1")
    left = a.swapaxes(-1, -2) if transpose_a and a.ndim > 1 else a
    right = b.swapaxes(-1, -2) if transpose_b and b.ndim > 1 else b
    inner = right.shape[-2] if right.ndim > 1 else right.shape[0]
    try:
        batch = get_broadcast_shape(left.shape[:-2], right.shape[:-2])
    except ValueError:
        batch = None
    if left.shape[-1] != inner or batch is None:
        raise InputError(
            f"cannot multiply {_describe(a, transpose_a)} by {_describe(b, transpose_b)}: "
            + ("the batch axes do not broadcast" if batch is None else "the inner dimensions differ")
        )
    if right.ndim == 2 and left.ndim > 2:  # one product of many rows is faster than many products
        rows = matmul(left.reshape(math.prod(left.shape[:-1]), inner), right)
        return rows.reshape(*left.shape[:-1], right.shape[1])
    return matmul(left, right)


def _describe(x: Array, is_transposed: bool) -> str:
    return f"{list(x.shape)}{' transposed' if is_transposed else ''}"


@op("GroupedMatMul", since=17, kind="product", shape="infer_grouped_product", flops=count_matmul)
def grouped_mat_mul_17(mat_a: Array, mat_b: Array, offsets: Array | None = None) -> Array:
    """Compute a matrix product for each group of rows or for each matrix of `mat_a`.

    In drafts of the specification `mat_b` has shape [G, K, N], and both inputs may have rank 2. OpenVINO implements
    neither.

    Args:
        mat_a: Numeric, shape [ROWS, K] or [G, M, K].
        mat_b: The type of `mat_a`, shape [G, N, K].
        offsets: i32 or i64, shape [G]: the end of each group of rows. Required if `mat_a` has rank 2.

    Returns:
        Shape [ROWS, N] or [G, M, N], the type of `mat_a`. Rows after the last group are 0.

    Raises:
        InputError: The shapes do not match, or `offsets` is missing, descends or exceeds ROWS.

    Spec:
        GroupedMatMul-17
    """
    if mat_a.ndim not in (2, 3) or mat_b.ndim != 3 or mat_a.shape[-1] != mat_b.shape[2]:
        raise InputError(
            f"found shapes {list(mat_a.shape)} and {list(mat_b.shape)}, expected [ROWS, K] or [G, M, K] and [G, N, K]"
        )
    groups = mat_b.shape[0]
    weights = mat_b.swapaxes(1, 2)
    if mat_a.ndim == 3:
        if mat_a.shape[0] != groups:
            raise InputError(f"mat_a has {mat_a.shape[0]} groups, mat_b has {groups}")
        check_allocation((*mat_a.shape[:2], mat_b.shape[1]), mat_a.dtype)
        return matmul(mat_a, weights)
    if offsets is None:
        raise InputError(f"offsets is missing, expected shape [{groups}]")
    if offsets.shape != (groups,) or offsets.dtype.kind not in "iu":
        raise InputError(
            f"offsets is {ElementType.of(offsets.dtype)} of shape {list(offsets.shape)}, expected integers of shape "
            f"[{groups}]"
        )
    ends = offsets.tolist()
    bounds = [0, *ends]
    if any(end < start for start, end in itertools.pairwise(bounds)) or bounds[-1] > mat_a.shape[0]:
        raise InputError(f"offsets is {ends}, expected ascending values in [0, {mat_a.shape[0]}]")
    shape = (mat_a.shape[0], mat_b.shape[1])
    check_allocation(shape, mat_a.dtype)
    largest = max((end - start for start, end in itertools.pairwise(bounds)), default=0)
    check_scratch((shape[0] * mat_a.itemsize + largest * max(mat_a.itemsize, 4)) * shape[1])
    result = np.zeros(shape, mat_a.dtype)
    for group, (start, end) in within_time(enumerate(itertools.pairwise(bounds))):
        if end > start:
            result[start:end] = matmul(mat_a[start:end], weights[group])
    return result


def _count_inverse(call: Call) -> int:
    """Count an LU decomposition and the solution for each column of the identity: 2 n^3 for a matrix of n rows."""
    return 2 * int(call.outputs[0].size) * int(call.outputs[0].shape[-1])


@op("Inverse", since=14, scratch=8, kind="product", shape="infer_inverse", flops=_count_inverse)
@compute_in_float32
def inverse_14(data: Array, *, adjoint: bool = False) -> Array:
    """Compute the inverse of each matrix.

    Gaussian elimination with partial pivoting is computed in the type of `data`, as in the reference implementation.
    The specification computes f64 in f32.

    Args:
        data: Floating-point, shape [..., N, N].
        adjoint: Whether the inverse is transposed.

    Returns:
        The shape and type of `data`. The inverse of a singular matrix is infinity or NaN.

    Raises:
        InputError: The last two axes differ.

    Spec:
        Inverse-14
    """
    if data.ndim < 2 or data.shape[-1] != data.shape[-2]:
        raise InputError(f"data has shape {list(data.shape)}, expected [..., N, N]")
    n = data.shape[-1]
    upper = data.reshape(math.prod(data.shape[:-2]), n, n).copy()
    right = np.broadcast_to(np.eye(n, dtype=data.dtype), upper.shape).copy()
    matrices = np.arange(len(upper))
    for k in within_time(range(n)):  # forward elimination, of all matrices at once
        pivot = k + np.abs(upper[:, k:, k]).argmax(axis=1)  # with NaN, all elements become NaN whatever the pivot is
        for x in (upper, right):
            x[matrices, k], x[matrices, pivot] = x[matrices, pivot], x[matrices, k]
        factor = upper[:, k + 1 :, k] / upper[:, k, k, np.newaxis]
        upper[:, k + 1 :] -= factor[:, :, np.newaxis] * upper[:, k, np.newaxis]
        right[:, k + 1 :] -= factor[:, :, np.newaxis] * right[:, k, np.newaxis]
    for k in within_time(reversed(range(n))):  # back substitution
        right[:, k] -= np.matmul(upper[:, k, np.newaxis, k + 1 :], right[:, k + 1 :])[:, 0]
        right[:, k] /= upper[:, k, k, np.newaxis]
    inverse: Array = (right.swapaxes(1, 2) if adjoint else right).reshape(data.shape)
    return inverse


class _Term(NamedTuple):
    """A tensor with one unique label per axis."""

    values: Array
    labels: tuple[Label, ...]


@op("Einsum", since=7, kind="product", shape="infer_einsum", shaped_by=(), flops=count_einsum)
@compute_in_float32
def einsum_7(*inputs: Array, equation: str) -> Array:
    """Multiply the inputs along labeled axes and sum over the labels that are not in the output.

    Args:
        *inputs: Numeric, all of the same type; one for each subscript of `equation`.
        equation: Subscripts separated by commas, optionally with "->" and the subscript of the output. "..." represents
            any number of axes, which broadcast. A label that occurs twice in a subscript selects the diagonal.
            Without "->" the output has the axes of "...", then all labels that occur once, in alphabetical order.

    Returns:
        One axis for each label of the output, the type of the inputs.

    Raises:
        InputError: The equation is invalid or does not match the inputs.

    Spec:
        Einsum-7
    """
    subscripts, output = _parse_equation(equation, inputs)
    terms = [_take_diagonal(x, labels, equation) for x, labels in zip(inputs, subscripts, strict=True)]
    sizes = _collect_sizes(terms, equation)
    while len(terms) > 1:
        i, j = _choose_pair(terms, sizes, output)
        product = _contract(terms[i], terms[j], _get_remaining_labels(terms, (i, j), output))
        terms = [term for k, term in enumerate(terms) if k not in (i, j)] + [product]
    term = _sum_except(terms[0], output)
    result: Array = term.values.transpose([term.labels.index(label) for label in output])
    return result


def _parse_equation(equation: str, inputs: Sequence[Array]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """Return the labels of the axes of each input and of the output; "..." has the labels ..., ".1", ".0"."""
    equation = "".join(equation.split())
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", equation):
        raise InputError(f"{equation!r} is not a valid equation")
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(inputs):
        raise InputError(f"{equation!r} has {len(parts)} subscripts, found {len(inputs)} inputs")
    widths = [_count_ellipsis_axes(part, x, equation) for part, x in zip(parts, inputs, strict=True)]
    subscripts = [_expand_ellipsis(part, width) for part, width in zip(parts, widths, strict=True)]
    if arrow:
        output = _expand_ellipsis(right, max(widths))
        known = {label for labels in subscripts for label in labels}
        if len(set(output)) < len(output) or not set(output) <= known:
            raise InputError(f"the output of {equation!r} has a label twice, or a label that no input has")
    else:
        counts = Counter(left)
        once = "".join(sorted(label for label, count in counts.items() if label.isalpha() and count == 1))
        output = _expand_ellipsis("..." + once, max(widths))
    return subscripts, output


def _count_ellipsis_axes(subscript: str, x: Array, equation: str) -> int:
    """Return the number of axes of `x` that "..." represents; 0 without it."""
    labels = subscript.replace("...", "", 1)
    width = x.ndim - len(labels) if "..." in subscript else 0
    if "." in labels or width < 0 or width + len(labels) != x.ndim:
        raise InputError(f"subscript {subscript!r} of {equation!r} does not match shape {list(x.shape)}")
    return width


def _expand_ellipsis(subscript: str, width: int) -> tuple[Label, ...]:
    before, ellipsis, after = subscript.partition("...")
    return (*before, *(f".{i}" for i in reversed(range(width if ellipsis else 0))), *after)


def _take_diagonal(x: Array, labels: tuple[Label, ...], equation: str) -> _Term:
    """Return `x` with one axis for each label, taking the diagonal of repeated labels."""
    unique = tuple(dict.fromkeys(labels))
    for label in unique:
        sizes = {n for n, name in zip(x.shape, labels, strict=True) if name == label}
        if len(sizes) > 1:
            raise InputError(f"label {label!r} of {equation!r} denotes axes of different sizes {sorted(sizes)}")
    if len(unique) < len(labels):
        x = np.einsum(x, [unique.index(label) for label in labels], list(range(len(unique))))
    return _Term(x, unique)


def _collect_sizes(terms: Sequence[_Term], equation: str) -> dict[Label, int]:
    """Return the size of each label; axes of size 1 are broadcast."""
    sizes: dict[Label, int] = {}
    for term in terms:
        for label, n in zip(term.labels, term.values.shape, strict=True):
            size = sizes.setdefault(label, n)
            if n != size and 1 not in (n, size):
                raise InputError(f"label {label!r} of {equation!r} denotes axes of different sizes {size} and {n}")
            sizes[label] = n if size == 1 else size
    return sizes


def _choose_pair(terms: Sequence[_Term], sizes: Mapping[Label, int], output: Sequence[Label]) -> tuple[int, int]:
    """Return the indices of the two terms with the smallest product."""
    return min(
        itertools.combinations(range(len(terms)), 2),
        key=lambda pair: math.prod(sizes[label] for label in _get_remaining_labels(terms, pair, output)),
    )


def _get_remaining_labels(terms: Sequence[_Term], pair: tuple[int, int], output: Sequence[Label]) -> tuple[Label, ...]:
    """Return the labels of a pair of terms that are in the output or in another term."""
    required = set(output)
    required.update(label for k, term in enumerate(terms) if k not in pair for label in term.labels)
    labels = dict.fromkeys(label for k in pair for label in terms[k].labels)
    return tuple(label for label in labels if label in required)


def _contract(a: _Term, b: _Term, remaining: Sequence[Label]) -> _Term:
    """Multiply two terms and sum over all labels but `remaining`, as a batch of matrix products."""
    a, b = _sum_except(a, (*b.labels, *remaining)), _sum_except(b, (*a.labels, *remaining))
    batch = [label for label in a.labels if label in b.labels and label in remaining]
    inner = [label for label in a.labels if label in b.labels and label not in remaining]
    rows = [label for label in a.labels if label not in b.labels]
    columns = [label for label in b.labels if label not in a.labels]
    left = a.values.transpose([a.labels.index(label) for label in (*batch, *rows, *inner)])
    right = b.values.transpose([b.labels.index(label) for label in (*batch, *inner, *columns)])
    lead, r, c = len(batch), len(rows), len(columns)
    inner_shape = get_broadcast_shape(left.shape[lead + r :], right.shape[lead : lead + len(inner)])
    left = np.broadcast_to(left, (*left.shape[: lead + r], *inner_shape))
    right = np.broadcast_to(right, (*right.shape[:lead], *inner_shape, *right.shape[right.ndim - c :]))
    row_shape, column_shape = left.shape[lead : lead + r], right.shape[right.ndim - c :]
    n = math.prod(inner_shape)
    product = matmul(
        left.reshape(*left.shape[:lead], math.prod(row_shape), n),
        right.reshape(*right.shape[:lead], n, math.prod(column_shape)),
    )
    values = product.reshape((*product.shape[:lead], *row_shape, *column_shape))
    return _Term(values, (*batch, *rows, *columns))


def _sum_except(term: _Term, labels: Sequence[Label]) -> _Term:
    """Sum a term over all axes except `labels`."""
    axes = tuple(k for k, label in enumerate(term.labels) if label not in labels)
    if not axes:
        return term
    remaining = tuple(label for label in term.labels if label in labels)
    return _Term(term.values.sum(axis=axes, dtype=term.values.dtype), remaining)
