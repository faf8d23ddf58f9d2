"""The layers of a quantized model to keep in floating point, found without quantizing again.

The quantized model runs with one layer at a time computed as in the floating-point model, on unquantized inputs. The
layer that reduces the errors of the outputs most is kept, and the other layers are tried again together with it. If no
single layer changes the outputs, the smallest group of layers that does is kept.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.arguments import check_integer, check_list, check_path
from irrun.errors import InputError
from irrun.inspection.acceptance import measure_accuracy
from irrun.inspection.cure_search import CureSearch
from irrun.inspection.isolated_layers import is_quantizer
from irrun.ir.graph import Layer
from irrun.ir.model import Model, index_names
from irrun.ir.reader import read_model
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import RunOptions, RunSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["NOISE_DB", "Cure", "CureProgress", "CureStep", "find_cure", "order_models"]

Array = np.ndarray[Any, Any]

#: Gains below this many dB are noise: quantizing again with other inputs changes the outputs more.
NOISE_DB = 0.1


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
    **options: Unpack[RunOptions],
) -> Cure:
    """Find the layers of a quantized model to keep in floating point.

    Args:
        model: The floating-point or the quantized model.
        other: The other model.
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
        options: `precision`, `threads`, `memory` and `weights_memory`, as for `compile_model`, and `timeout`, the time
            limit of each run in seconds; or a `RunSettings` as `settings`.

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
    settings = RunSettings.choose(options)
    declared = _read("model", model)
    quantized, exact = order_models(declared, _read("other", other))
    specs = declared.inputs
    sets = [collect_inputs(inputs, specs, index_names(specs)) for inputs in input_sets]
    search = CureSearch(quantized, exact, declared, sets, settings, metric, labels and labels[: len(sets)])
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
    counts = [sum(is_quantizer(layer) for _, layer in m.graph.walk()) for m in (model, other)]
    if counts[0] == counts[1]:
        raise InputError(f"expected a quantized and a floating-point model, found {counts[0]} FakeQuantize in both")
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
