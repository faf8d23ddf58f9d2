"""Common subexpressions: shapes, indices, masks and views that several layers compute from the same values.

Exporters repeat them in each layer of a network: the initial values of its variables, the targets of its Reshapes, the
positions of its mask. Floating-point results are not merged, except views and copies, because fused kernels compute
them faster than they read them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.runtime.passes.engine import View
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["run"]

Array = np.ndarray[Any, Any]

#: Kinds of operations with results of any type that are merged.
MOVING = ("movement", "view")
#: Constants of at most this many bytes are compared by their elements, others by their slots.
MAX_COMPARED_BYTES = 1 << 10


def run(program: Program, resources: Resources) -> None:
    """Compute common subexpressions once, in bodies too.

    Args:
        program: Changed in place. Instructions with the same results as an earlier one are removed.
        resources: Not used.
    """
    for current in program.walk_programs():
        if not current.is_replaced:
            _merge(current)


def _merge(program: Program) -> None:
    view = View(program)
    results = frozenset(program.results)
    #: Slots of removed instructions -> slots with the same values.
    renamed: dict[int, int] = {}
    known: dict[Hashable, Instruction] = {}
    kept = []
    for instruction in program.instructions:
        if not renamed.keys().isdisjoint(instruction.inputs):
            instruction = replace(instruction, inputs=tuple(renamed.get(s, s) for s in instruction.inputs))
        if _is_candidate(view, instruction) and results.isdisjoint(instruction.outputs):
            first = known.setdefault(_make_key(view, instruction), instruction)
            if first is not instruction:
                renamed.update(zip(instruction.outputs, first.outputs, strict=True))
                continue
        kept.append(instruction)
    if renamed:
        program.instructions = kept
        program.free_after_last_use()


def _is_candidate(view: View, instruction: Instruction) -> bool:
    """Return whether an instruction may be removed if another one has the same results."""
    if not instruction.is_pure or instruction.plain or instruction.operation.is_custom:
        return False
    dtypes = [view.get_dtype(slot) for slot in instruction.outputs]
    return instruction.operation.kind in MOVING or all(dtype is not None and dtype.kind in "biu" for dtype in dtypes)


def _make_key(view: View, instruction: Instruction) -> Hashable:
    """Return a key that is equal for instructions with the same results."""
    inputs = tuple(slot if slot == ABSENT else _describe(view, slot) for slot in instruction.inputs)
    attributes = tuple(sorted((name, repr(value)) for name, value in instruction.attributes.items()))
    return id(instruction.kernel), len(instruction.outputs), inputs, attributes


def _describe(view: View, slot: int) -> Hashable:
    """Return a constant's type, shape and elements if it is small, or else the slot."""
    value = view.get_constant(slot)
    if value is None or value.dtype == object or value.nbytes > MAX_COMPARED_BYTES:
        return slot
    return value.dtype, value.shape, value.tobytes()
