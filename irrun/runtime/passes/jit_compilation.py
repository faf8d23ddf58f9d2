"""The search for groups of instructions that one compiled kernel can compute.

A *group* starts with a convolution or an elementwise operation, and is extended by the elementwise operations that
consume its values, as long as only the last value is used elsewhere. It takes the place of its last operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from irrun.fast.errors import REFUSALS, NoKernelError
from irrun.fast.expressions.table import Call, find_call, get_expression
from irrun.fast.jit.expressions import Step
from irrun.fast.jit.kernels import ConvolutionKernel, ExpressionKernel, NormalizationKernel
from irrun.fast.jit.product_kernels import ProductKernel, VariableProductKernel
from irrun.fast.jit.vectors import Vectors
from irrun.fast.packing import PackedMemory
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.regions import RegionGrower, broadcasts
from irrun.runtime.program import ABSENT, Instruction, Program, Refusal

__all__ = ["NOT_F32", "Compilation", "Group", "Kernel", "is_row_or_full"]

Array = np.ndarray[Any, Any]
Kernel: TypeAlias = ConvolutionKernel | ExpressionKernel | NormalizationKernel | ProductKernel | VariableProductKernel

#: Minimum number of elements for compiling a single operation that NumPy computes in one pass.
MIN_CHEAP_SIZE = 1 << 15
#: Minimum number of elements for compiling other expressions.
MIN_SIZE = 1 << 11
#: Why operations on other values are not compiled.
NOT_F32 = "an operand is not f32, or does not broadcast to the result"
#: Maximum number of operations in a group: each operand takes a register.
MAX_MEMBERS = 24


@dataclass
class Group:
    """Instructions that one kernel computes.

    Attributes:
        value: The slot of the running value: the result of a convolution, or the input of an expression.
        shape: The declared shape of all its values.
        create: Creates the kernel of the convolution from the steps and the constants and kinds of the operands.
        inputs: Slots that the kernel gets before the operands.
        members: Numbers of the instructions, in order.
        slots: Slots of the values of the group.
        operands: Slots of variable operands, or constants.
        steps: The steps so far. Operands are numbered as in `Expression` once all of them are known.
        is_cheap: Whether NumPy computes each of the operations in one pass.
        layout: The layout of codes that the kernel computes with, or empty.
        accepts: Whether the kernel has a form for an operand of a shape.
    """

    value: int
    shape: tuple[Any, ...]
    create: Callable[[tuple[Step, ...], Sequence[Array | None]], Kernel] | None
    inputs: tuple[int, ...]
    members: list[int] = field(default_factory=list)
    slots: dict[int, tuple[str, int]] = field(default_factory=dict)
    operands: list[int | Array] = field(default_factory=list)
    steps: list[tuple[Call, list[tuple[str, int]]]] = field(default_factory=list)
    is_cheap: bool = True
    layout: str = ""
    accepts: Callable[[Sequence[Any]], bool] | None = None


class Compilation:
    """The compilation of one program.

    Args:
        program: The program.
        packed: The memory of the weights of kernels.

    Attributes:
        grower: Grows groups.
        consumers: Numbers of the instructions that read a slot; results have the number after the last one.
        taken: Numbers of instructions that are replaced.
        replacements: Instructions with compiled kernels, by the number of the last instruction that they replace.
        encoded: Layouts of codes, by the number of an instruction with a coded result.
        insertions: Instructions that are added after others.
    """

    def __init__(self, program: Program, packed: PackedMemory) -> None:
        self.program = program
        self.view = View(program)
        self.packed = packed
        self.instructions = program.instructions
        self.grower = RegionGrower(program)
        self.consumers = self.grower.consumers
        self.taken: set[int] = set()
        self.replacements: dict[int, Instruction] = {}
        self.encoded: dict[int, str] = {}
        self.insertions: dict[int, list[Instruction]] = {}

    def is_replaceable(self, number: int) -> bool:
        """Return whether an instruction is one of irrun's own, as it was lowered."""
        instruction = self.instructions[number]
        return (
            not (instruction.operation.is_custom or instruction.plain or instruction.bodies or instruction.provided)
            and number not in self.taken
        )

    def replace(self, members: Sequence[int], kernel: Any, inputs: tuple[int, ...], **changes: Any) -> None:
        """Replace instructions by one with a compiled kernel.

        Args:
            members: Their numbers. The new instruction takes the place of the last one.
            kernel: The kernel.
            inputs: The slots that the kernel gets.
            changes: Other fields of the new instruction that differ from the last one.
        """
        instructions = tuple(self.instructions[number] for number in members)
        changes.setdefault("plain", instructions)
        self.replacements[members[-1]] = replace(
            instructions[-1],
            kernel=kernel,
            attributes={},
            inputs=inputs,
            description=kernel.description,
            **changes,
        )
        self.taken.update(members)

    def finish(self) -> None:
        """Change the program."""
        if self.replacements:
            self.program.instructions = [
                current
                for number, instruction in enumerate(self.instructions)
                if number in self.replacements or number not in self.taken
                for current in (self.replacements.get(number, instruction), *self.insertions.get(number, ()))
            ]
            self.program.free_after_last_use()

    def attempt(self, number: int, replace: Callable[[Compilation, int], None]) -> None:
        """Replace an instruction if it is replaceable, or keep the reason why it has no compiled kernel.

        Args:
            number: The number of the instruction.
            replace: Replaces it, or raises one of `REFUSALS`. Without a text, there is nothing to report.
        """
        if self.is_replaceable(number):
            try:
                replace(self, number)
            except REFUSALS as error:
                if str(error):
                    self.program.refusals.append(Refusal(self.instructions[number].layer.name, "compile", str(error)))

    # Groups

    def replace_expression(self, number: int) -> None:
        """Replace the group of elementwise operations that starts with an instruction.

        Raises:
            NoKernelError: It has no compiled kernel.
        """
        instruction = self.instructions[number]
        reasons: list[str] = []
        if self.find_call(instruction, reasons.append) is None:
            raise NoKernelError("; ".join(reasons))
        value = self.choose_running_value(instruction)
        if value is None:
            raise NoKernelError("no variable input is known to have the shape of the result")
        shape = self.view.get_shape(value) or ()
        group = Group(value, shape, None, (value,))
        if not self.view.is_f32(value) or not self.add_member(group, number):
            raise NoKernelError(NOT_F32)
        self.extend(group)
        limit = MIN_CHEAP_SIZE if group.is_cheap and len(group.members) == 1 else MIN_SIZE
        if math.prod(d or 64 for d in shape) < limit:
            raise NoKernelError(f"NumPy is as fast for fewer than {limit:,} elements")
        self.replace_group(group)

    def choose_running_value(self, instruction: Instruction) -> int | None:
        """Return the input that has the shape of the result."""
        shape = self.view.get_shape(instruction.outputs[0])
        for slot in instruction.inputs:
            if slot != ABSENT and self.view.get_constant(slot) is None and shape and self.view.get_shape(slot) == shape:
                return slot
        return None

    def find_call(self, instruction: Instruction, report: Callable[[str], object] | None = None) -> Call | None:
        """Return the expression of an elementwise operation, or report why vectors cannot compute it."""
        constants = [self.view.get_constant(slot) for slot in instruction.inputs]
        shape = self.view.get_shape(instruction.inputs[0]) if instruction.inputs else None
        rank = None if shape is None else len(shape)
        return find_call(Vectors, str(instruction.operation), instruction.attributes, constants, rank, report)

    def extend(self, group: Group) -> None:
        """Add the following instructions, as long as only the last value is used elsewhere."""

        def add(number: int) -> bool:
            return self.is_replaceable(number) and self.add_member(group, number)

        parts = (group.operands, group.steps)
        self.grower.grow(group.members, parts, add, lambda number: len(group.members) < MAX_MEMBERS)

    def add_member(self, group: Group, number: int) -> bool:
        """Add an elementwise operation to a group if its result has the shape of the group."""
        instruction = self.instructions[number]
        if self.encoded.get(number, group.layout) != group.layout:
            return False
        call = self.find_call(instruction)
        output = instruction.outputs[0]
        if call is None or len(instruction.outputs) != 1 or not self.view.is_f32(output):
            return False
        if self.view.get_shape(output) != group.shape:
            return False
        operands: list[int | Array] = []
        numbers: list[tuple[str, int]] = []
        for operand in call.operands:
            source = instruction.inputs[operand] if isinstance(operand, int) else operand
            if isinstance(source, int) and (source == group.value or source in group.slots):
                numbers.append(group.slots.get(source, ("value", 0)))
                continue
            if isinstance(source, int):
                constant = self.view.get_constant(source)
                if not self.view.is_f32(source):
                    return False
                own = self.view.get_shape(source)
                source = source if constant is None else constant
            else:
                own = source.shape
            if own is None or not broadcasts(own, group.shape) or not (group.accepts is None or group.accepts(own)):
                return False
            numbers.append(("operand", len(group.operands) + len(operands)))
            operands.append(source)
        if ("value", 0) not in numbers and not any(kind == "step" for kind, _ in numbers):
            return False
        group.slots[output] = ("step", len(group.steps))
        group.steps.append((call, numbers))
        group.operands.extend(operands)
        group.members.append(number)
        group.is_cheap = group.is_cheap and get_expression(call.name).is_cheap
        return True

    def make_group(self, number: int, inputs: tuple[int, ...]) -> Group:
        """Return a group that starts with an instruction with a result of known rank."""
        value = self.instructions[number].outputs[0]
        return Group(value, self.view.get_shape(value) or (), None, inputs, [number], {value: ("value", 0)})

    def number_steps(self, group: Group) -> tuple[Step, ...]:
        """Return the steps of a group, with operands numbered as in `Expression`."""
        offsets = {"value": 0, "operand": 1, "step": 1 + len(group.operands)}
        return tuple(
            Step(call.name, tuple(offsets[kind] + i for kind, i in numbers), call.parameters)
            for call, numbers in group.steps
        )

    def replace_group(self, group: Group) -> None:
        """Replace the instructions of a group by its kernel. For static shapes, it is compiled now.

        Raises:
            NoKernelError: There is no kernel for these shapes; other exceptions of `REFUSALS` mean the same.
        """
        steps = self.number_steps(group)
        constants = [None if isinstance(operand, int) else operand for operand in group.operands]
        kernel: Kernel
        if group.create is None:
            kernel = ExpressionKernel(len(group.shape), steps, constants)
        else:
            kernel = group.create(steps, constants)
        variable = tuple(operand for operand in group.operands if isinstance(operand, int))
        shapes = [self.view.get_shape(slot) for slot in (*group.inputs, *variable)]
        if all(shape is not None and None not in shape for shape in shapes):
            kernel.prepare([shape or () for shape in shapes])
        self.replace(group.members, kernel, (*group.inputs, *variable))


def is_row_or_full(shape: Sequence[Any], operand: Sequence[Any]) -> bool:
    """Return whether an operand is a scalar, a row, or has the shape of a product."""
    return all(d == 1 for d in operand[:-1]) or tuple(operand) == tuple(shape)
