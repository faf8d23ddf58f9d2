"""The window attributes of convolutions and poolings, in the three spellings of IR v2 to v7."""

from __future__ import annotations

import numpy as np
import pytest
from legacy_ir import LegacyNetwork, check_declarations, make_random

import irrun
from irrun.ir.legacy.layer import LegacyLayer
from irrun.ir.legacy.window import Window

LISTS = {"kernel": "3,2"}
NUMBERS = {"kernel-y": 3, "kernel-x": 2}
CAFFE = {"kernel_size": 5}
ONES, ZEROS = [1, 1], [0, 0]

#: Attributes -> kernel, strides, pads at the beginning and at the end, dilations, auto_pad.
WINDOWS = [
    (LISTS, [3, 2], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({**LISTS, "strides": "2,4"}, [3, 2], [2, 4], ZEROS, ZEROS, ONES, "explicit"),
    ({**LISTS, "stride": "2,4"}, [3, 2], [2, 4], ZEROS, ZEROS, ONES, "explicit"),
    ({**LISTS, "pads_begin": "1,2"}, [3, 2], ONES, [1, 2], [1, 2], ONES, "explicit"),
    ({**LISTS, "pads_begin": "1,2", "pads_end": "3,0"}, [3, 2], ONES, [1, 2], [3, 0], ONES, "explicit"),
    ({**LISTS, "pads_end": "3,0"}, [3, 2], ONES, ZEROS, [3, 0], ONES, "explicit"),
    ({**LISTS, "dilations": "2,3"}, [3, 2], ONES, ZEROS, ZEROS, [2, 3], "explicit"),
    ({**LISTS, "auto_pad": "SAME_UPPER"}, [3, 2], ONES, ZEROS, ZEROS, ONES, "same_upper"),
    ({**LISTS, "auto_pad": "same_lower"}, [3, 2], ONES, ZEROS, ZEROS, ONES, "same_lower"),
    ({**LISTS, "auto_pad": "valid"}, [3, 2], ONES, ZEROS, ZEROS, ONES, "valid"),
    ({**LISTS, "auto_pad": "explicit"}, [3, 2], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({"kernel": "4"}, [4], [1], [0], [0], [1], "explicit"),
    ({"kernel": "1,2,3"}, [1, 2, 3], [1] * 3, [0] * 3, [0] * 3, [1] * 3, "explicit"),
    ({**LISTS, **NUMBERS, "kernel-x": 9}, [3, 2], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({**NUMBERS, "kernel": " "}, [3, 2], ONES, ZEROS, ZEROS, ONES, "explicit"),
    (NUMBERS, [3, 2], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({**NUMBERS, "stride-y": 2}, [3, 2], [2, 1], ZEROS, ZEROS, ONES, "explicit"),
    ({**NUMBERS, "stride-x": 4}, [3, 2], [1, 4], ZEROS, ZEROS, ONES, "explicit"),
    ({**NUMBERS, "stride-y": 0, "stride-x": 0}, [3, 2], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({**NUMBERS, "pad-y": 1}, [3, 2], ONES, [1, 0], [1, 0], ONES, "explicit"),
    ({**NUMBERS, "pad-x": 2}, [3, 2], ONES, [0, 2], [0, 2], ONES, "explicit"),
    ({**NUMBERS, "pad-y": 1, "pad-b": 3}, [3, 2], ONES, [1, 0], [3, 0], ONES, "explicit"),
    ({**NUMBERS, "pad-x": 2, "pad-r": 1}, [3, 2], ONES, [0, 2], [0, 1], ONES, "explicit"),
    ({**NUMBERS, "dilation-y": 2}, [3, 2], ONES, ZEROS, ZEROS, [2, 1], "explicit"),
    ({**NUMBERS, "dilation-x": 3}, [3, 2], ONES, ZEROS, ZEROS, [1, 3], "explicit"),
    ({**NUMBERS, "auto_pad": "same_upper"}, [3, 2], ONES, ZEROS, ZEROS, ONES, "same_upper"),
    (CAFFE, [5, 5], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({**CAFFE, "kernel_h": 3}, [3, 5], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({**CAFFE, "kernel_w": 3}, [5, 3], ONES, ZEROS, ZEROS, ONES, "explicit"),
    ({**CAFFE, "stride": 2}, [5, 5], [2, 2], ZEROS, ZEROS, ONES, "explicit"),
    ({**CAFFE, "stride": 2, "stride_h": 3}, [5, 5], [3, 2], ZEROS, ZEROS, ONES, "explicit"),
    ({**CAFFE, "stride_w": 3}, [5, 5], [1, 3], ZEROS, ZEROS, ONES, "explicit"),
    ({**CAFFE, "pad": 2}, [5, 5], ONES, [2, 2], ZEROS, ONES, "explicit"),
    ({**CAFFE, "pad": 2, "pad_h": 1}, [5, 5], ONES, [1, 2], ZEROS, ONES, "explicit"),
    ({**CAFFE, "pad_w": 1}, [5, 5], ONES, [0, 1], ZEROS, ONES, "explicit"),
    ({**CAFFE, "auto_pad": "valid"}, [5, 5], ONES, ZEROS, ZEROS, ONES, "valid"),
]


def read_window(attributes) -> Window:
    return Window.read(LegacyLayer("name", "Pooling", 7, 3, {name: str(value) for name, value in attributes.items()}))


@pytest.mark.parametrize(("attributes", "kernel", "strides", "begin", "end", "dilations", "auto_pad"), WINDOWS)
def test_window_is_read_in_all_spellings(attributes, kernel, strides, begin, end, dilations, auto_pad):
    assert read_window(attributes) == Window(kernel, strides, begin, end, dilations, auto_pad)


def test_windows_that_fit_are_not_padded():
    for auto_pad in ("same_upper", "same_lower", "valid"):
        window = Window([1, 2, 1], [2, 3, 1], [5, 5, 5], [5, 5, 5], [1, 1, 1], auto_pad)
        assert window.compute_pads((5, 6, 4), (3, 2, 4)) == ([0, 0, 0], [0, 0, 0])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        *[
            ({**LISTS, "pads_begin": "0,0", name: "1,1,1"}, f"{name} has 3 entries, but kernel has 2")
            for name in ("strides", "pads_begin", "pads_end", "dilations")
        ],
        ({**LISTS, "strides": "1,0"}, "kernel, strides and dilations must be positive"),
        ({**LISTS, "dilations": "-1,1"}, "kernel, strides and dilations must be positive"),
        ({"kernel": "3,0"}, "kernel, strides and dilations must be positive"),
        ({**NUMBERS, "dilation-x": 0}, "kernel, strides and dilations must be positive"),
        ({"kernel-x": 2}, "requires the attribute kernel-y"),
        ({}, "requires the attribute kernel_size"),
        ({**CAFFE, "stride_h": "two"}, "attribute stride_h='two' is not an integer"),
    ],
)
def test_invalid_window_is_reported(attributes, message):
    with pytest.raises(irrun.ModelError, match=message) as info:
        read_window(attributes)
    assert str(info.value).startswith("line 3: layer 'name' (Pooling, legacy): ")


def run(type, x, output, data, blobs=None, version=7):
    """Return the output of a network of one layer, and its model."""
    net = LegacyNetwork(version)
    net.add_layer(type, [net.add_input(x.shape)], [output], data, blobs)
    check_declarations(net.read(), [x])
    return net.run(x)[0], net.read()


def pool(x, kernel, strides, begin, end, size, reduce):
    """Reduce windows of an image in plain Python; `reduce` takes the elements and the number of positions."""
    rows, columns = x.shape[2:]
    result = np.zeros((*x.shape[:2], *size), np.float32)
    for i in range(size[0]):
        for j in range(size[1]):
            top, left = i * strides[0] - begin[0], j * strides[1] - begin[1]
            bottom, right = top + kernel[0], left + kernel[1]
            part = x[:, :, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
            inside = (min(bottom, rows + end[0]) - top) * (min(right, columns + end[1]) - left)
            result[:, :, i, j] = reduce(part, inside)
    return result


X = make_random(2, 3, 9, 8)

#: kernel, strides, pads, declared size of the output: of whole windows, then with one more on one axis or both.
SIZES = [
    ((3, 2), (2, 3), (0, 0), (0, 0), (4, 3)),
    ((2, 3), (3, 2), (0, 0), (0, 0), (3, 3)),
    ((2, 3), (2, 2), (0, 0), (0, 0), (5, 4)),
    ((4, 3), (3, 3), (1, 0), (0, 1), (3, 3)),
    ((4, 3), (4, 3), (1, 0), (0, 1), (3, 3)),
    ((4, 4), (3, 3), (1, 1), (1, 0), (4, 3)),
    ((3, 3), (2, 2), (1, 1), (1, 0), (5, 4)),
    ((3, 5), (4, 2), (0, 2), (2, 2), (3, 5)),
]


@pytest.mark.parametrize(("kernel", "strides", "begin", "end", "size"), SIZES)
@pytest.mark.parametrize("method", ["max", "avg", "exclude"])
def test_pooling_has_the_declared_size(kernel, strides, begin, end, size, method):
    reduce = {
        "max": lambda part, count: part.max(axis=(2, 3)),
        "avg": lambda part, count: part.sum(axis=(2, 3)) / count,
        "exclude": lambda part, count: part.mean(axis=(2, 3)),
    }[method]
    expected = pool(X, kernel, strides, begin, end, size, reduce)
    data = {"kernel": kernel, "strides": strides, "pads_begin": begin, "pads_end": end}
    data["pool-method"] = "max" if method == "max" else "avg"
    if method == "exclude":
        data["exclude-pad"] = "true"
    for rounding in ("floor", "ceil", None):
        stated = {**data, "rounding_type": rounding} if rounding else data
        actual, _ = run("Pooling", X, (2, 3, *size), stated)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_pooling_of_the_whole_image_ignores_the_window():
    for name in ("global_pool", "global_pooling"):
        data = {"kernel": "2,2", "strides": "3,3", "pads_begin": "1,1", "pool-method": "avg", name: "true"}
        actual, model = run("Pooling", X, (2, 3, 1, 1), data)
        np.testing.assert_allclose(actual, X.mean(axis=(2, 3), keepdims=True), rtol=1e-5, atol=1e-6)
        (layer,) = model.graph.find_layers("AvgPool")
        names = ("kernel", "strides", "pads_begin", "pads_end", "auto_pad", "rounding_type", "exclude-pad")
        expected = [[9, 8], [1, 1], [0, 0], [0, 0], "explicit", "floor", False]
        assert [layer.attributes[name] for name in names] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, "MaxPool"),
        ({"pool-method": "AVG"}, "AvgPool"),
        ({"pool": "caffe.PoolingParameter.AVE"}, "AvgPool"),
        ({"pool": "caffe.PoolingParameter.max"}, "MaxPool"),
        ({"pool": "caffe.PoolingParameter.MAX", "pool-method": "avg"}, "MaxPool"),
    ],
)
def test_method_of_pooling_is_read(data, expected):
    _, model = run("Pooling", X, (2, 3, 7, 7), {"kernel": "3,2", **data})
    assert len(model.graph.find_layers(expected)) == 1


@pytest.mark.parametrize("name", ["exclude-pad", "exclude_pad"])
def test_means_may_exclude_the_padding(name):
    data = {"kernel": "3,2", "strides": "2,2", "pads_begin": "1,1", "pads_end": "1,1", "pool-method": "avg"}
    for text, has_padding in (("true", False), ("false", True)):
        actual, _ = run("Pooling", np.ones((1, 1, 5, 6), np.float32), (1, 1, 3, 4), {**data, name: text})
        assert actual[0, 0, 0, 0] == pytest.approx(1 / 3 if has_padding else 1)


@pytest.mark.parametrize(("stated", "expected"), [("floor", "floor"), ("ceil", "ceil"), ("Ceiling", "ceil")])
def test_stated_rounding_counts_if_the_declared_size_fits_neither(stated, expected):
    for name in ("rounding_type", "rounding-type"):
        net = LegacyNetwork(6)
        data = {"kernel": "2,2", "strides": "3,3", name: stated}
        net.add_layer("Pooling", [net.add_input((1, 1, 9, 9))], [(1, 1, 7, 7)], data)
        (layer,) = net.read().graph.find_layers("MaxPool")
        assert layer.attributes["rounding_type"] == expected


def test_rank_of_a_pooling_is_that_of_its_window():
    net = LegacyNetwork(6)
    net.add_layer("Pooling", [net.add_input((1, 1, 9, 9))], [(1, 1, 9, 9)], {"kernel": "1,1,1"})
    with pytest.raises(irrun.ModelError, match="kernel has 3 entries, but the input has 2 spatial axes"):
        net.read()


def transpose_convolution(x, weights, strides, dilations, begin, size):
    """Scatter each element of [1, C, H, W] through weights [C, O, *kernel] into an image of `size`."""
    extents = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in
               zip(x.shape[2:], strides, weights.shape[2:], dilations, strict=True)]  # fmt: skip
    full = np.zeros((1, weights.shape[1], *(max(n, b + s) for n, b, s in zip(extents, begin, size, strict=True))))
    for i, j in np.ndindex(*x.shape[2:]):
        for k, m in np.ndindex(*weights.shape[2:]):
            row, column = i * strides[0] + k * dilations[0], j * strides[1] + m * dilations[1]
            full[0, :, row, column] += x[0, :, i, j] @ weights[:, :, k, m]
    return full[:, :, begin[0] : begin[0] + size[0], begin[1] : begin[1] + size[1]]


@pytest.mark.parametrize(
    ("data", "size", "begin"),
    [
        ({"strides": "2,3"}, (7, 8), (0, 0)),
        ({"strides": "2,3", "pads_begin": "1,0", "pads_end": "0,2"}, (6, 6), (1, 0)),
        ({"strides": "2,3", "pads_begin": "1,1", "pads_end": "1,1"}, (6, 8), (1, 1)),
        ({"strides": "3,2", "dilations": "2,1"}, (11, 6), (0, 0)),
        ({"strides": "2,3", "auto_pad": "same_upper"}, (6, 7), (0, 0)),
        ({"strides": "2,3", "auto_pad": "same_lower"}, (6, 7), (1, 1)),
        ({"strides": "2,3", "auto_pad": "same_upper"}, (4, 6), (1, 1)),
        ({"strides": "2,3", "auto_pad": "same_upper"}, (8, 9), (0, 0)),
        ({"strides": "2,3", "auto_pad": "same_lower"}, (8, 9), (0, 0)),
        ({"strides": "2,3", "auto_pad": "valid", "pads_begin": "1,1", "pads_end": "1,1"}, (7, 8), (0, 0)),
    ],
)
def test_deconvolution_has_the_declared_size(data, size, begin):
    x, weights = make_random(1, 2, 3, 3), make_random(2, 4, 3, 2, seed=1)
    strides, dilations = ([int(n) for n in data.get(name, "1,1").split(",")] for name in ("strides", "dilations"))
    expected = transpose_convolution(x, weights, strides, dilations, begin, size)
    data = {"kernel": "3,2", "output": 4, "group": 1, **data}
    actual, _ = run("Deconvolution", x, (1, 4, *size), data, {"weights": weights})
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "begin", "end"),
    [
        ({"auto_pad": "same_upper"}, (1, 0), (1, 1)),
        ({"auto_pad": "same_lower"}, (1, 1), (1, 0)),
        ({"auto_pad": "valid"}, (0, 0), (0, 0)),
        ({"pads_begin": "0,2", "pads_end": "0,0"}, (0, 2), (0, 0)),
        ({"pads_begin": "0,0", "pads_end": "1,0"}, (0, 0), (1, 0)),
        ({"pads_begin": "2,1", "pads_end": "0,3"}, (2, 1), (0, 3)),
    ],
)
def test_binary_convolution_pads_as_stated(data, begin, end):
    """Zeros of the padding count as -1 if `pad_value` is negative."""
    bits = np.random.default_rng(0).integers(0, 2, (3, 4, 3, 2)).astype(np.uint8)
    x = np.random.default_rng(1).integers(0, 2, (1, 4, 6, 5)).astype(np.float32)
    size = (4 + begin[0] + end[0], 4 + begin[1] + end[1])
    padded = np.pad(x * 2 - 1, ((0, 0), (0, 0), (begin[0], end[0]), (begin[1], end[1])), constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), axis=(2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, bits * 2.0 - 1)
    data = {"kernel": "3,2", "output": 3, "pad_value": -1.0, **data}
    blobs = {"weights": np.packbits(bits.reshape(-1), bitorder="little"), "biases": np.float32([1, 2, 3])}
    actual, _ = run("BinaryConvolution", x, (1, 3, *size), data, blobs)
    np.testing.assert_array_equal(actual, expected + np.float32([1, 2, 3]).reshape(1, 3, 1, 1))


def test_deformable_convolution_has_groups_and_biases():
    """Without offsets it is a Convolution."""
    x, weights, biases = make_random(1, 4, 6, 5), make_random(6, 2, 3, 2, seed=1), make_random(6, seed=2)
    window = {"kernel": "3,2", "strides": "2,1", "pads_begin": "1,0", "pads_end": "0,1", "output": 6, "group": 2}
    expected, _ = run("Convolution", x, (1, 6, 3, 5), window, {"weights": weights, "biases": biases})
    for count in (1, 2):
        for stored in (False, True):
            net = LegacyNetwork(7)
            sources = [net.add_input(x.shape), net.add_input((1, 12 * count, 3, 5))]
            blobs = {"weights": weights, "biases": biases}
            if stored:
                sources += [net.add_const(weights), net.add_const(biases)]
                blobs = {}
            data = {**window, "deformable_group": count} if count > 1 else window
            net.add_layer("DeformableConvolution", sources, [(1, 6, 3, 5)], data, blobs)
            offsets = np.zeros((1, 12 * count, 3, 5), np.float32)
            np.testing.assert_allclose(net.run(x, offsets)[0], expected, rtol=1e-4, atol=1e-5)
            check_declarations(net.read(), [x, offsets])
            (layer,) = net.read().graph.find_layers("DeformableConvolution")
            assert layer.attributes["deformable_group"] == count


@pytest.mark.parametrize("type", ["Convolution", "Deconvolution"])
def test_biases_are_blobs_or_inputs(type):
    x, weights, biases = make_random(1, 2, 4, 4), make_random(2, 2, 1, 1, seed=1), make_random(2, seed=2)
    data = {"kernel": "1,1", "output": 2}
    plain, _ = run(type, x, (1, 2, 4, 4), data, {"weights": weights})
    expected = plain + biases.reshape(1, 2, 1, 1)
    actual, _ = run(type, x, (1, 2, 4, 4), data, {"weights": weights, "biases": biases})
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    for count, value in ((1, plain), (2, expected)):
        net = LegacyNetwork(7)
        sources = [net.add_input(x.shape), *map(net.add_const, (weights, biases)[:count])]
        net.add_layer(type, sources, [(1, 2, 4, 4)], data)
        np.testing.assert_allclose(net.run(x)[0], value, rtol=1e-6)
