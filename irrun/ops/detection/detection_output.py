"""DetectionOutput: decodes box predictions against priors and keeps the best boxes of every class."""

from __future__ import annotations

from typing import Literal

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.boxes import areas, clip_unit, greedy_nms, overlaps
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op

__all__ = ["detection_output_1", "detection_output_8"]

CodeType = Literal["caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"]


@op("DetectionOutput", since=8)
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
    """The detections of every image after decoding, thresholding and suppression of overlapping boxes.

    box_logits: float [N, priors * location classes * 4], one location class where `share_location` is set;
    class_preds: the same type, [N, priors * classes]; proposals: float [N or 1, 1 or 2, priors * (4 or 5)],
    the boxes and, unless `variance_encoded_in_target`, the variances; aux_class_preds: [N, priors * 2];
    aux_box_preds: the shape of box_logits, a first refinement of the priors.
    Returns [1, 1, N * limit, 7], the type of box_logits: image, class, confidence and corners of each
    detection; a row that begins with -1 ends them, zeros follow. The limit is keep_top_k, or else
    top_k * classes, or else priors * classes.
    Raises InputError where shapes do not fit together.
    Spec: DetectionOutput-8.
    """
    images = box_logits.shape[0]
    per_prior = 4 if normalized else 5
    priors, classes, location_classes = _counts(box_logits, class_preds, proposals, per_prior, share_location)
    variance_rows = 1 if variance_encoded_in_target else 2
    if proposals.ndim != 3 or proposals.shape[0] not in (1, images) or proposals.shape[1] != variance_rows:
        raise InputError(
            f"proposals have shape {list(proposals.shape)}, expected [1 or {images}, {variance_rows}, ...]"
        )

    dtype = box_logits.dtype
    scores = upcast(class_preds).reshape(images, priors, classes)
    logits = _by_class(upcast(box_logits), images, priors, location_classes)
    anchors = upcast(proposals).astype(logits.dtype, copy=False)
    boxes = anchors[:, 0].reshape(-1, 1, priors, per_prior)[..., -4:]
    variances = None
    if not variance_encoded_in_target:
        variances = anchors[:, 1, : priors * 4].reshape(-1, 1, priors, 4)
    size = None if normalized else np.array([input_width, input_height] * 2, logits.dtype)

    if aux_class_preds is not None and aux_box_preds is not None:
        objects = upcast(aux_class_preds).reshape(images, priors, 2)[..., 1] < np.float32(objectness_score)
        nothing = np.arange(classes) == background_label_id
        scores = np.where(objects[..., None], nothing.astype(scores.dtype), scores)
        first = _by_class(upcast(aux_box_preds), images, priors, location_classes)
        boxes = _decode(boxes, variances, first, code_type, size)
        if clip_before_nms:
            boxes = clip_unit(boxes)
    decoded = _decode(boxes, variances, logits, code_type, size)
    if clip_before_nms:
        decoded = clip_unit(decoded)

    keep = keep_top_k[0] if keep_top_k else -1
    if keep > 0:
        limit = keep
    elif keep == -1 and top_k > 0:
        limit = top_k * classes
    else:
        limit = priors * classes
    check_allocation((images, limit, 7), dtype)
    best = _mxnet_candidates if decrease_label_id else _caffe_candidates
    rows = [np.zeros((0, 7), scores.dtype)]
    for image in range(images):
        labels, indices = best(scores[image], np.float32(confidence_threshold), background_label_id, top_k)
        found = _suppress(decoded[image], labels, indices, nms_threshold)
        labels, indices = labels[found], indices[found]
        confidence = scores[image, indices, labels]
        if -1 < keep < len(labels):
            chosen = np.lexsort((indices, -confidence))[:keep]
            chosen = chosen[np.argsort(labels[chosen], kind="stable")]
            labels, indices, confidence = labels[chosen], indices[chosen], confidence[chosen]
        row = np.empty((len(labels), 7), scores.dtype)
        row[:, 0] = image
        row[:, 1] = labels - 1 if decrease_label_id else labels
        row[:, 2] = confidence
        row[:, 3:] = decoded[image, 0 if share_location else labels, indices]
        rows.append(row)
    detections = np.concatenate(rows)
    if clip_after_nms:
        detections[:, 3:] = clip_unit(detections[:, 3:])
    result = np.zeros((1, 1, images * limit, 7), dtype)
    result[0, 0, : len(detections)] = detections
    if len(detections) < images * limit:
        result[0, 0, len(detections), 0] = -1
    return result


@op("DetectionOutput", since=1)
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
    """The detections of every image: DetectionOutput-8 with the number of classes given besides the shapes.

    Inputs and result: as for DetectionOutput-8.
    Raises InputError where shapes do not fit together, or have another number of classes.
    Spec: DetectionOutput-1.
    """
    priors = proposals.shape[-1] // (4 if normalized else 5) if proposals.shape else 0
    if class_preds.shape[-1:] != (priors * num_classes,):
        raise InputError(
            f"class predictions have shape {list(class_preds.shape)}, "
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


def _counts(
    box_logits: Array,
    class_preds: Array,
    proposals: Array,
    per_prior: int,
    share_location: bool,
) -> tuple[int, int, int]:
    """The number of priors, of classes, and of classes with boxes of their own; shapes must agree on them."""
    shapes = [list(x.shape) for x in (box_logits, class_preds, proposals)]
    if box_logits.ndim != 2 or class_preds.ndim != 2 or not proposals.shape:
        raise InputError(f"box logits, class predictions and proposals have shapes {shapes}, expected ranks 2, 2, 3")
    priors = proposals.shape[-1] // per_prior
    if priors == 0 or proposals.shape[-1] % per_prior:
        raise InputError(f"proposals have shape {shapes[2]}, expected a last dimension of priors * {per_prior}")
    classes = class_preds.shape[1] // priors
    if classes < 1:
        raise InputError(f"class predictions have shape {shapes[1]}, no class for each of {priors} priors")
    location_classes = 1 if share_location else classes
    if class_preds.shape != (box_logits.shape[0], priors * classes):
        raise InputError(f"class predictions have shape {shapes[1]}, expected {[shapes[0][0], priors * classes]}")
    if box_logits.shape[1] != priors * location_classes * 4:
        raise InputError(f"box logits have shape {shapes[0]}, expected [N, {priors * location_classes * 4}]")
    return priors, classes, location_classes


def _by_class(logits: Array, images: int, priors: int, classes: int) -> Array:
    """Box predictions as [image, class, prior, 4]."""
    if logits.size != images * priors * classes * 4:
        raise InputError(f"box predictions have shape {list(logits.shape)}, expected [N, {priors * classes * 4}]")
    by_prior: Array = logits.reshape(images, priors, classes, 4)
    found: Array = by_prior.transpose(0, 2, 1, 3)
    return found


def _decode(boxes: Array, variances: Array | None, logits: Array, code_type: CodeType, size: Array | None) -> Array:
    """Boxes that `logits` make of the prior `boxes`, all as corners; `size` scales priors given in pixels."""
    if size is not None:
        boxes = boxes / size
    moves: Array = logits if variances is None else variances * logits
    if code_type == "caffe.PriorBoxParameter.CORNER":
        return boxes + moves
    sides = boxes[..., 2:] - boxes[..., :2]
    centers = (boxes[..., :2] + boxes[..., 2:]) / 2
    centers = moves[..., :2] * sides + centers
    halves: Array = np.exp(moves[..., 2:]) * sides / 2
    return np.concatenate([centers - halves, centers + halves], axis=-1)


def _caffe_candidates(scores: Array, threshold: np.float32, background: int, top_k: int) -> tuple[Array, Array]:
    """Labels and priors above the threshold, at most `top_k` per class, by class and falling score."""
    labels, indices = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    above = scores > threshold
    for label in np.flatnonzero(above.any(axis=0)):
        if label == background:
            continue
        found = np.flatnonzero(above[:, label])
        found = found[np.argsort(-scores[found, label], kind="stable")]
        found = found[:top_k] if top_k > -1 else found
        labels.append(np.full(len(found), label))
        indices.append(found)
    return np.concatenate(labels), np.concatenate(indices)


def _mxnet_candidates(scores: Array, threshold: np.float32, background: int, top_k: int) -> tuple[Array, Array]:
    """Every prior with its best class, at most `top_k` in all, by class and falling score."""
    allowed = np.where(scores > -1, scores, -1)  # NaN never wins
    allowed[:, :1] = -1  # class 0 is the background, whatever background_label_id says
    if -1 < background < scores.shape[1]:
        allowed[:, background] = -1
    labels = allowed.argmax(axis=1)
    best = allowed.max(axis=1)
    indices = np.flatnonzero((best > -1) & (best >= threshold))
    indices = indices[np.argsort(-best[indices], kind="stable")]
    indices = indices[:top_k] if top_k > -1 else indices
    indices = indices[np.argsort(labels[indices], kind="stable")]
    return labels[indices], indices


def _suppress(boxes: Array, labels: Array, indices: Array, threshold: float) -> Array:
    """Positions of the detections that no better one of the same class overlaps by more than `threshold`."""
    limit = np.float32(threshold)
    kept = [np.zeros(0, np.int64)]
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        mine = boxes[label if len(boxes) > 1 else 0, indices[own]]
        size = areas(mine)

        def suppresses(a: Array, b: Array, mine: Array = mine, size: Array = size) -> Array:
            found: Array = overlaps(mine[a], mine[b], size[a], size[b]) > limit
            return found

        chosen = greedy_nms(len(own), suppresses)
        kept.append(own[chosen])
    return np.concatenate(kept)
