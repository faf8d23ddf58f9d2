"""Recording of the values of a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.arguments import check_functions, check_integer, check_path, check_text
from irrun.atomic_files import atomic_write, check_not_overwriting
from irrun.element_types import ElementType
from irrun.errors import InputError, IrrunError
from irrun.inspection.connections import ConnectionTable, Source
from irrun.inspection.keys import KeyTable, Selection, get_port_suffix
from irrun.inspection.metrics import describe_values
from irrun.inspection.model_hash import hash_model
from irrun.inspection.trace import Trace, TracedValue
from irrun.inspection.trace_file import FORMAT, VERSION, TraceWriter
from irrun.ir.graph import Layer
from irrun.ir.model import Model, name_outputs
from irrun.ir.reader import read_model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.observer import Observer, Scope
from irrun.runtime.options import RunOptions, RunSettings
from irrun.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["Recorder", "record"]

Array = np.ndarray[Any, Any]


class Recorder:
    """Observer that records values.

    Args:
        table: The keys of the model.
        store: Receives the values, with the names of their members.
        selection: The layers to record; by default all.
        max_bytes: Maximum size of all recorded values in bytes. Beyond it, only statistics are recorded.
        with_inputs: Whether to record the inputs of selected layers, too, so that the layers can be replayed.

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
        self._remaining = None if max_bytes is None else check_integer("max_bytes", max_bytes, 0)
        self._with_inputs = with_inputs
        self._keys: set[str] = set()
        self._sources: dict[int, list[Source | None]] = {}
        self._connections = ConnectionTable(table)
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
            is_body_parameter = source.layer.is_input and bool(scope)
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
        """Record one value, unless its key is already recorded.

        Args:
            layer: The layer that produced it.
            port: The position of the output port.
            value: The value.
            prefix: The owners of the bodies that contain the layer, with their iterations.
            seconds: The run time of the layer.
            is_selected: Whether the value was selected, and not just an input of a selected layer.
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

    def _get_sources(self, layer: Layer) -> list[Source | None]:
        """Return the sources of the inputs of a layer; None for values that depend only on constants."""
        if id(layer) not in self._sources:
            connections = self._connections.get(layer)
            self._sources[id(layer)] = [
                None if source is None or source.layer.id in connections.constants else source
                for source in connections.find_sources(layer)
            ]
        return self._sources[id(layer)]


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
    recorded_precision: str | None = None,
    observers: Sequence[Observer] = (),
    **options: Unpack[RunOptions],
) -> Trace:
    """Run a model once and record the outputs of its layers, in bodies too.

    Args:
        model: The model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        path: The trace file to write; None for a trace in memory.
        layers: Globs for the layers to record; see `Selection`.
        types: Types of the layers to record.
        modules: Prefixes of the keys of the layers to record.
        max_bytes: Maximum size of all recorded values in bytes. Beyond it, only statistics are recorded.
        with_inputs: Whether to record the inputs of selected layers, too, so that the layers can be replayed.
        recorded_precision: The precision noted in the trace; by default the precision of the compiled model, or
            "declared" where it makes no difference.
        observers: Observers that are called before the values are recorded.
        options: `precision`, `threads`, `memory` and `weights_memory`, as for `compile_model`, not used for a compiled
            model; and `timeout`, the time limit of each run in seconds; or a `RunSettings` as `settings`.

    Returns:
        The trace.

    Raises:
        InputError: The inputs do not match the model, nothing is selected, or the file cannot be written or is a file
            that the model was read from.
        ExecutionError: A kernel failed, or the run exceeded its time limit. The file contains the values before the
            failure and the message.
    """
    settings, compiled = RunSettings.choose(options), model
    if not isinstance(compiled, CompiledModel):
        compiled = settings.compile(compiled if isinstance(compiled, Model) else read_model(compiled), optimize=False)
    observers = check_functions("observers", observers)
    if path is not None:
        path = check_path("path", path, "the path of a file or None")
        check_not_overwriting([path], compiled.model.files)
    if recorded_precision is not None:
        check_text("recorded_precision", recorded_precision)
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
        "versions": {"irrun": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "precision": recorded_precision or (compiled.precision if compiled.computed_types else "declared"),
        "inputs": [table.get_key(spec.layer) for spec in compiled.inputs],
        "outputs": _find_output_keys(compiled.model, table),
        "error": None,
    }

    def run(store: Callable[[str, Array], None]) -> tuple[Recorder, IrrunError | None]:
        recorder = Recorder(table, store, selection, max_bytes, with_inputs)
        for spec, value in zip(compiled.inputs, arguments, strict=True):
            copied = value.copy() if path is None else value
            recorder.add(spec.layer, 0, copied, is_selected=bool(selection.select_ports(spec.layer, spec.layer.name)))
        try:
            compiled.create_infer_request().infer(arguments, observers=[*observers, recorder], timeout=settings.timeout)
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
            writer = TraceWriter(file)
            with writer.archive:  # closed before the file, also after an error
                recorder, failure = run(writer.write)
                writer.finish(index, recorder.values)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    if failure is not None:
        raise failure
    return Trace.open(path)


class _MemoryStore:
    """Stores values in memory."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def write(self, member: str, value: Array) -> None:
        self.arrays[member] = value

    def read(self, value: TracedValue) -> Array:
        return self.arrays[str(value.member)]


def _find_output_keys(model: Model, table: KeyTable) -> dict[str, str]:
    """Return the keys of a model's outputs by the names of the outputs."""
    layers = {layer.id: layer for layer in model.graph.layers}
    sources = {e.to_layer: (e.from_layer, e.from_port) for e in model.graph.edges}
    keys: dict[str, str] = {}
    for name, spec in zip(name_outputs(model.outputs), model.outputs, strict=True):
        producer_id, port_id = sources[spec.layer.id]
        producer = layers[producer_id]
        port = [p.id for p in producer.outputs].index(port_id)
        keys[name] = table.get_value_key(producer, port)
    return keys
