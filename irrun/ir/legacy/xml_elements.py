"""The elements of IR v2 to v7: layers, ports, blobs, edges, port maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError
from irrun.ir.legacy.layer import F32, Blob, Declared
from irrun.ir.model import Edge, Layer, Port, PortMapEntry
from irrun.ir.xml import MOST_ATTRIBUTES
from irrun.shapes import PartialShape

__all__ = [
    "End",
    "RawLayer",
    "attributes_of",
    "children",
    "integer",
    "malformed",
    "number",
    "read_edge",
    "read_map_entry",
    "stored_type",
]

#: Where the attributes of a layer are, besides `data`, in the oldest files.
_DATA_TAGS = {
    "fullyconnected": ("fc", "fc_data"),
    "innerproduct": ("fc", "fc_data"),
    "norm": ("lrn", "norm", "norm_data"),
    "lrn": ("lrn", "norm", "norm_data"),
    "crop": ("crop", "crop-data"),
    "batchnormalization": ("batch_norm", "batch_norm_data"),
    "eltwise": ("elementwise", "elementwise_data"),
}

End = tuple[int, int]  #: a layer and one of its ports, by their ids in the file


def children(parent: Any, section: str, tag: str) -> Sequence[Any]:
    """The `tag` elements in the `section` of an element; none where it has no such section."""
    found = parent.find(section)
    return [] if found is None else list(found.iterchildren(tag))


@dataclass
class RawLayer:
    """A layer as the XML has it, its ports ordered by their ids.

    Attributes:
        precision: what its element states, or what encloses it, or its first output (late files of IR v7).
        inputs, outputs: what its ports declare, by their ids.
    """

    element: Any
    layer: Layer
    precision: str | None
    inputs: dict[int, Declared] = field(default_factory=dict)
    outputs: dict[int, Declared] = field(default_factory=dict)

    @staticmethod
    def read(element: Any, precision: str | None) -> RawLayer:
        """From a `layer` element.

        Raises:
            ModelError: it has no type, or numbers that are none.
        """
        kind = element.get("type")
        if not kind:
            raise malformed(element, "a layer needs a type")
        id = integer(element, "id", element.get("id"))
        layer = Layer(id, element.get("name", ""), kind, "legacy", line=element.sourceline or 0)
        layer.attributes = attributes_of(element, kind)
        first = element.find("output/port[@precision]")
        inferred = None if first is None else first.get("precision")
        raw = RawLayer(element, layer, element.get("precision") or precision or inferred)
        for section, found in (("input", raw.inputs), ("output", raw.outputs)):
            for port in children(element, section, "port"):
                stated = port.get("precision")
                shape = tuple(integer(d, "dimension", d.text) for d in port.iterchildren("dim"))
                if any(n < 0 for n in shape):
                    raise malformed(port, f"the shape {list(shape)} has a negative dimension")
                port_id = integer(port, "port id", port.get("id"))
                type = used_type(port, stated or raw.precision)
                found[port_id] = Declared(type, shape, explicit=bool(stated))
        layer.inputs = [Port(i, d.type, PartialShape(d.shape)) for i, d in sorted(raw.inputs.items())]
        layer.outputs = [Port(i, d.type, PartialShape(d.shape)) for i, d in sorted(raw.outputs.items())]
        return raw

    @property
    def kind(self) -> str:
        """Its type in lower case: old readers did not tell cases apart."""
        return self.layer.type.lower()

    def data_name(self, position: int) -> str:
        """What old readers called the data of an output: the layer's name, numbered where there are several."""
        name = self.layer.name
        return name if len(self.layer.outputs) == 1 else f"{name}.{position}"

    def input_name(self, port_id: int) -> str:
        """The same for an input that no edge leads into."""
        ids = [p.id for p in self.layer.inputs]
        return self.layer.name if len(ids) == 1 else f"{self.layer.name}.{ids.index(port_id)}"

    def blobs(self) -> dict[str, Blob]:
        """The segments of the .bin that belong to it, by name."""
        element, stated = self.element, self.precision
        if self.kind == "const":
            port = element.find("output/port")
            stated = (port.get("precision") if port is not None else None) or stated
        segments = [*element.iterchildren("biases"), *element.iterchildren("weights")]
        section = element.find("blobs")
        segments += [] if section is None else [e for e in section if isinstance(e.tag, str)]
        found = {}
        for segment in segments:
            size, offset = (integer(segment, k, segment.get(k, "0")) for k in ("size", "offset"))
            if size:
                type = stored_type(segment, segment.get("precision") or stated) or F32
                found[segment.tag] = Blob(type, offset, size)
        return found


def used_type(element: Any, text: str | None) -> ElementType | None:
    """The type that arithmetic uses for a precision: f32 for FP16."""
    found = stored_type(element, text)
    return F32 if found is not None and found.name == "f16" else found


def attributes_of(element: Any, kind: str) -> dict[str, str]:
    """The attributes of its data element; those of the `crop` elements of the oldest Crop layers as lists."""
    lowered = kind.lower()
    tags = (*_DATA_TAGS.get(lowered, ()), "data", f"{lowered}_data", lowered)
    data = next((d for d in (element.find(tag) for tag in tags) if d is not None), None)
    if data is None:
        return {}
    if len(data.attrib) > MOST_ATTRIBUTES:
        raise malformed(data, f"{len(data.attrib)} attributes, expected at most {MOST_ATTRIBUTES}")
    found = dict(data.attrib)
    crops = list(data.iterchildren("crop")) if lowered == "crop" else []
    for name in ("axis", "offset", "dim") if crops else ():
        if name != "dim" or all(c.get(name) is not None for c in crops):
            found[name] = ",".join(c.get(name, "0") for c in crops)
    return found


def read_map_entry(element: Any) -> tuple[PortMapEntry, End]:
    """An entry of a port map, and the port of the body that it names; its own ids are still those of the file."""

    def attribute(name: str, default: str | None = None) -> int:
        return integer(element, name, element.get(name, default))

    axis = attribute("axis", "-1")
    end = (attribute("internal_layer_id"), attribute("internal_port_id", "0"))
    stride = attribute("stride", "1")
    start, stop = ("0", "-1") if stride > 0 else ("-1", "0")
    entry = PortMapEntry(
        external_port_id=attribute("external_port_id"),
        internal_layer_id=end[0],
        axis=None if axis < 0 else axis,
        start=attribute("start", start),
        end=attribute("end", stop),
        stride=stride,
        part_size=abs(stride),  # what the plugins went by, whatever the file says
        line=element.sourceline or 0,
    )
    return entry, end


def read_edge(element: Any) -> Edge:
    """An edge, or a back edge, by the ids of the file."""
    names = ("from-layer", "from-port", "to-layer", "to-port")
    return Edge(*(integer(element, name, element.get(name)) for name in names))


def stored_type(element: Any, text: str | None) -> ElementType | None:
    """The type that a precision names, or None where it leaves that open."""
    if text is None or text in ("UNSPECIFIED", "MIXED", ""):
        return None
    if text == "BIN":
        return ELEMENT_TYPES["u1"]
    try:
        return ElementType.parse(text)
    except ValueError as error:
        raise malformed(element, str(error)) from None


def integer(element: Any, name: str, text: str | None) -> int:
    """The text as an integer; `name` is what it is called in the message of the ModelError otherwise."""
    try:
        return int(text or "")
    except ValueError:
        raise malformed(element, f"{name} {text!r} of <{element.tag}> is no integer") from None


def number(element: Any, text: str) -> float:
    """The text as a number, or a ModelError."""
    try:
        return float(text)
    except ValueError:
        raise malformed(element, f"{text!r} of <{element.tag}> is no number") from None


def malformed(element: Any, message: str) -> ModelError:
    """A ModelError that names the line of the element."""
    return ModelError(message, line=element.sourceline or None)
