"""Geometry of boxes: areas, intersection over union, and decoding of box regression.

Boxes are arrays [n, 4] of corners (x_min, y_min, x_max, y_max) unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.numerics import Array

__all__ = [
    "apply_deltas",
    "clip_to_unit",
    "compute_areas",
    "compute_overlaps",
    "compute_rotated_overlaps",
    "count_prior_boxes",
]


def compute_areas(boxes: Array, offset: float = 0.0) -> Array:
    """Compute the areas of boxes.

    Args:
        boxes: Floating-point, shape [..., 4].
        offset: Added to each side: 1 for corners that are pixels inside the box, else 0.

    Returns:
        Shape [...]. Boxes with a maximum below the minimum have an area of 0.
    """
    sides = boxes[..., 2:] - boxes[..., :2]
    is_inverted = (sides < 0).any(axis=-1)
    sides = sides + boxes.dtype.type(offset)
    return np.asarray(np.where(is_inverted, boxes.dtype.type(0), sides[..., 0] * sides[..., 1]))


def compute_overlaps(
    a: Array, b: Array, area_a: Array, area_b: Array, offset: float = 0.0, *, ignore_disjoint: bool = True
) -> Array:
    """Compute the intersection over union of each box of `a` with each box of `b`.

    Args:
        a: Floating-point, shape [n, 4].
        b: The type of `a`, shape [m, 4].
        area_a: Areas of `a`, [n].
        area_b: Areas of `b`, [m].
        offset: Added to each side of an intersection.
        ignore_disjoint: Whether disjoint boxes have no intersection even if `offset` would produce one.

    Returns:
        Shape [n, m]; 0 for boxes without an intersection.
    """
    # One axis at a time and in place: these matrices are most of the work of a suppression.
    increment = a.dtype.type(offset)
    sides = []
    is_disjoint = None
    for low, high in ((0, 2), (1, 3)):
        side = np.minimum(a[:, None, high], b[None, :, high])
        side -= np.maximum(a[:, None, low], b[None, :, low])
        if offset:
            if ignore_disjoint:
                is_disjoint = side < 0 if is_disjoint is None else is_disjoint | (side < 0)
            side += increment
        sides.append(np.maximum(side, 0, out=side))
    intersection = np.multiply(sides[0], sides[1], out=sides[0])
    if is_disjoint is not None:
        intersection[is_disjoint] = 0
    union = np.add(area_a[:, None], area_b[None, :], out=sides[1])
    union -= intersection
    return np.divide(intersection, union, out=np.zeros_like(intersection), where=intersection > 0)


def apply_deltas(boxes: Array, deltas: Array, offset: float, inclusive: bool, log_limit: float | None = None) -> Array:
    """Move and scale boxes by the output of a box regression.

    Args:
        boxes: Floating-point, shape [..., 4].
        deltas: The type of `boxes`, a shape [..., 4] that broadcasts with it: the translation of the center, relative
            to the sides, and the logarithms of the scales.
        offset: Added to the sides of `boxes`.
        inclusive: Whether `offset` is subtracted from the maximum corners of the result.
        log_limit: Upper bound of the logarithms.

    Returns:
        The broadcast shape.
    """
    increment = boxes.dtype.type(offset)
    half = boxes.dtype.type(0.5)
    sides = boxes[..., 2:] - boxes[..., :2] + increment
    centers = boxes[..., :2] + half * sides
    centers = deltas[..., :2] * sides + centers
    logarithms = deltas[..., 2:] if log_limit is None else np.minimum(deltas[..., 2:], boxes.dtype.type(log_limit))
    half_sides = half * (np.exp(logarithms) * sides)
    maximum = centers + half_sides - increment if inclusive else centers + half_sides
    return np.concatenate([centers - half_sides, maximum], axis=-1)


def clip_to_unit(x: Array) -> Array:
    """Clip to [0, 1]. NaN becomes 1, as the reference implementation's min(1, NaN) does."""
    return np.where(x < 1, np.maximum(x, 0), x.dtype.type(1))


def compute_rotated_overlaps(a: Array, b: Array) -> Array:
    """Compute the intersection over union of each rotated box of `a` with each of `b`.

    Args:
        a: Floating-point, shape [n, 5]: x and y of the center, width, height, angle in radians.
        b: The type of `a`, shape [m, 5].

    Returns:
        Shape [n, m].
    """
    area_a, area_b = a[:, 2] * a[:, 3], b[:, 2] * b[:, 3]
    has_area = (area_a > 0)[:, None] & (area_b > 0)
    result = np.zeros(has_area.shape, a.dtype)
    # Boxes overlap only if their circumscribed circles do.
    distance = np.hypot(a[:, None, 0] - b[None, :, 0], a[:, None, 1] - b[None, :, 1])
    diameters = np.hypot(a[:, 2], a[:, 3])[:, None] + np.hypot(b[:, 2], b[:, 3])
    i, j = np.nonzero(has_area & (distance <= diameters / 2))
    if len(i):
        intersection = _intersect_rectangles(_get_vertices(a)[i], _get_vertices(b)[j])
        result[i, j] = intersection / (area_a[i] + area_b[j] - intersection)
    return result


def _get_vertices(boxes: Array) -> Array:
    """Return the vertices [n, 4, 2] of rotated boxes, in order around each."""
    half_cos, half_sin = np.cos(boxes[:, 4]) / 2, np.sin(boxes[:, 4]) / 2
    along = np.stack([half_cos, half_sin], axis=-1) * boxes[:, 2:3]
    across = np.stack([half_sin, -half_cos], axis=-1) * boxes[:, 3:4]
    offsets = np.stack([-along - across, across - along, along + across, along - across], axis=1)
    return np.asarray(boxes[:, None, :2] + offsets)


def _intersect_rectangles(p: Array, q: Array) -> Array:
    """Compute the areas of the intersections of rectangles p[k] and q[k], both [n, 4, 2].

    The vertices of an intersection are the crossings of the edges, and the vertices of one rectangle inside the other.
    """
    edges_p, edges_q = np.roll(p, -1, axis=1) - p, np.roll(q, -1, axis=1) - q
    difference = q[:, None, :, :] - p[:, :, None, :]
    determinant = _cross(edges_q[:, None], edges_p[:, :, None])
    determinant = np.where(np.abs(determinant) > 1e-14, determinant, np.inf)  # parallel edges do not cross
    t = _cross(edges_q[:, None], difference) / determinant
    u = _cross(edges_p[:, :, None], difference) / determinant
    is_crossing = np.isfinite(determinant) & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    points = p[:, :, None] + edges_p[:, :, None] * t[..., None]
    count = len(p)
    vertices = np.concatenate([points.reshape(count, 16, 2), p, q], axis=1)
    is_vertex = np.concatenate(
        [is_crossing.reshape(count, 16), _is_inside(p, q, edges_q), _is_inside(q, p, edges_p)], axis=1
    )

    # The vertices are sorted by their angle around the mean. Other points are replaced by the first vertex, which
    # does not change the area.
    first = vertices[np.arange(count), is_vertex.argmax(axis=1)][:, None]
    vertices = np.where(is_vertex[..., None], vertices, first)
    vertex_count = is_vertex.sum(axis=1)
    center = np.where(is_vertex[..., None], vertices, 0).sum(axis=1) / np.maximum(vertex_count, 1)[:, None]
    vertices = vertices - center[:, None]
    order = np.argsort(np.arctan2(vertices[..., 1], vertices[..., 0]), axis=1)
    vertices = np.take_along_axis(vertices, order[..., None], axis=1)
    area = np.abs(_cross(vertices, np.roll(vertices, -1, axis=1)).sum(axis=1)) / 2
    return np.where(vertex_count > 2, area, 0)


def _cross(a: Array, b: Array) -> Array:
    """Compute the cross products of vectors [..., 2]."""
    return np.asarray(a[..., 0] * b[..., 1] - b[..., 0] * a[..., 1])


def _is_inside(points: Array, rectangle: Array, edges: Array) -> Array:
    """Return which of the points [n, 4, 2] are inside the rectangles, borders included."""
    relative = points - rectangle[:, :1]
    side, other_side = edges[:, 0], -edges[:, 3]
    along, across = (relative * side[:, None]).sum(axis=-1), (relative * other_side[:, None]).sum(axis=-1)
    return np.asarray(
        (along >= 0)
        & (across >= 0)
        & (along <= (side * side).sum(axis=-1)[:, None])
        & (across <= (other_side * other_side).sum(axis=-1)[:, None])
    )


def count_prior_boxes(
    *,
    aspect_ratio: Sequence[float],
    min_size: Sequence[float],
    max_size: Sequence[float],
    fixed_size: Sequence[float],
    fixed_ratio: Sequence[float],
    density: Sequence[float],
    flip: bool,
    scale_all_sizes: bool,
) -> int:
    """Return the number of boxes of PriorBox per cell by the formula of the reference implementation.

    The arguments are attributes of PriorBox.

    Raises:
        InputError: An aspect ratio is not positive.
    """
    for ratio in (*aspect_ratio, *fixed_ratio):
        if not ratio > 0:
            raise InputError(f"an aspect ratio is {ratio:g}, expected a positive number")
    unique = {np.float32(1)}
    for ratio in np.array(list(aspect_ratio), np.float32).tolist():
        unique.add(np.float32(np.round(ratio * 1e6) / 1e6))
        if flip:
            unique.add(np.float32(np.round(1 / ratio * 1e6) / 1e6))
    if fixed_size:
        count = len(unique) * len(fixed_size)
    elif scale_all_sizes:
        count = len(unique) * len(min_size) + len(max_size)
    else:
        count = len(unique) + len(min_size) - 1
    for size_density in density:
        count += (len(fixed_ratio) or len(unique)) * (int(size_density) ** 2 - 1)
    return count
