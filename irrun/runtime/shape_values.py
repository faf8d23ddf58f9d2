"""Compute values that depend only on the input shapes once for inputs of the same shapes.

Exported models compute sizes, indices and masks from the shapes of values: a quarter of the instructions of some
networks. If two consecutive runs have the same input shapes, these values are recorded, and later runs with the same
shapes use a program that contains them as constants. Shapes that change from run to run cost nothing.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from irrun.forks import make_lock
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["Recording", "ShapeCache", "ShapeKey", "find_shape_instructions", "get_shape_key"]

Array = np.ndarray[Any, Any]
#: The shape and type of each input.
ShapeKey: TypeAlias = tuple[Any, ...]

#: Bytes of the values that are kept for one combination of shapes, and the number of combinations.
MAX_BYTES, MAX_SHAPES = 32 << 20, 4
#: Minimum number of saved instructions for changing a program.
MIN_INSTRUCTIONS = 4


def get_shape_key(arguments: Iterable[Array | None]) -> ShapeKey:
    """Return the shapes and types of the inputs of a run."""
    return tuple([None if x is None else (x.shape, x.dtype) for x in arguments])


def find_shape_instructions(program: Program) -> set[int]:
    """Return the positions of the instructions that depend only on the input shapes.

    Args:
        program: A program; its bodies are not analyzed.
    """
    known_values = {slot for slot, value in enumerate(program.initial) if value is not None or slot == ABSENT}
    known_shapes = {*known_values, *program.parameters}
    positions: set[int] = set()
    for position, instruction in enumerate(program.instructions):
        if not instruction.is_pure:
            continue
        if known_values.issuperset(instruction.inputs) or _reads_known_shape(instruction, known_shapes):
            positions.add(position)
            known_values.update(instruction.outputs)
            known_shapes.update(instruction.outputs)
            continue
        for definition in instruction.plain or (instruction,):
            if definition.is_pure and _has_known_shape(definition, known_values, known_shapes):
                known_shapes.update(definition.outputs)
    return positions


def _reads_known_shape(instruction: Instruction, known_shapes: set[int]) -> bool:
    return instruction.operation.gives_shape and known_shapes.issuperset(instruction.inputs)


def _has_known_shape(instruction: Instruction, known_values: set[int], known_shapes: set[int]) -> bool:
    """Return whether the input shapes of the program determine the output shapes of an instruction."""
    if not known_shapes.issuperset(instruction.inputs):
        return False
    shaped_by = instruction.operation.shaped_by
    if shaped_by is None:
        return False
    return known_values.issuperset(instruction.inputs[i] for i in shaped_by if i < len(instruction.inputs))


class Recording(NamedTuple):
    """A program that also returns the values that depend only on shapes, after its other results.

    Attributes:
        program: The program.
        slots: Their slots.
        keep: Receives the values of the slots after the run.
    """

    program: Program
    slots: tuple[int, ...]
    keep: Callable[[Sequence[Array]], None]


def _call_and_freeze(kernel: Callable[..., Any], /, *arguments: Any, **attributes: Any) -> Any:
    """Call a kernel and make its results read-only, so that other kernels do not overwrite them."""
    result = kernel(*arguments, **attributes)
    for value in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return result


class ShapeCache:
    """The programs for certain input shapes, shared by all requests of a compiled model.

    Args:
        program: The program for inputs of all shapes.
        pays: Whether there may be such programs.

    Attributes:
        program: The program for inputs of all shapes.
        pays: Whether there may be others, which turns out when shapes are repeated.
    """

    def __init__(self, program: Program, pays: bool = True) -> None:
        self.program = program
        self.pays = pays
        self._lock = make_lock()
        self._positions: set[int] | None = None
        self._recording: Program | None = None
        self._slots: tuple[int, ...] = ()
        self._programs: OrderedDict[ShapeKey, Program] = OrderedDict()

    def find(self, key: ShapeKey) -> Program | None:
        """Return the program for inputs of some shapes, or None if their values have not been recorded."""
        return self._programs.get(key)

    def start_recording(self, key: ShapeKey) -> Recording | None:
        """Return the program that records the values for inputs of some shapes, or None if that does not pay off."""
        with self._lock:
            if self._positions is None:
                self._analyze()
        if self._recording is None:
            return None
        return Recording(self._recording, self._slots, lambda values: self._keep(key, values))

    def _analyze(self) -> None:
        program = self.program
        positions = self._positions = find_shape_instructions(program)
        if len(positions) < MIN_INSTRUCTIONS:
            self.pays = False
            return
        outputs = {slot for position in positions for slot in program.instructions[position].outputs}
        read = {*program.results}
        for position, instruction in enumerate(program.instructions):
            if position not in positions:
                for reader in (instruction, *instruction.plain):
                    read.update(reader.inputs)
        self._slots = tuple(sorted(outputs & read))
        recording = program.copy()
        recording.results = [*program.results, *self._slots]
        for position in positions:
            instruction = recording.instructions[position]
            instruction.kernel = functools.partial(_call_and_freeze, instruction.kernel)
        recording.free_after_last_use()
        self._recording = recording

    def _keep(self, key: ShapeKey, values: Sequence[Array]) -> None:
        """Make the program for some input shapes, with the values as constants."""
        assert self._positions is not None
        positions = self._positions
        if sum(value.nbytes for value in values) > MAX_BYTES:
            self.pays = False
            return
        program = self.program.copy()
        layers = {slot: i.layer for i in program.instructions for slot in i.outputs}
        for slot, value in zip(self._slots, values, strict=True):
            constant = value.copy()
            constant.flags.writeable = False
            program.initial[slot] = constant
            program.constant_layers[slot] = layers[slot]
        program.instructions = [i for position, i in enumerate(program.instructions) if position not in positions]
        program.free_after_last_use()
        if self.program.sequences is not None:
            from irrun.runtime.passes.jit_sequences import join_instructions

            join_instructions(program)
        with self._lock:
            self._programs[key] = program
            while len(self._programs) > MAX_SHAPES:
                self._programs.popitem(last=False)
