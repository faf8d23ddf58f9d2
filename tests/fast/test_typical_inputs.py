"""Typical inputs are computed by the specialized kernels themselves.

A specialized kernel that fails leaves its inputs to the plain one, which returns the same, but slowly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fast.harness import find_operation, make_floats, make_programs
from irrun.element_types import ELEMENT_TYPES
from irrun.fast.specialization import CallSite
from irrun.fast.support import TILE

F32, I32, I64 = np.float32, np.int32, np.int64
ANY: dict[str, Any] = {}
UNARY = (
    "Abs-1 Ceiling-1 Cos-1 Erf-1 Exp-1 Floor-1 Gelu-2 Gelu-7 HSigmoid-5 HSwish-4 Log-1 Mish-4 Negative-1 Relu-1 "
    "Round-5 Sigmoid-1 Sign-1 Sin-1 SoftPlus-4 SoftSign-9 Sqrt-1 Tanh-1"
)
BINARY = (
    "Add-1 Divide-1 Equal-1 Greater-1 GreaterEqual-1 Less-1 LessEqual-1 Maximum-1 Minimum-1 Multiply-1 NotEqual-1 "
    "Subtract-1 SquaredDifference-1"
)
REDUCTIONS = "ReduceL1-4 ReduceL2-4 ReduceMax-1 ReduceMean-1 ReduceMin-1 ReduceProd-1 ReduceSum-1"


def f32(*shape: int) -> np.ndarray:
    return np.abs(make_floats(shape)) + np.float32(0.1)


def i64(*values: int) -> np.ndarray:
    return np.array(values, I64)


def draw(shape, high, dtype=I64):
    return np.random.default_rng(0).integers(0, high, shape).astype(dtype)


NUMPY = {"auto_broadcast": "numpy"}
CLIPPED = {"auto_broadcast": "numpy", "levels": 256}
LIMITS = [np.array(v, F32) for v in (-1, 1, -1, 1)]
CHANNEL_LIMITS = [
    np.full((1, 3, 1, 1), v, F32) + np.arange(3, dtype=F32).reshape(1, 3, 1, 1) / 9 for v in (-1, 1, -1, 1)
]
EPSILON = {"eps": 1e-5, "eps_mode": "inside_sqrt", "normalize_variance": True}
CELL = {"hidden_size": 4}
SEQUENCE = {"hidden_size": 4, "direction": "forward"}
SLICE = {"begin_mask": [], "end_mask": []}
IMAGE = {"mode": "linear_onnx", "shape_calculation_mode": "sizes"}
WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
BOOLS = draw((3, 5), 2).astype(bool)

#: Operation, inputs, positions of constants, attributes, number of outputs.
CASES: list[tuple[str, list[Any], tuple[int, ...], dict[str, Any], int]] = [
    *[(name, [f32(3, 5)], (), ANY, 1) for name in UNARY.split()],
    *[(name, [f32(3, TILE // 2)], (), ANY, 1) for name in ("Exp-1", "Erf-1", "Gelu-7", "Sigmoid-1", "Tanh-1")],
    *[(name, [f32(3, 5), f32(5)], (), ANY, 1) for name in BINARY.split()],
    *[(name, [f32(3, 5), f32(5)], (1,), ANY, 1) for name in BINARY.split()],
    *[(name, [f32(3, 5), f32(1)], (0,), ANY, 1) for name in ("Add-1", "Divide-1", "Less-1", "Multiply-1")],
    *[(name, [f32(3, 5), i64(1)], (1,), {"keep_dims": False}, 1) for name in REDUCTIONS.split()],
    *[(name, [f32(3, 5), i64(-1)], (1,), {"keep_dims": True}, 1) for name in REDUCTIONS.split()],
    *[(f"ReduceLogical{kind}-1", [BOOLS, i64(1)], (1,), {"keep_dims": False}, 1) for kind in ("And", "Or")],
    *[(f"Logical{kind}-1", [BOOLS, BOOLS[:1]], (), ANY, 1) for kind in ("And", "Or", "Xor")],
    ("LogicalNot-1", [BOOLS], (), ANY, 1),
    ("Clamp-1", [f32(3, 5)], (), {"min": 0.2, "max": 0.5}, 1),
    ("Elu-1", [f32(3, 5) - 1], (), {"alpha": 0.5}, 1),
    ("Selu-1", [f32(3, 5) - 1, np.array([1.5], F32), np.array([0.5], F32)], (1, 2), ANY, 1),
    ("HardSigmoid-1", [f32(3, 5), np.array(0.2, F32), np.array(0.5, F32)], (1, 2), ANY, 1),
    ("PRelu-1", [f32(3, 5) - 1, np.array([0.25], F32)], (1,), ANY, 1),
    ("PRelu-1", [f32(3, 5) - 1, np.array([0.25, 2, -1, 0, 1], F32)], (1,), ANY, 1),
    ("Swish-4", [f32(3, 5)], (), ANY, 1),
    ("Swish-4", [f32(3, 5), np.array(1.5, F32)], (1,), ANY, 1),
    *[("Power-1", [f32(3, 5), np.array(p, F32)], (1,), ANY, 1) for p in (2, 3, 0.5, -1, -0.5, 1.75)],
    ("Power-1", [f32(3, 5), f32(5)], (1,), ANY, 1),
    ("Power-1", [f32(3, 5), f32(5)], (), ANY, 1),
    *[(name, [draw((3, 5), 9), i64(4)], (1,), ANY, 1) for name in ("Mod-1", "FloorMod-1", "Add-1", "Multiply-1")],
    ("Mod-1", [f32(3, 5), np.array(0.3, F32)], (1,), ANY, 1),
    ("Select-1", [BOOLS, f32(3, 5), f32(5)], (), ANY, 1),
    ("Select-1", [BOOLS, f32(3, 5), np.array(0, F32)], (2,), ANY, 1),
    ("Convert-1", [f32(3, 5)], (), {"destination_type": ELEMENT_TYPES["i32"]}, 1),
    ("Convert-1", [draw((3, 5), 9, I32)], (), {"destination_type": ELEMENT_TYPES["f32"]}, 1),
    ("ConvertLike-1", [draw((3, 5), 9), f32(1)], (1,), ANY, 1),
    ("Concat-1", [f32(3, 5), f32(2, 5)], (), {"axis": 0}, 1),
    ("Concat-1", [f32(3, 5), f32(3, 2)], (1,), {"axis": -1}, 1),
    ("Gather-8", [f32(6, 5), draw((2, 3), 6), np.array(0)], (2,), {"batch_dims": 0}, 1),
    ("Gather-8", [f32(6, 5), draw((2, 3), 6), np.array(0)], (0, 2), {"batch_dims": 0}, 1),
    ("Gather-8", [f32(6, 5), i64(-1, 2), np.array(1)], (1, 2), {"batch_dims": 0}, 1),
    ("Gather-8", [f32(6, 5), np.array(2), np.array(0)], (1, 2), {"batch_dims": 0}, 1),
    ("Gather-7", [f32(6, 5), draw((2, 3), 6), np.array(0)], (2,), {"batch_dims": 0}, 1),
    ("Gather-1", [f32(6, 5), draw((2, 3), 6), np.array(0)], (2,), ANY, 1),
    ("Pad-1", [f32(3, 5), i64(1, 0), i64(0, 2)], (1, 2), {"pad_mode": "constant"}, 1),
    ("Pad-12", [f32(3, 5), i64(1, 0), i64(0, 2), np.array(2, F32)], (1, 2, 3), {"pad_mode": "constant"}, 1),
    ("Slice-8", [f32(6, 5), i64(1), i64(5), i64(2), i64(0)], (1, 2, 3, 4), ANY, 1),
    ("StridedSlice-1", [f32(6, 5), i64(1, 0), i64(5, 3), i64(2, 1)], (1, 2, 3), SLICE, 1),
    ("StridedSlice-1", [f32(6, 5), i64(1, 0), i64(2, 0)], (1, 2), {"begin_mask": [], "end_mask": [0, 1]}, 1),
    ("Split-1", [f32(6, 5), np.array(0)], (1,), {"num_splits": 3}, 3),
    ("Split-1", [f32(6, 4), np.array(-1)], (1,), {"num_splits": 2}, 2),
    ("VariadicSplit-1", [f32(6, 5), np.array(0), i64(1, -1, 2)], (1, 2), ANY, 3),
    ("VariadicSplit-1", [f32(6, 5), np.array(1), i64(2, 3)], (1, 2), ANY, 2),
    ("Transpose-1", [f32(2, 3, 4), i64(2, 0, 1)], (1,), ANY, 1),
    ("Transpose-1", [f32(2, 3, 4), i64()], (1,), ANY, 1),
    ("Reshape-1", [f32(6, 4), i64(0, -1, 2)], (1,), {"special_zero": True}, 1),
    ("Reshape-1", [f32(6, 4), i64(3, 8)], (), {"special_zero": False}, 1),
    ("ShapeOf-1", [f32(6, 4)], (), ANY, 1),
    ("ShapeOf-3", [f32(6, 4)], (), {"output_type": ELEMENT_TYPES["i32"]}, 1),
    ("Squeeze-1", [f32(6, 1, 4), i64(1)], (1,), ANY, 1),
    ("Unsqueeze-1", [f32(6, 4), i64(0, 2)], (1,), ANY, 1),
    ("Tile-1", [f32(6, 4), i64(2, 3)], (1,), ANY, 1),
    ("Broadcast-3", [f32(1, 4), i64(3, 4)], (1,), {"mode": "numpy"}, 1),
    ("Broadcast-3", [f32(1, 4), i64(3, 4)], (0,), {"mode": "numpy"}, 1),
    ("Broadcast-1", [f32(1, 4), i64(3, 4)], (1,), {"mode": "numpy"}, 1),
    *[(f"Softmax-{v}", [f32(3, 5)], (), {"axis": 1}, 1) for v in (1, 8)],
    ("Softmax-8", [f32(80, 2000)], (), {"axis": -1}, 1),
    ("Softmax-8", [f32(3, 40, 5)], (), {"axis": 1}, 1),
    ("LogSoftmax-5", [f32(3, 5)], (), {"axis": -1}, 1),
    ("MVN-6", [f32(3, 5), i64(-1)], (1,), EPSILON, 1),
    ("MVN-6", [f32(3, 4, 5), i64(1, 2)], (1,), {**EPSILON, "normalize_variance": False}, 1),
    ("MVN-6", [f32(80, 2000), i64(-1)], (1,), {**EPSILON, "eps_mode": "outside_sqrt"}, 1),
    ("MVN-2", [f32(1, 3, 4, 5)], (), {"eps": 1e-5, "across_channels": False, "normalize_variance": True}, 1),
    ("NormalizeL2-1", [f32(3, 5), i64(1)], (1,), {"eps": 1e-5, "eps_mode": "add"}, 1),
    ("NormalizeL2-1", [f32(3, 5), i64(1)], (1,), {"eps": 1e-5, "eps_mode": "max"}, 1),
    ("BatchNormInference-5", [f32(2, 3, 4), *[f32(3)] * 4], (1, 2, 3, 4), {"epsilon": 1e-5}, 1),
    ("GroupNormalization-12", [f32(2, 4, 5), f32(4), f32(4)], (1, 2), {"num_groups": 2, "epsilon": 1e-5}, 1),
    *[(f"TopK-{v}", [f32(3, 9), np.array(k)], (1,), {"axis": -1, "mode": m, "sort": "value"}, 2)
      for v in (1, 3, 11) for k, m in ((1, "max"), (1, "min"), (4, "max"), (4, "min"))],
    ("TopK-3", [draw((3, 9), 99, I32), np.array(4)], (1,), {"axis": 1, "mode": "max", "sort": "index"}, 2),
    ("MatMul-1", [f32(3, 5), f32(5, 4)], (), ANY, 1),
    ("MatMul-1", [f32(3, 5), f32(5, 4)], (1,), ANY, 1),
    ("MatMul-1", [f32(3, 5), f32(4, 5)], (1,), {"transpose_b": True}, 1),
    ("MatMul-1", [f32(2, 3, 5), f32(2, 4, 5)], (), {"transpose_b": True}, 1),
    ("FakeQuantize-1", [f32(2, 3, 4, 4), *LIMITS], (1, 2, 3, 4), CLIPPED, 1),
    ("FakeQuantize-1", [f32(2, 3, 4, 4), *CHANNEL_LIMITS], (1, 2, 3, 4), CLIPPED, 1),
    ("GatherTree-1", [draw((4, 2, 3), 9, I32), draw((4, 2, 3), 3, I32), np.array([3, 4], I32), np.array(9, I32)],
     (), ANY, 1),
    ("ScaledDotProductAttention-13", [f32(2, 4, 8), f32(2, 6, 8), f32(2, 6, 8)], (), {"causal": False}, 1),
    ("ScaledDotProductAttention-13", [f32(2, 4, 8), f32(2, 4, 8), f32(2, 4, 8)], (), {"causal": True}, 1),
    ("ScaledDotProductAttention-13", [f32(2, 4, 8), f32(2, 6, 8), f32(2, 6, 8), f32(1, 6)], (), {"causal": False}, 1),
    ("Interpolate-11", [f32(1, 2, 6, 6), i64(9, 12), i64(2, 3)], (1, 2), IMAGE, 1),
    ("Convolution-1", [f32(1, 3, 8, 8), f32(4, 3, 3, 3)], (1,), WINDOW, 1),
    ("GroupConvolution-1", [f32(1, 4, 8, 8), f32(4, 1, 1, 3, 3)], (1,), WINDOW, 1),
    ("RNNCell-1", [f32(2, 3), f32(2, 4), f32(4, 3), f32(4, 4), f32(4)], (2, 3, 4), CELL, 1),
    ("GRUCell-3", [f32(2, 3), f32(2, 4), f32(12, 3), f32(12, 4), f32(12)], (2, 3, 4), CELL, 1),
    ("LSTMCell-4", [f32(2, 3), f32(2, 4), f32(2, 4), f32(16, 3), f32(16, 4), f32(16)], (3, 4, 5), CELL, 2),
    ("LSTMSequence-5", [f32(2, 5, 3), f32(2, 1, 4), f32(2, 1, 4), i64(5, 4), f32(1, 16, 3), f32(1, 16, 4), f32(1, 16)],
     (4, 5, 6), SEQUENCE, 3),
    ("GRUSequence-5", [f32(2, 5, 3), f32(2, 1, 4), i64(5, 5), f32(1, 12, 3), f32(1, 12, 4), f32(1, 12)], (3, 4, 5),
     SEQUENCE, 2),
    ("RNNSequence-5", [f32(2, 5, 3), f32(2, 1, 4), i64(5, 5), f32(1, 4, 3), f32(1, 4, 4), f32(1, 4)], (3, 4, 5),
     SEQUENCE, 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "inputs", "constants", "attributes", "outputs"), CASES, ids=[c[0] for c in CASES])
def test_specialized_kernel_computes_typical_inputs_itself(name, inputs, constants, attributes, outputs, monkeypatch):
    """After the first runs, in which a kernel may learn from the plain one, it is not called any more."""
    operation, calls = find_operation(name), []
    call_plain = CallSite.call_plain

    def record(site, *arguments):
        calls.append(site)
        return call_plain(site, *arguments)

    monkeypatch.setattr(CallSite, "call_plain", record)
    bound = dict(attributes)
    _, fast = make_programs(operation, inputs, bound, constants, outputs)
    (instruction,) = fast.instructions
    assert instruction.plain, "the kernel is not specialized"
    arguments = [x for i, x in enumerate(inputs) if i not in constants]
    for _ in range(3):
        result = instruction.kernel(*arguments)
    calls.clear()
    result = instruction.kernel(*arguments)
    assert not calls
    expected = operation.kernel(*inputs, **bound)
    actual_outputs, expected_outputs = (v if isinstance(v, (tuple, list)) else [v] for v in (result, expected))
    for a, b in zip(actual_outputs, expected_outputs, strict=True):
        assert (np.asarray(a).dtype, np.asarray(a).shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
