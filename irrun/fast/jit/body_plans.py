"""Plans of loop bodies: the memory and the tasks of an iteration, for fixed shapes.

Unlike sequences of kernels, bodies have values of several types. Some values, such as shapes, are known when the plan
is made. One array, the arena, contains all values that do not outlive an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irrun.fast.errors import NoKernelError
from irrun.fast.expressions.table import Step
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import BUFFER, CONSTANT, RESULT, TABLE, Layout, Operand, Shape
from irrun.fast.jit.nests import Copy, Elementwise, StridedLayout, make_nest
from irrun.fast.jit.product_kernels import ProductKernel
from irrun.fast.jit.protocol import CompiledKernel
from irrun.fast.jit.schedules import ABSOLUTE, LoopSchedule
from irrun.fast.jit.sequence_plans import Block, place_blocks
from irrun.fast.jit.tasks import Address, Task, align_size
from irrun.fast.specialization import CallSite
from irrun.threads import get_thread_count

__all__ = ["EMITTERS", "BodyPlan", "BodyPlanner", "BodyStep", "BodyValue", "count_strides", "emits"]

Array = np.ndarray[Any, Any]

F32 = np.dtype(np.float32)
#: Size of the status, which tells whether inputs are invalid, in bytes.
STATUS_SIZE = 8
_COPY = Copy()


@dataclass(eq=False)
class BodyStep:
    """An operation of a body.

    Attributes:
        site: The call site.
        inputs: Slots of the inputs.
        outputs: Slots of the outputs.
        prepared: Data shared by all shapes, such as packed weights.
    """

    site: CallSite
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    prepared: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BodyValue:
    """A value of an iteration.

    Attributes:
        shape: Its shape.
        strides: Its strides in bytes.
        dtype: Its type.
        block: The block of memory that holds it.
        offset: Its first byte in the block.
    """

    shape: Shape
    strides: Shape
    dtype: np.dtype[Any]
    block: Block
    offset: int = 0

    @property
    def layout(self) -> StridedLayout:
        """The layout."""
        return StridedLayout(self.shape, self.strides, self.dtype)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other."""
        expected = count_strides(self.shape, self.dtype)
        return all(d == 1 or a == b for d, a, b in zip(self.shape, self.strides, expected, strict=True))


def count_strides(shape: Shape, dtype: np.dtype[Any]) -> Shape:
    """Return the strides in bytes of a contiguous value."""
    return tuple(dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


@dataclass
class BodyPlan:
    """The plan of a body.

    Attributes:
        arena_size: Bytes of the values that do not outlive an iteration.
        results: The layouts of the results, which are contiguous, by their slots.
        tables: Tables of addresses; see `Schedule`. Array 0 of a run is the arena; the arrays of inputs
            and results follow.
        tasks: The tasks with their arrays.
        varying: The numbers of the inputs whose addresses differ between iterations.
        kept: Objects that addresses point to.
        has_status: Whether tasks set the first element of the arena, an i64, if their inputs are invalid.
        schedules: The schedules by number of threads.
    """

    arena_size: int
    results: dict[int, StridedLayout]
    tables: list[list[Address]]
    tasks: list[tuple[Task, list[Address | int]]]
    varying: frozenset[int]
    kept: list[Any]
    has_status: bool
    schedules: dict[int, LoopSchedule] = field(default_factory=dict)

    def get_schedule(self, varying: Sequence[int]) -> LoopSchedule:
        """Return the schedule for the number of threads of the current run.

        Args:
            varying: The arrays whose addresses differ between iterations, in the order in which a run passes them.
        """
        threads = get_thread_count()
        if threads not in self.schedules:
            self.schedules[threads] = LoopSchedule(self.tables, self.tasks, threads, varying)
        return self.schedules[threads]


class BodyPlanner:
    """Builds a plan.

    Args:
        inputs: The layouts of the inputs by their slots.
        constants: The known values of slots.

    Attributes:
        values: The values by their slots.
        known: Values that are known, by their slots.
    """

    def __init__(self, inputs: Mapping[int, StridedLayout], constants: Mapping[int, Array]) -> None:
        self.values: dict[int, BodyValue] = {}
        self.known: dict[int, Array] = dict(constants)
        self._input_count = len(inputs)
        self._blocks: list[Block] = []
        self._tasks: list[tuple[Task, list[BodyValue | list[tuple[BodyValue | None, int]]]]] = []
        self._kept: list[Any] = []
        self._copies: dict[BodyValue, BodyValue] = {}
        self._constants: dict[int, BodyValue] = {}
        self._status: BodyValue | None = None
        for number, (slot, layout) in enumerate(inputs.items(), 1):
            block = Block(0, 0, 0, layout.shape, Address(number))
            self.values[slot] = BodyValue(*layout, block)

    # Values

    def get(self, slot: int) -> BodyValue:
        """Return the value of a slot; if it is known, put it into memory."""
        if slot in self.values:
            return self.values[slot]
        if slot not in self._constants:
            self._constants[slot] = self.add_constant(self.known[slot])
        return self._constants[slot]

    def get_dtype(self, slot: int) -> np.dtype[Any]:
        """Return the type of a slot."""
        return self.known[slot].dtype if slot in self.known else self.values[slot].dtype

    def get_shape(self, slot: int) -> Shape:
        """Return the shape of a slot."""
        return self.known[slot].shape if slot in self.known else self.values[slot].shape

    def add_constant(self, array: Array) -> BodyValue:
        """Return an array as a value."""
        if array.dtype.kind == "O":
            raise NoKernelError("the body has strings")
        own = np.array(array, order="C") if not (array.flags.c_contiguous and array.flags.aligned) else array
        self._kept.append(own)
        block = Block(own.nbytes, 0, 0, own.shape, Address(ABSOLUTE, get_address(own)))
        return BodyValue(own.shape, count_strides(own.shape, own.dtype), own.dtype, block)

    def add_value(self, shape: Sequence[int], dtype: np.dtype[Any] = F32) -> BodyValue:
        """Return a new value, which tasks compute."""
        shape = tuple(shape)
        if not math.prod(shape):
            raise NoKernelError("a value is empty")
        number = len(self._tasks)
        block = Block(dtype.itemsize * math.prod(shape), number, number, shape)
        self._blocks.append(block)
        return BodyValue(shape, count_strides(shape, dtype), dtype, block)

    def get_status(self) -> BodyValue:
        """Return the element that tasks set if their inputs are invalid; the plain loop then reports the error."""
        if self._status is None:
            block = Block(STATUS_SIZE, 0, 0, (1,), Address(0))
            self._status = BodyValue((1,), (STATUS_SIZE,), np.dtype(np.int64), block)
        return self._status

    def make_contiguous(self, value: BodyValue) -> BodyValue:
        """Return a value, or a copy if it is not contiguous."""
        if value.is_contiguous:
            return replace(value, strides=count_strides(value.shape, value.dtype))
        if value not in self._copies:
            self._copies[value] = self.copy(value)
        return self._copies[value]

    def copy(self, value: BodyValue) -> BodyValue:
        """Return a contiguous copy of a value."""
        result = self.add_value(value.shape, value.dtype)
        self.add_nest(_COPY, [result], [value])
        return result

    # Tasks

    def add_task(self, task: Task, arrays: Sequence[BodyValue | list[tuple[BodyValue | None, int]]]) -> None:
        """Add a task with its arrays: values, or tables of values and offsets."""
        number = len(self._tasks)
        for array in arrays:
            for value in [v for v, _ in array] if isinstance(array, list) else [array]:
                if value is not None:
                    value.block.use(number)
        self._tasks.append((task, list(arrays)))

    def add_nest(self, element: Elementwise, results: Sequence[BodyValue], operands: Sequence[BodyValue]) -> None:
        """Add the computation of an elementwise function."""
        layouts = [value.layout for value in results]
        task = make_nest(element, results[0].shape, layouts, [value.layout for value in operands])
        self.add_task(task, [*results, *operands])

    def add_elementwise(
        self, element: Elementwise, operands: Sequence[BodyValue], dtype: np.dtype[Any] = F32
    ) -> BodyValue:
        """Add the computation of an elementwise function of operands that broadcast to its single result."""
        result = self.add_value(np.broadcast_shapes(*[value.shape for value in operands]), dtype)
        self.add_nest(element, [result], operands)
        return result

    def add_kernel(self, kernel: CompiledKernel, inputs: Sequence[BodyValue]) -> BodyValue:
        """Add a kernel on f32 values, and return its result."""
        if any(value.dtype != F32 for value in inputs):
            raise NoKernelError("expected f32")
        if not kernel.reads_layouts:
            inputs = [self.make_contiguous(value) for value in inputs]
        binding = kernel.bind([Layout(value.shape, value.strides) for value in inputs])
        result = self.add_value(binding.shape)
        buffer = self.add_value((binding.buffer_size,)) if binding.buffer_size else result
        bases: dict[int, BodyValue | list[tuple[BodyValue | None, int]]] = dict(enumerate(inputs))
        bases[RESULT], bases[BUFFER] = result, buffer
        bases[TABLE] = [_locate_operand(operand, inputs) for operand in binding.operands] or [(None, 0)]
        self._kept.append(binding)
        for task in binding.tasks:
            self.add_task(task, [bases[number] for number in binding.bases])
        return replace(result, strides=binding.strides) if binding.strides else result

    def multiply(
        self, step: BodyStep, key: str, value: BodyValue, get_weights: Callable[[], Array], bias: Array | None = None
    ) -> BodyValue:
        """Add the product of a value with constant weights [K, N], plus a bias [N]. Both are packed once per key."""
        if key not in step.prepared:
            steps = () if bias is None else (Step("Add", (0, 1)),)
            kernel = ProductKernel(2, get_weights(), steps, () if bias is None else (bias,))
            step.prepared.setdefault(key, kernel)  # another thread may have prepared it
        data = self.make_contiguous(value)
        flat = math.prod(data.shape[:-1]), data.shape[-1]
        result = self.add_kernel(step.prepared[key], [replace(data, shape=flat, strides=count_strides(flat, F32))])
        shape = (*data.shape[:-1], result.shape[-1])
        return replace(result, shape=shape, strides=count_strides(shape, F32))

    # The plan

    def finish(self, results: Sequence[int], varying: Sequence[int]) -> BodyPlan:
        """Return the plan.

        Args:
            results: Slots of the results, without repetitions; each gets its own array.
            varying: Slots of the inputs whose addresses differ between iterations.

        Raises:
            NoKernelError: The body has no tasks.
        """
        layouts = {}
        first = 1 + self._input_count
        for number, slot in enumerate(results, first):
            value = self.get(slot)
            is_own = value.block in self._blocks and value.block.place is None and value.is_contiguous
            if not is_own or value.offset or value.size != value.block.size:
                value = self.copy(value)
            value.block.place = Address(number)
            layouts[slot] = StridedLayout(value.shape, count_strides(value.shape, value.dtype), value.dtype)
        if not self._tasks:
            raise NoKernelError("the body computes nothing")
        inner = [block for block in self._blocks if block.place is None]
        arena_size = place_blocks(inner)
        if self._status is not None:
            arena_size += align_size(STATUS_SIZE)
            for block in inner:
                block.place = None if block.place is None else block.place.move(align_size(STATUS_SIZE))
        tables: list[list[Address]] = []
        tasks: list[tuple[Task, list[Address | int]]] = []
        for task, arrays in self._tasks:
            places: list[Address | int] = []
            for array in arrays:
                if isinstance(array, list):
                    places.append(len(tables))
                    tables.append(
                        [Address(ABSOLUTE, n) if value is None else _locate(value).move(n) for value, n in array]
                    )
                else:
                    places.append(_locate(array))
            tasks.append((task, places))
        numbers = {place.base for slot in varying if (place := self.values[slot].block.place) is not None}
        return BodyPlan(arena_size, layouts, tables, tasks, frozenset(numbers), self._kept, self._status is not None)


def _locate_operand(operand: Operand, inputs: Sequence[BodyValue]) -> tuple[BodyValue | None, int]:
    number, offset = operand
    return (None if number == CONSTANT else inputs[number]), offset


def _locate(value: BodyValue) -> Address:
    place = value.block.place
    if place is None:
        raise NoKernelError("expected a block with an address")
    return place.move(value.offset)


#: Adds an operation to a plan and returns its outputs.
Emitter = Callable[[BodyPlanner, BodyStep], Sequence[BodyValue]]
#: Operation type -> emitter, for operations that are neither views nor elementwise.
EMITTERS: dict[str, Emitter] = {}


def emits(*types: str) -> Callable[[Emitter], Emitter]:
    """Register the decorated function for types of operations."""

    def register(function: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(types, function))
        return function

    return register
