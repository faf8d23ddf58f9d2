"""Reduction of a model that fails to the smallest part that still fails.

The values of a run are recorded, so any set of layers can run as a separate model. Delta debugging finds a
minimal set that fails. If it contains a layer with bodies, the search continues in their iterations.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun.arguments import check_function, check_instance, check_integer, check_path, check_texts
from irrun.errors import InputError, IrrunError, TimeLimitError
from irrun.inspection.conditions import Condition, parse_condition
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.parts import Counterpart, Frame, Part, add_probes
from irrun.inspection.recording import record
from irrun.inspection.reduction_search import Progress, Search
from irrun.inspection.reduction_trials import create_trial, find_failing_layers
from irrun.inspection.references import convert_arguments, match_outputs
from irrun.inspection.reproduction import name_inputs, save_part
from irrun.inspection.trace import Trace
from irrun.ir.extract import extract_between
from irrun.ir.model import Model, index_names
from irrun.ir.reader import read_model
from irrun.ir.structure import sort_layers
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import DEFAULT_SETTINGS, RunOptions, RunSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["Reduction", "reduce"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class Reduction:
    """The smallest part of a model that still fails.

    Attributes:
        part: The part with its inputs.
        layers_total: The number of layers of the whole model, without layers that compute constants and layers in
            bodies.
        trials: The number of parts that were tested.
        message: A description of the failure.
        condition: The condition of failure; "" for a test command.
        against: The reference of the part, or "".
        command: The test command, or "".
        settings: The settings for running the parts.
    """

    part: Part
    layers_total: int
    trials: int
    message: str
    condition: str = ""
    against: str = ""
    command: str = ""
    settings: RunSettings = DEFAULT_SETTINGS

    def __repr__(self) -> str:
        return f"<Reduction: {len(self.layers)} of {self.layers_total} layers fail: {self.message}>"

    @property
    def model(self) -> Model:
        """The part as a model."""
        return self.part.model

    @property
    def layers(self) -> list[str]:
        """The keys of the layers of the part, without layers that compute constants."""
        return self.part.keys

    @property
    def inputs(self) -> dict[str, Array]:
        """The inputs of the part by name, in the order of the Parameters."""
        return name_inputs(self.part)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the part, its inputs and a script that runs it and checks whether it fails.

        Args:
            folder: The folder, which is created if it does not exist. Each file is written atomically.

        Returns:
            The files.

        Raises:
            InputError: A file cannot be written.
        """
        return save_part(
            Path(folder),
            self.part,
            message=self.message,
            condition=self.condition,
            against=self.against,
            command=self.command,
            settings=self.settings,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the reduction for JSON."""
        return {
            "layers": self.layers,
            "layers_total": self.layers_total,
            "trials": self.trials,
            "message": self.message,
            "condition": self.condition,
            "against": self.against,
            "inputs": [{"name": n, "type": str(v.dtype), "shape": list(v.shape)} for n, v in self.inputs.items()],
        }


def reduce(
    model: Model | str | os.PathLike[str],
    inputs: Inputs = None,
    *,
    against: Model | str | os.PathLike[str] | None = None,
    fails: str | Condition | None = None,
    test: str | Sequence[str] | None = None,
    max_trials: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[RunOptions],
) -> Reduction | None:
    """Find the smallest part of a model that still fails.

    Args:
        model: The model, or the path of its .xml file. Its run may raise an error.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        against: The reference: "openvino", followed by a device and a precision if required, "f64",
            another model, or the path of its .xml file.
        fails: The condition under which a part fails: "nan", "inf", "error", or a condition such as "sqnr<20" or
            "abs>1e4"; see `parse_condition`. A condition on values must hold for an output, but not for an input. With
            `against`, the default is "sqnr<60", or less for a reference of low precision, and "sqnr<120" for another
            model of the same precision. "error" refers to the reference if it is OpenVINO, otherwise to the model
            itself.
        test: A command that fails if a part fails: its exit code is neither 0 nor 125, or a signal ends it.
            {model}, {inputs} and {folder} are replaced by the paths of the .xml, the .npz and their folder. Without
            them, the paths of the .xml and the .npz are appended. No shell is involved.
        max_trials: The maximum number of parts to test; None for no limit.
        progress: Called after each trial.
        options: `precision`, `threads`, `memory` and `weights_memory`, as for `compile_model`, and `timeout`, the time
            limit of each run in seconds; or a `RunSettings` as `settings`. They also apply to a reference that irrun
            runs. A run that exceeds the time limit ends the search with an error.

    Returns:
        The smallest part; None if the model does not fail.

    Raises:
        InputError: The inputs do not match the model, or the condition is invalid or requires a reference.
        TimeLimitError: A run took longer than `timeout`.
        IrrunError: The run of the model or of the reference raised an error, and `fails` is not "error".
    """
    settings = RunSettings.choose(options)
    if fails is not None:
        check_instance("fails", fails, (str, Condition), "a text such as 'nan', a Condition or None")
    if test is not None:
        check_texts("test", test, "a command as a text, or a list of texts")
    if max_trials is not None:
        max_trials = check_integer("max_trials", max_trials, 0)
    check_function("progress", progress)
    source = model if isinstance(model, Model) else read_model(model)
    specs = source.inputs
    arguments = collect_inputs(inputs, specs, index_names(specs))
    condition = parse_condition(fails) if isinstance(fails, str) else fails
    other = _read_other(against)
    trial = create_trial(against, other, condition, test, settings)
    whole = _make_whole(source, other, arguments)
    if not trial.fails(whole):
        return None
    counterpart = None if other is None else Counterpart(other, other.graph, match_layers(source.graph, other.graph))
    with (
        tempfile.TemporaryDirectory(prefix="irrun-") as folder,
        _record_values(source, arguments, Path(folder) / "values.trace", trial.is_error, settings) as values,
    ):
        frame = Frame(source, source.graph, KeyTable(source), values, "", counterpart)
        whole.keys = frame.get_keys(frame.layers)
        search = Search(trial, whole, max_trials, progress)
        search.descend(frame)
    name = str(against.path or "another model") if isinstance(against, Model) else os.fspath(against or "")
    return Reduction(
        search.best,
        len(whole.keys),
        search.trials,
        search.message,
        trial.condition_text,
        name,
        trial.command_text,
        settings,
    )


def _read_other(against: Model | str | os.PathLike[str] | None) -> Model | None:
    """Return the other model, or None if the reference is not a model."""
    if against is None or isinstance(against, Model):
        return against
    text = check_path("against", against, "a Model, 'f64', 'openvino', the path of an .xml file or None")
    if text in ("f64", "openvino") or text.startswith("openvino:"):
        return None
    if not text.lower().endswith(".xml"):
        raise InputError(f"expected openvino, f64 or an .xml file as the reference, found {text}")
    return read_model(text)


def _make_whole(model: Model, other: Model | None, arguments: list[Array]) -> Part:
    part = Part(model, arguments)
    if other is not None:
        part.counterpart = other
        part.counterpart_inputs = convert_arguments(model, other, arguments)
        part.positions = match_outputs(model, other)
    return part


def _record_values(model: Model, arguments: list[Array], path: Path, with_probes: bool, settings: RunSettings) -> Trace:
    """Record the values of a run up to its failure.

    If the model cannot be compiled, the layers that prevent it and their dependents are omitted.
    """
    excluded: set[int] = set()
    while True:
        part, inputs = _remove_layers(model, excluded, arguments)
        try:
            compiled = settings.compile(add_probes(part) if with_probes else part, optimize=False)
            return record(compiled, inputs, path, timeout=settings.timeout)
        except TimeLimitError:
            raise
        except IrrunError as error:
            if path.exists():
                return Trace.open(path)
            culprits = find_failing_layers(part, error) - excluded
            if not culprits:
                return Trace({}, [], lambda value: np.empty(0))
            excluded |= culprits


def _remove_layers(model: Model, excluded: set[int], arguments: list[Array]) -> tuple[Model, list[Array]]:
    """Return a model without some layers and their dependents, and its inputs."""
    if not excluded:
        return model, arguments
    graph = model.graph
    removed = excluded | {n.id for n in graph.find_layers("Result")}
    for layer in sort_layers(graph):
        if any(e.to_layer == layer.id and e.from_layer in removed for e in graph.edges):
            removed.add(layer.id)
    used = {e.from_layer for e in graph.edges if e.to_layer not in removed}
    kept = [n for n in graph.layers if n.id not in removed and n.id not in used]
    targets = [((n.id, port.id), f"irrun/value/{n.id}") for n in kept for port in n.outputs]
    part = extract_between(model, {}, targets)
    values = {spec.layer.id: value for spec, value in zip(model.inputs, arguments, strict=True)}
    return part, [values[spec.layer.id] for spec in part.inputs]
