"""Detection operations: cases that OpenVINO does not support, and invalid inputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ir_text import run_layer

from irrun.errors import InputError
from irrun.ops._support.boxes import compute_areas, compute_overlaps, compute_rotated_overlaps
from irrun.ops._support.nms import run_greedy_nms
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
def test_each_prior_has_its_best_class_as_in_mxnet(background, expected):
    scores = np.array([[0.9, 0.3, 0.6, 0.1, 0.8, 0.2]], F32)
    result = detection_output_8(
        np.zeros((1, 8), F32), scores, TWO_PRIORS, decrease_label_id=True, background_label_id=background, **DETECTION
    )
    assert result.shape == (1, 1, 3, 7)
    np.testing.assert_array_equal(result[0, 0, :2, 1:4], np.array(expected, F32))
    np.testing.assert_array_equal(result[0, 0, 2], [-1, 0, 0, 0, 0, 0, 0])


def test_detections_agree_with_the_reference():
    """Each class has boxes of its own, and the priors have variances."""
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
def test_detection_output_rejects_mismatched_shapes(shapes):
    with pytest.raises(InputError, match="expected"):
        detection_output_8(*[np.zeros(s, F32) for s in shapes], **DETECTION)


def test_prior_boxes_reject_invalid_attributes():
    grid, image = np.array([2, 2]), np.array([8, 8])
    with pytest.raises(InputError, match="variance has 2 values"):
        prior_box_1(grid, image, offset=0.5, min_size=[1.0], variance=[0.1, 0.2])
    with pytest.raises(InputError, match="density"):
        prior_box_1(grid, image, offset=0.5, fixed_size=[1.0])
    with pytest.raises(InputError, match="output_size"):
        prior_box_1(np.array([2]), image, offset=0.5, min_size=[1.0])
    with pytest.raises(InputError, match="2 widths and 1 heights"):
        prior_box_clustered_1(grid, image, offset=0.5, width=[1.0, 2.0], height=[1.0])


def test_pooling_of_regions_rejects_invalid_shapes_and_indices():
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
            data, np.zeros((1, 5), F32), np.zeros((1, 2, 3, 3), F32), output_dim=3, spatial_scale=1.0, part_size=4
        )
    with pytest.raises(InputError, match="expected a scale for each map"):
        experimental_detectron_roi_feature_extractor_6(rois, data, output_size=2, sampling_ratio=2, pyramid_scales=[])


def test_pooling_without_channels_returns_empty_results():
    data, size = np.ones((1, 0, 5, 5), F32), {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 1.0}
    rois, first = np.array([[0, 0, 3, 3]], F32), np.zeros(1, np.int64)
    for mode in ("avg", "max"):
        assert roi_align_3(data, rois, first, sampling_ratio=2, mode=mode, **size).shape == (1, 0, 2, 2)


def test_pooling_without_regions_returns_empty_results():
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


def test_pooling_in_parts_does_not_change_the_result(monkeypatch):
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
    monkeypatch.setattr("irrun.ops._support.roi_sampling.WORKING_SET", 200)
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


def test_proposals_reject_mismatched_shapes():
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


def test_yolo_rejects_mismatched_shapes():
    with pytest.raises(InputError, match="channels"):
        region_yolo_1(np.zeros((1, 20, 2, 2), F32), axis=1, end_axis=3, coords=4, classes=3, num=2)
    with pytest.raises(InputError, match="divisible by stride 2"):
        reorg_yolo_2(np.zeros((1, 4, 3, 2), F32), stride=[2])
    with pytest.raises(InputError, match="at least 4 channels"):
        reorg_yolo_2(np.zeros((1, 3, 2, 2), F32), stride=[2])


def test_greedy_nms_agrees_with_a_plain_loop():
    rng = np.random.default_rng(1)
    low = rng.uniform(0, 1, (700, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.01, 0.3, (700, 2))], axis=1).astype(F32)
    areas = compute_areas(boxes)
    overlaps = compute_overlaps(boxes, boxes, areas, areas)
    kept: list[int] = []
    for i in range(len(boxes)):
        if not any(overlaps[k, i] > 0.3 for k in kept):
            kept.append(i)
    for limit in (None, 5, 0):
        selected = run_greedy_nms(
            700, lambda a, b: compute_overlaps(boxes[a], boxes[b], areas[a], areas[b]) > 0.3, limit
        )
        assert selected.tolist() == kept[:limit]


def test_overlaps_of_rotated_squares_are_exact():
    square = np.array([[0.0, 0.0, 2.0, 2.0, 0.0]])
    rotated = np.array([[0.0, 0.0, 2.0, 2.0, np.pi / 4]])
    octagon = 8 * (np.sqrt(2) - 1)
    adjacent, distant = (np.array([[x, 0.0, 2.0, 2.0, 0.0]]) for x in (1, 9))
    others = np.concatenate([square, rotated, adjacent, distant])
    overlaps = compute_rotated_overlaps(square, others)[0]
    np.testing.assert_allclose(overlaps, [1, octagon / (8 - octagon), 2 / 6, 0], atol=1e-12)


@pytest.mark.parametrize("mode", ["average", "bilinear"])
def test_regions_after_the_end_of_a_list_are_zero(mode: str) -> None:
    """Proposal marks the end of the list of regions by the batch -1."""
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
    pooled = psroi_pooling_1(data, rois, **size)
    np.testing.assert_array_equal(pooled[:1], psroi_pooling_1(data, rois[:1], **size))
    assert pooled[0].any()
    assert not pooled[1:].any()


def test_maximum_of_a_region_ignores_nan():
    data = np.array([[[[np.nan, 1], [2, -3]]]], np.float32)
    region = np.array([[0, 0, 0, 1, 1]], np.float32)
    assert roi_pooling_2(data, region, spatial_scale=1.0, pooled_h=1, pooled_w=1).item() == 2
    pooled = roi_align_3(
        data, region[:, 1:], np.array([0]), pooled_h=1, pooled_w=1, sampling_ratio=2, spatial_scale=1.0, mode="max"
    )
    assert pooled.item() == 0


def test_number_of_classes_must_match_the_shapes():
    boxes, classes = np.zeros((1, 8), F32), np.full((1, 6), 0.5, F32)
    detections = detection_output_1(boxes, classes, TWO_PRIORS, num_classes=3, **DETECTION)
    np.testing.assert_array_equal(detections, detection_output_8(boxes, classes, TWO_PRIORS, **DETECTION))
    with pytest.raises(InputError, match="2 priors and 2 classes"):
        detection_output_1(boxes, classes, TWO_PRIORS, num_classes=2, **DETECTION)


def make_random(*shape, scale=1.0):
    return (np.random.default_rng(len(shape)).uniform(0, 1, shape) * scale).astype(F32)


FIRST_BATCH = np.zeros(10, np.int64)
REGIONS = np.concatenate([FIRST_BATCH[:, None], make_random(10, 4, scale=5)], 1).astype(F32)
DECODING = (
    'background_label_id="1" code_type="caffe.PriorBoxParameter.CENTER_SIZE" '
    'confidence_threshold="0.019999999552965164" input_height="1" input_width="1" keep_top_k="200" '
    'nms_threshold="0.44999998807907104" normalized="true" '
    'share_location="true" top_k="200" variance_encoded_in_target="false" clip_after_nms="false" '
    'clip_before_nms="false" objectness_score="0" decrease_label_id="false"'
)
PRIORS = (
    'aspect_ratio="2.0" clip="false" density="" fixed_ratio="" fixed_size="" flip="true" max_size="38.46" '
    'min_size="16.0" offset="0.5" step="16.0" variance="0.1,0.1,0.2,0.2"'
)

#: The examples of the specification, with smaller inputs where those of the specification are large.
EXAMPLES = [
    (
        "DeformablePSROIPooling-1",
        'spatial_scale="0.0625" output_dim="8" group_size="3" mode="bilinear_deformable" spatial_bins_x="4" '
        'spatial_bins_y="4" trans_std="0.0" part_size="3"',
        [make_random(1, 72, 6, 8), REGIONS],
        [(10, 8, 3, 3)],
    ),
    (
        "DeformablePSROIPooling-1",
        'group_size="7" mode="bilinear_deformable" output_dim="8" part_size="7" spatial_bins_x="4" '
        'spatial_bins_y="4" spatial_scale="0.0625" trans_std="0.1"',
        [make_random(1, 392, 8, 6), REGIONS, make_random(10, 2, 7, 7)],
        [(10, 8, 7, 7)],
    ),
    (
        "DetectionOutput-1",
        DECODING + ' num_classes="2"',
        [make_random(1, 5376), make_random(1, 2688), make_random(1, 2, 5376)],
        [(1, 1, 200, 7)],
    ),
    (
        "DetectionOutput-8",
        DECODING,
        [make_random(1, 5376), make_random(1, 2688), make_random(1, 2, 5376)],
        [(1, 1, 200, 7)],
    ),
    (
        "ExperimentalDetectronDetectionOutput-6",
        'class_agnostic_box_regression="false" deltas_weights="10.0,10.0,5.0,5.0" max_delta_log_wh="4.135166645050049" '
        'max_detections_per_image="100" nms_threshold="0.5" num_classes="81" post_nms_count="2000" '
        'score_threshold="0.05000000074505806"',
        [make_random(10, 4), make_random(10, 324), make_random(10, 81), make_random(1, 3)],
        [(100, 4), (100,), (100,)],
    ),
    (
        "ExperimentalDetectronGenerateProposalsSingleImage-6",
        'min_size="0.0" nms_threshold="0.699999988079071" post_nms_count="1000" pre_nms_count="1000"',
        [make_random(3, scale=99), make_random(240, 4), make_random(12, 10, 8), make_random(3, 10, 8)],
        [(1000, 4), (1000,)],
    ),
    (
        "ExperimentalDetectronPriorGridGenerator-6",
        'flatten="true" h="0" stride_x="32.0" stride_y="32.0" w="0"',
        [make_random(3, 4), make_random(1, 2, 25, 42), make_random(1, 3, 8, 13)],
        [(3150, 4)],
    ),
    (
        "ExperimentalDetectronROIFeatureExtractor-6",
        'aligned="false" output_size="7" pyramid_scales="4,8,16,32,64" sampling_ratio="2"',
        [
            make_random(10, 4, scale=99),
            make_random(1, 6, 20, 33),
            make_random(1, 6, 10, 16),
            make_random(1, 6, 5, 8),
            make_random(1, 6, 2, 4),
        ],
        [(10, 6, 7, 7), (10, 4)],
    ),
    (
        "GenerateProposals-9",
        'min_size="0.0" nms_threshold="0.699999988079071" post_nms_count="7" pre_nms_count="1000" roi_num_type="i32"',
        [make_random(8, 3), make_random(5, 8, 3, 4), make_random(8, 12, 5, 8), make_random(8, 3, 5, 8)],
        [None, None, (8,)],
    ),
    (
        "PSROIPooling-1",
        'group_size="6" mode="bilinear" output_dim="36" spatial_bins_x="3" spatial_bins_y="3" spatial_scale="1"',
        [make_random(1, 324, 8, 8), REGIONS],
        [(10, 36, 6, 6)],
    ),
    ("PSROIPooling-1", 'output_dim="3" spatial_scale="1"', [make_random(1, 3, 8, 8), REGIONS], [(10, 3, 1, 1)]),
    ("PriorBox-1", PRIORS, [np.array([24, 42]), np.array([384, 672])], [(2, 16128)]),
    ("PriorBox-8", PRIORS, [np.array([24, 42]), np.array([384, 672])], [(2, 16128)]),
    (
        "PriorBoxClustered-1",
        'clip="false" height="44.0,10.0,30.0,19.0,94.0,32.0,61.0,53.0,17.0" offset="0.5" step="16.0" '
        'variance="0.1,0.1,0.2,0.2" width="86.0,13.0,57.0,39.0,68.0,34.0,142.0,50.0,23.0"',
        [np.array([10, 19]), np.array([180, 320])],
        [(2, 6840)],
    ),
    (
        "Proposal-1",
        'base_size="16" feat_stride="16" min_size="16" nms_thresh="0.6" post_nms_topn="200" pre_nms_topn="6000" '
        'ratio="2.67" scale="4.0,6.0,9.0,16.0,24.0,32.0"',
        [make_random(1, 12, 8, 8), make_random(1, 24, 8, 8), np.array([128, 128, 1], F32)],
        [(200, 5)],
    ),
    (
        "Proposal-4",
        'base_size="16" feat_stride="8" min_size="16" nms_thresh="1.0" normalize="0" post_nms_topn="1000" '
        'pre_nms_topn="1000" ratio="1" scale="1,2"',
        [make_random(7, 4, 8, 8), make_random(7, 8, 8, 8), np.array([64, 64, 1], F32)],
        [(7000, 5), (7000,)],
    ),
    (
        "ROIAlign-3",
        'pooled_h="6" pooled_w="6" spatial_scale="16.0" sampling_ratio="2" mode="avg"',
        [make_random(7, 5, 20, 20), make_random(10, 4), FIRST_BATCH],
        [(10, 5, 6, 6)],
    ),
    (
        "ROIAlign-9",
        'pooled_h="6" pooled_w="6" spatial_scale="16.0" sampling_ratio="2" mode="avg" aligned_mode="half_pixel"',
        [make_random(7, 5, 20, 20), np.sort(make_random(10, 4)), FIRST_BATCH],
        [(10, 5, 6, 6)],
    ),
    (
        "ROIAlignRotated-15",
        'pooled_h="6" pooled_w="6" spatial_scale="16.0" sampling_ratio="2" clockwise_mode="True"',
        [make_random(7, 5, 20, 20), make_random(10, 5), FIRST_BATCH],
        [(10, 5, 6, 6)],
    ),
    (
        "ROIPooling-2",
        'pooled_h="6" pooled_w="6" spatial_scale="0.062500"',
        [make_random(7, 5, 20, 20), REGIONS],
        [(10, 5, 6, 6)],
    ),
    (
        "RegionYolo-1",
        'anchors="10,14,23,27,37,58,81,82,135,169,344,319" axis="1" classes="80" coords="4" do_softmax="0" '
        'end_axis="3" mask="0,1,2" num="6"',
        [make_random(1, 255, 26, 26)],
        [(1, 255, 26, 26)],
    ),
    (
        "RegionYolo-1",
        'anchors="1.08,1.19,3.42,4.41,6.63,11.38,9.42,5.11,16.62,10.52" axis="1" classes="20" coords="4" '
        'do_softmax="1" end_axis="3" num="5"',
        [make_random(1, 125, 13, 13)],
        [(1, 21125)],
    ),
    ("ReorgYolo-2", 'stride="2"', [make_random(1, 64, 26, 26)], [(1, 256, 13, 13)]),
]


@pytest.mark.parametrize(("operation", "data", "inputs", "shapes"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_examples_of_the_specification_have_the_documented_shapes(tmp_path, operation, data, inputs, shapes):
    operation_type, _, since = operation.partition("-")
    outputs = run_layer(tmp_path, operation_type, f"opset{since}", data, *inputs, outputs=len(shapes))
    for array, shape in zip(outputs, shapes, strict=True):
        assert shape is None or array.shape == shape


def test_rotation_is_counterclockwise_by_default(tmp_path):
    inputs = [make_random(1, 2, 9, 9), make_random(10, 5, scale=4), FIRST_BATCH]
    data = 'pooled_h="2" pooled_w="3" spatial_scale="1.0" sampling_ratio="2"'
    (default,) = run_layer(tmp_path, "ROIAlignRotated", "opset15", data, *inputs)
    counterclockwise, clockwise = (
        run_layer(tmp_path, "ROIAlignRotated", "opset15", f'{data} clockwise_mode="{mode}"', *inputs)[0]
        for mode in ("false", "true")
    )
    np.testing.assert_array_equal(default, counterclockwise)
    assert (default != clockwise).any()


def test_psroi_rejects_each_wrong_size():
    data, rois = np.zeros((1, 8, 4, 4), F32), np.array([[0, 0, 0, 3, 3]], F32)
    size = {"output_dim": 2, "spatial_scale": 1.0}
    assert psroi_pooling_1(data, rois, group_size=2, **size).shape == (1, 2, 2, 2)
    for wrong in ({"group_size": 1}, {"group_size": 2, "output_dim": 0}, {"group_size": 0, "output_dim": 8}):
        with pytest.raises(InputError, match="channels"):
            psroi_pooling_1(data, rois, **{**size, **wrong})
    bilinear = {"mode": "bilinear", "spatial_bins_x": 2, "spatial_bins_y": 2}
    assert psroi_pooling_1(data, rois, group_size=2, **size, **bilinear).shape == (1, 2, 2, 2)
    with pytest.raises(InputError, match="group_size is 0, expected at least 1"):
        psroi_pooling_1(data, rois, group_size=0, **size, **bilinear)
    for wrong in ({"group_size": 0}, {"group_size": 3}, {"group_size": 2, "spatial_bins_x": 0}):
        with pytest.raises(InputError, match="channels"):
            deformable_psroi_pooling_1(data, rois, **{**size, **wrong})
    with pytest.raises(InputError, match="expected a divisor of 2 output channels"):
        deformable_psroi_pooling_1(data, rois, np.zeros((1, 6, 2, 2), F32), group_size=2, part_size=2, **size)
    for shape in ((2, 2, 2, 2), (1, 2, 1, 2), (1, 2, 2, 1), (2, 2, 2)):
        with pytest.raises(InputError, match=r"offsets has shape .*, expected \[1, 2 \* classes, 2, 2\]"):
            deformable_psroi_pooling_1(data, rois, np.zeros(shape, F32), group_size=2, part_size=2, **size)


def test_deformable_pooling_reads_the_first_channels_and_offsets():
    rng = np.random.default_rng(3)
    data, rois = rng.normal(size=(2, 11, 5, 6)).astype(F32), np.array([[1, 0, 1, 3, 4], [0, 2, 0, 5, 3]], F32)
    offsets = rng.normal(size=(2, 2, 3, 4)).astype(F32)
    attributes = {"output_dim": 2, "group_size": 2, "spatial_scale": 1.0, "spatial_bins_x": 2, "spatial_bins_y": 3}
    for part_size in (1, 2):
        used = offsets.reshape(-1)[: 4 * part_size**2].reshape(2, 2, part_size, part_size)
        actual, expected = (
            deformable_psroi_pooling_1(x, rois, y, part_size=part_size, trans_std=0.1, **attributes)
            for x, y in ((data, offsets), (data[:, :8], used))
        )
        np.testing.assert_array_equal(actual, expected)


def test_region_yolo_rejects_each_wrong_size():
    boxes = {"coords": 4, "classes": 3, "num": 2, "axis": 1, "end_axis": 3}
    assert region_yolo_1(np.zeros((1, 16, 2, 2), F32), **boxes).shape == (1, 64)
    # Without Softmax, further channels are ignored.
    assert region_yolo_1(np.zeros((1, 17, 2, 2), F32), **boxes, do_softmax=False, mask=[0, 1]).shape[0] == 1
    for shape, options, message in (
        ((1, 16, 4), {}, r"data has shape \[1, 16, 4\], expected \[N, C, H, W\]"),
        ((1, 17, 2, 2), {}, r"data has 17 channels, expected 2 \* \(4 \+ 1 \+ 3\)"),
        ((1, 15, 2, 2), {"do_softmax": False, "mask": [0, 1]}, "data has 15 channels"),
        ((1, 16, 2, 2), {"axis": 3, "end_axis": 1}, "axis 3 is greater than end_axis 1"),
        ((1, 16, 2, 2), {"end_axis": 4}, "end_axis 4 is out of range"),
    ):
        with pytest.raises(InputError, match=message):
            region_yolo_1(np.zeros(shape, F32), **{**boxes, **options})
    for shape, stride in (((4, 2, 2), [2]), ((1, 4, 2, 2), [0]), ((1, 4, 2, 2), []), ((1, 4, 2, 3), [2])):
        with pytest.raises(InputError, match="stride"):
            reorg_yolo_2(np.zeros(shape, F32), stride=stride)


@pytest.mark.parametrize(("height", "width"), [(0, 2), (2, 0), (-1, 2)])
def test_bins_of_regions_have_a_size(height, width):
    data, rois = np.ones((1, 2, 5, 5), F32), np.array([[0, 0, 0, 4, 4]], F32)
    with pytest.raises(InputError, match=f"pooled size is {height} x {width}, expected at least 1 x 1"):
        roi_pooling_2(data, rois, pooled_h=height, pooled_w=width, spatial_scale=1.0)
