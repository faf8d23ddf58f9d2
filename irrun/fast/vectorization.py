"""Operations on the values of all iterations of a loop at once.

A *stacked* value holds the values of all iterations: its first axis is the iterations, and the other axes are the
axes of the value in one iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.fast.specialization import CallSite, specialize
from irrun.fast.support import to_int_tuple
from irrun.ops._support.axes import normalize_axis
from irrun.shapes import get_broadcast_shape

__all__ = ["NotVectorizableError", "get_kernel", "vectorize"]

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]

#: Takes a site, and whether each variable input is stacked.
Vectorizer = Callable[[CallSite, Sequence[bool]], "Kernel | None"]
#: Operation type -> the function that vectorizes it, for operations that are not elementwise.
_vectorizers: dict[str, Vectorizer] = {}

#: A stacked value has at most as many elements as the largest input of its operation times this factor, or the
#: second number.
GROWTH_LIMITS = (4, 1 << 22)


class NotVectorizableError(Exception):
    """Values have unexpected shapes, so the loop itself runs instead."""


def get_kernel(site: CallSite) -> Kernel:
    """Return a kernel of the variable inputs: the specialized kernel, or else the plain one."""
    return specialize(site) or site.call_plain


def vectorize(site: CallSite, is_stacked: Sequence[bool]) -> Kernel | None:
    """Return a kernel that computes stacked values, or None if the operation is not vectorized.

    Args:
        site: The operation in the body.
        is_stacked: For each input of the kernel, whether it is stacked; at least one is.
    """
    if site.operation.folding == "never" or site.operation.is_custom:
        return None
    operation = site.operation
    if operation.kind == "elementwise":
        tensors = len(operation.inputs) - len(operation.scalars)
        broadcasts = any(attribute.name == "auto_broadcast" for attribute in operation.attributes)
        if tensors == 1:
            return _vectorize_unary(site, is_stacked)
        if tensors == 2 and broadcasts:
            return _vectorize_binary(site, is_stacked)
    if operation.multiplies_matrices:
        return _vectorize_product(site, is_stacked)
    if operation.gathers:
        return _vectorize_gather(site, is_stacked)
    vectorizer = _vectorizers.get(operation.type)
    return vectorizer(site, is_stacked) if vectorizer else None


def _vectorizes(*operation_types: str) -> Callable[[Vectorizer], Vectorizer]:
    """Register the decorated function for operations that are not elementwise."""

    def decorate(function: Vectorizer) -> Vectorizer:
        _vectorizers.update(dict.fromkeys(operation_types, function))
        return function

    return decorate


def _is_first_of_constants(site: CallSite) -> bool:
    """Return whether only the first input is variable."""
    return site.variable_inputs == (0,)


def _vectorize_unary(site: CallSite, is_stacked: Sequence[bool]) -> Kernel | None:
    others = [value for value in site.constants[1:] if value is not None]
    if not _is_first_of_constants(site) or any(value.size != 1 for value in others):
        return None
    return get_kernel(site)


def _vectorize_binary(site: CallSite, is_stacked: Sequence[bool]) -> Kernel | None:
    if site.attributes.get("auto_broadcast", "numpy") != "numpy":
        return None
    kernel = get_kernel(site)
    if len(is_stacked) == 1:
        constant = next(value for value in site.constants if value is not None)
        rank = constant.ndim + 1

        def compute_with_constant(x: Array) -> Any:
            x = _add_axes(x, rank)
            _check_growth(x.shape, constant.shape)
            return kernel(x)

        return compute_with_constant
    a_is_stacked, b_is_stacked = is_stacked

    def compute(a: Array, b: Array) -> Any:
        rank = max(a.ndim + (not a_is_stacked), b.ndim + (not b_is_stacked))
        if a_is_stacked:
            a = _add_axes(a, rank)
        if b_is_stacked:
            b = _add_axes(b, rank)
        _check_growth(a.shape, b.shape)
        return kernel(a, b)

    return compute


def _add_axes(x: Array, rank: int) -> Array:
    """Add axes after the first one, up to `rank`."""
    return x if x.ndim >= rank else x.reshape(len(x), *(1,) * (rank - x.ndim), *x.shape[1:])


def _check_growth(*shapes: tuple[int, ...]) -> None:
    """Check that broadcasting does not create a value that is much larger than the inputs.

    Raises:
        NotVectorizableError: Broadcasting would create such a value.
    """
    size = math.prod(get_broadcast_shape(*shapes))
    factor, minimum = GROWTH_LIMITS
    if size > max(minimum, factor * max(map(math.prod, shapes))):
        raise NotVectorizableError


@_vectorizes("Reshape", "Squeeze", "Unsqueeze")
def _vectorize_reshape(site: CallSite, _: Sequence[bool]) -> Kernel | None:
    if not _is_first_of_constants(site):
        return None
    call_plain = site.call_plain

    def compute(x: Array) -> Any:
        return x.reshape(len(x), *call_plain(x[0]).shape)

    return compute


@_vectorizes("Transpose")
def _vectorize_transpose(site: CallSite, _: Sequence[bool]) -> Kernel | None:
    order = site.get_constant(1)
    if order is None or not _is_first_of_constants(site):
        return None
    axes = [axis + 1 if axis >= 0 else axis for axis in to_int_tuple(order)]

    def compute(x: Array) -> Any:
        return x.transpose(0, *(axes or range(x.ndim - 1, 0, -1)))

    return compute


def _vectorize_product(site: CallSite, _: Sequence[bool]) -> Kernel | None:
    """Multiply all rows by a constant matrix at once."""
    weights = site.get_constant(1)
    if weights is None or weights.ndim != 2 or site.attributes.get("transpose_a") or not _is_first_of_constants(site):
        return None
    kernel = get_kernel(site)
    factor, minimum = GROWTH_LIMITS
    columns = weights.shape[0 if site.attributes.get("transpose_b") else 1]

    def compute(x: Array) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        if len(rows) * columns > max(minimum, factor * x.size) or x.ndim < 2:
            raise NotVectorizableError
        return kernel(rows).reshape(*x.shape[:-1], -1)

    return compute


@_vectorizes("Concat")
def _vectorize_concatenation(site: CallSite, is_stacked: Sequence[bool]) -> Kernel | None:
    if not all(is_stacked) or len(is_stacked) < len(site.constants):
        return None
    axis = int(site.attributes["axis"])

    def compute(*parts: Array) -> Any:
        return np.concatenate(parts, 1 + normalize_axis(axis, parts[0].ndim - 1))

    return compute


def _vectorize_gather(site: CallSite, is_stacked: Sequence[bool]) -> Kernel | None:
    """Look up the rows of a table for the indices of all iterations."""
    axis = site.get_constant(2)
    is_lookup = axis is not None and axis.size == 1 and not axis.item() and not site.attributes.get("batch_dims")
    indices_are_stacked = dict(zip(site.variable_inputs, is_stacked, strict=True)).get(1, False)
    return get_kernel(site) if is_lookup and indices_are_stacked and sum(is_stacked) == 1 else None
