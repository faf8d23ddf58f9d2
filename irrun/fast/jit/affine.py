"""Affine epilogues: add a bias and perhaps a residual, and limit the sum to an interval.

They need few instructions, always the same ones, so kernels compute them in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from irrun.fast.jit.code import Function, Value, Variable
from irrun.fast.jit.expressions import Expression

__all__ = ["AFFINE_PARAMETERS", "AffineEpilogue", "complete_extras", "complete_vectors", "find_affine_epilogue"]

#: The last parameters of kernels with affine epilogues. Their operands are the bias and the residual.
AFFINE_PARAMETERS = (("low", "float"), ("high", "float"), ("residuals", "i64"))


@dataclass(frozen=True)
class AffineEpilogue:
    """An epilogue that adds operands and limits the sum.

    Attributes:
        low: The lower limit; minus infinity if there is none.
        high: The upper limit.
        residuals: The number of operands with the shape of the result, 0 or 1.
    """

    low: float
    high: float
    residuals: int

    @property
    def arguments(self) -> tuple[float, ...]:
        """The arguments of AFFINE_PARAMETERS."""
        return self.low, self.high, self.residuals


def find_affine_epilogue(expression: Expression) -> AffineEpilogue | None:
    """Return the affine form of an expression: additions of a value per channel and of a residual, and a limit."""
    kinds, steps = expression.kinds, list(expression.steps)
    count = len(kinds)
    if kinds not in (("channel",), ("channel", "full")):
        return None
    for number, step in enumerate(steps[:count]):
        previous = number + count if number else 0
        if step.name != "Add" or set(step.operands) != {previous, number + 1}:
            return None
    limits = (-math.inf, math.inf)
    rest = steps[count:]
    if len(steps) < count or len(rest) > 1 or (rest and rest[0].operands != (2 * count,)):
        return None
    if rest:
        known = {"Relu": (0.0, math.inf), "Clamp": rest[0].parameters}
        if rest[0].name not in known:
            return None
        limits = known[rest[0].name]
    return AffineEpilogue(*limits, count - 1)


def complete_vectors(f: Function, accumulators: Sequence[Sequence[Variable]], position: Value, channel: Value) -> None:
    """Append the epilogue of rows of vectors, one for each channel, and store them as results.

    Args:
        f: A function with AFFINE_PARAMETERS, the result, its operands, and the elements of a plane of the result.
        accumulators: The sums.
        position: The first element of the first row in the result.
        channel: Its channel.
    """
    p = f.parameters
    biases = f.offset(_load_pointer(f, 0), channel)
    starts = [p["plane"] * r + position for r in range(len(accumulators))]
    for r, row in enumerate(accumulators):
        bias = f.splat(f.load(f.offset(biases, r)), f.vector)
        for accumulator in row:
            accumulator.add(bias)
    with f.when(f.compare("ne", p["residuals"], 0)):
        residual = _load_pointer(f, 1)
        for start, row in zip(starts, accumulators, strict=True):
            for i, accumulator in enumerate(row):
                accumulator.add(f.load(f.offset(residual, start + i * f.lanes), f.vector))
    low, high = (f.splat(p[name], f.vector) for name in ("low", "high"))
    for start, row in zip(starts, accumulators, strict=True):
        for i, accumulator in enumerate(row):
            f.store(_limit(f, accumulator.get(), low, high), f.offset(p["result"], start + i * f.lanes))


def complete_extras(f: Function, extras: Sequence[Variable], position: Value, channel: Value) -> None:
    """Append the epilogue of neighboring pixels, given vectors with one element per channel; see above."""
    p = f.parameters
    for i, extra in enumerate(extras):
        extra.add(f.load(f.offset(_load_pointer(f, 0), channel), extra.type))
        sums = extra.get()
        for lane in range(sums.lanes):
            place = p["plane"] * lane + position + i
            value = f.variable("float", 0.0)
            value.set(f.emit("float", f"extractelement {sums.type} {sums}, i32 {lane}"))
            with f.when(f.compare("ne", p["residuals"], 0)):
                value.add(f.load(f.offset(_load_pointer(f, 1), place)))
            f.store(_limit(f, value.get(), p["low"], p["high"]), f.offset(p["result"], place))


def _load_pointer(f: Function, number: int) -> Value:
    """Load the address of an operand."""
    return f.load(f.offset(f.parameters["operands"], number, "ptr"), "ptr")


def _limit(f: Function, value: Value, low: Value, high: Value) -> Value:
    """Return a value limited to an interval; NaN stays NaN."""
    raised = f.select(f.compare("olt", value, low), low, value)
    return f.select(f.compare("ogt", raised, high), high, raised)
