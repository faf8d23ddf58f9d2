"""PriorBox and PriorBoxClustered: boxes of given sizes around every cell of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["prior_box_1", "prior_box_clustered_1"]

F32 = np.float32


@op("PriorBox", since=1)
@op("PriorBox", since=8)
def prior_box_1(
    output_size: Array,
    image_size: Array,
    *,
    offset: float,
    min_size: list[float] = [],  # noqa: B006
    max_size: list[float] = [],  # noqa: B006
    aspect_ratio: list[float] = [],  # noqa: B006
    density: list[float] = [],  # noqa: B006
    fixed_ratio: list[float] = [],  # noqa: B006
    fixed_size: list[float] = [],  # noqa: B006
    clip: bool = False,
    flip: bool = False,
    step: float = 0.0,
    variance: list[float] = [],  # noqa: B006
    scale_all_sizes: bool = True,
    min_max_aspect_ratios_order: bool = True,
) -> Array:
    """Prior boxes of all sizes and aspect ratios around the centre of every grid cell, and their variances.

    output_size: integer [2], height and width of the grid; image_size: integer [2], height and width.
    Returns f32 [2, height * width * priors * 4]: corners as parts of the image, then the variances.
    Raises InputError where a shape, `variance` or `density` does not fit.
    The number of priors is the reference's formula; where the lists give another number (as `max_size`
    without `scale_all_sizes` does), the boxes are cut off or followed by zeros, as in the reference. Where step
    is 0, the cells divide the image evenly.
    Spec: PriorBox-1, PriorBox-8.
    """
    height, width = _size(output_size, "output_size")
    image_height, image_width = _size(image_size, "image_size")
    if fixed_size and len(density) < len(fixed_size):
        raise InputError(f"density has {len(density)} values for {len(fixed_size)} fixed sizes")

    per_cell = _number_of_priors(
        aspect_ratio, min_size, max_size, fixed_size, fixed_ratio, density, flip, scale_all_sizes
    )
    check_allocation((2, 4, height, width, max(per_cell, 1)), np.dtype(F32))
    sizes, pace = np.array(min_size, F32), F32(step)
    if not scale_all_sizes:  # as MXNet counts: in parts of the image's height
        sizes = sizes * F32(image_height)
        pace = F32(image_height) / F32(height) if pace == -1 else pace * F32(image_height)
    if pace == 0:
        xs = (np.arange(width, dtype=F32) + F32(0.5)) * (F32(image_width) / F32(width))
        ys = (np.arange(height, dtype=F32) + F32(0.5)) * (F32(image_height) / F32(height))
    else:
        xs = (F32(offset) + np.arange(width, dtype=F32)) * pace
        ys = (F32(offset) + np.arange(height, dtype=F32)) * pace

    ratios = _ratios(aspect_ratio, flip)
    shifted = _fixed_boxes(fixed_size, fixed_ratio, density, ratios)
    plain = _sized_boxes(sizes, max_size, ratios, scale_all_sizes, min_max_aspect_ratios_order)
    scale = F32(1) / np.array([image_width, image_height], F32)
    centers = np.stack(np.broadcast_arrays(xs[None, :], ys[:, None]), axis=-1)[:, :, None, :]

    # The shift is added in three steps, so that it rounds as the reference's does.
    moved = centers - shifted[:, 0, None] + shifted[:, 1, None] + shifted[:, 2:4]
    fixed = np.concatenate([moved - shifted[:, 4:], moved + shifted[:, 4:]], axis=-1) * np.tile(scale, 2)
    fixed[..., :2] = np.maximum(fixed[..., :2], 0)
    fixed[..., 2:] = np.minimum(fixed[..., 2:], 1)
    free = np.concatenate([centers - plain, centers + plain], axis=-1) * np.tile(scale, 2)
    boxes = np.concatenate([fixed, free], axis=2).reshape(-1)

    result = np.zeros((2, 4 * height * width * max(per_cell, 0)), F32)
    count = min(boxes.size, result.shape[1])
    result[0, :count] = boxes[:count]
    if clip:
        np.clip(result[0], 0, 1, out=result[0])
    result[1].reshape(-1, 4)[:] = _variances(variance)
    return result


@op("PriorBoxClustered", since=1)
def prior_box_clustered_1(
    output_size: Array,
    image_size: Array,
    *,
    offset: float,
    width: list[float] = [1.0],  # noqa: B006
    height: list[float] = [1.0],  # noqa: B006
    clip: bool = True,
    step: float = 0.0,
    step_w: float = 0.0,
    step_h: float = 0.0,
    variance: list[float] = [],  # noqa: B006
) -> Array:
    """Prior boxes of given widths and heights around the centre of every grid cell, and their variances.

    output_size: integer [2], height and width of the grid; image_size: integer [2], height and width.
    Returns f32 [2, grid height * grid width * len(width) * 4]: corners as parts of the image, then variances.
    Raises InputError where a shape, `variance`, or the number of widths and heights does not fit.
    Spec: PriorBoxClustered-1.
    """
    rows, columns = _size(output_size, "output_size")
    image_height, image_width = _size(image_size, "image_size")
    if len(width) != len(height):
        raise InputError(f"{len(width)} widths and {len(height)} heights, expected as many of each")

    check_allocation((2, 4, rows, columns, len(width)), np.dtype(F32))
    step_x, step_y = F32(step_w or step), F32(step_h or step)
    if step_x == 0 and step_y == 0:
        step_x, step_y = F32(image_width) / F32(columns), F32(image_height) / F32(rows)
    xs = (np.arange(columns, dtype=F32) + F32(offset)) * step_x
    ys = (np.arange(rows, dtype=F32) + F32(offset)) * step_y
    centers = np.stack(np.broadcast_arrays(xs[None, :], ys[:, None]), axis=-1)[:, :, None, :]
    halves = np.stack([width, height], axis=-1).astype(F32) / F32(2)
    image = np.array([image_width, image_height] * 2, F32)
    boxes = np.concatenate([centers - halves, centers + halves], axis=-1) / image
    if clip:
        boxes = np.clip(boxes, 0, 1)
    result = np.empty((2, boxes.size), F32)
    result[0] = boxes.reshape(-1)
    result[1].reshape(-1, 4)[:] = _variances(variance)
    return result


def _size(values: Array, name: str) -> tuple[int, int]:
    found = to_int_list(values)
    if len(found) != 2 or min(found) < 0:
        raise InputError(f"{name} is {found}, expected a height and a width")
    return found[0], found[1]


def _variances(variance: Sequence[float]) -> Array:
    if len(variance) not in (0, 1, 4):
        raise InputError(f"variance has {len(variance)} values, expected 0, 1 or 4")
    return np.array(variance or [0.1], F32)


def _ratios(aspect_ratio: Iterable[float], flip: bool) -> list[np.float32]:
    """The aspect ratios other than 1 without repetitions, each followed by its inverse if `flip` is set."""
    found = [F32(1)]
    for ratio in np.array(list(aspect_ratio), F32):
        if not any(abs(float(ratio) - float(known)) < 1e-6 for known in found):
            found.append(ratio)
            if flip:
                found.append(F32(1) / ratio)
    return [r for r in found if not abs(float(r) - 1) < 1e-6]


def _fixed_boxes(
    fixed_size: Sequence[float],
    fixed_ratio: Sequence[float],
    density: Sequence[float],
    ratios: Sequence[np.float32],
) -> Array:
    """Boxes of fixed sizes in one cell, [n, 6]: minus, plus, plus (x, y) to the centre; half the sides."""
    found: list[Array] = []
    for size, dense in zip(np.array(fixed_size, F32), density):  # noqa: B905 (more densities do not matter)
        per_side = int(dense)
        if per_side <= 0:
            raise InputError(f"density {dense} is below 1")
        whole = int(size)
        shift = int(size / F32(per_side))
        if fixed_ratio:
            halves = _halves(size, np.array(fixed_ratio, F32))
        else:
            square = np.full((1, 2), F32(whole) * F32(0.5), F32)
            halves = np.concatenate([square, _halves(size, np.array(ratios, F32))])
        rows, columns = np.indices((per_side, per_side)).reshape(2, -1) * shift
        grid = np.empty((len(halves), per_side * per_side, 6), F32)
        grid[..., 0] = whole // 2
        grid[..., 1] = F32(shift) / F32(2)
        grid[..., 2] = columns
        grid[..., 3] = rows
        grid[..., 4:] = halves[:, None]
        found.append(grid.reshape(-1, 6))
    return np.concatenate(found) if found else np.zeros((0, 6), F32)


def _sized_boxes(
    min_size: Array,
    max_size: Sequence[float],
    ratios: Sequence[np.float32],
    scale_all_sizes: bool,
    max_before_ratios: bool,
) -> Array:
    """Half widths and heights, [n, 2], of the boxes that `min_size` and `max_size` give in one cell."""
    found = [np.zeros((0, 2), F32)]
    largest = np.array(max_size, F32)
    for i, size in enumerate(min_size):
        found.append(np.full((1, 2), size * F32(0.5), F32))
        middle = np.zeros((0, 2), F32)
        if i < len(largest):
            middle = np.full((1, 2), np.sqrt(size * largest[i]) * F32(0.5), F32)
        stretched = np.zeros((0, 2), F32)
        if scale_all_sizes or i == len(min_size) - 1:
            stretched = _halves(size if scale_all_sizes else min_size[0], np.array(ratios, F32))
        found += [middle, stretched] if max_before_ratios else [stretched, middle]
    return np.concatenate(found)


def _halves(size: np.float32, ratios: Array) -> Array:
    """Half widths and heights of boxes with the area of a square of `size`, one per aspect ratio."""
    root = np.sqrt(ratios)
    return np.stack([size * F32(0.5) * root, size * F32(0.5) / root], axis=-1)


def _number_of_priors(
    aspect_ratio: Sequence[float],
    min_size: Sequence[float],
    max_size: Sequence[float],
    fixed_size: Sequence[float],
    fixed_ratio: Sequence[float],
    density: Sequence[float],
    flip: bool,
    scale_all_sizes: bool,
) -> int:
    """The reference's formula for the boxes per cell, which the shape of the result follows."""
    unique = {F32(1)}
    for ratio in np.array(list(aspect_ratio), F32):
        unique.add(F32(np.round(float(ratio) * 1e6) / 1e6))
        if flip:
            unique.add(F32(np.round(1 / float(ratio) * 1e6) / 1e6))
    if fixed_size:
        number = len(unique) * len(fixed_size)
    elif scale_all_sizes:
        number = len(unique) * len(min_size) + len(max_size)
    else:
        number = len(unique) + len(min_size) - 1
    for dense in density:
        number += (len(fixed_ratio) or len(unique)) * (int(dense) ** 2 - 1)
    return number
