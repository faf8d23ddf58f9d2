"""Which instructions of a model are compiled, and that what they compute is used."""

import importlib.util

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from fast.harness import run_with_threads
from irrun.runtime.plan import list_plan

ov = import_builder()
o = import_builder("openvino.opset13")
o1 = import_builder("openvino.opset1")

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache", "forbid_plain"),
]

F32 = np.float32
IMAGE = (1, 4, 20, 24)
ROWS = (4, 20, 32)


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(F32)


def constant(*shape, seed=0, scale=1.0):
    return o.constant(draw(shape, seed) * F32(scale))


def list_groups(compiled):
    """Return the operations of each compiled instruction."""
    instructions = compiled._fast_program.instructions
    return [tuple(p.operation.type for p in i.plain) for i in instructions if i.description.startswith("compiled")]


def compile_results(folder, parameters, *results, **options):
    """Return a compiled model of some results, and one that computes the definition."""
    path = folder / "model.xml"
    ov.serialize(ov.Model([o.result(r) for r in results], list(parameters), "model"), path)
    return irrun.compile_model(path, jit=True, **options), irrun.compile_model(path, optimize=False)


def check(folder, parameters, results, expected, *, shapes=None, atol=3e-5):
    """Assert which groups of operations are compiled, and that their results agree with the definition.

    Args:
        folder: Where the model is written.
        parameters: The parameters of the model.
        results: Its results.
        expected: The operations of each compiled instruction.
        shapes: The shapes of the inputs where they are dynamic.
        atol: The largest error.
    """
    fast, plain = compile_results(folder, parameters, *results)
    assert sorted(list_groups(fast)) == sorted(expected)
    inputs = []
    for i, parameter in enumerate(parameters):
        dtype = parameter.get_element_type().to_dtype()
        inputs.append(draw(shapes[i] if shapes else list(parameter.shape), i).astype(dtype))
    actual = run_with_threads(lambda: np.concatenate([r.ravel() for r in fast(inputs).to_tuple()]))
    values = np.concatenate([r.ravel() for r in plain(inputs).to_tuple()])
    np.testing.assert_allclose(actual, values, rtol=1e-5, atol=atol)


# Chains of elementwise operations


@pytest.mark.parametrize("shape", [(4, 20, 1), (1, 1, 32), (20, 1), (32,), (1,), ()])
@pytest.mark.parametrize("is_first", [True, False])
def test_smaller_inputs_are_operands(tmp_path, shape, is_first):
    x, y = o.parameter(ROWS, F32), o.parameter(shape, F32)
    product = o.subtract(y, x) if is_first else o.subtract(x, y)
    check(tmp_path, [x, y], [o.sigmoid(product)], [("Subtract", "Sigmoid")])


@pytest.mark.parametrize("shape", [(20, 32), (4, 1, 32), (1,)])
def test_constants_are_operands(tmp_path, shape):
    x = o.parameter(ROWS, F32)
    check(tmp_path, [x], [o.exp(o.multiply(constant(*shape), x))], [("Multiply", "Exp")])


def test_result_larger_than_all_inputs_is_not_compiled(tmp_path):
    x, y = o.parameter([64, 1, 64], F32), o.parameter([1, 64, 1], F32)
    total = o.add(x, y)
    check(tmp_path, [x, y], [o.sigmoid(total)], [("Sigmoid",)])


def test_operands_of_more_elements_than_the_value_end_a_group(tmp_path):
    x, y = o.parameter([1, 20, 128], F32), o.parameter([2, 20, 128], F32)
    value = o.sigmoid(x)
    check(tmp_path, [x, y], [o.tanh(o.add(value, y))], [("Sigmoid",), ("Add", "Tanh")])
    z = o.parameter([1, 1, 20, 128], F32)
    check(tmp_path, [x, z], [o.tanh(o.add(value, z))], [("Sigmoid",), ("Add", "Tanh")])


@pytest.mark.parametrize(("size", "is_compiled"), [(1 << 11, True), ((1 << 11) - 1, False)])
def test_short_values_are_not_compiled(tmp_path, size, is_compiled):
    x = o.parameter([size], F32)
    check(tmp_path, [x], [o.sigmoid(x)], [("Sigmoid",)] if is_compiled else [])
    check(tmp_path, [x], [o.relu(o.negative(x))], [("Negative", "Relu")] if is_compiled else [])


@pytest.mark.parametrize(("size", "is_compiled"), [(1 << 15, True), ((1 << 15) - 1, False)])
def test_single_operation_that_numpy_computes_in_one_pass_is_compiled_for_long_values(tmp_path, size, is_compiled):
    x = o.parameter([size], F32)
    check(tmp_path, [x], [o.abs(x)], [("Abs",)] if is_compiled else [])


def test_dynamic_dimensions_count_as_64(tmp_path):
    x = o.parameter([-1, 32], F32)
    check(tmp_path, [x], [o.sigmoid(x)], [("Sigmoid",)], shapes=[(3, 32)])
    x = o.parameter([-1, 31], F32)
    check(tmp_path, [x], [o.sigmoid(x)], [], shapes=[(300, 31)])


def test_dynamic_operands_of_equal_dimensions_are_joined(tmp_path):
    x, y = o.parameter([-1, 640], F32), o.parameter([1, 640], F32)
    check(tmp_path, [x, y], [o.sigmoid(o.add(x, y))], [("Add", "Sigmoid")], shapes=[(5, 640), (1, 640)])


def test_values_that_others_read_end_groups(tmp_path):
    x = o.parameter(ROWS, F32)
    first = o.sigmoid(x)
    check(tmp_path, [x], [o.exp(first), o.tanh(first)], [("Sigmoid",), ("Exp",), ("Tanh",)])
    check(tmp_path, [x], [first, o.exp(first)], [("Sigmoid",), ("Exp",)])
    check(tmp_path, [x], [o.multiply(o.exp(first), o.tanh(first))], [("Sigmoid", "Exp", "Tanh", "Multiply")])
    check(tmp_path, [x], [o.multiply(x, o.exp(first))], [("Sigmoid", "Exp", "Multiply")])


def test_operations_of_other_inputs_alone_are_not_part_of_a_group(tmp_path):
    x, y = o.parameter(ROWS, F32), o.parameter(ROWS, F32)
    total = o.add(o.sigmoid(x), o.tanh(y))
    fast, _ = compile_results(tmp_path, [x, y], total)
    assert sorted(map(len, list_groups(fast))) == [1, 2]
    check(tmp_path, [x, y], [total], list_groups(fast))


def test_groups_have_at_most_24_operations(tmp_path):
    x = value = o.parameter(ROWS, F32)
    for _ in range(30):
        value = o.tanh(value)
    check(tmp_path, [x], [value], [("Tanh",) * 24, ("Tanh",) * 6])


@pytest.mark.parametrize("element_type", [np.float64, np.int32])
def test_other_types_are_not_compiled(tmp_path, element_type):
    x = o.parameter(ROWS, element_type)
    y = o.multiply(x, x)
    check(tmp_path, [x], [o.add(y, x)], [])
    z = o.sigmoid(o.convert(y, F32))
    check(tmp_path, [x], [z], [("Sigmoid",)])


def test_operations_between_types_end_groups(tmp_path):
    x = o.parameter(ROWS, F32)
    value = o.convert(o.convert(o.exp(o.sigmoid(x)), np.float64), F32)
    check(tmp_path, [x], [o.tanh(value)], [("Sigmoid", "Exp"), ("Tanh",)])
    check(tmp_path, [x], [o.select(o.greater(o.sigmoid(x), constant(1)), x, o.negative(x))], [("Sigmoid",)])


# Products, convolutions and normalizations with what follows


@pytest.mark.parametrize("transposes", [True, False])
@pytest.mark.parametrize("shape", [(4, 20, 32), (20, 32)])
def test_products_add_rows_and_values_of_their_own_shape(tmp_path, shape, transposes):
    x, y = o.parameter(shape, F32), o.parameter((*shape[:-1], 64), F32)
    weights = constant(64, 32) if transposes else constant(32, 64)
    value = o.add(o.add(o.matmul(x, weights, False, transposes), constant(64)), y)
    check(tmp_path, [x, y], [o.sigmoid(value)], [("MatMul", "Add", "Add", "Sigmoid")])


def test_products_of_columns_are_added_by_another_kernel(tmp_path):
    x, y = o.parameter([4, 20, 32], F32), o.parameter([4, 20, 1], F32)
    value = o.add(o.matmul(x, constant(32, 64), False, False), y)
    check(tmp_path, [x, y], [o.sigmoid(value)], [("MatMul",), ("Add", "Sigmoid")])


@pytest.mark.parametrize(("rows", "is_compiled"), [(32, True), (31, False)])
def test_products_with_few_weights_are_not_compiled(tmp_path, rows, is_compiled):
    x = o.parameter([50, rows], F32)
    check(tmp_path, [x], [o.matmul(x, constant(rows, 32), False, False)], [("MatMul",)] if is_compiled else [])


@pytest.mark.parametrize("transposes", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(("left", "right"), [((2, 3), (2, 3)), ((4, 1), (3,)), ((), (5,)), ((), ())])
def test_products_of_two_values_are_compiled(tmp_path, left, right, transposes):
    rows, inner, columns = 83, 33, 50
    x = o.parameter((*left, *((inner, rows) if transposes[0] else (rows, inner))), F32)
    y = o.parameter((*right, *((columns, inner) if transposes[1] else (inner, columns))), F32)
    lead = np.broadcast_shapes(left, right)
    bias = o.parameter((*lead[-1:], rows, columns), F32)
    value = o.add(o.divide(o.matmul(x, y, *transposes), o.constant(F32(8))), bias)
    value = o.multiply(o.add(value, constant(*(1 for _ in lead[1:]), 1, columns)), constant(*lead, 1, 1))
    check(tmp_path, [x, y, bias], [value], [("MatMul", "Divide", "Add", "Add", "Multiply")])


def test_products_of_views_of_two_values_are_compiled(tmp_path):
    x, y = o.parameter([2, 70, 3, 16], F32), o.parameter([2, 40, 3, 16], F32)
    order = o.constant(np.array([0, 2, 1, 3]))
    value = o.matmul(o.transpose(x, order), o.transpose(y, order), False, True)
    check(tmp_path, [x, y], [value], [("MatMul",)])


def test_products_of_few_rows_or_large_matrices_are_not_compiled(tmp_path):
    for rows, inner, columns in ((15, 40, 20), (20, 1024, 65)):
        x, y = o.parameter([2, rows, inner], F32), o.parameter([2, inner, columns], F32)
        check(tmp_path, [x, y], [o.matmul(x, y, False, False)], [], atol=3e-4)
    x, y = o.parameter([-1, 20, 40], F32), o.parameter([1, 40, 20], F32)
    check(tmp_path, [x, y], [o.matmul(x, y, False, False)], [], shapes=[(2, 20, 40), (1, 40, 20)])


@pytest.mark.parametrize("shape", [(32, 40), (3, 32, 40)])
def test_products_of_transposed_rows_are_compiled(tmp_path, shape):
    x = o.parameter(shape, F32)
    check(tmp_path, [x], [o.matmul(x, constant(32, 40), True, False)], [("MatMul",)])


def test_other_products_are_not_compiled(tmp_path):
    x, y = o.parameter([12, 40], F32), o.parameter([32, 40], F32)
    check(tmp_path, [x], [o.matmul(x, constant(3, 40, 40), False, False)], [])
    check(tmp_path, [x], [o.matmul(constant(40, 12), x, False, False)], [])
    check(tmp_path, [x, y], [o.matmul(x, y, False, True)], [])
    z = o.parameter([32, 40], np.float64)
    check(tmp_path, [z], [o.matmul(z, o.constant(draw((40, 40)).astype(np.float64)), False, False)], [])


def convolve(value, *shape, rank=2, seed=0):
    windows = [[1] * rank, [1] * rank, [1] * rank, [1] * rank]
    return o.convolution(value, constant(*shape, seed=seed, scale=0.2), *windows)


def test_convolutions_join_operands_of_any_shape(tmp_path):
    x, y, z = o.parameter(IMAGE, F32), o.parameter((1, 8, 20, 24), F32), o.parameter((1, 1, 20, 1), F32)
    value = convolve(x, 8, 4, 3, 3)
    for operand in (constant(1, 8, 1, 1), constant(24), z):
        value = o.add(value, operand)
    value = o.multiply(o.relu(value), y)
    names = ("Convolution", "Add", "Add", "Add", "Relu", "Multiply")
    check(tmp_path, [x, y, z], [value], [names])


@pytest.mark.parametrize(("rank", "is_compiled"), [(1, True), (2, True), (3, False)])
def test_convolutions_along_one_and_two_axes_are_compiled(tmp_path, rank, is_compiled):
    x = o.parameter((1, 4, *[9] * rank), F32)
    value = convolve(x, 8, 4, *[3] * rank, rank=rank)
    check(tmp_path, [x], [value], [("Convolution",)] if is_compiled else [])


def test_groups_of_channels_are_compiled(tmp_path):
    x = o.parameter(IMAGE, F32)
    windows = [[1, 1]] * 4
    value = o.group_convolution(x, constant(2, 3, 2, 3, 3), *windows)
    check(tmp_path, [x], [o.relu(value)], [("GroupConvolution", "Relu")])


def test_convolutions_of_variable_or_wide_filters_are_not_compiled(tmp_path):
    x, filters = o.parameter(IMAGE, F32), o.parameter([8, 4, 3, 3], F32)
    check(tmp_path, [x, filters], [o.convolution(x, filters, *[[1, 1]] * 4)], [])
    wide = o.parameter(IMAGE, np.float64)
    value = o.convolution(wide, o.constant(draw((8, 4, 3, 3)).astype(np.float64)), *[[1, 1]] * 4)
    check(tmp_path, [wide], [value], [])
    image = constant(*IMAGE)
    check(tmp_path, [filters], [o.convolution(image, filters, *[[1, 1]] * 4)], [])


def test_convolution_whose_result_others_read_keeps_it(tmp_path):
    x = o.parameter(IMAGE, F32)
    value = convolve(x, 8, 4, 3, 3)
    check(tmp_path, [x], [value, o.sigmoid(value)], [("Convolution",), ("Sigmoid",)])


@pytest.mark.parametrize("axes", [[-1], [2], [-2, -1], [1, 2], [2, 1], [0, 1, 2]])
def test_normalizations_along_last_axes_are_compiled(tmp_path, axes):
    x = o.parameter(ROWS, F32)
    value = o.mvn(x, o.constant(np.array(axes, np.int64)), True, 1e-5, "inside_sqrt")
    row = constant(32)
    if len(axes) == 1:
        check(tmp_path, [x], [o.add(o.multiply(value, row), x)], [("MVN", "Multiply", "Add")])
    else:
        check(tmp_path, [x], [o.sigmoid(o.multiply(value, row))], [("MVN",), ("Multiply", "Sigmoid")])


@pytest.mark.parametrize("axes", [[0], [1], [0, 2], [0, 1]])
def test_normalizations_along_other_axes_are_not_compiled(tmp_path, axes):
    x = o.parameter(ROWS, F32)
    check(tmp_path, [x], [o.mvn(x, o.constant(np.array(axes, np.int64)), True, 1e-5, "inside_sqrt")], [])


def test_normalization_adds_no_columns(tmp_path):
    x, y = o.parameter(ROWS, F32), o.parameter([4, 20, 1], F32)
    value = o.mvn(x, o.constant(np.array([2], np.int64)), True, 1e-5, "inside_sqrt")
    check(tmp_path, [x, y], [o.sigmoid(o.add(value, y))], [("MVN",), ("Add", "Sigmoid")])


# Instructions that are compiled alone


@pytest.mark.parametrize(("axis", "is_compiled"), [(2, True), (-1, True), (1, False), (0, True), (-2, False)])
def test_softmax_along_the_last_axis_or_before_many_columns_is_compiled(tmp_path, axis, is_compiled):
    x = o.parameter(ROWS, F32)
    check(tmp_path, [x], [o.softmax(x, axis)], [("Softmax",)] if is_compiled else [])


def test_softmax_of_single_values_is_not_compiled(tmp_path):
    x = o.parameter([50, 1], F32)
    check(tmp_path, [x], [o.softmax(x, 1)], [])
    y = o.parameter([50, 40], np.float64)
    check(tmp_path, [y], [o.softmax(y, 1)], [])


@pytest.mark.parametrize("shape", [IMAGE, (-1, 4, -1, -1)])
def test_maximum_of_windows_without_indices_is_compiled(tmp_path, shape):
    x = o.parameter(shape, F32)
    value = o1.max_pool(x, [2, 2], [0, 0], [1, 1], [3, 3], "floor")
    check(tmp_path, [x], [value], [("MaxPool",)], shapes=[IMAGE])


def test_maximum_of_other_windows_is_not_compiled(tmp_path):
    x = o.parameter([1, 4, 200], F32)
    check(tmp_path, [x], [o1.max_pool(x, [2], [0], [1], [3], "floor")], [])
    x = o.parameter(IMAGE, F32)
    check(tmp_path, [x], [o1.max_pool(x, [2, 3], [0, 0], [1, 1], [3, 3], "floor")], [])
    pooled = o.max_pool(x, [2, 2], [1, 1], [0, 0], [1, 1], [3, 3])
    check(tmp_path, [x], [pooled.output(0), o.convert(pooled.output(1), F32)], [])


def attend(query, key, value, *rest, causal=False):
    return o.scaled_dot_product_attention(query, key, value, *rest, causal=causal)


def test_attention_of_variable_inputs_is_compiled(tmp_path):
    query, key, value = (o.parameter([1, 2, n, 32], F32) for n in (10, 30, 30))
    inputs = [query, key, value]
    mask = o.parameter([1, 1, 10, 30], F32)
    expected = [("ScaledDotProductAttention",)]
    check(tmp_path, inputs, [attend(*inputs)], expected)
    check(tmp_path, inputs, [attend(*inputs, causal=True)], expected)
    check(tmp_path, [*inputs, mask], [attend(*inputs, mask)], expected)
    check(tmp_path, inputs, [attend(*inputs, constant(10, 30))], expected)
    check(tmp_path, inputs, [attend(*inputs, constant(10, 30), o.constant(F32(0.3)))], expected)


@pytest.mark.parametrize("kind", ["causal", "constant", "variable"])
def test_keys_that_a_boolean_mask_excludes_may_have_any_value(tmp_path, kind):
    query, key, value = inputs = [o.parameter([1, 2, n, 32], F32) for n in (10, 30, 30)]
    allowed = np.tril(np.ones((10, 30), bool))
    mask = o.parameter([10, 30], bool)
    others = {"causal": [], "constant": [o.constant(allowed)], "variable": [mask]}[kind]
    parameters = [*inputs, mask] if kind == "variable" else inputs
    result = attend(*inputs, *others, causal=kind == "causal")
    fast, plain = compile_results(tmp_path, parameters, result.output(0))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=tuple(x.get_output_shape(0))).astype(F32) for x in (query, key, value)]
    arrays[1][:, :, 10:20], arrays[1][:, :, 20:, ::2] = np.nan, np.inf
    arrays += [allowed] if kind == "variable" else []
    values, expected = fast(arrays)[0], plain(arrays)[0]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(values, expected, rtol=0, atol=2e-6)


def test_attention_with_a_variable_scale_or_constant_inputs_is_not_compiled(tmp_path):
    query, key, value = (o.parameter([1, 2, n, 32], F32) for n in (10, 30, 30))
    scale = o.parameter([], F32)
    result = attend(query, key, value, constant(10, 30), scale)
    check(tmp_path, [query, key, value, scale], [result], [])
    check(tmp_path, [query, key], [attend(query, key, constant(1, 2, 30, 32))], [])


def test_long_inputs_in_f16_are_converted_by_a_compiled_kernel(tmp_path):
    for shape, is_compiled in (((128, 128), True), ((127, 129), False), ((-1, 16), True)):
        x = o.parameter(shape, np.float16)
        value = o.matmul(o.convert(x, F32), constant(shape[1], 3), False, False)
        check(
            tmp_path, [x], [value], [("Convert",)] if is_compiled else [], shapes=[(abs(shape[0]), shape[1])], atol=3e-4
        )


# Single instructions


@pytest.mark.parametrize(("dtype", "is_compiled"), [(F32, True), (np.float64, False)])
def test_attention_and_softmax_are_compiled_in_f32(tmp_path, dtype, is_compiled):
    query, key, value = (o.parameter((1, 2, n, 16), dtype) for n in (20, 24, 24))
    attention = o.scaled_dot_product_attention(query, key, value)
    parameters = [query, key, value]
    expected = [("ScaledDotProductAttention",), ("Softmax",)] if is_compiled else []
    check(tmp_path, parameters, [attention, o.softmax(query, 3)], expected)


def test_softmax_of_a_value_without_a_known_rank_is_not_compiled(tmp_path):
    x = o.parameter(ov.PartialShape.dynamic(), F32)
    check(tmp_path, [x], [o.softmax(x, -1)], [], shapes=[(4, 40)])


# Values that are left to other kernels

SINGLE_OPERATIONS = {
    "chain": lambda x, dtype: o.tanh(o.sigmoid(x)),
    "chain of two values": lambda x, dtype: o.tanh(o.add(o.sigmoid(x), x)),
    "product": lambda x, dtype: o.matmul(x, o.constant(draw((64, 32)).astype(dtype)), False, False),
    "product of two values": lambda x, dtype: o.matmul(x, x, False, True),
    "normalization": lambda x, dtype: o.mvn(x, o.constant(np.array([-1])), True, 1e-5, "INSIDE_SQRT"),
    "softmax": lambda x, dtype: o.softmax(x, -1),
    "softmax of columns": lambda x, dtype: o.softmax(x, -2),
    "convolution": lambda x, dtype: o.convolution(
        x, o.constant(draw((4, 3, 3, 3)).astype(dtype)), [1, 1], [0, 0], [0, 0], [1, 1]
    ),
    "maximum": lambda x, dtype: o.max_pool(x, [1, 1], [1, 1], [0, 0], [0, 0], [2, 2]).output(0),
    "attention": lambda x, dtype: o.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.falls_back
@pytest.mark.parametrize("name", SINGLE_OPERATIONS)
@pytest.mark.parametrize("kind", ["another type", "an unknown rank"])
def test_values_of_other_types_or_unknown_ranks_are_computed_by_numpy(tmp_path, name, kind):
    dtype = np.float64 if kind == "another type" else F32
    shape = ov.PartialShape([2, 3, 64, 64]) if kind == "another type" else ov.PartialShape.dynamic()
    x = o.parameter(shape, dtype)
    fast, plain = compile_results(tmp_path, [x], SINGLE_OPERATIONS[name](x, dtype))
    is_compiled = kind == "an unknown rank" and name in ("convolution", "product", "maximum", "attention")
    assert bool(list_groups(fast)) <= is_compiled
    value = draw((2, 3, 64, 64)).astype(dtype)
    np.testing.assert_allclose(fast(value)[0], plain(value)[0], rtol=1e-4, atol=1e-4)


def test_nothing_is_compiled_without_memory_for_weights(tmp_path):
    x, image = o.parameter([8, 64], F32), o.parameter([1, 3, 9, 9], F32)
    results = [o.matmul(x, constant(64, 32), False, False), convolve(image, 4, 3, 3, 3)]
    for memory, expected in (
        (0, []),
        (64 * 32 * 4 - 1, [("Convolution",)]),
        (1 << 20, [("Convolution",), ("MatMul",)]),
    ):
        fast, plain = compile_results(tmp_path, [x, image], *results, weights_memory=memory)
        assert sorted(list_groups(fast)) == expected
        inputs = [draw((8, 64)), draw((1, 3, 9, 9))]
        for actual, value in zip(fast(inputs).to_tuple(), plain(inputs).to_tuple(), strict=True):
            np.testing.assert_allclose(actual, value, rtol=1e-4, atol=1e-4)


def test_normalizations_of_the_first_version_are_not_compiled(tmp_path):
    x = o.parameter([2, 3, 64, 64], F32)
    fast, plain = compile_results(tmp_path, [x], ov.opset2.mvn(x, False, True, 1e-5))
    assert list_groups(fast) == []
    value = draw((2, 3, 64, 64))
    np.testing.assert_allclose(fast(value)[0], plain(value)[0], rtol=1e-4, atol=1e-4)


def test_functions_with_parameters_are_compiled_together(tmp_path):
    x = o.parameter((2, *IMAGE[1:]), F32)
    value = o.hard_sigmoid(x, o.constant(F32(0.2)), o.constant(F32(0.5)))
    value = o.selu(value, o.constant(F32(1.67)), o.constant(F32(1.05)))
    value = o.round(o.multiply(o.sign(value), value), "HALF_TO_EVEN")
    value = o.prelu(o.subtract(value, x), o.constant(np.array([-0.5, 0.1, 0.2, 2], F32)))
    expected = ("HardSigmoid", "Selu", "Sign", "Multiply", "Round", "Subtract", "PRelu")
    check(tmp_path, [x], [value], [expected])


def test_functions_that_vectors_do_not_have_are_left_to_numpy_with_the_reason(tmp_path):
    x = o.parameter((40, 100), F32)
    fast, plain = compile_results(tmp_path, [x], o.sin(o.tanh(x)))
    assert list_groups(fast) == [("Tanh",)]
    assert [reason for entry in list_plan(fast._fast_program) for reason in entry.refused] == [
        "compile: vectors have no fast form of sin"
    ]
    np.testing.assert_allclose(fast(draw((40, 100)))[0], plain(draw((40, 100)))[0], rtol=0, atol=1e-6)
