"""Shapes of operations that generate values, or return a number of results that depends on values."""

from __future__ import annotations

import math

from irrun.ops._support.numerics import is_float
from irrun.ops.shape_rules.axes import check_axis, check_scalar
from irrun.ops.shape_rules.dimensions import count_elements, get_bounds, make_dimension, make_static, make_unknown
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_one_hot(inputs: Inputs) -> Shapes:
    """Return the indices with a new dimension of the depth."""
    check_scalar(inputs, 1, 2, 3)
    depth, indices = inputs.get_sizes(1), inputs.require_shape(0)
    size = depth[0] if depth is not None and len(depth) == 1 else UNBOUNDED
    axis = check_axis(inputs["axis"], len(indices) + 1)
    return [PartialShape([*indices[:axis], size, *indices[axis:]])]


@rule
def infer_non_zero(inputs: Inputs) -> Shapes:
    """Return [rank, number of elements]."""
    data = inputs.get_shape(0)
    if data is None:
        return [make_unknown(2)]
    high = get_bounds(count_elements(data))[1]
    return [PartialShape([len(data), make_dimension(0, high)])]


@rule
def infer_unique(inputs: Inputs) -> Shapes:
    """Return the unique elements or slices, and their positions, with numbers that depend on the values."""
    data, axis = inputs.get_shape(0), inputs.get_integer(1)
    if not inputs.has(1):
        if data is None:
            return [make_unknown(1)] * 4
        total = count_elements(data)
        count = PartialShape([make_dimension(min(total, 1), total) if isinstance(total, int) else UNBOUNDED])
        indices = PartialShape([total if isinstance(total, int) else UNBOUNDED])
        return [count, count, indices, count]
    if data is None or axis is None:
        return [make_unknown(None if data is None else len(data)), *[make_unknown(1)] * 3]
    axis = check_axis(axis, len(data))
    size, total = data[axis], count_elements(data)
    low, high = get_bounds(size)
    selected = UNBOUNDED if high is None else make_dimension(min(low, 1), high)
    positions = PartialShape([make_dimension(min(total, 1), total) if isinstance(total, int) else UNBOUNDED])
    return [PartialShape([*data[:axis], selected, *data[axis + 1 :]]), positions, PartialShape([size]), positions]


@rule
def infer_range(inputs: Inputs) -> Shapes:
    """Return [number of elements]."""
    check_scalar(inputs, 0, 1, 2)
    values = [inputs.get_array(i) for i in range(3)]
    numbers = [float(value.reshape(-1)[0]) for value in values if value is not None and value.dtype.kind in "biuf"]
    if len(numbers) < 3:
        return [make_unknown(1)]
    start, stop, step = numbers
    if step == 0 or not all(map(math.isfinite, numbers)):
        raise ShapeError(
            f"start is {start}, stop is {stop} and step is {step}, expected numbers and a step other than 0"
        )
    output_type = inputs.attributes.get("output_type")
    if output_type is not None and not is_float(output_type.dtype):
        start, stop, step = map(math.trunc, numbers)
    count = max(0, math.ceil((stop - start) / step)) if step else 0
    return [PartialShape([make_static(count)])]


@rule
def infer_random(inputs: Inputs) -> Shapes:
    """Return the shape that the first input contains."""
    check_scalar(inputs, 1, 2)
    sizes = inputs.get_sizes(0)
    if sizes is None:
        return [make_unknown(inputs.count(0))]
    return [PartialShape(sizes)]


@rule
def infer_eye(inputs: Inputs) -> Shapes:
    """Return [batch..., rows, columns]."""
    check_scalar(inputs, 0, 1, 2)
    rows, columns = (inputs.get_sizes(i) for i in (0, 1))
    sizes = [UNBOUNDED if n is None or len(n) != 1 else n[0] for n in (rows, columns)]
    if not inputs.has(3):
        return [PartialShape(sizes)]
    batch, count = inputs.get_sizes(3), inputs.count(3)
    if batch is None:
        if count is None:
            return [None]
        batch = [UNBOUNDED] * count
    return [PartialShape([*batch, *sizes])]


@rule
def infer_multinomial(inputs: Inputs) -> Shapes:
    """Return [batch, number of samples]."""
    check_scalar(inputs, 1)
    samples, probabilities = inputs.get_sizes(1), inputs.require_shape(0)
    count = samples[0] if samples is not None and len(samples) == 1 else UNBOUNDED
    return [PartialShape([probabilities[0], count] if len(probabilities) == 2 else [count])]
