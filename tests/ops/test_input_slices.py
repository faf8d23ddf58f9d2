"""The slices of the inputs of loops, compared with NumPy's slices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops._support.context import InputDescription, OutputDescription
from irrun.ops._support.input_slices import MAX_EMPTY_SLICES, InputSlicer, create_slicers, get_count_from_outputs


def slice_axis(length: int, start: int, end: int, stride: int, part_size: int) -> list[list[int]]:
    entry = InputDescription(0, 0, 1, start, end, stride, part_size)
    value = np.stack([np.arange(length), np.arange(length) + 100])
    slicer = InputSlicer(entry, value)
    parts = [slicer[i] for i in range(slicer.count)]
    for part in parts:
        assert part.shape == (2, part_size)
        np.testing.assert_array_equal(part[1], part[0] + 100)
    for count in range(1, slicer.count + 1):
        np.testing.assert_array_equal(slicer.to_array(count), np.stack(parts[:count]))
    with pytest.raises(InputError, match=f"iteration {slicer.count} is out of range: input 0 has {slicer.count} slic"):
        slicer[slicer.count]
    return [part[0].tolist() for part in parts]


@pytest.mark.parametrize(
    ("start", "end", "stride", "part_size", "expected"),
    [
        (0, -1, 1, 1, [[0], [1], [2], [3], [4], [5]]),
        (0, -1, 2, 2, [[0, 1], [2, 3], [4, 5]]),
        (0, -1, 2, 1, [[0], [2], [4]]),
        (1, -1, 2, 1, [[1], [3], [5]]),
        (0, -1, 1, 4, [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]),
        (0, -1, 6, 6, [[0, 1, 2, 3, 4, 5]]),
        (0, -1, 1, 7, []),
        (2, 3, 1, 1, [[2], [3]]),
        (-4, -3, 1, 1, [[2], [3]]),
        (2, 2, 1, 1, [[2]]),
        (0, 6, 1, 3, [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]),  # an exclusive end
        (6, 6, 1, 1, []),
        (-1, 0, -1, 1, [[5], [4], [3], [2], [1], [0]]),
        (-1, 0, -2, 2, [[4, 5], [2, 3], [0, 1]]),
        (-1, 0, -2, 1, [[5], [3], [1]]),
        (3, 1, -1, 1, [[3], [2], [1]]),
        (-1, 0, -1, 5, [[1, 2, 3, 4, 5], [0, 1, 2, 3, 4]]),
    ],
)
def test_slices_are_those_of_the_port_map(start, end, stride, part_size, expected) -> None:
    assert slice_axis(6, start, end, stride, part_size) == expected


@pytest.mark.parametrize(
    ("start", "end", "stride", "part_size", "message"),
    [
        (0, -1, 0, 1, "found stride 0 and part_size 1, expected a stride other than 0 and a positive part_size"),
        (0, -1, 1, 0, "found stride 1 and part_size 0"),
        (0, -1, 0, 0, "found stride 0 and part_size 0"),
        (0, 7, 1, 1, "start 0 and end 7 are out of range for axis 1 of input 0, which has 6 elements"),
        (-7, -1, 1, 1, "start -7 and end -1 are out of range"),
        (3, 1, 1, 1, "start 3 and end 1 are out of range"),
        (1, 3, -1, 1, "start 1 and end 3 are out of range"),
        (0, -1, 4, 4, "6 elements on axis 1 of input 0 cannot be divided into parts of 4"),
        (-1, 1, -2, 2, "5 elements on axis 1 of input 0 cannot be divided into parts of 2"),
    ],
)
def test_slices_that_do_not_match_the_input_are_refused(start, end, stride, part_size, message) -> None:
    with pytest.raises(InputError, match=message):
        slice_axis(6, start, end, stride, part_size)


def test_number_of_slices_without_elements_is_limited() -> None:
    entry = InputDescription(3, 0, 0)
    assert InputSlicer(entry, np.zeros((MAX_EMPTY_SLICES, 0))).count == MAX_EMPTY_SLICES
    with pytest.raises(InputError, match=r"input 3 of shape \[65537, 0\] has no elements, expected at most 65536"):
        InputSlicer(entry, np.zeros((MAX_EMPTY_SLICES + 1, 0)))
    assert InputSlicer(entry, np.zeros(MAX_EMPTY_SLICES + 1)).count == MAX_EMPTY_SLICES + 1


def test_inputs_without_an_axis_are_not_sliced() -> None:
    body: Any = SimpleNamespace(inputs=(InputDescription(1, 0), InputDescription(0, 1, 0), InputDescription(1, 2, -1)))
    slicers = create_slicers([np.zeros(4), np.zeros((2, 3))], body)
    assert [(s.entry.parameter, s.axis, s.count) for s in slicers] == [(1, 0, 4), (2, 1, 3)]


@pytest.mark.parametrize(
    ("outputs", "count"),
    [
        ([], 1),
        ([OutputDescription(0, 0)], 1),
        ([OutputDescription(0, 0), OutputDescription(1, 1, 0, 0, 6, 1, 1)], 6),
        ([OutputDescription(0, 0, 0, 0, 6, 2, 2)], 3),
        ([OutputDescription(0, 0, 0, -1, 0, -1, 1)], 1),
        ([OutputDescription(0, 0, 0, 5, 1, -2, 2)], 2),
        ([OutputDescription(0, 0, 0, 0, 3, 1, 0)], 3),
    ],
)
def test_iterations_without_sliced_inputs_follow_from_the_outputs(outputs, count) -> None:
    body: Any = SimpleNamespace(outputs=tuple(outputs))
    assert get_count_from_outputs(body) == count
