"""What detection and suppression of boxes share: intersection over union, and the greedy choice among boxes.

Boxes are arrays [n, 4] of corners: x_min, y_min, x_max, y_max.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irrun.ops._support.numerics import Array

__all__ = ["BLOCK", "areas", "clip_unit", "greedy_nms", "overlaps", "refine", "rotated_overlaps"]

#: Boxes judged at once by greedy_nms: large enough for whole-array work, small enough for the cache.
BLOCK = 256


def areas(boxes: Array, offset: float = 0.0) -> Array:
    """Areas of `boxes`; `offset` is added to each side (1 where corners are whole pixels inside the box).

    A box whose corners are the wrong way round has the area 0.
    """
    sides = boxes[..., 2:] - boxes[..., :2]
    inverted = (sides < 0).any(axis=-1)
    sides = sides + boxes.dtype.type(offset)
    return np.asarray(np.where(inverted, boxes.dtype.type(0), sides[..., 0] * sides[..., 1]))


def overlaps(a: Array, b: Array, area_a: Array, area_b: Array, offset: float = 0.0, *, touching: bool = True) -> Array:
    """Intersection over union of every box of `a` with every box of `b`, [len(a), len(b)].

    `offset` is added to each side of an intersection. With `touching`, boxes that do not meet have no
    intersection even where `offset` would give them one. 0 where there is no intersection.
    """
    # One axis at a time, and in place: these matrices are most of the work of a suppression.
    one = a.dtype.type(offset)
    sides = []
    apart = None
    for near, far in ((0, 2), (1, 3)):
        side = np.minimum(a[:, None, far], b[None, :, far])
        side -= np.maximum(a[:, None, near], b[None, :, near])
        if offset:
            if touching:
                apart = side < 0 if apart is None else apart | (side < 0)
            side += one
        sides.append(np.maximum(side, 0, out=side))
    common = np.multiply(sides[0], sides[1], out=sides[0])
    if apart is not None:
        common[apart] = 0
    union = np.add(area_a[:, None], area_b[None, :], out=sides[1])
    union -= common
    return np.divide(common, union, out=np.zeros_like(common), where=common > 0)


def refine(boxes: Array, deltas: Array, offset: float, inclusive: bool, log_limit: float | None = None) -> Array:
    """`boxes` moved and stretched by `deltas` [..., 4]: dx, dy in sides, then the logarithms of two factors.

    `offset` is added to each side of the boxes; with `inclusive`, taken off the far corners of the result.
    """
    one = boxes.dtype.type(offset)
    half = boxes.dtype.type(0.5)
    sides = boxes[..., 2:] - boxes[..., :2] + one
    centers = boxes[..., :2] + half * sides
    centers = deltas[..., :2] * sides + centers
    logs = deltas[..., 2:] if log_limit is None else np.minimum(deltas[..., 2:], boxes.dtype.type(log_limit))
    halves = half * (np.exp(logs) * sides)
    far = centers + halves - one if inclusive else centers + halves
    return np.concatenate([centers - halves, far], axis=-1)


def clip_unit(x: Array) -> Array:
    """`x` limited to [0, 1]; NaN becomes 1, as it does in the reference's min(1, NaN)."""
    return np.where(x < 1, np.maximum(x, 0), x.dtype.type(1))


def greedy_nms(count: int, suppresses: Callable[[Array, Array], Array], limit: int | None = None) -> Array:
    """Positions kept by greedy non-maximum suppression among `count` boxes in order of falling score.

    A box is kept unless one kept before it suppresses it. `suppresses(kept, others)` takes two arrays of
    positions and returns a boolean matrix [len(kept), len(others)]. At most `limit` boxes are kept.
    """
    limit = count if limit is None else min(limit, count)
    kept: list[int] = []
    for start in range(0, count, BLOCK):
        if len(kept) >= limit:
            break
        block = np.arange(start, min(start + BLOCK, count))
        if kept:
            block = block[~suppresses(np.array(kept), block).any(axis=0)]
        inside = suppresses(block, block)
        gone = np.zeros(len(block), bool)
        for i, position in enumerate(block.tolist()):
            if gone[i]:
                continue
            kept.append(position)
            if len(kept) >= limit:
                break
            gone |= inside[i]
    return np.array(kept, np.int64)


def rotated_overlaps(a: Array, b: Array) -> Array:
    """Intersection over union of every box of `a` with every box of `b`, [len(a), len(b)].

    Boxes are [n, 5]: x and y of the centre, width, height, angle in radians.
    """
    size_a, size_b = a[:, 2] * a[:, 3], b[:, 2] * b[:, 3]
    solid = (size_a > 0)[:, None] & (size_b > 0)
    result = np.zeros(solid.shape, a.dtype)
    # Only boxes whose circles meet can overlap.
    distance = np.hypot(a[:, None, 0] - b[None, :, 0], a[:, None, 1] - b[None, :, 1])
    reach = np.hypot(a[:, 2], a[:, 3])[:, None] + np.hypot(b[:, 2], b[:, 3])
    i, j = np.nonzero(solid & (distance <= reach / 2))
    if len(i):
        common = _convex_intersections(_vertices(a)[i], _vertices(b)[j])
        result[i, j] = common / (size_a[i] + size_b[j] - common)
    return result


def _vertices(boxes: Array) -> Array:
    """The corners [n, 4, 2] of rotated boxes, in order around each."""
    half_cos, half_sin = np.cos(boxes[:, 4]) / 2, np.sin(boxes[:, 4]) / 2
    along = np.stack([half_cos, half_sin], axis=-1) * boxes[:, 2:3]
    across = np.stack([half_sin, -half_cos], axis=-1) * boxes[:, 3:4]
    corners = np.stack([-along - across, across - along, along + across, along - across], axis=1)
    vertices: Array = boxes[:, None, :2] + corners
    return vertices


def _convex_intersections(p: Array, q: Array) -> Array:
    """Areas of the intersections of rectangles p[k] and q[k], both [n, 4, 2].

    The intersection's corners are where edges cross, and corners of one rectangle inside the other.
    """
    edges_p, edges_q = np.roll(p, -1, axis=1) - p, np.roll(q, -1, axis=1) - q
    gap = q[:, None, :, :] - p[:, :, None, :]
    det = _cross(edges_q[:, None], edges_p[:, :, None])
    det = np.where(np.abs(det) > 1e-14, det, np.inf)  # parallel edges do not cross
    t = _cross(edges_q[:, None], gap) / det
    u = _cross(edges_p[:, :, None], gap) / det
    crossing = np.isfinite(det) & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    points = p[:, :, None] + edges_p[:, :, None] * t[..., None]
    count = len(p)
    corners = np.concatenate([points.reshape(count, 16, 2), p, q], axis=1)
    valid = np.concatenate([crossing.reshape(count, 16), _inside(p, q, edges_q), _inside(q, p, edges_p)], axis=1)

    # Sorted by angle around their mean; places without a corner repeat the first one, which adds no area.
    first = corners[np.arange(count), valid.argmax(axis=1)][:, None]
    corners = np.where(valid[..., None], corners, first)
    number = valid.sum(axis=1)
    center = np.where(valid[..., None], corners, 0).sum(axis=1) / np.maximum(number, 1)[:, None]
    corners = corners - center[:, None]
    order = np.argsort(np.arctan2(corners[..., 1], corners[..., 0]), axis=1)
    corners = np.take_along_axis(corners, order[..., None], axis=1)
    area = np.abs(_cross(corners, np.roll(corners, -1, axis=1)).sum(axis=1)) / 2
    return np.where(number > 2, area, 0)


def _cross(a: Array, b: Array) -> Array:
    product: Array = a[..., 0] * b[..., 1] - b[..., 0] * a[..., 1]
    return product


def _inside(points: Array, rectangle: Array, edges: Array) -> Array:
    """Which of `points` [n, 4, 2] lie within the rectangles, borders included."""
    away = points - rectangle[:, :1]
    side, other = edges[:, 0], -edges[:, 3]
    along, across = (away * side[:, None]).sum(axis=-1), (away * other[:, None]).sum(axis=-1)
    within: Array = (
        (along >= 0)
        & (across >= 0)
        & (along <= (side * side).sum(axis=-1)[:, None])
        & (across <= (other * other).sum(axis=-1)[:, None])
    )
    return within
