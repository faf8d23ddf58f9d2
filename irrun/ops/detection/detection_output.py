"""DetectionOutput: decoding of box predictions relative to priors, and selection of the best boxes per class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from irrun.deadlines import within_time
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.boxes import clip_to_unit, compute_areas
from irrun.ops._support.docstrings import describes_like
from irrun.ops._support.nms import suppress_overlapping
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op

__all__ = ["DetectionSettings", "compute_detections", "detection_output_1", "detection_output_8"]

CodeType = Literal["caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"]
#: Returns the positions of the selected boxes for boxes [n, 4] in descending order of score, their areas, and the
#: intersection over union above which a box is suppressed.
Suppression = Callable[[Array, Array, "np.floating[Any]"], Array]


@dataclass(frozen=True, kw_only=True)
class DetectionSettings:
    """The attributes of DetectionOutput-8, which its function describes."""

    keep_top_k: list[int]
    nms_threshold: float
    background_label_id: int
    top_k: int
    variance_encoded_in_target: bool
    code_type: CodeType
    share_location: bool
    confidence_threshold: float
    clip_after_nms: bool
    clip_before_nms: bool
    decrease_label_id: bool
    normalized: bool
    input_height: int
    input_width: int
    objectness_score: float


@op("DetectionOutput", since=8, scratch=1.75, kind="selection", shape="infer_detection_output")
def detection_output_8(
    box_logits: Array,
    class_preds: Array,
    proposals: Array,
    aux_class_preds: Array | None = None,
    aux_box_preds: Array | None = None,
    *,
    keep_top_k: list[int],
    nms_threshold: float,
    background_label_id: int = 0,
    top_k: int = -1,
    variance_encoded_in_target: bool = False,
    code_type: CodeType = "caffe.PriorBoxParameter.CORNER",
    share_location: bool = True,
    confidence_threshold: float = 0.0,
    clip_after_nms: bool = False,
    clip_before_nms: bool = False,
    decrease_label_id: bool = False,
    normalized: bool = False,
    input_height: int = 1,
    input_width: int = 1,
    objectness_score: float = 0.0,
) -> Array:
    """Compute detections: decode boxes, apply the threshold, and suppress boxes that overlap better boxes.

    Args:
        box_logits: Floating-point, shape [N, priors * location classes * 4]. There is one location class if
            `share_location` is true, else one for each class.
        class_preds: The type of `box_logits`, shape [N, priors * classes].
        proposals: Floating-point, shape [N or 1, 1 or 2, priors * (4 or 5)]: the prior boxes and, if
            `variance_encoded_in_target` is false, their variances. Priors have 4 values if `normalized` is true, else
            5.
        aux_class_preds: Objectness of the priors, the type of `box_logits`, [N, priors * 2].
        aux_box_preds: A first refinement of the priors, the type and shape of `box_logits`.
        keep_top_k: Maximum number of detections per image, a list of one value; -1 for no limit.
        nms_threshold: Intersection over union above which a box is suppressed.
        background_label_id: The background class, which is not detected; -1 if there is none.
        top_k: Maximum number of boxes before suppression, per class, or per image if `decrease_label_id` is true; -1
            for no limit.
        variance_encoded_in_target: Whether `box_logits` include the variances.
        code_type: Whether boxes are predicted by their corners or by center and size.
        share_location: Whether all classes share the boxes.
        confidence_threshold: Boxes with lower scores are ignored; boxes with this score as well if `decrease_label_id`
            is false.
        clip_after_nms: Whether the detections are clipped to [0, 1].
        clip_before_nms: Whether decoded boxes are clipped to [0, 1].
        decrease_label_id: Whether detections are selected as in MXNet, and the classes in the result are decreased by
            1.
        normalized: Whether prior boxes are relative to the size of the image.
        input_height: Height of the image, if `normalized` is false.
        input_width: Width of the image, if `normalized` is false.
        objectness_score: Priors with an objectness below it become background.

    Returns:
        Shape [1, 1, N * limit, 7], the type of `box_logits`: image, class, confidence and corners of each detection.
        The last detection is followed by a row that starts with -1, and then by zeros. The limit is `keep_top_k`, else
        `top_k` * classes, else priors * classes.

    Raises:
        InputError: Shapes do not match.

    Spec:
        DetectionOutput-8
    """
    settings = DetectionSettings(
        keep_top_k=keep_top_k,
        nms_threshold=nms_threshold,
        background_label_id=background_label_id,
        top_k=top_k,
        variance_encoded_in_target=variance_encoded_in_target,
        code_type=code_type,
        share_location=share_location,
        confidence_threshold=confidence_threshold,
        clip_after_nms=clip_after_nms,
        clip_before_nms=clip_before_nms,
        decrease_label_id=decrease_label_id,
        normalized=normalized,
        input_height=input_height,
        input_width=input_width,
        objectness_score=objectness_score,
    )
    return compute_detections((box_logits, class_preds, proposals, aux_class_preds, aux_box_preds), settings)


@op("DetectionOutput", since=1, scratch=1.75, kind="selection", shape="infer_detection_output")
@describes_like(detection_output_8)
def detection_output_1(
    box_logits: Array,
    class_preds: Array,
    proposals: Array,
    aux_class_preds: Array | None = None,
    aux_box_preds: Array | None = None,
    *,
    num_classes: int,
    keep_top_k: list[int],
    nms_threshold: float,
    background_label_id: int = 0,
    top_k: int = -1,
    variance_encoded_in_target: bool = False,
    code_type: CodeType = "caffe.PriorBoxParameter.CORNER",
    share_location: bool = True,
    confidence_threshold: float = 0.0,
    clip_after_nms: bool = False,
    clip_before_nms: bool = False,
    decrease_label_id: bool = False,
    normalized: bool = False,
    input_height: int = 1,
    input_width: int = 1,
    objectness_score: float = 0.0,
) -> Array:
    """Compute detections as DetectionOutput-8 does, with the number of classes as an attribute.

    Args:
        num_classes: Number of classes, including the background.

    Returns:
        The result of DetectionOutput-8.

    Raises:
        InputError: Shapes do not match each other or the number of classes.

    Spec:
        DetectionOutput-1
    """
    priors = proposals.shape[-1] // (4 if normalized else 5) if proposals.shape else 0
    if class_preds.shape[-1:] != (priors * num_classes,):
        raise InputError(
            f"class_preds has shape {list(class_preds.shape)}, "
            f"expected [N, {priors * num_classes}] for {priors} priors and {num_classes} classes"
        )
    return detection_output_8(
        box_logits,
        class_preds,
        proposals,
        aux_class_preds,
        aux_box_preds,
        keep_top_k=keep_top_k,
        nms_threshold=nms_threshold,
        background_label_id=background_label_id,
        top_k=top_k,
        variance_encoded_in_target=variance_encoded_in_target,
        code_type=code_type,
        share_location=share_location,
        confidence_threshold=confidence_threshold,
        clip_after_nms=clip_after_nms,
        clip_before_nms=clip_before_nms,
        decrease_label_id=decrease_label_id,
        normalized=normalized,
        input_height=input_height,
        input_width=input_width,
        objectness_score=objectness_score,
    )


def compute_detections(
    inputs: Sequence[Array | None], settings: DetectionSettings, suppress: Suppression = suppress_overlapping
) -> Array:
    """Compute the result of DetectionOutput-8.

    Args:
        inputs: Its inputs.
        settings: Its attributes.
        suppress: The suppression of boxes of a class.

    Raises:
        InputError: Shapes do not match.
    """
    box_logits, class_preds, proposals, aux_class_preds, aux_box_preds = inputs
    assert box_logits is not None
    assert class_preds is not None
    assert proposals is not None
    s = settings
    priors, classes, location_classes = _check_shapes(
        box_logits,
        class_preds,
        proposals,
        4 if s.normalized else 5,
        s.share_location,
        s.variance_encoded_in_target,
    )
    images, dtype = box_logits.shape[0], box_logits.dtype
    scores = upcast(class_preds).reshape(images, priors, classes)
    logits = [_group_by_class(upcast(box_logits), images, priors, location_classes)]
    if aux_class_preds is not None and aux_box_preds is not None:
        is_background = upcast(aux_class_preds).reshape(images, priors, 2)[..., 1] < np.float32(s.objectness_score)
        background_scores = (np.arange(classes) == s.background_label_id).astype(scores.dtype)
        scores = np.where(is_background[..., None], background_scores, scores)
        logits.insert(0, _group_by_class(upcast(aux_box_preds), images, priors, location_classes))
    anchors = upcast(proposals).astype(logits[-1].dtype, copy=False)

    keep = s.keep_top_k[0] if s.keep_top_k else -1
    limit = _compute_limit(keep, s.top_k, priors, classes)
    check_allocation((images, limit, 7), dtype)
    find_candidates = _find_candidates_as_mxnet if s.decrease_label_id else _find_candidates_as_caffe
    parts = [np.zeros((0, 7), scores.dtype)]
    for image in within_time(range(images)):
        labels, indices = find_candidates(
            scores[image], np.float32(s.confidence_threshold), s.background_label_id, s.top_k
        )
        if not len(labels):
            continue
        boxes = _CandidateBoxes(
            anchors[image if len(anchors) > 1 else 0], [x[image] for x in logits], settings, labels, indices
        )
        selected = _suppress_by_class(boxes, labels, np.float32(s.nms_threshold), suppress)
        confidence = scores[image, indices[selected], labels[selected]]
        if -1 < keep < len(selected):
            best = np.lexsort((indices[selected], -confidence))[:keep]
            best = best[np.argsort(labels[selected[best]], kind="stable")]
            selected, confidence = selected[best], confidence[best]
        rows = np.empty((len(selected), 7), scores.dtype)
        rows[:, 0] = image
        rows[:, 1] = labels[selected] - 1 if s.decrease_label_id else labels[selected]
        rows[:, 2] = confidence
        rows[:, 3:] = boxes.get(selected)
        parts.append(rows)
    detections = np.concatenate(parts)
    if s.clip_after_nms:
        detections[:, 3:] = clip_to_unit(detections[:, 3:])
    result = np.zeros((1, 1, images * limit, 7), dtype)
    result[0, 0, : len(detections)] = detections
    if len(detections) < images * limit:
        result[0, 0, len(detections), 0] = -1
    return result


class _CandidateBoxes:
    """The decoded boxes of the candidates of an image, or of all priors if there are many candidates.

    Args:
        anchors: The priors and their variances, [1 or 2, priors * (4 or 5)].
        logits: The predictions that are applied one after another, each [location classes, priors, 4].
        settings: The attributes.
        labels: The classes of the candidates.
        indices: Their priors.
    """

    def __init__(
        self, anchors: Array, logits: Sequence[Array], settings: DetectionSettings, labels: Array, indices: Array
    ) -> None:
        s = settings
        location_classes, priors, _ = logits[0].shape
        own_labels = labels if location_classes > 1 else np.zeros_like(labels)
        #: The place of each candidate in the decoded boxes.
        self._places: tuple[Array, ...] = (own_labels, indices)
        boxes = anchors[0].reshape(priors, -1)[:, -4:]
        variances = None if s.variance_encoded_in_target else anchors[1, : priors * 4].reshape(priors, 4)
        if len(indices) < location_classes * priors:
            boxes = boxes[indices]
            variances = None if variances is None else variances[indices]
            logits = [x[own_labels, indices] for x in logits]
            self._places = (np.arange(len(indices)),)
        size = None if s.normalized else np.array([s.input_width, s.input_height] * 2, logits[0].dtype)
        for deltas in logits:
            boxes = _decode(boxes, variances, deltas, s.code_type, size)
            if s.clip_before_nms:
                boxes = clip_to_unit(boxes)
        self._boxes = boxes

    def get(self, candidates: Array) -> Array:
        """Return the boxes of some candidates, [n, 4]."""
        return np.asarray(self._boxes[tuple([place[candidates] for place in self._places])])


def _check_shapes(
    box_logits: Array,
    class_preds: Array,
    proposals: Array,
    prior_size: int,
    share_location: bool,
    variance_encoded_in_target: bool,
) -> tuple[int, int, int]:
    """Return the numbers of priors, classes and location classes.

    Raises:
        InputError: The shapes do not match.
    """
    images = box_logits.shape[0] if box_logits.shape else 0
    shapes = [list(x.shape) for x in (box_logits, class_preds, proposals)]
    if box_logits.ndim != 2 or class_preds.ndim != 2 or not proposals.shape:
        raise InputError(f"box_logits, class_preds and proposals have shapes {shapes}, expected ranks 2, 2, 3")
    priors = proposals.shape[-1] // prior_size
    if priors == 0 or proposals.shape[-1] % prior_size:
        raise InputError(f"proposals has shape {shapes[2]}, expected a last dimension of priors * {prior_size}")
    classes = class_preds.shape[1] // priors
    if classes < 1:
        raise InputError(f"class_preds has shape {shapes[1]}, expected at least one class for each of {priors} priors")
    location_classes = 1 if share_location else classes
    if class_preds.shape != (images, priors * classes):
        raise InputError(f"class_preds has shape {shapes[1]}, expected {[images, priors * classes]}")
    if box_logits.shape[1] != priors * location_classes * 4:
        raise InputError(f"box_logits has shape {shapes[0]}, expected [N, {priors * location_classes * 4}]")
    variance_rows = 1 if variance_encoded_in_target else 2
    if proposals.ndim != 3 or proposals.shape[0] not in (1, images) or proposals.shape[1] != variance_rows:
        raise InputError(f"proposals has shape {shapes[2]}, expected [1 or {images}, {variance_rows}, ...]")
    return priors, classes, location_classes


def _group_by_class(logits: Array, images: int, priors: int, classes: int) -> Array:
    """Return box predictions as [image, class, prior, 4]."""
    if logits.size != images * priors * classes * 4:
        raise InputError(f"box predictions have shape {list(logits.shape)}, expected [N, {priors * classes * 4}]")
    return np.asarray(logits.reshape(images, priors, classes, 4).transpose(0, 2, 1, 3))


def _decode(boxes: Array, variances: Array | None, logits: Array, code_type: CodeType, size: Array | None) -> Array:
    """Apply predictions to prior boxes. `size` is the size of the image if the boxes are in pixels."""
    if size is not None:
        boxes = boxes / size
    deltas: Array = logits if variances is None else variances * logits
    if code_type == "caffe.PriorBoxParameter.CORNER":
        return boxes + deltas
    sides = boxes[..., 2:] - boxes[..., :2]
    centers = (boxes[..., :2] + boxes[..., 2:]) / 2
    centers = deltas[..., :2] * sides + centers
    half_sides = np.exp(deltas[..., 2:]) * sides / 2
    return np.concatenate([centers - half_sides, centers + half_sides], axis=-1)


def _compute_limit(keep_top_k: int, top_k: int, priors: int, classes: int) -> int:
    """Return the number of rows of the result for each image."""
    if keep_top_k > 0:
        return keep_top_k
    if keep_top_k == -1 and top_k > 0:
        return top_k * classes
    return priors * classes


def _find_candidates_as_caffe(scores: Array, threshold: np.float32, background: int, top_k: int) -> tuple[Array, Array]:
    """Return labels and priors above the threshold, at most `top_k` per class, by class and descending score."""
    is_candidate = scores > threshold
    if 0 <= background < scores.shape[1]:
        is_candidate[:, background] = False
    positions = np.flatnonzero(is_candidate)
    indices, labels = np.divmod(positions, scores.shape[1])
    order = np.lexsort((-scores.reshape(-1)[positions], labels))
    labels, indices = labels[order], indices[order]
    if top_k > -1:
        ranks = np.arange(len(labels)) - np.searchsorted(labels, labels)
        labels, indices = labels[ranks < top_k], indices[ranks < top_k]
    return labels, indices


def _find_candidates_as_mxnet(scores: Array, threshold: np.float32, background: int, top_k: int) -> tuple[Array, Array]:
    """Return each prior with its best class, at most `top_k` in total, by class and descending score."""
    eligible = np.where(scores > -1, scores, -1)  # excludes NaN
    eligible[:, :1] = -1  # class 0 is the background, regardless of background_label_id
    if -1 < background < scores.shape[1]:
        eligible[:, background] = -1
    labels = eligible.argmax(axis=1)
    best = eligible.max(axis=1)
    indices = np.flatnonzero((best > -1) & (best >= threshold))
    indices = indices[np.argsort(-best[indices], kind="stable")]
    indices = indices[:top_k] if top_k > -1 else indices
    indices = indices[np.argsort(labels[indices], kind="stable")]
    return labels[indices], indices


def _suppress_by_class(boxes: _CandidateBoxes, labels: Array, threshold: np.float32, suppress: Suppression) -> Array:
    """Return the positions of the candidates that do not overlap a better candidate of the same class too much."""
    selected = [np.zeros(0, np.int64)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        class_boxes = boxes.get(members)
        selected.append(members[suppress(class_boxes, compute_areas(class_boxes), threshold)])
    return np.concatenate(selected)
