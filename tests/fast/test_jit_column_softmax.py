"""Softmax along an axis before others."""

import importlib.util

import numpy as np
import pytest

from fast.harness import run_with_threads
from irrun.fast.errors import NoKernelError
from irrun.ops.activation.softmax import softmax_8

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

ROUNDOFF = 2.0**-24


def draw(shape, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 3).astype(np.float32)


def check(result, x, axis):
    """Assert that errors are those of the differences to the maximum, of exp, of the sum and of the quotient."""
    differences = x.astype(np.float64) - x.max(axis, keepdims=True)
    exponentials = np.exp(differences)
    exact = exponentials / exponentials.sum(axis, keepdims=True)
    largest = np.abs(differences).max(axis, keepdims=True)
    assert np.all(np.abs(result - exact) <= (2 * largest + x.shape[axis] + 12) * ROUNDOFF * exact)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 16, 64), 1), ((16, 65), 0), ((2, 3, 4, 5, 79), 2), ((5, 3, 40, 41), 1), ((2, 256, 100), 1), ((7, 1, 50), 1)],
)
def test_softmax_of_columns_agrees_with_the_definition(shape, axis):
    from irrun.fast.jit.column_softmax import ColumnSoftmaxKernel

    x = draw(shape)
    result = run_with_threads(lambda: ColumnSoftmaxKernel(len(shape), axis)(x))
    check(result, x, axis)


def test_views_of_any_strides_have_the_bits_of_contiguous_data():
    from irrun.fast.jit.column_softmax import ColumnSoftmaxKernel

    kernel = ColumnSoftmaxKernel(4, 1)
    x = draw((2, 3, 5, 100)).transpose(0, 2, 1, 3)
    expected = kernel(np.ascontiguousarray(x))
    shifted = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    shifted[...] = x
    for data in (x, x[::-1][::-1], np.repeat(x, 2, 1)[:, ::2], shifted):
        np.testing.assert_array_equal(run_with_threads(lambda data=data: kernel(data)), expected)


def test_strides_of_single_elements_do_not_matter():
    from irrun.fast.jit.column_softmax import ColumnSoftmaxKernel

    x = draw((2, 3, 1, 4, 1, 40))
    expected = ColumnSoftmaxKernel(6, 1)(x)
    strides = list(x.strides)
    for axis in (2, 4):
        for stride in (4, 7 * 4, 400 * 4):
            strides[axis] = stride
            data = np.lib.stride_tricks.as_strided(x, x.shape, strides)
            np.testing.assert_array_equal(ColumnSoftmaxKernel(6, 1)(data), expected)
    separate = np.repeat(x, 2, 3)[:, :, :, ::2]  # rows at a distance
    np.testing.assert_array_equal(ColumnSoftmaxKernel(6, 1)(separate), expected)


def test_special_values_are_those_of_the_definition():
    from irrun.fast.jit.column_softmax import ColumnSoftmaxKernel

    x = draw((1, 6, 64))
    x[0, 2, 3], x[0, :, 5], x[0, 1, 7], x[0, 4, 9] = np.nan, -np.inf, np.inf, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(ColumnSoftmaxKernel(3, 1)(x), softmax_8(x, axis=1), rtol=2e-6)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (np.zeros((2, 3, 64)), "expected f32"),
        (np.zeros((3, 64), np.float32), "expected data of the declared rank"),
        (np.zeros((2, 0, 64), np.float32), "expected aligned data with short columns"),
        (np.zeros((2, 257, 64), np.float32), "expected aligned data with short columns"),
        (np.zeros((2, 3, 2), np.float32), "the runs of columns are too short"),
        (np.zeros((2, 64, 3), np.float32).swapaxes(1, 2), "the runs of columns are too short"),
        (np.zeros((2000, 3, 64), np.float32), "the runs of columns are too short"),
    ],
    ids=["f64", "rank", "empty", "long columns", "few columns", "strided columns", "many runs"],
)
def test_other_data_is_refused(data, reason):
    from irrun.fast.jit.column_softmax import ColumnSoftmaxKernel

    with pytest.raises(NoKernelError, match=reason):
        ColumnSoftmaxKernel(3, 1)(data)


@pytest.mark.parametrize(
    ("shape", "axis", "is_compiled"),
    [([1, 8, 9, 9], 1, True), ([1, 8, 9, 9], -3, True), ([1, 8, 4, 4], 1, False), ([1, 300, 9, 9], 1, False)],
)
def test_softmax_of_enough_columns_is_compiled(shape, axis, is_compiled, tmp_path):
    import irrun

    ov = pytest.importorskip("openvino")
    o = pytest.importorskip("openvino.opset13")
    data = o.parameter(shape, np.float32)
    ov.serialize(ov.Model([o.result(o.softmax(o.relu(data), axis))], [data], "model"), tmp_path / "model.xml")
    compiled = irrun.compile_model(tmp_path / "model.xml", jit=True)
    descriptions = [i.description for i in compiled._fast_program.instructions]
    assert ("compiled: softmax, vectors of neighboring columns" in descriptions) == is_compiled
    x = draw(shape)
    check(compiled([x])[0], np.maximum(x, 0), axis)
