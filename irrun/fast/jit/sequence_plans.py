"""Plans of sequences of compiled kernels: the memory of all values for certain shapes of the inputs.

Intermediate values share one array, views share the memory of their input, and inputs of Concat are computed in
its result where the layout allows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.jit.bindings import BUFFER, CONSTANT, RESULT, TABLE, Binding, Layout, Shape, get_strides
from irrun.fast.jit.concatenation import bind_copy
from irrun.fast.jit.copies import bind_contiguous
from irrun.fast.jit.schedules import ABSOLUTE, Schedule
from irrun.fast.jit.sequence_members import Computation, Concatenation, Member, Views, view_layout
from irrun.fast.jit.tasks import Address, Task, align_size
from irrun.threads import get_thread_count

__all__ = ["Block", "Plan", "make_plan", "place_blocks"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)


@dataclass(eq=False)
class Block:
    """A block of memory for values.

    Attributes:
        size: Its size in bytes.
        first: The first member that uses it.
        last: The last member that uses it.
        shape: The shape of the value that it was created for.
        place: Its address: relative to an array of the run, or None if unknown.
        owner: The block that contains it.
        offset: Its first byte in that block, if there is one.
    """

    size: int
    first: int
    last: int
    shape: Shape = ()
    place: Address | None = None
    owner: Block | None = None
    offset: int = field(init=False)

    def use(self, number: int) -> None:
        """Keep the memory in use at a member."""
        self.first, self.last = min(self.first, number), max(self.last, number)
        if self.owner is not None:
            self.owner.use(number)

    def join(self, owner: Block, offset: int) -> None:
        """Become a part of another block."""
        self.owner, self.offset = owner, offset
        owner.use(self.first)
        owner.use(self.last)

    def find_owner(self) -> tuple[Block, int]:
        """Return the outermost block that contains it, or itself, and its first byte there."""
        block, offset = self, 0
        while block.owner is not None:
            block, offset = block.owner, offset + block.offset
        return block, offset


@dataclass(frozen=True)
class _Value:
    """A value in f32: its shape, its block, its first byte there, and its strides in bytes if it is not contiguous."""

    shape: Shape
    block: Block
    offset: int = 0
    strides: Shape = ()

    @property
    def layout(self) -> Layout:
        """The layout."""
        return Layout(self.shape, self.strides or get_strides(self.shape))

    @property
    def size(self) -> int:
        """The number of bytes."""
        return F32.itemsize * math.prod(self.shape)


@dataclass
class Plan:
    """The plan of a sequence for certain shapes of its inputs.

    Attributes:
        arena_size: Size of the intermediate values in bytes.
        reads_views: Whether inputs may be strided.
        results: The shapes of the arrays that contain outputs.
        outputs: For each output, the number of its array of a run, its first byte there, and its layout.
        schedules: The schedules by number of threads.
        tables: Tables of addresses.
        tasks: The tasks with their arrays; see `Schedule`.
        bindings: The kernels; they keep their constants in memory.
    """

    arena_size: int = field(init=False)
    reads_views: bool = field(init=False)
    results: list[Shape] = field(default_factory=list)
    outputs: list[tuple[int, int, Layout]] = field(default_factory=list)
    schedules: dict[int, Schedule] = field(default_factory=dict)
    tables: list[list[Address]] = field(default_factory=list)
    tasks: list[tuple[Task, list[Address | int]]] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)

    def get_schedule(self) -> Schedule:
        """Return the schedule for the number of threads of the current run."""
        threads = get_thread_count()
        if threads not in self.schedules:
            self.schedules[threads] = Schedule(self.tables, self.tasks, threads)
        return self.schedules[threads]


def make_plan(members: Sequence[Member], layouts: dict[int, Layout], outputs: Sequence[int]) -> Plan:
    """Return the plan of a sequence.

    Args:
        members: The members, in order.
        layouts: The layouts of the inputs by their slots.
        outputs: Slots of the outputs.

    Raises:
        NoKernelError: No kernel of a member supports its inputs.
    """
    return _Planner(members, layouts, outputs).finish()


class _Planner:
    """Builds a plan. Array 0 of a run is the arena; the arrays of inputs and outputs follow."""

    def __init__(self, members: Sequence[Member], layouts: dict[int, Layout], outputs: Sequence[int]) -> None:
        self._outputs = outputs
        self._values: dict[int, _Value] = {}
        self._blocks: list[Block] = []
        self._steps: list[tuple[Binding, list[_Value], _Value, _Value | None]] = []
        self._first_result = 1 + len(layouts)
        self._strided_inputs: set[Block] = set()
        #: Contiguous copies of values.
        self._copies: dict[_Value, _Value] = {}
        for number, (slot, layout) in enumerate(layouts.items(), 1):
            shape = layout.shape
            block = Block(F32.itemsize * math.prod(shape), 0, len(members), shape, Address(number))
            self._values[slot] = _Value(shape, block, strides=() if layout.is_contiguous else layout.strides)
            if not layout.is_contiguous:
                self._strided_inputs.add(block)
        for number, member in enumerate(members):
            if isinstance(member, Computation):
                self._add_computation(number, member)
            elif isinstance(member, Views):
                self._add_views(number, member)
            else:
                self._add_concatenation(number, member)

    def finish(self) -> Plan:
        """Return the plan."""
        plan = Plan(bindings=[binding for binding, *_ in self._steps])
        for slot in self._outputs:
            value = self._values[slot]
            block, offset = value.block.find_owner()
            if block.place is None:
                block.place = Address(self._first_result + len(plan.results))
                plan.results.append(block.shape)
            elif block in self._strided_inputs:
                raise NoKernelError("expected outputs that are not inputs with strides")
            plan.outputs.append((block.place.base, offset + value.offset, value.layout))
        inner = [block for block in self._blocks if block.owner is None and block.place is None]
        plan.arena_size = place_blocks(inner)
        for binding, inputs, result, buffer in self._steps:
            self._schedule(plan, binding, inputs, result, buffer)
        return plan

    def _schedule(
        self, plan: Plan, binding: Binding, inputs: Sequence[_Value], result: _Value, buffer: _Value | None
    ) -> None:
        places = [_locate(value) for value in inputs]
        bases: dict[int, Address | int] = dict(enumerate(places))
        bases[RESULT] = _locate(result)
        if buffer is not None:
            bases[BUFFER] = _locate(buffer)
        if TABLE in binding.bases:
            bases[TABLE] = len(plan.tables)
            plan.tables.append(
                [
                    Address(ABSOLUTE, offset) if number == CONSTANT else places[number].move(offset)
                    for number, offset in binding.operands or ((CONSTANT, 0),)
                ]
            )
        plan.tasks += [(task, [bases[number] for number in binding.bases]) for task in binding.tasks]

    def _make_value(self, number: int, shape: Shape) -> _Value:
        block = Block(F32.itemsize * math.prod(shape), number, number, shape)
        self._blocks.append(block)
        return _Value(shape, block)

    def _use(self, slots: Iterable[int], number: int) -> list[_Value]:
        """Return the inputs of a member."""
        values = [self._values[slot] for slot in slots]
        for value in values:
            value.block.use(number)
        return values

    def _make_contiguous(self, number: int, value: _Value) -> _Value:
        """Return a value, or a copy if it is not contiguous."""
        if not value.strides:
            return value
        if value not in self._copies:
            binding = bind_contiguous(value.layout)
            copy = self._copies[value] = self._make_value(number, value.shape)
            self._steps.append((binding, [value], copy, None))
        copy = self._copies[value]
        copy.block.use(number)
        return copy

    def _add_computation(self, number: int, member: Computation) -> None:
        inputs = self._use(member.inputs, number)
        if not member.kernel.reads_layouts:
            inputs = [self._make_contiguous(number, value) for value in inputs]
        binding = member.kernel.bind([value.layout for value in inputs])
        result = self._make_value(number, binding.shape)
        self._values[member.output] = replace(result, strides=binding.strides)
        buffer = self._make_value(number, (binding.buffer_size,)) if binding.buffer_size else None
        self._steps.append((binding, inputs, result, buffer))

    def _add_views(self, number: int, member: Views) -> None:
        value = self._values[member.input]
        views = view_layout(member.view, value.layout)
        if views is None:
            value.block.use(number)
            value = self._make_contiguous(number, value)
            views = view_layout(member.view, value.layout)
        if views is None:
            raise NoKernelError("expected views")
        for slot, (layout, offset) in zip(member.outputs, views, strict=True):
            strides = () if layout.is_contiguous else layout.strides
            self._values[slot] = _Value(layout.shape, value.block, value.offset + offset, strides)

    def _add_concatenation(self, number: int, member: Concatenation) -> None:
        inputs = [self._make_contiguous(number, value) for value in self._use(member.inputs, number)]
        shapes = [value.shape for value in inputs]
        axis = range(len(shapes[0]))[member.axis]
        outer = shapes[0][:axis]
        if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) != 1 or not any(map(math.prod, shapes)):
            raise NoKernelError("expected inputs of the same shape apart from the axis")
        shape = (*outer, sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])
        result = self._values[member.output] = self._make_value(number, shape)
        rows = math.prod(outer)
        row_size = result.size // rows
        start = 0
        parts = []
        for value in inputs:
            if value.size:
                parts.append((start, value))
            start += value.size // rows
        placed = self._place_in_result(result.block, parts) if rows == 1 else set()
        for start, value in parts:
            if value.block not in placed:
                binding = bind_copy(rows, value.size // rows // F32.itemsize, row_size // F32.itemsize)
                target = _Value(value.shape, result.block, start)
                self._steps.append((binding, [value], target, None))

    def _place_in_result(self, result: Block, parts: Sequence[tuple[int, _Value]]) -> set[Block]:
        """Make blocks parts of a concatenated result if all their bytes are in it, and return them."""
        placed = set()
        # Later instructions may overwrite an output in place, so no other output may share its memory.
        outputs = {self._values[slot].block for slot in self._outputs if slot in self._values}
        for block in {value.block for _, value in parts} - outputs:
            own = [(start, value) for start, value in parts if value.block is block]
            shifts = {start - value.offset for start, value in own}
            is_free = block.place is None and block.owner is None
            if is_free and len(shifts) == 1 and sum(value.size for _, value in own) == block.size:
                block.join(result, shifts.pop())
                placed.add(block)
        return placed


def _locate(value: _Value) -> Address:
    block, offset = value.block.find_owner()
    if block.place is None:
        raise NoKernelError("expected a block with an address")
    return block.place.move(offset + value.offset)


def place_blocks(blocks: Sequence[Block]) -> int:
    """Place blocks in the arena, so that those in use at the same time are apart, and return its size in bytes."""
    total = 0
    placed: list[tuple[int, int, Block]] = []
    for block in sorted(blocks, key=lambda block: block.first):
        placed = [item for item in placed if item[2].last >= block.first]
        start = 0
        for low, high, _ in sorted(placed, key=lambda item: item[0]):
            if low - start >= block.size:
                break
            start = max(start, high)
        stop = start + align_size(block.size)
        block.place = Address(0, start)
        placed.append((start, stop, block))
        total = max(total, stop)
    return total
