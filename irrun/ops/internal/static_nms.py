"""Non-maximum suppressions whose outputs have a shape known beforehand, filled up with -1."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.limits import check_allocation
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op
from irrun.ops.sort.matrix_nms import SortResultType, matrix_nms_8
from irrun.ops.sort.multiclass_nms import multiclass_nms_8
from irrun.ops.sort.non_max_suppression import nms_rotated_13, non_max_suppression_5

__all__ = ["matrix_nms_static", "multiclass_nms_static", "non_max_suppression_ie_internal"]


def _filled(rows: Array, length: int) -> Array:
    """`rows` cut or filled up with -1 to `length` rows."""
    check_allocation((length, *rows.shape[1:]), rows.dtype)
    result = np.full((length, *rows.shape[1:]), -1, rows.dtype)
    kept = min(length, rows.shape[0])
    result[:kept] = rows[:kept]
    return result


@op("NonMaxSuppressionIEInternal", opset="ie_internal_opset")
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
    """NonMaxSuppression-9, or with `rotation` NMSRotated-13, with outputs of a fixed shape.

    Inputs are those of NonMaxSuppression-9; rotation 1 means clockwise angles, 2 counterclockwise ones.
    Returns the selected indices and scores, [min(boxes, max_output_boxes_per_class) * classes * batches, 3] each,
    filled up with -1, and their number [1].
    Raises InputError where NonMaxSuppression-9 does.
    Defined by ov_ops/nms_ie_internal.hpp and, what fills it up, the CPU plugin's non_max_suppression.cpp.
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
    per_class = min(boxes.shape[1], max(int(to_scalar(max_output_boxes_per_class, "max_output_boxes_per_class")), 0))
    length = per_class * scores.shape[1] * scores.shape[0]
    return (
        _filled(indices, length).astype(output_type.dtype),
        _filled(selected, length).astype(score_output_type.dtype),
        count.reshape(1).astype(output_type.dtype),
    )


def _per_batch(outputs: tuple[Array, Array, Array], length: int) -> tuple[Array, Array, Array]:
    """The rows of each batch in `length` rows of their own, filled up with -1."""
    selected, indices, counts = outputs
    ends = np.cumsum(counts, dtype=np.int64)
    parts = list(zip(ends - counts, ends, strict=True))
    if not parts:
        return outputs
    return (
        np.concatenate([_filled(selected[a:b], length) for a, b in parts]),
        np.concatenate([_filled(indices[a:b], length) for a, b in parts]),
        counts,
    )


def _boxes_per_batch(boxes: int, classes: int, background_class: int, nms_top_k: int, keep_top_k: int) -> int:
    """How many rows of the outputs one batch takes."""
    if 0 <= background_class < classes:
        classes = max(1, classes - 1)
    per_class = min(boxes, nms_top_k) if nms_top_k >= 0 else boxes
    rows = per_class * classes
    return min(rows, keep_top_k) if keep_top_k >= 0 else rows


@op("MatrixNms", opset="ie_internal_opset")
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
    """MatrixNms-8 with outputs of a fixed shape.

    Inputs and attributes are those of MatrixNms-8.
    Returns what it does, the rows of each batch filled up with -1.
    Raises InputError where MatrixNms-8 does.
    Defined by ov_ops/nms_static_shape_ie.hpp and, what fills it up, the CPU plugin's matrix_nms.cpp.
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
    return _per_batch(
        outputs, _boxes_per_batch(boxes.shape[1], scores.shape[1], background_class, nms_top_k, keep_top_k)
    )


@op("MulticlassNms", opset="ie_internal_opset")
@op("MulticlassNmsIEInternal", opset="ie_internal_opset")
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
    """MulticlassNms-9 with outputs of a fixed shape.

    Inputs and attributes are those of MulticlassNms-9.
    Returns what it does, the rows of each batch filled up with -1.
    Raises InputError where MulticlassNms-9 does.
    Defined by ov_ops/multiclass_nms_ie_internal.hpp and, what fills it up, the CPU plugin's multiclass_nms.cpp.
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
    return _per_batch(outputs, _boxes_per_batch(boxes.shape[1], classes, background_class, nms_top_k, keep_top_k))
