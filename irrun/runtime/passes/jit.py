"""Compiled kernels: convolutions and chains of elementwise operations become one instruction each.

A *group* starts with a convolution, or with an elementwise operation, and is extended by the elementwise operations
that consume its values, as long as only the last value is used elsewhere. It is computed where its last operation was.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.fast.compressed import multiply_by_weights
from irrun.fast.jit.compressed import CompressedKernel, supports
from irrun.fast.jit.expressions import Step
from irrun.fast.jit.kernels import (
    ExpressionKernel,
)
from irrun.fast.jit.sites import SITES
from irrun.fast.jit.steps import Translation, translate
from irrun.fast.packing import PackedMemory
from irrun.runtime.passes.jit_groups import STARTS, Group, Kernel
from irrun.runtime.passes.jit_singles import replace_attention, replace_conversion, replace_single, replace_site
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["Compilation", "use_compiled_kernels"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)

#: Elements from which a single operation is compiled that NumPy computes in one pass.
MIN_CHEAP_SIZE = 1 << 15
#: Elements from which other expressions are compiled.
MIN_SIZE = 1 << 11
#: Operations of a group at most: each operand takes a register.
MAX_MEMBERS = 24


def use_compiled_kernels(program: Program, packed: PackedMemory) -> None:
    """Replace instructions by compiled kernels, in bodies too.

    Args:
        program: Changed in place. Instructions that are replaced are kept as `plain`.
        packed: What the weights of kernels may take.
    """
    Compilation(program, packed).run()
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            use_compiled_kernels(body.program, packed)


class Compilation:
    """The rewriting of one program."""

    def __init__(self, program: Program, packed: PackedMemory) -> None:
        self.program = program
        self.packed = packed
        self.instructions = program.instructions
        self.consumers: dict[int, set[int]] = defaultdict(set)
        self.ports = program.map_ports()
        for number, instruction in enumerate(self.instructions):
            for slot in instruction.inputs:
                self.consumers[slot].add(number)
        for slot in program.results:
            self.consumers[slot].add(len(self.instructions))
        self.taken: set[int] = set()
        self.replacements: dict[int, Instruction] = {}
        #: The layouts of codes by the numbers of instructions, and instructions that are added after others.
        self.encoded: dict[int, str] = {}
        self.insertions: dict[int, list[Instruction]] = {}

    def run(self) -> None:
        """Find the groups and replace them: convolutions first, so that they get their epilogues."""
        if any(instruction.operation.type == "FakeQuantize" for instruction in self.instructions):
            from irrun.runtime.passes.jit_quantized import use_quantized_kernels

            use_quantized_kernels(self)
        for number, instruction in enumerate(self.instructions):
            if number in self.taken:
                continue
            if instruction.kernel is multiply_by_weights and supports(instruction.attributes["weights"]):
                kernel = CompressedKernel(instruction.attributes["weights"])
                self.replacements[number] = replace(
                    instruction, kernel=kernel, attributes={}, description=kernel.description
                )
                self.taken.add(number)
            start = STARTS.get(instruction.operation.type)
            if start is not None and self.is_replaceable(number):
                group = start(self, number)
                if group is not None:
                    self.replace_group(group)
        for number, instruction in enumerate(self.instructions):
            if number not in self.taken and self.is_replaceable(number):
                if instruction.operation.type in SITES:
                    replace_site(self, number)
                    continue
                if instruction.operation.type in ("Softmax", "MaxPool"):
                    replace_single(self, number)
                    continue
                if instruction.operation.type == "ScaledDotProductAttention":
                    replace_attention(self, number)
                    continue
                if instruction.operation.type == "Convert":
                    replace_conversion(self, number)
                    continue
                group = self.start_expression(number)
                if group is not None:
                    self.replace_group(group)
        if self.replacements:
            self.program.instructions = [
                current
                for number, instruction in enumerate(self.instructions)
                if number in self.replacements or number not in self.taken
                for current in (self.replacements.get(number, instruction), *self.insertions.get(number, ()))
            ]
            self.program.free_after_last_use()

    def is_replaceable(self, number: int) -> bool:
        """Return whether an instruction is one of irrun's own, as it was lowered."""
        instruction = self.instructions[number]
        is_own = (instruction.operation.kernel.__module__ or "").startswith("irrun.ops.")
        return (
            is_own
            and not (instruction.plain or instruction.bodies or instruction.provided)
            and number not in self.taken
        )

    def get_constant(self, slot: int) -> Array | None:
        """Return the value of a slot if it is constant."""
        return self.program.initial[slot] if slot in self.program.constant_layers else None

    def get_shape(self, slot: int) -> tuple[Any, ...] | None:
        """Return the declared shape of a value, with None for dynamic dimensions, if its rank is known."""
        constant = self.get_constant(slot)
        if constant is not None:
            return tuple(constant.shape)
        port = self.ports.get(slot)
        if port is None or port.shape is None:
            return None
        return tuple(d if isinstance(d, int) else None for d in port.shape)

    def is_f32(self, slot: int) -> bool:
        """Return whether a value is f32."""
        constant = self.get_constant(slot)
        if constant is not None:
            return bool(constant.dtype == F32)
        port = self.ports.get(slot)
        if port is None or port.element_type is None:
            return False
        declared = port.element_type.dtype
        return bool(self.program.computed_types.get(declared, declared) == F32)

    # Groups

    def start_expression(self, number: int) -> Group | None:
        """Return the group of elementwise operations that starts with an instruction."""
        instruction = self.instructions[number]
        value = self.choose_running_value(instruction)
        if value is None or self.translate(instruction) is None:
            return None
        shape = self.get_shape(value)
        if shape is None or not self.is_f32(value):
            return None
        group = Group(value, shape, None, (value,))
        if not self.add_member(group, number):
            return None
        self.extend(group)
        size = math.prod(d or 64 for d in shape)
        limit = MIN_CHEAP_SIZE if group.is_cheap and len(group.members) == 1 else MIN_SIZE
        return group if group.members and size >= limit else None

    def choose_running_value(self, instruction: Instruction) -> int | None:
        """Return the input that has the shape of the result."""
        shape = self.get_shape(instruction.outputs[0])
        for slot in instruction.inputs:
            if slot != ABSENT and self.get_constant(slot) is None and shape and self.get_shape(slot) == shape:
                return slot
        return None

    def translate(self, instruction: Instruction) -> Translation | None:
        """Return the step of an elementwise operation."""
        constants = [self.get_constant(slot) for slot in instruction.inputs]
        ranks = [None if (s := self.get_shape(slot)) is None else len(s) for slot in instruction.inputs]
        return translate(instruction.operation.type, instruction.attributes, constants, ranks)

    def extend(self, group: Group) -> None:
        """Add instructions that follow, and keep as many as leave one value that is used elsewhere."""
        candidates: set[int] = set()
        best = 0
        sizes = {len(group.members): (len(group.operands), len(group.steps))}
        last = group.members[-1]
        pending = {n for slot in group.slots for n in self.consumers[slot]}
        while pending and len(group.members) < MAX_MEMBERS:
            number = min(pending)
            pending.discard(number)
            if number in candidates or number <= last:
                continue
            candidates.add(number)
            if (
                number >= len(self.instructions)
                or not self.is_replaceable(number)
                or not self.add_member(group, number)
            ):
                continue
            last = number
            pending |= {n for slot in self.instructions[number].outputs for n in self.consumers[slot]}
            sizes[len(group.members)] = (len(group.operands), len(group.steps))
        start = 1
        for count in range(len(group.members), start - 1, -1):
            if self.is_closed(group.members[:count], group):
                best = count
                break
        best = max(best, start) if group.create or group.layout else best
        if best == 0:
            group.members = []
            return
        operand_count, step_count = sizes[best]
        group.members = group.members[:best]
        group.operands, group.steps = group.operands[:operand_count], group.steps[:step_count]

    def is_closed(self, members: Sequence[int], group: Group) -> bool:
        """Return whether only the value of the last member is used by other instructions."""
        inside = set(members)
        slots = [slot for number in members[:-1] for slot in self.instructions[number].outputs]
        return all(self.consumers[slot] <= inside for slot in slots)

    def add_member(self, group: Group, number: int) -> bool:
        """Add an elementwise operation to a group if its result has the shape of the group."""
        instruction = self.instructions[number]
        if self.encoded.get(number, group.layout) != group.layout:
            return False
        step = self.translate(instruction)
        output = instruction.outputs[0]
        if step is None or len(instruction.outputs) != 1 or not self.is_f32(output):
            return False
        if self.get_shape(output) != group.shape:
            return False
        operands: list[int | Array] = []
        numbers: list[tuple[str, int]] = []
        for operand in step.operands:
            source = instruction.inputs[operand] if isinstance(operand, int) else operand
            if isinstance(source, int) and (source == group.value or source in group.slots):
                numbers.append(group.slots.get(source, ("value", 0)))
                continue
            if isinstance(source, int):
                constant = self.get_constant(source)
                if not self.is_f32(source):
                    return False
                own = self.get_shape(source)
                source = source if constant is None else constant
            else:
                own = source.shape
            if own is None or not _broadcasts(own, group.shape) or not (group.accepts is None or group.accepts(own)):
                return False
            numbers.append(("operand", len(group.operands) + len(operands)))
            operands.append(source)
        if ("value", 0) not in numbers and not any(kind == "step" for kind, _ in numbers):
            return False
        group.slots[output] = ("step", len(group.steps))
        group.steps.append((step, numbers))
        group.operands.extend(operands)
        group.members.append(number)
        group.is_cheap = group.is_cheap and step.is_cheap
        return True

    def make_group(self, number: int, inputs: tuple[int, ...]) -> Group:
        """Return a group that starts with an instruction whose result has a known rank."""
        value = self.instructions[number].outputs[0]
        return Group(value, self.get_shape(value) or (), None, inputs, [number], {value: ("value", 0)})

    def number_steps(self, group: Group) -> tuple[Step, ...]:
        """Return the steps of a group, whose operands are numbered as in `Expression`."""
        offsets = {"value": 0, "operand": 1, "step": 1 + len(group.operands)}
        return tuple(
            Step(t.operation, tuple(offsets[kind] + i for kind, i in numbers), t.parameters)
            for t, numbers in group.steps
        )

    def replace_group(self, group: Group) -> None:
        """Replace the instructions of a group by its kernel."""
        steps = self.number_steps(group)
        constants = [None if isinstance(operand, int) else operand for operand in group.operands]
        kernel: Kernel
        if group.create is None:
            kernel = ExpressionKernel(len(group.shape), steps, constants)
        else:
            kernel = group.create(steps, constants)
        variable = tuple(operand for operand in group.operands if isinstance(operand, int))
        shapes = [self.get_shape(slot) for slot in (*group.inputs, *variable)]
        try:
            if all(shape is not None and None not in shape for shape in shapes):
                kernel.prepare(shapes[0] or (), [shape or () for shape in shapes[1:]])
        except (ArithmeticError, ValueError):  # a case without a kernel
            return
        members = [self.instructions[number] for number in group.members]
        last = members[-1]
        self.replacements[group.members[-1]] = replace(
            last,
            kernel=kernel,
            attributes={},
            inputs=(*group.inputs, *variable),
            plain=tuple(members),
            description=kernel.description,
        )
        self.taken.update(group.members)


def _broadcasts(shape: Sequence[Any], target: Sequence[Any]) -> bool:
    """Return whether a declared shape broadcasts to another without changing it. Kernels check dynamic dimensions."""
    if len(shape) > len(target):
        return False
    return all(d in (1, n) for d, n in zip(reversed(shape), reversed(target), strict=False))
