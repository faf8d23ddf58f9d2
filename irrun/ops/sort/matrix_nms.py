"""MatrixNms: scores weakened by overlaps, all at once."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.boxes import areas, overlaps
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["SortResultType", "collect", "matrix_nms_8"]

SortResultType = Literal["class", "classid", "score", "none"]

#: Overlaps that are worked out at a time, so that many boxes do not take memory without bound.
WORKING_SET = 1 << 22


@op("MatrixNms", since=8)
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
    """Boxes whose scores, weakened by the better boxes of their class that they overlap, stay above a threshold.

    boxes: float [N, boxes, 4] as x1, y1, x2, y2; scores: the same type, [N, classes, boxes].
    Returns [selected, 6] in the type of boxes: class, score, corners; i32 or i64 [selected, 1]: image * boxes + box;
    and how many each image has, [N]. Each image's are in order of falling score; `sort_result_type` counts only with
    `sort_result_across_batch`, as in the reference.
    Raises InputError where shapes do not fit.
    Spec: MatrixNms-8.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        raise InputError(
            f"boxes have shape {list(boxes.shape)} and scores {list(scores.shape)}, "
            "expected [N, boxes, 4] and [N, classes, boxes]"
        )
    offset = 0.0 if normalized else 1.0
    dtype = boxes.dtype.type
    found = []
    for corners_of, scores_of in zip(boxes, scores, strict=True):
        size = areas(corners_of, offset)
        kept_boxes, kept_scores = [], []
        for number in range(scores.shape[1]):
            own = scores_of[number]
            candidates = np.flatnonzero(own > dtype(score_threshold))
            if number == background_class:
                candidates = candidates[:0]
            candidates = candidates[np.argsort(-own[candidates], kind="stable")]
            candidates = candidates[:nms_top_k] if nms_top_k > -1 else candidates
            corners, area = corners_of[candidates], size[candidates]
            decayed = own[candidates] * _decay(corners, area, offset, decay_function, dtype(gaussian_sigma))
            kept = decayed > dtype(post_threshold)
            kept_boxes.append(candidates[kept])
            kept_scores.append(decayed[kept])
        found.append((kept_boxes, kept_scores))
    kind = sort_result_type if sort_result_across_batch else "none"
    image, label, box, score, counts = collect(found, keep_top_k, kind, sort_result_across_batch, boxes.dtype)
    outputs = np.concatenate([label[:, None].astype(dtype), score[:, None], boxes[image, box]], axis=1)
    indices = (image * boxes.shape[1] + box)[:, None]
    return outputs, indices.astype(output_type.dtype), counts.astype(output_type.dtype)


def _decay(boxes: Array, area: Array, offset: float, function: str, sigma: np.floating[Any]) -> Array:
    """What each box's score is multiplied by: the strongest decay that a better box causes.

    boxes: in order of falling score. A box that was itself overlapped weakens others less.
    """
    worst = np.zeros(len(boxes), boxes.dtype)  # the largest overlap with a better box
    least = np.ones(len(boxes), boxes.dtype)
    step = max(1, WORKING_SET // max(1, len(boxes)))
    for start in range(0, len(boxes), step):
        end = min(start + step, len(boxes))
        shared = overlaps(boxes[:end], boxes[start:end], area[:end], area[start:end], offset)
        better = np.triu(shared, 1 - start)  # [j, i]: overlap of box start + i with the better box j
        worst[start:end] = better.max(axis=0, initial=0)
        least[start:end] = _least_decay(better, worst[:end, None], start, function, sigma)
    return least


def _least_decay(better: Array, worst: Array, start: int, function: str, sigma: np.floating[Any]) -> Array:
    """The strongest decay of the boxes from `start` on, given their overlaps with all better ones."""
    if function == "gaussian":
        decay = np.exp((worst * worst - better * better) * sigma)
    else:
        eps = np.float64(np.float32(1e-10))
        decay = ((1.0 - better.astype(np.float64)) / (1.0 - worst.astype(np.float64) + eps)).astype(better.dtype)
    decay = np.where(np.triu(np.ones_like(better, bool), 1 - start), decay, 1)
    least: Array = np.fmin.reduce(decay, axis=0, initial=1)
    return least.astype(better.dtype)


def collect(
    found: list[tuple[list[Array], list[Array]]],
    keep_top_k: int,
    sort_result_type: SortResultType,
    across_batch: bool,
    dtype: np.dtype[Any],
) -> tuple[Array, Array, Array, Array, Array]:
    """Image, class, box and score of every detection in order, and the number of each image.

    found: for every image, the boxes and the scores that each class keeps. The best `keep_top_k` of each image
    stay, in order of falling score (then class, then box); they are sorted again as `sort_result_type` says,
    within each image or `across_batch`.
    """
    parts = [(np.zeros(0, np.int64),) * 3 + (np.zeros(0, dtype),)]
    for number, (boxes, scores) in enumerate(found):
        box = np.concatenate(boxes) if boxes else np.zeros(0, np.int64)
        score = np.concatenate(scores) if scores else np.zeros(0, dtype)
        label = np.repeat(np.arange(len(boxes)), [len(x) for x in boxes])
        order = np.lexsort((box, label, -score))
        order = order[:keep_top_k] if keep_top_k > -1 else order
        parts.append((np.full(len(order), number), label[order], box[order], score[order]))
    image, label, box, score = (np.concatenate(x) for x in zip(*parts, strict=True))
    counts = np.bincount(image, minlength=len(found))
    if sort_result_type in ("class", "classid"):
        keys = (box, -score, image, label) if across_batch else (box, -score, label, image)
        order = np.lexsort(keys)
    elif sort_result_type == "score" and across_batch:
        order = np.lexsort((box, label, image, -score))
    else:
        order = np.arange(len(image))
    return image[order], label[order], box[order], score[order], counts
