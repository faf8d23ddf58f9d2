"""Regions of instructions that can be computed together: elementwise operations, perhaps after an anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.expressions.numpy import Arrays
from irrun.fast.expressions.table import find_call
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.regions import RegionGrower, broadcasts
from irrun.runtime.program import Instruction

__all__ = ["Region", "RegionFinder"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)
VALUE = Operand("input", 0)

#: Instructions after a region's last one that are considered.
MAX_DISTANCE = 200
MAX_STEPS = 24


@dataclass(eq=False, repr=False)
class Region:
    """Instructions that one instruction can replace.

    Attributes:
        members: In order; only the last one has consumers outside.
        anchor: The first member, if it is not an elementwise operation.
        inputs: The slots of the inputs of the chain; the first is the running value.
        chain: The elementwise operations.
        may_overwrite: Whether the running value is not needed afterwards.
    """

    members: list[Instruction]
    anchor: Instruction | None
    inputs: tuple[int, ...]
    chain: ElementwiseChain
    may_overwrite: bool


class RegionFinder:
    """Finds the regions of one program.

    Args:
        view: The program.
        is_body: Whether its values may be kept between iterations.

    Attributes:
        claimed: The numbers of the instructions that are members of regions.
    """

    def __init__(self, view: View, is_body: bool) -> None:
        self.view = view
        self.is_body = is_body
        self.instructions = view.program.instructions
        self.grower = RegionGrower(view.program)
        self.claimed: set[int] = set()

    def find_regions(self) -> list[Region]:
        """Return the regions, which do not overlap. Those with anchors come first, because they save more."""
        regions = []
        for has_anchor in (True, False):
            for number, instruction in enumerate(self.instructions):
                if instruction.operation.is_overwritable == has_anchor and self.is_candidate(number):
                    region = _Growth(self, number).run()
                    if region is not None:
                        regions.append(region)
        return regions

    def is_candidate(self, number: int) -> bool:
        """Return whether an instruction may belong to a region that is found now."""
        instruction = self.instructions[number]
        return (
            number not in self.claimed
            and not (instruction.operation.is_custom or instruction.bodies or instruction.provided or instruction.plain)
            and len(instruction.outputs) == 1
            and self.view.is_f32(instruction.outputs[0])
        )

    def dies_in(self, slot: int, members: set[int]) -> bool:
        """Return whether a slot is a new array that only some instructions consume."""
        producer = self.view.producers.get(slot)
        if self.is_body or producer is None or producer.plain or producer.bodies:
            return False
        operation, attributes = producer.operation, producer.attributes
        has_call = find_call(Arrays, str(operation), attributes, [None] * 2) is not None
        is_new = operation.is_overwritable or (has_call and not operation.is_custom)
        return is_new and self.grower.consumers[slot] <= members


class _Growth:
    """Adds instructions to a region as long as possible.

    Args:
        finder: The facts about the program.
        start: The number of the first instruction.
    """

    def __init__(self, finder: RegionFinder, start: int) -> None:
        self.finder, self.view = finder, finder.view
        self.start = start
        self.first = finder.instructions[start]
        self.shape = self.view.get_shape(self.first.outputs[0]) or ()
        self.steps: list[Step] = []
        self.inputs: list[int] = []
        self.constants: list[Array] = []
        self.members: list[int] = [start]
        #: Slots of the region -> operands.
        self.slots: dict[int, Operand] = {}

    def run(self) -> Region | None:
        """Return the largest region with a single result, or None if no region has several instructions."""
        finder, is_anchor = self.finder, self.first.operation.is_overwritable
        if self.view.get_shape(self.first.outputs[0]) is None:
            return None
        if is_anchor:
            self.inputs.append(self.first.outputs[0])
            self.slots[self.first.outputs[0]] = VALUE
        elif not self._add_first():
            return None
        parts = (self.steps, self.inputs, self.constants)
        if not finder.grower.grow(self.members, parts, self._add, self._may_grow):
            return None
        finder.claimed.update(self.members)
        return Region(
            [finder.instructions[number] for number in self.members],
            self.first if is_anchor else None,
            tuple(self.inputs),
            ElementwiseChain(tuple(self.steps), len(self.inputs), tuple(self.constants)),
            may_overwrite=not is_anchor and finder.dies_in(self.inputs[0], set(self.members)),
        )

    def _may_grow(self, number: int) -> bool:
        return number <= self.start + MAX_DISTANCE and len(self.steps) < MAX_STEPS

    def _add_first(self) -> bool:
        """Add the first instruction of a region without an anchor; its first input of the full shape is the value."""
        for slot in self.first.inputs:
            is_variable = self.view.get_constant(slot) is None and self.view.is_f32(slot)
            if is_variable and self.view.get_shape(slot) == self.shape:
                self.inputs.append(slot)
                self.slots[slot] = VALUE
                is_added = self._add_steps(self.first)
                del self.slots[slot]
                return is_added
        return False

    def _add(self, number: int) -> bool:
        """Add an instruction if it is an elementwise operation on values of the region."""
        if not self.finder.is_candidate(number) or not self._add_steps(self.finder.instructions[number]):
            return False
        self.members.append(number)
        return True

    def _add_steps(self, instruction: Instruction) -> bool:
        """Add the steps of an instruction, unless a chain cannot contain it."""
        (output,) = instruction.outputs
        if self.slots.keys().isdisjoint(instruction.inputs) or self.view.get_shape(output) != self.shape:
            return False
        lengths = len(self.inputs), len(self.constants)
        steps = self._make_steps(instruction)
        if not steps:
            del self.inputs[lengths[0] :], self.constants[lengths[1] :]
            return False
        self.steps += steps
        self.slots[output] = Operand("step", len(self.steps) - 1)
        return True

    def _make_steps(self, instruction: Instruction) -> list[Step]:
        """Return the steps of an instruction, or an empty list if a chain cannot contain it."""
        constants = [self.view.get_constant(slot) for slot in instruction.inputs]
        if str(instruction.operation) == "BatchNormInference-5":
            return self._make_normalization(instruction, constants)
        if any(c is not None and c.dtype is not F32 for c in constants):
            return []
        call = find_call(Arrays, str(instruction.operation), instruction.attributes, constants, len(self.shape))
        if call is None:
            return []
        sources = [instruction.inputs[s] if isinstance(s, int) else s for s in call.operands]
        operands = [self._find_operand(source) for source in sources]
        known = [operand for operand in operands if operand is not None]
        return [Step.create(call.name, *known, parameters=call.parameters)] if len(known) == len(operands) else []

    def _find_operand(self, source: int | Array) -> Operand | None:
        """Return the operand for a slot or a constant, or None if it does not broadcast to the shape of the region."""
        constant = self.view.get_constant(source) if isinstance(source, int) else source
        if constant is not None:
            return self._add_constant(constant) if broadcasts(constant.shape, self.shape) else None
        assert isinstance(source, int)
        if source in self.slots:
            return self.slots[source]
        shape = self.view.get_shape(source)
        if shape is None or not self.view.is_f32(source) or not broadcasts(shape, self.shape):
            return None
        if source not in self.inputs:
            self.inputs.append(source)
        return Operand("input", self.inputs.index(source))

    def _add_constant(self, value: Array) -> Operand:
        self.constants.append(value)
        return Operand("constant", len(self.constants) - 1)

    def _make_normalization(self, instruction: Instruction, constants: list[Array | None]) -> list[Step]:
        """Return the steps of BatchNormInference with constant statistics: a product and a sum."""
        data = self.slots.get(instruction.inputs[0])
        channels = self.shape[1] if len(self.shape) > 1 else None
        values = [v.astype(np.float64) for v in constants[1:] if v is not None]
        if data is None or len(values) < 4 or any(v.shape != (channels,) for v in values):
            return []
        gamma, beta, mean, variance = values
        scale = gamma / np.sqrt(variance + instruction.attributes["epsilon"])
        shift = beta - mean * scale
        if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
            return []
        factor, term = (
            self._add_constant(v.astype(np.float32).reshape(-1, *[1] * (len(self.shape) - 2))) for v in (scale, shift)
        )
        product = Operand("step", len(self.steps))
        return [Step.create("Multiply", data, factor), Step.create("Add", product, term)]
