"""MulticlassNms: greedy suppression per class, with an adaptive threshold and limits per class and image."""

from __future__ import annotations

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.ops._support.boxes import compute_overlaps
from irrun.ops._support.nms import BLOCK_SIZE, SortResultType, collect_detections, run_greedy_nms
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["multiclass_nms_8"]


@op(
    "MulticlassNms",
    since=8,
    kind="selection",
    shape="infer_class_suppression",
    aliases=("MulticlassNonMaxSuppression",),
    output_types=(0, "output_type", "output_type"),
)
@op(
    "MulticlassNms",
    since=9,
    kind="selection",
    shape="infer_class_suppression",
    output_types=(0, "output_type", "output_type"),
)
@compute_in_float32
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
    """Select the boxes of each class and image that do not overlap better boxes of the same class too much.

    Args:
        boxes: Floating-point, shape [N, boxes, 4]: x1, y1, x2, y2. Version 9 also accepts [classes, all boxes, 4].
        scores: The type of `boxes`, shape [N, classes, boxes], or [classes, all boxes] in version 9.
        roisnum: Number of boxes of each image, integer [N]. Required for scores of rank 2.
        sort_result_type: The order of the result. By default the boxes of each image are in descending order of
            score.
        sort_result_across_batch: Whether the boxes of all images are sorted together.
        output_type: Element type of the second and third outputs, i32 or i64.
        iou_threshold: A box is suppressed if its intersection over union is at least this value.
        score_threshold: Boxes with scores below it are ignored.
        nms_top_k: Maximum number of boxes of a class before suppression; -1 for no limit.
        keep_top_k: Maximum number of boxes of an image; -1 for no limit.
        background_class: The class that is ignored; -1 for none.
        normalized: Whether the side of a box is the difference of its coordinates; otherwise 1 is added.
        nms_eta: In [0, 1), the factor of `iou_threshold` after each selected box, as long as the threshold is above
            0.5. Other values have no effect.

    Returns:
        Class, score and corners [selected, 6] in the type of `boxes`; image * boxes + box, or for scores of rank 2
        box * classes + class [selected, 1]; and the number of selected boxes of each image [N].

    Raises:
        InputError: Shapes do not match.

    Spec:
        MulticlassNms-8, MulticlassNms-9
    """
    is_shared = scores.ndim == 3  # all classes share the boxes
    starts, counts = _locate_images(boxes, scores, roisnum)
    selections: list[tuple[list[Array], list[Array]]] = []
    for image, (start, count) in enumerate(zip(starts, counts, strict=True)):
        kept_boxes, kept_scores = [], []
        for label in within_time(range(scores.shape[-2] if scores.size else 0)):
            if is_shared:
                class_boxes, class_scores = boxes[image], scores[image, label]
            else:
                part = slice(start, start + count)
                class_boxes, class_scores = boxes[label, part], scores[label, part]
            candidates = np.flatnonzero(class_scores >= np.float32(score_threshold))
            if label == background_class:
                candidates = candidates[:0]
            candidates = candidates[np.argsort(-class_scores[candidates], kind="stable")]
            candidates = candidates[:nms_top_k] if nms_top_k > -1 else candidates
            selected = candidates[
                _suppress(class_boxes[candidates], iou_threshold, nms_eta, 0.0 if normalized else 1.0)
            ]
            kept_boxes.append(selected)
            kept_scores.append(class_scores[selected])
        selections.append((kept_boxes, kept_scores))
    images, labels, indices, best_scores, kept_counts = collect_detections(
        selections, keep_top_k, sort_result_type, sort_result_across_batch, boxes.dtype
    )
    if is_shared:
        corners = boxes[images, indices]
        positions = images * boxes.shape[1] + indices
    else:
        corners = boxes[labels, starts[images] + indices]
        positions = (starts[images] + indices) * len(scores) + labels
    outputs = np.concatenate([labels[:, None].astype(boxes.dtype), best_scores[:, None], corners], axis=1)
    return outputs, positions[:, None].astype(output_type.dtype), kept_counts.astype(output_type.dtype)


def _locate_images(boxes: Array, scores: Array, roisnum: Array | None) -> tuple[Array, Array]:
    """Return the first box of each image and their number.

    Raises:
        InputError: Shapes do not match, or `roisnum` is missing or too large.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim not in (2, 3) or boxes.shape[1] != scores.shape[-1]:
        raise InputError(
            f"boxes has shape {list(boxes.shape)} and scores {list(scores.shape)}, "
            "expected [N, boxes, 4] and [N, classes, boxes], or [classes, boxes, 4] and [classes, boxes]"
        )
    if boxes.shape[0] != scores.shape[0]:
        raise InputError(f"boxes have {len(boxes)} rows and scores {len(scores)}, expected equal numbers")
    if scores.ndim == 3:
        return np.zeros(len(boxes), np.int64), np.full(len(boxes), boxes.shape[1])
    if roisnum is None:
        raise InputError("scores have rank 2, which requires roisnum")
    counts = np.maximum(roisnum.reshape(-1).astype(np.int64), 0)
    if counts.sum() > boxes.shape[1]:
        raise InputError(f"the values of roisnum add up to {counts.sum()}, expected at most {boxes.shape[1]} boxes")
    return np.cumsum(counts) - counts, counts


def _suppress(boxes: Array, threshold: float, eta: float, offset: float) -> Array:
    """Return the positions of the boxes that are selected; boxes are in descending order of score."""
    sides = boxes[:, 2:] - boxes[:, :2] + boxes.dtype.type(offset)
    areas = sides[:, 0] * sides[:, 1]
    has_area = areas > 0

    def compare(a: Array, b: Array) -> Array:
        overlaps = compute_overlaps(boxes[a], boxes[b], areas[a], areas[b], offset, ignore_disjoint=False)
        return np.where(has_area[a][:, None] & has_area[b], overlaps, 0)

    limit = np.float32(threshold)
    if not 0 <= eta < 1:
        return run_greedy_nms(len(boxes), lambda a, b: compare(a, b) >= limit)

    # The threshold decreases with each selected box, so the boxes are tested one after the other.
    positions = np.arange(len(boxes))
    max_overlaps = np.full(len(boxes), -np.inf, boxes.dtype)  # with the boxes selected so far
    selected: list[int] = []
    for start in within_time(range(0, len(boxes), BLOCK_SIZE)):
        block = positions[start : start + BLOCK_SIZE]
        overlaps = compare(block, positions)
        for i, position in enumerate(block.tolist()):
            if max_overlaps[position] >= limit:
                continue
            selected.append(position)
            np.maximum(max_overlaps, overlaps[i], out=max_overlaps)
            if limit > 0.5:
                limit = limit * np.float32(eta)
    return np.array(selected, np.int64)
