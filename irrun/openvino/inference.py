"""Inference of element types and shapes of the nodes of a graph, with the rules of `irrun.ops.shape_rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun import shapes
from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.ir.graph import Edge, Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.weights import Weights
from irrun.openvino.element_type import Type
from irrun.openvino.layers import make_layer
from irrun.openvino.ports import NodeData, Output, PortData
from irrun.ops._support import registry
from irrun.ops._support.card import Card
from irrun.ops._support.context import BodyRunner, OutputCount, State, Variables
from irrun.ops._support.operation import Operation
from irrun.ops._support.output_types import get_output_types
from irrun.ops.shape_rules import ShapeError, Value
from irrun.runtime.shape_inference import infer_outputs

__all__ = ["compute_node", "count_outputs", "find_operation", "get_known_value", "infer_node"]

Array = np.ndarray[Any, Any]


def infer_node(node: NodeData) -> None:
    """Infer element types and shapes of the outputs of a node, and store them in its ports.

    Raises:
        RuntimeError: The inputs do not fit the operation.
    """
    if node._type in ("Parameter", "Constant", "Result") or (node._type == "ReadValue" and not node._sources):
        return
    if node._implementation is not None:
        node.validate_and_infer_types()
        return
    count = count_outputs(node)
    while len(node._ports) < count:
        node._ports.append(PortData())
    operation = find_operation(node)
    for port, element_type in zip(node._ports, _find_types(node, operation), strict=False):
        port.element_type = element_type
    try:
        values = infer_outputs(make_layer(node, 0), [None if s is None else _get_value(s) for s in node._sources])
    except ShapeError as error:
        raise RuntimeError(_describe_failure(node, str(error))) from None
    for port, value in zip(node._ports, values, strict=False):
        port.shape, port.value = value.shape, value
        if value.array is not None:
            port.element_type = ElementType.of(value.array.dtype)


def _describe_failure(node: NodeData, message: str) -> str:
    if registry.get_card(node._type, node._version).kind == "elementwise":
        message = f"Argument shapes are inconsistent. {message}"
    inputs = ", ".join(
        f"{s._node._version}::{s._node._type} {s._node.get_friendly_name()}[{s._index}]:"
        f"{s.element_type.to_string()}{s.partial_shape}"
        for s in node._sources
        if s is not None
    )
    return (
        f"While validating node '{node._version}::{node._type} {node.get_name()} ({inputs})' with friendly_name "
        f"'{node.get_friendly_name()}':\n{message}"
    )


def _get_value(output: Output) -> Value:
    """Return the inferred facts about an output; only its shape if it is declared."""
    port = output._data
    if port.value is None:
        constant = output._node._constant
        port.value = Value(port.shape) if constant is None else Value.of_constant(constant)
    return port.value


def get_known_value(output: Output) -> Array | None:
    """Return the value of an output if it does not depend on the inputs of the model, or None."""
    return _get_value(output).get_array()


def count_outputs(node: NodeData) -> int:
    """Return the number of outputs of a node."""
    if node._bodies:
        return max(len(node._ports), 1)
    if node._type == "Split":
        return int(node._attributes.get("num_splits", 1))
    if node._type == "VariadicSplit" and node._sources[2] is not None:
        shape = node._sources[2]._data.shape
        return int(shape[0]) if shape is not None and len(shape) == 1 and isinstance(shape[0], int) else 1
    card = registry.get_card(node._type, node._version)
    if node._version == "extension":
        return max(_count_text_outputs(node, card), len(node._ports))
    stated = len(card.shape) if isinstance(card.shape, tuple) else 1
    return max(len(card.output_types), len(node._ports), stated)


def _count_text_outputs(node: NodeData, card: Card) -> int:
    """Return the number of outputs of an operation of OpenVINO Tokenizers."""
    if node._type == "Truncate":  # three inputs and three outputs for each ragged tensor
        return len(node._sources) - 3
    return len(card.output_types) + (_passes_flags(node, card) and "boolean" not in card.output_types)


def _passes_flags(node: NodeData, card: Card) -> bool:
    """Return whether the last output of an operation on strings is a flag of each string, as an input is."""
    return "u8" in card.output_types and any(
        source is not None and source.element_type == Type.boolean for source in node._sources
    )


def find_operation(node: NodeData) -> Operation | None:
    """Return the registered operation of a node; None if it is unsupported."""
    return registry.find(node._type, node._version)


def _find_types(node: NodeData, operation: Operation | None) -> list[ElementType | None]:
    """Return the element types of the outputs of a node."""
    if node._bodies:
        return [port.element_type for port in node._ports]
    if operation is not None and operation.is_custom:
        types = _run_on_zeros(node, operation)
        if types:
            return types
    inputs = [None if source is None else source._data.element_type for source in node._sources]
    count = count_outputs(node)
    types = get_output_types(node._type, operation or Card(), _bind_attributes(node, operation), inputs, count)
    if node._version == "extension" and operation is not None and _passes_flags(node, operation):
        types[-1] = ElementType.parse("boolean")
    return types


def _run_on_zeros(node: NodeData, operation: Operation) -> list[ElementType | None]:
    """Return the element types of the results of a kernel; none if it fails for small arrays of zeros."""
    arguments: list[Array | None] = []
    for source in node._sources:
        data = None if source is None else source._data
        if data is None or data.shape is None or data.element_type is None:
            return []
        shape = [int(size) if isinstance(size, int) else max(size.minimum, 1) for size in data.shape]
        arguments.append(np.broadcast_to(np.zeros((), data.element_type.dtype), shape))
    try:
        return [ElementType.of(result.dtype) for result in compute_node(node, arguments, operation)]
    except Exception:  # the kernel belongs to the user
        return []


def _bind_attributes(node: NodeData, operation: Operation | None) -> Mapping[str, Any]:
    """Return the attributes of a node, with defaults where its operation is known."""
    if operation is None:
        return node._attributes
    defaults = {attribute.name: attribute.default for attribute in operation.attributes if not attribute.required}
    try:
        return {**defaults, **operation.bind(node._attributes)}
    except IrrunError:
        return {**defaults, **node._attributes}


def compute_node(node: NodeData, arguments: Sequence[Array | None], operation: Operation | None = None) -> list[Array]:
    """Compute a node.

    Args:
        node: The node.
        arguments: The values of its inputs.
        operation: The registered operation; by default it is looked up.

    Returns:
        The values of its outputs.

    Raises:
        IrrunError: The kernel failed.
        RuntimeError: The operation is unsupported.
    """
    operation = operation or find_operation(node)
    if operation is None:
        raise RuntimeError(f"unsupported operation {node._type} of {node._version}")
    if node._bodies or operation.type in ("Parameter", "Result", "Constant"):
        return _compute_with_bodies(node, arguments)
    keywords = dict(operation.bind(node._attributes))
    for name, kind in operation.provided.items():
        if kind is OutputCount:
            keywords[name] = OutputCount(count_outputs(node))
        elif kind is Variables:
            keywords[name] = Variables()
        elif kind is not BodyRunner:
            keywords[name] = State()
    values = list(arguments)
    while values and values[-1] is None:
        values.pop()
    with np.errstate(all="ignore"):
        result = operation.kernel(*values, **keywords)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [np.asarray(value) for value in results]


def _compute_with_bodies(node: NodeData, arguments: Sequence[Array | None]) -> list[Array]:
    from irrun.runtime.compiled_model import CompiledModel

    layer = make_layer(node, 0)
    graph = Graph([layer])
    values = []
    for port, argument in zip(layer.inputs, arguments, strict=True):
        if argument is None:
            continue
        number = len(graph.layers)
        declared = Port(0, ElementType.of(argument.dtype), shapes.PartialShape(argument.shape))
        graph.layers.append(Layer(number, f"input{number}", "Parameter", outputs=[declared]))
        graph.edges.append(Edge(number, 0, 0, port.id))
        values.append(argument)
    for port in layer.outputs:
        graph.add_result(f"output{port.id}", (0, port.id))
    compiled = CompiledModel(Model(graph, Weights()), weights_memory=0, optimize=False, precision="declared")
    return list(compiled.create_infer_request().infer(dict(enumerate(values))).to_tuple())
