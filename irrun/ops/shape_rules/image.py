"""Rules for images: interpolation, sampling and color spaces."""

from __future__ import annotations

from irrun.ops.shape_rules.axes import (
    check_rank,
    check_size,
    divide,
    get_dimension,
    match_sizes,
    normalize_axes,
)
from irrun.ops.shape_rules.dimensions import (
    Dimension,
    divide_down,
    get_bounds,
    make_dimension,
    make_static,
    make_unknown,
    multiply,
    shift,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_interpolation(inputs: Inputs) -> Shapes:
    """Return the data with other sizes along the axes."""
    data, since = inputs.require_shape(0), inputs.operation.since
    position = 1
    if since == 1:
        axes: list[int] | None = inputs["axes"]
        mode = "sizes"
    else:
        mode = inputs["shape_calculation_mode"]
        axes_position = 3 if since == 4 else 2
        axes = inputs.get_integers(axes_position) if inputs.has(axes_position) else list(range(len(data)))
        position = 2 if since == 4 and mode == "scales" else 1
    if axes is None:
        return [make_unknown(len(data))]
    axes = normalize_axes(axes, len(data))
    result: list[Dimension] = list(data)
    if since > 1:  # Interpolate-1 pads only the axes whose sizes are given
        begin, end = (_pad_list(inputs[name], len(data)) for name in ("pads_begin", "pads_end"))
        result = [shift(size, b + e) for size, b, e in zip(data, begin, end, strict=True)]
    if mode == "scales":
        scales = inputs.get_array(position)
        if scales is not None and scales.size < len(axes):
            raise ShapeError(f"{inputs.get_name(position)} has {scales.size} elements, expected one for each of {axes}")
        for i, axis in enumerate(axes):
            result[axis] = UNBOUNDED if scales is None else _scale(result[axis], float(scales.reshape(-1)[i]))
        return [PartialShape(result)]
    sizes = inputs.get_sizes(position)
    if sizes is not None and len(sizes) < len(axes):
        raise ShapeError(f"{inputs.get_name(position)} has {len(sizes)} elements, expected one for each of {axes}")
    for i, axis in enumerate(axes):
        result[axis] = UNBOUNDED if sizes is None else sizes[i]
    return [PartialShape(result)]


def _pad_list(pads: list[int], rank: int) -> list[int]:
    return (list(pads) + [0] * rank)[:rank]


def _scale(size: Dimension, factor: float) -> Dimension:
    """Return a dimension times a factor, as the kernel of Interpolate rounds it."""
    low, high = get_bounds(size)
    if factor == 1:
        return size
    factor += 1e-6
    return make_dimension(int(low * factor), None if high is None else int(high * factor))


@rule
def infer_grid_sample(inputs: Inputs) -> Shapes:
    """Return [N, C, rows and columns of the grid]."""
    data, grid = inputs.get_shape(0), inputs.get_shape(1)
    check_rank(inputs, 0, 4)
    check_rank(inputs, 1, 4)
    batch = get_dimension(data, 0) or UNBOUNDED
    if grid is not None:
        batch = match_sizes(batch, grid[0], f"data {data} and grid {grid} have different batch sizes")
        match_sizes(grid[3], make_static(2), f"grid has the shape {grid}, expected 2 coordinates in the last dimension")
    sizes = grid[1:3] if grid is not None else (UNBOUNDED, UNBOUNDED)
    return [PartialShape([batch, get_dimension(data, 1) or UNBOUNDED, *sizes])]


@rule
def infer_color_conversion(inputs: Inputs) -> Shapes:
    """Return [N, H, W, 3]."""
    check_rank(inputs, 0, 4)
    data = inputs.get_shape(0)
    if data is None:
        return [PartialShape([UNBOUNDED, UNBOUNDED, UNBOUNDED, 3])]
    check_size(inputs, 0, 3, 1)
    if len(inputs) == 1:
        message = f"{inputs.get_name(0)} has the shape {data}, expected a multiple of 3 rows, found {data[1]}"
        rows = divide(multiply(data[1], 2), 3, message)
        return [PartialShape([data[0], rows, data[2], 3])]
    sizes: list[Dimension] = list(data[1:3])
    for position in range(1, len(inputs)):
        check_size(inputs, position, 3, 2 if len(inputs) == 2 else 1)
        plane = inputs.get_shape(position)
        for i, half in enumerate(plane[1:3] if plane is not None else ()):
            message = f"{inputs.get_name(position)} has the shape {plane}, expected half the size of {data}"
            sizes[i] = match_sizes(sizes[i], multiply(half, 2), message)
    return [PartialShape([data[0], *sizes, 3])]


@rule
def infer_color_subsampling(inputs: Inputs) -> Shapes:
    """Return [N, H * 3 / 2, W, 1], or [N, H, W, 1] and [N, H / 2, W / 2, 2]."""
    data = inputs.get_shape(0) or make_unknown(4)
    assert data is not None
    if inputs["single_plane"]:
        return [PartialShape([data[0], divide_down(multiply(data[1], 3), 2), data[2], 1])]
    halves = (divide_down(data[1], 2), divide_down(data[2], 2))
    return [PartialShape([*data[:3], 1]), PartialShape([data[0], *halves, 2])]
