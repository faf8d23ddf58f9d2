"""The data of a report: what a run computed, how long it took, and how far it is from a reference."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import irrun
from irrun.errors import IrrunError, escape_unprintable
from irrun.inspection.comparing import compare, open_reference
from irrun.inspection.comparison import Comparison, LayerComparison
from irrun.inspection.metrics import Metrics
from irrun.inspection.report.collection import Collector, collect_trace
from irrun.inspection.report.expected import ExpectedValues
from irrun.inspection.report.structure import Structure, name_model
from irrun.inspection.report.summaries import MAX_TEXT, shorten
from irrun.inspection.report.tensors import DEFAULT_TENSOR_BYTES
from irrun.inspection.report.times import Times, measure_times, read_recorded_times
from irrun.inspection.trace import Trace
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.compilation import Jit
from irrun.runtime.executor import Observer
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import RunSettings
from irrun.runtime.request import CompiledModel

__all__ = ["Report", "Source", "collect_report"]

Array = np.ndarray[Any, Any]

#: What a report can be made of.
Source = Model | CompiledModel | str | os.PathLike[str]


@dataclass
class Report:
    """The data of a report.

    Attributes:
        structure: The layers of the model.
        collector: The values.
        times: The times of an optimized run, or None if it failed.
        comparison: The comparison with the reference, or None.
        error: The error that ended the run, or None. The report contains the values before it.
        channels: The order of the channels of images: "BGR" or "RGB".
        notes: Messages for the reader.
    """

    structure: Structure
    collector: Collector
    times: Times | None = None
    comparison: Comparison | None = None
    error: IrrunError | None = None
    channels: str = "BGR"
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The name of the file, and that of the model if it says more."""
        return " · ".join(name_model(self.structure.model))

    def to_json(self) -> dict[str, Any]:
        """Return the data of the page."""
        model, structure = self.structure.model, self.structure
        results = [n for n in model.graph.find_layers("Result") if id(n) in structure.numbers]
        names = {spec.layer.id: spec.names for spec in model.outputs}
        return {
            "format": 1,
            "irrun": irrun.__version__,
            "model": {
                "names": name_model(model),
                "path": shorten(str(model.path)) if model.path else None,
                "version": model.source_version,
            },
            "run": {"error": None if self.error is None else shorten(str(self.error), 2000)},
            "times": None if self.times is None else self.times.to_json(),
            "channels": self.channels,
            "inputs": [
                structure.numbers[id(n)] for n in model.graph.find_layers("Parameter") if id(n) in structure.numbers
            ],
            "outputs": [
                {"name": shorten((names.get(n.id) or (n.name,))[0]), "layer": structure.numbers[id(n)]} for n in results
            ],
            "layers": structure.describe_layers(),
            "graphs": structure.describe_graphs(),
            "values": self.collector.records,
            "iterations": self.collector.iterations,
            "max_iterations": self.collector.max_iterations,
            "pictures": self.collector.pictures.to_json(),
            "compared": self.collector.compared.to_json(),
            "tensors": self.collector.tensors.to_json(),
            "reference": None if self.comparison is None else self.describe_reference(self.comparison),
            "errors": {} if self.comparison is None else self.describe_errors(self.comparison.layers),
            "notes": [escape_unprintable(note) for note in [*self.notes, *self.collector.describe_omissions()]],
        }

    def describe_errors(self, layers: Sequence[LayerComparison]) -> dict[int, dict[str, dict[str, Any]]]:
        """Return the errors of layers by their numbers and iterations.

        Args:
            layers: The comparisons of layers.
        """
        errors: dict[int, dict[str, dict[str, Any]]] = {}
        for layer in layers:
            number, tag = self._find_layer(layer.key)
            if number is None or (tag and tag not in self.collector.records.get(number, {})):
                continue  # an iteration that is not shown
            errors.setdefault(number, {})[tag] = {
                "own": _describe_metrics(layer.own),
                "accumulated": _describe_metrics(layer.accumulated),
                "verdict": layer.verdict,
                "reason": shorten(layer.reason),
            }
        return errors

    def describe_reference(self, comparison: Comparison) -> dict[str, Any]:
        """Return what the comparison found, the layers that add an error as `compare` ranks them.

        Args:
            comparison: The comparison.
        """
        causes = []
        for layer in comparison.causes:
            number, tag = self._find_layer(layer.key)
            causes.append(
                {
                    "layer": number,
                    "tag": tag,
                    "key": shorten(layer.key),
                    "type": shorten(layer.type, 80),
                    "reason": shorten(layer.reason),
                    "own": _describe_metrics(layer.own),
                    "contribution": _limit_decibels(layer.contribution_db),
                    "since": [shorten(name) for name in layer.since[:4]],
                }
            )
        return {
            "name": shorten(comparison.reference),
            "precision": shorten(comparison.precision),
            "outcome": comparison.outcome,
            "summary": shorten(comparison.describe(), 2 * MAX_TEXT),
            "matched": comparison.matched,
            "total": comparison.layers_total,
            "causes": causes,
            "notes": [shorten(note) for note in comparison.notes],
            "outputs": [
                {
                    "name": shorten(output.name),
                    "error": None if output.metrics is None else _describe_metrics(output.metrics),
                    "agrees": output.agrees,
                }
                for output in comparison.outputs
            ],
        }

    def _find_layer(self, key: str) -> tuple[int | None, str]:
        """Return the number of a layer and the iterations of the bodies that contain it."""
        try:
            found = self.structure.table.find_layer(key)
        except IrrunError:
            return None, ""
        depth = self.structure.get_depth(found)
        return self.structure.numbers.get(id(found)), ",".join(re.findall(r"\[(\d+)\]/", key)[:depth])


def collect_report(
    model: Source,
    inputs: Inputs = None,
    *,
    trace: Trace | None = None,
    against: Model | str | os.PathLike[str] | Mapping[str, Array] | None = None,
    comparison: Comparison | None = None,
    channels: str = "BGR",
    observers: Sequence[Observer] = (),
    precision: str = "f32",
    threads: int | None = None,
    memory: int | str | None = None,
    weights_memory: int | str | None = None,
    jit: Jit = None,
    timeout: float | None = None,
    tensor_bytes: int = DEFAULT_TENSOR_BYTES,
) -> Report:
    """Run a model and collect the data of a report.

    Args:
        model: The model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        trace: Recorded values to show; by default the model runs.
        against: What the model is compared with, as for `compare`; None for no comparison.
        comparison: The comparison, if it exists already.
        channels: The order of the channels of images: "BGR" or "RGB".
        observers: Observers that are called first, in all runs.
        precision: As for `compile_model`, like the following; not used for a compiled model.
        threads: Number of threads.
        memory: Memory of the values of a run.
        weights_memory: Memory of decompressed weights.
        jit: Whether the run that is measured uses compiled kernels.
        timeout: Seconds that each run may take.
        tensor_bytes: Compressed bytes of full values, which the page draws and offers for download.

    Returns:
        The data. If the run failed, they contain the error and the values before it.

    Raises:
        InputError: The inputs do not match the model, or the reference does not exist.
        IrrunError: The model is invalid, or the comparison failed.
    """
    settings = RunSettings(precision, threads, memory, weights_memory, jit, timeout)
    compiled, source = _compile(model, settings)
    structure = Structure(source)
    collector = Collector(structure, tensor_bytes=tensor_bytes)
    report = Report(structure, collector, channels=channels, comparison=comparison)
    if trace is not None:
        collect_trace(collector, trace)
        report.times = read_recorded_times(structure, collector.records)
        arguments: Sequence[Array] | None = None
        if trace.error:
            report.error = IrrunError(trace.error)
    else:
        arguments = collect_inputs(inputs, compiled.inputs, compiled._input_names)
        _run(report, compiled, arguments, observers, settings)
        if report.error is None:
            _measure(report, compiled if compiled is model else settings.compile(source), arguments, timeout)
    if against is not None and report.error is None:
        arguments = arguments if arguments is not None or trace is None else trace.get_inputs()
        report.comparison = compare(
            source,
            against,
            arguments,
            observers=observers,
            precision=precision,
            threads=threads,
            memory=memory,
            weights_memory=weights_memory,
            timeout=timeout,
        )
        if trace is None and arguments is not None:
            _add_expected(report, compiled, against, arguments, observers, settings)
    return report


def _add_expected(
    report: Report,
    compiled: CompiledModel,
    against: Model | str | os.PathLike[str] | Mapping[str, Array],
    arguments: Sequence[Array],
    observers: Sequence[Observer],
    settings: RunSettings,
) -> None:
    """Run the model again beside the values of the reference, which `compare` does not keep."""
    causes = report.comparison.causes if report.comparison is not None else []
    preferred = {report._find_layer(cause.key) for cause in causes}
    reference = open_reference(compiled.model, against, arguments, settings)
    try:
        values = ExpectedValues(report.collector, reference, preferred)
        settings.infer(compiled, list(arguments), [*observers, values])
    finally:
        reference.close()


def _run(
    report: Report,
    compiled: CompiledModel,
    arguments: Sequence[Array],
    observers: Sequence[Observer],
    settings: RunSettings,
) -> None:
    collector = report.collector
    for spec, value in zip(compiled.inputs, arguments, strict=True):
        collector.add(spec.layer, [value])
    try:
        settings.infer(compiled, list(arguments), [*observers, collector])
    except IrrunError as error:
        report.error = error


def _measure(report: Report, compiled: CompiledModel, arguments: Sequence[Array], timeout: float | None) -> None:
    try:
        report.times = measure_times(report.structure, compiled, arguments, timeout)
    except IrrunError as error:
        report.notes.append(f"No times: the run without observers failed. {shorten(str(error))}")


def _compile(model: Source, settings: RunSettings) -> tuple[CompiledModel, Model]:
    if isinstance(model, CompiledModel):
        return model, model.model
    source = model if isinstance(model, Model) else read_model(model)
    return settings.compile(source, optimize=False), source


def _describe_metrics(metrics: Metrics) -> dict[str, Any]:
    """Return an error for JSON: the SQNR in dB, null if the values are equal, and the largest difference."""
    if metrics.is_exact:
        return {"db": None, "abs": 0}
    largest = float(f"{metrics.max_abs:.4g}")
    return {"db": _limit_decibels(metrics.sqnr_db), "abs": largest if np.isfinite(largest) else str(largest)}


def _limit_decibels(db: float | None) -> float | None:
    """Return an SQNR for JSON, which has no infinities."""
    return None if db is None or np.isnan(db) else round(max(-999.0, min(999.0, db)), 2)
