"""Normalization of quantized values: int8 kernels add epsilon to the variance of codes instead of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irrun.inspection.connections import ConnectionTable
from irrun.inspection.metrics import Metrics, measure
from irrun.inspection.rounding import RoundingEstimator
from irrun.inspection.saturation import EXPLAINED_DB, find_quantizer
from irrun.ir.graph import Layer

__all__ = ["NormalizationCheck"]

Array = np.ndarray[Any, Any]

#: The attribute added to the variance, by layer type.
EPSILONS = {"MVN": "eps", "GroupNormalization": "epsilon"}


class NormalizationCheck:
    """Computes normalization without epsilon, which is negligible compared with the variance of codes.

    OpenVINO's low-precision transformations move the scale of a quantized value behind the normalization, whose
    result does not depend on the scale except for epsilon.

    Args:
        connections: The connections of the model.
        estimator: Computes layers in f64.
    """

    def __init__(self, connections: ConnectionTable, estimator: RoundingEstimator) -> None:
        self._connections = connections
        self._estimator = estimator

    def describe(self, layer: Layer, inputs: Sequence[Array | None], expected: Array, own: Metrics) -> str:
        """Return the explanation of an error if epsilon explains it, or "".

        Args:
            layer: The layer.
            inputs: Its inputs.
            expected: The reference.
            own: The error.
        """
        name = EPSILONS.get(layer.type, "")
        if not name or find_quantizer(self._connections.get(layer), layer) is None:
            return ""
        changed = replace(layer, attributes={**layer.attributes, name: "1e-30"})
        values = self._estimator.compute(changed, inputs, 1)
        if values is None or values[0].shape != expected.shape:
            return ""
        without = measure(values[0].astype(expected.dtype), expected)
        if without.sqnr_db < own.sqnr_db + EXPLAINED_DB:
            return ""
        return (
            f"the int8 kernel of the reference adds {name} to the variance of quantized codes, where it is negligible "
            f"({without.sqnr_db:.1f} dB without {name}, {own.sqnr_db:.1f} dB with it)"
        )
