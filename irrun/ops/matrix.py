"""Matrix operations."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.matrix_products import matmul
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["einsum_7", "grouped_mat_mul_17", "inverse_14", "mat_mul_1"]

Label = str


@op("MatMul", since=1)
def mat_mul_1(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """The matrix product of the last two axes, the axes before them broadcast.

    a: numeric [..., M, K] or [K]; b: the same type, [..., K, N] or [K]. A transposed input has its last two
    axes swapped; one of rank 1 is taken as a row (a) or a column (b), and its axis of length 1 is left out of
    the result.
    Returns [..., M, N], the type of a.
    Raises InputError where the inner dimensions differ, shapes do not broadcast, or an input is a scalar.
    Spec: MatMul-1.
    """
    if a.ndim == 0 or b.ndim == 0:
        raise InputError(f"shapes are {list(a.shape)} and {list(b.shape)}, expected at least rank 1")
    left = a.swapaxes(-1, -2) if transpose_a and a.ndim > 1 else a
    right = b.swapaxes(-1, -2) if transpose_b and b.ndim > 1 else b
    inner = right.shape[-2] if right.ndim > 1 else right.shape[0]
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        batch = None
    if left.shape[-1] != inner or batch is None:
        raise InputError(
            f"cannot multiply {_described(a, transpose_a)} by {_described(b, transpose_b)}: "
            + ("the batch axes do not broadcast" if batch is None else "the inner dimensions differ")
        )
    if right.ndim == 2 and left.ndim > 2:  # one product of many rows instead of many products
        rows = matmul(left.reshape(math.prod(left.shape[:-1]), inner), right)
        return rows.reshape(*left.shape[:-1], right.shape[1])
    return matmul(left, right)


def _described(x: Array, transposed: bool) -> str:
    return f"{list(x.shape)}{' transposed' if transposed else ''}"


@op("GroupedMatMul", since=17)
def grouped_mat_mul_17(mat_a: Array, mat_b: Array, offsets: Array | None = None) -> Array:
    """A matrix product for each group: of the rows up to the group's offset, or of the group's own matrix.

    mat_a: numeric [ROWS, K] or [G, M, K]; mat_b: the same type, [G, N, K]; offsets: i32 or i64 [G], the row after
    each group's last one, for mat_a of rank 2. Rows after the last group give zeros. Drafts of the specification
    have mat_b as [G, K, N], and a product of two matrices of rank 2; OpenVINO has neither.
    Returns [ROWS, N] or [G, M, N], the type of mat_a.
    Raises InputError where shapes do not fit, or offsets are missing, descend or exceed ROWS.
    Spec: GroupedMatMul-17.
    """
    if mat_a.ndim not in (2, 3) or mat_b.ndim != 3 or mat_a.shape[-1] != mat_b.shape[2]:
        raise InputError(
            f"shapes {list(mat_a.shape)} and {list(mat_b.shape)} are neither [ROWS, K] nor [G, M, K] with [G, N, K]"
        )
    groups = mat_b.shape[0]
    weights = mat_b.swapaxes(1, 2)
    if mat_a.ndim == 3:
        if mat_a.shape[0] != groups:
            raise InputError(f"mat_a has {mat_a.shape[0]} groups and mat_b {groups}")
        return matmul(mat_a, weights)
    if offsets is None or offsets.shape != (groups,):
        found = "none" if offsets is None else f"of shape {list(offsets.shape)}"
        raise InputError(f"offsets are {found}, expected [{groups}], one for each matrix of mat_b")
    ends = offsets.tolist()
    bounds = [0, *ends]
    if any(end < start for start, end in itertools.pairwise(bounds)) or bounds[-1] > mat_a.shape[0]:
        raise InputError(f"offsets {ends} do not ascend from 0 to at most {mat_a.shape[0]}, the rows of mat_a")
    result = np.zeros((mat_a.shape[0], mat_b.shape[1]), mat_a.dtype)
    for group, (start, end) in enumerate(itertools.pairwise(bounds)):
        if end > start:
            result[start:end] = matmul(mat_a[start:end], weights[group])
    return result


@op("Inverse", since=14)
@compute_in_float32
def inverse_14(data: Array, *, adjoint: bool = False) -> Array:
    """The inverse of each matrix; with `adjoint`, transposed.

    data: floating point [..., N, N].
    Like the reference, elimination with partial pivoting in the type of data, where the specification computes f64
    in f32; what is singular gives infinity or NaN.
    Returns the shape and type of data.
    Raises InputError where the last two axes differ.
    Spec: Inverse-14.
    """
    if data.ndim < 2 or data.shape[-1] != data.shape[-2]:
        raise InputError(f"data has shape {list(data.shape)}, expected [..., N, N]")
    n = data.shape[-1]
    upper = data.reshape(math.prod(data.shape[:-2]), n, n).copy()
    right = np.broadcast_to(np.eye(n, dtype=data.dtype), upper.shape).copy()
    every = np.arange(len(upper))
    for k in range(n):  # forward, on all matrices at once
        size = np.abs(upper[:, k:, k])
        size = np.where(np.isnan(size), -1, size)
        size[:, 0] = np.abs(upper[:, k, k])  # a pivot of NaN stays: nothing is greater
        pivot = k + size.argmax(axis=1)
        for x in (upper, right):
            x[every, k], x[every, pivot] = x[every, pivot], x[every, k]
        factor = upper[:, k + 1 :, k] / upper[:, k, k, np.newaxis]
        upper[:, k + 1 :] -= factor[:, :, np.newaxis] * upper[:, k, np.newaxis]
        right[:, k + 1 :] -= factor[:, :, np.newaxis] * right[:, k, np.newaxis]
    for k in reversed(range(n)):  # and backward
        right[:, k] -= np.matmul(upper[:, k, np.newaxis, k + 1 :], right[:, k + 1 :])[:, 0]
        right[:, k] /= upper[:, k, k, np.newaxis]
    inverse: Array = (right.swapaxes(1, 2) if adjoint else right).reshape(data.shape)
    return inverse


@dataclass(frozen=True)
class _Labelled:
    """A tensor with one label per axis, none of them twice."""

    values: Array
    labels: tuple[Label, ...]


@op("Einsum", since=7)
@compute_in_float32
def einsum_7(*inputs: Array, equation: str) -> Array:
    """The product of the inputs by labelled axes, summed over each label that the output does not have.

    inputs: numeric, of one type, one for each subscript of `equation`. "..." stands for any axes, which broadcast;
    a label that occurs twice in a subscript picks the diagonal. Without "->" the output has the axes of "...", then
    the labels that occur once, in alphabetical order.
    Returns the type of the inputs.
    Raises InputError where the equation does not fit the inputs.
    Spec: Einsum-7.
    """
    subscripts, output = _parse(equation, inputs)
    terms = []
    for x, labels in zip(inputs, subscripts, strict=True):
        unique = tuple(dict.fromkeys(labels))
        numbers = {label: i for i, label in enumerate(unique)}
        for label in unique:
            sizes = {n for n, name in zip(x.shape, labels, strict=True) if name == label}
            if len(sizes) > 1:
                raise InputError(f"label {label!r} of {equation!r} stands for axes of sizes {sorted(sizes)}")
        diagonal = x
        if len(unique) < len(labels):
            diagonal = np.einsum(x, [numbers[label] for label in labels], list(range(len(unique))))
        terms.append(_Labelled(diagonal, unique))
    sizes_of: dict[Label, int] = {}
    for term in terms:
        for label, n in zip(term.labels, term.values.shape, strict=True):
            known = sizes_of.setdefault(label, n)
            if n != known and 1 not in (n, known):
                raise InputError(f"label {label!r} of {equation!r} stands for sizes {known} and {n}")
            sizes_of[label] = n if known == 1 else known
    while len(terms) > 1:
        i, j = min(
            itertools.combinations(range(len(terms)), 2),
            key=lambda pair: math.prod(sizes_of[label] for label in _kept(terms, pair, output)),
        )
        product = _contract(terms[i], terms[j], _kept(terms, (i, j), output))
        terms = [term for k, term in enumerate(terms) if k not in (i, j)] + [product]
    last = terms[0]
    gone = tuple(k for k, label in enumerate(last.labels) if label not in output)
    values = last.values.sum(axis=gone, dtype=last.values.dtype) if gone else last.values
    left = [label for label in last.labels if label in output]
    result: Array = values.transpose([left.index(label) for label in output])
    return result


def _parse(equation: str, inputs: Sequence[Array]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """The labels of each input's axes and of the output's; an axis of "..." is labelled ".0" (the last), ".1", ..."""
    equation = "".join(equation.split())
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", equation):
        raise InputError(f"{equation!r} is no equation of labels")
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(inputs):
        raise InputError(f"{equation!r} is about {len(parts)} inputs, and {len(inputs)} are given")
    widest = 0
    subscripts = []
    for part, x in zip(parts, inputs, strict=True):
        named = part.replace("...", "", 1)
        width = x.ndim - len(named) if "..." in part else 0
        if "." in named or width < 0 or width + len(named) != x.ndim:
            raise InputError(f"subscript {part!r} of {equation!r} does not fit shape {list(x.shape)}")
        subscripts.append(_expand(part, width))
        widest = max(widest, width)
    if arrow:
        output = _expand(right, widest)
        known = {label for labels in subscripts for label in labels}
        if len(set(output)) < len(output) or not set(output) <= known:
            raise InputError(f"the output of {equation!r} has a label twice, or one that no input has")
    else:
        count = Counter(left)
        named = "".join(sorted(label for label, times in count.items() if label.isalpha() and times == 1))
        output = _expand("..." + named, widest)
    return subscripts, output


def _expand(subscript: str, width: int) -> tuple[Label, ...]:
    before, dots, after = subscript.partition("...")
    return (*before, *(f".{i}" for i in reversed(range(width if dots else 0))), *after)


def _kept(terms: Sequence[_Labelled], pair: tuple[int, int], output: Sequence[Label]) -> tuple[Label, ...]:
    """The labels of a pair of terms that the output or another term still needs."""
    needed = set(output)
    needed.update(label for k, term in enumerate(terms) if k not in pair for label in term.labels)
    both = dict.fromkeys(label for k in pair for label in terms[k].labels)
    return tuple(label for label in both if label in needed)


def _contract(a: _Labelled, b: _Labelled, kept: Sequence[Label]) -> _Labelled:
    """The product of two terms, summed over all labels but `kept`, as a batch of matrix products."""
    a, b = _sum_own(a, b, kept), _sum_own(b, a, kept)
    batch = [label for label in a.labels if label in b.labels and label in kept]
    inner = [label for label in a.labels if label in b.labels and label not in kept]
    rows = [label for label in a.labels if label not in b.labels]
    columns = [label for label in b.labels if label not in a.labels]
    left = a.values.transpose([a.labels.index(label) for label in (*batch, *rows, *inner)])
    right = b.values.transpose([b.labels.index(label) for label in (*batch, *inner, *columns)])
    lead, r, c = len(batch), len(rows), len(columns)
    summed = np.broadcast_shapes(left.shape[lead + r :], right.shape[lead : lead + len(inner)])
    left = np.broadcast_to(left, (*left.shape[: lead + r], *summed))
    right = np.broadcast_to(right, (*right.shape[:lead], *summed, *right.shape[right.ndim - c :]))
    row_shape, column_shape = left.shape[lead : lead + r], right.shape[right.ndim - c :]
    n = math.prod(summed)
    product = matmul(
        left.reshape(*left.shape[:lead], math.prod(row_shape), n),
        right.reshape(*right.shape[:lead], n, math.prod(column_shape)),
    )
    values = product.reshape((*product.shape[:lead], *row_shape, *column_shape))
    return _Labelled(values, (*batch, *rows, *columns))


def _sum_own(term: _Labelled, other: _Labelled, kept: Sequence[Label]) -> _Labelled:
    """`term` summed over the labels that neither `other` has nor the result keeps."""
    gone = tuple(k for k, name in enumerate(term.labels) if name not in other.labels and name not in kept)
    if not gone:
        return term
    labels = tuple(label for k, label in enumerate(term.labels) if k not in gone)
    return _Labelled(term.values.sum(axis=gone, dtype=term.values.dtype), labels)
