"""Proposals: Proposal, ExperimentalDetectronGenerateProposalsSingleImage, GenerateProposals."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.boxes import apply_deltas
from irrun.ops._support.checks import check_minimum
from irrun.ops._support.nms import suppress_overlapping
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = [
    "experimental_detectron_generate_proposals_single_image_6",
    "generate_proposals_9",
    "proposal_1",
    "proposal_4",
]

F32 = np.float32

#: The largest logarithm of a scale in the Detectron family.
LOG_LIMIT = math.log(1000.0 / 16.0)


@op("Proposal", since=4, scratch=4, kind="selection", shape="infer_fixed_proposals", output_types=(0, 0))
@compute_in_float32
def proposal_4(
    class_probs: Array,
    bbox_deltas: Array,
    image_shape: Array,
    *,
    base_size: int,
    pre_nms_topn: int,
    post_nms_topn: int,
    nms_thresh: float,
    feat_stride: int,
    min_size: int,
    ratio: list[float],
    scale: list[float],
    clip_before_nms: bool = True,
    clip_after_nms: bool = False,
    normalize: bool = False,
    box_size_scale: float = 1.0,
    box_coordinate_scale: float = 1.0,
    framework: Literal["", "tensorflow"] = "",
) -> tuple[Array, Array]:
    """Select the best boxes of a region proposal network for each image.

    Args:
        class_probs: Floating-point, shape [N, 2 * anchors, H, W]: probabilities of background, then of foreground.
            There is an anchor for each combination of `ratio` and `scale`.
        bbox_deltas: The type of `class_probs`, shape [N, 4 * anchors, H, W].
        image_shape: The type of `class_probs`, shape [3] or [4]: height, width, and one or two scales.
        base_size: Size of the anchors at scale 1.
        pre_nms_topn: Maximum number of boxes of an image before suppression.
        post_nms_topn: Maximum number of boxes of an image after suppression.
        nms_thresh: Intersection over union above which a box is suppressed.
        feat_stride: Distance between cells, in pixels of the image.
        min_size: A box with a side below this value, multiplied by the scale, gets the score 0 but is kept, as in the
            reference implementation.
        ratio: Ratios of height to width of the anchors.
        scale: Scales of the anchors.
        clip_before_nms: Whether boxes are clipped to the image before suppression.
        clip_after_nms: Whether boxes are clipped to the image after suppression.
        normalize: Whether boxes in the result are relative to the size of the image.
        box_size_scale: Divisor of the last two values of `bbox_deltas`.
        box_coordinate_scale: Divisor of the first two values of `bbox_deltas`.
        framework: "tensorflow" swaps x and y and uses other offsets. The height of the image then limits x, as in
            OpenVINO's CPU plugin; the reference implementation uses the width.

    Returns:
        Boxes [N * post_nms_topn, 5] as image, x1, y1, x2, y2, and probabilities [N * post_nms_topn], both in the type
        of `class_probs`. The last box of an image is followed by a row that starts with -1, and then by zeros.
        Proposal-1 returns the boxes only.

    Raises:
        InputError: Shapes do not match the attributes, or a number of boxes is negative.

    Spec:
        Proposal-1, Proposal-4
    """
    check_minimum("pre_nms_topn", pre_nms_topn, 0)
    check_minimum("post_nms_topn", post_nms_topn, 0)
    is_tensorflow = framework == "tensorflow"
    dtype = class_probs.dtype.type
    anchors = _generate_anchors(base_size, ratio, scale, is_tensorflow).astype(dtype)
    count = len(anchors)
    _check_proposal_shapes(class_probs, bbox_deltas, image_shape, count)
    images, _, height, width = class_probs.shape
    info = image_shape.reshape(-1)
    # With framework "tensorflow" x and y are swapped: the rows of the grid are along x.
    size = info[:2] if is_tensorflow else info[1::-1]
    min_sides = dtype(min_size) * info[:1:-1]  # of width and height; one value if there is one scale
    offset = dtype(0 if is_tensorflow else 1)

    cells = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).astype(dtype)
    if is_tensorflow:
        cells = cells[..., ::-1]
    boxes = (cells * dtype(feat_stride))[:, :, None, [0, 1, 0, 1]] + anchors
    if is_tensorflow:
        boxes = _clip_to_image(boxes, size)
    deltas = bbox_deltas.reshape(images, count, 4, height, width).transpose(0, 3, 4, 1, 2)
    divisors = np.array([box_coordinate_scale] * 2 + [box_size_scale] * 2, dtype)
    boxes = apply_deltas(boxes, deltas / divisors, offset, inclusive=False)
    if clip_before_nms:
        boxes = _clip_to_image(boxes, size - offset)
    is_large = (boxes[..., 2:] - boxes[..., :2] + offset >= min_sides).all(axis=-1)
    scores = class_probs[:, count:].transpose(0, 2, 3, 1) * is_large

    check_allocation((images, post_nms_topn, 5), np.dtype(dtype))
    rois = np.zeros((images, post_nms_topn, 5), dtype)
    probabilities = np.zeros((images, post_nms_topn), dtype)
    for image in within_time(range(images)):
        image_boxes = boxes[image].reshape(-1, 4)
        image_scores = scores[image].reshape(-1)
        order = np.argsort(-image_scores, kind="stable")[:pre_nms_topn]
        selected = order[_suppress(image_boxes[order], nms_thresh, post_nms_topn, offset)]
        best = _clip_to_image(image_boxes[selected], size) if clip_after_nms else image_boxes[selected]
        rois[image, : len(selected), 0] = image
        rois[image, : len(selected), 1:] = best / np.tile(size, 2) if normalize else best
        rois[image, len(selected) : len(selected) + 1, 0] = -1
        probabilities[image, : len(selected)] = image_scores[selected]
    return rois.reshape(-1, 5), probabilities.reshape(-1)


def _keep_first_output(kernel: Callable[..., tuple[Array, ...]], name: str) -> Callable[..., Array]:
    """Derive a kernel that returns only the first output of `kernel` and has the same parameters and documentation."""

    @functools.wraps(kernel)
    def wrapper(*inputs: Array, **attributes: Any) -> Array:
        return kernel(*inputs, **attributes)[0]

    wrapper.__name__ = wrapper.__qualname__ = name
    signature = inspect.signature(kernel).replace(return_annotation="Array")
    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    return wrapper


proposal_1 = op("Proposal", since=1, scratch=4, kind="selection", shape="infer_fixed_proposals")(
    _keep_first_output(proposal_4, "proposal_1")
)


@op(
    "ExperimentalDetectronGenerateProposalsSingleImage",
    since=6,
    scratch=2.5,
    kind="selection",
    shape="infer_detectron_proposals",
    output_types=(0, 0),
)
@compute_in_float32
def experimental_detectron_generate_proposals_single_image_6(
    im_info: Array,
    anchors: Array,
    deltas: Array,
    scores: Array,
    *,
    min_size: float,
    nms_threshold: float,
    post_nms_count: int,
    pre_nms_count: int,
) -> tuple[Array, Array]:
    """Select the best boxes of one image from anchors, their deltas and scores.

    Args:
        im_info: Floating-point, shape [3]: height, width, scale.
        anchors: The type of `im_info`, shape [H * W * A, 4].
        deltas: The type of `im_info`, shape [A * 4, H, W].
        scores: The type of `im_info`, shape [A, H, W].
        min_size: A box with a side below this value gets the score 0 but is kept, as in the reference implementation.
        nms_threshold: Intersection over union above which a box is suppressed.
        post_nms_count: Number of rows of the result.
        pre_nms_count: Maximum number of boxes before suppression.

    Returns:
        Boxes [post_nms_count, 4] and scores [post_nms_count] in the type of the inputs, followed by zeros.

    Raises:
        InputError: Shapes do not match, or a number of boxes is negative.

    Spec:
        ExperimentalDetectronGenerateProposalsSingleImage-6
    """
    check_minimum("pre_nms_count", pre_nms_count, 0)
    check_minimum("post_nms_count", post_nms_count, 0)
    if im_info.size < 2 or scores.ndim != 3:
        raise InputError(
            f"im_info has {im_info.size} values and scores have rank {scores.ndim}, expected 3 values and rank 3"
        )
    boxes, box_scores, is_large = _refine_anchors(im_info.reshape(-1), anchors, deltas, scores, min_size, 1.0)
    box_scores = box_scores * is_large
    order = np.argsort(-box_scores, kind="stable")[:pre_nms_count]
    selected = order[_suppress(boxes[order], nms_threshold, post_nms_count, 0.0)]
    check_allocation((post_nms_count, 4), boxes.dtype)
    out_boxes = np.zeros((post_nms_count, 4), boxes.dtype)
    out_scores = np.zeros(post_nms_count, boxes.dtype)
    out_boxes[: len(selected)], out_scores[: len(selected)] = boxes[selected], box_scores[selected]
    return out_boxes, out_scores


@op(
    "GenerateProposals",
    since=9,
    scratch=2.5,
    kind="selection",
    shape="infer_proposals",
    output_types=(0, 0, "roi_num_type"),
)
@compute_in_float32
def generate_proposals_9(
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
    """Select the best boxes of each image from anchors, their deltas and scores.

    Args:
        im_info: Floating-point, shape [N, 3] or [N, 4]: height, width, and one or two scales.
        anchors: The type of `im_info`, shape [H, W, A, 4].
        deltas: The type of `im_info`, shape [N, A * 4, H, W].
        scores: The type of `im_info`, shape [N, A, H, W].
        min_size: Boxes with a side below this value, multiplied by the scale, are removed.
        nms_threshold: Intersection over union above which a box is suppressed.
        pre_nms_count: Maximum number of boxes of an image before suppression.
        post_nms_count: Maximum number of boxes of an image after suppression.
        normalized: Whether the side of a box is the difference of its coordinates; otherwise 1 is added.
        nms_eta: Not used, as in the reference implementation.
        roi_num_type: Element type of the third output.

    Returns:
        Boxes [total, 4] and scores [total] in the type of the inputs, and the number of boxes of each image, [N].

    Raises:
        InputError: Shapes do not match, or a number of boxes is negative.

    Spec:
        GenerateProposals-9
    """
    check_minimum("pre_nms_count", pre_nms_count, 0)
    check_minimum("post_nms_count", post_nms_count, 0)
    if im_info.ndim != 2 or im_info.shape[1] not in (3, 4) or scores.ndim != 4 or len(scores) != len(im_info):
        raise InputError(
            f"im_info has shape {list(im_info.shape)} and scores {list(scores.shape)}, "
            "expected [N, 3 or 4] and [N, A, H, W]"
        )
    if deltas.ndim != 4 or len(deltas) != len(scores):
        raise InputError(f"deltas has shape {list(deltas.shape)}, expected [{len(scores)}, A * 4, H, W]")
    offset = 0.0 if normalized else 1.0
    box_parts = [np.zeros((0, 4), scores.dtype)]
    score_parts = [np.zeros(0, scores.dtype)]
    for info, image_deltas, image_scores in within_time(zip(im_info, deltas, scores, strict=True)):
        min_sides = min_size * info[:1:-1]
        boxes, box_scores, is_large = _refine_anchors(info, anchors, image_deltas, image_scores, min_sides, offset)
        order = np.argsort(-box_scores, kind="stable")[:pre_nms_count]
        order = order[is_large[order]]
        selected = order[_suppress(boxes[order], nms_threshold, post_nms_count, offset)]
        box_parts.append(boxes[selected])
        score_parts.append(box_scores[selected])
    counts = np.array([len(x) for x in score_parts[1:]], roi_num_type.dtype)
    return np.concatenate(box_parts), np.concatenate(score_parts), counts


def _check_proposal_shapes(class_probs: Array, bbox_deltas: Array, image_shape: Array, anchors: int) -> None:
    images, _, height, width = class_probs.shape if class_probs.ndim == 4 else (0, 0, 0, 0)
    if class_probs.shape != (images, 2 * anchors, height, width) or bbox_deltas.shape != (
        images,
        4 * anchors,
        height,
        width,
    ):
        raise InputError(
            f"class_probs has shape {list(class_probs.shape)} and bbox_deltas {list(bbox_deltas.shape)}, "
            f"expected [N, {2 * anchors}, H, W] and [N, {4 * anchors}, H, W]"
        )
    if image_shape.size not in (3, 4):
        raise InputError(f"image_shape has {image_shape.size} values, expected 3 or 4")


def _generate_anchors(base_size: int, ratio: list[float], scale: list[float], is_tensorflow: bool) -> Array:
    """Return a box around the cell at the origin for each ratio and scale, f32 [ratios * scales, 4]."""
    ratios, scales = np.array(ratio, F32), np.array(scale, F32)
    offset = F32(0 if is_tensorflow else 1)
    widths = np.sqrt(F32(base_size * base_size) / ratios)
    if not is_tensorflow:
        widths = np.floor(widths + F32(0.5))
    heights = widths * ratios
    if not is_tensorflow:
        heights = np.floor(heights + F32(0.5))
    sides = np.stack([widths, heights], axis=-1)[:, None, :] * scales[:, None]
    half_sides = (F32(0.5) * (sides - offset)).reshape(-1, 2)
    center = F32(0.5) * (F32(base_size) - offset)
    boxes = np.concatenate([center - half_sides, center + half_sides], axis=-1)
    return np.asarray(boxes - F32(base_size) * F32(0.5) if is_tensorflow else boxes)


def _clip_to_image(boxes: Array, size: Array) -> Array:
    """Clip boxes to the area from 0 to `size` (width, height)."""
    return np.asarray(np.maximum(np.minimum(boxes, np.tile(size, 2)), boxes.dtype.type(0)))


def _refine_anchors(
    info: Array, anchors: Array, deltas: Array, scores: Array, min_sides: Array | float, offset: float
) -> tuple[Array, Array, Array]:
    """Return the refined boxes [H * W * A, 4] of one image, their scores, and whether they are large enough."""
    count, height, width = scores.shape
    if anchors.size != scores.size * 4 or deltas.shape != (count * 4, height, width):
        raise InputError(
            f"anchors has shape {list(anchors.shape)}, deltas {list(deltas.shape)} and scores {list(scores.shape)}, "
            f"expected {scores.size} anchors and deltas of shape [{count * 4}, {height}, {width}]"
        )
    cell_deltas = deltas.reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
    boxes = apply_deltas(anchors.reshape(-1, 4), cell_deltas, offset, inclusive=True, log_limit=LOG_LIMIT)
    increment = boxes.dtype.type(offset)
    boxes = _clip_to_image(boxes, info[1::-1] - increment)
    is_large = (boxes[:, 2:] - boxes[:, :2] + increment >= np.asarray(min_sides, boxes.dtype)).all(axis=-1)
    return boxes, scores.transpose(1, 2, 0).reshape(-1), is_large


def _suppress(boxes: Array, threshold: float, limit: int, offset: float) -> Array:
    """Return the positions of the boxes that are selected; boxes are in descending order of score."""
    sides = boxes[:, 2:] - boxes[:, :2] + boxes.dtype.type(offset)
    return suppress_overlapping(boxes, sides[:, 0] * sides[:, 1], boxes.dtype.type(threshold), offset, limit)
