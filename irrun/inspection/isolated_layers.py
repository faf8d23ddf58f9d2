"""Layers of a quantized model computed as in the floating-point model, on unquantized inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.inspection.connections import Connections
from irrun.inspection.keys import KeyTable
from irrun.inspection.metrics import widen
from irrun.inspection.replaying import isolate_layer
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.ops._support import registry
from irrun.runtime.observer import Scope
from irrun.runtime.options import RunSettings

__all__ = ["ErrorObserver", "IsolatedLayer", "Replacer", "is_quantizer", "moves"]

Array = np.ndarray[Any, Any]


class IsolatedLayer:
    """A layer of the floating-point model, and the sources of its unquantized inputs in the quantized model.

    Layers that move the inputs of the layer belong to it, since quantizers may precede them.

    Args:
        quantized: The connections of the quantized model.
        exact: The floating-point model.
        exact_table: The keys of that model.
        layer: The layer of the quantized model.
        match: The layer of the floating-point model.
        settings: The settings for running the layer.
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
        part, keys = isolate_layer(exact, exact_table, match, moves)
        self.part = part
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
        """Return the source of a value before quantization."""
        while is_quantizer(self.quantized.layers[address[0]]):
            quantizer = self.quantized.layers[address[0]]
            address = self.quantized.addresses[quantizer.id, quantizer.inputs[0].id]
        return address


class Replacer:
    """Observer that replaces the outputs of layers by the outputs of the floating-point model.

    Args:
        kept: The layers to compute in floating point, by the id of the object.
        table: The keys of the quantized model.
        arguments: Its inputs.
    """

    def __init__(self, kept: Mapping[int, IsolatedLayer], table: KeyTable, arguments: Sequence[Array]) -> None:
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
            results = self._run(isolated)
            outputs = [r.astype(o.dtype, copy=False) for r, o in zip(results, outputs, strict=False)]
        for port, value in zip(layer.outputs, outputs, strict=False):
            if (layer.id, port.id) in self.required:
                self.values[layer.id, port.id] = value
        return None if isolated is None else outputs

    def _run(self, isolated: IsolatedLayer) -> list[Array]:
        arguments = [self.values[address] for address in isolated.addresses if address is not None]
        return list(isolated.compiled(arguments).to_tuple())


class ErrorObserver(Replacer):
    """Observer that measures how the outputs of layers change if they are computed in floating point.

    Args:
        kept: The layers to compute in floating point, by the id of the object.
        table: The keys of the quantized model.
        arguments: Its inputs.
    """

    def __init__(self, kept: Mapping[int, IsolatedLayer], table: KeyTable, arguments: Sequence[Array]) -> None:
        super().__init__(kept, table, arguments)
        self.errors: dict[int, float] = {}
        self.uses = Counter(address for isolated in kept.values() for address in set(isolated.addresses))

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Store the outputs of a layer, or their errors relative to their values."""
        if scope:
            return
        isolated = self.kept.get(id(layer))
        if isolated is not None:
            pairs = [
                (widen(a), widen(b)) for a, b in zip(self._run(isolated), outputs, strict=False) if a.dtype.kind in "fV"
            ]
            signal = sum(float(np.sum(a**2)) for a, b in pairs if a.shape == b.shape)
            noise = sum(float(np.sum((a - b) ** 2)) for a, b in pairs if a.shape == b.shape)
            self.errors[id(layer)] = noise / signal if signal > 0 else noise
            for address in set(isolated.addresses):
                self.uses[address] -= 1
                if not self.uses[address] and address is not None:
                    self.values.pop(address, None)
        for port, value in zip(layer.outputs, outputs, strict=False):
            if self.uses.get((layer.id, port.id)):
                self.values[layer.id, port.id] = value


def is_quantizer(layer: Layer) -> bool:
    """Return whether a layer quantizes its input.

    Args:
        layer: The layer.
    """
    return registry.get_card(layer.type, layer.version).quantizes


def moves(layer: Layer) -> bool:
    """Return whether a layer only moves elements. Quantizers may precede or follow such layers.

    Args:
        layer: The layer.
    """
    card = registry.get_card(layer.type, layer.version)
    return card.keeps_values and not card.concatenates
