"""Verdicts: the meaning of a layer's errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.inspection.metrics import Metrics, widen
from irrun.inspection.rounding import EXACT, Rounding, get_epsilon, is_float_array
from irrun.ir.graph import Layer
from irrun.ops._support import registry
from irrun.runtime.observer import Scope

__all__ = [
    "VERDICTS",
    "LayerErrors",
    "choose_verdict",
    "exceeds_level",
    "get_ordinary_sqnr",
    "get_output_sqnr",
    "is_near_zero",
    "is_one_level",
]

Array = np.ndarray[Any, Any]

#: All verdicts, with their meanings.
VERDICTS = {
    "adds": "The layer itself computes different values than the reference.",
    "inherits": "The layer agrees, but its inputs have an error.",
    "amplifies": "The layer agrees, but the error of its inputs grows at least tenfold in it.",
    "ill-conditioned": "The layer is inaccurate in this precision; rounding errors of its inputs explain it.",
    "one level": "A few elements lie on the edge of two levels of a FakeQuantize, or of two integers in a conversion.",
    "near zero": "The error is smaller than the rounding errors of the inputs.",
    "perturbed": "Reading the value changed the results of the reference.",
    "exact": "The layer agrees up to the rounding of its own arithmetic.",
}

#: An error that grows by this factor is amplified.
AMPLIFICATION = 10.0
#: A layer is ill-conditioned if its error is this multiple of the rounding error.
ILL_CONDITIONED = 1000.0
#: Minimum SQNR in dB for outputs of the model to agree.
OUTPUT_SQNR = 60.0
#: The limit for references of low precision, as a multiple of their epsilon.
OUTPUT_FACTOR = 8.0
#: Maximum fraction of elements on the edge of two levels.
EDGE_FRACTION = 0.01
#: A number this many roundings from an integer is on the edge of two integers.
EDGE_ROUNDING = 64.0


@dataclass
class LayerErrors:
    """The errors of one layer in one iteration.

    Attributes:
        layer: The layer.
        scope: The layers whose bodies contain it, each with its iteration.
        key: The key of the layer.
        matched_by: How the layer was matched.
        factor: The tolerance as a multiple of its rounding error.
        rounding: The rounding error of each output.
        own: The own error of each output in the reference.
        accumulated: The accumulated error of each output in the reference.
        has_own_excess: Whether an own error is too large to come from rounding the result.
        has_wrong_kernel: Whether the reference agrees with the layer in f64, but the layer differs from it by more than
            rounding explains.
        explanation: The explanation of the own error if both models are equal, or "".
        is_near_zero: Whether all own errors are smaller than the rounding errors of the inputs.
        is_one_level: Whether all own errors occur on the edge of two levels of a FakeQuantize, or where numbers are
            converted to integers.
        exceeds_level: Whether a quantizer has an error of more than one level that rounding does not explain.
        has_type_change: Whether the element type differs by more than the width of a floating-point type.
        input_error: The largest relative accumulated error of its inputs.
    """

    layer: Layer
    scope: Scope
    key: str
    matched_by: str
    factor: float
    rounding: list[Rounding] = field(default_factory=list)
    own: list[Metrics] = field(default_factory=list)
    accumulated: list[Metrics] = field(default_factory=list)
    has_own_excess: bool = False
    has_wrong_kernel: bool = False
    explanation: str = ""
    is_near_zero: bool = True
    is_one_level: bool = True
    exceeds_level: bool = False
    has_type_change: bool = False
    input_error: float = 0.0

    def get_worst_own(self) -> Metrics:
        """Return the largest own error of the outputs."""
        return _find_worst(self.own)

    def get_worst_accumulated(self) -> Metrics:
        """Return the largest accumulated error of the outputs."""
        return _find_worst(self.accumulated)

    def get_relative_error(self) -> float:
        """Return the accumulated error relative to the reference, which is infinite if they differ in NaNs."""
        sqnr = self.get_worst_accumulated().sqnr_db
        return math.inf if sqnr == -math.inf else 10 ** (-sqnr / 20)


def _find_worst(metrics: Sequence[Metrics]) -> Metrics:
    return min(metrics, key=lambda m: (m.same_shape, m.sqnr_db, -m.differing), default=Metrics())


def choose_verdict(errors: LayerErrors, is_perturbed: bool, is_f64: bool, is_changed: bool) -> str:
    """Return the verdict for a layer.

    Args:
        errors: Its errors.
        is_perturbed: Whether reading its value changed the results of the reference.
        is_f64: Whether the reference is the same model in f64, so that only rounding differs.
        is_changed: Whether an attribute or a constant of the layer differs from the reference.
    """
    own_is_exact = all(m.is_exact for m in errors.own)
    if own_is_exact and not errors.has_type_change and all(m.is_exact for m in errors.accumulated):
        return "exact"
    is_over = any(m.over_tolerance > 0 or not m.same_shape for m in errors.own)
    if is_changed and (not own_is_exact or errors.has_type_change):
        return "adds"
    if is_over and errors.is_near_zero and not is_f64:
        return "near zero"
    if errors.explanation:
        return "adds"
    if is_perturbed and (is_over or errors.has_type_change):
        return "perturbed"
    if is_over and errors.is_one_level:
        return "one level"
    if is_over:
        is_explained = not errors.exceeds_level and not _differs_in_finiteness(errors.own)
        return "ill-conditioned" if is_f64 and is_explained else "adds"
    if errors.has_wrong_kernel:
        return "perturbed" if is_perturbed else "adds"
    if errors.has_own_excess:
        return "ill-conditioned"
    return _choose_accumulated_verdict(errors)


def _choose_accumulated_verdict(errors: LayerErrors) -> str:
    if not any(m.over_tolerance > 0 or not m.same_shape for m in errors.accumulated):
        return "exact"
    grown = errors.get_relative_error()
    if 0 < errors.input_error < math.inf and grown > AMPLIFICATION * errors.input_error:
        return "amplifies"
    return "inherits"


def get_ordinary_sqnr(roundings: Sequence[Rounding]) -> float:
    """Return the SQNR in dB of a well-conditioned layer with rounding errors.

    Args:
        roundings: The rounding errors of its outputs.
    """
    epsilon = max((r.epsilon for r in roundings), default=0.0)
    return -20 * math.log10(ILL_CONDITIONED * epsilon) if epsilon else -math.inf


def get_output_sqnr(epsilon: float) -> float:
    """Return the smallest SQNR in dB at which the outputs of two models agree.

    Args:
        epsilon: The epsilon of the precision of the reference if it is lower than f32, else 0.
    """
    return min(OUTPUT_SQNR, -20 * math.log10(OUTPUT_FACTOR * epsilon)) if epsilon else OUTPUT_SQNR


def _differs_in_finiteness(metrics: Sequence[Metrics]) -> bool:
    return any(m.sqnr_db == -math.inf and m.max_abs == math.inf for m in metrics)


def is_near_zero(
    value: Array, expected: Array, rounding: Rounding, factor: float, inputs: Sequence[Array | None]
) -> bool:
    """Return whether all errors of an output are smaller than the rounding errors of the inputs.

    Args:
        value: The output.
        expected: The reference.
        rounding: Its rounding error.
        factor: The tolerance as a multiple of the rounding error.
        inputs: The inputs of the layer.
    """
    if value.shape != expected.shape or rounding is EXACT or not value.size or not is_float_array(expected):
        return False
    scales = [
        float(np.max(magnitudes, where=np.isfinite(magnitudes), initial=0.0))
        for x in inputs
        if x is not None and is_float_array(x)
        for magnitudes in [np.abs(widen(x))]
    ]
    scale = max(scales, default=0.0)
    if not scale:
        return False
    with np.errstate(all="ignore"):
        a, b = widen(value), widen(expected)
        excess = np.abs(a - b) > rounding.get_limits(expected, factor)
        is_small = (np.abs(a - b) <= factor * rounding.epsilon * scale / 4) & (np.abs(b) <= 0.1 * scale)
    return bool(np.all(is_small | ~excess) and np.array_equal(np.isfinite(a), np.isfinite(b)))


def is_one_level(layer: Layer, inputs: Sequence[Array | None], value: Array, expected: Array) -> bool:
    """Return whether two outputs of a quantizer differ by one level, in a few elements only.

    Numbers converted to integers may also differ, in elements on the edge of two integers.

    Args:
        layer: The layer.
        inputs: Its inputs.
        value: Its output.
        expected: The reference.
    """
    counted = _count_levels(layer, inputs, value, expected)
    if counted is None:
        return _is_on_edge(layer, inputs, value, expected)
    is_within, count = counted
    return is_within and count <= max(EDGE_FRACTION * value.size, 1)


def exceeds_level(layer: Layer, inputs: Sequence[Array | None], value: Array, expected: Array) -> bool:
    """Return whether two outputs of a quantizer differ by more than one level.

    Args:
        layer: The layer.
        inputs: Its inputs.
        value: Its output.
        expected: The reference.
    """
    counted = _count_levels(layer, inputs, value, expected)
    return counted is not None and not counted[0]


def _is_on_edge(layer: Layer, inputs: Sequence[Array | None], value: Array, expected: Array) -> bool:
    """Return whether numbers converted to integers differ by 1, where they are within rounding of an integer."""
    x = inputs[0] if inputs else None
    if x is None or not registry.get_card(layer.type, layer.version).converts or not is_float_array(x):
        return False
    if value.dtype.kind not in "iu" or expected.dtype.kind not in "iu" or not x.shape == value.shape == expected.shape:
        return False
    wide = widen(x[value != expected])
    differences = np.abs(widen(value) - widen(expected))
    distance = np.abs(wide - np.round(wide))
    limit = EDGE_ROUNDING * get_epsilon(x.dtype) * np.abs(wide)
    return bool(differences.max(initial=0.0) <= 1) and bool(np.all(distance <= limit))


def _count_levels(
    layer: Layer, inputs: Sequence[Array | None], value: Array, expected: Array
) -> tuple[bool, int] | None:
    """Return whether outputs of a quantizer differ by at most one level, and in how many elements; else None."""
    if value.shape != expected.shape or len(inputs) < 5:
        return None
    if not registry.get_card(layer.type, layer.version).quantizes:
        return None
    low, high = inputs[3], inputs[4]
    try:
        levels = int(layer.attributes["levels"])
    except (KeyError, ValueError):
        return None
    if low is None or high is None or levels < 2:
        return None
    with np.errstate(all="ignore"):
        step = np.abs(widen(high) - widen(low)) / (levels - 1)
        difference = np.abs(widen(value) - widen(expected))
        # Levels are rounded to the type of the output.
        rounding = 1e-3 * step + 4 * get_epsilon(value.dtype) * np.abs(widen(expected))
        count = int(np.count_nonzero(difference > rounding))
        return bool(np.all(difference <= step + rounding)), count
