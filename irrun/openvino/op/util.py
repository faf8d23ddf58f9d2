"""Variables, the connections of bodies, and classes of nodes with common properties."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from irrun.openvino.ports import DiscreteTypeInfo
from irrun.openvino.variables import Variable as Variable
from irrun.openvino.variables import VariableInfo as VariableInfo

__all__ = [
    "ArithmeticReduction",
    "BinaryElementwiseArithmetic",
    "BinaryElementwiseComparison",
    "BinaryElementwiseLogical",
    "BodyOutputDescription",
    "ConcatOutputDescription",
    "IndexReduction",
    "InvariantInputDescription",
    "MergedInputDescription",
    "SliceInputDescription",
    "UnaryElementwiseArithmetic",
    "Variable",
    "VariableInfo",
]


_Description = TypeVar("_Description", bound="_BodyPort")


@dataclass(frozen=True, repr=False)
class _BodyPort:
    """A connection between a port of a loop and its body."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def copy(self: _Description) -> _Description:
        """Return a copy."""
        return replace(self)

    def get_type_info(self) -> DiscreteTypeInfo:
        """Return the class of the connection."""
        return DiscreteTypeInfo(type(self).__name__, "util")


@dataclass(frozen=True, repr=False)
class InvariantInputDescription(_BodyPort):
    """An input that all iterations get unchanged.

    Attributes:
        input_index: The number of the input.
        body_parameter_index: The number of the Parameter of the body.
    """

    input_index: int = 0
    body_parameter_index: int = 0


@dataclass(frozen=True, repr=False)
class MergedInputDescription(_BodyPort):
    """An input for the first iteration; later ones get a result of the one before.

    Attributes:
        input_index: The number of the input.
        body_parameter_index: The number of the Parameter of the body.
        body_value_index: The number of the Result of the body.
    """

    input_index: int = 0
    body_parameter_index: int = 0
    body_value_index: int = 0


@dataclass(frozen=True, repr=False)
class SliceInputDescription(_BodyPort):
    """An input, sliced for the iterations.

    Attributes:
        input_index: The number of the input.
        body_parameter_index: The number of the Parameter of the body.
        start: The start of the first slice.
        stride: The distance of the slices.
        part_size: The length of a slice.
        end: The end of the last slice, inclusive.
        axis: The axis.
    """

    input_index: int = 0
    body_parameter_index: int = 0
    start: int = 0
    stride: int = 0
    part_size: int = 0
    end: int = 0
    axis: int = 0


@dataclass(frozen=True, repr=False)
class BodyOutputDescription(_BodyPort):
    """An output that is a result of one iteration.

    Attributes:
        body_value_index: The number of the Result of the body.
        output_index: The number of the output.
        iteration: The iteration; -1 is the last one.
    """

    body_value_index: int = 0
    output_index: int = 0
    iteration: int = -1


@dataclass(frozen=True, repr=False)
class ConcatOutputDescription(_BodyPort):
    """An output that concatenates the results of all iterations.

    Attributes:
        body_value_index: The number of the Result of the body.
        output_index: The number of the output.
        start: The start of the first slice.
        stride: The distance of the slices.
        part_size: The length of a slice.
        end: The end of the last slice, inclusive.
        axis: The axis.
    """

    body_value_index: int = 0
    output_index: int = 0
    start: int = 0
    stride: int = 0
    part_size: int = 0
    end: int = 0
    axis: int = 0


class _Abstract:
    """A class of C++ that no node of Python is an instance of."""

    def __init__(self) -> None:
        raise TypeError(f"openvino.op.util.{type(self).__name__}: No constructor defined!")


class UnaryElementwiseArithmetic(_Abstract):
    """Arithmetic operations of one input."""


class BinaryElementwiseArithmetic(_Abstract):
    """Arithmetic operations of two inputs."""


class BinaryElementwiseComparison(_Abstract):
    """Comparisons of two inputs."""


class BinaryElementwiseLogical(_Abstract):
    """Logical operations of two inputs."""


class ArithmeticReduction(_Abstract):
    """Reductions to sums, products, means and extremes."""


class IndexReduction(_Abstract):
    """Reductions to indices."""
