"""References for comparisons: their interface, and other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from irrun.errors import InputError
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import LayerMatches, match_layers
from irrun.inspection.spool import Spool
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.ops._support import registry
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.inputs import convert_input
from irrun.runtime.observer import Scope
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings

__all__ = [
    "ModelReference",
    "Reference",
    "convert_arguments",
    "describe_precision",
    "make_f64_reference",
    "match_outputs",
]

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
        raise InputError(f"the models have {len(specs)} and {len(inputs)} inputs, expected the same inputs")
    by_name = {name: value for spec, value in zip(specs, arguments, strict=True) for name in spec.names}
    has_names = all(any(name in by_name for name in spec.names) for spec in inputs)
    converted = []
    for i, spec in enumerate(inputs):
        value = next(by_name[name] for name in spec.names if name in by_name) if has_names else arguments[i]
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
