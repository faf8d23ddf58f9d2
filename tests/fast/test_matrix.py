"""Specialized matrix products and conversions against the plain kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fast.harness import (
    INTEGERS,
    calls_plain,
    check,
    find_operation,
    is_specialized,
    make_floats,
    make_programs,
    make_values,
)
from irrun.element_types import ELEMENT_TYPES
from irrun.fast import matrix
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.errors import NoKernelError
from irrun.fast.matrix import make_product_kernel
from irrun.fast.specialization import CallSite
from irrun.runtime.executor import Executor, RequestState
from irrun.threads import PART_MULTIPLE, use_threads

F32 = np.float32


def compare_products(a, b, inputs):
    """Allow the error of sums of products in another order."""
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("any_products")
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 6), (6, 5)),
        ((6,), (6, 5)),
        ((2, 3, 6), (6, 5)),
        ((2, 3, 4, 6), (2, 3, 6, 5)),
        ((2, 1, 4, 6), (3, 6, 5)),
        ((4, 6), (2, 6, 5)),
        ((4, 6), (6,)),
        ((2, 4, 6), (6,)),
        ((0, 6), (6, 5)),
        ((2, 0, 6), (6, 5)),
        ((4, 0), (0, 5)),
        ((4, 6), (5, 7)),
        ((), (6, 5)),
        ((1, 6), (6, 1)),
    ],
    ids=str,
)
def test_product_equals_plain_kernel(shapes, transpose_a, transpose_b):
    a, b = make_floats(shapes[0], 1), make_floats(shapes[1], 2)
    if transpose_a and a.ndim > 1:
        a = np.ascontiguousarray(a.swapaxes(-1, -2))
    if transpose_b and b.ndim > 1:
        b = np.ascontiguousarray(b.swapaxes(-1, -2))
    attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    for constants in ((), (0,), (1,)):
        check("MatMul-1", [a, b], attributes, constants=constants, compare=compare_products)
        check("MatMul-1", [a * np.nan, b], attributes, constants=constants, compare=compare_products)
        check("MatMul-1", [a.astype(np.float16), b.astype(np.float16)], attributes, constants=constants)
        check("MatMul-1", [a.astype(np.int32), b.astype(np.int32)], attributes, constants=constants)


@pytest.mark.usefixtures("any_products")
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 8, 64, 65])
def test_product_with_large_weights_equals_plain_kernel(transpose_b, rows):
    weights = make_floats((700, 600) if transpose_b else (600, 700), 2, 0.05)
    attributes = {"transpose_b": transpose_b}
    for x in (make_floats((rows, 600)), make_floats((1, rows, 600)), make_floats((600, rows)).T):
        check("MatMul-1", [x, weights], attributes, constants=(1,), compare=compare_products)
    assert is_specialized("MatMul-1", [x, weights], (1,), **attributes)


@pytest.mark.usefixtures("any_products")
def test_bits_do_not_depend_on_the_number_of_threads():
    calls = [
        ("Softmax-8", make_floats((300, 2000)), None, {"axis": -1}),
        ("Gelu-7", make_floats((700, 2000)), None, {}),
    ]
    calls.append(("MVN-2", make_floats((300, 2000)), None, {"eps": 1e-5}))
    for size, rows in ((64, 4), (400, 8), (700, 8), (700, 100), (1500, 300), (1500, 1), (1500, 9)):
        for transpose_b in (False, True):
            attributes = {"transpose_b": transpose_b}
            calls.append(("MatMul-1", make_floats((rows, size)), make_floats((size, size), 2), attributes))
    for name, x, weights, attributes in calls:
        inputs, constants = ([x], ()) if weights is None else ([x, weights], (1,))
        _, fast = make_programs(find_operation(name), inputs, attributes, constants, 1)
        outputs = []
        for threads in (1, 2, 4):
            with use_threads(threads):
                outputs.append(Executor(fast, RequestState()).run([x])[0])
        assert outputs[0].tobytes() == outputs[1].tobytes() == outputs[2].tobytes()


CONVERTIBLE = [np.float32, np.float64, np.float16, np.bool_, *INTEGERS]
TARGETS = ["f32", "f64", "f16", "bf16", "boolean", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "i4", "u4"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", CONVERTIBLE, ids=str)
def test_conversion_equals_plain_kernel(dtype, target):
    attributes = {"destination_type": ELEMENT_TYPES[target]}
    for shape in ((4, 64), (), (0,)):
        x = make_values(shape, dtype)
        repeat = [[make_values(shape, t)] for t in (np.float32, np.int32, np.int8)]
        check("Convert-1", [x], attributes, repeat=repeat)
        small = make_floats((20,), scale=100).astype(dtype)
        check("Convert-1", [small], attributes)
    like = np.zeros(1, ELEMENT_TYPES[target].dtype)
    check("ConvertLike-1", [x, like], constants=(1,))
    check("ConvertLike-1", [x, like])


@pytest.mark.parametrize("value", [2.0**31, -(2.0**31), 2.0**31 - 200, 2.0**63, 1e30, np.nan, np.inf, 2.0**30, -0.5])
def test_conversion_of_large_floats_equals_plain_kernel(value):
    for target in ("i32", "i64", "u32", "i8", "boolean"):
        check("Convert-1", [np.array([1, value], F32)], {"destination_type": ELEMENT_TYPES[target]})


def make_epilogue(*constants):
    """Return the chain gelu(x + bias) + residual."""
    value, bias, residual = Operand("input", 0), Operand("constant", 0), Operand("input", 1)
    steps = (
        Step.create("Add", value, bias),
        Step.create("Gelu", Operand("step", 0)),
        Step.create("Add", Operand("step", 1), residual),
    )
    return ElementwiseChain(steps, 2, constants)


@pytest.mark.usefixtures("any_products")
@pytest.mark.parametrize(
    ("shape", "columns", "residual_shape"),
    [
        ((1, 130, 256), 700, (1, 130, 700)),
        ((2, 5, 130, 40), 100, (5, 1, 100)),
        ((1000, 48), 300, (1000, 1)),
        ((100, 40), 900, (100, 900)),
        ((70, 1024), 1030, (1, 1)),
        ((2, 40), 9, (2, 9)),
        ((3, 256), 30000, (30000,)),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_operations_after_a_product_are_applied_to_its_parts(shape, columns, residual_shape, is_transposed):
    a, weights = make_floats(shape, 1), make_floats((shape[-1], columns), 2) / F32(16)
    stored = np.ascontiguousarray(weights.T) if is_transposed else weights
    bias, residual = make_floats((columns,), 3), make_floats(residual_shape, 4)
    site = CallSite(
        find_operation("MatMul-1"), {"transpose_b": is_transposed}, (None, stored), (False, False), output_count=1
    )
    chain = make_epilogue(bias)
    kernel = make_product_kernel(site, chain)
    results = []
    for count in (1, 2, 4):
        with use_threads(count):
            results.append(kernel(a, residual))
    np.testing.assert_allclose(results[0], chain(a @ weights, residual), rtol=1e-4, atol=1e-4)
    assert results[0].shape == (*shape[:-1], columns)
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


@pytest.mark.usefixtures("any_products")
def test_product_with_operations_refuses_other_inputs():
    weights = make_floats((64, 2000), 1) / F32(64)
    site = CallSite(find_operation("MatMul-1"), {}, (None, weights), (False, False), output_count=1)
    kernel = make_product_kernel(site, make_epilogue(make_floats((2000,), 2)))
    a, residual = make_floats((100, 64), 3), make_floats((100, 2000), 4)
    with pytest.raises(NoKernelError, match="expected f32"):
        kernel(a, residual.astype(np.float64))
    larger = make_floats((2, 100, 2000), 5)
    assert kernel(a, larger).shape == (2, 100, 2000)
    for values, attributes in (
        ((weights, None), {}),
        ((None, weights[0]), {}),
        ((None, weights), {"transpose_a": True}),
    ):
        site = CallSite(find_operation("MatMul-1"), attributes, values, (False, False), output_count=1)
        assert make_product_kernel(site, make_epilogue(weights[0])) is None


@pytest.mark.usefixtures("any_products")
@pytest.mark.parametrize(("dtype", "is_plain"), [(np.float32, False), (np.float64, True), (np.float16, True)])
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 6), (6,)])
def test_products_of_weights_with_other_types_are_left_to_the_plain_kernel(dtype, is_plain, shape):
    data, weights = make_floats(shape).astype(dtype), make_floats((6, 5), 1)
    assert calls_plain("MatMul-1", [data, weights], constants=[1]) == is_plain
    attributes = {"transpose_b": True}
    assert calls_plain("MatMul-1", [data, np.ascontiguousarray(weights.T)], attributes, constants=[1]) == is_plain


@pytest.mark.parametrize(("size", "is_copied"), [(128, True), (1 << 10, False)])
def test_small_weights_are_copied_in_the_order_of_products(size, is_copied):
    weights = np.ones((size, size + 1), np.float32)
    assert matrix._prepare_weights(weights) is weights
    prepared = matrix._prepare_weights(weights.T)
    assert prepared.flags.c_contiguous == is_copied
    assert np.shares_memory(prepared, weights) != is_copied
    np.testing.assert_array_equal(prepared, weights.T)


@pytest.mark.parametrize(("columns", "parts"), [(64, 1), (1000, 1), (1000, 3), (1000, 7)])
def test_parts_of_products_from_the_left_have_columns_of_their_own(monkeypatch, columns, parts):
    sections = []

    def record(section):
        sections.append(section.shape)
        return section

    monkeypatch.setattr(matrix, "copy_unaligned", record)
    monkeypatch.setattr(matrix, "count_parts", lambda rows, size: parts)
    weights, rows = make_floats((columns, 9), 1), make_floats((4, 9), 2)
    result = matrix._multiply_from_left(weights, rows)
    np.testing.assert_allclose(result, rows @ weights.T, rtol=1e-5, atol=1e-5)
    assert sum(count for count, _ in sections) == columns
    assert min(parts, 2) <= len(sections) <= parts
    assert all(count % PART_MULTIPLE == 0 for count, _ in sections[:-1])
