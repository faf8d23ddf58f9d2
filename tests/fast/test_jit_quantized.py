"""Compiled kernels on 8-bit codes: the levels and sums of the definitions."""

import functools
import importlib.util
import math

import numpy as np
import pytest
from openvino_modules import import_builder

import irrun
from fast.harness import list_sequences, run_single_instructions, run_with_threads, use_lanes
from irrun.fast.errors import NoKernelError
from irrun.ops.convolution.forward import group_convolution_1
from irrun.ops.quantization import fake_quantize_1
from irrun.runtime.plan import list_plan

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

ov = import_builder()
o = import_builder("openvino.opset13")

F32 = np.float32
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def keep_compiled_kernels(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


@functools.cache
def make_signed_form():
    """Return a form whose data is signed, as in the instruction of ARM, for all processors."""
    from irrun.fast.jit.dot_products import DotProduct

    class SignedForm(DotProduct):
        offset = 128

        def prepare_data(self, f, data):
            return self.prepare_weights(f, data ^ -0x7F7F7F80)

    return SignedForm()


@pytest.fixture(params=["processor", "signed", "pairs", "portable"])
def form(request, monkeypatch):
    """Run a test with the form of products that the processor has, and with those of other processors."""
    from irrun.fast.jit.dot_products import use_form

    if request.param == "signed":
        monkeypatch.setattr("irrun.fast.jit.dot_products._find_vnni", make_signed_form)
    if request.param in ("processor", "signed"):
        yield request.param
    else:
        with use_form(request.param):
            yield request.param


def test_arm_processors_add_four_products_by_one_instruction():
    import llvmlite.binding as llvm

    from irrun.fast.jit.code import Function
    from irrun.fast.jit.dot_products import _Neon

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip("this build of LLVM has no code for ARM")
    form, f = _Neon(), Function("add_products", [("p", "ptr")], 4)
    codes = f.load(f.parameters["p"], f.integers())
    f.store(form.add(f, codes, form.prepare_data(f, codes), form.prepare_weights(f, codes)), f.parameters["p"])
    module = llvm.parse_assembly(f.get_text(), llvm.create_context())
    module.triple = triple
    machine = target.create_target_machine(cpu="generic", features="+dotprod", opt=3)
    assert machine.emit_assembly(module).count("sdot") == 1


def test_weights_whose_sums_of_two_products_exceed_16_bits_are_found():
    from irrun.fast.jit.dot_products import find_saturating, widen_weights

    values = np.array([-128, -127, -65, -64, -1, 0, 1, 2, 64, 65, 127], np.int8)
    pairs = np.stack(np.meshgrid(values, values), -1).reshape(-1, 2)
    codes = np.concatenate([pairs, pairs[::-1]], 1)
    # The largest and the smallest sum of two products with data from 0 to 255.
    halves = 255 * codes.reshape(-1, 2, 2).astype(int)
    largest, smallest = np.maximum(halves, 0).sum(2).max(1), np.minimum(halves, 0).sum(2).min(1)
    exceeds = (largest >= 1 << 15) | (smallest < -(1 << 15))
    found = find_saturating(codes)
    assert found[exceeds].all()
    assert not found[np.abs(codes.reshape(-1, 2, 2).astype(int).sum(2)).max(1) <= 128].any()
    np.testing.assert_array_equal(widen_weights(codes).view(np.int16), codes[:, [0, 2, 1, 3]])


def make_codes(levels):
    """Return the codes [N, C / 4, H, W, 4] of levels [N, C, H, W]."""
    batch, channels, height, width = levels.shape
    padded = np.zeros((batch, -(-channels // 4) * 4, height, width), np.uint8)
    padded[:, :channels] = levels
    return np.ascontiguousarray(padded.reshape(batch, -1, 4, height, width).transpose(0, 1, 3, 4, 2))


def draw_convolution(rng):
    """Return levels, codes of filters, and windows of a convolution."""
    groups = int(rng.choice([1, 1, 3, 6]))
    c_out, c_in = {1: (int(rng.choice([1, 4, 7, 20])), int(rng.choice([1, 3, 18]))), 3: (8, 4), 6: (1, 1)}[groups]
    kernel, strides, dilations = rng.integers(1, 4, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    begin, end = rng.integers(-1, 3, 2), rng.integers(-1, 3, 2)
    size = rng.integers(1, 40, 2) + dilations * (kernel - 1) + 2
    levels = rng.integers(0, 256, (int(rng.integers(1, 3)), groups * c_in, *size)).astype(np.uint8)
    filters = rng.integers(-128, 128, (groups, c_out, c_in, *kernel)).astype(np.int8)
    names = ("strides", "dilations", "pads_begin", "pads_end")
    return levels, filters, dict(zip(names, ([*map(int, v)] for v in (strides, dilations, begin, end)), strict=True))


def make_format(low, high, levels=256):
    from irrun.fast.jit.codes import CodeFormat

    low, high = np.asarray(low, F32), np.asarray(high, F32)
    format_ = CodeFormat.create([low, high, low, high], levels, 4)
    assert format_ is not None
    return format_


@pytest.mark.parametrize("seed", range(30))
def test_sums_are_exact(seed, form, monkeypatch):
    from irrun.fast.jit import quantized_convolution, quantized_panels
    from irrun.fast.jit.quantized_kernels import QuantizedConvolutionKernel

    if seed % 2:  # several blocks of rows and sections of channels
        monkeypatch.setattr(quantized_convolution, "MIN_PART_WORK", 1 << 8)
        monkeypatch.setattr(quantized_convolution, "PANEL_SIZE", 1 << 9)
        monkeypatch.setattr(quantized_panels, "MIN_COPY_SIZE", 1 << 6)
    if seed % 4 == 3:  # each section copies its rows
        monkeypatch.setattr(quantized_convolution, "MAX_SHARED_SIZE", 0)
    rng = np.random.default_rng(seed)
    levels, filters, attributes = draw_convolution(rng)
    zero = int(rng.integers(0, 256))
    scales = 2.0 ** rng.integers(-6, -2, filters.shape[0] * filters.shape[1])
    source = make_format(-zero / 8, (255 - zero) / 8)
    kernel = QuantizedConvolutionKernel(filters, scales, attributes, source, (), [], False)
    result = run_with_threads(lambda: kernel(make_codes(levels)))
    values = (levels.astype(np.float64) - zero) / 8
    sums = group_convolution_1(values, filters.astype(np.float64), **attributes)
    # Powers of 2 do not round.
    np.testing.assert_array_equal(result, (sums * scales.reshape(-1, 1, 1)).astype(F32))


@pytest.mark.parametrize("seed", [1, 2, 6])
@pytest.mark.parametrize("lanes", [4, 8])
def test_sums_with_narrower_vectors_are_exact(lanes, seed, monkeypatch):
    from irrun.fast.jit.dot_products import use_form

    with use_lanes(lanes), use_form("portable"):
        test_sums_are_exact(seed, "portable", monkeypatch)


@pytest.mark.parametrize("seed", range(20))
def test_codes_of_depthwise_convolutions_are_exact(seed, form, monkeypatch):
    from irrun.fast.jit import quantized_depthwise
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.quantized_kernels import QuantizedConvolutionKernel

    if seed % 2:
        monkeypatch.setattr(quantized_depthwise, "has_feature", lambda name: False)
    quantized_depthwise.compile_depthwise.cache_clear()
    rng = np.random.default_rng(seed)
    channels = int(rng.integers(2, 12))
    kernel, strides, dilations = rng.integers(1, 6, 2), rng.integers(1, 4, 2), rng.integers(1, 4, 2)
    begin, end = rng.integers(-1, 4, 2), rng.integers(-1, 4, 2)
    size = rng.integers(1, 40, 2) + dilations * (kernel - 1) + 2
    windows = [kernel, strides, dilations, begin, end]
    names = ("strides", "dilations", "pads_begin", "pads_end")
    attributes = dict(zip(names, ([*map(int, v)] for v in windows[1:]), strict=True))
    levels = rng.integers(0, 256, (int(rng.integers(1, 3)), channels, *size)).astype(np.uint8)
    filters = rng.integers(-128, 128, (channels, 1, 1, *kernel)).astype(np.int8)
    bias = rng.integers(-300, 300, (1, channels, 1, 1)).astype(F32)
    zero, step = int(rng.integers(0, 256)), 2.0 ** rng.integers(4, 10)
    low = F32(-step * int(rng.integers(0, 256)))
    limits = [low, low + F32(255 * step), F32(255 * step), F32(255), F32(0)]
    steps = (Step("Add", (0, 1)), Step("FakeQuantize", (7, 2, 3, 4, 5, 6), (255.0,)))
    source = make_format(-zero, 255 - zero)
    arguments = (filters, np.ones(channels), attributes, source, steps, [bias, *limits], True)
    if strides[1] <= 2:  # wider strides are computed by another method
        monkeypatch.setattr("irrun.fast.jit.quantized_convolution.QuantizedConvolution.make_tasks", pytest.fail)
    convolve = QuantizedConvolutionKernel(*arguments)
    codes = make_codes(levels)
    result = run_with_threads(lambda: convolve(codes))
    sums = group_convolution_1(levels.astype(np.float64) - zero, filters.astype(np.float64), **attributes) + bias
    # All sums are exact, and so are their levels before they are rounded.
    expected = np.rint(np.clip((sums - low) / step, 0, 255)).astype(np.uint8)
    found = result.transpose(0, 1, 4, 2, 3).reshape(len(levels), -1, *expected.shape[2:])[:, :channels]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(30))
def test_codes_of_vectors_of_channels_are_exact(seed, form, monkeypatch):
    from irrun.fast.jit import quantized_channels, quantized_kernels, quantized_panels
    from irrun.fast.jit.compiler import get_lanes
    from irrun.fast.jit.expressions import Step
    from irrun.fast.jit.quantized_epilogue import CodedOperand

    if get_lanes() < 8:
        pytest.skip("vectors of four elements are not used")
    monkeypatch.setattr(quantized_kernels, "is_faster", lambda filters, geometry: True)
    monkeypatch.setattr("irrun.fast.jit.quantized_convolution.QuantizedConvolution.make_tasks", pytest.fail)
    if seed % 2:  # several blocks of rows and sections of channels
        monkeypatch.setattr(quantized_channels, "MIN_PART_WORK", 1 << 8)
        monkeypatch.setattr(quantized_panels, "MIN_COPY_SIZE", 1 << 6)
    rng = np.random.default_rng(seed)
    levels, _, attributes = draw_convolution(rng)
    if seed % 3 == 0:  # pointwise
        attributes = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    channels, kernel = int(rng.choice([1, 7, 16, 20, 33, 64, 70])), rng.integers(1, 4, 2) if seed % 3 else (1, 1)
    filters = rng.integers(-128, 128, (1, channels, levels.shape[1], *kernel)).astype(np.int8)
    if seed % 5 == 0:  # only some weights need the portable form
        filters[:, :, :-1] //= 4
    zero, step, low = int(rng.integers(0, 256)), 2.0 ** rng.integers(6, 12), F32(rng.integers(-90000, 0))
    sums = group_convolution_1(levels.astype(np.float64) - zero, filters.astype(np.float64), **attributes)
    bias = rng.integers(-300, 300, (1, channels, 1, 1)).astype(F32)
    residual = rng.integers(0, 256, sums.shape).astype(np.uint8)
    limits = [low, low + F32(255 * step), F32(255 * step), F32(255), F32(0)]
    steps = (Step("Add", (0, 1)), Step("Add", (8, 2)), Step("FakeQuantize", (9, 3, 4, 5, 6, 7), (255.0,)))
    sources = [bias, CodedOperand(make_format(-7, 248)), *limits]
    arguments = (filters, np.ones(channels), attributes, make_format(-zero, 255 - zero), steps, sources, True)
    convolve = quantized_kernels.QuantizedConvolutionKernel(*arguments)
    result = run_with_threads(lambda: convolve(make_codes(levels), make_codes(residual)))
    # All sums are exact, and so are their levels before they are rounded.
    expected = np.rint(np.clip((sums + bias + residual - 7 - low) / step, 0, 255)).astype(np.uint8)
    found = result.transpose(0, 1, 4, 2, 3).reshape(len(levels), -1, *expected.shape[2:])[:, :channels]
    np.testing.assert_array_equal(found, expected)


def test_vectors_of_channels_are_chosen_for_small_maps():
    from irrun.fast.jit.compiler import get_lanes
    from irrun.fast.jit.convolution import Geometry
    from irrun.fast.jit.quantized_channels import is_faster

    def choose(size, *filters):
        geometry = Geometry((size, size), filters[2:], (1, 1), (1, 1), (1, 1), (1, 1))
        return is_faster(np.ones(filters, np.int8), geometry)

    assert choose(7, 64, 64, 3, 3) == (get_lanes() >= 8)
    assert not choose(150, 8, 3, 3, 3)
    assert not choose(7, 1, 64, 3, 3)


@pytest.mark.parametrize("rows", [1, 4, 7, 30, 300])
@pytest.mark.parametrize("columns", [1, 16, 17, 48, 64, 130])
def test_sums_of_products_are_exact(rows, columns, form):
    from irrun.fast.jit.quantized_kernels import QuantizedProductKernel

    rng = np.random.default_rng(rows * columns)
    levels = rng.integers(0, 256, (2, rows, 28)).astype(np.uint8)
    codes = rng.integers(-128, 128, (columns, 28)).astype(np.int8)
    scales = 2.0 ** rng.integers(-6, -2, columns)
    kernel = QuantizedProductKernel(codes, scales, 3, make_format(-10 / 8, 245 / 8), (), [], False)
    result = run_with_threads(lambda: kernel(levels))
    expected = (levels.astype(np.float64) - 10) / 8 @ (codes * scales[:, np.newaxis]).T
    np.testing.assert_array_equal(result, expected.astype(F32))


@pytest.mark.parametrize("limits", [(-1.0, 1.0), (0.0, 2.55), (-0.73, 2.1)])
@pytest.mark.parametrize("channels", [1, 4, 7])
@pytest.mark.parametrize("levels", [2, 255, 256])
def test_levels_are_those_of_the_definition(limits, channels, levels):
    from irrun.fast.jit.codes import decode, encode
    from irrun.fast.jit.quantized_products import decode_rows, encode_rows

    low, high = F32(limits[0]), F32(limits[1])
    points = low + (high - low) * np.arange(-2, 2 * levels + 3, dtype=np.float64) / (2 * (levels - 1))
    ties = points.astype(F32)
    near = np.concatenate([ties, np.nextafter(ties, F32(9)), np.nextafter(ties, F32(-9)), [np.inf, -np.inf]]).astype(
        F32
    )
    x = np.stack([np.roll(near, i) for i in range(channels)]).reshape(1, channels, 1, -1)
    format_ = make_format(low, high, levels)
    expected = fake_quantize_1(x, low, high, low, high, levels=levels)
    np.testing.assert_array_equal(run_with_threads(lambda: decode(encode(x, format_), format_, channels)), expected)
    np.testing.assert_array_equal(decode_rows(encode_rows(x, format_), format_), expected)


def test_limits_of_channels_and_large_maps():
    from irrun.fast.jit.codes import decode, encode

    x = RNG.normal(size=(2, 6, 150, 151)).astype(F32)
    low, high = -1 - RNG.random((6, 1, 1)).astype(F32), 1 + RNG.random((6, 1, 1)).astype(F32)
    format_ = make_format(low, high)
    result = run_with_threads(lambda: decode(encode(x, format_), format_, 6))
    expected = fake_quantize_1(x, low, high, low, high, levels=256)
    # The definition returns the upper limit itself for values above it, instead of the rounded value of the last level.
    np.testing.assert_allclose(result, expected, rtol=2**-23, atol=0)
    np.testing.assert_array_equal(result[x <= high], expected[x <= high])
    assert not encode(np.full((1, 6, 1, 1), np.nan, F32), format_).any()


@pytest.mark.parametrize("largest", [1, 7, 127, 128])
def test_codes_of_weights_are_found(largest):
    from irrun.fast.jit.codes import find_weight_codes

    codes = RNG.integers(-largest, min(largest, 127) + 1, (5, 40))
    codes[:, 0] = -largest
    codes[4] = 0
    scales = RNG.random((5, 1)) + 0.1
    weights = (codes * scales).astype(F32)
    found = find_weight_codes(weights)
    assert found is not None
    assert found[0].dtype == np.int8
    np.testing.assert_allclose(found[0] * found[1][:, np.newaxis], weights, rtol=0, atol=2e-7 * largest)


def test_other_weights_are_left():
    from irrun.fast.jit.codes import find_weight_codes

    assert find_weight_codes(RNG.normal(size=(3, 40)).astype(F32)) is None
    codes = RNG.integers(-127, 128, (3, 40)).astype(F32)
    codes[1, 3] += 0.01
    assert find_weight_codes(codes) is None
    codes[1, 3] = np.inf
    assert find_weight_codes(codes) is None


def quantize(value, low, high, levels=256):
    limits = [o.constant(np.asarray(v, F32)) for v in (low, high)]
    return o.fake_quantize(value, *limits, *limits, levels)


def make_filters(shape, seed=0):
    """Return a constant of codes and a scale for each output channel, as compressed models store it."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-127, 128, shape).astype(np.int8)
    scales = (rng.random((shape[0], *[1] * (len(shape) - 1))) + 0.5).astype(F32) / 127 / math.sqrt(codes[0].size)
    return o.multiply(o.convert(o.constant(codes), F32), o.constant(scales))


def convolve(value, shape, stride=1, pad=0, seed=0):
    windows = ([stride] * 2, [pad] * 2, [pad] * 2, [1, 1])
    result = o.convolution(value, make_filters(shape, seed), *windows)
    return o.add(result, o.constant(np.linspace(-1, 1, shape[0], dtype=F32).reshape(1, -1, 1, 1)))


def convolve_channels(value, channels, stride=1, seed=0):
    return o.group_convolution(value, make_filters((channels, 1, 1, 3, 3), seed), [stride] * 2, [1, 1], [1, 1], [1, 1])


def save(tmp_path, x, *results):
    ov.serialize(ov.Model([o.result(r) for r in results], [x], "model"), tmp_path / "model.xml")
    return tmp_path / "model.xml"


def multiply(value, shape, is_compressed, seed=0):
    """Append a product with weights [N, K] that stay compressed, or are folded."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-127, 128, shape).astype(np.int8)
    scales = (rng.random((shape[0], 1)) + 0.5).astype(F32) / 127 / math.sqrt(shape[1])
    weights = o.multiply(o.convert(o.constant(codes), F32), o.constant(scales))
    if not is_compressed:
        weights = o.constant(codes.astype(F32) * scales)
    return o.add(o.matmul(value, weights, False, True), o.constant(np.linspace(-1, 1, shape[0], dtype=F32)))


def count_codes(compiled):
    """Return how many instructions compute with codes."""
    return sum("of 8-bit codes to" in i.description for i in compiled._fast_program.instructions)


def compare_with_definition(path, *values, step, shape=None):
    """Assert that compiled results are within a level of those of the definition, and most have the same level."""
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    for value in values:
        results = run_with_threads(lambda value=value: np.concatenate([r.ravel() for r in fast(value).to_tuple()]))
        expected = np.concatenate([r.ravel() for r in plain(value).to_tuple()])
        error = np.abs(results - expected)
        assert error.max() < 1.01 * step
        assert np.mean(error > 1e-3 * step) < 0.01
    return fast


IMAGE = RNG.normal(size=(1, 6, 21, 19)).astype(F32)


def make_block(x):
    """Return a network of each kind of convolution, with residuals, and quantized results."""
    first = quantize(o.relu(convolve(quantize(x, -2.0, 1.984375), (16, 6, 3, 3), 2, 1)), 0.0, 2.0)
    second = quantize(convolve(first, (24, 16, 1, 1), seed=1), -1.28, 1.27)
    spread = np.linspace(1, 2, 24, dtype=F32).reshape(1, -1, 1, 1)
    third = quantize(o.clamp(convolve(second, (24, 24, 1, 1), seed=2), 0.0, 6.0), 0 * spread, spread)
    fourth = quantize(convolve_channels(third, 24, seed=3), -1.28, 1.27)
    # With another step than that of the sum, which would often lie between two levels.
    total = o.add(quantize(convolve(fourth, (24, 24, 1, 1), seed=4), -2.56, 2.54), second)
    fifth = quantize(total, -128 * 0.0217, 127 * 0.0217)
    return o.add(convolve(fifth, (10, 24, 3, 3), 1, 1, seed=5), o.reduce_mean(fifth, o.constant([1, 2, 3]), True))


def test_block_of_convolutions_agrees_with_the_definition(tmp_path, form):
    x = o.parameter([1, 6, 21, 19], F32)
    path = save(tmp_path, x, make_block(x))
    # A value between two levels may move to the other: each of those is a fraction of the last sums.
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    assert count_codes(fast) == 6
    result, expected = run_with_threads(lambda: fast(IMAGE)[0]), plain(IMAGE)[0]
    error = np.abs(result - expected)
    assert np.median(error) < 1e-5
    assert error.max() < 0.1
    layers = [name for i in fast._fast_program.instructions for name in i.layers]
    names = [i.layer.name for i in plain._program.instructions]
    assert len(set(layers) & set(names)) >= len(names) - 2


@pytest.mark.parametrize("limits", [(0.0, 2.55), (-1.28, 1.27), (-0.5, 2.05)])
@pytest.mark.parametrize("pad", [0, 1])
def test_single_convolutions_agree_with_the_definition(tmp_path, limits, pad):
    x = o.parameter([1, 6, 21, 19], F32)
    path = save(tmp_path, x, quantize(convolve(quantize(x, *limits), (9, 6, 3, 3), 1, pad), -1.0, 3.0))
    assert count_codes(compare_with_definition(path, IMAGE, IMAGE * 0.1, step=4 / 255)) == 1


def test_selected_values_are_encoded(tmp_path):
    x = o.parameter([1, 6, 21, 19], F32)
    first = quantize(x, -2.0, 1.984375)
    pooled = o.max_pool(first, [1, 1], [1, 1], [1, 1], [1, 1], [3, 3])
    joined = o.concat([pooled.output(0), quantize(o.negative(x), -2.0, 1.984375)], 1)
    other = o.concat([first, quantize(x, -1.0, 1.0)], 1)
    results = [quantize(convolve(v, (8, 12, 3, 3), 1, 1), -1.0, 3.0) for v in (joined, other)]
    fast = compare_with_definition(save(tmp_path, x, *results), IMAGE, step=4 / 255)
    # Values of two scales are not codes of a single one.
    assert count_codes(fast) == 1


def test_channels_of_other_numbers_are_refused():
    from irrun.fast.jit.quantized_kernels import EncodingKernel, PlainEncodingKernel, RowEncodingKernel

    format_ = make_format(-1, 1)
    for kernel in (EncodingKernel(format_, 4, 6), PlainEncodingKernel(format_, 4, 6), RowEncodingKernel(format_, 4, 6)):
        for shape in ((1, 7, 5, 5), (6, 6), (1, 8, 5, 8)):
            with pytest.raises(NoKernelError, match="expected data of rank 4"):
                kernel(np.zeros(shape, F32))


@pytest.mark.parametrize("is_compressed", [True, False])
@pytest.mark.parametrize("shape", [(50, 32), (2, 7, 32)])
def test_products_agree_with_the_definition(tmp_path, shape, is_compressed, form):
    x = o.parameter(shape, F32)
    first = quantize(x, -1.51, 2.1)
    second = quantize(multiply(first, (52, 32), is_compressed), -1.28, 1.27)
    path = save(tmp_path, x, quantize(o.add(multiply(second, (32, 52), is_compressed, 1), first), -2.11, 2.4), second)
    value = RNG.normal(size=shape).astype(F32)
    fast = compare_with_definition(path, value, step=4.6 / 255)
    assert count_codes(fast) == 2
    assert sum("FakeQuantize" in {d.operation.type for d in i.plain} for i in fast._fast_program.instructions) == 4


@pytest.mark.parametrize("is_coded", [False, True])
def test_products_of_several_blocks_of_rows_agree_with_the_definition(tmp_path, is_coded, monkeypatch):
    from irrun.fast.jit import quantized_products

    monkeypatch.setattr(quantized_products, "MIN_BLOCK_ROWS", 16)
    monkeypatch.setattr(quantized_products, "BLOCK_SIZE", 1)
    quantized_products._divide.cache_clear()
    x = o.parameter((83, 32), F32)
    first = quantize(x, -1.51, 2.1)
    product = multiply(first, (52, 32), True)
    if is_coded:
        product = multiply(quantize(product, -1.28, 1.27), (32, 52), True, 1)
    fast = compare_with_definition(
        save(tmp_path, x, quantize(product, -2.11, 2.4)), RNG.normal(size=(83, 32)).astype(F32), step=4.6 / 255
    )
    assert count_codes(fast) == 1 + is_coded
    assert len(quantized_products._divide(83, 32, 52, 16)[0]) == 6
    quantized_products._divide.cache_clear()


@pytest.mark.parametrize("limit", [2, 3, 40])
@pytest.mark.parametrize("kind", ["channels", "rows"])
def test_sequences_have_the_bits_of_single_instructions(kind, limit, tmp_path, monkeypatch):
    """With few members, codes are inputs and outputs of sequences."""
    monkeypatch.setattr("irrun.runtime.passes.jit_sequences.MAX_WORK", limit)
    monkeypatch.setattr("irrun.runtime.passes.jit_sequences._MemberFactory.count_work", lambda self, instruction: 1)
    value = IMAGE if kind == "channels" else RNG.normal(size=(2, 7, 32)).astype(F32)
    x = o.parameter(value.shape, F32)
    if kind == "channels":
        results = [make_block(x)]
    else:
        first = quantize(x, -1.51, 2.1)
        second = quantize(multiply(first, (52, 32), True), -1.28, 1.27)
        results = [quantize(o.add(multiply(second, (32, 52), True, 1), first), -2.11, 2.4), second]
    fast = irrun.compile_model(save(tmp_path, x, *results), jit=True)
    members = [name for operations in list_sequences(fast).values() for name in operations]
    assert len(members) > count_codes(fast)
    expected = run_single_instructions(fast, [value])
    result = run_with_threads(lambda: np.concatenate([r.ravel() for r in fast(value).to_tuple()]))
    np.testing.assert_array_equal(result, np.concatenate([r.ravel() for r in expected]))


def test_dynamic_rows_are_multiplied_on_codes(tmp_path):
    x = o.parameter([-1, -1, 32], F32)
    path = save(tmp_path, x, o.gelu(multiply(quantize(x, -1.51, 2.1), (52, 32), True), "erf"))
    values = [RNG.normal(size=shape).astype(F32) for shape in ((1, 1, 32), (2, 9, 32))]
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    assert count_codes(fast) == 1
    for value in values:
        np.testing.assert_allclose(fast(value)[0], plain(value)[0], rtol=0, atol=1e-5)


@pytest.mark.falls_back
def test_no_rows_are_multiplied_by_the_definition(tmp_path):
    x = o.parameter([-1, -1, 32], F32)
    path = save(tmp_path, x, multiply(quantize(x, -1.51, 2.1), (52, 32), True))
    assert irrun.compile_model(path, jit=True)(np.zeros((1, 0, 32), F32))[0].shape == (1, 0, 52)


@pytest.mark.parametrize("limits", [(-0.7503, 1.5), (0.25, 1.5), (-1.5, -0.25)])
def test_zero_between_levels_is_padded_exactly(tmp_path, limits):
    x = o.parameter([1, 6, 21, 19], F32)
    for stride, pad in ((1, 0), (1, 1), (2, 1), (3, 2)):
        path = save(tmp_path, x, quantize(convolve(quantize(x, *limits), (9, 6, 3, 3), stride, pad), -1.0, 3.0))
        assert count_codes(compare_with_definition(path, IMAGE, step=4 / 255)) == 1


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("auto_pad", ["explicit", "same_upper", "same_lower", "valid"])
def test_values_of_pads_are_subtracted(auto_pad, groups, form):
    from irrun.fast.jit.quantized_kernels import QuantizedConvolutionKernel

    rng = np.random.default_rng(groups)
    # Channels of depthwise convolutions have levels of their own.
    low = -0.7 if groups == 1 else rng.uniform(-2, 1, (6, 1, 1))
    source = make_format(low, low + 2.1)
    filters = rng.integers(-128, 128, (groups, 8 if groups == 1 else 1, 6 // groups, 3, 2)).astype(np.int8)
    scales = rng.random(filters.shape[0] * filters.shape[1]) + 0.5
    attributes = {
        "strides": [2, 1],
        "dilations": [1, 2],
        "pads_begin": [2, -1],
        "pads_end": [0, 3],
        "auto_pad": auto_pad,
    }
    levels = rng.integers(0, 256, (2, 6, 12, 17)).astype(np.uint8)
    kernel = QuantizedConvolutionKernel(filters, scales, attributes, source, (), [], False)
    result = run_with_threads(lambda: kernel(make_codes(levels)))
    shape = (-1, 1, 1)
    values = levels * source.step.reshape(shape) + source.out_low.astype(np.float64).reshape(shape)
    sums = group_convolution_1(values, filters.astype(np.float64), **attributes) * scales.reshape(shape)
    # Sums are exact; scaling and adding round to 2^-24 of the largest term a few times.
    np.testing.assert_allclose(result, sums, rtol=0, atol=4 * 2.0**-24 * 3 * 128 * 36 * 1.5)


def test_values_that_others_need_are_decoded(tmp_path):
    x = o.parameter([1, 6, 21, 19], F32)
    first = quantize(x, -2.0, 1.984375)
    second = quantize(convolve(first, (8, 6, 3, 3)), -1.28, 1.27)
    path = save(tmp_path, x, first, second, convolve(second, (4, 8, 1, 1)))
    fast = irrun.compile_model(path, jit=True)
    assert count_codes(fast) == 2
    plain = irrun.compile_model(path, optimize=False)
    for a, b in zip(fast(IMAGE).to_tuple(), plain(IMAGE).to_tuple(), strict=True):
        assert np.abs(a - b).max() < 0.02
    np.testing.assert_array_equal(fast(IMAGE)[0], plain(IMAGE)[0])


def test_dynamic_shapes_are_computed_on_codes(tmp_path):
    x = o.parameter([-1, 6, -1, -1], F32)
    path = save(tmp_path, x, quantize(convolve(quantize(x, -2.0, 1.984375), (9, 6, 3, 3), 1, 1), -1.0, 3.0))
    images = [IMAGE, RNG.normal(size=(3, 6, 9, 40)).astype(F32)]
    assert count_codes(compare_with_definition(path, *images, step=4 / 255)) == 1


@pytest.mark.parametrize("shape", [[1, 4, 6, 7, 8], [-1, 4, -1, -1, -1], None])
def test_volumes_and_dynamic_ranks_are_not_computed_on_codes(tmp_path, shape):
    rank = 5 if shape else 4
    x = o.parameter(shape or ov.PartialShape.dynamic(), F32)
    filters = make_filters((6, 4, *[3] * (rank - 2)))
    value = o.convolution(quantize(x, -2.0, 1.984375), filters, *([n] * (rank - 2) for n in (1, 0, 0, 1)))
    image = RNG.normal(size=(1, 4, 6, 7, 8)[:rank]).astype(F32)
    fast = compare_with_definition(save(tmp_path, x, quantize(value, -1.0, 3.0)), image, step=4 / 255)
    assert count_codes(fast) == 0


@pytest.mark.parametrize("kind", ["variable", "wide", "channels", "type"])
def test_convolutions_without_constant_weights_in_f32_are_not_computed_on_codes(tmp_path, kind):
    element_type = np.float64 if kind == "wide" else F32
    x, w = o.parameter([1, 6, 21, 19], element_type), o.parameter([4, 6, 3, 3], F32)
    value = quantize(x, -2.0, 1.984375) if kind != "wide" else x
    if kind == "wide":
        limits = [o.constant(np.asarray(v, np.float64)) for v in (-2.0, 1.984375)]
        value = o.fake_quantize(x, *limits, *limits, 256)
        filters = o.convert(make_filters((4, 6, 3, 3)), np.float64)
    elif kind == "variable":
        filters = w
    elif kind == "channels":
        spread = np.linspace(1, 2, 6, dtype=F32).reshape(1, -1, 1, 1)
        value, filters = quantize(x, -spread, spread), make_filters((4, 6, 3, 3))
    else:
        filters = o.constant(np.random.default_rng(0).normal(size=(4, 6, 3, 3)).astype(F32))
    result = o.convolution(value, filters, *[[1, 1]] * 4)
    parameters = [x, w] if kind == "variable" else [x]
    path = tmp_path / "model.xml"
    ov.serialize(ov.Model([o.result(result)], parameters, "model"), path)
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    assert count_codes(fast) == 0
    inputs = [IMAGE.astype(element_type), np.ones((4, 6, 3, 3), F32)][: len(parameters)]
    np.testing.assert_allclose(fast(inputs)[0], plain(inputs)[0], rtol=1e-4, atol=1e-4)


def test_groups_of_few_channels_are_not_computed_on_codes(tmp_path):
    x = o.parameter([1, 6, 21, 19], F32)
    for groups, count in ((2, 0), (6, 1)):
        value = o.group_convolution(
            quantize(x, -2.0, 1.984375), make_filters((groups, 1, 6 // groups, 3, 3)), *[[1, 1]] * 4
        )
        fast = compare_with_definition(save(tmp_path, x, quantize(value, -1.0, 3.0)), IMAGE, step=4 / 255)
        assert count_codes(fast) == count


def test_value_is_read_as_codes_and_as_a_residual_of_another_shape(tmp_path):
    """The residual is a single channel, and the value it is added to has eight."""
    x = o.parameter([1, 1, 21, 19], F32)
    value = quantize(x, -2.0, 1.984375)
    total = o.add(convolve(value, (8, 1, 3, 3), 1, 1), value)
    fast = compare_with_definition(save(tmp_path, x, quantize(total, -2.0, 3.0)), IMAGE[:, :1], step=5 / 255)
    assert count_codes(fast) == 1


@pytest.mark.parametrize("columns", [24, 22])
@pytest.mark.parametrize("kind", ["channels", "rows"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_results_that_are_only_residuals_are_coded(tmp_path, kind, columns, is_shared):
    value = IMAGE if kind == "channels" else RNG.normal(size=(9, 7, 32)).astype(F32)
    x = o.parameter(value.shape, F32)
    first = quantize(x, -2.0, 1.984375)
    if kind == "channels":
        main, projection = (convolve(first, (columns, 6, 1, 1), seed=seed) for seed in range(2))
    else:
        main, projection = (multiply(first, (columns, 32), True, seed) for seed in range(2))
    projection = quantize(projection, -1.28, 1.27)
    total = quantize(o.relu(o.add(main, projection)), 0.0, 4.0)
    results = [total, projection] if is_shared else [total]
    fast = compare_with_definition(save(tmp_path, x, *results), value, step=4 / 255)
    descriptions = [i.description for i in fast._fast_program.instructions]
    has_codes = not is_shared and (kind == "channels" or columns == 24)
    assert sum("of 8-bit codes to codes" in d for d in descriptions) == has_codes
    assert sum("of 8-bit codes to f32" in d for d in descriptions) == 2 - has_codes


def test_weights_that_stay_compressed_are_multiplied_as_codes(tmp_path, monkeypatch):
    from irrun.runtime.passes import compressed_weights

    monkeypatch.setattr(compressed_weights.find_compressed_weights, "__defaults__", (0,))
    monkeypatch.setattr(compressed_weights, "MIN_ELEMENTS", 0)
    x = o.parameter([-1, 32], F32)
    path = save(tmp_path, x, quantize(multiply(quantize(x, -1.51, 2.1), (52, 32), True), -1.28, 1.27))
    fast = compare_with_definition(path, RNG.normal(size=(50, 32)).astype(F32), step=2.6 / 255)
    assert len(fast._program.compressed) == 1
    assert count_codes(fast) == 1


@pytest.mark.falls_back
def test_failing_kernels_are_replaced_by_the_definition(tmp_path, monkeypatch):
    from irrun.fast.jit.quantized_kernels import QuantizedConvolutionKernel

    x = o.parameter([1, 6, 21, 19], F32)
    path = save(tmp_path, x, make_block(x))
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)

    def fail(self, *inputs):
        raise ValueError("refused")

    monkeypatch.setattr(QuantizedConvolutionKernel, "__call__", fail)
    np.testing.assert_allclose(fast(IMAGE)[0], plain(IMAGE)[0], rtol=0, atol=1e-5)


def test_plan_names_each_layer_once(tmp_path):
    x = o.parameter([1, 6, 21, 19], F32)
    entries = list(list_plan(irrun.compile_model(save(tmp_path, x, make_block(x)), jit=True)._fast_program))
    quantized = [e for e in entries if "of 8-bit codes to" in e.implementation]
    assert [e.operations for e in quantized][:2] == [("Convolution", "Add", "FakeQuantize")] * 2
    assert all(len(set(e.layers)) == len(e.layers) for e in entries)


def multiply_by(weights, transpose_a=False):
    """Return a function that appends the product of quantized data and weights [N, K]."""

    def make(x):
        return o.matmul(quantize(x, -1.51, 2.1), weights, transpose_a, True)

    return make


def scale_codes(*shape):
    """Return weights of codes and a single scale."""
    return o.constant(np.random.default_rng(0).integers(-127, 128, shape).astype(F32) / F32(512))


def join(x, *limits):
    return convolve(o.concat([quantize(x, *pair) for pair in limits], 1), (8, 8, 3, 3))


def convolve_groups(x, groups, out_channels, in_channels):
    filters = make_filters((groups, out_channels, in_channels, 3, 3))
    return o.group_convolution(quantize(x, -2.0, 1.984375), filters, *[[1, 1]] * 4)


def quantize_by(x, *shape):
    """Quantize by limits of a shape."""
    spread = np.linspace(1, 2, int(np.prod(shape)), dtype=F32).reshape(shape)
    return quantize(x, -spread, spread)


#: Name -> shape of the data, result, and whether it is computed on codes.
CANDIDATES = {
    "product": ([8, 32], multiply_by(scale_codes(52, 32)), True),
    "product of batches": ([2, 8, 32], multiply_by(scale_codes(52, 32)), True),
    "product of columns": ([32, 8], multiply_by(scale_codes(52, 32), True), False),
    "product of 30 columns": ([8, 30], multiply_by(scale_codes(52, 30)), False),
    "product with batches of weights": ([2, 8, 32], multiply_by(scale_codes(2, 52, 32)), False),
    "product of other weights": ([8, 32], multiply_by(o.constant(RNG.normal(size=(52, 32)).astype(F32))), False),
    "product of a vector": ([32], multiply_by(scale_codes(52, 32)), False),
    "product of several formats": (
        [8, 32],
        lambda x: o.matmul(quantize_by(x, 32), scale_codes(52, 32), False, True),
        False,
    ),
    "rows with limits": ([1, 4, 9, 9], lambda x: convolve(quantize_by(x, 9, 1), (8, 4, 3, 3)), False),
    "values of one format": ([1, 4, 9, 9], lambda x: join(x, (-2.0, 1.984375), (-2.0, 1.984375)), True),
    "values of two formats": ([1, 4, 9, 9], lambda x: join(x, (-2.0, 1.984375), (-1.0, 0.9921875)), False),
    "values of one format and others": (
        [1, 4, 9, 9],
        lambda x: convolve(o.concat([quantize(x, -2.0, 1.984375), x], 1), (8, 8, 3, 3)),
        False,
    ),
    "groups of 4 channels": ([1, 8, 9, 9], lambda x: convolve_groups(x, 2, 4, 4), True),
    "groups with 6 results": ([1, 8, 9, 9], lambda x: convolve_groups(x, 2, 6, 4), False),
    "groups of 6 channels": ([1, 12, 9, 9], lambda x: convolve_groups(x, 2, 4, 6), False),
    "groups of single results": ([1, 8, 9, 9], lambda x: convolve_groups(x, 2, 1, 4), False),
    "single channels with 4 results": ([1, 4, 9, 9], lambda x: convolve_groups(x, 4, 4, 1), False),
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_operations_on_codes_have_the_expected_form(name, tmp_path):
    shape, make, is_on_codes = CANDIDATES[name]
    x = o.parameter(shape, F32)
    path = save(tmp_path, x, o.relu(make(x)))
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    assert count_codes(fast) == is_on_codes
    value = np.random.default_rng(0).normal(size=shape).astype(F32)
    error = np.abs(fast(value)[0] - plain(value)[0])
    assert np.median(error) < 1e-4  # values between two levels may move to the other
    assert count_codes(irrun.compile_model(path, jit=True, weights_memory=0)) == 0


def test_convolutions_without_a_kernel_on_codes_are_computed_otherwise(tmp_path, monkeypatch):
    """The others of the same network stay on codes."""
    from irrun.fast.errors import NoKernelError
    from irrun.fast.jit.quantized_kernels import QuantizedConvolutionKernel
    from irrun.runtime.passes import jit_quantized

    class Kernel(QuantizedConvolutionKernel):
        def prepare(self, shapes):
            if shapes[0][1] == 16:
                raise NoKernelError("no kernel")
            super().prepare(shapes)

    x = o.parameter([1, 6, 21, 19], F32)
    path = save(tmp_path, x, make_block(x))
    monkeypatch.setattr(jit_quantized, "QuantizedConvolutionKernel", Kernel)
    fast, plain = irrun.compile_model(path, jit=True), irrun.compile_model(path, optimize=False)
    assert count_codes(fast) == 5
    error = np.abs(fast(IMAGE)[0] - plain(IMAGE)[0])
    assert np.median(error) < 1e-5
    assert error.max() < 0.1
