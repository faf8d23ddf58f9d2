"""Legacy convolutions, poolings and matrix products compared with OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest
from legacy_ir import Case, LegacyNetwork, StoredInput, make_random

from irrun.ir.legacy.window import Window
from irrun.ops._support.windows import create_windows

pytest.importorskip("openvino")

from openvino import opset13 as ops


def add_biases(node, biases, rank=4):
    return ops.add(node, ops.constant(biases.reshape(1, -1, *[1] * (rank - 2))))


def convolve(x, weights, biases=None, groups=1, **attributes):
    rank = weights.ndim
    defaults = {"strides": [1] * (rank - 2), "pads_begin": [0] * (rank - 2), "dilations": [1] * (rank - 2)}
    attributes = {**defaults, **attributes}
    attributes.setdefault("pads_end", attributes["pads_begin"])
    if groups > 1:
        weights = weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])
        node = ops.group_convolution(x, ops.constant(weights), **attributes)
    else:
        node = ops.convolution(x, ops.constant(weights), **attributes)
    return node if biases is None else add_biases(node, biases, rank)


X = make_random(2, 4, 9, 8)
W = make_random(6, 4, 3, 2, seed=1)
B = make_random(6, seed=2)
G = make_random(6, 2, 3, 2, seed=3)
V2 = {"kernel-x": 2, "kernel-y": 3, "output": 6}


def make_convolution_cases():
    yield Case(
        "Convolution", [X], lambda x: convolve(x, W, B), {"kernel": [3, 2], "output": 6}, {"weights": W, "biases": B}
    )
    yield Case(
        "Convolution",
        [X],
        lambda x: convolve(x, W, strides=[2, 1], pads_begin=[1, 0], pads_end=[2, 1], dilations=[1, 2]),
        {
            "kernel": [3, 2],
            "output": 6,
            "group": 1,
            "strides": [2, 1],
            "pads_begin": [1, 0],
            "pads_end": [2, 1],
            "dilations": [1, 2],
        },
        {"weights": W},
        version=6,
    )
    yield Case(
        "Convolution",
        [X],
        lambda x: convolve(x, G, B, 2, strides=[2, 2]),
        {"kernel": [3, 2], "output": 6, "group": 2, "strides": [2, 2]},
        {"weights": G, "biases": B},
    )
    for pad in ("same_upper", "same_lower", "valid"):
        yield Case(
            "Convolution",
            [X],
            lambda x, pad=pad: convolve(x, W, strides=[2, 2], auto_pad=pad.upper()),
            {
                "kernel": [3, 2],
                "output": 6,
                "auto_pad": pad,
                "strides": [2, 2],
                "pads_begin": [1, 1],
                "pads_end": [1, 1],
            },
            {"weights": W},
        )
    yield Case(
        "Convolution",
        [X],
        lambda x: convolve(x, W, B, strides=[2, 1], pads_begin=[2, 1], pads_end=[2, 1], dilations=[1, 2]),
        {**V2, "stride-x": 1, "stride-y": 2, "pad-x": 1, "pad-y": 2, "dilation-x": 2},
        {"weights": W, "biases": B},
        version=2,
    )
    yield Case(
        "Convolution",
        [X],
        lambda x: convolve(x, W, pads_begin=[1, 0], pads_end=[0, 1]),
        {**V2, "stride-x": 0, "stride-y": 0, "pad-y": 1, "pad-b": 0, "pad-r": 1},
        {"weights": W},
        version=2,
        data_tag="convolution_data",
    )
    volume, cube = make_random(1, 2, 4, 5, 6), make_random(3, 2, 2, 2, 3, seed=1)
    yield Case(
        "Convolution",
        [volume],
        lambda x: convolve(x, cube, pads_begin=[0, 1, 1]),
        {"kernel": [2, 2, 3], "output": 3, "pads_begin": [0, 1, 1]},
        {"weights": cube},
    )
    yield Case(
        "Convolution",
        [X, StoredInput(W), StoredInput(B)],
        lambda x, w, b: ops.add(
            ops.convolution(x, w, [1, 1], [0, 0], [0, 0], [1, 1]), ops.reshape(b, ops.constant([1, 6, 1, 1]), False)
        ),
        {"kernel": [3, 2], "output": 6},
        note="weights as inputs",
    )
    pixels = np.arange(2 * 4 * 9 * 8).reshape(2, 4, 9, 8).astype(np.uint8)
    yield Case(
        "Convolution",
        [pixels],
        lambda x: convolve(ops.convert(x, "f32"), W),
        {"kernel": [3, 2], "output": 6},
        {"weights": W},
        note="of U8",
    )


D = make_random(4, 3, 3, 2, seed=4)
DG = make_random(2, 2, 3, 3, 2, seed=5)


def deconvolve(x, weights, **attributes):
    attributes = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], **attributes}
    operation = ops.group_convolution_backprop_data if weights.ndim == 5 else ops.convolution_backprop_data
    return operation(x, ops.constant(weights), **attributes)


def make_deconvolution_cases():
    window = {"kernel": [3, 2], "strides": [2, 2]}
    yield Case(
        "Deconvolution",
        [X],
        lambda x: add_biases(deconvolve(x, D, pads_begin=[1, 0], pads_end=[0, 1]), B[:3]),
        {**window, "output": 3, "pads_begin": [1, 0], "pads_end": [0, 1]},
        {"weights": D, "biases": B[:3]},
    )
    yield Case(
        "Deconvolution",
        [X],
        lambda x: deconvolve(x, DG),
        {**window, "output": 6, "group": 2},
        {"weights": DG.reshape(4, 3, 3, 2)},
        version=6,
    )
    for pad, first in (("same_upper", 0), ("same_lower", 1)):
        yield Case(
            "Deconvolution",
            [X],
            lambda x, n=first: deconvolve(x, D, pads_begin=[n, 0], pads_end=[1 - n, 0]),
            {**window, "output": 3, "auto_pad": pad, "pads_begin": [0, 0], "pads_end": [0, 0]},
            {"weights": D},
        )
    yield Case(
        "Deconvolution",
        [X],
        lambda x: deconvolve(x, D, pads_begin=[1, 1], pads_end=[1, 1], output_padding=[1, 0]),
        {**window, "output": 3, "pads_begin": [1, 1], "pads_end": [1, 1]},
        {"weights": D},
        note="output larger than the pads imply",
    )


def make_special_convolution_cases():
    offsets = make_random(2, 12, 7, 7, seed=6)
    yield Case(
        "DeformableConvolution",
        [X, offsets],
        lambda x, o: ops.deformable_convolution(x, o, ops.constant(W), [1, 1], [0, 0], [0, 0], [1, 1]),
        {"kernel": [3, 2], "output": 6, "deformable_group": 1},
        {"weights": W},
    )
    bits = np.random.default_rng(0).integers(0, 2, (2, 4, 3, 2)).astype(np.uint8)
    signs = bits.astype(np.float32) * 2 - 1
    packed = np.packbits(bits.reshape(-1), bitorder="little")
    image = np.random.default_rng(1).integers(0, 2, (1, 4, 6, 5)).astype(np.float32)
    one, two = (np.array(n, np.float32) for n in (1, 2))

    def convolve_signs(x, border):
        """Convolve signs, with a border of -1, 0 or 1."""
        sign = ops.subtract(ops.multiply(x, ops.constant(two)), ops.constant(one))
        padded = ops.pad(sign, [0, 0, 1, 1], [0, 0, 1, 1], "constant", np.array(border, np.float32))
        return convolve(padded, signs)

    data = {"kernel": [3, 2], "output": 2, "input": 4, "mode": "xnor-popcount", "pads_begin": [1, 1]}
    for border in (0.0, 1.0, -1.0):
        yield Case(
            "BinaryConvolution",
            [image],
            lambda x, b=border: convolve_signs(x, b),
            {"pad_value": border, **data},
            {"weights": packed},
        )


def max_pool(x, **attributes):
    attributes = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], **attributes}
    return ops.max_pool(x, kernel_shape=[3, 2], **attributes).output(0)


def avg_pool(x, exclude, **attributes):
    attributes = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], **attributes}
    return ops.avg_pool(x, kernel_shape=[3, 2], exclude_pad=exclude, **attributes)


def average_with_border(x, begin, end, rounding_type):
    """Average windows including the border, but excluding the part of the last window beyond it."""
    total = avg_pool(x, False, rounding_type=rounding_type, pads_begin=begin, pads_end=end)
    if not any(begin) and not any(end):
        return total
    counts = []
    for axis, size in enumerate((3, 2)):
        n = x.get_output_shape(0)[axis + 2] + begin[axis] + end[axis]
        starts = np.arange(total.get_output_shape(0)[axis + 2]) * 2
        counts.append(np.minimum(starts + size, n) - starts)
    return ops.multiply(total, ops.constant((6 / np.multiply.outer(*counts)).astype(np.float32)))


def make_pooling_cases():
    image = make_random(1, 3, 8, 7)
    for rounding in ("floor", "ceil"):
        data = {"kernel": [3, 2], "strides": [2, 2], "rounding_type": rounding}
        padded = {**data, "pads_begin": [1, 0], "pads_end": [1, 1]}
        yield Case(
            "Pooling",
            [image],
            lambda x, r=rounding: max_pool(x, rounding_type=r, pads_begin=[1, 0], pads_end=[1, 1]),
            {**padded, "pool-method": "max", "exclude-pad": "false"},
        )
        yield Case(
            "Pooling",
            [image],
            lambda x, r=rounding: avg_pool(x, True, rounding_type=r, pads_begin=[1, 0], pads_end=[1, 1]),
            {**padded, "pool-method": "avg", "exclude-pad": "true"},
        )
        for begin, end in (([1, 0], [1, 1]), ([1, 1], [1, 1]), ([0, 0], [0, 0])):
            yield Case(
                "Pooling",
                [image],
                lambda x, r=rounding, a=begin, b=end: average_with_border(x, a, b, rounding_type=r),
                {"pads_begin": begin, "pads_end": end, **data, "pool-method": "avg", "exclude-pad": "false"},
            )
        yield Case(
            "Pooling",
            [image],
            lambda x, r=rounding: avg_pool(x, True, rounding_type=r),
            {"kernel-x": 2, "kernel-y": 3, "stride-x": 2, "stride-y": 2, "pool-method": "avg", "exclude-pad": "true"},
            version=2,
            note=f"no rounding, {rounding}",
        )
    yield Case(
        "Pooling",
        [image],
        lambda x: max_pool(x, auto_pad="same_upper"),
        {"kernel": [3, 2], "strides": [2, 2], "auto_pad": "same_upper", "pool-method": "max", "pads_begin": [1, 0]},
    )
    yield Case(
        "Pooling",
        [image],
        lambda x: ops.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3]).output(0),
        {"kernel_size": 3, "stride": 2, "pool": "caffe.PoolingParameter.MAX"},
        version=2,
    )


def make_matmul_cases():
    weights, biases = make_random(5, 24, seed=1), make_random(5, seed=2)
    for shape in ((3, 24), (3, 4, 3, 2)):
        yield Case(
            "FullyConnected",
            [make_random(*shape)],
            lambda x: ops.add(
                ops.matmul(ops.reshape(x, ops.constant([3, 24]), False), ops.constant(weights), False, True),
                ops.constant(biases.reshape(1, 5)),
            ),
            {"out-size": 5},
            {"weights": weights, "biases": biases},
            version=3,
        )
    yield Case(
        "InnerProduct",
        [make_random(3, 24)],
        lambda x: ops.matmul(x, ops.constant(weights), False, True),
        {"out-size": 5},
        {"weights": weights},
        version=2,
        data_tag="fc_data",
    )
    yield Case(
        "FullyConnected",
        [make_random(2, 3, 24)],
        lambda x: ops.matmul(x, ops.constant(weights), False, True),
        {"out-size": 5},
        {"weights": weights},
        note="rank 3",
    )
    yield Case(
        "FullyConnected",
        [make_random(3, 24), StoredInput(weights), StoredInput(biases)],
        lambda x, w, b: ops.add(ops.matmul(x, w, False, True), b),
        {"out-size": 5},
        note="weights as inputs",
    )
    a, b, c = make_random(2, 3, 4), make_random(2, 5, 4, seed=1), make_random(2, 3, 5, seed=2)
    yield Case("Gemm", [a, b], lambda a, b: ops.matmul(a, b, False, True), {"transpose_b": True})
    yield Case(
        "Gemm",
        [a, b, c],
        lambda a, b, c: ops.add(
            ops.multiply(ops.matmul(a, b, False, True), ops.constant(np.array(0.5, np.float32))),
            ops.multiply(c, ops.constant(np.array(2, np.float32))),
        ),
        {"transpose_b": "true", "alpha": 0.5, "beta": 2},
        version=6,
    )


CASES = [
    *make_convolution_cases(),
    *make_deconvolution_cases(),
    *make_special_convolution_cases(),
    *make_pooling_cases(),
    *make_matmul_cases(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer_matches_openvino(case: Case, tmp_path) -> None:
    case.check(tmp_path)


@pytest.mark.parametrize("auto_pad", ["explicit", "valid", "same_upper", "same_lower"])
def test_padding_of_windows_is_that_of_the_kernels(auto_pad: str) -> None:
    sizes, kernel, strides, dilations, begin, end = [11, 8, 5], [3, 2, 4], [2, 1, 3], [2, 3, 1], [1, 2, 0], [0, 1, 3]
    expected = create_windows(sizes, kernel, strides, dilations, begin, end, auto_pad)
    window = Window(kernel, strides, begin, end, dilations, auto_pad)
    assert window.compute_pads(sizes, expected.output_shape) == (list(expected.pads_begin), list(expected.pads_end))


def test_blob_of_wrong_size_is_reported() -> None:
    from irrun import ModelError

    net = LegacyNetwork()
    net.add_layer(
        "Convolution", [net.add_input([1, 4, 9, 8])], [[1, 6, 7, 7]], {"kernel": [3, 2], "output": 6}, {"weights": G}
    )
    with pytest.raises(ModelError, match=r"convolution1.*weights takes 288 bytes.*\[6, 4, 3, 2\] takes 576"):
        net.read()
