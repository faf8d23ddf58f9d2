"""The inputs and outputs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irrun.ir.model import Model as IrModel
from irrun.openvino.element_type import Type
from irrun.openvino.getters import from_getter
from irrun.openvino.node import ConstOutput, Node, Output
from irrun.openvino.shape import PartialShape, Shape

__all__ = ["ModelPorts", "find_node", "find_port"]


class ModelPorts:
    """The Parameters, Results and Assigns of a model; `Model` adds the rest."""

    _parameters: list[Node]
    _results: list[Node]
    _sinks: list[Node]

    def _to_ir(self) -> IrModel:
        """Return the model as irrun's own; see `Model`."""
        raise NotImplementedError

    def validate_nodes_and_infer_types(self) -> None:
        """Infer the types and shapes of all nodes; see `Model`."""
        raise NotImplementedError

    @property
    def inputs(self) -> list[Output]:
        """The inputs, in order."""
        return [Output(node, 0) for node in self._parameters]

    @property
    def outputs(self) -> list[Output]:
        """The outputs, in order."""
        return [Output(node, 0) for node in self._results]

    def input(self, index: int | str | None = None, *, tensor_name: str | None = None) -> Output:
        """Return an input by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: No input has that name, or there are several.
            IndexError: The index is out of range.
        """
        port: Output = find_port(self.inputs, index if tensor_name is None else tensor_name, "Input", "input()")
        return port

    def output(self, index: int | str | None = None, *, tensor_name: str | None = None) -> Output:
        """Return an output by index or tensor name; without arguments, the only one.

        Raises:
            RuntimeError: No output has that name, or there are several.
            IndexError: The index is out of range.
        """
        port: Output = find_port(self.outputs, index if tensor_name is None else tensor_name, "Output", "output()")
        return port

    def get_parameters(self) -> list[Node]:
        """Return the Parameters."""
        return list(self._parameters)

    parameters = from_getter(get_parameters)

    def get_results(self) -> list[Node]:
        """Return the Results."""
        return list(self._results)

    results = from_getter(get_results)

    def get_result(self) -> Node:
        """Return the only Result.

        Raises:
            RuntimeError: There are several.
        """
        if len(self._results) != 1:
            raise RuntimeError("Model has more than one result")
        return self._results[0]

    result = from_getter(get_result)

    def get_sinks(self) -> list[Node]:
        """Return the Assigns."""
        return list(self._sinks)

    sinks = from_getter(get_sinks)

    def get_output_size(self) -> int:
        """Return the number of outputs."""
        return len(self._results)

    def get_output_op(self, index: int) -> Node:
        """Return the Result of an output."""
        return self._results[_check(index)]

    def get_output_element_type(self, index: int) -> Type:
        """Return the element type of an output."""
        return self.outputs[_check(index)].element_type

    def get_output_partial_shape(self, index: int) -> PartialShape:
        """Return the shape of an output."""
        return self.outputs[_check(index)].partial_shape

    def get_output_shape(self, index: int) -> Shape:
        """Return the static shape of an output."""
        return self.outputs[_check(index)].shape

    def get_parameter_index(self, parameter: Node) -> int:
        """Return the index of a Parameter, or -1.

        Raises:
            TypeError: It is anything else.
        """
        _require_type(parameter, "Parameter")
        return find_node(self._parameters, parameter)

    def get_result_index(self, value: Any) -> int:
        """Return the index of the output that a Result or an output of a node belongs to, or -1.

        Raises:
            TypeError: It is anything else.
        """
        if isinstance(value, ConstOutput):
            sources = [result._sources[0] for result in self._results]
            by_source = [i for i, s in enumerate(sources) if s is not None and s._key == value._key]
            return by_source[0] if by_source else find_node(self._results, value._node)
        _require_type(value, "Result")
        return find_node(self._results, value)

    def get_sink_index(self, sink: Any) -> int:
        """Return the index of an Assign, given as a node or its output, or -1.

        Raises:
            TypeError: It is neither a node nor an output.
        """
        node = sink.get_node() if isinstance(sink, ConstOutput) else sink
        if not isinstance(node, Node):
            raise TypeError("Incorrect argument type. Sink node is expected as argument.")
        return find_node(self._sinks, node)


def _check(index: int) -> int:
    """Return the number of an output, which must not be negative."""
    if index < 0:
        raise TypeError(f"incompatible function arguments: expected a number of an output. Invoked with: {index}")
    return index


def _require_type(node: Any, node_type: str) -> None:
    """Raise a TypeError for what is not a node of a type."""
    if not isinstance(node, Node) or node._type != node_type:
        raise TypeError(f"incompatible function arguments: expected a {node_type}. Invoked with: {node!r}")


def find_node(nodes: Sequence[Node], node: Any) -> int:
    """Return the position of a node, or -1."""
    return next((i for i, candidate in enumerate(nodes) if candidate is node), -1)


def find_port(ports: Sequence[Any], key: int | str | None, kind: str, call: str) -> Any:
    """Return the port of an index or tensor name; without a key, the only one.

    Raises:
        RuntimeError: No port has that name, or there are several ports.
        IndexError: The index is out of range.
    """
    if key is None:
        if len(ports) != 1:
            raise RuntimeError(f"{call} must be called on a model with exactly one {kind.lower()}, found {len(ports)}")
        return ports[0]
    if isinstance(key, str):
        for port in ports:
            if key in port.names:
                return port
        raise RuntimeError(f"{kind} for tensor name '{key}' is not found.")
    if not isinstance(key, int) or key < 0:
        raise TypeError(f"{call}: incompatible function arguments. Invoked with: {key!r}")
    if key >= len(ports):
        raise IndexError(f"{kind} index {key} is out of range: this->size() is {len(ports)}")
    return ports[key]
