"""Bounds of values that are computed from shapes with dynamic dimensions, such as the targets of Reshape."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.ops._support.card import Extremes
from irrun.ops._support.operation import Operation
from irrun.ops.shape_rules.dimensions import get_bounds
from irrun.ops.shape_rules.values import VALUE_LIMIT, Value
from irrun.shapes import PartialShape

__all__ = ["Bounds", "infer_bounds", "make_shape_bounds"]

Array = np.ndarray[Any, Any]
#: Lower and upper bounds of the elements of a value, f64.
Bounds = tuple[Array, Array]


def make_shape_bounds(shape: PartialShape) -> Bounds:
    """Return the bounds of the dimensions of a shape."""
    bounds = [get_bounds(size) for size in shape]
    low = np.array([float(a) for a, _ in bounds])
    return low, np.array([np.inf if b is None else float(b) for _, b in bounds])


def infer_bounds(
    operation: Operation,
    attributes: Mapping[str, Any],
    inputs: Sequence[Value | None],
    element_type: ElementType | None,
) -> list[Bounds | None]:
    """Return the bounds of the outputs of an operation as far as they follow from the bounds of the inputs.

    Args:
        operation: The operation.
        attributes: The attributes as `Operation.bind` returns them.
        inputs: The facts about the inputs; None for unconnected inputs.
        element_type: The type of the first output.
    """
    bounds = [None if value is None else value.get_bounds() for value in inputs]
    if any(b is None and value is not None for b, value in zip(bounds, inputs, strict=True)):
        return []
    known = [b for b in bounds if b is not None]
    if any(low.size > VALUE_LIMIT for low, _ in known):
        return []
    with np.errstate(all="ignore"):
        try:
            return _infer(operation, attributes, inputs, bounds, known, element_type)
        except (IrrunError, ValueError, IndexError, TypeError):
            return []


def _infer(
    operation: Operation,
    attributes: Mapping[str, Any],
    inputs: Sequence[Value | None],
    bounds: Sequence[Bounds | None],
    known: Sequence[Bounds],
    element_type: ElementType | None,
) -> list[Bounds | None]:
    is_integer = element_type is not None and element_type.is_integer
    if operation.kind in ("movement", "view"):
        moved = range(len(inputs)) if operation.concatenates else (0,)
        sides = [_call(operation, attributes, inputs, [b and b[side] for b in bounds], moved) for side in (0, 1)]
        return list(zip(*sides, strict=True))
    if operation.extremes is None:
        return []
    if operation.extremes == "kept":
        low, high = known[0]
        return [(np.trunc(low), np.trunc(high)) if is_integer else (low, high)]
    varying = [i for i, b in enumerate(bounds) if b is not None and i not in (operation.shaped_by or ())]
    variants = []
    for point in _list_points(operation.extremes, [known[i] for i in varying]):
        arguments = dict(zip(varying, point, strict=True))
        results = _call(operation, attributes, inputs, [arguments.get(i) for i in range(len(inputs))], varying)
        variants.append(results[0].astype(np.float64))
    low, high = np.minimum.reduce(variants), np.maximum.reduce(variants)
    if is_integer:
        low, high = _round(operation, attributes, low, high)
    operands = [known[i] for i in varying]
    unknown = np.isnan(low) | np.isnan(high) | _find_uncovered(operation.extremes, operands)
    if len(operands) == 2 and "boolean" not in operation.output_types:  # as in OpenVINO
        unknown = unknown | _is_unbounded(operands[0]) | _is_unbounded(operands[1])
    return [(np.where(unknown, 0.0, low), np.where(unknown, np.inf, high))]


def _round(operation: Operation, attributes: Mapping[str, Any], low: Array, high: Array) -> Bounds:
    """Return bounds of integers from bounds that the kernel computed in f64."""
    if any(attribute.name == "m_pythondiv" for attribute in operation.attributes):
        rounds_down = attributes.get("m_pythondiv", True)
        return (np.floor(low), np.floor(high)) if rounds_down else (np.trunc(low), np.trunc(high))
    return np.floor(low), np.ceil(high)


def _is_unbounded(bounds: Bounds) -> Array:
    return np.isinf(bounds[0]) | np.isinf(bounds[1])


def _call(
    operation: Operation,
    attributes: Mapping[str, Any],
    inputs: Sequence[Value | None],
    arguments: Sequence[Array | None],
    varying: Sequence[int],
) -> list[Array]:
    """Return the results of the kernel for arguments, and the values of the other inputs.

    Raises:
        ValueError: The value of another input is unknown.
    """
    values: list[Array | None] = list(arguments)
    for position, value in enumerate(inputs):
        if position not in varying and value is not None:
            values[position] = value.get_array()
            if values[position] is None:
                raise ValueError("unknown value")
    result = operation.kernel(*values, **attributes)
    return [np.asarray(array) for array in (result if isinstance(result, (tuple, list)) else (result,))]


def _list_points(extremes: Extremes, operands: Sequence[Bounds]) -> list[tuple[Array, ...]]:
    """Return points that include a minimum and a maximum of each element of the result."""
    candidates: list[tuple[Array, ...]] = [tuple(operand) for operand in operands]
    if extremes == "ends or zero":
        candidates = [(low, high, np.clip(0.0, low, high)) for low, high in candidates]
    points = list(itertools.product(*candidates))
    if extremes == "ends or equality":
        (low, high), (other_low, other_high) = operands
        points.append((np.clip(other_low, low, high), np.clip(low, other_low, other_high)))
    return points


def _find_uncovered(extremes: Extremes, operands: Sequence[Bounds]) -> Array:
    """Return where elements of the result may be outside of the values at the points."""
    nowhere = np.zeros((), np.bool_)
    if extremes not in ("points", "ends if nonnegative"):
        return nowhere
    varies, is_negative = nowhere, nowhere
    for low, high in operands:
        varies, is_negative = varies | (low != high), is_negative | (low < 0)
    uncovered = varies if extremes == "points" else varies & is_negative
    return np.asarray(uncovered if len(operands) > 1 else uncovered.any())
