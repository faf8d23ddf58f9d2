"""Model -> XML + .bin, in the form that OpenVINO's own serializer gives (IR v11)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.files import atomic_write
from irrun.ir.model import Body, Edge, Graph, Layer, Model, Port, PortMapEntry
from irrun.ir.reader import BODIES
from irrun.ir.structure import is_placeholder

__all__ = ["save_model"]

#: Constants begin at multiples of this many bytes, as OpenVINO's serializer places them.
ALIGNMENT = 64


def save_model(
    model: Model, path: str | os.PathLike[str], weights_path: str | os.PathLike[str] | None = None
) -> tuple[Path, Path]:
    """Write a model as IR v11; equal constants share their bytes.

    Args:
        model: as read, or made.
        path: the .xml.
        weights_path: the .bin; beside the .xml where left out.

    Returns:
        The two paths. Either both files are written whole, or neither is touched.

    Raises:
        ModelError: a constant does not fit its weights, or a file cannot be written.
    """
    from lxml import etree

    xml_path = Path(path)
    if xml_path.suffix.lower() != ".xml":
        raise ModelError(f"a model is written to an .xml, not to {xml_path}")
    bin_path = Path(weights_path) if weights_path is not None else xml_path.with_suffix(".bin")
    try:
        with atomic_write(bin_path) as weights_file, atomic_write(xml_path) as xml_file:
            root = _Writer(model, weights_file).net()
            etree.indent(root, "\t")
            etree.ElementTree(root).write(xml_file, xml_declaration=True, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"cannot write {xml_path}: {error.strerror or error}") from error
    return xml_path, bin_path


class _Writer:
    """Builds the XML and appends constants to the .bin as it meets them."""

    def __init__(self, model: Model, weights: BinaryIO) -> None:
        self.model = model
        self.weights = weights
        self.position = 0
        #: Bytes of the model's own weights that may still be written: constants that overlap could take any amount.
        self.left = (1 << 20) + 8 * len(model.weights)
        self.places: dict[Any, int] = {}

    def net(self) -> Any:
        from lxml import etree

        root = etree.Element("net", name=self.model.name, version="11")
        self.graph(root, self.model.graph)
        for text in (self.model.rt_info, self.model.meta_data):
            _append(root, text)
        return root

    def graph(self, parent: Any, graph: Graph) -> None:
        from lxml import etree

        graph = _by_position(graph)
        layers = etree.SubElement(parent, "layers")
        for layer in graph.layers:
            self.layer(layers, layer)
        edges = etree.SubElement(parent, "edges")
        for edge in graph.edges:
            numbers = (str(n) for n in edge)
            names = ("from-layer", "from-port", "to-layer", "to-port")
            etree.SubElement(edges, "edge", dict(zip(names, numbers, strict=True)))
        if parent.tag != "net":
            _append(parent, graph.rt_info)

    def layer(self, parent: Any, layer: Layer) -> None:
        from lxml import etree

        type = "Const" if layer.type == "Constant" else layer.type  # OpenVINO reads the bytes of Const only
        element = etree.SubElement(parent, "layer", id=str(layer.id), name=layer.name, type=type)
        element.set("version", layer.version)
        if layer.type == "Result" and layer.inputs and layer.inputs[0].names:
            element.set("output_names", _joined(layer.inputs[0].names))
        attributes = self.attributes(layer)
        if attributes:
            etree.SubElement(element, "data", attributes)
        _append(element, layer.rt_info)
        for tag, ports in (("input", layer.inputs), ("output", layer.outputs)):
            if ports:
                section = etree.SubElement(element, tag)
                for port in ports:
                    _port(section, port, is_output=tag == "output")
        for tag, body in layer.bodies.items():
            self.body(element, tag, body)

    def attributes(self, layer: Layer) -> dict[str, str]:
        attributes = {name: _text(value) for name, value in layer.attributes.items()}
        if layer.type == "Constant":
            attributes |= {"offset": "0", "size": "0"} if is_placeholder(layer) else self.constant(layer)
        if layer.type == "Parameter" and layer.outputs:
            port = layer.outputs[0]
            attributes.setdefault("element_type", str(port.element_type or "dynamic"))
            attributes.setdefault("shape", "..." if port.shape is None else str(port.shape)[1:-1])
        return attributes

    def constant(self, layer: Layer) -> dict[str, str]:
        """Write the data of a Constant unless equal data were written before, and return its attributes."""
        constant = layer.constant
        if constant is None:
            raise ModelError("the layer has no constant", line=layer.line or None, layer=layer.describe())
        if constant.data is None:
            self.model.weights.check_exists()
        data = constant.data or b"\0"  # OpenVINO requires a byte behind each constant, empty ones too
        key = bytes(data) if constant.offset is None else (constant.offset, len(data))
        if key not in self.places:
            if constant.offset is not None:
                self.left -= len(data)
                if self.left < 0:
                    length = len(self.model.weights)
                    told = f"constants overlap: they take more than 8 times the {length} bytes of the weights"
                    raise ModelError(told, path=self.model.path, line=layer.line or None, layer=layer.describe())
            self.weights.write(b"\0" * (-self.position % ALIGNMENT))
            self.position += -self.position % ALIGNMENT
            self.weights.write(data)
            self.places[key] = self.position
            self.position += len(data)
        return {
            "element_type": constant.element_type.name,
            "shape": ",".join(map(str, constant.shape)),
            "offset": str(self.places[key]),
            "size": str(len(data)),
        }

    def body(self, parent: Any, tag: str, body: Body) -> None:
        from lxml import etree

        port_map = etree.SubElement(parent, BODIES[tag])
        for kind, entries in (("input", body.inputs), ("output", body.outputs)):
            for entry in entries:
                etree.SubElement(port_map, kind, _entry(entry))
        if body.back_edges:
            back_edges = etree.SubElement(parent, "back_edges")
            for edge in body.back_edges:
                ends = {"from-layer": str(edge.from_layer), "to-layer": str(edge.to_layer)}
                etree.SubElement(back_edges, "edge", ends)
        self.graph(etree.SubElement(parent, tag), body.graph)


def _by_position(graph: Graph) -> Graph:
    """The graph with the ports of layers that own bodies numbered in order: OpenVINO takes port maps to do that."""
    if not any(layer.bodies for layer in graph.layers):
        return graph
    layers = []
    inputs: dict[tuple[int, int], int] = {}
    outputs: dict[tuple[int, int], int] = {}
    for layer in graph.layers:
        if layer.bodies:
            ins = {port.id: i for i, port in enumerate(layer.inputs)}
            outs = {port.id: i for i, port in enumerate(layer.outputs, len(ins))}
            inputs.update(((layer.id, port), i) for port, i in ins.items())
            outputs.update(((layer.id, port), i) for port, i in outs.items())
            layer = replace(
                layer,
                inputs=[replace(port, id=ins[port.id]) for port in layer.inputs],
                outputs=[replace(port, id=outs[port.id]) for port in layer.outputs],
                bodies={
                    tag: replace(body, inputs=_entries(body.inputs, ins), outputs=_entries(body.outputs, outs))
                    for tag, body in layer.bodies.items()
                },
            )
        layers.append(layer)
    edges = [
        Edge(
            edge.from_layer,
            outputs.get((edge.from_layer, edge.from_port), edge.from_port),
            edge.to_layer,
            inputs.get((edge.to_layer, edge.to_port), edge.to_port),
        )
        for edge in graph.edges
    ]
    return replace(graph, layers=layers, edges=edges)


def _entries(entries: list[PortMapEntry], ports: dict[int, int]) -> list[PortMapEntry]:
    return [replace(entry, external_port_id=ports.get(entry.external_port_id, -1)) for entry in entries]


def _port(parent: Any, port: Port, is_output: bool) -> None:
    from lxml import etree

    element = etree.SubElement(parent, "port", id=str(port.id))
    if port.element_type is not None:
        element.set("precision", port.element_type.precision)
    elif is_output:  # where OpenVINO wants one
        element.set("precision", "UNSPECIFIED")
    if is_output and port.names:
        element.set("names", _joined(port.names))
    for dimension in port.shape or ():  # OpenVINO reads no bounds here; a Parameter's stand in its `data`
        etree.SubElement(element, "dim").text = str(dimension) if isinstance(dimension, int) else "-1"
    if port.shape is None:
        etree.SubElement(element, "rank").text = "-1"
    _append(element, port.rt_info)


def _entry(entry: PortMapEntry) -> dict[str, str]:
    found = {"external_port_id": str(entry.external_port_id), "internal_layer_id": str(entry.internal_layer_id)}
    if entry.axis is not None:
        for name in ("axis", "start", "end", "stride", "part_size"):
            found[name] = str(getattr(entry, name))
    if entry.purpose:
        found["purpose"] = entry.purpose
    return found


def _joined(names: tuple[str, ...]) -> str:
    return ",".join(n.replace(",", "\\,") for n in names)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return value.name if isinstance(value, ElementType) else str(value)


def _append(parent: Any, text: str | None) -> None:
    from lxml import etree

    if text is not None:
        parent.append(etree.fromstring(text))
