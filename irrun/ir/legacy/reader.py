"""XML of IR v2 to v7 -> Model."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from irrun.elements import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError
from irrun.ir.checks import sort_layers
from irrun.ir.legacy.build import CONVERSIONS, F32, SPELLINGS, Blob, Builder, Declared, OldLayer, Value, unknown
from irrun.ir.legacy.memory import Memories
from irrun.ir.model import BackEdge, Body, Edge, Graph, Layer, Model, Port, PortMapEntry
from irrun.ir.shape import PartialShape
from irrun.ir.weights import Weights

__all__ = ["read_legacy"]

for _family in (
    "activations",
    "arithmetic",
    "convolutions",
    "detection",
    "images",
    "indexing",
    "movement",
    "normalizations",
    "recurrent",
    "reductions",
):
    importlib.import_module(f"irrun.ir.legacy.{_family}")  # registers its conversions

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


def read_legacy(root: Any, version: int, weights: Weights, path: Path | None) -> Model:
    """The Model of a file of IR v2 to v7.

    Args:
        root: its `net` element.
        version: what that element states.
        weights: its .bin; nothing of it is read here but the bits of BinaryConvolution.
        path: where the file is, for messages.

    Raises:
        ModelError: the file cannot be understood.
    """
    try:
        reader = _GraphReader(root, version, weights)
        reader.read_inputs(root.find("pre-process"))
        reader.convert_all()
        reader.memories.finish()
        reader.add_results()
    except ModelError as error:
        error.path = error.path or path
        raise
    return Model(
        graph=reader.builder.graph,
        weights=weights,
        version=11,
        path=path,
        meta_data=_as_text(root.find("meta_data")),
        source_version=version,
    )


@dataclass
class _Raw:
    """A layer as the XML has it."""

    element: Any
    layer: Layer
    type: ElementType | None
    inputs: dict[int, Declared] = field(default_factory=dict)
    outputs: dict[int, Declared] = field(default_factory=dict)


class _GraphReader:
    """Converts the layers of a `net` or `body` element one by one, in topological order."""

    def __init__(
        self,
        root: Any,
        version: int,
        weights: Weights,
        precision: str | None = None,
        memories: Memories | None = None,
    ) -> None:
        self.root = root
        self.version = version
        self.weights = weights
        self.precision = root.get("precision") or precision
        self.memories = memories or Memories()
        self.builder = Builder(root.get("name", ""))
        self.values: dict[End, Value] = {}
        self.sources: dict[End, End] = {}
        self.raws: dict[int, _Raw] = {}
        self.data_names: dict[End, str] = {}
        section = root.find("layers")
        for element in section.iterchildren("layer") if section is not None else ():
            raw = self.raw(element)
            if raw.layer.id in self.raws:
                raise _error(element, f"two layers have the id {raw.layer.id}")
            self.raws[raw.layer.id] = raw
        section = root.find("edges")
        edges = [_edge(e) for e in section.iterchildren("edge")] if section is not None else []
        for edge in edges:
            self.sources[edge.to_layer, edge.to_port] = (edge.from_layer, edge.from_port)
            for layer, port, side in (
                (edge.from_layer, edge.from_port, "outputs"),
                (edge.to_layer, edge.to_port, "inputs"),
            ):
                if layer not in self.raws:
                    raise _error(root, f"an edge names layer {layer}, which does not exist")
                if port not in getattr(self.raws[layer], side):
                    raise ModelError(
                        f"an edge names port {port}, which is none of its {side}",
                        line=self.raws[layer].layer.line or None,
                        layer=self.raws[layer].layer.describe(),
                    )
        self.order = sort_layers(Graph([r.layer for r in self.raws.values()], edges))

    # ---------------------------------------------------------------- reading

    def raw(self, element: Any) -> _Raw:
        id, kind, name = element.get("id"), element.get("type"), element.get("name", "")
        if not kind:
            raise _error(element, "a layer needs a type")
        layer = Layer(_integer(element, "id", id), name, kind, "legacy", line=element.sourceline or 0)
        layer.attributes = _attributes(element, kind)
        stated = element.get("precision") or self.precision
        raw = _Raw(element, layer, self.element_type(element, stated))
        for side, found in (("input", raw.inputs), ("output", raw.outputs)):
            section = element.find(side)
            for port in section.iterchildren("port") if section is not None else ():
                precision = port.get("precision")
                shape = tuple(_integer(d, "dimension", d.text) for d in port.iterchildren("dim"))
                if any(n < 0 for n in shape):
                    raise _error(port, f"the shape {list(shape)} has a negative dimension")
                port_id = _integer(port, "port id", port.get("id"))
                found[port_id] = Declared(self.element_type(port, precision or stated), shape, explicit=bool(precision))
        layer.inputs = [Port(i, d.type, PartialShape(d.shape)) for i, d in sorted(raw.inputs.items())]
        layer.outputs = [Port(i, d.type, PartialShape(d.shape)) for i, d in sorted(raw.outputs.items())]
        for i, port in enumerate(layer.outputs):
            data = name if len(layer.outputs) == 1 else f"{name}.{i}"
            self.data_names[layer.id, port.id] = data
        return raw

    def element_type(self, element: Any, text: str | None) -> ElementType | None:
        """The type that arithmetic uses for a precision: f32 for FP16."""
        found = _element_type(element, text)
        return F32 if found is not None and found.name == "f16" else found

    def blobs(self, raw: _Raw) -> dict[str, Blob]:
        """The segments of the .bin that belong to a layer, by name."""
        element = raw.element
        stated = element.get("precision") or self.precision
        if raw.layer.type.lower() == "const":
            port = element.find("output/port")
            stated = (port.get("precision") if port is not None else None) or stated
        segments = [*element.iterchildren("biases"), *element.iterchildren("weights")]
        section = element.find("blobs")
        segments += [] if section is None else [e for e in section if isinstance(e.tag, str)]
        found = {}
        for segment in segments:
            size = _integer(segment, "size", segment.get("size", "0"))
            if size:
                offset = _integer(segment, "offset", segment.get("offset", "0"))
                found[segment.tag] = Blob(
                    _element_type(segment, segment.get("precision") or stated) or F32, offset, size
                )
        return found

    # ----------------------------------------------------------------- inputs

    def read_inputs(self, pre_process: Any) -> None:
        """Parameters for `Input` layers, and for ports that no edge leads into, as the old readers did it."""
        images: dict[str, tuple[End, Value]] = {}
        for layer in self.order:
            raw = self.raws[layer.id]
            if layer.type.lower() == "input":
                if len(layer.outputs) != 1:
                    raise _error(raw.element, f"an Input has one output, found {len(layer.outputs)}")
                end = (layer.id, layer.outputs[0].id)
                if end in self.values:
                    continue
                images[layer.name] = (end, self.parameter(layer.name, raw.outputs[end[1]], layer.line))
                self.values[end] = images[layer.name][1]
        for layer in self.order:
            raw = self.raws[layer.id]
            taken = self.sources.keys() | self.values.keys()
            open_ports = [p.id for p in layer.inputs if (layer.id, p.id) not in taken]
            for port_id in open_ports:
                position = [p.id for p in layer.inputs].index(port_id)
                name = layer.name if len(layer.inputs) == 1 else f"{layer.name}.{position}"
                end = (layer.id, port_id)
                images[name] = (end, self.parameter(name, raw.inputs[port_id], layer.line))
                self.values[end] = images[name][1]
        if pre_process is not None:
            self.read_pre_process(pre_process, images)

    def parameter(self, name: str, declared: Declared, line: int) -> Value:
        builder = self.builder
        builder.line = line
        element = declared.type or F32
        made = builder.layer("Parameter", [], [(element, declared.shape)], name=name)
        made.attributes = {"element_type": element.name, "shape": ",".join(map(str, declared.shape))}
        made.outputs[0].names = (name,)
        return Value(made, made.outputs[0])

    def read_pre_process(self, element: Any, images: dict[str, tuple[End, Value]]) -> None:
        """Puts the mean (subtracted) and the scale (divided by) of an input behind its Parameter."""
        wanted = element.get("reference-layer-name", "").strip()
        if not images:
            raise _error(element, "<pre-process> stands in a file without inputs")
        if wanted and wanted not in images:
            raise _error(element, f"<pre-process> names the input {wanted!r}, which does not exist")
        of_rank_4 = (name for name, (_, value) in images.items() if len(value.shape or ()) == 4)
        name = wanted or next(of_rank_4, next(iter(images)))
        end, value = images[name]
        self.builder.scope = name
        self.builder.line = element.sourceline or 0
        self.values[end] = self.normalized(element, value)

    def normalized(self, element: Any, value: Value) -> Value:
        builder = self.builder
        shape = value.shape or ()
        if len(shape) < 2:
            raise _error(element, f"<pre-process> needs an input of rank 2 or more, found {list(shape)}")
        axis = 0 if len(shape) == 3 else 1
        count = shape[axis]
        height_width = shape[-2:]
        per_channel = tuple(count if i == axis else 1 for i in range(len(shape)))
        means: dict[int, float] = {}
        planes: dict[int, Blob] = {}
        scales: dict[int, float] = {}
        number = -1
        for channel in element.iterchildren("channel"):
            number = _integer(channel, "channel id", channel.get("id", str(number + 1)))
            if not 0 <= number < count:
                raise _error(channel, f"<pre-process> names channel {number}, the input has {count}")
            mean, scale = channel.find("mean"), channel.find("scale")
            if mean is not None and mean.get("value") is not None:
                means[number] = _number(mean, mean.get("value"))
            if mean is not None and mean.get("size") is not None:
                stored = _element_type(mean, element.get("mean-precision") or self.precision) or F32
                size, offset = (_integer(mean, k, mean.get(k, "0")) for k in ("size", "offset"))
                planes[number] = Blob(stored, offset, size)
            if scale is not None and scale.get("value") is not None:
                scales[number] = _number(scale, scale.get("value"))
        for found, what in ((means, "mean values"), (planes, "mean images")):
            if found and len(found) != count:
                raise _error(element, f"<pre-process> gives {what} for {sorted(found)} of {count} channels")
        value = builder.floating(value)
        if planes:
            mean_value = self.mean_image(element, [planes[i] for i in range(count)], axis, height_width, len(shape))
            value = builder.op("Subtract", [value, mean_value], {"auto_broadcast": "numpy"}, shape=shape)
        elif means:
            data = [[means[i] for i in range(count)]]
            value = self.by_channel("Subtract", value, data, per_channel, "mean")
        if any(scale != 1 for scale in scales.values()):
            data = [[scales.get(i, 1.0) for i in range(count)]]
            value = self.by_channel("Divide", value, data, per_channel, "scale")
        return value

    def by_channel(self, type: str, value: Value, data: Any, shape: Sequence[int], name: str) -> Value:
        import numpy as np

        constant = self.builder.constant(np.array(data, np.float32).reshape(shape), F32, name)
        return self.builder.op(type, [value, constant], {"auto_broadcast": "numpy"}, shape=value.shape)

    def mean_image(self, element: Any, planes: list[Blob], axis: int, height_width: Sequence[int], rank: int) -> Value:
        """The mean images of all channels as one tensor; one Constant where they lie one after another."""
        height, width = height_width
        for plane in planes:
            if plane.size != plane.type.byte_size(height * width):
                message = f"a mean image takes {plane.size} bytes, {plane.type}[{height},{width}] was expected"
                raise _error(element, message)
        adjoining = all(b.offset == a.offset + a.size for a, b in pairwise(planes))
        shape = [1] * (rank - 2) + [height, width]
        if adjoining:
            shape[axis] = len(planes)
            whole = Blob(planes[0].type, planes[0].offset, sum(p.size for p in planes))
            return self.builder.stored(whole, shape, "mean")
        parts = [self.builder.stored(p, shape, f"mean.{i}") for i, p in enumerate(planes)]
        return self.builder.concat(parts, axis)

    # ----------------------------------------------------------------- layers

    def convert_all(self) -> None:
        for layer in self.order:
            if layer.type.lower() != "input":
                self.convert(self.raws[layer.id])

    def convert(self, raw: _Raw) -> None:
        layer, builder = raw.layer, self.builder
        kind = SPELLINGS.get(layer.type.lower(), layer.type)
        old = OldLayer(layer.name, kind, self.version, layer.line, layer.attributes, weights=self.weights)
        old.type = raw.type
        old.blobs = self.blobs(raw)
        old.outputs = [raw.outputs[p.id] for p in layer.outputs]
        for port in layer.inputs:
            end = (layer.id, port.id)
            value = self.values.get(self.sources.get(end, end))
            if value is None:
                raise old.error(f"no edge leads into its input port {port.id}")
            old.inputs.append(value)
            old.declared_inputs.append(raw.inputs[port.id])
        builder.scope, builder.line = layer.name, layer.line
        before = len(builder.graph.layers)
        kind = kind.lower()
        if kind == "tensoriterator":
            made = self.iterator(raw, old)
        elif kind == "memory":
            made = self.memories.convert(builder, old)
        elif kind in CONVERSIONS:
            try:
                result = CONVERSIONS[kind](builder, old)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise old.error(f"its ports, blobs and attributes do not fit together: {error}") from error
            made = [result] if isinstance(result, Value) else list(result)
        else:
            made = unknown(builder, old)
        if len(made) < len(layer.outputs):
            raise old.error(f"has {len(layer.outputs)} outputs, {len(made)} were expected")
        for port, value, declared in zip(layer.outputs, made, old.outputs, strict=False):
            value = self.as_declared(value, declared)
            end = (layer.id, port.id)
            data = self.data_names[end]
            if value.layer.id >= before and value.layer.name != layer.name:
                value.layer.name = layer.name if len(value.layer.outputs) == len(layer.outputs) else data
            if data not in value.port.names:
                value.port.names = (*value.port.names, data)
            if value.port.shape is None and declared.shape:
                value.port.shape = PartialShape(declared.shape)
            self.values[end] = value

    def as_declared(self, value: Value, declared: Declared) -> Value:
        """Truth values as the numbers that old files held them as; types that a port itself states."""
        wanted = declared.type
        if wanted is None or value.type is None or value.type == wanted:
            return value
        if value.type.name == "boolean" or declared.explicit:
            return self.builder.convert(value, wanted)
        return value

    # ---------------------------------------------------------------- results

    def add_results(self) -> None:
        """A Result for every port that nobody reads."""
        read = set(self.sources.values())
        for layer in self.raws.values():
            kind = layer.layer.type.lower()
            for port in layer.layer.outputs:
                end = (layer.layer.id, port.id)
                if end not in read and kind not in ("input", "const"):
                    self.result(self.values[end], self.data_names[end], layer.layer.line)

    def result(self, value: Value, name: str, line: int) -> Layer:
        self.builder.line = line
        made = self.builder.layer("Result", [value], [(value.type, value.shape)], name=f"{name}/sink_port_0")
        made.outputs = []
        return made

    # -------------------------------------------------------- TensorIterator

    def iterator(self, raw: _Raw, old: OldLayer) -> list[Value]:
        """A TensorIterator: the ports of body layers that its maps name get Parameters and Results."""
        element = raw.element
        root = element.find("body")
        if root is None:
            raise old.error("needs a <body>")
        stated = element.get("precision") or self.precision
        body = _GraphReader(root, self.version, self.weights, stated, self.memories)
        inputs = [_map_entry(e) for e in element.iterfind("port_map/input")]
        outputs = [_map_entry(e) for e in element.iterfind("port_map/output")]
        edges = [_edge(e) for e in element.iterfind("back_edges/edge")]
        external = {p.id: i for i, p in enumerate(raw.layer.inputs)}
        external_outputs = {p.id: len(external) + i for i, p in enumerate(raw.layer.outputs)}
        found = Body(body.builder.graph)
        parameters: dict[End, Layer] = {}
        for entry, end in inputs:
            position = external.get(entry.external_port_id)
            if position is None:
                raise old.error(f"its port map names input port {entry.external_port_id}, which it does not have")
            if end in parameters:
                raise old.error(f"two inputs lead into port {end[1]} of layer {end[0]} of its body")
            parameters[end] = body.body_input(end, old.inputs[position].type)
            entry.external_port_id, entry.internal_layer_id = position, parameters[end].id
            found.inputs.append(entry)
        body.read_inputs(None)
        extra = [p for p in body.builder.graph.of_type("Parameter") if p not in parameters.values()]
        if extra:
            raise old.error(f"nothing feeds the input {extra[0].name!r} of its body")
        body.convert_all()
        results: dict[End, Layer] = {}

        def result_of(end: End) -> Layer:
            if end not in results:
                if end not in body.values or end not in body.data_names:
                    raise old.error(f"its maps name port {end[1]} of layer {end[0]}, no output of its body")
                results[end] = body.result(body.values[end], body.data_names[end], old.line)
            return results[end]

        for entry, end in outputs:
            if entry.external_port_id not in external_outputs:
                message = f"its port map names output port {entry.external_port_id}, which it does not have"
                raise old.error(message)
            entry.external_port_id = external_outputs[entry.external_port_id]
            entry.internal_layer_id = result_of(end).id
            found.outputs.append(entry)
        for edge in edges:
            target = parameters.get((edge.to_layer, edge.to_port))
            if target is None:
                message = f"a back edge leads to port {edge.to_port} of layer {edge.to_layer}, which no input starts"
                raise old.error(message)
            source = result_of((edge.from_layer, edge.from_port))
            found.back_edges.append(BackEdge(source.id, target.id, old.line))
        made = self.builder.layer("TensorIterator", old.inputs, [(d.type, d.shape) for d in old.outputs], name=old.name)
        for entry in found.outputs:
            result = next(r for r in results.values() if r.id == entry.internal_layer_id)
            made.outputs[entry.external_port_id - len(old.inputs)].element_type = result.inputs[0].element_type
        made.bodies["body"] = found
        return [Value(made, port) for port in made.outputs]

    def body_input(self, end: End, element: ElementType | None) -> Layer:
        """A Parameter in the place of an input port, or of an Input layer, of this body."""
        raw = self.raws.get(end[0])
        declared = (raw.inputs.get(end[1]) or raw.outputs.get(end[1])) if raw is not None else None
        if raw is None or declared is None or end in self.sources:
            raise _error(self.root, f"a port map names port {end[1]} of layer {end[0]}, no open input of the body")
        name = raw.layer.name
        if raw.layer.type.lower() != "input":
            name = f"{name}.{[p.id for p in raw.layer.inputs].index(end[1])}"
            if name in {p.name for p in self.raws_layers()}:
                name += "/input"
        value = self.parameter(name, Declared(element or declared.type, declared.shape), raw.layer.line)
        self.values[end] = value
        return value.layer

    def raws_layers(self) -> Iterable[Layer]:
        return (raw.layer for raw in self.raws.values())


def _attributes(element: Any, kind: str) -> dict[str, str]:
    lowered = kind.lower()
    tags = (*_DATA_TAGS.get(lowered, ()), "data", f"{lowered}_data", lowered)
    data = next((d for d in (element.find(tag) for tag in tags) if d is not None), None)
    if data is None:
        return {}
    found = dict(data.attrib)
    crops = list(data.iterchildren("crop")) if lowered == "crop" else []
    for name in ("axis", "offset", "dim") if crops else ():
        stated = [c.get(name) for c in crops]
        if all(text is not None for text in stated):
            found[name] = ",".join(stated)
    return found


def _map_entry(element: Any) -> tuple[PortMapEntry, End]:
    def number(name: str, default: str | None = None) -> int:
        return _integer(element, name, element.get(name, default))

    axis = number("axis", "-1")
    end = (number("internal_layer_id"), number("internal_port_id", "0"))
    stride = number("stride", "1")
    entry = PortMapEntry(
        external_port_id=number("external_port_id"),
        internal_layer_id=end[0],
        axis=None if axis < 0 else axis,
        start=number("start", "0"),
        end=number("end", "-1"),
        stride=stride,
        part_size=abs(stride),  # what the plugins went by, whatever the file says
        line=element.sourceline or 0,
    )
    return entry, end


def _edge(element: Any) -> Edge:
    names = ("from-layer", "from-port", "to-layer", "to-port")
    return Edge(*(_integer(element, name, element.get(name)) for name in names))


def _element_type(element: Any, text: str | None) -> ElementType | None:
    if text is None or text in ("UNSPECIFIED", "MIXED", ""):
        return None
    if text == "BIN":
        return ELEMENT_TYPES["u1"]
    try:
        return ElementType.parse(text)
    except ValueError as error:
        raise _error(element, str(error)) from None


def _integer(element: Any, name: str, text: str | None) -> int:
    try:
        return int(text or "")
    except ValueError:
        raise _error(element, f"{name} {text!r} of <{element.tag}> is no integer") from None


def _number(element: Any, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _error(element, f"{text!r} of <{element.tag}> is no number") from None


def _error(element: Any, message: str) -> ModelError:
    return ModelError(message, line=element.sourceline or None)


def _as_text(element: Any) -> str | None:
    if element is None:
        return None
    from lxml import etree

    return str(etree.tostring(element, encoding="unicode", with_tail=False))
