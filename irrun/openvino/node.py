"""`Node`, the operations of a graph, and their inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from irrun import shapes
from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.openvino.attributes import convert_attributes, get_attributes
from irrun.openvino.constant_value import ConstantValue, to_constant
from irrun.openvino.element_type import Type, to_element_type
from irrun.openvino.getters import from_getter
from irrun.openvino.inference import compute_node, infer_node
from irrun.openvino.layout import Layout, to_layout
from irrun.openvino.ports import ConstOutput as ConstOutput
from irrun.openvino.ports import DescriptorTensor as DescriptorTensor
from irrun.openvino.ports import DiscreteTypeInfo as DiscreteTypeInfo
from irrun.openvino.ports import Input as Input
from irrun.openvino.ports import NodeData
from irrun.openvino.ports import Output as Output
from irrun.openvino.ports import PortData as PortData
from irrun.openvino.ports import as_output as as_output
from irrun.openvino.runtime_info import RTMap
from irrun.openvino.shape import PartialShape, Shape
from irrun.ops._support import registry
from irrun.ops._support.operation import Operation

__all__ = ["ConstOutput", "DescriptorTensor", "DiscreteTypeInfo", "Input", "Node", "Output", "PortData", "as_output"]

#: The C++ names of element types, which the representations of Parameters contain. Integers are named as in `uint8_t`.
_C_NAMES = {"f32": "float", "f64": "double", "boolean": "char", "f16": "float16", "bf16": "bfloat16", "nf4": "nfloat4"}


class Node(ConstantValue, NodeData):
    """An operation of a graph.

    Args:
        node_type: The type, such as "Add".
        version: The opset, such as "opset1".
        arguments: The values of the inputs; None for an optional input that is not connected.
        attributes: The attributes, as texts or Python values.
        name: The friendly name; by default it is derived from the type.
    """

    #: Lets arrays on the left of an operator leave it to the node.
    __array_ufunc__ = None

    def __repr__(self) -> str:
        name = self.get_friendly_name()
        ports = [self._get_port(i) for i in range(len(self._ports))]
        shown = [str(PartialShape._from_irrun(port.shape)) for port in ports]
        if self._type == "Parameter":
            element_type = ports[0].element_type.name if ports[0].element_type else "dynamic"
            is_integer = element_type[1:].isdecimal() and element_type[0] in "iu"
            c_integer = f"{'u' * (element_type[0] == 'u')}int{element_type[1:]}_t"
            shown.append(c_integer if is_integer else _C_NAMES.get(element_type, element_type))
        return f"<{self._type}: '{name}' ({', '.join(shown)})>"

    # -- identity

    def get_type_name(self) -> str:
        """Return the type, such as "Add"."""
        return self._type

    def get_type_info(self) -> DiscreteTypeInfo:
        """Return type and opset."""
        return DiscreteTypeInfo(self._type, self._version)

    type_info = from_getter(get_type_info)

    def get_instance_id(self) -> int:
        """Return the number of the node in this process."""
        return self._id

    def get_rt_info(self) -> RTMap:
        """Return runtime information."""
        return RTMap(self._rt_info)

    rt_info = from_getter(get_rt_info)

    def set_rt_info(self, value: Any, key: str) -> None:
        """Set runtime information."""
        self.rt_info[key] = value

    # -- attributes

    def get_attributes(self) -> dict[str, Any]:
        """Return the attributes by name, as Python values."""
        return get_attributes(self)

    def set_attribute(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self._attributes[name] = value

    def __getattr__(self, name: str) -> Any:
        """Return a getter or setter of an attribute, such as `get_axis`."""
        action, _, attribute = name.partition("_")
        if action in ("get", "set"):
            found = attribute if attribute in self._attributes else attribute.replace("_", "-")
            if found in self._attributes and action == "get":
                return lambda: self.get_attributes()[found]
            if found in self._attributes:
                return lambda value: self.set_attribute(found, value)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def get_strides(self) -> Any:
        """Return the distances of the elements of a Constant in bytes, or the attribute `strides` of another node."""
        return super().get_strides() if self._constant is not None else self.__getattr__("get_strides")()

    # -- ports

    def inputs(self) -> list[Input]:
        """Return the inputs."""
        return [Input(self, i) for i in range(len(self._sources))]

    def input(self, input_index: int) -> Input:
        """Return an input.

        Raises:
            RuntimeError: The input does not exist.
        """
        if not 0 <= input_index < len(self._sources):
            raise RuntimeError(f"node {self!r} has no input {input_index}, it has {len(self._sources)}")
        return self.inputs()[input_index]

    def input_value(self, index: int) -> Output:
        """Return the output that an input is connected to."""
        return self.input(index).get_source_output()

    def input_values(self) -> list[Output]:
        """Return the outputs that the inputs are connected to."""
        return [port.get_source_output() for port in self.inputs()]

    def get_input_size(self) -> int:
        """Return the number of inputs."""
        return len(self._sources)

    def get_input_element_type(self, index: int) -> Type:
        """Return the element type of an input."""
        return self.input(index).element_type

    def get_input_partial_shape(self, index: int) -> PartialShape:
        """Return the shape of an input."""
        return self.input(index).partial_shape

    def get_input_shape(self, index: int) -> Shape:
        """Return the static shape of an input."""
        return self.input(index).shape

    def get_input_tensor(self, index: int) -> DescriptorTensor:
        """Return the description of an input's tensor."""
        return self.input(index).get_tensor()

    def outputs(self) -> list[Output]:
        """Return the outputs."""
        return [Output(self, i) for i in range(len(self._ports))]

    def output(self, output_index: int) -> Output:
        """Return an output."""
        if not 0 <= output_index < len(self._ports):
            raise RuntimeError(f"Output index {output_index} is out of range: {self!r} has {len(self._ports)} outputs")
        return Output(self, output_index)

    def get_output_size(self) -> int:
        """Return the number of outputs."""
        return len(self._ports)

    def get_output_element_type(self, index: int) -> Type:
        """Return the element type of an output."""
        return self.output(index).element_type

    def get_output_partial_shape(self, index: int) -> PartialShape:
        """Return the shape of an output."""
        return self.output(index).partial_shape

    def get_output_shape(self, index: int) -> Shape:
        """Return the static shape of an output."""
        return self.output(index).shape

    def get_output_tensor(self, index: int) -> DescriptorTensor:
        """Return the description of an output's tensor."""
        return self.output(index).get_tensor()

    def get_element_type(self) -> Type:
        """Return the element type of the only output."""
        return self._get_only_output().element_type

    def set_element_type(self, element_type: Any) -> None:
        """Set the element type of a Parameter."""
        self._declare(to_element_type(element_type), self._ports[0].shape)

    element_type = from_getter(get_element_type, set_element_type)

    def get_shape(self) -> Shape:
        """Return the static shape of the only output."""
        return self._get_only_output().shape

    shape = from_getter(get_shape)

    def get_partial_shape(self) -> PartialShape:
        """Return the shape of the only output."""
        return self._get_only_output().partial_shape

    def set_partial_shape(self, shape: Any) -> None:
        """Set the shape of a Parameter."""
        self._declare(self._ports[0].element_type, PartialShape(shape)._to_irrun())

    partial_shape = from_getter(get_partial_shape, set_partial_shape)

    def _declare(self, element_type: ElementType | None, shape: shapes.PartialShape | None) -> None:
        """Set the declaration of a Parameter."""
        port = self._ports[0]
        port.element_type, port.shape, port.value = element_type, shape, None

    def get_layout(self) -> Layout:
        """Return the layout of a Parameter or Result."""
        return self._layout

    def set_layout(self, layout: Layout | str) -> None:
        """Set the layout of a Parameter or Result.

        Raises:
            RuntimeError: It has another number of dimensions than the shape.
        """
        data = self._sources[0] if self._type == "Result" and self._sources else self.output(0)
        layout, shape = to_layout(layout), None if data is None else data._data.shape
        if shape is not None and not layout._fits(len(shape)):
            text = str(PartialShape._from_irrun(shape))
            raise RuntimeError(
                f"Can't set layout for Parameter/Result {self._version}::{self._type} {self.get_friendly_name()}[0]:"
                f"{self.get_output_element_type(0).to_string()}{text}: layout {layout} is not compatible with shape "
                f"{text}"
            )
        self._layout = layout

    layout = from_getter(get_layout, set_layout)

    # -- editing and evaluation

    def set_arguments(self, arguments: Sequence[Any]) -> None:
        """Replace all inputs."""
        outputs = [as_output(argument) for argument in arguments]
        self._sources = [None] * len(outputs)
        for i, output in enumerate(outputs):
            self._set_source(i, output)

    def set_argument(self, index: int, argument: Any) -> None:
        """Replace one input."""
        self._set_source(index, as_output(argument))

    def validate_and_infer_types(self) -> None:
        """Infer element types and shapes of the outputs."""
        infer_node(self)

    constructor_validate_and_infer_types = validate_and_infer_types

    def evaluate(self, output_values: Sequence[Any], input_values: Sequence[Any], *_: Any) -> bool:
        """Compute the node.

        Args:
            output_values: The tensors that the results are written to.
            input_values: The tensors of the inputs.
        """
        results = compute_node(self, [tensor._to_values() for tensor in input_values])
        for tensor, result in zip(output_values, results, strict=False):
            tensor._assign(result)
        return True

    # -- operators

    def _binary(self, operation: str, other: Any, swapped: bool = False) -> Node:
        return make_binary(operation, self, other, swapped)

    def __add__(self, other: Any) -> Node:
        return self._binary("Add", other)

    def __radd__(self, other: Any) -> Node:
        return self._binary("Add", other, True)

    def __sub__(self, other: Any) -> Node:
        return self._binary("Subtract", other)

    def __rsub__(self, other: Any) -> Node:
        return self._binary("Subtract", other, True)

    def __mul__(self, other: Any) -> Node:
        return self._binary("Multiply", other)

    def __rmul__(self, other: Any) -> Node:
        return self._binary("Multiply", other, True)

    def __truediv__(self, other: Any) -> Node:
        return self._binary("Divide", other)

    def __rtruediv__(self, other: Any) -> Node:
        return self._binary("Divide", other, True)


def create_node(
    node_type: str,
    version: str,
    arguments: Sequence[Any],
    attributes: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Node:
    """Create a node, and infer element types and shapes of its outputs.

    Args:
        node_type: The type, such as "Add".
        version: The opset, such as "opset1".
        arguments: Nodes, outputs, or values that become Constants; None for an input that is not connected.
        attributes: The attributes; None is replaced by the default.
        name: The friendly name.

    Raises:
        RuntimeError: The operation does not exist, or the arguments do not fit it.
    """
    operation = _find_registered(node_type, version)
    converted = convert_attributes(operation, attributes or {})
    node = Node(operation.type, _get_version(operation, version), as_outputs(arguments), converted, name)
    needed = sum(not item.optional for item in operation.inputs)
    if len(node._sources) < needed:
        raise RuntimeError(f"{node_type} of {version} needs {needed} inputs, found {len(node._sources)}")
    if operation.kind == "elementwise" and "auto_broadcast" in converted and len(node._sources) == 2:
        _check_types(node)
    try:
        infer_node(node)
    except IrrunError as error:
        raise RuntimeError(str(error)) from error
    return node


def make_unconnected_node(node_type: str, version: str) -> Node:
    """Create a node without inputs. Its outputs are inferred once it has inputs.

    Raises:
        RuntimeError: The operation does not exist.
    """
    operation = _find_registered(node_type, version)
    node = Node(operation.type, _get_version(operation, version))
    node._ports = []
    return node


def _get_version(operation: Operation, version: str) -> str:
    """Return the opset that introduced an operation of a numbered opset."""
    return f"opset{operation.since}" if operation.opset is None else version


def _find_registered(node_type: str, version: str) -> Operation:
    operation = registry.find(node_type, version)
    if operation is None:
        raise RuntimeError(f"Couldn't create node factory: {node_type} of {version} is not registered")
    return operation


def _check_types(node: Node) -> None:
    """Refuse operands of different element types, and numbers as operands of logical operations."""
    types = [source._data.element_type for source in node._sources if source is not None]
    if None not in types and len(set(types)) > 1:
        names = ", ".join(f"arg{i} element type: {t.name}" for i, t in enumerate(types) if t is not None)
        raise RuntimeError(f"{node!r}: Arguments do not have the same element type ({names}).")
    if node._type.startswith("Logical") and types[0] not in (None, ElementType.parse("boolean")):
        raise RuntimeError(f"{node!r}: Operands for logical operators need the element type boolean.")


def as_outputs(arguments: Sequence[Any]) -> list[Output | None]:
    """Convert arguments to outputs. Numbers and arrays become Constants of the type of the first node.

    Args:
        arguments: Nodes, outputs, arrays, numbers, or None.
    """
    nodes = [argument for argument in arguments if isinstance(argument, (Node, ConstOutput))]
    element_type = as_output(nodes[0])._data.element_type if nodes else None
    outputs: list[Output | None] = []
    for argument in arguments:
        if argument is None or isinstance(argument, (Node, ConstOutput)):
            outputs.append(None if argument is None else as_output(argument))
        else:
            outputs.append(Output(_make_argument(argument, element_type), 0))
    while outputs and outputs[-1] is None:
        outputs.pop()
    return outputs


def _make_argument(value: Any, element_type: ElementType | None) -> Node:
    """Return a Constant for an argument that is not a node."""
    if isinstance(value, float) and element_type is not None:
        return make_constant(value, element_type if element_type.is_float else None)
    return make_constant(value, None)


def make_constant(value: Any = None, dtype: Any = None, name: str | None = None, **keywords: Any) -> Node:
    """Create a Constant.

    Args:
        value: An array, a number, a list, or a tensor, which may be passed as `tensor`.
        dtype: The element type, as a `Type`, a name or a NumPy type; by default the type of the value.
        name: The friendly name.
        keywords: `shared_memory`, whether the Constant uses the memory of an array or a tensor where it can; by
            default it does for tensors.
    """
    node = Node("Constant", "opset1", name=name)
    constant = to_constant(value, dtype, **keywords)
    node._constant = constant
    node._ports[0].element_type = constant.element_type
    node._ports[0].shape = shapes.PartialShape(constant.shape)
    return node


def make_binary(operation: str, left: Node, right: Any, swapped: bool) -> Node:
    """Create an elementwise node of a node and a value of its element type.

    Args:
        operation: The type, such as "Add".
        left: A node.
        right: A node, an output, an array or a number.
        swapped: Whether the order of the inputs is the reverse.
    """
    other = right if isinstance(right, (Node, ConstOutput)) else make_constant(right, left.element_type)
    return create_node(operation, "opset1", [other, left] if swapped else [left, other])
