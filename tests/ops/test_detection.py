"""Detection operations where OpenVINO cannot answer, and what they refuse."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.boxes import areas, greedy_nms, overlaps, rotated_overlaps
from irrun.ops.detection.detection_output import detection_output_1, detection_output_8
from irrun.ops.detection.detectron import experimental_detectron_roi_feature_extractor_6
from irrun.ops.detection.prior_box import prior_box_1, prior_box_clustered_1
from irrun.ops.detection.proposal import generate_proposals_9, proposal_4
from irrun.ops.detection.psroi import deformable_psroi_pooling_1, psroi_pooling_1
from irrun.ops.detection.roi import roi_align_3, roi_align_rotated_15, roi_pooling_2
from irrun.ops.detection.yolo import region_yolo_1, reorg_yolo_2

F32 = np.float32
TWO_PRIORS = np.array([[[0, 0, 0.2, 0.2, 0.5, 0.5, 0.9, 0.9]]], F32)
DETECTION = {
    "keep_top_k": [3],
    "nms_threshold": 0.5,
    "confidence_threshold": 0.1,
    "normalized": True,
    "variance_encoded_in_target": True,
}


@pytest.mark.parametrize(
    ("background", "expected"),
    [(-1, [(0, 0.8, 0.5), (1, 0.6, 0.0)]), (1, [(1, 0.6, 0.0), (1, 0.2, 0.5)]), (2, [(0, 0.8, 0.5), (0, 0.3, 0.0)])],
)
def test_every_prior_takes_its_best_class_as_in_mxnet(background, expected):
    scores = np.array([[0.9, 0.3, 0.6, 0.1, 0.8, 0.2]], F32)
    result = detection_output_8(
        np.zeros((1, 8), F32), scores, TWO_PRIORS, decrease_label_id=True, background_label_id=background, **DETECTION
    )
    assert result.shape == (1, 1, 3, 7)
    np.testing.assert_array_equal(result[0, 0, :2, 1:4], np.array(expected, F32))
    np.testing.assert_array_equal(result[0, 0, 2], [-1, 0, 0, 0, 0, 0, 0])


def test_detections_of_the_reference():
    """Boxes of their own for every class and the priors' variances, two images."""
    logits = [0.1, 0.1, 0.2, 0.2, 0.0, 0.1, 0.2, 0.15, 0.3, 0.2, 0.5, 0.3, 0.2, 0.1, 0.42, 0.66]
    variances = [0.12, 0.11, 0.32, 0.02, 0.02, 0.20, 0.09, 0.71]
    priors = np.array([[[0, 0.5, 0.1, 0.2, 0, 0.3, 0.1, 0.35], variances]], F32)
    result = detection_output_8(
        np.array([logits], F32),
        np.array([[0.1, 0.9, 0.4, 0.7]], F32),
        priors,
        keep_top_k=[-1],
        background_label_id=-1,
        share_location=False,
        nms_threshold=0.5,
        confidence_threshold=0.3,
        clip_before_nms=True,
        normalized=True,
    )
    expected = [
        [0, 0, 0.4, 0.006, 0.34, 0.145, 0.563],
        [0, 1, 0.9, 0, 0.511, 0.164, 0.203],
        [0, 1, 0.7, 0.004, 0.32, 0.1378, 0.8186],
        [-1, 0, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(result[0, 0], np.array(expected, F32), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_detections_keep_their_type(dtype):
    scores = np.array([[0.25, 0.75, 0.5, 0.5]], dtype)
    result = detection_output_8(np.zeros((1, 8), dtype), scores, TWO_PRIORS.astype(dtype), **DETECTION)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result[0, 0, :2, 2].astype(F32), [0.75, 0.5])


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 9), (1, 4), (1, 1, 8)),
        ((1, 8), (2, 4), (1, 1, 8)),
        ((1, 8), (1, 4), (1, 2, 8)),
        ((1, 8), (1, 4), (1, 1, 7)),
    ],
)
def test_detection_output_refuses_shapes(shapes):
    with pytest.raises(InputError, match="expected"):
        detection_output_8(*[np.zeros(s, F32) for s in shapes], **DETECTION)


def test_prior_boxes_refuse_attributes():
    grid, image = np.array([2, 2]), np.array([8, 8])
    with pytest.raises(InputError, match="variance has 2 values"):
        prior_box_1(grid, image, offset=0.5, min_size=[1.0], variance=[0.1, 0.2])
    with pytest.raises(InputError, match="density"):
        prior_box_1(grid, image, offset=0.5, fixed_size=[1.0])
    with pytest.raises(InputError, match="output_size"):
        prior_box_1(np.array([2]), image, offset=0.5, min_size=[1.0])
    with pytest.raises(InputError, match="2 widths and 1 heights"):
        prior_box_clustered_1(grid, image, offset=0.5, width=[1.0, 2.0], height=[1.0])


def test_regions_refuse_shapes_and_indices():
    data, rois = np.zeros((2, 3, 4, 4), F32), np.zeros((1, 4), F32)
    pooling = {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 1.0}
    align = {**pooling, "sampling_ratio": 2}
    with pytest.raises(InputError, match="batch indices"):
        roi_align_3(data, rois, np.array([2]), mode="avg", **align)
    with pytest.raises(InputError, match="2 batch indices for 1 regions"):
        roi_align_3(data, rois, np.array([0, 0]), mode="avg", **align)
    with pytest.raises(InputError, match="negative"):
        roi_align_3(
            data,
            rois - [0, 0, 5, 5],
            np.array([0]),
            mode="avg",
            aligned_mode="half_pixel",
            **{**align, "sampling_ratio": 0},
        )
    with pytest.raises(InputError, match="expected"):
        roi_align_rotated_15(data, rois, np.array([0]), clockwise_mode=True, **align)
    with pytest.raises(InputError, match="at least 1 x 1"):
        roi_pooling_2(data, np.zeros((1, 5), F32), spatial_scale=1.0)
    with pytest.raises(InputError, match="channels"):
        psroi_pooling_1(data, np.zeros((1, 5), F32), output_dim=2, group_size=2, spatial_scale=1.0)
    with pytest.raises(InputError, match="offsets"):
        deformable_psroi_pooling_1(
            data, np.zeros((1, 5), F32), np.zeros((1, 2, 3, 3), F32), output_dim=3, spatial_scale=1.0, part_size=2
        )
    with pytest.raises(InputError, match="scale for each"):
        experimental_detectron_roi_feature_extractor_6(rois, data, output_size=2, sampling_ratio=2, pyramid_scales=[])


def test_no_regions_give_empty_results():
    data = np.ones((1, 4, 5, 5), F32)
    five, four, none = np.zeros((0, 5), F32), np.zeros((0, 4), F32), np.zeros(0, np.int64)
    size = {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 1.0}
    for method in ("max", "bilinear"):
        assert roi_pooling_2(data, five, method=method, **size).shape == (0, 4, 2, 2)
    assert roi_align_3(data, four, none, sampling_ratio=0, mode="max", **size).shape == (0, 4, 2, 2)
    assert roi_align_rotated_15(data, five, none, sampling_ratio=1, clockwise_mode=False, **size).shape == (0, 4, 2, 2)
    for mode in ("average", "bilinear"):
        channels = {"output_dim": 1 if mode == "average" else 4, "group_size": 2}
        assert psroi_pooling_1(data, five, spatial_scale=1.0, mode=mode, **channels).shape[0] == 0
    assert deformable_psroi_pooling_1(data, five, output_dim=1, group_size=2, spatial_scale=1.0).shape == (0, 1, 2, 2)
    features, rois = experimental_detectron_roi_feature_extractor_6(
        four, data, output_size=2, sampling_ratio=2, pyramid_scales=[4]
    )
    assert features.shape == (0, 4, 2, 2)
    assert rois.shape == (0, 4)


def test_many_regions_are_pooled_like_few(monkeypatch):
    """Regions are worked on in parts; where the parts end must not show."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2, 8, 9, 9)).astype(F32)
    low = rng.uniform(0, 5, (20, 2))
    rois = np.concatenate([rng.integers(0, 2, (20, 1)), low, low + 3], axis=1).astype(F32)
    whole = roi_pooling_2(data, rois, pooled_h=3, pooled_w=3, spatial_scale=1.0)
    aligned = roi_align_3(
        data,
        rois[:, 1:],
        rois[:, 0].astype(int),
        pooled_h=3,
        pooled_w=3,
        sampling_ratio=2,
        spatial_scale=1.0,
        mode="avg",
    )
    monkeypatch.setattr("irrun.ops.detection.roi.WORKING_SET", 200)
    np.testing.assert_array_equal(whole, roi_pooling_2(data, rois, pooled_h=3, pooled_w=3, spatial_scale=1.0))
    parts = roi_align_3(
        data,
        rois[:, 1:],
        rois[:, 0].astype(int),
        pooled_h=3,
        pooled_w=3,
        sampling_ratio=2,
        spatial_scale=1.0,
        mode="avg",
    )
    np.testing.assert_allclose(aligned, parts, rtol=1e-6, atol=1e-6)


def test_proposals_refuse_shapes():
    attributes = {
        "base_size": 16,
        "pre_nms_topn": 8,
        "post_nms_topn": 3,
        "nms_thresh": 0.5,
        "feat_stride": 16,
        "min_size": 1,
        "ratio": [1.0],
        "scale": [1.0, 2.0],
    }
    with pytest.raises(InputError, match="expected"):
        proposal_4(np.zeros((1, 6, 2, 2), F32), np.zeros((1, 8, 2, 2), F32), np.ones(3, F32), **attributes)
    with pytest.raises(InputError, match="image_shape"):
        proposal_4(np.zeros((1, 4, 2, 2), F32), np.zeros((1, 8, 2, 2), F32), np.ones(2, F32), **attributes)
    with pytest.raises(InputError, match="anchors"):
        generate_proposals_9(
            np.ones((1, 3), F32),
            np.zeros((2, 2, 2, 4), F32),
            np.zeros((1, 12, 2, 2), F32),
            np.zeros((1, 3, 2, 2), F32),
            min_size=1.0,
            nms_threshold=0.5,
            pre_nms_count=4,
            post_nms_count=2,
        )


def test_yolo_refuses_shapes():
    with pytest.raises(InputError, match="channels"):
        region_yolo_1(np.zeros((1, 20, 2, 2), F32), axis=1, end_axis=3, coords=4, classes=3, num=2)
    with pytest.raises(InputError, match="divisible by stride 2"):
        reorg_yolo_2(np.zeros((1, 4, 3, 2), F32), stride=[2])
    with pytest.raises(InputError, match="at least 4 channels"):
        reorg_yolo_2(np.zeros((1, 3, 2, 2), F32), stride=[2])


def test_greedy_choice_agrees_with_a_plain_loop():
    rng = np.random.default_rng(1)
    low = rng.uniform(0, 1, (700, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.01, 0.3, (700, 2))], axis=1).astype(F32)
    size = areas(boxes)
    shared = overlaps(boxes, boxes, size, size)
    kept: list[int] = []
    for i in range(len(boxes)):
        if not any(shared[k, i] > 0.3 for k in kept):
            kept.append(i)
    for limit in (None, 5, 0):
        found = greedy_nms(700, lambda a, b: overlaps(boxes[a], boxes[b], size[a], size[b]) > 0.3, limit)
        assert found.tolist() == kept[:limit]


def test_overlap_of_turned_squares():
    square = np.array([[0.0, 0.0, 2.0, 2.0, 0.0]])
    turned = np.array([[0.0, 0.0, 2.0, 2.0, np.pi / 4]])
    octagon = 8 * (np.sqrt(2) - 1)
    beside, away = (np.array([[x, 0.0, 2.0, 2.0, 0.0]]) for x in (1, 9))
    others = np.concatenate([square, turned, beside, away])
    shared = rotated_overlaps(square, others)[0]
    np.testing.assert_allclose(shared, [1, octagon / (8 - octagon), 2 / 6, 0], atol=1e-12)


@pytest.mark.parametrize("mode", ["average", "bilinear"])
def test_regions_behind_the_end_of_a_list_give_zeros(mode: str) -> None:
    """Proposal marks the end of what it found with the batch -1."""
    data = np.arange(64, dtype=F32).reshape(1, 4, 4, 4) + 1
    rois = np.array([[0, 0, 0, 1, 1], [-1, 0, 0, 0, 0], [0, 0, 0, 1, 1]], F32)
    size = {
        "output_dim": 1,
        "group_size": 2,
        "spatial_scale": 1.0,
        "mode": mode,
        "spatial_bins_x": 2,
        "spatial_bins_y": 2,
    }
    found = psroi_pooling_1(data, rois, **size)
    np.testing.assert_array_equal(found[:1], psroi_pooling_1(data, rois[:1], **size))
    assert found[0].any()
    assert not found[1:].any()


def test_maximum_of_regions_passes_over_nan():
    data = np.array([[[[np.nan, 1], [2, -3]]]], np.float32)
    region = np.array([[0, 0, 0, 1, 1]], np.float32)
    assert roi_pooling_2(data, region, spatial_scale=1.0, pooled_h=1, pooled_w=1).item() == 2
    pooled = roi_align_3(
        data, region[:, 1:], np.array([0]), pooled_h=1, pooled_w=1, sampling_ratio=2, spatial_scale=1.0, mode="max"
    )
    assert pooled.item() == 0


def test_the_number_of_classes_must_be_that_of_the_shapes():
    boxes, classes = np.zeros((1, 8), F32), np.full((1, 6), 0.5, F32)
    found = detection_output_1(boxes, classes, TWO_PRIORS, num_classes=3, **DETECTION)
    np.testing.assert_array_equal(found, detection_output_8(boxes, classes, TWO_PRIORS, **DETECTION))
    with pytest.raises(InputError, match="2 priors and 2 classes"):
        detection_output_1(boxes, classes, TWO_PRIORS, num_classes=2, **DETECTION)
