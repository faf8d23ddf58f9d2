"""Checks of custom operations: of their attributes in a model, and of what their kernels return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import ExecutionError, ModelError
from irrun.ir.graph import Layer
from irrun.ops._support.context import OutputCount
from irrun.ops._support.operation import Operation

__all__ = ["guard_kernel"]

Array = np.ndarray[Any, Any]


def guard_kernel(operation: Operation, layer: Layer) -> Callable[..., Any]:
    """Return the kernel of a custom operation with checks of its results.

    Args:
        operation: The operation.
        layer: The layer that requires it.

    Returns:
        A function that calls the kernel with read-only inputs and raises ExecutionError for wrong results.

    Raises:
        ModelError: An attribute of the layer is misspelled.
    """
    for name, meant in operation.find_misspelled(layer.attributes).items():
        raise ModelError(f"{operation} does not have the attribute {name}; did you mean {meant}?")
    kernel = operation.kernel

    @functools.wraps(kernel)
    def call(*inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        try:
            result = kernel(*map(_protect, inputs), **attributes)
        except ValueError as error:
            if "read-only" in str(error):
                raise ExecutionError(f"the kernel of {operation} writes to an input; copy the input first") from error
            raise
        count = next((attributes[n] for n, kind in operation.provided.items() if kind is OutputCount), None)
        return _check_results(result, operation, layer, count)

    return call


def _protect(value: Array | None) -> Array | None:
    """Return a read-only view of an input."""
    if value is None:
        return None
    view: Array = value.view()
    view.flags.writeable = False
    return view


def _check_results(result: Any, operation: Operation, layer: Layer, count: int | None) -> tuple[Array, ...]:
    """Return the results as a tuple; `count` is the number of outputs that are used, or None for all."""
    if result is None:
        raise ExecutionError(f"the kernel of {operation} returned None, expected an array; is a return missing?")
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    expected = max(len(layer.outputs), 1)
    if not (expected if count is None else count) <= len(results) <= expected:
        found = f"{len(results)} output{'s' * (len(results) != 1)}"
        raise ExecutionError(f"the kernel of {operation} returned {found}, the layer has {expected}")
    return tuple(_check_output(value, i, operation, layer) for i, value in enumerate(results))


def _check_output(value: Any, position: int, operation: Operation, layer: Layer) -> Array:
    subject = f"output {position} of the kernel of {operation}"
    declared = layer.outputs[position].element_type if layer.outputs else None
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ExecutionError(f"{subject} is a {type(value).__name__}, expected an array")
    array = np.asarray(value)
    try:
        element_type = ElementType.of(array.dtype)
    except ValueError:
        raise ExecutionError(f"{subject} has the NumPy type {array.dtype}, which is not an element type") from None
    if declared is not None and element_type != declared:
        raise ExecutionError(f"{subject} has type {element_type}, the layer declares {declared}; convert it first")
    return array
