"""Specialization: plain kernels are replaced by faster kernels for one instruction."""

from __future__ import annotations

from dataclasses import replace

from irrun.fast.specialization import CallSite, specialize
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["specialize_instructions"]


def specialize_instructions(program: Program) -> None:
    """Replace the kernels of a program and of its bodies by specialized kernels where they exist.

    Args:
        program: Changed in place. Instructions that are replaced keep the original as `plain`.
    """
    program.instructions = [_specialize_instruction(program, i) for i in program.instructions]
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            specialize_instructions(body.program)


def _specialize_instruction(program: Program, instruction: Instruction) -> Instruction:
    if instruction.bodies or instruction.provided or instruction.plain:
        return instruction
    constants = tuple(program.initial[s] if s in program.constant_layers else None for s in instruction.inputs)
    is_absent = tuple(s == ABSENT for s in instruction.inputs)
    site = CallSite(instruction.operation, instruction.attributes, constants, is_absent, len(instruction.outputs))
    try:
        kernel = specialize(site)
    except Exception:  # constants that the plain kernel refuses, with a message, when it runs
        return instruction
    if kernel is None:
        return instruction
    inputs = tuple(instruction.inputs[i] for i in site.variable_inputs)
    return replace(instruction, kernel=kernel, attributes={}, inputs=inputs, plain=(instruction,))
