"""Elements of 4 bits that are unpacked when they are needed."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.element_types import ELEMENT_TYPES
from irrun.packing import PostponedNibbles, pack, unpack


@pytest.mark.parametrize("kind", ["u4", "i4"])
@pytest.mark.parametrize("shape", [(6,), (7,), (3, 5), (1,), (), (0, 3)])
def test_postponed_elements_are_those_that_are_unpacked_at_once(kind, shape):
    element_type = ELEMENT_TYPES[kind]
    codes = np.arange(np.prod(shape, dtype=int)) * 7 % 16 - (8 if kind == "i4" else 0)
    buffer = pack(element_type, codes.astype(np.int8).astype(element_type.dtype).reshape(shape))
    postponed = PostponedNibbles(element_type, buffer + b"rest", shape)
    assert (postponed.array.dtype, postponed.array.shape) == (element_type.dtype, shape)
    assert not postponed.array.flags.writeable
    for _ in range(2):
        postponed.fill()
        np.testing.assert_array_equal(postponed.array.astype(int), codes.reshape(shape))
    np.testing.assert_array_equal(unpack(element_type, buffer, shape).astype(int), codes.reshape(shape))
