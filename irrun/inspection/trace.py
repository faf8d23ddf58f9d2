"""Traces: the values of a run, in memory or in a file.

A trace file is a zip archive of uncompressed `.npy` members and an `index.json`, which is written last. Values are
written while the model runs and read when they are accessed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

import irrun
from irrun.atomic_files import atomic_write
from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import InputError, IrrunError
from irrun.inspection.keys import KeyTable, Selection, find_constant_layers, get_port_suffix
from irrun.inspection.metrics import describe_values
from irrun.ir.graph import Edge, Graph, Layer, Port
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.ir.structure import is_placeholder, sort_layers
from irrun.runtime.executor import Observer, Scope
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.request import CompiledModel, compile_model

__all__ = ["Recorder", "Trace", "TraceReport", "TracedValue", "hash_model", "isolate_layer", "record", "replay"]

Array = np.ndarray[Any, Any]

#: The name and the version of the file format.
FORMAT = "irrun-trace"
VERSION = 1
#: Maximum number of bytes of `index.json`.
MAX_INDEX = 1 << 28
#: Values that notebooks show.
MAX_ROWS = 40
#: Maximum number of dimensions of a value, that of NumPy.
MAX_RANK = 64


@dataclass(frozen=True)
class TracedValue:
    """The description of a recorded value.

    Attributes:
        key: The key of the value.
        layer: The key of the layer that produced it.
        layer_type: The type of the layer.
        port: The position of the output port.
        type: The element type.
        shape: The shape.
        statistics: Minimum, maximum, mean and standard deviation of the finite elements; the number of zeros, NaNs
            and infinities. Empty for strings.
        seconds: The run time of the layer.
        member: The name of the file in the archive that stores the value; None if only this description is stored.
        is_selected: Whether the value was selected; otherwise it was recorded as an input of a selected layer.
    """

    key: str
    layer: str
    layer_type: str
    port: int
    type: str
    shape: tuple[int, ...]
    statistics: Mapping[str, float | int | None] = field(default_factory=dict)
    seconds: float = 0.0
    member: str | None = None
    is_selected: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the entry of `index.json`."""
        return {**vars(self), "shape": list(self.shape), "statistics": dict(self.statistics)}


class Trace(Mapping[str, Array]):
    """The values of a run by key. They are read from the file when they are accessed.

    Args:
        index: The contents of `index.json`, without the values.
        values: The values in the order of execution.
        read: A function that returns the array of a value.
        path: The file, if there is one.

    Attributes:
        index: The contents of `index.json`, without the values.
        entries: The descriptions of the values by key, in the order of execution.
        path: The file, or None.
    """

    def __init__(
        self,
        index: Mapping[str, Any],
        values: Sequence[TracedValue],
        read: Callable[[TracedValue], Array],
        path: Path | None = None,
    ) -> None:
        self.index = index
        self.entries = {value.key: value for value in values}
        self.path = path
        self._read = read
        self._close: Callable[[], None] = lambda: None

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Trace:
        """Open a trace file.

        Args:
            path: The file.

        Raises:
            InputError: The file cannot be read or is not a valid trace.
        """
        return _TraceFile(Path(path)).to_trace()

    @property
    def model_hash(self) -> str:
        """The hash of the model that was run; see `hash_model`."""
        return str(self.index.get("model", {}).get("hash", ""))

    @property
    def precision(self) -> str:
        """The precision of the run: "declared", or the element type that replaced the floating-point types."""
        return str(self.index.get("precision", ""))

    @property
    def error(self) -> str | None:
        """The message of the error that ended the run, or None."""
        message = self.index.get("error")
        return None if message is None else str(message)

    @property
    def input_keys(self) -> list[str]:
        """The keys of the inputs of the model, in the order of the Parameters."""
        return [str(key) for key in self.index.get("inputs", [])]

    @property
    def output_keys(self) -> dict[str, str]:
        """The keys of the outputs of the model, by the names of the outputs."""
        return {str(name): str(key) for name, key in self.index.get("outputs", {}).items()}

    def get_inputs(self) -> list[Array]:
        """Return the inputs of the model, in the order of the Parameters.

        Raises:
            InputError: The trace does not contain one of them.
        """
        return [self[key] for key in self.input_keys]

    def has_data(self, key: str) -> bool:
        """Return whether the trace contains the elements of a value."""
        value = self.entries.get(key)
        return value is not None and value.member is not None

    def __getitem__(self, key: str) -> Array:
        value = self.entries.get(key)
        if value is None:
            raise KeyError(f"the trace does not contain {key!r}")
        if value.member is None:
            raise InputError(f"the trace contains only statistics of {key!r}")
        return self._read(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def __repr__(self) -> str:
        return f"<Trace: {len(self)} values{f' in {self.path}' if self.path else ''}>"

    def _repr_html_(self) -> str:
        from irrun.inspection.html import make_trace_html

        return make_trace_html(self, MAX_ROWS)

    def report(
        self, model: Model | str | os.PathLike[str] | None = None, *, height: int = 800, channels: str = "BGR"
    ) -> TraceReport:
        """Return a page that shows the graph and the values; notebooks display it.

        Args:
            model: The model that was run; by default the file that the trace names.
            height: The height in a notebook in pixels.
            channels: The order of the channels of images: "BGR" or "RGB".

        Raises:
            InputError: The trace does not name a file, or the model differs from the one that was run.
        """
        from irrun.inspection.report import make_report

        if model is None:
            path = str(self.index.get("model", {}).get("path") or "")
            if not Path(path).is_file():
                raise InputError("the trace does not name an existing file of the model; pass the model")
            model = path
        source = model if isinstance(model, Model) else read_model(model)
        if hash_model(source) != self.model_hash:
            raise InputError("the model differs from the one that was run")
        return TraceReport(make_report(source, trace=self, channels=channels), height)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._close()


@dataclass(frozen=True)
class TraceReport:
    """A page that shows a trace.

    Attributes:
        page: The page as HTML.
        height: The height in a notebook in pixels.
    """

    page: str = field(repr=False)
    height: int = 800

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Args:
            path: The .html file.
        """
        with atomic_write(Path(path)) as file:
            file.write(self.page.encode())

    def _repr_html_(self) -> str:
        from irrun._html import make_frame

        return make_frame(self.page, self.height)


class _MemoryStore:
    """Stores values in memory."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def write(self, member: str, value: Array) -> None:
        self.arrays[member] = value

    def read(self, value: TracedValue) -> Array:
        return self.arrays[str(value.member)]


class _FileStore:
    """Appends values to an archive."""

    def __init__(self, file: BinaryIO) -> None:
        self.archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)

    def write(self, member: str, value: Array) -> None:
        with self.archive.open(zipfile.ZipInfo(member), "w", force_zip64=True) as entry:
            np.lib.format.write_array(entry, np.asarray(_encode(value), order="C"), allow_pickle=False)

    def finish(self, index: Mapping[str, Any], values: Sequence[TracedValue]) -> None:
        text = json.dumps({**index, "values": [value.to_json() for value in values]}, allow_nan=False)
        self.archive.writestr(zipfile.ZipInfo("index.json"), text)


class Recorder:
    """Observer that records values.

    Args:
        table: The keys of the model.
        store: Receives the values, with the names of their members.
        selection: The layers to record; by default all.
        max_bytes: Bytes that all recorded values may take. Beyond them, only statistics are recorded.
        with_inputs: Whether the inputs of selected layers are recorded too, so that the layers can be replayed.

    Attributes:
        values: The recorded values in the order of execution.
    """

    def __init__(
        self,
        table: KeyTable,
        store: Callable[[str, Array], None],
        selection: Selection | None = None,
        max_bytes: int | None = None,
        with_inputs: bool = True,
    ) -> None:
        self.table = table
        self.values: list[TracedValue] = []
        self._store = store
        self._selection = selection or Selection()
        self._remaining = max_bytes
        self._with_inputs = with_inputs
        self._keys: set[str] = set()
        self._sources: dict[int, list[_Source | None]] = {}
        self._graphs: dict[int, _Sources] = {}
        self._count = 0

    def __call__(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        seconds: float,
        scope: Scope,
    ) -> None:
        """Record the outputs of a layer."""
        key = self.table.get_key(layer, scope)
        ports = self._selection.select_ports(layer, key)
        if not ports:
            return
        prefix = key[: len(key) - len(self.table.get_key(layer))]
        for value, source in zip(inputs, self._get_sources(layer), strict=False):
            if source is None or value is None:
                continue
            is_body_parameter = source.layer.type == "Parameter" and bool(scope)
            if (is_body_parameter or self._selection) and (self._with_inputs or not self._selection):
                self.add(source.layer, source.port, value, prefix, is_selected=False)
        for port in ports:
            if port < len(outputs):
                self.add(layer, port, outputs[port], prefix, seconds=seconds)

    def add(
        self,
        layer: Layer,
        port: int,
        value: Array,
        prefix: str = "",
        *,
        seconds: float = 0.0,
        is_selected: bool = True,
    ) -> None:
        """Record one value, unless its key is recorded already.

        Args:
            layer: The layer that produced it.
            port: The position of the output port.
            value: The value.
            prefix: The owners of the bodies that contain the layer, with their iterations.
            seconds: The run time of the layer.
            is_selected: Whether the value was selected, as opposed to being the input of a selected layer.
        """
        layer_key = prefix + self.table.get_key(layer)
        key = layer_key + get_port_suffix(layer, port)
        if key in self._keys:
            return
        self._keys.add(key)
        member = None
        if self._remaining is None or value.nbytes <= self._remaining:
            member = f"values/{self._count}.npy"
            self._store(member, value)
            self._count += 1
            if self._remaining is not None:
                self._remaining -= value.nbytes
        element_type = str(ElementType.of(value.dtype))
        statistics = describe_values(value)
        shape = tuple(value.shape)
        self.values.append(
            TracedValue(key, layer_key, layer.type, port, element_type, shape, statistics, seconds, member, is_selected)
        )

    def _get_sources(self, layer: Layer) -> list[_Source | None]:
        if id(layer) not in self._sources:
            graph = self.table.get_graph(layer)
            sources = self._graphs.setdefault(id(graph), _Sources(graph))
            self._sources[id(layer)] = sources.find(layer)
        return self._sources[id(layer)]


@dataclass(frozen=True)
class _Source:
    """The layer and the position of the output port that an input is connected to."""

    layer: Layer
    port: int


class _Sources:
    """The sources of the inputs of a graph's layers, without values that depend on constants only."""

    def __init__(self, graph: Graph) -> None:
        self.layers = {layer.id: layer for layer in graph.layers}
        self.edges = {(e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges}
        self.constants = find_constant_layers(graph)

    def find(self, layer: Layer) -> list[_Source | None]:
        return [self.find_source(layer, port) for port in layer.inputs]

    def find_source(self, layer: Layer, port: Port) -> _Source | None:
        address = self.edges.get((layer.id, port.id))
        if address is None or address[0] in self.constants:
            return None
        producer = self.layers[address[0]]
        return _Source(producer, [p.id for p in producer.outputs].index(address[1]))


def record(
    model: Model | CompiledModel | str | os.PathLike[str],
    inputs: Inputs = None,
    path: str | os.PathLike[str] | None = None,
    *,
    layers: Sequence[str] = (),
    types: Sequence[str] = (),
    modules: Sequence[str] = (),
    max_bytes: int | None = None,
    with_inputs: bool = True,
    precision: str | None = None,
    observers: Sequence[Observer] = (),
) -> Trace:
    """Run a model once and record the outputs of its layers, in bodies too.

    Args:
        model: The model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        path: The trace file to write; None for a trace in memory.
        layers: Globs for the layers to record; see `Selection`.
        types: Types of the layers to record.
        modules: Prefixes of the keys of the layers to record.
        max_bytes: Bytes that all recorded values may take. Beyond them, only statistics are recorded.
        with_inputs: Whether the inputs of selected layers are recorded too, so that the layers can be replayed.
        precision: What the trace states as its precision; by default that of the compiled model, or "declared" where
            it makes no difference.
        observers: Observers that are called before the values are recorded.

    Returns:
        The trace.

    Raises:
        InputError: The inputs do not match the model, nothing is selected, or the file cannot be written.
        ExecutionError: A kernel failed. The file contains the values before the failure and the message.
    """
    compiled = _compile(model)
    table = KeyTable(compiled.model)
    selection = Selection(layers, types, modules)
    selection.check(table)
    arguments = collect_inputs(inputs, compiled.inputs, compiled._input_names)
    index: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": {
            "name": compiled.model.name,
            "hash": hash_model(compiled.model),
            "path": str(compiled.model.path) if compiled.model.path else None,
        },
        "versions": {"irrun": irrun.__version__, "numpy": np.__version__, "python": platform.python_version()},
        "precision": precision or (compiled.precision if compiled.computed_types else "declared"),
        "inputs": [table.get_value_key(spec.layer, 0) for spec in compiled.inputs],
        "outputs": _find_output_keys(compiled.model, table),
        "error": None,
    }

    def run(store: Callable[[str, Array], None]) -> tuple[Recorder, IrrunError | None]:
        recorder = Recorder(table, store, selection, max_bytes, with_inputs)
        for spec, value in zip(compiled.inputs, arguments, strict=True):
            copied = value.copy() if path is None else value
            recorder.add(spec.layer, 0, copied, is_selected=bool(selection.select_ports(spec.layer, spec.layer.name)))
        try:
            compiled.create_infer_request().infer(arguments, observers=[*observers, recorder])
        except IrrunError as error:
            index["error"] = str(error)
            return recorder, error
        return recorder, None

    if path is None:
        store = _MemoryStore()
        recorder, failure = run(store.write)
        if failure is not None:
            raise failure
        return Trace(index, recorder.values, store.read)
    try:
        with atomic_write(Path(path)) as file:
            file_store = _FileStore(file)
            with file_store.archive:  # closed before the file, also after an error
                recorder, failure = run(file_store.write)
                file_store.finish(index, recorder.values)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    if failure is not None:
        raise failure
    return Trace.open(path)


def replay(
    trace: Trace | str | os.PathLike[str], model: Model | CompiledModel | str | os.PathLike[str], layer: str
) -> dict[str, Array]:
    """Run one layer on its recorded inputs.

    Args:
        trace: The trace, or the path of its file.
        model: The model, or the path of its .xml file. It may differ from the one that was recorded.
        layer: The key of the layer, such as "conv1" or "loop[3]/lstm".

    Returns:
        The outputs by key.

    Raises:
        InputError: The layer does not exist, or the trace does not contain one of its inputs.
        ExecutionError: The kernel failed.
    """
    if not isinstance(trace, Trace):
        with Trace.open(trace) as opened:
            return replay(opened, model, layer)
    source = model.model if isinstance(model, CompiledModel) else model
    source = source if isinstance(source, Model) else read_model(source)
    table = KeyTable(source)
    target = table.find_layer(layer)
    local = table.get_key(target)
    prefix = ""
    if table.get_owner(target) is not None:
        position = layer.rfind("]/" + local)
        if position < 0 or "[" not in layer:
            raise InputError(f"expected a key with iterations, such as {table.get_path(target)}, found {layer!r}")
        prefix = layer[: position + 2]
    part, keys = isolate_layer(source, table, target)
    arguments = []
    for key in keys:
        if prefix + key not in trace:
            raise InputError(f"the trace does not contain {prefix + key!r}, an input of {layer!r}")
        arguments.append(trace[prefix + key])
    outputs = compile_model(part, optimize=False)(arguments).to_tuple()
    return {prefix + table.get_value_key(target, i): value for i, value in enumerate(outputs)}


def isolate_layer(
    model: Model, table: KeyTable, layer: Layer, absorbed: Collection[str] = ()
) -> tuple[Model, list[str]]:
    """Return a model of one layer and the constants that it depends on.

    Args:
        model: The model that contains the layer.
        table: The keys of the model.
        layer: The layer, which may be in a body.
        absorbed: Types of layers that become part of the model where they precede the layer.

    Returns:
        The model, with one Result per output of the layer; and the keys of the values that became its Parameters,
        without the owners of bodies.
    """
    graph = table.get_graph(layer)
    sources = _Sources(graph)
    part = Graph(name=layer.name)
    required = {layer.id}
    stack = [layer]
    while stack:
        current = stack.pop()
        for port in current.inputs:
            address = sources.edges.get((current.id, port.id))
            if address is None or address[0] in required:
                continue
            producer = sources.layers[address[0]]
            if address[0] in sources.constants or producer.type in absorbed:
                required.add(address[0])
                stack.append(producer)
    next_id = max(sources.layers) + 1
    parameters: dict[tuple[int, int], int] = {}
    keys: list[str] = []
    for edge in graph.edges:
        if edge.to_layer not in required:
            continue
        address = (edge.from_layer, edge.from_port)
        producer = sources.layers[edge.from_layer]
        if edge.from_layer not in required or is_placeholder(producer):
            if address not in parameters:
                parameters[address] = next_id
                port = next(p for p in producer.outputs if p.id == edge.from_port)
                part.layers.append(_make_parameter(next_id, f"input{len(parameters) - 1}", port))
                keys.append(table.get_value_key(producer, producer.outputs.index(port)))
                next_id += 1
            address = (parameters[address], 0)
        part.edges.append(Edge(*address, edge.to_layer, edge.to_port))
    part.layers += [candidate for candidate in graph.layers if candidate.id in required]
    for i, port in enumerate(layer.outputs):
        part.add_result(f"output{i}", (layer.id, port.id))
    part.layers = list(sort_layers(part))
    return Model(part, model.weights, 11, model.path), keys


def hash_model(model: Model) -> str:
    """Return a hash of the layers, edges and weights of a model.

    Args:
        model: The model.
    """
    digest = hashlib.sha256()
    for graph, layer in model.graph.walk():
        text = [
            layer.id,
            layer.name,
            layer.type,
            layer.version,
            sorted((k, str(v)) for k, v in layer.attributes.items()),
        ]
        digest.update(repr(text).encode("utf-8", "surrogatepass"))
        if layer is graph.layers[0]:
            digest.update(repr([tuple(edge) for edge in graph.edges]).encode())
        if layer.constant is not None and layer.constant.data is not None:
            digest.update(layer.constant.data)
    return f"sha256:{digest.hexdigest()}"


def _compile(model: Model | CompiledModel | str | os.PathLike[str]) -> CompiledModel:
    return model if isinstance(model, CompiledModel) else compile_model(model, optimize=False)


def _find_output_keys(model: Model, table: KeyTable) -> dict[str, str]:
    """Return the keys of the values that are outputs of a model, by the names of the outputs."""
    layers = {layer.id: layer for layer in model.graph.layers}
    sources = {e.to_layer: (e.from_layer, e.from_port) for e in model.graph.edges}
    keys: dict[str, str] = {}
    for i, spec in enumerate(model.outputs):
        producer_id, port_id = sources[spec.layer.id]
        producer = layers[producer_id]
        port = [p.id for p in producer.outputs].index(port_id)
        name = next(n for n in (*spec.names, f"output{i}", f"output{i}.result") if n not in keys)
        keys[name] = table.get_value_key(producer, port)
    return keys


def _make_parameter(layer_id: int, name: str, port: Port) -> Layer:
    """Return a Parameter of any type and shape, since declarations may be wrong."""
    return Layer(layer_id, name, "Parameter", attributes={"element_type": "dynamic", "shape": "..."}, outputs=[Port(0)])


def _encode(value: Array) -> Array:
    """Return a value as an array of a type that .npy files support, without changing its bits."""
    element_type = ElementType.of(value.dtype)
    if element_type.kind == "string":
        return value.astype(np.str_)
    if value.dtype.fields or value.dtype.kind == "V" or value.dtype.isbuiltin != 1:
        return np.asarray(value, order="C").view(np.dtype(f"u{value.dtype.itemsize}"))
    return value.astype(value.dtype.newbyteorder("<"), copy=False)


def _decode(array: Array, element_type: ElementType) -> Array:
    """Return the value that `_encode` encoded."""
    if element_type.kind == "string":
        return array.astype(object)
    if array.dtype != element_type.dtype:
        return array.view(element_type.dtype)
    return array


class _TraceFile:
    """A trace file that is open for reading. Sizes are checked before anything is read.

    Raises:
        InputError: The file cannot be read or is not a valid trace.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        with ExitStack() as stack, self.report_errors():
            if not os.path.isfile(path):  # opening a pipe would wait for its writer
                raise InputError("the file does not exist" if not path.exists() else "expected a regular file")
            self.archive = stack.enter_context(zipfile.ZipFile(path))
            self.members = self.list_members(path.stat().st_size)
            self.index = self.read_index()
            self.values = [_parse_value(entry) for entry in self.index.pop("values")]
            self.check_values()
            stack.pop_all()

    def to_trace(self) -> Trace:
        trace = Trace(self.index, self.values, self.read, self.path)
        trace._close = self.archive.close
        return trace

    def report_errors(self) -> _InvalidTrace:
        return _InvalidTrace(self.name)

    def list_members(self, file_size: int) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for info in self.archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
                raise InputError(f"expected uncompressed members, found {info.filename!r}")
            if info.filename in members:
                raise InputError(f"it contains {info.filename!r} twice")
            members[info.filename] = info
            total += info.file_size
        if total > file_size:
            raise InputError("its members overlap")
        return members

    def read_index(self) -> dict[str, Any]:
        info = self.members.get("index.json")
        if info is None:
            raise InputError("it does not contain index.json")
        if info.file_size > MAX_INDEX:
            raise InputError(f"expected an index.json of at most {MAX_INDEX} bytes, found {info.file_size}")
        index = json.loads(self.archive.read(info))
        if not isinstance(index, dict) or index.get("format") != FORMAT or not isinstance(index.get("values"), list):
            raise InputError("index.json is not that of a trace")
        if index.get("version") != VERSION:
            raise InputError(f"expected version {VERSION} of the format, found {index.get('version')!r}")
        kinds = {"model": dict, "versions": dict, "inputs": list, "outputs": dict}
        for name, kind in kinds.items():
            if not isinstance(index.get(name), kind):
                raise InputError(f"{name} in index.json is invalid")
        return index

    def check_values(self) -> None:
        keys: set[str] = set()
        for value in self.values:
            if value.key in keys:
                raise InputError(f"it contains the key {value.key!r} twice")
            keys.add(value.key)
            if value.member is not None and value.member not in self.members:
                raise InputError(f"it does not contain {value.member!r}")

    def read(self, value: TracedValue) -> Array:
        with self.report_errors():
            info = self.members[str(value.member)]
            element_type = ELEMENT_TYPES[value.type]
            with self.archive.open(info) as file:
                shape, dtype = _read_header(file, value, element_type)
                size = math.prod(shape) * dtype.itemsize
                if file.tell() + size != info.file_size:
                    raise InputError(f"{value.key!r} takes {info.file_size} bytes, which is not the size of its shape")
                data = file.read(size)
            array = np.frombuffer(bytearray(data), dtype).reshape(shape)
            return _decode(array, element_type)


class _InvalidTrace:
    """Context that reports every error in a file as InputError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        message = error.message if isinstance(error, IrrunError) else _describe_error(error)
        raise InputError(f"{self.name} is not a valid trace: {message}") from None


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"


def _read_header(file: Any, value: TracedValue, element_type: ElementType) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an .npy member and check it against the index."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise InputError(f"expected an .npy file of version 1 or 2 for {value.key!r}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if tuple(shape) != value.shape or is_fortran:
        raise InputError(f"expected the shape {list(value.shape)} for {value.key!r}, found {list(shape)}")
    if element_type.kind == "string":
        is_expected = dtype.kind == "U" and dtype.itemsize > 0
    else:
        empty = _encode(np.empty(0, element_type.dtype))
        is_expected = dtype == empty.dtype
    if not is_expected:
        raise InputError(f"expected the type {value.type} for {value.key!r}, found {dtype}")
    return tuple(shape), dtype


def _parse_value(entry: Any) -> TracedValue:
    """Return the description of a value after checking every field."""
    if not isinstance(entry, dict):
        raise InputError("an entry of index.json is not an object")
    texts = [entry.get(name) for name in ("key", "layer", "layer_type", "type")]
    member = entry.get("member")
    if not all(isinstance(text, str) for text in texts) or not (member is None or isinstance(member, str)):
        raise InputError("an entry of index.json is incomplete")
    if entry["type"] not in ELEMENT_TYPES:
        raise InputError(f"unknown element type {entry['type']!r}")
    shape = entry.get("shape")
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_RANK
        or not all(type(n) is int and 0 <= n < 2**63 for n in shape)
    ):
        raise InputError(f"{entry['key']!r} has an invalid shape")
    port, seconds, statistics = entry.get("port"), entry.get("seconds"), entry.get("statistics")
    if type(port) is not int or not isinstance(seconds, (int, float)) or not isinstance(statistics, dict):
        raise InputError(f"the entry of {entry['key']!r} is invalid")
    if not all(number is None or isinstance(number, (int, float)) for number in statistics.values()):
        raise InputError(f"{entry['key']!r} has invalid statistics")
    key, layer, layer_type, element_type = cast("list[str]", texts)
    is_selected = bool(entry.get("is_selected", True))
    return TracedValue(
        key, layer, layer_type, port, element_type, tuple(shape), statistics, float(seconds), member, is_selected
    )
