"""Reduction of a model that fails to the smallest part that still fails.

The values of a run are recorded, so that any set of layers can be run as a model of its own. Delta debugging finds a
minimal set that fails. If it contains a layer with bodies, the search continues in the iterations of these.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from irrun.errors import InputError, IrrunError, UnsupportedError
from irrun.inspection.conditions import Condition, parse_condition
from irrun.inspection.keys import KeyTable
from irrun.inspection.matching import match_layers
from irrun.inspection.metrics import Metrics, measure
from irrun.inspection.openvino_reference import OpenVinoModel, get_precision_epsilon, parse_target
from irrun.inspection.parts import Counterpart, Frame, Part, add_probes
from irrun.inspection.recording import record
from irrun.inspection.references import convert_arguments, describe_precision, match_outputs
from irrun.inspection.reproduction import name_inputs, save_part
from irrun.inspection.trace import Trace
from irrun.inspection.verdicts import OUTPUT_SQNR, get_output_sqnr
from irrun.ir.extract import extract_between
from irrun.ir.graph import Layer
from irrun.ir.model import Model, index_names
from irrun.ir.reader import read_model
from irrun.ir.structure import sort_layers
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.lowering import find_unsupported
from irrun.runtime.request import CompiledModel

__all__ = ["Progress", "Reduction", "reduce"]

Array = np.ndarray[Any, Any]

#: Receives the number of layers that are left, the number of layers of the model, and the number of trials.
Progress = Callable[[int, int, int], None]

#: The smallest SQNR in dB that is not a failure against another model of the same precision. Equal layers of both give
#: equal values, since irrun runs both.
EQUAL_SQNR = 120.0

#: The ids of layers that are kept or removed together.
Group = tuple[int, ...]

#: The exit code of a test command that cannot decide, as for `git bisect run`.
CANNOT_TEST = 125


@dataclass(frozen=True)
class Reduction:
    """The smallest part of a model that still fails.

    Attributes:
        part: The part with its inputs.
        layers_total: The number of layers of the whole model, without those that compute constants and those of
            bodies.
        trials: The number of parts that were tested.
        message: How the part fails.
        condition: The condition of failure; "" for a test command.
        against: What the part is compared with; "" if it is not.
        command: The test command, or "".
    """

    part: Part
    layers_total: int
    trials: int
    message: str
    condition: str = ""
    against: str = ""
    command: str = ""

    @property
    def model(self) -> Model:
        """The part as a model."""
        return self.part.model

    @property
    def layers(self) -> list[str]:
        """The keys of the layers of the part, without those that compute constants."""
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
) -> Reduction | None:
    """Find the smallest part of a model that still fails.

    Args:
        model: The model, or the path of its .xml file. Its run may raise an error.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        against: What the model is compared with: "openvino", followed by a device and a precision if required, "f64",
            another model, or the path of its .xml file.
        fails: When a part fails: "nan", "inf", "error", or a condition such as "sqnr<20" or "abs>1e4"; see
            `parse_condition`. A condition on values must hold for an output and not for an input. With `against`, the
            default is "sqnr<60", with a lower limit for a reference of low precision, and "sqnr<120" for another model
            of the same precision. "error" refers to the reference if it is OpenVINO, and to the model itself
            otherwise.
        test: A command that fails for parts that fail: its exit code is neither 0 nor 125, or a signal ends it.
            {model}, {inputs} and {folder} are replaced by the paths of the .xml, the .npz and their folder. Without
            them, the paths of the .xml and the .npz are appended. It is not run by a shell.
        max_trials: The largest number of parts to test; None for no limit.
        progress: Called after each trial.

    Returns:
        The smallest part; None if the model does not fail.

    Raises:
        InputError: The inputs do not match the model, or the condition is invalid or requires a reference.
        IrrunError: The run of the model or of the reference raised an error, and `fails` is not "error".
    """
    source = model if isinstance(model, Model) else read_model(model)
    specs = source.inputs
    arguments = collect_inputs(inputs, specs, index_names(specs))
    condition = parse_condition(fails) if isinstance(fails, str) else fails
    other = _read_other(against)
    trial = _create_trial(against, other, condition, test)
    whole = _make_whole(source, other, arguments)
    if not trial.fails(whole):
        return None
    counterpart = None if other is None else Counterpart(other, other.graph, match_layers(source.graph, other.graph))
    with (
        tempfile.TemporaryDirectory(prefix="irrun-") as folder,
        _record_values(source, arguments, Path(folder) / "values.trace", trial.is_error) as values,
    ):
        frame = Frame(source, source.graph, KeyTable(source), values, "", counterpart)
        whole.keys = frame.get_keys(frame.layers)
        search = _Search(trial, whole, max_trials, progress)
        search.descend(frame)
    name = "" if against is None else os.fspath(against) if not isinstance(against, Model) else "another model"
    return Reduction(
        search.best, len(whole.keys), search.trials, search.message, trial.condition_text, name, trial.command_text
    )


def _read_other(against: Model | str | os.PathLike[str] | None) -> Model | None:
    """Return the other model, or None if the reference is not one."""
    if against is None or isinstance(against, Model):
        return against
    text = os.fspath(against)
    if text in ("f64", "openvino") or text.startswith("openvino:"):
        return None
    if not text.lower().endswith(".xml"):
        raise InputError(f"expected openvino, f64 or an .xml file as the reference, found {text}")
    return read_model(text)


def _make_whole(model: Model, other: Model | None, arguments: list[Array]) -> Part:
    part = Part(model, arguments)
    if other is not None:
        part.counterpart = other
        part.counterpart_inputs = convert_arguments(model, CompiledModel(other, optimize=False), arguments)
        part.positions = match_outputs(model, other)
    return part


def _record_values(model: Model, arguments: list[Array], path: Path, with_probes: bool) -> Trace:
    """Record the values of a run, as far as it gets.

    If the model cannot be compiled, the layers that prevent it and those that depend on them are left out.
    """
    excluded: set[int] = set()
    while True:
        part, inputs = _remove_layers(model, excluded, arguments)
        try:
            return record(add_probes(part) if with_probes else part, inputs, path)
        except IrrunError as error:
            if path.exists():
                return Trace.open(path)
            culprits = find_failing_layers(part, error) - excluded
            if not culprits:
                return Trace({}, [], lambda value: np.empty(0))
            excluded |= culprits


def _remove_layers(model: Model, excluded: set[int], arguments: list[Array]) -> tuple[Model, list[Array]]:
    """Return a model without some layers and those that depend on them, and its inputs."""
    if not excluded:
        return model, arguments
    graph = model.graph
    removed = set(excluded)
    for layer in sort_layers(graph):
        if any(e.to_layer == layer.id and e.from_layer in removed for e in graph.edges):
            removed.add(layer.id)
    used = {e.from_layer for e in graph.edges if e.to_layer not in removed}
    kept = [n for n in graph.layers if n.id not in removed and n.id not in used]
    targets = [((n.id, port.id), f"irrun/value/{n.id}") for n in kept for port in n.outputs]
    part = extract_between(model, {}, targets)
    values = {spec.layer.id: value for spec, value in zip(model.inputs, arguments, strict=True)}
    return part, [values[spec.layer.id] for spec in part.inputs]


def find_failing_layers(model: Model, error: IrrunError) -> set[int]:
    """Return the ids of the layers that an error names, or whose bodies contain a layer that it names.

    Args:
        model: The model that failed.
        error: The error.
    """
    if isinstance(error, UnsupportedError):
        unsupported = {id(layer) for layers in find_unsupported(model).values() for layer in layers}
        return {n.id for n in model.graph.layers if any(id(inner) in unsupported for inner in _walk(n))}
    names = set(re.split(r" in iteration \d+ of ", error.layer or ""))
    return {n.id for n in model.graph.layers if any(inner.describe() in names for inner in _walk(n))}


def _walk(layer: Layer) -> list[Layer]:
    """Return a layer and the layers in its bodies."""
    return [layer, *(inner for body in layer.bodies.values() for _, inner in body.graph.walk())]


class _Search:
    """The search for a minimal set of layers.

    Attributes:
        best: The smallest part that fails so far.
        message: How it fails.
        trials: The number of parts that were tested.
    """

    def __init__(self, trial: _Trial, whole: Part, max_trials: int | None, progress: Progress | None) -> None:
        self.trial = trial
        self.best = whole
        self.message = trial.message
        self.trials = 1
        self.total = len(whole.keys)
        self.max_trials = max_trials
        self.progress = progress
        self.results: dict[tuple[str, int, frozenset[int]], bool] = {}

    def descend(self, frame: Frame) -> None:
        """Reduce a graph that fails, then the bodies of a layer that is left."""
        atoms = frame.atoms
        suspects = self.trial.find_suspects(Model(frame.graph, frame.model.weights))
        suspected = [group for group in atoms if suspects.intersection(group)]
        if suspected and self.fails(frame, suspected):
            atoms = suspected
        atoms = self.minimize(frame, atoms)
        for owner in (frame.layers[layer_id] for group in atoms for layer_id in group):
            frames = list(frame.enter(owner)) if owner.bodies else []
            for inner in reversed(frames) if self.trial.is_error else frames:
                if self.fails(inner, inner.atoms):
                    self.descend(inner)
                    return

    def minimize(self, frame: Frame, atoms: list[Group]) -> list[Group]:
        """Return a set of layers that fails, none of which can be removed.

        Args:
            frame: The graph.
            atoms: Layers that fail, in the order of execution.
        """
        while len(atoms) > 1:
            middle = len(atoms) // 2
            if self.fails(frame, atoms[middle:]):
                atoms = atoms[middle:]
            elif self.fails(frame, atoms[:middle]):
                atoms = atoms[:middle]
            else:
                break
        if len(atoms) > 2:
            atoms = self.trim(frame, atoms)
        return self.remove_chunks(frame, atoms)

    def trim(self, frame: Frame, atoms: list[Group]) -> list[Group]:
        """Remove layers from the end and from the start by bisection."""
        low, high = 1, len(atoms)
        while low < high:
            middle = (low + high) // 2
            if self.fails(frame, atoms[:middle]):
                high = middle
            else:
                low = middle + 1
        atoms = atoms[:high]
        low, high = 0, len(atoms) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.fails(frame, atoms[middle:]):
                low = middle
            else:
                high = middle - 1
        return atoms[low:]

    def remove_chunks(self, frame: Frame, atoms: list[Group]) -> list[Group]:
        """Remove smaller and smaller chunks, as delta debugging does."""
        count = 2
        while len(atoms) > 1:
            bounds = [len(atoms) * i // count for i in range(count + 1)]
            chunks = list(pairwise(bounds))
            rest = next(
                (
                    remaining
                    for start, end in chunks
                    for remaining in [atoms[:start] + atoms[end:]]
                    if self.fails(frame, remaining)
                ),
                None,
            )
            if rest is not None:
                atoms, count = rest, max(count - 1, 2)
            elif count >= len(atoms):
                break
            else:
                count = min(2 * count, len(atoms))
        return atoms

    def fails(self, frame: Frame, atoms: list[Group]) -> bool:
        """Return whether some layers of a graph fail. A part that cannot be run does not."""
        ids = frozenset(layer_id for group in atoms for layer_id in group)
        key = (frame.prefix, id(frame.graph), ids)
        if key not in self.results:
            self.results[key] = self.test(frame, ids)
        return self.results[key]

    def test(self, frame: Frame, ids: frozenset[int]) -> bool:
        if self.max_trials is not None and self.trials >= self.max_trials:
            return False
        try:
            part = frame.make_part(ids)
            if part is None:
                return False
            self.trials += 1
            is_failure = self.trial.fails(part)
        except IrrunError:
            is_failure = False
        else:
            if is_failure:
                self.best, self.message = part, self.trial.message
        if self.progress is not None:
            self.progress(len(self.best.keys), self.total, self.trials)
        return is_failure


class _Trial(Protocol):
    """Decides whether a part fails.

    Attributes:
        message: How the last part that failed did so.
        is_error: Whether parts fail by raising an error.
        command_text: The test command, or "".
    """

    message: str
    is_error: bool
    command_text: str

    @property
    def condition_text(self) -> str:
        """The condition, or ""."""
        ...

    def fails(self, part: Part) -> bool:
        """Return whether a part fails.

        Raises:
            IrrunError: It cannot be run.
        """

    def find_suspects(self, model: Model) -> set[int]:
        """Return the ids of the layers that are tested first."""


def _create_trial(
    against: Model | str | os.PathLike[str] | None,
    other: Model | None,
    condition: Condition | None,
    test: str | Sequence[str] | None,
) -> _Trial:
    if test is not None:
        if against is not None or condition is not None:
            raise InputError("a test command cannot be combined with a reference or a condition")
        return _CommandTrial(test)
    reference = None if other is not None or against is None else str(against)
    if condition is None and against is None:
        raise InputError("expected a reference, a condition such as 'nan', or a test command")
    if condition is not None and condition.is_error:
        if len(condition.terms) > 1:
            raise InputError(f"'error' cannot be combined with other conditions, found {condition.text!r}")
        return _ErrorTrial(reference if reference is not None and reference.startswith("openvino") else None)
    if condition is not None and condition.requires_reference and against is None:
        raise InputError(f"the condition {condition.text!r} requires a reference")
    return _ValueTrial(reference, other is not None, condition)


class _ValueTrial:
    """A part fails if its outputs satisfy a condition, or their difference from a reference does."""

    is_error = False
    command_text = ""

    def __init__(self, reference: str | None, has_counterpart: bool, condition: Condition | None) -> None:
        self.reference = reference
        self.has_counterpart = has_counterpart
        self.condition = condition
        self.message = ""

    @property
    def condition_text(self) -> str:
        return "" if self.condition is None else self.condition.text

    def fails(self, part: Part) -> bool:
        outputs = _run(part.model, part.inputs)
        expected = self.run_reference(part)
        if self.condition is None:
            self.condition = parse_condition(f"sqnr<{self.choose_limit(part):g}")
        if not self.condition.holds_for_any(part.inputs):
            for who, values in (("the model", outputs), ("the reference", expected)):
                if self.condition.holds_for_any(values):
                    self.message = f"{self.condition} holds for an output of {who}"
                    return True
        if not self.condition.requires_reference:
            return False
        failures = [
            metrics
            for value, reference in zip(outputs, expected, strict=False)
            if reference is not None
            for metrics in [measure(value, reference)]
            if self.condition.holds_for_difference(metrics)
        ]
        if failures:
            self.message = _describe_difference(min(failures, key=lambda m: m.sqnr_db))
        return bool(failures)

    def find_suspects(self, model: Model) -> set[int]:
        return set()

    def choose_limit(self, part: Part) -> float:
        """Return the smallest SQNR in dB that is not a failure."""
        other = part.counterpart
        is_same = other is not None and describe_precision(part.model) == describe_precision(other)
        return EQUAL_SQNR if is_same else OUTPUT_SQNR

    def run_reference(self, part: Part) -> Sequence[Array | None]:
        """Return the reference of each output; None if it does not have the output."""
        if self.has_counterpart:
            assert part.counterpart is not None
            values = _run(part.counterpart, part.counterpart_inputs)
            return [None if i is None else values[i] for i in part.positions]
        if self.reference == "f64":
            compiled = CompiledModel(
                part.model, optimize=False, weights_memory=0, precision="f64", keeps_output_types=False
            )
            arguments = convert_arguments(part.model, compiled, part.inputs)
            return compiled.create_infer_request().infer(list(arguments)).to_tuple()
        if self.reference is None:
            return []
        openvino = OpenVinoModel(part.model, parse_target(self.reference))
        try:
            if self.condition is None:
                epsilon = get_precision_epsilon(openvino.precision)
                self.condition = parse_condition(f"sqnr<{get_output_sqnr(epsilon):.4g}")
            return openvino.infer(part.inputs)
        finally:
            openvino.close()


class _ErrorTrial:
    """A part fails if its run raises the same error as that of the whole model.

    Args:
        reference: The device and precision of OpenVINO, or None for irrun.
    """

    is_error = True
    condition_text = "error"
    command_text = ""

    def __init__(self, reference: str | None) -> None:
        self.reference = reference
        self.message = ""
        self.error: IrrunError | None = None

    def fails(self, part: Part) -> bool:
        error = self.run(part)
        if error is None:
            return False
        if self.error is None:
            self.error = error
        is_same = _identify_error(error) == _identify_error(self.error)
        if is_same:
            self.message = str(error)
        return is_same

    def run(self, part: Part) -> IrrunError | None:
        try:
            if self.reference is None:
                _run(part.model, part.inputs)
            else:
                openvino = OpenVinoModel(part.model, parse_target(self.reference))
                try:
                    openvino.infer(part.inputs)
                finally:
                    openvino.close()
        except IrrunError as error:
            if isinstance(error, InputError) and error.layer is None and self.reference is not None:
                raise  # OpenVINO is not installed
            return error
        return None

    def find_suspects(self, model: Model) -> set[int]:
        return set() if self.error is None else find_failing_layers(model, self.error)


class _CommandTrial:
    """A part fails if a command fails for it."""

    is_error = False
    condition_text = ""

    def __init__(self, command: str | Sequence[str]) -> None:
        try:
            self.words = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise InputError(f"expected a test command, found {command!r}: {error}") from None
        if not self.words:
            raise InputError("expected a test command, found an empty one")
        if not any(name in word for name in ("{model}", "{inputs}", "{folder}") for word in self.words):
            self.words += ["{model}", "{inputs}"]
        self.command_text = shlex.join(self.words)
        self.message = ""

    def fails(self, part: Part) -> bool:
        with tempfile.TemporaryDirectory(prefix="irrun-") as folder:
            save_part(Path(folder), part, with_script=False)
            code = run_command(self.words, Path(folder))
        if code in (0, CANNOT_TEST):
            return False
        self.message = f"the test command exits with {code}" if code > 0 else f"signal {-code} ends the test command"
        return True

    def find_suspects(self, model: Model) -> set[int]:
        return set()


def run_command(words: Sequence[str], folder: Path) -> int:
    """Run a test command on a part and return its exit code.

    Args:
        words: The words of the command.
        folder: The folder that contains the part.

    Raises:
        InputError: The command cannot be executed.
    """
    paths = {"{model}": folder / "model.xml", "{inputs}": folder / "inputs.npz", "{folder}": folder}
    replaced = [re.sub(r"\{(?:model|inputs|folder)\}", lambda m: str(paths[m[0]]), word) for word in words]
    try:
        return subprocess.run(replaced, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise InputError(f"cannot run {replaced[0]}: {error.strerror or error}") from None


def _run(model: Model, arguments: list[Array]) -> tuple[Array, ...]:
    compiled = CompiledModel(model, optimize=False)
    return compiled.create_infer_request().infer(list(arguments)).to_tuple()


def _describe_difference(metrics: Metrics) -> str:
    if not metrics.same_shape:
        return "the shape of an output differs"
    return f"an output has an SQNR of {metrics.sqnr_db:.1f} dB, max abs {metrics.max_abs:.4g}"


def _identify_error(error: IrrunError) -> tuple[str, str]:
    """Return what identifies an error: its layer, or the line of OpenVINO's source that raised it."""
    source = re.search(r"src[/\\][^ :]+:\d+", error.message)
    if source and error.layer is None:
        return type(error).__name__, source[0]
    if isinstance(error, UnsupportedError):
        return type(error).__name__, ""
    layer = (error.layer or "").partition(" in iteration ")[0]
    return type(error).__name__, layer or re.sub(r"\d+", "", error.message)
