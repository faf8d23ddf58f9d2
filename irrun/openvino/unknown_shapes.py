"""Ranks of results whose sizes are unknown, because values of inputs determine them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["get_unknown_ranks"]

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
