"""Helpers that write files of IR v2 to v7 and compare them with models built with OpenVINO's Python API."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

import irrun
from irrun.element_types import ElementType
from irrun.ir.graph import Layer
from irrun.ir.writer import save_model

__all__ = [
    "Case",
    "LegacyNetwork",
    "StoredInput",
    "build_layer",
    "check_declarations",
    "compare",
    "make_random",
    "run_layer",
    "run_openvino",
]

Array = np.ndarray


@dataclass(frozen=True)
class StoredInput:
    """An input of a layer that is a Const layer rather than an input of the network."""

    array: Array


@dataclass
class LegacyNetwork:
    """A legacy network under construction. Layers are named by type and id unless a name is passed."""

    version: int = 7
    precision: str = "FP32"
    name: str = "net"
    weights: bytearray = field(default_factory=bytearray)
    root: Any = None

    def __post_init__(self) -> None:
        if self.root is None:
            self.root = etree.Element("net", name=self.name, version=str(self.version), batch="1")
        self.layers = etree.SubElement(self.root, "layers")
        self.edges = etree.SubElement(self.root, "edges")
        self.shapes: dict[tuple[int, int], tuple[int, ...]] = {}

    def store(self, parent: Any, tag: str, array: Array, precision: str | None = None) -> None:
        """Append an array to the weights, and an element that refers to it to `parent`."""
        data = np.ascontiguousarray(array).tobytes()
        element = etree.SubElement(parent, tag, offset=str(len(self.weights)), size=str(len(data)))
        if precision:
            element.set("precision", precision)
        self.weights += data

    def add_layer(
        self,
        type: str,
        inputs: Sequence[tuple[int, int] | Sequence[int]] = (),
        outputs: Sequence[Sequence[int]] = (),
        data: Mapping[str, Any] | None = None,
        blobs: Mapping[str, Array] | None = None,
        *,
        name: str | None = None,
        precision: str | None = None,
        precisions: Sequence[str] | None = None,
        data_tag: str = "data",
    ) -> int:
        """Add a layer and return its id.

        An input is a tuple (layer, port), or a list of dimensions for a port without an edge. Output ports are
        numbered after the input ports.
        """
        id = len(self.layers)
        precision = precision or self.precision
        element = etree.SubElement(
            self.layers, "layer", id=str(id), name=name or f"{type.lower()}{id}", type=type, precision=precision
        )
        if data:
            etree.SubElement(element, data_tag, {k: to_text(v) for k, v in data.items()})
        if inputs:
            section = etree.SubElement(element, "input")
            for i, source in enumerate(inputs):
                if isinstance(source, tuple):
                    edge = {"from-layer": source[0], "from-port": source[1], "to-layer": id, "to-port": i}
                    etree.SubElement(self.edges, "edge", {k: str(v) for k, v in edge.items()})
                    source = self.shapes[source]
                add_port(section, i, source)
        if outputs:
            section = etree.SubElement(element, "output")
            for i, shape in enumerate(outputs):
                port = add_port(section, len(inputs) + i, shape)
                self.shapes[id, len(inputs) + i] = tuple(shape)
                if precisions or self.version > 6:
                    port.set("precision", precisions[i] if precisions else precision)
        if blobs:
            section = etree.SubElement(element, "blobs")
            for tag, array in blobs.items():
                self.store(section, tag, array, get_precision(array) if self.version > 5 else None)
        return id

    def add_input(self, shape: Sequence[int], precision: str | None = None, name: str | None = None) -> tuple[int, int]:
        """Add an Input layer and return its output port."""
        return self.add_layer("Input", (), [shape], name=name, precision=precision), 0

    def add_const(self, array: Array, precision: str | None = None) -> tuple[int, int]:
        """Add a Const layer and return its output port."""
        precision = precision or get_precision(array)
        return self.add_layer("Const", (), [array.shape], blobs={"custom": array}, precision=precision), 0

    def to_xml(self) -> bytes:
        """Return the content of the .xml."""
        return etree.tostring(self.root, pretty_print=True, xml_declaration=True, encoding="utf-8")

    def read(self, **keywords: Any) -> irrun.Model:
        """Read the network with irrun."""
        return irrun.read_model(self.to_xml(), bytes(self.weights), **keywords)

    def run(self, *arrays: Array) -> list[Array]:
        """Run the network with irrun and return its outputs."""
        result = irrun.compile_model(self.read())(list(arrays))
        return [result[i] for i in range(len(result))]


def add_port(section: Any, id: int, shape: Sequence[int]) -> Any:
    port = etree.SubElement(section, "port", id=str(id))
    for n in shape:
        etree.SubElement(port, "dim").text = str(n)
    return port


def get_precision(array: Array) -> str:
    return ElementType.of(array.dtype).precision


def to_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(to_text, value))
    if isinstance(value, bool):
        return str(int(value))
    return str(value)


def run_openvino(model: Any, arrays: Sequence[Array]) -> list[Array]:
    """Return the outputs of an ov.Model or of an .xml file, computed on the CPU in f32."""
    import openvino as ov

    core = ov.Core()
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = core.compile_model(str(model) if isinstance(model, Path) else model, "CPU", config)
    results = compiled(list(arrays))
    return [np.array(results[i]) for i in range(len(compiled.outputs))]


def check_declarations(model: irrun.Model, arrays: Sequence[Array], *, may_be_dynamic: bool = False) -> None:
    """Check that the ports of all layers of an upgraded model declare the shapes and types of their values.

    Args:
        model: The model.
        arrays: The inputs of the model.
        may_be_dynamic: Whether ports may leave the shape open.
    """

    def check_ports(
        layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Any
    ) -> None:
        values = [*zip(layer.inputs, inputs, strict=False), *zip(layer.outputs, outputs, strict=False)]
        for port, value in values:
            if value is None or (port.shape is None and may_be_dynamic):
                continue
            declared = f"{port.element_type}{'[...]' if port.shape is None else port.shape}"
            actual = f"{ElementType.of(value.dtype)}{irrun.PartialShape(value.shape)}"
            assert declared == actual, f"{layer.describe()}, port {port.id}"

    irrun.compile_model(model, optimize=False)(list(arrays), observers=[check_ports])


def build_layer(
    type: str,
    inputs: Sequence[Array | StoredInput],
    outputs: Sequence[Sequence[int]],
    data: Mapping[str, Any] | None = None,
    blobs: Mapping[str, Array] | None = None,
    *,
    version: int = 7,
    precisions: Sequence[str] | None = None,
) -> LegacyNetwork:
    """Return a network of one layer."""
    net = LegacyNetwork(version)
    sources = [
        net.add_const(value.array)
        if isinstance(value, StoredInput)
        else net.add_input(value.shape, get_precision(value))
        for value in inputs
    ]
    net.add_layer(type, sources, outputs, data, blobs, precisions=precisions, name="the layer")
    return net


def run_layer(
    type: str,
    inputs: Sequence[Array | StoredInput],
    outputs: Sequence[Sequence[int]],
    data: Mapping[str, Any] | None = None,
    blobs: Mapping[str, Array] | None = None,
    *,
    may_be_dynamic: bool = False,
    **keywords: Any,
) -> list[Array]:
    """Return the outputs of a network of one layer, whose declarations are checked."""
    net = build_layer(type, inputs, outputs, data, blobs, **keywords)
    arrays = [value for value in inputs if not isinstance(value, StoredInput)]
    check_declarations(net.read(), arrays, may_be_dynamic=may_be_dynamic)
    return net.run(*arrays)


#: Types of layers some values of which have shapes that the file does not declare.
DYNAMIC_TYPES = frozenset(
    {"CTCGreedyDecoder", "ExperimentalDetectronROIFeatureExtractor", "NonMaxSuppression", "Unique"}
)


@dataclass
class Case:
    """A legacy layer and the OpenVINO nodes that it is equivalent to.

    Attributes:
        inputs: Arrays, which become inputs of the network, and stored inputs.
        build_reference: A function that takes a node per input and returns the node or nodes whose outputs are those
            of the layer.
        outputs: The shapes that the file declares; by default the shapes of the reference.
        precisions: The precisions of the output ports; by default the precisions of the reference.
    """

    type: str
    inputs: Sequence[Array | StoredInput]
    build_reference: Callable[..., Any]
    data: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, Array] = field(default_factory=dict)
    version: int = 7
    precision: str = "FP32"
    outputs: Sequence[Sequence[int]] | None = None
    precisions: Sequence[str] | None = None
    data_tag: str = "data"
    note: str = ""

    def __str__(self) -> str:
        data = "-".join(f"{k}={to_text(v)[:24]}" for k, v in list(self.data.items())[:3])
        return "-".join(filter(None, [self.type, f"v{self.version}", self.note, data]))

    def check(self, directory: Path) -> None:
        """Check that irrun on the file, and OpenVINO on the upgraded file, return what the reference does."""
        from openvino import Model
        from openvino import opset13 as ops

        parameters, nodes = [], []
        for value in self.inputs:
            if isinstance(value, StoredInput):
                nodes.append(ops.constant(value.array))
            else:
                parameters.append(ops.parameter(value.shape, value.dtype))
                nodes.append(parameters[-1])
        results = self.build_reference(*nodes)
        reference = Model(results if isinstance(results, list) else [results], parameters, "reference")
        arrays = [value for value in self.inputs if not isinstance(value, StoredInput)]
        expected = run_openvino(reference, arrays)

        net = LegacyNetwork(self.version, self.precision)
        sources = [
            net.add_const(value.array)
            if isinstance(value, StoredInput)
            else net.add_input(value.shape, get_precision(value))
            for value in self.inputs
        ]
        shapes = self.outputs or [array.shape for array in expected]
        precisions = self.precisions or ([get_precision(a) for a in expected] if self.version > 6 else None)
        net.add_layer(self.type, sources, shapes, self.data, self.blobs, precisions=precisions, data_tag=self.data_tag)
        actual = net.run(*arrays)
        compare(actual, expected, "irrun on the legacy file, OpenVINO on the reference")

        model = net.read()
        check_declarations(model, arrays, may_be_dynamic=self.type in DYNAMIC_TYPES)
        path, _ = save_model(model, directory / "upgraded.xml")
        compare(run_openvino(path, arrays), actual, "OpenVINO on the upgraded file, irrun on the legacy file")


def compare(actual: Sequence[Array], expected: Sequence[Array], description: str) -> None:
    assert len(actual) == len(expected), f"{description}: {len(actual)} outputs, expected {len(expected)}"
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert a.shape == b.shape, f"{description}: output {i} has shape {a.shape}, expected {b.shape}"
        assert a.dtype == b.dtype, f"{description}: output {i} is {a.dtype}, expected {b.dtype}"
        scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=1.0)), 1.0) if b.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * scale, err_msg=f"{description}: output {i}")


def make_random(*shape: int, seed: int = 0) -> Array:
    """Return positive and negative numbers, the same for the same shape and seed."""
    rng = np.random.default_rng([seed, math.prod(shape), len(shape)])
    return rng.standard_normal(shape).astype(np.float32)
