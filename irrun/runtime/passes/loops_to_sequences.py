"""Loops whose iterations depend on each other only through recurrent cells become operations on whole sequences.

Operations before and after the cells are computed for all iterations at once, and each cell runs as a
sequence. Any other loop stays unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from irrun.fast.loops import CellStep, SequenceLoop, SequenceStep
from irrun.fast.recurrent import prepare_cell
from irrun.fast.specialization import CallSite
from irrun.fast.vectorization import get_kernel, vectorize
from irrun.ops._support.operation import Operation
from irrun.runtime.passes.engine import Changes, Match, Pattern, RefusalError, Rule, View
from irrun.runtime.program import ABSENT, BodyProgram, Instruction

__all__ = ["LOOP", "RULES", "has_trip_count"]

LOOP = Pattern("loop", ("Loop", "TensorIterator"))


def _check(view: View, match: Match) -> str:
    loop = match["loop"]
    if loop.plain:
        return "the kernel is not irrun's plain kernel"
    return "an input is not connected" if ABSENT in loop.inputs else ""


def _build(view: View, match: Match) -> Changes:
    loop = match["loop"]
    try:
        kernel = _LoopConversion(loop.bodies["body"], has_trip_count(loop.operation)).convert()
    except Exception as error:  # the plain kernels refuse constants with a message when they run
        raise RefusalError("a constant in the body is invalid") from error
    if kernel is None:
        raise RefusalError("iterations depend on each other through more than recurrent cells")
    yield loop, (replace(loop, kernel=kernel, attributes={}, bodies={}, provided={}, plain=(loop,)),)


RULES = (Rule("compute all iterations of a loop at once", LOOP, _build, _check),)


def has_trip_count(operation: Operation) -> bool:
    """Return whether a loop has a trip count and an execution condition."""
    return operation.inputs[0].name == "trip_count"


class _LoopConversion:
    """The conversion of one loop.

    Args:
        body: The body of the loop.
        has_trip_count: Whether the loop has a trip count and an execution condition.
    """

    def __init__(self, body: BodyProgram, has_trip_count: bool) -> None:
        self.body = body
        self.program = program = body.program
        self.has_trip_count = has_trip_count
        edges = [e for e in body.back_edges if self.is_used(program.parameters[e.parameter])]
        #: Slot of a Parameter -> slot of the value in the next iteration.
        self.states = {program.parameters[e.parameter]: program.results[e.result] for e in edges}
        self.stacked = {program.parameters[entry.parameter] for entry in body.inputs if entry.axis is not None}
        self.invariant = {ABSENT, *program.constant_layers}
        self.invariant.update(
            slot
            for slot in program.parameters
            if slot not in self.states and slot not in self.stacked and slot not in self.get_counters()
        )
        #: Slots that hold the last value of a state, not one value per iteration.
        self.last_states: set[int] = set()
        self.steps: list[SequenceStep] = []

    def convert(self) -> SequenceLoop | None:
        """Return the kernel, or None if the loop cannot be converted."""
        body, program = self.body, self.program
        if not self.stacked or self.stacked & self.states.keys() or not self.is_endless():
            return None
        is_converted = all(self.add_instruction(instruction) for instruction in program.instructions)
        if not is_converted or self.states:
            return None
        for entry in body.outputs:
            slot = program.results[entry.result]
            is_last_state = slot not in self.stacked and slot not in self.invariant
            if entry.port >= 0 and is_last_state and (entry.axis is not None or slot not in self.last_states):
                return None
        return SequenceLoop(
            initial=tuple(program.initial),
            parameters=tuple(program.parameters),
            results=tuple(program.results),
            inputs=body.inputs,
            outputs=body.outputs,
            steps=tuple(self.steps),
            stacked=frozenset(self.stacked),
            output_count=body.output_count,
            has_trip_count=self.has_trip_count,
        )

    def is_used(self, slot: int) -> bool:
        """Return whether an instruction or a Result consumes a slot."""
        return slot in self.program.results or any(slot in i.inputs for i in self.program.instructions)

    def get_counters(self) -> set[int]:
        """Return the slots of the Parameters that count iterations."""
        return {self.program.parameters[entry.parameter] for entry in self.body.inputs if entry.purpose}

    def is_endless(self) -> bool:
        """Return whether the execution condition of the body is always true."""
        program = self.program
        for entry in self.body.outputs:
            if entry.purpose == "execution_condition":
                value = program.initial[program.results[entry.result]]
                is_constant = program.results[entry.result] in program.constant_layers
                if not is_constant or value is None or value.size != 1 or not value.item():
                    return False
        return True

    def add_instruction(self, instruction: Instruction) -> bool:
        """Add the step of an instruction and classify its outputs; return whether that is possible."""
        if not instruction.is_pure:
            return False
        site = self.make_site(instruction)
        inputs = tuple(instruction.inputs[i] for i in site.variable_inputs)
        if self.invariant.issuperset(inputs):
            kernel = get_kernel(site)
            self.invariant.update(instruction.outputs)
        elif self.states.keys() & set(inputs):
            return self.add_cell(instruction, site)
        elif self.stacked.union(self.invariant).issuperset(inputs):
            vectorized = vectorize(site, [slot in self.stacked for slot in inputs])
            if vectorized is None or len(instruction.outputs) > 1:
                return False
            kernel = vectorized
            self.stacked.update(instruction.outputs)
            self.steps.append(SequenceStep(kernel, inputs, instruction.outputs, site.operation.kind == "view"))
            return True
        else:
            return False
        self.steps.append(SequenceStep(kernel, inputs, instruction.outputs))
        return True

    def add_cell(self, instruction: Instruction, site: CallSite) -> bool:
        """Add the step of a cell that takes its states from the previous iteration."""
        operation = instruction.operation
        if operation.kind != "recurrent" or operation.is_custom or operation.opset:
            return False
        weights = prepare_cell(site)
        if weights is None:
            return False
        states = instruction.inputs[1 : 1 + weights.state_count]
        outputs = instruction.outputs[: len(states)]
        follows = [self.states.get(slot) for slot in states] == list(outputs)
        is_exclusive = all(self.count_uses(slot) == 1 for slot in states)
        if not follows or not is_exclusive or instruction.inputs[0] not in self.stacked:
            return False
        for slot in states:
            del self.states[slot]
        self.stacked.add(outputs[0])
        self.last_states.update(outputs[1:])
        self.steps.append(SequenceStep(CellStep(weights), (instruction.inputs[0], *states), outputs))
        return True

    def count_uses(self, slot: int) -> int:
        """Return how often a slot is an input of an instruction or a Result."""
        return self.program.results.count(slot) + sum(i.inputs.count(slot) for i in self.program.instructions)

    def make_site(self, instruction: Instruction) -> CallSite:
        """Return the facts about an instruction of the body."""
        program = self.program
        constants = tuple(program.initial[s] if s in program.constant_layers else None for s in instruction.inputs)
        is_absent = tuple(s == ABSENT for s in instruction.inputs)
        return CallSite(instruction.operation, instruction.attributes, constants, is_absent, len(instruction.outputs))
