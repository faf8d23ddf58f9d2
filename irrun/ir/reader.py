"""Reads IR v10 and v11 into a Model; older versions go through `legacy`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.ir.model import BackEdge, Body, Edge, Graph, Layer, Model, Port, PortMapEntry
from irrun.ir.structure import Finding, check_model, is_placeholder, raise_first
from irrun.ir.weights import Weights, WeightsSource
from irrun.ir.xml import MOST_ATTRIBUTES, parse_bytes, parse_file
from irrun.shapes import PartialShape, parse_dimension, parse_shape

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["read_findings", "read_model"]

#: Element names of bodies, with the element that holds each one's port map.
BODIES = {"body": "port_map", "then_body": "then_port_map", "else_body": "else_port_map"}

_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


def read_model(
    model: str | os.PathLike[str] | bytes, weights: WeightsSource | None = None, *, check: bool = True
) -> Model:
    """Read a model; nothing is computed, and weights are mapped rather than read.

    Args:
        model: the path of the .xml, or its content as bytes.
        weights: a path, bytes or an array; the .bin beside the .xml where left out.
        check: whether the structure is checked (edges, port maps, cycles, constants).

    Raises:
        ModelError: the file cannot be read, or says something that cannot be.
    """
    found, findings = read_findings(model, weights, check=check)
    raise_first(findings, found.path)
    return found


def read_findings(
    model: str | os.PathLike[str] | bytes, weights: WeightsSource | None = None, *, check: bool = True
) -> tuple[Model, list[Finding]]:
    """Like `read_model`, but what is wrong with the structure is collected instead of raised.

    Raises:
        ModelError: there is no XML of a model to look into at all.
    """
    path = None if isinstance(model, bytes) else Path(model)
    root = parse_bytes(model) if isinstance(model, bytes) else parse_file(Path(model))
    if root.tag.lower() != "net":  # some of the oldest files have <Net>
        raise ModelError(f"the root element is <{root.tag}>, expected <net>", path=path, line=root.sourceline)
    version = _net_version(root, path)
    stored = Weights.open(weights, path)
    reader = _Reader(stored)
    if version < 10:
        from irrun.ir.legacy import read_legacy

        found = read_legacy(root, version, stored, path, reader.findings)
    else:
        found = Model(
            graph=reader.graph(root),
            weights=stored,
            version=version,
            path=path,
            rt_info=_child_text(root, "rt_info"),
            meta_data=_child_text(root, "meta_data"),
            source_version=version,
        )
    if check:
        reader.findings.extend(check_model(found))
    return found, reader.findings


def _net_version(root: etree._Element, path: Path | None) -> int:
    text = root.get("version", "10")
    if not _is_integer(text) or not 2 <= int(text) <= 11:
        raise ModelError(f"IR version {text!r} is not known, expected 2 to 11", path=path, line=root.sourceline)
    return int(text)


class _Reader:
    """Turns elements into the classes of `model`; what cannot be is noted in `findings` and left out."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.findings: list[Finding] = []

    def graph(self, root: Any) -> Graph:
        """The layers and edges below a `net` or `body` element."""
        graph = Graph(name=root.get("name", ""))
        for section in root:
            tag = section.tag
            if tag == "layers":
                for element in section.iterchildren("layer"):
                    layer = self.layer(element)
                    if layer is not None:
                        graph.layers.append(layer)
            elif tag == "edges":
                graph.edges.extend(self.edges(section))
            elif tag == "rt_info":
                graph.rt_info = _text(section)
        if root.find("layers") is None:
            self.note(root, f"<{root.tag}> has no <layers>")
        return graph

    def edges(self, section: Any) -> Iterator[Edge]:
        for element in section.iterchildren("edge"):
            get = element.get
            try:
                yield Edge(int(get("from-layer")), int(get("from-port")), int(get("to-layer")), int(get("to-port")))
            except (TypeError, ValueError):
                shown = {k: get(k) for k in ("from-layer", "from-port", "to-layer", "to-port")}
                self.note(element, f"an edge needs four integers, found {shown}")

    def layer(self, element: Any) -> Layer | None:
        get = element.get
        type, text = get("type"), get("id")
        line = element.sourceline or 0
        if not type or text is None or not _is_integer(text):
            self.note(element, f"a layer needs a type and an integer id, found type={type!r} id={text!r}")
            return None
        if type == "Const":
            type = "Constant"
        layer = Layer(int(text), get("name", ""), type, get("version") or "opset1", line=line)
        for child in element:
            tag = child.tag
            if tag == "data":
                if len(child.attrib) > MOST_ATTRIBUTES:
                    self.note(child, f"{len(child.attrib)} attributes, expected at most {MOST_ATTRIBUTES}", layer)
                else:
                    layer.attributes = dict(child.attrib)
            elif tag == "input":
                layer.inputs += self.ports(child, layer)
            elif tag == "output":
                layer.outputs += self.ports(child, layer)
            elif tag == "rt_info":
                layer.rt_info = _text(child)
            elif tag in BODIES:
                layer.bodies[tag] = self.body(element, child, tag, layer)
        for body in layer.bodies.values():
            _name_ports(body.inputs, layer.inputs)
            _name_ports(body.outputs, layer.outputs)
        if type in ("Parameter", "Constant"):
            self.take_declaration(element, layer)
            if type == "Constant" and not is_placeholder(layer):
                try:
                    layer.constant = self.constant(layer)
                except ModelError as error:
                    self.note(element, error.message, layer)
        elif type == "Result" and layer.inputs and get("output_names"):
            layer.inputs[0].names = _split_names(get("output_names"))
        return layer

    def ports(self, section: Any, layer: Layer) -> list[Port]:
        found = []
        for element in section.iterchildren("port"):
            text = element.get("id")
            if text is None or not _is_integer(text):
                self.note(element, f"a port needs an integer id, found {text!r}", layer)
                continue
            port = Port(int(text))
            precision, names = element.get("precision"), element.get("names")
            if precision and precision not in ("UNSPECIFIED", "undefined", "dynamic"):
                try:
                    port.element_type = ElementType.parse(precision)
                except ValueError as error:
                    self.note(element, str(error), layer)
            if names:
                port.names = _split_names(names)
            port.shape = self.dimensions(element, port, layer)
            found.append(port)
        return found

    def dimensions(self, element: Any, port: Port, layer: Layer) -> PartialShape | None:
        found = []
        for child in element:
            tag, text = child.tag, child.text
            if tag == "dim":
                try:
                    is_plain = text and text.isdecimal() and len(text) < 20
                    found.append(int(text) if is_plain else parse_dimension(text or ""))
                except ValueError as error:
                    self.note(child, str(error), layer)
            elif tag == "rank":  # a shape of unknown rank has <rank>-1</rank> or <rank>?</rank>
                return None
            elif tag == "rt_info":
                port.rt_info = _text(child)
        return PartialShape(found)

    def take_declaration(self, element: Any, layer: Layer) -> None:
        """`element_type` and `shape` of `data` say what the output port is; without them the port says it."""
        if not layer.outputs:
            layer.outputs = [Port(0)]
        port, attributes = layer.outputs[0], layer.attributes
        try:
            if "element_type" in attributes and attributes["element_type"] not in ("dynamic", "undefined"):
                port.element_type = ElementType.parse(attributes["element_type"])
            if "shape" in attributes:
                port.shape = parse_shape(attributes["shape"])
        except ValueError as error:
            self.note(element, str(error), layer)

    def constant(self, layer: Layer) -> Constant:
        """Return the value of a Constant, and remove the attributes that describe it.

        Raises:
            ModelError: Its type or shape is unknown, or its bytes do not match them or lie outside of the weights.
        """
        port, attributes = layer.outputs[0], layer.attributes
        element_type, shape = port.element_type, port.shape
        if element_type is None or shape is None or not shape.is_static:
            shown = "none" if shape is None else shape
            raise ModelError(f"a constant needs an element type and a static shape, found {element_type}{shown}")
        try:
            offset = int(attributes.get("offset", 0))
            size = int(attributes["size"]) if "size" in attributes else None
        except ValueError:
            raise ModelError("offset and size of a constant must be integers") from None
        dimensions = tuple(d for d in shape if isinstance(d, int))
        constant = Constant.from_weights(self.weights, element_type, dimensions, offset, size)
        for name in ("element_type", "shape", "offset", "size"):
            attributes.pop(name, None)
        return constant

    def body(self, owner: Any, element: Any, tag: str, layer: Layer) -> Body:
        body = Body(self.graph(element))
        layers = {inner.id: inner for inner in body.graph.layers}
        port_map = owner.find(BODIES[tag])
        for entry in port_map if port_map is not None else ():
            found = self.port_map_entry(entry, layer)
            if found is not None:
                (body.inputs if entry.tag == "input" else body.outputs).append(found)
                if "part_size" not in entry.attrib:
                    found.part_size = _part_size(found, layers.get(found.internal_layer_id))
        back_edges = owner.find("back_edges") if tag == "body" else None
        for edge in back_edges if back_edges is not None else ():
            try:
                body.back_edges.append(
                    BackEdge(int(edge.get("from-layer")), int(edge.get("to-layer")), edge.sourceline or 0)
                )
            except (TypeError, ValueError):
                self.note(edge, "a back edge needs integers from-layer and to-layer", layer)
        return body

    def port_map_entry(self, element: Any, layer: Layer) -> PortMapEntry | None:
        if element.tag not in ("input", "output"):
            self.note(element, f"<{element.tag}> in a port map, expected <input> or <output>", layer)
            return None
        numbers = {}
        for name in ("external_port_id", "internal_layer_id", "axis", "start", "end", "stride", "part_size"):
            text = element.get(name)
            if text is not None:
                if not _is_integer(text):
                    self.note(element, f"{name}={text!r} of a port map is no integer", layer)
                    return None
                numbers[name] = int(text)
        if "internal_layer_id" not in numbers or "external_port_id" not in numbers:
            self.note(element, "a port map entry needs external_port_id and internal_layer_id", layer)
            return None
        purpose = element.get("purpose", "")
        return PortMapEntry(**numbers, purpose=purpose, line=element.sourceline or 0)

    def note(self, element: Any, message: str, layer: Layer | None = None) -> None:
        self.findings.append(Finding(element.sourceline or 0, layer.describe() if layer else "", message))


def _name_ports(entries: list[PortMapEntry], ports: list[Port]) -> None:
    """Put port ids into port maps that number the ports from 0, as the outputs of If-8's example do.

    OpenVINO takes the numbers of inputs for positions in all files; its own have ids that are their positions.
    """
    ids = [port.id for port in ports]
    named = {entry.external_port_id for entry in entries} - {-1}
    if not named.issubset(ids) and named.issubset(range(len(ids))):
        for entry in entries:
            if entry.external_port_id != -1:
                entry.external_port_id = ids[entry.external_port_id]


def _part_size(entry: PortMapEntry, inner: Layer | None) -> int:
    """The size of parts where the file does not give it: the stride, if the body's own layer declares that; else 1."""
    step, axis = abs(entry.stride), entry.axis
    if axis is None or step == 1 or inner is None:
        return 1
    shape = next((port.shape for port in (*inner.outputs, *inner.inputs)), None)
    return step if shape and -len(shape) <= axis < len(shape) and shape[axis] == step else 1


def _is_integer(text: str) -> bool:
    text = text.strip()
    return len(text) < 20 and (text.isdecimal() or (text[:1] == "-" and text[1:].isdecimal()))


def _split_names(text: str) -> tuple[str, ...]:
    if "\\" not in text:
        return tuple(n for n in text.split(",") if n)
    return tuple(n.replace("\\,", ",") for n in _UNESCAPED_COMMA.split(text) if n)


def _child_text(root: Any, tag: str) -> str | None:
    child = root.find(tag)
    return None if child is None else _text(child)


def _text(element: Any) -> str:
    from lxml import etree

    return str(etree.tostring(element, encoding="unicode", with_tail=False))
