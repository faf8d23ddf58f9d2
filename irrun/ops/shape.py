"""Shape operations: ShapeOf, Reshape, Squeeze, Unsqueeze."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_empty
from irrun.ops._support.axes import normalize_axis, to_int_list, to_shape
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["reshape_1", "shape_of_1", "shape_of_3", "squeeze_1", "squeeze_15", "unsqueeze_1"]

_view = partial(op, kind="view", views="contiguous", shaped_by=(1,), folding="linear", flops=0)

_shape_of = partial(
    op,
    "ShapeOf",
    kind="generation",
    shape="infer_shape_of",
    gives_shape=True,
    shaped_by=(),
    checks_size=True,
    folding="linear",
    flops=0,
)


@_shape_of(since=1, output_types=("i64",))
def shape_of_1(data: Array) -> Array:
    """Return the shape of `data`.

    Args:
        data: Any type, any shape.

    Returns:
        Shape [rank of `data`], i64.

    Spec:
        ShapeOf-1
    """
    return shape_of_3(data)


@_shape_of(since=3, output_types=("output_type",))
def shape_of_3(data: Array, *, output_type: ElementType = ELEMENT_TYPES["i64"]) -> Array:
    """Return the shape of `data`.

    Args:
        data: Any type, any shape.
        output_type: The type of the result, i64 or i32.

    Returns:
        Shape [rank of `data`], the type `output_type`.

    Spec:
        ShapeOf-3
    """
    return np.array(data.shape, output_type.dtype)


@_view("Reshape", since=1, shape="infer_reshape")
def reshape_1(data: Array, shape: Array, *, special_zero: bool = False) -> Array:
    """Change the shape of `data` and keep the order of its elements.

    Args:
        data: Any type, any shape.
        shape: Integer, 1D; a scalar requests the shape of a scalar. At most one dimension is -1; it is computed from
            the others.
        special_zero: Whether a 0 in `shape` copies the dimension of `data` at the same position. Required by the
            specification, whose examples omit it.

    Returns:
        The requested shape, the type of `data`. A view.

    Raises:
        InputError: `shape` is invalid, or the numbers of elements differ.

    Spec:
        Reshape-1
    """
    pattern = to_shape(shape, "shape") if shape.ndim else []
    if pattern.count(-1) > 1 or min(pattern, default=0) < -1:
        raise InputError(f"shape {pattern} is invalid, expected at most one -1 and no other negative dimensions")
    is_copied = [special_zero and n == 0 for n in pattern]
    if any(is_copied[data.ndim :]):
        raise InputError(f"shape {pattern} copies a dimension that data of shape {list(data.shape)} does not have")
    target = [data.shape[i] if is_copied[i] else n for i, n in enumerate(pattern)]
    if -1 in target:
        # Copied dimensions are excluded from the division, so that -1 is determined even if one of them is 0.
        divisor = math.prod(n for n, copied in zip(target, is_copied, strict=True) if not copied and n != -1)
        total = math.prod(n for i, n in enumerate(data.shape) if not (i < len(is_copied) and is_copied[i]))
        # If another dimension is 0, -1 is ambiguous; the reference implementation uses 1.
        target[target.index(-1)] = total // divisor if divisor else 1
    if math.prod(target) != data.size:
        raise InputError(f"data of shape {list(data.shape)} cannot be reshaped to {pattern}")
    if not data.size:
        check_empty(target)
    return data.reshape(target)


@_view("Squeeze", since=1, shape="infer_squeeze")
def squeeze_1(data: Array, axes: Array | None = None) -> Array:
    """Remove dimensions of size 1.

    Args:
        data: Any type, any shape.
        axes: Integer, scalar or 1D. The dimensions to remove; all of size 1 if omitted or empty. Dimensions of other
            sizes are kept, as in OpenVINO since 2024.3.

    Returns:
        The shape of `data` without these dimensions, the type of `data`. A view.

    Raises:
        InputError: An axis is out of range.

    Spec:
        Squeeze-1
    """
    squeezed = set(range(data.ndim))
    if axes is not None and axes.size:
        # As in the reference implementation, a scalar may be squeezed along axis 0.
        squeezed = {normalize_axis(a, max(1, data.ndim), "axes") for a in to_int_list(axes)}
    return data.reshape([n for i, n in enumerate(data.shape) if n != 1 or i not in squeezed])


@_view("Squeeze", since=15, shape="infer_squeeze")
@describes_like(squeeze_1)
def squeeze_15(data: Array, axes: Array | None = None, *, allow_axis_skip: bool = False) -> Array:
    """Remove dimensions of size 1.

    Args:
        axes: Integer, scalar or 1D. The dimensions to remove; all of size 1 if omitted or empty. Dimensions of other
            sizes are kept.
        allow_axis_skip: Ignored: affects only the inference of dynamic ranks.

    Spec:
        Squeeze-15
    """
    return squeeze_1(data, axes)


@_view("Unsqueeze", since=1, shape="infer_unsqueeze")
def unsqueeze_1(data: Array, axes: Array) -> Array:
    """Insert dimensions of size 1.

    Args:
        data: Any type, any shape.
        axes: Integer, scalar or 1D. The positions of the new dimensions in the result. Negative values count from the
            end of the result; repeated values count once.

    Returns:
        The shape of `data` with the new dimensions, the type of `data`. A view.

    Raises:
        InputError: An axis is out of range.

    Spec:
        Unsqueeze-1
    """
    values = set(to_int_list(axes))
    positions = {normalize_axis(a, data.ndim + len(values), "axes") for a in values}
    rank = data.ndim + len(positions)
    if max(positions, default=0) >= max(rank, 1):  # two values denote the same axis, one of them from the end
        raise InputError(f"axes {sorted(values)} are out of range for a result of rank {rank}")
    sizes = iter(data.shape)
    return data.reshape([1 if i in positions else next(sizes) for i in range(rank)])
