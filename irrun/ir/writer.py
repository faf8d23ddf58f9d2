"""Writing of models as IR v11, in the form that OpenVINO's serializer uses."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from irrun.activity import announce
from irrun.arguments import check_instance, check_path
from irrun.atomic_files import atomic_write
from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.graph import Body, Edge, Graph, Layer, Port, PortMapEntry
from irrun.ir.model import Model
from irrun.ir.reader import PORT_MAP_TAGS
from irrun.ir.structure import is_placeholder

__all__ = ["save_model"]

#: Constants are aligned to this many bytes, as by OpenVINO's serializer.
ALIGNMENT = 64

#: Constants may take this many times the bytes of the weights, since constants overlap.
OVERLAP_FACTOR = 8
#: Bytes of constants that are always allowed.
OVERLAP_ALLOWANCE = 1 << 20


def save_model(
    model: Model, path: str | os.PathLike[str], weights_path: str | os.PathLike[str] | None = None
) -> tuple[Path, Path]:
    """Write a model as IR v11. Equal constants share their bytes.

    Args:
        model: The model.
        path: The path of the .xml.
        weights_path: The path of the .bin; by default next to the .xml.

    Returns:
        The paths of the .xml and the .bin. Both files are written atomically: if one fails, neither is changed.

    Raises:
        ModelError: A constant is invalid, its weights are missing, or a file cannot be written.
    """
    from lxml import etree

    check_instance("model", model, Model, "a Model; read_model reads one")
    xml_path = Path(check_path("path", path, "the path of an .xml file"))
    if xml_path.suffix.lower() != ".xml":
        raise ModelError(f"expected a path that ends in .xml, found {xml_path}")
    bin_path = (
        Path(check_path("weights_path", weights_path)) if weights_path is not None else xml_path.with_suffix(".bin")
    )
    try:
        with (
            announce("writing", xml_path.name),
            atomic_write(bin_path) as weights_file,
            atomic_write(xml_path) as xml_file,
        ):
            root = _Writer(model, weights_file).write_net()
            etree.indent(root, "\t")
            etree.ElementTree(root).write(xml_file, xml_declaration=True, encoding="utf-8")
    except OSError as error:
        raise ModelError(f"cannot write {xml_path}: {error.strerror or error}") from error
    return xml_path, bin_path


class _Writer:
    """Builds the XML of a model and appends its constants to a .bin file.

    Args:
        model: The model.
        weights: The .bin file.
    """

    def __init__(self, model: Model, weights: BinaryIO) -> None:
        self.model = model
        self.weights = weights
        self.position = 0
        self.remaining = OVERLAP_ALLOWANCE + OVERLAP_FACTOR * len(model.weights)
        #: Positions of the constants that were written, by their bytes or by their offset and size in the weights.
        self.positions: dict[bytes | tuple[int, int], int] = {}

    def write_net(self) -> Any:
        """Return the root element."""
        from lxml import etree

        root = etree.Element("net", name=self.model.name, version="11")
        self.write_graph(root, self.model.graph)
        for text in (self.model.rt_info, self.model.meta_data):
            _append_text(root, text)
        return root

    def write_graph(self, parent: Any, graph: Graph) -> None:
        from lxml import etree

        graph = _number_ports_by_position(graph)
        layers = etree.SubElement(parent, "layers")
        for layer in graph.layers:
            self.write_layer(layers, layer)
        edges = etree.SubElement(parent, "edges")
        for edge in graph.edges:
            numbers = (str(n) for n in edge)
            names = ("from-layer", "from-port", "to-layer", "to-port")
            etree.SubElement(edges, "edge", dict(zip(names, numbers, strict=True)))
        if parent.tag != "net":
            _append_text(parent, graph.rt_info)

    def write_layer(self, parent: Any, layer: Layer) -> None:
        from lxml import etree

        element = etree.SubElement(parent, "layer", id=str(layer.id), name=layer.name)
        element.set("type", "Const" if layer.is_constant else layer.type)
        element.set("version", layer.version)
        if layer.is_output and layer.inputs and layer.inputs[0].names:
            element.set("output_names", _join_names(layer.inputs[0].names))
        attributes = self.format_attributes(layer)
        if attributes:
            etree.SubElement(element, "data", attributes)
        _append_text(element, layer.rt_info)
        for tag, ports in (("input", layer.inputs), ("output", layer.outputs)):
            if ports:
                section = etree.SubElement(element, tag)
                for port in ports:
                    _write_port(section, port, is_output=tag == "output")
        for tag, body in layer.bodies.items():
            self.write_body(element, tag, body)

    def format_attributes(self, layer: Layer) -> dict[str, str]:
        """Return the attributes of the `data` element of a layer."""
        attributes = {name: _format_value(value) for name, value in layer.attributes.items()}
        if layer.is_constant:
            attributes |= {"offset": "0", "size": "0"} if is_placeholder(layer) else self.write_constant(layer)
        if layer.is_input and layer.outputs:
            port = layer.outputs[0]
            attributes.setdefault("element_type", str(port.element_type or "dynamic"))
            attributes.setdefault("shape", "..." if port.shape is None else str(port.shape)[1:-1])
        return attributes

    def write_constant(self, layer: Layer) -> dict[str, str]:
        """Write the data of a Constant unless equal data were written before, and return its attributes."""
        constant = layer.constant
        if constant is None:
            raise ModelError("the constant has no valid value", line=layer.line or None, layer=layer.describe())
        if constant.data is None:
            self.model.weights.check_exists()
        data = constant.data or b"\0"  # OpenVINO requires at least one byte, even for an empty constant
        key = bytes(data) if constant.offset is None else (constant.offset, len(data))
        if key not in self.positions:
            if constant.offset is not None:
                self.count_overlap(layer, len(data))
            padding = -self.position % ALIGNMENT
            self.weights.write(b"\0" * padding)
            self.weights.write(data)
            self.positions[key] = self.position + padding
            self.position += padding + len(data)
        return {
            "element_type": constant.element_type.name,
            "shape": ",".join(map(str, constant.shape)),
            "offset": str(self.positions[key]),
            "size": str(len(data)),
        }

    def count_overlap(self, layer: Layer, size: int) -> None:
        """Subtract the size of a constant from the bytes that may still be written.

        Raises:
            ModelError: The constants overlap too much.
        """
        self.remaining -= size
        if self.remaining < 0:
            message = (
                f"constants overlap: they take more than {OVERLAP_FACTOR} times the {len(self.model.weights)} bytes "
                "of the weights"
            )
            raise ModelError(message, path=self.model.path, line=layer.line or None, layer=layer.describe())

    def write_body(self, parent: Any, tag: str, body: Body) -> None:
        from lxml import etree

        port_map = etree.SubElement(parent, PORT_MAP_TAGS[tag])
        for kind, entries in (("input", body.inputs), ("output", body.outputs)):
            for entry in entries:
                etree.SubElement(port_map, kind, _format_entry(entry))
        if body.back_edges:
            back_edges = etree.SubElement(parent, "back_edges")
            for edge in body.back_edges:
                ends = {"from-layer": str(edge.from_layer), "to-layer": str(edge.to_layer)}
                etree.SubElement(back_edges, "edge", ends)
        self.write_graph(etree.SubElement(parent, tag), body.graph)


def _number_ports_by_position(graph: Graph) -> Graph:
    """Return the graph with ports of layers that own bodies numbered consecutively, as OpenVINO assumes."""
    if not any(layer.bodies for layer in graph.layers):
        return graph
    layers = []
    inputs: dict[tuple[int, int], int] = {}
    outputs: dict[tuple[int, int], int] = {}
    for layer in graph.layers:
        if layer.bodies:
            input_ids = {port.id: i for i, port in enumerate(layer.inputs)}
            output_ids = {port.id: i for i, port in enumerate(layer.outputs, len(input_ids))}
            inputs.update(((layer.id, port), i) for port, i in input_ids.items())
            outputs.update(((layer.id, port), i) for port, i in output_ids.items())
            layer = _renumber_ports(layer, input_ids, output_ids)
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


def _renumber_ports(layer: Layer, input_ids: dict[int, int], output_ids: dict[int, int]) -> Layer:
    return replace(
        layer,
        inputs=[replace(port, id=input_ids[port.id]) for port in layer.inputs],
        outputs=[replace(port, id=output_ids[port.id]) for port in layer.outputs],
        bodies={
            tag: replace(
                body,
                inputs=_renumber_entries(body.inputs, input_ids),
                outputs=_renumber_entries(body.outputs, output_ids),
            )
            for tag, body in layer.bodies.items()
        },
    )


def _renumber_entries(entries: list[PortMapEntry], port_ids: dict[int, int]) -> list[PortMapEntry]:
    return [replace(entry, external_port_id=port_ids.get(entry.external_port_id, -1)) for entry in entries]


def _write_port(parent: Any, port: Port, is_output: bool) -> None:
    from lxml import etree

    element = etree.SubElement(parent, "port", id=str(port.id))
    if port.element_type is not None:
        element.set("precision", port.element_type.precision)
    elif is_output:  # OpenVINO requires a precision
        element.set("precision", "UNSPECIFIED")
    if is_output and port.names:
        element.set("names", _join_names(port.names))
    for dimension in port.shape or ():  # OpenVINO does not read bounds here; a Parameter has them in its `data`
        etree.SubElement(element, "dim").text = str(dimension) if isinstance(dimension, int) else "-1"
    if port.shape is None:
        etree.SubElement(element, "rank").text = "-1"
    _append_text(element, port.rt_info)


def _format_entry(entry: PortMapEntry) -> dict[str, str]:
    attributes = {"external_port_id": str(entry.external_port_id), "internal_layer_id": str(entry.internal_layer_id)}
    if entry.axis is not None:
        for name in ("axis", "start", "end", "stride", "part_size"):
            attributes[name] = str(getattr(entry, name))
    if entry.purpose:
        attributes["purpose"] = entry.purpose
    return attributes


def _join_names(names: tuple[str, ...]) -> str:
    return ",".join(n.replace(",", "\\,") for n in names)


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_format_value, value))
    return value.name if isinstance(value, ElementType) else str(value)


def _append_text(parent: Any, text: str | None) -> None:
    from lxml import etree

    if text is not None:
        parent.append(etree.fromstring(text))
