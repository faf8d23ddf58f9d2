"""Which inferred shapes replace declared ones when a model is reshaped."""

from __future__ import annotations

import pytest

from irrun.runtime.reshaping import _is_better
from irrun.shapes import PartialShape


@pytest.mark.parametrize(
    ("shape", "declared", "is_better"),
    [
        (None, None, True),
        ([2], None, True),
        (None, [], True),  # a shape without dimensions may mean any rank
        ([2, 3], [], True),
        (None, [2], False),
        ([2, 3], [2, 3], True),
        ([2, 3], [-1, 3], True),
        ([2, 3], ["1..4", 3], True),
        ([-1, 3], [2, 3], False),  # knows less
        (["1..4", 3], [2, 3], False),
        (["1..4", 3], ["2..8", 3], False),
        ([5, 3], [2, 3], True),  # contradicts the declaration
        (["5..8", -1], [2, 3], True),
        ([2], [2, 3], True),
        ([-1, -1, -1], [2, 3], True),
    ],
    ids=str,
)
def test_inferred_shapes_are_within_declared_ones_or_contradict_them(shape, declared, is_better):
    shapes = [None if s is None else PartialShape(s) for s in (shape, declared)]
    assert _is_better(*shapes) == is_better
