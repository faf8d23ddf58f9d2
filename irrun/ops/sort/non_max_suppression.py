"""NonMaxSuppression and NMSRotated: selection of boxes that do not overlap better boxes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from irrun.deadlines import check_time, within_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.boxes import compute_overlaps, compute_rotated_overlaps
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.nms import run_greedy_nms
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op

__all__ = [
    "nms_rotated_13",
    "non_max_suppression_1",
    "non_max_suppression_3",
    "non_max_suppression_5",
]

BoxEncoding = Literal["corner", "center"]
#: Takes two arrays of n and m box indices, and returns the matrix [n, m] of their overlaps.
OverlapFunction = Callable[[Array, Array], Array]
I64 = ELEMENT_TYPES["i64"]

_suppression = partial(op, "NonMaxSuppression", scratch=3.25, kind="selection")


@_suppression(since=5, shape="infer_suppression", output_types=("output_type", "f32", "output_type"))
@_suppression(since=9, shape="infer_suppression", output_types=("output_type", "f32", "output_type"))
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
    """Select the boxes of each class and image that do not overlap better boxes of the same class too much.

    A box is suppressed even if its overlap equals the threshold; the reference implementation does this in version 5
    only. With a sigma above 0, overlap alone suppresses no box; the reference implementation does this in version 9
    only. OpenVINO's CPU plugin does both in both versions.

    Args:
        boxes: Floating-point, shape [N, boxes, 4]: y1, x1, y2, x2 (any two opposite corners), or x and y of the center,
            width and height if `box_encoding` is "center".
        scores: Floating-point, shape [N, classes, boxes]. A score that equals `score_threshold` is too low, as in the
            reference implementation.
        max_output_boxes_per_class: Integer scalar. 0 if omitted, which selects nothing.
        iou_threshold: Floating-point scalar, 0 if omitted.
        score_threshold: Floating-point scalar, 0 if omitted.
        soft_nms_sigma: Floating-point scalar, 0 if omitted. Above 0, boxes that overlap a selected box are not
            suppressed, but their scores decay.
        box_encoding: Format of the boxes.
        sort_result_descending: Whether the result is in descending order of score. Otherwise it is in order of image,
            class and descending score.
        output_type: Element type of the first and third outputs, i32 or i64.

    Returns:
        Image, class and box [selected, 3]; image, class and score [selected, 3] in f32; and the number of selected
        boxes [1].

    Raises:
        InputError: Shapes do not match.

    Spec:
        NonMaxSuppression-5, NonMaxSuppression-9
    """
    corners = _to_corners(upcast(boxes), box_encoding)
    sides = corners[..., 2:] - corners[..., :2]
    areas = sides[..., 0] * sides[..., 1]
    threshold = np.float32(0 if iou_threshold is None else to_scalar(iou_threshold, "iou_threshold"))

    def get_overlap_function(image: int) -> OverlapFunction:
        image_boxes, image_areas = corners[image], areas[image]

        def compare(a: Array, b: Array) -> Array:
            return compute_overlaps(image_boxes[a], image_boxes[b], image_areas[a], image_areas[b])

        return compare

    return _select(
        upcast(scores),
        corners.shape[:2],
        get_overlap_function,
        lambda overlaps: overlaps >= threshold,
        max_output_boxes_per_class,
        score_threshold,
        soft_nms_sigma,
        sort_result_descending,
        output_type,
    )


@_suppression(since=3, shape="infer_padded_suppression_per_image", output_types=("output_type",))
@_suppression(since=4, shape="infer_padded_suppression", output_types=("output_type",))
@describes_like(non_max_suppression_5)
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
    """Select boxes as NonMaxSuppression-5 does without a sigma.

    Args:
        output_type: Element type of the result, i32 or i64.

    Returns:
        Image, class and box [selected, 3]. As in OpenVINO, rows of -1 do not pad the result.

    Spec:
        NonMaxSuppression-3, NonMaxSuppression-4
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


@_suppression(since=1, shape="infer_padded_suppression_per_image", output_types=("i64",))
@describes_like(non_max_suppression_5)
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
    """Select boxes as NonMaxSuppression-5 does without a sigma.

    Returns:
        Image, class and box, i64 [selected, 3]. As in OpenVINO, rows of -1 do not pad the result.

    Spec:
        NonMaxSuppression-1
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


@op(
    "NMSRotated",
    since=13,
    scratch=3,
    kind="selection",
    shape="infer_rotated_suppression",
    output_types=("output_type", "f32", "output_type"),
)
@describes_like(non_max_suppression_5)
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
    """Select the rotated boxes of each class and image that do not overlap better boxes of the same class too much.

    Args:
        boxes: Floating-point, shape [N, boxes, 5]: x and y of the center, width, height, angle in radians.
        max_output_boxes_per_class: Integer scalar.
        iou_threshold: Floating-point scalar. Boxes that overlap a selected box by more are suppressed.
        score_threshold: Floating-point scalar.
        clockwise: Whether positive angles are clockwise instead of counterclockwise.

    Spec:
        NMSRotated-13
    """
    if boxes.ndim != 3 or boxes.shape[2] != 5:
        raise InputError(f"boxes has shape {list(boxes.shape)}, expected [N, boxes, 5]")
    exact = upcast(boxes).astype(np.float64)
    if not clockwise:
        exact[..., 4] *= -1
    threshold = np.float32(to_scalar(iou_threshold, "iou_threshold"))

    def get_overlap_function(image: int) -> OverlapFunction:
        image_boxes = exact[image]
        return lambda a, b: compute_rotated_overlaps(image_boxes[a], image_boxes[b]).astype(np.float32)

    return _select(
        upcast(scores),
        boxes.shape[:2],
        get_overlap_function,
        lambda overlaps: overlaps > threshold,
        max_output_boxes_per_class,
        score_threshold,
        None,
        sort_result_descending,
        output_type,
    )


def _to_corners(boxes: Array, encoding: BoxEncoding) -> Array:
    """Return the minimum and the maximum corner of each box; the order of the axes does not affect overlaps."""
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise InputError(f"boxes has shape {list(boxes.shape)}, expected [N, boxes, 4]")
    first, second = boxes[..., :2], boxes[..., 2:]
    if encoding == "corner":
        return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)
    half_sides = second / 2
    return np.concatenate([first - half_sides, first + half_sides], axis=-1)


def _select(
    scores: Array,
    boxes_shape: tuple[int, ...],
    get_overlap_function: Callable[[int], OverlapFunction],
    is_too_large: Callable[[Array], Array],
    max_output_boxes_per_class: Array | None,
    score_threshold: Array | None,
    soft_nms_sigma: Array | None,
    sort_result_descending: bool,
    output_type: ElementType,
) -> tuple[Array, Array, Array]:
    """Compute the outputs from the overlaps of the boxes of each image and the test for suppressing overlaps."""
    if scores.ndim != 3 or (scores.shape[0], scores.shape[2]) != tuple(boxes_shape):
        raise InputError(
            f"scores has shape {list(scores.shape)}, expected [{boxes_shape[0]}, classes, {boxes_shape[1]}]"
        )
    limit = 0
    if max_output_boxes_per_class is not None:
        limit = int(to_scalar(max_output_boxes_per_class, "max_output_boxes_per_class"))
    limit = boxes_shape[1] if limit < 0 else min(limit, boxes_shape[1])
    min_score = np.float32(0 if score_threshold is None else to_scalar(score_threshold, "score_threshold"))
    sigma = np.float32(0 if soft_nms_sigma is None else to_scalar(soft_nms_sigma, "soft_nms_sigma"))

    index_parts, score_parts = [np.zeros((0, 3), np.int64)], [np.zeros(0, np.float32)]
    is_above = scores > min_score
    for image, label in within_time(np.argwhere(is_above.any(axis=2))):
        candidates = np.flatnonzero(is_above[image, label])
        class_scores = scores[image, label, candidates]
        compare = get_overlap_function(image)
        if sigma > 0:
            selected, selected_scores = _run_soft_nms(candidates, class_scores, compare, min_score, sigma, limit)
        else:
            order = np.argsort(-class_scores, kind="stable")
            candidates, class_scores = candidates[order], class_scores[order]
            positions = run_greedy_nms(
                len(candidates),
                lambda a, b, c=candidates, f=compare: is_too_large(f(c[a], c[b])),  # type: ignore[misc]
                limit,
            )
            selected, selected_scores = candidates[positions], class_scores[positions]
        count = len(selected)
        index_parts.append(np.stack([np.full(count, image), np.full(count, label), selected], axis=1))
        score_parts.append(selected_scores.astype(np.float32))
    indices, best_scores = np.concatenate(index_parts), np.concatenate(score_parts)
    if sort_result_descending:
        order = np.lexsort((indices[:, 2], indices[:, 1], indices[:, 0], -best_scores))
        indices, best_scores = indices[order], best_scores[order]
    scored = np.concatenate([indices[:, :2].astype(np.float32), best_scores[:, None]], axis=1)
    dtype = output_type.dtype
    return indices.astype(dtype), scored, np.array([len(indices)], dtype)


def _run_soft_nms(
    candidates: Array, scores: Array, compare: OverlapFunction, min_score: np.float32, sigma: np.float32, limit: int
) -> tuple[Array, Array]:
    """Select boxes one after the other; each decays the scores of the boxes that it overlaps.

    Returns:
        The selected candidates and their scores at that time.
    """
    remaining = scores.copy()
    decay = np.float32(-0.5) / sigma
    selected: list[int] = []
    while len(selected) < limit:
        check_time()
        best = int(remaining.argmax())
        if not remaining[best] > min_score:
            break
        selected.append(best)
        scores[best] = remaining[best]
        overlaps = compare(candidates[best : best + 1], candidates)[0]
        remaining = remaining * np.exp(decay * overlaps * overlaps)
        remaining[selected] = -np.inf
    return candidates[selected], scores[selected]
