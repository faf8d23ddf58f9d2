"""Proposals: Proposal, ExperimentalDetectronGenerateProposalsSingleImage, GenerateProposals."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.boxes import greedy_nms, overlaps, refine
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = [
    "experimental_detectron_generate_proposals_single_image_6",
    "generate_proposals_9",
    "proposal_1",
    "proposal_4",
]

#: The largest logarithm of a factor that the Detectron family stretches a box by.
LOG_LIMIT = math.log(1000.0 / 16.0)


@op("Proposal", since=4)
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
    """The best boxes that a region proposal network gives for every image, and their probabilities.

    class_probs: float [N, 2 * anchors, H, W], background then foreground; bbox_deltas: the same type,
    [N, 4 * anchors, H, W]; image_shape: the same type, [3] or [4]: height, width and one or two scales. The
    anchors are every `ratio` with every `scale`.
    Returns the type of class_probs, twice: [N * post_nms_topn, 5] as image, x1, y1, x2, y2, and
    [N * post_nms_topn]; a row that begins with -1 ends the boxes of an image, zeros follow.
    Raises InputError where shapes do not fit the attributes.
    A box smaller than `min_size` gets the score 0 but stays, as in the reference. With framework "tensorflow"
    the image's height limits x, as in OpenVINO's CPU plugin; its reference takes the width.
    Spec: Proposal-4.
    """
    anchors = _anchors(base_size, ratio, scale, framework).astype(class_probs.dtype)
    count = len(anchors)
    images, _, height, width = class_probs.shape if class_probs.ndim == 4 else (0, 0, 0, 0)
    if class_probs.shape != (images, 2 * count, height, width) or bbox_deltas.shape != (
        images,
        4 * count,
        height,
        width,
    ):
        raise InputError(
            f"class_probs have shape {list(class_probs.shape)} and bbox_deltas {list(bbox_deltas.shape)}, "
            f"expected [N, {2 * count}, H, W] and [N, {4 * count}, H, W]"
        )
    if image_shape.size not in (3, 4):
        raise InputError(f"image_shape has {image_shape.size} values, expected 3 or 4")
    dtype = class_probs.dtype.type
    info = image_shape.reshape(-1)
    # With framework "tensorflow" x and y change places: the grid's rows run along x.
    size = info[:2] if framework == "tensorflow" else info[1::-1]
    smallest = dtype(min_size) * info[:1:-1]  # for width, height; one value where the scales are one
    offset = dtype(0 if framework == "tensorflow" else 1)

    marks = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).astype(dtype)
    if framework == "tensorflow":
        marks = marks[..., ::-1]
    boxes = (marks * dtype(feat_stride))[:, :, None, [0, 1, 0, 1]] + anchors
    if framework == "tensorflow":
        boxes = _clip(boxes, size)
    deltas = bbox_deltas.reshape(images, count, 4, height, width).transpose(0, 3, 4, 1, 2)
    scales = np.array([box_coordinate_scale] * 2 + [box_size_scale] * 2, dtype)
    boxes = refine(boxes, deltas / scales, offset, inclusive=False)
    if clip_before_nms:
        boxes = _clip(boxes, size - offset)
    large = (boxes[..., 2:] - boxes[..., :2] + offset >= smallest).all(axis=-1)
    scores = class_probs[:, count:].transpose(0, 2, 3, 1) * large

    check_allocation((images, post_nms_topn, 5), np.dtype(dtype))
    rois = np.zeros((images, post_nms_topn, 5), dtype)
    probabilities = np.zeros((images, post_nms_topn), dtype)
    for image in range(images):
        candidates = boxes[image].reshape(-1, 4)
        own = scores[image].reshape(-1)
        order = np.argsort(-own, kind="stable")[:pre_nms_topn]
        kept = order[_suppress(candidates[order], nms_thresh, post_nms_topn, offset)]
        chosen = _clip(candidates[kept], size) if clip_after_nms else candidates[kept]
        rois[image, : len(kept), 0] = image
        rois[image, : len(kept), 1:] = chosen / np.tile(size, 2) if normalize else chosen
        rois[image, len(kept) : len(kept) + 1, 0] = -1
        probabilities[image, : len(kept)] = own[kept]
    return rois.reshape(-1, 5), probabilities.reshape(-1)


@op("Proposal", since=1)
def proposal_1(
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
) -> Array:
    """The best boxes that a region proposal network gives for every image: Proposal-4 without probabilities.

    class_probs: float [N, 2 * anchors, H, W]; bbox_deltas: the same type, [N, 4 * anchors, H, W];
    image_shape: the same type, [3] or [4].
    Returns the type of class_probs, [N * post_nms_topn, 5].
    Raises InputError where shapes do not fit the attributes.
    Spec: Proposal-1.
    """
    rois, _ = proposal_4(
        class_probs,
        bbox_deltas,
        image_shape,
        base_size=base_size,
        pre_nms_topn=pre_nms_topn,
        post_nms_topn=post_nms_topn,
        nms_thresh=nms_thresh,
        feat_stride=feat_stride,
        min_size=min_size,
        ratio=ratio,
        scale=scale,
        clip_before_nms=clip_before_nms,
        clip_after_nms=clip_after_nms,
        normalize=normalize,
        box_size_scale=box_size_scale,
        box_coordinate_scale=box_coordinate_scale,
        framework=framework,
    )
    return rois


@op("ExperimentalDetectronGenerateProposalsSingleImage", since=6)
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
    """The best boxes of one image, from anchors, their refinements and scores.

    im_info: float [3]: height, width, scale; anchors: [H * W * A, 4]; deltas: [A * 4, H, W];
    scores: [A, H, W]; all of one type.
    Returns the type of the inputs, twice: boxes [post_nms_count, 4] and scores [post_nms_count], zeros at the end.
    Raises InputError where shapes do not fit.
    A box smaller than `min_size` gets the score 0 but stays, as in the reference.
    Spec: ExperimentalDetectronGenerateProposalsSingleImage-6.
    """
    if im_info.size < 2 or scores.ndim != 3:
        raise InputError(f"im_info has {im_info.size} values and scores rank {scores.ndim}, expected 3 and rank 3")
    boxes, own, large = _refined(im_info.reshape(-1), anchors, deltas, scores, min_size, 1.0)
    own = own * large
    order = np.argsort(-own, kind="stable")[:pre_nms_count]
    kept = order[_suppress(boxes[order], nms_threshold, post_nms_count, 0.0)]
    check_allocation((post_nms_count, 4), boxes.dtype)
    rois = np.zeros((post_nms_count, 4), boxes.dtype)
    found = np.zeros(post_nms_count, boxes.dtype)
    rois[: len(kept)], found[: len(kept)] = boxes[kept], own[kept]
    return rois, found


@op("GenerateProposals", since=9)
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
    """The best boxes of every image, from anchors, their refinements and scores.

    im_info: float [N, 3] or [N, 4]: height, width and one or two scales; anchors: [H, W, A, 4];
    deltas: [N, A * 4, H, W]; scores: [N, A, H, W]; all of one type. `nms_eta` is not used, as in the reference.
    Returns boxes [total, 4] and scores [total] in the type of the inputs, and how many each image has, [N].
    Raises InputError where shapes do not fit.
    Spec: GenerateProposals-9.
    """
    if im_info.ndim != 2 or im_info.shape[1] not in (3, 4) or scores.ndim != 4 or len(scores) != len(im_info):
        raise InputError(
            f"im_info has shape {list(im_info.shape)} and scores {list(scores.shape)}, "
            "expected [N, 3 or 4] and [N, A, H, W]"
        )
    if deltas.ndim != 4 or len(deltas) != len(scores):
        raise InputError(f"deltas have shape {list(deltas.shape)}, expected [{len(scores)}, A * 4, H, W]")
    offset = 0.0 if normalized else 1.0
    rois = [np.zeros((0, 4), scores.dtype)]
    found = [np.zeros(0, scores.dtype)]
    for info, own_deltas, own_scores in zip(im_info, deltas, scores, strict=True):
        boxes, own, large = _refined(info, anchors, own_deltas, own_scores, min_size * info[:1:-1], offset)
        order = np.argsort(-own, kind="stable")[:pre_nms_count]
        order = order[large[order]]
        kept = order[_suppress(boxes[order], nms_threshold, post_nms_count, offset)]
        rois.append(boxes[kept])
        found.append(own[kept])
    counts = np.array([len(x) for x in found[1:]], roi_num_type.dtype)
    return np.concatenate(rois), np.concatenate(found), counts


def _anchors(base_size: int, ratio: list[float], scale: list[float], framework: str) -> Array:
    """Boxes around the origin's cell for every ratio with every scale, f32 [ratios * scales, 4]."""
    f32 = np.float32
    ratios, scales = np.array(ratio, f32), np.array(scale, f32)
    offset = f32(0 if framework == "tensorflow" else 1)
    widths = np.sqrt(f32(base_size * base_size) / ratios)
    if framework != "tensorflow":
        widths = np.floor(widths + f32(0.5))
    heights = widths * ratios
    if framework != "tensorflow":
        heights = np.floor(heights + f32(0.5))
    sides = np.stack([widths, heights], axis=-1)[:, None, :] * scales[:, None]
    halves = (f32(0.5) * (sides - offset)).reshape(-1, 2)
    center = f32(0.5) * (f32(base_size) - offset)
    boxes = np.concatenate([center - halves, center + halves], axis=-1)
    return np.asarray(boxes - f32(base_size) * f32(0.5) if framework == "tensorflow" else boxes)


def _clip(boxes: Array, size: Array) -> Array:
    """`boxes` limited to the area from 0 to `size` (width, height)."""
    found: Array = np.maximum(np.minimum(boxes, np.tile(size, 2)), boxes.dtype.type(0))
    return found


def _refined(
    info: Array, anchors: Array, deltas: Array, scores: Array, min_size: Array | float, offset: float
) -> tuple[Array, Array, Array]:
    """Refined boxes [H * W * A, 4] of one image, their scores, and whether they are large enough."""
    count, height, width = scores.shape
    if anchors.size != scores.size * 4 or deltas.shape != (count * 4, height, width):
        raise InputError(
            f"anchors have shape {list(anchors.shape)}, deltas {list(deltas.shape)} and scores {list(scores.shape)}, "
            f"expected {scores.size} anchors and deltas [{count * 4}, {height}, {width}]"
        )
    moves = deltas.reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
    boxes = refine(anchors.reshape(-1, 4), moves, offset, inclusive=True, log_limit=LOG_LIMIT)
    one = boxes.dtype.type(offset)
    boxes = _clip(boxes, info[1::-1] - one)
    smallest = np.asarray(min_size, boxes.dtype)
    large = (boxes[:, 2:] - boxes[:, :2] + one >= smallest).all(axis=-1)
    return boxes, scores.transpose(1, 2, 0).reshape(-1), large


def _suppress(boxes: Array, threshold: float, limit: int, offset: float) -> Array:
    """Positions kept among `boxes` in order of falling score."""
    one = boxes.dtype.type(offset)
    sides = boxes[:, 2:] - boxes[:, :2] + one
    size = sides[:, 0] * sides[:, 1]
    most = boxes.dtype.type(threshold)

    def suppresses(a: Array, b: Array) -> Array:
        found: Array = overlaps(boxes[a], boxes[b], size[a], size[b], offset) > most
        return found

    return greedy_nms(len(boxes), suppresses, limit)
