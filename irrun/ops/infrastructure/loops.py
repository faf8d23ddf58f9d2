"""Loops around a body: TensorIterator, Loop."""

from __future__ import annotations

from irrun.errors import InputError
from irrun.ops._support.axes import to_scalar
from irrun.ops._support.context import BodyRunner
from irrun.ops._support.input_slices import create_slicers, get_count_from_outputs
from irrun.ops._support.iterations import run_iterations
from irrun.ops._support.numerics import Array
from irrun.ops._support.registry import op

__all__ = ["loop_5", "tensor_iterator_1"]


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
    return run_iterations(inputs, body, slicers, counts.pop() if counts else get_count_from_outputs(body))


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
    return run_iterations(all_inputs, body, slicers, None if maximum < 0 else maximum, run_first=run_first)
