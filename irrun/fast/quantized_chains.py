"""Chains that quantize the result of a convolution, computed in units of the distance of two levels.

Each value of a chain is `scale * array + offset`, where the array is what NumPy computes. Products and sums with
constants only change scales and offsets. So do the divisions and products of a FakeQuantize, apart from rounding and
limiting: the first scale is multiplied into the filters, and the scale of the result into the filters of its readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from irrun.fast.elementwise import ElementwiseChain, Operand, Step

__all__ = ["EXACT", "Affine", "LevelChain", "get_quantization", "lower_chain"]

Array = np.ndarray[Any, Any]

#: The expression that quantizes, and the one in units of levels.
QUANTIZE, ROUND = "FakeQuantizeBySteps", "RoundedLevel"
DATA = Operand("input", 0)


class Affine(NamedTuple):
    """The meaning of the values in an array: they represent `scale * array + offset`.

    Attributes:
        scale: f64, one element, or one for each channel: shape [C].
        offset: The same.
    """

    scale: Array
    offset: Array

    @property
    def is_exact(self) -> bool:
        """Whether the array holds the values themselves."""
        return bool((self.scale == 1).all() and not self.offset.any())


#: The array holds the values.
EXACT = Affine(np.ones(1), np.zeros(1))


class LevelChain(NamedTuple):
    """A chain in units of levels.

    Attributes:
        chain: The operations on the result of the convolution.
        scale: f64, one element or shape [C]. The filters are multiplied by it.
        result: The meaning of the result of the chain.
    """

    chain: ElementwiseChain
    scale: Array
    result: Affine


class _Quantization(NamedTuple):
    """The constants of a FakeQuantize: f64, one element or shape [C].

    Attributes:
        low: The lowest input.
        factor: Levels per unit of the input.
        first: The number of the first level.
        last: The number of the last level.
        result: The meaning of the number of a level.
    """

    low: Array
    factor: Array
    first: float
    last: float
    result: Affine


def _flatten(value: Array, rank: int) -> Array | None:
    """Return a constant with one element, or one for each channel, as f64 of shape [1] or [C]; None for others."""
    shape = (1,) * (rank - value.ndim) + value.shape
    is_supported = len(shape) == rank and (value.size == 1 or value.size == shape[1]) and np.isfinite(value).all()
    return value.reshape(-1).astype(np.float64) if is_supported else None


def get_quantization(chain: ElementwiseChain, step: Step, rank: int) -> _Quantization | None:
    """Return the constants of a step that quantizes, or None for other steps and other layouts of constants."""
    if step.name != QUANTIZE or any(operand.kind != "constant" for operand in step.operands[1:]):
        return None
    constants = [_flatten(chain.constants[operand.index], rank) for operand in step.operands[1:]]
    low, width, distance, offset = constants
    if low is None or width is None or distance is None or offset is None or not distance.all():
        return None
    last, _, is_offset, counts_from_zero = step.parameters
    if not is_offset:
        zero, rest = 0.0, np.zeros(1)
    else:
        # Levels are counted from the one that is closest to zero, if that is the same for all channels.
        zeros = offset if counts_from_zero else np.rint(-offset / distance)
        zero = float(zeros[0]) if (zeros == zeros[0]).all() else 0.0
        lowest = -offset * distance if counts_from_zero else offset
        rest = lowest + zero * distance
        if counts_from_zero and (zeros == zero).all():
            rest = np.zeros(1)
    return _Quantization(low, last / width, -zero, last - zero, Affine(distance, rest))


def lower_chain(
    chain: ElementwiseChain, rank: int, inputs: Mapping[int, Affine], returns_levels: bool
) -> LevelChain | None:
    """Return a chain after a convolution in units of levels.

    Args:
        chain: The chain.
        rank: The rank of the running value; axis 1 holds the channels.
        inputs: The meanings of the chain's inputs that are not the values themselves. The running value has an
            offset only.
        returns_levels: Whether the result may be numbers of levels.

    Returns:
        The chain, or None if a scale is not a finite number that f32 represents.
    """
    writer = _Writer(chain, rank, inputs)
    for step in chain.steps:
        writer.add(step)
    if returns_levels and get_quantization(chain, chain.steps[-1], rank) is not None:
        operand, result = writer.values[-1]
    else:
        operand, result = writer.make_exact(*writer.values[-1]), EXACT
    if not writer.steps:
        operand = writer.emit("Multiply", DATA, writer.keep(writer.scale))
        writer.scale = np.ones(1)
    if operand != Operand("step", len(writer.steps) - 1):
        return None
    lowered = ElementwiseChain(tuple(writer.steps), chain.input_count, tuple(writer.constants))
    scales = (writer.scale, *result, *(c for c in lowered.constants if c.size))
    limits = np.finfo(np.float32)
    is_normal = all(np.isfinite(s).all() and (abs(s[s != 0]) >= limits.tiny).all() for s in map(np.atleast_1d, scales))
    return LevelChain(lowered, writer.scale, result) if is_normal else None


class _Writer:
    """Writes the steps of a chain in units of levels.

    Args:
        chain: The original chain.
        rank: See `lower_chain`.
        inputs: See `lower_chain`.
    """

    def __init__(self, chain: ElementwiseChain, rank: int, inputs: Mapping[int, Affine]) -> None:
        self.chain, self.rank, self.inputs = chain, rank, inputs
        self.steps: list[Step] = []
        self.constants: list[Array] = []
        self.values: list[tuple[Operand, Affine]] = []
        self.scale = np.ones(1)
        self.can_scale_filters = self._count_uses() == 1

    def _count_uses(self) -> int:
        """Return how often the result of the convolution is used, apart from sums and products with constants."""
        operands, uses = {DATA}, 0
        for number, step in enumerate(self.chain.steps):
            used = sum(operand in operands for operand in step.operands)
            if used and self._find_constant(step) is not None:
                operands.add(Operand("step", number))
            else:
                uses += used
        return uses + (Operand("step", len(self.chain.steps) - 1) in operands)

    def _find_constant(self, step: Step) -> Array | None:
        """Return the constant of a sum or product of a value and a constant for each channel."""
        if step.name not in ("Add", "Multiply") or len(step.operands) != 2:
            return None
        constants = [operand for operand in step.operands if operand.kind == "constant"]
        if len(constants) != 1:
            return None
        value = _flatten(self.chain.constants[constants[0].index], self.rank)
        return None if value is None or (step.name == "Multiply" and not value.all()) else value

    def emit(self, name: str, *operands: Operand, parameters: tuple[Any, ...] = ()) -> Operand:
        """Append a step and return its result."""
        self.steps.append(Step.create(name, *operands, parameters=parameters))
        return Operand("step", len(self.steps) - 1)

    def keep(self, value: Array) -> Operand:
        """Return a new constant; its shape is [1] or [C]."""
        shape = (-1, *[1] * (self.rank - 2)) if value.size > 1 else ()
        with np.errstate(over="ignore"):  # infinite constants are refused at the end
            return self._keep_unchanged(value.astype(np.float32).reshape(shape))

    def _keep_unchanged(self, value: Array) -> Operand:
        self.constants.append(value)
        return Operand("constant", len(self.constants) - 1)

    def get(self, operand: Operand) -> tuple[Operand, Affine]:
        """Return the array of an original operand that is not a constant, and its meaning."""
        if operand.kind == "step":
            return self.values[operand.index]
        return operand, self.inputs.get(operand.index, EXACT)

    def multiply(self, operand: Operand, factor: Array) -> Operand:
        """Return the product of an array and a factor, which is multiplied into the filters if possible."""
        if (factor == 1).all():
            return operand
        if operand == DATA and self.can_scale_filters:
            self.scale, self.can_scale_filters = self.scale * factor, False
            return operand
        return self.emit("Multiply", operand, self.keep(factor))

    def add_offset(self, operand: Operand, offset: Array) -> Operand:
        """Return the sum of an array and an offset."""
        return self.emit("Add", operand, self.keep(offset)) if offset.any() else operand

    def make_exact(self, operand: Operand, meaning: Affine) -> Operand:
        """Return the array of the values themselves."""
        return self.add_offset(self.multiply(operand, meaning.scale), meaning.offset)

    def add(self, step: Step) -> None:
        """Append the operations of a step."""
        self.values.append(
            self._quantize(step) or self._combine_with_constant(step) or self._add_values(step) or self._compute(step)
        )

    def _quantize(self, step: Step) -> tuple[Operand, Affine] | None:
        quantization = get_quantization(self.chain, step, self.rank)
        if quantization is None:
            return None
        operand, meaning = self.get(step.operands[0])
        low, factor, first, last, result = quantization
        product = self.multiply(operand, meaning.scale * factor)
        total = self.add_offset(product, (meaning.offset - low) * factor + first)
        return self.emit(ROUND, total, parameters=(first, last)), result

    def _combine_with_constant(self, step: Step) -> tuple[Operand, Affine] | None:
        """Return the result of a sum or product with a constant for each channel."""
        value = self._find_constant(step)
        if value is None:
            return None
        operand, (scale, offset) = self.get(next(o for o in step.operands if o.kind != "constant"))
        if step.name == "Add":
            return operand, Affine(scale, offset + value)
        return operand, Affine(scale * value, offset * value)

    def _add_values(self, step: Step) -> tuple[Operand, Affine] | None:
        """Return the sum of two values; one of them is brought to the scale of the other."""
        if step.name != "Add" or step.operands[0] == step.operands[1]:
            return None
        if any(operand.kind == "constant" for operand in step.operands):
            return None
        values = [self.get(operand) for operand in step.operands]
        # The result of a convolution takes its scale from the filters; results of steps are multiplied in place.
        order = sorted(values, key=lambda value: (value[0] != DATA, value[0].kind != "step"))
        (first, own), (second, other) = order
        if second == DATA:
            return None
        total = self.emit("Add", self.multiply(first, own.scale / other.scale), second)
        return total, Affine(other.scale, own.offset + other.offset)

    def _compute(self, step: Step) -> tuple[Operand, Affine]:
        """Return the result of any other step, which reads the values themselves."""
        operands = []
        for operand in step.operands:
            if operand.kind == "constant":
                operands.append(self._keep_unchanged(self.chain.constants[operand.index]))
            else:
                operands.append(self.make_exact(*self.get(operand)))
        return self.emit(step.name, *operands, parameters=step.parameters), EXACT
