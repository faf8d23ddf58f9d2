"""Export of non-maximum suppression over classes, and of operations whose outputs have static shapes."""

from __future__ import annotations

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op, ops
from irrun.export.rules.helpers import (
    concat,
    expand,
    flatten,
    gather,
    get_dimension,
    reshape,
    scalar_like,
    slice_axis,
    unsqueeze,
    where,
)
from irrun.export.rules.suppression import (
    LOWEST,
    compute_overlaps,
    export_rotated_suppression,
    export_suppression,
    read_scalar,
    select_greedily,
    sort_rows,
)
from irrun.export.site import Site, exports


def _collect(
    labels: Value,
    boxes: Value,
    scores: Value,
    keep: int,
    order: str,
    *,
    across: bool,
) -> tuple[Value, Value, Value, Value, Value]:
    """Merge the detections of all images.

    Args:
        labels: The class of each candidate, [N, M], in ascending order.
        boxes: The box of each candidate.
        scores: The scores, `LOWEST` for candidates that are not detections.
        keep: The maximum number of detections of an image; -1 for no limit.
        order: "class", "score" or "none".
        across: Whether the detections of all images are sorted together.

    Returns:
        Image, class, box and score of each detection, and the number of detections of each image.
    """
    limit = None if keep < 0 else constant([keep])
    values, places = sort_rows(scores, limit)
    labels, boxes = (op("GatherElements", v, places, axis=1) for v in (labels, boxes))
    is_valid = values > LOWEST / 2
    counts = op("ReduceSum", cast(is_valid, "i64"), constant([1]), keepdims=0)
    if order.startswith("class") and not across:
        keys = where(is_valid, labels, constant(1 << 40))
        _, by_class = ops("TopK", keys, get_dimension(keys, 1), outputs=2, axis=1, largest=0, sorted=1, result="i64")
        labels, boxes, values = (op("GatherElements", v, by_class, axis=1) for v in (labels, boxes, values))
        is_valid = values > LOWEST / 2
    place = op("Transpose", op("NonZero", is_valid, result="i64"), perm=[1, 0])
    images = gather(place, constant(0), 1)
    labels, boxes, values = (op("GatherND", v, place) for v in (labels, boxes, values))
    if across and order != "none":
        if order == "score":
            _, final = sort_rows(values)
        else:
            size = op("Shape", labels, result="i64")
            _, final = ops("TopK", labels, size, outputs=2, axis=0, largest=0, sorted=1, result="i64")
        images, labels, boxes, values = (gather(v, final) for v in (images, labels, boxes, values))
    return images, labels, boxes, values, counts


def _make_outputs(
    site: Site, labels: Value, scores: Value, corners: Value, positions: Value, counts: Value, kind: ElementType
) -> list[Value]:
    columns = concat([unsqueeze(cast(labels, scores.type), [1]), unsqueeze(scores, [1]), corners], 1)
    return [
        cast(columns, kind),
        cast(unsqueeze(positions, [1]), site.output_type),
        cast(counts, site.output_type),
    ]


def _get_shape(value: Value, count: int) -> list[Value]:
    if value.rank != count:
        raise UnsupportedError(f"an input has rank {value.rank}, expected {count}")
    return [get_dimension(value, i) for i in range(count)]


def _expand_labels(shape: Value) -> Value:
    """Return the number along the second axis of a tensor of rank 3."""
    count = slice_axis(shape, 1, 2)
    numbers = op("Range", constant(0), reshape(count, []), constant(1))
    return expand(reshape(numbers, [1, -1, 1]), shape)


def _extend(value: Value, length: Value) -> Value:
    """Extend the first axis to a length by -1."""
    missing = op("Max", length - get_dimension(value, 0), constant(0))
    rest = op("Shape", value, result="i64", start=1)
    filling = expand(scalar_like(value, -1), concat([missing, rest]) if value.rank != 1 else missing)
    return slice_axis(concat([value, filling], 0), 0, length, 0)


def _pad_images(site: Site, outputs: list[Value]) -> list[Value]:
    """Extend the rows of each image by -1 to the same number."""
    rows, indices, counts = outputs
    classes = site.get_static_shape(1)[1 if site.get(2) is None else 0]
    if 0 <= site.background_class < classes:
        classes = max(1, classes - 1)
    boxes = site.get_static_shape(0)[1]
    length = classes * (min(boxes, int(site.nms_top_k)) if site.nms_top_k >= 0 else boxes)
    if site.keep_top_k >= 0:
        length = min(length, int(site.keep_top_k))
    wide = cast(counts, "i64")
    starts = op("CumSum", wide, constant(0), exclusive=1)
    total = op("Shape", wide, result="i64") * length
    places = op("Range", constant(0), reshape(total, []), constant(1))
    divisor = max(1, length)  # onnxruntime refuses 0, even if there is nothing to divide
    image, number = places / divisor, op("Mod", places, constant(divisor))
    last = get_dimension(rows, 0)
    sources = where(number < gather(wide, image), gather(starts, image) + number, last)
    return [*(gather(_extend(value, last + 1), sources) for value in (rows, indices)), counts]


@exports("MatrixNms-ie_internal_opset")
def export_static_matrix_nms(site: Site) -> list[Value]:
    """Export MatrixNms with outputs of static shapes."""
    return _pad_images(site, export_matrix_nms(site))


@exports("MulticlassNms-ie_internal_opset", "MulticlassNmsIEInternal-ie_internal_opset")
def export_static_multiclass_nms(site: Site) -> list[Value]:
    """Export MulticlassNms with outputs of static shapes."""
    return _pad_images(site, export_multiclass_nms(site))


@exports("NonMaxSuppressionIEInternal-ie_internal_opset")
def export_static_suppression(site: Site) -> list[Value]:
    """Export NonMaxSuppression or NMSRotated with outputs of static shapes."""
    encoding = "center" if site.center_point_box else "corner"
    attributes = {**site.attributes, "box_encoding": encoding, "clockwise": site.rotation == 1}
    inputs = site.inputs[:5] if site.rotation else site.inputs
    inner = Site(site.layer, inputs, attributes, site.outputs, site.types)
    rule = export_rotated_suppression if site.rotation else export_suppression
    indices, scores, count = rule(inner)
    boxes, limit = get_dimension(site[0], 1), reshape(read_scalar(site, 2, "i64", 0), [1])
    length = where(limit < 0, boxes, op("Min", boxes, limit)) * get_dimension(site[1], 0) * get_dimension(site[1], 1)
    return [_extend(indices, length), cast(_extend(scores, length), site.score_output_type), reshape(count, [1])]


@exports("MatrixNms-8")
def export_matrix_nms(site: Site) -> list[Value]:
    """Export MatrixNms: the overlaps of the best boxes of each class form a matrix."""
    kind = site[0].type
    site.assume_rank(0, 3)
    site.assume_rank(1, 3)
    boxes, scores = cast(site[0], "f32"), cast(site[1], "f32")
    _, _, box_count = _get_shape(scores, 3)
    offset = 0.0 if site.normalized else 1.0
    numbers = op("Range", constant(0), reshape(get_dimension(scores, 1), []), constant(1))
    is_used = ~op("Equal", reshape(numbers, [1, -1, 1]), site.background_class)
    masked = where((scores > float(np.float32(site.score_threshold))) & is_used, scores, LOWEST)
    limit = None if site.nms_top_k < 0 else constant([site.nms_top_k])
    values, order = sort_rows(masked, limit)
    wide = expand(unsqueeze(boxes, [1]), concat([op("Shape", scores, result="i64"), constant([4])]))
    corners = op("GatherElements", wide, expand(unsqueeze(order, [3]), constant([1, 1, 1, 4])), axis=2)
    better, worse = unsqueeze(corners, [3]), unsqueeze(corners, [2])
    overlaps = compute_overlaps(better, worse, offset, ignore_disjoint=True)
    size = op("Shape", values, result="i64", start=2)
    place = op("Range", constant(0), reshape(size, []), constant(1))
    is_better = unsqueeze(place, [1]) < unsqueeze(place, [0])
    is_valid = values > LOWEST / 2
    overlaps = where(is_better & unsqueeze(is_valid, [3]), overlaps, 0.0)
    highest = op("ReduceMax", overlaps, constant([2]), keepdims=0)
    own = unsqueeze(highest, [3])
    if site.decay_function == "gaussian":
        factors = op("Exp", (own * own - overlaps * overlaps) * float(np.float32(site.gaussian_sigma)))
    else:
        factors = cast((1.0 - cast(overlaps, "f64")) / (1.0 - cast(own, "f64") + 1e-10), "f32")
    factors = where(is_better, factors, 1.0)
    decayed = values * op("Min", op("ReduceMin", factors, constant([2]), keepdims=0), constant(1.0))
    kept = where(is_valid & (decayed > float(np.float32(site.post_threshold))), decayed, LOWEST)
    return _finish(site, boxes, kept, order, box_count, kind, is_matrix=True)


def _finish(
    site: Site, boxes: Value, kept: Value, order: Value, box_count: Value, kind: ElementType, *, is_matrix: bool
) -> list[Value]:
    """Collect candidates [N, classes, K] from boxes shared by all classes."""
    labels = _expand_labels(op("Shape", kept, result="i64"))
    shape = constant([0, -1])
    # Equal scores are ordered by class, then by box.
    across = bool(site.sort_result_across_batch)
    sorting = site.sort_result_type if across or not is_matrix else "none"
    images, labels, indices, scores, counts = _collect(
        op("Reshape", labels, shape), op("Reshape", order, shape), op("Reshape", kept, shape), int(site.keep_top_k),
        sorting, across=across,
    )  # fmt: skip
    place = concat([unsqueeze(images, [1]), unsqueeze(indices, [1])], 1)
    corners = op("GatherND", boxes, place)
    return _make_outputs(site, labels, scores, corners, images * box_count + indices, counts, kind)


@exports("MulticlassNms-8", "MulticlassNms-9")
def export_multiclass_nms(site: Site) -> list[Value]:
    """Export MulticlassNms as a loop over the selected boxes of all classes."""
    kind = site[0].type
    site.assume_rank(0, 3)
    site.assume_rank(1, 3 if site.get(2) is None else 2)
    boxes, scores = cast(site[0], "f32"), cast(site[1], "f32")
    is_shared = site.get_rank(1) == 3
    offset = 0.0 if site.normalized else 1.0
    starts = None
    if not is_shared:
        counts = op("Max", cast(flatten(site[2]), "i64"), constant(0))
        ends = op("CumSum", counts, constant(0))
        starts = ends - counts
        place = op("Range", constant(0), reshape(get_dimension(scores, 1), []), constant(1))
        is_own = (unsqueeze(place, [0]) >= unsqueeze(starts, [1])) & (unsqueeze(place, [0]) < unsqueeze(ends, [1]))
        scores = where(unsqueeze(is_own, [1]), unsqueeze(scores, [0]), constant(2 * LOWEST))
        shape = op("Shape", scores, result="i64")
        wide = expand(unsqueeze(boxes, [0]), concat([shape, constant([4])]))
    else:
        shape = op("Shape", scores, result="i64")
        wide = expand(unsqueeze(boxes, [1]), concat([shape, constant([4])]))
    images, classes, box_count = (slice_axis(shape, i, i + 1) for i in range(3))
    numbers = op("Range", constant(0), reshape(classes, []), constant(1))
    is_used = ~op("Equal", reshape(numbers, [1, -1, 1]), site.background_class)
    threshold = float(np.float32(site.score_threshold))
    masked = where((scores >= threshold) & is_used & (scores > LOWEST), scores, LOWEST)
    limit = None if site.nms_top_k < 0 else constant([site.nms_top_k])
    masked = op("Reshape", masked, concat([constant([-1]), box_count]))
    values, order = sort_rows(masked, limit)
    flat = op("Reshape", wide, concat([constant([-1]), box_count, constant([4])]))
    corners = op("GatherElements", flat, expand(unsqueeze(order, [2]), constant([1, 1, 4])), axis=1)

    def compare(best: Value) -> Value:
        chosen = op("GatherElements", corners, expand(unsqueeze(best, [2]), constant([1, 1, 4])), axis=1)
        return compute_overlaps(chosen, corners, offset)

    eta, start = float(site.nms_eta), np.float32(site.iou_threshold)
    size = get_dimension(values, 1)
    if 0 <= eta < 1:
        first = expand(constant(np.array([[start]])), concat([op("Shape", values, result="i64", end=1), constant([1])]))

        def is_over(overlaps: Value, thresholds: Value | None) -> Value:
            assert thresholds is not None
            return overlaps >= thresholds

        best, score, is_valid = select_greedily(
            values, compare, size, is_too_large=is_over, threshold=first,
            shrink=lambda t: where(t > 0.5, t * eta, t),
        )  # fmt: skip
    else:
        best, score, is_valid = select_greedily(values, compare, size, is_too_large=lambda o, _: o >= constant(start))
    kept = where(is_valid, score, LOWEST)
    chosen = op("GatherElements", order, best, axis=1)
    target = concat([images, classes, constant([-1])])
    kept, chosen = op("Reshape", kept, target), op("Reshape", chosen, target)
    if is_shared:
        return _finish(site, boxes, kept, chosen, box_count, kind, is_matrix=False)
    labels = _expand_labels(op("Shape", kept, result="i64"))
    pair = constant([0, -1])
    _, labels, indices, detected, counts = _collect(
        op("Reshape", labels, pair), op("Reshape", chosen, pair), op("Reshape", kept, pair), int(site.keep_top_k),
        site.sort_result_type, across=bool(site.sort_result_across_batch),
    )  # fmt: skip
    spot = concat([unsqueeze(labels, [1]), unsqueeze(indices, [1])], 1)
    found = op("GatherND", boxes, spot)
    return _make_outputs(site, labels, detected, found, indices * classes + labels, counts, kind)
