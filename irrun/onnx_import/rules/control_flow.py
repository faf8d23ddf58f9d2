"""Rules for If, Loop and Scan, which become If, Loop and TensorIterator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import ModelError, UnsupportedError
from irrun.ir.graph import BackEdge, Body, PortMapEntry
from irrun.onnx_import.graph import Graph, Value, check_axis, constant
from irrun.onnx_import.node import Importer, Item, Node, translate
from irrun.onnx_import.rules.helpers import squeeze, unsqueeze
from irrun.onnx_import.rules.selection import to_scalar
from irrun.ops.shape_rules import Value as Known
from irrun.shapes import UNBOUNDED, PartialShape

__all__ = ["get_body"]

I64 = ELEMENT_TYPES["i64"]

#: Maximum number of imports of a body until the shapes of its states are general enough.
_ATTEMPTS = 4


def get_body(node: Node, name: str) -> Any:
    """Return a graph attribute.

    Raises:
        ModelError: The attribute is missing.
    """
    body = node.attributes.get(name)
    if not hasattr(body, "node"):
        raise ModelError(f"the attribute {name} is missing, expected a graph")
    return body


def _check_tensors(items: Sequence[Item]) -> list[Value]:
    for item in items:
        if not isinstance(item, Value):
            raise UnsupportedError("a body has a sequence or an optional value as an input or output; expected tensors")
    return [item for item in items if isinstance(item, Value)]


@translate("If")
def translate_if(node: Node) -> Sequence[Item]:
    """If; the body of the branch for a constant condition."""
    condition = node[0]
    known = condition.read()
    if known is not None and known.size == 1:
        branch = get_body(node, "then_branch" if known.reshape(-1)[0] else "else_branch")
        return node.importer.create(node.importer.graph).import_body(branch)
    bodies: dict[str, Body] = {}
    inputs: dict[Value, int] = {}
    results: dict[str, list[Value]] = {}
    graphs = {}
    for tag, name in (("then_body", "then_branch"), ("else_body", "else_branch")):
        graph = graphs[tag] = Graph(name, node.importer.graph)
        importer = node.importer.create(graph)
        results[tag] = _check_tensors(importer.import_body(get_body(node, name)))
    count = node.output_count
    if any(len(values) < count for values in results.values()):
        raise ModelError(f"a branch has fewer than {count} outputs")
    for tag, graph in graphs.items():
        entries = []
        layers = [graph.add_result(value) for value in results[tag][:count]]
        for value, parameter in graph.captured.items():
            assert parameter.layer is not None
            entries.append(PortMapEntry(1 + inputs.setdefault(value, len(inputs)), parameter.layer.id))
        bodies[tag] = Body(graph.finish(), entries, [PortMapEntry(i, layer.id) for i, layer in enumerate(layers)])
    first = 1 + len(inputs)
    for body in bodies.values():
        for entry in body.outputs:
            entry.external_port_id += first
    types = [value.type for value in results["then_body"][:count]]
    others = [value.type for value in results["else_body"][:count]]
    if types != others:
        raise ModelError(f"the branches have the types {types} and {others}, expected equal types")
    return node.importer.graph.add("If", "opset8", [condition, *inputs], {}, types, bodies)


class _Iteration:
    """A body of a loop under construction.

    Args:
        node: The node.
        proto: The GraphProto of the body.

    Attributes:
        graph: The graph.
        importer: Its importer.
        inputs: The inputs of the layer, with their Parameters.
        entries: The inputs of the port map, apart from captured values.
    """

    def __init__(self, node: Node, proto: Any, inputs: Sequence[Value]) -> None:
        self.graph = Graph(proto.name, node.importer.graph)
        self.importer: Importer = node.importer.create(self.graph)
        self.proto = proto
        self.inputs = list(inputs)
        self.entries: list[PortMapEntry] = []
        self.back_edges: list[BackEdge] = []
        self.outputs: list[PortMapEntry] = []

    def add_input(self, value: Value, known: Known, **entry: Any) -> Value:
        """Add an input of the layer, and return the Parameter."""
        parameter = self.graph.add_parameter(value.type, known)
        assert parameter.layer is not None
        self.entries.append(PortMapEntry(len(self.inputs), parameter.layer.id, **entry))
        self.inputs.append(value)
        return parameter

    def add_state(self, parameter: Value, value: Value) -> int:
        """Return the Result of the new value of a state."""
        layer = self.graph.add_result(value)
        assert parameter.layer is not None
        self.back_edges.append(BackEdge(layer.id, parameter.layer.id))
        return layer.id

    def finish(self, operation: str, version: str, types: Sequence[Any]) -> list[Value]:
        """Add the layer and return its outputs."""
        for value, parameter in self.graph.captured.items():
            assert parameter.layer is not None
            self.entries.append(PortMapEntry(len(self.inputs), parameter.layer.id))
            self.inputs.append(value)
        for position, entry in enumerate(e for e in self.outputs if not e.purpose):
            entry.external_port_id = len(self.inputs) + position
        body = Body(self.graph.finish(), self.entries, self.outputs, self.back_edges)
        parent = self.graph.parent
        assert parent is not None
        return parent.add(operation, version, self.inputs, {}, types, {"body": body})


def _generalize(known: list[PartialShape | None], values: Sequence[Value]) -> bool:
    """Make the shapes of states contain the shapes of their new values; return whether they already did."""
    is_same = True
    for i, value in enumerate(values):
        before, after = known[i], value.shape
        if before is None or before == after:
            continue
        if after is None or len(after) != len(before):
            known[i] = None
        else:
            known[i] = PartialShape(
                a if isinstance(a, int) and a == b else UNBOUNDED for a, b in zip(before, after, strict=True)
            )
        is_same = is_same and known[i] == before
    return is_same


def _repeat(values: Sequence[Value], attempt: Callable[[list[PartialShape | None]], list[Value] | None]) -> list[Value]:
    """Import a body until the shapes of its states are general enough.

    Args:
        values: The initial states.
        attempt: Imports the body for the current shapes. If it has to make them more general, it returns None.
    """
    shapes = [value.shape for value in values]
    for _ in range(_ATTEMPTS):
        result = attempt(shapes)
        if result is not None:
            return result
        shapes = list(shapes)
    result = attempt([None] * len(shapes))
    if result is None:
        raise UnsupportedError("the shapes of states change in each iteration")
    return result


@translate("Loop")
def translate_loop(node: Node) -> list[Value]:
    """Loop."""
    proto = get_body(node, "body")
    limit = constant(-1) if node.get(0) is None else to_scalar(node[0])
    condition = constant(True) if node.get(1) is None else to_scalar(node[1])
    states = [node[i] for i in range(2, len(node))]
    if len(proto.input) < 2 + len(states) or len(proto.output) < 1 + len(states):
        raise ModelError(f"the body has {len(proto.input)} inputs, expected {2 + len(states)}")

    def attempt(shapes: list[PartialShape | None]) -> list[Value] | None:
        body = _Iteration(node, proto, [limit, condition])
        number = body.graph.add_parameter(I64, Known(PartialShape([])))
        assert number.layer is not None
        body.entries.append(PortMapEntry(-1, number.layer.id, purpose="current_iteration"))
        body.importer.set(proto.input[0].name, number)
        body.importer.set(proto.input[1].name, constant(True))
        parameters = [body.add_input(state, Known(shape)) for state, shape in zip(states, shapes, strict=True)]
        for info, parameter in zip(proto.input[2:], parameters, strict=False):
            body.importer.set(info.name, parameter)
        results = _check_tensors(body.importer.import_body(proto))
        new, scanned = results[1 : 1 + len(states)], results[1 + len(states) :]
        if not _generalize(shapes, new):
            return None
        with body.graph.activate():
            goes_on = to_scalar(results[0])
            scanned = [unsqueeze(value, 0) for value in scanned]
        condition_layer = body.graph.add_result(goes_on)
        body.outputs.append(PortMapEntry(-1, condition_layer.id, purpose="execution_condition"))
        for parameter, value in zip(parameters, new, strict=True):
            body.outputs.append(PortMapEntry(-1, body.add_state(parameter, value)))
        for value in scanned:
            body.outputs.append(PortMapEntry(-1, body.graph.add_result(value).id, axis=0))
        return body.finish("Loop", "opset5", [value.type for value in (*new, *scanned)])

    return _repeat(states, attempt)


@translate("Scan")
def translate_scan(node: Node) -> list[Value]:
    """TensorIterator."""
    if node.version < 9:
        raise node.refuse("Scan of version 8, which has a batch axis,")
    proto = get_body(node, "body")
    count = node.get_int("num_scan_inputs")
    values = node.inputs
    states, scanned = values[: len(values) - count], values[len(values) - count :]
    outputs = len(proto.output) - len(states)
    in_axes = node.get_ints("scan_input_axes", [0] * count)
    out_axes = node.get_ints("scan_output_axes", [0] * outputs)
    in_reversed = node.get_ints("scan_input_directions", [0] * count)
    out_reversed = node.get_ints("scan_output_directions", [0] * outputs)

    def attempt(shapes: list[PartialShape | None]) -> list[Value] | None:
        body = _Iteration(node, proto, [])
        parameters = [body.add_input(state, Known(shape)) for state, shape in zip(states, shapes, strict=True)]
        slices = []
        for value, axis, is_reversed in zip(scanned, in_axes, in_reversed, strict=True):
            rank = value.get_rank()
            axis = check_axis(axis, rank)
            assert value.shape is not None
            known = Known(PartialShape(1 if i == axis else d for i, d in enumerate(value.shape)))
            step: dict[str, Any] = (
                {"start": -1, "end": 0, "stride": -1} if is_reversed else {"start": 0, "end": -1, "stride": 1}
            )
            parameter = body.add_input(value, known, axis=axis, part_size=1, **step)
            with body.graph.activate():
                slices.append(squeeze(parameter, axis))
        for info, parameter in zip(proto.input, [*parameters, *slices], strict=True):
            body.importer.set(info.name, parameter)
        results = _check_tensors(body.importer.import_body(proto))
        new, joined = results[: len(states)], results[len(states) :]
        if not _generalize(shapes, new):
            return None
        for parameter, value in zip(parameters, new, strict=True):
            body.outputs.append(PortMapEntry(-1, body.add_state(parameter, value)))
        for value, axis, is_reversed in zip(joined, out_axes, out_reversed, strict=True):
            axis = check_axis(axis, value.get_rank() + 1)
            with body.graph.activate():
                value = unsqueeze(value, axis)
            step = {"start": -1, "end": 0, "stride": -1} if is_reversed else {"start": 0, "end": -1, "stride": 1}
            body.outputs.append(PortMapEntry(-1, body.graph.add_result(value).id, axis=axis, part_size=1, **step))
        return body.finish("TensorIterator", "opset1", [value.type for value in (*new, *joined)])

    return _repeat(states, attempt)
