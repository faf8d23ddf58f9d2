"""Rules for the export of operations to ONNX. Each module registers its rules when it is imported."""

from __future__ import annotations

import functools
import inspect

from irrun.export.rules import (  # noqa: F401
    activation,
    blocks,
    class_suppression,
    conversion,
    detection,
    elementwise,
    gathering,
    image,
    movement,
    products,
    quantization,
    regions,
    selection,
    sequences,
    signals,
    slices,
    sparse,
    state_spaces,
    suppression,
    windows,
)
from irrun.export.site import RULES, Rule

__all__ = ["describe_rule", "find_rule"]

#: Operations that the exporter itself writes.
_STRUCTURE = {
    "Parameter": "An input.",
    "Result": "An output.",
    "Constant": "An initializer.",
    "TensorIterator": "Loop.",
    "Loop": "Loop.",
    "If": "If.",
    "ReadValue": "An input; its default is the initial value.",
    "Assign": "An output.",
    "PriorBox": "An initializer, if the shapes are static.",
    "PriorBoxClustered": "An initializer, if the shapes are static.",
}


def find_rule(operation: str) -> Rule | None:
    """Return the rule of an operation; None if there is none."""
    return RULES.get(operation)


def describe_rule(operation: str) -> str:
    """Return how an operation is expressed in ONNX, as one sentence.

    Args:
        operation: The operation with its version, such as "Gather-8".
    """
    rule = find_rule(operation)
    kind = operation.partition("-")[0]
    if rule is None:
        return _STRUCTURE.get(kind, "not supported")
    if isinstance(rule, functools.partial):
        return f"{rule.args[0]}."
    return (inspect.unwrap(rule).__doc__ or "").partition("\n")[0]
