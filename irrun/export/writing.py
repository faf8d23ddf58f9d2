"""Serialization of ONNX graphs, with weights of more than 2 GB in a separate file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx

from irrun.atomic_files import atomic_write
from irrun.export.graph import ONNX_TYPES, Graph, Node, Value
from irrun.ir.model import Model
from irrun.packing import pack
from irrun.shapes import PartialShape
from irrun.version import __version__

__all__ = ["EXTERNAL_THRESHOLD", "write_model"]

#: Weights of more bytes are written to a separate file.
EXTERNAL_THRESHOLD = 1_800_000_000
#: Minimum size of constants in the weights file in bytes.
EXTERNAL_MINIMUM = 1024
#: The alignment of constants in the weights file.
ALIGNMENT = 64


def write_model(graph: Graph, model: Model, path: Path, threshold: int = EXTERNAL_THRESHOLD) -> list[Path]:
    """Write an ONNX model.

    Args:
        graph: The graph.
        model: The source model.
        path: The path of the .onnx file.
        threshold: Weights of more bytes are written to a separate file next to the model.

    Returns:
        The paths of the files. All of them are written atomically.
    """
    _remove_unused(graph)
    size = sum(_get_size(value) for value in _find_constants(graph, {}).values())
    files = [path] if size <= threshold else [path, path.with_name(path.name + ".data")]
    with ExitStack() as stack:
        data = stack.enter_context(atomic_write(files[1])) if len(files) > 1 else None
        file = stack.enter_context(atomic_write(path))
        writer = _Writer(data, files[-1].name)
        body = writer.make_graph(graph)
        body.doc_string = f"exported from {model.path.name}" if model.path is not None else ""
        proto = onnx.ModelProto()
        proto.opset_import.append(onnx.helper.make_opsetid("", graph.opset))
        if writer.domains:
            proto.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in sorted(writer.domains))
        proto.ir_version = max(10, onnx.helper.find_min_ir_version_for(proto.opset_import[:1], ignore_unknown=True))
        proto.producer_name, proto.producer_version = "irrun", __version__
        metadata = {"source": "" if model.path is None else model.path.name, "source_version": model.source_version}
        onnx.helper.set_model_props(proto, {name: str(value) for name, value in metadata.items() if value})
        writer.write(file, proto, body)
    return files


def _remove_unused(graph: Graph) -> None:
    """Remove nodes with unused outputs, such as steps that a later node replaces."""
    used = {id(value) for value in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if node.domain or any(id(value) in used for value in node.outputs):
            kept.append(node)
            used |= _list_used(node)
    graph.nodes = kept[::-1]


def _list_used(node: Node) -> set[int]:
    """Return the values that a node and its bodies use, by identity."""
    used = {id(value) for value in node.inputs}
    for attribute in node.attributes.values():
        if isinstance(attribute, Graph):
            used |= {id(value) for value in attribute.outputs}
            used = used.union(*(_list_used(inner) for inner in attribute.nodes))
    return used


def _find_constants(graph: Graph, found: dict[int, Value]) -> dict[int, Value]:
    """Return the constants that nodes use, by identity."""
    used = [value for node in graph.nodes for value in node.inputs]
    for value in (*graph.defaults.values(), *used):
        if value is not None and value.is_constant:
            found[_identify(value)] = value
    for node in graph.nodes:
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                _find_constants(attribute, found)
    return found


def _identify(value: Value) -> int:
    return id(value.constant) if value.constant is not None else id(value)


def _get_size(value: Value) -> int:
    if value.constant is not None:
        return value.constant.size
    return 0 if value.array is None else value.array.nbytes


class _Writer:
    """Builds the protocol buffers of a graph.

    Args:
        data: The weights file; None to keep the weights in the model.
        location: Its name.
    """

    def __init__(self, data: BinaryIO | None, location: str) -> None:
        self.data = data
        self.location = location
        self.domains: set[str] = set()
        self.names: set[str] = set()
        self.node_names: set[str] = set()
        self.initializers: list[tuple[Any, bytes | memoryview | None]] = []
        self.by_content: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.constants: dict[int, str] = {}

    def make_unique(self, name: str, taken: set[str]) -> str:
        """Return an unused name, and reserve it."""
        unique, count = name or "value", 1
        while unique in taken:
            count += 1
            unique = f"{name or 'value'}_{count}"
        taken.add(unique)
        return unique

    def make_graph(self, graph: Graph) -> Any:
        """Return the protocol buffer of the main graph."""
        self.reserve_names(graph)
        proto = self.make_body(graph)
        for value, default in graph.defaults.items():
            self.add_initializer(default, value.name)
        return proto

    def write(self, file: BinaryIO, model: Any, graph: Any) -> None:
        """Write a model, its graph and the initializers one after another, without copying the weights.

        Args:
            file: The file.
            model: The protocol buffer of the model without its graph.
            graph: The protocol buffer of the graph without initializers.
        """
        heads: list[bytes] = []
        for tensor, raw in self.initializers:
            head = tensor.SerializeToString()
            if raw is not None:
                head += _encode_field(onnx.TensorProto.RAW_DATA_FIELD_NUMBER, len(raw))
            size = len(head) + (0 if raw is None else len(raw))
            heads.append(_encode_field(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, size) + head)
        start = graph.SerializeToString()
        total = len(start) + sum(map(len, heads)) + sum(len(raw) for _, raw in self.initializers if raw is not None)
        file.write(model.SerializeToString())
        file.write(_encode_field(onnx.ModelProto.GRAPH_FIELD_NUMBER, total))
        file.write(start)
        for head, (_, raw) in zip(heads, self.initializers, strict=True):
            file.write(head)
            if raw is not None:
                file.write(raw)

    def reserve_names(self, graph: Graph) -> None:
        """Name inputs and outputs before other values."""
        for value in (*graph.inputs, *graph.outputs):
            value.name = self.make_unique(value.name, self.names)

    def make_body(self, graph: Graph) -> Any:
        """Return the protocol buffer of a graph."""
        fixed = {id(value) for value in (*graph.inputs, *graph.outputs)}
        nodes = [self.make_node(node, fixed) for node in graph.nodes]
        infos = [
            _make_info(value)
            for node in graph.nodes
            for value in node.outputs
            if id(value) not in fixed and value.shape is not None and value.name and not node.domain
        ]
        return onnx.helper.make_graph(
            nodes,
            graph.name or "graph",
            [_make_info(value, value.name) for value in graph.inputs],
            [_make_info(value) for value in graph.outputs],
            value_info=infos,
        )

    def make_node(self, node: Node, fixed: set[int]) -> Any:
        """Return the protocol buffer of a node."""
        inputs = ["" if value is None else self.get_name(value) for value in node.inputs]
        for i, value in enumerate(node.outputs):
            if id(value) not in fixed:
                suffix = "" if len(node.outputs) == 1 else f".{i}"
                value.name = self.make_unique(value.name or f"{node.name}/{node.type}{suffix}", self.names)
        attributes = {}
        for name, attribute in node.attributes.items():
            if isinstance(attribute, Graph):
                self.reserve_names(attribute)
                attribute = self.make_body(attribute)
            attributes[name] = attribute
        if node.domain:
            self.domains.add(node.domain)
        name = self.make_unique(f"{node.name}/{node.type}", self.node_names)
        return onnx.helper.make_node(
            node.type, inputs, [v.name for v in node.outputs], name=name, domain=node.domain, **attributes
        )

    def get_name(self, value: Value) -> str:
        """Return the name of a value. Constants become initializers."""
        if not value.is_constant:
            return value.name
        key = _identify(value)
        if key not in self.constants:
            self.constants[key] = self.add_initializer(value)
        return self.constants[key]

    def add_initializer(self, value: Value, name: str = "") -> str:
        """Add an initializer, unless an equal one exists, and return its name."""
        shape = tuple(d for d in value.shape or () if isinstance(d, int))
        tensor = onnx.TensorProto(data_type=ONNX_TYPES[value.type.name], dims=shape)
        inside: bytes | memoryview | None = None
        if value.type.name == "string":
            array = value.read()
            assert array is not None
            texts = (s if isinstance(s, bytes) else str(s).encode("utf-8", "surrogateescape") for s in array.flat)
            tensor.string_data.extend(texts)
        else:
            raw = _get_bytes(value)
            key = (value.type.name, shape, raw if isinstance(raw, bytes) and len(raw) <= 4096 else b"")
            if not name and key[2] and key in self.by_content:
                return self.by_content[key]
            if self.data is not None and len(raw) >= EXTERNAL_MINIMUM:
                self.write_external(tensor, raw)
            else:
                inside = raw
            if not name and key[2]:
                name = self.by_content[key] = self.make_unique("constant", self.names)
        tensor.name = name or self.make_unique("constant", self.names)
        self.initializers.append((tensor, inside))
        return str(tensor.name)

    def write_external(self, tensor: Any, raw: bytes | memoryview) -> None:
        """Write the data of a constant to the weights file."""
        assert self.data is not None
        self.data.write(bytes(-self.data.tell() % ALIGNMENT))
        entries = {"location": self.location, "offset": self.data.tell(), "length": len(raw)}
        self.data.write(raw)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.extend(onnx.StringStringEntryProto(key=k, value=str(v)) for k, v in entries.items())


def _encode_field(number: int, size: int) -> bytes:
    """Return the header of a bytes field in a protocol buffer: its number and length."""
    encoded = bytearray()
    for integer in (number << 3 | 2, size):
        while integer > 127:
            encoded.append(integer & 127 | 128)
            integer >>= 7
        encoded.append(integer)
    return bytes(encoded)


def _get_bytes(value: Value) -> bytes | memoryview:
    """Return the bytes of a constant, little-endian, in the encoding that IR and ONNX share."""
    stored = value.constant
    if stored is not None and stored.data and value.type.name != "boolean":
        data = memoryview(stored.data).cast("B")
        return bytes(data) if len(data) <= 4096 else data
    array = value.read()
    assert array is not None
    return pack(value.type, np.ascontiguousarray(array).reshape(array.shape))


def _make_info(value: Value, prefix: str = "") -> Any:
    """Return the declaration of a value; with a prefix, dynamic dimensions get names."""
    return onnx.helper.make_tensor_value_info(
        value.name, ONNX_TYPES[value.type.name], None if value.shape is None else _make_dimensions(value.shape, prefix)
    )


def _make_dimensions(shape: PartialShape, prefix: str) -> Sequence[int | str | None]:
    return [
        int(d) if isinstance(d, int) else f"{os.path.basename(prefix)}_dim_{i}" if prefix else None
        for i, d in enumerate(shape)
    ]
