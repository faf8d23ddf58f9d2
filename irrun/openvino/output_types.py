"""Element types of the results of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import IrrunError

__all__ = ["get_output_types"]

#: Operations whose results are boolean.
_PREDICATES = frozenset(
    {
        "Equal",
        "NotEqual",
        "Greater",
        "GreaterEqual",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "LogicalOr",
        "LogicalXor",
        "LogicalNot",
        "IsInf",
        "IsNaN",
        "IsFinite",
    }
)

#: Where the types of the outputs come from: an input, by its number; an attribute; or a constant type.
_SOURCES: Mapping[str, Sequence[int | str]] = {
    "AdaptiveMaxPool": (0, "index_element_type"),
    "CTCGreedyDecoderSeqLen": ("classes_index_type", "sequence_length_type"),
    "ConvertLike": (1,),
    "ExperimentalDetectronDetectionOutput": (0, "i32", 0),
    "GenerateProposals": (0, 0, "roi_num_type"),
    "MatrixNms": (0, "output_type", "output_type"),
    "MaxPool": (0, "index_element_type"),
    "MulticlassNms": (0, "output_type", "output_type"),
    "Multinomial": ("convert_type",),
    "NMSRotated": ("output_type_attr", "f32", "output_type_attr"),
    "NonMaxSuppression": ("output_type", "f32", "output_type"),
    "OneHot": (2,),
    "PriorBox": ("f32",),
    "PriorBoxClustered": ("f32",),
    "Select": (1,),
    "SparseFillEmptyRows": (2, 0, "boolean"),
    "StringTensorPack": ("string",),
    "StringTensorUnpack": ("i32", "i32", "u8"),
    "TopK": (0, "index_element_type"),
    "Unique": (0, "index_element_type", "index_element_type", "count_element_type"),
}

#: Attributes that determine the types of all results of other operations, and the type of indices without one.
_TYPE_ATTRIBUTES = ("destination_type", "output_type")
_INDICES = ("ShapeOf", "NonZero", "NonMaxSuppression")


def get_output_types(
    node_type: str, attributes: Mapping[str, Any], inputs: Sequence[ElementType | None], count: int
) -> list[ElementType | None]:
    """Return the element types of the results of a node; None where they are unknown.

    Args:
        node_type: The type of the node.
        attributes: The attributes, with their defaults.
        inputs: The type of each input; None for an unknown one, or an input that is not connected.
        count: The number of results.
    """
    default = inputs[0] if inputs else None
    if node_type in _PREDICATES:
        default = ElementType.parse("boolean")
    elif node_type in _INDICES:
        default = ElementType.parse("i64")
    for name in _TYPE_ATTRIBUTES:
        if attributes.get(name) not in (None, "dynamic", "undefined"):
            default = _to_type(attributes[name])
    if node_type == "ConvertPromoteTypes" and len(inputs) == 2:
        default = _promote(*inputs)
    results = [_find_type(source, inputs, attributes, default) for source in _SOURCES.get(node_type, ())]
    return (results + [default] * count)[:count]


def _promote(first: ElementType | None, second: ElementType | None) -> ElementType | None:
    """Return the common type of two inputs; None if there is none."""
    from irrun.ops.type import convert_promote_types_14

    if first is None or second is None:
        return None
    try:
        result, _ = convert_promote_types_14(*(np.zeros(1, t.dtype) for t in (first, second)), promote_unsafe=True)
    except IrrunError:
        return None
    return ElementType.of(result.dtype)


def _find_type(
    source: int | str, types: Sequence[ElementType | None], attributes: Mapping[str, Any], default: ElementType | None
) -> ElementType | None:
    if isinstance(source, int):
        return types[source] if source < len(types) else None
    if "type" in source:
        return _to_type(attributes[source]) if attributes.get(source) is not None else default
    return ElementType.parse(source)


def _to_type(value: Any) -> ElementType:
    return value if isinstance(value, ElementType) else ElementType.parse(str(value))
