"""Alignment of constants: constants at unaligned offsets of the .bin are copied once.

NumPy would otherwise copy them in each run, before every matrix product.
"""

from __future__ import annotations

from irrun.runtime.passes.budget import Budget
from irrun.runtime.program import Program

__all__ = ["align_constants"]


def align_constants(program: Program, budget: Budget) -> None:
    """Copy constants whose elements are not aligned to their size, in bodies too, as far as the budget allows.

    Args:
        program: Changed in place.
        budget: The budget for the copies.
    """
    for slot in program.constant_layers:
        value = program.initial[slot]
        if value is not None and not value.flags.aligned and value.nbytes <= budget.memory:
            value = value.copy()
            value.flags.writeable = False
            program.initial[slot] = value
            budget.spend_memory(value.nbytes)
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            align_constants(body.program, budget)
