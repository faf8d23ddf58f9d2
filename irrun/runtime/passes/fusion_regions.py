"""Regions of instructions that can be computed together: elementwise operations, perhaps after an anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.expressions.numpy import Arrays
from irrun.fast.expressions.table import find_call
from irrun.ir.graph import Layer
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.regions import RegionGrower
from irrun.runtime.program import Instruction

__all__ = ["Region", "RegionFinder"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

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
    """

    def __init__(self, view: View, is_body: bool) -> None:
        self.program = program = view.program
        self.view = view
        self.is_body = is_body
        self.instructions = program.instructions
        self.grower = RegionGrower(program)
        self.types: dict[int, np.dtype[Any]] = {}
        self.shapes: dict[int, Shape] = {}
        for slot, layer in zip(program.parameters, program.parameter_layers, strict=False):
            self._declare(slot, layer, 0)
        for instruction in self.instructions:
            for position, slot in enumerate(instruction.outputs):
                self._declare(slot, instruction.layer, position)
            destination = instruction.attributes.get("destination_type")
            if isinstance(destination, ElementType):
                self.types[instruction.outputs[0]] = destination.dtype
        self.claimed: set[int] = set()

    def _declare(self, slot: int, layer: Layer, position: int) -> None:
        port = layer.outputs[position] if position < len(layer.outputs) else None
        if port is None or slot in self.program.constant_layers:
            return
        if port.element_type is not None:
            dtype = port.element_type.dtype
            self.types[slot] = self.program.computed_types.get(dtype, dtype)
        if port.shape is not None:
            self.shapes[slot] = tuple(d.min_length if d.is_static else -1 for d in port.shape)

    def find_regions(self) -> list[Region]:
        """Return the regions, which do not overlap."""
        regions = []
        for has_anchor in (True, False):
            for index, instruction in enumerate(self.instructions):
                if index in self.claimed or not self._is_candidate(instruction):
                    continue
                if instruction.operation.is_overwritable != has_anchor:
                    continue
                region = _RegionGrower(self, index).grow()
                if region is not None:
                    regions.append(region)
        return regions

    def _is_candidate(self, instruction: Instruction) -> bool:
        return (
            not (instruction.operation.is_custom or instruction.bodies or instruction.provided or instruction.plain)
            and len(instruction.outputs) == 1
            and self.types.get(instruction.outputs[0]) == F32
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


class _RegionGrower:
    """Adds instructions to a region as long as possible.

    Args:
        finder: The facts about the program.
        start: The index of the first instruction.
    """

    def __init__(self, finder: RegionFinder, start: int) -> None:
        self.finder, self.start = finder, start
        first = finder.instructions[start]
        self.shape = finder.shapes.get(first.outputs[0])
        self.steps: list[Step] = []
        self.inputs: list[int] = []
        self.constants: list[Array] = []
        self.members: list[int] = [start]
        #: Slots of the region -> operands.
        self.slots: dict[int, Operand] = {}

    def grow(self) -> Region | None:
        """Return the largest region with a single result, or None if no region has several instructions."""
        finder, first = self.finder, self.finder.instructions[self.start]
        is_anchor = first.operation.is_overwritable
        if self.shape is None:
            return None
        if is_anchor:
            self.inputs.append(first.outputs[0])
            self.slots[first.outputs[0]] = VALUE
        elif not self._add_first(first):
            return None
        sizes = {}

        def add(number: int) -> bool:
            is_added = self._add(number)
            sizes[len(self.members)] = len(self.steps), len(self.inputs), len(self.constants)
            return is_added

        count = finder.grower.grow(
            self.members, add, lambda n: n <= self.start + MAX_DISTANCE and len(self.steps) < MAX_STEPS
        )
        if count < 2:
            return None
        members = self.members[:count]
        finder.claimed.update(members)
        step_count, input_count, constant_count = sizes[count]
        inputs = tuple(self.inputs[:input_count])
        may_overwrite = not is_anchor and finder.dies_in(inputs[0], set(members))
        instructions = [finder.instructions[number] for number in members]
        chain = ElementwiseChain(tuple(self.steps[:step_count]), input_count, tuple(self.constants[:constant_count]))
        return Region(instructions, first if is_anchor else None, inputs, chain, may_overwrite)

    def _add_first(self, instruction: Instruction) -> bool:
        """Add the first instruction of a region without an anchor."""
        for slot in instruction.inputs:
            is_value = slot not in self.finder.program.constant_layers and self.finder.types.get(slot) == F32
            if is_value and self.finder.shapes.get(slot) == self.shape:
                self.inputs.append(slot)
                self.slots[slot] = VALUE
                is_added = self._add(self.start)
                del self.slots[slot]
                return is_added
        return False

    def _add(self, index: int) -> bool:
        """Add an instruction if it is an elementwise operation on values of the region."""
        finder, instruction = self.finder, self.finder.instructions[index]
        if index in finder.claimed or not finder._is_candidate(instruction):
            return False
        if self.slots.keys().isdisjoint(instruction.inputs):
            return False
        if finder.shapes.get(instruction.outputs[0]) != self.shape:
            return False
        saved = len(self.inputs), len(self.constants)
        steps = self._make_steps(instruction)
        if not steps:
            del self.inputs[saved[0] :], self.constants[saved[1] :]
            return False
        self.steps += steps
        self.slots[instruction.outputs[0]] = Operand("step", len(self.steps) - 1)
        if index != self.start:
            self.members.append(index)
        return True

    def _make_steps(self, instruction: Instruction) -> list[Step]:
        """Return the steps of an instruction, or an empty list if a chain cannot contain it."""
        constants = [self.finder.view.get_constant(slot) for slot in instruction.inputs]
        if str(instruction.operation) == "BatchNormInference-5":
            return self._make_normalization(instruction, constants)
        if any(c is not None and c.dtype is not F32 for c in constants):
            return []
        assert self.shape is not None
        call = find_call(Arrays, str(instruction.operation), instruction.attributes, constants, len(self.shape))
        if call is None:
            return []
        operands = []
        for source in call.operands:
            if isinstance(source, int):
                operand = self._get_operand(instruction.inputs[source], constants[source])
            else:
                operand = self._get_operand(-1, source)
            if operand is None:
                return []
            operands.append(operand)
        return [Step.create(call.name, *operands, parameters=call.parameters)]

    def _get_operand(self, slot: int, constant: Array | None) -> Operand | None:
        """Return the operand for an input, or None if it does not broadcast to the shape of the region."""
        if constant is not None:
            if not self._broadcasts(constant.shape):
                return None
            self.constants.append(constant)
            return Operand("constant", len(self.constants) - 1)
        if slot in self.slots:
            return self.slots[slot]
        shape = self.finder.shapes.get(slot)
        if shape is None or self.finder.types.get(slot) != F32 or not self._broadcasts(shape):
            return None
        if slot not in self.inputs:
            self.inputs.append(slot)
        return Operand("input", self.inputs.index(slot))

    def _broadcasts(self, shape: Shape) -> bool:
        own = self.shape
        assert own is not None
        if len(shape) > len(own):
            return False
        return all(n in (1, m) for n, m in zip(shape[::-1], own[::-1], strict=False))

    def _make_normalization(self, instruction: Instruction, constants: list[Array | None]) -> list[Step]:
        """Return the steps of BatchNormInference with constant statistics: a product and a sum."""
        data = instruction.inputs[0]
        assert self.shape is not None
        channels = self.shape[1] if len(self.shape) > 1 else -1
        values = [v.astype(np.float64) for v in constants[1:] if v is not None]
        if len(values) < 4 or any(v.shape != (channels,) for v in values) or data not in self.slots:
            return []
        scale = values[0] / np.sqrt(values[3] + instruction.attributes["epsilon"])
        shift = values[1] - values[2] * scale
        if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
            return []
        aligned = [v.astype(np.float32).reshape(-1, *[1] * (len(self.shape) - 2)) for v in (scale, shift)]
        operand: Operand | None = self.slots[data]
        steps = []
        for name, value in zip(("Multiply", "Add"), aligned, strict=True):
            constant = self._get_operand(-1, value)
            assert constant is not None
            assert operand is not None
            steps.append(Step.create(name, operand, constant))
            operand = Operand("step", len(self.steps) + len(steps) - 1)
        return steps
