"""Reading of IR v10 and v11, and of legacy IR by `irrun.ir.legacy`."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irrun._lazy import get_provider
from irrun.activity import announce
from irrun.arguments import check_flag, check_path
from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.garbage import pause_collection
from irrun.ir.constant import Constant
from irrun.ir.file_kinds import is_onnx
from irrun.ir.graph import BackEdge, Body, Edge, Graph, Layer, Port, PortMapEntry
from irrun.ir.model import Model
from irrun.ir.structure import Finding, check_model, compare_shapes, compare_types, is_placeholder, raise_findings
from irrun.ir.weights import Weights, WeightsSource
from irrun.ir.xml import MAX_ATTRIBUTES, parse_bytes, parse_file
from irrun.numerals import is_decimal, parse_integer
from irrun.shapes import MAX_RANK, Dimension, PartialShape, parse_dimension, parse_shape

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["PORT_MAP_TAGS", "read_findings", "read_model"]

#: The tag of the port map of each body, by the tag of the body.
PORT_MAP_TAGS = {"body": "port_map", "then_body": "then_port_map", "else_body": "else_port_map"}

#: Attributes of a Constant that `Layer.constant` holds instead.
CONSTANT_ATTRIBUTES = ("element_type", "shape", "offset", "size")

#: The spelling of types that the reader and the executor handle themselves, by their lower case.
STRUCTURAL_TYPES = {"const": "Constant", "constant": "Constant", "parameter": "Parameter", "result": "Result"}

#: Names that represent an unknown element type.
UNTYPED = ("UNSPECIFIED", "undefined", "dynamic")
#: The layer that OpenVINO's ONNX front end writes for an omitted input, read as a Constant without a type.
NULL_NODE = "NullNode"

#: The attributes of an edge, in the order of the fields of `Edge`.
EDGE_ATTRIBUTES = ("from-layer", "from-port", "to-layer", "to-port")

_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


def read_model(
    model: str | os.PathLike[str] | bytes, weights: WeightsSource | None = None, *, check: bool = True
) -> Model:
    """Read a model. Nothing is computed, and weights are mapped into memory instead of read.

    Args:
        model: The path of an .xml or .onnx file, or its content as bytes. The operators of an ONNX model are converted
            to OpenVINO operations.
        weights: A path, bytes or an array; by default the .bin next to the .xml.
        check: Whether to check the structure: edges, port maps and cycles, and that the weights exist.

    Raises:
        ModelError: A file cannot be read or is invalid.
        UnsupportedError: OpenVINO's operations cannot express nodes of an ONNX model; the message lists all of them.
    """
    result, findings = read_findings(model, weights, check=check)
    raise_findings(findings, result.path)
    return result


def read_findings(
    model: str | os.PathLike[str] | bytes,
    weights: WeightsSource | None = None,
    *,
    check: bool = True,
    contradictions: list[Finding] | None = None,
) -> tuple[Model, list[Finding]]:
    """Read a model that may be invalid.

    Args:
        model: The path of the .xml, or its content as bytes.
        weights: A path, bytes or an array; by default the .bin next to the .xml.
        check: Whether to check the structure: edges, port maps and cycles, and that the weights exist.
        contradictions: A list that receives the ports whose declarations contradict the attributes of their layer. Such
            models can run.

    Returns:
        The model without its invalid parts, and the errors that were found.

    Raises:
        ModelError: A file cannot be read, or the .xml is not a model.
    """
    if not isinstance(model, bytes):
        expected = "a Model, the path of an .xml file, or its content as bytes"
        model = check_path("model", model, expected, accepts_null=True)
    check = check_flag("check", check)
    with pause_collection(), announce("reading", "" if isinstance(model, bytes) else os.path.basename(model)):
        return _read_findings(model, weights, check, contradictions)


def _read_findings(
    model: str | os.PathLike[str] | bytes,
    weights: WeightsSource | None,
    check: bool,
    contradictions: list[Finding] | None,
) -> tuple[Model, list[Finding]]:
    path = None if isinstance(model, bytes) else Path(model)
    source = model if isinstance(model, bytes) else Path(model)
    if is_onnx(source):
        if weights is not None:
            raise ModelError("separate weights are not accepted for an ONNX model", path=path)
        imported: Model = get_provider("read_onnx")(source)
        return imported, list(check_model(imported)) if check else []
    root = parse_bytes(model) if isinstance(model, bytes) else parse_file(Path(model))
    if root.tag.lower() != "net":  # <Net> in some of the oldest files
        raise ModelError(f"expected the root element <net>, found <{root.tag}>", path=path, line=root.sourceline)
    version = _read_version(root, path)
    opened_weights = Weights.open(weights, path)
    reader = _Reader(opened_weights, contradictions)
    if version < 10:
        from irrun.ir.legacy import read_legacy

        result = read_legacy(root, version, opened_weights, path, reader.findings)
    else:
        result = Model(
            graph=reader.read_graph(root),
            weights=opened_weights,
            version=version,
            path=path,
            rt_info=_read_child_text(root, "rt_info"),
            meta_data=_read_child_text(root, "meta_data"),
            source_version=version,
        )
    if check:
        reader.findings.extend(check_model(result))
    return result, reader.findings


def _read_version(root: etree._Element, path: Path | None) -> int:
    text = root.get("version", "10")
    if not _is_integer(text) or not 2 <= int(text) <= 11:
        raise ModelError(f"expected an IR version from 2 to 11, found {text!r}", path=path, line=root.sourceline)
    return int(text)


class _Reader:
    """Converts elements to the classes of `irrun.ir.graph`.

    Args:
        weights: The weights of the model.
        contradictions: A list that receives contradictory declarations, or None.

    Attributes:
        findings: The errors; the model omits the elements that cause them.
    """

    def __init__(self, weights: Weights, contradictions: list[Finding] | None = None) -> None:
        self.weights = weights
        self.contradictions = contradictions
        self.findings: list[Finding] = []

    def read_graph(self, root: Any) -> Graph:
        """Read the layers and edges inside a `net` or a body."""
        graph = Graph(name=root.get("name", ""))
        for section in root:
            tag = section.tag
            if tag == "layers":
                for element in section.iterchildren("layer"):
                    layer = self.read_layer(element)
                    if layer is not None:
                        graph.layers.append(layer)
            elif tag == "edges":
                for line, edge in self.read_edges(section):
                    graph.edges.append(edge)
                    graph.edge_lines.append(line)
            elif tag == "rt_info":
                graph.rt_info = _serialize(section)
        if root.find("layers") is None:
            self.add_finding(root, f"<{root.tag}> has no <layers>")
        return graph

    def read_edges(self, section: Any) -> Iterator[tuple[int, Edge]]:
        """Yield the line of each edge, and the edge."""
        for element in section.iterchildren("edge"):
            get = element.get
            try:
                edge = Edge(*(parse_integer(get(name, "")) for name in EDGE_ATTRIBUTES))
            except ValueError:
                attributes = {name: get(name) for name in EDGE_ATTRIBUTES}
                self.add_finding(element, f"expected four integers in an edge, found {attributes}")
                continue
            yield element.sourceline, edge

    def read_layer(self, element: Any) -> Layer | None:
        get = element.get
        layer_type, layer_id = get("type"), get("id")
        if not layer_type or layer_id is None or not _is_integer(layer_id):
            message = f"expected a layer with a type and an integer id, found type={layer_type!r} id={layer_id!r}"
            self.add_finding(element, message)
            return None
        layer_type = STRUCTURAL_TYPES.get(layer_type.lower(), layer_type)
        layer = Layer(int(layer_id), get("name", ""), layer_type, get("version") or "opset1", line=element.sourceline)
        bodies: dict[str, Any] = {}
        for child in element:
            if child.tag in PORT_MAP_TAGS:
                if child.tag in bodies:
                    self.add_finding(child, f"expected one <{child.tag}>, found another", layer)
                bodies.setdefault(child.tag, child)
            else:
                self.read_layer_child(child, layer)
        for tag, child in bodies.items():
            layer.bodies[tag] = self.read_body(element, child, tag, layer)
        for body in layer.bodies.values():
            _replace_positions_by_ids(body.inputs, layer.inputs)
            _replace_positions_by_ids(body.outputs, layer.outputs)
        if layer_type == NULL_NODE:
            layer_type = layer.type = "Constant"
            layer.version, layer.attributes = "opset1", {"element_type": "dynamic", "shape": "0"}
        if layer_type == "Parameter":
            self.read_declaration(element, layer)
        elif layer_type == "Constant":
            self.read_declaration(element, layer)
            self.read_constant(element, layer)
        elif layer_type == "Result" and layer.inputs and get("output_names"):
            layer.inputs[0].names = _split_names(get("output_names"))
        return layer

    def read_layer_child(self, child: Any, layer: Layer) -> None:
        tag = child.tag
        if tag == "data":
            if len(child.attrib) > MAX_ATTRIBUTES:
                message = f"expected at most {MAX_ATTRIBUTES} attributes, found {len(child.attrib)}"
                self.add_finding(child, message, layer)
            else:
                layer.attributes = dict(child.attrib)
        elif tag == "input":
            layer.inputs += self.read_ports(child, layer)
        elif tag == "output":
            layer.outputs += self.read_ports(child, layer)
        elif tag == "rt_info":
            layer.rt_info = _serialize(child)

    def read_ports(self, section: Any, layer: Layer) -> list[Port]:
        ports = []
        for element in section.iterchildren("port"):
            port_id = element.get("id")
            if port_id is None or not _is_integer(port_id):
                self.add_finding(element, f"expected a port with an integer id, found {port_id!r}", layer)
                continue
            port = Port(int(port_id))
            precision, names = element.get("precision"), element.get("names")
            if precision and precision not in UNTYPED:
                try:
                    port.element_type = ElementType.parse(precision)
                except ValueError as error:
                    self.add_finding(element, str(error), layer)
            if names:
                port.names = _split_names(names)
            port.shape = self.read_dimensions(element, port, layer)
            ports.append(port)
        return ports

    def read_dimensions(self, element: Any, port: Port, layer: Layer) -> PartialShape | None:
        dimensions, is_valid = [], True
        for child in element:
            tag, text = child.tag, child.text
            if tag == "dim":
                try:
                    is_plain = text and is_decimal(text) and len(text) < 20
                    dimensions.append(int(text) if is_plain else parse_dimension(text or ""))
                except ValueError as error:
                    self.add_finding(child, str(error), layer)
                    is_valid = False
            elif tag == "rank":  # a dynamic rank is written as <rank>-1</rank> or <rank>?</rank>
                return None
            elif tag == "rt_info":
                port.rt_info = _serialize(child)
        if len(dimensions) > MAX_RANK:
            self.add_finding(element, f"expected at most {MAX_RANK} dimensions, found {len(dimensions)}", layer)
            return None
        return _make_shape(tuple(dimensions)) if is_valid else None

    def read_declaration(self, element: Any, layer: Layer) -> None:
        """Override the declaration of the output port by the attributes `element_type` and `shape`."""
        if not layer.outputs:
            layer.outputs = [Port(0)]
        port, attributes = layer.outputs[0], layer.attributes
        declared = Port(port.id, port.element_type, port.shape)
        try:
            if attributes.get("element_type", "dynamic") not in ("dynamic", "undefined"):
                port.element_type = ElementType.parse(attributes["element_type"])
            if "shape" in attributes:
                port.shape = parse_shape(attributes["shape"])
        except ValueError as error:
            self.add_finding(element, str(error), layer)
            return
        if self.contradictions is not None:
            for on_port, in_data in (compare_types(declared, port), compare_shapes(declared, port)):
                if on_port:
                    message = f"its output port {port.id} declares {on_port}, its <data> declares {in_data}"
                    line = element.find("output/port").sourceline
                    self.contradictions.append(Finding(line, layer.describe(), message))

    def read_constant(self, element: Any, layer: Layer) -> None:
        """Set the value of a Constant, and remove the attributes that describe it."""
        if is_placeholder(layer):
            return
        try:
            layer.constant = self.make_constant(layer)
        except ModelError as error:
            self.add_finding(element, error.message, layer)
            return
        for name in CONSTANT_ATTRIBUTES:
            layer.attributes.pop(name, None)

    def make_constant(self, layer: Layer) -> Constant:
        """Return the value that the attributes and the output port of a Constant describe.

        Raises:
            ModelError: Its type or shape is unknown, its size does not match them, or it is outside of the weights.
        """
        element_type, shape = layer.outputs[0].element_type, layer.outputs[0].shape
        if element_type is None or shape is None or not shape.is_static:
            declared = f"{element_type or 'no type'}{'[...]' if shape is None else shape}"
            raise ModelError(f"expected a constant with an element type and a static shape, found {declared}")
        try:
            offset = parse_integer(layer.attributes.get("offset", "0"))
            size = parse_integer(layer.attributes["size"]) if "size" in layer.attributes else None
        except ValueError:
            raise ModelError("expected integers as offset and size of a constant") from None
        dimensions = tuple(int(d) for d in shape if isinstance(d, int))
        return Constant.from_weights(self.weights, element_type, dimensions, offset, size)

    def read_body(self, owner: Any, element: Any, tag: str, layer: Layer) -> Body:
        body = Body(self.read_graph(element))
        layers = {inner.id: inner for inner in body.graph.layers}
        port_map = owner.find(PORT_MAP_TAGS[tag])
        for child in port_map if port_map is not None else ():
            entry = self.read_port_map_entry(child, layer)
            if entry is not None:
                (body.inputs if child.tag == "input" else body.outputs).append(entry)
                if "part_size" not in child.attrib:
                    entry.part_size = _infer_part_size(entry, layers.get(entry.internal_layer_id))
        back_edges = owner.find("back_edges") if tag == "body" else None
        for edge in back_edges if back_edges is not None else ():
            try:
                body.back_edges.append(
                    BackEdge(
                        parse_integer(edge.get("from-layer", "")),
                        parse_integer(edge.get("to-layer", "")),
                        edge.sourceline,
                    )
                )
            except ValueError:
                self.add_finding(edge, "expected integers as from-layer and to-layer of a back edge", layer)
        return body

    def read_port_map_entry(self, element: Any, layer: Layer) -> PortMapEntry | None:
        if element.tag not in ("input", "output"):
            self.add_finding(element, f"expected <input> or <output> in a port map, found <{element.tag}>", layer)
            return None
        numbers = {}
        for name in ("external_port_id", "internal_layer_id", "axis", "start", "end", "stride", "part_size"):
            text = element.get(name)
            if text is not None:
                if not _is_integer(text):
                    self.add_finding(element, f"expected an integer as {name} of a port map, found {text!r}", layer)
                    return None
                numbers[name] = int(text)
        if "internal_layer_id" not in numbers or "external_port_id" not in numbers:
            message = "expected external_port_id and internal_layer_id in a port map entry"
            self.add_finding(element, message, layer)
            return None
        purpose = element.get("purpose", "")
        return PortMapEntry(**numbers, purpose=purpose, line=element.sourceline)

    def add_finding(self, element: Any, message: str, layer: Layer | None = None) -> None:
        self.findings.append(Finding(element.sourceline, layer.describe() if layer else "", message))


def _replace_positions_by_ids(entries: list[PortMapEntry], ports: list[Port]) -> None:
    """Replace positions of ports in a port map, as in the specification's example of If-8, by port ids.

    OpenVINO interprets all port numbers of inputs as positions; in the files that it writes, ids and positions agree.
    """
    ids = [port.id for port in ports]
    referenced = {entry.external_port_id for entry in entries} - {-1}
    if not referenced.issubset(ids) and referenced.issubset(range(len(ids))):
        for entry in entries:
            if entry.external_port_id != -1:
                entry.external_port_id = ids[entry.external_port_id]


def _infer_part_size(entry: PortMapEntry, inner: Layer | None) -> int:
    """Return the part size of an entry that omits it: the stride if the inner layer declares that size, otherwise 1."""
    step, axis = abs(entry.stride), entry.axis
    if axis is None or step == 1 or inner is None:
        return 1
    shape = next((port.shape for port in (*inner.outputs, *inner.inputs)), None)
    return step if shape and -len(shape) <= axis < len(shape) and shape[axis] == step else 1


@functools.lru_cache(maxsize=4096)
def _make_shape(dimensions: tuple[Dimension, ...]) -> PartialShape:
    """Return a shape, which the ports of a model share."""
    return PartialShape(dimensions)


def _is_integer(text: str) -> bool:
    text = text.strip()
    return len(text) < 20 and is_decimal(text.removeprefix("-"))


def _split_names(text: str) -> tuple[str, ...]:
    if "\\" not in text:
        return tuple(n for n in text.split(",") if n)
    return tuple(n.replace("\\,", ",") for n in _UNESCAPED_COMMA.split(text) if n)


def _read_child_text(root: Any, tag: str) -> str | None:
    child = root.find(tag)
    return None if child is None else _serialize(child)


def _serialize(element: Any) -> str:
    from lxml import etree

    return str(etree.tostring(element, encoding="unicode", with_tail=False))
