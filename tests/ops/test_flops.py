"""Declared numbers of arithmetic operations, against hand-computed ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

import irrun
from irrun.ops._support.operation import StructuralOperation
from irrun.ops._support.registry import find, list_operations

#: Operations without a number, because the work depends on the values or is not arithmetic.
WITHOUT_NUMBER = {
    *("Bucketize", "CTCGreedyDecoder", "CTCGreedyDecoderSeqLen", "CTCLoss", "DeformablePSROIPooling"),
    *("DetectionOutput", "ExperimentalDetectronDetectionOutput", "ExperimentalDetectronPriorGridGenerator"),
    *("ExperimentalDetectronGenerateProposalsSingleImage", "ExperimentalDetectronROIFeatureExtractor"),
    *("ExperimentalDetectronTopKROIs", "GenerateProposals", "MatrixNms", "MulticlassNms", "MulticlassNmsIEInternal"),
    *("GenerateProposalsIEInternal", "PagedAttentionExtension", "VLSDPA"),
    *("Multinomial", "NMSRotated", "NonMaxSuppression", "NonMaxSuppressionIEInternal", "PSROIPooling", "PriorBox"),
    *("PriorBoxClustered", "Proposal", "ROIPooling", "RandomUniform", "SearchSorted", "TopK", "Unique"),
}


def make(*shapes):
    """Return arrays of shapes; other values are returned as arrays."""
    return [np.zeros(s, np.float32) if isinstance(s, tuple) else None if s is None else np.array(s) for s in shapes]


def count(name, version, inputs, outputs, **attributes):
    operation = find(name, version)
    assert operation is not None
    return operation.count_flops(make(*inputs), make(*outputs), operation.bind(attributes))


CONVOLUTION = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
POOLING = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
INTERPOLATE = {"shape_calculation_mode": "sizes"}
ISTFT = {"center": False, "normalized": False}

#: Number of operations per element of the result -> operations.
PER_ELEMENT = {
    0: "Assign BatchToSpace Broadcast Concat Convert ConvertLike ConvertPromoteTypes DepthToSpace ExtractImagePatches "
    "Eye Gather GatherElements GatherND GatherTree Identity If Loop OneHot PaKVReorder Pad ReadValue ReorgYolo Reshape "
    "Reverse ReverseSequence Roll ScatterUpdate Select ShapeOf ShuffleChannels Slice SliceScatter SpaceToBatch "
    "SpaceToDepth SparseFillEmptyRows Split Squeeze StridedSlice StringTensorPack StringTensorUnpack TensorIterator "
    "Tile Transpose Unsqueeze VariadicSplit",
    1: "Abs Acos Acosh Add Asin Asinh Atan Atanh BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift "
    "BitwiseXor Ceiling Cos Cosh CumSum Divide Equal Erf ErfInv Exp Floor FloorMod Greater GreaterEqual IsFinite IsInf "
    "IsNaN Less LessEqual Log LogicalAnd LogicalNot LogicalOr LogicalXor Maximum Minimum Mod Multiply Negative "
    "NotEqual Power Range RegionYolo Relu Round Sigmoid Sign Sin Sinh Sqrt Subtract Tan Tanh Xor",
    2: "BatchNormInference Clamp GatherCompressed LeakyRelu PRelu SquaredDifference Swish SwishCPU",
    3: "Elu GLU GRN NormalizeL2 PowerStatic RoPE SoftPlus SoftSign SwiGLU",
    4: "FakeConvert HSigmoid HardSigmoid RMS RMSNorm Selu",
    5: "Gelu HSwish LogSoftmax Mish Softmax",
    6: "BGRtoNV12 I420toBGR I420toRGB NV12toBGR NV12toRGB RGBtoNV12",
    7: "FakeQuantize GroupNormalization",
}

#: Type, opset, inputs, outputs, attributes, number. Each is written as the product that defines it.
CASES = [
    ("Convolution", "opset1", [(1, 3, 8, 8), (16, 3, 3, 3)], [(1, 16, 6, 6)], CONVOLUTION, 2 * 16 * 36 * 27),
    ("GroupConvolution", "opset1", [(1, 8, 6, 6), (4, 3, 2, 3, 3)], [(1, 12, 4, 4)], CONVOLUTION, 2 * 12 * 16 * 18),
    ("ConvolutionBackpropData", "opset1", [(1, 4, 5, 5), (4, 6, 3, 3)], [(1, 6, 7, 7)], CONVOLUTION, 2 * 100 * 54),
    (
        "GroupConvolutionBackpropData",
        "opset1",
        [(1, 4, 5, 5), (2, 2, 3, 3, 3)],
        [(1, 6, 7, 7)],
        CONVOLUTION,
        2 * 100 * 27,
    ),
    (
        "DeformableConvolution",
        "opset8",
        [(1, 4, 6, 6), (1, 18, 4, 4), (8, 4, 3, 3), (1, 9, 4, 4)],
        [(1, 8, 4, 4)],
        CONVOLUTION,
        2 * 8 * 16 * 36 + 4 * 9 * 16 * 9,
    ),
    ("MatMul", "opset1", [(2, 5, 7), (7, 3)], [(2, 5, 3)], {}, 2 * 2 * 5 * 7 * 3),
    ("MatMul", "opset1", [(7, 5), (3, 7)], [(5, 3)], {"transpose_a": True, "transpose_b": True}, 2 * 5 * 7 * 3),
    ("MatMul", "opset1", [(7,), (7, 3)], [(3,)], {"transpose_a": True}, 2 * 7 * 3),
    ("Einsum", "opset7", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)], {"equation": "bij,bjk->bik"}, 2 * 2 * 3 * 4 * 5),
    ("Einsum", "opset7", [(3,), (4,)], [(3, 4)], {"equation": "i,j->ij"}, 3 * 4),
    ("Einsum", "opset7", [(3, 4)], [(3,)], {"equation": "ij->i"}, 12),
    ("Einsum", "opset7", [(3, 4), (4, 5)], [(3, 5)], {"equation": "ij,jk"}, 2 * 3 * 4 * 5),
    ("Einsum", "opset7", [(2, 3, 4), (1, 4, 5)], [(2, 3, 5)], {"equation": "...ij, ...jk -> ...ik"}, 2 * 2 * 60),
    ("Einsum", "opset7", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)], {"equation": "...ij,...jk"}, 2 * 2 * 60),
    ("Einsum", "opset7", [(3,), (4,)], [(3, 4)], {"equation": "i,j"}, 3 * 4),
    ("Einsum", "opset7", [(3,), (4,)], [()], {"equation": "i,j->"}, 2 * 3 * 4),
    ("Einsum", "opset7", [(1, 4), (4, 5)], [(1, 5)], {"equation": "ij,jk->ik"}, 2 * 4 * 5),
    ("Einsum", "opset7", [(3, 1), (4, 5)], [(3, 5)], {"equation": "ij,jk->ik"}, 2 * 3 * 4 * 5),
    ("Einsum", "opset7", [(3, 4), (3, 4)], [(3, 4)], {"equation": "ij,ij->ij"}, 3 * 4),
    ("Einsum", "opset7", [(4, 4)], [()], {"equation": "ii->"}, 4),
    ("Einsum", "opset7", [(2, 3, 4)], [(2, 3)], {"equation": "...ij->...i"}, 24),
    *(
        ("Einsum", "opset7", [(3, 4)], [(4, 3)], {"equation": equation}, 0)
        for equation in ("ij", "ij->ji", "...ij->...ji")
    ),
    (
        "Einsum",
        "opset7",
        [(3, 4), (4, 5), (5, 6)],
        [(3, 6)],
        {"equation": "ij,jk,kl->il"},
        2 * 3 * 4 * 5 + 2 * 3 * 5 * 6,
    ),
    ("Inverse", "opset14", [(2, 4, 4)], [(2, 4, 4)], {"adjoint": False}, 2 * 2 * 64),
    ("MaxPool", "opset1", [(1, 4, 8, 8)], [(1, 4, 4, 4)], {**POOLING, "kernel": [3, 3]}, 64 * 9),
    ("AvgPool", "opset1", [(1, 4, 8, 8)], [(1, 4, 4, 4)], {**POOLING, "kernel": [2, 2], "exclude-pad": True}, 64 * 4),
    ("AdaptiveAvgPool", "opset8", [(1, 4, 8, 8), [2, 2]], [(1, 4, 2, 2)], {}, 256),
    ("ReduceMean", "opset1", [(4, 6), [1]], [(4,)], {}, 24),
    ("ReduceL2", "opset4", [(4, 6), [1]], [(4,)], {}, 48),
    ("Softmax", "opset8", [(4, 6)], [(4, 6)], {"axis": 1}, 5 * 24),
    (
        "MVN",
        "opset6",
        [(4, 6), [1]],
        [(4, 6)],
        {"normalize_variance": True, "eps": 1e-5, "eps_mode": "inside_sqrt"},
        120,
    ),
    ("MVN", "opset6", [(4, 6), [1]], [(4, 6)], {"normalize_variance": False, "eps": 1, "eps_mode": "inside_sqrt"}, 48),
    ("BatchNormInference", "opset5", [(2, 3, 4), (3,), (3,), (3,), (3,)], [(2, 3, 4)], {"epsilon": 1.0}, 48),
    ("LRN", "opset1", [(2, 3, 4), [1]], [(2, 3, 4)], {"alpha": 1, "beta": 1, "bias": 1, "size": 5}, 24 * 10),
    ("NormalizeL2", "opset1", [(2, 3), [1]], [(2, 3)], {"eps": 1, "eps_mode": "add"}, 18),
    ("Gelu", "opset7", [(5,)], [(5,)], {}, 25),
    ("Relu", "opset1", [(5,)], [(5,)], {}, 5),
    ("Add", "opset1", [(4, 1), (3,)], [(4, 3)], {}, 12),
    ("SquaredDifference", "opset1", [(4,), (4,)], [(4,)], {}, 8),
    ("FakeQuantize", "opset1", [(4,), (), (), (), ()], [(4,)], {"levels": 256}, 28),
    ("LSTMCell", "opset4", [(2, 3), (2, 5), (2, 5), (20, 3)], [(2, 5)] * 2, {"hidden_size": 5}, 2 * 5 * (8 * 8 + 13)),
    ("GRUCell", "opset3", [(2, 3), (2, 5), (15, 3)], [(2, 5)], {"hidden_size": 5}, 2 * 5 * (6 * 8 + 11)),
    (
        "GRUCell",
        "opset3",
        [(2, 3), (2, 5), (15, 3)],
        [(2, 5)],
        {"hidden_size": 5, "linear_before_reset": True},
        2 * 5 * (6 * 8 + 12),
    ),
    ("RNNCell", "opset1", [(2, 3), (2, 5), (5, 3)], [(2, 5)], {"hidden_size": 5}, 2 * 5 * (2 * 8 + 2)),
    (
        "LSTMSequence",
        "opset5",
        [(2, 7, 3), (2, 2, 5), (2, 2, 5), [7, 7], (2, 20, 3), (2, 20, 5), (2, 20)],
        [(2, 2, 7, 5), (2, 2, 5), (2, 2, 5)],
        {"hidden_size": 5, "direction": "bidirectional"},
        2 * 7 * 2 * 5 * (8 * 8 + 13),
    ),
    (
        "GatedDeltaNet",
        "extension",
        [(2, 3, 2, 4), (2, 3, 2, 4), (2, 3, 4, 5), (2, 4, 4, 5), (2, 3, 4), (2, 3, 4)],
        [(2, 3, 4, 5), (2, 4, 4, 5)],
        {},
        2 * 3 * 4 * (4 * 5 + 2 * 4 * 5 + 2 * 4 * 5 + 2 * 4 * 5),
    ),
    (
        "PagedGatedDeltaNet",
        "extension",
        [(6, 2, 4), (6, 2, 4), (6, 4, 5), (3, 4, 4, 5), (6, 4), (6, 4)],
        [(6, 4, 5)],
        {},
        6 * 4 * 7 * 4 * 5,
    ),
    (
        "SelectiveSSM",
        "extension",
        [(4,), (2, 3, 4), (2, 3, 2, 6), (2, 3, 4, 5), (2, 3, 2, 6), (2, 4, 5, 6)],
        [(2, 3, 4, 5), (2, 4, 5, 6)],
        {},
        2 * 3 * 4 * (5 * 6 + 2 * 5 * 6 + 2 * 5 * 6),
    ),
    (
        "PagedSelectiveSSM",
        "extension",
        [(4,), (6, 4), (6, 2, 6), (6, 4, 5), (6, 2, 6), (2, 4, 5, 6)],
        [(6, 4, 5)],
        {},
        6 * 4 * 5 * 5 * 6,
    ),
    ("GatherMatmul", "extension", [(1, 4, 8), (6, 5, 8), (4, 2), (6, 1, 5)], [(2, 4, 5)], {}, 2 * 4 * 5 * 17),
    (
        "GatherMatmulCompressed",
        "extension",
        [(2, 4, 8), (6, 5, 2, 4), (4, 2), (0,), (6, 5, 2), (0,)],
        [(2, 4, 5)],
        {},
        2 * 4 * 5 * 16,
    ),
    ("GroupedMatMulCompressed", "extension", [(4, 6), (2, 5, 6), [1, 4], (2, 5, 1)], [(4, 5)], {}, 2 * 4 * 5 * 6),
    (
        "MOE",
        "extension",
        [(3, 8), (3, 2), (3, 2), (6, 5, 8), (6, 5, 8), (6, 8, 5)],
        [(3, 8)],
        {"expert_type": "gemm3_swiglu"},
        2 * 3 * 2 * 3 * 5 * 8,
    ),
    (
        "MOECompressed",
        "extension",
        [(3, 8), (3, 2), (3, 2), (6, 10, 8), (6, 10, 1), (6, 1, 10), (6, 8, 5), (6, 8, 1), (6, 1, 8)],
        [(3, 8)],
        {},
        2 * 3 * 2 * (10 * 8 + 8 * 5),
    ),
    (
        "GroupQueryAttention",
        "extension",
        [(1, 4, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8), [7], [8]],
        [(1, 3, 32), (1, 2, 8, 8), (1, 2, 8, 8)],
        {"num_heads": 4, "kv_num_heads": 2, "scale": 0, "do_rotary": False, "rotary_interleaved": False},
        4 * 3 * 8 * (4 * 8 + 7),
    ),
    ("PagedCausalConv1D", "extension", [(6, 4), (2, 4, 3), (4, 1, 3), (4,)], [(6, 4)], {}, 6 * 4 * (2 * 3 + 1)),
    ("PagedCausalConv1D", "extension", [(6, 4), (2, 4, 3), (4, 1, 3), (0,)], [(6, 4)], {}, 6 * 4 * 2 * 3),
    ("DFT", "opset7", [(3, 8, 2), [1]], [(3, 8, 2)], {}, 5 * 3 * 8 * 3),
    ("IDFT", "opset7", [(4, 8, 2), [0, -1]], [(4, 8, 2)], {}, 5 * 32 * 5),
    ("RDFT", "opset9", [(3, 16), [1]], [(3, 9, 2)], {}, 5 * 3 * 16 * 4 // 2),
    ("RDFT", "opset9", [(3, 16), [1], [8]], [(3, 5, 2)], {}, 5 * 3 * 8 * 3 // 2),
    ("IRDFT", "opset9", [(3, 9, 2), [1]], [(3, 16)], {}, 5 * 3 * 16 * 4 // 2),
    ("STFT", "opset15", [(64,), (8,), 8, 4], [(15, 5, 2)], {"transpose_frames": False}, 15 * (5 * 8 * 3 // 2 + 8)),
    ("DFT", "opset7", [(3, 1, 2), [1]], [(3, 1, 2)], {}, 0),
    ("DFT", "opset7", [(3, 2, 2), [1]], [(3, 2, 2)], {}, 5 * 3 * 2),
    ("DFT", "opset7", [(3, 8, 2), [1], [16]], [(3, 16, 2)], {}, 5 * 3 * 16 * 4),
    ("DFT", "opset7", [(3, 8, 2), [1], [-1]], [(3, 8, 2)], {}, 5 * 3 * 8 * 3),
    ("RDFT", "opset9", [(4, 16), [0, 1], [-1, 8]], [(4, 5, 2)], {}, 5 * 4 * 8 * 5 // 2),
    ("Interpolate", "opset4", [(1, 2, 4, 4), [8, 8], [2, 2]], [(1, 2, 8, 8)], {**INTERPOLATE, "mode": "linear"}, 1024),
    ("Interpolate", "opset4", [(1, 2, 4, 4), [8, 8], [2, 2]], [(1, 2, 8, 8)], {**INTERPOLATE, "mode": "nearest"}, 0),
    *(
        ("Interpolate", "opset11", [(1, 8, 8), sizes], [(1, *sizes)], {**INTERPOLATE, "mode": f"{mode}_pillow"}, number)
        for mode, sizes, number in (
            ("bicubic", [4, 4], 2 * (8 * 4 * 8) + 2 * (4 * 4 * 8)),
            ("bicubic", [8, 16], 2 * (8 * 16 * 4)),
            ("bilinear", [16, 8], 2 * (16 * 8 * 2)),
            ("bilinear", [8, 3], 2 * (8 * 3 * 6)),
            ("bilinear", [8, 8], 0),
        )
    ),
    ("Interpolate", "opset4", [(1, 2, 4, 4), [8, 4], [2, 1]], [(1, 2, 8, 4)], {**INTERPOLATE, "mode": "cubic"}, 512),
    (
        "Interpolate",
        "opset11",
        [(1, 8, 8), [4, 4]],
        [(1, 4, 4)],
        {**INTERPOLATE, "mode": "bilinear_pillow"},
        2 * (8 * 4 * 4) + 2 * (4 * 4 * 4),
    ),
    ("GridSample", "opset9", [(1, 2, 4, 4), (1, 3, 3, 2)], [(1, 2, 3, 3)], {"mode": "bilinear"}, 18 * 8),
    (
        "ScaledDotProductAttention",
        "opset13",
        [(2, 4, 10, 8), (2, 4, 12, 8), (2, 4, 12, 6)],
        [(2, 4, 10, 6)],
        {},
        2 * 4 * 10 * 12 * (2 * 8 + 2 * 6 + 6),
    ),
    (
        "ScaledDotProductAttention",
        "opset13",
        [(1, 10, 8), (1, 12, 8), (1, 12, 8), (10, 12)],
        [(1, 10, 8)],
        {},
        10 * 12 * (4 * 8 + 7),
    ),
    ("RoPE", "ie_internal_opset", [(1, 4, 2, 8), (1, 1, 4, 8), (1, 1, 4, 8)], [(1, 4, 2, 8)], {}, 3 * 64),
    ("FullyConnected", "ie_internal_opset", [(4, 8), (5, 8), (5,)], [(4, 5)], {}, 20 * 17),
    ("FullyConnected", "ie_internal_opset", [(4, 8), (5, 8), (0,)], [(4, 5)], {}, 20 * 16),
    ("EmbeddingBagOffsetsSum", "opset3", [(9, 4), [0, 1, 2], [0, 1]], [(2, 4)], {}, 3 * 4),
    ("EmbeddingBagPackedSum", "opset3", [(9, 4), [[0, 1], [1, 2]], (2, 2)], [(2, 4)], {}, 4 * 4 * 2),
    ("ScatterElementsUpdate", "opset12", [(9,), [1, 2], (2,), 0], [(9,)], {"reduction": "sum"}, 2),
    ("ScatterElementsUpdate", "opset12", [(9,), [1, 2], (2,), 0], [(9,)], {"reduction": "none"}, 0),
    ("Transpose", "opset1", [(4, 6), [1, 0]], [(6, 4)], {}, 0),
    ("Concat", "opset1", [(4, 6), (4, 6)], [(8, 6)], {"axis": 0}, 0),
    ("Reshape", "opset1", [(4, 6), [24]], [(24,)], {"special_zero": False}, 0),
    *[
        (name, "opset1", [(4, 6), [1]], [(4,)], {}, 24)
        for name in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
    ],
    *[(name, "opset1", [(4, 6), [1]], [(4,)], {}, 24) for name in ("ReduceLogicalAnd", "ReduceLogicalOr")],
    ("ReduceL1", "opset4", [(4, 6), [1]], [(4,)], {}, 48),
    ("NonZero", "opset3", [(4, 6)], [(2, 3)], {}, 24),
    ("SegmentMax", "opset16", [(4, 6), [0, 0, 1, 1]], [(2, 6)], {"fill_mode": "ZERO"}, 24),
    ("Col2Im", "opset15", [(4, 6), [3, 4], [2, 2]], [(1, 3, 4)], {}, 24),
    ("AdaptiveMaxPool", "opset8", [(1, 4, 8, 8), [2, 2]], [(1, 4, 2, 2)], {}, 256),
    *[
        ("MaxPool", version, [(1, 4, 8, 8)], [(1, 4, 4, 4)], {**POOLING, "dilations": [1, 1], "kernel": [3, 2]}, 64 * 6)
        for version in ("opset8", "opset14")
    ],
    *[
        ("AvgPool", version, [(1, 4, 8, 8)], [(1, 4, 4, 4)], {**POOLING, "kernel": [3, 2], "exclude-pad": True}, 64 * 6)
        for version in ("opset14", "opset16")
    ],
    (
        "BinaryConvolution",
        "opset1",
        [(1, 3, 8, 8), (16, 3, 3, 3)],
        [(1, 16, 6, 6)],
        {**CONVOLUTION, "mode": "xnor-popcount", "pad_value": 0},
        2 * 16 * 36 * 27,
    ),
    (
        "DeformableConvolution",
        "opset1",
        [(1, 4, 6, 6), (1, 18, 4, 4), (8, 2, 3, 3)],
        [(1, 8, 4, 4)],
        {**CONVOLUTION, "group": 2},
        2 * 8 * 16 * 18 + 4 * 9 * 16 * 8,
    ),
    ("GroupedMatMul", "opset17", [(4, 6), (2, 5, 6), [1, 4]], [(4, 5)], {}, 2 * 4 * 5 * 6),
    ("GridSample", "opset9", [(1, 2, 4, 4), (1, 3, 3, 2)], [(1, 2, 3, 3)], {"mode": "bicubic"}, 18 * 32),
    ("GridSample", "opset9", [(1, 2, 4, 4), (1, 3, 3, 2)], [(1, 2, 3, 3)], {"mode": "nearest"}, 0),
    *[
        (
            name,
            version,
            [(1, 2, 8, 8), (3, 4), [0, 0, 0]],
            [(3, 2, 4, 4)],
            {"pooled_h": 4, "pooled_w": 4, "spatial_scale": 1, "sampling_ratio": ratio, **attributes},
            3 * 2 * 16 * ratio**2 * 9 or None,
        )
        for name, version, attributes in (
            ("ROIAlign", "opset3", {"mode": "avg"}),
            ("ROIAlign", "opset9", {"mode": "avg"}),
            ("ROIAlignRotated", "opset15", {}),
        )
        for ratio in (0, 3)
    ],
    ("ISTFT", "opset16", [(5, 15, 2), (8,), 8, 4], [(64,)], ISTFT, 15 * (5 * 8 * 3 // 2 + 8)),
    ("IRDFT", "opset9", [(3, 9, 2), [1], [8]], [(3, 8)], {}, 5 * 3 * 8 * 3 // 2),
    ("IRDFT", "opset9", [(3, 4, 9, 2), [1, 2]], [(3, 4, 16)], {}, 5 * 3 * 64 * 6 // 2),
    ("DFT", "opset7", [(3, 8, 2), [1], [16]], [(3, 16, 2)], {}, 5 * 3 * 16 * 4),
    ("DFT", "opset7", [(3, 8, 2), [1], [-1]], [(3, 8, 2)], {}, 5 * 3 * 8 * 3),
    ("DFT", "opset7", [(3, 8, 2), [1], [0]], [(3, 0, 2)], {}, 0),
    ("DFT", "opset7", [(3, 8, 4, 2), [1, 2], [0, 4]], [(3, 0, 4, 2)], {}, 0),
    ("LSTMCell", "opset1", [(2, 3), (2, 5), (2, 5), (20, 3)], [(2, 5)] * 2, {"hidden_size": 5}, 2 * 5 * (8 * 8 + 13)),
    (
        "RNNSequence",
        "opset5",
        [(2, 7, 3), (2, 1, 5), [7, 7], (1, 5, 3), (1, 5, 5), (1, 5)],
        [(2, 1, 7, 5), (2, 1, 5)],
        {"hidden_size": 5, "direction": "forward"},
        2 * 7 * 5 * (2 * 8 + 2),
    ),
    (
        "GRUSequence",
        "opset5",
        [(2, 7, 3), (2, 1, 5), [7, 7], (1, 15, 3), (1, 15, 5), (1, 15)],
        [(2, 1, 7, 5), (2, 1, 5)],
        {"hidden_size": 5, "direction": "reverse"},
        2 * 7 * 5 * (6 * 8 + 11),
    ),
    (
        "AUGRUCell",
        "ie_internal_opset",
        [(2, 3), (2, 5), (15, 3), (15, 5), (15,), (2, 1)],
        [(2, 5)],
        {"hidden_size": 5},
        2 * 5 * (6 * 8 + 13),
    ),
    (
        "AUGRUSequence",
        "ie_internal_opset",
        [(2, 7, 3), (2, 1, 5), [7, 7], (1, 15, 3), (1, 15, 5), (1, 15), (2, 7, 1)],
        [(2, 1, 7, 5), (2, 1, 5)],
        {"hidden_size": 5},
        2 * 7 * 5 * (6 * 8 + 13),
    ),
    ("FullyConnectedCompressed", "ie_internal_opset", [(4, 8), (5, 8), (5,), (5, 1)], [(4, 5)], {}, 20 * 17),
    ("FullyConnectedQuantized", "ie_internal_opset", [(4, 8), (5, 8), (5,), (5, 1)], [(4, 5)], {}, 20 * 17),
    ("FullyConnectedQuantizedLegacy", "ie_internal_opset", [(4, 8), (5, 8), (0,), (1, 5)], [(4, 5)], {}, 20 * 16),
    ("EmbeddingBagOffsetsSum", "opset3", [(9, 4), [0, 1, 2], [0, 1], None, (3,)], [(2, 4)], {}, 3 * 4 * 2),
    ("EmbeddingBagOffsets", "opset15", [(9, 4), [0, 1, 2], [0, 1]], [(2, 4)], {}, 3 * 4),
    ("EmbeddingBagOffsets", "opset15", [(9, 4), [0, 1, 2], [0, 1], None, (3,)], [(2, 4)], {}, 3 * 4 * 2),
    ("EmbeddingBagPacked", "opset15", [(9, 4), [[0, 1], [1, 2]]], [(2, 4)], {}, 4 * 4),
    ("EmbeddingBagPacked", "opset15", [(9, 4), [[0, 1], [1, 2]], (2, 2)], [(2, 4)], {}, 4 * 4 * 2),
    ("EmbeddingSegmentsSum", "opset3", [(9, 4), [0, 1], [0, 1], 2, 0], [(2, 4)], {}, 2 * 4),
    ("EmbeddingSegmentsSum", "opset3", [(9, 4), [0, 1], [0, 1], 2, None, (2,)], [(2, 4)], {}, 2 * 4 * 2),
    ("ScatterElementsUpdate", "opset3", [(9,), [1, 2], (2,), 0], [(9,)], {}, 0),
    ("ScatterNDUpdate", "opset15", [(9, 2), [[1], [2]], (2, 2)], [(9, 2)], {"reduction": "sum"}, 4),
    ("ScatterNDUpdate", "opset4", [(9, 2), [[1], [2]], (2, 2)], [(9, 2)], {}, 0),
    ("TopK", "opset11", [(4, 6), 2], [(4, 2), (4, 2)], {"axis": 1, "mode": "max", "sort": "none"}, None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[5]}")
def test_number_of_operations_is_that_computed_by_hand(case):
    name, version, inputs, outputs, attributes, expected = case
    assert count(name, version, inputs, outputs, **attributes) == expected


def test_numbers_per_element_are_those_of_the_formulas():
    declared = {number: set(names.split()) for number, names in PER_ELEMENT.items()}
    actual: dict[int, set[str]] = {}
    for operation in list_operations():
        if operation.category == "text":  # bytes are looked up, not computed
            assert operation.flops == 0
        elif isinstance(operation.flops, int) and not isinstance(operation, StructuralOperation):
            actual.setdefault(operation.flops, set()).add(operation.type)
    assert actual == declared


def test_every_operation_declares_a_number_or_has_none():
    without = {o.type for o in list_operations() if o.flops is None and not o.is_custom}
    assert without == WITHOUT_NUMBER


def test_operations_with_relaxed_types_have_the_number_of_the_operation():
    operation = find("MatMul", "type_relaxed_opset")
    assert operation is not None
    attributes = operation.bind({"transpose_b": "true", "output_data_types": "f32"})
    assert operation.count_flops(make((2, 7), (3, 7)), make((2, 3)), attributes) == 2 * 2 * 7 * 3


@pytest.mark.parametrize(
    ("flops", "expected"), [(3, 18), (lambda call: math.prod(call.get_shape(0)) * 7, 42), (None, None)]
)
def test_custom_operations_declare_a_number_too(flops, expected):
    def double(data):
        return data * 2

    operation = irrun.Operation.from_function(double, "Double", opset="extension", flops=flops)
    x = np.zeros((2, 3), np.float32)
    assert operation.count_flops([x], [x], {}) == expected
