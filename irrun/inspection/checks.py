"""Checks of the values of a run: NaN, overflow, saturation, channels without information, indices, declarations."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from irrun.arguments import check_choice, check_functions, check_list
from irrun.formatting import format_count
from irrun.inspection.connections import ConnectionTable
from irrun.inspection.keys import KeyTable
from irrun.inspection.metrics import widen
from irrun.inspection.rounding import is_float_array
from irrun.ir.graph import Layer
from irrun.ir.model import Model
from irrun.ir.reader import read_model
from irrun.ops._support import registry
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.declaration_check import DeclarationCheck
from irrun.runtime.index_check import IndexCheck
from irrun.runtime.inputs import Inputs
from irrun.runtime.observer import Observer, Scope
from irrun.runtime.options import RunOptions, RunSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["CheckFinding", "CheckReport", "check"]

Array = np.ndarray[Any, Any]

#: Minimum number of elements over all inputs for reporting a channel.
MINIMUM_ELEMENTS = 8
#: Minimum fraction of clipped elements for reporting a FakeQuantize.
MINIMUM_SATURATION = 0.01
#: Minimum fraction of vanishing values for reporting them.
MINIMUM_VANISHING = 0.01
#: Maximum number of findings in notebooks.
MAX_ROWS = 40
#: The types of `--as`.
TARGET_TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


@dataclass(frozen=True)
class CheckFinding:
    """A finding of a check.

    Attributes:
        kind: "nan", "infinity", "nan swallowed", "overflow", "vanishing", "denormal", "saturation", "zero channels",
            "constant channels", "indices" or "declaration".
        level: "error", or "note" if it may be intended.
        key: The key of the first layer with this finding.
        type: The type of the layer.
        message: A description.
    """

    kind: str
    level: str
    key: str
    type: str
    message: str


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The result of a check.

    Attributes:
        findings: The errors and notes, in the order of execution.
        runs: The number of runs.
    """

    findings: list[CheckFinding]
    runs: int

    def __repr__(self) -> str:
        errors = sum(finding.level == "error" for finding in self.findings)
        counts = f"{format_count(errors, 'error')} and {format_count(len(self.findings) - errors, 'note')}"
        return f"<CheckReport: {counts} in {format_count(self.runs, 'run')}>"

    def _repr_html_(self) -> str:
        from irrun._html import make_table

        rows = [(f.key, f.type, f.level, f.kind, f.message) for f in self.findings[:MAX_ROWS]]
        omitted = len(self.findings) - MAX_ROWS
        notes = format_count(omitted, "more finding") if omitted > 0 else ""
        title = "Check: " + ("passed" if self.passed else "failed") + ("" if rows else ", no findings")
        return make_table(title, ("layer", "type", "level", "kind", "finding"), rows, notes=notes)

    @property
    def passed(self) -> bool:
        """Whether there are no errors."""
        return all(finding.level != "error" for finding in self.findings)

    @property
    def first(self) -> CheckFinding | None:
        """The first error, or None."""
        return next((finding for finding in self.findings if finding.level == "error"), None)

    def to_json(self) -> dict[str, Any]:
        """Return the report for JSON."""
        first = self.first
        return {
            "passed": self.passed,
            "runs": self.runs,
            "first": None if first is None else first.key,
            "findings": [vars(finding) for finding in self.findings],
        }


@dataclass
class _LayerState:
    """The observations of one layer in all runs and iterations."""

    layer: Layer
    key: str
    order: int
    counts: Counter[str] = field(default_factory=Counter)
    elements: int = 0
    is_made: dict[str, bool] = field(default_factory=dict)
    largest: float = -math.inf
    limits: tuple[Array, Array] | None = None
    channel_elements: int = 0

    def count(self, kind: str, number: int) -> None:
        self.counts[kind] += number


def check(
    model: Model | CompiledModel | str | os.PathLike[str],
    inputs: Inputs = None,
    *,
    input_sets: Sequence[Inputs] = (),
    target_type: str | None = None,
    observers: Sequence[Observer] = (),
    **options: Unpack[RunOptions],
) -> CheckReport:
    """Run a model and check the values of all layers, in bodies too.

    Args:
        model: The model, or the path of its .xml file.
        inputs: The inputs of one run.
        input_sets: The inputs of several runs, instead of `inputs`.
        target_type: "f16" or "bf16": report values that overflow or vanish in this type.
        observers: Observers that are called first.
        options: `precision`, `threads`, `memory` and `weights_memory`, as for `compile_model`, not used for a compiled
            model; and `timeout`, the time limit of each run in seconds; or a `RunSettings` as `settings`.

    Returns:
        The findings.

    Raises:
        InputError: The inputs do not match the model, or `target_type` is unknown.
        ExecutionError: A kernel failed, or a run exceeded its time limit.
    """
    settings = RunSettings.choose(options)
    check_choice("target_type", target_type, (None, *TARGET_TYPES))
    observers = check_functions("observers", observers)
    input_sets = check_list("input_sets", input_sets, "a list with the inputs of each run")
    if isinstance(model, CompiledModel):
        compiled = model
    else:
        compiled = settings.compile(model if isinstance(model, Model) else read_model(model), optimize=False)
    checker = _Checker(compiled.model, target_type)
    declarations = DeclarationCheck(compiled.computed_types)
    indices = IndexCheck(compiled._program)
    sets = list(input_sets) or [inputs]
    for arguments in sets:
        request = compiled.create_infer_request()
        request.infer(arguments, observers=[*observers, checker, declarations, indices], timeout=settings.timeout)
    findings = checker.list_findings()
    table = checker.table
    findings += [
        CheckFinding("indices", "note" if f.is_intended else "error", table.get_path(f.layer), f.layer.type, f.message)
        for f in indices.found
    ]
    findings += [
        CheckFinding(
            "declaration",
            "error",
            table.get_path(m.layer),
            m.layer.type,
            f"output {m.port} is declared {m.declared} and is {m.actual}",
        )
        for m in declarations.mismatches
    ]
    return CheckReport(findings, len(sets))


class _Checker:
    """Observer that collects the observations behind the findings."""

    def __init__(self, model: Model, target_type: str | None) -> None:
        self.table = KeyTable(model)
        self.target = None if target_type is None else TARGET_TYPES[target_type]
        self.target_name = target_type or ""
        self.states: dict[int, _LayerState] = {}
        self.connections = ConnectionTable(self.table)

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Collect the properties of the outputs of a layer."""
        if self.connections.is_constant(layer):
            return
        state = self.states.get(id(layer))
        if state is None:
            state = _LayerState(layer, self.table.get_key(layer, scope), len(self.states))
            self.states[id(layer)] = state
        floats = [value for value in outputs if is_float_array(value)]
        self.count_non_finite(state, inputs, floats)
        for value in floats:
            self.count_small_and_large(state, value)
        card = registry.get_card(layer.type, layer.version)
        if card.quantizes and len(inputs) == 5:
            count_saturation(state, inputs)
        if card.channel_axis is not None and floats:
            track_channels(state, floats[0])

    def count_non_finite(self, state: _LayerState, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> None:
        """Count NaNs and infinities, and note whether the layer produced them."""
        arguments = [value for value in inputs if value is not None and is_float_array(value)]
        tests: dict[str, Callable[[Array], Array]] = {"nan": np.isnan, "infinity": np.isinf}
        if all(is_all_finite(value) for value in (*arguments, *outputs)):
            return
        is_generated = registry.get_card(state.layer.type, state.layer.version).kind == "generation"
        for kind, test in tests.items():
            made = sum(int(np.count_nonzero(test(value))) for value in outputs)
            received = any(bool(test(value).any()) for value in arguments)
            state.count(kind, made)
            if made and kind not in state.is_made:
                is_from_infinity = kind == "nan" and any(bool(np.isinf(value).any()) for value in arguments)
                state.is_made[kind] = not received
                state.is_made["nan from infinity"] = is_from_infinity and not received
            if kind == "nan" and received and not made and outputs and not is_generated:
                state.count("nan swallowed", 1)

    def count_small_and_large(self, state: _LayerState, value: Array) -> None:
        """Count denormal values, and values that overflow or vanish in the target type."""
        magnitudes = np.abs(value)
        smallest = float(_get_finfo(value.dtype).smallest_normal)
        state.elements += value.size
        state.count("denormal", int(np.count_nonzero((magnitudes > 0) & (magnitudes < smallest))))
        if self.target is None:
            return
        with np.errstate(all="ignore"):
            wide = widen(magnitudes)
            narrow = widen(magnitudes.astype(self.target))
        is_finite = np.isfinite(wide)
        state.count("overflow", int(np.count_nonzero(is_finite & ~np.isfinite(narrow))))
        state.count("vanishing", int(np.count_nonzero((wide > 0) & (narrow == 0))))
        state.largest = max(state.largest, float(np.max(wide, where=is_finite, initial=-np.inf)))

    def list_findings(self) -> list[CheckFinding]:
        """Return the findings in the order of execution."""
        findings: list[CheckFinding] = []
        for state in sorted(self.states.values(), key=lambda s: s.order):
            findings += self.describe_non_finite(state)
            findings += self.describe_range(state)
            findings += self.describe_channels(state)
        return findings

    def describe_non_finite(self, state: _LayerState) -> list[CheckFinding]:
        findings = []
        names = {"nan": "NaN", "infinity": "infinite"}
        for kind, name in names.items():
            count = state.counts[kind]
            if not count:
                continue
            found = format_count(count, f"{name} element")
            is_first = not any(s.counts[kind] and s.order < state.order for s in self.states.values())
            if state.is_made[kind]:
                cause = "from infinite inputs" if kind == "nan" and state.is_made["nan from infinity"] else "here"
                first = f"; {'it appears' if count == 1 else 'they appear'} here first" if is_first else ""
                message = f"{found}, made {cause}{first}"
                findings.append(self.make_finding(kind, "error", state, message))
            elif is_first:
                message = f"{found}, inherited from an input of the model or a constant"
                findings.append(self.make_finding(kind, "error", state, message))
        if state.counts["nan swallowed"]:
            message = "its inputs contain NaN, its outputs do not"
            findings.append(self.make_finding("nan swallowed", "note", state, message))
        return findings

    def describe_range(self, state: _LayerState) -> list[CheckFinding]:
        findings = []
        counts, total = state.counts, max(state.elements, 1)
        if counts["overflow"]:
            text = "1 element overflows" if counts["overflow"] == 1 else f"{counts['overflow']} elements overflow"
            message = f"{text} in {self.target_name}, the largest is {state.largest:.4g}"
            findings.append(self.make_finding("overflow", "error", state, message))
        if counts["vanishing"] / total >= MINIMUM_VANISHING:
            message = f"{counts['vanishing'] / total:.1%} of the elements become 0 in {self.target_name}"
            findings.append(self.make_finding("vanishing", "note", state, message))
        if counts["denormal"]:
            message = f"{counts['denormal']} elements are denormal, which slows processors down"
            findings.append(self.make_finding("denormal", "note", state, message))
        clipped = counts["saturated"] / max(counts["quantized"], 1)
        if clipped >= MINIMUM_SATURATION:
            message = f"{clipped:.1%} of the elements are clipped"
            findings.append(self.make_finding("saturation", "note", state, message))
        return findings

    def describe_channels(self, state: _LayerState) -> list[CheckFinding]:
        inherited = [find_constant_channels(s) for s in self.find_inputs(state)]
        findings = []
        for kind, channels in find_constant_channels(state).items():
            count = np.count_nonzero(channels)
            if count and all(np.count_nonzero(other[kind]) != count for other in inherited):
                adjective = "always zero" if kind == "zero" else "constant"
                message = f"{count} of {channels.size} channels are {adjective} over all inputs"
                findings.append(self.make_finding(f"{kind} channels", "note", state, message))
        return findings

    def find_inputs(self, state: _LayerState) -> list[_LayerState]:
        producers = self.connections.get(state.layer).find_producers(state.layer)
        return [self.states[id(layer)] for layer in producers if id(layer) in self.states]

    @staticmethod
    def make_finding(kind: str, level: str, state: _LayerState, message: str) -> CheckFinding:
        return CheckFinding(kind, level, state.key, state.layer.type, message)


def is_all_finite(value: Array) -> bool:
    """Return whether an array contains neither NaN nor infinities.

    Args:
        value: An array of a floating-point type.
    """
    return bool(np.isfinite(value).all())


def count_saturation(state: _LayerState, inputs: Sequence[Array | None]) -> None:
    """Count the elements that a quantizer clips.

    Args:
        state: Receives the counts.
        inputs: The inputs of the quantizer: the data and four limits of ranges.
    """
    value, low, high = (widen(array) for array in inputs[:3] if array is not None)
    state.count("quantized", value.size)
    margin = 1e-6 * np.abs(high - low)
    try:
        is_outside = (value < np.minimum(low, high) - margin) | (value > np.maximum(low, high) + margin)
    except ValueError:  # ranges with "pdpd" broadcasting
        return
    state.count("saturated", int(np.count_nonzero(is_outside)))


def track_channels(state: _LayerState, value: Array) -> None:
    """Update the range of each channel.

    Args:
        state: Receives the ranges.
        value: An output. The channels are on axis 1 if the rank is at least 4, else on the last axis.
    """
    if value.ndim < 2 or not value.size:
        return
    axis = 1 if value.ndim >= 4 else value.ndim - 1
    others = tuple(i for i in range(value.ndim) if i != axis)
    low, high = widen(value.min(axis=others)), widen(value.max(axis=others))
    if state.limits is not None:
        previous_low, previous_high = state.limits
        if previous_low.shape != low.shape:
            return
        low, high = np.minimum(low, previous_low), np.maximum(high, previous_high)
    state.limits = low, high
    state.channel_elements += value.size // value.shape[axis]


def find_constant_channels(state: _LayerState) -> dict[str, Array]:
    """Return which channels are always zero, and which are constant at another value.

    Args:
        state: The ranges of the channels.

    Returns:
        Booleans for the kinds "zero" and "constant"; empty if there are too few elements.
    """
    if state.limits is None or state.channel_elements < MINIMUM_ELEMENTS:
        return {"zero": np.array([]), "constant": np.array([])}
    low, high = state.limits
    is_constant = low == high
    is_zero = is_constant & (low == 0)
    return {"zero": is_zero, "constant": is_constant & ~is_zero}


def _get_finfo(dtype: np.dtype[Any]) -> Any:
    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)
