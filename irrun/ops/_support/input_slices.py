"""The slices of the inputs of loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axis
from irrun.ops._support.context import InputDescription, OutputDescription
from irrun.ops._support.numerics import Array

__all__ = ["InputSlicer", "PortMap", "create_slicers", "get_count_from_outputs"]


#: Largest number of iterations over an input without elements.
MAX_EMPTY_SLICES = 1 << 16


class PortMap(Protocol):
    """The entries of a port map: of a body, or of a program that replaces it."""

    @property
    def inputs(self) -> tuple[InputDescription, ...]:
        """The inputs."""

    @property
    def outputs(self) -> tuple[OutputDescription, ...]:
        """The outputs."""


class InputSlicer:
    """The slices of an input, in the order of the iterations.

    Args:
        entry: Its entry in the port map, with an axis.
        value: The input.

    Raises:
        InputError: The entry does not match the shape of the input.
    """

    def __init__(self, entry: InputDescription, value: Array) -> None:
        assert entry.axis is not None
        self.entry = entry
        self.value = value
        self.axis = normalize_axis(entry.axis, value.ndim)
        length = value.shape[self.axis]
        start, end = (index + length if index < 0 else index for index in (entry.start, entry.end))
        first, last = (start, end) if entry.stride > 0 else (end, start)
        stop = min(last + 1, length) if last <= length else last + 1  # some files have an exclusive `end`
        step = abs(entry.stride)
        if not step or entry.part_size < 1:
            raise InputError(
                f"found stride {entry.stride} and part_size {entry.part_size}, "
                "expected a stride other than 0 and a positive part_size"
            )
        if not 0 <= first <= stop <= length:
            raise InputError(
                f"start {entry.start} and end {entry.end} are out of range for axis {self.axis} of input "
                f"{entry.port}, which has {length} elements"
            )
        if entry.part_size == step and (stop - first) % step:
            raise InputError(
                f"{stop - first} elements on axis {self.axis} of input {entry.port} cannot be divided "
                f"into parts of {step}"
            )
        self.first = first if entry.stride > 0 else stop - entry.part_size
        self.count = max(0, (stop - first - entry.part_size) // step + 1)
        if not value.size and self.count > MAX_EMPTY_SLICES:
            raise InputError(
                f"input {entry.port} of shape {list(value.shape)} has no elements, "
                f"expected at most {MAX_EMPTY_SLICES} slices of it, found {self.count}"
            )

    def __getitem__(self, iteration: int) -> Array:
        if iteration >= self.count:
            raise InputError(f"iteration {iteration} is out of range: input {self.entry.port} has {self.count} slices")
        start = self.first + iteration * self.entry.stride
        return self.value[(slice(None),) * self.axis + (slice(start, start + self.entry.part_size),)]

    def to_array(self, count: int) -> Array:
        """Return the first slices as a view with the iterations as its first axis.

        Args:
            count: Number of slices, in [1, self.count].
        """
        axis, entry = self.axis, self.entry
        value = self.value[(slice(None),) * axis + (slice(self.first, None),)]
        shape = (count, *value.shape[:axis], entry.part_size, *value.shape[axis + 1 :])
        strides = (value.strides[axis] * entry.stride, *value.strides)
        return np.lib.stride_tricks.as_strided(value, shape, strides, writeable=False)


def create_slicers(inputs: Sequence[Array], body: PortMap) -> list[InputSlicer]:
    """Return the slices of all sliced inputs.

    Args:
        inputs: The inputs of the layer.
        body: The port map.

    Raises:
        InputError: An entry does not match the shape of its input.
    """
    return [InputSlicer(entry, inputs[entry.port]) for entry in body.inputs if entry.axis is not None]


def get_count_from_outputs(body: PortMap) -> int:
    """Return the number of iterations if no input is sliced: from a concatenated output, else 1.

    Args:
        body: The port map.
    """
    for entry in body.outputs:
        if entry.axis is not None:
            return abs(entry.end - entry.start) // max(entry.part_size, 1)
    return 1
