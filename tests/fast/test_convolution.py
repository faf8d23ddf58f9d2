"""Convolution by all methods against the plain kernel."""

from __future__ import annotations

import itertools
import mmap

import numpy as np
import pytest

from fast.harness import check, find_operation, is_specialized, make_floats
from irrun.fast.convolution import METHODS, ConvolutionKernel
from irrun.fast.convolution_problem import Problem
from irrun.fast.elementwise import ElementwiseChain, Operand, Step
from irrun.fast.packing import PackedMemory, allocate_kept
from irrun.fast.specialization import CallSite, specialize
from irrun.fast.winograd import WinogradMethod, transform_filters
from irrun.ops._support.windows import create_windows
from irrun.threads import use_threads

F32 = np.float32

ATTRIBUTES = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}


def compare_sums(a, b, inputs):
    """Allow the rounding errors of sums in another order: they grow with the square root of the number of terms."""
    filters = inputs[1]
    terms = np.prod(filters.shape[1:]) if filters.ndim == inputs[0].ndim else np.prod(filters.shape[2:])
    scale = np.abs(inputs[0]).max(initial=0) * np.abs(filters).max() * np.sqrt(terms)
    np.testing.assert_allclose(a, b, rtol=0, atol=4e-6 * scale)


def compute(method, data, filters, **attributes):
    """Return the result of one method, in float64 that of the plain kernel, and the blocks that were finished."""
    entry = next(entry for entry in METHODS if entry.name.startswith(method))
    windows = create_windows(
        data.shape[2:],
        filters.shape[3:],
        *(attributes.get(name, [n] * (data.ndim - 2)) for name, n in (("strides", 1), ("dilations", 1))),
        *(attributes.get(name, [0] * (data.ndim - 2)) for name in ("pads_begin", "pads_end")),
    )
    groups, c_out, c_in = filters.shape[:3]
    problem = Problem(data.shape[0], groups, c_in, c_out, data.shape[2:], windows)
    result = np.full((data.shape[0], groups * c_out, problem.positions), np.nan, F32)
    finished = np.zeros(result.shape, int)

    def finish(image, channels, positions):
        assert not np.isnan(result[image, channels, positions]).any()
        finished[image, channels, positions] += 1

    entry.create(entry.prepare(filters, problem), problem)(data, result, finish)
    np.testing.assert_array_equal(finished, 1)
    plain = find_operation("GroupConvolution-1").kernel
    expected = plain(data.astype(float), filters.astype(float), **{**ATTRIBUTES, **attributes})
    return result.reshape(expected.shape), expected


SHAPES = [(7, 7), (14, 14), (13, 17), (1, 9), (5, 1), (40, 33)]
#: Shapes and paddings into which a window of 3x3 fits, with a padding of 1 at the end.
PADDED_SHAPES = [
    (shape, pads)
    for pads in ([0, 0], [1, 1], [2, 0], [-1, 1])
    for shape in SHAPES
    if all(n + p + 1 >= 3 for n, p in zip(shape, pads, strict=True))
]


@pytest.mark.parametrize(("shape", "pads"), PADDED_SHAPES, ids=str)
def test_winograd_equals_plain_kernel(shape, pads):
    data, filters = make_floats((2, 5, *shape), 1), make_floats((1, 7, 5, 3, 3), 2)
    actual, expected = compute("Winograd", data, filters, pads_begin=pads, pads_end=[1, 1])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("height", "tile_rows"), [(13, 7), (14, 7), (15, 8)])
def test_tiles_of_winograd_cover_the_result_once(height, tile_rows):
    windows = create_windows((height, 14), (3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
    filters = transform_filters(make_floats((4, 4, 3, 3)))
    rows = WinogradMethod(filters, Problem(1, 1, 4, 4, (height, 14), windows)).rows
    assert [i for part in rows for i in range(part.start, part.stop)] == list(range(tile_rows))


@pytest.mark.parametrize("method", ["banded", "taps"])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 3), (5, 2), (7, 7)], ids=str)
@pytest.mark.parametrize(
    ("strides", "dilations"), [([1, 1], [1, 1]), ([2, 2], [1, 1]), ([3, 1], [1, 2]), ([1, 1], [2, 2]), ([1, 3], [2, 1])]
)
def test_depthwise_methods_equal_plain_kernel(method, kernel, strides, dilations):
    filters = make_floats((6, 1, 1, *kernel), 2)
    for shape, pads in itertools.product(
        [(14, 15), (7, 23), (6, 50)], [([0, 0], [0, 0]), ([3, 1], [4, 0]), ([-1, 2], [3, -1])]
    ):
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        if any(n + b + e < x for n, b, e, x in zip(shape, *pads, extent, strict=True)):
            continue
        actual, expected = compute(
            method,
            make_floats((2, 6, *shape), 1),
            filters,
            strides=strides,
            dilations=dilations,
            pads_begin=pads[0],
            pads_end=pads[1],
        )
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kernel", [(3, 3), (1, 3), (5, 2), (4, 3), (2, 1)], ids=str)
@pytest.mark.parametrize("strides", [[1, 1], [2, 2], [2, 1], [1, 2]], ids=str)
@pytest.mark.parametrize("height", [5, 14, 15, 31, 32])
def test_shifted_rows_equal_plain_kernel(kernel, strides, height):
    filters = make_floats((6, 1, 1, *kernel), 2)
    padding = kernel[1] - strides[1]  # as many results in a row as the stride allows
    for begin, end in [(0, 0), (1, 1), (0, 2), (3, 1), (-1, 2), (kernel[0] + 3, kernel[0] + 9)]:
        if height + begin + end < kernel[0]:
            continue
        for left in {0, padding // 2, padding, padding + 3, -1}:
            actual, expected = compute(
                "shifted",
                make_floats((2, 6, height, 16), 1),
                filters,
                strides=strides,
                pads_begin=[begin, left],
                pads_end=[end, padding - left],
            )
            assert actual.shape[3] * strides[1] == 16
            np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)


def test_shifted_rows_read_nothing_beyond_the_data():
    memory = np.full((4, 40, 16), np.inf, F32)
    memory[1:3] = make_floats((2, 40, 16), 1)
    filters = make_floats((2, 1, 1, 3, 3), 2)
    actual, expected = compute("shifted", memory[np.newaxis, 1:3], filters, pads_begin=[1, 1], pads_end=[1, 1])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)


def test_shifted_rows_ignore_the_neighboring_row():
    data, filters = make_floats((1, 2, 40, 16), 1), make_floats((2, 1, 1, 3, 3), 2)
    data[0, 0, 7, 15] = data[0, 1, 0, 0] = data[0, 1, 39, 15] = 1e30
    actual, expected = compute("shifted", data, filters, pads_begin=[1, 1], pads_end=[1, 1])
    assert np.count_nonzero(abs(expected) > 1e20) == 6 + 4 + 4
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_shifted_rows_have_the_same_bits_for_any_number_of_threads_and_alignment(stride):
    shape = (2, 100, 64, 64)
    data = np.empty(np.prod(shape) + 1, F32)[1:].reshape(shape)
    data[...] = make_floats(shape, 1)
    attributes = {**ATTRIBUTES, "strides": [stride] * 2, "pads_begin": [1, 1], "pads_end": [1, 1]}
    kernel = ConvolutionKernel(make_floats((100, 1, 1, 3, 3), 2), attributes, PackedMemory(1 << 28))
    assert kernel.choose(shape).entry.name == "shifted rows"
    expected = kernel(data)
    for count in (1, 2, 4):
        with use_threads(count):
            np.testing.assert_array_equal(kernel(data.copy()), expected)


@pytest.mark.parametrize(
    ("data", "filters", "pads"),
    [
        ((1, 8, 64, 64), (1, 4, 8, 3, 3), (1, 1)),
        ((2, 8, 64, 63), (2, 4, 4, 3, 3), (1, 0)),
        ((1, 3, 101, 90), (1, 4, 3, 7, 7), (3, 3)),
        ((1, 8, 70, 70), (1, 4, 8, 5, 2), (0, 0)),
        ((1, 8, 70, 70), (1, 4, 8, 3, 3), (-2, -3)),
        ((1, 30, 200, 150), (1, 4, 30, 3, 3), (1, 1)),  # padded block by block
        ((1, 8, 4096), (1, 4, 8, 5), (2,)),
        ((1, 4, 10, 30, 30), (1, 4, 4, 3, 3, 3), (1, 1, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("is_aligned", [False, True])
def test_columns_with_a_stride_of_two_equal_plain_kernel(data, filters, pads, dilation, is_aligned):
    rank = len(data) - 2
    memory = make_floats((int(np.prod(data)) + 1,), 1)
    value = memory[: memory.size - 1] if is_aligned else memory[1:]
    weights = make_floats(filters, 2)
    for strides in ([2] * rank, [1] * (rank - 1) + [2]):
        actual, expected = compute(
            "columns",
            value.reshape(data),
            weights,
            strides=strides,
            dilations=[dilation] * rank,
            pads_begin=pads,
            pads_end=pads,
        )
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("batch", [1, 3])
def test_maps_of_one_element_are_multiplied_as_vectors(batch):
    data, filters = make_floats((batch, 9, 1, 1), 1), make_floats((1, 5, 9, 1, 1), 2)
    actual, expected = compute("vector", data, filters)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)
    kernel = ConvolutionKernel(filters, ATTRIBUTES, PackedMemory(0))
    assert kernel.choose(data.shape).entry.name.startswith("vector")
    assert not kernel.choose((batch, 9, 1, 2)).entry.name.startswith("vector")
    np.testing.assert_array_equal(kernel(data), actual.astype(F32))
    padded = ConvolutionKernel(filters, {**ATTRIBUTES, "pads_begin": [1, 0], "pads_end": [-1, 0]}, PackedMemory(0))
    np.testing.assert_array_equal(padded(data), 0)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((20,), (5,)),
        ((9, 12), (3, 3)),
        ((9, 12), (1, 1)),
        ((9, 11), (1, 1)),
        ((6, 7, 8), (2, 3, 1)),
        ((1, 3000), (1, 3)),
        ((90, 80), (3, 3)),
    ],
    ids=str,
)
def test_columns_and_products_equal_plain_kernel(groups, shape, kernel):
    rank = len(shape)
    filters = make_floats((groups, 40, 4, *kernel), 2)
    data = make_floats((2, groups * 4, *shape), 1)
    for strides, pads in itertools.product([[1] * rank, [2] * rank], [[0] * rank, [1] * rank]):
        attributes = {"strides": strides, "dilations": [1] * rank, "pads_begin": pads, "pads_end": pads}
        for method in ("columns", "product") if max(kernel) == 1 else ("columns",):
            actual, expected = compute(method, data, filters, **attributes)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "pads", [([1, 0], [-1, 0]), ([-1, 0], [1, 0]), ([0, 2], [0, -2]), ([-1, -1], [-1, 0])], ids=str
)
@pytest.mark.parametrize("groups", [1, 2])
def test_products_of_shifted_data_equal_plain_kernel(pads, groups):
    """The result has as many elements as the data, or fewer, but begins in the padding or after the first element."""
    data, filters = make_floats((2, 3 * groups, 6, 7), 1), make_floats((groups, 4, 3, 1, 1), 2)
    actual, expected = compute("product", data, filters, pads_begin=pads[0], pads_end=pads[1])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("attributes", [{}, {"strides": [2]}, {"pads_begin": [2], "pads_end": [1]}, {"dilations": [2]}])
def test_attributes_of_sequences_may_be_empty(attributes):
    data, filters = make_floats((2, 6, 30), 1), make_floats((6, 1, 1, 5), 2)
    options = {name: attributes.get(name, []) for name in ATTRIBUTES}
    check("GroupConvolution-1", [data, filters], options, constants=(1,), compare=compare_sums)
    assert ConvolutionKernel(filters, options, PackedMemory(1 << 20)).choose(data.shape).entry.name in (
        "shifted rows",
        "banded products",
        "taps",
    )


@pytest.mark.parametrize(
    ("operation", "data", "filters"),
    [
        ("Convolution-1", (2, 3, 20, 21), (8, 3, 3, 3)),
        ("Convolution-1", (1, 64, 14, 15), (64, 64, 3, 3)),
        ("Convolution-1", (1, 16, 10, 10), (20, 16, 1, 1)),
        ("Convolution-1", (2, 8, 50), (6, 8, 3)),
        ("GroupConvolution-1", (2, 6, 9, 9), (6, 1, 1, 3, 3)),
        ("GroupConvolution-1", (2, 6, 30, 30), (6, 1, 1, 3, 3)),
        ("GroupConvolution-1", (2, 6, 30), (6, 1, 1, 5)),
        ("GroupConvolution-1", (1, 6, 9, 9), (3, 4, 2, 3, 3)),
        ("GroupConvolution-1", (1, 3, 9, 9), (3, 4, 1, 3, 3)),
        ("Convolution-1", (1, 4, 9, 9), (3, 5, 3, 3)),  # the channels do not match
        ("Convolution-1", (0, 3, 9, 9), (3, 3, 3, 3)),
        ("Convolution-1", (1, 3, 2, 9), (3, 3, 3, 3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("strides", [1, 2])
def test_kernel_equals_plain_kernel(operation, data, filters, strides):
    rank = len(data) - 2
    for auto_pad, pads in (("explicit", 1), ("explicit", 0), ("same_upper", 0), ("same_lower", 0), ("valid", 0)):
        attributes = {
            "strides": [strides] * rank,
            "dilations": [1] * rank,
            "pads_begin": [pads] * rank,
            "pads_end": [pads] * rank,
            "auto_pad": auto_pad,
        }
        inputs = [make_floats(data, 1), make_floats(filters, 2)]
        larger = make_floats((*data[:2], *(n + 4 for n in data[2:])), 3)
        check(operation, inputs, attributes, constants=(1,), compare=compare_sums, repeat=[[larger, inputs[1]]])
        check(operation, inputs, attributes, compare=compare_sums)
        transposed = [np.ascontiguousarray(inputs[0].T).T, inputs[1]]
        check(operation, transposed, attributes, constants=(1,), compare=compare_sums)
    assert is_specialized(operation, inputs, (1,), **attributes)
    check(operation, [x.astype(np.float16) for x in inputs], attributes, constants=(1,), compare=compare_sums)


def test_depthwise_convolution_of_large_maps_equals_plain_kernel():
    """A single channel exceeds the blocks that are computed at a time."""
    inputs = [make_floats((1, 2, 250, 280), 1), make_floats((2, 1, 1, 3, 3), 2)]
    check("GroupConvolution-1", inputs, ATTRIBUTES, constants=(1,), compare=compare_sums)


@pytest.mark.parametrize("length", [30, 40000])
def test_depthwise_convolution_of_sequences_computes_what_follows(length):
    """The methods have two spatial axes; the operations that follow, and the result, have one."""
    data, filters, bias = make_floats((2, 6, length), 1), make_floats((6, 1, 1, 5), 2), make_floats((6, 1), 3)
    attributes = {"strides": [2], "dilations": [1], "pads_begin": [2], "pads_end": [1]}
    step = Step.create("Add", Operand("input", 0), Operand("constant", 0))
    chain = ElementwiseChain((step,), constants=(bias,))
    result = ConvolutionKernel(filters, attributes, PackedMemory(1 << 20), chain)(data)
    expected = find_operation("GroupConvolution-1").kernel(data, filters, **attributes) + bias
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-5)


def test_bits_do_not_depend_on_the_number_of_threads():
    cases = [
        ((1, 64, 56, 56), (1, 64, 64, 3, 3)),
        ((1, 256, 14, 14), (1, 256, 256, 3, 3)),
        ((1, 32, 56, 56), (1, 96, 32, 1, 1)),
        ((1, 512, 7, 7), (1, 512, 512, 1, 1)),
        ((1, 128, 30, 30), (1, 500, 128, 1, 1)),
        ((1, 16, 112, 112), (1, 96, 16, 1, 1)),
        ((1, 16, 80, 80), (1, 16, 16, 3, 3)),
        ((1, 512, 7, 7), (1, 512, 512, 3, 3)),
        ((1, 144, 56, 56), (144, 1, 1, 3, 3)),
        ((1, 960, 7, 7), (960, 1, 1, 3, 3)),
        ((1, 3, 112, 112), (1, 64, 3, 7, 7)),
    ]
    for data_shape, filter_shape in cases:
        data, filters = make_floats(data_shape, 1), make_floats(filter_shape, 2)
        kernel = ConvolutionKernel(filters, {**ATTRIBUTES, "pads_begin": [1, 1]}, PackedMemory(1 << 26))
        results = []
        for count in (1, 2, 4):
            with use_threads(count):
                results.append(kernel(data))
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


def test_prepared_filters_stay_within_their_memory():
    data, filters = make_floats((1, 64, 16, 16), 1), make_floats((1, 64, 64, 3, 3), 2)
    attributes = {**ATTRIBUTES, "pads_begin": [1, 1]}
    unlimited, limited = PackedMemory(1 << 26), PackedMemory(1000)
    kernel = ConvolutionKernel(filters, attributes, unlimited)
    result = kernel(data)
    assert kernel.choose(data.shape).entry.name.startswith("Winograd")
    assert unlimited.used == 16 * 64 * 64 * 4
    kernel = ConvolutionKernel(filters, attributes, limited)
    np.testing.assert_allclose(kernel(data), result, rtol=0, atol=1e-3)
    assert kernel.choose(data.shape).entry.name.startswith("columns")
    assert limited.used == 0


def test_depthwise_without_memory_for_bands_sums_taps():
    data, filters = make_floats((1, 4, 16, 40), 1), make_floats((4, 1, 1, 3, 3), 2)
    memory = PackedMemory(1 << 20)
    kernel = ConvolutionKernel(filters, ATTRIBUTES, memory)
    result = kernel(data)
    assert kernel.choose(data.shape).entry.name.startswith("banded products")
    assert memory.used == 4 * 3 * 4 * 15 * 13  # three segments of 13 results, which depend on 15 columns
    kernel(data[..., :-1, :].copy())  # another height has the same bands
    assert memory.used == 4 * 3 * 4 * 15 * 13
    for used in (0, 100):  # filters that were scaled also count, and may exceed the limit
        memory = PackedMemory(0)
        memory.reserve(used)
        kernel = ConvolutionKernel(filters, ATTRIBUTES, memory)
        np.testing.assert_allclose(kernel(data), result, rtol=0, atol=2e-5)
        assert kernel.choose(data.shape).entry.name.startswith("taps")
        assert memory.used == used


def test_bands_of_many_channels_have_half_the_width():
    data, filters = make_floats((1, 300, 16, 16), 1), make_floats((300, 1, 1, 3, 3), 2)
    attributes = ATTRIBUTES
    memory = PackedMemory(1 << 30)
    result = ConvolutionKernel(filters, attributes, memory)(data)
    assert memory.used == 4 * 300 * 3 * 9 * 7
    wide = PackedMemory(1 << 30)
    part = ConvolutionKernel(filters[:200], attributes, wide)(data[:, :200])
    assert wide.used == 4 * 200 * 3 * 16 * 14
    np.testing.assert_allclose(result[:, :200], part, rtol=0, atol=2e-5)
    np.testing.assert_allclose(result, ConvolutionKernel(filters, attributes, PackedMemory(0))(data), rtol=0, atol=2e-5)


@pytest.mark.skipif(not hasattr(mmap, "MAP_ANONYMOUS"), reason="requires anonymous mappings")
def test_memory_of_large_weights_has_its_own_pages():
    for size in (0, 5, 1 << 14):
        weights = allocate_kept((2, size))
        assert weights.shape == (2, size)
        assert weights.flags.writeable
        assert not weights.any()
    assert weights.ctypes.data % mmap.PAGESIZE == 0


def test_originals_of_prepared_filters_are_released():
    releases = []
    filters = make_floats((1, 64, 64, 3, 3), 2)
    kernel = ConvolutionKernel(filters, {**ATTRIBUTES, "pads_begin": [1, 1]}, PackedMemory(1 << 26, releases.append))
    kernel(make_floats((1, 64, 16, 16), 1))
    kernel(make_floats((1, 64, 16, 16), 2))
    assert len(releases) == 1
    assert releases[0] is filters


def test_windows_in_the_padding_alone_are_zero():
    data, filters = np.ones((1, 2, 3, 3), F32), make_floats((2, 1, 1, 3, 3), 2)
    pads = {"pads_begin": [9, 20], "pads_end": [9, 40]}
    actual, expected = compute("banded", data, filters, **pads)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5)
    actual, expected = compute("banded", data, filters, **{**pads, "strides": [40, 1]})
    np.testing.assert_array_equal(actual, 0)


def test_description_of_unknown_shape_says_so():
    filters = make_floats((4, 4, 3, 3))
    site = CallSite(find_operation("Convolution-1"), ATTRIBUTES, (None, filters), (False, False), output_count=1)
    specialize(site)
    assert (site.describe(), site.refused) == ("chosen by the shape of the data", ())


def test_reasons_against_other_methods_are_stated():
    filters = make_floats((32, 32, 3, 3))
    for limit, expected in ((0, "columns"), (1 << 20, "Winograd F(2x2, 3x3)")):
        site = CallSite(
            find_operation("Convolution-1"),
            ATTRIBUTES,
            (None, filters),
            (False, False),
            output_count=1,
            packed=PackedMemory(limit),
            shape=(1, 32, 16, 16),
        )
        specialize(site)
        assert site.describe().startswith(f"{expected}: ")
        refused = dict(site.refused)
        names = [
            "shifted rows",
            "banded products",
            "taps",
            "vector",
            "product",
            *["Winograd F(2x2, 3x3)"] * (not limit),
        ]
        assert list(refused) == names
        assert refused["banded products"] == "only for depthwise convolutions, small maps and windows"
        if not limit:
            assert refused[names[-1]] == "its weights of 0.0625 MiB exceed the memory for prepared weights"
