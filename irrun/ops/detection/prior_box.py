"""PriorBox and PriorBoxClustered: boxes of fixed sizes around the cells of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.boxes import count_prior_boxes
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["prior_box_1", "prior_box_clustered_1"]

F32 = np.float32


@op("PriorBox", since=1, kind="generation", shape="infer_prior_boxes", shaped_by=(0, 1), output_types=("f32",))
@op("PriorBox", since=8, kind="generation", shape="infer_prior_boxes", shaped_by=(0, 1), output_types=("f32",))
def prior_box_1(
    output_size: Array,
    image_size: Array,
    *,
    offset: float,
    min_size: list[float] = [],
    max_size: list[float] = [],
    aspect_ratio: list[float] = [],
    density: list[float] = [],
    fixed_ratio: list[float] = [],
    fixed_size: list[float] = [],
    clip: bool = False,
    flip: bool = False,
    step: float = 0.0,
    variance: list[float] = [],
    scale_all_sizes: bool = True,
    min_max_aspect_ratios_order: bool = True,
) -> Array:
    """Generate prior boxes of all sizes and aspect ratios around the center of each grid cell.

    The number of priors follows the formula of the reference implementation. If the lists produce another number (as
    with `max_size` if `scale_all_sizes` is false), the boxes are truncated or followed by zeros, as in the reference
    implementation.

    Args:
        output_size: Integer, shape [2]: height and width of the grid.
        image_size: Integer, shape [2]: height and width of the image.
        offset: Position of a center in its cell, if `step` is not 0.
        min_size: Sizes of square boxes.
        max_size: Sizes of additional square boxes, which have the geometric mean of `min_size` and this size.
        aspect_ratio: Ratios of width to height of boxes that have the area of the square boxes.
        density: Number of boxes along each axis of a cell, for each of `fixed_size`.
        fixed_ratio: Ratios of width to height for `fixed_size`, instead of `aspect_ratio`.
        fixed_size: Sizes of boxes that are placed `density` times and clipped to the image.
        clip: Whether boxes are clipped to [0, 1].
        flip: Whether the inverses of `aspect_ratio` are also used.
        step: Distance between centers; 0 divides the image evenly. If `scale_all_sizes` is false, it is relative to the
            height of the image, and -1 divides the height evenly.
        variance: Zero, one or four values; 0.1 by default.
        scale_all_sizes: Whether all sizes are combined with the aspect ratios. Otherwise, as in MXNet, only one size is
            combined with them, and `min_size` is relative to the height of the image.
        min_max_aspect_ratios_order: Whether boxes of `max_size` come before boxes of `aspect_ratio`.

    Returns:
        Shape [2, height * width * priors * 4], f32: the corners relative to the size of the image, and the variances.

    Raises:
        InputError: A shape, `variance` or `density` is invalid, or an aspect ratio is not positive.

    Spec:
        PriorBox-1, PriorBox-8
    """
    height, width = _read_size(output_size, "output_size")
    image_height, image_width = _read_size(image_size, "image_size")
    if fixed_size and len(density) < len(fixed_size):
        raise InputError(f"density has {len(density)} values, expected one for each of {len(fixed_size)} fixed sizes")

    per_cell = count_prior_boxes(
        aspect_ratio=aspect_ratio,
        min_size=min_size,
        max_size=max_size,
        fixed_size=fixed_size,
        fixed_ratio=fixed_ratio,
        density=density,
        flip=flip,
        scale_all_sizes=scale_all_sizes,
    )
    check_allocation((2, 4, height, width, max(per_cell, 1)), np.dtype(F32))
    sizes, distance = np.array(min_size, F32), F32(step)
    if not scale_all_sizes:  # as in MXNet, relative to the height of the image
        sizes = sizes * F32(image_height)
        distance = F32(image_height) / F32(height) if distance == -1 else distance * F32(image_height)
    if distance == 0:
        xs = (np.arange(width, dtype=F32) + F32(0.5)) * (F32(image_width) / F32(width))
        ys = (np.arange(height, dtype=F32) + F32(0.5)) * (F32(image_height) / F32(height))
    else:
        xs = (F32(offset) + np.arange(width, dtype=F32)) * distance
        ys = (F32(offset) + np.arange(height, dtype=F32)) * distance

    ratios = _get_unique_ratios(aspect_ratio, flip)
    dense = _generate_dense_boxes(fixed_size, fixed_ratio, density, ratios)
    half_sides = _generate_half_sides(sizes, max_size, ratios, scale_all_sizes, min_max_aspect_ratios_order)
    scale = F32(1) / np.array([image_width, image_height], F32)
    centers = np.stack(np.broadcast_arrays(xs[None, :], ys[:, None]), axis=-1)[:, :, None, :]

    # The translation is added in three steps, so that it is rounded as in the reference implementation.
    moved = centers - dense[:, 0, None] + dense[:, 1, None] + dense[:, 2:4]
    dense_boxes = np.concatenate([moved - dense[:, 4:], moved + dense[:, 4:]], axis=-1) * np.tile(scale, 2)
    dense_boxes[..., :2] = np.maximum(dense_boxes[..., :2], 0)
    dense_boxes[..., 2:] = np.minimum(dense_boxes[..., 2:], 1)
    sized_boxes = np.concatenate([centers - half_sides, centers + half_sides], axis=-1) * np.tile(scale, 2)
    boxes = np.concatenate([dense_boxes, sized_boxes], axis=2).reshape(-1)

    result = np.zeros((2, 4 * height * width * max(per_cell, 0)), F32)
    count = min(boxes.size, result.shape[1])
    result[0, :count] = boxes[:count]
    if clip:
        np.clip(result[0], 0, 1, out=result[0])
    result[1].reshape(-1, 4)[:] = _read_variance(variance)
    return result


@op(
    "PriorBoxClustered",
    since=1,
    kind="generation",
    shape="infer_clustered_prior_boxes",
    shaped_by=(0, 1),
    output_types=("f32",),
)
def prior_box_clustered_1(
    output_size: Array,
    image_size: Array,
    *,
    offset: float,
    width: list[float] = [1.0],
    height: list[float] = [1.0],
    clip: bool = True,
    step: float = 0.0,
    step_w: float = 0.0,
    step_h: float = 0.0,
    variance: list[float] = [],
) -> Array:
    """Generate prior boxes of fixed widths and heights around the center of each grid cell.

    Args:
        output_size: Integer, shape [2]: height and width of the grid.
        image_size: Integer, shape [2]: height and width of the image.
        offset: Position of a center in its cell.
        width: Widths of the boxes.
        height: Heights of the boxes, one for each width.
        clip: Whether boxes are clipped to [0, 1].
        step: Distance between centers along both axes, if `step_w` or `step_h` is 0.
        step_w: Horizontal distance between centers. If all distances are 0, the cells divide the image evenly.
        step_h: Vertical distance between centers.
        variance: Zero, one or four values; 0.1 by default.

    Returns:
        Shape [2, grid height * grid width * len(width) * 4], f32: the corners relative to the size of the image, and
        the variances.

    Raises:
        InputError: A shape or `variance` is invalid, or the numbers of widths and heights differ.

    Spec:
        PriorBoxClustered-1
    """
    rows, columns = _read_size(output_size, "output_size")
    image_height, image_width = _read_size(image_size, "image_size")
    if len(width) != len(height):
        raise InputError(f"found {len(width)} widths and {len(height)} heights, expected equal numbers")

    check_allocation((2, 4, rows, columns, len(width)), np.dtype(F32))
    step_x, step_y = F32(step_w or step), F32(step_h or step)
    if step_x == 0 and step_y == 0:
        step_x, step_y = F32(image_width) / F32(columns), F32(image_height) / F32(rows)
    xs = (np.arange(columns, dtype=F32) + F32(offset)) * step_x
    ys = (np.arange(rows, dtype=F32) + F32(offset)) * step_y
    centers = np.stack(np.broadcast_arrays(xs[None, :], ys[:, None]), axis=-1)[:, :, None, :]
    half_sides = np.stack([width, height], axis=-1).astype(F32) / F32(2)
    image = np.array([image_width, image_height] * 2, F32)
    boxes = np.concatenate([centers - half_sides, centers + half_sides], axis=-1) / image
    if clip:
        boxes = np.clip(boxes, 0, 1)
    result = np.empty((2, boxes.size), F32)
    result[0] = boxes.reshape(-1)
    result[1].reshape(-1, 4)[:] = _read_variance(variance)
    return result


def _read_size(values: Array, name: str) -> tuple[int, int]:
    size = to_int_list(values)
    if len(size) != 2 or min(size) < 0:
        raise InputError(f"{name} is {size}, expected a height and a width")
    return size[0], size[1]


def _read_variance(variance: Sequence[float]) -> Array:
    if len(variance) not in (0, 1, 4):
        raise InputError(f"variance has {len(variance)} values, expected 0, 1 or 4")
    return np.array(variance or [0.1], F32)


def _get_unique_ratios(aspect_ratio: Iterable[float], flip: bool) -> list[np.float32]:
    """Return the unique aspect ratios other than 1, each followed by its inverse if `flip` is true."""
    ratios = [F32(1)]
    for ratio in np.array(list(aspect_ratio), F32):
        if not any(abs(float(ratio) - float(known)) < 1e-6 for known in ratios):
            ratios.append(ratio)
            if flip:
                ratios.append(F32(1) / ratio)
    return [r for r in ratios if not abs(float(r) - 1) < 1e-6]


def _generate_dense_boxes(
    fixed_size: Sequence[float],
    fixed_ratio: Sequence[float],
    density: Sequence[float],
    ratios: Sequence[np.float32],
) -> Array:
    """Return the boxes of `fixed_size` in one cell, [n, 6].

    Columns: the amount subtracted from both coordinates of the center, the amount added to both, the amounts added to x
        and y, half of the width, half of the height.
    """
    parts: list[Array] = []
    for size, size_density in zip(np.array(fixed_size, F32), density, strict=False):  # additional densities are ignored
        per_side = int(size_density)
        if per_side <= 0:
            raise InputError(f"density is {size_density}, expected at least 1")
        whole = int(size)
        distance = int(size / F32(per_side))
        if fixed_ratio:
            half_sides = _apply_ratios(size, np.array(fixed_ratio, F32))
        else:
            square = np.full((1, 2), F32(whole) * F32(0.5), F32)
            half_sides = np.concatenate([square, _apply_ratios(size, np.array(ratios, F32))])
        rows, columns = np.indices((per_side, per_side)).reshape(2, -1) * distance
        grid = np.empty((len(half_sides), per_side * per_side, 6), F32)
        grid[..., 0] = whole // 2
        grid[..., 1] = F32(distance) / F32(2)
        grid[..., 2] = columns
        grid[..., 3] = rows
        grid[..., 4:] = half_sides[:, None]
        parts.append(grid.reshape(-1, 6))
    return np.concatenate(parts) if parts else np.zeros((0, 6), F32)


def _generate_half_sides(
    min_size: Array,
    max_size: Sequence[float],
    ratios: Sequence[np.float32],
    scale_all_sizes: bool,
    max_size_first: bool,
) -> Array:
    """Return half of the widths and heights, [n, 2], of the boxes of `min_size` and `max_size` in one cell."""
    parts = [np.zeros((0, 2), F32)]
    max_sizes = np.array(max_size, F32)
    for i, size in enumerate(min_size):
        parts.append(np.full((1, 2), size * F32(0.5), F32))
        mean = np.zeros((0, 2), F32)
        if i < len(max_sizes):
            mean = np.full((1, 2), np.sqrt(size * max_sizes[i]) * F32(0.5), F32)
        stretched = np.zeros((0, 2), F32)
        if scale_all_sizes or i == len(min_size) - 1:
            stretched = _apply_ratios(size if scale_all_sizes else min_size[0], np.array(ratios, F32))
        parts += [mean, stretched] if max_size_first else [stretched, mean]
    return np.concatenate(parts)


def _apply_ratios(size: np.float32, ratios: Array) -> Array:
    """Return half of the widths and heights of boxes with the area of a square of `size`, one per aspect ratio."""
    root = np.sqrt(ratios)
    return np.stack([size * F32(0.5) * root, size * F32(0.5) / root], axis=-1)
