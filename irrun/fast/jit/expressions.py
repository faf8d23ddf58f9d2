"""Expressions: elementwise operations on f32 that are computed in one pass, alone or after a larger computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from irrun.fast.expressions.llvm import Vectors
from irrun.fast.expressions.table import get_expression
from irrun.fast.jit.code import Function, Value

__all__ = ["Expression", "Step", "evaluate"]

Parameters = tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """One operation of an expression.

    Attributes:
        operation: The name of the expression.
        operands: Their numbers: 0 is the running value, the operands of the expression follow, then earlier steps.
        parameters: What else the operation depends on, such as the limits of Clamp.
    """

    operation: str
    operands: tuple[int, ...]
    parameters: Parameters = ()


@dataclass(frozen=True)
class Expression:
    """Elementwise operations. The last step is the result; without steps, it is the running value.

    Attributes:
        kinds: For each operand after the running value, how it broadcasts. Kernels define the kinds.
        steps: In order of computation.
    """

    kinds: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


def evaluate(f: Function, expression: Expression, value: Value, operands: Sequence[Value]) -> Value:
    """Append the instructions that compute an expression on vectors.

    Args:
        f: The function.
        expression: The expression.
        value: The running value.
        operands: The other operands.
    """
    machine, values = Vectors(f), [value, *operands]
    for step in expression.steps:
        operands = [values[i] for i in step.operands]
        values.append(get_expression(step.operation).evaluate(machine, operands, step.parameters))
    return values[-1] if expression.steps else value
