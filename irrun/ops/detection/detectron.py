"""The Detectron family: prior grids, features of regions from a pyramid, final detections."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.boxes import greedy_nms, overlaps, refine
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops.detection.roi import axis_samples, channels_last, pool_samples, sample_counts, sample_grid

__all__ = [
    "experimental_detectron_detection_output_6",
    "experimental_detectron_prior_grid_generator_6",
    "experimental_detectron_roi_feature_extractor_6",
]

F32 = np.float32


@op("ExperimentalDetectronPriorGridGenerator", since=6)
@compute_in_float32
def experimental_detectron_prior_grid_generator_6(
    priors: Array,
    feature_map: Array,
    im_data: Array,
    *,
    flatten: bool = True,
    h: int = 0,
    w: int = 0,
    stride_x: float = 0.0,
    stride_y: float = 0.0,
) -> Array:
    """Every prior around every cell of a grid.

    priors: float [P, 4]; feature_map: the same type, [1, C, H, W], and im_data: [1, C, height, width], of which
    only the shapes count. The grid is h x w, or that of feature_map where these are 0; the strides are what fits
    im_data, where they are 0.
    Returns the type of priors, [H * W * P, 4] with `flatten`, [H, W, P, 4] without; a grid smaller than
    feature_map fills the front, zeros follow.
    Raises InputError where shapes do not fit, or the grid is larger than feature_map.
    Spec: ExperimentalDetectronPriorGridGenerator-6.
    """
    if priors.ndim != 2 or priors.shape[1] != 4 or feature_map.ndim != 4 or im_data.ndim != 4:
        shapes = [list(x.shape) for x in (priors, feature_map, im_data)]
        raise InputError(f"inputs have shapes {shapes}, expected [P, 4], [1, C, H, W], [1, C, H, W]")
    rows, columns = h or feature_map.shape[2], w or feature_map.shape[3]
    check_allocation((rows, columns, len(priors), 4), np.dtype(F32))
    step_y = F32(stride_y) or F32(im_data.shape[2]) / F32(rows)
    step_x = F32(stride_x) or F32(im_data.shape[3]) / F32(columns)
    ys = step_y * (np.arange(rows, dtype=F32) + F32(0.5))
    xs = step_x * (np.arange(columns, dtype=F32) + F32(0.5))
    centers = np.stack(np.broadcast_arrays(xs[None, :], ys[:, None]), axis=-1)
    grid: Array = (priors + centers[:, :, None, [0, 1, 0, 1]]).astype(priors.dtype)
    height, width = feature_map.shape[2:]
    if (rows, columns) != (height, width):
        if rows > height or columns > width:
            raise InputError(f"the grid is {rows} x {columns}, expected no more than {height} x {width}")
        filled = np.zeros((height, width, len(priors), 4), grid.dtype)
        filled.reshape(-1)[: grid.size] = grid.reshape(-1)
        grid = filled
    return grid.reshape(-1, 4) if flatten else grid


@op("ExperimentalDetectronROIFeatureExtractor", since=6)
@compute_in_float32
def experimental_detectron_roi_feature_extractor_6(
    rois: Array,
    *pyramid: Array,
    output_size: int,
    sampling_ratio: int,
    pyramid_scales: list[int],
    aligned: bool = False,
) -> tuple[Array, Array]:
    """Average of bilinear samples in every bin of every region, each from the level of the pyramid that fits it.

    rois: float [regions, 4] as x1, y1, x2, y2; pyramid: one or more maps of the same type, [1, C, H, W].
    Returns features [regions, C, output_size, output_size] in the type of rois, zeros for a region without an
    area, and `rois` as they are.
    Raises InputError where shapes do not fit.
    Spec: ExperimentalDetectronROIFeatureExtractor-6.
    """
    if rois.ndim != 2 or rois.shape[1] != 4 or not pyramid or any(x.ndim != 4 for x in pyramid):
        shapes = [list(x.shape) for x in (rois, *pyramid)]
        raise InputError(f"inputs have shapes {shapes}, expected [regions, 4] and maps [1, C, H, W]")
    channels = pyramid[0].shape[1]
    if len(pyramid_scales) < len(pyramid) or any(
        x.shape[1] != channels or x.shape[0] != 1 or 0 in x.shape for x in pyramid
    ):
        raise InputError(
            f"{len(pyramid)} maps of shapes {[list(x.shape) for x in pyramid]} with {len(pyramid_scales)} scales, "
            f"expected a scale for each and [1, {channels}, H, W]"
        )
    check_allocation((len(rois), channels, output_size, output_size), rois.dtype)
    dtype = rois.dtype.type
    area = (rois[:, 2] - rois[:, 0]) * (rois[:, 3] - rois[:, 1])
    # A region of 224 x 224 belongs to level 2, one twice as large in each direction to level 3.
    scale = np.log2(np.sqrt(np.maximum(area, 0)) / dtype(224) + dtype(1e-6)) + dtype(2)
    level = np.clip(np.floor(scale), 0, len(pyramid) - 1)
    level = np.where(area > 0, level, -1)
    result = np.zeros((len(rois), channels, output_size, output_size), rois.dtype)
    for number, features in enumerate(pyramid):
        members = np.flatnonzero(level == number)
        if not len(members):
            continue
        pixels = channels_last(features)
        corners = rois[members] * (dtype(1) / dtype(pyramid_scales[number])) - dtype(0.5 if aligned else 0)
        sizes = np.maximum(corners[:, 2:] - corners[:, :2], dtype(1))
        for own, (count_y, count_x) in sample_counts(sizes, output_size, output_size, max(sampling_ratio, 0)):
            ys = axis_samples(corners[own, 1], sizes[own, 1], output_size, count_y)
            xs = axis_samples(corners[own, 0], sizes[own, 0], output_size, count_x)
            batches = np.zeros(len(own), np.int64)
            result[members[own]] = pool_samples(pixels, batches, *sample_grid(ys, xs), "avg")
    return result, rois


@op("ExperimentalDetectronDetectionOutput", since=6)
@compute_in_float32
def experimental_detectron_detection_output_6(
    rois: Array,
    deltas: Array,
    scores: Array,
    im_info: Array,
    *,
    score_threshold: float,
    nms_threshold: float,
    num_classes: int,
    post_nms_count: int,
    max_detections_per_image: int,
    max_delta_log_wh: float,
    deltas_weights: list[float],
    class_agnostic_box_regression: bool = False,
) -> tuple[Array, Array, Array]:
    """The detections of one image: refined for every class, thresholded, suppressed class by class.

    rois: float [regions, 4]; deltas: the same type, [regions, classes * 4]; scores: [regions, classes];
    im_info: [1, 3]: height, width, scale. Class 0 is the background. Neither im_info nor
    `class_agnostic_box_regression` is used, as in the reference.
    Returns boxes [max_detections_per_image, 4], classes i32 [max_detections_per_image], and scores
    [max_detections_per_image] in the type of rois; zeros at the end.
    Raises InputError where shapes do not fit.
    Spec: ExperimentalDetectronDetectionOutput-6.
    """
    regions = len(rois)
    if (
        rois.shape != (regions, 4)
        or deltas.shape != (regions, num_classes * 4)
        or scores.shape != (regions, num_classes)
    ):
        shapes = [list(x.shape) for x in (rois, deltas, scores)]
        raise InputError(f"inputs have shapes {shapes}, expected [R, 4], [R, {num_classes * 4}] and [R, {num_classes}]")
    if len(deltas_weights) != 4:
        raise InputError(f"deltas_weights have {len(deltas_weights)} values, expected 4")
    dtype = rois.dtype.type
    moves = deltas.reshape(regions, num_classes, 4).transpose(1, 0, 2) / np.array(deltas_weights, dtype)
    boxes = np.maximum(refine(rois, moves, 1.0, inclusive=True, log_limit=max_delta_log_wh), 0)
    sides = boxes[..., 2:] - boxes[..., :2] + dtype(1)
    size = sides[..., 0] * sides[..., 1]
    empty = (rois[:, 2:] - rois[:, :2] <= 0).any(axis=1)
    boxes[:, empty], size[:, empty] = 0, 0
    own_scores = np.where(empty, dtype(0), scores.T)

    labels, indices = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for label in range(1, num_classes):
        candidates = np.flatnonzero(own_scores[label] > dtype(score_threshold))
        candidates = candidates[np.argsort(-own_scores[label, candidates], kind="stable")]
        mine, area = boxes[label, candidates], size[label, candidates]

        def suppresses(a: Array, b: Array, mine: Array = mine, area: Array = area) -> Array:
            found: Array = overlaps(mine[a], mine[b], area[a], area[b], 1.0) > dtype(nms_threshold)
            return found

        limit = None if post_nms_count == -1 else post_nms_count
        kept = candidates[greedy_nms(len(candidates), suppresses, limit)]
        labels.append(np.full(len(kept), label))
        indices.append(kept)
    label_of, index_of = np.concatenate(labels), np.concatenate(indices)
    found = own_scores[label_of, index_of]
    if len(found) > max_detections_per_image:
        best = np.lexsort((index_of, -found))[:max_detections_per_image]
        label_of, index_of, found = label_of[best], index_of[best], found[best]

    count = len(found)
    check_allocation((max_detections_per_image, 4), rois.dtype)
    out_boxes = np.zeros((max_detections_per_image, 4), rois.dtype)
    out_classes = np.zeros(max_detections_per_image, np.int32)
    out_scores = np.zeros(max_detections_per_image, rois.dtype)
    out_boxes[:count], out_classes[:count], out_scores[:count] = boxes[label_of, index_of], label_of, found
    return out_boxes, out_classes, out_scores
