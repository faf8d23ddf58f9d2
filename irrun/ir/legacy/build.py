"""What conversions of old layers are written with: values, the graph under construction, the table of conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from irrun.elements import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError
from irrun.ir.model import Edge, Graph, Layer, Port
from irrun.ir.shape import PartialShape
from irrun.ir.weights import Weights

if TYPE_CHECKING:
    pass

__all__ = ["CONVERSIONS", "SPELLINGS", "Blob", "Builder", "Declared", "OldLayer", "Value", "converts", "unknown"]

F32, I32, I64, BOOLEAN = (ELEMENT_TYPES[name] for name in ("f32", "i32", "i64", "boolean"))

Shape = tuple[int, ...] | None


@dataclass(frozen=True)
class Value:
    """An output port of a layer of the new graph."""

    layer: Layer
    port: Port

    @property
    def type(self) -> ElementType | None:
        return self.port.element_type

    @property
    def shape(self) -> Shape:
        """The static shape, or None."""
        declared = self.port.shape
        if declared is None or not declared.is_static:
            return None
        return tuple(int(d) for d in declared if isinstance(d, int))


@dataclass(frozen=True)
class Declared:
    """What an old file says of a port: its type as arithmetic sees it, its shape.

    Attributes:
        explicit: whether the port itself names its precision (IR v7), rather than the layer.
    """

    type: ElementType | None
    shape: tuple[int, ...]
    explicit: bool = False


@dataclass(frozen=True)
class Blob:
    """A segment of the .bin."""

    type: ElementType
    offset: int
    size: int

    @property
    def count(self) -> int:
        return self.size * 8 // self.type.bits


_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no", ""})


@dataclass
class OldLayer:
    """A layer of an old file, with its inputs as values of the new graph.

    Attributes:
        version: the IR version of its file.
        inputs: in the order of its input ports.
        declared_inputs, outputs: what the file says of its ports.
        type: what its `precision` says, as arithmetic sees it.
        blobs: by name: "weights", "biases", "custom".
        weights: the .bin.
    """

    name: str
    kind: str
    version: int
    line: int
    attributes: dict[str, str]
    inputs: list[Value] = field(default_factory=list)
    declared_inputs: list[Declared] = field(default_factory=list)
    outputs: list[Declared] = field(default_factory=list)
    type: ElementType | None = None
    blobs: dict[str, Blob] = field(default_factory=dict)
    weights: Weights = field(default_factory=Weights)

    def error(self, message: str) -> ModelError:
        return ModelError(message, line=self.line or None, layer=f"layer {self.name!r} ({self.kind}, legacy)")

    def has(self, *names: str) -> bool:
        return any(n in self.attributes for n in names)

    def _find(self, names: Sequence[str]) -> str | None:
        return next((self.attributes[n] for n in names if n in self.attributes), None)

    def _convert(self, names: Sequence[str], default: Any, convert: Callable[[str], Any], what: str) -> Any:
        text = self._find(names)
        if text is None or (not text.strip() and default is not None):
            if default is None:
                raise self.error(f"needs the attribute {names[0]}")
            return default
        try:
            return convert(text)
        except (ValueError, OverflowError):
            raise self.error(f"attribute {names[0]}={text!r} is not {what}") from None

    def text(self, *names: str, default: str | None = None) -> str:
        """The first of these attributes that is there; without a default one has to be."""
        return str(self._convert(names, default, str.strip, "text"))

    def integer(self, *names: str, default: int | None = None) -> int:
        return int(self._convert(names, default, _int, "an integer"))

    def number(self, *names: str, default: float | None = None) -> float:
        return float(self._convert(names, default, float, "a number"))

    def flag(self, *names: str, default: bool = False) -> bool:
        return bool(self._convert(names, default, _flag, "a boolean"))

    def integers(self, *names: str, default: Sequence[int] | None = None) -> list[int]:
        return list(self._convert(names, default, lambda t: [_int(x) for x in _parts(t)], "a list of integers"))

    def numbers(self, *names: str, default: Sequence[float] | None = None) -> list[float]:
        return list(self._convert(names, default, lambda t: [float(x) for x in _parts(t)], "a list of numbers"))

    def input(self, position: int) -> Value:
        """The value of an input port.

        Raises:
            ModelError: there is no such port.
        """
        if position >= len(self.inputs):
            raise self.error(f"has {len(self.inputs)} inputs, needs at least {position + 1}")
        return self.inputs[position]

    def in_shape(self, position: int = 0) -> tuple[int, ...]:
        """The shape that the file declares for an input port."""
        self.input(position)
        return self.declared_inputs[position].shape

    def out_shape(self, position: int = 0) -> tuple[int, ...]:
        """The shape that the file declares for an output port."""
        if position >= len(self.outputs):
            raise self.error(f"has {len(self.outputs)} outputs, needs at least {position + 1}")
        return self.outputs[position].shape

    def out_type(self, position: int = 0) -> ElementType:
        found = self.outputs[position].type if position < len(self.outputs) else None
        return found or F32

    def axis(self, rank: int, *names: str, default: int | None = None) -> int:
        """An axis attribute, counted from the front."""
        axis = self.integer(*(names or ("axis",)), default=default)
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} is outside of rank {rank}")
        return axis % rank


def _parts(text: str) -> list[str]:
    return [part for part in text.replace(" ", ",").split(",") if part]


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number != int(number):
            raise
        return int(number)


def _flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    return bool(float(text))


Result = Value | Sequence[Value]
Conversion = Callable[["Builder", OldLayer], Result]

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

    Layers are named after the old layer that is being converted; the reader gives its exact name to the one that
    stands for its output.
    """

    def __init__(self, name: str = "") -> None:
        self.graph = Graph(name=name)
        self.scope = ""
        self.line = 0
        self.names: set[str] = set()

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
        made.attributes = {k: _text(v) for k, v in (attributes or {}).items()}
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
        made = self.layer("Const", [], [(element, array.shape)], name=self.inner_name(name))
        made.attributes = {"element_type": element.name, "shape": ",".join(map(str, array.shape)), "value": array}
        return Value(made, made.outputs[0])

    def blob(self, old: OldLayer, name: str, shape: Sequence[int]) -> Value:
        """A blob of a layer as a tensor of `shape`: in f32 where it is FP16, else of its own type.

        Raises:
            ModelError: there is none, or its size is not that of the shape.
        """
        blob = old.blobs.get(name)
        if blob is None:
            raise old.error(f"needs the blob {name}")
        count = math.prod(shape)
        if blob.type.byte_size(count) != blob.size:
            raise old.error(
                f"the blob {name} takes {blob.size} bytes, {blob.type.precision} of shape {list(shape)} "
                f"takes {blob.type.byte_size(count)}"
            )
        return self.stored(blob, shape, name)

    def stored(self, blob: Blob, shape: Sequence[int], name: str) -> Value:
        """A segment of the .bin as a Constant, with a Convert behind it where it is FP16."""
        made = self.layer("Const", [], [(blob.type, shape)], name=self.inner_name(name))
        made.attributes = {
            "element_type": blob.type.name,
            "shape": ",".join(map(str, shape)),
            "offset": str(blob.offset),
            "size": str(blob.size),
        }
        value = Value(made, made.outputs[0])
        return self.convert(value, F32) if blob.type.name == "f16" else value

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
        """A binary elementwise operation with NumPy broadcasting."""
        shape = broadcast(left.shape, right.shape)
        return self.op(type, [left, right], {"auto_broadcast": "numpy"}, shape=shape, element=element)

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


def unknown(builder: Builder, old: OldLayer) -> list[Value]:
    """A layer of a type that has no conversion, as it is; its blobs are noted among its attributes."""
    attributes: dict[str, Any] = dict(old.attributes)
    for name, blob in old.blobs.items():
        attributes[f"{name}-precision"] = blob.type.precision
        attributes[f"{name}-offset"] = blob.offset
        attributes[f"{name}-size"] = blob.size
    outputs = [(d.type, d.shape) for d in old.outputs]
    made = builder.layer(old.kind, old.inputs, outputs, attributes, version="legacy", name=old.name)
    return [Value(made, port) for port in made.outputs]


def broadcast(*shapes: Shape) -> Shape:
    """The shape of an elementwise operation, or None where it is not known."""
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(s)) + s for s in known]
    return tuple(next((d for d in column if d != 1), 1) for column in zip(*padded, strict=True))


def _text(value: Any) -> Any:
    """An attribute as files spell it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(_text(v)) for v in value)
    if isinstance(value, float):
        return repr(value)
    return value if isinstance(value, str) else str(value)
