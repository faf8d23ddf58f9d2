"""Loops around a body: TensorIterator, Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.limits import Collection, check_allocation, collect_values
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.context import BodyRunner, OutputDescription
from irrun.ops._support.input_slices import InputSlicer, create_slicers, get_count_from_outputs
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["loop_5", "tensor_iterator_1"]

#: Number of bytes that an array takes in addition to its elements.
ARRAY_OVERHEAD = 120


@op("TensorIterator", since=1, kind="control", flops=0)
def tensor_iterator_1(*inputs: Array, body: BodyRunner) -> tuple[Array, ...]:
    """Run a body once for each slice of its inputs.

    `start` and `end` of the port map are indices, both inclusive, as in OpenVINO's shape inference; -1 is the last
    element. The CPU plugin and the reference implementation use them only to count the slices and always start at the
    edge of the axis. All implementations agree on ranges that start there.

    Args:
        *inputs: Any types, any shapes. The port map states for each input whether it is sliced along an axis, passed
            as a whole, or the initial value of a Parameter with a back edge.
        body: The body.

    Returns:
        One tensor per output. If its entry in the port map has an axis, the concatenation of the values of all
        iterations, in reverse order for a negative stride; otherwise the value of the last iteration.

    Raises:
        InputError: Slices do not divide the axis, or sliced inputs have different numbers of slices.

    Spec:
        TensorIterator-1
    """
    slicers = create_slicers(inputs, body)
    counts = {slicer.count for slicer in slicers}
    if len(counts) > 1:
        described = ", ".join(f"input {slicer.entry.port}: {slicer.count}" for slicer in slicers)
        raise InputError(f"sliced inputs have different numbers of iterations ({described})")
    return _run_iterations(inputs, body, slicers, counts.pop() if counts else get_count_from_outputs(body))


@op("Loop", since=5, kind="control", flops=0)
def loop_5(trip_count: Array, execution_condition: Array, *inputs: Array, body: BodyRunner) -> tuple[Array, ...]:
    """Run a body a number of times, or while a condition is true.

    Args:
        trip_count: i32 or i64, scalar or [1]. The maximum number of iterations; negative for no maximum.
        execution_condition: Boolean, scalar or [1]. Whether the first iteration runs.
        *inputs: As for TensorIterator. Their positions in the port map count from `trip_count`, which is 0.
        body: The body.

    Returns:
        One tensor per output, as for TensorIterator. If no iteration runs, a concatenated output is empty along its
        axis, and any other output is the initial value of the Parameter that its back edge leads to. Without a back
        edge it has the declared shape of its Result, with 0 for dynamic dimensions, and the value 0: the specification
        leaves it undefined, and OpenVINO's CPU plugin returns uninitialized memory in that shape.

    Raises:
        InputError: A sliced input has fewer slices than there are iterations.

    Spec:
        Loop-5
    """
    all_inputs = (trip_count, execution_condition, *inputs)
    slicers = create_slicers(all_inputs, body)
    maximum = int(to_scalar(trip_count, "trip_count"))
    run_first = bool(to_scalar(execution_condition, "execution_condition"))
    return _run_iterations(all_inputs, body, slicers, None if maximum < 0 else maximum, run_first=run_first)


def _run_iterations(
    inputs: Sequence[Array],
    body: BodyRunner,
    slicers: Sequence[InputSlicer],
    trip_count: int | None,
    *,
    run_first: bool = True,
) -> tuple[Array, ...]:
    """Run a body and return the outputs of its layer.

    Args:
        inputs: The inputs of the layer.
        body: The body.
        slicers: The sliced inputs.
        trip_count: Maximum number of iterations, or None.
        run_first: Whether the first iteration runs.
    """
    with collect_values() as collection:
        return _iterate(inputs, body, slicers, trip_count, run_first, collection)


def _iterate(
    inputs: Sequence[Array],
    body: BodyRunner,
    slicers: Sequence[InputSlicer],
    trip_count: int | None,
    run_first: bool,
    collection: Collection,
) -> tuple[Array, ...]:
    arguments = _get_initial_arguments(inputs, body)
    counter = _IterationCounter.create(body, arguments)
    condition = next((o.result for o in body.outputs if o.purpose == "execution_condition"), None)
    body.expect_iterations(trip_count if condition is None or condition in body.constant_results else None)
    parts = _OutputParts(body, trip_count if condition is None else None, collection)
    results: list[Array] | None = None
    iteration = 0
    is_running = run_first
    while is_running and (trip_count is None or iteration < trip_count):
        for slicer in slicers:
            arguments[slicer.entry.parameter] = slicer[iteration]
        results = body.run(arguments, iteration)
        parts.append(results)
        for edge in body.back_edges:
            arguments[edge.parameter] = results[edge.result]
        iteration += 1
        if counter is not None:
            counter.store(arguments, iteration)
        if condition is not None:
            is_running = bool(to_scalar(results[condition], "the execution condition"))
    outputs: list[Array] = [np.empty(0)] * body.output_count
    for entry in body.outputs:
        if entry.port < 0:
            continue
        if entry.axis is not None:
            outputs[entry.port] = parts.concatenate(entry)
        elif results is not None:
            outputs[entry.port] = results[entry.result]
        else:
            outputs[entry.port] = _get_initial_output(entry, body, arguments)
    return tuple(outputs)


def _get_initial_arguments(inputs: Sequence[Array], body: BodyRunner) -> list[Array | None]:
    """Return the values of the body's Parameters that are passed as a whole, and None for all others."""
    arguments: list[Array | None] = [None] * body.parameter_count
    for entry in body.inputs:
        if entry.axis is None and entry.port >= 0:
            arguments[entry.parameter] = inputs[entry.port]
    return arguments


class _IterationCounter:
    """The Parameter of a body that holds the number of the current iteration.

    Args:
        parameter: Index of the Parameter.
        dtype: Its type.
    """

    def __init__(self, parameter: int, dtype: np.dtype[Any]) -> None:
        self.parameter = parameter
        self.dtype = dtype

    @classmethod
    def create(cls, body: BodyRunner, arguments: list[Array | None]) -> _IterationCounter | None:
        """Return the counter of a body and initialize its argument; None if the body does not count iterations."""
        parameter = None
        for entry in body.inputs:
            if entry.purpose == "current_iteration":
                parameter = entry.parameter
        if parameter is None:
            return None
        dtype = body.parameter_dtypes[parameter] or np.dtype(np.int64)
        if arguments[parameter] is None:
            arguments[parameter] = np.zeros(() if body.parameter_shapes[parameter] == () else (1,), dtype)
        elif any(edge.parameter == parameter for edge in body.back_edges):
            return None  # the body itself counts, from the value that it is passed
        return cls(parameter, dtype)

    def store(self, arguments: list[Array | None], iteration: int) -> None:
        """Set the argument to `iteration`, in its present shape."""
        value = arguments[self.parameter]
        assert value is not None
        arguments[self.parameter] = np.full(value.shape, iteration, self.dtype)


class _OutputParts:
    """The values of the concatenated outputs of a layer, one for each iteration.

    Args:
        body: The body.
        count: Number of iterations if it is known in advance.
        collection: Counts the values.
    """

    def __init__(self, body: BodyRunner, count: int | None, collection: Collection) -> None:
        self.body = body
        self.count = count
        self.collection = collection
        self.entries = [entry for entry in body.outputs if entry.axis is not None and entry.port >= 0]
        self.parts: dict[int, list[Array]] = {entry.port: [] for entry in self.entries}

    def append(self, results: Sequence[Array]) -> None:
        """Add the results of an iteration.

        Raises:
            InputError: The outputs exceed the memory limit, or would after all iterations.
        """
        for entry in self.entries:
            part = results[entry.result]
            self.parts[entry.port].append(part)
            self.collection.add(part.nbytes + ARRAY_OVERHEAD)
            if self.count is not None:
                check_allocation((self.count, part.size), part.dtype)

    def concatenate(self, entry: OutputDescription) -> Array:
        """Return the value of an output.

        Raises:
            InputError: The result exceeds the memory limit.
        """
        assert entry.axis is not None
        parts = self.parts[entry.port]
        if not parts:
            shape = _get_minimum_shape(entry, self.body) or [0] * (entry.axis + 1 if entry.axis >= 0 else 1)
            shape[normalize_axis(entry.axis, len(shape))] = 0
            return np.empty(shape, self.body.result_dtypes[entry.result] or np.float32)
        if parts[0].ndim == 0:
            parts = [part.reshape(1) for part in parts]
        axis = normalize_axis(entry.axis, parts[0].ndim)
        check_allocation([sum(part.size for part in parts)], parts[0].dtype)
        return np.concatenate(parts if entry.stride > 0 else parts[::-1], axis)


def _get_initial_output(entry: OutputDescription, body: BodyRunner, arguments: Sequence[Array | None]) -> Array:
    """Return the value of an output if no iteration ran: that of the Parameter its back edge leads to, else zeros."""
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
