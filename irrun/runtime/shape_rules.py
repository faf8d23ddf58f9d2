"""Rules for the shapes of the outputs of operations, where running the kernel would take long."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from irrun.ops._support.operation import Operation
from irrun.ops._support.windows import create_windows

__all__ = [
    "RULES",
    "SHAPED_BY_INPUT",
    "SHAPE_INPUTS",
    "VALUE_DEPENDENT",
    "Rule",
    "Shape",
    "Shapes",
    "fails_for_shapes_only",
    "find_rule",
]

Shape = tuple[int, ...]
#: The shapes of the outputs of a layer; None for unknown ones.
Shapes = Sequence[Shape | None]
#: A rule is passed the shapes of the inputs and the attributes. It raises ValueError for shapes that do not fit.
Rule = Callable[[Sequence[Shape], Mapping[str, Any]], Shapes]

#: Inputs whose values determine the shapes of the outputs.
SHAPE_INPUTS = {
    "AdaptiveAvgPool": (1,),
    "AdaptiveMaxPool": (1,),
    "BatchToSpace": (1, 2, 3),
    "Broadcast": (1, 2),
    "Col2Im": (1, 2),
    "ConvolutionBackpropData": (2,),
    "DFT": (1, 2),
    "EmbeddingSegmentsSum": (3,),
    "Eye": (0, 1, 3),
    "Gather": (2,),
    "GroupConvolutionBackpropData": (2,),
    "IDFT": (1, 2),
    "IRDFT": (1, 2),
    "ISTFT": (2, 3, 4),
    "Interpolate": (1, 2, 3),
    "Multinomial": (1,),
    "OneHot": (1,),
    "Pad": (1, 2),
    "PriorBox": (0, 1),
    "PriorBoxClustered": (0, 1),
    "RDFT": (1, 2),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogicalAnd": (1,),
    "ReduceLogicalOr": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "Reshape": (1,),
    "STFT": (2, 3),
    "SegmentMax": (1, 2),
    "Slice": (1, 2, 3, 4),
    "SpaceToBatch": (1, 2, 3),
    "SparseFillEmptyRows": (0, 1, 2),
    "Split": (1,),
    "Squeeze": (1,),
    "StridedSlice": (1, 2, 3),
    "Tile": (1,),
    "TopK": (1,),
    "Transpose": (1,),
    "Unsqueeze": (1,),
    "VariadicSplit": (1, 2),
}

#: Operations whose output has the shape that an input contains, by the position of the input. They are those whose
#: kernels cannot run without an infer request.
SHAPED_BY_INPUT = {"RandomUniform": 0}

#: Operations whose output has the shape of the first input.
SAME_SHAPE = frozenset(
    {
        "Convert",
        "ConvertLike",
        "CumSum",
        "FakeConvert",
        "FakeQuantize",
        "GRN",
        "GroupNormalization",
        "LRN",
        "LeakyRelu",
        "LogSoftmax",
        "MVN",
        "NormalizeL2",
        "PRelu",
        "PowerStatic",
        "RMS",
        "Reverse",
        "ReverseSequence",
        "Roll",
        "ScatterElementsUpdate",
        "ScatterNDUpdate",
        "ScatterUpdate",
        "ShuffleChannels",
        "SliceScatter",
        "Softmax",
        "SwishCPU",
    }
)

#: Operations whose kernels fail for wrong shapes, attributes and values of `SHAPE_INPUTS`, and for nothing else, in
#: addition to reductions, elementwise operations and operations with rules.
FAIL_FOR_SHAPES_ONLY = frozenset(
    {
        "BatchToSpace",
        "Broadcast",
        "Clamp",
        "Concat",
        "ConvolutionBackpropData",
        "DepthToSpace",
        "Gather",
        "GatherElements",
        "GatherND",
        "GroupConvolutionBackpropData",
        "Interpolate",
        "LRN",
        "LogSoftmax",
        "Pad",
        "Reshape",
        "ShuffleChannels",
        "Slice",
        "Softmax",
        "SpaceToBatch",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "StridedSlice",
        "Transpose",
        "Unsqueeze",
        "VariadicSplit",
    }
)

#: Operations that are declared elementwise, whose kernels reject attributes that OpenVINO accepts.
STRICTER_THAN_OPENVINO = frozenset({"CumSum", "FakeQuantize"})

#: Operations that are declared elementwise, but whose output has another shape.
NOT_ELEMENTWISE = frozenset({"SegmentMax"})


def find_rule(operation: Operation) -> Rule | None:
    """Return the rule for the output shapes of an operation, or None if its kernel has to run."""
    if operation.type in RULES:
        return RULES[operation.type]
    if operation.type in SAME_SHAPE:
        return _keep_first_shape
    if operation.kind == "elementwise" and operation.type not in NOT_ELEMENTWISE:
        return _broadcast_operands if operation.type != "Select" else _broadcast_branches
    return None


def fails_for_shapes_only(operation: Operation) -> bool:
    """Return whether the failure of a kernel or rule on arbitrary values means that it fails on all values."""
    if operation.type in STRICTER_THAN_OPENVINO:
        return False
    is_listed = operation.type in FAIL_FOR_SHAPES_ONLY or operation.type in RULES
    return is_listed or operation.kind == "elementwise" or operation.type.startswith("Reduce")


def _keep_first_shape(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    return [shapes[0]]


def _broadcast_operands(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    """Return the shape of an elementwise operation, which without broadcasting by NumPy's rules is that of the data."""
    if attributes.get("auto_broadcast", "numpy") != "numpy":
        return [shapes[0]]
    return [np.broadcast_shapes(*shapes)]


def _broadcast_branches(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    if attributes.get("auto_broadcast", "numpy") != "numpy":
        return [shapes[1]]
    return [np.broadcast_shapes(*shapes)]


def _infer_convolution(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    data, filters = shapes[:2]
    groups = len(filters) - len(data)
    if groups not in (0, 1):
        raise ValueError(f"data has rank {len(data)}, filters have rank {len(filters)}")
    expected = filters[0] * filters[2] if groups else filters[1]
    if data[1] != expected:
        raise ValueError(f"data has {data[1]} channels, expected {expected}")
    return [(data[0], math.prod(filters[: groups + 1]), *_count_windows(data[2:], filters[groups + 2 :], attributes))]


def _infer_deformable_convolution(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    data, _, filters = shapes[:3]
    return [(data[0], filters[0], *_count_windows(data[2:], filters[2:], attributes))]


def _infer_pooling(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    data = shapes[0]
    return [(*data[:2], *_count_windows(data[2:], attributes["kernel"], attributes))] * 2


def _count_windows(spatial: Shape, kernel: Sequence[int], attributes: Mapping[str, Any]) -> Shape:
    strides, dilations, begin, end = (
        attributes.get(name, ()) for name in ("strides", "dilations", "pads_begin", "pads_end")
    )
    auto_pad, rounding = attributes.get("auto_pad", "explicit"), attributes.get("rounding_type", "floor")
    return create_windows(spatial, kernel, strides, dilations, begin, end, auto_pad, rounding).output_shape


def _infer_matmul(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    left, right = shapes[:2]
    is_row, is_column = len(left) == 1, len(right) == 1
    left = (1, *left) if is_row else _swap(left) if attributes.get("transpose_a") else left
    right = (*right, 1) if is_column else _swap(right) if attributes.get("transpose_b") else right
    if left[-1] != right[-2]:
        raise ValueError(f"incompatible dimensions of the matrices: {left[-1]} columns and {right[-2]} rows")
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    return [(*batch, *(() if is_row else left[-2:-1]), *(() if is_column else right[-1:]))]


def _swap(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


def _infer_cell(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    return [shapes[1]] * 2


def _infer_sequence(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    data, state = shapes[:2]
    return [(*state[:2], data[1], state[2]), state, state]


def _infer_attention(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shapes:
    query, _, value = shapes[:3]
    return [(*np.broadcast_shapes(query[:-2], value[:-2]), query[-2], value[-1])]


#: The rules of operations whose kernels would take long.
RULES: dict[str, Rule] = {
    "AvgPool": _infer_pooling,
    "BinaryConvolution": _infer_convolution,
    "Convolution": _infer_convolution,
    "DeformableConvolution": _infer_deformable_convolution,
    "GRUCell": _infer_cell,
    "GRUSequence": _infer_sequence,
    "GroupConvolution": _infer_convolution,
    "LSTMCell": _infer_cell,
    "LSTMSequence": _infer_sequence,
    "MatMul": _infer_matmul,
    "MaxPool": _infer_pooling,
    "RNNCell": _infer_cell,
    "RNNSequence": _infer_sequence,
    "ScaledDotProductAttention": _infer_attention,
}

#: The operations whose output shapes depend on the values of tensors, for a number of elements that are selected.
VALUE_DEPENDENT: dict[str, Callable[[Sequence[Shape], int], Shapes]] = {
    "GenerateProposals": lambda shapes, count: [(count, 4), (count,), shapes[0][:1]],
    "MatrixNms": lambda shapes, count: [(count, 6), (count, 1), shapes[0][:1]],
    "MulticlassNmsIEInternal": lambda shapes, count: [(count, 6), (count, 1), shapes[0][:1]],
    "MulticlassNms": lambda shapes, count: [(count, 6), (count, 1), shapes[0][:1]],
    "NMSRotated": lambda shapes, count: [(count, 3), (count, 3), (1,)],
    "NonMaxSuppression": lambda shapes, count: [(count, 3), (count, 3), (1,)],
    "NonMaxSuppressionIEInternal": lambda shapes, count: [(count, 3), (count, 3), (1,)],
    "NonZero": lambda shapes, count: [(len(shapes[0]), count)],
    "Unique": lambda shapes, count: [(count,), (count,), (math.prod(shapes[0]),), (count,)] if len(shapes) == 1 else [],
}
