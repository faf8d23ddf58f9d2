"""Results whose size depends on values are refused before they are allocated if memory does not suffice."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.limits import check_allocation, limit_allocations
from irrun.ops._support.axes import to_int_list
from irrun.ops._support.context import Declaration
from irrun.ops.arithmetic.segment_max import segment_max_16
from irrun.ops.convolution.backprop import convolution_backprop_data_1
from irrun.ops.convolution.forward import convolution_1
from irrun.ops.detection.detection_output import detection_output_8
from irrun.ops.detection.detectron import (
    experimental_detectron_detection_output_6,
    experimental_detectron_prior_grid_generator_6,
    experimental_detectron_roi_feature_extractor_6,
)
from irrun.ops.detection.prior_box import prior_box_1, prior_box_clustered_1
from irrun.ops.detection.proposal import experimental_detectron_generate_proposals_single_image_6, proposal_4
from irrun.ops.detection.psroi import deformable_psroi_pooling_1, psroi_pooling_1
from irrun.ops.detection.roi import roi_align_3, roi_pooling_2
from irrun.ops.generation.eye import eye_9
from irrun.ops.generation.multinomial import multinomial_13
from irrun.ops.generation.random_uniform import random_uniform_8
from irrun.ops.generation.range import range_4
from irrun.ops.image.interpolate import interpolate_1, interpolate_11
from irrun.ops.internal.sparse_fill_empty_rows_legacy import sparse_fill_empty_rows_legacy
from irrun.ops.movement.batch_to_space import space_to_batch_2
from irrun.ops.movement.broadcast import broadcast_1, broadcast_3
from irrun.ops.movement.gather import gather_7, gather_nd_8
from irrun.ops.movement.pad import pad_1
from irrun.ops.movement.patches import col2im_15, extract_image_patches_3
from irrun.ops.movement.tile import tile_1
from irrun.ops.pooling.adaptive import adaptive_avg_pool_8, adaptive_max_pool_8
from irrun.ops.pooling.windows import max_pool_1
from irrun.ops.sequence.attention import scaled_dot_product_attention_13
from irrun.ops.sequence.one_hot import one_hot_1
from irrun.ops.signals import dft_7, irdft_9, istft_16, stft_15
from irrun.ops.sort.topk_rois import experimental_detectron_topk_rois_6
from irrun.ops.sparse import embedding_segments_sum_3, sparse_fill_empty_rows_16
from irrun.shapes import PartialShape

F32, I64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["i64"]
HUGE = 1 << 38


def a(*values):
    return np.array(values)


def ones(*shape):
    return np.ones(shape, np.float32)


WINDOW = {"strides": [1], "dilations": [1], "pads_begin": [0], "pads_end": [0]}
RESIZE = {"mode": "nearest", "shape_calculation_mode": "sizes"}
IMAGE = ones(1, 1, 4, 4)

CALLS = {
    "Gather": lambda: gather_7(np.broadcast_to(ones(1), (1, 1 << 20)), np.zeros(1 << 12, np.int64), np.array(0)),
    "Broadcast-1": lambda: broadcast_1(ones(1), a(HUGE)),
    "Broadcast-3": lambda: broadcast_3(ones(1), a(1 << 20, 1 << 20), mode="bidirectional"),
    "Tile": lambda: tile_1(ones(2, 3), a(1 << 20, 1 << 20)),
    "Pad constant": lambda: pad_1(ones(3), a(HUGE), a(0), pad_mode="constant"),
    "Pad edge": lambda: pad_1(ones(3), a(0), a(HUGE), pad_mode="edge"),
    "SpaceToBatch": lambda: space_to_batch_2(ones(1, 1), a(1, 1), a(0, 0), a(0, HUGE)),
    "OneHot": lambda: one_hot_1(a(0, 1), np.array(HUGE), np.float32(1), np.float32(0), axis=0),
    "Eye": lambda: eye_9(a(1 << 20), a(1 << 20), a(0), output_type=F32),
    "Eye with a batch": lambda: eye_9(a(1), a(1), a(0), a(HUGE), output_type=F32),
    "Range": lambda: range_4(np.array(0), np.array(2**32 - 1), np.array(1), output_type=I64),
    "RandomUniform": lambda: random_uniform_8(
        a(HUGE), np.float32(0), np.float32(1), output_type=F32, global_seed=1, op_seed=1, state={}
    ),
    "Multinomial": lambda: multinomial_13(
        ones(3), a(HUGE), convert_type=I64, with_replacement=True, log_probs=False, global_seed=1
    ),
    "Interpolate-1": lambda: interpolate_1(IMAGE, a(HUGE, 1), axes=[2, 3], mode="linear"),
    "Interpolate-11": lambda: interpolate_11(IMAGE, a(1 << 20, 1 << 20), a(2, 3), **RESIZE),
    "Interpolate with pads": lambda: interpolate_11(IMAGE, a(2, 2), a(2, 3), **RESIZE, pads_end=[0, 0, 0, HUGE]),
    "Convolution": lambda: convolution_1(ones(1, 1, 4), ones(1, 1, 1), **{**WINDOW, "pads_begin": [HUGE]}),
    "ConvolutionBackpropData": lambda: convolution_backprop_data_1(
        ones(1, 1, 4), ones(1, 1, 1), a(HUGE), strides=[1], dilations=[1]
    ),
    "ConvolutionBackpropData with strides": lambda: convolution_backprop_data_1(
        ones(1, 1, 4), ones(1, 1, 1), strides=[HUGE], dilations=[1]
    ),
    "MaxPool": lambda: max_pool_1(ones(1, 1, 4), strides=[1], pads_begin=[HUGE], pads_end=[0], kernel=[1]),
    "AdaptiveAvgPool": lambda: adaptive_avg_pool_8(ones(1, 1, 4), a(HUGE)),
    "AdaptiveMaxPool": lambda: adaptive_max_pool_8(ones(1, 1, 4), a(HUGE)),
    "DFT": lambda: dft_7(ones(2, 2), a(0), a(HUGE)),
    "IRDFT": lambda: irdft_9(ones(2, 2), a(0), a(HUGE)),
    "ISTFT": lambda: istft_16(ones(3, 2, 2), ones(4), a(4), a(2), a(HUGE), center=False, normalized=False),
    "Col2Im": lambda: col2im_15(ones(1, 1), a(1, 1), a(1, 1), pads_end=[HUGE, 0], strides=[HUGE * 2, 1]),
    "PriorBox": lambda: prior_box_1(a(1 << 20, 1 << 20), a(1, 1), offset=0.5, min_size=[1.0]),
    "PriorBoxClustered": lambda: prior_box_clustered_1(a(1 << 20, 1 << 20), a(1, 1), offset=0.5),
    "ROIAlign": lambda: roi_align_3(
        IMAGE, ones(1, 4), a(0), pooled_h=1 << 20, pooled_w=1 << 20, sampling_ratio=1, spatial_scale=1.0, mode="avg"
    ),
    "ROIAlign with many samples": lambda: roi_align_3(
        IMAGE, ones(1, 4), a(0), pooled_h=1, pooled_w=1, sampling_ratio=1 << 20, spatial_scale=1.0, mode="avg"
    ),
    "ROIAlign of a large region": lambda: roi_align_3(
        IMAGE,
        np.array([[0, 0, 1e6, 1e6]], np.float32),
        a(0),
        pooled_h=1,
        pooled_w=1,
        sampling_ratio=0,
        spatial_scale=1.0,
        mode="avg",
    ),
    "TopKROIs": lambda: experimental_detectron_topk_rois_6(ones(1, 4), ones(1), max_rois=HUGE),
    "EmbeddingSegmentsSum": lambda: embedding_segments_sum_3(ones(3, 2), a(0), a(0), np.array(HUGE)),
    "SparseFillEmptyRows": lambda: sparse_fill_empty_rows_16(ones(1), a(HUGE, 1), np.array([[0, 0]]), ones()),
    "GatherND": lambda: gather_nd_8(np.broadcast_to(ones(1), (1, 1 << 20)), np.zeros((1 << 14, 1), np.int64)),
    "GatherND with batches": lambda: gather_nd_8(
        np.broadcast_to(ones(1), (1, 1, 1 << 20)), np.zeros((1 << 14, 1, 1), np.int64), batch_dims=1
    ),
    "ExtractImagePatches": lambda: extract_image_patches_3(
        np.broadcast_to(ones(1), (1, 64, 4, 4)),
        sizes=[1 << 12, 1 << 12],
        strides=[1, 1],
        rates=[1, 1],
        auto_pad="same_upper",
    ),
    "ExtractImagePatches with large patches": lambda: extract_image_patches_3(
        IMAGE, sizes=[HUGE, 1], strides=[1, 1], rates=[1, 1], auto_pad="valid"
    ),
    "ScaledDotProductAttention": lambda: scaled_dot_product_attention_13(
        *[np.broadcast_to(ones(1), (1 << 16, 1))] * 3, causal=False
    ),
    "STFT": lambda: stft_15(
        np.broadcast_to(ones(1), (1 << 18,)), ones(1), np.array(1 << 17), np.array(1), transpose_frames=False
    ),
    "PriorGridGenerator": lambda: experimental_detectron_prior_grid_generator_6(
        ones(1, 4), IMAGE, IMAGE, h=1 << 20, w=1 << 20
    ),
    "ROIFeatureExtractor": lambda: experimental_detectron_roi_feature_extractor_6(
        ones(1, 4), IMAGE, output_size=1 << 20, sampling_ratio=1, pyramid_scales=[4]
    ),
    "Detectron": lambda: experimental_detectron_detection_output_6(
        ones(1, 4),
        ones(1, 8),
        ones(1, 2),
        ones(1, 3),
        score_threshold=0.5,
        nms_threshold=0.5,
        num_classes=2,
        post_nms_count=1,
        max_detections_per_image=HUGE,
        max_delta_log_wh=1.0,
        deltas_weights=[1.0] * 4,
    ),
    "PSROIPooling": lambda: psroi_pooling_1(
        np.broadcast_to(ones(1), (1, 1 << 30, 1, 1)),
        ones(2, 5) * 0,
        output_dim=1,
        spatial_scale=1.0,
        group_size=1 << 15,
    ),
    "DeformablePSROIPooling": lambda: deformable_psroi_pooling_1(
        IMAGE, ones(1, 5) * 0, output_dim=1, spatial_scale=1.0, spatial_bins_x=1 << 17, spatial_bins_y=1 << 17
    ),
    "ROIPooling": lambda: roi_pooling_2(IMAGE, ones(1, 5), pooled_h=1 << 20, pooled_w=1 << 20, spatial_scale=1.0),
    "DetectionOutput": lambda: detection_output_8(
        ones(1, 4), ones(1, 2), ones(1, 2, 4), keep_top_k=[HUGE], nms_threshold=0.5, normalized=True
    ),
    "Proposal": lambda: proposal_4(
        ones(1, 2, 1, 1),
        ones(1, 4, 1, 1),
        ones(3),
        base_size=4,
        pre_nms_topn=1,
        post_nms_topn=HUGE,
        nms_thresh=0.5,
        feat_stride=1,
        min_size=1,
        ratio=[1.0],
        scale=[1.0],
    ),
    "GenerateProposals": lambda: experimental_detectron_generate_proposals_single_image_6(
        ones(3),
        ones(1, 4),
        ones(4, 1, 1),
        ones(1, 1, 1),
        min_size=0.0,
        nms_threshold=0.5,
        post_nms_count=HUGE,
        pre_nms_count=1,
    ),
    "SparseFillEmptyRows of IR v7": lambda: sparse_fill_empty_rows_legacy(
        ones(1, 2) * 0, ones(1), ones(2), ones(), count=HUGE
    ),
    "SparseFillEmptyRows of IR v7 with many rows": lambda: sparse_fill_empty_rows_legacy(
        ones(1, 2) * 0, ones(1), ones(2) * HUGE, ones(), count=1
    ),
    "ReadValue": lambda: Declaration(F32, PartialShape([1 << 20, 1 << 20])).make_zeros(),
    "SegmentMax": lambda: segment_max_16(ones(2, 2), a(0, 0), np.array(HUGE), fill_mode="ZERO"),
}


@pytest.mark.parametrize("call", CALLS)
def test_too_large_result_is_refused_before_allocation(call):
    tracemalloc.start()
    try:
        with limit_allocations(1 << 32), pytest.raises(InputError, match="bytes, expected at most 4 GiB"):
            CALLS[call]()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_allocation_limit_applies_to_block():
    with limit_allocations(100):
        check_allocation((5, 5), np.dtype(np.float32))
        with pytest.raises(InputError, match=r"4 \* 5 \* 6 bytes"):
            check_allocation((5, 6), np.dtype(np.float32))
    check_allocation((5, 6), np.dtype(np.float32))
    with pytest.raises(InputError):
        check_allocation((1 << 31, 1 << 31), np.dtype(np.uint8))
    check_allocation((1 << 31, 1 << 31, 0), np.dtype(np.uint8))


@pytest.mark.parametrize("values", [np.array([1, np.nan]), np.array([np.inf]), np.array(["a"], object)])
def test_to_int_list_reports_other_values(values):
    with pytest.raises(InputError, match="expected integers, found"):
        to_int_list(values)
    assert to_int_list(np.array([1.0, -2.0])) == [1, -2]
