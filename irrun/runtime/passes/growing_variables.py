"""Variables that grow: new elements are appended in place instead of copying the whole value in each run.

A decoder reads a variable (ReadValue), reorders it by beams (Gather along the first axis), appends keys or values
(Concat), and writes it back (Assign).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from irrun.fast.cache import append_to_reordered_variable, append_to_variable
from irrun.ops._support.context import Variables
from irrun.runtime.program import Instruction, Program

__all__ = ["grow_variables_in_place"]


def grow_variables_in_place(program: Program) -> None:
    """Replace Concat, and a Gather before it, where its result is assigned to the variable that it extends.

    Args:
        program: Changed in place. Bodies are left as they are.
    """
    producers = {slot: i for i in program.instructions for slot in i.outputs}
    consumers: dict[int, list[Instruction]] = defaultdict(list)
    for instruction in program.instructions:
        for slot in dict.fromkeys(instruction.inputs):
            consumers[slot].append(instruction)
    assigns = [i for i in program.instructions if i.operation.type == "Assign"]
    names = [i.attributes["variable_id"] for i in assigns]
    replacements: dict[int, Instruction] = {}
    removed: set[int] = set()
    for assign, name in zip(assigns, names, strict=True):
        concat = producers.get(assign.inputs[0])
        if concat is None or names.count(name) > 1 or concat.operation.type != "Concat" or len(concat.inputs) != 2:
            continue
        source = producers.get(concat.inputs[0])
        if source is None:
            continue
        attributes = {"axis": concat.attributes["axis"], "variable_id": name}
        concat_fast = replace(concat, attributes=attributes, provided={"variables": Variables}, plain=(concat,))
        if _reads_variable(source, name):
            replacements[id(concat)] = replace(concat_fast, kernel=append_to_variable)
        elif _gathers_first_axis(program, source) and _reads_variable(producers.get(source.inputs[0]), name):
            if len(consumers[source.outputs[0]]) > 1 or source.outputs[0] in program.results:
                continue  # the reordered value exists in any case, and is not a view of the buffer
            replacements[id(concat)] = replace(
                concat_fast,
                kernel=append_to_reordered_variable,
                inputs=(*source.inputs[:2], concat.inputs[1]),
                plain=(source, concat),
            )
            removed.add(id(source))
    if replacements:
        program.instructions = [replacements.get(id(i), i) for i in program.instructions if id(i) not in removed]
        program.free_after_last_use()


def _reads_variable(instruction: Instruction | None, name: str) -> bool:
    return (
        instruction is not None
        and instruction.operation.type == "ReadValue"
        and instruction.attributes["variable_id"] == name
    )


def _gathers_first_axis(program: Program, instruction: Instruction) -> bool:
    if instruction.operation.type != "Gather" or instruction.operation.opset or len(instruction.inputs) != 3:
        return False
    slot = instruction.inputs[2]
    axis = program.initial[slot] if slot in program.constant_layers else None
    has_axis = axis is not None and axis.size == 1 and int(axis.reshape(())) == 0
    return has_axis and not instruction.attributes.get("batch_dims")
