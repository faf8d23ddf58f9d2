"""Rules for the shapes of the outputs of operations.

The card of an operation names its rule. A rule gets the facts about the inputs of a layer: partial shapes,
and the values of inputs that depend on constants and shapes only. It returns partial shapes, and raises `ShapeError`
if the inputs do not fit.
"""

from __future__ import annotations

import difflib

from irrun.errors import InputError
from irrun.ops._support.operation import Operation
from irrun.ops.shape_rules import (  # noqa: F401  each module registers its rules
    detection,
    elementwise,
    generation,
    image,
    other,
    products,
    reshaping,
    selection,
    slicing,
    text,
    windows,
)
from irrun.ops.shape_rules.registration import RULES, Rule, Shapes
from irrun.ops.shape_rules.values import VALUE_LIMIT, Inputs, ShapeError, UnknownShapeError, Value

__all__ = ["VALUE_LIMIT", "Inputs", "Rule", "ShapeError", "Shapes", "UnknownShapeError", "Value", "find_rule"]


def find_rule(operation: Operation) -> Rule | None:
    """Return the rule for the output shapes of an operation; None if its card does not name one.

    Raises:
        InputError: No rule has that name.
    """
    if operation.shape is None:
        return None
    if isinstance(operation.shape, tuple):
        positions = operation.shape
        return lambda inputs: [inputs.get_shape(position) for position in positions]
    rule = RULES.get(operation.shape)
    if rule is None:
        similar = difflib.get_close_matches(operation.shape, RULES, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise InputError(f"{operation}: there is no shape rule {operation.shape!r}{hint}")
    return rule
