"""Shapes, types and attributes that operations refuse, each with the message that states what was expected."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support import registry

WINDOW = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
WINDOW_2D = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
BITS = {**WINDOW_2D, "mode": "xnor-popcount", "pad_value": 0.0}
DETECTION = {"background_label_id": 0, "nms_threshold": 0.5, "keep_top_k": [3], "normalized": True}
DETECTRON = {
    "score_threshold": 0.2,
    "nms_threshold": 0.5,
    "num_classes": 2,
    "post_nms_count": 2,
    "max_detections_per_image": 2,
    "max_delta_log_wh": 4.0,
    "deltas_weights": [10.0, 10.0, 5.0, 5.0],
}
PROPOSALS = {"min_size": 1.0, "nms_threshold": 0.5, "pre_nms_count": 4, "post_nms_count": 3}
ROI = {"output_size": 2, "sampling_ratio": 2, "pyramid_scales": [4]}
GRID = {"flatten": True, "h": 0, "w": 0, "stride_x": 1.0, "stride_y": 1.0}
BOXES = {"min_size": [4.0], "offset": 0.5}
COL2IM = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
PATCHES = {"sizes": [2, 2], "strides": [1, 1], "rates": [1, 1], "auto_pad": "valid"}
STRING = np.array("a", object)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def one(value: object) -> np.ndarray:
    return np.array(value)


#: Operation, inputs as arrays or shapes of f32, attributes, message.
CASES = [
    ("Convolution-1", [(1, 2, 5), (3, 2)], WINDOW, "filters has shape [3, 2], expected [C_OUT, C_IN, kernel...]"),
    ("Convolution-1", [(1, 2, 5), (3, 4, 1)], WINDOW, "[1, 2, 5]"),
    ("Convolution-1", [(1, 2, 5), (3, 2, 6)], WINDOW, "6 elements with dilation 1 does not fit into 5"),
    ("GroupConvolution-1", [(1, 2, 5), (2, 1, 3)], WINDOW, "expected [GROUPS, C_OUT, C_IN, kernel...]"),
    ("ConvolutionBackpropData-1", [(1, 2, 5), (2, 3)], {"strides": [1], "dilations": [1]}, "[C_IN, C_OUT, kernel...]"),
    (
        "GroupConvolutionBackpropData-1",
        [(1, 3, 5), (1, 2, 3, 1)],
        {"strides": [1], "dilations": [1]},
        "data of shape [1, 3, 5] does not match filters",
    ),
    (
        "GroupConvolutionBackpropData-1",
        [(1, 2, 5), (1, 2, 1)],
        {"strides": [1], "dilations": [1]},
        "does not match filters [GROUPS, C_IN, C_OUT, kernel...] of shape [1, 2, 1]",
    ),
    (
        "ConvolutionBackpropData-1",
        [(1, 2, 0), (2, 3, 1)],
        {"strides": [1], "dilations": [1]},
        "expected no empty spatial axis",
    ),
    (
        "ConvolutionBackpropData-1",
        [(1, 2, 3), (2, 3, 1)],
        {"strides": [1], "dilations": [1], "pads_begin": [2], "pads_end": [1]},
        "the output would have the spatial shape [0]",
    ),
    ("BinaryConvolution-1", [(1, 2, 5, 5), (3, 2)], BITS, "filters has shape [3, 2]"),
    ("DeformableConvolution-8", [(1, 2, 5), (1, 2, 5), (3, 2, 1)], WINDOW_2D, "expected rank 4"),
    ("DeformableConvolution-8", [(1, 2, 5, 5), (1, 2, 5, 5), (3, 3, 1, 1)], WINDOW_2D, "2 channels and filters"),
    (
        "DeformableConvolution-8",
        [(1, 2, 5, 5), (1, 2, 5, 5), (2, 2, 1, 1)],
        {**WINDOW_2D, "deformable_group": 0},
        "do not match group 1 and deformable_group 0",
    ),
    (
        "DeformableConvolution-8",
        [(1, 2, 5, 5), (1, 6, 5, 5), (2, 2, 1, 1)],
        {**WINDOW_2D, "deformable_group": 3},
        "deformable_group 3",
    ),
    (
        "DeformableConvolution-8",
        [(1, 2, 5, 5), (1, 2, 5, 5), (3, 1, 1, 1)],
        {**WINDOW_2D, "group": 2},
        "do not match group 2",
    ),
    ("DetectionOutput-8", [(1, 8), (1, 4, 1), (1, 2, 8)], DETECTION, "expected ranks 2, 2, 3"),
    ("DetectionOutput-8", [(1, 8), (1, 4), (1, 2, 9)], DETECTION, "expected a last dimension of priors * 4"),
    ("DetectionOutput-8", [(1, 8), (1, 4), (1, 2, 0)], DETECTION, "expected a last dimension of priors * 4"),
    ("DetectionOutput-8", [(1, 8), (1, 1), (1, 2, 8)], DETECTION, "expected at least one class for each of 2 priors"),
    ("DetectionOutput-8", [(1, 8), (2, 4), (1, 2, 8)], DETECTION, "class_preds has shape [2, 4], expected [1, 4]"),
    ("DetectionOutput-8", [(1, 4), (1, 4), (1, 2, 8)], DETECTION, "box_logits has shape [1, 4], expected [N, 8]"),
    ("DetectionOutput-8", [(2, 8), (2, 4), (3, 2, 8)], DETECTION, "proposals has shape [3, 2, 8], expected [1 or 2"),
    ("DetectionOutput-8", [(1, 8), (1, 4), (1, 1, 8)], DETECTION, "expected [1 or 1, 2, ...]"),
    (
        "DetectionOutput-8",
        [(1, 8), (1, 4), (1, 2, 8), (1, 4), (1, 12)],
        DETECTION,
        "box predictions have shape [1, 12], expected [N, 8]",
    ),
    (
        "ExperimentalDetectronPriorGridGenerator-6",
        [(3, 5), (1, 1, 2, 2), (1, 3, 8, 8)],
        GRID,
        "expected [P, 4], [1, C, H, W]",
    ),
    ("ExperimentalDetectronPriorGridGenerator-6", [(3, 4), (1, 2, 2), (1, 3, 8, 8)], GRID, "inputs have shapes"),
    ("ExperimentalDetectronPriorGridGenerator-6", [(3, 4), (1, 1, 2, 2), (3, 8, 8)], GRID, "inputs have shapes"),
    (
        "ExperimentalDetectronPriorGridGenerator-6",
        [(3, 4), (1, 1, 2, 2), (1, 3, 8, 8)],
        {**GRID, "w": 3},
        "the grid is 2 x 3, expected at most 2 x 2",
    ),
    (
        "ExperimentalDetectronPriorGridGenerator-6",
        [(3, 4), (1, 1, 2, 2), (1, 3, 8, 8)],
        {**GRID, "h": 3},
        "the grid is 3 x 2, expected at most 2 x 2",
    ),
    ("ExperimentalDetectronROIFeatureExtractor-6", [(2, 5), (1, 1, 4, 4)], ROI, "expected [regions, 4] and maps"),
    ("ExperimentalDetectronROIFeatureExtractor-6", [(2, 4)], ROI, "expected [regions, 4] and maps [1, C, H, W]"),
    ("ExperimentalDetectronROIFeatureExtractor-6", [(2, 4), (1, 4, 4)], ROI, "maps [1, C, H, W]"),
    (
        "ExperimentalDetectronROIFeatureExtractor-6",
        [(2, 4), (1, 1, 4, 4), (1, 1, 2, 2)],
        ROI,
        "and 1 scales, expected a scale for each map",
    ),
    ("ExperimentalDetectronDetectionOutput-6", [(5,), (5, 8), (5, 2), (1, 3)], DETECTRON, "rois has shape [5]"),
    ("ExperimentalDetectronDetectionOutput-6", [(5, 3), (5, 8), (5, 2), (1, 3)], DETECTRON, "expected [R, 4], [R, 8]"),
    ("ExperimentalDetectronDetectionOutput-6", [(5, 4), (5, 4), (5, 2), (1, 3)], DETECTRON, "expected [R, 4], [R, 8]"),
    ("ExperimentalDetectronDetectionOutput-6", [(5, 4), (5, 8), (4, 2), (1, 3)], DETECTRON, "and [R, 2]"),
    (
        "ExperimentalDetectronDetectionOutput-6",
        [(5, 4), (5, 8), (5, 2), (1, 3)],
        {**DETECTRON, "deltas_weights": [1.0] * 3},
        "deltas_weights has 3 values, expected 4",
    ),
    (
        "PriorBox-8",
        [i64(2, 2), i64(8, 8)],
        {**BOXES, "aspect_ratio": [2.0, 0.0]},
        "an aspect ratio is 0, expected a positive number",
    ),
    (
        "PriorBox-8",
        [i64(2, 2), i64(8, 8)],
        {"offset": 0.5, "fixed_size": [4.0], "density": [2.0], "fixed_ratio": [-1.0]},
        "an aspect ratio is -1",
    ),
    (
        "PriorBox-8",
        [i64(2, 2), i64(8, 8)],
        {"offset": 0.5, "fixed_size": [4.0], "density": [0.0]},
        "density is 0.0, expected at least 1",
    ),
    (
        "PriorBox-8",
        [i64(2, 2), i64(8, 8)],
        {"offset": 0.5, "fixed_size": [4.0, 5.0], "density": [1.0]},
        "density has 1 values, expected one for each of 2 fixed sizes",
    ),
    (
        "ExperimentalDetectronGenerateProposalsSingleImage-6",
        [(1,), (4, 4), (4, 2, 2), (1, 2, 2)],
        PROPOSALS,
        "im_info has 1 values and scores have rank 3",
    ),
    (
        "ExperimentalDetectronGenerateProposalsSingleImage-6",
        [(3,), (4, 4), (4, 2, 2), (1, 1, 2, 2)],
        PROPOSALS,
        "im_info has 3 values and scores have rank 4",
    ),
    ("GenerateProposals-9", [(2, 3), (2, 2, 1, 4), (1, 4, 2, 2), (2, 1, 2, 2)], PROPOSALS, "deltas has shape"),
    ("Multinomial-13", [(1, 3), i64(-1)], {"convert_type": "i64", "with_replacement": True, "log_probs": False}, "-1"),
    ("NV12toRGB-8", [(1, 3, 4, 1), (1, 1, 2, 2)], {}, "[1, 3, 4, 1], expected [N, H, W, 1] with even H and W"),
    ("SegmentMax-16", [(2, 3), i64(0, 0, 1)], {"fill_mode": "ZERO"}, "segment_ids has shape [3]"),
    ("SegmentMax-16", [(2, 3), i64(1, 0)], {"fill_mode": "ZERO"}, "segment_ids are negative or not sorted"),
    ("SegmentMax-16", [(2, 3), i64(-1, 0)], {"fill_mode": "ZERO"}, "segment_ids are negative or not sorted"),
    ("SegmentMax-16", [(2, 3), i64(0, 0), one(-1)], {"fill_mode": "ZERO"}, "num_segments is -1, expected at least 0"),
    (
        "SpaceToBatch-2",
        [(1, 4), i64(1, 2), i64(0, -1), i64(0, 1)],
        {},
        "[0, -1] and [0, 1], expected non-negative numbers",
    ),
    ("SpaceToBatch-2", [(1, 4), i64(1, 2), i64(0, 1), i64(0, -1)], {}, "expected non-negative numbers"),
    ("SpaceToBatch-2", [(1, 5), i64(1, 2), i64(0, 0), i64(0, 0)], {}, "[1, 5] is not a multiple of block_shape [1, 2]"),
    ("SpaceToBatch-2", [(4,), i64(1), i64(0), i64(0)], {}, "data [4] of at least rank 2"),
    ("SpaceToBatch-2", [(1, 4), i64(1, 2), i64(0), i64(0, 0)], {}, "have 2, 1, 2 elements"),
    ("BatchToSpace-2", [(4, 4), i64(2, 2), i64(0, 0), i64(0, 0)], {}, "positive numbers that begin with 1"),
    ("BatchToSpace-2", [(4, 4), i64(1, 0), i64(0, 0), i64(0, 0)], {}, "block_shape is [1, 0]"),
    ("Broadcast-1", [(2, 3), i64(3)], {"mode": "numpy"}, "data of shape [2, 3] does not broadcast to [3]"),
    ("Broadcast-3", [(3,), i64(2, -3)], {"mode": "numpy"}, "target_shape is [2, -3]"),
    ("Broadcast-3", [(3,), i64(2, 3)], {"mode": "explicit"}, 'mode "explicit" requires the input axes_mapping'),
    ("Broadcast-3", [(2, 3), i64(2, 3), i64(1, 0)], {"mode": "explicit"}, "axes_mapping is [1, 0]"),
    ("Broadcast-3", [(2, 3), i64(2, 3), i64(0)], {"mode": "explicit"}, "one axis of the target"),
    ("Broadcast-3", [(2, 3), i64(2, 3), i64(0, 2)], {"mode": "explicit"}, "axes_mapping is [0, 2]"),
    ("Concat-1", [], {"axis": 0}, "Concat has no inputs, expected at least one"),
    ("SpaceToDepth-1", [(2, 4)], {"mode": "blocks_first", "block_size": 2}, "expected at least rank 3"),
    ("DepthToSpace-1", [(1, 4, 4)], {"mode": "blocks_first", "block_size": 0}, "block_size is 0, expected at least 1"),
    ("GatherTree-1", [(1, 1, 1), i64(0).reshape(1, 1, 1), (1,), ()], {}, "expected the same type"),
    ("Pad-12", [(2,), i64(1), i64(1), (2,)], {"pad_mode": "constant"}, "pad_value has shape [2], expected a scalar"),
    ("OneHot-1", [i64(0), one(-1), one(1.0), one(0.0)], {"axis": 0}, "depth is -1, expected a non-negative number"),
    ("OneHot-1", [i64(0), one(2), (2,), one(0.0)], {"axis": 0}, "on_value has shape [2], expected a scalar"),
    ("OneHot-1", [i64(0), one(2), one(1.0), (3,)], {"axis": 0}, "off_value has shape [3], expected a scalar"),
    ("OneHot-1", [i64(0), STRING, one(1.0), one(0.0)], {"axis": 0}, "depth is string, expected a number"),
    ("Unsqueeze-1", [(2,), i64(0, 5)], {}, "5"),
    ("Unsqueeze-1", [(2,), i64(2, -1)], {}, "axes [-1, 2] are out of range for a result of rank 2"),
    ("FakeQuantize-1", [(2,), (), (), (), ()], {"levels": 1}, "levels is 1, expected at least 2"),
    ("LRN-1", [(1, 2), i64(1)], {"alpha": 1.0, "beta": 1.0, "bias": 1.0, "size": 0}, "size is 0, expected a positive"),
    ("MaxPool-1", [(1, 2)], {**WINDOW, "kernel": [2], "dilations": None}, "[1, 2]"),
    ("AdaptiveAvgPool-8", [(1, 2, 4), i64(2, 2)], {}, "output_shape [2, 2] does not match data of shape [1, 2, 4]"),
    ("AdaptiveAvgPool-8", [(1, 2, 4), i64(-1)], {}, "output_shape [-1]"),
    ("AdaptiveAvgPool-8", [(1, 4), i64()], {}, "does not match data of shape [1, 4]"),
    ("AdaptiveAvgPool-8", [(1, 2, 0), i64(2)], {}, "the value of empty windows is undefined"),
    ("CTCGreedyDecoder-1", [(2, 3), (2, 3)], {}, "data has shape [2, 3], expected [T, N, C]"),
    ("CTCGreedyDecoder-1", [(2, 3, 4), (3, 2)], {}, "sequence_mask has shape [3, 2], expected [2, 3]"),
    ("CTCGreedyDecoderSeqLen-6", [(2, 3), i64(2)], {}, "data has shape [2, 3], expected [N, T, C]"),
    ("CTCGreedyDecoderSeqLen-6", [(2, 3, 4), i64(2, 4)], {}, "sequence_length is [2, 4], expected values in [0, 3]"),
    ("CTCLoss-4", [(1, 3), i64(3), i64(0).reshape(1, 1), i64(1)], {}, "expected [N, T, C]"),
    ("CTCLoss-4", [(1, 3, 2), i64(1), i64(0, 0, 0)[None], i64(2)], {}, "label_length [2] exceeds logit_length [1]"),
    ("CTCLoss-4", [(1, 3, 2), i64(3), i64(2, 0, 0)[None], i64(1)], {}, "expected values in [0, 1]"),
    ("CTCLoss-4", [(1, 3, 2), i64(3), i64(-1, 0, 0)[None], i64(1)], {}, "expected values in [0, 1]"),
    ("CTCLoss-4", [(1, 3, 2), i64(3), i64(0, 0, 0)[None], i64(1), one(2)], {}, "blank_index are out of range"),
    ("CTCLoss-4", [(1, 3, 2), i64(3), i64(0, 0)[None], i64(1)], {}, "labels has shape [1, 2], expected [1, 3]"),
    ("STFT-15", [(5,), (3,), one(6), one(2)], {"transpose_frames": False}, "length >= 6"),
    ("STFT-15", [(1, 1, 8), (3,), one(6), one(2)], {"transpose_frames": False}, "signal has shape [1, 1, 8]"),
    ("STFT-15", [(8,), (7,), one(6), one(2)], {"transpose_frames": False}, "7"),
    ("STFT-15", [(8,), (3,), one(0), one(2)], {"transpose_frames": False}, "frame_size"),
    ("STFT-15", [(8,), (3,), one(4), one(0)], {"transpose_frames": False}, "frame_step"),
    (
        "ISTFT-16",
        [(1, 3, 2, 2), (3,), one(6), one(2)],
        {"center": False, "normalized": False},
        "expected [batch, 4, frames, 2] for frames of size 6",
    ),
    ("RDFT-9", [(4, 4), i64(0, 1), i64(4)], {}, "signal_size has 1 elements, expected 2, one for each axis"),
    ("RDFT-9", [(4, 4), i64(0), i64(-2)], {}, "signal_size is [-2], expected non-negative numbers or -1"),
    ("ScaledDotProductAttention-13", [(2,), (2, 3), (2, 3)], {"causal": False}, "expected [..., L, E]"),
    ("ScaledDotProductAttention-13", [(2, 4), (2, 3), (2, 3)], {"causal": False}, "query has shape [2, 4] and key"),
    (
        "LSTMSequence-5",
        [(1, 2, 3), (1, 1, 2), (1, 1, 2), i64(2), (1, 8, 4), (1, 8, 2), (1, 8)],
        {"hidden_size": 2, "direction": "forward"},
        "W has shape [1, 8, 4], expected [1, 8, 3]",
    ),
    (
        "LSTMSequence-5",
        [(2, 3), (1, 1, 2), (1, 1, 2), i64(2), (1, 8, 3), (1, 8, 2), (1, 8)],
        {"hidden_size": 2, "direction": "forward"},
        "X has shape [2, 3], expected [batch_size, seq_length, input_size]",
    ),
    (
        "LSTMSequence-5",
        [(1, 2, 3), (1, 1, 2), (1, 2, 2), i64(2), (1, 8, 3), (1, 8, 2), (1, 8)],
        {"hidden_size": 2, "direction": "forward"},
        "initial_cell_state has shape [1, 2, 2], expected [1, 1, 2]",
    ),
    (
        "LSTMSequence-5",
        [(1, 2, 3), (1, 1, 2), (1, 1, 2), i64(2), (1, 8, 3), (1, 8, 2), (1, 6)],
        {"hidden_size": 2, "direction": "forward"},
        "B has shape [1, 6], expected [1, 8]",
    ),
    (
        "GRUSequence-5",
        [(1, 2, 3), (1, 1, 2), i64(2), (1, 6, 3), (1, 6, 1), (1, 6)],
        {"hidden_size": 2, "direction": "forward"},
        "R has shape [1, 6, 1], expected [1, 6, 2]",
    ),
    (
        "RNNSequence-5",
        [(1, 2, 3), (1, 1, 2), i64(2), (1, 2, 3), (1, 2, 2), (1, 2)],
        {"hidden_size": 2, "direction": "bidirectional"},
        "initial_hidden_state has shape [1, 1, 2], expected [1, 2, 2]",
    ),
    ("RNNCell-0", [(3,), (1, 2), (2, 3), (2, 2), (2,)], {"hidden_size": 2}, "X has shape [3], expected [batch_size"),
    ("RNNCell-0", [(1, 3), (1, 2), (2, 3), (2, 2), (3,)], {"hidden_size": 2}, "B has shape [3], expected [2]"),
    ("Einsum-7", [(2, 3), (4, 2)], {"equation": "ij,jk->ik"}, "j"),
    ("GatherElements-6", [(2, 3), i64(*[0] * 9).reshape(3, 3)], {"axis": 1}, "shape [3, 3], expected [2, 3]"),
    ("GatherElements-6", [(2, 3), i64(0, 0)], {"axis": 1}, "indices has shape [2], expected [2]"),
    ("GatherElements-6", [(2, 3), i64(0, 0, 0)], {"axis": 0}, "indices has shape [3], expected [3, 3]"),
    ("Select-1", [(1, 3), (2, 3), (2, 3)], {"auto_broadcast": "none"}, "shapes [2, 3] and [1, 3] differ"),
    ("Select-1", [(2, 3), (2, 3), (1, 3)], {"auto_broadcast": "none"}, "shapes [2, 3] and [1, 3] differ"),
    ("Select-1", [(2, 3), (1, 3), (1, 3)], {"auto_broadcast": "explicit"}, "shapes [1, 3] and [2, 3] differ"),
    ("Select-1", [(2, 2), (2, 3), (2, 3)], {"auto_broadcast": "pdpd"}, "shape [2, 2] does not broadcast to [2, 3]"),
    ("Select-1", [(2, 3), (2, 3), (2, 2)], {"auto_broadcast": "pdpd"}, "shape [2, 2] does not broadcast to [2, 3]"),
    ("Bucketize-3", [STRING, np.zeros(1, ELEMENT_TYPES["u1"].dtype)], {}, "expected a numeric type, found string"),
    ("Bucketize-3", [(1,), np.zeros(1, ELEMENT_TYPES["u1"].dtype)], {}, "expected a numeric type, found u1"),
    ("GroupedMatMul-17", [(2, 3, 4), (3, 5, 4)], {}, "mat_a has 2 groups, mat_b has 3"),
    ("GroupedMatMul-17", [(2,), (1, 5, 2)], {}, "found shapes [2] and [1, 5, 2], expected [ROWS, K]"),
    ("GroupedMatMul-17", [(2, 2, 3), (5, 3)], {}, "found shapes [2, 2, 3] and [5, 3]"),
    ("GroupedMatMul-17", [(2, 2, 4), (2, 4, 5)], {}, "found shapes [2, 2, 4] and [2, 4, 5]"),
    (
        "GatherTree-1",
        [np.full((1, 1, 1), "a", object), np.full((1, 1, 1), "a", object), np.full(1, "a", object), STRING],
        {},
        "the inputs have type object, expected a numeric type",
    ),
    ("GatherTree-1", [(1, 1), (1, 1), (1,), ()], {}, "step_ids and parent_ids have shapes [1, 1] and [1, 1]"),
    ("GatherTree-1", [(1, 1, 1), (1, 1, 2), (1,), ()], {}, "expected the same shape [MAX_TIME, BATCH, BEAM]"),
    ("GatherTree-1", [(1, 2, 1), (1, 2, 1), (1,), ()], {}, "max_seq_len has shape [1], expected [2]"),
    ("GatherTree-1", [(1, 1, 1), (1, 1, 1), (1,), (2,)], {}, "end_token has shape [2], expected a scalar"),
    ("Col2Im-15", [(4,), i64(2, 2), i64(2, 2)], COL2IM, "data has shape [4], expected [batch, channels * 4, blocks]"),
    ("Col2Im-15", [(1, 1, 4, 1), i64(2, 2), i64(2, 2)], COL2IM, "data has shape [1, 1, 4, 1]"),
    ("Col2Im-15", [(1, 6, 1), i64(2, 2), i64(2, 2)], COL2IM, "data has shape [1, 6, 1], expected [batch, channels * 4"),
    ("Col2Im-15", [(4, 2), i64(2, 2), i64(2, 2)], COL2IM, "data has 2 blocks, expected 1 * 1"),
    ("Col2Im-15", [(4, 1), i64(2, 2), i64(2, 2)], {**COL2IM, "pads_end": [0, -1]}, "pads_end is [0, -1], expected two"),
    ("Col2Im-15", [(4, 1), i64(2, 2), i64(2, 2)], {**COL2IM, "pads_begin": [0]}, "pads_begin is [0], expected two"),
    ("Col2Im-15", [(4, 1), i64(2, 2), i64(2, 2)], {**COL2IM, "strides": [1, 0]}, "strides is [1, 0], expected two"),
    (
        "Col2Im-15",
        [(4, 1), i64(2, 2), i64(2, 2)],
        {**COL2IM, "dilations": [1]},
        "dilations is [1], expected two positive",
    ),
    ("Col2Im-15", [(4, 1), i64(2, 0), i64(2, 2)], COL2IM, "output_size is [2, 0], expected two positive numbers"),
    ("Col2Im-15", [(4, 1), i64(2, 2), i64(2)], COL2IM, "kernel_size is [2], expected two positive numbers"),
    ("ExtractImagePatches-3", [(1, 4, 4)], PATCHES, "data has shape [1, 4, 4], expected rank 4"),
    ("ExtractImagePatches-3", [(1, 1, 4, 4)], {**PATCHES, "sizes": [2]}, "sizes is [2], expected two positive numbers"),
    ("ExtractImagePatches-3", [(1, 1, 4, 4)], {**PATCHES, "rates": [0, 1]}, "rates is [0, 1], expected two positive"),
    (
        "ExtractImagePatches-3",
        [(1, 1, 4, 4)],
        {**PATCHES, "strides": [1, 0]},
        "strides is [1, 0], expected two positive",
    ),
    (
        "ScatterElementsUpdate-3",
        [(2, 3), i64(0, 0), (2,), one(0)],
        {},
        "indices and updates have shapes [2] and [2], expected the same shape of rank 2",
    ),
    (
        "ScatterElementsUpdate-3",
        [(2, 3), i64(0, 0).reshape(1, 2), (2, 1), one(0)],
        {},
        "indices and updates have shapes [1, 2] and [2, 1], expected the same shape of rank 2",
    ),
    (
        "ScatterElementsUpdate-3",
        [(2, 3), i64(*[0] * 4).reshape(1, 4), (1, 4), one(0)],
        {},
        "indices has shape [1, 4], expected at most [2, 3] except for axis 0",
    ),
    ("ScatterNDUpdate-4", [(2, 3), one(0), (3,)], {}, "indices of shape [] do not address data of shape [2, 3]"),
    ("ScatterNDUpdate-4", [(2, 3), i64(0, 0, 0), ()], {}, "indices of shape [3] do not address data of shape [2, 3]"),
    ("MulticlassNms-9", [(2, 4), (2, 2)], {}, "boxes has shape [2, 4] and scores [2, 2], expected [N, boxes, 4]"),
    ("MulticlassNms-9", [(2, 3, 5), (2, 1, 3)], {}, "boxes has shape [2, 3, 5]"),
    ("MulticlassNms-9", [(2, 3, 4), (3,)], {}, "scores [3], expected [N, boxes, 4]"),
    ("MulticlassNms-9", [(2, 3, 4), (2, 1, 4)], {}, "scores [2, 1, 4], expected [N, boxes, 4]"),
    ("MulticlassNms-9", [(2, 3, 4), (3, 1, 3)], {}, "boxes have 2 rows and scores 3, expected equal numbers"),
    ("MulticlassNms-9", [(2, 3, 4), (2, 3)], {}, "scores have rank 2, which requires roisnum"),
    ("EmbeddingBagOffsets-15", [(), i64(0), i64(0)], {}, "the table of embeddings is a scalar"),
    ("StringTensorPack-15", [(1,), i64(1), np.zeros(1, np.uint8)], {}, "begins and ends have other types"),
    ("StringTensorPack-15", [i64(0), (1,), np.zeros(1, np.uint8)], {}, "begins and ends have other types"),
    ("StringTensorPack-15", [i64(0), i64(1, 1), np.zeros(1, np.uint8)], {}, "begins has shape [1] and ends [2]"),
    ("StringTensorPack-15", [i64(0), i64(2), np.zeros(1, np.uint8)], {}, "string range [0, 2) is invalid for 1 bytes"),
    ("StringTensorPack-15", [i64(-1), i64(1), np.zeros(1, np.uint8)], {}, "string range [-1, 1) is invalid"),
    ("StringTensorPack-15", [i64(1), i64(0), np.zeros(1, np.uint8)], {}, "string range [1, 0) is invalid"),
    ("GenerateProposals-9", [(3,), (2, 2, 1, 4), (1, 4, 2, 2), (1, 1, 2, 2)], PROPOSALS, "im_info has shape [3]"),
    ("GenerateProposals-9", [(1, 2), (2, 2, 1, 4), (1, 4, 2, 2), (1, 1, 2, 2)], PROPOSALS, "im_info has shape [1, 2]"),
    ("GenerateProposals-9", [(1, 3), (2, 2, 1, 4), (1, 4, 2, 2), (1, 2, 2)], PROPOSALS, "and scores [1, 2, 2]"),
    ("GenerateProposals-9", [(2, 3), (2, 2, 1, 4), (1, 4, 2, 2), (1, 1, 2, 2)], PROPOSALS, "expected [N, 3 or 4]"),
    ("GenerateProposals-9", [(1, 3), (2, 2, 1, 4), (4, 2, 2), (1, 1, 2, 2)], PROPOSALS, "deltas has shape [4, 2, 2]"),
    (
        "ROIAlign-3",
        [(1, 2, 0, 3), (1, 4), i64(0)],
        {"pooled_h": 1, "pooled_w": 1, "sampling_ratio": 1, "spatial_scale": 1.0, "mode": "avg"},
        "data has shape [1, 2, 0, 3], expected a height and width of at least 1",
    ),
    (
        "LSTMCell-4",
        [(1, 3), (1, 2), (1, 2), (8, 1)],
        {"hidden_size": 2},
        "combined weights have shape [8, 1], expected [gates, input_size + 2]",
    ),
    ("Roll-7", [(2, 3), i64(1, 2), i64(0)], {}, "shift"),
]


def call(operation: str, inputs: list, attributes: dict) -> Any:
    """Run the kernel of an operation on arrays, or on zeros in f32 of some shapes."""
    name, _, version = operation.partition("-")
    definition = registry.find(name, f"opset{version}")
    assert definition is not None
    arrays = [np.zeros(x, np.float32) if isinstance(x, tuple) else x for x in inputs]
    return definition.kernel(*arrays, **{k: v for k, v in attributes.items() if v is not None})


@pytest.mark.parametrize(("operation", "inputs", "attributes", "message"), CASES, ids=[c[0] for c in CASES])
def test_operation_refuses(operation, inputs, attributes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        call(operation, inputs, attributes)


def test_infinities_of_both_signs_are_detected_by_default():
    x = np.array([-np.inf, -1, np.nan, np.inf], np.float32)
    for attributes, expected in (
        ({}, [True, False, False, True]),
        ({"detect_negative": False}, [False, False, False, True]),
        ({"detect_positive": False}, [True, False, False, False]),
        ({"detect_negative": False, "detect_positive": False}, [False] * 4),
    ):
        assert np.asarray(call("IsInf-10", [x], attributes)).tolist() == expected


@pytest.mark.parametrize(("value", "shape"), [(0, (0, 0)), (3, (1, 1))])
def test_coordinates_of_a_scalar(value, shape):
    result = np.asarray(call("NonZero-3", [np.array(value)], {"output_type": ELEMENT_TYPES["i32"]}))
    assert (result.shape, result.dtype, bool(result.any())) == (shape, np.dtype(np.int32), False)


def test_first_of_equal_classes_is_decoded_and_nan_is_skipped():
    data = np.array([[[1, 3, 3, 0], [np.nan, 5, 1, 0], [0, np.nan, 7, 0], [2, 0, 0, 0]]], np.float32)
    classes, counts = call("CTCGreedyDecoderSeqLen-6", [data, i64(4)], {"merge_repeated": False})
    assert classes.tolist() == [[1, 0, 2, 0]]
    assert counts.tolist() == [4]


@pytest.mark.parametrize("shape", [(1, 2, 2, 4), (2, 2, 3), (1, 3, 2, 3), (1, 2, 3, 3)])
def test_conversion_to_nv12_refuses_other_images(shape):
    with pytest.raises(InputError, match=re.escape(f"{list(shape)}, expected [N, H, W, 3] with even H and W")):
        call("RGBtoNV12-17", [np.zeros(shape, np.uint8)], {"single_plane": False})


def test_signal_of_one_frame_is_accepted():
    signal = np.arange(6, dtype=np.float32)
    result = np.asarray(call("STFT-15", [signal, (4,), one(6), one(2)], {"transpose_frames": False}))
    assert result.shape == (1, 4, 2)


def test_regions_are_pooled_independently():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, 4, 9, 9)).astype(np.float32)
    corners = np.sort(rng.uniform(0, 8, (300, 2, 2)), axis=1).reshape(300, 4)
    rois = np.concatenate([np.zeros((300, 1)), corners], axis=1).astype(np.float32)
    size = {"output_dim": 1, "group_size": 1, "spatial_scale": 0.1, "mode": "bilinear"}
    bins = {"spatial_bins_x": 2, "spatial_bins_y": 2}
    together = np.asarray(call("PSROIPooling-1", [data, rois], {**size, **bins}))
    for i in (0, 1, 150, 299):
        alone = np.asarray(call("PSROIPooling-1", [data, rois[i : i + 1]], {**size, **bins}))
        np.testing.assert_array_equal(together[i : i + 1], alone)
