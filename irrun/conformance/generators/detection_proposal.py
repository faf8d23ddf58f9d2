"""Conformance cases for proposals and the Detectron family."""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.conformance.cases import Case, register_cases

#: Two units in the last place of coordinates of up to about 100 pixels.
PIXELS = (4e-6, 1.6e-5)


def _convert_to_f16(case):
    """Convert the floats of a case to f16, which OpenVINO computes in f32 as well."""
    case.inputs = [x.astype(np.float16) if x.dtype == np.float32 else x for x in case.inputs]
    case.note = "in f16"
    case.tolerance = None
    return case


def _make_scores(rng, shape, dtype=np.float32):
    """Return distinct scores between 0 and 1, so that their order is defined."""
    count = int(np.prod(shape))
    return ((rng.permutation(count) + 1) / (count + 1)).reshape(shape).astype(dtype)


@register_cases("Proposal", since=1)
@register_cases("Proposal", since=4)
def _generate_proposal_cases(rng):
    def make_case(*, images=1, grid=(5, 6), image=(80.0, 96.0, 1.0), dtype=np.float32, **overrides):
        options = {k: overrides.pop(k) for k in ("note", "dynamic", "outputs") if k in overrides}
        attributes: dict[str, Any] = {
            "base_size": 16,
            "pre_nms_topn": 60,
            "post_nms_topn": 12,
            "nms_thresh": 0.6,
            "feat_stride": 16,
            "min_size": 4,
            "ratio": [0.5, 1.0, 2.0],
            "scale": [1.0, 2.0],
            "clip_before_nms": True,
            "clip_after_nms": False,
            "normalize": False,
            "box_size_scale": 1.0,
            "box_coordinate_scale": 1.0,
            "framework": "",
        }
        attributes.update(overrides)
        count = len(attributes["ratio"]) * len(attributes["scale"])
        probabilities = _make_scores(rng, (images, 2 * count, *grid), dtype)
        deltas = rng.normal(scale=0.3, size=(images, 4 * count, *grid)).astype(dtype)

        def clear_undefined(outputs):
            """Clear the probabilities after the last box, which the CPU plugin leaves undefined."""
            for first in range(0, len(outputs[0]), attributes["post_nms_topn"]):
                image = slice(first, first + attributes["post_nms_topn"])
                if len(outputs) > 1 and (outputs[0][image, 0] == -1).any():
                    outputs[1][image][int((outputs[0][image, 0] == -1).argmax()) :] = 0
            return outputs

        inputs = [probabilities, deltas, np.array(image, dtype)]
        return Case(inputs, attributes, normalize=clear_undefined, tolerance=PIXELS, **options)

    for framework in ("", "tensorflow"):
        for before in (True, False):
            for after in (True, False):
                for normalize in (True, False):
                    yield make_case(
                        framework=framework, clip_before_nms=before, clip_after_nms=after, normalize=normalize
                    )
        yield make_case(framework=framework, images=3)
        yield make_case(framework=framework, box_size_scale=5.0, box_coordinate_scale=10.0)
        yield make_case(framework=framework, ratio=[1.0], scale=[2.0], base_size=4, feat_stride=8)
        yield make_case(framework=framework, ratio=[0.3, 0.7, 1.7], scale=[1.5])
        yield make_case(
            framework=framework, nms_thresh=0.9, post_nms_topn=100, pre_nms_topn=50, note="outputs end with -1"
        )
        yield make_case(framework=framework, nms_thresh=0.1, post_nms_topn=100, images=2, note="outputs end with -1")
    yield make_case(pre_nms_topn=8, post_nms_topn=3)  # the CPU plugin crashes with fewer than 8
    yield make_case(pre_nms_topn=100000)
    yield make_case(grid=(4, 4), pre_nms_topn=30, min_size=14, note="scores of small boxes are 0")
    yield make_case(image=(80.0, 96.0, 1.5))
    yield make_case(image=(80.0, 96.0, 2.0, 0.5), min_size=10, pre_nms_topn=30)
    yield make_case(images=2, dynamic=(0,))
    yield _convert_to_f16(make_case(images=2))


def _sample_anchors(rng, count, extent=60.0):
    low = rng.uniform(0, extent * 0.7, (count, 2))
    return np.concatenate([low, low + rng.uniform(4, 30, (count, 2))], axis=1).astype(np.float32)


@register_cases("ExperimentalDetectronGenerateProposalsSingleImage", since=6)
def experimental_detectron_generate_proposals_single_image_6(rng):
    def make_case(*, grid=(4, 5), count=3, note="", dynamic=(), dtype=np.float32, **overrides):
        attributes = {"min_size": 0.0, "nms_threshold": 0.7, "post_nms_count": 10, "pre_nms_count": 40}
        attributes.update(overrides)
        cells = grid[0] * grid[1]
        inputs = [
            np.array([50, 60, 1], dtype),
            _sample_anchors(rng, cells * count).astype(dtype),
            rng.normal(scale=0.3, size=(count * 4, *grid)).astype(dtype),
            _make_scores(rng, (count, *grid), dtype),
        ]
        return Case(inputs, attributes, note=note, dynamic=dynamic, tolerance=PIXELS)

    for threshold in (0.1, 0.3, 0.5, 0.7, 1.0):
        yield make_case(nms_threshold=threshold)
    for post in (1, 5, 100):
        yield make_case(post_nms_count=post, nms_threshold=0.4)
    for pre in (1, 10, 1000):
        yield make_case(pre_nms_count=pre)
    # Boxes that are too small have the score 0, and their order is undefined in OpenVINO, so none may be selected.
    for pre, post in ((20, 10), (20, 20)):
        yield make_case(min_size=12.0, pre_nms_count=pre, post_nms_count=post, note="small boxes are sorted last")
    yield make_case(grid=(1, 1), count=1)
    yield make_case(grid=(8, 8), count=6, pre_nms_count=300, post_nms_count=100)
    yield make_case(dynamic=(1, 2, 3))
    yield _convert_to_f16(make_case())


@register_cases("GenerateProposals", since=9)
def generate_proposals_9(rng):
    def make_case(*, grid=(4, 5), count=3, images=1, info=(50.0, 60.0, 1.0), note="", dynamic=(), **overrides):
        attributes = {
            "min_size": 1.0,
            "nms_threshold": 0.7,
            "post_nms_count": 10,
            "pre_nms_count": 40,
            "normalized": True,
            "nms_eta": 1.0,
            "roi_num_type": "i64",
        }
        attributes.update(overrides)
        inputs = [
            np.array([info] * images, np.float32),
            _sample_anchors(rng, grid[0] * grid[1] * count).reshape(*grid, count, 4),
            rng.normal(scale=0.3, size=(images, count * 4, *grid)).astype(np.float32),
            _make_scores(rng, (images, count, *grid)),
        ]
        return Case(inputs, attributes, note=note, dynamic=dynamic, tolerance=PIXELS)

    for normalized in (True, False):
        for threshold in (0.1, 0.5, 0.7, 1.0):
            yield make_case(nms_threshold=threshold, normalized=normalized)
        for images in (1, 3):
            yield make_case(images=images, normalized=normalized, roi_num_type="i32")
        yield make_case(normalized=normalized, min_size=12.0, note="small boxes are dropped")
        yield make_case(normalized=normalized, info=(50.0, 60.0, 2.0), min_size=5.0)
        yield make_case(normalized=normalized, info=(50.0, 60.0, 2.0, 1.0), min_size=5.0, images=2)
    for post in (1, 5, 100):
        yield make_case(post_nms_count=post, nms_threshold=0.4, images=2)
    for pre in (1, 10, 1000):
        yield make_case(pre_nms_count=pre)
    yield make_case(min_size=1000.0, note="all boxes are too small")
    yield make_case(grid=(1, 1), count=1)
    yield make_case(grid=(8, 8), count=6, pre_nms_count=300, post_nms_count=100)
    yield make_case(dynamic=(0, 2, 3), images=2)
    yield _convert_to_f16(make_case(images=2))


@register_cases("ExperimentalDetectronPriorGridGenerator", since=6)
def experimental_detectron_prior_grid_generator_6(rng):
    def make_case(
        *, priors=3, grid=(4, 5), image=(64, 90), dtype=np.float32, note="", dynamic=(), normalize=None, **overrides
    ):
        attributes = {"flatten": True, "h": 0, "w": 0, "stride_x": 0.0, "stride_y": 0.0, **overrides}
        inputs = [
            rng.normal(scale=10, size=(priors, 4)).astype(dtype),
            np.zeros((1, 2, *grid), dtype),
            np.zeros((1, 2, *image), dtype),
        ]
        return Case(inputs, attributes, note=note, dynamic=dynamic, normalize=normalize)

    for flatten in (True, False):
        for h, w in ((2, 3), (4, 3), (2, 0)):

            def clear_undefined(outputs, count=h * (w or 5) * 3 * 4):
                """Clear the values after the smaller grid, which OpenVINO leaves undefined."""
                outputs[0].reshape(-1)[count:] = 0
                return outputs

            yield make_case(
                flatten=flatten, h=h, w=w, normalize=clear_undefined, note="grid smaller than the feature map"
            )
        for strides in ({}, {"stride_x": 16.0, "stride_y": 32.0}, {"stride_x": 7.3}):
            yield make_case(flatten=flatten, **strides)
        yield make_case(flatten=flatten, h=4, w=5, stride_x=8.0, stride_y=4.0)
        yield make_case(flatten=flatten, grid=(1, 1), priors=1)
        yield make_case(flatten=flatten, dtype=np.float16)
        yield make_case(flatten=flatten, dynamic=(0, 1, 2))


@register_cases("ExperimentalDetectronROIFeatureExtractor", since=6)
def experimental_detectron_roi_feature_extractor_6(rng):
    def make_case(*, levels=2, regions=6, channels=3, extent=64.0, note="", dynamic=(), rois=None, **overrides):
        attributes = {
            "output_size": 3,
            "sampling_ratio": 2,
            "pyramid_scales": [4, 8, 16, 32][:levels],
            "aligned": False,
            **overrides,
        }
        low = rng.uniform(-0.1, 0.6, (regions, 2)) * extent
        boxes = np.concatenate([low, low + rng.uniform(0.1, 0.5, (regions, 2)) * extent], axis=1)
        maps = [rng.normal(size=(1, channels, 16 >> i, 20 >> i)).astype(np.float32) for i in range(levels)]
        boxes = boxes if rois is None else np.array(rois)
        return Case([boxes.astype(np.float32), *maps], attributes, note=note, dynamic=dynamic)

    for aligned in (True, False):
        for levels in (1, 2, 3, 4):
            yield make_case(levels=levels, aligned=aligned, extent=64.0)
            yield make_case(levels=levels, aligned=aligned, extent=1200.0, regions=10, note="regions for all levels")
        for ratio in (0, 1, 3):
            yield make_case(sampling_ratio=ratio, aligned=aligned)
        yield make_case(output_size=7, aligned=aligned, channels=16)
    yield make_case(rois=[[5, 5, 5, 9], [9, 9, 4, 4.5], [3, 3, 3, 3], [2, 2, 30, 30]], note="regions without area")
    yield make_case(regions=1)
    yield make_case(dynamic=(0,))
    yield _convert_to_f16(make_case(extent=1200.0, levels=4))


@register_cases("ExperimentalDetectronDetectionOutput", since=6)
def experimental_detectron_detection_output_6(rng):
    def make_case(*, regions=12, classes=4, note="", dynamic=(), empty_regions=0, **overrides):
        attributes = {
            "score_threshold": 0.2,
            "nms_threshold": 0.4,
            "max_delta_log_wh": 4.135166645050049,
            "num_classes": classes,
            "post_nms_count": 6,
            "max_detections_per_image": 12,
            "class_agnostic_box_regression": False,
            "deltas_weights": [10.0, 10.0, 5.0, 5.0],
            **overrides,
        }
        boxes = _sample_anchors(rng, regions)
        boxes[:empty_regions, 2:] = boxes[:empty_regions, :2] - 1
        deltas = rng.normal(scale=2.0, size=(regions, classes * 4)).astype(np.float32)
        inputs = [boxes, deltas, _make_scores(rng, (regions, classes)), np.array([[60, 60, 1]], np.float32)]
        return Case(inputs, attributes, note=note, dynamic=dynamic, tolerance=PIXELS)

    for threshold in (0.05, 0.3, 0.5, 1.0):
        yield make_case(nms_threshold=threshold)
    for score in (0.0, 0.5, 0.9, 1.0):
        yield make_case(score_threshold=score)
    for post in (1, 3, 100):
        yield make_case(post_nms_count=post)
    for limit in (12, 3, 30, 1):
        yield make_case(max_detections_per_image=limit, regions=12)
        yield make_case(max_detections_per_image=limit, regions=5, classes=3)
    yield make_case(class_agnostic_box_regression=True)
    yield make_case(deltas_weights=[1.0, 2.0, 3.0, 4.0])
    yield make_case(max_delta_log_wh=0.2)
    yield make_case(empty_regions=4, note="regions without area are dropped")
    yield make_case(classes=2)
    yield make_case(regions=60, classes=5, max_detections_per_image=60, post_nms_count=50)
    yield make_case(dynamic=(0, 1, 2))
    yield _convert_to_f16(make_case())
