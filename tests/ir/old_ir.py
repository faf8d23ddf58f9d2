"""Writes files of IR v2 to v7, and holds them against models built with OpenVINO's Python API."""

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
from irrun.ir.writer import save_model

__all__ = ["Case", "OldNet", "Stored", "run_openvino"]

Array = np.ndarray


@dataclass(frozen=True)
class Stored:
    """An input that is a Const layer rather than fed."""

    array: Array


@dataclass
class OldNet:
    """A network of an old version under construction; layers are named by their position unless said otherwise."""

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
        """Appends an array to the .bin and an element that refers to it."""
        data = np.ascontiguousarray(array).tobytes()
        element = etree.SubElement(parent, tag, offset=str(len(self.weights)), size=str(len(data)))
        if precision:
            element.set("precision", precision)
        self.weights += data

    def layer(
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
        """A layer; an input is `(layer, port)`, or a list of dimensions for a port that no edge leads into.

        Returns its id. Output ports are numbered after the input ports.
        """
        id = len(self.layers)
        stated = precision or self.precision
        element = etree.SubElement(
            self.layers, "layer", id=str(id), name=name or f"{type.lower()}{id}", type=type, precision=stated
        )
        if data:
            etree.SubElement(element, data_tag, {k: text(v) for k, v in data.items()})
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
                    port.set("precision", precisions[i] if precisions else stated)
        if blobs:
            section = etree.SubElement(element, "blobs")
            for tag, array in blobs.items():
                of_blob = precision_of(array) if self.version > 5 else None
                self.store(section, tag, array, of_blob)
        return id

    def input(self, shape: Sequence[int], precision: str | None = None, name: str | None = None) -> tuple[int, int]:
        return self.layer("Input", (), [shape], name=name, precision=precision), 0

    def const(self, array: Array, precision: str | None = None) -> tuple[int, int]:
        stated = precision or precision_of(array)
        return self.layer("Const", (), [array.shape], blobs={"custom": array}, precision=stated), 0

    def xml(self) -> bytes:
        return etree.tostring(self.root, pretty_print=True, xml_declaration=True, encoding="utf-8")

    def read(self, **keywords: Any) -> irrun.Model:
        return irrun.read_model(self.xml(), bytes(self.weights), **keywords)

    def run(self, *arrays: Array) -> list[Array]:
        result = irrun.compile_model(self.read())(list(arrays))
        return [result[i] for i in range(len(result))]


def add_port(section: Any, id: int, shape: Sequence[int]) -> Any:
    port = etree.SubElement(section, "port", id=str(id))
    for n in shape:
        etree.SubElement(port, "dim").text = str(n)
    return port


def precision_of(array: Array) -> str:
    return ElementType.of(array.dtype).precision


def text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(text, value))
    if isinstance(value, bool):
        return str(int(value))
    return str(value)


def run_openvino(model: Any, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of an ov.Model, or of the file of one, on the CPU in f32."""
    import openvino as ov

    core = ov.Core()
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = core.compile_model(str(model) if isinstance(model, Path) else model, "CPU", config)
    results = compiled(list(arrays))
    return [np.array(results[i]) for i in range(len(compiled.outputs))]


@dataclass
class Case:
    """One old layer, and the nodes of today that it stands for.

    Attributes:
        inputs: arrays that are fed, and `Stored` ones.
        modern: given a node per input, the node (or nodes) whose outputs are the layer's.
        outputs: the shapes that the file declares; those of the model of today where left out.
        precisions: of the output ports; by the model of today where left out.
    """

    type: str
    inputs: Sequence[Array | Stored]
    modern: Callable[..., Any]
    data: Mapping[str, Any] = field(default_factory=dict)
    blobs: Mapping[str, Array] = field(default_factory=dict)
    version: int = 7
    precision: str = "FP32"
    outputs: Sequence[Sequence[int]] | None = None
    precisions: Sequence[str] | None = None
    data_tag: str = "data"
    note: str = ""

    def __str__(self) -> str:
        shown = "-".join(f"{k}={text(v)[:24]}" for k, v in list(self.data.items())[:3])
        return "-".join(filter(None, [self.type, f"v{self.version}", self.note, shown]))

    def check(self, directory: Path) -> None:
        """The old file run by irrun, the model of today and the upgraded file run by OpenVINO: all agree."""
        from openvino import Model
        from openvino import opset13 as ops

        parameters, nodes = [], []
        for one in self.inputs:
            if isinstance(one, Stored):
                nodes.append(ops.constant(one.array))
            else:
                parameters.append(ops.parameter(one.shape, one.dtype))
                nodes.append(parameters[-1])
        made = self.modern(*nodes)
        model = Model(made if isinstance(made, list) else [made], parameters, "modern")
        fed = [one for one in self.inputs if not isinstance(one, Stored)]
        expected = run_openvino(model, fed)

        net = OldNet(self.version, self.precision)
        sources = [
            net.const(one.array) if isinstance(one, Stored) else net.input(one.shape, precision_of(one))
            for one in self.inputs
        ]
        shapes = self.outputs or [a.shape for a in expected]
        precisions = self.precisions or ([precision_of(a) for a in expected] if self.version > 6 else None)
        net.layer(self.type, sources, shapes, self.data, self.blobs, precisions=precisions, data_tag=self.data_tag)
        found = net.run(*fed)
        compare(found, expected, "irrun on the old file, OpenVINO on the model of today")

        path, _ = save_model(net.read(), directory / "upgraded.xml")
        compare(run_openvino(path, fed), found, "OpenVINO on the upgraded file, irrun on the old file")


def compare(found: Sequence[Array], expected: Sequence[Array], what: str) -> None:
    assert len(found) == len(expected), f"{what}: {len(found)} outputs, {len(expected)} expected"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.shape == b.shape, f"{what}: output {i} has shape {a.shape}, expected {b.shape}"
        assert a.dtype == b.dtype, f"{what}: output {i} is {a.dtype}, expected {b.dtype}"
        scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=1.0)), 1.0) if b.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * scale, err_msg=f"{what}: output {i}")


def random(*shape: int, seed: int = 0) -> Array:
    """Numbers of either sign, the same for the same shape and seed."""
    rng = np.random.default_rng([seed, math.prod(shape), len(shape)])
    return rng.standard_normal(shape).astype(np.float32)
