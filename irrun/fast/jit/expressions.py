"""Expressions: elementwise operations on f32 that are computed in one pass, alone or after a larger computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from irrun.fast.jit import vector_functions as v
from irrun.fast.jit.code import Function, Value

__all__ = ["OPERATIONS", "Expression", "Step", "evaluate"]

Parameters = tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """One operation of an expression.

    Attributes:
        operation: A key of `OPERATIONS`.
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
    values = [value, *operands]
    for step in expression.steps:
        values.append(OPERATIONS[step.operation](f, [values[i] for i in step.operands], step.parameters))
    return values[-1] if expression.steps else value


def _unary(function: Callable[[Function, Value], Value]) -> Callable[[Function, Sequence[Value], Parameters], Value]:
    return lambda f, x, parameters: function(f, x[0])


def _intrinsic(name: str) -> Callable[[Function, Sequence[Value], Parameters], Value]:
    return lambda f, x, parameters: f.call_math(name, x[0])


def _compute_clamp(f: Function, x: Sequence[Value], parameters: Parameters) -> Value:
    return v.compute_minimum(f, v.compute_maximum(f, x[0], parameters[0]), parameters[1])


def _compute_prelu(f: Function, x: Sequence[Value], parameters: Parameters) -> Value:
    return f.select(f.compare("olt", x[0], 0.0), x[0] * x[1], x[0])


def _compute_h_swish(f: Function, x: Sequence[Value], parameters: Parameters) -> Value:
    return x[0] * (_limit_sum(f, x[0]) * (1 / 6))


def _limit_sum(f: Function, x: Value) -> Value:
    return v.compute_minimum(f, v.compute_maximum(f, x + 3.0, 0.0), 6.0)


def _compute_squared_difference(f: Function, x: Sequence[Value], parameters: Parameters) -> Value:
    difference = x[0] - x[1]
    return difference * difference


def _compute_fake_quantize(f: Function, x: Sequence[Value], parameters: Parameters) -> Value:
    """Quantize with the operations of the definition, each of which rounds.

    Operands are low, high, the widths of the input and the output range, the lowest output and optionally what is
    added to values above the input range.
    """
    data, low, high, width, out_width, lowest = x[:6]
    limited = v.compute_minimum(f, v.compute_maximum(f, data, low), high)
    level = f.call_math("rint", (limited - low) / width * parameters[0])
    result = level / parameters[0] * out_width + lowest
    return result if len(x) == 6 else f.select(f.compare("ogt", data, high), result + x[6], result)


def _compute_level(f: Function, x: Sequence[Value], parameters: Parameters) -> Value:
    """Limit a value to the levels from 0; NaN becomes 0."""
    positive = f.select(f.compare("ogt", x[0], 0.0), x[0], 0.0)
    return f.select(f.compare("olt", positive, parameters[0]), positive, parameters[0])


#: Operation -> function that appends its instructions.
OPERATIONS: dict[str, Callable[[Function, Sequence[Value], Parameters], Value]] = {
    "Abs": _intrinsic("fabs"),
    "Add": lambda f, x, parameters: x[0] + x[1],
    "Ceiling": _intrinsic("ceil"),
    "Clamp": _compute_clamp,
    "Divide": lambda f, x, parameters: x[0] / x[1],
    "Elu": lambda f, x, parameters: v.compute_elu(f, x[0], parameters[0]),
    "Erf": _unary(v.compute_erf),
    "Exp": _unary(v.compute_exp),
    "FakeQuantize": _compute_fake_quantize,
    "Floor": _intrinsic("floor"),
    "Gelu": _unary(v.compute_gelu),
    "GeluTanh": _unary(v.compute_gelu_tanh),
    "HSigmoid": lambda f, x, parameters: _limit_sum(f, x[0]) * (1 / 6),
    "HSwish": _compute_h_swish,
    "Level": _compute_level,
    "Log": _unary(v.compute_log),
    # The first operand if either is NaN.
    "Maximum": lambda f, x, parameters: f.select(f.compare("ogt", x[1], x[0]), x[1], x[0]),
    "Minimum": lambda f, x, parameters: f.select(f.compare("olt", x[1], x[0]), x[1], x[0]),
    "Mish": _unary(v.compute_mish),
    "Multiply": lambda f, x, parameters: x[0] * x[1],
    "MultiplyAdd": lambda f, x, parameters: f.multiply_add(x[0], x[1], x[2]),
    "Negative": lambda f, x, parameters: 0.0 - x[0],
    "PRelu": _compute_prelu,
    "Relu": lambda f, x, parameters: v.compute_maximum(f, x[0], 0.0),
    "Round": _intrinsic("rint"),
    "Sigmoid": _unary(v.compute_sigmoid),
    "SoftPlus": _unary(v.compute_soft_plus),
    "Sqrt": _intrinsic("sqrt"),
    "Square": lambda f, x, parameters: x[0] * x[0],
    "SquaredDifference": _compute_squared_difference,
    "Subtract": lambda f, x, parameters: x[0] - x[1],
    "Swish": lambda f, x, parameters: v.compute_swish(f, x[0], parameters[0]),
    "Tanh": _unary(v.compute_tanh),
}
