"""The graph that legacy layers are converted to, and the registry of conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.ir.graph import Edge, Graph, Layer, Port
from irrun.ir.legacy.layer import F32, I64, Blob, LegacyLayer, Shape, Value
from irrun.ir.structure import Finding
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

__all__ = [
    "CONVERSIONS",
    "SPELLINGS",
    "Builder",
    "Conversion",
    "Result",
    "broadcast_shapes",
    "convert_unknown",
    "converts",
]

Result = Value | Sequence[Value]
Conversion = Callable[["Builder", LegacyLayer], Result]

#: The conversions by the type of the legacy layer, in lower case.
CONVERSIONS: dict[str, Conversion] = {}

#: The documented spelling of each type, by the type in lower case.
SPELLINGS: dict[str, str] = {}


def converts(*types: str) -> Callable[[Conversion], Conversion]:
    """Register the decorated function as the conversion of legacy layers of some types.

    The function returns the value of the layer's output, or one value per output port.

    Args:
        types: The types of the layers, as documented.
    """

    def register(function: Conversion) -> Conversion:
        for name in types:
            CONVERSIONS[name.lower()] = function
            SPELLINGS[name.lower()] = name
        return function

    return register


class Builder:
    """A graph under construction.

    The names of new layers begin with the name of the legacy layer. The reader later renames the
    layer that computes its output to exactly this name.

    Args:
        name: The name of the graph.
        weights: The weights of the model.
        findings: A list that receives errors in constants.

    Attributes:
        graph: The graph.
        scope: The name of the legacy layer that is being converted.
        line: The line of that layer in the file.
        f16_layers: The ids of the layers that convert an f16 constant to f32.
    """

    def __init__(self, name: str, weights: Weights, findings: list[Finding]) -> None:
        self.weights = weights
        self.findings = findings
        self.graph = Graph(name=name)
        self.scope = ""
        self.line = 0
        self.f16_layers: set[int] = set()
        self._names: set[str] = set()
        self._next_numbers: dict[str, int] = {}

    def make_name(self, suffix: str) -> str:
        """Return a unique name for a layer inside the current scope.

        Args:
            suffix: The purpose of the layer.
        """
        base = name = f"{self.scope}/{suffix}"
        number = self._next_numbers.get(base, 1)
        while name in self._names:
            name, number = f"{base}.{number}", number + 1
        self._names.add(name)
        self._next_numbers[base] = number
        return name

    def add_layer(
        self,
        layer_type: str,
        inputs: Sequence[Value | None],
        outputs: Iterable[tuple[ElementType | None, Sequence[int] | None]],
        attributes: Mapping[str, Any] | None = None,
        *,
        version: str = "opset1",
        name: str | None = None,
    ) -> Layer:
        """Add a layer with edges from its inputs. Ports are numbered as in IR v11.

        Args:
            layer_type: The type of the layer.
            inputs: One value per input port; None for an omitted one.
            outputs: Element type and shape per output port.
            attributes: Attributes, as Python values.
            version: The opset.
            name: The name; by default derived from the type.

        Returns:
            The new layer.
        """
        if name is None:
            name = self.make_name(layer_type.lower())
        layer = Layer(len(self.graph.layers), name, layer_type, version, dict(attributes or {}), line=self.line)
        for i, value in enumerate(inputs):
            if value is not None:
                layer.inputs.append(Port(i, value.element_type, value.port.shape))
                self.graph.edges.append(Edge(value.layer.id, value.port.id, layer.id, i))
        for i, (element_type, shape) in enumerate(outputs, len(inputs)):
            layer.outputs.append(Port(i, element_type, None if shape is None else PartialShape(shape)))
        self.graph.layers.append(layer)
        return layer

    def add_op(
        self,
        layer_type: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        shape: Sequence[int] | None = None,
        element_type: ElementType | None = None,
        version: str = "opset1",
        name: str | None = None,
    ) -> Value:
        """Add a layer with a single output.

        Args:
            layer_type: The type of the layer.
            inputs: One value per input port; None for an omitted one.
            attributes: Attributes, as Python values.
            shape: The shape of the output; None if it is unknown.
            element_type: The element type of the output; by default the type of the first input.
            version: The opset.
            name: The name; by default derived from the type.

        Returns:
            The output.
        """
        if element_type is None and inputs and inputs[0] is not None:
            element_type = inputs[0].element_type
        layer = self.add_layer(layer_type, inputs, [(element_type, shape)], attributes, version=version, name=name)
        (port,) = layer.outputs
        return Value(layer, port)

    def add_constant(self, value: Any, element_type: ElementType = I64, name: str = "constant") -> Value:
        """Add a Constant that is created in memory.

        Args:
            value: An array, a list or a number.
            element_type: The element type.
            name: The name of the layer inside the current scope.
        """
        import numpy as np

        with np.errstate(over="ignore"):  # numbers beyond f32 become infinite
            array = np.asarray(value, element_type.dtype if not element_type.is_packed else None)
        layer = self.add_layer("Constant", [], [(element_type, array.shape)], name=self.make_name(name))
        layer.constant = Constant.from_array(array, element_type)
        (port,) = layer.outputs
        return Value(layer, port)

    def add_blob(self, layer: LegacyLayer, name: str, shape: Sequence[int]) -> Value:
        """Add a blob of a layer as a Constant.

        Args:
            layer: The legacy layer.
            name: The name of the blob.
            shape: The shape of the constant.

        Returns:
            The value, converted to f32 if the blob is f16.

        Raises:
            ModelError: The layer does not have the blob, or its size does not match the shape.
        """
        blob = layer.blobs.get(name)
        if blob is None:
            raise layer.make_error(f"requires the blob {name}")
        required = blob.element_type.get_byte_size(math.prod(shape))
        if required != blob.size:
            raise layer.make_error(
                f"the blob {name} takes {blob.size} bytes, "
                f"{blob.element_type.precision} of shape {list(shape)} takes {required}"
            )
        return self.add_stored_constant(blob, shape, name)

    def add_stored_constant(self, blob: Blob, shape: Sequence[int], name: str) -> Value:
        """Add a segment of the weights as a Constant.

        Args:
            blob: The segment.
            shape: The shape of the constant.
            name: The name of the layer inside the current scope.

        Returns:
            The value, converted to f32 if the blob is f16.
        """
        layer = self.add_layer("Constant", [], [(blob.element_type, shape)], name=self.make_name(name))
        try:
            layer.constant = Constant.from_weights(
                self.weights, blob.element_type, tuple(shape), blob.offset, blob.size
            )
        except ModelError as error:
            self.findings.append(Finding(layer.line, layer.describe(), error.message))
        (port,) = layer.outputs
        value = Value(layer, port)
        if blob.element_type.name == "f16":
            value = self.convert(value, F32)
            self.f16_layers.add(value.layer.id)
        return value

    def fill(self, number: float, shape: Sequence[int], element_type: ElementType = F32) -> Value:
        """Add a tensor of equal elements; it takes no memory until it is computed."""
        value = self.add_constant(number, element_type, "fill")
        target = self.add_constant(list(shape), name="shape")
        return self.add_op("Broadcast", [value, target], {"mode": "numpy"}, shape=shape)

    def convert(self, value: Value, element_type: ElementType) -> Value:
        """Return a value in another element type, or the value itself if it is of that type."""
        if value.element_type == element_type:
            return value
        return self.add_unary("Convert", value, {"destination_type": element_type}, element_type=element_type)

    def to_float(self, value: Value) -> Value:
        """Return a value as floats, since images may be U8 and arithmetic on them requires floats."""
        return value if value.element_type is None or value.element_type.is_float else self.convert(value, F32)

    def to_int(self, value: Value, element_type: ElementType = I64) -> Value:
        """Return a value as integers, since legacy files may also store indices and sizes as FP32."""
        is_integer = value.element_type is not None and value.element_type.is_integer
        return value if is_integer else self.convert(value, element_type)

    def get_target_shape(self, layer: LegacyLayer, position: int) -> Value:
        """Return the input that holds the shape of the output.

        In an FP16 file, that input is f16 too and cannot represent every size. The declared shape replaces it.
        """
        value = layer.get_input(position)
        if value.layer.id in self.f16_layers:
            return self.add_constant(list(layer.get_output_shape()), name="shape")
        return self.to_int(value)

    def to_scalar(self, value: Value) -> Value:
        """Return a value of one element as a scalar; legacy IR has no scalars."""
        return value if value.shape == () else self.reshape(value, ())

    def unify_types(self, values: Sequence[Value]) -> list[Value]:
        """Convert values to the element type that can represent all of them."""
        types = {v.element_type for v in values}
        if len(types) == 1:
            return list(values)
        known = [t for t in types if t is not None]
        has_floats = any(t.is_float for t in known)
        element_type = F32 if has_floats else max(known, key=lambda t: t.bits, default=F32)
        return [self.convert(v, element_type) for v in values]

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value in another static shape, or the value itself if it has that shape."""
        shape = tuple(shape)
        if value.shape == shape:
            return value
        target = self.add_constant(list(shape), name="shape")
        return self.add_op("Reshape", [value, target], {"special_zero": False}, shape=shape)

    def add_binary(
        self, layer_type: str, left: Value, right: Value, *, element_type: ElementType | None = None
    ) -> Value:
        """Add a binary elementwise operation with NumPy broadcasting; integer division truncates towards zero."""
        shape = broadcast_shapes(left.shape, right.shape)
        attributes: dict[str, Any] = {"auto_broadcast": "numpy"}
        if layer_type == "Divide":
            attributes["m_pythondiv"] = False
        return self.add_op(layer_type, [left, right], attributes, shape=shape, element_type=element_type)

    def add_unary(
        self, layer_type: str, value: Value, attributes: Mapping[str, Any] | None = None, **keywords: Any
    ) -> Value:
        """Add an operation that keeps the shape of its only input."""
        return self.add_op(layer_type, [value], attributes, shape=value.shape, **keywords)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """Permute the dimensions of a value."""
        shape = value.shape
        permuted = None if shape is None else [shape[i] for i in order]
        return self.add_op("Transpose", [value, self.add_constant(list(order), name="order")], shape=permuted)

    def slice(self, value: Value, axes: Sequence[int], starts: Sequence[int], stops: Sequence[int]) -> Value:
        """Slice a value along some axes, with bounds that are not negative."""
        shape = value.shape
        if shape is not None:
            sizes = list(shape)
            for axis, start, stop in zip(axes, starts, stops, strict=True):
                sizes[axis] = min(stop, sizes[axis]) - start
            shape = tuple(sizes)
        bounds = [
            self.add_constant(list(starts), name="start"),
            self.add_constant(list(stops), name="stop"),
            self.add_constant([1] * len(axes), name="step"),
            self.add_constant(list(axes), name="axes"),
        ]
        return self.add_op("Slice", [value, *bounds], shape=shape, version="opset8")

    def split(self, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """Split a value into consecutive parts along an axis."""
        shape = value.shape
        shapes = [None if shape is None else (*shape[:axis], n, *shape[axis + 1 :]) for n in sizes]
        bounds = [self.add_constant(axis, name="axis"), self.add_constant(list(sizes), name="lengths")]
        layer = self.add_layer("VariadicSplit", [value, *bounds], [(value.element_type, s) for s in shapes])
        return [Value(layer, port) for port in layer.outputs]

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate values along an axis, in the element type that can represent all of them."""
        values = self.unify_types(values)
        shapes = [v.shape for v in values]
        shape = None
        first, *_ = shapes
        if first is not None and all(s is not None for s in shapes):
            total = sum(s[axis] for s in shapes if s is not None)
            shape = (*first[:axis], total, *first[axis + 1 :])
        return self.add_op("Concat", values, {"axis": axis}, shape=shape)


def convert_unknown(builder: Builder, layer: LegacyLayer) -> list[Value]:
    """Add a layer of an unsupported type unchanged, with its blobs described by attributes.

    Args:
        builder: The graph under construction.
        layer: The legacy layer.

    Returns:
        The values of its output ports.
    """
    attributes: dict[str, Any] = dict(layer.attributes)
    for name, blob in layer.blobs.items():
        attributes[f"{name}-precision"] = blob.element_type.precision
        attributes[f"{name}-offset"] = blob.offset
        attributes[f"{name}-size"] = blob.size
    outputs = [(d.element_type, d.shape) for d in layer.outputs]
    unchanged = builder.add_layer(layer.type, layer.inputs, outputs, attributes, version="legacy", name=layer.name)
    return [Value(unchanged, port) for port in unchanged.outputs]


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the shape of an elementwise operation, or None if it is unknown."""
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(s)) + s for s in known]
    return tuple(next((d for d in column if d != 1), 1) for column in zip(*padded, strict=True))
