"""Root mean square normalization: one compiled kernel for the operations that exporters write for it.

The operations are Multiply(x, Divide(1, Sqrt(Add(ReduceMean(Power(x, 2)), epsilon)))), also with Multiply(x, x) as the
square, Power(..., -0.5) as the inverse root or Divide(x, Sqrt(...)), and the scale that follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from irrun.fast.jit.expressions import Step
from irrun.fast.jit.kernels import NormalizationKernel
from irrun.runtime.passes.engine import Changes, Match, Pattern, RefusalError, Rule, View, get_other_input, join
from irrun.runtime.program import Instruction

__all__ = ["RULES"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

ADD = Pattern("Add", ("Add",))
DIVIDE = Pattern("Divide", ("Divide",))
MULTIPLY = Pattern("Multiply", ("Multiply",))
POWER = Pattern("Power", ("Power",))
SQRT = Pattern("Sqrt", ("Sqrt",))
MEAN = Pattern("mean", ("ReduceMean",))


class _Chain:
    """The instructions from a square to the normalized value.

    Args:
        view: The program.
        mean: The mean of the squares.

    Raises:
        RefusalError: There are other operations around the mean.
    """

    def __init__(self, view: View, mean: Instruction) -> None:
        self._view = view
        square = view.get_sole_producer(mean.inputs[0])
        if square is None or not self._is_square(square):
            raise RefusalError("it is not the mean of squares, or the squares are used elsewhere")
        self.data = square.inputs[0]
        self.members = [square, mean]
        addition = self._follow(ADD)
        self.epsilon = self._get_scalar(get_other_input(addition, mean.outputs[0]))
        root = self._follow(SQRT, POWER)
        if POWER.accepts(root):
            self._expect(root.inputs[1], -0.5)
            self._multiply_data()
        else:
            division = self._follow(DIVIDE)
            if division.inputs[1] != root.outputs[0]:
                raise RefusalError("the root is divided")
            if division.inputs[0] != self.data:
                self._expect(division.inputs[0], 1.0)
                self._multiply_data()

    @property
    def value(self) -> int:
        """The slot of the last value."""
        return self.members[-1].outputs[0]

    def find_scale(self) -> Array | None:
        """Return the constant row that multiplies the normalized value, and add the product; None if there is none."""
        shape = self._view.get_shape(self.data) or ()
        product = self._view.get_sole_consumer(self.value)
        if product is None or not MULTIPLY.accepts(product):
            return None
        scale = self._view.get_constant(get_other_input(product, self.value))
        if scale is None or scale.dtype != F32 or scale.ndim > len(shape):
            return None
        if scale.size != shape[-1] or scale.shape[-1:] != shape[-1:]:
            return None
        self.members.append(product)
        return scale.reshape(-1)

    def _is_square(self, instruction: Instruction) -> bool:
        if MULTIPLY.accepts(instruction):
            return instruction.inputs[0] == instruction.inputs[1]
        exponent = self._view.get_constant(instruction.inputs[1]) if POWER.accepts(instruction) else None
        return exponent is not None and exponent.size == 1 and exponent.item() == 2

    def _follow(self, *patterns: Pattern) -> Instruction:
        """Add the only consumer of the last value, which must match one of the patterns, and return it."""
        consumer = self._view.get_sole_consumer(self.value)
        if consumer is None or not any(pattern.accepts(consumer) for pattern in patterns):
            names = " or ".join(pattern.name for pattern in patterns)
            raise RefusalError(f"{self.members[-1].operation.type} is not followed by {names} alone")
        self.members.append(consumer)
        return consumer

    def _multiply_data(self) -> None:
        """Add the product of the inverse root and the data."""
        previous = self.value
        product = self._follow(MULTIPLY)
        if sorted(product.inputs) != sorted((previous, self.data)):
            raise RefusalError("another value is normalized")

    def _get_scalar(self, slot: int) -> float:
        value = self._view.get_constant(slot)
        if value is None or value.size != 1:
            raise RefusalError("an operand is not a constant scalar")
        return float(value.item())

    def _expect(self, slot: int, expected: float) -> None:
        found = self._get_scalar(slot)
        if found != expected:
            raise RefusalError(f"found the constant {found}, expected {expected}")


def _check(view: View, match: Match) -> str:
    mean = match["mean"]
    shape, axes = view.get_shape(mean.inputs[0]), view.get_constant(mean.inputs[1])
    if not shape or shape[-1] is None or axes is None or not mean.attributes.get("keep_dims"):
        return "not along a known last axis that is kept"
    if axes.reshape(-1).tolist() not in ([-1], [len(shape) - 1]):
        return "not along the last axis alone"
    if not view.is_f32(mean.inputs[0]):
        return "not f32"
    return ""


def _build(view: View, match: Match) -> Changes:
    chain = _Chain(view, match["mean"])
    shape = view.get_shape(chain.data)
    if shape is None or view.get_constant(chain.data) is not None or view.get_shape(chain.value) != shape:
        raise RefusalError("the normalized value is constant, or its shape is not known")
    if any(instruction.plain for instruction in chain.members):
        raise RefusalError("an operation has another kernel")
    scale = chain.find_scale()
    attributes = {"eps": chain.epsilon, "normalize_variance": True, "eps_mode": "inside_sqrt"}
    steps, operands = ((), []) if scale is None else ((Step("Multiply", (0, 1)),), [scale])
    kernel = NormalizationKernel(len(shape), 1, attributes, steps, operands, is_centered=False)
    kernel.prepare([tuple(d or 1 for d in shape)])
    return join(chain.members, kernel, (chain.data,))


RULES = (Rule("normalize by the root mean square in one kernel", MEAN, _build, _check),)
