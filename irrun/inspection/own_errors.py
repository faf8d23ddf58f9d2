"""The own errors of layers: their size, and whether rounding or a known cause explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from irrun.inspection.connections import ConnectionTable
from irrun.inspection.contributions import cast
from irrun.inspection.ignored import IgnoredElements, find_unspecified
from irrun.inspection.metrics import Metrics, are_identical, measure, widen
from irrun.inspection.normalization import NormalizationCheck
from irrun.inspection.references import Reference
from irrun.inspection.rounding import (
    EXACT,
    Rounding,
    RoundingEstimator,
    get_basic_rounding,
    get_epsilon,
    is_float_array,
)
from irrun.inspection.saturation import SaturationCheck
from irrun.inspection.verdicts import LayerErrors, exceeds_level, get_ordinary_sqnr, is_near_zero, is_one_level
from irrun.ir.graph import Layer
from irrun.ops._support import registry
from irrun.runtime.observer import Scope

__all__ = ["LayerValues", "OwnErrors", "measure_rounded"]

Array = np.ndarray[Any, Any]

#: Tolerance of a layer as a multiple of its rounding error, if the reference has other kernels.
FACTOR = 64.0
#: The same if irrun computes the reference: equal layers then give equal values.
SAME_RUNTIME_FACTOR = 2.0


@dataclass(frozen=True, eq=False)
class LayerValues:
    """The values of a layer in one iteration.

    Attributes:
        layer: The layer.
        inputs: Its inputs; None for omitted inputs.
        outputs: Its outputs.
        references: The reference of each output, or None.
    """

    layer: Layer
    inputs: Sequence[Array | None]
    outputs: Sequence[Array]
    references: Sequence[Array | None]


class OwnErrors:
    """Measures the own errors of layers, given the inputs of the reference.

    Args:
        reference: The reference.
        connections: The connections of the model.
        factor: The tolerance as a multiple of the rounding error, or None.
    """

    def __init__(self, reference: Reference, connections: ConnectionTable, factor: float | None) -> None:
        self._is_same_runtime = reference.is_same_runtime
        self._epsilon = reference.epsilon
        self._factor = factor
        self._estimator = RoundingEstimator(reference.epsilon)
        self._ignored = IgnoredElements(connections)
        self._saturation = SaturationCheck(connections)
        self._normalization = NormalizationCheck(connections, self._estimator)

    def measure(self, values: LayerValues, scope: Scope, key: str, matched_by: str) -> LayerErrors:
        """Return the own errors of a layer.

        Args:
            values: The values of the layer, without ignored elements.
            scope: The layers whose bodies contain the layer, each with its iteration.
            key: The key of the layer.
            matched_by: How the layer was matched.
        """
        layer, inputs = values.layer, values.inputs
        factor = self._get_factor(values)
        errors = LayerErrors(layer, scope, key, matched_by, factor)
        pairs = list(zip(values.outputs, values.references, strict=True))
        errors.has_type_change = any(
            r is not None and r.dtype != o.dtype and not (is_float_array(o) and is_float_array(r)) for o, r in pairs
        )
        errors.rounding = self._estimate(values)
        for (value, expected), rounding in zip(pairs, errors.rounding, strict=True):
            if expected is not None:
                metrics = measure_rounded(value, expected, rounding, factor)
                errors.own.append(metrics)
                if metrics.over_tolerance:
                    is_near = is_near_zero(value, expected, rounding, factor, inputs)
                    if is_near and metrics.sqnr_db < get_ordinary_sqnr([rounding]):
                        is_near = self._is_sensitive(values, factor)
                    elif not is_near:
                        is_near = self._is_transform(values, factor)
                    errors.is_near_zero &= is_near
                    errors.is_one_level &= is_one_level(layer, inputs, value, expected)
                    errors.exceeds_level |= exceeds_level(layer, inputs, value, expected)
                elif metrics.sqnr_db < get_ordinary_sqnr([rounding]):
                    errors.has_own_excess |= _exceeds_basic(value, expected, rounding, factor)
        if any(metrics.over_tolerance for metrics in errors.own) and not self._is_same_runtime:
            errors.explanation = self._explain(values, errors.own[0])
        if errors.has_own_excess and not errors.has_type_change:
            errors.has_wrong_kernel = self._has_wrong_kernel(values, factor)
        return errors

    def find_undefined(self, values: LayerValues) -> Array | None:
        """Return where the first output is undefined, unless irrun computes the reference: see `IgnoredElements`."""
        if self._is_same_runtime:
            return None
        return self._ignored.find_undefined(values.layer, values.inputs, values.outputs[0])

    def leave_out(self, values: LayerValues) -> LayerValues:
        """Return the values with ignored elements made equal."""
        expected = values.references[0] if values.references else None
        if expected is None or expected.shape != values.outputs[0].shape:
            return values
        layer, inputs, value = values.layer, values.inputs, values.outputs[0]
        undefined = self.find_undefined(values)
        if undefined is None and not self._is_same_runtime:
            undefined = find_unspecified(layer, inputs, value)
        if undefined is not None:
            equal = np.where(undefined, value.astype(expected.dtype), expected)
            return replace(values, references=[equal, *values.references[1:]])
        masked = self._ignored.find_masked(layer, value, expected)
        if masked is None:
            return values
        # Without the magnitude of the masks, the tolerance suits the scores.
        summands = [None if v is None else _set_zero(v, masked) for v in inputs]
        return LayerValues(layer, summands, [_set_zero(value, masked)], [_set_zero(expected, masked)])

    def _get_factor(self, values: LayerValues) -> float:
        """Return the tolerance of a layer as a multiple of its rounding error."""
        if self._factor is not None:
            return self._factor
        types = [value.dtype for value in values.references if value is not None]
        is_same = types == [value.dtype for value in values.outputs]
        return SAME_RUNTIME_FACTOR if self._is_same_runtime and is_same else FACTOR

    def _estimate(self, values: LayerValues) -> list[Rounding]:
        """Return the rounding error of the outputs; if the outputs are equal, skip the computation."""
        outputs = values.outputs
        pairs = list(zip(outputs, values.references, strict=True))
        if all(r is None or are_identical(o, r) for o, r in pairs):
            return [get_basic_rounding(o, self._epsilon) for o in outputs]
        roundings = self._estimator.estimate(values.layer, values.inputs, outputs)
        narrowed = []
        for rounding, (_, expected) in zip(roundings, pairs, strict=True):
            if expected is not None and rounding is not EXACT and is_float_array(expected):
                epsilon = max(rounding.epsilon, get_epsilon(expected.dtype))
                rounding = Rounding(rounding.relative, rounding.magnitude, epsilon)
            narrowed.append(rounding)
        return narrowed

    def _explain(self, values: LayerValues, error: Metrics) -> str:
        """Return what the int8 kernels of the reference do differently; empty if that is not the cause."""
        if len(values.outputs) > 1 or values.references[0] is None:
            return ""
        layer, inputs, expected = values.layer, values.inputs, values.references[0]
        explanation = self._saturation.describe(layer, inputs, values.outputs[0], expected, error)
        return explanation or self._normalization.describe(layer, inputs, expected, error)

    def _is_sensitive(self, values: LayerValues, factor: float) -> bool:
        """Return whether rounding errors of the inputs explain the errors of the outputs.

        The magnitude of the inputs is not enough: Softmax ignores the large values of masks.
        """
        if registry.get_card(values.layer.type, values.layer.version).discontinuous:
            return True
        changes = self._measure_sensitivity(values)
        return changes is None or _are_explained(values, changes, factor)

    def _is_transform(self, values: LayerValues, factor: float) -> bool:
        """Return whether rounding errors of angles explain the errors of a Fourier transform.

        OpenVINO computes the angles in f32, so their errors grow with the length.
        """
        operation = registry.find(values.layer.type, values.layer.version)
        data = values.inputs[0] if operation is not None and operation.category == "signals" else None
        if data is None:
            return False
        changes = self._measure_sensitivity(values)
        return changes is not None and _are_explained(values, changes, factor * max(data.shape, default=1))

    def _has_wrong_kernel(self, values: LayerValues, factor: float) -> bool:
        """Return whether the kernel differs from the operation in f64, but the reference does not.

        A layer is only ill-conditioned if rounding errors of its inputs explain the error.
        """
        if registry.get_card(values.layer.type, values.layer.version).discontinuous:
            return False
        exact = self._estimator.compute(values.layer, values.inputs, len(values.outputs))
        changes = self._measure_sensitivity(values)
        if exact is None or changes is None or _are_explained(values, changes, factor):
            return False
        narrow = [cast(wide, value) for wide, value in zip(exact, values.outputs, strict=True)]
        return _are_explained(replace(values, outputs=narrow), changes, factor)

    def _measure_sensitivity(self, values: LayerValues) -> list[Array] | None:
        return self._estimator.measure_sensitivity(values.layer, values.inputs, values.outputs)


def measure_rounded(value: Array, expected: Array, rounding: Rounding, factor: float) -> Metrics:
    """Compare an output with its reference.

    Args:
        value: The output.
        expected: The reference.
        rounding: The rounding error of the output.
        factor: The tolerance as a multiple of the rounding error.
    """
    if value.shape != expected.shape or expected.dtype.kind in "OUST" or rounding is EXACT:
        return measure(value, expected)
    return measure(value, expected, rounding.get_limits(expected, factor))


def _are_explained(values: LayerValues, changes: Sequence[Array], factor: float) -> bool:
    """Return whether changes by rounding errors of the inputs explain the errors of the outputs."""
    for value, expected, change in zip(values.outputs, values.references, changes, strict=True):
        if expected is None or not is_float_array(expected) or expected.shape != change.shape:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(widen(value) - widen(expected))
            rounding = get_epsilon(value.dtype) * np.abs(widen(expected))
            typical = np.sqrt(np.mean(np.square(change))) / 8
        if bool(np.any(error > factor * (np.maximum(change, typical) + rounding))):
            return False
    return True


def _exceeds_basic(value: Array, expected: Array, rounding: Rounding, factor: float) -> bool:
    """Return whether the error is too large to come from rounding the result."""
    return measure(value, expected, rounding.get_basic_limits(expected, factor)).over_tolerance > 0


def _set_zero(value: Array, elements: Array) -> Array:
    return np.where(elements, np.zeros((), value.dtype), value)
