"""Attributes and inputs that kernels refuse with a message of their own, instead of an exception of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops.arithmetic.segment_max import segment_max_16
from irrun.ops.convolution.binary_convolution import binary_convolution_1
from irrun.ops.detection.detectron import experimental_detectron_detection_output_6
from irrun.ops.detection.prior_box import prior_box_1
from irrun.ops.detection.proposal import (
    experimental_detectron_generate_proposals_single_image_6,
    generate_proposals_9,
    proposal_1,
    proposal_4,
)
from irrun.ops.detection.psroi import psroi_pooling_1
from irrun.ops.internal.variable_length_attention import vlsdpa
from irrun.ops.movement.broadcast import broadcast_3
from irrun.ops.type import string_tensor_unpack_15

F32 = np.float32
U1 = ELEMENT_TYPES["u1"].dtype
ANCHORS: dict[str, Any] = {
    "base_size": 16,
    "nms_thresh": 0.5,
    "feat_stride": 16,
    "min_size": 1,
    "ratio": [1.0],
    "scale": [1.0, 2.0],
}


@pytest.mark.parametrize("name", ["pre_nms_topn", "post_nms_topn"])
@pytest.mark.parametrize("kernel", [proposal_1, proposal_4])
def test_proposal_refuses_negative_numbers_of_boxes(kernel, name):
    attributes: dict[str, Any] = {"pre_nms_topn": 4, "post_nms_topn": 3, name: -(2**31)}
    with pytest.raises(InputError, match=f"^{name} is -2147483648, expected at least 0$"):
        kernel(np.zeros((1, 4, 2, 2), F32), np.zeros((1, 8, 2, 2), F32), np.ones(3, F32), **ANCHORS, **attributes)


@pytest.mark.parametrize("name", ["pre_nms_count", "post_nms_count"])
@pytest.mark.parametrize("images", [None, 1])
def test_generated_proposals_refuse_negative_numbers_of_boxes(images, name):
    kernel = generate_proposals_9 if images else experimental_detectron_generate_proposals_single_image_6
    batch = (images,) if images else ()
    inputs = [(*batch, 3), (2, 2, 1, 4), (*batch, 4, 2, 2), (*batch, 1, 2, 2)]
    attributes: dict[str, Any] = {"pre_nms_count": 4, "post_nms_count": 3, name: -1}
    with pytest.raises(InputError, match=f"^{name} is -1, expected at least 0$"):
        kernel(*[np.ones(shape, F32) for shape in inputs], min_size=1.0, nms_threshold=0.5, **attributes)


@pytest.mark.parametrize(
    ("name", "value", "minimum"), [("post_nms_count", -2, -1), ("max_detections_per_image", -1, 0)]
)
def test_detections_refuse_negative_numbers_of_boxes(name, value, minimum):
    counts: dict[str, Any] = {"post_nms_count": -1, "max_detections_per_image": 3}
    attributes: dict[str, Any] = {
        "score_threshold": 0.2,
        "nms_threshold": 0.5,
        "num_classes": 2,
        "max_delta_log_wh": 4.0,
        "deltas_weights": [10.0, 10.0, 5.0, 5.0],
    }
    rois, deltas, scores, info = (np.ones(shape, F32) for shape in [(5, 4), (5, 8), (5, 2), (1, 3)])
    boxes, _, _ = experimental_detectron_detection_output_6(rois, deltas, scores, info, **attributes, **counts)
    assert boxes.shape == (3, 4)
    with pytest.raises(InputError, match=f"^{name} is {value}, expected at least {minimum}$"):
        experimental_detectron_detection_output_6(rois, deltas, scores, info, **attributes, **{**counts, name: value})


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("name", ["aspect_ratio", "fixed_ratio"])
@pytest.mark.parametrize("value", [0.0, -2.0, float("nan")])
def test_prior_boxes_refuse_aspect_ratios_that_are_not_positive(name, value, flip):
    sizes: dict[str, Any] = {"min_size": [16.0], "fixed_size": [8.0], "density": [1.0], name: [2.0, value]}
    with pytest.raises(InputError, match=f"^an aspect ratio is {value:g}, expected a positive number$"):
        prior_box_1(np.array([2, 2]), np.array([32, 32]), offset=0.5, flip=flip, **sizes)


def test_segment_ids_whose_difference_overflows_are_not_sorted():
    lowest, greatest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    with pytest.raises(InputError, match=r"^segment_ids are negative or not sorted$"):
        segment_max_16(np.ones(3, F32), np.array([0, greatest, lowest]), np.array(5))


def test_only_filters_of_binary_convolution_are_bits():
    bits = np.ones((2, 5), np.uint8).view(U1)
    with pytest.raises(InputError, match=r"^input 1 is u1, expected a numeric type$"):
        psroi_pooling_1(np.zeros((1, 3, 4, 4), F32), bits, output_dim=3, spatial_scale=1.0)
    filters = np.ones((1, 1, 2, 2), np.uint8).view(U1)
    attributes: dict[str, Any] = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    for dtype in (F32, np.float16):
        data = np.array([[[[1, 1], [0, 1]]]], dtype)
        result = binary_convolution_1(data, filters, mode="xnor-popcount", pad_value=0.0, **attributes)
        assert result.dtype == dtype
        assert result.item() == 2
    with pytest.raises(InputError, match=r"^input 0 is u1, expected a numeric type$"):
        binary_convolution_1(filters, filters, mode="xnor-popcount", pad_value=0.0, **attributes)


def test_attention_of_sequences_needs_tokens():
    x = np.ones((4, 8), F32)
    assert vlsdpa(x, x, x, np.array([0, 4])).shape == (4, 8)
    with pytest.raises(InputError, match=r"^query has shape \[8\], expected \[..., tokens, size\]$"):
        vlsdpa(x[0], x, x, np.array([0, 4]))
    for query, key, value in ((x, x[0], x), (x, x, x[0])):
        with pytest.raises(InputError, match=r"^query has shape \[4, 8\], expected \[..., tokens, size\]$"):
            vlsdpa(query, key, value, np.array([0, 4]))


def test_surrogates_that_are_no_bytes_have_no_utf8():
    begins, ends, text = string_tensor_unpack_15(np.array(["a\udcff", "\udc80"], object))
    assert (begins.tolist(), ends.tolist(), text.tolist()) == ([0, 2], [2, 3], [97, 255, 128])
    with pytest.raises(InputError, match=r"^a string has the surrogate U\+D800, which UTF-8 cannot represent$"):
        string_tensor_unpack_15(np.array(["a", "b\ud800"], object))


@pytest.mark.parametrize("mode", ["numpy", "bidirectional", "pdpd"])
def test_sizes_to_broadcast_to_are_not_negative(mode):
    with pytest.raises(InputError, match=r"^target_shape is \[2, -1\], expected non-negative dimensions$"):
        broadcast_3(np.ones((2, 1), F32), np.array([2, -1]), mode=mode)
