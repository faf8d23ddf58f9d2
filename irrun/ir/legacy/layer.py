"""An old layer, as its conversion sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from irrun.element_types import ELEMENT_TYPES, ElementType
from irrun.errors import ModelError
from irrun.ir.model import Layer, Port
from irrun.ir.weights import Weights

__all__ = ["BOOLEAN", "F32", "I32", "I64", "Blob", "Declared", "LegacyLayer", "Shape", "Value"]

F32, I32, I64, BOOLEAN = (ELEMENT_TYPES[name] for name in ("f32", "i32", "i64", "boolean"))

Shape = tuple[int, ...] | None


@dataclass(frozen=True)
class Value:
    """An output port of a layer of the new graph."""

    layer: Layer
    port: Port

    @property
    def type(self) -> ElementType | None:
        return self.port.element_type

    @property
    def shape(self) -> Shape:
        """The static shape, or None."""
        declared = self.port.shape
        if declared is None or not declared.is_static:
            return None
        return tuple(int(d) for d in declared if isinstance(d, int))


@dataclass(frozen=True)
class Declared:
    """What an old file says of a port: its type as arithmetic sees it, its shape.

    Attributes:
        explicit: whether the port itself names its precision (IR v7), rather than the layer.
    """

    type: ElementType | None
    shape: tuple[int, ...]
    explicit: bool = False


@dataclass(frozen=True)
class Blob:
    """A segment of the .bin."""

    type: ElementType
    offset: int
    size: int

    @property
    def count(self) -> int:
        return self.size * 8 // self.type.bits


_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no", ""})


@dataclass
class LegacyLayer:
    """A layer of an old file, with its inputs as values of the new graph.

    Attributes:
        version: the IR version of its file.
        inputs: in the order of its input ports.
        declared_inputs, outputs: what the file says of its ports.
        blobs: by name: "weights", "biases", "custom".
        weights: the .bin.
    """

    name: str
    kind: str
    version: int
    line: int
    attributes: dict[str, str]
    inputs: list[Value] = field(default_factory=list)
    declared_inputs: list[Declared] = field(default_factory=list)
    outputs: list[Declared] = field(default_factory=list)
    blobs: dict[str, Blob] = field(default_factory=dict)
    weights: Weights = field(default_factory=Weights)

    def error(self, message: str) -> ModelError:
        return ModelError(message, line=self.line or None, layer=f"layer {self.name!r} ({self.kind}, legacy)")

    def has(self, *names: str) -> bool:
        return any(n in self.attributes for n in names)

    def _find(self, names: Sequence[str]) -> str | None:
        return next((self.attributes[n] for n in names if n in self.attributes), None)

    def _convert(self, names: Sequence[str], default: Any, convert: Callable[[str], Any], what: str) -> Any:
        text = self._find(names)
        if text is None or (not text.strip() and default is not None):
            if default is None:
                raise self.error(f"needs the attribute {names[0]}")
            return default
        try:
            return convert(text)
        except (ValueError, OverflowError):
            raise self.error(f"attribute {names[0]}={text!r} is not {what}") from None

    def text(self, *names: str, default: str | None = None) -> str:
        """The first of these attributes that is there; without a default one has to be."""
        return str(self._convert(names, default, str.strip, "text"))

    def integer(self, *names: str, default: int | None = None) -> int:
        return int(self._convert(names, default, _int, "an integer"))

    def number(self, *names: str, default: float | None = None) -> float:
        return float(self._convert(names, default, float, "a number"))

    def flag(self, *names: str, default: bool = False) -> bool:
        return bool(self._convert(names, default, _flag, "a boolean"))

    def integers(self, *names: str, default: Sequence[int] | None = None) -> list[int]:
        return list(self._convert(names, default, lambda t: [_int(x) for x in _parts(t)], "a list of integers"))

    def numbers(self, *names: str, default: Sequence[float] | None = None) -> list[float]:
        return list(self._convert(names, default, lambda t: [float(x) for x in _parts(t)], "a list of numbers"))

    def input(self, position: int) -> Value:
        """The value of an input port.

        Raises:
            ModelError: there is no such port.
        """
        if position >= len(self.inputs):
            raise self.error(f"has {len(self.inputs)} inputs, needs at least {position + 1}")
        return self.inputs[position]

    def in_shape(self, position: int = 0) -> tuple[int, ...]:
        """The shape that the file declares for an input port."""
        self.input(position)
        return self.declared_inputs[position].shape

    def out_shape(self, position: int = 0) -> tuple[int, ...]:
        """The shape that the file declares for an output port."""
        if position >= len(self.outputs):
            raise self.error(f"has {len(self.outputs)} outputs, needs at least {position + 1}")
        return self.outputs[position].shape

    def out_type(self, position: int = 0) -> ElementType:
        found = self.outputs[position].type if position < len(self.outputs) else None
        return found or F32

    def axis(self, rank: int, *names: str, default: int | None = None) -> int:
        """An axis attribute, counted from the front."""
        axis = self.integer(*(names or ("axis",)), default=default)
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} is outside of rank {rank}")
        return axis % rank


def _parts(text: str) -> list[str]:
    return [part for part in text.replace(" ", ",").split(",") if part]


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number != int(number):
            raise
        return int(number)


def _flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    return bool(float(text))
