"""Shapes of operations for object detection and for images."""

from __future__ import annotations

import math

from irrun.ops._support.boxes import count_prior_boxes
from irrun.ops.shape_rules.axes import (
    check_rank,
    check_scalar,
    check_size,
    get_dimension,
    match_sizes,
)
from irrun.ops.shape_rules.dimensions import (
    Dimension,
    get_bounds,
    make_dimension,
    make_static,
    merge,
    multiply,
)
from irrun.ops.shape_rules.registration import Shapes, rule
from irrun.ops.shape_rules.values import Inputs, ShapeError
from irrun.shapes import UNBOUNDED, PartialShape

__all__: list[str] = []


@rule
def infer_suppression(inputs: Inputs) -> Shapes:
    """Return [selected boxes, 3] twice, and [1]."""
    return _infer_suppression(inputs, coordinates=5 if inputs.attributes.get("rotation") else 4)


@rule
def infer_rotated_suppression(inputs: Inputs) -> Shapes:
    """Return [selected boxes, 3] twice, and [1]."""
    return _infer_suppression(inputs, coordinates=5)


def _infer_suppression(inputs: Inputs, coordinates: int) -> Shapes:
    total, _ = _count_boxes(inputs, coordinates)
    selected = PartialShape([UNBOUNDED if total is None else make_dimension(0, total), 3])
    return [selected, selected, PartialShape([1])]


@rule
def infer_padded_suppression(inputs: Inputs) -> Shapes:
    """Return [selected boxes, 3], padded to the largest number of boxes in all images."""
    return _infer_padded_suppression(inputs, with_images=True)


@rule
def infer_padded_suppression_per_image(inputs: Inputs) -> Shapes:
    """Return [selected boxes, 3], padded to the largest number of boxes in one image, as the first versions declare."""
    return _infer_padded_suppression(inputs, with_images=False)


def _infer_padded_suppression(inputs: Inputs, with_images: bool) -> Shapes:
    total, is_exact = _count_boxes(inputs, 4, with_images)
    return [PartialShape([make_static(total) if total is not None and is_exact else UNBOUNDED, 3])]


def _count_boxes(inputs: Inputs, coordinates: int, with_images: bool = True) -> tuple[int | None, bool]:
    """Return the largest number of selected boxes, None if it is unknown, and whether the inputs have static sizes.

    Args:
        inputs: The inputs.
        coordinates: The number of coordinates of a box.
        with_images: Whether to count the boxes of all images.
    """
    boxes, scores = inputs.get_shape(0), inputs.get_shape(1)
    check_rank(inputs, 0, 3)
    check_rank(inputs, 1, 3)
    if boxes is not None and scores is not None:
        for i, j, name in ((0, 0, "batch sizes"), (1, 2, "numbers of boxes")):
            match_sizes(boxes[i], scores[j], f"boxes {boxes} and scores {scores} have different {name}")
    check_size(inputs, 0, 2, coordinates)
    check_scalar(inputs, *range(2, len(inputs)))
    most = inputs.get_integer(2) if inputs.has(2) else 0
    places = [(boxes, 1), (scores, 1), (scores, 0)] if with_images else [(boxes, 1), (scores, 1)]
    factors = [get_dimension(*place) for place in places]
    limits = [None if factor is None else get_bounds(factor)[1] for factor in factors]
    known = [limit for limit in limits if limit is not None]
    if most is None or len(known) < len(limits):
        return None, False
    return math.prod([min(known[0], most), *known[1:]]), all(isinstance(factor, int) for factor in factors)


@rule
def infer_class_suppression(inputs: Inputs) -> Shapes:
    """Return [selected boxes, 6], [selected boxes, 1] and [images]."""
    boxes, scores = inputs.get_shape(0), inputs.get_shape(1)
    images: Dimension = UNBOUNDED
    count: Dimension = UNBOUNDED
    if inputs.has(2):
        images = inputs.get_length(2)
        if boxes is not None and scores is not None:
            count = _limit_boxes(inputs, boxes[1], scores[0], images)
    elif boxes is not None and scores is not None:
        images = merge(boxes[0], scores[0]) or scores[0]
        count = _limit_boxes(inputs, boxes[1], scores[1], scores[0])
    else:
        images = scores[0] if scores is not None else boxes[0] if boxes is not None else UNBOUNDED
    return [PartialShape([count, 6]), PartialShape([count, 1]), PartialShape([images])]


def _limit_boxes(inputs: Inputs, boxes: Dimension, classes: Dimension, images: Dimension) -> Dimension:
    """Return the maximum number of selected boxes."""
    if not isinstance(boxes, int) or not isinstance(classes, int):
        return UNBOUNDED
    per_class, count = int(boxes), int(classes)
    if inputs["nms_top_k"] >= 0:
        per_class = min(per_class, inputs["nms_top_k"])
    if 0 <= inputs["background_class"] < count:
        count -= 1
    total = per_class * count
    if inputs["keep_top_k"] >= 0:
        total = min(total, inputs["keep_top_k"])
    most = get_bounds(images)[1]
    return make_dimension(0, None if most is None else total * most)


@rule
def infer_detection_output(inputs: Inputs) -> Shapes:
    """Return [1, 1, detections, 7]."""
    batch = get_dimension(inputs.get_shape(0), 0) or UNBOUNDED
    priors, classes = _check_predictions(inputs)
    keep, top = inputs["keep_top_k"], inputs["top_k"]
    count: Dimension = UNBOUNDED
    if keep and keep[0] > 0:
        count = multiply(batch, keep[0])
    elif top > 0 and classes is not None:
        count = multiply(multiply(batch, top), classes)
    elif priors is not None and classes is not None and isinstance(batch, int):
        count = multiply(multiply(batch, priors), classes)
    return [PartialShape([1, 1, count, 7])]


def _check_predictions(inputs: Inputs) -> tuple[int | None, int | None]:
    """Return the numbers of prior boxes and of classes as far as they are known.

    Raises:
        ShapeError: The inputs have different numbers of prior boxes.
    """
    logits, predictions, proposals = (inputs.get_shape(i) for i in range(3))
    classes = inputs.attributes.get("num_classes")
    length = get_dimension(proposals, 2)
    if not isinstance(length, int):
        return None, classes
    size = 4 if inputs["normalized"] else 5
    priors = int(length) // size
    if length % size or not priors:
        raise ShapeError(f"proposals has the shape {proposals}, expected a multiple of {size} in its last dimension")
    found = get_dimension(predictions, 1)
    if classes is None and isinstance(found, int):
        classes = int(found) // priors
    if classes is not None:
        check_size(inputs, 1, 1, priors * classes)
        check_size(inputs, 0, 1, priors * 4 * (1 if inputs["share_location"] else classes))
    elif logits is not None and inputs["share_location"]:
        check_size(inputs, 0, 1, priors * 4)
    return priors, classes


@rule
def infer_detectron_output(inputs: Inputs) -> Shapes:
    """Return boxes, classes and scores of a fixed number of detections."""
    check_size(inputs, 3, 0, 1)
    count = inputs["max_detections_per_image"]
    return [PartialShape([count, 4]), PartialShape([count]), PartialShape([count])]


@rule
def infer_detectron_proposals(inputs: Inputs) -> Shapes:
    """Return a fixed number of boxes and scores."""
    check_size(inputs, 0, 0, 3)
    count = inputs["post_nms_count"]
    return [PartialShape([count, 4]), PartialShape([count])]


@rule
def infer_prior_grid(inputs: Inputs) -> Shapes:
    """Return [H * W * priors, 4], or [H, W, priors, 4]."""
    priors, features = inputs.get_shape(0), inputs.get_shape(1)
    rows = get_dimension(features, 2) or UNBOUNDED
    columns = get_dimension(features, 3) or UNBOUNDED
    count = get_dimension(priors, 0) or UNBOUNDED
    check_size(inputs, 0, 1, 4)
    if inputs["flatten"]:
        return [PartialShape([multiply(multiply(rows, columns), count), 4])]
    return [PartialShape([rows, columns, count, 4])]


@rule
def infer_detectron_features(inputs: Inputs) -> Shapes:
    """Return [regions, C, size, size], and the regions."""
    rois = inputs.get_shape(0)
    count = get_dimension(rois, 0) or UNBOUNDED
    channels: Dimension = UNBOUNDED
    for position in range(1, len(inputs)):
        found = get_dimension(inputs.get_shape(position), 1)
        if found is None:
            continue
        channels = match_sizes(channels, found, f"input {position} has {found} channels, expected {channels}")
        check_size(inputs, position, 0, 1)
    check_size(inputs, 0, 1, 4)
    size = inputs["output_size"]
    return [PartialShape([count, channels, size, size]), PartialShape([count, 4])]


@rule
def infer_top_regions(inputs: Inputs) -> Shapes:
    """Return [max_rois, 4]."""
    check_size(inputs, 0, 1, 4)
    return [PartialShape([inputs["max_rois"], 4])]


@rule
def infer_proposals(inputs: Inputs) -> Shapes:
    """Return [boxes, 4], [boxes] and [images]."""
    images: Dimension = UNBOUNDED
    for position in (0, 2, 3):
        found = get_dimension(inputs.get_shape(position), 0)
        if found is not None:
            images = match_sizes(images, found, f"{inputs.get_name(position)} has {found} images, im_info has {images}")
    for axis, other, name in ((0, 2, "rows"), (1, 3, "columns")):
        place, expected = get_dimension(inputs.get_shape(1), axis), get_dimension(inputs.get_shape(3), other)
        if place is not None and expected is not None:
            anchors, scores = inputs.get_shape(1), inputs.get_shape(3)
            match_sizes(place, expected, f"anchors {anchors} have {place} {name}, scores {scores} have {expected}")
    most = get_bounds(images)[1]
    count = make_dimension(0, None if most is None else most * inputs["post_nms_count"])
    return [PartialShape([count, 4]), PartialShape([count]), PartialShape([images])]


@rule
def infer_static_proposals(inputs: Inputs) -> Shapes:
    """Return [images * boxes, 4], [images * boxes] and [images]."""
    _, _, counts = infer_proposals(inputs)
    assert counts is not None
    count = multiply(counts[0], inputs["post_nms_count"])
    return [PartialShape([count, 4]), PartialShape([count]), counts]


@rule
def infer_fixed_proposals(inputs: Inputs) -> Shapes:
    """Return [images * boxes, 5], and the scores."""
    images: Dimension = UNBOUNDED
    scores, deltas = get_dimension(inputs.get_shape(0), 1), get_dimension(inputs.get_shape(1), 1)
    if isinstance(scores, int) and isinstance(deltas, int) and 2 * scores != deltas:
        raise ShapeError(
            f"class_probs {inputs.get_shape(0)} has {scores} channels, bbox_deltas {inputs.get_shape(1)} has {deltas}, "
            f"expected twice as many"
        )
    for position in (0, 1):
        found = get_dimension(inputs.get_shape(position), 0)
        if found is not None:
            message = f"{inputs.get_name(position)} has the batch size {found}, expected {images}"
            images = match_sizes(images, found, message)
    size = inputs.get_shape(2)
    if size and isinstance(size[0], int) and size[0] not in (3, 4):
        raise ShapeError(f"image_shape has {size[0]} elements, expected 3 or 4")
    count = multiply(images, inputs["post_nms_topn"])
    shapes = [PartialShape([count, 5])]
    return shapes if inputs.operation.since < 4 else [*shapes, PartialShape([count])]


@rule
def infer_clustered_prior_boxes(inputs: Inputs) -> Shapes:
    """Return [2, 4 * boxes]."""
    return _infer_prior_boxes(inputs, len(inputs["width"]))


@rule
def infer_prior_boxes(inputs: Inputs) -> Shapes:
    """Return [2, 4 * boxes]."""
    names = ("aspect_ratio", "min_size", "max_size", "fixed_size", "fixed_ratio", "density", "flip", "scale_all_sizes")
    return _infer_prior_boxes(inputs, count_prior_boxes(**{name: inputs[name] for name in names}))


def _infer_prior_boxes(inputs: Inputs, count: int) -> Shapes:
    size = inputs.get_dimensions(0)
    if size is None or len(size) != 2:
        return [PartialShape([2, UNBOUNDED])]
    return [PartialShape([2, multiply(multiply(size[0], size[1]), 4 * count)])]


@rule
def infer_region_alignment(inputs: Inputs) -> Shapes:
    """Return [regions, C, pooled_h, pooled_w]."""
    data, rois, indices = (inputs.get_shape(i) for i in range(3))
    check_rank(inputs, 0, 4)
    check_rank(inputs, 1, 2)
    count = get_dimension(rois, 0) or UNBOUNDED
    if indices:
        count = match_sizes(count, indices[0], f"batch_indices has {indices[0]} elements, rois {rois} expects {count}")
    channels = get_dimension(data, 1) or UNBOUNDED
    return [PartialShape([count, channels, inputs["pooled_h"], inputs["pooled_w"]])]


@rule
def infer_region_pooling(inputs: Inputs) -> Shapes:
    """Return [regions, C, pooled_h, pooled_w]."""
    data, rois = inputs.get_shape(0), inputs.get_shape(1)
    check_size(inputs, 1, 1, 5)
    pooled, size = [inputs["pooled_h"], inputs["pooled_w"]], inputs["output_roi"] or inputs["output_size"]
    size = pooled if len(size) != 2 or all(pooled) else size
    return [PartialShape([get_dimension(rois, 0) or UNBOUNDED, get_dimension(data, 1) or UNBOUNDED, *size])]


@rule
def infer_position_sensitive_pooling(inputs: Inputs) -> Shapes:
    """Return [regions, output_dim, group_size, group_size]."""
    check_size(inputs, 1, 1, 5)
    return infer_deformable_pooling(inputs)


@rule
def infer_deformable_pooling(inputs: Inputs) -> Shapes:
    """Return [regions, output_dim, group_size, group_size]."""
    count = get_dimension(inputs.get_shape(1), 0) or UNBOUNDED
    size = inputs["group_size"]
    return [PartialShape([count, inputs["output_dim"], size, size])]
