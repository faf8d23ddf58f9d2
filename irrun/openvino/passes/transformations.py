"""Transformations of models that OpenVINO offers as passes."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ELEMENT_TYPES
from irrun.errors import IrrunError
from irrun.openvino.factories import make_assign, make_read_value
from irrun.openvino.inference import compute_node, get_known_value
from irrun.openvino.model import Model
from irrun.openvino.node import Node, make_constant
from irrun.openvino.passes.rewriting import ModelPass
from irrun.openvino.ports import Output
from irrun.openvino.serialization import serialize
from irrun.ops._support import registry

__all__ = [
    "ConstantFolding",
    "ConvertFP32ToFP16",
    "LowLatency2",
    "MakeStateful",
    "Serialize",
    "Version",
    "VisualizeTree",
]


class Version(enum.Enum):
    """The versions of files that `Serialize` accepts."""

    UNSPECIFIED = 0
    IR_V10 = 10
    IR_V11 = 11


class Serialize(ModelPass):
    """Writes a model to files.

    Args:
        path_to_xml: The path of the .xml.
        path_to_bin: The path of the .bin.
        version: The version of the files; irrun writes IR v11.
    """

    def __init__(
        self,
        path_to_xml: str | os.PathLike[str],
        path_to_bin: str | os.PathLike[str],
        version: Version | str | None = None,
        **others: Any,
    ) -> None:
        if others:
            raise TypeError(f"Serialize(): incompatible constructor arguments. Invoked with: {others}")
        self._paths = path_to_xml, path_to_bin
        self._version = version.name if isinstance(version, Version) else version or "UNSPECIFIED"

    def run_on_model(self, model: Model) -> bool:
        """Write a model, which stays unchanged."""
        serialize(model, *self._paths, self._version)
        return False


class VisualizeTree(ModelPass):
    """Writes a model as a graph in the language of Graphviz.

    Args:
        file_name: The path; `.dot` is appended if it ends otherwise.
        nm: Ignored, as are functions that change nodes.
    """

    def __init__(self, file_name: str = "graph", nm: Any = None, dot_only: bool = False) -> None:
        self._path = file_name if file_name.endswith(".dot") else f"{file_name}.dot"

    def run_on_model(self, model: Model) -> bool:
        """Write a model, which stays unchanged."""
        lines = []
        for node in model.get_ordered_ops():
            label = f"{node.get_type_name()}\\n{node.get_friendly_name()}".replace('"', '\\"')
            lines.append(f'  {node._id} [shape=box, label="{label}"]')
            lines += [f"  {source._node._id} -> {node._id}" for source in node._sources if source is not None]
        with open(self._path, "w", encoding="utf-8") as file:
            file.write("\n".join(["digraph {", *lines, "}", ""]))
        return False


class ConstantFolding(ModelPass):
    """Replaces values that do not depend on the inputs of a model by Constants."""

    def run_on_model(self, model: Model) -> bool:
        """Fold the values of a model; return whether there were any."""
        changed = False
        for node in model.get_ordered_ops():
            if node._type in ("Parameter", "Constant", "Result") or node._bodies or node._implementation is not None:
                continue
            if registry.get_card(node._type, node._version).kind not in ("random", "state"):
                changed |= self._fold(node)
        return changed

    def _fold(self, node: Node) -> bool:
        values: Sequence[Any] = [get_known_value(output) for output in node.outputs()]
        constants = [None if s is None else s._node._constant for s in node._sources]
        if any(value is None for value in values):
            if not constants or None in constants:
                return False
            try:
                values = compute_node(node, [None if c is None else c.to_array() for c in constants])
            except (IrrunError, RuntimeError):
                return False
        for output, value in zip(node.outputs(), values, strict=True):
            constant = make_constant(value, output.element_type)
            constant.set_friendly_name(node.get_friendly_name() + (f".{output._index}" if len(values) > 1 else ""))
            output.replace(Output(constant, 0))
        return True


class ConvertFP32ToFP16(ModelPass):
    """Converts the Parameters, Constants and conversions of a model from f32 to f16."""

    def run_on_model(self, model: Model) -> bool:
        """Convert a model; return whether it contained f32."""
        changed = False
        for node in model.get_ordered_ops():
            changed |= _convert(node)
        return changed


def _convert(node: Node) -> bool:
    port = node._ports[0] if node._ports else None
    if port is not None and port.element_type is ELEMENT_TYPES["f32"]:
        if node._type == "Parameter":
            node.set_element_type("f16")
            return True
        if node._constant is not None:
            with np.errstate(over="ignore"):
                half = make_constant(node._constant.to_array().astype(np.float16))
            half.set_friendly_name(node.get_friendly_name())
            Output(node, 0).replace(Output(half, 0))
            return True
    found = False
    for name, value in list(node._attributes.items()):
        if value is ELEMENT_TYPES["f32"] or (name.endswith("_type") and value == "f32"):
            node._attributes[name] = "f16" if isinstance(value, str) else ELEMENT_TYPES["f16"]
            found = True
    return found


class MakeStateful(ModelPass):
    """Replaces pairs of a Parameter and a Result by a variable that a run reads and writes.

    Args:
        pairs_to_replace: Pairs of a Parameter and a Result, or the names of results by the names of inputs.
    """

    def __init__(self, pairs_to_replace: Mapping[str, str] | Sequence[tuple[Node, Node]]) -> None:
        self._pairs = pairs_to_replace

    def run_on_model(self, model: Model) -> bool:
        """Replace the pairs.

        Raises:
            RuntimeError: An input or output does not exist.
        """
        pairs = self._pairs
        if isinstance(pairs, Mapping):
            triples = [(_find(model.inputs, a), _find(model.outputs, b), f"{a}{b}") for a, b in pairs.items()]
        else:
            triples = [(a, b, f"{a.get_friendly_name()}{b.get_friendly_name()}") for a, b in pairs]
        for parameter, result, variable in triples:
            _replace_pair(model, parameter, result, variable)
        return bool(pairs)


def _find(ports: Sequence[Output], name: str) -> Node:
    for port in ports:
        if name in port.names:
            node: Node = port.node
            return node
    raise RuntimeError(f"there is no input or output {name}")


def _replace_pair(model: Model, parameter: Node, result: Node, variable: str) -> None:
    state = make_read_value(None, variable, parameter.element_type, parameter.partial_shape)
    Output(parameter, 0).replace(Output(state, 0))
    model.add_sinks([make_assign(result.input_value(0), variable)])
    model.remove_result(result)
    model.remove_parameter(parameter)


class LowLatency2(ModelPass):
    """Replaces the states of loops by variables. irrun keeps loops without a state unchanged, and refuses others.

    Args:
        use_const_initializer: Whether variables start at zero instead of the first values of the loop.
    """

    def __init__(self, use_const_initializer: bool = True) -> None:
        self._starts_at_zero = use_const_initializer

    def run_on_model(self, model: Model) -> bool:
        """Check that no loop has a state.

        Raises:
            RuntimeError: A loop has one.
        """
        for node in model.get_ordered_ops():
            if any(body.back_edges for body in node._bodies.values()):
                raise RuntimeError(f"LowLatency2: irrun cannot replace the state of {node.get_friendly_name()}")
        return False
