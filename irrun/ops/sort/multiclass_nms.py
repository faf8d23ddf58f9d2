"""MulticlassNms: greedy suppression per class, with a threshold that may fall, and limits per class and image."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.boxes import BLOCK, greedy_nms, overlaps
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op
from irrun.ops.sort.matrix_nms import SortResultType, collect

__all__ = ["multiclass_nms_8"]


@op("MulticlassNms", since=8)
@op("MulticlassNms", since=9)
def multiclass_nms_8(
    boxes: Array,
    scores: Array,
    roisnum: Array | None = None,
    *,
    sort_result_type: SortResultType = "none",
    sort_result_across_batch: bool = False,
    output_type: ElementType = ELEMENT_TYPES["i64"],
    iou_threshold: float = 0.0,
    score_threshold: float = 0.0,
    nms_top_k: int = -1,
    keep_top_k: int = -1,
    background_class: int = -1,
    normalized: bool = True,
    nms_eta: float = 1.0,
) -> tuple[Array, Array, Array]:
    """The boxes of every class of every image that no better box of that class overlaps too much.

    boxes: float [N, boxes, 4] as x1, y1, x2, y2 with scores of the same type [N, classes, boxes]; or, in version 9,
    boxes [classes, all boxes, 4] with scores [classes, all boxes] and roisnum, integer [N]: how many of the boxes
    belong to each image.
    Returns [selected, 6] in the type of boxes: class, score, corners; i32 or i64 [selected, 1]: image * boxes + box
    (or box * classes + class); and how many each image has, [N]. Each image's are in order of falling score, or as
    `sort_result_type` says.
    Raises InputError where shapes do not fit.
    Spec: MulticlassNms-8, MulticlassNms-9.
    """
    wide_boxes, wide_scores = upcast(boxes), upcast(scores)
    shared = scores.ndim == 3
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim not in (2, 3) or boxes.shape[1] != scores.shape[-1]:
        raise InputError(
            f"boxes have shape {list(boxes.shape)} and scores {list(scores.shape)}, "
            "expected [N, boxes, 4] and [N, classes, boxes], or [classes, boxes, 4] and [classes, boxes]"
        )
    if boxes.shape[0] != scores.shape[0] or (not shared and roisnum is None):
        raise InputError(f"{len(boxes)} sets of boxes, {len(scores)} of scores; scores of rank 2 need roisnum")
    starts = np.zeros(len(boxes), np.int64)
    if not shared and roisnum is not None:
        numbers = np.maximum(roisnum.reshape(-1).astype(np.int64), 0)
        starts = np.cumsum(numbers) - numbers
        if numbers.sum() > boxes.shape[1]:
            raise InputError(f"roisnum add up to {numbers.sum()}, but there are {boxes.shape[1]} boxes")

    found: list[tuple[list[Array], list[Array]]] = []
    for image, start in enumerate(starts):
        kept_boxes, kept_scores = [], []
        for label in range(scores.shape[-2]):
            if shared:
                corners, own = wide_boxes[image], wide_scores[image, label]
            else:
                part = slice(start, start + numbers[image])
                corners, own = wide_boxes[label, part], wide_scores[label, part]
            candidates = np.flatnonzero(own >= np.float32(score_threshold))
            if label == background_class:
                candidates = candidates[:0]
            candidates = candidates[np.argsort(-own[candidates], kind="stable")]
            candidates = candidates[:nms_top_k] if nms_top_k > -1 else candidates
            chosen = _suppress(corners[candidates], iou_threshold, nms_eta, 0.0 if normalized else 1.0)
            kept_boxes.append(candidates[chosen])
            kept_scores.append(own[candidates[chosen]])
        found.append((kept_boxes, kept_scores))
    dtype = wide_boxes.dtype
    image_of, label_of, box, score, counts = collect(
        found, keep_top_k, sort_result_type, sort_result_across_batch, dtype
    )
    if shared:
        corners = wide_boxes[image_of, box]
        indices = image_of * boxes.shape[1] + box
    else:
        corners = wide_boxes[label_of, starts[image_of] + box]
        indices = (starts[image_of] + box) * len(scores) + label_of
    outputs = np.concatenate([label_of[:, None].astype(dtype), score[:, None], corners], axis=1).astype(boxes.dtype)
    return outputs, indices[:, None].astype(output_type.dtype), counts.astype(output_type.dtype)


def _suppress(corners: Array, threshold: float, eta: float, offset: float) -> Array:
    """Positions kept among boxes in order of falling score."""
    sides = corners[:, 2:] - corners[:, :2] + corners.dtype.type(offset)
    sizes = sides[:, 0] * sides[:, 1]
    solid = sizes > 0

    def shared(a: Array, b: Array) -> Array:
        found = overlaps(corners[a], corners[b], sizes[a], sizes[b], offset, touching=False)
        return np.where(solid[a][:, None] & solid[b], found, 0)

    limit = np.float32(threshold)
    if not 0 <= eta < 1:
        return greedy_nms(len(corners), lambda a, b: shared(a, b) >= limit)

    # The threshold falls with every box that is kept, so that each must be judged in its turn.
    everything = np.arange(len(corners))
    largest = np.full(len(corners), -np.inf, corners.dtype)  # overlap of each box with those kept so far
    kept: list[int] = []
    for start in range(0, len(corners), BLOCK):
        block = everything[start : start + BLOCK]
        rows = shared(block, everything)
        for i, position in enumerate(block.tolist()):
            if largest[position] >= limit:
                continue
            kept.append(position)
            np.maximum(largest, rows[i], out=largest)
            if limit > 0.5:
                limit = limit * np.float32(eta)
    return np.array(kept, np.int64)
