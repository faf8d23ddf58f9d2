"""Constant folding: values that depend only on constants are computed once, within budgets for memory and work.

Most of these values are decompressed weights (f16 -> f32; u8 or i4, zero point and scale -> f32). Values that exceed
the budgets stay in the program: they are computed when they are used and freed after their last use.

Declared shapes only determine the order, because they are not trusted. The cost of an instruction is estimated from its
actual inputs before it runs, so that compiling a malicious file takes little memory and time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.limits import limit_allocations
from irrun.ops._support.numerics import is_low_precision
from irrun.runtime.passes.budget import Budget
from irrun.runtime.program import ABSENT, Instruction, Program
from irrun.shapes import get_broadcast_shape

__all__ = ["fold_constants"]

#: Bytes that may be read and written: a base, and a multiple of the bytes of all constants.
BASE_WORK, WORK_PER_BYTE = 1 << 28, 64
#: Work of an instruction in addition to the bytes that it reads and writes.
WORK_PER_INSTRUCTION = 1 << 12
#: Work of finding an instruction that a value depends on.
WORK_PER_VISIT = 1 << 8

#: Limits for operations with "small" folding: the sum and the product of their input sizes.
SMALL_ELEMENTS, SMALL_COMBINATIONS = 1 << 16, 1 << 23

Array = np.ndarray[Any, Any]


class _TooLargeError(Exception):
    """The budgets do not allow an instruction to be folded."""


def fold_constants(program: Program, budget: Budget) -> None:
    """Replace instructions with constant inputs by their results, in bodies too.

    Random and stateful operations and operations with bodies stay. So do instructions that fail: they fail again when
    the program runs, with the name of the layer.

    Args:
        program: Changed in place.
        budget: The budget for new constants. Nothing is folded if its memory is 0. This function sets its work.
    """
    if budget.memory > 0:
        budget.work = BASE_WORK + WORK_PER_BYTE * _count_constant_bytes(program)
        for current in program.walk_programs():
            if budget.memory > 0:
                _Folder(current, budget).run()


def _count_constant_bytes(program: Program) -> int:
    """Return the bytes of all constants; constants at the same address count once."""
    sizes: dict[int, int] = {}
    for current in program.walk_programs():
        for slot in current.constant_layers:
            value = current.initial[slot]
            if value is not None:
                address = value.__array_interface__["data"][0]
                sizes[address] = max(sizes.get(address, 0), value.nbytes)
    return sum(sizes.values())


class _Folder:
    """Folds the constants of one program."""

    def __init__(self, program: Program, budget: Budget) -> None:
        self.program = program
        self.budget = budget
        #: Constant slots -> the position of the instruction that computes them; None for stored constants.
        self.producers: dict[int, int | None] = dict.fromkeys(program.constant_layers)
        #: The positions of instructions that cannot be computed, and of their dependents.
        self.failed: set[int] = set()
        #: Values of further outputs of instructions that were computed, until they are folded too.
        self.spare: dict[int, Array] = {}
        self.consumed: dict[int, None] = {}
        #: Slot -> its position among the outputs of its instruction.
        self.positions: dict[int, int] = {}
        #: The arrays that own the memory of constants, by identity.
        self.owners = {id(_find_owner(v)): v for s in program.constant_layers if (v := program.initial[s]) is not None}

    def run(self) -> None:
        consumed: dict[int, None] = {}  # constant slots that the rest of the program reads
        for position, instruction in enumerate(self.program.instructions):
            if self.is_constant(instruction):
                self.producers.update(dict.fromkeys(instruction.outputs, position))
                self.positions.update((slot, i) for i, slot in enumerate(instruction.outputs))
            else:
                consumed.update(dict.fromkeys(s for s in instruction.inputs if self.producers.get(s) is not None))
        consumed.update(dict.fromkeys(s for s in self.program.results if self.producers.get(s) is not None))
        self.consumed = consumed
        folded: set[int] = set()
        with np.errstate(all="ignore"):
            candidates = [slot for slot in consumed if slot not in self.program.compressed]
            for slot in sorted(candidates, key=self.estimate_size):
                if self.budget.work < 0:
                    break
                self.fold_slot(slot, folded)
        self.spare.clear()
        if any(position is not None for position in self.producers.values()):
            self.remove_folded(folded)

    def is_constant(self, instruction: Instruction) -> bool:
        return instruction.is_pure and all(s == ABSENT or s in self.producers for s in instruction.inputs)

    def get_producer(self, slot: int) -> Instruction:
        position = self.producers[slot]
        assert position is not None
        return self.program.instructions[position]

    def estimate_size(self, slot: int) -> float:
        """Return the number of bytes of a value according to its declaration; 0 if it is unknown."""
        producer = self.get_producer(slot)
        port = producer.layer.outputs[self.positions[slot]]
        if port.shape is None or not port.shape.is_static or port.element_type is None:
            return 0
        return math.prod(int(d) for d in port.shape if isinstance(d, int)) * port.element_type.dtype.itemsize

    def fold_slot(self, slot: int, folded: set[int]) -> None:
        if self.estimate_size(slot) > self.budget.memory:
            return
        try:
            value = self.compute_slot(slot)
        except Exception:
            return  # it fails again when the program runs, and is reported then
        owner = _find_owner(value)
        is_new = id(owner) not in self.owners
        cost = owner.nbytes if is_new else 0
        if cost > self.budget.memory:
            return
        self.budget.spend_memory(cost)
        if is_new and owner.flags.owndata:
            owner.flags.writeable = False  # so that kernels may keep what they derive from it
        self.owners[id(owner)] = owner
        value = value.view()
        value.flags.writeable = False
        self.program.initial[slot] = value
        self.program.constant_layers[slot] = self.get_producer(slot).layer
        folded.add(slot)

    def compute_slot(self, slot: int) -> Array:
        """Compute the value of a slot from constants; other values are dropped after their last use."""
        if slot in self.spare:
            return self.spare.pop(slot)
        initial = self.program.initial
        positions = self.find_required(slot)
        self.budget.work -= WORK_PER_VISIT * len(positions)
        required = [self.program.instructions[position] for position in positions]
        if not self.failed.isdisjoint(positions):
            raise _TooLargeError
        last_use = {s: n for n, instruction in enumerate(required) for s in instruction.inputs}
        last_use[slot] = len(required)
        values: dict[int, Array] = {}
        for n, instruction in enumerate(required):
            arguments = [values[s] if s in values else initial[s] for s in instruction.inputs]
            try:
                results = self.compute_instruction(instruction, arguments)
            except Exception:
                self.mark_failed(positions[n:])
                raise
            values.update(zip(instruction.outputs, results, strict=False))
            if slot in instruction.outputs and len(instruction.outputs) > 1:
                self.spare.update((s, values[s]) for s in instruction.outputs if s in self.consumed and s in values)
                self.spare.pop(slot, None)
            for s in (*instruction.inputs, *instruction.outputs):
                if last_use.get(s, -1) <= n:
                    values.pop(s, None)
        return values[slot]

    def mark_failed(self, positions: list[int]) -> None:
        """Remember that the first of some instructions failed, and the later ones that depend on its outputs."""
        failed_slots: set[int] = set()
        for n, position in enumerate(positions):
            instruction = self.program.instructions[position]
            if n == 0 or not failed_slots.isdisjoint(instruction.inputs):
                self.failed.add(position)
                failed_slots.update(instruction.outputs)

    def find_required(self, slot: int) -> list[int]:
        """Return the positions of the instructions that compute a slot from known values, in order."""
        positions: set[int] = set()
        stack = [slot]
        while stack:
            position = self.producers.get(stack.pop())
            if position is None or position in positions:
                continue
            positions.add(position)
            if position in self.failed:
                break
            inputs = self.program.instructions[position].inputs
            stack.extend(s for s in inputs if s != ABSENT and self.program.initial[s] is None)
        return sorted(positions)

    def compute_instruction(self, instruction: Instruction, arguments: list[Array | None]) -> list[Array]:
        """Run one instruction if the budgets allow it.

        Raises:
            _TooLargeError: The budgets do not allow it.
        """
        inputs = [x for x in arguments if x is not None]
        limit = self.budget.memory
        if instruction.operation.folding == "small":
            limit = min(limit, 8 * SMALL_COMBINATIONS)
            if (
                sum(x.size for x in inputs) > SMALL_ELEMENTS
                or math.prod(max(x.size, 1) for x in inputs) > SMALL_COMBINATIONS
            ):
                raise _TooLargeError
        self.budget.work -= sum(x.nbytes for x in inputs) + WORK_PER_INSTRUCTION
        expected = _estimate_output_size(instruction, inputs)
        if expected > limit or expected > self.budget.work:
            raise _TooLargeError
        with limit_allocations(max(min(limit, self.budget.work), 1)):
            result = instruction.kernel(*arguments, **instruction.attributes)
        results = [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else (result,))]
        self.budget.work -= sum(r.nbytes for r in results)
        return results

    def remove_folded(self, folded: set[int]) -> None:
        """Remove instructions if all their consumed outputs are folded, and constants without a consumer."""
        required = set(self.program.results) - folded
        kept = []
        for instruction in reversed(self.program.instructions):
            is_candidate = self.producers.get(instruction.outputs[0]) is not None
            if is_candidate and not required.intersection(instruction.outputs):
                continue
            kept.append(instruction)
            required.update(s for s in instruction.inputs if s not in folded)
        self.program.instructions = kept[::-1]
        self.program.drop_unused_constants()


def _estimate_output_size(instruction: Instruction, inputs: list[Array]) -> int:
    """Return an upper bound in bytes of the outputs, for kernels that do not check their size themselves."""
    try:
        elements = math.prod(get_broadcast_shape(*(x.shape for x in inputs)))
    except ValueError:
        elements = 0
    if not elements or instruction.operation.kind != "elementwise":
        elements = max(elements, sum(x.size for x in inputs))
    widths = [4 if is_low_precision(x.dtype) else x.itemsize for x in inputs]
    widths += [p.element_type.dtype.itemsize for p in instruction.layer.outputs if p.element_type is not None]
    widths += [value.dtype.itemsize for value in instruction.attributes.values() if isinstance(value, ElementType)]
    return elements * max(widths, default=8)


def _find_owner(value: Array) -> Array:
    """Return the array that owns the memory of `value`."""
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value
