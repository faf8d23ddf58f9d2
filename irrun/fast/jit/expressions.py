"""Expressions: elementwise operations on f32 that are computed in one pass, alone or after a larger computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irrun.fast.expressions.table import Step, evaluate_steps
from irrun.fast.jit.code import Function, Value
from irrun.fast.jit.vectors import Vectors

__all__ = ["Expression", "Step", "evaluate"]


@dataclass(frozen=True)
class Expression:
    """Elementwise operations. The last step is the result; without steps, it is the running value.

    Attributes:
        kinds: How each operand after the running value broadcasts. Kernels define the kinds.
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
    result: Value = evaluate_steps(Vectors(f), expression.steps, [value, *operands])
    return result
