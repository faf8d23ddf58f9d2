"""The rules by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from irrun.ops.shape_rules.values import Inputs
from irrun.shapes import PartialShape

__all__ = ["RULES", "Rule", "Shapes", "rule"]

#: The shapes of the outputs of a layer; None for an unknown rank.
Shapes = Sequence[PartialShape | None]
#: A rule returns the shapes of the outputs of a layer. It raises ValueError for inputs that do not fit.
Rule = Callable[[Inputs], Shapes]

#: The rules by the names that cards state.
RULES: dict[str, Rule] = {}

_RuleType = TypeVar("_RuleType", bound=Rule)


def rule(function: _RuleType) -> _RuleType:
    """Register a function as a rule, which the cards of operations name in their field `shape`."""
    RULES[function.__name__] = function
    return function
