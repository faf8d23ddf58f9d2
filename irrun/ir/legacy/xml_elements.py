"""The XML elements of IR v2 to v7: layers, ports, blobs, edges and port maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from irrun import numerals
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError
from irrun.ir.graph import Edge, Layer, Port, PortMapEntry
from irrun.ir.legacy.layer import F32, Blob, PortDeclaration
from irrun.ir.xml import MAX_ATTRIBUTES
from irrun.shapes import MAX_RANK, PartialShape

__all__ = [
    "LayerElement",
    "PortKey",
    "create_error",
    "find_children",
    "parse_float",
    "parse_int",
    "parse_precision",
    "read_edge",
    "read_port_map_entry",
]

#: The elements that hold the attributes of a layer in the oldest files, instead of `data`.
_DATA_TAGS = {
    "fullyconnected": ("fc", "fc_data"),
    "innerproduct": ("fc", "fc_data"),
    "norm": ("lrn", "norm", "norm_data"),
    "lrn": ("lrn", "norm", "norm_data"),
    "crop": ("crop", "crop-data"),
    "batchnormalization": ("batch_norm", "batch_norm_data"),
    "eltwise": ("elementwise", "elementwise_data"),
}

#: A port: the id of its layer and its own id, as in the file.
PortKey = tuple[int, int]


def find_children(parent: Any, section: str, tag: str) -> Sequence[Any]:
    """Return the children of a section of an element.

    Args:
        parent: The element.
        section: Tag of the section, such as "layers", which may be missing.
        tag: Tag of the children, such as "layer".

    Returns:
        The children, in the order of the file.
    """
    element = parent.find(section)
    return [] if element is None else list(element.iterchildren(tag))


@dataclass
class LayerElement:
    """A `layer` element.

    Attributes:
        element: The XML element.
        layer: The layer, with the ids, attributes and ports of the file. Its ports are ordered by their ids.
        precision: The precision of the layer: its own, or from the enclosing element or the first output.
        inputs: The declarations of the input ports, by port id.
        outputs: The declarations of the output ports, by port id.
    """

    element: Any
    layer: Layer
    precision: str | None
    inputs: dict[int, PortDeclaration] = field(default_factory=dict)
    outputs: dict[int, PortDeclaration] = field(default_factory=dict)

    @staticmethod
    def read(element: Any, precision: str | None) -> LayerElement:
        """Read a `layer` element.

        Args:
            element: The XML element.
            precision: The precision that the enclosing element states, if any.

        Returns:
            The layer.

        Raises:
            ModelError: The type is missing, or a number is invalid.
        """
        layer_type = element.get("type")
        if not layer_type:
            raise create_error(element, "a layer requires the attribute type")
        layer_id = parse_int(element, "id", element.get("id"))
        layer = Layer(layer_id, element.get("name", ""), layer_type, "legacy", line=element.sourceline)
        layer.attributes = _read_attributes(element, layer_type)
        # In late files of IR v7 only ports and blobs have a precision.
        port = element.find("output/port[@precision]")
        port_precision = None if port is None else port.get("precision")
        result = LayerElement(element, layer, element.get("precision") or precision or port_precision)
        result._read_ports()
        return result

    def _read_ports(self) -> None:
        for section, ports in (("input", self.inputs), ("output", self.outputs)):
            for port in find_children(self.element, section, "port"):
                precision = port.get("precision")
                shape = tuple(parse_int(d, "dimension", d.text) for d in port.iterchildren("dim"))
                if len(shape) > MAX_RANK or any(size >= 1 << 63 for size in shape):
                    raise create_error(
                        port,
                        f"expected at most {MAX_RANK} dimensions below 2^63, found {len(shape)}: {list(shape[:8])}",
                    )
                if any(size < 0 for size in shape):
                    raise create_error(port, f"the shape {list(shape)} has a negative dimension")
                port_id = parse_int(port, "port id", port.get("id"))
                element_type = _get_compute_type(port, precision or self.precision)
                ports[port_id] = PortDeclaration(element_type, shape, explicit=bool(precision))
        self.layer.inputs = [Port(i, d.element_type, PartialShape(d.shape)) for i, d in sorted(self.inputs.items())]
        self.layer.outputs = [Port(i, d.element_type, PartialShape(d.shape)) for i, d in sorted(self.outputs.items())]

    @property
    def lowercase_type(self) -> str:
        """The type in lower case; legacy readers ignored case."""
        return self.layer.type.lower()

    def get_output_name(self, position: int) -> str:
        """Return the name of an output: the name of the layer, with a number if the layer has several outputs."""
        name = self.layer.name
        return name if len(self.layer.outputs) == 1 else f"{name}.{position}"

    def get_input_name(self, position: int) -> str:
        """Return the name of an input without an edge: the name of the layer, numbered if it has several inputs."""
        return self.layer.name if len(self.layer.inputs) == 1 else f"{self.layer.name}.{position}"

    def read_blobs(self) -> dict[str, Blob]:
        """Return the blobs of the layer, by name.

        Raises:
            ModelError: An offset, size or precision is invalid.
        """
        element, precision = self.element, self.precision
        if self.lowercase_type == "const":
            port = element.find("output/port")
            precision = (port.get("precision") if port is not None else None) or precision
        blob_elements = [*element.iterchildren("biases"), *element.iterchildren("weights")]
        section = element.find("blobs")
        blob_elements += [] if section is None else [child for child in section if isinstance(child.tag, str)]
        blobs = {}
        for blob in blob_elements:
            size, offset = (parse_int(blob, name, blob.get(name, "0")) for name in ("size", "offset"))
            if size:
                element_type = parse_precision(blob, blob.get("precision") or precision) or F32
                blobs[blob.tag] = Blob(element_type, offset, size)
        return blobs


def _get_compute_type(element: Any, precision: str | None) -> ElementType | None:
    """Return the element type that a precision is computed in: f32 for FP16."""
    element_type = parse_precision(element, precision)
    return F32 if element_type is not None and element_type.name == "f16" else element_type


def _read_attributes(element: Any, layer_type: str) -> dict[str, str]:
    """Return the attributes of a layer. The `crop` elements of the oldest Crop layers become lists."""
    kind = layer_type.lower()
    tags = (*_DATA_TAGS.get(kind, ()), "data", f"{kind}_data", kind)
    data = next((child for child in (element.find(tag) for tag in tags) if child is not None), None)
    if data is None:
        return {}
    if len(data.attrib) > MAX_ATTRIBUTES:
        raise create_error(data, f"{len(data.attrib)} attributes, expected at most {MAX_ATTRIBUTES}")
    attributes = dict(data.attrib)
    crops = list(data.iterchildren("crop")) if kind == "crop" else []
    for name in ("axis", "offset", "dim") if crops else ():
        if name != "dim" or all(crop.get(name) is not None for crop in crops):
            attributes[name] = ",".join(crop.get(name, "0") for crop in crops)
    return attributes


def read_port_map_entry(element: Any) -> tuple[PortMapEntry, PortKey]:
    """Read an entry of a port map.

    Args:
        element: An `input` or `output` element.

    Returns:
        The entry, with the ids of the file, and the port of the body that it names.

    Raises:
        ModelError: An attribute is missing or not an integer.
    """

    def read_int(name: str, default: str | None = None) -> int:
        return parse_int(element, name, element.get(name, default))

    axis = read_int("axis", "-1")
    port = (read_int("internal_layer_id"), read_int("internal_port_id", "0"))
    stride = read_int("stride", "1")
    start, end = ("0", "-1") if stride > 0 else ("-1", "0")
    entry = PortMapEntry(
        external_port_id=read_int("external_port_id"),
        internal_layer_id=port[0],
        axis=None if axis < 0 else axis,
        start=read_int("start", start),
        end=read_int("end", end),
        stride=stride,
        part_size=abs(stride),  # legacy plugins ignored the attribute part_size
        line=element.sourceline,
    )
    return entry, port


def read_edge(element: Any) -> Edge:
    """Read an edge or a back edge, with the ids of the file.

    Args:
        element: An `edge` element.

    Returns:
        The edge.

    Raises:
        ModelError: An attribute is missing or not an integer.
    """
    names = ("from-layer", "from-port", "to-layer", "to-port")
    return Edge(*(parse_int(element, name, element.get(name)) for name in names))


def parse_precision(element: Any, text: str | None) -> ElementType | None:
    """Parse a precision.

    Args:
        element: The element that states it, for the error message.
        text: A precision such as "FP16".

    Returns:
        The element type, or None if the precision does not determine it.

    Raises:
        ModelError: The precision is unknown.
    """
    if text is None or text in ("UNSPECIFIED", "MIXED", ""):
        return None
    if text == "BIN":
        return ELEMENT_TYPES["u1"]
    try:
        return ElementType.parse(text)
    except ValueError as error:
        raise create_error(element, str(error)) from None


def parse_int(element: Any, name: str, text: str | None) -> int:
    """Parse an integer.

    Args:
        element: The element that states it, for the error message.
        name: The name of the integer in error messages.
        text: The integer.

    Returns:
        The integer.

    Raises:
        ModelError: The text is missing or not an integer.
    """
    try:
        return numerals.parse_integer(text or "")
    except ValueError:
        raise create_error(element, f"{name} {text!r} of <{element.tag}> is not an integer") from None


def parse_float(element: Any, text: str) -> float:
    """Parse a number.

    Args:
        element: The element that states it, for the error message.
        text: The number.

    Returns:
        The number.

    Raises:
        ModelError: The text is not a number.
    """
    try:
        return numerals.parse_float(text)
    except ValueError:
        raise create_error(element, f"{text!r} of <{element.tag}> is not a number") from None


def create_error(element: Any, message: str) -> ModelError:
    """Return a ModelError with the line of an element.

    Args:
        element: The element that is invalid.
        message: The message.

    Returns:
        The error.
    """
    return ModelError(message, line=element.sourceline)
