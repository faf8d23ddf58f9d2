"""The rules of operations by type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from irrun.runtime.shape_rules.values import Inputs
from irrun.shapes import PartialShape

__all__ = ["RULES", "Rule", "Shapes", "rule"]

#: The shapes of the outputs of a layer; None for an unknown rank.
Shapes = Sequence[PartialShape | None]
#: A rule returns the shapes of the outputs of a layer. It raises ValueError for inputs that do not fit.
Rule = Callable[[Inputs], Shapes]

#: The rules by the type of the operation.
RULES: dict[str, Rule] = {}

_RuleType = TypeVar("_RuleType", bound=Rule)


def rule(*types: str) -> Callable[[_RuleType], _RuleType]:
    """Register a function as the rule of operations.

    Args:
        types: The types of the operations.
    """

    def register(function: _RuleType) -> _RuleType:
        RULES.update(dict.fromkeys(types, function))
        return function

    return register
