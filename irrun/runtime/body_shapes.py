"""Inference of the output shapes of TensorIterator, Loop and If from the shapes in their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar

from irrun.ir.graph import Body, Layer, PortMapEntry
from irrun.ops.shape_rules import ShapeError, Value
from irrun.ops.shape_rules.axes import check_axis
from irrun.ops.shape_rules.dimensions import (
    ONE,
    contains,
    count_elements,
    make_static,
    may_equal,
    multiply,
    unite,
)
from irrun.shapes import UNBOUNDED, PartialShape

__all__ = ["infer_bodies"]


class BodyInference(Protocol):
    """The facts about the values of a body."""

    @property
    def has_failed(self) -> bool:
        """Whether the inputs of a layer do not fit."""

    def get_results(self) -> dict[int, Value | None]:
        """Return the facts about the Results by the id of the layer."""


T = TypeVar("T", bound=BodyInference)
#: Infers the values of a body from the facts about its Parameters by the id of the layer.
InferBody: TypeAlias = "Callable[[Body, Mapping[int, Value]], T]"

#: Maximum number of inferences of states whose shapes change in the body. Beyond it, their ranks are unknown.
_ATTEMPTS = 4


def infer_bodies(infer: InferBody[T], layer: Layer, inputs: Mapping[int, Value]) -> tuple[list[Value], list[T]]:
    """Infer the outputs of a layer with bodies.

    Args:
        infer: Infers the values of a body.
        layer: The layer.
        inputs: The facts about its inputs by the id of the port.

    Returns:
        The facts about the outputs, and the inferences of the bodies that may run.

    Raises:
        ShapeError: The inputs do not fit the bodies.
    """
    if layer.type == "If":
        return _infer_branches(infer, layer, inputs)
    if "body" not in layer.bodies:
        return [Value(None) for _ in layer.outputs], []
    results, inference = _LoopBody(infer, layer, inputs, layer.bodies["body"]).infer()
    return [Value(results.get(port.id)) for port in layer.outputs], [inference]


def _infer_branches(infer: InferBody[T], layer: Layer, inputs: Mapping[int, Value]) -> tuple[list[Value], list[T]]:
    condition = inputs.get(layer.inputs[0].id)
    if condition is not None and condition.shape is not None and not may_equal(count_elements(condition.shape), ONE):
        raise ShapeError(f"cond has the shape {condition.shape}, expected a single element")
    array = None if condition is None else condition.get_array()
    branches, inferences = [], []
    for name in ("then_body", "else_body"):
        is_taken = array is None or array.size != 1 or bool(array.reshape(-1)[0]) == (name == "then_body")
        if is_taken and name in layer.bodies:
            body = layer.bodies[name]
            arguments = {e.internal_layer_id: inputs.get(e.external_port_id, Value(None)) for e in body.inputs}
            inner = infer(body, arguments)
            inferences.append(inner)
            results = inner.get_results()
            branches.append({e.external_port_id: results.get(e.internal_layer_id) for e in body.outputs})
    merged = []
    for port in layer.outputs:
        values = [branch.get(port.id) for branch in branches]
        shapes = [None if value is None else value.shape for value in values]
        merged.append(values[0] if len(values) == 1 and values[0] is not None else Value(_unite_branches(shapes)))
    return merged, inferences


def _unite_branches(shapes: list[PartialShape | None]) -> PartialShape | None:
    """Return a shape that contains the shapes of both branches."""
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes):
        return None
    if len({len(shape) for shape in known}) > 1:
        return PartialShape([UNBOUNDED]) if max(map(len, known)) <= 1 else None
    return PartialShape(
        unite(*sizes) if all(isinstance(size, int) for size in sizes) else UNBOUNDED
        for sizes in zip(known[0], known[-1], strict=True)
    )


class _LoopBody(Generic[T]):
    """The body of a TensorIterator or a Loop.

    Args:
        infer_body: Infers the values of a body.
        layer: The layer.
        inputs: The facts about its inputs by the id of the port.
        body: The body.
    """

    def __init__(self, infer_body: InferBody[T], layer: Layer, inputs: Mapping[int, Value], body: Body) -> None:
        self.infer_body = infer_body
        self.layer = layer
        self.inputs = inputs
        self.body = body
        self.slices: list[int | None] = []

    def infer(self) -> tuple[dict[int, PartialShape | None], T]:
        """Return the shapes of the outputs by the id of the port, and the inference of the body."""
        arguments: dict[int, Value] = {}
        for entry in self.body.inputs:
            value = self.inputs.get(entry.external_port_id)
            if value is not None:
                arguments[entry.internal_layer_id] = self.slice(entry, value)
        states = {edge.to_layer: edge.from_layer for edge in self.body.back_edges}
        for parameter in states:
            if parameter in arguments:  # the value of the first iteration only
                arguments[parameter] = Value(arguments[parameter].shape)
        inner = self.infer_body(self.body, arguments)
        for attempt in range(_ATTEMPTS):
            if inner.has_failed:
                break
            results = inner.get_results()
            changes = {}
            for parameter, result in states.items():
                before, after = arguments.get(parameter), results.get(result)
                if before is None or before.shape is None or after is None:
                    continue
                if after.shape is None or not contains(before.shape, after.shape):
                    is_last = attempt + 2 >= _ATTEMPTS
                    changes[parameter] = Value(None if is_last else _widen(before.shape, after.shape))
            if not changes:
                break
            arguments.update(changes)
            inner = self.infer_body(self.body, arguments)
        results = inner.get_results()
        count = self.count_iterations(results, arguments)
        outputs: dict[int, PartialShape | None] = {}
        for entry in self.body.outputs:
            found = results.get(entry.internal_layer_id)
            shape = None if found is None else found.shape
            initial = next((p for p, r in states.items() if r == entry.internal_layer_id and p in arguments), None)
            if initial is not None and self.may_skip(count):
                shape = _widen(shape, arguments[initial].shape)
            outputs[entry.external_port_id] = self.concatenate(entry, shape, count)
        return outputs, inner

    def slice(self, entry: PortMapEntry, value: Value) -> Value:
        """Return the facts about one slice of an input."""
        if entry.axis is None:
            return value
        if value.shape is None:
            self.slices.append(None)
            return Value(None)
        axis = check_axis(entry.axis, len(value.shape))
        size = value.shape[axis]
        if isinstance(size, int):
            start, end = (i + size if i < 0 else i for i in (entry.start, entry.end))
            first, last = min(start, end), min(max(start, end) + 1, size)
            self.slices.append(max(0, (last - first - entry.part_size) // abs(entry.stride) + 1))
        else:
            self.slices.append(None)
        return Value(PartialShape([*value.shape[:axis], entry.part_size, *value.shape[axis + 1 :]]))

    def count_iterations(self, results: Mapping[int, Value | None], arguments: Mapping[int, Value]) -> int | None:
        """Return the number of iterations; None if it is unknown."""
        if self.layer.type != "Loop":
            if self.slices:
                return next((count for count in self.slices if count is not None), None)
            concatenated = [e for e in self.body.outputs if e.axis is not None]
            return (
                abs(concatenated[0].end - concatenated[0].start) // concatenated[0].part_size if concatenated else None
            )
        limit, condition = (_get_scalar(self.inputs.get(port.id)) for port in self.layer.inputs[:2])
        if condition is not None and not condition:
            return 0
        if limit == 0:
            return 0
        goes_on = None
        for entry in self.body.outputs:
            if entry.purpose == "execution_condition":
                goes_on = _get_scalar(results.get(entry.internal_layer_id))
        if goes_on is not None and not goes_on and condition is not None:
            return 1
        if goes_on is None or limit is None or limit < 0 or condition is None:
            return None
        return limit

    def may_skip(self, count: int | None) -> bool:
        """Return whether no iteration may run, so that outputs are the initial states."""
        return self.layer.type == "Loop" and not count

    def concatenate(self, entry: PortMapEntry, shape: PartialShape | None, count: int | None) -> PartialShape | None:
        """Return the shape of an output of the layer for the shape of a Result of its body."""
        if shape is None or entry.axis is None:
            return shape
        shape = shape or PartialShape([1])
        axis = check_axis(entry.axis, len(shape))
        size = shape[axis]
        total = UNBOUNDED if count is None else multiply(size, make_static(count))
        return PartialShape([*shape[:axis], total, *shape[axis + 1 :]])


def _get_scalar(value: Value | None) -> int | None:
    array = None if value is None else value.get_array()
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _widen(first: PartialShape | None, second: PartialShape | None) -> PartialShape | None:
    """Return a shape with unknown dimensions where two shapes differ; None if their ranks do."""
    if first is None or second is None or len(first) != len(second):
        return None
    return PartialShape(a if a == b else UNBOUNDED for a, b in zip(first, second, strict=True))
