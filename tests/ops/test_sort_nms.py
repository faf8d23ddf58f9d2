"""Non-maximum suppression: cases that OpenVINO does not support, and invalid inputs."""

from __future__ import annotations

import numpy as np
import pytest
from ir_text import run_layer

from irrun.errors import InputError
from irrun.ops.sort import matrix_nms
from irrun.ops.sort.matrix_nms import matrix_nms_8
from irrun.ops.sort.multiclass_nms import multiclass_nms_8
from irrun.ops.sort.non_max_suppression import nms_rotated_13, non_max_suppression_1, non_max_suppression_5
from irrun.ops.sort.topk_rois import experimental_detectron_topk_rois_6

F32 = np.float32
ROWS = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]
BOXES = np.array([ROWS], F32)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], F32)


def select(max_boxes, iou_threshold=0.5, score_threshold=0.0):
    return non_max_suppression_5(BOXES, SCORES, np.array(max_boxes), F32(iou_threshold), F32(score_threshold))


def test_example_of_the_reference_is_reproduced():
    indices, scores, count = select(3)
    assert indices.tolist() == [[0, 0, 3], [0, 0, 0], [0, 0, 5]]
    np.testing.assert_array_equal(scores[:, 2], F32([0.95, 0.9, 0.3]))
    assert count.tolist() == [3]
    assert indices.dtype == count.dtype == np.int64
    assert non_max_suppression_1(BOXES, SCORES, np.array(3), F32(0.5), F32(0)).tolist() == indices.tolist()


def test_empty_selections_have_no_rows():
    for results in (select(0), select(3, 0.5, 1.0), non_max_suppression_5(BOXES, SCORES)):
        indices, scores, count = results
        assert indices.shape == scores.shape == (0, 3)
        assert count.tolist() == [0]
    outputs, indices, counts = matrix_nms_8(BOXES, SCORES, score_threshold=2.0)
    assert outputs.shape == (0, 6)
    assert indices.shape == (0, 1)
    assert counts.tolist() == [0]


def test_inputs_without_boxes_have_no_detections():
    empty = np.zeros((2, 0, 4), F32), np.zeros((2, 3, 0), F32)
    assert non_max_suppression_5(*empty, np.array(3))[0].shape == (0, 3)
    for nms in (matrix_nms_8, multiclass_nms_8):
        outputs, _, counts = nms(*empty)
        assert outputs.shape == (0, 6)
        assert counts.tolist() == [0, 0]


def test_soft_suppression_decays_scores():
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5], [3, 3, 4, 4]]], F32)
    scores = np.array([[[0.9, 0.8, 0.7]]], F32)
    indices, scored, _ = non_max_suppression_5(boxes, scores, np.array(3), F32(1), F32(0), F32(0.5))
    assert indices[:, 2].tolist() == [0, 2, 1]
    np.testing.assert_allclose(scored[:, 2], [0.9, 0.7, 0.8 * np.exp(-0.25)], rtol=1e-6)


def test_inputs_are_not_modified():
    boxes, scores = np.array([[[0, 0, 1, 1, 0.5], [0, 0, 1, 1, 0.4]]], F32), np.array([[[0.9, 0.8]]], F32)
    copies = boxes.copy(), scores.copy()
    nms_rotated_13(boxes, scores, np.array(2), F32(0.5), F32(0), clockwise=False)
    non_max_suppression_5(boxes[..., :4], scores, np.array(2), F32(0.5), F32(0), F32(1))
    np.testing.assert_array_equal(boxes, copies[0])
    np.testing.assert_array_equal(scores, copies[1])


def test_adaptive_threshold_agrees_with_a_plain_loop():
    rng = np.random.default_rng(2)
    low = rng.uniform(0, 1, (1, 400, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.2, 0.5, (1, 400, 2))], axis=-1).astype(F32)
    scores = rng.permutation(400).reshape(1, 1, 400).astype(F32)
    _, indices, _ = multiclass_nms_8(boxes, scores, iou_threshold=0.9, nms_eta=0.9)
    kept: list[int] = []
    threshold = F32(0.9)
    for box in np.argsort(-scores[0, 0]):
        corners = boxes[0, box]
        sides = np.minimum(corners[2:], boxes[0, kept, 2:]) - np.maximum(corners[:2], boxes[0, kept, :2])
        intersection = np.maximum(sides, 0).prod(axis=1)
        areas = (boxes[0, :, 2:] - boxes[0, :, :2]).prod(axis=1)
        if (intersection / (areas[box] + areas[kept] - intersection) >= threshold).any():
            continue
        kept.append(int(box))
        if threshold > 0.5:
            threshold = threshold * F32(0.9)
    assert indices[:, 0].tolist() == kept


def test_negative_numbers_of_boxes_of_an_image_count_as_none():
    corners = np.float32([[0, 0, 1, 1], [5, 5, 6, 6], [8, 8, 9, 9]])
    scores = np.float32([[0.9, 0.8, 0.7]])
    for counts in ([0, 2, 1], [-3, 2, 1]):
        outputs, indices, numbers = multiclass_nms_8(corners[None], scores, np.array(counts), iou_threshold=0.5)
        assert numbers.tolist() == [0, 2, 1]
        assert indices[:, 0].tolist() == [0, 1, 2]
        np.testing.assert_array_equal(outputs[:, 1], scores[0])


def test_mismatched_shapes_are_reported():
    with pytest.raises(InputError, match="expected"):
        non_max_suppression_5(BOXES[..., :3], SCORES)
    with pytest.raises(InputError, match="expected"):
        non_max_suppression_5(BOXES[:, :2], SCORES)
    with pytest.raises(InputError, match="scalar"):
        select([1, 2])
    with pytest.raises(InputError, match="expected"):
        nms_rotated_13(BOXES, SCORES, np.array(1), F32(0), F32(0))
    with pytest.raises(InputError, match="expected"):
        matrix_nms_8(BOXES, SCORES[..., :2])
    with pytest.raises(InputError, match="roisnum"):
        multiclass_nms_8(BOXES, SCORES[0])
    with pytest.raises(InputError, match="add up to 9"):
        multiclass_nms_8(BOXES, SCORES[0], np.array([4, 5]))
    with pytest.raises(InputError, match="expected"):
        experimental_detectron_topk_rois_6(BOXES[0], SCORES[0, 0, :2], max_rois=2)


def test_missing_regions_are_zero():
    result = experimental_detectron_topk_rois_6(BOXES[0], SCORES[0, 0], max_rois=8)
    np.testing.assert_array_equal(result[:6], BOXES[0][[3, 0, 1, 2, 4, 5]])
    assert not result[6:].any()


@pytest.mark.parametrize("decay", ["linear", "gaussian"])
def test_matrix_nms_in_parts_returns_the_same_result(monkeypatch, decay):
    rng = np.random.default_rng(0)
    low = rng.random((1, 50, 2)) * 4
    boxes = np.concatenate([low, low + rng.random((1, 50, 2)) * 3], axis=-1).astype(np.float32)
    scores = rng.random((1, 2, 50)).astype(np.float32)
    whole = matrix_nms_8(boxes, scores, decay_function=decay)
    monkeypatch.setattr(matrix_nms, "WORKING_SET", 350)  # seven boxes at a time
    for output, expected in zip(matrix_nms_8(boxes, scores, decay_function=decay), whole, strict=True):
        np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize(
    ("names", "data"),
    [
        (("MatrixNonMaxSuppression", "MatrixNms"), 'decay_function="gaussian" {}="score" output_type="i64"'),
        (("MulticlassNonMaxSuppression", "MulticlassNms"), '{}="class" output_type="i64"'),
    ],
)
def test_names_of_the_specification_and_of_openvino_are_accepted(tmp_path, names, data):
    rng = np.random.default_rng(2)
    low = rng.uniform(0, 1, (3, 20, 2))
    inputs = [np.concatenate([low, low + 0.3], -1).astype(F32), rng.uniform(0, 1, (3, 5, 20)).astype(F32)]
    data += ' sort_result_across_batch="true"'
    by_specified_name = run_layer(tmp_path, names[0], "opset8", data.format("sort_result"), *inputs, outputs=3)
    by_openvino_name = run_layer(tmp_path, names[1], "opset8", data.format("sort_result_type"), *inputs, outputs=3)
    for a, b in zip(by_specified_name, by_openvino_name, strict=True):
        np.testing.assert_array_equal(a, b)
    column = by_specified_name[0][:, 1 if "score" in data else 0]
    assert len(column) > 10
    assert (np.diff(column) <= 0).all() if "score" in data else (np.diff(column) >= 0).all()


def test_score_that_equals_the_threshold_is_too_low():
    assert select(10, 0.5, 0.3)[0][:, 2].tolist() == [3, 0]
    assert select(10, 0.5, 0.29)[0][:, 2].tolist() == [3, 0, 5]
    rotated = np.concatenate([BOXES, np.zeros((1, 6, 1), F32)], -1)
    rotated[..., 2:4] = 1
    kept, _, _ = nms_rotated_13(rotated, SCORES, np.array(10), F32(0.5), F32(0.3))
    assert kept[:, 2].tolist() == [3, 0]


def test_decayed_score_that_equals_the_threshold_is_too_low():
    boxes, scores = np.array([[[0, 0, 1, 1]]], F32), np.array([[[0.5], [0.75]]], F32)
    for threshold, kept in ((0.49, [0.75, 0.5]), (0.5, [0.75]), (0.75, [])):
        selected, _, counts = matrix_nms_8(boxes, scores, post_threshold=threshold, background_class=-1)
        assert (selected[:, 1].tolist(), counts.tolist()) == (kept, [len(kept)])


def test_multiclass_nms_accepts_boxes_of_each_class(tmp_path):
    """The second example of the specification, in which an eta of 0 drops the threshold to 0."""
    data = (
        'sort_result="score" output_type="i64" sort_result_across_batch="false" iou_threshold="0.2" '
        'score_threshold="0.5" nms_top_k="-1" keep_top_k="-1" background_class="-1" normalized="false" nms_eta="0.0"'
    )
    rng = np.random.default_rng(3)
    low = rng.uniform(0, 50, (3, 100, 2))
    inputs = [np.concatenate([low, low + 9], -1).astype(F32), rng.uniform(0, 1, (3, 100)).astype(F32)]
    outputs, indices, counts = run_layer(tmp_path, "MulticlassNms", "opset9", data, *inputs, np.full(10, 10), outputs=3)
    assert outputs.shape == (counts.sum(), 6)
    assert indices.shape == (counts.sum(), 1)
    assert counts.shape == (10,)
    assert (outputs[:, 1] >= 0.5).all()
