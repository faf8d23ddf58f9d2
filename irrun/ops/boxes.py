"""What detection and suppression of boxes share: intersections, and the greedy choice among boxes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irrun.ops.common import Array

__all__ = ["areas", "clip_unit", "greedy_nms", "intersections", "overlaps"]

#: Boxes judged at once by greedy_nms: large enough for whole-array work, small enough for the cache.
BLOCK = 256


def intersections(a: Array, b: Array, offset: float = 0.0) -> Array:
    """Areas of the intersections of every box of `a` with every box of `b`, [len(a), len(b)].

    Boxes are [n, 4] as x_min, y_min, x_max, y_max; `offset` is added to each side (1 for whole pixels).
    """
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = np.maximum(high - low + a.dtype.type(offset), 0)
    return np.asarray(sides[..., 0] * sides[..., 1])


def areas(boxes: Array, offset: float = 0.0) -> Array:
    """Areas of boxes [..., 4] given by corners; 0 for a box whose corners are the wrong way round."""
    sides = boxes[..., 2:] - boxes[..., :2]
    inverted = (sides < 0).any(axis=-1)
    sides = sides + boxes.dtype.type(offset)
    return np.where(inverted, 0, sides[..., 0] * sides[..., 1]).astype(boxes.dtype)


def overlaps(a: Array, b: Array, offset: float = 0.0) -> Array:
    """Intersection over union of every box of `a` with every box of `b`; 0 where they do not meet."""
    common = intersections(a, b, offset)
    union = areas(a, offset)[:, None] + areas(b, offset)[None, :] - common
    return np.where(common > 0, common / union, 0)


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
