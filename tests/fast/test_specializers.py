"""Which constants and attributes have specialized kernels. All others are left to the plain kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import check, is_specialized, make_floats
from irrun.element_types import ELEMENT_TYPES

F32 = np.float32
X = make_floats((4, 6), 1)
IMAGE = make_floats((1, 2, 3, 4), 2)
I64, FLOAT_TYPE = {"output_type": ELEMENT_TYPES["i64"]}, {"output_type": ELEMENT_TYPES["f32"]}
MASKS = {"begin_mask": [], "end_mask": []}
CONSTANT = {"pad_mode": "constant"}
EPSILON = {"eps": 1e-5, "eps_mode": "inside_sqrt", "normalize_variance": True}
L2 = {"eps": 1e-5, "eps_mode": "add"}
NORM = {"epsilon": 1e-5}
GROUPS = {"epsilon": 1e-5, "num_groups": 2}
RESIZE = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}
WINDOW = {"strides": [1], "dilations": [1], "pads_begin": [0], "pads_end": [0]}
ATTEND = {"causal": False}


def ints(*values, dtype=np.int64):
    return np.array(values, dtype)


def floats(*values, dtype=F32):
    return np.array(values, dtype)


ONES, VECTOR = np.ones(6, F32), make_floats((4,), 3) ** 2
LEVELS = {"levels": 16}


def limits(*shapes):
    return [np.full(shape, v, F32) for shape, v in zip(shapes, (-1, 1, -1, 1), strict=True)]


#: Whether there is a specialized kernel, the operation, its inputs, the positions of constants and the attributes.
CASES = [
    # data movement
    (True, "Gather-8", [IMAGE, np.zeros((1, 2), np.int64), np.array(1)], (2,), {"batch_dims": 1}),
    (False, "Gather-8", [IMAGE, np.zeros((1, 2), np.int64), np.array(2)], (2,), {"batch_dims": 1}),
    (False, "Gather-8", [IMAGE, np.zeros((1, 2), np.int64), np.array(-1)], (2,), {"batch_dims": -1}),
    (False, "Gather-8", [IMAGE, np.zeros((1, 2), np.int64), np.array(1)], (1, 2), {"batch_dims": 1}),
    (False, "Gather-8", [X, ints(1), np.array(0)], (), {}),
    (False, "Gather-8", [X, ints(1), ints(0, 0)], (1, 2), {}),
    (False, "Gather-8", [X, ints(1), np.array(9)], (0, 2), {}),
    (False, "Gather-8", [X, ints(1), np.array(70)], (2,), {}),
    (False, "Gather-8", [X[:0], ints(1), np.array(1)], (0, 2), {}),
    (False, "Gather-8", [X, ints(), np.array(1)], (1, 2), {}),
    (True, "StridedSlice-1", [X, ints(-1), ints(0), ints(-1)], (1, 2, 3), {**MASKS, "end_mask": [1]}),
    (True, "StridedSlice-1", [X, ints(-1), ints(0), ints(-1)], (1, 2, 3), MASKS),
    (False, "StridedSlice-1", [X, ints(-2), ints(0), ints(-1)], (1, 2, 3), MASKS),
    (True, "StridedSlice-1", [X, ints(-2), ints(0), ints(-1)], (1, 2, 3), {**MASKS, "begin_mask": [1]}),
    (True, "StridedSlice-1", [X, ints(-2), ints(4), ints(1)], (1, 2, 3), MASKS),
    (True, "StridedSlice-1", [X, ints(2), ints(0), ints(-1)], (1, 2, 3), MASKS),
    (True, "StridedSlice-1", [X, ints(1, 1), ints(2, 3), None], (1, 2), {"begin_mask": [1], "end_mask": [1]}),
    (False, "StridedSlice-1", [X, ints(1), ints(2), ints(1)], (1, 2), MASKS),
    (False, "StridedSlice-1", [X, ints(1), ints(2)], (1,), MASKS),
    (False, "StridedSlice-1", [X, ints(1), ints(2)], (2,), MASKS),
    (False, "StridedSlice-1", [X, ints(1, 1), ints(2)], (1, 2), MASKS),
    (False, "StridedSlice-1", [X, ints(1), ints(2), ints(1, 1)], (1, 2, 3), MASKS),
    (False, "StridedSlice-1", [X, ints(1), ints(2), ints(0)], (1, 2, 3), MASKS),
    (False, "StridedSlice-1", [X, ints(0, 0), ints(1, 1)], (1, 2), {**MASKS, "ellipsis_mask": [1, 1]}),
    (True, "StridedSlice-1", [X, ints(0, 0), ints(1, 1)], (1, 2), {**MASKS, "ellipsis_mask": [1, 0]}),
    (True, "Slice-8", [X, ints(1), ints(3), ints(2)], (1, 2, 3), {}),
    (False, "Slice-8", [X, ints(3), ints(1), ints(-1)], (1, 2, 3), {}),
    (False, "Slice-8", [X, ints(3), ints(1), ints(0)], (1, 2, 3), {}),
    (False, "Slice-8", [X, ints(1), ints(3), ints(1), ints(0)], (1, 2, 3), {}),
    *[(False, "Slice-8", [X, ints(1), ints(3), ints(1)], c, {}) for c in ((1, 2), (1, 3), (2, 3))],
    (True, "Pad-12", [X, ints(0, 0), ints(0, 0)], (1, 2), CONSTANT),
    (True, "Pad-12", [X, ints(1, 0), ints(0, 2), np.array(1, F32)], (1, 2, 3), CONSTANT),
    (False, "Pad-12", [X, ints(1, 0), ints(0, 2), np.array(1, F32)], (1, 2), CONSTANT),
    (False, "Pad-12", [X, ints(1, 0), ints(0, 2), floats(1, 1)], (1, 2, 3), CONSTANT),
    (False, "Pad-12", [X, ints(1, 0), ints(0, -1)], (1, 2), CONSTANT),
    (False, "Pad-12", [X, ints(-1, 0), ints(0, 1)], (1, 2), CONSTANT),
    (False, "Pad-12", [X, ints(1), ints(0, 1)], (1, 2), CONSTANT),
    (False, "Pad-12", [X, ints(1, 0), ints(0, 1)], (1,), CONSTANT),
    (False, "Pad-12", [X, ints(1, 0), ints(0, 1)], (2,), CONSTANT),
    (False, "Pad-12", [X, ints(1, 0), ints(0, 1)], (1, 2), {"pad_mode": "edge"}),
    (False, "Split-1", [X, np.array(0)], (), {"num_splits": 2}),
    (False, "VariadicSplit-1", [X, np.array(0), ints(1, 3)], (1,), {}),
    (False, "VariadicSplit-1", [X, np.array(0), ints(1, 3)], (2,), {}),
    (False, "Transpose-1", [X, ints(1, 0)], (), {}),
    # shapes
    (True, "Squeeze-1", [X[:1], ints(0)], (1,), {}),
    (True, "Squeeze-1", [X[:1]], (), {}),
    (False, "Squeeze-1", [X[:1], ints(0)], (), {}),
    (False, "Unsqueeze-1", [X, ints(0)], (), {}),
    (True, "Reshape-1", [X, ints(6, 4)], (), {"special_zero": False}),
    (False, "Reshape-1", [X, ints(6, 4)], (0,), {"special_zero": False}),
    (True, "Broadcast-3", [X, ints(2, 4, 6)], (), {"mode": "numpy"}),
    (True, "Broadcast-3", [X, ints(2, 4, 6)], (1,), {"mode": "bidirectional"}),
    (False, "Broadcast-3", [X, ints(2, 4, 6)], (), {"mode": "bidirectional"}),
    (False, "Broadcast-3", [X, ints(2, 4, 6), ints(1, 2)], (1, 2), {"mode": "explicit"}),
    (False, "Broadcast-3", [X, ints(2, 4, 6), ints(1, 2)], (1, 2), {"mode": "numpy"}),
    (False, "Tile-1", [X, ints(2, 1)], (), {}),
    (True, "Range-4", [np.array(0), np.array(5), np.array(1)], (0, 2), I64),
    (True, "Range-4", [np.array(0), np.array(5), np.array(1)], (), I64),
    (False, "Range-4", [np.array(0), np.array(5), np.array(1)], (0, 2), FLOAT_TYPE),
    (False, "Range-4", [np.array(0), np.array(5), np.array(0.5)], (0, 2), I64),
    (False, "Range-4", [np.array(0), np.array(5), ints(1, 1)], (0, 2), I64),
    # reductions and normalizations
    (False, "ReduceSum-1", [X, ints(0)], (), {"keep_dims": True}),
    (True, "Softmax-1", [X], (), {"axis": 0}),
    (False, "Softmax-1", [X], (), {"axis": -1}),
    (True, "Softmax-8", [X], (), {"axis": -1}),
    (False, "MVN-6", [X, ints(0)], (), EPSILON),
    (True, "NormalizeL2-1", [X, ints(0)], (1,), L2),
    (False, "NormalizeL2-1", [X, ints()], (1,), L2),
    (False, "NormalizeL2-1", [X, ints(0)], (), L2),
    (True, "BatchNormInference-5", [X, ONES, ONES, ONES, ONES], (1, 2, 3, 4), NORM),
    *[(False, "BatchNormInference-5", [X, ONES, ONES, ONES, ONES], {1, 2, 3, 4} - {i}, NORM) for i in range(1, 5)],
    (False, "BatchNormInference-5", [X, ONES, ONES[:5], ONES, ONES], (1, 2, 3, 4), NORM),
    (False, "BatchNormInference-5", [X, ONES[None], ONES[None], ONES[None], ONES[None]], (1, 2, 3, 4), NORM),
    (False, "BatchNormInference-5", [X, ONES, ONES, ONES, ONES.astype(float)], (1, 2, 3, 4), NORM),
    (True, "GroupNormalization-12", [X, ONES, ONES], (1, 2), GROUPS),
    (False, "GroupNormalization-12", [X, ONES, ONES], (1,), GROUPS),
    (False, "GroupNormalization-12", [X, ONES, ONES], (2,), GROUPS),
    (False, "GroupNormalization-12", [X, ONES, ONES.astype(float)], (1, 2), GROUPS),
    (False, "GroupNormalization-12", [X, ONES.astype(float), ONES], (1, 2), GROUPS),
    (False, "GroupNormalization-12", [X, ONES, ONES[:1]], (1, 2), GROUPS),
    (False, "GroupNormalization-12", [X, ONES[None], ONES[None]], (1, 2), GROUPS),
    (False, "GroupNormalization-12", [X, ONES, ONES], (1, 2), {**GROUPS, "num_groups": 4}),
    (False, "GroupNormalization-12", [X, ONES, ONES], (1, 2), {**GROUPS, "num_groups": 0}),
    (True, "GroupNormalization-12", [X, ONES, ONES], (1, 2), {**GROUPS, "num_groups": 1}),
    (False, "TopK-3", [X, np.array(2)], (), {"axis": -1, "mode": "max", "sort": "value"}),
    (False, "TopK-3", [X, ints(2, 2)], (1,), {"axis": -1, "mode": "max", "sort": "value"}),
    # arithmetic
    (True, "Divide-1", [ints(7, 8), ints(2, -3)], (1,), {}),
    (False, "Divide-1", [ints(7, 8), ints(2, 0)], (1,), {}),
    (False, "Divide-1", [ints(7, 8), ints(2, -3)], (1,), {"m_pythondiv": False}),
    (True, "Mod-1", [X, floats(0.3)], (1,), {}),
    (True, "Mod-1", [X, floats(0)], (1,), {}),
    (False, "Mod-1", [X, floats(np.inf)], (1,), {}),
    (False, "Mod-1", [X, floats(0.3)], (), {}),
    (False, "Mod-1", [X.astype(np.float16), floats(0.3, dtype=np.float16)], (1,), {}),
    (True, "FloorMod-1", [ints(7, 8), ints(2, -3)], (1,), {}),
    (False, "FloorMod-1", [ints(7, 8), ints(2, 0)], (1,), {}),
    (True, "Maximum-1", [X, floats(1)], (1,), {}),
    (False, "Maximum-1", [X, floats(np.nan)], (1,), {}),
    (False, "Maximum-1", [X, floats(1)], (0,), {}),
    (False, "Maximum-1", [X, X], (), {"auto_broadcast": "none"}),
    (False, "Maximum-1", [X, floats(1)], (1,), {"auto_broadcast": "none"}),
    (False, "Power-1", [X, floats(2)], (1,), {"auto_broadcast": "pdpd"}),
    (True, "Power-1", [X, floats(2)], (0,), {}),
    (True, "Select-1", [X > 0, X, X], (1,), {}),
    (True, "Select-1", [X > 0, X, X], (1, 2), {}),
    (False, "Select-1", [X > 0, X, X], (0,), {}),
    (False, "Select-1", [X > 0, X, X.astype(float)], (1, 2), {}),
    (False, "Select-1", [X > 0, X, X], (), {"auto_broadcast": "none"}),
    # functions
    (False, "PRelu-1", [X, ONES], (), {}),
    (False, "PRelu-1", [X, ONES.astype(float)], (1,), {}),
    (False, "PRelu-1", [X, ONES * np.inf], (1,), {}),
    (False, "Clamp-1", [X], (), {"min": 2.0, "max": 1.0}),
    (True, "Clamp-1", [X], (), {"min": 1.0, "max": 1.0}),
    (False, "Swish-4", [X, floats(1.5)], (), {}),
    (False, "Round-5", [X], (), {"mode": "half_away_from_zero"}),
    (False, "ConvertLike-1", [X, ints(1)], (), {}),
    (False, "ConvertLike-1", [X, ints(1)], (0,), {}),
    (True, "FakeQuantize-1", [X, *limits((), (), (), ())], (1, 2, 3, 4), LEVELS),
    (True, "FakeQuantize-1", [X, *limits((6,), (), (1, 6), ())], (1, 2, 3, 4), LEVELS),
    (False, "FakeQuantize-1", [X, *limits((6,), (4, 1), (), ())], (1, 2, 3, 4), LEVELS),
    (False, "FakeQuantize-1", [X, *limits((), (), (), ())], (1, 2, 3), LEVELS),
    (False, "FakeQuantize-1", [X, *limits((), (), (), ())[:3], np.ones(())], (1, 2, 3, 4), LEVELS),
    (False, "FakeQuantize-1", [X, *limits((), (), (), ())], (1, 2, 3, 4), {**LEVELS, "auto_broadcast": "none"}),
    (False, "FakeQuantize-1", [X, *limits((), (), (), ())[::-1]], (1, 2, 3, 4), LEVELS),
    (False, "FakeQuantize-1", [X, *limits((6,), (), (), ())[::-1]], (1, 2, 3, 4), LEVELS),
    # products and images
    (True, "Interpolate-11", [IMAGE, ints(6, 8), ints(2, 3)], (1, 2), {**RESIZE, "mode": "cubic"}),
    (False, "Interpolate-11", [IMAGE, ints(6, 8), ints(2, 3)], (1, 2), {**RESIZE, "mode": "bilinear_pillow"}),
    (False, "Interpolate-11", [IMAGE, ints(6, 8), ints(2, 3)], (1, 2), {**RESIZE, "antialias": True}),
    (False, "Interpolate-11", [IMAGE, ints(6, 8), ints(2, 3)], (1, 2), {**RESIZE, "pads_begin": [0, 0, 1, 0]}),
    (False, "Interpolate-11", [IMAGE, ints(6, 8), ints(2, 3)], (1, 2), {**RESIZE, "pads_end": [0, 0, 1, 0]}),
    (True, "Interpolate-11", [IMAGE, ints(6, 8), ints(2, 3)], (1, 2), {**RESIZE, "pads_begin": [0], "pads_end": [0]}),
    (False, "Interpolate-11", [IMAGE, ints(6, 8), ints(2, 3)], (0,), RESIZE),
    (True, "ScaledDotProductAttention-13", [X[None]] * 3, (), ATTEND),
    (True, "ScaledDotProductAttention-13", [*[X[None]] * 3, np.zeros((4, 4), F32)], (3,), ATTEND),
    (False, "ScaledDotProductAttention-13", [X[None]] * 3, (2,), ATTEND),
    (False, "ScaledDotProductAttention-13", [X[None]] * 3, (0,), ATTEND),
    (False, "ScaledDotProductAttention-13", [*[X[None]] * 3, np.zeros((4, 4), F32), floats(1), np.zeros((1, 1), F32)],
     (), ATTEND),
    (True, "MatMul-1", [X, X], (1,), {"transpose_b": True}),
    (False, "MatMul-1", [X, ONES], (1,), {}),
    (False, "MatMul-1", [X, IMAGE[0].swapaxes(1, 2)], (1,), {}),
    (False, "MatMul-1", [X, X.astype(float)], (1,), {"transpose_b": True}),
    (False, "MatMul-1", [X, X], (1,), {"transpose_a": True}),
    (False, "MatMul-1", [X, X], (0,), {"transpose_b": True}),
    (True, "Convolution-1", [X[None], make_floats((2, 4, 3))], (1,), WINDOW),
    (False, "Convolution-1", [X[None], make_floats((2, 4, 3))], (), WINDOW),
    (False, "Convolution-1", [X[None], make_floats((2, 4, 3)).astype(float)], (1,), WINDOW),
    (False, "Convolution-1", [X, make_floats((2, 6))], (1,), {name: [] for name in WINDOW}),
    (False, "Convolution-1", [X[None], make_floats((0, 4, 3))], (1,), WINDOW),
    (True, "GroupConvolution-1", [X[None], make_floats((2, 1, 2, 3))], (1,), WINDOW),
    (True, "GroupConvolution-1", [X[None], make_floats((4, 1, 1, 3))], (1,), {name: [] for name in WINDOW}),
]  # fmt: skip


def compare(a, b, _):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("expected", "name", "inputs", "constants", "attributes"), CASES, ids=lambda v: str(v)[:30])
def test_operations_are_specialized_for_these_constants(expected, name, inputs, constants, attributes):
    constants = tuple(sorted(constants))
    assert is_specialized(name, inputs, constants, **attributes) == expected
    outputs = {"Split-1": 2, "VariadicSplit-1": 2, "TopK-3": 2}.get(name, 1)
    check(name, inputs, attributes, constants=constants, outputs=outputs, compare=compare)
