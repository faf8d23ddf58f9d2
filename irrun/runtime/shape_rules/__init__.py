"""Rules for the shapes of the outputs of operations.

A rule is passed what is known about the inputs of a layer: partial shapes, and the values of those that depend on
constants and shapes only. It returns partial shapes, and raises `ShapeError` if the inputs do not fit.
"""

from __future__ import annotations

from irrun.ops._support.operation import Operation
from irrun.runtime.shape_rules import (  # noqa: F401  each module registers its rules
    detection,
    elementwise,
    generation,
    other,
    products,
    reshaping,
    selection,
    slicing,
    windows,
)
from irrun.runtime.shape_rules.registration import RULES, Rule, Shapes
from irrun.runtime.shape_rules.values import VALUE_LIMIT, Inputs, ShapeError, Value

__all__ = ["VALUE_LIMIT", "Inputs", "Rule", "ShapeError", "Shapes", "Value", "find_rule"]


def find_rule(operation: Operation) -> Rule | None:
    """Return the rule for the output shapes of an operation; None if there is none."""
    if operation.is_custom:
        return None
    rule = RULES.get(operation.type)
    if rule is None and operation.kind == "elementwise":
        return elementwise.broadcast_operands
    return rule
