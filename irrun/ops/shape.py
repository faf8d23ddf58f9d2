"""Shape operations: ShapeOf, Reshape, Squeeze, Unsqueeze."""

from __future__ import annotations

import math

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis, to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["reshape_1", "shape_of_1", "shape_of_3", "squeeze_1", "squeeze_15", "unsqueeze_1"]


@op("ShapeOf", since=1, folding="linear")
def shape_of_1(data: Array) -> Array:
    """The shape of `data`.

    data: any type and shape.
    Returns i64 [rank of data].
    Spec: ShapeOf-1.
    """
    return np.array(data.shape, np.int64)


@op("ShapeOf", since=3, folding="linear")
def shape_of_3(data: Array, *, output_type: ElementType = ELEMENT_TYPES["i64"]) -> Array:
    """The shape of `data` in the type `output_type`.

    data: any type and shape.
    Returns i64 or i32 [rank of data].
    Spec: ShapeOf-3.
    """
    return np.array(data.shape, output_type.dtype)


@op("Reshape", since=1, folding="linear")
def reshape_1(data: Array, shape: Array, *, special_zero: bool = False) -> Array:
    """`data` in another shape, its elements in the same order.

    data: any type and shape; shape: integer [n] (a scalar 1 asks for a scalar), where one -1 stands for
    what the rest leaves, and with `special_zero` a 0 for the size of data at the same place.
    Returns the type of data, a view. (The specification wants `special_zero`; its own examples leave it out.)
    Raises InputError where the numbers of elements differ.
    Spec: Reshape-1.
    """
    pattern = to_int_list(shape) if shape.ndim else []
    if pattern.count(-1) > 1 or min(pattern, default=0) < -1:
        raise InputError(f"shape {pattern} may hold one -1, and nothing else below 0")
    copied = [special_zero and n == 0 for n in pattern]
    if any(copied[data.ndim :]):
        raise InputError(f"shape {pattern} copies a dimension that data of shape {list(data.shape)} does not have")
    target = [data.shape[i] if copied[i] else n for i, n in enumerate(pattern)]
    if -1 in target:
        # Copied dimensions stay out of the division, so that -1 is determined beside a copied 0.
        rest = math.prod(n for n, c in zip(target, copied, strict=True) if not c and n != -1)
        total = math.prod(n for i, n in enumerate(data.shape) if not (i < len(copied) and copied[i]))
        # Beside a 0 that is meant, -1 could be anything; the reference takes 1.
        target[target.index(-1)] = total // rest if rest else 1
    if math.prod(target) != data.size:
        raise InputError(f"data of shape {list(data.shape)} does not fit the shape {pattern}")
    return data.reshape(target)


@op("Squeeze", since=1, folding="linear")
def squeeze_1(data: Array, axes: Array | None = None) -> Array:
    """`data` without the dimensions of size 1, or those of them that `axes` names.

    data: any type and shape; axes: integer, scalar or [n]; an empty list is as good as none.
    Returns the type of data, a view.
    Raises InputError where an axis is out of range. An axis whose size is not 1 is left as it is, as since
    OpenVINO 2024.3.
    Spec: Squeeze-1.
    """
    chosen = set(range(data.ndim))
    if axes is not None and axes.size:
        # A scalar has an axis 0 that is squeezed already, as in the reference.
        chosen = {normalize_axis(a, max(1, data.ndim), "axes") for a in to_int_list(axes)}
    return data.reshape([n for i, n in enumerate(data.shape) if n != 1 or i not in chosen])


@op("Squeeze", since=15, folding="linear")
def squeeze_15(data: Array, axes: Array | None = None, *, allow_axis_skip: bool = False) -> Array:
    """`data` without the dimensions of size 1, or those of them that `axes` names.

    data: any type and shape; axes: integer, scalar or [n]; an empty list is as good as none.
    `allow_axis_skip` concerns the inference of dynamic ranks alone: an axis whose size is not 1 is left as
    it is, with it and without.
    Returns the type of data, a view.
    Raises InputError where an axis is out of range.
    Spec: Squeeze-15.
    """
    return squeeze_1(data, axes)


@op("Unsqueeze", since=1, folding="linear")
def unsqueeze_1(data: Array, axes: Array) -> Array:
    """`data` with dimensions of size 1 put in at `axes` of the result.

    data: any type and shape; axes: integer, scalar or [n]; negative ones count from the end of the
    result, an axis named twice counts once.
    Returns the type of data, a view.
    Raises InputError where an axis is out of range.
    Spec: Unsqueeze-1.
    """
    values = set(to_int_list(axes))
    places = {normalize_axis(a, data.ndim + len(values), "axes") for a in values}
    rank = data.ndim + len(places)
    if max(places, default=0) >= max(rank, 1):  # where two axes were one, counted from the front and the end
        raise InputError(f"axes {sorted(values)} leave a gap after the {data.ndim} dimensions of data")
    sizes = iter(data.shape)
    return data.reshape([1 if i in places else next(sizes) for i in range(rank)])
