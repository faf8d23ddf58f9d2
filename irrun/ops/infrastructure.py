"""Infrastructure operations: Parameter, Constant, Result; TensorIterator, Loop; ReadValue, Assign.

If stands with the condition operations, where the specification puts it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.axes import normalize_axis, to_scalar
from irrun.ops._support.context import BodyRunner, Declaration, InputDescription, OutputDescription, Variables
from irrun.ops._support.numerics import Array
from irrun.ops._support.operation import Attribute, Input, StructuralOperation
from irrun.ops._support.registry import op, register
from irrun.shapes import PartialShape

__all__ = [
    "assign_3",
    "loop_5",
    "read_value_3",
    "read_value_6",
    "tensor_iterator_1",
]


#: Bytes that a part of a concatenated output takes besides its elements.
PER_PART = 120


register(
    StructuralOperation(
        "Parameter",
        1,
        "infrastructure",
        "An input of the model.",
        attributes=[Attribute("shape", PartialShape | None, None), Attribute("element_type", ElementType | None, None)],
    )
)
register(
    StructuralOperation(
        "Result", 1, "infrastructure", "An output of the model: the value of its input.", inputs=[Input("value")]
    )
)
register(
    StructuralOperation(
        "Constant",
        1,
        "infrastructure",
        "A value stored in the weights: `size` bytes at `offset` of the .bin file.",
        attributes=[
            Attribute("element_type", ElementType),
            Attribute("shape", PartialShape),
            Attribute("offset", int),
            Attribute("size", int),
        ],
    )
)


@op("TensorIterator", since=1)
def tensor_iterator_1(*inputs: Array, body: BodyRunner) -> tuple[Array, ...]:
    """Runs a body once per slice of its sliced inputs.

    inputs: any types and shapes; the port map says for each one whether it is sliced along an axis, passed
    whole, or the first value of a Parameter that a back edge feeds from then on.
    Returns one tensor per output: the concatenation over all iterations where its entry has an axis (in reverse
    order where the stride is negative), else the value of the last iteration.
    Raises InputError where slices do not divide the axis or sliced inputs disagree on the number of iterations.

    `start` and `end` are indices, both included, as shape inference counts them; -1 is the last one. (The CPU
    plugin and the reference implementation take their number from it, and then begin at the edge of the axis
    whatever `start` says; all agree on ranges that begin there.)
    Spec: TensorIterator-1.
    """
    sliced = [_Slices(entry, inputs[entry.port]) for entry in body.inputs if entry.axis is not None]
    counts = {s.count for s in sliced}
    if len(counts) > 1:
        told = ", ".join(f"input {s.entry.port}: {s.count}" for s in sliced)
        raise InputError(f"sliced inputs disagree on the number of iterations ({told})")
    return _iterate(inputs, body, sliced, counts.pop() if counts else _count_from_outputs(body))


@op("Loop", since=5)
def loop_5(trip_count: Array, execution_condition: Array, *inputs: Array, body: BodyRunner) -> tuple[Array, ...]:
    """Runs a body a number of times, or as long as it says so.

    trip_count: i32 or i64 scalar or [1]; negative: no bound. execution_condition: boolean scalar or [1], whether
    the first iteration runs. inputs: as for TensorIterator; their positions in the port map count from
    trip_count, which is 0.
    Returns one tensor per output, as TensorIterator does. Where no iteration runs, a concatenated output is
    empty along its axis, and another one is the first value of the Parameter that its back edge feeds. One without
    a back edge is then zero, in the shape that its Result declares, open dimensions as 0: the specification leaves
    it undefined, and OpenVINO's CPU plugin gives what its memory holds, in that shape.
    Raises InputError where a sliced input ends before the loop does.
    Spec: Loop-5.
    """
    everything = (trip_count, execution_condition, *inputs)
    sliced = [_Slices(entry, everything[entry.port]) for entry in body.inputs if entry.axis is not None]
    limit = int(to_scalar(trip_count, "trip_count"))
    first = bool(to_scalar(execution_condition, "execution_condition"))
    return _iterate(everything, body, sliced, None if limit < 0 else limit, start=first)


class _Slices:
    """The slices of one input, in the order of the iterations."""

    def __init__(self, entry: InputDescription, value: Array) -> None:
        assert entry.axis is not None
        self.entry = entry
        self.value = value
        self.axis = normalize_axis(entry.axis, value.ndim)
        length = value.shape[self.axis]
        start, end = (index + length if index < 0 else index for index in (entry.start, entry.end))
        low, last = (start, end) if entry.stride > 0 else (end, start)
        high = min(last + 1, length) if last <= length else last + 1  # `end` as the length: files that exclude it
        self.step = abs(entry.stride)
        self.part = entry.part_size
        if not self.step or self.part < 1:
            raise InputError(f"stride {entry.stride} and part_size {self.part} must not be 0")
        if not 0 <= low <= high <= length:
            raise InputError(
                f"start {entry.start} and end {entry.end} do not lie on axis {self.axis} of input "
                f"{entry.port}, which has {length} elements"
            )
        if self.part == self.step and (high - low) % self.part:
            raise InputError(
                f"{high - low} elements on axis {self.axis} of input {entry.port} do not divide "
                f"into parts of {self.part}"
            )
        self.first = low if entry.stride > 0 else high - self.part
        self.count = max(0, (high - low - self.part) // self.step + 1)

    def __getitem__(self, iteration: int) -> Array:
        if iteration >= self.count:
            raise InputError(
                f"iteration {iteration} finds no slice left of input {self.entry.port}, which has {self.count}"
            )
        low = self.first + iteration * (self.step if self.entry.stride > 0 else -self.step)
        index = (slice(None),) * self.axis + (slice(low, low + self.part),)
        return self.value[index]


def _count_from_outputs(body: BodyRunner) -> int:
    """The number of iterations where no input is sliced: what a concatenated output says, else 1."""
    for entry in body.outputs:
        if entry.axis is not None:
            return abs(entry.end - entry.start) // max(entry.part_size, 1)
    return 1


def _iterate(
    inputs: Sequence[Array], body: BodyRunner, sliced: Sequence[_Slices], limit: int | None, start: bool = True
) -> tuple[Array, ...]:
    arguments: list[Array | None] = [None] * body.parameter_count
    counter = counter_dtype = None
    for entry in body.inputs:
        if entry.axis is None and entry.port >= 0:
            arguments[entry.parameter] = inputs[entry.port]
        if entry.purpose == "current_iteration":
            counter = entry.parameter
    if counter is not None:
        counter_dtype = body.parameter_dtypes[counter] or np.dtype(np.int64)
        fed_back = any(edge.parameter == counter for edge in body.back_edges)
        if arguments[counter] is None:
            arguments[counter] = np.zeros(() if body.parameter_shapes[counter] == () else (1,), counter_dtype)
        elif fed_back:
            counter = None
    condition = next((o.result for o in body.outputs if o.purpose == "execution_condition"), None)
    collected: dict[int, list[Array]] = {o.port: [] for o in body.outputs if o.axis is not None and o.port >= 0}
    results: list[Array] | None = None
    iteration = held = 0
    running = start
    while running and (limit is None or iteration < limit):
        for s in sliced:
            arguments[s.entry.parameter] = s[iteration]
        results = body.run(arguments, iteration)
        for out in body.outputs:
            if out.axis is not None and out.port in collected:
                part = results[out.result]
                collected[out.port].append(part)
                held += part.nbytes + PER_PART
                if condition is None and limit is not None:
                    check_allocation((limit, part.size), part.dtype)
        if not iteration % 1024:
            check_allocation([held], np.dtype(np.uint8))
        for edge in body.back_edges:
            arguments[edge.parameter] = results[edge.result]
        iteration += 1
        if counter is not None:
            shape = arguments[counter].shape  # type: ignore[union-attr]
            arguments[counter] = np.full(shape, iteration, counter_dtype)
        if condition is not None:
            running = bool(to_scalar(results[condition], "the execution condition"))
    outputs: list[Array] = [np.empty(0)] * body.output_count
    for out in body.outputs:
        if out.port < 0:
            continue
        if out.axis is not None:
            outputs[out.port] = _concatenated(out, collected[out.port], body)
        else:
            outputs[out.port] = results[out.result] if results else _initial(out, body, arguments)
    return tuple(outputs)


def _concatenated(entry: OutputDescription, parts: list[Array], body: BodyRunner) -> Array:
    assert entry.axis is not None
    if not parts:
        shape = _smallest(entry, body) or [0] * (entry.axis + 1 if entry.axis >= 0 else 1)
        shape[normalize_axis(entry.axis, len(shape))] = 0
        return np.empty(shape, body.result_dtypes[entry.result] or np.float32)
    if parts[0].ndim == 0:
        parts = [part.reshape(1) for part in parts]
    axis = normalize_axis(entry.axis, parts[0].ndim)
    return np.concatenate(parts if entry.stride > 0 else parts[::-1], axis)


def _initial(entry: OutputDescription, body: BodyRunner, arguments: Sequence[Array | None]) -> Array:
    """The value of an output when no iteration ran: what its Result would have handed on to a Parameter."""
    for edge in body.back_edges:
        value = arguments[edge.parameter]
        if edge.result == entry.result and value is not None:
            return value
    shape = _smallest(entry, body)
    if shape is None:
        raise InputError(f"no iteration ran, so output {entry.port} has no value")
    dtype = np.dtype(body.result_dtypes[entry.result] or np.float32)
    check_allocation(shape, dtype)
    return np.zeros(shape, dtype)


def _smallest(entry: OutputDescription, body: BodyRunner) -> list[int] | None:
    """The declared shape of a Result that no iteration gave, open dimensions as 0; None where the rank is open."""
    declared = body.result_shapes[entry.result]
    return None if declared is None else [d or 0 for d in declared]


@op("ReadValue", since=3)
def read_value_3(init_value: Array, *, variable_id: str, variables: Variables) -> Array:
    """The value of a variable; `init_value` as long as it was not set.

    init_value: any type and shape; it gives the variable its type.
    Returns the value that Assign set last.
    Raises InputError where that is of another type.
    Spec: ReadValue-3.
    """
    declared = Declaration(ElementType.of(init_value.dtype), None)
    variables.declared[variable_id] = declared
    found = variables.values.get(variable_id, init_value)
    _check_variable(variable_id, found, declared)
    return found


@op("ReadValue", since=6)
def read_value_6(
    init_value: Array | None = None,
    *,
    variable_id: str,
    variable_type: ElementType | None,
    variable_shape: PartialShape | None,
    variables: Variables,
) -> Array:
    """The value of a variable; `init_value`, or zeros of its declared type and shape, as long as it was not set.

    init_value: a type and shape that the declaration admits; may be left out. No `variable_type` admits any.
    Returns the value that Assign set last. Open dimensions of `variable_shape` count as the least that they may be
    where the variable was not set and has no `init_value`.
    Raises InputError where the value is not of the declared type and shape.
    Spec: ReadValue-6.
    """
    declared = Declaration(variable_type, variable_shape)
    variables.declared[variable_id] = declared
    found = variables.values.get(variable_id, init_value)
    if found is not None:
        _check_variable(variable_id, found, declared)
        return found
    shape = [d if isinstance(d, int) else d.minimum for d in declared.shape or ()]
    dtype = np.dtype(np.float32) if variable_type is None else variable_type.dtype
    check_allocation(shape, dtype)
    return np.zeros(shape, dtype)


@op("Assign", since=3)
@op("Assign", since=6)
def assign_3(new_value: Array, *, variable_id: str, variables: Variables) -> Array:
    """Sets a variable; the request's next run reads the value.

    new_value: any type and shape that the declaration of the variable admits.
    Returns `new_value`.
    Raises InputError where it is not of the declared type and shape.
    Spec: Assign-3, Assign-6.
    """
    declared = variables.declared.get(variable_id)
    if declared is not None:
        _check_variable(variable_id, new_value, declared)
    variables.values[variable_id] = new_value
    return new_value


def _check_variable(name: str, value: Array, declared: Declaration) -> None:
    type, shape = declared
    if (type is not None and value.dtype != type.dtype) or (shape is not None and not shape.is_compatible(value.shape)):
        raise InputError(
            f"the value of variable {name!r} is {ElementType.of(value.dtype)} {list(value.shape)}, "
            f"expected {type or 'any type'} {'of any shape' if shape is None else shape}"
        )
