"""The loop that runs a program, with or without observers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter, length_hint
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from irrun.activity import Step
from irrun.deadlines import Deadline
from irrun.errors import ExecutionError, InputError, TimeLimitError
from irrun.fast.errors import NoPlanError
from irrun.ir.graph import Layer
from irrun.limits import MemoryBudget, MemoryLimitError
from irrun.ops._support.context import BodyRunner, State, Variables
from irrun.runtime.kernel_errors import raise_located
from irrun.runtime.memory import Guard, create_guard, estimate_allocations
from irrun.runtime.observer import Observer, Scope
from irrun.runtime.program import ABSENT, BodyProgram, Instruction, Program

__all__ = ["Executor", "Fallback", "Instrument", "RequestState"]

Array = np.ndarray[Any, Any]

#: Loops with at least this many iterations are shown as endless.
ENDLESS = 1 << 31


class Instrument(Protocol):
    """Measures the instructions that a request runs: the optimized program, or with observers the plain one.

    Called with each kernel when an executor is created; returns the function that replaces it. Requests without an
    instrument are not affected.
    """

    def wrap(self, kernel: Callable[..., Any], instruction: Instruction, executor: Executor) -> Callable[..., Any]:
        """Return a function that calls a kernel and returns its result.

        Args:
            kernel: The kernel. Its arguments are the values of the instruction's inputs.
            instruction: The instruction.
            executor: The executor that runs it.
        """


class Fallback(NamedTuple):
    """An instruction whose specialized kernel failed, so that the plain kernels ran.

    Attributes:
        layers: The names of its layers.
        failures: The number of failures.
        reason: The first error.
    """

    layers: tuple[str, ...]
    failures: int
    reason: str


class RequestState:
    """The state that the executors of one request share.

    Attributes:
        instrument: The instrument that measures the kernels, or None.
        variables: The variables of the request.
        layer_states: The data that layers keep between runs, by id of the layer and parameter of the kernel.
        observers: The observers of the current run.
        observer_error: The exception that an observer raised. It reaches the caller unchanged.
        memory: The memory limit for the values of a run.
        deadline: The time at which the current run must end; None for no limit.
        running: The executors that are running, each in a body of the one before.
        fallbacks: Instructions with failed specialized kernels, by their layers.
    """

    def __init__(self, memory: int | None = None, instrument: Instrument | None = None) -> None:
        self.memory = MemoryBudget(memory)
        self.instrument = instrument
        self.deadline: Deadline | None = None
        self.variables = Variables()
        self.layer_states: dict[tuple[int, str], State] = {}
        self.observers: list[Observer] = []
        self.observer_error: Exception | None = None
        self.running: list[Executor] = []
        self.fallbacks: dict[tuple[str, ...], Fallback] = {}

    def count_fallback(self, instruction: Instruction, error: Exception) -> None:
        """Record that a specialized kernel failed and the plain kernels ran."""
        known = self.fallbacks.get(instruction.layers)
        reason = known.reason if known else str(error) or type(error).__name__
        self.fallbacks[instruction.layers] = Fallback(instruction.layers, known.failures + 1 if known else 1, reason)

    def describe_step(self) -> Step | None:
        """Return the layer that the current run has reached, or None before the first one. Any thread may call it."""
        running = self.running.copy()
        places = [(executor, instruction) for executor in running if (instruction := executor.find_instruction())]
        if not places or places[0][0] is not running[0]:
            return None
        innermost, instruction = places[-1]
        done, total = running[0].count_layers()
        layer = instruction.find_first_layer()
        return Step(layer.type, layer.name, *innermost.describe_iteration(), done, total)

    def reset(self) -> None:
        """Discard all data that the request keeps between runs."""
        self.variables.values.clear()
        self.variables.buffers.clear()
        self.variables.appended.clear()
        for state in self.layer_states.values():
            state.clear()


#: The kernel of an instruction, a function that gets its inputs from the values, its outputs and frees, the instruction
#: itself, and the function that gets the values before it, or None.
_Step = tuple[
    Callable[..., Any],
    Callable[[list[Any]], Sequence[Any]],
    tuple[int, ...],
    tuple[int, ...],
    Instruction,
    Guard | None,
]


class Executor:
    """Runs one program for one request.

    Args:
        program: The program. Requests share it, and it never changes.
        state: The state of the request.
        parent: For a body, the executor of the program that contains its layer.
        owner: For a body, its layer.
    """

    def __init__(
        self, program: Program, state: RequestState, parent: Executor | None = None, owner: Layer | None = None
    ) -> None:
        self._program = program
        self._state = state
        self._parent = parent
        self._owner = owner
        self._iteration = 0
        self._trip_count: int | None = None
        is_measured = state.instrument is not None
        self._prepare(program.instructions if is_measured or program.sequences is None else program.sequences)
        #: Joined instructions whose members run one by one from the next run on.
        self._separated: list[Instruction] = []
        self._checks_memory = False
        self._computed_slots = [slot for slot, value in enumerate(program.initial) if value is None and slot != ABSENT]
        self._invariant_values: list[Any] = program.initial
        self._parameters = tuple(program.parameters)
        self._get_results = _make_getter(program.results)

    def _prepare(self, instructions: Sequence[Instruction]) -> None:
        """Make the steps that run instructions."""
        program, memory = self._program, self._state.memory
        self._instructions = instructions
        self._steps: list[_Step] = [
            (self._bind_kernel(i), _make_getter(i.inputs), i.outputs, i.frees, i, create_guard(program, i, memory))
            for i in instructions
        ]
        self._counted_size = memory.get_counted_size(len(self._steps))
        self._invariant_steps = self._steps[: program.invariant_count]
        self._variant_steps = self._steps[program.invariant_count :]
        #: The positions of the first and after the last of the current steps, and their iterator: displays in other
        #: threads read the number of remaining steps from it.
        self._place: tuple[int, int, Iterator[_Step]] = 0, len(self._steps), iter(self._steps)
        self._layer_counts: list[int] = []

    def _separate(self) -> None:
        """Run the members of joined instructions one by one from now on."""
        self._prepare(
            [
                part
                for instruction in self._instructions
                for part in (instruction.plain if instruction in self._separated else (instruction,))
            ]
        )
        self._separated = []

    def run(self, arguments: Sequence[Array | None], iteration: int = 0) -> list[Array]:
        """Run the program.

        Args:
            arguments: One value per Parameter.
            iteration: For a body, the number of the iteration. Instructions that do not depend on it run in
                iteration 0.

        Returns:
            The value of every Result, in order.

        Raises:
            IrrunError: A kernel failed. The error names the layer.
        """
        self._iteration = iteration
        if self._separated:
            self._separate()
        values: list[Any] = (self._invariant_values if iteration else self._program.initial).copy()
        for slot, argument in zip(self._parameters, arguments, strict=True):
            values[slot] = argument
        if self._parent is None:
            large = self._state.memory.large
            self._checks_memory = any(value is not None and value.nbytes > large for value in arguments)
        if self._state.deadline is not None:
            self._state.deadline.check()
        sources = self._state.memory.sources
        sources.append((values, self._computed_slots))
        running = self._state.running
        running.append(self)
        try:
            if self._state.observers:
                self._run_observed(values)
            else:
                if not iteration and self._invariant_steps:
                    self._run_steps(self._invariant_steps, values)
                    self._invariant_values = values.copy()
                self._run_steps(self._variant_steps, values)
        finally:
            running.pop()
            sources.pop()
            self._state.memory.scratch = 0
        return list(self._get_results(values))

    @property
    def program(self) -> Program:
        """The program that it runs."""
        return self._program

    @property
    def memory(self) -> MemoryBudget:
        """The memory of the request, which counts the live values of all its programs."""
        return self._state.memory

    @property
    def owners(self) -> tuple[Layer, ...]:
        """The layers whose bodies contain the program, outermost first."""
        return () if self._parent is None or self._owner is None else (*self._parent.owners, self._owner)

    def get_scope(self) -> Scope:
        """Return the layers whose bodies contain this program, outermost first, each with its iteration."""
        if self._parent is None or self._owner is None:
            return ()
        return (*self._parent.get_scope(), (self._owner, self._iteration))

    def find_instruction(self) -> Instruction | None:
        """Return the instruction that is running, or None if none is. Any thread may call it."""
        start, end, remaining = self._place
        position = end - length_hint(remaining)
        return self._instructions[position - 1] if position > start else None

    def count_layers(self) -> tuple[int, int]:
        """Return the numbers of layers that were computed in the current run, and of all. Any thread may call it."""
        if not self._layer_counts:
            self._layer_counts = [0, *itertools.accumulate(i.count_layers() for i in self._instructions)]
        start, end, remaining = self._place
        position = max(end - length_hint(remaining) - 1, start)
        return self._layer_counts[position], self._layer_counts[-1]

    def describe_iteration(self) -> tuple[str, str]:
        """Return the progress of the innermost loop around the program ("4 of 10 iterations of"), and its name."""
        if self._parent is None or self._owner is None:
            return "", ""
        if len(self._owner.bodies) > 1:  # the branches of an If do not iterate
            return self._parent.describe_iteration()
        is_known = self._trip_count is not None and self._trip_count < ENDLESS
        total = f" of {self._trip_count}" if is_known else ""
        return f"{self._iteration + 1}{total} iterations of", self._owner.name

    def expect_iterations(self, count: int | None) -> None:
        """Keep the number of iterations that follow, for a display.

        Args:
            count: The number; None if it is not known.
        """
        self._trip_count = count

    def _run_steps(self, steps: list[_Step], values: list[Any]) -> None:
        ndarray = np.ndarray
        memory = self._state.memory
        large = memory.large
        counted_size = self._counted_size
        start = self._program.invariant_count if steps is self._variant_steps else 0
        remaining = unchecked = iter(steps)
        self._place = start, start + len(steps), unchecked
        is_large = False
        while True:
            if remaining is unchecked and (self._checks_memory or self._state.deadline is not None):
                remaining = self._add_checks(unchecked)
            try:
                for kernel, get_inputs, outputs, frees, instruction, guard in remaining:  # noqa: B007
                    if guard is not None:
                        guard(values)
                    result = kernel(*get_inputs(values))
                    if type(result) is ndarray and len(outputs) == 1:
                        values[outputs[0]] = result
                        size = result.nbytes
                        if size > counted_size or not size:
                            memory.add(result)
                            is_large |= size > large
                    else:
                        is_large |= self._store_and_count(values, outputs, result)
                    for slot in frees:
                        values[slot] = None
                    if is_large and not self._checks_memory:
                        self._checks_memory = True
                        break
                else:
                    return
            except Exception as error:
                if not instruction.plain or isinstance(error, (MemoryLimitError, TimeLimitError)):
                    self._raise_located(error, instruction, values)
                if not isinstance(error, NoPlanError):
                    self._state.count_fallback(instruction, error)
                elif error.is_lasting:
                    self._separated.append(instruction)
                self._run_plain(instruction, values)

    def _add_checks(self, steps: Iterator[_Step]) -> Iterator[_Step]:
        """Yield the steps with guards that also check the time limit and, after a large value, every allocation."""
        deadline = self._state.deadline
        for kernel, get_inputs, outputs, frees, instruction, guard in steps:
            check = functools.partial(self._check_memory, instruction) if self._checks_memory else guard
            if deadline is not None:
                check = functools.partial(_check_time_first, deadline, check)
            yield kernel, get_inputs, outputs, frees, instruction, check

    def _check_memory(self, instruction: Instruction, values: list[Any]) -> None:
        """Check that the allocations of an instruction do not exceed the memory limit.

        Raises:
            MemoryLimitError: They exceed it.
        """
        memory = self._state.memory
        for size, scratch in estimate_allocations(instruction, values.__getitem__):
            if size + scratch > memory.large:
                memory.check(size + scratch)
            memory.scratch = 0 if size else scratch

    def _store_and_count(self, values: list[Any], outputs: tuple[int, ...], result: Any) -> bool:
        """Store the outputs of a step, count the large ones, and return whether every later step must be checked."""
        _store_outputs(values, outputs, result)
        is_large = False
        for slot in outputs:
            size = values[slot].nbytes
            if size > self._counted_size or not size:
                self._state.memory.add(values[slot])
                is_large |= size > self._state.memory.large
        return is_large

    def _run_plain(self, instruction: Instruction, values: list[Any]) -> None:
        """Run the plain kernels of an instruction after its specialized kernel failed."""
        for plain in instruction.plain:
            try:
                self._check_memory(plain, values)
                result = self._bind_kernel(plain)(*[values[slot] for slot in plain.inputs])
            except Exception as error:
                if not plain.plain or isinstance(error, (MemoryLimitError, TimeLimitError)):
                    self._raise_located(error, plain, values)
                self._state.count_fallback(plain, error)
                self._run_plain(plain, values)
                continue
            self._checks_memory |= self._store_and_count(values, plain.outputs, result)
        inner = {slot for plain in instruction.plain for slot in plain.outputs}.difference(instruction.outputs)
        for slot in (*instruction.frees, *inner):
            values[slot] = None

    def _run_observed(self, values: list[Any]) -> None:
        scope = self.get_scope()
        remaining = iter(self._steps)
        self._place = 0, len(self._steps), remaining
        for kernel, get_inputs, outputs, frees, instruction, _ in remaining:
            arguments = list(get_inputs(values))
            start = perf_counter()
            try:
                if self._state.deadline is not None:
                    self._state.deadline.check()
                self._check_memory(instruction, values)
                result = kernel(*arguments)
                seconds = perf_counter() - start
                self._store_and_count(values, outputs, result)
            except Exception as error:
                if error is self._state.observer_error:  # raised in a body
                    raise
                self._raise_located(error, instruction, values)
            results = [values[slot] for slot in outputs]
            try:
                for observer in self._state.observers if instruction.is_observed else ():
                    replacement = observer(instruction.layer, arguments, results, seconds, scope)
                    if replacement is not None:
                        results = _check_replacement(replacement, outputs)
                        _store_outputs(values, outputs, results)
            except Exception as error:
                self._state.observer_error = error
                raise
            for slot in frees:
                values[slot] = None

    def _raise_located(self, error: Exception, instruction: Instruction, values: list[Any]) -> NoReturn:
        raise_located(error, instruction, [values[slot] for slot in instruction.inputs], self.get_scope())

    def _bind_kernel(self, instruction: Instruction) -> Callable[..., Any]:
        """Return the kernel with its attributes and the arguments that the request provides."""
        keywords: dict[str, Any] = dict(instruction.attributes)
        for name, kind in instruction.provided.items():
            if kind is Variables:
                keywords[name] = self._state.variables
            else:
                keywords[name] = self._state.layer_states.setdefault((id(instruction.layer), name), State())
        keywords.update(instruction.map_bodies(lambda body: self._make_runner(body, instruction.layer)))
        kernel = functools.partial(instruction.kernel, **keywords) if keywords else instruction.kernel
        instrument = self._state.instrument
        return kernel if instrument is None else instrument.wrap(kernel, instruction, self)

    def _make_runner(self, body: BodyProgram, owner: Layer) -> BodyRunner:
        executor = Executor(body.program, self._state, self, owner)
        is_measured = self._state.instrument is not None
        return body.make_runner(owner, executor.run, executor.expect_iterations, is_measured)


def _make_getter(slots: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Return a function that returns the values of slots; it is faster than a comprehension."""
    if len(slots) == 1:
        (slot,) = slots
        return itemgetter(slice(slot, slot + 1))
    return itemgetter(*slots) if slots else itemgetter(slice(0))


def _check_time_first(deadline: Deadline, guard: Guard | None, values: list[Any]) -> None:
    deadline.check()
    if guard is not None:
        guard(values)


def _store_outputs(values: list[Any], outputs: tuple[int, ...], result: Any) -> None:
    if not isinstance(result, (tuple, list)):
        result = (result,)
    if len(result) < len(outputs):
        raise ExecutionError(f"the kernel returned {len(result)} outputs, the layer has {len(outputs)}")
    for slot, value in zip(outputs, result, strict=False):
        # The only element of a string tensor is a str, which NumPy would convert to a fixed-width type.
        values[slot] = np.array(value, object) if isinstance(value, str) else np.asarray(value)


def _check_replacement(replacement: Sequence[Array], outputs: tuple[int, ...]) -> list[Array]:
    """Return the outputs that an observer returned.

    Raises:
        InputError: Their number differs from the number of outputs.
    """
    if isinstance(replacement, np.ndarray) or len(replacement) != len(outputs):
        count = "an array" if isinstance(replacement, np.ndarray) else f"{len(replacement)} arrays"
        raise InputError(f"an observer returned {count}, expected None or a sequence of {len(outputs)} arrays")
    return [np.asarray(value) for value in replacement]
