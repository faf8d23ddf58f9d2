"""Partial shapes, asked as OpenVINO's programs ask theirs."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.shapes import DynamicDimension, PartialShape


def test_dimensions_answer_what_those_of_openvino_do():
    ov = pytest.importorskip("openvino")
    text = "[4,?,2..8,..3]"
    own, theirs = PartialShape([4, -1, "2..8", DynamicDimension(0, 3)]), ov.PartialShape(text)
    assert str(own) == str(theirs).replace("0..3", "..3")
    assert own.is_dynamic is theirs.is_dynamic is True
    assert own.is_static is theirs.is_static is False
    assert own.get_min_shape() == tuple(theirs.get_min_shape())
    assert own.get_max_shape() == (4, -1, 8, 3)
    assert repr(own) == f"<PartialShape: {own}>"
    for mine, other in zip(own, theirs, strict=True):
        for name in ("is_static", "is_dynamic", "min_length", "max_length"):
            assert getattr(mine, name) == getattr(other, name), name
        assert mine.get_min_length() == other.get_min_length()
        assert mine.get_max_length() == other.get_max_length()
        assert (mine == -1) is (other == -1)
    assert own[0].get_length() == theirs[0].get_length() == 4
    with pytest.raises(ValueError, match=r"2\.\.8 is dynamic"):
        own[2].get_length()


def test_lengths_are_integers():
    shape = PartialShape([2, np.int64(3)])
    assert all(isinstance(d, int) for d in shape)
    assert shape[0] * shape[1] == 6
    assert np.zeros(shape).shape == (2, 3)


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


@pytest.mark.parametrize(("dimension", "error"), [(-2, ValueError), ("x", ValueError), (1.5, TypeError)])
def test_what_is_no_dimension(dimension, error):
    with pytest.raises(error):
        PartialShape([dimension])
