"""Growing variables: append new elements in place instead of copying the whole value in each run.

A decoder reads a variable (ReadValue), reorders it by beams (Gather along the first axis), appends keys or values
(Concat), and writes it back (Assign).
"""

from __future__ import annotations

from dataclasses import replace

from irrun.fast.cache import append_to_reordered_variable, append_to_variable
from irrun.ops._support.context import Variables
from irrun.runtime.passes.engine import Changes, Match, Pattern, Rule, View
from irrun.runtime.program import Instruction

__all__ = ["RULES"]

READ = Pattern("read", ("ReadValue",))
APPENDED = Pattern("assign", ("Assign",), {0: Pattern("concat", ("Concat",), {0: READ})})
GATHER = Pattern("gather", inputs={0: READ}, has=lambda operation: operation.gathers)
REORDERED = Pattern("assign", ("Assign",), {0: Pattern("concat", ("Concat",), {0: GATHER})})


def _check_variable(view: View, match: Match) -> str:
    name = match["assign"].attributes["variable_id"]
    if match["read"].attributes["variable_id"] != name:
        return "another variable is extended"
    if sum(_assigns(i, name) for i in view.program.instructions) > 1:
        return "the variable is assigned repeatedly"
    return "" if len(match["concat"].inputs) == 2 else "more than two values are concatenated"


def _assigns(instruction: Instruction, name: str) -> bool:
    return instruction.attributes.get("variable_id") == name and not READ.accepts(instruction)


def _check_reordered(view: View, match: Match) -> str:
    gather = match["gather"]
    axis = view.get_constant(gather.inputs[2]) if len(gather.inputs) == 3 else None
    if axis is None or axis.size != 1 or int(axis.reshape(())) != 0 or gather.attributes.get("batch_dims"):
        return "the variable is not reordered along its first axis"
    if view.get_sole_producer(gather.outputs[0]) is None:
        return "the reordered value is used elsewhere, so that it exists in any case"
    return _check_variable(view, match)


def _append(view: View, match: Match) -> Changes:
    concat = match["concat"]
    attributes = {"axis": concat.attributes["axis"], "variable_id": match["assign"].attributes["variable_id"]}
    appended = replace(
        concat, kernel=append_to_variable, attributes=attributes, provided={"variables": Variables}, plain=(concat,)
    )
    gather = match.get("gather")
    if gather is not None:
        appended.kernel = append_to_reordered_variable
        appended.inputs = (*gather.inputs[:2], concat.inputs[1])
        appended.plain = (gather, concat)
        yield gather, ()
    yield concat, (appended,)


RULES = (
    Rule("append to a variable in place", APPENDED, _append, _check_variable),
    Rule("append to a reordered variable in place", REORDERED, _append, _check_reordered),
)
