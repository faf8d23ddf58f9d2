"""Conversion between irrun's models of layers and edges and graphs of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from irrun.ir.graph import Edge, Graph, Port
from irrun.ir.model import Model as IrModel
from irrun.ir.structure import is_placeholder, sort_layers
from irrun.ir.weights import Weights
from irrun.openvino.layers import make_layer
from irrun.openvino.node import Node, Output, PortData
from irrun.openvino.runtime_info import format_rt_info
from irrun.ops._support import registry

__all__ = ["GraphParts", "apply_edits", "list_nodes", "make_ir", "read_graph", "sort_nodes"]


class GraphParts:
    """The nodes of a graph.

    Attributes:
        nodes: All nodes in topological order.
        parameters: The Parameters.
        results: The Results.
        sinks: The Assigns.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.parameters = [node for node in nodes if node._type == "Parameter"]
        self.results = [node for node in nodes if node._type == "Result"]
        self.sinks = [node for node in nodes if node._type == "Assign"]


def read_graph(model: IrModel) -> GraphParts:
    """Convert a model of irrun to nodes.

    Args:
        model: The model, which keeps no reference to the nodes.

    Returns:
        The nodes. Parameters and Results have the order of the file.
    """
    sources: dict[tuple[int, int], tuple[int, int]] = {
        (e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in model.graph.edges
    }
    outputs: dict[tuple[int, int], Output | None] = {}
    nodes: dict[int, Node] = {}
    for layer in sort_layers(model.graph):
        if layer.type == "Constant" and layer.outputs and is_placeholder(layer):
            outputs[layer.id, layer.outputs[0].id] = None
            continue
        arguments = [outputs.get(sources.get((layer.id, port.id), (-1, -1))) for port in layer.inputs]
        while arguments and arguments[-1] is None and layer.type != "Result":
            arguments.pop()
        operation = registry.find(layer.type, layer.version)
        node_type = operation.type if operation is not None and operation.opset is None else layer.type
        node = Node(node_type, layer.version, arguments, layer.attributes, layer.name)
        node._ports = [_make_port_data(port) for port in layer.outputs]
        node._bodies = layer.bodies
        if layer.bodies:
            node._body_port_ids = (
                {port.id: i for i, port in enumerate(layer.inputs)},
                {port.id: i for i, port in enumerate(layer.outputs)},
            )
        node._constant = layer.constant
        node._rt_info_text = layer.rt_info
        node._line = layer.line
        if layer.type == "Result":
            node._ports = [PortData(names=layer.inputs[0].names if layer.inputs else ())]
        for i, port in enumerate(layer.outputs):
            outputs[layer.id, port.id] = Output(node, i)
        nodes[layer.id] = node
    order = [nodes[layer.id] for layer in model.graph.layers if layer.id in nodes]
    parts = GraphParts(order)
    if model.source_version <= 10:
        _name_tensors(parts)
    for node in (*parts.parameters, *parts.results):
        _read_layout(node)
    return parts


def _make_port_data(port: Port) -> PortData:
    return PortData(port.element_type, port.shape, port.names, port.rt_info)


def _name_tensors(parts: GraphParts) -> None:
    """Name inputs and outputs after their layers, as OpenVINO does for files without tensor names."""
    for parameter in parts.parameters:
        parameter._ports[0].names.add(parameter.get_friendly_name())
    for result in parts.results:
        source = result._sources[0]
        if source is not None:
            producer = source._node
            name = producer.get_friendly_name()
            if len(producer._ports) > 1:
                name = f"{name}.{source._index}"
            output = Output(result, 0)
            output.set_names(output.names | {name})


def _read_layout(node: Node) -> None:
    """Read the layout of a Parameter or Result from the `rt_info` element of the layer or the port of its tensor."""
    for text in (node._rt_info_text, node._get_port(0).rt_info_text):
        if text and "layout" in text:
            from irrun.ir.xml import parse_bytes

            for attribute in parse_bytes(text.encode()).iter("attribute"):
                if attribute.get("name") == "layout" and attribute.get("layout"):
                    node.layout = attribute.get("layout")


def sort_nodes(roots: Iterable[Node], parameters: Iterable[Node] = ()) -> list[Node]:
    """Return all nodes that some nodes depend on, in topological order.

    Args:
        roots: The Results and Assigns.
        parameters: Parameters to include even if nothing depends on them.
    """
    order: dict[int, Node] = {}
    for root in (*roots, *parameters):
        stack: list[tuple[Node, int]] = [(root, 0)]
        while stack:
            node, position = stack.pop()
            if node._id in order:
                continue
            while position < len(node._sources):
                source = node._sources[position]
                position += 1
                if source is not None and source._node._id not in order:
                    stack.append((node, position))
                    stack.append((source.node, 0))
                    break
            else:
                order[node._id] = node
    return list(order.values())


def make_ir(
    parameters: Sequence[Node],
    results: Sequence[Node],
    sinks: Sequence[Node],
    name: str,
    *,
    weights: Weights | None = None,
    rt_info: dict[str, Any] | None = None,
    path: Path | None = None,
) -> IrModel:
    """Convert nodes to a model of irrun.

    Args:
        parameters: The Parameters, in the order of the inputs.
        results: The Results, in the order of the outputs.
        sinks: The Assigns.
        name: The name of the model.
        weights: The weights that constants are views of.
        rt_info: Runtime information of the model.
        path: The file that the model was read from.
    """
    nodes = list_nodes(parameters, results, sinks)
    known = {node._id: i for i, node in enumerate(nodes)}
    graph = Graph(name=name)
    for i, node in enumerate(nodes):
        graph.layers.append(make_layer(node, i))
        for index, source in enumerate(node._sources):
            if source is None:
                continue
            if source._node._id not in known:
                raise RuntimeError(f"Model references undeclared parameters: {source._node.get_friendly_name()}")
            producer = source._node
            port = len(producer._sources) + source._index
            graph.edges.append(Edge(known[producer._id], port, i, index))
    for node in parameters:
        _write_layout(node, graph.layers[known[node._id]].outputs[0])
    for node in results:
        source = node._sources[0]
        if source is not None:
            _write_layout(node, graph.layers[known[source._node._id]].outputs[source._index])
    return IrModel(graph, weights or Weights(), path=path, rt_info=format_rt_info(rt_info or {}))


def list_nodes(parameters: Sequence[Node], results: Sequence[Node], sinks: Sequence[Node]) -> list[Node]:
    """Return the nodes of a model in the order of the layers that `make_ir` creates."""
    inner = [n for n in sort_nodes([*results, *sinks], parameters) if n._type not in ("Parameter", "Result")]
    return [*parameters, *inner, *results]


def apply_edits(nodes: Sequence[Node], graph: Graph) -> Callable[[], None]:
    """Change nodes as a graph was edited that `make_ir` made of them.

    Args:
        nodes: The nodes, from `list_nodes`.
        graph: The edited graph. Its first layers have the positions of the nodes as ids.

    Returns:
        A function that undoes the changes.
    """
    by_id = dict(enumerate(nodes))
    ports = {layer.id: layer for layer in graph.layers}
    sources = {(e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges}
    previous: list[tuple[Node, list[Output | None], dict[str, Any]]] = []

    def get_output(layer_id: int, port_id: int) -> Output:
        position = next(i for i, port in enumerate(ports[layer_id].outputs) if port.id == port_id)
        return Output(by_id[layer_id], position)

    for layer in sort_layers(graph):
        node = by_id.get(layer.id)
        arguments = [sources.get((layer.id, port.id)) for port in layer.inputs]
        outputs = [None if address is None else get_output(*address) for address in arguments]
        if node is None:
            node = by_id[layer.id] = Node(layer.type, layer.version, outputs, layer.attributes, layer.name)
            node._ports = [_make_port_data(port) for port in layer.outputs]
            node._constant = layer.constant
            continue
        is_same = all(
            a is b or (a is not None and b is not None and a._key == b._key)
            for a, b in zip(outputs, node._sources, strict=False)
        )
        changes = {name: value for name, value in layer.attributes.items() if node._attributes.get(name) != value}
        if layer.type in ("Parameter", "Constant") or (is_same and not changes):
            continue
        previous.append((node, list(node._sources), dict(node._attributes)))
        node._attributes.update(changes)
        for i, output in enumerate(outputs):
            node._set_source(i, output)

    def undo() -> None:
        for node, old_sources, attributes in previous:
            node._attributes = attributes
            for i, source in enumerate(old_sources):
                node._set_source(i, source)

    return undo


def _write_layout(node: Node, port: Port) -> None:
    """Add the layout of a Parameter or Result to the `rt_info` element of the port of its tensor."""
    if not node._layout.empty:
        text = re.sub(r'<attribute [^>]*name="layout"[^>]*/>', "", port.rt_info or "")
        if "</rt_info>" not in text:
            text = "<rt_info></rt_info>"
        attribute = f'<attribute name="layout" version="0" layout="{node._layout}" />'
        port.rt_info = text.replace("</rt_info>", f"{attribute}</rt_info>")
