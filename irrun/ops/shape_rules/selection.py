"""Shapes of operations that gather, scatter, repeat, sort and reduce elements."""

from __future__ import annotations

from irrun.ops.shape_rules.axes import check_axis, check_scalar, get_dimension, match_sizes, normalize_axes
from irrun.ops.shape_rules.dimensions import (
    ONE,
    Dimension,
    broadcast,
    broadcast_shapes,
    count_elements,
    get_bounds,
    is_one,
    make_dimension,
    make_static,
    make_unknown,
    may_equal,
    merge,
    merge_shapes,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_reduction(inputs: Inputs) -> Shapes:
    """Return the shape without the axes that the second input contains, or with 1 for them."""
    data, axes = inputs.require_shape(0), inputs.get_integers(1)
    if axes is None:
        if inputs["keep_dims"]:
            return [make_unknown(len(data))]
        return [make_unknown(len(data) - 1) if inputs.count(1) == 1 and len(data) else None]
    reduced = set(normalize_axes(axes, max(len(data), 1)))
    if inputs["keep_dims"]:
        return [PartialShape(ONE if axis in reduced else size for axis, size in enumerate(data))]
    return [PartialShape(size for axis, size in enumerate(data) if axis not in reduced)]


@rule
def infer_gather(inputs: Inputs) -> Shapes:
    """Return the shape of the data, with the shape of the indices instead of the axis."""
    data, axis = inputs.require_shape(0), inputs.get_integer(2)
    if axis is not None:
        axis = check_axis(axis, len(data))
    indices, batch = inputs.require_shape(1), inputs.attributes.get("batch_dims", 0)
    if batch < 0:
        batch += len(indices)
    if batch > len(indices) or batch < 0:
        raise ShapeError(f"batch_dims is {inputs['batch_dims']}, indices have the shape {indices}")
    if axis is None:
        result = make_unknown(len(data) + len(indices) - 1 - batch)
        assert result is not None
        common = [merge(a, b) for a, b in zip(data[:batch], indices[:batch], strict=False)]
        return [PartialShape([*(UNBOUNDED if n is None else n for n in common), *result[len(common) :]])]
    if batch > axis:
        raise ShapeError(f"batch_dims is {batch}, expected at most the axis {axis}")
    return [PartialShape([*_match_batch(data, indices, batch), *data[batch:axis], *indices[batch:], *data[axis + 1 :]])]


def _match_batch(data: PartialShape, indices: PartialShape, count: int) -> list[Dimension]:
    """Return the first dimensions, which data and indices have in common."""
    return [
        match_sizes(
            data[i], indices[i], f"dimension {i} is {data[i]} in data {data}, but {indices[i]} in indices {indices}"
        )
        for i in range(count)
    ]


@rule
def infer_gather_elements(inputs: Inputs) -> Shapes:
    """Return the shape of the indices: the shape of the data, except for the axis."""
    data, indices = inputs.get_shape(0), inputs.get_shape(1)
    if data is None or indices is None:
        known = data if indices is None else indices
        if known is None:
            return [None]
        axis = check_axis(inputs["axis"], len(known))
        if indices is None:
            return [PartialShape(UNBOUNDED if i == axis else size for i, size in enumerate(known))]
        return [indices]
    if len(data) != len(indices):
        raise ShapeError(f"indices have the shape {indices}, expected the rank of data {data}")
    axis = check_axis(inputs["axis"], len(data))
    result = [
        index
        if i == axis
        else match_sizes(size, index, f"dimension {i} is {index} in indices {indices}, but {size} in data {data}")
        for i, (size, index) in enumerate(zip(data, indices, strict=True))
    ]
    return [PartialShape(result)]


@rule
def infer_gather_nd(inputs: Inputs) -> Shapes:
    """Return the shape of the indices, with slices of the data instead of the last dimension."""
    data, indices, batch = inputs.require_shape(0), inputs.require_shape(1), inputs["batch_dims"]
    if batch >= len(indices) or batch > len(data):
        raise ShapeError(f"batch_dims is {batch}, expected less than the ranks of data {data} and indices {indices}")
    common = []
    for i in range(batch):
        size = broadcast(data[i], indices[i])
        if size is None:
            raise ShapeError(f"dimension {i} is {data[i]} in data {data}, but {indices[i]} in indices {indices}")
        common.append(size)
    depth = indices[-1]
    if not isinstance(depth, int):
        return [None]
    if batch + depth > len(data):
        raise ShapeError(f"indices {indices} select along {depth} axes, data {data} has {len(data) - batch}")
    if inputs.operation.since == 5 and batch > 1:
        common = [count_elements(common)]
    return [PartialShape([*common, *indices[batch:-1], *data[batch + depth :]])]


@rule
def infer_scatter_of_elements(inputs: Inputs) -> Shapes:
    """Return the shape of the data."""
    data, indices, updates = (inputs.get_shape(i) for i in range(3))
    _check_scatter_axis(inputs)
    try:
        merge_shapes(indices, updates)
    except ValueError:
        raise ShapeError(f"updates have the shape {updates}, expected the shape {indices} of indices") from None
    if data is not None and indices is not None and len(data) != len(indices):
        raise ShapeError(f"indices have the shape {indices}, expected the rank of data {data}")
    return [data]


@rule
def infer_scatter_of_slices(inputs: Inputs) -> Shapes:
    """Return the shape of the data."""
    data = inputs.get_shape(0)
    _check_updates(inputs, data)
    return [data]


@rule
def infer_scatter(inputs: Inputs) -> Shapes:
    """Return the shape of the data."""
    check_scalar(inputs, 3)
    _check_scatter_axis(inputs)
    return [inputs.get_shape(0)]


def _check_scatter_axis(inputs: Inputs) -> None:
    data, axis = inputs.get_shape(0), inputs.get_integer(3)
    if data is not None and axis is not None:
        check_axis(axis, len(data))


def _check_updates(inputs: Inputs, data: PartialShape | None) -> None:
    """Check that updates have the shape of the slices that the indices select."""
    indices, updates = inputs.get_shape(1), inputs.get_shape(2)
    depth = get_dimension(indices, -1)
    if data is None or indices is None or updates is None or not isinstance(depth, int) or not updates:
        return
    if depth > len(data):
        raise ShapeError(f"indices {indices} select along {depth} axes, data {data} has {len(data)}")
    expected = PartialShape([*indices[:-1], *data[depth:]])
    if not expected and len(updates) == 1:
        expected = PartialShape([1])  # a single update
    try:
        merge_shapes(updates, expected)
    except ValueError:
        raise ShapeError(f"updates have the shape {updates}, expected {expected}") from None


@rule
def infer_broadcast(inputs: Inputs) -> Shapes:
    """Return the shape that the second input contains."""
    data, target = inputs.get_shape(0), inputs.get_sizes(1)
    mode = "explicit" if inputs["mode"] == "none" else inputs["mode"]
    if target is None:
        rank = inputs.count(1)
        if mode == "bidirectional":
            return [broadcast_shapes(data, make_unknown(rank)) if rank is not None and data is not None else None]
        return [make_unknown(rank)]
    shape = PartialShape(target)
    if mode == "bidirectional":
        try:
            return [broadcast_shapes(data, shape)]
        except ValueError:
            raise ShapeError(f"data of the shape {data} and the target shape {shape} cannot be broadcast") from None
    if mode == "explicit":
        _check_mapping(inputs, data, shape)
    elif mode == "pdpd":
        return [_broadcast_from(inputs, data, shape)]
    elif data is not None:
        if len(data) > len(shape):
            raise ShapeError(f"data of the shape {data} cannot be broadcast to {shape}, which has fewer dimensions")
        for size, wanted in zip(reversed(data), reversed(shape), strict=False):
            if isinstance(size, int) and isinstance(wanted, int) and size not in (1, wanted):
                raise ShapeError(
                    f"data of the shape {data} cannot be broadcast to {shape}: {size} differs from {wanted}"
                )
    return [shape]


def _check_mapping(inputs: Inputs, data: PartialShape | None, target: PartialShape) -> None:
    """Check the axes of the result that the dimensions of the data are mapped to."""
    axes = inputs.get_integers(2)
    if data is None or axes is None:
        return
    if len(axes) != len(data) and not (len(data) == 0 and len(axes) == 1):
        raise ShapeError(f"axes_mapping has {len(axes)} elements, data of the shape {data} expects {len(data)}")
    for size, axis in zip(data, axes, strict=False):
        wanted = target[check_axis(axis, len(target), "axes_mapping")]
        if not may_equal(size, ONE) and not may_equal(size, wanted):
            raise ShapeError(f"data of the shape {data} cannot be broadcast to {target}: {size} differs from {wanted}")


def _broadcast_from(inputs: Inputs, data: PartialShape | None, target: PartialShape) -> PartialShape | None:
    """Return the shape of data that is broadcast to consecutive dimensions of the target."""
    if data is None:
        return make_unknown(len(target))
    axis = inputs["axis"]
    start = len(target) - len(data) if axis == -1 else axis
    result: list[Dimension] = list(target)
    for position, size in enumerate(data, start):
        if not 0 <= position < len(target):
            if is_one(size):
                continue
            raise ShapeError(f"data of the shape {data} cannot be broadcast to {target} at axis {axis}")
        merged = broadcast(size, target[position])
        if merged is None:
            raise ShapeError(f"data of the shape {data} cannot be broadcast to {target} at axis {axis}")
        result[position] = merged
    return PartialShape(result)


@rule
def infer_top_k(inputs: Inputs) -> Shapes:
    """Return the data with k elements along the axis, twice."""
    check_scalar(inputs, 1)
    k, data = inputs.get_sizes(1), inputs.require_shape(0)
    axis = check_axis(inputs["axis"], len(data))
    size = data[axis]
    low, high = get_bounds(size)
    if k is None or len(k) != 1:
        count = make_dimension(0, high)
    elif isinstance(k[0], int):
        least = int(k[0])
        if high is not None and least > high:
            raise ShapeError(f"k is {least}, but data {data} has {size} elements on axis {axis}")
        count = k[0]
    else:
        least, bound = get_bounds(k[0])
        count = make_dimension(min(least, low), high if bound is None else bound if high is None else min(bound, high))
    return [PartialShape([*data[:axis], count, *data[axis + 1 :]])] * 2


@rule
def infer_segment_max(inputs: Inputs) -> Shapes:
    """Return one slice for each segment."""
    data = inputs.get_shape(0)
    segments = inputs.get_integers(1)
    count: Dimension = UNBOUNDED
    number = inputs.get_sizes(2)
    if number is not None and len(number) == 1:
        count = number[0]
    elif not inputs.has(2) and segments is not None:
        count = make_static(segments[-1] + 1 if segments else 0)
    return [None if data is None else PartialShape([count, *data[1:]])]


@rule
def infer_search_sorted(inputs: Inputs) -> Shapes:
    """Return the shape of the values."""
    sequence, values = inputs.get_shape(0), inputs.get_shape(1)
    if sequence is None or values is None or len(sequence) == 1:
        return [values]
    if len(sequence) != len(values):
        raise ShapeError(
            f"sorted_sequence has the shape {sequence}, values have the shape {values}, expected equal ranks"
        )
    message = f"sorted_sequence has the shape {sequence}, values have the shape {values}"
    common = [match_sizes(a, b, message) for a, b in zip(sequence[:-1], values[:-1], strict=True)]
    return [PartialShape([*common, values[-1]])]


@rule
def infer_reverse_sequence(inputs: Inputs) -> Shapes:
    """Return the shape of the data."""
    data, lengths = inputs.require_shape(0), inputs.get_shape(1)
    axis = check_axis(inputs["batch_axis"], len(data), "batch_axis")
    check_axis(inputs["seq_axis"], len(data), "seq_axis")
    if not lengths:
        return [data]
    size = match_sizes(
        data[axis], lengths[0], f"seq_lengths has {lengths[0]} elements, data {data} expects {data[axis]}"
    )
    return [PartialShape([*data[:axis], size, *data[axis + 1 :]])]


@rule
def infer_gather_tree(inputs: Inputs) -> Shapes:
    """Return the shape of the step ids."""
    steps, parents, lengths = (inputs.get_shape(i) for i in range(3))
    try:
        result = merge_shapes(steps, parents)
    except ValueError:
        raise ShapeError(f"{inputs.get_name(1)} has the shape {parents}, expected {steps}") from None
    if result is not None and len(result) == 3 and lengths is not None and len(lengths) == 1:
        message = f"max_seq_len has {lengths[0]} elements, step_ids {result} expect {result[1]}"
        result = PartialShape([result[0], match_sizes(lengths[0], result[1], message), result[2]])
    return [result]
