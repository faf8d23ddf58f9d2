"""Non-maximum suppression: greedy selection of boxes, and the outputs of MatrixNms and MulticlassNms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.ops._support.boxes import compute_overlaps
from irrun.ops._support.numerics import Array

__all__ = ["BLOCK_SIZE", "SortResultType", "collect_detections", "run_greedy_nms", "suppress_overlapping"]

#: The order of the outputs. "classid" is OpenVINO's spelling of the specification's "class".
SortResultType = Literal["class", "classid", "score", "none"]

#: Number of boxes compared at a time: large enough to hide the overhead of NumPy's calls, small enough for the cache.
BLOCK_SIZE = 256
#: Number of selected boxes that a block is compared with at a time, to limit memory.
MAX_COMPARED = 512


def run_greedy_nms(count: int, suppresses: Callable[[Array, Array], Array], limit: int | None = None) -> Array:
    """Select boxes greedily: a box is selected unless one that was selected before suppresses it.

    Args:
        count: Number of boxes, in descending order of score.
        suppresses: Takes the positions of n selected and m other boxes and returns a boolean matrix [n, m].
        limit: Maximum number of boxes to select; None for no limit.

    Returns:
        The positions of the selected boxes, i64.
    """
    limit = count if limit is None else min(limit, count)
    selected: list[int] = []
    for start in within_time(range(0, count, BLOCK_SIZE)):
        if len(selected) >= limit:
            break
        block = np.arange(start, min(start + BLOCK_SIZE, count))
        for first in within_time(range(0, len(selected), MAX_COMPARED)):
            block = block[~suppresses(np.array(selected[first : first + MAX_COMPARED]), block).any(axis=0)]
        within_block = suppresses(block, block)
        is_suppressed = np.zeros(len(block), bool)
        for i, position in enumerate(block.tolist()):
            if is_suppressed[i]:
                continue
            selected.append(position)
            if len(selected) >= limit:
                break
            is_suppressed |= within_block[i]
    return np.array(selected, np.int64)


def suppress_overlapping(
    boxes: Array, areas: Array, threshold: np.floating[Any], offset: float = 0.0, limit: int | None = None
) -> Array:
    """Select boxes that do not overlap a selected box by more than a threshold.

    Args:
        boxes: Floating-point, shape [n, 4], in descending order of score.
        areas: Areas of the boxes, [n].
        threshold: Intersection over union above which a box is suppressed.
        offset: Added to each side of an intersection.
        limit: Maximum number of boxes to select; None for no limit.

    Returns:
        The positions of the selected boxes, i64.
    """

    def suppresses(a: Array, b: Array) -> Array:
        return np.asarray(compute_overlaps(boxes[a], boxes[b], areas[a], areas[b], offset) > threshold)

    return run_greedy_nms(len(boxes), suppresses, limit)


def collect_detections(
    selections: list[tuple[list[Array], list[Array]]],
    keep_top_k: int,
    sort_result_type: SortResultType,
    across_batch: bool,
    dtype: np.dtype[Any],
) -> tuple[Array, Array, Array, Array, Array]:
    """Merge the selected boxes of all classes and images.

    The best `keep_top_k` of each image are kept, in descending order of score, then by class and box. Afterwards they
    are sorted as `sort_result_type` states.

    Args:
        selections: For each image the indices of the selected boxes of each class, and their scores.
        keep_top_k: Maximum number of boxes of an image; -1 for no limit.
        sort_result_type: The order of the result.
        across_batch: Whether to sort the boxes of all images together.
        dtype: The type of the scores.

    Returns:
        Image, class, box and score of each detection, and the number of detections of each image.
    """
    parts = [(np.zeros(0, np.int64),) * 3 + (np.zeros(0, dtype),)]
    for number, (boxes, scores) in enumerate(selections):
        box = np.concatenate(boxes) if boxes else np.zeros(0, np.int64)
        score = np.concatenate(scores) if scores else np.zeros(0, dtype)
        label = np.repeat(np.arange(len(boxes)), [len(x) for x in boxes])
        order = np.lexsort((box, label, -score))
        order = order[:keep_top_k] if keep_top_k > -1 else order
        parts.append((np.full(len(order), number), label[order], box[order], score[order]))
    image, label, box, score = (np.concatenate(x) for x in zip(*parts, strict=True))
    counts = np.bincount(image, minlength=len(selections))
    if sort_result_type in ("class", "classid"):
        keys = (box, -score, image, label) if across_batch else (box, -score, label, image)
        order = np.lexsort(keys)
    elif sort_result_type == "score" and across_batch:
        order = np.lexsort((box, label, image, -score))
    else:
        order = np.arange(len(image))
    return image[order], label[order], box[order], score[order], counts
