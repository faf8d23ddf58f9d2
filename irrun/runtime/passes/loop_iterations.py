"""Faster iterations of loops."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from irrun.fast.loops import iterate_loop, iterate_tensor_iterator
from irrun.runtime.program import Instruction, Program

__all__ = ["specialize_loops"]

KERNELS = {"TensorIterator-1": iterate_tensor_iterator, "Loop-5": iterate_loop}


def specialize_loops(program: Program) -> None:
    """Replace the kernels of loops, in bodies too.

    An error in a body is final: the plain kernel does not run after it, since iterations may have changed variables.

    Args:
        program: Changed in place.
    """
    program.instructions = [_specialize_loop(instruction) for instruction in program.instructions]
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            specialize_loops(body.program)


def _specialize_loop(instruction: Instruction) -> Instruction:
    kernel = KERNELS.get(str(instruction.operation))
    is_own = (instruction.kernel.__module__ or "").startswith("irrun.ops.")
    if kernel is None or not is_own or not instruction.bodies:
        return instruction
    return replace(instruction, kernel=partial(kernel, instruction.kernel))
