"""The functions of the opsets, which create nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from irrun.openvino.element_type import Type, to_element_type
from irrun.openvino.exceptions import UserInputError
from irrun.openvino.node import (
    ConstOutput,
    Node,
    as_outputs,
    create_node,
    make_binary,
    make_constant,
    make_unconnected_node,
)
from irrun.openvino.shape import PartialShape
from irrun.openvino.signatures import SIGNATURES
from irrun.openvino.variables import Variable
from irrun.ops._support import registry
from irrun.ops._support.operation import Operation

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

#: Parameters of OpenVINO's functions -> attributes.
_RENAMED = {
    "broadcast_spec": "mode",
    "kernel_shape": "kernel",
    "max_value": "max",
    "merge_repeated": "ctc_merge_repeated",
    "min_value": "min",
}

#: Functions that later opsets took over unchanged, although the operation has newer versions.
_INHERITED = ("interpolate", "range")

#: Inputs that are Constants where a program omits them: function, parameter, the first opset, the value.
_DEFAULT_INPUTS: tuple[tuple[str, str, int, Any], ...] = (
    ("non_max_suppression", "max_output_boxes_per_class", 1, np.int64(0)),
    ("non_max_suppression", "iou_threshold", 1, np.float32(0)),
    ("non_max_suppression", "score_threshold", 1, np.float32(0)),
    ("non_max_suppression", "soft_nms_sigma", 9, np.float32(0)),
    ("swish", "beta", 4, np.float32(1)),
)

#: The order of inputs that differs from the order of parameters.
_INPUT_ORDERS = {"BatchNormInference-1": (1, 2, 0, 3, 4)}

#: Parameters that hold a dictionary of attributes.
_DICT_PARAMETERS = ("attrs", "attributes")


def make_parameter(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Node:
    """Create a Parameter.

    Args:
        shape: The shape, as a list or what `PartialShape` accepts.
        dtype: The element type, as a `Type`, a name or a NumPy type. `int` and `float` are types of 32 bits.
        name: The friendly name.
    """
    node = Node("Parameter", "opset1", name=name)
    if isinstance(dtype, type) and dtype in (int, float):
        dtype = Type.i32 if dtype is int else Type.f32
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
    variable_id: str | Variable | None = None,
    variable_type: Any = None,
    variable_shape: Any = None,
    name: str | None = None,
) -> Node:
    """Create a ReadValue.

    Args:
        init_value: The initial value, or None. It may be omitted before a variable or the name of one.
        variable_id: The variable, or its name.
        variable_type: The element type of a variable that is given by its name.
        variable_shape: Its shape.
        name: The friendly name.
    """
    if isinstance(init_value, Variable):
        init_value, variable_id = None, init_value
    elif isinstance(init_value, str):
        init_value, variable_id, variable_type, variable_shape = None, init_value, variable_id, variable_type
    if isinstance(variable_id, Variable):
        info = variable_id.info
        variable_id, variable_type, variable_shape = info.variable_id, info.data_type, info.data_shape
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


def make_assign(new_value: Any = None, variable_id: str | Variable | None = None, name: str | None = None) -> Node:
    """Create an Assign. Without arguments, it has no inputs and outputs.

    Args:
        new_value: The value that the variable is assigned.
        variable_id: The variable, or its name.
        name: The friendly name.

    Raises:
        TypeError: The variable is missing.
    """
    if new_value is None:
        return make_unconnected_node("Assign", "opset6")
    if variable_id is None:
        raise TypeError(f"assign(): incompatible constructor arguments. Invoked with: {new_value!r}")
    identifier = variable_id.get_id() if isinstance(variable_id, Variable) else str(variable_id)
    node = Node("Assign", "opset6", as_outputs([new_value]), {"variable_id": identifier}, name)
    source = node._sources[0]
    assert source is not None
    node._ports[0].element_type, node._ports[0].shape = source._data.element_type, source._data.shape
    return node


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
    since, operation_type, parameters = entries[-1]
    operation = registry.find(operation_type, f"opset{since if name in _INHERITED else opset}")
    assert operation is not None
    default_inputs = {p: value for function, p, first, value in _DEFAULT_INPUTS if function == name and first <= opset}
    return _make_factory(name, operation, parameters.split(), default_inputs)


def _make_factory(
    name: str, operation: Operation, declarations: Sequence[str], default_inputs: Mapping[str, Any]
) -> Callable[..., Node]:
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
            elif isinstance(value, (list, tuple, set)) and any(isinstance(v, (Node, ConstOutput)) for v in value):
                inputs.extend(value)
            else:
                inputs.append(default_inputs.get(parameter) if value is None else value)
        if "dilations" in attributes and "strides" in bound:
            bound.setdefault("dilations", [1] * len(bound["strides"]))
        if operation.type.startswith("I420to") and sum(value is not None for value in inputs) == 2:
            raise UserInputError(f"Operation {operation.type} must have one plane or three planes, found two")
        if str(operation) in _INPUT_ORDERS:
            inputs = [inputs[i] for i in _INPUT_ORDERS[str(operation)]]
        return create_node(operation.type, f"opset{operation.since}", inputs, bound, friendly_name)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = f"Create a node of {operation}.\n\n{operation.kernel.__doc__ or ''}"
    return factory
