"""The epilogue of a quantized convolution or product: elementwise operations on scaled integers.

Sums and codes are integers, and their values are linear functions of these integers. Linear operations change the
coefficients when the kernel is created, so a scale, a bias, the limits of a FakeQuantize and the scales of residuals
become one multiplication and addition per integer. Since this rounds differently than the single operations, a value
halfway between two levels may move to the other level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.codes import CodeFormat
from irrun.fast.jit.expressions import Step

__all__ = ["CodedOperand", "Epilogue", "simplify"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: A value of the epilogue: "value" (the sums), "operand" or "step", and its number.
Reference = tuple[str, int]


@dataclass(frozen=True)
class CodedOperand:
    """A variable operand that is stored as codes.

    Attributes:
        format: The format of the codes.
    """

    format: CodeFormat


@dataclass(frozen=True)
class Epilogue:
    """The simplified steps.

    Attributes:
        steps: The steps, numbered as in `Expression`.
        operands: For each operand, the number of a variable, or a constant: f32 of shape [] or [C], or of a rank of at
            least 2 that broadcasts to the result.
    """

    steps: tuple[Step, ...]
    operands: tuple[int | Array, ...]


@dataclass(frozen=True)
class _Linear:
    """A sum of products of values and coefficients, f64 of shape [] or [C], and of a constant."""

    terms: tuple[tuple[Reference, Array], ...]
    constant: Array

    @staticmethod
    def create(reference: Reference) -> _Linear:
        return _Linear(((reference, np.array(1.0)),), np.array(0.0))

    def add(self, other: _Linear, sign: float) -> _Linear:
        coefficients = dict(self.terms)
        for reference, coefficient in other.terms:
            known = coefficients.get(reference)
            coefficients[reference] = coefficient * sign + (0.0 if known is None else known)
        return _Linear(tuple(coefficients.items()), self.constant + other.constant * sign)

    def scale(self, factor: Any) -> _Linear:
        terms = tuple((reference, coefficient * factor) for reference, coefficient in self.terms)
        return _Linear(terms, self.constant * factor)


Source: TypeAlias = Array | CodedOperand | None


@dataclass
class _Simplification:
    channels: int
    rank: int
    axis: int
    steps: list[tuple[str, tuple[Reference, ...], tuple[Any, ...]]] = field(default_factory=list)
    operands: list[int | Array] = field(default_factory=list)
    values: list[_Linear] = field(default_factory=list)
    known: dict[int, Reference] = field(default_factory=dict)

    def add_operand(self, source: int | Array) -> Reference:
        if not isinstance(source, int):
            for i, other in enumerate(self.operands):
                if not isinstance(other, int) and other.shape == source.shape and bool((other == source).all()):
                    return "operand", i
        self.operands.append(source)
        return "operand", len(self.operands) - 1

    def add_step(self, name: str, references: tuple[Reference, ...], parameters: tuple[Any, ...] = ()) -> Reference:
        self.steps.append((name, references, parameters))
        return "step", len(self.steps) - 1

    def add_constant(self, value: Array) -> Reference:
        with np.errstate(over="ignore"):
            rounded = np.asarray(value, F32)
        if not np.isfinite(rounded).all():
            raise NoKernelError("expected finite constants")
        return self.add_operand(rounded)

    def make_linear(self, source: Source, variable: int) -> _Linear:
        """Return the value of an operand."""
        if source is None:
            return _Linear.create(self.add_operand(variable))
        if isinstance(source, CodedOperand):
            scaled = _Linear.create(self.add_operand(variable)).scale(source.format.step)
            return _Linear(scaled.terms, source.format.out_low.astype(np.float64))
        own = (1,) * (self.rank - source.ndim) + source.shape
        if source.size == 1:
            return _Linear((), source.reshape(()).astype(np.float64))
        if len(own) == self.rank and own[self.axis] == source.size == self.channels:
            return _Linear((), source.reshape(-1).astype(np.float64))
        return _Linear.create(self.add_operand(source.reshape(own)))

    def compute(self, linear: _Linear) -> Reference:
        """Add the steps that compute a value."""
        if not linear.terms:
            return self.add_constant(linear.constant)
        result: Reference | None = None
        if linear.constant.ndim or linear.constant != 0:
            result = self.add_constant(linear.constant)
        # Sums come first, so that the residuals of a chain are added to them.
        for reference, coefficient in linear.terms:
            is_one = not coefficient.ndim and coefficient == 1
            if is_one:
                result = reference if result is None else self.add_step("Add", (reference, result))
                continue
            factor = self.add_constant(coefficient)
            if result is None:
                result = self.add_step("Multiply", (reference, factor))
            else:
                result = self.add_step("MultiplyAdd", (reference, factor, result))
        assert result is not None
        return result

    def get(self, number: int) -> Reference:
        """Return the value of an operand or of a step; each is computed once."""
        if number not in self.known:
            self.known[number] = self.compute(self.values[number])
        return self.known[number]

    def add(self, step: Step, is_result: bool) -> _Linear:
        """Add a step and return its value.

        Args:
            step: The step.
            is_result: Whether the step computes the level of a FakeQuantize, without rounding.
        """
        left, *others = [self.values[number] for number in step.operands]
        right = others[0] if others else left
        if step.name in ("Add", "Subtract"):
            return left.add(right, 1.0 if step.name == "Add" else -1.0)
        if step.name == "Multiply" and not (left.terms and right.terms):
            return left.scale(right.constant) if left.terms else right.scale(left.constant)
        if step.name == "Divide" and not right.terms and (right.constant != 0).all():
            return left.scale(1 / right.constant)
        if step.name == "Negative":
            return left.scale(-1.0)
        if step.name == "FakeQuantize" and not any(other.terms for other in others):
            low, _, width, out_width, out_low = (other.constant for other in others[:5])
            top = step.parameters[0]
            level = left.scale(top / width).add(_Linear((), low * (top / width)), -1.0)
            reference = self.add_step("Level", (self.compute(level),), (top,))
            if is_result:
                return _Linear.create(reference)
            rounded = _Linear.create(self.add_step("NearestLevel", (reference,))).scale(out_width / top)
            return _Linear(rounded.terms, np.asarray(out_low, np.float64))
        references = tuple(self.get(number) for number in step.operands)
        return _Linear.create(self.add_step(step.name, references, step.parameters))


def simplify(
    steps: Sequence[Step],
    sources: Sequence[Source],
    scale: Array,
    offset: Array,
    rank: int,
    is_coded: bool,
    axis: int,
    added: int | None = None,
) -> Epilogue:
    """Return the steps that compute an epilogue from integers.

    Args:
        steps: The steps. The running value is the result of a convolution.
        sources: For each operand after the running value: its value if it is constant, its format if it holds codes, or
            None. Operands that are not constant are variables, numbered in order.
        scale: The value of a sum of 1 for each channel: f64, shape [C].
        offset: The value of a sum of 0: f64, shape [C].
        rank: The rank of the result.
        is_coded: Whether the last step is a FakeQuantize and its levels are the result.
        axis: The axis of the channels.
        added: The number of a variable that is added to the values of the sums.

    Raises:
        NoKernelError: A constant is not finite, or the last step is unsupported.
    """
    s = _Simplification(len(scale), rank, axis)
    value = _Linear(((("value", 0), scale),), offset)
    if added is not None:
        value = value.add(_Linear.create(s.add_operand(added)), 1.0)
    s.values.append(value)
    variable = 0
    for source in sources:
        s.values.append(s.make_linear(source, variable))
        variable += source is None or isinstance(source, CodedOperand)
    for step in steps:
        is_result = is_coded and step is steps[-1]
        s.values.append(s.add(step, is_result))
    if is_coded and (not steps or steps[-1].name != "FakeQuantize"):
        raise NoKernelError("expected FakeQuantize")
    result = s.compute(s.values[-1])
    if result != ("step", len(s.steps) - 1):
        result = s.add_step("Add", (result, s.add_constant(np.array(0.0))))
    starts = {"value": 0, "operand": 1, "step": 1 + len(s.operands)}
    numbered = [
        Step(name, tuple(starts[kind] + i for kind, i in references), parameters)
        for name, references, parameters in s.steps
    ]
    return Epilogue(tuple(numbered), tuple(s.operands))
