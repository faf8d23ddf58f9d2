"""What detection and suppression of boxes share: intersection over union, and the greedy choice among boxes.

Boxes are arrays [n, 4] of corners: x_min, y_min, x_max, y_max.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irrun.ops.common import Array

__all__ = ["areas", "clip_unit", "greedy_nms", "overlaps", "refine"]

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
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - low
    extended = np.maximum(sides + a.dtype.type(offset), 0)
    common: Array = extended[..., 0] * extended[..., 1]
    if touching and offset:
        common = np.where((sides >= 0).all(axis=-1), common, 0)
    union = area_a[:, None] + area_b[None, :] - common
    return np.where(common > 0, common / union, 0)


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
