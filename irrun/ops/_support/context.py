"""What kernels can be handed besides their inputs and attributes: bodies, variables, state, the outputs wanted.

A kernel asks for one of these by annotating a keyword-only parameter with it; lowering fills it in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from irrun.element_types import ElementType
from irrun.shapes import PartialShape

__all__ = [
    "BackEdgeDescription",
    "BodyRunner",
    "Declaration",
    "InputDescription",
    "OutputCount",
    "OutputDescription",
    "State",
    "Variables",
]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class InputDescription:
    """One `input` entry of a port map, in positions instead of ids.

    Attributes:
        port: which input of the layer; -1 where the file names none (the current iteration).
        parameter: which Parameter of the body.
        axis: the axis that is sliced, or None where the whole value goes in.
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


@dataclass(frozen=True)
class OutputDescription:
    """One `output` entry of a port map, in positions instead of ids.

    Attributes:
        port: which output of the layer; -1 where the file names none (the execution condition).
        result: which Result of the body.
        axis: the axis along which iterations are concatenated, or None for the last iteration's value.
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


@dataclass(frozen=True)
class BackEdgeDescription:
    """From a Result of the body to the Parameter that receives its value in the next iteration."""

    result: int
    parameter: int


@dataclass(frozen=True)
class BodyRunner:
    """A body that a kernel can call: `run(arguments, iteration)` gives the value of every Result, in order.

    Attributes:
        run: takes one array per Parameter and the number of the iteration.
        parameter_count: how many Parameters the body has.
        output_count: how many outputs the layer itself has.
        output_shapes: their declared shapes, as those of the Results.
        result_shapes: the declared shape of each Result, open dimensions as None, or None where the rank is
            open; what an output is made of when no iteration runs.
        result_dtypes: the declared type of each Result.
        parameter_shapes, parameter_dtypes: the same of each Parameter.
    """

    run: Callable[[Sequence[Array | None], int], list[Array]]
    parameter_count: int
    output_count: int
    inputs: tuple[InputDescription, ...] = ()
    outputs: tuple[OutputDescription, ...] = ()
    back_edges: tuple[BackEdgeDescription, ...] = ()
    output_shapes: tuple[tuple[int | None, ...] | None, ...] = ()
    result_shapes: tuple[tuple[int | None, ...] | None, ...] = ()
    result_dtypes: tuple[np.dtype[Any] | None, ...] = ()
    parameter_shapes: tuple[tuple[int | None, ...] | None, ...] = ()
    parameter_dtypes: tuple[np.dtype[Any] | None, ...] = ()


class OutputCount(int):
    """How many of its outputs a layer must give: all up to the last one that anything reads."""


class State(dict[str, Any]):
    """What one layer of one request keeps from run to run (a random generator's counter, say)."""


class Declaration(NamedTuple):
    """What a variable may hold: a type (None: any) and a shape (None: of any rank)."""

    type: ElementType | None
    shape: PartialShape | None


@dataclass
class Variables:
    """The variables of one request: what ReadValue reads and Assign sets.

    Attributes:
        values: the current value by variable_id; a variable that was never set, or was reset, is absent.
        declared: what ReadValue declares about a variable.
    """

    values: dict[str, Array] = field(default_factory=dict)
    declared: dict[str, Declaration] = field(default_factory=dict)
