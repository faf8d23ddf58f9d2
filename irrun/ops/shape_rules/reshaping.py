"""Shapes of the results of operations that change the shape of data and keep its elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irrun.ops.shape_rules.axes import check_axis, check_rank, check_scalar, divide, match_sizes, normalize_axes
from irrun.ops.shape_rules.dimensions import (
    ONE,
    Dimension,
    add,
    count_elements,
    divide_down,
    divide_exactly,
    get_bounds,
    is_one,
    make_dimension,
    make_static,
    make_unknown,
    may_equal,
    merge,
    multiply,
    shift,
    subtract,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_shape_of(inputs: Inputs) -> Shapes:
    """Return [rank]."""
    rank = inputs.get_rank(0)
    return [PartialShape([UNBOUNDED if rank is None else rank])]


@rule
def infer_reshape(inputs: Inputs) -> Shapes:
    """Return the shape in the second input; 0 and -1 mean sizes that follow from the data."""
    data, pattern = inputs.get_shape(0), inputs.get_intervals(1)
    if pattern is None:
        return [make_unknown(inputs.count(1) if inputs.get_rank(1) == 1 else None)]
    if inputs.get_rank(1) == 0:
        pattern = []
    is_minus_one = [interval == (-1, -1) for interval in pattern]
    shown = f"[{','.join(str(int(a)) if a == b else '?' for a, b in pattern)}]"
    if sum(is_minus_one) > 1:
        raise ShapeError(f"shape is {shown}, expected at most one -1")
    result: list[Dimension] = []
    read, written, fixed_axes = list(data or ()), [], []
    for axis, (low, high) in enumerate(pattern):
        if is_minus_one[axis]:
            result.append(UNBOUNDED)
        elif (low, high) == (0, 0) and inputs["special_zero"]:
            if data is not None and axis >= len(data):
                raise ShapeError(f"shape is {shown}, but data of the shape {data} has no dimension {axis} to copy")
            result.append(UNBOUNDED if data is None else data[axis])
            fixed_axes.append(axis)
        elif high < -1 or (low == high and low < 0):
            raise ShapeError(f"shape is {shown}, expected no size below -1")
        else:
            size = make_dimension(int(low), None if high == float("inf") else int(high)) if low >= 0 else UNBOUNDED
            result.append(size)
            written.append(size)
    read = [size for axis, size in enumerate(read) if axis not in fixed_axes]
    has_copies = bool(fixed_axes) and data is None
    if True in is_minus_one:
        position = is_minus_one.index(True)
        if data is not None:
            result[position] = _find_remaining(read, written, data, shown)
        elif not has_copies:
            result[position] = make_dimension(1, None)
    elif data is not None:
        _check_count(read, written, data, shown)
    return [PartialShape(result)]


def _find_remaining(
    read: Sequence[Dimension], written: Sequence[Dimension], data: PartialShape, pattern: str
) -> Dimension:
    """Return the size of the dimension -1, given the sizes of the data and the other sizes of the result."""
    read, written = list(read), list(written)
    for size in list(read):
        if isinstance(size, int) and size and size in [n for n in written if isinstance(n, int)]:
            read.remove(size)
            written.remove(size)
    total, others = count_elements(read), count_elements(written)
    if isinstance(total, int) and isinstance(others, int):
        if others == 0:
            if total:
                raise ShapeError(f"shape is {pattern}, but -1 is undefined for data of the shape {data}")
            return make_static(0)
        if total % others:
            raise ShapeError(
                f"shape is {pattern}, but the {total} elements of data {data} cannot be divided into parts of {others}"
            )
    if isinstance(others, int):
        divided = divide_exactly(total, others) if others else UNBOUNDED
        if divided is None:
            raise ShapeError(f"shape is {pattern}, which does not fit data of the shape {data}")
        return divided
    (low, high), (other_low, other_high) = get_bounds(total), get_bounds(others)
    largest = high // other_low if high is not None and other_low else None
    smallest = -(-low // other_high) if other_high else (0 if low == 0 else int(other_high is None))
    return make_dimension(smallest, largest)


def _check_count(read: Sequence[Dimension], written: Sequence[Dimension], data: PartialShape, pattern: str) -> None:
    total, others = count_elements(read), count_elements(written)
    if isinstance(total, int) and isinstance(others, int) and total != others:
        raise ShapeError(
            f"data of the shape {data} cannot be reshaped to {pattern}, found {total} elements, not {others}"
        )


@rule
def infer_squeeze(inputs: Inputs) -> Shapes:
    """Return the shape without dimensions of 1."""
    data, axes = inputs.require_shape(0), inputs.get_integers(1)
    if axes:
        removed = set(normalize_axes(axes, max(len(data), 1)))
        removed &= set(range(len(data)))
        may_skip = bool(inputs.attributes.get("allow_axis_skip", False))
        removed = {axis for axis in removed if may_equal(data[axis], ONE)}  # others are kept
        if may_skip and not all(isinstance(data[axis], int) for axis in removed):
            return [None]
        return [PartialShape(size for axis, size in enumerate(data) if axis not in removed)]
    if inputs.has(1) and axes is None:
        count = inputs.count(1)
        return [make_unknown(len(data) - count) if count and count <= len(data) else None]
    if all(isinstance(size, int) for size in data):
        return [PartialShape(size for size in data if not is_one(size))]
    return [None]


@rule
def infer_unsqueeze(inputs: Inputs) -> Shapes:
    """Return the shape with dimensions of 1 at the axes that the second input contains."""
    data, axes = inputs.require_shape(0), inputs.get_integers(1)
    if axes is None:
        added = inputs.count(1)
        return [None if added is None else make_unknown(len(data) + added)]
    count = len(dict.fromkeys(axes))
    rank = len(data) + count
    result: list[Dimension] = list(data)
    for axis in sorted(set(normalize_axes(axes, rank))):
        result.insert(axis, ONE)
    return [PartialShape(result)]


@rule
def infer_transpose(inputs: Inputs) -> Shapes:
    """Return the dimensions in the order that the second input contains."""
    data, order = inputs.get_shape(0), inputs.get_integers(1)
    if order is None:
        return [make_unknown(len(data) if data is not None else inputs.count(1) or None)]
    if data is None:
        return [make_unknown(len(order) or None)]  # no axes reverse the order of all
    order = order or list(reversed(range(len(data))))
    if sorted(order) != list(range(len(data))):
        raise ShapeError(f"input_order is {order}, expected a permutation of the {len(data)} axes of arg {data}")
    return [PartialShape(data[axis] for axis in order)]


@rule
def infer_concat(inputs: Inputs) -> Shapes:
    """Return the shape of the inputs, with the sum of their sizes on the axis."""
    shapes = inputs.get_shapes()
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return [None]
    rank = len(known[0])
    axis = check_axis(inputs["axis"], rank) if rank else 0
    result: list[Dimension] = [UNBOUNDED] * rank
    total: Dimension = make_static(0)
    first = known[0]
    for position, shape in enumerate(shapes):
        if shape is None:
            total = add(total, UNBOUNDED)
            continue
        others = [merge(a, b) for i, (a, b) in enumerate(zip(result, shape, strict=False)) if i != axis]
        if len(shape) != rank or None in others:
            raise ShapeError(f"input {position} has the shape {shape}, expected {first} except for axis {axis}")
        kept = [size for size in others if size is not None]
        result = [*kept[:axis], UNBOUNDED, *kept[axis:]] if rank else []
        total = add(total, shape[axis]) if rank else total
    if rank:
        result[axis] = total
    return [PartialShape(result)]


@rule
def infer_split(inputs: Inputs) -> Shapes:
    """Return equal parts of the data along an axis."""
    check_scalar(inputs, 1)
    data, axis, count = inputs.get_shape(0), inputs.get_integer(1), inputs["num_splits"]
    if data is None or axis is None:
        return [make_unknown(None if data is None else len(data))] * count
    axis = check_axis(axis, len(data))
    size = data[axis]
    if isinstance(size, int) and size % count:
        raise ShapeError(f"dimension {axis} of data {data} cannot be divided into {count} equal parts")
    return [PartialShape([*data[:axis], divide_down(size, count), *data[axis + 1 :]])] * count


@rule
def infer_variadic_split(inputs: Inputs) -> Shapes:
    """Return parts of the data along an axis, of the lengths that the third input contains."""
    check_scalar(inputs, 1)
    data, axis, lengths = inputs.get_shape(0), inputs.get_integer(1), inputs.get_intervals(2)
    count = inputs.output_count if lengths is None else len(lengths)
    if data is None or axis is None:
        return [make_unknown(None if data is None else len(data))] * count
    axis = check_axis(axis, len(data))
    if lengths is None:
        return [PartialShape([*data[:axis], UNBOUNDED, *data[axis + 1 :]])] * count
    sizes: list[Dimension] = []
    for low, high in lengths:
        sizes.append(UNBOUNDED if low < 0 else make_dimension(int(low), None if high == float("inf") else int(high)))
    open_parts = [i for i, interval in enumerate(lengths) if interval == (-1, -1)]
    fixed = make_static(0)
    for i, part in enumerate(sizes):
        if i not in open_parts:
            fixed = add(fixed, part)
    if len(open_parts) > 1:
        raise ShapeError("split_lengths contains -1 more than once")
    size = data[axis]
    if isinstance(size, int) and isinstance(fixed, int) and (fixed > size if open_parts else fixed != size):
        raise ShapeError(f"split_lengths add up to {fixed}, but data {data} has {size} elements on axis {axis}")
    if open_parts:
        sizes[open_parts[0]] = subtract(size, fixed)
    return [PartialShape([*data[:axis], part, *data[axis + 1 :]]) for part in sizes]


@rule
def infer_depth_to_space(inputs: Inputs) -> Shapes:
    """Return [N, C / blocks, spatial * block_size...]."""
    data, block = inputs.require_shape(0), inputs["block_size"]
    check_rank(inputs, 0, 3, 4, 5, 6)
    count = block ** (len(data) - 2)
    channels = divide(data[1], count, f"data {data} has {data[1]} channels, expected a multiple of {count}")
    return [PartialShape([data[0], channels, *(multiply(size, block) for size in data[2:])])]


@rule
def infer_space_to_depth(inputs: Inputs) -> Shapes:
    """Return [N, C * blocks, spatial / block_size...]."""
    data, block = inputs.require_shape(0), inputs["block_size"]
    check_rank(inputs, 0, 3, 4, 5, 6)
    spatial = [_divide_size(data, axis, block) for axis in range(2, len(data))]
    return [PartialShape([data[0], multiply(data[1], block ** (len(data) - 2)), *spatial])]


@rule
def infer_batch_to_space(inputs: Inputs) -> Shapes:
    """Return blocks that are moved from the first dimension to the others, and cropped."""
    data = inputs.require_shape(0)
    block, begin, end = (inputs.get_integers(i) for i in (1, 2, 3))
    _check_lengths(inputs, data)
    if block is None:
        return [make_unknown(len(data))]
    count = math.prod(block)
    batch = divide(data[0], count, f"data {data} has the batch size {data[0]}, expected a multiple of {count}")
    if begin is None or end is None:
        return [PartialShape([batch, *[UNBOUNDED] * (len(data) - 1)])]
    sizes: list[Dimension] = [batch]
    for axis in range(1, len(data)):
        size = multiply(data[axis], block[axis])
        crop = begin[axis] + end[axis]
        if isinstance(size, int) and crop > size:
            raise ShapeError(f"{crop} elements cannot be cropped from {size} on axis {axis}")
        sizes.append(shift(size, -crop))
    return [PartialShape(sizes)]


@rule
def infer_space_to_batch(inputs: Inputs) -> Shapes:
    """Return padded data with blocks moved to the first dimension."""
    data = inputs.require_shape(0)
    block, begin, end = (inputs.get_integers(i) for i in (1, 2, 3))
    _check_lengths(inputs, data)
    if block is None:
        return [make_unknown(len(data))]
    batch = data[0]
    for n in block:
        batch = multiply(batch, n)
    if begin is None or end is None:
        return [PartialShape([batch, *[UNBOUNDED] * (len(data) - 1)])]
    sizes: list[Dimension] = [batch]
    for axis in range(1, len(data)):
        padded = shift(data[axis], begin[axis] + end[axis])
        message = f"data {data} is padded to {padded} on axis {axis}, expected a multiple of {block[axis]}"
        sizes.append(divide(padded, block[axis], message))
    return [PartialShape(sizes)]


def _check_lengths(inputs: Inputs, data: PartialShape) -> None:
    """Check that the other inputs have one element for each dimension of the data."""
    for position in (1, 2, 3):
        length = inputs.get_length(position)
        message = f"{inputs.get_name(position)} has {length} elements, data {data} expects {len(data)}"
        match_sizes(length, make_static(len(data)), message)


@rule
def infer_reorganization(inputs: Inputs) -> Shapes:
    """Return [N, C * stride², H / stride, W / stride]."""
    data, stride = inputs.require_shape(0), inputs["stride"][0]
    check_rank(inputs, 0, 4)
    sizes = [_divide_size(data, axis, stride) for axis in (2, 3)]
    return [PartialShape([data[0], multiply(data[1], stride * stride), *sizes])]


def _divide_size(data: PartialShape, axis: int, divisor: int) -> Dimension:
    """Return a dimension of the data divided by an integer.

    Raises:
        ShapeError: It is not a multiple.
    """
    size = data[axis]
    return divide(size, divisor, f"dimension {axis} of data {data} is {size}, expected a multiple of {divisor}")


@rule
def infer_regions(inputs: Inputs) -> Shapes:
    """Return the regions; with Softmax, the dimensions from `axis` to `end_axis` are joined."""
    data = inputs.require_shape(0)
    check_rank(inputs, 0, 4)
    if not inputs["do_softmax"]:
        regions = len(inputs["mask"]) * (inputs["classes"] + inputs["coords"] + 1)
        return [PartialShape([data[0], regions, *data[2:]])]
    axis, end = check_axis(inputs["axis"], len(data)), check_axis(inputs["end_axis"], len(data), "end_axis")
    return [PartialShape([*data[:axis], count_elements(data[axis : end + 1]), *data[end + 1 :]])]
