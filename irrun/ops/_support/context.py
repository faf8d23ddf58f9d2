"""Arguments that the runtime passes to kernels besides inputs and attributes.

A kernel requests such an argument by a keyword-only parameter that is annotated with its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from irrun.element_types import ElementType
from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array
from irrun.shapes import PartialShape

__all__ = [
    "BackEdgeDescription",
    "BodyRunner",
    "Declaration",
    "InputDescription",
    "InputShapes",
    "OutputCount",
    "OutputDescription",
    "State",
    "Variables",
]

#: Dimensions, None for dynamic ones.
DeclaredShape = tuple[int | None, ...]


class InputDescription(NamedTuple):
    """An `input` entry of a port map, with positions instead of ids.

    Attributes:
        port: Index of the layer's input; -1 if the file names none (the current iteration).
        parameter: Index of the body's Parameter.
        axis: The axis to slice, or None for the whole value.
        start: Index of the first element on the axis.
        end: Index of the last element on the axis.
        stride: Distance between neighboring slices; negative for the reverse order.
        part_size: Length of a slice.
        purpose: "current_iteration" or "".
    """

    port: int
    parameter: int
    axis: int | None = None
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1
    purpose: str = ""


class OutputDescription(NamedTuple):
    """An `output` entry of a port map, with positions instead of ids.

    Attributes:
        port: Index of the layer's output; -1 if the file names none (the execution condition).
        result: Index of the body's Result.
        axis: The axis along which the iterations are concatenated, or None for the value of the last iteration.
        start: Index of the first element on the axis.
        end: Index of the last element on the axis.
        stride: Distance between neighboring slices; negative for the reverse order.
        part_size: Length of a slice.
        purpose: "execution_condition" or "".
    """

    port: int
    result: int
    axis: int | None = None
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1
    purpose: str = ""


class BackEdgeDescription(NamedTuple):
    """A back edge, with positions instead of ids.

    Attributes:
        result: Index of the body's Result.
        parameter: Index of the body's Parameter that receives its value in the next iteration.
    """

    result: int
    parameter: int


def _ignore(count: int | None) -> None:
    """Do nothing with a number of iterations that no executor displays."""


class BodyRunner(NamedTuple):
    """A body that a kernel can run.

    Attributes:
        run: Takes one array per Parameter and the number of the iteration; returns the value of each Result, in order.
        parameter_count: Number of Parameters of the body.
        output_count: Number of outputs of the layer.
        inputs: The inputs of the port map.
        outputs: The outputs of the port map.
        back_edges: The back edges.
        output_shapes: Declared shape of each output of the layer; None if the rank is dynamic.
        result_shapes: Declared shape of each Result.
        result_dtypes: Declared type of each Result.
        parameter_shapes: Declared shape of each Parameter.
        parameter_dtypes: Declared type of each Parameter.
        constant_results: The Results that are constant, by their index.
        expect_iterations: Takes the number of iterations that follow, for a display; None if it is not known.
        is_measured: Whether the layers of the body are measured one by one.
    """

    run: Callable[[Sequence[Array | None], int], list[Array]]
    parameter_count: int
    output_count: int
    inputs: tuple[InputDescription, ...] = ()
    outputs: tuple[OutputDescription, ...] = ()
    back_edges: tuple[BackEdgeDescription, ...] = ()
    output_shapes: tuple[DeclaredShape | None, ...] = ()
    result_shapes: tuple[DeclaredShape | None, ...] = ()
    result_dtypes: tuple[np.dtype[Any] | None, ...] = ()
    parameter_shapes: tuple[DeclaredShape | None, ...] = ()
    parameter_dtypes: tuple[np.dtype[Any] | None, ...] = ()
    constant_results: Mapping[int, Array] = MappingProxyType({})
    expect_iterations: Callable[[int | None], None] = _ignore
    is_measured: bool = False


class OutputCount(int):
    """The number of outputs that a kernel must return: all up to the last one that is used."""


class InputShapes(tuple["PartialShape | None", ...]):
    """The declared shapes of the inputs, for operations whose results depend on which dimensions are dynamic."""

    def are_static(self, *positions: int) -> bool:
        """Return whether inputs are declared with static shapes.

        Args:
            positions: The inputs.
        """
        shapes = [self[i] if i < len(self) else None for i in positions]
        return all(shape is not None and shape.is_static for shape in shapes)


class State(dict[str, Any]):
    """The data that a layer of an infer request keeps between runs, such as a random number generator's counter."""


class Declaration(NamedTuple):
    """The declared type and shape of a variable.

    Attributes:
        type: The element type, or None for any type.
        shape: The shape, or None for any shape.
    """

    type: ElementType | None
    shape: PartialShape | None

    def check(self, name: str, value: Array) -> None:
        """Check that a value has the declared type and shape.

        Args:
            name: Name of the variable.
            value: The value.

        Raises:
            InputError: It does not.
        """
        has_type = self.type is None or value.dtype == self.type.dtype
        if not has_type or (self.shape is not None and not self.shape.is_compatible(value.shape)):
            shape = "of any shape" if self.shape is None else str(self.shape)
            raise InputError(
                f"the value of variable {name!r} is {ElementType.of(value.dtype)} {list(value.shape)}, "
                f"expected {self.type or 'any type'} {shape}"
            )

    def make_zeros(self) -> Array:
        """Return zeros of the declared type, by default f32, with the lower bounds of the declared shape.

        Raises:
            InputError: They would exceed the memory limit.
        """
        shape = () if self.shape is None else self.shape.get_min_shape()
        dtype = np.dtype(np.float32) if self.type is None else self.type.dtype
        check_allocation(shape, dtype)
        return np.zeros(shape, dtype)


@dataclass
class Variables:
    """The variables of one infer request, which ReadValue reads and Assign writes.

    Attributes:
        values: Current values by variable_id. A variable that was never written, or was reset, is absent.
        declarations: Declarations of ReadValue by variable_id.
        buffers: Arrays with room for variables that grow, by variable_id. Only the runtime refers to them, so that a
            value may remain a view of its buffer.
        appended: The last view of each buffer, from the beginning on.
    """

    values: dict[str, Array] = field(default_factory=dict)
    declarations: dict[str, Declaration] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)
    appended: dict[str, Array] = field(default_factory=dict)
