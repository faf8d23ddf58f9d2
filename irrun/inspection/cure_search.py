"""The outputs of a quantized model with some layers in floating point, and the layers to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError
from irrun.formatting import format_count
from irrun.inspection.connections import Connections
from irrun.inspection.isolated_layers import ErrorObserver, IsolatedLayer, Replacer, is_quantizer, moves
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.metrics import widen
from irrun.inspection.references import convert_arguments, match_outputs
from irrun.inspection.weight_scales import use_channel_scales
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.ir.structure import sort_layers
from irrun.ops._support import registry
from irrun.runtime.options import RunSettings

__all__ = ["CureSearch", "rate_outputs"]

Array = np.ndarray[Any, Any]

#: The SQNR of outputs with NaN or infinity instead of numbers.
LOWEST_DB = -300.0
#: Outputs with only smaller values are reported, since a quantized model often gives 0 for them.
NEGLIGIBLE = 1e-12


class CureSearch:
    """Runs the quantized model with some layers computed as in the floating-point model.

    Args:
        quantized: The quantized model.
        exact: The floating-point model.
        declared: The model whose Parameters give the order of the inputs.
        sets: The inputs of each run.
        settings: The settings for running the models.
        metric: A function of an output and its reference that replaces the SQNR.
        labels: The reference of the first output in each run, for the metric.
    """

    def __init__(
        self,
        quantized: Model,
        exact: Model,
        declared: Model,
        sets: Sequence[Sequence[Array]],
        settings: RunSettings,
        metric: Callable[[Array, Array], float] | None = None,
        labels: Sequence[Array] | None = None,
    ) -> None:
        self.settings = settings
        self.metric = metric
        self.source = quantized
        self.quantized = settings.compile(quantized, optimize=False)
        self.exact = exact
        self.table = KeyTable(quantized)
        self.connections = Connections(quantized.graph)
        self.exact_table = KeyTable(exact)
        self.matches = match_layers(quantized.graph, exact.graph)
        self.isolated: dict[int, IsolatedLayer] = {}
        self.compiled = settings.compile(exact, optimize=False)
        self.positions = match_outputs(quantized, exact)
        self.use_inputs(declared, sets, labels)

    def use_inputs(
        self, declared: Model, sets: Sequence[Sequence[Array]], labels: Sequence[Array] | None = None
    ) -> None:
        """Use other inputs from now on, in the order of the Parameters of a model."""
        self.sets = [convert_arguments(declared, self.quantized, arguments) for arguments in sets]
        self.labels = labels
        self.exact_sets = [convert_arguments(declared, self.compiled, arguments) for arguments in sets]
        self.references = []
        if labels is not None:
            rest: list[Array | None] = [None] * (len(self.positions) - 1)
            self.references = [[label, *rest] for label in labels]
            return
        for arguments in self.exact_sets:
            outputs = self.settings.infer(self.compiled, arguments)
            self.references.append([None if i is None else outputs[i] for i in self.positions])

    def describe_outputs(self) -> list[str]:
        """Return notes about outputs with negligible values."""
        notes = []
        for i, spec in enumerate(self.quantized.model.outputs):
            values = [r[i] for r in self.references]
            sizes = [
                float(np.max(np.abs(widen(v)), initial=0)) for v in values if v is not None and v.dtype.kind in "fV"
            ]
            if sizes and 0 < max(sizes) < NEGLIGIBLE:
                name = spec.names[0] if spec.names else str(i)
                notes.append(f"output {name!r} has values of at most {max(sizes):.1e}, so its SQNR says little")
        return notes

    def rank_candidates(self) -> list[Layer]:
        """Return the candidates, sorted by the error of their own outputs in the first run, the largest first."""
        candidates = self.find_candidates()
        if not self.sets:
            return candidates
        observer = ErrorObserver({id(n): self._get_isolated(n) for n in candidates}, self.table, self.sets[0])
        self.settings.infer(self.quantized, self.sets[0], [observer])
        return sorted(candidates, key=lambda layer: -observer.errors.get(id(layer), 0.0))

    def find_group(self, candidates: Sequence[Layer], initial: float, least_gain: float) -> list[tuple[Layer, float]]:
        """Return a small group of layers that improves the outputs, each with its resulting value.

        Take the shortest beginning of the ranking that changes the outputs, then drop layers that have no effect.
        """
        low, high = 1, len(candidates)
        if not self.measure(candidates) > initial + least_gain:
            return []
        while low < high:
            middle = (low + high) // 2
            if self.measure(candidates[:middle]) > initial + least_gain:
                high = middle
            else:
                low = middle + 1
        group = list(candidates[:high])
        value = self.measure(group)
        for layer in list(group[:-1]):
            rest = [n for n in group if n is not layer]
            reduced = self.measure(rest)
            if reduced >= value - least_gain:
                group, value = rest, reduced
        return [(layer, self.measure(group[: i + 1])) for i, layer in enumerate(group)]

    def find_candidates(self) -> list[Layer]:
        """Return the layers with a quantized input or quantized weights that also exist in the floating-point model."""
        graph = self.quantized.model.graph
        constants = self.connections.constants
        # Layers whose outputs are quantized values: quantizers, and layers that move quantized values.
        quantized = {layer.id for layer in graph.layers if is_quantizer(layer)}
        quantized |= {i for i in constants if self._depends_on_integers(i)}
        candidates = []
        for layer in sort_layers(graph):
            has_quantized_input = any(n.id in quantized for n in self.connections.find_producers(layer))
            if layer.id in constants or is_quantizer(layer) or not has_quantized_input:
                continue
            if moves(layer):
                quantized.add(layer.id)
            if (
                registry.get_card(layer.type, layer.version).keeps_values
                or layer.is_output
                or layer.bodies
                or self.matches.find(layer) is None
            ):
                continue
            if self._get_isolated(layer).is_usable:
                candidates.append(layer)
        return candidates

    def measure(self, kept: Sequence[Layer]) -> float:
        """Return the mean SQNR of the outputs in dB, or the metric, if some layers are kept in floating point."""
        runs = []
        for arguments in self.sets:
            observer = Replacer({id(layer): self._get_isolated(layer) for layer in kept}, self.table, arguments)
            runs.append(self.settings.infer(self.quantized, arguments, [observer]).to_tuple())
        return rate_outputs(runs, self.references, self.metric, self.labels is not None)

    def compare_with_others(self, initial: float, best: float) -> list[str]:
        """Return remarks: the floating-point model's result with labels, and the gain of per-channel scales.

        The gain is only computed if weights have one scale for all channels.
        """
        if self.labels is not None:
            runs = []
            for arguments in self.exact_sets:
                outputs = self.settings.infer(self.compiled, arguments)
                runs.append([np.zeros(0) if i is None else outputs[i] for i in self.positions])
            value = rate_outputs(runs, self.references, self.metric, has_labels=True)
            return [f"the floating-point model reaches {value:.4f}"]
        if self.metric is not None:
            return []
        changed, count = use_channel_scales(self.source, self.exact)
        if not count:
            return []
        compiled = self.settings.compile(changed, optimize=False)
        results = [self.settings.infer(compiled, arguments).to_tuple() for arguments in self.sets]
        value = rate_outputs(results, self.references)
        compared = ""
        if best > initial:
            compared = f", {'more' if value > best else 'less'} than the layers in floating point"
        layers = format_count(count, "layer")
        return [f"per-channel scales of the weights of {layers} would gain {value - initial:.2f} dB{compared}"]

    def _get_isolated(self, layer: Layer) -> IsolatedLayer:
        if id(layer) not in self.isolated:
            match = self.matches.find(layer)
            assert match is not None
            self.isolated[id(layer)] = IsolatedLayer(
                self.connections, self.exact, self.exact_table, layer, match.layer, self.settings
            )
        return self.isolated[id(layer)]

    def _depends_on_integers(self, layer_id: int) -> bool:
        """Return whether a constant is computed from a constant of 8 bits or fewer."""
        stack, seen = [layer_id], {layer_id}
        while stack:
            layer = self.connections.layers[stack.pop()]
            if is_quantizer(layer):
                return True
            constant = layer.constant
            if constant is not None and constant.element_type.is_integer and constant.element_type.dtype.itemsize == 1:
                return True
            new = [n.id for n in self.connections.find_producers(layer) if n.id not in seen]
            seen.update(new)
            stack += new
        return False


def rate_outputs(
    runs: Sequence[Sequence[Array]],
    references: Sequence[Sequence[Array | None]],
    metric: Callable[[Array, Array], float] | None = None,
    has_labels: bool = False,
) -> float:
    """Return the mean over the outputs of the SQNR over all runs in dB, or the mean of a metric.

    Args:
        runs: The outputs of each run.
        references: The expected outputs of each run; None for outputs that do not count.
        metric: A function of an output and its reference.
        has_labels: Whether the references are labels, with shapes unlike the outputs.
    """
    scores: list[float] = []
    noise: dict[int, float] = {}
    signal: dict[int, float] = {}
    for outputs, expected in zip(runs, references, strict=True):
        for i, reference in enumerate(expected):
            value = outputs[i]
            if reference is None or value.dtype.kind in "OUST":
                continue
            if metric is not None and (has_labels or value.shape == reference.shape):
                scores.append(float(metric(value, reference)))
                continue
            if value.shape != reference.shape:
                continue
            a, b = widen(value), widen(reference)
            is_known = np.isfinite(b)
            # NaN and infinities in the reference do not count; in the output, they are infinite errors.
            is_broken = bool(np.any(is_known & ~np.isfinite(a)))
            noise[i] = noise.get(i, 0.0) + (math.inf if is_broken else float(np.sum((a[is_known] - b[is_known]) ** 2)))
            signal[i] = signal.get(i, 0.0) + float(np.sum(b[is_known] ** 2))
            if not is_known.any() and b.size:
                raise InputError(f"output {i} of the floating-point model has no finite value")
    if scores:
        return sum(scores) / len(scores)
    ratios = [
        LOWEST_DB if math.isinf(noise[i]) else 10 * math.log10(signal[i] / noise[i])
        for i in noise
        if noise[i] > 0 and signal[i] > 0
    ]
    return sum(ratios) / len(ratios) if ratios else math.inf
