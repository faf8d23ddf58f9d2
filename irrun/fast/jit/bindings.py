"""Bindings: kernels for fixed input shapes, as tasks that run on the addresses of arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.tasks import Task
from irrun.fast.scratch import reserve

__all__ = [
    "BUFFER",
    "CONSTANT",
    "MAX_BINDINGS",
    "RESULT",
    "TABLE",
    "Binding",
    "Layout",
    "Operand",
    "Shape",
    "get_layout",
    "get_strides",
    "keep_binding",
    "make_layout",
]

Array = np.ndarray[Any, Any]
Key = TypeVar("Key")
Value = TypeVar("Value")

#: Maximum number of shapes for which a kernel keeps its bindings.
MAX_BINDINGS = 64
Shape: TypeAlias = tuple[int, ...]
#: The number of an input, or CONSTANT, and an offset that is added to its address.
Operand: TypeAlias = tuple[int, int]

F32 = np.dtype(np.float32)


class Layout(NamedTuple):
    """The layout of a value in f32.

    Attributes:
        shape: Its shape.
        strides: Its strides in bytes.
    """

    shape: Shape
    strides: Shape

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other."""
        expected = get_strides(self.shape)
        return all(d == 1 or a == b for d, a, b in zip(self.shape, self.strides, expected, strict=True))


def get_strides(shape: Shape) -> Shape:
    """Return the strides in bytes of a contiguous value."""
    return tuple(F32.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def make_layout(shape: Shape) -> Layout:
    """Return the layout of a contiguous value."""
    return Layout(shape, get_strides(shape))


def get_layout(array: Array) -> Layout:
    """Return the layout of an array."""
    return Layout(array.shape, array.strides)


#: The number of an operand given by its address, not by an input.
CONSTANT = -1
#: Bases of tasks other than inputs: the result, a table of addresses of operands, and memory that tasks share.
RESULT, TABLE, BUFFER = -1, -2, -3


@dataclass(frozen=True)
class Binding:
    """A kernel for f32 inputs of certain shapes, contiguous unless the kernel was bound for other layouts.

    Attributes:
        shape: The shape of the result.
        tasks: The tasks, which are computed one after another.
        bases: The bases of the tasks: numbers of inputs, RESULT, TABLE or BUFFER.
        operands: The elements of the table.
        buffer_size: Elements of the memory that the tasks share.
        constants: Arrays that must stay in memory.
        strides: The strides of the result in bytes, without overlap; by default, it is contiguous.
    """

    shape: Shape
    tasks: Sequence[Task]
    bases: Sequence[int]
    operands: Sequence[Operand] = ()
    buffer_size: int = 0
    constants: Sequence[Array | None] = ()
    strides: Shape = ()

    def run(self, inputs: Sequence[Array]) -> Array:
        """Compute the result."""
        result = np.empty(self.shape, F32)
        addresses = [get_address(x) for x in inputs]
        known = [*addresses, 0]
        table = np.array([known[number] + offset for number, offset in self.operands] or (0,), np.int64)
        others = {RESULT: get_address(result), TABLE: get_address(table)}
        if self.buffer_size:
            others[BUFFER] = get_address(reserve("binding", self.buffer_size))
        bases = [addresses[number] if number >= 0 else others[number] for number in self.bases]
        for task in self.tasks:
            task.run(*bases)
        return np.ndarray(self.shape, F32, result, 0, self.strides) if self.strides else result


def keep_binding(kept: dict[Key, Value], key: Key, value: Value, limit: int = MAX_BINDINGS) -> Value:
    """Keep a value for later runs with the same shapes, and return it. Beyond a limit, drop all other values.

    Args:
        kept: The values kept so far.
        key: The shapes.
        value: The value prepared for these shapes.
        limit: The maximum number of entries.
    """
    if len(kept) >= limit:
        kept.clear()
    kept[key] = value
    return value
