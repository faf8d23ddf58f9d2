"""Upgrading of a network of IR v2 to v7: its inputs, layers, results and TensorIterator bodies."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.graph import BackEdge, Body, Graph, Layer
from irrun.ir.legacy.builder import CONVERSIONS, SPELLINGS, Builder, convert_unknown
from irrun.ir.legacy.layer import F32, LegacyLayer, PortDeclaration, Value
from irrun.ir.legacy.memory import MemoryConverter
from irrun.ir.legacy.preprocess import normalize_input, select_input
from irrun.ir.legacy.xml_elements import (
    LayerElement,
    PortKey,
    create_error,
    find_children,
    read_edge,
    read_port_map_entry,
)
from irrun.ir.model import Model
from irrun.ir.structure import Finding, sort_layers
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

__all__ = ["read_legacy"]

#: The modules that register conversions when they are imported.
_CONVERSION_MODULES = (
    "activations",
    "arithmetic",
    "convolutions",
    "detection",
    "indexing",
    "matrix_products",
    "movement",
    "normalizations",
    "pooling",
    "recurrent",
    "reductions",
    "resizing",
)

for _module in _CONVERSION_MODULES:
    importlib.import_module(f"irrun.ir.legacy.{_module}")


def read_legacy(root: Any, version: int, weights: Weights, path: Path | None, findings: list[Finding]) -> Model:
    """Read a file of IR v2 to v7 and upgrade it to IR v11.

    Args:
        root: The `net` element.
        version: The version that the element states.
        weights: The weights.
        path: The path of the .xml, for error messages; None if it was not read from a file.
        findings: A list that receives problems of constants.

    Returns:
        The upgraded model.

    Raises:
        ModelError: The file is invalid.
    """
    try:
        reader = _GraphReader(root, version, weights, findings)
        reader.add_parameters()
        reader.normalize_input()
        reader.convert_layers()
        reader.memories.check_pairs()
        reader.add_results()
    except ModelError as error:
        error.path = error.path or path
        raise
    return Model(
        graph=reader.builder.graph,
        weights=weights,
        version=11,
        path=path,
        meta_data=_to_text(root.find("meta_data")),
        source_version=version,
    )


class _GraphReader:
    """Converts the layers of a `net` or `body` element one by one, in topological order.

    Attributes:
        root: The element.
        version: The IR version of the file.
        weights: The weights.
        precision: The precision that the element or an enclosing one states.
        memories: The Memory layers of the whole model.
        builder: The graph under construction.
        layers: The layers of the file, by id.
        order: The layers in topological order.
        sources: The output port that the edge into each input port comes from.
        values: The value of each output port.
        unconnected: The value of each input port without an edge.
    """

    def __init__(
        self,
        root: Any,
        version: int,
        weights: Weights,
        findings: list[Finding],
        precision: str | None = None,
        memories: MemoryConverter | None = None,
    ) -> None:
        self.root = root
        self.version = version
        self.weights = weights
        self.precision = root.get("precision") or precision
        self.memories = memories or MemoryConverter()
        self.builder = Builder(root.get("name", ""), weights, findings)
        self.values: dict[PortKey, Value] = {}
        self.unconnected: dict[PortKey, Value] = {}
        self.sources: dict[PortKey, PortKey] = {}
        self.layers: dict[int, LayerElement] = {}
        for child in find_children(root, "layers", "layer"):
            element = LayerElement.read(child, self.precision)
            if element.layer.id in self.layers:
                raise create_error(child, f"two layers have the id {element.layer.id}")
            self.layers[element.layer.id] = element
        edges = [read_edge(child) for child in find_children(root, "edges", "edge")]
        for edge in edges:
            self._check_port((edge.from_layer, edge.from_port), "outputs")
            self._check_port((edge.to_layer, edge.to_port), "inputs")
            self.sources[edge.to_layer, edge.to_port] = (edge.from_layer, edge.from_port)
        layers = sort_layers(Graph([element.layer for element in self.layers.values()], edges))
        self.order = [self.layers[layer.id] for layer in layers]

    def _check_port(self, port: PortKey, side: str) -> None:
        element = self.layers.get(port[0])
        if element is None:
            raise create_error(self.root, f"an edge refers to layer {port[0]}, which does not exist")
        if port[1] not in getattr(element, side):
            message = f"an edge refers to port {port[1]}, which is not one of its {side}"
            raise ModelError(message, line=element.layer.line or None, layer=element.layer.describe())

    def add_parameters(self) -> None:
        """Add Parameters for `Input` layers and then for input ports without an edge, as legacy readers did."""
        for element in self.order:
            if element.lowercase_type == "input":
                if len(element.outputs) != 1:
                    raise create_error(
                        element.element, f"an Input layer has {len(element.outputs)} outputs, expected one"
                    )
                ((port_id, declared),) = element.outputs.items()
                if (element.layer.id, port_id) not in self.values:
                    value = self._add_parameter(element.layer.name, declared, element.layer.line)
                    self.values[element.layer.id, port_id] = value
        for element in self.order:
            for position, (port_id, declared) in enumerate(sorted(element.inputs.items())):
                port = (element.layer.id, port_id)
                if port not in self.sources and port not in self.unconnected:
                    name = element.get_input_name(position)
                    self.unconnected[port] = self._add_parameter(name, declared, element.layer.line)

    def _add_parameter(self, name: str, declared: PortDeclaration, line: int) -> Value:
        self.builder.line = line
        element_type = declared.element_type or F32
        attributes = {"element_type": element_type, "shape": PartialShape(declared.shape)}
        outputs = [(element_type, declared.shape)]
        parameter = self.builder.add_layer("Parameter", [], outputs, attributes, name=name)
        (port,) = parameter.outputs
        port.names = (name,)
        return Value(parameter, port)

    def normalize_input(self) -> None:
        """Normalize the input that the `pre-process` element names."""
        element = self.root.find("pre-process")
        if element is None:
            return
        places = {
            value.layer.name: (values, port)
            for values in (self.unconnected, self.values)
            for port, value in values.items()
        }
        name = select_input(element, {key: values[port] for key, (values, port) in places.items()})
        self.builder.scope, self.builder.line = name, element.sourceline
        values, port = places[name]
        values[port] = normalize_input(self.builder, element, values[port], self.precision)

    def convert_layers(self) -> None:
        """Convert all layers except `Input` layers."""
        for element in self.order:
            if element.lowercase_type != "input":
                self._convert_layer(element)

    def _create_layer(self, element: LayerElement) -> LegacyLayer:
        """Return a layer with the values of its inputs."""
        source = element.layer
        layer_type = SPELLINGS.get(element.lowercase_type, source.type)
        layer = LegacyLayer(source.name, layer_type, self.version, source.line, source.attributes, weights=self.weights)
        layer.blobs = element.read_blobs()
        layer.outputs = [element.outputs[port.id] for port in source.outputs]
        for port in source.inputs:
            key = (source.id, port.id)
            layer.inputs.append(self.values[self.sources[key]] if key in self.sources else self.unconnected[key])
            layer.declared_inputs.append(element.inputs[port.id])
        return layer

    def _convert_layer(self, element: LayerElement) -> None:
        """Convert a layer, and name its outputs after it."""
        source = element.layer
        layer = self._create_layer(element)
        self.builder.scope, self.builder.line = source.name, source.line
        first_id = len(self.builder.graph.layers)
        values = self._apply_conversion(element, layer)
        if len(values) < len(source.outputs):
            raise layer.make_error(f"has {len(source.outputs)} outputs, expected {len(values)}")
        for i, (port, declared) in enumerate(zip(source.outputs, layer.outputs, strict=True)):
            value = self._convert_to_declared(values[i], declared)
            name = element.get_output_name(i)
            if value.layer.id >= first_id and value.layer.name != source.name:
                has_all_outputs = len(value.layer.outputs) == len(source.outputs)
                value.layer.name = source.name if has_all_outputs else name
            if name not in value.port.names:
                value.port.names = (*value.port.names, name)
            if value.port.shape is None and declared.shape:
                value.port.shape = PartialShape(declared.shape)
            self.values[source.id, port.id] = value

    def _apply_conversion(self, element: LayerElement, layer: LegacyLayer) -> list[Value]:
        """Return the values of the outputs of a layer."""
        if element.lowercase_type == "tensoriterator":
            return _IteratorReader(self, element, layer).convert()
        if element.lowercase_type == "memory":
            return self.memories.convert(self.builder, layer)
        if element.lowercase_type not in CONVERSIONS:
            return convert_unknown(self.builder, layer)
        try:
            result = CONVERSIONS[element.lowercase_type](self.builder, layer)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise layer.make_error(f"ports, blobs and attributes are inconsistent: {error}") from error
        return [result] if isinstance(result, Value) else list(result)

    def _convert_to_declared(self, value: Value, declared: PortDeclaration) -> Value:
        """Convert booleans to the type that the file declares, and all types to the type declared by the port."""
        if declared.element_type is None or value.element_type is None or value.element_type == declared.element_type:
            return value
        if value.element_type.name == "boolean" or declared.explicit:
            return self.builder.convert(value, declared.element_type)
        return value

    def add_results(self) -> None:
        """Add a Result for each output port without a consumer."""
        producers = set(self.sources.values())
        for element in self.layers.values():
            for i, port in enumerate(element.layer.outputs):
                key = (element.layer.id, port.id)
                if key not in producers and element.lowercase_type not in ("input", "const"):
                    self._add_result(self.values[key], element.get_output_name(i), element.layer.line)

    def _add_result(self, value: Value, name: str, line: int) -> Layer:
        self.builder.line = line
        return self.builder.add_layer("Result", [value], [], name=f"{name}/sink_port_0")

    def add_body_parameter(self, port: PortKey, element_type: ElementType | None) -> Layer:
        """Add a Parameter for a port that an input of the port map refers to.

        Args:
            port: An input port without an edge, or the output port of an `Input` layer.
            element_type: The type of the value; None for the declared one.

        Returns:
            The Parameter.

        Raises:
            ModelError: The port does not exist or has an edge.
        """
        element = self.layers.get(port[0])
        is_input = element is not None and element.lowercase_type == "input"
        declared = None if element is None else (element.outputs if is_input else element.inputs).get(port[1])
        if element is None or declared is None or port in self.sources:
            raise create_error(
                self.root, f"a port map refers to port {port[1]} of layer {port[0]}, which is not an input of the body"
            )
        name = element.layer.name if is_input else f"{element.layer.name}/{port[1]}"
        declared = replace(declared, element_type=element_type or declared.element_type)
        value = self._add_parameter(name, declared, element.layer.line)
        (self.values if is_input else self.unconnected)[port] = value
        return value.layer

    def add_body_result(self, port: PortKey) -> Layer:
        """Add a Result for an output port that the port map or a back edge names.

        Args:
            port: The output port.

        Returns:
            The Result.

        Raises:
            ModelError: The port does not exist.
        """
        element = self.layers.get(port[0])
        if element is None or port[1] not in element.outputs:
            raise create_error(
                self.root, f"a port map refers to port {port[1]} of layer {port[0]}, which is not an output of the body"
            )
        name = element.get_output_name(sorted(element.outputs).index(port[1]))
        return self._add_result(self.values[port], name, element.layer.line)


class _IteratorReader:
    """Converts a TensorIterator.

    In legacy files the port map and the back edges name ports of any layers of the body. These ports get Parameters
    and Results.

    Attributes:
        parent: The reader of the graph that the layer belongs to.
        element: The layer in the file.
        layer: The layer with the values of its inputs.
        reader: The reader of the body.
        body: The body.
        parameters: The Parameter of each port that an input of the port map refers to.
        results: The Result of each port that an output of the port map or a back edge names.
    """

    def __init__(self, parent: _GraphReader, element: LayerElement, layer: LegacyLayer) -> None:
        root = element.element.find("body")
        if root is None:
            raise layer.make_error("requires the element <body>")
        self.parent, self.element, self.layer = parent, element, layer
        self.reader = _GraphReader(
            root, parent.version, parent.weights, parent.builder.findings, element.precision, parent.memories
        )
        self.body = Body(self.reader.builder.graph)
        self.parameters: dict[PortKey, Layer] = {}
        self.results: dict[PortKey, Layer] = {}

    def convert(self) -> list[Value]:
        """Return the values of the outputs of the layer.

        Raises:
            ModelError: The body, the port map or a back edge is invalid.
        """
        self._map_inputs()
        self.reader.convert_layers()
        layer = self.layer
        outputs = [(declared.element_type, declared.shape) for declared in layer.outputs]
        iterator = self.parent.builder.add_layer("TensorIterator", layer.inputs, outputs, name=layer.name)
        self._map_outputs(iterator)
        self._add_back_edges()
        iterator.bodies["body"] = self.body
        return [Value(iterator, port) for port in iterator.outputs]

    def _map_inputs(self) -> None:
        """Read the inputs of the port map, and add the Parameters of the body."""
        positions = {port.id: i for i, port in enumerate(self.element.layer.inputs)}
        for child in self.element.element.iterfind("port_map/input"):
            entry, port = read_port_map_entry(child)
            if entry.external_port_id not in positions:
                raise self.layer.make_error(
                    f"the port map refers to input port {entry.external_port_id}, which does not exist"
                )
            if port in self.parameters:
                raise self.layer.make_error(
                    f"two inputs of the port map name port {port[1]} of layer {port[0]} of the body"
                )
            entry.external_port_id = positions[entry.external_port_id]
            parameter = self.reader.add_body_parameter(port, self.layer.inputs[entry.external_port_id].element_type)
            self.parameters[port] = parameter
            entry.internal_layer_id = parameter.id
            self.body.inputs.append(entry)
        self.reader.add_parameters()
        missing = self.body.graph.find_layers("Parameter")[len(self.parameters) :]
        if missing:
            raise self.layer.make_error(f"no input of the port map refers to the input {missing[0].name!r} of the body")

    def _map_outputs(self, iterator: Layer) -> None:
        """Read the outputs of the port map, and set the types of the outputs of the converted layer."""
        port_ids = sorted(self.element.outputs)
        for child in self.element.element.iterfind("port_map/output"):
            entry, port = read_port_map_entry(child)
            if entry.external_port_id not in port_ids:
                raise self.layer.make_error(
                    f"the port map refers to output port {entry.external_port_id}, which does not exist"
                )
            output = iterator.outputs[port_ids.index(entry.external_port_id)]
            result = self._get_result(port)
            (declared,) = result.inputs
            output.element_type = declared.element_type
            entry.external_port_id, entry.internal_layer_id = output.id, result.id
            self.body.outputs.append(entry)

    def _add_back_edges(self) -> None:
        for edge in map(read_edge, self.element.element.iterfind("back_edges/edge")):
            parameter = self.parameters.get((edge.to_layer, edge.to_port))
            if parameter is None:
                raise self.layer.make_error(
                    f"a back edge leads to port {edge.to_port} of layer {edge.to_layer}, "
                    "which no input of the port map refers to"
                )
            result = self._get_result((edge.from_layer, edge.from_port))
            self.body.back_edges.append(BackEdge(result.id, parameter.id, self.layer.line))

    def _get_result(self, port: PortKey) -> Layer:
        if port not in self.results:
            self.results[port] = self.reader.add_body_result(port)
        return self.results[port]


def _to_text(element: Any) -> str | None:
    if element is None:
        return None
    from lxml import etree

    return str(etree.tostring(element, encoding="unicode", with_tail=False))
