"""Specialization: plain kernels are replaced by faster kernels for one instruction."""

from __future__ import annotations

from irrun.fast.packing import PackedMemory
from irrun.fast.specialization import DEFAULT_PACKED_BYTES, CallSite, specialize
from irrun.runtime.passes.phases import Resources
from irrun.runtime.program import ABSENT, Instruction, Program, Refusal

__all__ = ["list_refusals", "make_site", "run", "specialize_instructions"]


def run(program: Program, resources: Resources) -> None:
    """Choose the kernels of a program and of its bodies; see `specialize_instructions`."""
    specialize_instructions(program, resources.packed)


def specialize_instructions(program: Program, packed: PackedMemory | None = None) -> None:
    """Replace the kernels of a program and of its bodies by specialized kernels where they exist.

    Args:
        program: Changed in place. Instructions that are replaced keep the original as `plain`.
        packed: The memory limit for prepared weights.
    """
    packed = packed or PackedMemory(DEFAULT_PACKED_BYTES)
    for current in program.walk_programs():
        current.instructions = [_specialize_instruction(current, i, packed) for i in current.instructions]


def make_site(program: Program, instruction: Instruction, packed: PackedMemory) -> CallSite:
    """Return the facts about an instruction."""
    constants = tuple(program.initial[s] if s in program.constant_layers else None for s in instruction.inputs)
    is_absent = tuple(s == ABSENT for s in instruction.inputs)
    declared = instruction.layer.inputs[0].shape if instruction.layer.inputs else None
    return CallSite(
        instruction.operation,
        instruction.attributes,
        constants,
        is_absent,
        len(instruction.outputs),
        packed,
        not program.unaligned.isdisjoint(instruction.inputs),
        declared.get_min_shape() if declared is not None and declared.is_static else None,
    )


def list_refusals(site: CallSite, instruction: Instruction) -> list[Refusal]:
    """Return why the specializer of an instruction did not choose other implementations."""
    return [Refusal(instruction.layer.name, f"use {name}", reason) for name, reason in site.refused]


def _specialize_instruction(program: Program, instruction: Instruction, packed: PackedMemory) -> Instruction:
    if instruction.bodies or instruction.provided or instruction.plain:
        return instruction
    site = make_site(program, instruction, packed)
    try:
        kernel = specialize(site)
    except Exception as error:  # constants that the plain kernel refuses, with a message, when it runs
        program.refusals.append(Refusal(instruction.layer.name, "specialize", str(error)))
        return instruction
    program.refusals += list_refusals(site, instruction)
    if kernel is None:
        return instruction
    inputs = tuple(instruction.inputs[i] for i in site.variable_inputs)
    return Instruction(
        kernel,
        inputs,
        instruction.outputs,
        instruction.layer,
        instruction.operation,
        frees=instruction.frees,
        plain=(instruction,),
        is_observed=instruction.is_observed,
        description=site.describe(),
    )
