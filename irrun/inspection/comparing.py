"""Comparison of a model with a reference, layer by layer.

Each layer has two errors. The *accumulated* error is the error of its outputs in an ordinary run. The *own* error is
the error that the layer adds: the error of its outputs, given the inputs of the reference. A single run measures it for
all layers: an observer compares the outputs of each layer with the reference and then replaces them by it.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from irrun._lazy import get_provider
from irrun.arguments import check_functions, check_number
from irrun.errors import InputError
from irrun.inspection.comparison import Comparison, LayerComparison, OutputComparison
from irrun.inspection.connections import ConnectionTable
from irrun.inspection.contributions import Contributions, cast
from irrun.inspection.keys import KeyTable
from irrun.inspection.metrics import measure, measure_top_k
from irrun.inspection.own_errors import LayerValues, OwnErrors, measure_rounded
from irrun.inspection.reference_kinds import open_reference
from irrun.inspection.references import Reference
from irrun.inspection.rounding import get_epsilon
from irrun.inspection.static_differences import OWNER, StaticDifferences
from irrun.inspection.torch_reference import Module
from irrun.inspection.verdicts import LayerErrors, choose_verdict, get_output_sqnr
from irrun.ir.graph import Layer
from irrun.ir.model import Model, name_outputs
from irrun.ir.reader import read_model
from irrun.ops._support import registry
from irrun.runtime.compiled_model import CompiledModel
from irrun.runtime.inputs import Inputs, collect_inputs
from irrun.runtime.observer import Observer, Scope
from irrun.runtime.options import DEFAULT_SETTINGS, RunOptions, RunSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["compare", "compare_with"]

Array = np.ndarray[Any, Any]

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
    **options: Unpack[RunOptions],
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
        sequence: Inputs of several runs of one session, instead of `inputs`. Variables keep their values between runs,
            and are compared after each run.
        names: Names of reference arrays -> names of the model, if they differ.
        metric: Returns the score of an output, given the output and the reference. It is reported, but does not decide
            whether the models agree.
        factor: The tolerance of a layer as a multiple of its own rounding error, which is measured in f64. By default
            64, or 2 if irrun computes the reference.
        observers: Observers that are called first, in all runs of the model.
        options: `precision`, `threads`, `memory` and `weights_memory`, as for `compile_model`, and `timeout`, the time
            limit of each run in seconds; or a `RunSettings` as `settings`. They also apply to a reference that irrun
            runs.

    Returns:
        The comparison.

    Raises:
        InputError: The inputs do not match the model, or the reference does not exist.
        TimeLimitError: A run took longer than `timeout`.
        IrrunError: The model or the reference failed.
    """
    settings = RunSettings.choose(options)
    observers = check_functions("observers", observers)
    if factor is not None:
        factor = check_number("factor", factor, 0)
    source = model if isinstance(model, Model) else read_model(model)
    compiled = settings.compile(source, optimize=False)
    if sequence is not None and inputs is not None:
        raise InputError("inputs and sequence cannot be combined")
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
        self.errors: dict[str, LayerErrors] = {}
        self.executed: set[int] = set()
        self.connections = ConnectionTable(self.table)
        self.own_errors = OwnErrors(reference, self.connections, factor)
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

        If only the connections of the body explain the error, the owner of the body adds it, and the layers in the body
        inherit it. Without such a reason, the owner does not add errors that layers in its body add.
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
        references = [self.reference.get_value(layer, port, scope) for port in range(len(outputs))]
        if all(value is None for value in references):
            return None
        values = self.own_errors.leave_out(LayerValues(layer, inputs, outputs, references))
        key = self.table.get_key(layer, scope)
        self.errors[key] = self.own_errors.measure(values, scope, key, matched_by)
        return [
            value if expected is None else cast(expected, value)
            for value, expected in zip(outputs, references, strict=True)
        ]

    def measure_accumulated(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> Sequence[Array] | None:
        """Measure the error of the outputs of a layer, and take undefined steps of sequences from the reference."""
        errors = self.errors.get(self.table.get_key(layer, scope))
        if errors is None:
            return None
        references = [self.reference.get_value(layer, port, scope) for port in range(len(outputs))]
        values = LayerValues(layer, inputs, outputs, references)
        kept = self.own_errors.leave_out(values)
        for value, expected, rounding in zip(kept.outputs, kept.references, errors.rounding, strict=True):
            if expected is not None:
                errors.accumulated.append(measure_rounded(value, expected, rounding, errors.factor))
        errors.input_error = self.find_input_error(layer, scope)
        undefined = self.own_errors.find_undefined(values)
        if undefined is None or references[0] is None or references[0].shape != outputs[0].shape:
            return None
        return [np.where(undefined, cast(references[0], outputs[0]), outputs[0]), *outputs[1:]]

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
        """Return whether a value is known to be equal in both models: it was compared, or it is an input."""
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

        If results can jump, rounding explains a small error, such as elements on the edge of two levels of a quantizer,
        or boxes in another order. It does not explain errors after an ill-conditioned layer, or after a layer whose
        value was not compared.
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
