"""Inference of the shapes of intermediate values, for a model whose inputs have new shapes.

Shapes of most operations follow from rules. The kernels of the others run on zeros. A dynamic dimension is inferred by
sampling: the shapes of all values are inferred for several sizes of it, and dimensions that differ are dynamic. Where
neither is possible, the rank is dynamic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irrun.errors import InputError, IrrunError
from irrun.ir.graph import Body, Graph, Layer, Port, PortMapEntry
from irrun.ir.structure import is_placeholder, sort_layers
from irrun.ops._support import registry
from irrun.ops._support.context import OutputCount
from irrun.ops._support.operation import Operation
from irrun.runtime.shape_rules import (
    SHAPE_INPUTS,
    SHAPED_BY_INPUT,
    VALUE_DEPENDENT,
    Shapes,
    fails_for_shapes_only,
    find_rule,
)
from irrun.shapes import DynamicDimension, PartialShape

__all__ = ["infer_shapes", "infer_static_shapes"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

#: The sizes that are sampled for the first dimension, for later ones, and for those of images. The last sample reveals
#: dimensions that are limited, such as those of slices; layers that do not accept such a small size are left out of it.
BATCH_SIZES = (2, 3, 5, 1)
SIZES = (96, 128, 160, 1)
IMAGE_SIZES = (288, 416, 800, 1)
SAMPLES = len(SIZES)

#: Elements of values that are computed because they may determine shapes.
VALUE_LIMIT = 1 << 14


@dataclass
class _Value:
    """What is known about a value.

    Attributes:
        shape: The shape, or None.
        array: The value itself if it is small and depends on constants and shapes only.
        is_changed: Whether the shape, or values that may determine shapes, differ from those of the original model.
    """

    shape: Shape | None
    array: Array | None = None
    is_changed: bool = False


@dataclass
class _Sample:
    """One choice of sizes for everything that is dynamic.

    Attributes:
        number: The number of the sample.
        is_used: Whether a size was chosen, so that other samples may yield other shapes.
    """

    number: int
    is_used: bool = False
    values: dict[tuple[int, int], _Value] = field(default_factory=dict)

    def choose(self, shape: PartialShape | None) -> Shape | None:
        """Return a static shape within a partial one, or None for a dynamic rank."""
        if shape is None:
            return None
        return tuple(
            self._choose_size(d, i, len(shape)) if isinstance(d, DynamicDimension) else int(d)
            for i, d in enumerate(shape)
        )

    def choose_count(self) -> int:
        """Return a size for a dimension that depends on the values of tensors."""
        self.is_used = True
        return SIZES[self.number]

    def _choose_size(self, dimension: DynamicDimension, position: int, rank: int) -> int:
        self.is_used = True
        sizes = BATCH_SIZES if position == 0 and rank > 1 else IMAGE_SIZES if rank > 3 else SIZES
        low, high = dimension.minimum, dimension.maximum
        chosen = [max(low, size if high is None else min(size, high)) for size in sizes]
        if len(set(chosen[:-1])) == 1:
            chosen[0] = low + 1 if high is None else high
        return chosen[self.number]


def infer_shapes(graph: Graph, shapes: Mapping[int, PartialShape | None]) -> None:
    """Set the shapes of Parameters, and infer the shapes of all values that depend on them.

    Layers whose inputs have not changed keep their declarations. The declarations in bodies whose inputs have changed
    are discarded.

    Args:
        graph: The graph of a model.
        shapes: The new shapes of Parameters by the id of the layer.
    """
    declared = {(layer.id, port.id): port.shape for layer in graph.layers for port in layer.outputs}
    samples: list[dict[tuple[int, int], _Value]] = []
    for number in range(SAMPLES):
        sample = _Sample(number)
        samples.append(_GraphInference(graph, sample, shapes).infer())
        if not sample.is_used:
            break
    inferred: dict[tuple[int, int], PartialShape | None] = {}
    changed: set[int] = set()
    for layer in graph.layers:
        for port in layer.outputs:
            key = (layer.id, port.id)
            values = [values.get(key, _Value(None, None, True)) for values in samples]
            if layer.type == "Parameter" and layer.id in shapes:
                inferred[key] = shapes[layer.id]
            elif not any(value.is_changed for value in values):
                inferred[key] = declared[key]
            else:
                inferred[key] = _merge([value.shape for value in values])
            if any(value.is_changed for value in values):
                changed.add(layer.id)
    _store_shapes(graph, inferred, changed)


def infer_static_shapes(graph: Graph, failures: list[tuple[Layer, str]] | None = None) -> dict[tuple[int, int], Shape]:
    """Infer the shapes of output ports from the inputs of a graph alone.

    Args:
        graph: The graph.
        failures: A list to extend by the layers that fail for all inputs of these shapes, and the messages.

    Returns:
        The layer id and the port id -> shape, without shapes that are unknown. Empty if a dimension is dynamic.
    """
    sample = _Sample(0)
    arguments = {
        layer.id: _Value(sample.choose(layer.outputs[0].shape), None, True)
        for layer in graph.find_layers("Parameter")
        if layer.outputs
    }
    inference = _GraphInference(graph, sample, {}, arguments)
    values = {} if sample.is_used else inference.infer()
    if sample.is_used:
        return {}
    if failures is not None:
        failures.extend(inference.failures)
    return {key: value.shape for key, value in values.items() if value.shape is not None}


def _merge(shapes: Shapes) -> PartialShape | None:
    """Return the partial shape of a value that has these shapes in the samples."""
    known = [shape for shape in shapes if shape is not None]
    if None in shapes[: SAMPLES - 1] or len({len(shape) for shape in known}) != 1:
        return None
    return PartialShape(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*known, strict=True))


def _store_shapes(graph: Graph, shapes: Mapping[tuple[int, int], PartialShape | None], changed: set[int]) -> None:
    sources = {(e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges}
    for layer in graph.layers:
        for port in layer.outputs:
            if layer.type != "Constant":
                port.shape = shapes[layer.id, port.id]
        for port in layer.inputs:
            source = sources.get((layer.id, port.id))
            if source is not None and source in shapes:
                port.shape = shapes[source]
            if layer.bodies and source is not None and source[0] in changed:
                changed.add(layer.id)
        if layer.id in changed:
            for body in layer.bodies.values():
                _discard_shapes(body.graph)


def _discard_shapes(graph: Graph) -> None:
    for _, layer in graph.walk():
        if layer.type == "Constant":
            continue
        for port in (*layer.inputs, *layer.outputs):
            port.shape = None
        if layer.type == "Parameter":
            layer.attributes["shape"] = "..."


class _GraphInference:
    """Infers the shapes of one graph for one sample.

    Args:
        graph: The graph.
        sample: The sample.
        shapes: The new shapes of Parameters by the id of the layer.
        arguments: For a body, the values of Parameters by the id of the layer.
    """

    def __init__(
        self,
        graph: Graph,
        sample: _Sample,
        shapes: Mapping[int, PartialShape | None],
        arguments: Mapping[int, _Value] | None = None,
    ) -> None:
        self.graph = graph
        self.sample = sample
        self.shapes = shapes
        self.arguments = arguments or {}
        self.sources = {(e.to_layer, e.to_port): (e.from_layer, e.from_port) for e in graph.edges}
        self.values: dict[tuple[int, int], _Value] = {}
        #: Layers that fail for all values of their inputs, and the messages.
        self.failures: list[tuple[Layer, str]] = []

    def infer(self) -> dict[tuple[int, int], _Value]:
        """Return what is known about the value of each output port."""
        for layer in sort_layers(self.graph):
            for port, value in zip(layer.outputs, self.infer_layer(layer), strict=False):
                self.values[layer.id, port.id] = value
        return self.values

    def get_inputs(self, layer: Layer) -> list[_Value | None]:
        keys = [self.sources.get((layer.id, port.id)) for port in layer.inputs]
        unknown = _Value(None, None, True)
        inputs = [None if key is None else self.values.get(key, unknown) for key in keys]
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs

    def infer_layer(self, layer: Layer) -> list[_Value]:
        if layer.type == "Parameter":
            return [self.infer_parameter(layer)]
        if layer.type == "Constant":
            return [self.infer_constant(layer)]
        inputs = self.get_inputs(layer)
        if layer.type == "Result":
            return [value for value in inputs if value is not None]
        is_changed = any(value is not None and value.is_changed for value in inputs)
        arrays = self.compute(layer, inputs)
        if arrays is not None:
            return [_Value(array.shape, array, is_changed) for array in arrays]
        if not is_changed:
            return [_Value(self.sample.choose(port.shape)) for port in layer.outputs]
        shapes = self.infer_outputs(layer, inputs)
        # A value that was computed from a changed shape may have changed although its shape has not.
        has_changed_values = any(v is not None and v.is_changed and v.array is not None for v in inputs)
        return [
            _Value(shape, None, has_changed_values or shape is None or _differs(shape, port))
            for shape, port in zip(shapes, layer.outputs, strict=False)
        ]

    def infer_parameter(self, layer: Layer) -> _Value:
        if layer.id in self.arguments:
            return self.arguments[layer.id]
        if layer.id in self.shapes:
            shape = self.shapes[layer.id]
            return _Value(self.sample.choose(shape), None, shape != layer.outputs[0].shape)
        return _Value(self.sample.choose(layer.outputs[0].shape))

    def infer_constant(self, layer: Layer) -> _Value:
        constant = layer.constant
        if constant is None or is_placeholder(layer):
            return _Value(None)
        is_small = constant.data is not None and math.prod(constant.shape) <= VALUE_LIMIT
        return _Value(constant.shape, constant.to_array() if is_small else None)

    def compute(self, layer: Layer, inputs: Sequence[_Value | None]) -> list[Array] | None:
        """Return the outputs of a layer if they are small and depend on constants and shapes only, otherwise None."""
        if layer.type == "ShapeOf" and inputs and inputs[0] is not None:
            shape = inputs[0].shape
            element_type = layer.outputs[0].element_type
            dtype = np.dtype(np.int64) if element_type is None else element_type.dtype
            return None if shape is None else [np.array(shape, dtype)]
        operation = registry.find(layer.type, layer.version)
        if operation is None or operation.folding == "never" or layer.bodies or not inputs:
            return None
        if any(value is not None and value.array is None for value in inputs):
            return None
        sizes = [port.shape for port in layer.outputs if port.shape is not None and port.shape.is_static]
        if any(math.prod(shape.get_min_shape()) > VALUE_LIMIT for shape in sizes):
            return None
        return self.run(operation, layer, [None if value is None else value.array for value in inputs], True)

    def infer_outputs(self, layer: Layer, inputs: Sequence[_Value | None]) -> Shapes:
        """Return the shapes of the outputs of a layer whose inputs have changed."""
        operation = registry.find(layer.type, layer.version)
        if operation is None or any(value is not None and value.shape is None for value in inputs):
            return []
        if layer.bodies:
            return _BodyInference(self, layer, inputs).infer()
        if operation.type == "ReadValue":
            return [self.infer_variable(operation, layer, inputs)]
        shapes = [() if value is None or value.shape is None else value.shape for value in inputs]
        try:
            attributes = operation.bind(layer.attributes)
            if operation.type in VALUE_DEPENDENT:
                return VALUE_DEPENDENT[operation.type](shapes, self.sample.choose_count())
            if operation.type in SHAPED_BY_INPUT:
                target = inputs[SHAPED_BY_INPUT[operation.type]]
                return [] if target is None or target.array is None else [_check_shape(target.array)]
            rule = find_rule(operation)
            if rule is not None:
                return rule(shapes, attributes)
        except (IrrunError, ArithmeticError, LookupError, ValueError) as error:
            if isinstance(error, (IrrunError, ValueError)) and fails_for_shapes_only(operation):
                self.failures.append((layer, str(error)))
            return []
        required = SHAPE_INPUTS.get(operation.type, ())
        for position, value in enumerate(inputs):
            if position in required and value is not None and value.array is None:
                return []
        arrays = [_make_zeros(v, p) for v, p in zip(inputs, layer.inputs, strict=False)]
        outputs = self.run(operation, layer, arrays, fails_for_shapes_only(operation))
        return [] if outputs is None else [output.shape for output in outputs]

    def run(
        self, operation: Operation, layer: Layer, inputs: Sequence[Array | None], is_conclusive: bool
    ) -> list[Array] | None:
        """Return the outputs of the kernel of an operation; None if it fails or requires more than inputs.

        Args:
            operation: The operation.
            layer: The layer.
            inputs: The inputs.
            is_conclusive: Whether a failure means that the layer fails for all values of the inputs.
        """
        if any(kind is not OutputCount for kind in operation.provided.values()):
            return None
        try:
            attributes = operation.bind(layer.attributes)
            attributes.update({name: OutputCount(len(layer.outputs)) for name in operation.provided})
            with np.errstate(all="ignore"):
                result = operation.kernel(*inputs, **attributes)
        except InputError as error:
            if is_conclusive:
                self.failures.append((layer, str(error)))
            return None
        except Exception:  # whatever is wrong is reported when the model runs
            return None
        return [np.asarray(array) for array in (result if isinstance(result, (tuple, list)) else (result,))]

    def infer_variable(self, operation: Operation, layer: Layer, inputs: Sequence[_Value | None]) -> Shape | None:
        """Return the shape of a variable: that of its declaration if it is dynamic, or that of its initial value."""
        declared = operation.bind(layer.attributes).get("variable_shape")
        initial = inputs[0].shape if inputs and inputs[0] is not None else None
        if declared is not None and (initial is None or not declared.is_static):
            return self.sample.choose(declared)
        return initial


class _BodyInference:
    """Infers the outputs of TensorIterator, Loop and If from their bodies.

    Args:
        parent: The inference of the graph of the layer.
        layer: The layer.
        inputs: Its inputs.
    """

    def __init__(self, parent: _GraphInference, layer: Layer, inputs: Sequence[_Value | None]) -> None:
        self.parent = parent
        self.layer = layer
        self.inputs = {port.id: value for port, value in zip(layer.inputs, inputs, strict=False) if value is not None}
        self.counts: list[int] = []
        self.has_condition = False

    def infer(self) -> Shapes:
        """Return the shapes of the outputs."""
        if self.layer.type == "Loop" and not _is_true(self.inputs.get(self.layer.inputs[1].id)):
            return []  # if no iteration runs, the shapes differ
        results = [dict(self.infer_body(body)) for body in self.layer.bodies.values()]
        shapes = [[result.get(port.id) for result in results] for port in self.layer.outputs]
        return [candidates[0] if len(set(candidates)) == 1 else None for candidates in shapes]

    def infer_body(self, body: Body) -> Iterator[tuple[int, Shape | None]]:
        parameters = body.graph.find_layers("Parameter")
        arguments = {layer.id: _Value(_get_static_shape(layer), None, True) for layer in parameters}
        for entry in body.inputs:
            value = self.inputs.get(entry.external_port_id)
            if value is not None:
                arguments[entry.internal_layer_id] = self.slice(entry, value)
        graph = _GraphInference(body.graph, self.parent.sample, {}, arguments)
        values = graph.infer()
        results = {
            layer.id: values.get(graph.sources[layer.id, layer.inputs[0].id])
            for layer in body.graph.find_layers("Result")
        }
        self.has_condition = any(
            entry.purpose == "execution_condition" and not _is_true(results.get(entry.internal_layer_id))
            for entry in body.outputs
        )
        is_stable = all(
            _get_shape(results.get(edge.from_layer)) == arguments[edge.to_layer].shape for edge in body.back_edges
        )
        for entry in body.outputs:
            shape = _get_shape(results.get(entry.internal_layer_id)) if is_stable else None
            yield entry.external_port_id, self.concatenate(entry, shape)

    def slice(self, entry: PortMapEntry, value: _Value) -> _Value:
        """Return what is known about one slice of an input."""
        if entry.axis is None or value.shape is None:
            return value
        shape = list(value.shape)
        length = shape[entry.axis]
        start, end = (i + length if i < 0 else i for i in (entry.start, entry.end))
        first, last = min(start, end), min(max(start, end) + 1, length)
        self.counts.append(max(0, (last - first - entry.part_size) // abs(entry.stride) + 1))
        shape[entry.axis] = entry.part_size
        return _Value(tuple(shape), None, True)

    def concatenate(self, entry: PortMapEntry, shape: Shape | None) -> Shape | None:
        """Return the shape of an output of the layer for the shape of a Result of its body."""
        if shape is None or entry.axis is None:
            return shape
        count = self.get_iteration_count()
        shape = shape or (1,)
        axis = entry.axis % len(shape)
        return (*shape[:axis], count * shape[axis], *shape[axis + 1 :])

    def get_iteration_count(self) -> int:
        """Return the number of iterations, or a sampled one if values of tensors determine it."""
        if self.layer.type != "Loop":
            return self.counts[0] if self.counts else self.parent.sample.choose_count()
        trip_count = self.inputs.get(self.layer.inputs[0].id)
        if trip_count is None or trip_count.array is None or trip_count.array.size != 1 or self.has_condition:
            return self.parent.sample.choose_count()
        count = int(trip_count.array.reshape(-1)[0])
        return count if count >= 0 else self.parent.sample.choose_count()


def _get_shape(value: _Value | None) -> Shape | None:
    return None if value is None else value.shape


def _is_true(value: _Value | None) -> bool:
    return value is not None and value.array is not None and bool(value.array.all())


def _get_static_shape(layer: Layer) -> Shape | None:
    shape = layer.outputs[0].shape if layer.outputs else None
    return shape.get_min_shape() if shape is not None and shape.is_static else None


def _differs(shape: Shape, port: Port) -> bool:
    return port.shape is None or shape != port.shape


def _make_zeros(value: _Value | None, port: Port) -> Array | None:
    """Return the value if it is known, or zeros, which take no memory."""
    if value is None or value.shape is None:
        return None
    if value.array is not None:
        return value.array
    dtype = np.dtype(np.float32) if port.element_type is None else port.element_type.dtype
    return np.broadcast_to(np.zeros((), dtype), value.shape)


def _check_shape(target: Array) -> Shape:
    """Return the shape that an array contains. It raises ValueError if there is no array of this shape."""
    return np.broadcast_to(np.zeros((), bool), target.reshape(-1).tolist()).shape
