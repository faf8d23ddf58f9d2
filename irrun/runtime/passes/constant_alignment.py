"""Constants at odd offsets of the .bin are copied once, since NumPy would copy them in each run before BLAS can."""

from __future__ import annotations

from irrun.runtime.program import Program

__all__ = ["align_constants"]


def align_constants(program: Program, limit: int) -> int:
    """Copy constants whose elements do not lie at multiples of their size, in bodies too.

    Args:
        program: changed in place.
        limit: bytes that the copies may take.

    Returns:
        The bytes taken.
    """
    taken = 0
    for slot in program.constant_layers:
        value = program.initial[slot]
        if value is not None and not value.flags.aligned and value.nbytes <= limit - taken:
            taken += value.nbytes
            value = value.copy()
            value.flags.writeable = False
            program.initial[slot] = value
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            taken += align_constants(body.program, limit - taken)
    return taken
