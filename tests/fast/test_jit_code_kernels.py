"""Formats of 8-bit codes, and the inputs that kernels on codes accept and refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from irrun.fast.errors import NoKernelError
from irrun.fast.jit import quantized_pads
from irrun.fast.jit.bindings import make_layout
from irrun.fast.jit.codes import CodeFormat, decode, encode
from irrun.fast.jit.dot_products import MAX_PRODUCTS
from irrun.fast.jit.expressions import Expression, Step
from irrun.fast.jit.quantized_depthwise import QuantizedDepthwiseConvolution
from irrun.fast.jit.quantized_epilogue import CodedOperand, _Linear, _Simplification, simplify
from irrun.fast.jit.quantized_kernels import (
    DecodingKernel,
    EncodingKernel,
    PlainEncodingKernel,
    PlainRowEncodingKernel,
    QuantizedConvolutionKernel,
    QuantizedProductKernel,
    RowDecodingKernel,
    RowEncodingKernel,
)
from irrun.fast.jit.quantized_pads import PadCorrection, may_pad
from irrun.ops._support.windows import create_windows

pytestmark = pytest.mark.usefixtures("own_kernel_cache")

F32, F64, U8 = (np.dtype(t) for t in (np.float32, np.float64, np.uint8))
CONVOLUTION = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
ADD = (Step("Add", (0, 1)),)


def ones(*shape, dtype=F32):
    return np.ones(shape, dtype)


def refuses(message):
    return pytest.raises(NoKernelError, match=f"^{re.escape(message)}")


def make_limits(low=-1.0, high=1.0, out_low=-1.0, out_high=1.0):
    return [np.asarray(x, np.float32) for x in (low, high, out_low, out_high)]


def make_format(low, high, levels=256):
    found = CodeFormat.create(make_limits(low, high, low, high), levels, 4)
    assert found is not None
    return found


def by_channel(*values):
    return np.array(values).reshape(1, -1, 1, 1)


FORMAT = make_format(-1.0, 1.0)
CHANNELS = make_format(by_channel(*[-1.0] * 8), by_channel(*range(1, 9)))


@pytest.mark.parametrize(
    ("limits", "rank", "shape"),
    [
        (make_limits(), 0, ()),
        (make_limits([-1], [[1]]), 2, ()),
        (make_limits(by_channel(-1, -2, -3)), 4, (3,)),
        (make_limits(out_high=by_channel(1, 2, 3)), 4, (3,)),
        (make_limits([[-1], [-2]]), 3, (2,)),
        (make_limits(low=by_channel(-1)), 4, ()),
    ],
)
def test_limits_have_one_element_or_one_for_each_channel(limits, rank, shape):
    found = CodeFormat.create(limits, 4, rank)
    assert [x.shape for x in (found.low, found.high, found.out_low, found.out_high)] == [shape] * 4
    assert found.is_uniform == (not shape)
    for own, limit in zip((found.low, found.high, found.out_low, found.out_high), limits, strict=True):
        np.testing.assert_array_equal(own, np.broadcast_to(limit.reshape(-1), shape or (1,)).reshape(shape))


@pytest.mark.parametrize(
    ("limits", "levels", "rank"),
    [
        ([None, *make_limits()[1:]], 256, 4),
        ([*make_limits()[:3], None], 256, 4),
        ([np.float64(-1), *make_limits()[1:]], 256, 4),
        (make_limits(np.full((1,) * 5, -1.0)), 256, 4),
        (make_limits(high=np.inf), 256, 4),
        (make_limits(out_low=np.nan), 256, 4),
        (make_limits([-1.0, -2.0, -3.0]), 256, 4),  # along the last axis
        (make_limits(np.full((3, 1, 1, 1), -1.0)), 256, 4),
        (make_limits(), 1, 4),
        (make_limits(), 257, 4),
        (make_limits(1.0), 256, 4),
        (make_limits(2.0), 256, 4),
        (make_limits(out_low=1.0), 256, 4),
        (make_limits(out_high=-2.0), 256, 4),
        (make_limits(-3e38, 3e38), 256, 4),
        (make_limits(out_low=-3e38, out_high=3e38), 256, 4),
        (make_limits(by_channel(-1.0, 1.0)), 256, 4),
    ],
)
def test_other_limits_have_no_codes(limits, levels, rank):
    assert CodeFormat.create(limits, levels, rank) is None


@pytest.mark.parametrize("levels", [2, 256])
def test_codes_have_up_to_eight_bits(levels):
    found = CodeFormat.create(make_limits(out_low=-2.0, out_high=6.0), levels, 4)
    assert found.levels == levels
    assert found.step == 8 / (levels - 1)


@pytest.mark.parametrize(
    ("low", "high", "levels", "zero", "nearest"),
    [
        (0.0, 255.0, 256, 0, 0),
        (-255.0, 0.0, 256, 255, 255),
        (-128.0, 127.0, 256, 128, 128),
        (-128.0005, 126.9995, 256, 128, 128),
        (-128.002, 126.998, 256, None, 128),
        (-1.0, 1.0, 256, None, 128),
        (1.0, 3.0, 3, None, 0),
        (-3.0, -1.0, 3, None, 2),
        (by_channel(-1.0, -2.0), by_channel(1.0, 2.0), 3, [1, 1], [1, 1]),
        (by_channel(-1.0, -1.0), by_channel(1.0, 2.0), 3, None, [1, 1]),
    ],
)
def test_code_of_zero_is_known_if_zero_is_a_level(low, high, levels, zero, nearest):
    found = make_format(low, high, levels)
    assert (found.zero is None) == (zero is None)
    if zero is not None:
        np.testing.assert_array_equal(found.zero, zero)
    np.testing.assert_array_equal(found.nearest_zero, nearest)


def test_formats_are_equal_if_their_values_are():
    assert FORMAT.equals(CodeFormat.create(make_limits(-5.0, 7.0), 256, 4))
    for other in (make_format(-1.0, 1.0, 255), make_format(-1.0, 2.0), make_format(-2.0, 1.0), CHANNELS):
        assert not FORMAT.equals(other)


def test_values_are_encoded_by_channel_and_decoded():
    data = np.random.default_rng(0).uniform(-2, 9, (2, 8, 3)).astype(np.float32)
    low, high = np.float32(-1), np.arange(1, 9, dtype=np.float32)[:, np.newaxis]
    levels = np.rint((np.clip(data, low, high) - low) / (high - low) * np.float32(255))
    codes = encode(data, CHANNELS)
    assert codes.shape == (2, 2, 3, 4)
    np.testing.assert_array_equal(codes.transpose(0, 1, 3, 2).reshape(2, 8, 3), levels)
    step = (high - low) / 255
    np.testing.assert_allclose(decode(codes, CHANNELS, 8), levels * step + low, rtol=0, atol=2e-6)
    kernel = EncodingKernel(CHANNELS, 3, 8)
    np.testing.assert_array_equal(kernel(data), codes)
    np.testing.assert_array_equal(kernel.bind([make_layout(data.shape)]).run([data]).view(np.uint8), codes)
    bound = DecodingKernel(CHANNELS, 8).bind([make_layout((2, 2, 3, 1))])
    np.testing.assert_array_equal(bound.run([codes]), decode(codes, CHANNELS, 8))


def test_values_without_spatial_axes_have_codes():
    data = np.random.default_rng(0).uniform(-2, 9, (3, 8)).astype(np.float32)
    codes = EncodingKernel(CHANNELS, 2, 8)(data)
    assert codes.shape == (3, 2, 4)
    np.testing.assert_array_equal(codes, encode(data, CHANNELS))
    np.testing.assert_array_equal(decode(codes, CHANNELS, 8), decode(codes[:, :, np.newaxis], CHANNELS, 8)[..., 0])
    for other in (codes[0], codes.astype(np.int8), codes[:, :1]):
        with refuses("expected codes"):
            decode(other, CHANNELS, 8)


def test_conversions_refuse_other_inputs():
    for shape in ((2, 4, 3), (2, 8), (2, 8, 3, 1)):
        with refuses(f"expected data of rank 3 with 8 channels, found {shape}"):
            EncodingKernel(CHANNELS, 3, 8)(ones(*shape))
        with refuses(f"expected data of rank 3 with 8 channels, found {shape}"):
            EncodingKernel(CHANNELS, 3, 8).bind([make_layout(shape)])
    with refuses("expected f32"):
        encode(ones(2, 8, 3, dtype=F64), CHANNELS)
    with refuses("expected data"):
        encode(ones(2, 8, 0), CHANNELS)
    for shape in ((2, 7, 3), (8,)):
        with refuses("expected the channels of the limits"):
            encode(ones(*shape), CHANNELS)
    with refuses("expected the channels of the limits"):
        encode(ones(8), FORMAT)
    for codes in (ones(2, 2, 3, 4), ones(2, 4, dtype=U8), ones(2, 1, 3, 4, dtype=U8)):
        with refuses("expected codes"):
            decode(codes, CHANNELS, 8)
    for shape in ((2, 2), (2, 1, 3, 1), (2, 2, 3, 4)):
        with refuses("expected codes of the declared channels"):
            DecodingKernel(CHANNELS, 8).bind([make_layout(shape)])


def test_conversions_of_rows_refuse_other_inputs():
    kernel = RowEncodingKernel(FORMAT, 2, 8)
    codes = kernel(ones(3, 8))
    np.testing.assert_array_equal(codes, np.full((3, 8), 255, np.uint8))
    np.testing.assert_array_equal(RowDecodingKernel(FORMAT)(codes), ones(3, 8))
    np.testing.assert_array_equal(RowDecodingKernel(FORMAT).bind([make_layout((3, 2))]).run([codes]), ones(3, 8))
    assert RowDecodingKernel(FORMAT)(codes[:0]).shape == (0, 8)
    for shape in ((3, 4), (8,), (1, 3, 8)):
        with refuses(f"expected data of rank 2 with rows of 8, found {shape}"):
            kernel(ones(*shape))
    with refuses("expected f32"):
        kernel(ones(3, 8, dtype=F64))
    with refuses("expected f32"):
        kernel(ones(0, 8))
    with refuses("expected codes"):
        RowDecodingKernel(FORMAT)(ones(3, 8))
    for own, shape in (
        (kernel, (0, 8)),
        (RowEncodingKernel(FORMAT, 2, 6), (3, 6)),
        (RowDecodingKernel(FORMAT), (0, 2)),
    ):
        with refuses("expected rows of a multiple of 4"):
            own.bind([make_layout(shape)])


def test_values_of_plain_kernels_are_encoded_by_the_limits_of_the_results():
    scaled = CodeFormat.create(make_limits(-1.0, 1.0, -10.0, 10.0), 3, 4)
    values = np.array([[-10, 0, 10, 10]], np.float64)
    np.testing.assert_array_equal(PlainRowEncodingKernel(scaled, 2, 4)(values), [[0, 1, 2, 2]])
    np.testing.assert_array_equal(PlainEncodingKernel(scaled, 2, 4)(values).reshape(-1), [0, 1, 2, 2])
    assert PlainRowEncodingKernel(scaled, 2, 4)(ones(0, 4)).shape == (0, 4)
    assert PlainEncodingKernel(scaled, 3, 6)(ones(0, 6, 5)).shape == (0, 2, 5, 4)
    with refuses("expected data of rank 3 with 6 channels"):
        PlainEncodingKernel(scaled, 3, 6)(ones(0, 6))
    with refuses("expected channels"):
        PlainEncodingKernel(scaled, 1, 6)(ones(0))


def make_convolution(shape=(1, 4, 3, 3, 3), source=FORMAT, steps=(), sources=(), is_coded=False, **attributes):
    codes = np.ones(shape, np.int8)
    scales = np.ones(shape[0] * shape[1])
    return QuantizedConvolutionKernel(codes, scales, {**CONVOLUTION, **attributes}, source, steps, sources, is_coded)


def codes_of(*shape):
    return np.zeros(shape, np.uint8)


def test_convolutions_on_codes_refuse_other_inputs():
    kernel = make_convolution(steps=ADD, sources=[None])
    data, operand = codes_of(1, 1, 5, 5, 4), ones(4, 1, 1)
    assert kernel(data, operand).shape == (1, 4, 3, 3)
    for inputs in ((ones(1, 1, 5, 5, 4), operand), (data, ones(4, 1, 1, dtype=F64)), (data, codes_of(4, 1, 1))):
        with refuses("expected codes and f32"):
            kernel(*inputs)
    for shape in ((1, 2, 5, 5, 4), (1, 1, 5, 5), (1, 1, 5, 4)):
        with refuses("expected the channels of the filters"):
            kernel(codes_of(*shape), operand)
    for shape in ((0, 1, 5, 5, 4), (1, 1, 5, 5, 3)):
        with refuses("expected data"):
            kernel(codes_of(*shape), operand)
    with refuses("an operand does not broadcast to the result"):
        kernel(data, ones(3, 1, 1))


def test_convolutions_on_codes_are_bound_to_operands_as_the_epilogue_reads_them():
    kernel = make_convolution((1, 6, 3, 3, 3), steps=ADD, sources=[None])
    data = make_layout((1, 1, 5, 5, 1))
    for shape in ((), (1, 6, 3, 3), (6, 3, 3)):
        assert kernel.bind([data, make_layout(shape)]).shape == (1, 6, 3, 3)
    for shape in ((6, 1, 1), (6, 3, 1), (3, 3)):  # 6 channels are filled up to 8
        with refuses("expected operands as the epilogue reads them"):
            kernel.bind([data, make_layout(shape)])
    assert kernel.can_bind
    kernel.prepare([(1, 3, 5, 5), (6, 1, 1)])
    assert not kernel.can_bind
    kernel.prepare([(1, 3, 5, 5), (1, 6, 3, 3)])
    assert kernel.can_bind


def test_residuals_in_codes_have_the_shape_of_the_result():
    kernel = make_convolution(steps=ADD, sources=[CodedOperand(FORMAT)])
    data = codes_of(1, 1, 5, 5, 4)
    residual = np.full((1, 1, 3, 3, 4), 255, np.uint8)
    np.testing.assert_allclose(kernel(data, residual), -27 + 1, atol=1e-4)
    with refuses("expected codes of the shape of the result"):
        kernel(data, residual[:, :, :1])
    with refuses("expected codes and f32"):
        kernel(data, ones(1, 4, 3, 3))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shape": (1, 1, MAX_PRODUCTS + 1, 1, 1)}, "the sums are too long"),
        ({"source": CHANNELS, "shape": (1, 4, 8, 3, 3)}, "expected one scale of the data"),
        ({"shape": (2, 4, 3, 1, 1)}, "expected groups of multiples of four channels"),
        ({"shape": (2, 3, 4, 1, 1)}, "expected groups of multiples of four channels"),
        ({"is_coded": True}, "expected FakeQuantize"),
        ({"is_coded": True, "steps": ADD, "sources": [None]}, "expected FakeQuantize"),
        ({"steps": ADD, "sources": [np.array(np.inf)]}, "expected finite constants"),
    ],
)
def test_some_convolutions_have_no_kernel_on_codes(options, reason):
    with refuses(reason):
        make_convolution(**options)


def test_convolutions_of_the_longest_sums_and_of_groups_have_a_kernel_on_codes():
    assert make_convolution((1, 1, MAX_PRODUCTS, 1, 1))(codes_of(1, -(-MAX_PRODUCTS // 4), 1, 1, 4)).size == 1
    assert make_convolution((2, 4, 8, 1, 1))(codes_of(1, 4, 1, 1, 4)).shape == (1, 8, 1, 1)
    assert make_convolution((8, 1, 1, 3, 3), CHANNELS)(codes_of(1, 2, 5, 5, 4)).shape == (1, 8, 3, 3)


@pytest.mark.parametrize(
    ("attributes", "kernel", "expected"),
    [
        ({}, [3, 3], False),
        ({"pads_begin": [0, 0], "pads_end": [0, 0]}, [3, 3], False),
        ({"pads_begin": [0, 1]}, [3, 3], True),
        ({"pads_begin": [-1, 0], "pads_end": [0, 1]}, [3, 3], True),
        ({"auto_pad": "same_upper"}, [1, 3], True),
        ({"auto_pad": "same_lower"}, [3, 1], True),
        ({"auto_pad": "same_upper", "pads_begin": [1, 1]}, [1, 1], False),
        ({"auto_pad": "valid"}, [3, 3], False),
    ],
)
def test_windows_may_exceed_the_data(attributes, kernel, expected):
    assert may_pad(attributes, kernel) == expected


def test_corrections_of_pads_are_limited_in_size(monkeypatch):
    from irrun.fast.jit.kernels import make_geometry

    windows = create_windows([4, 5], [3, 2], [1, 2], [1, 1], [1, 1], [2, 1])
    geometry = make_geometry((4, 5), windows)
    codes = np.random.default_rng(0).integers(-9, 9, (2, 3, 4, 3, 2))
    values = np.arange(1.0, 7.0)
    padded = np.pad(np.zeros((4, 5)), ((1, 2), (1, 1)), constant_values=1.0)
    expected = [
        [
            [(kernel.sum(0) * padded[y : y + 3, x : x + 2]).sum() for x in range(0, padded.shape[1] - 1, 2)]
            for y in range(padded.shape[0] - 2)
        ]
        for kernel in codes.reshape(6, 4, 3, 2)
    ]
    correction = PadCorrection(codes, values)
    result = correction.compute(geometry, 2)
    np.testing.assert_array_equal(result, -np.array(expected) * values[:, np.newaxis, np.newaxis])
    monkeypatch.setattr(quantized_pads, "MAX_SIZE", 2 * result.size)
    assert correction.compute(geometry, 2).shape == result.shape
    with refuses("the maps are too large"):
        correction.compute(geometry, 3)


def make_product(columns=8, inner=8, source=FORMAT, steps=(), sources=(), is_coded=False, rank=2):
    codes = np.ones((columns, inner), np.int8)
    return QuantizedProductKernel(codes, np.ones(columns), rank, source, steps, sources, is_coded)


def test_products_on_codes_refuse_other_inputs():
    kernel = make_product(steps=ADD, sources=[None])
    data = codes_of(3, 8)
    for shape in ((), (1, 1), (8,), (1, 8), (3, 8)):
        np.testing.assert_allclose(kernel(data, ones(*shape)), np.full((3, 8), -8 + 1), atol=1e-4)
    for shape in ((3, 1), (2, 8), (4,), (1, 3, 8), (1, 1, 8), (1, 1, 1)):
        with refuses("expected an operand with the shape of the result or of its columns"):
            kernel(data, ones(*shape))
    for inputs in ((ones(3, 8), ones(8)), (data, ones(8, dtype=F64)), (data, codes_of(3, 8))):
        with refuses("expected codes and f32"):
            kernel(*inputs)
    for shape in ((8,), (3, 4), (0, 8), (1, 3, 8)):
        with refuses("expected rows of the weights"):
            kernel(codes_of(*shape), ones(8))


def test_residuals_of_products_in_codes_have_the_shape_of_the_result():
    kernel = make_product(steps=ADD, sources=[CodedOperand(FORMAT)])
    residual = np.full((3, 8), 255, np.uint8)
    np.testing.assert_allclose(kernel(codes_of(3, 8), residual), np.full((3, 8), -8 + 1), atol=1e-4)
    for other in (residual[:1], residual[0], residual[:1, :1]):
        with refuses("expected codes of the shape of the result"):
            kernel(codes_of(3, 8), other)
    bound = kernel.bind([make_layout((3, 2)), make_layout((3, 2))])
    np.testing.assert_array_equal(bound.run([codes_of(3, 8), residual]), kernel(codes_of(3, 8), residual))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"inner": 6}, "expected rows of a multiple of 4 with one scale"),
        ({"inner": MAX_PRODUCTS + 4 - MAX_PRODUCTS % 4}, "expected rows of a multiple of 4 with one scale"),
        ({"source": CHANNELS}, "expected rows of a multiple of 4 with one scale"),
        ({"is_coded": True}, "expected FakeQuantize"),
    ],
)
def test_some_products_have_no_kernel_on_codes(options, reason):
    with refuses(reason):
        make_product(**options)


QUANTIZE = (Step("FakeQuantize", (0, 1, 2, 3, 4, 5), (255.0,)),)
LIMITS = [np.array(x) for x in (-1.0, 1.0, 2.0, 2.0, -1.0)]


def test_products_give_codes_of_rows_of_a_multiple_of_four():
    kernel = make_product(steps=QUANTIZE, sources=LIMITS, is_coded=True)
    assert kernel.returns_codes
    np.testing.assert_array_equal(kernel(codes_of(3, 8)), codes_of(3, 8))
    with refuses("expected rows of codes of a multiple of 4"):
        make_product(6, steps=QUANTIZE, sources=LIMITS, is_coded=True)
    assert make_product(6)(codes_of(3, 8)).shape == (3, 6)


def evaluate(epilogue, sums, variables):
    """Compute the steps of an epilogue on sums [N, C], without rounding."""
    operands = [variables[x] if isinstance(x, int) else x.astype(np.float64) for x in epilogue.operands]
    values = [sums, *operands]
    for step in epilogue.steps:
        a, *others = [values[i] for i in step.operands]
        match step.name:
            case "Add":
                values.append(a + others[0])
            case "Multiply":
                values.append(a * others[0])
            case "MultiplyAdd":
                values.append(a * others[0] + others[1])
            case "Relu":
                values.append(np.maximum(a, 0))
            case "Divide":
                values.append(a / others[0])
            case _:
                raise NotImplementedError(step.name)
    return values[-1]


@pytest.mark.parametrize(
    ("steps", "sources", "compute", "names"),
    [
        ((), [], lambda x: x, ["MultiplyAdd"]),
        ((Step("Add", (0, 1)),), [np.array([1.0, 2, 3])], lambda x: x + np.array([1, 2, 3]), ["MultiplyAdd"]),
        ((Step("Subtract", (0, 1)),), [np.array([1.0, 2, 3])], lambda x: x - [1, 2, 3], ["MultiplyAdd"]),
        ((Step("Subtract", (1, 0)),), [np.array([1.0, 2, 3])], lambda x: [1, 2, 3] - x, ["MultiplyAdd"]),
        ((Step("Multiply", (0, 1)),), [np.array([[1.0, 2, 3]])], lambda x: x * [1, 2, 3], ["MultiplyAdd"]),
        ((Step("Multiply", (1, 0)),), [np.array([[1.0, 2, 3]])], lambda x: x * [1, 2, 3], ["MultiplyAdd"]),
        ((Step("Divide", (0, 1)),), [np.array([1.0, 2, 4])], lambda x: x / [1, 2, 4], ["MultiplyAdd"]),
        ((Step("Divide", (1, 0)),), [np.array(2.0)], lambda x: 2 / x, ["MultiplyAdd", "Divide"]),
        ((Step("Negative", (0,)),), [], lambda x: -x, ["MultiplyAdd"]),
        ((Step("Relu", (0,)), Step("Add", (1, 0))), [], lambda x: np.maximum(x, 0) + x, None),
        ((Step("Multiply", (0, 0)),), [], lambda x: x * x, ["MultiplyAdd", "Multiply"]),
        ((Step("Add", (0, 1)),), [None], lambda x: x + 7, None),
        ((Step("Add", (0, 1)), Step("Multiply", (3, 2))), [None, np.array(3.0)], lambda x: (x + 7) * 3, None),
        ((Step("Subtract", (0, 0)),), [], lambda x: x - x, None),
    ],
)
def test_epilogues_are_simplified_to_products_and_sums(steps, sources, compute, names):
    scale, offset = np.array([0.5, 2.0, 3.0]), np.array([1.0, -1.0, 0.25])
    epilogue = simplify(steps, sources, scale, offset, 2, False, axis=-1)
    sums = np.array([[1.0, -4, 6], [7, 8, 9]])
    np.testing.assert_allclose(evaluate(epilogue, sums, [np.array(7.0)]), compute(sums * scale + offset), rtol=1e-6)
    if names is not None:
        assert [step.name for step in epilogue.steps] == names


@pytest.mark.parametrize(
    ("kernel", "attributes", "kinds", "reason"),
    [
        ((3, 3), {}, ("scalar", "channel"), ""),
        ((8, 8), {}, ("channel",), ""),
        ((3, 3), {"strides": [3, 2]}, ("channel",), ""),
        ((1, 2), {"dilations": [300, 256]}, ("channel",), ""),
        ((5, 13), {}, ("channel",), "expected smaller filters, strides and dilations"),
        ((3, 3), {"strides": [1, 3]}, ("channel",), "expected smaller filters, strides and dilations"),
        ((1, 2), {"dilations": [1, 257]}, ("channel",), "expected smaller filters, strides and dilations"),
        ((3, 3), {}, ("channel", "full"), "expected operands of channels"),
        ((3, 3), {}, ("codes",), "expected operands of channels"),
    ],
)
def test_codes_of_depthwise_convolutions_have_a_form_of_their_own_for_small_windows(kernel, attributes, kinds, reason):
    from irrun.fast.jit.kernels import make_geometry

    windows = create_windows((20, 300), kernel, **{**CONVOLUTION, **attributes})
    convolution = QuantizedDepthwiseConvolution(np.ones((4, *kernel), np.int8), np.zeros(4, np.int32))
    steps = tuple(Step("Add", (max(0, i), 1 + i)) for i in range(len(kinds)))
    expression = Expression(kinds, (*steps, Step("Level", (len(kinds) + len(steps),), (255.0,))))
    if reason:
        with refuses(reason):
            convolution.make_task(1, make_geometry((20, 300), windows), 0, expression)
    else:
        convolution.make_task(1, make_geometry((20, 300), windows), 0, expression)


def test_constants_along_other_axes_are_operands():
    column, sums = np.array([[1.0], [2], [3]]), np.arange(9.0).reshape(3, 3)
    epilogue = simplify((Step("Add", (0, 1)),), [column], np.ones(3), np.zeros(3), 2, False, axis=-1)
    np.testing.assert_array_equal(evaluate(epilogue, sums, []), sums + column)
    row = simplify((Step("Add", (0, 1)),), [column.reshape(3)], np.ones(3), np.zeros(3), 2, False, axis=-1)
    np.testing.assert_array_equal(evaluate(row, sums, []), sums + column.reshape(3))


def test_equal_constants_of_epilogues_are_one_operand():
    s = _Simplification(3, 4, 1)
    first = s.add_operand(np.float32([1, 2, 3]))
    assert first == ("operand", 0)
    assert s.add_operand(np.float32([1, 2, 3])) == first
    assert s.add_operand(np.float32([1, 2, 4])) == ("operand", 1)
    assert s.add_operand(np.float32([1, 2, 3]).reshape(1, 3)) == ("operand", 2)
    assert [s.add_operand(0), s.add_operand(0), s.add_operand(np.float32(0))] == [("operand", n) for n in (3, 4, 5)]
    assert s.add_operand(np.float32(0)) == ("operand", 5)


@pytest.mark.parametrize(
    ("shape", "axis", "constant"),
    [
        ((), 1, ()),
        ((1, 1), 1, ()),
        ((3, 1, 1), 1, (3,)),
        ((1, 3, 1, 1), 1, (3,)),
        ((3,), -1, (3,)),
        ((3, 1), 2, (3,)),
        ((3,), 1, None),
        ((2, 3, 1, 1), 1, None),
        ((4, 1, 1), 1, None),
        ((1, 1, 3, 1, 1), 1, None),
    ],
)
def test_constants_of_channels_are_parts_of_sums(shape, axis, constant):
    s, value = _Simplification(3, 4, axis), np.arange(float(np.prod(shape))).reshape(shape).astype(np.float32)
    linear = s.make_linear(value, 7)
    if constant is None:
        ((reference, coefficient),) = linear.terms
        assert (reference, float(coefficient)) == (("operand", 0), 1.0)
        assert (linear.constant == 0, s.operands[0].shape) == (True, (1,) * (4 - len(shape)) + shape)
    else:
        assert linear.terms == ()
        np.testing.assert_array_equal(linear.constant, value.reshape(constant))
    assert s.make_linear(None, 7).terms[0][0] == ("operand", len(s.operands) - 1)
    assert s.operands[-1] == 7


def test_sums_of_epilogues_have_no_needless_steps():
    def compute(terms, constant):
        s = _Simplification(2, 2, 1)
        references = [s.add_operand(n) for n in range(len(terms))]
        linear = _Linear(tuple(zip(references, map(np.float64, terms), strict=True)), np.float64(constant))
        s.compute(linear)
        return [name for name, *_ in s.steps], len(s.operands) - len(terms)

    # the steps, and the number of constants
    assert compute([1.0], 0.0) == ([], 0)
    assert compute([2.0], 0.0) == (["Multiply"], 1)
    assert compute([1.0], 3.0) == (["Add"], 1)
    assert compute([2.0], 3.0) == (["MultiplyAdd"], 2)
    assert compute([1.0, 1.0], 0.0) == (["Add"], 0)
    assert compute([1.0, 2.0], 0.0) == (["MultiplyAdd"], 1)
    assert compute([[1.0, 1.0]], 0.0) == (["Multiply"], 1)
    assert compute([1.0], [0.0, 0.0]) == (["Add"], 1)
    assert compute([], 5.0) == ([], 1)
    with refuses("expected finite constants"):
        compute([1e300], 0.0)


def test_codes_are_results_of_a_last_quantization():
    scale, offset = np.ones(3), np.zeros(3)
    limits = [np.float32(x) for x in (0, 1, 1, 1, 0)]
    quantize = Step("FakeQuantize", (0, 1, 2, 3, 4, 5), (255.0,))
    assert [s.name for s in simplify((quantize,), limits, scale, offset, 4, True, axis=1).steps][-1] == "Level"
    for steps, sources in (((), ()), ((Step("Relu", (0,)),), ()), ((quantize, Step("Relu", (6,))), limits)):
        with refuses("expected FakeQuantize"):
            simplify(steps, sources, scale, offset, 4, True, axis=1)
    assert [s.name for s in simplify((), (), scale, np.array(0.0), 4, False, axis=1).steps] == ["Multiply"]
