"""The engine of rewrites: a view of a program, patterns of instructions, and rules that replace what they match.

A rule is a row: a name, a pattern, a check that returns why it does not apply, and a function that builds the
replacement of the match. The engine finds matches in all bodies, keeps the view up to date, and records the reasons.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.ir.graph import Port
from irrun.ops._support.operation import Operation
from irrun.runtime.program import ABSENT, Instruction, Program, Refusal

__all__ = [
    "ANYTHING",
    "Changes",
    "Match",
    "Pattern",
    "RefusalError",
    "Rule",
    "View",
    "apply_rules",
    "get_other_input",
    "join",
]

Array = np.ndarray[Any, Any]
Shape = tuple[Any, ...]

F32 = np.dtype(np.float32)


class View:
    """A program, and answers to the questions of rules: producers, consumers, constants, shapes and types.

    Args:
        program: The program. It changes when the view is committed.

    Attributes:
        program: The program.
        producers: The instruction that computes a slot.
        consumers: The instructions that read a slot, in order and without repetitions.
        ports: The declarations of computed slots.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ports: dict[int, Port] = program.map_ports()
        self.producers: dict[int, Instruction] = {}
        self.consumers: dict[int, list[Instruction]] = defaultdict(list)
        for instruction in program.instructions:
            self._connect(instruction)
        self._results = frozenset(program.results)
        #: Replacements of instructions by identity. The instructions are kept, so that identities stay unique.
        self._replaced: dict[int, tuple[Instruction, Sequence[Instruction]]] = {}

    def get_constant(self, slot: int) -> Array | None:
        """Return the value of a slot if it is constant."""
        return self.program.initial[slot] if slot in self.program.constant_layers else None

    def get_shape(self, slot: int) -> Shape | None:
        """Return the shape of a value as declared, with None for dynamic dimensions; None if its rank is unknown."""
        constant = self.get_constant(slot)
        if constant is not None:
            return tuple(constant.shape)
        port = self.ports.get(slot)
        if port is None or port.shape is None:
            return None
        return tuple(d if isinstance(d, int) else None for d in port.shape)

    def get_static_shape(self, slot: int) -> tuple[int, ...] | None:
        """Return the declared shape of a computed value if it has no dynamic dimensions."""
        port = self.ports.get(slot)
        if port is None or port.shape is None or not port.shape.is_static:
            return None
        return port.shape.get_min_shape()

    def get_dtype(self, slot: int) -> np.dtype[Any] | None:
        """Return the type of a value: the declared type, unless the program computes in another one."""
        constant, producer, port = self.get_constant(slot), self.producers.get(slot), self.ports.get(slot)
        if constant is not None:
            return np.dtype(constant.dtype)
        if producer is not None and producer.operation.converts and "destination_type" in producer.attributes:
            destination: ElementType = producer.attributes["destination_type"]
            return np.dtype(destination.dtype)
        return None if port is None else self.program.get_computed_dtype(port)

    def is_f32(self, slot: int) -> bool:
        """Return whether a value has the type f32."""
        return self.get_dtype(slot) == F32

    def is_result(self, slot: int) -> bool:
        """Return whether a value is a result of the program."""
        return slot in self._results

    def count_uses(self, slot: int) -> int:
        """Return how often a value is an input of an instruction or a result."""
        return self.program.results.count(slot) + sum(i.inputs.count(slot) for i in self.consumers[slot])

    def get_sole_producer(self, slot: int) -> Instruction | None:
        """Return the instruction that computes a value with a single use, or None."""
        producer = self.producers.get(slot)
        return producer if producer is not None and self.count_uses(slot) == 1 else None

    def get_sole_consumer(self, slot: int) -> Instruction | None:
        """Return the instruction that reads a value with a single use, or None."""
        consumers = self.consumers[slot]
        return consumers[0] if consumers and self.count_uses(slot) == 1 else None

    def add_slot(self, value: Array | None = None, port: Port | None = None) -> int:
        """Add a slot to the program and return it.

        Args:
            value: Its value before the first instruction.
            port: The declaration of the value that it will hold.
        """
        slot = self.program.add_slot(value)
        if port is not None:
            self.ports[slot] = port
        return slot

    def replace(self, instruction: Instruction, *others: Instruction) -> None:
        """Put instructions in the place of one, or remove it."""
        self._replaced[id(instruction)] = instruction, others
        for slot in instruction.inputs:
            self.consumers[slot] = [i for i in self.consumers[slot] if i is not instruction]
        for slot in instruction.outputs:
            if self.producers.get(slot) is instruction:
                del self.producers[slot]
        for other in others:
            self._connect(other)

    def commit(self) -> None:
        """Change the program."""
        if self._replaced:
            self.program.instructions = [new for old in self.program.instructions for new in self._expand(old)]
            self.program.free_after_last_use()

    def _expand(self, instruction: Instruction) -> Iterator[Instruction]:
        entry = self._replaced.get(id(instruction))
        if entry is None:
            yield instruction
            return
        for other in entry[1]:
            yield from self._expand(other)

    def _connect(self, instruction: Instruction) -> None:
        for slot in dict.fromkeys(instruction.inputs):
            if slot != ABSENT:
                self.consumers[slot].append(instruction)
        self.producers.update(dict.fromkeys(instruction.outputs, instruction))


def get_other_input(instruction: Instruction, slot: int) -> int:
    """Return the input of an operation of two inputs that is not in a slot, or the slot if both are."""
    first, second = instruction.inputs
    return second if first == slot else first


def join(members: Sequence[Instruction], kernel: Any, inputs: tuple[int, ...]) -> Changes:
    """Yield the changes that put one instruction in the place of the last of several, and remove the others.

    Args:
        members: The instructions, in order. They become the plain instructions of the new one.
        kernel: The kernel that computes the last value; it describes itself.
        inputs: The slots that the kernel gets.
    """
    *others, last = members
    for instruction in others:
        yield instruction, ()
    description = kernel.description
    joined = replace(last, kernel=kernel, attributes={}, inputs=inputs, plain=tuple(members), description=description)
    yield last, (joined,)


#: Instructions by the names of the patterns that they match.
Match = dict[str, Instruction]
#: Instructions to replace, each with its replacements.
Changes = Iterable[tuple[Instruction, tuple[Instruction, ...]]]


class RefusalError(Exception):
    """A rule does not apply after all, as it finds out while building. The text says why."""


@dataclass(frozen=True)
class Pattern:
    """An instruction, and the instructions that compute its inputs.

    Attributes:
        name: Its name in the match.
        types: Types of irrun's own operations of numbered opsets; empty for all instructions.
        inputs: Patterns of the producers of inputs, by the position of the input.
        has: Returns whether one of irrun's own operations of numbered opsets matches, instead of `types`.
    """

    name: str
    types: tuple[str, ...] = ()
    inputs: Mapping[int, Pattern] = field(default_factory=dict)
    has: Callable[[Operation], bool] | None = None

    def match(self, view: View, instruction: Instruction | None) -> Match | None:
        """Return the instructions that match, or None.

        Args:
            view: The program.
            instruction: The instruction that has to match this pattern.
        """
        if instruction is None or not self.accepts(instruction):
            return None
        match = {self.name: instruction}
        for position, pattern in self.inputs.items():
            if position >= len(instruction.inputs):
                return None
            found = pattern.match(view, view.producers.get(instruction.inputs[position]))
            if found is None:
                return None
            match.update(found)
        return match

    def accepts(self, instruction: Instruction) -> bool:
        """Return whether an instruction has one of the types, or the property, and broadcasts as NumPy does."""
        operation = instruction.operation
        if self.has is None and not self.types:
            return True
        if operation.opset or operation.is_custom or not instruction.broadcasts_like_numpy:
            return False
        return operation.type in self.types if self.has is None else self.has(operation)


#: A pattern of every instruction.
ANYTHING = Pattern("instruction")


@dataclass(frozen=True)
class Rule:
    """A rewrite of the instructions that match a pattern.

    Attributes:
        name: Its effect, as a phrase.
        pattern: The instructions that it looks for.
        build: Returns the changes. It may raise a `RefusalError`.
        check: Returns why the rule does not apply to a match, or an empty text.
    """

    name: str
    pattern: Pattern
    build: Callable[[View, Match], Changes]
    check: Callable[[View, Match], str] = lambda view, match: ""

    def rewrite(self, view: View, match: Match) -> Changes:
        """Return the changes that the rule makes for a match.

        Raises:
            RefusalError: The rule does not apply.
        """
        reason = self.check(view, match)
        if reason:
            raise RefusalError(reason)
        return list(self.build(view, match))


def apply_rules(program: Program, rules: Sequence[Rule]) -> None:
    """Apply rules to a program and its bodies, each rule to all instructions in order.

    Args:
        program: Changed in place. Matches that a check refuses are added to `refusals`.
        rules: The rules.
    """
    for current in program.walk_programs():
        view = View(current)
        for rule in rules:
            for instruction in current.instructions:
                if any(view.producers.get(slot) is not instruction for slot in instruction.outputs):
                    continue  # another match replaced it
                match = rule.pattern.match(view, instruction)
                if match is None:
                    continue
                try:
                    changes = rule.rewrite(view, match)
                except RefusalError as refusal:
                    current.refusals.append(Refusal(instruction.layer.name, rule.name, str(refusal)))
                    continue
                for old, new in changes:
                    view.replace(old, *new)
        view.commit()
