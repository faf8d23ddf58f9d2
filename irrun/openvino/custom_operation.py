"""Operations that programs define in Python: `Op` and `OpExtension`."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from irrun.openvino.dimension import Dimension
from irrun.openvino.element_type import Type, to_element_type
from irrun.openvino.node import DiscreteTypeInfo, Node, Output, PortData, as_output
from irrun.openvino.shape import PartialShape, Shape
from irrun.openvino.tensor import Tensor
from irrun.ops._support.operation import Operation

__all__ = [
    "AttributeVisitor",
    "Extension",
    "Op",
    "OpExtension",
    "is_tokenizers_library",
    "make_operation",
    "make_operations",
]


def is_tokenizers_library(extension: Any) -> bool:
    """Return whether an extension is the library of OpenVINO Tokenizers, whose operations irrun has."""
    return isinstance(extension, (str, os.PathLike)) and "openvino_tokenizers" in Path(extension).stem


class Extension:
    """An extension that `Core.add_extension` accepts."""


class OpExtension(Extension):
    """An operation as an extension.

    Args:
        operation: A class derived from `Op`.

    Raises:
        RuntimeError: It is another class.
        TypeError: It is not a class.
    """

    def __repr__(self) -> str:
        return "<OpExtension>"

    def __init__(self, operation: Any) -> None:
        if not isinstance(operation, type):
            raise TypeError(f"OpExtension(): incompatible constructor arguments. Invoked with: {operation!r}")
        if not issubclass(operation, Op):
            raise RuntimeError(
                f"Unsupported data type : '{operation}' is passed as an argument. expected a class derived from "
                "openvino.Op"
            )
        self.operation = operation


class AttributeVisitor:
    """Collects the attributes that operations pass to it.

    Attributes:
        attributes: The attributes by name, as files contain them.
    """

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}

    def on_attributes(self, attributes: MutableMapping[str, Any]) -> None:
        """Collect attributes, and replace arrays by lists. Models are left out.

        Args:
            attributes: Numbers, texts, dimensions, shapes and types by name, and lists and arrays of them.

        Raises:
            TypeError: An attribute is of another type.
        """
        for name, value in list(attributes.items()):
            if isinstance(value, np.ndarray):
                if value.dtype.kind not in "biufSU":
                    raise TypeError(f"Unsupported NumPy array dtype: {value.dtype}")
                value = attributes[name] = value.tolist()
            if isinstance(value, (list, tuple)):
                for item in value:
                    if not isinstance(item, (bool, int, float, str, np.generic)):
                        raise TypeError(f"Unsupported attribute type in provided list: {type(item)}")
                self.attributes[name] = list(value)
            elif isinstance(value, (bool, int, float, str)):
                self.attributes[name] = value
            elif isinstance(value, (Dimension, PartialShape, Shape, Type)):
                self.attributes[name] = value.to_string()
            elif not hasattr(value, "get_ordered_ops"):
                raise TypeError(f"Unsupported attribute type: {type(value)}")


class Op(Node):
    """Base class of operations defined in Python.

    A derived class overrides `validate_and_infer_types`, `evaluate`, and `visit_attributes` if it has attributes.

    Args:
        py_obj: The instance itself.
        inputs: The inputs.
    """

    class_type_info = DiscreteTypeInfo("Op", "extension")

    def __init__(self, py_obj: Any = None, inputs: Any = None) -> None:
        super().__init__(_get_name(type(self)), "extension")
        self._ports = []
        self._implementation = self
        if isinstance(inputs, tuple):
            inputs = list(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], list) else list(inputs) or None
        if inputs is not None:
            self.set_arguments([as_output(i) for i in inputs])
            self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self) -> None:
        """Declare the outputs. By default the only output is like the first input."""
        source = self._sources[0] if self._sources else None
        if source is not None:
            self.set_output_type(0, source.element_type, source.partial_shape)

    def constructor_validate_and_infer_types(self) -> None:
        """Call `validate_and_infer_types`."""
        self.validate_and_infer_types()

    def set_output_size(self, size: int) -> None:
        """Set the number of outputs."""
        while len(self._ports) < size:
            self._ports.append(PortData())
        del self._ports[size:]

    def set_output_type(self, index: int, element_type: Any, shape: Any) -> None:
        """Declare an output."""
        self.set_output_size(max(len(self._ports), index + 1))
        self._ports[index].element_type = to_element_type(element_type)
        self._ports[index].shape = PartialShape(shape)._to_irrun()

    def visit_attributes(self, visitor: Any) -> bool:
        """Pass the attributes to a visitor, see `AttributeVisitor`."""
        return True

    def get_attributes(self) -> dict[str, Any]:
        """Return the attributes that `visit_attributes` passes on.

        Raises:
            TypeError: An attribute cannot be stored.
        """
        visitor = AttributeVisitor()
        self.visit_attributes(visitor)
        return {**super().get_attributes(), **visitor.attributes}

    def has_evaluate(self) -> bool:
        """Return whether `evaluate` is overridden."""
        return type(self).evaluate is not Node.evaluate


def make_operation(extension: Any) -> Operation:
    """Return the operation of an extension.

    Raises:
        RuntimeError: The extension is a compiled library, of another type, or cannot be created without inputs.
    """
    if isinstance(extension, Operation):
        return extension
    if isinstance(extension, OpExtension):
        extension = extension.operation
    if not (isinstance(extension, type) and issubclass(extension, Op)):
        raise RuntimeError(
            f"Unsupported data type : '{extension}' is passed as an argument. irrun runs operations "
            "written in Python only, expected a "
            "class derived from openvino.Op or an irrun.Operation"
        )
    operation_class: Any = extension
    try:
        type_info = operation_class().get_type_info()
    except TypeError as error:
        raise RuntimeError(f"Creation of OpExtension failed: TypeError: {error}") from error
    if not isinstance(type_info, DiscreteTypeInfo):
        raise RuntimeError(
            f"operation type_info must be an instance of DiscreteTypeInfo, but {type(type_info)} is passed."
        )
    return _make_operation(_get_name(operation_class), "extension", operation_class)


def _get_name(operation_class: type[Op]) -> str:
    """Return the name that a class derived from `Op` states, or its own."""
    name = getattr(operation_class.class_type_info, "name", "Op")
    return operation_class.__name__ if name == "Op" else str(name)


@contextmanager
def make_operations(nodes: Iterable[Node]) -> Iterator[list[Operation]]:
    """Return an operation for each node that was created from a class derived from `Op`.

    For the duration of the block, each node has a unique version, so that it runs the `evaluate` of its instance.

    Args:
        nodes: The nodes of a model.
    """
    custom = [node for node in nodes if node._implementation is not None]
    operations: list[Operation] = []
    try:
        for i, node in enumerate(custom):
            node._version = f"extension{i}"
            operations.append(_make_operation(node._type, node._version, None, node._implementation))
        yield operations
    finally:
        for node in custom:
            node._version = "extension"


def _make_operation(
    name: str, version: str, operation_class: Callable[[], Any] | None, instance: Any = None
) -> Operation:
    """Return an operation that runs the `evaluate` of a class derived from `Op`.

    Args:
        name: The type of the operation.
        version: Its version.
        operation_class: The class; each run creates an instance.
        instance: An instance that all runs use instead of a class.
    """

    def run(*inputs: Any) -> Any:
        """Compute the operation with `evaluate`."""
        node = copy.copy(instance) if operation_class is None else operation_class()
        node._sources, node._ports = [], [PortData() for _ in node._ports]
        parameters = [_make_input(value) for value in inputs]
        node.set_arguments([Output(parameter, 0) for parameter in parameters])
        node.validate_and_infer_types()
        outputs = []
        for port in node.outputs():
            shape = port.partial_shape
            outputs.append(Tensor(port.element_type, shape.to_shape() if shape.is_static else [0]))
        tensors = [_share(np.asarray(value)) for value in inputs]
        if not (node if instance is None else instance).evaluate(outputs, tensors):
            raise RuntimeError(f"evaluate() of {name} failed")
        return tuple(tensor._to_values() for tensor in outputs)

    return Operation.from_function(run, name, opset=version)


def _share(values: np.ndarray[Any, Any]) -> Tensor:
    element_type = to_element_type(values.dtype)
    assert element_type is not None
    return Tensor._from_values(np.ascontiguousarray(values), element_type)


def _make_input(value: Any) -> Node:
    from irrun.openvino.factories import make_parameter

    return make_parameter(list(value.shape), value.dtype)
