"""Elements that cannot affect an output: undefined steps of sequences, and scores that masks exclude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irrun.inspection.connections import Connections, ConnectionTable
from irrun.inspection.metrics import widen
from irrun.inspection.rounding import is_float_array
from irrun.ir.graph import Layer
from irrun.ops._support import registry

__all__ = ["IgnoredElements", "find_unspecified"]

Array = np.ndarray[Any, Any]

#: Softmax certainly gives 0 for an element that is smaller than the maximum of its row by this much.
MARGIN = 1000.0
#: Masks set scores to less than this.
MASK = -9000.0
#: Operations that add masks to scores, or set scores to masks.
SUMS = frozenset(("Add", "Subtract", "Select", "Maximum"))


class IgnoredElements:
    """Finds elements that cannot affect an output.

    Args:
        connections: The connections of the model.
    """

    def __init__(self, connections: ConnectionTable) -> None:
        self._connections = connections
        self._limits: dict[int, dict[int, float]] = {}

    def find_undefined(self, layer: Layer, inputs: Sequence[Array | None], value: Array) -> Array | None:
        """Return where the first output of a layer is undefined: in steps after the end of each sequence.

        Args:
            layer: The layer.
            inputs: Its inputs.
            value: The output.

        Returns:
            An array of bool that can be broadcast to the shape of the output, or None.
        """
        position = registry.get_card(layer.type, layer.version).lengths
        lengths = None if position is None else inputs[position]
        if lengths is None or value.ndim != 4 or lengths.shape != value.shape[:1]:
            return None
        is_undefined = np.arange(value.shape[2]) >= lengths[:, None]
        return is_undefined[:, None, :, None] if is_undefined.any() else None

    def find_masked(self, layer: Layer, value: Array, expected: Array) -> Array | None:
        """Return where Softmax, the only consumer of masked scores, gives 0 for both arrays.

        Args:
            layer: The layer that computes the value.
            value: The value.
            expected: The reference.

        Returns:
            An array of bool of the shape of the value, or None.
        """
        if layer.type not in SUMS or value.shape != expected.shape or not value.ndim or not value.size:
            return None
        connections = self._connections.get(layer)
        graph_id = id(connections.graph)
        if graph_id not in self._limits:
            self._limits[graph_id] = _find_scores(connections)
        limit = self._limits[graph_id].get(layer.id)
        if limit is None or not is_float_array(value) or not is_float_array(expected):
            return None
        is_masked = _find_excluded(value, limit) & _find_excluded(expected, limit)
        return is_masked if is_masked.any() else None


def find_unspecified(layer: Layer, inputs: Sequence[Array | None], value: Array) -> Array | None:
    """Return where a conversion to integers gets a number out of range or NaN, where runtimes differ.

    Args:
        layer: The layer.
        inputs: Its inputs.
        value: Its output.

    Returns:
        An array of bool of the shape of the output, or None.
    """
    x = inputs[0] if inputs else None
    if x is None or not registry.get_card(layer.type, layer.version).converts or value.dtype.kind not in "iu":
        return None
    if not is_float_array(x) or x.shape != value.shape:
        return None
    limits = np.iinfo(value.dtype)
    wide = widen(x)
    is_valid = (wide > float(limits.min) - 1) & (wide < float(limits.max) + 1)
    return None if is_valid.all() else ~is_valid


def _find_excluded(value: Array, limit: float) -> Array:
    """Return which elements are below a limit, and far smaller than the largest element of their row."""
    wide = widen(value)
    with np.errstate(invalid="ignore"):
        return np.asarray((wide < wide.max(axis=-1, keepdims=True) - MARGIN) & (wide < limit))


def _find_scores(connections: Connections) -> dict[int, float]:
    """Return the layers consumed only by Softmax over the last axis, directly or through sums.

    Returns:
        The limit below which a mask excludes elements, by the id of the layer. It is infinite for inputs of Softmax:
        other addends may change which element of a row is the largest.
    """
    consumers: dict[int, list[Layer]] = {}
    for (layer_id, _), (source_id, _) in connections.addresses.items():
        consumers.setdefault(source_id, []).append(connections.layers[layer_id])
    limits: dict[int, float] = {}
    waiting = [layer for layer in connections.graph.layers if _is_softmax_of_rows(layer)]
    while waiting:
        for producer in connections.find_producers(waiting.pop()):
            if producer.type not in SUMS or producer.id in limits:
                continue
            is_input = [_is_softmax_of_rows(user) for user in consumers[producer.id]]
            if all(is_input[i] or user.id in limits for i, user in enumerate(consumers[producer.id])):
                limits[producer.id] = np.inf if all(is_input) else MASK
                waiting.append(producer)
    return limits


def _is_softmax_of_rows(layer: Layer) -> bool:
    if layer.type.lower() != "softmax" or not layer.outputs:
        return False
    axis = str(layer.attributes.get("axis", "1"))
    shape = layer.outputs[0].shape
    return axis == "-1" or (shape is not None and axis == str(len(shape) - 1))
