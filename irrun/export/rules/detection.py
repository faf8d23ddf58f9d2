"""Export of detection: decoding of boxes, and the outputs of detectors."""

from __future__ import annotations

import math

import numpy as np

from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op
from irrun.export.rules.helpers import (
    concat,
    expand,
    gather,
    get_dimension,
    reshape,
    scalar_like,
    slice_axis,
    unsqueeze,
    where,
)
from irrun.export.rules.regions import pool_averages
from irrun.export.rules.suppression import LOWEST, sort_rows
from irrun.export.site import Site, exports
from irrun.ops._support.numerics import Array

__all__: list[str] = []

F32 = np.float32
#: The maximum logarithm of a scale in the Detectron family.
LOG_LIMIT = math.log(1000.0 / 16.0)


def _pick_columns(boxes: Value) -> tuple[Value, Value]:
    """Return both corners of boxes [..., 4]."""
    return gather(boxes, constant([0, 1]), -1), gather(boxes, constant([2, 3]), -1)


def _apply_deltas(
    boxes: Value, deltas: Value, offset: float, *, inclusive: bool, log_limit: float | None = None
) -> Value:
    """Move and scale boxes by box regression outputs."""
    first, second = _pick_columns(boxes)
    move, logarithms = _pick_columns(deltas)
    sides = second - first + offset
    centers = move * sides + (first + sides * 0.5)
    if log_limit is not None:
        logarithms = op("Min", logarithms, scalar_like(logarithms, log_limit))
    half = op("Exp", logarithms) * sides * 0.5
    high = centers + half - offset if inclusive else centers + half
    return concat([centers - half, high], -1)


def _clip_boxes(boxes: Value, size: Value) -> Value:
    """Clip boxes to the area from 0 to `size` [2]."""
    limits = concat([size, size], -1)
    return op("Max", op("Min", boxes, limits), scalar_like(boxes, 0.0))


def _suppress(boxes: Value, scores: Value, limit: int, threshold: float, offset: float) -> Value:
    """Select boxes [rows, K, 4] in descending order of scores [rows, K]; return rows and positions [selected, 2].

    A box is suppressed if it overlaps a better one by more than the threshold. Scores of `LOWEST` are not selected.
    """
    if offset:
        boxes = boxes + constant(np.array([0, 0, offset, offset], F32))
    selected = op(
        "NonMaxSuppression", cast(boxes, "f32"), unsqueeze(cast(scores, "f32"), [1]),
        constant([limit if limit >= 0 else (1 << 31) - 1]), constant(np.array([threshold], F32)),
        constant(np.array([LOWEST / 2], F32)), result="i64",
    )  # fmt: skip
    return gather(selected, constant([0, 2]), 1)


def _place_in_rows(rows: Value, row_count: Value) -> tuple[Value, Value]:
    """Return the number of each entry within its row, and the number of entries of each row. Rows are ascending."""
    ones = op("Expand", constant(1), op("Shape", rows, result="i64"))
    counts = op("ScatterND", expand(constant(0), row_count), unsqueeze(rows, [1]), ones, reduction="add")
    starts = op("CumSum", counts, constant(0), exclusive=1)
    total = op("Range", constant(0), reshape(op("Shape", rows, result="i64"), []), constant(1))
    return total - gather(starts, rows), counts


@exports("Proposal-1", "Proposal-4", compute="only f32")
def export_proposal(site: Site) -> list[Value]:
    """Export Proposal."""
    probabilities, regression, info = site[0], site[1], reshape(site[2], [-1])
    channels, height, width = site.get_static_shape(0, 1)
    images = get_dimension(probabilities, 0)
    is_tensorflow = site.framework == "tensorflow"
    anchors = _make_anchors(site.base_size, site.ratio, site.scale, is_tensorflow=is_tensorflow)
    count, post = len(anchors), int(site.post_nms_topn)
    rows, columns = slice_axis(info, 0, 1), slice_axis(info, 1, 2)
    size = concat([rows, columns] if is_tensorflow else [columns, rows])
    length = site.get_static_shape(2, site.get_rank(2) - 1)[-1]
    minimum = slice_axis(info, 2, 3)
    if length > 3:
        minimum = concat([slice_axis(info, 3, 4), minimum])
    minimum = minimum * float(site.min_size)
    offset = 0.0 if is_tensorflow else 1.0
    cells = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).astype(F32)
    cells = (cells[..., ::-1] if is_tensorflow else cells) * F32(site.feat_stride)
    priors = constant(cells[:, :, None, [0, 1, 0, 1]] + anchors)
    boxes = _clip_boxes(priors, size) if is_tensorflow else priors
    split = reshape(regression, [-1, count, 4, height, width])
    deltas = op("Transpose", split, perm=[0, 3, 4, 1, 2])
    divisors = np.array([site.box_coordinate_scale] * 2 + [site.box_size_scale] * 2, F32)
    boxes = _apply_deltas(unsqueeze(boxes, [0]), deltas / constant(divisors), offset, inclusive=False)
    if site.clip_before_nms:
        boxes = _clip_boxes(boxes, size - offset)
    first, second = _pick_columns(boxes)
    is_large = op("ReduceMin", cast(second - first + offset >= minimum, "i32"), constant([-1]), keepdims=0)
    scores = op("Transpose", slice_axis(probabilities, count, 2 * count, 1), perm=[0, 2, 3, 1]) * cast(is_large, "f32")
    total = count * height * width
    scores, boxes = reshape(scores, [-1, total]), reshape(boxes, [-1, total, 4])
    limit = min(int(site.pre_nms_topn), total)
    scores, order = sort_rows(scores, constant([limit]))
    boxes = op("GatherElements", boxes, expand(unsqueeze(order, [2]), constant([1, 1, 4])), axis=1)
    selected = _suppress(boxes, scores, post, float(F32(site.nms_thresh)), offset)
    best, confidence = op("GatherND", boxes, selected), op("GatherND", scores, selected)
    if site.clip_after_nms:
        best = _clip_boxes(best, size)
    if site.normalize:
        best = best / concat([size, size])
    image = gather(selected, constant(0), 1)
    number, counts = _place_in_rows(image, images)
    place = unsqueeze(image * post + number, [1])
    positions = constant(np.arange(post)[np.newaxis])
    ends = op("Equal", positions, unsqueeze(counts, [1]))
    column = reshape(where(ends, constant(-1.0), 0.0), [-1, 1])
    empty = concat([column, expand(constant(0.0), concat([images * post, constant([4])]))], 1)
    rois = op("ScatterND", empty, place, concat([unsqueeze(cast(image, "f32"), [1]), best], 1))
    if len(site.types) == 1:
        return [rois]
    chances = op("ScatterND", expand(constant(0.0), images * post), place, confidence)
    assert channels == 2 * count
    return [rois, chances]


def _make_anchors(base_size: int, ratio: list[float], scale: list[float], *, is_tensorflow: bool) -> Array:
    """Return a box around the cell at the origin for each ratio and scale, f32 [ratios * scales, 4]."""
    ratios, scales = np.array(ratio, F32), np.array(scale, F32)
    offset = F32(0 if is_tensorflow else 1)
    widths = np.sqrt(F32(base_size * base_size) / ratios)
    widths = widths if is_tensorflow else np.floor(widths + F32(0.5))
    heights = widths * ratios
    heights = heights if is_tensorflow else np.floor(heights + F32(0.5))
    sides = np.stack([widths, heights], axis=-1)[:, None, :] * scales[:, None]
    half = (F32(0.5) * (sides - offset)).reshape(-1, 2)
    center = F32(0.5) * (F32(base_size) - offset)
    boxes = np.concatenate([center - half, center + half], axis=-1)
    return np.asarray(boxes - F32(base_size) * F32(0.5) if is_tensorflow else boxes)


def _refine_anchors(
    info: Value, anchors: Value, deltas: Value, scores: Value, minimum: Value, offset: float
) -> tuple[Value, Value, Value]:
    """Return refined boxes, their scores, and whether they are large enough; [N, H * W * A, ...].

    Args:
        info: Height and width of each image, [N, 2].
        anchors: Shape [H * W * A, 4].
        deltas: Shape [N, A * 4, H, W].
        scores: Shape [N, A, H, W].
        minimum: Shape [N, 1 or 2].
        offset: Added to sides.
    """
    count = get_dimension(scores, 1)
    shape = concat([constant([0]), count, constant([4]), get_dimension(scores, 2), get_dimension(scores, 3)])
    split = op("Transpose", op("Reshape", deltas, shape), perm=[0, 3, 4, 1, 2])
    split = reshape(split, [0, -1, 4])
    boxes = _apply_deltas(unsqueeze(anchors, [0]), split, offset, inclusive=True, log_limit=LOG_LIMIT)
    size = unsqueeze(gather(info, constant([1, 0]), 1), [1])
    boxes = _clip_boxes(boxes, size - offset)
    first, second = _pick_columns(boxes)
    is_large = second - first + offset >= unsqueeze(minimum, [1])
    is_large = cast(op("ReduceMin", cast(is_large, "i32"), constant([-1]), keepdims=0), "boolean")
    flat = reshape(op("Transpose", scores, perm=[0, 2, 3, 1]), [0, -1])
    return boxes, flat, is_large


@exports("ExperimentalDetectronGenerateProposalsSingleImage-6", compute="only f32")
def export_single_proposals(site: Site) -> list[Value]:
    """Export ExperimentalDetectronGenerateProposalsSingleImage."""
    info = reshape(slice_axis(reshape(site[0], [-1]), 0, 2), [1, 2])
    deltas, raw = unsqueeze(site[2], [0]), unsqueeze(site[3], [0])
    minimum = constant(np.array([[site.min_size]], F32))
    boxes, scores, is_large = _refine_anchors(info, reshape(site[1], [-1, 4]), deltas, raw, minimum, 1.0)
    scores = scores * cast(is_large, "f32")
    post = int(site.post_nms_count)
    scores, order = sort_rows(scores, constant([int(site.pre_nms_count)]))
    boxes = op("GatherElements", boxes, expand(unsqueeze(order, [2]), constant([1, 1, 4])), axis=1)
    selected = _suppress(boxes, scores, post, float(F32(site.nms_threshold)), 0.0)
    best, confidence = op("GatherND", boxes, selected), op("GatherND", scores, selected)
    return [_pad_rows(best, post), _pad_rows(confidence, post)]


def _pad_rows(value: Value, count: int | Value) -> Value:
    """Extend the first axis to a length by zeros."""
    rest = list(value.shape[1:]) if value.shape is not None else None
    rank = value.rank
    missing = (count if isinstance(count, Value) else constant([count])) - op(
        "Shape", value, result="i64", start=0, end=1
    )
    missing = op("Max", missing, constant(0))
    tail = op("Shape", value, result="i64", start=1)
    assert rest is None or rank is not None
    zeros = expand(scalar_like(value, 0), concat([missing, tail]))
    return slice_axis(concat([value, zeros], 0), 0, count, 0)


@exports("GenerateProposals-9", compute="only f32")
def export_proposals(site: Site) -> list[Value]:
    """Export GenerateProposals."""
    info = site[0]
    length = site.get_shape(0)[1]
    offset = 0.0 if site.normalized else 1.0
    minimum = gather(info, constant([3, 2] if length == 4 else [2]), 1) * float(F32(site.min_size))
    boxes, scores, is_large = _refine_anchors(
        slice_axis(info, 0, 2, 1), reshape(site[1], [-1, 4]), site[2], site[3], minimum, offset
    )
    scores, order = sort_rows(scores, constant([int(site.pre_nms_count)]))
    is_large = cast(op("GatherElements", cast(is_large, "i32"), order, axis=1), "boolean")
    boxes = op("GatherElements", boxes, expand(unsqueeze(order, [2]), constant([1, 1, 4])), axis=1)
    used = where(is_large, scores, LOWEST)
    selected = _suppress(boxes, used, int(site.post_nms_count), float(F32(site.nms_threshold)), offset)
    _, counts = _place_in_rows(gather(selected, constant(0), 1), get_dimension(info, 0))
    return [op("GatherND", boxes, selected), op("GatherND", scores, selected), cast(counts, site.roi_num_type)]


@exports("ExperimentalDetectronTopKROIs-6", compute="only f32")
def export_topk_rois(site: Site) -> Value:
    """Export ExperimentalDetectronTopKROIs."""
    count = int(site.max_rois)
    _, order = sort_rows(site[1], constant([count]))
    return _pad_rows(gather(site[0], order), count)


@exports("ExperimentalDetectronPriorGridGenerator-6", compute="only f32")
def export_prior_grid(site: Site) -> Value:
    """Export ExperimentalDetectronPriorGridGenerator."""
    priors = site[0]
    height, width = site.get_static_shape(1, 2)
    image_height, image_width = site.get_static_shape(2, 2) if not (site.stride_x and site.stride_y) else (0, 0)
    rows, columns = site.h or height, site.w or width
    step_y = F32(site.stride_y) or F32(image_height) / F32(rows)
    step_x = F32(site.stride_x) or F32(image_width) / F32(columns)
    ys = step_y * (np.arange(rows, dtype=F32) + F32(0.5))
    xs = step_x * (np.arange(columns, dtype=F32) + F32(0.5))
    centers = np.stack(np.broadcast_arrays(xs[None, :], ys[:, None]), axis=-1)[:, :, None, [0, 1, 0, 1]]
    grid = reshape(cast(priors, "f32") + constant(centers), [-1, 4])
    total = height * width * site.get_static_shape(0)[0]
    if (rows, columns) != (height, width):
        grid = _pad_rows(grid, total)
    grid = cast(grid, priors.type)
    return grid if site.flatten else reshape(grid, [height, width, -1, 4])


@exports("ExperimentalDetectronROIFeatureExtractor-6", compute="only f32")
def export_feature_extractor(site: Site) -> list[Value]:
    """Export ExperimentalDetectronROIFeatureExtractor: regions are pooled from all levels, and one is selected."""
    rois, size = site[0], int(site.output_size)
    x1, y1, x2, y2 = (gather(rois, constant(i), 1) for i in range(4))
    area = (x2 - x1) * (y2 - y1)
    root = op("Sqrt", op("Max", area, scalar_like(area, 0.0)))
    level = op("Floor", op("Log", root / 224.0 + 1e-6) / float(np.log(2)) + 2.0)
    count = len(site) - 1
    level = op("Clip", level, scalar_like(level, 0.0), scalar_like(level, float(count - 1)))
    level = where(area > 0.0, level, -1.0)
    result: Value | None = None
    for i in range(count):
        scale = float(F32(1) / F32(site.pyramid_scales[i]))
        corners = rois * scale - (0.5 if site.aligned else 0.0)
        u1, v1, u2, v2 = (gather(corners, constant(j), 1) for j in range(4))
        width, height = (op("Max", v, scalar_like(v, 1.0)) for v in (u2 - u1, v2 - v1))
        batches = cast(u1 * 0.0, "i64")
        pooled = pool_averages(site[i + 1], batches, u1, v1, width, height, size, max(0, int(site.sampling_ratio)))
        is_own = unsqueeze(op("Equal", level, float(i)), [1, 2, 3])
        result = where(is_own, pooled, 0.0 if result is None else result)
    if result is None:
        raise UnsupportedError("there are no feature maps")
    return [result, rois][: max(1, len(site.types))]


@exports("ExperimentalDetectronDetectionOutput-6", compute="only f32")
def export_detectron_output(site: Site) -> list[Value]:
    """Export ExperimentalDetectronDetectionOutput."""
    rois, deltas, scores = site[0], site[1], site[2]
    classes, most = int(site.num_classes), int(site.max_detections_per_image)
    weighted = op("Transpose", reshape(deltas, [-1, classes, 4]), perm=[1, 0, 2])
    weighted = weighted / constant(np.array(site.deltas_weights, F32))
    boxes = _apply_deltas(unsqueeze(rois, [0]), weighted, 1.0, inclusive=True, log_limit=float(site.max_delta_log_wh))
    boxes = op("Max", boxes, scalar_like(boxes, 0.0))
    first, second = _pick_columns(rois)
    is_empty = cast(op("ReduceMax", cast(second - first <= 0.0, "i32"), constant([1]), keepdims=0), "boolean")
    boxes = where(reshape(is_empty, [1, -1, 1]), 0.0, boxes)
    raw = where(is_empty, 0.0, op("Transpose", scores, perm=[1, 0]))
    is_used = constant((np.arange(classes) > 0)[:, np.newaxis])
    masked = where((raw > float(F32(site.score_threshold))) & is_used, raw, LOWEST)
    selected = _suppress(boxes, masked, int(site.post_nms_count), float(F32(site.nms_threshold)), 1.0)
    best = op("GatherND", raw, selected)
    _, by_score = sort_rows(best)
    total = op("Shape", best, result="i64")
    numbers = op("Range", constant(0), reshape(total, []), constant(1))
    order = where(total > most, by_score, numbers)
    selected, best = gather(selected, order), gather(best, order)
    labels = cast(gather(selected, constant(0), 1), "i32")
    return [_pad_rows(op("GatherND", boxes, selected), most), _pad_rows(labels, most), _pad_rows(best, most)]


class _Detector:
    """The inputs of a DetectionOutput.

    Args:
        site: The layer.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.prior_size = 4 if site.normalized else 5
        self.priors = site.get_static_shape(2, 2)[0] // self.prior_size
        self.classes = site.get_static_shape(1, 1)[0] // self.priors
        self.shared = bool(site.share_location)
        self.locations = 1 if self.shared else self.classes

    def group(self, logits: Value) -> Value:
        """Return box predictions as [image, class, prior, 4]."""
        split = reshape(logits, [-1, self.priors, self.locations, 4])
        return op("Transpose", split, perm=[0, 2, 1, 3])

    def decode(self, boxes: Value, variances: Value | None, logits: Value) -> Value:
        """Apply predictions to prior boxes."""
        if not self.site.normalized:
            size = np.array([self.site.input_width, self.site.input_height] * 2, F32)
            boxes = boxes / constant(size)
        deltas = logits if variances is None else variances * logits
        if self.site.code_type.endswith("CORNER"):
            return boxes + deltas
        first, second = _pick_columns(boxes)
        move, logarithms = _pick_columns(deltas)
        sides = second - first
        centers = move * sides + (first + second) / 2.0
        half = op("Exp", logarithms) * sides / 2.0
        return concat([centers - half, centers + half], -1)

    def compute_boxes(self) -> tuple[Value, Value]:
        """Return decoded boxes [image, location class, prior, 4] and scores [image, prior, class]."""
        site = self.site
        priors = site[2]
        boxes = reshape(gather(priors, constant(0), 1), [-1, 1, self.priors, self.prior_size])
        boxes = slice_axis(boxes, self.prior_size - 4, self.prior_size, 3)
        variances = None
        if not site.variance_encoded_in_target:
            second = slice_axis(gather(priors, constant(1), 1), 0, self.priors * 4, 1)
            variances = reshape(second, [-1, 1, self.priors, 4])
        scores = reshape(site[1], [-1, self.priors, self.classes])
        if site.get(3) is not None and site.get(4) is not None:
            objectness = gather(reshape(site[3], [-1, self.priors, 2]), constant([1]), 2)
            background = (np.arange(self.classes) == site.background_label_id).astype(F32)
            scores = where(objectness < float(F32(site.objectness_score)), constant(background), scores)
            boxes = self.limit(self.decode(boxes, variances, self.group(site[4])), clips=site.clip_before_nms)
        decoded = self.limit(self.decode(boxes, variances, self.group(site[0])), clips=site.clip_before_nms)
        return decoded, scores

    @staticmethod
    def limit(boxes: Value, *, clips: bool) -> Value:
        """Clip boxes to [0, 1]."""
        return op("Clip", boxes, scalar_like(boxes, 0.0), scalar_like(boxes, 1.0)) if clips else boxes

    def mask_scores(self, scores: Value) -> Value:
        """Return the scores of candidates, [image, class, prior], `LOWEST` for all others."""
        site = self.site
        threshold = float(F32(site.confidence_threshold))
        labels = np.arange(self.classes)
        if not site.decrease_label_id:
            is_used = constant((labels != site.background_label_id)[:, np.newaxis])
            by_class = op("Transpose", scores, perm=[0, 2, 1])
            return where((by_class > threshold) & is_used, by_class, LOWEST)
        eligible = (labels != 0) & (labels != site.background_label_id)
        allowed = where(constant(eligible) & (scores > -1.0), scores, -1.0)
        label = op("ArgMax", allowed, axis=2, keepdims=0, result="i64")
        best = op("ReduceMax", allowed, constant([2]), keepdims=0)
        best = where((best > -1.0) & (best >= threshold), best, LOWEST)
        if -1 < site.top_k < self.priors:
            values, order = sort_rows(best, constant([int(site.top_k)]))
            nothing = expand(constant(LOWEST), op("Shape", best, result="i64"))
            best = op("ScatterElements", nothing, order, values, axis=1)
        is_own = op("Equal", unsqueeze(label, [1]), constant(labels[:, np.newaxis].astype(np.int64)))
        return where(is_own, unsqueeze(best, [1]), LOWEST)


@exports("DetectionOutput-1", "DetectionOutput-8", compute="only f32")
def export_detection_output(site: Site) -> Value:
    """Export DetectionOutput: NonMaxSuppression suppresses boxes, with a row for each class of each image."""
    detector = _Detector(site)
    decoded, scores = detector.compute_boxes()
    classes, priors = detector.classes, detector.priors
    masked = reshape(detector.mask_scores(scores), [-1, priors])
    count = priors
    if not site.decrease_label_id and -1 < site.top_k < priors:
        count = int(site.top_k)
    values, order = sort_rows(masked, constant([count]))
    wide = reshape(expand(decoded, constant([1, classes, priors, 4])), [-1, priors, 4])
    boxes = op("GatherElements", wide, expand(unsqueeze(order, [2]), constant([1, 1, 4])), axis=1)
    selected = _suppress(boxes, values, -1, float(F32(site.nms_threshold)), 0.0)
    ones = op("Expand", constant(1), op("Shape", selected, result="i64", start=0, end=1))
    kept = op("ScatterND", expand(constant(0), op("Shape", values, result="i64")), selected, ones)
    dense = reshape(where(kept > 0, values, LOWEST), [-1, classes * count])
    keep = int(site.keep_top_k[0]) if site.keep_top_k else -1
    if keep > -1:  # positions are in the order of classes and scores
        best, places = sort_rows(dense, constant([keep]))
        nothing = expand(constant(LOWEST), op("Shape", dense, result="i64"))
        dense = op("ScatterElements", nothing, places, best, axis=1)
    place = op("Transpose", op("NonZero", dense > LOWEST / 2, result="i64"), perm=[1, 0])
    confidence = op("GatherND", dense, place)
    image, position = (gather(place, constant(i), 1) for i in (0, 1))
    label = position / count
    flat = reshape(boxes, [-1, classes * count, 4])
    corners = detector.limit(op("GatherND", flat, place), clips=site.clip_after_nms)
    shown = label - 1 if site.decrease_label_id else label
    columns = [unsqueeze(cast(v, "f32"), [1]) for v in (image, shown, confidence)]
    rows = concat([*columns, cast(corners, "f32")], 1)
    top = int(site.top_k)
    limit = keep if keep > 0 else top * classes if keep == -1 and top > 0 else priors * classes
    total = get_dimension(site[0], 0) * limit
    end = np.zeros((1, 7), F32)
    end[0, 0] = -1
    padded = _pad_rows(concat([rows, constant(end)], 0), total)
    return reshape(padded, [1, 1, -1, 7])


@exports("GLU-ie_internal_opset", "SwiGLU-ie_internal_opset", "SwiGLU-gpu_opset", compute="only f32")
def export_gated_unit(site: Site) -> Value:
    """Export GLU: one half of the data times an activation of the other half."""
    data, length, axis = site[0], int(site.split_lengths), int(site.axis)
    parts = [slice_axis(data, 0, length, axis), slice_axis(data, length, (1 << 63) - 1, axis)]
    gate, value = parts[site.split_to_glu_idx], parts[1 - site.split_to_glu_idx]
    if site.glu_type in ("swish", "0"):
        gate = gate * op("Sigmoid", gate)
    elif site.glu_type in ("gelu", "1"):
        gate = gate * 0.5 * (op("Erf", gate * math.sqrt(0.5)) + 1.0)
    else:
        gate = gate * op("Sigmoid", (gate + gate * gate * gate * 0.044715) * (2 * math.sqrt(2 / math.pi)))
    result = gate * value
    declared = site.types[0]
    return result if site.output_type == "dynamic" or declared is None else cast(result, declared)
