"""Estimates of the memory of instructions, so that a run fails before it exceeds its limit.

Kernels call `check_allocation` if the size of a result depends on values or attributes. Sizes that follow from the
shapes of the inputs are checked here, for the executor, which covers specialized and custom kernels too:

- A *guard* runs before each instruction whose result may be much larger than all inputs together: matrix products, and
  instructions that broadcast several inputs. It multiplies sizes and estimates the result only if the product is large.
  Instructions with a large constant have a guard too.
- All other results are at most about as large as the inputs. As soon as a run has a large value, the executor
  estimates every instruction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from irrun.element_types import ElementType
from irrun.fast.support import Memo
from irrun.limits import MemoryBudget
from irrun.ops._support.numerics import is_low_precision
from irrun.ops._support.scratch import estimate_scratch
from irrun.runtime.program import ABSENT, Instruction, Program
from irrun.shapes import get_broadcast_shape

__all__ = ["Guard", "create_guard", "estimate_allocations", "estimate_result"]

Array = np.ndarray[Any, Any]

#: Kinds of operations with fast kernels that allocate intermediate values. Others compute in blocks, or check.
SCRATCH_KINDS = ("elementwise", "other", "recurrent", "reduction", "rowwise", "selection")
#: The size of the projected inputs of a recurrent sequence and of its steps, in inputs.
PROJECTION_COPIES = 4

#: Dimensions that grow are rounded up to multiples of this number.
GROWTH = 64
#: The shapes and types of inputs.
_Inputs: TypeAlias = "tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]"

#: A cheap check, which raises an InputError if the instruction would exceed the memory.
Guard = Callable[[list[Any]], None]


class _Described(NamedTuple):
    """The properties that estimates depend on: the shape and the type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize


def create_guard(program: Program, instruction: Instruction, memory: MemoryBudget) -> Guard | None:
    """Return the guard of an instruction, or None if its result is not much larger than its inputs.

    Args:
        program: The program of the instruction.
        instruction: The instruction.
        memory: Raises an error if the size of a large result would exceed it.
    """
    definitions = instruction.plain or (instruction,)
    inputs = {slot for definition in definitions for slot in definition.inputs if slot != ABSENT}
    inputs -= {slot for definition in definitions for slot in definition.outputs}
    constants = [value for slot in inputs if (value := program.initial[slot]) is not None]
    variables = [slot for slot in inputs if program.initial[slot] is None]
    multiplies = any(_may_multiply(definition) for definition in definitions)
    factor = math.prod(max(value.size, 1) for value in constants) if multiplies else 1
    has_large_constant = any(value.nbytes > memory.large for value in constants)
    if not has_large_constant and (not multiplies or (len(variables) <= 1 and factor == 1)):
        return None

    def list_large(inputs: _Inputs) -> list[int]:
        """Return the sizes of large results for the shapes and types of the variable inputs."""
        known = dict(zip(variables, itertools.starmap(_Described, inputs), strict=True))
        allocations = estimate_allocations(instruction, lambda slot: known.get(slot, program.initial[slot]))
        return [sum(sizes) for sizes in allocations if sum(sizes) > memory.large]

    large_bounds = Memo(list_large)
    fixed = frozenset(n for value in constants for n in value.shape)
    previous: list[_Inputs] = []

    @Memo
    def large_results(inputs: _Inputs) -> list[int]:
        # Shapes that grow from run to run, as in decoders, are estimated once for many lengths.
        bounds = _round_growth(inputs, previous[0], fixed) if previous else None
        previous[:] = [inputs]
        return list_large(inputs) if bounds is None or large_bounds[bounds] else []

    def check_results(values: list[Any]) -> None:
        for size in large_results[tuple([(values[slot].shape, values[slot].dtype) for slot in variables])]:
            memory.check(size)

    return check_results if has_large_constant else _make_guard(variables, factor, memory.large, check_results)


def _round_growth(inputs: _Inputs, previous: _Inputs, fixed: frozenset[int]) -> _Inputs | None:
    """Return the shapes with dimensions that changed since the previous run rounded up, or None if ranks changed.

    Equal dimensions stay equal, and dimensions that constants have as well are not rounded, so that what broadcasts
    still broadcasts.
    """
    if any(len(a[0]) != len(b[0]) for a, b in zip(inputs, previous, strict=True)):
        return None
    pairs = {pair for a, b in zip(inputs, previous, strict=True) for pair in zip(a[0], b[0], strict=True)}
    changed = {n for n, before in pairs if n != before} - fixed - {0, 1}
    return tuple([(tuple([n + -n % GROWTH if n in changed else n for n in shape]), dtype) for shape, dtype in inputs])


def _make_guard(variables: Sequence[int], factor: int, maximum: int, check: Guard) -> Guard:
    """Return a guard that calls `check` if the product of sizes exceeds a maximum."""
    if len(variables) == 1:
        (only,) = variables

        def guard_one(values: list[Any]) -> None:
            size = values[only].size
            if size * factor > maximum or not size:
                check(values)

        return guard_one
    if len(variables) == 2 and factor == 1:
        first, second = variables

        def guard_two(values: list[Any]) -> None:
            product = values[first].size * values[second].size
            if product > maximum or not product:
                check(values)

        return guard_two

    def guard_all(values: list[Any]) -> None:
        product = factor * math.prod([values[slot].size for slot in variables])
        if product > maximum or not product:
            check(values)

    return guard_all


def _may_multiply(instruction: Instruction) -> bool:
    return not instruction.bodies and instruction.operation.kind in ("elementwise", "product")


def estimate_allocations(
    instruction: Instruction, find: Callable[[int], Array | _Described | None]
) -> Iterator[tuple[int, int]]:
    """Yield the bytes that an instruction, or each instruction that it replaces, will allocate.

    Args:
        instruction: The instruction.
        find: Returns the value of a slot.

    Yields:
        The bytes of the outputs, 0 if the kernel checks them itself, and the other bytes that the kernel allocates. A
        fast kernel that computes whole arrays counts like the plain kernel.
    """
    is_fast = bool(instruction.plain)
    for definition in instruction.plain or (instruction,):
        inputs = [find(slot) for slot in definition.inputs]
        size, operation = estimate_result(definition, inputs), definition.operation
        if instruction.bodies or operation.is_custom or (is_fast and operation.kind not in SCRATCH_KINDS):
            yield size, 0
        else:
            arrays = [x for x in inputs if x is not None]
            scratch = estimate_scratch(operation, arrays, size)
            if is_fast and operation.kind == "recurrent":  # a whole sequence is projected at once
                scratch = PROJECTION_COPIES * max((x.size * x.itemsize for x in arrays), default=0)
            yield size, scratch


def estimate_result(instruction: Instruction, inputs: Sequence[Array | _Described | None]) -> int:
    """Return the bytes that the outputs of an instruction will take; 0 if its kernel checks them itself.

    Args:
        instruction: The instruction.
        inputs: Its inputs.
    """
    arrays = [x for x in inputs if x is not None]
    if not arrays or instruction.bodies:
        return 0
    operation = instruction.operation
    if operation.multiplies_matrices:
        elements = _count_product(instruction, arrays)
    elif operation.type == "Einsum":
        elements = _count_einsum(instruction.attributes.get("equation", ""), arrays)
    elif operation.kind == "elementwise":
        elements = _count_broadcast(arrays)
    elif operation.folding == "linear" and operation.kind != "view" and not operation.checks_size:
        elements = sum(x.size for x in arrays)
    else:
        return 0
    return elements * _get_width(instruction, arrays)


def _get_width(instruction: Instruction, arrays: Sequence[Array | _Described]) -> int:
    """Return the bytes of an element of the result or of intermediate values."""
    destination = instruction.attributes.get("destination_type")
    if isinstance(destination, ElementType):
        return destination.dtype.itemsize
    if instruction.operation.output_types == ("boolean",):
        return 1
    return max(4 if is_low_precision(x.dtype) else x.itemsize for x in arrays)


def _count_broadcast(arrays: Sequence[Array | _Described]) -> int:
    try:
        return math.prod(get_broadcast_shape(*(x.shape for x in arrays)))
    except ValueError:  # "pdpd" broadcasting, PRelu: the result has the shape of the first input
        return max(x.size for x in arrays)


def _count_product(instruction: Instruction, arrays: Sequence[Array | _Described]) -> int:
    if len(arrays) < 2:
        return 0
    a, b = arrays[:2]
    if not a.ndim or not b.ndim:
        return 0
    rows = 1 if a.ndim == 1 else a.shape[-1 if instruction.attributes.get("transpose_a") else -2]
    columns = 1 if b.ndim == 1 else b.shape[-2 if instruction.attributes.get("transpose_b") else -1]
    try:
        return rows * columns * math.prod(get_broadcast_shape(a.shape[:-2], b.shape[:-2]))
    except ValueError:
        return 0


def _count_einsum(equation: str, arrays: Sequence[Array | _Described]) -> int:
    """Return a bound of the elements of the result: the product of the longest axis of each label."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    hidden_shapes: list[tuple[int, ...]] = []
    for term, array in zip(left.split(","), arrays, strict=False):
        labels = term.replace("...", "")
        before = len(term.partition("...")[0]) if "..." in term else len(labels)
        hidden = max(array.ndim - len(labels), 0)
        shape = array.shape[:before] + array.shape[before + hidden :]
        hidden_shapes.append(array.shape[before : before + hidden])
        for label, length in zip(labels, shape, strict=False):
            lengths[label] = max(lengths.get(label, 1), length)
    labels = right.replace("...", "") if arrow else "".join(lengths)
    try:
        ellipsis = math.prod(get_broadcast_shape(*hidden_shapes))
    except ValueError:  # which the kernel reports
        return 0
    return ellipsis * math.prod(lengths.get(label, 1) for label in labels)
