"""MatrixNms: non-maximum suppression that decays the scores of overlapping boxes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.boxes import compute_areas, compute_overlaps
from irrun.ops._support.nms import SortResultType, collect_detections
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["matrix_nms_8"]

#: Number of overlaps computed at a time, to limit the memory for many boxes.
WORKING_SET = 1 << 17


@op(
    "MatrixNms",
    since=8,
    kind="selection",
    shape="infer_class_suppression",
    aliases=("MatrixNonMaxSuppression",),
    output_types=(0, "output_type", "output_type"),
)
@compute_in_float32
def matrix_nms_8(
    boxes: Array,
    scores: Array,
    *,
    sort_result_type: SortResultType = "none",
    sort_result_across_batch: bool = False,
    output_type: ElementType = ELEMENT_TYPES["i64"],
    score_threshold: float = 0.0,
    nms_top_k: int = -1,
    keep_top_k: int = -1,
    background_class: int = -1,
    normalized: bool = True,
    decay_function: Literal["gaussian", "linear"] = "linear",
    gaussian_sigma: float = 2.0,
    post_threshold: float = 0.0,
) -> tuple[Array, Array, Array]:
    """Select boxes with scores above a threshold after decay by overlaps with better boxes of their class.

    Args:
        boxes: Floating-point, shape [N, boxes, 4]: x1, y1, x2, y2.
        scores: The type of `boxes`, shape [N, classes, boxes].
        sort_result_type: The order of the result if `sort_result_across_batch` is true. Otherwise it has no effect, as
            in the reference implementation, and the boxes of each image are in descending order of score.
        sort_result_across_batch: Whether the boxes of all images are sorted together.
        output_type: Element type of the second and third outputs, i32 or i64.
        score_threshold: Boxes whose scores do not exceed this are ignored.
        nms_top_k: Maximum number of boxes of a class before suppression; -1 for no limit.
        keep_top_k: Maximum number of boxes of an image; -1 for no limit.
        background_class: The class that is ignored; -1 for none.
        normalized: Whether the side of a box is the difference of its coordinates; otherwise 1 is added.
        decay_function: How scores decay with the overlap.
        gaussian_sigma: Parameter of "gaussian".
        post_threshold: Boxes whose decayed scores do not exceed this are removed.

    Returns:
        Class, score and corners [selected, 6] in the type of `boxes`; image * boxes + box [selected, 1]; and the
        number of selected boxes of each image [N].

    Raises:
        InputError: Shapes do not match.

    Spec:
        MatrixNms-8
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        raise InputError(
            f"boxes has shape {list(boxes.shape)} and scores {list(scores.shape)}, "
            "expected [N, boxes, 4] and [N, classes, boxes]"
        )
    offset = 0.0 if normalized else 1.0
    dtype = boxes.dtype.type
    selections = []
    for image_boxes, image_scores in zip(boxes, scores, strict=True):
        areas = compute_areas(image_boxes, offset)
        kept_boxes, kept_scores = [], []
        for label, class_scores in within_time(enumerate(image_scores if scores.size else ())):
            candidates = np.flatnonzero(class_scores > dtype(score_threshold))
            if label == background_class:
                candidates = candidates[:0]
            candidates = candidates[np.argsort(-class_scores[candidates], kind="stable")]
            candidates = candidates[:nms_top_k] if nms_top_k > -1 else candidates
            decay = _compute_decay(
                image_boxes[candidates], areas[candidates], offset, decay_function, dtype(gaussian_sigma)
            )
            decayed = class_scores[candidates] * decay
            is_kept = decayed > dtype(post_threshold)
            kept_boxes.append(candidates[is_kept])
            kept_scores.append(decayed[is_kept])
        selections.append((kept_boxes, kept_scores))
    order = sort_result_type if sort_result_across_batch else "none"
    images, labels, indices, best_scores, counts = collect_detections(
        selections, keep_top_k, order, sort_result_across_batch, boxes.dtype
    )
    outputs = np.concatenate([labels[:, None].astype(dtype), best_scores[:, None], boxes[images, indices]], axis=1)
    positions = (images * boxes.shape[1] + indices)[:, None]
    return outputs, positions.astype(output_type.dtype), counts.astype(output_type.dtype)


def _compute_decay(boxes: Array, areas: Array, offset: float, function: str, sigma: np.floating[Any]) -> Array:
    """Return the factor of the score of each box: the smallest factor that a better box causes.

    Boxes are in descending order of score. A box that overlaps a better one itself decays others less.
    """
    max_overlaps = np.zeros(len(boxes), boxes.dtype)  # with any better box
    factors = np.ones(len(boxes), boxes.dtype)
    step = max(1, WORKING_SET // max(1, len(boxes)))
    for start in within_time(range(0, len(boxes), step)):
        end = min(start + step, len(boxes))
        overlaps = compute_overlaps(boxes[:end], boxes[start:end], areas[:end], areas[start:end], offset)
        overlaps = np.triu(overlaps, 1 - start)  # [j, i]: overlap of box start + i with the better box j
        max_overlaps[start:end] = overlaps.max(axis=0, initial=0)
        factors[start:end] = _compute_factors(overlaps, max_overlaps[:end, None], start, function, sigma)
    return factors


def _compute_factors(overlaps: Array, max_overlaps: Array, start: int, function: str, sigma: np.floating[Any]) -> Array:
    """Return the smallest factors of the boxes from `start` on, from their overlaps with all better boxes."""
    if function == "gaussian":
        factors = np.exp((max_overlaps * max_overlaps - overlaps * overlaps) * sigma)
    else:
        epsilon = np.float64(np.float32(1e-10))
        ratio = (1.0 - overlaps.astype(np.float64)) / (1.0 - max_overlaps.astype(np.float64) + epsilon)
        factors = ratio.astype(overlaps.dtype)
    factors = np.where(np.triu(np.ones_like(overlaps, bool), 1 - start), factors, 1)
    return np.asarray(np.fmin.reduce(factors, axis=0, initial=1).astype(overlaps.dtype))
