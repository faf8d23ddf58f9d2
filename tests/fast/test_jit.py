"""Compiled kernels agree with plain ones, whatever the number of threads."""

import importlib.util
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ir_text
import ml_dtypes
import numpy as np
import pytest

import irrun
from fast.harness import run_with_threads
from irrun.fast.errors import NoKernelError
from irrun.ops._support.windows import create_windows
from irrun.ops.activation.softmax import softmax_8
from irrun.ops.convolution.forward import group_convolution_1
from irrun.ops.normalization import mvn_6
from irrun.ops.quantization import fake_quantize_1
from irrun.ops.sequence.attention import scaled_dot_product_attention_13
from irrun.runtime import compilation
from irrun.runtime.plan import list_plan

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"),
    pytest.mark.usefixtures("own_kernel_cache"),
]

EPSILON = np.finfo(np.float32).eps
erf = np.vectorize(math.erf, otypes=[float])


def make_steps(*names):
    """Return the steps of operations of one operand each, applied one after another."""
    from irrun.fast.jit.expressions import Step

    return tuple(Step(name, (i,)) for i, name in enumerate(names))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "Elu": (lambda x: np.where(x > 0, x, np.expm1(x)), (1.0,)),
    "Erf": (erf, ()),
    "Exp": (np.exp, ()),
    "Gelu": (lambda x: x * (0.5 + 0.5 * erf(x / math.sqrt(2))), ()),
    "GeluTanh": (lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), ()),
    "HSwish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, ()),
    "Log": (np.log, ()),
    "Mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), ()),
    "Relu": (lambda x: np.maximum(x, 0), ()),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ()),
    "SoftPlus": (lambda x: np.logaddexp(0, x), ()),
    "Swish": (lambda x: x / (1 + np.exp(-x)), (1.0,)),
    "Tanh": (np.tanh, ()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_within_four_units_of_the_last_place(name):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel

    rng = np.random.default_rng(0)
    reference, parameters = FUNCTIONS[name]
    x = np.concatenate([rng.normal(size=5000) * scale for scale in (1e-3, 0.3, 3, 30)]).astype(np.float32)
    x = np.abs(x) if name == "Log" else x
    kernel = ExpressionKernel(1, (Step(name, (0,), parameters),), [])
    result = kernel(x)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
        rounded = exact.astype(np.float32)
        bound = np.maximum(4 * np.spacing(np.abs(rounded)), 2e-7)
    finite = np.isfinite(rounded)
    assert np.all(np.abs(result - exact)[finite] <= bound[finite])
    np.testing.assert_array_equal(result[~finite], rounded[~finite])
    assert np.isnan(kernel(np.full(3, np.nan, np.float32))).all()


@pytest.mark.parametrize("name", ["Elu", "Tanh"])
def test_odd_function_keeps_the_signs_of_zeros(name):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel

    zeros = np.tile(np.array([-0.0, 0.0], np.float32), 20)
    result = ExpressionKernel(1, (Step(name, (0,), FUNCTIONS[name][1]),), [])(zeros)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(zeros))


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("name", ["Exp", "Gelu", "Sigmoid", "SoftPlus", "Tanh"])
def test_function_of_shorter_vectors_is_within_four_units_of_the_last_place(name, lanes, monkeypatch):
    from irrun.fast.jit import elementwise
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel

    monkeypatch.setattr(elementwise, "get_lanes", lambda: lanes)
    elementwise.compile_rows.cache_clear()
    reference, parameters = FUNCTIONS[name]
    x = (np.random.default_rng(0).normal(size=5000) * 15).astype(np.float32)
    result = ExpressionKernel(1, (Step(name, (0,), parameters),), [])(x)
    elementwise.compile_rows.cache_clear()
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    bound = np.maximum(4 * np.spacing(np.abs(exact.astype(np.float32))), 2e-7)
    assert np.all(np.abs(result - exact) <= bound)


@pytest.mark.parametrize("operand_shape", [(), (7,), (5, 1), (3, 1, 1), (3, 5, 1), (1, 5, 7), (3, 5, 7)])
def test_expression_broadcasts_operands(operand_shape):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel

    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 5, 7)).astype(np.float32)
    y = np.asarray(rng.normal(size=operand_shape), np.float32)
    kernel = ExpressionKernel(3, (Step("Multiply", (0, 1)), Step("Maximum", (2, 0), (True,))), [None])
    result = run_with_threads(lambda: kernel(x, y))
    np.testing.assert_array_equal(result, np.maximum(x * y, x))


def test_expression_divides_long_rows_between_threads():
    from irrun.fast.jit.kernels import ExpressionKernel

    x = np.random.default_rng(2).normal(size=(2, 300_001)).astype(np.float32)
    kernel = ExpressionKernel(2, make_steps("Relu", "Negative"), [])
    result = run_with_threads(lambda: kernel(x))
    np.testing.assert_array_equal(result, -np.maximum(x, 0))


@pytest.mark.parametrize("shape", [(), (3, 1, 1)])
def test_fake_quantize_has_the_same_levels(shape):
    from irrun.fast.expressions.table import find_call
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel
    from irrun.fast.jit.vectors import Vectors

    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 3, 9, 11)).astype(np.float32)
    low = np.asarray(-rng.uniform(0.5, 1, shape), np.float32)
    high = np.asarray(rng.uniform(0.5, 1, shape), np.float32)
    call = find_call(Vectors, "FakeQuantize-1", {"levels": 256}, [None, low, high, low, high], 4)
    assert call is not None
    steps = (Step(call.name, tuple(range(len(call.operands))), call.parameters),)
    result = ExpressionKernel(4, steps, call.operands[1:])(x)
    expected = fake_quantize_1(x, low, high, low, high, levels=256)
    np.testing.assert_array_equal(result, expected)


def draw_convolution(rng):
    """Return data, filters and attributes of a convolution with one or two spatial axes."""
    rank = int(rng.integers(1, 3))
    groups = int(rng.choice([1, 1, 2, 5]))
    c_out, c_in = (1, 1) if groups == 5 else (int(rng.choice([1, 7, 8, 20])), int(rng.choice([1, 3, 16])))
    kernel = rng.integers(1, 5, rank)
    strides, dilations = rng.integers(1, 4, rank), rng.integers(1, 3, rank)
    begin, end = rng.integers(-1, 3, rank), rng.integers(-1, 3, rank)
    size = rng.integers(1, 40, rank) + dilations * (kernel - 1) + 2
    data = rng.normal(size=(int(rng.integers(1, 3)), groups * c_in, *size)).astype(np.float32)
    filters = rng.normal(size=(groups, c_out, c_in, *kernel)).astype(np.float32)
    names = ("strides", "dilations", "pads_begin", "pads_end")
    return data, filters, dict(zip(names, ([*map(int, v)] for v in (strides, dilations, begin, end)), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_convolution_agrees_with_the_plain_kernel(seed):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(seed)
    data, filters, attributes = draw_convolution(rng)
    channels = filters.shape[0] * filters.shape[1]
    spatial = create_windows(data.shape[2:], filters.shape[3:], **attributes).output_shape
    bias = rng.normal(size=(1, channels, *[1] * len(spatial))).astype(np.float32)
    residual = rng.normal(size=(data.shape[0], channels, *spatial)).astype(np.float32)
    steps = (Step("Add", (0, 1)), Step("Add", (3, 2)), Step("Clamp", (4,), (-1.0, 2.0)))
    kernel = ConvolutionKernel(filters, attributes, steps, [bias, None])
    try:
        result = run_with_threads(lambda: kernel(data, residual))
    except NoKernelError:
        assert filters.shape[1:3] == (1, 1)
        assert attributes["strides"][-1] > 2
        return
    plain = group_convolution_1(data.astype(np.float64), filters.astype(np.float64), **attributes)
    expected = np.clip(plain + bias + residual, -1, 2)
    terms = math.prod(filters.shape[2:]) + 2
    size = group_convolution_1(np.abs(data), np.abs(filters), **attributes) + np.abs(bias) + np.abs(residual)
    assert result.shape == expected.shape
    assert np.all(np.abs(result - expected) <= terms * EPSILON * size)


def test_convolution_of_large_maps_has_the_same_bits_for_any_number_of_threads():
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ConvolutionKernel

    rng = np.random.default_rng(0)
    data = rng.normal(size=(1, 32, 50, 61)).astype(np.float32)
    filters = rng.normal(size=(1, 40, 32, 3, 3)).astype(np.float32)
    attributes = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    kernel = ConvolutionKernel(filters, attributes, (Step("Relu", (0,)),), [])
    result = run_with_threads(lambda: kernel(data))
    expected = np.maximum(group_convolution_1(data, filters, **attributes), 0)
    np.testing.assert_allclose(result, expected, rtol=0, atol=32 * 9 * EPSILON * 40)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8, 30])
@pytest.mark.parametrize("columns", [1, 16, 17, 47, 64, 65, 130, 600])
def test_product_agrees_with_numpy(rows, columns):
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.product_kernels import ProductKernel

    rng = np.random.default_rng(columns)
    data, weights = rng.normal(size=(rows, 300)).astype(np.float32), rng.normal(size=(300, columns)).astype(np.float32)
    bias, residual = rng.normal(size=columns).astype(np.float32), rng.normal(size=(rows, columns)).astype(np.float32)
    steps = (Step("Add", (0, 1)), Step("Add", (3, 2)))
    kernel = ProductKernel(2, weights, steps, [bias, None])
    transposed = ProductKernel(2, np.ascontiguousarray(weights.T).T, steps, [bias, None])
    result = run_with_threads(lambda: kernel(data, residual))
    np.testing.assert_array_equal(transposed(data, residual), result)
    np.testing.assert_array_equal(kernel(data[:1], residual[:1]), result[:1])
    exact = data.astype(np.float64) @ weights + bias + residual
    size = np.abs(data) @ np.abs(weights) + np.abs(bias) + np.abs(residual)
    assert np.all(np.abs(result - exact) <= 302 * EPSILON * size)


@pytest.mark.parametrize("length", [1, 15, 16, 100, 257])
def test_softmax_and_normalization_agree_with_plain_kernels(length):
    from irrun.fast.jit.kernels import NormalizationKernel, SoftmaxKernel

    rng = np.random.default_rng(length)
    x = (rng.normal(size=(3, 5, length)) * 3).astype(np.float32)
    x[0, 0, 0], x[1, 1] = np.nan, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run_with_threads(lambda: SoftmaxKernel(3)(x)), softmax_8(x, axis=-1), rtol=2e-6)
        for mode in ("inside_sqrt", "outside_sqrt"):
            attributes = {"normalize_variance": True, "eps": 1e-5, "eps_mode": mode}
            y = np.nan_to_num(x, neginf=0)
            result = run_with_threads(lambda a=attributes, y=y: NormalizationKernel(3, 1, a, (), [])(y))
            np.testing.assert_allclose(result, mvn_6(y, np.array([2]), **attributes), rtol=1e-5, atol=1e-5)


def test_operands_of_transposed_rows_are_copied():
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.kernels import ExpressionKernel

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 600, 300), (4, 300, 600)))
    kernel = ExpressionKernel(3, (Step("Add", (0, 1)),), [None])
    np.testing.assert_array_equal(kernel(x, y.swapaxes(1, 2)), x + y.swapaxes(1, 2))
    np.testing.assert_array_equal(kernel(x, y[:, :, :1].swapaxes(1, 2)), x + y[:, :, :1].swapaxes(1, 2))


@pytest.mark.parametrize("mask", [None, "full", "row", "boolean", "causal"])
def test_attention_agrees_with_the_plain_kernel(mask):
    from irrun.fast.jit.attention import AttentionKernel

    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(2, 3, n, e)).astype(np.float32) for n, e in ((37, 20), (50, 20), (50, 33)))
    masks = {
        "full": rng.normal(size=(2, 1, 37, 50)).astype(np.float32),
        "row": rng.normal(size=(2, 3, 1, 50)).astype(np.float32),
        "boolean": rng.random((37, 50)) < 0.7,
    }
    inputs = [query, key, value, *([masks[mask]] if mask in masks else [])]
    kernel = AttentionKernel([None] * len(inputs), mask == "causal", False)
    result = run_with_threads(lambda: kernel(*inputs))
    expected = scaled_dot_product_attention_13(*inputs, causal=mask == "causal")
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("length", [50, 3000])
@pytest.mark.parametrize(("keys", "values"), [((2, 1), (2, 1)), ((1, 1), (1, 1)), ((1, 3), (2, 1)), ((2, 3), (1, 3))])
def test_heads_of_queries_share_keys_and_values(keys, values, length):
    from irrun.fast.jit.attention import AttentionKernel

    rng = np.random.default_rng(0)
    query = rng.normal(size=(2, 3, 37, 20)).astype(np.float32)
    key, value = (rng.normal(size=(*lead, length, n)).astype(np.float32) for lead, n in ((keys, 20), (values, 33)))
    kernel = AttentionKernel([None] * 3, False, False)
    result = run_with_threads(lambda: kernel(query, key, value))
    expected = scaled_dot_product_attention_13(query, key, value, causal=False)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6)
    copies = [np.ascontiguousarray(np.broadcast_to(x, (2, 3, *x.shape[2:]))) for x in (key, value)]
    np.testing.assert_array_equal(kernel(query, *copies), result)


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 7, 6)],
        [(2, 3, 5, 4), (2, 3, 7, 5), (2, 3, 7, 6)],
        [(1, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)],
        [(2, 3, 5, 4), (2, 2, 7, 4), (2, 3, 7, 6)],
        [(2, 3, 5, 4), (2, 3, 7, 4), (1, 2, 7, 6)],
    ],
    ids=str,
)
def test_attention_of_shapes_that_differ_is_left_to_the_plain_kernel(shapes):
    from irrun.fast.jit.attention import AttentionKernel

    inputs = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises(NoKernelError, match="the shapes do not match"):
        AttentionKernel([None] * 3, False, False)(*inputs)


def test_attention_to_keys_of_subnormal_weights_agrees_with_the_plain_kernel():
    from irrun.fast.jit.attention import AttentionKernel

    rng = np.random.default_rng(0)
    inputs: list[Any] = [rng.normal(size=(2, 37, 20)).astype(np.float32) for _ in range(3)]
    mask = np.where(rng.random((37, 37)) < 0.5, np.float32(-100), np.float32(0))
    mask[3] = -100
    kernel = AttentionKernel([None] * 4, False, False)
    result = run_with_threads(lambda: kernel(*inputs, mask))
    query, key, value = inputs
    expected = scaled_dot_product_attention_13(query, key, value, mask, causal=False)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6)
    inputs[2][:, 5], mask[:, 5] = np.nan, -90  # a key with little weight, not excluded
    assert np.isnan(kernel(*inputs, mask)).all()


def test_softmax_keeps_subnormal_results():
    from irrun.fast.jit.kernels import SoftmaxKernel

    x = np.array([[0, -90, -100, -120]], np.float32)
    result = SoftmaxKernel(2)(x)
    np.testing.assert_allclose(result, np.exp(x.astype(np.float64)), rtol=0.02, atol=1e-45)


def test_addresses_are_those_of_the_first_elements():
    from irrun.fast.jit.addresses import get_address

    x = np.arange(12.0).reshape(3, 4)
    for array in (x, x[1:, 2:], x[:, ::-1], np.zeros((0, 3)), np.array(1, ml_dtypes.bfloat16)):
        assert get_address(array) == array.__array_interface__["data"][0]


def write_model(folder):
    """Write a model of a convolution, its bias, a limit, a depthwise convolution and a swish of three operations."""
    rng = np.random.default_rng(0)
    constants = [rng.normal(size=s).astype(np.float32) for s in ((8, 3, 3, 3), (1, 8, 1, 1), (8, 1, 1, 3, 3))]
    image, result = (1, 3, 20, 24), (1, 8, 20, 24)
    layers = [ir_text.layer(0, "Parameter", data='shape="1,3,20,24" element_type="f32"', outputs=[
        ir_text.port(0, image, "FP32", "x")])]  # fmt: skip
    offset = 0
    for i, constant in enumerate(constants, 1):
        shape = ",".join(map(str, constant.shape))
        data = f'element_type="f32" shape="{shape}" offset="{offset}" size="{constant.nbytes}"'
        layers.append(ir_text.layer(i, "Const", data=data, outputs=[ir_text.port(0, constant.shape, "FP32")]))
        offset += constant.nbytes
    windows = 'strides="1,1" dilations="1,1" pads_begin="1,1" pads_end="1,1" auto_pad="explicit"'
    chain = [
        (4, "Convolution", windows, [(0, image), (1, (8, 3, 3, 3))]),
        (5, "Add", "", [(4, result), (2, (1, 8, 1, 1))]),
        (6, "Clamp", 'min="0" max="6"', [(5, result)]),
        (7, "GroupConvolution", windows, [(6, result), (3, (8, 1, 1, 3, 3))]),
        (8, "Sigmoid", "", [(7, result)]),
        (9, "Multiply", "", [(7, result), (8, result)]),
    ]
    edges = []
    for number, type, data, inputs in chain:
        ports = [ir_text.port(i, shape) for i, (_, shape) in enumerate(inputs)]
        layers.append(ir_text.layer(number, type, "opset1", data, ports, [ir_text.port(len(inputs), result, "FP32")]))
        for i, (source, _) in enumerate(inputs):
            counts = {n: len(c) for n, _, _, c in chain}
            edges.append((source, counts.get(source, 0), number, i))
    layers.append(ir_text.layer(10, "Result", inputs=[ir_text.port(0, result)]))
    edges.append((9, 2, 10, 0))
    weights = b"".join(c.tobytes() for c in constants)
    return ir_text.write(folder, ir_text.net(layers, edges), weights)


WINDOW = 'strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0" auto_pad="explicit"'


def write_graph(folder, sources, operations):
    """Write a model of inputs and constants (shape, value), and operations (type, attributes, sources, shape)."""
    layers, edges, weights = [], [], b""
    for i, (shape, value) in enumerate(sources):
        data = f'shape="{",".join(map(str, shape))}" element_type="f32"'
        if value is not None:
            data += f' offset="{len(weights)}" size="{value.nbytes}"'
            weights += value.tobytes()
        kind = "Parameter" if value is None else "Const"
        layers.append(ir_text.layer(i, kind, data=data, outputs=[ir_text.port(0, shape, "FP32")]))
    shapes = [shape for shape, _ in sources] + [operation[3] for operation in operations]
    outputs = [0] * len(sources) + [len(operation[2]) for operation in operations]
    for i, (kind, data, inputs, shape) in enumerate(operations, len(sources)):
        ports = [ir_text.port(k, shapes[source]) for k, source in enumerate(inputs)]
        result = [ir_text.port(len(inputs), shape, "FP32")]
        layers.append(ir_text.layer(i, kind, "opset1", data, ports, result))
        edges += [(source, outputs[source], i, k) for k, source in enumerate(inputs)]
    last = len(shapes)
    layers.append(ir_text.layer(last, "Result", inputs=[ir_text.port(0, shapes[-1])]))
    return ir_text.write(folder, ir_text.net(layers, [*edges, (last - 1, outputs[-1], last, 0)]), weights)


IMAGE = np.random.default_rng(5).normal(size=(1, 3, 20, 24)).astype(np.float32)


def test_groups_of_instructions_become_one(tmp_path):
    path = write_model(tmp_path)
    compiled = irrun.compile_model(path, jit=True)
    groups = [[i.operation.type for i in x.plain] for x in compiled._fast_program.instructions]
    assert groups == [["Convolution", "Add", "Clamp"], ["GroupConvolution", "Sigmoid", "Multiply"]]
    plain = irrun.compile_model(path, optimize=False)
    np.testing.assert_allclose(compiled(IMAGE)[0], plain(IMAGE)[0], rtol=0, atol=1e-4)


def test_convolution_adds_an_input_of_other_channels_than_its_data(tmp_path):
    """The kernel is compiled with the model, for the declared shapes of both."""
    path = write_graph(
        tmp_path,
        [((1, 3, 20, 24), None), ((1, 8, 20, 24), None), ((8, 3, 1, 1), np.ones((8, 3, 1, 1), np.float32))],
        [("Convolution", WINDOW, [0, 2], (1, 8, 20, 24)), ("Add", "", [3, 1], (1, 8, 20, 24))],
    )
    compiled = irrun.compile_model(path, jit=True)
    (instruction,) = compiled._fast_program.instructions
    assert [i.operation.type for i in instruction.plain] == ["Convolution", "Add"]
    assert instruction.description.startswith("compiled")
    inputs = [IMAGE, np.ones((1, 8, 20, 24), np.float32)]
    np.testing.assert_allclose(compiled(inputs)[0], irrun.compile_model(path, optimize=False)(inputs)[0], atol=1e-5)


def test_bodies_of_loops_are_compiled(tmp_path):
    shape = (64, 64)
    body = ir_text.chain("Sigmoid", "Exp", shape=shape).partition("<net")[2].partition(">")[2].removesuffix("</net>")
    inner = (
        '<port_map><input external_port_id="0" internal_layer_id="0"/>'
        '<input axis="0" external_port_id="1" internal_layer_id="9"/>'
        '<output external_port_id="2" internal_layer_id="3"/></port_map>'
        f'<back_edges><edge from-layer="3" to-layer="0"/></back_edges><body>{body}</body>'
    )
    counter = ir_text.layer(
        9, "Parameter", data='shape="1" element_type="f32"', outputs=[ir_text.port(0, (1,), "FP32")]
    )
    inner = inner.replace("<layers>", f"<layers>{counter}")
    layers = [
        ir_text.layer(i, "Parameter", data=f'shape="{text}" element_type="f32"', outputs=[ir_text.port(0, s, "FP32")])
        for i, (text, s) in enumerate((("64,64", shape), ("3", (3,))))
    ]
    ports = [ir_text.port(0, shape), ir_text.port(1, (3,))], [ir_text.port(2, shape, "FP32")]
    layers.append(ir_text.layer(2, "TensorIterator", inputs=ports[0], outputs=ports[1], inner=inner))
    layers.append(ir_text.layer(3, "Result", inputs=[ir_text.port(0, shape)]))
    path = ir_text.write(tmp_path, ir_text.net(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]))
    compiled = irrun.compile_model(path, jit=True)
    entries = [e for e in list_plan(compiled._fast_program) if e.depth == 1]
    assert [(e.operations, e.implementation.partition(":")[0]) for e in entries] == [(("Sigmoid", "Exp"), "compiled")]
    fused = [e for e in list_plan(irrun.compile_model(path, jit=False)._fast_program) if e.depth == 1]
    assert [e.operations for e in fused] == [("Sigmoid", "Exp")]
    inputs = [np.random.default_rng(0).normal(size=shape).astype(np.float32), np.zeros(3, np.float32)]
    np.testing.assert_allclose(compiled(inputs)[0], irrun.compile_model(path, optimize=False)(inputs)[0], rtol=1e-5)


def test_other_batches_are_computed_by_plain_kernels(tmp_path):
    compiled = irrun.compile_model(write_model(tmp_path), jit=True)
    kernel = compiled._fast_program.instructions[0].kernel
    batch = np.concatenate([IMAGE, IMAGE * 2])
    np.testing.assert_array_equal(kernel(batch)[:1], kernel(IMAGE))


def test_llvm_is_not_imported_until_it_pays(tmp_path):
    path = write_model(tmp_path)
    program = (
        "import sys, numpy as np, irrun\n"
        "compiled = irrun.compile_model(sys.argv[1])\n"
        "compiled(np.zeros((1, 3, 20, 24), np.float32))\n"
        "assert 'llvmlite' not in sys.modules\n"
    )
    environment = {**os.environ, "IRRUN_JIT": "auto", "IRRUN_CPU": ""}  # a level is compared with this processor
    environment["IRRUN_CACHE_DIR"] = str(tmp_path)  # without kernels of the model
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=environment)


def test_jit_requires_llvmlite(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "is_installed", lambda: False)
    with pytest.raises(ValueError, match=r"require llvmlite: pip install 'irrun\[jit\]'"):
        irrun.compile_model(write_model(tmp_path), jit=True)


def test_unknown_options_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="jit is 'always', expected True, False or 'auto'"):
        irrun.compile_model(write_model(tmp_path), jit="always")
    monkeypatch.setenv("IRRUN_JIT", "maybe")
    with pytest.raises(ValueError, match="IRRUN_JIT is 'maybe', expected one of auto, on, off, 1, 0"):
        irrun.compile_model(write_model(tmp_path))


class TestCache:
    def test_saved_kernels_are_loaded(self, tmp_path, monkeypatch):
        from irrun.fast.jit import cache

        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
        assert cache.load("key") is None
        cache.save("key", b"code")
        assert cache.load("key") == b"code"
        assert [path.name for path in cache.get_folder().iterdir()] == ["key"]

    def test_damaged_kernels_are_ignored(self, tmp_path, monkeypatch):
        from irrun.fast.jit import cache

        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
        cache.save("key", b"code")
        path = cache.get_folder() / "key"
        path.write_bytes(path.read_bytes()[:-1] + b"X")
        assert cache.load("key") is None

    @pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no permissions of groups")
    def test_kernels_that_others_may_write_are_ignored(self, tmp_path, monkeypatch):
        from irrun.fast.jit import cache

        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
        cache.save("key", b"code")
        cache.get_folder().chmod(0o777)
        assert cache.load("key") is None
        cache.save("other", b"code")
        assert not (cache.get_folder() / "other").exists()

    def test_kernels_that_do_not_link_are_compiled_again(self, tmp_path, monkeypatch):
        from irrun.fast.jit import cache, compiler
        from irrun.fast.jit.code import Function

        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
        f = Function("double", [("x", "ptr")], 4)
        value = f.load(f.parameters["x"], f.vector)
        f.store(value + value, f.parameters["x"])
        text, signatures = f.get_text(), {f.name: f.signature}
        compiler._Compiler(None).get(text, signatures)
        (path,) = (path for path in cache.get_folder().rglob("*") if path.is_file() and not path.suffix)
        good = path.read_bytes()
        for code in (b"no object code", good[cache.DIGEST_SIZE : len(good) // 2]):
            cache.save(str(path.relative_to(cache.get_folder())), code)
            x = np.array([1, 2, 3, 4], np.float32)
            each = compiler._Compiler(None)
            each.get(text, signatures)["double"](x.ctypes.data)
            np.testing.assert_array_equal(x, [2, 4, 6, 8])
            assert path.read_bytes() == good

    def test_least_recently_used_kernels_are_removed(self, tmp_path, monkeypatch):
        from irrun.fast.jit import cache

        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(cache, "MAX_BYTES", 10 * 132)
        for i in range(10):
            cache.save(f"target{i % 2}/{i}", b"x" * 100)
            os.utime(cache.get_folder() / f"target{i % 2}" / str(i), (i + 1, i + 1))
        cache._limit_size(cache.get_folder())
        assert [(group.name, group.kernels) for group in cache.list_groups()] == [("target0", 5), ("target1", 5)]
        assert cache.load("target0/0") == b"x" * 100  # used just now
        cache.save("target1/new", b"x")
        cache._limit_size(cache.get_folder())
        left = {path.name for path in cache.get_folder().rglob("*") if path.is_file()}
        assert left == {"0", "new", *map(str, range(4, 10))}

    def test_all_kernels_are_removed(self, tmp_path, monkeypatch):
        from irrun.fast.jit import cache

        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
        assert (cache.list_groups(), cache.clear().kernels) == ([], 0)
        cache.save("target/key", b"code")
        cache.save("old", b"code")
        cache.save("target/model.program", b"complete")
        cache.save("target/name.alias", b"target/key")
        assert cache.list_groups() == [cache.Group("", 1, 0, 36, 1), cache.Group("target", 1, 1, 118, 3)]
        assert cache.has_file("model.program")
        assert cache.find("name.alias") == b"target/key"
        assert not cache.has_file("old")
        assert cache.find("old") is None
        assert cache.clear() == cache.Group("", 2, 1, 154, 4)
        assert not list(cache.get_folder().iterdir())

    def test_missing_permissions_are_no_error(self, tmp_path, monkeypatch):
        from irrun.fast.jit import cache

        (tmp_path / "file").write_text("")
        monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path / "file"))
        cache.save("key", b"code")
        assert cache.load("key") is None


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((130, 257), (1, 0)),
        ((17, 1000), (1, 0)),
        ((1, 40, 21, 23), (0, 2, 3, 1)),
        ((2, 3, 150, 140), (1, 0, 3, 2)),
        ((1, 21, 23, 40), (0, 3, 1, 2)),
        ((2, 31, 37, 18), (0, 3, 1, 2)),
        ((3, 129, 128), (2, 0, 1)),
        ((900, 1200), (1, 0)),
        ((70_000, 1), (1, 0)),
        ((1 << 9, 1 << 9), (0, 1)),
    ],
)
@pytest.mark.parametrize("section", [slice(None), slice(1, None), slice(None, None, -1)])
def test_contiguous_copies_are_exact(shape, axes, section):
    from irrun.fast.jit.elementwise import make_contiguous

    x = np.random.default_rng(0).normal(size=shape).astype(np.float32).transpose(axes)[..., section]
    result = run_with_threads(lambda: make_contiguous(x))
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, x)
