"""Shape operations: cases that OpenVINO rejects or the conformance tests do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops._support import registry
from irrun.ops.shape import reshape_1, squeeze_1, unsqueeze_1


@pytest.mark.parametrize(
    ("type", "version", "attributes", "shape", "argument", "expected"),
    [
        ("Reshape", 1, {"special_zero": "false"}, (2, 5, 5, 0), [0, 4], (0, 4)),
        ("Reshape", 1, {"special_zero": "true"}, (2, 5, 5, 24), [0, -1, 4], (2, 150, 4)),
        ("Reshape", 1, {"special_zero": "true"}, (2, 2, 3), [0, 0, 1, -1], (2, 2, 1, 3)),
        ("Reshape", 1, {"special_zero": "true"}, (3, 1, 1), [-1, 0], (3, 1)),
        ("Reshape", 1, {"special_zero": "true"}, (3, 1, 1), [0, -1], (3, 1)),
        ("Squeeze", 1, {}, (1, 3, 1, 2), [0, 2], (3, 2)),
        ("Squeeze", 1, {}, (1,), [0], ()),
        ("Squeeze", 15, {"allow_axis_skip": "true"}, (1, 3, 1, 2), [0, 2], (3, 2)),
        ("Squeeze", 15, {}, (1,), [0], ()),
        ("Unsqueeze", 1, {}, (2, 3), [0, 3], (1, 2, 3, 1)),
        ("Unsqueeze", 1, {}, (), [0], (1,)),
    ],
)
def test_layer_examples_of_the_specification(type, version, attributes, shape, argument, expected):
    operation = registry.find(type, f"opset{version}")
    assert not operation.find_unknown(attributes)
    assert operation.kernel(np.zeros(shape), np.array(argument), **operation.bind(attributes)).shape == expected


def test_shape_of_returns_output_type():
    operation = registry.find("ShapeOf", "opset3")
    for attributes, dtype in (({}, np.int64), ({"output_type": "i64"}, np.int64), ({"output_type": "i32"}, np.int32)):
        result = operation.kernel(np.zeros((2, 3, 22, 24)), **operation.bind(attributes))
        assert result.tolist() == [2, 3, 22, 24]
        assert result.dtype == dtype


def test_reshape_to_a_scalar():
    assert reshape_1(np.zeros((1, 1)), np.array(1), special_zero=True).shape == ()


@pytest.mark.parametrize(
    ("shape", "pattern", "special_zero"),
    [
        ((2, 3), [4], False),
        ((2, 3), [-1, -1], False),
        ((2, 3), [-1, 4], False),
        ((2, 3), [-2, 3], False),
        ((2, 3), [0, 2], True),
        ((2, 3), [0, 3], False),
        ((2, 3), [3, 2, 0], True),
        ((2, 3), [0, -1], False),
    ],
)
def test_reshape_rejects_invalid_shapes(shape, pattern, special_zero):
    with pytest.raises(InputError):
        reshape_1(np.zeros(shape), np.array(pattern), special_zero=special_zero)


def test_reshape_computes_minus_one_next_to_a_copied_zero():
    assert reshape_1(np.zeros((2, 0, 6)), np.array([0, 0, -1, 3]), special_zero=True).shape == (2, 0, 2, 3)


def test_axis_out_of_range_is_rejected():
    with pytest.raises(InputError, match="axes 2"):
        squeeze_1(np.zeros((1, 1)), np.array([2]))
    with pytest.raises(InputError, match="axes 3"):
        unsqueeze_1(np.zeros((1, 1)), np.array([3]))


def test_reshape_replaces_ambiguous_minus_one_by_one():
    assert reshape_1(np.zeros((0, 2, 3)), np.array([0, 6, -1]), special_zero=False).shape == (0, 6, 1)
    with pytest.raises(InputError, match="cannot be reshaped"):
        reshape_1(np.zeros((2, 3)), np.array([0, -1]), special_zero=False)


def test_scalar_can_be_squeezed_along_axis_0():
    assert squeeze_1(np.array(7), np.array([0, -1])).shape == ()
    with pytest.raises(InputError, match="axes 1"):
        squeeze_1(np.array(7), np.array([1]))


def test_results_are_views():
    data = np.zeros((1, 4))
    assert np.shares_memory(data, reshape_1(data, np.array([2, 2]), special_zero=False))
    assert np.shares_memory(data, squeeze_1(data))
    assert np.shares_memory(data, unsqueeze_1(data, np.array([1])))


@pytest.mark.parametrize("shape", [[1 << 62, 0, 8], [0, 1 << 62], [1 << 40, 1 << 40, 0]])
def test_reshape_refuses_large_dimensions_of_empty_results(shape):
    with pytest.raises(InputError, match=r"has no elements, expected its other dimensions to multiply to at most"):
        reshape_1(np.zeros((0, 3), np.float32), np.array(shape))
