"""Selections of boxes with outputs of static shapes, padded with -1 or 0."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.nms import SortResultType
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.ops.detection.proposal import generate_proposals_9
from irrun.ops.sort.matrix_nms import matrix_nms_8
from irrun.ops.sort.multiclass_nms import multiclass_nms_8
from irrun.ops.sort.non_max_suppression import nms_rotated_13, non_max_suppression_5

__all__ = [
    "generate_proposals_ie_internal",
    "matrix_nms_static",
    "multiclass_nms_static",
    "non_max_suppression_ie_internal",
]

_class_suppression = partial(
    op,
    opset="ie_internal_opset",
    kind="selection",
    shape="infer_class_suppression",
    output_types=(0, "output_type", "output_type"),
)


@op("NonMaxSuppressionIEInternal", opset="ie_internal_opset", kind="selection", shape="infer_suppression")
@describes_like(non_max_suppression_5)
def non_max_suppression_ie_internal(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array,
    iou_threshold: Array,
    score_threshold: Array,
    soft_nms_sigma: Array | None = None,
    *,
    center_point_box: int = 0,
    sort_result_descending: bool = True,
    output_type: ElementType = ELEMENT_TYPES["i64"],
    score_output_type: ElementType = ELEMENT_TYPES["f32"],
    rotation: int = 0,
) -> tuple[Array, Array, Array]:
    """Run NonMaxSuppression-9, or NMSRotated-13 if `rotation` is not 0, with outputs of static shapes.

    Args:
        boxes: Floating-point, shape [N, boxes, 4]: two opposite corners, or the center and the sides if
            `center_point_box` is true. Shape [N, boxes, 5] with an angle in radians after them if `rotation` is not 0.
        center_point_box: Whether boxes are centers and sizes instead of corners.
        sort_result_descending: Whether all selected boxes are sorted by score.
        output_type: Type of the indices and of the number.
        score_output_type: Type of the scores.
        rotation: 0 for boxes without angles, 1 for clockwise angles, 2 for counterclockwise ones.

    Returns:
        The selected indices and scores, shape [min(boxes, max_output_boxes_per_class) * classes * batches, 3] each,
        padded with -1, and their number, shape [1]. A negative number of boxes per class means no limit, as in the
        reference implementation of NonMaxSuppression.

    Spec:
        Defined by ov_ops/nms_ie_internal.hpp; the CPU plugin's non_max_suppression.cpp defines the padding
    """
    limits = max_output_boxes_per_class, iou_threshold, score_threshold
    if rotation:
        indices, selected, count = nms_rotated_13(
            boxes, scores, *limits, sort_result_descending=sort_result_descending, clockwise=rotation == 1
        )
    else:
        indices, selected, count = non_max_suppression_5(
            boxes,
            scores,
            *limits,
            soft_nms_sigma,
            box_encoding="center" if center_point_box else "corner",
            sort_result_descending=sort_result_descending,
        )
    limit = int(to_scalar(max_output_boxes_per_class, "max_output_boxes_per_class"))
    per_class = boxes.shape[1] if limit < 0 else min(boxes.shape[1], limit)
    length = per_class * scores.shape[1] * scores.shape[0]
    return (
        _pad_rows(indices, length).astype(output_type.dtype),
        _pad_rows(selected, length).astype(score_output_type.dtype),
        count.reshape(1).astype(output_type.dtype),
    )


@_class_suppression("MatrixNms")
@describes_like(matrix_nms_8)
def matrix_nms_static(
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
    decay_function: Literal["gaussian", "linear"] = "linear",
    gaussian_sigma: float = 2.0,
    post_threshold: float = 0.0,
    normalized: bool = True,
) -> tuple[Array, Array, Array]:
    """Run MatrixNms-8 with outputs of static shapes.

    Returns:
        The outputs of MatrixNms-8, with the rows of each batch padded with -1.

    Spec:
        Defined by ov_ops/nms_static_shape_ie.hpp; the CPU plugin's matrix_nms.cpp defines the padding
    """
    outputs = matrix_nms_8(
        boxes,
        scores,
        sort_result_type=sort_result_type,
        sort_result_across_batch=sort_result_across_batch,
        output_type=output_type,
        score_threshold=score_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        background_class=background_class,
        decay_function=decay_function,
        gaussian_sigma=gaussian_sigma,
        post_threshold=post_threshold,
        normalized=normalized,
    )
    return _pad_batches(
        outputs, _count_rows_per_batch(boxes.shape[1], scores.shape[1], background_class, nms_top_k, keep_top_k)
    )


@_class_suppression("MulticlassNms")
@_class_suppression("MulticlassNmsIEInternal")
@describes_like(multiclass_nms_8)
def multiclass_nms_static(
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
    nms_eta: float = 1.0,
    normalized: bool = True,
) -> tuple[Array, Array, Array]:
    """Run MulticlassNms-9 with outputs of static shapes.

    Returns:
        The outputs of MulticlassNms-9, with the rows of each batch padded with -1.

    Spec:
        Defined by ov_ops/multiclass_nms_ie_internal.hpp; the CPU plugin's multiclass_nms.cpp defines the padding
    """
    outputs = multiclass_nms_8(
        boxes,
        scores,
        roisnum,
        sort_result_type=sort_result_type,
        sort_result_across_batch=sort_result_across_batch,
        output_type=output_type,
        iou_threshold=iou_threshold,
        score_threshold=score_threshold,
        nms_top_k=nms_top_k,
        keep_top_k=keep_top_k,
        background_class=background_class,
        nms_eta=nms_eta,
        normalized=normalized,
    )
    classes = scores.shape[1] if roisnum is None else scores.shape[0]
    return _pad_batches(
        outputs, _count_rows_per_batch(boxes.shape[1], classes, background_class, nms_top_k, keep_top_k)
    )


def _count_rows_per_batch(boxes: int, classes: int, background_class: int, nms_top_k: int, keep_top_k: int) -> int:
    """Return the number of rows of the outputs for one batch."""
    if 0 <= background_class < classes:
        classes = max(1, classes - 1)
    per_class = min(boxes, nms_top_k) if nms_top_k >= 0 else boxes
    rows = per_class * classes
    return min(rows, keep_top_k) if keep_top_k >= 0 else rows


def _pad_batches(outputs: tuple[Array, Array, Array], length: int) -> tuple[Array, Array, Array]:
    """Pad the rows of each batch to `length`."""
    selected, indices, counts = outputs
    stops = np.cumsum(counts, dtype=np.int64)
    ranges = list(zip(stops - counts, stops, strict=True))
    if not ranges:
        return outputs
    return (
        np.concatenate([_pad_rows(selected[start:stop], length) for start, stop in ranges]),
        np.concatenate([_pad_rows(indices[start:stop], length) for start, stop in ranges]),
        counts,
    )


@op(
    "GenerateProposalsIEInternal",
    opset="ie_internal_opset",
    kind="selection",
    shape="infer_static_proposals",
    output_types=(0, 0, "roi_num_type"),
)
@describes_like(generate_proposals_9)
def generate_proposals_ie_internal(
    im_info: Array,
    anchors: Array,
    deltas: Array,
    scores: Array,
    *,
    min_size: float,
    nms_threshold: float,
    pre_nms_count: int,
    post_nms_count: int,
    normalized: bool = True,
    nms_eta: float = 1.0,
    roi_num_type: ElementType = ELEMENT_TYPES["i64"],
) -> tuple[Array, Array, Array]:
    """Run GenerateProposals-9 with outputs of static shapes.

    Returns:
        Boxes [N * post_nms_count, 4] and scores [N * post_nms_count] of all images one after another, then 0,
        and the number of boxes of each image, [N].

    Spec:
        Defined by ov_ops/generate_proposals_ie_internal.hpp; the GPU plugin's generate_proposals_ref.cl defines the
        padding
    """
    boxes, box_scores, counts = generate_proposals_9(
        im_info,
        anchors,
        deltas,
        scores,
        min_size=min_size,
        nms_threshold=nms_threshold,
        pre_nms_count=pre_nms_count,
        post_nms_count=post_nms_count,
        normalized=normalized,
        nms_eta=nms_eta,
        roi_num_type=roi_num_type,
    )
    length = len(im_info) * post_nms_count
    return _pad_rows(boxes, length, 0), _pad_rows(box_scores, length, 0), counts


def _pad_rows(rows: Array, length: int, padding: int = -1) -> Array:
    """Cut `rows` or pad them to `length` rows."""
    check_allocation((length, *rows.shape[1:]), rows.dtype)
    result = np.full((length, *rows.shape[1:]), padding, rows.dtype)
    count = min(length, rows.shape[0])
    result[:count] = rows[:count]
    return result
