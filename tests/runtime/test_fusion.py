"""Fused instructions against the plain program, on random graphs of layers."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from ir_text import layer, net, port, write

import irrun
from irrun.runtime.plan import list_plan

F32 = np.float32


class GraphBuilder:
    """Builds an IR of f32 layers of one output."""

    def __init__(self):
        self.layers, self.edges, self.shapes, self.input_counts, self.weights = [], [], [], [], b""

    def add(self, type, inputs=(), shape=(), data="", version="opset1"):
        """Add a layer and return its id."""
        number = len(self.layers)
        ports = [port(i, self.shapes[source]) for i, source in enumerate(inputs)]
        outputs = [] if type == "Result" else [port(len(inputs), shape, "FP32")]
        self.layers.append(layer(number, type, version, data, ports, outputs))
        self.edges += [(source, self.input_counts[source], number, i) for i, source in enumerate(inputs)]
        self.shapes.append(tuple(shape))
        self.input_counts.append(len(inputs))
        return number

    def add_parameter(self, shape):
        return self.add("Parameter", (), shape, f'shape="{",".join(map(str, shape))}" element_type="f32"')

    def add_constant(self, value):
        value = np.asarray(value, F32)
        shape = ",".join(map(str, value.shape))
        data = f'element_type="f32" shape="{shape}" offset="{len(self.weights)}" size="{value.nbytes}"'
        self.weights += value.tobytes()
        return self.add("Const", (), value.shape, data)

    def read(self, folder, *results):
        for result in results:
            self.add("Result", [result])
        return irrun.read_model(write(folder, net(self.layers, self.edges), self.weights))


CONVOLUTION = 'strides="1,1" dilations="1,1" pads_begin="1,1" pads_end="1,1" auto_pad="explicit"'
UNARY = [("Relu", "", "opset1"), ("Sigmoid", "", "opset1"), ("Clamp", 'min="-1" max="2"', "opset1")]
UNARY += [("HSwish", "", "opset4"), ("Swish", "", "opset4"), ("Gelu", "", "opset2"), ("Tanh", "", "opset1")]


def add_random_layers(builder, rng, value, shape, others, count):
    """Add elementwise layers that consume random earlier values; return all values."""
    values = [value]
    for _ in range(count):
        source = values[rng.integers(max(0, len(values) - 3), len(values))]
        kind = rng.integers(4)
        if kind == 0:
            name, data, version = UNARY[rng.integers(len(UNARY))]
            values.append(builder.add(name, [source], shape, data, version))
            continue
        other = [values[rng.integers(len(values))], others[rng.integers(len(others))], None, None][kind]
        if other is None:
            sizes = [(1, shape[1], 1, 1), (1,) * 4, shape, (shape[1], 1, 1), (shape[-1],)]
            other = builder.add_constant(rng.standard_normal(sizes[rng.integers(len(sizes))]))
        pair = [source, other] if rng.integers(2) else [other, source]
        values.append(builder.add(["Add", "Multiply", "Subtract"][rng.integers(3)], pair, shape))
    return values


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_equal_plain_program(tmp_path, seed):
    rng = np.random.default_rng(seed)
    builder = GraphBuilder()
    shape = (int(rng.integers(1, 3)), 4, *map(int, rng.integers(3, 9, 2)))
    x, y = builder.add_parameter(shape), builder.add_parameter(shape)
    gate = builder.add_parameter((*shape[:2], 1, 1))
    anchor = [x, None, None][seed % 3]
    if anchor is None and seed % 3 == 1:
        filters = builder.add_constant(rng.standard_normal((4, 4, 3, 3)) / 6)
        anchor = builder.add("Convolution", [x, filters], shape, CONVOLUTION)
    elif anchor is None:
        weights = builder.add_constant(rng.standard_normal((shape[-1], shape[-1])) / 3)
        anchor = builder.add("MatMul", [x, weights], shape, 'transpose_a="false" transpose_b="true"')
    values = add_random_layers(builder, rng, anchor, shape, [y, gate], 10)
    results = [values[-1], *rng.choice(values, int(rng.integers(0, 3)))]
    model = builder.read(tmp_path, *map(int, results))
    inputs = [rng.standard_normal(s).astype(F32) for s in (shape, shape, (*shape[:2], 1, 1))]
    copies = [a.copy() for a in inputs]
    fast = irrun.compile_model(model)
    expected = irrun.compile_model(model, optimize=False)(inputs).to_tuple()
    for _ in range(2):
        for a, b in zip(fast(inputs).to_tuple(), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * max(1, np.abs(b).max()))
    for a, b in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(a, b)


def make_block(folder, scale=2.0):
    """Return a model of a convolution, BatchNormInference, PRelu and a sum."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    shape = (1, 4, 8, 8)
    x, y = builder.add_parameter(shape), builder.add_parameter(shape)
    filters = builder.add_constant(rng.standard_normal((4, 4, 3, 3)))
    value = builder.add("Convolution", [x, filters], shape, CONVOLUTION)
    statistics = [builder.add_constant(np.abs(rng.standard_normal(4)) * scale) for _ in range(4)]
    value = builder.add("BatchNormInference", [value, *statistics], shape, 'epsilon="0.001"', "opset5")
    value = builder.add("PRelu", [value, builder.add_constant(rng.standard_normal(4))], shape)
    return builder.read(folder, builder.add("Add", [value, y], shape))


def get_fused_instructions(compiled):
    return [i for i in compiled._fast_program.instructions if len(i.plain) > 1]


def test_block_becomes_one_instruction_that_names_its_layers(tmp_path):
    compiled = irrun.compile_model(make_block(tmp_path), jit=False)
    (instruction,) = compiled._fast_program.instructions
    assert [i.operation.type for i in instruction.plain] == ["Convolution", "BatchNormInference", "PRelu", "Add"]
    assert instruction.layers == tuple(i.layer.name for i in instruction.plain)
    assert instruction.description == "columns: all others; with BatchNormInference, PRelu, Add"
    inputs = [np.random.default_rng(i).standard_normal((1, 4, 8, 8)).astype(F32) for i in range(2)]
    expected = irrun.compile_model(make_block(tmp_path), optimize=False)(inputs)[0]
    np.testing.assert_allclose(compiled(inputs)[0], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (1, 1, 1), (1,)])
@pytest.mark.parametrize("kind", ["Convolution", "GroupConvolution"])
@pytest.mark.parametrize("has_more", [False, True])
def test_constant_factors_are_part_of_the_filters(tmp_path, shape, kind, has_more):
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    image = (1, 4, 8, 8)
    x = builder.add_parameter(image)
    filters = rng.standard_normal((4, 4, 3, 3) if kind == "Convolution" else (2, 2, 2, 3, 3)).astype(F32)
    factor = rng.standard_normal(shape).astype(F32)
    value = builder.add(kind, [x, builder.add_constant(filters)], image, CONVOLUTION)
    value = builder.add("Multiply", [builder.add_constant(factor), value], image)
    if has_more:
        value = builder.add("Clamp", [builder.add("Exp", [value], image)], image, 'min="0.5" max="3"')
    model = builder.read(tmp_path, value)
    compiled = irrun.compile_model(model, jit=False)
    (instruction,) = compiled._fast_program.instructions
    channels = np.broadcast_to(factor.reshape(-1), 4).reshape(*filters.shape[: filters.ndim - 3], 1, 1, 1)
    kernel: Any = instruction.kernel
    np.testing.assert_array_equal(kernel.filters.reshape(filters.shape), filters * channels)
    data = rng.standard_normal(image).astype(F32)
    expected = irrun.compile_model(model, optimize=False)(data)[0]
    np.testing.assert_allclose(compiled(data)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1, 1, 8), (1, 1, 8, 1), (1, 4, 8, 8), (2,)])
def test_other_factors_are_applied_to_the_result(tmp_path, shape):
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    image = (1, 4, 8, 8) if shape != (2,) else (1, 4, 8, 2)
    x = builder.add_parameter(image)
    value = builder.add("Convolution", [x, builder.add_constant(rng.standard_normal((4, 4, 3, 3)))], image, CONVOLUTION)
    value = builder.add("Multiply", [value, builder.add_constant(rng.standard_normal(shape))], image)
    model = builder.read(tmp_path, builder.add("Tanh", [value], image))
    compiled = irrun.compile_model(model, jit=False)
    assert [len(i.plain) for i in compiled._fast_program.instructions] == [3]
    data = rng.standard_normal(image).astype(F32)
    np.testing.assert_allclose(compiled(data)[0], irrun.compile_model(model, optimize=False)(data)[0], atol=1e-4)


def test_factor_of_a_value_that_is_used_again_is_not_part_of_the_filters(tmp_path):
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    image = (1, 4, 8, 8)
    x = builder.add_parameter(image)
    value = builder.add("Convolution", [x, builder.add_constant(rng.standard_normal((4, 4, 3, 3)))], image, CONVOLUTION)
    scaled = builder.add("Multiply", [value, builder.add_constant(np.full((1, 4, 1, 1), 3))], image)
    model = builder.read(tmp_path, builder.add("Add", [scaled, value], image))
    compiled = irrun.compile_model(model, jit=False)
    assert [len(i.plain) for i in compiled._fast_program.instructions] == [3]
    data = rng.standard_normal(image).astype(F32)
    np.testing.assert_allclose(compiled(data)[0], irrun.compile_model(model, optimize=False)(data)[0], atol=1e-4)


@pytest.mark.falls_back
def test_error_in_fused_instruction_names_the_layer(tmp_path):
    builder = GraphBuilder()
    x, y = builder.add_parameter((-1, 3)), builder.add_parameter((-1, 3))
    value = builder.add("Add", [builder.add("Relu", [x], (-1, 3)), y], (-1, 3))
    compiled = irrun.compile_model(builder.read(tmp_path, builder.add("Sigmoid", [value], (-1, 3))))
    assert len(get_fused_instructions(compiled)) == 1
    assert compiled([np.ones((2, 3), F32), np.ones((2, 3), F32)])[0].shape == (2, 3)
    assert compiled([np.ones((1, 3), F32), np.ones((2, 3), F32)])[0].shape == (2, 3)  # the other operand is larger
    with pytest.raises(irrun.IrrunError, match=r"layer3.*Add"):
        compiled([np.ones((2, 3), F32), np.ones((4, 3), F32)])


def test_values_with_other_consumers_are_computed(tmp_path):
    builder = GraphBuilder()
    x = builder.add_parameter((2, 3))
    first = builder.add("Relu", [x], (2, 3))
    second = builder.add("Sigmoid", [first], (2, 3))
    model = builder.read(tmp_path, first, second)
    compiled = irrun.compile_model(model)
    assert not get_fused_instructions(compiled)
    data = np.random.default_rng(0).standard_normal((2, 3)).astype(F32)
    np.testing.assert_array_equal(compiled(data)[0], np.maximum(data, 0))


def test_memory_of_operands_that_broadcast_is_checked_before_it_is_allocated(tmp_path):
    builder = GraphBuilder()
    shape = (-1, -1)
    column, row = (builder.add("Parameter", (), shape, 'shape="?,?" element_type="f32"') for _ in range(2))
    total = builder.add("Add", [builder.add("Relu", [column], shape), row], shape)
    model = builder.read(tmp_path, builder.add("Tanh", [total], shape))
    compiled = irrun.compile_model(model, memory="100M", jit=False)
    assert [len(i.plain) for i in compiled._fast_program.instructions] == [3]
    small, large = np.ones((3, 1), F32), np.ones((8000, 1), F32)
    for _ in range(2):  # what was accepted for small shapes does not count for large ones, and the other way around
        assert compiled([small, small.T])[0].shape == (3, 3)
        tracemalloc.start()
        with pytest.raises(irrun.IrrunError, match="the run would take 244 MiB"):
            compiled([large, large.T])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 100 << 20


@pytest.mark.parametrize("is_constant", [False, True])
def test_value_that_flows_through_a_region_has_the_shape_of_the_result(tmp_path, is_constant):
    """It is the second input: the first one is broadcast, or constant."""
    shape, row = (2, 4, 8, 8), (1, 4, 1, 1)
    builder = GraphBuilder()
    if is_constant:
        first = builder.add_constant(np.ones(shape))
        x = builder.add_parameter(shape)
    else:
        first, x = builder.add_parameter(row), builder.add_parameter(shape)
    value = builder.add("Sigmoid", [builder.add("Subtract", [first, x], shape)], shape)
    compiled = irrun.compile_model(builder.read(tmp_path, value), jit=False)
    (instruction,) = get_fused_instructions(compiled)
    assert instruction.inputs[0] == compiled._fast_program.parameters[-1]


def test_type_of_a_converted_value_need_not_be_declared(tmp_path):
    shape = (2, 3)
    layers = [
        layer(0, "Parameter", data='shape="2,3" element_type="i64"', outputs=[port(0, shape, "I64")]),
        layer(1, "Convert", data='destination_type="f32"', inputs=[port(0, shape)], outputs=[port(1, shape)]),
        layer(2, "Sigmoid", inputs=[port(0, shape)], outputs=[port(1, shape, "FP32")]),
        layer(3, "Exp", inputs=[port(0, shape)], outputs=[port(1, shape, "FP32")]),
        layer(4, "Result", inputs=[port(0, shape)]),
    ]
    path = write(tmp_path, net(layers, [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0), (3, 1, 4, 0)]))
    compiled = irrun.compile_model(path, jit=False)
    (instruction,) = get_fused_instructions(compiled)
    assert [i.operation.type for i in instruction.plain] == ["Sigmoid", "Exp"]
    x = np.arange(6).reshape(shape)
    np.testing.assert_allclose(compiled(x)[0], irrun.compile_model(path, optimize=False)(x)[0], rtol=1e-6)


def list_chains(compiled):
    """Return the operations that each instruction computes, and the descriptions of the instructions."""
    plan = list(list_plan(compiled._fast_program))
    return [entry.operations for entry in plan], [entry.implementation for entry in plan]


def check_plan(model, inputs, expected, precision=1e-5):
    """Compare the operations of each instruction with the expected ones, and results with the plain program.

    Returns:
        The descriptions of the instructions.
    """
    compiled = irrun.compile_model(model, jit=False)
    operations, descriptions = list_chains(compiled)
    assert operations == expected
    copies = [x.copy() for x in inputs]
    plain = irrun.compile_model(model, optimize=False)(inputs).to_tuple()
    for _ in range(2):
        for actual, value in zip(compiled(inputs).to_tuple(), plain, strict=True):
            np.testing.assert_allclose(actual, value, rtol=precision, atol=precision)
    for x, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
    return descriptions


def draw(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(F32) for shape in shapes]


def test_values_with_other_consumers_are_computed_separately(tmp_path):
    shape = (2, 3)
    builder = GraphBuilder()
    x = builder.add_parameter(shape)
    first = builder.add("Relu", [x], shape)
    second = builder.add("Exp", [first], shape)
    third = builder.add("Tanh", [second], shape)
    model = builder.read(tmp_path, first, third)
    check_plan(model, draw(shape), [("Relu",), ("Exp", "Tanh")])


def test_operations_on_other_shapes_are_computed_separately(tmp_path):
    builder = GraphBuilder()
    x, y = builder.add_parameter((3,)), builder.add_parameter((2, 3))
    row = builder.add("Exp", [builder.add("Relu", [x], (3,))], (3,))
    total = builder.add("Tanh", [builder.add("Add", [row, y], (2, 3))], (2, 3))
    check_plan(builder.read(tmp_path, total), draw((3,), (2, 3)), [("Relu", "Exp"), ("Add", "Tanh")])


def test_smaller_values_that_are_computed_on_the_way_are_inputs(tmp_path):
    """The mean depends on the first operation, so the last one cannot be computed together with it."""
    shape = (2, 4, 3, 3)
    builder = GraphBuilder()
    x, gate = builder.add_parameter(shape), builder.add_parameter((2, 4, 1, 1))
    value = builder.add("Relu", [x], shape)
    mean = builder.add("MVN", [value], shape, 'normalize_variance="true" across_channels="false" eps="0.1"')
    scaled = builder.add("Multiply", [builder.add("Exp", [value], shape), gate], shape)
    total = builder.add("Add", [scaled, builder.add("Sqrt", [builder.add("Abs", [mean], shape)], shape)], shape)
    model = builder.read(tmp_path, total)
    compiled = irrun.compile_model(model, jit=False)
    inputs = draw(shape, (2, 4, 1, 1))
    expected = irrun.compile_model(model, optimize=False)(inputs)[0]
    np.testing.assert_allclose(compiled(inputs)[0], expected, rtol=1e-5)
    assert len(list_chains(compiled)[0]) < 6


STATISTICS = [[1.0, 2.0, -1.0, 0.5], [0.5, 0.0, 1.0, 2.0], [0.1, 0.2, 0.3, 0.4], [1.0, 4.0, 0.5, 2.0]]


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 3), (1, 4, 3, 2)])
def test_normalization_by_statistics_is_part_of_a_chain(shape, tmp_path):
    builder = GraphBuilder()
    value = builder.add("Relu", [builder.add_parameter(shape)], shape)
    statistics = [builder.add_constant(s) for s in STATISTICS]
    value = builder.add("BatchNormInference", [value, *statistics], shape, 'epsilon="0.01"', "opset5")
    model = builder.read(tmp_path, builder.add("Exp", [value], shape))
    (description,) = check_plan(model, draw(shape), [("Relu", "BatchNormInference", "Exp")])
    assert description.startswith("chain of 4 operations")


@pytest.mark.parametrize("replaced", [1, 3, 4])
@pytest.mark.parametrize("kind", ["parameter", "not finite"])
def test_normalization_by_other_statistics_is_computed_separately(replaced, kind, tmp_path):
    shape = (2, 4, 3)
    builder = GraphBuilder()
    x = builder.add_parameter(shape)
    parameter = builder.add_parameter((4,)) if kind == "parameter" else None
    value = builder.add("Tanh", [builder.add("Relu", [x], shape)], shape)
    values = [builder.add_constant(np.where(np.arange(4) == 2, np.inf, s)) for s in STATISTICS]
    statistics = [builder.add_constant(s) for s in STATISTICS]
    statistics[replaced - 1] = values[replaced - 1] if parameter is None else parameter
    value = builder.add("BatchNormInference", [value, *statistics], shape, 'epsilon="0.01"', "opset5")
    model = builder.read(tmp_path, builder.add("Sigmoid", [builder.add("Exp", [value], shape)], shape))
    inputs = draw(shape) if parameter is None else [*draw(shape), np.float32([1, 2, 3, 4])]
    if kind == "not finite" and replaced == 4:  # the scale is 0
        check_plan(model, inputs, [("Relu", "Tanh", "BatchNormInference", "Exp", "Sigmoid")])
    else:
        check_plan(model, inputs, [("Relu", "Tanh"), ("BatchNormInference",), ("Exp", "Sigmoid")])


@pytest.mark.parametrize(
    ("shape", "slope", "is_fused"),
    [
        ((2, 4, 3), (4,), True),
        ((2, 4), (4,), True),
        ((4,), (4,), True),
        ((4, 3, 4), (1,), True),
        ((4, 3, 4), (), True),
        ((2, 4, 3), (1, 4, 1), True),
        ((2, 4, 3), (3,), False),
        ((2, 4, 3), (1, 1, 4, 1), False),
    ],
)
def test_slopes_of_prelu_belong_to_channels(shape, slope, is_fused, tmp_path):
    builder = GraphBuilder()
    value = builder.add("Tanh", [builder.add_parameter(shape)], shape)
    values = (np.arange(np.prod(slope, dtype=int)) + 1) / 5
    value = builder.add("PRelu", [value, builder.add_constant(values.reshape(slope))], shape)
    model = builder.read(tmp_path, builder.add("Exp", [value], shape))
    expected = [("Tanh", "PRelu", "Exp")] if is_fused else [("Tanh",), ("PRelu",), ("Exp",)]
    check_plan(model, draw(shape), expected)


@pytest.mark.parametrize(
    ("limits", "data", "is_fused"),
    [
        (((4, 1), (4, 1), (4, 1), (4, 1)), "", True),
        (((1, 4, 1), (), (1,), (4, 1)), "", True),
        (((4, 1), (4, 1), (1, 1, 4, 1), (4, 1)), "", False),
    ],
)
def test_quantization_per_channel_is_part_of_a_chain(limits, data, is_fused, tmp_path):
    shape = (2, 4, 3)
    builder = GraphBuilder()
    value = builder.add("Tanh", [builder.add_parameter(shape)], shape)
    numbers = [
        np.broadcast_to(np.float32(n) * (1 + np.arange(4)[:, None] / 8 if 4 in limit else 1), limit)
        for n, limit in zip((-0.5, 0.75, -1, 1.5), limits, strict=True)
    ]
    value = builder.add("FakeQuantize", [value, *map(builder.add_constant, numbers)], shape, f'levels="256" {data}')
    model = builder.read(tmp_path, builder.add("Exp", [value], shape))
    if is_fused:
        check_plan(model, draw(shape), [("Tanh", "FakeQuantize", "Exp")])
    else:
        assert ("Tanh", "FakeQuantize", "Exp") not in list_chains(irrun.compile_model(model, jit=False))[0]


@pytest.mark.parametrize("is_result", [False, True])
def test_values_are_overwritten_if_nothing_else_reads_them(is_result, tmp_path):
    """A chain follows a value of another shape, which it may replace unless it is a result."""
    builder = GraphBuilder()
    x, y = builder.add_parameter((2, 3)), builder.add_parameter((4, 1, 3))
    total = builder.add("Add", [x, y], (4, 2, 3))
    product = builder.add("Softmax", [total], (4, 2, 3), 'axis="1"')
    transposed = builder.add("Squeeze", [builder.add("Exp", [builder.add("Relu", [x], (2, 3))], (2, 3))], (2, 3))
    results = [builder.add("Tanh", [builder.add("Abs", [transposed], (2, 3))], (2, 3))]
    results += [product] if is_result else []
    results.append(builder.add("Exp", [builder.add("Sqrt", [product], (4, 2, 3))], (4, 2, 3)))
    model = builder.read(tmp_path, *results)
    compiled = irrun.compile_model(model, jit=False)
    inputs = draw((2, 3), (4, 1, 3))
    copies = [x.copy() for x in inputs]
    for a, b in zip(
        compiled(inputs).to_tuple(), irrun.compile_model(model, optimize=False)(inputs).to_tuple(), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    for a, b in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(a, b)


def test_long_chains_are_divided_and_overwrite_their_input(tmp_path):
    shape = (5, 7)
    builder = GraphBuilder()
    value, y = builder.add_parameter(shape), builder.add_parameter(shape)
    for number in range(40):
        value = builder.add("Add", [value, y], shape) if number % 2 else builder.add("Tanh", [value], shape)
    model = builder.read(tmp_path, value)
    compiled = irrun.compile_model(model, jit=False)
    operations, descriptions = list_chains(compiled)
    assert [name for names in operations for name in names] == ["Tanh", "Add"] * 20
    first, second = descriptions
    assert "in place" not in first  # it reads an input
    assert second.endswith("by tiles, in place")
    inputs = draw(shape, shape)
    expected = irrun.compile_model(model, optimize=False)(inputs)[0]
    np.testing.assert_allclose(compiled(inputs)[0], expected, rtol=1e-5)


def test_factors_that_are_not_finite_stay_out_of_the_filters(tmp_path):
    shape = (1, 4, 8, 8)
    builder = GraphBuilder()
    filters = builder.add_constant(draw((4, 4, 3, 3))[0])
    value = builder.add("Convolution", [builder.add_parameter(shape), filters], shape, CONVOLUTION)
    factor = np.array([1, np.inf, 2, 3], F32).reshape(4, 1, 1)
    model = builder.read(tmp_path, builder.add("Multiply", [value, builder.add_constant(factor)], shape))
    x = np.abs(draw(shape)[0])
    expected = irrun.compile_model(model, optimize=False)(x)[0]
    assert np.isinf(expected).any()
    np.testing.assert_allclose(irrun.compile_model(model, jit=False)(x)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("low", "high"), [(-0.5, np.inf), (0.5, 0.5), (1.0, -1.0)])
def test_quantization_by_unusual_limits_agrees_with_the_plain_kernel(low, high, tmp_path):
    shape = (2, 4, 3)
    builder = GraphBuilder()
    value = builder.add("Tanh", [builder.add_parameter(shape)], shape)
    limits = [v + np.array([[0.0], [0.0], [0.0], [0.1]]) for v in (low, high)] * 2
    value = builder.add("FakeQuantize", [value, *map(builder.add_constant, limits)], shape, 'levels="16"')
    model = builder.read(tmp_path, builder.add("Exp", [value], shape))
    (x,) = draw(shape)
    expected = irrun.compile_model(model, optimize=False)(x)[0]
    np.testing.assert_allclose(irrun.compile_model(model, jit=False)(x)[0], expected, rtol=1e-5)


@pytest.mark.parametrize(("axes", "is_row"), [([-1], True), ([1, 2], False), ([1], True)])
def test_normalization_and_what_follows_are_one_kernel(axes, is_row, tmp_path):
    """The rows of a single axis are scaled and shifted while they are in the cache."""
    from irrun.fast.fused import FusedKernel
    from irrun.fast.normalization import NormalizationKernel

    ov = pytest.importorskip("openvino")
    o = pytest.importorskip("openvino.opset13")
    x = o.parameter([2, 8, 64], F32)
    scale, shift = (o.constant(value) for value in draw((64,), (8, 1)))
    value = o.mvn(x, o.constant(np.array(axes)), True, 1e-3, "INSIDE_SQRT")
    ov.save_model(
        ov.Model([o.result(o.add(o.multiply(value, scale), shift))], [x]), tmp_path / "m.xml", compress_to_fp16=False
    )
    compiled = irrun.compile_model(tmp_path / "m.xml", jit=False)
    (instruction,) = compiled._fast_program.instructions
    assert isinstance(instruction.kernel, NormalizationKernel if is_row else FusedKernel)
    (data,) = draw((2, 8, 64))
    expected = irrun.compile_model(tmp_path / "m.xml", optimize=False)(data)[0]
    np.testing.assert_allclose(compiled(data)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("type", "data"), [("Add", ""), ("MatMul", 'transpose_a="false" transpose_b="false"')])
def test_results_of_custom_operations_are_not_overwritten(type, data, tmp_path):
    kept = np.ones((16, 16), F32)

    def get_kept(a, b):
        return kept

    builder = GraphBuilder()
    x = builder.add_parameter((16, 16))
    y = builder.add(type, [x, x], (16, 16), data)
    y = builder.add("Multiply", [y, builder.add_constant(3.0)], (16, 16))
    y = builder.add("Subtract", [y, builder.add_constant(1.0)], (16, 16))
    model = builder.read(tmp_path, y)
    operations = [irrun.Operation.from_function(get_kept, type, since=1)]
    compiled = irrun.compile_model(model, operations=operations, jit=False)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(np.zeros((16, 16), F32))[0], np.full((16, 16), 2, F32))
    assert (kept == 1).all()
