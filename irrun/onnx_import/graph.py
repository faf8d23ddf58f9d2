"""Graphs of OpenVINO's operations under construction: values with operators, and the graph that rules add layers to.

Rules write `op("Tanh", x) * 2.0`. Each call adds a layer to the current graph, and infers its types and shapes from the
card of the operation. A layer with small constant inputs is computed immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias

import numpy as np

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError, UnsupportedError
from irrun.ir.building import GraphBuilder, Numbers, Operators
from irrun.ir.constant import Constant
from irrun.ir.graph import Body, Edge, Layer, Port
from irrun.ir.graph import Graph as IRGraph
from irrun.ops._support import registry
from irrun.ops._support.output_types import get_output_types
from irrun.ops.shape_rules import ShapeError
from irrun.ops.shape_rules import Value as Known
from irrun.runtime.shape_inference import infer_outputs
from irrun.shapes import PartialShape

__all__ = ["Graph", "Operand", "Value", "cast", "check_axis", "constant", "get_graph", "op", "ops"]

Array = np.ndarray[Any, Any]

#: The newest OpenVINO opset that rules use.
NEWEST = "opset17"

#: Operator -> the operation of OpenVINO.
_OPERATIONS = {"+": "Add", "-": "Subtract", "*": "Multiply", "/": "Divide", "negative": "Negative"}
_OPERATIONS |= {"<": "Less", "<=": "LessEqual", ">": "Greater", ">=": "GreaterEqual"}
_OPERATIONS |= {"&": "LogicalAnd", "|": "LogicalOr", "~": "LogicalNot"}


class Value(Operators):
    """A value of a graph.

    Attributes:
        type: The element type.
        known: The shape, and the value itself if it depends only on constants and static shapes.
        layer: The layer that produces it; None for a constant without a layer.
        position: The position of the output port.
        graph: The graph of the layer; None for constants.
        constant: The constant that holds the value, else None.
    """

    __slots__ = ("constant", "graph", "known", "layer", "names", "position", "type")

    def __init__(
        self,
        element_type: ElementType,
        known: Known,
        *,
        layer: Layer | None = None,
        position: int = 0,
        graph: Graph | None = None,
        constant: Constant | None = None,
    ) -> None:
        self.type = element_type
        self.known = known
        self.layer = layer
        self.position = position
        self.graph = graph
        self.constant = constant
        self.names: list[str] = []

    @property
    def shape(self) -> PartialShape | None:
        """The partial shape; None if the rank is dynamic."""
        return self.known.shape

    @property
    def rank(self) -> int | None:
        """The rank; None if it is dynamic."""
        return None if self.known.shape is None else len(self.known.shape)

    @property
    def is_constant(self) -> bool:
        """Whether a Constant produces the value."""
        return self.constant is not None

    def get_rank(self) -> int:
        """Return the rank.

        Raises:
            UnsupportedError: The rank is dynamic.
        """
        if self.known.shape is None:
            raise UnsupportedError("an input has a dynamic rank, expected a static rank")
        return len(self.known.shape)

    def get_dimension(self, axis: int) -> int | None:
        """Return a dimension; None if it is dynamic.

        Raises:
            ModelError: The axis does not exist.
        """
        if self.known.shape is not None:
            check_axis(axis, len(self.known.shape))
        dimension = None if self.known.shape is None else self.known.shape[axis]
        return int(dimension) if isinstance(dimension, int) else None

    def get_static_shape(self) -> tuple[int, ...] | None:
        """Return the shape; None if it is dynamic."""
        return tuple(map(int, self.shape)) if self.shape is not None and self.shape.is_static else None  # type: ignore[arg-type]

    def read(self) -> Array | None:
        """Return the value itself; None if it depends on the inputs of the model."""
        return self.constant.to_array() if self.constant is not None else self.known.get_array()

    def add_name(self, name: str) -> None:
        """Add a tensor name."""
        if name in self.names:
            return
        self.names.append(name)
        if self.layer is not None:
            port = self.layer.outputs[self.position]
            port.names = (*port.names, name)

    def calculate(self, operator: str, *operands: Value | Numbers) -> Value:
        """Add an operation to the current graph, and return its result."""
        attributes = {"m_pythondiv": False} if operator == "/" else {}
        return op(_OPERATIONS[operator], *operands, **attributes)

    def to_constant(self, numbers: Value | Numbers) -> Value:
        """Return a constant of the type of this value."""
        return constant(numbers, self.type)


def check_axis(axis: int, rank: int) -> int:
    """Convert an axis to a non-negative number.

    Raises:
        ModelError: The axis is out of range.
    """
    if not -rank <= axis < rank:
        raise ModelError(f"the axis is {axis}, out of range for rank {rank}")
    return axis + rank if axis < 0 else axis


#: The input of a layer. A number becomes a scalar with the type of the first value among the inputs.
Operand: TypeAlias = Value | Numbers


class Graph(GraphBuilder):
    """A graph under construction.

    Args:
        name: The name.
        parent: The graph with the layer that owns this graph as a body.

    Attributes:
        layers: The layers, in topological order.
        captured: The values that this graph reads from the parent, with their Parameters.
        scope: The name of the node that layers are added for.
    """

    current: ClassVar[ContextVar[Any]] = ContextVar("graph")

    def __init__(self, name: str = "", parent: Graph | None = None) -> None:
        self.name = name
        self.parent = parent
        self.layers: list[Layer] = []
        self.edges: list[Edge] = []
        self.captured: dict[Value, Value] = {}
        self.scope = ""
        self._constants: dict[Constant, Value] = {}
        self._names: set[str] = set()

    def add_parameter(self, element_type: ElementType, known: Known, name: str = "") -> Value:
        """Add a Parameter and return its value."""
        shape = known.shape
        attributes = {"element_type": element_type.name, "shape": "..." if shape is None else str(shape)[1:-1]}
        layer = self._append("Parameter", "opset1", attributes, name)
        layer.outputs = [Port(0, element_type, shape)]
        return Value(element_type, known, layer=layer, graph=self)

    def add_result(self, value: Value, name: str = "") -> Layer:
        """Add a Result for a value and return it."""
        value = self.adopt(value)
        layer = self._append("Result", "opset1", {}, f"{name}/sink_port_0" if name else "")
        self._connect([value], layer)
        layer.inputs[0].names = (name,) if name else ()
        return layer

    def add(
        self,
        operation_type: str,
        version: str,
        inputs: Sequence[Value | None],
        attributes: dict[str, Any],
        types: Sequence[ElementType],
        bodies: dict[str, Body] | None = None,
    ) -> list[Value]:
        """Add a layer unchanged and return its outputs.

        Args:
            operation_type: The type of the operation.
            version: The opset.
            inputs: The inputs; None for omitted inputs.
            attributes: The attributes.
            types: The element types of the outputs.
            bodies: The bodies.

        Raises:
            ModelError: The inputs do not fit the operation.
        """
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        layer = Layer(-1, "", operation_type, version, attributes)
        layer.inputs = [Port(i) if v is None else Port(i, v.type, v.shape) for i, v in enumerate(given)]
        layer.outputs = [Port(len(given) + i, t) for i, t in enumerate(types)]
        layer.bodies = bodies or {}
        try:
            known = infer_outputs(layer, [None if v is None else v.known for v in given])
        except ShapeError as error:
            raise ModelError(f"{operation_type}: {error}") from None
        folded = _fold(layer, given, known)
        if folded is not None:
            return folded
        adopted = [None if v is None else self.adopt(v) for v in given]
        layer.id, layer.name = len(self.layers), self._name(operation_type)
        self._connect(adopted, layer)
        for port, value in zip(layer.outputs, known, strict=True):
            port.shape = value.shape
        self.layers.append(layer)
        return [
            Value(t, k, layer=layer, position=i, graph=self) for i, (t, k) in enumerate(zip(types, known, strict=True))
        ]

    def adopt(self, value: Value) -> Value:
        """Return the value in this graph for a constant, or for a value of an enclosing graph."""
        if value.graph is self:
            return value
        if value.constant is not None:
            if value.constant not in self._constants:
                layer = self._append("Constant", "opset1", {}, value.names[0] if value.names else "")
                layer.constant = value.constant
                layer.outputs = [Port(0, value.type, value.shape, tuple(value.names))]
                own = Value(value.type, value.known, layer=layer, graph=self, constant=value.constant)
                self._constants[value.constant] = own
            return self._constants[value.constant]
        if value not in self.captured:
            if self.parent is None:
                raise ModelError("a value is used outside the body that computes it")
            self.captured[value] = self.add_parameter(value.type, value.known)
        return self.captured[value]

    def name_layer(self, name: str, values: Sequence[object], first: int) -> None:
        """If one layer produces all outputs of a node, give it the name of the node.

        Args:
            name: The name; if it is empty, do nothing.
            values: The outputs.
            first: The number of layers before the node's.
        """
        layers = {id(v.layer): v.layer for v in values if isinstance(v, Value) and v.layer is not None}
        layer = next(iter(layers.values()), None)
        if layer is None or len(layers) > 1 or not name or name in self._names or layer.is_structural:
            return
        if layer.id >= first and self.layers[layer.id] is layer:
            self._names.add(name)
            layer.name = name

    def finish(self) -> IRGraph:
        """Return the graph, with named ports and without unused layers."""
        sources = {(e.to_layer, e.to_port): e.from_layer for e in self.edges}
        used = {layer.id for layer in self.layers if layer.is_input or layer.is_output or layer.writes_variable}
        for layer in reversed(self.layers):
            if layer.id in used:
                used.update(s for p in layer.inputs if (s := sources.get((layer.id, p.id))) is not None)
        layers = [layer for layer in self.layers if layer.id in used]
        return IRGraph(layers, [edge for edge in self.edges if edge.to_layer in used], self.name)

    def _append(self, layer_type: str, version: str, attributes: dict[str, Any], name: str) -> Layer:
        layer = Layer(len(self.layers), self._name(layer_type, name), layer_type, version, attributes)
        self.layers.append(layer)
        return layer

    def _name(self, layer_type: str, name: str = "") -> str:
        base = name or (f"{self.scope}/{layer_type}" if self.scope else layer_type)
        chosen, number = base, 1
        while chosen in self._names:
            chosen, number = f"{base}_{number}", number + 1
        self._names.add(chosen)
        return chosen

    def _connect(self, values: Sequence[Value | None], layer: Layer) -> None:
        for i, value in enumerate(values):
            if value is not None:
                assert value.layer is not None
                self.edges.append(Edge(value.layer.id, value.layer.outputs[value.position].id, layer.id, i))
        layer.inputs = [Port(i) if v is None else Port(i, v.type, v.shape) for i, v in enumerate(values)]


def get_graph() -> Graph:
    """Return the current graph."""
    graph: Graph = Graph.current.get()
    return graph


def constant(value: Operand | str | Constant, element_type: ElementType | str | None = None) -> Value:
    """Return a constant.

    Args:
        value: Numbers, a text, a constant of a model, or a value, which is returned unchanged.
        element_type: The element type; by default the type of an array, i64 for integers and f32 for other numbers.
    """
    if isinstance(value, Value):
        return value
    if isinstance(value, Constant):
        return Value(value.element_type, Known.of_constant(value), constant=value)
    if isinstance(element_type, str):
        element_type = ELEMENT_TYPES[element_type]
    array = np.asarray(value)
    if element_type is None:
        if isinstance(value, (np.ndarray, np.generic)) or array.dtype.kind in "US":
            element_type = ElementType.of(array.dtype)
        else:
            kinds = {"i": "i64", "u": "i64", "b": "boolean"}
            element_type = ELEMENT_TYPES["i64" if not array.size else kinds.get(array.dtype.kind, "f32")]
    with np.errstate(all="ignore"):
        array = np.asarray(array, element_type.dtype)
    return constant(Constant.from_array(array, element_type))


def cast(value: Operand, element_type: ElementType | str) -> Value:
    """Convert a value, as OpenVINO's Convert does."""
    if isinstance(element_type, str):
        element_type = ELEMENT_TYPES[element_type]
    value = constant(value)
    return value if value.type is element_type else op("Convert", value, destination_type=element_type)


def op(operation: str, *inputs: Operand | None, **attributes: Any) -> Value:
    """Add a layer and return its first output; see `ops`."""
    return ops(operation, *inputs, outputs=1, **attributes)[0]


def ops(
    operation: str,
    *inputs: Operand | None,
    outputs: int,
    version: str = NEWEST,
    types: Sequence[ElementType] | None = None,
    **attributes: Any,
) -> list[Value]:
    """Add a layer to the current graph and return its outputs.

    Args:
        operation: The type of the operation.
        inputs: Values, numbers, lists (which become i64 or f32 constants), or None for omitted inputs.
        outputs: The number of outputs.
        version: The opset of the operation.
        types: The element types of the outputs, if the card does not give them.
        attributes: The attributes; None for omitted attributes.

    Raises:
        ModelError: The inputs do not fit the operation.
        UnsupportedError: The type of an output is unknown.
    """
    found = registry.find(operation, version)
    if found is None:
        raise UnsupportedError(f"there is no operation {operation} in {version}")
    first = next((v.type for v in inputs if isinstance(v, Value)), None)
    values = [None if v is None else constant(v, first if isinstance(v, (bool, int, float)) else None) for v in inputs]
    given = {name: value for name, value in attributes.items() if value is not None}
    if types is None:
        known = {a.name: a.default for a in found.attributes if not a.required} | given
        inferred = get_output_types(found.type, found, known, [None if v is None else v.type for v in values], outputs)
        if any(t is None for t in inferred):
            raise UnsupportedError(f"the element type of the result of {operation} is unknown")
        types = [t for t in inferred if t is not None]
    return get_graph().add(found.type, found.opset or f"opset{found.since}", values, given, types)


def _fold(layer: Layer, inputs: Sequence[Value | None], known: Sequence[Known]) -> list[Value] | None:
    """Return the outputs of a layer with constant inputs; None if it depends on model inputs or is large."""
    if layer.bodies or not inputs or not all(v is None or v.is_constant for v in inputs):
        return None
    results = []
    for port, value in zip(layer.outputs, known, strict=True):
        array = value.get_array()
        if array is None or port.element_type is None or array.dtype != port.element_type.dtype:
            return None
        results.append(
            constant(Constant.from_array(np.ascontiguousarray(array).reshape(array.shape), port.element_type))
        )
    return results
