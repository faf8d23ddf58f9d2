"""Sequences: consecutive instructions with compiled kernels are joined, and run without the interpreter.

The program keeps its instructions, which profiles measure one by one. Requests without instruments run the sequences.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.fast.errors import REFUSALS
from irrun.fast.jit.bindings import Layout, get_layout, get_strides
from irrun.fast.jit.copies import bind_contiguous
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.sequence_members import (
    Computation,
    Concatenation,
    Member,
    Views,
    list_inputs,
    list_outputs,
    view_layout,
)
from irrun.fast.jit.sequences import SequenceKernel
from irrun.ir.graph import Port
from irrun.runtime.passes.engine import View
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["join_instructions", "run"]

Array = np.ndarray[Any, Any]

#: Maximum number of arithmetic operations of a sequence: 0.02 seconds on a fast core. Between sequences, runs check
#: time limits and the load of the cores.
MAX_WORK = 1 << 31
#: Arithmetic operations of a member whose number is unknown, as in models with dynamic shapes.
DEFAULT_WORK = MAX_WORK // 40
#: Maximum number of instructions between members that run after the sequence.
MAX_POSTPONED = 8


def run(program: Program, resources: Resources) -> None:
    """Set the sequences of a program; bodies have none."""
    join_instructions(program)


def join_instructions(program: Program) -> None:
    """Set the sequences of a program, if it has neighboring instructions with compiled kernels."""
    joiner = _Joiner(program)
    for instruction in program.instructions:
        joiner.add(instruction)
    joiner.finish()
    if len(joiner.joined) < len(program.instructions):
        program.sequences = joiner.joined
        replace(program, instructions=joiner.joined).free_after_last_use()


class _Joiner:
    """Joins instructions, which are added in order.

    Instructions between members that have no compiled kernel run after the sequence, or before it if they only read or
    write variables. Their own order does not change.

    Args:
        program: The program.

    Attributes:
        joined: The sequences, and the other instructions.
    """

    def __init__(self, program: Program) -> None:
        self.joined: list[Instruction] = []
        self._factory = _MemberFactory(program)
        self._results = frozenset(program.results)
        #: The current sequence: its members, their instructions, and the number of their arithmetic operations.
        self._members: list[Member] = []
        self._instructions: list[Instruction] = []
        self._work = 0
        #: The instructions that follow the current sequence.
        self._postponed: list[Instruction] = []

    def add(self, instruction: Instruction) -> None:
        """Add the next instruction of the program."""
        members = self._factory.make(instruction)
        work = self._factory.count_work(instruction)
        if members and (self._work + work > MAX_WORK or _depends_on(instruction, self._postponed)):
            self.finish()
            members = self._factory.make(instruction)
        if members:
            self._members += members
            self._instructions.append(instruction)
            self._work += work
        elif not self._members or self._can_precede(instruction):
            self.joined.append(instruction)
        elif len(self._postponed) < MAX_POSTPONED:
            self._postponed.append(instruction)
        else:
            self.finish()
            self.joined.append(instruction)

    def finish(self) -> None:
        """Finish the current sequence, and append the instructions that follow it."""
        if sum(not isinstance(member, Views) for member in self._members) < 2:
            self.joined += self._instructions
        else:
            self.joined.append(self._join())
        self.joined += self._postponed
        self._members, self._instructions, self._work, self._postponed = [], [], 0, []
        self._factory.layouts.clear()

    def _can_precede(self, instruction: Instruction) -> bool:
        """Return whether an instruction may run before the current sequence."""
        is_next = instruction.operation.kind == "state" and not self._postponed
        return is_next and not _depends_on(instruction, self._instructions)

    def _join(self) -> Instruction:
        """Return the instruction that computes the members of the current sequence."""
        computed = {slot for member in self._members for slot in list_outputs(member)}
        inputs = tuple(dict.fromkeys(slot for x in self._members for slot in list_inputs(x) if slot not in computed))
        own = {id(instruction) for instruction in self._instructions}
        consumers = self._factory.view.consumers
        outputs = tuple(
            slot
            for instruction in self._instructions
            for slot in instruction.outputs
            if slot in self._results or any(id(consumer) not in own for consumer in consumers[slot])
        )
        coded = frozenset(slot for slot in (*inputs, *computed) if slot in self._factory.coded)
        kernel = SequenceKernel(tuple(self._members), inputs, outputs, coded)
        return replace(
            self._instructions[-1],
            kernel=kernel,
            inputs=inputs,
            outputs=outputs,
            attributes={},
            plain=tuple(self._instructions),
            description=kernel.description,
        )


def _depends_on(instruction: Instruction, others: Sequence[Instruction]) -> bool:
    """Return whether an instruction reads an output of others."""
    return any(slot in other.outputs for other in others for slot in instruction.inputs)


class _MemberFactory:
    """Makes members of sequences.

    Args:
        program: The program.

    Attributes:
        layouts: The layouts of values that members of the current sequence compute, as far as they are declared and
            not contiguous.
        coded: Slots of values that are codes.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.view = View(program)
        self.layouts: dict[int, Layout] = {}
        self.coded = {
            slot
            for instruction in program.instructions
            if isinstance(instruction.kernel, CompiledKernel) and instruction.kernel.returns_codes
            for slot in instruction.outputs
        }

    def count_work(self, instruction: Instruction) -> int:
        """Return the number of arithmetic operations of a compiled kernel, or an estimate. Movements count as 0."""
        if not isinstance(instruction.kernel, CompiledKernel):
            return 0
        total = 0
        for definition in instruction.definitions:
            inputs: list[Array | None] = []
            for slot, port in zip(definition.inputs, definition.layer.inputs, strict=False):
                constant = self.view.get_constant(slot)
                inputs.append(_make_sample(port) if constant is None else constant)
            outputs = [x for port in definition.layer.outputs if (x := _make_sample(port)) is not None]
            if len(inputs) < len(definition.inputs) or not outputs or any(x is None for x in inputs):
                return DEFAULT_WORK
            try:
                count = definition.operation.count_flops(inputs, outputs, definition.attributes)
            except (ArithmeticError, LookupError, ValueError):  # the declared shapes are wrong
                return DEFAULT_WORK
            total += DEFAULT_WORK if count is None else count
        return total

    def make(self, instruction: Instruction) -> list[Member]:
        """Return an instruction as members of a sequence; none if it cannot be in one."""
        if instruction.bodies or instruction.provided or ABSENT in instruction.inputs:
            return []
        if not all(slot in self.coded or self.view.is_f32(slot) for slot in instruction.outputs):
            return []
        kernel = instruction.kernel
        try:
            if isinstance(kernel, CompiledKernel) and kernel.output_sizes:
                return self.make_split_computation(instruction, kernel)
            member = self.make_member(instruction)
        except REFUSALS:
            return []
        return [] if member is None else [member]

    def make_member(self, instruction: Instruction) -> Member | None:
        kernel = instruction.kernel
        if isinstance(kernel, CompiledKernel) and kernel.can_bind:
            return self.make_computation(instruction, kernel)
        definition = instruction.definitions[0]
        if len(instruction.definitions) != 1:
            return None
        if definition.operation.concatenates and len(definition.inputs) > 1:
            self.check_copies(definition.inputs)
            return Concatenation(definition.inputs, definition.outputs[0], int(definition.attributes["axis"]))
        constants = [self.program.initial[slot] for slot in instruction.inputs[1:]]
        if definition.operation.views and all(value is not None for value in constants):
            view = functools.partial(_call, kernel, constants, instruction.attributes)
            return self.make_views(instruction, view)
        return None

    def make_computation(self, instruction: Instruction, kernel: CompiledKernel) -> Member | None:
        if not kernel.reads_layouts:
            self.check_copies(instruction.inputs)
            return Computation(instruction.inputs, instruction.outputs[0], kernel)
        if not all(map(self.view.is_f32, instruction.inputs)):
            return None
        layouts = [self.get_layout(slot) for slot in instruction.inputs]
        known = [layout for layout in layouts if layout is not None]
        strides = kernel.bind(known).strides if len(known) == len(layouts) else ()
        shape = self.view.get_static_shape(instruction.outputs[0])
        if strides and shape is not None:
            self.layouts[instruction.outputs[0]] = Layout(shape, strides)
        return Computation(instruction.inputs, instruction.outputs[0], kernel)

    def make_split_computation(self, instruction: Instruction, kernel: CompiledKernel) -> list[Member]:
        """Return the members for a kernel whose outputs are parts of its result."""
        result = -1 - instruction.outputs[0]  # a slot that no instruction has
        computation = self.make_computation(replace(instruction, outputs=(result,)), kernel)
        ends = list(itertools.accumulate(kernel.output_sizes))
        if computation is None:
            return []
        return [computation, Views(result, instruction.outputs, lambda x: np.split(x, ends[:-1], axis=-1))]

    def make_views(self, instruction: Instruction, view: Callable[[Array], Any]) -> Member | None:
        layout = self.get_layout(instruction.inputs[0])
        if layout is None:
            return Views(instruction.inputs[0], instruction.outputs, view)
        views = view_layout(view, layout)
        if views is None:
            bind_contiguous(layout)
            views = view_layout(view, Layout(layout.shape, get_strides(layout.shape)))
        if views is None:
            return None
        for slot, (own, _) in zip(instruction.outputs, views, strict=True):
            if not own.is_contiguous:
                self.layouts[slot] = own
        return Views(instruction.inputs[0], instruction.outputs, view)

    def check_copies(self, slots: Sequence[int]) -> None:
        """Check that inputs are contiguous or can be copied.

        Raises:
            NoKernelError: The instruction has no kernel.
        """
        for slot in slots:
            if slot in self.layouts:
                bind_contiguous(self.layouts[slot])

    def get_layout(self, slot: int) -> Layout | None:
        """Return the layout of a value, or None if it depends on its shape at run time."""
        constant, shape = self.view.get_constant(slot), self.view.get_static_shape(slot)
        if constant is not None:
            return get_layout(constant)
        if slot in self.layouts or shape is None:
            return self.layouts.get(slot)
        return Layout(shape, get_strides(shape))


def _make_sample(port: Port) -> Array | None:
    """Return an array with the declared shape of a value, without memory, or None if a dimension is dynamic."""
    if port.shape is None or port.shape.is_dynamic:
        return None
    return np.broadcast_to(np.float32(0), port.shape.get_min_shape())


def _call(kernel: Callable[..., Any], constants: Sequence[Any], attributes: dict[str, Any], data: Array) -> Any:
    return kernel(data, *constants, **attributes)
