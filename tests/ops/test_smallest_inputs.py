"""The smallest sizes and attributes that operations accept, and the results that follow from their definitions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import InputError
from irrun.ops._support import registry

F32 = np.float32
I32 = ELEMENT_TYPES["i32"]
BITS = {
    "strides": [1],
    "pads_begin": [0],
    "pads_end": [0],
    "dilations": [1],
    "mode": "xnor-popcount",
    "pad_value": 0.0,
}


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, F32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def ramp(*shape: int) -> np.ndarray[Any, Any]:
    """Return 1, 2, 3 and so on in f32."""
    return np.arange(1, 1 + np.prod(shape, dtype=int), dtype=F32).reshape(shape)


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, F32)


def one(value: float) -> np.ndarray[Any, Any]:
    return np.array(value)


def call(operation: str, inputs: list[Any], attributes: dict[str, Any]) -> list[Any]:
    name, _, version = operation.partition("-")
    definition = registry.find(name, f"opset{version}")
    assert definition is not None
    with np.errstate(all="ignore"):
        result = definition.kernel(*inputs, **attributes)
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


#: Operation, inputs, attributes, expected outputs as nested lists.
ACCEPTED: list[tuple[str, list[Any], dict[str, Any], list[Any]]] = [
    ("Softmax-1", [f32(3, 3).reshape(2, 1)], {"axis": 0}, [[[0.5], [0.5]]]),
    ("ConvolutionBackpropData-1", [ramp(1, 1, 1), ramp(1, 1, 1)], {"strides": [1], "dilations": [1]}, [[[[1]]]]),
    ("Eye-9", [one(0), one(2), one(0)], {"output_type": I32}, [zeros(0, 2)]),
    ("Eye-9", [one(2), one(2), one(-1), i64(1)], {"output_type": I32}, [[[[0, 0], [1, 0]]]]),
    ("Eye-9", [one(1), one(2), one(0), i64(0)], {"output_type": I32}, [zeros(0, 1, 2)]),
    (
        "Multinomial-13",
        [f32(0.5, 0.5), one(0)],
        {"convert_type": I32, "with_replacement": True, "log_probs": False},
        [[]],
    ),
    ("Broadcast-3", [ramp(2), i64(2, 2), i64(0)], {"mode": "explicit"}, [[[1, 1], [2, 2]]]),
    ("Broadcast-3", [one(2), i64(), i64()], {"mode": "explicit"}, [2]),
    ("Broadcast-3", [one(2), i64()], {"mode": "numpy"}, [2]),
    ("Broadcast-3", [ramp(2), i64(0, 2)], {"mode": "numpy"}, [zeros(0, 2)]),
    ("Broadcast-1", [ramp(2), i64(2, 1)], {"mode": "pdpd", "axis": 0}, [[[1], [2]]]),
    ("Broadcast-3", [ramp(2), i64(1, 2)], {"mode": "pdpd", "axis": -1}, [[[1, 2]]]),
    (
        "DepthToSpace-1",
        [ramp(1, 8, 1, 1, 1)],
        {"mode": "blocks_first", "block_size": 2},
        [ramp(1, 1, 2, 2, 2).tolist()],
    ),
    ("DepthToSpace-1", [ramp(1, 2, 2)], {"mode": "depth_first", "block_size": 1}, [ramp(1, 2, 2).tolist()]),
    ("SpaceToDepth-1", [ramp(1, 1, 2)], {"mode": "blocks_first", "block_size": 2}, [[[[1], [2]]]]),
    ("ReverseSequence-1", [ramp(2, 2), i64(0, 2)], {}, [[[1, 2], [4, 3]]]),
    ("ReverseSequence-1", [zeros(0, 2), i64()], {}, [zeros(0, 2)]),
    ("ShuffleChannels-1", [ramp(1, 2)], {"group": 1}, [[[1, 2]]]),
    ("Split-1", [ramp(2), one(0)], {"num_splits": 1}, [[1, 2]]),
    ("Split-1", [ramp(2), i64(-1)], {"num_splits": 2}, [[1], [2]]),
    ("VariadicSplit-1", [ramp(2), one(0), i64(0, -1)], {}, [[], [1, 2]]),
    ("VariadicSplit-1", [ramp(2), one(0), i64(2, -1)], {}, [[1, 2], []]),
    ("LRN-1", [ramp(1, 2), i64(1)], {"alpha": 1.0, "beta": 1.0, "bias": 1.0, "size": 1}, [[[0.5, 0.4]]]),
    ("GroupNormalization-12", [f32(-1, 1)[None], ramp(2), f32(5, 5)], {"num_groups": 1, "epsilon": 0.0}, [[[4, 7]]]),
    ("GroupNormalization-12", [ramp(1, 2), ramp(2), f32(5, 6)], {"num_groups": 2, "epsilon": 1.0}, [[[5, 6]]]),
    (
        "BatchNormInference-5",
        [ramp(1, 2), f32(2, 2), f32(1, 1), f32(0, 0), f32(1, 4)],
        {"epsilon": 0.0},
        [[[3, 3]]],
    ),
    ("FakeQuantize-1", [f32(0, 1, 2), *map(F32, (0, 2, 0, 8))], {"levels": 2}, [[0, 0, 8]]),
    ("ScaledDotProductAttention-13", [ramp(1, 1), ramp(1, 1), ramp(1, 1)], {}, [[[1]]]),
    (
        "ScaledDotProductAttention-13",
        [f32(0)[None], f32(1, 1)[:, None], f32(2, 4)[:, None], None, None, f32(0)[None]],
        {},
        [[[2]]],
    ),
    ("Unsqueeze-1", [ramp(1), i64()], {}, [[1]]),
    ("Unsqueeze-1", [one(1), i64()], {}, [1]),
    ("Unsqueeze-1", [one(1), one(0)], {}, [[1]]),
    ("Unsqueeze-1", [ramp(2), i64(1, -2)], {}, [[[1], [2]]]),
    ("STFT-15", [ramp(3), ramp(1), one(1), one(1)], {"transpose_frames": False}, [[[[1, 0]], [[2, 0]], [[3, 0]]]]),
    ("DFT-7", [f32(1, 0, 3, 0).reshape(2, 2), i64(0)], {}, [[[4, 0], [-2, 0]]]),
    ("SparseFillEmptyRows-16", [f32(), i64(0, 3), np.zeros((0, 2), np.int64), F32(1)], {}, [zeros(0, 2), [], []]),
    ("SparseFillEmptyRows-16", [f32(), i64(1, 3), np.zeros((0, 2), np.int64), F32(7)], {}, [[[0, 0]], [7], [True]]),
    ("Inverse-14", [f32(2, 0, 0, 4).reshape(2, 2)], {"adjoint": False}, [[[0.5, 0], [0, 0.25]]]),
    ("CTCLoss-4", [np.zeros((1, 1, 1), F32), i64(1), i64(0)[None], i64(0)], {}, [[0]]),
    ("CTCLoss-4", [np.zeros((1, 1, 2), F32), i64(1), i64(0)[None], i64(0), one(0)], {}, [[np.log(2)]]),
    ("GroupedMatMul-17", [ramp(2, 1), ramp(2, 1, 1), np.array([1, 2], np.int32)], {}, [[[1], [4]]]),
    ("GroupedMatMul-17", [ramp(2, 1), ramp(2, 1, 1), np.array([0, 1], np.int32)], {}, [[[2], [0]]]),
    ("PriorBox-8", [i64(1, 1), i64(4, 4)], {"offset": 0.5, "min_size": [2.0]}, [[[0.25, 0.25, 0.75, 0.75], [0.1] * 4]]),
    (
        "PriorBox-8",
        [i64(1, 1), i64(4, 4)],
        {"offset": 0.5, "fixed_size": [2.0], "density": [1.0]},
        [[[0.25, 0.25, 0.75, 0.75], [0.1] * 4]],
    ),
    (
        "ExperimentalDetectronPriorGridGenerator-6",
        [f32(-1, -1, 1, 1)[None], np.zeros((1, 1, 2, 1), F32), np.zeros((1, 3, 8, 4), F32)],
        {"h": 1, "w": 1},
        [[[1, 3, 3, 5], [0, 0, 0, 0]]],
    ),
    (
        "ExperimentalDetectronPriorGridGenerator-6",
        [f32(-1, -1, 1, 1)[None], np.zeros((1, 1, 1, 2), F32), np.zeros((1, 3, 4, 8), F32)],
        {"h": 1, "w": 1},
        [[[3, 1, 5, 3], [0, 0, 0, 0]]],
    ),
    (
        "BatchToSpace-2",
        [ramp(2, 1), i64(1, 2), i64(0, 1), i64(0, 1)],
        {},
        [[[]]],
    ),
    ("BatchToSpace-2", [ramp(2, 1), i64(1, 2), i64(0, 0), i64(0, 1)], {}, [[[1]]]),
    ("SpaceToBatch-2", [ramp(1, 1), i64(1, 2), i64(0, 0), i64(0, 1)], {}, [[[1], [0]]]),
    ("SegmentMax-16", [ramp(2), i64(0, 0), one(0)], {"fill_mode": "ZERO"}, [[]]),
    ("Clamp-1", [ramp(3)], {"min": 2.0, "max": 2.0}, [[2, 2, 2]]),
    ("Reshape-1", [ramp(2), i64(-1)], {}, [[1, 2]]),
    ("Reshape-1", [ramp(1), i64()], {}, [1]),
    ("Reshape-1", [zeros(0, 2), i64(0, -1)], {"special_zero": True}, [zeros(0, 2)]),
    ("Pad-1", [zeros(0), i64(0), i64(0)], {"pad_mode": "edge"}, [[]]),
    ("Pad-1", [ramp(1), i64(1), i64(2)], {"pad_mode": "edge"}, [[1, 1, 1, 1]]),
    ("Pad-1", [ramp(2), i64(1), i64(1)], {"pad_mode": "reflect"}, [[2, 1, 2, 1]]),
    ("Pad-1", [ramp(2), i64(2), i64(2)], {"pad_mode": "symmetric"}, [[2, 1, 1, 2, 2, 1]]),
    ("GroupedMatMul-17", [ramp(2, 1), ramp(3, 1, 1), np.array([0, 0, 2], np.int32)], {}, [[[3], [6]]]),
    ("ExperimentalDetectronTopKROIs-6", [ramp(1, 4), ramp(1)], {"max_rois": 0}, [zeros(0, 4)]),
    ("ExperimentalDetectronTopKROIs-6", [ramp(1, 4), ramp(1)], {"max_rois": 2}, [[[1, 2, 3, 4], [0, 0, 0, 0]]]),
    (
        "RandomUniform-8",
        [i64(2, 0), F32(0), F32(1)],
        {"output_type": ELEMENT_TYPES["f32"], "global_seed": 1, "state": {}},
        [zeros(2, 0)],
    ),
    (
        "Multinomial-13",
        [f32(0, 1, 0)[None], one(1)],
        {"convert_type": I32, "with_replacement": False, "log_probs": False, "global_seed": 1},
        [[[1]]],
    ),
    ("SegmentMax-16", [ramp(2), i64(0, 1)], {"fill_mode": "ZERO"}, [[1, 2]]),
    ("SegmentMax-16", [ramp(2), i64(1, 1), one(2)], {"fill_mode": "ZERO"}, [[0, 2]]),
    ("SegmentMax-16", [ramp(2), i64(0, 5), one(1)], {"fill_mode": "ZERO"}, [[1]]),
    ("BinaryConvolution-1", [f32(1, 0)[None, None], np.ones((1, 1, 1), F32)], BITS, [[[[1, -1]]]]),
    (
        "DeformableConvolution-8",
        [ramp(1, 2, 1, 1), zeros(1, 2, 1, 1), ramp(2, 1, 1, 1)],
        {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "group": 2},
        [[[[[1]], [[4]]]]],
    ),
    (
        "Interpolate-11",
        [ramp(2), f32(0)],
        {"mode": "nearest", "shape_calculation_mode": "scales"},
        [[]],
    ),
    ("Interpolate-11", [ramp(2), i64(0), i64(0)], {"mode": "nearest", "shape_calculation_mode": "sizes"}, [[]]),
    ("Interpolate-11", [ramp(2), i64(), i64()], {"mode": "linear", "shape_calculation_mode": "sizes"}, [[1, 2]]),
    ("Interpolate-11", [ramp(2), i64(2, 9)], {"mode": "nearest", "shape_calculation_mode": "sizes"}, [[1, 2]]),
    ("STFT-15", [ramp(2), ramp(1), one(2), one(1)], {"transpose_frames": False}, [[[[1, 0], [1, 0]]]]),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(0, 1), i64(0)], {}, [[3]]),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(0, 1), i64(0, 0)], {}, [[0, 3]]),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(0, 1), i64(0, 2)], {}, [[3, 0]]),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(), i64()], {}, [[]]),
    ("EmbeddingBagPacked-15", [ramp(2), np.zeros((2, 0), np.int64)], {}, [[0, 0]]),
    ("EmbeddingSegmentsSum-3", [ramp(2), i64(), i64(), one(0)], {}, [[]]),
    ("EmbeddingSegmentsSum-3", [ramp(2), i64(1), i64(1), one(2)], {}, [[0, 2]]),
    ("Einsum-7", [ramp(2), ramp(2)], {"equation": "...,...->..."}, [[1, 4]]),
    ("Einsum-7", [one(2.0), ramp(2)], {"equation": ",i->i"}, [[2, 4]]),
]


@pytest.mark.parametrize(("operation", "inputs", "attributes", "expected"), ACCEPTED, ids=[c[0] for c in ACCEPTED])
def test_smallest_inputs_are_accepted(operation, inputs, attributes, expected):
    outputs = call(operation, inputs, attributes)
    assert len(outputs) == len(expected)
    for output, values in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, values, rtol=1e-6, atol=1e-7)


U8 = np.zeros((1, 4, 4, 1), np.uint8)

#: Operation, inputs, attributes, message. Each is wrong in a single respect.
REFUSED: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("Split-1", [ramp(2), i64(0, 0)], {"num_splits": 1}, "axis has shape [2], expected a scalar"),
    ("Split-1", [ramp(2), i64(0)[None]], {"num_splits": 1}, "axis has shape [1, 1], expected a scalar or [1]"),
    ("Split-1", [ramp(2), np.array("0", object)], {"num_splits": 1}, "axis is string, expected a number"),
    ("Split-1", [ramp(3), one(0)], {"num_splits": 2}, "axis 0 of size 3 cannot be split into 2 equal parts"),
    ("Split-1", [ramp(3), one(0)], {"num_splits": 0}, "cannot be split into 0 equal parts"),
    ("VariadicSplit-1", [ramp(2), one(0), i64(-2, 4)], {}, "split_lengths is [-2, 4], expected non-negative numbers"),
    ("VariadicSplit-1", [ramp(2), one(0), i64(-1, -1)], {}, "and at most one -1"),
    ("VariadicSplit-1", [ramp(2), one(0), i64(3, -1)], {}, "split_lengths [3, -1] do not add up to 2"),
    ("VariadicSplit-1", [ramp(2), one(0), i64()], {}, "split_lengths [] do not add up to 2"),
    ("NV12toRGB-8", [U8[:, :3], U8[:, :1, :2].repeat(2, 3)], {}, "the Y plane has shape [1, 3, 4, 1]"),
    ("NV12toRGB-8", [U8[:, :, :3], U8[:, :2, :1].repeat(2, 3)], {}, "the Y plane has shape [1, 4, 3, 1]"),
    ("NV12toRGB-8", [U8[..., 0], U8[:, :2, :2].repeat(2, 3)], {}, "the Y plane has shape [1, 4, 4]"),
    ("NV12toRGB-8", [U8.repeat(2, 3), U8[:, :2, :2].repeat(2, 3)], {}, "the Y plane has shape [1, 4, 4, 2]"),
    ("NV12toRGB-8", [U8[:, :3, :3]], {}, "the image has shape [1, 3, 3, 1]"),
    ("NV12toRGB-8", [U8[:, :3, :, 0]], {}, "the image has shape [1, 3, 4]"),
    ("NV12toRGB-8", [U8[:, :3].repeat(2, 3)], {}, "the image has shape [1, 3, 4, 2]"),
    ("GridSample-9", [zeros(1, 1, 2), zeros(1, 1, 1, 2)], {}, "data has shape [1, 1, 2] and grid [1, 1, 1, 2]"),
    ("GridSample-9", [zeros(1, 1, 2, 2), zeros(1, 1, 2)], {}, "data has shape [1, 1, 2, 2] and grid [1, 1, 2]"),
    ("GridSample-9", [zeros(1, 1, 2, 2), zeros(2, 1, 1, 2)], {}, "expected [N, C, H, W] and [N, H_out, W_out, 2]"),
    (
        "DeformableConvolution-8",
        [zeros(1, 1, 1), zeros(1, 2, 1, 1), zeros(1, 1, 1, 1)],
        {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]},
        "data and filters have shapes [1, 1, 1] and [1, 1, 1, 1], expected rank 4",
    ),
    (
        "DeformableConvolution-8",
        [zeros(1, 1, 1, 1), zeros(1, 2, 1, 1), zeros(1, 1, 1)],
        {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]},
        "data and filters have shapes [1, 1, 1, 1] and [1, 1, 1], expected rank 4",
    ),
    ("BinaryConvolution-1", [zeros(1, 1), zeros(1, 1)], BITS, "filters has shape [1, 1], expected [C_OUT, C_IN, kern"),
    ("SegmentMax-16", [ramp(2), i64(0, 0), one(-1)], {"fill_mode": "ZERO"}, "num_segments is -1, expected at least 0"),
    ("SegmentMax-16", [F32(1), i64()], {"fill_mode": "ZERO"}, "segment_ids has shape [0], expected the first"),
    (
        "Interpolate-11",
        [ramp(2), f32(np.inf)],
        {"mode": "nearest", "shape_calculation_mode": "scales"},
        "scales is [inf], expected finite non-negative numbers",
    ),
    (
        "Interpolate-11",
        [ramp(2), f32(-1)],
        {"mode": "nearest", "shape_calculation_mode": "scales"},
        "scales is [-1.0], expected finite non-negative numbers",
    ),
    (
        "Interpolate-11",
        [ramp(2), i64(-1)],
        {"mode": "nearest", "shape_calculation_mode": "sizes"},
        "sizes is [-1], expected non-negative numbers",
    ),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(0, 1), i64(-1, 0)], {}, "-1"),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(0, 1), i64(1, 0)], {}, "[1, 0"),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(0, 1), i64(0, 3)], {}, "3"),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(0, 2), i64(0)], {}, "2"),
    ("EmbeddingBagOffsets-15", [ramp(2), i64(-1), i64(0)], {}, "-1"),
    ("STFT-15", [ramp(3), zeros(0), one(1), one(1)], {"transpose_frames": False}, "window has shape [0], expected [1]"),
    ("STFT-15", [ramp(3), zeros(1, 1), one(1), one(1)], {"transpose_frames": False}, "window has shape [1, 1]"),
    ("Add-1", [ramp(2), ramp(1, 2)], {"auto_broadcast": "pdpd"}, "shape [1, 2] does not fit into [2]"),
    ("Add-1", [ramp(2, 2), ramp(2)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": 2}, "does not fit into [2, 2]"),
    ("Add-1", [ramp(2, 2), ramp(2)], {"auto_broadcast": "pdpd", "auto_broadcast_axis": -2}, "does not fit into"),
    (
        "ConvertPromoteTypes-14",
        [np.zeros(2, np.int8), np.array(1, np.uint32)],
        {"pytorch_scalar_promotion": True},
        "i8 and u32 cannot be safely promoted to a common type",
    ),
    ("Clamp-1", [ramp(3)], {"min": 2.5, "max": 2.0}, "min 2.5 is greater than max 2.0"),
    ("Reshape-1", [ramp(4), i64(-1, -1)], {}, "shape [-1, -1] is invalid, expected at most one -1"),
    ("Reshape-1", [ramp(4), i64(-2, -2)], {}, "shape [-2, -2] is invalid, expected at most one -1"),
    ("Reshape-1", [ramp(4), i64(-2)], {}, "shape [-2] is invalid, expected at most one -1"),
    ("Reshape-1", [ramp(4), i64(4, 0)], {"special_zero": True}, "copies a dimension that data of shape [4]"),
    ("Reshape-1", [ramp(4), i64(3, -1)], {}, "data of shape [4] cannot be reshaped to [3, -1]"),
    ("Pad-1", [zeros(0), i64(0), i64(1)], {"pad_mode": "edge"}, "mode 'edge' cannot pad 0 elements by 0 and 1"),
    ("Pad-1", [ramp(2), i64(2), i64(0)], {"pad_mode": "reflect"}, "mode 'reflect' cannot pad 2 elements by 2 and 0"),
    ("Pad-1", [ramp(2), i64(0), i64(3)], {"pad_mode": "symmetric"}, "mode 'symmetric' cannot pad 2 elements by 0"),
    ("Pad-1", [ramp(2), i64(0, 0), i64(0)], {"pad_mode": "constant"}, "pads_begin and pads_end have 2 and 1 elements"),
    ("ExperimentalDetectronTopKROIs-6", [ramp(1), ramp(1)], {"max_rois": 1}, "input_rois has shape [1] and rois_probs"),
    ("ExperimentalDetectronTopKROIs-6", [ramp(1, 5), ramp(1)], {"max_rois": 1}, "input_rois has shape [1, 5]"),
    (
        "ExperimentalDetectronTopKROIs-6",
        [ramp(2, 4), ramp(1)],
        {"max_rois": 1},
        "rois_probs [1], expected [regions, 4]",
    ),
    (
        "RandomUniform-8",
        [i64(-1), F32(0), F32(1)],
        {"output_type": ELEMENT_TYPES["f32"], "global_seed": 1, "state": {}},
        "the shape is [-1], expected non-negative dimensions",
    ),
    (
        "Multinomial-13",
        [ramp(3, 2), one(3)],
        {"convert_type": I32, "with_replacement": False, "log_probs": False},
        "3 different classes cannot be drawn from 2",
    ),
    ("Inverse-14", [ramp(2)], {"adjoint": False}, "data has shape [2], expected [..., N, N]"),
    ("Inverse-14", [ramp(2, 3)], {"adjoint": False}, "data has shape [2, 3], expected [..., N, N]"),
    ("BatchToSpace-2", [ramp(2, 1), i64(1, 2), i64(0, -1), i64(0, 0)], {}, "crops [0, -1] and [0, 0] are out of range"),
    ("BatchToSpace-2", [ramp(2, 1), i64(1, 2), i64(0, 0), i64(0, -1)], {}, "crops [0, 0] and [0, -1] are out of range"),
    ("BatchToSpace-2", [ramp(2, 1), i64(1, 2), i64(0, 1), i64(0, 2)], {}, "are out of range for shape [1, 2]"),
    ("BatchToSpace-2", [ramp(3, 1), i64(1, 2), i64(0, 0), i64(0, 0)], {}, "batch 3 is not a multiple of 2"),
    ("Broadcast-1", [ramp(2), i64(2, 1)], {"mode": "pdpd", "axis": -2}, "does not broadcast"),
    ("Broadcast-1", [ramp(2), i64(1, 2)], {"mode": "pdpd", "axis": 2}, "does not broadcast"),
    ("Broadcast-1", [ramp(2, 1, 1), i64(2, 1)], {"mode": "pdpd", "axis": -1}, "does not broadcast"),
    ("DepthToSpace-1", [zeros(1, 12, 1, 1, 1)], {"mode": "blocks_first", "block_size": 2}, "not a multiple of 8"),
    ("ReverseSequence-1", [ramp(2, 2), i64(-1, 2)], {}, "seq_lengths is [-1, 2], expected 0 to 2"),
    ("ReverseSequence-1", [ramp(2, 2), i64(0, 3)], {}, "seq_lengths is [0, 3], expected 0 to 2"),
    ("ReverseSequence-1", [ramp(2, 2), i64(0)], {}, "seq_lengths has 1 elements, expected 2"),
    ("ShuffleChannels-1", [ramp(1, 2)], {"group": 0}, "2 channels cannot be divided into 0 groups"),
    ("ShuffleChannels-1", [ramp(1, 3)], {"group": 2}, "3 channels cannot be divided into 2 groups"),
    ("LRN-1", [ramp(1, 2), i64(1)], {"alpha": 1.0, "beta": 1.0, "bias": 1.0, "size": 0}, "size is 0"),
    ("GroupNormalization-12", [ramp(2), ramp(2), ramp(2)], {"num_groups": 1, "epsilon": 0.0}, "data of shape [2]"),
    ("GroupNormalization-12", [ramp(1, 2), ramp(2), ramp(2)], {"num_groups": 0, "epsilon": 0.0}, "into 0 groups"),
    ("BatchNormInference-5", [ramp(2), *[ramp(2)] * 4], {"epsilon": 0.0}, "data has shape [2], expected [N, C, ...]"),
    ("FakeConvert-13", [ramp(2), ramp(2, 2)], {}, "shape [2, 2] does not broadcast to the shape of data, [2]"),
    ("FakeConvert-13", [ramp(2), ramp(1), ramp(3)], {}, "shape [3] does not broadcast to the shape of data, [2]"),
    ("FakeQuantize-1", [ramp(2), ramp(2, 2), *[F32(1)] * 3], {"levels": 2}, "shape [2, 2] does not broadcast"),
    ("ScaledDotProductAttention-13", [ramp(3), ramp(2, 3), ramp(2, 3)], {}, "query has shape [3] and key [2, 3]"),
    ("ScaledDotProductAttention-13", [ramp(2, 3), ramp(3), ramp(2, 3)], {}, "query has shape [2, 3] and key [3]"),
    ("ScaledDotProductAttention-13", [ramp(2, 3), ramp(2, 3), ramp(3)], {}, "query has shape [2, 3] and key [2, 3]"),
    (
        "ScaledDotProductAttention-13",
        [ramp(1, 1), ramp(2, 1), ramp(2, 1), None, None, ramp(1, 2)],
        {},
        "sink has shape [1, 2], expected [..., L or 1, 1]",
    ),
    ("CTCLoss-4", [zeros(1, 1, 2), i64(1), i64(0)[None], i64(0), one(-1)], {}, "blank_index are out of range"),
    ("CTCLoss-4", [zeros(1, 1, 2), i64(1), i64(0)[None], i64(0), one(2)], {}, "blank_index are out of range"),
    ("DFT-7", [F32(1), i64()], {}, "data has shape [], expected [..., 2] for complex numbers"),
    ("DFT-7", [ramp(2, 3), i64(0)], {}, "data has shape [2, 3], expected [..., 2] for complex numbers"),
    ("EmbeddingBagPacked-15", [ramp(2), i64(0, 1)], {}, "indices has shape [2], expected [bags, n]"),
    (
        "EmbeddingBagPacked-15",
        [ramp(2), i64(0, 1)[None], ramp(2, 1)],
        {},
        "per_sample_weights has shape [2, 1], expected [1, 2]",
    ),
    ("SparseFillEmptyRows-16", [f32(), i64(-1, 3), np.zeros((0, 2), np.int64), F32(1)], {}, "dense_shape [-1, 3]"),
    ("SparseFillEmptyRows-16", [f32(), i64(1), np.zeros((0, 2), np.int64), F32(1)], {}, "dense_shape [1], indices"),
    ("SparseFillEmptyRows-16", [f32(), i64(1, 3), np.zeros((1, 2), np.int64), F32(1)], {}, "indices [1, 2]"),
    ("SparseFillEmptyRows-16", [f32(), i64(1, 3), np.zeros((0, 2), np.int64), ramp(2)], {}, "default_value [2]"),
    ("SparseFillEmptyRows-16", [ramp(1), i64(1, 3), i64(1, 0)[None], F32(1)], {}, "expected numbers from 0 to 0"),
    ("SparseFillEmptyRows-16", [ramp(1), i64(1, 3), i64(-1, 0)[None], F32(1)], {}, "the rows in indices are [-1]"),
    ("Einsum-7", [ramp(2)], {"equation": "i..->i"}, "subscript 'i..' of 'i..->i' does not match shape [2]"),
    ("Einsum-7", [ramp(2)], {"equation": "ij...->i"}, "subscript 'ij...' of 'ij...->i' does not match shape [2]"),
    ("Einsum-7", [ramp(2, 2)], {"equation": "i->i"}, "subscript 'i' of 'i->i' does not match shape [2, 2]"),
    ("Einsum-7", [ramp(2, 2, 2)], {"equation": "....i->i"}, "does not match shape [2, 2, 2]"),
    (
        "PriorBox-8",
        [i64(1, 1), i64(4, 4)],
        {"offset": 0.5, "fixed_size": [2.0], "density": [0.9]},
        "density is 0.9, expected at least 1",
    ),
    ("GroupedMatMul-17", [ramp(2, 1), ramp(2, 1, 1), np.array([1, 3], np.int32)], {}, "3"),
    ("GroupedMatMul-17", [ramp(2, 1), ramp(2, 1, 1), np.array([2, 1], np.int32)], {}, "[2, 1]"),
    (
        "LSTMCell-4",
        [zeros(1, 3), zeros(1, 2), zeros(1, 2), zeros(12, 3), zeros(8, 2)],
        {"hidden_size": 2},
        "W has shape [12, 3], expected [8, 3]",
    ),
    (
        "GRUCell-3",
        [zeros(1, 3), zeros(1, 2), zeros(6, 4), zeros(6, 2)],
        {"hidden_size": 2},
        "W has shape [6, 4], expected [6, 3]",
    ),
]


@pytest.mark.parametrize(("operation", "inputs", "attributes", "message"), REFUSED, ids=[c[0] for c in REFUSED])
def test_inputs_that_are_wrong_in_one_respect_are_refused(operation, inputs, attributes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        call(operation, inputs, attributes)
