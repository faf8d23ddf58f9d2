"""Inference of the facts about the outputs of one layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irrun.errors import InputError, ModelError
from irrun.ir.graph import Layer
from irrun.ops._support import registry
from irrun.ops._support.context import OutputCount
from irrun.ops._support.operation import Operation
from irrun.ops.shape_rules import VALUE_LIMIT, Inputs, ShapeError, Shapes, UnknownShapeError, Value, find_rule
from irrun.ops.shape_rules.bounds import infer_bounds, make_shape_bounds
from irrun.shapes import MAX_RANK, UNBOUNDED, DynamicDimension, PartialShape

__all__ = ["infer_layer"]

Array = np.ndarray[Any, Any]

#: Sizes of dynamic dimensions and values of elements in trial runs of custom kernels.
_PROBES = ((2, 0), (5, 1), (3, None), (1, 0))

#: Maximum number of input elements in trial runs of custom kernels.
_PROBE_LIMIT = 1 << 24


def infer_layer(layer: Layer, inputs: Sequence[Value | None]) -> list[Value]:
    """Infer the facts about the outputs of a layer without bodies.

    Args:
        layer: The layer. Declared shapes have no influence.
        inputs: The facts about its inputs; None for unconnected inputs.

    Returns:
        The facts about each output.

    Raises:
        ShapeError: The inputs do not fit.
    """
    count = len(layer.outputs)
    operation = registry.find(layer.type, layer.version)
    if operation is None:
        return [Value(None) for _ in range(count)]
    try:
        attributes = operation.bind(layer.attributes)
        operation.check_inputs([value is not None for value in inputs])
    except ModelError:  # which validation reports
        return [Value(None) for _ in range(count)]
    rule = find_rule(operation)
    shapes: Shapes
    if rule is None:
        shapes = _probe(operation, attributes, layer, inputs)
    else:
        defaults = {a.name: a.default for a in operation.attributes if not a.required}
        try:
            shapes = rule(Inputs(operation, {**defaults, **attributes}, inputs, count))
        except UnknownShapeError:
            shapes = []
        except InputError as error:
            raise ShapeError(error.message) from None
    shapes = [*shapes, *[None] * count][:count]
    for shape in shapes:
        if shape is not None and len(shape) > MAX_RANK:
            raise ShapeError(f"the result has {len(shape)} dimensions, expected at most {MAX_RANK}")
    return _add_values(operation, attributes, layer, inputs, [Value(shape) for shape in shapes])


def _add_values(
    operation: Operation,
    attributes: Mapping[str, Any],
    layer: Layer,
    inputs: Sequence[Value | None],
    results: list[Value],
) -> list[Value]:
    """Return results with values, or bounds of values, where they depend only on constants and shapes."""
    element_type = layer.outputs[0].element_type if layer.outputs else None
    if operation.gives_shape:
        shape = None if inputs[0] is None else inputs[0].shape
        if shape is not None:
            results = [_make_shape_value(shape, element_type and element_type.dtype)]
        return results
    if operation.folding == "never" or operation.provided or not inputs or not results:
        return results
    sizes = [math.prod(r.shape.get_max_shape()) for r in results if r.shape is not None and r.shape.is_static]
    if any(size > VALUE_LIMIT for size in sizes):
        return results
    arrays = [None if value is None else value.get_array() for value in inputs]
    if all(value is None or array is not None for value, array in zip(inputs, arrays, strict=True)):
        computed = _run(operation, attributes, arrays, len(results))
        return results if computed is None else [Value.of_array(array) for array in computed]
    for result, bounds in zip(results, infer_bounds(operation, attributes, inputs, element_type), strict=False):
        if bounds is not None and bounds[0].size <= VALUE_LIMIT:
            low, high = bounds
            if result.shape is None or not result.shape.is_compatible(low.shape):
                continue
            if element_type is not None and np.array_equal(low, high) and np.isfinite(low).all():
                result.array = low.astype(element_type.dtype)
            else:
                result.bounds = bounds
    return results


def _make_shape_value(shape: PartialShape, dtype: Any) -> Value:
    own_shape = PartialShape([len(shape)])
    if shape.is_static:
        return Value(own_shape, np.array(shape.get_min_shape(), dtype or np.int64))
    return Value(own_shape, None, make_shape_bounds(shape))


def _run(
    operation: Operation, attributes: Mapping[str, Any], arguments: Sequence[Array | None], count: int
) -> list[Array] | None:
    """Return the results of a kernel; None if it fails.

    Raises:
        ShapeError: The kernel does not accept its inputs.
    """
    values = list(arguments)
    while values and values[-1] is None:
        values.pop()
    provided = {name: OutputCount(count) for name in operation.provided}
    try:
        with np.errstate(all="ignore"):
            result = operation.kernel(*values, **attributes, **provided)
    except InputError as error:
        raise ShapeError(error.message) from None
    except Exception:  # any problem is reported when the model runs
        return None
    return [np.asarray(array) for array in (result if isinstance(result, (tuple, list)) else (result,))]


def _probe(
    operation: Operation, attributes: Mapping[str, Any], layer: Layer, inputs: Sequence[Value | None]
) -> list[PartialShape | None]:
    """Run the kernel of an operation without a shape rule on arrays of several sizes and values, and return the shapes.

    Dimensions that differ between runs are dynamic. If the kernel fails, shapes are unknown.
    """
    if any(kind is not OutputCount for kind in operation.provided.values()):
        return []
    results: list[list[tuple[int, ...]]] = []
    for size, fill in _PROBES:
        arguments: list[Array | None] = []
        for value, port in zip(inputs, layer.inputs, strict=False):
            if value is None:
                arguments.append(None)
                continue
            array = value.get_array()
            if array is None:
                shape = _choose_shape(value.shape, size)
                if shape is None:
                    return []
                dtype = np.dtype(np.float32) if port.element_type is None else port.element_type.dtype
                array = _fill(shape, dtype, fill)
            arguments.append(array)
        if sum(argument.size for argument in arguments if argument is not None) > _PROBE_LIMIT:
            return []
        try:
            computed = _run(operation, attributes, arguments, len(layer.outputs))
        except ShapeError:
            computed = None
        if computed is None:
            return []
        results.append([array.shape for array in computed])
    return [_join(shapes) for shapes in zip(*results, strict=False)]


def _choose_shape(shape: PartialShape | None, size: int) -> tuple[int, ...] | None:
    if shape is None:
        return None
    return tuple(
        int(n)
        if not isinstance(n, DynamicDimension)
        else max(n.minimum, size if n.maximum is None else min(n.maximum, size))
        for n in shape
    )


def _fill(shape: tuple[int, ...], dtype: np.dtype[Any], fill: int | None) -> Array:
    """Return an array of zeros, of ones, or of both for None; the first two take no memory."""
    if dtype.kind not in "biufV" or dtype.fields or fill is not None:
        element = np.zeros((), dtype)
        if fill and dtype.kind in "biuf":
            element = np.ones((), dtype)
        return np.broadcast_to(element, shape)
    return (np.arange(math.prod(shape)) % 2).astype(dtype).reshape(shape)


def _join(shapes: Sequence[tuple[int, ...]]) -> PartialShape | None:
    if len({len(shape) for shape in shapes}) != 1:
        return None
    return PartialShape(sizes[0] if len(set(sizes)) == 1 else UNBOUNDED for sizes in zip(*shapes, strict=True))
