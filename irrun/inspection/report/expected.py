"""Values of a reference next to values of the model: statistics, maps of both and of their difference, and points."""

from __future__ import annotations

import base64
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from irrun.inspection.metrics import widen
from irrun.inspection.references import Reference
from irrun.inspection.report.collection import Collector, format_scope
from irrun.inspection.report.pictures import make_compared_maps
from irrun.inspection.report.summaries import summarize
from irrun.ir.graph import Layer
from irrun.runtime.observer import Scope

__all__ = ["ExpectedValues", "make_points"]

Array = np.ndarray[Any, Any]

#: Maximum number of values with a shown reference, not counting values of preferred layers.
MAX_VALUES = 4000
#: Points of a scatter plot: evenly spaced elements, and elements with the largest differences.
EVEN_POINTS = 192
LARGEST_POINTS = 32


class ExpectedValues:
    """Observer that adds the values of a reference to the records of a collector, where they differ.

    Args:
        collector: The collector, after its run.
        reference: The reference.
        preferred: The layers whose full values are kept first: number and iterations.
    """

    def __init__(
        self, collector: Collector, reference: Reference, preferred: Container[tuple[int | None, str]]
    ) -> None:
        self.collector = collector
        self.reference = reference
        self.preferred = preferred
        self._remaining = MAX_VALUES

    def __call__(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> None:
        """Add the reference's outputs of a layer."""
        tag = format_scope(scope)
        structure, tensors = self.collector.structure, self.collector.tensors
        number = structure.numbers.get(id(layer), -1)
        record = self.collector.records.get(number, {}).get(tag)
        if record is None:
            return
        is_preferred = (number, tag) in self.preferred
        for port, (value, description) in enumerate(zip(outputs, record.get("outputs", ()), strict=False)):
            expected = self.reference.get_value(layer, port, scope)
            if expected is None or not description:
                continue
            if self._remaining <= 0 and not is_preferred:
                return
            self._remaining -= self._add(value, expected, description)
            if is_preferred:
                tensors.add(value, description, is_preferred=True)
            if "reference" in description and (is_preferred or "tensor" in description):
                tensors.add(expected, description["reference"], is_preferred=is_preferred)
        if is_preferred:
            self._keep_inputs(layer, inputs, tag)

    def _add(self, value: Array, expected: Array, description: dict[str, Any]) -> bool:
        """Add the reference to the description of a value, unless they are equal."""
        has_shape = expected.shape == value.shape
        if has_shape and expected.dtype == value.dtype and np.array_equal(expected, value):
            return False
        summary = description["reference"] = summarize(expected)
        if not has_shape or not value.size or {value.dtype.kind, expected.dtype.kind}.intersection("OUST"):
            return True
        points = make_points(value, expected)
        if points is not None:
            summary["points"] = points
        picture = make_compared_maps(value, expected)
        if picture is not None:
            summary["picture"] = self.collector.compared.add(picture)
        return True

    def _keep_inputs(self, layer: Layer, inputs: Sequence[Array | None], tag: str) -> None:
        """Keep the full inputs of a layer."""
        structure = self.collector.structure
        for value, source in zip(inputs, structure.get_sources(layer), strict=False):
            if value is None or source is None:
                continue
            records = self.collector.records.get(structure.numbers.get(id(source.layer), -1), {})
            outputs = (records.get(tag) or records.get("") or {}).get("outputs", [])
            if source.port < len(outputs) and outputs[source.port]:
                self.collector.tensors.add(value, outputs[source.port], is_preferred=True)


def make_points(value: Array, expected: Array) -> dict[str, Any] | None:
    """Return points of a scatter plot: pairs of bytes on one scale, the reference first.

    Args:
        value: The value of the model.
        expected: The value of the reference, of the same shape.

    Returns:
        The bounds of the scale and the points in base64; None if no element is finite, or all are equal.
    """
    flat, other = widen(value.reshape(-1)), widen(expected.reshape(-1))
    with np.errstate(all="ignore"):
        differences = np.abs(flat - other)
    differences[~np.isfinite(differences)] = -1
    count = min(LARGEST_POINTS, flat.size)
    largest = np.argpartition(differences, -count)[-count:]
    step = max(1, flat.size // EVEN_POINTS) | 1
    chosen = np.union1d(np.arange(0, flat.size, step)[: 2 * EVEN_POINTS], largest)
    pairs = np.stack([other[chosen], flat[chosen]], axis=1)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    if not pairs.size:
        return None
    low, high = float(pairs.min()), float(pairs.max())
    if not 0 < high - low < np.inf:
        return None
    codes = ((pairs - low) * (255 / (high - low)) + 0.5).astype(np.uint8)
    bounds = [float(f"{low:.5g}"), float(f"{high:.5g}")]
    return {"bounds": bounds, "data": base64.b64encode(codes.tobytes()).decode("ascii")}
