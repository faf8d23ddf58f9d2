"""Export of NonMaxSuppression and NMSRotated, and the selection of boxes that all suppression shares."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

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
from irrun.export.site import Site, exports
from irrun.shapes import PartialShape

__all__ = [
    "LOWEST",
    "compute_overlaps",
    "export_rotated_suppression",
    "export_suppression",
    "read_scalar",
    "select_greedily",
    "sort_rows",
]

#: A score below all others.
LOWEST = -1e30


def read_scalar(site: Site, position: int, kind: str, default: float) -> Value:
    """Return an optional scalar input."""
    value = site.get(position)
    if value is None:
        return constant(int(default) if kind == "i64" else default, kind)
    return cast(reshape(value, []), kind)


def compute_overlaps(a: Value, b: Value, offset: float = 0.0, *, ignore_disjoint: bool = False) -> Value:
    """Return intersection over union of boxes [..., 4] (corners), with broadcasting; 0 for boxes without area.

    Args:
        a: Boxes.
        b: Boxes.
        offset: Added to each side.
        ignore_disjoint: Whether disjoint boxes have no intersection even if `offset` would produce one.
    """

    def split(boxes: Value) -> list[Value]:
        return [gather(boxes, constant(i), -1) for i in range(4)]

    x1, y1, x2, y2 = split(a)
    u1, v1, u2, v2 = split(b)
    zero = scalar_like(a, 0.0)
    width, height = op("Min", x2, u2) - op("Max", x1, u1), op("Min", y2, v2) - op("Max", y1, v1)
    intersection = op("Max", width + offset, zero) * op("Max", height + offset, zero)
    if ignore_disjoint:
        intersection = where((width < 0.0) | (height < 0.0), 0.0, intersection)
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
    limit = read_scalar(site, 2, "i64", 0)
    limit = where(limit < 0, reshape(boxes, []), limit)
    minimum = read_scalar(site, 4, "f32", 0.0)
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
    threshold = read_scalar(site, 3, "f32", 0.0)
    if sigma is None or (known is not None and float(known.reshape(-1)[0]) <= 0):
        limit = read_scalar(site, 2, "i64", 0)
        limit = where(limit < 0, constant((1 << 31) - 1), limit)
        # All overlaps reach a threshold of 0, so only the best box remains.
        limit = where(threshold > 0.0, limit, op("Min", limit, constant(1)))
        below = threshold.read()
        if below is not None:
            threshold = constant(np.nextafter(below.astype(np.float32), np.float32(-1)))
        else:
            threshold = threshold * float(1 - np.finfo(np.float32).epsneg)
        threshold = op("Max", threshold, constant(0.0))
        index = op(
            "NonMaxSuppression", boxes, scores, reshape(limit, [1]), reshape(threshold, [1]),
            reshape(read_scalar(site, 4, "f32", 0.0), [1]), center_point_box=int(is_center), result="i64",
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
    threshold = cast(read_scalar(site, 3, "f32", 0.0), "f64")
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
            # Common parts of edges count once, and not at all if the polygons are on different sides of them.
            is_same_side = ex * dx + ey * dy > 0.0
            is_inside = distance > (where(is_same_side, -tolerance, tolerance) if accepts_border else tolerance)
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
