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
        gather = source if source is not None and _gathers_first_axis(program, source) else None
        read = producers.get(gather.inputs[0]) if gather is not None else source
        if read is None or read.operation.type != "ReadValue" or read.attributes["variable_id"] != name:
            continue
        is_shared = gather is not None and (
            len(consumers[gather.outputs[0]]) > 1 or gather.outputs[0] in program.results
        )
        if gather is None or is_shared:
            if gather is not None:
                continue  # the reordered value exists in any case, and is no view of the buffer
            inputs, kernel = concat.inputs, append_to_variable
        else:
            inputs = (gather.inputs[0], gather.inputs[1], concat.inputs[1])
            kernel = append_to_reordered_variable
            removed.add(id(gather))
        replacements[id(concat)] = replace(
            concat,
            kernel=kernel,
            attributes={"axis": concat.attributes["axis"], "variable_id": name},
            inputs=inputs,
            provided={"variables": Variables},
            plain=(concat,) if gather is None else (gather, concat),
        )
    if replacements:
        program.instructions = [replacements.get(id(i), i) for i in program.instructions if id(i) not in removed]
        program.free_after_last_use()


def _gathers_first_axis(program: Program, instruction: Instruction) -> bool:
    if instruction.operation.type != "Gather" or instruction.operation.opset or len(instruction.inputs) != 3:
        return False
    slot = instruction.inputs[2]
    axis = program.initial[slot] if slot in program.constant_layers else None
    has_axis = axis is not None and axis.size == 1 and int(axis.reshape(())) == 0
    return has_axis and not instruction.attributes.get("batch_dims")
