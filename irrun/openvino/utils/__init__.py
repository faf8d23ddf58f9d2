"""Functions for graphs, and names that programs import from `openvino.utils`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from irrun.openvino.node import Node, make_constant
from irrun.openvino.ports import Output, as_output
from irrun.openvino.results import OVDict as OVDict

__all__ = [
    "OVDict",
    "classproperty",
    "deprecated",
    "deprecatedclassproperty",
    "get_cmake_path",
    "make_postponed_constant",
    "numpy_to_c",
    "replace_node",
    "replace_output_update_name",
]


#: Submodules, imported on first use.
_SUBMODULES = ("broadcasting", "data_helpers", "decorators", "input_validation", "node_factory", "reduction", "types")


def __getattr__(name: str) -> Any:
    if name not in _SUBMODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def replace_node(target: Node, replacement: Any) -> None:
    """Connect the consumers of a node to the outputs of another one, or to a list of outputs.

    Raises:
        RuntimeError: The number of outputs is another one.
        TypeError: The replacement is something else.
    """
    if isinstance(replacement, (list, tuple)):
        outputs = [as_output(item) for item in replacement]
    elif isinstance(replacement, Node):
        outputs = replacement.outputs()
    else:
        raise TypeError("replace_node(): incompatible function arguments: expected a Node or a list of Output")
    if len(outputs) != target.get_output_size():
        raise RuntimeError(f"{target!r} has {target.get_output_size()} outputs, expected {len(outputs)}")
    for output, new_output in zip(target.outputs(), outputs, strict=True):
        for consumer in output.get_target_inputs():
            consumer.replace_source_output(new_output)


def replace_output_update_name(output: Output, target_output: Output) -> bool:
    """Connect the consumers of an output to another one, which gets its names.

    If they include a Result, the other node also gets the friendly name, since it is the name of an output in IR.

    Returns:
        False if nothing was changed, because an output of the model would lose its name.
    """
    node, new_node = output.get_node(), target_output.get_node()
    if _is_result(output):
        is_single = node.get_output_size() == new_node.get_output_size() == 1
        if not is_single or new_node.get_type_name() == "Parameter" or _is_result(target_output):
            return False
        new_node.set_friendly_name(node.get_friendly_name())
    output.replace(target_output)
    return True


def _is_result(output: Output) -> bool:
    """Return whether an output is connected to a Result."""
    return any(target.get_node().get_type_name() == "Result" for target in output.get_target_inputs())


def numpy_to_c(array: Any) -> Any:
    """Return the address of the memory of an array."""
    return array.ctypes.data


def get_cmake_path() -> str:
    """Return an empty path: there are no libraries to link."""
    return ""


def deprecated(*_: Any, **__: Any) -> Callable[[Any], Any]:
    """Return a decorator that does nothing."""
    return lambda function: function


def deprecatedclassproperty(*_: Any, **__: Any) -> Callable[[Any], Any]:
    """Return a decorator that makes a function a property of its class."""
    return classproperty


def make_postponed_constant(maker: Callable[[], Any]) -> Node:
    """Call a function, and return a Constant of the tensor that it returns."""
    return make_constant(maker())


class classproperty:  # noqa: N801
    """A property of a class.

    Args:
        function: The getter.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.function(owner)
