"""Constants at odd offsets of the .bin are copied once, since NumPy would copy them in each run before BLAS can."""

from __future__ import annotations

from irrun.runtime.passes.budget import Budget
from irrun.runtime.program import Program

__all__ = ["align_constants"]


def align_constants(program: Program, budget: Budget) -> None:
    """Copy constants whose elements do not lie at multiples of their size, in bodies too, as the budget admits.

    The program is changed in place.
    """
    for slot in program.constant_layers:
        value = program.initial[slot]
        if value is not None and not value.flags.aligned and value.nbytes <= budget.kept:
            value = value.copy()
            value.flags.writeable = False
            program.initial[slot] = value
            budget.keep(value.nbytes)
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            align_constants(body.program, budget)
