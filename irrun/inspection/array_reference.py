"""Arrays by name as references: traces, files, and arrays in memory."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.data.npy import check_compression, read_npy_header
from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.inspection.keys import KeyTable, get_port_suffix
from irrun.inspection.trace import Trace
from irrun.ir.file_kinds import MODEL_SUFFIXES, explain_path
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.limits import check_allocation
from irrun.runtime.observer import Scope

__all__ = ["ArrayReference", "load_arrays", "make_mapping_reference"]

Array = np.ndarray[Any, Any]


class ArrayReference:
    """Arrays by name: a trace, or the arrays of another framework.

    An array belongs to a value if its name is the key of the value or of the layer, or a tensor name, possibly with
    replacements for characters that file names cannot contain.

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


def _normalize(name: str) -> str:
    """Return a name without the prefix of PyTorch's tracer, in the spelling of `save_outputs` for file names."""
    return re.sub(r"[^\w.-]+", "_", name.removeprefix("__module."))


def _list_some(names: Sequence[str]) -> str:
    return ", ".join(list(names)[:5]) + (", ..." if len(names) > 5 else "")
