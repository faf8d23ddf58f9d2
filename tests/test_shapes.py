"""Partial shapes, compared with OpenVINO's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import irrun
from irrun.shapes import DynamicDimension, PartialShape, parse_dimension


def test_dimensions_agree_with_openvino():
    ov = pytest.importorskip("openvino")
    text = "[4,?,2..8,..3]"
    shape, expected = PartialShape([4, -1, "2..8", DynamicDimension(0, 3)]), ov.PartialShape(text)
    assert str(shape) == str(expected).replace("0..3", "..3")
    assert shape.is_dynamic is expected.is_dynamic is True
    assert shape.is_static is expected.is_static is False
    assert shape.get_min_shape() == tuple(expected.get_min_shape())
    assert shape.get_max_shape() == (4, -1, 8, 3)
    assert repr(shape) == f"<PartialShape: {shape}>"
    for dimension, other in zip(shape, expected, strict=True):
        for name in ("is_static", "is_dynamic", "min_length", "max_length"):
            assert getattr(dimension, name) == getattr(other, name), name
        assert dimension.get_min_length() == other.get_min_length()
        assert dimension.get_max_length() == other.get_max_length()
        assert (dimension == -1) is (other == -1)
    assert shape[0].get_length() == expected[0].get_length() == 4
    with pytest.raises(ValueError, match=r"2\.\.8 is dynamic"):
        shape[2].get_length()


def test_static_dimensions_are_integers():
    shape = PartialShape([2, np.int64(3)])
    assert all(isinstance(d, int) for d in shape)
    assert math.prod(shape) == 6
    dimensions: Any = shape  # NumPy takes what is a sequence of integers at run time
    assert np.zeros(dimensions).shape == (2, 3)


def test_shapes_equal_lists_and_tuples_of_the_same_dimensions():
    shape = PartialShape([1, 3, -1])
    assert shape == [1, 3, -1]
    assert shape == (1, 3, -1)
    assert shape == PartialShape([1, 3, "?"])
    assert hash(shape) == hash((1, 3, -1))
    assert shape != [1, 3]
    assert shape != [1, 3, 2]
    assert shape != "[1,3,?]"
    assert PartialShape(["1..2"]) != [-1]


def test_compatible_shapes_have_the_rank_and_are_within_the_bounds():
    shape = PartialShape([1, "2..4", -1])
    assert shape.is_compatible((1, 2, 0))
    assert shape.is_compatible((1, 4, 9))
    assert not shape.is_compatible((1, 5, 0))
    assert not shape.is_compatible((2, 2, 0))
    assert not shape.is_compatible((1, 2))


@pytest.mark.parametrize(("dimension", "error"), [(-2, ValueError), ("x", ValueError), (1.5, TypeError)])
def test_invalid_dimensions_are_rejected(dimension, error):
    with pytest.raises(error):
        PartialShape([dimension])


@pytest.mark.parametrize("text", ["9" * 5000, "1.." + "9" * 5000, "9" * 5000 + "..", "-" + "9" * 5000, "9" * 20])
def test_numbers_of_too_many_digits_are_rejected_with_a_short_message(text):
    with pytest.raises(ValueError, match="invalid dimension") as error:
        parse_dimension(text)
    assert len(str(error.value)) < 200


def test_compatibility_of_other_values_is_an_error():
    with pytest.raises(TypeError, match=r"the shape is 3, expected a list of integers"):
        irrun.PartialShape([1, 2]).is_compatible(3)
    with pytest.raises(TypeError, match=r"expected a list of integers"):
        irrun.PartialShape(["1..3"]).is_compatible(["a"])


def test_long_texts_of_dimensions_are_shortened() -> None:
    for length, shown in ((60, repr("x" * 60)), (61, f"{'x' * 40!r}... of 61 characters")):
        with pytest.raises(irrun.InputError, match=rf"^invalid dimension {shown}, expected a number"):
            parse_dimension("x" * length)
