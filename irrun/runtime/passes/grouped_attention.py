"""Grouped attention without writing repeated heads of keys and values to memory.

Exporters repeat the heads of keys and values before ScaledDotProductAttention by Unsqueeze, Broadcast and Reshape.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from irrun.fast.attention import attend_in_groups, get_repeated_shape
from irrun.runtime.passes.engine import Changes, Match, Pattern, Rule, View
from irrun.runtime.program import Instruction

__all__ = ["RULES"]


def _make_repetition(name: str) -> Pattern:
    """Return the pattern of the instructions that repeat the heads of keys or values."""
    unsqueeze = Pattern(f"{name} unsqueeze", ("Unsqueeze",))
    broadcast = Pattern(f"{name} broadcast", ("Broadcast",), {0: unsqueeze})
    return Pattern(f"{name} reshape", ("Reshape",), {0: broadcast})


ATTENTION = Pattern(
    "attention",
    ("ScaledDotProductAttention",),
    {1: _make_repetition("key"), 2: _make_repetition("value")},
)

SHAPE = Pattern("shape", ("ShapeOf",))


def _check(view: View, match: Match) -> str:
    attention = match["attention"]
    if len(attention.inputs) not in (3, 4, 5):
        return "has a sink"
    if attention.inputs[1] == attention.inputs[2]:
        return "keys and values are the same"
    for name in ("key", "value"):
        unsqueeze, broadcast, reshape = _get_repetition(match, name)
        axes = view.get_constant(unsqueeze.inputs[1])
        if axes is None or axes.reshape(-1).tolist() != [2]:
            return f"the {name}s are not repeated along axis 2"
        if broadcast.attributes.get("mode") != "bidirectional" or len(broadcast.inputs) != 2:
            return f"the {name}s are not repeated by a bidirectional Broadcast"
        if any(view.get_sole_producer(i.outputs[0]) is None for i in (unsqueeze, broadcast)):
            return f"the repeated {name}s are used elsewhere"
        others = [i for i in view.consumers[reshape.outputs[0]] if i is not attention]
        if view.is_result(reshape.outputs[0]) or any(not SHAPE.accepts(i) for i in others):
            return f"the repeated {name}s are used elsewhere"
    return ""


def _build(view: View, match: Match) -> Changes:
    attention = match["attention"]
    plain: list[Instruction] = []
    inputs = [attention.inputs[0]]
    attributes = {"causal": attention.attributes.get("causal", False)}
    for name in ("key", "value"):
        repetition = _get_repetition(match, name)
        attributes[f"{name}_special_zero"] = bool(repetition[2].attributes.get("special_zero"))
        inputs += _get_sources(repetition)
        plain += repetition
        for shape_of in view.consumers[repetition[2].outputs[0]]:
            if shape_of is not attention:
                yield shape_of, (_replace_shape(shape_of, repetition),)
    for instruction in plain:
        yield instruction, ()
    yield (
        attention,
        (
            replace(
                attention,
                kernel=attend_in_groups,
                attributes=attributes,
                inputs=(*inputs, *attention.inputs[3:]),
                plain=(*plain, attention),
            ),
        ),
    )


def _get_repetition(match: Match, name: str) -> tuple[Instruction, Instruction, Instruction]:
    return match[f"{name} unsqueeze"], match[f"{name} broadcast"], match[f"{name} reshape"]


def _get_sources(repetition: tuple[Instruction, Instruction, Instruction]) -> tuple[int, int, int]:
    unsqueeze, broadcast, reshape = repetition
    return unsqueeze.inputs[0], broadcast.inputs[1], reshape.inputs[1]


def _replace_shape(shape_of: Instruction, repetition: tuple[Instruction, Instruction, Instruction]) -> Instruction:
    output_type = shape_of.attributes.get("output_type")
    dtype = np.dtype(np.int64) if output_type is None else output_type.dtype
    special_zero = bool(repetition[2].attributes.get("special_zero"))
    return replace(
        shape_of,
        kernel=get_repeated_shape,
        attributes={"special_zero": special_zero, "dtype": dtype},
        inputs=_get_sources(repetition),
        plain=(*repetition, shape_of),
    )


RULES = (Rule("read repeated heads of keys and values where they are stored", ATTENTION, _build, _check),)
