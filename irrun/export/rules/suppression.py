"""Export of non-maximum suppression."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import UnsupportedError
from irrun.export.graph import Value, cast, constant, op, ops
from irrun.export.rules.helpers import (
    concat,
    expand,
    gather,
    get_dimension,
    loop,
    reshape,
    scalar_like,
    slice_axis,
    squeeze,
    unsqueeze,
    where,
)
from irrun.export.rules.movement import flatten
from irrun.export.site import Site, exports
from irrun.shapes import PartialShape

__all__ = ["LOWEST", "collect", "compute_overlaps", "select_greedily", "sort_rows"]

#: A score below all others.
LOWEST = -1e30


def _read_scalar(site: Site, position: int, kind: str, default: float) -> Value:
    """Return an optional scalar input."""
    value = site.get(position)
    if value is None:
        return constant(int(default) if kind == "i64" else default, kind)
    return cast(reshape(value, []), kind)


def compute_overlaps(a: Value, b: Value, offset: float = 0.0) -> Value:
    """Return intersection over union of boxes [..., 4] (corners), with broadcasting; 0 for boxes without area."""

    def split(boxes: Value) -> list[Value]:
        return [gather(boxes, constant(i), -1) for i in range(4)]

    x1, y1, x2, y2 = split(a)
    u1, v1, u2, v2 = split(b)
    zero = scalar_like(a, 0.0)
    width = op("Max", op("Min", x2, u2) - op("Max", x1, u1) + offset, zero)
    height = op("Max", op("Min", y2, v2) - op("Max", y1, v1) + offset, zero)
    intersection = width * height
    first, second = (x2 - x1 + offset) * (y2 - y1 + offset), (u2 - u1 + offset) * (v2 - v1 + offset)
    union = first + second - intersection
    is_valid = (first > 0.0) & (second > 0.0)
    return where(is_valid, intersection / where(union > 0.0, union, 1.0), 0.0)


def sort_rows(scores: Value, limit: Value | None = None) -> tuple[Value, Value]:
    """Sort the last axis in descending order, and keep at most `limit` elements; return values and positions."""
    count = get_dimension(scores, -1)
    if limit is not None:
        count = op("Min", count, limit)
    values, order = ops("TopK", scores, count, outputs=2, axis=-1, largest=1, sorted=1, result="i64")
    return values, order


def select_greedily(
    scores: Value,
    compare: Callable[[Value], Value],
    limit: Value,
    *,
    decay: Callable[[Value], Value] | None = None,
    is_too_large: Callable[[Value, Value | None], Value],
    threshold: Value | None = None,
    shrink: Callable[[Value], Value] | None = None,
    minimum: Value | float = LOWEST / 2,
) -> tuple[Value, Value, Value]:
    """Select boxes one after another, in each row separately.

    Args:
        scores: Shape [rows, boxes]; `LOWEST` for boxes that cannot be selected.
        compare: Takes the selected box of each row, [rows, 1], and returns its overlaps with all boxes, [rows, boxes].
        limit: The maximum number of boxes of a row.
        decay: Takes overlaps and returns the factors of scores; None if boxes are suppressed instead.
        is_too_large: Takes overlaps and the threshold of each row, and returns which boxes are suppressed.
        threshold: The first threshold of each row, [rows, 1].
        shrink: Takes the thresholds of rows that have selected a box, and returns their next thresholds.
        minimum: Only boxes with higher scores are selected.

    Returns:
        The selected boxes, their scores, and whether they are valid; shape [rows, iterations].
    """
    states = [scores]
    if threshold is not None:
        states += [threshold, where(scores > LOWEST / 2, constant(-1.0, scores.type), constant(-1.0, scores.type))]
    count = op("Min", get_dimension(scores, 1), limit)
    boxes = op("Range", constant(0), reshape(get_dimension(scores, 1), []), constant(1))

    def run(number: Value, values: list[Value]) -> tuple[list[Value], list[Value]]:
        remaining = values[0]
        if threshold is not None:
            candidates = where(is_too_large(values[2], values[1]), LOWEST, remaining)
        else:
            candidates = remaining
        best = op("ArgMax", candidates, axis=1, keepdims=1, result="i64")
        score = op("GatherElements", candidates, best, axis=1)
        is_valid = score > minimum
        overlaps = compare(best)
        is_best = op("Equal", boxes, best)
        new: list[Value] = []
        if decay is not None:
            kept = where(is_best | is_too_large(overlaps, None), LOWEST, remaining * decay(overlaps))
            new.append(where(is_valid, kept, where(is_best, LOWEST, remaining)))
        elif threshold is not None:
            assert shrink is not None
            new.append(where(is_best, LOWEST, remaining))
            new.append(where(is_valid, shrink(values[1]), values[1]))
            new.append(where(is_valid, op("Max", values[2], overlaps), values[2]))
        else:
            new.append(where(is_best | is_too_large(overlaps, None), LOWEST, remaining))
        stacked = [squeeze(v, [1]) for v in (best, score, is_valid)]
        for value in stacked:
            value.shape = PartialShape([-1])  # otherwise, results of no iterations have a different rank
        return new, stacked

    def goes_on(values: list[Value]) -> Value:
        return op("ReduceMax", values[0], keepdims=0) > minimum

    _, collected = loop(count, states, run, 3, while_true=goes_on)
    best, score, is_valid = (op("Transpose", v, perm=[1, 0]) for v in collected)
    return best, score, is_valid


def _select(
    site: Site,
    compare: Callable[[Value], Value] | None,
    scores: Value,
    is_too_large: Callable[[Value, Value | None], Value],
    sigma: Value | None,
) -> list[Value]:
    """Return the outputs of NonMaxSuppression and NMSRotated."""
    assert compare is not None
    classes, boxes = get_dimension(scores, 1), get_dimension(scores, 2)
    limit = _read_scalar(site, 2, "i64", 0)
    limit = where(limit < 0, reshape(boxes, []), limit)
    minimum = _read_scalar(site, 4, "f32", 0.0)
    rows = op("Reshape", scores, concat([constant([-1]), boxes]))
    rows = where(rows > minimum, rows, LOWEST)
    decay = None
    if sigma is not None:
        factor = where(sigma > 0.0, -0.5 / sigma, 0.0)

        def decay(overlaps: Value) -> Value:
            return op("Exp", factor * overlaps * overlaps)

    best, score, is_valid = select_greedily(
        rows, compare, limit, decay=decay, is_too_large=is_too_large, minimum=op("Max", minimum, constant(LOWEST / 2))
    )
    place = op("Transpose", op("NonZero", is_valid, result="i64"), perm=[1, 0])
    row = slice_axis(place, 0, 1, 1)
    index = concat([row / classes, op("Mod", row, classes), unsqueeze(op("GatherND", best, place), [1])], 1)
    return _arrange(site, index, op("GatherND", score, place))


def _arrange(site: Site, index: Value, score: Value) -> list[Value]:
    """Sort selected boxes and convert their types."""
    if site.sort_result_descending:
        _, order = sort_rows(score)
        index, score = gather(index, order), gather(score, order)
    pair = cast(slice_axis(index, 0, 2, 1), "f32")
    scored = concat([pair, unsqueeze(cast(score, "f32"), [1])], 1)
    target = site.attributes.get("output_type", "i64")
    count = op("Shape", index, result="i64", start=0, end=1)
    return [cast(index, target), scored, cast(count, target)][: max(1, len(site.types))]


@exports(
    *(f"NonMaxSuppression-{version}" for version in (1, 3, 4, 5, 9)),
)
def export_suppression(site: Site) -> list[Value]:
    """Export NonMaxSuppression. An overlap that equals the threshold suppresses a box, unlike in ONNX."""
    site.assume_rank(0, 3)
    site.assume_rank(1, 3)
    boxes, scores = cast(site[0], "f32"), cast(site[1], "f32")
    is_center = site.box_encoding == "center"
    sigma = site.get(5)
    known = None if sigma is None else sigma.read()
    threshold = _read_scalar(site, 3, "f32", 0.0)
    if sigma is None or (known is not None and float(known.reshape(-1)[0]) <= 0):
        limit = _read_scalar(site, 2, "i64", 0)
        limit = where(limit < 0, constant((1 << 31) - 1), limit)
        # All overlaps reach a threshold of 0, so only the best box remains.
        limit = where(threshold > 0.0, limit, op("Min", limit, constant(1)))
        below = threshold.read()
        if below is not None:
            threshold = constant(np.nextafter(below.astype(np.float32), np.float32(-1)))
        else:
            threshold = threshold - (threshold * 6e-8 + 1e-30)
        threshold = op("Max", threshold, constant(0.0))
        index = op(
            "NonMaxSuppression", boxes, scores, reshape(limit, [1]), reshape(threshold, [1]),
            reshape(_read_scalar(site, 4, "f32", 0.0), [1]), center_point_box=int(is_center), result="i64",
        )  # fmt: skip
        place = op("GatherND", scores, index)
        return _arrange(site, index, place)
    first, second = slice_axis(boxes, 0, 2, 2), slice_axis(boxes, 2, 4, 2)
    if is_center:
        corners = concat([first - second * 0.5, first + second * 0.5], 2)
    else:
        corners = concat([op("Min", first, second), op("Max", first, second)], 2)
    repeated = _repeat_for_classes(corners, scores)

    def compare(best: Value) -> Value:
        chosen = op("GatherElements", repeated, expand(unsqueeze(best, [2]), constant([1, 1, 4])), axis=1)
        return compute_overlaps(chosen, repeated)

    deviation = cast(reshape(sigma, []), "f32")
    is_hard = deviation <= 0.0
    return _select(site, compare, scores, lambda o, _: (o >= threshold) & is_hard, deviation)


def _repeat_for_classes(boxes: Value, scores: Value) -> Value:
    """Return boxes [N * classes, boxes, n] for boxes [N, boxes, n] and scores [N, classes, boxes]."""
    size = get_dimension(boxes, -1)
    shape = concat([op("Shape", scores, result="i64"), size])
    wide = expand(unsqueeze(boxes, [1]), shape)
    return op("Reshape", wide, concat([constant([-1]), get_dimension(boxes, 1), size]))


@exports("NMSRotated-13")
def export_rotated_suppression(site: Site) -> list[Value]:
    """Export NMSRotated as a loop over selected boxes."""
    boxes, scores = cast(site[0], "f64"), cast(site[1], "f32")
    threshold = cast(_read_scalar(site, 3, "f32", 0.0), "f64")
    repeated = _repeat_for_classes(boxes, scores)
    corners, area = _get_rotated_corners(repeated, clockwise=bool(site.clockwise))

    def compare(best: Value) -> Value:
        chosen = op("GatherElements", repeated, expand(unsqueeze(best, [2]), constant([1, 1, 5])), axis=1)
        own, own_area = _get_rotated_corners(chosen, clockwise=bool(site.clockwise))
        return _compute_rotated_overlaps(own, own_area, corners, area)

    return _select(site, compare, scores, lambda o, _: cast(o, "f32") > cast(threshold, "f32"), None)


Points = list[tuple[Value, Value]]


def _get_rotated_corners(boxes: Value, *, clockwise: bool) -> tuple[Points, Value]:
    """Return the corners of boxes [..., 5], and their areas."""
    x, y, width, height, angle = (gather(boxes, constant(i), -1) for i in range(5))
    if not clockwise:
        angle = -angle
    cosine, sine = op("Cos", angle) * 0.5, op("Sin", angle) * 0.5
    points = []
    for u, v in ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)):
        dx, dy = width * u, height * v
        points.append((x + cosine * dx - sine * dy, y + sine * dx + cosine * dy))
    return points, width * height


def _compute_rotated_overlaps(a: Points, a_area: Value, b: Points, b_area: Value) -> Value:
    """Return intersection over union of rotated boxes.

    By Green's theorem, the area of the intersection of two convex polygons is a sum over the parts of each polygon's
    edges inside the other.
    """
    origin = a[0]
    a, b = ([(x - origin[0], y - origin[1]) for x, y in points] for points in (a, b))
    doubled = _integrate(a, b, accepts_border=True) + _integrate(b, a, accepts_border=False)
    intersection = op("Max", doubled * 0.5, scalar_like(doubled, 0.0))
    union = a_area + b_area - intersection
    is_valid = (a_area > 0.0) & (b_area > 0.0) & (intersection > 1e-14)
    return where(is_valid, intersection / where(union > 0.0, union, 1.0), 0.0)


def _integrate(edges: Points, polygon: Points, *, accepts_border: bool) -> Value:
    """Return twice the integral along the parts of one polygon's edges inside another polygon."""
    total: Value | None = None
    for i in range(4):
        (px, py), (qx, qy) = edges[i], edges[(i + 1) % 4]
        dx, dy = qx - px, qy - py
        low: Value | None = None
        high: Value | None = None
        for j in range(4):
            (rx, ry), (sx, sy) = polygon[j], polygon[(j + 1) % 4]
            ex, ey = sx - rx, sy - ry
            distance = ex * (py - ry) - ey * (px - rx)  # of the first point from the edge, positive inside
            slope = ex * dy - ey * dx
            length = op("Sqrt", (ex * ex + ey * ey) * (dx * dx + dy * dy)) + 1e-30
            is_parallel = op("Abs", slope) <= length * 1e-12
            tolerance = length * 1e-12
            is_inside = distance >= -tolerance if accepts_border else distance > tolerance
            crossing = -distance / where(is_parallel, 1.0, slope)
            never = where(is_inside, -math.inf, math.inf)
            enter = where(is_parallel, never, where(slope > 0.0, crossing, -math.inf))
            leave = where(is_parallel, math.inf, where(slope > 0.0, math.inf, crossing))
            low = enter if low is None else op("Max", low, enter)
            high = leave if high is None else op("Min", high, leave)
        assert low is not None
        assert high is not None
        low, high = op("Max", low, scalar_like(dx, 0.0)), op("Min", high, scalar_like(dx, 1.0))
        share = op("Max", high - op("Min", low, scalar_like(dx, 2.0)), scalar_like(dx, 0.0))
        part = share * (px * qy - py * qx)  # the cross product is the same for each part of an edge
        total = part if total is None else total + part
    assert total is not None
    return total


def collect(
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
    image, number = places / length, op("Mod", places, constant(length))
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
    boxes, limit = get_dimension(site[0], 1), reshape(_read_scalar(site, 2, "i64", 0), [1])
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
    overlaps = compute_overlaps(unsqueeze(corners, [3]), unsqueeze(corners, [2]), offset)  # [better, worse]
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
    images, labels, indices, scores, counts = collect(
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
    site.assume_rank(2, 1)
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
    _, labels, indices, detected, counts = collect(
        op("Reshape", labels, pair), op("Reshape", chosen, pair), op("Reshape", kept, pair), int(site.keep_top_k),
        site.sort_result_type, across=bool(site.sort_result_across_batch),
    )  # fmt: skip
    spot = concat([unsqueeze(labels, [1]), unsqueeze(indices, [1])], 1)
    found = op("GatherND", boxes, spot)
    return _make_outputs(site, labels, detected, found, indices * classes + labels, counts, kind)
