"""Loops with compiled bodies: one call computes many iterations without the interpreter.

Slices are read in place. A result that a back edge carries alternates between two places, and concatenated outputs are
written to their final memory. One array contains all other values of an iteration.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.deadlines import check_time
from irrun.errors import InputError, TimeLimitError
from irrun.fast.errors import NoKernelError
from irrun.fast.jit.addresses import get_address
from irrun.fast.jit.bindings import keep_binding
from irrun.fast.jit.body_operations import add_step
from irrun.fast.jit.body_plans import BodyPlan, BodyPlanner, BodyStep, count_strides
from irrun.fast.jit.nests import StridedLayout
from irrun.fast.jit.tasks import align_size
from irrun.limits import Collection, check_allocation, collect_values
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.context import BodyRunner, OutputDescription
from irrun.ops._support.input_slices import InputSlicer, create_slicers, get_count_from_outputs
from irrun.threads import copy_unaligned

__all__ = ["CompiledLoop", "InvariantStep", "LoopBody"]

Array = np.ndarray[Any, Any]

#: Maximum number of words that describe the iterations of one call, so that they stay in the cache, and maximum number
#: of iterations per call.
MAX_WORDS, MAX_ITERATIONS = 1 << 14, 256
#: Target duration of a call in seconds, so that time limits and interrupts are checked.
MAX_SECONDS = 0.05
#: For loops with a condition: time limit for surplus iterations after the last one, in seconds.
MAX_VAIN_SECONDS = 1e-4
#: Number of iterations in the first call.
FIRST_ITERATIONS = 16
#: For loops with a condition: maximum size of the results of one call, in bytes.
MAX_RESULT_SIZE = 1 << 20
#: Maximum number of layouts for which a loop keeps its plan.
MAX_PLANS = 16


@dataclass(frozen=True)
class InvariantStep:
    """An operation that does not depend on the iteration.

    Attributes:
        kernel: Takes the values of `inputs`, returns the values of `outputs`.
        inputs: Slots of the inputs.
        outputs: Slots of the outputs.
    """

    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LoopBody:
    """A body.

    Attributes:
        constants: The values of slots that are constant.
        parameters: Slots of the Parameters.
        results: Slots of the Results.
        invariant: The operations computed once per loop.
        steps: The operations of each iteration.
    """

    constants: Mapping[int, Array]
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    invariant: tuple[InvariantStep, ...]
    steps: tuple[BodyStep, ...]

    def compute_invariants(self, arguments: Sequence[Array | None]) -> dict[int, Array]:
        """Return the values that do not depend on the iteration, by their slots.

        Raises:
            NoKernelError: An operation fails.
        """
        values: dict[int, Any] = dict(self.constants)
        values.update(zip(self.parameters, arguments, strict=True))
        computed: dict[int, Array] = {}
        for step in self.invariant:
            try:
                results = step.kernel(*[values[slot] for slot in step.inputs])
            except Exception as error:  # the plain loop reports it
                raise NoKernelError(str(error)) from error
            results = results if isinstance(results, (tuple, list)) else (results,)
            computed.update((slot, np.asarray(x)) for slot, x in zip(step.outputs, results, strict=False))
            values.update(computed)
        read = {slot for own in self.steps for slot in own.inputs} | set(self.results)
        return {slot: copy_unaligned(np.asarray(x, order="C")) for slot, x in computed.items() if slot in read}

    def make_plan(
        self, parameters: Mapping[int, StridedLayout], invariants: Mapping[int, Array], varying: Sequence[int],
        results: Sequence[int],
    ) -> BodyPlan:  # fmt: skip
        """Return the plan for parameters of certain layouts.

        Args:
            parameters: The layouts of Parameters, by their slots.
            invariants: The values computed once per loop.
            varying: Slots of the Parameters that differ between iterations.
            results: Slots of the required results.

        Raises:
            Exception: No plan exists for these inputs.
        """
        layouts = dict(parameters)
        for slot, value in invariants.items():
            layouts[slot] = StridedLayout(value.shape, count_strides(value.shape, value.dtype), value.dtype)
        planner = BodyPlanner(layouts, self.constants)
        for step in self.steps:
            add_step(planner, step)
        return planner.finish(results, varying)


@dataclass(eq=False)
class CompiledLoop:
    """The kernel of a loop.

    Attributes:
        plain: Runs the loop if it is not compiled.
        body: The body.
        has_trip_count: Whether the first two inputs are the trip count and the execution condition of Loop.
    """

    plain: Callable[..., tuple[Array, ...]]
    body: LoopBody
    has_trip_count: bool
    _bound: dict[Any, _BoundLoop | str] = field(default_factory=dict)

    def __call__(self, *inputs: Array, body: BodyRunner) -> tuple[Array, ...]:
        """Compute all iterations, or run the plain loop if it is measured or not compiled for these inputs."""
        if not body.is_measured:
            with contextlib.suppress(NoKernelError):
                return self._run([copy_unaligned(x) for x in inputs], body)
        return self.plain(*inputs, body=body)

    def _run(self, inputs: Sequence[Array], body: BodyRunner) -> tuple[Array, ...]:
        """Compute all iterations.

        Raises:
            NoKernelError: The loop is not compiled for these inputs, or its values exceed the memory.
        """
        head = [x.tobytes() if x.size == 1 else None for x in inputs[:2]] if self.has_trip_count else []
        key = (*head, *[(x.shape, x.strides, x.dtype) for x in inputs])
        bound, invariants = self._find_bound(key, inputs, body)
        found = describe_values(invariants)
        if bound.invariants != found:  # their shapes depend on values
            bound, _ = self._find_bound((*key, *found), inputs, body, invariants)
        try:
            with collect_values() as values:
                check_allocation([bound.size], np.dtype(np.uint8))
                values.add(bound.size)
                return bound.run(inputs, invariants, values)
        except InputError as error:
            raise NoKernelError(str(error)) from error

    def _find_bound(
        self, key: Hashable, inputs: Sequence[Array], body: BodyRunner, invariants: dict[int, Array] | None = None
    ) -> tuple[_BoundLoop, dict[int, Array]]:
        """Return the loop for inputs with a key, and the values that do not depend on the iteration.

        Raises:
            NoKernelError: The loop is not compiled for these inputs.
        """
        bound = self._bound.get(key)
        if bound is None:
            try:
                bound = _BoundLoop(self, inputs, body)
                invariants = bound.compute_invariants(inputs) if invariants is None else invariants
                bound.make_plan(invariants)
            except Exception as error:  # the plain loop reports the error
                bound = str(error)
            keep_binding(self._bound, key, bound, MAX_PLANS)
        if isinstance(bound, str):
            raise NoKernelError(bound)
        return bound, bound.compute_invariants(inputs) if invariants is None else invariants


def describe_values(values: Mapping[int, Array]) -> tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]:
    """Return the slots, shapes and types of values, in their order."""
    return tuple((slot, value.shape, value.dtype) for slot, value in values.items())


class _BoundLoop:
    """A loop for inputs of certain layouts, and a number of iterations.

    Args:
        loop: The loop.
        inputs: Its inputs.
        body: The port map.

    Attributes:
        size: Bytes of all values.
        invariants: The slots, shapes and types of the values that do not depend on the iteration.

    Raises:
        NoKernelError: The loop is not compiled for these inputs.
        InputError: An entry does not match the shape of its input.
    """

    def __init__(self, loop: CompiledLoop, inputs: Sequence[Array], body: BodyRunner) -> None:
        self._outputs, self._output_count = body.outputs, body.output_count
        self._own = own = loop.body
        slicers = create_slicers(inputs, body)
        count = _count_iterations(inputs if loop.has_trip_count else (), body, slicers)
        self._condition, self._count = _read_condition(body, count)
        edges = {edge.parameter: edge.result for edge in body.back_edges}
        collected = {o.result for o in body.outputs if o.axis is not None and o.port >= 0}
        if self._count is None and self._condition is None:
            raise NoKernelError("expected a known number of iterations")
        #: By the slots of Parameters: their inputs and offsets in bytes; the bytes between the values of
        #: neighboring iterations; and layouts.
        self._sources: dict[int, tuple[int, int]] = {}
        self._steps: dict[int, int] = {}
        self._layouts: dict[int, StridedLayout] = {}
        #: The slot and the type of the number of the iteration, and the input that must be 0 or -1.
        self._counter: tuple[int, np.dtype[Any], int] | None = None
        for entry in body.inputs:
            if entry.axis is None and entry.port >= 0:
                slot, value = own.parameters[entry.parameter], inputs[entry.port]
                self._sources[slot] = entry.port, 0
                self._layouts[slot] = StridedLayout(value.shape, count_strides(value.shape, value.dtype), value.dtype)
        for slicer in slicers:
            slot, slices = own.parameters[slicer.entry.parameter], slicer.to_array(count_known(self._count))
            if slot in self._sources or not slices.size:
                raise NoKernelError("expected slices with elements")
            port = slicer.entry.port
            self._sources[slot] = port, get_address(slices) - get_address(inputs[port])
            self._steps[slot] = slices.strides[0]
            self._layouts[slot] = StridedLayout(slices.shape[1:], slices.strides[1:], slices.dtype)
        for entry in body.inputs:
            if entry.purpose == "current_iteration":
                self._add_counter(own.parameters[entry.parameter], entry.parameter, edges, body)
        states = [own.parameters[number] for number in edges]
        if not self._layouts.keys() >= {*own.parameters} or not self._sources.keys() >= {*states}:
            raise NoKernelError("a Parameter has no value")
        if not self._steps.keys().isdisjoint(states):
            raise NoKernelError("a Parameter has several values")
        self._edges = {own.parameters[p]: own.results[r] for p, r in edges.items()}
        needed = {o.result for o in body.outputs if o.port >= 0} | set(edges.values())
        if self._condition is not None:
            needed.add(self._condition)
        self._results = list(dict.fromkeys(own.results[r] for r in sorted(needed)))
        #: Results that are written to their final memory. Loops with a condition have an unknown number of results,
        #: which are copied there.
        self._collected = {own.results[r] for r in collected if self._condition is None}
        self._copied = {own.results[r] for r in collected} - self._collected

    def _add_counter(self, slot: int, parameter: int, edges: Mapping[int, int], body: BodyRunner) -> None:
        """Add the iteration number, or find the input from which the body itself counts iterations."""
        port = self._sources[slot][0] if slot in self._sources else -1
        if port >= 0 and parameter in edges:
            return
        if port >= 0:
            shape, _, dtype = self._layouts[slot]
        else:
            shape = () if body.parameter_shapes[parameter] == () else (1,)
            dtype = np.dtype(body.parameter_dtypes[parameter] or np.int64)
        if parameter in edges or self._counter is not None or math.prod(shape) != 1:
            raise NoKernelError("expected one number of the iteration")
        self._sources.pop(slot, None)
        self._counter = slot, dtype, port
        self._layouts[slot] = StridedLayout(shape, count_strides(shape, dtype), dtype)

    def compute_invariants(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """Return the values that do not depend on the iteration, by their slots.

        Raises:
            NoKernelError: An operation fails.
        """
        if not self._own.invariant:
            return {}
        whole = self._sources.keys() - self._steps.keys() - self._edges.keys()
        arguments = [inputs[self._sources[slot][0]] if slot in whole else None for slot in self._own.parameters]
        return self._own.compute_invariants(arguments)

    def make_plan(self, invariants: Mapping[int, Array]) -> None:
        """Make the plan, and prepare the addresses of its arrays.

        Raises:
            Exception: No plan exists for these inputs.
        """
        self.invariants = describe_values(invariants)
        counters = [self._counter[0]] if self._counter else []
        varying = [*self._steps, *self._edges, *counters]
        self._plan = plan = self._own.make_plan(self._layouts, invariants, varying, self._results)
        if any(plan.results[r][::2] != self._layouts[p][::2] for p, r in self._edges.items()):
            raise NoKernelError("the shapes of a state differ between iterations")
        numbers = {slot: i for i, slot in enumerate((*self._layouts, *invariants), 1)}
        result_numbers = {slot: i for i, slot in enumerate(self._results, 1 + len(numbers))}
        self._array_count = 1 + len(numbers) + len(result_numbers)
        self._fixed = [(numbers[slot], slot) for slot in numbers if numbers[slot] not in plan.varying]
        #: By the slots of results: the distance of two places in bytes, and the number of places.
        self._places: dict[int, tuple[int, int]] = {}
        for slot in self._results:
            layout = plan.results[slot]
            size = layout.dtype.itemsize * math.prod(layout.shape)
            self._places[slot] = (size, count_known(self._count)) if slot in self._collected else (align_size(size), 2)
        if self._condition is not None:
            self._add_places(self._condition)
        self.size = plan.arena_size + sum(size * places for size, places in self._places.values())
        for entry in self._outputs:  # values that are concatenated along other axes are copied
            slot = self._own.results[entry.result]
            if slot in self._collected and entry.port >= 0 and (entry.axis or entry.stride <= 0):
                self.size += math.prod(self._places[slot])
        # The address of a varying array is its base + (iteration + shift & mask) * size.
        masks = {slot: -1 if slot in self._collected else self._places[slot][1] - 1 for slot in self._results}
        rows = [(numbers[slot], slot, 0, -1, step) for slot, step in self._steps.items()]
        rows += [(numbers[slot], slot, 0, -1, self._layouts[slot].dtype.itemsize) for slot in counters]
        rows += [(result_numbers[slot], slot, 0, masks[slot], size) for slot, (size, _) in self._places.items()]
        first_edge = len(rows)
        rows += [(numbers[p], r, -1, masks[r], self._places[r][0]) for p, r in self._edges.items()]
        self._varying = tuple(number for number, *_ in rows)
        self._bases = [slot for _, slot, *_ in rows]
        self._is_result = [number >= 1 + len(numbers) or i >= first_edge for i, (number, *_) in enumerate(rows)]
        self._edge_columns = slice(first_edge, len(rows))
        self._formula = np.array([row[2:] for row in rows], np.int64).T
        #: The numbers of the iterations of the first call of a run, and the offsets of the arrays that vary.
        self._first_offsets: tuple[Array, Array] | None = None

    def _add_places(self, condition: int) -> None:
        """Add places for the results of several iterations, all of which run before the condition is checked.

        Args:
            condition: The number of the execution condition's Result.

        Raises:
            NoKernelError: The execution condition is not a boolean.
        """
        layout = self._plan.results[self._own.results[condition]]
        if layout.dtype != np.bool_ or math.prod(layout.shape) != 1:
            raise NoKernelError("the execution condition is not a boolean")
        total = sum(size for size, _ in self._places.values())
        places = 2
        while 2 * places * total <= MAX_RESULT_SIZE and places < MAX_ITERATIONS:
            places *= 2
        for slot, (size, _) in self._places.items():
            self._places[slot] = size, places

    def run(
        self, inputs: Sequence[Array], invariants: Mapping[int, Array], collection: Collection
    ) -> tuple[Array, ...]:
        """Compute the iterations, and return the outputs.

        Args:
            inputs: The inputs of the loop.
            invariants: The values that do not depend on the iteration.
            collection: Counts the values that are copied.

        Raises:
            NoKernelError: Iterations are not counted from 0.
            InputError: The values so far exceed the memory limit.
        """
        if self._counter is not None and self._counter[2] >= 0 and inputs[self._counter[2]].any():
            raise NoKernelError("iterations are not counted from 0")
        held = [x if slot in self._steps else np.asarray(x, order="C") for slot, x in self._list_sources(inputs)]
        known = {
            slot: get_address(x) + offset
            for (slot, (_, offset)), x in zip(self._sources.items(), held, strict=True)
        }  # fmt: skip
        known.update((slot, get_address(x)) for slot, x in invariants.items())
        memory: dict[int, Array] = {}
        for slot, (size, places) in self._places.items():
            if slot in self._collected:
                memory[slot] = np.empty((places, *self._plan.results[slot].shape), self._plan.results[slot].dtype)
            else:
                memory[slot] = np.empty(size * places, np.uint8)
        parts: dict[int, list[Array]] = {slot: [] for slot in self._copied}
        count = self._iterate(known, memory, parts, collection)
        outputs: list[Array] = [np.empty(0)] * self._output_count
        for entry in self._outputs:
            if entry.port >= 0:
                slot = self._own.results[entry.result]
                if entry.axis is None:
                    outputs[entry.port] = np.array(self._get_value(memory, slot, count - 1))
                elif slot in parts:
                    collection.add(sum(part.nbytes for part in parts[slot]))
                    outputs[entry.port] = _join(entry, np.concatenate(parts[slot]))
                else:
                    outputs[entry.port] = _join(entry, memory[slot])
        return tuple(outputs)

    def _list_sources(self, inputs: Sequence[Array]) -> Iterator[tuple[int, Array]]:
        """Yield the slots of Parameters with their inputs."""
        return ((slot, inputs[port]) for slot, (port, _) in self._sources.items())

    def _iterate(
        self,
        known: Mapping[int, int],
        memory: Mapping[int, Array],
        parts: Mapping[int, list[Array]],
        collection: Collection,
    ) -> int:
        """Compute the iterations, and return their number.

        Args:
            known: The addresses of inputs and of values that do not depend on the iteration, by their slots.
            memory: The memory of the results by their slots.
            parts: The copied results of iterations, by their slots.
            collection: Counts the copied results.
        """
        schedule, count = self._plan.get_schedule(self._varying), self._count
        rows = max(1, min(MAX_WORDS // schedule.size, MAX_ITERATIONS, count or MAX_ITERATIONS))
        condition = None if self._condition is None else self._own.results[self._condition]
        if condition is not None:
            rows = min(rows, max(1, min(places - 1 for _, places in self._places.values())))
        arena = np.empty(self._plan.arena_size + 64, np.uint8)
        first = -get_address(arena) % 64
        arena[first : first + 8] = 0  # the status
        addresses = [get_address(arena) + first] + [0] * (self._array_count - 1)
        for number, slot in self._fixed:
            addresses[number] = known[slot]
        run = schedule.start(addresses, rows)
        counter = None if self._counter is None else np.empty(rows, self._counter[1])
        pairs = zip(self._bases, self._is_result, strict=True)
        bases = np.array([get_address(memory[s]) if is_result else known.get(s, 0) for s, is_result in pairs], np.int64)
        done, step = 0, min(rows, FIRST_ITERATIONS if condition is None else 1)
        while done != count:
            _check_time(done)
            before = time.perf_counter()
            n = step if count is None else min(step, count - done)
            numbers, offsets = self._compute_first_offsets(n) if not done else self._compute_offsets(done, n)
            if counter is not None:
                counter[:n] = numbers
                bases[len(self._steps)] = get_address(counter) - done * counter.itemsize
            varying = offsets + bases
            if not done:
                varying[0, self._edge_columns] = [known[slot] for slot in self._edges]
            run.run(n, varying)
            if self._plan.has_status and arena[first]:
                raise NoKernelError("an index is out of range")
            done += n
            elapsed = time.perf_counter() - before
            step = 4 * n
            if condition is not None:  # surplus iterations after the last one are discarded
                step = max(done // 4, int(n * MAX_VAIN_SECONDS / max(elapsed, 1e-9)))
                ends = np.flatnonzero(self._read(memory, condition, numbers) == 0)
                last = int(ends[0]) + 1 if len(ends) else n
                for slot, own in parts.items():
                    own.append(self._read(memory, slot, numbers[:last]))
                    collection.add(own[-1].nbytes)
                if len(ends):
                    return done - n + last
            step = max(1, min(rows, step, int(n * MAX_SECONDS / max(elapsed, 1e-9))))
        return done

    def _compute_first_offsets(self, count: int) -> tuple[Array, Array]:
        """Return the numbers of the first iterations, and the offsets of the arrays that vary; kept between runs."""
        known = self._first_offsets
        if known is None or len(known[0]) != count:
            known = self._first_offsets = self._compute_offsets(0, count)
        return known

    def _compute_offsets(self, first: int, count: int) -> tuple[Array, Array]:
        """Return the numbers of iterations, and the offsets of the arrays that vary."""
        shifts, masks, sizes = self._formula
        numbers = np.arange(first, first + count, dtype=np.int64)
        return numbers, (numbers[:, np.newaxis] + shifts & masks) * sizes

    def _read(self, memory: Mapping[int, Array], slot: int, numbers: Array) -> Array:
        """Return copies of the values of a result in some of the last iterations."""
        size, places = self._places[slot]
        layout = self._plan.results[slot]
        used = layout.dtype.itemsize * math.prod(layout.shape)
        chosen = memory[slot].reshape(places, size)[numbers % places, :used]
        return np.ascontiguousarray(chosen).view(layout.dtype).reshape(len(numbers), *layout.shape)

    def _get_value(self, memory: Mapping[int, Array], slot: int, iteration: int) -> Array:
        """Return the value of a result in one of the last iterations."""
        size, places = self._places[slot]
        layout = self._plan.results[slot]
        value: Array = np.ndarray(layout.shape, layout.dtype, memory[slot], iteration % places * size)
        return value


def _check_time(iteration: int) -> None:
    """Check that the current run may continue.

    Raises:
        TimeLimitError: The run has exceeded its time limit.
    """
    try:
        check_time()
    except TimeLimitError as error:
        raise TimeLimitError(f"{error} in iteration {iteration}") from None


def count_known(count: int | None) -> int:
    """Return the known number of iterations."""
    if count is None:
        raise NoKernelError("expected a known number of iterations")
    return count


def _count_iterations(head: Sequence[Array], body: BodyRunner, slicers: Sequence[InputSlicer]) -> int | None:
    """Return the maximum number of iterations, or None if there is no limit.

    Args:
        head: The inputs of Loop; the first two are the trip count and the execution condition.
        body: The port map.
        slicers: The sliced inputs.

    Raises:
        NoKernelError: The loop has no iterations, or slices do not match their number.
    """
    counts = {slicer.count for slicer in slicers}
    if head:
        trip_count, condition = head[:2]
        if trip_count.size != 1 or condition.size != 1 or not condition.item():
            raise NoKernelError("expected at least one iteration")
        maximum = int(trip_count.item())
        count = None if maximum < 0 else maximum
        if any(n < (math.inf if count is None else count) for n in counts):
            raise NoKernelError("expected slices for all iterations")
    else:
        if len(counts) > 1:
            raise NoKernelError("expected the same number of slices")
        count = counts.pop() if counts else get_count_from_outputs(body)
    if count == 0:
        raise NoKernelError("expected at least one iteration")
    return count


def _read_condition(body: BodyRunner, count: int | None) -> tuple[int | None, int | None]:
    """Return the number of the execution condition's Result if it varies, and the maximum number of iterations."""
    condition = next((o.result for o in body.outputs if o.purpose == "execution_condition"), None)
    if condition is None or condition not in body.constant_results:
        return condition, count
    value = body.constant_results[condition]
    if value.size != 1:
        raise NoKernelError("the execution condition is not a scalar")
    return None, count if value.item() else 1


def _join(entry: OutputDescription, values: Array) -> Array:
    """Return the concatenation of the values of all iterations."""
    if values.ndim == 1:
        values = values[:, np.newaxis]
    if entry.stride <= 0:
        values = values[::-1]
    axis = normalize_axis(entry.axis or 0, values.ndim - 1)
    shape = values.shape[1:]
    if not axis:
        joined: Array = values.reshape(len(values) * shape[0], *shape[1:])
        return joined
    merged = (*shape[:axis], len(values) * shape[axis], *shape[axis + 1 :])
    return np.asarray(np.moveaxis(values, 0, axis).reshape(merged))
