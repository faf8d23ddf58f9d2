"""Classes of nodes that programs create directly."""

from __future__ import annotations

from typing import Any

from irrun.openvino.factories import make_assign as assign
from irrun.openvino.factories import (
    make_constant,
    make_filled_constant,
    make_parameter,
    make_result,
)
from irrun.openvino.factories import make_read_value as read_value
from irrun.openvino.node import Node
from irrun.openvino.op.control import if_op as if_op
from irrun.openvino.op.control import loop as loop
from irrun.openvino.op.control import tensor_iterator as tensor_iterator
from irrun.openvino.ports import skip_number

__all__ = ["Constant", "Parameter", "Result", "assign", "if_op", "loop", "read_value", "tensor_iterator"]


class _NodeClass(type):
    """Lets `isinstance` recognize nodes by their type."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Node) and instance.get_type_name() == cls.__name__


class Constant(metaclass=_NodeClass):
    """A Constant.

    Args:
        arguments: An array or a tensor, and whether to use its memory; or an element type, a shape and the values.
        keywords: `array` or `tensor`, and `shared_memory`, instead of arguments.
    """

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        """Create the node; see the class."""
        if len(arguments) == 3:
            return make_filled_constant(*arguments)
        for name in ("array", "tensor"):
            if name in keywords:
                arguments = (keywords.pop(name), *arguments)
        if len(arguments) == 2:
            keywords["shared_memory"] = arguments[1]
        skip_number()  # OpenVINO creates a Constant and copies it
        return make_constant(arguments[0], **keywords)


class Parameter(metaclass=_NodeClass):
    """A Parameter.

    Args:
        element_type: The element type.
        shape: The shape.
    """

    def __new__(cls, element_type: Any, shape: Any) -> Any:
        """Create the node; see the class."""
        return make_parameter(shape, element_type)


class Result(metaclass=_NodeClass):
    """A Result.

    Args:
        data: A node or an output.
    """

    def __new__(cls, data: Any) -> Any:
        """Create the node; see the class."""
        return make_result(data)
