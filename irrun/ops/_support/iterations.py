"""The iterations of loops: one implementation for the plain kernels and for faster ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from irrun.errors import InputError
from irrun.limits import Collection, check_allocation, collect_values
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.context import BodyRunner, OutputDescription
from irrun.ops._support.input_slices import InputSlicer
from irrun.ops._support.numerics import Array

__all__ = ["ARRAY_OVERHEAD", "CollectedOutput", "OutputCollector", "concatenate_parts", "run_iterations"]

#: Number of bytes that an array takes in addition to its elements.
ARRAY_OVERHEAD = 120
#: Number of iteration numbers computed at once.
COUNTER_BLOCK = 1024


class Slices(Protocol):
    """The slices of an input by the number of the iteration."""

    def __getitem__(self, iteration: int, /) -> Array:
        """Return a slice."""


class OutputCollector(Protocol):
    """The values of a concatenated output, one for each iteration."""

    def add(self, part: Array) -> None:
        """Add the value of the next iteration.

        Raises:
            InputError: The values so far exceed the memory limit, or all would.
        """

    def get_value(self) -> Array | None:
        """Return the output after all iterations; None if there was none.

        Raises:
            InputError: The output exceeds the memory limit.
        """


#: Creates the collector of an output from its entry, the number of iterations if known, and the counter of values.
CreateCollector = Callable[[OutputDescription, "int | None", Collection], OutputCollector]


class CollectedOutput:
    """The values of an output, to be concatenated at the end.

    Args:
        entry: The entry of the port map.
        count: The number of iterations if it is known.
        collection: Counts the values.
    """

    def __init__(self, entry: OutputDescription, count: int | None, collection: Collection) -> None:
        self.entry = entry
        self.count = count
        self.collection = collection
        self.parts: list[Array] = []

    def add(self, part: Array) -> None:
        """Add the value of the next iteration; see `OutputCollector`."""
        if self.count is not None:
            check_allocation((self.count, part.size), part.dtype)
        self.parts.append(part)
        self.collection.add(part.nbytes + ARRAY_OVERHEAD)

    def get_value(self) -> Array | None:
        """Return the output after all iterations; see `OutputCollector`."""
        return concatenate_parts(self.entry, self.parts) if self.parts else None


def concatenate_parts(entry: OutputDescription, parts: list[Array]) -> Array:
    """Return the concatenation of the values of an output.

    Args:
        entry: The entry of the port map, with an axis.
        parts: The values of all iterations, at least one.

    Raises:
        InputError: The output exceeds the memory limit.
    """
    assert entry.axis is not None
    if not parts[0].ndim:
        parts = [part.reshape(1) for part in parts]
    axis = normalize_axis(entry.axis, parts[0].ndim)
    check_allocation([sum(part.size for part in parts)], parts[0].dtype)
    return np.concatenate(parts if entry.stride > 0 else parts[::-1], axis)


def run_iterations(
    inputs: Sequence[Array],
    body: BodyRunner,
    slicers: Sequence[InputSlicer],
    trip_count: int | None,
    *,
    run_first: bool = True,
    slices: Sequence[Slices] | None = None,
    create_collector: CreateCollector = CollectedOutput,
) -> tuple[Array, ...]:
    """Run a body and return the outputs of its layer.

    Args:
        inputs: The inputs of the layer.
        body: The body.
        slicers: The sliced inputs.
        trip_count: Maximum number of iterations, or None.
        run_first: Whether the first iteration runs.
        slices: The sources of the slices, one for each of `slicers`; by default the slicers themselves.
        create_collector: Creates the collector of a concatenated output.

    Raises:
        InputError: There are fewer slices than iterations, or the outputs exceed the memory limit.
    """
    condition = next((o.result for o in body.outputs if o.purpose == "execution_condition"), None)
    if condition is not None and condition in body.constant_results:
        value = body.constant_results[condition]
        if value.size == 1:
            condition = None
            if not value.item():
                trip_count = 1 if trip_count is None else min(trip_count, 1)
    count = trip_count if condition is None else None
    body.expect_iterations(count)
    arguments = _get_initial_arguments(inputs, body)
    counter = _Counter.create(body, arguments)
    sliced = [(s.entry.parameter, values) for s, values in zip(slicers, slices or slicers, strict=True)]
    shortest = min(slicers, key=lambda slicer: slicer.count, default=None)
    run = body.run
    edges = [(edge.result, edge.parameter) for edge in body.back_edges]
    with collect_values() as collection:
        collectors = {
            entry: create_collector(entry, count, collection)
            for entry in body.outputs
            if entry.axis is not None and entry.port >= 0
        }
        collected = [(entry.result, collector.add) for entry, collector in collectors.items()]
        results: list[Array] | None = None
        iteration = 0
        is_running = run_first
        while is_running and iteration != trip_count:
            if shortest is not None and iteration == shortest.count:
                shortest[iteration]  # raises the error
            for parameter, values in sliced:
                arguments[parameter] = values[iteration]
            results = run(arguments, iteration)
            for result, add in collected:
                add(results[result])
            for result, parameter in edges:
                arguments[parameter] = results[result]
            iteration += 1
            if counter is not None:
                arguments[counter.parameter] = counter.get_value(iteration)
            if condition is not None:
                is_running = bool(to_scalar(results[condition], "the execution condition"))
        outputs: list[Array] = [np.empty(0)] * body.output_count
        for description in body.outputs:
            if description.port < 0:
                continue
            if description.axis is not None:
                joined = collectors[description].get_value()
                outputs[description.port] = _get_empty_output(description, body) if joined is None else joined
            elif results is not None:
                outputs[description.port] = results[description.result]
            else:
                outputs[description.port] = _get_initial_output(description, body, arguments)
    return tuple(outputs)


def _get_initial_arguments(inputs: Sequence[Array], body: BodyRunner) -> list[Array | None]:
    """Return the values of the body's Parameters that get a whole value, and None for all others."""
    arguments: list[Array | None] = [None] * body.parameter_count
    for entry in body.inputs:
        if entry.axis is None and entry.port >= 0:
            arguments[entry.parameter] = inputs[entry.port]
    return arguments


class _Counter:
    """The Parameter of a body that holds the number of the current iteration, computed for many iterations at once.

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
            return None  # the body itself counts, from its input
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


def _get_empty_output(entry: OutputDescription, body: BodyRunner) -> Array:
    """Return the value of a concatenated output if no iteration ran."""
    assert entry.axis is not None
    shape = _get_minimum_shape(entry, body) or [0] * (entry.axis + 1 if entry.axis >= 0 else 1)
    shape[normalize_axis(entry.axis, len(shape))] = 0
    return np.empty(shape, body.result_dtypes[entry.result] or np.float32)


def _get_initial_output(entry: OutputDescription, body: BodyRunner, arguments: Sequence[Array | None]) -> Array:
    """Return the value of an output if no iteration ran: the value of the Parameter at its back edge, else zeros."""
    for edge in body.back_edges:
        value = arguments[edge.parameter]
        if edge.result == entry.result and value is not None:
            return value
    shape = _get_minimum_shape(entry, body)
    if shape is None:
        raise InputError(f"output {entry.port} is undefined, because no iteration ran")
    dtype = np.dtype(body.result_dtypes[entry.result] or np.float32)
    check_allocation(shape, dtype)
    return np.zeros(shape, dtype)


def _get_minimum_shape(entry: OutputDescription, body: BodyRunner) -> list[int] | None:
    """Return the declared shape of a Result with 0 for dynamic dimensions; None if its rank is dynamic."""
    declared = body.result_shapes[entry.result]
    return None if declared is None else [d or 0 for d in declared]
