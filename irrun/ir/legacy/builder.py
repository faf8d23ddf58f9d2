"""What conversions of old layers are written with: values, the graph under construction, the table of conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.ir.legacy.layer import F32, I64, Blob, LegacyLayer, Shape, Value
from irrun.ir.model import Edge, Graph, Layer, Port
from irrun.ir.structure import Finding
from irrun.ir.weights import Weights
from irrun.shapes import PartialShape

__all__ = ["CONVERSIONS", "SPELLINGS", "Builder", "Conversion", "converts", "unknown"]

Result = Value | Sequence[Value]
Conversion = Callable[["Builder", LegacyLayer], Result]

#: Type of an old layer, in lower case -> what turns it into operations of today.
CONVERSIONS: dict[str, Conversion] = {}

#: The same -> the type as documents of those years spell it.
SPELLINGS: dict[str, str] = {}


def converts(*types: str) -> Callable[[Conversion], Conversion]:
    """Register the decorated function as the conversion of old layers of these types.

    It returns the value of the layer's output, or one value per output port.
    """

    def register(function: Conversion) -> Conversion:
        for name in types:
            CONVERSIONS[name.lower()] = function
            SPELLINGS[name.lower()] = name
        return function

    return register


class Builder:
    """A graph under construction.

    Attributes:
        halves: ids of the layers that give what the .bin holds in f16.

    Layers are named after the old layer that is being converted; the reader gives its exact name to the one that
    stands for its output.
    """

    def __init__(self, name: str, weights: Weights, findings: list[Finding]) -> None:
        self.weights = weights
        self.findings = findings
        self.graph = Graph(name=name)
        self.scope = ""
        self.line = 0
        self.names: set[str] = set()
        self.halves: set[int] = set()

    # ------------------------------------------------------------------ layers

    def inner_name(self, what: str) -> str:
        """A name that no other layer has, for a part of what the old layer becomes."""
        base = name = f"{self.scope}/{what}"
        number = 1
        while name in self.names:
            name, number = f"{base}.{number}", number + 1
        self.names.add(name)
        return name

    def layer(
        self,
        type: str,
        inputs: Sequence[Value | None],
        outputs: Iterable[tuple[ElementType | None, Sequence[int] | None]],
        attributes: Mapping[str, Any] | None = None,
        *,
        version: str = "opset1",
        name: str | None = None,
    ) -> Layer:
        """A new layer, joined to its inputs; ports are numbered as IR v11 does it."""
        if name is None:
            name = self.inner_name(type.lower())
        made = Layer(len(self.graph.layers), name, type, version, line=self.line)
        made.attributes = dict(attributes or {})
        for i, value in enumerate(inputs):
            if value is not None:
                made.inputs.append(Port(i, value.type, value.port.shape))
                self.graph.edges.append(Edge(value.layer.id, value.port.id, made.id, i))
        for i, (element, shape) in enumerate(outputs, len(inputs)):
            made.outputs.append(Port(i, element, None if shape is None else PartialShape(shape)))
        self.graph.layers.append(made)
        return made

    def op(
        self,
        type: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        shape: Sequence[int] | None = None,
        element: ElementType | None = None,
        version: str = "opset1",
        name: str | None = None,
    ) -> Value:
        """The output of a new layer of one output; its type is that of the first input where none is given."""
        if element is None and inputs and inputs[0] is not None:
            element = inputs[0].type
        made = self.layer(type, inputs, [(element, shape)], attributes, version=version, name=name)
        return Value(made, made.outputs[0])

    # --------------------------------------------------------------- constants

    def constant(self, value: Any, element: ElementType = I64, name: str = "constant") -> Value:
        """A Constant of a value that no .bin holds."""
        import numpy as np

        array = np.asarray(value, element.dtype if not element.is_packed else None)
        layer = self.layer("Constant", [], [(element, array.shape)], name=self.inner_name(name))
        layer.constant = Constant.from_array(array, element)
        return Value(layer, layer.outputs[0])

    def blob(self, layer: LegacyLayer, name: str, shape: Sequence[int]) -> Value:
        """A blob of a layer as a tensor of `shape`: in f32 where it is FP16, else of its own type.

        Raises:
            ModelError: there is none, or its size is not that of the shape.
        """
        blob = layer.blobs.get(name)
        if blob is None:
            raise layer.error(f"needs the blob {name}")
        count = math.prod(shape)
        if blob.type.get_byte_size(count) != blob.size:
            raise layer.error(
                f"the blob {name} takes {blob.size} bytes, {blob.type.precision} of shape {list(shape)} "
                f"takes {blob.type.get_byte_size(count)}"
            )
        return self.stored(blob, shape, name)

    def stored(self, blob: Blob, shape: Sequence[int], name: str) -> Value:
        """A segment of the .bin as a Constant, with a Convert behind it where it is FP16."""
        layer = self.layer("Constant", [], [(blob.type, shape)], name=self.inner_name(name))
        try:
            layer.constant = Constant.from_weights(self.weights, blob.type, tuple(shape), blob.offset, blob.size)
        except ModelError as error:
            self.findings.append(Finding(layer.line, layer.describe(), error.message))
        value = Value(layer, layer.outputs[0])
        if blob.type.name == "f16":
            value = self.convert(value, F32)
            self.halves.add(value.layer.id)
        return value

    def filled(self, number: float, shape: Sequence[int], element: ElementType = F32) -> Value:
        """A tensor of one number, which takes no place before it is computed."""
        value = self.constant(number, element, "fill")
        target = self.constant(list(shape), name="shape")
        return self.op("Broadcast", [value, target], {"mode": "numpy"}, shape=shape)

    # ------------------------------------------------------------- conversions

    def convert(self, value: Value, element: ElementType) -> Value:
        """The value in another type; itself where it is of that type."""
        if value.type == element:
            return value
        return self.unary("Convert", value, {"destination_type": element.name}, element=element)

    def floating(self, value: Value) -> Value:
        """The value as floats: what arithmetic on images, which come as U8, wants."""
        return value if value.type is None or value.type.is_float else self.convert(value, F32)

    def integral(self, value: Value, element: ElementType = I64) -> Value:
        """The value as integers: old files kept indices and sizes as FP32 too."""
        return value if value.type is not None and value.type.is_integer else self.convert(value, element)

    def target(self, layer: LegacyLayer, position: int) -> Value:
        """The input that holds the shape of the output: f16, as all of an FP16 file, does not hold every size."""
        value = layer.input(position)
        if value.layer.id in self.halves:
            return self.constant(list(layer.out_shape()), name="shape")
        return self.integral(value)

    def scalar(self, value: Value) -> Value:
        """The value of one element without dimensions; old files knew no scalars."""
        return value if value.shape == () else self.reshape(value, ())

    def same_type(self, values: Sequence[Value]) -> list[Value]:
        """The values in the type that holds all of them."""
        types = {v.type for v in values}
        if len(types) == 1:
            return list(values)
        known = [t for t in types if t is not None]
        floats = [t for t in known if t.is_float]
        wanted = F32 if floats else max(known, key=lambda t: t.bits, default=F32)
        return [self.convert(v, wanted) for v in values]

    # ------------------------------------------------------------- common ops

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The value in another static shape; itself where it has that shape."""
        shape = tuple(shape)
        if value.shape == shape:
            return value
        target = self.constant(list(shape), name="shape")
        return self.op("Reshape", [value, target], {"special_zero": False}, shape=shape)

    def binary(self, type: str, left: Value, right: Value, *, element: ElementType | None = None) -> Value:
        """A binary elementwise operation with NumPy broadcasting; quotients of integers are cut off towards zero."""
        shape = broadcast(left.shape, right.shape)
        attributes: dict[str, Any] = {"auto_broadcast": "numpy"}
        if type == "Divide":
            attributes["m_pythondiv"] = False
        return self.op(type, [left, right], attributes, shape=shape, element=element)

    def unary(self, type: str, value: Value, attributes: Mapping[str, Any] | None = None, **keywords: Any) -> Value:
        return self.op(type, [value], attributes, shape=value.shape, **keywords)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        shape = value.shape
        moved = None if shape is None else [shape[i] for i in order]
        return self.op("Transpose", [value, self.constant(list(order), name="order")], shape=moved)

    def slice(self, value: Value, axes: Sequence[int], starts: Sequence[int], stops: Sequence[int]) -> Value:
        """The part of the value between positions that are not negative."""
        shape = value.shape
        if shape is not None:
            kept = list(shape)
            for axis, start, stop in zip(axes, starts, stops, strict=True):
                kept[axis] = min(stop, kept[axis]) - start
            shape = tuple(kept)
        bounds = [
            self.constant(list(starts), name="start"),
            self.constant(list(stops), name="stop"),
            self.constant([1] * len(axes), name="step"),
            self.constant(list(axes), name="axes"),
        ]
        return self.op("Slice", [value, *bounds], shape=shape, version="opset8")

    def split(self, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """The value in consecutive parts along an axis."""
        shape = value.shape
        parts = [None if shape is None else (*shape[:axis], n, *shape[axis + 1 :]) for n in sizes]
        bounds = [self.constant(axis, name="axis"), self.constant(list(sizes), name="lengths")]
        made = self.layer("VariadicSplit", [value, *bounds], [(value.type, s) for s in parts])
        return [Value(made, port) for port in made.outputs]

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        values = self.same_type(values)
        shapes = [v.shape for v in values]
        shape = None
        first = shapes[0]
        if first is not None and all(s is not None for s in shapes):
            total = sum(s[axis] for s in shapes if s is not None)
            shape = (*first[:axis], total, *first[axis + 1 :])
        return self.op("Concat", values, {"axis": axis}, shape=shape)


def unknown(builder: Builder, layer: LegacyLayer) -> list[Value]:
    """A layer of a type that has no conversion, as it is; its blobs are noted among its attributes."""
    attributes: dict[str, Any] = dict(layer.attributes)
    for name, blob in layer.blobs.items():
        attributes[f"{name}-precision"] = blob.type.precision
        attributes[f"{name}-offset"] = blob.offset
        attributes[f"{name}-size"] = blob.size
    outputs = [(d.type, d.shape) for d in layer.outputs]
    made = builder.layer(layer.kind, layer.inputs, outputs, attributes, version="legacy", name=layer.name)
    return [Value(made, port) for port in made.outputs]


def broadcast(*shapes: Shape) -> Shape:
    """The shape of an elementwise operation, or None where it is not known."""
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(s)) + s for s in known]
    return tuple(next((d for d in column if d != 1), 1) for column in zip(*padded, strict=True))
