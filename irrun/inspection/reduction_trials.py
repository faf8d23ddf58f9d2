"""Trials of a reduction, which decide by values, errors or a test command whether a part of a model fails."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from irrun.errors import InputError, IrrunError, TimeLimitError, UnsupportedError
from irrun.inspection.conditions import Condition, parse_condition
from irrun.inspection.metrics import Metrics, measure
from irrun.inspection.openvino_model import OpenVinoModel
from irrun.inspection.openvino_precision import get_precision_epsilon, parse_target
from irrun.inspection.parts import Part
from irrun.inspection.references import convert_arguments, describe_precision
from irrun.inspection.reproduction import save_part
from irrun.inspection.verdicts import OUTPUT_SQNR, get_output_sqnr
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.runtime.lowering import find_unsupported
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings

__all__ = ["CANNOT_TEST", "Trial", "create_trial", "find_failing_layers", "run_command"]

Array = np.ndarray[Any, Any]

#: Minimum SQNR in dB that is not a failure against another model of the same precision. Equal layers give
#: equal values, since irrun runs both.
EQUAL_SQNR = 120.0

#: The exit code of a test command that cannot decide, as in `git bisect run`.
CANNOT_TEST = 125


class Trial(Protocol):
    """Decides whether a part fails.

    Attributes:
        message: How the last failing part failed.
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
            IrrunError: The part cannot run.
        """

    def find_suspects(self, model: Model) -> set[int]:
        """Return the ids of the layers that are tested first."""


def create_trial(
    against: Model | str | os.PathLike[str] | None,
    other: Model | None,
    condition: Condition | None,
    test: str | Sequence[str] | None,
    settings: RunSettings = DEFAULT_SETTINGS,
) -> Trial:
    """Return the object that decides whether a part fails.

    Args:
        against: The reference, as for `reduce`.
        other: The other model if the reference is one.
        condition: The condition of failure, or None.
        test: The test command, or None.
        settings: The settings for running parts.

    Raises:
        InputError: The combination is invalid.
    """
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
        return _ErrorTrial(reference if reference is not None and reference.startswith("openvino") else None, settings)
    if condition is not None and condition.requires_reference and against is None:
        raise InputError(f"the condition {condition.text!r} requires a reference")
    return _ValueTrial(reference, other is not None, condition, settings)


class _ValueTrial:
    """A part fails if its outputs satisfy a condition, or their difference from a reference does."""

    is_error = False
    command_text = ""

    def __init__(
        self, reference: str | None, has_counterpart: bool, condition: Condition | None, settings: RunSettings
    ) -> None:
        self.settings = settings
        self.reference = reference
        self.has_counterpart = has_counterpart
        self.condition = condition
        self.message = ""

    @property
    def condition_text(self) -> str:
        return "" if self.condition is None else self.condition.text

    def fails(self, part: Part) -> bool:
        outputs = _run(part.model, part.inputs, self.settings)
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
        """Return the minimum SQNR in dB that is not a failure."""
        other = part.counterpart
        is_same = other is not None and describe_precision(part.model) == describe_precision(other)
        return EQUAL_SQNR if is_same else OUTPUT_SQNR

    def run_reference(self, part: Part) -> Sequence[Array | None]:
        """Return the reference of each output, or None."""
        if self.has_counterpart:
            assert part.counterpart is not None
            values = _run(part.counterpart, part.counterpart_inputs, self.settings)
            return [None if i is None else values[i] for i in part.positions]
        if self.reference == "f64":
            exact = replace(self.settings, precision="f64", weights_memory=0)
            compiled = exact.compile(part.model, optimize=False, keeps_output_types=False)
            arguments = convert_arguments(part.model, compiled, part.inputs)
            return exact.infer(compiled, list(arguments)).to_tuple()
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
    """A part fails if its run raises the same error as the whole model.

    Args:
        reference: The device and precision of OpenVINO, or None for irrun.
        settings: The settings for running parts.
    """

    is_error = True
    condition_text = "error"
    command_text = ""

    def __init__(self, reference: str | None, settings: RunSettings) -> None:
        self.settings = settings
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
                _run(part.model, part.inputs, self.settings)
            else:
                openvino = OpenVinoModel(part.model, parse_target(self.reference))
                try:
                    openvino.infer(part.inputs)
                finally:
                    openvino.close()
        except TimeLimitError:
            raise  # exceeding the user's limit is not a failure of the model
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


def find_failing_layers(model: Model, error: IrrunError) -> set[int]:
    """Return the ids of the layers that an error names, or that contain such a layer in their bodies.

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


def _run(model: Model, arguments: list[Array], settings: RunSettings) -> tuple[Array, ...]:
    return settings.infer(settings.compile(model, optimize=False), list(arguments)).to_tuple()


def _describe_difference(metrics: Metrics) -> str:
    if not metrics.same_shape:
        return "the shape of an output differs"
    return f"an output has an SQNR of {metrics.sqnr_db:.1f} dB, max abs {metrics.max_abs:.4g}"


def _identify_error(error: IrrunError) -> tuple[str, str]:
    """Return the identity of an error: its layer, or the line of OpenVINO's source that raised it."""
    source = re.search(r"src[/\\][^ :]+:\d+", error.message)
    if source and error.layer is None:
        return type(error).__name__, source[0]
    if isinstance(error, UnsupportedError):
        return type(error).__name__, ""
    layer = (error.layer or "").partition(" in iteration ")[0]
    return type(error).__name__, layer or re.sub(r"\d+", "", error.message)
