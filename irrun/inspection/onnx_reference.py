"""An ONNX model in onnxruntime as a reference, such as an export of the model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.errors import ExecutionError, InputError
from irrun.inspection.array_reference import ArrayReference
from irrun.inspection.module_ends import find_layer_ends, find_layer_paths, find_module_ends
from irrun.inspection.modules import parse_module_path
from irrun.ir.graph import Graph, Layer, name_values
from irrun.ir.model import Model, name_inputs
from irrun.ops._support.numerics import Array

__all__ = ["OnnxReference"]

#: Types that onnxruntime returns as arrays.
TYPES = {f"tensor({name})" for name in ("float16", "float", "double", "bool", "string")} | {
    f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


class OnnxReference(ArrayReference):
    """The values of an ONNX model, matched with the values of the model by name.

    Values of bodies are unknown. Fusions that would lose values are disabled.

    Args:
        path: The .onnx file.
        model: The model.
        arguments: The inputs of the model, in the order of the Parameters.

    Raises:
        InputError: The packages onnx and onnxruntime are missing, or the file cannot be read.
        ExecutionError: onnxruntime cannot run the model.
    """

    def __init__(self, path: str | os.PathLike[str], model: Model, arguments: Sequence[Array]) -> None:
        self._path = Path(path)
        self._session, proto, names, count = _open_session(self._path)
        self._states: dict[str, Array] = {}
        self._own_names = name_values(model.graph)
        self._positions = {name: i for i, name in enumerate(name_inputs(model.inputs))}
        self._arrays: dict[str, Array] = {}
        #: Names of tensors by the ids of layers that end the same module, in files that PyTorch exported.
        self._ends = _match_modules(model.graph, proto, count)
        self._run(arguments)
        outputs = {name: name for name in names[:count] if not name.endswith(".new")}
        super().__init__(str(path), model, list(self._arrays), self._arrays.__getitem__, outputs=outputs)

    def _run(self, arguments: Sequence[Array]) -> None:
        feeds: dict[str, Array] = dict(self._states)
        for i, value in enumerate(self._session.get_inputs()):
            position = self._positions.get(value.name, i)
            if position >= len(arguments) or value.name in feeds:
                raise InputError(f"{self._path} differs from the model in the number of inputs")
            feeds[value.name] = np.asarray(arguments[position])
        names = [value.name for value in self._session.get_outputs() if _has_array(value.type)]
        try:
            values = self._session.run(names, feeds)
        except Exception as error:  # onnxruntime's exceptions have no common base
            raise ExecutionError(f"onnxruntime cannot run {self._path}: {error}") from error
        self._arrays.clear()
        self._arrays.update(zip(names, (np.asarray(value) for value in values), strict=True))
        self._states = {
            name.removesuffix(".new"): value for name, value in self._arrays.items() if name.endswith(".new")
        }

    def _list_names(self, layer: Layer, port: int, key: str) -> list[str]:
        """Return the possible names of a value; if it has a tensor name, only this name."""
        if "]/" in key or port >= len(layer.outputs):
            return []
        name = self._own_names.get((layer.id, layer.outputs[port].id))
        end = self._ends.get(layer.id, "")
        if end in self._arrays and name not in self._arrays:
            shape = layer.outputs[port].shape
            if shape is None or shape.is_compatible(self._arrays[end].shape):
                return [end]
        return super()._list_names(layer, port, key) if name is None else [name]

    def advance(self, arguments: Sequence[Array]) -> None:
        """Run the next inputs of the session. Variables keep their values."""
        self._run(arguments)


def _has_array(text: str) -> bool:
    """Return whether NumPy supports an onnxruntime type such as "tensor(float)"."""
    return text in TYPES


def _match_modules(graph: Graph, proto: Any, count: int) -> dict[int, str]:
    """Return the tensors that are outputs of modules, by the ids of the layers with the same values.

    The first `count` outputs are outputs of the model.
    A module is omitted if its value goes to a module that only one of the models has: an optimization may have
    merged both, such as a convolution and a normalization.
    """
    nodes = list(proto.graph.node)
    producers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    paths = {i: parse_module_path(node.name, "onnx") or () for i, node in enumerate(nodes)}
    paths[-1] = ()
    edges = [(producers[name], i) for i, node in enumerate(nodes) for name in node.input if name in producers]
    edges += [(producers[value.name], -1) for value in proto.graph.output[:count] if value.name in producers]
    theirs, ours = find_module_ends(paths, edges), find_layer_ends(graph)
    modules = [
        {path[:depth] for path in found for depth in range(len(path) + 1)}
        for found in (paths.values(), find_layer_paths(graph).values())
    ]
    result: dict[int, str] = {}
    for path, end in ours.items():
        other = theirs.get(path)
        if other is None or len(nodes[other.node].output) != 1:
            continue
        if end.users <= modules[0] and other.users <= modules[1]:
            result[end.node.id] = nodes[other.node].output[0]
    return result


def _open_session(path: Path) -> tuple[Any, Any, list[str], int]:
    """Return a session that returns all values, the model, its names, and the number of outputs that it declares."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise InputError("comparing with ONNX requires onnxruntime: pip install 'irrun[onnx]' onnxruntime") from None
    if not path.is_file():
        raise InputError(f"{path} is not a file")
    try:
        proto = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's exceptions have no common base
        raise InputError(f"cannot read {path}: {error}") from error
    declared = [value.name for value in proto.graph.output]
    names = [name for node in proto.graph.node for name in node.output if name and name not in declared]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ExecutionError(f"onnxruntime cannot run {path}: {error}") from error
    return session, proto, [*declared, *names], len(declared)
