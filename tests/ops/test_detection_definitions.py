"""Detection and suppression of boxes, compared with loops over boxes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from irrun.ops.detection.detection_output import detection_output_8
from irrun.ops.detection.detectron import (
    experimental_detectron_detection_output_6,
    experimental_detectron_roi_feature_extractor_6,
)
from irrun.ops.detection.prior_box import prior_box_1, prior_box_clustered_1
from irrun.ops.detection.proposal import proposal_4
from irrun.ops.sort.matrix_nms import matrix_nms_8
from irrun.ops.sort.non_max_suppression import nms_rotated_13, non_max_suppression_5

Array = np.ndarray[Any, Any]

F32 = np.float32


def compute_overlap(a: Array, b: Array, offset: float = 0.0) -> float:
    """Return the intersection over union of two boxes."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if (sides < 0).any():
        return 0.0
    intersection = (sides + offset).prod()
    return float(intersection / ((a[2:] - a[:2] + offset).prod() + (b[2:] - b[:2] + offset).prod() - intersection))


def make_boxes(count: int, seed: int = 0, scale: float = 1.0) -> Array:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 1, (count, 2))
    return (np.concatenate([low, low + rng.uniform(0.2, 0.8, (count, 2))], axis=1) * scale).astype(F32)


def suppress(boxes: Array, scores: Array, threshold: float, offset: float = 0.0) -> list[int]:
    """Return the boxes that greedy suppression keeps, in descending order of score."""
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable").tolist():
        if all(compute_overlap(boxes[i], boxes[k], offset) <= threshold for k in kept):
            kept.append(i)
    return kept


def test_boxes_are_refined_and_suppressed_per_class() -> None:
    rng = np.random.default_rng(3)
    rois = make_boxes(12, scale=40.0)
    rois[4, 2] = rois[4, 0]  # a region without an area has the score 0
    deltas, scores = rng.normal(size=(12, 12)).astype(F32), rng.uniform(size=(12, 3)).astype(F32)
    weights, limit = [10.0, 8.0, 5.0, 4.0], 0.2
    for per_class, total in ((-1, 40), (2, 40), (-1, 5)):
        boxes, classes, best = experimental_detectron_detection_output_6(
            rois,
            deltas,
            scores,
            np.ones((1, 3), F32),
            score_threshold=0.3,
            nms_threshold=0.4,
            num_classes=3,
            post_nms_count=per_class,
            max_detections_per_image=total,
            max_delta_log_wh=limit,
            deltas_weights=weights,
        )
        expected = []
        sides = rois[:, 2:] - rois[:, :2] + 1
        for label in (1, 2):
            moves = deltas[:, label * 4 : label * 4 + 4] / np.array(weights, F32)
            centers = rois[:, :2] + sides / 2 + moves[:, :2] * sides
            halves = np.exp(np.minimum(moves[:, 2:], limit)) * sides / 2
            refined = np.maximum(np.concatenate([centers - halves, centers + halves - 1], axis=1), 0)
            class_scores = np.where(np.arange(12) == 4, 0, scores[:, label])
            members = np.flatnonzero(class_scores > 0.3)
            kept = members[suppress(refined[members], class_scores[members], 0.4, 1.0)]
            kept = kept[: per_class if per_class >= 0 else None]
            expected += [(label, int(i), float(class_scores[i]), refined[i]) for i in kept]
        if len(expected) > total:
            expected = sorted(expected, key=lambda row: (-row[2], row[1]))[:total]
        count = len(expected)
        assert 0 < count <= total
        assert boxes.shape == (total, 4)
        assert classes[:count].tolist() == [row[0] for row in expected]
        np.testing.assert_allclose(best[:count], [row[2] for row in expected], rtol=1e-6)
        np.testing.assert_allclose(boxes[:count], [row[3] for row in expected], rtol=1e-4, atol=1e-4)
        for rest in (boxes[count:], classes[count:], best[count:]):
            assert not rest.any()


def test_regions_are_pooled_from_the_level_of_their_size() -> None:
    maps = [np.full((1, 2, 8, 8), level, F32) for level in (1, 2, 3, 4)]
    sides = np.array([20, 111, 113, 225, 447, 449, 2000], F32)
    rois = np.stack([sides * 0, sides * 0, sides, sides], axis=1)
    rois = np.concatenate([rois, np.array([[5, 5, 5, 9]], F32)])
    features, same = experimental_detectron_roi_feature_extractor_6(
        rois, *maps, output_size=2, sampling_ratio=1, pyramid_scales=[64, 64, 64, 256]
    )
    # The side 224 belongs to the third of all levels that exist in the definition.
    levels = [min(max(math.floor(2 + math.log2(side / 224)), 0), 3) for side in sides.tolist()]
    np.testing.assert_array_equal(features[:-1, 0, 0, 0], [level + 1 for level in levels])
    assert same is rois


@pytest.mark.parametrize("function", ["linear", "gaussian"])
@pytest.mark.parametrize("normalized", [True, False])
def test_matrix_suppression_decays_by_all_better_boxes(normalized: bool, function: Any) -> None:
    boxes, sigma = make_boxes(8, 1, 5.0)[None].repeat(2, 0), 1.5
    boxes[1] += np.random.default_rng(4).uniform(0, 0.5, (8, 4)).astype(F32)
    scores = np.random.default_rng(5).uniform(size=(2, 3, 8)).astype(F32)
    scores[0, 1, 2] = 0.25  # equal to the threshold
    for top_k, keep, across, order in ((-1, -1, False, "none"), (4, 5, False, "none"), (5, -1, True, "score")):
        outputs, indices, counts = matrix_nms_8(
            boxes,
            scores,
            score_threshold=0.25,
            post_threshold=0.2,
            nms_top_k=top_k,
            keep_top_k=keep,
            background_class=0,
            decay_function=function,
            gaussian_sigma=sigma,
            normalized=normalized,
            sort_result_type=order,
            sort_result_across_batch=across,
        )
        expected: list[tuple[int, float, int, int]] = []
        numbers = []
        for image in range(2):
            rows = []
            for label in (1, 2):
                members = [
                    i for i in np.argsort(-scores[image, label], kind="stable") if scores[image, label, i] > 0.25
                ]
                members = members[: top_k if top_k >= 0 else None]
                offset = 0.0 if normalized else 1.0
                overlap = [
                    [compute_overlap(boxes[image, i], boxes[image, j], offset) for j in members] for i in members
                ]
                worst = [max(overlap[i][:i], default=0.0) for i in range(len(members))]
                for i, box in enumerate(members):
                    factor = 1.0
                    for j in range(i):
                        if function == "linear":
                            factor = min(factor, (1 - overlap[i][j]) / (1 - worst[j] + 1e-10))
                        else:
                            factor = min(factor, math.exp((worst[j] ** 2 - overlap[i][j] ** 2) * sigma))
                    score = float(scores[image, label, box]) * factor
                    if score > 0.2:
                        rows.append((label, score, int(box), image))
            rows.sort(key=lambda row: -row[1])
            rows = rows[: keep if keep >= 0 else None]
            numbers.append(len(rows))
            expected += rows
        if across:
            expected.sort(key=lambda row: -row[1])
        assert counts.tolist() == numbers
        found = sorted(zip(indices.reshape(-1).tolist(), outputs[:, 0].tolist(), outputs[:, 1].tolist(), strict=True))
        wanted = sorted((image * 8 + box, float(label), score) for label, score, box, image in expected)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
        corners = boxes.reshape(16, 4)[indices.reshape(-1)]
        np.testing.assert_array_equal(outputs[:, 2:], corners)
        if across:
            assert (np.diff(outputs[:, 1]) <= 0).all()


def test_soft_suppression_decays_until_the_threshold() -> None:
    boxes, scores = make_boxes(10, 2)[None], np.random.default_rng(6).uniform(0.3, 1, (1, 2, 10)).astype(F32)
    sigma, threshold = 0.3, 0.35
    for limit in (3, 10):
        indices, selected, count = non_max_suppression_5(
            boxes,
            scores,
            np.array(limit),
            F32(0.5),
            F32(threshold),
            F32(sigma),
            sort_result_descending=False,
        )
        expected = []
        for label in range(2):
            remaining = {i: float(s) for i, s in enumerate(scores[0, label]) if s > threshold}
            for _ in range(limit):
                best = max(remaining, key=lambda i: remaining[i], default=-1)
                if best < 0 or remaining[best] <= threshold:
                    break
                expected.append((label, best, remaining.pop(best)))
                for i in remaining:
                    remaining[i] *= math.exp(-0.5 / sigma * compute_overlap(boxes[0, i], boxes[0, best]) ** 2)
        assert count.tolist() == [len(expected)]
        assert indices.tolist() == [[0, label, box] for label, box, _ in expected]
        np.testing.assert_allclose(selected[:, 2], [score for *_, score in expected], rtol=1e-5)


@pytest.mark.parametrize("is_clockwise", [False, True])
def test_angles_of_rotated_boxes_have_a_direction(is_clockwise: bool) -> None:
    # A flat box turned clockwise, in a picture whose y axis points down, has its right end below the center.
    corner = 0.3 if is_clockwise else -0.3
    long, thin = [0.0, 0.0, 4.0, 0.5, 0.3], [1.5, 1.5 * math.tan(corner), 1.0, 0.5, 0.3]
    other = [1.5, -1.5 * math.tan(corner), 1.0, 0.5, 0.3]
    boxes, scores = np.array([[long, thin, other]], F32), np.array([[[0.9, 0.8, 0.7]]], F32)
    indices, *_ = nms_rotated_13(boxes, scores, np.array(3), F32(0.1), F32(0), clockwise=is_clockwise)
    assert indices[:, 2].tolist() == [0, 2]


def test_detections_are_refined_in_two_steps() -> None:
    rng = np.random.default_rng(8)
    priors = make_boxes(5, 9)[None, None].reshape(1, 1, 20) / 2
    variances = rng.uniform(0.1, 0.3, (1, 1, 20)).astype(F32)
    logits, first = (rng.normal(size=(2, 20)).astype(F32) for _ in range(2))
    scores = rng.uniform(size=(2, 15)).astype(F32)
    objectness = rng.uniform(size=(2, 10)).astype(F32)
    for clips, code in itertools.product((False, True), ("CORNER", "CENTER_SIZE")):
        result = detection_output_8(
            logits,
            scores,
            np.concatenate([priors, variances], axis=1),
            objectness,
            first,
            background_label_id=0,
            keep_top_k=[6],
            nms_threshold=0.4,
            confidence_threshold=0.2,
            normalized=True,
            objectness_score=0.4,
            code_type=f"caffe.PriorBoxParameter.{code}",
            clip_before_nms=clips,
        )

        def refine(boxes: Array, deltas: Array, code: str = code, clips: bool = clips) -> Array:
            deltas = deltas.reshape(5, 4) * variances.reshape(5, 4)
            if code == "CORNER":
                boxes = boxes + deltas
            else:
                sides = boxes[:, 2:] - boxes[:, :2]
                centers = (boxes[:, :2] + boxes[:, 2:]) / 2 + deltas[:, :2] * sides
                halves = np.exp(deltas[:, 2:]) * sides / 2
                boxes = np.concatenate([centers - halves, centers + halves], axis=1)
            return np.clip(boxes, 0, 1) if clips else boxes

        expected = []
        for image in range(2):
            boxes = refine(refine(priors.reshape(5, 4), first[image]), logits[image])
            rows = []
            for label in (1, 2):
                own = scores[image].reshape(5, 3)[:, label].copy()
                own[objectness[image].reshape(5, 2)[:, 1] < 0.4] = 0
                members = np.flatnonzero(own >= 0.2)
                kept = members[suppress(boxes[members], own[members], 0.4)]
                rows += [(label, float(own[i]), boxes[i]) for i in kept]
            rows = sorted(sorted(rows, key=lambda row: -row[1])[:6], key=lambda row: row[0])
            expected += [[image, label, score, *box] for label, score, box in rows]
        assert result.shape == (1, 1, 12, 7)
        np.testing.assert_allclose(result[0, 0, : len(expected)], expected, rtol=1e-4, atol=1e-5)
        if len(expected) < 12:
            assert result[0, 0, len(expected)].tolist() == [-1, 0, 0, 0, 0, 0, 0]


PRIORS, CLASSES, IMAGES = 7, 3, 2
#: Changes of the attributes of DetectionOutput.
DETECTIONS: list[dict[str, Any]] = [
    {},
    {"keep_top_k": [4]},
    {"keep_top_k": [-1], "top_k": 2},
    {"keep_top_k": [0], "top_k": 2},
    {"keep_top_k": [3], "top_k": 4, "background_label_id": 2},
    {"background_label_id": -1, "confidence_threshold": 0.3},
    {"background_label_id": CLASSES},
    {"background_label_id": -2, "top_k": 3},
    {"decrease_label_id": True, "background_label_id": CLASSES},
    {"share_location": False, "nms_threshold": 0.7},
    {
        "share_location": False,
        "variance_encoded_in_target": True,
        "background_label_id": 1,
        "confidence_threshold": 0.6,
    },
    {"variance_encoded_in_target": True, "code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "clip_after_nms": True},
    {"normalized": False, "input_width": 3, "input_height": 2, "clip_before_nms": True},
    {"normalized": False, "code_type": "caffe.PriorBoxParameter.CENTER_SIZE"},
    {"decrease_label_id": True},
    {"decrease_label_id": True, "confidence_threshold": -3.0, "top_k": 5, "background_label_id": 2},
    {"decrease_label_id": True, "confidence_threshold": 0.5, "keep_top_k": [2], "share_location": False},
]


@pytest.mark.parametrize("changes", DETECTIONS, ids=str)
@pytest.mark.parametrize("own_priors", [False, True])
def test_detections_are_those_of_loops(changes: dict[str, Any], own_priors: bool) -> None:
    rng = np.random.default_rng(17)
    settings: dict[str, Any] = {
        "keep_top_k": [-1],
        "top_k": -1,
        "nms_threshold": 0.3,
        "confidence_threshold": 0.1,
        "background_label_id": 0,
        "code_type": "caffe.PriorBoxParameter.CORNER",
        "share_location": True,
        "variance_encoded_in_target": False,
        "normalized": True,
        "input_width": 1,
        "input_height": 1,
        "clip_before_nms": False,
        "clip_after_nms": False,
        "decrease_label_id": False,
    } | changes
    locations = 1 if settings["share_location"] else CLASSES
    logits = rng.normal(size=(IMAGES, PRIORS, locations, 4)).astype(F32) * F32(0.3)
    scores = rng.uniform(size=(IMAGES, PRIORS, CLASSES)).astype(F32)
    scores[0, 3] = -1  # no class at all
    scores[1, 2, 1] = np.nan
    sets = IMAGES if own_priors else 1
    boxes = np.stack([make_boxes(PRIORS, seed) for seed in range(sets)])
    if not settings["normalized"]:
        boxes = boxes * np.array([settings["input_width"], settings["input_height"]] * 2, F32)
    rows = boxes if settings["normalized"] else np.insert(boxes, 0, 9, axis=2)
    variances = rng.uniform(0.5, 1.5, (sets, PRIORS, 4)).astype(F32)
    proposals = np.zeros((sets, 1 if settings["variance_encoded_in_target"] else 2, rows[0].size), F32)
    proposals[:, 0] = rows.reshape(sets, -1)
    if not settings["variance_encoded_in_target"]:
        proposals[:, 1, : 4 * PRIORS] = variances.reshape(sets, -1)
    result = detection_output_8(logits.reshape(IMAGES, -1), scores.reshape(IMAGES, -1), proposals, **settings)
    expected: list[list[float]] = []
    for image in range(IMAGES):
        own = image if own_priors else 0
        expected += detect(logits[image], scores[image], boxes[own], variances[own], image, settings)
    keep, top = settings["keep_top_k"][0], settings["top_k"]
    limit = keep if keep > 0 else top * CLASSES if keep == -1 and top > 0 else PRIORS * CLASSES
    assert result.shape == (1, 1, IMAGES * limit, 7)
    found = result[0, 0, : len(expected)]
    np.testing.assert_allclose(found, np.reshape(expected, (-1, 7)), rtol=1e-4, atol=1e-5)
    if len(expected) < IMAGES * limit:
        assert result[0, 0, len(expected)].tolist() == [-1, 0, 0, 0, 0, 0, 0]


def detect(
    logits: Array, scores: Array, priors: Array, variances: Array, image: int, settings: dict[str, Any]
) -> list[list[float]]:
    """Return the detections of an image as rows of the result of DetectionOutput."""
    threshold, top, keep = (settings["confidence_threshold"], settings["top_k"], settings["keep_top_k"][0])
    as_mxnet, background = settings["decrease_label_id"], settings["background_label_id"]
    if as_mxnet:  # only the best class of each prior, without class 0
        classes = [c for c in range(1, CLASSES) if c != background]
        best = [max(classes, key=lambda c: -2 if np.isnan(scores[i, c]) else scores[i, c]) for i in range(PRIORS)]
        pairs = [(c, i) for i, c in enumerate(best) if scores[i, c] > -1 and scores[i, c] >= threshold]
        pairs = sorted(pairs, key=lambda pair: -scores[pair[1], pair[0]])[: top if top >= 0 else None]
    else:
        pairs = []
        for c in range(CLASSES):
            members = [i for i in range(PRIORS) if scores[i, c] > threshold and c != background]
            members = sorted(members, key=lambda i, c=c: -scores[i, c])[: top if top >= 0 else None]  # type: ignore[misc]
            pairs += [(c, i) for i in members]
    found = []
    for c in range(CLASSES):
        members = [i for label, i in pairs if label == c]
        boxes = np.array([decode(priors[i], variances[i], logits[i], c, settings) for i in members]).reshape(-1, 4)
        kept = suppress(boxes, scores[members, c], settings["nms_threshold"])
        found += [(c, members[k], boxes[k]) for k in kept]
    if keep > -1:
        found = sorted(found, key=lambda row: -scores[row[1], row[0]])[:keep]
    found.sort(key=lambda row: row[0])
    clip = (lambda box: np.clip(box, 0, 1)) if settings["clip_after_nms"] else (lambda box: box)
    return [[image, c - as_mxnet, scores[i, c], *clip(box)] for c, i, box in found]


def decode(prior: Array, variance: Array, deltas: Array, label: int, settings: dict[str, Any]) -> Array:
    """Return the box of a prior for a class."""
    if not settings["normalized"]:
        prior = prior / np.array([settings["input_width"], settings["input_height"]] * 2)
    delta = deltas[0 if settings["share_location"] else label]
    delta = delta if settings["variance_encoded_in_target"] else delta * variance
    if settings["code_type"].endswith("CORNER"):
        box = prior + delta
    else:
        sides, center = prior[2:] - prior[:2], (prior[:2] + prior[2:]) / 2
        center, half = center + delta[:2] * sides, np.exp(delta[2:]) * sides / 2
        box = np.concatenate([center - half, center + half])
    return np.clip(box, 0, 1) if settings["clip_before_nms"] else box


def test_anchors_of_proposals_have_whole_sides() -> None:
    ratios, scales = [0.5, 1.0, 2.0], [1.0, 3.0]
    count = len(ratios) * len(scales)
    scores = np.zeros((1, 2 * count, 1, 1), F32)
    scores[0, count:, 0, 0] = np.linspace(0.9, 0.1, count)
    for framework in ("", "tensorflow"):
        boxes, _ = proposal_4(
            scores,
            np.zeros((1, 4 * count, 1, 1), F32),
            np.array([500, 500, 1], F32),
            base_size=10,
            pre_nms_topn=count,
            post_nms_topn=count,
            nms_thresh=1.0,
            feat_stride=16,
            min_size=1,
            ratio=ratios,
            scale=scales,
            clip_before_nms=False,
            framework=framework,  # type: ignore[arg-type]
        )
        expected = []
        for ratio, scale in itertools.product(ratios, scales):
            width = math.sqrt(100 / ratio)
            if framework:
                halves = np.array([width, width * ratio]) * scale / 2
                box = np.concatenate([-halves, halves])
                expected.append(np.clip(box, 0, 500))
            else:
                width = math.floor(width + 0.5)
                halves = (np.array([width, math.floor(width * ratio + 0.5)]) * scale - 1) / 2
                expected.append(np.concatenate([4.5 - halves, 4.5 + halves + 1]))
        np.testing.assert_allclose(boxes[:, 1:], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("flip", [False, True])
def test_prior_boxes_have_the_aspect_ratios(flip: bool) -> None:
    (rows, columns), (height, width) = (2, 3), (40, 60)
    sizes, largest, ratios, variance = [8.0], [12.0], [2.0, 1.0, 2.0], [0.1, 0.2, 0.3, 0.4]
    boxes, values = prior_box_1(
        np.array([rows, columns]),
        np.array([height, width]),
        min_size=sizes,
        max_size=largest,
        aspect_ratio=ratios,
        flip=flip,
        offset=0.5,
        step=16.0,
        variance=variance,
    )
    root = math.sqrt(2)
    shapes = [(8.0, 8.0), (math.sqrt(96), math.sqrt(96)), (8 * root, 8 / root)]
    shapes += [(8 / root, 8 * root)] if flip else []
    expected = [
        [(x - w / 2) / width, (y - h / 2) / height, (x + w / 2) / width, (y + h / 2) / height]
        for y, x in (((i + 0.5) * 16, (j + 0.5) * 16) for i, j in np.ndindex(rows, columns))
        for w, h in shapes
    ]
    np.testing.assert_allclose(boxes.reshape(-1, 4), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values.reshape(-1, 4), [variance] * len(expected))


@pytest.mark.parametrize("fixed_ratio", [[], [4.0]])
def test_dense_prior_boxes_divide_their_size(fixed_ratio: list[float]) -> None:
    (rows, columns), (height, width), size, density = (1, 2), (100, 120), 24, 2
    boxes, _ = prior_box_1(
        np.array([rows, columns]),
        np.array([height, width]),
        fixed_size=[float(size)],
        fixed_ratio=fixed_ratio,
        density=[float(density)],
        offset=0.5,
        step=50.0,
    )
    expected = []
    distance = size // density
    for i, j in np.ndindex(rows, columns):
        x, y = (j + 0.5) * 50, (i + 0.5) * 50
        for ratio in fixed_ratio or [1.0]:
            w, h = size * math.sqrt(ratio), size / math.sqrt(ratio)
            for r, c in np.ndindex(density, density):
                center_x, center_y = (v - size // 2 + distance / 2 + k * distance for v, k in ((x, c), (y, r)))
                box = [center_x - w / 2, center_y - h / 2, center_x + w / 2, center_y + h / 2]
                expected.append(np.clip(np.array(box) / ([width, height] * 2), 0, 1))
    np.testing.assert_allclose(boxes.reshape(-1, 4), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("clip", [False, True])
def test_clustered_prior_boxes_have_their_own_sides(clip: bool) -> None:
    widths, heights = [10.0, 90.0], [20.0, 8.0]
    for steps, (step_x, step_y) in (
        ({}, (20.0, 25.0)),
        ({"step": 16.0}, (16.0, 16.0)),
        ({"step_w": 10.0, "step_h": 12.0}, (10.0, 12.0)),
        ({"step_w": 10.0, "step": 12.0}, (10.0, 12.0)),
        ({"step_w": 10.0}, (10.0, 0.0)),
        ({"step_h": 10.0}, (0.0, 10.0)),
    ):
        boxes, values = prior_box_clustered_1(
            np.array([2, 3]), np.array([50, 60]), width=widths, height=heights, clip=clip, offset=0.25, **steps
        )
        expected = []
        for i, j in np.ndindex(2, 3):
            x, y = (j + 0.25) * step_x, (i + 0.25) * step_y
            for w, h in zip(widths, heights, strict=True):
                box = np.array([(x - w / 2) / 60, (y - h / 2) / 50, (x + w / 2) / 60, (y + h / 2) / 50])
                expected.append(np.clip(box, 0, 1) if clip else box)
        np.testing.assert_allclose(boxes.reshape(-1, 4), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(values, 0.1, rtol=1e-6)
