"""Partial shapes that the shape rules of operations refuse, each with the message that states what was expected."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from irrun.ops._support.operation import Operation
from irrun.ops._support.registry import list_operations
from irrun.ops.shape_rules import Inputs, ShapeError, UnknownShapeError, Value, find_rule
from irrun.shapes import PartialShape

OPERATIONS = {str(o): o for o in list_operations()}

ADAPTIVE = {"pooling_type": "avg", "mode": "max"}
CONVOLUTION = {"strides": "1,1", "dilations": "1,1", "pads_begin": "0,0", "pads_end": "0,0"}
DEFORMABLE = {**CONVOLUTION, "group": "1", "deformable_group": "1"}
DETECTION = {"background_label_id": "0", "nms_threshold": "0.5", "keep_top_k": "3", "share_location": "true"}
DETECTRON = {
    "score_threshold": "0.2",
    "nms_threshold": "0.5",
    "num_classes": "2",
    "post_nms_count": "2",
    "max_detections_per_image": "2",
    "max_delta_log_wh": "4",
    "deltas_weights": "10,10,5,5",
}
PROPOSALS = {"min_size": "1", "nms_threshold": "0.5", "pre_nms_count": "4", "post_nms_count": "3"}
PROPOSAL = {
    "base_size": "4",
    "pre_nms_topn": "5",
    "post_nms_topn": "6",
    "nms_thresh": "0.5",
    "feat_stride": "1",
    "min_size": "1",
    "ratio": "1",
    "scale": "1",
}
ALIGNMENT = {"pooled_h": "2", "pooled_w": "2", "sampling_ratio": "2", "spatial_scale": "1", "mode": "avg"}
POSITIONS = {"output_dim": "1", "group_size": "1", "spatial_scale": "1"}
SCALES = {"mode": "nearest", "shape_calculation_mode": "scales", "pads_begin": "0", "pads_end": "0"}
SIZES = {**SCALES, "shape_calculation_mode": "sizes"}
STRIDED = {"begin_mask": "0,0", "end_mask": "0,0"}
CELL = {"hidden_size": "4"}
SEQUENCE = {"hidden_size": "4", "direction": "bidirectional"}
DETECTION_IN_UNITS = {**DETECTION, "normalized": "true"}
FEATURES = {"output_size": "2", "sampling_ratio": "2", "pyramid_scales": "4"}
CHANNELS = ("gamma", "beta", "mean", "variance")
BLOCKS = {"mode": "blocks_first", "block_size": "2"}
#: Shapes of three scalars, one of which has two elements.
PAIRS_OF_THREE: list[list[Any]] = [[(2,), (), ()], [(), (2,), ()], [(), (), (2,)]]
POOLING = {"kernel": "2,2", "strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0"}


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def one(value: object) -> np.ndarray[Any, Any]:
    return np.array(value)


#: Operation, inputs as partial shapes or known values, attributes, message.
CASES: list[tuple[str, list[Any], dict[str, str], str]] = [
    ("Eye-9", [i64(-1), i64(2), i64(0)], {"output_type": "f32"}, "num_rows is [-1], expected non-negative sizes"),
    ("Eye-9", [i64(1), i64(-2), i64(0)], {"output_type": "f32"}, "num_columns is [-2], expected non-negative sizes"),
    ("MatMul-1", [(), (3, 4)], {}, "a has the shape [] and b has the shape [3,4], expected at least one dimension"),
    ("MatMul-1", [(2, 3), (2, 4)], {}, "expected 3 rows in b, found 2"),
    ("MatMul-1", [(3, 2), (2, 4)], {"transpose_a": "true"}, "a (transposed) has the shape [3,2] and b has the shape"),
    ("MatMul-1", [(2, 3), (3, 4)], {"transpose_b": "true"}, "a has the shape [2,3] and b (transposed) has the shape"),
    ("MatMul-1", [(2, 5, 3), (4, 3, 1)], {}, "their batch dimensions cannot be broadcast"),
    (
        "Einsum-7",
        [(2, 3), (3,)],
        {"equation": "ij,jk->ik"},
        "input 1 has the shape [3], the equation ij,jk->ik expects",
    ),
    ("Einsum-7", [(2, 3, 4), (3, 5)], {"equation": "ij,jk->ik"}, "input 0 has the shape [2,3,4], the equation"),
    (
        "Einsum-7",
        [(2, 3), (4, 5)],
        {"equation": "ij,jk->ik"},
        "the label j of the equation ij,jk->ik has the sizes 3 and 4",
    ),
    (
        "Einsum-7",
        [(2, 3, 4), (5, 4, 6)],
        {"equation": "...ij,...jk->...ik"},
        "the dimensions of '...' in the equation ...ij,...jk->...ik are [2] and [5]",
    ),
    ("ScaledDotProductAttention-13", [(2, 3, 4), (3, 4), (3, 4)], {"causal": "false"}, "have different ranks"),
    (
        "ScaledDotProductAttention-13",
        [(4,), (4,), (4,)],
        {"causal": "false"},
        "have different ranks, expected at least 2",
    ),
    (
        "ScaledDotProductAttention-13",
        [(2, 3, 4), (2, 5, 6), (2, 5, 6)],
        {"causal": "false"},
        "query [2,3,4] and key [2,5,6] have different sizes 4 and 6",
    ),
    (
        "ScaledDotProductAttention-13",
        [(2, 3, 4), (2, 5, 4), (2, 6, 4)],
        {"causal": "false"},
        "key [2,5,4] and value [2,6,4] have different lengths 5 and 6",
    ),
    (
        "ScaledDotProductAttention-13",
        [(2, 3, 4), (3, 5, 4), (2, 5, 4)],
        {"causal": "false"},
        "query [2,3,4], key [3,5,4] and value [2,5,4] cannot be broadcast to each other",
    ),
    ("Gather-8", [(2, 3), (2, 3, 4), i64(1)], {"batch_dims": "2"}, "batch_dims is 2, expected at most the axis 1"),
    ("Broadcast-1", [(3, 2), i64(2, 3, 4)], {"mode": "pdpd", "axis": "1"}, "cannot be broadcast to [2,3,4] at axis 1"),
    ("Broadcast-1", [(3, 4), i64(2, 3, 4)], {"mode": "pdpd", "axis": "2"}, "cannot be broadcast to [2,3,4] at axis 2"),
    ("Broadcast-1", [(2, 3, 4), i64(3, 4)], {"mode": "pdpd", "axis": "-1"}, "cannot be broadcast to [3,4] at axis -1"),
    ("VariadicSplit-1", [(2, 6), i64(1), i64(-1, 2, -1)], {}, "split_lengths contains -1 more than once"),
    ("OneHot-1", [(2, 3), (1, 1), (), ()], {"axis": "1"}, "depth has the shape [1,1], expected a single element"),
    ("StridedSlice-1", [(9, 8), i64(0), i64(5), i64(0)], STRIDED, "a stride is 0"),
    ("Slice-8", [(9, 8), i64(0), i64(5), i64(0)], {}, "a step is 0"),
    (
        "VLSDPA-ie_internal_opset",
        [(7, 2, 8), (7, 2, 8), (7, 2, 8), (3,)],
        {"order_q": "1,0,0"},
        "found the order [1, 0, 0] of axes for the shape [7,2,8]",
    ),
    ("RNNCell-1", [(2, 3), (5, 4), (4, 3), (4, 4)], CELL, "has the batch size 5, X has 2"),
    ("RNNCell-1", [(2, 3, 1), (2, 4), (4, 3), (4, 4)], CELL, "X has the shape [2,3,1] of rank 3, expected rank 2"),
    ("RNNCell-1", [(2, 3), (2, 5), (4, 3), (4, 4)], CELL, "expected 4 in its last dimension, found 5"),
    ("RNNCell-1", [(2, 3), (2, 4), (4, 5), (4, 4)], CELL, "X has 3 features, W [4,5] expects 5"),
    ("RNNCell-1", [(2, 3), (2, 4), (5, 3), (4, 4)], CELL, "expected 4 in its dimension 0, found 5"),
    ("RNNCell-1", [(2, 3), (2, 4), (4, 3), (4, 5)], CELL, "R has the shape [4,5], expected 4 in its last dimension"),
    (
        "RNNCell-1",
        [(2, 3), (2, 4), (4, 3), (4, 4), (5,)],
        CELL,
        "B has the shape [5], expected 4 in its last dimension",
    ),
    (
        "GRUSequence-5",
        [(2, 5, 3), (2, 1, 4), (2,), (2, 12, 3), (2, 12, 4), (2, 12)],
        SEQUENCE,
        "has the shape [2,1,4], expected 2 in its dimension 1, found 1",
    ),
    (
        "GRUSequence-5",
        [(2, 5, 3), (2, 2, 4), (2,), (1, 12, 3), (2, 12, 4), (2, 12)],
        SEQUENCE,
        "W has the shape [1,12,3], expected 2 in its dimension 0, found 1",
    ),
    (
        "GRUSequence-5",
        [(2, 5, 3), (2, 2, 4), (2,), (2, 12, 3), (2, 12, 4), (2, 12)],
        {**SEQUENCE, "linear_before_reset": "true"},
        "B has the shape [2,12], expected 16 in its last dimension, found 12",
    ),
    ("GRUSequence-5", [(2, 5, 3), (2, 2, 4), (3,), (2, 12, 3), (2, 12, 4), (2, 12)], SEQUENCE, "has the batch size 3"),
    ("Convolution-1", [(1, 2, 3, 4, 5, 6), (3, 2, 1, 1)], CONVOLUTION, "of rank 6, expected rank 3 or 4 or 5"),
    ("Convolution-1", [(1, 2, 8), (3, 2, 1, 1)], CONVOLUTION, "expected data of rank 4"),
    ("GroupConvolution-1", [(1, 4, 8, 8), (2, 3, 1, 3, 3)], CONVOLUTION, "expect 2 groups of 1"),
    (
        "ConvolutionBackpropData-1",
        [(1, 2, 8, 8), (3, 2, 3, 3)],
        CONVOLUTION,
        "data has 2 channels, the filters [3,2,3,3] expect 3",
    ),
    (
        "ConvolutionBackpropData-1",
        [(1, 2, 8, 8), (2, 2, 3, 3), i64(9)],
        CONVOLUTION,
        "output_shape has 1 elements, data of the shape [1,2,8,8] expects 2",
    ),
    ("GroupConvolutionBackpropData-1", [(1, 4, 8, 8), (2, 3, 1, 3, 3)], CONVOLUTION, "expect 2 groups of 3"),
    (
        "DeformableConvolution-8",
        [(2, 3, 8, 8), (3, 18, 6, 6), (4, 3, 3, 3)],
        DEFORMABLE,
        "data [2,3,8,8] and the offsets [3,18,6,6] have different batch sizes",
    ),
    (
        "DeformableConvolution-8",
        [(2, 3, 8, 8), (2, 18, 6, 6), (4, 3, 3, 3), (1, 9, 6, 6)],
        DEFORMABLE,
        "have different batch sizes",
    ),
    (
        "DeformableConvolution-8",
        [(2, 3, 8, 8), (2, 18, 6, 5), (4, 3, 3, 3)],
        DEFORMABLE,
        "the offsets [2,18,6,5] have 5 windows on axis 3, expected 6",
    ),
    (
        "DeformableConvolution-8",
        [(2, 3, 8, 8), (2, 18, 6, 6), (4, 3, 3, 3), (2, 9, 5, 6)],
        DEFORMABLE,
        "the mask [2,9,5,6] have 5 windows on axis 2, expected 6",
    ),
    ("DeformableConvolution-8", [(2, 3, 8, 8), (2, 18, 6, 6), (4, 2, 3, 3)], DEFORMABLE, "in 1 groups expect 2"),
    ("MaxPool-8", [(1, 2, 8)], {**POOLING, "dilations": "1,1"}, "the kernel [2, 2] expects rank 4"),
    ("AvgPool-1", [(1, 2, 8, 8, 8)], {**POOLING, "exclude-pad": "true"}, "the kernel [2, 2] expects rank 4"),
    ("AdaptiveAvgPool-8", [(1, 2, 8, 8), i64(3)], ADAPTIVE, "output_shape has 1 elements, data of the shape [1,2,8,8]"),
    ("Reshape-1", [(2, 3), i64(-1, -1)], {"special_zero": "false"}, "shape is [-1,-1], expected at most one -1"),
    ("Reshape-1", [(2,), i64(2, 0)], {"special_zero": "true"}, "data of the shape [2] has no dimension 1 to copy"),
    ("Reshape-1", [(2, 3), i64(6, -2)], {"special_zero": "true"}, "shape is [6,-2], expected no size below -1"),
    ("Reshape-1", [(2, 3), i64(0, -1)], {"special_zero": "false"}, "-1 is undefined for data of the shape [2,3]"),
    ("Reshape-1", [(2, 3), i64(4, -1)], {"special_zero": "false"}, "the 6 elements of data [2,3] cannot be divided"),
    ("Reshape-1", [(2, 3), i64(5)], {"special_zero": "false"}, "cannot be reshaped to [5], found 6 elements, not 5"),
    (
        "Reshape-1",
        [("1..3", 2), i64(7, -1)],
        {"special_zero": "false"},
        "which does not fit data of the shape [1..3,2]",
    ),
    (
        "Transpose-1",
        [(2, 3), i64(0, 0)],
        {},
        "input_order is [0, 0], expected a permutation of the 2 axes of arg [2,3]",
    ),
    ("Transpose-1", [(2, 3), i64(0, 1, 2)], {}, "expected a permutation of the 2 axes"),
    ("Unsqueeze-1", [(2, 3), i64(3)], {}, "is out of range for rank 3, expected it in [-3, 3)"),
    ("Squeeze-1", [(2, 1), i64(2)], {}, "is out of range for rank 2"),
    ("Concat-1", [(2, 3), (2, 3, 4)], {"axis": "0"}, "input 1 has the shape [2,3,4], expected [2,3] except for axis 0"),
    ("Concat-1", [(2, 3), (2, 4)], {"axis": "0"}, "input 1 has the shape [2,4], expected [2,3] except for axis 0"),
    ("Concat-1", [(2, 3), (2, 3)], {"axis": "2"}, "axis 2 is out of range for rank 2, expected it in [-2, 2)"),
    (
        "Split-1",
        [(2, 3), i64(1)],
        {"num_splits": "2"},
        "dimension 1 of data [2,3] cannot be divided into 2 equal parts",
    ),
    ("Split-1", [(2, 3), i64(1, 1)], {"num_splits": "3"}, "axis has the shape [2], expected a single element"),
    ("VariadicSplit-1", [(2, 6), one(1), i64(-1, -1)], {}, "split_lengths contains -1 more than once"),
    (
        "VariadicSplit-1",
        [(2, 6), one(1), i64(7, -1)],
        {},
        "split_lengths add up to 7, but data [2,6] has 6 elements on axis 1",
    ),
    ("VariadicSplit-1", [(2, 6), one(1), i64(2, 3)], {}, "split_lengths add up to 5, but data [2,6] has 6 elements"),
    (
        "DepthToSpace-1",
        [(1, 6, 2, 2)],
        {"block_size": "2", "mode": "blocks_first"},
        "data [1,6,2,2] has 6 channels, expected a multiple of 4",
    ),
    (
        "SpaceToDepth-1",
        [(1, 6, 2, 3)],
        {"block_size": "2", "mode": "blocks_first"},
        "dimension 3 of data [1,6,2,3] is 3, expected a multiple of 2",
    ),
    (
        "BatchToSpace-2",
        [(3, 4), i64(1, 2), i64(0, 0), i64(0, 0)],
        {},
        "data [3,4] has the batch size 3, expected a multiple of 2",
    ),
    ("BatchToSpace-2", [(2, 4), i64(1, 2), i64(0, 5), i64(0, 4)], {}, "9 elements cannot be cropped from 8 on axis 1"),
    ("BatchToSpace-2", [(2, 4), i64(1, 2, 1), i64(0, 0), i64(0, 0)], {}, "has 3 elements, data [2,4] expects 2"),
    (
        "SpaceToBatch-2",
        [(2, 4), i64(1, 3), i64(0, 1), i64(0, 0)],
        {},
        "data [2,4] is padded to 5 on axis 1, expected a multiple of 3",
    ),
    ("ReorgYolo-2", [(1, 4, 5, 4)], {"stride": "2"}, "dimension 2 of data [1,4,5,4] is 5, expected a multiple of 2"),
    ("Gather-8", [(2, 3), (2, 3), one(1)], {"batch_dims": "3"}, "batch_dims is 3, indices have the shape [2,3]"),
    ("Gather-8", [(2, 3), (2, 3), one(1)], {"batch_dims": "-3"}, "batch_dims is -3, indices have the shape [2,3]"),
    ("Gather-8", [(2, 3), (2, 3), one(0)], {"batch_dims": "1"}, "batch_dims is 1, expected at most the axis 0"),
    (
        "Gather-8",
        [(2, 3), (4, 3), one(1)],
        {"batch_dims": "1"},
        "dimension 0 is 2 in data [2,3], but 4 in indices [4,3]",
    ),
    ("Gather-8", [(2, 3), (4,), one(2)], {}, "axis 2 is out of range for rank 2"),
    ("GatherElements-6", [(2, 3), (2,)], {"axis": "0"}, "indices have the shape [2], expected the rank of data [2,3]"),
    ("GatherElements-6", [(2, 3), (5, 4)], {"axis": "0"}, "dimension 1 is 4 in indices [5,4], but 3 in data [2,3]"),
    ("GatherND-8", [(2, 3), (2, 1)], {"batch_dims": "2"}, "batch_dims is 2, expected less than the ranks of data"),
    ("GatherND-8", [(2, 3), (4, 1)], {"batch_dims": "1"}, "dimension 0 is 2 in data [2,3], but 4 in indices [4,1]"),
    ("GatherND-8", [(2, 3), (4, 3)], {"batch_dims": "0"}, "indices [4,3] select along 3 axes, data [2,3] has 2"),
    ("GatherND-8", [(2, 3), (2, 2)], {"batch_dims": "1"}, "indices [2,2] select along 2 axes, data [2,3] has 1"),
    (
        "ScatterElementsUpdate-3",
        [(2, 3), (2, 3), (2, 2), one(0)],
        {},
        "updates have the shape [2,2], expected the shape [2,3]",
    ),
    (
        "ScatterElementsUpdate-3",
        [(2, 3), (2,), (2,), one(0)],
        {},
        "indices have the shape [2], expected the rank of data",
    ),
    ("ScatterElementsUpdate-3", [(2, 3), (2, 3), (2, 3), one(2)], {}, "is out of range for rank 2"),
    ("ScatterNDUpdate-15", [(2, 3), (4, 3), (4,)], {}, "indices [4,3] select along 3 axes, data [2,3] has 2"),
    ("ScatterNDUpdate-15", [(2, 3), (4, 1), (4, 2)], {}, "updates have the shape [4,2], expected [4,3]"),
    ("ScatterUpdate-3", [(2, 3), (4,), (4, 3), i64(0, 1)], {}, "has the shape [2], expected a single element"),
    (
        "Broadcast-3",
        [(2, 3), i64(2, 4)],
        {"mode": "numpy"},
        "data of the shape [2,3] cannot be broadcast to [2,4]: 3 differs from 4",
    ),
    ("Broadcast-3", [(2, 3), i64(3)], {"mode": "numpy"}, "cannot be broadcast to [3], which has fewer dimensions"),
    (
        "Broadcast-3",
        [(2, 3), i64(4, 3)],
        {"mode": "bidirectional"},
        "data of the shape [2,3] and the target shape [4,3] cannot be broadcast",
    ),
    (
        "Broadcast-3",
        [(2, 3), i64(2, 3), i64(0)],
        {"mode": "explicit"},
        "axes_mapping has 1 elements, data of the shape [2,3] expects 2",
    ),
    ("Broadcast-3", [(3,), i64(2, 4), i64(1)], {"mode": "explicit"}, "cannot be broadcast to [2,4]: 3 differs from 4"),
    ("Broadcast-3", [(3,), i64(2, 3), i64(2)], {"mode": "explicit"}, "axes_mapping 2 is out of range for rank 2"),
    (
        "TopK-11",
        [(2, 3), one(4)],
        {"axis": "1", "mode": "max", "sort": "value"},
        "k is 4, but data [2,3] has 3 elements on axis 1",
    ),
    (
        "SearchSorted-15",
        [(2, 3), (4,)],
        {},
        "sorted_sequence has the shape [2,3], values have the shape [4], expected equal",
    ),
    ("SearchSorted-15", [(2, 3), (3, 4)], {}, "sorted_sequence has the shape [2,3], values have the shape [3,4]"),
    (
        "ReverseSequence-1",
        [(2, 3), (3,)],
        {"batch_axis": "0", "seq_axis": "1"},
        "seq_lengths has 3 elements, data [2,3] expects 2",
    ),
    (
        "ReverseSequence-1",
        [(2, 3), (2,)],
        {"batch_axis": "2", "seq_axis": "1"},
        "batch_axis 2 is out of range for rank 2",
    ),
    (
        "ReverseSequence-1",
        [(2, 3), (2,)],
        {"batch_axis": "0", "seq_axis": "2"},
        "seq_axis 2 is out of range for rank 2",
    ),
    ("GatherTree-1", [(3, 2, 4), (3, 2, 5), (2,), ()], {}, "has the shape [3,2,5], expected [3,2,4]"),
    ("GatherTree-1", [(3, 2, 4), (3, 2, 4), (3,), ()], {}, "max_seq_len has 3 elements, step_ids [3,2,4] expect 2"),
    (
        "Slice-8",
        [(2, 3), i64(0, 0, 0), i64(1, 1, 1), i64(1, 1, 1)],
        {},
        "data of the shape [2,3] cannot be sliced along 3 axes",
    ),
    ("Slice-8", [(2, 3), i64(0), i64(1, 1), i64(1, 1)], {}, "start, stop, step and axes have [1, 2] elements"),
    ("Slice-8", [(2, 3), i64(0), i64(1), i64(0)], {}, "a step is 0"),
    ("Slice-8", [(2, 3), i64(0), i64(1), i64(1), i64(2)], {}, "is out of range for rank 2"),
    (
        "StridedSlice-1",
        [(2,), i64(0, 0), i64(1, 1), i64(1, 1)],
        STRIDED,
        "data of the shape [2] cannot be sliced along 2 axes",
    ),
    ("StridedSlice-1", [(2, 3), i64(0, 0), i64(1, 1), i64(1, 0)], STRIDED, "a stride is 0"),
    ("Pad-1", [(2, 3), i64(1), i64(1, 1)], {"pad_mode": "edge"}, "pads_begin has 1 elements, data [2,3] expects 2"),
    ("Pad-1", [(2, 3), i64(1, 1), i64(1)], {"pad_mode": "edge"}, "pads_end has 1 elements, data [2,3] expects 2"),
    (
        "GroupNormalization-12",
        [(1, 6, 2), (6,), (6,)],
        {"num_groups": "4", "epsilon": "0"},
        "with 6 channels, expected a multiple of 4",
    ),
    (
        "GroupNormalization-12",
        [(1, 6, 2), (5,), (6,)],
        {"num_groups": "3", "epsilon": "0"},
        "data has 6 channels, scale has 5 elements",
    ),
    (
        "BatchNormInference-5",
        [(1, 6, 2), (6,), (6,), (6,), (5,)],
        {"epsilon": "0"},
        "data has 6 channels, variance has 5 elements",
    ),
    ("Inverse-14", [(2, 3)], {"adjoint": "false"}, "data has the shape [2,3], expected square matrices"),
    ("Inverse-14", [(3,)], {"adjoint": "false"}, "data has the shape [3], expected square matrices"),
    ("ShuffleChannels-1", [(1, 6, 2)], {"axis": "1", "group": "4"}, "with 6 channels, expected a multiple of 4"),
    (
        "PRelu-1",
        [(1, 6, 2), (5,)],
        {},
        "slope has the shape [5], which cannot be broadcast to data of the shape [1,6,2]",
    ),
    ("PRelu-1", [(6, 2), (3, 6, 2)], {}, "slope has the shape [3,6,2], which cannot be broadcast"),
    ("Clamp-1", [(2,)], {"min": "2", "max": "1"}, "min 2.0 is greater than max 1.0"),
    ("Range-4", [one(0), one(1), one(0)], {"output_type": "i32"}, "expected numbers and a step other than 0"),
    ("Range-4", [one(0.0), one(np.inf), one(1.0)], {"output_type": "f32"}, "start is 0.0, stop is inf and step is 1.0"),
    (
        "Range-4",
        [i64(0, 0), one(1), one(1)],
        {"output_type": "i32"},
        "start has the shape [2], expected a single element",
    ),
    (
        "OneHot-1",
        [(2,), i64(1, 2), one(1), one(0)],
        {"axis": "0"},
        "depth has the shape [2], expected a single element",
    ),
    ("OneHot-1", [(2,), one(3), one(1), one(0)], {"axis": "2"}, "axis 2 is out of range for rank 2"),
    ("DFT-7", [(2, 3), i64(0)], {}, "data has the shape [2,3], expected 2 numbers in the last dimension"),
    (
        "STFT-15",
        [(5,), (6,), one(6), one(2)],
        {"transpose_frames": "false"},
        "frame_size 6 exceeds the length of signal",
    ),
    (
        "Col2Im-15",
        [(1, 10, 4), i64(3, 3), i64(2, 2)],
        {},
        "data has the shape [1,10,4], expected a multiple of 4 in dimension 1",
    ),
    ("NonMaxSuppression-9", [(1, 5), (1, 2, 5)], {}, "boxes has the shape [1,5] of rank 2, expected rank 3"),
    ("NonMaxSuppression-9", [(1, 5, 4), (2, 2, 5)], {}, "boxes [1,5,4] and scores [2,2,5] have different batch sizes"),
    (
        "NonMaxSuppression-9",
        [(1, 5, 4), (1, 2, 6)],
        {},
        "boxes [1,5,4] and scores [1,2,6] have different numbers of boxes",
    ),
    ("NonMaxSuppression-9", [(1, 5, 3), (1, 2, 5)], {}, "expected 4 in its dimension 2, found 3"),
    ("NonMaxSuppression-9", [(1, 5, 4), (1, 2, 5), i64(1, 2)], {}, "has the shape [2], expected a single element"),
    ("NMSRotated-13", [(1, 5, 4), (1, 2, 5), one(1), one(1.0), one(1.0)], {}, "expected 5 in its dimension 2, found 4"),
    ("DetectionOutput-8", [(1, 8), (1, 4), (1, 1, 7)], {**DETECTION, "normalized": "true"}, "expected a multiple of 4"),
    (
        "DetectionOutput-8",
        [(1, 8), (1, 4), (1, 1, 8)],
        {**DETECTION, "normalized": "false"},
        "expected a multiple of 5",
    ),
    (
        "DetectionOutput-8",
        [(1, 7), (1, 4), (1, 1, 8)],
        {**DETECTION, "normalized": "true"},
        "expected 8 in its dimension 1, found 7",
    ),
    (
        "ExperimentalDetectronDetectionOutput-6",
        [(3, 4), (3, 8), (3, 2), (2, 3)],
        DETECTRON,
        "expected 1 in its dimension 0, found 2",
    ),
    (
        "ExperimentalDetectronGenerateProposalsSingleImage-6",
        [(2,), (12, 4), (12, 2, 2), (3, 2, 2)],
        PROPOSALS,
        "expected 3 in its dimension 0, found 2",
    ),
    (
        "ExperimentalDetectronROIFeatureExtractor-6",
        [(3, 4), (1, 2, 4, 4), (1, 3, 4, 4)],
        {"output_size": "2", "sampling_ratio": "2", "pyramid_scales": "4,8", "aligned": "false"},
        "input 2 has 3 channels, expected 2",
    ),
    (
        "GenerateProposals-9",
        [(1, 3), (2, 2, 3, 4), (2, 12, 2, 2), (1, 3, 2, 2)],
        {**PROPOSALS, "normalized": "true"},
        "has 2 images, im_info has 1",
    ),
    (
        "GenerateProposals-9",
        [(1, 3), (3, 2, 3, 4), (1, 12, 2, 2), (1, 3, 2, 2)],
        {**PROPOSALS, "normalized": "true"},
        "anchors [3,2,3,4] have 3 rows, scores [1,3,2,2] have 2",
    ),
    ("Proposal-4", [(1, 4, 2, 2), (1, 9, 2, 2), (3,)], PROPOSAL, "bbox_deltas [1,9,2,2] has 9, expected twice as many"),
    ("Proposal-4", [(1, 4, 2, 2), (2, 8, 2, 2), (3,)], PROPOSAL, "has the batch size 2, expected 1"),
    ("Proposal-4", [(1, 4, 2, 2), (1, 8, 2, 2), (2,)], PROPOSAL, "image_shape has 2 elements, expected 3 or 4"),
    ("ROIAlign-3", [(1, 2, 4, 4), (3, 4), (2,)], ALIGNMENT, "batch_indices has 2 elements, rois [3,4] expects 3"),
    ("PSROIPooling-1", [(1, 2, 4, 4), (3, 4)], POSITIONS, "expected 5 in its dimension 1, found 4"),
    (
        "Interpolate-11",
        [(1, 2, 4, 4), np.ones(1, np.float32), i64(2, 3)],
        SCALES,
        "has 1 elements, expected one for each of [2, 3]",
    ),
    ("Interpolate-11", [(1, 2, 4, 4), i64(3), i64(2, 3)], SIZES, "has 1 elements, expected one for each of [2, 3]"),
    ("GridSample-9", [(1, 2, 4, 4), (2, 3, 3, 2)], {"align_corners": "false"}, "have different batch sizes"),
    (
        "GridSample-9",
        [(1, 2, 4, 4), (1, 3, 3, 3)],
        {"align_corners": "false"},
        "expected 2 coordinates in the last dimension",
    ),
    ("NV12toRGB-8", [(1, 4, 4, 1)], {}, "expected a multiple of 3 rows, found 4"),
    ("NV12toRGB-8", [(1, 6, 4, 2)], {}, "expected 1 in its dimension 3, found 2"),
    ("NV12toRGB-8", [(1, 4, 4, 1), (1, 3, 2, 2)], {}, "has the shape [1,3,2,2], expected half the size of [1,4,4,1]"),
    ("I420toRGB-8", [(1, 4, 4, 1), (1, 2, 2, 1), (1, 2, 3, 1)], {}, "has the shape [1,2,3,1], expected half the size"),
    ("CTCGreedyDecoderSeqLen-6", [(2, 5, 3), (3,)], {}, "sequence_length has 3 elements, data [2,5,3] expects 2"),
    ("CTCGreedyDecoder-1", [(5, 2, 3), (4, 2)], {}, "have different length"),
    ("CTCGreedyDecoder-1", [(5, 2, 3), (5, 3)], {}, "have different batch size"),
    ("CTCLoss-4", [(2, 5, 3), (3,), (2, 5), (2,)], {}, "has the batch size 3, logits has 2"),
    # Each input that a rule checks
    ("NonMaxSuppression-9", [(8, 4), (2, 3, 8)], {}, "boxes has the shape [8,4] of rank 2, expected rank 3"),
    ("NonMaxSuppression-9", [(2, 8, 4), (3, 8)], {}, "scores has the shape [3,8] of rank 2, expected rank 3"),
    ("NonMaxSuppression-9", [(2, 8, 5), (2, 3, 8)], {}, "expected 4 in its dimension 2, found 5"),
    ("NMSRotated-13", [(2, 8, 4), (2, 3, 8), (), (), ()], {}, "expected 5 in its dimension 2, found 4"),
    *(
        ("NonMaxSuppression-9", [(2, 8, 4), (2, 3, 8), *others], {}, "has the shape [2], expected a single element")
        for others in [((2,),), ((), (2,)), ((), (), (2,)), ((), (), (), (2,))]
    ),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, 41)], DETECTION_IN_UNITS, "expected a multiple of 4 in its last"),
    ("DetectionOutput-8", [(2, 40), (2, 30), (1, 2, 0)], DETECTION_IN_UNITS, "expected a multiple of 4 in its last"),
    ("DetectionOutput-8", [(2, 40), (2, 29), (1, 2, 40)], DETECTION_IN_UNITS, "class_preds has the shape [2,29]"),
    ("DetectionOutput-8", [(2, 41), (2, 30), (1, 2, 40)], DETECTION_IN_UNITS, "box_logits has the shape [2,41]"),
    ("DetectionOutput-8", [(2, 41), None, (1, 2, 40)], DETECTION_IN_UNITS, "box_logits has the shape [2,41]"),
    (
        "DetectionOutput-8",
        [(2, 40), (2, 30), (1, 2, 40)],
        {**DETECTION_IN_UNITS, "share_location": "false"},
        "box_logits has the shape [2,40], expected 120 in its dimension 1",
    ),
    (
        "DetectionOutput-1",
        [(2, 40), (2, 30), (1, 2, 40)],
        {**DETECTION_IN_UNITS, "num_classes": "4"},
        "class_preds has the shape [2,30], expected 40 in its dimension 1",
    ),
    ("ExperimentalDetectronPriorGridGenerator-6", [(3, 5), None, None], {}, "expected 4 in its dimension 1, found 5"),
    ("ExperimentalDetectronROIFeatureExtractor-6", [(3, 4), (2, 7, 4, 4)], FEATURES, "expected 1 in its dimension 0"),
    ("ExperimentalDetectronROIFeatureExtractor-6", [(3, 5), (1, 7, 4, 4)], FEATURES, "expected 4 in its dimension 1"),
    ("ExperimentalDetectronTopKROIs-6", [(3, 5), (3,)], {"max_rois": "2"}, "expected 4 in its dimension 1, found 5"),
    *(
        (
            "GenerateProposals-9",
            [(1, 3), (2, 3, 3, 4), (1, 12, *sizes), (1, 3, *sizes)],
            {**PROPOSALS, "normalized": "true"},
            f"anchors [2,3,3,4] have {found}",
        )
        for sizes, found in [((3, 3), "2 rows"), ((2, 2), "3 columns")]
    ),
    ("GenerateProposals-9", [(2, 3), None, None, (1, 3, 2, 2)], {**PROPOSALS, "normalized": "true"}, "has 1 images"),
    ("ROIAlign-3", [(2, 4, 4), (3, 4), (3,)], ALIGNMENT, "data has the shape [2,4,4] of rank 3, expected rank 4"),
    ("ROIAlign-3", [(1, 2, 4, 4), (3, 4, 1), (3,)], ALIGNMENT, "rois has the shape [3,4,1] of rank 3, expected rank 2"),
    (
        "ROIPooling-2",
        [(1, 2, 4, 4), (3, 4)],
        {"output_size": "2,2", "spatial_scale": "1"},
        "rois has the shape [3,4], expected 5 in its dimension 1",
    ),
    *(
        ("BatchNormInference-5", [(2, 6), *((5 if i == k else 6,) for k in range(4))], {"epsilon": "0.1"}, message)
        for i, message in enumerate(f"data has 6 channels, {name} has 5 elements" for name in CHANNELS)
    ),
    ("BatchNormInference-1", [(5,), (6,), (2, 6), (6,), (6,)], {"epsilon": "0.1"}, "gamma has 5 elements"),
    ("BatchNormInference-1", [(6,), (6,), (2, 6), (6,), (5,)], {"epsilon": "0.1"}, "variance has 5 elements"),
    ("GroupNormalization-12", [(2, 6), (5,), (6,)], {"num_groups": "2", "epsilon": "0.1"}, "scale has 5 elements"),
    ("GroupNormalization-12", [(2, 6), (6,), (5,)], {"num_groups": "2", "epsilon": "0.1"}, "bias has 5 elements"),
    ("Inverse-14", [(3,)], {"adjoint": "false"}, "data has the shape [3], expected square matrices"),
    ("Softmax-8", [(2, 3)], {"axis": "2"}, "axis 2 is out of range for rank 2, expected it in [-2, 2)"),
    ("Softmax-8", [(2, 3)], {"axis": "-3"}, "axis -3 is out of range for rank 2, expected it in [-2, 2)"),
    ("Reverse-1", [(2, 3), i64(0, 2)], {"mode": "index"}, "axis 2 is out of range for rank 2"),
    ("CumSum-3", [(2, 3), i64(-3)], {}, "axis -3 is out of range for rank 2"),
    ("Add-1", [(2, 3), (2,)], {}, "b has the shape [2], which does not fit the shape [2,3] of a; expected equal"),
    ("Add-1", [(2, 3), (3,)], {"auto_broadcast": "none"}, "of a; expected equal shapes"),
    (
        "Add-1",
        [(2, 3), (3,)],
        {"auto_broadcast": "pdpd", "auto_broadcast_axis": "0"},
        "expected consecutive dimensions",
    ),
    (
        "Add-1",
        [(2, 1), (3,)],
        {"auto_broadcast": "pdpd", "auto_broadcast_axis": "1"},
        "expected consecutive dimensions",
    ),
    (
        "Add-1",
        [(2,), (2, 2)],
        {"auto_broadcast": "pdpd", "auto_broadcast_axis": "-1"},
        "expected consecutive dimensions",
    ),
    (
        "Add-1",
        [(2,), (2, 2)],
        {"auto_broadcast": "pdpd", "auto_broadcast_axis": "0"},
        "expected consecutive dimensions",
    ),
    *(
        (
            "Select-1",
            [(2,), (3,), (3,)],
            {"auto_broadcast": mode},
            "cond [2], then [3] and else [3] cannot be broadcast",
        )
        for mode in ("numpy", "pdpd", "none")
    ),
    *(("OneHot-1", [(2, 3), *inputs], {"axis": "1"}, "expected a single element") for inputs in PAIRS_OF_THREE),
    *(("Range-4", [*inputs], {"output_type": "f32"}, "expected a single element") for inputs in PAIRS_OF_THREE),
    *(("Eye-9", [*inputs], {"output_type": "f32"}, "expected a single element") for inputs in PAIRS_OF_THREE),
    *(
        ("RandomUniform-8", [i64(2), *inputs], {"output_type": "f32"}, "expected a single element")
        for inputs in [((2,), ()), ((), (2,))]
    ),
    (
        "Multinomial-13",
        [(2, 3), (2,)],
        {"convert_type": "i64", "with_replacement": "true", "log_probs": "false"},
        "num_samples has the shape [2], expected a single element",
    ),
    ("RandomUniform-8", [i64(2, -1), (), ()], {"output_type": "f32"}, "shape is [2, -1], expected non-negative sizes"),
    ("Split-1", [(2, 6), (2,)], {"num_splits": "3"}, "axis has the shape [2], expected a single element"),
    ("VariadicSplit-1", [(2, 6), (2,), (3,)], {}, "axis has the shape [2], expected a single element"),
    ("TopK-11", [(2, 6), (2,)], {"axis": "1", "mode": "max", "sort": "none"}, "k has the shape [2], expected a single"),
    ("ScatterUpdate-3", [(2, 6), (1,), (1, 6), (2,)], {}, "axis has the shape [2], expected a single element"),
    ("ScatterUpdate-3", [(2, 6), (1,), (1, 6), i64(2)], {}, "axis 2 is out of range for rank 2"),
    ("Pad-1", [(2, 3), (2,), (2,), (2,)], {"pad_mode": "constant"}, "pad_value has the shape [2], expected a single"),
    ("GridSample-9", [(2, 4, 4), (1, 3, 3, 2)], {"align_corners": "false"}, "data has the shape [2,4,4] of rank 3"),
    ("GridSample-9", [(1, 2, 4, 4), (3, 3, 2)], {"align_corners": "false"}, "grid has the shape [3,3,2] of rank 3"),
    ("NV12toRGB-8", [(6, 8, 1)], {}, "arg has the shape [6,8,1] of rank 3, expected rank 4"),
    ("NV12toRGB-8", [(1, 4, 4, 1), (1, 2, 2, 1)], {}, "expected 2 in its dimension 3, found 1"),
    ("I420toRGB-8", [(1, 4, 4, 1), (1, 2, 2, 2), (1, 2, 2, 1)], {}, "expected 1 in its dimension 3, found 2"),
    ("I420toRGB-8", [(1, 4, 4, 1), (1, 2, 2, 1), (1, 2, 2, 2)], {}, "expected 1 in its dimension 3, found 2"),
    ("I420toRGB-8", [(1, 4, 4, 1), (1, 3, 2, 1), (1, 2, 2, 1)], {}, "expected half the size of [1,4,4,1]"),
    ("IDFT-7", [(2, 3), i64(0)], {}, "data has the shape [2,3], expected 2 numbers in the last dimension"),
    ("IRDFT-9", [(2, 3), i64(0)], {}, "data has the shape [2,3], expected 2 numbers in the last dimension"),
    ("DFT-7", [(3, 2), i64(1)], {}, "axes 1 is out of range for rank 1"),
    *(
        ("GRUSequence-5", [(2, 5, 3), (2, 1, 4), (2,), *weights], {**SEQUENCE, "direction": "forward"}, message)
        for weights, message in [
            (((2, 12, 3), (1, 12, 4), (1, 12)), "W has the shape [2,12,3], expected 1 in its dimension 0"),
            (((1, 12, 3), (2, 12, 4), (1, 12)), "R has the shape [2,12,4], expected 1 in its dimension 0"),
            (((1, 12, 3), (1, 12, 4), (2, 12)), "B has the shape [2,12], expected 1 in its dimension 0"),
            (((1, 11, 3), (1, 12, 4), (1, 12)), "W has the shape [1,11,3], expected 12 in its dimension 1"),
            (((1, 12, 3), (1, 11, 4), (1, 12)), "R has the shape [1,11,4], expected 12 in its dimension 1"),
            (((1, 12, 3), (1, 12, 5), (1, 12)), "R has the shape [1,12,5], expected 4 in its last dimension"),
            (((1, 12, 7), (1, 12, 4), (1, 12)), "X has 3 features, W [1,12,7] expects 7"),
            (((1, 12, 3), (1, 12, 4), (1, 13)), "B has the shape [1,13], expected 12 in its last dimension"),
        ]
    ),
    (
        "GRUSequence-5",
        [(2, 5), None, None, None, None, None],
        SEQUENCE,
        "X has the shape [2,5] of rank 2, expected rank 3",
    ),
    ("GRUSequence-5", [(2, 5, 3), None, (3,), None, None, None], SEQUENCE, "has the batch size 3, X has 2"),
    (
        "LSTMSequence-5",
        [(2, 5, 3), (2, 1, 4), (2, 2, 4), (2,), (1, 16, 3), (1, 16, 4), (1, 16)],
        {**SEQUENCE, "direction": "forward"},
        "initial_cell_state has the shape [2,2,4], expected 1 in its dimension 1",
    ),
    ("Reshape-1", [(2, 3), i64(-1, -1)], {"special_zero": "true"}, "shape is [-1,-1], expected at most one -1"),
    (
        "Reshape-1",
        [(2, 3), i64(2, 3, 0)],
        {"special_zero": "true"},
        "data of the shape [2,3] has no dimension 2 to copy",
    ),
    ("Reshape-1", [(2, 3), i64(-2)], {"special_zero": "true"}, "shape is [-2], expected no size below -1"),
    ("Reshape-1", [(2, 3), i64(0, -1)], {"special_zero": "false"}, "but -1 is undefined for data of the shape [2,3]"),
    (
        "Reshape-1",
        [(2, 3), i64(4, -1)],
        {"special_zero": "true"},
        "the 6 elements of data [2,3] cannot be divided into",
    ),
    ("Reshape-1", [("2..3", 1), i64(4, -1)], {"special_zero": "true"}, "which does not fit data of the shape [2..3,1]"),
    ("Reshape-1", [(2, 3), i64(4)], {"special_zero": "true"}, "found 6 elements, not 4"),
    ("Transpose-1", [(2, 3), i64(0)], {}, "input_order is [0], expected a permutation of the 2 axes of arg [2,3]"),
    ("Transpose-1", [(2, 3), i64(0, 0)], {}, "input_order is [0, 0], expected a permutation"),
    ("DepthToSpace-1", [(2, 8)], BLOCKS, "data has the shape [2,8] of rank 2, expected rank 3 or 4 or 5 or 6"),
    ("SpaceToDepth-1", [(2, 8)], BLOCKS, "data has the shape [2,8] of rank 2, expected rank 3 or 4 or 5 or 6"),
    ("SpaceToDepth-1", [(2, 3, 4, 5)], BLOCKS, "dimension 3 of data [2,3,4,5] is 5, expected a multiple of 2"),
    ("BatchToSpace-2", [(4, 3), i64(1, 2), i64(0, 4), i64(0, 3)], {}, "7 elements cannot be cropped from 6 on axis 1"),
    ("BatchToSpace-2", [(5, 3), i64(1, 2), i64(0, 0), i64(0, 0)], {}, "batch size 5, expected a multiple of 2"),
    *(
        (name, [(4, 3), *inputs], {}, "has 3 elements, data [4,3] expects 2")
        for name in ("BatchToSpace-2", "SpaceToBatch-2")
        for inputs in [((3,), (2,), (2,)), ((2,), (3,), (2,)), ((2,), (2,), (3,))]
    ),
    (
        "SpaceToBatch-2",
        [(4, 3), i64(1, 2), i64(0, 0), i64(0, 0)],
        {},
        "is padded to 3 on axis 1, expected a multiple of 2",
    ),
    ("ReorgYolo-2", [(2, 4, 4)], {"stride": "2"}, "data has the shape [2,4,4] of rank 3, expected rank 4"),
    ("ReorgYolo-2", [(1, 2, 4, 5)], {"stride": "2"}, "dimension 3 of data [1,2,4,5] is 5, expected a multiple of 2"),
    (
        "RegionYolo-1",
        [(2, 4, 4)],
        {"axis": "1", "end_axis": "3", "classes": "2", "coords": "4", "num": "3", "do_softmax": "true"},
        "data has the shape [2,4,4] of rank 3, expected rank 4",
    ),
    ("Gather-8", [(2, 3), (2, 3), i64(1)], {"batch_dims": "-3"}, "batch_dims is -3, indices have the shape [2,3]"),
    ("Gather-8", [(2, 3), (2,), i64(1)], {"batch_dims": "2"}, "batch_dims is 2, indices have the shape [2]"),
    ("GatherElements-6", [(2, 3), (2,)], {"axis": "1"}, "indices have the shape [2], expected the rank of data [2,3]"),
    ("GatherND-8", [(2, 3), (2,)], {"batch_dims": "1"}, "batch_dims is 1, expected less than the ranks"),
    ("GatherND-8", [(2,), (2, 3, 4)], {"batch_dims": "2"}, "batch_dims is 2, expected less than the ranks"),
    ("GatherND-8", [(2, 3), (5, 1)], {"batch_dims": "1"}, "dimension 0 is 2 in data [2,3], but 5 in indices [5,1]"),
    ("GatherND-8", [(2, 3), (2, 2)], {"batch_dims": "1"}, "indices [2,2] select along 2 axes, data [2,3] has 1"),
    ("ScatterNDUpdate-15", [(2, 3), (5, 3), (5,)], {}, "indices [5,3] select along 3 axes, data [2,3] has 2"),
    ("ScatterNDUpdate-15", [(2, 3), (5, 1), (5, 4)], {}, "updates have the shape [5,4], expected [5,3]"),
    ("ScatterNDUpdate-15", [(2, 3), (2,), (2,)], {}, "updates have the shape [2], expected [1]"),
    (
        "Broadcast-3",
        [(2, 3, 4), i64(3, 4)],
        {"mode": "numpy"},
        "cannot be broadcast to [3,4], which has fewer dimensions",
    ),
    ("Broadcast-3", [(2, 4), i64(3, 4)], {"mode": "numpy"}, "cannot be broadcast to [3,4]: 2 differs from 3"),
    ("Broadcast-3", [(2, 4), i64(3, 4)], {"mode": "bidirectional"}, "and the target shape [3,4] cannot be broadcast"),
    (
        "Broadcast-3",
        [(2, 4), i64(2, 4), i64(0)],
        {"mode": "explicit"},
        "axes_mapping has 1 elements, data of the shape",
    ),
    ("Broadcast-3", [(3,), i64(2, 4), i64(0)], {"mode": "explicit"}, "cannot be broadcast to [2,4]: 3 differs from 2"),
    ("Broadcast-3", [(3,), i64(2, 4), i64(2)], {"mode": "explicit"}, "axes_mapping 2 is out of range for rank 2"),
    (
        "ReverseSequence-1",
        [(2, 3), (2,)],
        {"batch_axis": "2", "seq_axis": "1"},
        "batch_axis 2 is out of range for rank 2",
    ),
    (
        "ReverseSequence-1",
        [(2, 3), (2,)],
        {"batch_axis": "0", "seq_axis": "2"},
        "seq_axis 2 is out of range for rank 2",
    ),
    ("Slice-8", [(9,), i64(0, 0), i64(5, 5), i64(1, 1)], {}, "data of the shape [9] cannot be sliced along 2 axes"),
    ("Slice-8", [(9, 8), i64(0), i64(5), i64(1), i64(0, 1)], {}, "have [1, 2] elements, expected equal numbers"),
    ("StridedSlice-1", [(9,), i64(0, 0), i64(5, 5)], STRIDED, "data of the shape [9] cannot be sliced along 2 axes"),
    ("MaxPool-1", [(2, 3)], POOLING, "data has the shape [2,3] of rank 2, expected rank 3 or 4 or 5"),
    ("AdaptiveMaxPool-8", [(2, 3), i64(2)], {}, "data has the shape [2,3] of rank 2, expected rank 3 or 4 or 5"),
    ("Convolution-1", [(2, 3), None], CONVOLUTION, "data has the shape [2,3] of rank 2, expected rank 3 or 4 or 5"),
    *(
        ("DeformableConvolution-8", shapes, DEFORMABLE, "of rank 3, expected rank 4")
        for shapes in [
            [(3, 8, 8), None, None],
            [None, (18, 6, 6), None],
            [None, None, (3, 3, 3)],
        ]
    ),
    (
        "DeformableConvolution-8",
        [(1, 3, 8, 8), None, (4, 3, 3, 3), (2, 9, 6, 6)],
        DEFORMABLE,
        "data [1,3,8,8] and the offsets None have different batch sizes",
    ),
    (
        "ExtractImagePatches-3",
        [(3, 8, 8)],
        {"sizes": "2,2", "strides": "1,1", "rates": "1,1", "auto_pad": "valid"},
        "data has the shape [3,8,8] of rank 3, expected rank 4",
    ),
]


def infer(name: str, inputs: list[Any], attributes: dict[str, str]) -> list[PartialShape | None]:
    """Return the shapes that the rule of an operation infers; None stands for an input of unknown rank."""
    operation: Operation = OPERATIONS[name]
    values = [
        Value.of_array(x) if isinstance(x, np.ndarray) else Value(None if x is None else PartialShape(x))
        for x in inputs
    ]
    defaults = {a.name: a.default for a in operation.attributes if not a.required}
    rule = find_rule(operation)
    assert rule is not None
    try:
        return list(rule(Inputs(operation, {**defaults, **operation.bind(attributes)}, values, 1)))
    except UnknownShapeError:
        return [None]


each_operation = pytest.mark.parametrize("name", dict.fromkeys(name for name, *_ in CASES))


@each_operation
def test_shape_rules_refuse_what_does_not_fit(name: str) -> None:
    for own_name, inputs, attributes, message in CASES:
        if own_name == name:
            with pytest.raises(ShapeError, match=re.escape(message)):
                infer(name, inputs, attributes)


@each_operation
def test_shape_rules_accept_unknown_ranks(name: str) -> None:
    for own_name, inputs, attributes, _ in CASES:
        if own_name == name != "Clamp-1":  # its attributes contradict each other
            infer(name, [None] * len(inputs), attributes)


def test_slopes_with_leading_ones_are_accepted() -> None:
    for slope in ((1, 6, 2), (1, 1, 2), (-1, 6, 2), (6, 1), (2,), ()):
        assert infer("PRelu-1", [(6, 2), slope], {}) == [PartialShape([6, 2])]
