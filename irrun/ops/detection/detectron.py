"""The Detectron family: grids of priors, pooling from a feature pyramid, and final detections."""

from __future__ import annotations

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation, check_scratch
from irrun.ops._support.boxes import apply_deltas
from irrun.ops._support.checks import check_minimum, check_rank
from irrun.ops._support.nms import suppress_overlapping
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op
from irrun.ops._support.roi_sampling import (
    broadcast_samples,
    group_by_sample_count,
    place_samples,
    pool_samples,
    to_channels_last,
)

__all__ = [
    "experimental_detectron_detection_output_6",
    "experimental_detectron_prior_grid_generator_6",
    "experimental_detectron_roi_feature_extractor_6",
]

F32 = np.float32


@op("ExperimentalDetectronPriorGridGenerator", since=6, scratch=0, kind="generation", shape="infer_prior_grid")
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
    """Place all priors at each cell of a grid.

    Args:
        priors: Floating-point, shape [P, 4].
        feature_map: The type of `priors`, shape [1, C, H, W]. Only its shape is used.
        im_data: The type of `priors`, shape [1, C, height, width]. Only its shape is used.
        flatten: Whether the result has rank 2.
        h: Height of the grid; 0 for the height of `feature_map`.
        w: Width of the grid; 0 for the width of `feature_map`.
        stride_x: Horizontal distance between cells; 0 for the width of `im_data` divided by the grid's.
        stride_y: Vertical distance between cells; 0 for the height of `im_data` divided by the grid's.

    Returns:
        Shape [H * W * P, 4] if `flatten` is true, else [H, W, P, 4], the type of `priors`. A grid smaller than
        `feature_map` is followed by zeros.

    Raises:
        InputError: Shapes are invalid, or the grid is larger than `feature_map`.

    Spec:
        ExperimentalDetectronPriorGridGenerator-6
    """
    if priors.ndim != 2 or priors.shape[1] != 4 or feature_map.ndim != 4 or im_data.ndim != 4:
        shapes = [list(x.shape) for x in (priors, feature_map, im_data)]
        raise InputError(f"inputs have shapes {shapes}, expected [P, 4], [1, C, H, W], [1, C, H, W]")
    rows, columns = h or feature_map.shape[2], w or feature_map.shape[3]
    height, width = feature_map.shape[2:]
    check_allocation((max(rows, height), max(columns, width), len(priors), 4), np.dtype(F32))
    if rows > height or columns > width:
        raise InputError(f"the grid is {rows} x {columns}, expected at most {height} x {width}")
    check_scratch((rows * columns + height * width) * len(priors) * 4 * priors.itemsize)
    step_y = F32(stride_y) or F32(im_data.shape[2]) / F32(rows)
    step_x = F32(stride_x) or F32(im_data.shape[3]) / F32(columns)
    ys = step_y * (np.arange(rows, dtype=F32) + F32(0.5))
    xs = step_x * (np.arange(columns, dtype=F32) + F32(0.5))
    centers = np.stack(np.broadcast_arrays(xs[None, :], ys[:, None]), axis=-1)
    grid: Array = (priors + centers[:, :, None, [0, 1, 0, 1]]).astype(priors.dtype)
    if (rows, columns) != (height, width):
        padded = np.zeros((height, width, len(priors), 4), grid.dtype)
        padded.reshape(-1)[: grid.size] = grid.reshape(-1)
        grid = padded
    return grid.reshape(-1, 4) if flatten else grid


@op(
    "ExperimentalDetectronROIFeatureExtractor",
    since=6,
    scratch=3,
    kind="window",
    shape="infer_detectron_features",
    output_types=(0, 0),
)
@compute_in_float32
def experimental_detectron_roi_feature_extractor_6(
    rois: Array,
    *pyramid: Array,
    output_size: int,
    sampling_ratio: int,
    pyramid_scales: list[int],
    aligned: bool = False,
) -> tuple[Array, Array]:
    """Pool regions by the average of bilinear samples, each region from the pyramid level for its size.

    Args:
        rois: Floating-point, shape [regions, 4]: x1, y1, x2, y2.
        *pyramid: One or more feature maps of the type of `rois`, [1, C, H, W].
        output_size: Height and width of the result.
        sampling_ratio: Number of samples per bin along each axis; 0 or less for one sample per pixel of the bin.
        pyramid_scales: Ratio of the size of the image to the size of each map.
        aligned: Whether coordinates are shifted by half a pixel.

    Returns:
        Features in the type of `rois`, [regions, C, output_size, output_size], zeros for a region without an area,
        and `rois` unchanged.

    Raises:
        InputError: Shapes are invalid, or a map has no scale.

    Spec:
        ExperimentalDetectronROIFeatureExtractor-6
    """
    _check_pyramid(rois, pyramid, pyramid_scales)
    check_minimum("output_size", output_size, 1)
    channels = pyramid[0].shape[1]
    check_allocation((len(rois), channels, output_size, output_size), rois.dtype)
    dtype = rois.dtype.type
    levels = _choose_levels(rois, len(pyramid))
    result = np.zeros((len(rois), channels, output_size, output_size), rois.dtype)
    for level, features in enumerate(pyramid):
        members = np.flatnonzero(levels == level)
        if not len(members):
            continue
        pixels = to_channels_last(features)
        corners = rois[members] * (dtype(1) / dtype(pyramid_scales[level])) - dtype(0.5 if aligned else 0)
        sizes = np.maximum(corners[:, 2:] - corners[:, :2], dtype(1))
        for group, (count_y, count_x) in group_by_sample_count(sizes, output_size, output_size, max(sampling_ratio, 0)):
            ys = place_samples(corners[group, 1], sizes[group, 1], output_size, count_y)
            xs = place_samples(corners[group, 0], sizes[group, 0], output_size, count_x)
            batches = np.zeros(len(group), np.int64)
            result[members[group]] = pool_samples(pixels, batches, *broadcast_samples(ys, xs), "avg")
    return result, rois


def _check_pyramid(rois: Array, pyramid: tuple[Array, ...], scales: list[int]) -> None:
    if rois.ndim != 2 or rois.shape[1] != 4 or not pyramid or any(x.ndim != 4 for x in pyramid):
        shapes = [list(x.shape) for x in (rois, *pyramid)]
        raise InputError(f"inputs have shapes {shapes}, expected [regions, 4] and maps [1, C, H, W]")
    channels = pyramid[0].shape[1]
    if len(scales) < len(pyramid) or any(x.shape[1] != channels or x.shape[0] != 1 or 0 in x.shape for x in pyramid):
        raise InputError(
            f"found {len(pyramid)} maps of shapes {[list(x.shape) for x in pyramid]} and {len(scales)} scales, "
            f"expected a scale for each map and shapes [1, {channels}, H, W]"
        )


def _choose_levels(rois: Array, count: int) -> Array:
    """Return the pyramid level of each region; -1 for regions without an area."""
    dtype = rois.dtype.type
    area = (rois[:, 2] - rois[:, 0]) * (rois[:, 3] - rois[:, 1])
    # Regions of 224 x 224 belong to level 2, regions of twice the size in each direction to level 3.
    scale = np.log2(np.sqrt(np.maximum(area, 0)) / dtype(224) + dtype(1e-6)) + dtype(2)
    return np.where(area > 0, np.clip(np.floor(scale), 0, count - 1), -1)


@op(
    "ExperimentalDetectronDetectionOutput",
    since=6,
    scratch=3.25,
    kind="selection",
    shape="infer_detectron_output",
    output_types=(0, "i32", 0),
)
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
    """Compute the detections of an image: boxes refined for each class, thresholded and suppressed per class.

    Args:
        rois: Floating-point, shape [regions, 4].
        deltas: The type of `rois`, shape [regions, num_classes * 4].
        scores: The type of `rois`, shape [regions, num_classes]. Class 0 is the background.
        im_info: The type of `rois`, shape [1, 3]: height, width, scale. Not used, as in the reference implementation.
        score_threshold: Boxes whose scores do not exceed this are ignored.
        nms_threshold: Intersection over union above which a box is suppressed.
        num_classes: Number of classes, including the background.
        post_nms_count: Maximum number of boxes of a class; -1 for no limit.
        max_detections_per_image: Number of rows of the result.
        max_delta_log_wh: Upper bound of the logarithms of the scales.
        deltas_weights: Four divisors of `deltas`.
        class_agnostic_box_regression: Not used, as in the reference implementation.

    Returns:
        Boxes [max_detections_per_image, 4] in the type of `rois`, classes [max_detections_per_image] in i32, and
        scores [max_detections_per_image] in the type of `rois`, followed by zeros.

    Raises:
        InputError: Shapes do not match, or a number of boxes is negative.

    Spec:
        ExperimentalDetectronDetectionOutput-6
    """
    check_minimum("post_nms_count", post_nms_count, -1)
    check_minimum("max_detections_per_image", max_detections_per_image, 0)
    check_rank("rois", rois, 2)
    regions = len(rois)
    if (
        rois.shape != (regions, 4)
        or deltas.shape != (regions, num_classes * 4)
        or scores.shape != (regions, num_classes)
    ):
        shapes = [list(x.shape) for x in (rois, deltas, scores)]
        raise InputError(f"inputs have shapes {shapes}, expected [R, 4], [R, {num_classes * 4}] and [R, {num_classes}]")
    if len(deltas_weights) != 4:
        raise InputError(f"deltas_weights has {len(deltas_weights)} values, expected 4")
    dtype = rois.dtype.type
    weighted = deltas.reshape(regions, num_classes, 4).transpose(1, 0, 2) / np.array(deltas_weights, dtype)
    boxes = np.maximum(apply_deltas(rois, weighted, 1.0, inclusive=True, log_limit=max_delta_log_wh), 0)
    sides = boxes[..., 2:] - boxes[..., :2] + dtype(1)
    areas = sides[..., 0] * sides[..., 1]
    is_empty = (rois[:, 2:] - rois[:, :2] <= 0).any(axis=1)
    boxes[:, is_empty], areas[:, is_empty] = 0, 0
    class_scores = np.where(is_empty, dtype(0), scores.T)

    limit = None if post_nms_count == -1 else post_nms_count
    label_parts, index_parts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for label in within_time(range(1, num_classes)):
        candidates = np.flatnonzero(class_scores[label] > dtype(score_threshold))
        candidates = candidates[np.argsort(-class_scores[label, candidates], kind="stable")]
        selected = suppress_overlapping(
            boxes[label, candidates], areas[label, candidates], dtype(nms_threshold), 1.0, limit
        )
        label_parts.append(np.full(len(selected), label))
        index_parts.append(candidates[selected])
    labels, indices = np.concatenate(label_parts), np.concatenate(index_parts)
    best_scores = class_scores[labels, indices]
    if len(best_scores) > max_detections_per_image:
        best = np.lexsort((indices, -best_scores))[:max_detections_per_image]
        labels, indices, best_scores = labels[best], indices[best], best_scores[best]

    count = len(best_scores)
    check_allocation((max_detections_per_image, 4), rois.dtype)
    out_boxes = np.zeros((max_detections_per_image, 4), rois.dtype)
    out_classes = np.zeros(max_detections_per_image, np.int32)
    out_scores = np.zeros(max_detections_per_image, rois.dtype)
    out_boxes[:count], out_classes[:count], out_scores[:count] = boxes[labels, indices], labels, best_scores
    return out_boxes, out_classes, out_scores
