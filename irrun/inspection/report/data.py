"""The data of a report: the values of a run, its times, and its errors against a reference."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.errors import IrrunError, escape_unprintable
from irrun.inspection.comparing import compare
from irrun.inspection.comparison import Comparison
from irrun.inspection.reference_kinds import open_reference
from irrun.inspection.report.collection import Collector, collect_trace
from irrun.inspection.report.expected import ExpectedValues
from irrun.inspection.report.findings import describe_errors, describe_reference, find_number
from irrun.inspection.report.pairing import describe_pair
from irrun.inspection.report.structure import Structure, name_model
from irrun.inspection.report.summaries import shorten
from irrun.inspection.report.tensors import DEFAULT_TENSOR_BYTES
from irrun.inspection.report.times import Times, measure_times, read_recorded_times
from irrun.inspection.trace import Trace
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.observer import Observer
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings
from irrun.version import __version__

__all__ = ["Report", "Source", "collect_report"]

Array = np.ndarray[Any, Any]

#: The sources of a report.
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
        other: The layers of a model to show next to the model, or None.
        has_run: Whether the model ran, or values were recorded.
    """

    structure: Structure
    collector: Collector
    times: Times | None = None
    comparison: Comparison | None = None
    error: IrrunError | None = None
    channels: str = "BGR"
    notes: list[str] = field(default_factory=list)
    other: Structure | None = None
    has_run: bool = True

    @property
    def title(self) -> str:
        """The name of the file, and the name of the model if it adds information."""
        names = name_model(self.structure.model)
        return " · ".join(names if self.other is None else [names[0], name_model(self.other.model)[0]])

    def to_json(self) -> dict[str, Any]:
        """Return the data of the page."""
        model, structure = self.structure.model, self.structure
        structures = [structure] if self.other is None else [structure, self.other]
        results = [n for n in model.graph.find_layers("Result") if id(n) in structure.numbers]
        names = {spec.layer.id: spec.names for spec in model.outputs}
        return {
            "format": 1,
            "irrun": __version__,
            "model": {
                "names": name_model(model),
                "path": shorten(str(model.path)) if model.path else None,
                "version": model.source_version,
            },
            "has_run": self.has_run,
            "run": {"error": None if self.error is None else shorten(str(self.error), 2000)},
            "times": None if self.times is None else self.times.to_json(),
            "channels": self.channels,
            "inputs": [
                structure.numbers[id(n)] for n in model.graph.find_layers("Parameter") if id(n) in structure.numbers
            ],
            "outputs": [
                {"name": shorten((names.get(n.id) or (n.name,))[0]), "layer": structure.numbers[id(n)]} for n in results
            ],
            "layers": [layer for s in structures for layer in s.describe_layers()],
            "graphs": [graph for s in structures for graph in s.describe_graphs()],
            "other": None if self.other is None else describe_pair(structure, self.other),
            "values": self.collector.records,
            "iterations": self.collector.iterations,
            "max_iterations": self.collector.max_iterations,
            "pictures": self.collector.pictures.to_json(),
            "compared": self.collector.compared.to_json(),
            "tensors": self.collector.tensors.to_json(),
            "reference": None if self.comparison is None else describe_reference(structure, self.comparison),
            "errors": {} if self.comparison is None else describe_errors(self.collector, self.comparison),
            "notes": [escape_unprintable(note) for note in [*self.notes, *self.collector.describe_omissions()]],
        }


def collect_report(
    model: Source,
    inputs: Inputs = None,
    *,
    trace: Trace | None = None,
    against: Model | str | os.PathLike[str] | Mapping[str, Array] | None = None,
    comparison: Comparison | None = None,
    channels: str = "BGR",
    observers: Sequence[Observer] = (),
    settings: RunSettings = DEFAULT_SETTINGS,
    tensor_bytes: int = DEFAULT_TENSOR_BYTES,
    other: Model | str | os.PathLike[str] | None = None,
) -> Report:
    """Run a model and collect the data of a report.

    If a model has inputs but none are passed, it does not run, and the report shows its structure and its constants.

    Args:
        model: The model, or the path of its .xml file.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        trace: Recorded values to show; by default the model runs.
        against: The reference, as for `compare`; None for no comparison.
        comparison: The comparison, if it already exists.
        channels: The order of the channels of images: "BGR" or "RGB".
        observers: Observers that are called first, in all runs.
        settings: Options for compiling and running the model; for a compiled model, only the time limit is used.
        tensor_bytes: Limit for full values in compressed bytes; the page draws them and offers them for download.
        other: A model to show next to the model and, with inputs, to compare it with.

    Returns:
        The data. If the run failed, it contains the error and the values before it.

    Raises:
        InputError: The inputs do not match the model, or the reference does not exist.
        IrrunError: The model is invalid, or the comparison failed.
    """
    source = _read(model)
    structure = Structure(source)
    collector = Collector(structure, tensor_bytes=tensor_bytes)
    report = Report(structure, collector, channels=channels, comparison=comparison)
    if other is not None:
        other = _read(other)
        report.other = Structure(other, len(structure.layers), len(structure.graphs))
    if trace is None and against is None and inputs is None and source.inputs:
        report.has_run = False
        collector.collect_constants()
        collector.keep_constants()
        return report
    against = other if against is None else against
    compiled = model if isinstance(model, CompiledModel) else settings.compile(source, optimize=False)
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
            _measure(report, compiled if compiled is model else settings.compile(source), arguments, settings.timeout)
    if against is not None and report.error is None:
        arguments = arguments if arguments is not None or trace is None else trace.get_inputs()
        report.comparison = compare(
            source,
            against,
            arguments,
            observers=observers,
            settings=settings,
        )
        if trace is None and arguments is not None:
            _add_expected(report, compiled, against, arguments, observers, settings)
    collector.keep_constants()
    return report


def _add_expected(
    report: Report,
    compiled: CompiledModel,
    against: Model | str | os.PathLike[str] | Mapping[str, Array],
    arguments: Sequence[Array],
    observers: Sequence[Observer],
    settings: RunSettings,
) -> None:
    """Run the model again next to the reference, since `compare` does not keep the reference's values."""
    causes = report.comparison.causes if report.comparison is not None else []
    preferred = {find_number(report.structure, cause.key) for cause in causes}
    try:
        reference = open_reference(compiled.model, against, arguments, settings)
        try:
            values = ExpectedValues(report.collector, reference, preferred)
            settings.infer(compiled, list(arguments), [*observers, values])
        finally:
            reference.close()
    except IrrunError as error:
        report.notes.append(f"Not all values of the reference: {shorten(str(error))}")


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


def _read(model: Source) -> Model:
    if isinstance(model, CompiledModel):
        return model.model
    return model if isinstance(model, Model) else read_model(model)
