"""NonMaxSuppression and NMSRotated: which boxes to keep of those that overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.boxes import greedy_nms, overlaps, rotated_overlaps
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op

__all__ = [
    "nms_rotated_13",
    "non_max_suppression_1",
    "non_max_suppression_3",
    "non_max_suppression_5",
]

BoxEncoding = Literal["corner", "center"]
#: The boxes that one box suppresses or weakens: takes two arrays of positions, gives a matrix of overlaps.
Overlaps = Callable[[Array, Array], Array]
I64 = ELEMENT_TYPES["i64"]


@op("NonMaxSuppression", since=5)
@op("NonMaxSuppression", since=9)
def non_max_suppression_5(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    soft_nms_sigma: Array | None = None,
    *,
    box_encoding: BoxEncoding = "corner",
    sort_result_descending: bool = True,
    output_type: ElementType = I64,
) -> tuple[Array, Array, Array]:
    """The boxes of every class of every image that no better box of that class overlaps too much.

    boxes: float [N, boxes, 4] as y1, x1, y2, x2 (any two opposite corners) or as x and y of the centre, width,
    height; scores: float [N, classes, boxes]; max_output_boxes_per_class: integer scalar, 0 where left out (which
    selects nothing); iou_threshold, score_threshold, soft_nms_sigma: float scalars, 0 where left out. A sigma above
    0 weakens boxes that overlap a selected one instead of dropping them.
    Returns i32 or i64 [selected, 3]: image, class, box; f32 [selected, 3]: image, class, score; and the number
    selected [1]. They are in order of image, class and falling score, or of falling score alone.
    Raises InputError where shapes do not fit.
    A box that overlaps by exactly the threshold is dropped, and with a sigma no overlap drops a box at once, in
    both versions as in OpenVINO's CPU plugin; its reference does the first only in version 5, the second only in 9.
    A score of exactly the threshold is too low, as in the reference.
    Spec: NonMaxSuppression-5, NonMaxSuppression-9.
    """
    corners = _corners(upcast(boxes), box_encoding)
    sides = corners[..., 2:] - corners[..., :2]
    sizes = sides[..., 0] * sides[..., 1]
    threshold = np.float32(0 if iou_threshold is None else to_scalar(iou_threshold, "iou_threshold"))

    def overlaps_of(image: int) -> Overlaps:
        own, size = corners[image], sizes[image]
        solid = size > 0

        def compare(a: Array, b: Array) -> Array:
            shared = overlaps(own[a], own[b], size[a], size[b])
            return np.where(solid[a][:, None] & solid[b], shared, 0)

        return compare

    return _select(
        upcast(scores),
        corners.shape[:2],
        overlaps_of,
        lambda shared: shared >= threshold,
        max_output_boxes_per_class,
        score_threshold,
        soft_nms_sigma,
        sort_result_descending,
        output_type,
    )


@op("NonMaxSuppression", since=3)
@op("NonMaxSuppression", since=4)
def non_max_suppression_3(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    box_encoding: BoxEncoding = "corner",
    sort_result_descending: bool = True,
    output_type: ElementType = I64,
) -> Array:
    """The indices that NonMaxSuppression-5 selects without a sigma.

    boxes: float [N, boxes, 4]; scores: float [N, classes, boxes]; the rest: scalars.
    Returns i32 or i64 [selected, 3]: image, class, box; no rows of -1 follow, as in OpenVINO.
    Raises InputError where shapes do not fit.
    Spec: NonMaxSuppression-3, NonMaxSuppression-4.
    """
    selected, _, _ = non_max_suppression_5(
        boxes,
        scores,
        max_output_boxes_per_class,
        iou_threshold,
        score_threshold,
        box_encoding=box_encoding,
        sort_result_descending=sort_result_descending,
        output_type=output_type,
    )
    return selected


@op("NonMaxSuppression", since=1)
def non_max_suppression_1(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    box_encoding: BoxEncoding = "corner",
    sort_result_descending: bool = True,
) -> Array:
    """The indices that NonMaxSuppression-5 selects without a sigma, in i64.

    boxes: float [N, boxes, 4]; scores: float [N, classes, boxes]; the rest: scalars.
    Returns i64 [selected, 3]: image, class, box; no rows of -1 follow, as in OpenVINO.
    Raises InputError where shapes do not fit.
    Spec: NonMaxSuppression-1.
    """
    return non_max_suppression_3(
        boxes,
        scores,
        max_output_boxes_per_class,
        iou_threshold,
        score_threshold,
        box_encoding=box_encoding,
        sort_result_descending=sort_result_descending,
    )


@op("NMSRotated", since=13)
def nms_rotated_13(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    sort_result_descending: bool = True,
    output_type: ElementType = I64,
    clockwise: bool = True,
) -> tuple[Array, Array, Array]:
    """The rotated boxes of every class of every image that no better box of that class overlaps too much.

    boxes: float [N, boxes, 5] as x and y of the centre, width, height and angle in radians; scores: float
    [N, classes, boxes]; max_output_boxes_per_class: integer scalar; the thresholds: float scalars.
    Returns i32 or i64 [selected, 3]: image, class, box; f32 [selected, 3]: image, class, score; and the number
    selected [1]. They are in order of image, class and falling score, or of falling score alone.
    Raises InputError where shapes do not fit.
    A score of exactly the threshold is too low, as in the reference.
    Spec: NMSRotated-13.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 5:
        raise InputError(f"boxes have shape {list(boxes.shape)}, expected [N, boxes, 5]")
    wide = upcast(boxes).astype(np.float64)
    if not clockwise:
        wide[..., 4] *= -1
    threshold = np.float32(to_scalar(iou_threshold, "iou_threshold"))

    def overlaps_of(image: int) -> Overlaps:
        own = wide[image]
        return lambda a, b: rotated_overlaps(own[a], own[b]).astype(np.float32)

    return _select(
        upcast(scores),
        boxes.shape[:2],
        overlaps_of,
        lambda shared: shared > threshold,
        max_output_boxes_per_class,
        score_threshold,
        None,
        sort_result_descending,
        output_type,
    )


def _corners(boxes: Array, encoding: BoxEncoding) -> Array:
    """`boxes` as near and far corner; which axis comes first does not matter to their overlap."""
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise InputError(f"boxes have shape {list(boxes.shape)}, expected [N, boxes, 4]")
    first, second = boxes[..., :2], boxes[..., 2:]
    if encoding == "corner":
        return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)
    halves = second / 2
    return np.concatenate([first - halves, first + halves], axis=-1)


def _select(
    scores: Array,
    boxes_shape: tuple[int, ...],
    overlaps_of: Callable[[int], Overlaps],
    too_much: Callable[[Array], Array],
    max_output_boxes_per_class: Array | None,
    score_threshold: Array | None,
    soft_nms_sigma: Array | None,
    sort_result_descending: bool,
    output_type: ElementType,
) -> tuple[Array, Array, Array]:
    """The three results, from the overlaps of each image's boxes and the test for too large ones."""
    if scores.ndim != 3 or (scores.shape[0], scores.shape[2]) != tuple(boxes_shape):
        raise InputError(
            f"scores have shape {list(scores.shape)}, expected [{boxes_shape[0]}, classes, {boxes_shape[1]}]"
        )
    limit = 0
    if max_output_boxes_per_class is not None:
        limit = int(to_scalar(max_output_boxes_per_class, "max_output_boxes_per_class"))
    limit = boxes_shape[1] if limit < 0 else min(limit, boxes_shape[1])
    lowest = np.float32(0 if score_threshold is None else to_scalar(score_threshold, "score_threshold"))
    sigma = np.float32(0 if soft_nms_sigma is None else to_scalar(soft_nms_sigma, "soft_nms_sigma"))

    indices, kept_scores = [np.zeros((0, 3), np.int64)], [np.zeros(0, np.float32)]
    above = scores > lowest
    for image, label in np.argwhere(above.any(axis=2)):
        candidates = np.flatnonzero(above[image, label])
        own = scores[image, label, candidates]
        compare = overlaps_of(image)
        if sigma > 0:
            kept, own = _soft(candidates, own, compare, lowest, sigma, limit)
        else:
            order = np.argsort(-own, kind="stable")
            candidates, own = candidates[order], own[order]
            chosen = greedy_nms(
                len(candidates),
                lambda a, b, c=candidates, f=compare: too_much(f(c[a], c[b])),  # type: ignore[misc]
                limit,
            )
            kept, own = candidates[chosen], own[chosen]
        indices.append(np.stack([np.full(len(kept), image), np.full(len(kept), label), kept], axis=1))
        kept_scores.append(own.astype(np.float32))
    selected, score = np.concatenate(indices), np.concatenate(kept_scores)
    if sort_result_descending:
        order = np.lexsort((selected[:, 2], selected[:, 1], selected[:, 0], -score))
        selected, score = selected[order], score[order]
    scored = np.concatenate([selected[:, :2].astype(np.float32), score[:, None]], axis=1)
    dtype = output_type.dtype
    return selected.astype(dtype), scored, np.array([len(selected)], dtype)


def _soft(
    candidates: Array, scores: Array, compare: Overlaps, lowest: np.float32, sigma: np.float32, limit: int
) -> tuple[Array, Array]:
    """Boxes selected one after the other, each weakening those that it overlaps, and the scores they had then."""
    remaining = scores.copy()
    decay = np.float32(-0.5) / sigma
    chosen: list[int] = []
    while len(chosen) < limit:
        best = int(remaining.argmax())
        if not remaining[best] > lowest:
            break
        chosen.append(best)
        scores[best] = remaining[best]
        shared = compare(candidates[best : best + 1], candidates)[0]
        remaining = remaining * np.exp(decay * shared * shared)
        remaining[chosen] = -np.inf
    return candidates[chosen], scores[chosen]
