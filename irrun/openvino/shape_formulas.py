"""Shapes of results by formulas, and the operations whose shapes of results depend on values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["FORMULAS", "VALUE_INPUTS", "get_unknown_ranks"]

Lengths = tuple[int, ...]
Formula = Callable[[Mapping[str, Any], Sequence[Any]], list[Lengths]]

_REDUCTIONS = ("L1", "L2", "LogicalAnd", "LogicalOr", "Max", "Mean", "Min", "Prod", "Sum")

#: The inputs whose values determine the shapes of the results.
VALUE_INPUTS: dict[str, tuple[int, ...]] = {
    "AdaptiveAvgPool": (1,),
    "AdaptiveMaxPool": (1,),
    "BatchToSpace": (1, 2, 3),
    "Broadcast": (1, 2),
    "Col2Im": (1, 2),
    "ConvolutionBackpropData": (2,),
    "DFT": (1, 2),
    "Eye": (0, 1, 3),
    "Gather": (2,),
    "GroupConvolutionBackpropData": (2,),
    "IDFT": (1, 2),
    "IRDFT": (1, 2),
    "If": (0,),
    "Interpolate": (1, 2, 3),
    "Loop": (0, 1),
    "MatrixNms": (0, 1),
    "MulticlassNms": (0, 1),
    "Multinomial": (1,),
    "NMSRotated": (0, 1),
    "NonMaxSuppression": (0, 1),
    "NonZero": (0,),
    "OneHot": (1,),
    "Pad": (1, 2),
    "PriorBox": (0, 1),
    "PriorBoxClustered": (0, 1),
    "RDFT": (1, 2),
    "RandomUniform": (0,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "STFT": (2, 3),
    "Slice": (1, 2, 3, 4),
    "SpaceToBatch": (1, 2, 3),
    "SparseFillEmptyRows": (0, 1, 2),
    "Split": (1,),
    "Squeeze": (1,),
    "StridedSlice": (1, 2, 3),
    "Tile": (1,),
    "TopK": (1,),
    "Transpose": (1,),
    "Unique": (0, 1),
    "Unsqueeze": (1,),
    "VariadicSplit": (1, 2),
    **{f"Reduce{name}": (1,) for name in _REDUCTIONS},
}

#: Operations with unknown sizes whose results have the rank of the first input.
_SAME_RANK = frozenset(
    {
        "BatchToSpace",
        "Interpolate",
        "Pad",
        "Slice",
        "SpaceToBatch",
        "Split",
        "StridedSlice",
        "Tile",
        "TopK",
        "Transpose",
        "VariadicSplit",
        "ConvolutionBackpropData",
        "GroupConvolutionBackpropData",
        "Convolution",
        "GroupConvolution",
        "MaxPool",
        "AvgPool",
        "AdaptiveAvgPool",
        "AdaptiveMaxPool",
        "Softmax",
        "LogSoftmax",
        "MVN",
        "Relu",
        "Sigmoid",
        "Tanh",
        "Convert",
        "Clamp",
    }
)


def get_unknown_ranks(node_type: str, inputs: Sequence[Any]) -> list[int | None]:
    """Return the ranks of the results of a node whose sizes are unknown; None where the rank is unknown too."""
    ranks = [None if i is None or i.shape is None else len(i.shape) for i in inputs]
    if node_type in _SAME_RANK and ranks:
        return [ranks[0]] * 8
    if node_type in ("Reshape", "Broadcast", "RandomUniform") and len(inputs) > 1:
        target = inputs[0 if node_type == "RandomUniform" else 1]
        is_known = target is not None and target.shape is not None and len(target.shape) == 1 and not target.unknown
        return [target.shape[0] if is_known else None]
    if node_type == "OneHot" and ranks and ranks[0] is not None:
        return [ranks[0] + 1]
    if node_type == "MatMul" and len(ranks) == 2 and all(rank is not None and rank >= 2 for rank in ranks):
        return [max(rank for rank in ranks if rank is not None)]
    fixed: dict[str, list[int | None]] = {
        "MatrixNms": [2, 2, 1],
        "MulticlassNms": [2, 2, 1],
        "NMSRotated": [2, 2, 1],
        "NonMaxSuppression": [2, 2, 1],
        "NonZero": [2],
        "PriorBox": [2],
        "PriorBoxClustered": [2],
        "Range": [1],
    }
    return fixed.get(node_type, [])


def _get_shape(inputs: Sequence[Any], index: int) -> Lengths:
    shape: Lengths = inputs[index].shape
    return shape


def _keep_first(attributes: Mapping[str, Any], inputs: Sequence[Any]) -> list[Lengths]:
    return [_get_shape(inputs, 0)]


def _multiply_matrices(attributes: Mapping[str, Any], inputs: Sequence[Any]) -> list[Lengths]:
    a, b = list(_get_shape(inputs, 0)), list(_get_shape(inputs, 1))
    if attributes.get("transpose_a") and len(a) > 1:
        a[-2:] = a[:-3:-1]
    if attributes.get("transpose_b") and len(b) > 1:
        b[-2:] = b[:-3:-1]
    rows, columns = ([a[-2]] if len(a) > 1 else []), ([b[-1]] if len(b) > 1 else [])
    inner = b[-2] if len(b) > 1 else b[-1]
    if a[-1] != inner:
        raise ValueError(f"Incompatible MatMul matrix dimension. First input dimension={a[-1]}, second={inner}")
    batch_a, batch_b = a[:-2], b[:-2]
    rank = max(len(batch_a), len(batch_b))
    batch_a, batch_b = [1] * (rank - len(batch_a)) + batch_a, [1] * (rank - len(batch_b)) + batch_b
    batch = [y if x == 1 else x for x, y in zip(batch_a, batch_b, strict=True)]
    return [(*batch, *rows, *columns)]


def _get_padding(attributes: Mapping[str, Any], axis: int, length: int, kernel: int, stride: int) -> int:
    """Return the padding at both ends of an axis."""
    auto_pad = attributes.get("auto_pad", "explicit")
    if auto_pad in ("same_upper", "same_lower"):
        return max((-(-length // stride) - 1) * stride + kernel - length, 0)
    if auto_pad == "valid":
        return 0
    return int(attributes["pads_begin"][axis]) + int(attributes["pads_end"][axis])


def _slide(
    attributes: Mapping[str, Any], spatial: Sequence[int], kernel: Sequence[int], ceil: bool = False
) -> list[int]:
    """Return the number of positions of a window on each spatial axis."""
    strides = attributes.get("strides") or [1] * len(spatial)
    dilations = attributes.get("dilations") or [1] * len(spatial)
    lengths = []
    for axis, (length, size) in enumerate(zip(spatial, kernel, strict=True)):
        extent = (size - 1) * dilations[axis] + 1
        padded = length + _get_padding(attributes, axis, length, extent, strides[axis])
        if padded < extent:
            raise ValueError(
                f"Kernel after dilation has size {extent} larger than the data shape after padding {padded}"
            )
        steps = -(-(padded - extent) // strides[axis]) if ceil else (padded - extent) // strides[axis]
        lengths.append(steps + 1)
    return lengths


def _convolve(attributes: Mapping[str, Any], inputs: Sequence[Any]) -> list[Lengths]:
    data, filters = _get_shape(inputs, 0), _get_shape(inputs, 1)
    if len(data) != len(filters):
        raise ValueError(
            "Data batch and filters rank do not match (data batch shape: "
            f"{_format(data)}, filters shape: {_format(filters)})."
        )
    if data[1] != filters[1] and not inputs[0].unknown:
        raise ValueError(
            f"Data batch channel count ({data[1]}) does not match filter input channel count ({filters[1]})."
        )
    return [(data[0], filters[0], *_slide(attributes, data[2:], filters[2:]))]


def _convolve_groups(attributes: Mapping[str, Any], inputs: Sequence[Any]) -> list[Lengths]:
    data, filters = _get_shape(inputs, 0), _get_shape(inputs, 1)
    if len(data) + 1 != len(filters):
        raise ValueError("Data batch and filters rank do not match.")
    return [(data[0], filters[0] * filters[1], *_slide(attributes, data[2:], filters[3:]))]


def _attend(attributes: Mapping[str, Any], inputs: Sequence[Any]) -> list[Lengths]:
    return [(*_get_shape(inputs, 0)[:-1], _get_shape(inputs, 2)[-1])]


def _format(shape: Lengths) -> str:
    return f"[{','.join(map(str, shape))}]"


#: Formulas by type. The results have the element type of the first input.
FORMULAS: dict[str, Formula] = {
    "BatchNormInference": _keep_first,
    "Convolution": _convolve,
    "GRN": _keep_first,
    "GroupConvolution": _convolve_groups,
    "GroupNormalization": _keep_first,
    "LRN": _keep_first,
    "LogSoftmax": _keep_first,
    "MVN": _keep_first,
    "MatMul": _multiply_matrices,
    "NormalizeL2": _keep_first,
    "ReverseSequence": _keep_first,
    "ScaledDotProductAttention": _attend,
    "ScatterElementsUpdate": _keep_first,
    "ScatterNDUpdate": _keep_first,
    "ScatterUpdate": _keep_first,
    "Softmax": _keep_first,
}
