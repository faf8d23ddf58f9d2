"""Compiled steps of recurrent sequences, and of loops that run cells over sequences."""

from __future__ import annotations

from dataclasses import replace

from irrun.fast.jit.recurrences import compile_weights
from irrun.fast.loops import SequenceLoop
from irrun.fast.recurrent import RecurrentSequence
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import Instruction, Program

__all__ = ["run"]


def run(program: Program, resources: Resources) -> None:
    """Compile the steps of recurrences, in bodies too.

    Args:
        program: Changed in place.
        resources: Not used.
    """
    for current in program.walk_programs():
        current.instructions = [_compile_steps(instruction) for instruction in current.instructions]


def _compile_steps(instruction: Instruction) -> Instruction:
    kernel = instruction.kernel
    if not isinstance(kernel, RecurrentSequence | SequenceLoop):
        return instruction
    compiled = kernel.replace_weights(compile_weights)
    if compiled == kernel:
        return instruction
    return replace(instruction, kernel=compiled, description="compiled: steps of recurrences")
