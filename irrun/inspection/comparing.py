"""Comparison of a model with a reference, layer by layer.

For each layer, two errors are measured. The *accumulated* error is the error of its outputs in an ordinary run. The
*own* error is what the layer adds: the error of its outputs, given the inputs of the reference. One run measures it for
all layers: an observer measures the outputs of each layer, then replaces them by the reference.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from irrun._lazy import get_provider
from irrun.arguments import check_functions, check_number, check_path, check_text
from irrun.errors import InputError
from irrun.inspection.comparison import Comparison, LayerComparison, OutputComparison
from irrun.inspection.connections import ConnectionTable
from irrun.inspection.contributions import Contributions, cast
from irrun.inspection.ignored import IgnoredElements, find_unspecified
from irrun.inspection.keys import KeyTable
from irrun.inspection.metrics import Metrics, are_identical, measure, measure_top_k, widen
from irrun.inspection.normalization import NormalizationCheck
from irrun.inspection.references import (
    ModelReference,
    Reference,
    load_arrays,
    make_f64_reference,
    make_mapping_reference,
)
from irrun.inspection.rounding import (
    EXACT,
    Rounding,
    RoundingEstimator,
    get_basic_rounding,
    get_epsilon,
    is_float_array,
)
from irrun.inspection.saturation import SaturationCheck
from irrun.inspection.static_differences import OWNER, StaticDifferences
from irrun.inspection.torch_reference import Module, TorchReference, is_torch
from irrun.inspection.verdicts import (
    LayerErrors,
    choose_verdict,
    exceeds_level,
    get_ordinary_sqnr,
    get_output_sqnr,
    is_near_zero,
    is_one_level,
)
from irrun.ir.graph import Layer
from irrun.ir.model import Model, name_outputs
from irrun.ir.reader import read_model
from irrun.ops._support import registry
from irrun.runtime.executor import Observer, Scope
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings
from irrun.runtime.request import CompiledModel

__all__ = ["compare", "compare_with", "open_reference"]

Array = np.ndarray[Any, Any]

#: Tolerance of a layer as a multiple of its rounding error, if the reference has other kernels.
FACTOR = 64.0
#: The same if irrun computes the reference: equal layers then give equal values.
SAME_RUNTIME_FACTOR = 2.0
#: Maximum relative error of a layer's inputs that counts as rounding.
MAX_ROUNDING = 1e-3
#: Minimum SQNR of agreeing outputs in dB, if rounding errors of inputs make results of layers jump.
JUMP_SQNR = 20.0
#: Number of layers with measured contributions to the outputs; each takes a run.
MAX_RANKED = 8
#: Number of largest elements of an output to compare.
TOP_K = 5


def compare(
    model: Model | str | os.PathLike[str],
    against: Model | str | os.PathLike[str] | Mapping[str, Array] | Module,
    inputs: Inputs = None,
    *,
    sequence: Sequence[Inputs] | None = None,
    names: Mapping[str, str] | None = None,
    metric: Callable[[Array, Array], float] | None = None,
    factor: float | None = None,
    observers: Sequence[Observer] = (),
    precision: str = "f32",
    threads: int | None = None,
    memory: int | str | None = None,
    weights_memory: int | str | None = None,
    timeout: float | None = None,
) -> Comparison:
    """Compare a model with a reference, layer by layer.

    Args:
        model: The model, or the path of its .xml file.
        against: Another model, or the path of its .xml file; "f64" for the same model in f64; "openvino", followed
            by a device and a precision if required ("openvino:bf16", "openvino:GPU:f16"), by "float" for f32
            without int8 kernels, or by "reference" for `Model.evaluate`; the path of an .onnx file; a PyTorch module
            or exported program; or arrays by name: a `Trace`, a mapping, or the path of a .trace, .npz or .safetensors
            file or of a folder of .npy files.
        inputs: An array, a sequence in the order of the Parameters, or a mapping from names to arrays.
        sequence: Inputs of several runs of one session, in place of `inputs`. Variables keep their values between the
            runs, and are compared after each.
        names: Names of reference arrays -> names of the model, if they differ.
        metric: Returns the score of an output, given the output and the reference. It is reported, but does not decide
            whether the models agree.
        factor: The tolerance of a layer as a multiple of its own rounding error, which is measured in f64. By default
            64, or 2 if irrun computes the reference.
        observers: Observers that are called first, in all runs of the model.
        precision: This and the following arguments are as for `compile_model`. They also apply to a reference that
            irrun runs.
        threads: Number of threads.
        memory: Memory of the values of a run.
        weights_memory: Memory of decompressed weights.
        timeout: Time limit of each run in seconds.

    Returns:
        The comparison.

    Raises:
        InputError: The inputs do not match the model, or the reference does not exist.
        TimeLimitError: A run took longer than `timeout`.
        IrrunError: The model or the reference failed.
    """
    settings = RunSettings(precision, threads, memory, weights_memory, timeout=timeout)
    observers = check_functions("observers", observers)
    if factor is not None:
        factor = check_number("factor", factor, 0)
    source = model if isinstance(model, Model) else read_model(model)
    compiled = settings.compile(source, optimize=False)
    if sequence is not None and inputs is not None:
        raise InputError("inputs and sequence exclude each other")
    sets = [
        collect_inputs(one, compiled.inputs, compiled._input_names)
        for one in ([inputs] if sequence is None else sequence)
    ]
    if not sets:
        raise InputError("sequence is empty, expected inputs of at least one run")
    opened = open_reference(source, against, sets[0], settings, names=names, has_more=len(sets) > 1)
    try:
        return _Comparer(compiled, opened, sets, factor, observers, settings, metric).run()
    finally:
        opened.close()


def compare_with(
    compiled: CompiledModel,
    reference: Reference,
    arguments: Sequence[Array],
    factor: float | None,
    settings: RunSettings = DEFAULT_SETTINGS,
) -> list[LayerComparison]:
    """Compare the layers of a compiled model with an open reference.

    Args:
        compiled: The model.
        reference: The reference.
        arguments: The inputs of the model.
        factor: The tolerance as a multiple of the rounding error, or None.
        settings: The settings for running the model.

    Returns:
        The comparisons in the order of execution.
    """
    return _Comparer(compiled, reference, [arguments], factor, (), settings).compare_layers()


def open_reference(
    model: Model,
    reference: Model | str | os.PathLike[str] | Mapping[str, Array] | Module,
    arguments: Sequence[Array],
    settings: RunSettings = DEFAULT_SETTINGS,
    *,
    names: Mapping[str, str] | None = None,
    has_more: bool = False,
) -> Reference:
    """Run or open a reference.

    Args:
        model: The model.
        reference: The reference, as `against` of `compare`.
        arguments: The inputs of the model, in the order of the Parameters.
        settings: The settings for a reference that irrun runs.
        names: Names of reference arrays -> names of the model.
        has_more: Whether more inputs follow in the same session.

    Raises:
        InputError: The reference does not exist, or its inputs differ from the model's.
    """
    if names and (isinstance(reference, Model) or is_torch(reference) or _is_computed(reference)):
        raise InputError("names of arrays can be mapped only if the reference consists of arrays")
    if isinstance(reference, Model):
        return ModelReference(str(reference.path or reference.name), model, reference, arguments, settings)
    if is_torch(reference):
        return TorchReference(reference, model, arguments)
    if isinstance(reference, Mapping):
        for name in reference:
            check_text("a name in against", name)
        return make_mapping_reference(model, reference, names)
    text = check_path("against", reference, "a Model, arrays by name, 'f64', 'openvino' or a path")
    if text == "f64":
        return make_f64_reference(model, arguments, settings)
    if text == "openvino" or text.startswith("openvino:"):
        from irrun.inspection.openvino_reference import OpenVinoReference

        return OpenVinoReference(text, model, arguments, keeps_batches=has_more)
    if text.lower().endswith(".onnx"):
        from irrun.inspection.onnx_reference import OnnxReference

        return OnnxReference(text, model, arguments)
    if text.lower().endswith(".xml"):
        return ModelReference(text, model, read_model(text), arguments, settings)
    return load_arrays(Path(text), model, names)


def _is_computed(text: object) -> bool:
    """Return whether the text of a reference means a model."""
    name = str(text) if isinstance(text, (str, os.PathLike)) else ""
    return name == "f64" or name.partition(":")[0] == "openvino" or name.lower().endswith((".xml", ".onnx"))


class _Comparer:
    """Compares one model with one reference."""

    def __init__(
        self,
        compiled: CompiledModel,
        reference: Reference,
        sets: Sequence[Sequence[Array]],
        factor: float | None,
        observers: Sequence[Observer],
        settings: RunSettings,
        metric: Callable[[Array, Array], float] | None = None,
    ) -> None:
        self.metric = metric
        self.compiled = compiled
        self.reference = reference
        self.sets = sets
        self.observers = observers
        self.settings = settings
        self.table = KeyTable(compiled.model)
        self.is_f64 = reference.name == "f64"
        self.default_factor = factor
        self.estimator = RoundingEstimator(reference.epsilon)
        self.errors: dict[str, LayerErrors] = {}
        self.executed: set[int] = set()
        self.connections = ConnectionTable(self.table)
        self.ignored = IgnoredElements(self.connections)
        self.saturation = SaturationCheck(self.connections)
        self.normalization = NormalizationCheck(self.connections, self.estimator)
        self.differences = StaticDifferences(self.table, reference)
        #: One session for each of the two runs.
        self.requests = compiled.create_infer_request(), compiled.create_infer_request()
        self.outputs: list[OutputComparison] = []

    def run(self) -> Comparison:
        """Compare the layers and the outputs."""
        layers = self.compare_layers()
        if not layers and all(output.metrics is None for output in self.outputs):
            known = ", ".join(layer.name for layer in list(self.compiled.model.graph.layers)[:5])
            raise InputError(
                f"nothing to compare: {self.reference.name} has no value with the name of a layer or a tensor of the "
                f"model, such as {known}"
            )
        causes = self.rank(layers)
        agrees = not causes and all(output.agrees for output in self.outputs)
        reference = self.reference
        return Comparison(
            agrees,
            reference.name,
            reference.precision,
            layers,
            self.outputs,
            len(self.executed),
            list(reference.notes),
            causes,
            len(self.sets),
        )

    def compare_layers(self) -> list[LayerComparison]:
        """Run the model twice on each input: with the reference's inputs for each layer, and unchanged."""
        layers = self.differences.compare_constant_layers()
        for i, arguments in enumerate(self.sets):
            if i:
                self.reference.advance(arguments)
            self.errors = {}
            given = self.infer(0, arguments, self.measure_own)
            outputs = self.infer(1, arguments, self.measure_accumulated)
            found = self.compare_variables()
            for errors in self.errors.values():
                body = self.compare_body(errors)
                layer = self.judge(errors)
                if layer.verdict == "adds" and any(n.verdict not in ("exact", "near zero") for n in body):
                    layer = replace(layer, verdict="amplifies")  # the errors of its body are known
                found += [*body, layer]
            compared = self.compare_outputs(outputs)
            found = [*self.find_owners(found), *self.compare_results(given, compared)]
            layers += [replace(layer, run=i) for layer in found]
            self.outputs += [replace(output, run=i) for output in compared]
        return layers

    def infer(self, session: int, arguments: Sequence[Array], observer: Observer) -> list[Array]:
        """Run the model in one of two sessions, which have different variables."""
        observers = [*self.observers, observer]
        request = self.requests[session]
        return list(request.infer(list(arguments), observers=observers, timeout=self.settings.timeout).to_tuple())

    def compare_variables(self) -> list[LayerComparison]:
        """Compare the values that layers wrote to variables, given the inputs of the reference."""
        variables = {variable.name: variable for variable in self.requests[0].query_state()}
        if not variables:
            return []
        layers = []
        for key, layer in self.table.iterate_layers():
            name = layer.attributes.get("variable_id")
            expected = None if name is None else self.reference.get_variable(str(name))
            if not layer.writes_variable or expected is None or self.differences.has_other_variables:
                continue
            variable = variables[str(name)]
            metrics = measure(variable.state, expected)
            if metrics.same_shape and metrics.sqnr_db >= get_output_sqnr(self.reference.epsilon):
                continue
            with contextlib.suppress(InputError):  # the next run starts from the value of the reference
                variable.state = cast(expected, variable.state)
            reasons = (self.differences.describe_connections(layer), self.differences.describe(layer))
            reason = "; ".join(filter(None, reasons))
            layers.append(LayerComparison(layer.name, layer.type, key, "name", metrics, metrics, "adds", 0.0, reason))
        return layers

    def find_owners(self, layers: Sequence[LayerComparison]) -> list[LayerComparison]:
        """Attribute the error of a layer with a body either to the layer or to the layers in its body.

        If the connections of the body are the only reason, the layers in the body inherit the error and the owner of
        the body adds it. An owner without a reason does not add errors that layers in its body add.
        """
        blamed: dict[str, LayerComparison] = {}
        results = []
        for layer in layers:
            owner = layer.path.rpartition("[0]/")[0]
            if owner and layer.verdict == "adds" and layer.reason.startswith(OWNER):
                worst = blamed.get(owner, layer)
                blamed[owner] = min(worst, layer, key=lambda n: n.own.sqnr_db)
                layer = replace(layer, verdict="inherits", reason="")
            results.append(layer)
        inner = {layer.path.rpartition("[0]/")[0] for layer in results if layer.verdict == "adds"}
        for i, layer in enumerate(results):
            if layer.path in blamed:
                cause = blamed[layer.path]
                results[i] = replace(layer, verdict="adds", own=cause.own, reason=cause.reason.removeprefix(OWNER))
            elif layer.verdict == "adds" and not layer.reason and layer.path in inner:
                results[i] = replace(layer, verdict="amplifies")
        return results

    def compare_results(self, given: Sequence[Array], compared: Sequence[OutputComparison]) -> list[LayerComparison]:
        """Compare the Results with the reference, given the reference's values of all layers.

        A Result adds an error if it is connected to a different layer than in the reference.
        """
        layers = []
        specs, references = self.compiled.outputs, self.reference.get_outputs()
        for spec, value, expected, output in zip(specs, given, references, compared, strict=True):
            if expected is None or output.agrees or output.metrics is None:
                continue
            reason = self.differences.describe_result(spec.layer)
            metrics = measure(value, expected)
            if not reason or (metrics.same_shape and metrics.sqnr_db >= get_output_sqnr(self.reference.epsilon)):
                continue
            key = self.table.get_path(spec.layer)
            name = spec.layer.name
            layers.append(LayerComparison(name, "Result", key, "name", metrics, output.metrics, "adds", 0.0, reason))
        return layers

    def rank(self, layers: Sequence[LayerComparison]) -> list[LayerComparison]:
        """Return the layers that add an error, ranked by their contribution to the errors of the outputs.

        Iterations and runs of a layer count as one. The contribution of a layer is the error of the outputs without the
        errors of all other layers.
        """
        causes: dict[str, LayerComparison] = {}
        for layer in layers:
            if layer.verdict == "adds":
                causes.setdefault(layer.path, layer)
        if len(causes) < 2 or len(self.sets) > 1:
            return list(causes.values())
        known = [n for path in causes for n in [self.table.find_layer(path)] if not self.connections.is_constant(n)]
        chosen = sorted(known, key=lambda n: causes[self.table.get_path(n)].own.sqnr_db)[:MAX_RANKED]
        contributions = Contributions(self.table, self.reference, chosen)
        arguments = list(self.sets[0])
        self.settings.infer(self.compiled, arguments, [*self.observers, contributions.measure])
        ranked = {}
        references = self.reference.get_outputs()
        for cause in chosen:
            observers = [*self.observers, contributions.make_observer(cause)]
            outputs = self.settings.infer(self.compiled, arguments, observers).to_tuple()
            pairs = zip(outputs, references, strict=True)
            ranked[self.table.get_path(cause)] = min(
                (measure(value, expected).sqnr_db for value, expected in pairs if expected is not None),
                default=math.inf,
            )
        order = {path: i for i, path in enumerate(causes)}
        is_known = min(ranked.values(), default=math.inf) < math.inf
        if not is_known:
            return list(causes.values())
        paths = sorted(causes, key=lambda path: (ranked.get(path, causes[path].own.sqnr_db), order[path]))
        return [replace(causes[path], contribution_db=ranked.get(path)) for path in paths]

    def get_factor(self, layer: Layer, outputs: Sequence[Array], references: Sequence[Array | None]) -> float:
        """Return the tolerance of a layer as a multiple of its rounding error."""
        if self.default_factor is not None:
            return self.default_factor
        types = [value.dtype for value in references if value is not None]
        is_same = types == [value.dtype for value in outputs]
        return SAME_RUNTIME_FACTOR if self.reference.is_same_runtime and is_same else FACTOR

    def measure_own(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> Sequence[Array] | None:
        """Measure the own error of a layer, and replace its outputs by the reference."""
        if self.connections.is_constant(layer):
            return None
        self.executed.add(id(layer))
        matched_by = self.reference.find_match(layer)
        if matched_by is None:
            return None
        replacements = [self.reference.get_value(layer, port, scope) for port in range(len(outputs))]
        if all(value is None for value in replacements):
            return None
        results = outputs
        inputs, outputs, references = self.leave_out(layer, inputs, outputs, replacements)
        factor = self.get_factor(layer, outputs, references)
        errors = LayerErrors(layer, scope, self.table.get_key(layer, scope), matched_by, factor)
        errors.has_type_change = any(
            r is not None and r.dtype != o.dtype and not (is_float_array(o) and is_float_array(r))
            for o, r in zip(outputs, references, strict=True)
        )
        errors.rounding = self.estimate(layer, inputs, outputs, references)
        self.errors[errors.key] = errors
        for value, expected, rounding in zip(outputs, references, errors.rounding, strict=True):
            if expected is not None:
                metrics = _measure(value, expected, rounding, factor)
                errors.own.append(metrics)
                if metrics.over_tolerance:
                    is_near = is_near_zero(value, expected, rounding, factor, inputs)
                    if is_near and metrics.sqnr_db < get_ordinary_sqnr([rounding]):
                        is_near = self.is_sensitive(layer, inputs, outputs, references, factor)
                    elif not is_near:
                        is_near = self.is_transform(layer, inputs, outputs, references, factor)
                    errors.is_near_zero &= is_near
                    errors.is_one_level &= is_one_level(layer, inputs, value, expected)
                    errors.exceeds_level |= exceeds_level(layer, inputs, value, expected)
                elif metrics.sqnr_db < get_ordinary_sqnr([rounding]):
                    errors.has_own_excess |= _exceeds_basic(value, expected, rounding, factor)
        is_over = any(metrics.over_tolerance for metrics in errors.own)
        if is_over and not self.reference.is_same_runtime and len(outputs) == 1 and references[0] is not None:
            errors.explanation = self.saturation.describe(
                layer, inputs, outputs[0], references[0], errors.own[0]
            ) or self.normalization.describe(layer, inputs, references[0], errors.own[0])
        if errors.has_own_excess and not errors.has_type_change:
            errors.has_wrong_kernel = self.has_wrong_kernel(layer, inputs, outputs, references, factor)
        return [
            value if expected is None else cast(expected, value)
            for value, expected in zip(results, replacements, strict=True)
        ]

    def leave_out(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        references: Sequence[Array | None],
    ) -> tuple[Sequence[Array | None], Sequence[Array], Sequence[Array | None]]:
        """Return the inputs, outputs and references of a layer, with ignored elements made equal."""
        expected = references[0] if references else None
        if expected is None or expected.shape != outputs[0].shape:
            return inputs, outputs, references
        value = outputs[0]
        if self.reference.is_same_runtime:
            undefined = None
        else:
            undefined = self.ignored.find_undefined(layer, inputs, value)
            undefined = find_unspecified(layer, inputs, value) if undefined is None else undefined
        if undefined is not None:
            return inputs, outputs, [np.where(undefined, value.astype(expected.dtype), expected), *references[1:]]
        masked = self.ignored.find_masked(layer, value, expected)
        if masked is None:
            return inputs, outputs, references
        # Without the magnitude of the masks, the tolerance suits the scores.
        summands = [None if v is None else _set_zero(v, masked) for v in inputs]
        return summands, [_set_zero(value, masked)], [_set_zero(expected, masked)]

    def estimate(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        references: Sequence[Array | None],
    ) -> list[Rounding]:
        """Return the rounding error of the outputs; if the outputs are equal, skip the computation."""
        pairs = list(zip(outputs, references, strict=True))
        if all(r is None or are_identical(o, r) for o, r in pairs):
            return [get_basic_rounding(o, self.reference.epsilon) for o in outputs]
        roundings = self.estimator.estimate(layer, inputs, outputs)
        narrowed = []
        for rounding, (_, expected) in zip(roundings, pairs, strict=True):
            if expected is not None and rounding is not EXACT and is_float_array(expected):
                epsilon = max(rounding.epsilon, get_epsilon(expected.dtype))
                rounding = Rounding(rounding.relative, rounding.magnitude, epsilon)
            narrowed.append(rounding)
        return narrowed

    def is_sensitive(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        references: Sequence[Array | None],
        factor: float,
    ) -> bool:
        """Return whether rounding errors of the inputs explain the errors of the outputs.

        The magnitude of the inputs is not enough: Softmax ignores the large values of masks.
        """
        if registry.get_card(layer.type, layer.version).discontinuous:
            return True
        changes = self.estimator.measure_sensitivity(layer, inputs, outputs)
        return changes is None or self.are_explained(outputs, references, changes, factor)

    def is_transform(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        references: Sequence[Array | None],
        factor: float,
    ) -> bool:
        """Return whether rounding errors of angles explain the errors of a Fourier transform.

        OpenVINO computes the angles in f32, so their errors grow with the length.
        """
        operation = registry.find(layer.type, layer.version)
        if operation is None or operation.category != "signals" or inputs[0] is None:
            return False
        changes = self.estimator.measure_sensitivity(layer, inputs, outputs)
        length = max(inputs[0].shape, default=1)
        return changes is not None and self.are_explained(outputs, references, changes, factor * length)

    def has_wrong_kernel(
        self,
        layer: Layer,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array],
        references: Sequence[Array | None],
        factor: float,
    ) -> bool:
        """Return whether the kernel differs from the operation in f64, but the reference does not.

        A layer is only ill-conditioned if rounding errors of its inputs explain the error.
        """
        if registry.get_card(layer.type, layer.version).discontinuous:
            return False
        exact = self.estimator.compute(layer, inputs, len(outputs))
        changes = self.estimator.measure_sensitivity(layer, inputs, outputs)
        if exact is None or changes is None or self.are_explained(outputs, references, changes, factor):
            return False
        narrow = [cast(wide, value) for wide, value in zip(exact, outputs, strict=True)]
        return self.are_explained(narrow, references, changes, factor)

    def are_explained(
        self,
        outputs: Sequence[Array],
        references: Sequence[Array | None],
        changes: Sequence[Array],
        factor: float,
    ) -> bool:
        """Return whether changes by rounding errors of the inputs explain the errors of the outputs."""
        for value, expected, change in zip(outputs, references, changes, strict=True):
            if expected is None or not is_float_array(expected) or expected.shape != change.shape:
                continue
            with np.errstate(all="ignore"):
                error = np.abs(widen(value) - widen(expected))
                rounding = get_epsilon(value.dtype) * np.abs(widen(expected))
                typical = np.sqrt(np.mean(np.square(change))) / 8
            if bool(np.any(error > factor * (np.maximum(change, typical) + rounding))):
                return False
        return True

    def measure_accumulated(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> Sequence[Array] | None:
        """Measure the error of the outputs of a layer, and take undefined steps of sequences from the reference."""
        errors = self.errors.get(self.table.get_key(layer, scope))
        if errors is None:
            return None
        replacements = [self.reference.get_value(layer, port, scope) for port in range(len(outputs))]
        _, values, references = self.leave_out(layer, inputs, outputs, replacements)
        for value, expected, rounding in zip(values, references, errors.rounding, strict=True):
            if expected is not None:
                errors.accumulated.append(_measure(value, expected, rounding, errors.factor))
        errors.input_error = self.find_input_error(layer, scope)
        undefined = None if self.reference.is_same_runtime else self.ignored.find_undefined(layer, inputs, outputs[0])
        if undefined is None or replacements[0] is None or replacements[0].shape != outputs[0].shape:
            return None
        return [np.where(undefined, cast(replacements[0], outputs[0]), outputs[0]), *outputs[1:]]

    def find_input_error(self, layer: Layer, scope: Scope) -> float:
        """Return the largest relative error of the inputs of a layer."""
        worst = 0.0
        prefix = self.table.get_key(layer, scope)[: -len(self.table.get_key(layer))]
        for producer in self.connections.get(layer).find_producers(layer):
            errors = self.errors.get(prefix + self.table.get_key(producer))
            if errors is not None:
                worst = max(worst, errors.get_relative_error())
        return worst

    def judge(self, errors: LayerErrors) -> LayerComparison:
        """Return the comparison of a layer with its verdict."""
        layer = errors.layer
        reason = ""
        own = errors.get_worst_own()
        if not own.is_exact or errors.has_type_change:
            reason = self.differences.describe(layer)
        is_perturbed = self.reference.is_perturbed(layer, errors.scope)
        verdict = choose_verdict(errors, is_perturbed, self.is_f64, bool(reason))
        if verdict == "adds":
            connections = self.differences.describe_connections(layer)
            reason = "; ".join(filter(None, (connections, reason))) or self.differences.describe_owner(layer)
            reason = reason or errors.explanation
            if not reason and errors.has_wrong_kernel:
                reason = "the kernel differs from the same operation in f64, but the reference agrees with it"
        tolerance = max(errors.factor * max(r.relative, r.epsilon) for r in errors.rounding)
        return LayerComparison(
            layer.name,
            layer.type,
            errors.key,
            errors.matched_by,
            own,
            errors.get_worst_accumulated(),
            verdict,
            tolerance,
            reason if verdict == "adds" else "",
            since=self.find_compared(layer) if verdict == "adds" and not reason else (),
        )

    def find_compared(self, layer: Layer) -> tuple[str, ...]:
        """Return the nearest compared layers before a layer, if layers in between were not compared."""
        connections = self.connections.get(layer)
        producers = [n for n in connections.find_producers(layer) if n.id not in connections.constants]
        if all(self.is_known(n) for n in producers):
            return ()
        found: dict[str, None] = {}
        seen: set[int] = set()
        while producers:
            current = producers.pop(0)
            if current.id in seen:
                continue
            seen.add(current.id)
            if self.is_known(current):
                found[self.table.get_path(current)] = None
            else:
                producers += [n for n in connections.find_producers(current) if n.id not in connections.constants]
        return tuple(found)

    def is_known(self, layer: Layer) -> bool:
        """Return whether a value can be taken as equal in both models: it was compared, or it is an input."""
        return layer.is_input or self.reference.find_match(layer) is not None

    def compare_body(self, errors: LayerErrors) -> list[LayerComparison]:
        """Compare the bodies of a layer, if the reference only has the outputs of the layer."""
        from irrun.inspection.openvino_reference import OpenVinoReference

        if not errors.layer.bodies or not isinstance(self.reference, OpenVinoReference):
            return []
        layers: list[LayerComparison] = get_provider("compare_bodies")(
            self.compiled.model, self.table, self.reference, errors.layer, self.default_factor, self.settings
        )
        return layers

    def jumps(self, errors: LayerErrors) -> bool:
        """Return whether rounding errors of its inputs can make the result of a layer jump."""
        is_perturbed = self.reference.is_perturbed(errors.layer, errors.scope)
        if choose_verdict(errors, is_perturbed, self.is_f64, False) == "one level":
            return True
        card = registry.get_card(errors.layer.type, errors.layer.version)
        is_discontinuous = card.discontinuous or card.kind == "selection"
        is_exact = all(m.over_tolerance == 0 and m.same_shape for m in errors.own)
        return is_discontinuous and is_exact and errors.input_error <= MAX_ROUNDING

    def compare_outputs(self, outputs: Sequence[Array]) -> list[OutputComparison]:
        """Compare the outputs of the model.

        If results jump, rounding explains a small error: elements on the edge of two levels of a quantizer, or
        boxes in another order. It explains no error after an ill-conditioned layer, or
        after a layer whose value was not compared.
        """
        references = self.reference.get_outputs()
        jumps = any(self.jumps(errors) for errors in self.errors.values())
        compared = []
        names = name_outputs(self.compiled.outputs)
        for name, value, expected in zip(names, outputs, references, strict=True):
            if expected is None:
                compared.append(OutputComparison(name, None, 0.0, True))
                continue
            metrics = measure(value, expected)
            epsilon = max(self.reference.epsilon, get_epsilon(expected.dtype))
            is_numeric = value.dtype.kind not in "OUST" and value.ndim > 0
            top_k = measure_top_k(value, expected, TOP_K) if is_numeric else float(metrics.is_exact)
            is_close = metrics.is_exact or metrics.sqnr_db >= get_output_sqnr(epsilon)
            is_explained = jumps and metrics.sqnr_db >= JUMP_SQNR
            agrees = metrics.same_shape and (is_close or is_explained)
            score = metrics.sqnr_db if self.metric is None else float(self.metric(value, expected))
            compared.append(OutputComparison(name, metrics, top_k, agrees, score=score))
        return compared


def _measure(value: Array, expected: Array, rounding: Rounding, factor: float) -> Metrics:
    if value.shape != expected.shape or expected.dtype.kind in "OUST" or rounding is EXACT:
        return measure(value, expected)
    return measure(value, expected, rounding.get_limits(expected, factor))


def _exceeds_basic(value: Array, expected: Array, rounding: Rounding, factor: float) -> bool:
    """Return whether the error is too large to come from rounding the result."""
    return measure(value, expected, rounding.get_basic_limits(expected, factor)).over_tolerance > 0


def _set_zero(value: Array, elements: Array) -> Array:
    return np.where(elements, np.zeros((), value.dtype), value)
