"""`NodeFactory`, which creates nodes by the name of their type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from irrun.openvino.custom_operation import Extension, OpExtension, is_tokenizers_library
from irrun.openvino.exceptions import UserInputError
from irrun.openvino.node import Node, create_node, make_unconnected_node
from irrun.openvino.ports import Output
from irrun.ops._support import registry

__all__ = ["DEFAULT_OPSET", "NodeFactory"]

DEFAULT_OPSET = "opset13"
#: The opset of the operations of OpenVINO Tokenizers.
TOKENIZERS_OPSET = "extension"

_OPSETS = {f"opset{n}" for n in range(1, 18)}


class NodeFactory:
    """Creates nodes of an opset, and of extensions written in Python.

    Args:
        opset_version: The name of the opset.

    Raises:
        RuntimeError: The opset does not exist.
    """

    def __init__(self, opset_version: str = DEFAULT_OPSET) -> None:
        if opset_version not in _OPSETS:
            raise RuntimeError(f"Unsupported opset version requested: {opset_version}")
        self._opset = opset_version
        self._operations: dict[str, Any] = {}
        self._has_tokenizers = False

    def create(
        self,
        op_type_name: str,
        arguments: Sequence[Node | Output] | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> Node:
        """Create a node.

        Args:
            op_type_name: The type, such as "Gather".
            arguments: The inputs. A node means all of its outputs. Without them, the node has no inputs and
                outputs until `set_arguments` and `validate_and_infer_types` are called.
            attributes: The attributes by name; others get their defaults.

        Raises:
            RuntimeError: The opset has no such operation, or the arguments do not fit it.
            UserInputError: There are attributes but no arguments.
        """
        if arguments is None and attributes is not None:
            raise UserInputError(f'Error: cannot create "{op_type_name}" op without arguments.')
        is_text = self._has_tokenizers and registry.find(op_type_name, TOKENIZERS_OPSET) is not None
        opset = TOKENIZERS_OPSET if is_text else self._opset
        if arguments is None and op_type_name not in self._operations:
            return make_unconnected_node(op_type_name, opset)
        outputs = self._arguments_as_outputs(arguments or ())
        if op_type_name in self._operations:
            node: Node = self._operations[op_type_name](*outputs)
            for name, value in (attributes or {}).items():
                node.set_attribute(name, value)
            return node
        return create_node(op_type_name, opset, outputs, attributes)

    @staticmethod
    def _arguments_as_outputs(arguments: Iterable[Node | Output]) -> list[Output]:
        """Return outputs, with all outputs of a node instead of the node."""
        return [o for a in arguments for o in ([a] if isinstance(a, Output) else a.outputs())]

    def add_extension(self, extension: Any) -> None:
        """Add operations.

        Args:
            extension: A class derived from `Op`, an `OpExtension`, the path of the library of OpenVINO Tokenizers, or
                a list of them.

        Raises:
            RuntimeError: The extension is another compiled library.
            TypeError: The extension is anything else.
        """
        if is_tokenizers_library(extension):
            self._has_tokenizers = True
            return
        if isinstance(extension, Iterable) and not isinstance(extension, str):
            for item in extension:
                self.add_extension(item)
            return
        operation = extension.operation if isinstance(extension, OpExtension) else extension
        if isinstance(operation, type) and issubclass(operation, Node):
            name = getattr(getattr(operation, "class_type_info", None), "name", "Op")
            self._operations[operation.__name__ if name == "Op" else name] = operation
        elif isinstance(extension, Extension) or hasattr(extension, "__fspath__") or isinstance(extension, str):
            raise RuntimeError(f"cannot add the extension {extension!r}: irrun runs operations written in Python only")
        else:
            raise TypeError(f"Unknown argument type: {type(extension)}")


def _get_node_factory(opset_version: str | None = None) -> NodeFactory:
    """Return a factory for the nodes of an opset."""
    return NodeFactory(opset_version or DEFAULT_OPSET)
