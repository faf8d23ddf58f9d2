"""Loops: those that become operations on whole sequences, and faster iterations for all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.fast.recurrent import RecurrentWeights, run_direction
from irrun.fast.vectorization import NotVectorizableError
from irrun.limits import Collection, check_allocation, collect_values
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.context import BodyRunner, InputDescription, OutputDescription
from irrun.ops._support.input_slices import InputSlicer, create_slicers, get_count_from_outputs

__all__ = ["SequenceLoop", "SequenceStep", "iterate_loop", "iterate_tensor_iterator", "make_cell_step"]

Array = np.ndarray[Any, Any]
Kernel = Callable[..., tuple[Array, ...]]

#: Number of bytes that an array takes besides its elements.
ARRAY_OVERHEAD = 120
#: Number of iterations whose numbers are computed at once.
COUNTER_BLOCK = 1024


@dataclass(frozen=True)
class SequenceStep:
    """A step of a `SequenceLoop`.

    Attributes:
        kernel: Takes the values of `inputs`, returns those of `outputs`.
        inputs: Slots of the inputs.
        outputs: Slots of the outputs.
    """

    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def make_cell_step(weights: RecurrentWeights) -> Callable[..., tuple[Array, ...]]:
    """Return a kernel that runs a cell over a stacked input.

    It returns the hidden states of all steps, stacked, and the last value of the other states.
    """

    def run(X: Array, *states: Array) -> tuple[Array, ...]:
        if X.ndim != 3:
            raise NotVectorizableError
        time, batch, _ = X.shape
        check_allocation((batch, time, weights.hidden), np.dtype(np.float32))
        Y = np.empty((batch, time, weights.hidden), np.float32).transpose(1, 0, 2)
        (*_, (_, last_states)) = run_direction(weights, X, states, Y)
        return (Y, *last_states[1:])

    return run


@dataclass(frozen=True)
class SequenceLoop:
    """A kernel for a loop whose iterations depend on each other only through recurrent cells.

    Attributes:
        initial: The value of every slot before the first step: a constant or None.
        parameters: Slots of the body's Parameters.
        results: Slots of the body's Results.
        inputs: The inputs of the port map.
        outputs: The outputs of the port map.
        steps: In order of execution.
        stacked: The slots that hold stacked values.
        output_count: Number of outputs of the layer.
        has_trip_count: Whether the first two inputs are the trip count and the execution condition of Loop.
    """

    initial: tuple[Array | None, ...]
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    inputs: tuple[InputDescription, ...]
    outputs: tuple[OutputDescription, ...]
    steps: tuple[SequenceStep, ...]
    stacked: frozenset[int]
    output_count: int
    has_trip_count: bool

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute all iterations.

        Raises:
            Exception: The inputs are not as expected; the loop itself must run.
        """
        slicers = create_slicers(inputs, self)
        counts = {slicer.count for slicer in slicers}
        if self.has_trip_count:
            trip_count, condition = inputs[:2]
            count = int(trip_count.item())
            if not condition.item() or count > min(counts, default=count):
                raise NotVectorizableError
        else:
            count = counts.pop() if counts else get_count_from_outputs(self)
        if count < 1 or (counts and not self.has_trip_count):
            raise NotVectorizableError
        values: list[Any] = list(self.initial)
        for slicer in slicers:
            values[self.parameters[slicer.entry.parameter]] = slicer.to_array(count)
        for entry in self.inputs:
            if entry.axis is None and entry.port >= 0:
                values[self.parameters[entry.parameter]] = inputs[entry.port]
        for step in self.steps:
            result = step.kernel(*[values[slot] for slot in step.inputs])
            if not isinstance(result, (tuple, list)):
                result = (result,)
            for slot, value in zip(step.outputs, result, strict=False):
                values[slot] = np.asarray(value)
        outputs: list[Array] = [np.empty(0)] * self.output_count
        for output in self.outputs:
            if output.port >= 0:
                outputs[output.port] = self._get_output(output, values, count)
        return tuple(outputs)

    def _get_output(self, entry: OutputDescription, values: Sequence[Any], count: int) -> Array:
        slot = self.results[entry.result]
        value: Array = values[slot]
        is_stacked = slot in self.stacked
        if entry.axis is None:
            return value[-1] if is_stacked else value
        if not is_stacked:
            check_allocation((count, value.size), value.dtype)
            value = np.broadcast_to(value, (count, *value.shape))
        if value.ndim == 1:
            value = value[:, np.newaxis]
        if entry.stride <= 0:
            value = value[::-1]
        axis = normalize_axis(entry.axis, value.ndim - 1)
        shape = value.shape[1:]
        merged = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
        return np.asarray(np.moveaxis(value, 0, axis).reshape(merged))


def iterate_tensor_iterator(plain: Kernel, *inputs: Array, body: BodyRunner) -> tuple[Array, ...]:
    """Run TensorIterator.

    Args:
        plain: The plain kernel. It runs if there is no iteration or an input is invalid.
        inputs: As for `plain`.
        body: The body.
    """
    slicers = _create_slicers(inputs, body)
    counts = {slicer.count for slicer in slicers or ()} or {get_count_from_outputs(body)}
    if slicers is None or len(counts) > 1 or 0 in counts:
        return plain(*inputs, body=body)
    return _iterate(inputs, body, slicers, counts.pop())


def iterate_loop(plain: Kernel, *inputs: Array, body: BodyRunner) -> tuple[Array, ...]:
    """Run Loop.

    Args:
        plain: The plain kernel. It runs if there is no iteration or an input is invalid.
        inputs: As for `plain`: the trip count, the execution condition and the others.
        body: The body.
    """
    trip_count, condition = inputs[:2]
    slicers = _create_slicers(inputs, body)
    if slicers is None or trip_count.size != 1 or condition.size != 1 or not condition.item() or not trip_count.item():
        return plain(*inputs, body=body)
    maximum = int(trip_count.item())
    if any(not slicer.count or slicer.count < maximum for slicer in slicers):
        return plain(*inputs, body=body)
    return _iterate(inputs, body, slicers, maximum if maximum > 0 else None)


def _create_slicers(inputs: Sequence[Array], body: BodyRunner) -> list[InputSlicer] | None:
    """Return the slices of the inputs, or None if an entry does not match the shape of its input."""
    try:
        return create_slicers(inputs, body)
    except InputError:
        return None


def _iterate(
    inputs: Sequence[Array], body: BodyRunner, slicers: Sequence[InputSlicer], count: int | None
) -> tuple[Array, ...]:
    """Run at least one iteration.

    Args:
        inputs: The inputs of the layer.
        body: The body.
        slicers: The sliced inputs.
        count: Maximum number of iterations, or None.
    """
    with collect_values() as collection:
        return _iterate_with(collection, inputs, body, slicers, count)


def _iterate_with(
    collection: Collection,
    inputs: Sequence[Array],
    body: BodyRunner,
    slicers: Sequence[InputSlicer],
    count: int | None,
) -> tuple[Array, ...]:
    arguments = _get_initial_arguments(inputs, body)
    condition = next((o.result for o in body.outputs if o.purpose == "execution_condition"), None)
    if condition is not None and condition in body.constant_results:
        value = body.constant_results[condition]
        if value.size == 1:
            condition, count = None, count if value.item() else 1
    body.expect_iterations(count if condition is None else None)
    sliced = [(slicer.entry.parameter, slicer.to_array(slicer.count)) for slicer in slicers]
    counter = _Counter.create(body, arguments)
    outputs = [
        _ConcatenatedOutput(entry, count if condition is None else None, collection)
        for entry in body.outputs
        if entry.axis is not None and entry.port >= 0
    ]
    collectors = [(output.entry.result, output.add) for output in outputs]
    edges = [(edge.result, edge.parameter) for edge in body.back_edges]
    run = body.run
    shortest = min(slicers, key=lambda slicer: slicer.count, default=None)
    iteration = 0
    is_running = True
    while is_running:
        if shortest is not None and iteration == shortest.count:
            port = shortest.entry.port
            raise InputError(f"iteration {iteration} is out of range: input {port} has {shortest.count} slices")
        for parameter, slices in sliced:
            arguments[parameter] = slices[iteration]
        results = run(arguments, iteration)
        for result, add in collectors:
            add(results[result])
        for result, parameter in edges:
            arguments[parameter] = results[result]
        iteration += 1
        if counter is not None:
            arguments[counter.parameter] = counter.get_value(iteration)
        if condition is not None:
            is_running = bool(to_scalar(results[condition], "the execution condition"))
        if iteration == count:
            break
    values: list[Array] = [np.empty(0)] * body.output_count
    for description in body.outputs:
        if description.port >= 0 and description.axis is None:
            values[description.port] = results[description.result]
    for output in outputs:
        values[output.entry.port] = output.get_value()
    return tuple(values)


def _get_initial_arguments(inputs: Sequence[Array], body: BodyRunner) -> list[Array | None]:
    """Return the values of the body's Parameters that are passed as a whole, and None for all others."""
    arguments: list[Array | None] = [None] * body.parameter_count
    for entry in body.inputs:
        if entry.axis is None and entry.port >= 0:
            arguments[entry.parameter] = inputs[entry.port]
    return arguments


class _Counter:
    """The Parameter of a body that holds the number of the current iteration.

    Args:
        parameter: Index of the Parameter.
        shape: Its shape.
        dtype: Its type.
    """

    def __init__(self, parameter: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.parameter = parameter
        self.shape = shape
        self.dtype = dtype
        self.values = self.make_values(0)

    @classmethod
    def create(cls, body: BodyRunner, arguments: list[Array | None]) -> _Counter | None:
        """Return the counter of a body and initialize its argument; None if the body does not count iterations."""
        parameters = [entry.parameter for entry in body.inputs if entry.purpose == "current_iteration"]
        if not parameters:
            return None
        parameter = parameters[-1]
        dtype = np.dtype(body.parameter_dtypes[parameter] or np.int64)
        value = arguments[parameter]
        if value is None:
            value = arguments[parameter] = np.zeros(() if body.parameter_shapes[parameter] == () else (1,), dtype)
        elif any(edge.parameter == parameter for edge in body.back_edges):
            return None  # the body itself counts, from the value that it is passed
        return cls(parameter, value.shape, dtype)

    def make_values(self, start: int) -> Array:
        """Return the values of `COUNTER_BLOCK` iterations."""
        numbers = np.arange(start, start + COUNTER_BLOCK).astype(self.dtype)
        return np.broadcast_to(numbers.reshape(-1, *(1,) * len(self.shape)), (COUNTER_BLOCK, *self.shape))

    def get_value(self, iteration: int) -> Array:
        """Return the value for an iteration; iterations are in order."""
        position = iteration % COUNTER_BLOCK
        if not position:
            self.values = self.make_values(iteration)
        return np.asarray(self.values[position])


class _ConcatenatedOutput:
    """The values of an output in all iterations.

    They are written into one array if their number is known and they have the same type and shape, and are
    collected otherwise.

    Args:
        entry: The entry of the port map.
        count: The number of iterations if it is known.
        collection: Counts the values.
    """

    def __init__(self, entry: OutputDescription, count: int | None, collection: Collection) -> None:
        self.entry = entry
        self.count = count
        self.collection = collection
        self.position = 0
        self.value: Array | None = None
        self.stacked: Array | None = None
        self.shape: tuple[int, ...] = ()
        self.dtype: np.dtype[Any] | None = None
        self.parts: list[Array] = []

    def add(self, part: Array) -> None:
        """Add the value of the next iteration.

        Raises:
            InputError: The output would exceed the memory limit.
        """
        if part.dtype is self.dtype and part.shape == self.shape:
            self.stacked[self.position] = part  # type: ignore[index]
            self.position += 1
        elif self.count is not None and not self.position and not self.parts:
            self.allocate(part)
        else:
            self.collect(part)

    def allocate(self, part: Array) -> None:
        """Allocate the output for as many values of the shape of the first one, and write that."""
        assert self.count is not None
        check_allocation((self.count, part.size), part.dtype)
        self.collection.add(self.count * part.nbytes)
        shape = part.shape or (1,)
        axis = normalize_axis(self.entry.axis or 0, len(shape))
        before, length, after = shape[:axis], shape[axis], shape[axis + 1 :]
        self.value = np.empty((*before, self.count * length, *after), part.dtype)
        by_iteration = np.moveaxis(self.value.reshape(*before, self.count, length, *after), axis, 0)
        self.stacked = by_iteration if self.entry.stride > 0 else by_iteration[::-1]
        if not part.ndim:
            self.stacked = self.stacked[:, 0]
        self.shape, self.dtype = part.shape, self.value.dtype
        self.stacked[0] = part
        self.position = 1

    def collect(self, part: Array) -> None:
        """Collect a value.

        Raises:
            InputError: The values so far exceed the memory limit.
        """
        if self.stacked is not None:  # the shape or type has changed
            self.parts = [np.array(value) for value in self.stacked[: self.position]]
            self.value = self.stacked = self.dtype = None
        if self.count is not None:
            check_allocation((self.count, part.size), part.dtype)
        self.parts.append(part)
        self.collection.add(part.nbytes + ARRAY_OVERHEAD)

    def get_value(self) -> Array:
        """Return the output after all iterations."""
        if self.value is not None:
            return self.value
        assert self.entry.axis is not None
        parts = self.parts if self.parts[0].ndim else [part.reshape(1) for part in self.parts]
        axis = normalize_axis(self.entry.axis, parts[0].ndim)
        check_allocation([sum(part.size for part in parts)], parts[0].dtype)
        return np.concatenate(parts if self.entry.stride > 0 else parts[::-1], axis)
