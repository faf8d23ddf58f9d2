"""The graphs of IR v2 to v7 -> Model."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.legacy.builder import CONVERSIONS, SPELLINGS, Builder, unknown
from irrun.ir.legacy.layer import F32, Declared, LegacyLayer, Value
from irrun.ir.legacy.memory import Memories
from irrun.ir.legacy.preprocess import normalized, preprocessed_input
from irrun.ir.legacy.xml_elements import End, RawLayer, children, malformed, read_edge, read_map_entry
from irrun.ir.model import BackEdge, Body, Graph, Layer, Model
from irrun.ir.structure import Finding, sort_layers
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

__all__ = ["read_legacy"]

for _family in (
    "activations",
    "arithmetic",
    "convolutions",
    "detection",
    "resizing",
    "indexing",
    "movement",
    "normalizations",
    "recurrent",
    "reductions",
):
    importlib.import_module(f"irrun.ir.legacy.{_family}")  # registers its conversions


def read_legacy(
    root: Any, version: int, weights: Weights, path: Path | None, findings: list[Finding]
) -> Model:
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
        reader = _GraphReader(root, version, weights, findings)
        reader.read_inputs()
        reader.read_pre_process()
        reader.convert_all()
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
        meta_data=_as_text(root.find("meta_data")),
        source_version=version,
    )


class _GraphReader:
    """Converts the layers of a `net` or `body` element one by one, in topological order.

    Attributes:
        raws: the layers as the file has them, by id.
        sources: where the edge into each input port comes from.
        values: what each output port has become.
        fed: what each input port that no edge leads into has become.
    """

    def __init__(
        self,
        root: Any,
        version: int,
        weights: Weights,
        findings: list[Finding],
        precision: str | None = None,
        memories: Memories | None = None,
    ) -> None:
        self.root = root
        self.version = version
        self.weights = weights
        self.precision = root.get("precision") or precision
        self.memories = memories or Memories()
        self.builder = Builder(root.get("name", ""), weights, findings)
        self.values: dict[End, Value] = {}
        self.fed: dict[End, Value] = {}
        self.sources: dict[End, End] = {}
        self.raws: dict[int, RawLayer] = {}
        for element in children(root, "layers", "layer"):
            raw = RawLayer.read(element, self.precision)
            if raw.layer.id in self.raws:
                raise malformed(element, f"two layers have the id {raw.layer.id}")
            self.raws[raw.layer.id] = raw
        edges = [read_edge(e) for e in children(root, "edges", "edge")]
        for edge in edges:
            self.check_end((edge.from_layer, edge.from_port), "outputs")
            self.check_end((edge.to_layer, edge.to_port), "inputs")
            self.sources[edge.to_layer, edge.to_port] = (edge.from_layer, edge.from_port)
        layers = sort_layers(Graph([r.layer for r in self.raws.values()], edges))
        self.order = [self.raws[layer.id] for layer in layers]

    def check_end(self, end: End, side: str) -> None:
        raw = self.raws.get(end[0])
        if raw is None:
            raise malformed(self.root, f"an edge names layer {end[0]}, which does not exist")
        if end[1] not in getattr(raw, side):
            message = f"an edge names port {end[1]}, which is none of its {side}"
            raise ModelError(message, line=raw.layer.line or None, layer=raw.layer.describe())

    # ----------------------------------------------------------------- inputs

    def read_inputs(self) -> None:
        """Parameters for `Input` layers, then for ports that no edge leads into, as the old readers had it."""
        for raw in self.order:
            if raw.kind == "input":
                if len(raw.outputs) != 1:
                    raise malformed(raw.element, f"an Input has one output, found {len(raw.outputs)}")
                ((port, declared),) = raw.outputs.items()
                if (raw.layer.id, port) not in self.values:
                    self.values[raw.layer.id, port] = self.parameter(raw.layer.name, declared, raw.layer.line)
        for raw in self.order:
            for port, declared in sorted(raw.inputs.items()):
                end = (raw.layer.id, port)
                if end not in self.sources and end not in self.fed:
                    self.fed[end] = self.parameter(raw.input_name(port), declared, raw.layer.line)

    def parameter(self, name: str, declared: Declared, line: int) -> Value:
        builder = self.builder
        builder.line = line
        element = declared.type or F32
        made = builder.layer("Parameter", [], [(element, declared.shape)], name=name)
        made.attributes = {"element_type": element.name, "shape": ",".join(map(str, declared.shape))}
        made.outputs[0].names = (name,)
        return Value(made, made.outputs[0])

    def read_pre_process(self) -> None:
        element = self.root.find("pre-process")
        if element is None:
            return
        places = {value.layer.name: (kept, end) for kept in (self.fed, self.values) for end, value in kept.items()}
        name = preprocessed_input(element, {n: kept[end] for n, (kept, end) in places.items()})
        self.builder.scope, self.builder.line = name, element.sourceline or 0
        kept, end = places[name]
        kept[end] = normalized(self.builder, element, kept[end], self.precision)

    # ----------------------------------------------------------------- layers

    def convert_all(self) -> None:
        for raw in self.order:
            if raw.kind != "input":
                self.convert(raw)

    def old_layer(self, raw: RawLayer) -> LegacyLayer:
        """A layer as its conversion sees it."""
        layer = raw.layer
        kind = SPELLINGS.get(raw.kind, layer.type)
        old = LegacyLayer(layer.name, kind, self.version, layer.line, layer.attributes, weights=self.weights)
        old.blobs = raw.blobs()
        old.outputs = [raw.outputs[p.id] for p in layer.outputs]
        for port in layer.inputs:
            end = (layer.id, port.id)
            old.inputs.append(self.values[self.sources[end]] if end in self.sources else self.fed[end])
            old.declared_inputs.append(raw.inputs[port.id])
        return old

    def convert(self, raw: RawLayer) -> None:
        layer, builder = raw.layer, self.builder
        old = self.old_layer(raw)
        builder.scope, builder.line = layer.name, layer.line
        before = len(builder.graph.layers)
        if raw.kind == "tensoriterator":
            made = self.iterator(raw, old)
        elif raw.kind == "memory":
            made = self.memories.convert(builder, old)
        elif raw.kind in CONVERSIONS:
            try:
                result = CONVERSIONS[raw.kind](builder, old)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise old.error(f"its ports, blobs and attributes do not fit together: {error}") from error
            made = [result] if isinstance(result, Value) else list(result)
        else:
            made = unknown(builder, old)
        if len(made) < len(layer.outputs):
            raise old.error(f"has {len(layer.outputs)} outputs, {len(made)} were expected")
        for i, (port, declared) in enumerate(zip(layer.outputs, old.outputs, strict=True)):
            value = self.as_declared(made[i], declared)
            if value.layer.id >= before and value.layer.name != layer.name:
                whole = len(value.layer.outputs) == len(layer.outputs)
                value.layer.name = layer.name if whole else raw.data_name(i)
            if raw.data_name(i) not in value.port.names:
                value.port.names = (*value.port.names, raw.data_name(i))
            if value.port.shape is None and declared.shape:
                value.port.shape = PartialShape(declared.shape)
            self.values[layer.id, port.id] = value

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
        for raw in self.raws.values():
            for i, port in enumerate(raw.layer.outputs):
                end = (raw.layer.id, port.id)
                if end not in read and raw.kind not in ("input", "const"):
                    self.result(self.values[end], raw.data_name(i), raw.layer.line)

    def result(self, value: Value, name: str, line: int) -> Layer:
        self.builder.line = line
        return self.builder.layer("Result", [value], [], name=f"{name}/sink_port_0")

    # -------------------------------------------------------- TensorIterator

    def iterator(self, raw: RawLayer, old: LegacyLayer) -> list[Value]:
        """A TensorIterator: the ports of body layers that its maps name get Parameters and Results."""
        root = raw.element.find("body")
        if root is None:
            raise old.error("needs a <body>")
        reader = _GraphReader(root, self.version, self.weights, self.builder.findings, raw.precision, self.memories)
        body = Body(reader.builder.graph)
        positions = {p.id: i for i, p in enumerate(raw.layer.inputs)}
        parameters: dict[End, Layer] = {}
        for element in raw.element.iterfind("port_map/input"):
            entry, end = read_map_entry(element)
            if entry.external_port_id not in raw.inputs:
                raise old.error(f"its port map names input port {entry.external_port_id}, which it does not have")
            if end in parameters:
                raise old.error(f"two inputs lead into port {end[1]} of layer {end[0]} of its body")
            entry.external_port_id = positions[entry.external_port_id]
            parameters[end] = reader.body_input(end, old.inputs[entry.external_port_id].type)
            entry.internal_layer_id = parameters[end].id
            body.inputs.append(entry)
        reader.read_inputs()
        open_inputs = body.graph.of_type("Parameter")[len(parameters) :]
        if open_inputs:
            raise old.error(f"nothing feeds the input {open_inputs[0].name!r} of its body")
        reader.convert_all()
        outputs = [(d.type, d.shape) for d in old.outputs]
        made = self.builder.layer("TensorIterator", old.inputs, outputs, name=old.name)
        results: dict[End, Layer] = {}
        for element in raw.element.iterfind("port_map/output"):
            entry, end = read_map_entry(element)
            if entry.external_port_id not in raw.outputs:
                message = f"its port map names output port {entry.external_port_id}, which it does not have"
                raise old.error(message)
            port = made.outputs[sorted(raw.outputs).index(entry.external_port_id)]
            result = reader.body_output(end, results)
            port.element_type = result.inputs[0].element_type
            entry.external_port_id, entry.internal_layer_id = port.id, result.id
            body.outputs.append(entry)
        for edge in map(read_edge, raw.element.iterfind("back_edges/edge")):
            target = parameters.get((edge.to_layer, edge.to_port))
            if target is None:
                message = f"a back edge leads to port {edge.to_port} of layer {edge.to_layer}, which no input starts"
                raise old.error(message)
            source = reader.body_output((edge.from_layer, edge.from_port), results)
            body.back_edges.append(BackEdge(source.id, target.id, old.line))
        made.bodies["body"] = body
        return [Value(made, port) for port in made.outputs]

    def body_input(self, end: End, element: ElementType | None) -> Layer:
        """A Parameter in the place of an input port, or of an Input layer, of this body."""
        raw = self.raws.get(end[0])
        is_input = raw is not None and raw.kind == "input"
        declared = None if raw is None else (raw.outputs if is_input else raw.inputs).get(end[1])
        if raw is None or declared is None or end in self.sources:
            message = f"a port map names port {end[1]} of layer {end[0]}, no open input of the body"
            raise malformed(self.root, message)
        name = raw.layer.name if is_input else f"{raw.layer.name}/{end[1]}"
        value = self.parameter(name, Declared(element or declared.type, declared.shape), raw.layer.line)
        (self.values if is_input else self.fed)[end] = value
        return value.layer

    def body_output(self, end: End, results: dict[End, Layer]) -> Layer:
        """The Result of an output port of this body; those made are kept in `results`."""
        if end not in results:
            raw = self.raws.get(end[0])
            if raw is None or end[1] not in raw.outputs:
                message = f"the maps name port {end[1]} of layer {end[0]}, which is no output of the body"
                raise malformed(self.root, message)
            name = raw.data_name(sorted(raw.outputs).index(end[1]))
            results[end] = self.result(self.values[end], name, raw.layer.line)
        return results[end]


def _as_text(element: Any) -> str | None:
    if element is None:
        return None
    from lxml import etree

    return str(etree.tostring(element, encoding="unicode", with_tail=False))
