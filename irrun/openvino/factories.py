"""The functions of the opsets, which create nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from irrun import shapes
from irrun.element_types import ElementType
from irrun.errors import IrrunError
from irrun.ir.constant import Constant
from irrun.openvino.element_type import Type, to_element_type
from irrun.openvino.inference import infer_node
from irrun.openvino.node import ConstOutput, Node, Output, as_output
from irrun.openvino.shape import PartialShape
from irrun.openvino.signatures import SIGNATURES
from irrun.ops._support import registry
from irrun.ops._support.operation import Attribute, Operation

__all__ = [
    "as_outputs",
    "create_node",
    "get_factory",
    "list_factories",
    "make_assign",
    "make_binary",
    "make_constant",
    "make_filled_constant",
    "make_parameter",
    "make_read_value",
    "make_result",
]

#: Parameters of OpenVINO's functions and the attributes that they stand for.
_RENAMED = {
    "broadcast_spec": "mode",
    "kernel_shape": "kernel",
    "max_value": "max",
    "merge_repeated": "ctc_merge_repeated",
    "min_value": "min",
}

#: Parameters that are a dictionary of attributes.
_DICT_PARAMETERS = ("attrs", "attributes")

#: Attributes that files spell differently from the parameters of the kernels.
_SPELLINGS = {"exclude_pad": "exclude-pad"}


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
        RuntimeError: There is no such operation, or the arguments do not fit it.
    """
    operation = registry.find(node_type, version)
    if operation is None:
        raise RuntimeError(f"Couldn't create node factory: {node_type} of {version} is not registered")
    converted = _convert_attributes(operation, attributes or {})
    node = Node(operation.type, version, as_outputs(arguments), converted, name)
    try:
        infer_node(node)
    except IrrunError as error:
        raise RuntimeError(str(error)) from error
    return node


def _convert_attributes(operation: Operation, attributes: Mapping[str, Any]) -> dict[str, Any]:
    declared = {attribute.name: attribute for attribute in operation.attributes}
    converted = {}
    for name, value in attributes.items():
        if value is None:
            continue
        attribute = declared.get(name) or declared.get(name.replace("-", "_"))
        if attribute is not None:
            value = _convert_attribute(attribute, value)
        converted[_SPELLINGS.get(name, name)] = value
    for name, attribute in declared.items():
        if not attribute.required and attribute.default is not None:
            default = attribute.default
            converted.setdefault(_SPELLINGS.get(name, name), list(default) if isinstance(default, tuple) else default)
    return converted


def _convert_attribute(attribute: Attribute, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if attribute.type_name.startswith("element type"):
        return to_element_type(value)
    if attribute.type_name.startswith("shape"):
        return PartialShape(value)._to_irrun()
    if isinstance(value, str):
        try:
            return attribute.convert(value)
        except ValueError as error:
            raise RuntimeError(
                f"attribute {attribute.name}={value!r}: {error}, expected {attribute.type_name}"
            ) from None
    if attribute.type_name.startswith("list") and isinstance(value, Iterable):
        return list(value)
    return int(value) if isinstance(value, bool) and attribute.type_name.startswith("int") else value


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


def make_constant(value: Any, dtype: Any = None, name: str | None = None, **keywords: Any) -> Node:
    """Create a Constant.

    Args:
        value: An array, a number, a list, or a tensor.
        dtype: The element type, as a `Type`, a name or a NumPy type; by default the type of the value.
        name: The friendly name.
        keywords: `shared_memory`, which is ignored.
    """
    from irrun.openvino.tensor import Tensor

    if isinstance(value, ElementType | Type):  # constant(type, shape, values)
        return make_constant(np.asarray(keywords.pop("value", 0)), value, name)
    if value is None:
        raise TypeError("a Constant requires a value, found None")
    source = value._to_values() if isinstance(value, Tensor) else np.asarray(value)
    if isinstance(value, Tensor) and dtype is None:
        dtype = value.element_type
    if isinstance(dtype, type) and dtype in (int, float):
        dtype = np.int32 if dtype is int else np.float32
    element_type = ElementType.of(source.dtype) if dtype is None else to_element_type(dtype)
    if element_type is None:
        raise RuntimeError("a Constant requires an element type")
    if element_type.kind == "string":
        source = source.astype(object)
    elif source.dtype != element_type.dtype:
        source = (
            source.astype(np.uint8).view(element_type.dtype)
            if element_type.dtype.fields
            else source.astype(element_type.dtype)
        )
    node = Node("Constant", "opset1", name=name)
    node._constant = Constant.from_array(source, element_type)
    node._ports[0].element_type = element_type
    node._ports[0].shape = shapes.PartialShape(source.shape)
    return node


def make_parameter(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Node:
    """Create a Parameter.

    Args:
        shape: The shape, as a list or what `PartialShape` accepts.
        dtype: The element type, as a `Type`, a name or a NumPy type.
        name: The friendly name.
    """
    node = Node("Parameter", "opset1", name=name)
    node._declare(to_element_type(dtype), PartialShape(shape)._to_irrun())
    return node


def make_filled_constant(element_type: Any, shape: Any, values: Any) -> Node:
    """Create a Constant of a shape.

    Args:
        element_type: The element type.
        shape: The shape.
        values: The elements in order, or one value for all.

    Raises:
        RuntimeError: The number of values does not fit the shape.
    """
    lengths = tuple(PartialShape(shape).to_shape())
    source = np.asarray(values)
    if source.size == 1:
        source = np.full(lengths, source.reshape(-1)[0], source.dtype)
    elif source.size != math.prod(lengths):
        raise RuntimeError(
            f"Did not get the expected number of literals for a constant of shape {PartialShape(shape)} "
            f"(got {source.size}, expected 1 or {math.prod(lengths)})."
        )
    return make_constant(source.reshape(lengths), element_type)


def make_result(data: Any, name: str | None = None) -> Node:
    """Create a Result.

    Args:
        data: A node or an output.
        name: The friendly name.
    """
    return Node("Result", "opset1", as_outputs([data]), name=name)


def make_read_value(
    init_value: Any,
    variable_id: str,
    variable_type: Any = None,
    variable_shape: Any = None,
    name: str | None = None,
) -> Node:
    """Create a ReadValue.

    Args:
        init_value: The initial value, or None.
        variable_id: The name of the variable.
        variable_type: The element type of the variable.
        variable_shape: The shape of the variable.
        name: The friendly name.
    """
    attributes: dict[str, Any] = {"variable_id": str(variable_id)}
    node = Node("ReadValue", "opset6", as_outputs([init_value]), attributes, name)
    source = node._sources[0] if node._sources else None
    element_type = to_element_type(variable_type) if variable_type is not None else None
    shape = PartialShape(variable_shape)._to_irrun() if variable_shape is not None else None
    port = node._ports[0]
    port.element_type = element_type or (source._data.element_type if source is not None else None)
    port.shape = shape if variable_shape is not None or source is None else source._data.shape
    attributes["variable_type"] = "dynamic" if port.element_type is None else port.element_type.name
    attributes["variable_shape"] = "..." if port.shape is None else str(port.shape)[1:-1]
    node._attributes = attributes
    return node


def make_assign(new_value: Any, variable_id: Any, name: str | None = None) -> Node:
    """Create an Assign.

    Args:
        new_value: The value that the variable is assigned.
        variable_id: The name of the variable.
        name: The friendly name.
    """
    node = Node("Assign", "opset6", as_outputs([new_value]), {"variable_id": str(variable_id)}, name)
    source = node._sources[0]
    assert source is not None
    node._ports[0].element_type, node._ports[0].shape = source._data.element_type, source._data.shape
    return node


def make_binary(operation: str, left: Node, right: Any, swapped: bool = False) -> Node:
    """Create an elementwise node of a node and a value of its element type.

    Args:
        operation: The type, such as "Add".
        left: A node.
        right: A node, an output, an array or a number.
        swapped: Whether the order of the inputs is the reverse.
    """
    other = right if isinstance(right, (Node, ConstOutput)) else make_constant(right, left.element_type)
    return create_node(operation, "opset1", [other, left] if swapped else [left, other])


_SPECIAL: dict[str, Callable[..., Node]] = {
    "assign": make_assign,
    "constant": make_constant,
    "parameter": make_parameter,
    "read_value": make_read_value,
    "result": make_result,
}


def list_factories(opset: int) -> list[str]:
    """Return the names of the functions of an opset."""
    names = [name for name, entries in SIGNATURES.items() if entries[0][0] <= opset]
    return sorted({*names, "assign"} if opset >= 3 else names)


@cache
def get_factory(name: str, opset: int) -> Callable[..., Node]:
    """Return a function of an opset.

    Args:
        name: The name, such as "convolution".
        opset: The number of the opset.

    Raises:
        AttributeError: The opset has no such function.
    """
    if name in _SPECIAL:
        return _SPECIAL[name]
    entries = [entry for entry in SIGNATURES.get(name, ()) if entry[0] <= opset]
    if not entries:
        raise AttributeError(f"module 'openvino.opset{opset}' has no attribute '{name}'")
    _, operation_type, parameters = entries[-1]
    operation = registry.find(operation_type, f"opset{opset}")
    assert operation is not None
    return _make_factory(name, operation, parameters.split())


def _make_factory(name: str, operation: Operation, declarations: Sequence[str]) -> Callable[..., Node]:
    names = [declaration.partition("=")[0] for declaration in declarations]
    defaults = dict(d.split("=", 1) for d in declarations if "=" in d)
    attributes = {attribute.name for attribute in operation.attributes}

    def factory(*args: Any, **kwargs: Any) -> Node:
        if len(args) > len(names):
            raise TypeError(f"{name}() takes at most {len(names)} arguments, {len(args)} were passed")
        values = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key not in names or key in values:
                raise TypeError(f"{name}() got an unexpected argument {key!r}")
            values[key] = value
        friendly_name = values.pop("name", None)
        inputs: list[Any] = []
        bound: dict[str, Any] = dict(defaults)
        for parameter in names[: -1 if names[-1] == "name" else None]:
            value = values.get(parameter)
            if parameter in _DICT_PARAMETERS and parameter not in attributes:
                bound.update(value or {})
            elif parameter in attributes or _RENAMED.get(parameter) in attributes:
                if value is not None:
                    bound[parameter if parameter in attributes else _RENAMED[parameter]] = value
            elif isinstance(value, (list, tuple)) and any(isinstance(v, (Node, ConstOutput)) for v in value):
                inputs.extend(value)
            else:
                inputs.append(value)
        if "dilations" in attributes and "strides" in bound:
            bound.setdefault("dilations", [1] * len(bound["strides"]))
        return create_node(operation.type, f"opset{operation.since}", inputs, bound, friendly_name)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = f"Create a node of {operation}.\n\n{operation.kernel.__doc__ or ''}"
    return factory
