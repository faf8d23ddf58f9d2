"""What kernels allocate besides their results, compared with the cards of their operations."""

from __future__ import annotations

import tracemalloc
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from fast.harness import find_operation

from irrun.element_types import ELEMENT_TYPES
from irrun.limits import MemoryBudget, MemoryLimitError, run_within
from irrun.ops._support.context import State
from irrun.ops._support.numerics import is_low_precision
from irrun.ops._support.registry import list_operations
from irrun.ops._support.scratch import estimate_scratch

F32 = np.float32
RANDOM = np.random.default_rng(0)
#: Bytes that kernels may allocate besides: blocks, tables, and what is kept between calls.
CONSTANT = 1 << 22
POOL = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
CONVOLUTION = {**POOL, "dilations": [1, 1]}


def draw(*shape):
    return RANDOM.random(shape, dtype=F32)


def draw_integers(limit, *shape):
    return RANDOM.integers(0, limit, shape)


def make_i64(*values):
    return np.array(values, np.int64)


def make_boxes(count):
    corners = draw(1, count, 2) * 1000
    return np.concatenate([corners, corners + draw(1, count, 2) * 5], axis=2)


def make_regions(count, size, has_batch=True):
    corners = draw(count, 4) * size / 2
    corners[:, 2:] += size / 2
    return np.concatenate([np.zeros((count, 1), F32), corners], axis=1) if has_batch else corners


CASES = [
    (
        "ROIPooling-2",
        (draw(1, 64, 200, 200), make_regions(100, 200)),
        {"pooled_h": 7, "pooled_w": 7, "spatial_scale": 1.0},
    ),
    (
        "ROIPooling-2",
        (draw(1, 64, 200, 200), make_regions(1000, 200)),
        {"pooled_h": 7, "pooled_w": 7, "spatial_scale": 1.0, "method": "bilinear"},
    ),
    ("NV12toRGB-8", ((draw(1, 1500, 1000, 1) * 255).astype(np.uint8),), {}),
    ("I420toBGR-8", (draw(1, 1500, 1000, 1) * 255,), {}),
    ("RGBtoNV12-17", ((draw(1, 1000, 1000, 3) * 255).astype(np.uint8),), {}),
    ("Unique-10", (draw(1000000),), {}),
    ("Unique-10", (draw_integers(1000, 1000000),), {}),
    ("Unique-10", (draw(1000, 1000), make_i64(0)), {}),
    ("Unique-10", (draw_integers(3, 3, 200000), make_i64(0)), {}),
    ("GridSample-9", (draw(1, 3, 700, 700), draw(1, 700, 700, 2) * 2 - 1), {"mode": "bicubic"}),
    ("GridSample-9", (draw(1, 3, 700, 700), draw(1, 700, 700, 2) * 2 - 1), {"mode": "bilinear"}),
    ("AdaptiveMaxPool-8", (draw(1, 32, 200, 200), make_i64(50, 50)), {}),
    ("AdaptiveMaxPool-8", (draw(1, 32, 200, 200), make_i64(190, 190)), {}),
    ("AdaptiveAvgPool-8", (draw(1, 32, 200, 200), make_i64(50, 50)), {}),
    ("AdaptiveAvgPool-8", (draw(1, 32, 200, 200), make_i64(190, 190)), {}),
    ("EmbeddingBagOffsetsSum-3", (draw(10000, 100), draw_integers(10000, 20000), np.arange(0, 20000, 20)), {}),
    ("EmbeddingBagPackedSum-3", (draw(10000, 100), draw_integers(10000, 1000, 20)), {}),
    (
        "EmbeddingSegmentsSum-3",
        (draw(10000, 100), draw_integers(10000, 20000), np.sort(draw_integers(1000, 20000)), np.array(1000)),
        {},
    ),
    ("FakeConvert-13", (draw(1000, 1000), np.array(1, F32)), {}),
    (
        "ROIAlign-9",
        (draw(1, 64, 200, 200), make_regions(300, 200, False), np.zeros(300, np.int64)),
        {"pooled_h": 7, "pooled_w": 7, "sampling_ratio": 2, "spatial_scale": 1.0, "mode": "avg"},
    ),
    (
        "ROIAlign-9",
        (draw(1, 64, 200, 200), make_regions(300, 200, False), np.zeros(300, np.int64)),
        {"pooled_h": 7, "pooled_w": 7, "sampling_ratio": 0, "spatial_scale": 1.0, "mode": "max"},
    ),
    ("TopK-11", (draw(1000000), np.array(100)), {"axis": 0, "mode": "max", "sort": "value"}),
    ("TopK-11", (draw(1000000), np.array(900000)), {"axis": 0, "mode": "max", "sort": "value"}),
    ("TopK-11", (draw(1000, 1000), np.array(10)), {"axis": 0, "mode": "max", "sort": "value"}),
    ("ReorgYolo-2", (draw(1, 32, 200, 200),), {"stride": [2]}),
    ("GatherElements-6", (draw(1000, 1000), draw_integers(1000, 1000, 1000)), {"axis": 1}),
    ("GatherND-8", (draw(1000, 1000), draw_integers(1000, 300000, 2)), {}),
    ("GatherND-8", (draw(1000, 1000), draw_integers(1000, 3000, 1)), {}),
    ("Gather-8", (draw(1000, 1000), draw_integers(1000, 3000), make_i64(0)), {}),
    ("Gather-8", (draw(1000, 1000), draw_integers(1000, 1000, 300), make_i64(1)), {"batch_dims": 1}),
    ("STFT-15", (draw(1, 500000), draw(1024), np.array(1024), np.array(512)), {"transpose_frames": False}),
    (
        "ISTFT-16",
        (draw(1, 513, 900, 2), draw(1024), np.array(1024), np.array(512)),
        {"center": False, "normalized": False},
    ),
    (
        "ReverseSequence-1",
        (draw(1000, 1000), draw_integers(1000, 1000).astype(np.int32)),
        {"batch_axis": 0, "seq_axis": 1},
    ),
    ("DFT-7", (draw(1000, 500, 2), make_i64(0, 1)), {}),
    ("IDFT-7", (draw(1000, 500, 2), make_i64(0, 1)), {}),
    ("RDFT-9", (draw(1000, 1000), make_i64(1)), {}),
    ("IRDFT-9", (draw(1000, 501, 2), make_i64(0, 1)), {}),
    (
        "ScatterElementsUpdate-12",
        (draw(1000, 1000), draw_integers(1000, 1000, 1000), draw(1000, 1000), np.array(0)),
        {"reduction": "sum"},
    ),
    (
        "ScatterElementsUpdate-12",
        (draw(1000, 1000), draw_integers(1000, 1000, 1000), draw(1000, 1000), np.array(0)),
        {"reduction": "mean"},
    ),
    ("ScatterElementsUpdate-3", (draw(1000, 1000), draw_integers(1000, 1000, 1000), draw(1000, 1000), np.array(0)), {}),
    ("ScatterNDUpdate-4", (draw(1000000), draw_integers(1000000, 1000000, 1), draw(1000000)), {}),
    ("ScatterNDUpdate-15", (draw(1000000), draw_integers(1000000, 1000000, 1), draw(1000000)), {"reduction": "sum"}),
    ("ScatterUpdate-3", (draw(1000, 1000), draw_integers(1000, 900), draw(900, 1000), np.array(0)), {}),
    ("AvgPool-1", (draw(1, 16, 250, 250),), dict(**POOL, kernel=[3, 3], exclude_pad=True)),
    ("MaxPool-1", (draw(1, 16, 250, 250),), dict(**POOL, kernel=[3, 3])),
    ("MaxPool-8", (draw(1, 16, 250, 250),), dict(**CONVOLUTION, kernel=[3, 3])),
    ("MVN-6", (draw(1000, 1000), make_i64(1)), {"normalize_variance": True, "eps": 1e-6, "eps_mode": "inside_sqrt"}),
    (
        "GatherTree-1",
        (
            draw_integers(10, 100, 100, 100).astype(np.int32),
            draw_integers(10, 100, 100, 100).astype(np.int32),
            np.full(100, 100, np.int32),
            np.array(0, np.int32),
        ),
        {},
    ),
    ("Softmax-8", (draw(1000, 1000),), {"axis": 1}),
    ("LogSoftmax-5", (draw(1000, 1000),), {"axis": 1}),
    ("LRN-1", (draw(1, 16, 250, 250), make_i64(1)), {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, "size": 5}),
    ("NormalizeL2-1", (draw(1000, 1000), make_i64(1)), {"eps": 1e-6, "eps_mode": "add"}),
    ("GroupNormalization-12", (draw(1, 16, 250, 250), draw(16), draw(16)), {"num_groups": 4, "epsilon": 1e-5}),
    ("BatchNormInference-5", (draw(1, 16, 250, 250), draw(16), draw(16), draw(16), draw(16)), {"epsilon": 1e-5}),
    ("Convolution-1", (draw(1, 16, 250, 250), draw(16, 16, 3, 3)), CONVOLUTION),
    ("GroupConvolution-1", (draw(1, 16, 250, 250), draw(16, 1, 1, 3, 3)), CONVOLUTION),
    ("ConvolutionBackpropData-1", (draw(1, 16, 250, 250), draw(16, 16, 3, 3)), CONVOLUTION),
    ("DeformableConvolution-8", (draw(1, 16, 200, 200), draw(1, 18, 198, 198), draw(16, 16, 3, 3)), CONVOLUTION),
    ("MatMul-1", (draw(1000, 1000), draw(1000, 1000)), {}),
    ("Einsum-7", (draw(1000, 1000), draw(1000, 1000)), {"equation": "ij,jk->ik"}),
    ("Inverse-14", (draw(500, 500),), {"adjoint": False}),
    (
        "Interpolate-11",
        (draw(1, 3, 600, 600), make_i64(700, 700), make_i64(2, 3)),
        {"mode": "cubic", "shape_calculation_mode": "sizes"},
    ),
    (
        "Interpolate-11",
        (draw(1, 3, 600, 600), make_i64(700, 700), make_i64(2, 3)),
        {"mode": "nearest", "shape_calculation_mode": "sizes"},
    ),
    (
        "Interpolate-11",
        (draw(1, 3, 600, 600), make_i64(700, 700), make_i64(2, 3)),
        {"mode": "linear_onnx", "shape_calculation_mode": "sizes"},
    ),
    (
        "PSROIPooling-1",
        (draw(1, 98, 100, 100), make_regions(300, 100)),
        {
            "output_dim": 2,
            "group_size": 7,
            "spatial_scale": 1.0,
            "mode": "average",
            "spatial_bins_x": 1,
            "spatial_bins_y": 1,
        },
    ),
    ("NonZero-3", (draw(1000, 1000) - F32(0.5),), {}),
    ("CumSum-3", (draw(1000, 1000), np.array(1)), {}),
    ("OneHot-1", (draw_integers(100, 20000), np.array(100), np.array(1, F32), np.array(0, F32)), {"axis": -1}),
    ("Concat-1", (draw(1000, 500), draw(1000, 500)), {"axis": 1}),
    ("Split-1", (draw(1000, 1000), np.array(1)), {"num_splits": 2}),
    ("Pad-12", (draw(1000, 1000), make_i64(10, 10), make_i64(10, 10)), {"pad_mode": "reflect"}),
    ("Roll-7", (draw(1000, 1000), make_i64(3), make_i64(1)), {}),
    ("Tile-1", (draw(500, 500), make_i64(2, 2)), {}),
    ("Transpose-1", (draw(1000, 1000), make_i64(1, 0)), {}),
    ("Reverse-1", (draw(1000, 1000), make_i64(1)), {"mode": "index"}),
    ("SpaceToDepth-1", (draw(1, 16, 250, 250),), {"mode": "blocks_first", "block_size": 2}),
    ("DepthToSpace-1", (draw(1, 16, 250, 250),), {"mode": "blocks_first", "block_size": 2}),
    ("SpaceToBatch-2", (draw(1, 16, 250, 250), make_i64(1, 1, 2, 2), make_i64(0, 0, 0, 0), make_i64(0, 0, 0, 0)), {}),
    ("BatchToSpace-2", (draw(4, 16, 125, 125), make_i64(1, 1, 2, 2), make_i64(0, 0, 0, 0), make_i64(0, 0, 0, 0)), {}),
    ("ShuffleChannels-1", (draw(1, 16, 250, 250),), {"axis": 1, "group": 4}),
    (
        "ExtractImagePatches-3",
        (draw(1, 3, 300, 300),),
        {"sizes": [3, 3], "strides": [1, 1], "rates": [1, 1], "auto_pad": "valid"},
    ),
    (
        "Col2Im-15",
        (draw(1, 27, 10000), make_i64(100, 100), make_i64(3, 3)),
        {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]},
    ),
    ("SegmentMax-16", (draw(1000, 1000), np.sort(draw_integers(100, 1000))), {"fill_mode": "ZERO"}),
    ("SearchSorted-15", (np.sort(draw(1000000)), draw(500000)), {}),
    ("Bucketize-3", (draw(1000000), np.sort(draw(100))), {}),
    ("ReduceMean-1", (draw(1000, 1000), make_i64(1)), {"keep_dims": True}),
    ("ReduceL2-4", (draw(1000, 1000), make_i64(1)), {}),
    ("ReduceSum-1", (draw(1000, 1000), make_i64(0)), {}),
    ("ReduceProd-1", (draw(1000, 1000), make_i64(1)), {}),
    (
        "RandomUniform-8",
        (make_i64(1000, 1000), np.array(0, F32), np.array(1, F32)),
        {"output_type": ELEMENT_TYPES["f32"]},
    ),
    ("Select-1", (draw(1000, 1000) > 0.5, draw(1000, 1000), draw(1000, 1000)), {}),
    ("FakeQuantize-1", (draw(1000, 1000), *[np.array(v, F32) for v in (0, 1, 0, 1)]), {"levels": 256}),
    ("Clamp-1", (draw(1000, 1000),), {"min": 0.0, "max": 1.0}),
    ("Elu-1", (draw(1000, 1000),), {"alpha": 1.0}),
    ("Convert-1", (draw(1000, 1000),), {"destination_type": ELEMENT_TYPES["f16"]}),
    ("Convert-1", (draw(1000, 1000),), {"destination_type": ELEMENT_TYPES["i8"]}),
    ("Power-1", (draw(1000, 1000), draw(1000, 1000)), {}),
    ("PRelu-1", (draw(1000, 1000), np.array(0.1, F32)), {}),
    ("Swish-4", (draw(1000, 1000),), {}),
    ("Gelu-7", (draw(1000, 1000),), {}),
    (
        "NonMaxSuppression-9",
        (make_boxes(3000), draw(1, 1, 3000), np.array(3000), np.array(0.5, F32), np.array(0, F32)),
        {},
    ),
    ("MatrixNms-8", (make_boxes(3000), draw(1, 1, 3000)), {"background_class": -1}),
    ("MulticlassNms-9", (make_boxes(3000), draw(1, 3, 3000)), {"background_class": -1}),
    (
        "ScaledDotProductAttention-13",
        (draw(1, 8, 500, 64), draw(1, 8, 500, 64), draw(1, 8, 500, 64)),
        {"causal": False},
    ),
    (
        "LSTMSequence-5",
        (
            draw(4, 200, 256),
            draw(4, 1, 256),
            draw(4, 1, 256),
            np.full(4, 200),
            draw(1, 1024, 256),
            draw(1, 1024, 256),
            draw(1, 1024),
        ),
        {"hidden_size": 256, "direction": "forward"},
    ),
    (
        "GRUSequence-5",
        (draw(4, 200, 256), draw(4, 1, 256), np.full(4, 200), draw(1, 768, 256), draw(1, 768, 256), draw(1, 768)),
        {"hidden_size": 256, "direction": "forward"},
    ),
    ("CTCGreedyDecoderSeqLen-6", (draw(10, 500, 200), np.full(10, 500, np.int32)), {}),
    ("CTCGreedyDecoderSeqLen-6", (draw(1 << 19, 1, 1), np.ones(1 << 19, np.int32)), {}),
    ("CTCGreedyDecoder-1", (draw(1, 1 << 19, 2), np.ones((1, 1 << 19), F32)), {}),
    ("CTCGreedyDecoder-1", (draw(1 << 19, 1, 1), np.ones((1 << 19, 1), F32)), {}),
    (
        "PriorBox-8",
        (make_i64(100, 100), make_i64(1000, 1000)),
        {
            "min_size": [10.0],
            "max_size": [20.0],
            "aspect_ratio": [2.0],
            "variance": [0.1],
            "scale_all_sizes": True,
            "offset": 0.5,
        },
    ),
    (
        "RegionYolo-1",
        (draw(1, 425, 60, 60),),
        {
            "anchors": [1.0] * 10,
            "axis": 1,
            "coords": 4,
            "classes": 80,
            "num": 5,
            "do_softmax": True,
            "end_axis": 3,
            "mask": [0],
        },
    ),
    (
        "Multinomial-13",
        (draw(10, 100000), np.array(5)),
        {"convert_type": ELEMENT_TYPES["i32"], "with_replacement": True, "log_probs": False},
    ),
    (
        "ExperimentalDetectronROIFeatureExtractor-6",
        (make_regions(500, 200, False), draw(1, 64, 100, 100), draw(1, 64, 50, 50)),
        {"output_size": 7, "sampling_ratio": 2, "pyramid_scales": [2, 4], "aligned": False},
    ),
    # Many small images.
    (
        "AvgPool-1",
        (draw(10000, 3, 7, 8),),
        {"kernel": [3, 3], "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "exclude_pad": False},
    ),
    ("MaxPool-8", (draw(10000, 3, 7, 8),), {**CONVOLUTION, "kernel": [3, 3], "axis": 0}),
    ("NV12toRGB-8", (draw(100000, 3, 2, 1),), {}),
    ("NV12toBGR-8", (draw(100000, 3, 2, 1),), {}),
    ("I420toRGB-8", ((draw(100000, 6, 6, 1) * 255).astype(np.uint8),), {}),
    ("I420toBGR-8", ((draw(100000, 6, 6, 1) * 255).astype(np.uint8),), {}),
    ("RGBtoNV12-17", (draw(1, 2, 500000, 3),), {}),
    ("BGRtoNV12-17", (draw(1, 2, 500000, 3),), {}),
    ("IRDFT-9", (draw(2, 4, 100000, 2), make_i64(0, 1)), {}),
    ("DFT-7", (draw(300000, 3, 2), make_i64(1)), {}),
    (
        "Col2Im-15",
        (draw(2, 16000, 16), make_i64(6, 8), make_i64(2, 2)),
        {"strides": [2, 3], "dilations": [2, 1], "pads_begin": [1, 0], "pads_end": [2, 3]},
    ),
    ("CTCLoss-4", (draw(2, 1, 500000), make_i64(1, 1), make_i64(0, 0).reshape(2, 1), make_i64(1, 1)), {}),
    (
        "Multinomial-13",
        (draw(300000, 5).astype(np.float16), np.array(5)),
        {"convert_type": ELEMENT_TYPES["i64"], "with_replacement": True, "log_probs": False},
    ),
    ("Inverse-14", (draw(300000, 1, 1) + 1,), {"adjoint": True}),
    ("Gather-8", (draw(3, 4).astype(np.int8), np.zeros((500000, 2), np.int64), np.array(0)), {}),
    (
        "Interpolate-11",
        (draw(1, 2, 4, 100000), make_i64(7, 4), make_i64(2, 3)),
        {"mode": "linear", "shape_calculation_mode": "sizes"},
    ),
    (
        "Interpolate-11",
        (draw(2, 4, 100000), make_i64(300000), make_i64(2)),
        {"mode": "cubic", "shape_calculation_mode": "sizes"},
    ),
    (
        "Interpolate-11",
        ((draw(2, 40, 5000) * 9).astype(np.int32), make_i64(80, 7000), make_i64(1, 2)),
        {"mode": "linear", "shape_calculation_mode": "sizes"},
    ),
    (
        "ExtractImagePatches-3",
        (draw(1, 40000, 4, 4),),
        {"sizes": [3, 3], "strides": [1, 1], "rates": [1, 1], "auto_pad": "same_upper"},
    ),
    ("MVN-6", (draw(1000000, 3), make_i64()), {"normalize_variance": True, "eps": 1e-3, "eps_mode": "inside_sqrt"}),
    ("STFT-15", (draw(2, 400000), draw(16), np.array(16), np.array(4)), {"transpose_frames": True}),
    ("ISTFT-16", (draw(2, 9, 50000, 2), draw(16), np.array(16), np.array(16)), {"center": False, "normalized": True}),
    (
        "ROIPooling-2",
        (draw(1, 2, 10, 10), make_regions(200000, 10)),
        {"pooled_h": 2, "pooled_w": 1, "spatial_scale": 1.0},
    ),
    (
        "StringTensorPack-15",
        (np.arange(100000, dtype=np.int32), np.arange(1, 100001, dtype=np.int32), np.full(100000, 97, np.uint8)),
        {},
    ),
    ("GroupedMatMul-17", (draw(5, 1), draw(1, 500000, 1), np.array([5])), {}),
    (
        "ExperimentalDetectronPriorGridGenerator-6",
        (draw(7, 4), draw(1, 1, 300, 400), draw(1, 3, 1200, 1600)),
        {"flatten": True, "h": 0, "w": 0, "stride_x": 0.0, "stride_y": 0.0},
    ),
    ("ReduceMean-1", (draw(1000, 1000), make_i64()), {}),
    ("Broadcast-3", (draw(1, 1000), make_i64(1000, 1000)), {"mode": "numpy"}),
    ("Eye-9", (np.array(1000), np.array(1000), np.array(0)), {"output_type": ELEMENT_TYPES["f32"]}),
    ("Range-4", (np.array(0, F32), np.array(1e6, F32), np.array(1, F32)), {"output_type": ELEMENT_TYPES["f32"]}),
]


class Recorder(MemoryBudget):
    """Keeps the largest size that a kernel checks."""

    largest = 0

    def __init__(self):
        super().__init__()
        self.large = 0

    def check(self, required):
        self.largest = max(self.largest, required)


def measure(operation, inputs, attributes):
    """Return the bytes that a kernel allocates besides its results, and what its card or its own check allows."""
    used, allowed, _, _ = measure_memory(operation, inputs, attributes)
    return used, allowed


def measure_memory(operation, inputs, attributes):
    """Return what `measure` returns, the bytes that a kernel checks, and all bytes that it allocates."""
    provided = {name: State() if kind is State else kind() for name, kind in operation.provided.items()}
    recorder = Recorder()
    with np.errstate(all="ignore"):
        with run_within(recorder):
            operation.kernel(*inputs, **attributes, **provided)  # what is kept between calls
        tracemalloc.start()
        try:
            outputs = operation.kernel(*inputs, **attributes, **provided)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    results = sum(x.nbytes for x in outputs if not any(np.may_share_memory(x, y) for y in inputs))

    # What estimates count: results of low precision as f32.
    width = sum(x.size * (4 if is_low_precision(x.dtype) else x.itemsize) for x in outputs)
    allowed = estimate_scratch(operation, inputs, max(width, sum(x.size * max(4, x.itemsize) for x in outputs)))
    allowed = max(allowed + width - sum(x.nbytes for x in outputs), recorder.largest - results)
    return peak - results, allowed, recorder.largest, peak


@cache
def measure_case(number):
    name, inputs, attributes = CASES[number]
    return measure_memory(find_operation(name), [np.asarray(x) for x in inputs], attributes)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_kernels_allocate_what_their_cards_or_checks_state(number):
    """A check may count temporary values that do not exist at the same time."""
    used, allowed, checked, total = measure_case(number)
    assert used <= allowed + CONSTANT
    assert checked <= 2.1 * total + CONSTANT


def test_cards_do_not_state_much_more_than_kernels_allocate():
    """A card has one number for all shapes, so that some need a third of it."""
    ratios = {}
    for number, (name, _, _) in enumerate(CASES):
        if find_operation(name).scratch > 1:
            used, allowed, _, _ = measure_case(number)
            ratios[name] = max(ratios.get(name, 0), used / allowed)
    assert len(ratios) > 30
    assert {name: ratio for name, ratio in ratios.items() if ratio < 1 / 3} == {}


@pytest.mark.parametrize("dtype", [F32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8], ids=lambda t: t.__name__)
def test_elementwise_kernels_allocate_no_more_than_their_cards_state(dtype):
    exceeded, measured = {}, 0
    for operation in list_operations():
        attributes = [a for a in operation.attributes if a.required]
        if operation.kind != "elementwise" or attributes or operation.type == "Bucketize":
            continue
        names = [x for x in operation.inputs if not x.optional]
        values = (RANDOM.random((512, 2048)) * 3 + 1).astype(dtype)
        inputs = [np.array(1, dtype) if i in operation.scalars else values for i in range(len(names))]
        try:
            used, allowed = measure(operation, inputs, {})
        except Exception:  # not defined for the type
            continue
        measured += 1
        if used > allowed + CONSTANT:
            exceeded[str(operation)] = used / values.nbytes
    assert measured >= 40
    assert exceeded == {}


@pytest.mark.parametrize("name", ["DFT-7", "IDFT-7", "RDFT-9", "IRDFT-9"])
def test_plans_of_transforms_count(name):
    """NumPy transforms a prime number of elements as a convolution of three times as many."""
    x = np.ones((500009,) if name == "RDFT-9" else (500009, 2), F32)
    size = () if name != "IRDFT-9" else (make_i64(500009),)
    with run_within(MemoryBudget(64 << 20)), pytest.raises(MemoryLimitError):
        find_operation(name).kernel(x, make_i64(0), *size)
