"""The input of a conversion: a legacy layer with its attributes, blobs and inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError
from irrun.ir.graph import Layer, Port
from irrun.ir.weights import Weights
from irrun.numerals import parse_float, parse_integer

__all__ = ["BOOLEAN", "F32", "I32", "I64", "Blob", "LegacyLayer", "PortDeclaration", "Shape", "Value"]

F32, I32, I64, BOOLEAN = (ELEMENT_TYPES[name] for name in ("f32", "i32", "i64", "boolean"))

#: A static shape; None if it is unknown.
Shape = tuple[int, ...] | None


@dataclass(frozen=True)
class Value:
    """An output port of a layer of the new graph.

    Attributes:
        layer: The layer.
        port: The output port.
    """

    layer: Layer
    port: Port

    @property
    def element_type(self) -> ElementType | None:
        """The element type."""
        return self.port.element_type

    @property
    def shape(self) -> Shape:
        """The static shape, or None."""
        declared = self.port.shape
        if declared is None or not declared.is_static:
            return None
        return tuple(int(d) for d in declared if isinstance(d, int))


@dataclass(frozen=True)
class PortDeclaration:
    """The declaration of a port in a legacy file.

    Attributes:
        element_type: The element type that computations use.
        shape: The shape.
        explicit: Whether the port itself states its precision (IR v7), instead of only the layer.
    """

    element_type: ElementType | None
    shape: tuple[int, ...]
    explicit: bool


@dataclass(frozen=True)
class Blob:
    """A segment of the weights.

    Attributes:
        element_type: The element type.
        offset: The position of the first byte.
        size: The number of bytes.
    """

    element_type: ElementType
    offset: int
    size: int

    @property
    def count(self) -> int:
        """The number of elements."""
        return self.size * 8 // self.element_type.bits


_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no", ""})


@dataclass
class LegacyLayer:
    """A layer of a legacy file, with its inputs as values of the new graph.

    The methods that read an attribute accept several names and use the first one that the layer has. An attribute
    without a default is required.

    Attributes:
        name: The name.
        type: The type, in its documented spelling.
        version: The IR version of the file.
        line: The line in the file.
        attributes: The attributes, as text.
        inputs: The values of the input ports, in order.
        declared_inputs: The declarations of the input ports.
        outputs: The declarations of the output ports.
        blobs: The blobs by name, such as "weights", "biases" and "custom".
        weights: The weights of the model.
    """

    name: str
    type: str
    version: int
    line: int
    attributes: dict[str, str]
    inputs: list[Value] = field(default_factory=list)
    declared_inputs: list[PortDeclaration] = field(default_factory=list)
    outputs: list[PortDeclaration] = field(default_factory=list)
    blobs: dict[str, Blob] = field(default_factory=dict)
    weights: Weights = field(default_factory=Weights)

    def make_error(self, message: str) -> ModelError:
        """Return an error that names this layer."""
        return ModelError(message, line=self.line or None, layer=f"layer {self.name!r} ({self.type}, legacy)")

    def has_attribute(self, *names: str) -> bool:
        """Return whether the layer has one of the attributes."""
        return any(n in self.attributes for n in names)

    def get_text(self, *names: str, default: str | None = None) -> str:
        """Return an attribute as text.

        Raises:
            ModelError: A required attribute is missing.
        """
        return str(self._convert(names, default, str.strip, "text"))

    def get_int(self, *names: str, default: int | None = None) -> int:
        """Return an attribute as an integer.

        Raises:
            ModelError: The attribute is required but missing, or is not an integer.
        """
        return int(self._convert(names, default, _parse_int, "an integer"))

    def get_float(self, *names: str, default: float | None = None) -> float:
        """Return an attribute as a float.

        Raises:
            ModelError: The attribute is required but missing, or is not a number.
        """
        return float(self._convert(names, default, float, "a number"))

    def get_bool(self, *names: str, default: bool = False) -> bool:
        """Return an attribute as a boolean.

        Raises:
            ModelError: The attribute is not a boolean.
        """
        return bool(self._convert(names, default, _parse_bool, "a boolean"))

    def get_ints(self, *names: str, default: Sequence[int] | None = None) -> list[int]:
        """Return an attribute as a list of integers.

        Raises:
            ModelError: The attribute is required but missing, or is not a list of integers.
        """
        return list(
            self._convert(names, default, lambda t: [_parse_int(x) for x in _split_list(t)], "a list of integers")
        )

    def get_floats(self, *names: str, default: Sequence[float] | None = None) -> list[float]:
        """Return an attribute as a list of floats.

        Raises:
            ModelError: The attribute is required but missing, or is not a list of numbers.
        """
        return list(
            self._convert(names, default, lambda t: [parse_float(x) for x in _split_list(t)], "a list of numbers")
        )

    def read(self, **fields: Any) -> dict[str, Any]:
        """Return several attributes.

        Args:
            fields: The default of each attribute, which determines its type. For a required attribute, the type: int,
                float, str, list[int] or list[float].

        Raises:
            ModelError: A required attribute is missing, or the text of an attribute is not of its type.
        """
        readers: dict[object, Callable[..., Any]] = {
            bool: self.get_bool,
            int: self.get_int,
            float: self.get_float,
            str: self.get_text,
            list[int]: self.get_ints,
            list[float]: self.get_floats,
        }
        values = {}
        for name, field_ in fields.items():
            if isinstance(field_, (type, GenericAlias)):
                values[name] = readers[field_](name)
            else:
                kind = list[type(field_[0])] if isinstance(field_, list) else type(field_)  # type: ignore[misc]
                values[name] = readers[kind](name, default=field_)
        return values

    def get_axis(self, rank: int, *names: str, default: int | None = None) -> int:
        """Return an attribute as an axis in [0, rank).

        Args:
            rank: The rank of the tensor.
            names: Names of the attribute; "axis" if there are none.
            default: The default value.

        Raises:
            ModelError: The attribute is required but missing, is not an integer, or is not in [-rank, rank).
        """
        axis = self.get_int(*(names or ("axis",)), default=default)
        if not -rank <= axis < rank:
            raise self.make_error(f"axis {axis} is out of range [{-rank}, {rank - 1}]")
        return axis % rank

    def get_input(self, position: int = 0) -> Value:
        """Return the value of an input port.

        Raises:
            ModelError: The port does not exist.
        """
        if position >= len(self.inputs):
            raise self.make_error(f"has {len(self.inputs)} inputs, requires at least {position + 1}")
        return self.inputs[position]

    def get_input_shape(self, position: int = 0) -> tuple[int, ...]:
        """Return the declared shape of an input port.

        Raises:
            ModelError: The port does not exist.
        """
        self.get_input(position)
        return self.declared_inputs[position].shape

    def get_output_shape(self, position: int = 0) -> tuple[int, ...]:
        """Return the declared shape of an output port.

        Raises:
            ModelError: The port does not exist.
        """
        if position >= len(self.outputs):
            raise self.make_error(f"has {len(self.outputs)} outputs, requires at least {position + 1}")
        return self.outputs[position].shape

    def get_output_type(self, position: int = 0) -> ElementType:
        """Return the declared element type of an output port; f32 if it is not declared."""
        declared = self.outputs[position].element_type if position < len(self.outputs) else None
        return declared or F32

    def _convert(self, names: Sequence[str], default: Any, convert: Callable[[str], Any], description: str) -> Any:
        text = next((self.attributes[n] for n in names if n in self.attributes), None)
        if text is None or (not text.strip() and default is not None):
            if default is None:
                raise self.make_error(f"requires the attribute {names[0]}")
            return default
        try:
            return convert(text)
        except (ValueError, OverflowError):
            raise self.make_error(f"attribute {names[0]}={text!r} is not {description}") from None


def _split_list(text: str) -> list[str]:
    return [part for part in text.replace(" ", ",").split(",") if part]


def _parse_int(text: str) -> int:
    try:
        return parse_integer(text)
    except ValueError:
        number = parse_float(text)
        if number != int(number):
            raise
        return int(number)


def _parse_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    return bool(parse_float(text))
