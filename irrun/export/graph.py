"""ONNX graphs in memory: values with operators, nodes, and the graph that rules add nodes to.

Rules write `op("Tanh", x) * 2.0`. Each call adds a node to the current graph. If a kernel of onnxruntime does not
support the element type of an input, the node computes in another type, with conversions around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import onnx

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import UnsupportedError
from irrun.export.kernel_types import KERNEL_TYPES
from irrun.ir.building import GraphBuilder, Numbers, Operators
from irrun.ir.constant import Constant
from irrun.shapes import PartialShape

__all__ = [
    "ONNX_TYPES",
    "Graph",
    "Node",
    "Operand",
    "Value",
    "cast",
    "constant",
    "get_graph",
    "has_type",
    "op",
    "ops",
]

Array = np.ndarray[Any, Any]

F32, F64, I32, I64, BOOLEAN = (ELEMENT_TYPES[name] for name in ("f32", "f64", "i32", "i64", "boolean"))

#: Element type -> the number of the type in ONNX.
ONNX_TYPES: dict[str, int] = {
    "f64": onnx.TensorProto.DOUBLE,
    "f32": onnx.TensorProto.FLOAT,
    "f16": onnx.TensorProto.FLOAT16,
    "bf16": onnx.TensorProto.BFLOAT16,
    "f8e4m3": onnx.TensorProto.FLOAT8E4M3FN,
    "f8e5m2": onnx.TensorProto.FLOAT8E5M2,
    "i64": onnx.TensorProto.INT64,
    "i32": onnx.TensorProto.INT32,
    "i16": onnx.TensorProto.INT16,
    "i8": onnx.TensorProto.INT8,
    "i4": onnx.TensorProto.INT4,
    "u64": onnx.TensorProto.UINT64,
    "u32": onnx.TensorProto.UINT32,
    "u16": onnx.TensorProto.UINT16,
    "u8": onnx.TensorProto.UINT8,
    "u4": onnx.TensorProto.UINT4,
    "boolean": onnx.TensorProto.BOOL,
    "string": onnx.TensorProto.STRING,
}

#: Element type -> wider types that a node may compute in instead, the best one first.
_CARRIERS = {
    "boolean": ("u8", "i8", "i32", "i64", "f32"),
    "i4": ("i8", "i32", "i64", "f32"),
    "u4": ("u8", "i32", "i64", "f32"),
    "i8": ("i32", "i64", "f32", "f64"),
    "u8": ("i32", "i64", "f32", "f64"),
    "i16": ("i32", "i64", "f32", "f64"),
    "u16": ("i32", "i64", "f32", "f64"),
    "i32": ("i64", "f64", "f32"),
    "u32": ("i64", "f64", "f32"),
    "i64": ("f64", "f32", "i32"),
    "u64": ("i64", "f64", "f32"),
    "f16": ("f32",),
    "bf16": ("f32",),
    "f64": ("f32",),
    "f8e4m3": ("f16", "f32"),
    "f8e5m2": ("f16", "f32"),
}

#: Operations that keep the shape of their first input.
_KEEPING_SHAPE = frozenset(
    ("Abs", "Ceil", "Clip", "CumSum", "Exp", "Floor", "Identity", "IsInf", "IsNaN", "Log", "LogSoftmax", "Neg", "Not")
) | frozenset(("Relu", "Round", "Sigmoid", "Sign", "Softmax", "Softplus", "Sqrt", "Tanh"))

_TENSOR_TYPES = {
    "tensor(int64)": I64,
    "tensor(bool)": BOOLEAN,
    "tensor(float)": F32,
    "tensor(int32)": I32,
}

#: Operator -> the operation of ONNX.
_OPERATIONS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "negative": "Neg"}
_OPERATIONS |= {"<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual"}
_OPERATIONS |= {"&": "And", "|": "Or", "~": "Not"}


class Value(Operators):
    """A value of an ONNX graph.

    Attributes:
        type: The element type.
        shape: The partial shape; None if it is unknown.
        array: The value of a small constant, else None.
        constant: The constant of the model that holds the value, else None.
        name: The name in the ONNX model; empty until it is chosen.
        node: The node that produces it; None for constants and inputs.
        graph: The graph that it belongs to; None for constants.
        is_derived: Whether nodes compute it from constants, possibly from rows gathered at any indices.
    """

    __slots__ = ("array", "constant", "graph", "is_derived", "name", "node", "shape", "type")

    def __init__(
        self,
        element_type: ElementType,
        shape: PartialShape | None = None,
        *,
        array: Array | None = None,
        constant: Constant | None = None,
        name: str = "",
        node: Node | None = None,
        graph: Graph | None = None,
    ) -> None:
        self.type = element_type
        self.shape = shape
        self.array = array
        self.constant = constant
        self.name = name
        self.node = node
        self.graph = graph
        self.is_derived = False

    @property
    def rank(self) -> int | None:
        """The rank; None if it is unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_constant(self) -> bool:
        """Whether the value is an initializer."""
        return self.array is not None or self.constant is not None

    def read(self) -> Array | None:
        """Return the value of a constant; None for other values."""
        if self.array is None and self.constant is not None:
            self.array = self.constant.to_array()
        return self.array

    def calculate(self, operator: str, *operands: Value | Numbers) -> Value:
        """Add an operation to the current graph, and return its result."""
        return op(_OPERATIONS[operator], *operands)

    def to_constant(self, numbers: Value | Numbers) -> Value:
        """Return a constant of the type of this value."""
        return constant(numbers, self.type)


#: The input of a node. Numbers become constants with the type of the first value among the inputs.
Operand: TypeAlias = Value | Numbers


@dataclass(slots=True, eq=False)
class Node:
    """A node of an ONNX graph.

    Attributes:
        type: The type of the operation.
        inputs: The inputs; None for omitted inputs.
        outputs: The outputs.
        attributes: The attributes; a `Graph` for a body.
        domain: The domain of the operation; empty for ONNX's own.
        name: The name of the layer that it was created for.
    """

    type: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any]
    domain: str = ""
    name: str = ""


@dataclass(slots=True, eq=False)
class Graph(GraphBuilder):
    """An ONNX graph under construction.

    Attributes:
        opset: The ONNX opset version.
        name: The name.
        inputs: The inputs.
        outputs: The outputs.
        nodes: The nodes, in topological order.
        scope: The name of the layer that nodes are added for.
        parent: The graph that contains this one as a body.
        defaults: The default values of inputs, by the input.
    """

    current: ClassVar[ContextVar[Any]] = ContextVar("graph")

    opset: int
    name: str = ""
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    scope: str = ""
    parent: Graph | None = None
    defaults: dict[Value, Value] = field(default_factory=dict)

    def add_input(self, element_type: ElementType, shape: PartialShape | None = None, name: str = "") -> Value:
        """Add an input and return its value."""
        value = Value(element_type, shape, name=name, graph=self)
        self.inputs.append(value)
        return value

    def add_output(self, value: Value, name: str = "") -> None:
        """Add an output. A value that cannot be an output, or already has another name, is copied."""
        is_own = value.graph is self and value.node is not None and value not in self.outputs
        if not is_own or (name and value.name not in ("", name)):
            with self.activate():
                copy = op("Identity", value)
            copy.shape, value = value.shape, copy
        value.name = value.name or name
        self.outputs.append(value)

    def add(
        self,
        operation: str,
        inputs: Sequence[Value | None],
        types: Sequence[ElementType],
        attributes: Mapping[str, Any],
        domain: str = "",
    ) -> list[Value]:
        """Add a node unchanged and return its outputs.

        Args:
            operation: The type of the operation.
            inputs: The inputs.
            types: The element types of the outputs.
            attributes: The attributes.
            domain: The domain of the operation.
        """
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        known = {name: value for name, value in attributes.items() if value is not None}
        node = Node(operation, given, [], known, domain, self.scope)
        node.outputs = [Value(t, node=node, graph=self) for t in types]
        sources = [v for v in (given[:1] if operation == "Gather" else given) if v is not None]
        if sources and all(v.is_constant or v.is_derived for v in sources):
            for value in node.outputs:
                value.is_derived = True
        self.nodes.append(node)
        return node.outputs


def get_graph() -> Graph:
    """Return the current graph."""
    graph: Graph = Graph.current.get()
    return graph


def constant(value: Operand, element_type: ElementType | str | None = None) -> Value:
    """Return a constant.

    Args:
        value: Numbers, or a value, which is returned unchanged.
        element_type: The element type; by default the type of an array, i64 for integers and f32 for other numbers.
    """
    if isinstance(value, Value):
        return value
    if isinstance(element_type, str):
        element_type = ELEMENT_TYPES[element_type]
    if element_type is None:
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
            element_type = ElementType.of(value.dtype)
        else:
            kind = np.asarray(value).dtype.kind
            is_empty = np.asarray(value).size == 0
            element_type = I64 if kind in "iu" or is_empty else BOOLEAN if kind == "b" else F32
    array = np.asarray(value)
    with np.errstate(all="ignore"):
        array = np.asarray(array, element_type.dtype)
    return Value(element_type, PartialShape(array.shape), array=array)


def has_type(element_type: ElementType) -> bool:
    """Return whether the opset has an element type."""
    since = 21 if element_type.name in ("i4", "u4") else 19 if element_type.name.startswith("f8") else 0
    return element_type.name in ONNX_TYPES and get_graph().opset >= since


def cast(value: Operand, element_type: ElementType | str) -> Value:
    """Convert a value, as ONNX's Cast does."""
    if isinstance(element_type, str):
        element_type = ELEMENT_TYPES[element_type]
    value = constant(value)
    if value.type is element_type:
        return value
    for t in (value.type, element_type):
        if t.name not in ONNX_TYPES:
            raise UnsupportedError(f"ONNX does not have the element type {t}")
    if value.array is not None and value.array.size <= 64 and value.array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return constant(value.array.astype(element_type.dtype), element_type)
    (result,) = get_graph().add("Cast", [value], [element_type], {"to": ONNX_TYPES[element_type.name]})
    result.shape = value.shape
    return result


def op(operation: str, *inputs: Operand | None, result: ElementType | str | None = None, **attributes: Any) -> Value:
    """Add a node with one output; see `ops`."""
    return ops(operation, *inputs, outputs=1, result=result, **attributes)[0]


def ops(
    operation: str,
    *inputs: Operand | None,
    outputs: int,
    result: ElementType | str | None = None,
    **attributes: Any,
) -> list[Value]:
    """Add a node to the current graph and return its outputs.

    Args:
        operation: The type of the ONNX operation.
        inputs: Values, numbers (which become constants of the type that the operation requires), or None for omitted
            inputs.
        outputs: The number of outputs.
        result: The element type of outputs whose type no input determines.
        attributes: The attributes; None for omitted attributes.

    Raises:
        UnsupportedError: Neither the operation nor a wider type supports an element type.
    """
    graph = get_graph()
    schema = _get_schema(operation, graph.opset)
    variables = [_get_variable(schema.inputs, i) for i in range(len(inputs))]
    chosen: dict[str, ElementType] = {}
    for variable, value in zip(variables, inputs, strict=True):
        if isinstance(value, Value):
            chosen.setdefault(variable, value.type)
    computed = {variable: _choose_type(operation, variable, t, schema) for variable, t in chosen.items()}
    converted: list[Value | None] = []
    for variable, value in zip(variables, inputs, strict=True):
        if value is None:
            converted.append(None)
        elif variable in computed:
            converted.append(
                cast(constant(value, None if isinstance(value, Value) else chosen[variable]), computed[variable])
            )
        else:
            converted.append(constant(value, _TENSOR_TYPES.get(variable) or (I64 if variable != "T" else None)))
    declared = ELEMENT_TYPES[result] if isinstance(result, str) else result
    types, finals = [], []
    for i in range(outputs):
        variable = _get_variable(schema.outputs, i)
        final = chosen.get(variable) or declared or _get_only_type(variable, schema)
        if final is None:
            raise UnsupportedError(f"the type of output {i} of {operation} is unknown")
        finals.append(final)
        types.append(computed.get(variable, final))
    results = graph.add(operation, converted, types, attributes)
    if operation in _KEEPING_SHAPE and converted[0] is not None:
        results[0].shape = converted[0].shape
    return [cast(value, final) for value, final in zip(results, finals, strict=True)]


_schemas: dict[tuple[str, int], Any] = {}


def _get_schema(operation: str, opset: int) -> Any:
    """Return the schema of an ONNX operation.

    Raises:
        UnsupportedError: The opset does not contain the operation.
    """
    if (operation, opset) not in _schemas:
        try:
            _schemas[operation, opset] = onnx.defs.get_schema(operation, opset, "")
        except onnx.defs.SchemaError:
            raise UnsupportedError(f"ONNX opset {opset} does not have {operation}") from None
    return _schemas[operation, opset]


def _get_variable(parameters: Sequence[Any], position: int) -> str:
    """Return the type of a parameter, or a unique name if a variadic parameter takes different types."""
    parameter = parameters[min(position, len(parameters) - 1)]
    if parameter.option == onnx.defs.OpSchema.FormalParameterOption.Variadic and not parameter.is_homogeneous:
        return f"{parameter.type_str}/{position}"
    return str(parameter.type_str)


def _get_only_type(variable: str, schema: Any) -> ElementType | None:
    """Return the type that a variable of a schema must have; None if there are several."""
    allowed = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == variable), [variable])
    return _TENSOR_TYPES.get(allowed[0]) if len(allowed) == 1 else None


def _choose_type(operation: str, variable: str, element_type: ElementType, schema: Any) -> ElementType:
    """Return the type that a node computes in.

    Raises:
        UnsupportedError: The type does not exist.
    """
    if variable in _TENSOR_TYPES:
        return _TENSOR_TYPES[variable]
    row = KERNEL_TYPES.get(operation, {}).get(variable.partition("/")[0])
    if row is None:
        if element_type.name in ONNX_TYPES:
            return element_type
        raise UnsupportedError(f"ONNX does not have the element type {element_type}")
    supported = row.split()
    if operation == "Pad" and schema.since_version < 21 and "bf16" in supported:
        supported.remove("bf16")  # the kernels of older versions lack it
    for name in (element_type.name, *_CARRIERS.get(element_type.name, ())):
        if name in supported:
            return ELEMENT_TYPES[name]
    raise UnsupportedError(f"ONNX's {operation} does not support {element_type}")
