"""Loops: some run operations on whole sequences, all others have faster iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.fast.loop_views import View, find_view, get_root
from irrun.fast.recurrent import ChangeWeights, RecurrentWeights, run_whole_direction
from irrun.fast.vectorization import NotVectorizableError
from irrun.limits import Collection, check_allocation
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.context import BodyRunner, InputDescription, OutputDescription
from irrun.ops._support.input_slices import InputSlicer, create_slicers, get_count_from_outputs
from irrun.ops._support.iterations import CollectedOutput, run_iterations

__all__ = ["CellStep", "SequenceLoop", "SequenceStep", "iterate_loop", "iterate_tensor_iterator"]

Array = np.ndarray[Any, Any]
Kernel = Callable[..., tuple[Array, ...]]

#: Maximum number of layouts of inputs for which a loop keeps its views.
MAX_PLANS = 16


@dataclass(frozen=True)
class SequenceStep:
    """A step of a `SequenceLoop`.

    Attributes:
        kernel: Takes the values of `inputs`, returns the values of `outputs`.
        inputs: Slots of the inputs.
        outputs: Slots of the outputs.
        is_view: Whether the only output may be a view of the only input, whatever the values.
    """

    kernel: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_view: bool = False

    def replace_weights(self, change: ChangeWeights) -> SequenceStep:
        """Return the step, with another form of its weights if it is a cell."""
        kernel = self.kernel
        return replace(self, kernel=CellStep(change(kernel.weights))) if isinstance(kernel, CellStep) else self


@dataclass(frozen=True)
class CellStep:
    """A kernel that runs a cell over a stacked input.

    It returns the hidden states of all steps, stacked, and the last value of the other states.

    Attributes:
        weights: The weights of the cell.
    """

    weights: RecurrentWeights

    def __call__(self, X: Array, *states: Array) -> tuple[Array, ...]:
        """Compute all steps.

        Raises:
            NotVectorizableError: The input is not stacked.
        """
        if X.ndim != 3:
            raise NotVectorizableError
        time, batch, _ = X.shape
        check_allocation((batch, time, self.weights.hidden), np.dtype(np.float32))
        Y = np.empty((batch, time, self.weights.hidden), np.float32).transpose(1, 0, 2)
        return (Y, *run_whole_direction(self.weights, X, states, Y)[1:])


class _Plan:
    """The views of a `SequenceLoop` for inputs of certain layouts.

    Args:
        count: The number of iterations.

    Attributes:
        count: The number of iterations.
        slices: The slots of sliced inputs, their ports, and how they are views of the inputs.
        whole: The slots and ports of other inputs.
        steps: The steps, each with the view that it returns; None for other results.
        outputs: The outputs, the slots of their values, and the views that they are; None for other values.
        layouts: The shapes and strides of computed values by their slots.
        is_complete: Whether all slices are views of the inputs, and all values are known.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.slices: list[tuple[int, int, View | None]] = []
        self.whole: list[tuple[int, int]] = []
        self.steps: list[tuple[SequenceStep, View | None]] = []
        self.outputs: list[tuple[OutputDescription, int, View | None]] = []
        self.layouts: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.is_complete = True
        #: The arrays that own the values of slots while the plan is made.
        self._roots: dict[int, Array] = {}

    def add_slices(self, slot: int, port: int, inputs: Sequence[Array], values: Sequence[Any]) -> None:
        """Add the slices of an input."""
        self._roots[slot] = inputs[port]
        view = find_view(values[slot], inputs[port])
        self.slices.append((slot, port, view))
        self.is_complete &= view is not None

    def add_step(self, step: SequenceStep, values: Sequence[Any]) -> None:
        """Add a step that was computed."""
        view = None
        if step.is_view:
            (source,), (target,) = step.inputs, step.outputs
            if source in self._roots:
                view = find_view(values[target], self._roots[source])
                self._roots[target] = self._roots[source]
        if view is None:
            for slot in step.outputs:
                value = values[slot]
                if value is None:
                    self.is_complete = False
                else:
                    self._roots[slot], self.layouts[slot] = get_root(value), (value.shape, value.strides)
        self.steps.append((step, view))

    def add_output(self, output: OutputDescription, slot: int, value: Array) -> None:
        """Add an output that was computed."""
        view = find_view(value, self._roots[slot]) if slot in self._roots else None
        self.outputs.append((output, slot, view))

    def finish(self) -> None:
        """Release the values."""
        self._roots = {}


@dataclass(frozen=True)
class SequenceLoop:
    """A kernel for a loop with iterations that depend on each other only through recurrent cells.

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
    _plans: dict[Any, _Plan] = field(default_factory=dict, init=False, repr=False, compare=False)

    def replace_weights(self, change: ChangeWeights) -> SequenceLoop:
        """Return the loop with the weights of its cells in another form."""
        return replace(self, steps=tuple(step.replace_weights(change) for step in self.steps))

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute all iterations.

        Raises:
            Exception: The inputs are not as expected; the loop itself must run.
        """
        head = [x.tobytes() if x.size == 1 else None for x in inputs[:2]] if self.has_trip_count else ()
        key = (*head, *[(x.shape, x.dtype, x.flags.c_contiguous) for x in inputs])
        plan = self._plans.get(key)
        if plan is not None:
            outputs = self._run_plan(plan, inputs)
            if outputs is not None:
                return outputs
        outputs, plan = self._run(inputs)
        while len(self._plans) >= MAX_PLANS:
            self._plans.pop(next(iter(self._plans)), None)
        self._plans[key] = plan
        return outputs

    def _run(self, inputs: Sequence[Array]) -> tuple[tuple[Array, ...], _Plan]:
        """Compute all iterations, and return the outputs and the plan for inputs of the same layouts.

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
        plan = _Plan(count)
        values: list[Any] = list(self.initial)
        for slicer in slicers:
            values[self.parameters[slicer.entry.parameter]] = slicer.to_array(count)
            plan.add_slices(self.parameters[slicer.entry.parameter], slicer.entry.port, inputs, values)
        for entry in self.inputs:
            if entry.axis is None and entry.port >= 0:
                values[self.parameters[entry.parameter]] = inputs[entry.port]
                plan.whole.append((self.parameters[entry.parameter], entry.port))
        for step in self.steps:
            self._compute(step, values)
            plan.add_step(step, values)
        outputs: list[Array] = [np.empty(0)] * self.output_count
        for output in self.outputs:
            if output.port >= 0:
                outputs[output.port] = self._get_output(output, values, count)
                plan.add_output(output, self.results[output.result], outputs[output.port])
        plan.finish()
        return tuple(outputs), plan

    @staticmethod
    def _compute(step: SequenceStep, values: list[Any]) -> None:
        """Compute the outputs of a step."""
        result = step.kernel(*[values[slot] for slot in step.inputs])
        if not isinstance(result, (tuple, list)):
            result = (result,)
        for slot, value in zip(step.outputs, result, strict=False):
            values[slot] = np.asarray(value)

    def _run_plan(self, plan: _Plan, inputs: Sequence[Array]) -> tuple[Array, ...] | None:
        """Compute all iterations by a plan, or return None if a value does not have the expected layout.

        Raises:
            Exception: A kernel failed; the loop itself must run.
        """
        if not plan.is_complete:
            return None
        values: list[Any] = list(self.initial)
        #: The arrays that own the values of slots.
        roots: dict[int, Array] = {}
        for slot, port, view in plan.slices:
            roots[slot] = inputs[port]
            if view is None or not view.fits(roots[slot]):
                return None
            values[slot] = view.create(roots[slot])
        for slot, port in plan.whole:
            values[slot] = inputs[port]
        for step, view in plan.steps:
            if view is None:
                self._compute(step, values)
                for slot in step.outputs:
                    value = values[slot]
                    if value is None or (value.shape, value.strides) != plan.layouts[slot]:
                        return None
                    roots[slot] = get_root(value)
                continue
            (source,), (slot,) = step.inputs, step.outputs
            roots[slot] = root = roots[source]
            if not view.fits(root):
                return None
            values[slot] = view.create(root)
        outputs: list[Array] = [np.empty(0)] * self.output_count
        for output, slot, view in plan.outputs:
            if view is None:
                outputs[output.port] = self._get_output(output, values, plan.count)
            elif view.fits(roots[slot]):
                outputs[output.port] = view.create(roots[slot])
            else:
                return None
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
        plain: The plain kernel. It runs if there are no iterations or an input is invalid.
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
        plain: The plain kernel. It runs if there are no iterations or an input is invalid.
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
    """Run at least one iteration, with prepared slices and with outputs written into one array."""
    slices = [slicer.to_array(slicer.count) for slicer in slicers]
    return run_iterations(inputs, body, slicers, count, slices=slices, create_collector=_ConcatenatedOutput)


class _ConcatenatedOutput(CollectedOutput):
    """The values of an output in all iterations.

    They are written into one array if their number is known and they have the same type and shape, and are
    collected otherwise.
    """

    def __init__(self, entry: OutputDescription, count: int | None, collection: Collection) -> None:
        super().__init__(entry, count, collection)
        self.position = 0
        self.value: Array | None = None
        self.stacked: Array | None = None
        self.shape: tuple[int, ...] = ()
        self.dtype: np.dtype[Any] | None = None

    def add(self, part: Array) -> None:
        """Add the value of the next iteration; see `OutputCollector`."""
        if part.dtype is self.dtype and part.shape == self.shape:
            self.stacked[self.position] = part  # type: ignore[index]
            self.position += 1
        elif self.count is not None and not self.position and not self.parts:
            self.allocate(part)
        else:
            self.collect(part)

    def allocate(self, part: Array) -> None:
        """Allocate the output for all values, with the shape of the first value, and write the first value."""
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
        """Collect a value, after all values written so far."""
        if self.stacked is not None:  # the shape or type has changed
            self.parts = [np.array(value) for value in self.stacked[: self.position]]
            self.value = self.stacked = self.dtype = None
        super().add(part)

    def get_value(self) -> Array | None:
        """Return the output after all iterations; see `OutputCollector`."""
        return super().get_value() if self.value is None else self.value
