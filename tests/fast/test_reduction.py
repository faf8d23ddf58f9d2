"""Specialized reductions, normalizations and TopK against the plain kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fast.harness import check, compare_with_exact, find_operation, make_floats, make_values
from irrun.element_types import ELEMENT_TYPES
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.normalization import make_normalization_kernel
from irrun.fast.softmax import exponentiate_rows, sum_rows
from irrun.fast.specialization import CallSite, specialize
from irrun.fast.support import TILE
from irrun.threads import use_threads

F32 = np.float32
#: Allowed in normalizations, whose terms are sums of many elements.
ALLOWED = 1e-6
NUMERIC = ["ReduceSum-1", "ReduceProd-1", "ReduceMean-1", "ReduceMax-1", "ReduceMin-1", "ReduceL1-4", "ReduceL2-4"]
TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.int8, np.uint8]
AXES = [[0], [1], [-1], [0, 1], [-1, 0], [0, -2], [], [0, 0], [5], [2]]


def repeats_axis(shape, axes):
    """Return whether an axis is counted from the beginning and from the end, which NumPy refuses."""
    return len({axis % len(shape) for axis in axes}) < len(set(axes)) if shape else False


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_reduction_equals_plain_kernel(name, axes):
    for shape in ((4, 6), (2, 3, 4), (0, 3), (3, 0), (5,), (), (300, 8), (40, 3, 16), (3, 700)):
        for number, dtype in enumerate(TYPES):
            x = make_values(shape, dtype)
            # The dimensions that are kept concern the shape of the result alone.
            for keep_dims in (True, False) if dtype == np.float32 else (bool(number % 2),):
                inputs = [x, np.array(axes, np.int64)]
                shapes = [(3, 2), (2, 2, 2)] if dtype == np.float32 else []
                repeat = [[make_values(other, dtype), inputs[1]] for other in shapes]
                falls_back = any(repeats_axis(values[0].shape, axes) for values in (inputs, *repeat))
                attributes = {"keep_dims": keep_dims}
                check(name, inputs, attributes, constants=(1,), repeat=repeat, falls_back=falls_back)
    check(name, [make_values((2, 3), np.float32), np.array(axes, np.int64)])


@pytest.mark.parametrize("keep_dims", [True, False])
def test_mean_over_spatial_axes_is_accurate(keep_dims):
    attributes = {"keep_dims": keep_dims}
    compare = compare_with_exact("ReduceMean-1", attributes, allowed_error=ALLOWED)
    for shape in ((2, 5, 8, 9), (1, 3, 56, 56), (1, 2, 70, 90), (3, 1, 1), (1, 1, 7, 7), (2, 4, 10)):
        for axes in ([2, 3], [-1, -2], [1, 2], [0, 1]):
            if max(axes) < len(shape):
                check("ReduceMean-1", [make_floats(shape), np.array(axes)], attributes, constants=(1,), compare=compare)
    x = make_floats((2, 8, 9, 6), 1).transpose(0, 3, 1, 2)
    check("ReduceMean-1", [x, np.array([2, 3])], attributes, constants=(1,), compare=compare)


@pytest.mark.parametrize("name", ["ReduceMax-1", "ReduceMin-1"])
def test_extrema_of_special_values_equal_plain_kernel(name):
    for row in ([np.nan, 1], [np.nan, np.nan], [-np.inf, -np.inf], [np.inf, np.inf], [-0.0, 0.0], [0.0, -0.0]):
        for axes in ([1], [0, 1]):
            check(name, [np.array([row], F32), np.array(axes)], constants=(1,))


@pytest.mark.parametrize("name", ["ReduceLogicalAnd-1", "ReduceLogicalOr-1"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_logical_reduction_equals_plain_kernel(name, axes):
    for shape in ((4, 6), (2, 3, 4), (0, 3), (5,), ()):
        for keep_dims in (True, False):
            x = make_values(shape, np.bool_)
            inputs, falls_back = [x, np.array(axes, np.int64)], repeats_axis(shape, axes)
            check(name, inputs, {"keep_dims": keep_dims}, constants=(1,), falls_back=falls_back)


@pytest.mark.parametrize("name", ["Softmax-1", "Softmax-8", "LogSoftmax-5"])
@pytest.mark.parametrize("axis", [0, 1, -1, 2, -3])
def test_softmax_is_accurate(name, axis):
    attributes = {"axis": axis}
    compare = compare_with_exact(name, attributes, allowed_error=ALLOWED)
    for shape in ((4, 64), (2, 3, 4), (5,), (), (0, 3), (3, 0), (400, 9), (3, TILE // 2), (70, 2000), (8, 30, 600)):
        for scale in (1, 30):
            check(name, [make_floats(shape, scale=scale)], attributes, compare=compare)
    x = make_floats((6, 400), scale=3)
    for data in (x.T, x[:, ::2], x.reshape(6, 20, 20).transpose(0, 2, 1)):
        check(name, [data], attributes, compare=compare)
    for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
        check(name, [x.astype(dtype)], attributes)
    for row in ([np.nan, 1], [np.inf, 1], [-np.inf, 1], [-np.inf, -np.inf], [3e38, -3e38]):
        check(name, [np.array([row] * 2, F32)], attributes)


@pytest.mark.parametrize("mode", ["inside_sqrt", "outside_sqrt"])
@pytest.mark.parametrize("axes", [[1], [-1], [0, 1], [1, 2], [-1, -2], [], [0, 0], [7]], ids=str)
def test_mvn_is_accurate(mode, axes):
    for normalize_variance in (True, False):
        attributes = {"normalize_variance": normalize_variance, "eps": 1e-5, "eps_mode": mode}
        compare = compare_with_exact("MVN-6", attributes, allowed_error=ALLOWED)
        for shape in ((4, 64), (2, 3, 4), (5,), (0, 3), (3, 400), (200, 700), (3, 5, 20000)):
            inputs = [make_floats(shape), np.array(axes, np.int64)]
            repeat = [[make_floats((3, 8)), inputs[1]], [make_floats((2, 5, 6)), inputs[1]]]
            check("MVN-6", inputs, attributes, constants=(1,), repeat=repeat, compare=compare)
        for data in (make_floats((8, 9)).T, make_floats((8, 9)).astype(np.float16)):
            check("MVN-6", [data, np.array(axes, np.int64)], attributes, constants=(1,), compare=compare)


@pytest.mark.parametrize("across_channels", [True, False])
@pytest.mark.parametrize("reduction_axes", [None, [1, 2]])
def test_mvn_2_is_accurate(across_channels, reduction_axes):
    attributes = {"eps": 1e-5, "across_channels": across_channels, "reduction_axes": reduction_axes}
    for shape in ((2, 3, 8), (2, 3, 8, 9), (2, 3), (2, 40, 1000)):
        check(
            "MVN-2",
            [make_floats(shape)],
            attributes,
            compare=compare_with_exact("MVN-2", attributes, allowed_error=ALLOWED),
        )


@pytest.mark.parametrize("mode", ["add", "max"])
@pytest.mark.parametrize("axes", [[1], [-1], [0, 1], [], [0, 0], [7]], ids=str)
def test_normalize_l2_equals_plain_kernel(mode, axes):
    attributes = {"eps": 1e-3, "eps_mode": mode}
    compare = compare_with_exact("NormalizeL2-1", attributes, allowed_error=ALLOWED)
    for shape in ((4, 64), (2, 3, 4), (5,), (0, 3), ()):
        for dtype in (np.float32, np.float64, np.float16):
            inputs = [make_floats(shape).astype(dtype), np.array(axes, np.int64)]
            check("NormalizeL2-1", inputs, attributes, constants=(1,), compare=compare)


@pytest.mark.parametrize("name", ["BatchNormInference-5", "BatchNormInference-1"])
def test_batch_norm_equals_plain_kernel(name):
    parameters = [make_floats((3,), i) for i in range(3)] + [np.abs(make_floats((3,), 4))]
    for shape in ((2, 3), (2, 3, 4, 5), (2, 4), (3,), (0, 3, 2)):
        for dtype in (np.float32, np.float16, np.float64):
            data = make_floats(shape).astype(dtype)
            position = 0 if name.endswith("5") else 2
            values = [p.astype(dtype) for p in parameters]
            inputs = [*values[:position], data, *values[position:]]
            constants = [i for i in range(5) if i != position]
            check(name, inputs, {"epsilon": 1e-3}, constants=constants)
            check(name, inputs, {"epsilon": 1e-3}, constants=constants[:2])


@pytest.mark.parametrize("groups", [1, 2, 4, 3])
def test_group_normalization_is_accurate(groups):
    attributes = {"num_groups": groups, "epsilon": 1e-4}
    compare = compare_with_exact("GroupNormalization-12", attributes, allowed_error=ALLOWED)
    scale, bias = make_floats((4,), 1), make_floats((4,), 2)
    for shape in ((2, 4, 5, 6), (1, 4), (2, 3), (2, 4, 200, 300), (0, 4, 2)):
        check("GroupNormalization-12", [make_floats(shape), scale, bias], attributes, constants=(1, 2), compare=compare)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("sort", ["none", "value", "index"])
def test_topk_equals_plain_kernel(mode, sort):
    for dtype in (np.float32, np.float16, np.int32, np.uint8, np.int64):
        for shape in ((4, 64), (7,), (2, 3, 9), (0, 4), (4, 0), (2, 600)):
            x = (make_values(shape, np.int8) % 7).astype(dtype)
            for k in (0, 1, 3, 5, 64):
                for axis in (-1, 0, len(shape) - 1):
                    for index_type in ("i32", "i64") if dtype == np.float32 else ("i32",):
                        index = ELEMENT_TYPES[index_type]
                        attributes = {"axis": axis, "mode": mode, "sort": sort, "index_element_type": index}
                        check("TopK-11", [x, np.array(k)], attributes, constants=(1,), outputs=2)
    attributes = {"axis": -1, "mode": mode, "sort": sort}
    for k in (1, 4):
        check("TopK-3", [make_floats((3, 20), special=True), np.array(k)], attributes, constants=(1,), outputs=2)
        check("TopK-1", [np.array([[0.0, -0.0, -1, 0]], F32), np.array(k)], attributes, constants=(1,), outputs=2)
        check("TopK-1", [make_floats((3, 20)).T, np.array(k)], attributes, constants=(1,), outputs=2)


@pytest.mark.parametrize("axis", [-1, 2, 1])
@pytest.mark.parametrize("mode", ["inside_sqrt", "outside_sqrt"])
@pytest.mark.parametrize("shape", [(2, 300, 512), (1, 2500, 96), (2, 5, 60)], ids=str)
def test_operations_after_mvn_are_applied_to_its_blocks(shape, mode, axis):
    x, scale, offset = make_floats(shape, 1), make_floats(shape[-1:], 2), make_floats((shape[1], 1), 3)
    steps = (
        Step.create("Multiply", Operand("input", 0), Operand("constant", 0)),
        Step.create("Add", Operand("step", 0), Operand("input", 1)),
    )
    attributes = {"normalize_variance": True, "eps": 1e-5, "eps_mode": mode}
    operation, axes = find_operation("MVN-6"), np.array([axis])
    site = CallSite(operation, attributes, (None, axes), (False, False), output_count=1)
    kernel = make_normalization_kernel(site, ElementwiseChain(steps, 2, (scale,)))
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(kernel(x, offset))
    expected = operation.kernel(x.astype(np.float64), axes, **attributes) * scale + offset
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=2e-5)
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_mvn_with_operations_leaves_other_inputs_to_the_kernel():
    chain = ElementwiseChain((Step.create("Multiply", Operand("input", 0), Operand("input", 1)),), 2)
    attributes = {"normalize_variance": True, "eps": 1e-5, "eps_mode": "inside_sqrt"}
    operation = find_operation("MVN-6")
    site = CallSite(operation, attributes, (None, np.array([-1])), (False, False), output_count=1)
    kernel = make_normalization_kernel(site, chain)
    x = make_floats((500, 300))
    expected = operation.kernel(x, np.array([-1]), **attributes)
    other = make_floats((2, 500, 300))
    np.testing.assert_allclose(kernel(x, other), expected * other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kernel(x.T.copy().T, F32(2).reshape(1, 1)), 2 * expected, rtol=1e-4, atol=1e-5)
    both = CallSite(operation, attributes, (None, np.array([0, 1])), (False, False), output_count=1)
    assert make_normalization_kernel(both, chain) is None


@pytest.mark.parametrize(
    ("is_product", "shape", "axes"),
    [
        (True, (1, 2, 8, 4), [2, 3]),
        (True, (1, 2, 8, 4), [-1, -2]),
        (True, (2, 1, 32, 1), [3, 2]),
        (True, (2, 4, 4, 2), [1, 2, 3]),
        (True, (2, 1, 4, 4, 2), [2, 3, -1]),
        (False, (1, 1, 8, 4), [2, 3]),
        (False, (1, 2, 31, 1), [2, 3]),
        (False, (2, 8, 8, 4), [1, 2]),
        (False, (2, 8, 8, 4), [1, 3]),
        (False, (2, 8, 8, 4), [0, 1, 2, 3]),
        (False, (2, 3, 40), [2]),
        (False, (40, 40), [0, 1]),
    ],
    ids=str,
)
def test_mean_over_spatial_axes_is_a_product(is_product, shape, axes, monkeypatch):
    """That of at least two rows of at least 32 elements with a vector of ones."""
    calls = []

    def record(rows):
        calls.append(rows.shape)
        return sum_rows(rows)

    monkeypatch.setattr("irrun.fast.reduction.sum_rows", record)
    for keep_dims in (True, False):
        x, attributes = make_floats(shape), {"keep_dims": keep_dims}
        values, operation = (None, np.array(axes)), find_operation("ReduceMean-1")
        kernel = specialize(CallSite(operation, attributes, values, (False, False), output_count=1))
        calls.clear()
        np.testing.assert_allclose(kernel(x), operation.kernel(x, np.array(axes), **attributes), rtol=1e-5, atol=1e-6)
        assert bool(calls) == is_product
        if is_product:
            assert calls[0][1] >= 32
            kernel(np.asfortranarray(x))
            assert len(calls) == 1  # not contiguous


@pytest.mark.parametrize(
    ("rows", "is_shifted"),
    [
        ([[32.0, -99.0]], False),
        ([[32.5, 0.0]], True),
        ([[-32.0, -32.0]], False),
        ([[-32.5, -33.0]], True),
        ([[0.0, 0.0], [-42.0, -42.0]], False),
        ([[0.0, 0.0], [-43.0, -43.0]], True),
        ([[-np.inf, 1.0], [1.0, 2.0]], False),
    ],
    ids=str,
)
def test_exponents_are_shifted_if_that_is_necessary(rows, is_shifted):
    """Where exponentials would overflow, or those of a row would vanish."""
    x = np.array(rows, F32)
    out = np.empty_like(x)
    total = exponentiate_rows(x, out)
    expected = np.exp(x - x.max(axis=1, keepdims=True)) if is_shifted else np.exp(x)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_allclose(total, expected.sum(axis=1, keepdims=True), rtol=1e-6)
    assert total.shape == (len(x), 1)


@pytest.mark.parametrize(("length", "is_product"), [(1, True), (4096, True), (4097, False)])
def test_long_rows_are_not_summed_up_by_products(length, is_product):
    """NumPy's sums of them are more precise."""
    x = make_floats((3, length))
    expected = x.dot(np.ones((length, 1), F32)) if is_product else np.add.reduce(x, axis=1, keepdims=True)
    np.testing.assert_array_equal(sum_rows(x), expected)
