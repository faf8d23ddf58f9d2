"""Attention by blocks against the plain kernel."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import check, make_floats
from irrun.fast import dot_product_attention
from irrun.fast.dot_product_attention import attend
from irrun.threads import use_threads

NAME = "ScaledDotProductAttention-13"


def compare(a, b, inputs):
    """Allow the rounding errors of exponentials of scores, which are below 20, and of sums in another order."""
    np.testing.assert_allclose(a, b, rtol=5e-5, atol=5e-6)


@pytest.fixture(params=[1 << 19, 64], autouse=True, ids=["large blocks", "small blocks"])
def change_block_size(request, monkeypatch):
    monkeypatch.setattr(dot_product_attention, "MAX_SCORES", request.param)


@pytest.mark.parametrize("lead", [(2, 3), (4,), (2, 1, 3), ()], ids=str)
@pytest.mark.parametrize(("length", "key_length"), [(5, 7), (1, 9), (12, 12)])
def test_attention_equals_plain_kernel(lead, length, key_length):
    query, key = make_floats((*lead, length, 8), 1), make_floats((*lead, key_length, 8), 2)
    value = make_floats((*lead, key_length, 6), 3)
    is_kept = np.random.default_rng(0).random((length, key_length)) > 0.3
    full = np.broadcast_to(is_kept, (*lead, length, key_length)).copy()
    scale = np.array(0.3, np.float32)
    for others in (
        [],
        [is_kept],
        [full],
        [full.astype(np.float32)],
        [is_kept[:1].astype(np.float32)],
        [is_kept, scale],
        [np.zeros((), np.float32), scale],
        [np.full((1, 1), 2.5, np.float32)],
        [np.array(np.nan, np.float32)],
        [np.array(True)],
        [np.array(False)],
    ):
        check(NAME, [query, key, value, *others], compare=compare)
        check(NAME, [query, key, value, *others], constants=range(3, 3 + len(others)), compare=compare)
    check(NAME, [query, key, value, None, scale], compare=compare)
    check(NAME, [query, key, value], {"causal": True}, compare=compare)
    check(NAME, [query, key, value, is_kept, scale, make_floats((1, 1))], compare=compare)
    check(NAME, [x.astype(np.float16) for x in (query, key, value)], compare=lambda a, b, _: compare(a, b, _))


def test_rows_without_positions_are_nan_and_bad_shapes_are_refused():
    query, key, value = make_floats((2, 3, 4), 1), make_floats((2, 5, 4), 2), make_floats((2, 5, 4), 3)
    check(NAME, [query, key, value, np.zeros((3, 5), bool)], compare=compare)
    check(NAME, [query, key[:1], value], compare=compare)
    check(NAME, [query, key, value[:, :4]], compare=compare)
    check(NAME, [query, key, value, np.ones((3, 4), bool)], compare=compare)
    check(NAME, [query[:, :0], key, value], compare=compare)


@pytest.mark.parametrize(
    ("keys", "values"),
    [((2, 1), (2, 1)), ((1, 1), (1, 1)), ((1, 3), (2, 1)), ((1, 3), (2, 3)), ((2, 3), (1, 1))],
    ids=str,
)
def test_heads_of_queries_share_keys_and_values(keys, values, monkeypatch):
    query, key, value = make_floats((2, 3, 5, 8), 1), make_floats((*keys, 7, 8), 2), make_floats((*values, 7, 6), 3)
    shapes = []

    def record(*arguments):
        shapes.append([x.shape for x in arguments[:3]])
        result = attend(*arguments)
        np.testing.assert_array_equal(result, attend(*map(np.ascontiguousarray, arguments[:3]), *arguments[3:]))
        return result

    monkeypatch.setattr(dot_product_attention, "attend", record)
    check(NAME, [query, key, value], compare=compare)
    check(NAME, [query, key, value, make_floats((1, 1, 5, 7))], compare=compare)
    assert shapes[0] == shapes[-1] == [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)]


def test_masks_of_one_element_are_supported(monkeypatch):
    query, key, value = (make_floats((2, 5, 4), n) for n in range(3))
    masks = []

    def record(*arguments):
        masks.append(None if arguments[3] is None else arguments[3].tobytes())
        return attend(*arguments)

    monkeypatch.setattr(dot_product_attention, "attend", record)
    scale = np.array(0.3, np.float32)
    for mask in (np.zeros((), np.float32), np.array(-np.inf, np.float32), np.array(True)):
        check(NAME, [query, key, value, mask, scale], compare=compare)
    assert len(set(masks)) == 3


def test_heads_may_be_stored_side_by_side():
    query, key, value = arrays = [make_floats((2, n, 3, 8), n).swapaxes(1, 2) for n in (40, 50, 50)]
    result = attend(query, key, value, None, 0.5, False)
    query, key, value = map(np.ascontiguousarray, arrays)
    compare(result, attend(query, key, value, None, 0.5, False), None)
    assert result.swapaxes(1, 2).flags.c_contiguous


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(dot_product_attention, "MIN_PART_PRODUCTS", 1000)
    query, key, value = (make_floats((1, 8, 100, 16), n) for n in range(3))
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(attend(query, key, value, None, 0.2, False))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize(
    ("mask", "has_effect"),
    [
        (np.zeros((), np.float32), False),
        (np.zeros((1, 1), np.float32), False),
        (np.ones((2, 3), bool), False),
        (np.array(True), False),
        (np.array(False), True),
        (np.ones((), np.float32), True),
        (np.array(-np.inf, np.float32), True),
        (np.array([[True, True, False]]), True),
        (make_floats((2, 1)), True),
    ],
    ids=str,
)
def test_masks_without_effect_are_not_added(mask, has_effect):
    converted = dot_product_attention._convert_mask(mask, (4, 2, 3))
    assert (converted is not None) == has_effect
    if converted is not None:
        assert converted.shape == (4, 2, 3)
        assert converted.dtype == np.float32
        expected = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask
        np.testing.assert_array_equal(converted, np.broadcast_to(expected, (4, 2, 3)))


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_of_the_result_are_stored_as_those_of_the_query(heads):
    query, key, value = (make_floats((2, heads, n, 8), n) for n in (4, 5, 5))
    assert attend(query, key, value, None, 0.5, False).flags.c_contiguous
    side_by_side = query.swapaxes(1, 2).copy().swapaxes(1, 2)
    result = attend(side_by_side, key, value, None, 0.5, False)
    assert result.swapaxes(1, 2).flags.c_contiguous
    compare(result, attend(query, key, value, None, 0.5, False), None)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_other_shapes_equal_plain_kernel(position, axis):
    """One input is shorter along an axis, empty, or has a leading axis of length 1."""
    inputs = [make_floats((2, 5, 4), n) for n in range(3)]
    for length in (0, 1, 2):
        varied = [x[(slice(None),) * axis + (slice(length),)] if i == position else x for i, x in enumerate(inputs)]
        check(NAME, varied, compare=compare, falls_back=True)
        check(NAME, varied, {"causal": True}, compare=compare, falls_back=True)
    check(NAME, [*inputs, None, np.array([0.3, 0.4], np.float32)], compare=compare, falls_back=True)
