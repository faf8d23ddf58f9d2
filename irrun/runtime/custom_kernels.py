"""Checks of custom operations: their attributes in a model, and the results of their kernels."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import ExecutionError, ModelError
from irrun.formatting import format_count
from irrun.ir.graph import Layer
from irrun.ops._support.context import OutputCount
from irrun.ops._support.operation import Operation

__all__ = ["GuardedKernel", "guard_kernel"]

Array = np.ndarray[Any, Any]


def guard_kernel(operation: Operation, layer: Layer) -> GuardedKernel:
    """Return the kernel of a custom operation with checks of its results.

    Args:
        operation: The operation.
        layer: The layer that requires it.

    Returns:
        A callable that raises an ExecutionError for wrong results.

    Raises:
        ModelError: An attribute of the layer is misspelled.
    """
    for name, meant in operation.find_misspelled(layer.attributes).items():
        raise ModelError(f"{operation} does not have the attribute {name}; did you mean {meant}?")
    return GuardedKernel(operation, layer, {})


class GuardedKernel:
    """The kernel of a custom operation with checks of its results.

    Args:
        operation: The operation.
        layer: The layer that requires it.
        types: Declared types -> the types that their values are computed in, if they differ.
    """

    def __init__(self, operation: Operation, layer: Layer, types: Mapping[ElementType, ElementType]) -> None:
        functools.update_wrapper(self, operation.kernel)
        self._operation = operation
        self._layer = layer
        self._types = types

    def with_types(self, types: Mapping[ElementType, ElementType]) -> GuardedKernel:
        """Return this kernel for a graph that is computed in other types than declared.

        Args:
            types: Declared types, each with the type that replaces it.
        """
        return GuardedKernel(self._operation, self._layer, types)

    def __call__(self, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        """Call the kernel with read-only inputs and check its results.

        Raises:
            ExecutionError: The kernel writes to an input, or a result is not as declared.
        """
        operation = self._operation
        try:
            result = operation.kernel(*map(_protect, inputs), **attributes)
        except ValueError as error:
            if "read-only" in str(error):
                raise ExecutionError(f"the kernel of {operation} writes to an input; copy the input first") from error
            raise
        count = next((attributes[n] for n, kind in operation.provided.items() if kind is OutputCount), None)
        results = _to_tuple(result, operation, self._layer, count)
        return tuple(_check_output(value, i, operation, self._layer, self._types) for i, value in enumerate(results))


def _protect(value: Array | None) -> Array | None:
    """Return a read-only view of an input."""
    if value is None:
        return None
    view: Array = value.view()
    view.flags.writeable = False
    return view


def _to_tuple(result: Any, operation: Operation, layer: Layer, count: int | None) -> tuple[Any, ...]:
    """Return the results as a tuple; `count` is the number of outputs that are used, or None for all."""
    if result is None:
        raise ExecutionError(f"the kernel of {operation} returned None, expected an array; is `return` missing?")
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    expected = max(len(layer.outputs), 1)
    if not (expected if count is None else count) <= len(results) <= expected:
        found = format_count(len(results), "output")
        raise ExecutionError(f"the kernel of {operation} returned {found}, the layer has {expected}")
    return results


def _check_output(
    value: Any, position: int, operation: Operation, layer: Layer, types: Mapping[ElementType, ElementType]
) -> Array:
    """Return a result as an array of the computed type, which may replace the declared type."""
    subject = f"output {position} of the kernel of {operation}"
    declared = layer.outputs[position].element_type if layer.outputs else None
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ExecutionError(f"{subject} is a {type(value).__name__}, expected an array")
    array = np.asarray(value)
    try:
        element_type = ElementType.of(array.dtype)
    except ValueError:
        raise ExecutionError(f"{subject} has the NumPy type {array.dtype}, which is not an element type") from None
    if declared is None:
        return array
    computed = types.get(declared, declared)
    if element_type not in (declared, computed):
        raise ExecutionError(f"{subject} has type {element_type}, the layer declares {declared}; convert it first")
    return array if element_type == computed else array.astype(computed.dtype)
