"""The rounding errors of single layers, from which tolerances are derived."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.inspection.metrics import widen
from irrun.inspection.widen import widen_attributes
from irrun.ir.graph import Layer
from irrun.ops._support import registry
from irrun.ops._support.context import OutputCount
from irrun.ops._support.operation import Operation

__all__ = ["Rounding", "RoundingEstimator", "get_basic_rounding", "get_epsilon"]

Array = np.ndarray[Any, Any]

#: Number of elements for estimating the typical magnitude of an array.
SAMPLE = 1 << 16
#: Number of runs with randomly changed inputs.
SENSITIVITY_RUNS = 4


@dataclass(frozen=True)
class Rounding:
    """The rounding error of one output of a layer.

    Attributes:
        relative: The largest error relative to the magnitude of the element, or to `magnitude` if that is larger.
        magnitude: The magnitude below which the error does not depend on the element.
        epsilon: The distance from 1 to the next larger number in the type that the layer computes in.
    """

    relative: float
    magnitude: float
    epsilon: float

    def get_limits(self, reference: Array, factor: float) -> Array:
        """Return the tolerance of each element.

        Args:
            reference: The reference.
            factor: Multiple of the rounding error.
        """
        return self._scale(reference, factor * max(self.relative, self.epsilon))

    def get_basic_limits(self, reference: Array, factor: float) -> Array:
        """Return the tolerance of each element if the layer only rounded its result.

        Args:
            reference: The reference.
            factor: Multiple of the rounding error.
        """
        return self._scale(reference, factor * self.epsilon)

    def _scale(self, reference: Array, factor: float) -> Array:
        with np.errstate(all="ignore"):
            magnitudes = np.abs(widen(reference))
            limits = factor * np.maximum(magnitudes, self.magnitude)
            # A finite number does not approximate infinity.
            return np.where(np.isfinite(magnitudes) & ~np.isnan(limits), limits, 0.0)


#: For values that are not floating-point numbers: no error is accepted.
EXACT = Rounding(relative=0.0, magnitude=math.nan, epsilon=0.0)


class RoundingEstimator:
    """Computes layers in f64 to measure their rounding error.

    Args:
        epsilon: The smallest epsilon: the reference's if its precision is lower than the model's, else 0.
    """

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon
        self._kernels: dict[int, tuple[Operation, dict[str, Any]] | None] = {}

    def estimate(self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> list[Rounding]:
        """Return the rounding error of each output of a layer.

        Args:
            layer: The layer.
            inputs: Its inputs.
            outputs: Its outputs.
        """
        is_float = [is_float_array(value) for value in outputs]
        if not any(is_float):
            return [EXACT] * len(outputs)
        exact = (
            None
            if registry.get_card(layer.type, layer.version).discontinuous
            else self.compute(layer, inputs, len(outputs))
        )
        results = []
        for i, value in enumerate(outputs):
            if not is_float[i]:
                results.append(EXACT)
                continue
            epsilon = max(get_epsilon(value.dtype), self._epsilon)
            wide = exact[i] if exact is not None and exact[i].shape == value.shape else None
            results.append(_estimate_output(value, wide, epsilon))
        return results

    def measure_sensitivity(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array]
    ) -> list[Array] | None:
        """Return how much each element of the outputs changes if the inputs change by rounding errors.

        Args:
            layer: The layer.
            inputs: Its inputs.
            outputs: Its outputs.

        Returns:
            Arrays of f64; None if the layer cannot be computed on its own.
        """
        exact = self.compute(layer, inputs, len(outputs))
        if exact is None:
            return None
        rng = np.random.default_rng(0)
        changes = [np.zeros(value.shape) for value in exact]
        for _ in range(SENSITIVITY_RUNS):
            rounded = [
                widen(v) * (1 + max(get_epsilon(v.dtype), self._epsilon) * rng.uniform(-1, 1, v.shape))
                if v is not None and is_float_array(v)
                else v
                for v in inputs
            ]
            with np.errstate(all="ignore"):
                results = self.compute(layer, rounded, len(outputs))
                if results is None or any(a.shape != b.shape for a, b in zip(results, exact, strict=True)):
                    return None
                for change, result, value in zip(changes, results, exact, strict=True):
                    np.fmax(change, np.abs(widen(result) - widen(value)), out=change)
        return changes

    def compute(self, layer: Layer, inputs: Sequence[Array | None], count: int) -> list[Array] | None:
        """Return the outputs of a layer in f64, or None if the layer cannot be computed on its own.

        Args:
            layer: The layer.
            inputs: Its inputs.
            count: The number of its outputs.
        """
        bound = self._bind(layer, count)
        if bound is None or not any(value is not None and is_float_array(value) for value in inputs):
            return None
        operation, attributes = bound
        arguments = [widen(v) if v is not None and is_float_array(v) else v for v in inputs]
        try:
            with np.errstate(all="ignore"):
                result = operation.kernel(*arguments, **attributes)
        except Exception:  # the estimate is optional, and kernels raise all kinds of exceptions
            return None
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        return [np.asarray(value) for value in values[:count]] if len(values) >= count else None

    def _bind(self, layer: Layer, count: int) -> tuple[Operation, dict[str, Any]] | None:
        if id(layer) not in self._kernels:
            self._kernels[id(layer)] = _bind(layer, count)
        return self._kernels[id(layer)]


def _bind(layer: Layer, count: int) -> tuple[Operation, dict[str, Any]] | None:
    operation = registry.find(layer.type, layer.version)
    if operation is None or operation.folding == "never":
        return None
    if any(kind is not OutputCount for kind in operation.provided.values()):
        return None
    try:
        attributes = operation.bind(replace(layer, attributes=widen_attributes(layer)).attributes)
    except IrrunError:
        return None
    return operation, {**attributes, **{name: OutputCount(count) for name in operation.provided}}


def get_basic_rounding(value: Array, epsilon: float) -> Rounding:
    """Return the rounding error of an output if the layer only rounded its result.

    Args:
        value: The output.
        epsilon: The smallest epsilon, as for `RoundingEstimator`.
    """
    if not is_float_array(value):
        return EXACT
    return _estimate_output(value, None, max(get_epsilon(value.dtype), epsilon))


def _estimate_output(value: Array, exact: Array | None, epsilon: float) -> Rounding:
    with np.errstate(all="ignore"):
        wide = widen(value)
        magnitudes = np.abs(wide)
        magnitude = _find_typical_magnitude(magnitudes)
        if exact is None or not value.size:
            return Rounding(0.0, magnitude, epsilon)
        errors = np.abs(wide - widen(exact))
        relative = errors / np.maximum(magnitudes, magnitude or np.finfo(np.float32).tiny)
        return Rounding(float(np.max(relative, where=np.isfinite(relative), initial=0.0)), magnitude, epsilon)


def _find_typical_magnitude(magnitudes: Array) -> float:
    """Return the lower quartile of the finite nonzero magnitudes."""
    flat = magnitudes.reshape(-1)
    sample = flat[:: max(1, flat.size // SAMPLE)]
    sample = sample[np.isfinite(sample) & (sample > 0)]
    return float(np.quantile(sample, 0.25)) if sample.size else 0.0


def is_float_array(value: Array) -> bool:
    """Return whether an array is of a floating-point type that NumPy or ml_dtypes can compute with.

    Args:
        value: The array.
    """
    return not value.dtype.fields and ElementType.of(value.dtype).is_float


def get_epsilon(dtype: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next larger number of a floating-point type; 0 for other types.

    Args:
        dtype: The type.
    """
    if dtype.fields or not ElementType.of(dtype).is_float:
        return 0.0
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):
        return 1.0
    finfo: Any = ml_dtypes.finfo
    return float(finfo(dtype).eps)
