"""Alignment of constants: constants at unaligned offsets of the .bin are copied once.

Otherwise, NumPy would copy them in each run, before every matrix product. Since allocating memory takes several times
as long as reading the file, weights of large products are copied in the second run; the first run copies them part by
part into the processor's cache.
"""

from __future__ import annotations

import numpy as np

from irrun.fast.alignment import align
from irrun.runtime.passes.budget import Budget
from irrun.runtime.passes.engine import View
from irrun.runtime.program import Instruction, Program

__all__ = ["align_constants", "align_postponed_constants"]

#: Weights of fewer bytes are copied at once.
MIN_POSTPONED_BYTES = 1 << 20


def align_constants(program: Program, budget: Budget, postpones: bool) -> None:
    """Copy constants with unaligned elements, in bodies too, as far as the budget allows.

    Args:
        program: The program. It is changed in place, and `unaligned` is set to the slots with postponed copies.
        budget: The budget for the copies, postponed ones included.
        postpones: Whether specialized kernels align the weights of large products later.
    """
    for current in program.walk_programs():
        _align_program(current, budget, postpones and current is program)


def _align_program(program: Program, budget: Budget, postpones: bool) -> None:
    unaligned = [
        slot
        for slot in program.constant_layers
        if (value := program.initial[slot]) is not None and not value.flags.aligned
    ]
    postponed = _find_postponed(program, unaligned) if postpones and unaligned else set()
    for slot in unaligned:
        value = program.initial[slot]
        if value is None or value.nbytes > budget.memory:
            continue
        if slot in postponed:
            budget.memory -= value.nbytes
            program.unaligned.add(slot)
        else:
            program.initial[slot] = align(value)
            budget.spend_memory(value.nbytes)


def align_postponed_constants(program: Program) -> None:
    """Copy the constants that `align_constants` postponed.

    Args:
        program: Changed in place.
    """
    for slot in list(program.unaligned):
        value = program.initial[slot]
        if value is not None:
            program.initial[slot] = align(value)
    program.unaligned.clear()


def _find_postponed(program: Program, slots: list[int]) -> set[int]:
    """Return the slots that only products consume, as constant weights."""
    consumers = View(program).consumers
    postponed = set()
    for slot in slots:
        value = program.initial[slot]
        is_large = value is not None and value.nbytes > MIN_POSTPONED_BYTES
        if not is_large or value is None or value.ndim != 2 or value.dtype != np.float32 or slot in program.results:
            continue
        if all(_is_product(program, i, slot) for i in consumers[slot]):
            postponed.add(slot)
    return postponed


def _is_product(program: Program, instruction: Instruction, slot: int) -> bool:
    """Return whether an instruction multiplies a computed value by a slot."""
    operation, inputs = instruction.operation, instruction.inputs
    return (
        operation.multiplies_matrices
        and inputs[1] == slot
        and inputs[0] not in program.constant_layers
        and not instruction.attributes.get("transpose_a")
    )
