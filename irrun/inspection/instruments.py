"""Instruments, which measure the kernels of a request for profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from irrun.inspection.keys import KeyTable, find_constant_layers
from irrun.ir.graph import Layer
from irrun.limits import find_owner
from irrun.runtime.executor import Executor
from irrun.runtime.observer import Scope
from irrun.runtime.program import ABSENT, Instruction, Program

__all__ = ["Event", "FlopCounter", "InstructionRecord", "KernelTimer", "MemoryMeter", "list_layers"]

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]

#: Maximum number of kept events per run.
MAX_EVENTS = 200_000


class Event(NamedTuple):
    """One call of a kernel.

    Attributes:
        instruction: The instruction.
        start: The start, in the time of `perf_counter`.
        end: The end, in the time of `perf_counter`.
        scope: The layers whose bodies contain it, outermost first, each with its iteration.
    """

    instruction: Instruction
    start: float
    end: float
    scope: Scope


@dataclass
class InstructionRecord:
    """The measurements of an instruction.

    Attributes:
        instruction: The instruction.
        owners: The layers whose bodies contain it, outermost first.
        runs: The seconds of each run, without the instructions in its bodies.
        seconds: The seconds of the current run.
        calls: The number of calls in a run.
        bytes: The bytes that it reads and writes in a run.
        alive: The bytes of the values that are alive while it runs; the maximum over its calls.
        outputs: The types and shapes of the outputs of the last call.
        failures: The number of calls that raised an exception, after which the plain kernels ran.
    """

    instruction: Instruction
    owners: tuple[Layer, ...]
    runs: list[float] = field(default_factory=list)
    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0
    alive: int = 0
    outputs: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...] = ()
    failures: int = 0


class KernelTimer:
    """Measures the time of each instruction, without the instructions in its bodies.

    Attributes:
        events: The calls of the last run, up to `MAX_EVENTS`.
        totals: The seconds of each run.
        kernel_totals: The seconds in kernels for each run.
        dropped: The number of calls of the last run that were not kept as events.
    """

    def __init__(self) -> None:
        self._records: dict[int, InstructionRecord] = {}
        self.events: list[Event] = []
        self.totals: list[float] = []
        self.kernel_totals: list[float] = []
        self.dropped = 0
        self._wrapped: dict[int, InstructionRecord] = {}
        #: The seconds of kernels in bodies, for each running kernel.
        self._inner: list[float] = []

    def wrap(self, kernel: Kernel, instruction: Instruction, executor: Executor) -> Kernel:
        """Return a function that measures a kernel; see `Instrument`."""
        # The plain kernels that replace a failed kernel are wrapped again in each run.
        record = self._wrapped.get(id(instruction))
        if record is None:
            record = InstructionRecord(instruction, executor.owners, [0.0] * len(self.totals))
            self._wrapped[id(instruction)] = record
        return self._measure(kernel, record, executor)

    def _measure(self, kernel: Kernel, record: InstructionRecord, executor: Executor) -> Kernel:
        instruction, inner, get_scope = record.instruction, self._inner, executor.get_scope

        def run(*inputs: Any) -> Any:
            if not record.calls:
                self._records.setdefault(id(instruction), record)
            inner.append(0.0)
            start = perf_counter()
            try:
                return kernel(*inputs)
            except BaseException:
                record.failures += 1
                raise
            finally:
                end = perf_counter()
                record.seconds += end - start - inner.pop()
                record.calls += 1
                if inner:
                    inner[-1] += end - start
                if len(self.events) < MAX_EVENTS:
                    self.events.append(Event(instruction, start, end, get_scope()))
                else:
                    self.dropped += 1

        return run

    def start_run(self) -> None:
        """Prepare for a run."""
        self.events = []
        self.dropped = 0
        self._inner.clear()
        for record in self._wrapped.values():
            record.seconds, record.calls, record.failures = 0.0, 0, 0

    @property
    def records(self) -> list[InstructionRecord]:
        """The instructions that ran, in the order of the first calls, without warm-ups."""
        return list(self._records.values())

    def finish_run(self, seconds: float, is_counted: bool = True) -> None:
        """Store the times of a run.

        Args:
            seconds: The time of the whole run.
            is_counted: Whether the run is not a warm-up.
        """
        if not is_counted:
            self._records.clear()
            return
        self.totals.append(seconds)
        self.kernel_totals.append(sum(record.seconds for record in self._wrapped.values()))
        for record in self._wrapped.values():
            record.runs.append(record.seconds)


class MemoryMeter:
    """Measures the bytes that instructions read and write, and the bytes that are alive.

    Weights and the inputs of the model are not counted as alive.

    Attributes:
        records: By `id` of the instruction.
    """

    def __init__(self) -> None:
        self.records: dict[int, InstructionRecord] = {}
        self._constants: dict[int, set[int]] = {}

    def wrap(self, kernel: Kernel, instruction: Instruction, executor: Executor) -> Kernel:
        """Return a function that measures a kernel; see `Instrument`."""
        record = self.records.setdefault(id(instruction), InstructionRecord(instruction, executor.owners))
        constants = _find_constant_owners(executor.program, self._constants)
        fixed = _count_constant_bytes(executor.program, instruction)

        def run(*inputs: Any) -> Any:
            result = kernel(*inputs)
            outputs = [np.asarray(x) for x in (result if isinstance(result, (tuple, list)) else (result,))]
            outputs = outputs[: len(instruction.outputs)]
            variable = [
                x
                for x, slot in zip(inputs, instruction.inputs, strict=False)
                if x is not None and slot not in executor.program.constant_layers
            ]
            record.calls += 1
            record.bytes += fixed + _count_moved_bytes(variable, outputs)
            record.alive = max(record.alive, executor.memory.count_alive(outputs, constants))
            record.outputs = tuple((x.dtype, x.shape) for x in outputs)
            return result

        return run

    def start_run(self) -> None:
        """Discard measurements, because the first run of a kernel may take another path."""
        for record in self.records.values():
            record.calls = record.bytes = record.alive = 0


class FlopCounter:
    """Counts the operations of each layer, as the instrument and an observer of the same run.

    Layers that depend only on constants are not counted, since they are computed once.

    Args:
        table: The keys of the model.

    Attributes:
        flops: The number of operations in a run by `id` of the layer; None for layers that do not declare one.
        layers: The layers that ran, in the order of their first calls.
    """

    def __init__(self, table: KeyTable) -> None:
        self.flops: dict[int, int | None] = {}
        self.layers: list[Layer] = []
        self._instructions: dict[int, Instruction] = {}
        self._constant: set[int] = set()
        graphs = {id(g): g for _, layer in table.iterate_layers() for g in (table.get_graph(layer),)}
        self._known = {id(layer) for graph in graphs.values() for layer in graph.layers}
        for graph in graphs.values():
            constant = find_constant_layers(graph)
            self._constant.update(id(layer) for layer in graph.layers if layer.id in constant)

    def wrap(self, kernel: Kernel, instruction: Instruction, executor: Executor) -> Kernel:
        """Remember the instruction; see `Instrument`."""
        self._instructions[id(instruction.layer)] = instruction
        return kernel

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Count the operations of a layer; see `Observer`."""
        identity = id(layer)
        if identity not in self._known or identity in self._constant:
            return
        if identity not in self.flops:
            self.layers.append(layer)
        instruction = self._instructions[identity]
        count = instruction.operation.count_flops(inputs, outputs, instruction.attributes)
        previous = self.flops.get(identity, 0)
        self.flops[identity] = None if count is None or previous is None else previous + count


def list_layers(instruction: Instruction) -> list[Layer]:
    """Return the layers that an instruction computes, in order of execution: several if a pass has fused them.

    Args:
        instruction: The instruction.
    """
    layers = {id(layer): layer for plain in instruction.plain for layer in list_layers(plain)}
    layers.setdefault(id(instruction.layer), instruction.layer)
    return list(layers.values())


def _find_constant_owners(program: Program, cache: dict[int, set[int]]) -> set[int]:
    """Return the ids of the arrays that own the memory of a program's constants."""
    if id(program) not in cache:
        values = (value for value in program.initial if value is not None)
        cache[id(program)] = {id(owner) for value in values if (owner := find_owner(value)) is not None}
    return cache[id(program)]


def _count_constant_bytes(program: Program, instruction: Instruction) -> int:
    """Return the bytes of the constants that an instruction reads in each call, bound to its kernel or not."""
    slots = {slot for plain in (instruction, *instruction.plain) for slot in plain.inputs if slot != ABSENT}
    arrays = [
        value for slot in slots if slot in program.constant_layers and (value := program.initial[slot]) is not None
    ]
    for attribute in instruction.attributes.values():  # weights of a kernel, compressed or not
        parts = (attribute, *getattr(attribute, "__dict__", {}).values())
        arrays += [part for part in parts if isinstance(part, np.ndarray)]
    return sum({id(array): _get_size(array) for array in arrays}.values())


def _count_moved_bytes(inputs: Sequence[Array], outputs: Sequence[Array]) -> int:
    """Return the bytes of the inputs and outputs, except outputs that are views and the inputs that they view."""
    owners = {id(owner): x for x in inputs if (owner := find_owner(x)) is not None}
    viewed = {id(owner) for x in outputs if id(owner := find_owner(x)) in owners}
    arrays = [x for x in (*inputs, *outputs) if id(find_owner(x)) not in viewed]
    return sum({id(x): _get_size(x) for x in arrays}.values())


def _get_size(array: Array) -> int:
    """Return the bytes of an array; elements repeated by strides of 0 count once."""
    repeated = 1
    for n, stride in zip(array.shape, array.strides, strict=True):
        repeated *= n if stride == 0 and n else 1
    return array.nbytes // repeated
