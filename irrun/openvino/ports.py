"""Inputs and outputs of nodes."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from irrun import shapes
from irrun.element_types import ElementType
from irrun.ir.constant import Constant
from irrun.ir.graph import Body
from irrun.openvino.element_type import Type, to_type
from irrun.openvino.getters import from_getter
from irrun.openvino.layout import Layout
from irrun.openvino.named import Named
from irrun.openvino.runtime_info import RTMap
from irrun.openvino.shape import PartialShape, Shape

if TYPE_CHECKING:
    from irrun.ops.shape_rules import Value

__all__ = [
    "ConstOutput",
    "DescriptorTensor",
    "DiscreteTypeInfo",
    "Input",
    "NodeData",
    "Output",
    "PortData",
    "as_output",
]


class PortData:
    """The inferred facts about an output of a node.

    Attributes:
        element_type: The element type; None if it is dynamic.
        shape: The shape; None if its rank is dynamic.
        names: The tensor names.
        rt_info: Runtime information.
        rt_info_text: The `rt_info` element of the port in the file, or None.
        value: The inferred facts about its value, for inferring shapes; None if it was not inferred.
        stated: Bounds and symbols of its elements that were set, by name. No shape rule reads them.
    """

    __slots__ = ("element_type", "names", "rt_info", "rt_info_text", "shape", "stated", "value")

    def __init__(
        self,
        element_type: ElementType | None = None,
        shape: shapes.PartialShape | None = None,
        names: Iterable[str] = (),
        rt_info_text: str | None = None,
    ) -> None:
        self.element_type = element_type
        self.shape = shape
        self.names = set(names)
        self.rt_info: dict[str, Any] = {}
        self.rt_info_text = rt_info_text
        self.value: Value | None = None
        self.stated: dict[str, Any] = {}


_counter = itertools.count(1)


def skip_number() -> None:
    """Take the number of a node that does not exist, so that the next names match OpenVINO's."""
    next(_counter)


class NodeData(Named):
    """The connections of a node; `Node` adds the methods of OpenVINO's class.

    Args:
        node_type: The type, such as "Add".
        version: The opset, such as "opset1".
        arguments: The values of the inputs; None for an optional input that is not connected.
        attributes: The attributes, as texts or Python values.
        name: The friendly name; by default it is derived from the type.
    """

    _id: int

    def __init__(
        self,
        node_type: str,
        version: str,
        arguments: Sequence[Output | None] = (),
        attributes: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._id = next(_counter)
        self._type = node_type
        self._version = version
        self._attributes: dict[str, Any] = dict(attributes or {})
        self._name = f"{node_type}_{self._id}"
        self._friendly_name = name
        self._ports: list[PortData] = [PortData()]
        self._bodies: dict[str, Body] = {}
        #: Positions of the ports of inputs and outputs by the ids that the port maps of the bodies use.
        self._body_port_ids: tuple[dict[int, int], dict[int, int]] | None = None
        self._constant: Constant | None = None
        self._rt_info: dict[str, Any] = {}
        self._rt_info_text: str | None = None
        self._layout = Layout()
        self._line = 0
        #: The instance of a class derived from `Op` that computes the node.
        self._implementation: Any = None
        self._consumers: weakref.WeakValueDictionary[int, NodeData] = weakref.WeakValueDictionary()
        self._sources: list[Output | None] = []
        for argument in arguments:
            self._sources.append(None)
            self._set_source(len(self._sources) - 1, argument)

    def _set_source(self, index: int, source: Output | None) -> None:
        self._sources[index] = source
        if source is not None:
            source._node._consumers[self._id] = self

    def _get_port(self, index: int) -> PortData:
        """Return the facts about an output. A Result shares the data of its source."""
        if self._type == "Result" and self._sources and self._sources[0] is not None:
            return self._sources[0]._data
        return self._ports[index]

    def _get_only_output(self) -> Output:
        if len(self._ports) != 1:
            raise RuntimeError(f"{self!r} has {len(self._ports)} outputs, expected one")
        return Output(self, 0)

    def validate_and_infer_types(self) -> None:
        """Infer element types and shapes of the outputs."""
        raise NotImplementedError


class DiscreteTypeInfo:
    """The type of a node.

    Attributes:
        name: The type, such as "Add".
        version_id: The opset, such as "opset1".
    """

    def __init__(self, name: str, version_id: str) -> None:
        self.name = name
        self.version_id = version_id

    def __repr__(self) -> str:
        return f"<DiscreteTypeInfo: {self.name} {self.version_id}>"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, DiscreteTypeInfo)
        return same and (self.name, self.version_id) == (other.name, other.version_id)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.name, self.version_id))


class _Port:
    """The base of inputs and outputs.

    Args:
        node: The node.
        index: The number of the port.
    """

    def __init__(self, node: NodeData, index: int) -> None:
        self._node = node
        self._index = index

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __lt__(self, other: _Port) -> bool:
        return self._key < other._key

    def __le__(self, other: _Port) -> bool:
        return self._key <= other._key

    def __gt__(self, other: _Port) -> bool:
        return self._key > other._key

    def __ge__(self, other: _Port) -> bool:
        return self._key >= other._key

    @property
    def _key(self) -> tuple[int, int]:
        return self._node._id, self._index

    @property
    def _data(self) -> PortData:
        raise NotImplementedError

    def get_node(self) -> Any:
        """Return the node."""
        return self._node

    node = from_getter(get_node)

    def get_index(self) -> int:
        """Return the number of the port."""
        return self._index

    index = from_getter(get_index)

    def get_element_type(self) -> Type:
        """Return the element type."""
        return to_type(self._data.element_type)

    element_type = from_getter(get_element_type)

    def get_partial_shape(self) -> PartialShape:
        """Return the shape, which may be dynamic."""
        return PartialShape._from_irrun(self._data.shape)

    partial_shape = from_getter(get_partial_shape)

    def get_shape(self) -> Shape:
        """Return the static shape.

        Raises:
            RuntimeError: The shape is dynamic.
        """
        return self.partial_shape.to_shape()

    shape = from_getter(get_shape)

    def get_rt_info(self) -> RTMap:
        """Return runtime information."""
        return RTMap(self._data.rt_info)

    rt_info = from_getter(get_rt_info)

    def set_rt_info(self, value: Any, key: str) -> None:
        """Set runtime information."""
        self.rt_info[key] = value

    def get_tensor(self) -> DescriptorTensor:
        """Return the description of the tensor."""
        return DescriptorTensor(self)

    tensor = from_getter(get_tensor)

    def _describe(self) -> str:
        return f"shape{self.partial_shape} type: {self.element_type.to_string()}"


class ConstOutput(_Port):
    """An output of a node, or an input or output of a compiled model."""

    @property
    def _data(self) -> PortData:
        return self._node._get_port(self._index)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: names[{', '.join(sorted(self.names))}] {self._describe()}>"

    def __copy__(self) -> ConstOutput:
        return type(self)(self._node, self._index)

    def __deepcopy__(self, memo: object) -> ConstOutput:
        raise TypeError(f"cannot deepcopy '{type(self).__module__}.{type(self).__name__}' object.")

    def get_names(self) -> set[str]:
        """Return the tensor names."""
        own = self._node._ports[0].names if self._node._type == "Result" else ()
        return set(own or self._data.names)

    names = from_getter(get_names)

    def get_any_name(self) -> str:
        """Return one of the tensor names.

        Raises:
            RuntimeError: The tensor has no name.
        """
        return _get_any(self.names)

    any_name = from_getter(get_any_name)

    def get_target_inputs(self) -> set[Input]:
        """Return the inputs that this output is connected to."""
        return {
            Input(consumer, i)
            for consumer in list(self._node._consumers.values())
            for i, source in enumerate(consumer._sources)
            if source is not None and source._key == self._key
        }

    target_inputs = from_getter(get_target_inputs)


class Output(ConstOutput):
    """An output of a node, which can be edited."""

    def set_names(self, names: set[str]) -> None:
        """Replace the tensor names. The names of a Result are added to the names of its source.

        Raises:
            TypeError: The names are not a set.
        """
        _set_names(self, names)

    def add_names(self, names: set[str]) -> None:
        """Add tensor names; see `set_names`."""
        _add_names(self, names)

    def replace(self, replacement: Output) -> None:
        """Connect all inputs of this output to another one, which gets its names too."""
        for target in self.get_target_inputs():
            target.replace_source_output(replacement)
        replacement._data.names |= self._data.names

    def remove_target_input(self, target_input: Input) -> None:
        """Disconnect an input."""
        target_input._node._set_source(target_input._index, None)


class Input(_Port):
    """An input of a node."""

    @property
    def _data(self) -> PortData:
        source = self._node._sources[self._index]
        return PortData() if source is None else source._data

    def __repr__(self) -> str:
        return f"<Input: {self._describe()}>"

    def get_source_output(self) -> Output:
        """Return the output that this input is connected to."""
        source = self._node._sources[self._index]
        if source is None:
            raise RuntimeError(f"Input {self._index} of {self._node.get_friendly_name()} is not connected")
        return source

    def replace_source_output(self, new_source_output: Output) -> None:
        """Connect the input to another output. The names of a Result move to its new source."""
        output, source = as_output(new_source_output), self._node._sources[self._index]
        if self._node._type == "Result" and source is not None:
            names = self._node._ports[0].names
            source._data.names -= names
            output._data.names |= names
        self._node._set_source(self._index, output)


class DescriptorTensor:
    """The description of the tensor of a port.

    Args:
        port: The port.
    """

    def __init__(self, port: _Port) -> None:
        self._port = port

    def __repr__(self) -> str:
        return f"<DescriptorTensor: names[{', '.join(sorted(self.names))}] {self._port._describe()}>"

    def get_names(self) -> set[str]:
        """Return the tensor names."""
        return self._port.names if isinstance(self._port, ConstOutput) else set(self._port._data.names)

    def set_names(self, names: set[str]) -> None:
        """Replace the tensor names; see `Output.set_names`."""
        _set_names(self._port, names)

    names = from_getter(get_names, set_names)

    def add_names(self, names: set[str]) -> None:
        """Add tensor names; see `Output.set_names`."""
        _add_names(self._port, names)

    def get_any_name(self) -> str:
        """Return one of the tensor names.

        Raises:
            RuntimeError: The tensor has no name.
        """
        return _get_any(self.names)

    any_name = from_getter(get_any_name)

    def get_element_type(self) -> Type:
        """Return the element type."""
        return self._port.element_type

    element_type = from_getter(get_element_type)

    def get_partial_shape(self) -> PartialShape:
        """Return the shape, which may be dynamic."""
        return self._port.partial_shape

    partial_shape = from_getter(get_partial_shape)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return (math.prod(self.shape) * self.element_type.bitwidth + 7) // 8

    def get_lower_value(self) -> Any:
        """Return the tensor of lower bounds that was set."""
        return self._get_stated("lower")

    def set_lower_value(self, value: Any) -> None:
        """Set a tensor of lower bounds."""
        self._port._data.stated["lower"] = value

    def get_upper_value(self) -> Any:
        """Return the tensor of upper bounds that was set."""
        return self._get_stated("upper")

    def set_upper_value(self, value: Any) -> None:
        """Set a tensor of upper bounds."""
        self._port._data.stated["upper"] = value

    def get_value_symbol(self) -> list[Any]:
        """Return the symbols of the elements that were set."""
        return list(self._port._data.stated.get("symbols", ()))

    def set_value_symbol(self, symbols: Iterable[Any]) -> None:
        """Set the symbols of the elements."""
        self._port._data.stated["symbols"] = list(symbols)

    def _get_stated(self, name: str) -> Any:
        if name not in self._port._data.stated:
            raise RuntimeError("Tensor was not initialized.")
        return self._port._data.stated[name]

    def get_shape(self) -> Shape:
        """Return the static shape."""
        return self._port.shape

    shape = from_getter(get_shape)

    def get_rt_info(self) -> RTMap:
        """Return runtime information."""
        return self._port.rt_info

    rt_info = from_getter(get_rt_info)


def _set_names(port: _Port, names: set[str]) -> None:
    """Replace the tensor names of a port; see `Output.set_names`."""
    if not isinstance(names, (set, frozenset)):
        raise TypeError(f"incompatible function arguments: expected a set of names. Invoked with: {names!r}")
    if isinstance(port, ConstOutput) and port._node._type == "Result":
        port._data.names -= port._node._ports[0].names
        port._data.names |= names
        port._node._ports[0].names = set(names)
    else:
        port._data.names = set(names)


def _add_names(port: _Port, names: set[str]) -> None:
    """Add tensor names to a port; see `_set_names`."""
    _set_names(port, {*names, *(port._node._ports[0].names if port._node._type == "Result" else port._data.names)})


def _get_any(names: set[str]) -> str:
    if not names:
        raise RuntimeError("Attempt to get a name for a Tensor without names")
    return min(names)


def as_output(value: Any) -> Output:
    """Return the output of a node, an output or an input of a compiled model.

    Raises:
        TypeError: `value` is none of them.
    """
    if isinstance(value, Output):
        return value
    if isinstance(value, ConstOutput):
        return Output(value._node, value._index)
    if isinstance(value, NodeData):
        return value._get_only_output()
    raise TypeError(f"expected a Node or an Output, found {type(value).__name__}")
