"""Values of Constants in memory and in weights."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.element_types import ElementType
from irrun.errors import ModelError
from irrun.ir.constant import Constant
from irrun.ir.weights import Weights

F32, U4, STRING = (ElementType.parse(name) for name in ("f32", "u4", "string"))


@pytest.mark.parametrize(
    ("array", "element_type", "size"),
    [
        (np.arange(6, dtype=np.float32).reshape(2, 3), F32, 24),
        (np.array([1, 15, 7], U4.dtype), U4, 2),
        (np.array(["", "word"], object), STRING, 20),
        (np.zeros((0, 3), np.float32), F32, 0),
    ],
)
def test_array_is_preserved(array, element_type, size):
    constant = Constant.from_array(array, element_type)
    assert (constant.shape, constant.size, constant.offset) == (array.shape, size, None)
    np.testing.assert_array_equal(constant.to_array(), array)


def test_array_of_another_type_is_rejected():
    with pytest.raises(ValueError, match="f32"):
        Constant.from_array(np.zeros(3), F32)


def test_weights_are_not_copied():
    weights = bytes(4) + np.array([1, 2, 3], np.float32).tobytes()
    constant = Constant.from_weights(Weights(weights), F32, (3,), 4, 12)
    array = constant.to_array()
    assert array.tolist() == [1, 2, 3]
    assert np.shares_memory(array, np.frombuffer(weights, np.uint8))
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (0, 8, r"expected at least 12 bytes for f32\[3\], found the size 8"),
        (4, 12, "requires bytes 4 to 16 of the weights, found 12 bytes"),
        (-1, 12, "expected offset and size of a constant >= 0, found -1 and 12"),
    ],
)
def test_invalid_extent_is_rejected(offset, size, message):
    with pytest.raises(ModelError, match=message):
        Constant.from_weights(Weights(bytes(12)), F32, (3,), offset, size)
