"""Axes, shapes and numbers that inputs contain."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops._support.axes import normalize_axes, normalize_axis, read_axis, to_int_list, to_scalar, to_shape


def test_axes_count_from_both_ends() -> None:
    assert [normalize_axis(axis, 3) for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert normalize_axes([2, -3], 3) == (2, 0)
    for axis in (-4, 3):
        with pytest.raises(InputError, match=rf"axis {axis} is out of range"):
            normalize_axis(axis, 3)
    with pytest.raises(InputError, match=r"^axes \[1, 1\] contains an axis twice$"):
        normalize_axes([1, -2], 3)


def test_inputs_have_one_axis() -> None:
    assert read_axis(np.array(-1), 3) == 2
    assert read_axis(np.array([1.0]), 3) == 1
    for axis in (np.zeros(0, int), np.zeros(2, int)):
        with pytest.raises(InputError, match=rf"^axis has shape \[{axis.size}\], expected a scalar$"):
            read_axis(axis, 3)
    with pytest.raises(InputError, match=r"^axis has shape \[1, 1\], expected a scalar or \[1\]$"):
        read_axis(np.zeros((1, 1), int), 3)
    with pytest.raises(InputError, match="axis 3 is out of range"):
        read_axis(np.array(3), 3)


def test_shapes_have_as_many_dimensions_as_arrays_can_have() -> None:
    assert to_shape(np.ones((2, 32), np.int32), "shape") == [1] * 64
    with pytest.raises(InputError, match=r"^shape has 65 elements, expected at most 64, one per axis$"):
        to_shape(np.ones(65), "shape")


def test_numbers_are_the_only_element() -> None:
    assert to_scalar(np.array([[2.5]]), "x") == 2.5
    assert to_scalar(np.array(True), "x") is True
    for wrong in (np.zeros(0), np.zeros((1, 2))):
        with pytest.raises(InputError, match=r"^x has shape .*, expected a scalar$"):
            to_scalar(wrong, "x")
    with pytest.raises(InputError, match=r"^x is string, expected a number$"):
        to_scalar(np.array("a", object), "x")
    assert to_int_list(np.array([[1.9, -1.9]])) == [1, -1]
