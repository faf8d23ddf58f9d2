"""The layers of a quantized model to keep in floating point, found without quantizing again.

The quantized model runs with one layer at a time computed as in the floating-point model, on unquantized
inputs. The layers are ranked by the errors of the outputs. The best one is kept, and the others are tried again
together with it. If no single layer changes the outputs, the smallest group of layers that does is kept.
"""

from __future__ import annotations

import heapq
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.arguments import check_integer, check_list, check_path
from irrun.errors import InputError
from irrun.inspection.acceptance import measure_accuracy
from irrun.inspection.connections import Connections
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.metrics import widen
from irrun.inspection.references import convert_arguments, match_outputs
from irrun.inspection.replaying import isolate_layer
from irrun.inspection.weight_scales import use_channel_scales
from irrun.ir.graph import Layer
from irrun.ir.model import Model, index_names
from irrun.ir.reader import read_model
from irrun.ir.structure import sort_layers
from irrun.ops._support import registry
from irrun.ops._support.card import Card
from irrun.runtime.executor import Scope
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import RunSettings

__all__ = ["NOISE_DB", "Cure", "CureProgress", "CureStep", "IsolatedLayer", "find_cure", "order_models", "rate_outputs"]

Array = np.ndarray[Any, Any]

#: Gains below this many dB are noise: quantizing again with other inputs changes the outputs more.
NOISE_DB = 0.1
#: The SQNR of outputs with NaN or infinity instead of numbers.
LOWEST_DB = -300.0
#: Outputs with only smaller values are reported, since a quantized model often gives 0 for them.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class CureStep:
    """A layer to keep in floating point.

    Attributes:
        layer: The name of the layer.
        type: The type of the layer.
        sqnr_db: The predicted SQNR of the outputs if this layer and all previous ones are kept.
    """

    layer: str
    type: str
    sqnr_db: float


@dataclass(frozen=True)
class CureProgress:
    """The progress of a search.

    Attributes:
        initial_db: The SQNR of the outputs of the quantized model.
        tried: The layer that was tried last, with its SQNR; None before the first one.
        done: The number of layers that were tried alone.
        total: The number of layers that can be tried.
        is_found: Whether the layer is one of the layers to keep.
    """

    initial_db: float
    tried: CureStep | None
    done: int
    total: int
    is_found: bool = False


@dataclass(frozen=True, repr=False)
class Cure:
    """The layers to keep in floating point, best first.

    Attributes:
        initial_db: The SQNR of the outputs of the quantized model.
        steps: The layers, each with the SQNR of it and all previous ones.
        single_db: The SQNR with one layer kept, by the name of the layer.
        held_out_db: The SQNR over held-out inputs, without and with the layers; None without held-out
            inputs.
        advice: Remarks on the result, in sentences.
    """

    initial_db: float
    steps: list[CureStep]
    single_db: dict[str, float]
    held_out_db: tuple[float, float] | None = None
    advice: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the layers to keep."""
        return [step.layer for step in self.steps]

    def to_ignored_scope(self) -> dict[str, list[str]]:
        """Return the arguments of `nncf.IgnoredScope` that keep the layers in floating point."""
        return {"names": self.names}

    def __repr__(self) -> str:
        last = self.steps[-1].sqnr_db if self.steps else self.initial_db
        return f"<Cure: {self.initial_db:.1f} dB, {last:.1f} dB with {len(self.steps)} layers in floating point>"

    def to_json(self) -> dict[str, Any]:
        """Return the cure for JSON."""
        return {
            "initial_db": self.initial_db,
            "layers": [vars(step) for step in self.steps],
            "single_db": dict(self.single_db),
            "held_out_db": None if self.held_out_db is None else list(self.held_out_db),
            "advice": list(self.advice),
            "ignored_scope": self.to_ignored_scope(),
        }


def find_cure(
    model: Model | str | os.PathLike[str],
    other: Model | str | os.PathLike[str],
    input_sets: Sequence[Inputs],
    count: int | None = None,
    *,
    until: float | None = None,
    held_out: Sequence[Inputs] = (),
    metric: Callable[[Array, Array], float] | None = None,
    labels: Sequence[Any] | None = None,
    report: Callable[[CureProgress], None] | None = None,
    precision: str = "f32",
    threads: int | None = None,
    memory: int | str | None = None,
    weights_memory: int | str | None = None,
    timeout: float | None = None,
) -> Cure:
    """Find the layers of a quantized model to keep in floating point.

    Args:
        model: The floating-point or the quantized model.
        other: The other one.
        input_sets: The inputs of one or more runs, over which the SQNR is computed.
        count: The maximum number of layers. Without it, the search ends when another layer gains only noise.
        until: The SQNR in dB, or value of the metric, at which the search ends.
        held_out: The inputs of runs that confirm the result. They are not used to choose layers.
        metric: A function of an output and its reference that replaces the SQNR; higher is better. Its mean over all
            outputs and runs counts.
        labels: The second argument of the metric for the first output, one for each run of `input_sets` and
            `held_out`. The default metric is then the accuracy: the fraction of rows with the largest element at the
            position of the label. Its value for the floating-point model becomes part of the advice.
        report: Called after each trial of a layer.
        precision: This and the following arguments are as for `compile_model`.
        threads: Number of threads.
        memory: Memory of the values of a run.
        weights_memory: Memory of decompressed weights.
        timeout: Time limit of each run in seconds.

    Returns:
        The layers, best first. There are fewer than `count` if no other layer improves the outputs.

    Raises:
        InputError: Neither of the models is quantized, or `other` is not a model.
    """
    limit = math.inf if count is None else check_integer("count", count, 0)
    input_sets = check_list("input_sets", input_sets, "a list with the inputs of each run")
    held_out = check_list("held_out", held_out, "a list with the inputs of each run")
    if labels is not None:
        labels = _check_labels(labels, len(input_sets) + len(held_out))
        metric = metric or measure_accuracy
    settings = RunSettings(precision, threads, memory, weights_memory, timeout=timeout)
    declared = _read("model", model)
    quantized, exact = order_models(declared, _read("other", other))
    specs = declared.inputs
    sets = [collect_inputs(inputs, specs, index_names(specs)) for inputs in input_sets]
    search = _Search(quantized, exact, declared, sets, settings, metric, labels and labels[: len(sets)])
    initial = search.measure(())
    target = math.inf if until is None else until
    least_gain = NOISE_DB if count is None and metric is None else 0.0
    candidates = search.rank_candidates()

    def announce(layer: Layer | None, value: float, is_found: bool = False) -> None:
        if report is not None:
            tried = None if layer is None else CureStep(layer.name, layer.type, value)
            report(CureProgress(initial, tried, len(single), len(candidates), is_found))

    single: dict[str, float] = {}
    announce(None, initial)
    for layer in candidates if initial < target or until is None else ():
        single[layer.name] = search.measure((layer,))
        announce(layer, single[layer.name])
    steps: list[CureStep] = []
    kept: list[Layer] = []
    best = initial
    # A layer that helped less before rarely helps more later, so only the most promising ones are tried again.
    queue = [(initial - single[layer.name], i, 0) for i, layer in enumerate(candidates) if layer.name in single]
    heapq.heapify(queue)
    while queue and len(steps) < limit and best < target:
        loss, index, step = heapq.heappop(queue)
        layer = candidates[index]
        if step < len(steps):
            heapq.heappush(queue, (best - search.measure((*kept, layer)), index, len(steps)))
            continue
        if not loss < -least_gain:  # NaN if the outputs are exact with and without the layer
            break
        kept.append(layer)
        best -= loss
        steps.append(CureStep(layer.name, layer.type, best))
        announce(layer, best, is_found=True)
    if not steps and single and limit and initial < target:
        for layer, best in search.find_group(candidates, initial, least_gain or NOISE_DB * (metric is None)):
            if len(steps) == limit:
                break
            kept.append(layer)
            steps.append(CureStep(layer.name, layer.type, best))
            announce(layer, best, is_found=True)
    advice = _advise(initial, steps, single, until, metric is None) + search.describe_outputs()
    if single and not best >= target and (until is not None or not steps):
        advice.append(f"keeping all {len(candidates)} layers in floating point gives {search.measure(candidates):.2f}")
    advice += search.compare_with_others(initial, best) if single else []
    confirmed = None
    if held_out:
        others = [collect_inputs(inputs, specs, index_names(specs)) for inputs in held_out]
        search.use_inputs(declared, others, labels and labels[len(sets) :])
        confirmed = (search.measure(()), search.measure(kept))
    return Cure(initial, steps, single, confirmed, advice)


def order_models(model: Model, other: Model) -> tuple[Model, Model]:
    """Return two models, the quantized one first.

    Args:
        model: A model.
        other: The same model, quantized or not.

    Raises:
        InputError: Both or neither is quantized.
    """
    counts = [sum(_get_card(layer).quantizes for _, layer in m.graph.walk()) for m in (model, other)]
    if counts[0] == counts[1]:
        raise InputError(f"expected a quantized model and one that is not, found {counts[0]} FakeQuantize in both")
    return (other, model) if counts[1] > counts[0] else (model, other)


def _check_labels(labels: Sequence[Any], count: int) -> list[Array]:
    checked = [np.asarray(label) for label in check_list("labels", labels, "a list with the label of each run")]
    if len(checked) != count:
        raise InputError(f"labels has {len(checked)} elements, expected one for each of {count} runs")
    return checked


def _advise(
    initial: float, steps: Sequence[CureStep], single: Mapping[str, float], until: float | None, is_sqnr: bool
) -> list[str]:
    """Return remarks on the gains of layers."""
    advice = []
    unit = " dB" if is_sqnr else ""
    previous = initial
    for step in steps:
        gain = step.sqnr_db - previous
        if is_sqnr and gain < NOISE_DB:
            advice.append(f"keeping {step.layer} in floating point gains {gain:.2f} dB: within noise")
        previous = step.sqnr_db
    if until is not None and previous < until:
        advice.append(f"{previous:.2f}{unit} do not reach {until:g}{unit}")
    if single and not steps and initial < math.inf:
        gain = max(single.values()) - initial
        advice.append(f"the best single layer gains {gain:.2f}{unit}" + (": within noise" if gain < NOISE_DB else ""))
    return advice


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
        observer = _ErrorObserver({id(n): self._get_isolated(n) for n in candidates}, self.table, self.sets[0])
        self.settings.infer(self.quantized, self.sets[0], [observer])
        return sorted(candidates, key=lambda layer: -observer.errors.get(id(layer), 0.0))

    def find_group(self, candidates: Sequence[Layer], initial: float, least_gain: float) -> list[tuple[Layer, float]]:
        """Return a small group of layers that improves the outputs, each with its resulting value.

        Take as few of the first layers in the ranking as change the outputs, then drop layers without an effect.
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
        """Return the mean SQNR of the outputs in dB, or the metric, if some layers are kept in floating point."""
        runs = []
        for arguments in self.sets:
            observer = _Replacer({id(layer): self._get_isolated(layer) for layer in kept}, self.table, arguments)
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
        layers = "1 layer" if count == 1 else f"{count} layers"
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


class IsolatedLayer:
    """A layer of the floating-point model, and the sources of its unquantized inputs in the quantized model.

    Layers that move the inputs of the layer belong to it, since quantizers may precede them.
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
        while _get_card(self.quantized.layers[address[0]]).quantizes:
            quantizer = self.quantized.layers[address[0]]
            address = self.quantized.addresses[quantizer.id, quantizer.inputs[0].id]
        return address


class _Replacer:
    """Observer that replaces the outputs of layers by the outputs of the floating-point model."""

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


class _ErrorObserver(_Replacer):
    """Observer that measures how the outputs of layers change if they are computed in floating point."""

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


def _get_card(layer: Layer) -> Card:
    return registry.get_card(layer.type, layer.version)


def _moves(layer: Layer) -> bool:
    """Return whether a layer only moves elements. Quantizers may precede or follow such layers."""
    card = _get_card(layer)
    return card.keeps_values and not card.concatenates
