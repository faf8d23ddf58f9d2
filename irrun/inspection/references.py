"""References for comparisons: other models, f64, traces and files of arrays."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from irrun.data.npy import check_compression, read_npy_header
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.inspection.keys import KeyTable, get_port_suffix
from irrun.inspection.matching import LayerMatches, match_layers
from irrun.inspection.spool import Spool
from irrun.inspection.trace import Trace
from irrun.ir.file_kinds import MODEL_SUFFIXES, explain_path
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.limits import check_allocation
from irrun.ops._support import registry
from irrun.runtime.executor import Scope
from irrun.runtime.inputs import convert_input
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings
from irrun.runtime.request import CompiledModel

__all__ = ["ArrayReference", "ModelReference", "Reference", "load_arrays", "make_f64_reference"]

Array = np.ndarray[Any, Any]


class Reference(Protocol):
    """A source of values for the layers of a model.

    Attributes:
        name: The name of the reference.
        precision: The precision in which the values were computed.
        epsilon: The epsilon of that precision if it is lower than the precision of the values' types, else 0.
        is_same_runtime: Whether irrun computed the values; equal layers then give equal values.
        notes: Messages for the user.
    """

    name: str
    precision: str
    epsilon: float
    is_same_runtime: bool
    notes: list[str]

    def find_match(self, layer: Layer) -> str | None:
        """Return how a layer was matched, or None if the reference does not have it."""

    def get_value(self, layer: Layer, port: int, scope: Scope) -> Array | None:
        """Return the value of an output of a layer, or None if the reference does not have it."""

    def get_outputs(self) -> list[Array | None]:
        """Return the outputs of the model, or None for outputs that the reference does not have."""

    def get_variable(self, name: str) -> Array | None:
        """Return the value of a variable after the run, or None if the reference does not have it."""

    def advance(self, arguments: Sequence[Array]) -> None:
        """Run the next inputs of the session. Variables keep their values."""

    def is_perturbed(self, layer: Layer, scope: Scope) -> bool:
        """Return whether reading the value of a layer changed the outputs of the reference."""

    def close(self) -> None:
        """Discard the values."""


class ModelReference:
    """Another model, run by irrun.

    Args:
        name: The name of the reference.
        model: The model.
        other: The reference model.
        arguments: The inputs of the model, in the order of its Parameters.
        settings: The settings for running the reference.
        is_f64: Whether the reference computes in f64, including its outputs.

    Attributes:
        matches: Maps the layers of the model to the layers of the reference.
    """

    epsilon = 0.0
    is_same_runtime = True

    def __init__(
        self,
        name: str,
        model: Model,
        other: Model,
        arguments: Sequence[Array],
        settings: RunSettings = DEFAULT_SETTINGS,
        is_f64: bool = False,
    ) -> None:
        self.name = name
        self.notes: list[str] = []
        self.matches: LayerMatches = match_layers(model.graph, other.graph)
        self.table = KeyTable(other)
        self._spool = Spool()
        if is_f64:
            settings = replace(settings, precision="f64", weights_memory=0)
        self._model = model
        self._compiled = settings.compile(other, optimize=False, keeps_output_types=not is_f64)
        self._request = self._compiled.create_infer_request()
        self._timeout = settings.timeout
        self.precision = "f64" if is_f64 else describe_precision(other)
        self._wanted = {id(match.layer) for match in self.matches.matches.values()}
        self._positions = match_outputs(model, other)
        self._run(arguments)

    def _run(self, arguments: Sequence[Array]) -> None:
        self.arguments = convert_arguments(self._model, self._compiled, arguments)
        outputs = self._request.infer(self.arguments, observers=[self._store], timeout=self._timeout)
        self._outputs = [None if i is None else outputs[i] for i in self._positions]
        self._variables = {variable.name: variable for variable in self._request.query_state()}

    def _store(self, layer: Layer, inputs: Any, outputs: Sequence[Array], seconds: float, scope: Scope) -> None:
        if id(layer) in self._wanted:
            for port, value in enumerate(outputs):
                self._spool.put(self.table.get_value_key(layer, port, scope), value)

    def advance(self, arguments: Sequence[Array]) -> None:
        """Run the next inputs of the session. Variables keep their values."""
        self._spool.close()
        self._spool = Spool()
        self._run(arguments)

    def get_variable(self, name: str) -> Array | None:
        """Return the value of a variable after the run, or None if the reference does not have it."""
        return self._variables[name].state if name in self._variables else None

    def find_match(self, layer: Layer) -> str | None:
        """Return how a layer was matched, or None if the reference does not have it."""
        match = self.matches.find(layer)
        return None if match is None else match.matched_by

    def get_value(self, layer: Layer, port: int, scope: Scope) -> Array | None:
        """Return the value of an output of a layer, or None if the reference does not have it."""
        match = self.matches.find(layer)
        owners = [self.matches.find(owner) for owner, _ in scope]
        if match is None or None in owners:
            return None
        pairs = zip(owners, scope, strict=True)
        other_scope = tuple((owner.layer, iteration) for owner, (_, iteration) in pairs if owner is not None)
        return self._spool.get(self.table.get_value_key(match.layer, port, other_scope))

    def get_outputs(self) -> list[Array | None]:
        """Return the outputs of the model, or None for outputs that the reference does not have."""
        return self._outputs

    def is_perturbed(self, layer: Layer, scope: Scope) -> bool:
        """Return False: observers do not change irrun's results."""
        return False

    def close(self) -> None:
        """Discard the values."""
        self._spool.close()


def make_f64_reference(model: Model, arguments: Sequence[Array], settings: RunSettings) -> ModelReference:
    """Return a reference that computes the same model in f64.

    Args:
        model: The model.
        arguments: Its inputs, in the order of the Parameters.
        settings: The settings for running it.
    """
    return ModelReference("f64", model, model, arguments, settings, is_f64=True)


class ArrayReference:
    """Arrays by name: a trace, or the arrays of another framework.

    An array belongs to a value if its name is the key of the value or of the layer, a tensor name, or one of these
    after characters that file names cannot contain are replaced.

    Args:
        name: The name of the reference.
        model: The model.
        names: The names of the arrays.
        read: Returns an array by its name.
        precision: The precision of the reference.
        epsilon: The epsilon of that precision if it is lower than the precision of the values' types.
        outputs: The names of the arrays that are outputs of the reference, by the names of the outputs.
        aliases: Names of arrays -> names of the model, if they differ. The reverse is accepted, too.

    Attributes:
        output_keys: The name of the array of each output of the model; None if the reference does not have it.
    """

    is_same_runtime = False

    def __init__(
        self,
        name: str,
        model: Model,
        names: Sequence[str],
        read: Callable[[str], Array],
        precision: str = "unknown",
        epsilon: float = 0.0,
        outputs: Mapping[str, str] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.precision = precision
        self.epsilon = epsilon
        self.notes: list[str] = []
        self._model = model
        self._read = read
        self._table = KeyTable(model)
        self._names = {normalized: text for text in reversed(list(names)) for normalized in (_normalize(text), text)}
        self._add_aliases(aliases or {}, names)
        if not outputs and not aliases:
            self._match_positions(names)
        self._iterated = {re.sub(r"\[\d+\]", "[0]", text) for text in self._names}
        self.output_keys = self._match_outputs(outputs or {})

    def find_match(self, layer: Layer) -> str | None:
        """Return how a layer was matched, or None if the reference does not have it."""
        path = self._table.get_path(layer)
        for port in range(max(len(layer.outputs), 1)):
            if any(name in self._iterated for name in self._list_names(layer, port, path)):
                return "name"
        return None

    def get_value(self, layer: Layer, port: int, scope: Scope) -> Array | None:
        """Return the value of an output of a layer, or None if the reference does not have it."""
        for name in self._list_names(layer, port, self._table.get_key(layer, scope)):
            if name in self._names:
                return self._read(self._names[name])
        return None

    def get_outputs(self) -> list[Array | None]:
        """Return the outputs of the model, or None for outputs that the reference does not have."""
        return [None if key is None else self._read(key) for key in self.output_keys]

    def get_variable(self, name: str) -> Array | None:
        """Return None: values of variables are not recorded."""

    def advance(self, arguments: Sequence[Array]) -> None:
        """Raise an error: the arrays belong to one run.

        Raises:
            InputError: Always.
        """
        raise InputError(f"{self.name} has the values of one run, expected one set of inputs")

    def is_perturbed(self, layer: Layer, scope: Scope) -> bool:
        """Return False: the arrays were recorded."""
        return False

    def close(self) -> None:
        """Do nothing: the arrays belong to the caller."""

    def _add_aliases(self, aliases: Mapping[str, str], names: Sequence[str]) -> None:
        """Assign arrays to names of the model.

        Raises:
            InputError: The array, layer or tensor does not exist.
        """
        known = {name for spec in self._model.outputs for name in spec.names}
        for path, layer in self._table.iterate_layers():
            known.update((path, layer.name, *(name for port in layer.outputs for name in port.names)))
        for theirs, ours in aliases.items():
            if theirs not in names and ours in names:
                theirs, ours = ours, theirs
            if theirs not in names:
                raise InputError(f"{self.name} has no array {theirs!r}, expected one of {_list_some(names)}")
            if ours not in known:
                raise InputError(f"the model has no layer or tensor {ours!r}")
            self._names[ours] = theirs

    def _match_positions(self, names: Sequence[str]) -> None:
        """Match arrays with outputs by position if none has a name of the model, and add a note."""
        specs = self._model.outputs
        layers = self._table.iterate_layers()
        if len(names) != len(specs) or any(self._find_output(spec.names) for spec in specs):
            return
        keys = (key for path, n in layers for port in range(len(n.outputs)) for key in self._list_names(n, port, path))
        known = {re.sub(r"\[\d+\]", "[0]", text) for text in self._names}
        if not known.isdisjoint(keys):
            return
        pairs = [(name, spec.names[0]) for name, spec in zip(names, specs, strict=True) if spec.names]
        self._names.update({ours: theirs for theirs, ours in pairs})
        shown = ", ".join(f"{theirs}={ours}" for theirs, ours in pairs)
        self.notes.append(f"no array has a name of the model: outputs are matched by position ({shown})")

    def _match_outputs(self, outputs: Mapping[str, str]) -> list[str | None]:
        """Return the array names of the outputs: by name, or by position if the reference lists outputs."""
        specs = self._model.outputs
        known = {name: key for name, key in outputs.items() if key in self._names}
        found = [next((known[name] for name in spec.names if name in known), None) for spec in specs]
        if len(known) == len(outputs) == len(specs) and (None in found or len(set(found)) < len(found)):
            return list(known.values())
        return [key or self._find_output(spec.names) for key, spec in zip(found, specs, strict=True)]

    def _find_output(self, names: Sequence[str]) -> str | None:
        for name in names:
            for candidate in (name, _normalize(name)):
                if candidate in self._names:
                    return self._names[candidate]
        return None

    def _list_names(self, layer: Layer, port: int, key: str) -> list[str]:
        names = [key + get_port_suffix(layer, port), f"{key}.{port}"]
        if port == 0:
            names.append(key)
        if port < len(layer.outputs) and "]/" not in key:
            names += layer.outputs[port].names
        return [*names, *map(_normalize, names)]


def _normalize(name: str) -> str:
    """Return a name without the prefix of PyTorch's tracer, in the spelling of `save_outputs` for file names."""
    return re.sub(r"[^\w.-]+", "_", name.removeprefix("__module."))


def _list_some(names: Sequence[str]) -> str:
    return ", ".join(list(names)[:5]) + (", ..." if len(names) > 5 else "")


def load_arrays(path: Path, model: Model, aliases: Mapping[str, str] | None = None) -> ArrayReference:
    """Return the arrays of a .trace, .npz or .safetensors file or of a folder of .npy files as a reference.

    Args:
        path: The file or folder.
        model: The model.
        aliases: Names of arrays -> names of the model.

    Raises:
        InputError: The file cannot be read, or a name of `aliases` is unknown.
    """
    suffix = path.suffix.lower()
    if os.path.isdir(path):  # False for names that are too long
        files = {file.stem: file for file in sorted(path.glob("*.npy")) if file.is_file()}
        if not files:
            raise InputError(f"{path} does not contain .npy files")
        return ArrayReference(str(path), model, list(files), lambda name: _load_npy(files[name]), aliases=aliases)
    if not os.path.isfile(path):
        raise InputError(f"{path} is not a file or folder")
    if suffix == ".trace":
        trace = Trace.open(path)
        names = [key for key in trace if trace.has_data(key)]
        outputs = trace.output_keys
        return ArrayReference(
            str(path), model, names, trace.__getitem__, trace.precision, outputs=outputs, aliases=aliases
        )
    if suffix == ".npz":
        return _open_npz(path, model, aliases)
    if suffix == ".safetensors":
        return _open_safetensors(path, model, aliases)
    expected = "expected an .xml, .onnx, .trace, .npz or .safetensors file or a folder of .npy files"
    explanation = explain_path(path) if suffix in MODEL_SUFFIXES else None
    raise InputError(explanation or f"{expected}, found {path}")


def _load_npy(path: Path) -> Array:
    try:
        with path.open("rb") as file:
            read_npy_header(file, path.stat().st_size)
        value = np.load(path, mmap_mode="r")
        _ = ElementType.of(value.dtype)
    except (OSError, ValueError, MemoryError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return np.asarray(value)


def _open_npz(path: Path, model: Model, aliases: Mapping[str, str] | None) -> ArrayReference:
    try:
        archive = zipfile.ZipFile(path)
        members = {n.removesuffix(".npy"): n for n in archive.namelist() if n.endswith(".npy")}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path}: {error}") from None

    def read(name: str) -> Array:
        try:
            info = archive.getinfo(members[name])
            check_compression(info)
            with archive.open(info) as file:
                shape, _, dtype = read_npy_header(file, info.file_size)
                check_allocation(shape, dtype)
            with archive.open(members[name]) as file:
                return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
            raise InputError(f"cannot read {name!r} of {path}: {error}") from None

    return ArrayReference(str(path), model, list(members), read, aliases=aliases)


def _open_safetensors(path: Path, model: Model, aliases: Mapping[str, str] | None) -> ArrayReference:
    try:
        from safetensors import safe_open
    except ImportError:
        raise InputError("reading .safetensors requires safetensors: pip install 'irrun[safetensors]'") from None
    import ml_dtypes  # noqa: F401  # registers bfloat16

    try:
        file: Any = safe_open(path, framework="numpy")
        names = list(file.keys())
    except Exception as error:  # safetensors defines its own exception
        raise InputError(f"cannot read {path}: {error}") from None

    def read(name: str) -> Array:
        try:
            return np.asarray(file.get_tensor(name))
        except Exception as error:
            raise InputError(f"cannot read {name!r} of {path}: {error}") from None

    return ArrayReference(str(path), model, names, read, aliases=aliases)


def convert_arguments(model: Model, other: Model | CompiledModel, arguments: Sequence[Array]) -> list[Array]:
    """Adapt the inputs of a model to another model, which may have another input order and other types.

    Args:
        model: The model.
        other: The other model.
        arguments: The inputs of the model, in the order of the Parameters.

    Raises:
        InputError: The models have different inputs.
    """
    specs, inputs = model.inputs, other.inputs
    if len(specs) != len(inputs):
        raise InputError(f"the models have {len(specs)} and {len(inputs)} inputs, expected equal inputs")
    by_name = {name: value for spec, value in zip(specs, arguments, strict=True) for name in spec.names}
    has_names = all(any(name in by_name for name in spec.names) for spec in inputs)
    converted = []
    for i, spec in enumerate(inputs):
        value = next(by_name[name] for name in spec.names if name in by_name) if has_names else arguments[i]
        is_float = spec.element_type is not None and spec.element_type.is_float
        if is_float and spec.element_type is not None and value.dtype.kind in "fV":
            value = value.astype(spec.element_type.dtype)
        converted.append(convert_input(value, spec))
    return converted


def match_outputs(model: Model, other: Model) -> list[int | None]:
    """Return the position of the matching output in another model for each output of a model.

    Args:
        model: The model.
        other: The other model.
    """
    names = {name: i for i, spec in reversed(list(enumerate(other.outputs))) for name in spec.names}
    positions = [next((names[n] for n in spec.names if n in names), None) for spec in model.outputs]
    if None not in positions and len(set(positions)) == len(positions):
        return positions
    return [i if i < len(other.outputs) else None for i in range(len(positions))]


def describe_precision(model: Model) -> str:
    """Return the floating-point types of the constants and outputs of a model, such as "f32".

    Args:
        model: The model.
    """
    types: set[str] = set()
    for _, layer in model.graph.walk():
        if registry.get_card(layer.type, layer.version).quantizes:
            types.add(layer.type)
        elif not (layer.is_constant or layer.is_output):
            for port in layer.outputs:
                if port.element_type is not None and port.element_type.is_float:
                    types.add(str(port.element_type))
    return ", ".join(sorted(types)) or "declared"


def make_mapping_reference(
    model: Model, arrays: Mapping[str, Array], aliases: Mapping[str, str] | None = None
) -> ArrayReference:
    """Return arrays in memory as a reference.

    Args:
        model: The model.
        arrays: The arrays by name.
        aliases: Names of arrays -> names of the model.
    """
    names = list(arrays)
    if isinstance(arrays, Trace):
        trace = arrays
        names = [key for key in trace if trace.has_data(key)]
        name = str(trace.path or "trace")
        outputs = trace.output_keys
        return ArrayReference(name, model, names, trace.__getitem__, trace.precision, outputs=outputs, aliases=aliases)
    return ArrayReference("arrays", model, names, lambda name: np.asarray(arrays[name]), aliases=aliases)
