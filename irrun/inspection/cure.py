"""The layers of a quantized model to keep in floating point, found without quantizing again.

The quantized model is run with one layer at a time computed as in the floating-point model, on inputs that are not
quantized. The layers are ranked by what becomes of the outputs. The best one is kept, and the others are tried again
together with it.
"""

from __future__ import annotations

import heapq
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irrun.arguments import check_integer, check_list, check_path
from irrun.errors import InputError
from irrun.inspection.connections import Connections
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.metrics import widen
from irrun.inspection.references import convert_arguments, match_outputs
from irrun.inspection.replaying import isolate_layer
from irrun.ir.graph import Layer
from irrun.ir.model import Model, index_names
from irrun.ir.reader import read_model
from irrun.ir.structure import sort_layers
from irrun.ops._support import registry
from irrun.ops._support.card import Card
from irrun.runtime.executor import Scope
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import RunSettings

__all__ = ["Cure", "CureStep", "find_cure"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CureStep:
    """A layer to keep in floating point.

    Attributes:
        layer: The name of the layer.
        type: The type of the layer.
        sqnr_db: The predicted SQNR of the outputs if this layer and those before it are kept.
    """

    layer: str
    type: str
    sqnr_db: float


@dataclass(frozen=True, repr=False)
class Cure:
    """The layers to keep in floating point, best first.

    Attributes:
        initial_db: The SQNR of the outputs of the quantized model.
        steps: The layers, each with the SQNR that it and those before it give.
        single_db: The SQNR with one layer kept, by the name of the layer.
    """

    initial_db: float
    steps: list[CureStep]
    single_db: dict[str, float]

    def __repr__(self) -> str:
        last = self.steps[-1].sqnr_db if self.steps else self.initial_db
        return f"<Cure: {self.initial_db:.1f} dB, {last:.1f} dB with {len(self.steps)} layers in floating point>"

    def to_json(self) -> dict[str, Any]:
        """Return the cure for JSON."""
        return {
            "initial_db": self.initial_db,
            "layers": [vars(step) for step in self.steps],
            "single_db": dict(self.single_db),
        }


def find_cure(
    model: Model | str | os.PathLike[str],
    other: Model | str | os.PathLike[str],
    input_sets: Sequence[Inputs],
    count: int,
    *,
    precision: str = "f32",
    threads: int | None = None,
    memory: int | str | None = None,
    weights_memory: int | str | None = None,
    timeout: float | None = None,
) -> Cure:
    """Find the layers of a quantized model to keep in floating point.

    Args:
        model: The floating-point or the quantized model.
        other: The other one of them.
        input_sets: The inputs of one or more runs, over which the SQNR is computed.
        count: The number of layers to find.
        precision: As for `compile_model`, like the following.
        threads: Number of threads.
        memory: Memory of the values of a run.
        weights_memory: Memory of decompressed weights.
        timeout: Seconds that each run may take.

    Returns:
        The layers, best first. There are fewer than `count` if no other layer improves the outputs.

    Raises:
        InputError: Neither of the models is quantized, or `other` is not a model.
    """
    count = check_integer("count", count, 0)
    input_sets = check_list("input_sets", input_sets, "a list with the inputs of each run")
    models = [_read("model", model), _read("other", other)]
    counts = [sum(_get_card(layer).quantizes for _, layer in m.graph.walk()) for m in models]
    if counts[0] == counts[1]:
        raise InputError(f"expected a quantized model and one that is not, found {counts[0]} FakeQuantize in both")
    settings = RunSettings(precision, threads, memory, weights_memory, timeout=timeout)
    specs = models[0].inputs
    sets = [collect_inputs(inputs, specs, index_names(specs)) for inputs in input_sets]
    quantized, exact = (models[1], models[0]) if counts[1] > counts[0] else (models[0], models[1])
    search = _Search(quantized, exact, models[0], sets, settings)
    initial = search.measure(())
    candidates = search.find_candidates()
    single = {layer.name: search.measure((layer,)) for layer in candidates}
    steps: list[CureStep] = []
    kept: tuple[Layer, ...] = ()
    best = initial
    # A layer that helped less before rarely helps more later, so only the most promising ones are tried again.
    queue = [(initial - single[layer.name], i, 0) for i, layer in enumerate(candidates)]
    heapq.heapify(queue)
    while queue and len(steps) < count:
        loss, index, step = heapq.heappop(queue)
        layer = candidates[index]
        if step < len(steps):
            heapq.heappush(queue, (best - search.measure((*kept, layer)), index, len(steps)))
            continue
        if not loss < 0:  # NaN if the outputs are exact with and without the layer
            break
        kept = (*kept, layer)
        best -= loss
        steps.append(CureStep(layer.name, layer.type, best))
    return Cure(initial, steps, single)


def _read(name: str, model: Model | str | os.PathLike[str]) -> Model:
    if isinstance(model, Model):
        return model
    path = check_path(name, model, "a Model or the path of an .xml file")
    if not path.lower().endswith(".xml"):
        raise InputError(f"a cure requires two models, found {path!r}")
    return read_model(path)


class _Search:
    """Runs the quantized model with some layers computed as in the floating-point model."""

    def __init__(
        self,
        quantized: Model,
        exact: Model,
        declared: Model,
        sets: Sequence[Sequence[Array]],
        settings: RunSettings,
    ) -> None:
        self.settings = settings
        self.quantized = settings.compile(quantized, optimize=False)
        self.exact = exact
        self.table = KeyTable(quantized)
        self.connections = Connections(quantized.graph)
        self.exact_table = KeyTable(exact)
        self.matches = match_layers(quantized.graph, exact.graph)
        self.isolated: dict[int, _IsolatedLayer] = {}
        compiled = settings.compile(exact, optimize=False)
        self.sets = [convert_arguments(declared, self.quantized, arguments) for arguments in sets]
        positions = match_outputs(quantized, exact)
        self.positions = positions
        self.references = []
        for arguments in sets:
            outputs = settings.infer(compiled, convert_arguments(declared, compiled, arguments))
            self.references.append([None if i is None else outputs[i] for i in positions])

    def find_candidates(self) -> list[Layer]:
        """Return the layers with a quantized input or quantized weights that the floating-point model has too."""
        graph = self.quantized.model.graph
        constants = self.connections.constants
        # Layers whose outputs are quantized values: quantizers, and layers that move quantized values.
        quantized = {layer.id for layer in graph.layers if _get_card(layer).quantizes}
        quantized |= {i for i in constants if self._depends_on_integers(i)}
        candidates = []
        for layer in sort_layers(graph):
            has_quantized_input = any(n.id in quantized for n in self.connections.find_producers(layer))
            if layer.id in constants or _get_card(layer).quantizes or not has_quantized_input:
                continue
            if _moves(layer):
                quantized.add(layer.id)
            if _get_card(layer).keeps_values or layer.is_output or layer.bodies or self.matches.find(layer) is None:
                continue
            if self._get_isolated(layer).is_usable:
                candidates.append(layer)
        return candidates

    def measure(self, kept: Sequence[Layer]) -> float:
        """Return the mean SQNR of the outputs in dB if some layers are kept in floating point."""
        noise: dict[int, float] = {}
        signal: dict[int, float] = {}
        for arguments, references in zip(self.sets, self.references, strict=True):
            observer = _Replacer({id(layer): self._get_isolated(layer) for layer in kept}, self.table, arguments)
            outputs = self.settings.infer(self.quantized, arguments, [observer])
            for i, reference in enumerate(references):
                value = outputs[i]
                if reference is None or value.dtype.kind in "OUST" or value.shape != reference.shape:
                    continue
                a, b = widen(value), widen(reference)
                noise[i] = noise.get(i, 0.0) + float(np.sum((a - b) ** 2))
                signal[i] = signal.get(i, 0.0) + float(np.sum(b**2))
        ratios = [10 * math.log10(signal[i] / noise[i]) for i in noise if noise[i] > 0 and signal[i] > 0]
        return sum(ratios) / len(ratios) if ratios else math.inf

    def _get_isolated(self, layer: Layer) -> _IsolatedLayer:
        if id(layer) not in self.isolated:
            match = self.matches.find(layer)
            assert match is not None
            self.isolated[id(layer)] = _IsolatedLayer(
                self.connections, self.exact, self.exact_table, layer, match.layer, self.settings
            )
        return self.isolated[id(layer)]

    def _depends_on_integers(self, layer_id: int) -> bool:
        """Return whether a constant is computed from one of 8 bits or fewer."""
        stack, seen = [layer_id], {layer_id}
        while stack:
            layer = self.connections.layers[stack.pop()]
            if _get_card(layer).quantizes:
                return True
            constant = layer.constant
            if constant is not None and constant.element_type.is_integer and constant.element_type.dtype.itemsize == 1:
                return True
            new = [n.id for n in self.connections.find_producers(layer) if n.id not in seen]
            seen.update(new)
            stack += new
        return False


class _IsolatedLayer:
    """A layer of the floating-point model, and where the quantized model has its inputs before they are quantized.

    Layers that move the inputs of the layer belong to it, since quantizers may stand before them.
    """

    def __init__(
        self,
        quantized: Connections,
        exact: Model,
        exact_table: KeyTable,
        layer: Layer,
        match: Layer,
        settings: RunSettings,
    ) -> None:
        part, keys = isolate_layer(exact, exact_table, match, _moves)
        self.compiled = settings.compile(part, optimize=False)
        self.quantized = quantized
        names = Counter(n.name for n in quantized.graph.layers)
        counterparts = {n.name: n for n in quantized.graph.layers if names[n.name] == 1}
        included = {n.id for n in part.graph.layers}
        exact_layers = {n.id: n for n in exact.graph.layers}
        addresses: dict[str, tuple[int, int]] = {}
        for edge in exact.graph.edges:
            consumer, producer = exact_layers[edge.to_layer], exact_layers[edge.from_layer]
            own = layer if consumer is match else counterparts.get(consumer.name)
            if edge.to_layer not in included or edge.from_layer in included or own is None:
                continue
            key = exact_table.get_value_key(producer, [p.id for p in producer.outputs].index(edge.from_port))
            position = [p.id for p in consumer.inputs].index(edge.to_port)
            source = quantized.addresses.get((own.id, own.inputs[position].id)) if position < len(own.inputs) else None
            if source is not None:
                addresses.setdefault(key, self._skip_quantizers(source))
        self.addresses = [addresses.get(key) for key in keys]
        self.is_usable = None not in self.addresses

    def _skip_quantizers(self, address: tuple[int, int]) -> tuple[int, int]:
        """Return the source of a value before it was quantized."""
        while _get_card(self.quantized.layers[address[0]]).quantizes:
            quantizer = self.quantized.layers[address[0]]
            address = self.quantized.addresses[quantizer.id, quantizer.inputs[0].id]
        return address


class _Replacer:
    """Observer that replaces the outputs of layers by the outputs of the floating-point model."""

    def __init__(self, kept: Mapping[int, _IsolatedLayer], table: KeyTable, arguments: Sequence[Array]) -> None:
        self.kept = kept
        self.values: dict[tuple[int, int], Array] = {}
        self.required = {address for isolated in kept.values() for address in isolated.addresses}
        for parameter, value in zip(table.graph.find_layers("Parameter"), arguments, strict=True):
            self.values[parameter.id, parameter.outputs[0].id] = value

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> Sequence[Array] | None:
        """Store the outputs of a layer, or replace them."""
        if scope:
            return None
        isolated = self.kept.get(id(layer))
        if isolated is not None:
            arguments = [self.values[address] for address in isolated.addresses if address is not None]
            results = list(isolated.compiled(arguments).to_tuple())
            outputs = [r.astype(o.dtype, copy=False) for r, o in zip(results, outputs, strict=False)]
        for port, value in zip(layer.outputs, outputs, strict=False):
            if (layer.id, port.id) in self.required:
                self.values[layer.id, port.id] = value
        return None if isolated is None else outputs


def _get_card(layer: Layer) -> Card:
    return registry.get_card(layer.type, layer.version)


def _moves(layer: Layer) -> bool:
    """Return whether a layer only moves elements. Quantizers stand before such layers as well as after them."""
    return _get_card(layer).keeps_values and layer.type != "Concat"
