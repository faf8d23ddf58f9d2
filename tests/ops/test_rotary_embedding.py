"""RoPE, compared with multiplications of complex numbers."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.ops.internal.rope import rope

BATCH, HEADS, LENGTH, SIZE, POSITIONS, ROTARY = 2, 3, 4, 8, 6, 6
RNG = np.random.default_rng(3)
X = RNG.normal(size=(BATCH, HEADS, LENGTH, SIZE))
#: The angle of each pair of features at each position.
ANGLES = RNG.normal(size=(POSITIONS, ROTARY // 2))
#: A position of each token.
CHOSEN = np.array([[5, 0, 3, 1], [2, 4, 0, 5]])


def rotate(x, angles, *, neighbors=False):
    """Rotate pairs of features of [batch, heads, tokens, size] by angles [batch, heads, tokens, pairs]."""
    pairs = [(2 * i, 2 * i + 1) if neighbors else (i, i + ROTARY // 2) for i in range(ROTARY // 2)]
    result = x.copy()
    for number, (i, j) in enumerate(pairs):
        turned = (x[..., i] + 1j * x[..., j]) * np.exp(1j * angles[..., number])
        result[..., i], result[..., j] = turned.real, turned.imag
    return result


def check(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def get_tables(repeats=1):
    """Return the cosines and sines, [positions, repeats * pairs]."""
    return np.tile(np.cos(ANGLES), repeats), np.tile(np.sin(ANGLES), repeats)


def swap(x):
    return x.swapaxes(1, 2)


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_halves_are_rotated_by_the_first_rows(rank, repeats):
    cos, sin = (table.reshape((1,) * (rank - 2) + table.shape) for table in get_tables(repeats))
    check(rope(X, cos, sin, rotary_ndims=ROTARY), rotate(X, ANGLES[:LENGTH]))
    check(rope(X[0], cos, sin, rotary_ndims=ROTARY), rotate(X[:1], ANGLES[:LENGTH])[0])


def test_heads_and_batches_may_have_angles_of_their_own():
    angles = RNG.normal(size=(BATCH, HEADS, POSITIONS, ROTARY // 2))
    expected = rotate(X, angles[:, :, :LENGTH])
    check(rope(X, np.cos(angles), np.sin(angles), rotary_ndims=ROTARY), expected)


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("shape", [(BATCH, LENGTH), (BATCH, 1, LENGTH, 1)])
def test_positions_select_rows(shape, repeats):
    result = rope(
        X, *get_tables(repeats), CHOSEN.reshape(shape).astype(np.int32), rotary_ndims=ROTARY, gather_position_arg_id=3
    )
    check(result, rotate(X, ANGLES[CHOSEN][:, None]))


def test_positions_may_be_a_later_input():
    other = np.zeros((BATCH, LENGTH), np.int64)
    result = rope(X, *get_tables(), other, CHOSEN, rotary_ndims=ROTARY, gather_position_arg_id=4)
    check(result, rotate(X, ANGLES[CHOSEN][:, None]))


@pytest.mark.parametrize(
    ("input_trans0213", "output_trans0213", "is_swapped"),
    [(False, None, False), (False, True, True), (True, False, False), (True, True, False), (True, None, False)],
)
def test_axes_of_heads_and_tokens_are_swapped(input_trans0213, output_trans0213, is_swapped):
    data = swap(X) if input_trans0213 else X
    attributes = {"input_trans0213": input_trans0213, "output_trans0213": output_trans0213}
    expected = rotate(X, ANGLES[:LENGTH])
    check(rope(data, *get_tables(), rotary_ndims=ROTARY, **attributes), swap(expected) if is_swapped else expected)


@pytest.mark.parametrize(("start", "stop", "used"), [(2, 10, slice(2, 10)), (0, 8, slice(0, 8)), (5, 5, slice(None))])
def test_some_features_are_used(start, stop, used):
    data = RNG.normal(size=(BATCH, HEADS, LENGTH, 12))
    result = rope(data, *get_tables(), rotary_ndims=ROTARY, slice_start=start, slice_stop=stop)
    check(result, rotate(data[..., used], ANGLES[:LENGTH]))


@pytest.mark.parametrize(("output_trans0213", "is_swapped"), [(None, True), (True, True), (False, False)])
def test_neighbors_are_rotated_by_sines_and_cosines(output_trans0213, is_swapped):
    table = np.concatenate([np.sin(ANGLES), np.cos(ANGLES)], axis=-1)[None]
    expected = rotate(X, ANGLES[:LENGTH], neighbors=True)
    attributes = {} if output_trans0213 is None else {"output_trans0213": output_trans0213}
    result = rope(swap(X), table, rotary_ndims=ROTARY, is_interleaved=True, **attributes)
    check(result, expected if is_swapped else swap(expected))


def join_heads(x):
    """Return [batch, tokens, heads * size], with features behind the heads."""
    joined = swap(x).reshape(BATCH, LENGTH, HEADS * SIZE)
    return np.concatenate([joined, RNG.normal(size=(BATCH, LENGTH, 5))], axis=-1)


GLM = {"is_chatglm": True, "head_cnt": HEADS, "head_size": SIZE, "rotary_ndims": ROTARY}


def test_tokens_of_chatglm_come_before_the_batch():
    angles = np.stack([ANGLES, ANGLES + 1], axis=1)  # of the tokens of each batch
    expected = rotate(X, angles[:LENGTH].swapaxes(0, 1)[:, None], neighbors=True)
    pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    more = np.concatenate([pairs, pairs], axis=1)  # of a larger batch
    for table in (pairs, more):
        check(rope(join_heads(X).swapaxes(0, 1), table, **GLM), expected.transpose(2, 0, 1, 3))


def test_the_batch_of_chatglm_may_come_first():
    pairs = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=-1)[None]
    result = rope(join_heads(X), pairs, support_2d_rope=True, **GLM)
    check(result, rotate(X, ANGLES[:LENGTH], neighbors=True))


def test_chatglm_may_have_separate_sines():
    cos, sin = (table[:LENGTH, None, None] for table in get_tables())
    result = rope(join_heads(X).swapaxes(0, 1), cos, sin, use_rope_cache=False, **GLM)
    check(result, rotate(X, ANGLES[:LENGTH], neighbors=True).transpose(2, 0, 1, 3))


QWEN = {"is_qwen": True, "head_cnt": HEADS, "head_size": SIZE}


def test_qwen_takes_the_last_rows():
    cos, sin = (table[None, :, None] for table in get_tables(2))
    check(rope(join_heads(X), cos, sin, **QWEN), swap(rotate(X, ANGLES[-LENGTH:])))


@pytest.mark.parametrize("shape", [(BATCH, LENGTH), (BATCH, 1, LENGTH, 1)])
def test_qwen_takes_the_rows_of_positions(shape):
    cos, sin = (table[None, :, None] for table in get_tables(2))
    result = rope(join_heads(X), cos, sin, CHOSEN.reshape(shape), gather_position_arg_id=3, **QWEN)
    check(result, swap(rotate(X, ANGLES[CHOSEN][:, None])))
