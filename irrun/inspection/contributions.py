"""Contributions of the layers' own errors to the errors of the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.inspection.keys import KeyTable
from irrun.inspection.metrics import widen
from irrun.inspection.references import Reference
from irrun.inspection.rounding import is_float_array
from irrun.inspection.spool import Spool
from irrun.ir.graph import Layer
from irrun.runtime.observer import Observer, Scope

__all__ = ["Contributions", "cast"]

Array = np.ndarray[Any, Any]


class Contributions:
    """Removes the errors of all layers but one.

    Args:
        table: The keys of the model.
        reference: The reference.
        layers: The layers that add an error.
    """

    def __init__(self, table: KeyTable, reference: Reference, layers: Sequence[Layer]) -> None:
        self._table = table
        self._reference = reference
        self._layers = {id(layer) for layer in layers}
        self._errors = Spool()

    def measure(
        self, layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
    ) -> Sequence[Array]:
        """Observe a run with the reference's inputs for each layer, and keep the errors."""
        results = []
        for port, value in enumerate(outputs):
            expected = self._reference.get_value(layer, port, scope)
            is_usable = expected is not None and expected.shape == value.shape
            if id(layer) in self._layers and expected is not None and is_usable and _can_subtract(value, expected):
                with np.errstate(all="ignore"):
                    error = widen(value) - widen(expected)
                self._errors.put(self._table.get_value_key(layer, port, scope), error)
            results.append(cast(expected, value) if expected is not None and is_usable else value)
        return results

    def make_observer(self, remaining: Layer) -> Observer:
        """Return an observer that removes the errors of all layers but one.

        Args:
            remaining: The layer that keeps its error.
        """

        def correct(
            layer: Layer, inputs: Sequence[Array | None], outputs: Sequence[Array], seconds: float, scope: Scope
        ) -> Sequence[Array] | None:
            if id(layer) not in self._layers or layer is remaining:
                return None
            results = []
            for port, value in enumerate(outputs):
                error = self._errors.get(self._table.get_value_key(layer, port, scope))
                expected = self._reference.get_value(layer, port, scope)
                if error is not None and error.shape == value.shape:
                    with np.errstate(all="ignore"):
                        value = (widen(value) - error).astype(value.dtype)
                elif expected is not None and expected.shape == value.shape:
                    value = cast(expected, value)
                results.append(value)
            return results

        return correct


def _can_subtract(value: Array, expected: Array) -> bool:
    return is_float_array(value) and is_float_array(expected) and bool(np.isfinite(widen(expected)).all())


def cast(expected: Array, value: Array) -> Array:
    """Return a reference in the type of the value that it replaces.

    Args:
        expected: The reference.
        value: The value.
    """
    if expected.dtype == value.dtype:
        return expected
    if {value.dtype.kind, expected.dtype.kind}.intersection("OUST") or value.dtype.fields or expected.dtype.fields:
        return value
    with np.errstate(all="ignore"):
        return expected.astype(value.dtype)
