"""Attention with shared heads, and variables that grow, on arrays."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import find_operation, make_floats
from irrun.fast import attention
from irrun.fast.attention import attend_in_groups, get_repeated_shape
from irrun.fast.cache import append_to_reordered_variable, append_to_variable
from irrun.fast.errors import NoKernelError
from irrun.ops._support.context import Variables

F32 = np.float32


def ints(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("broadcast", "target", "special_zero"),
    [
        (ints(1, 1, 2, 1, 1), ints(0, 6, -1, 4), True),
        (ints(1, 1, 2, 1, 1), ints(2, 6, 5, 4), True),
        (ints(1, 1, 2, 1, 1), ints(2, 6, 5, 4), False),
        (ints(2, 1, 1), ints(-1, 6, 5, 4), False),
        (ints(2, 3, 2, 5, 4), ints(2, -1, 5, 4), False),
    ],
    ids=str,
)
def test_repeated_heads_have_the_shape_of_reshape(broadcast, target, special_zero):
    data = np.zeros((2, 3, 5, 4), F32)
    shape = get_repeated_shape(data, broadcast, target, special_zero=special_zero, dtype=np.int32)
    repeated = np.broadcast_to(data[:, :, np.newaxis], np.broadcast_shapes((2, 3, 1, 5, 4), tuple(broadcast)))
    expected = find_operation("Reshape-1").kernel(repeated, target, special_zero=special_zero)
    assert tuple(shape) == expected.shape == (2, 6, 5, 4)
    assert shape.dtype == np.int32


@pytest.mark.parametrize(
    ("shape", "broadcast", "target"),
    [
        ((2, 3, 5, 4), ints(1, 1, 2, 1, 1), ints(0, 6, 0, 4)),  # the third dimension is that of the repetitions
        ((2, 3, 5, 4), ints(1, 1, 2, 1, 1), ints(0, 6, 20)),
        ((2, 3, 5, 4), ints(1, 1, 2, 1, 1), ints(0, 6, 5, 4, 1)),
        ((2, 3, 5, 4), ints(1, 1, 2, 1, 1), ints(0, -1, -1, 4)),
        ((2, 3, 5, 4), ints(1, 1, 2, 1, 1), ints(0, 3, 10, 4)),
        ((2, 3, 5, 4), ints(1, 1, 1, 2, 1, 1), ints(0, 6, 5, 4)),
        ((1, 3, 5, 4), ints(2, 1, 2, 1, 1), ints(2, 6, 5, 4)),
        ((2, 3, 1, 4), ints(1, 1, 2, 5, 1), ints(2, 6, 5, 4)),
        ((2, 3, 0, 4), ints(1, 1, 2, 1, 1), ints(2, 6, 0, 4)),
        ((2, 3, 5, 4), ints(1, 1, 0, 1, 1), ints(2, 0, 5, 4)),
    ],
    ids=str,
)
def test_other_shapes_are_refused(shape, broadcast, target):
    for special_zero in (True, False):
        with pytest.raises(NoKernelError, match="repeated"):
            get_repeated_shape(np.zeros(shape, F32), broadcast, target, special_zero=special_zero)


def attend(query, key, value, mask=None, scale=None, *, groups=2, causal=False):
    count = key.shape[1] * groups
    broadcast = ints(1, 1, groups, 1, 1)
    target, value_target = (ints(0, count, -1, x.shape[3]) for x in (key, value))
    return attend_in_groups(
        query, key, broadcast, target, value, broadcast, value_target, mask, scale, causal=causal,
        key_special_zero=True, value_special_zero=True,
    )  # fmt: skip


QUERY, KEY, VALUE = make_floats((2, 6, 5, 8), 1), make_floats((2, 3, 7, 8), 2), make_floats((2, 3, 7, 4), 3)
IS_KEPT = np.random.default_rng(0).random((2, 6, 5, 7)) > 0.3
IS_KEPT[..., 0] = True


@pytest.mark.parametrize("max_scores", [1 << 21, 2 * 6 * 7 * 2, 1], ids=["one block", "two rows", "one row"])
@pytest.mark.parametrize(
    "mask",
    [
        None,
        IS_KEPT,
        IS_KEPT[:1, :1],
        IS_KEPT[:, :1, :1],
        IS_KEPT[:1, :, :1],
        IS_KEPT[0, 0],
        IS_KEPT[0, 0, 0],
        IS_KEPT[0, 0, :1],
        np.ones((5, 7), bool),
        make_floats((2, 6, 5, 7), 4),
        make_floats((6, 1, 7), 4),
        make_floats((5, 1), 4),
        np.zeros((), F32),
    ],
    ids=lambda m: "none" if m is None else f"{m.dtype}{m.shape}",
)
def test_grouped_attention_equals_that_of_repeated_heads(mask, max_scores, monkeypatch):
    monkeypatch.setattr(attention, "MAX_SCORES", max_scores)
    key, value = KEY.repeat(2, axis=1), VALUE.repeat(2, axis=1)
    plain = find_operation("ScaledDotProductAttention-13").kernel
    for scale in (None, np.array([0.3], F32)):
        for causal in (False, True):
            # The scale requires a mask before it.
            given = np.zeros((), F32) if mask is None and scale is not None else mask
            expected = plain(QUERY, key, value, given, scale, causal=causal)
            result = attend(QUERY, KEY, VALUE, mask, scale, causal=causal)
            assert result.dtype == F32
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


def test_attention_of_other_inputs_is_refused():
    others = {
        "f64": (QUERY.astype(float), KEY.astype(float), VALUE.astype(float)),
        "a query in f64": (QUERY.astype(float), KEY, VALUE),
        "another rank": (QUERY[np.newaxis], KEY, VALUE),
        "no query": (QUERY[:, :, :0], KEY, VALUE),
        "another batch": (QUERY[:1], KEY, VALUE),
        "other heads": (QUERY[:, :5], KEY, VALUE),
        "other vectors": (QUERY[..., :7], KEY, VALUE),
        "another length": (QUERY, KEY, VALUE[:, :, :6]),
        "other heads of values": (QUERY, KEY, VALUE[:, :2]),
        "integers in the mask": (QUERY, KEY, VALUE, np.ones((5, 7), np.int32)),
        "another mask": (QUERY, KEY, VALUE, np.ones((5, 6), bool)),
        "a larger mask": (QUERY[:1], KEY[:1], VALUE[:1], np.zeros((2, 1, 5, 7), F32)),
    }
    for name, arguments in others.items():
        with pytest.raises(NoKernelError, match=r"expected|match|repeat|broadcast"):
            pytest.fail(f"accepted {name}: {attend(*arguments).shape}")


def make_variables():
    return Variables()


def append(variables, past, new, axis=1):
    return append_to_variable(past, new, axis=axis, variable_id="v", variables=variables)


@pytest.mark.parametrize("axis", [1, -2])
def test_new_elements_are_written_after_the_value(axis):
    """The buffer has room for 64 elements, or for twice as many as the value."""
    variables, parts = make_variables(), [make_floats((2, 10, 3), 1)]
    value = parts[0]
    for count, is_kept in ((20, False), (33, True), (1, True), (1, False), (60, True), (5, True), (1, False)):
        buffer = variables.buffers.get("v")
        parts.append(make_floats((2, count, 3), count))
        value = append(variables, value, parts[-1], axis)
        np.testing.assert_array_equal(value, np.concatenate(parts, 1))
        assert (variables.buffers["v"] is buffer) == is_kept
        assert np.shares_memory(value, variables.buffers["v"])
    assert variables.buffers["v"].shape == (2, 2 * 131, 3)


@pytest.mark.parametrize(
    "select",
    [
        lambda value: value.copy(),
        lambda value: value[:, 1:],
        lambda value: value[:1],
        lambda value: value[1:],
        lambda value: value[:, ::2],
        lambda value: value[..., :2],
        lambda value: value.transpose(0, 2, 1)[:, :1],
    ],
    ids=["copy", "later elements", "first row", "second row", "other elements", "columns", "transposed"],
)
def test_other_values_are_copied_to_a_buffer(select):
    variables = make_variables()
    value = append(variables, make_floats((2, 3, 3), 1), make_floats((2, 2, 3), 2))
    before, other = value.copy(), select(value)
    new = make_floats((other.shape[0], 2, other.shape[2]), 3)
    expected = np.concatenate([other, new], 1)
    np.testing.assert_array_equal(append(variables, other, new), expected)
    np.testing.assert_array_equal(value, before)


PAST, NEW = make_floats((3, 4, 2), 1), make_floats((3, 1, 2), 2)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 1, 1], [2], [0, 1], [0, 1, 2, 0]], ids=str)
@pytest.mark.parametrize("axis", [1, -2, 2])
def test_rows_of_a_variable_are_reordered(order, axis):
    variables = make_variables()
    new = make_floats((len(order), *(1 if i == axis % 3 else n for i, n in enumerate(PAST.shape) if i)), 2)
    result = append_to_reordered_variable(PAST, ints(*order), new, axis=axis, variable_id="v", variables=variables)
    np.testing.assert_array_equal(result, np.concatenate([PAST[order], new], axis))
    capacity = [64 if i == axis % 3 else n for i, n in enumerate((len(order), *PAST.shape[1:]))]
    assert list(variables.buffers["v"].shape) == capacity
    again = append_to_reordered_variable(
        result, np.arange(len(order)), new, axis=axis, variable_id="v", variables=variables
    )
    assert np.shares_memory(again, result)


@pytest.mark.parametrize(
    ("past", "order", "new", "axis", "message"),
    [
        (PAST, np.array([[0, 1, 2]]), NEW, 1, "a vector of integers"),
        (PAST, np.array(0), NEW, 1, "a vector of integers"),
        (PAST, np.array([0.0, 1, 2]), NEW, 1, "a vector of integers"),
        (np.zeros((), F32), np.array([0]), np.zeros((), F32), 0, "a vector of integers"),
        (PAST, np.array([2, 1, 0]), NEW, 0, "out of range"),
        (PAST, np.array([2, 1, 0]), NEW, -3, "out of range"),
        (PAST, np.array([0, 1, 3]), NEW, 1, "out of range"),
        (PAST, np.array([-1, 1, 0]), NEW, 1, "out of range"),
        (PAST, np.array([1, 0]), NEW, 1, "batch sizes differ"),
        (PAST, np.array([2, 1, 0]), NEW[..., :1], 1, "do not match"),
        (PAST, np.array([2, 1, 0]), NEW.astype(float), 1, "do not match"),
        (PAST, np.array([2, 1, 0]), NEW[..., 0], 1, "do not match"),
        (PAST, np.array([2, 1, 0]), NEW, 3, "do not match"),
        (PAST, np.array([2, 1, 0]), NEW, -4, "do not match"),
        (PAST, np.array([0, 1, 2]), NEW, -4, "do not match"),
    ],
)
def test_other_rows_are_refused(past, order, new, axis, message):
    variables = make_variables()
    with pytest.raises(NoKernelError, match=message):
        append_to_reordered_variable(past, order, new, axis=axis, variable_id="v", variables=variables)
    assert not variables.buffers
