"""Matrix operations beyond the conformance tests: exact integers, order of contraction, errors."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.errors import InputError
from irrun.ops.matrix import einsum_7, grouped_mat_mul_17, inverse_14, mat_mul_1


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64])
def test_integer_products_are_exact_and_wrap(dtype):
    rng = np.random.default_rng(3)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = rng.integers(low, high, (5, 7), dtype, endpoint=True)
    b = rng.integers(low, high, (7, 3), dtype, endpoint=True)
    exact = a.astype(object) @ b.astype(object)
    bits = np.dtype(dtype).itemsize * 8
    wrapped = np.vectorize(lambda v: (v - int(low)) % (1 << bits) + int(low), otypes=[object])(exact)
    assert mat_mul_1(a, b).tolist() == wrapped.tolist()


def test_f16_is_summed_in_f32():
    a = np.full((1, 4096), 1, np.float16)
    assert mat_mul_1(a, a, transpose_b=True).tolist() == [[4096]]  # sums in f16 would stop at 2048


def test_products_of_empty_axes_are_zero():
    assert mat_mul_1(np.zeros((2, 0)), np.zeros((0, 3))).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [((2, 3), (4, 5), "inner"), ((), (2,), "rank"), ((2, 3, 4), (3, 4, 5), "batch"), ((3,), (4,), "inner")],
)
def test_mat_mul_reports_mismatched_shapes(a, b, message):
    with pytest.raises(InputError, match=message):
        mat_mul_1(np.zeros(a), np.zeros(b))


def test_einsum_contracts_smallest_product_first():
    n = 2000  # the product of the first two alone would have 4 000 000 elements times 2000
    a, b, c = np.ones((n, 1)), np.ones((n, 1)), np.ones((n, n))
    assert einsum_7(a, b, c, equation="ix,jy,ij->xy").tolist() == [[n * n]]


@pytest.mark.parametrize(
    "equation", ["ab,cd,ae->bde", "...a,a...->...", "aab,bc->c", "ab,ab->ba", "ab,bc,ca->", "a...b->...", "ba"]
)
def test_einsum_agrees_with_numpy(equation):
    rng = np.random.default_rng(11)
    inputs = [rng.normal(size=(3,) * len(s.replace("...", "xy"))) for s in equation.split("->")[0].split(",")]
    result = einsum_7(*inputs, equation=equation)
    if equation == "a...b->...":
        expected = inputs[0].sum(axis=(0, 3))
    else:
        expected = np.einsum(equation, *inputs)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ab,bc->ac", [(2, 3)]),
        ("ab->ac", [(2, 3)]),
        ("ab->aa", [(2, 3)]),
        ("ab,bc->ac", [(2, 3), (4, 5)]),
        ("a,a,a->a", [(1,), (3,), (4,)]),
        ("a,a,a->a", [(3,), (1,), (4,)]),
        ("abc->a", [(2, 3)]),
        ("a..b->a", [(2, 3)]),
        ("aa->a", [(2, 3)]),
        ("a1->a", [(2, 3)]),
    ],
)
def test_einsum_reports_invalid_equations(equation, shapes):
    with pytest.raises(InputError):
        einsum_7(*map(np.zeros, shapes), equation=equation)


def test_grouped_rows_after_the_last_group_are_zero():
    a, b = np.ones((4, 2)), np.ones((2, 3, 2))
    assert grouped_mat_mul_17(a, b, np.array([1, 3]))[:, 0].tolist() == [2, 2, 2, 0]


@pytest.mark.parametrize("offsets", [None, [3], [3, 2], [1, 5], [-1, 2], [1.0, 3.0]])
def test_grouped_offsets_are_checked(offsets):
    array = None if offsets is None else np.array(offsets)
    with pytest.raises(InputError, match="offsets"):
        grouped_mat_mul_17(np.ones((4, 2)), np.ones((2, 3, 2)), array)


def test_inverse_with_adjoint_is_transposed():
    data = np.array([[0.5, 1], [3, 2]], np.float32)
    np.testing.assert_allclose(inverse_14(data), [[-1, 0.5], [1.5, -0.25]], rtol=1e-6)
    np.testing.assert_allclose(inverse_14(data, adjoint=True), [[-1, 1.5], [0.5, -0.25]], rtol=1e-6)
    with pytest.raises(InputError):
        inverse_14(np.ones((2, 3)))
    assert inverse_14(np.ones((2, 0, 0))).shape == (2, 0, 0)


MATRIX = np.arange(1, 10).reshape(3, 3)
MATRICES = np.stack([MATRIX, 2 * MATRIX])


@pytest.mark.parametrize(
    ("equation", "inputs", "expected"),
    [
        ("i,i->", [[1, 2, 3], [4, 5, 6]], 32),
        ("ij,j->i", [[[1, 2, 3], [1, 2, 3]], [4, 5, 6]], [32, 32]),
        ("kii->k", [MATRICES], [15, 30]),
        ("kii->ki", [MATRICES], [[1, 5, 9], [2, 10, 18]]),
        ("ijk->kij", [MATRIX[np.newaxis]], MATRIX.T[:, np.newaxis]),
        ("a...->...", [MATRIX], [12, 15, 18]),
        ("a...,...->a...", [MATRIX, [0.5]], MATRIX / 2),
        ("AbC", [np.arange(1, 7).reshape(1, 2, 3)], [[[1, 4], [2, 5], [3, 6]]]),
    ],
)
def test_einsum_examples_of_specification(equation, inputs, expected):
    result = einsum_7(*(np.array(x, np.float32) for x in inputs), equation=equation)
    np.testing.assert_array_equal(result, np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ab...,ac...,ade->...bc", [(2, 3, 4), (2, 7, 1), (2, 4, 7)], (4, 3, 7)),
        ("a...b,b...->a...", [(9, 1, 4, 3), (3, 11, 7, 1)], (9, 11, 7, 4)),
        ("ab,bcd,bc->ca", [(2, 5), (5, 3, 6), (5, 3)], (3, 2)),
        ("ijkj->ij", [(2, 4, 5, 4)], (2, 4)),
    ],
)
def test_einsum_shapes_of_specification(equation, shapes, expected):
    assert einsum_7(*map(np.ones, shapes), equation=equation).shape == expected


def test_einsum_ignores_spaces():
    data = np.arange(6.0).reshape(2, 3)
    assert einsum_7(data, equation=" ab -> ba ").tolist() == data.T.tolist()
