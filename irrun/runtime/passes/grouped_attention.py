"""Attention with groups: repeated heads of keys and values are not written to memory.

Exporters repeat the heads of keys and values before ScaledDotProductAttention by Unsqueeze, Broadcast and Reshape.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from irrun.fast.attention import attend_in_groups, get_repeated_shape
from irrun.runtime.program import Instruction, Program

__all__ = ["group_attention"]


@dataclass(frozen=True)
class _Repetition:
    """The instructions that repeat the heads of keys or values."""

    unsqueeze: Instruction
    broadcast: Instruction
    reshape: Instruction

    @property
    def inputs(self) -> tuple[int, int, int]:
        return self.unsqueeze.inputs[0], self.broadcast.inputs[1], self.reshape.inputs[1]

    @property
    def instructions(self) -> tuple[Instruction, Instruction, Instruction]:
        return self.unsqueeze, self.broadcast, self.reshape

    @property
    def special_zero(self) -> bool:
        return bool(self.reshape.attributes.get("special_zero"))


def group_attention(program: Program) -> None:
    """Replace attention and the repetition of its keys and values, in bodies too.

    Args:
        program: Changed in place.
    """
    for instruction in program.instructions:
        for body in instruction.bodies.values():
            group_attention(body.program)
    producers = {slot: i for i in program.instructions for slot in i.outputs}
    consumers: dict[int, list[Instruction]] = defaultdict(list)
    for instruction in program.instructions:
        for slot in dict.fromkeys(instruction.inputs):
            consumers[slot].append(instruction)
    replacements: dict[int, Instruction] = {}
    removed: set[int] = set()
    for attention in program.instructions:
        if attention.operation.type != "ScaledDotProductAttention" or len(attention.inputs) not in (3, 4, 5):
            continue
        repetitions = [_find_repetition(program, slot, producers) for slot in attention.inputs[1:3]]
        if repetitions[0] is None or repetitions[1] is None or attention.inputs[1] == attention.inputs[2]:
            continue
        keys, values = repetitions[0], repetitions[1]
        others = [i for r in (keys, values) for i in consumers[r.reshape.outputs[0]] if i is not attention]
        results = {r.reshape.outputs[0] for r in (keys, values)}
        is_exclusive = all(
            len(consumers[i.outputs[0]]) == 1 and i.outputs[0] not in program.results
            for r in (keys, values)
            for i in (r.unsqueeze, r.broadcast)
        )
        if not is_exclusive or not results.isdisjoint(program.results):
            continue
        if any(i.operation.type != "ShapeOf" for i in others):
            continue
        replacements[id(attention)] = _replace_attention(attention, keys, values)
        for shape_of in others:
            repetition = keys if shape_of.inputs[0] == keys.reshape.outputs[0] else values
            replacements[id(shape_of)] = _replace_shape(shape_of, repetition)
        removed.update(id(i) for r in (keys, values) for i in r.instructions)
    if replacements:
        program.instructions = [replacements.get(id(i), i) for i in program.instructions if id(i) not in removed]
        program.free_after_last_use()


def _find_repetition(program: Program, slot: int, producers: dict[int, Instruction]) -> _Repetition | None:
    chain: list[Instruction] = []
    for expected in ("Reshape", "Broadcast", "Unsqueeze"):
        instruction = producers.get(slot)
        if instruction is None or instruction.operation.type != expected or instruction.operation.opset:
            return None
        chain.append(instruction)
        slot = instruction.inputs[0]
    reshape, broadcast, unsqueeze = chain
    axes_slot = unsqueeze.inputs[1]
    axes = program.initial[axes_slot] if axes_slot in program.constant_layers else None
    if axes is None or axes.reshape(-1).tolist() != [2]:
        return None
    if broadcast.attributes.get("mode") != "bidirectional" or len(broadcast.inputs) != 2:
        return None
    return _Repetition(unsqueeze, broadcast, reshape)


def _replace_attention(attention: Instruction, keys: _Repetition, values: _Repetition) -> Instruction:
    return replace(
        attention,
        kernel=attend_in_groups,
        attributes={
            "causal": attention.attributes.get("causal", False),
            "key_special_zero": keys.special_zero,
            "value_special_zero": values.special_zero,
        },
        inputs=(attention.inputs[0], *keys.inputs, *values.inputs, *attention.inputs[3:]),
        plain=(*keys.instructions, *values.instructions, attention),
    )


def _replace_shape(shape_of: Instruction, repetition: _Repetition) -> Instruction:
    output_type = shape_of.attributes.get("output_type")
    dtype = np.dtype(np.int64) if output_type is None else output_type.dtype
    return replace(
        shape_of,
        kernel=get_repeated_shape,
        attributes={"special_zero": repetition.special_zero, "dtype": dtype},
        inputs=repetition.inputs,
        plain=(*repetition.instructions, shape_of),
    )
