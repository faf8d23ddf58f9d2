"""Nodes that contain models: If, Loop and TensorIterator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irrun.ir.graph import BackEdge, Body, PortMapEntry
from irrun.openvino.model import Model
from irrun.openvino.node import Node
from irrun.openvino.op.util import (
    BodyOutputDescription,
    ConcatOutputDescription,
    InvariantInputDescription,
    MergedInputDescription,
    SliceInputDescription,
)
from irrun.openvino.ports import Output, PortData, as_output

__all__ = ["if_op", "loop", "tensor_iterator"]


class _NodeWithBodies(Node):
    """A node that contains models.

    Args:
        node_type: The type.
        version: The opset.
        tags: The names of the bodies.
        arguments: The first inputs.
    """

    def __init__(self, node_type: str, version: str, tags: Sequence[str], arguments: Sequence[Any]) -> None:
        super().__init__(node_type, version, [as_output(argument) for argument in arguments])
        self._ports: list[PortData] = []
        self._tags = tags
        self._models: dict[str, Model] = {}
        self._input_ports: dict[str, list[Any]] = {tag: [] for tag in tags}
        self._output_ports: dict[str, list[Any]] = {tag: [] for tag in tags}
        self._special_ports = [-1, -1]

    def _get_model(self, index: int) -> Model:
        tag = self._tags[index]
        if tag not in self._models:
            raise TypeError(f"{self._type} {self.get_friendly_name()}: a body must be set first")
        return self._models[tag]

    def _set_model(self, index: int, model: Model) -> None:
        self._models[self._tags[index]] = model
        self._update()

    def _add_input(self, value: Any) -> int:
        self._sources.append(None)
        self._set_source(len(self._sources) - 1, as_output(value))
        return len(self._sources) - 1

    def _add_output(self) -> int:
        self._ports.append(PortData())
        return len(self._ports) - 1

    def _update(self) -> None:
        """Make the bodies anew, and infer the outputs where all bodies are known."""
        self._bodies = {tag: self._make_body(tag, model) for tag, model in self._models.items()}
        for tag, model in self._models.items():
            for port in self._output_ports[tag]:
                self._ports[port.output_index].element_type = (
                    model._results[port.body_value_index]._get_port(0).element_type
                )
        if self._ports and len(self._bodies) == len(self._tags):
            self.validate_and_infer_types()

    def _make_body(self, tag: str, model: Model) -> Body:
        graph = model._to_ir().graph
        first_result = len(graph.layers) - len(model._results)
        body = Body(graph)
        for port in self._input_ports[tag]:
            entry = PortMapEntry(port.input_index, port.body_parameter_index)
            if isinstance(port, SliceInputDescription):
                entry = _slice(entry, port)
            elif isinstance(port, MergedInputDescription):
                body.back_edges.append(BackEdge(first_result + port.body_value_index, port.body_parameter_index))
            body.inputs.append(entry)
        for port in self._output_ports[tag]:
            entry = PortMapEntry(len(self._sources) + port.output_index, first_result + port.body_value_index)
            body.outputs.append(_slice(entry, port) if isinstance(port, ConcatOutputDescription) else entry)
        iteration, condition = self._special_ports
        if iteration >= 0:
            body.inputs.append(PortMapEntry(-1, iteration, purpose="current_iteration"))
        if condition >= 0:
            body.outputs.append(PortMapEntry(-1, first_result + condition, purpose="execution_condition"))
        return body


def _slice(entry: PortMapEntry, port: Any) -> PortMapEntry:
    entry.axis, entry.start, entry.end, entry.stride = port.axis, port.start, port.end, port.stride
    entry.part_size = port.part_size
    return entry


def _find(nodes: Sequence[Node], node: Any, kind: str) -> int:
    for i, other in enumerate(nodes):
        if other is node:
            return i
    raise RuntimeError(f"the body has no {kind} {node.get_friendly_name()}")


class _LoopNode(_NodeWithBodies):
    """The base of Loop and TensorIterator."""

    def get_function(self) -> Model:
        """Return the body."""
        return self._get_model(0)

    def set_function(self, func: Model) -> None:
        """Set the body."""
        self._set_model(0, func)

    def get_input_descriptions(self) -> list[Any]:
        """Return how inputs are connected to the body."""
        return list(self._input_ports["body"])

    def set_input_descriptions(self, inputs: Sequence[Any]) -> None:
        """Set how inputs are connected to the body."""
        self._input_ports["body"] = list(inputs)
        self._update()

    def get_output_descriptions(self) -> list[Any]:
        """Return how outputs are connected to the body."""
        return list(self._output_ports["body"])

    def set_output_descriptions(self, outputs: Sequence[Any]) -> None:
        """Set how outputs are connected to the body."""
        self._output_ports["body"] = list(outputs)
        while len(self._ports) < max((port.output_index + 1 for port in outputs), default=0):
            self._add_output()
        self._update()

    def _find_parameter(self, parameter: Node) -> int:
        return _find(self.get_function()._parameters, parameter, "Parameter")

    def _find_value(self, value: Any) -> int:
        """Return the number of the Result of a value of the body."""
        output = as_output(value)
        for i, result in enumerate(self.get_function()._results):
            if result is output._node or result._sources[0] == output:
                return i
        raise RuntimeError(f"{output!r} is not a result of the body")

    def _connect(self, port: Any) -> None:
        self._input_ports["body"].append(port)
        self._update()

    def set_sliced_input(
        self, parameter: Node, value: Any, start: int, stride: int, part_size: int, end: int, axis: int
    ) -> None:
        """Connect a Parameter of the body to slices of a value, one for each iteration.

        Args:
            parameter: The Parameter.
            value: The value.
            start: The start of the first slice.
            stride: The distance of the slices.
            part_size: The length of a slice.
            end: The end of the last slice, inclusive.
            axis: The axis.
        """
        index = self._find_parameter(parameter)
        self._connect(SliceInputDescription(self._add_input(value), index, start, stride, part_size, end, axis))

    def set_merged_input(self, body_parameter: Node, initial_value: Any, successive_value: Any) -> None:
        """Connect a Parameter of the body to a value in the first iteration, and to a result of the body later.

        Args:
            body_parameter: The Parameter.
            initial_value: The value in the first iteration.
            successive_value: The result of the body.
        """
        index, result = self._find_parameter(body_parameter), self._find_value(successive_value)
        self._connect(MergedInputDescription(self._add_input(initial_value), index, result))

    def set_invariant_input(self, body_parameter: Node, value: Any) -> None:
        """Connect a Parameter of the body to a value in all iterations."""
        index = self._find_parameter(body_parameter)
        self._connect(InvariantInputDescription(self._add_input(value), index))

    def get_iter_value(self, body_value: Any, iteration: int = -1) -> Output:
        """Return an output that is a value of the body in the last iteration.

        Raises:
            RuntimeError: `iteration` is not -1, or the value is not a result of the body.
        """
        if iteration != -1:
            raise RuntimeError(f"irrun returns values of the last iteration only, found the iteration {iteration}")
        return self._return(BodyOutputDescription(self._find_value(body_value), self._add_output(), iteration))

    def get_concatenated_slices(
        self, value: Any, start: int, stride: int, part_size: int, end: int, axis: int
    ) -> Output:
        """Return an output that concatenates a value of the body of all iterations; see `set_sliced_input`."""
        result = self._find_value(value)
        return self._return(ConcatOutputDescription(result, self._add_output(), start, stride, part_size, end, axis))

    def _return(self, port: Any) -> Output:
        self._output_ports["body"].append(port)
        self._update()
        return Output(self, port.output_index)

    def get_num_iterations(self) -> int:
        """Return the number of iterations; -1 if it is unknown."""
        for port in self._input_ports["body"]:
            if isinstance(port, SliceInputDescription):
                shape = self.input(port.input_index).partial_shape
                if shape.rank.is_static and shape[port.axis].is_static:
                    length = shape[port.axis].get_length()
                    start, end = (p + length if p < 0 else p for p in (port.start, port.end))
                    return int((abs(end - start) + 1) // abs(port.stride)) if port.stride else -1
        return -1


class loop(_LoopNode):  # noqa: N801
    """A Loop.

    Args:
        trip_count: The largest number of iterations; -1 if it is unlimited.
        execution_condition: Whether there is a first iteration.
    """

    def __init__(self, trip_count: Any = None, execution_condition: Any = None) -> None:
        arguments = [] if trip_count is None else [trip_count, execution_condition]
        super().__init__("Loop", "opset5", ["body"], arguments)

    def set_special_body_ports(self, special_body_ports: Sequence[int]) -> None:
        """Set the numbers of the Parameter with the current iteration and of the Result with the condition.

        Args:
            special_body_ports: The two numbers; -1 for a Parameter that does not exist.
        """
        self._special_ports = list(special_body_ports)
        self._update()

    def get_special_body_ports(self) -> list[int]:
        """Return what `set_special_body_ports` set."""
        return list(self._special_ports)

    def get_num_iterations(self) -> int:
        """Return the number of iterations; -1 if it is unknown."""
        source = self._sources[0] if self._sources else None
        constant = None if source is None else source._node._constant
        return -1 if constant is None else int(constant.to_array().reshape(-1)[0])


class tensor_iterator(_LoopNode):  # noqa: N801
    """A TensorIterator."""

    def __init__(self) -> None:
        super().__init__("TensorIterator", "opset1", ["body"], [])

    def get_body(self) -> Model:
        """Return the body."""
        return self.get_function()

    def set_body(self, body: Model) -> None:
        """Set the body."""
        self.set_function(body)


class if_op(_NodeWithBodies):  # noqa: N801
    """An If.

    Args:
        execution_condition: Which body runs.
    """

    def __init__(self, execution_condition: Any = None) -> None:
        arguments = [] if execution_condition is None else [execution_condition]
        super().__init__("If", "opset8", ["then_body", "else_body"], arguments)

    def get_function(self, index: int) -> Model:
        """Return a body: 0 for the one that runs if the condition holds, else 1."""
        return self._get_model(index)

    def set_function(self, index: int, func: Model) -> None:
        """Set a body; see `get_function`."""
        self._set_model(index, func)

    def get_then_body(self) -> Model:
        """Return the body that runs if the condition holds."""
        return self._get_model(0)

    def set_then_body(self, body: Model) -> None:
        """Set the body that runs if the condition holds."""
        self._set_model(0, body)

    def get_else_body(self) -> Model:
        """Return the body that runs if the condition does not hold."""
        return self._get_model(1)

    def set_else_body(self, body: Model) -> None:
        """Set the body that runs if the condition does not hold."""
        self._set_model(1, body)

    def set_input(self, value: Any, then_parameter: Node | None, else_parameter: Node | None) -> None:
        """Connect Parameters of the bodies to a value; None for a body that does not use it."""
        found = [
            None if parameter is None else _find(self._get_model(i)._parameters, parameter, "Parameter")
            for i, parameter in enumerate((then_parameter, else_parameter))
        ]
        index = self._add_input(value)
        for tag, position in zip(self._tags, found, strict=True):
            if position is not None:
                self._input_ports[tag].append(InvariantInputDescription(index, position))
        self._update()

    def set_output(self, then_result: Node, else_result: Node) -> Output:
        """Return an output that is a Result of the body that runs."""
        results = (then_result, else_result)
        found = [_find(self._get_model(i)._results, result, "Result") for i, result in enumerate(results)]
        index = self._add_output()
        for tag, position in zip(self._tags, found, strict=True):
            self._output_ports[tag].append(BodyOutputDescription(position, index))
        self._update()
        return Output(self, index)

    def get_input_descriptions(self, index: int) -> list[Any]:
        """Return how inputs are connected to a body; see `get_function`."""
        return list(self._input_ports[self._tags[index]])

    def set_input_descriptions(self, index: int, inputs: Sequence[Any]) -> None:
        """Set how inputs are connected to a body; see `get_function`."""
        self._input_ports[self._tags[index]] = list(inputs)
        self._update()

    def get_output_descriptions(self, index: int) -> list[Any]:
        """Return how outputs are connected to a body; see `get_function`."""
        return list(self._output_ports[self._tags[index]])

    def set_output_descriptions(self, index: int, outputs: Sequence[Any]) -> None:
        """Set how outputs are connected to a body; see `get_function`."""
        self._output_ports[self._tags[index]] = list(outputs)
        while len(self._ports) < max((port.output_index + 1 for port in outputs), default=0):
            self._add_output()
        self._update()
