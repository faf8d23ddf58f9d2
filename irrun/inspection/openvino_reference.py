"""OpenVINO as a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.inspection.connections import Connections
from irrun.inspection.keys import KeyTable
from irrun.inspection.openvino_model import OpenVinoModel
from irrun.inspection.openvino_precision import get_precision_epsilon, parse_target
from irrun.inspection.spool import Spool
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.runtime.observer import Scope

__all__ = ["OpenVinoBody", "OpenVinoReference"]

Array = np.ndarray[Any, Any]


class OpenVinoReference:
    """A model that runs in OpenVINO, as a reference.

    Args:
        name: "openvino", optionally followed by a device and a precision.
        model: The model.
        arguments: Its inputs, in the order of the Parameters.
        keeps_batches: Whether more inputs follow in the same session.
    """

    is_same_runtime = False

    def __init__(self, name: str, model: Model, arguments: Sequence[Array], *, keeps_batches: bool = False) -> None:
        self.name = name
        self.target = parse_target(name)
        self._table = KeyTable(model)
        self._spool = Spool()
        self._layers = {id(layer) for layer in model.graph.layers}
        self._inputs = model.inputs
        self._arguments = {id(spec.layer): value for spec, value in zip(self._inputs, arguments, strict=True)}
        self._connections = Connections(model.graph)
        self._model = OpenVinoModel(model, self.target)
        self.precision = self._model.precision
        self.epsilon = get_precision_epsilon(self.precision)
        self._model.keeps_batches = keeps_batches
        self._outputs = self._model.run(arguments, self._spool)
        self.notes = self._make_notes()

    def find_match(self, layer: Layer) -> str | None:
        """Return "name" for layers of the model; OpenVINO does not show layers in bodies."""
        if id(layer) not in self._layers:
            return None
        keys = (self._table.get_value_key(layer, port) for port in range(len(layer.outputs)))
        return "name" if any(key in self._spool for key in keys) else None

    def get_value(self, layer: Layer, port: int, scope: Scope) -> Array | None:
        """Return the value of an output of a layer, or None if the reference does not have it."""
        return None if scope else self._spool.get(self._table.get_value_key(layer, port))

    def find_value(self, layer: Layer, port: int) -> Array | None:
        """Return an input of the model or an output of a layer, or None if the reference does not have it."""
        if layer.is_input:
            return self._arguments.get(id(layer))
        return self.get_value(layer, port, ())

    def get_outputs(self) -> list[Array | None]:
        """Return the outputs of the model."""
        return list(self._outputs)

    def get_variable(self, name: str) -> Array | None:
        """Return the value of a variable after the run, or None if the reference does not have it."""
        return self._model.get_variable(name)

    def advance(self, arguments: Sequence[Array]) -> None:
        """Run the next inputs of the session. Variables keep their values."""
        self._spool.close()
        self._spool = Spool()
        self._arguments = {id(spec.layer): value for spec, value in zip(self._inputs, arguments, strict=True)}
        self._outputs = self._model.run(arguments, self._spool)

    def is_perturbed(self, layer: Layer, scope: Scope) -> bool:
        """Return whether reading the value of a layer changed the outputs of the model."""
        perturbed = self._model.perturbed
        if scope or not perturbed:
            return False
        # The inputs of a layer may have been read in another batch with other values.
        producers = (self._table.get_key(producer) for producer in self._connections.find_producers(layer))
        return self._table.get_key(layer) in perturbed or any(key in perturbed for key in producers)

    def close(self) -> None:
        """Discard the values."""
        self._spool.close()
        self._model.close()

    def _make_notes(self) -> list[str]:
        model = self._model
        notes = []
        kernels = ", ".join(f"{count} in {name}" for name, count in model.kernel_precisions.most_common())
        if kernels:
            notes.append(f"OpenVINO runs the model in {model.precision} ({kernels} kernels)")
        if model.default_precision != model.precision:
            notes.append(
                f"OpenVINO's default on this machine is {model.default_precision}; "
                f"compare with openvino:{model.default_precision} to measure it"
            )
        if model.perturbed:
            notes.append(
                f"reading {len(model.perturbed)} layers changed the outputs of OpenVINO; they are marked as perturbed"
            )
        return notes


class OpenVinoBody(OpenVinoReference):
    """A body that runs in OpenVINO as a separate model.

    Args:
        model: The body as a model.
        parent: The reference of the model that contains the body.
    """

    def __init__(self, model: Model, parent: OpenVinoReference) -> None:
        self.name = parent.name
        self.target = parent.target
        self.epsilon = parent.epsilon
        self.precision = parent.precision
        self.notes = []
        self._inputs = model.inputs
        self._table = KeyTable(model)
        self._layers = {id(layer) for layer in model.graph.layers}
        self._arguments = {}
        self._connections = Connections(model.graph)
        self._spool = Spool()
        self._model = OpenVinoModel(model, parent.target)
        self._model.keeps_batches = True

    def run(self, arguments: Sequence[Array]) -> None:
        """Run one iteration.

        Args:
            arguments: The values of the Parameters of the body.
        """
        self.advance(arguments)
