"""Bounds of values that are computed from shapes with dynamic dimensions, such as the targets of Reshape."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.ops._support.operation import Operation
from irrun.runtime.shape_rules.dimensions import get_bounds
from irrun.runtime.shape_rules.values import VALUE_LIMIT, Value
from irrun.shapes import PartialShape

__all__ = ["Bounds", "infer_bounds", "make_shape_bounds"]

Array = np.ndarray[Any, Any]
#: Lower and upper bounds of the elements of a value, f64.
Bounds = tuple[Array, Array]

#: The inputs of operations that move elements; the others have to be known. None stands for all inputs.
_MOVED: Mapping[str, tuple[int, ...] | None] = {
    "Broadcast": (0,),
    "Concat": None,
    "Gather": (0,),
    "Reshape": (0,),
    "Slice": (0,),
    "Split": (0,),
    "Squeeze": (0,),
    "StridedSlice": (0,),
    "Tile": (0,),
    "Transpose": (0,),
    "Unsqueeze": (0,),
    "VariadicSplit": (0,),
}

#: Reductions that grow with their input; ReduceProd does if no element is negative.
_REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})

#: Operations on single elements that grow with their input.
_MONOTONE: Mapping[str, Callable[[Array], Array]] = {
    "Ceiling": np.ceil,
    "Floor": np.floor,
    "Identity": np.positive,
    "Relu": lambda x: np.maximum(x, 0),
    "Sqrt": np.sqrt,
}

_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "FloorMod": np.mod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mod": np.fmod,
    "Multiply": np.multiply,
    "Power": np.power,
    "Subtract": np.subtract,
}

#: Comparisons, by what they give for values that are less, equal and greater.
_COMPARISONS: Mapping[str, tuple[bool, bool, bool]] = {
    "Equal": (False, True, False),
    "Greater": (False, False, True),
    "GreaterEqual": (False, True, True),
    "Less": (True, False, False),
    "LessEqual": (True, True, False),
    "NotEqual": (True, False, True),
}


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
    """Return the bounds of the outputs of an operation as far as they follow from those of the inputs.

    Args:
        operation: The operation.
        attributes: The attributes as `Operation.bind` returns them.
        inputs: What is known about the inputs; None for one that is not connected.
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
    kind = operation.type
    is_integer = element_type is not None and element_type.is_integer
    if kind in ("Convert", "ConvertLike"):
        low, high = known[0]
        return [(np.trunc(low), np.trunc(high)) if is_integer else (low, high)]
    if kind in _MOVED:
        return _move(operation, attributes, inputs, bounds)
    if kind in _MONOTONE:
        low, high = (_MONOTONE[kind](bound) for bound in known[0])
        return [(low, high)]
    if kind == "Abs":
        low, high = known[0]
        both = np.abs(low), np.abs(high)
        return [(np.where((low < 0) & (high > 0), 0, np.minimum(*both)), np.maximum(*both))]
    if kind == "Negative":
        low, high = known[0]
        return [(-high, -low)]
    if kind == "Clamp":
        low, high = (np.clip(bound, attributes["min"], attributes["max"]) for bound in known[0])
        return [(low, high)]
    if kind in _REDUCTIONS:
        axes = inputs[1].get_array() if inputs[1] is not None else None
        if axes is None or (kind == "ReduceProd" and (known[0][0] < 0).any()):
            return []
        low, high = (np.asarray(operation.kernel(bound, axes, **attributes)) for bound in known[0])
        return [(low, high)]
    if kind in _BINARY or kind == "Divide":
        return [_combine(_BINARY.get(kind) or _get_division(is_integer, attributes), known[0], known[1])]
    if kind in _COMPARISONS:
        return [_compare(_COMPARISONS[kind], known[0], known[1])]
    if kind == "Select":
        return [_select(known[0], known[1], known[2])]
    if kind in ("LogicalAnd", "LogicalOr", "LogicalNot"):
        return [_apply_logic(kind, known)]
    return []


def _get_division(is_integer: bool, attributes: Mapping[str, Any]) -> Callable[[Array, Array], Array]:
    if not is_integer:
        return np.divide
    if attributes.get("m_pythondiv", True):
        return lambda a, b: np.floor(np.divide(a, b))
    return lambda a, b: np.trunc(np.divide(a, b))


def _move(
    operation: Operation, attributes: Mapping[str, Any], inputs: Sequence[Value | None], bounds: Sequence[Bounds | None]
) -> list[Bounds | None]:
    """Return the bounds of moved elements: the kernel moves the bounds."""
    moved = _MOVED[operation.type]
    results = []
    for side in (0, 1):
        arguments: list[Array | None] = []
        for position, (value, bound) in enumerate(zip(inputs, bounds, strict=True)):
            if value is None or bound is None:
                arguments.append(None)
            elif moved is None or position in moved:
                arguments.append(bound[side])
            else:
                array = value.get_array()
                if array is None:
                    return []
                arguments.append(array)
        result = operation.kernel(*arguments, **attributes)
        results.append(result if isinstance(result, (tuple, list)) else (result,))
    return [(np.asarray(low), np.asarray(high)) for low, high in zip(*results, strict=True)]


def _combine(function: Callable[[Array, Array], Array], first: Bounds, second: Bounds) -> Bounds:
    """Return the bounds of a binary function, [0, inf) for elements that depend on unbounded ones."""
    variants = [function(a, b) for a, b in itertools.product(first, second)]
    low, high = np.minimum.reduce(variants), np.maximum.reduce(variants)
    open_first, open_second = (np.isinf(a) | np.isinf(b) for a, b in (first, second))
    unknown = open_first | open_second | np.isnan(low) | np.isnan(high)
    return np.where(unknown, 0.0, low), np.where(unknown, np.inf, high)


def _compare(results: tuple[bool, bool, bool], first: Bounds, second: Bounds) -> Bounds:
    """Return the bounds of a comparison: 0 and 0, 1 and 1, or 0 and 1 if it is undecided."""
    may_be_less = first[0] < second[1]
    may_be_greater = first[1] > second[0]
    may_be_equal = (first[0] <= second[1]) & (first[1] >= second[0])
    possible = [(may_be_less, results[0]), (may_be_equal, results[1]), (may_be_greater, results[2])]
    can_be_true = np.logical_or.reduce([cases for cases, result in possible if result])
    can_be_false = np.logical_or.reduce([cases for cases, result in possible if not result])
    return (~can_be_false).astype(np.float64), can_be_true.astype(np.float64)


def _select(condition: Bounds, then: Bounds, otherwise: Bounds) -> Bounds:
    is_true, is_false = condition[0] > 0, condition[1] == 0
    low = np.where(is_true, then[0], np.where(is_false, otherwise[0], np.minimum(then[0], otherwise[0])))
    high = np.where(is_true, then[1], np.where(is_false, otherwise[1], np.maximum(then[1], otherwise[1])))
    return low, high


def _apply_logic(kind: str, operands: Sequence[Bounds]) -> Bounds:
    if kind == "LogicalNot":
        return 1 - operands[0][1], 1 - operands[0][0]
    combine = np.minimum if kind == "LogicalAnd" else np.maximum
    (low, high), (other_low, other_high) = operands
    return combine(low, other_low), combine(high, other_high)
